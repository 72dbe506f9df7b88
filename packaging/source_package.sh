#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh packaging/source_package.sh FOLDER [--build]: makes Debian's source package of the last commit in FOLDER, and looks through it
# with lintian; --build: the binary packages of it as well, with the tools of `apt-get install debhelper devscripts lintian`.
set -eu
[ $# -ge 1 ] || { sed -n '3,4s/^# //p' "$0" >&2; exit 2; }
cd "$(dirname "$0")/.."
root=$(pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
version=$(sed -n 's/^#define CLATTN_VERSION_STRING "\([0-9.]*\)".*/\1/p' include/clattn/version.h)
tree=$folder/clattn-$version
rm -rf "$tree"
git archive --format=tar --prefix="clattn-$version/" HEAD | gzip -n9 > "$folder/clattn_$version.orig.tar.gz"
tar -C "$folder" -xzf "$folder/clattn_$version.orig.tar.gz"
cp -R packaging/debian "$tree/debian"
(cd "$tree" && dpkg-buildpackage -us -uc -S -d)
lintian --allow-root --fail-on error "$folder/clattn_$version-1.dsc"
[ "${2:-}" = --build ] || exit 0
(cd "$tree" && dpkg-buildpackage -us -uc -b)
lintian --allow-root --fail-on error "$folder"/*.deb
