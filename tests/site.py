# SPDX-License-Identifier: Apache-2.0
"""python3 tests/site.py FOLDER: looks at a static site (doc/site.py) as a reader does. No link of a page leads nowhere, and in a
browser with a phone's window no page is wider than it, or empty. Ends with 77 where there is no site or no Chromium, and says
so."""
import functools
import html
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

WIDTH, HEIGHT = 360, 740  # a small phone's
# Lists of all names that Doxygen makes by itself: those of 1.15 and 1.17 name some places that do not exist.
LISTS = re.compile(r"reference/(doxygen_crawl|globals\w*)\.html$")
# Frames without scripts: Material's take a second a page, and move nothing.
LOOK = """<!DOCTYPE html><body><iframe id="f" sandbox="allow-same-origin" style="border:0;width:%dpx;height:%dpx"></iframe><pre id="said"></pre><script>
(async () => {
    const frame = document.getElementById("f"), said = [];
    for (const page of %s) {
        await new Promise(done => {
            frame.onload = done;
            frame.src = page;
        });
        const root = frame.contentDocument.documentElement, article = frame.contentDocument.querySelector("article");
        const wide = [...frame.contentDocument.querySelectorAll("article *")].filter(one => one.getBoundingClientRect().right > %d
            && !one.closest("pre, .md-typeset__scrollwrap, .md-typeset__table"));
        said.push([page, root.scrollWidth, article ? article.innerText.trim().length : 0, wide.length ? wide[0].outerHTML.slice(0, 80) : ""]);
    }
    document.getElementById("said").textContent = "LOOKED " + JSON.stringify(said) + " LOOKED";
})();
</script></body>"""


class Links(HTMLParser):
    """What a page leads to, and the places in it that others lead to."""

    def __init__(self):
        super().__init__()
        self.to, self.places = set(), {""}

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.to.add(value)
            elif name == "id" or (name == "name" and tag == "a"):
                self.places.add(value)


def links(site, pages):
    """Links that lead nowhere."""
    found = {}

    def read(path):
        if path not in found:
            found[path] = Links()
            found[path].feed(path.read_text(encoding="utf-8", errors="replace"))
        return found[path]

    for page in pages:
        for link in read(site / page).to:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path = unquote(parts.path)
            to = ((site / path.lstrip("/") if path.startswith("/") else site / page / ".." / path) if path else site / page).resolve()
            to = to / "index.html" if to.is_dir() else to
            if not to.exists():
                yield f"{page} leads to {link}, which is not there"
            elif parts.fragment and to.suffix == ".html" and unquote(parts.fragment) not in read(to).places and not LISTS.match(page):
                yield f"{page} leads to {link}, where there is no such place"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def browser(chromium, site, pages):
    """What a browser finds wrong."""
    look = site / "look-at-all-pages.html"
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    look.write_text(LOOK % (WIDTH, HEIGHT, json.dumps(pages), WIDTH), encoding="utf-8")
    try:
        with tempfile.TemporaryDirectory() as profile:
            said = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                                   f"--user-data-dir={profile}", "--virtual-time-budget=600000", "--dump-dom",
                                   f"http://127.0.0.1:{server.server_port}/{look.name}"],
                                  env={**os.environ, "HOME": profile}, capture_output=True, text=True, timeout=300)
    finally:
        look.unlink()
        server.shutdown()
    seen = re.search(r"LOOKED (.*) LOOKED</pre>", said.stdout, re.S)
    if not seen:
        yield f"the browser ended with {said.returncode} before it had looked at all pages: {said.stderr[-500:]}"
        return
    for page, width, letters, widest in json.loads(html.unescape(seen[1])):
        if width > WIDTH + 1:  # edges of tables are rounded
            yield f"{page} is {width} pixels wide in a window of {WIDTH}: {' '.join(widest.split())}"
        if letters < 100:
            yield f"{page} shows {letters} letters"


def main(arguments):
    if len(arguments) != 1:
        sys.exit("usage: python3 tests/site.py FOLDER")
    site = Path(arguments[0]).resolve()
    if not (site / "index.html").exists():
        print("skipped: there is no site to look at (cmake --build . --target site)")
        return 77
    pages = sorted(str(page.relative_to(site)) for page in site.rglob("*.html") if page.name != "404.html")
    wrong = list(links(site, pages))
    pages = [page for page in pages if not page.startswith("reference/")]  # whose width is Doxygen's
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium:
        wrong += browser(chromium, site, pages)
    print("\n".join(wrong + [f"{len(pages)} pages, {len(wrong)} faults"]))
    if not chromium:
        print("skipped: the site in a browser, for there is no Chromium (sh tests/packages.sh site)")
    return 1 if wrong else 0 if chromium else 77


sys.exit(main(sys.argv[1:]))
