#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/offline.sh [--all | --variants] [BUILD [SAMPLES [SEED]]]: compiles the kernels of GPUs to machine code,
# without a GPU, and prints what came of it (tests/offline/table.py says what); fails if a rule is
# broken. Most problems are compiled for one GPU each, which SEED chooses, with --all for every one.
# BUILD is a folder that the project is built in, by default build/offline, where it builds itself what
# it needs; SAMPLES, by default 1, is the number of programs with tunables at random of each family and
# GPU, drawn from SEED (CLATTN_TEST_SEED, else 1), of which a few are compiled without --all.
#   CLATTN_OFFLINE_ONLY=PATTERN  only the cases whose line in BUILD/offline/cases matches (grep -E)
#   CLATTN_OFFLINE_JOBS=N        compilers that run at a time, by default 1
#   CLATTN_OFFLINE_KEEP=FOLDER   keeps what compilers made there, and takes it where source and compilers are the same
# Needs a clang from 16 to 19, whose assembler the table knows, that can read the libclc that is there
# (tests/packages.sh gpus), for gfx942 clang 17 or newer, and for Intel's GPUs ocloc; what has no compiler
# is left out, as the head of the table and a line "skipped: ..." say. For NVIDIA ptxas of the CUDA toolkit besides (in Debian's non-free: nvidia-cuda-toolkit); with nvdisasm machine
# code is read, else PTX.
# Exits with 77 where nothing can be compiled, and says why.
set -u
cd "$(dirname "$0")/.." || exit 1
amount=some
case ${1:-} in --all | --variants)
    amount=${1#--}
    shift
    ;;
esac
build=${1:-build/offline}
samples=${2:-1}
seed=${3:-${CLATTN_TEST_SEED:-1}}
[ "$seed" != day ] || seed=$(($(date +%s) / 86400))
work=$build/offline
PATH=$PATH:/usr/local/cuda/bin

skip() {
    echo "skipped: $*" >&2
    exit 77
}

command -v python3 > /dev/null || skip "no python3"
for library in amdgcn--amdhsa nvptx64--nvidiacl; do
    [ -e "/usr/lib/clc/$library.bc" ] || skip "no /usr/lib/clc/$library.bc (sh tests/packages.sh gpus)"
done

# compiler_for TARGET: the first clang that knows the GPU and can read libclc.
compiler_for() {
    case $1 in
    sm_*) to="nvptx64-nvidia-nvcl -Xclang -target-cpu -Xclang $1" library=nvptx64--nvidiacl ;;
    *) to="amdgcn-amd-amdhsa -mcpu=$1" library=amdgcn--amdhsa ;;
    esac
    for candidate in clang-16 clang-17 clang-18 clang-19; do
        # shellcheck disable=SC2086 # a list of words
        if echo | "$candidate" -x cl -target $to -nogpulib -Xclang -mlink-builtin-bitcode \
            -Xclang "/usr/lib/clc/$library.bc" -S -o /dev/null - 2> /dev/null; then
            echo "$candidate"
            return
        fi
    done
}

clang=$(compiler_for sm_75)
[ -n "$clang" ] ||
    skip "no clang from 16 to 19 that reads this libclc is there (sh tests/packages.sh gpus)"

if [ ! -e "$build/tests/offline/offline_cases" ]; then
    mkdir -p "$build"
    { cmake -B "$build" -DCMAKE_BUILD_TYPE=Release &&
        cmake --build "$build" --target offline_cases; } > "$build/offline.log" 2>&1 ||
        { tail -n 40 "$build/offline.log" >&2; exit 1; }
fi
rm -rf "$work"
mkdir -p "$work"
work=$(cd "$work" && pwd) # Intel's compiler includes files by their full names alone
cat bench/gpu/variants-*.txt |
    "$build/tests/offline/offline_cases" "$work" bench/profiles "$samples" "$seed" "$amount" || exit 1
if [ -n "${CLATTN_OFFLINE_ONLY:-}" ]; then
    grep -E "$CLATTN_OFFLINE_ONLY" "$work/cases" > "$work/chosen"
    mv "$work/chosen" "$work/cases"
fi

# The compiler of each target, "TARGET COMPILER" a line; cases of those without one are left out.
compiler_of() {
    case $1 in
    gfx*) compiler_for "$1" ;;
    sm_*) echo "$clang" ;;
    *) command -v ocloc ;;
    esac
}
missing=
for target in $(cut -f 2 "$work/cases" | sort -u); do
    found=$(compiler_of "$target")
    if [ -n "$found" ]; then
        echo "$target $found" >> "$work/compilers"
    else
        missing="$missing $target"
        echo "skipped: no code is made for $target, for which no compiler is there"
        awk -v FS='\t' -v target="$target" '$2 != target' "$work/cases" > "$work/chosen"
        mv "$work/chosen" "$work/cases"
    fi
done

ptxas=$(command -v ptxas || true)
nvdisasm=${CLATTN_NVDISASM:-$(command -v nvdisasm || true)}
cat << END
made by: sh tests/offline.sh$([ "$amount" = some ] || echo " --$amount") BUILD $samples $seed
compilers: $("$clang" --version | head -n 1); libclc $(
    dpkg-query -W -f '${Package} ${Version}\n' 'libclc-[0-9]*' 2> /dev/null | head -n 1)
AMD, Intel: $(grep -v '^sm_' "$work/compilers" | sed 's| .*/| |' | paste -s -d , |
        sed 's/,/, /g')${missing:+; no compiler for$missing}
NVIDIA: $(if [ -n "$ptxas" ]; then "$ptxas" --version | sed -n 's/.*release/ptxas/p'; else
    echo "no ptxas, so PTX is all that was made (Debian: nvidia-cuda-toolkit, in non-free)"; fi)$(
    if [ -n "$ptxas" ] && [ -z "$nvdisasm" ]; then echo "; no nvdisasm: loops are those of PTX"; fi)
regs, spills: 32-bit registers of a work-item (AMD: vector registers); local: bytes of a work-group
groups, waves: resident on a compute unit (RDNA: half of a work-group processor; Intel: Xe core), and
  on each of its register files; Intel has 32 registers for each of 32 lanes, 128 for each of 8, and
  does not say how much local memory it takes: as the family counts; share: multiply-adds, in percent of all operations, of each loop that multiplies what
  local memory holds; loads: bytes of an item x places in the code, local ones in these loops, global
  ones in the kernel (narrow ones: rows that are not aligned, options)

END

{
    [ -z "$ptxas" ] || "$ptxas" --version
    dpkg-query -W -f '${Package} ${Version}\n' 'libclc-[0-9]*' intel-opencl-icd 2> /dev/null
} > "$work/versions"
# One program: a line of the list. What a compiler says is kept beside its output.
cat > "$work/compile.sh" << 'END'
preprocessor=$1 ptxas=$2 nvdisasm=$3 work=$4 keep=$5 line=$6
tab=$(printf '\t')
IFS=$tab read -r number target family kind problem tunables counted kernels options << LINE
$(sed -n "${line}p" "$work/cases")
LINE
at=$work/$number
clang=$(sed -n "s/^$target //p" "$work/compilers")
# NVIDIA's compiler is told how many registers to use, LLVM's does not know that option.
most=$(echo "$options" | sed -n 's/.*-cl-nv-maxrregcount=\([0-9]*\).*/-maxrregcount=\1/p')
options=$(echo "$options" | sed 's/-cl-nv-maxrregcount=[0-9]*//')
cl="$clang -x cl -Xclang -finclude-default-header -O3 -Werror -Wno-linker-warnings -include $at.h $options"
# LLVM 16 knows architectures up to sm_90, whose PTX ptxas assembles for newer ones.
made_for=$target
case $target in sm_1*) made_for=sm_90 ;; esac
# What is kept is named by all that decides it. Intel's compiler has no output of its preprocessor: clang's for SPIR
# defines the macros that our sources ask for as Intel's compiler does.
case $target in
gfx*) set -- -target amdgcn-amd-amdhsa "-mcpu=$target" -nogpulib "$work/$family.cl" ;;
sm_*) set -- -target nvptx64-nvidia-nvcl -Xclang -target-cpu -Xclang "$made_for" "$work/$family.cl" ;;
*)  # Debian's build knows matrix instructions, but its header does not declare them.
    cat > "$at.cl" << KERNELS
#if INSTRUCTION == 5 || INSTRUCTION == 6
float8 __attribute__((overloadable)) intel_sub_group_f16_f16_matrix_mad_k16(int8, int8, float8);
float8 __attribute__((overloadable)) intel_sub_group_f16_f16_matrix_mad_k16(short8, int8, float8);
float8 __attribute__((overloadable)) intel_sub_group_bf16_bf16_matrix_mad_k16(int8, int8, float8);
float8 __attribute__((overloadable)) intel_sub_group_bf16_bf16_matrix_mad_k16(short8, int8, float8);
int8 __attribute__((overloadable)) intel_sub_group_i8_i8_matrix_mad_k32(int8, int8, int8);
int8 __attribute__((overloadable)) intel_sub_group_i8_i8_matrix_mad_k32(short8, int8, int8);
#endif
#include "$at.h"
#include "$work/$family.cl"
KERNELS
    ;;
esac
if [ -n "$keep" ]; then
    case $target in
    gfx* | sm_*) $cl -E -P "$@" > "$at.kept" 2> "$at.log" || exit 0 ;;
    *)
        # shellcheck disable=SC2086 # a list of words
        "$preprocessor" -x cl -cl-no-stdinc -target spir64 -E -P $(echo "$options" | sed 's/-cl-intel[^ ]*//g') \
            "$at.cl" > "$at.kept" 2> "$at.log" || exit 0
        ;;
    esac
    kept=$keep/$({
        echo "$target $kernels $most $(echo "$options" | sed 's/-D[^ ]*//g')"
        "$clang" --version 2>&1
        cat "$work/versions" "$0" "$at.kept"
    } | sha256sum | cut -c 1-40)
    rm -f "$at.kept" "$at.log"
    if [ -d "$kept" ]; then
        for file in "$kept"/*; do
            cp "$file" "$at.${file##*/}"
        done
        exit 0
    fi
fi
case $target in
gfx*)
    $cl -target amdgcn-amd-amdhsa "-mcpu=$target" -nogpulib -Xclang -mlink-builtin-bitcode \
        -Xclang /usr/lib/clc/amdgcn--amdhsa.bc -S "$work/$family.cl" -o "$at.asm" 2> "$at.log" &&
        "$clang" -target amdgcn-amd-amdhsa "-mcpu=$target" -c -x assembler "$at.asm" \
            -o "$at.o" 2>> "$at.log" && mv "$at.asm" "$at.s"
    ;;
sm_*) # libclc's native_exp2 is none of LLVM's instructions for NVIDIA
    $cl -Dnative_exp2=exp2 -target nvptx64-nvidia-nvcl -Xclang -target-cpu -Xclang "$made_for" \
        -Xclang -target-feature -Xclang +ptx72 -Xclang -mlink-builtin-bitcode \
        -Xclang /usr/lib/clc/nvptx64--nvidiacl.bc -S "$work/$family.cl" \
        -o "$at.made" 2> "$at.log" || exit 0
    # Instructions of one architecture alone stand in comments (src/program/ptx.h).
    if grep -q "//${target}a " "$at.made"; then
        awk -v mark="//${target}a.entry " '
            FNR == NR { if (/^(\.visible )?\.entry /) count++
                        if (at = index($0, mark)) directive[count] = substr($0, at + length(mark))
                        next }
            /^(\.visible )?\.entry / { number++ }
            /^\{/ && number in directive { print directive[number] }
            index($0, mark) == 0' "$at.made" "$at.made" > "$at.alone"
        sed "s|//${target}a ||" "$at.alone" > "$at.made"
    fi
    if [ "$target" = sm_90 ]; then # ptxas gives sm_90 48 KB of local memory, as the driver does not, and sm_90a all
        sed -i "s|^\\.target $target|&a|; s|^\\.version .*|.version 8.0|" "$at.made"
        target=${target}a
    fi
    if [ -n "$ptxas" ]; then
        # NVIDIA's own compiler passes on reqd_work_group_size: of more than 256 items not all can have as
        # many registers as there are. (With fewer ptxas may spill, for one more group to be resident.)
        awk -v kernels="$kernels" -v directed="$(grep -c '^\.minnctapersm' "$at.made")" '
            BEGIN { count = split(kernels, words, /[ =]+/)
                    for (n = 1; n < count; n += 2) items[words[n]] = words[n + 1] }
            { print }
            /^(\.visible )?\.entry / { name = $0; sub(/.*\.entry /, "", name); sub(/[( ].*/, "", name) }
            name != "" && /^\)/ { if (items[name] && (items[name] > 256 || directed)) print ".reqntid " items[name] ", 1, 1"; name = "" }' \
            "$at.made" > "$at.required" && mv "$at.required" "$at.made"
        "$ptxas" -v "-arch=$target" $most "$at.made" -o "$at.o" > "$at.ptxas" 2>&1 || exit 0
        [ -z "$nvdisasm" ] || "$nvdisasm" "$at.o" > "$at.sass" 2>> "$at.log"
    fi
    mv "$at.made" "$at.ptx"
    ;;
*) # A file for each kernel, with the lanes in its name; of a kernel that spilled too much two, the
    # second, with a number before the lanes, being what it is made into.
    mkdir "$at.dump"
    IGC_ShaderDumpEnable=1 IGC_DumpToCustomDir=$at.dump "$clang" compile -file "$at.cl" \
        -device "$target" -output "$at.made" -output_no_suffix -options "$options" > "$at.log" 2>&1 &&
        for kernel in "$at.dump"/*.asm; do
            lanes=${kernel##*_simd}
            second=$(echo "$at.dump"/*_[1-9]_simd*"_${lanes#*_}")
            [ ! -e "$second" ] || [ "$second" = "$kernel" ] || continue
            # LLVM's last text says how many bytes of a work-item's arrays lie in memory; a second one has its number at
            # the end.
            texts=${kernel%_simd*}
            last=${texts}_push_analysis.ll
            [ -e "$last" ] || last=${texts%_*}_push_analysis_${texts##*_}.ll
            awk -v lanes="${lanes%%_*}" '
                FILENAME == ARGV[1] { if (/"FuncMDMap\[/) { name = $0; sub(/.*@/, "", name); sub(/}.*/, "", name) }
                                      if (/"privateMemoryPerWI"/) arrays[name] = $NF + 0
                                      next }
                { print }
                /^\/\/\.kernel / { print "//.lanes " lanes; print "//.arrays " arrays[$2] + 0 }' \
                "$last" "$kernel"
        done > "$at.xe"
    rm -rf "$at.dump" "$at.made" "$at.made.spv" "$at.cl"
    ;;
esac
rm -f "$at.o"
if [ -n "$keep" ]; then
    mkdir -p "$kept.$$"
    for file in "$at".*; do
        [ "$file" = "$at.h" ] || cp "$file" "$kept.$$/${file#"$at".}"
    done
    mv "$kept.$$" "$kept" 2> /dev/null || rm -rf "$kept.$$"
fi
exit 0
END
seq "$(wc -l < "$work/cases")" |
    xargs -P "${CLATTN_OFFLINE_JOBS:-1}" -n 1 \
        sh "$work/compile.sh" "$clang" "$ptxas" "$nvdisasm" "$work" "${CLATTN_OFFLINE_KEEP:-}"
# The last of the tables that are kept may be of kernels as they were.
for kept in bench/results/gpus-offline-*.txt; do :; done
python3 tests/offline/table.py "$work" "$kept"
