#!/bin/sh
# sh tests/report/render.sh BUILD_DIR: makes a report of the sample and looks at it in headless
# Chromium as a desktop and a phone show it; then at pages that are broken on purpose, each of which
# must be noticed. Ends with 77 where there is no Chromium.
set -eu
[ $# -eq 1 ] || { echo "usage: sh tests/report/render.sh BUILD_DIR" >&2; exit 2; }
build=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")" && pwd)

browser=
for name in chromium chromium-browser google-chrome; do
    if [ -z "$browser" ] && command -v "$name" > /dev/null 2>&1; then
        browser=$name
    fi
done
[ -n "$browser" ] || { echo "skipped: there is no chromium"; exit 77; }

# Not below /tmp where the browser is confined to the home directory; the build is the user's own.
folder=$(mktemp -d "$build/render.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# dump PAGE: what the browser made of it; its complaints go to the file errors.
dump() {
    # A user of its own: another Chromium may be running.
    "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
        --user-data-dir="$folder/user" --enable-logging=stderr --virtual-time-budget=20000 \
        --dump-dom "file://$folder/$1" 2> "$folder/errors"
}

fail() {
    echo "render.sh: $1" >&2
    exit 1
}

"$build/tests/clattn_report_sample" sample.json
"$build/bench/clattn-bench" report sample.json -o page.html

# The page as it is: its script may run, one that somebody slipped in may not.
sed 's|</main>|</main><script>document.body.id = "obeyed"</script>|' page.html > slipped.html
dump page.html > dumped
grep -q '<button type="button">' dumped || fail "the page's script did not run"
! grep CONSOLE errors || fail "the browser complains"
dump slipped.html > dumped
grep -q '<button type="button">' dumped || fail "the page's script did not run beside another one"
! grep -q 'id="obeyed"' dumped || fail "a foreign script ran"

# The copies are looked at by a script, which the page's policy would not let run.
sed '/http-equiv="Content-Security-Policy"/d' page.html > open.html
: > frames
expected=0

# look NAME WIDTH FILE: one more page to look at.
look() {
    {
        cat "$3"
        echo "<script>"
        cat "$source/check.js"
        echo "</script>"
    } > "$1.html"
    echo "<iframe name='$1' src='$1.html' style='border: 0; width: $2px; height: 900px'></iframe>" \
        >> frames
    expected=$((expected + 1))
}

look desktop 1280 open.html
look tablet 768 open.html
look phone 390 open.html
look small-phone 320 open.html

# broken NAME WIDTH COMPLAINT COMMAND: the same page, spoilt by sed, and what is to be said of it.
broken() {
    sed "$4" open.html > spoilt
    ! cmp -s open.html spoilt || fail "$1 is not broken"
    look "broken-$1" "$2" spoilt
    echo "$3" > "broken-$1.complaint"
}

broken clipped 1280 "is clipped" 's/canvas\.width - digits(canvas, 3)/canvas.width/'
broken overlapping 390 "lies over" 's/frame.row = Math.max([^;]*/frame.row = 6/'
broken illegible 390 "is 9." 's/font: narrow ? 13 : 14/font: narrow ? 9 : 14/'
broken wide 390 "px wide" 's|</main>|<div style="width: 600px">x</div></main>|'
broken empty 1280 "has no points" "s/'class': 'point'/'class': 'spot'/"
broken same-points 1280 "points of one form" "s/'data-form': style.form/'data-form': 'up'/"
broken same-lines 1280 "lines of one form" "s/dashes: style\[2\]/dashes: '2 2'/"
broken both-charts 1280 "shows 2 charts" 's/\.narrow { display: none; }//'
broken no-text 1280 "no text in place" "s/add(canvas, 'desc'/add(canvas, 'metadata'/"
broken ids 1280 "two elements are called" "s/id + 'w'/id/; s/id + 'n'/id/"
broken unsortable 1280 "does not say how" \
    "s/button.addEventListener('click'/button.addEventListener('x'/"
broken unsorted 1280 "not sorted" 's/return direction \* (a - b);/return direction * (b - a);/'
broken faint 1280 "hard to see" 's/--soft: #[0-9a-f]*;/--soft: #999;/'
broken headings 1280 "heading is missing" "s/make('h2', { id/make('h4', { id/"
broken loading 1280 "loads something" 's|</main>|<img src="sample.json" alt=""></main>|'

{
    cat << 'END'
<!DOCTYPE html><pre id="seen"></pre><script>
addEventListener('message', function (event) {
  document.getElementById('seen').textContent += 'seen ' + event.data + '\n';
});
</script>
END
    cat frames
} > all.html
dump all.html > dumped
sed -n 's/.*\(seen [a-z-]*: .*\)/\1/p' dumped > seen
[ "$(wc -l < seen)" -eq "$expected" ] || { cat seen; fail "not all pages were looked at"; }
bad=0
while read -r _ name verdict; do
    name=${name%:}
    case $name in
    broken-*)
        complaint=$(cat "$name.complaint")
        case $verdict in
        *"$complaint"*) echo "$name noticed" ;;
        *) echo "$name NOT NOTICED: $verdict"; bad=1 ;;
        esac
        ;;
    *)
        echo "$name $verdict"
        [ "$verdict" = fine ] || bad=1
        ;;
    esac
done < seen
exit "$bad"
