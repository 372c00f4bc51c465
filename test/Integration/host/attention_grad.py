# ===- attention_grad.py - Numerics of gradients on the host ---------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Compiles gradients of attention in many variants for the host, runs each with
# several shapes, and compares dq, dk and dv with f64. The inputs out and lse are computed here in f64 and rounded. An
# error may be twice the error of the same computation by NumPy operations that round to the element type after each
# step, plus one rounding of the output. Gradients of tensors that score_mod regions read are compared likewise.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --cc %host_cc --library %attn_libs_dir --work %t

import argparse
import concurrent.futures
import ctypes
import os
import sys
import types

import numpy as np

sys.path.insert(0, os.path.dirname(__file__))
import attention
from dropout_reference import Dropout
from attention import CAPTURES, EPSILON, F64, KEEPS, SCORES

# Entries of a table, read where positions are near one another.
SCORES["near"] = (
    ("table",),
    """%n = arith.constant 32 : index
       %d = arith.addi %i, %n : index
       %near = arith.cmpi ult, %j, %d : index
       %x = scf.if %near -> f32 {
         %entry = arith.remui %j, %n : index
         %y = memref.load %table[%entry] : memref<?xf32>
         scf.yield %y : f32
       } else {
         %y = arith.constant 0.0 : f32
         scf.yield %y : f32
       }
       %r = arith.addf %s, %x : f32""",
    lambda s, b, h, i, j, c: s + np.where(j < i + 32, c["table"][j % 32], 0),
)

# Not a number for queries after the last one, which tiles have.
CAPTURES["num_queries"] = ("memref<1xindex>", np.int64, lambda s, r: [s.sq])
FACTOR_OF_QUERY = """%c0 = arith.constant 0 : index
       %n = memref.load %num_queries[%c0] : memref<1xindex>
       %left = arith.subi %n, %i : index
       %leftInt = arith.index_cast %left : index to i32
       %leftFloat = arith.sitofp %leftInt : i32 to f32
       """
SCORES["by_queries_left"] = (
    ("num_queries",),
    FACTOR_OF_QUERY + "%r = arith.divf %s, %leftFloat : f32",
    lambda s, b, h, i, j, c: s / (c["num_queries"][0] - i),
)

# Gradients of score_mod regions: MLIR body (%s and %ds to %r), and the factor of ds.
SCORE_GRADS = {
    "none": ("", None),
    "alibi": ("%r = arith.addf %ds, %zero : f32", lambda s, *_: 1),
    "softcap": (
        """%cap = arith.constant 2.0 : f32
           %one = arith.constant 1.0 : f32
           %d = arith.divf %s, %cap : f32
           %t = math.tanh %d : f32
           %t2 = arith.mulf %t, %t : f32
           %f = arith.subf %one, %t2 : f32
           %r = arith.mulf %ds, %f : f32""",
        lambda s, *_: 1 - np.tanh(s / 2) ** 2,
    ),
    "bias": ("%r = arith.addf %ds, %zero : f32", lambda s, *_: 1),
    "table": ("%r = arith.addf %ds, %zero : f32", lambda s, *_: 1),
    "near": ("%r = arith.addf %ds, %zero : f32", lambda s, *_: 1),
    "qk_norm": (
        """%two = arith.constant 2 : index
           %hk = arith.divui %h, %two : index
           %x = memref.load %query_factors[%b, %h, %i] : memref<?x?x?xf32>
           %y = memref.load %key_factors[%b, %hk, %j] : memref<?x?x?xf32>
           %t = arith.mulf %ds, %x : f32
           %r = arith.mulf %t, %y : f32""",
        lambda s, b, h, i, j, c: c["query_factors"][b, h, i] * c["key_factors"][b, h // 2, j],
    ),
    "by_queries_left": (
        FACTOR_OF_QUERY + "%r = arith.divf %ds, %leftFloat : f32",
        lambda s, b, h, i, j, c: 1 / (c["num_queries"][0] - i),
    ),
    # Not a number where the score is far from 0: only pairs that do not attend
    # are, or have no weight.
    "branch": ("%r = arith.addf %ds, %zero : f32", lambda s, *_: 1),
}


# Gradients of what score_mod regions read, which follow the bodies above: MLIR (to
# %d<name>), what a pair adds as a factor of ds, and where.
CAPTURE_GRADS = {
    "alibi": (("slopes", """
           %d = arith.subi %j, %i : index
           %di = arith.index_cast %d : index to i32
           %df = arith.sitofp %di : i32 to f32
           %a = arith.mulf %df, %ds : f32
           attn.accumulate %a into %dslopes[%h] : memref<?xf32>""",
               lambda s, b, h, i, j, c: j - i, lambda b, h, i, j: (h,)),),
    "bias": (("bias", "attn.accumulate %ds into %dbias[%i, %j] : memref<?x?xf32>",
              lambda *_: 1, lambda b, h, i, j: (i, j)),),
    "table": (("table", """
           %n = arith.constant 32 : index
           %entry = arith.remui %j, %n : index
           attn.accumulate %ds into %dtable[%entry] : memref<?xf32>""",
               lambda *_: 1, lambda b, h, i, j: (j % 32,)),),
    "near": (("table", """
           %n = arith.constant 32 : index
           %d = arith.addi %i, %n : index
           %near = arith.cmpi ult, %j, %d : index
           scf.if %near {
             %entry = arith.remui %j, %n : index
             attn.accumulate %ds into %dtable[%entry] : memref<?xf32>
           }""",
              lambda s, b, h, i, j, c: j < i + 32, lambda b, h, i, j: (j % 32,)),),
    "qk_norm": (("query_factors", """
           %fs = arith.mulf %ds, %s : f32
           %fy = arith.mulf %fs, %y : f32
           attn.accumulate %fy into %dquery_factors[%b, %h, %i] : memref<?x?x?xf32>""",
                 lambda s, b, h, i, j, c: s * c["key_factors"][b, h // 2, j],
                 lambda b, h, i, j: (b, h, i)),
                ("key_factors", """
           %fx = arith.mulf %fs, %x : f32
           attn.accumulate %fx into %dkey_factors[%b, %hk, %j] : memref<?x?x?xf32>""",
                 lambda s, b, h, i, j, c: s * c["query_factors"][b, h, i],
                 lambda b, h, i, j: (b, h // 2, j))),
}


class Variant(attention.Variant):
    def __init__(self, *args, dlse=False, spread=1.0, parts="dkdv dq", reads=False,
                 deterministic=False, **options):
        self.dlse, self.spread, self.parts = dlse, spread, parts
        self.deterministic = deterministic
        # Those whose gradients are wanted, too.
        self.capture_grads = CAPTURE_GRADS[options["score"]] if reads else ()
        super().__init__(*args, **options)

    def module(self):
        q = self.memref(self.hq, self.d, self.dtype)
        k = self.memref(self.hkv, self.d, self.dtype)
        v = self.memref(self.value_heads, self.dv, self.dtype)
        o = self.memref(self.hq, self.dv, self.out)
        lse = f"memref<?x{self.hq}x?xf32>"
        captures = "".join(f", %{c}: {CAPTURES[c][0]}" for c in self.captures)
        scale = "" if self.scale_given is None else f"scale({float(self.scale)})"
        reads, mask = self.mask_text()
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
        grads = [(f"%g{name}", f"%d{name}", CAPTURES[name][0], text)
                 for name, text, _, _ in self.capture_grads]
        inner = "".join(f", {argument}: {kind}" for _, argument, kind, _ in grads)
        outs = "".join(f", {name}" for name, *_ in grads)
        outs_types = "".join(f", {kind}" for _, _, kind, _ in grads)
        if self.score != "none":
            regions += f""" score_mod_grad {{
          ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index{inner}):
            %zero = arith.constant 0.0 : f32
            {SCORE_GRADS[self.score][0]}
            {"".join(text for *_, text in grads)}
            attn.yield %r : f32
          }}"""
        parameters, before, dropout = self.dropout_text()
        captures += "".join(f", {name}: {kind}" for name, _, kind, _ in grads)
        captures += parameters + reads
        identity = ""
        if self.identity:
            identity = f"memref<{self.hq}x{self.identity}>"
            captures += f", %identity: {identity}"
            identity = f"identity(%identity : {identity})"
        dlse, dlse_type = (", %dlse", f", {lse}") if self.dlse else ("", "")
        tiles = f"#attn_tile.sequential<query_tile = {self.tile[0]}, key_tile = {self.tile[1]}>"
        parts = ", ".join(f"{part} = {tiles}" for part in ("preprocess " + self.parts).split())
        return f"""func.func @run(%q: {q}, %k: {k}, %v: {v}, %o: {o}, %lse: {lse}, %do: {o},
            %dlse: {lse}, %dq: {q}, %dk: {k}, %dv: {v}{captures}) {{
          {before}
          attn.attention_grad
              ins(%q, %k, %v, %o, %lse, %do{dlse} : {q}, {k}, {v}, {o}, {lse}, {o}{dlse_type})
              outs(%dq, %dk, %dv{outs} : {q}, {k}, {v}{outs_types})
              {identity} {scale} {mask} {dropout}
              schedule(#attn_tile.gradient<{parts}>)
              {"deterministic" if self.deterministic else ""}
              {regions}
          return
        }}"""


VARIANTS = [
    Variant("f32", 64),
    Variant("f32", 8, mask="causal", tile=(16, 40)),
    Variant("f32", 128, hq=4, hkv=1, mask="causal"),
    Variant("f32", 72, dv=40, mask="causal_top_left", layout="bshd", dlse=True),
    Variant("f32", 16, mask="window", tile=(8, 16)),
    Variant("f32", 96, mask="window_both", tile=(32, 32), hq=6, hkv=2),
    Variant("f32", 40, mask="window_left", layout="bhds"),
    Variant("f32", 64, score="alibi", mask="causal", hq=4, hkv=2),
    Variant("f32", 64, score="softcap", scale=0.3, dlse=True),
    Variant("f32", 32, score="bias", mask="causal"),
    Variant("f32", 32, score="branch", mask="window"),
    Variant("f32", 64, keep="docs"),
    Variant("f32", 64, keep="docs", mask="causal", score="alibi", layout="bshd"),
    Variant("f32", 64, keep="lengths", tile=(8, 24), dlse=True),
    Variant("f32", 64, scale=-0.2),
    # Separate kernels for the gradients of values, and none for queries: accumulators with a row for each element of a
    # head, or for each query.
    Variant("f32", 64, mask="causal", hq=4, hkv=2, parts="dkdv dq dv", dlse=True),
    Variant("f32", 64, mask="causal", hq=4, hkv=2, parts="dkdv", tile=(32, 64)),
    Variant("f32", 72, dv=40, mask="window", parts="dkdv", tile=(16, 64), dlse=True),
    Variant("f32", 40, score="softcap", keep="docs", parts="dkdv", tile=(32, 32)),
    Variant("bf16", 64, mask="window_both", parts="dkdv", tile=(64, 32), layout="bshd"),
    Variant("f16", 128, hq=4, hkv=1, parts="dkdv", tile=(16, 64)),
    # Gradients of tensors that are read: of one summand for each pair of positions, of entries that many pairs read, of
    # factors; none of pairs that do not attend.
    Variant("f32", 32, score="bias", reads=True, tile=(16, 24)),
    Variant("f32", 40, score="bias", reads=True, mask="causal", parts="dkdv", tile=(32, 32)),
    Variant("f32", 32, score="alibi", reads=True, mask="window", hq=4, hkv=2),
    Variant("bf16", 64, score="table", reads=True, keep="lengths", parts="dkdv dq dv"),
    Variant("f32", 64, score="table", reads=True, tile=(16, 48), dropout=Dropout(0.3, "arx", 6)),
    Variant("f32", 24, score="near", reads=True, mask="causal"),
    Variant("f32", 32, score="qk_norm", reads=True, hq=4, hkv=2, dlse=True),
    # Log-sum-exps below -88, so that exp(-lse) is no f32.
    Variant("f32", 64, keep="lengths", spread=8.0),
    Variant("f32", 64, mask="causal", spread=8.0, tile=(64, 128)),
    Variant("bf16", 128, mask="causal", hq=4, hkv=2),
    Variant("bf16", 64, layout="bshd"),
    Variant("bf16", 192, dv=128, mask="causal", out="f32"),
    Variant("bf16", 64, keep="lengths", score="softcap"),
    Variant("bf16", 64, mask="window", spread=4.0),
    Variant("f16", 64, mask="causal", layout="bshd", dlse=True),
    Variant("f16", 104, dv=24, mask="window_both"),
    Variant("f16", 64, score="alibi", keep="docs", hq=6, hkv=2),
    Variant("f32", 32, dropout=Dropout(0.125, "philox", 7)),
    Variant("f32", 64, mask="causal", hq=4, hkv=2, parts="dkdv", dropout=Dropout(0.3, "arx", 6)),
    Variant("f32", 64, score="softcap", parts="dkdv dq dv", dlse=True, tile=(16, 48),
            dropout=Dropout(0.5, "threefry", 20, bits=4)),
    Variant("bf16", 64, hq=4, hkv=2, mask="causal", dropout=Dropout(0.1, "arx", 6)),
    Variant("f32", 64, mask="causal", hq=4, hkv=2, parts="dkdv", tile=(32, 64),
            dropout=Dropout(0.125, "arx", 6), bits="columns"),
    Variant("f32", 64, score="softcap", dlse=True, tile=(16, 48), dropout=Dropout(0.5, "philox", 7), bits="rows"),
    Variant("bf16", 64, hq=4, hkv=2, mask="window", packed="columns"),
    Variant("f32", 32, data="documents", tile=(16, 32), dlse=True),
    Variant("f32", 32, data="causal_packed_documents", parts="dkdv", hq=4, hkv=2, tile=(32, 32)),
    Variant("f32", 32, data="tree", tile=(16, 16), parts="dkdv dq dv"),
    # Lists of each query head, where the heads of a group share keys.
    Variant("f32", 16, data="blocks16", hq=6, hkv=2, tile=(16, 32)),
    Variant("f32", 16, data="blocks16", hq=2, hkv=2, parts="dkdv", tile=(32, 16)),
    Variant("bf16", 64, data="causal_blocks", hq=4, hkv=1, score="alibi"),
    Variant("f32", 16, data="blocks_or_first", hq=4, hkv=2, keep="docs", tile=(40, 24), dlse=True),
    Variant("f32", 64, mask="causal", hq=4, hkv=2, identity="f32"),
    Variant("f32", 40, dv=24, mask="window", hq=6, hkv=2, parts="dkdv dq dv", identity="bf16", layout="bshd"),
    Variant("bf16", 64, parts="dkdv", tile=(32, 64), identity="f32", keep="docs"),
    Variant("f32", 32, score="softcap", hq=4, hkv=1, identity="f32", dropout=Dropout(0.3, "arx", 6)),
    Variant("f32", 32, mask="nothing", identity="f16"),
    # Tiles of queries that are several ranges, of which some are masked.
    Variant("f32", 16, mask="prefix_lm", tile=(16, 24), hq=4, hkv=2, parts="dkdv"),
    Variant("f32", 16, mask="dilated", tile=(8, 16)),
    Variant("f32", 16, mask="block_diagonal", tile=(16, 16), parts="dkdv"),
    Variant("f32", 16, mask="block_causal", tile=(8, 40), hq=4, hkv=1, dlse=True),
    Variant("bf16", 32, mask="local_blocks", tile=(16, 32), parts="dkdv"),
    Variant("f32", 16, mask="chunked", tile=(16, 32), hq=4, hkv=2, parts="dkdv dq dv"),
    Variant("f32", 16, mask="global_window", tile=(8, 16), hq=6, hkv=2, parts="dkdv"),
    Variant("f32", 16, mask="blocks_before", tile=(16, 16)),
    Variant("f32", 16, mask="not_or", tile=(8, 8), parts="dkdv"),
    Variant("f32", 16, mask="not_window", tile=(8, 16), hq=4, hkv=2),
    Variant("f32", 16, mask="upper", tile=(24, 16), parts="dkdv"),
    Variant("f32", 16, keep="named", tile=(8, 16), hq=4, hkv=2, parts="dkdv"),
    Variant("f32", 16, keep="affine", mask="causal", tile=(16, 16), dlse=True),
    Variant("f32", 32, score="by_queries_left", mask="causal"),
    Variant("bf16", 40, score="by_queries_left", parts="dkdv dq dv", tile=(16, 32)),
    # Other numbers of value heads than of key heads.
    Variant("f32", 32, hq=12, hkv=12, hv=4, mask="causal"),
    Variant("bf16", 64, hq=12, hkv=4, hv=12, mask="causal", parts="dkdv", tile=(32, 64)),
    Variant("f32", 40, dv=24, hq=12, hkv=3, hv=6, mask="window", parts="dkdv dq dv", layout="bshd", dlse=True),
    Variant("f32", 32, hq=12, hkv=6, hv=3, dropout=Dropout(0.3, "arx", 6), score="alibi", reads=True),
    Variant("f16", 32, hq=12, hkv=1, hv=12, keep="docs", mask="causal", parts="dkdv"),
    Variant("f32", 32, hq=12, hkv=12, hv=1, identity="f32", mask="causal"),
    Variant("f32", 16, hq=12, hkv=4, hv=6, data="blocks16", tile=(16, 32)),
    Variant("f32", 16, hq=12, hkv=2, hv=4, data="causal_packed_documents", parts="dkdv"),
]


def forward(variant, q, k, v, captures, kept, step, reads=(), identity=None):
    """What gradients take from the forward pass, by names; `step` rounds after each operation."""
    k, v = (np.repeat(x, variant.hq // x.shape[1], 1) for x in (k, v))
    skv = k.shape[2]
    bi, h, i, j = np.ogrid[: q.shape[0], : q.shape[1], : q.shape[2], :skv]
    x = step(step(q @ k.transpose(0, 1, 3, 2)) * variant.scale)
    s = x
    if variant.score != "none":
        s = step(SCORES[variant.score][2](x, bi, h, i, j, captures))
    keep = variant.keeps(bi, h, i, j, (q.shape[2], skv), captures, reads)
    s = np.where(keep, s, -np.inf)
    m = s.max(-1, keepdims=True)
    m = np.where(np.isneginf(m), 0, m)
    p = np.exp(s - m)
    total = p.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (m + np.log(total))[..., 0]
    p = step(p / np.where(total == 0, 1, total))
    factor = np.ones((), p.dtype)
    if kept is not None:
        factor = (kept / variant.keep_probability()).astype(p.dtype)
    # The factor of the probabilities next to the identity, and the identity times its weight.
    rest, own = 1, None
    if identity is not None:
        weight = identity.reshape(1, -1, 1, 1)
        rest, own = 1 - weight, weight * (j == i + skv - q.shape[2])
    factor = step(factor * rest)
    # The factor of the values.
    mixed = p * factor if own is None else p * factor + own
    return types.SimpleNamespace(
        k=k, v=v, x=x, s=s, p=p, lse=lse, factor=factor, own=own, mixed=mixed, out=step(step(mixed) @ v))


def gradient(variant, passed, q, k, dout, dlse, captures, step, results=None):
    """Gradients of q, k and v, and of captures, by what `forward` gives; `step` rounds after each operation.
    `results` are the out and lse that the kernel gets, if they are to be used; without an lse, it is the one of the
    forward pass."""
    b, skv = k.shape[0], k.shape[2]
    bi, h, i, j = np.ogrid[: q.shape[0], : q.shape[1], : q.shape[2], :skv]
    out, lse, p, mixed = passed.out, passed.lse, passed.p, passed.mixed
    if results is not None:
        out = results[0]
        if results[1] is not None:
            lse = results[1]
            with np.errstate(invalid="ignore"):
                p = np.where(np.isneginf(passed.s), 0, np.exp(passed.s - lse[..., None]))
            mixed = p * passed.factor if passed.own is None else p * passed.factor + passed.own
    of_probabilities = out if passed.own is None else out - step(passed.own @ passed.v)
    delta = (of_probabilities * dout).sum(-1) - np.where(np.isneginf(lse), 0, dlse)
    dp = step(passed.factor * step(dout @ passed.v.transpose(0, 1, 3, 2)))
    ds = step(p * (dp - delta[..., None]))
    capture_grads = []
    for name, _, by, places in variant.capture_grads:
        terms = step(np.where(p == 0, 0, ds * by(passed.x, bi, h, i, j, captures)))
        sums = np.zeros(captures[name].shape, p.dtype)
        at = [np.broadcast_to(n, terms.shape) for n in places(bi, h, i, j)]
        np.add.at(sums, tuple(at), terms)
        capture_grads.append(sums)
    if variant.score != "none":
        ds = step(np.where(p == 0, 0, ds * SCORE_GRADS[variant.score][1](passed.x, bi, h, i, j, captures)))
    reduce = lambda g, heads: g.reshape(b, heads, variant.hq // heads, *g.shape[2:]).sum(2)
    dq = step(ds @ passed.k * variant.scale)
    dk = step(reduce(ds.transpose(0, 1, 3, 2) @ q * variant.scale, variant.hkv))
    dv = step(reduce(step(mixed).transpose(0, 1, 3, 2) @ dout, variant.value_heads))
    return (dq, dk, dv, *capture_grads)


def run(variant, library, shape, rng):
    """Returns a message if the results are wrong."""
    def make(heads, length, dim, dtype, spread=1.0):
        return variant.array(
            shape.b, heads, length, dim,
            lambda s: attention.to_memory(spread * rng.standard_normal(s), dtype))

    q = make(variant.hq, shape.sq, variant.d, variant.dtype, variant.spread)
    k = make(variant.hkv, shape.skv, variant.d, variant.dtype, variant.spread)
    v = make(variant.value_heads, shape.skv, variant.dv, variant.dtype)
    dout = make(variant.hq, shape.sq, variant.dv, variant.out)
    dlse = rng.standard_normal((shape.b, variant.hq, shape.sq)).astype(np.float32)
    if not variant.dlse:
        dlse[:] = 0
    captures = {}
    for name in variant.captures:
        _, numpy_type, make_capture = CAPTURES[name]
        captures[name] = np.ascontiguousarray(make_capture(shape, rng), numpy_type)

    read = lambda x, dtype=variant.dtype: attention.from_memory(x, dtype)
    values = [read(q), read(k), read(v), read(dout, variant.out), dlse]
    wide = [x.astype(F64) for x in values]
    keep_mask, kept, words = variant.generate_keep_mask(shape, rng)
    reads = variant.make_reads(shape, rng)
    identity = None
    if variant.identity:
        # One head has the identity alone, and one has none of it.
        identity = rng.random(variant.hq)
        identity[0], identity[-1] = 1, 0
        stored = attention.to_memory(identity, variant.identity)
        identity = attention.from_memory(stored, variant.identity).astype(F64)
    exact = forward(variant, *wide[:3], captures, kept, lambda x: x, reads, identity)
    out = variant.array(shape.b, variant.hq, shape.sq, variant.dv,
                        lambda s: np.zeros(s, to_numpy(variant.out)))
    out[...] = attention.to_memory(exact.out, variant.out)
    lse = exact.lse.astype(np.float32)
    element = to_numpy(variant.dtype)
    results = [variant.array(shape.b, heads, length, dim, lambda s: np.full(s, 7, element))
               for heads, length, dim in ((variant.hq, shape.sq, variant.d),
                                          (variant.hkv, shape.skv, variant.d),
                                          (variant.value_heads, shape.skv, variant.dv))]
    arrays = [q, k, v, out, lse, dout, dlse, *results,
              *(captures[c] for c in variant.captures)]
    capture_grads = [np.zeros(captures[name].shape, np.float32) for name, *_ in variant.capture_grads]
    arrays += [*capture_grads, *keep_mask, *reads]
    if identity is not None:
        arrays.append(stored)
    descriptors = [attention.descriptor(array) for array in arrays]
    library._mlir_ciface_run(*(ctypes.byref(d) for d in descriptors))
    if words is not None and (keep_mask[-1] != words).any():
        return f"{(keep_mask[-1] != words).sum()} of {words.size} words of keep masks are wrong"

    results = [read(result) for result in results]
    return check(variant, exact, values, captures, kept, reads, identity, read(out, variant.out), lse, results,
                 capture_grads)


def check(variant, passed, values, captures, kept, reads, identity, out, lse, results, capture_grads):
    """What is wrong with gradients of q, k, v and captures, for an output and lse as they are given, and the forward
    pass in f64."""
    wide = [x.astype(F64) for x in values]
    of_f64 = (variant, passed, *wide[:2], *wide[3:], captures, lambda x: x)
    exact = gradient(*of_f64)
    # The expected gradients are for the output as it is given, rounded.
    wanted = gradient(*of_f64, (out.astype(F64), None))
    # In f32, the rounding of large scores and of their lse is what counts.
    given = (out, lse) if variant.dtype == "f32" else None
    step = lambda x: attention.round_to(x, variant.dtype)
    rounded = gradient(variant, forward(variant, *values[:3], captures, kept, step, reads, identity), *values[:2],
                       *values[3:], captures, step, given)
    # Scores and their lse are rounded to f32, which changes probabilities in proportion.
    finite = np.abs(np.where(np.isfinite(passed.lse), passed.lse, 0)).max()
    weight_error = 4 * EPSILON["f32"] * finite
    # Gradients of probabilities may cancel with the row's delta.
    q64, k64, v64, dout64 = wide[:4]
    largest_dp = np.abs(dout64 @ np.repeat(v64, variant.hq // v64.shape[1], 1).transpose(0, 1, 3, 2)).max()
    cancelled = (8 * EPSILON["f32"] * abs(variant.scale) * largest_dp
                 * max(np.abs(q64).max(), np.abs(k64).max()))
    names = ["dq", "dk", "dv", *(f"d{name}" for name, *_ in variant.capture_grads)]
    for name, result, expected, unrounded, other in zip(names, results + capture_grads, wanted, exact, rounded):
        result = result.astype(F64)
        if not np.isfinite(result).all():
            return f"{name} is not finite"
        largest = np.abs(expected).max()
        allowed = (2 * np.abs(other - unrounded).max() + EPSILON[variant.dtype] * largest
                   + weight_error * largest + cancelled + 2e-6 * max(1, largest))
        error = np.abs(result - expected).max()
        if error > allowed:
            return f"{name}: error {error:.3g}, allowed {allowed:.3g}"
    empty = np.isneginf(lse)
    if (results[0][empty] != 0).any():
        return "dq of a row with nothing to attend is not 0"
    # Keys that no query attends, of a tile that none does or of any other.
    b, queries, keys = q64.shape[0], q64.shape[2], k64.shape[2]
    bi, h, i, j = np.ogrid[:b, : variant.hq, :queries, :keys]
    keep = variant.keeps(bi, h, i, j, (queries, keys), captures, reads)
    attended = np.broadcast_to(keep, (b, variant.hq, queries, keys)).any(2)
    for name, result in zip(names[1:3], results[1:3]):
        unused = ~attended.reshape(b, result.shape[1], -1, keys).any(2)
        if identity is None and (result[unused] != 0).any():
            return f"{name} of a key that no query attends is not 0"
    return None


def to_numpy(dtype):
    return {"bf16": np.uint16, "f16": np.float16, "f32": np.float32}[dtype]


def make_shapes(variant, rng, count):
    # 1 query of 128 keys, and 64 more queries than whole tiles of 128.
    fixed = [attention.Shape(variant, *s) for s in ((2, 1, 128), (1, 192, 192))]
    return fixed + attention.make_shapes(variant, rng, count - len(fixed))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", required=True, help="clang")
    parser.add_argument("--library", required=True, help="folder of libattn_runtime")
    parser.add_argument("--work", required=True, help="folder for what is compiled")
    parser.add_argument("--shapes", type=int, default=9, help="shapes of each variant")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)

    paths = [os.path.join(args.work, f"variant{n}") for n in range(len(VARIANTS))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        libraries = list(pool.map(lambda x: attention.compile_variant(*x, args),
                                  zip(VARIANTS, paths)))
    rng = np.random.default_rng(args.seed)
    cases = failures = 0
    for variant, library in zip(VARIANTS, libraries):
        for shape in make_shapes(variant, rng, args.shapes):
            cases += 1
            message = run(variant, library, shape, rng)
            if message:
                failures += 1
                print(f"{variant}\n  b={shape.b} sq={shape.sq} skv={shape.skv}: {message}")
    print(f"{cases} cases, {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
