#!/usr/bin/env python3
# ===- sequences.py - Sequences of different lengths on the GPU ----------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compares packed and padded sequences with attention.py's formula in f64, one sequence at a time.

    sequences.py --compile build/bin/attn-compile --artifacts DIR
    sequences.py --artifacts DIR --runtime libattn_runtime.so
    compute-sanitizer sequences.py --artifacts DIR --sanitizer-subset

What belongs to no sequence holds NaN and must neither matter nor change, nor may infinities of one sequence reach
another. Boundaries that are not valid are reported by the next call, and nothing is written.
"""

import ctypes
import random
import re
import sys
from dataclasses import dataclass
from functools import partial

import attention
from attention import Case, Variant, compile_artifacts, name_heads
from device_suite import load, run_subset_suite

#: The subject of the rows that --record writes.
SUBJECT = "packed and padded sequences"


@dataclass(frozen=True)
class Sequences(Variant):
    """A function whose lengths are given as packed boundaries or padded lengths."""

    form: str = "packed"

    @property
    def name(self) -> str:
        return f"{self.form}_{super().name}"

    def mlir(self) -> str:
        text = super().mlir()
        if self.form == "packed":
            text = re.sub(r"tensor<\?x(\d+)x\?x", r"tensor<1x\1x?x", text)
            text = text.replace("tensor.empty(%batch, %length)", "tensor.empty(%length)")
        kind = "tensor<?xi32>"
        text = text.replace(") -> (", f", %sq: {kind}, %sk: {kind}) -> (", 1)
        end = text.index(")", text.index("outs("))
        return text[: end + 1] + f" sequences {self.form}(%sq, %sk : {kind}, {kind})" + text[end + 1 :]


def variant(form, qk_dim, v_dim=None, heads=(2, 2), **rest):
    return Sequences(qk_dim, v_dim or qk_dim, **name_heads(heads), form=form, **rest)


VARIANTS = [
    variant("packed", 128, heads=(8, 2), mask="causal"),
    variant("packed", 128),
    variant("packed", 64, dtype="f16"),
    variant("packed", 64, mask="causal", heads=(6, 1), lse=False),
    variant("packed", 256, mask="causal"),
    variant("packed", 72, 40, mask="window_both"),
    variant("packed", 128, mask="window", out="f32"),
    variant("packed", 128, mask="causal", score="alibi"),
    variant("packed", 128, mask="causal", keep="docs"),
    variant("packed", 64, mask="causal", schedule=(1, 128, 2, False, "grid", 1)),
    variant("packed", 64, mask="causal", schedule=(2, 128, 2, True, "paired", 1)),
    variant("packed", 64, schedule=(3, 128, 2, True, "persistent", 0)),
    variant("padded", 128, heads=(8, 2), mask="causal"),
    variant("padded", 64),
    variant("padded", 192, 128, mask="causal_tl", dtype="f16"),
    variant("packed", 576, 512, heads=(4, 1), mask="causal"),
    variant("packed", 512, dtype="f16", score="alibi"),
    variant("padded", 320, mask="causal"),
    variant("packed", 128, heads=(12, 3, 6), mask="causal"),
    variant("padded", 64, heads=(12, 12, 4), mask="causal"),
]


def make_lengths():
    rng = random.Random(7)
    some = [1, 2, 63, 64, 65, 127, 128, 129, 191, 300]
    return {
        "edges": [(127, 127), (128, 128), (129, 129), (1, 1), (1, 300), (0, 5), (5, 0), (33, 77), (0, 0)],
        "one": [(1000, 1000)],
        "uneven": [(2000, 1900), (64, 64), (1, 1), (700, 900), (3, 2500)],
        "many": [(rng.choice(some), rng.choice(some)) for _ in range(150)],
        "none": [],
        "empty": [(0, 0), (0, 3)],
    }


class Batch:
    """Where sequences are stored, with rows between them that belong to none."""

    def __init__(self, form, lengths, gap):
        self.count = len(lengths)
        queries, keys = zip(*lengths) if lengths else ((), ())
        self.sizes, self.entries, self.rows = [], [], []
        self.batches = 1 if form == "packed" else len(lengths)
        for values in (queries, keys):
            if form == "packed":
                bounds = [gap]
                for n in values:
                    bounds.append(bounds[-1] + n)
                self.sizes.append(bounds[-1] + gap)
                self.entries.append(bounds)
                self.rows.append([(0, first, n) for first, n in zip(bounds, values)])
            else:
                self.sizes.append(max(values, default=0) + gap)
                self.entries.append(list(values))
                self.rows.append([(s, 0, n) for s, n in enumerate(values)])


def take(tensor, row):
    entry, first, count = row
    return tensor[entry : entry + 1, :, first : first + count]


def check_sequence(torch, case, inputs, captures, out, lse):
    """What is wrong with the rows of one sequence."""
    v = case.variant
    heads = torch.arange(v.heads, device="cuda")
    rows = torch.arange(case.queries, device="cuda")
    exact, exact_lse, spread = attention.attention(torch, case, *inputs, captures, heads, rows, True)
    out = out.double()
    allowed = 2 * v.rounding * (spread + exact.norm(dim=-1)) + 1e-6
    ratio = (out - exact).norm(dim=-1) / allowed
    if not ratio.max().item() <= 1:
        where = (~(ratio <= 1)).nonzero()
        return f"{len(where)} rows are wrong, first (b, h, i) {where[0].tolist()}"
    empty = exact_lse == float("-inf")
    if (out[empty] != 0).any().item():
        return "not 0 in rows with nothing to attend"
    if lse is not None:
        lse = lse.double()
        if not torch.equal(lse == float("-inf"), empty):
            return "lse is -inf in the wrong rows"
        if not empty.all().item() and not (lse - exact_lse)[~empty].abs().max().item() <= 2e-3:
            return "lse is wrong"
    return None


def run_case(torch, function, v, batch, layout, seed):
    """What is wrong with a case, if anything."""
    dtypes = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
    generator = torch.Generator("cuda").manual_seed(seed)
    inputs = []
    for n, (heads, dim) in enumerate(((v.heads, v.qk_dim), *v.kv_kinds)):
        shape = (batch.batches, heads, batch.sizes[min(n, 1)], dim)
        tensor, _ = attention.place(torch, shape, dtypes[v.dtype], layout, float("nan"), 0)
        for row in batch.rows[min(n, 1)]:
            take(tensor, row).normal_(generator=generator)
        inputs.append(tensor)
    size = max(batch.sizes)
    captures = {}
    for name in v.captures:
        if name == "slopes":
            captures[name] = 2.0 ** -torch.arange(1, v.heads + 1, device="cuda", dtype=torch.float32)
        else:
            captures[name] = torch.randint(3, (max(batch.count, 1), size), device="cuda", dtype=torch.int32, generator=generator)
    out, _ = attention.place(torch, (batch.batches, v.heads, batch.sizes[0], v.v_dim), dtypes[v.out_dtype], layout, 7, 0)
    lse = torch.full((batch.batches, v.heads, batch.sizes[0]), 7.0, device="cuda")
    entries = [torch.tensor(e, device="cuda", dtype=torch.int32) for e in batch.entries]
    run = function.bind(*inputs, *captures.values(), *entries, out, *([lse] if v.lse else []),
                        stream=torch.cuda.current_stream().cuda_stream)
    run()
    torch.cuda.synchronize()
    if batch.batches == 0:
        return None

    free = torch.ones(batch.batches, batch.sizes[0], dtype=torch.bool, device="cuda")
    for s in range(batch.count):
        rows = batch.rows[0][s]
        free[rows[0], rows[1] : rows[1] + rows[2]] = False
        if rows[2] == 0:
            continue
        case = Case(v, 1, rows[2], batch.rows[1][s][2])
        own = {name: x[s : s + 1] if name == "docs" else x for name, x in captures.items()}
        values = [take(x, batch.rows[min(n, 1)][s]) for n, x in enumerate(inputs)]
        wrong = check_sequence(torch, case, values, own, take(out, rows), take(lse, rows) if v.lse else None)
        if wrong:
            return f"sequence {s} {rows[2]}x{case.keys}: {wrong}"
    if (out.transpose(1, 2)[free] != 7).any().item() or (lse.transpose(1, 2)[free] != 7).any().item():
        return "rows of no sequence have changed"

    # Infinities of a sequence stay there.
    before = out.clone()
    for s in range(0, batch.count, 2):
        for tensor in inputs[1:]:
            take(tensor, batch.rows[1][s]).fill_(float("inf"))
    run()
    torch.cuda.synchronize()
    for s in range(1, batch.count, 2):
        if not torch.equal(take(before, batch.rows[0][s]), take(out, batch.rows[0][s])):
            return f"sequence {s} depends on another one"
    return None


BAD = {
    "packed": [([0, 9, 5, 20], [0, 9, 15, 20]), ([0, 9, 15, 20], [0, 9, 5, 20]), ([-1, 9, 15, 20], [0, 9, 15, 20]),
               ([0, 9, 15, 21], [0, 9, 15, 20]), ([0, 9, 15, 20], [0, 9, 15, 2**31 - 1]),
               ([0, 20, 0, 20], [0, 20, 20, 20]), ([-(2**31), 20], [0, 20])],
    "padded": [([0, 21], [5, 5]), ([0, 5], [5, -1]), ([-(2**31), 5], [5, 5])],
}


def check_reports(torch, run, runtime):
    """What is wrong with how sequences that are not valid are reported: by the next call, or if one asks."""
    try:
        run()
        return "the next call did not report it"
    except RuntimeError as error:
        if "sequences" not in str(error):
            return f"reported as '{error}'"
    run()
    torch.cuda.synchronize()
    if runtime.attnrtTakeFault(1) != 1 or runtime.attnrtTakeFault(1) != 0:
        return "not reported once when asked for"
    return None


def run_bad(torch, function, v, runtime, entries):
    """What is wrong with how sequences that are not valid are met."""
    batches = 1 if v.form == "packed" else len(entries[0])
    dtypes = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
    q, k, value = (torch.ones(batches, heads, 20, dim, device="cuda", dtype=dtypes[v.dtype])
                   for heads, dim in ((v.heads, v.qk_dim), *v.kv_kinds))
    out = torch.full((batches, v.heads, 20, v.v_dim), 7.0, device="cuda", dtype=dtypes[v.out_dtype])
    lse = torch.full((batches, v.heads, 20), 7.0, device="cuda")
    lengths = [torch.tensor(e, device="cuda", dtype=torch.int32) for e in entries]
    run = function.bind(q, k, value, *lengths, out, *([lse] if v.lse else []), stream=torch.cuda.current_stream().cuda_stream)
    run()
    torch.cuda.synchronize()
    if (out != 7).any().item() or (lse != 7).any().item():
        return "outputs have changed"
    return check_reports(torch, run, runtime)


def make_cases(torch, options, variants):
    runtime = ctypes.CDLL(options.runtime)
    for v in variants:
        function = load(options, v.name, v.name)
        for number, (name, lengths) in enumerate(make_lengths().items()):
            if options.sanitizer_subset and name != "edges":
                continue
            layout, gap = ("bshd", 0) if number % 2 else ("bhsd", 5)
            batch = Batch(v.form, lengths, gap)
            yield f"{v.name} {name} {layout}", partial(run_case, torch, function, v, batch, layout, number)
        for entries in BAD[v.form] if not v.captures else ():
            yield f"{v.name} {entries}", partial(run_bad, torch, function, v, runtime, entries)


if __name__ == "__main__":
    sys.exit(run_subset_suite(__doc__, VARIANTS, compile_artifacts, make_cases))
