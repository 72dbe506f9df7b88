# SPDX-License-Identifier: Apache-2.0
# Uses an installed copy as a stranger would: by pkg-config and by find_package. Sourced, with $here, the
# folder of this file, $work, a folder to work in, and $prefix, where the copy is.

# silent FILE: a compiler that has something to say of a first program spoils the first impression.
silent() {
    [ ! -s "$1" ] || { cat "$1"; exit 1; }
}

echo "pkg-config"
cc -std=c11 -o "$work/by-pkg-config" "$here/outside.c" \
    $(pkg-config --cflags --libs clattn) -lm 2> "$work/notes"
silent "$work/notes"
timeout 60 "$work/by-pkg-config"

if command -v c++ > /dev/null 2>&1; then
    echo "the headers in C++"
    for standard in 98 11 17; do
        echo '#include <clattn/clattn.h>' | c++ -x c++ -std=c++$standard -Wall -Wextra -pedantic-errors -Werror \
            -fsyntax-only $(pkg-config --cflags clattn) -
    done
fi

echo "the first program of README.md prints what stands there"
readme=$here/../../README.md
sed -n '/^```c run$/,/^```$/p' "$readme" | sed '/^```/d' > "$work/first.c"
cc -std=c11 -o "$work/first" "$work/first.c" $(pkg-config --cflags --libs clattn) 2> "$work/notes"
silent "$work/notes"
timeout 60 "$work/first" > "$work/printed"
sed -n '/^```text output$/,/^```$/p' "$readme" | sed '/^```/d' | diff - "$work/printed"

echo "find_package"
cmake -S "$here" -B "$work/outside" -DCMAKE_PREFIX_PATH="$prefix" >> "$work/log"
cmake --build "$work/outside" >> "$work/log" 2> "$work/notes"
silent "$work/notes"
timeout 60 "$work/outside/outside_shared"
timeout 60 "$work/outside/outside_static"
