# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Masks and functions that take the compiler much work: limits of its time, and results compared with torch in f64."""

import random
import time

import pytest
from conftest import SLOWDOWN

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn import masks  # noqa: E402
from attn.torch import flex_attention  # noqa: E402

#: Seconds of a first call. Machines of CI are slow and shared: a call that takes as long as it should needs a third.
LIMIT = 6.0


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTN_CACHE_DIR", str(tmp_path))


def check(mask_mod, length=256, gradients=False):
    """Compares values, and gradients, with f64; returns how long the calls took, in seconds of the process."""
    torch.manual_seed(0)
    inputs = [torch.randn(1, 2, length, 64).requires_grad_(gradients) for _ in range(3)]
    begin = time.process_time()
    out = flex_attention(*inputs, None, mask_mod)
    took = time.process_time() - begin
    i = torch.arange(length)
    keep = mask_mod(0, 0, i[:, None], i[None, :]).expand(length, length)
    wide = [tensor.detach().double().requires_grad_(gradients) for tensor in inputs]
    scores = (wide[0] @ wide[1].mT / 8).masked_fill(~keep, float("-inf"))
    expected = torch.softmax(scores, -1).masked_fill(~keep, 0.0) @ wide[2]
    torch.testing.assert_close(out.double(), expected, rtol=1e-4, atol=1e-5)
    if gradients:
        grad = torch.randn(out.shape)
        begin = time.process_time()
        out.backward(grad)
        took += time.process_time() - begin
        expected.backward(grad.double())
        for tensor, reference in zip(inputs, wide):
            torch.testing.assert_close(tensor.grad.double(), torch.nan_to_num(reference.grad), rtol=1e-3, atol=1e-4)
    return took


def tiled_y(i):
    return i // 64 * 4 + i % 16 // 4


def tiled_x(i):
    return i // 16 % 4 * 4 + i % 16 % 4


def near(query, key):
    return (query - 2 <= key) & (key <= query + 2)


NEIGHBOURHOODS = {
    "open": lambda b, h, i, j: (tiled_x(i) - 2 <= tiled_x(j)) & (tiled_y(i) - 2 <= tiled_y(j)),
    "tiled": lambda b, h, i, j: near(tiled_x(i), tiled_x(j)) & near(tiled_y(i), tiled_y(j)),
    "clamped": lambda b, h, i, j: near(tiled_x(i).clamp(2, 13), tiled_x(j)) & near(tiled_y(i).clamp(2, 13), tiled_y(j)),
    "plain": lambda b, h, i, j: near((i // 16).clamp(2, 13), j // 16) & near((i % 16).clamp(2, 13), j % 16),
    "volume": lambda b, h, i, j: near((i // 64).clamp(2, 2), j // 64)
    & near((i // 8 % 8).clamp(2, 5), j // 8 % 8)
    & near((i % 8).clamp(2, 5), j % 8),
}


@pytest.mark.parametrize("name", NEIGHBOURHOODS)
def test_neighbourhoods(name):
    assert check(NEIGHBOURHOODS[name], gradients=True) < 5 * LIMIT * SLOWDOWN


def coordinate(generator, depth):
    """A function of a position made of quotients, remainders and clamps."""
    if depth == 0:
        return lambda i: i
    inner, divisor = coordinate(generator, depth - 1), generator.choice([2, 3, 4, 5, 8, 16])
    kind = generator.randrange(4)
    if kind == 0:
        return lambda i: inner(i) // divisor
    if kind == 1:
        return lambda i: inner(i) % divisor
    if kind == 2:
        other, factor = coordinate(generator, depth - 1), generator.randint(1, 4)
        return lambda i: inner(i) * factor + other(i)
    low, size = generator.randrange(4), generator.randrange(9)
    return lambda i: inner(i).clamp(low, low + size)


@pytest.mark.parametrize("seed", range(12))
def test_nested_quotients(seed):
    generator = random.Random(seed)
    coordinates = [coordinate(generator, generator.randint(2, 4)) for _ in range(generator.randint(1, 3))]

    def mask_mod(b, h, i, j):
        result = i >= 0
        for function in coordinates:
            result = result & (function(i) - 1 <= function(j)) & (function(j) <= function(i) + 1)
        return result

    assert check(mask_mod) < LIMIT * SLOWDOWN


def compile_seconds(source):
    begin = time.process_time()
    attn.compile(source)
    return time.process_time() - begin


def attention_of(mask="", score=""):
    t = "tensor<1x2x256x64xf32>"
    return (
        f"func.func @f(%q: {t}, %o: {t}) -> {t} {{\n"
        f"  %0 = attn.attention ins(%q, %q, %q : {t}, {t}, {t}) outs(%o : {t}) {mask} {score} -> {t}\n"
        f"  return %0 : {t}\n}}\n"
    )


@pytest.mark.parametrize("terms", [20, 60, 300])
def test_alternating_masks(terms):
    mask = masks.causal()
    for i in range(terms):
        mask = ~(mask & masks.sliding_window(5 + i, 5 + i))
    assert compile_seconds(attention_of(mask=f"mask({mask.attribute()[0]})")) < 10 * SLOWDOWN


def test_long_score_regions():
    lines = "\n".join(f"%s{i + 1} = math.tanh %s{i} : f32" for i in range(3000))
    arguments = "%s0: f32, %b: index, %h: index, %i: index, %j: index"
    score = f"score_mod {{\n^bb0({arguments}):\n{lines}\nattn.yield %s3000 : f32\n}}"
    assert compile_seconds(attention_of(score=score)) < 30 * SLOWDOWN
