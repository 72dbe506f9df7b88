#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sh doc/man3.sh PAGE: makes the library's manual page, clattn.3, of the public headers: what each is about, its functions with
# the first sentence of their description, statuses, and the environment variables that the library reads.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
done=
version=$(sed -n 's/.*CLATTN_VERSION_STRING "\([0-9.]*\)".*/\1/p' "$here/include/clattn/version.h")

# A header's part: its @file line, then each function with a sentence.
header() {
    tr '\n' '\001' < "$1" | sed 's#/\*\*#\n&#g; s#\*/#&\n#g' | awk '
        function plain(text) {
            gsub(/\001( *\*+ )?/, " ", text); gsub(/[ \t]+/, " ", text); gsub(/@(p|ref|c) /, "", text)
            sub(/^\/\*\*[ *]*/, "", text); sub(/ *\*\/ *$/, "", text); sub(/^ +/, "", text)
            return text
        }
        function sentence(text) {
            if (match(text, /\.( |$)/)) text = substr(text, 1, RSTART)
            sub(/ @(param|return|retval).*/, "", text)
            return text
        }
        function escape(text) {
            gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text); gsub(/"/, "\\(dq", text)
            if (text ~ /^[.\047]/) text = "\\&" text
            return text
        }
        /^\/\*\*/ {
            said = plain($0)
            if (said ~ /^@file/) {
                sub(/^@file [^ ]+ +/, "", said)
                sub(/ *@ingroup .*/, "", said)
                print escape(sentence(said))
                said = ""
            }
            next
        }
        {
            declared = $0
            while (match(declared, /CLATTN_(MPI_)?API [^;]*;/)) {
                one = substr(declared, RSTART, RLENGTH)
                declared = substr(declared, RSTART + RLENGTH)
                sub(/^CLATTN_(MPI_)?API */, "", one); gsub(/\001/, " ", one); gsub(/[ \t]+/, " ", one)
                print ".TP\n.B " escape(one)
                print said == "" ? "\\&" : escape(sentence(said))
                said = ""
            }
        }'
}

{
    cat << END
.TH CLATTN 3 "" "$version" clattn
.SH NAME
clattn \- attention for every OpenCL device
.SH SYNOPSIS
.nf
.B #include <clattn/clattn.h>
.PP
.BI "cc " program.c " \$(pkg\-config \-\-cflags \-\-libs clattn)"
.fi
.SH DESCRIPTION
The library computes softmax(QK\(haT)V, its gradients, projections and multi\-head layers on OpenCL GPUs and CPUs.
A problem says what is computed, a context holds a device, and a plan is a problem on a device: its kernels are chosen,
built and checked once, and executed often.
Handles are opaque, and whoever made one releases it.
Contexts and plans may be shared by any number of threads.
A struct that may grow begins with its size.
Each header describes its functions in full; \(lqcmake \-\-build . \-\-target doc\(rq makes pages of them.
END
    named="problem tensors function blocks context device plan family tuning attention double_backward projection multihead
        indexer merge append dropout quantize status version"
    for name in $named $(cd "$here/include/clattn" && printf '%s\n' *.h | sed 's/\.h$//'); do
        case " $(echo $done) clattn export mpi " in *" $name "*) continue ;; esac # each once
        done="$done $name"
        echo ".SH $(echo "$name" | tr 'a-z_' 'A-Z ')"
        header "$here/include/clattn/$name.h"
    done
    echo '.SH RETURN VALUE'
    echo 'Calls that can fail return a status; clattn_context_last_error() has the sentence for a person.'
    awk '/\/\*\*/ && !/enum/ { text = $0; sub(/.*\/\*\* */, "", text); sub(/ *\*\/.*/, "", text) }
        /^    CLATTN_[A-Z_]+ = [0-9]+/ {
            name = $1; sub(/,.*/, "", name)
            print ".TP\n.B " name
            if ($3 + 0 == 0) print "The call did what it says."
            else { gsub(/-/, "\\-", text); print text }
        }' "$here/include/clattn/status.h"
    echo .SH ENVIRONMENT
    tr -d '\\' < "$here/src/base/variables.def" | tr '\n' ' ' | sed 's/VARIABLE(/\n&/g' |
        sed -n 's/^VARIABLE([A-Z_]*, *"\([^"]*\)", *"library", *"\(.*\)") *$/.TP\n.B \1\n\2/p' | sed 's/" *"//g; s/`//g; s/-/\\-/g'
    cat << END
.SH FILES
.TP
.I ~/.cache/clattn
Built programs and what was tuned, unless CLATTN_CACHE_DIR or XDG_CACHE_HOME name another folder.
.SH SEE ALSO
.BR clattn\-tune (1),
.BR clattn\-bench (1)
END
} > "$1.part"
mv "$1.part" "$1"
