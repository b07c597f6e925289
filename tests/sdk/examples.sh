#!/bin/sh
# Installs the build tree to a place of its own and builds and runs the out-of-tree examples against it: with CMake and with
# make, by each compiler given, without warnings.
#     examples.sh BUILD SOURCE "COMPILER …" [SANITIZER FLAGS]
set -eu
build=$1 source=$2 compilers=$3 sanitize=${4:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warnings="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"

cmake --install "$build" --prefix "$work/prefix" >/dev/null
pkgconfig=$(dirname "$(find "$work/prefix" -name coordinator-testkit.pc)")
for example in hello-step writer-shout; do
    for compiler in $compilers; do
        echo "$example by $compiler"
        cp -r "$source/sdk/examples/$example" "$work/src"
        cmake -S "$work/src" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_C_COMPILER="$compiler" \
            -DCMAKE_C_FLAGS="$warnings $sanitize" >/dev/null
        cmake --build "$work/build" >/dev/null
        ctest --test-dir "$work/build" --output-on-failure >"$work/log" || { cat "$work/log"; exit 1; }
        PKG_CONFIG_PATH=$pkgconfig make -C "$work/src" CC="$compiler" CFLAGS="-O1 $warnings $sanitize" check
        for plugin in "$work"/build/*.so "$work"/src/*.so; do
            LD_LIBRARY_PATH=$(dirname "$pkgconfig") COORDINATOR_PLUGIN_PATH= "$work/prefix/bin/coordinator" steps >/dev/null
            nm -D --defined-only "$plugin" | awk '$3 != "coord_plugin" && $3 !~ /^__odr_asan/ {print "exports " $3; bad = 1} END {exit bad}'
            (cd "$(dirname "$plugin")" && "$work/prefix/bin/coordinator" check --config "$work"/src/*.yaml)
        done
        rm -rf "$work/src" "$work/build"
    done
done
