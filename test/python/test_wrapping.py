# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Integers of `mask_mod` regions that wrap around, or are as large as their type allows, in masks with closed forms."""

import pytest

torch = pytest.importorskip("torch")

LENGTH = 64
HUGE = 2**63
INT = 2**31

MODULE = """
!tensor = tensor<1x1x64x16xf32>
func.func @f(%q: !tensor, %k: !tensor, %v: !tensor, %w: tensor<TYPE>, %out: !tensor) -> !tensor {
  %z = attn.attention ins(%q, %k, %v : !tensor, !tensor, !tensor) outs(%out : !tensor)
    schedule(#attn_tile.sequential<query_tile = 8, key_tile = 8>) mask_mod {
  ^bb0(%b: index, %h: index, %query: index, %key: index):
    %w0 = tensor.extract %w[] : tensor<TYPE>
    %i = arith.index_cast %query : index to TYPE
    %j = arith.index_cast %key : index to TYPE
CODE
    attn.yield %keep : i1
  } -> !tensor
  return %z : !tensor
}
"""


def wrap(value):
    return (value + INT) % (2 * INT) - INT


# Names: the type of the captured integer, the code, its meaning, and values.
CASES = {
    "less": ("i64", ["%keep = arith.cmpi slt, %j, %w0 : i64"], lambda i, j, w: j < w, [20, HUGE - 1, -HUGE, 2**40]),
    "at_most": ("i64", ["%keep = arith.cmpi sle, %j, %w0 : i64"], lambda i, j, w: j <= w, [20, HUGE - 1, -HUGE]),
    "more": ("i64", ["%keep = arith.cmpi sgt, %j, %w0 : i64"], lambda i, j, w: j > w, [20, HUGE - 1, -HUGE]),
    "at_most_i32": ("i32", ["%keep = arith.cmpi sle, %j, %w0 : i32"], lambda i, j, w: j <= w, [20, INT - 1, -INT]),
    "sum": ("i32", ["%s = arith.addi %i, %w0 : i32", "%keep = arith.cmpi sle, %j, %s : i32"],
            lambda i, j, w: j <= wrap(i + w), [-20, 20, INT - 1, -INT]),
    "difference": ("i64", ["%s = arith.subi %i, %w0 : i64", "%keep = arith.cmpi sge, %j, %s : i64"],
                   lambda i, j, w: j >= (i - w + HUGE) % (2 * HUGE) - HUGE, [7, HUGE - 1, -HUGE]),
    "multiple": ("i32", ["%c = arith.constant 100000000 : i32", "%s = arith.muli %i, %c : i32",
                         "%keep = arith.cmpi sle, %j, %s : i32"], lambda i, j, w: j <= wrap(i * 100000000), [0]),
    "truncated": ("i64", ["%t = arith.trunci %w0 : i64 to i32", "%s = arith.extsi %t : i32 to i64",
                          "%keep = arith.cmpi sle, %j, %s : i64"],
                  lambda i, j, w: j <= wrap(w), [20, HUGE - 1, -HUGE, 2**32, 2**32 + 7]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_mask_mod(compile_artifact, name):
    kind, code, keeps, values = CASES[name]
    text = MODULE.replace("CODE", "\n".join("    " + line for line in code)).replace("TYPE", kind)
    function = compile_artifact(f"wrapping_{name}", text, "--target=host")["f"]
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1, LENGTH, 16) for _ in range(3))
    scores = (q.double() @ k.double().mT) / 4
    for value in values:
        kept = torch.tensor([[keeps(i, j, value) for j in range(LENGTH)] for i in range(LENGTH)])
        expected = scores.masked_fill(~kept, -torch.inf).softmax(-1).nan_to_num(0) @ v.double()
        out = torch.full_like(q, torch.nan)
        function(q, k, v, torch.tensor(value, dtype=getattr(torch, kind.replace("i", "int"))), out)
        torch.testing.assert_close(out.double(), expected, rtol=1e-4, atol=1e-5, msg=lambda m: f"{value}: {m}")
