#!/usr/bin/env bash
# What sdk/abi/abi.sh lets pass and what it refuses, tried on changed copies of the public headers, on a small library that changes,
# and on the real library beside a baseline that had more.
#     abi_mutations.sh LIBRARY SOURCE WORK COMPILER
set -euo pipefail

LIBRARY=$1 SOURCE=$2 WORK=$3 CC=$4
ABI=$SOURCE/sdk/abi/abi.sh
HEADERS=$WORK/include/coordinator
FAILED=0

# name | file | sed script | exit status | what it has to say
HEADER_MUTATIONS=(
    "nothing is changed|base.h||0|as it was"
    "a comment is changed|base.h|s/Why something at load time failed/What failed at load time/|0|as it was"
    "a member is inserted|request.h|s/^    void (\*destroy)(void \*value);/    void *inserted;\n&/|2|coord_slot_type.destroy"
    "a member is added at the end of a struct with a size|response.h|s/^} coord_writer_type;/    void *later;\n&/|1|grown: struct coord_writer_type"
    "a member is added at the end of a struct without|base.h|s/^} coord_slice;/    void *later;\n&/|2|changed: struct coord_slice"
    "a member is removed|step.h|/void (\*thread_stop)/d|2|coord_step_type.thread_stop"
    "two members change places|plugin.h|s/^    uint32_t abi_major;/    uint32_t x;/; s/^    uint32_t abi_minor;/    uint32_t abi_major;/; s/^    uint32_t x;/    uint32_t abi_minor;/|2|coord_plugin_descriptor.abi_m"
    "a member becomes wider|call.h|s/^    uint32_t size; .*sizeof(coord_upstream_options).*/    uint64_t size;/|2|coord_upstream_options.size"
    "an enumerator gets another value|base.h|s/COORD_END = 2,/COORD_END = 3,/|2|changed: COORD_END = 2 (now: COORD_END = 3)"
    "an enumerator is added|response.h|s/^    COORD_WRITER_REWRITES = 1 << 0,/&\n    COORD_WRITER_LATER = 1 << 9,/|1|added: COORD_WRITER_LATER = 512"
    "a parameter changes its type|request.h|s/coord_request_alloc(coord_request \*request, size_t size)/coord_request_alloc(coord_request *request, int size)/|2|view_coord_request_alloc"
    "a function returns something else|request.h|s/COORD_API int32_t coord_request_api(/COORD_API int64_t coord_request_api(/|2|view_coord_request_api"
    "a function is declared no more|request.h|/coord_request_query/d|3|is not declared"
    "a member is inserted, and the major moves in the header only|request.h plugin.h|s/^    void (\*destroy)(void \*value);/    void *inserted;\n&/; s/COORD_ABI_MAJOR 1/COORD_ABI_MAJOR 2/|3|SONAME has 1 and COORD_ABI_MAJOR is 2"
)

# expect NAME WANTED-STATUS TEXT COMMAND…
expect() {
    local name=$1 wanted=$2 text=$3 status=0 said

    shift 3
    said=$("$@" 2>&1) || status=$?
    if [[ $status == "$wanted" && $said == *"$text"* ]]; then
        printf 'ok: %s\n' "$name"
    else
        printf 'FAILED: %s: exit %s instead of %s, or no "%s" in:\n%s\n' "$name" "$status" "$wanted" "$text" "$said"
        FAILED=1
    fi
}

try_headers() {
    local row name files script wanted text file before

    for row in "${HEADER_MUTATIONS[@]}"; do
        IFS='|' read -r name files script wanted text <<<"$row"
        rm -rf "$WORK/include"
        cp -r "$SOURCE/sdk/include" "$WORK/include"
        for file in $files; do
            before=$(cksum <"$HEADERS/$file")
            sed -i "$script" "$HEADERS/$file"
            [[ -z $script || $(cksum <"$HEADERS/$file") != "$before" ]] || {
                printf 'FAILED: %s: %s is not changed by it\n' "$name" "$file"
                FAILED=1
            }
        done
        expect "$name" "$wanted" "$text" "$ABI" check --library "$LIBRARY" --headers "$WORK/include" --baseline "$WORK/baseline" --cc "$CC"
    done
}

# A library of a header and a source of its own: build_small MAJOR DECLARATION DEFINITION
build_small() {
    rm -rf "$WORK/small" && mkdir -p "$WORK/small/coordinator"
    {
        printf '#pragma once\n#include <stdint.h>\n#define COORD_ABI_MAJOR %s\n#define COORD_ABI_MINOR 0\n' "$1"
        printf 'typedef struct coord_thing {\n    uint32_t size;\n    uint32_t count;\n} coord_thing;\n'
        printf 'int coord_stays(const coord_thing *thing);\n%s\n' "$2"
    } >"$WORK/small/coordinator/small.h"
    printf '#include <coordinator/small.h>\nint coord_stays(const coord_thing *thing) { return thing->size != 0; }\n%s\n' "$3" >"$WORK/small/small.c"
    printf 'COORDINATOR_1.0 { global: coord_*; local: *; };\n' >"$WORK/small/map"
    "$CC" -g -shared -fPIC -I "$WORK/small" -Wl,--version-script="$WORK/small/map" -Wl,-soname,"libsmall.so.$1" -o "$WORK/small.so" "$WORK/small/small.c"
}

# shellcheck disable=SC2317 # called by expect
small() { "$ABI" "$1" --library "$WORK/small.so" --headers "$WORK/small" --baseline "$WORK/small-baseline" --cc "$CC"; }

try_library() {
    mkdir -p "$WORK/small-baseline"
    build_small 1 'int coord_goes(int a);' 'int coord_goes(int a) { return a; }'
    expect "a first baseline is made" 0 "made anew: layout.txt" small update
    expect "the same library" 0 "as it was" small check
    build_small 1 'int coord_goes(int a); int coord_comes(void);' 'int coord_goes(int a) { return a; } int coord_comes(void) { return 1; }'
    expect "a symbol is added" 1 "added: symbol coord_comes" small check
    expect "the addition is taken into the baseline" 0 "made anew: symbols.txt" small update
    expect "and is known then" 0 "as it was" small check
    build_small 1 '' ''
    expect "symbols are removed" 2 "removed: symbol coord_goes" small check
    expect "the removal is not taken into the baseline" 2 "breaks plugins" small update
    build_small 1 'int coord_goes(long a); int coord_comes(void);' 'int coord_goes(long a) { return a != 0; } int coord_comes(void) { return 1; }'
    expect "a symbol's type is changed" 2 "view_coord_goes" small check
    build_small 2 '' ''
    expect "symbols are removed and the major moves" 1 "COORD_ABI_MAJOR has moved" small check
    expect "the new major is taken into the baseline" 0 "made anew" small update
    expect "and is the one that counts then" 0 "as it was" small check
}

# What the real library would look like to a baseline that had one function more.
try_baseline() {
    printf 'coord_request_gone COORDINATOR_1.0\n' >>"$WORK/baseline/symbols.txt"
    expect "the library lacks a symbol of the baseline" 2 "removed: symbol coord_request_gone" \
        "$ABI" check --library "$LIBRARY" --headers "$SOURCE/sdk/include" --baseline "$WORK/baseline" --cc "$CC"
}

rm -rf "$WORK"
mkdir -p "$WORK/baseline"
"$ABI" update --library "$LIBRARY" --headers "$SOURCE/sdk/include" --baseline "$WORK/baseline" --cc "$CC" >/dev/null
try_headers
try_library
try_baseline
rm -rf "$WORK"
exit "$FAILED"
