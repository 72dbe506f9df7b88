#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python3 bench/mpi/scaling_plot.py RESULTS.tsv OUT.svg: efficiency over ranks, of what bench/mpi/scaling.sh wrote.

A panel for each cluster and direction of gpus-*, a line for each context of the mode that is fastest there; dots are simulated,
rings are the cost model's prediction alone. Also prints that table as Markdown. Needs the standard library alone."""
import csv
import re
import sys

COLORS = {131072: "#d55e00", 1048576: "#e69f00", 4194304: "#009e73", 16777216: "#0072b2"}
NAMES = {131072: "128k tokens", 1048576: "1M", 4194304: "4M", 16777216: "16M"}
RANKS = [8, 64, 512, 1024]
WIDTH, HEIGHT, LEFT, TOP = 360, 220, 60, 50


def read(path):
    """(cluster, direction, tokens, ranks) -> {mode: (percent, simulated, milliseconds)}."""
    table = {}
    for row in csv.DictReader(open(path), delimiter="\t"):
        tokens = int(re.search(r" q(\d+)", row["problem"]).group(1))
        simulated = float(row["ms simulated"]) > 0
        which = "simulated" if simulated else "predicted"
        key = row["cluster"], row["problem"][:3], tokens, int(row["ranks"])
        table.setdefault(key, {})[row["mode"]] = (
            float(row["efficiency " + which]), simulated, float(row["ms " + which]))
    return table


def panel(table, cluster, direction, x0, y0):
    x = lambda ranks: x0 + WIDTH * RANKS.index(ranks) / (len(RANKS) - 1)
    y = lambda percent: y0 + HEIGHT * (1 - percent / 100)
    out = [f'<text x="{x0}" y="{y0 - 12}" font-weight="bold">{cluster.replace("gpus-", "8 GPUs a node, ")} Gbit/s, '
           f'{"forward" if direction == "fwd" else "backward"}</text>']
    for percent in (0, 25, 50, 75, 100):
        out.append(f'<line x1="{x0}" x2="{x0 + WIDTH}" y1="{y(percent)}" y2="{y(percent)}" stroke="#ddd"/>'
                   f'<text x="{x0 - 8}" y="{y(percent) + 4}" text-anchor="end">{percent} %</text>')
    for ranks in RANKS:
        out.append(f'<text x="{x(ranks)}" y="{y0 + HEIGHT + 18}" text-anchor="middle">{ranks}</text>')
    for tokens, color in COLORS.items():
        points = []
        for ranks in RANKS:
            modes = table.get((cluster, direction, tokens, ranks))
            if modes:
                percent, simulated, _ = max(modes.values())
                points.append((x(ranks), y(percent), simulated))
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b, _ in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        for a, b, simulated in points:
            out.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" stroke="{color}" fill="{color if simulated else "white"}"/>')
    return out


def main():
    table = read(sys.argv[1])
    width, height = 2 * (WIDTH + LEFT) + 60, 2 * (HEIGHT + 80) + 60
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for row, cluster in enumerate(("gpus-400", "gpus-100")):
        for column, direction in enumerate(("fwd", "bwd")):
            out += panel(table, cluster, direction, LEFT + column * (WIDTH + LEFT), TOP + row * (HEIGHT + 80))
    for n, (tokens, color) in enumerate(COLORS.items()):
        out.append(f'<text x="{LEFT + 130 * n}" y="{height - 20}" fill="{color}">{NAMES[tokens]}</text>')
    out.append(f'<text x="{width - 20}" y="{height - 20}" text-anchor="end">ranks; dots simulated, rings predicted</text></svg>')
    open(sys.argv[2], "w").write("\n".join(out) + "\n")
    for cluster in sorted({key[0] for key in table}, reverse=True):
        print(f"\n{cluster}\n\n| tokens | direction | " + " | ".join(f"{n} ranks" for n in RANKS) + " |\n|---|---|" + "---|" * 4)
        for tokens in COLORS:
            for direction in ("fwd", "bwd"):
                cells = []
                for ranks in RANKS:
                    modes = table.get((cluster, direction, tokens, ranks), {})
                    cells.append(", ".join(f"{mode} {value[0]:.0f}{'' if value[1] else '*'}" for mode, value in
                                           sorted(modes.items(), key=lambda item: -item[1][0])))
                if any(cells):
                    print(f"| {NAMES[tokens]} | {direction} | " + " | ".join(cells) + " |")


main()
