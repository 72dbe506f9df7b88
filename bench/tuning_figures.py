#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How good the tuner is on the default device, on a quiet machine.

    tuning_figures.py [OPTION]... FILE.json

From an empty cache it measures, and collects in FILE.json,
    tunings    two tunings of the workload from scratch, with different seeds;
    run        the workload with what the first found, beside the untuned choices;
    agreement  a race of the two winners for each problem;
    search     a long search of the same spaces from scratch;
    reference  for each problem a race of its winner, the winner of the first tuning and the untuned choice;
    plans      how long a second process takes to its first result, for each problem.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile


class Steps:
    """Programs that are run once: what each wrote stays in a folder."""

    def __init__(self, build, work):
        self.bench, self.tune = (f"{build}/bench/clattn-bench", f"{build}/tuner/clattn-tune")
        self.work = pathlib.Path(work)
        self.work.mkdir(parents=True, exist_ok=True)

    def run(self, cache, *command):
        surroundings = {**os.environ, "CLATTN_CACHE_DIR": str(self.work / f"cache-{cache}")}
        done = subprocess.run(command, env=surroundings, stdin=subprocess.DEVNULL, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.stdout if done.returncode == 0 else sys.exit(done.stdout)

    def step(self, name, cache, *command):
        """What the command wrote to the file behind its --json, now or before."""
        file = self.work / f"{name}.json"
        if not file.exists():
            print(name, flush=True)
            self.run(cache, *command, "--json", f"{file}.part")
            pathlib.Path(f"{file}.part").replace(file)
        return json.loads(file.read_text(encoding="utf-8"))

    def winner(self, cache, problem):
        """The configuration that a problem was tuned to."""
        return self.run(cache, self.bench, "plan", "--known-only", "--once", problem).splitlines()[1]

    def problems(self, workload):
        lines = self.run(1, self.bench, "run", "--list", workload).splitlines()
        return [line.strip() for line in lines if line.startswith("  ") and not line.startswith("  #")]


def ratios(races, place):
    return [race["duellists"][place]["ratio"]["median"] for race in races]


def summary(problems, agreement, reference):
    columns = ratios(agreement, 1), ratios(reference, 1), ratios(reference, 2)
    print("\ntime of the     second tuning   tuned choice    untuned choice")
    print("over that of    the first       the winner of the long search")
    for *figures, problem in zip(*columns, problems):
        print(" " * 15, "{:<15.3f} {:<15.3f} {:<8.3f}".format(*figures), problem)
    for name, of in (("geometric mean", lambda x: math.exp(sum(map(math.log, x)) / len(x))), ("most", max)):
        print(f"{name:<31} {of(columns[1]):<15.3f} {of(columns[2]):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE.json")
    parser.add_argument("--build", default="build", help="where clattn-tune and clattn-bench were built")
    parser.add_argument("--work", help="keeps caches and steps, so that an interrupted run goes on where it was")
    parser.add_argument("--workload", default="tuning")
    parser.add_argument("--budget", default="60s", help="of each of the two tunings, as clattn-tune takes it")
    parser.add_argument("--reference", default="60m", help="the same of the long search")
    parser.add_argument("--strategy", default="exhaustive", help="of the long search")
    parser.add_argument("--rounds", default="30", help="of each race")
    o = parser.parse_args()
    steps = Steps(o.build, o.work or tempfile.mkdtemp(prefix="clattn-figures."))
    print("steps and caches:", steps.work)
    tune, duel = [steps.tune, "--workload", o.workload], [steps.bench, "duel", "--rounds", o.rounds]
    problems = steps.problems(o.workload)
    figures = {"schema": "clattn-tuning-figures-1", "budget": o.budget, "reference_strategy": o.strategy,
               "reference_budget": o.reference}
    figures["tunings"] = [steps.step(f"tuning-{n}", n, *tune, "--budget", o.budget, "--seed", str(n)) for n in (1, 2)]
    figures["search"] = steps.step("search", "reference", *tune, "--strategy", o.strategy, "--budget", o.reference,
                                   "--seed", "3")
    figures["run"] = steps.step("run", 1, steps.bench, "run", o.workload)
    for key in ("agreement", "reference", "plans"):
        figures[key] = []
    for n, problem in enumerate(problems, 1):
        print(problem)
        others = [steps.winner(2, problem)], [steps.winner("reference", problem), "tuned", "untuned"]
        figures["agreement"] += [steps.step(f"agreement-{n}", 1, *duel, problem, "tuned", *others[0])]
        figures["reference"] += [steps.step(f"reference-{n}", 1, *duel, problem, *others[1])]
        figures["plans"] += [steps.step(f"plan-{n}", 1, steps.bench, "plan", "--known-only", problem)]
    part = pathlib.Path(o.file + ".part")
    part.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    part.replace(o.file)
    summary(problems, figures["agreement"], figures["reference"])
    print(o.file)


if __name__ == "__main__":
    main()
