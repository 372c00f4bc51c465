#!/usr/bin/env python3
# ===- packed_queries.py - Packed queries and KV caches on the GPU -------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compares packed queries with KV caches, by attention.py's formula in f64, one sequence at a time.

    packed_queries.py --compile build/bin/attn-compile --artifacts DIR
    packed_queries.py --artifacts DIR --runtime libattn_runtime.so
    compute-sanitizer packed_queries.py --artifacts DIR --sanitizer-subset

Queries of no sequence, keys behind the lengths and pages of no sequence hold NaN and must not matter, nor may the order
of pages. Boundaries and lengths that are not valid are reported by the next call, and nothing is written.
"""

import random
import sys
from dataclasses import dataclass
from functools import partial

import attention
from attention import Case, compile_artifacts, make_reads, name_heads
from device_suite import load, run_subset_suite
from dropout_reference import Dropout
from paged import Cache, Paged
from sequences import check_sequence

#: The subject of the rows that --record writes.
SUBJECT = "packed queries with KV caches"


@dataclass(frozen=True)
class PackedQueries(Paged):
    """A function whose queries are packed, and whose keys are in pages, or contiguous if the page size is 0."""

    #: With a given schedule, whether the query heads of a key head are rows of tiles.
    packs: bool = False

    @property
    def name(self) -> str:
        return f"packed_queries_{super().name}{'_packs' if self.packs else ''}"

    def mlir(self) -> str:
        text = super().mlir()
        # Keys keep their batch entries.
        if not self.page and self.heads in (self.kv_heads, self.value_heads):
            raise ValueError("types of contiguous keys must differ from types of queries")
        text = text.replace(f"tensor<?x{self.heads}x?x", f"tensor<1x{self.heads}x?x")
        if self.packs:
            text = text.replace("pack_gqa = false", "pack_gqa = true")
        text = text.replace("tensor.empty(%batch, %length)", "tensor.empty(%length)")
        text = text.replace("%lengths: tensor<?xi32>", "%cu: tensor<?xi32>, %lengths: tensor<?xi32>")
        return text.replace("key_lengths(%lengths : tensor<?xi32>)",
                            "sequences packed_queries(%cu, %lengths : tensor<?xi32>, tensor<?xi32>)")


def variant(page, qk_dim, v_dim=None, heads=(2, 2), **rest):
    return PackedQueries(qk_dim, v_dim or qk_dim, **name_heads(heads), page=page, **rest)


VARIANTS = [
    variant(64, 128, heads=(8, 2), mask="causal"),
    variant(16, 128, heads=(8, 2), mask="causal"),
    variant(256, 128, mask="causal"),
    variant(32, 64, dtype="f16", mask="window"),
    variant(128, 64, mask="causal", heads=(6, 1), lse=False),
    variant(64, 256, mask="causal"),
    variant(16, 72, 40, mask="window_both"),
    variant(64, 128, mask="causal", score="alibi"),
    variant(64, 128, mask="causal", out="f32"),
    variant(32, 128, mask="causal", schedule=(2, 128, 2, True, "paired", 0)),
    variant(64, 64, schedule=(3, 128, 2, True, "persistent", 0)),
    variant(64, 128, heads=(8, 2), mask="causal", schedule=(1, 64, 2, False, "grid", 1), split=132),
    variant(0, 128, heads=(8, 2), mask="causal"),
    # Query heads as rows of tiles, with regions that see the head and the query of a row, and splits of one size.
    variant(64, 128, heads=(8, 2), mask="causal", score="alibi"),
    variant(16, 64, dtype="f16", heads=(8, 2), mask="window"),
    variant(64, 192, 128, heads=(10, 2), mask="causal", score="softcap", lse=False),
    variant(0, 256, heads=(8, 1), mask="window_both"),
    variant(32, 96, heads=(6, 2), mask="causal", out="f32"),
    variant(64, 128, heads=(16, 1), mask="causal", schedule=(2, 128, 2, True, "grid", 0), split=1000, packs=True),
    variant(64, 128, heads=(8, 2), mask="causal", schedule=(2, 64, 2, False, "paired", 0), packs=True),
    variant(64, 128, heads=(4, 2), mask="causal", dtype="f32", precision="high"),
    variant(0, 64, heads=(6, 2), mask="causal", dtype="f32"),
    variant(64, 128, heads=(8, 2), mask="causal", sinks=True),
    variant(64, 128, heads=(12, 3, 6), mask="causal"),
    # Drafts of trees, and dropout by positions in sequences.
    variant(16, 128, heads=(8, 2), data="shared_tree"),
    variant(0, 64, heads=(6, 2), data="shared_tree", dtype="f16"),
    variant(64, 128, heads=(8, 2), data="shared_tree", schedule=(1, 64, 2, False, "grid", 1), split=132, packs=True),
    variant(64, 128, heads=(8, 2), mask="causal", dropout=Dropout(0.125, "philox", 7)),
]


def make_lengths():
    """Queries and keys of each sequence."""
    rng = random.Random(7)
    return {
        "edges": [(127, 127), (128, 128), (129, 200), (1, 1), (1, 300), (0, 5), (5, 0), (33, 77), (0, 0)],
        "mixed": [(512, 4096)] + [(1, rng.randrange(5000)) for _ in range(16)],
        "more_queries": [(200, 3), (64, 63)],
        "tokens": [(1, rng.randrange(700)) for _ in range(60)],
        "random": [(rng.choice((0, 1, rng.randrange(300))), rng.randrange(900)) for _ in range(40)],
        "empty": [(0, 0), (0, 3)],
        "none": [],
    }


class Call:
    """Queries of a case, with rows before and after them that belong to no sequence."""

    gap = 3

    def __init__(self, torch, v, cases, layout, generator):
        self.dtypes = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
        bounds = [self.gap]
        for count, _ in cases:
            bounds.append(bounds[-1] + count)
        self.bounds, self.layout, self.total = bounds, layout, bounds[-1] + self.gap
        shape = (1, v.heads, self.total, v.qk_dim)
        self.q, _ = attention.place(torch, shape, self.dtypes[v.dtype], layout, float("nan"), 0)
        self.q[:, :, bounds[0] : bounds[-1]].normal_(generator=generator)
        self.cu = torch.tensor(bounds, dtype=torch.int32, device="cuda")

    def run(self, torch, function, v, captures, cache, tensors):
        shape = (1, v.heads, self.total, v.v_dim)
        out, _ = attention.place(torch, shape, self.dtypes[v.out_dtype], self.layout, 7, 0)
        lse = torch.full((1, v.heads, self.total), 7.0, device="cuda")
        operands = cache.operands()
        run = function.bind(self.q, *tensors, *captures.values(), self.cu, *operands, out, *([lse] if v.lse else []),
                            stream=torch.cuda.current_stream().cuda_stream)
        run()
        torch.cuda.synchronize()
        return out, lse, run


def run_case(torch, function, v, cases, layout, seed):
    """What is wrong with a case, if anything."""
    generator = torch.Generator("cuda").manual_seed(seed)
    call = Call(torch, v, cases, layout, generator)
    lengths = [keys for _, keys in cases]
    captures = {}
    if "slopes" in v.captures:
        captures["slopes"] = 2.0 ** -torch.arange(1, v.heads + 1, device="cuda", dtype=torch.float32)
    if v.sinks:
        captures["sinks"] = torch.randn(v.heads, generator=generator, device="cuda").bfloat16()
    parents = []
    if v.data:
        # Nodes are rows of the queries, in memory.
        rows = torch.full((1, call.total), -1, dtype=torch.int32)
        for s, (count, length) in enumerate(cases):
            own = torch.from_numpy(make_reads(Case(v, 1, count, length, seed=seed + s))[0])
            rows[:, call.bounds[s] : call.bounds[s + 1]] = torch.where(own < 0, own, own + call.bounds[s])
            parents.append({"read0": own})
        captures["read0"] = rows.cuda()
    if v.dropout:
        captures.update(seed=torch.tensor(seed + (5 << 40), device="cuda"), offset=torch.tensor(77, device="cuda"))
    results = []
    # The same keys in pages of another order.
    for cache in [Cache(torch, v.page, lengths, seed + n) for n in range(2 if v.page else 1)]:
        generator.manual_seed(seed + 100)
        tensors, keys = [], []
        for heads, dim in v.kv_kinds:
            shape = (cache.count, heads, cache.rows, dim)
            tensor, _ = attention.place(torch, shape, call.dtypes[v.dtype], layout, float("nan"), 0)
            keys.append(cache.fill(torch, tensor, heads, dim, generator))
            tensors.append(tensor)
        results.append(call.run(torch, function, v, captures, cache, tensors)[:2])
    out, lse = results[0]
    for s, (count, length) in enumerate(cases):
        if count == 0:
            continue
        rows = slice(*call.bounds[s : s + 2])
        own = {**captures, **(parents[s] if parents else {})}
        wrong = check_sequence(torch, Case(v, 1, count, length, entry=s), [call.q[:, :, rows], keys[0][s], keys[1][s]],
                               own, out[:, :, rows], lse[:, :, rows] if v.lse else None)
        if wrong:
            return f"sequence {s} {count}x{length}: {wrong}"
    for part in (slice(0, call.bounds[0]), slice(call.bounds[-1], None)):
        if (out[:, :, part] != 7).any().item() or (lse[:, :, part] != 7).any().item():
            return "rows of no sequence have changed"
    if not all(torch.equal(*pair) for pair in zip(results[0], results[-1])):
        return "the order of pages matters"
    return None


def run_bad(torch, function, v, bounds, lengths):
    """What is wrong with how boundaries or lengths that are not valid are met."""
    cases = [(5, 130)] * (len(bounds) - 1)
    call = Call(torch, v, cases, "bhsd", torch.Generator("cuda").manual_seed(0))
    cache = Cache(torch, v.page, [130] * len(cases), 0)
    tensors = [torch.ones(cache.count, heads, cache.rows, dim, device="cuda", dtype=call.dtypes[v.dtype])
               for heads, dim in v.kv_kinds]
    call.cu.copy_(torch.tensor(bounds, dtype=torch.int32))
    cache.key_lengths.copy_(torch.tensor(lengths, dtype=torch.int32))
    out, _, run = call.run(torch, function, v, {}, cache, tensors)
    if (out != 7).any().item():
        return "outputs have changed"
    try:
        run()
        return "the next call did not report it"
    except RuntimeError as error:
        if "boundaries of sequences" not in str(error):
            return f"reported as '{error}'"
    return None


BAD = [([0, 9, 5, 15], [5, 5, 5]), ([-1, 5, 10, 15], [5, 5, 5]), ([0, 5, 10, 99], [5, 5, 5]),
       ([0, 5, 10, 15], [5, -1, 5]), ([0, 5, 10, 15], [5, 5, 2**31 - 1])]


def make_cases(torch, options, variants):
    for v in variants:
        function = load(options, v.name, v.name)
        for number, (name, cases) in enumerate(make_lengths().items()):
            if options.sanitizer_subset and name != "edges":
                continue
            layout = "bshd" if number % 2 else "bhsd"
            yield f"{v.name} {name} {layout}", partial(run_case, torch, function, v, cases, layout, number)
        if v.captures:
            continue
        for number, (bounds, lengths) in enumerate(BAD):
            yield f"{v.name} bad {number}", partial(run_bad, torch, function, v, bounds, lengths)


if __name__ == "__main__":
    sys.exit(run_subset_suite(__doc__, VARIANTS, compile_artifacts, make_cases))
