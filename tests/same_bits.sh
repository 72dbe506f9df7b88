#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/same_bits.sh OLD NEW [COUNT [SEED [FAMILY...]]]: whether two builds compute the same bits of o,
# lse, scores, all gradients and projections, for COUNT (300) problems drawn from SEED (1) over FAMILY...
# (all that both know), dtypes, options, layouts and tunables. Prints the first differences and fails if
# there are any, or if the driver did not build or run a program. For changes of kernels that are to
# change nothing: by hand, not in tests/run.sh, since PoCL compiles a program for nearly every problem.
#   OLD  a folder that another version is built in, or - for what the run before found in it, with the
#        same problems
#   NEW  a folder that this tree is built in, tests included
set -u
[ $# -ge 2 ] || { sed -n '3,9s/^# //p' "$0" >&2; exit 2; }
old=$1 new=$2 count=${3:-300} seed=${4:-1}
if [ $# -ge 4 ]; then shift 4; else shift $#; fi
programs=$new/tests/same_bits work=$new/same_bits
mkdir -p "$work" || exit 2

# Another version may have been built in another place: the library decides what the program can do.
run() {
    LD_LIBRARY_PATH=$1 CLATTN_CACHE_DIR='' "$programs/same_bits_run" < "$work/cases"
}

if [ "$old" != - ]; then
    "$programs/same_bits_draw" "$count" "$seed" "$@" > "$work/cases" || exit 2
    run "$old" > "$work/old" || exit 2
fi
run "$new" > "$work/new" || exit 2
differ=$(diff "$work/old" "$work/new" | grep -c '^>')
diff "$work/old" "$work/new" | head -n 20
unbuilt=$(cat "$work/old" "$work/new" | grep -c 'CLATTN_\(BUILD_FAILED\|OPENCL_ERROR\)$')
echo "$(wc -l < "$work/new") problems, $differ of them with other bits; the driver failed at $unbuilt of both builds' results"
[ "$differ" -eq 0 ] && [ "$unbuilt" -eq 0 ] && cmp -s "$work/old" "$work/new"
