# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scores over the whole range of exponents, on the host and on a GPU if there is one: finite masks and large biases."""

import random

import pytest

torch = pytest.importorskip("torch")
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

from attn.torch import flex_attention, sdpa  # noqa: E402

HOST = [torch.device("cpu")]
GPU = [torch.device("cuda")] if torch.cuda.is_available() else []
#: Element types of each device.
KINDS = [(torch.float32, device) for device in HOST]
KINDS += [(dtype, device) for dtype in (torch.bfloat16, torch.float16) for device in HOST + GPU]


def draw(dtype, device, *sizes):
    """Normal queries, keys and values of two heads; ``sizes`` are queries and keys."""
    queries, keys = sizes[0], sizes[-1]
    return [torch.randn(1, 2, size, 64, device=device).to(dtype) for size in (queries, keys, keys)]


def scores_of(q, k):
    return (q.double() @ k.double().mT / q.shape[-1] ** 0.5).float()


def reference(q, k, v, bias):
    """Attention in f64 of scores that are rounded to f32 once they have their bias."""
    return (scores_of(q, k) + bias.float()).double().softmax(-1) @ v.double()


def check(out, scores, v):
    """The contract of docs/Numerics.md, for the probabilities of f32 scores.

    The peer is the softmax in f32 and the product in the dtype of the values. A score may be rounded
    once less or more than the given one: where it has a part in the result, that changes probabilities by
    half a unit of the score's last place."""
    assert not out.isnan().any()
    probabilities = scores.double().softmax(-1)
    exact, peer = probabilities @ v.double(), scores.softmax(-1).to(v.dtype) @ v
    error, other = ((x.double() - exact).norm() for x in (out, peer))
    units = torch.where(scores.abs() < 2.0**22, scores.abs(), 0).double() * 2.0**-24
    rounding = ((probabilities * units) @ v.double().abs()).norm()
    assert error <= 2 * other + 2 * rounding + torch.finfo(out.dtype).eps * exact.norm()


def causal(size, value, device):
    keep = torch.ones(size, size, dtype=torch.bool, device=device).tril()
    return torch.zeros(size, size, device=device).masked_fill(~keep, value)


def padded(size, value, device):
    """The last third of the keys is padding; one query is, too."""
    bias = torch.zeros(size, size, device=device)
    bias[:, size - size // 3 :] = value
    bias[size // 2] = value
    return bias


@pytest.mark.parametrize("make", [causal, padded])
@pytest.mark.parametrize(["dtype", "device"], KINDS)
def test_finite_masks(dtype, device, make):
    torch.manual_seed(0)
    numbers = random.Random(0)
    for size in (64, 200, 321):
        for exponent in range(2, 39, 4):
            value = -numbers.uniform(1, 3) * 10.0**exponent
            if value < torch.finfo(dtype).min:
                continue
            q, k, v = draw(dtype, device, size)
            bias = make(size, value, device).to(dtype)
            # A bias of 16 bits is divided by the scale and added before the multiplication by it.
            if abs(value) * 8 < torch.finfo(torch.float32).max:
                check(sdpa(q, k, v, bias), scores_of(q, k) + bias.float(), v)


@pytest.mark.parametrize(["dtype", "device"], KINDS)
def test_score_mods(dtype, device):
    """All scores raised or lowered by a number, and scores below the diagonal replaced by one."""
    torch.manual_seed(0)
    for size, value in ((200, -1e9), (130, -1e10), (200, 1e12), (257, -1e30), (64, 3e37)):
        q, k, v = draw(dtype, device, size)
        scores = scores_of(q, k)
        check(flex_attention(q, k, v, lambda score, b, h, i, j: score + value), scores + value, v)
        keep = torch.ones(size, size, dtype=torch.bool, device=device).tril()
        replaced = torch.where(keep, scores, value)
        check(flex_attention(q, k, v, lambda score, b, h, i, j: torch.where(i >= j, score, value)), replaced, v)


def test_large_inputs():
    """Scores that are large by the size of the inputs; one is the maximum of its row."""
    torch.manual_seed(0)
    for exponent in range(0, 36, 4):
        size = 10.0 ** (exponent / 2)
        q, k, v = torch.randn(1, 2, 150, 64) * size, torch.randn(1, 2, 150, 64) * size, torch.randn(1, 2, 150, 64)
        scores = (q.double() @ k.double().mT / 8).sort(-1).values
        # Rows whose largest two scores f32 tells apart.
        clear = scores[..., -1] - scores[..., -2] > 1e-3 * scores[..., -1].abs()
        out = sdpa(q, k, v)
        assert not out.isnan().any()
        exact = (q.double() @ k.double().mT / 8).softmax(-1) @ v.double()
        torch.testing.assert_close(out.double()[clear], exact[clear], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize(["dtype", "device"], KINDS)
def test_split_keys(dtype, device, queries):
    """Splits of the keys with different numbers of keys that are all masked."""
    torch.manual_seed(0)
    for value in (-1e4, -1e10, 1e12):
        if abs(value) > torch.finfo(dtype).max:
            continue
        q, k, v = draw(dtype, device, queries, 4999)
        bias = torch.full((queries, 4999), value, device=device).to(dtype)
        check(sdpa(q, k, v, bias), scores_of(q, k) + bias.float(), v)


@pytest.mark.parametrize("make", [causal, padded])
@pytest.mark.parametrize(["dtype", "device"], KINDS)
def test_gradients(dtype, device, make):
    torch.manual_seed(0)
    for size, value in ((64, -6e4), (200, -1e10), (321, -1e30)):
        if value < torch.finfo(dtype).min:
            continue
        tensors = [tensor.requires_grad_() for tensor in draw(dtype, device, size)]
        wide = [tensor.detach().double().requires_grad_() for tensor in tensors]
        bias = make(size, value, device).to(dtype)
        dout = torch.randn(1, 2, size, 64, device=device).to(dtype)
        # A query that attends to padding alone has no part in a loss.
        dout[:, :, (bias == bias.min()).all(-1)] = 0
        actual = torch.autograd.grad(sdpa(*tensors, bias), tensors, dout)
        peers = torch.autograd.grad(scaled_dot_product_attention(*tensors, bias), tensors, dout)
        exact = torch.autograd.grad(reference(*wide, bias), wide, dout.double())
        for gradient, peer, wanted in zip(actual, peers, exact):
            assert not gradient.isnan().any()
            # A kernel of torch for GPUs gives NaN where a query attends to padding alone.
            other = torch.nan_to_num(peer.double() - wanted).norm()
            rounding = torch.finfo(gradient.dtype).eps * wanted.norm()
            assert (gradient.double() - wanted).norm() <= 2 * other + rounding


def find_gradient_bounds(dtype, dout, out, q, k, v, scores):
    """By how much gradients differ from exact ones, at most: docs/Numerics.md."""
    probabilities = scores.softmax(-1)
    eps = torch.finfo(dtype).eps + torch.finfo(torch.float32).eps * scores.abs().amax()
    change = eps * probabilities * (dout.abs() @ v.abs().mT + (dout.abs() * out.abs()).sum(-1, keepdim=True))
    return change @ k.abs() / 8, change.mT @ q.abs() / 8, eps * probabilities.mT @ dout.abs()


@pytest.mark.parametrize("source", ["inputs", "bias"])
@pytest.mark.parametrize(["dtype", "device"], [kind for kind in KINDS if kind[0] != torch.float32])
def test_gradients_of_large_scores(dtype, device, source):
    """Where scores are large, exact gradients of q and k vanish, but the rounding of the output to 16 bits does not."""
    torch.manual_seed(0)
    for size in (1.0, 1e2, 1e3):
        q, k, v, dout = (torch.randn(1, 2, 150, 64, device=device) for _ in range(4))
        grown = size**0.5 if source == "inputs" else 1.0
        tensors = [tensor.to(dtype).requires_grad_() for tensor in (q * grown, k * grown, v)]
        bias = (torch.randn(150, 150, device=device) * (size if source == "bias" else 0)).to(dtype)
        dout = dout.to(dtype)
        wide = [tensor.detach().double().requires_grad_() for tensor in tensors]
        scores = wide[0] @ wide[1].mT / 8 + bias.double()
        out = scores.softmax(-1) @ wide[2]
        exact = torch.autograd.grad(out, wide, dout.double())
        actual = torch.autograd.grad(sdpa(*tensors, bias), tensors, dout)
        peers = torch.autograd.grad(scaled_dot_product_attention(*tensors, bias), tensors, dout)
        with torch.no_grad():
            bounds = find_gradient_bounds(dtype, dout.double(), out, *wide, scores)
        for gradient, peer, wanted, bound in zip(actual, peers, exact, bounds):
            error = gradient.double() - wanted
            # Exponentials may be subnormal, and so may gradients.
            assert (error.abs() <= bound + max(torch.finfo(dtype).tiny, 1e-30)).all()
            rounding = torch.finfo(dtype).eps * wanted.norm()
            assert error.norm() <= 2 * (peer.double() - wanted).norm() + rounding
