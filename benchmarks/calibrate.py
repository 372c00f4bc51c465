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
import math
import os
import re
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from schedules import MASKS  # noqa: E402

TOKENS = 16384
RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results", "schedules.jsonl")


def make_function(index, row):
    tensor = f"tensor<{row['B']}x{row['H']}x{row['S']}x{row['D']}xbf16>"
    mask = f" mask({MASKS[row['mask']]})" if MASKS[row["mask"]] else ""
    schedule = f"schedule({row['schedule']}) " if row["schedule"] else ""
    return f"""func.func @f{index}(%q: {tensor}, %k: {tensor}, %v: {tensor}, %o: {tensor}) -> {tensor} {{
  %0 = attn.attention ins(%q, %k, %v : {tensor}, {tensor}, {tensor}) outs(%o : {tensor}){mask}
      {schedule}-> {tensor}
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


def get_tiles(schedule):
    """What rows of the file tell schedules apart by."""
    return tuple(int(re.search(rf"\b{key} = (\d+)", schedule)[1]) for key in ("query_tile", "key_tile"))


def choose(opt, cases, is_static):
    """The tiles that attn-choose-schedule chooses for each case, with the length known or not."""
    functions = []
    for i, (dim, mask, length) in enumerate(cases):
        batch, seq = (TOKENS // length, length) if is_static else ("?", "?")
        row = dict(B=batch, H=2048 // dim, S=seq, D=dim, mask=mask, schedule=None)
        functions.append(make_function(i, row))
    result = subprocess.run(
        [opt, "-", "--pass-pipeline=builtin.module(func.func(attn-choose-schedule{target=sm_90a}))"],
        input="".join(functions),
        capture_output=True,
        text=True,
        check=True,
    )
    tiles = []
    for (_, _, length), text in zip(cases, re.findall(r"schedule\((.*)\) ->", result.stdout)):
        by_length = re.fullmatch(r"#attn.by_query_length<bound = (\d+), below = (.*>), from = (.*)>", text)
        if by_length:
            text = by_length[2] if length < int(by_length[1]) else by_length[3]
        tiles.append(get_tiles(text))
    return tiles


def check_choices(opt, rows, least):
    """Whether what is chosen is within 3 % of the fastest in `least` of the cases."""
    cases = {}
    for row in rows:
        cases.setdefault((row["D"], row["mask"], row["S"]), {})[get_tiles(row["schedule"])] = row["ms"]
    is_good = True
    for is_static in (True, False):
        within, worst = 0, []
        for case, tiles in zip(cases, choose(opt, list(cases), is_static)):
            if tiles not in cases[case]:
                print(f"{case}: {tiles} was not measured")
                worst.append((float("inf"), case, tiles))
                continue
            loss = cases[case][tiles] / min(cases[case].values())
            within += loss <= 1.03
            worst.append((loss, case, tiles))
        mean = math.exp(statistics.fmean(math.log(loss) for loss, _, _ in worst))
        print(f"length {'known' if is_static else 'not known'}: within 3 % of the fastest in {within} of {len(cases)} cases, {mean - 1:.2%} slower in the mean")
        for loss, case, tiles in sorted(worst, reverse=True)[:5]:
            print(f"  {loss - 1:.1%} slower: {case}, tiles of {tiles}")
        is_good &= within >= least
    return is_good


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
    parser.add_argument("--least", type=int, metavar="N", help="only check that choices are within 3 %% of the fastest in N cases")
    options = parser.parse_args()
    with open(options.results) as file:
        rows = [row for row in map(json.loads, file) if not row["chosen"]]
    if options.least is not None:
        return 0 if check_choices(options.opt, rows, options.least) else 1
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
