#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times tiles of attention and of its gradient on the host, and the choice of the compiler among them.

    python3 benchmarks/host.py --artifacts DIR --compile BUILD/bin/attn-compile
    python3 benchmarks/host.py --artifacts DIR --runtime BUILD/lib/libattn_runtime.so --out rows.jsonl

All run on one thread. A time is the least processor time of several rounds, which take the tiles of a case by turns.
What else runs on a machine slows a core down even then, so that a product of matrices, whose time is known, is timed
before and after: what was measured while that took longer than it can is measured again. Outputs are compared with
float64 first, or gradients with those of the first tile. A row of the results file has the keys of schedules.py, and
`Sq`, the queries, `Dv`, `dtype`, and `cpu`, the option --host-cpu.
"""

import argparse
import dataclasses
import datetime
import json
import os
import random
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from cases import Case  # noqa: E402

WINDOW = 128
MASKS = {
    "full": "",
    "causal": "#attn.causal",
    "sliding_window_causal": f"#attn.sliding_window<left = {WINDOW - 1}, right = 0>",
}
BATCH, HEADS = 1, 2
TILES = tuple((queries, keys) for queries in (4, 16, 32, 64, 128) for keys in (32, 64, 128, 256))
FEW_TILES = tuple((queries, keys) for queries in (16, 64, 128) for keys in (32, 64, 128))
GRAD_TILES = tuple((queries, keys) for queries in (16, 64) for keys in (32, 64, 128))
# Of few queries, tiles that have as many rows, and the smallest of others.
ONE_TILES = (*((1, keys) for keys in (32, 64, 128, 256)), (16, 64))
EIGHT_TILES = (*((8, keys) for keys in (32, 64, 128, 256)), (16, 64))
PACKED_TILES = tuple((queries, keys, "pack_heads = true") for queries in (2, 4) for keys in (32, 64, 128))
OTHER_TILES = ((48, 96), (96, 48), (256, 64), (256, 256), (8, 64), (2, 128), (24, 16), (64, 16))
# Keys and values of a head are not larger than second level caches, beyond which times depend on what else runs.
KEYS = 4096 * 32
ALIBI = "alibi"


@dataclasses.dataclass(frozen=True)
class Kind:
    """Cases of one function: its mask, numbers of queries and keys, tiles, processor and whether it is the gradient."""

    case: Case
    mask: str
    lengths: tuple
    tiles: tuple
    cpu: str = "native"
    is_grad: bool = False

    @property
    def label(self):
        return f"{self.case.name}{'_grad' if self.is_grad else ''}-{self.cpu}-{self.lengths[0][0]}"


def make(dim, mask, lengths, tiles, cpu="native", is_grad=False, kv_heads=HEADS, heads=HEADS, v_dim=0, **more):
    # Fewer queries than keys are a number that is known.
    queries = lengths[0][0] if lengths[0][0] < lengths[0][1] else 0
    case = Case(heads, kv_heads, dim, v_dim or dim, mask=MASKS[mask], queries=queries, **more)
    return Kind(case, mask, lengths, tiles, cpu, is_grad)


def same(*lengths):
    return tuple((length, length) for length in lengths)


# The name that --suite takes, and the cases.
SUITES = {
    "dense": [
        *(make(dim, mask, same(256, 1024), TILES, dtype="f32") for dim in (64, 128) for mask in MASKS),
        *(make(dim, mask, same(1024), TILES, dtype="bf16") for dim in (64, 128) for mask in ("full", "causal")),
        *(make(dim, mask, same(1024), FEW_TILES, dtype="f32") for dim in (32, 96, 256) for mask in ("full", "causal")),
        make(512, "full", same(512), FEW_TILES, dtype="f32"),
        make(72, "full", same(512), FEW_TILES, dtype="f32"),
        make(50, "causal", same(512), FEW_TILES, dtype="f32"),
        make(192, "causal", same(512), FEW_TILES, dtype="bf16", v_dim=128),
        make(64, "full", same(1024), FEW_TILES, dtype="f16"),
        make(64, "causal", same(1024), FEW_TILES, dtype="f32", score=ALIBI),
        make(64, "full", same(1024), FEW_TILES, dtype="f32", score="softcap"),
        make(64, "full", same(40), TILES, dtype="f32"),
    ],
    "avx2": [
        *(
            make(dim, mask, same(1024), FEW_TILES, cpu="x86-64-v3", dtype="f32")
            for dim in (64, 128)
            for mask in ("full", "causal")
        ),
        make(64, "causal", same(1024), FEW_TILES, cpu="x86-64-v3", dtype="bf16"),
        make(256, "full", same(512), FEW_TILES, cpu="x86-64-v3", dtype="f32"),
    ],
    "few": [
        *(
            make(dim, "full", ((1, KEYS // dim),), ONE_TILES, dtype=dtype, heads=8, kv_heads=2)
            for dim in (64, 128)
            for dtype in ("f32", "bf16")
        ),
        make(128, "full", ((8, 1024),), EIGHT_TILES, dtype="f32"),
    ],
    # Rows of a tile are the heads of a group.
    "packed": [
        make(dim, "full", ((1, KEYS // dim),), PACKED_TILES, dtype="f32", heads=8, kv_heads=2) for dim in (64, 128)
    ],
    # Tiles that the model was not fitted to.
    "other": [
        *(make(dim, mask, same(768), OTHER_TILES, dtype="f32") for dim in (64, 128) for mask in ("full", "causal")),
        make(40, "full", same(768), OTHER_TILES, dtype="f32"),
        make(64, "causal", same(768), OTHER_TILES, dtype="f16"),
        make(80, "causal", same(768), OTHER_TILES, cpu="x86-64-v3", dtype="f32"),
    ],
    "gradients": [
        *(
            make(dim, mask, same(512), GRAD_TILES, is_grad=True, dtype="f32")
            for dim in (64, 128)
            for mask in ("full", "causal")
        ),
        make(64, "causal", same(512), GRAD_TILES, is_grad=True, dtype="bf16"),
        make(32, "full", same(512), GRAD_TILES, is_grad=True, dtype="f32"),
        make(256, "full", same(256), GRAD_TILES, is_grad=True, dtype="f32"),
        make(64, "full", same(512), GRAD_TILES, cpu="x86-64-v3", is_grad=True, dtype="f32"),
    ],
}


def get_variants(kind):
    """The case with the schedule that the compiler chooses, and with each tile."""
    yield kind.case
    for queries, keys, *more in kind.tiles:
        options = "".join(f", {option}" for option in more)
        schedule = f"#attn_tile.sequential<query_tile = {queries}, key_tile = {keys}{options}>"
        yield dataclasses.replace(kind.case, schedule=schedule)


def get_path(directory, kind, case):
    tiles = "x".join(re.findall(r"_tile = (\d+)", case.schedule)) + ("packed" if "pack_heads" in case.schedule else "")
    return os.path.join(directory, f"{kind.label}.{tiles or 'chosen'}.so")


def compile_all(options):
    os.makedirs(options.artifacts, exist_ok=True)
    for kind in SUITES[options.suite]:
        for case in get_variants(kind):
            path = get_path(options.artifacts, kind, case)
            if os.path.exists(path):
                continue
            source = path[:-3] + ".mlir"
            with open(source, "w") as file:
                file.write(case.grad_mlir() if kind.is_grad else case.mlir())
            command = [options.compile, source, "-o", path, "--target=host", f"--host-cpu={kind.cpu}"]
            print(os.path.basename(path), file=sys.stderr)
            subprocess.run(command, check=True)


def get_allowed(torch, mask, queries, keys):
    i = torch.arange(queries)[:, None]
    j = torch.arange(keys)[None, :]
    allowed = torch.ones(queries, keys, dtype=torch.bool)
    if mask != "full":
        allowed &= i >= j
    if mask == "sliding_window_causal":
        allowed &= i - j < WINDOW
    return allowed


def get_expected(torch, kind, captures, q, k, v):
    from cases import SCORES

    group = q.shape[1] // k.shape[1]
    k, v = (x.double().repeat_interleave(group, 1) for x in (k, v))
    scores = q.double() @ k.transpose(2, 3) / q.shape[3] ** 0.5
    if kind.case.score:
        h, i, j = (torch.arange(n) for n in scores.shape[1:])
        scores = SCORES[kind.case.score].apply(scores, 0, h[:, None, None], i[:, None], j, captures)
    scores = scores.masked_fill(~get_allowed(torch, kind.mask, q.shape[2], k.shape[2]), float("-inf"))
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def get_error(out, expected):
    error = ((out.double() - expected.double()).norm() / expected.double().norm()).item()
    return error if error == error else float("inf")


class QuietCore:
    """Times what runs while nothing else slows down the core."""

    TRIES = 12
    SLOWER = 1.04

    def __init__(self, torch):
        self.a, self.b = torch.randn(2, 128, 128)
        self.product = torch.mm
        self.least = min(self.get_pace() for _ in range(2000))

    def get_pace(self):
        begin = time.process_time()
        self.product(self.a, self.b)
        return time.process_time() - begin

    def is_quiet(self):
        pace = min(self.get_pace() for _ in range(3))
        self.least = min(self.least, pace)
        return pace <= self.SLOWER * self.least

    def time(self, run):
        """The processor time of `run` in seconds: of the first try that nothing has slowed down, or of the fastest."""
        seconds = []
        for _ in range(self.TRIES):
            was_quiet = self.is_quiet()
            begin = time.process_time()
            run()
            seconds.append(time.process_time() - begin)
            if was_quiet and self.is_quiet():
                return seconds[-1]
        return min(seconds)


def get_cpu_name():
    with open("/proc/cpuinfo") as file:
        found = dict(re.findall(r"^(model name|cpu family|model)\s*: (.*)$", file.read(), re.M))
    return f"{found['model name']}, family {found['cpu family']}, model {found['model']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", required=True, help="directory of compiled artifacts")
    parser.add_argument("--compile", metavar="ATTN_COMPILE", help="compile the artifacts with this compiler and stop")
    parser.add_argument("--runtime", default="libattn_runtime.so", help="the runtime library")
    parser.add_argument("--out", help="file to append rows to")
    parser.add_argument("--commit", default="", help="commit that the artifacts were built from")
    parser.add_argument("--suite", default="dense", choices=SUITES, help="what to time")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if options.compile:
        compile_all(options)
        return 0

    os.environ["ATTN_NUM_THREADS"] = "1"
    import torch

    from attn.artifact import Artifact

    torch.set_num_threads(1)
    stamp = dict(
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        device=get_cpu_name(),
        commit=options.commit,
    )
    torch.manual_seed(0)
    random.seed(0)
    quiet = QuietCore(torch)
    dtypes = {"f32": (torch.float32, 1e-5), "bf16": (torch.bfloat16, 1e-2), "f16": (torch.float16, 2e-3)}
    failures, losses = 0, []
    for kind in SUITES[options.suite]:
        base = kind.case
        dtype, tolerance = dtypes[base.dtype]
        for queries, keys in kind.lengths:
            q = torch.randn(BATCH, base.heads, queries, base.qk_dim).to(dtype)
            k = torch.randn(BATCH, base.kv_heads, keys, base.qk_dim).to(dtype)
            v = torch.randn(BATCH, base.kv_heads, keys, base.v_dim).to(dtype)
            captures = {"slopes": torch.exp2(-torch.arange(1.0, base.heads + 1))} if base.score == ALIBI else {}
            expected, expected_lse = get_expected(torch, kind, captures, q, k, v)
            if kind.is_grad:
                dout = torch.randn(*expected.shape).to(dtype)
                inputs = [q, k, v, expected.to(dtype), expected_lse.float(), dout]
                outputs = [torch.empty_like(x) for x in (q, k, v)]
            else:
                inputs = [q, k, v, *captures.values()]
                outputs = [torch.empty(*expected.shape, dtype=dtype), torch.empty(*expected.shape[:3])]
            runs, first = [], None
            for case in get_variants(kind):
                path = get_path(options.artifacts, kind, case)
                run = Artifact(path, options.runtime)[case.name].bind(*inputs, *outputs)
                for x in outputs:
                    x.fill_(float("nan"))
                run()
                if kind.is_grad:
                    first = first or [x.clone() for x in outputs]
                    error = max(get_error(*pair) for pair in zip(outputs, first))
                else:
                    error = get_error(outputs[0], expected)
                failures += error > tolerance
                runs.append([case, run, float("inf"), error])
            # Short calls are repeated, as clocks tick slowly.
            begin = time.process_time()
            runs[-1][1]()
            repeats = max(1, round(5e-3 / max(time.process_time() - begin, 1e-6)))
            for _ in range(options.rounds):
                for entry in random.sample(runs, len(runs)):
                    entry[2] = min(entry[2], quiet.time(lambda: [entry[1]() for _ in range(repeats)]) / repeats * 1e3)
            best = min(runs, key=lambda entry: entry[2])
            losses.append(runs[0][2] / best[2])
            print(
                f"{kind.label:40s} {queries} x {keys}: chosen {runs[0][2]:8.3f} ms, of {len(runs) - 1} the best "
                f"{best[2]:8.3f} ms "
                f"({losses[-1]:.3f}x) {'x'.join(re.findall('_tile = ([0-9]+)', best[0].schedule))} "
                f"error {max(entry[3] for entry in runs):.1e}",
                flush=True,
            )
            if options.out:
                with open(options.out, "a") as file:
                    for case, _, ms, _ in runs:
                        mode = "bwd" if kind.is_grad else "fwd"
                        row = dict(op="attn", mode=mode, B=BATCH, H=base.heads, Hkv=base.kv_heads)
                        row.update(S=keys, Sq=queries, D=base.qk_dim, Dv=base.v_dim, dtype=base.dtype)
                        row.update(mask=kind.mask, p=0.0)
                        row.update(causal=kind.mask != "full", ms=ms, schedule=case.schedule, chosen=not case.schedule)
                        row.update(suite=options.suite, change=base.score or "none", cpu=kind.cpu, **stamp)
                        file.write(json.dumps(row) + "\n")
    within = sum(loss <= 1.03 for loss in losses)
    print(f"{len(losses)} cases, {within} within 3 % of the best, worst {max(losses):.3f}x; {failures} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
