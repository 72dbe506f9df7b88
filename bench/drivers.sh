#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh bench/drivers.sh FOLDER: every OpenCL implementation that needs no special hardware, side by side:
# PoCL (devices pthread and basic) and Mesa's rusticl on llvmpipe by packages, Intel's CPU runtime by
# PyPI into FOLDER. Writes FOLDER/env; in the shell that is to use them:
#     . FOLDER/env
# Nothing outside FOLDER is changed but for the packages. Intel's two wheels are some 700 MB.
set -eu
[ $# -eq 1 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."

sh tests/packages.sh device cpus

# intel-opencl-rt lacks the compiler's mathematical libraries, and the path in its .icd file is a
# placeholder, so it gets one that is true.
if [ ! -e "$folder/intel/lib/libintelocl.so" ]; then
    python3 -m venv "$folder/intel" ||
        { echo "drivers.sh: python3 lacks venv; on Debian: apt-get install python3-venv" >&2; exit 1; }
    "$folder/intel/bin/pip" install --quiet intel-opencl-rt intel-cmplr-lib-rt
fi
mkdir -p "$folder/vendors"
for icd in /etc/OpenCL/vendors/pocl.icd /etc/OpenCL/vendors/rusticl.icd; do
    [ ! -e "$icd" ] || cp "$icd" "$folder/vendors/"
done
echo "$folder/intel/lib/libintelocl.so" > "$folder/vendors/intel.icd"

cat > "$folder/env" <<END
OCL_ICD_VENDORS=$folder/vendors
POCL_DEVICES="pthread basic"
RUSTICL_ENABLE=llvmpipe
export OCL_ICD_VENDORS POCL_DEVICES RUSTICL_ENABLE
END
echo "now: . $folder/env"
