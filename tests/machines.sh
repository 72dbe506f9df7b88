#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/machines.sh [PART...]: clattn on machines that it was not built on. Makes fresh roots of
# Debian and Ubuntu by debootstrap, copies a clone of HEAD into each and does there what a newcomer would, then
# prints a table. All parts by default:
#   debian12 debian13 testing ubuntu24 ubuntu26
#                       sh bench/quickstart.sh, then sh tests/run.sh; testing is Debian's next release
#   rusticl             Debian 13: conformance files on Mesa's llvmpipe
#   basic               Debian 13: conformance files on PoCL's device "basic"
#   methods             Debian 12 and 13: the sweep and the conformance cases, with PoCL's other ways to
#                       make loops of a work-group's items
#   packages            Debian 12 and 13: the tarball and the Debian packages, built, installed, used
#   intel               Debian 13: all of clattn_tests on Intel's CPU runtime (from PyPI, some 700 MB)
#   arm64               Debian 13 for arm64 under qemu-user: the build (by the compiler for arm64 of the
#                       Debian 13 root, since one that runs under qemu takes two hours), tests that need
#                       no device, conformance files on PoCL. Half an hour.
# The table has the last rows of every part that ran since the folder was made, each with its commit,
# so that parts may run one at a time; `sh tests/machines.sh table` only prints it.
# As root, with debootstrap, git and util-linux (unshare), for arm64 qemu-user-static as well. The
# network is used by apt, and by pip for intel. Progress goes to stderr; doc/design/machines.md sums its rows up.
#   CLATTN_MACHINES   the folder of roots and logs, by default build/machines; roots are used again,
#                     one that is deleted is made anew
#   PIP_CERT          certificates that pip needs, where a proxy has its own
#   CLATTN_MIRROR     where Debian is fetched from, by default http://deb.debian.org/debian
#   CLATTN_UBUNTU_MIRROR  likewise Ubuntu, by default http://archive.ubuntu.com/ubuntu
#   CLATTN_FILES      which conformance files, by default *
#   CLATTN_FILTER     which of clattn_tests on Intel's runtime, by default */*
# CMAKE_C_COMPILER_LAUNCHER=ccache and CCACHE_DIR are passed on, CCACHE_DIR as the same folder.
# Exits with 1 if anything failed.
set -u
cd "$(dirname "$0")/.." || exit 1
here=$(pwd)
debian=${CLATTN_MIRROR:-http://deb.debian.org/debian}
ubuntu=${CLATTN_UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}
launcher=${CMAKE_C_COMPILER_LAUNCHER:-}
ccache=${CCACHE_DIR:-}

usage() {
    sed -n '2,/^set -u/{/SPDX/d;s/^# \{0,1\}//p;}' "$0" >&2
    exit 2
}
parts="debian12 debian13 testing ubuntu24 ubuntu26 rusticl basic methods packages intel arm64"
# shellcheck disable=SC2086 # a word each
[ $# -gt 0 ] || set -- $parts
for part; do
    case " $parts table " in
    *" $part "*) ;;
    *) usage ;;
    esac
done
[ "$(id -u)" -eq 0 ] || { echo "machines.sh: only root can make and enter a root" >&2; exit 1; }
for program in debootstrap git unshare; do
    command -v "$program" > /dev/null ||
        { echo "machines.sh: there is no $program (apt-get install debootstrap git util-linux)" >&2; exit 1; }
done
mkdir -p "${CLATTN_MACHINES:-build/machines}/log" "${CLATTN_MACHINES:-build/machines}/rows"
folder=$(cd "${CLATTN_MACHINES:-build/machines}" && pwd)
[ -z "$ccache" ] || mkdir -p "$ccache"
commit=$(git rev-parse --short HEAD)
failures=0

emulated=
leave() {
    [ -z "$emulated" ] || echo -1 > /proc/sys/fs/binfmt_misc/qemu-aarch64
}
trap leave EXIT
trap 'exit 1' HUP INT TERM

say() {
    echo "$(date +%H:%M) $*" >&2
}

# inside ROOT COMMAND...: in the root, as root, in a clean environment. Its mounts and processes are
# in namespaces of their own, so they end with the command, however that ends. A root that has a folder
# /arm64 finds the root for arm64 there.
inside() {
    inner=$folder/$1
    shift
    env -i HOME=/root LANG=C.UTF-8 TERM=dumb DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        ${launcher:+CMAKE_C_COMPILER_LAUNCHER="$launcher"} ${ccache:+CCACHE_DIR="$ccache"} \
        unshare --mount --propagation private --pid --fork --kill-child sh -c '
        root=$1
        ccache=$2
        shift 2
        mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" &&
            mount --rbind /dev "$root/dev" || exit 1
        if [ -d "$root/arm64" ] && [ ! -L "$root/arm64" ]; then
            mount --bind "$root/../arm64" "$root/arm64" || exit 1
        fi
        if [ -n "$ccache" ]; then
            mkdir -p "$root$ccache" && mount --bind "$ccache" "$root$ccache" || exit 1
        fi
        exec chroot "$root" "$@"' inside "$inner" "$ccache" "$@"
}

# release ROOT: sets $machine, what the table calls it, and $suite, $mirror and what else debootstrap is told.
release() {
    mirror=$debian
    keys=
    script=
    architecture=
    case $1 in
    debian12) machine="Debian 12" suite=bookworm ;;
    debian13) machine="Debian 13" suite=trixie ;;
    testing) machine="Debian testing" suite=testing ;;
    arm64) machine="Debian 13, arm64 under qemu-user" suite=trixie architecture=--arch=arm64 ;;
    ubuntu24) machine="Ubuntu 24.04" suite=noble mirror=$ubuntu ;;
    ubuntu26) machine="Ubuntu 26.04" suite=resolute mirror=$ubuntu ;;
    esac
    if [ "$mirror" = "$ubuntu" ]; then
        # Debian has neither Ubuntu's keys nor, of releases newer than its own, debootstrap's scripts, which are all the same.
        [ -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ] || keys=--no-check-gpg
        [ -e "/usr/share/debootstrap/scripts/$suite" ] || script=jammy
    fi
}

# make_root ROOT: by debootstrap, with the sources of packages that an installed Ubuntu has.
make_root() {
    mkdir -p "$folder/packages/$suite"
    debootstrap --variant=minbase $architecture $keys --cache-dir="$folder/packages/$suite" \
        "$suite" "$folder/$1" "$mirror" $script > "$folder/log/$1-debootstrap" 2>&1 || return 1
    [ "$mirror" = "$debian" ] || printf "deb $mirror %s main restricted universe multiverse\n" \
        "$suite" "$suite-updates" "$suite-security" > "$folder/$1/etc/apt/sources.list"
}

# root ROOT: a root with the packages that every one of its release has, and in it /root/clattn as git clone makes it.
root() {
    name=$1
    if [ ! -e "$folder/$name.made" ]; then
        say "making $name"
        rm -rf "${folder:?}/$name"
        make_root "$name" || return 1
        touch "$folder/$name.made"
    fi
    cp /etc/resolv.conf "$folder/$name/etc/resolv.conf"
    if [ -n "${PIP_CERT:-}" ]; then # behind a proxy that has certificates of its own
        cp "$PIP_CERT" "$folder/$name/etc/pip.crt" && printf '[global]\ncert = /etc/pip.crt\n' > "$folder/$name/etc/pip.conf"
    fi
    if [ -n "$launcher" ]; then
        inside "$name" sh -c "command -v $launcher || { apt-get -q update && apt-get -qy install $launcher; }" \
            > "$folder/log/$name-launcher" 2>&1 || return 1
    fi
    rm -rf "$folder/$name/root/clattn"
    git clone -q "$here" "$folder/$name/root/clattn"
}

# ready ROOT: its release(), and the root, made once a run; false, with a row, if that fails.
ready() {
    release "$1"
    case " $made " in
    *" $1 "*) return 0 ;;
    esac
    if root "$1"; then
        made="$made $1"
        return 0
    fi
    row "" "making the root" "FAILED: $folder/log/$1-debootstrap" ""
    return 1
}
made=

# row DRIVER WHAT RESULT MINUTES: of $machine.
row() {
    echo "| $machine | $1 | $2 | $3 | $4 | $commit |" >> "$rows"
    case $3 in
    FAILED*) failures=$((failures + 1)) ;;
    esac
    say "$machine, $2: $3"
}

# in_clone ROOT COMMAND: of a shell, in the clone.
in_clone() {
    inside "$1" sh -c "cd /root/clattn && $2"
}

# do_step ROOT DRIVER WHAT COMMAND: a row with what came of a command. The last line that is a
# count ("3 passed, 0 failed"), if there is one, is the result; skipped lines become notes.
do_step() {
    log=$folder/log/$1-$(echo "$3" | tr -c 'a-zA-Z0-9\n' '-')
    say "$machine: $3 (log: $log)"
    start=$(date +%s)
    in_clone "$1" "$4" > "$log" 2>&1
    status=$?
    minutes=$((($(date +%s) - start + 30) / 60))
    result=$(grep -E '^[0-9]+ (passed|right)' "$log" | tail -n 1)
    if [ "$status" -eq 0 ]; then
        result="passed${result:+: $result}"
    else
        result="FAILED ($status)${result:+: $result}"
        sed -n "s#^\(FAIL\|DIED\|WRONG\) *#* $machine, $3: \1 #p" "$log" | head -n 60 >> "$notes"
    fi
    sed -n "s#^skip  #* $machine, $3: not tested: #p" "$log" >> "$notes"
    driver=$2
    [ "$driver" != pocl ] || driver=$(pocl_version "$1")
    row "$driver" "\`$3\`" "$result" "$minutes"
}

# What clattn-bench says of the driver: "PoCL 6.0, LLVM 18.1.8".
pocl_version() {
    in_clone "$1" 'COLUMNS=1000 OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd build/quickstart/bench/clattn-bench devices' 2> /dev/null | tr -s ' \n' ' ' |
        sed -n 's/.* PoCL \([0-9.]*\).*\(LLVM [0-9.]*\).*/PoCL \1, \2/p' | head -n 1
}

# What the parts on Debian 13 that are no newcomer's need: clattn-bench, as the quickstart builds it.
built() {
    [ -x "$folder/$1/root/clattn/build/quickstart/bench/clattn-bench" ] ||
        in_clone "$1" 'sh bench/quickstart.sh --device 0 > /dev/null 2>&1
            test -x build/quickstart/bench/clattn-bench'
}

# Conformance files of one process, for qemu, which would translate the compiler anew for each.
verify_together='build/quickstart/bench/clattn-bench verify $DEVICE tests/data/conformance/${FILES:-*}.safetensors > /tmp/said
status=$?
sed -n "/^ok/!s/^/WRONG /p" /tmp/said
echo "$(grep -c ^ok /tmp/said) right, $(grep -vc ^ok /tmp/said) wrong"
exit $status'

# Every conformance file in a process of its own, so that a crash costs only itself.
verify='right=0; wrong=0; died=0
for file in tests/data/conformance/${FILES:-*}.safetensors; do
    timeout 1800 build/quickstart/bench/clattn-bench verify $DEVICE "$file" > /tmp/said 2>&1
    status=$?
    case $status in
    0) right=$((right + 1)) ;;
    1) wrong=$((wrong + 1)); echo "WRONG ${file##*/}"; cat /tmp/said ;;
    *) died=$((died + 1)); echo "DIED  ${file##*/} ($status)"; cat /tmp/said ;;
    esac
done
echo "$right right, $wrong wrong, $died died"
[ "$right" -gt 0 ] && [ "$wrong" -eq 0 ] && [ "$died" -eq 0 ]'

newcomer() {
    ready "$1" || return
    do_step "$1" pocl "sh bench/quickstart.sh" "sh bench/quickstart.sh"
    do_step "$1" pocl "sh tests/run.sh" "sh tests/run.sh"
}

# conformance ROOT DRIVER WHAT ENVIRONMENT: the conformance files.
conformance() {
    do_step "$1" "$2" "$3" "export FILES='${CLATTN_FILES:-*}' CLATTN_CACHE_DIR= $4
$verify"
}

part_rusticl() {
    ready debian13 || return
    built debian13 && in_clone debian13 "sh tests/packages.sh cpus" > /dev/null 2>&1
    mesa=$(inside debian13 dpkg-query -W -f '${Version}' mesa-opencl-icd 2> /dev/null)
    llvm=$(in_clone debian13 'COLUMNS=1000 RUSTICL_ENABLE=llvmpipe OCL_ICD_VENDORS=/etc/OpenCL/vendors/rusticl.icd build/quickstart/bench/clattn-bench devices' | tr -s ' \n' ' ' |
        sed -n 's/.*(\(LLVM [0-9.]*\).*/\1/p' | head -n 1)
    conformance debian13 "rusticl, Mesa ${mesa%%-*}, $llvm" "conformance files, llvmpipe" \
        "OCL_ICD_VENDORS=/etc/OpenCL/vendors/rusticl.icd RUSTICL_ENABLE=llvmpipe DEVICE='--device llvmpipe'"
}

part_basic() {
    ready debian13 && built debian13 || return
    conformance debian13 pocl "conformance files, basic" \
        "OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd POCL_DEVICES=basic DEVICE='--device 0'"
}

# clattn_tests in a root, where tests/run.sh built it, else here.
with_tests() {
    built "$1" && in_clone "$1" "sh tests/packages.sh build test
        cmake --preset release -B build/test-gcc -DCMAKE_C_COMPILER=gcc &&
        cmake --build build/test-gcc --parallel $(nproc) --target clattn_tests" \
        > "$folder/log/$1-clattn_tests-build" 2>&1
}

# suites ROOT DRIVER WHAT FILTER ENVIRONMENT: a row with what came of clattn_tests.
suites() {
    do_step "$1" "$2" "$3" "export $5
        build/test-gcc/tests/clattn_tests --filter '$4' --tap=/tmp/tap > /tmp/said 2>&1
        status=\$?
        cat /tmp/said
        sed -n 's/^not ok - \([^ ]*\).*/FAIL  \1/p' /tmp/tap
        sed 's/.*Tested: \([0-9]*\) | Passing: \([0-9]*\) | Failing: \([0-9]*\) | Crashing: \([0-9]*\).*/\2 passed, \3 failed, \4 crashed/' /tmp/said | tail -n 1
        exit \$status"
}

# with_methods ROOT METHODS: programs are built anew for each, of which PoCL's cache does not know.
with_methods() {
    ready "$1" && with_tests "$1" || return
    for method in $2; do
        suites "$1" pocl "sweep, conformance: POCL_WORK_GROUP_METHOD=$method" '@(sweep|conformance)/*' \
            "OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd POCL_WORK_GROUP_METHOD=$method CLATTN_CACHE_DIR= POCL_CACHE_DIR=/tmp/pocl-$method"
    done
}

part_methods() {
    with_methods debian12 "loopvec workitemloops"
    with_methods debian13 "loops cbs"
}

packaged() {
    ready "$1" || return
    in_clone "$1" "sh tests/packages.sh build device && apt-get -qqy install lintian cmake pkg-config" \
        > "$folder/log/$1-packages" 2>&1 || return
    do_step "$1" "" "sh tests/install/packages.sh build/packages" \
        "sh tests/install/packages.sh build/packages"
}

part_packages() {
    packaged debian12
    packaged debian13
}

part_intel() {
    ready debian13 && with_tests debian13 || return
    in_clone debian13 "sh bench/drivers.sh /root/drivers" > "$folder/log/debian13-intel-drivers" 2>&1 || {
        row "" "\`clattn_tests, Intel\`" "FAILED: the runtime was not installed: $folder/log/debian13-intel-drivers" ""
        return
    }
    version=$(inside debian13 /root/drivers/intel/bin/pip list 2> /dev/null |
        sed -n 's/^intel-opencl-rt *//p')
    in_clone debian13 "mkdir -p /root/drivers/only && cp /root/drivers/vendors/intel.icd /root/drivers/only/"
    suites debian13 "Intel's CPU runtime $version" "clattn_tests, Intel" "${CLATTN_FILTER:-*/*}" \
        "OCL_ICD_VENDORS=/root/drivers/only CLATTN_DEVICE=Intel CLATTN_CACHE_DIR=/root/drivers/cache"
}

# Lets the kernel start arm64's programs by qemu, if it does not do that yet; the entry stays until
# the script ends.
emulate() {
    entry=/proc/sys/fs/binfmt_misc/qemu-aarch64
    [ -e /proc/sys/fs/binfmt_misc/register ] ||
        mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc 2> /dev/null
    [ "$(uname -m)" != aarch64 ] && [ ! -e "$entry" ] || return 0
    [ -e /usr/lib/binfmt.d/qemu-aarch64.conf ] || return 1
    { cat /usr/lib/binfmt.d/qemu-aarch64.conf > /proc/sys/fs/binfmt_misc/register; } 2> /dev/null ||
        return 1
    emulated=1
}

# Suites of clattn_tests that open no device.
no_device='@(multihead_text|problem|problem_class|problem_text|profile|program_file|projection_problem|reference|reference_backward|storage|store|table_advice|trust_case|tuning_table|version)/*'

# In the root of Debian 13, of the clone in the root for arm64, with that root's libraries. What looks for MPI
# there would run programs of arm64; its library is left out.
build_for_arm64='cd /arm64/root/clattn || exit 1
export PKG_CONFIG_LIBDIR=/arm64/usr/lib/aarch64-linux-gnu/pkgconfig:/arm64/usr/share/pkgconfig
export PKG_CONFIG_SYSROOT_DIR=/arm64
cmake --preset release -B build/quickstart -DCLATTN_WERROR=ON \
    -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu \
    -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
    -DCMAKE_SYSROOT=/arm64 -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY \
    -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY &&
    cmake --build build/quickstart --parallel "$(nproc)"'

part_arm64() {
    release arm64
    if ! emulate; then
        row "" "everything" "not tested: the kernel does not start arm64's programs (qemu-user-static, binfmt_misc)" ""
        return
    fi
    ready debian13 && ready arm64 || return
    mkdir -p "$folder/debian13/arm64"
    ln -sfn / "$folder/arm64/arm64" # paths that the build writes down hold in both roots
    in_clone arm64 "sh tests/packages.sh build device && sh tests/packages.sh test" \
        > "$folder/log/arm64-packages" 2>&1 &&
        in_clone debian13 "sh tests/packages.sh build && apt-get -qqy install g++-aarch64-linux-gnu" \
            >> "$folder/log/arm64-packages" 2>&1 || {
        row "" "packages" "FAILED: $folder/log/arm64-packages" ""
        return
    }
    do_step debian13 "" "the build" "$build_for_arm64"
    do_step arm64 "" "tests that need no device" "
        export CLATTN_TEST_PATIENCE=60 OCL_ICD_VENDORS=/nowhere
        status=0
        build/quickstart/tests/clattn_tuner_tests || status=1
        build/quickstart/tests/clattn_tests --filter '$no_device' || status=1
        exit \$status"
    do_step arm64 pocl "conformance files" "
        export FILES='${CLATTN_FILES:-*}' CLATTN_CACHE_DIR= OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd DEVICE='--device 0'
        $verify_together"
}

# part NAME: its rows and notes take the place of those that it left before.
part() {
    rows=$folder/rows/$1
    notes=$folder/rows/$1.notes
    : > "$rows"
    : > "$notes"
    case $1 in
    debian* | testing | ubuntu*) newcomer "$1" ;;
    *) "part_$1" ;;
    esac
}

table() {
    cat << 'END'
# clattn on fresh machines

Printed by `sh tests/machines.sh`: roots of Debian and Ubuntu that debootstrap has just made, where a newcomer's commands run in a clone,
and other OpenCL drivers than PoCL's default. Conformance files are those of `tests/data/conformance`, each in a process of its
own, compared within their tolerance. Minutes are those of one run, with whatever else the machine did.

| machine | OpenCL | what | result | minutes | commit |
|---|---|---|---|---|---|
END
    for part in $parts; do
        cat "$folder/rows/$part" 2> /dev/null
    done
    echo
    sort -u "$folder"/rows/*.notes 2> /dev/null
    echo
    echo "$(date -u +%Y-%m-%d), $(nproc) cores: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
}

# A function, so that the shell has read all of this file before it takes hours.
all() {
    for part; do
        [ "$part" = table ] || part "$part"
    done
    table
    [ "$failures" -eq 0 ]
    exit
}
all "$@"
