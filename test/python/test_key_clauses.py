# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Few queries behind many keys, in ``sdpa`` and ``flex_attention``: lengths and pages of keys, against f64."""

import itertools
import math

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn import masks  # noqa: E402
from attn.torch import flash_attn_with_kvcache, flex_attention, kernels, sdpa  # noqa: E402

H, HKV, D, PAGE = 4, 2, 16, 16
LENGTHS = [0, 1, 37, 80]
BATCH, ROOM = len(LENGTHS), 96
SINKS = torch.tensor([0.5, -1.0, 2.0, 0.0])
HEADS = torch.tensor([1, 0, 0, 1], dtype=torch.int32)
SLOPES = torch.tensor([0.1, 0.2, 0.3, 0.4])


def make(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def make_keys():
    """Keys and values of each entry, not finite behind its length, and in pages in any order: heads before
    positions."""
    order = torch.randperm(BATCH * ROOM // PAGE + 2, generator=torch.Generator().manual_seed(5))
    table = order[: BATCH * ROOM // PAGE].view(BATCH, -1).to(torch.int32)
    dense, paged = [], []
    for seed in (1, 2):
        tensor = make(BATCH, HKV, ROOM, D, seed=seed)
        for entry, length in enumerate(LENGTHS):
            tensor[entry, :, length:] = math.nan
        pool = torch.full((len(order), HKV, PAGE, D), math.nan)
        pool[table.long()] = tensor.unflatten(2, (-1, PAGE)).transpose(1, 2)
        dense.append(tensor)
        paged.append(pool)
    return dense, paged, table, torch.tensor(LENGTHS, dtype=torch.int32)


def reference(q, k, v, length, keep=None, change=None, sinks=None, heads=None):
    """Output and log-sum-exp of one entry in f64. ``keep`` and ``change`` see positions, the last query at the last
    key, and numbers of queries and keys."""
    heads = torch.arange(H) // (H // HKV) if heads is None else heads.long()
    q, k, v = q.double(), k[heads, :length].double(), v[heads, :length].double()
    s = q @ k.mT / math.sqrt(D)
    i, j = torch.arange(q.shape[1])[:, None], torch.arange(length)
    row = i + length - q.shape[1]
    if change is not None:
        s = change(s, torch.arange(H)[:, None, None], i, j)
    if keep is not None:
        s = s.masked_fill(~keep(row, i, j), -math.inf)
    logits = s if sinks is None else torch.cat((s, sinks.double()[:, None, None].expand(*s.shape[:2], 1)), -1)
    lse = logits.logsumexp(-1)
    return torch.exp(s - lse.masked_fill(lse == -math.inf, 0.0)[..., None]) @ v, lse


def bias(score, b, h, i, j):
    return score - SLOPES[h] * (j - i)


# Arguments of both functions, and of the reference.
CASES = {
    "plain": (sdpa, {}, {}),
    "causal": (sdpa, {"attn_mask": masks.causal()}, {"keep": lambda row, i, j: j <= row}),
    "top left": (sdpa, {"is_causal": True}, {"keep": lambda row, i, j: j <= i}),
    "window": (
        sdpa, {"attn_mask": masks.sliding_window(left=9, right=0), "sinks": SINKS},
        {"keep": lambda row, i, j: (j <= row) & (j >= row - 9), "sinks": SINKS},
    ),
    "head map": (sdpa, {"head_map": HEADS, "soft_cap": 3.0}, {
        "heads": HEADS, "change": lambda s, h, i, j: 3 * torch.tanh(s / 3)
    }),
    "tensor": (sdpa, {"attn_mask": make(ROOM, seed=4) > 0}, {
        "keep": lambda row, i, j: (make(ROOM, seed=4) > 0)[j].expand(len(i), -1)
    }),
    "functions": (flex_attention, {"score_mod": bias, "block_mask": lambda b, h, i, j: j % 3 != 1, "sinks": SINKS}, {
        "change": lambda s, h, i, j: s - SLOPES.double()[h] * (j - i), "keep": lambda row, i, j: j % 3 + 0 * i != 1,
        "sinks": SINKS,
    }),
    "named": (flex_attention, {"block_mask": masks.causal(), "head_map": HEADS}, {
        "keep": lambda row, i, j: j <= row, "heads": HEADS
    }),
}  # fmt: skip


@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("case", CASES)
def test_against_f64(case, queries, monkeypatch):
    function, options, of_reference = CASES[case]
    dense, paged, table, lengths = make_keys()
    q = make(BATCH, H, queries, D)
    clauses = []
    describe = kernels.describe_attention
    monkeypatch.setattr(kernels, "describe_attention", lambda kind, *rest: clauses.append(kind) or describe(kind, *rest))
    options = {"enable_gqa": "head_map" not in options, "return_lse": True, **options}
    results = [function(q, *keys, key_lengths=lengths, **options, **more)
               for keys, more in ((dense, {}), (paged, {"page_table": table}))]  # fmt: skip
    assert ["padded" in kind.clauses for kind in clauses] == [False, False]
    # Pages in any order have the bits of a contiguous cache.
    assert all(torch.equal(*pair) for pair in zip(*results))
    for entry, length in enumerate(LENGTHS):
        exact, exact_lse = reference(q[entry], *(x[entry] for x in dense), length, **of_reference)
        torch.testing.assert_close(results[0][0][entry].double(), exact, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(results[0][1][entry].double(), exact_lse, rtol=1e-4, atol=1e-5)


def test_double_precision_and_all_keys():
    _, paged, table, _ = make_keys()
    full = [torch.nan_to_num(pool).double() for pool in paged]
    q = make(BATCH, H, 3, D).double()
    out = sdpa(q, *full, attn_mask=masks.causal(), enable_gqa=True, page_table=table)
    flex = flex_attention(q, *full, block_mask=masks.causal(), enable_gqa=True, page_table=table)
    narrow = sdpa(*(x.float() for x in (q, *full)), attn_mask=masks.causal(), enable_gqa=True, page_table=table)
    torch.testing.assert_close(narrow.double(), out, rtol=1e-4, atol=1e-5)
    for entry in range(BATCH):
        keys = [pool[table[entry].long()].transpose(0, 1).flatten(1, 2) for pool in full]
        exact, _ = reference(q[entry], *keys, ROOM, keep=lambda row, i, j: j <= row)
        torch.testing.assert_close(out[entry], exact)
        torch.testing.assert_close(flex[entry], exact)


def test_gradients_need_padded_sequences():
    """Lengths of keys have gradients as ever, also of few queries."""
    dense, _, _, lengths = make_keys()
    q, k, v = (torch.nan_to_num(x).requires_grad_() for x in (make(BATCH, H, 3, D), *dense))
    sdpa(q, k, v, attn_mask=masks.causal(), enable_gqa=True, key_lengths=lengths).square().sum().backward()
    exact = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    sum(reference(*(x[n] for x in exact), length, keep=lambda row, i, j: j <= row)[0].square().sum()
        for n, length in enumerate(LENGTHS)).backward()  # fmt: skip
    for tensor, other in zip((q, k, v), exact):
        torch.testing.assert_close(tensor.grad, other.grad, rtol=1e-3, atol=1e-4)


def test_compile():
    """New lengths and tables compile nothing again."""
    graphs = 0

    def backend(graph, inputs):
        nonlocal graphs
        graphs += 1
        return graph.forward

    def function(q, k, v, lengths, table):
        out = sdpa(q, k, v, attn_mask=masks.causal(), enable_gqa=True, key_lengths=lengths, page_table=table)
        return out + flex_attention(
            q, k, v, lambda s, b, h, i, j: s + j * 0.1, enable_gqa=True, key_lengths=lengths, page_table=table
        )

    _, paged, table, lengths = make_keys()
    compiled = torch.compile(function, fullgraph=True, backend=backend)
    for number in range(3):
        given = (make(BATCH, H, 1, D), *paged, (lengths - number).clamp(min=0), table)
        with torch.no_grad():
            assert torch.equal(compiled(*given), function(*given))
    assert graphs == 1


class _Found(Exception):
    pass


@pytest.mark.parametrize("queries, has_kernel", [(0, False), (1, True), (3, True), (5, True), (64, True), (65, False)])
def test_few_queries_have_kernels(queries, has_kernel, monkeypatch):
    """Each number of queries up to 64 behind other keys has a kernel of its own, with lengths and without."""

    def find(description, *_):
        raise _Found(description.queries)

    monkeypatch.setattr(kernels, "find_functions", find)
    q, k = make(2, queries, H, 24), make(2, 80, HKV, 24)
    for lengths in (torch.tensor([3, 70], dtype=torch.int32), None):
        with pytest.raises(_Found) as found:
            flash_attn_with_kvcache(q, k, k, cache_seqlens=lengths, causal=True)
        assert found.value.args == (queries if has_kernel else None,)


def test_one_kernel_for_short_sequences(monkeypatch):
    """Attention of a few positions to themselves is no decoding, and neither is training."""

    def find(description, *_):
        raise _Found(description.queries)

    monkeypatch.setattr(kernels, "find_functions", find)
    for q, k in ((make(1, 2, 5, 40), make(1, 2, 5, 40)), (make(1, 2, 5, 40).requires_grad_(), make(1, 2, 9, 40))):
        with pytest.raises(_Found) as found:
            sdpa(q, k, k)
        assert found.value.args == (None,)


Q, POOL = make(2, H, 3, D), make(5, HKV, PAGE, D)
TABLE, TWO = torch.zeros(2, 3, dtype=torch.int32), torch.tensor([3, 40], dtype=torch.int32)
REFUSALS = [
    (dict(page_table=[[0]]), r"page_table is a list; pass a tensor \[batch, pages of an entry\]"),
    (dict(page_table=TABLE.long()), "page_table has the dtype torch.int64, expected torch.int32"),
    (dict(page_table=TABLE[:1]), r"page_table has the shape \(1, 3\), expected \(2, pages of an entry\)"),
    (dict(key_lengths=TWO[:1]), r"key_lengths has the shape \(1,\), expected \(2,\)"),
    (dict(key_lengths=5), "key_lengths is a int; pass a tensor of torch.int32"),
    (dict(key_lengths=TWO + 9), "a number of keys that is negative or more than its cache has room for"),
    (dict(page_table=TABLE + 5), "page table with an entry that is no page"),
    (dict(query_lengths=TWO), "query_lengths and page_table do not go together"),
    (dict(dropout_p=0.5), "dropout_p and page_table do not go together"),
    (dict(identity=torch.ones(H)), "identity and page_table do not go together"),
    (dict(key=POOL[:, :, :8], value=POOL[:, :, :8]), "key has pages of 8 positions; they must have 16, 32"),
    (dict(query=Q.clone().requires_grad_()), "requires a gradient, which attention to pages does not have"),
    (dict(sinks=torch.ones(H, requires_grad=True)), "requires a gradient, which attention to pages does not have"),
    (dict(sinks=[1.0]), "sinks is a list; pass a tensor with an element for each query head"),
    (dict(enable_gqa=False), "query has 4 heads and key 2; pass enable_gqa=True"),
]


@pytest.mark.parametrize("function", [sdpa, flex_attention])
@pytest.mark.parametrize("change, message", REFUSALS, ids=itertools.count())
def test_refusals(change, message, function):
    given = dict(query=Q, key=POOL, value=POOL, key_lengths=TWO, page_table=TABLE, enable_gqa=True)
    with pytest.raises(attn.AttnError, match=message):
        function(**{**given, **change})


def test_refusals_of_sdpa():
    with pytest.raises(attn.AttnError, match="query has 3 dimensions, and needs 4 with page_table"):
        sdpa(Q[0], POOL[0], POOL[0], page_table=TABLE)
    with pytest.raises(attn.AttnError, match="page_table and positions do not go together"):
        sdpa(Q, POOL, POOL, page_table=TABLE, positions=torch.zeros(6, dtype=torch.int32))
    with pytest.raises(attn.AttnError, match=r"attn_mask has the shape \(3, 16\), which does not broadcast to \(2, 4, 3"):
        sdpa(Q, POOL, POOL, torch.ones(3, 16, dtype=torch.bool), enable_gqa=True, page_table=TABLE)
