# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``merge`` on the CPU, against attention to all keys in f64."""

import math

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn.torch import merge  # noqa: E402

TOLERANCE = {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2, torch.float64: 1e-12}


def make(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def attend(q, k, v):
    s = q @ k.mT
    lse = s.logsumexp(-1)
    p = torch.exp(s - lse.masked_fill(lse == -math.inf, 0.0)[..., None])
    return p @ v, lse


def make_parts(dtype, sizes, shift=0.0):
    """Attention to parts of keys, in a dtype with f32 log-sum-exps, and to all of them."""
    q = make(2, 3, 5, 8)
    parts = [(make(2, 3, n, 8, seed=n + 1) + shift, make(2, 3, n, 4, seed=n + 2)) for n in sizes]
    made = [attend(q, *part) for part in parts]
    lse_dtype = torch.float64 if dtype == torch.float64 else torch.float32
    exact = attend(q, *(torch.cat(side, 2) for side in zip(*parts)))
    return [(out.to(dtype), lse.to(lse_dtype)) for out, lse in made], exact


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", [(7, 9), (1, 30), (0, 6), (6, 0), (0, 0)])
def test_against_f64(dtype, sizes):
    (first, second), exact = make_parts(dtype, sizes, shift=2.0)
    tolerance = TOLERANCE[dtype]
    for parts in ((*first, *second), (*second, *first)):
        for found, expected in zip(merge(*parts), exact):
            torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


def test_several_parts_and_views():
    parts, exact = make_parts(torch.float32, (3, 8, 5))
    parts = [(out.transpose(1, 2).contiguous().transpose(1, 2), lse) for out, lse in parts]
    nested = merge(*merge(*parts[0], *parts[1]), *parts[2])
    for out, lse in (nested, merge(*parts[0], *parts[1], *parts[2])):
        torch.testing.assert_close(out.double(), exact[0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(lse.double(), exact[1], rtol=1e-5, atol=1e-5)
    for found, given in zip(merge(*parts[0]), parts[0]):
        torch.testing.assert_close(found, given)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("sizes", [(7, 9), (0, 6), (0, 0), (3, 1, 9)])
@pytest.mark.parametrize("wanted", ["out", "lse", "both"])
def test_gradients(dtype, sizes, wanted):
    """Against derivatives of the formula in f64; parts without keys have zeros."""
    parts, _ = make_parts(dtype, sizes)
    given = [tensor.clone().requires_grad_() for part in parts for tensor in part]
    exact = [tensor.detach().double().requires_grad_() for tensor in given]
    # Finite values in the place of -inf give the same, but for rows without any keys.
    safe = torch.stack([lse.clamp(min=-1e30) for lse in exact[1::2]])
    weights = safe.softmax(0)
    out = sum(weight[..., None] * part for weight, part in zip(weights, exact[::2]))
    expected = {"out": out, "lse": safe.logsumexp(0)}
    dout, dlse = make(2, 3, 5, 4, seed=90).to(dtype), make(2, 3, 5, seed=91).to(given[1].dtype)
    found = dict(zip(("out", "lse"), merge(*given)))
    gradients = {"out": dout, "lse": dlse}
    names = ("out", "lse") if wanted == "both" else (wanted,)
    torch.autograd.backward([found[name] for name in names], [gradients[name] for name in names])
    torch.autograd.backward([expected[name] for name in names], [gradients[name].double() for name in names])
    tolerance = TOLERANCE[dtype]
    for number, (left, right) in enumerate(zip(given, exact)):
        reference = torch.zeros_like(right) if right.grad is None or sizes[number // 2] == 0 else right.grad
        gradient = torch.zeros_like(left) if left.grad is None else left.grad
        torch.testing.assert_close(gradient.double(), reference, rtol=tolerance, atol=tolerance)


def test_no_second_derivatives():
    parts, _ = make_parts(torch.float32, (3, 8))
    given = [tensor.clone().requires_grad_() for part in parts for tensor in part]
    with pytest.raises(attn.UnsupportedError, match="no second derivatives"):
        torch.autograd.grad(merge(*given)[0].sum(), given, create_graph=True)


def test_pairs():
    parts, _ = make_parts(torch.float32, (3, 8))
    with pytest.raises(attn.AttnError, match=r"pairs of an output and a log-sum-exp \(was 3 tensors\)"):
        merge(*parts[0], parts[1][0])


def test_compile():
    parts, _ = make_parts(torch.float32, (3, 8))
    given = (*parts[0], *parts[1])
    function = torch.compile(merge, fullgraph=True, backend="aot_eager")
    for found, expected in zip(function(*given), merge(*given)):
        assert torch.equal(found, expected)


@pytest.mark.parametrize(
    "number, change, message",
    [
        (0, lambda x: x[0], "out0 has 3 dimensions"),
        (1, lambda x: x.double(), "lse0 has the dtype torch.float64, expected torch.float32"),
        (1, lambda x: x[:, :, :2], r"lse0 has the shape \(2, 3, 2\), expected \(2, 3, 5\)"),
        (2, lambda x: x.half(), "out1 has the dtype torch.float16, expected torch.float32"),
        (3, lambda x: x[:1], r"lse1 has the shape \(1, 3, 5\)"),
    ],
)
def test_refusals(number, change, message):
    parts, _ = make_parts(torch.float32, (3, 8))
    given = [*parts[0], *parts[1]]
    given[number] = change(given[number])
    with pytest.raises(attn.AttnError, match=message):
        merge(*given)
