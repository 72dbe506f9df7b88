#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows results of clattn-bench run as one page, one chart, or one table for other programs. Charts need matplotlib.

    report.py FILE.json... -o PAGE.html       sentences, charts and tables
    report.py FILE.json... --chart FILE.png   the speed-up over other libraries alone (or .svg)
    report.py FILE.json... --csv FILE.csv     a row for each time; needs no matplotlib

The files are those that clattn-bench run --json writes (bench/results/README.md). The page loads nothing.
"""
import argparse
import csv
import html
import io
import json
import math
import pathlib
import statistics
import sys

NOISY, TIMED = 0.05, ("measured", "loose")  # half the 95 % interval as a part of the median; states with a time
STATES = {"loose": "right only within the bounds of half-precision arithmetic", "unsupported": "cannot compute it",
          "wrong": "wrong, so that its time is not shown", "failed": "failed"}
STYLE = """body{font:15px/1.5 sans-serif;max-width:75em;margin:2em auto;padding:0 1em} table{border-collapse:collapse}
td,th{padding:.15em .6em;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap} td:first-child,th:first-child{text-align:left}
small{color:#555} .wide{overflow-x:auto} svg{max-width:100%;height:auto} pre{background:#f4f4f4;padding:.6em;overflow-x:auto}"""


def read(path):
    try:
        run = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if isinstance(run, dict) and run.get("schema") == "clattn-bench-run-2":
        return run
    raise ValueError(f"{path} does not hold results of clattn-bench run")


class Device:
    """A device of a file: its results by problem, its name short and its own."""

    def __init__(self, run, data, path, names):
        self.run, self.data, self.path = run, data, path
        name = data["device"]["name"]
        self.name = "PoCL" if name.startswith("pthread-") else name[:40]
        while self.name in names:
            self.name += f", {path}" if path not in self.name else ", again"
        names.add(self.name)
        self.results = {}
        for result in data["results"]:
            self.results.setdefault((result["name"], result["problem"]), result)

    def outcome(self, problem, name):
        implementations = self.results.get(problem, {}).get("implementations", [])
        return next((i for i in implementations if i["implementation"] == name), None)

    def timed(self, problem, name):
        outcome = self.outcome(problem, name)
        return outcome if outcome and outcome["state"] in TIMED and outcome["milliseconds"] else None

    def ratios(self, name):
        """Times over clattn's by problem: the intervals."""
        pairs = ((problem, self.timed(problem, name)) for problem in self.results if self.timed(problem, "clattn"))
        return {problem: outcome["ratio"] for problem, outcome in pairs if outcome and outcome["ratio"]}


class Report:
    def __init__(self, paths):
        self.devices, names = [], set()
        for path in paths:
            run = read(path)
            try:
                self.devices += [Device(run, data, path, names) for data in run["devices"]]
            except (KeyError, TypeError) as error:
                raise ValueError(f"{path} is no whole result: {error} is missing or not what it should be") from None
        self.problems = list(dict.fromkeys(problem for device in self.devices for problem in device.results))
        names = [i["implementation"] for d in self.devices for r in d.results.values() for i in r["implementations"]
                 if not i.get("mpi") and i["implementation"] not in ("clattn", "clattn untuned")]
        self.others = list(dict.fromkeys(names))
        self.labels = {problem: self.label(problem) for problem in self.problems}

    def label(self, problem):
        """The name of the workload, with what sets the problem apart from others of that name."""
        name, text = problem
        alike = [other.split() for workload, other in self.problems if workload == name]
        own = [word for word in text.split() if not all(word in other for other in alike)]
        label = " ".join([name] + own if name else [text])
        return label if len(label) <= 48 else label[:23] + "…" + label[-24:]


def mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def number(value):
    return "–" if value is None or not math.isfinite(value) else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"



def text_cell(text):
    """What a spreadsheet takes for a formula gets an apostrophe before it, what a terminal obeys a question mark instead."""
    text = "".join(c if c >= " " and c != "\x7f" or c in "\t\r\n" else "?" for c in text or "")
    return "'" + text if text[:1] in tuple("=+-@\t\r") else text


def rows(report):
    """A row for each implementation of each problem, after one of names."""
    yield ("date clattn device platform driver workload problem implementation version state why configuration ms ms_minimum "
           "host_us first_source_ms first_cache_ms gflops gbytes roof clattn_share ratio ratio_low ratio_high error workspace_bytes").split()
    for device in report.devices:
        about, versions = device.data["device"], {peer["name"]: peer["version"] for peer in device.data["peers"]}
        for result in device.results.values():
            for i in result["implementations"]:
                name, ms, ratio, first = i["implementation"], i["milliseconds"] or {}, i["ratio"] or {}, i["first_milliseconds"]
                ours = name.startswith("clattn")
                texts = (device.run["date"], device.run["clattn"], about["name"], about["platform"], about["driver"], result["name"],
                         result["problem"], name, device.run["clattn"] if ours else versions.get(name), i["state"], i["why"],
                         i["configuration"])
                yield [text_cell(text) for text in texts] + [
                    ms.get("median"), ms.get("minimum"), (i["host_microseconds"] or {}).get("median"), first["source"], first["cache"],
                    i["gflops"], i["gbytes"], result["roof"], (result["roof_share"] or {}).get("median"), ratio.get("median"),
                    ratio.get("low"), ratio.get("high"), (i["error"] or {}).get("ratio"), result["workspace_bytes"] if ours else None]


def headline(report, device, what):
    """What a chart shows, as its title."""
    if what == "speedup":
        means = [(mean([r["median"] for r in ratios.values()]), name) for name in report.others for ratios in [device.ratios(name)] if ratios]
        times = ", ".join(f"{number(value)}{'' if n else ' times as fast'} as {name}" for n, (value, name) in enumerate(means))
        return f"clattn is {times} (geometric mean{'s' * (len(means) > 1)})"
    if what == "ranks":
        return "Ranks together, beside so many times the rate of one alone"
    if what == "roofline":
        shares = [100 * r["roof_share"]["median"] for r in device.results.values() if r["roof_share"]]
        return f"clattn reaches {number(statistics.median(shares))} % of the roof (median)" if shares else "clattn under the roofs"
    rates = [outcome["gflops"] for p in device.results for outcome in [device.timed(p, "clattn")] if outcome and outcome["gflops"]]
    return f"clattn computes {number(min(rates))} to {number(max(rates))} GFLOP/s" if rates else "Rates"


def empty_chart(height):
    """And its axes."""
    from matplotlib import figure, rcParams
    rcParams["svg.fonttype"], rcParams["svg.hashsalt"] = "none", "clattn"
    chart = figure.Figure(figsize=(10, height), layout="constrained")
    return chart, chart.add_subplot()


def roofline(device):
    """A chart: problems by operations a byte and by rate, under the roofs that were measured; None where these are not known."""
    peaks = {key: value["median"] for key, value in (device.data["peaks"] or {}).items() if isinstance(value, dict)}
    points = [(o["gflops"] / o["gbytes"], o["gflops"]) for p in device.results for o in [device.timed(p, "clattn")]
              if o and o["gflops"] and o["gbytes"]]
    if not points or not peaks.get("fma_gflops") or not peaks.get("read_gbytes"):
        return None
    chart, axes = empty_chart(5)
    axes.set(xlabel="operations a byte", ylabel="GFLOP/s", xscale="log", yscale="log")
    left, right = min(x for x, _ in points) / 1.5, max(x for x, _ in points) * 1.5
    for key, name in (("fma_gflops", "f32"), ("fma_bf16_gflops", "bf16")):
        if peaks.get(key):
            at = [left, min(max(left, peaks[key] / peaks["read_gbytes"]), right), right]
            axes.plot(at, [min(x * peaks["read_gbytes"], peaks[key]) for x in at], label=f"{number(peaks[key])} GFLOP/s of {name}")
    axes.plot(*zip(*points), "o", label="clattn", markersize=5)
    axes.grid(color="#ddd")
    axes.legend(loc="lower right", frameon=False, title=f"the slope: reading at {number(peaks['read_gbytes'])} GB/s")
    return chart


def draw(report, device, what):
    """The chart of a device, None without anything to show."""
    xlabel = {"speedup": "time over clattn's (right of 1: clattn is faster), with its 95 % interval",
              "rates": "GFLOP/s; dashed: measured peaks of f32 and bf16", "ranks": "% of so many times the rate of one rank alone",
              "roofline": ""}[what]
    if what == "roofline":
        chart = roofline(device)
        if chart:
            chart.axes[0].set_title(f"{headline(report, device, what)}: {device.name}", loc="left", fontsize=11)
        return chart
    series = {}  # of each name the points: problem, low, value, high
    if what == "speedup":
        series = {name: [(p, r["low"], r["median"], r["high"]) for p, r in device.ratios(name).items()] for name in report.others}
    elif what == "rates":
        for name in ["clattn", "clattn untuned"] + report.others:
            timed = [(p, device.timed(p, name)) for p in device.results if device.timed(p, name)]
            series[name] = [(p, *[outcome["gflops"]] * 3) for p, outcome in timed if outcome["gflops"]]
    else:
        for p, result in device.results.items():
            for i in result["implementations"]:
                if i.get("mpi") and i["state"] in TIMED and i["mpi"]["efficiency"]:
                    part = [100 * i["mpi"]["efficiency"][key] for key in ("low", "median", "high")]
                    series.setdefault(i["implementation"], []).append((p, *part))
    rows = [p for p in report.problems if any(p == point[0] for points in series.values() for point in points)]
    if not rows:
        return None
    chart, axes = empty_chart(1.4 + 0.27 * len(rows))
    axes.set(xlabel=xlabel, yticks=range(len(rows)), yticklabels=[report.labels[p] for p in rows], ylim=(len(rows) - 0.5, -0.5))
    axes.set_title(f"{headline(report, device, what)}: {device.name}", loc="left", fontsize=11)
    axes.grid(color="#ddd")
    for n, (name, points) in enumerate(series.items()):
        if points:
            of, low, values, high = zip(*points)
            axes.errorbar(values, [rows.index(p) + 0.5 * (n + 0.5) / len(series) - 0.25 for p in of], label=name,
                          xerr=[[max(v - l, 0) for v, l in zip(values, low)], [max(h - v, 0) for v, h in zip(values, high)]],
                          fmt="os^Dv<>Ph*"[n % 10], markersize=5, elinewidth=1)
    axes.set_xscale("linear" if what == "ranks" else "log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in "25" else "")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    peaks = [(device.data["peaks"] or {}).get(peak) for peak in ("fma_gflops", "fma_bf16_gflops")]
    for x in [1] if what == "speedup" else [peak["median"] for peak in peaks if peak] if what == "rates" else []:
        axes.axvline(x, color="black", linestyle="-" if what == "speedup" else "--", linewidth=1)
    return chart


def sentences(report, device):
    data = device.data
    yield from [f"{device.name} failed: {data['failed']}"] if data["failed"] else []
    yield from [f"The run on {device.name} was interrupted: problems are missing."] if data["interrupted"] else []
    for name in report.others:
        of = list(device.ratios(name).values())
        if of:
            middle = [r["median"] for r in of]
            yield (f"clattn is {number(mean(middle))} times as fast as {name} by the geometric mean ({number(min(middle))} to "
                   f"{number(max(middle))} times): faster for {sum(r['low'] > 1 for r in of)}, slower for "
                   f"{sum(r['high'] < 1 for r in of)} of {len(of)} problems.")
    untuned = [r["median"] for r in device.ratios("clattn untuned").values()]
    if untuned:
        yield f"Where tuning chose another configuration, clattn is {number(mean(untuned))} times as fast as untuned."
    shares = [100 * r["roof_share"]["median"] for r in device.results.values() if r["roof_share"]]
    if shares:
        yield (f"clattn reaches {number(statistics.median(shares))} % of the peak that limits a problem, the median of "
               f"{len(shares)} ({number(min(shares))} to {number(max(shares))} %).")
    outcomes = [(i["implementation"], i) for r in device.results.values() for i in r["implementations"]]
    for key, when in (("source", "if all must be compiled"), ("cache", "if it was compiled before")):
        first = [i["first_milliseconds"][key] for name, i in outcomes if name == "clattn" and i["first_milliseconds"][key]]
        if first:
            yield f"A new process has clattn's first result after {number(statistics.median(first))} ms {when}."
    if data["noise"]:
        load = f"; the load was {data['load'][0]:g} on {device.run['host']['processors']} processors" if data["load"] else ""
        noisy = ": the machine was noisy, so that small differences mean nothing" if data["noise"] >= NOISY else ""
        yield f"A time is known to ±{number(100 * data['noise'])} % (half the 95 % interval, the median of all){noisy}{load}."
    if data["peaks"] and data["peaks"]["exceeded"]:
        yield "A share is clearly over 100 %: the measured peak is too low, and shares mean nothing."
    for peer in data["peers"]:
        yield f"{peer['name']} took no part: {peer['missing']}" if peer["missing"] else \
              f"{peer['name']} {peer['version']}: {peer['method']}"
    errors = [i["error"]["ratio"] for name, i in outcomes if name.startswith("clattn") and i["state"] in TIMED and i["error"]]
    if errors:
        yield f"The greatest error of clattn is {number(max(errors))} of its bound, in {len(errors)} results."
    for name in dict.fromkeys(name for name, _ in outcomes):
        counts = {state: sum(n == name and i["state"] == state for n, i in outcomes) for state in STATES}
        yield from (f"{name}: {STATES[state]}, in {count} cases." for state, count in counts.items() if count)


def table(head, rows):
    lines = ["<th>" + "<th>".join(map(html.escape, head))] + ["<td>" + "<td>".join(row) for row in rows]
    return "<div class=wide><table><tr>" + "\n<tr>".join(lines) + "</table></div>"


def cell(device, problem, name):
    outcome = device.outcome(problem, name)
    if not outcome or not outcome["milliseconds"]:
        return "–" if not outcome else f"<span title=\"{html.escape(outcome['why'] or '')}\">{outcome['state']}</span>"
    ratio = "" if name == "clattn" or not outcome["ratio"] else \
        f" <small>× {number(outcome['ratio']['median'])} ({number(outcome['ratio']['low'])} to {number(outcome['ratio']['high'])})</small>"
    return f"{number(outcome['milliseconds']['median'])}{ratio}{'*' if outcome['state'] == 'loose' else ''}"


def page(report):
    title = "Attention on OpenCL devices"
    yield f"<!DOCTYPE html><html lang=en><meta charset=utf-8><title>{title}</title><style>{STYLE}</style><h1>{title}</h1>"
    for device in report.devices:
        about, peaks = device.data["device"], device.data["peaks"] or {}
        yield f"<h2>{html.escape(device.name)}</h2><ul>"
        yield from (f"<li>{html.escape(sentence)}" for sentence in sentences(report, device))
        yield "</ul>"
        for what in ("speedup", "roofline", "rates", "ranks"):
            chart = draw(report, device, what)
            if chart:
                text = io.StringIO()
                chart.savefig(text, format="svg", metadata={"Date": None})
                yield text.getvalue()[text.getvalue().index("<svg"):]
        names = ["clattn", "clattn untuned"] + report.others
        yield "<h3>Milliseconds, and times over clattn's (95 % interval); *: of half precision</h3>"
        yield table(["problem"] + names, [[f"<span title=\"{html.escape(p[1])}\">{html.escape(report.labels[p])}</span>"] +
                                          [cell(device, p, name) for name in names] for p in device.results])
        yield "<h3>What ran</h3>"
        yield table(["problem", "% of peak", "chosen", "configuration"], [
            [html.escape(p[1]), number(100 * r["roof_share"]["median"]) if r["roof_share"] else "–", r["origin"],
             html.escape((device.outcome(p, "clattn") or {}).get("configuration") or "–")] for p, r in device.results.items()])
        rates = ", ".join(f"{key} {number(value['median'])}" for key, value in peaks.items() if isinstance(value, dict))
        host = device.run["host"]
        yield f"<p>{html.escape(about['name'])}, {html.escape(about['platform_version'])}, driver {html.escape(about['driver'])}, "
        yield f"{about['compute_units']} compute units; measured peaks: {html.escape(rates or 'none')}. clattn {device.run['clattn']} "
        yield f"on {html.escape(host['processor'])}, {html.escape(host['system'])}, {html.escape(device.run['date'])}. Again:"
        again = [f"clattn-bench run --device {device.data['index']}"] + [f'"{problem}"' for _, problem in device.results]
        yield "<pre>" + html.escape(" ".join(again)) + "</pre>"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE.json")
    parser.add_argument("-o", "--output", metavar="PAGE.html")
    parser.add_argument("--chart", metavar="FILE.png", help="the speed-up on the first device that was compared")
    parser.add_argument("--csv", metavar="FILE.csv")
    options = parser.parse_args()
    options.output or options.chart or options.csv or parser.error("nothing to write: give -o PAGE.html, --chart FILE.png or --csv FILE.csv")
    try:
        report = Report(options.files)
        if options.csv:
            with open(options.csv, "w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(rows(report))
        if options.chart:
            chart = next(filter(None, (draw(report, device, "speedup") for device in report.devices)), None)
            if not chart:
                raise ValueError("no other library was timed beside clattn")
            chart.savefig(options.chart, dpi=110)
        if options.output:
            pathlib.Path(options.output).write_text("\n".join(page(report)) + "\n", encoding="utf-8")
    except ImportError as error:
        sys.exit(f"report.py: {error}; python3 -m pip install matplotlib, or apt-get install python3-matplotlib")
    except (ValueError, OSError) as error:
        sys.exit(f"report.py: {error}")


if __name__ == "__main__":
    main()
