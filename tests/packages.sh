#!/bin/sh
# sh tests/packages.sh TOPIC...: installs what is missing on Debian 12, Ubuntu 24.04 and later.
#   build   compile the library and clattn-bench
#   device  the CPU as an OpenCL device (PoCL), for machines without another
#   test    what the tests need besides
#   gpus    compilers for GPUs that need none (tests/offline.sh)
#   peers   libraries that clattn-bench compares with, and what draws its charts
#   cpus    Mesa's OpenCL on the CPU, and what Intel's is fetched with (bench/drivers.sh)
# As root, or with sudo. When nothing is missing it only looks; where there is no apt-get it names
# the packages and goes on.
set -eu

missing=

# need PACKAGE [COMMAND]: is missing if it is not installed and the command is not there either.
need() {
    if [ $# -gt 1 ] && command -v "$2" > /dev/null 2>&1; then
        return
    fi
    case $(dpkg-query -W -f '${Status}' "$1" 2> /dev/null || true) in
    "install ok installed") ;;
    *) missing="$missing $1" ;;
    esac
}

need_peers() {
    need libclblast-dev
    need libopenblas-dev
    need libdnnl-dev
    need gnuplot-nox gnuplot
}

# Where libclc fits another compiler, tests/offline.sh says what is missing.
need_gpus() {
    if grep -q '^ID=debian' /etc/os-release 2> /dev/null; then
        need clang-16 clang-16
        need clang-19 clang-19 # knows gfx942; 42 MB to fetch
        need libclc-15
        need intel-opencl-icd ocloc # finds no device where there is no GPU of Intel's
    fi
}

for topic in "$@"; do
    case $topic in
    build)
        need gcc cc
        need libc6-dev
        need make make
        need cmake cmake
        need pkg-config pkg-config
        need opencl-headers
        need ocl-icd-opencl-dev
        need libjansson-dev
        need libxxhash-dev
        need zlib1g-dev
        ;;
    device)
        need pocl-opencl-icd
        ;;
    test)
        need gcc gcc
        need g++ g++
        need clang clang
        # Its fuzzer and sanitizers come in a package of their own.
        ls "$(clang --print-runtime-dir 2> /dev/null)"/libclang_rt.fuzzer* > /dev/null 2>&1 ||
            need libclang-rt-dev
        need libcriterion-dev
        need oclgrind oclgrind
        need pocl-opencl-icd
        need_peers
        need_gpus
        # Elsewhere it is a snap, which apt-get cannot install in a container; the test then says so.
        if grep -q '^ID=debian' /etc/os-release 2> /dev/null; then
            need chromium chromium
        fi
        ;;
    gpus) need_gpus ;;
    peers) need_peers ;;
    cpus)
        need mesa-opencl-icd
        need python3 python3
        need python3-venv
        ;;
    *)
        echo "usage: sh tests/packages.sh build|device|test|gpus|peers|cpus..." >&2
        exit 2
        ;;
    esac
done

[ -n "$missing" ] || exit 0
if ! command -v apt-get > /dev/null 2>&1; then
    echo "There is no apt-get here. If the build fails, install what Debian calls$missing." >&2
    exit 0
fi
as_root=
if [ "$(id -u)" -ne 0 ]; then
    as_root=sudo
fi
echo "installing$missing"
$as_root apt-get update -q > /dev/null
# shellcheck disable=SC2086 # a list of words
$as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends $missing > /dev/null
