# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``flash_attn_func`` and ``flash_attn_varlen_func`` on the CPU, against f64."""

import itertools
import math
import random

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn.torch import flash_attn_func, flash_attn_varlen_func  # noqa: E402

H, HKV, D = 4, 2, 16
OPTIONS = [
    {}, {"causal": True}, {"window_size": (5, 2)}, {"causal": True, "window_size": (7, -1), "softcap": 2.0},
    {"alibi": 1}, {"alibi": 2, "causal": True, "softcap": 3.0}, {"softmax_scale": 0.4, "deterministic": True},
]  # fmt: skip
LENGTHS = [(1, 1), (1, 20), (7, 7), (5, 33), (30, 9)]


def make(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def reference(q, k, v, causal=False, window_size=(-1, -1), softcap=0.0, slopes=None, softmax_scale=None, **_):
    """One sequence, positions before heads, in f64."""
    q, k, v = (x.double().transpose(0, 1) for x in (q, k, v))
    k, v = (x.repeat_interleave(H // HKV, 0) for x in (k, v))
    s = q @ k.mT * (softmax_scale or 1 / math.sqrt(D))
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    i, j = torch.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1], torch.arange(k.shape[1])
    if slopes is not None:
        s = s - slopes.double()[:, None, None] * (i - j).abs()
    left, right = window_size[0], 0 if causal else window_size[1]
    keep = ((j >= i - left) | (left < 0)) & ((j <= i + right) | (right < 0))
    s = s.masked_fill(~keep, -math.inf)
    lse = s.logsumexp(-1)
    p = torch.exp(s - lse.masked_fill(lse == -math.inf, 0.0)[..., None])
    return (p @ v).transpose(0, 1), lse


def split(options, batch):
    """The arguments of a call, and those of the reference for each sequence."""
    options = dict(options)
    kind = options.pop("alibi", 0)
    if not kind:
        return options, [options] * batch
    slopes = torch.rand((batch, H) if kind == 2 else (H,), generator=torch.Generator().manual_seed(9))
    of_each = [{**options, "slopes": slopes[number] if kind == 2 else slopes} for number in range(batch)]
    return {**options, "alibi_slopes": slopes}, of_each


@pytest.mark.parametrize("options", OPTIONS, ids=itertools.count())
def test_batches(options):
    for queries, keys in LENGTHS:
        q, k, v = make(3, queries, H, D), make(3, keys, HKV, D, seed=1), make(3, keys, HKV, D, seed=2)
        arguments, of_each = split(options, 3)
        out, lse, probabilities = flash_attn_func(q, k, v, return_attn_probs=True, **arguments)
        assert probabilities is None and torch.equal(out, flash_attn_func(q, k, v, **arguments))
        for number in range(3):
            exact, exact_lse = reference(q[number], k[number], v[number], **of_each[number])
            torch.testing.assert_close(out[number].double(), exact, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(lse[number].double(), exact_lse, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", OPTIONS, ids=itertools.count())
def test_sequences(options):
    bounds = [torch.tensor([0, *itertools.accumulate(side)], dtype=torch.int32) for side in zip(*LENGTHS)]
    q = make(bounds[0][-1], H, D)
    k, v = (make(bounds[1][-1], HKV, D, seed=seed) for seed in (1, 2))
    arguments, of_each = split(options, len(LENGTHS))
    out, lse, _ = flash_attn_varlen_func(q, k, v, *bounds, 30, 33, return_attn_probs=True, **arguments)
    assert lse.shape == (H, len(q))
    for number in range(len(LENGTHS)):
        rows, columns = (slice(*side[number : number + 2].tolist()) for side in bounds)
        exact, exact_lse = reference(q[rows], k[columns], v[columns], **of_each[number])
        torch.testing.assert_close(out[rows].double(), exact, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(lse[:, rows].double(), exact_lse, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [OPTIONS[1], OPTIONS[5]])
def test_gradients(options):
    tensors = [make(2, 5, H, D), make(2, 12, HKV, D, seed=1), make(2, 12, HKV, D, seed=2)]
    arguments, of_each = split(options, 2)
    leaves, exact = ([x.clone().requires_grad_() for x in tensors] for _ in range(2))
    flash_attn_func(*leaves, **arguments).square().sum().backward()
    sum(reference(*(x[n] for x in exact), **of_each[n])[0].square().sum() for n in range(2)).backward()
    for leaf, other in zip(leaves, exact):
        torch.testing.assert_close(leaf.grad, other.grad, rtol=1e-3, atol=1e-4)


def test_dropout():
    q, k, v = make(1, 64, H, D), make(1, 64, HKV, D, seed=1), torch.ones(1, 64, HKV, D)
    torch.manual_seed(0)
    out = flash_attn_func(q, k, v, dropout_p=0.5)
    assert 0.9 < out.mean() < 1.1 and out.std() > 0.05
    assert (flash_attn_func(q, k, v, dropout_p=1.0) == 0).all()


def test_refusals():
    q, k = make(2, 3, H, D), make(2, 3, HKV, D)
    with pytest.raises(attn.AttnError, match="k has 3 dimensions, expected 4"):
        flash_attn_func(q, k[0], k)
    with pytest.raises(attn.AttnError, match="softcap is -1"):
        flash_attn_func(q, k, k, softcap=-1)
    with pytest.raises(attn.AttnError, match=r"alibi_slopes is torch.float32 of the shape \(2,\), expected"):
        flash_attn_func(q, k, k, alibi_slopes=torch.zeros(2))
    with pytest.raises(attn.AttnError, match="alibi_slopes requires a gradient"):
        flash_attn_func(q, k, k, alibi_slopes=torch.zeros(H).requires_grad_())
    bounds = torch.tensor([0, 3], dtype=torch.int32)
    with pytest.raises(attn.AttnError, match="cu_seqlens_k has the dtype torch.int64, expected torch.int32"):
        flash_attn_varlen_func(q[0], k[0], k[0], bounds, bounds.long())
    with pytest.raises(attn.AttnError, match="cu_seqlens_k is None"):
        flash_attn_varlen_func(q[0], k[0], k[0], bounds)
    with pytest.raises(attn.AttnError, match=r"seqused_k has the shape \(2,\), expected \(1,\)"):
        flash_attn_varlen_func(q[0], k[0], k[0], bounds, bounds, seqused_k=bounds)


class Pages:
    """Keys and values of sequences in pages in a random order, which are not finite behind the lengths."""

    def __init__(self, lengths, page, seed, dtype=torch.float32):
        generator = torch.Generator().manual_seed(seed)
        width = -(-max(lengths, default=0) // page) + 1
        order = torch.randperm(len(lengths) * width + 2, generator=generator)
        self.table = order[: len(lengths) * width].view(len(lengths), width).to(torch.int32)
        self.lengths = torch.tensor(lengths, dtype=torch.int32)
        self.pools, self.rows = [], []
        for number in (1, 2):
            pool = torch.full((len(order), page, HKV, D), math.nan, dtype=dtype)
            rows = [make(length, HKV, D, seed=100 * number + n).to(dtype) for n, length in enumerate(lengths)]
            for own, pages in zip(rows, self.table.long()):
                for place, part in enumerate(own.split(page)):
                    pool[pages[place], : len(part)] = part
            self.pools.append(pool)
            self.rows.append(rows)


def make_lengths(seed):
    """Queries and keys of sequences: chunks of prompts, single tokens, and edges."""
    rng = random.Random(seed)
    kinds = [lambda: (rng.randrange(2, 40), rng.randrange(150)), lambda: (1, rng.randrange(150)), lambda: (0, 9),
             lambda: (3, 0), lambda: (16, 16), lambda: (1, 64)]
    return [rng.choice(kinds)() for _ in range(rng.randrange(1, 8))]


@pytest.mark.parametrize("page", [16, 64])
@pytest.mark.parametrize("options", OPTIONS, ids=itertools.count())
def test_chunks_in_pages(options, page):
    for seed in range(6):
        lengths = make_lengths(seed)
        bounds = torch.tensor([0, *itertools.accumulate(count for count, _ in lengths)], dtype=torch.int32)
        q = make(int(bounds[-1]), H, D, seed=seed)
        arguments, of_each = split(options, len(lengths))
        results = []
        # Pages in another order give the same bits.
        for order in range(2):
            pages = Pages([keys for _, keys in lengths], page, seed + 50 * order)
            results.append(flash_attn_varlen_func(
                q, *pages.pools, bounds, seqused_k=pages.lengths, block_table=pages.table, return_attn_probs=True,
                **arguments,
            )[:2])  # fmt: skip
        assert all(torch.equal(*pair) for pair in zip(*results))
        out, lse = results[0]
        for number in range(len(lengths)):
            rows = slice(*bounds[number : number + 2].tolist())
            exact, exact_lse = reference(q[rows], *(side[number] for side in pages.rows), **of_each[number])
            torch.testing.assert_close(out[rows].double(), exact, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(lse[:, rows].double(), exact_lse, rtol=1e-4, atol=1e-5)


def test_boundaries_of_keys_in_pages():
    pages = Pages([20, 7, 33], 16, 0)
    bounds = torch.tensor([0, 5, 6, 9], dtype=torch.int32)
    q, ends = make(9, H, D), torch.tensor([0, 20, 27, 60], dtype=torch.int32)
    given = dict(block_table=pages.table, causal=True)
    out = flash_attn_varlen_func(q, *pages.pools, bounds, ends, 5, 33, **given)
    assert torch.equal(out, flash_attn_varlen_func(q, *pages.pools, bounds, seqused_k=pages.lengths, **given))


def test_chunks_in_double_precision():
    lengths = make_lengths(3)
    pages = Pages([keys for _, keys in lengths], 16, 0, torch.float64)
    bounds = torch.tensor([0, *itertools.accumulate(count for count, _ in lengths)], dtype=torch.int32)
    q = make(int(bounds[-1]), H, D).double()
    out = flash_attn_varlen_func(q, *pages.pools, bounds, seqused_k=pages.lengths, block_table=pages.table, causal=True)
    for number in range(len(lengths)):
        rows = slice(*bounds[number : number + 2].tolist())
        exact, _ = reference(q[rows], *(side[number] for side in pages.rows), causal=True)
        torch.testing.assert_close(out[rows], exact)


def test_dropout_in_pages():
    """Dropout depends on positions in sequences; double precision makes the same keep mask on its own."""
    lengths = [(5, 40), (1, 65), (20, 20), (3, 130)]
    bounds = torch.tensor([0, *itertools.accumulate(count for count, _ in lengths)], dtype=torch.int32)
    q = make(int(bounds[-1]), H, D)

    def run(page, dtype, p):
        pages = Pages([keys for _, keys in lengths], page, page, dtype)
        torch.manual_seed(4)
        return flash_attn_varlen_func(
            q.to(dtype), *pages.pools, bounds, seqused_k=pages.lengths, block_table=pages.table, causal=True,
            dropout_p=p,
        )  # fmt: skip

    for page in (16, 64):
        exact = run(16, torch.float64, 0.3)
        torch.testing.assert_close(run(page, torch.float32, 0.3).double(), exact, rtol=1e-4, atol=1e-5)
        assert not run(page, torch.float32, 1.0).any()


def test_chunks_compile_once():
    """New lengths, boundaries and tables do not compile anything again."""
    graphs = 0

    def backend(graph, inputs):
        nonlocal graphs
        graphs += 1
        return graph.forward

    def function(q, k, v, bounds, lengths, table):
        return flash_attn_varlen_func(q, k, v, bounds, seqused_k=lengths, block_table=table, causal=True)

    compiled = torch.compile(function, fullgraph=True, backend=backend)
    q, pages = make(9, H, D), Pages([40, 41, 42], 16, 0)
    for ends in ([0, 3, 6, 9], [0, 7, 8, 9], [0, 0, 9, 9]):
        bounds = torch.tensor(ends, dtype=torch.int32)
        lengths = pages.lengths - ends[1]
        given = (q, *pages.pools, bounds, lengths, pages.table)
        assert torch.equal(compiled(*given), function(*given))
    assert graphs == 1


PAGE_REFUSALS = [
    (dict(block_table=[[0]]), "block_table is a list; pass a tensor"),
    (dict(block_table=torch.zeros(3, 2, dtype=torch.int32)), r"block_table has the shape \(3, 2\), expected \(2, pages"),
    (dict(block_table=torch.zeros(2, 2)), "block_table has the dtype torch.float32, expected torch.int32"),
    (dict(seqused_k=None), "cu_seqlens_k and seqused_k are None; give one of them"),
    (dict(seqused_k=torch.zeros(2)), "seqused_k has the dtype torch.float32, expected torch.int32"),
    (dict(seqused_k=torch.zeros(3, dtype=torch.int32)), r"seqused_k has the shape \(3,\), expected \(2,\)"),
    (dict(k=torch.zeros(5, HKV, D)), "k has 3 dimensions, expected 4 with block_table"),
    (dict(k=torch.zeros(5, 24, HKV, D)), "k has pages of 24 positions; they must have 16, 32"),
    (dict(q=torch.zeros(4, H, D, requires_grad=True)), "q requires a gradient"),
]


@pytest.mark.parametrize("change, message", PAGE_REFUSALS, ids=itertools.count())
def test_refusals_with_pages(change, message):
    given = dict(
        q=make(4, H, D), k=make(5, 16, HKV, D), v=make(5, 16, HKV, D), cu_seqlens_q=torch.tensor([0, 1, 4]).int(),
        seqused_k=torch.tensor([3, 9]).int(), block_table=torch.zeros(2, 2, dtype=torch.int32),
    )  # fmt: skip
    with pytest.raises(attn.AttnError, match=message):
        flash_attn_varlen_func(**{**given, **change})


@pytest.mark.parametrize("page", [-1, 5])
def test_wrong_pages_are_reported(page):
    table, lengths = torch.tensor([[0, 1], [page, 2]]).int(), torch.tensor([20, 20]).int()
    with pytest.raises(attn.AttnError, match="page table with an entry that is no page"):
        flash_attn_varlen_func(
            make(4, H, D), make(5, 16, HKV, D), make(5, 16, HKV, D), torch.tensor([0, 1, 4]).int(), seqused_k=lengths,
            block_table=table,
        )  # fmt: skip
