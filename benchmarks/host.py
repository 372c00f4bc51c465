#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times tiles of attention and of its gradient on the host, and the choice of the compiler among them.

    python3 benchmarks/host.py --artifacts DIR --compile BUILD/bin/attn-compile
    python3 benchmarks/host.py --artifacts DIR --runtime BUILD/lib/libattn_runtime.so --out rows.jsonl

All run on one thread. A time is the least processor time of several rounds over the tiles of a case. Even then, other
programs of the machine slow a core down. So a matmul of known time is timed before and after; if it takes longer than
it can, the measurement is repeated. Outputs are compared with float64 first; gradients are compared with the gradients
of the first tile. A row of the results file has the keys of schedules.py, and `Sq`, the queries, `Dv`, `dtype`, and
`cpu`, the option --host-cpu.
"""

import dataclasses
import os
import random
import re
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402
from cases import SCORES, Case  # noqa: E402

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
# For few queries, tiles with as many rows, and the smallest of the others.
ONE_TILES = (*((1, keys) for keys in (32, 64, 128, 256)), (16, 64))
EIGHT_TILES = (*((8, keys) for keys in (32, 64, 128, 256)), (16, 64))
FRAGMENT_TILES = tuple((queries, keys, "pack_gqa = true") for queries in (2, 4) for keys in (32, 64, 128))
OTHER_TILES = ((48, 96), (96, 48), (256, 64), (256, 256), (8, 64), (2, 128), (24, 16), (64, 16))
# Keys and values of a head fit into L2. If they did not, times would depend on other programs of the machine.
KEYS = 4096 * 32
ALIBI = "alibi"
# torch's name of each dtype, and the error that is allowed.
DTYPES = {"f32": ("float32", 1e-5), "bf16": ("bfloat16", 1e-2), "f16": ("float16", 2e-3)}


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
    # Where there are fewer queries than keys, their number is static.
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
        make(dim, "full", ((1, KEYS // dim),), FRAGMENT_TILES, dtype="f32", heads=8, kv_heads=2) for dim in (64, 128)
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


def get_artifact(kind, case):
    """The name of the artifact: the case, and the tile or "chosen"."""
    tiles = "x".join(re.findall(r"_tile = (\d+)", case.schedule)) + ("packed" if "pack_gqa" in case.schedule else "")
    return f"{kind.label}.{tiles or 'chosen'}"


def compile_all(options):
    """Compiles all cases of a suite."""
    compiler = harness.Compiler(options)
    for kind in SUITES[options.suite]:
        for case in get_variants(kind):
            name, text = get_artifact(kind, case), case.grad_mlir() if kind.is_grad else case.mlir()
            if compiler.has(name, text):
                continue
            print(name, file=sys.stderr, flush=True)
            error = compiler.compile(name, text, "host", f"--host-cpu={kind.cpu}")
            if error:
                sys.exit(f"{error}\nerror: {name} does not compile")


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
    """Times calls while nothing else slows down the core."""

    TRIES = 12
    SLOWER = 1.04

    def __init__(self, torch):
        self.a, self.b = torch.randn(2, 128, 128)
        self.product = torch.mm
        self.least = min(self.get_throughput_hint() for _ in range(2000))

    def get_throughput_hint(self):
        begin = time.process_time()
        self.product(self.a, self.b)
        return time.process_time() - begin

    def is_quiet(self):
        pace = min(self.get_throughput_hint() for _ in range(3))
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


def make_parser():
    parser = harness.make_parser(__doc__, "rounds", rounds=9)
    parser.add_argument("--suite", default="dense", choices=SUITES, help="what to time")
    return parser


@dataclasses.dataclass
class Run:
    """The results of one artifact: its error, and the least milliseconds of the rounds."""

    case: Case
    call: object
    error: float
    ms: float = float("inf")


def make_inputs(torch, kind, queries, keys):
    """Inputs, outputs, and the expected output in float64, which gradients do not have."""
    base = kind.case
    dtype = getattr(torch, DTYPES[base.dtype][0])
    q = torch.randn(BATCH, base.heads, queries, base.qk_dim).to(dtype)
    k = torch.randn(BATCH, base.kv_heads, keys, base.qk_dim).to(dtype)
    v = torch.randn(BATCH, base.kv_heads, keys, base.v_dim).to(dtype)
    captures = {"slopes": torch.exp2(-torch.arange(1.0, base.heads + 1))} if base.score == ALIBI else {}
    expected, expected_lse = get_expected(torch, kind, captures, q, k, v)
    if kind.is_grad:
        dout = torch.randn(*expected.shape).to(dtype)
        inputs = [q, k, v, expected.to(dtype), expected_lse.float(), dout]
        return inputs, [torch.empty_like(x) for x in (q, k, v)], None
    outputs = [torch.empty(*expected.shape, dtype=dtype), torch.empty(*expected.shape[:3])]
    return [q, k, v, *captures.values()], outputs, expected


def measure(torch, options, artifacts, quiet, kind, queries, keys):
    """Checks and times the tiles of a case, of which the first one is the compiler's choice."""
    inputs, outputs, expected = make_inputs(torch, kind, queries, keys)
    runs, first = [], None
    for case in get_variants(kind):
        call = artifacts.load(get_artifact(kind, case))[case.name].bind(*inputs, *outputs)
        for x in outputs:
            x.fill_(float("nan"))
        call()
        if kind.is_grad:
            first = first or [x.clone() for x in outputs]
            error = max(get_error(*pair) for pair in zip(outputs, first))
        else:
            error = get_error(outputs[0], expected)
        runs.append(Run(case, call, error))
    # Short calls are repeated: the clock of processor time is coarse.
    begin = time.process_time()
    runs[-1].call()
    repeats = max(1, round(5e-3 / max(time.process_time() - begin, 1e-6)))
    for _ in range(options.rounds):
        for run in random.sample(runs, len(runs)):
            run.ms = min(run.ms, quiet.time(lambda: [run.call() for _ in range(repeats)]) / repeats * 1e3)
    return runs


def record(options, artifacts, rows, runs, kind, queries, keys):
    """Adds a row for each tile, and gives a line with the rows and the ratio of the choice's time to the best time."""
    base, first, best = kind.case, runs[0], min(runs, key=lambda run: run.ms)
    for run in runs:
        rows.add(artifacts.commit_of(get_artifact(kind, run.case)), op="attn", mode="bwd" if kind.is_grad else "fwd",
                 B=BATCH, H=base.heads, Hkv=base.kv_heads, S=keys, Sq=queries, D=base.qk_dim, Dv=base.v_dim,
                 dtype=base.dtype, mask=kind.mask, p=0.0, causal=kind.mask != "full", ms=run.ms,
                 schedule=run.case.schedule, chosen=not run.case.schedule, suite=options.suite,
                 change=base.score or "none", cpu=kind.cpu)
    tile = "x".join(re.findall("_tile = ([0-9]+)", best.case.schedule))
    text = (f"{kind.label:40s} {queries} x {keys}: chosen {first.ms:8.3f} ms, of {len(runs) - 1} the best "
            f"{best.ms:8.3f} ms ({first.ms / best.ms:.3f}x) {tile} error {max(run.error for run in runs):.1e}")
    return text, first.ms / best.ms


def main():
    options = make_parser().parse_args()
    if options.compile:
        compile_all(options)
        return 0

    os.environ["ATTN_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    quiet, artifacts = QuietCore(torch), harness.Artifacts(options)
    rows = harness.Rows(options, get_cpu_name())
    failures, losses = 0, []
    for kind in SUITES[options.suite]:
        for queries, keys in kind.lengths:
            runs = measure(torch, options, artifacts, quiet, kind, queries, keys)
            failures += sum(not run.error <= DTYPES[kind.case.dtype][1] for run in runs)
            text, loss = record(options, artifacts, rows, runs, kind, queries, keys)
            losses.append(loss)
            print(text, flush=True)
    within = sum(loss <= 1.03 for loss in losses)
    print(f"{len(losses)} cases, {within} within 3 % of the best, worst {max(losses):.3f}x; {failures} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
