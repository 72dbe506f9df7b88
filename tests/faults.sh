#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/faults.sh [--every] [--sample N] [BUILD] [PROGRAM...]: makes OpenCL's calls fail, one after
# the other, in every program, and shows for each fault: an error in words and a status that is not
# 0, or the right result; and the run after it, with the same caches, is as if nothing had happened.
# Exits with 1 if one is not so.
#
# A layer of OpenCL's loader (tests/fault_layer, OPENCL_LAYERS) counts the calls of a run, over all
# its processes, and fails the one that is asked for. Of each call the first two, the one in the
# middle and the last fail; with --every all do (of `run` 45 000); with --sample N every Nth of these, from one
# that the clock chooses and the last line names (FAULTS_FIRST=n chooses it again). BUILD is a folder
# with the programs built (default: build/test-gcc). Caches are folders of their own. `clattn-bench
# compare` and `clattn-tune merge` are not here: they read and write files and make no OpenCL call.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
every=0
sample=1
while :; do
    case ${1:-} in
    --every) every=1 && shift ;;
    --sample) sample=$2 && shift 2 ;;
    *) break ;;
    esac
done
build=${1:-$root/build/test-gcc}
[ $# -eq 0 ] || shift
wanted=$*
first=${FAULTS_FIRST:-$(($(date +%s) % sample))}
layer=$build/tests/libclattn_fault_layer.so
calls=$(sed -n 's/^[A-Z]*(.*\(cl[A-Z][A-Za-z]*\), CL_.*/\1/p' "$root/tests/faults/calls.def")
work=$(mktemp -d) || exit 1
. "$root/tests/mpi/environment.sh"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

bench=$build/bench/clattn-bench
tune=$build/tuner/clattn-tune
problem="fwd f32 h2 q33 d24"
gradient="bwd f32 h2 q9 d8"

# Two ranks of MPI, where there is one: a call that fails on one of them ends both with one status.
mpi_row() {
    [ -x "$bench-mpi" ] && mpirun=$(sed -n 's/^MPIEXEC_EXECUTABLE:FILEPATH=//p' "$build/CMakeCache.txt") && [ -x "$mpirun" ] ||
        return 0
    cat > "$work/ranks.sh" <<'END'
bench=$1 mpirun=$2 statuses=$3
shift 3
rm -f "$statuses"
# mpirun ends all once one rank has ended with an error: each waits for the other's status.
"$mpirun" -n 2 sh -c 'statuses=$0
    "$@"
    status=$?
    echo $status >> "$statuses"
    tenths=0
    while [ "$(wc -l < "$statuses")" -lt 2 ] && [ $tenths -lt 300 ]; do
        sleep 0.1
        tenths=$((tenths + 1))
    done
    exit $status' "$statuses" "$bench" "$@"
status=$?
[ "$(wc -l < "$statuses")" -eq 2 ] && [ "$(sort -u "$statuses" | wc -l)" -eq 1 ] || { echo "ranks: $(cat "$statuses")"; exit 125; }
exit $status
END
    echo "run-mpi@efficiency@^ +(ring|heads) @sh '$work/ranks.sh' '$bench' '$mpirun' '$work/statuses' run --mpi --mode ring,heads --repeat 1 '$gradient causal=tl'"
}

# A line for each program: its name; what its output has only where the result is right; which of
# its words must be the same in the run after (an extended regular expression, nothing for none); the
# command. Several problems would take several compilers' time, and show no other calls.
programs() {
    cat <<END
devices@^\*@^.*\$@'$bench' devices
devices-json@"default": true@^.*\$@'$bench' devices --json
verify@^ok @ok .*@'$bench' verify '$root/tests/data/windows/test_attention_local_window_gqa_rank4_mask.safetensors'
plan@first execution@^(fwd|fused|split|unfused|un?tuned).*@'$bench' plan '$problem'
plan-bwd@first execution@^(bwd|backward|un?tuned).*@'$bench' plan '$gradient'
plan-layer@first execution@^(layer|un?tuned).*@'$bench' plan 'layer fwd f32 h2 q9 d8 model=16'
run@roof: @[a-z_]+, [a-z]+, workspace@'$bench' run --peers none --no-first-call --repeat 1 '$problem'
duel@verdict@^ +(fused|split|unfused).*@'$bench' duel --seconds 0 '$problem' untuned unfused
verify-bwd@^ok @^(ok| ).*@'$bench' verify '$gradient'
list@nothing is known@nothing is known.*@'$tune' list
show@untuned: @^(fused|untuned).*@'$tune' show '$problem'
tune@tuned in|nothing to do@never: .*@'$tune' --quiet --budget 2 --builders 1 --problem '$problem' && '$tune' list
list-tuned@ us @ us @'$tune' list
show-tuned@^tuned @^tuned @'$tune' show '$problem'
plan-tuned@first execution@^tuned.*@'$bench' plan --known-only '$problem'
export-tuned@@@'$tune' export '$work/exported.json'
import-tuned@@@'$tune' export '$work/exported.json' && '$tune' import '$work/exported.json'
forget-tuned@@@'$tune' forget '$problem'
forget-all-tuned@@@'$tune' forget --all
$(mpi_row)
END
    for source in "$root"/tests/examples/[0-9]*.c; do
        example=$(basename "$source" .c)
        echo "$example@@@'$build/tests/examples/example_$example'"
    done
}

# launch COMMAND: its output in $work/out, its status in $status.
launch() {
    timeout -k 5 300 sh -c "$1" > "$work/out" 2>&1 < /dev/null
    status=$?
}

# Words that every run of the program has alike.
alike() {
    [ -n "$same" ] && grep -oE "$same" "$work/out" | sed 's/[0-9]*\.[0-9]*//g' | sort -u
}

# The caches as they are before a run: empty, or with the problem tuned.
prepare() {
    rm -rf "$work/cache" "$work/counts"
    case $name in
    *-tuned)
        [ -d "$work/tuned" ] || {
            CLATTN_CACHE_DIR=$work/tuned "$tune" --quiet --budget 2 --builders 1 \
                --problem "$problem" > "$work/out" 2>&1 || { cat "$work/out" && exit 1; }
        }
        cp -r "$work/tuned" "$work/cache"
        ;;
    esac
}

# One right run with empty caches and one after it: what the others are compared with, and how often
# each call is made.
observe() {
    prepare
    FAULT_COUNTS=$work/counts launch "$command"
    [ $status -eq 0 ] || { cat "$work/out" && echo "$name fails without a fault" && exit 1; }
    cp "$work/out" "$work/usual"
    launch "$command"
    alike > "$work/alike"
    # shellcheck disable=SC2086 # one call a line
    printf '%s\n' $calls > "$work/names"
    od -An -v -tu8 -w8 "$work/counts" | paste -d ' ' "$work/names" - > "$work/often"
}

# The numbers of a call's failures, of so many calls.
places() {
    if [ $every -eq 1 ]; then
        seq 1 "$1"
    elif [ "$1" -gt 0 ]; then
        printf '%s\n' 1 2 $((($1 + 1) / 2)) "$1" | sort -nu | awk -v n="$1" '$1 <= n'
    fi
}

# Lines without their numbers, which differ from run to run.
lines_of() {
    sed 's/[0-9][0-9.]*//g' "$1"
}

# A sentence that a right run does not have: four words at least.
complains() {
    lines_of "$work/usual" > "$work/known"
    lines_of "$work/out" | grep -vxFf "$work/known" |
        grep -qE "([[:alpha:]_']+[^[:alpha:]_']+){3}[[:alpha:]_]"
}

# What the run with a fault came to: said, right, or what is wrong with it.
judge() {
    if [ $status -ge 124 ]; then
        echo "ended with status $status"
    elif [ $status -eq 0 ] && { [ -z "$right" ] || grep -qE "$right" "$work/out"; } &&
        ! grep -qE '^FAIL|WRONG|wrong: |failed: ' "$work/out"; then
        echo right
    elif [ $status -eq 0 ]; then
        echo "status 0 without the right result"
    elif complains; then
        echo said
    else
        echo "status $status without a sentence"
    fi
}

# What the run after it came to: fine, or what is wrong with it.
judge_after() {
    if [ $status -ne 0 ]; then
        echo "the run after it: status $status"
    elif alike | cmp -s - "$work/alike"; then
        echo fine
    else
        echo "the run after it differs"
    fi
}

violation() {
    violations=$((violations + 1))
    printf '    FAULT=%-34s %s\n' "$1" "$2"
    sed 's/^/        /' "$work/kept" | tail -n 3
}

attempt() {
    prepare
    FAULT=$1 FAULT_COUNTS=$work/counts launch "$command"
    verdict=$(judge)
    cp "$work/out" "$work/kept"
    case $verdict in
    right) rights=$((rights + 1)) ;;
    said) said=$((said + 1)) ;;
    *) violation "$1" "$verdict" ;;
    esac
    launch "$command"
    verdict=$(judge_after)
    [ "$verdict" = fine ] || { cp "$work/out" "$work/kept" && violation "$1" "$verdict"; }
}

[ -e "$layer" ] || { echo "not built: $layer" && exit 1; }
OPENCL_LAYERS=$layer
CLATTN_CACHE_DIR=$work/cache
: "${POCL_CACHE_DIR:=$work/pocl}" # compiled once, not once a fault
export OPENCL_LAYERS CLATTN_CACHE_DIR POCL_CACHE_DIR
if FAULT=clGetPlatformIDs:1+:-1001 "$bench" devices > "$work/out" 2>&1; then
    echo "this OpenCL loader does not take layers (ocl-icd 2.3 does): nothing was tried"
    exit 77
fi

trials=0
total=0
printf '%-24s %7s %7s %7s %10s\n' program faults right said violations
programs > "$work/programs"
while IFS='@' read -r name right same command; do
    case " $wanted " in *" $name "* | '  ') ;; *) continue ;; esac
    rights=0 said=0 violations=0 tried=0
    observe
    while read -r call count; do
        for place in $(places "$count"); do
            trials=$((trials + 1))
            [ $((trials % sample)) -eq $((first % sample)) ] || continue
            tried=$((tried + 1))
            attempt "$call:$place"
        done
    done < "$work/often"
    printf '%-24s %7d %7d %7d %10d\n' "$name" $tried $rights $said $violations
    total=$((total + violations))
done < "$work/programs"
[ "$sample" -eq 1 ] || echo "every ${sample}th fault, FAULTS_FIRST=$first"
[ $total -eq 0 ]
