# SPDX-License-Identifier: Apache-2.0
"""test_report.py TREE: bench/report.py on results of this tree, on hostile ones, and on files that are none. 77: no matplotlib."""
import copy
import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

tree = pathlib.Path(sys.argv[1])
script = tree / "bench/report.py"
folder = pathlib.Path(tempfile.mkdtemp())


def run(*arguments):
    done = subprocess.run([sys.executable, script, *map(str, arguments)], capture_output=True, text=True, cwd=folder, check=False)
    return done.returncode, done.stderr


def page(name, results):
    (folder / name).write_text(json.dumps(results))
    code, error = run(name, "-o", "page.html")
    assert code == 0, error
    return (folder / "page.html").read_text()


def refused(sentence, *arguments):
    code, error = run(*arguments)
    assert code != 0 and sentence in error and "Traceback" not in error, (arguments, error)


standard = json.loads((tree / "bench/results/standard-epyc-zen5-2026-11-26.json").read_text())
for sentence, text in (("cannot be read", "[1, 2"), ("does not hold results", '{"schema": "clattn-bench-duel-1"}'),
                       ("no whole result", '{"schema": "clattn-bench-run-2", "devices": [{"device": {"name": "x"}}]}')):
    (folder / "bad.json").write_text(text)
    refused(sentence, "bad.json", "-o", "page.html")
refused("cannot be read", "missing.json", "-o", "page.html")
(folder / "good.json").write_text(json.dumps(standard))
refused("nothing to write", "good.json")
refused("No such file", "good.json", "--csv", "missing/rows.csv")
spreadsheet = copy.deepcopy(standard)
spreadsheet["devices"][0]["device"].update(name="=HYPERLINK(\"x\",\"y\")", platform="a \"b\", c\r\nd", driver="\x1b[2J,")
(folder / "spreadsheet.json").write_text(json.dumps(spreadsheet))
code, error = run("spreadsheet.json", "--csv", "rows.csv")
assert code == 0, error
with open(folder / "rows.csv", newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
outcome = standard["devices"][0]["results"][0]["implementations"][0]
assert rows[0]["device"] == "'=HYPERLINK(\"x\",\"y\")" and rows[0]["platform"] == "a \"b\", c\r\nd" and rows[0]["driver"] == "?[2J,"
assert float(rows[0]["ms"]) == outcome["milliseconds"]["median"] and rows[0]["state"] == "measured" and rows[0]["first_source_ms"] == ""
assert len(rows) == sum(len(r["implementations"]) for d in standard["devices"] for r in d["results"]), len(rows)
try:
    import matplotlib  # noqa: F401
except ImportError:
    refused("apt-get install", "good.json", "-o", "page.html")
    print("skipped: the report's charts: no matplotlib (sh tests/packages.sh test)")
    sys.exit(77)

text = page("good.json", standard)
first = standard["devices"][0]["results"][0]
ratio = next(i["ratio"]["median"] for i in first["implementations"] if i["implementation"] == "oneDNN")
for part in ("(geometric means): PoCL", "% of the roof (median): PoCL",
             "operations a byte", " GFLOP/s: PoCL", first["problem"], "0.566", "times as fast as oneDNN", f"× {ratio:.3g}", "<svg",
             "clattn-bench run --device 0"):
    assert part in text, part

# What a driver calls itself is text; a failed device has a sentence and no chart; the same file twice has two names.
hostile = copy.deepcopy(standard)
hostile["devices"] = hostile["devices"][:1]
hostile["devices"][0]["device"]["name"] = "<script>&"
hostile["devices"][0].update(results=[], failed="it <b>crashed</b>", noise=None, load=None, peaks=None, peers=[])
text = page("hostile.json", hostile)
assert "<script" not in text and "<b>" not in text and "it &lt;b&gt;crashed" in text and "<svg" not in text
code, error = run("good.json", "good.json", "-o", "twice.html", "--chart", "chart.svg")
assert code == 0 and "<h2>PoCL, good.json</h2>" in (folder / "twice.html").read_text(), error
assert xml.parse(folder / "chart.svg").getroot().tag.endswith("svg")

# Ranks, an interrupted run, a GPU.
for name in ("mpi-2ranks-epyc-2026-11-26", "decoding-xeon-2026-11-21", "h200-2026-11-27"):
    code, error = run(tree / f"bench/results/{name}.json", "-o", "page.html")
    assert code == 0, (name, error)
    assert ("Ranks together" in (folder / "page.html").read_text()) == name.startswith("mpi")
print("pages and charts say what results do")
