# SPDX-License-Identifier: Apache-2.0
# Builds for other systems by zig, which has the headers and the C libraries of all of them (`pip install ziglang`). Sourced by
# tests/platforms.sh and packaging/release.sh, with $root (the sources) and $work (a folder of theirs). For a target NAME
# $work/NAME has system/ (OpenCL's headers, a loader without drivers to link with, xxhash's header, jansson), build/, and dist/.

# Name, zig's target, CMake's system and processor. The versions are the oldest of glibc and of macOS that are supported.
cross_table='
linux-x86_64   x86_64-linux-gnu.2.17    Linux   x86_64
linux-aarch64  aarch64-linux-gnu.2.28   Linux   aarch64
linux-riscv64  riscv64-linux-gnu.2.36   Linux   riscv64
musl-x86_64    x86_64-linux-musl        Linux   x86_64
musl-aarch64   aarch64-linux-musl       Linux   aarch64
macos-arm64    aarch64-macos.11.0       Darwin  arm64
macos-x86_64   x86_64-macos.10.15       Darwin  x86_64
windows-x86_64 x86_64-windows-gnu       Windows AMD64
windows-arm64  aarch64-windows-gnu      Windows ARM64
'
cross_names=$(echo "$cross_table" | awk 'NF { print $1 }')

# Column N of a target's line.
cross_column() {
    echo "$cross_table" | awk -v name="$1" -v column="$2" '$1 == name { print $column }'
}

# Sets $zig: $CLATTN_ZIG, else a zig in the path, else that of Python's package ziglang. Fails with a sentence.
cross_find_zig() {
    zig=${CLATTN_ZIG:-$(command -v zig || python3 -c 'import os, ziglang
print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))' 2> /dev/null || true)}
    [ -n "$zig" ] && "$zig" version > /dev/null 2>&1 ||
        { echo "skipped: there is no zig here (pip install ziglang, or CLATTN_ZIG=FILE)"; return 77; }
    for tool in cmake curl readelf; do
        command -v $tool > /dev/null || { echo "skipped: there is no $tool here"; return 77; }
    done
}

# Calls of OpenCL up to a version, as 120, one a line.
cross_opencl_calls() {
    printf '#define CL_TARGET_OPENCL_VERSION %s\n#include <CL/cl.h>\n' "$1" | cc -E -P - | tr '(' '\n' |
        grep -o 'cl[A-Z][A-Za-z0-9]*$' | sort -u
}

# Functions that the public headers declare, one a line.
cross_declared() {
    cat "$root"/include/clattn/*.h | tr '\n' ' ' | sed 's/CLATTN_API/\n&/g' |
        sed -n 's/^CLATTN_API [^(]*[ *]\(clattn_[a-z0-9_]*\)(.*/\1/p' | grep -v '^clattn_mpi_' | sort
}

# The file of an installed header.
cross_header() {
    printf '#include <%s>\n' "$1" | cc -E -M - | tr ' ' '\n' | grep "/$1\$"
}

# cross_loader VERSION FOLDER: a loader of that OpenCL to link with, $opencl. On Linux it also runs, and finds no device.
cross_loader() {
    system=$2
    mkdir -p "$system/lib"
    cross_opencl_calls "$1" > "$system/calls"
    case $name in
    windows-*)
        machine=i386:x86-64
        [ "$name" = windows-x86_64 ] || machine=arm64
        { printf 'LIBRARY OpenCL.dll\nEXPORTS\n'; cat "$system/calls"; } > "$system/OpenCL.def"
        "$zig" dlltool -m $machine -d "$system/OpenCL.def" -D OpenCL.dll -l "$system/lib/libOpenCL.a"
        opencl=$system/lib/libOpenCL.a
        ;;
    macos-*)
        processor=$(cross_column "$name" 4)
        mkdir -p "$system/lib/OpenCL.framework/Headers"
        {
            printf -- '--- !tapi-tbd\ntbd-version: 4\ntargets: [ %s-macos ]\n' "$processor"
            printf 'install-name: /System/Library/Frameworks/OpenCL.framework/Versions/A/OpenCL\n'
            printf 'exports:\n  - targets: [ %s-macos ]\n    symbols: [ %s ]\n...\n' "$processor" \
                "$(sed 's/^/_/' "$system/calls" | paste -sd, | sed 's/,/, /g')"
        } > "$system/lib/OpenCL.framework/OpenCL.tbd"
        opencl=$system/lib/OpenCL.framework
        ;;
    *)
        { echo '/* -1001: no platform. */'; sed 's/.*/int &(void);\nint &(void)\n{\n    return -1001;\n}/' "$system/calls"; } \
            > "$system/OpenCL.c"
        "$folder/clang" -O1 -shared -Wl,-soname,libOpenCL.so.1 -o "$system/lib/libOpenCL.so.1" "$system/OpenCL.c" &&
            "$folder/clang" -O1 -c -o "$system/OpenCL.o" "$system/OpenCL.c" && rm -f "$system/lib/libOpenCL.a" &&
            "$folder/ar" rcs "$system/lib/libOpenCL.a" "$system/OpenCL.o"
        opencl=$system/lib/libOpenCL.so.1
        ;;
    esac
}

# Debian's sources of jansson, which the programs read and write JSON with; linked statically.
cross_jansson() {
    [ ! -e "$folder/system/lib/libjansson.a" ] || return 0
    version=2.14
    sum=c739578bf6b764aa0752db9a2fdadcfe921c78f1228c7ec0bb47fa804c55d17b
    archive=$work/jansson-$version.tar.gz
    [ -e "$archive" ] || curl -fsSL "http://deb.debian.org/debian/pool/main/j/jansson/jansson_$version.orig.tar.gz" -o "$archive" ||
        return 1
    echo "$sum  $archive" | sha256sum -c --quiet && tar -xf "$archive" -C "$folder" &&
        cross_configure "$folder/jansson-$version" "$folder/jansson" -DJANSSON_BUILD_DOCS=OFF -DJANSSON_EXAMPLES=OFF \
            -DJANSSON_WITHOUT_TESTS=ON -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DCMAKE_INSTALL_PREFIX="$folder/system" &&
        cmake --build "$folder/jansson" --parallel "$jobs" --target install
}

# renewed FILE: the input becomes the file, unless it is that already: compilers' caches go by its time.
renewed() {
    cat > "$1.new"
    if cmp -s "$1.new" "$1"; then rm "$1.new"; else chmod 755 "$1.new" && mv "$1.new" "$1"; fi
}

# cross_prepare NAME: sets $name, $folder and $opencl, and makes what a build for the target needs.
cross_prepare() {
    name=$1
    folder=$work/$name
    jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
    mkdir -p "$folder/system/lib" "$folder/system/include/CL" "$folder/system/include/OpenCL"
    # Objects of Windows have their own path in them, even without debug information.
    object=
    case $name in windows-*) object="-Xclang -object-file-name=clattn.obj" ;; esac
    # Its name tells ccache what it calls. No folder of this machine gets into what is built. Executables for musl are
    # linked with its loader, as OpenCL's is.
    renewed "$folder/clang" << EOF
#!/bin/sh
exec "$zig" cc -target $(cross_column "$name" 2) -g0 -ffile-prefix-map="$root=." -ffile-prefix-map="$folder=." $object "\$@"
EOF
    for tool in ar ranlib rc; do
        printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig" $tool | renewed "$folder/$tool"
    done
    printf '#!/bin/sh\n' | renewed "$folder/nothing" # paths of libraries are right when they are linked
    for copy in CL OpenCL; do # Apple's headers have another folder
        cp -p "$(dirname "$(cross_header CL/cl.h)")"/*.h "$folder/system/include/$copy/"
    done
    cp -p "$(cross_header xxhash.h)" "$folder/system/include/"
    dynamic=
    independent=
    # Zig's libc.so for musl gives stderr an odd address; code that is independent of its position copies no variable of it.
    case $name in musl-*) dynamic=-dynamic independent='set(CMAKE_POSITION_INDEPENDENT_CODE ON)' ;; esac
    # What CMake knows of macOS only where it runs there.
    echo 'set(CMAKE_SHARED_LIBRARY_RUNTIME_C_FLAG "-Wl,-rpath,")' | renewed "$folder/rules.cmake"
    renewed "$folder/toolchain.cmake" << EOF
set(CMAKE_SYSTEM_NAME $(cross_column "$name" 3))
set(CMAKE_SYSTEM_PROCESSOR $(cross_column "$name" 4))
set(CMAKE_C_COMPILER "$folder/clang")
set(CMAKE_AR "$folder/ar" CACHE FILEPATH "")
set(CMAKE_RANLIB "$folder/ranlib" CACHE FILEPATH "")
set(CMAKE_RC_COMPILER "$folder/rc")
set(CMAKE_INSTALL_NAME_TOOL "$folder/nothing" CACHE FILEPATH "")
set(CMAKE_OSX_SYSROOT "" CACHE STRING "")
set(CMAKE_INSTALL_NAME_DIR "@rpath") # of macOS, where a library's own name has its folder
set(CMAKE_BUILD_WITH_INSTALL_NAME_DIR ON)
if(CMAKE_SYSTEM_NAME STREQUAL "Darwin")
    set(CMAKE_USER_MAKE_RULES_OVERRIDE "$folder/rules.cmake")
endif()
$independent
set(CMAKE_EXE_LINKER_FLAGS_INIT "-s $dynamic")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-s")
set(CMAKE_FIND_ROOT_PATH "$folder/system")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
EOF
    cross_loader 120 "$folder/system"
}

# cross_configure SOURCE BUILD OPTION...: a CMake project for the target that is prepared.
cross_configure() {
    source=$1
    into=$2
    shift 2
    PKG_CONFIG_LIBDIR=/nowhere cmake -S "$source" -B "$into" -DCMAKE_BUILD_TYPE=Release -DCMAKE_TOOLCHAIN_FILE="$folder/toolchain.cmake" \
        -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON -DOpenCL_INCLUDE_DIR="$folder/system/include" -DOpenCL_LIBRARY="$opencl" "$@"
}

# cross_build ON|OFF: the library, and the programs or not, in $folder/build.
cross_build() {
    [ "$1" = OFF ] || cross_jansson || return 1
    cross_configure "$root" "$folder/build" -DCLATTN_WERROR=ON -DCLATTN_BUILD_TESTS=OFF -DCLATTN_BUILD_MAN=OFF \
        -DCLATTN_BUILD_MPI=OFF -DCLATTN_BUILD_BENCH="$1" -DCLATTN_BUILD_TUNER="$1" -DXXHASH_INCLUDE="$folder/system/include" \
        -DJANSSON_INCLUDE="$folder/system/include" -DJANSSON_LIBRARY="$folder/system/lib/libjansson.a" &&
        cmake --build "$folder/build" --parallel "$jobs"
}

# What a user of the target copies, in $folder/dist. It names no folder of this machine.
cross_install() {
    rm -rf "$folder/dist"
    cmake --install "$folder/build" --prefix "$folder/dist" &&
        ! grep -rlF -e "$root/" -e "$folder/" "$folder/dist"
}
