#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the estimates of the cost model with measured times.

    python3 benchmarks/calibrate.py --opt BUILD/bin/attn-opt [--plot docs/images/calibration-forward.svg]
    python3 benchmarks/calibrate.py --opt BUILD/bin/attn-opt --gradients [--plot docs/images/calibration-backward.svg]

Reads the rows that schedules.py has written, lets attn-explain estimate each of them, and prints how far estimates are off
and how good the schedule is that has the least estimate in each case. With --gradients, reads those of backward.py and of
masks.py with masks that read nothing, and estimates the schedules that are chosen. Needs no GPU; --plot needs matplotlib.
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

import masks  # noqa: E402
from schedules import MASKS  # noqa: E402

TOKENS = 16384
RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")


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


def make_gradient(index, row):
    q = f"tensor<{row['B']}x{row['H']}x{row['S']}x{row['D']}xbf16>"
    k = f"tensor<{row['B']}x{row['Hkv']}x{row['S']}x{row['D']}xbf16>"
    lse = f"tensor<{row['B']}x{row['H']}x{row['S']}xf32>"
    mask = f" mask({row['attribute']})" if row["attribute"] else ""
    return f"""func.func @f{index}(%q: {q}, %k: {k}, %v: {k}, %o: {q}, %lse: {lse}, %do: {q}, %dq: {q}, %dk: {k}, %dv: {k}) -> ({q}, {k}, {k}) {{
  %0:3 = attn.attention_grad ins(%q, %k, %v, %o, %lse, %do : {q}, {k}, {k}, {q}, {lse}, {q})
      outs(%dq, %dk, %dv : {q}, {k}, {k}){mask} -> {q}, {k}, {k}
  return %0#0, %0#1, %0#2 : {q}, {k}, {k}
}}
"""


def read_rows(name):
    with open(os.path.join(RESULTS, name)) as file:
        return [json.loads(line) for line in file]


def read_gradients():
    """The last row of each gradient that is measured, with the attribute of its mask."""
    rows = {}
    for row in read_rows("backward.jsonl"):
        # Heads that share keys were measured with other schedules.
        if row["op"] == "attn" and row["H"] == row["Hkv"]:
            rows[row["D"], row["S"], row["mask"]] = {**row, "attribute": "#attn.causal" if row["causal"] else ""}
    for row in read_rows("masks.jsonl"):
        attribute, keep, _ = masks.MASKS.get(row["mask"], ("", "other", None))
        if row["op"] == "attn" and row["mode"] == "bwd" and not keep:
            rows[row["mask"]] = {**row, "attribute": attribute}
    return list(rows.values())


def estimate(opt, functions, *passes):
    """Milliseconds of each function, by attn-explain."""
    result = subprocess.run(
        [opt, "-", *passes, "--attn-explain=format=json output=-", "-o", os.devnull],
        input="".join(functions),
        capture_output=True,
        text=True,
        check=True,
    )
    return [function["operations"][0]["seconds"] * 1e3 for function in json.loads(result.stdout)["functions"]]


def print_errors(what, errors):
    errors = sorted(map(abs, errors))
    print(
        f"{what}: estimates are off by {statistics.median(errors):.1%} in the median, "
        f"{errors[len(errors) * 9 // 10]:.1%} in nine of ten, {errors[-1]:.1%} at most"
    )


def calibrate_gradients(opt, path):
    rows = read_gradients()
    functions = [make_gradient(i, row) for i, row in enumerate(rows)]
    estimates = estimate(opt, functions, "--attn-choose-schedule=target=sm_90a")
    errors = [value / row["ms"] - 1 for value, row in zip(estimates, rows)]
    for row, error in zip(rows, errors):
        if abs(error) > 0.1:
            print(f"{error:+.1%}: {row['mask']}, {row['H']} heads on {row['Hkv']}, head dim {row['D']}, {row['S']} tokens")
    print_errors(f"{len(rows)} gradients", errors)
    if path:
        plot(path, "gradients", rows, estimates)


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


def plot(path, what, rows, estimates):
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
    axes.set(xscale="log", yscale="log", xlabel="measured ms", ylabel="estimated ms", title=f"{len(rows)} {what} on an {rows[0]['device']}")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opt", required=True, help="attn-opt")
    parser.add_argument("--gradients", action="store_true", help="estimate gradients, not forward kernels")
    parser.add_argument("--plot", help="file for a plot")
    parser.add_argument("--least", type=int, metavar="N", help="only check that choices are within 3 %% of the fastest in N cases")
    options = parser.parse_args()
    if options.gradients:
        calibrate_gradients(options.opt, options.plot)
        return 0
    rows = [row for row in read_rows("schedules.jsonl") if not row["chosen"]]
    if options.least is not None:
        return 0 if check_choices(options.opt, rows, options.least) else 1
    estimates = estimate(options.opt, [make_function(i, row) for i, row in enumerate(rows)])
    cases = {}
    for value, row in zip(estimates, rows):
        cases.setdefault((row["D"], row["mask"], row["S"]), []).append((value, row["ms"]))
    losses = [min(case)[1] / min(ms for _, ms in case) for case in cases.values()]
    within = sum(loss <= 1.03 for loss in losses)
    print_errors(f"{len(rows)} kernels", [value / row["ms"] - 1 for value, row in zip(estimates, rows)])
    print(f"{len(losses)} cases: the least estimate is within 3 % of the fastest in {within}, {max(losses) - 1:.1%} slower at most")
    if options.plot:
        plot(options.plot, "forward kernels", rows, estimates)
    return 0


if __name__ == "__main__":
    sys.exit(main())
