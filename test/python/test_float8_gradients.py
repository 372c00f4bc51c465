# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of attention to queries, keys and values of 8 bits on the host, against f64."""

import math
import re

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn import masks  # noqa: E402
from attn.torch import flash_attn_func, flash_attn_varlen_func, flex_attention  # noqa: E402
from attn.torch import quantize, sdpa, varlen_attn  # noqa: E402

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
NAMES = ("query", "key", "value")


def randn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def by_row(scale, heads):
    return scale.repeat_interleave(heads // scale.shape[1], 1)[:, :, None, None]


def dequantize(quantized):
    """The values that elements stand for, in f64, as leaves."""
    scale = quantized.scale[:, :, None, None] if quantized.scale.dim() else quantized.scale
    return (quantized.values.double() * scale.double()).requires_grad_()


def reference(q, k, v, keep=None, mod=None, sinks=None, keep_mask=None, p=0.0):
    """Attention in f64: the output and the log-sum-exp."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mod is not None:
        scores = mod(scores)
    if keep is not None:
        scores = scores.masked_fill(~keep, -math.inf)
    columns = scores if sinks is None else torch.cat([scores, sinks.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)], -1)
    lse = columns.logsumexp(-1)
    weights = torch.where(lse.isinf()[..., None], 0.0, (scores - lse[..., None]).exp())
    if keep_mask is not None:
        weights = weights * keep_mask / (1 - p)
    return weights @ v, lse


def find_error(actual, expected):
    expected = expected.double()
    return ((actual.double() - expected).square().mean() / expected.square().mean()).sqrt().item()


def check(gradients, expected, tolerance=0.012):
    for name, gradient, wanted in zip(NAMES, gradients, expected):
        assert gradient.isfinite().all(), name
        assert find_error(gradient, wanted) < tolerance, name


def make(sizes, dtypes=(E4M3, E4M3, E4M3), granularity="head", scale=1.0, dtype=torch.float32):
    """Tensors before rounding, which require gradients, and rounded ones."""
    sources = [(scale * randn(*shape, seed=seed)).to(dtype) for seed, shape in enumerate(sizes)]
    rounded = [quantize(x, kind, granularity) for x, kind in zip(sources, dtypes)]
    return [x.requires_grad_() for x in sources], rounded


def scales_of(rounded):
    """Scales as ``sdpa`` takes them: queries have one for each key head."""
    return {name: x.scale for name, x in zip(("q_descale", "k_descale", "v_descale"), rounded)}


CASES = {
    "plain 64": ((2, 4, 70, 64), (2, 4, 90, 64), 64, False),
    "plain 128": ((1, 2, 130, 128), (1, 2, 130, 128), 128, False),
    "causal 128": ((1, 2, 97, 128), (1, 2, 97, 128), 128, True),
    "causal, odd lengths": ((2, 2, 33, 64), (2, 2, 33, 64), 64, True),
    "other head dim of values": ((1, 2, 31, 64), (1, 2, 77, 64), 32, False),
    "one query": ((1, 2, 1, 64), (1, 2, 65, 64), 64, False),
}


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("case", list(CASES))
def test_sdpa(case, dtype):
    of_query, of_key, value_dim, is_causal = CASES[case]
    sources, rounded = make((of_query, of_key, (*of_key[:3], value_dim)), (dtype,) * 3)
    out = sdpa(*(x.values for x in rounded), is_causal=is_causal, straight_through=tuple(sources), **scales_of(rounded))
    assert out.dtype == torch.bfloat16
    dout = randn(*out.shape, seed=7).to(torch.bfloat16)
    gradients = torch.autograd.grad(out, sources, dout)
    assert [x.dtype for x in gradients] == [torch.float32] * 3
    leaves = [dequantize(x) for x in rounded]
    keep = torch.ones(of_query[2], of_key[2], dtype=torch.bool).tril() if is_causal else None
    expected = reference(*leaves, keep)[0]
    check(gradients, torch.autograd.grad(expected, leaves, dout.double()))


def test_kernels_differentiate_at_the_given_output():
    """The gradient itself has no rounding of probabilities: with the output of f64 it is f32's, up to the rounding of
    the output and of its gradient."""
    module = """
func.func @grad(%q: tensor<1x2x?x64xf8E4M3FN>, %k: tensor<1x2x?x64xf8E4M3FN>, %v: tensor<1x2x?x64xf8E4M3FN>,
    %out: tensor<1x2x?x64xf32>, %lse: tensor<1x2x?xf32>, %dout: tensor<1x2x?x64xf8E5M2>)
    -> (tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>) {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %q, %c2 : tensor<1x2x?x64xf8E4M3FN>
  %m = tensor.dim %k, %c2 : tensor<1x2x?x64xf8E4M3FN>
  %dq = tensor.empty(%n) : tensor<1x2x?x64xf32>
  %dk = tensor.empty(%m) : tensor<1x2x?x64xf32>
  %r:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : tensor<1x2x?x64xf8E4M3FN>,
      tensor<1x2x?x64xf8E4M3FN>, tensor<1x2x?x64xf8E4M3FN>, tensor<1x2x?x64xf32>, tensor<1x2x?xf32>,
      tensor<1x2x?x64xf8E5M2>)
      outs(%dq, %dk, %dk : tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>)
      -> tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>
  return %r#0, %r#1, %r#2 : tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>
}"""
    q, k, v = (randn(1, 2, rows, 64, seed=seed).to(E4M3) for seed, rows in enumerate((51, 83, 83)))
    dout = randn(1, 2, 51, 64, seed=3).to(E5M2)
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    out, lse = reference(*leaves)
    gradients = [torch.empty(x.shape) for x in (q, k, v)]
    results = (out.detach().float(), lse.detach().float(), dout)
    attn.compile(module, target="host")["grad"](q, k, v, *results, *gradients)
    check(gradients, torch.autograd.grad(out, leaves, dout.double()), 1e-6)


def test_grouped_heads_and_other_value_heads():
    sources, rounded = make(((2, 8, 40, 64), (2, 2, 50, 64), (2, 4, 50, 64)))
    # A scale of queries is for all query heads of a key head.
    q_scale = rounded[0].scale[:, ::4].contiguous()
    q = quantize(sources[0].detach(), E4M3, "head", scale=by_row(q_scale, 8)[..., 0, 0].contiguous())
    out = sdpa(
        q.values, rounded[1].values, rounded[2].values, enable_gqa=True, q_descale=q_scale, k_descale=rounded[1].scale,
        v_descale=rounded[2].scale, straight_through=tuple(sources),
    )  # fmt: skip
    dout = randn(*out.shape, seed=5).to(torch.bfloat16)
    leaves = [dequantize(x) for x in (q, *rounded[1:])]
    expected = torch.autograd.grad(reference(*leaves)[0], leaves, dout.double())
    check(torch.autograd.grad(out, sources, dout), expected)


@pytest.mark.parametrize("granularity", ["tensor", "head"])
def test_gradient_of_the_output_in_8_bits(granularity):
    sources, rounded = make([(2, 4, 60, 64)] * 3, dtype=torch.bfloat16)
    seen = []

    def round_dout(dout):
        seen.append(quantize(dout, E5M2, granularity))
        return seen[-1]

    out = sdpa(
        *(x.values for x in rounded), is_causal=True, straight_through=tuple(sources), quantize_dout=round_dout,
        **scales_of(rounded),
    )  # fmt: skip
    # So small a gradient would be zero without its scale.
    dout = (2.0**-20 * randn(*out.shape, seed=5)).to(torch.bfloat16)
    gradients = torch.autograd.grad(out, sources, dout)
    assert [x.dtype for x in gradients] == [torch.bfloat16] * 3 and len(seen) == 1
    leaves = [dequantize(x) for x in rounded]
    keep = torch.ones(60, 60, dtype=torch.bool).tril()
    check(gradients, torch.autograd.grad(reference(*leaves, keep)[0], leaves, dequantize(seen[0]).detach()))


def test_log_sum_exp_sinks_bias_and_cap():
    sources, rounded = make([(1, 4, 45, 64)] * 3)
    sinks, bias = randn(4, seed=3).requires_grad_(), randn(1, 4, 1, 45, seed=4).requires_grad_()
    out, lse = sdpa(
        *(x.values for x in rounded), bias, soft_cap=5.0, sinks=sinks, return_lse=True,
        straight_through=tuple(sources), **scales_of(rounded),
    )  # fmt: skip
    dout, dlse = randn(*out.shape, seed=5).to(torch.bfloat16), randn(*lse.shape, seed=6)
    gradients = torch.autograd.grad((out, lse), (*sources, sinks, bias), (dout, dlse))
    leaves = [dequantize(x) for x in rounded]
    others = [x.detach().double().requires_grad_() for x in (sinks, bias)]
    expected = reference(*leaves, mod=lambda s: 5 * torch.tanh(s / 5) + others[1], sinks=others[0])
    wanted = torch.autograd.grad(expected, (*leaves, *others), (dout.double(), dlse.double()))
    check(gradients, wanted)
    # The gradient of sinks is a sum of multiples of the output, which has the rounding of probabilities.
    assert find_error(gradients[3], wanted[3]) < 0.05 and find_error(gradients[4], wanted[4]) < 0.012


def test_dropout_of_the_same_pairs():
    """A gradient of ones to values of one number shows which pairs are kept."""
    sources, rounded = make([(1, 2, 40, 64)] * 3)
    options = {"dropout_p": 0.25, "straight_through": tuple(sources), **scales_of(rounded)}
    torch.manual_seed(3)
    identity = torch.eye(40, 64).expand(1, 2, 40, 64).contiguous().to(E4M3)
    zeros = torch.zeros(1, 2, 40, 64).to(E4M3)
    weights = sdpa(zeros, zeros, identity, dropout_p=0.25)[..., :40]
    torch.manual_seed(3)
    out = sdpa(*(x.values for x in rounded), **options)
    dout = randn(*out.shape, seed=5).to(torch.bfloat16)
    leaves = [dequantize(x) for x in rounded]
    expected = reference(*leaves, keep_mask=(weights > 0).double(), p=0.25)[0]
    check(torch.autograd.grad(out, sources, dout), torch.autograd.grad(expected, leaves, dout.double()))


def test_masks_and_deterministic():
    sources, rounded = make([(1, 2, 80, 64)] * 3)
    call = lambda: sdpa(  # noqa: E731
        *(x.values for x in rounded), masks.sliding_window(16, 0), deterministic=True, straight_through=tuple(sources),
        **scales_of(rounded),
    )  # fmt: skip
    out = call()
    dout = randn(*out.shape, seed=5).to(torch.bfloat16)
    gradients = torch.autograd.grad(out, sources, dout)
    again = torch.autograd.grad(call(), sources, dout)
    assert all(torch.equal(*pair) for pair in zip(gradients, again))
    distance = torch.arange(80)[:, None] - torch.arange(80)
    leaves = [dequantize(x) for x in rounded]
    expected = reference(*leaves, (distance >= 0) & (distance <= 16))[0]
    check(gradients, torch.autograd.grad(expected, leaves, dout.double()))


def test_lengths():
    sources, rounded = make([(2, 2, 40, 64)] * 3)
    lengths = torch.tensor([40, 17], dtype=torch.int32)
    out = sdpa(
        *(x.values for x in rounded), query_lengths=lengths, key_lengths=lengths, straight_through=tuple(sources),
        q_descale=rounded[0].scale, k_descale=rounded[1].scale,
    )  # fmt: skip
    dout = randn(*out.shape, seed=5).to(torch.bfloat16)
    gradients = torch.autograd.grad(out, sources, dout)
    assert all((x[1, :, 17:] == 0).all() for x in gradients)
    for entry, length in enumerate(lengths.tolist()):
        leaves = [dequantize(x)[entry : entry + 1, :, :length].detach().requires_grad_() for x in rounded[:2]]
        leaves.append(rounded[2].values[entry : entry + 1, :, :length].double().requires_grad_())
        part = dout[entry : entry + 1, :, :length].double()
        expected = torch.autograd.grad(reference(*leaves)[0], leaves, part)
        check([x[entry : entry + 1, :, :length] for x in gradients], expected)


@pytest.mark.parametrize("function", ["varlen_attn", "flash_attn_varlen_func"])
def test_packed_sequences(function):
    sources = [randn(50, 2, 64, seed=seed).requires_grad_() for seed in range(3)]
    rounded = [x.detach().to(E4M3) for x in sources]
    bounds = torch.tensor([0, 20, 50], dtype=torch.int32)
    call = varlen_attn if function == "varlen_attn" else flash_attn_varlen_func
    out = call(*rounded, bounds, bounds, 30, 30, straight_through=tuple(sources))
    dout = randn(*out.shape, seed=5).to(torch.bfloat16)
    gradients = torch.autograd.grad(out, sources, dout)
    for begin, end in ((0, 20), (20, 50)):
        leaves, part = [x[begin:end].double().requires_grad_() for x in rounded], dout[begin:end].double()
        expected = reference(*(x.transpose(0, 1)[None] for x in leaves))[0][0].transpose(0, 1)
        check([x[begin:end] for x in gradients], torch.autograd.grad(expected, leaves, part))


def test_flash_attn_func():
    sources = [randn(2, 33, heads, 64, seed=seed).requires_grad_() for seed, heads in enumerate((4, 2, 2))]
    rounded = [x.detach().to(E4M3) for x in sources]
    scales = [torch.tensor([[0.5, 2.0], [1.0, 3.0]]) / 4, torch.full((2, 2), 0.75), torch.full((2, 2), 0.1)]
    out = flash_attn_func(
        *rounded, causal=True, q_descale=scales[0], k_descale=scales[1], v_descale=scales[2],
        straight_through=tuple(sources),
    )  # fmt: skip
    dout = randn(*out.shape, seed=5).to(torch.bfloat16)
    leaves = [
        (x.transpose(1, 2).double() * by_row(scale, x.shape[2]).double()).requires_grad_()
        for x, scale in zip(rounded, scales)
    ]
    keep = torch.ones(33, 33, dtype=torch.bool).tril()
    expected = torch.autograd.grad(reference(*leaves, keep)[0], leaves, dout.transpose(1, 2).double())
    gradients = torch.autograd.grad(out, sources, dout)
    check(gradients, [x.transpose(1, 2) for x in expected])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("narrow", [E4M3, E5M2])
def test_keys_and_values_alone(dtype, narrow):
    query = randn(2, 4, 37, 64).to(dtype).requires_grad_()
    sources, rounded = make([(2, 2, 50, 64)] * 2, (narrow, narrow))
    out = sdpa(
        query, *(x.values for x in rounded), enable_gqa=True, k_descale=rounded[0].scale, v_descale=rounded[1].scale,
        straight_through=(None, *sources),
    )  # fmt: skip
    dout = randn(*out.shape, seed=5).to(dtype)
    gradients = torch.autograd.grad(out, (query, *sources), dout)
    assert [x.dtype for x in gradients] == [dtype, torch.float32, torch.float32]
    leaves = [query.detach().double().requires_grad_(), *(dequantize(x) for x in rounded)]
    check(gradients, torch.autograd.grad(reference(*leaves)[0], leaves, dout.double()), 0.01)


def test_gradients_of_captures_alone():
    q, k, v = (randn(1, 2, 30, 64, seed=seed).to(E4M3) for seed in range(3))
    bias = randn(2, 30, seed=3).requires_grad_()
    expected_bias = bias.detach().double().requires_grad_()
    dout = randn(1, 2, 30, 64, seed=5).to(torch.bfloat16)
    expected = reference(q.double(), k.double(), v.double(), mod=lambda s: s + expected_bias[:, None])[0]
    (wanted,) = torch.autograd.grad(expected, expected_bias, dout.double())
    for out in (
        flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + bias[h, j]),
        sdpa(q, k, v, bias[None, :, None], v_descale=torch.tensor(1.0)),
    ):
        assert find_error(torch.autograd.grad(out, bias, dout)[0], wanted) < 0.02


def test_compiled():
    sources, rounded = make([(1, 4, 33, 64)] * 3)
    values, scales = [x.values for x in rounded], [x.scale for x in rounded]

    def run(sources, values, scales):
        out = sdpa(
            *values, is_causal=True, q_descale=scales[0], k_descale=scales[1], v_descale=scales[2],
            straight_through=tuple(sources),
        )  # fmt: skip
        return out.float().square().sum()

    expected = torch.autograd.grad(run(sources, values, scales), sources)
    actual = torch.autograd.grad(torch.compile(run, fullgraph=True)(sources, values, scales), sources)
    check(actual, expected, 0.01)


def test_results_are_those_without_gradients():
    sources, rounded = make([(1, 2, 50, 64)] * 3)
    values, scales = [x.values for x in rounded], scales_of(rounded)
    out, lse = sdpa(*values, straight_through=tuple(sources), return_lse=True, **scales)
    with torch.no_grad():
        expected, expected_lse = sdpa(*values, return_lse=True, **scales)
    assert torch.equal(out, expected) and torch.equal(lse, expected_lse)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
@pytest.mark.parametrize("narrow", [E4M3, E5M2])
def test_small_scales_of_values_for_queries_of_f16(narrow, scale):
    """The gradient of the output, times the scale, would be zero in f16."""
    query = randn(2, 4, 37, 64).half().requires_grad_()
    sources, rounded = make([(2, 4, 50, 64)] * 2, (narrow, narrow))
    sinks, bias = randn(4, seed=3).requires_grad_(), randn(1, 4, 1, 50, seed=4).requires_grad_()
    descale = rounded[1].scale * scale
    out, lse = sdpa(
        query, *(x.values for x in rounded), bias, sinks=sinks, k_descale=rounded[0].scale, v_descale=descale,
        return_lse=True, straight_through=(None, *sources),
    )  # fmt: skip
    dout, dlse = randn(*out.shape, seed=5).half(), scale * randn(*lse.shape, seed=6)
    gradients = torch.autograd.grad((out, lse), (query, *sources, sinks, bias), (dout, dlse))
    leaves = [query.detach().double().requires_grad_(), dequantize(rounded[0])]
    leaves.append((rounded[1].values.double() * by_row(descale, 4).double()).requires_grad_())
    others = [x.detach().double().requires_grad_() for x in (sinks, bias)]
    expected = reference(*leaves, mod=lambda s: s + others[1], sinks=others[0])
    wanted = torch.autograd.grad(expected, (*leaves, *others), (dout.double(), dlse.double()))
    check(gradients, wanted, 0.005)
    assert find_error(gradients[3], wanted[3]) < 0.02 and find_error(gradients[4], wanted[4]) < 0.005


def test_gradients_of_zero_for_queries_of_f16():
    query = randn(1, 2, 8, 64).half().requires_grad_()
    sources, rounded = make([(1, 2, 9, 64)] * 2)
    out = sdpa(
        query, *(x.values for x in rounded), v_descale=rounded[1].scale, straight_through=(None, *sources)
    )  # fmt: skip
    for gradient in torch.autograd.grad(out, (query, *sources), torch.zeros_like(out)):
        assert (gradient == 0).all()


SHAPES = {
    "positions": ((20, 64), (30, 64), {}),
    "batch": ((3, 20, 64), (3, 30, 64), {}),
    "heads": ((4, 20, 64), (2, 30, 64), {"enable_gqa": True}),
    "five": ((2, 3, 2, 20, 64), (2, 3, 2, 30, 64), {}),
    "five, broadcast": ((2, 3, 4, 20, 64), (1, 3, 4, 30, 64), {}),
    "broadcast batch": ((2, 4, 20, 64), (1, 4, 30, 64), {}),
    "broadcast heads": ((2, 4, 20, 64), (2, 1, 30, 64), {}),
}


@pytest.mark.parametrize("case", list(SHAPES))
def test_shapes(case):
    *shapes, options = SHAPES[case]
    sources = [randn(*shape, seed=seed).requires_grad_() for seed, shape in enumerate((*shapes, shapes[1]))]
    rounded = [x.detach().to(E4M3) for x in sources]
    out = sdpa(*rounded, straight_through=tuple(sources), **options)
    dout = randn(*out.shape, seed=5).to(torch.bfloat16)
    leaves = [x.double().requires_grad_() for x in rounded]
    expected = torch.nn.functional.scaled_dot_product_attention(*leaves, **options)
    assert out.shape == expected.shape
    gradients = torch.autograd.grad(out, sources, dout)
    assert [x.shape for x in gradients] == [x.shape for x in sources]
    check(gradients, torch.autograd.grad(expected, leaves, dout.double()))


def test_keys_that_require_gradients_after_calls_that_do_not():
    query = Q.clone().requires_grad_()
    for _ in range(2):
        sdpa(query, N, N).sum().backward()
    for position in (1, 2):
        tensors = [query, N, N]
        tensors[position] = N.clone().requires_grad_()
        with pytest.raises(attn.AttnError, match=f"{NAMES[position]} has the dtype torch.float8_e4m3fn, for which"):
            sdpa(*tensors)
    sdpa(query, N, N).sum().backward()


def test_forward_mode():
    with torch.autograd.forward_ad.dual_level():
        source = torch.autograd.forward_ad.make_dual(Q, torch.ones_like(Q))
        for place in range(3):
            sources = [None] * 3
            sources[place] = source
            with pytest.raises(attn.AttnError, match="attention has no forward-mode derivatives"):
                sdpa(N, N, N, straight_through=tuple(sources))


def test_transformations():
    text = "attention to tensors of 8 bits has no gradients within transformations of torch.func"
    function = lambda x: sdpa(N, N, N, straight_through=(None, x, None)).float().sum()  # noqa: E731
    source = Q.clone().requires_grad_()
    for call in (
        lambda: torch.func.grad(function)(Q),
        lambda: torch.func.vjp(function, Q),
        lambda: torch.vmap(function)(source[None]),
        lambda: torch.func.grad(lambda x: sdpa(x, N, N).sum())(Q),
    ):
        with pytest.raises(attn.AttnError, match=text):
            call()


Q = randn(1, 2, 8, 64)
N = Q.to(E4M3)
BOUNDS = torch.tensor([0, 2], dtype=torch.int32)
ERRORS = [
    (
        lambda: sdpa(N.clone().requires_grad_(), N, N),
        "query has the dtype torch.float8_e4m3fn, for which there are no gradients; pass the tensors before rounding "
        "as straight_through",
    ),
    (
        lambda: flex_attention(N, N.clone().requires_grad_(), N),
        "key has the dtype torch.float8_e4m3fn, for which there are no gradients",
    ),
    (
        lambda: sdpa(N, N, N, v_descale=torch.tensor(1.0, requires_grad=True)),
        "v_descale requires a gradient, which scales do not have",
    ),
    (lambda: sdpa(N, N, N, straight_through=Q), "straight_through must be a tuple of three"),
    (lambda: sdpa(Q, N, N, straight_through=(Q, Q, Q)), "straight_through has a tensor for query, which has the dtype"),
    (lambda: sdpa(N, N, N, straight_through=(Q, N, Q)), "straight_through has a torch.float8_e4m3fn for key, expected"),
    (lambda: sdpa(N, N, N, straight_through=(Q, Q, 1)), "straight_through has a int for value, expected"),
    (
        lambda: sdpa(N, N, N, straight_through=(Q[0], Q, Q)),
        "straight_through has the shape (2, 8, 64) for query, expected that of query, (1, 2, 8, 64)",
    ),
    (
        lambda: varlen_attn(N[0], N[0], N[0], BOUNDS, straight_through=(None, None, Q)),
        "straight_through has the shape (1, 2, 8, 64) for value, expected that of value, (2, 8, 64)",
    ),
    (
        lambda: flash_attn_func(N, N, N, straight_through=(None, Q.mT, None)),
        "straight_through has the shape (1, 2, 64, 8) for key, expected that of key, (1, 2, 8, 64)",
    ),
    (lambda: sdpa(Q, Q, Q, straight_through=(Q, Q, Q)), "straight_through is for tensors of torch.float8_e4m3fn"),
    (lambda: sdpa(Q, Q, Q, quantize_dout=quantize), "quantize_dout is for tensors of torch.float8_e4m3fn"),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    call, text = ERRORS[number]
    with pytest.raises(attn.AttnError, match=re.escape(text)):
        call()


@pytest.mark.parametrize(
    "result, text",
    [
        (lambda dout: dout, "quantize_dout returned a Tensor, expected attn.torch.Quantized"),
        (lambda dout: quantize(dout[:, :1]), "expected torch.float8_e4m3fn or torch.float8_e5m2 and (1, 2, 8, 64)"),
        (
            lambda dout: quantize(dout, E5M2, "block"),
            "quantize_dout returned a scale of the shape (1, 2, 1), expected () or (1, 2): batch and heads",
        ),
    ],
)
def test_errors_of_quantize_dout(result, text):
    source = Q.clone().requires_grad_()
    out = sdpa(N, N, N, straight_through=(source, None, None), quantize_dout=result)
    with pytest.raises(attn.AttnError, match=re.escape(text)):
        out.sum().backward()


def test_second_derivatives():
    source = Q.clone().requires_grad_()
    out = sdpa(N, N, N, straight_through=(source, None, None))
    with pytest.raises(attn.AttnError, match="attention has no second derivatives"):
        torch.autograd.grad(out.sum(), source, create_graph=True)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("options", [{}, {"mask": "#attn.causal"}, {"sequences": "packed", "batch": 1}])
def test_gpus_compile_gradients(target, head_dim, options):
    """The bf16 gradient, of operands that kernels widen."""
    description = attn.Attention("f8E4M3FN", 4, 2, head_dim, out_dtype="bf16", **options)
    passes = (
        "attn-differentiate{function=attention arguments=0,1,2 mode=backward},"
        "symbol-privatize{exclude=attention_bwd},symbol-dce"
    )
    artifact = attn.compile(description, target=target, passes=passes)
    written = [dtype for _, dtype, _, is_written in artifact["attention_bwd"].args if is_written]
    assert written == ["f32"] * 3
