#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numerics of gradients of attention on a GPU: variants and shapes, against float64.

    python3 test/Integration/gpu/attention_grad.py --compile BUILD/bin/attn-compile --artifacts DIR
    python3 test/Integration/gpu/attention_grad.py --artifacts DIR [--runtime PATH] [--only NAME]

The first form compiles the variants and needs no GPU; it fails for a kernel
that spills or whose products are serialized. With --target=sm_80 that takes
--assemble, since PTX is what runs elsewhere. The second form runs them with
torch and needs no compiler. Each case runs twice, and

- the error of each gradient, a norm, is at most twice that of the same function
  in torch operations in the dtype of the inputs, plus one rounding; the gradient
  of what a score_mod reads is that of the output as it is given, rounded;
- gradients, filled with NaN before, are finite;
- rows with nothing to attend, and keys that no query attends, have a gradient of exactly 0;
- both runs of a deterministic gradient give the same bits.
"""

import math
import sys
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Callable, Optional

import numpy as np
from device_suite import choose_variants, compile_artifact, load, make_parser, run_cases
from data_masks import DATA_MASKS
from dropout_reference import Dropout, packed_mask

#: The subject of the rows that --record writes.
SUBJECT = "gradients of attention"

ROUNDING = {"bf16": 2.0**-8, "f16": 2.0**-11}

# Name to attribute, and the window it stands for: left, right, aligned top left.
MASKS = {
    "full": ("", None, None, False),
    "causal": ("#attn.causal", None, 0, False),
    "causal_tl": ("#attn.causal<alignment = top_left>", None, 0, True),
    "window": ("#attn.sliding_window<left = 128, right = 0>", 128, 0, False),
    "window_both": ("#attn.sliding_window<left = 40, right = 200>", 40, 200, False),
    "left": ("#attn.sliding_window<left = 100>", 100, None, False),
}

# Name to attribute, and which pairs it keeps: by query and key, aligned bottom right, and by the query's own number.
POSITION_MASKS = {
    "prefix": ("#attn.prefix_lm<length = 200>", lambda i, j, q: (j <= i) | (j < 200)),
    "global_window": (
        "#attn.or<#attn.global_tokens<count = 40>, #attn.sliding_window<left = 150, right = 70>>",
        lambda i, j, q: (q < 40) | (j < 40) | ((i - j <= 150) & (j - i <= 70)),
    ),
    "block_causal": ("#attn.local_blocks<size = 192, after = 0>", lambda i, j, q: i // 192 >= j // 192),
    "chunked": (
        "#attn.and<#attn.causal, #attn.local_blocks<size = 256, before = 0, after = 0>>",
        lambda i, j, q: (i >= j) & (i // 256 == j // 256),
    ),
    "dilated": ("#attn.dilated_window<left = 300, right = 90, dilation = 3>", lambda i, j, q: (i - j <= 300) & (j - i <= 90) & ((i - j) % 3 == 0)),
}

SAME = "%same = arith.cmpi eq, %doc_i, %doc_j : i32\n        "
# Masks that are regions: the values they read for each token, their body, and the same on tensors of values for each
# token: the number of its document, the document's first token, and the part of the document that the token is in.
KEEPS = {
    "documents": (("doc",), "%r = arith.cmpi eq, %doc_i, %doc_j : i32", lambda i, j, t: t.doc[i] == t.doc[j]),
    "share_question": (
        ("doc", "part"),
        SAME
        + """%zero = arith.constant 0 : i32
        %is_question = arith.cmpi eq, %part_j, %zero : i32
        %is_own = arith.cmpi eq, %part_i, %part_j : i32
        %is_seen = arith.ori %is_question, %is_own : i1
        %r = arith.andi %same, %is_seen : i1""",
        lambda i, j, t: (t.doc[i] == t.doc[j]) & ((t.part[j] == 0) | (t.part[i] == t.part[j])),
    ),
    "blockwise": (
        ("doc",),
        SAME
        + """%last = arith.constant 2 : i32
        %is_last = arith.cmpi eq, %doc_i, %last : i32
        %r = arith.ori %same, %is_last : i1""",
        lambda i, j, t: (t.doc[i] == t.doc[j]) | (t.doc[i] == 2),
    ),
    "prefix_documents": (
        ("doc", "part"),
        SAME
        + """%zero = arith.constant 0 : i32
        %is_prefix = arith.cmpi eq, %part_j, %zero : i32
        %is_before = arith.cmpi sge, %i, %j : index
        %is_seen = arith.ori %is_before, %is_prefix : i1
        %r = arith.andi %same, %is_seen : i1""",
        lambda i, j, t: (t.doc[i] == t.doc[j]) & ((i >= j) | (t.part[j] == 0)),
    ),
    "block_documents": (
        ("doc", "start"),
        SAME
        + """%size = arith.constant 96 : index
        %si = arith.index_cast %start_i : i32 to index
        %sj = arith.index_cast %start_j : i32 to index
        %pi = arith.subi %i, %si : index
        %pj = arith.subi %j, %sj : index
        %bi = arith.divui %pi, %size : index
        %bj = arith.divui %pj, %size : index
        %is_before = arith.cmpi uge, %bi, %bj : index
        %r = arith.andi %same, %is_before : i1""",
        lambda i, j, t: (t.doc[i] == t.doc[j]) & ((i - t.start[i]) // 96 >= (j - t.start[j]) // 96),
    ),
}


def make_tokens(torch, length):
    """What the regions read: documents of random lengths."""
    tokens = torch.arange(length)
    first = torch.rand(length) < 0.006
    doc = first.cumsum(0)
    start = torch.where(first | (tokens == 0), tokens, 0).cummax(0).values
    part = (tokens - start) // 70
    return SimpleNamespace(**{name: x.to("cuda", torch.int32) for name, x in (("doc", doc), ("start", start), ("part", part))})


POSITIONS = "%b: index, %h: index, %i: index, %j: index"
DISTANCE = """%d = arith.subi %j, %i : index
        %di = arith.index_cast %d : index to i32
        %df = arith.sitofp %di : i32 to f32"""


# Tables of distances: of all of them, or of at most TABLE_REACH; many pairs share the entries at the ends.
TABLE_SIZE, TABLE_REACH = 2048, 60
AT_DISTANCE = f"""%middle = arith.constant {TABLE_SIZE // 2} : index
        %d = arith.subi %j, %i : index
        %at = arith.addi %d, %middle : index"""
AT_REACH = f"""%low = arith.constant {-TABLE_REACH} : index
        %high = arith.constant {TABLE_REACH} : index
        %d = arith.subi %j, %i : index
        %d0 = arith.maxsi %d, %low : index
        %d1 = arith.minsi %d0, %high : index
        %at = arith.subi %d1, %low : index"""


@dataclass
class Score:
    """A score_mod that reads a tensor, whose gradient is wanted, too."""

    # Shape for batch, heads, queries and keys, None where it is not known beforehand.
    shape: Callable
    # What computes %r from %s and %c, and what adds to %sum and computes %r from %s and %ds.
    body: str
    grad: str
    apply: Callable
    # Of the tensor's elements.
    size: float = 1.0

    def type(self, heads):
        return "tensor<" + "".join(f"{size or '?'}x" for size in self.shape(None, heads, None, None)) + "f32>"


# Everything is reduced over what the tensor does not have.
SCORES = {
    "bias": Score(
        lambda b, h, q, k: (h, q, k),
        "%x = tensor.extract %c[%h, %i, %j] : TYPE\n        %r = arith.addf %s, %x : f32",
        "attn.accumulate %ds into %sum[%h, %i, %j] : TYPE",
        lambda s, c, b, h, i, j: s + c[h, i, j],
    ),
    "bias_of_batch": Score(
        lambda b, h, q, k: (b, q, k),
        "%x = tensor.extract %c[%b, %i, %j] : TYPE\n        %r = arith.addf %s, %x : f32",
        "attn.accumulate %ds into %sum[%b, %i, %j] : TYPE",
        lambda s, c, b, h, i, j: s + c[b, i, j],
    ),
    "bias_of_keys": Score(
        lambda b, h, q, k: (b, h, k),
        "%x = tensor.extract %c[%b, %h, %j] : TYPE\n        %r = arith.addf %s, %x : f32",
        "attn.accumulate %ds into %sum[%b, %h, %j] : TYPE",
        lambda s, c, b, h, i, j: s + c[b, h, j],
    ),
    "slopes": Score(
        lambda b, h, q, k: (h,),
        f"""%x = tensor.extract %c[%h] : TYPE
        {DISTANCE}
        %a = arith.mulf %df, %x : f32
        %r = arith.addf %s, %a : f32""",
        f"""{DISTANCE}
        %g = arith.mulf %ds, %df : f32
        attn.accumulate %g into %sum[%h] : TYPE""",
        lambda s, c, b, h, i, j: s + c[h] * (j - i),
        size=0.02,
    ),
    "distances": Score(
        lambda b, h, q, k: (h, TABLE_SIZE),
        f"{AT_DISTANCE}\n        %x = tensor.extract %c[%h, %at] : TYPE\n        %r = arith.addf %s, %x : f32",
        f"{AT_DISTANCE}\n        attn.accumulate %ds into %sum[%h, %at] : TYPE",
        lambda s, c, b, h, i, j: s + c[h, j - i + TABLE_SIZE // 2],
    ),
    "table": Score(
        lambda b, h, q, k: (h, 2 * TABLE_REACH + 1),
        f"{AT_REACH}\n        %x = tensor.extract %c[%h, %at] : TYPE\n        %r = arith.addf %s, %x : f32",
        f"{AT_REACH}\n        attn.accumulate %ds into %sum[%h, %at] : TYPE",
        lambda s, c, b, h, i, j: s + c[h, (j - i).clamp(-TABLE_REACH, TABLE_REACH) + TABLE_REACH],
    ),
    "temperature": Score(
        lambda b, h, q, k: (h,),
        "%x = tensor.extract %c[%h] : TYPE\n        %r = arith.mulf %s, %x : f32",
        """%x = tensor.extract %c[%h] : TYPE
        %g = arith.mulf %ds, %s : f32
        attn.accumulate %g into %sum[%h] : TYPE
        %r = arith.mulf %ds, %x : f32""",
        lambda s, c, b, h, i, j: s * c[h],
    ),
}

SUMS = """#attn_tile.gradient<
    preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
    dkdv = #attn_tile.key_stationary<query_tile = {tile}, key_tile = 128, stages = 2, consumers = 2>>"""

# Where gradients of keys and values do not fit one kernel.
SUMS_BESIDE_VALUES = """#attn_tile.gradient<
    preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
    dkdv = #attn_tile.key_stationary<query_tile = {tile}, key_tile = 128, stages = 2, consumers = 2, traversal = grid,
        interleave = 2, pipelined = true>,
    dv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = grid>>"""
IN_ORDER = """#attn_tile.gradient<
    preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
    dkdv = #attn_tile.key_stationary<query_tile = 48, key_tile = 128, stages = 2, consumers = 2>,
    dq = #attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2, query_stages = 2>>"""
IN_PARTS = """#attn_tile.gradient<
    preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
    dkdv = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2, query_parts = 2>>"""
# A dQ ring buffer with places for few heads, which CTAs and idle warps wait for again and again.
DQ_RING = """#attn_tile.gradient<
    preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
    dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = {traversal},
        pipelined = true, dq_ring_depth = 1>>"""
DQ_RING_IN_PARTS = """#attn_tile.gradient<
    preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
    dkdv = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2, traversal = {traversal},
        pipelined = true, query_parts = 2, dq_ring_depth = 1, lhs_registers = true>>"""
# Keys of the next work item that are loaded early.
EARLY_KEYS = """#attn_tile.gradient<
    preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
    dkdv = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2, traversal = paired,
        pipelined = true, query_parts = 2, lhs_registers = true, key_stages = 2>>"""
# Ordered dQ accumulation, of pairs of work items.
ORDERED = """#attn_tile.gradient<
    preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
    dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = paired,
        pipelined = true, ordered_dq = true>>"""
ORDERED_IN_PARTS = """#attn_tile.gradient<
    preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
    dkdv = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2, traversal = paired,
        pipelined = true, query_parts = 2, ordered_dq = true>>"""


@dataclass
class Variant:
    name: str
    qk_dim: int
    v_dim: int = 0
    # Query, key and value heads; without the last, there are as many as key heads.
    heads: tuple = (2, 2)
    dtype: str = "bf16"
    # How f32 values are multiplied: "high", or the highest precision.
    precision: str = ""
    mask: str = "full"
    # Tile of queries of the kernel that adds up the gradients of queries.
    sums: int = 0
    deterministic: bool = False
    dlse: bool = False
    # Of queries and keys: large ones give a log-sum-exp far from 0.
    spread: float = 1.0
    dropout: Optional[Dropout] = None
    # The layout of keep masks, if they are made beforehand.
    bits: str = ""
    # A mask that reads operands, in the place of `mask`.
    data: str = ""
    # A mask_mod, in addition to `mask`.
    keep: str = ""
    # Whether probabilities are mixed with the identity.
    identity: bool = False
    # A score_mod with a gradient of its own.
    score: str = ""
    schedule: str = ""
    # Whether some registers may spill: of idle warps that accumulate in order, of wide heads of f32, or of the kernel
    # that prepares rows of wide heads mixed with the identity.
    may_spill: bool = False

    @property
    def rounding(self) -> float:
        """The relative error of a factor, with the accumulation of tensor cores."""
        if self.dtype != "f32":
            return ROUNDING[self.dtype]
        if self.precision:
            return 2.0**-10
        # Tensor cores truncate while they add up over the head dim.
        return 2.0**-16 if self.qk_dim > 256 else 2.0**-18

    @property
    def shared_heads(self) -> tuple:
        """Key and value heads."""
        return self.heads[1], self.heads[-1]

    def mlir(self) -> str:
        v_dim = self.v_dim or self.qk_dim
        q = f"tensor<?x{self.heads[0]}x?x{self.qk_dim}x{self.dtype}>"
        k = f"tensor<?x{self.heads[1]}x?x{self.qk_dim}x{self.dtype}>"
        v = f"tensor<?x{self.shared_heads[1]}x?x{v_dim}x{self.dtype}>"
        o = f"tensor<?x{self.heads[0]}x?x{v_dim}x{self.dtype}>"
        lse = f"tensor<?x{self.heads[0]}x?xf32>"
        mask = (POSITION_MASKS if self.mask in POSITION_MASKS else MASKS)[self.mask][0]
        options = f" mask({mask})" if mask else ""
        reads = ""
        if self.data:
            types = DATA_MASKS[self.data].types(self.heads[0], "tensor")
            names = [f"%read{n}" for n in range(len(types))]
            reads = "".join(f", {name}: {type}" for name, type in zip(names, types))
            options = f" mask({DATA_MASKS[self.data].text}) reads({', '.join(names)} : {', '.join(types)})"
        identity = ""
        if self.identity:
            identity = f"tensor<{self.heads[0]}xf32>"
            reads += f", %identity: {identity}"
            identity = f" identity(%identity : {identity})"
        state = ""
        if self.dropout:
            state = ", %seed: tensor<i64>, %offset: tensor<i64>"
        made = ""
        if self.bits:
            made, option = packed_mask(self.dropout, self.bits, "%batch", self.heads[0], "%queries", "%keys")
            options += option
        elif self.dropout:
            options += f" dropout({self.dropout}, %seed, %offset : tensor<i64>, tensor<i64>)"
        if self.precision:
            options += f" precision({self.precision})"
        if self.sums:
            schedule = SUMS if self.qk_dim <= 128 else SUMS_BESIDE_VALUES
            options += f" schedule({schedule.format(tile=self.sums)})"
        elif self.schedule:
            options += f" schedule({self.schedule})"
        if self.deterministic:
            options += " deterministic"
        dlse, dlse_type = (", %dlse", f", {lse}") if self.dlse else ("", "")
        zeros = into = types = ""
        if self.score:
            score = SCORES[self.score]
            kind = score.type(self.heads[0])
            result = "" if "%r =" in score.grad else "\n        %r = arith.addf %ds, %none : f32"
            reads += f", %c: {kind}"
            sizes = [f"%c_{dim}" for dim, size in enumerate(score.shape(None, 1, None, None)) if size is None]
            zeros = "".join(
                f"\n  %at_{dim} = arith.constant {dim} : index\n  %c_{dim} = tensor.dim %c, %at_{dim} : {kind}"
                for dim in range(3) if f"%c_{dim}" in sizes)
            zeros += f"""
  %zero = arith.constant 0.0 : f32
  %room = tensor.empty({", ".join(sizes)}) : {kind}
  %dc0 = linalg.fill ins(%zero : f32) outs(%room : {kind}) -> {kind}"""
            into, types = ", %dc0", f", {kind}"
            options += f"""
      score_mod {{
      ^bb0(%s: f32, {POSITIONS}):
        {score.body.replace("TYPE", kind)}
        attn.yield %r : f32
      }} score_mod_grad {{
      ^bb0(%s: f32, %ds: f32, {POSITIONS}, %sum: {kind}):
        %none = arith.constant 0.0 : f32
        {score.grad.replace("TYPE", kind)}{result}
        attn.yield %r : f32
      }}"""
        if self.keep:
            names, body, _ = KEEPS[self.keep]
            places = [(name, position) for name in names for position in "ij" if f"%{name}_{position}" in body]
            loads = "".join(f"%{name}_{position} = tensor.extract %{name}[%{position}] : tensor<?xi32>\n        " for name, position in places)
            reads += "".join(f", %{name}: tensor<?xi32>" for name in names)
            options += f"""
      mask_mod {{
      ^bb0({POSITIONS}):
        {loads}{body}
        attn.yield %r : i1
      }}"""
        count = 4 if self.score else 3
        results = ", ".join(f"%r#{n}" for n in range(count))
        return f"""func.func @{self.name}(%q: {q}, %k: {k}, %v: {v}, %o: {o}, %lse: {lse}, %do: {o}, %dlse: {lse}{state}{reads}) -> ({q}, {k}, {v}{types}) {{
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %batch = tensor.dim %q, %c0 : {q}
  %queries = tensor.dim %q, %c2 : {q}
  %keys = tensor.dim %k, %c2 : {k}
  %dq = tensor.empty(%batch, %queries) : {q}
  %dk = tensor.empty(%batch, %keys) : {k}
  %dv = tensor.empty(%batch, %keys) : {v}{made}{zeros}
  %r:{count} = attn.attention_grad ins(%q, %k, %v, %o, %lse, %do{dlse} : {q}, {k}, {v}, {o}, {lse}, {o}{dlse_type})
      outs(%dq, %dk, %dv{into} : {q}, {k}, {v}{types}){identity}{options} -> {q}, {k}, {v}{types}
  return {results} : {q}, {k}, {v}{types}
}}
"""


VARIANTS = [
    Variant("d128", 128),
    Variant("d128_deterministic", 128, deterministic=True),
    Variant("d128_causal_grouped", 128, heads=(8, 2), mask="causal", deterministic=True),
    Variant("d128_window", 128, mask="window", dtype="f16", dlse=True),
    Variant("d128_sums", 128, sums=64),
    Variant("d128_sums_causal_grouped", 128, heads=(4, 1), mask="causal", sums=64, dlse=True),
    Variant("d64", 64, dtype="f16", deterministic=True),
    Variant("d64_causal_tl", 64, mask="causal_tl", heads=(6, 2)),
    Variant("d64_left", 64, mask="left"),
    Variant("d64_large_scores", 64, mask="causal", spread=8.0),
    Variant("d32", 32, mask="window_both"),
    Variant("d80_40", 80, 40, mask="causal"),
    Variant("d96_sums", 96, heads=(4, 2), mask="causal", sums=64),
    Variant("d192_128", 192, 128, mask="causal"),
    Variant("d256", 256, deterministic=True),
    Variant("d256_causal", 256, mask="causal"),
    Variant("d256_sums", 256, sums=48, dlse=True),
    Variant("d256_sums_causal_grouped", 256, heads=(4, 2), mask="causal", sums=48),
    Variant("d256_sums_causal", 256, heads=(3, 3), mask="causal", dtype="f16", sums=48),
    Variant("d256_sums_tl", 256, heads=(6, 2), mask="causal_tl", sums=48, dlse=True),
    Variant("d256_128_sums", 256, 128, mask="causal", sums=48),
    # Kernels for tiles of the columns of each gradient.
    Variant("d512", 512),
    Variant("d512_causal_grouped", 512, heads=(4, 1), mask="causal", dtype="f16", dlse=True),
    Variant("d512_documents", 512, heads=(4, 2), data="causal_packed_documents"),
    Variant("d512_keep_documents", 512, mask="causal", keep="documents"),
    Variant("d512_dropout", 512, heads=(4, 2), mask="causal", dropout=Dropout(0.125, "philox", 7)),
    Variant("d512_bits", 512, dropout=Dropout(0.125, "arx", 6), bits="columns"),
    Variant("d512_identity", 512, heads=(4, 2), identity=True, may_spill=True),
    Variant("d512_bias", 512, heads=(4, 2), mask="causal", score="bias"),
    Variant("d512_temperature", 512, score="temperature", dlse=True),
    Variant("d576_512_grouped", 576, 512, heads=(8, 1), mask="causal"),
    Variant("d576", 576, mask="window_both", deterministic=True),
    Variant("d384_window", 384, mask="window", dtype="f16"),
    Variant("d320_causal", 320, heads=(4, 2), mask="causal", spread=8.0),
    Variant("d264_causal_tl", 264, mask="causal_tl"),
    Variant("d64_512", 64, 512, mask="causal"),
    Variant("d512_64", 512, 64, heads=(4, 2), mask="global_window"),
    Variant("f32_d320", 320, dtype="f32", mask="causal", may_spill=True),
    Variant("f32_d288_high", 288, dtype="f32", precision="high", may_spill=True),
    Variant("f32_d64_causal", 64, dtype="f32", mask="causal"),
    Variant("f32_d128_grouped", 128, dtype="f32", heads=(8, 2), dlse=True, may_spill=True),
    Variant("f32_d256", 256, dtype="f32", mask="window_both", may_spill=True),
    Variant("f32_d80_40_dropout", 80, 40, dtype="f32", mask="causal", dropout=Dropout(0.125, "philox", 7)),
    Variant("f32_d64_causal_high", 64, dtype="f32", mask="causal", heads=(4, 2), precision="high"),
    Variant("f32_d128_high", 128, dtype="f32", dlse=True, precision="high"),
    # The masks of tiles that are found at run time are the initial accumulators of MMAs.
    Variant("f32_d64_keep_documents", 64, dtype="f32", mask="causal", keep="documents"),
    Variant("f32_d128_high_keep_documents", 128, dtype="f32", heads=(4, 2), keep="documents", precision="high"),
    Variant("f32_d192_128_high", 192, 128, dtype="f32", mask="causal", precision="high"),
    Variant("d64_dropout", 64, dropout=Dropout(0.125, "philox", 7)),
    Variant("d64_dropout_causal_grouped", 64, heads=(4, 2), mask="causal", dtype="f16", dropout=Dropout(0.3, "arx", 6)),
    Variant("d128_dropout_sums", 128, dtype="f16", dlse=True, dropout=Dropout(0.125, "philox", 7)),
    Variant("d128_dropout_causal_grouped", 128, heads=(8, 2), mask="causal", dropout=Dropout(0.125, "arx", 6)),
    Variant("d128_dropout", 128, mask="window", deterministic=True, dlse=True, dropout=Dropout(0.1, "arx", 6)),
    Variant("d64_bits", 64, mask="causal", heads=(4, 2), dropout=Dropout(0.125, "arx", 6), bits="columns"),
    Variant("d64_bits_full", 64, dropout=Dropout(0.125, "arx", 6), bits="rows"),
    Variant("d64_bits_documents", 64, heads=(4, 2), mask="causal", keep="documents", dropout=Dropout(0.125, "arx", 6), bits="columns"),
    Variant("d128_bits_causal_grouped", 128, heads=(8, 2), mask="causal", dropout=Dropout(0.1, "arx", 6), bits="columns"),
    Variant("d128_bits", 128, dlse=True, dropout=Dropout(0.3, "philox", 7), bits="columns"),
    Variant("d128_bits_deterministic", 128, mask="window", deterministic=True, dropout=Dropout(0.1, "arx", 6), bits="rows"),
    Variant("d256_causal_grouped", 256, heads=(4, 2), mask="causal", dtype="f16"),
    Variant("d128_documents", 128, heads=(4, 2), data="causal_packed_documents"),
    Variant("d128_blocks", 128, heads=(4, 2), data="blocks16", dlse=True),
    Variant("d128_blocks_deterministic", 128, heads=(4, 2), data="blocks16", deterministic=True),
    Variant("d64_tree", 64, heads=(4, 1), dtype="f16", data="tree"),
    Variant("d64_causal_blocks", 64, data="causal_blocks"),
    Variant("d192_blocks", 192, 128, data="blocks_or_first"),
    Variant("d128_prefix", 128, heads=(4, 2), mask="prefix"),
    Variant("d128_global_window", 128, heads=(4, 2), mask="global_window"),
    Variant("d128_block_causal", 128, heads=(8, 1), mask="block_causal"),
    Variant("d128_chunked", 128, heads=(4, 2), mask="chunked"),
    Variant("d128_window_grouped", 128, heads=(8, 2), mask="window_both"),
    Variant("d64_global_window", 64, dtype="f16", mask="global_window"),
    Variant("d64_dilated", 64, heads=(4, 2), mask="dilated"),
    Variant("d256_chunked", 256, heads=(4, 2), mask="chunked"),
    Variant("d128_chunked_deterministic", 128, mask="chunked", deterministic=True),
    Variant("d128_keep_documents", 128, heads=(8, 2), keep="documents"),
    Variant("d128_keep_causal_documents", 128, mask="causal", keep="documents"),
    Variant("d128_share_question", 128, heads=(8, 2), mask="causal", keep="share_question"),
    Variant("d128_blockwise", 128, heads=(4, 2), mask="causal", keep="blockwise"),
    Variant("d128_prefix_documents", 128, heads=(8, 2), keep="prefix_documents", dlse=True),
    Variant("d128_block_documents", 128, heads=(4, 2), keep="block_documents"),
    Variant("d64_prefix_documents", 64, heads=(4, 2), keep="prefix_documents"),
    Variant("d256_keep_documents", 256, keep="documents"),
    Variant("d128_identity", 128, heads=(8, 2), identity=True),
    Variant("d64_identity", 64, dtype="f16", deterministic=True, identity=True, dropout=Dropout(0.125, "arx", 6)),
    Variant("d192_identity", 192, 128, heads=(4, 2), mask="window_both", identity=True),
    Variant("d128_bias", 128, score="bias", sums=48),
    Variant("d128_bias_deterministic", 128, score="bias_of_keys", schedule=IN_ORDER, deterministic=True),
    Variant("d128_bias_of_batch", 128, heads=(4, 2), mask="causal", score="bias_of_batch", sums=48),
    Variant("d64_bias_of_keys", 64, score="bias_of_keys", schedule=IN_PARTS, dlse=True),
    Variant("d64_slopes", 64, heads=(6, 2), mask="causal", score="slopes", schedule=IN_PARTS),
    Variant("d128_temperature", 128, score="temperature", sums=48, dlse=True),
    Variant("d128_dq_ring", 128, schedule=DQ_RING.format(traversal="persistent")),
    Variant("d128_dq_ring_causal", 128, dtype="f16", mask="causal", schedule=DQ_RING.format(traversal="paired")),
    Variant("d96_dq_ring_causal", 96, heads=(3, 3), mask="causal", dlse=True, schedule=DQ_RING.format(traversal="paired")),
    # Keys that no query attends are work items without a step.
    Variant("d128_dq_ring_tl", 128, mask="causal_tl", schedule=DQ_RING.format(traversal="persistent")),
    Variant("d64_dq_ring_tl", 64, heads=(3, 3), mask="causal_tl", schedule=DQ_RING_IN_PARTS.format(traversal="persistent")),
    Variant("d64_dq_ring", 64, schedule=DQ_RING_IN_PARTS.format(traversal="persistent")),
    Variant("d64_dq_ring_causal", 64, heads=(3, 3), mask="causal", schedule=DQ_RING_IN_PARTS.format(traversal="paired")),
    # A ring buffer with places for all last heads, whose work items are distributed one by one.
    Variant("d64_dq_ring_last", 64, heads=(3, 3), mask="causal",
            schedule=DQ_RING_IN_PARTS.format(traversal="paired").replace("dq_ring_depth = 1", "dq_ring_depth = 528")),
    Variant("d32_dq_ring_grouped", 32, heads=(4, 2), dtype="f16", schedule=DQ_RING_IN_PARTS.format(traversal="persistent")),
    Variant("d64_early_keys", 64, heads=(3, 3), mask="causal", schedule=EARLY_KEYS),
    Variant("d64_early_keys_dropout", 64, dtype="f16", mask="causal", dropout=Dropout(0.1, "arx", 6), schedule=EARLY_KEYS),
    # Ordered dQ accumulation.
    Variant("d128_order_causal", 128, heads=(3, 3), mask="causal", deterministic=True, schedule=ORDERED, may_spill=True),
    Variant("d128_order_causal_tl", 128, dtype="f16", mask="causal_tl", dlse=True, deterministic=True, schedule=ORDERED, may_spill=True),
    Variant("d128_order_dropout", 128, heads=(3, 3), mask="causal", deterministic=True, dropout=Dropout(0.1, "arx", 6), schedule=ORDERED, may_spill=True),
    Variant("d96_order", 96, heads=(5, 5), deterministic=True),
    Variant("d64_order_causal", 64, heads=(3, 3), mask="causal", deterministic=True, schedule=ORDERED_IN_PARTS),
    # Schedules that are chosen.
    Variant("d128_chosen_bias", 128, heads=(4, 2), mask="causal", score="bias", dlse=True),
    Variant("d128_chosen_deterministic", 128, score="bias_of_keys", deterministic=True),
    Variant("d128_chosen_temperature_dropout", 128, score="temperature", dropout=Dropout(0.125, "arx", 6)),
    Variant("d64_chosen_bias", 64, heads=(4, 2), mask="causal", score="bias"),
    Variant("d64_chosen_temperature", 64, dtype="f16", score="temperature", data="blocks16"),
    Variant("d192_chosen_slopes", 192, 128, heads=(4, 2), mask="causal", score="slopes"),
    Variant("d64_chosen_distances", 64, score="distances"),
    Variant("d64_chosen_table", 64, heads=(4, 2), mask="causal", score="table", dlse=True),
    Variant("d128_chosen_distances", 128, heads=(4, 2), dtype="f16", score="distances"),
    Variant("d128_chosen_table", 128, score="table"),
    Variant("d256_chosen_bias", 256, score="bias"),
    Variant("d256_chosen_slopes", 256, heads=(4, 2), mask="causal", score="slopes"),
    Variant("d256_chosen_table", 256, dtype="f16", score="table"),
    Variant("d256_chosen_temperature", 256, score="temperature", dlse=True),
    # Other numbers of value heads than of key heads.
    Variant("d128_heads_of_keys", 128, heads=(12, 12, 4), mask="causal"),
    Variant("d128_heads_of_values", 128, heads=(12, 4, 12), mask="causal", dlse=True),
    Variant("d64_heads_of_both", 64, heads=(12, 3, 6), dtype="f16"),
    Variant("d64_heads_of_one", 64, heads=(12, 1, 12), mask="causal", dropout=Dropout(0.125, "arx", 6)),
    Variant("d192_128_heads", 192, 128, heads=(12, 6, 3), mask="window_both", deterministic=True),
    Variant("d512_heads", 512, heads=(4, 1, 4), mask="causal"),
    Variant("d128_heads_documents", 128, heads=(12, 6, 4), keep="documents"),
    Variant("d128_heads_ordered", 128, heads=(3, 1, 3), mask="causal", deterministic=True, schedule=ORDERED, may_spill=True),
    Variant("d64_heads_dq_ring", 64, heads=(4, 1, 2), schedule=DQ_RING_IN_PARTS.format(traversal="persistent")),
    Variant("d128_heads_identity", 128, heads=(12, 4, 6), identity=True),
    Variant("f32_d64_heads", 64, dtype="f32", heads=(12, 12, 3), mask="causal"),
]

# Batch, queries and keys. Of the last one there are more work items than SMs; NumPy takes too long to make its
# keep masks of dropout.
MANY_WORK_ITEMS = (64, 200, 333)
# More tiles of keys, and pairs of them, than there are CTAs that could wait for one another.
MANY_KEYS = [(1, 130, 20000), (1, 70, 34100)]
SHAPES = [(1, 128, 128), (2, 200, 333), (1, 1, 128), (1, 192, 64), (1, 127, 129), (3, 65, 1), (1, 1000, 777), MANY_WORK_ITEMS]


def gradients(torch, variant, q, k, v, dout, dlse, rng_state, reads, tokens, identity, captures, dtype, first_batch=0):
    """Out, its log-sum-exp, and the gradients, by operations in `dtype`. Keep masks of dropout are for batch entries
    from `first_batch` on."""
    q, k, v = (x.to(dtype).detach().requires_grad_(True) for x in (q, k, v))
    # Captures, and the scores that they modify, are f32 at least.
    captures = [x.to(torch.promote_types(dtype, torch.float32)).detach().requires_grad_(True) for x in captures]
    groups = [variant.heads[0] // heads for heads in variant.shared_heads]
    scores = q @ k.repeat_interleave(groups[0], 1).transpose(-1, -2) / math.sqrt(variant.qk_dim)
    if variant.score:
        at = torch.meshgrid(*(torch.arange(n, device=q.device) for n in scores.shape), indexing="ij")
        scores = SCORES[variant.score].apply(scores, captures[0], *at)
    _, left, right, top_left = MASKS.get(variant.mask, MASKS["full"])
    number = torch.arange(q.shape[2], device=q.device)[:, None]
    i = number + (0 if top_left else k.shape[2] - q.shape[2])
    j = torch.arange(k.shape[2], device=q.device)[None, :]
    masked = torch.zeros(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
    if left is not None:
        masked |= j < i - left
    if right is not None:
        masked |= j > i + right
    if variant.mask in POSITION_MASKS:
        masked |= ~POSITION_MASKS[variant.mask][1](i, j, number)
    if variant.keep:
        masked |= ~KEEPS[variant.keep][2](number, j, tokens)
    if variant.data:
        at = np.ogrid[tuple(slice(n) for n in scores.shape)]
        kept = DATA_MASKS[variant.data].keep(*at, q.shape[2], k.shape[2], reads)
        masked = masked | ~torch.from_numpy(np.broadcast_to(kept, scores.shape).copy()).to(q.device)
    empty = masked.all(-1)
    scores = scores.masked_fill(masked, -math.inf).masked_fill(empty[..., None], 0)
    lse = scores.logsumexp(-1)
    weights = scores.softmax(-1).masked_fill(empty[..., None], 0).to(dtype)
    if variant.dropout:
        entries, *positions = np.ogrid[tuple(slice(n) for n in weights.shape)]
        kept = variant.dropout.keep(*rng_state, entries + first_batch, *positions)
        weights = weights * torch.from_numpy(kept).to(q.device) / variant.dropout.keep_probability
    if variant.identity:
        u = identity.to(dtype).view(1, -1, 1, 1)
        weights = (1 - u) * weights + u * (j == i)
    out = weights @ v.repeat_interleave(groups[1], 1)
    total = (out * dout.to(dtype)).sum() + (lse * dlse.to(dtype)).masked_fill(empty, 0).sum()
    grads = torch.autograd.grad(total, (q, k, v, *captures))
    unattended = [masked.expand(scores.shape).all(2).unflatten(1, (-1, group)).all(2) for group in groups]
    return out.detach(), lse.detach().masked_fill(empty, -math.inf), grads, (empty, unattended)


def run_case(torch, function, variant, shape, is_deterministic):
    """A message if something is wrong."""
    batch, queries, keys = shape
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[variant.dtype]
    v_dim = variant.v_dim or variant.qk_dim

    def make(heads, length, channels, spread=1.0):
        return (spread * torch.randn(batch, heads, length, channels, device="cuda")).to(dtype)

    q = make(variant.heads[0], queries, variant.qk_dim, variant.spread)
    k = make(variant.heads[1], keys, variant.qk_dim, variant.spread)
    v, dout = make(variant.shared_heads[1], keys, v_dim), make(variant.heads[0], queries, v_dim)
    dlse = torch.randn(batch, variant.heads[0], queries, device="cuda") * variant.dlse
    rng_state = [int(x) for x in torch.randint(-(2**63), 2**63 - 1, (2,))] if variant.dropout else []
    reads = ()
    if variant.data:
        size = SimpleNamespace(b=batch, hq=variant.heads[0], sq=queries, skv=keys)
        reads = DATA_MASKS[variant.data].make(size, np.random.default_rng(queries))
    tokens = make_tokens(torch, max(queries, keys))
    # One head has the identity alone, and one has none of it.
    identity = torch.rand(variant.heads[0], device="cuda")
    identity[0], identity[-1] = 1, 0
    captures = []
    if variant.score:
        score = SCORES[variant.score]
        captures.append(score.size * (torch.rand(score.shape(batch, variant.heads[0], queries, keys), device="cuda") + 0.5))
    out, lse, exact, (empty, unattended) = gradients(torch, variant, q, k, v, dout, dlse, rng_state, reads, tokens, identity, captures, torch.float64)
    _, _, rounded, _ = gradients(torch, variant, q, k, v, dout, dlse, rng_state, reads, tokens, identity, captures, dtype)
    if captures:
        # Rounding moves what a row has in common, as a gradient of its log-sum-exp does.
        moved = ((out.to(dtype).double() - out) * dout.double()).sum(-1)
        given = gradients(torch, variant, q, k, v, dout, dlse - moved, rng_state, reads, tokens, identity, captures, torch.float64)[2]
        exact = (*exact[:3], *given[3:])
    states = [torch.tensor(x, device="cuda") for x in rng_state]
    states += [torch.from_numpy(np.ascontiguousarray(x)).cuda() for x in reads]
    states += [getattr(tokens, name) for name in KEEPS[variant.keep][0]] if variant.keep else []
    states += [identity] if variant.identity else []
    states += captures
    out, lse = out.to(dtype), lse.float()
    runs = []
    for _ in range(2):
        grads = [torch.full_like(x, math.nan) for x in (q, k, v, *captures)]
        function(q, k, v, out, lse, dout, dlse, *states, *grads)
        torch.cuda.synchronize()
        runs.append(grads)
    for name, result, expected, other in zip(("dq", "dk", "dv", "dcapture"), runs[0], exact, rounded):
        if not result.isfinite().all():
            return f"{name} is not finite"
        error = (result.double() - expected).norm().item()
        # Where exact gradients vanish, as with a single key, only roundings are left; there, the output is the value
        # itself, and not rounded.
        floor = (2e-2 if variant.dropout or variant.identity else 1e-2) * variant.spread * math.sqrt(result.numel())
        # Of few numbers, as captured tensors have, a single rounding may be most of the error.
        roundings = 2 if name == "dcapture" else 1
        allowed = 1e-4 * floor + 2 * (other.double() - expected).norm().item()
        allowed += roundings * variant.rounding * expected.norm().item()
        if error > allowed and error > (floor if keys == 1 else 0):
            return f"{name}: error {error:.3g}, allowed {allowed:.3g}"
    if runs[0][0].masked_fill(~empty[..., None], 0).any():
        return "dq of a row with nothing to attend is not 0"
    of_unattended = [x.masked_fill(~is_so[..., None], 0) for x, is_so in zip(runs[0][1:3], unattended)]
    if not variant.identity and any(x.any() for x in of_unattended):
        return "dk or dv of a key that no query attends is not 0"
    if is_deterministic and any(not torch.equal(a, b) for a, b in zip(*runs)):
        return "two runs differ"
    return None


def make_cases(torch, options):
    for variant in choose_variants(options, VARIANTS):
        function = load(options, f"grad_{variant.name}", variant.name)
        # Kernels for sm_80, and kernels on f32, accumulate only gradients of tensors that a score_mod reads.
        has_multistage_kernels = options.target == "sm_80" or variant.dtype == "f32"
        is_deterministic = variant.deterministic or (has_multistage_kernels and not variant.score)
        # A mask without queries has no words.
        more = MANY_KEYS * ("_order" in variant.name) + [(1, 0, 128)] * bool(variant.bits)
        for shape in SHAPES + more:
            if shape in (MANY_WORK_ITEMS, *MANY_KEYS) and variant.dropout:
                continue
            yield f"{variant.name} {shape}", partial(run_case, torch, function, variant, shape, is_deterministic)


def main():
    options = make_parser(__doc__, "target", "assemble", "only", "every").parse_args()
    if options.compile:
        flags = ["--fail-on-spills"] if options.assemble or options.target == "sm_90a" else []
        assembled = ["--embed-ptx=false"] if options.assemble else []
        for variant in choose_variants(options, VARIANTS):
            compile_artifact(options, f"grad_{variant.name}", variant.mlir(), *assembled, *(() if variant.may_spill else flags))
        return 0

    import torch

    torch.manual_seed(0)
    return run_cases(make_cases(torch, options), options)


if __name__ == "__main__":
    sys.exit(main())
