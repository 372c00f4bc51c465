# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Queries, keys and values of 8 bits on the host, against f64 and against torch's conversions."""

import math
import re

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn import masks  # noqa: E402
from attn.torch import flash_attn_func, flex_attention, sdpa, varlen_attn  # noqa: E402

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
NAMES = {E4M3: "f8E4M3FN", E5M2: "f8E5M2", torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


def make(*shape, seed=0, dtype=E4M3, scale=1.0):
    return (scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed))).to(dtype)


def convert(tensor, dtype):
    """Conversion by compiled code: by arith.extf and arith.truncf."""
    operation = "arith.truncf" if tensor.element_size() > torch.empty((), dtype=dtype).element_size() else "arith.extf"
    source, target = (f"tensor<{tensor.numel()}x{NAMES[kind]}>" for kind in (tensor.dtype, dtype))
    module = f"""#map = affine_map<(d0) -> (d0)>
func.func @convert(%x: {source}) -> {target} {{
  %init = tensor.empty() : {target}
  %y = linalg.generic {{indexing_maps = [#map, #map], iterator_types = ["parallel"]}}
      ins(%x : {source}) outs(%init : {target}) {{
  ^bb0(%a: {NAMES[tensor.dtype]}, %b: {NAMES[dtype]}):
    %c = {operation} %a : {NAMES[tensor.dtype]} to {NAMES[dtype]}
    linalg.yield %c : {NAMES[dtype]}
  }} -> {target}
  return %y : {target}
}}"""
    out = torch.empty(tensor.numel(), dtype=dtype)
    attn.compile(module, target="host")["convert"](tensor, out)
    return out


def bits(tensor):
    return tensor.view(torch.uint8)


def round_to(numbers, dtype):
    """Numbers that are rounded beyond the largest one become infinity, or NaN in E4M3. Some versions of torch saturate
    instead."""
    rounded = numbers.float().to(dtype)
    if dtype == E4M3:
        # 464 is half of a distance above 448.
        is_beyond = ~(numbers.float().abs() <= 464)
        return torch.where(is_beyond, 0x7F, rounded.view(torch.uint8)).view(E4M3)
    return rounded


def assert_same_bits(actual, expected):
    """Signs of NaN are of no matter, nor are their mantissas."""
    is_nan = expected.float().isnan()
    assert (actual.float().isnan() == is_nan).all()
    assert (bits(actual)[~is_nan] == bits(expected)[~is_nan]).all()


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("wide", [torch.float32, torch.bfloat16, torch.float16])
def test_extensions_are_exact(dtype, wide):
    values = torch.arange(256, dtype=torch.uint8).view(dtype)
    torch.testing.assert_close(convert(values, wide), values.to(wide), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_truncations_round_to_nearest_even(dtype):
    values = torch.arange(256, dtype=torch.uint8).view(dtype).float()
    finite = values[values.isfinite()].sort().values
    middles = (finite[1:] + finite[:-1]) / 2
    infinity = torch.tensor([math.inf])
    near = [torch.nextafter(middles, towards * infinity) for towards in (1, -1)]
    least, largest = 2.0**-126, torch.finfo(torch.float32).max
    special = torch.tensor(
        [0.0, -0.0, 1e-45, least, largest, -largest, math.inf, -math.inf, math.nan, 464.0, 465.0, -480.0]
    )
    generator = torch.Generator().manual_seed(0)
    everywhere = torch.randint(-(2**31), 2**31 - 1, (4096,), generator=generator, dtype=torch.int32)
    numbers = torch.cat([values, middles, *near, special, everywhere.view(torch.float32)])
    assert_same_bits(convert(numbers, dtype), round_to(numbers, dtype))


@pytest.mark.parametrize("wide", [torch.bfloat16, torch.float16])
def test_truncations_from_16_bits(wide):
    numbers = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(wide)
    for dtype in (E4M3, E5M2):
        assert_same_bits(convert(numbers, dtype), round_to(numbers, dtype))


def reference(q, k, v, keep=None, scales=(1.0, 1.0, 1.0), mod=None, rounds=False, sinks=None):
    """Attention in f64 to the values that elements stand for. ``rounds`` rounds probabilities as kernels with one key
    tile do."""
    group = q.shape[1] // k.shape[1]
    of_q, of_k, of_v = (
        scale.double().expand(k.shape[0], k.shape[1]).repeat_interleave(group, 1)[:, :, None, None]
        if isinstance(scale, torch.Tensor) else scale
        for scale in scales
    )  # fmt: skip
    q, k, v = q.double(), k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    scores = q @ k.mT / math.sqrt(q.shape[-1]) * of_q * of_k
    if mod is not None:
        scores = mod(scores)
    if keep is not None:
        scores = scores.masked_fill(~keep, -math.inf)
    most = scores.amax(-1, keepdim=True)
    if sinks is not None:
        most = torch.maximum(most, sinks.double()[:, None, None])
    most = most.masked_fill(most == -math.inf, 0.0)
    weights = torch.exp(scores - most)
    sums = weights.sum(-1, keepdim=True)
    if sinks is not None:
        sums = sums + torch.exp(sinks.double()[:, None, None] - most)
    if rounds:
        weights = (256 * weights).float().to(E4M3).double() / 256
    out = torch.where(sums == 0, 0.0, weights @ v / sums.clamp(min=1e-300)) * of_v
    return out, (most + sums.log())[..., 0]


def check(out, expected, tolerance=0.03):
    """The error is small relative to the result (root mean squares)."""
    assert out.isfinite().all()
    error = (out.double() - expected).square().mean().sqrt()
    assert error <= tolerance * expected.square().mean().sqrt(), float(error / expected.square().mean().sqrt())


CASES = {
    "full": (2, 4, 4, 37, 53, 64, {}),
    "causal": (1, 4, 2, 65, 65, 64, {"is_causal": True, "enable_gqa": True}),
    "few queries": (2, 8, 2, 1, 300, 128, {"enable_gqa": True}),
    "wide": (1, 2, 2, 33, 150, 256, {}),
    "narrow": (1, 3, 1, 19, 40, 24, {"enable_gqa": True}),
    "window": (1, 2, 2, 130, 130, 64, {"attn_mask": masks.sliding_window(left=20, right=3)}),
}


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("case", CASES)
def test_sdpa(case, dtype):
    batch, heads, key_heads, queries, keys, dim, options = CASES[case]
    q = make(batch, heads, queries, dim, dtype=dtype)
    k, v = (make(batch, key_heads, keys, dim, seed=seed, dtype=dtype) for seed in (1, 2))
    scales = [torch.rand(batch, key_heads, generator=torch.Generator().manual_seed(3 + i)) + 0.5 for i in range(3)]
    keep = None
    rows, columns = torch.arange(queries)[:, None], torch.arange(keys)
    if options.get("is_causal"):
        keep = columns <= rows
    elif "attn_mask" in options:
        keep = (columns >= rows - 20) & (columns <= rows + 3)
    out, lse = sdpa(
        q, k, v, q_descale=scales[0], k_descale=scales[1], v_descale=scales[2], return_lse=True, **options
    )  # fmt: skip
    assert out.dtype == torch.bfloat16 and lse.dtype == torch.float32
    expected, expected_lse = reference(q, k, v, keep, scales)
    check(out, expected)
    torch.testing.assert_close(lse.double(), expected_lse, rtol=1e-5, atol=1e-5)


def test_probabilities_are_rounded_once_to_e4m3():
    """With one key tile, probabilities times 256 are E4M3, and the result is rounded to bf16."""
    q, k, v = (make(1, 2, 16, 64, seed=seed) for seed in range(3))
    out = sdpa(q, k, v)
    expected, exact = reference(q, k, v, rounds=True)[0], reference(q, k, v)[0]
    torch.testing.assert_close(out.double(), expected, rtol=2**-8, atol=1e-6)
    # The test tells rounding from none.
    assert not torch.allclose(out.double(), exact, rtol=2**-8, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("narrow", [E4M3, E5M2])
def test_keys_and_values_alone(dtype, narrow):
    """Keys and values are extended exactly: the result is as exact as with wide ones."""
    q = make(2, 4, 9, 64, dtype=dtype)
    k, v = (make(2, 2, 70, 64, seed=seed, dtype=narrow) for seed in (1, 2))
    scale = torch.tensor([[0.5, 2.0], [1.5, 0.25]])
    out = sdpa(q, k, v, enable_gqa=True, is_causal=True, k_descale=scale, v_descale=scale)
    assert out.dtype == dtype
    keep = torch.arange(70) <= torch.arange(9)[:, None]
    check(out, reference(q, k, v, keep, (1.0, scale, scale))[0], {torch.float32: 1e-5}.get(dtype, 5e-3))


@pytest.mark.parametrize("dtypes", [(E4M3, E5M2, E4M3), (E5M2, E4M3, E4M3), (E4M3, E4M3, E5M2), (E5M2, E4M3, E5M2)])
def test_formats_of_queries_keys_and_values(dtypes):
    q, k, v = (
        make(2, heads, 77, 64, seed=seed, dtype=dtype) for seed, (heads, dtype) in enumerate(zip((4, 2, 2), dtypes))
    )
    scales = [torch.rand(2, 2, generator=torch.Generator().manual_seed(seed)) + 0.5 for seed in range(3)]
    names = dict(zip(("q_descale", "k_descale", "v_descale"), scales))
    out = sdpa(q, k, v, is_causal=True, enable_gqa=True, **names)
    keep = torch.arange(77) <= torch.arange(77)[:, None]
    check(out, reference(q, k, v, keep, scales)[0])


@pytest.mark.parametrize("dtypes", [("f8E5M2", "", ""), ("f8E4M3FN", "f8E5M2", ""), ("f8E5M2", "f8E4M3FN", "f8E5M2")])
@pytest.mark.parametrize("options", [{}, {"mask": "#attn.causal", "query_dim": 128}])
def test_hopper_kernels_of_both_formats(dtypes, options):
    dtype, key_dtype, value_dtype = dtypes
    options = {"query_heads": 4, "key_heads": 2, "query_dim": 64, "out_dtype": "bf16", **options}
    description = attn.Attention(dtype, key_dtype=key_dtype, value_dtype=value_dtype, **options)
    attn.compile(description, target="sm_90a")
    with pytest.raises(attn.AttnError, match="element type on sm_80 must be bf16, f16 or f32"):
        attn.compile(description, target="sm_80")


def test_scales_of_other_numbers_of_value_heads():
    """Keys have a scale for each key head, values one for each value head."""
    q, k, v = make(2, 4, 9, 64, dtype=torch.bfloat16), make(2, 2, 30, 64, seed=1), make(2, 4, 30, 64, seed=2)
    of_keys, of_values = torch.tensor([[0.5, 2.0], [1.5, 0.25]]), torch.rand(2, 4) + 0.5
    out = sdpa(q, k, v, enable_gqa=True, k_descale=of_keys, v_descale=of_values)
    k, v = k.double() * of_keys[..., None, None], v.double() * of_values[..., None, None]
    exact = torch.nn.functional.scaled_dot_product_attention(q.double(), k, v, enable_gqa=True)
    assert (out.double() - exact).norm() <= 5e-3 * exact.norm()
    with pytest.raises(attn.AttnError, match="does not broadcast to .2, 4.: batch and value heads"):
        sdpa(q, make(2, 2, 30, 64), make(2, 4, 30, 64), enable_gqa=True, v_descale=torch.ones(2, 2))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("narrow", [E4M3, E5M2])
@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("scales", ["", "each", "softcap"])
def test_paged_cache(dtype, narrow, queries, scales):
    """Keys behind the lengths are NaN; the order of pages does not matter. A cap of scores comes after the scales."""
    lengths, page = [61, 33, 0], 16
    generator = torch.Generator().manual_seed(3)
    q = torch.randn(3, 8, queries, 32, generator=generator).to(dtype)
    keys = torch.randn(2, 3, 2, 64, 32, generator=generator).to(narrow)
    table = torch.randperm(12, generator=generator).to(torch.int32).view(3, 4)
    caches = torch.full((2, 12, page, 2, 32), math.nan).to(narrow)
    for entry, length in enumerate(lengths):
        for row in range(length):
            at = table[entry, row // page], row % page
            for cache, source in zip(caches, keys):
                cache[at] = source[entry, :, row]
    factors, options, mod = (1.0, 1.0, 1.0), {}, None
    if scales:
        factors = (1.0, *(torch.rand(2, 3, 2, generator=generator) + 0.5))
        options = {"k_descale": factors[1], "v_descale": factors[2]}
    if scales == "softcap":
        options["softcap"], mod = 2.0, lambda s: 2 * torch.tanh(s / 2)
    out = attn.torch.flash_attn_with_kvcache(
        q.transpose(1, 2), *caches, cache_seqlens=torch.tensor(lengths, dtype=torch.int32), block_table=table,
        causal=True, **options
    ).transpose(1, 2)  # fmt: skip
    j, last = torch.arange(64), torch.tensor(lengths)[:, None, None]
    keep = (j < last) & (j <= torch.arange(queries)[:, None] + last - queries)
    expected, _ = reference(q, *keys, keep[:, None], factors, mod)
    check(out, expected, 0.004)
    assert (out[2] == 0).all()


def test_scores_of_score_mod_are_those_of_values():
    """A cap, and a mask that is added, come after the scales."""
    q, k, v = (make(1, 2, 30, 64, seed=seed) for seed in range(3))
    bias = torch.randn(30, 30, generator=torch.Generator().manual_seed(3))
    out = sdpa(q, k, v, attn_mask=bias, soft_cap=2.0, q_descale=torch.tensor(3.0), k_descale=torch.tensor([0.5]))
    scales = (torch.tensor(3.0), torch.tensor(0.5), 1.0)
    check(out, reference(q, k, v, scales=scales, mod=lambda s: 2 * torch.tanh(s / 2) + bias)[0])


@pytest.mark.parametrize("dtype", [E4M3, E5M2, torch.bfloat16])
@pytest.mark.parametrize("queries, sinks", [(40, False), (40, True), (1, False)])
def test_scales_of_any_sign_and_size(dtype, queries, sinks):
    """Kernels multiply the softmax scale by factors that are positive and of moderate size, and scores by others."""
    factors = torch.tensor([[1.0, 0.02, -3.0, 0.0, 1e-20, 1e20, -1e20, 7.5]])
    q = make(1, 16, queries, 64, dtype=dtype)
    k, v = (make(1, 8, 70, 64, seed=seed, dtype=E4M3 if dtype == torch.bfloat16 else dtype) for seed in (1, 2))
    options = {"sinks": make(16, seed=3, dtype=torch.float32)} if sinks else {}
    out, lse = sdpa(q, k, v, enable_gqa=True, k_descale=factors, return_lse=True, **options)
    expected, expected_lse = reference(q, k, v, scales=(1.0, factors, 1.0), sinks=options.get("sinks"))
    for head in range(16):
        check(out[:, head], expected[:, head])
    torch.testing.assert_close(lse.double(), expected_lse, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [E4M3, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("descale", [8.0, 40.0, 150.0, 800.0, 3e3, 1e5])
def test_scores_of_which_sums_are_rounded(dtype, descale):
    """Probabilities are multiplied by a power of two, whose logarithm is added to maxima from 1e6 to 1e12."""
    q = torch.full((1, 2, 5, 64), 300.0).to(dtype)
    k = torch.zeros(1, 2, 40, 64)
    k[:, :, 17] = 448.0
    k[:, :, 30] = 447.0
    v = make(1, 2, 40, 64, seed=2)
    out = sdpa(q, k.to(E4M3), v, k_descale=torch.tensor(descale))
    expected = v[:, :, [17, 30]].double().mean(2, keepdim=True).expand_as(out)
    # Both keys are the same number of 8 bits.
    check(out, expected)


def test_scales_that_are_not_a_number():
    q, k, v = (make(1, 2, 40, 64, seed=seed) for seed in range(3))
    out = sdpa(q, k, v, k_descale=torch.tensor([[math.nan, 1.0]]))
    assert out[:, 0].isnan().all() and out[:, 1].isfinite().all()


def test_sinks_and_rows_without_keys():
    q, k, v = (make(1, 4, 40, 64, seed=seed) for seed in range(3))
    sinks = torch.randn(4, generator=torch.Generator().manual_seed(4))
    keep = (torch.arange(40) <= torch.arange(40)[:, None]) & (torch.arange(40)[:, None] != 7)
    out, lse = sdpa(q, k, v, attn_mask=keep, sinks=sinks, return_lse=True)
    expected, expected_lse = reference(q, k, v, keep, sinks=sinks)
    check(out, expected)
    assert (out[:, :, 7] == 0).all()
    torch.testing.assert_close(lse.double(), expected_lse, rtol=1e-5, atol=1e-5)
    out, lse = sdpa(q, k, v, attn_mask=keep, return_lse=True)
    assert (out[:, :, 7] == 0).all() and (lse[:, :, 7] == -math.inf).all()


def test_dropout_drops_the_pairs_of_other_dtypes():
    """Values are rows of the identity matrix: the output has the probabilities."""
    q, k = (make(1, 2, 64, 64, seed=seed) for seed in range(2))
    v = torch.eye(64).expand(1, 2, 64, 64).contiguous()
    outs = []
    for dtype in (E4M3, torch.float32):
        torch.manual_seed(5)
        outs.append(sdpa(*(tensor.to(dtype) for tensor in (q, k, v)), dropout_p=0.5).double())
    # Probabilities below the least E4M3 number are 0 without dropout, too.
    is_seen = outs[1] > 2.0**-16
    assert ((outs[0] > 0) == (outs[1] > 0))[is_seen | (outs[1] == 0)].all()
    assert 0.4 < (outs[1] > 0).double().mean() < 0.6
    check(outs[0], outs[1])


def test_flash_attn_func():
    q, k, v = (make(2, 33, heads, 64, seed=seed) for seed, heads in enumerate((4, 2, 2)))
    scales = [torch.full((2, 2), number) for number in (0.5, 2.0, 3.0)]
    out, lse, _ = flash_attn_func(
        q, k, v, causal=True, q_descale=scales[0], k_descale=scales[1], v_descale=scales[2], return_attn_probs=True
    )
    keep = torch.arange(33) <= torch.arange(33)[:, None]
    expected, expected_lse = reference(*(tensor.transpose(1, 2) for tensor in (q, k, v)), keep, scales)
    check(out.transpose(1, 2), expected)
    torch.testing.assert_close(lse.double(), expected_lse, rtol=1e-5, atol=1e-5)


def test_flex_attention():
    q, k, v = (make(1, 2, 70, 64, seed=seed) for seed in range(3))
    out = flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + 0.25 * h)
    check(out, reference(q, k, v)[0])


def test_packed_sequences():
    q, k, v = (make(50, 2, 64, seed=seed) for seed in range(3))
    bounds = torch.tensor([0, 20, 50], dtype=torch.int32)
    out = varlen_attn(q, k, v, bounds, bounds, 30, 30)
    for begin, end in ((0, 20), (20, 50)):
        parts = (tensor[begin:end].transpose(0, 1)[None] for tensor in (q, k, v))
        check(out[begin:end].transpose(0, 1)[None], reference(*parts)[0])


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_whole_range(dtype):
    """The largest and the smallest numbers, and scales that take scores far away."""
    most = torch.finfo(dtype).max
    q, k, v = (make(1, 2, 20, 64, seed=seed, dtype=dtype) for seed in range(3))
    v = (v.float() * most).clamp(-most, most).to(dtype)
    check(sdpa(q, k, v), reference(q, k, v)[0])
    large = tuple((tensor.float() * most).clamp(-most, most).to(dtype) for tensor in (q, k))
    # One pair of each row has all of the probability.
    check(sdpa(*large, v), reference(*large, v)[0], 1e-2)
    small = tuple((tensor.float() * 2.0**-9).to(dtype) for tensor in (q, k))
    check(sdpa(*small, v), reference(*small, v)[0])
    scale = torch.tensor(2.0**40)
    check(sdpa(*small, v, q_descale=scale), reference(*small, v, scales=(scale, 1.0, 1.0))[0], 1e-2)
    assert (sdpa(q, k, torch.zeros_like(v)) == 0).all()


@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled(dynamic):
    q, k, v = (make(1, heads, 33, 64, seed=seed) for seed, heads in enumerate((8, 4, 4)))
    scale = torch.tensor([[0.5, 1.0, 2.0, 0.25]])

    @torch.compile(fullgraph=True, dynamic=dynamic)
    def run(q, k, v, scale):
        return sdpa(q, k, v, is_causal=True, enable_gqa=True, q_descale=scale, v_descale=scale).float() * 2

    with torch.no_grad():
        out = run(q, k, v, scale)
    once = sdpa(q, k, v, is_causal=True, enable_gqa=True, q_descale=scale, v_descale=scale)
    assert torch.equal(out, once.float() * 2)


X, NARROW, OTHER = torch.randn(1, 4, 8, 32), make(1, 4, 8, 32), make(1, 4, 8, 32, dtype=E5M2)
ERRORS = [
    (
        lambda: attn.torch.flash_attn_with_kvcache(X, X, X, k_descale=torch.tensor(1.0)),
        "k_descale is for tensors of torch.float8_e4m3fn and",
    ),
    (
        lambda: attn.torch.flash_attn_with_kvcache(X, NARROW, NARROW, v_descale=torch.ones(2, 8)),
        "v_descale has the shape (2, 8), which does not broadcast to (1, 8): batch and value heads",
    ),
    (lambda: sdpa(X, NARROW, OTHER), "value has the dtype torch.float8_e5m2 and key torch.float8_e4m3fn"),
    (lambda: sdpa(NARROW, X, X), "key has the dtype torch.float32 and query torch.float8_e4m3fn"),
    (lambda: sdpa(X, X, X, q_descale=torch.tensor(1.0)), "q_descale is for tensors of torch.float8_e4m3fn and"),
    (lambda: sdpa(X, NARROW, NARROW, q_descale=torch.tensor(1.0)), "q_descale is for tensors of"),
    (lambda: sdpa(NARROW, NARROW, NARROW, v_descale=2.0), "v_descale is float, expected a tensor of torch.float32"),
    (
        lambda: sdpa(NARROW, NARROW, NARROW, k_descale=torch.ones(2, dtype=torch.float64)),
        "k_descale is torch.float64, expected a tensor of torch.float32",
    ),
    (
        lambda: sdpa(NARROW, NARROW, NARROW, k_descale=torch.ones(1, 3)),
        "k_descale has the shape (1, 3), which does not broadcast to (1, 4): batch and key heads",
    ),
    (
        lambda: sdpa(NARROW, NARROW, NARROW, k_descale=torch.ones(()), head_map=torch.zeros(4, dtype=torch.int32)),
        "k_descale and head_map do not go together",
    ),
    (
        lambda: sdpa(NARROW, NARROW, NARROW, v_descale=torch.ones(()), query_lengths=torch.tensor([5])),
        "v_descale and sequences of different lengths do not go together; leave it out and multiply the output by it",
    ),
    (
        lambda: sdpa(NARROW, NARROW, NARROW, attn_mask=torch.zeros(8, 8, dtype=torch.float16)),
        "it must be torch.bool, that of the output (torch.bfloat16) or torch.float32",
    ),
    (
        lambda: sdpa(X, NARROW.clone().requires_grad_(), NARROW),
        "key has the dtype torch.float8_e4m3fn, for which there are no gradients",
    ),
    (lambda: attn.Attention("f8E5M2", 4, 4, 64), "out_dtype is '' and dtype 'f8E5M2'; it must be bf16 or f16 or f32"),
    (
        lambda: attn.Attention("f8E4M3FN", 4, 4, 64, key_dtype="bf16", out_dtype="bf16"),
        "key_dtype is 'bf16' and dtype 'f8E4M3FN'; it must be f8E4M3FN or f8E5M2",
    ),
    (
        lambda: attn.Attention("bf16", 4, 4, 64, key_dtype="f16"),
        "key_dtype is 'f16' and dtype 'bf16'; it must be dtype or f8E4M3FN or f8E5M2",
    ),
    (
        lambda: attn.Attention("bf16", 4, 4, 64, key_dtype="f8E4M3FN", value_dtype="f8E5M2"),
        "value_dtype is 'f8E5M2', dtype 'bf16' and the type of keys 'f8E4M3FN'; it must be 'f8E4M3FN'",
    ),
    (
        lambda: attn.Attention("f8E5M2", 4, 4, 64, value_dtype="f32", out_dtype="bf16"),
        "value_dtype is 'f32', dtype 'f8E5M2' and the type of keys 'f8E5M2'; it must be f8E4M3FN or f8E5M2",
    ),
    (
        lambda: sdpa(NARROW, NARROW, X),
        "value has the dtype torch.float32 and key torch.float8_e4m3fn; convert them to one",
    ),
    (lambda: attn.Attention("fp8", 4, 4, 64), "dtype is 'fp8'; it must be bf16, f16, f32, f8E4M3FN or f8E5M2"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    call, text = ERRORS[number]
    with pytest.raises(attn.AttnError, match=re.escape(text)):
        call()


@pytest.mark.parametrize(
    "target, options, text",
    [
        ("sm_80", {"dtype": "f8E4M3FN", "out_dtype": "bf16"}, "element type on sm_80 must be bf16, f16 or f32"),
        ("sm_80", {"dtype": "f8E5M2", "out_dtype": "f16"}, "element type on sm_80 must be bf16, f16 or f32"),
        ("sm_80", {"dtype": "f32", "key_dtype": "f8E5M2"}, "cannot convert keys and values of 'f8E5M2' to 'f32'"),
        ("sm_90a", {"dtype": "f32", "key_dtype": "f8E4M3FN"}, "cannot convert keys and values of 'f8E4M3FN' to 'f32'"),
    ],
)
def test_gpus_refuse(target, options, text):
    description = attn.Attention(query_heads=4, key_heads=4, query_dim=64, **options)
    with pytest.raises(attn.AttnError, match=text):
        attn.compile(description, target=target)
