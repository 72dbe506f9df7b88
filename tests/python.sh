#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/python.sh BUILD: tests the Python package that a build with -DCLATTN_BUILD_PYTHON=ON has put
# together, with the system's python3. Exits with 77 where that lacks NumPy or pytest, and says so.
set -u
[ $# -eq 1 ] || { echo "usage: sh tests/python.sh BUILD" >&2; exit 2; }
package=$(cd "$1/bindings/python" && pwd) || exit 1
cd "$(dirname "$0")/../bindings/python/tests" || exit 1
python=/usr/bin/python3
[ -x "$python" ] || python=python3
"$python" -c 'import numpy, pytest' 2> /dev/null || {
    echo "skipped: the Python package: $python has no NumPy or no pytest (sh tests/packages.sh test)"
    exit 77
}
# Nothing is kept: PoCL compiles a kernel once more to hand out its program. Tests of what is kept name a folder.
CLATTN_CACHE_DIR=
# PoCL compiles without optimising, in a fifth of the time: kernels are tested elsewhere.
: "${POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable -Dalways_inline=}"
export CLATTN_CACHE_DIR POCL_EXTRA_BUILD_FLAGS
PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1 exec "$python" -m pytest -q --durations=5 -p no:cacheprovider --ignore=frameworks .
