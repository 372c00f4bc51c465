# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The accuracy contract of docs/Numerics.md, on the host."""

import math

import pytest

torch = pytest.importorskip("torch")

from cases import Case  # noqa: E402

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


def attend(q, k, v, keep):
    """Attention in PyTorch operations in the dtype of the inputs, and its log-sum-exp."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = (q @ k.transpose(-1, -2)) * (1 / math.sqrt(q.shape[-1]))
    scores = scores.masked_fill(~keep, float("-inf"))
    # A row with nothing to attend is all zeros.
    return torch.nan_to_num(scores.softmax(-1)) @ v, scores.logsumexp(-1)


def kept(mask, queries, keys):
    i = torch.arange(queries)[:, None] + (keys - queries)
    j = torch.arange(keys)[None, :]
    if not mask:
        return torch.ones(queries, keys, dtype=torch.bool)
    if mask == "#attn.causal":
        return j <= i
    assert mask == "#attn.sliding_window<left = 20, right = 0>"
    return (j <= i) & (j >= i - 20)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mask", ["", "#attn.causal", "#attn.sliding_window<left = 20, right = 0>"])
def test_contract(compile_artifact, dtype, mask):
    case = Case(4, 2, 64, 32, dtype=dtype, mask=mask)
    function = compile_artifact(case.name, case.mlir(), "--target=host")[case.name]
    for batch, queries, keys in ((2, 100, 100), (1, 1, 257), (1, 70, 33), (1, 300, 513)):
        torch.manual_seed(0)
        q = torch.randn(batch, 4, queries, 64).to(DTYPES[dtype])
        k, v = (torch.randn(batch, 2, keys, dim).to(DTYPES[dtype]) for dim in (64, 32))
        out = torch.full((batch, 4, queries, 32), float("nan"), dtype=q.dtype)
        lse = torch.full((batch, 4, queries), float("nan"))
        function(q, k, v, out, lse)

        keep = kept(mask, queries, keys)
        exact, exact_lse = attend(q.double(), k.double(), v.double(), keep)
        peer, _ = attend(q, k, v, keep)
        rounding = torch.finfo(q.dtype).eps / 2 * exact.norm()
        assert (out.double() - exact).norm() <= 2 * (peer.double() - exact).norm() + rounding

        empty = ~keep.any(-1)
        assert (out[:, :, empty] == 0).all()
        assert (lse[:, :, empty] == float("-inf")).all()
        assert torch.allclose(lse[:, :, ~empty].double(), exact_lse[:, :, ~empty], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("length", [100, "?"])
def test_output_that_is_input(compile_artifact, length):
    """Queries, keys and values are read before the output takes their place."""
    tensor = f"tensor<2x4x{length}x64xf32>"
    module = f"""func.func @f(%x: {tensor}) -> {tensor} {{
      %r = attn.attention ins(%x, %x, %x : {tensor}, {tensor}, {tensor}) outs(%x : {tensor}) -> {tensor}
      return %r : {tensor}
    }}"""
    name = f"output_that_is_input_{'dynamic' if length == '?' else length}"
    function = compile_artifact(name, module, "--target=host")["f"]
    for size in (1, 100, 300) if length == "?" else (length,):
        torch.manual_seed(0)
        x = torch.randn(2, 4, size, 64)
        exact, _ = attend(*[x.double()] * 3, kept("", size, size))
        function(x)
        assert torch.allclose(x.double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("raising", ["true", "false"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_softmax(compile_artifact, dtype, dim, raising):
    """A softmax of linalg that belongs to no attention."""
    tensor = f"tensor<3x?x40x{dtype}>"
    module = f"""func.func @f(%x: {tensor}) -> {tensor} {{
      %c1 = arith.constant 1 : index
      %size = tensor.dim %x, %c1 : {tensor}
      %e = tensor.empty(%size) : {tensor}
      %r = linalg.softmax dimension({dim}) ins(%x : {tensor}) outs(%e : {tensor}) -> {tensor}
      return %r : {tensor}
    }}"""
    name = f"softmax_{dtype}_{dim}_{raising}"
    function = compile_artifact(name, module, "--target=host", f"--raise={raising}")["f"]
    for size in (1, 7, 1200):
        torch.manual_seed(0)
        x = (4 * torch.randn(3, size, 40)).to(DTYPES[dtype])
        x[0, 0, :20] = float("-inf")
        out = torch.full_like(x, float("nan"))
        function(x, out)
        exact = x.double().softmax(dim)
        # With one row, whole columns are -inf.
        assert torch.equal(out.isnan(), exact.isnan())
        # The sum is one of f32, in order.
        tolerance = torch.finfo(x.dtype).eps + x.shape[dim] * 2.0**-24 + 2.0**-21
        assert torch.allclose(out.double(), exact, rtol=tolerance, atol=1e-7, equal_nan=True)


def test_errors_are_values(compile_artifact):
    from attn.artifact import AttnError

    case = Case(2, 2, 64, 64)
    function = compile_artifact("errors", case.mlir(), "--target=host")[case.name]
    q, k, v, out = (torch.zeros(1, 2, 8, 64, dtype=torch.bfloat16) for _ in range(4))
    with pytest.raises(AttnError, match="expected"):
        function(q.float(), k, v, out, torch.zeros(1, 2, 8))
    with pytest.raises(AttnError, match="expected"):
        function(q, k, v, out, torch.zeros(1, 2, 9))


@pytest.mark.parametrize("function", ["sin", "cos", "rsqrt"])
def test_functions_of_large_and_small_values(compile_artifact, function):
    """Errors do not grow with the argument."""
    heads = "tensor<1x1x?x8xf32>"
    artifact = compile_artifact(
        function,
        f"""
func.func @f(%x: {heads}, %out: {heads}) -> {heads} {{
  %0 = attn.map_heads ins(%x : {heads}) outs(%out : {heads}) {{
  ^bb0(%e: f32, %square: f32, %b: index, %h: index, %i: index, %d: index):
    %y = math.{function} %e : f32
    attn.yield %y : f32
  }} -> {heads}
  return %0 : {heads}
}}
""",
        "--target=host",
    )
    torch.manual_seed(0)
    x = torch.exp2(torch.empty(1, 1, 500, 8).uniform_(-126, 50))
    x = x if function == "rsqrt" else x * torch.randn(x.shape).sign()
    x[0, 0, 0] = torch.tensor([0.0, 1e5, 2.0**50, 3.0e5, 940.0, 1.0, 1e-30, 7e9]) + (function == "rsqrt")
    x[0, 0, 1] = torch.tensor([math.inf, math.nan, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5])
    out = torch.full_like(x, 7)
    artifact["f"](x, out)
    exact = getattr(torch, function)(x.double())
    assert (out.isnan() == exact.isnan()).all()
    error = ((out.double() - exact).abs() / (exact.abs() if function == "rsqrt" else 1)).nan_to_num()
    assert error.max() <= 2.0**-22


def test_sines_of_huge_values(compile_artifact):
    """Beyond 2^50 the host takes the sine of zero, as docs/Numerics.md says."""
    heads = "tensor<1x1x?x8xf32>"
    module = f"""
func.func @f(%x: {heads}, %out: {heads}) -> {heads} {{
  %0 = attn.map_heads ins(%x : {heads}) outs(%out : {heads}) {{
  ^bb0(%e: f32, %square: f32, %b: index, %h: index, %i: index, %d: index):
    %y = math.sin %e : f32
    %z = math.cos %e : f32
    %w = arith.subf %y, %z : f32
    attn.yield %w : f32
  }} -> {heads}
  return %0 : {heads}
}}
"""
    x = torch.tensor([[[[1.2e15, -1e20, 3e38, -3e38, 2e15, 5e16, 6e17, 7e30]]]])
    out = torch.full_like(x, 7)
    compile_artifact("huge_sines", module, "--target=host")["f"](x, out)
    assert (out == -1).all()


SIGNS_OF_ROWS = """
!x = tensor<1x1x?x16xbf16>
!r = tensor<1x1x?xf32>
!d = tensor<1x1x?x16xf32>
func.func @f(%q: !x, %k: !x, %v: !x, %out: !x, %lse: !r, %dout: !x, %dq: !d, %dk: !d, %dv: !d, %t: tensor<?xbf16>)
    -> (!d, !d, !d) {
  %0:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !x, !x, !x, !x, !r, !x) outs(%dq, %dk, %dv : !d, !d, !d)
    schedule(#attn_tile.gradient<preprocess = #attn_tile.sequential<query_tile = 1, key_tile = 32>,
                                 dkdv = #attn_tile.sequential<query_tile = 1, key_tile = 32>>) score_mod {
  ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
    %row = tensor.extract %t[%i] : tensor<?xbf16>
    %wide = arith.extf %row : bf16 to f32
    %zero = arith.constant 0.0 : f32
    %isPositive = arith.cmpf ogt, %wide, %zero : f32
    %chosen = arith.select %isPositive, %s, %zero : f32
    attn.yield %chosen : f32
  } score_mod_grad {
  ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index):
    %row = tensor.extract %t[%i] : tensor<?xbf16>
    %wide = arith.extf %row : bf16 to f32
    %zero = arith.constant 0.0 : f32
    %isPositive = arith.cmpf ogt, %wide, %zero : f32
    %chosen = arith.select %isPositive, %ds, %zero : f32
    attn.yield %chosen : f32
  } -> !d, !d, !d
  return %0#0, %0#1, %0#2 : !d, !d, !d
}
"""


def test_subnormal_numbers_have_signs(compile_artifact):
    """Processors with AVX512-BF16 flush subnormal numbers where LLVM keeps a bf16 as f32."""
    function = compile_artifact("signs_of_rows", SIGNS_OF_ROWS)["f"]
    torch.manual_seed(0)
    q, k, v, dout = (torch.randn(1, 1, 33, 16).bfloat16() for _ in range(4))
    table = (torch.where(torch.arange(33) % 3 == 1, 1e-39, -1e-39)).bfloat16()
    wide = [tensor.double().requires_grad_() for tensor in (q, k, v)]
    scores = (wide[0] @ wide[1].mT / 4) * (table > 0).double()[:, None]
    out, lse = scores.softmax(-1) @ wide[2], scores.logsumexp(-1)
    exact = torch.autograd.grad(out, wide, dout.double())
    gradients = [torch.full((1, 1, 33, 16), float("nan")) for _ in range(3)]
    function(q, k, v, out.detach().bfloat16(), lse.detach().float(), dout, *gradients, table)
    for actual, expected in zip(gradients, exact):
        assert (actual.double() - expected).norm() < 0.02 * expected.norm()
    assert (gradients[0][0, 0, table < 0] == 0).all()
