#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the estimates of the cost model with measured times.

    python3 benchmarks/calibrate.py --opt BUILD/bin/attn-opt [--check]
    python3 benchmarks/calibrate.py --opt BUILD/bin/attn-opt --document docs/cost-model.md \\
        --plot docs/images/calibration.svg
    python3 benchmarks/calibrate.py --opt BUILD/bin/attn-opt --least 44
    python3 benchmarks/calibrate.py --opt BUILD/bin/attn-opt --device h100 --fit share/attn/calibration/h100.json

The first form takes the last row of each benchmark in benchmarks/results. It lets attn-choose-schedule choose a
schedule, or takes the given one, and compares the estimate of attn-explain with the measured time, by groups. Where a
mask depends on data, the visited tiles are counted here, from the data of the benchmark. With --check it fails if
errors are larger than BOUNDS allow, or if the table of a document that --document names has other figures. The second
form writes that table, and a plot. The third one compares the choices with the fastest of the schedules that
schedules.py has measured. The fourth one fits the terms of a calibration file, which becomes part of the library with
the next build, to three quarters of the cases, and writes their errors and the errors of the others to the file. Of
another device than the H200, --device takes the rows. Needs NumPy, but no GPU; --plot needs matplotlib.
"""

import argparse
import concurrent.futures
import dataclasses
import functools
import json
import math
import os
import re
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import calibration_fit  # noqa: E402
import decode  # noqa: E402
import dropout  # noqa: E402
import gemm  # noqa: E402
import host  # noqa: E402
import linear_schedules  # noqa: E402
import masks  # noqa: E402
import schedules  # noqa: E402
import sequences  # noqa: E402
from cases import Case  # noqa: E402

RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")
CHOOSE = "--attn-choose-schedule=target=sm_90a"
# Names of devices in rows, by `#attn.device`. Rows of one GPU are compared.
DEVICES = {"h200": "NVIDIA H200", "h100": "NVIDIA H100 80GB HBM3"}
DEFAULT_DEVICE = "h200"
# The rate that synchronous MMAs reach on an H200, where kernels for sm_80 were measured.
SYNCHRONOUS = '#attn.device<"h200", mma_flops_per_cycle_16b = 2140>'
# One core of the processor in host.jsonl, as `attn-compile` describes it: with vectors of 512 bits or, with the option
# --host-cpu=x86-64-v3, of 256. The clock rate was measured.
CORE = '#attn.device<"host", sms = 1, clock_mhz = 3650, registers = %d, l2_bytes = 1048576>'
CORES = {"native": CORE % 512, "x86-64-v3": CORE % 128}
# Errors of the median and of the worst case that groups may have.
BOUNDS = (0.10, 0.25)
# Of kernels that take a few microseconds.
BOUNDS_OF = {"linear, few": (0.10, 0.55)}
# The part of the cases in which the least estimate must be within 3 % of the fastest schedule.
LEAST, LEAST_OF = 0.9, {"linear, pairs": 0.75}


# The rows of the table of docs/cost-model.md, by group: the kernels measured on a GPU.
TITLES = {
    "forward": "forward: dense and grouped heads (`forward.py`)",
    "score_mod": "score_mod (`forward.py --groups mods`)",
    "masks": "masks that have names (`masks.py`)",
    "masks that read": "masks that read tensors",
    "sequences": "packed sequences of one length (`sequences.py`)",
    "decoding": "decoding (`decode.py`)",
    "dropout": "dropout, made and read (`dropout.py`, suite attention)",
    "gradients": "gradients (`backward.py`)",
    "gradients, deterministic": "the same, deterministic",
    "gradients, masks": "gradients, masks that have names",
    "gradients, masks that read": "gradients, masks that read tensors",
    "gradients, sequences": "gradients, packed sequences of one length",
    "gradients, dropout": "gradients, dropout",
    "matmuls": "matmuls (`gemm.py`)",
    "tiles": "every tile that fits, dense (`schedules.py`)",
    "tiles, changed": "tiles, score_mod and dropout (`--suite changes`)",
    "tiles, sm_80": "tiles, sm_80 (`--suite sm_80`)",
    "decoding, sm_80": "decoding, sm_80",
    "linear": "linear attention (`linear_schedules.py --suite chunks`)",
    "linear, pairs": "the same with pair matrices (`--suite pairs`)",
    "linear, few": "the same of few tokens (`--suite few`)",
}
TABLE = re.compile(r"(?<=<!-- calibration -->\n).*?(?=<!-- /calibration -->)", re.S)


@dataclasses.dataclass
class Point:
    """A measured time, and the operation to estimate: a function, the sizes of its dynamic dimensions, and passes."""

    group: str
    label: str
    dim: int
    ms: float
    text: str
    size: int = 1
    batch: int = 1
    passes: tuple = (CHOOSE,)
    target: str = "sm_90a"
    device: str = ""
    seconds: float = 0.0

    @property
    def error(self):
        return self.seconds * 1e3 / self.ms - 1


class Selection:
    """The device whose rows are read."""

    device = DEFAULT_DEVICE


def read_rows(name):
    """Rows of a file, and of the file of that name in the folder of the device, if there is one."""
    rows = []
    for path in (os.path.join(RESULTS, name), os.path.join(RESULTS, Selection.device, name)):
        if os.path.exists(path):
            with open(path) as file:
                rows += [json.loads(line) for line in file]
    return [
        row
        for row in rows
        if not row.get("device", "").startswith("NVIDIA ") or row["device"] == DEVICES[Selection.device]
    ]


def read_last(name, keys, condition=lambda row: True):
    """The last row of each benchmark that `keys` tell apart."""
    last = {}
    for row in read_rows(name):
        if condition(row):
            last[tuple(row.get(key) for key in keys)] = row
    return list(last.values())


def is_ours(row):
    return row["op"] == "attn"


KEYS = ("op", "mode", "B", "H", "Hkv", "S", "D", "mask")


def describe(row):
    return f"{row['H']} heads on {row['Hkv']}, head dim {row['D']}, {row['B']} x {row['S']}, {row['mask']}"


def get_case(row, **more):
    return Case(row["H"], row["Hkv"], row["D"], row["D"], **more)


def forward_points():
    for row in read_last("forward.jsonl", KEYS, is_ours):
        text = get_case(row, mask="#attn.causal" if row["causal"] else "").mlir()
        yield Point("forward", describe(row), row["D"], row["ms"], text, row["S"], row["B"])


def change_points():
    for row in read_last("mods.jsonl", KEYS, is_ours):
        score = row["mask"].removeprefix("mod:").replace("none", "")
        text = get_case(row, score=score).mlir()
        yield Point("score_mod", describe(row), row["D"], row["ms"], text, row["S"], row["B"])


def tile_points():
    """Schedules that were given."""
    groups = {"schedules": "tiles", "schedules-changes": "tiles, changed", "schedules-sm_80": "tiles, sm_80"}
    for file, group in groups.items():
        for row in read_rows(file + ".jsonl"):
            if row["chosen"]:
                continue
            more = {}
            if row.get("change", "none") == "dropout":
                more.update(dropout=schedules.DROPOUT)
            elif row.get("change", "none") != "none":
                more.update(score=row["change"])
            case = get_case(row, mask=schedules.MASKS[row["mask"]], schedule=row["schedule"], **more)
            label = f"{describe(row)}, {row.get('change', '')} {schedules.get_tiles(row['schedule'])}"
            point = Point(group, label, row["D"], row["ms"], case.mlir(), row["S"], row["B"], passes=())
            if row.get("suite") == "sm_80":
                point.target, point.device = "sm_80", SYNCHRONOUS
            yield point


def host_points():
    """Tiles on one core of a host."""
    groups = {"dense": "host", "few": "host", "packed": "host", "gradients": "gradients, host"}
    for row in read_rows("host.jsonl"):
        if row["chosen"]:
            continue
        case = Case(row["H"], row["Hkv"], row["D"], row["Dv"], dtype=row["dtype"], mask=host.MASKS[row["mask"]])
        score = row["change"].replace("none", "")
        queries = row["Sq"] if row["Sq"] < row["S"] else 0
        case = dataclasses.replace(case, score=score, schedule=row["schedule"], queries=queries)
        text = case.mlir() if row["mode"] == "fwd" else case.grad_mlir()
        group = groups.get(row["suite"], "host, " + row["suite"])
        label = f"{describe(row)}, {row['Dv']}, {row['Sq']} queries, {row['dtype']} {row['change']} {row['cpu']}"
        label += f" {schedules.get_tiles(row['schedule'])}"
        point = Point(group, label, row["D"], row["ms"], text, row["S"], row["B"], passes=())
        yield dataclasses.replace(point, target="host", device=CORES[row["cpu"]])


def add_density(text, counts):
    """`text`, whose attention has the parts of tiles in `counts`."""
    attributes = "attributes {attn.tile_density = array<f64: %.5f, %.5f>}" % counts
    return re.sub(r"(\n *mask_mod \{)", rf" {attributes}\1", text, count=1)


@functools.cache
def count_tiles(name, rows, columns):
    """Fractions of the tiles that are visited under a mask, and of the tiles that it cuts."""
    import numpy as np

    tokens, length = masks.make_numpy_tokens(), masks.LENGTH

    def keep(queries, keys):
        return masks.MASKS[name][2](queries, keys, tokens)

    visited = cut = 0
    keys = np.arange(-(-length // columns) * columns, dtype=np.int32)
    for first in range(0, length, rows):
        queries = np.arange(first, min(first + rows, length), dtype=np.int32)
        kept = keep(queries[:, None], np.minimum(keys, length - 1)[None, :]) & (keys < length)[None, :]
        kept = kept.reshape(len(queries), -1, columns)
        any_kept, all_kept = kept.any((0, 2)), kept.all((0, 2))
        visited += int(any_kept.sum())
        cut += int((any_kept & ~all_kept).sum())
    tiles = -(-length // rows) * -(-length // columns)
    return visited / tiles, cut / tiles


def mask_points(opt):
    for row in read_last("masks.jsonl", KEYS, is_ours):
        if row["mask"] not in masks.MASKS:
            continue
        _, keep, _ = masks.MASKS[row["mask"]]
        case = masks.get_case(row["mask"])
        is_forward = row["mode"] == "fwd"
        text = case.mlir() if is_forward else case.grad_mlir()
        if keep:
            # For gradients, the tiles of the dkdv kernel.
            schedule = run(opt, text, [CHOOSE]).split("dkdv = ")[-1]
            text = add_density(text, count_tiles(row["mask"], *schedules.get_tiles(schedule)[:2]))
        group = "masks" if is_forward else "gradients, masks"
        if keep:
            group += " that read"
        yield Point(group, describe(row), row["D"], row["ms"], text, row["S"], row["B"])


def sequence_points():
    """Packed sequences of one length."""
    for row in read_last("masks.jsonl", KEYS, is_ours):
        match = re.fullmatch(r"packed_(\d+)x(\d+)_(full|causal)", row["mask"])
        if not match:
            continue
        count, length, mask = int(match[1]), int(match[2]), match[3]
        make = sequences.module if row["mode"] == "fwd" else sequences.grad_module
        text = make("packed", row["H"], row["Hkv"], row["D"], mask)
        group = "sequences" if row["mode"] == "fwd" else "gradients, sequences"
        yield Point(group, describe(row), row["D"], row["ms"], text, length, count)


def gradient_points():
    for row in read_last("backward.jsonl", KEYS, is_ours):
        deterministic = row["mode"] == "bwd_deterministic"
        text = get_case(row, mask="#attn.causal" if row["causal"] else "").grad_mlir(deterministic)
        group = "gradients, deterministic" if deterministic else "gradients"
        yield Point(group, describe(row), row["D"], row["ms"], text, row["S"], row["B"])


def decode_points():
    for row in read_last("decode.jsonl", KEYS, is_ours):
        case = decode.Case(row["B"], row["H"], row["Hkv"], row["S"], row["D"], row.get("queries", 1),
                           row.get("sinks", False))
        yield Point("decoding", describe(row), row["D"], row["ms"], decode.make_module(case, ""))
    for row in read_rows("decode-sm_80.jsonl"):
        case = decode.Case(row["B"], row["H"], row["Hkv"], row["S"], row["D"])
        if row.get("schedule"):
            text = decode.make_module(case, row["schedule"])
            label = f"{describe(row)} ({row['schedule'].split('<')[1].removesuffix('>')})"
            point = Point("decoding, sm_80", label, row["D"], row["ms"], text, passes=())
            yield dataclasses.replace(point, target="sm_80", device=SYNCHRONOUS)


def dropout_points():
    """Attention alone, and its gradient."""
    kinds = {("fwd", "attn_hoisted"): "rows", ("bwd", "attn_hoisted"): "columns"}
    keys = ("op", "mode", "rng", "B", "H", "S", "D", "mask")

    def is_alone(row):
        return row.get("suite") == "attention" and row["op"].startswith("attn")

    for row in read_last("dropout.jsonl", keys, is_alone):
        layer = dropout.Layer(row["H"] * row["D"], row["H"], row["Hkv"], row["D"])
        text = dropout.attention_module(layer, row["B"], row["mask"] == "causal")
        name = f"{row['mode']}_{kinds.get((row['mode'], row['op']), row['rng'])}"
        text = re.search(rf"func.func @{name}\(.*?\n}}\n", text, re.S)[0]
        group = "dropout" if row["mode"] == "fwd" else "gradients, dropout"
        yield Point(group, f"{describe(row)}, {name} {row['rng']}", row["D"], row["ms"], text, row["S"], row["B"])


def matmul_points():
    for row in read_last("gemm.jsonl", ("op", "M", "N", "K", "form", "epilogue"), is_ours):
        text = gemm.module(row["form"], row["epilogue"] == "bias", "", (row["M"], row["N"], row["K"]))
        label = f"{row['M']} x {row['N']} x {row['K']} {row['form']} {row['epilogue']}"
        yield Point("matmuls", label, 0, row["ms"], text)


def linear_points():
    """Schedules of linear attention that were given."""
    groups = {"chunks": "linear", "pairs": "linear, pairs", "few": "linear, few"}
    for row in read_rows("linear-schedules.jsonl"):
        if row["chosen"]:
            continue
        case = linear_schedules.Case(row["decay"], row["mode"], row["D"], row["schedule"])
        label = f"{case.name}, {row['B']} x {row['S']} ({case.artifact.split('.')[1]})"
        yield Point(groups[row["suite"]], label, row["D"], row["ms"], case.mlir(), row["S"], row["B"], passes=())


def run(opt, text, passes):
    return subprocess.run([opt, "-", *passes], input=text, capture_output=True, text=True, check=True).stdout


@dataclasses.dataclass
class Module:
    """Points with the same options, in one module, whose functions have their schedules."""

    points: list
    text: str

    @classmethod
    def make(cls, opt, passes, device, points):
        functions = [
            re.sub(r"func\.func @\w+", f"func.func @f{i}", point.text, count=1) for i, point in enumerate(points)
        ]
        attributes = f" attributes {{attn.device = {device}}}" if device else ""
        text = f"module{attributes} {{\n{''.join(functions)}}}\n"
        return cls(points, run(opt, text, passes) if passes else text)

    def estimate(self, opt, calibration):
        first = self.points[0]
        load = [f"--attn-load-calibration=file={calibration} target={first.target}"] if calibration else []
        explain = f"--attn-explain=format=json output=- target={first.target} dynamic-size={first.size}"
        explain += f" dynamic-batch={first.batch}"
        text = run(opt, self.text, [*load, explain, "-o", os.devnull])
        for point, function in zip(self.points, json.loads(text)["functions"]):
            point.operation = function["operations"][0]
            point.seconds = point.operation["seconds"]


def make_modules(opt, points):
    runs = {}
    for point in points:
        device = point.device or (f'#attn.device<"{Selection.device}">' if Selection.device != DEFAULT_DEVICE else "")
        runs.setdefault((point.passes, point.size, point.batch, point.target, device), []).append(point)
    return [Module.make(opt, passes, device, group) for (passes, _, _, _, device), group in runs.items()]


def estimate_modules(opt, modules, calibration=None):
    """Lets attn-explain estimate all points, with the terms of a calibration file if one is given."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(lambda module: module.estimate(opt, calibration), modules):
            pass


def fit(opt, path, points, steps, names):
    """Fits the terms in the file `path`, with the schedules that are chosen before."""
    modules = {}

    def evaluate(calibration, some):
        key = tuple(map(id, some))
        if key not in modules:
            modules[key] = make_modules(opt, some)
        estimate_modules(opt, modules[key], calibration)

    calibration_fit.fit(path, points, evaluate, steps, names)


def print_errors(what, points):
    errors = sorted(abs(point.error) for point in points)
    signed = [point.error for point in points]
    print(
        f"{what}: {len(errors)} times, estimates are off by {statistics.median(errors):.1%} in the median, "
        f"{errors[len(errors) * 9 // 10]:.1%} in nine of ten, {errors[-1]:.1%} at most "
        f"({min(signed):+.1%} to {max(signed):+.1%})"
    )
    median, worst = BOUNDS_OF.get(what, BOUNDS)
    return statistics.median(errors) <= median and errors[-1] <= worst


GROUPS = {
    "forward": lambda opt: forward_points(),
    "score_mod": lambda opt: change_points(),
    "tiles": lambda opt: tile_points(),
    "host": lambda opt: host_points(),
    "masks": mask_points,
    "sequences": lambda opt: sequence_points(),
    "gradients": lambda opt: gradient_points(),
    "decoding": lambda opt: decode_points(),
    "dropout": lambda opt: dropout_points(),
    "matmuls": lambda opt: matmul_points(),
    "linear": lambda opt: linear_points(),
}


def choose(opt, cases, is_static):
    """The tiles that attn-choose-schedule chooses for each case, with the length known or not."""
    functions = []
    for i, (dim, mask, length) in enumerate(cases):
        batch, seq = (16384 // length, length) if is_static else ("?", "?")
        tensor = f"tensor<{batch}x{2048 // dim}x{seq}x{dim}xbf16>"
        attribute = f" mask({schedules.MASKS[mask]})" if schedules.MASKS[mask] else ""
        functions.append(f"""func.func @f{i}(%q: {tensor}, %k: {tensor}, %v: {tensor}, %o: {tensor}) -> {tensor} {{
  %0 = attn.attention ins(%q, %k, %v : {tensor}, {tensor}, {tensor}) outs(%o : {tensor}){attribute} -> {tensor}
  return %0 : {tensor}
}}
""")
    attributes = f' attributes {{attn.device = #attn.device<"{Selection.device}">}}'
    text = run(opt, f"module{attributes} {{\n{''.join(functions)}}}\n", [CHOOSE])
    tiles = []
    for (_, _, length), found in zip(cases, re.findall(r"schedule\((.*)\) ->", text)):
        by_length = re.fullmatch(r"#attn.by_query_length<bound = (\d+), below = (.*>), from = (.*>)>", found)
        if by_length:
            found = by_length[2] if length < int(by_length[1]) else by_length[3]
        tiles.append(schedules.get_tiles(found))
    return tiles


def check_choices(opt, least):
    """Whether the choice is within 3 % of the fastest schedule in `least` of the cases of schedules.jsonl."""
    cases = {}
    for row in read_rows("schedules.jsonl"):
        if not row["chosen"]:
            cases.setdefault((row["D"], row["mask"], row["S"]), {})[schedules.get_tiles(row["schedule"])] = row["ms"]
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
        print(
            f"length {'known' if is_static else 'not known'}: within 3 % of the fastest in {within} of {len(cases)} "
            f"cases, {mean - 1:.2%} slower in the mean"
        )
        for loss, case, tiles in sorted(worst, reverse=True)[:5]:
            print(f"  {loss - 1:.1%} slower: {case}, tiles of {tiles}")
        is_good &= within >= least
    return is_good


def check_least(points):
    """Whether, in most cases, the measured schedule with the least estimate is within 3 % of the fastest one."""
    cases = {}
    for point in points:
        cases.setdefault((point.group, point.size, point.batch, point.label.rsplit(" (", 1)[0]), []).append(point)
    is_good = True
    for group in {key[0]: None for key in cases}:
        losses = []
        for key, found in cases.items():
            if key[0] == group:
                losses.append(min(found, key=lambda p: p.seconds).ms / min(p.ms for p in found))
        within = sum(loss <= 1.03 for loss in losses)
        print(
            f"{group}: the least estimate is within 3 % of the fastest in {within} of {len(losses)} cases, "
            f"{max(losses) - 1:.1%} slower at most"
        )
        is_good &= within >= LEAST_OF.get(group, LEAST) * len(losses)
    return is_good


def make_table(groups, is_complete=False):
    """Markdown of the errors of the groups in TITLES, with a last row for all of them if no group was left out."""
    rows = [(title, groups[name]) for name, title in TITLES.items() if name in groups]
    if is_complete:
        rows.append(("all", [point for _, points in rows for point in points]))
    lines = ["| group | times | error, median | nine of ten | worst |", "|---|---|---|---|---|"]
    for title, points in rows:
        errors = sorted(abs(point.error) for point in points)
        figures = (statistics.median(errors), errors[len(errors) * 9 // 10], errors[-1])
        lines.append(f"| {title} | {len(errors)} | " + " | ".join(f"{figure * 100:.1f} %" for figure in figures) + " |")
    return lines


def check_document(path, groups, is_complete):
    """Whether the table of a document has the rows of the groups that are known."""
    with open(path) as file:
        found = TABLE.search(file.read())
    lines = found[0].splitlines() if found else []
    missing = [line for line in make_table(groups, is_complete) if line not in lines]
    for line in missing:
        print(f"{path}: the table lacks: {line}")
    return not missing


def write_document(path, groups):
    with open(path) as file:
        text = file.read()
    text, count = TABLE.subn(lambda _: "\n".join([*make_table(groups, is_complete=True), ""]), text)
    if count != 1:
        sys.exit(f"{path} has no place for a table: <!-- calibration -->")
    with open(path, "w") as file:
        file.write(text)


def draw(groups):
    """Estimated against measured times, as a figure."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9.5, 6), layout="constrained")
    colors = pyplot.get_cmap("tab20").colors
    for i, (name, points) in enumerate(groups.items()):
        times = [p.ms for p in points], [p.seconds * 1e3 for p in points]
        # There are more groups than colors.
        style = {"color": colors[i % len(colors)], "marker": "o^s"[i // len(colors)]}
        axes.scatter(*times, s=7, label=f"{name} ({len(points)})", **style)
    every = [p.ms for points in groups.values() for p in points]
    ends = [min(every) * 0.9, max(every) * 1.1]
    axes.plot(ends, ends, color="black", linewidth=0.8)
    for bound in (1 - BOUNDS[1], 1 + BOUNDS[1]):
        axes.plot(ends, [end * bound for end in ends], color="gray", linewidth=0.5, linestyle="dashed")
    axes.set(xscale="log", yscale="log", xlabel="measured ms", ylabel="estimated ms")
    axes.set_title(f"{len(every)} times on an NVIDIA H200, and 25 % more and less")
    figure.legend(loc="outside right center", fontsize=7)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opt", required=True, help="attn-opt")
    parser.add_argument("--only", default="", help="only these benchmarks, joined by commas: " + ",".join(GROUPS))
    parser.add_argument("--plot", help="file for a plot")
    parser.add_argument("--document", help="file whose table is written, or with --check compared")
    parser.add_argument("--check", action="store_true", help="fail if errors are larger than the bounds")
    parser.add_argument(
        "--least", type=int, metavar="N", help="only check that choices are within 3 %% of the fastest in N cases"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="print all times that are off by more than the bound of the median"
    )
    parser.add_argument("--device", default=DEFAULT_DEVICE, choices=DEVICES, help="the GPU whose rows are taken")
    parser.add_argument("--calibration", metavar="FILE", help="a calibration file instead of the one of the library")
    parser.add_argument("--fit", metavar="FILE", help="fit the terms of this calibration file, and write it")
    parser.add_argument("--terms", default="", help="fit only these terms, joined by commas")
    parser.add_argument("--steps", type=int, default=3, help="steps of the fit at most")
    options = parser.parse_args()
    Selection.device = options.device
    if options.least is not None:
        return 0 if check_choices(options.opt, options.least) else 1
    names = options.only.split(",") if options.only else list(GROUPS)
    points = [point for name in names for point in GROUPS[name](options.opt)]
    if options.fit:
        names = options.terms.split(",") if options.terms else []
        fit(options.opt, options.fit, points, options.steps, names)
        return 0
    estimate_modules(options.opt, make_modules(options.opt, points), options.calibration)
    groups, is_good = {}, True
    for point in points:
        groups.setdefault(point.group, []).append(point)
    for name, group in groups.items():
        is_good &= print_errors(name, group)
        if options.verbose:
            for point in sorted(group, key=lambda p: -abs(p.error)):
                if abs(point.error) > BOUNDS[0]:
                    print(f"  {point.error:+.1%}: {point.label}, {point.ms:.3f} ms")
    print_errors("all", points)
    is_good &= check_least([point for point in points if not point.passes])
    if options.document and options.check:
        is_good &= check_document(options.document, groups, not options.only)
    elif options.document and options.only:
        sys.exit("--document without --check needs all benchmarks")
    elif options.document:
        write_document(options.document, groups)
    if options.plot:
        figure = draw({name: groups[name] for name in TITLES if name in groups})
        figure.savefig(options.plot, metadata={"Date": None})
    return 0 if is_good or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
