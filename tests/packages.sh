#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/packages.sh TOPIC...: installs what is missing on Debian 12, Ubuntu 24.04 and later.
#   build   compile the library and clattn-bench
#   device  the CPU as an OpenCL device (PoCL), for machines without another
#   test    what the tests need besides
#   doc     what makes the API reference (cmake --build . --target doc)
#   site    what makes a site of all pages (cmake --build . --target site), and a browser to look at it
#   gpus    compilers for GPUs that need none (tests/offline.sh)
#   peers   libraries that clattn-bench compares with, and what draws its charts
#   cpus    Mesa's OpenCL on the CPU, and what Intel's is fetched with (bench/drivers.sh)
# As root, or with sudo. When nothing is missing it only looks; where there is no apt-get it names
# the packages and goes on. What tests can do without is installed if the distribution has it; else
# a line "not tested: ..." says what it was for.
set -eu

missing=
wishes= # of want(), a line each: what is not tested, a tab, packages

installed() {
    case $(dpkg-query -W -f '${Status}' "$1" 2> /dev/null || true) in
    "install ok installed") ;;
    *) return 1 ;;
    esac
}

# need PACKAGE [COMMAND]: is missing if it is not installed and the command is not there either.
need() {
    if [ $# -gt 1 ] && command -v "$2" > /dev/null 2>&1; then
        return
    fi
    installed "$1" || missing="$missing $1"
}

# want SENTENCE PACKAGE...: one of the packages, the first that the distribution has. Where it has
# none the sentence is said.
want() {
    sentence=$1
    shift
    for package; do
        ! installed "$package" || return 0
    done
    wishes="$wishes$sentence	$*
"
}

# want_first SENTENCE PACKAGE...: as want, but where the distribution has the first, others will not do.
want_first() {
    installed "$2" || {
        sentence=$1
        shift
        wishes="$wishes$sentence	$*
"
    }
}

need_doc() {
    want "the API reference is not made" doxygen
}

need_site() {
    need_doc
    want "the site of all pages is not made" mkdocs-material
    want "the site is not looked at in a browser" chromium
}

need_peers() {
    want "clattn-bench is not compared with CLBlast" libclblast-dev
    want "clattn-bench is not compared with OpenBLAS" libopenblas-dev
    want "clattn-bench is not compared with oneDNN" libdnnl-dev
}

# libclc lies in one place, whatever its version; tests/offline.sh takes a compiler that can read it, which those
# that are older cannot. PoCL brings one that may be.
need_gpus() {
    want "no code is made for GPUs of AMD and NVIDIA" clang-16 clang-19 clang-18 clang-17
    want_first "no code is made for gfx942, which needs clang 17" clang-19 clang-18 clang-17
    [ -e /usr/lib/clc/amdgcn--amdhsa.bc ] ||
        want "no code is made for GPUs of AMD and NVIDIA" libclc-15 libclc-19 libclc-18 libclc-17
    # The first finds no device where there is no GPU of Intel's.
    command -v ocloc > /dev/null 2>&1 ||
        want "no code is made for Intel's GPUs" intel-opencl-icd intel-ocloc
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
        ;;
    device)
        need pocl-opencl-icd
        ;;
    test)
        need ninja-build ninja
        need gcc gcc
        need g++ g++
        need clang clang
        # Its fuzzer and sanitizers come in a package of their own.
        ls "$(clang --print-runtime-dir 2> /dev/null)"/libclang_rt.fuzzer* > /dev/null 2>&1 ||
            need libclang-rt-dev
        need libcriterion-dev
        need python3 python3
        want "the Python package is not tested" python3-numpy
        want "the Python package is not tested" python3-pytest
        want "the Python package is not tested on pyopencl's arrays" python3-pyopencl
        want "libclattn_mpi is not tested" libopenmpi-dev libmpich-dev
        want "libclattn_mpi is not tested" openmpi-bin mpich
        want "kernels are not watched for races and values that nothing wrote" oclgrind
        need pocl-opencl-icd
        need_doc
        want "the site of all pages is not made" mkdocs-material
        need_peers
        need_gpus
        want "the report's charts are not drawn" python3-matplotlib
        ;;
    doc) need_doc ;;
    site) need_site ;;
    gpus) need_gpus ;;
    peers) need_peers ;;
    cpus)
        need mesa-opencl-icd
        need python3 python3
        need python3-venv
        ;;
    *)
        echo "usage: sh tests/packages.sh build|device|test|doc|site|gpus|peers|cpus..." >&2
        exit 2
        ;;
    esac
done

[ -n "$missing$wishes" ] || exit 0
if ! command -v apt-get > /dev/null 2>&1; then
    echo "There is no apt-get here. If the build fails, install what Debian calls$missing$(
        printf '%s' "$wishes" | sed 's/.*	\([^ ]*\).*/ \1/' | tr -d '\n')." >&2
    exit 0
fi
as_root=
if [ "$(id -u)" -ne 0 ]; then
    as_root=sudo
fi

# The packages among $wishes that can be had, a line each.
available() {
    # shellcheck disable=SC2046 # a list of words
    apt-cache policy $(printf '%s' "$wishes" | cut -f 2) 2> /dev/null |
        awk '/^[^ ]/ { name = $1 } /^  Candidate: / && $2 != "(none)" { print substr(name, 1, length(name) - 1) }'
}

# grant: moves what can be had from the wishes to what is missing.
grant() {
    had=$(available)
    while IFS='	' read -r sentence packages; do
        found=
        for package in $packages; do
            if [ -z "$found" ] && printf '%s\n' "$had" | grep -qx "$package"; then
                found=$package
            fi
        done
        case " $missing " in
        *" $found "*) ;; # one package for two wishes
        *) [ -z "$found" ] || installed "$found" || missing="$missing $found" ;;
        esac
        [ -n "$found" ] || lacking="$lacking$sentence	$packages
"
    done << END
$(printf '%s' "$wishes")
END
}

updated=
update() {
    $as_root apt-get update -q > /dev/null
    updated=1
}

lacking=
if [ -n "$wishes" ]; then
    # A new container has no lists of packages.
    if [ -n "$missing" ] || ! apt-cache show gcc > /dev/null 2>&1; then
        update
    fi
    grant
fi
if [ -n "$missing" ]; then
    echo "installing$missing"
    [ -n "$updated" ] || update
    # shellcheck disable=SC2086 # a list of words
    $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends $missing > /dev/null
fi
printf '%s' "$lacking" | while IFS='	' read -r sentence packages; do
    echo "not tested: $sentence: this distribution has no package $(echo "$packages" | sed 's/ / or /g')"
done
