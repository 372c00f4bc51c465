# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``flash_attn_func`` and ``flash_attn_varlen_func`` in random combinations of arguments, against f64."""

import itertools
import math
import random

import pytest

torch = pytest.importorskip("torch")

from attn.torch import flash_attn_func, flash_attn_varlen_func  # noqa: E402
from flash_reference import attend, draw_options  # noqa: E402

# Options and sizes of heads are compiled; each has several sets of lengths.
KINDS, LENGTHS = 30, 11
DTYPES = {torch.float32: (1e-4, 2e-5), torch.bfloat16: (2e-2, 2e-2), torch.float16: (4e-3, 4e-3)}


class Case:
    """Options, heads and dtype of a kind."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.options = draw_options(self.rng)
        self.key_heads = self.rng.choice([1, 2])
        self.heads = self.key_heads * self.rng.choice([1, 2, 3])
        self.dim = self.rng.choice([8, 16, 24, 40])
        self.dtype = self.rng.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16])
        self.generator = torch.Generator().manual_seed(seed)

    def make(self, *shape, fill=None):
        tensor = torch.randn(shape, generator=self.generator).to(self.dtype)
        return tensor if fill is None else torch.full_like(tensor, fill)

    def arguments(self, batch):
        """The arguments of a call, and for each sequence the slopes and sinks of the reference."""
        options = self.options._asdict()
        del options["alibi"], options["sinks"]
        slopes = sinks = None
        if self.options.alibi:
            shape = (batch, self.heads) if self.options.alibi == 2 else (self.heads,)
            slopes = torch.rand(shape, generator=self.generator)
        if self.options.sinks:
            sinks = torch.randn(self.heads, generator=self.generator)
        of_each = [(slopes[n] if self.options.alibi == 2 else slopes, sinks) for n in range(batch)]
        return {**options, "alibi_slopes": slopes, "s_aux": sinks, "return_attn_probs": True}, of_each

    def check(self, out, lse, q, k, v, of_each):
        slopes, sinks = of_each
        expected = attend(q, k, v, self.options, slopes, sinks)
        for actual, exact in zip((out, lse), expected):
            rtol, atol = DTYPES[self.dtype]
            torch.testing.assert_close(actual.double(), exact, rtol=rtol, atol=atol)


def draw_lengths(rng):
    """Numbers of queries and keys: few queries behind many keys, as many of both, more queries, and none."""
    keys = rng.randrange(1, 120)
    return rng.choice([(1, keys), (3, keys + 3), (keys, keys), (70, keys), (70, 71 + keys), (5, 0)])


@pytest.mark.parametrize("seed", range(KINDS))
def test_batches(seed):
    case = Case(seed)
    for _ in range(LENGTHS):
        batch, (queries, keys) = case.rng.randint(1, 3), draw_lengths(case.rng)
        q, k, v = (case.make(batch, n, h, case.dim) for n, h in
                   ((queries, case.heads), (keys, case.key_heads), (keys, case.key_heads)))  # fmt: skip
        arguments, of_each = case.arguments(batch)
        out, lse, _ = flash_attn_func(q, k, v, **arguments)
        for number in range(batch):
            case.check(out[number], lse[number], q[number], k[number], v[number], of_each[number])


def store_in_pages(case, sides, page):
    """Pools with the rows of each sequence of each side in pages in a random order, and the page table."""
    width = max(-(-len(own) // page) for own in sides[0]) + 1
    order = torch.randperm(len(sides[0]) * width, generator=case.generator).view(-1, width)
    pools = [case.make(order.numel(), page, case.key_heads, case.dim, fill=math.nan) for _ in sides]
    for pool, side in zip(pools, sides):
        for own, pages in zip(side, order):
            for place, part in enumerate(own.split(page)):
                pool[pages[place], : len(part)] = part
    return pools, order.to(torch.int32)


def call_sequences(case, form, q, k, v, arguments):
    """Results of sequences, each with its own tensors, in one call: rows of outputs, and log-sum-exps by row."""
    queries, keys = ([len(own) for own in side] for side in (q, k))
    lengths = torch.tensor(keys, dtype=torch.int32)
    if form == "padded":
        sides = []
        for side, heads in ((q, case.heads), (k, case.key_heads), (v, case.key_heads)):
            room = max(max(len(own) for own in side), 1)
            stored = case.make(len(side), room, heads, case.dim, fill=math.nan)
            for entry, own in zip(stored, side):
                entry[: len(own)] = own
            sides.append(stored)
        used = torch.tensor(queries, dtype=torch.int32)
        out, lse, _ = flash_attn_varlen_func(*sides, seqused_q=used, seqused_k=lengths, **arguments)
        return [(out[n, :count], lse[n, :, :count]) for n, count in enumerate(queries)]
    bounds = torch.tensor([0, *itertools.accumulate(queries)], dtype=torch.int32)
    packed = torch.cat(q)
    if form == "packed":
        ends = torch.tensor([0, *itertools.accumulate(keys)], dtype=torch.int32)
        longest = [int(x.diff().max()) for x in (bounds, ends)]
        out, lse, _ = flash_attn_varlen_func(packed, torch.cat(k), torch.cat(v), bounds, ends, *longest, **arguments)
    elif form == "pages":
        pools, table = store_in_pages(case, (k, v), 16)
        out, lse, _ = flash_attn_varlen_func(packed, *pools, bounds, seqused_k=lengths, block_table=table, **arguments)
    else:
        caches = [case.make(len(keys), max(keys) + 5, case.key_heads, case.dim, fill=math.nan) for _ in range(2)]
        for cache, side in zip(caches, (k, v)):
            for entry, own in zip(cache, side):
                entry[: len(own)] = own
        out, lse, _ = flash_attn_varlen_func(packed, *caches, bounds, seqused_k=lengths, **arguments)
    parts = list(zip(bounds.tolist(), bounds[1:].tolist()))
    return [(out[begin:end], lse[:, begin:end]) for begin, end in parts]


@pytest.mark.parametrize("form", ["packed", "padded", "cache", "pages"])
@pytest.mark.parametrize("seed", range(100, 100 + KINDS // 3))
def test_sequences(seed, form):
    case = Case(seed)
    for _ in range(LENGTHS):
        batch = case.rng.randint(1, 4)
        lengths = [draw_lengths(case.rng) for _ in range(batch)]
        q = [case.make(queries, case.heads, case.dim) for queries, _ in lengths]
        k, v = ([case.make(keys, case.key_heads, case.dim) for _, keys in lengths] for _ in range(2))
        arguments, of_each = case.arguments(batch)
        results = call_sequences(case, form, q, k, v, arguments)
        for number, (out, lse) in enumerate(results):
            case.check(out, lse, q[number], k[number], v[number], of_each[number])
