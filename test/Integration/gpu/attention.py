#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numerics of attention on a GPU: many variants, many shapes, against float64.

    python3 test/Integration/gpu/attention.py --compile BUILD/bin/attn-compile --artifacts DIR
    python3 test/Integration/gpu/attention.py --artifacts DIR [--runtime PATH] [--only NAME]

The first form compiles the variants and needs no GPU; it fails for a kernel
that spills or whose products are serialized. Shared objects for sm_80 hold PTX,
of which the assembler reports nothing, unless --assemble is given. The
second form runs the shared objects with torch and needs no compiler. Each case
runs twice, and

- the error of the output, a norm, is at most twice that of the same function in
  torch operations (products in the dtype of the inputs, softmax in f32), plus
  one rounding of the output;
- no row is further away than roundings explain, so that one wrong key shows;
- the log-sum-exp is within 2e-3;
- rows with nothing to attend are exactly 0, and -inf, or those of the partial
  result that attention goes on from;
- outputs, filled with NaN before, are written in full, and nothing around them
  is; inputs are surrounded by NaN;
- both runs give the same bits;
- maps of heads that leave the keys, and operands of masks that are not valid,
  are reported, by the next call.

Under compute-sanitizer, use --sanitizer-subset.
"""

import math
import os
import random
import re
import sys
import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Dict, Optional, Tuple

import numpy as np
from device_suite import choose_variants, make_parser, record, run_passes, write_source
from data_masks import DATA_MASKS
from dropout_reference import Dropout, packed_mask
from tool_cache import run_tool

# Dtypes that torch multiplies only after a conversion.
F8, E5M2 = "f8E4M3FN", "f8E5M2"
EIGHT_BITS = (F8, E5M2)
# What one rounding to a dtype changes, at most; with inputs of 8 bits, the rounding of probabilities to E4M3.
ROUNDING = {"f8E4M3FN": 2.0**-4, "f8E5M2": 2.0**-4, "bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24}
# The same of an output, and half of the distance of its subnormal numbers where these matter.
OUT_ROUNDING = {**ROUNDING, E5M2: 2.0**-3}
HALF_SUBNORMAL = {F8: 2.0**-10, E5M2: 2.0**-17}

# ---------------------------------------------------------------------------
# Variants
# ---------------------------------------------------------------------------

def band(left, right, top_left):
    """What a diagonal band keeps, from positions and lengths."""

    def keep(i, j, queries, keys):
        diagonal = i + (0 if top_left else keys - queries)
        result = (i >= 0) & (j >= 0)
        if left is not None:
            result = result & (j >= diagonal - left)
        if right is not None:
            result = result & (j <= diagonal + right)
        return result

    return keep


# Name to attribute and predicate.
MASKS = {
    "full": ("", band(None, None, False)),
    "causal": ("#attn.causal", band(None, 0, False)),
    "causal_tl": ("#attn.causal<alignment = top_left>", band(None, 0, True)),
    "left": ("#attn.sliding_window<left = 100>", band(100, None, False)),
    "left_tl": ("#attn.sliding_window<left = 30, alignment = top_left>", band(30, None, True)),
    "right": ("#attn.sliding_window<right = 70>", band(None, 70, False)),
    "right_tl": ("#attn.sliding_window<right = 17, alignment = top_left>", band(None, 17, True)),
    "window": ("#attn.sliding_window<left = 128, right = 0>", band(128, 0, False)),
    "window_both": ("#attn.sliding_window<left = 40, right = 200>", band(40, 200, False)),
    "window_both_tl": ("#attn.sliding_window<left = 70, right = 20, alignment = top_left>", band(70, 20, True)),
    "prefix_lm": ("#attn.prefix_lm<length = 150>", lambda i, j, sq, skv: (j < 150) | (j <= i + skv - sq)),
    "dilated": (
        "#attn.dilated_window<left = 200, right = 50, dilation = 3>",
        lambda i, j, sq, skv: band(200, 50, False)(i, j, sq, skv) & ((i + skv - sq - j) % 3 == 0),
    ),
    "block_diagonal": (
        "#attn.local_blocks<size = 192, before = 0, after = 0, alignment = top_left>",
        lambda i, j, sq, skv: i // 192 == j // 192,
    ),
    "block_causal": (
        "#attn.local_blocks<size = 100, after = 0>",
        lambda i, j, sq, skv: j // 100 <= (i + skv - sq) // 100,
    ),
    "chunked": (
        "#attn.and<#attn.causal, #attn.local_blocks<size = 128, before = 0, after = 0>>",
        lambda i, j, sq, skv: (j <= i + skv - sq) & (j // 128 == (i + skv - sq) // 128),
    ),
    "global_causal": (
        "#attn.or<#attn.global_tokens<count = 40>, #attn.causal>",
        lambda i, j, sq, skv: (i < 40) | (j < 40) | (j <= i + skv - sq),
    ),
    "nothing": ("#attn.none", lambda i, j, sq, skv: (i < 0) & (j < 0)),
    "local_blocks": (
        "#attn.local_blocks<size = 64, before = 1, after = 1>",
        lambda i, j, sq, skv: abs(j // 64 - (i + skv - sq) // 64) <= 1,
    ),
    "global_window": (
        "#attn.or<#attn.global_tokens<count = 20>, #attn.sliding_window<left = 100, right = 30>>",
        lambda i, j, sq, skv: (i < 20) | (j < 20) | band(100, 30, False)(i, j, sq, skv),
    ),
    "blocks_before": (
        "#attn.local_blocks<size = 96, before = 1>",
        lambda i, j, sq, skv: j // 96 >= (i + skv - sq) // 96 - 1,
    ),
    "not_or": (
        "#attn.not<#attn.or<#attn.not<#attn.causal>, #attn.sliding_window<left = 90, right = 4>>>",
        lambda i, j, sq, skv: band(None, 0, False)(i, j, sq, skv) & ~band(90, 4, False)(i, j, sq, skv),
    ),
    "not_window": (
        "#attn.not<#attn.sliding_window<left = 100, right = 100>>",
        lambda i, j, sq, skv: ~band(100, 100, False)(i, j, sq, skv),
    ),
    "self": ("#attn.sliding_window<left = 0, right = 0>", band(0, 0, False)),
}


def keep_tree(i, j, words, prefix):
    node = (j - prefix[0]).clamp(0, 32 * words.shape[1] - 1)
    return (j < prefix[0]) | ((words[i, node // 32] >> (node % 32)) & 1 == 1)


# Captured tensors: MLIR type with HEADS for the number of heads.
CAPTURES = {
    "identity": "tensor<HEADSxf32>",
    "out_scale": "tensor<HEADSxf32>",
    "map": "tensor<HEADSxi32>",
    "sinks": "tensor<HEADSxbf16>",
    "slopes": "tensor<HEADSxf32>",
    "bias": "tensor<HEADSx?x?xf32>",
    "bias16": "tensor<1xHEADSx?x?xbf16>",
    "table": "tensor<HEADSx401xf32>",
    "docs": "tensor<?x?xi32>",
    "starts": "tensor<?x?xi32>",
    "temperature": "tensor<HEADSxf32>",
    "buckets": "tensor<HEADSx32xf32>",
    "classes": "tensor<?x?x?xi32>",
    "embedding": "tensor<12xHEADSxf32>",
    "query_factors": "tensor<?xHEADSx?xf32>",
    "key_factors": "tensor<?xHEADSx?xf32>",
    "window": "tensor<2xi32>",
    "ancestors": "tensor<?x?xi32>",
    "prefix": "tensor<1xi32>",
    "blocks": "tensor<?x?xi8>",
    "seed": "tensor<i64>",
    "offset": "tensor<i64>",
}


def t5_bucket(i, j):
    import torch

    n = (i - j).clamp(min=0)
    far = 16 + (((i - j).clamp(min=1).float() / 16).log() * 7.69436707).long()
    return torch.where(n < 16, n, far.clamp(max=31))


# Name to captures, body of the region, and the same on torch tensors.
SCORES = {
    "": ((), "", None),
    "softcap": (
        (),
        """%cap = arith.constant 3.0 : f32
        %u = arith.divf %s, %cap : f32
        %t = math.tanh %u : f32
        %r = arith.mulf %t, %cap : f32""",
        lambda s, h, i, j, c: (s / 3.0).tanh() * 3.0,
    ),
    "alibi": (
        ("slopes",),
        """%slope = tensor.extract %slopes[%h] : tensor<HEADSxf32>
        %d = arith.subi %j, %i : index
        %di = arith.index_cast %d : index to i32
        %df = arith.sitofp %di : i32 to f32
        %a = arith.mulf %df, %slope : f32
        %r = arith.addf %s, %a : f32""",
        lambda s, h, i, j, c: s + c["slopes"].to(s.dtype)[h] * (j - i).to(s.dtype),
    ),
    "bias": (
        ("bias",),
        """%x = tensor.extract %bias[%h, %i, %j] : tensor<HEADSx?x?xf32>
        %r = arith.addf %s, %x : f32""",
        lambda s, h, i, j, c: s + c["bias"][h, i, j].to(s.dtype),
    ),
    # Of 16 bits, with a factor of each row and head.
    "bias16": (
        ("bias16", "slopes"),
        """%first = arith.constant 0 : index
        %x = tensor.extract %bias16[%first, %h, %i, %j] : tensor<1xHEADSx?x?xbf16>
        %y = arith.extf %x : bf16 to f32
        %slope = tensor.extract %slopes[%h] : tensor<HEADSxf32>
        %z = arith.divf %y, %slope : f32
        %r = arith.addf %s, %z : f32""",
        lambda s, h, i, j, c: s + c["bias16"][0, h, i, j].to(s.dtype) / c["slopes"].to(s.dtype)[h],
    ),
    "temperature": (
        ("temperature",),
        """%x = tensor.extract %temperature[%h] : tensor<HEADSxf32>
        %r = arith.mulf %s, %x : f32""",
        lambda s, h, i, j, c: s * c["temperature"].to(s.dtype)[h],
    ),
    # Buckets of distances that grow with the distance (Raffel et al. 2020).
    "t5": (
        ("buckets",),
        """%zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %exact = arith.constant 16 : index
        %last = arith.constant 31 : index
        %near = arith.constant 16.0 : f32
        %step = arith.constant 7.69436707 : f32
        %d = arith.subi %i, %j : index
        %n = arith.maxsi %d, %zero : index
        %positive = arith.maxsi %d, %one : index
        %ni = arith.index_cast %positive : index to i32
        %nf = arith.sitofp %ni : i32 to f32
        %ratio = arith.divf %nf, %near : f32
        %log = math.log %ratio : f32
        %scaled = arith.mulf %log, %step : f32
        %whole = arith.fptosi %scaled : f32 to i32
        %wide = arith.index_cast %whole : i32 to index
        %far = arith.addi %wide, %exact : index
        %most = arith.minsi %far, %last : index
        %isNear = arith.cmpi slt, %n, %exact : index
        %bucket = arith.select %isNear, %n, %most : index
        %x = tensor.extract %buckets[%h, %bucket] : tensor<HEADSx32xf32>
        %r = arith.addf %s, %x : f32""",
        lambda s, h, i, j, c: s + c["buckets"].to(s.dtype)[h, t5_bucket(i, j)],
    ),
    # A bias by the class of a pair, as in Graphormer; all batch entries have the same classes here.
    "graph": (
        ("classes", "embedding"),
        """%class = tensor.extract %classes[%b, %i, %j] : tensor<?x?x?xi32>
        %entry = arith.index_cast %class : i32 to index
        %x = tensor.extract %embedding[%entry, %h] : tensor<12xHEADSxf32>
        %r = arith.addf %s, %x : f32""",
        lambda s, h, i, j, c: s + c["embedding"].to(s.dtype)[c["classes"][0, i, j], h],
    ),
    # What normalising queries and keys does to scores.
    "qk_norm": (
        ("query_factors", "key_factors"),
        """%x = tensor.extract %query_factors[%b, %h, %i] : tensor<?xHEADSx?xf32>
        %y = tensor.extract %key_factors[%b, %h, %j] : tensor<?xHEADSx?xf32>
        %t = arith.mulf %s, %x : f32
        %r = arith.mulf %t, %y : f32""",
        lambda s, h, i, j, c: s * c["query_factors"].to(s.dtype)[0, h, i] * c["key_factors"].to(s.dtype)[0, h, j],
    ),
    # Reads outside of the table are made inside.
    "table": (
        ("table",),
        """%middle = arith.constant 200 : index
        %most = arith.constant 400 : index
        %least = arith.constant 0 : index
        %d = arith.subi %j, %i : index
        %p = arith.addi %d, %middle : index
        %inside = arith.cmpi ule, %p, %most : index
        %x = tensor.extract %table[%h, %p] : tensor<HEADSx401xf32>
        %t = arith.addf %s, %x : f32
        %r = arith.select %inside, %t, %s : f32""",
        lambda s, h, i, j, c: s
        + c["table"].to(s.dtype)[h, (j - i + 200).clamp(0, 400)] * ((j - i).abs() <= 200),
    ),
}
KEEPS = {
    "": ((), "", None),
    "docs": (
        ("docs",),
        """%x = tensor.extract %docs[%b, %i] : tensor<?x?xi32>
        %y = tensor.extract %docs[%b, %j] : tensor<?x?xi32>
        %r = arith.cmpi eq, %x, %y : i32""",
        lambda b, i, j, c: c["docs"][b, i] == c["docs"][b, j],
    ),
    # Blocks of documents, each attends itself and those before it: computed from elements that are read at a key.
    "doc_blocks": (
        ("docs", "starts"),
        """%x = tensor.extract %docs[%b, %i] : tensor<?x?xi32>
        %y = tensor.extract %docs[%b, %j] : tensor<?x?xi32>
        %same = arith.cmpi eq, %x, %y : i32
        %size = arith.constant 96 : index
        %si = tensor.extract %starts[%b, %i] : tensor<?x?xi32>
        %sj = tensor.extract %starts[%b, %j] : tensor<?x?xi32>
        %fi = arith.index_cast %si : i32 to index
        %fj = arith.index_cast %sj : i32 to index
        %pi = arith.subi %i, %fi : index
        %pj = arith.subi %j, %fj : index
        %bi = arith.divui %pi, %size : index
        %bj = arith.divui %pj, %size : index
        %before = arith.cmpi uge, %bi, %bj : index
        %r = arith.andi %same, %before : i1""",
        lambda b, i, j, c: (c["docs"][b, i] == c["docs"][b, j]) & ((i - c["starts"][b, i]) // 96 >= (j - c["starts"][b, j]) // 96),
    ),
    # Queries are nodes of a tree behind a prefix: each attends its ancestors,
    # itself and the prefix.
    "tree": (
        ("ancestors", "prefix"),
        """%first = arith.constant 0 : index
        %bits = arith.constant 32 : index
        %one = arith.constant 1 : i32
        %count = tensor.extract %prefix[%first] : tensor<1xi32>
        %p = arith.index_cast %count : i32 to index
        %before = arith.cmpi slt, %j, %p : index
        %d = arith.subi %j, %p : index
        %node = arith.maxsi %d, %first : index
        %place = arith.divui %node, %bits : index
        %rest = arith.remui %node, %bits : index
        %word = tensor.extract %ancestors[%i, %place] : tensor<?x?xi32>
        %shift = arith.index_cast %rest : index to i32
        %shifted = arith.shrui %word, %shift : i32
        %bit = arith.andi %shifted, %one : i32
        %above = arith.cmpi eq, %bit, %one : i32
        %r = arith.ori %before, %above : i1""",
        lambda b, i, j, c: keep_tree(i, j, c["ancestors"], c["prefix"]),
    ),
    # Blocks of a map.
    "blocks": (
        ("blocks",),
        """%c48 = arith.constant 48 : index
        %zero = arith.constant 0 : i8
        %x = arith.divui %i, %c48 : index
        %y = arith.divui %j, %c48 : index
        %block = tensor.extract %blocks[%x, %y] : tensor<?x?xi8>
        %r = arith.cmpi ne, %block, %zero : i8""",
        lambda b, i, j, c: c["blocks"][i // 48, j // 48] != 0,
    ),
    # A window whose sides are read.
    "window": (
        ("window",),
        """%zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %x = tensor.extract %window[%zero] : tensor<2xi32>
        %y = tensor.extract %window[%one] : tensor<2xi32>
        %left = arith.index_cast %x : i32 to index
        %right = arith.index_cast %y : i32 to index
        %first = arith.subi %i, %left : index
        %end = arith.addi %i, %right : index
        %after = arith.cmpi sge, %j, %first : index
        %before = arith.cmpi sle, %j, %end : index
        %r = arith.andi %after, %before : i1""",
        lambda b, i, j, c: (j >= i - c["window"][0]) & (j <= i + c["window"][1]),
    ),
    "strides": (
        (),
        """%c512 = arith.constant 512 : index
        %c200 = arith.constant 200 : index
        %m = arith.remui %j, %c512 : index
        %near = arith.cmpi slt, %m, %c200 : index
        %before = arith.cmpi sle, %j, %i : index
        %r = arith.andi %near, %before : i1""",
        lambda b, i, j, c: (j % 512 < 200) & (j <= i),
    ),
}


@dataclass(frozen=True)
class Variant:
    """One function, with dynamic batch and lengths."""

    qk_dim: int
    v_dim: int
    dtype: str = "bf16"
    mask: str = "full"
    heads: int = 2
    kv_heads: int = 2
    # Value heads; 0: as many as key heads.
    v_heads: int = 0
    score: str = ""
    keep: str = ""
    # A mask that reads operands, in the place of `mask`.
    data: str = ""
    scale: Optional[float] = None
    out: str = ""
    lse: bool = True
    # How f32 values are multiplied: "high", or the highest precision.
    precision: str = ""
    # Whether each head has a sink.
    sinks: bool = False
    # The key head of each query head.
    head_map: Optional[Tuple[int, ...]] = None
    # Whether probabilities are mixed with the identity.
    identity: bool = False
    dropout: Optional[Dropout] = None
    # The layout of keep masks, if they are made beforehand.
    bits: str = ""
    # Consumers, key tile, stages, ping-pong, traversal, interleave; none leaves
    # the choice to the compiler.
    schedule: Optional[Tuple[int, int, int, bool, str, int]] = None
    # The number of splits of given schedules.
    split: int = 0
    # Sixteenths of the exponentials that are polynomials, of given schedules.
    polynomials: int = 0
    # Queries of each head where the heads of a group are rows of a tile; 0: they are not.
    pack: int = 0
    # CTAs of a cluster, which load keys together.
    cluster: int = 1
    # Stages of tiles that scores read, where they are aligned, of schedules that are given.
    score_stages: int = 0
    # Columns of the values that a work item has, of schedules that are given.
    v_tile: int = 0
    # Whether values are the first elements of keys.
    latent: bool = False
    # The dtype of a partial result that attention goes on from.
    state: str = ""
    # The dtypes of keys and of values, if they are other ones of 8 bits.
    kv_dtypes: Tuple[str, ...] = ()

    @property
    def length(self) -> str:
        """The number of queries in types."""
        return str(int(self.pack)) if self.pack else "?"

    @property
    def value_heads(self) -> int:
        return self.v_heads or self.kv_heads

    @property
    def kv_kinds(self):
        """Heads and head dims of keys and of values."""
        return ((self.kv_heads, self.qk_dim), (self.value_heads, self.v_dim))

    @property
    def out_dtype(self) -> str:
        return self.out or self.dtype

    @property
    def rounding(self) -> float:
        """The relative error of a factor, with the accumulation of tensor cores."""
        if self.dtype != "f32":
            return ROUNDING[self.dtype]
        return 2.0**-10 if self.precision else 2.0**-19

    @property
    def may_spill(self) -> bool:
        """Whether the accumulator and the operands of two multiplicands need more registers than a thread has."""
        return self.dtype == "f32" and not self.precision and max(self.qk_dim, self.v_dim) > 192

    @property
    def reads(self):
        return tuple(f"read{n}" for n in range(len(DATA_MASKS[self.data].static))) if self.data else ()

    @property
    def captures(self):
        captures = SCORES[self.score][0] + KEEPS[self.keep][0] + (("sinks",) if self.sinks else ())
        captures += ("map",) if self.head_map else ()
        captures += ("identity",) if self.identity else ()
        # Outputs of 8 bits have a scale of each head.
        captures += ("out_scale",) if self.out_dtype in EIGHT_BITS else ()
        captures += self.reads + (("state_out", "state_lse") if self.state else ())
        return captures + (("seed", "offset") if self.dropout else ())

    @property
    def name(self) -> str:
        heads = f"h{self.heads}_{self.kv_heads}" + (f"_{self.v_heads}" if self.v_heads else "")
        parts = [f"d{self.qk_dim}_{self.v_dim}", heads, self.dtype, *self.kv_dtypes, self.mask]
        parts += [self.score, self.keep, "named_" + self.data if self.data else ""]
        if self.scale is not None:
            parts.append("scale" + str(self.scale).replace("-", "m").replace(".", "p"))
        if self.out:
            parts.append("to_" + self.out)
        if not self.lse:
            parts.append("no_lse")
        parts.append(self.precision)
        if self.sinks:
            parts.append("sinks")
        if self.head_map:
            parts.append("map")
        if self.identity:
            parts.append("identity")
        if self.dropout:
            d = self.dropout
            parts.append(f"{d.generator}{d.rounds}_p{d.threshold}_of_{2**d.bits}")
            parts.append(self.bits)
        if self.schedule:
            consumers, tile, stages, ping_pong, traversal, interleave = self.schedule
            parts.append(f"c{consumers}_k{tile}_s{stages}_{'turns' if ping_pong else 'free'}_{traversal}{interleave}")
        parts += [f"split{self.split}" if self.split else "", f"pack{self.pack if self.pack > 1 else ''}" if self.pack else ""]
        parts.append(f"poly{self.polynomials}" if self.polynomials else "")
        parts += [f"scores{self.score_stages}" if self.score_stages else ""]
        parts += [f"cluster{self.cluster}" if self.cluster > 1 else ""]
        parts += [f"v{self.v_tile}" if self.v_tile else "", "latent" if self.latent else ""]
        parts.append(f"state_{self.state}" if self.state else "")
        return "_".join(filter(None, parts))

    @property
    def options(self):
        """Options for the compiler."""
        if not self.schedule:
            return []
        consumers, tile, stages, ping_pong, traversal, interleave = self.schedule
        groups = 2 if self.pack and max(self.qk_dim, self.v_dim) <= 128 else 1

        def schedule(score_stages):
            return (
                f"#attn_tile.warp_specialized<query_tile = {64 * consumers}, key_tile = {tile},"
                f" stages = {stages}, consumers = {consumers}, ping_pong = {str(ping_pong).lower()},"
                f" traversal = {traversal}, interleave = {interleave}, split_kv_work_items = {self.split},"
                f" pack_gqa = {str(bool(self.pack)).lower()}, score_stages = {score_stages},"
                f" l2_promotion = {128 if self.pack else 256}, ctas_per_sm = {groups},"
                f" exp2_emulation = {self.polynomials}, cluster = {self.cluster}, head_dim_tile = {self.v_tile}>"
            )

        if not self.score_stages:
            return [f"--schedule={schedule(0)}"]
        aligned, otherwise = schedule(self.score_stages), schedule(0)
        return [f"--schedule=#attn_tile.by_alignment<aligned = {aligned}, otherwise = {otherwise}>"]

    def slice_keys(self, k: str, v: str, rows: str = "") -> str:
        """What makes values of the first elements of keys, of which there are `rows`, if that is known."""
        number = "" if rows else f"\n  %rows = tensor.dim %key, %c2 : {k}"
        return f"""{number}
  %entries = tensor.dim %key, %c0 : {k}
  %latent = tensor.extract_slice %key[0, 0, 0, 0] [%entries, {self.kv_heads}, {rows or "%rows"}, {self.v_dim}] [1, 1, 1, 1] : {k} to {v}"""

    def mlir(self) -> str:
        q = f"tensor<?x{self.heads}x{self.length}x{self.qk_dim}x{self.dtype}>"
        k, v = (
            f"tensor<?x{heads}x?x{dim}x{dtype}>"
            for (heads, dim), dtype in zip(self.kv_kinds, self.kv_dtypes or (self.dtype, self.dtype))
        )
        o = f"tensor<?x{self.heads}x{self.length}x{self.v_dim}x{self.out_dtype}>"
        lse = f"tensor<?x{self.heads}x{self.length}xf32>"
        types = dict(CAPTURES)
        if self.data:
            types.update(zip(self.reads, DATA_MASKS[self.data].types(self.heads, "tensor")))
        state = f"tensor<?x{self.heads}x{self.length}x{self.v_dim}x{self.state}>"
        types.update(state_out=state, state_lse=lse)
        captures = "".join(f", %{c}: {types[c]}" for c in self.captures)
        options = f" state(%state_out, %state_lse : {state}, {lse})" if self.state else ""
        options += " sinks(%sinks : tensor<HEADSxbf16>)" if self.sinks else ""
        options += " heads(%map : tensor<HEADSxi32>)" if self.head_map else ""
        options += " identity(%identity : tensor<HEADSxf32>)" if self.identity else ""
        options += f" scale({self.scale!r})" if self.scale is not None else ""
        options += f" mask({MASKS[self.mask][0]})" if MASKS[self.mask][0] else ""
        if self.data:
            operands = ", ".join(f"%{read}" for read in self.reads)
            operands += " : " + ", ".join(types[read] for read in self.reads)
            options += f" mask({DATA_MASKS[self.data].text}) reads({operands})"
        made = ""
        if self.bits:
            made, option = packed_mask(self.dropout, self.bits, "%batch", self.heads, "%length", "%keys")
            made = f"%keys = tensor.dim %key, %c2 : {k}" + made
            options += option
        elif self.dropout:
            options += f" dropout({self.dropout}, %seed, %offset : tensor<i64>, tensor<i64>)"
        if self.precision:
            options += f" precision({self.precision})"
        if self.score:
            options += f"""
      score_mod {{
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        {SCORES[self.score][1]}
        attn.yield %r : f32
      }}"""
        if self.keep:
            options += f"""
      mask_mod {{
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        {KEEPS[self.keep][1]}
        attn.yield %r : i1
      }}"""
        if self.out_dtype in EIGHT_BITS:
            options += """
      epilogue {
      ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
        %of_head = tensor.extract %out_scale[%h] : tensor<HEADSxf32>
        %r = arith.divf %x, %of_head : f32
        attn.yield %r : f32
      }"""
        value = "%value"
        if self.latent:
            value = "%latent"
            made += self.slice_keys(k, v)
        outs, types, results, returned = "%out", o, "%res", "%res"
        sizes = "%batch" if self.pack else "%batch, %length"
        empty = f"%out = tensor.empty({sizes}) : {o}"
        if self.lse:
            outs, types, results, returned = "%out, %lse", f"{o}, {lse}", "%res:2", "%res#0, %res#1"
            empty += f"\n  %lse = tensor.empty({sizes}) : {lse}"
        text = f"""func.func @{self.name}(%query: {q}, %key: {k}, %value: {v}{captures}) -> ({types}) {{
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %batch = tensor.dim %query, %c0 : {q}
  %length = tensor.dim %query, %c2 : {q}
  {empty}
  {made}
  {results} = attn.attention ins(%query, %key, {value} : {q}, {k}, {v})
      outs({outs} : {types}){options} -> {types}
  return {returned} : {types}
}}
"""
        return text.replace("HEADS", str(self.heads))


def name_heads(heads):
    """The fields for numbers of query and key heads, and of value heads if these differ."""
    return dict(zip(("heads", "kv_heads", "v_heads"), heads))


def variant(qk_dim, v_dim=None, heads=(2, 2), **rest):
    return Variant(qk_dim, v_dim or qk_dim, **name_heads(heads), **rest)


VARIANTS = [
    # Head dimensions that fill the instructions.
    variant(64),
    variant(64, dtype="f16", mask="causal"),
    variant(96, mask="causal"),
    variant(96, dtype="f16"),
    variant(128),
    variant(128, dtype="f16", mask="causal"),
    variant(128, mask="causal_tl"),
    variant(192, mask="causal"),
    variant(192, dtype="f16"),
    variant(256),
    variant(256, dtype="f16", mask="causal"),
    # And others.
    variant(8),
    variant(16, dtype="f16", mask="causal"),
    variant(40, mask="causal"),
    variant(72, dtype="f16"),
    variant(80, mask="causal_tl"),
    variant(104, dtype="f16", mask="causal"),
    variant(136),
    variant(200, dtype="f16", mask="causal"),
    variant(248, mask="causal"),
    # Values of another head dimension.
    variant(192, 128, mask="causal"),
    variant(192, 128, heads=(8, 2), dtype="f16"),
    variant(64, 256),
    variant(64, 256, dtype="f16", mask="causal"),
    variant(128, 64, mask="causal"),
    variant(72, 40),
    variant(40, 72, dtype="f16", mask="causal_tl"),
    variant(256, 8, mask="causal"),
    variant(8, 256),
    # Grouped heads.
    variant(128, heads=(8, 2), mask="causal"),
    variant(64, heads=(6, 1), mask="causal"),
    variant(128, heads=(6, 1), dtype="f16"),
    variant(256, heads=(8, 2), mask="window"),
    # Other numbers of value heads than of key heads.
    variant(128, heads=(12, 4, 12), mask="causal"),
    variant(64, heads=(12, 12, 3), dtype="f16"),
    variant(128, heads=(12, 3, 6), mask="causal", schedule=(2, 128, 2, True, "paired", 1)),
    variant(192, 128, heads=(12, 1, 12), mask="causal", sinks=True),
    variant(64, dtype="f32", heads=(12, 6, 3), identity=True),
    variant(512, heads=(12, 1, 12), mask="causal"),
    # Windows.
    variant(128, mask="window"),
    variant(64, mask="left"),
    variant(96, mask="left_tl", dtype="f16"),
    variant(128, mask="right"),
    variant(256, mask="right_tl"),
    variant(64, mask="window_both", dtype="f16"),
    variant(128, mask="window_both_tl"),
    variant(64, mask="self"),
    # Other masks, and combinations of several.
    variant(128, mask="prefix_lm"),
    variant(64, mask="dilated", dtype="f16"),
    variant(128, mask="block_diagonal"),
    variant(96, mask="block_causal"),
    variant(128, mask="chunked", heads=(8, 2)),
    variant(128, mask="global_causal"),
    variant(64, mask="not_window", dtype="f16"),
    variant(128, mask="nothing"),
    variant(96, mask="blocks_before"),
    variant(128, mask="not_or", heads=(8, 2)),
    variant(64, mask="local_blocks"),
    variant(128, mask="global_window", dtype="f16"),
    # Regions that keep pairs.
    variant(128, keep="strides"),
    variant(128, keep="docs"),
    variant(64, keep="docs", mask="causal", dtype="f16"),
    variant(256, keep="docs", mask="window_both", heads=(6, 1)),
    variant(128, keep="doc_blocks", heads=(8, 2)),
    variant(160, keep="doc_blocks"),
    variant(128, keep="tree", heads=(8, 2)),
    variant(64, keep="tree", dtype="f16"),
    variant(128, keep="blocks"),
    variant(64, keep="blocks", mask="causal", dtype="f16"),
    variant(128, keep="window"),
    variant(64, keep="window", mask="causal", dtype="f16", heads=(8, 2)),
    variant(128, data="documents"),
    variant(128, data="packed_documents"),
    variant(64, data="documents"),
    variant(64, data="causal_packed_documents", dtype="f16", heads=(4, 2)),
    variant(128, data="tree", heads=(8, 2)),
    variant(128, data="blocks16"),
    variant(64, data="causal_blocks", heads=(4, 2)),
    variant(256, data="blocks_or_first", dtype="f16"),
    # Regions that change scores.
    variant(128, score="softcap"),
    variant(64, score="softcap", mask="causal", dtype="f16"),
    variant(256, score="softcap", mask="left", heads=(8, 2)),
    variant(128, score="alibi", mask="causal", heads=(8, 2)),
    variant(64, score="alibi", dtype="f16"),
    variant(128, score="bias"),
    variant(80, score="bias", mask="causal", dtype="f16", heads=(8, 2)),
    variant(192, 128, score="bias", mask="window_both_tl"),
    variant(128, score="bias16", mask="causal"),
    variant(64, score="bias16", dtype="f16", heads=(8, 2)),
    variant(128, score="temperature", heads=(8, 2)),
    variant(128, score="t5", mask="causal"),
    variant(64, score="t5", dtype="f16"),
    variant(128, score="graph"),
    variant(64, score="qk_norm", mask="causal", heads=(4, 2)),
    variant(128, score="table"),
    variant(64, score="table", keep="docs", mask="causal"),
    variant(128, score="softcap", keep="docs", mask="causal"),
    variant(64, score="bias", keep="docs", scale=-0.25),
    # Scales.
    variant(128, scale=0.3),
    variant(64, scale=-0.2, mask="causal"),
    variant(64, scale=1.0, dtype="f16"),
    variant(96, scale=0.0, mask="causal"),
    # Outputs in f32, and no log-sum-exp.
    variant(128, mask="causal", out="f32"),
    variant(64, dtype="f16", out="f32"),
    variant(256, heads=(8, 2), out="f32", mask="window_both"),
    variant(72, 40, out="f32", keep="docs"),
    # Dropout.
    variant(64, dropout=Dropout(0.125, "philox", 7)),
    variant(128, heads=(8, 2), mask="causal", dropout=Dropout(0.1, "arx", 6)),
    variant(256, dtype="f16", dropout=Dropout(0.3, "threefry", 20, bits=16)),
    variant(96, mask="window", dtype="f16", dropout=Dropout(0.5, "philox", 10, bits=4)),
    variant(128, score="alibi", keep="docs", dropout=Dropout(0.125, "arx", 5)),
    variant(192, 128, mask="causal", out="f32", dropout=Dropout(0.9, "arx", 6)),
    variant(64, dropout=Dropout(0.125, "philox", 7), bits="rows"),
    variant(128, heads=(8, 2), mask="causal", dropout=Dropout(0.1, "arx", 6), bits="rows"),
    variant(80, mask="window", dtype="f16", dropout=Dropout(0.3, "threefry", 20, bits=16), bits="columns"),
    variant(128, lse=False, mask="causal"),
    variant(192, dtype="f16", lse=False),
    # f32, by tf32 MMAs.
    variant(64, dtype="f32", mask="causal"),
    variant(128, dtype="f32", heads=(8, 2)),
    variant(256, dtype="f32", mask="causal"),
    variant(72, 40, dtype="f32", mask="window_both"),
    variant(96, dtype="f32", score="softcap", mask="causal", precision="high"),
    variant(64, dtype="f32", score="bias", keep="docs"),
    variant(64, dtype="f32", mask="causal", dropout=Dropout(0.3, "philox", 10, bits=4)),
    variant(128, dtype="f32", data="causal_packed_documents", heads=(4, 2)),
    variant(64, dtype="f32", mask="causal", precision="high"),
    variant(128, dtype="f32", precision="high", heads=(8, 2)),
    variant(256, dtype="f32", mask="window_both", precision="high"),
    variant(40, 72, dtype="f32", mask="causal_tl", precision="high"),
    variant(64, dtype="f32", score="alibi", precision="high", heads=(4, 4)),
    # Sinks.
    variant(128, mask="causal", heads=(8, 2), sinks=True),
    variant(64, dtype="f16", mask="window_both_tl", sinks=True),
    variant(256, score="softcap", keep="docs", sinks=True, lse=False),
    # Groups of 1, 0 and 4 heads, not in order; more heads than the keys have, and fewer.
    variant(128, mask="causal", heads=(5, 3), head_map=(2, 2, 0, 2, 2)),
    variant(64, dtype="f16", heads=(2, 6), head_map=(5, 1)),
    # Identity mixed with the probabilities; without the log-sum-exp some heads need no scores.
    variant(128, heads=(8, 2), identity=True),
    variant(64, dtype="f16", mask="causal", identity=True, lse=False),
    variant(192, 128, mask="window_both", heads=(5, 3), head_map=(2, 2, 0, 2, 2), identity=True, lse=False),
    variant(256, data="documents", identity=True, sinks=True),
    variant(72, 40, out="f32", dropout=Dropout(0.125, "arx", 6), identity=True),
    # Wide heads, whose values are divided among work items.
    variant(320, mask="causal"),
    variant(384, dtype="f16"),
    variant(512),
    variant(512, dtype="f16", heads=(8, 2), mask="causal"),
    variant(576, 512, heads=(6, 1), mask="causal"),
    variant(576),
    variant(264, 40, dtype="f16", mask="window_both"),
    variant(40, 568, mask="causal_tl"),
    variant(512, 264, score="alibi", out="f32", lse=False),
    variant(512, score="softcap", keep="docs", sinks=True),
    variant(320, score="bias", mask="causal"),
    variant(576, 512, data="documents", identity=True, heads=(4, 1)),
    variant(512, mask="window", dropout=Dropout(0.125, "arx", 6)),
    variant(576, 512, mask="causal", dropout=Dropout(0.1, "arx", 6), bits="rows", heads=(4, 1)),
    variant(384, heads=(5, 3), head_map=(2, 2, 0, 2, 2), identity=True, lse=False),
    variant(320, dtype="f32", mask="causal", precision="high"),
    variant(576, 512, dtype="f32"),
    # Latents: consumers have columns of the values, which are columns of the keys.
    variant(576, 512, heads=(3, 1), mask="causal", latent=True),
    variant(576, 512, heads=(2, 2), mask="window", score="alibi", out="f32", latent=True),
    variant(576, 512, heads=(4, 1), mask="causal", dropout=Dropout(0.1, "arx", 6), lse=False, latent=True),
    variant(320, 256, heads=(4, 2), keep="docs", latent=True),
]

SCHEDULED = [
    variant(64, mask="causal", heads=(6, 2), schedule=schedule)
    for schedule in [
        (1, 128, 2, False, "grid", 1),
        (1, 176, 3, False, "persistent", 1),
        (1, 64, 1, False, "paired", 1),
        (2, 128, 2, False, "grid", 1),
        (2, 128, 2, True, "grid", 1),
        (2, 176, 2, True, "persistent", 1),
        (2, 144, 3, False, "persistent", 0),
        (2, 128, 2, True, "paired", 1),
        (2, 16, 4, False, "paired", 2),
        (3, 128, 2, True, "persistent", 2),
        (3, 112, 2, False, "grid", 0),
        (3, 96, 2, True, "paired", 0),
    ]
]

# Few queries; fewer splits than tiles, and more.
STREAM = (1, 64, 2, False, "grid", 1)
SHARED = [
    # Latents, of which consumers have columns.
    variant(576, 512, heads=(16, 1), pack=True, latent=True),
    variant(576, 512, heads=(128, 1), pack=True, dtype="f16", sinks=True, latent=True),
    variant(128, heads=(8, 2), schedule=STREAM, split=132, pack=True),
    variant(128, heads=(8, 1), mask="causal", schedule=STREAM, split=1000, pack=True),
    variant(64, heads=(4, 4), dtype="f16", mask="causal", schedule=(1, 128, 3, False, "persistent", 1), split=132, pack=True),
    variant(128, heads=(8, 2), schedule=STREAM, pack=True),
    variant(128, heads=(8, 2), mask="window", schedule=STREAM, split=20, pack=True, lse=False),
    variant(256, heads=(6, 1), keep="docs", schedule=STREAM, split=100, pack=True),
    variant(128, heads=(8, 2), score="alibi", mask="causal", schedule=STREAM, split=132, pack=True),
    variant(128, heads=(8, 2), score="softcap", sinks=True, schedule=STREAM, split=132),
    # Several queries; sinks, also where the first split is empty.
    variant(128, heads=(8, 2), mask="causal", schedule=STREAM, split=132, pack=5),
    variant(128, heads=(12, 4, 2), schedule=STREAM, split=132, pack=True),
    variant(128, heads=(12, 2, 6), mask="causal", schedule=STREAM, split=132, pack=5),
    variant(64, heads=(8, 1), dtype="f16", mask="window", sinks=True, schedule=STREAM, split=1000, pack=16),
    variant(192, heads=(6, 2), score="alibi", schedule=STREAM, split=100, pack=3),
    variant(128, heads=(4, 4), mask="causal", sinks=True, schedule=STREAM, pack=7),
    variant(96, heads=(6, 2), score="softcap", schedule=STREAM, pack=64, lse=False),
    variant(128, heads=(8, 2), mask="window", sinks=True, schedule=STREAM, split=1000, pack=True),
    variant(128, heads=(8, 2), mask="window", sinks=True, schedule=STREAM, split=1000),
    variant(64, heads=(8, 2), score="bias16", dtype="f16", schedule=STREAM, split=50, pack=True, out="f32"),
    # Lists of the tiles of these rows, for all groups or for each.
    variant(128, heads=(8, 2), data="tree", pack=8),
    variant(128, heads=(8, 2), data="documents", schedule=STREAM, split=132, pack=5),
    variant(64, heads=(8, 2), data="blocks16", dtype="f16", schedule=STREAM, split=20, pack=33),
    variant(64, heads=(6, 2), data="tree", schedule=STREAM, pack=64, lse=False),
    variant(128, heads=(4, 4), mask="causal", schedule=STREAM, split=132),
    variant(128, heads=(8, 2), mask="causal", schedule=STREAM, split=1000),
    variant(64, heads=(8, 1), dtype="f16", schedule=STREAM, split=40),
    variant(128, heads=(5, 3), head_map=(2, 2, 0, 2, 2), schedule=STREAM, split=132),
    variant(192, 128, mask="window_both", schedule=STREAM, split=132),
    variant(72, 40, out="f32", keep="docs", mask="causal", schedule=STREAM, split=60),
    variant(128, heads=(8, 2), mask="causal", dropout=Dropout(0.1, "arx", 6), schedule=STREAM, split=132),
    variant(128, mask="nothing", schedule=STREAM, split=132),
    variant(128, mask="causal", schedule=(2, 128, 2, True, "paired", 1), split=132),
    variant(128, schedule=(2, 176, 2, True, "persistent", 1), split=132),
    variant(576, 512, heads=(16, 1), schedule=(1, 32, 2, False, "grid", 1), split=132, pack=True, v_tile=256),
    variant(512, heads=(4, 2), mask="causal", sinks=True, schedule=(1, 48, 2, False, "grid", 1), split=1000, v_tile=256),
]

# Polynomials for some exponentials, and for all, of -inf as well.
POLYNOMIALS = [
    variant(64, mask="causal", schedule=(2, 128, 2, True, "paired", 1), polynomials=2),
    variant(64, dtype="f16", schedule=(3, 128, 2, True, "persistent", 1), polynomials=4),
    variant(128, heads=(8, 2), mask="window_both", schedule=(2, 128, 2, True, "paired", 1), polynomials=16),
    variant(128, keep="docs", schedule=(2, 128, 2, True, "persistent", 1), polynomials=3),
    variant(128, mask="nothing", schedule=(2, 128, 2, False, "grid", 1), polynomials=16),
]

# Attention that goes on from a partial result.
STATES = [
    variant(64, state="f32"),
    variant(128, mask="causal", heads=(8, 2), state="bf16"),
    variant(128, mask="window_both", dtype="f16", state="f32", lse=False),
    variant(192, 128, mask="causal_tl", state="bf16"),
    variant(256, mask="causal", dtype="f16", state="f16"),
    variant(72, 40, mask="nothing", state="f32"),
    variant(128, score="softcap", keep="docs", mask="causal", state="bf16"),
    variant(128, data="packed_documents", state="bf16"),
    variant(64, mask="causal", sinks=True, state="f32", out="f32"),
    variant(128, heads=(8, 2), mask="causal", dropout=Dropout(0.1, "arx", 6), state="bf16"),
    variant(128, heads=(5, 3), head_map=(2, 2, 0, 2, 2), state="f32"),
    variant(64, dtype="f32", mask="causal", state="f32"),
    variant(512, heads=(8, 2), mask="causal", state="bf16"),
    variant(576, 512, heads=(6, 1), mask="causal", latent=True, state="f32"),
    variant(128, mask="causal", schedule=(2, 128, 2, True, "paired", 1), cluster=2, state="bf16"),
    variant(128, dtype=F8, out="bf16", mask="causal", state="bf16"),
]
# The same with few queries.
SHARED_STATES = [
    variant(128, heads=(8, 2), schedule=STREAM, split=132, pack=True, state="bf16"),
    variant(128, heads=(8, 1), mask="causal", schedule=STREAM, split=1000, pack=5, state="f32"),
    variant(64, heads=(4, 4), mask="window", schedule=STREAM, split=20, sinks=True, state="f32", lse=False),
    variant(128, heads=(8, 2), schedule=STREAM, pack=True, state="f32"),
    variant(576, 512, heads=(16, 1), pack=True, latent=True, state="bf16"),
]

# Neighbouring tiles of queries that share an iteration over keys; if their number is odd, the last one has no
# neighbour.
CLUSTERED = [
    variant(64, schedule=(3, 128, 2, True, "persistent", 1), cluster=2),
    variant(64, heads=(6, 1), dtype="f16", schedule=(2, 128, 2, True, "grid", 1), cluster=2),
    variant(128, schedule=(2, 176, 2, True, "persistent", 1), cluster=2),
    variant(128, heads=(8, 2), schedule=(2, 128, 2, False, "grid", 0), cluster=2),
    variant(128, heads=(8, 2), mask="causal", schedule=(2, 128, 2, True, "paired", 1), cluster=2),
    variant(128, mask="window_both", schedule=(1, 64, 3, False, "persistent", 2), cluster=4),
    variant(256, schedule=(2, 80, 2, True, "persistent", 1), cluster=2),
    variant(192, 128, mask="prefix_lm", schedule=(2, 96, 2, True, "persistent", 0), cluster=2),
    variant(72, 40, dtype="f16", mask="left", schedule=(2, 112, 2, False, "persistent", 1), cluster=2),
    variant(128, score="bias16", schedule=(2, 96, 2, True, "persistent", 1), cluster=2, score_stages=2),
    variant(128, mask="nothing", sinks=True, schedule=(2, 128, 2, True, "persistent", 1), cluster=2),
    variant(512, mask="causal", schedule=(2, 32, 2, True, "paired", 1), cluster=2, v_tile=256),
]

# Elements of 8 bits. Clusters copy the columns of transposed values in parts.
FLOAT8 = [
    variant(64, dtype=F8, out="bf16"),
    variant(64, dtype=F8, out="bf16", mask="causal", heads=(8, 2)),
    variant(128, dtype=F8, out="bf16"),
    variant(128, dtype=F8, out="bf16", mask="causal"),
    variant(128, dtype=F8, out="f16", mask="window_both", sinks=True),
    variant(128, dtype=F8, out="bf16", mask="causal", score="softcap"),
    variant(128, dtype=F8, out="bf16", score="bias"),
    variant(128, dtype=F8, out="bf16", keep="docs"),
    variant(128, dtype=F8, out="bf16", heads=(6, 2), head_map=(1, 0, 1, 1, 0, 0)),
    variant(192, 128, dtype=F8, out="bf16", mask="causal"),
    variant(256, dtype=F8, out="bf16", mask="causal"),
    variant(256, dtype=F8, out="f32"),
    variant(96, dtype=F8, out="bf16", mask="causal_tl"),
    variant(16, dtype=F8, out="bf16"),
    variant(80, 48, dtype=F8, out="bf16"),
    variant(128, dtype=F8, out="bf16", dropout=Dropout(0.125, "philox", 7)),
    variant(64, dtype=F8, out="bf16", mask="causal", dropout=Dropout(0.5, "arx", 6)),
    variant(128, dtype=F8, out="bf16", mask="causal", schedule=(2, 128, 2, True, "paired", 1)),
    variant(128, dtype=F8, out="bf16", schedule=(2, 224, 2, True, "persistent", 1)),
    variant(128, dtype=F8, out="bf16", schedule=(1, 64, 3, False, "grid", 1), split=132),
    variant(64, dtype=F8, out="bf16", schedule=(3, 160, 2, True, "persistent", 1)),
    variant(128, dtype=F8, out="bf16", schedule=(2, 128, 2, True, "grid", 1), cluster=2),
    variant(64, dtype=F8, out="bf16", schedule=(2, 128, 2, True, "persistent", 1), polynomials=6),
    variant(64, dtype=F8, out=F8, mask="causal"),
    variant(128, dtype=F8, out=E5M2),
    variant(64, out=F8),
    variant(128, out=F8, mask="causal", heads=(8, 2)),
    variant(128, out=E5M2, mask="window_both", sinks=True),
    variant(128, dtype="f16", out=F8, score="softcap"),
    variant(256, out=F8, mask="causal"),
    variant(96, out=F8),
    variant(80, 48, out=E5M2, mask="causal_tl"),
    variant(128, out=F8, schedule=(1, 64, 3, False, "grid", 1), split=132),
    variant(64, dtype="f32", out=F8),
    variant(64, dtype=E5M2, out="bf16"),
    variant(128, dtype=E5M2, out="f16", mask="causal"),
    variant(256, dtype=E5M2, out="bf16", heads=(4, 2)),
    variant(128, dtype=F8, kv_dtypes=(E5M2, F8), out="bf16", mask="causal"),
    variant(128, dtype=E5M2, kv_dtypes=(F8, E5M2), out="bf16", mask="window_both", sinks=True),
    variant(64, dtype=F8, kv_dtypes=(F8, E5M2), out="bf16", mask="causal", dropout=Dropout(0.5, "arx", 6)),
]

LARGE_KEYS = variant(128, heads=(8, 8))
LARGE_BIAS = variant(64, heads=(8, 8), score="bias")
ALL = VARIANTS + SCHEDULED + SHARED + POLYNOMIALS + CLUSTERED + FLOAT8 + STATES + SHARED_STATES
ALL += [LARGE_KEYS, LARGE_BIAS]

# ---------------------------------------------------------------------------
# Compiling
# ---------------------------------------------------------------------------


def choose_cases(options, cases):
    """Those whose variants are asked for, and compiled for the target."""
    chosen = set(choose_variants(options, ALL))
    return [case for case in cases if case.variant in chosen]


def compile_artifacts(options, variants) -> int:
    problems = []
    for n, v in enumerate(variants):
        base = write_source(options, v.name, v.mlir())
        output, source = f"{base}.so", run_passes(options, base, getattr(v, "passes", []))
        command = [options.compile, source, "-o", output, f"--target={options.target}", "--verbose"]
        if options.assemble:
            command.append("--embed-ptx=false")
        result = run_tool(command + v.options, check=False, quiet=True)
        uses = re.findall(r"uses (\d+) registers, (\d+) bytes of stack, (\d+) bytes of spills", result.stderr)
        said = [line for line in result.stderr.splitlines() if re.search("(error|warning|remark): ", line, re.I)]
        text = "\n  ".join(["", *(said or result.stderr.splitlines())])
        problem = ""
        if result.returncode != 0:
            problem = f"failed with {result.returncode}:{text}"
            if os.path.exists(output):
                os.remove(output)
        elif not uses and (options.assemble or options.target == "sm_90a"):
            problem = f"registers are not reported:{text}"
        elif "serializ" in result.stderr or (any(int(spills) for _, _, spills in uses) and not v.may_spill):
            problem = f"spills or is serialized:{text}"
        if problem:
            problems.append(f"{v.name} {problem}")
        used = ", ".join("{} registers, stack {}, spills {}".format(*use) for use in uses)
        if problem:
            used += "  PROBLEM"
        print(f"[{n + 1}/{len(variants)}] {v.name}: {used}", file=sys.stderr, flush=True)
    for problem in problems:
        print(problem)
    print(f"{len(variants) - len(problems)} compiled, {len(problems)} failed")
    return 1 if problems else 0


# ---------------------------------------------------------------------------
# Cases
# ---------------------------------------------------------------------------

LENGTHS = [1, 2, 7, 63, 64, 65, 127, 128, 129, 175, 176, 177, 191, 193, 255, 256, 257, 500, 1000, 1111]

# Order in which the dimensions lie in memory, and what surrounds the tensor in
# each of them: elements before and behind.
LAYOUTS = {
    "bhsd": ((0, 1, 2, 3), None),
    "bshd": ((0, 2, 1, 3), None),
    "sbhd": ((2, 0, 1, 3), None),
    "slice": ((0, 1, 2, 3), ((0, 1), (1, 0), (3, 2), (16, 32))),
    "slice_bshd": ((0, 2, 1, 3), ((1, 0), (2, 1), (1, 4), (32, 16))),
}


@dataclass(frozen=True)
class Case:
    variant: Variant
    batch: int
    queries: int
    keys: int
    # Layouts of query, key, value, output and of the rest.
    layouts: Tuple[str, ...] = ("bhsd",) * 5
    seed: int = 0
    # Whether only some rows of some heads are compared.
    sampled: bool = False
    # Elements around each tensor.
    guard: int = 1 << 16
    # The number of the first batch entry, for dropout.
    entry: int = 0

    def __str__(self):
        return (
            f"{self.variant.name} B={self.batch} Sq={self.queries} Skv={self.keys}"
            f" layouts={','.join(self.layouts)} seed={self.seed}"
        )


def make_cases(per_variant, per_schedule):
    """Cases with all lengths dealt evenly, for queries and keys by themselves."""
    rng = random.Random(2024)
    decks = ([], [])

    def deal(deck):
        if not deck:
            deck.extend(rng.sample(LENGTHS, len(LENGTHS)))
        return deck.pop()

    cases = []
    for v in VARIANTS + SCHEDULED + FLOAT8 + STATES:
        for n in range(per_schedule if v.schedule else per_variant):
            queries, keys = deal(decks[0]), deal(decks[1])
            # Of each variant: more queries than keys, as many, and as they come.
            if n == 0:
                queries, keys = max(queries, keys), min(queries, keys)
            elif n == 1:
                keys = queries
            names = list(LAYOUTS)
            layouts = ("bhsd",) * 5 if n == 1 else tuple(rng.choice(names) for _ in range(5))
            cases.append(Case(v, rng.randint(1, 3), queries, keys, layouts, seed=len(cases)))
    # Decoding, with less keys than queries, too, and none.
    for v in SHARED + SHARED_STATES:
        for n, keys in enumerate((1, 0, 65, 257, 1000, 4097, 9001)):
            # NumPy takes too long to make keep masks of dropout for more.
            queries = int(v.pack) if v.pack else (1, 3, 16, 2, 7, 16, 16 if v.dropout else 200)[n]
            layouts = tuple(rng.choice(list(LAYOUTS)) for _ in range(5))
            cases.append(Case(v, rng.randint(1, 3), queries, keys, layouts, seed=len(cases)))
    for v in POLYNOMIALS:
        for queries, keys in ((333, 447), (129, 1), (1000, 65), (64, 1024)):
            layouts = tuple(rng.choice(list(LAYOUTS)) for _ in range(5))
            cases.append(Case(v, rng.randint(1, 3), queries, keys, layouts, seed=len(cases)))
    # One tile of queries, some, and more than a round of clusters; of each, an odd number in one case.
    for v in CLUSTERED:
        sizes = ((1, 1, 300), (2, 129, 1), (3, 500, 257), (1, 1000, 1000), (2, 1111, 1111), (9, 1100, 64), (2, 65, 0))
        for batch, queries, keys in sizes:
            layouts = tuple(rng.choice(list(LAYOUTS)) for _ in range(5))
            cases.append(Case(v, batch, queries, keys, layouts, seed=len(cases)))
    large = dict(sampled=True, guard=1 << 20)
    cases += [
        # More than 2^31 elements of keys, of queries and outputs, and of a captured tensor.
        Case(LARGE_KEYS, 1, 64, 2_200_000, seed=9001, **large),
        Case(LARGE_KEYS, 1, 2_200_000, 64, seed=9002, **large),
        Case(LARGE_BIAS, 1, 256, 1_100_000, seed=9003, **large),
        # More work items than a dimension of a grid may have.
        Case(VARIANTS[0], 40_000, 1, 2, seed=9004),
        # Nothing to attend, nothing to compute.
        Case(VARIANTS[0], 2, 65, 0, seed=9005),
        Case(VARIANTS[1], 2, 65, 0, seed=9006),
        Case(VARIANTS[0], 2, 0, 65, seed=9007),
        Case(next(v for v in VARIANTS if v.score == "bias16"), 2, 65, 0, seed=9008),
        Case(next(v for v in VARIANTS if v.score == "table"), 2, 65, 0, seed=9009),
        Case(next(v for v in VARIANTS if v.keep == "docs"), 2, 0, 0, seed=9010),
        Case(next(v for v in VARIANTS if v.sinks), 2, 65, 0, seed=9011),
    ]
    return cases


def make_sanitizer_cases():
    """Tiny cases without anything around tensors, so that all that is outside shows."""
    find = {v.name: v for v in ALL}
    names = [
        "d64_64_h2_2_bf16_full",
        "d64_64_h2_2_f16_causal",
        "d128_128_h2_2_bf16_full",
        "d128_128_h8_2_bf16_causal",
        "d256_256_h2_2_bf16_full",
        "d40_40_h2_2_bf16_causal",
        "d192_128_h2_2_bf16_causal",
        "d128_128_h2_2_bf16_window",
        "d64_64_h2_2_f16_causal_docs",
        "d128_128_h2_2_bf16_full_bias",
        "d128_128_h2_2_bf16_causal_bias16",
        "d128_128_h2_2_bf16_full_table",
        "d128_128_h8_2_bf16_causal_alibi",
        "d72_40_h2_2_bf16_full_docs_to_f32",
        "d128_128_h2_2_bf16_full_c2_k176_s2_turns_persistent1_cluster2",
        "d64_64_h2_2_bf16_full_state_f32",
        "d128_128_h8_2_bf16_causal_state_bf16",
    ]
    layouts = ("bhsd", "bshd", "bhsd", "bshd", "bhsd")
    sizes = [(65, 129), (129, 65), (193, 177)]
    return [Case(find[name], 1, *sizes[n % 3], layouts, seed=n, guard=0) for n, name in enumerate(names)]


# ---------------------------------------------------------------------------
# Running
# ---------------------------------------------------------------------------


def place(torch, shape, dtype, layout, fill, guard):
    """A tensor in the layout, within a buffer that is filled with `fill`. Gives both."""
    order, around = LAYOUTS[layout]
    rank = len(shape)
    if rank != 4:
        order = range(rank)
        around = around and ((0, 1),) * (rank - 1) + ((8, 16),)
    around = around or ((0, 0),) * rank
    strides, stride = [0] * rank, 1
    for dim in reversed(order):
        strides[dim] = stride
        stride *= shape[dim] + sum(around[dim])
    # Torch fills no tensors of 8 bits.
    made = torch.float32 if dtype.itemsize == 1 and dtype.is_floating_point else dtype
    buffer = torch.full((max(stride, 1) + 2 * guard,), fill, dtype=made, device="cuda").to(dtype)
    offset = guard + sum(before * step for (before, _), step in zip(around, strides))
    return buffer.as_strided(shape, strides, offset), buffer


def make_ancestors(torch, case, generator):
    """For each node of a random tree, bits of the nodes on its way to the root,
    itself included, 32 in a word."""
    parents = torch.rand(case.queries, generator=generator, device="cuda").tolist()
    rows = []
    for node, place in enumerate(parents):
        parent = int(place * (node + 1)) - 1
        rows.append((rows[parent] if parent >= 0 else 0) | 1 << node)
    num_words = -(-case.queries // 32)
    words = [[row >> (32 * word) & 0xFFFFFFFF for word in range(num_words)] for row in rows]
    words = torch.tensor(words, dtype=torch.int64, device="cuda")
    return torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32)


def make_reads_shape(case):
    return SimpleNamespace(b=case.batch, hq=case.variant.heads, sq=case.queries, skv=case.keys)


def make_reads(case):
    """What the mask reads, as arrays."""
    return DATA_MASKS[case.variant.data].make(make_reads_shape(case), np.random.default_rng(case.seed))


def make_capture(torch, case, name, generator):
    layout = case.layouts[4]
    if name.startswith("read"):
        values = torch.from_numpy(make_reads(case)[int(name[4:])]).cuda()
        return place(torch, tuple(values.shape), values.dtype, layout, 1, case.guard)[0].copy_(values)
    if name in ("seed", "offset"):
        return torch.randint(-(2**63), 2**63 - 1, (), device="cuda", generator=generator)
    if name == "slopes":
        values = 2.0 ** -torch.arange(1, case.variant.heads + 1, device="cuda", dtype=torch.float32)
    elif name == "map":
        values = torch.tensor(case.variant.head_map, device="cuda", dtype=torch.int32)
    elif name == "identity":
        # One head has the identity alone, and one has none of it.
        values = torch.rand(case.variant.heads, device="cuda", generator=generator)
        values[0], values[-1] = 1, 0
    elif name == "out_scale":
        # Few results are beyond the largest number of 8 bits.
        values = torch.rand(case.variant.heads, device="cuda", generator=generator) / 8 + 1 / 32
    elif name == "sinks":
        # About as large as scores; the last head has none.
        values = torch.randn(case.variant.heads, device="cuda", generator=generator).bfloat16() * 2
        values[-1] = float("-inf")
    elif name == "bias16":
        values = torch.randn(1, case.variant.heads, case.queries, case.keys, device="cuda", generator=generator).bfloat16()
    elif name == "state_out":
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[case.variant.state]
        shape = (case.batch, case.variant.heads, case.queries, case.variant.v_dim)
        values = torch.randn(shape, device="cuda", generator=generator).to(dtype)
        # Rows without keys do not count.
        values[:, :, 3::7] = float("nan")
    elif name == "state_lse":
        shape = (case.batch, case.variant.heads, case.queries)
        values = torch.randn(shape, device="cuda", generator=generator) * 3 + math.log(max(case.keys, 1))
        values[:, :, 1::11], values[:, :, 2::13], values[:, :, 5::17] = 1e20, -1e10, 300.0
        values[:, :, 3::7] = float("-inf")
    elif name == "ancestors":
        values = make_ancestors(torch, case, generator)
    elif name == "prefix":
        values = torch.tensor([max(case.keys - case.queries, 0)], dtype=torch.int32, device="cuda")
    elif name == "blocks":
        shape = (-(-case.queries // 48), -(-case.keys // 48))
        values = (torch.rand(shape, generator=generator, device="cuda") < 0.3).to(torch.int8)
    elif name == "starts":
        # Of documents of 250 tokens.
        positions = torch.arange(max(case.queries, case.keys), device="cuda", dtype=torch.int32)
        values = (positions // 250 * 250).repeat(case.batch, 1)
    elif name == "temperature":
        values = torch.rand(case.variant.heads, device="cuda", generator=generator) * 2 + 0.3
    elif name == "buckets":
        values = torch.randn(case.variant.heads, 32, device="cuda", generator=generator)
    elif name == "classes":
        shape = (1, case.queries, case.keys)
        values = torch.randint(12, shape, device="cuda", dtype=torch.int32, generator=generator)
        values = values.repeat(case.batch, 1, 1)
    elif name == "embedding":
        values = torch.randn(12, case.variant.heads, device="cuda", generator=generator)
    elif name in ("query_factors", "key_factors"):
        length = case.queries if name == "query_factors" else case.keys
        values = torch.rand(1, case.variant.heads, length, device="cuda", generator=generator) * 2 + 0.2
        values = values.repeat(case.batch, 1, 1)
    elif name == "window":
        values = torch.randint(300, (2,), device="cuda", dtype=torch.int32, generator=generator)
    elif name == "table":
        values = torch.randn(case.variant.heads, 401, device="cuda", generator=generator)
    elif name == "bias":
        # Made in place: it may be most of the memory.
        shape = (case.variant.heads, case.queries, case.keys)
        result, _ = place(torch, shape, torch.float32, layout, float("nan"), case.guard)
        return result.normal_(generator=generator)
    else:
        shape = (case.batch, max(case.queries, case.keys))
        values = torch.randint(3, shape, device="cuda", dtype=torch.int32, generator=generator)
    fill = float("nan") if values.dtype.is_floating_point else 1
    result, _ = place(torch, tuple(values.shape), values.dtype, layout, fill, case.guard)
    return result.copy_(values)


def attention(torch, case, q, k, v, captures, heads, rows, exact):
    """Rows of heads by torch operations, in f64 or in the dtype of the inputs.

    Gives the output, the log-sum-exp and, in f64, the size of a sum of the weighted values of each row if their signs
    were random."""
    variant = case.variant
    if variant.dtype in EIGHT_BITS:
        q, k, v = q.float(), k.float(), v.float()
    if variant.head_map:
        key_heads = value_heads = torch.tensor(variant.head_map, device=q.device)[heads]
    else:
        key_heads, value_heads = (heads // (variant.heads // n) for n in (variant.kv_heads, variant.value_heads))
    q, k, v = q[:, heads][:, :, rows], k[:, key_heads], v[:, value_heads]
    if exact:
        q, k, v = q.double(), k.double(), v.double()
    if variant.identity:
        weights = captures["identity"].to(q.dtype if exact else torch.float32)[heads].view(1, -1, 1, 1)
        is_own = rows.view(1, 1, -1, 1) + (case.keys - case.queries) == torch.arange(case.keys, device=q.device)
    keys = torch.arange(case.keys, device=q.device)
    b = torch.arange(case.batch, device=q.device).view(-1, 1, 1, 1)
    h, i, j = heads.view(1, -1, 1, 1), rows.view(1, 1, -1, 1), keys.view(1, 1, 1, -1)
    s = q @ k.transpose(-1, -2)
    s = s if exact else s.float()
    s = s * (variant.scale if variant.scale is not None else variant.qk_dim**-0.5)
    if variant.score:
        s = SCORES[variant.score][2](s, h, i, j, captures)
    s = s.masked_fill(~MASKS[variant.mask][1](i, j, case.queries, case.keys), float("-inf"))
    if variant.keep:
        s = s.masked_fill(~KEEPS[variant.keep][2](b, i, j, captures), float("-inf"))
    if variant.data:
        at = (x.cpu().numpy() for x in (b, h, i, j))
        reads = [captures[read].cpu().numpy() for read in variant.reads]
        kept = DATA_MASKS[variant.data].keep(*at, case.queries, case.keys, reads)
        s = s.masked_fill(~torch.from_numpy(kept).to(s.device), float("-inf"))
    if case.keys == 0:
        zeros = q.new_zeros(*q.shape[:3], variant.v_dim)
        lse = zeros[..., 0] - float("inf")
        if variant.sinks:
            lse = torch.maximum(lse, captures["sinks"].to(lse.dtype)[heads].view(1, -1, 1))
        return zeros, lse, zeros[..., 0]
    m = s.amax(-1, keepdim=True)
    if variant.sinks:
        sinks = captures["sinks"].to(s.dtype)[heads].view(1, -1, 1, 1)
        m = torch.maximum(m, sinks)
    m = m.masked_fill(m == float("-inf"), 0)
    p = (s - m).exp()
    total = p.sum(-1, keepdim=True)
    if variant.sinks:
        total = total + (sinks - m).exp()
    lse = (m + total.log())[..., 0]
    p = p / total.masked_fill(total == 0, 1)
    if variant.dropout:
        state = captures["seed"].item(), captures["offset"].item()
        kept = variant.dropout.keep(*state, *(x.cpu().numpy() for x in (b + case.entry, h, i, j)))
        p = p * torch.from_numpy(kept).to(p.device) / variant.dropout.keep_probability
    if variant.identity:
        p = (1 - weights) * p + weights * is_own
    if exact:
        spread = (p.square() @ v.square().sum(-1, keepdim=True)).sqrt()[..., 0]
        return p @ v, lse, spread
    if variant.dtype in EIGHT_BITS:
        # Dropout divides by the probability of keeping, of at least a half.
        scale = 128 * total.masked_fill(total == 0, 1)
        p = (p * scale).to(torch.float8_e4m3fn).float() / scale
        return (p @ v).bfloat16(), lse, None
    p = p.to(v.dtype)
    return (p.float() @ v.float() if variant.out == "f32" else p @ v), lse, None


def go_on(captures, heads, rows, result):
    """The results of `attention`, merged with the rows of the partial result in the captures."""
    out, lse, spread = result
    state_out, state_lse = (captures[name][:, heads][:, :, rows].double() for name in ("state_out", "state_lse"))
    lse = lse.double()
    both = state_lse.logaddexp(lse)
    # Rows without keys do not count.
    finite = both.masked_fill(both == float("-inf"), 0)
    old, new = ((part - finite).exp()[..., None] for part in (state_lse, lse))
    merged = new * out.double() + (old * state_out).masked_fill(old == 0, 0)
    if spread is not None:
        spread = new[..., 0] * spread + old[..., 0] * state_out.norm(dim=-1).masked_fill(old[..., 0] == 0, 0)
    return merged.to(out.dtype), both, spread


@dataclass
class Row:
    """A line of the table."""

    cases: int = 0
    failed: int = 0
    # Errors relative to the allowed ones, and the error of the log-sum-exp.
    norm: float = 0.0
    row: float = 0.0
    lse: float = 0.0


@dataclass
class Suite:
    rows: Dict[str, Row] = field(default_factory=dict)

    def finish(self) -> int:
        print(f"{'variant':56s} cases failed  norm   row    lse   (norm and row: error over what is allowed)")
        for name, row in self.rows.items():
            print(f"{name:56s} {row.cases:5d} {row.failed:6d} {row.norm:5.2f} {row.row:5.2f} {row.lse:.1e}")
        passed, failed = self.count()
        print(f"{passed} passed, {failed} failed", flush=True)
        return 1 if failed or not passed else 0

    def count(self):
        """How many cases passed and failed."""
        failed = sum(row.failed for row in self.rows.values())
        return sum(row.cases for row in self.rows.values()) - failed, failed


def outside_is_same(torch, view, buffer, before):
    """Whether nothing but the view has changed in the buffer; clears the view."""
    integer = {1: torch.int8, 2: torch.int16, 4: torch.int32}[buffer.element_size()]
    buffer, before = buffer.view(integer), before.view(integer)
    for whole in (buffer, before):
        whole.as_strided(view.shape, view.stride(), view.storage_offset()).zero_()
    return torch.equal(buffer, before)


def fill_with_nan(torch, view):
    """Torch fills no tensors of 8 bits. A byte of 127 is NaN in both formats."""
    if view.element_size() == 1:
        view.view(torch.int8).fill_(127)
    else:
        view.fill_(float("nan"))


def run_bad_map(torch, run, head_map):
    """What is wrong with how a map of heads with entries that are no key heads is met."""
    good = head_map.clone()
    for place, entry in ((0, -1), (-1, 2**30)):
        head_map[place] = entry
        run()
        torch.cuda.synchronize()
        head_map.copy_(good)
        try:
            run()
            return ["map of heads: the next call did not report it"]
        except RuntimeError as error:
            if "map of heads" not in str(error):
                return [f"map of heads: reported as '{error}'"]
    return []


def run_bad_reads(torch, run, case, captures):
    """What is wrong with how operands of a mask that are not valid are met."""
    mask = DATA_MASKS[case.variant.data]
    shape, good = make_reads_shape(case), make_reads(case)
    for bad in mask.spoil(shape, np.random.default_rng(case.seed), good):
        if any(x.shape != y.shape for x, y in zip(bad, good)):
            continue
        for read, values in zip(case.variant.reads, bad):
            captures[read].copy_(torch.from_numpy(values))
        run()
        torch.cuda.synchronize()
        for read, values in zip(case.variant.reads, good):
            captures[read].copy_(torch.from_numpy(values))
        try:
            run()
            return ["operands of the mask: the next call did not report them"]
        except RuntimeError as error:
            if "a mask that is not valid" not in str(error):
                return [f"operands of the mask: reported as '{error}'"]
    return []


def run_case(torch, function, case, row):
    """Runs a case; gives the error, if there is one."""
    variant = case.variant
    dtypes = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "f8E4M3FN": torch.float8_e4m3fn}
    dtypes["f8E5M2"] = torch.float8_e5m2
    nan = float("nan")
    generator = torch.Generator("cuda").manual_seed(case.seed)
    inputs = []
    key_dtype, value_dtype = variant.kv_dtypes or (variant.dtype, variant.dtype)
    for heads, length, dim, layout, dtype in (
        (variant.heads, case.queries, variant.qk_dim, case.layouts[0], variant.dtype),
        (variant.kv_heads, case.keys, variant.qk_dim, case.layouts[1], key_dtype),
        (variant.value_heads, case.keys, variant.v_dim, case.layouts[2], value_dtype),
    ):
        shape = (case.batch, heads, length, dim)
        tensor, _ = place(torch, shape, dtypes[dtype], layout, nan, case.guard)
        if variant.dtype in EIGHT_BITS:
            inputs.append(tensor.copy_(torch.randn(shape, device="cuda", generator=generator)))
        else:
            inputs.append(tensor.normal_(generator=generator))
    if variant.latent:
        inputs[2] = inputs[1][..., : variant.v_dim]
    captures = {name: make_capture(torch, case, name, generator) for name in variant.captures}
    shape = (case.batch, variant.heads, case.queries, variant.v_dim)
    out, out_buffer = place(torch, shape, dtypes[variant.out_dtype], case.layouts[3], 7, case.guard)
    outputs = [("output", out, out_buffer)]
    if variant.lse:
        lse, lse_buffer = place(torch, shape[:3], torch.float32, case.layouts[4], 7, case.guard)
        outputs.append(("lse", lse, lse_buffer))
    befores = [buffer.clone() for _, _, buffer in outputs]
    run = function.bind(
        *inputs,
        *captures.values(),
        *(view for _, view, _ in outputs),
        stream=torch.cuda.current_stream().cuda_stream,
    )
    results = []
    for _ in range(2):
        for _, view, _ in outputs:
            fill_with_nan(torch, view)
        run()
        torch.cuda.synchronize()
        # Torch compares no numbers of 8 bits.
        results.append([view.float() if view.element_size() == 1 else view.clone() for _, view, _ in outputs])

    wrong = run_bad_map(torch, run, captures["map"]) if variant.head_map else []
    if variant.data:
        wrong += run_bad_reads(torch, run, case, captures)
    for n, (name, view, buffer) in enumerate(outputs):
        first, second = results[0][n], results[1][n]
        if first.isnan().any().item():
            where = first.isnan().nonzero()
            wrong.append(f"{name}: {len(where)} NaN, first at {where[0].tolist()}")
        elif not torch.equal(first, second):
            wrong.append(f"{name}: {(first != second).sum().item()} elements differ between two runs")
        if not outside_is_same(torch, view, buffer, befores[n]):
            wrong.append(f"{name}: written outside")
    del befores, outputs, out_buffer
    if case.queries == 0:
        return wrong

    heads = torch.arange(variant.heads, device="cuda")
    rows = torch.arange(case.queries, device="cuda")
    if case.sampled:
        heads = heads[[0, -1]]
        rows = torch.cat([rows[:16], rows[-48:]])
    out = results[0][0][:, heads][:, :, rows].double()
    exact, rounded = (attention(torch, case, *inputs, captures, heads, rows, is_exact) for is_exact in (True, False))
    if variant.state:
        exact, rounded = (go_on(captures, heads, rows, result) for result in (exact, rounded))
    (exact, exact_lse, spread), rounded = exact, rounded[0]
    empty = exact_lse == float("-inf")
    # Tensor cores truncate the sum over the head dim of a score.
    grows = max(variant.qk_dim / 256, 1) if variant.dtype == "f32" else 1

    # The error of the rounding to 8 bits, of a row of the output and of the whole output.
    coarse, coarse_norm = 0.0, 0.0
    if variant.out_dtype in EIGHT_BITS:
        scales = captures["out_scale"][heads].double()[:, None, None]
        out = out * scales
        least = HALF_SUBNORMAL[variant.out_dtype] * math.sqrt(variant.v_dim) * scales[..., 0]
        coarse = OUT_ROUNDING[variant.out_dtype] * exact.norm(dim=-1) + least
        coarse_norm = coarse.norm().item()
    size = exact.norm().item()
    if size > 0 and not wrong:
        error = (out - exact).norm().item() / size
        torch_error = (rounded.double() - exact).norm().item() / size
        # With few rows chance rules the error of torch: allow one rounding of the probabilities.
        few = empty.numel() < 64
        rounding = variant.rounding if few or variant.dtype == "f32" else OUT_ROUNDING[variant.out_dtype]
        if variant.out_dtype in EIGHT_BITS:
            rounding = variant.rounding + coarse_norm / size
        allowed = grows * (2 * torch_error + rounding + 1e-6)
        row.norm = max(row.norm, error / allowed)
        if not error <= allowed:
            wrong.append(f"output: error {error:.3g}, torch {torch_error:.3g}, allowed {allowed:.3g}")
        allowed = grows * (2 * variant.rounding * (spread + exact.norm(dim=-1)) + 1e-6) + coarse
        ratio = (out - exact).norm(dim=-1) / allowed
        row.row = max(row.row, ratio.max().item())
        if not ratio.max().item() <= 1:
            where = (~(ratio <= 1)).nonzero()
            first, worst = where[0].tolist(), ratio.max().item()
            wrong.append(f"output: {len(where)} rows are wrong, first (b, h, i) {first}, {worst:.3g} times the limit")
    if not case.variant.identity and (out[empty] != 0).any().item():
        wrong.append(f"output: not 0 in some of {empty.sum().item()} rows with nothing to attend")
    if variant.lse:
        lse = results[0][1][:, heads][:, :, rows].double()
        if not torch.equal(lse == float("-inf"), empty):
            where = ((lse == float("-inf")) != empty).nonzero()
            wrong.append(f"lse: -inf is wrong in {len(where)} rows, first (b, h, i) {where[0].tolist()}")
        elif not empty.all().item():
            # Those of partial results may be large.
            rounding = 2.0**-21 * exact_lse.abs() if variant.state else 0.0
            error = ((lse - exact_lse).abs() - rounding)[~empty].max().item()
            row.lse = max(row.lse, error)
            if not error <= (1e-5 * grows if variant.dtype == "f32" and not variant.precision else 2e-3):
                wrong.append(f"lse: error {error:.3g}")
    return wrong


def main():
    parser = make_parser(__doc__, "target", "assemble", "only", "every")
    parser.add_argument("--cases", type=int, default=5, help="cases of each variant")
    parser.add_argument("--sanitizer-subset", action="store_true", help="a few tiny cases, for compute-sanitizer")
    parser.add_argument("--timeout", type=float, default=60, help="seconds after which a case counts as hung")
    options = parser.parse_args()
    if options.compile:
        return compile_artifacts(options, choose_variants(options, ALL))
    if options.sanitizer_subset:
        os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
        options.timeout = max(options.timeout, 600)

    import torch

    from attn.artifact import Artifact

    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.zeros(1, device="cuda")
    cases = make_sanitizer_cases() if options.sanitizer_subset else make_cases(options.cases, 3)
    suite, artifacts = Suite(), {}

    def stop(case):
        # A kernel that hangs cannot be cancelled.
        suite.rows[case.variant.name].failed += 1
        print(f"FAIL {case}: no end after {options.timeout:g} s, the rest is left out", flush=True)
        suite.finish()
        os._exit(1)

    for case in choose_cases(options, cases):
        name = case.variant.name
        row = suite.rows.setdefault(name, Row())
        row.cases += 1
        watchdog = threading.Timer(options.timeout, stop, (case,))
        watchdog.daemon = True
        watchdog.start()
        try:
            if name not in artifacts:
                artifacts[name] = Artifact(os.path.join(options.artifacts, name + ".so"), options.runtime)
            wrong = run_case(torch, artifacts[name][name], case, row)
        except (RuntimeError, OSError, AttributeError) as error:
            wrong = [" ".join(str(error).split()) or type(error).__name__]
        watchdog.cancel()
        if wrong:
            row.failed += 1
            print(f"FAIL {case}: {'; '.join(wrong)}", flush=True)
        if case.sampled:
            torch.cuda.empty_cache()
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            print("the device is lost, the rest is left out", flush=True)
            suite.finish()
            return 1
    record(options, *suite.count(), part=options.sanitizer_subset)
    return suite.finish()


if __name__ == "__main__":
    sys.exit(main())
