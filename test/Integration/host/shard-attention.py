# ===- shard-attention.py - Attention of several ranks on the host ----------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Functions that attn-shard-attention makes, called by threads that are the ranks of a local group, against the formula
# of the whole attention, and of its gradients, in f64. The function that is not sharded has the same bits of dropout.
# Ranks send as many bytes as the mask and the method need. Delays do not change results, and failures of one rank end
# all calls. With --random, as many random masks, lengths, methods and numbers of ranks follow, which depend on --seed.
# shard-gradients.test checks gradients.
#
# With --mpi, the ranks are the processes that mpirun has started: the same functions, which the run before has compiled,
# must give the same results by the same number of bytes.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --work %t --runtime %attn_libs_dir/libattn_runtime%shlibext --random 8
# RUN: %if mpi %{ %mpirun -n 4 %python %s --work %t --runtime %attn_libs_dir/libattn_runtime%shlibext --mpi %}
# RUN: %if mpi %{ %mpirun -n 2 %python %s --work %t --runtime %attn_libs_dir/libattn_runtime%shlibext --mpi %}

import argparse
import ctypes
import os
import pickle
import random
import sys
import threading
import zlib
from functools import partial

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python"))

from attn.artifact import DTYPES, Artifact, TensorView  # noqa: E402
from dropout_reference import Dropout, pack  # noqa: E402
from tool_cache import run_tool  # noqa: E402

BATCH, HEADS, KEY_HEADS, DIM, VALUE_DIM = 2, 4, 2, 32, 16
SEED, OFFSET = 0x123456789ABCDEF, 77
TIME_LIMIT_MS = 120000
SHORT_LIMIT_MS = 500
SEND_RECV, ALL_GATHER, ALL_TO_ALL = 0, 1, 2  # attn_comm_kind
# Functions of gradients: with the results of attention as arguments, or with the attention, and their names.
RINGS = ("ring", "zigzag", "striped")
METHODS = ("ring", "zigzag", "striped", "lightseq", "allgather", "ulysses", "usp2")
BALANCED = "lightseq"
# Ranks have every n-th position. Words of keep masks are of neighbors, so that there is no dropout.
STRIPED = "striped"
# Unified sequence parallelism, with the number of ranks that exchange heads: two, or as many as there are heads, and so
# more than heads of keys.
GROUPS = ("usp2", "usp4")
# It has no gradients: all ranks have the queries, and each has a segment of the keys.
SEGMENTS = "distattention"
ALONE, WITH_ATTENTION = "backward", "combined"
FUNCTIONS = {None: "attention", ALONE: "attention_bwd", WITH_ATTENTION: "attention_grad"}
INVALID_ARGUMENT, SHAPE_MISMATCH, DRIVER_ERROR, IO_ERROR = 1, 2, 10, 11  # attn_status


class Faults(ctypes.Structure):
    _fields_ = [("max_delay_us", ctypes.c_int64), ("seed", ctypes.c_uint64), ("fail_at", ctypes.c_int64),
                ("fail_status", ctypes.c_int32), ("reserved", ctypes.c_int32), ("stop_at", ctypes.c_int64),
                ("reserved2", ctypes.c_int64)]  # fmt: skip


class Traffic(ctypes.Structure):
    _fields_ = [("calls", ctypes.c_int64), ("bytes_sent", ctypes.c_int64), ("bytes_received", ctypes.c_int64)]


def to_bf16(array):
    """The bits of bf16 numbers, rounded to the nearest, even in ties."""
    bits = array.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


class Storage:
    """How numbers of an element type are stored."""

    def __init__(self, dtype):
        self.width = 4 if dtype == "f32" else 2
        self.store, self.load = {
            "f32": (lambda x: x.astype(np.float32), lambda x: x),
            "f16": (lambda x: x.astype(np.float16), lambda x: x.astype(np.float32)),
            "bf16": (to_bf16, from_bf16),
        }[dtype]

    def round(self, x):
        return self.load(self.store(x))


class Case:
    """`attended` is a function of arrays of global positions and of the number of keys minus the number of queries.

    The analysis of masks finds which chunks are needed exactly, or, unless `is_exact`, takes more for needed.
    """

    # Whether a ring sends the rows of keys alone that a mask needs.
    has_halo = True

    def __init__(self, name, mask="", attended=None, queries=192, keys=192, mask_mod="", bias=False, sinks=False,
                 lengths=None, dropout=None, dtype="f32", dynamic=False, has_lse=True, is_exact=True, deterministic=False,
                 key_heads=KEY_HEADS, value_heads=None, has_bias_grad=False, mask_layout=None,
                 identity=None):
        self.name, self.mask, self.mask_mod, self.bias, self.sinks = name, mask, mask_mod, bias, sinks
        self.attended = attended or (lambda b, h, i, j, shift: np.ones(np.broadcast_shapes(i.shape, j.shape), bool))
        self.queries, self.keys, self.dropout, self.dtype, self.lengths = queries, keys, dropout, dtype, lengths
        if lengths:
            self.attended = lambda b, h, i, j, shift: j < np.array(lengths)[b] + 0 * i
        self.dynamic, self.has_lse, self.is_exact, self.deterministic = dynamic, has_lse, is_exact, deterministic
        self.key_heads, self.value_heads = key_heads, value_heads or key_heads
        self.has_bias_grad = has_bias_grad
        # The part of the identity in the probabilities of each head.
        self.identity = np.array(identity, np.float32) if identity else None
        # Of the keep mask that attention reads, instead of making random numbers.
        self.mask_layout = mask_layout
        self.storage = Storage(dtype)
        # Probabilities and the output are rounded once, and gradients after the output.
        self.tolerance = {"f32": 2e-5, "bf16": 2**-7, "f16": 2**-10}[dtype]
        self.grad_tolerance = self.tolerance if dtype == "f32" else 2 * self.tolerance

    def pack_mask(self):
        """The keep mask of the whole."""
        at = np.ix_(range(BATCH), range(HEADS), range(self.queries), range(self.keys))
        return pack(self.dropout.keep(SEED, OFFSET, *at).astype(bool), self.mask_layout).view(np.int32)

    def differentiate(self, gradient):
        """The passes that make the function of gradients of the queries, keys, values, sinks and perhaps the bias, and
        nothing else."""
        arguments = "0,1,2,3" if self.sinks else "0,1,2"
        if self.has_bias_grad:
            arguments += ",4" if self.sinks else ",3"
        options = f"function=attention mode={gradient} arguments={arguments}" + " deterministic" * self.deterministic
        privatize = f"--symbol-privatize=exclude={FUNCTIONS[gradient]}"
        return [f"--attn-differentiate={options}", privatize, "--symbol-dce"]

    def destinations(self, types):
        """New destinations of the attention."""
        names = ["out"] + ["lse"] * self.has_lse
        if not self.dynamic:
            return "\n  ".join(f"%{name} = tensor.empty() : {types[name]}" for name in names)
        lines = ["%two = arith.constant 2 : index", f"%length = tensor.dim %q, %two : {types['q']}"]
        return "\n  ".join(lines + [f"%{name} = tensor.empty(%length) : {types[name]}" for name in names])

    def mlir(self, gradient=None):
        """The module of the whole attention. For gradients, it has new destinations."""
        queries, keys = ("?", "?") if self.dynamic else (self.queries, self.keys)
        q = f"tensor<{BATCH}x{HEADS}x{queries}x"
        k, v = (f"tensor<{BATCH}x{heads}x{keys}x" for heads in (self.key_heads, self.value_heads))
        tail = f"x{self.dtype}>"
        types = {"q": f"{q}{DIM}{tail}", "k": f"{k}{DIM}{tail}", "v": f"{v}{VALUE_DIM}{tail}",
                 "out": f"{q}{VALUE_DIM}{tail}"}  # fmt: skip
        results, clauses = [types["out"]], ""
        if self.has_lse:
            types["lse"] = q[:-1] + "xf32>"
            results.append(types["lse"])
        if self.sinks:
            types["sinks"] = f"tensor<{HEADS}xf32>"
            clauses += f" sinks(%sinks : {types['sinks']})"
        if self.identity is not None:
            types["identity"] = f"tensor<{HEADS}xf32>"
            clauses += f" identity(%identity : {types['identity']})"
        if self.lengths:
            types["lengths"] = f"tensor<{BATCH}xi32>"
            clauses += f" key_lengths(%lengths : {types['lengths']})"
        if self.mask:
            clauses += f" mask({self.mask})"
        if self.bias:
            types["bias"] = f"tensor<{HEADS}x{self.keys}xf32>"
        if self.mask_layout:
            sizes = "x".join(map(str, self.pack_mask().shape))
            types["bits"] = f"tensor<{sizes}xi32>"
            clauses += f" dropout_mask {self.mask_layout}(%bits : {types['bits']}) p({self.dropout.p})"
        elif self.dropout:
            types["seed"] = types["offset"] = "tensor<i64>"
            clauses += f" dropout({self.dropout}, %seed, %offset : tensor<i64>, tensor<i64>)"
        if self.bias:
            clauses += f"""
      score_mod {{
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %bias[%h, %j] : {types["bias"]}
        %r = arith.addf %s, %x : f32
        attn.yield %r : f32
      }}"""
        if self.mask_mod:
            clauses += f"""
      mask_mod {{
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        {self.mask_mod}
        attn.yield %kept : i1
      }}"""
        outs = "%out, %lse" if self.has_lse else "%out"
        listed = ", ".join(results)
        values = "%0#0, %0#1" if self.has_lse else "%0"
        arguments = {name: kind for name, kind in types.items() if not gradient or name not in ("out", "lse")}
        return f"""
func.func @attention({", ".join(f"%{name}: {kind}" for name, kind in arguments.items())}) -> ({listed}) {{
  {self.destinations(types) if gradient else ""}
  %0{":2" if self.has_lse else ""} = attn.attention
      ins(%q, %k, %v : {types["q"]}, {types["k"]}, {types["v"]})
      outs({outs} : {listed}){clauses} -> {listed}
  return {values} : {listed}
}}
"""


causal = lambda b, h, i, j, shift: j <= i + shift
DIAGONALS = """%three = arith.constant 3 : index
        %zero = arith.constant 0 : index
        %ij = arith.addi %i, %j : index
        %ijh = arith.addi %ij, %h : index
        %rem = arith.remui %ijh, %three : index
        %kept = arith.cmpi ne, %rem, %zero : index"""

CASES = [
    Case("none", has_lse=False),
    Case("causal", "#attn.causal", causal),
    Case("causal_cross", "#attn.causal", causal, queries=96, keys=240),
    Case("top_left", "#attn.causal<alignment = top_left>", lambda b, h, i, j, shift: j <= i, queries=240, keys=96),
    Case("window", "#attn.sliding_window<left = 40, right = 0>",
         lambda b, h, i, j, shift: (j >= i + shift - 40) & (j <= i + shift)),
    Case("two_sided", "#attn.sliding_window<left = 10, right = 60>",
         lambda b, h, i, j, shift: (j >= i + shift - 10) & (j <= i + shift + 60)),
    Case("diagonal", "#attn.sliding_window<left = 0, right = 0>", lambda b, h, i, j, shift: i + shift == j),
    # For the analysis, quotients are not integers: blocks of neighbors overlap.
    Case("long_window", "#attn.sliding_window<left = 70, right = 5>",
         lambda b, h, i, j, shift: (j >= i + shift - 70) & (j <= i + shift + 5), queries=768, keys=768),
    Case("halo", "#attn.sliding_window<left = 30, right = 0>",
         lambda b, h, i, j, shift: (j >= i + shift - 30) & (j <= i + shift), queries=768, keys=768, sinks=True,
         dropout=Dropout(0.25, "philox", 7)),
    Case("future", "#attn.sliding_window<left = 0, right = 100>",
         lambda b, h, i, j, shift: (j >= i + shift) & (j <= i + shift + 100), queries=768, keys=768, dtype="bf16"),
    Case("blocks", "#attn.local_blocks<size = 16, before = 0, after = 0>",
         lambda b, h, i, j, shift: (i + shift) // 16 == j // 16, is_exact=False),
    Case("global", "#attn.or<#attn.global_tokens<count = 20>, #attn.sliding_window<left = 30, right = 0>>",
         lambda b, h, i, j, shift: (i < 20) | (j < 20) | ((j >= i + shift - 30) & (j <= i + shift))),
    Case("mask_mod", "#attn.causal", lambda b, h, i, j, shift: (j <= i + shift) & ((i + j + h) % 3 != 0),
         mask_mod=DIAGONALS),
    Case("bias", "#attn.causal", causal, bias=True),
    Case("sinks", "#attn.sliding_window<left = 50, right = 0>",
         lambda b, h, i, j, shift: (j >= i + shift - 50) & (j <= i + shift), sinks=True, has_lse=False),
    Case("dropout", "#attn.causal", causal, queries=256, keys=256, dropout=Dropout(0.25, "philox", 7)),
    Case("dropout_arx", queries=128, keys=256, dropout=Dropout(0.5, "arx", 6, bits=4), has_lse=False),
    Case("dynamic", "#attn.causal", causal, dynamic=True),
    Case("bf16", "#attn.causal", causal, dtype="bf16"),
    Case("f16", "#attn.causal", causal, dtype="f16", has_lse=False),
    # One key head for each query head, and one for all of them.
    Case("heads", "#attn.causal", causal, queries=128, keys=128, dropout=Dropout(0.25, "philox", 7), key_heads=HEADS),
    Case("one_head", "#attn.sliding_window<left = 50, right = 0>",
         lambda b, h, i, j, shift: (j >= i + shift - 50) & (j <= i + shift), queries=128, keys=128, bias=True,
         dropout=Dropout(0.5, "arx", 6), key_heads=1),
    # Other numbers of value heads than of key heads.
    Case("value_heads", "#attn.causal", causal, key_heads=1, value_heads=HEADS),
    Case("one_value_head", "#attn.causal", causal, queries=128, keys=128, dropout=Dropout(0.25, "philox", 7),
         key_heads=HEADS, value_heads=1),
    Case("deterministic", "#attn.causal", causal, sinks=True, deterministic=True),
    # Ranks read the blocks of 64 by 64 pairs of their chunks.
    Case("dropout_mask", "#attn.causal", causal, queries=512, keys=512, dropout=Dropout(0.25, "philox", 7), sinks=True,
         mask_layout="rows"),
    Case("dropout_columns", "#attn.sliding_window<left = 150, right = 0>",
         lambda b, h, i, j, shift: (j >= i + shift - 150) & (j <= i + shift), queries=512, keys=1024, key_heads=1,
         dropout=Dropout(0.5, "arx", 6, bits=4), mask_layout="columns"),
    # The value of a row is on the same rank.
    Case("identity", "#attn.causal", causal, identity=[0, 0.25, 1, 0.5]),
    Case("identity_dropout", queries=256, keys=256, identity=[0.5, 0.75, 0, 1], key_heads=1, value_heads=HEADS,
         dropout=Dropout(0.25, "philox", 7), has_lse=False),
    Case("identity_bf16", "#attn.sliding_window<left = 50, right = 5>",
         lambda b, h, i, j, shift: (j >= i + shift - 50) & (j <= i + shift + 5), identity=[0.5, 0.25, 0.125, 0.75],
         dtype="bf16"),
    # Each rank has terms of the gradients of all elements of a captured tensor.
    Case("bias_grad", "#attn.causal", causal, bias=True, has_bias_grad=True),
    Case("bias_grad_window", "#attn.sliding_window<left = 50, right = 10>",
         lambda b, h, i, j, shift: (j >= i + shift - 50) & (j <= i + shift + 10), queries=96, keys=240, bias=True,
         sinks=True, has_bias_grad=True, dtype="bf16"),
]  # fmt: skip


# A number of ranks that does not divide the lengths of the others.
FIVE_RANKS = Case("causal_five", "#attn.causal", causal, queries=240, keys=240, sinks=True)

# Cases that say which heads a rank has, with one key head for each query head and with fewer.
GROUP_CASES = ("causal", "mask_mod", "sinks", "heads", "one_head", "value_heads", "one_value_head", "bias_grad",
               "dropout_mask", "identity")
# For few queries: the numbers of keys of a KV cache, whose segments may be empty, full or in between.
SEGMENT_CASES = [
    Case("one_query", "#attn.causal", queries=1, keys=256, sinks=True),
    Case("few_queries", "#attn.sliding_window<left = 100, right = 0>",
         lambda b, h, i, j, shift: (j >= i + shift - 100) & (j <= i + shift), queries=5, keys=240),
    Case("cache", "#attn.causal", queries=1, keys=240, lengths=[0, 201]),
    Case("cache_f16", queries=3, keys=240, lengths=[240, 61], dtype="f16", sinks=True),
    Case("cache_dynamic", queries=1, keys=240, lengths=[120, 119], dynamic=True, has_lse=False),
]  # fmt: skip


class RandomCases:
    """Cases with a method and a number of ranks, which follow from a seed."""

    def __init__(self, seed, methods):
        self.seed, self.rng, self.methods = seed, random.Random(seed), methods

    def number(self, least=0):
        return self.rng.choice([least, least + 1, self.rng.randint(least, 24), self.rng.randint(least, 150)])

    def alignment(self, text):
        """The text of a mask with an alignment, and the key on the diagonal of a query."""
        if self.rng.random() < 0.6:
            return text, lambda i, shift: i + shift
        if "<" in text:
            return f"{text[:-1]}, alignment = top_left>", lambda i, shift: i
        return f"{text}<alignment = top_left>", lambda i, shift: i

    def window(self):
        left, right = self.number(), self.number()
        text, diagonal = self.alignment(f"#attn.sliding_window<left = {left}, right = {right}>")
        return text, lambda b, h, i, j, shift: (j >= diagonal(i, shift) - left) & (j <= diagonal(i, shift) + right)

    def dilated_window(self):
        left, right, step = self.number(), self.number(), self.number(1)
        text, diagonal = self.alignment(f"#attn.dilated_window<left = {left}, right = {right}, dilation = {step}>")

        def attended(b, h, i, j, shift):
            distance = diagonal(i, shift) - j
            return (distance <= left) & (-distance <= right) & (distance % step == 0)

        return text, attended

    def blocks(self):
        size, before, after = self.number(1), self.rng.randint(0, 2), self.rng.randint(0, 2)
        text, diagonal = self.alignment(f"#attn.local_blocks<size = {size}, before = {before}, after = {after}>")

        def attended(b, h, i, j, shift):
            distance = j // size - diagonal(i, shift) // size
            return (distance >= -before) & (distance <= after)

        return text, attended

    def causal(self):
        text, diagonal = self.alignment("#attn.causal")
        return text, lambda b, h, i, j, shift: j <= diagonal(i, shift)

    def prefix(self):
        length = self.number()
        text, diagonal = self.alignment(f"#attn.prefix_lm<length = {length}>")
        return text, lambda b, h, i, j, shift: (j < length) | (j <= diagonal(i, shift))

    def global_tokens(self):
        count = self.number()
        return f"#attn.global_tokens<count = {count}>", lambda b, h, i, j, shift: (i < count) | (j < count)

    def mask(self, depth):
        """The text and the function of a mask."""
        if depth == 0 or self.rng.random() < 0.5:
            kinds = [self.causal, self.window, self.dilated_window, self.blocks, self.prefix, self.global_tokens]
            return self.rng.choice(kinds)()
        kind = self.rng.choice(["and", "or", "not"])
        text, first = self.mask(depth - 1)
        if kind == "not":
            return f"#attn.not<{text}>", lambda *at: ~first(*at)
        other, second = self.mask(depth - 1)
        combine = np.logical_and if kind == "and" else np.logical_or
        return f"#attn.{kind}<{text}, {other}>", lambda *at: combine(first(*at), second(*at))

    def make(self, number):
        """A case, a method, a number of ranks, and a function of its gradients."""
        self.rng = random.Random(f"{self.seed} {number}")
        maybe = lambda probability: self.rng.random() < probability
        method = self.rng.choice(self.methods)
        ranks = self.rng.choice([1, 2, 4]) if method == "ulysses" else self.rng.randint(1, 6)
        if method in GROUPS:
            ranks = degree_of(method) * self.rng.randint(2, 8 // degree_of(method))
        dropout = None
        if maybe(0.3) and method != STRIPED:
            name, rounds = self.rng.choice([("philox", 7), ("arx", 6), ("threefry", 20)])
            dropout = Dropout(self.rng.choice([0.25, 0.5]), name, rounds)
        # Chunks are equally long, and with dropout words of keep masks begin at them.
        has_pairs = method in ("zigzag", *GROUPS)
        unit = ranks * (2 if has_pairs else 1) * (16 if dropout else 1)
        queries, keys = (unit * self.rng.randint(1, max(1, 240 // unit)) for _ in range(2))
        mask, named = self.mask(3) if maybe(0.8) else ("", lambda b, h, i, j, shift: i + j >= 0)
        has_mod = maybe(0.25)
        attended = (lambda b, h, i, j, shift: named(b, h, i, j, shift) & ((i + j + h) % 3 != 0)) if has_mod else named
        has_bias = maybe(0.3)
        case = Case(f"random_{self.seed}_{number}", mask, attended, queries, keys, DIAGONALS if has_mod else "",
                    bias=has_bias, has_bias_grad=has_bias and method != BALANCED, sinks=maybe(0.3),
                    dropout=dropout, dtype="bf16" if maybe(0.25) else "f32",
                    dynamic=not has_pairs and maybe(0.3), has_lse=maybe(0.5), is_exact=False)  # fmt: skip
        return case, method, ranks, self.rng.choice([ALONE, WITH_ATTENTION])


class Inputs:
    """Inputs, and the results and perhaps the gradients of the whole attention in f64."""

    def __init__(self, case, seed, gradient=None, has_reference=True):
        rng = np.random.default_rng(seed)

        def draw(*shape):
            return case.storage.round(rng.standard_normal(shape).astype(np.float32))

        self.case = case
        self.q = draw(BATCH, HEADS, case.queries, DIM)
        self.k = draw(BATCH, case.key_heads, case.keys, DIM)
        self.v = draw(BATCH, case.value_heads, case.keys, VALUE_DIM)
        self.bias, self.sinks = draw(HEADS, case.keys), draw(HEADS)
        self.dout, self.dlse = draw(*self.q.shape[:3], VALUE_DIM), draw(*self.q.shape[:3])
        if has_reference:
            self.compute(gradient)

    def compute(self, gradient):
        """The reference."""
        case = self.case
        at = np.ix_(range(BATCH), range(HEADS), range(case.queries), range(case.keys))
        shape = (BATCH, HEADS, case.queries, case.keys)
        self.attended = np.broadcast_to(case.attended(*at, case.keys - case.queries), shape)
        q, k, v = (x.astype(np.float64) for x in (self.q, self.repeat(self.k), self.repeat(self.v)))
        score = np.einsum("bhid,bhjd->bhij", q, k) * DIM**-0.5
        score = np.where(self.attended, self.modify_score(score), -np.inf)
        sink = self.sinks if case.sinks else np.full(HEADS, -np.inf)
        logits = np.concatenate([score, np.broadcast_to(sink[:, None, None], (*shape[:3], 1))], -1)
        largest = logits.max(-1, keepdims=True)
        base = np.where(np.isneginf(largest), 0.0, largest)
        with np.errstate(divide="ignore", invalid="ignore"):
            lse = base + np.log(np.exp(logits - base).sum(-1, keepdims=True))
            p = np.where(np.isneginf(logits), 0.0, np.exp(logits - lse))
        # What each probability is multiplied by; the sink has no value.
        kept = np.ones(shape)
        if case.dropout:
            kept = case.dropout.keep(SEED, OFFSET, *self.at_pairs(at)) / case.dropout.keep_probability
        self.expected = {"out": np.einsum("bhij,bhjd->bhid", p[..., :-1] * kept, v), "lse": lse[..., 0]}
        # What is left of the probabilities, and the part of the value of the same row.
        mixed = np.zeros(HEADS) if case.identity is None else case.identity.astype(np.float64)
        mixed = mixed[:, None, None]
        kept = kept * (1 - mixed)
        if case.identity is not None:
            self.expected["out"] = (1 - mixed) * self.expected["out"] + mixed * v
        self.magnitudes = {}
        if gradient:
            self.differentiate(q, k, v, p, kept, mixed)

    def at_pairs(self, at):
        """The coordinates of pairs that random numbers depend on."""
        return at

    def modify_score(self, score):
        return score + self.bias[:, None, :] if self.case.bias else score

    def modify_score_grad(self, grad):
        """The gradient of scores from the gradient of modified scores."""
        return grad

    def repeat(self, heads):
        """A head of keys or values for each query head."""
        return heads.repeat(HEADS // heads.shape[1], 1)

    def differentiate(self, q, k, v, p, kept, mixed):
        """The gradients of sum(dout * out) + sum(dlse * lse), from probabilities `p`, of which the sink's is the last."""
        case = self.case
        dout, dlse = self.dout.astype(np.float64), self.dlse.astype(np.float64) * case.has_lse
        dp = np.zeros_like(p)
        dp[..., :-1] = np.einsum("bhid,bhjd->bhij", dout, v) * kept
        dlogits = p * (dp - (p * dp).sum(-1, keepdims=True) + dlse[..., None])
        dscore = self.modify_score_grad(dlogits[..., :-1]) * DIM**-0.5
        add_up = lambda x, heads: x.reshape(BATCH, heads, HEADS // heads, *x.shape[2:]).sum(2)
        self.expected["dq"] = np.einsum("bhij,bhjd->bhid", dscore, k)
        self.expected["dk"] = add_up(np.einsum("bhij,bhid->bhjd", dscore, q), case.key_heads)
        self.expected["dv"] = add_up(np.einsum("bhij,bhid->bhjd", p[..., :-1] * kept, dout), case.value_heads)
        if case.identity is not None:
            self.expected["dv"] += add_up(mixed * dout, case.value_heads)
        self.expected["dsinks"] = dlogits[..., -1].sum((0, 2))
        self.expected["dbias"] = dlogits[..., :-1].sum((0, 2))
        # Errors of rounded outputs add up over the rows.
        self.magnitudes["dsinks"] = np.abs(dlogits[..., -1]).sum((0, 2))
        self.magnitudes["dbias"] = np.abs(dlogits[..., :-1]).sum((0, 2))

    def tolerance(self, name):
        return self.case.grad_tolerance if name.startswith("d") else self.case.tolerance

    def arguments(self, part, key_part, gradient=None):
        """The arguments of a rank, and its results by name, which are at first no numbers."""
        case, store = self.case, self.case.storage.store
        q, k, v = store(self.q[:, :, part]), store(self.k[:, :, key_part]), store(self.v[:, :, key_part])
        extra = [self.sinks] * case.sinks + [case.identity] * (case.identity is not None) + [self.bias] * case.bias
        extra += [np.array(case.lengths, np.int32)] if case.lengths else []
        if case.mask_layout:
            extra += [case.pack_mask()]
        elif case.dropout:
            extra += [np.array(SEED), np.array(OFFSET)]
        out = store(np.full((*q.shape[:3], VALUE_DIM), np.nan, np.float32))
        results = {"out": out, "lse": np.full(q.shape[:3], np.nan, np.float32)}
        if not case.has_lse:
            del results["lse"]
        if not gradient:
            return [q, k, v, *results.values(), *extra], results
        arguments = [q, k, v, *extra]
        if gradient == ALONE:
            out, lse = self.expected["out"][:, :, part], self.expected["lse"][:, :, part]
            arguments += [store(np.ascontiguousarray(out, np.float32)), np.ascontiguousarray(lse, np.float32)]
            results = {}
        arguments += [store(self.dout[:, :, part])] + [self.dlse[:, :, part].copy()] * case.has_lse
        for name, like in (("dq", q), ("dk", k), ("dv", v)):
            results[name] = store(np.full(like.shape, np.nan, np.float32))
        if case.sinks:
            results["dsinks"] = np.full(HEADS, np.nan, np.float32)
        if case.has_bias_grad:
            results["dbias"] = np.full(self.bias.shape, np.nan, np.float32)
        return arguments + list(results.values()), results


NAMES = {np.dtype(np.float32): "f32", np.dtype(np.float16): "f16", np.dtype(np.uint16): "bf16",
         np.dtype(np.int32): "i32", np.dtype(np.int64): "i64"}  # fmt: skip


def call(function, arrays):
    """The status and the text of a call."""
    views = []
    for array in arrays:
        strides = [stride // array.itemsize for stride in array.strides]
        views.append(TensorView.make(array.shape, strides, DTYPES.index(NAMES[array.dtype]), -1))
        views[-1].data = array.ctypes.data
    pointers = (ctypes.POINTER(TensorView) * len(views))(*map(ctypes.pointer, views))
    status = function.call(pointers, len(views), None)
    return status, function.last_error().decode() if status else ""


class Group:
    """Local ranks that record their traffic."""

    def __init__(self, library, ranks, limit_ms=TIME_LIMIT_MS, faults=None):
        self.library, self.ranks = library, ranks
        self.comms = (ctypes.c_void_p * ranks)()
        assert library.attn_comm_create_local(ranks, ctypes.c_int64(limit_ms), self.comms) == 0
        for rank in range(ranks):
            given = ctypes.byref(faults(rank)) if faults else None
            comm = ctypes.c_void_p()
            assert library.attn_comm_create_recording(ctypes.c_void_p(self.comms[rank]), given, ctypes.byref(comm)) == 0
            self.comms[rank] = comm

    def run(self, body):
        """The results of `body(rank)` on a thread for each rank."""
        results = [None] * self.ranks

        def run_rank(rank):
            self.library.attn_comm_set_current(ctypes.c_void_p(self.comms[rank]))
            results[rank] = body(rank)

        threads = [threading.Thread(target=run_rank, args=(rank,)) for rank in range(self.ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    def share(self, values):
        """The values of all ranks, each of which the rank itself has computed."""
        return values

    def traffic(self):
        """The traffic of all ranks by the kind of calls."""
        return self.share([self.traffic_of(comm) for comm in self.comms])

    def traffic_of(self, comm):
        found = {}
        for kind in (SEND_RECV, ALL_GATHER, ALL_TO_ALL):
            found[kind] = Traffic()
            assert self.library.attn_comm_get_traffic(ctypes.c_void_p(comm), kind, ctypes.byref(found[kind])) == 0
        return {kind: traffic.bytes_sent for kind, traffic in found.items()}

    def destroy(self):
        for comm in self.comms:
            self.library.attn_comm_destroy(ctypes.c_void_p(comm))


class World:
    """The processes that mpirun has started, which tell each other their results."""

    def __init__(self, library):
        self.library, self.comm = library, self.create(library, TIME_LIMIT_MS)
        header = ctypes.cast(self.comm, ctypes.POINTER(ctypes.c_int32))
        self.rank, self.ranks = header[2], header[3]  # attn_comm

    @staticmethod
    def create(library, limit_ms):
        comm = ctypes.c_void_p()
        status = library.attn_comm_create_mpi(ctypes.c_int64(limit_ms), ctypes.byref(comm))
        assert status == 0, library.attnGetLastError()
        return comm

    def gather_bytes(self, own):
        parts = ctypes.create_string_buffer(len(own) * self.ranks)
        size = ctypes.c_int64(len(own))
        status = self.library.attn_comm_all_gather(self.comm, own, parts, size, None)
        assert status == 0, self.library.attnGetLastError()
        return [parts.raw[rank * len(own) : (rank + 1) * len(own)] for rank in range(self.ranks)]

    def gather(self, value):
        """The values of all ranks."""
        own = pickle.dumps(value)
        sizes = [int.from_bytes(part, "little") for part in self.gather_bytes(len(own).to_bytes(8, "little"))]
        return [pickle.loads(part[:size]) for part, size in zip(self.gather_bytes(own.ljust(max(sizes))), sizes)]


class ProcessGroup(Group):
    """A new group of all processes; this one is one rank."""

    def __init__(self, world, limit_ms=TIME_LIMIT_MS, faults=None):
        self.library, self.world, self.ranks = world.library, world, world.ranks
        world.gather(None)
        given, comm = ctypes.byref(faults(world.rank)) if faults else None, ctypes.c_void_p()
        inner = World.create(world.library, limit_ms)
        assert self.library.attn_comm_create_recording(inner, given, ctypes.byref(comm)) == 0
        self.comms = [comm.value]
        # A rank that fails must not fail the others while they join.
        world.gather(None)

    def run(self, body):
        self.library.attn_comm_set_current(ctypes.c_void_p(self.comms[0]))
        result = body(self.world.rank)
        self.library.attn_comm_set_current(None)
        return self.world.gather(result)

    def share(self, values):
        return self.world.gather(values[self.world.rank if len(values) > 1 else 0])


def degree_of(method):
    """How many neighboring ranks exchange heads, and are together the member of a ring."""
    return int(method[3:]) if method.startswith("usp") else 1


def shard_option(method, ranks):
    """The pass that makes functions of one rank."""
    option = f"method=usp ulysses-degree={degree_of(method)}" if method.startswith("usp") else f"method={method}"
    return f"--attn-shard-attention={option} ranks={ranks}"


def positions_of(method, rank, ranks, length):
    """The positions that a rank has."""
    if method.startswith("usp"):
        degree = degree_of(method)
        of_group = positions_of("zigzag", rank // degree, ranks // degree, length)
        return of_group.reshape(degree, -1)[rank % degree]
    if method == STRIPED:
        return np.arange(length).reshape(-1, ranks)[:, rank]
    if method != "zigzag":
        return np.arange(length).reshape(ranks, -1)[rank]
    chunks = np.arange(length).reshape(2 * ranks, -1)
    return np.concatenate([chunks[rank], chunks[2 * ranks - 1 - rank]])


def queries_of(method, rank, ranks, length):
    """The positions of the queries that a rank has."""
    return np.arange(length) if method == SEGMENTS else positions_of(method, rank, ranks, length)


def find_needs(attended, method, ranks):
    """Whether each rank attends to keys of each other one."""
    queries, keys = ([positions_of(method, rank, ranks, size) for rank in range(ranks)] for size in attended.shape[2:])
    return [[bool(attended[:, :, queries[r]][..., keys[c]].any()) for c in range(ranks)] for r in range(ranks)]


def count_messages(attended, method, ranks):
    """How often each rank sends keys in a ring, and how often it sends gradients to the owner of the keys: keys go on
    until no later rank attends to them, and their gradients come back from there."""
    if method in GROUPS:
        degree = degree_of(method)
        counts = count_messages(attended, "zigzag", ranks // degree)
        return [[count for count in of_groups for _ in range(degree)] for of_groups in counts]
    needs = find_needs(attended, method, ranks)
    sent, returned = [0] * ranks, [0] * ranks
    for chunk in range(ranks):
        distances = [d for d in range(1, ranks) if needs[(chunk + d) % ranks][chunk]]
        farthest = max(distances, default=0)
        for distance in range(farthest):
            sent[(chunk + distance) % ranks] += 1
        returned[(chunk + farthest) % ranks] += farthest > 0
    return sent, returned


def count_sent_rows(attended, ranks):
    """How many rows of a chunk of keys ranks send in a ring with one chunk each: those from the first to the last one
    that queries of some other chunk attend to, in units of 64 rows."""
    size = attended.shape[3] // ranks
    of_chunks = attended.any((0, 1)).reshape(ranks, -1, ranks, size)
    rows = np.flatnonzero([of_chunks[~np.eye(ranks, dtype=bool)[:, key], :, key].any((0, 1))
                           for key in range(ranks)]) % size  # fmt: skip
    if not rows.size:
        return size
    return min(-(-(rows.max() + 1) // 64) * 64, size) - rows.min() // 64 * 64


def count_causal_messages(rank, ranks):
    """How often a rank of the balanced schedule sends keys, queries, results of queries and gradients of keys, with a
    causal mask (docs/HowTo/ShardAttention.md)."""
    half, helped = ranks // 2, (ranks - 1) // 2
    keys = min(half, ranks - 1 - rank)
    return keys, max(0, helped - keys), max(0, helped - rank), min(half, rank)


def balanced_bytes(case, ranks, gradient, counts):
    """The bytes of such messages."""
    elements = BATCH * case.keys // ranks * (case.key_heads * DIM + case.value_heads * VALUE_DIM)
    row, width = BATCH * case.queries // ranks * HEADS, case.storage.width
    lse = row * 4
    forward = elements * width, row * DIM * width, row * VALUE_DIM * 4 + lse, 0
    rows = row * (DIM + 2 * VALUE_DIM) * width + lse * (1 + case.has_lse)
    backward = elements * width, rows, row * DIM * 4, elements * 4
    passes = {None: [forward], ALONE: [backward], WITH_ATTENTION: [forward, backward]}[gradient]
    return sum(sum(np.multiply(counts, sizes)) for sizes in passes)


def check_balanced_traffic(inputs, ranks, gradient, sent):
    """Whether ranks sent as many bytes as a balanced schedule needs: each pair of chunks of two ranks is a message with
    keys, or one with queries and one with their results."""
    case, chunks = inputs.case, range(ranks)
    needs = [[True] * ranks] * ranks if case.dynamic else find_needs(inputs.attended, BALANCED, ranks)
    pairs = {(i, j) for i in chunks for j in chunks if i != j and needs[i][j]}
    get_bytes = lambda counts: balanced_bytes(case, ranks, gradient, counts)
    if case.is_exact and (len(pairs) == ranks * (ranks - 1) or pairs == {(i, j) for i in chunks for j in range(i)}):
        causal_counts = [count_causal_messages(rank, ranks) for rank in chunks]
        is_full = len(pairs) == ranks * (ranks - 1)
        expected = [get_bytes((ranks - 1, 0, 0, ranks - 1) if is_full else causal_counts[rank]) for rank in chunks]
        return [] if sent == expected else [f"ranks sent {sent} bytes, expected {expected}"]
    # The schedule is free to choose the rank of a pair that is reached in one direction.
    most = len(pairs) if case.is_exact else ranks * (ranks - 1)
    helpers = range(ranks * (ranks - 1) // 2 + 1)
    totals = {get_bytes((count - helped, helped, helped, count - helped))
              for count in range(len(pairs), most + 1) for helped in helpers if helped <= count}  # fmt: skip
    return [] if sum(sent) in totals else [f"ranks sent {sum(sent)} bytes, expected one of {sorted(totals)}"]


def exchanged_bytes(case, ranks, gradient, degree):
    """The bytes that each rank sends to others if groups of `degree` ranks exchange heads for positions: of a tensor
    with fewer heads than these, each of them gets one head, and gradients of it are f32."""
    row = BATCH * case.queries // ranks * HEADS
    width, lse = case.storage.width, 4 * case.has_lse
    q, out = row * DIM * width, row * VALUE_DIM * width
    kv = dkv = 0
    for heads, dim in ((case.key_heads, DIM), (case.value_heads, VALUE_DIM)):
        elements = BATCH * case.keys // ranks * max(heads, degree) * dim
        kv += elements * width
        dkv += elements * (4 if heads < degree else width)
    # Outputs are mixed with the identity before they are rounded.
    forward = q + kv + (out if case.identity is None else row * VALUE_DIM * 4) + row * lse
    # The gradient needs the log-sum-exp, whether or not it has a gradient.
    backward = q + kv + out + row * 4 + out + row * lse + q + dkv
    total = {None: forward, ALONE: backward, WITH_ATTENTION: forward + backward}[gradient]
    if gradient == WITH_ATTENTION and not case.has_lse:
        total += row * 4
    return total * (degree - 1) // degree


class Tester:
    def __init__(self, args):
        self.work, self.runtime = args.work, args.runtime
        self.library = ctypes.CDLL(args.runtime)
        self.library.attnGetLastError.restype = ctypes.c_char_p
        self.world = World(self.library) if args.mpi else None

    def group(self, ranks, limit_ms=TIME_LIMIT_MS, faults=None):
        if not self.world:
            return Group(self.library, ranks, limit_ms, faults)
        assert ranks == self.world.ranks
        return ProcessGroup(self.world, limit_ms, faults)

    def compile(self, name, text, passes=(), function="attention"):
        path = os.path.join(self.work, name)
        if self.world:
            # One process compiles what the run before has not compiled.
            if self.world.rank == 0 and not os.path.exists(path + ".so"):
                self.compile_file(path, text, passes)
            self.world.gather(None)
        else:
            self.compile_file(path, text, passes)
        return Artifact(path + ".so", self.runtime)[function]

    @staticmethod
    def compile_file(path, text, passes):
        with open(path + ".mlir", "w") as file:
            file.write(text)
        source = path + ".mlir"
        if passes:
            source = path + ".sharded.mlir"
            run_tool(["attn-opt", path + ".mlir", *passes, "-o", source])
        # Other suites test the optimized kernels.
        run_tool(["attn-compile", source, "-o", path + ".so", "--target=host", "--host-opt-level=0"])

    def shard(self, case, method, ranks, gradient=None):
        passes = case.differentiate(gradient) if gradient else []
        passes.append(shard_option(method, ranks))
        name = f"{case.name}_{method}_{ranks}" + (f"_{gradient}" if gradient else "")
        return self.compile(name, case.mlir(gradient), passes, FUNCTIONS[gradient])

    def run(self, function, inputs, method, group, gradient=None):
        """The statuses of all ranks, and the results of the whole."""
        ranks, case = group.ranks, inputs.case
        places = [
            [queries_of(method, rank, ranks, case.queries), positions_of(method, rank, ranks, case.keys)]
            for rank in range(ranks)
        ]
        chunks = [inputs.arguments(*place, gradient) for place in places]
        statuses = group.run(lambda rank: call(function, chunks[rank][0]))
        shared, found = group.share([results for _, results in chunks]), {}
        for name in shared[0]:
            parts = [results[name] for results in shared]
            if name in ("dsinks", "dbias") or method == SEGMENTS:
                # All ranks have all of it, with the same bits.
                if not all(np.array_equal(part, parts[0]) for part in parts):
                    parts[0] = np.full_like(parts[0], np.nan)
                found[name] = parts[0] if name in ("dsinks", "dbias", "lse") else case.storage.load(parts[0])
                continue
            order = np.argsort(np.concatenate([place[name in ("dk", "dv")] for place in places]))
            whole = np.concatenate(parts, 2)[:, :, order]
            found[name] = whole if name == "lse" else case.storage.load(whole)
        return statuses, found

    @staticmethod
    def sent_bytes(case, method, ranks, gradient, sent, returned, rows):
        """The bytes that a rank sends by calls of each kind, if it sends `rows` rows of keys `sent` times in a ring, and
        returns the gradients of others' keys `returned` times."""
        degree = degree_of(method)
        heads = max(case.key_heads, degree), max(case.value_heads, degree)
        elements = BATCH * rows * (heads[0] * DIM + heads[1] * VALUE_DIM)
        keys, gradients = elements * case.storage.width, elements * 4
        if gradient is None:
            gradients = 0
        sinks = HEADS * 4 * (ranks - 1) if gradient and case.sinks else 0
        # Ranks gather their terms of the gradients of captured tensors.
        sinks += HEADS * case.keys * 4 * (ranks - 1) if gradient and case.has_bias_grad else 0
        if method == SEGMENTS:
            partial = BATCH * HEADS * case.queries * (VALUE_DIM + 1) * 4
            return {SEND_RECV: 0, ALL_GATHER: (ranks - 1) * partial, ALL_TO_ALL: 0}
        if method == "ulysses" or degree == ranks:
            return {SEND_RECV: 0, ALL_GATHER: sinks, ALL_TO_ALL: exchanged_bytes(case, ranks, gradient, ranks)}
        if method == "allgather":
            # Attention and its gradient gather the same keys.
            return {SEND_RECV: 0, ALL_GATHER: (ranks - 1) * keys + sinks, ALL_TO_ALL: (ranks - 1) * gradients}
        passes = 2 if gradient == WITH_ATTENTION else 1
        messages = passes * sent * keys + (sent + returned) * gradients
        return {SEND_RECV: messages + exchanged_bytes(case, ranks, gradient, degree), ALL_GATHER: sinks, ALL_TO_ALL: 0}

    def check_traffic(self, inputs, method, group, gradient, traffic):
        """Whether ranks sent what the method needs."""
        ranks, case, wrong = group.ranks, inputs.case, []
        if method == BALANCED:
            sinks = HEADS * 4 * (ranks - 1) if gradient and case.sinks else 0
            for rank, found in enumerate(traffic):
                if found[ALL_GATHER] != sinks or found[ALL_TO_ALL]:
                    wrong.append(f"rank {rank} sent {found} bytes, expected {sinks} for the gradient of sinks")
            sent = [found[SEND_RECV] for found in traffic]
            return wrong + check_balanced_traffic(inputs, ranks, gradient, sent)
        members = ranks // degree_of(method)
        counts, rows = ([ranks - 1] * ranks, [int(ranks > 1)] * ranks), case.keys // ranks
        is_ring = method in (*RINGS, *GROUPS)
        if is_ring and not case.dynamic:
            counts = count_messages(inputs.attended, method, ranks)
            rows = count_sent_rows(inputs.attended, ranks) if method == "ring" and case.has_halo else rows
        for rank, (found, sent, returned) in enumerate(zip(traffic, *counts)):
            choices = [(sent, returned, rows)]
            if is_ring and not case.is_exact:
                choices = [(i, j, k) for i in range(sent, members) for j in range(members if gradient else 1)
                           for k in {case.keys // ranks, *range(rows, case.keys // ranks, 64)}]  # fmt: skip
            expected = [self.sent_bytes(case, method, ranks, gradient, *choice) for choice in choices]
            if found not in expected:
                wrong.append(f"rank {rank} sent {found} bytes, expected {expected}")
        return wrong

    def check_case(self, case, method, ranks, gradient=None):
        # Of several processes, one compares.
        compares = not self.world or self.world.rank == 0
        inputs = Inputs(case, ranks, gradient, has_reference=compares or gradient == ALONE)
        function = self.shard(case, method, ranks, gradient)
        group = self.group(ranks)
        statuses, found = self.run(function, inputs, method, group, gradient)
        traffic = group.traffic()
        if not compares:
            group.destroy()
            return []
        wrong = [text for status, text in statuses if status]
        for name, result in found.items():
            expected = inputs.expected[name]
            with np.errstate(invalid="ignore"):
                errors = np.where(result == expected, 0, np.abs(result - expected))
            magnitude = inputs.magnitudes.get(name, np.where(np.isinf(expected), 1, np.abs(expected)))
            error = (errors / np.maximum(1, magnitude)).max()
            if not error <= inputs.tolerance(name):
                wrong.append(f"{name}: error {error:.2g}")
        wrong += self.check_traffic(inputs, method, group, gradient, traffic)
        group.destroy()
        return wrong

    def check_bits(self, method, ranks):
        """Attention with equal probabilities to keys whose values are unit vectors: outputs show which are kept."""
        dropout, length = Dropout(0.375, "philox", 7), 128
        sizes = f"tensor<1x2x{length}x"
        text = f"""
func.func @attention(%q: {sizes}16xf32>, %v: {sizes}{length}xf32>, %out: {sizes}{length}xf32>, %seed: tensor<i64>,
                     %offset: tensor<i64>) -> {sizes}{length}xf32> {{
  %0 = attn.attention ins(%q, %q, %v : {sizes}16xf32>, {sizes}16xf32>, {sizes}{length}xf32>)
      outs(%out : {sizes}{length}xf32>) dropout({dropout}, %seed, %offset : tensor<i64>, tensor<i64>)
      -> {sizes}{length}xf32>
  return %0 : {sizes}{length}xf32>
}}
"""
        q, out = np.zeros((1, 2, length, 16), np.float32), np.full((1, 2, length, length), np.nan, np.float32)
        v = np.broadcast_to(np.eye(length, dtype=np.float32), out.shape).copy()
        state = [np.array(SEED), np.array(OFFSET)]
        whole = self.compile("bits", text)
        assert call(whole, [q, v, out, *state])[0] == 0
        option = shard_option(method, ranks)
        function = self.compile(f"bits_{method}_{ranks}", text, [option])
        group = self.group(ranks)
        places = [positions_of(method, rank, ranks, length) for rank in range(ranks)]
        chunks = [[x[:, :, place].copy() for x in (q, v, np.full_like(v, np.nan))] for place in places]
        statuses = group.run(lambda rank: call(function, [*chunks[rank], *state]))
        results = group.share([result for _, _, result in chunks])
        group.destroy()
        found = np.concatenate(results, 2)[:, :, np.argsort(np.concatenate(places))]
        keep = dropout.keep(SEED, OFFSET, *np.ix_(range(1), range(2), range(length), range(length)))
        wrong = [text for status, text in statuses if status]
        for name, result in (("whole", out), ("sharded", found)):
            if not np.array_equal(result != 0, keep.astype(bool)) or np.isnan(result).any():
                wrong.append(f"the {name} attention keeps {int((result != 0).sum())} pairs, expected {int(keep.sum())}")
        return wrong

    def check_gradient_bits(self, method, ranks):
        """The gradient of attention with equal probabilities, whose outputs have unit vectors for gradients: gradients
        of values show which probabilities are kept."""
        dropout, length = Dropout(0.375, "philox", 7), 128
        shape, rows = f"tensor<1x2x{length}x{length}xf32>", f"tensor<1x2x{length}xf32>"
        text = f"""
func.func @gradient(%q: {shape}, %lse: {rows}, %dout: {shape}, %dq: {shape}, %dk: {shape}, %dv: {shape},
                    %seed: tensor<i64>, %offset: tensor<i64>) -> ({shape}, {shape}, {shape}) {{
  %0:3 = attn.attention_grad ins(%q, %q, %q, %q, %lse, %dout : {shape}, {shape}, {shape}, {shape}, {rows}, {shape})
      outs(%dq, %dk, %dv : {shape}, {shape}, {shape})
      dropout({dropout}, %seed, %offset : tensor<i64>, tensor<i64>) -> {shape}, {shape}, {shape}
  return %0#0, %0#1, %0#2 : {shape}, {shape}, {shape}
}}
"""
        q, state = np.zeros((1, 2, length, length), np.float32), [np.array(SEED), np.array(OFFSET)]
        lse = np.full(q.shape[:3], np.log(length), np.float32)
        dout = np.broadcast_to(np.eye(length, dtype=np.float32), q.shape)
        option = shard_option(method, ranks)
        functions = {1: self.compile("gradient_bits", text, function="gradient"),
                     ranks: self.compile(f"gradient_bits_{method}_{ranks}", text, [option], "gradient")}  # fmt: skip
        keep = dropout.keep(SEED, OFFSET, *np.ix_(range(1), range(2), range(length), range(length)))
        wrong = []
        for count, function in functions.items():
            # Only the run of one process compares the whole.
            if self.world and count == 1:
                continue
            group = self.group(count)
            places = [positions_of(method if count > 1 else "ring", rank, count, length) for rank in range(count)]
            chunks = [[x[:, :, place].copy() for x in (q, lse, dout)] for place in places]
            results = [[np.full_like(chunk[0], np.nan) for _ in range(3)] for chunk in chunks]
            statuses = group.run(lambda rank: call(function, [*chunks[rank], *results[rank], *state]))
            results = group.share(results)
            group.destroy()
            wrong += [text for status, text in statuses if status]
            dv = np.concatenate([result[2] for result in results], 2)[:, :, np.argsort(np.concatenate(places))]
            if not np.array_equal(dv.swapaxes(2, 3) != 0, keep.astype(bool)) or np.isnan(dv).any():
                wrong.append(f"the gradient of {count} ranks keeps {int((dv != 0).sum())} pairs, not {int(keep.sum())}")
        return wrong

    def check_delays(self, method, gradient):
        """Random delays, and so other orders of arrival, change nothing."""
        case, ranks = next(case for case in CASES if case.name == "two_sided"), 4
        inputs, function = Inputs(case, 1, gradient), self.shard(case, method, ranks, gradient)
        expected = None
        for seed in range(12):
            group = self.group(ranks, faults=lambda rank: Faults(3000, seed * 64 + rank, -1, 0, 0, -1, 0))
            statuses, found = self.run(function, inputs, method, group, gradient)
            group.destroy()
            if any(status for status, _ in statuses):
                return [text for _, text in statuses]
            expected = expected or found
            for name, result in found.items():
                if not np.array_equal(result, expected[name]):
                    return [f"delays with seed {seed} change '{name}'"]
        return []

    def check_failing_gradient(self, method):
        """A call that fails on one rank fails on all of them, at whatever call."""
        case, ranks = next(case for case in CASES if case.name == "two_sided"), 4
        inputs, function, wrong = Inputs(case, 1, ALONE), self.shard(case, method, ranks, ALONE), []
        # Two tensors in each call: keys and values, then their gradients, which come back at last.
        # With heads exchanged: seven operands and three gradients; a ring of two groups has four messages.
        # The balanced schedule also exchanges five tensors of queries, and returns a gradient of queries. A rank may
        # have all that it needs before the last call.
        last = {"allgather": 4, "ulysses": 10, "usp2": 14, BALANCED: 17}.get(method, 2 * (ranks - 1) * 2)
        for number in range(last):
            faults = lambda rank: Faults(0, 0, number if rank == 1 else -1, DRIVER_ERROR, 0, -1, 0)
            group = self.group(ranks, faults=faults)
            statuses, _ = self.run(function, inputs, method, group, ALONE)
            group.destroy()
            for rank, (status, text) in enumerate(statuses):
                if status != DRIVER_ERROR or f"rank 1: call {number} fails as it should" not in text:
                    wrong.append(f"call {number}: rank {rank} returned {status} and '{text}'")
        return wrong

    def check_failures(self, method):
        case, ranks = next(case for case in CASES if case.name == "causal"), 4
        inputs, function = Inputs(case, seed=1), self.shard(case, method, ranks)
        wrong = []

        def expect(what, statuses, status, text):
            for rank, found in enumerate(statuses):
                if found[0] != status or text not in found[1]:
                    wrong.append(f"{what}: rank {rank} returned {found}, expected {status} and '{text}'")

        def run(body=None, size=ranks, limit_ms=TIME_LIMIT_MS, faults=None):
            group = self.group(size, limit_ms, faults)
            chunk = inputs.arguments(slice(0, 48), slice(0, 48))[0]
            statuses = group.run(body or (lambda rank: call(function, chunk)))
            group.destroy()
            return statuses

        long = inputs.arguments(slice(0, 49), slice(0, 48))[0]
        right = inputs.arguments(slice(0, 48), slice(0, 48))[0]
        text = "argument 'q': dimension 2 is 49, expected 48"
        found = run(lambda rank: call(function, long if rank == 2 else right))
        expect("a wrong shape", [found[rank] for rank in (0, 1, 3)], SHAPE_MISMATCH, "rank 2: attention: " + text)
        expect("a wrong shape", [found[2]], SHAPE_MISMATCH, text)
        expect("a wrong size", run(size=2), INVALID_ARGUMENT, "has 2 ranks, expected 4")
        expect("no communicator", [call(function, right)], INVALID_ARGUMENT, "the thread has no communicator")
        found = run(faults=lambda rank: Faults(0, 0, 1 if rank == 1 else -1, DRIVER_ERROR, 0, -1, 0))
        if method in (*RINGS, BALANCED):
            expect("a failing call", found, DRIVER_ERROR, "rank 1: call 1 fails as it should")
            found = run(limit_ms=SHORT_LIMIT_MS,
                        faults=lambda rank: Faults(0, 0, -1, DRIVER_ERROR, 0, 2 if rank == 1 else -1, 0))
            # Only rank 3 gets keys of rank 1 later than that in the balanced schedule.
            waiting = (3,) if method == BALANCED else (2, 3)
            expect("a rank that stops", [found[rank] for rank in waiting], IO_ERROR, "waited")
            expect("a rank that stops", [found[1]], DRIVER_ERROR, "rank 1: call 2 fails as it should")
        return wrong


    def check_wrong_size(self, method):
        """A function of 4 ranks on another number of processes."""
        case = next(case for case in CASES if case.name == "causal")
        inputs, function = Inputs(case, seed=1), self.shard(case, method, 4)
        group = self.group(self.world.ranks)
        statuses = group.run(lambda rank: call(function, inputs.arguments(slice(0, 48), slice(0, 48))[0]))
        group.destroy()
        expected = f"has {self.world.ranks} ranks, expected 4"
        return [f"{found}" for found in statuses if found[0] != INVALID_ARGUMENT or expected not in found[1]]


def make_checks(tester, method, gradients):
    """The checks of a method with their names and numbers of ranks, of attention or of its gradients."""
    kinds = (ALONE, WITH_ATTENTION) if gradients else (None,)
    cases = CASES + SEGMENT_CASES * (method == SEGMENTS) + [FIVE_RANKS] * (method in (BALANCED, STRIPED))
    for number, case in enumerate(cases):
        # Chunks of zigzag are slices, whose lengths must be static.
        if method in ("zigzag", *GROUPS) and case.dynamic:
            continue
        if method == STRIPED and case.dropout or method == BALANCED and case.has_bias_grad:
            continue
        # Ranks have the values of other rows than the ones of all queries.
        if method == SEGMENTS and case.identity is not None:
            continue
        # The larger group has cases whose heads matter, on two groups.
        if method == "usp4" and case.name not in GROUP_CASES:
            continue
        # Gradients take long to compile: most cases have a ring and one other method, and pairs of chunks are few.
        others = ("zigzag", "allgather", "ulysses", "usp2")
        is_special = case.name in ("causal", "bias_grad", "dropout_mask", "identity")
        if gradients and not is_special and method in others and method != others[number % 4]:
            continue
        usual = {"zigzag": 2 if gradients else 4, "usp4": 8}.get(method, 5 if case is FIVE_RANKS else 4)
        counts = {"ulysses": (1, 2, 4), "usp2": (2, 4, 6, 8), "usp4": (8,)}.get(method, (1, 2, 3, 6))
        counts = (1, 2, 3, 4, 6) if method in (BALANCED, STRIPED) else counts
        if case.name == "one_query":
            # More than are merged at once, and with sinks one more than as many.
            counts = (1, 16, 32)
        for ranks in counts if case.name in ("causal", "one_query") else (usual,):
            kind = kinds[(number + ranks + len(method)) % len(kinds)]
            yield f"{case.name} {ranks} {kind or ''}", ranks, partial(tester.check_case, case, method, ranks, kind)
    if method == SEGMENTS:
        return
    if method == "usp4":
        return
    # There are two heads.
    for ranks in {"ulysses": (2,), "usp2": (4,), STRIPED: ()}.get(method, (2, 4)):
        check_bits = tester.check_gradient_bits if gradients else tester.check_bits
        yield f"bits {ranks}", ranks, partial(check_bits, method, ranks)
    for kind in kinds:
        yield f"delays {kind or ''}", 4, partial(tester.check_delays, method, kind)
    if gradients:
        yield "failures", 4, partial(tester.check_failing_gradient, method)
    elif not tester.world:
        yield "failures", 4, partial(tester.check_failures, method)
    elif tester.world.ranks != 4:
        yield "wrong size", tester.world.ranks, partial(tester.check_wrong_size, method)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True, help="folder for what is compiled")
    parser.add_argument("--runtime", required=True, help="the runtime library")
    parser.add_argument("--only", default="", help="run checks whose name contains this")
    parser.add_argument("--gradients", action="store_true", help="check gradients instead of attention")
    parser.add_argument("--random", type=int, default=0, help="number of random cases")
    parser.add_argument("--seed", type=int, default=1, help="where random cases begin")
    parser.add_argument("--mpi", action="store_true", help="run with the processes of mpirun, and all checks for them")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run one of N checks, always the same ones")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    tester = Tester(args)
    checks = {}
    methods = (*METHODS, "usp4") if args.gradients else (*METHODS, "usp4", SEGMENTS)
    for method in methods:
        for name, ranks, check in make_checks(tester, method, args.gradients):
            if not tester.world or ranks == tester.world.ranks:
                checks[f"{name} {method}"] = check
    cases = RandomCases(args.seed, methods)
    for number in range(args.random):
        case, method, ranks, gradient = cases.make(number)
        checks[f"{case.name} {method} {ranks}"] = partial(
            tester.check_case, case, method, ranks, gradient if args.gradients else None)  # fmt: skip
    failures, count = 0, 0
    for name, check in checks.items():
        if args.only not in name or zlib.crc32(name.encode()) % args.every:
            continue
        wrong, count = check(), count + 1
        failures += bool(wrong)
        for message in wrong:
            print(f"{name}: {message}")
    if not tester.world or tester.world.rank == 0:
        print(f"{count} checks, {failures} failures")
    return failures != 0 or count == 0


if __name__ == "__main__":
    sys.exit(main())
