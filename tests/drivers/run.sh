#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/drivers/run.sh [CC]: for each known error of a driver whether the device has it. CLATTN_DEVICE
# names the device or its platform, in part. What kernels do about each: doc/design/drivers.md. Ends with 0
# whatever drivers do, since that is theirs; with 77 and the reason where nothing can be tried.
set -eu
cd "$(dirname "$0")"
probe=$(mktemp)
trap 'rm -f "$probe"' EXIT
"${1:-cc}" -std=c11 -D_POSIX_C_SOURCE=200809L -DCL_TARGET_OPENCL_VERSION=120 -o "$probe" probe.c -lOpenCL || {
    echo "skipped: the program that tries kernels cannot be built"
    exit 77
}
tried=0

# try KERNEL OPTIONS: a line.
try() {
    status=0
    POCL_KERNEL_CACHE=0 timeout 60 "$probe" "$1" "$2" > /dev/null 2>&1 || status=$?
    [ "$status" -eq 2 ] || tried=$((tried + 1))
    case $status in
    0) verdict="right" ;;
    1) verdict="WRONG" ;;
    2) verdict="not tried: no device, or it does not build" ;;
    124) verdict="HANGS" ;;
    *) verdict="ENDS THE PROCESS (status $status)" ;;
    esac
    printf '%-18s %-12s %s\n' "$1" "$2" "$verdict"
}

for items in 1 2 4; do
    try one_item.cl -DITEMS=$items
done
try volatile_store.cl ""
try volatile_store.cl -DWITHOUT
try quotient.cl ""
try quotient.cl -DUINT
try one_turn.cl ""
try one_turn.cl -DBOUND
try early_return.cl ""
try early_return.cl -DSTORE
try prefetch.cl ""
try prefetch.cl -DBUILTIN
POCL_WORK_GROUP_METHOD=loops
export POCL_WORK_GROUP_METHOD
try few_operands.cl ""
try few_operands.cl -DTHREE
unset POCL_WORK_GROUP_METHOD
[ "$tried" -gt 0 ] || {
    echo "skipped: no device, or none for which these kernels build"
    exit 77
}
