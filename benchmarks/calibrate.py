#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the estimates of the cost model with measured times.

    python3 benchmarks/calibrate.py --opt BUILD/bin/attn-opt [--plot docs/plots/calibration.svg]

Reads the rows that schedules.py has written, lets attn-explain estimate each of them, and prints how far estimates are off
and how good the schedule is that has the least estimate in each case. Needs no GPU; --plot needs matplotlib.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from schedules import MASKS  # noqa: E402

RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results", "schedules.jsonl")


def make_function(index, row):
    tensor = f"tensor<{row['B']}x{row['H']}x{row['S']}x{row['D']}xbf16>"
    mask = f" mask({MASKS[row['mask']]})" if MASKS[row["mask"]] else ""
    return f"""func.func @f{index}(%q: {tensor}, %k: {tensor}, %v: {tensor}, %o: {tensor}) -> {tensor} {{
  %0 = attn.attention ins(%q, %k, %v : {tensor}, {tensor}, {tensor}) outs(%o : {tensor}){mask}
      schedule({row['schedule']}) -> {tensor}
  return %0 : {tensor}
}}
"""


def estimate(opt, rows):
    """Milliseconds of each row, by attn-explain."""
    module = "".join(make_function(i, row) for i, row in enumerate(rows))
    result = subprocess.run(
        [opt, "-", "--attn-explain=format=json output=-", "-o", os.devnull], input=module, capture_output=True, text=True, check=True
    )
    return [function["operations"][0]["seconds"] * 1e3 for function in json.loads(result.stdout)["functions"]]


def plot(path, rows, estimates):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 5))
    measured = [row["ms"] for row in rows]
    for dim in sorted({row["D"] for row in rows}):
        chosen = [i for i, row in enumerate(rows) if row["D"] == dim]
        axes.scatter([measured[i] for i in chosen], [estimates[i] for i in chosen], s=12, label=f"head dim {dim}")
    ends = [min(measured) * 0.9, max(measured) * 1.1]
    axes.plot(ends, ends, color="black", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="measured ms", ylabel="estimated ms", title=f"{len(rows)} forward kernels on an {rows[0]['device']}")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opt", required=True, help="attn-opt")
    parser.add_argument("--results", default=RESULTS, help="rows of schedules.py")
    parser.add_argument("--plot", help="file for a plot")
    options = parser.parse_args()
    with open(options.results) as file:
        rows = [row for row in map(json.loads, file) if not row["chosen"]]
    estimates = estimate(options.opt, rows)
    errors = sorted(abs(value / row["ms"] - 1) for value, row in zip(estimates, rows))
    cases = {}
    for value, row in zip(estimates, rows):
        cases.setdefault((row["D"], row["mask"], row["S"]), []).append((value, row["ms"]))
    losses = [min(case)[1] / min(ms for _, ms in case) for case in cases.values()]
    within = sum(loss <= 1.03 for loss in losses)
    print(f"{len(rows)} kernels: estimates are off by {statistics.median(errors):.1%} in the median, {errors[len(errors) * 9 // 10]:.1%} in nine of ten, {errors[-1]:.1%} at most")
    print(f"{len(losses)} cases: the least estimate is within 3 % of the fastest in {within}, {max(losses) - 1:.1%} slower at most")
    if options.plot:
        plot(options.plot, rows, estimates)
    return 0


if __name__ == "__main__":
    sys.exit(main())
