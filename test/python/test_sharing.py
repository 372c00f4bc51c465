# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments of a call that share memory."""

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402

TENSOR = "tensor<2x4x?x16xf32>"
GRADIENT = f"""
func.func @grad(%q: {TENSOR}, %k: {TENSOR}, %v: {TENSOR}, %out: {TENSOR}, %lse: tensor<2x4x?xf32>, %dout: {TENSOR},
                %dq: {TENSOR}, %dk: {TENSOR}, %dv: {TENSOR}) -> ({TENSOR}, {TENSOR}, {TENSOR}) {{
  %r:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout
      : {TENSOR}, {TENSOR}, {TENSOR}, {TENSOR}, tensor<2x4x?xf32>, {TENSOR})
      outs(%dq, %dk, %dv : {TENSOR}, {TENSOR}, {TENSOR}) -> {TENSOR}, {TENSOR}, {TENSOR}
  return %r#0, %r#1, %r#2 : {TENSOR}, {TENSOR}, {TENSOR}
}}
"""
BLOCK_MASK = """
#schedule = #attn_tile.sequential<query_tile = 16, key_tile = 32>
func.func @plan(%q: memref<1x4x?x64xf32>, %k: memref<1x4x?x64xf32>, %ids: memref<?xi32>,
                %block_mask: memref<1x1x?x?xi32>) {
  %c2 = arith.constant 2 : index
  %batch = arith.constant 1 : index
  %queries = memref.dim %q, %c2 : memref<1x4x?x64xf32>
  %keys = memref.dim %k, %c2 : memref<1x4x?x64xf32>
  attn.create_block_mask sizes(%batch, %queries, %keys) outs(%block_mask : memref<1x1x?x?xi32>) schedule(#schedule)
      mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %x = memref.load %ids[%j] : memref<?xi32>
    %y = memref.load %ids[%i] : memref<?xi32>
    %same = arith.cmpi eq, %x, %y : i32
    attn.yield %same : i1
  }
  return
}
"""


@pytest.fixture(scope="module")
def grad(compile_artifact):
    return compile_artifact("sharing", GRADIENT, "--target=host").functions["grad"]


def packed():
    """Three tensors [2, 4, 24, 16] that one tensor [2, 24, 3, 4, 16] consists of, as of a joint projection."""
    return torch.randn(2, 24, 3, 4, 16, generator=torch.Generator().manual_seed(7)).permute(2, 0, 3, 1, 4).unbind()


def test_outputs_may_be_interleaved(grad):
    inputs = [tensor.detach().requires_grad_() for tensor in packed()]
    doubles = [tensor.detach().double().requires_grad_() for tensor in inputs]
    scores = doubles[0] @ doubles[1].transpose(-1, -2) / 4
    expected = torch.softmax(scores, -1) @ doubles[2]
    dout = torch.ones_like(expected).cumsum(-1)
    expected.backward(dout)
    dq, dk, dv = packed()
    lse = torch.logsumexp(scores, -1).float().detach()
    grad(*(tensor.detach() for tensor in inputs), expected.float().detach(), lse, dout.float(), dq, dk, dv)
    for actual, double in zip((dq, dk, dv), doubles):
        torch.testing.assert_close(actual.double(), double.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "output, other, kind",
    [("dq", "q", "argument"), ("dv", "lse", "argument"), ("dq", "dk", "output"), ("dk", "dout", "argument")],
)
def test_outputs_share_no_memory(grad, output, other, kind):
    names = [name for name, *_ in grad.args]
    shape = (2, 4, 24, 16)
    tensors = {name: torch.zeros(shape if name != "lse" else shape[:3]) for name in names}
    grad(*tensors.values())
    both = torch.zeros(2, *shape)
    tensors[output] = both[0]
    # The last row of the output is the first one of the other tensor.
    start = both[0].numel() - 16
    shared = both.flatten()[start : start + tensors[other].numel()]
    tensors[other] = shared.view(tensors[other].shape)
    ranges = r"\(bytes 0x\w+ to 0x\w+\)"
    with pytest.raises(attn.AttnError, match=f"'{output}' {ranges} overlaps {kind} '{other}' {ranges}, expected"):
        grad(*tensors.values())


def test_sizes_alone(compile_artifact):
    """Query and key of a function that makes a block mask may be any memory."""
    artifact = compile_artifact("sizes", BLOCK_MASK, "--target=host")
    plan = artifact.functions["plan"]
    ids = torch.arange(64, dtype=torch.int32) // 16
    memory = torch.zeros(4 * 64 * 64, dtype=torch.int32)
    mask = memory[:24].view(1, 1, 4, 6)
    expected = torch.zeros_like(mask)
    separate = torch.zeros(1, 4, 64, 64)
    plan(separate, separate, ids, expected)
    anywhere = memory.view(torch.float32).view(separate.shape)
    plan(anywhere, anywhere, ids, mask)
    assert expected.any() and torch.equal(mask, expected)
    with pytest.raises(attn.AttnError, match="'block_mask' .* overlaps argument 'ids'"):
        plan(anywhere, anywhere, memory[20:84], mask)
