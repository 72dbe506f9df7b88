#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""medians.py WHAT FILE: a line for each problem and mode of a run of clattn-bench --mpi: the median, and where each rank's
time went, in milliseconds."""
import json
import sys


def main():
    what, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    for device in document["devices"]:
        for record in device["results"]:
            for outcome in record["implementations"]:
                times, mpi = outcome["milliseconds"], outcome.get("mpi")
                if not times or times["median"] is None:
                    print(f"{what:13} {record['problem']}: {outcome['implementation']}: {outcome['why']}")
                    continue
                spent = ""
                if mpi:
                    spent = ", ".join(
                        f"{key.split('_')[0]} " + " ".join(f"{value:.2f}" for value in mpi[key])
                        for key in mpi
                        if key.endswith("_milliseconds") and isinstance(mpi[key], list))
                print(f"{what:13} {record['problem'][:3]} {outcome['implementation']:18} "
                      f"{times['median']:8.2f} ms  {spent}")


main()
