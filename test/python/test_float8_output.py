# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Outputs of 8 bits on the host, against f64 that is rounded by the definition of the formats."""

import math
import re

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn import masks  # noqa: E402
from attn.torch import flash_attn_func, flash_attn_varlen_func, quantize, sdpa, varlen_attn  # noqa: E402

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
#: Bits of the mantissa, exponent of the smallest normal number, and the largest number.
FORMATS = {E4M3: (3, -6, 448.0), E5M2: (2, -14, 57344.0)}


def make(*shape, seed=0, dtype=torch.float32, scale=1.0):
    return (scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed))).to(dtype)


def round_to(numbers, dtype):
    """Numbers of f64, rounded to nearest even, and at most the largest number. NaN stays."""
    mantissa, smallest, largest = FORMATS[dtype]
    _, exponent = torch.frexp(numbers.nan_to_num(0.0, 0.0, 0.0))
    step = torch.exp2((exponent - 1).clamp(min=smallest).double() - mantissa)
    return ((numbers / step).round() * step).clamp(-largest, largest)


def distance(numbers, dtype):
    """Half of the distance of numbers of a format: the largest error of rounding."""
    mantissa, smallest, _ = FORMATS[dtype]
    exponent = torch.frexp(numbers)[1] - 1
    return torch.exp2(exponent.clamp(min=smallest).double() - mantissa - 1)


def reference(q, k, v, keep=None, scale=1.0):
    """Attention in f64, where each query has a key head and a value head of its group."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    scores = q @ k.mT * scale / math.sqrt(q.shape[-1])
    if keep is not None:
        scores = scores.masked_fill(~keep, -math.inf)
    weights = torch.exp(scores - scores.amax(-1, keepdim=True).nan_to_num(neginf=0.0))
    sums = weights.sum(-1, keepdim=True)
    return torch.where(sums == 0, 0.0, weights @ v / sums.clamp(min=1e-300))


def check(out, expected, scale, error):
    """An output is a rounding of a number that is within ``error``, relative to the largest one, of the expected one.
    Scales have the dimensions of the output, or none."""
    assert out.dtype in FORMATS
    largest = FORMATS[out.dtype][2]
    quotient = expected / scale
    allowed = distance(quotient, out.dtype) * 1.01 + error * expected.abs().amax() / scale
    difference = (out.double() - quotient.clamp(-largest, largest)).abs()
    assert (difference <= allowed).all(), float((difference / allowed).max())


def by_row(scale):
    return scale[..., None, None].double() if scale.dim() else scale.double()


RANGE = [0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 3.0e38, -3.0e38, 448.0, 464.0, 465.0, 480.0, 57344.0, 61440.0]


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("scale", [1.0, 2.0**-100, 2.0**100, 0.3, 448.0, -1.5])
def test_whole_range(dtype, scale):
    """With one key the output is the value: quotients of all exponents, ties, and numbers that are none."""
    exponents = torch.arange(-125, 128).double()
    mantissas = 1 + torch.arange(32).double() / 32
    numbers = (torch.exp2(exponents)[:, None] * mantissas).flatten().float()
    v = torch.cat([numbers, -numbers, torch.tensor(RANGE)])
    v = torch.cat([v, v.new_zeros(-len(v) % 64)]).reshape(-1, 1, 1, 64)
    q = k = torch.zeros_like(v)
    divisor = torch.tensor(scale)
    out = sdpa(q, k, v, out_dtype=dtype, out_scale=divisor)
    quotient = (v / divisor).double()
    # The mode of the processor may flush smaller ones.
    is_normal = quotient.isnan() | (quotient.abs() >= 2.0**-126) | (v == 0)
    expected = round_to(quotient, dtype)
    assert torch.equal(out.double().nan_to_num(-1.0)[is_normal], expected.nan_to_num(-1.0)[is_normal])
    assert torch.equal(out.isnan(), v.isnan())
    # All numbers of the format are there.
    if scale == 1.0:
        every = torch.arange(256, dtype=torch.uint8).view(dtype).double()
        assert set(every[every.isfinite()].tolist()) <= set(out.double().flatten().tolist())


CASES = {
    "full": (2, 4, 4, 37, 53, 64, {}),
    "causal": (1, 4, 2, 65, 65, 64, {"is_causal": True, "enable_gqa": True}),
    "few queries": (2, 8, 2, 1, 300, 128, {"enable_gqa": True}),
    "split": (1, 2, 1, 1, 5000, 64, {"enable_gqa": True}),
    "wide": (1, 2, 2, 33, 150, 256, {}),
    "narrow": (1, 3, 1, 19, 40, 24, {"enable_gqa": True}),
    # The first queries have no keys.
    "no keys": (1, 2, 2, 130, 70, 64, {"attn_mask": masks.sliding_window(left=20, right=3)}),
    "none": (1, 2, 2, 5, 0, 64, {}),
}
ERRORS_OF_INPUTS = {torch.float32: 1e-5, torch.bfloat16: 2.0**-7, torch.float16: 2.0**-9, E4M3: 0.1, E5M2: 0.1}


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("given", ERRORS_OF_INPUTS)
@pytest.mark.parametrize("case", CASES)
def test_sdpa(case, given, dtype):
    batch, heads, key_heads, queries, keys, dim, options = CASES[case]
    q = make(batch, heads, queries, dim, dtype=given)
    k, v = (make(batch, key_heads, keys, dim, seed=seed, dtype=given) for seed in (1, 2))
    keep = torch.ones(queries, keys, dtype=torch.bool)
    rows, columns = torch.arange(queries)[:, None], torch.arange(keys)
    if options.get("is_causal"):
        keep = columns <= rows
    elif "attn_mask" in options:
        last = rows + keys - queries
        keep = (columns >= last - 20) & (columns <= last + 3)
    expected = reference(q, k, v, keep) if keys else torch.zeros(q.shape, dtype=torch.float64)
    by_head = torch.rand(batch, heads, generator=torch.Generator().manual_seed(9)) / 64 + 0.01
    for scale in (None, torch.tensor(0.02), by_head):
        out, lse = sdpa(q, k, v, out_dtype=dtype, out_scale=scale, return_lse=True, **options)
        assert out.shape == expected.shape and lse.shape == expected.shape[:3]
        check(out, expected, by_row(torch.ones(()) if scale is None else scale), ERRORS_OF_INPUTS[given])
        assert (out.float()[~keep.any(-1).expand(batch, heads, queries)] == 0).all()


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("by_head", [False, True])
def test_amax(dtype, by_head):
    """It is of the output before the division. The 8 bits are the same as without it."""
    q, k, v = (make(2, 3, 50, 64, seed=seed, dtype=torch.bfloat16) for seed in range(3))
    v[1, 2] = 40 * v[1, 2]
    scale = torch.rand(2, 3) + 0.5 if by_head else torch.tensor(0.25)
    out, lse, amax = sdpa(q, k, v, is_causal=True, out_dtype=dtype, out_scale=scale, return_amax=True, return_lse=True)
    expected = reference(q, k, v, torch.ones(50, 50, dtype=torch.bool).tril()).abs()
    expected = expected.amax((2, 3)) if by_head else expected.amax()
    torch.testing.assert_close(amax.double(), expected, rtol=2.0**-7, atol=0.0)
    assert amax.dtype == torch.float32 and lse.shape == (2, 3, 50)
    plain = sdpa(q, k, v, is_causal=True, out_dtype=dtype, out_scale=scale)
    assert torch.equal(out.view(torch.uint8), plain.view(torch.uint8))


def test_amax_without_scale():
    q, k, v = (make(1, 2, 9, 64, seed=seed) for seed in range(3))
    out, amax = sdpa(q, k, v, out_dtype=E4M3, return_amax=True)
    check(out, reference(q, k, v), torch.tensor(1.0), 1e-5)
    torch.testing.assert_close(amax.double(), reference(q, k, v).abs().amax(), rtol=1e-5, atol=0.0)


def test_saturation():
    """A scale that is much too small leaves signs, and zeros of rows without keys."""
    q, k, v = (make(1, 2, 40, 64, seed=seed) for seed in range(3))
    keep = torch.arange(40)[:, None] != 7
    out = sdpa(q, k, v, attn_mask=keep.expand(40, 40), out_dtype=E5M2, out_scale=torch.tensor(1e-30))
    expected = reference(q, k, v, keep.expand(40, 40))
    assert torch.equal(out.double(), 57344.0 * expected.sign())
    assert (out.float()[:, :, 7] == 0).all()


def test_scales_that_are_no_numbers():
    """As in quantize: the quotients of IEEE 754, saturated."""
    q, k, v = (make(1, 4, 10, 64, seed=seed) for seed in range(3))
    scale = torch.tensor([[0.0, math.inf, math.nan, 1.0]])
    out = sdpa(q, k, v, out_dtype=E4M3, out_scale=scale)
    assert torch.equal(out.double()[:, 0], 448.0 * reference(q, k, v)[:, 0].sign())
    assert (out.double()[:, 1] == 0).all() and out[:, 2].isnan().all()
    check(out[:, 3:], reference(q, k, v)[:, 3:], torch.tensor(1.0), 1e-5)


def test_scales_of_inputs_and_output():
    q, k, v = (make(2, heads, 30, 64, seed=seed, dtype=E4M3) for seed, heads in enumerate((4, 2, 2)))
    of_values, of_out = torch.rand(2, 2) + 0.5, torch.rand(2, 4) / 8 + 0.1
    scales = {"k_descale": torch.tensor(0.5), "v_descale": of_values, "out_scale": of_out}
    out = sdpa(q, k, v, enable_gqa=True, out_dtype=E5M2, **scales)
    expected = reference(q, k, v, scale=0.5) * of_values.double().repeat_interleave(2, 1)[..., None, None]
    check(out, expected, by_row(of_out), 0.1)


def test_sinks_masks_and_state():
    """Results of other arguments are rounded as they are."""
    q, k, v = (make(1, 4, 20, 64, seed=seed) for seed in range(3))
    scale = torch.tensor(0.03)
    state = sdpa(q, k[:, :, :8], v[:, :, :8], return_lse=True)
    merged = sdpa(q, k[:, :, 8:], v[:, :, 8:], state=state, out_dtype=E4M3, out_scale=scale)
    check(merged, reference(q, k, v), scale.double(), 1e-5)
    for options in (
        {"sinks": torch.randn(4)},
        {"attn_mask": torch.randn(20, 20)},
        {"soft_cap": 5.0},
        {"identity": torch.rand(4)},
        {"head_map": torch.tensor([3, 3, 0, 1], dtype=torch.int32)},
    ):
        is_wide = {name: isinstance(x, torch.Tensor) and x.is_floating_point() for name, x in options.items()}
        exact = {name: x.double() if is_wide[name] else x for name, x in options.items()}
        expected = sdpa(q.double(), k.double(), v.double(), **exact)
        check(sdpa(q, k, v, out_dtype=E4M3, out_scale=scale, **options), expected, scale.double(), 1e-5)


def test_lengths():
    """Positions beyond the length of an entry are 0."""
    q, k, v = (make(2, 2, 30, 64, seed=seed) for seed in range(3))
    lengths = torch.tensor([30, 11], dtype=torch.int32)
    scale = torch.tensor(0.05)
    out = sdpa(q, k, v, query_lengths=lengths, key_lengths=lengths, out_dtype=E4M3, out_scale=scale)
    check(out[:1], reference(q[:1], k[:1], v[:1]), scale.double(), 1e-5)
    check(out[1:, :, :11], reference(*(x[1:, :, :11] for x in (q, k, v))), scale.double(), 1e-5)
    assert (out.float()[1, :, 11:] == 0).all()


def test_packed_sequences():
    """Kernels of packed sequences write 8 bits, too, without a scale."""
    description = attn.Attention("bf16", 2, 2, 64, sequences="packed", out_dtype="f8E4M3FN", batch=1)
    q, k, v = (make(1, 2, 50, 64, seed=seed, dtype=torch.bfloat16) for seed in range(3))
    bounds = torch.tensor([0, 20, 50], dtype=torch.int32)
    out = torch.empty(1, 2, 50, 64, dtype=E4M3)
    attn.compile(description, target="host")["attention"](q, k, v, bounds, bounds, out)
    for begin, end in ((0, 20), (20, 50)):
        parts = (x[:, :, begin:end] for x in (q, k, v))
        check(out[:, :, begin:end], reference(*parts), torch.tensor(1.0).double(), 2.0**-7)


@pytest.mark.parametrize("shape", [(7, 64), (3, 7, 64), (2, 2, 3, 7, 64)])
def test_numbers_of_dimensions(shape):
    q, k, v = (make(*shape, seed=seed) for seed in range(3))
    out, lse = sdpa(q, k, v, out_dtype=E4M3, out_scale=torch.tensor(0.1), return_lse=True)
    assert out.shape == shape and lse.shape == shape[:-1]
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double())
    check(out, expected, torch.tensor(0.1).double(), 1e-5)


def test_flash_attn_func():
    q, k, v = (make(2, 33, heads, 64, seed=seed, dtype=torch.bfloat16) for seed, heads in enumerate((4, 2, 2)))
    scale = torch.rand(2, 4) / 8 + 0.1
    out, lse, _, amax = flash_attn_func(
        q, k, v, causal=True, out_dtype=E4M3, out_scale=scale, return_amax=True, return_attn_probs=True
    )
    expected = reference(*(x.transpose(1, 2) for x in (q, k, v)), torch.ones(33, 33, dtype=torch.bool).tril())
    check(out.transpose(1, 2), expected, by_row(scale), 2.0**-7)
    torch.testing.assert_close(amax.double(), expected.abs().amax((2, 3)), rtol=2.0**-7, atol=0.0)
    plain = flash_attn_func(q, k, v, causal=True, out_dtype=E4M3, out_scale=scale)
    assert torch.equal(out.view(torch.uint8), plain.view(torch.uint8)) and lse.shape == (2, 4, 33)


BOUNDS = torch.tensor([0, 20, 20, 53], dtype=torch.int32)


@pytest.mark.parametrize("used", [None, torch.tensor([7, 0, 33], dtype=torch.int32)])
@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_packed_varlen_func(dtype, used):
    q, k, v = (make(53, heads, 64, seed=seed, dtype=torch.bfloat16) for seed, heads in enumerate((4, 2, 2)))
    scale = torch.tensor(0.06)
    out, lse, _, amax = flash_attn_varlen_func(
        q, k, v, BOUNDS, BOUNDS, causal=True, seqused_q=used, seqused_k=used, out_dtype=dtype, out_scale=scale,
        return_amax=True, return_attn_probs=True,
    )  # fmt: skip
    assert out.shape == (53, 4, 64) and out.dtype == dtype and lse.shape == (4, 53)
    largest = 0.0
    for number, begin in enumerate((0, 20, 20)):
        length = (20, 0, 33)[number] if used is None else used[number].item()
        if not length:
            continue
        parts = (x[begin : begin + length].transpose(0, 1)[None] for x in (q, k, v))
        expected = reference(*parts, torch.ones(length, length, dtype=torch.bool).tril())
        check(out[begin : begin + length].transpose(0, 1)[None], expected, scale.double(), 2.0**-7)
        largest = max(largest, expected.abs().max().item())
    if used is not None:
        assert (out[7:20].float() == 0).all()
    torch.testing.assert_close(amax.item(), largest, rtol=2.0**-7, atol=0.0)


def test_padded_varlen_func():
    q, k, v = (make(2, 30, heads, 64, seed=seed, dtype=torch.bfloat16) for seed, heads in enumerate((4, 2, 2)))
    used, scale = torch.tensor([30, 11], dtype=torch.int32), torch.rand(2, 4) / 8 + 0.1
    out = flash_attn_varlen_func(q, k, v, seqused_q=used, seqused_k=used, out_dtype=E4M3, out_scale=scale)
    for entry, length in enumerate((30, 11)):
        parts = (x[entry : entry + 1, :length].transpose(1, 2) for x in (q, k, v))
        rows = out[entry : entry + 1, :length].transpose(1, 2)
        check(rows, reference(*parts), by_row(scale)[entry : entry + 1], 2.0**-7)
    assert (out[1, 11:].float() == 0).all()
    # Keys alone have lengths, as in decoding.
    out, amax = flash_attn_varlen_func(
        q[:, :1], k, v, seqused_k=used, out_dtype=E4M3, out_scale=scale, return_amax=True
    )
    for entry, length in enumerate((30, 11)):
        parts = (x[entry : entry + 1].transpose(1, 2) for x in (q[:, :1], k[:, :length], v[:, :length]))
        expected = reference(*parts)
        check(out[entry : entry + 1].transpose(1, 2), expected, by_row(scale)[entry : entry + 1], 2.0**-7)
        torch.testing.assert_close(amax[entry].double(), expected.abs().amax((0, 2, 3)), rtol=2.0**-7, atol=0.0)


def test_compiled_varlen_func():
    q, k, v = (make(53, 2, 64, seed=seed, dtype=torch.bfloat16) for seed in range(3))

    def attend(q, k, v, scale):
        return flash_attn_varlen_func(q, k, v, BOUNDS, BOUNDS, out_dtype=E4M3, out_scale=scale, return_amax=True)

    results = [run(q, k, v, torch.tensor(0.05)) for run in (attend, torch.compile(attend, fullgraph=True))]
    assert torch.equal(*(out.view(torch.uint8) for out, _ in results)) and torch.equal(*(amax for _, amax in results))


@pytest.mark.parametrize("return_amax", [False, True])
def test_compiled(return_amax):
    q, k, v = (make(1, 4, 33, 64, seed=seed, dtype=torch.bfloat16) for seed in range(3))
    scale = torch.tensor([[0.5, 1.0, 2.0, 0.25]])

    def attend(q, k, v, scale):
        return sdpa(q, k, v, is_causal=True, out_dtype=E4M3, out_scale=scale, return_amax=return_amax)

    @torch.compile(fullgraph=True)
    def run(q, k, v, scale):
        results = attend(q, k, v, scale)
        out, *rest = results if return_amax else (results,)
        return out.float() * 2, *rest

    with torch.no_grad():
        out, *amax = run(q, k, v, scale)
    expected = attend(q, k, v, scale)
    if return_amax:
        assert torch.equal(amax[0], expected[1])
        expected = expected[0]
    assert torch.equal(out, expected.float() * 2)


def test_delayed_scaling():
    """The scale of each call follows from the amax of the one before; values that elements stand for are close."""
    scale = torch.tensor(1.0)
    for seed in range(4):
        q, k, v = (make(1, 2, 40, 64, seed=3 * seed + number) for number in range(3))
        out, amax = sdpa(q, k, v, out_dtype=E4M3, out_scale=scale, return_amax=True)
        check(out, reference(q, k, v), scale.double(), 1e-5)
        scale = 2 * amax / 448
    # The current scale is the one of quantize.
    current = quantize(sdpa(q, k, v), E4M3)
    assert torch.equal(current.amax, amax)


X, W = make(1, 4, 8, 64), make(1, 4, 8, 64).requires_grad_()
ONE = torch.tensor(1.0)
ROWS, SHORT = X[0, 0, :, None], torch.tensor([0, 8], dtype=torch.int32)
NESTED = torch.nested.nested_tensor([make(length, 4, 64) for length in (8, 5)], layout=torch.jagged).transpose(1, 2)
ERRORS = [
    (lambda: sdpa(X, X, X, out_scale=ONE), "out_scale is for outputs of 8 bits; pass out_dtype, or leave it out"),
    (lambda: sdpa(X, X, X, return_amax=True), "return_amax is for outputs of 8 bits"),
    (
        lambda: sdpa(X, X, X, out_dtype=torch.int8),
        "out_dtype is torch.int8, expected torch.float8_e4m3fn or torch.float8_e5m2, or None",
    ),
    (lambda: sdpa(X, X, X, out_dtype=E4M3, out_scale=0.5), "out_scale is float, expected a tensor of torch.float32"),
    (
        lambda: sdpa(X, X, X, out_dtype=E4M3, out_scale=ONE.double()),
        "out_scale is torch.float64, expected a tensor of torch.float32",
    ),
    (
        lambda: sdpa(X, X, X, out_dtype=E4M3, out_scale=torch.ones(1, 2)),
        "out_scale has the shape (1, 2), expected () or (1, 4): batch and query heads",
    ),
    (
        lambda: sdpa(X[0], X[0], X[0], out_dtype=E4M3, out_scale=torch.ones(4, 1)),
        "out_scale has the shape (4, 1), expected (), as query has not 4 dimensions",
    ),
    (
        lambda: sdpa(X, X, X, out_dtype=E4M3, out_scale=torch.ones((), device="meta")),
        "out_scale is on meta and query on cpu; move them to one device",
    ),
    (lambda: sdpa(X, W, X, out_dtype=E4M3), "key requires a gradient, which an output of torch.float8_e4m3fn does not"),
    (
        lambda: sdpa(X, X, X, attn_mask=torch.zeros(8, 8).requires_grad_(), out_dtype=E5M2),
        "captured tensor 0 requires a gradient",
    ),
    (
        lambda: sdpa(X, X, X, out_dtype=E4M3, out_scale=torch.tensor(1.0, requires_grad=True)),
        "out_scale requires a gradient",
    ),
    (
        lambda: sdpa(X, X, X, out_dtype=E4M3, straight_through=(X, X, X)),
        "straight_through is for gradients, which an output of torch.float8_e4m3fn does not have",
    ),
    (lambda: sdpa(X, X, X, out_dtype=E4M3, quantize_dout=quantize), "quantize_dout is for gradients"),
    (
        lambda: sdpa(*[NESTED] * 3, out_dtype=E4M3),
        "nested tensors go with neither lengths, pages, positions, scales, out_dtype nor return_lse",
    ),
    (lambda: sdpa(X, X, X, dropout_p=1.0, out_dtype=E4M3), "dropout_p is 1, with which the output is 0"),
    (lambda: sdpa(*[X.double()] * 3, out_dtype=E4M3), "out_dtype is torch.float8_e4m3fn, which goes with no query of"),
    (
        lambda: flash_attn_varlen_func(ROWS, ROWS, ROWS, SHORT, SHORT, out_dtype=E4M3, out_scale=torch.ones(2, 1)),
        "out_scale has the shape (2, 1), expected (), as query has not 4 dimensions",
    ),
    (
        lambda: flash_attn_varlen_func(ROWS, X, X, SHORT, seqused_k=SHORT[:1] + 4, out_dtype=E4M3),
        "out_dtype is given with cu_seqlens_q and a KV cache; leave it out, and call quantize(out)",
    ),
    (
        lambda: flash_attn_varlen_func(ROWS, ROWS, ROWS, SHORT, SHORT, return_amax=True),
        "return_amax is for outputs of 8 bits",
    ),
    (
        lambda: attn.Attention("bf16", 4, 4, 64, out_dtype="f16"),
        "out_dtype is 'f16' and dtype 'bf16'; it must be bf16 or f32 or f8E4M3FN or f8E5M2",
    ),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    call, text = ERRORS[number]
    with pytest.raises(attn.AttnError, match=re.escape(text)):
        call()


def test_no_gradients_are_needed():
    """Under no_grad, tensors may require gradients."""
    with torch.no_grad():
        out = sdpa(X, W, X, out_dtype=E4M3)
    assert not out.requires_grad
    check(out, reference(X, W.detach(), X), torch.tensor(1.0).double(), 1e-5)
    # varlen_attn has no such argument: its output is quantized after it.
    with pytest.raises(TypeError, match="out_dtype"):
        varlen_attn(X[0], X[0], X[0], torch.tensor([0, 4], dtype=torch.int32), out_dtype=E4M3)


@pytest.mark.parametrize("options", [
    {"dtype": "bf16"}, {"dtype": "f8E5M2"}, {"dtype": "f32"}, {"dtype": "f16", "query_dim": 80, "queries": 1},
    {"dtype": "bf16", "query_dim": 256}, {"dtype": "bf16", "sequences": "packed", "batch": 1},
])  # fmt: skip
@pytest.mark.parametrize("out", ["f8E4M3FN", "f8E5M2"])
def test_hopper_kernels(options, out):
    options = {"query_heads": 4, "key_heads": 2, "query_dim": 128, **options}
    epilogue = "" if "sequences" in options else (
        "%s = tensor.extract %c0[%b, %h] : tensor<?x?xf32> %y = arith.divf %x, %s : f32 attn.yield %y : f32"
    )
    captures = ("tensor<?x?xf32>",) if epilogue else ()
    description = attn.Attention(out_dtype=out, epilogue=epilogue, captures=captures, **options)
    attn.compile(description, target="sm_90a")
    if options["dtype"] != "f8E5M2":
        with pytest.raises(attn.AttnError, match=f"kernels on sm_80 cannot write an output of '{out}': it has no inst"):
            attn.compile(description, target="sm_80")


def test_other_default_dtype():
    """Scales that nobody gave are f32, whatever torch makes by default."""
    x = torch.randn(1, 2, 8, 64)
    torch.set_default_dtype(torch.float64)
    try:
        out, amax = sdpa(x, x, x, out_dtype=torch.float8_e4m3fn, return_amax=True)
    finally:
        torch.set_default_dtype(torch.float32)
    exact = torch.nn.functional.scaled_dot_product_attention(*[x.double()] * 3)
    torch.testing.assert_close(out.double(), exact, rtol=0.07, atol=2**-9)
    torch.testing.assert_close(amax.double().max(), exact.abs().max(), rtol=1e-5, atol=0)
