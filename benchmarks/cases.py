# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The attention functions that the benchmarks compile.

Each is a function of tensors with dynamic batch and lengths, so that one
artifact serves all of its sizes.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One function: heads, head dimensions, dtype, mask and options."""

    heads: int
    kv_heads: int
    qk_dim: int
    v_dim: int
    dtype: str = "bf16"
    mask: str = ""
    schedule: str = ""
    score: str = ""

    @property
    def name(self) -> str:
        mask = "".join(c if c.isalnum() else "_" for c in self.mask.replace("#attn.", "")).strip("_")
        return "_".join(filter(None, (f"h{self.heads}_{self.kv_heads}_d{self.qk_dim}_{self.v_dim}", self.dtype, mask or "full", self.score)))

    def mlir(self) -> str:
        """The module: query, key, value in; out and log-sum-exp back."""
        q = f"tensor<?x{self.heads}x?x{self.qk_dim}x{self.dtype}>"
        k = f"tensor<?x{self.kv_heads}x?x{self.qk_dim}x{self.dtype}>"
        v = f"tensor<?x{self.kv_heads}x?x{self.v_dim}x{self.dtype}>"
        o = f"tensor<?x{self.heads}x?x{self.v_dim}x{self.dtype}>"
        lse = f"tensor<?x{self.heads}x?xf32>"
        options = f" mask({self.mask})" if self.mask else ""
        if self.schedule:
            options += f" schedule({self.schedule})"
        return f"""func.func @{self.name}(%query: {q}, %key: {k}, %value: {v}) -> ({o}, {lse}) {{
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %batch = tensor.dim %query, %c0 : {q}
  %length = tensor.dim %query, %c2 : {q}
  %out = tensor.empty(%batch, %length) : {o}
  %lse = tensor.empty(%batch, %length) : {lse}
  %r:2 = attn.attention ins(%query, %key, %value : {q}, {k}, {v})
      outs(%out, %lse : {o}, {lse}){options}{SCORES[self.score]} -> {o}, {lse}
  return %r#0, %r#1 : {o}, {lse}
}}
"""

    def grad_mlir(self, deterministic: bool = False) -> str:
        """The module of the gradient: query, key, value, out, its log-sum-exp and its gradient in; dq, dk, dv back."""
        assert not self.score, "gradients of scores are not stated"
        q = f"tensor<?x{self.heads}x?x{self.qk_dim}x{self.dtype}>"
        k = f"tensor<?x{self.kv_heads}x?x{self.qk_dim}x{self.dtype}>"
        v = f"tensor<?x{self.kv_heads}x?x{self.v_dim}x{self.dtype}>"
        o = f"tensor<?x{self.heads}x?x{self.v_dim}x{self.dtype}>"
        lse = f"tensor<?x{self.heads}x?xf32>"
        options = f" mask({self.mask})" if self.mask else ""
        if self.schedule:
            options += f" schedule({self.schedule})"
        if deterministic:
            options += " deterministic"
        return f"""func.func @{self.name}(%query: {q}, %key: {k}, %value: {v}, %out: {o}, %lse: {lse}, %dout: {o}) -> ({q}, {k}, {v}) {{
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %batch = tensor.dim %query, %c0 : {q}
  %queries = tensor.dim %query, %c2 : {q}
  %keys = tensor.dim %key, %c2 : {k}
  %dq = tensor.empty(%batch, %queries) : {q}
  %dk = tensor.empty(%batch, %keys) : {k}
  %dv = tensor.empty(%batch, %keys) : {v}
  %r:3 = attn.attention_grad ins(%query, %key, %value, %out, %lse, %dout : {q}, {k}, {v}, {o}, {lse}, {o})
      outs(%dq, %dk, %dv : {q}, {k}, {v}){options} -> {q}, {k}, {v}
  return %r#0, %r#1, %r#2 : {q}, {k}, {v}
}}
"""


SCORES = {
    "": "",
    "softcap": """
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %cap = arith.constant 30.0 : f32
        %u = arith.divf %s, %cap : f32
        %t = math.tanh %u : f32
        %r = arith.mulf %t, %cap : f32
        attn.yield %r : f32
      }""",
}
