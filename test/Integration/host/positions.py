# ===- positions.py - Shards of attention on the host -----------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Attention of each shard of queries, keys, batch entries and heads by one kernel that reads `positions`, merged by
# attn.merge, against the formula of the whole attention in f64. The gradients of shards, added up, are compared with
# the gradients of the whole. Tiles of keys that no query of a shard attends hold NaN, so they must not be visited. Keep
# masks of shards are equal, bit for bit, to the keep mask of the whole. Shards at which no word of a keep mask begins
# are reported.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --work %t --runtime %attn_libs_dir/libattn_runtime%shlibext

import argparse
import ctypes
import itertools
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python"))

from attn.artifact import DTYPES, Artifact, TensorView  # noqa: E402
from dropout_reference import Dropout, pack  # noqa: E402
from tool_cache import run_tool  # noqa: E402

BATCH, HEADS, KEY_HEADS, QUERIES, KEYS, DIM = 2, 4, 2, 160, 224, 32
SEED, OFFSET = 0x123456789ABCDEF, 77
QUERY_TILE, KEY_TILE = 16, 32
NAMES = {np.dtype(np.float32): "f32", np.dtype(np.int32): "i32", np.dtype(np.int64): "i64"}

# Where shards begin and end. Words of keep masks begin at multiples of 16.
ANYWHERE = {"queries": [0, 37, 101, QUERIES], "keys": [0, 50, 133, KEYS]}
AT_WORDS = {"queries": [0, 48, 112, QUERIES], "keys": [0, 64, 160, KEYS]}
WHOLE = {"batch": [0, BATCH], "heads": [0, KEY_HEADS]}
SPLIT = {"batch": [0, 1, BATCH], "heads": [0, 1, KEY_HEADS]}


class Variant:
    """`attended` and `score` are functions of arrays of global positions; `score_mod` makes %r of %s."""

    def __init__(self, name, mask="", attended=None, mask_mod="", score_mod="", score_grad="", score=None, factor=None,
                 dropout=None, cuts=ANYWHERE, others=WHOLE, has_bias=False, lists_tiles=False):
        self.name, self.mask, self.mask_mod, self.score_mod = name, mask, mask_mod, score_mod
        self.attended = attended or (lambda b, h, i, j: True)
        self.score = score or (lambda s, b, h, i, j, bias: s)
        self.factor = factor or (lambda s, b, h, i, j, bias: 1.0)
        self.score_grad, self.dropout, self.has_bias = score_grad, dropout, has_bias
        self.cuts, self.lists_tiles = {**cuts, **others}, lists_tiles


SHIFT = KEYS - QUERIES
causal = lambda b, h, i, j: j <= i + SHIFT
# Falls with the distance, by the head, and grows with the batch entry.
ALIBI = """%d = arith.subi %j, %i : index
       %h1 = arith.addi %h, %b : index
       %dh = arith.muli %d, %h1 : index
       %di = arith.index_cast %dh : index to i32
       %df = arith.sitofp %di : i32 to f32
       %c = arith.constant 0.0078125 : f32
       %x = arith.mulf %df, %c : f32"""
alibi = lambda b, h, i, j: (j - i) * (h + b) / 128.0
BIAS = f"%x = tensor.extract %bias[%h, %j] : tensor<{HEADS}x{KEYS}xf32>"

VARIANTS = [
    Variant("none"),
    Variant("causal", "#attn.causal", causal),
    Variant("top_left", "#attn.causal<alignment = top_left>", lambda b, h, i, j: j <= i),
    Variant("window", "#attn.sliding_window<left = 40, right = 8>",
            lambda b, h, i, j: (j >= i + SHIFT - 40) & (j <= i + SHIFT + 8)),
    Variant("prefix", "#attn.prefix_lm<length = 70>", lambda b, h, i, j: (j < 70) | (j <= i + SHIFT)),
    Variant("dilated", "#attn.dilated_window<left = 60, right = 0, dilation = 3>",
            lambda b, h, i, j: (j >= i + SHIFT - 60) & (j <= i + SHIFT) & ((i + SHIFT - j) % 3 == 0)),
    Variant("blocks", "#attn.local_blocks<size = 48, before = 1, after = 0>",
            lambda b, h, i, j: ((i + SHIFT) // 48 - 1 <= j // 48) & (j // 48 <= (i + SHIFT) // 48)),
    Variant("global", "#attn.or<#attn.global_tokens<count = 20>, #attn.sliding_window<left = 30, right = 10>>",
            lambda b, h, i, j: (i < 20) | (j < 20) | ((j >= i + SHIFT - 30) & (j <= i + SHIFT + 10))),
    Variant("mask_mod", "#attn.causal", lambda b, h, i, j: causal(b, h, i, j) & ((i + j + h + 2 * b) % 3 != 0),
            mask_mod="""%three = arith.constant 3 : index
       %zero = arith.constant 0 : index
       %ij = arith.addi %i, %j : index
       %ijh = arith.addi %ij, %h : index
       %bb = arith.addi %b, %b : index
       %sum = arith.addi %ijh, %bb : index
       %rem = arith.remui %sum, %three : index
       %kept = arith.cmpi ne, %rem, %zero : index""", others=SPLIT, lists_tiles=True),
    Variant("score_mod", "#attn.causal", causal, score_mod=ALIBI + "\n       %r = arith.addf %s, %x : f32",
            score_grad="%r = arith.addf %ds, %none : f32",
            score=lambda s, b, h, i, j, bias: s + alibi(b, h, i, j), others=SPLIT),
    Variant("scaled", score_mod=ALIBI + """
       %one = arith.constant 1.0 : f32
       %f = arith.addf %x, %one : f32
       %r = arith.mulf %s, %f : f32""",
            score_grad=ALIBI + """
       %one = arith.constant 1.0 : f32
       %f = arith.addf %x, %one : f32
       %r = arith.mulf %ds, %f : f32""",
            score=lambda s, b, h, i, j, bias: s * (1 + alibi(b, h, i, j)),
            factor=lambda s, b, h, i, j, bias: 1 + alibi(b, h, i, j), others=SPLIT),
    Variant("bias", "#attn.sliding_window<left = 100, right = 0>",
            lambda b, h, i, j: (j >= i + SHIFT - 100) & (j <= i + SHIFT),
            score_mod=BIAS + "\n       %r = arith.addf %s, %x : f32",
            score_grad=f"""attn.accumulate %ds into %db[%h, %j] : tensor<{HEADS}x{KEYS}xf32>
       %r = arith.addf %ds, %none : f32""",
            score=lambda s, b, h, i, j, bias: s + bias[h, j], has_bias=True, others=SPLIT),
    Variant("dropout", "#attn.causal", causal, dropout=Dropout(0.25, "philox", 7), cuts=AT_WORDS, others=SPLIT),
    Variant("dropout_arx", dropout=Dropout(0.5, "arx", 6, bits=4), cuts=AT_WORDS, others=SPLIT),
]

Q, K = f"tensor<?xHx?x{DIM}xf32>", f"tensor<?xGx?x{DIM}xf32>"
L = "tensor<?xHx?xf32>"


def mlir(variant, heads, key_heads):
    """The attention and the gradient of shards with `heads` query heads, and of the whole if there are all."""
    def typed(kind):
        return kind.replace("xHx", f"x{heads}x").replace("xGx", f"x{key_heads}x")

    q, k, lse = typed(Q), typed(K), typed(L)
    bias = f"tensor<{HEADS}x{KEYS}xf32>"
    extra = f", %bias: {bias}" if variant.has_bias else ""
    clauses = f"mask({variant.mask}) " if variant.mask else ""
    if variant.dropout:
        extra += ", %seed: tensor<i64>, %offset: tensor<i64>"
        clauses += f"dropout({variant.dropout}, %seed, %offset : tensor<i64>, tensor<i64>) "
    clauses += f"schedule(#attn_tile.sequential<query_tile = {QUERY_TILE}, key_tile = {KEY_TILE}>) "
    regions, grad_region = "", ""
    if variant.score_mod:
        regions += f"""score_mod {{
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
       {variant.score_mod}
       attn.yield %r : f32
      }} """
        db = f", %db: {bias}" if variant.has_bias else ""
        grad_region = f"""score_mod_grad {{
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index{db}):
       %none = arith.constant -0.0 : f32
       {variant.score_grad}
       attn.yield %r : f32
      }} """
    if variant.mask_mod:
        regions += f"""mask_mod {{
      ^bb0(%b: index, %h: index, %i: index, %j: index):
       {variant.mask_mod}
       attn.yield %kept : i1
      }} """
    dcapture = f", {bias}" if variant.has_bias else ""
    dbias = ", %dbias" if variant.has_bias else ""
    text = ""
    for name, positions, clause in (("whole", "", ""),
                                    ("shard", ", %positions: tensor<6xi32>", "positions(%positions : tensor<6xi32>) ")):
        if name == "whole" and heads != HEADS:
            continue
        text += f"""
func.func @{name}(%q: {q}, %k: {k}, %v: {k}, %o: {q}, %l: {lse}{positions}{extra}) -> ({q}, {lse}) {{
  %0:2 = attn.attention ins(%q, %k, %v : {q}, {k}, {k}) outs(%o, %l : {q}, {lse})
      {clause}{clauses}{regions}-> {q}, {lse}
  return %0#0, %0#1 : {q}, {lse}
}}
func.func @{name}_gradient(%q: {q}, %k: {k}, %v: {k}, %o: {q}, %l: {lse}, %do: {q}, %dq: {q}, %dk: {k}, %dv: {k}
    {f", %dbias: {bias}" if variant.has_bias else ""}{positions}{extra}) -> ({q}, {k}, {k}{dcapture}) {{
  %0:{3 + variant.has_bias} = attn.attention_grad
      ins(%q, %k, %v, %o, %l, %do : {q}, {k}, {k}, {q}, {lse}, {q})
      outs(%dq, %dk, %dv{dbias} : {q}, {k}, {k}{dcapture})
      {clause}{clauses}{regions}{grad_region}-> {q}, {k}, {k}{dcapture}
  return {", ".join(f"%0#{i}" for i in range(3 + variant.has_bias))} : {q}, {k}, {k}{dcapture}
}}
"""
    return text


def merge_mlir(parts):
    q, lse = Q.replace("xHx", f"x{HEADS}x"), L.replace("xHx", f"x{HEADS}x")
    outs, lses = ", ".join(f"%o{i}" for i in range(parts)), ", ".join(f"%l{i}" for i in range(parts))
    arguments = ", ".join([f"%o{i}: {q}" for i in range(parts)] + [f"%l{i}: {lse}" for i in range(parts)])
    return f"""
func.func @merge({arguments}, %out: {q}, %lse: {lse}) -> ({q}, {lse}) {{
  %0:2 = attn.merge ins({outs} : {", ".join([q] * parts)}) lses({lses} : {", ".join([lse] * parts)})
      outs(%out, %lse : {q}, {lse}) -> {q}, {lse}
  return %0#0, %0#1 : {q}, {lse}
}}
"""


def keep_mask_mlir(dropout):
    text = ""
    for layout in ("rows", "columns"):
        words = f"tensor<?x{HEADS // 2}x?x?xi32>"
        text += f"""
func.func @{layout}(%bits: {words}, %positions: tensor<6xi32>, %seed: tensor<i64>, %offset: tensor<i64>) -> {words} {{
  %0 = attn.dropout_mask {layout} by({dropout}, %seed, %offset : tensor<i64>, tensor<i64>)
      outs(%bits : {words}) positions(%positions : tensor<6xi32>) -> {words}
  return %0 : {words}
}}
"""
    return text


def view(array):
    strides = [s // array.itemsize for s in array.strides]
    result = TensorView.make(array.shape, strides, DTYPES.index(NAMES[array.dtype]), -1)
    result.data = array.ctypes.data
    return ctypes.pointer(result)


def try_call(function, arrays):
    views = [view(array) for array in arrays]
    failed = function.call((ctypes.POINTER(TensorView) * len(views))(*views), len(views), None)
    return function.last_error().decode() if failed else ""


def call(function, arrays):
    if message := try_call(function, arrays):
        sys.exit(message)


def compile_text(work, runtime, name, text):
    path = os.path.join(work, name)
    with open(path + ".mlir", "w") as file:
        file.write(text)
    run_tool(["attn-compile", path + ".mlir", "-o", path + ".so", "--target=host"])
    return Artifact(path + ".so", runtime)


class Whole:
    """Inputs, and the results of the whole attention in f64."""

    def __init__(self, variant, rng):
        def draw(*shape):
            return rng.standard_normal(shape).astype(np.float32)

        self.variant = variant
        self.q, self.dout = draw(BATCH, HEADS, QUERIES, DIM), draw(BATCH, HEADS, QUERIES, DIM)
        self.k, self.v = draw(BATCH, KEY_HEADS, KEYS, DIM), draw(BATCH, KEY_HEADS, KEYS, DIM)
        self.bias = draw(HEADS, KEYS)
        self.at = np.ix_(range(BATCH), range(HEADS), range(QUERIES), range(KEYS))
        q, k, v, dout = (x.astype(np.float64) for x in (self.q, self.k, self.v, self.dout))
        group = HEADS // KEY_HEADS
        k, v = k.repeat(group, 1), v.repeat(group, 1)
        bias = self.bias.astype(np.float64)
        x = np.einsum("bhid,bhjd->bhij", q, k) * DIM**-0.5
        self.attended = np.broadcast_to(variant.attended(*self.at), x.shape)
        score = np.where(self.attended, variant.score(x, *self.at, bias), -np.inf)
        self.dropped = np.ones(x.shape)
        if variant.dropout:
            keep = variant.dropout.keep(SEED, OFFSET, *self.at)
            self.dropped = keep / variant.dropout.keep_probability
        self.score, self.v64 = score, v
        self.out, self.lse = self.attend(score)
        p = self.probabilities(score, self.lse)
        delta = (self.out * dout).sum(-1, keepdims=True)
        dp = np.einsum("bhid,bhjd->bhij", dout, v) * self.dropped
        ds = p * (dp - delta)
        dx = ds * variant.factor(x, *self.at, bias) * DIM**-0.5

        def of_group(array):
            return array.reshape(BATCH, KEY_HEADS, group, *array.shape[2:]).sum(2)

        self.dq = np.einsum("bhij,bhjd->bhid", dx, k)
        self.dk = of_group(np.einsum("bhij,bhid->bhjd", dx, q))
        self.dv = of_group(np.einsum("bhij,bhid->bhjd", p * self.dropped, dout))
        self.dbias = ds.sum((0, 2))

    @staticmethod
    def probabilities(score, lse):
        with np.errstate(invalid="ignore"):
            return np.where(np.isneginf(score), 0.0, np.exp(score - lse[..., None]))

    def attend(self, score, keys=slice(None)):
        """The output and the log-sum-exp with these keys alone."""
        score = score[..., keys]
        largest = score.max(-1)
        with np.errstate(divide="ignore"):
            base = np.where(np.isneginf(largest), 0.0, largest)
            lse = base + np.log(np.exp(score - base[..., None]).sum(-1))
        p = self.probabilities(score, lse) * self.dropped[..., keys]
        return np.einsum("bhij,bhjd->bhid", p, self.v64[:, :, keys]), lse


def pairs(cuts):
    return [slice(first, end) for first, end in zip(cuts, cuts[1:])]


class Shard:
    def __init__(self, whole, b, g, i, j):
        group = HEADS // KEY_HEADS
        h = slice(g.start * group, g.stop * group)
        self.b, self.g, self.h, self.i, self.j = b, g, h, i, j
        self.positions = np.array([i.start, j.start, b.start, h.start, QUERIES, KEYS], np.int32)
        self.query = lambda x: x[b, h, i].copy()
        self.key = lambda x: x[b, g, j].copy()
        self.q, self.dout = self.query(whole.q), self.query(whole.dout)
        self.k, self.v = self.key(whole.k), self.key(whole.v)
        # Where kernels list tiles, a row of tiles without any visits one, also a row of a tile of keys.
        if not whole.variant.lists_tiles:
            self.poison(whole.attended[b, h, i, j])
        self.extra = [whole.bias] if whole.variant.has_bias else []
        if whole.variant.dropout:
            self.extra += [np.array(SEED), np.array(OFFSET)]


    def poison(self, attended):
        """Puts NaN into tiles of keys that nothing attends, unless there is a tile of queries that attends to nothing:
        such a tile visits any tile of keys."""
        queries, keys = (range(0, size, tile) for size, tile in zip(attended.shape[2:], (QUERY_TILE, KEY_TILE)))
        if any(not attended[:, :, i : i + QUERY_TILE].any((2, 3)).all() for i in queries):
            return
        for entry, j in itertools.product(range(attended.shape[0]), keys):
            tile = slice(j, j + KEY_TILE)
            if not attended[entry, :, :, tile].any():
                self.k[entry, :, tile] = self.v[entry, :, tile] = np.nan


def difference(found, expected):
    """The largest error, relative to numbers above 1; infinite if it is none."""
    with np.errstate(invalid="ignore"):
        error = np.abs(found - expected) / np.maximum(1.0, np.abs(expected))
    error = np.where(found == expected, 0.0, error)
    return np.inf if np.isnan(error).any() else error.max(initial=0.0)


class Run:
    """The results of all shards of a variant."""

    def __init__(self, whole, artifact):
        self.whole, self.artifact, self.worst = whole, artifact, {}
        cuts = whole.variant.cuts
        self.key_parts = pairs(cuts["keys"])
        shape = (len(self.key_parts), *whole.out.shape)
        self.outs = np.full(shape, np.nan, np.float32)
        self.lses = np.full(shape[:-1], np.nan, np.float32)
        self.grads = {name: np.zeros(getattr(whole, name).shape) for name in ("dq", "dk", "dv", "dbias")}
        for b, g, i in itertools.product(*(pairs(cuts[name]) for name in ("batch", "heads", "queries"))):
            for part, j in enumerate(self.key_parts):
                self.run_shard(Shard(whole, b, g, i, j), part)

    def compare(self, name, found, expected):
        self.worst[name] = max(self.worst.get(name, 0.0), difference(found, expected))

    def run_shard(self, shard, part):
        whole = self.whole
        out = np.full(shard.q.shape, np.nan, np.float32)
        lse = np.full(shard.q.shape[:-1], np.nan, np.float32)
        call(self.artifact["shard"], [shard.q, shard.k, shard.v, out, lse, shard.positions, *shard.extra])
        expected = whole.attend(whole.score, shard.j)
        self.compare("out of a shard", out, shard.query(expected[0]))
        self.compare("lse of a shard", lse, shard.query(expected[1]))
        self.outs[part][shard.b, shard.h, shard.i] = out
        self.lses[part][shard.b, shard.h, shard.i] = lse
        self.run_gradient(shard)

    def run_gradient(self, shard):
        whole = self.whole
        saved = [shard.query(x).astype(np.float32) for x in (whole.out, whole.lse)]
        results = [np.full(x.shape, np.nan, np.float32) for x in (shard.q, shard.k, shard.v)]
        captures = [np.zeros(whole.bias.shape, np.float32)] if whole.variant.has_bias else []
        call(self.artifact["shard_gradient"], [shard.q, shard.k, shard.v, *saved, shard.dout, *results, *captures,
                                               shard.positions, *shard.extra])
        self.grads["dq"][shard.b, shard.h, shard.i] += results[0]
        for name, result in zip(("dk", "dv"), results[1:]):
            self.grads[name][shard.b, shard.g, shard.j] += result
        for capture in captures:
            self.grads["dbias"] += capture

    def check(self, merge):
        whole = self.whole
        out, lse = np.full_like(self.outs[0], np.nan), np.full_like(self.lses[0], np.nan)
        call(merge, [*self.outs, *self.lses, out, lse])
        self.compare("merged out", out, whole.out)
        self.compare("merged lse", lse, whole.lse)
        names = ("dq", "dk", "dv") + (("dbias",) if whole.variant.has_bias else ())
        for name in names:
            self.compare("sum of " + name, self.grads[name], getattr(whole, name))


def check_variant(variant, args, merge):
    """Returns the names of results that are wrong."""
    split = len(variant.cuts["heads"]) - 1
    whole = Whole(variant, np.random.default_rng(0))
    artifact = compile_text(args.work, args.runtime, variant.name, mlir(variant, HEADS // split, KEY_HEADS // split))
    run = Run(whole, artifact)
    run.check(merge)
    # The same modules without positions.
    if split != 1:
        artifact = compile_text(args.work, args.runtime, variant.name + "_whole", mlir(variant, HEADS, KEY_HEADS))
    out, lse = np.full_like(whole.q, np.nan), np.full(whole.q.shape[:-1], np.nan, np.float32)
    extra = [whole.bias] if variant.has_bias else []
    if variant.dropout:
        extra += [np.array(SEED), np.array(OFFSET)]
    call(artifact["whole"], [whole.q, whole.k, whole.v, out, lse, *extra])
    run.compare("out without positions", out, whole.out)
    return [f"{name}: error {error:.2g}" for name, error in run.worst.items() if not error <= 2e-5]


def check_keep_masks(args):
    """The keep masks of shards of 64 by 64 pairs, whole blocks, against the ones of the larger attention."""
    dropout, queries, keys = Dropout(0.375, "philox", 7), 192, 256
    artifact = compile_text(args.work, args.runtime, "keep_masks", keep_mask_mlir(dropout))
    keep = dropout.keep(SEED, OFFSET, *np.ix_(range(3), range(HEADS), range(queries), range(keys)))
    wrong = []
    places = [(0, 0, 0, 0), (64, 128, 1, 2), (128, 64, 2, 1)]
    for layout, (i, j, b, h) in itertools.product(("rows", "columns"), places):
        expected = pack(keep[b:, h : h + HEADS // 2, i : i + 64, j : j + 128], layout)
        bits = np.zeros_like(expected)
        positions = np.array([i, j, b, h, queries, keys], np.int32)
        call(artifact[layout], [bits, positions, np.array(SEED), np.array(OFFSET)])
        if not np.array_equal(bits, expected):
            wrong.append(f"keep mask {layout} at {i}, {j}, {b}, {h}")
    bits = np.zeros_like(pack(keep[:1, : HEADS // 2, :64, :128]))
    for at in (0, 1):
        positions[:] = 0
        positions[at] = 8
        message = try_call(artifact["rows"], [bits, positions, np.array(SEED), np.array(OFFSET)])
        if "not at a multiple of 16" not in message:
            wrong.append(f"entry {at} of 8 is not reported: '{message}'")
    return wrong


def check_misplaced(args):
    """Attention with dropout, and its gradient, report a shard that cuts words of keep masks."""
    variant = next(v for v in VARIANTS if v.name == "dropout")
    whole = Whole(variant, np.random.default_rng(1))
    artifact = compile_text(args.work, args.runtime, "misplaced", mlir(variant, HEADS, KEY_HEADS))
    positions = np.array([0, 24, 0, 0, QUERIES, KEYS + 24], np.int32)
    state = [np.array(SEED), np.array(OFFSET)]
    out, lse = np.zeros_like(whole.q), np.zeros(whole.q.shape[:-1], np.float32)
    grads = [np.zeros_like(x) for x in (whole.q, whole.k, whole.v)]
    inputs = [whole.q, whole.k, whole.v, out, lse]
    operands = {"shard": inputs, "shard_gradient": [*inputs, whole.dout, *grads]}
    messages = {name: try_call(artifact[name], [*given, positions, *state]) for name, given in operands.items()}
    return [f"{name} does not report key 24: '{message}'" for name, message in messages.items()
            if "not at a multiple of 16" not in message]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True, help="folder for what is compiled")
    parser.add_argument("--runtime", required=True, help="the runtime library")
    parser.add_argument("--only", default="", help="run variants whose name contains this")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    merge = compile_text(args.work, args.runtime, "merge", merge_mlir(len(ANYWHERE["keys"]) - 1))["merge"]
    cases = {v.name: lambda v=v: check_variant(v, args, merge) for v in VARIANTS}
    cases["keep masks"] = lambda: check_keep_masks(args)
    cases["misplaced"] = lambda: check_misplaced(args)
    failures = 0
    for name, check in cases.items():
        if args.only not in name:
            continue
        wrong = check()
        failures += bool(wrong)
        for message in wrong:
            print(f"{name}: wrong {message}")
    print(f"{len(cases)} variants, {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
