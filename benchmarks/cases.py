# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The attention functions that the benchmarks compile.

Each is a function of tensors with dynamic batch and lengths, so that one
artifact serves all of its sizes.
"""

from dataclasses import dataclass
from typing import Callable, Dict, Optional, Tuple

import harness


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
    keep: str = ""
    # An attribute `#attn.dropout`; its state is two more arguments.
    dropout: str = ""
    # The number of queries, if it is known.
    queries: int = 0

    @property
    def captures(self):
        """Names and types of the tensors that the score_mod and the mask_mod region read."""
        types = {
            **(SCORES[self.score].captures if self.score else {}),
            **({name: "tensor<?xi32>" for name in KEEPS[self.keep].captures} if self.keep else {}),
        }
        return {name: type.replace("HEADS", str(self.heads)) for name, type in types.items()}

    @property
    def name(self) -> str:
        mask = "".join(c if c.isalnum() else "_" for c in self.mask.replace("#attn.", "")).strip("_")
        return "_".join(
            filter(
                None,
                (
                    f"h{self.heads}_{self.kv_heads}_d{self.qk_dim}_{self.v_dim}",
                    self.dtype,
                    mask or "full",
                    self.keep,
                    self.score,
                    "dropout" if self.dropout else "",
                ),
            )
        )

    def mlir(self) -> str:
        """The module: query, key, value in; out and log-sum-exp back."""
        queries = self.queries or "?"
        q = f"tensor<?x{self.heads}x{queries}x{self.qk_dim}x{self.dtype}>"
        k = f"tensor<?x{self.kv_heads}x?x{self.qk_dim}x{self.dtype}>"
        v = f"tensor<?x{self.kv_heads}x?x{self.v_dim}x{self.dtype}>"
        o = f"tensor<?x{self.heads}x{queries}x{self.v_dim}x{self.dtype}>"
        lse = f"tensor<?x{self.heads}x{queries}xf32>"
        sizes = "%batch" if self.queries else "%batch, %length"
        captures = "".join(f", %{name}: {type}" for name, type in self.captures.items())
        if self.dropout:
            captures += ", %seed: tensor<i64>, %offset: tensor<i64>"
        options = f" mask({self.mask})" if self.mask else ""
        if self.dropout:
            options += f" dropout({self.dropout}, %seed, %offset : tensor<i64>, tensor<i64>)"
        if self.schedule:
            options += f" schedule({self.schedule})"
        if self.score:
            options += SCORES[self.score].region.replace("HEADS", str(self.heads))
        if self.keep:
            options += KEEPS[self.keep].region
        return f"""func.func @{self.name}(%query: {q}, %key: {k}, %value: {v}{captures}) -> ({o}, {lse}) {{
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %batch = tensor.dim %query, %c0 : {q}
  %length = tensor.dim %query, %c2 : {q}
  %out = tensor.empty({sizes}) : {o}
  %lse = tensor.empty({sizes}) : {lse}
  %r:2 = attn.attention ins(%query, %key, %value : {q}, {k}, {v})
      outs(%out, %lse : {o}, {lse}){options} -> {o}, {lse}
  return %r#0, %r#1 : {o}, {lse}
}}
"""

    def grad_mlir(self, deterministic: bool = False, name: str = "") -> str:
        """The module of the gradient: (query, key, value, out, lse, dout, captures) -> (dq, dk, dv)."""
        assert not self.score, "gradients of score_mod are not stated"
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
        if self.keep:
            options += KEEPS[self.keep].region
        captures = "".join(f", %{capture}: {type}" for capture, type in self.captures.items())
        inputs = f"%query: {q}, %key: {k}, %value: {v}, %out: {o}, %lse: {lse}, %dout: {o}{captures}"
        return f"""func.func @{name or self.name}({inputs}) -> ({q}, {k}, {v}) {{
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


@dataclass(frozen=True)
class Score:
    """A score_mod: the tensors it reads, its body, which computes %r from %s, and the same on torch tensors. If it adds
    an array to the scores, `addend` gives that from the captures, as `[B|1, H|1, Sq, Skv]`."""

    captures: Dict[str, str]
    body: str
    apply: Callable
    addend: Optional[Callable] = None

    @property
    def region(self) -> str:
        lines = "".join(f"        {line.strip()}\n" for line in self.body.strip().splitlines())
        return f"""
      score_mod {{
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
{lines}        attn.yield %r : f32
      }}"""


@dataclass(frozen=True)
class Keep:
    """A mask that reads tensors of a value for each token: their names and its body, which computes %r."""

    captures: Tuple[str, ...]
    body: str

    @property
    def region(self) -> str:
        lines = "".join(f"        {line.strip()}\n" for line in self.body.strip().splitlines())
        for name in self.captures:
            for position in "ij":
                load = f"%{name}_{position} = tensor.extract %{name}[%{position}] : tensor<?xi32>"
                if f"%{name}_{position}" in lines:
                    lines = f"        {load}\n" + lines
        return f"""
      mask_mod {{
      ^bb0(%b: index, %h: index, %i: index, %j: index):
{lines}        attn.yield %r : i1
      }}"""


SAME_DOCUMENT = "%same = arith.cmpi eq, %doc_i, %doc_j : i32\n"
BLOCK = 1024

# doc: number of the document of a token; start: its first token; part: the quarter of the document that the token is
# in.
KEEPS = {
    "document": Keep(("doc",), "%r = arith.cmpi eq, %doc_i, %doc_j : i32"),
    "share_question": Keep(
        ("doc", "part"),
        SAME_DOCUMENT
        + """%zero = arith.constant 0 : i32
        %is_question = arith.cmpi eq, %part_j, %zero : i32
        %is_own = arith.cmpi eq, %part_i, %part_j : i32
        %is_seen = arith.ori %is_question, %is_own : i1
        %r = arith.andi %same, %is_seen : i1""",
    ),
    "blockwise": Keep(
        ("doc",),
        SAME_DOCUMENT
        + """%last = arith.constant 11 : i32
        %is_last = arith.cmpi eq, %doc_i, %last : i32
        %r = arith.ori %same, %is_last : i1""",
    ),
    "prefix_document": Keep(
        ("doc", "part"),
        SAME_DOCUMENT
        + """%zero = arith.constant 0 : i32
        %is_prefix = arith.cmpi eq, %part_j, %zero : i32
        %is_before = arith.cmpi sge, %i, %j : index
        %is_seen = arith.ori %is_before, %is_prefix : i1
        %r = arith.andi %same, %is_seen : i1""",
    ),
    "block_document": Keep(
        ("doc", "start"),
        SAME_DOCUMENT
        + f"""%size = arith.constant {BLOCK} : index
        %si = arith.index_cast %start_i : i32 to index
        %sj = arith.index_cast %start_j : i32 to index
        %pi = arith.subi %i, %si : index
        %pj = arith.subi %j, %sj : index
        %bi = arith.divui %pi, %size : index
        %bj = arith.divui %pj, %size : index
        %is_before = arith.cmpi uge, %bi, %bj : index
        %r = arith.andi %same, %is_before : i1""",
    ),
}

DISTANCE = """%d = arith.subi %j, %i : index
    %di = arith.index_cast %d : index to i32
    %df = arith.sitofp %di : i32 to f32
    """
MAX_DISTANCE = 1023

SCORES = {
    "softcap": Score(
        {},
        """%cap = arith.constant 30.0 : f32
        %u = arith.divf %s, %cap : f32
        %t = math.tanh %u : f32
        %r = arith.mulf %t, %cap : f32""",
        lambda s, b, h, i, j, c: 30.0 * (s / 30.0).tanh(),
    ),
    "alibi": Score(
        {"slopes": "tensor<HEADSxf32>"},
        "%slope = tensor.extract %slopes[%h] : tensor<HEADSxf32>\n"
        + DISTANCE
        + """%a = arith.mulf %df, %slope : f32
        %r = arith.addf %s, %a : f32""",
        lambda s, b, h, i, j, c: s + c["slopes"][h] * (j - i),
    ),
    "rel_bias": Score(
        {},
        DISTANCE
        + """%factor = arith.constant 0.01 : f32
        %a = arith.mulf %df, %factor : f32
        %r = arith.addf %s, %a : f32""",
        lambda s, b, h, i, j, c: s + (j - i) * 0.01,
    ),
    "table": Score(
        {"table": f"tensor<HEADSx{2 * MAX_DISTANCE + 1}xf32>"},
        f"""%d = arith.subi %j, %i : index
        %most = arith.constant {MAX_DISTANCE} : index
        %least = arith.constant -{MAX_DISTANCE} : index
        %low = arith.minsi %d, %most : index
        %high = arith.maxsi %low, %least : index
        %place = arith.addi %high, %most : index
        %x = tensor.extract %table[%h, %place] : tensor<HEADSx{2 * MAX_DISTANCE + 1}xf32>
        %r = arith.addf %s, %x : f32""",
        lambda s, b, h, i, j, c: s + c["table"][h, (j - i).clamp(-MAX_DISTANCE, MAX_DISTANCE) + MAX_DISTANCE],
    ),
    "full_bias": Score(
        {"bias": "tensor<HEADSx?x?xbf16>"},
        """%x = tensor.extract %bias[%h, %i, %j] : tensor<HEADSx?x?xbf16>
        %y = arith.extf %x : bf16 to f32
        %r = arith.addf %s, %y : f32""",
        lambda s, b, h, i, j, c: s + c["bias"][h, i, j],
        lambda c: c["bias"][None],
    ),
    "batch_bias": Score(
        {"batch_bias": "tensor<?xHEADSx?x?xbf16>"},
        """%x = tensor.extract %batch_bias[%b, %h, %i, %j] : tensor<?xHEADSx?x?xbf16>
        %y = arith.extf %x : bf16 to f32
        %r = arith.addf %s, %y : f32""",
        lambda s, b, h, i, j, c: s + c["batch_bias"][b, h, i, j],
        lambda c: c["batch_bias"],
    ),
    "wide_bias": Score(
        {"wide_bias": "tensor<HEADSx?x?xf32>"},
        """%x = tensor.extract %wide_bias[%h, %i, %j] : tensor<HEADSx?x?xf32>
        %r = arith.addf %s, %x : f32""",
        lambda s, b, h, i, j, c: s + c["wide_bias"][h, i, j],
    ),
    "temperature": Score(
        {"temperature": "tensor<HEADSxf32>"},
        """%t = tensor.extract %temperature[%h] : tensor<HEADSxf32>
        %r = arith.mulf %s, %t : f32""",
        lambda s, b, h, i, j, c: s * c["temperature"][h],
    ),
    "graph": Score(
        {"paths": "tensor<?x?x?xi32>", "embedding": "tensor<512xHEADSxf32>"},
        """%x = tensor.extract %paths[%b, %i, %j] : tensor<?x?x?xi32>
        %place = arith.index_cast %x : i32 to index
        %y = tensor.extract %embedding[%place, %h] : tensor<512xHEADSxf32>
        %r = arith.addf %s, %y : f32""",
        lambda s, b, h, i, j, c: s + c["embedding"][c["paths"][b, i, j].long(), h],
    ),
}


def make_captures(torch, case, batch, length):
    """Tensors for the captures of a case, by name."""
    device = harness.DEVICE
    make = {
        "slopes": lambda: torch.exp2(-(torch.arange(case.heads, device=device) + 1) * 0.5),
        "table": lambda: torch.randn(case.heads, 2 * MAX_DISTANCE + 1, device=device),
        "bias": lambda: torch.randn(case.heads, length, length, device=device, dtype=torch.bfloat16),
        "batch_bias": lambda: torch.randn(batch, case.heads, length, length, device=device, dtype=torch.bfloat16),
        "wide_bias": lambda: torch.randn(case.heads, length, length, device=device),
        "temperature": lambda: torch.rand(case.heads, device=device) + 0.5,
        "paths": lambda: torch.randint(512, (batch, length, length), device=device, dtype=torch.int32),
        "embedding": lambda: torch.randn(512, case.heads, device=device),
    }
    return {name: make[name]() for name in case.captures}
