#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times the schedules of linear attention that fit, and the one that the compiler chooses.

    linear_schedules.py --compile build/bin/attn-compile --artifacts DIR [--suite NAME]
    linear_schedules.py --artifacts DIR --runtime libattn_runtime.so [--suite NAME] [--out FILE]

The first form compiles the artifacts and needs no GPU; the second needs no compiler. Suites, all of 16 heads, bf16:

chunks   kernels that go through chunks, without decays and with decays of heads and of tokens, and their gradients:
         chunks of 64 and 128 tokens, one and two CTAs on an SM
pairs    the same for the delta rule and decays of key elements, whose chunks have 64 tokens
few      1 to 64 tokens, with states: one token after the other, and chunks

Outputs and gradients of a case are compared with the results of its first schedule. A row of the results file has the
keys of linear_attention.py, and `schedule`, `chosen` and `suite`.
"""

import dataclasses
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402
import linear_attention as linear  # noqa: E402

HEADS, DIMS = 16, (64, 128)
# Batch entries and tokens of each.
SIZES = ((64, 512), (16, 2048), (8, 4096), (6, 4096), (4, 8192), (2, 16384), (1, 8192), (1, 32768), (1, 131072))
FEW = tuple((batch, tokens) for batch in (1, 16, 64) for tokens in (1, 2, 4, 8, 16, 32, 64))
SMS, SHARED_BYTES, COLUMNS = 132, 226 * 1024, 64
# Relative difference of the results of schedules.
MAX_DIFFERENCE = 1e-2


@dataclasses.dataclass(frozen=True)
class Case:
    """A module: kind and mode as in linear_attention.py, and a schedule, or the compiler's choice if it is empty."""

    kind: str
    mode: str
    dim: int
    schedule: str = ""

    @property
    def name(self):
        return f"{self.kind}_{self.mode}_d{self.dim}"

    @property
    def artifact(self):
        words = re.findall(r"linear_(\w)\w*|(\d+)", self.schedule)
        return f"{self.name}.{''.join(letter or '_' + number for letter, number in words) or 'chosen'}"

    def mlir(self):
        text = linear.module(HEADS, self.dim, self.kind, self.mode)
        return re.sub(r"\bcausal\b", f"causal schedule({self.schedule})", text) if self.schedule else text


def make_chunks_schedule(kind, mode, dim, chunk, ctas):
    """As the compiler makes it; empty where two CTAs have no room for two stages, or registers for all columns."""
    has_gradient = mode == "bwd" and kind == "token"
    # With decays, more of the long chunks forget so much that they need other kernels.
    if kind != "plain" and chunk > 64:
        return ""
    rows = max(dim, chunk)
    loaded = chunk * (2 * rows + COLUMNS) + (chunk + rows) * COLUMNS * has_gradient
    computed = (rows + chunk * (kind != "plain")) * COLUMNS
    room = SHARED_BYTES // ctas // 2
    local = 3 - ctas
    stages = min(4 - ctas, (room - local * computed) // loaded)
    if ctas == 2 and stages < 2:
        return ""
    return (
        f"#attn_tile.linear_warp_specialized<chunk = {chunk}, value_tile = {COLUMNS}, stages = {max(stages, 1)}, "
        f"local_stages = {local}, rows_ahead = {str(kind != 'plain').lower()}, split_work_items = {ctas * SMS}, "
        f"ctas_per_sm = {ctas}>"
    )


def make_pairs_schedules(chosen, kind, dim):
    """The compiler's choice with kernels that go through chunks by one CTA on an SM or two, with all columns or half of
    them, where shared memory has room."""
    has_elements, has_beta, chunk = kind in ("element", "kimi"), linear.has_beta(kind), 64
    loaded = chunk * ((3 if has_beta and has_elements else 2) * dim + COLUMNS + (2 if has_beta else 1) * chunk)
    computed = (dim + (3 if kind == "gated" else 2) * has_beta * chunk) * COLUMNS
    for ctas, columns in ((1, COLUMNS), (1, COLUMNS // 2), (2, COLUMNS), (2, COLUMNS // 2)):
        stages = (SHARED_BYTES // ctas // 2 - (3 - ctas) * computed) // loaded
        # Two CTAs with all columns leave no registers for copies ahead.
        stages = min(stages, 3 if ctas == 1 else 1 if columns == COLUMNS else 2)
        if stages < min(ctas, COLUMNS // columns):
            continue
        chunks = (
            f"#attn_tile.linear_warp_specialized<chunk = {chunk}, value_tile = {columns}, stages = {max(stages, 1)}, "
            f"local_stages = {3 - ctas}, rows_ahead = true, split_work_items = {ctas * SMS}, ctas_per_sm = {ctas}>"
        )
        yield re.sub(r"(?<!\w)chunks = #attn_tile\.\w+<[^>]*>", f"chunks = {chunks}", chosen)


def make_chunks(_):
    for kind in ("plain", "head", "token"):
        for dim in DIMS:
            for mode in linear.MODES:
                case = Case(kind, mode, dim)
                yield case
                for chunk, ctas in ((64, 1), (64, 2), (128, 1)):
                    schedule = make_chunks_schedule(kind, mode, dim, chunk, ctas)
                    if schedule:
                        yield dataclasses.replace(case, schedule=schedule)


def make_pairs(choose):
    for kind in ("element", "delta", "gated", "kimi"):
        for dim in DIMS:
            for mode in linear.MODES:
                case = Case(kind, mode, dim)
                yield case
                for schedule in make_pairs_schedules(choose(case), kind, dim):
                    yield dataclasses.replace(case, schedule=schedule)


def make_few(choose):
    for kind in linear.KINDS:
        for dim in DIMS:
            case = Case(kind, "decode", dim)
            yield case
            for schedule in re.fullmatch(r"#attn.by_query_length<bound = \d+, below = (.*?>), from = (.*)>",
                                         choose(case)).groups():  # fmt: skip
                yield dataclasses.replace(case, schedule=schedule)


SUITES = {"chunks": (make_chunks, SIZES), "pairs": (make_pairs, SIZES), "few": (make_few, FEW)}
CASES = "cases.json"


def find_schedule(compiler, case):
    """The schedule that the compiler chooses."""
    tool = os.path.join(os.path.dirname(compiler), "attn-opt")
    done = subprocess.run([tool, "-", "--attn-choose-schedule=target=sm_90a"], input=case.mlir(),
                                  capture_output=True, text=True)  # fmt: skip
    if done.returncode:
        sys.exit(f"{done.stderr}\nerror: {case.name} has no schedule")
    return re.search(r"schedule\((.*)\) ->", done.stdout)[1]


def compile_all(options):
    """Compiles all cases of a suite, but those with a schedule that does not fit, and lists them in a file."""
    compiler, listed = harness.Compiler(options), []
    make, _ = SUITES[options.suite]
    for case in make(lambda case: find_schedule(options.compile, case)):
        if case in listed or options.only not in case.name:
            continue
        print(case.artifact, file=sys.stderr, flush=True)
        text, flags = case.mlir(), ["--fail-on-spills"] if case.schedule else []
        error = None if compiler.has(case.artifact, text) else compiler.compile(case.artifact, text, "sm_90a", *flags)
        if error and not case.schedule:
            sys.exit(f"{error}\nerror: {case.name} does not compile")
        if error:
            lines = [line for line in error.splitlines() if "error" in line]
            print("  left out:", (lines or [error])[0].split("error: ")[-1][:150], file=sys.stderr)
            continue
        listed.append(case)
    with open(os.path.join(options.artifacts, f"{options.suite}.{CASES}"), "w") as file:
        json.dump([dataclasses.asdict(case) for case in listed], file, indent=1)


def read_cases(options):
    """The cases that were compiled, by name."""
    path, groups = os.path.join(options.artifacts, f"{options.suite}.{CASES}"), {}
    if not os.path.exists(path):
        sys.exit(f"error: there are no artifacts of suite {options.suite} in '{options.artifacts}'")
    with open(path) as file:
        for fields in json.load(file):
            case = Case(**fields)
            groups.setdefault(case.name, []).append(case)
    return groups


@dataclasses.dataclass
class Run:
    """The results of one artifact: its difference to the first one, and milliseconds of each round."""

    case: Case
    call: object
    difference: float
    times: list = dataclasses.field(default_factory=list)

    @property
    def ms(self):
        return statistics.median(self.times)


def measure(torch, options, artifacts, cases, batch, length):
    """Compares and times the schedules of a case, of which the first one is the compiler's choice."""
    first, runs, expected = cases[0], [], None
    inputs = linear.make_inputs(torch, batch, length, HEADS, first.dim, first.kind)
    dout = torch.randn_like(inputs["value"])
    start = torch.randn(batch, HEADS, first.dim, first.dim, device=harness.DEVICE)
    for case in cases:
        state = start.clone() if case.mode == "decode" else None
        function = artifacts.load(case.artifact)["linear_attention"]
        call, filled = linear.prepare_attn(torch, function, inputs, case.mode, dout, state)
        call()
        harness.synchronize(torch)
        results = [tensor.double() for tensor in (*filled, *([] if state is None else [state]))]
        expected = expected or results
        difference = max(linear.find_error(torch, *pair) for pair in zip(results, expected))
        runs.append(Run(case, call, difference))
    # Several rounds in different orders with pauses, so that the device is as warm for one as for the others.
    for _ in range(options.rounds):
        for run in random.sample(runs, len(runs)):
            time.sleep(0.005)
            run.times.append(harness.median_ms(torch, run.call, options.repeats, warmup=1))
    return runs


def record(options, artifacts, rows, runs, batch, length):
    """Adds a row for each schedule, and gives a line with times and the ratio of the choice's time to the best time."""
    first, best = runs[0], min(runs, key=lambda run: run.ms)
    for run in runs:
        case = run.case
        rows.add(artifacts.commit_of(case.artifact), op="attn", mode=case.mode, B=batch, H=HEADS, S=length, D=case.dim,
                 decay=case.kind, ms=run.ms, schedule=case.schedule, chosen=not case.schedule)  # fmt: skip
    text = (f"{first.case.name:18s} {batch:3d} x {length:6d} chosen {first.ms:8.4f} ms, of {len(runs) - 1} the best "
            f"{best.ms:8.4f} ms ({first.ms / best.ms:.3f}x) {best.case.artifact} "
            f"{' '.join(f'{run.ms:.4f}' for run in runs[1:])} difference {max(run.difference for run in runs):.1e}")
    return text, first.ms / best.ms


def main():
    parser = harness.make_parser(__doc__, "repeats", "rounds", "only", "lengths", repeats=5, rounds=3)
    parser.add_argument("--suite", default="chunks", choices=SUITES, help="what to time")
    options = parser.parse_args()
    if options.compile:
        compile_all(options)
        return 0

    import torch

    torch.manual_seed(0)
    random.seed(0)
    rows = harness.Rows(options, harness.describe_device(torch), suite=options.suite)
    artifacts, lengths = harness.Artifacts(options), harness.split_list(options.lengths)
    failures, losses = 0, []
    for name, cases in read_cases(options).items():
        for batch, length in SUITES[options.suite][1]:
            if options.only not in name or (lengths and str(length) not in lengths):
                continue
            runs = measure(torch, options, artifacts, cases, batch, length)
            failures += sum(not run.difference <= MAX_DIFFERENCE for run in runs)
            text, loss = record(options, artifacts, rows, runs, batch, length)
            losses.append(loss)
            print(text, flush=True)
    within = sum(loss <= 1.03 for loss in losses)
    print(f"{len(losses)} cases, {within} within 3 % of the best, worst {max(losses):.3f}x; {failures} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
