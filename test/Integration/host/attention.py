# ===- attention.py - Numerics of attention on the host --------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Compiles attention in many variants for the host, runs each with several
# shapes, and compares with f64. An error may be twice the error of the same computation by NumPy operations that round
# to the element type after each step, plus one rounding of the output.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --cc %host_cc --library %attn_libs_dir --work %t

import argparse
import concurrent.futures
import ctypes
import os
import sys
import zlib

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs"))
from data_masks import DATA_MASKS  # noqa: E402
from dropout_reference import Dropout, pack  # noqa: E402
from tool_cache import run_tool  # noqa: E402

F64 = np.float64


# ===----------------------------------------------------------------------===#
# Element types
# ===----------------------------------------------------------------------===#


def round_to(x, dtype):
    """Rounds an f64 or f32 array to values of `dtype`, kept as f32."""
    x = np.asarray(x, np.float32)
    if dtype == "f32":
        return x
    if dtype == "f16":
        return x.astype(np.float16).astype(np.float32)
    bits = x.view(np.uint32)
    odd = (bits >> 16) & 1
    rounded = ((bits + 0x7FFF + odd) & 0xFFFF0000).view(np.float32)
    return np.where(np.isfinite(x), rounded, x)


def to_memory(x, dtype):
    x = np.ascontiguousarray(round_to(x, dtype))
    if dtype == "bf16":
        return (x.view(np.uint32) >> 16).astype(np.uint16)
    return x.astype({"f16": np.float16, "f32": np.float32}[dtype])


def from_memory(x, dtype):
    if dtype == "bf16":
        return (x.astype(np.uint32) << 16).view(np.float32)
    return x.astype(np.float32)


EPSILON = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24}


# ===----------------------------------------------------------------------===#
# Variants
# ===----------------------------------------------------------------------===#


def band(left=None, right=None, top_left=False):
    def keep(i, j, sq, skv):
        diagonal = i + (0 if top_left else skv - sq)
        result = np.ones(np.broadcast(i, j).shape, bool)
        if left is not None:
            result &= j >= diagonal - left
        if right is not None:
            result &= j <= diagonal + right
        return result

    return keep


MASKS = {
    "none": ("", band()),
    "causal": ("mask(#attn.causal)", band(right=0)),
    "causal_top_left": (
        "mask(#attn.causal<alignment = top_left>)",
        band(right=0, top_left=True),
    ),
    "window": (
        "mask(#attn.sliding_window<left = 40, right = 0>)",
        band(left=40, right=0),
    ),
    "window_both": (
        "mask(#attn.sliding_window<left = 70, right = 20, alignment = top_left>)",
        band(left=70, right=20, top_left=True),
    ),
    "window_left": ("mask(#attn.sliding_window<left = 100>)", band(left=100)),
    "window_self": ("mask(#attn.sliding_window<left = 0, right = 0>)", band(left=0, right=0)),
    "prefix_lm": (
        "mask(#attn.prefix_lm<length = 50>)",
        lambda i, j, sq, skv: (j < 50) | (j <= i + skv - sq),
    ),
    "dilated": (
        "mask(#attn.dilated_window<left = 60, right = 30, dilation = 3>)",
        lambda i, j, sq, skv: band(60, 30)(i, j, sq, skv) & ((i + skv - sq - j) % 3 == 0),
    ),
    "block_diagonal": (
        "mask(#attn.local_blocks<size = 48, before = 0, after = 0, alignment = top_left>)",
        lambda i, j, sq, skv: i // 48 == j // 48,
    ),
    "block_causal": (
        "mask(#attn.local_blocks<size = 40, after = 0>)",
        lambda i, j, sq, skv: j // 40 <= (i + skv - sq) // 40,
    ),
    "local_blocks": (
        "mask(#attn.local_blocks<size = 32, before = 1, after = 1>)",
        lambda i, j, sq, skv: abs(j // 32 - (i + skv - sq) // 32) <= 1,
    ),
    "chunked": (
        "mask(#attn.and<#attn.causal, #attn.local_blocks<size = 64, before = 0, after = 0>>)",
        lambda i, j, sq, skv: (j <= i + skv - sq) & (j // 64 == (i + skv - sq) // 64),
    ),
    "global_window": (
        "mask(#attn.or<#attn.global_tokens<count = 20>, #attn.sliding_window<left = 30, right = 10>>)",
        lambda i, j, sq, skv: (i < 20) | (j < 20) | band(30, 10)(i, j, sq, skv),
    ),
    "blocks_before": (
        "mask(#attn.local_blocks<size = 32, before = 1>)",
        lambda i, j, sq, skv: j // 32 >= (i + skv - sq) // 32 - 1,
    ),
    "nothing": (
        "mask(#attn.none)",
        lambda i, j, sq, skv: np.zeros(np.broadcast(i, j).shape, bool),
    ),
    "not_or": (
        "mask(#attn.not<#attn.or<#attn.not<#attn.causal>, #attn.sliding_window<left = 9, right = 4>>>)",
        lambda i, j, sq, skv: band(None, 0)(i, j, sq, skv) & ~band(9, 4)(i, j, sq, skv),
    ),
    "upper": (
        "mask(#attn.sliding_window<left = 0, alignment = top_left>)",
        band(left=0, top_left=True),
    ),
    "not_window": (
        "mask(#attn.not<#attn.sliding_window<left = 25, right = 25>>)",
        lambda i, j, sq, skv: ~band(25, 25)(i, j, sq, skv),
    ),
}

def make_ancestors(shape, rng):
    """For each node of a random tree, bits of the nodes on its way to the root,
    itself included, 32 in a word. The nodes are the queries."""
    bits = np.zeros((shape.sq, shape.sq), bool)
    for node in range(shape.sq):
        parent = int(rng.integers(-1, max(node, 0)))
        if parent >= 0:
            bits[node] = bits[parent]
        bits[node, node] = True
    words = np.zeros((shape.sq, -(-shape.sq // 32)), np.uint32)
    for node in range(shape.sq):
        words[:, node // 32] |= bits[:, node].astype(np.uint32) << (node % 32)
    return words.view(np.int32)


def keep_tree(i, j, words, prefix):
    node = np.maximum(j - prefix, 0)
    return (j < prefix) | ((words[i, node // 32] >> (node % 32)) & 1 == 1)


# Captured arrays: MLIR type, NumPy type, and a function from the shape to values.
CAPTURES = {
    "distances": ("memref<?xf32>", np.float32, lambda s, r: r.standard_normal(max(s.sq, s.skv))),
    "slopes": ("memref<?xf32>", np.float32, lambda s, r: 2.0 ** -np.arange(1, s.hq + 1)),
    "bias": ("memref<?x?xf32>", np.float32, lambda s, r: r.standard_normal((s.sq, s.skv))),
    "table": ("memref<?xf32>", np.float32, lambda s, r: r.standard_normal(32)),
    "temperature": ("memref<?xf32>", np.float32, lambda s, r: r.uniform(0.3, 3, s.hq)),
    "buckets": ("memref<?x32xf32>", np.float32, lambda s, r: r.standard_normal((s.hq, 32))),
    "classes": ("memref<?x?x?xi32>", np.int32, lambda s, r: r.integers(0, 12, (s.b, s.sq, s.skv))),
    "embedding": ("memref<12x?xf32>", np.float32, lambda s, r: r.standard_normal((12, s.hq))),
    # How far a window reaches to the left and to the right.
    "window": ("memref<2xindex>", np.int64, lambda s, r: r.integers(0, 60, 2)),
    "query_factors": ("memref<?x?x?xf32>", np.float32, lambda s, r: r.uniform(0.2, 2, (s.b, s.hq, s.sq))),
    "key_factors": ("memref<?x?x?xf32>", np.float32, lambda s, r: r.uniform(0.2, 2, (s.b, s.hq // 2, s.skv))),
    "docs": ("memref<?x?xi32>", np.int32,
             lambda s, r: r.integers(0, 3, (s.b, max(s.sq, s.skv)))),
    "ancestors": ("memref<?x?xi32>", np.int32, make_ancestors),
    "prefix": ("memref<1xindex>", np.int64, lambda s, r: [max(s.skv - s.sq, 0)]),
    "blocks": ("memref<?x?xi8>", np.int8,
               lambda s, r: r.random((-(-s.sq // 16), -(-s.skv // 16))) < 0.2),
    "lengths": ("memref<?xindex>", np.int64, lambda s, r: r.integers(0, s.skv + 1, s.b)),
    "runs": ("memref<?x?xi32>", np.int32, lambda s, r: make_runs(s, r, np.int32)),
    # Too short for the positions, and in half of the shapes empty.
    "few": ("memref<?xf32>", np.float32, lambda s, r: r.standard_normal(s.skv // 3 if s.skv % 2 else 0)),
    "few_pairs": ("memref<?x?xf32>", np.float32,
                  lambda s, r: r.standard_normal((s.sq * 2 // 3, s.skv * 2 // 3) if s.skv > 2 else (3, 0))),
    "few_lengths": ("memref<?xindex>", np.int64, lambda s, r: r.integers(s.skv // 2, s.skv + 1, s.b // 2)),
    "few_docs": ("memref<?x?xi32>", np.int32,
                 lambda s, r: r.integers(0, 2, (1, s.skv // 2))),
    "wide_runs": ("memref<?x?xi64>", np.int64, lambda s, r: make_runs(s, r, np.int64)),
}


def make_runs(shape, rng, dtype):
    """Numbers that often stay the same from one position to the next; some need all bits of their type."""
    size = (shape.b, max(shape.sq, shape.skv))
    steps = (rng.random(size) < 0.05).cumsum(1)
    values = rng.integers(-8, 40, (shape.b, size[1] + 1))
    info = np.iinfo(dtype)
    extremes = rng.choice([info.min, info.min + 1, info.max, info.max // 2 + 1], values.shape)
    values = np.where(rng.random(values.shape) < 0.1, extremes, values)
    return np.take_along_axis(values, steps, 1)


def read(array, *indices):
    """The element that a region reads at any index: the last one for indices out of bounds, zero of an empty array."""
    if array.size == 0:
        return np.zeros(np.broadcast(*indices).shape, array.dtype)
    return array[tuple(np.minimum(np.asarray(index, np.int64).view(np.uint64), size - 1).astype(np.int64)
                       for index, size in zip(indices, array.shape))]


def t5_bucket(i, j):
    n = np.maximum(i - j, 0)
    ratio = np.maximum(i - j, 1).astype(np.float32) / np.float32(16)
    far = 16 + (np.log(ratio) * np.float32(7.69436707)).astype(np.int64)
    return np.where(n < 16, n, np.minimum(far, 31))


# Score_mod regions: captures, MLIR body (%s to %r), and the same on arrays.
SCORES = {
    "none": ((), "", None),
    "alibi": (
        ("slopes",),
        """%slope = memref.load %slopes[%h] : memref<?xf32>
           %d = arith.subi %j, %i : index
           %di = arith.index_cast %d : index to i32
           %df = arith.sitofp %di : i32 to f32
           %a = arith.mulf %df, %slope : f32
           %r = arith.addf %s, %a : f32""",
        lambda s, b, h, i, j, c: s + c["slopes"][h] * (j - i),
    ),
    "softcap": (
        (),
        """%cap = arith.constant 2.0 : f32
           %d = arith.divf %s, %cap : f32
           %t = math.tanh %d : f32
           %r = arith.mulf %t, %cap : f32""",
        lambda s, b, h, i, j, c: 2 * np.tanh(s / 2),
    ),
    # What has no function on the host, nor an instruction on GPUs.
    "powers": (
        (),
        """%low = arith.constant -1.5 : f32
           %high = arith.constant 0.75 : f32
           %c3 = arith.constant 3 : i32
           %two = arith.constant 2 : index
           %parity = arith.remui %j, %two : index
           %n = arith.index_cast %parity : index to i32
           %least = arith.maximumf %s, %low : f32
           %x = arith.minimumf %least, %high : f32
           %cube = math.fpowi %x, %c3 : f32, i32
           %power = math.fpowi %x, %n : f32, i32
           %r = arith.addf %cube, %power : f32""",
        lambda s, b, h, i, j, c: np.clip(s, -1.5, 0.75) ** 3 + np.where(j % 2 == 0, 1, np.clip(s, -1.5, 0.75)),
    ),
    "bias": (
        ("bias",),
        """%x = memref.load %bias[%i, %j] : memref<?x?xf32>
           %r = arith.addf %s, %x : f32""",
        lambda s, b, h, i, j, c: s + c["bias"][i, j],
    ),
    # What normalising queries and keys does to scores. Two query heads share a key head.
    "qk_norm": (
        ("query_factors", "key_factors"),
        """%two = arith.constant 2 : index
           %hk = arith.divui %h, %two : index
           %x = memref.load %query_factors[%b, %h, %i] : memref<?x?x?xf32>
           %y = memref.load %key_factors[%b, %hk, %j] : memref<?x?x?xf32>
           %t = arith.mulf %s, %x : f32
           %r = arith.mulf %t, %y : f32""",
        lambda s, b, h, i, j, c: s * c["query_factors"][b, h, i] * c["key_factors"][b, h // 2, j],
    ),
    "table": (
        ("table",),
        """%n = arith.constant 32 : index
           %entry = arith.remui %j, %n : index
           %x = memref.load %table[%entry] : memref<?xf32>
           %r = arith.addf %s, %x : f32""",
        lambda s, b, h, i, j, c: s + c["table"][j % 32],
    ),
    "temperature": (
        ("temperature",),
        """%x = memref.load %temperature[%h] : memref<?xf32>
           %r = arith.mulf %s, %x : f32""",
        lambda s, b, h, i, j, c: s * c["temperature"][h],
    ),
    # Buckets of distances that grow with the distance (Raffel et al. 2020).
    "t5": (
        ("buckets",),
        """%c0 = arith.constant 0 : index
           %exact = arith.constant 16 : index
           %last = arith.constant 31 : index
           %c1 = arith.constant 1 : index
           %near = arith.constant 16.0 : f32
           %step = arith.constant 7.69436707 : f32
           %d = arith.subi %i, %j : index
           %n = arith.maxsi %d, %c0 : index
           %positive = arith.maxsi %d, %c1 : index
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
           %x = memref.load %buckets[%h, %bucket] : memref<?x32xf32>
           %r = arith.addf %s, %x : f32""",
        lambda s, b, h, i, j, c: s + c["buckets"][h, t5_bucket(i, j)],
    ),
    # A bias by the class of a pair, as in Graphormer.
    "graph": (
        ("classes", "embedding"),
        """%class = memref.load %classes[%b, %i, %j] : memref<?x?x?xi32>
           %entry = arith.index_cast %class : i32 to index
           %x = memref.load %embedding[%entry, %h] : memref<12x?xf32>
           %r = arith.addf %s, %x : f32""",
        lambda s, b, h, i, j, c: s + c["embedding"][c["classes"][b, i, j], h],
    ),
    # Where the distance is negative, nothing is attended.
    "distance": (
        ("distances",),
        """%d = arith.subi %j, %i : index
           %x = memref.load %distances[%d] : memref<?xf32>
           %r = arith.addf %s, %x : f32""",
        lambda s, b, h, i, j, c: s + c["distances"][np.maximum(j - i, 0)],
    ),
    # Positions, and numbers computed from them, leave the arrays on all sides.
    "outside": (
        ("few", "few_pairs"),
        """%c9 = arith.constant 9 : index
           %c3 = arith.constant 3 : index
           %before = arith.subi %j, %c9 : index
           %far = arith.muli %j, %c3 : index
           %under = arith.subi %i, %c9 : index
           %x0 = memref.load %few[%before] : memref<?xf32>
           %x1 = memref.load %few[%far] : memref<?xf32>
           %x2 = memref.load %few[%under] : memref<?xf32>
           %x3 = memref.load %few[%j] : memref<?xf32>
           %x4 = memref.load %few_pairs[%i, %j] : memref<?x?xf32>
           %x5 = memref.load %few_pairs[%before, %h] : memref<?x?xf32>
           %s0 = arith.addf %s, %x0 : f32
           %s1 = arith.addf %s0, %x1 : f32
           %s2 = arith.addf %s1, %x2 : f32
           %s3 = arith.addf %s2, %x3 : f32
           %s4 = arith.addf %s3, %x4 : f32
           %r = arith.addf %s4, %x5 : f32""",
        lambda s, b, h, i, j, c: (s + read(c["few"], j - 9) + read(c["few"], 3 * j) + read(c["few"], i - 9)
                                  + read(c["few"], j) + read(c["few_pairs"], i, j)
                                  + read(c["few_pairs"], j - 9, h)),
    ),
    # A condition guards a read of an array that it does not know to be long enough.
    "outside_branch": (
        ("few",),
        """%n = arith.constant 32 : index
           %in = arith.cmpi ult, %j, %n : index
           %r = scf.if %in -> f32 {
             %x = memref.load %few[%j] : memref<?xf32>
             %y = arith.addf %s, %x : f32
             scf.yield %y : f32
           } else {
             scf.yield %s : f32
           }""",
        lambda s, b, h, i, j, c: s + np.where(j < 32, read(c["few"], j), 0),
    ),
    "branch": (
        ("table",),
        """%n = arith.constant 32 : index
           %in = arith.cmpi ult, %j, %n : index
           %r = scf.if %in -> f32 {
             %x = memref.load %table[%j] : memref<?xf32>
             %y = arith.addf %s, %x : f32
             scf.yield %y : f32
           } else {
             scf.yield %s : f32
           }""",
        lambda s, b, h, i, j, c: s + np.where(j < 32, c["table"][np.minimum(j, 31)], 0),
    ),
}

KEEPS = {
    "none": ((), "", None),
    "docs": (
        ("docs",),
        """%x = memref.load %docs[%b, %i] : memref<?x?xi32>
           %y = memref.load %docs[%b, %j] : memref<?x?xi32>
           %r = arith.cmpi eq, %x, %y : i32""",
        lambda b, h, i, j, c: c["docs"][b, i] == c["docs"][b, j],
    ),
    "lengths": (
        ("lengths",),
        """%n = memref.load %lengths[%b] : memref<?xindex>
           %r = arith.cmpi ult, %j, %n : index""",
        lambda b, h, i, j, c: j < c["lengths"][b],
    ),
    # Queries are nodes of a tree behind a prefix: each attends its ancestors,
    # itself and the prefix.
    "tree": (
        ("ancestors", "prefix"),
        """%c0 = arith.constant 0 : index
           %c32 = arith.constant 32 : index
           %one = arith.constant 1 : i32
           %p = memref.load %prefix[%c0] : memref<1xindex>
           %before = arith.cmpi slt, %j, %p : index
           %d = arith.subi %j, %p : index
           %node = arith.maxsi %d, %c0 : index
           %place = arith.divui %node, %c32 : index
           %rest = arith.remui %node, %c32 : index
           %word = memref.load %ancestors[%i, %place] : memref<?x?xi32>
           %shift = arith.index_cast %rest : index to i32
           %shifted = arith.shrui %word, %shift : i32
           %bit = arith.andi %shifted, %one : i32
           %above = arith.cmpi eq, %bit, %one : i32
           %r = arith.ori %before, %above : i1""",
        lambda b, h, i, j, c: keep_tree(i, j, c["ancestors"], c["prefix"][0]),
    ),
    # Blocks of a map.
    "blocks": (
        ("blocks",),
        """%c16 = arith.constant 16 : index
           %zero = arith.constant 0 : i8
           %x = arith.divui %i, %c16 : index
           %y = arith.divui %j, %c16 : index
           %block = memref.load %blocks[%x, %y] : memref<?x?xi8>
           %r = arith.cmpi ne, %block, %zero : i8""",
        lambda b, h, i, j, c: c["blocks"][i // 16, j // 16] != 0,
    ),
    # Masks that have names.
    "named": (
        (),
        """%c20 = arith.constant 20 : index
           %x = arith.divui %i, %c20 : index
           %y = arith.divui %j, %c20 : index
           %after = arith.cmpi ule, %x, %y : index
           %tokens = arith.cmpi slt, %i, %c20 : index
           %first = arith.cmpi slt, %j, %c20 : index
           %global = arith.ori %first, %tokens : i1
           %near = arith.addi %j, %c20 : index
           %window = arith.cmpi sge, %near, %i : index
           %either = arith.ori %global, %window : i1
           %r = arith.andi %either, %after : i1""",
        lambda b, h, i, j, c: (i // 20 <= j // 20) & ((i < 20) | (j < 20) | (j >= i - 20)),
    ),
    # A prefix whose length is read, and every other key of blocks of sixteen.
    "affine": (
        ("lengths",),
        """%n = memref.load %lengths[%b] : memref<?xindex>
           %p = arith.cmpi slt, %j, %n : index
           %c = arith.cmpi sle, %j, %i : index
           %pc = arith.ori %p, %c : i1
           %c32 = arith.constant 32 : index
           %c16 = arith.constant 16 : index
           %m = arith.remui %j, %c32 : index
           %half = arith.cmpi slt, %m, %c16 : index
           %r = arith.andi %pc, %half : i1""",
        lambda b, h, i, j, c: ((j < c["lengths"][b]) | (j <= i)) & (j % 32 < 16),
    ),
    # A window whose sides are read.
    "window": (
        ("window",),
        """%c0 = arith.constant 0 : index
           %c1 = arith.constant 1 : index
           %left = memref.load %window[%c0] : memref<2xindex>
           %right = memref.load %window[%c1] : memref<2xindex>
           %first = arith.subi %i, %left : index
           %last = arith.addi %i, %right : index
           %after = arith.cmpi sge, %j, %first : index
           %before = arith.cmpi sle, %j, %last : index
           %r = arith.andi %after, %before : i1""",
        lambda b, h, i, j, c: (j >= i - c["window"][0]) & (j <= i + c["window"][1]),
    ),
    # Lengths of half of the batch entries, and documents of one for half of the keys.
    "outside": (
        ("few_lengths", "few_docs"),
        """%n = memref.load %few_lengths[%b] : memref<?xindex>
           %short = arith.cmpi sle, %j, %n : index
           %x = memref.load %few_docs[%b, %i] : memref<?x?xi32>
           %y = memref.load %few_docs[%b, %j] : memref<?x?xi32>
           %same = arith.cmpi eq, %x, %y : i32
           %r = arith.andi %short, %same : i1""",
        lambda b, h, i, j, c: ((j <= read(c["few_lengths"], b))
                               & (read(c["few_docs"], b, i) == read(c["few_docs"], b, j))),
    ),
    "outside_lengths": (
        ("few_lengths",),
        """%n = memref.load %few_lengths[%b] : memref<?xindex>
           %r = arith.cmpi sle, %j, %n : index""",
        lambda b, h, i, j, c: j <= read(c["few_lengths"], b),
    ),
    "wide": (
        ("wide_runs",),
        """%x = memref.load %wide_runs[%b, %i] : memref<?x?xi64>
           %y = memref.load %wide_runs[%b, %j] : memref<?x?xi64>
           %r = arith.cmpi sle, %x, %y : i64""",
        lambda b, h, i, j, c: c["wide_runs"][b, i] <= c["wide_runs"][b, j],
    ),
}


def make_random_keep(seed):
    """A mask_mod region of integer operations on elements that it reads and on positions, which may wrap around."""
    rng = np.random.default_rng(seed)
    lines = [
        "%x0 = memref.load %runs[%b, %i] : memref<?x?xi32>",
        "%x1 = memref.load %runs[%b, %j] : memref<?x?xi32>",
        "%x2 = arith.index_cast %i : index to i32",
        "%x3 = arith.index_cast %j : index to i32",
    ]
    integers = [
        lambda b, h, i, j, c: c["runs"][b, i],
        lambda b, h, i, j, c: c["runs"][b, j],
        lambda b, h, i, j, c: i.astype(np.int32),
        lambda b, h, i, j, c: j.astype(np.int32),
    ]
    booleans = []

    def emit(pool, letter, text, apply, *operands):
        pool.append(lambda *at: apply(*(operand(*at) for operand in operands)))
        lines.append(f"%{letter}{len(pool) - 1} = {text}")

    def quotient(divisor):
        return lambda x: (np.sign(x).astype(np.int64) * (np.abs(x.astype(np.int64)) // divisor)).astype(np.int32)

    unsigned = {"ult": np.less, "ule": np.less_equal, "ugt": np.greater, "uge": np.greater_equal}
    compare = {"eq": np.equal, "ne": np.not_equal, "slt": np.less, "sle": np.less_equal, "sgt": np.greater, "sge": np.greater_equal}
    binary = {"addi": np.add, "subi": np.subtract, "muli": np.multiply, "minsi": np.minimum, "maxsi": np.maximum}
    logic = {"andi": np.logical_and, "ori": np.logical_or, "xori": np.logical_xor}

    def pick(pool):
        number = int(rng.integers(len(pool)))
        return number, pool[number]

    for step in range(6):
        (m, x), (n, y) = pick(integers), pick(integers)
        kind = rng.choice([*binary, "absi", "divsi", "floordivsi", "select"])
        if kind in binary:
            emit(integers, "x", f"arith.{kind} %x{m}, %x{n} : i32", binary[kind], x, y)
        elif kind == "absi":
            emit(integers, "x", f"math.absi %x{m} : i32", np.abs, x)
        elif kind == "select" and booleans:
            k, condition = pick(booleans)
            emit(integers, "x", f"arith.select %c{k}, %x{m}, %x{n} : i32", np.where, condition, x, y)
        elif kind.endswith("divsi"):
            divisor = int(rng.integers(1, 40))
            lines.append(f"%d{step} = arith.constant {divisor} : i32")
            apply = quotient(divisor) if kind == "divsi" else lambda x, d=divisor: x // np.int32(d)
            emit(integers, "x", f"arith.{kind} %x{m}, %d{step} : i32", apply, x)
        (m, x), (n, y) = pick(integers), pick(integers)
        kind = rng.choice([*compare, *unsigned])
        if kind in unsigned:
            apply = lambda x, y, f=unsigned[kind]: f(x.astype(np.uint32), y.astype(np.uint32))  # noqa: E731
        else:
            apply = compare[kind]
        emit(booleans, "c", f"arith.cmpi {kind}, %x{m}, %x{n} : i32", apply, x, y)
        if len(booleans) > 1:
            (m, x), (n, y) = (len(booleans) - 1, booleans[-1]), pick(booleans)
            kind = rng.choice([*logic, "select"])
            if kind == "select":
                k, z = pick(booleans)
                emit(booleans, "c", f"arith.select %c{m}, %c{n}, %c{k} : i1", np.where, x, y, z)
            else:
                emit(booleans, "c", f"arith.{kind} %c{m}, %c{n} : i1", logic[kind], x, y)
    lines.append(f"%r = arith.andi %c{len(booleans) - 1}, %c{len(booleans) - 1} : i1")
    return ("runs",), "\n".join(lines), booleans[-1]


NUM_RANDOM_KEEPS = 16
KEEPS.update({f"random{seed}": make_random_keep(seed) for seed in range(NUM_RANDOM_KEEPS)})


class Variant:
    # What a variant draws depends on its own attributes; most have no epilogue, and as many value heads as key heads.
    gate = False
    hv = None

    def __init__(self, dtype, d, dv=None, hq=2, hkv=2, mask="none", score="none",
                 keep="none", out=None, layout="bhsd", scale=None, tile=(32, 64), sinks=None,
                 dropout=None, head_map=None, bits=None, packed=None, data=None, identity=None,
                 has_lse=True, split=0, pack=False, gate=False, hv=None):
        self.dtype, self.d, self.dv, self.hq, self.hkv = dtype, d, dv or d, hq, hkv
        self.mask, self.score, self.keep = mask, score, keep
        self.out, self.layout, self.tile, self.sinks = out or dtype, layout, tile, sinks
        self.scale_given, self.scale = scale, scale if scale is not None else d**-0.5
        self.dropout, self.head_map = dropout, head_map
        # The layout of keep masks that an operation of their own makes, or that are given.
        self.bits, self.packed = bits, packed
        # Without tiles, the compiler chooses the schedule.
        # The number of splits, and whether query heads of a group fill the rows of a tile: there is one query for each
        # of them then.
        self.split, self.pack = split, pack
        # `data` names a mask that takes the place of `mask`.
        self.data = data
        # The element type of the identity's weight for each head.
        self.identity, self.has_lse = identity, has_lse
        # Whether an epilogue multiplies the output by a number that depends on its position.
        if gate:
            self.gate = gate
        if hv:
            self.hv = hv
        self.captures = list(dict.fromkeys(SCORES[score][0] + KEEPS[keep][0] + (("slopes",) if gate else ())))

    def __str__(self):
        return " ".join(f"{k}={v}" for k, v in vars(self).items())

    @property
    def value_heads(self):
        return self.hv or self.hkv

    def memref(self, heads, dim, dtype):
        strides = {
            "bhsd": "",
            "bshd": ", strided<[?, ?, ?, 1]>",
            "bhds": ", strided<[?, ?, ?, ?]>",
        }[self.layout]
        length = "1" if self.pack and heads == self.hq else "?"
        return f"memref<?x{heads}x{length}x{dim}x{dtype}{strides}>"

    def array(self, b, heads, s, dim, make):
        """An array of shape [b, heads, s, dim], stored as the layout says."""
        order = {"bhsd": (0, 1, 2, 3), "bshd": (0, 2, 1, 3), "bhds": (0, 1, 3, 2)}[self.layout]
        shape = (b, heads, s, dim)
        stored = make(tuple(shape[o] for o in order))
        return stored.transpose(np.argsort(order))

    def dropout_text(self):
        """Parameters, an operation before the attention, and the clause of it."""
        words = f"memref<?x{self.hq}x?x?xi32>"
        layout = self.bits or self.packed
        clause = f"dropout_mask {layout}(%bits : {words}) p({1 - self.keep_probability()})"
        if self.packed:
            return f", %bits: {words}", "", clause
        if not self.dropout:
            return "", "", ""
        parameters = ", %seed: memref<i64>, %offset: memref<i64>"
        state = f"{self.dropout}, %seed, %offset : memref<i64>, memref<i64>"
        if not self.bits:
            return parameters, "", f"dropout({state})"
        before = f"""attn.dropout_mask {layout} by({state}) outs(%bits : {words})
              schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)"""
        return parameters + f", %bits: {words}", before, clause

    def keep_probability(self):
        return self.dropout.keep_probability if self.dropout else 0.75

    def generate_keep_mask(self, shape, rng):
        """Arrays for the parameters of dropout, the pairs that are kept, and the words that must be in the last array
        afterwards; or nothing and none."""
        if not self.dropout and not self.packed:
            return [], None, None
        where = np.ogrid[: shape.b, : self.hq, : shape.sq, : shape.skv]
        if self.packed:
            kept = rng.random((shape.b, self.hq, shape.sq, shape.skv)) < self.keep_probability()
            return [pack(kept, self.packed)], kept, None
        state = [int(x) for x in rng.integers(-(2**63), 2**63, 2)]
        kept = self.dropout.keep(*state, *where)
        arrays = [np.array(x, np.int64) for x in state]
        if not self.bits:
            return arrays, kept, None
        # Whole blocks of 64 by 64 pairs are decided.
        where = np.ogrid[: shape.b, : self.hq, : -(-shape.sq // 64) * 64, : -(-shape.skv // 64) * 64]
        words = pack(self.dropout.keep(*state, *where), self.bits)
        return [*arrays, np.full_like(words, 7)], kept, words

    def mask_text(self):
        """Parameters that the mask reads, and the mask."""
        if not self.data:
            return "", MASKS[self.mask][0]
        mask = DATA_MASKS[self.data]
        types = mask.types(self.hq, "memref")
        names = [f"%read{n}" for n in range(len(types))]
        parameters = "".join(f", {name}: {type}" for name, type in zip(names, types))
        return parameters, f"mask({mask.text}) reads({', '.join(names)} : {', '.join(types)})"

    def make_reads(self, shape, rng):
        """What the mask reads."""
        if not self.data:
            return ()
        return [np.ascontiguousarray(x, np.int32) for x in DATA_MASKS[self.data].make(shape, rng)]

    def keeps(self, b, h, i, j, lengths, captures, reads):
        """Which pairs the masks keep."""
        keep = MASKS[self.mask][1](i, j, *lengths)
        if self.keep != "none":
            keep = keep & KEEPS[self.keep][2](b, h, i, j, captures)
        if self.data:
            keep = keep & DATA_MASKS[self.data].keep(b, h, i, j, *lengths, reads)
        return keep

    def module(self):
        q = self.memref(self.hq, self.d, self.dtype)
        k = self.memref(self.hkv, self.d, self.dtype)
        v = self.memref(self.value_heads, self.dv, self.dtype)
        o = self.memref(self.hq, self.dv, self.out)
        lse = f"memref<?x{self.hq}x{'1' if self.pack else '?'}xf32>"
        captures = "".join(f", %{c}: {CAPTURES[c][0]}" for c in self.captures)
        scale = "" if self.scale_given is None else f"scale({self.scale:e})"
        sinks = ""
        if self.sinks:
            sinks = f"memref<{self.hq}x{self.sinks}>"
            captures += f", %sinks: {sinks}"
            sinks = f"sinks(%sinks : {sinks})"
        if self.head_map:
            captures += f", %map: memref<{self.hq}xi32>"
            sinks += f" heads(%map : memref<{self.hq}xi32>)"
        if self.identity:
            captures += f", %identity: memref<{self.hq}x{self.identity}>"
            sinks += f" identity(%identity : memref<{self.hq}x{self.identity}>)"
        parameters, before, dropout = self.dropout_text()
        captures += parameters
        parameters, mask = self.mask_text()
        captures += parameters
        regions = ""
        if self.score != "none":
            regions += f"""score_mod {{
          ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
            {SCORES[self.score][1]}
            attn.yield %r : f32
          }}"""
        if self.keep != "none":
            regions += f""" mask_mod {{
          ^bb0(%b: index, %h: index, %i: index, %j: index):
            {KEEPS[self.keep][1]}
            attn.yield %r : i1
          }}"""
        if self.gate:
            regions += """ epilogue {
          ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
            %slope = memref.load %slopes[%h] : memref<?xf32>
            %id = arith.addi %i, %d : index
            %w = arith.index_cast %id : index to i32
            %f = arith.sitofp %w : i32 to f32
            %gate = arith.addf %slope, %f : f32
            %y = arith.mulf %x, %gate : f32
            attn.yield %y : f32
          }"""
        outs = f"%o, %lse : {o}, {lse}" if self.has_lse else f"%o : {o}"
        schedule = ""
        if self.tile:
            schedule = f"""schedule(#attn_tile.sequential<query_tile = {self.tile[0]}, key_tile = {self.tile[1]},
                  split_kv_work_items = {self.split}, pack_gqa = {str(self.pack).lower()}>)"""
        return f"""func.func @run(%q: {q}, %k: {k}, %v: {v}, %o: {o}, %lse: {lse}{captures}) {{
          {before}
          attn.attention ins(%q, %k, %v : {q}, {k}, {v}) outs({outs})
              {sinks} {scale} {mask} {dropout} {schedule}
              {regions}
          return
        }}"""


VARIANTS = [
    Variant("f32", 64),
    Variant("f32", 8, mask="causal", tile=(16, 40)),
    Variant("f32", 128, hq=4, hkv=1, mask="causal"),
    Variant("f32", 72, dv=40, mask="causal_top_left", layout="bshd"),
    Variant("f32", 16, mask="window", tile=(1, 8)),
    Variant("f32", 256, mask="window_both", tile=(32, 32)),
    Variant("f32", 40, mask="window_left", layout="bhds"),
    Variant("f32", 32, mask="window_self"),
    Variant("f32", 64, mask="prefix_lm", tile=(16, 32)),
    Variant("f32", 32, mask="dilated"),
    Variant("f32", 64, mask="block_diagonal", tile=(16, 16)),
    Variant("f32", 32, mask="block_causal", tile=(32, 48)),
    Variant("f32", 32, mask="local_blocks"),
    Variant("f32", 64, mask="chunked", tile=(8, 24)),
    Variant("f32", 64, mask="global_window", tile=(16, 8)),
    Variant("f32", 32, mask="not_window", tile=(16, 16)),
    Variant("f32", 32, mask="blocks_before", tile=(16, 16)),
    Variant("f32", 32, mask="nothing"),
    Variant("f32", 32, mask="not_or", tile=(16, 16)),
    Variant("f32", 32, keep="named", tile=(16, 16)),
    Variant("f32", 64, mask="global_window", keep="docs"),
    Variant("f32", 64, keep="affine", tile=(16, 16)),
    Variant("f32", 64, score="alibi", mask="causal", hq=4, hkv=2),
    Variant("f32", 64, score="softcap", scale=0.3),
    Variant("f32", 40, score="powers", tile=None),
    Variant("f32", 32, score="bias", mask="causal"),
    Variant("f32", 32, score="table"),
    Variant("f32", 32, mask="upper", score="distance"),
    Variant("f32", 64, score="qk_norm", mask="causal", hq=4, hkv=2),
    Variant("bf16", 80, score="qk_norm", hq=4, hkv=2),
    Variant("f32", 32, score="branch", mask="causal"),
    Variant("f32", 32, score="outside", tile=(16, 32)),
    Variant("bf16", 64, score="outside", mask="causal", hq=4, hkv=2, tile=None),
    Variant("f32", 16, score="outside_branch", keep="outside_lengths", tile=(16, 24)),
    Variant("f32", 16, keep="outside", tile=(16, 16)),
    Variant("f16", 32, score="outside", keep="outside", tile=(8, 64)),
    Variant("f32", 64, keep="tree", tile=(16, 16)),
    Variant("f32", 32, keep="blocks", tile=(16, 32)),
    Variant("f32", 64, keep="blocks", mask="causal", tile=(32, 64)),
    Variant("f32", 64, keep="docs"),
    Variant("f32", 64, keep="docs", mask="causal", score="alibi", layout="bshd"),
    Variant("f32", 64, keep="lengths", tile=(7, 24)),
    Variant("f32", 16, keep="wide", tile=(8, 16)),
    Variant("f32", 16, keep="window", tile=(8, 16)),
    Variant("bf16", 64, keep="window", mask="causal", score="temperature", hq=4, hkv=2),
    Variant("f32", 32, score="temperature"),
    Variant("f32", 32, score="t5", mask="causal"),
    Variant("bf16", 64, score="t5", hq=4, hkv=2),
    Variant("f32", 32, score="graph"),
    Variant("f16", 64, score="graph", hq=4, hkv=2, layout="bshd"),
    Variant("f32", 64, scale=-0.2),
    Variant("bf16", 128, mask="causal", hq=4, hkv=2),
    Variant("bf16", 64, layout="bshd"),
    Variant("bf16", 192, dv=128, mask="causal", out="f32"),
    Variant("bf16", 80, score="bias", mask="window", tile=(16, 128)),
    Variant("bf16", 64, keep="lengths", score="softcap"),
    Variant("f16", 64, mask="causal", layout="bshd"),
    Variant("f16", 104, dv=24, mask="window_both"),
    Variant("f16", 64, score="alibi", keep="docs", hq=6, hkv=2),
    Variant("f32", 64, mask="causal", hq=4, hkv=2, sinks="f32"),
    Variant("f32", 32, mask="window_both", scale=-0.2, sinks="bf16"),
    Variant("f32", 32, score="softcap", keep="lengths", sinks="f32", tile=(7, 24)),
    Variant("bf16", 64, mask="causal", hq=6, hkv=2, sinks="bf16"),
    Variant("f16", 64, scale=1e-12, sinks="f16"),
    # Groups of 1, 0 and 4 heads, not in order; fewer and more heads than keys have.
    Variant("f32", 64, mask="causal", hq=5, hkv=3, head_map=[2, 2, 0, 2, 2]),
    Variant("bf16", 64, hq=2, hkv=6, head_map=[5, 1], sinks="f32", layout="bshd"),
    Variant("f32", 64, mask="causal", hq=4, hkv=2, identity="f32"),
    Variant("f32", 32, mask="causal", identity="f32", has_lse=False, sinks="f32"),
    Variant("bf16", 64, dv=40, hq=6, hkv=3, mask="window", identity="f16", layout="bshd", out="f32"),
    Variant("f16", 32, hq=5, hkv=3, head_map=[2, 2, 0, 2, 2], identity="bf16", has_lse=False, keep="docs"),
    Variant("f32", 32, mask="nothing", identity="f32"),
    Variant("f32", 32, data="documents", tile=(16, 32), identity="f32", has_lse=False,
            dropout=Dropout(0.125, "arx", 6)),
    Variant("f32", 32, data="documents", tile=(16, 32)),
    Variant("f32", 16, data="packed_documents", keep="affine", tile=(16, 16)),
    Variant("bf16", 64, data="causal_packed_documents", hq=4, hkv=2),
    Variant("f32", 32, data="tree", tile=(16, 16)),
    Variant("f16", 64, data="shared_tree", score="alibi", tile=(16, 64)),
    Variant("f32", 16, data="blocks16", tile=(16, 32)),
    # Tiles that are no multiple of a block, and no whole number of them.
    Variant("f32", 16, data="blocks16", tile=(40, 24), sinks="f32"),
    Variant("f32", 32, data="causal_blocks", tile=(32, 64)),
    Variant("f32", 16, data="blocks_or_first", keep="docs", tile=(16, 16)),
    *(Variant("f32", 16, keep=f"random{seed}", tile=(8, 8)) for seed in range(NUM_RANDOM_KEEPS)),
    # Split-KV, with one split and with more splits than there are tiles.
    Variant("f32", 64, split=3, tile=(16, 16)),
    Variant("f32", 40, dv=24, mask="causal", split=60, tile=(16, 16), layout="bshd"),
    Variant("bf16", 64, hq=4, hkv=2, mask="window", split=1000, tile=(32, 8)),
    Variant("f16", 32, mask="nothing", split=7, out="f32"),
    Variant("f32", 32, keep="docs", mask="causal", split=40, tile=(16, 16)),
    Variant("f32", 32, score="alibi", keep="lengths", split=40, tile=(16, 16), sinks="f32"),
    Variant("f32", 32, mask="window", split=60, tile=(16, 16), sinks="f32"),
    Variant("f32", 32, mask="nothing", split=7, tile=(16, 16), sinks="f32"),
    Variant("f32", 32, split=50, tile=(16, 16), dropout=Dropout(0.125, "philox", 7)),
    Variant("bf16", 64, hq=5, hkv=3, head_map=[2, 2, 0, 2, 2], split=30, tile=(16, 16)),
    # Heads of one query as rows of a tile.
    Variant("f32", 64, hq=8, hkv=2, pack=True, tile=(16, 32)),
    Variant("f32", 32, hq=6, hkv=2, pack=True, mask="causal", score="alibi", split=9, tile=(16, 16), layout="bshd"),
    Variant("f16", 64, hq=4, hkv=1, pack=True, mask="window", split=100, tile=(16, 16), layout="bhds"),
    Variant("f32", 32, hq=4, hkv=2, pack=True, score="qk_norm", keep="lengths", split=12, tile=(16, 16)),
    Variant("bf16", 80, dv=40, hq=40, hkv=2, pack=True, mask="prefix_lm", split=40, tile=(16, 24)),
    Variant("f32", 32, hq=4, hkv=2, pack=True, keep="docs", split=20, tile=(16, 16)),
    # Tiles of one row, and large ones.
    Variant("f32", 64, mask="causal", tile=(1, 256)),
    Variant("bf16", 48, hq=4, hkv=2, tile=(1, 16), pack=True),
    Variant("f32", 64, mask="causal", tile=(128, 128)),
    Variant("bf16", 128, hq=4, hkv=2, mask="window", tile=(256, 64)),
    # What is chosen for any number of queries, and for one.
    Variant("f32", 64, tile=None),
    Variant("bf16", 128, hq=4, hkv=2, mask="causal", tile=None, layout="bshd"),
    Variant("f16", 40, dv=24, mask="window_both", score="alibi", tile=None),
    Variant("f32", 256, mask="causal", sinks="f32", tile=None),
    Variant("f32", 520, dv=8, keep="docs", tile=None),
    Variant("bf16", 320, mask="causal", tile=None),
    Variant("f32", 512, score="alibi", tile=(16, 16)),
    Variant("bf16", 576, dv=512, hq=4, hkv=1, mask="window", tile=None),
    Variant("f32", 32, data="documents", tile=None),
    Variant("f32", 64, mask="causal", dropout=Dropout(0.125, "philox", 7), tile=None),
    Variant("f32", 64, hq=8, hkv=2, pack=True, tile=None),
    Variant("bf16", 80, dv=40, hq=6, hkv=2, pack=True, mask="prefix_lm", score="alibi", tile=None),
    Variant("f16", 64, hq=3, hkv=1, pack=True, keep="lengths", tile=None),
    Variant("f32", 32, hq=4, pack=True, dropout=Dropout(0.125, "arx", 6), tile=None),
    Variant("f32", 32, dropout=Dropout(0.125, "philox", 7)),
    Variant("f32", 64, mask="causal", dropout=Dropout(0.1, "philox", 10), tile=(16, 80)),
    Variant("f32", 32, hq=4, dropout=Dropout(0.625, "threefry", 20, bits=4)),
    Variant("f32", 16, mask="window", dropout=Dropout(0.03, "arx", 6, bits=16), tile=(64, 16)),
    Variant("bf16", 64, hq=4, hkv=2, mask="causal", score="alibi", dropout=Dropout(0.125, "arx", 6)),
    Variant("f16", 40, dv=24, keep="docs", layout="bshd", dropout=Dropout(0.9, "threefry", 12)),
    Variant("f32", 32, hq=4, mask="causal", dropout=Dropout(0.125, "philox", 7), bits="rows"),
    Variant("f32", 16, tile=(16, 80), dropout=Dropout(0.1, "arx", 6), bits="columns"),
    Variant("bf16", 64, hq=4, hkv=2, score="alibi", keep="docs", packed="rows"),
    Variant("f32", 32, mask="window", packed="columns", sinks="f32"),
    # Other numbers of value heads than of key heads.
    Variant("f32", 32, hq=12, hkv=12, hv=4, mask="causal"),
    Variant("bf16", 32, hq=12, hkv=4, hv=12, mask="window", layout="bshd"),
    Variant("f32", 40, dv=24, hq=12, hkv=3, hv=6, score="alibi", keep="docs"),
    Variant("f16", 32, hq=12, hkv=6, hv=3, mask="causal", dropout=Dropout(0.125, "arx", 6)),
    Variant("f32", 32, hq=12, hkv=1, hv=12, split=40, tile=(16, 16)),
    Variant("f32", 32, hq=12, hkv=12, hv=1, sinks="f32", tile=None),
    Variant("f32", 32, hq=12, hkv=4, hv=6, identity="f32"),
    Variant("f32", 32, hq=12, hkv=6, hv=3, pack=True, mask="causal", tile=(16, 16)),
    Variant("bf16", 64, hq=12, hkv=1, hv=4, pack=True, score="alibi", split=9, tile=(16, 16)),
    Variant("f32", 32, hq=12, hkv=2, hv=6, pack=True, keep="lengths", tile=None),
    # Epilogues, which the combination of the splits applies.
    Variant("f32", 32, hq=4, hkv=2, mask="causal", gate=True, tile=(16, 16)),
    Variant("bf16", 40, dv=24, mask="causal", split=60, gate=True, tile=(16, 16), layout="bshd"),
    Variant("f32", 32, hq=6, hkv=2, pack=True, score="alibi", split=9, gate=True, tile=(16, 16), out="f32"),
    Variant("f16", 64, hq=4, hkv=1, pack=True, mask="window", gate=True, tile=(16, 16)),
]


class Shape:
    def __init__(self, variant, b, sq, skv):
        self.b, self.sq, self.skv, self.hq = b, sq, skv, variant.hq


LENGTHS = [1, 2, 31, 64, 65, 127, 128, 129, 200]


def make_shapes(variant, rng, count):
    fixed = [(1, 1, 1), (2, 127, 129), (1, 129, 127), (1, 1, 257), (2, 65, 1)]
    fixed += [
        (int(rng.integers(1, 4)), int(rng.choice(LENGTHS)), int(rng.choice(LENGTHS)))
        for _ in range(count - len(fixed))
    ]
    return [Shape(variant, b, 1 if variant.pack else sq, skv) for b, sq, skv in fixed]


# ===----------------------------------------------------------------------===#
# Compiling and running
# ===----------------------------------------------------------------------===#

PIPELINE = (
    "builtin.module(func.func(llvm-request-c-wrappers),math-expand-ops{ops=fpowi},"
    "attn-expand-masks,attn-simplify-masks,"
    "func.func(attn-choose-schedule{target=host},attn-dispatch-schedules),"
    "convert-attn-to-attn-tile,"
    "attn_tile.kernel(attn-tile-peel-masks),"
    "attn-host-lowering-pipeline{vector-bits=256 num-registers=16})"
)


# LLVM optimizes one of so many variants, always the same ones: that takes half of the time of a variant, and finds only
# wrong flags of operations.
OPTIMIZED_EVERY = 4


def compile_variant(variant, path, args):
    text = variant.module()
    level = "-O0" if zlib.crc32(text.encode()) % OPTIMIZED_EVERY else "-O1"
    with open(path + ".mlir", "w") as file:
        file.write(text)
    run_tool(["attn-opt", path + ".mlir", f"--pass-pipeline={PIPELINE}",
              "-o", path + ".llvm.mlir"])
    run_tool(["mlir-translate", "--mlir-to-llvmir", path + ".llvm.mlir",
              "-o", path + ".ll"])
    run_tool([args.cc, level, "-march=native", "-shared", "-fPIC",
              "-Wno-override-module", path + ".ll", "-o", path + ".so",
              "-L" + args.library, "-lattn_runtime", "-lm",
              "-Wl,-rpath," + args.library])
    return ctypes.CDLL(path + ".so")


def descriptor(array):
    rank = array.ndim

    class Descriptor(ctypes.Structure):
        _fields_ = [
            ("allocated", ctypes.c_void_p),
            ("aligned", ctypes.c_void_p),
            ("offset", ctypes.c_int64),
            ("sizes", ctypes.c_int64 * rank),
            ("strides", ctypes.c_int64 * rank),
        ]

    strides = [stride // array.itemsize for stride in array.strides]
    return Descriptor(array.ctypes.data, array.ctypes.data, 0,
                      (ctypes.c_int64 * rank)(*array.shape),
                      (ctypes.c_int64 * rank)(*strides))


def attention(variant, q, k, v, captures, step, sinks=None, kept=None, reads=(), identity=None):
    """Attention on arrays; `step` rounds after each operation. `kept` says which
    weights dropout keeps. Gives the output and the log-sum-exp."""
    if variant.head_map:
        k, v = k[:, variant.head_map], v[:, variant.head_map]
    else:
        k, v = (np.repeat(x, variant.hq // x.shape[1], 1) for x in (k, v))
    b, h, i, j = np.ogrid[: q.shape[0], : q.shape[1], : q.shape[2], : k.shape[2]]
    s = step(step(q @ k.transpose(0, 1, 3, 2)) * variant.scale)
    if variant.score != "none":
        s = step(SCORES[variant.score][2](s, b, h, i, j, captures))
    keep = variant.keeps(b, h, i, j, (q.shape[2], k.shape[2]), captures, reads)
    s = np.where(keep, s, -np.inf)
    m = s.max(-1, keepdims=True)
    sink = np.full(variant.hq, -np.inf) if sinks is None else sinks
    sink = sink.reshape(1, -1, 1, 1)
    m = np.maximum(m, sink)
    m = np.where(np.isneginf(m), 0, m)
    p = np.exp(s - m)
    total = p.sum(-1, keepdims=True) + np.exp(sink - m)
    with np.errstate(divide="ignore"):
        lse = (m + np.log(total))[..., 0]
    p = step(p / np.where(total == 0, 1, total))
    if kept is not None:
        p = step(np.where(kept, p / variant.keep_probability(), 0))
    if identity is not None:
        weights = identity.reshape(1, -1, 1, 1)
        p = step((1 - weights) * p + weights * (j == i + k.shape[2] - q.shape[2]))
    out = step(p @ v)
    if variant.gate:
        out = step(out * (captures["slopes"].reshape(1, -1, 1, 1) + i + np.arange(variant.dv)))
    return out, lse


def run(variant, library, runtime, shape, rng, bad_map=None, bad_reads=None):
    """Returns a message if the results are wrong, or with `bad_map`, a map of
    heads, or with `bad_reads`, what the mask reads, if no fault is reported."""
    names = {"q": (variant.hq, shape.sq, variant.d), "k": (variant.hkv, shape.skv, variant.d),
             "v": (variant.value_heads, shape.skv, variant.dv)}
    inputs = {
        name: variant.array(shape.b, heads, length, dim,
                            lambda s: to_memory(rng.standard_normal(s), variant.dtype))
        for name, (heads, length, dim) in names.items()
    }
    element = {"bf16": np.uint16, "f16": np.float16, "f32": np.float32}[variant.out]
    out = variant.array(shape.b, variant.hq, shape.sq, variant.dv,
                        lambda s: np.full(s, 7, element))
    lse = np.full((shape.b, variant.hq, shape.sq), 7, np.float32)
    captures = {}
    for name in variant.captures:
        _, numpy_type, make = CAPTURES[name]
        captures[name] = np.ascontiguousarray(make(shape, rng), numpy_type)
    arrays = [*inputs.values(), out, lse, *(captures[c] for c in variant.captures)]
    sinks = None
    if variant.sinks:
        # Scores are about as large; one head has none.
        sinks = rng.standard_normal(variant.hq) * 2
        sinks[-1] = -np.inf
        arrays.append(to_memory(sinks, variant.sinks))
        sinks = from_memory(arrays[-1], variant.sinks).astype(F64)
    if variant.head_map:
        arrays.append(np.array(bad_map or variant.head_map, np.int32))
    identity = None
    if variant.identity:
        identity = rng.random(variant.hq)
        identity[0], identity[-1] = 1, 0
        arrays.append(to_memory(identity, variant.identity))
        identity = from_memory(arrays[-1], variant.identity).astype(F64)
    reads = variant.make_reads(shape, rng)
    keep_mask, kept, words = variant.generate_keep_mask(shape, rng)
    arrays += [*keep_mask, *(bad_reads or reads)]
    descriptors = [descriptor(array) for array in arrays]
    library._mlir_ciface_run(*(ctypes.byref(d) for d in descriptors))
    fault = runtime.attnrtTakeFault(0)
    is_bad = bad_map is not None or bad_reads is not None
    if fault != (1 if is_bad else 0) or runtime.attnrtTakeFault(0) != 0:
        return f"status {fault} is reported"
    if is_bad:
        return None

    values = [from_memory(x, variant.dtype) for x in inputs.values()]
    exact, exact_lse = attention(variant, *(x.astype(F64) for x in values), captures, lambda x: x,
                                 sinks, kept, reads, identity)
    with np.errstate(invalid="ignore"):
        rounded, _ = attention(variant, *values, captures,
                               lambda x: round_to(x, variant.dtype), sinks, kept, reads, identity)
    if words is not None and (keep_mask[-1] != words).any():
        return f"{(keep_mask[-1] != words).sum()} of {words.size} words of keep masks are wrong"
    result = from_memory(out, variant.out).astype(F64)
    if not np.isfinite(result).all():
        return "output is not finite"
    allowed = (2 * np.abs(rounded - exact).max()
               + EPSILON[variant.out] * np.abs(exact).max() + 1e-6)
    error = np.abs(result - exact).max()
    if error > allowed:
        return f"output: error {error:.3g}, allowed {allowed:.3g}"
    if not variant.has_lse:
        return None if (lse == 7).all() else "lse is written"
    empty = np.isneginf(exact_lse)
    if (np.isneginf(lse) != empty).any():
        return "lse: -inf in the wrong places"
    if identity is None and (result[empty] != 0).any():
        return "output of a row with nothing to attend is not 0"
    error = np.abs(np.where(empty, 0, lse) - np.where(empty, 0, exact_lse))
    if (error > 4e-6 + 2e-6 * np.abs(np.where(empty, 0, exact_lse))).any():
        return f"lse: error {error.max():.3g}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", required=True, help="clang")
    parser.add_argument("--library", required=True, help="folder of libattn_runtime")
    parser.add_argument("--work", required=True, help="folder for what is compiled")
    parser.add_argument("--shapes", type=int, default=10, help="shapes of each variant")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)

    paths = [os.path.join(args.work, f"variant{n}") for n in range(len(VARIANTS))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        libraries = list(pool.map(lambda x: compile_variant(*x, args), zip(VARIANTS, paths)))
    runtime = ctypes.CDLL(os.path.join(args.library, "libattn_runtime.so"))
    cases = failures = 0
    for variant, library in zip(VARIANTS, libraries):
        # What one variant draws does not depend on the others.
        rng = np.random.default_rng([args.seed, *str(variant).encode()])
        faults = [{}]
        if variant.head_map:
            # The first and the last head leave the keys, on either side.
            faults += [{"bad_map": [-1] + variant.head_map[1:]},
                       {"bad_map": variant.head_map[:-1] + [variant.hkv]}]
        for shape in make_shapes(variant, rng, args.shapes):
            spoilt = []
            if variant.data:
                mask = DATA_MASKS[variant.data]
                spoilt = [{"bad_reads": [np.ascontiguousarray(y, np.int32) for y in x]}
                          for x in mask.spoil(shape, rng, mask.make(shape, rng))]
            for fault in faults + spoilt:
                cases += 1
                message = run(variant, library, runtime, shape, rng, **fault)
                if message:
                    failures += 1
                    print(f"{variant}\n  b={shape.b} sq={shape.sq} skv={shape.skv}, {fault}: {message}")
    print(f"{cases} cases, {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
