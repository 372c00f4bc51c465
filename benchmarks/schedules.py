#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times schedules that fit, beside the one that the compiler chooses.

    python3 benchmarks/schedules.py --compile BUILD/bin/attn-compile --artifacts DIR [--suite NAME]
    python3 benchmarks/schedules.py --artifacts DIR --runtime BUILD/lib/libattn_runtime.so [--suite NAME] [--out FILE]

The first form compiles the artifacts and needs no GPU; the second needs no compiler. Suites, each of 1024, 4096 and
16384 tokens of 16384 in all:

dense    head dimensions 64 to 256, no mask, a causal one and a causal window of 1024 keys; two or three consumers and
         every key tile that shared memory holds
changes  changes of scores and dropout at head dimensions 64 and 128, without a mask and with a causal one; four tiles
sm_80    kernels for sm_80, masks as of dense, tiles for four and eight warps

Those that would spill registers are left out. Each output is compared with some rows in float64 first, those with
dropout with one another. A row of the results file has the keys of forward.py, and `schedule`, `chosen` and, but for
dense, `suite` and `change`.
"""

import argparse
import dataclasses
import datetime
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from cases import SCORES, Case, make_captures  # noqa: E402
from forward import median_ms  # noqa: E402

LENGTHS = (1024, 4096, 16384)
WINDOW = 1024
ROUNDS = 5
KEY_HEADS = 8
MASKS = {"full": "", "causal": "#attn.causal", "sliding_window_causal": f"#attn.sliding_window<left = {WINDOW - 1}, right = 0>"}
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
                    lazy = ", lazy_rescale = true" if dim >= 192 else ", lazy_rescale = true, delay_rescale = true"
                    # As the compiler walks over windows: several key heads together.
                    interleave = f", interleave = {KEY_HEADS}" if mask == "sliding_window_causal" else ""
                    yield (
                        f"#attn_tile.warp_specialized<query_tile = {rows}, key_tile = {keys}, stages = 2, consumers = {consumers}, "
                        f"ping_pong = true, traversal = {traversal}{interleave}{lazy}, query_stages = {query_stages}>"
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
                    # As the compiler does.
                    lazy = "" if staged or change == "dropout" else ", lazy_rescale = true, delay_rescale = true"
                    schedule = (
                        f"#attn_tile.warp_specialized<query_tile = {rows}, key_tile = {keys}, stages = 2, "
                        f"consumers = {rows // 64}, ping_pong = true, traversal = {traversal}{lazy}, query_stages = {stages}"
                        f"{', score_stages = 2' if staged else ''}>"
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


def get_path(directory, case):
    digits = "".join(c if c.isdigit() else "_" for c in case.schedule)
    return os.path.join(directory, case.name + "." + ("_".join(filter(None, digits.split("_"))) or "chosen") + ".so")


def compile_all(compiler, directory, suite):
    os.makedirs(directory, exist_ok=True)
    target = "sm_80" if suite == "sm_80" else "sm_90a"
    cases = list(SUITES[suite]())
    for i, (_, case) in enumerate(cases):
        path = get_path(directory, case)
        print(f"[{i + 1}/{len(cases)}] {os.path.basename(path)}", file=sys.stderr)
        if os.path.exists(path):
            continue
        source = path[:-3] + ".mlir"
        with open(source, "w") as file:
            file.write(case.mlir())
        strict = ["--fail-on-spills"] if case.schedule else []
        command = [compiler, source, "-o", path, f"--target={target}", *strict]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            lines = [line for line in result.stderr.splitlines() if "error" in line]
            print("  left out:", (lines or ["?"])[0].split("error: ")[-1][:150], file=sys.stderr)
            if not case.schedule:
                sys.exit(result.stderr)


def get_error(torch, case, captures, q, k, v, out, mask):
    """Relative error of some rows."""
    i = torch.linspace(0, q.shape[2] - 1, 48).long().to(q.device)
    b, h = i % q.shape[0], i % q.shape[1]
    scores = torch.einsum("nd,nsd->ns", q[b, h, i].double(), k[b, h].double()) / q.shape[3] ** 0.5
    j = torch.arange(k.shape[2], device=q.device)
    if case.score:
        scores = SCORES[case.score].apply(scores, b[:, None], h[:, None], i[:, None], j[None, :], captures).double()
    distance = i[:, None] - j[None, :]
    if mask != "full":
        scores.masked_fill_(distance < 0, float("-inf"))
    if mask == "sliding_window_causal":
        scores.masked_fill_(distance >= WINDOW, float("-inf"))
    expected = torch.einsum("ns,nsd->nd", scores.softmax(-1), v[b, h].double())
    error = ((out[b, h, i].double() - expected).norm() / expected.norm()).item()
    return error if error == error else float("inf")


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", required=True, help="directory of compiled artifacts")
    parser.add_argument("--compile", metavar="ATTN_COMPILE", help="compile the artifacts with this compiler and stop")
    parser.add_argument("--runtime", default="libattn_runtime.so", help="the runtime library")
    parser.add_argument("--out", help="file to append rows to")
    parser.add_argument("--commit", default="", help="commit that the artifacts were built from")
    parser.add_argument("--suite", default="dense", choices=SUITES, help="what to time")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    if options.compile:
        compile_all(options.compile, options.artifacts, options.suite)
        return 0

    import torch

    from attn.artifact import Artifact

    stamp = dict(
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        device=torch.cuda.get_device_name(0),
        commit=options.commit,
    )
    torch.manual_seed(0)
    random.seed(0)
    groups = {}
    for mask, case in SUITES[options.suite]():
        path = get_path(options.artifacts, case)
        if os.path.exists(path):
            groups.setdefault((mask, case.name), []).append((case, Artifact(path, options.runtime)))
    failures, losses = 0, []
    stream = torch.cuda.current_stream().cuda_stream
    for (mask, name), entries in groups.items():
        for length in LENGTHS:
            first = entries[0][0]
            batch, heads, dim = 16384 // length, first.heads, first.qk_dim
            q, k, v = (torch.randn(batch, heads, length, dim, device="cuda", dtype=torch.bfloat16) for _ in range(3))
            out, lse = torch.empty_like(q), torch.empty(batch, heads, length, device="cuda")
            captures = make_captures(torch, first, batch, length)
            state = [torch.tensor(value, device="cuda") for value in (42, 4)] if first.dropout else []
            runs, expected = [], None
            for case, artifact in entries:
                out.fill_(float("nan"))
                run = artifact[case.name].bind(q, k, v, *captures.values(), *state, out, lse, stream=stream)
                run()
                torch.cuda.synchronize()
                if first.dropout:
                    expected = out.clone() if expected is None else expected
                    error = get_difference(out, expected)
                else:
                    error = get_error(torch, case, captures, q, k, v, out, mask)
                failures += error > 6e-3
                runs.append([case, run, [], error])
            # Several rounds in different orders with pauses, so that the device is as warm for one as for the others.
            for _ in range(options.rounds):
                for entry in random.sample(runs, len(runs)):
                    time.sleep(0.02)
                    entry[2].append(median_ms(torch, entry[1], options.repeats, warmup=1))
            for entry in runs:
                entry[2] = statistics.median(entry[2])
            best = min(runs, key=lambda entry: entry[2])
            losses.append(runs[0][2] / best[2])
            flops = 4 * batch * heads * dim * get_area(mask, length)
            print(
                f"{name:36s} S{length:<6d} chosen {flops / runs[0][2] * 1e-9:6.1f} TF, of {len(runs) - 1} the best "
                f"{flops / best[2] * 1e-9:6.1f} TF ({runs[0][2] / best[2]:.3f}x) {best[0].schedule[10:75]} "
                f"error {max(entry[3] for entry in runs):.1e}",
                flush=True,
            )
            if options.out:
                with open(options.out, "a") as file:
                    for case, _, ms, _ in runs:
                        row = dict(op="attn", mode="fwd", B=batch, H=heads, Hkv=heads, S=length, D=dim, causal=mask != "full", p=0.0, mask=mask)
                        row.update(ms=ms, tflops=flops / ms * 1e-9, schedule=case.schedule, chosen=not case.schedule, **stamp)
                        if options.suite != "dense":
                            change = case.score or ("dropout" if case.dropout else "none")
                            row.update(suite=options.suite, change=change)
                        file.write(json.dumps(row) + "\n")
    within = sum(loss <= 1.03 for loss in losses)
    print(f"{len(losses)} cases, {within} within 3 % of the best, worst {max(losses):.3f}x; {failures} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
