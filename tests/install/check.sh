#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
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

library=$(find "$prefix" -name 'libclattn.so')
PKG_CONFIG_PATH=$(dirname "$library")/pkgconfig
LD_LIBRARY_PATH=$(dirname "$library")
export PKG_CONFIG_PATH LD_LIBRARY_PATH

# symbols LIBRARY HEADER...: all exported ones are public, all public ones are exported.
symbols() {
    echo "symbols of ${1##*/}"
    nm -D --defined-only "$1" | awk '{ print $3 }' | sort > "$work/exported"
    shift
    cat "$@" | tr '\n' ' ' | sed 's/CLATTN_API/\n&/g' |
        sed -n 's/^CLATTN_API [^(]*[ *]\(clattn_[a-z_]*\)(.*/\1/p' | sort > "$work/declared"
    diff "$work/declared" "$work/exported"
    test -s "$work/exported"
}

mpi=$(find "$prefix" -name 'libclattn_mpi.so')
echo "until 1.0 a shared library's name changes with the minor version"
version=$(sed -n 's/.*CLATTN_VERSION_STRING "\([0-9.]*\)".*/\1/p' "$prefix/include/clattn/version.h")
case $version in 0.*) name=${version%.*} ;; *) name=${version%%.*} ;; esac
for file in "$library" $mpi; do
    objdump -p "$file" | grep -q "SONAME *${file##*/}[.]$name\$"
done
[ -z "$mpi" ] || symbols "$mpi" "$prefix/include/clattn/mpi.h"
symbols "$library" $(find "$prefix/include/clattn" -name '*.h' ! -name mpi.h)
if [ -n "$mpi" ]; then
    echo "pkg-config of libclattn_mpi"
    pkg-config --libs clattn-mpi | grep -q -e '-lclattn_mpi -lclattn\|-lclattn_mpi.*-lclattn'
fi

. "$here/use.sh"

if echo 'int word;' | cc -m32 -x c -c -o "$work/word.o" - 2> /dev/null; then
    echo "a 32-bit target is refused with a sentence"
    ! cmake -S "$here/../.." -B "$work/narrow" -DCMAKE_C_FLAGS=-m32 \
        -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY > "$work/narrow.log" 2>&1
    grep -q "clattn needs a 64-bit target" "$work/narrow.log"
fi

echo "manual pages, and the API reference if it was made"
for page in "$build"/doc/*.1; do
    [ ! -e "$page" ] || cmp "$page" "$prefix/share/man/man1/${page##*/}"
done
[ ! -e "$build/doc/reference.built" ] || test -s "$prefix/share/doc/clattn/reference/index.html"
