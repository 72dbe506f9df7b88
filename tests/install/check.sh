#!/bin/sh
# Installs a build (sh tests/install/check.sh BUILD), moves the copy elsewhere, and uses it as a
# stranger would: symbols, pkg-config, find_package.
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$build/install-check
rm -rf "$work"
mkdir -p "$work"
cmake --install "$build" --prefix "$work/first" > "$work/log"
prefix=$work/moved
mv "$work/first" "$prefix"

# silent FILE: a compiler that has something to say of a first program spoils the first impression.
silent() {
    [ ! -s "$1" ] || { cat "$1"; exit 1; }
}

library=$(find "$prefix" -name 'libclattn.so')
PKG_CONFIG_PATH=$(dirname "$library")/pkgconfig
LD_LIBRARY_PATH=$(dirname "$library")
export PKG_CONFIG_PATH LD_LIBRARY_PATH

echo "symbols: all exported ones are public, all public ones are exported"
nm -D --defined-only "$library" | awk '{ print $3 }' | sort > "$work/exported"
cat "$prefix"/include/clattn/*.h | tr '\n' ' ' | sed 's/CLATTN_API/\n&/g' |
    sed -n 's/^CLATTN_API [^(]*[ *]\(clattn_[a-z_]*\)(.*/\1/p' | sort > "$work/declared"
diff "$work/declared" "$work/exported"
test -s "$work/exported"

echo "pkg-config"
cc -std=c11 -DOUTSIDE_VERSION=120 -o "$work/by-pkg-config" "$here/outside.c" \
    $(pkg-config --cflags --libs clattn) -lm 2> "$work/notes"
silent "$work/notes"
timeout 60 "$work/by-pkg-config"

echo "the first program of README.md prints what stands there"
readme=$here/../../README.md
sed -n '/^```c$/,/^```$/p' "$readme" | sed '/^```/d' > "$work/first.c"
cc -std=c11 -o "$work/first" "$work/first.c" $(pkg-config --cflags --libs clattn) 2> "$work/notes"
silent "$work/notes"
timeout 60 "$work/first" > "$work/printed"
sed -n 's/^    \(CLATTN_SUCCESS: .*\)/\1/p' "$readme" | diff - "$work/printed"

echo "find_package"
cmake -S "$here" -B "$work/outside" -DCMAKE_PREFIX_PATH="$prefix" >> "$work/log"
cmake --build "$work/outside" >> "$work/log" 2> "$work/notes"
silent "$work/notes"
timeout 60 "$work/outside/outside_shared"
timeout 60 "$work/outside/outside_static"

echo "manual pages, and the API reference if it was made"
for page in "$build"/doc/*.1; do
    [ ! -e "$page" ] || cmp "$page" "$prefix/share/man/man1/${page##*/}"
done
[ ! -e "$build/doc/reference.built" ] || test -s "$prefix/share/doc/clattn/reference/index.html"
