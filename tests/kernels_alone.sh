#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/kernels_alone.sh BUILD: whether clang reads the file of each kernel by itself, with an example of what the
# host defines for it, without a warning. By hand, for one kernel, where BUILD is a folder that the tests are built in:
#
#   BUILD/tests/offline/kernel_example "fused_gpu UNIT=mma EMULATE=1" "fwd f16 h2 q64 k64 d64" > example.h
#   clang -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -fsyntax-only -Icl -Isrc -include example.h \
#       src/families/fused_gpu/fused_gpu_mma.cl
#
# Instructions of a processor are emulated, since clang may read for another. Exits with 77 where there is no clang.
set -u
[ $# -eq 1 ] || { sed -n '3,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
example=$1/tests/offline/kernel_example
cd "$(dirname "$0")/.." || exit 1
case $example in /*) ;; *) example=$OLDPWD/$example ;; esac
clang=$(command -v "${CLANG:-clang}") || { echo "skipped: no clang" >&2; exit 77; }
header=$(mktemp) || exit 1
trap 'rm -f "$header"' EXIT
bad=0 count=0
# A kernel's file below src/families, its family, and a problem.
while IFS='|' read -r file family problem; do
    count=$((count + 1))
    if ! "$example" "$family" "$problem" > "$header" ||
        ! sed -i 's/^#define EMULATE 0$/#define EMULATE 1/' "$header" ||
        ! "$clang" -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -fsyntax-only -Wall -Werror \
            -Wno-unused-function -Wno-unused-variable -Wno-pass-failed -Icl -Isrc -include "$header" \
            "src/families/$file.cl"; then
        echo "FAIL $file.cl is not read alone: $family, $problem" >&2
        bad=1
    fi
done << END
naive/naive|naive|fwd f32 h4/2 q9 k17 d16 causal=br sinks lse
naive/naive|naive|fwd f32 h2 q9 k17 d16 score=t5 visible=sliding_window
unfused/unfused|unfused|fwd f32 h2 q9 k17 d16 dropout=0.1
unfused_lanes/unfused_lanes|unfused_lanes|fwd f32 h2 q9 k17 d16 bias=f32:hqk
fused_cpu/fused_cpu|fused_cpu UNIT=vector|fwd f16 h2 q64 k64 d64 mask=qk kcache=q8_0 vcache=q4_0
fused_cpu/fused_cpu|fused_cpu UNIT=pairs|fwd bf16 h2 q64 k64 d64 causal=tl
fused_cpu/fused_cpu|fused_cpu UNIT=amx|fwd bf16 h2 q64 k64 d64
fused_cpu/fused_cpu|fused_cpu UNIT=bytes|fwd bf16 h4/2 q64 k64 d40 causal=br page=16 klen precision=int8
fused_cpu/fused_cpu|fused_cpu UNIT=bytes|fwd f32 h2 q64 k64 d64 kcache=int8 kscales=bhk mask=qk precision=int8
fused_cpu/fused_cpu|fused_cpu UNIT=vector|fwd f16 h2 q64 k64 d64 score=alibi visible=documents blocks=16x16:9
split_cpu/split_cpu|split_cpu UNIT=vector|fwd f16 h4/2 q1 k512 d64 page=16 pages=64 klen
split_cpu/split_cpu|split_cpu UNIT=vector|fwd f16 h4/2 q1 k512 d64 kcache=e4m3 vcache=q5_0
split_cpu/split_cpu|split_cpu UNIT=amx|fwd bf16 h32/2 q1 k512 d64
backward_cpu/backward_cpu|backward_cpu UNIT=vector|bwd f32 h2 q64 k64 d32 bias=f32:hqk dbias
backward_cpu/backward_cpu|backward_cpu UNIT=vector|bwd f32 h2 q64 k64 d32 score=softcap visible=prefix_lm
backward_cpu/backward_cpu|backward_cpu UNIT=amx|bwd bf16 h2 q64 k64 d32
fused_gpu/fused_gpu_item|fused_gpu UNIT=item|fwd f32 h2 q64 k64 d64 alibi dropout=0.1
fused_gpu/fused_gpu_mma|fused_gpu UNIT=mma EMULATE=1|fwd f16 h2 q64 k64 d64 kcache=q8_0 vcache=q4_0
fused_gpu/fused_gpu_mma|fused_gpu UNIT=mma EMULATE=1|fwd f16 h2 q64 k64 d64 score=swin visible=dilated alibi
fused_gpu/fused_gpu_warpgroup|fused_gpu UNIT=warpgroup EMULATE=1|fwd bf16 h2 q64 k64 d64 causal=tl
split_gpu/split_gpu_item|split_gpu UNIT=item|fwd f32 h8/2 q1 k512 d64 mask=bk sinks
split_gpu/split_gpu_mma|split_gpu UNIT=mma EMULATE=1|fwd f16 h8/2 q2 k512 d64 strict
backward_gpu/backward_gpu_item|backward_gpu UNIT=item|bwd f32 h2 q64 k64 d32 softcap=30 alibi dslopes
backward_gpu/backward_gpu_mma|backward_gpu UNIT=mma EMULATE=1|bwd f16 h2 q64 k64 d64 dropout=0.1
backward_gpu/backward_gpu_mma|backward_gpu UNIT=mma EMULATE=1|bwd f16 h2 q64 k64 d64 score=temperature visible=neighborhood
backward_gpu/backward_gpu_warpgroup|backward_gpu UNIT=warpgroup EMULATE=1|bwd bf16 h2 q64 k64 d64
projection_cpu/projection_cpu|projection_cpu UNIT=vector|proj f32 q64 d64 accumulate
projection_cpu/projection_cpu_amx|projection_cpu UNIT=amx|proj bf16 q64 d64
projection_gpu/projection_gpu_item|projection_gpu UNIT=item|proj f32 q64 d64 bias=f32
projection_gpu/projection_gpu_mma|projection_gpu UNIT=mma EMULATE=1|proj f16 q64 d64 w=oi
projection_gpu/projection_gpu_mma|projection_gpu UNIT=mma EMULATE=1|proj f32 q64 d64 accumulate
projection_gpu/projection_gpu_warpgroup|projection_gpu UNIT=warpgroup EMULATE=1|proj f16 q128 d128
merge_rows/merge_rows|merge_rows|merge f32 h2 q64 d64 n4 sinks
double_backward/double_backward|double_backward|bwd2 f16 h4/2 q64 k64 d64 causal=tl klen
weight_sums/weight_sums|weight_sums|fwd f16 h4/2 q9 k64 d40 page=16 pages=9 klen mask=qk lse keysums scores=mean
weight_sums/weight_sums|weight_sums plain|fwd f32 h4/2 q9 k64 d64 kcache=q8_0 causal=br sinks lse keysums scores=mean
indexer/indexer_cpu|indexer UNIT=vector|indexer f16 h4 q64 k512 d64 causal=br klen topk=16 scores
indexer/indexer_cpu|indexer UNIT=amx|indexer bf16 h4 q1 k512 d64 page=16 topk=16
indexer_gradients/indexer_gradients|indexer_gradients|indexer bf16 h4 q64 k512 d64 causal=br klen topk=16 gradients
indexer/indexer_item|indexer UNIT=item|indexer f16 h4 q64 k512 d64 causal=br klen topk=16 scores
chosen_keys/chosen_keys|chosen_keys|fwd f16 b2 h8/2 q1 k640 d64 page=16 pages=99 klen topk=20 topkheads
chosen_keys/chosen_keys|chosen_keys group|bwd f32 b2 h4/2 q9 k64 d16 causal=br mask=qk totalq=12 totalkv=99 topk=20
chosen_gradients/chosen_gradients|chosen_gradients|bwd bf16 h16/1 q9 k640 d64/32 klen sinks dlse dsinks topk=20
chosen_gradients/chosen_gradients|chosen_gradients group|bwd f32 b2 h8/2 q9 k640 d16 sinks dsinks totalq=12 totalkv=999 topk=9 topkheads
append_tokens/append_tokens|append_tokens|append f16 h4/2 q1 k64 d64 klen kcache=q8_0 rope=halves:64:10000
END
[ "$bad" -ne 0 ] || echo "clang reads each of $count examples of a kernel's file alone"
exit "$bad"
