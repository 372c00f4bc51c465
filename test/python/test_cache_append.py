# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``flash_attn_with_kvcache`` with new keys, on the CPU, against f64."""

import itertools
import math
import random
from typing import NamedTuple, Optional, Tuple

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn.torch import flash_attn_with_kvcache  # noqa: E402

H, HKV, D, POSITIONS = 4, 2, 32, 400
TOLERANCE = {torch.float32: (1e-4, 1e-5), torch.float16: (4e-3, 4e-3), torch.bfloat16: (3e-2, 3e-2)}


class Kind(NamedTuple):
    """What kernels are compiled for."""

    page: int
    dtype: torch.dtype = torch.float32
    causal: bool = False
    window: Tuple[int, int] = (-1, -1)
    softcap: float = 0.0
    alibi: int = 0
    leftpad: bool = False
    rotary: int = 0
    interleaved: bool = True
    appends: bool = True
    batch_idx: bool = False


KINDS = [
    Kind(16, causal=True, rotary=32),
    Kind(16, causal=True, rotary=16, interleaved=False),
    Kind(64, rotary=32),
    Kind(64, causal=True, window=(20, -1), rotary=32, interleaved=False),
    Kind(0, window=(9, 3), rotary=8),
    Kind(0, causal=True, rotary=32, softcap=3.0),
    Kind(0, causal=True, softcap=3.0),
    Kind(0, causal=True, leftpad=True),
    Kind(16, causal=True, leftpad=True, rotary=32),
    Kind(0, window=(20, 2), leftpad=True, rotary=16, interleaved=False),
    Kind(0, alibi=1),
    Kind(0, causal=True, batch_idx=True, rotary=32),
    Kind(0, batch_idx=True, appends=False),
    Kind(0, causal=True, leftpad=True, alibi=2, appends=False),
    Kind(16, causal=True, alibi=2, rotary=32),
    Kind(32, causal=True, alibi=1, softcap=2.0, appends=False),
    Kind(16, torch.bfloat16, causal=True, rotary=32),
    Kind(128, torch.float16, causal=True, rotary=16),
    Kind(0, torch.bfloat16, rotary=32, interleaved=False),
    Kind(256, torch.float16),
]


def rotate(x, cos, sin, positions, interleaved):
    """Rows [rows, heads, dim] at positions [rows]."""
    half = cos.shape[1]
    first = slice(0, 2 * half, 2) if interleaved else slice(0, half)
    second = slice(1, 2 * half, 2) if interleaved else slice(half, 2 * half)
    a, b = x[..., first].clone(), x[..., second].clone()
    c, s = (table[positions][:, None].double() for table in (cos, sin))
    x = x.clone()
    x[..., first], x[..., second] = a * c - b * s, b * c + a * s
    return x


def attend(q, k, v, kind, slopes, first):
    """Output and log-sum-exp of one entry, positions before heads, in f64."""
    q, k, v = (x.double().transpose(0, 1) for x in (q, k, v))
    k, v = (x.repeat_interleave(H // HKV, 0) for x in (k, v))
    s = q @ k.mT / math.sqrt(D)
    if kind.softcap:
        s = kind.softcap * torch.tanh(s / kind.softcap)
    rows, keys = q.shape[1], k.shape[1]
    i, j = torch.arange(rows)[:, None] + keys - rows, torch.arange(keys)
    if slopes is not None:
        s = s - slopes.double()[:, None, None] * (i - j).abs()
    right = 0 if kind.causal else kind.window[1]
    keep = (j >= first).expand(rows, keys).clone()
    keep &= (j >= i - kind.window[0]) | (kind.window[0] < 0)
    keep &= (j <= i + right) | (right < 0)
    s = s.masked_fill(~keep, -math.inf)
    lse = s.logsumexp(-1)
    p = torch.exp(s - lse.masked_fill(lse == -math.inf, 0.0)[..., None])
    return (p @ v).transpose(0, 1), lse


class Call:
    """A call, and its results in f64."""

    def __init__(self, kind, seed, dtype=None):
        self.kind, dtype = kind, dtype or kind.dtype
        rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)

        def make(*shape):
            return torch.randn(shape, generator=generator).to(dtype)

        batch = rng.randint(1, 4)
        self.new, queries = rng.choice([1, 1, 3, 17]), rng.choice([1, 1, 4, 20])
        self.lengths = [rng.choice([0, 1, rng.randrange(150)]) for _ in range(batch)]
        grown = [length + self.new * kind.appends for length in self.lengths]
        rows = -(-max(max(grown), 1) // 16) * 16
        if kind.page:
            rows = -(-rows // kind.page) * kind.page
        entries = batch + 2 * kind.batch_idx
        self.entry = rng.sample(range(entries), batch)
        dense = [make(entries, rows, HKV, D) for _ in range(2)]
        self.table = None
        if kind.page:
            pages = rows // kind.page
            order = torch.randperm(batch * pages + 2, generator=generator)
            self.table = order[: batch * pages].view(batch, pages).to(torch.int32)
            self.caches = [make(len(order), kind.page, HKV, D) for _ in range(2)]
            self.entry = list(range(batch))
            for cache, x in zip(self.caches, dense):
                cache[self.table.long()] = x.view(batch, pages, kind.page, HKV, D)
        else:
            if not kind.batch_idx:
                self.entry = list(range(batch))
            self.caches = [x.clone() for x in dense]
        self.q = make(batch, queries, H, D)
        self.k, self.v = (make(batch, self.new, HKV, D) for _ in range(2))
        angles = torch.rand(POSITIONS, kind.rotary // 2, generator=generator) * 6
        self.cos, self.sin = angles.cos().to(dtype), angles.sin().to(dtype)
        self.slopes = torch.rand((batch, H) if kind.alibi == 2 else (H,), generator=generator)
        self.first = [rng.randint(0, max(length // 2, 0)) for length in self.lengths]
        self.dense = dense

    def run(self, **more):
        kind = self.kind
        options = dict(
            cache_seqlens=torch.tensor(self.lengths, dtype=torch.int32), block_table=self.table, causal=kind.causal,
            window_size=kind.window, softcap=kind.softcap, rotary_interleaved=kind.interleaved, return_softmax_lse=True,
        )  # fmt: skip
        if kind.appends:
            options.update(k=self.k, v=self.v)
        if kind.rotary:
            options.update(rotary_cos=self.cos, rotary_sin=self.sin)
        if kind.alibi:
            options.update(alibi_slopes=self.slopes)
        if kind.leftpad:
            options.update(cache_leftpad=torch.tensor(self.first, dtype=torch.int32))
        if kind.batch_idx:
            options.update(cache_batch_idx=torch.tensor(self.entry))
        return flash_attn_with_kvcache(self.q, *self.caches, **{**options, **more})

    def rows(self, cache, number):
        """The keys that entry `number` has in a cache, one after another."""
        return cache[self.table[number].long()].flatten(0, 1) if self.kind.page else cache[self.entry[number]]

    def check(self, out, lse, tolerance=None):
        kind = self.kind
        rtol, atol = tolerance or TOLERANCE[kind.dtype]
        for number, length in enumerate(self.lengths):
            k, v = (x[self.entry[number]].double() for x in self.dense)
            q = self.q[number].double()
            end = length
            if kind.appends:
                end = length + self.new
                new, positions = self.k[number].double(), torch.arange(self.new) + length
                if kind.rotary:
                    is_local = kind.causal or kind.window != (-1, -1)
                    steps = torch.arange(len(q)) * is_local
                    q = rotate(q, self.cos, self.sin, length + steps, kind.interleaved).to(self.q.dtype).double()
                    new = rotate(new, self.cos, self.sin, positions, kind.interleaved).to(self.q.dtype).double()
                k[length:end], v[length:end] = new, self.v[number].double()
            for cache, exact in zip(self.caches, (k, v)):
                found = self.rows(cache, number).double()
                torch.testing.assert_close(found[length:end], exact[length:end], rtol=rtol, atol=atol)
                found[length:end] = exact[length:end]
                assert torch.equal(found, exact), "the cache has changed where nothing is new"
            slopes = None if not kind.alibi else self.slopes[number] if kind.alibi == 2 else self.slopes
            first = self.first[number] if kind.leftpad else 0
            exact, exact_lse = attend(q, k[:end], v[:end], kind, slopes, first)
            torch.testing.assert_close(out[number].double(), exact, rtol=rtol, atol=atol)
            torch.testing.assert_close(lse[number].double(), exact_lse, rtol=rtol, atol=atol)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind)).replace("torch.", ""))
def test_against_f64(kind):
    for seed in range(18):
        call = Call(kind, seed)
        call.check(*call.run())


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[2], KINDS[5], KINDS[8], KINDS[11], KINDS[13], KINDS[14]])
def test_double_precision(kind):
    for seed in range(5):
        call = Call(kind, seed, torch.float64)
        call.cos, call.sin = call.cos.double(), call.sin.double()
        call.check(*call.run(), tolerance=(1e-9, 1e-9))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_other_numbers_of_value_heads(dtype):
    q, k, v = (torch.randn(2, 3, heads, 32, dtype=dtype) for heads in (12, 3, 6))
    keys, values = (torch.zeros(2, 16, x.shape[2], 32, dtype=dtype) for x in (k, v))
    lengths = torch.tensor([0, 5], dtype=torch.int32)
    out = flash_attn_with_kvcache(q, keys, values, k, v, cache_seqlens=lengths, causal=True)
    for number, length in enumerate(lengths.tolist()):
        for cache, new in ((keys, k), (values, v)):
            assert torch.equal(cache[number, length : length + 3], new[number])
            assert not cache[number, :length].any() and not cache[number, length + 3 :].any()
        heads = [x[number, : length + 3].transpose(0, 1).repeat_interleave(12 // x.shape[2], 0) for x in (keys, values)]
        keep = torch.ones(3, length + 3, dtype=torch.bool).tril(length)
        exact = torch.nn.functional.scaled_dot_product_attention(q[number].transpose(0, 1), *heads, keep)
        torch.testing.assert_close(out[number], exact.transpose(0, 1), rtol=1e-4, atol=1e-5)


def test_one_number_of_keys():
    call = Call(Kind(0), 3)
    call.lengths = [min(call.lengths)] * len(call.lengths)
    call.check(*call.run(cache_seqlens=call.lengths[0]))


def test_lengths_are_not_changed():
    call = Call(KINDS[0], 1)
    lengths = torch.tensor(call.lengths, dtype=torch.int32)
    call.run(cache_seqlens=lengths)
    assert lengths.tolist() == call.lengths


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[5]])
def test_compile(kind):
    """A graph without breaks, which writes the cache."""
    expected, found = Call(kind, 4), Call(kind, 4)
    has_cap = kind.softcap == 3.0

    @torch.compile(fullgraph=True, backend="aot_eager")
    def step(call_q, k, v, keys, values, cos, sin, lengths, table):
        return flash_attn_with_kvcache(
            call_q, keys, values, k=k, v=v, rotary_cos=cos, rotary_sin=sin, cache_seqlens=lengths, block_table=table,
            causal=kind.causal, softcap=3.0 if has_cap else 0.0, rotary_interleaved=kind.interleaved,
        )  # fmt: skip

    lengths = torch.tensor(found.lengths, dtype=torch.int32)
    out = step(found.q, found.k, found.v, *found.caches, found.cos, found.sin, lengths, found.table)
    assert torch.equal(out, expected.run()[0])
    for mine, other in zip(found.caches, expected.caches):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("page", [-1, None])
def test_wrong_pages_are_reported(page):
    call = Call(KINDS[1], 5)
    number = call.lengths.index(max(call.lengths))
    call.table[number, call.lengths[number] // 16] = len(call.caches[0]) if page is None else page
    with pytest.raises(attn.AttnError, match="page table with an entry that is no page"):
        call.run()


@pytest.mark.parametrize("length", [-1, 1000, 2**31 - 1])
def test_wrong_lengths_are_reported(length):
    call = Call(KINDS[1], 5)
    before = [cache.clone() for cache in call.caches]
    call.lengths = [length] * len(call.lengths)
    with pytest.raises(attn.AttnError, match="number of keys that is negative or more than its cache has room for"):
        call.run()
    assert all(torch.equal(*pair) for pair in zip(before, call.caches))


def test_positions_without_angles_are_reported():
    call = Call(KINDS[0], 5)
    with pytest.raises(attn.AttnError, match="tables of the rotary embedding"):
        call.run(rotary_cos=call.cos[:3], rotary_sin=call.sin[:3])


def quantize(x, scale, dtype):
    """Rows [rows, heads, dim] divided by scales [heads], at most the largest number of the type."""
    largest = torch.finfo(dtype).max
    return (x.float() / scale[:, None]).clamp(-largest, largest).to(dtype)


class EightBits:
    """A call with a cache of 8 bits, of three entries in pages or contiguous."""

    def __init__(self, dtype, wide, page, rotary=0, scaled=True, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.dtype, self.page, self.lengths, self.new = dtype, page, [37, 0, 64], 5
        batch, rows = len(self.lengths), 80

        def make(*shape):
            return torch.randn(shape, generator=generator).to(wide)

        self.q, self.k, self.v = make(batch, 5, H, D), make(batch, 5, HKV, D), make(batch, 5, HKV, D)
        self.k[0, 0, 0, 0] = 1e6
        self.scales = [torch.rand(batch, HKV, generator=generator) + 0.25 for _ in range(2)] if scaled else [None] * 2
        shape = (batch * rows // page, page, HKV, D) if page else (batch, rows, HKV, D)
        self.caches = [make(*shape).to(dtype) for _ in range(2)]
        self.table = torch.randperm(shape[0], generator=generator).view(batch, -1).to(torch.int32) if page else None
        angles = torch.rand(POSITIONS, rotary // 2, generator=generator) * 6
        self.rotary = dict(rotary_cos=angles.cos(), rotary_sin=angles.sin(), rotary_interleaved=False) if rotary else {}
        self.before = [self.rows(cache).clone() for cache in self.caches]

    def rows(self, cache):
        if self.table is None:
            return cache
        return cache.view(torch.uint8)[self.table.long()].flatten(1, 2).view(self.dtype)

    def run(self, function=flash_attn_with_kvcache, **more):
        options = dict(
            k=self.k, v=self.v, cache_seqlens=torch.tensor(self.lengths, dtype=torch.int32), block_table=self.table,
            causal=True, k_descale=self.scales[0], v_descale=self.scales[1], **self.rotary,
        )  # fmt: skip
        return function(self.q, *self.caches, **{**options, **more})

    def check(self, out):
        ones = torch.ones(HKV)
        for number, length in enumerate(self.lengths):
            end, q, new = length + self.new, self.q[number].double(), [self.k[number], self.v[number]]
            if self.rotary:
                cos, sin = self.rotary["rotary_cos"], self.rotary["rotary_sin"]
                positions = torch.arange(self.new) + length
                q = rotate(q, cos, sin, positions, False).to(self.q.dtype).double()
                new[0] = rotate(new[0].double(), cos, sin, positions, False).float()
            wide = []
            for cache, x, scales, before in zip(self.caches, new, self.scales, self.before):
                scale = ones if scales is None else scales[number]
                found, exact = self.rows(cache)[number].float(), before[number].float()
                exact[length:end] = quantize(x, scale, self.dtype).float()
                # Rotated numbers between two of 8 bits may become either.
                step = 2.0**-2 if self.dtype == torch.float8_e5m2 else 2.0**-3
                torch.testing.assert_close(found, exact, rtol=step if self.rotary else 0, atol=0, equal_nan=True)
                assert (found == exact).float().mean() > 0.999
                wide.append(found[:end].double() * scale.double()[:, None])
            exact, _ = attend(q, *wide, Kind(0, causal=True), None, 0)
            torch.testing.assert_close(out[number].double(), exact, rtol=2e-2, atol=2e-2)


EIGHT_BITS = [
    EightBits(torch.float8_e4m3fn, torch.bfloat16, 16),
    EightBits(torch.float8_e5m2, torch.float16, 0, rotary=32),
    EightBits(torch.float8_e4m3fn, torch.float32, 0, rotary=16, scaled=False),
    EightBits(torch.float8_e5m2, torch.bfloat16, 0, scaled=False),
]


@pytest.mark.parametrize("call", EIGHT_BITS, ids=itertools.count())
def test_eight_bits(call):
    call.check(call.run())


def test_one_scale_of_eight_bits():
    """A scale that is left out is 1, and one number is for all heads."""
    call = EightBits(torch.float8_e4m3fn, torch.bfloat16, 16)
    out = call.run(k_descale=torch.tensor(0.5), v_descale=None)
    call.scales = [torch.full((3, HKV), 0.5), None]
    call.check(out)


def test_compile_eight_bits():
    """A graph of Inductor writes a cache of 8 bits."""
    expected, found = (EightBits(torch.float8_e4m3fn, torch.bfloat16, 16, rotary=32) for _ in range(2))
    compiled = torch.compile(flash_attn_with_kvcache, fullgraph=True)
    assert torch.equal(found.run(compiled), expected.run())
    for mine, other in zip(found.caches, expected.caches):
        assert torch.equal(mine.view(torch.uint8), other.view(torch.uint8))


def test_paged_cache_of_eight_bits():
    cache = attn.torch.PagedKVCache(1, HKV, D, pages=8, page_size=16, dtype=torch.float8_e4m3fn)
    cache.reserve("a", 40)
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(1, 40, heads, D, generator=generator).bfloat16() for heads in (H, HKV, HKV))
    scale, lengths = torch.full((1, HKV), 0.25), torch.zeros(1, dtype=torch.int32)
    out = cache.attend(
        0, q, k, v, cache_seqlens=lengths, block_table=cache.table(["a"]), causal=True, k_descale=scale, v_descale=scale
    )
    wide = [quantize(x[0], scale[0], torch.float8_e4m3fn).double() * 0.25 for x in (k, v)]
    exact, _ = attend(q[0], *wide, Kind(0, causal=True), None, 0)
    torch.testing.assert_close(out[0].double(), exact, rtol=2e-2, atol=2e-2)


def test_refusals_of_eight_bits():
    call = EightBits(torch.float8_e4m3fn, torch.bfloat16, 0)
    wide = torch.zeros(3, 80, HKV, D, dtype=torch.bfloat16)
    cases = [
        (dict(k_descale=torch.ones(3, HKV, dtype=torch.float64)), "k_descale is torch.float64, expected"),
        (dict(v_descale=torch.ones(3, HKV + 1)), r"v_descale has the shape \(3, 3\), which does not broadcast"),
        (dict(v=call.v.double()), "v has the dtype torch.float64"),
    ]
    for options, message in cases:
        with pytest.raises(attn.AttnError, match=message):
            call.run(**options)
    with pytest.raises(attn.UnsupportedError, match="k_descale is for tensors of torch.float8_e4m3fn"):
        flash_attn_with_kvcache(
            call.q, wide, wide, call.k, call.v, k_descale=call.scales[0],
            cache_seqlens=torch.zeros(3, dtype=torch.int32),
        )
    call.caches[1] = call.caches[1].to(torch.float8_e5m2)
    with pytest.raises(attn.AttnError, match="v_cache has the dtype torch.float8_e5m2 and k_cache torch.float8_e4m3fn"):
        call.run()
    for options, message in ((dict(cache_dtype="i8"), "cache_dtype is 'i8'; it must be bf16, f8E4M3FN or f8E5M2"),
                             (dict(scales=True), "scales are for a cache of f8E4M3FN or f8E5M2")):  # fmt: skip
        with pytest.raises(attn.AttnError, match=message):
            attn.CacheAppend("bf16", 2, 16, **options)


REFUSED = [
    (dict(v=None), "k and v are needed together"),
    (dict(cache_seqlens=None, block_table=None), "cache_seqlens is None, and k needs it"),
    (dict(k=torch.zeros(1, 1, 3, D), v=torch.zeros(1, 1, 3, D)), r"k_cache has the shape \(\d+, 2, 16, 32\), expected"),
    (dict(v=torch.zeros(1, 2, HKV, D)), "v has the shape"),
    (dict(k=torch.zeros(1, 1, HKV, D, dtype=torch.float16)), "v has the dtype torch.float32 and k torch.float16"),
    (dict(rotary_sin=None), "rotary_cos and rotary_sin are needed together"),
    (dict(rotary_cos=torch.zeros(99, 17), rotary_sin=torch.zeros(99, 17)), "positions and from 1 to 16 columns"),
    (dict(rotary_sin=torch.zeros(3, 16)), r"rotary_sin has the shape \(3, 16\), expected \(400, 16\)"),
    (dict(rotary_sin=torch.zeros(POSITIONS, 16, dtype=torch.float16)), "rotary_sin has the dtype torch.float16"),
    (dict(cache_seqlens=torch.zeros(1, dtype=torch.int64)), "cache_seqlens has the dtype torch.int64"),
    (dict(cache_seqlens=torch.zeros(3, dtype=torch.int32)), r"cache_seqlens has the shape \(3,\), expected \(1,\)"),
    (dict(block_table=torch.zeros(1, 9)), "block_table has the dtype torch.float32, expected torch.int32"),
    (dict(cache_batch_idx=torch.zeros(1, dtype=torch.int32)), "cache_batch_idx is given with block_table"),
    (dict(k=None, v=None), "rotary_cos is given without k and v"),
    (dict(alibi_slopes=torch.zeros(3)), r"alibi_slopes is torch.float32 of the shape \(3,\), expected"),
]


@pytest.mark.parametrize("options, message", REFUSED, ids=itertools.count())
def test_refusals(options, message):
    call = Call(Kind(16, rotary=32), 0)
    call.q, call.k, call.v, call.table, call.lengths = call.q[:1], call.k[:1], call.v[:1], call.table[:1], [3]
    with pytest.raises(attn.AttnError, match=message):
        call.run(**options)


def test_other_refusals():
    keys = torch.zeros(2, 20, HKV, D)
    q, k = torch.zeros(2, 1, H, D), torch.zeros(2, 1, HKV, D)
    lengths = torch.zeros(2, dtype=torch.int32)
    with pytest.raises(attn.UnsupportedError, match="needs a cache of a multiple of 16 positions .* 20 positions"):
        flash_attn_with_kvcache(q, keys, keys, cache_seqlens=lengths, cache_batch_idx=lengths)
    with pytest.raises(attn.AttnError, match=r"cache_leftpad has the dtype torch.int64, expected torch.int32"):
        flash_attn_with_kvcache(q, keys, keys, cache_leftpad=lengths.long())
    with pytest.raises(attn.UnsupportedError, match="k requires a gradient"):
        flash_attn_with_kvcache(q, keys, keys, k.clone().requires_grad_(), k, cache_seqlens=lengths)
    wide = torch.zeros(2, 20, HKV, 2 * D)[..., ::2]
    with pytest.raises(attn.AttnError, match="k_cache has a last dimension with a stride of 2"):
        flash_attn_with_kvcache(q, wide, keys, k, k, cache_seqlens=lengths)


def test_module():
    text = attn.CacheAppend("bf16", 8, 128, page_size=64, rotary_dim=64, query_heads=32, interleaved=True).mlir()
    assert "rotary(%cos, %sin : tensor<?x32xf32>, tensor<?x32xf32>) interleaved" in text
    function = attn.compile(attn.CacheAppend("f32", 2, 16, value_dim=8))["cache_append"]
    assert [name for name, *_ in function.args][:5] == ["key", "value", "key_lengths", "key_cache", "value_cache"]
    for options, message in ((dict(rotary_dim=3), "rotary_dim is 3"), (dict(query_heads=2), "which needs rotary_dim"),
                             (dict(rotary_dtype="f64"), "rotary_dtype is 'f64'")):  # fmt: skip
        with pytest.raises(attn.AttnError, match=message):
            attn.CacheAppend("f32", 2, 16, **options)
