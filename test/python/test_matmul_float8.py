# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``attn.matmul`` of 8-bit matrices on the host, against f64."""

import itertools

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn.torch import quantize  # noqa: E402

DTYPES = {"f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2}
OUTS = {"f32": (torch.float32, 2.0**-24), "bf16": (torch.bfloat16, 2.0**-8), "f16": (torch.float16, 2.0**-11)}
SIZES = [(5, 7, 3), (33, 130, 71), (1, 1, 1), (4, 6, 0), (40, 64, 300)]


def module(lhs, rhs, out, transpose_lhs, transpose_rhs, batch):
    """A function whose epilogue multiplies by a scale of each input."""
    dims = "?x" * (2 + batch)
    x, y, z = f"tensor<{dims}{lhs}>", f"tensor<{dims}{rhs}>", f"tensor<{dims}{out}>"
    flags = " transpose_lhs" * transpose_lhs + " transpose_rhs" * transpose_rhs
    return f"""
func.func @f(%x: {x}, %y: {y}, %x_scale: tensor<f32>, %y_scale: tensor<f32>, %out: {z}) -> {z} {{
  %0 = attn.matmul ins(%x, %y : {x}, {y}) outs(%out : {z}){flags} epilogue {{
  ^bb0(%sum: f32, %b: index, %i: index, %j: index):
    %sx = tensor.extract %x_scale[] : tensor<f32>
    %sy = tensor.extract %y_scale[] : tensor<f32>
    %s = arith.mulf %sx, %sy : f32
    %r = arith.mulf %sum, %s : f32
    attn.yield %r : f32
  }} -> {z}
  return %0 : {z}
}}"""


def check(function, lhs, rhs, out, transpose_lhs, transpose_rhs, batch):
    for number, (m, n, k) in enumerate(SIZES):
        generator = torch.Generator().manual_seed(number)
        sizes = [(k, m) if transpose_lhs else (m, k), (n, k) if transpose_rhs else (k, n)]
        given = [torch.randn(*[2] * batch, *size, generator=generator) * 7 for size in sizes]
        x, y = (quantize(tensor, DTYPES[name]) for tensor, name in zip(given, (lhs, rhs)))
        dtype, unit = OUTS[out]
        found = torch.full((*[2] * batch, m, n), torch.nan, dtype=dtype)
        function(x.values, y.values, x.scale, y.scale, found)
        exact = [q.values.double() * q.scale.double() for q in (x, y)]
        exact = [tensor.mT if flag else tensor for tensor, flag in zip(exact, (transpose_lhs, transpose_rhs))]
        expected = exact[0] @ exact[1]
        # Of the accumulation, of the result, and of a subnormal f16.
        allowed = (exact[0].abs() @ exact[1].abs()) * 2.0**-22 + expected.abs() * (unit + 2.0**-22)
        allowed += 2.0**-25 * (out == "f16")
        assert bool(((found.double() - expected).abs() <= allowed).all())


@pytest.mark.parametrize("lhs, rhs", itertools.product(DTYPES, DTYPES))
@pytest.mark.parametrize("out", OUTS)
@pytest.mark.parametrize("transpose_lhs, transpose_rhs", itertools.product((False, True), (False, True)))
def test_against_f64(lhs, rhs, out, transpose_lhs, transpose_rhs):
    options = lhs, rhs, out, transpose_lhs, transpose_rhs
    for batch in (False, True):
        check(attn.compile(module(*options, batch))["f"], *options, batch)


def test_special_elements():
    """NaN and infinities, which E4M3 does not have, become NaN and infinities of a result."""
    x = torch.ones(4, 16)
    x[1, 3], x[2, 5], x[3, :2] = torch.nan, torch.inf, torch.tensor([torch.inf, -torch.inf])
    x8 = x.to(torch.float8_e5m2)
    y8 = torch.ones(3, 16).to(torch.float8_e4m3fn)
    one, found = torch.tensor(1.0), torch.empty(4, 3)
    attn.compile(module("f8E5M2", "f8E4M3FN", "f32", False, True, False))["f"](x8, y8, one, one, found)
    expected = torch.tensor([16.0, torch.nan, torch.inf, torch.nan])[:, None].expand(4, 3)
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_multiplications_are_exact():
    """Each multiplication of two numbers of both formats."""
    codes = torch.arange(256, dtype=torch.uint8)
    for lhs, rhs in itertools.product(DTYPES, DTYPES):
        x, y = codes.view(DTYPES[lhs])[:, None], codes.view(DTYPES[rhs])[:, None]
        found, one = torch.empty(256, 256), torch.tensor(1.0)
        attn.compile(module(lhs, rhs, "f32", False, True, False))["f"](x, y, one, one, found)
        torch.testing.assert_close(found, x.float() * y.float().mT, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("out_type", list(OUTS))
@pytest.mark.parametrize("transpose_lhs, transpose_rhs", [(False, True), (True, False), (True, True)])
@pytest.mark.parametrize("batch", [0, 1])
def test_gradients(out_type, transpose_lhs, transpose_rhs, batch):
    """Gradients are f32, and so are gradients of the scales in the epilogue."""
    torch.manual_seed(0)
    lhs, rhs = "f8E4M3FN", "f8E5M2"
    passes = "attn-differentiate{function=f arguments=0,1,2,3 mode=combined}"
    text = module(lhs, rhs, out_type, transpose_lhs, transpose_rhs, batch)
    function = attn.compile(text, target="host", passes=passes)["f_grad"]
    out_dtype, unit = OUTS[out_type]
    leading = (3,) * batch
    x = torch.randn(*leading, *((40, 21) if transpose_lhs else (21, 40))).to(DTYPES[lhs])
    y = torch.randn(*leading, *((33, 40) if transpose_rhs else (40, 33))).to(DTYPES[rhs])
    scales = [torch.tensor(0.5), torch.tensor(1.5)]
    out, dout = (torch.randn(*leading, 21, 33).to(out_dtype) for _ in range(2))
    gradients = [torch.empty(leaf.shape) for leaf in (x, y, *scales)]
    function(x, y, *scales, out, dout, *gradients)
    leaves = [leaf.double().requires_grad_() for leaf in (x, y, *scales)]
    a, b = leaves[0].mT if transpose_lhs else leaves[0], leaves[1].mT if transpose_rhs else leaves[1]
    expected = torch.autograd.grad(a @ b * leaves[2] * leaves[3], leaves, dout.double())
    for gradient, wanted in zip(gradients, expected):
        assert (gradient.double() - wanted).norm() <= 4 * max(unit, 2.0**-20) * wanted.norm()
