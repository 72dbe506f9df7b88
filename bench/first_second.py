#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a first plan and its execution cost, on a quiet machine.

    first_second.py [--build NAME=DIR]... FILE.json

Runs each problem in a new process with empty caches, and in a second one that finds what the first has left, with the
clattn-bench of each build, on the default device. The builds take turns, so that what disturbs the machine disturbs all
of them. FILE.json has for each NAME what `clattn-bench plan --once --json` wrote in the two processes, `source` and
`cache`, as often as they were repeated (bench/results/README.md). A build whose clattn-bench takes one problem only has
no figures for several.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

CACHES = ("CLATTN_CACHE_DIR", "POCL_CACHE_DIR", "MESA_SHADER_CACHE_DIR", "CUDA_CACHE_PATH", "NEO_CACHE_DIR",
          "cl_cache_dir", "AMD_COMGR_CACHE_DIR", "XDG_CACHE_HOME")
LAYER = "b1 h12 q1024 k1024 d64 causal=tl model=768 io packed biases obias training"
PROBLEMS = ["fwd f32 b1 h8 q1024 k1024 d64", "fwd f32 b1 h8 q1024 k1024 d128",
            "fwd f32 b1 h12 q1024 k1024 d64 causal=tl", "fwd f16 b1 h32/8 q1 k4096 d128 causal=br",
            "bwd f32 b1 h12 q1024 k1024 d64", "bwd f32 b1 h12 q1024 k1024 d64 causal=tl",
            f"layer fwd f32 {LAYER}", f"layer bwd f32 {LAYER}", f"layer fwd f32 {LAYER} + layer bwd f32 {LAYER}"]


def process(folder, problem, caches):
    """What one process wrote; None if its program does not take several problems."""
    surroundings = dict(os.environ)
    for name in CACHES:
        surroundings[name] = f"{caches}/{name}"
        os.makedirs(surroundings[name], exist_ok=True)
    problems = problem.split(" + ")
    command = [f"{folder}/bench/clattn-bench", "plan", "--once", "--json", "-", *problems]
    done = subprocess.run(command, env=surroundings, stdout=subprocess.PIPE, check=False)
    if done.returncode == 2 and len(problems) > 1:
        return None
    return json.loads(done.stdout) if done.returncode == 0 else sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE.json")
    parser.add_argument("--build", action="append", metavar="NAME=DIR", help="default now=build")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--problem", action="append", help='instead of a list; "A + B": both in one process')
    options = parser.parse_args()
    builds = dict(build.split("=", 1) for build in options.build or ["now=build"])
    found = {name: {"source": [], "cache": []} for name in builds}
    for problem in options.problem or PROBLEMS:
        for turn in range(options.repeat):
            print(f"{problem} ({turn + 1} of {options.repeat})", flush=True)
            for name, folder in builds.items():
                with tempfile.TemporaryDirectory(prefix="clattn-first-second.") as caches:
                    for kind in ("source", "cache"):
                        found[name][kind] += filter(None, [process(folder, problem, caches)])
    part = pathlib.Path(options.file + ".part")
    part.write_text(json.dumps({"schema": "clattn-first-second-1", "builds": found}, indent=1) + "\n", encoding="utf-8")
    part.replace(options.file)


if __name__ == "__main__":
    main()
