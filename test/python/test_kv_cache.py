# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``flash_attn_with_kvcache`` on the CPU, against f64."""

import math

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn.torch import flash_attn_with_kvcache, kernels  # noqa: E402
from attn.torch.kernels import has_values_in_keys  # noqa: E402

H, HKV, D = 4, 2, 32
LENGTHS = [0, 1, 37, 80]


def make(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def make_cache(page, lengths, dtype=torch.float32):
    """Keys and values of each entry, not finite behind its length, and the same in pages in any order."""
    pages = -(-max(lengths) // page) + 1
    order = torch.randperm(len(lengths) * pages + 2, generator=torch.Generator().manual_seed(5))
    table = order[: len(lengths) * pages].view(len(lengths), pages).to(torch.int32)
    caches = []
    for seed in (1, 2):
        dense = make(len(lengths), pages * page, HKV, D, seed=seed, dtype=dtype)
        for entry, length in enumerate(lengths):
            dense[entry, length:] = math.nan
        paged = torch.full((len(order), page, HKV, D), math.nan, dtype=dtype)
        paged[table.long()] = dense.view(len(lengths), pages, page, HKV, D)
        caches.append((dense, paged))
    return caches, table, torch.tensor(lengths, dtype=torch.int32)


def reference(q, k, v, length, scale=None, causal=False, window=(-1, -1), softcap=0.0):
    """Output and log-sum-exp of one entry: positions before heads."""
    q, k, v = (x.double().transpose(0, 1) for x in (q, k[:length], v[:length]))
    k, v = (x.repeat_interleave(H // x.shape[0], 0) for x in (k, v))
    s = q @ k.mT * (scale or 1 / math.sqrt(D))
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    i, j = torch.arange(q.shape[1])[:, None] + length - q.shape[1], torch.arange(length)
    right = 0 if causal else window[1]
    keep = torch.ones(q.shape[1], length, dtype=torch.bool)
    keep &= (j >= i - window[0]) | (window[0] < 0)
    keep &= (j <= i + right) | (right < 0)
    s = s.masked_fill(~keep, -math.inf)
    lse = s.logsumexp(-1)
    p = torch.exp(s - lse.masked_fill(lse == -math.inf, 0.0)[..., None])
    return (p @ v).transpose(0, 1), lse


@pytest.mark.parametrize("page", [0, 16, 64])
@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize(
    "options",
    [{}, {"causal": True}, {"window_size": (9, 3)}, {"causal": True, "window_size": (20, -1), "softcap": 3.0},
     {"softmax_scale": 0.3, "num_splits": 4}],
)  # fmt: skip
def test_against_f64(page, queries, options):
    caches, table, lengths = make_cache(page or 16, LENGTHS)
    q = make(len(LENGTHS), queries, H, D)
    out, lse = flash_attn_with_kvcache(
        q, *(cache[bool(page)] for cache in caches), cache_seqlens=lengths, block_table=table if page else None,
        return_softmax_lse=True, **options,
    )  # fmt: skip
    assert out.shape == q.shape and lse.shape == (len(LENGTHS), H, queries)
    named = {"softmax_scale": "scale", "window_size": "window"}
    given = {named.get(name, name): value for name, value in options.items() if name != "num_splits"}
    for entry, length in enumerate(LENGTHS):
        exact, exact_lse = reference(q[entry], *(cache[0][entry] for cache in caches), length, **given)
        torch.testing.assert_close(out[entry].double(), exact, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(lse[entry].double(), exact_lse, rtol=1e-4, atol=1e-5)


def draw_parents(entries, queries, seed):
    nodes = torch.arange(queries)
    steps = torch.randint(1, 5, (entries, queries), generator=torch.Generator().manual_seed(seed))
    return (nodes - steps).clamp(min=-1).to(torch.int32)


def attend_to_tree(q, k, v, length, parents):
    """The output of one entry whose last keys are the nodes of a tree."""
    above = torch.zeros(len(parents), len(parents), dtype=torch.bool)
    for node, parent in enumerate(parents.tolist()):
        if parent >= 0:
            above[node] = above[parent]
        above[node, node] = True
    keep = torch.ones(len(parents), max(length, len(parents)), dtype=torch.bool)
    keep[:, -len(parents) :] = above
    # Keys that a short entry does not have are the first nodes.
    keep = keep[:, keep.shape[1] - length :]
    q, k, v = (x.double().transpose(0, 1) for x in (q, k[:length], v[:length]))
    k, v = (x.repeat_interleave(H // x.shape[0], 0) for x in (k, v))
    s = (q @ k.mT / math.sqrt(D)).masked_fill(~keep, -math.inf)
    return (s.softmax(-1).nan_to_num() @ v).transpose(0, 1)


@pytest.mark.parametrize("page", [0, 16, 64])
@pytest.mark.parametrize("queries, shared", [(1, False), (8, False), (8, True), (13, False)])
def test_drafts_of_trees(page, queries, shared):
    caches, table, lengths = make_cache(page or 16, LENGTHS)
    q = make(len(LENGTHS), queries, H, D)
    parents = draw_parents(1 if shared else len(LENGTHS), queries, seed=queries)
    out = flash_attn_with_kvcache(
        q, *(cache[bool(page)] for cache in caches), cache_seqlens=lengths, block_table=table if page else None,
        mask=attn.masks.tree(parents),
    )  # fmt: skip
    for entry, length in enumerate(LENGTHS):
        own = parents[0 if shared else entry]
        exact = attend_to_tree(q[entry], *(cache[0][entry] for cache in caches), length, own)
        torch.testing.assert_close(out[entry].double(), exact, rtol=1e-4, atol=1e-5)


def test_draft_is_appended():
    """New keys are nodes, and a window applies together with the tree."""
    before, new, left = [0, 20, 41], 6, 7
    caches, table, lengths = make_cache(16, before)
    dense, pools = ([cache[number].clone() for cache in caches] for number in range(2))
    q = make(len(before), new, H, D)
    k, v = (make(len(before), new, HKV, D, seed=seed) for seed in (8, 9))
    chain = torch.arange(-1, new - 1, dtype=torch.int32)[None]
    out = flash_attn_with_kvcache(
        q, *pools, k, v, cache_seqlens=lengths, block_table=table, window_size=(left, -1), mask=attn.masks.tree(chain)
    )
    for entry, length in enumerate(before):
        own = [torch.cat([cache[entry][:length], rows[entry]]) for cache, rows in zip(dense, (k, v))]
        exact, _ = reference(q[entry], *own, length + new, causal=True, window=(left, -1))
        torch.testing.assert_close(out[entry].double(), exact, rtol=1e-4, atol=1e-5)


def test_documents_of_contiguous_caches():
    caches, _, lengths = make_cache(16, LENGTHS)
    dense = [cache[0] for cache in caches]
    q, room = make(len(LENGTHS), 2, H, D), dense[0].shape[1]
    ids = (torch.arange(room) // 20).to(torch.int32)[None]
    of_queries = torch.tensor([[0], [0], [1], [3]], dtype=torch.int32).expand(-1, 2).contiguous()
    out = flash_attn_with_kvcache(q, *dense, cache_seqlens=lengths, mask=attn.masks.documents(of_queries, ids))
    for entry, length in enumerate(LENGTHS):
        inside = (ids[0, :length] == of_queries[entry, 0]).nonzero()[:, 0]
        exact, _ = reference(q[entry], *(cache[entry][inside] for cache in dense), len(inside))
        torch.testing.assert_close(out[entry].double(), exact, rtol=1e-4, atol=1e-5)


def test_wrong_parents_are_reported():
    caches, table, lengths = make_cache(16, LENGTHS)
    parents = draw_parents(len(LENGTHS), 4, seed=0)
    parents[2, 1] = 3
    with pytest.raises(attn.AttnError, match="'parents' holds 3 for node 1, expected -1 or a smaller number"):
        for _ in range(2):
            flash_attn_with_kvcache(
                make(len(LENGTHS), 4, H, D), *(cache[1] for cache in caches), cache_seqlens=lengths, block_table=table,
                mask=attn.masks.tree(parents),
            )  # fmt: skip


@pytest.mark.parametrize("queries", [1, 5])
def test_other_numbers_of_value_heads(queries):
    (keys, _), table, lengths = make_cache(16, LENGTHS)
    q = make(len(LENGTHS), queries, H, D)
    for heads in (1, H):
        dense, paged = (x[:, :, :1].repeat(1, 1, heads, 1) * torch.arange(1, heads + 1).view(-1, 1) for x in keys)
        for given, page_table in ((0, None), (1, table)):
            out = flash_attn_with_kvcache(
                q, keys[given], (dense, paged)[given], cache_seqlens=lengths, block_table=page_table, causal=True
            )
            for entry, length in enumerate(LENGTHS):
                exact, _ = reference(q[entry], keys[0][entry], dense[entry], length, causal=True)
                torch.testing.assert_close(out[entry].double(), exact, rtol=1e-4, atol=1e-5)


def test_double_precision():
    caches, table, lengths = make_cache(16, LENGTHS, torch.float64)
    q = make(len(LENGTHS), 3, H, D, dtype=torch.float64)
    pools = [cache[1] for cache in caches]
    out = flash_attn_with_kvcache(q, *pools, cache_seqlens=lengths, block_table=table, causal=True)
    for entry, length in enumerate(LENGTHS):
        exact, _ = reference(q[entry], *(cache[0][entry] for cache in caches), length, causal=True)
        torch.testing.assert_close(out[entry], exact)


def test_all_keys():
    q, k, v = make(2, 3, H, D), make(2, 20, HKV, D, seed=1), make(2, 20, HKV, D, seed=2)
    expected = torch.stack([reference(*each, 20, causal=True)[0] for each in zip(q, k, v)])
    for seqlens in (None, 20):
        out = flash_attn_with_kvcache(q, k, v, cache_seqlens=seqlens, causal=True)
        torch.testing.assert_close(out.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("page", [0, 16])
def test_latents(page):
    """Values that are the first elements of keys, in memory as well: kernels read keys alone."""
    width = 24
    caches, table, lengths = make_cache(page or 16, LENGTHS, torch.bfloat16)
    dense, stored = caches[0][0], caches[0][bool(page)]
    q = make(len(LENGTHS), 1, H, D, dtype=torch.bfloat16)
    options = {"cache_seqlens": lengths, "block_table": table if page else None}
    latent = stored[..., :width]
    assert has_values_in_keys(stored, latent)
    out = flash_attn_with_kvcache(q, stored, latent, **options)
    assert out.shape == (len(LENGTHS), 1, H, width)
    for entry, length in enumerate(LENGTHS):
        exact, _ = reference(q[entry], dense[entry], dense[entry, ..., :width], length)
        torch.testing.assert_close(out[entry].double(), exact, rtol=2e-2, atol=1e-2)
    for other in (latent.clone(), stored[..., 8 : 8 + width], stored.transpose(0, 1)[..., :width]):
        assert not has_values_in_keys(stored, other)
    assert torch.equal(out, flash_attn_with_kvcache(q, stored, latent.clone(), **options))


@pytest.mark.parametrize("is_training", [False, True])
def test_latents_in_graphs(monkeypatch, is_training):
    """Kernels of compiled graphs read latents once, but gradients add up what keys and values contribute."""
    found = []
    describe = kernels.describe_attention
    monkeypatch.setattr(kernels, "describe_attention", lambda kind, *rest: found.append(kind) or describe(kind, *rest))
    q, kv = make(2, H, 3, 40, dtype=torch.bfloat16), make(2, 51, H, 40, seed=1, dtype=torch.bfloat16)
    dout = make(2, H, 3, D, seed=2, dtype=torch.bfloat16)

    def run(attend, q, kv):
        return attend(q, kv.transpose(1, 2), kv[..., :D].transpose(1, 2))

    inputs = [x.clone().requires_grad_(is_training) for x in (q, kv)]
    with torch.set_grad_enabled(is_training):
        out = torch.compile(lambda q, kv: run(attn.torch.sdpa, q, kv))(*inputs)
    exact = [x.double().requires_grad_(is_training) for x in (q, kv)]
    expected = run(torch.nn.functional.scaled_dot_product_attention, *exact)
    torch.testing.assert_close(out.double(), expected, rtol=2e-2, atol=1e-2)
    assert [kind.clauses for kind in found] == ["" if is_training else "values_in_keys"]
    if is_training:
        grads, wanted = torch.autograd.grad(out, inputs, dout), torch.autograd.grad(expected, exact, dout.double())
        for grad, want in zip(grads, wanted):
            torch.testing.assert_close(grad.double(), want, rtol=3e-2, atol=3e-2)


def test_latents_are_not_wider_than_keys():
    with pytest.raises(attn.AttnError, match="value_dim is 64; values in keys have at most query_dim = 32"):
        attn.Attention("bf16", 4, 1, 32, value_dim=64, values_in_keys=True)


def test_compile():
    """New lengths and tables do not compile anything again."""
    caches, table, lengths = make_cache(16, LENGTHS)
    q = make(len(LENGTHS), 1, H, D)
    paged = [cache[1] for cache in caches]
    count = 0

    def backend(graph, inputs):
        nonlocal count
        count += 1
        return graph.forward

    @torch.compile(fullgraph=True, backend=backend)
    def function(q, k, v, lengths, table):
        return flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths, block_table=table, causal=True)

    for number in range(3):
        now = (lengths - number).clamp(min=0)
        expected = flash_attn_with_kvcache(q, *paged, cache_seqlens=now, block_table=table, causal=True)
        torch.testing.assert_close(function(q, *paged, now, table), expected, rtol=0, atol=0)
    assert count == 1


def test_refusals():
    q, pool = make(2, 1, H, D), make(9, 16, HKV, D)
    lengths, table = torch.zeros(2, dtype=torch.int32), torch.zeros(2, 4, dtype=torch.int32)

    def call(*arguments, **options):
        return flash_attn_with_kvcache(*(arguments or (q, pool, pool)), **{
            "cache_seqlens": lengths, "block_table": table, **options
        })  # fmt: skip

    with pytest.raises(attn.UnsupportedError, match="k_cache has pages of 24 positions; they must have 16, 32"):
        call(q, pool[:, :8].repeat(1, 3, 1, 1), pool)
    with pytest.raises(attn.AttnError, match=r"block_table has the shape \(3, 4\), expected \(2, pages of an entry\)"):
        call(block_table=torch.zeros(3, 4, dtype=torch.int32))
    with pytest.raises(attn.AttnError, match="block_table has the dtype torch.int64, expected torch.int32"):
        call(block_table=table.long())
    with pytest.raises(attn.AttnError, match=r"cache_seqlens has the shape \(3,\), expected \(2,\)"):
        call(cache_seqlens=torch.zeros(3, dtype=torch.int32))
    with pytest.raises(attn.AttnError, match="key has 9 pages and value 8"):
        call(q, pool, pool[:8])
    with pytest.raises(attn.UnsupportedError, match="q requires a gradient"):
        call(q.clone().requires_grad_(), pool, pool)
    with pytest.raises(attn.AttnError, match="q has 3 dimensions, expected 4"):
        call(q[0], pool, pool)
    with pytest.raises(attn.AttnError, match="mask is a str; pass one of attn.masks"):
        call(mask="causal")
    with pytest.raises(attn.AttnError, match="mask reads a torch.int64; give the mask tensors of torch.int32"):
        call(mask=attn.masks.tree(torch.zeros(2, 1, dtype=torch.int64)))
    ids = torch.zeros(2, 64, dtype=torch.int32)
    with pytest.raises(attn.AttnError, match="must not be used together with 'page_table', which does not say"):
        call(mask=attn.masks.documents(ids[:, :1], ids))


@pytest.mark.parametrize("page", [-1, 9])
def test_wrong_pages_are_reported(page):
    q, pool = make(2, 1, H, D), make(9, 16, HKV, D)
    table = torch.tensor([[0, 1], [page, 2]], dtype=torch.int32)
    lengths = torch.tensor([20, 20], dtype=torch.int32)
    with pytest.raises(attn.AttnError, match="page table with an entry that is no page"):
        for _ in range(2):
            flash_attn_with_kvcache(q, pool, pool, cache_seqlens=lengths, block_table=table)
