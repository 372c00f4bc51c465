# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention as a module of one function."""

import dataclasses
import re
import textwrap
from typing import Optional, Tuple


@dataclasses.dataclass(frozen=True)
class Attention:
    """Attention of a kind; ``mlir`` is its module.

    The module has one function, ``attention(query, key, value, captures...)``,
    with results ``out`` and, if ``with_lse``, ``lse``. With ``dropout``, an
    attribute such as ``#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>``,
    its last arguments are ``seed`` and ``offset``. Batch and lengths may vary
    from call to call. ``score`` and ``keep`` are bodies of regions in MLIR, which
    see the score ``%s`` and the position ``%b, %h, %i, %j``, read the captures
    ``%c0, %c1, ...``, and end with ``attn.yield``.

        attn.compile(attn.Attention("bf16", 32, 8, 128, mask="#attn.causal"), target="sm_90a")
    """

    dtype: str
    query_heads: int
    key_heads: int
    query_dim: int
    value_dim: Optional[int] = None
    mask: str = ""
    scale: Optional[float] = None
    score: str = ""
    keep: str = ""
    #: Types of what regions read, such as "tensor<?x?xf32>".
    captures: Tuple[str, ...] = ()
    with_lse: bool = False
    dropout: str = ""

    #: The function's name.
    NAME = "attention"

    def mlir(self) -> str:
        query = f"tensor<?x{self.query_heads}x?x{self.query_dim}x{self.dtype}>"
        key = f"tensor<?x{self.key_heads}x?x{self.query_dim}x{self.dtype}>"
        value_dim = self.query_dim if self.value_dim is None else self.value_dim
        value = f"tensor<?x{self.key_heads}x?x{value_dim}x{self.dtype}>"
        out = f"tensor<?x{self.query_heads}x?x{value_dim}x{self.dtype}>"
        lse = f"tensor<?x{self.query_heads}x?xf32>"
        results = [out, lse] if self.with_lse else [out]
        captures = "".join(f", %c{i}: {kind}" for i, kind in enumerate(self.captures))
        state = ", %seed: tensor<i64>, %offset: tensor<i64>" if self.dropout else ""
        inits = ["%out_init", "%lse_init"][: len(results)]
        clauses = []
        if self.scale is not None:
            clauses.append(f"scale({_float(self.scale)})")
        if self.mask:
            clauses.append(f"mask({self.mask})")
        if self.dropout:
            clauses.append(f"dropout({self.dropout}, %seed, %offset : tensor<i64>, tensor<i64>)")
        if self.score:
            clauses.append(_region("score", "%s: f32, %b: index, %h: index, %i: index, %j: index", self.score))
        if self.keep:
            clauses.append(_region("keep", "%b: index, %h: index, %i: index, %j: index", self.keep))
        lines = [
            f"func.func @{self.NAME}(%query: {query}, %key: {key}, %value: {value}{captures}{state})",
            f"    -> ({', '.join(results)}) {{",
            "  %dim0 = arith.constant 0 : index",
            "  %dim2 = arith.constant 2 : index",
            f"  %batch = tensor.dim %query, %dim0 : {query}",
            f"  %queries = tensor.dim %query, %dim2 : {query}",
            *(f"  {init} = tensor.empty(%batch, %queries) : {kind}" for init, kind in zip(inits, results)),
            f"  %r:{len(results)} = attn.attention",
            f"      ins(%query, %key, %value : {query}, {key}, {value})",
            f"      outs({', '.join(inits)} : {', '.join(results)})",
            *(textwrap.indent(clause, "      ") for clause in clauses),
            f"      -> {', '.join(results)}",
            f"  return {', '.join(f'%r#{i}' for i in range(len(results)))} : {', '.join(results)}",
            "}",
            "",
        ]
        return "\n".join(lines)


def _float(value: float) -> str:
    """A literal of MLIR: it has a point."""
    text = f"{value:.9e}"
    return text if re.fullmatch(r"-?\d\.\d+e[+-]\d+", text) else repr(float(value))


def _region(name: str, arguments: str, body: str) -> str:
    return f"{name} {{\n^bb0({arguments}):\n{textwrap.indent(textwrap.dedent(body).strip(), '  ')}\n}}"
