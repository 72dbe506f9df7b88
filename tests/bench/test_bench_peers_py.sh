#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The protocol of bench/peers/python/peers.py with a Python that has no packages: every request gets one
# answer, whatever it is made of. Usage: test_bench_peers_py.sh PEERS.PY
# What it computes with the packages is checked by peers/check_peers.py, by hand.
peers=$1
failures=0
newline='
'

command -v python3 >/dev/null || { echo "skipped: there is no python3"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1

# ask LIBRARY REQUESTS: sets $answers and $status.
ask() {
    answers=$(printf '%b' "$2" | python3 -S "$peers" "$1" 3<&0 4>&1 2>/dev/null)
    status=$?
}

fail() {
    echo "FAILED: $1"
    failures=$((failures + 1))
}

# expect WHAT ANSWER...: of the last ask(), which ended well.
expect() {
    what=$1
    shift
    wanted=
    for answer; do
        wanted=$wanted${wanted:+$newline}$answer
    done
    [ "$status" -eq 0 ] || fail "$what: it ended with $status"
    [ "$answers" = "$wanted" ] || fail "$what: $answers$newline  instead of: $wanted"
}

refused() {
    printf '{"ok": false, "why": "%s"}' "$1"
}

hello='{"do": "hello", "device": "0", "device_type": "cpu", "device_name": "CPU", "threads": 2}\n'

ask torch "$hello"
expect "no packages" "$(refused 'Python cannot import numpy: pip install numpy torch')"
ask onnxruntime "$hello"
expect "no packages" "$(refused 'Python cannot import numpy: pip install numpy onnxruntime onnx')"

ask torch "$hello$hello"
expect "a refusal is no end" "$(refused 'Python cannot import numpy: pip install numpy torch')" \
    "$(refused 'Python cannot import numpy: pip install numpy torch')"

ask torch ''
expect "no request"

first=$(refused "The first request is 'hello'.")
ask torch '{"do": "open"}\n{"do": "sample"}\n{"do": "result"}\n{"do": "close"}\n'
expect "work before hello" "$first" "$first" "$first" "$first"

ask torch '{"do": "dance"}\n{"do": 7}\n{"do": null}\n{}\n{"do": "\\ud800\\u001b[2J"}\n'
expect "requests there are none of" "$(refused "There is no request 'dance'.")" \
    "$(refused "There is no request '7'.")" "$(refused "There is no request 'None'.")" \
    "$(refused "There is no request 'None'.")" "$(refused "There is no request '  [2J'.")"

object=$(refused 'A request is a JSON object.')
ask torch '[]\n7\n"hello"\nnull\n'
expect "no objects" "$object" "$object" "$object" "$object"

# The words after the colon are Python's own.
deep=$(printf '%20000s' '' | tr ' ' '[')
ask torch "hello\n\n{\n\\0377\\0376\n{\"do\": \"hello\"\\0000}\n$deep\n"
count=$(printf '%s\n' "$answers" | grep -c '^{"ok": false, "why": "The request is no JSON: .*"}$')
{ [ "$status" -eq 0 ] && [ "$count" -eq 6 ]; } || fail "no JSON: $status, $answers"

ask torch '{"do": "close"}'
expect "a last line without an end" "$first"

ask tensorflow "$hello"
{ [ "$status" -eq 2 ] && [ -z "$answers" ]; } || fail "an unknown library: $status, $answers"
python3 -S "$peers" tensorflow 2>&1 | grep -q "invalid choice: 'tensorflow'" ||
    fail "an unknown library is not named"
python3 -S "$peers" torch 3<&- 4>&- >/dev/null 2>&1
[ $? -eq 2 ] || fail "without descriptors it does not end with 2"
python3 -S "$peers" torch 3<&- 4>&- 2>&1 | grep -q 'file descriptor 3' ||
    fail "without descriptors it does not say what is missing"

[ "$failures" -eq 0 ] && echo "The peers in Python answer whatever they are asked."
exit "$failures"
