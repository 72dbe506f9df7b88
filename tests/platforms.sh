#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/platforms.sh [--library|--no-suites] [TARGET...|table]: builds the library and the programs for other systems by zig,
# looks at their symbols, and runs what this machine can run: suites that need no device under qemu-user, programs by Wine.
# Prints doc/design/platforms.md's table, in which every target keeps the row of its last run. Without a target: all of them.
#   --library    without the programs and the suites, in a sixth of the time
#   --no-suites  without the suites
#   table        prints the table of earlier runs
# Targets: linux-x86_64 linux-aarch64 linux-riscv64 musl-x86_64 musl-aarch64 macos-arm64 macos-x86_64 windows-x86_64
# windows-arm64. It needs zig (pip install ziglang; CLATTN_ZIG names another), llvm's llvm-nm and llvm-readobj, and for runs
# qemu-user-static, libc6-arm64-cross, libc6-riscv64-cross, musl, wine64. Everything lies in build/platforms (or CLATTN_PLATFORMS).
# CMAKE_C_COMPILER_LAUNCHER=ccache saves time. Exits with 1 if something failed, with 77 if a tool is missing.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$(pwd)
work=${CLATTN_PLATFORMS:-$root/build/platforms}
. packaging/cross.sh

programs=ON
suites=yes
chosen=
for word; do
    case $word in
    --library) programs=OFF suites=no ;;
    --no-suites) suites=no ;;
    table) chosen=table ;;
    *)
        [ -n "$(cross_column "$word" 2)" ] || { sed -n '3,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
        chosen="$chosen $word"
        ;;
    esac
done
chosen=${chosen:-$cross_names}
mkdir -p "$work/rows"

# ---- checks of what is built --------------------------------------------------------------------------

# step WHAT COMMAND...: a line on stderr, and what a command that fails has printed.
step() {
    what=$1
    shift
    if "$@" > "$folder/log" 2>&1; then
        echo "ok    $name: $what" >&2
    else
        echo "FAIL  $name: $what (status $?)" >&2
        tail -n 25 "$folder/log" | sed 's/^/      /' >&2
        failed=1
        return 1
    fi
}

# The shared library of an installed copy.
library_of() {
    case $name in
    windows-*) echo "$1/bin/clattn.dll" ;;
    macos-*) echo "$1/lib/libclattn.dylib" ;;
    *) echo "$1/lib/libclattn.so" ;;
    esac
}
exported() {
    case $name in
    windows-*) llvm-readobj --coff-exports "$1" | sed -n 's/^ *Name: \(..*\)/\1/p' ;;
    macos-*) llvm-nm -g --defined-only "$1" | sed 's/.* _//' | grep -vx -e __dso_handle -e _mh_dylib_header ;; # the linker's
    *) llvm-nm -D --defined-only "$1" | sed 's/.* //' ;;
    esac | sort
}
imported() {
    case $name in
    windows-*) llvm-readobj --coff-imports "$1" | sed -n 's/^ *Symbol: \([^ ]*\).*/\1/p' ;;
    macos-*) llvm-nm -u "$1" | sed 's/.* _//; s/^_//' ;;
    *) llvm-nm -D -u "$1" | sed 's/.* //' ;;
    esac | sort
}
needed() {
    case $name in
    windows-*) llvm-readobj --coff-imports "$1" | sed -n 's/^  Name: \(.*\)/\1/p' ;;
    macos-*) llvm-readobj --needed-libs "$1" | sed -n 's/^  \([^ ].*\)/\1/p' ;; # its own name is among them
    *) llvm-readobj --needed-libs "$1" | sed -n 's/^ *\(lib[^ ]*\|ld-[^ ]*\)$/\1/p' ;;
    esac | sort -u
}
# The library exports what its headers declare, calls nothing above OpenCL 1.2, and needs the system and OpenCL's loader alone.
symbols() {
    file=$1
    cross_declared > "$folder/declared"
    exported "$file" > "$folder/exported"
    diff "$folder/declared" "$folder/exported" || return 1
    sort "$folder/system/calls" > "$folder/known"
    imported "$file" | grep '^cl[A-Z]' > "$folder/called"
    [ -s "$folder/called" ] && ! comm -13 "$folder/known" "$folder/called" | grep . || return 1
    needed "$file" > "$folder/needed"
    cat "$folder/needed"
    ! grep -viE '^(libOpenCL\.so\.1|lib(c|m|dl|pthread)\.so(\.[0-9])?|ld-linux.*|OpenCL\.dll|(KERNEL32|ADVAPI32|SHELL32|ntdll)\.dll|api-ms-win-crt-.*)$' \
        "$folder/needed" | grep -vE '^/usr/lib/libSystem\.B\.dylib$|^/System/Library/Frameworks/OpenCL\.framework/|^@rpath/libclattn\.'
}
# The newest version of glibc that a file needs is no newer than the target's.
glibc() {
    limit=$(cross_column "$name" 2 | sed -n 's/.*-gnu\.//p')
    newest=$(for file in "$@"; do grep -ao 'GLIBC_[0-9][0-9.]*' "$file"; done | sed 's/GLIBC_//' | sort -Vu | tail -n 1)
    echo "newest: $newest, limit: $limit"
    [ "$(printf '%s\n%s\n' "$newest" "$limit" | sort -V | tail -n 1)" = "$limit" ]
}
# What a stranger's project finds by find_package(), linked with both libraries.
outside() {
    rm -rf "$folder/outside"
    cross_configure tests/install "$folder/outside" -DCMAKE_PREFIX_PATH="$folder/dist" &&
        cmake --build "$folder/outside" --parallel "$jobs"
}

# ---- runs -----------------------------------------------------------------------------------------------

# Suites of clattn_tests that open no device.
no_device='multihead_text problem problem_class problem_text profile program_file projection_problem reference reference_backward
storage store table_advice trust_case tuning_table version json'

# Tests of the library, with Criterion's stand-in. On musl they are static, since Debian has its loader for one processor alone.
build_suites() {
    case $name in musl-*) opencl=$folder/newer/lib/libOpenCL.a ;; esac
    cross_configure "$root" "$folder/tests" -DCLATTN_BUILD_MAN=OFF -DCLATTN_BUILD_MPI=OFF -DCLATTN_WERROR=ON \
        -DCLATTN_TEST_STAND_IN=ON \
        -DCMAKE_EXE_LINKER_FLAGS=-s -DCLATTN_TEST_OPTIONS=-O1 -DXXHASH_INCLUDE="$folder/system/include" \
        -DJANSSON_INCLUDE="$folder/system/include" -DJANSSON_LIBRARY="$folder/system/lib/libjansson.a" &&
        cmake --build "$folder/tests" --parallel "$jobs" --target clattn_tests
}
run_suites() {
    for suite in $no_device; do
        OCL_ICD_VENDORS=/nowhere CLATTN_TEST_PATIENCE=60 CLATTN_CACHE_DIR=none LD_LIBRARY_PATH=${libraries:-} \
            $launcher "$folder/tests/tests/clattn_tests" --filter "$suite/*" || echo "failed: $suite"
    done > "$folder/suites" 2>&1
    cat "$folder/suites"
    grep -E '^[0-9]+ passed' "$folder/suites" | awk '{ passed += $1; failed += $3; skipped += $5 }
        END { printf "%d tests pass, %d fail, %d are skipped\n", passed, failed, skipped }' > "$folder/count"
    ! grep '^failed: ' "$folder/suites"
}
# Each finds the shared library from where it lies.
start_programs() {
    for program in clattn-bench clattn-tune; do
        LD_LIBRARY_PATH=$libraries $launcher "$folder/dist/bin/$program" --version || return 1
    done
}
# The programs on a device: one file of problems with known answers.
verify() {
    CLATTN_CACHE_DIR=none $1 "$folder/dist/bin/clattn-bench$2" verify tests/data/conformance/raschka_self_attention.safetensors
}
wine_here() {
    wine=$(command -v wine64 || ls /usr/lib/wine/wine64 2> /dev/null || command -v wine) || return 1
    WINEPREFIX=${CLATTN_WINEPREFIX:-$work/prefix} WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml="
    export WINEPREFIX WINEDEBUG WINEDLLOVERRIDES
    [ -e "$WINEPREFIX/system.reg" ] || "$wine" wineboot -i > /dev/null 2>&1
}
# Sets $ran, what ran and where.
run_target() {
    ran=nothing
    launcher=
    unset CLATTN_TEST_LAUNCHER QEMU_SET_ENV QEMU_LD_PREFIX
    case $name in
    macos-* | windows-arm64) return ;;
    windows-*)
        if [ $programs = ON ] && wine_here && step "clattn-bench verify in Wine" verify "$wine" .exe; then
            ran="$("$wine" --version | sed 's/^wine-\([0-9.]*\).*/Wine \1/'), $(head -n 1 /etc/os-release | cut -d'"' -f2): \`clattn-bench verify\`"
        fi
        return
        ;;
    esac
    libraries=$folder/newer/lib # tests call what is newer than OpenCL 1.2, too
    cross_loader 300 "$folder/newer"
    processor=$(cross_column "$name" 4)
    where="this machine"
    loader=/lib/ld-musl-$processor.so.1
    case $name in linux-*) loader=/ ;; esac
    if [ "$processor" != "$(uname -m)" ]; then
        launcher=$(command -v "qemu-$processor-static") || return
        where="qemu-user $("$launcher" --version | sed -n '1s/.*version \([0-9.]*\).*/\1/p')"
        QEMU_SET_ENV=LD_LIBRARY_PATH=$libraries
        libraries=
        QEMU_LD_PREFIX=/usr/$processor-linux-gnu
        export QEMU_SET_ENV QEMU_LD_PREFIX
        case $name in linux-*) [ -d "$QEMU_LD_PREFIX" ] || return ;; esac
    fi
    if [ $programs = ON ] && [ -e "$loader" ] && step "the programs start, $where" start_programs; then
        ran="$where: both programs start"
    fi
    if [ $programs = ON ] && [ "$name" = linux-x86_64 ] && [ -e /etc/OpenCL/vendors/pocl.icd ] &&
        step "clattn-bench verify on PoCL" verify "env OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd" ""; then
        ran="$ran, \`clattn-bench verify\` on PoCL"
    fi
    [ $suites = yes ] || return
    CLATTN_TEST_LAUNCHER=$launcher
    export CLATTN_TEST_LAUNCHER
    if step "suites are built" build_suites; then
        step "suites without a device, $where" run_suites
        [ "$ran" = nothing ] && ran="$where: " || ran="$ran, "
        ran="$ran$(cat "$folder/count")"
    fi
}

unproven() {
    case $1 in
    linux-x86_64) echo "another libc than this machine's" ;;
    linux-aarch64 | linux-riscv64) echo "a device" ;;
    musl-*) case $ran in *programs*) echo "a device" ;; *) echo "a device; the shared library; the programs" ;; esac ;;
    macos-*) echo "that it starts; Apple's headers and devices" ;;
    windows-x86_64) echo "Windows itself; a GPU" ;;
    windows-arm64) echo "that it starts" ;;
    esac
}

target() {
    cross_prepare "$1" || { failed=1; return; }
    ran=nothing
    links=no
    compiles=no
    built="the library"
    [ $programs = OFF ] || built="library, programs"
    if step "$built: built" cross_build $programs && step "installed copy" cross_install; then
        compiles=$built
        file=$(library_of "$folder/dist")
        step "symbols" symbols "$file"
        links="yes; $(grep -c . "$folder/exported") exports, $(grep -c . "$folder/called") calls of OpenCL 1.2"
        case $name in
        linux-*)
            step "versions of glibc" glibc "$folder"/dist/lib/*.so.?.? $(ls "$folder"/dist/bin/* 2> /dev/null)
            links="$links, glibc $(sed -n 's/newest: \(.*\),.*/\1/p' "$folder/log")"
            ;;
        esac
        step "find_package" outside
        [ $failed = 0 ] || links="no: see what the script said"
        run_target
    fi
    printf '| %s | %s | %s | %s | %s | %s |\n' "$name" "$compiles" "$links" "$ran" "$(unproven "$name")" \
        "$(git rev-parse --short=7 HEAD 2> /dev/null)" > "$work/rows/$name"
}

print_table() {
    echo "| target | compiles | links | ran where | unproven | commit |"
    echo "|---|---|---|---|---|---|"
    for name in $cross_names; do
        cat "$work/rows/$name" 2> /dev/null
    done
}

if [ "$chosen" != table ]; then
    cross_find_zig || exit 77
    for tool in llvm-nm llvm-readobj; do
        command -v $tool > /dev/null || { echo "skipped: there is no $tool here (llvm)"; exit 77; }
    done
fi
status=0
for one in $chosen; do
    [ "$one" != table ] || break
    failed=0
    target "$one"
    [ $failed = 0 ] || status=1
done
print_table
exit $status
