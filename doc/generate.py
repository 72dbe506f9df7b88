# SPDX-License-Identifier: Apache-2.0
"""python3 doc/generate.py [--check] [BUILD]: makes the pages and tables that follow from measured results and from the library:
doc/results/*.md of machines with their charts, tables of the pages by subject (doc/subjects.py) and of README.md, drawings and tables
of tunables of the kernel families (doc/drawings.py, doc/tunables.py), and with a build doc/guide/support.md.
With --check nothing is written: it says which of them are not as they would be made, and ends with 1."""
import json
import math
import re
import statistics
import subprocess
import sys
import textwrap
from html import escape
from pathlib import Path

import drawings
import subjects
import tunables

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench/results"
# Each machine: its page, its title, what it is, and its files of results with what they hold.
MACHINES = [
    ("epyc-zen5", "AMD EPYC, Zen 5", "Two cores of an AMD EPYC (Zen 5, AVX-512 with bf16 instructions) that did nothing else.",
     [("standard-epyc-zen5-2026-11-26", "Models"), ("training-epyc-zen5-2026-11-26", "Training"),
      ("bf16-epyc-zen5-2026-11-26", "f32 and bf16"), ("serving-peers-epyc-zen5-2026-11-26", "Serving"),
      ("limits-epyc-zen5-2026-11-25", "Options")]),
    ("epyc-zen4", "AMD EPYC, Zen 4", "Two cores of an AMD EPYC (Zen 4, AVX-512 with bf16 instructions).",
     [("bf16-models-epyc-2026-11-23", "Models in bf16"), ("bf16-epyc-2026-11-23", "f32 and bf16"),
      ("functions-epyc-zen4-2026-11-28", "Functions of callers")]),
    ("epyc-zen3", "AMD EPYC, Zen 3", "Two cores of an AMD EPYC (Zen 3, AVX2 and no AVX-512) that other guests of the host shared.",
     [("standard-f32-epyc-zen3-2026-11-27", "Models in f32"), ("standard-epyc-zen3-2026-11-27", "Models"),
      ("training-epyc-zen3-2026-11-27", "Training"), ("serving-epyc-zen3-2026-11-27", "Serving")]),
    ("xeon-amx", "Intel Xeon with AMX", "Two cores of an Intel Xeon (AVX-512 and AMX) that other programs shared.",
     [("standard-xeon-2026-11-25", "Models"), ("bwd-xeon-2026-11-22", "Gradients"), ("bf16-amx-models-xeon-2026-11-25", "Models in bf16"),
      ("bf16-amx-xeon-2026-11-25", "f32 and bf16"), ("peers-xeon-2026-11-22", "Lengths"), ("dims-xeon-2026-11-22", "Head dims"),
      ("options-xeon-2026-11-22", "Options")]),
    ("h200", "NVIDIA H200", "An NVIDIA H200.",
     [("h200-2026-11-28", "Beside PyTorch"), ("h200-options-2026-11-28", "Options and dims")]),
    ("h100", "NVIDIA H100", "An NVIDIA H100 (SXM), before kernels for Hopper had producer warps.", [("h100-2026-11-26", "Beside PyTorch")]),
]
# Problems of a file that other kernels compute since: they are left out, and the sentence says where newer figures are.
OLDER = {
    "h200-2026-11-28": (" f32 ", "f32 is left out: it was multiplied without matrix units in this run ([gpus.md](gpus.md) has newer figures)."),
    "h200-options-2026-11-28": (r" f32 |dropout|softcap|alibi|totalq|d80\b", "Options and dim 80 are left out, since their kernels have "
                                "changed ([gpus.md](gpus.md) has figures of before and after)."),
}
COLOURS = ["#1b6ca8", "#d1495b", "#66a182", "#edae49", "#6b4e9b", "#444"]
KINDS = {"fma": "", "fma_bf16": " bf16", "read": " read"}


def number(value):
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def milliseconds(value):
    return f"{value:.3g} ms" if value < 1000 else f"{value:,.0f} ms"


def rate(of, read):
    """What an implementation read or computed in a second."""
    unit, value = ("B/s", of["gbytes"]) if read else ("FLOP/s", of["gflops"])
    return f"{value:.3g} G{unit}" if value < 1000 else f"{value:,.0f} G{unit}" if value < 10000 else f"{value / 1000:.3g} T{unit}"


def mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def load(name):
    run = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    device, pattern = run["devices"][0], OLDER.get(name, ("$^",))[0]
    device["results"] = [result for result in device["results"] if not re.search(pattern, result["problem"])]
    return run, device


def others(device):
    return sorted((peer["name"] for peer in device["peers"] if not peer["missing"]), key=lambda name: (name != "PyTorch", name.lower()))


def outcome(result, name):
    return next((i for i in result["implementations"] if i["implementation"] == name and i["milliseconds"]), None)


def ratio(result, name):
    """How often clattn's time a library took, None where it was not timed."""
    of = outcome(result, name)
    return of["ratio"]["median"] if of and of["ratio"] and outcome(result, "clattn") else None


def label(result):
    """A problem as a reader says it: sizes of one are left out, and so is the name that a table repeats."""
    words = [word for word in result["problem"].split() if word != "b1"]
    return f"`{' '.join(words)}`"


def row(result, names, named):
    own = outcome(result, "clattn")
    if not own:
        return None
    share = result["roof_share"]
    cells = [f"{result['name']}: {label(result)}" if named else label(result), milliseconds(own["milliseconds"]["median"]), rate(own, result["roof"] == "read"),
             f"{100 * share['median']:.0f} %{KINDS[result['roof']]}" if share else "-"]
    for name in names:
        times, of = ratio(result, name), outcome(result, name)
        cells.append("-" if times is None else number(times) + ("*" if of["state"] == "loose" else ""))
    return "| " + " | ".join(cells) + " |"


def table(device, results):
    names = [name for name in others(device) if any(ratio(result, name) for result in results)]
    named = all(result["name"] and "." not in result["name"] for result in results)
    rows = [line for line in (row(result, names, named) for result in results) if line]
    return ["| problem | time | rate | share of the roof |" + "".join(f" {name} |" for name in names),
            "|---|--:|--:|--:|" + "--:|" * len(names)] + rows


def summary(device, results):
    """Sentences: how clattn stands to each other library, by geometric means."""
    for name in others(device):
        times = [x for x in (ratio(result, name) for result in results) if x]
        if times:
            yield (f"{name} took {number(mean(times))} times clattn's time in the geometric mean of {len(times)} problems "
                   f"({number(min(times))} to {number(max(times))}).")
    shares = [100 * result["roof_share"]["median"] for result in results if result["roof_share"]]
    if shares:
        yield f"clattn reached {statistics.median(shares):.0f} % of the tighter roof, the median of {len(shares)} problem{'s' * (len(shares) > 1)}."


def chart(title, device, results):
    """An SVG: a line a problem, a dot for each other library's time over clattn's, on a logarithmic axis."""
    rows = [result for result in results if any(ratio(result, name) for name in others(device))]
    names = [name for name in others(device) if any(ratio(result, name) for result in rows)]
    values = [x for result in rows for x in (ratio(result, name) for name in names) if x]
    if not values:
        return None
    low, high = 0.9 * min(0.8, *values), 1.05 * max(1.5, *values)
    left, right, top, step = 330, 900, 74, 20

    def x(value):
        return left + (right - left) * math.log(value / low) / math.log(high / low)

    height = top + step * len(rows) + 40
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 940 {height}" font-family="sans-serif" font-size="12">',
             f'<rect width="940" height="{height}" fill="#fff"/>',
             f'<text x="12" y="24" font-size="16" font-weight="bold">{escape(title)}</text>']
    for n, name in enumerate(names):
        lines.append(f'<circle cx="{18 + 130 * n}" cy="46" r="5" fill="{COLOURS[n % 6]}"/><text x="{28 + 130 * n}" y="50">{escape(name)}</text>')
    for tick in (tick for tick in ((0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2) if high < 2.5 else (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500))
                 if low <= tick <= high):
        lines.append(f'<line x1="{x(tick):.0f}" x2="{x(tick):.0f}" y1="{top - 10}" y2="{height - 34}" stroke="{"#000" if tick == 1 else "#ddd"}"/>'
                     f'<text x="{x(tick):.0f}" y="{height - 20}" text-anchor="middle">{tick:g}</text>')
    for at, result in enumerate(rows):
        y = top + step * at
        text = label(result).strip("`") if not result["name"] or "." in result["name"] else f"{result['name']}: {label(result).strip('`')}"
        text = text if len(text) <= 52 else text[:51] + "…"
        lines.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end" font-size="11">{escape(text)}</text>')
        lines += [f'<circle cx="{x(ratio(result, name)):.1f}" cy="{y}" r="5" fill="{COLOURS[n % 6]}"/>'
                  for n, name in enumerate(names) if ratio(result, name)]
    lines.append(f'<text x="{(left + right) // 2}" y="{height - 4}" text-anchor="middle">time over clattn\'s: right of 1 clattn is faster</text>')
    return "\n".join(lines + ["</svg>"]) + "\n"


def roofline(title, device, results):
    """An SVG: problems by operations a byte and by rate, under the roofs that were measured in the same run. The peak of a GPU's
    matrix units is not measured: PyTorch's fastest problem of the run is a dashed line in its place."""
    peaks = {key: value["median"] for key, value in (device["peaks"] or {}).items() if isinstance(value, dict)}
    points = [(of["gflops"] / of["gbytes"], of["gflops"], result) for result in results
              for of in [outcome(result, "clattn")] if of and of["gflops"] and of["gbytes"]]
    if not points or not peaks.get("fma_gflops") or not peaks.get("read_gbytes"):
        return None
    roofs = [(name, peaks[key]) for key, name in (("fma_gflops", "of f32"), ("fma_bf16_gflops", "of bf16")) if peaks.get(key)]
    gpu = device["device"]["type"] == "gpu"
    unit, scale = ("TFLOP/s", 1000) if gpu else ("GFLOP/s", 1)
    if gpu:
        roofs = [("of f32 without matrix units", peaks["fma_gflops"]), ("of f16, PyTorch's fastest problem", max(fastest(results, "PyTorch")))]
    left, right, top, bottom = 70, 900, 50, 380
    low_x, high_x = 0.8 * min(x for x, _, _ in points), 1.25 * max(x for x, _, _ in points)
    low_y, high_y = 0.8 * min(y for _, y, _ in points), 1.3 * max(peak for _, peak in roofs)

    def place(x, y):
        return (left + (right - left) * math.log(x / low_x) / math.log(high_x / low_x),
                bottom - (bottom - top) * math.log(y / low_y) / math.log(high_y / low_y))

    lines = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 940 430" font-family="sans-serif" font-size="12">',
             '<rect width="940" height="430" fill="#fff"/>', f'<text x="12" y="24" font-size="16" font-weight="bold">{escape(title)}</text>']
    ticks = [10.0 ** power * part for power in range(-3, 7) for part in (1, 2, 5)]
    for tick in ticks:
        for of_x, low, high in ((True, low_x, high_x), (False, low_y, high_y)):
            if low <= tick <= high and (high < 50 * low or math.log10(tick).is_integer()):
                x, y = place(tick, low_y) if of_x else place(low_x, tick)
                lines.append(f'<line x1="{x:.0f}" y1="{y:.0f}" x2="{x if of_x else right:.0f}" y2="{top if of_x else y:.0f}" stroke="#ddd"/>'
                             f'<text x="{x if of_x else x - 6:.0f}" y="{y + (18 if of_x else 4):.0f}" '
                             f'text-anchor="{"middle" if of_x else "end"}">{tick if of_x else tick / scale:,g}</text>')
    dashes = ' stroke-dasharray="7 5"'
    for n, (name, peak) in enumerate(roofs):
        corners = [place(max(low_x, low_y / peaks["read_gbytes"]), max(low_y, low_x * peaks["read_gbytes"])),
                   place(peak / peaks["read_gbytes"], peak), place(high_x, peak)]
        lines.append('<polyline points="' + " ".join(f"{x:.0f},{y:.0f}" for x, y in corners) + f'" fill="none" stroke="{COLOURS[n]}" stroke-width="2"{dashes if gpu and n else ""}/>'
                     f'<text x="{right:.0f}" y="{corners[2][1] - 6:.0f}" text-anchor="end" fill="{COLOURS[n]}">{peak / scale:,.0f} {unit} {name}</text>')
    for x, y, result in points:
        at, bf16 = place(x, y), len(roofs) > 1 and re.search(" b?f16 " if gpu else " bf16 ", result["problem"]) is not None
        lines.append(f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="5" fill="{COLOURS[bf16]}" fill-opacity="0.7"><title>{escape(label(result).strip("`"))}</title></circle>')
    lines.append(f'<text x="{(left + right) // 2}" y="{bottom + 38}" text-anchor="middle">operations a byte; the slope is reading at {peaks["read_gbytes"]:.0f} GB/s</text>'
                 f'<text x="{left}" y="{top - 8}">{unit}</text>')
    return "\n".join(lines + ["</svg>"]) + "\n"


def fastest(results, name):
    """The rates of a library in GFLOP/s."""
    return [of["gflops"] for of in (outcome(result, name) for result in results) if of]


def roof_headline(device, results):
    if device["device"]["type"] == "gpu":
        return (f"clattn multiplies f16 at up to {max(fastest(results, 'clattn')) / 1000:.0f} TFLOP/s and PyTorch at up to "
                f"{max(fastest(results, 'PyTorch')) / 1000:.0f}")
    shares = [100 * result["roof_share"]["median"] for result in results if result["roof_share"]]
    return f"clattn reaches {statistics.median(shares):.0f} % of the roof, in the median of {len(shares)} problems"


def first(machine):
    """The headline of a machine: its first file's device and problems."""
    run, device = load(machine[3][0][0])
    return run, device, device["results"]


def headline(device, results):
    name = "PyTorch"
    times = [x for x in (ratio(result, name) for result in results) if x]
    if mean(times) >= 1:
        return f"clattn is {number(mean(times))} times as fast as {name} (geometric mean)"
    return f"clattn reaches {100 * mean(times):.0f} % of {name}'s speed (geometric mean)"


def machine_page(machine):
    name, title, about, files = machine
    run, device, results = first(machine)
    facts = device["device"]
    lines = [f"# {title}", "", about + f" OpenCL: {facts['platform_version'].strip()}, driver {facts['driver']}.", ""]
    if chart("", device, results):
        lines += [f"![{headline(device, results)}, by problem]({name}.svg)", ""]
    if roofline("", device, results):
        lines += [f"![{roof_headline(device, results)}]({name}-roof.svg)", ""]
    lines += ["The time of a library over clattn's is above 1 where clattn is faster; `*` marks results that are right only within",
              "half precision's bounds. A share is of the tighter of two roofs measured in the same run: multiply-adds, of f32 or",
              "where it says so of bf16, or reading memory. clattn ran untuned. This page is made by `doc/generate.py`."]
    for file, what in files:
        run, device = load(file)
        peaks = {key: value["median"] for key, value in (device["peaks"] or {}).items() if isinstance(value, dict)}
        lines += ["", f"## {what}", ""]
        lines += [f"* {sentence}" for sentence in summary(device, device["results"])]
        if "fma_gflops" in peaks and facts["type"] == "cpu":
            lines.append(f"* Roofs of this run: {number(peaks['fma_gflops'])} GFLOP/s" +
                         (f", {number(peaks['fma_bf16_gflops'])} in bf16" if peaks.get("fma_bf16_gflops") else "") +
                         f", {number(peaks['read_gbytes'])} GB/s. A time is known to ±{100 * device['noise']:.0f} %.")
        elif peaks:
            lines.append(f"* Roofs of this run: {number(peaks['fma_gflops'] / 1000)} TFLOP/s without matrix units, "
                         f"{number(peaks['read_gbytes'])} GB/s.")
        if file in OLDER:
            lines.append(f"* {OLDER[file][1]}")
        versions = [f"{peer['name']} {peer['version']}" for peer in device["peers"] if not peer["missing"]]
        lines += [f"* {', '.join([run['date'][:10]] + versions)}; `bench/results/{file}.json`.", ""]
        lines += table(device, device["results"])
    return "\n".join(textwrap.fill(line, 120, subsequent_indent="  " if line.startswith("*") else "", break_long_words=False,
                                   break_on_hyphens=False) if len(line) > 120 and line[0] not in "|!" else line for line in lines) + "\n"


# Kernels that a profiler looked at on an H200: their names in a file of bench/results, and what they compute.
PROFILED = [("h200-profile-2026-11-27", "producer-d128__fused_mma", "forward, wgmma"),
            ("h200-profile-2026-11-28", "bwd-wg-d128__backward_keys", "gradients of keys, wgmma"),
            ("h200-profile-2026-11-28", "bwd-wg-d128__backward_queries", "gradients of queries, wgmma"),
            ("h200-profile-2026-11-27", "proj__projection_wgmma", "projection, wgmma"),
            ("h200-profile-2026-11-27", "fused-m2__fused_mma", "forward, mma.sync"),
            ("h200-profile-2026-11-28", "bwd-mma__backward_keys", "gradients of keys, mma.sync"),
            ("h200-profile-2026-11-28", "proj-mma__projection_gpu_mma", "projection, mma.sync"),
            ("h200-profile-2026-11-28", "split-q8__split", "decoding from q8_0"),
            ("h200-profile-2026-11-28", "split-q4__split", "decoding from q4_0")]
PARTS = {"tensor cores": r"tensor (\S+)", "exponentials": r" xu (\S+)", "instructions": r" issue (\S+)", "local memory": r"shared wavefronts (\S+)",
         "L2": r" L2 (\S+)", "memory": r"DRAM (\S+)"}


def bars(title, parts, rows, most, step, unit):
    """An SVG of rows: a title, a bar for each part (None: none), from 0 to `most`, and a line where all end (None: none)."""
    high = 10 * len(parts) + 12
    height = 96 + high * len(rows)
    place = lambda value: 300 + 600 * value / most
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 940 {height}" font-family="sans-serif" font-size="12">',
             f'<rect width="940" height="{height}" fill="#fff"/>', f'<text x="12" y="24" font-size="16" font-weight="bold">{escape(title)}</text>',
             f'<text x="292" y="{height - 14}" text-anchor="end">{unit}</text>']
    for n, name in enumerate(parts):
        lines.append(f'<rect x="{12 + 140 * n}" y="42" width="12" height="10" fill="{COLOURS[n]}"/><text x="{30 + 140 * n}" y="51">{name}</text>')
    for tick in range(0, int(most) + 1, step):
        lines.append(f'<line x1="{place(tick):.0f}" x2="{place(tick):.0f}" y1="64" y2="{height - 30}" stroke="#ddd"/>'
                     f'<text x="{place(tick):.0f}" y="{height - 14}" text-anchor="middle">{tick}</text>')
    for at, (label, values, end) in enumerate(rows):
        y = 70 + high * at
        lines.append(f'<text x="292" y="{y + high / 2 - 2:.0f}" text-anchor="end" font-size="11">{escape(label)}</text>')
        lines += [f'<rect x="300" y="{y + 10 * n}" width="{place(value) - 300:.1f}" height="8" fill="{COLOURS[n]}">'
                  f'<title>{name}: {value:g} {unit}</title></rect>' for n, (name, value) in enumerate(zip(parts, values)) if value]
        if end is not None:
            lines.append(f'<line x1="{place(end):.1f}" x2="{place(end):.1f}" y1="{y - 2}" y2="{y + high - 12}" stroke="#000" stroke-width="2"/>')
    return "\n".join(lines + ["</svg>"]) + "\n"


def profile():
    """How busy each part of a GPU was in a kernel. The busiest one limits it, or waiting does where none is."""
    rows = []
    for file, name, title in PROFILED:
        line = re.search(rf"^{re.escape(name)} .*", (RESULTS / f"{file}.txt").read_text(encoding="utf-8"), re.M)[0]
        rows.append((title, [float(re.search(pattern, line)[1]) for pattern in PARTS.values()], None))
    cores = [shares[0] for title, shares, _ in rows if "wgmma" in title]
    return bars(f"Tensor cores work {min(cores):.0f} to {max(cores):.0f} % of the time of kernels with wgmma: NVIDIA H200, f16", PARTS, rows,
                100, 20, "%")


# Rows of tests/offline/tile_time.sh that are drawn.
TILES = ["fused_gpu UNIT=warpgroup, 128 x 128", "by wgmma: backward_keys, 128 x 64", "by wgmma: backward_queries, 128 x 64",
         "projection_gpu UNIT=warpgroup, 128 x 256 x 64", "FlashAttention-3, 128 x 128"]


def tile_time():
    """How long a tile keeps each part of an H100 busy, all from its beginning on, and when it ends, by a model."""
    said = subprocess.run(["sh", str(ROOT / "tests/offline/tile_time.sh")], text=True, stdout=subprocess.PIPE).stdout
    parts = ["tensor cores", "local memory", "exponentials", "L2 and memory", "instructions"]
    rows = []
    for title in TILES:
        *clocks, end = re.search(rf"^H100 +{re.escape(title)} +(.*)$", said, re.M)[1].split()[:len(parts) + 1]
        rows.append((title, [None if part == "-" else int(part) for part in clocks], int(end)))
    _, clocks, end = rows[0]
    return bars(f"Tensor cores work {clocks[0]} of the {end} clocks of a forward tile: H100, by a model", parts, rows,
                max(end for _, _, end in rows), 500, "clocks")


FIRST = [("pocl3-epyc-zen5-2026-11-26", "Zen 5, PoCL 3.1"), ("pocl6-epyc-zen5-2026-11-26", "Zen 5, PoCL 6.0"),
         ("intel-epyc-zen5-2026-11-26", "Zen 5, Intel's runtime"), ("pocl3-epyc-zen4-2026-11-24", "Zen 4, PoCL 3.1")]


def first_calls():
    """The first results of processes that find nothing, and of those that find what these have left."""
    columns = []
    for file, _ in FIRST:
        build, times = json.loads((RESULTS / f"first-second-{file}.json").read_text(encoding="utf-8"))["builds"]["now"], {}
        for state in ("source", "cache"):
            for one in build[state]:
                spent = one["milliseconds"]
                times.setdefault(one["problem"], {}).setdefault(state, []).append(
                    spent["context"] + spent["plan"] + spent["first_execution"])
        columns.append({problem: [statistics.median(of[state]) for state in ("source", "cache")] for problem, of in times.items()})
    yield "| problem |" + "".join(f" {title} |" for _, title in FIRST)
    yield "|---|" + "--:|" * len(FIRST)
    for problem in columns[0]:
        text = problem if len(problem) < 60 else problem.split(" model=")[0] + " ..."
        both = " and its gradients" if problem.count("layer") > 1 else ""
        yield f"| `{text}`{both} |" + "".join(f" {of[problem][0]:,.0f}, {of[problem][1]:.0f} |" if problem in of else " - |" for of in columns)


def index():
    yield "| machine | kind | beside PyTorch | beside the others |"
    yield "|---|---|---|---|"
    for machine in MACHINES:
        _, device, results = first(machine)
        rest = []
        for name in others(device):
            times = [x for x in (ratio(result, name) for result in results) if x]
            if times and name != "PyTorch":
                rest.append(f"{name} {number(mean(times))}")
        kind = "GPU" if device["device"]["type"] == "gpu" else "CPU"
        yield f"| [{machine[1]}]({machine[0]}.md) | {kind} | {headline(device, results)} | {', '.join(rest) or '-'} |"


def readme_cpu():
    _, device, results = first(MACHINES[0])
    seen, chosen = set(), []
    for result in results:
        model = result["name"].replace("-2k", "-512").replace("-32k", "-4k")
        if model not in seen:
            seen.add(model)
            chosen.append(result)
    return table(device, chosen)


def readme_gpu():
    _, _, results = first(MACHINES[4])
    yield "| problem | clattn | PyTorch | clattn's part of PyTorch's speed |"
    yield "|---|--:|--:|--:|"
    for result in results:
        own, other = outcome(result, "clattn"), outcome(result, "PyTorch")
        rates = [rate(of, result["roof"] == "read") for of in (own, other)]
        yield f"| {label(result)} | {rates[0]} | {rates[1]} | {number(other['ratio']['median'])} |"


def between(text, name, lines):
    """A page's text with the lines between its two marks of this name."""
    begin, end = f"<!-- doc/generate.py: {name} -->\n", f"<!-- end of {name} -->"
    before, _, rest = text.partition(begin)
    return before + begin + "\n" + "\n".join(lines) + "\n\n" + end + rest.partition(end)[2]


def picture():
    """The drawing of README.md: a problem, its plan, devices."""
    def box(x, y, width, height, colour, *lines):
        text = "".join(f'<text x="{x + width / 2:g}" y="{y + 24 + 19 * n}" text-anchor="middle" font-weight="{"bold" if n < 1 < len(lines) else "normal"}">'
                       f'{escape(line)}</text>' for n, line in enumerate(lines))
        return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{colour}" stroke="#555"/>{text}'

    def arrow(x, y, to):
        return f'<path d="M{x} {y}H{to - 6}" stroke="#555" stroke-width="2" marker-end="url(#tip)"/>'

    callers = ["C", "Python, NumPy", "PyTorch", "llama.cpp"]
    devices = ["CPUs: AVX2, AVX-512, AMX", "NVIDIA: mma, wgmma", "AMD: MFMA, WMMA", "Intel: DPAS", "any other OpenCL 1.2"]
    return "\n".join([
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 250" font-family="sans-serif" font-size="14">',
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="5" refY="5" markerWidth="6" markerHeight="6"><path d="M0 0 10 5 0 10z" '
        'fill="#555"/></marker></defs><rect width="900" height="250" fill="#fff"/>',
        *[box(10, 14 + 57 * n, 130, 42, "#e8f0f8", name) for n, name in enumerate(callers)], arrow(146, 120, 190),
        box(194, 68, 190, 104, "#fdf3dc", "problem, one line", "fwd f16 h32/8 q512", "k4096 d128 causal=br", "kcache=q8_0"),
        arrow(388, 120, 430),
        box(434, 40, 190, 160, "#e5f3e8", "plan, made once", "choose a family", "take what was tuned", "build for the device", "check one small case",
            "keep in the cache"),
        arrow(628, 120, 670),
        *[box(674, 10 + 47 * n, 216, 38, "#f5e6ea", name) for n, name in enumerate(devices)],
        '<text x="650" y="108" text-anchor="middle" font-size="12">execute</text></svg>']) + "\n"


def main(arguments):
    check = arguments[:1] == ["--check"]
    build = Path(arguments[check]) if arguments[check:] else None
    bad = 0

    def settle(path, text):
        nonlocal bad
        old = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).exists() else None
        if old != text:
            bad += 1
            print(f"{path} is not as it would be made (python3 doc/generate.py)" if check else path)
            if not check:
                (ROOT / path).write_text(text, encoding="utf-8")

    for machine in MACHINES:
        settle(f"doc/results/{machine[0]}.md", machine_page(machine))
        _, device, results = first(machine)
        settle(f"doc/results/{machine[0]}.svg", chart(f"{headline(device, results)}: {machine[1]}", device, results))
        if roofline("", device, results):
            settle(f"doc/results/{machine[0]}-roof.svg", roofline(f"{roof_headline(device, results)}: {machine[1]}", device, results))
    settle("doc/results/h200-profile.svg", profile())
    settle("doc/design/tile-time.svg", tile_time())
    settle("doc/picture.svg", picture())
    for name, drawing in drawings.ALL.items():
        settle(f"doc/design/families/{name}.svg", drawing())
    settle("doc/results/README.md", between((ROOT / "doc/results/README.md").read_text(encoding="utf-8"), "machines", index()))
    settle("doc/results/first-call.md", between((ROOT / "doc/results/first-call.md").read_text(encoding="utf-8"), "first calls", first_calls()))
    for page, tables in {**subjects.TABLES, **tunables.tables()}.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        for name, made in tables.items():
            text = between(text, name, made())
        settle(page, text)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    settle("README.md", between(between(text, "CPU", readme_cpu()), "GPU", readme_gpu()))
    program = build and build / "doc/clattn-support"
    if program and program.exists():
        settle("doc/guide/support.md", subprocess.run([program, ROOT / "bench/profiles/sm_90.json"], text=True, check=True,
                                                      stdout=subprocess.PIPE).stdout)
    return 1 if check and bad else 0


sys.exit(main(sys.argv[1:]))
