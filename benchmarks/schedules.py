#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times the schedules that fit, and the one that the compiler chooses.

    python3 benchmarks/schedules.py --compile BUILD/bin/attn-compile --artifacts DIR [--suite NAME]
    python3 benchmarks/schedules.py --artifacts DIR --runtime BUILD/lib/libattn_runtime.so [--suite NAME] [--out FILE]

The first form compiles the artifacts and needs no GPU; the second needs no compiler. Suites, each of 1024, 4096 and
16384 tokens of 16384 in all:

dense    head dimensions 64 to 256, no mask, a causal one and a causal window of 1024 keys; two or three consumers and
         every key tile that shared memory holds
changes  score_mods and dropout at head dimensions 64 and 128, without a mask and with a causal one; four tiles
sm_80    kernels for sm_80, masks as of dense, tiles for four and eight warps

Schedules that would spill registers are left out. Each output is first compared with some rows in float64; outputs with
dropout are compared with one another. A row of the results file has the keys of forward.py, and `schedule`, `chosen`
and, but for dense, `suite` and `change`.
"""

import dataclasses
import os
import random
import re
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402
from cases import SCORES, Case, make_captures  # noqa: E402

LENGTHS = (1024, 4096, 16384)
WINDOW = 1024
ROUNDS = 5
KEY_HEADS = 8
MASKS = {
    "full": "",
    "causal": "#attn.causal",
    "sliding_window_causal": f"#attn.sliding_window<left = {WINDOW - 1}, right = 0>",
}
SHARED_BYTES = 226 * 1024


def align(value, step):
    return -(-value // step) * step


def candidates(dim, mask):
    """Schedules whose stages fit in shared memory."""
    channels = align(dim, 64)
    traversal = "paired" if mask == "causal" else "persistent"
    for consumers in (2, 3):
        rows = 64 * consumers
        for keys in range(64, 209, 16):
            for query_stages in (2, 1):
                if 2 * (query_stages * rows * channels + 2 * keys * 2 * channels) <= SHARED_BYTES:
                    lazy = (
                        ", conditional_rescale = true"
                        if dim >= 192
                        else ", conditional_rescale = true, deferred_rescale = true"
                    )
                    # As in the compiler's iteration over windows: several key/value heads together.
                    interleave = f", interleave = {KEY_HEADS}" if mask == "sliding_window_causal" else ""
                    yield (
                        f"#attn_tile.warp_specialized<query_tile = {rows}, key_tile = {keys}, stages = 2, "
                        f"consumers = {consumers}, ping_pong = true, traversal = {traversal}{interleave}{lazy}, "
                        f"query_stages = {query_stages}>"
                    )
                    break


DROPOUT = "#attn.dropout<p = 0.125, rng = #attn.arx<rounds = 6>>"
CHANGES = ("softcap", "alibi", "table", "full_bias", "dropout")
# Rows and keys of a tile, by head dimension and whether there is a mask; of biases that are staged.
CHANGE_TILES = {
    (64, False): ((192, 128), (192, 96), (128, 128), (128, 192)),
    (64, True): ((192, 128), (192, 96), (128, 128), (128, 96)),
    (128, False): ((128, 176), (128, 144), (128, 128), (128, 96)),
    (128, True): ((128, 144), (128, 128), (128, 112), (128, 96)),
}
STAGED_TILES = {64: ((192, 96), (128, 128), (128, 96), (128, 64)), 128: ((128, 128), (128, 112), (128, 96), (128, 64))}
# Rows, keys and warps, by head dimension.
SM_80_TILES = {
    64: ((128, 48, 4), (128, 64, 4), (128, 80, 4), (128, 64, 8), (128, 128, 8), (64, 64, 4)),
    96: ((128, 48, 4), (128, 64, 4), (128, 64, 8), (128, 96, 8), (128, 128, 8), (64, 64, 4)),
    128: ((128, 32, 4), (128, 48, 4), (128, 64, 8), (128, 96, 8), (128, 128, 8), (64, 64, 4)),
    256: ((128, 32, 8), (128, 48, 8), (64, 32, 4), (64, 64, 4)),
}


def make_dense():
    for dim in (64, 96, 128, 192, 256):
        for mask, attribute in MASKS.items():
            case = Case(2048 // dim, 2048 // dim, dim, dim, mask=attribute)
            yield mask, case
            for schedule in candidates(dim, mask):
                yield mask, dataclasses.replace(case, schedule=schedule)


def make_changes():
    for change in CHANGES:
        for dim in (64, 128):
            for mask in ("full", "causal"):
                kind = dict(dropout=DROPOUT) if change == "dropout" else dict(score=change)
                case = Case(2048 // dim, 2048 // dim, dim, dim, mask=MASKS[mask], **kind)
                yield mask, case
                staged = change == "full_bias"
                for rows, keys in STAGED_TILES[dim] if staged else CHANGE_TILES[dim, mask == "causal"]:
                    addends = staged * 4 * rows * align(keys, 64)
                    stages = 2 if 2 * dim * (2 * rows + 4 * keys) + addends <= SHARED_BYTES else 1
                    traversal = "paired" if mask == "causal" else "persistent"
                    # As in the compiler's choices.
                    lazy = (
                        "" if staged or change == "dropout" else ", conditional_rescale = true, deferred_rescale = true"
                    )
                    schedule = (
                        f"#attn_tile.warp_specialized<query_tile = {rows}, key_tile = {keys}, stages = 2, "
                        f"consumers = {rows // 64}, ping_pong = true, traversal = {traversal}{lazy}, "
                        f"query_stages = {stages}{', score_stages = 2' if staged else ''}>"
                    )
                    yield mask, dataclasses.replace(case, schedule=schedule)


def make_sm_80():
    for dim, tiles in SM_80_TILES.items():
        for mask, attribute in MASKS.items():
            case = Case(2048 // dim, 2048 // dim, dim, dim, mask=attribute)
            yield mask, case
            for rows, keys, warps in tiles:
                schedule = f"#attn_tile.multistage<query_tile = {rows}, key_tile = {keys}, stages = 2, warps = {warps}>"
                yield mask, dataclasses.replace(case, schedule=schedule)


# (mask's name, case) with the schedule that the compiler chooses, and then with each candidate.
SUITES = {"dense": make_dense, "changes": make_changes, "sm_80": make_sm_80}


def get_tiles(schedule):
    """Queries and keys of a tile, and warps if a schedule has a number of them."""
    found = (re.search(rf"\b{key} = (\d+)", schedule) for key in ("query_tile", "key_tile", "warps"))
    return tuple(int(match[1]) for match in found if match)


def get_artifact(case):
    """The name of the artifact: the numbers of the schedule, or "chosen"."""
    return f"{case.name}.{'_'.join(re.findall('[0-9]+', case.schedule)) or 'chosen'}"


def get_target(suite):
    return harness.OPTIONS["target"]["default"] if suite != "sm_80" else "sm_80"


def compile_all(options):
    """Compiles all cases of a suite, but those with a schedule that does not fit."""
    compiler, cases = harness.Compiler(options), list(SUITES[options.suite]())
    for number, (_, case) in enumerate(cases):
        name, text = get_artifact(case), case.mlir()
        print(f"[{number + 1}/{len(cases)}] {name}", file=sys.stderr, flush=True)
        if compiler.has(name, text):
            continue
        flags = ["--fail-on-spills"] if case.schedule else []
        error = compiler.compile(name, text, get_target(options.suite), *flags)
        if error and not case.schedule:
            sys.exit(f"{error}\nerror: {name} does not compile")
        if error:
            lines = [line for line in error.splitlines() if "error" in line]
            print("  left out:", (lines or [error])[0].split("error: ")[-1][:150], file=sys.stderr)


def get_mask_mod(mask):
    """mask_mod of positions, or None for all pairs."""
    return {
        "full": None,
        "causal": lambda i, j: i >= j,
        "sliding_window_causal": lambda i, j: (i >= j) & (i - j < WINDOW),
    }[mask]


def get_difference(out, first):
    """Relative difference of all rows."""
    error = ((out.float() - first.float()).norm() / first.float().norm()).item()
    return error if error == error else float("inf")


def get_area(mask, length):
    if mask == "full":
        return length * length
    if mask == "causal":
        return length * length / 2
    return sum(min(i + 1, WINDOW) for i in range(length))


def make_parser():
    parser = harness.make_parser(__doc__, "repeats", "rounds", repeats=5, rounds=ROUNDS)
    parser.add_argument("--suite", default="dense", choices=SUITES, help="what to time")
    return parser


@dataclasses.dataclass
class Run:
    """The results of one artifact: its error, and milliseconds of each round."""

    case: Case
    call: object
    error: float
    times: list = dataclasses.field(default_factory=list)

    @property
    def ms(self):
        return statistics.median(self.times)


def make_problem(torch, case, mask, batch, length):
    """Random inputs, and the further arguments of the functions."""
    q, k, v = (torch.randn(batch, case.heads, length, case.qk_dim, device=harness.DEVICE, dtype=torch.bfloat16)
               for _ in range(3))
    captures = make_captures(torch, case, batch, length)
    state = [torch.tensor(value, device=harness.DEVICE) for value in (42, 4)] if case.dropout else []
    problem = harness.Problem(q, k, v, mask_mod=get_mask_mod(mask))
    if case.score:
        problem.score_mod = lambda s, b, h, i, j: SCORES[case.score].apply(s, b, h, i, j, captures).double()
    return problem, [*captures.values(), *state]


def measure(torch, options, artifacts, cases, mask, length):
    """Checks and times the schedules of a case, of which the first one is the compiler's choice."""
    batch, first = 16384 // length, cases[0]
    problem, more = make_problem(torch, first, mask, batch, length)
    out, lse = torch.empty_like(problem.q), torch.empty(batch, first.heads, length, device=harness.DEVICE)
    runs, expected = [], None
    for case in cases:
        out.fill_(float("nan"))
        function = artifacts.load(get_artifact(case))[case.name]
        call = function.bind(problem.q, problem.k, problem.v, *more, out, lse, stream=harness.get_stream(torch))
        call()
        harness.synchronize(torch)
        # Outputs with dropout are compared with the first schedule's.
        if first.dropout:
            expected = out.clone() if expected is None else expected
            error = get_difference(out, expected)
        else:
            error = harness.check_forward(problem, out, lse, count=48)[0]
        runs.append(Run(case, call, error))
    # Several rounds in different orders with pauses, so that the device is as warm for one as for the others.
    for _ in range(options.rounds):
        for run in random.sample(runs, len(runs)):
            time.sleep(0.02)
            run.times.append(harness.median_ms(torch, run.call, options.repeats, warmup=1))
    return runs


def record(options, artifacts, rows, runs, mask, length):
    """Adds a row for each schedule, and gives a line with the rows and the ratio of the choice's time to the best
    time."""
    first, best = runs[0], min(runs, key=lambda run: run.ms)
    case, batch = first.case, 16384 // length
    flops = 4 * batch * case.heads * case.qk_dim * get_area(mask, length)
    for run in runs:
        fields = dict(op="attn", mode="fwd", B=batch, H=case.heads, Hkv=case.heads, S=length, D=case.qk_dim,
                      causal=mask != "full", p=0.0, mask=mask, ms=run.ms, tflops=flops / run.ms * 1e-9,
                      schedule=run.case.schedule, chosen=not run.case.schedule)
        if options.suite != "dense":
            fields.update(suite=options.suite, change=case.score or ("dropout" if case.dropout else "none"))
        rows.add(artifacts.commit_of(get_artifact(run.case)), **fields)
    text = (f"{case.name:36s} S{length:<6d} chosen {flops / first.ms * 1e-9:6.1f} TF, of {len(runs) - 1} the best "
            f"{flops / best.ms * 1e-9:6.1f} TF ({first.ms / best.ms:.3f}x) {best.case.schedule[10:75]} "
            f"error {max(run.error for run in runs):.1e}")
    return text, first.ms / best.ms


def main():
    options = make_parser().parse_args()
    if options.compile:
        compile_all(options)
        return 0

    import torch

    torch.manual_seed(0)
    random.seed(0)
    rows, artifacts = harness.Rows(options, harness.describe_device(torch)), harness.Artifacts(options)
    groups = {}
    for mask, case in SUITES[options.suite]():
        if get_artifact(case) in artifacts:
            groups.setdefault((mask, case.name), []).append(case)
    failures, losses = 0, []
    for (mask, _), cases in groups.items():
        for length in LENGTHS:
            runs = measure(torch, options, artifacts, cases, mask, length)
            failures += sum(not run.error <= harness.MAX_ERROR for run in runs)
            text, loss = record(options, artifacts, rows, runs, mask, length)
            losses.append(loss)
            print(text, flush=True)
    if not losses:
        sys.exit(f"error: there are no artifacts of suite {options.suite} in '{options.artifacts}'")
    within = sum(loss <= 1.03 for loss in losses)
    print(f"{len(losses)} cases, {within} within 3 % of the best, worst {max(losses):.3f}x; {failures} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
