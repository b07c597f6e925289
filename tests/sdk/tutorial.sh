#!/usr/bin/env bash
# Does what the tutorial says: runs the ```sh blocks of "Ten minutes" in docs/writing-a-step.md, in order, in an empty folder, with
# an installed coordinator on PATH; then looks for the lines of its ```output blocks in what that printed, in order.
#     tutorial.sh DOCUMENT BUILD WORK
set -euo pipefail
document=$1 build=$2 work=$3

# blocks KIND: the lines of the part's blocks of that kind.
blocks() {
    awk -v begin="\`\`\`$1" '/^## / { part = $0 == "## Ten minutes" } /^```/ { on = part && $0 == begin; next } on' "$document"
}

free_port() {
    local port=$1

    while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
        port=$((port + 1))
    done
    echo "$port"
}

rm -rf "$work"
mkdir -p "$work/folder"
cmake --install "$build" --prefix "$work/prefix" >/dev/null
blocks sh >"$work/commands"
blocks output >"$work/wanted"
[[ -s $work/commands && -s $work/wanted ]] || { echo "no commands in $document" >&2 && exit 1; }

PORT=$(free_port $((20000 + RANDOM % 5000)))
METRICS_PORT=$(free_port $((PORT + 5000)))
export PORT METRICS_PORT PATH=$work/prefix/bin:$PATH
unset COORDINATOR_PLUGIN_PATH
# A command that fails leaves no server behind.
if ! (cd "$work/folder" && sh -eux -c 'trap "[ \$? = 0 ] || kill \${!:-}" EXIT; . "$1"' sh "$work/commands") >"$work/printed" 2>"$work/errors"; then
    tail -n 30 "$work/printed" "$work/errors" >&2
    exit 1
fi
awk 'FNR == NR { wanted[++count] = $0; next }
     { rest = $0; while (at < count && (found = index(rest, wanted[at + 1]))) rest = substr(rest, found + length(wanted[++at])) }
     END { if (at < count) { print "not printed, or not in this order: " wanted[at + 1]; exit 1 } }' \
    "$work/wanted" "$work/printed" || { cat "$work/printed" >&2 && exit 1; }
rm -rf "$work"
