#!/bin/sh
# libcoordinator.so exports what sdk/abi/symbols.txt lists and nothing else; a plugin exports coord_plugin and nothing else.
#     symbols.sh LIBRARY LIST PLUGIN…         (after an intended change: symbols.sh LIBRARY > LIST)
set -eu
library=$1
exported() {
    nm -D --defined-only --with-symbol-versions "$1" | awk '$2 != "A" && $3 !~ /^__odr_asan/ {print $3}' | sed 's/@@/ /' | LC_ALL=C sort
}
if [ $# -eq 1 ]; then
    exported "$library"
    exit
fi
list=$2
shift 2
made=$(mktemp)
trap 'rm -f "$made"' EXIT
exported "$library" >"$made"
if ! diff -u "$list" "$made"; then
    echo "$library exports other symbols than $list; once released, they are only added, in a new version node. To keep the change: $0 $library >$list"
    exit 1
fi
for plugin in "$@"; do
    names=$(exported "$plugin")
    if [ "$names" != coord_plugin ]; then
        echo "$plugin exports:" $names
        exit 1
    fi
done
