#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh bench/quickstart.sh: installs what is missing, builds, and runs attention on the default
# device over tensors of a real model, each result checked against the stored answer.
# Options go to clattn-bench run, for example: sh bench/quickstart.sh --device 1
set -eu
cd "$(dirname "$0")/.."
build=build/quickstart

# quietly COMMAND...: shows what it said only if it fails.
quietly() {
    mkdir -p "$build"
    if ! "$@" > "$build/log" 2>&1; then
        cat "$build/log" >&2
        exit 1
    fi
}

sh tests/packages.sh build
echo "building in $build"
quietly cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DCLATTN_BUILD_TESTS=OFF
quietly cmake --build "$build" --parallel "$(nproc)"
if ! "$build/bench/clattn-bench" devices > /dev/null 2>&1; then
    sh tests/packages.sh device
fi
echo
# Other libraries and first calls are left to the commands below: they take minutes.
"$build/bench/clattn-bench" run --peers none --no-first-call "$@" \
    tests/data/minilm/*.safetensors || {
    status=$?
    cat >&2 << END

If this OpenCL driver is at fault, another one may do: Intel's, which runs on the processors of
other makers as well (some 700 MB).
  sh bench/drivers.sh build/drivers && . build/drivers/env && sh bench/quickstart.sh --device Intel
END
    exit $status
}
cat >&2 << END

What next?
  $build/bench/clattn-bench devices              what OpenCL finds here, for --device
  $build/bench/clattn-bench run                  known models, beside other libraries
  $build/bench/clattn-bench run --device all --workload standard --json mine.json
  python3 bench/report.py mine.json -o mine.html
  $build/tuner/clattn-tune                       makes it faster here, in a minute
END
