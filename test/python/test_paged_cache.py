# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``PagedKVCache``: pages of sequences, and attention that appends to them."""

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn.torch import PagedKVCache, sdpa  # noqa: E402


def test_pages_are_shared_out():
    cache = PagedKVCache(2, 1, 8, pages=6, page_size=16)
    cache.reserve("a", 17)
    cache.reserve(3, 16)
    assert cache.num_free_pages == 3 and cache.sequences == ("a", 3)
    cache.reserve("a", 20)
    assert cache.num_free_pages == 3
    table = cache.table(["a", None, 3])
    assert table.dtype == torch.int32 and table.shape == (3, 2)
    assert table[1].tolist() == [-1, -1] and table[2, 1] == -1
    assert len({*cache.table(["a"])[0].tolist(), table[2, 0].item()}) == 3
    assert cache.can_reserve("a", 80) and not cache.can_reserve("a", 81)
    with pytest.raises(attn.AttnError, match="'a' needs 6 pages for 81 keys and has 2, but only 3 pages are free"):
        cache.reserve("a", 81)
    assert cache.num_free_pages == 3
    cache.trim("a", 16)
    assert cache.num_free_pages == 4
    cache.release("a")
    cache.reserve("b", 80)
    assert cache.num_free_pages == 0
    with pytest.raises(attn.AttnError, match="sequence 'a' has no pages"):
        cache.table(["a"])


def test_table_of_a_graph():
    cache = PagedKVCache(1, 1, 8, pages=4, page_size=16)
    cache.reserve(0, 20)
    out = torch.zeros(3, 4, dtype=torch.int32)
    assert cache.table([0], out) is out
    assert torch.equal(out[:1, :2], cache.table([0])) and (out[:1, 2:] == -1).all() and (out[1:] == -1).all()
    with pytest.raises(attn.AttnError, match=r"out has the shape \(1, 1\), expected at least \(1, 2\)"):
        cache.table([0], out[:1, :1])
    with pytest.raises(attn.AttnError, match="out has the dtype torch.int64"):
        cache.table([0], out.long())


@pytest.mark.parametrize("value_heads", [2, 4])
def test_attention_of_growing_sequences(value_heads):
    """Steps of several sequences, some of which end and make room, equal attention to all keys at once."""
    generator = torch.Generator().manual_seed(0)
    cache = PagedKVCache(2, 2, 16, pages=12, page_size=16, value_dim=8, value_heads=value_heads)
    for pool in (*cache.keys, *cache.values):
        pool.fill_(torch.nan)
    kept = {}
    for step in range(40):
        names = [name for name in range(4) if step < 20 or name % 2 == 0]
        if step == 20:
            for name in (1, 3):
                cache.release(name)
        new = 5 if step == 0 else 1
        sizes = ((4, 16), (2, 16), (value_heads, 8))
        q, k, v = (torch.randn(len(names), new, *size, generator=generator) for size in sizes)
        lengths = torch.tensor([kept[name][0].shape[0] if name in kept else 0 for name in names], dtype=torch.int32)
        for number, name in enumerate(names):
            cache.reserve(name, int(lengths[number]) + new)
        out = cache.attend(1, q, k, v, cache_seqlens=lengths, block_table=cache.table(names), causal=True)
        for number, name in enumerate(names):
            old = kept.get(name, (k.new_empty(0, 2, 16), v.new_empty(0, value_heads, 8)))
            kept[name] = tuple(torch.cat((before, x[number])) for before, x in zip(old, (k, v)))
            if step % 7 == 0:
                query, key, value = (x.double().transpose(0, 1)[None] for x in (q[number], *kept[name]))
                mask = torch.ones(new, key.shape[2], dtype=torch.bool).tril(key.shape[2] - new)
                exact = sdpa(query, key, value, attn_mask=mask, enable_gqa=True)[0].transpose(0, 1)
                torch.testing.assert_close(out[number].double(), exact, rtol=1e-5, atol=1e-5)


def test_refusals():
    with pytest.raises(attn.AttnError, match="page_size is 24; it must be one of 16, 32"):
        PagedKVCache(1, 1, 8, pages=4, page_size=24)
    with pytest.raises(attn.AttnError, match="layers is 0; it must be a number from 1"):
        PagedKVCache(0, 1, 8, pages=4)
    cache = PagedKVCache(1, 1, 8, pages=4)
    with pytest.raises(attn.AttnError, match="length is -1"):
        cache.reserve(0, -1)
    with pytest.raises(attn.AttnError, match="block_table is not given, and a paged cache needs it"):
        cache.attend(0, torch.zeros(1, 1, 1, 8), cache_seqlens=torch.zeros(1, dtype=torch.int32))
