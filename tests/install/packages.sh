#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/install/packages.sh FOLDER: makes the source tarball of this tree, builds the Debian packages of it
# without a network, looks through them with lintian, installs them, uses them as a stranger would, and
# removes them again. As root, with what `sh tests/packages.sh build` installs, and lintian.
set -eu
cd "$(dirname "$0")/../.."
here=$(pwd)/tests/install
rm -rf "$1"
mkdir -p "$1"
work=$(cd "$1" && pwd)
prefix=/usr

remove() {
    apt-get -qqy purge clattn-tools libclattn-dev libclattn0.1 > "$work/purge.log" 2>&1 || true
}
trap remove EXIT

echo "the tarball builds by itself"
cmake -B "$work/tree" -DCLATTN_BUILD_TESTS=OFF > "$work/tree.log"
(cd "$work/tree" && cpack -G TGZ --config CPackSourceConfig.cmake) > "$work/tarball.log"
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:[A-Z]*=//p' "$work/tree/CMakeCache.txt")
tar -C "$work" -xzf "$work/tree/clattn-$version.tar.gz"
unshare --net sh -c '
    cmake -S "$1" -B "$2" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DCLATTN_BUILD_TESTS=OFF &&
        cmake --build "$2" --parallel "$(nproc)" && cd "$2" && cpack -G DEB' \
    sh "$work/clattn-$version" "$work/build" > "$work/build.log" 2>&1 || { tail -n 120 "$work/build.log"; exit 1; }

echo "lintian: $(ls "$work/build" | grep -c '[.]deb$') packages without errors"
lintian --allow-root --fail-on error "$work"/build/*.deb > "$work/lintian.log" 2>&1 ||
    { cat "$work/lintian.log"; exit 1; }

apt-get -qqy install "$work"/build/*.deb > "$work/install.log" 2>&1 || { cat "$work/install.log"; exit 1; }
. "$here/use.sh"

echo "programs and their manual pages"
for program in clattn-bench clattn-tune; do
    [ "$("$program" --version)" = "$program $version" ]
    test -s "/usr/share/man/man1/$program.1.gz"
done

echo "completion"
bash -c '
    . /usr/share/bash-completion/completions/clattn-bench
    reply() {
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        _clattn "$1"
        echo "${COMPREPLY[*]}"
    }
    [ "$(reply clattn-bench veri)" = verify ] && [ "$(reply clattn-bench run --pee)" = --peers ] &&
        [ "$(reply clattn-tune --budg)" = --budget ] && [ "$(reply clattn-tune forg)" = forget ]'

remove
[ ! -e /usr/bin/clattn-bench ]
echo "1 passed, 0 failed"
