#!/usr/bin/env bash
# Is the ABI what it was? Compares a built library and the public headers with the baseline kept beside this script, and makes
# the baseline anew.
#
#     abi.sh check|update --library FILE --headers DIR [--baseline DIR] [--cc COMPILER]
#
# The baseline: symbols.txt (what the library exports), layout.txt (each struct's members, each enumerator, and the version),
# libcoordinator.abi (the functions' types, as abidw writes them). For the latter a small library is built, which holds a pointer to
# each exported function, typed by the headers and linked with the library: so it has the public types and no others, and is
# the same for every compiler, machine and way of building; what is behind the opaque types may change as it likes.
# Within a major they only grow: a symbol, a struct, an enumerator, or members at the end of a struct that begins with `size`.
# `check` ends with 0 when all is as it was, with 1 when something was added (the baseline has to be made anew) and with 2 when
# something was changed or removed. `update` refuses the latter, unless COORD_ABI_MAJOR has moved.
set -euo pipefail
export LC_ALL=C

HERE=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
BASELINE=$HERE
CC=cc
LIBRARY=
HEADERS=
PUBLIC='COORDINATOR_[0-9]' # version nodes; the other one is for the program and the test kit of the same build
BROKEN=0 GROWN=0 MOVED=0

die() {
    printf 'abi: %s\n' "$*" >&2
    exit 3
}

say() { printf 'abi: %s\n' "$*"; }

# ---------------------------------------------------------------- what is there now

write_symbols() {
    nm -D --defined-only --with-symbol-versions "$LIBRARY" | sed -n 's/^[0-9a-f]* [^A] \([^ ]*\)$/\1/p' | sed 's/@@/ /' |
        grep -v '^__odr_asan' | sort >"$1"
}

# The public headers but the test kit's, which is a static library of the same build.
headers() { find "$HEADERS/coordinator" -name '*.h' ! -name testkit.h | sort; }

includes() { headers | sed 's,.*/,#include <coordinator/,; s,$,>,'; }

write_layout() {
    {
        printf '#include <stddef.h>\n#include <stdio.h>\n'
        includes
        headers | tr '\n' '\0' | xargs -0 cat | awk -f "$HERE/layout.awk"
    } >"$NOW/layout.c"
    "$CC" -std=c11 -I "$HEADERS" -o "$NOW/layout" "$NOW/layout.c" || die "the program that prints the layout does not compile"
    "$NOW/layout" >"$1"
}

# A symbol that no header declares does not compile, and one that is declared otherwise than it was has another type.
write_view() {
    {
        includes
        sed -n "s/^\\([a-z_0-9]*\\) $PUBLIC.*/extern __typeof__(\\&\\1) view_\\1;\\n__typeof__(\\&\\1) view_\\1 = \\&\\1;/p" "$NOW/symbols.txt"
    } >"$NOW/view.c"
    (cd "$NOW" && "$CC" -std=c11 -g -shared -fPIC -I "$HEADERS" -o view.so view.c "$LIBRARY" -Wl,-z,defs) ||
        die "an exported symbol is not declared in the public headers"
}

write_types() {
    (cd "$NOW" && abidw --no-corpus-path --no-comp-dir-path --no-show-locs --no-parameter-names --no-elf-needed --no-architecture \
        --type-id-style hash view.so) >"$1"
}

# ---------------------------------------------------------------- what has become of it

version_of() { sed -n 's/^abi \([0-9]*\)\.\([0-9]*\)$/\1 \2/p' "$1"; }

# Lines of the first file that are not in the second.
only_in() { comm -23 <(sort "$1") <(sort "$2"); }

# A struct may grow at its end when its first member says how large it is.
may_grow() { grep -q "^$1\.size 0 4$" "$BASELINE/layout.txt"; }

judge_layout() {
    local line name was now

    while read -r line; do
        name=${line%% *}
        if [[ $line == "abi "* ]]; then
            continue
        elif [[ $line == *" size "* ]]; then
            was=${line##* } now=$(sed -n "s/^$name size //p" "$NOW/layout.txt")
            [[ -n $now ]] || { say "removed: struct $name" && BROKEN=1 && continue; }
            may_grow "$name" && ((now > was)) && say "grown: struct $name" && GROWN=1 && continue
            say "changed: struct $name has $now bytes, and had $was" && BROKEN=1
        else
            now=$(grep "^$name " "$NOW/layout.txt") || now="nothing of that name"
            say "changed: $line (now: $now)" && BROKEN=1
        fi
    done < <(only_in "$BASELINE/layout.txt" "$NOW/layout.txt")
    while read -r line; do
        name=${line%% *}
        grep -q "^$name " "$BASELINE/layout.txt" || { say "added: $line" && GROWN=1; }
    done < <(only_in "$NOW/layout.txt" "$BASELINE/layout.txt" | grep -v '^abi ')
}

judge_symbols() {
    local line

    while read -r line; do
        say "removed: symbol $line" && BROKEN=1
    done < <(only_in "$BASELINE/symbols.txt" "$NOW/symbols.txt" | grep " $PUBLIC")
    while read -r line; do
        say "added: symbol $line" && GROWN=1
    done < <(only_in "$NOW/symbols.txt" "$BASELINE/symbols.txt")
    [[ -z $(only_in "$BASELINE/symbols.txt" "$NOW/symbols.txt") ]] || GROWN=1
}

# abidiff's exit status is a set of bits: 1 and 2 are failures of its own, 4 a difference, 8 one that cannot be compatible.
# Whatever it does not take for an addition is one that is not ours to make.
judge_types() {
    local output status=0

    output=$(abidiff --suppressions "$HERE/additions.ini" --no-show-locs --no-architecture --no-added-syms \
        "$BASELINE/libcoordinator.abi" "$NOW/view.so" 2>&1) || status=$?
    ((status < 128 && (status & 3) == 0)) || die "abidiff fails: $output"
    ((status == 0)) || { say "changed: what abidiff says" && printf '%s\n' "$output" && BROKEN=1; }
}

# The library's SONAME is the major, so that the dynamic linker knows as well.
check_soname() {
    local soname

    soname=$(readelf -d "$LIBRARY" | sed -n 's/.*(SONAME).*\[.*\.so\.\([0-9]*\)\]/\1/p')
    [[ -z $soname || $soname == "$1" ]] || die "the library's SONAME has $soname and COORD_ABI_MAJOR is $1: move both (CMakeLists.txt, plugin.h)"
}

compare() {
    local was now

    write_symbols "$NOW/symbols.txt"
    write_layout "$NOW/layout.txt"
    write_view
    [[ -e $BASELINE/layout.txt ]] || return 0
    read -r was _ <<<"$(version_of "$BASELINE/layout.txt")"
    read -r now _ <<<"$(version_of "$NOW/layout.txt")"
    MOVED=$((now > was))
    check_soname "$now"
    judge_symbols
    judge_layout
    judge_types
    [[ $(version_of "$BASELINE/layout.txt") == "$(version_of "$NOW/layout.txt")" ]] || GROWN=1
}

# ---------------------------------------------------------------- what to do

cmd_check() {
    compare
    if ((MOVED)); then
        say "COORD_ABI_MAJOR has moved: make the baseline anew (./dev abi update)"
        return 1
    elif ((BROKEN)); then
        say "what is above breaks plugins that are built already. Within a major, symbols and enumerators are only added, and" \
            "members only at the end of a struct that begins with \`size\`: undo it, or move COORD_ABI_MAJOR"
        return 2
    elif ((GROWN)); then
        say "what is above is new: make the baseline anew (./dev abi update)"
        return 1
    fi
    say "as it was"
}

cmd_update() {
    local file status=0

    cmd_check || status=$?
    ((status < 2)) || return "$status"
    write_types "$NOW/libcoordinator.abi"
    for file in symbols.txt layout.txt libcoordinator.abi; do
        cmp -s "$NOW/$file" "$BASELINE/$file" || { cp "$NOW/$file" "$BASELINE/$file" && say "made anew: $file"; }
    done
}

COMMAND=${1:-}
[[ $COMMAND == check || $COMMAND == update ]] || die "say check or update"
shift
while (($# > 1)); do
    case $1 in
    --library) LIBRARY=$2 ;;
    --headers) HEADERS=$2 ;;
    --baseline) BASELINE=$2 ;;
    --cc) CC=$2 ;;
    *) die "unknown argument $1" ;;
    esac
    shift 2
done
[[ -e $LIBRARY && -d $HEADERS ]] || die "--library and --headers are needed"
LIBRARY=$(readlink -f "$LIBRARY") HEADERS=$(readlink -f "$HEADERS")
NOW=$(mktemp -d)
trap 'rm -rf "$NOW"' EXIT
"cmd_$COMMAND"
