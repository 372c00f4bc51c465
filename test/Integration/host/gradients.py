# ===- gradients.py - Numerics of gradients on the host -------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Differentiates functions of attention, lowers the gradients to loops in f64
# and compares with NumPy in f64: small shapes with finite differences of the
# whole function, element by element; larger ones and hard cases with the
# formulas of the gradient, which the small shapes check as well.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --cc %host_cc --library %mlir_lib_dir --work %t --runtime %attn_libs_dir/libattn_runtime%shlibext

import argparse
import ctypes
import functools
import math
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python"))

from attn.artifact import DTYPES, Artifact, TensorView  # noqa: E402
from tool_cache import run_tool  # noqa: E402

F64 = np.float64
ERF = np.vectorize(math.erf)


# ===----------------------------------------------------------------------===#
# Variants
# ===----------------------------------------------------------------------===#


class Capture:
    """A captured tensor: shape, values by random generator, indices of a pair."""

    def __init__(self, shape, index, values=None, element="f32"):
        self.shape, self.index, self.element = shape, index, element
        self.values = values or (lambda r, shape: r.standard_normal(shape))

    def type(self, shape):
        return "tensor<" + "".join(f"{n}x" for n in self.shape(shape)) + self.element + ">"


class Variant:
    """A function of attention: `body` makes %r of %s; `score` does so on arrays."""

    def __init__(self, name, body="", score=None, captures=None, shape=(2, 2, 2, 5, 6, 3, 4),
                 mask="", keep=None, attended=None, scale=None, element="f32",
                 inputs=None, lse=True, tolerance=None):
        self.name, self.body, self.score = name, body, score
        self.captures = captures or {}
        self.b, self.hq, self.hkv, self.sq, self.skv, self.d, self.dv = self.shape = shape
        self.mask, self.keep, self.attended = mask, keep, attended
        self.scale_given = scale
        self.scale = self.d**-0.5 if scale is None else scale
        self.element, self.inputs, self.lse = element, inputs, lse
        self.tolerance = tolerance or {"f32": 4e-6, "bf16": 1e-2}[element]

    def types(self):
        b, hq, hkv, sq, skv, d, dv = self.shape
        types = {"q": (b, hq, sq, d), "k": (b, hkv, skv, d), "v": (b, hkv, skv, dv)}
        result = {n: "tensor<" + "x".join(map(str, t)) + f"x{self.element}>"
                  for n, t in types.items()}
        result.update({n: c.type(self) for n, c in self.captures.items()})
        return result

    def function(self):
        t = self.types()
        b, hq, _, sq, _, _, dv = self.shape
        out = f"tensor<{b}x{hq}x{sq}x{dv}x{self.element}>"
        lse = f"tensor<{b}x{hq}x{sq}xf32>"
        regions = ""
        if self.body:
            regions += f"""score_mod {{
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        {self.body}
        attn.yield %r : f32
      }}"""
        if self.keep:
            regions += f""" mask_mod {{
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        {self.keep}
        attn.yield %kept : i1
      }}"""
        scale = "" if self.scale_given is None else f"scale({float(self.scale)})"
        arguments = ", ".join(f"%{n}: {x}" for n, x in t.items())
        return f"""func.func @{self.name}({arguments}) -> ({out}, {lse}) {{
  %o = tensor.empty() : {out}
  %l = tensor.empty() : {lse}
  %0:2 = attn.attention ins(%q, %k, %v : {t['q']}, {t['k']}, {t['v']})
      outs(%o, %l : {out}, {lse}) {scale} {self.mask} {regions} -> {out}, {lse}
  return %0#0, %0#1 : {out}, {lse}
}}
"""


def unary(name, op, function, shift=None):
    """%r = op(%s); with `shift`, of 1.5 + tanh(s)^2, which is positive."""
    body = f"%r = {op} %s : f32"
    score = lambda s, *_: function(s)
    if shift:
        body = f"""%c = arith.constant {shift} : f32
        %t = math.tanh %s : f32
        %t2 = arith.mulf %t, %t : f32
        %x = arith.addf %t2, %c : f32
        %r = {op} %x : f32"""
        score = lambda s, *_: function(np.tanh(s) ** 2 + shift)
    return Variant(name, body, score)


def binary(name, op, function):
    """%r = op(tanh(s) + 1.5, 0.5 * sin(s) + 0.75)"""
    return Variant(
        name,
        f"""%c = arith.constant 1.5 : f32
        %half = arith.constant 0.5 : f32
        %e = arith.constant 0.75 : f32
        %t = math.tanh %s : f32
        %x = arith.addf %t, %c : f32
        %sin = math.sin %s : f32
        %y = math.fma %sin, %half, %e : f32
        %r = {op} %x, %y : f32""",
        lambda s, *_: function(np.tanh(s) + 1.5, np.sin(s) / 2 + 0.75),
    )


POSITIONS = {"b": lambda b, h, i, j: b, "h": lambda b, h, i, j: h, "i": lambda b, h, i, j: i,
             "j": lambda b, h, i, j: j, "0": lambda b, h, i, j: 0 * j}


def bias(name, dims, **options):
    """A bias that is broadcast in all dimensions but `dims`."""
    sizes = {"b": "b", "h": "hq", "i": "sq", "j": "skv", "0": None}
    shape = lambda v: tuple(getattr(v, sizes[d]) if sizes[d] else 1 for d in dims)
    index = lambda b, h, i, j: tuple(POSITIONS[d](b, h, i, j) for d in dims)
    capture = Capture(shape, index, element=options.pop("bias_element", "f32"))
    at = ", ".join("%zero" if d == "0" else f"%{d}" for d in dims)
    variant = Variant(name, "-", lambda s, b, h, i, j, c: s + c["bias"][index(b, h, i, j)],
                      {"bias": capture}, **options)
    widen = "%xf = arith.extf %x : bf16 to f32" if capture.element == "bf16" else ""
    x = "%xf" if widen else "%x"
    variant.body = f"""%zero = arith.constant 0 : index
        %x = tensor.extract %bias[{at}] : {capture.type(variant)}
        {widen}
        %r = arith.addf %s, {x} : f32"""
    return variant


CAUSAL = lambda b, h, i, j, v: j <= i + v.skv - v.sq
LEAST = 1e-30

VARIANTS = [
    Variant("plain"),
    Variant("grouped", shape=(2, 6, 2, 3, 4, 2, 5)),
    Variant("scaled", scale=-0.7),
    Variant("causal", mask="mask(#attn.causal)", attended=CAUSAL),
    # Queries with nothing to attend.
    Variant("causal_short", mask="mask(#attn.causal)", attended=CAUSAL,
            shape=(1, 2, 1, 7, 3, 4, 3)),
    Variant("window", mask="mask(#attn.sliding_window<left = 1, right = 1, alignment = top_left>)",
            attended=lambda b, h, i, j, v: (j >= i - 1) & (j <= i + 1)),
    Variant("keep", keep="""%two = arith.constant 2 : index
        %ij = arith.addi %i, %j : index
        %rem = arith.remui %ij, %two : index
        %kept = arith.cmpi eq, %rem, %h : index""",
            attended=lambda b, h, i, j, v: (i + j) % 2 == h),
    Variant("bf16", element="bf16", shape=(1, 4, 2, 9, 7, 16, 8), mask="mask(#attn.causal)",
            attended=CAUSAL),
    # Score operations.
    unary("negf", "arith.negf", np.negative),
    unary("absf", "math.absf", np.abs),
    unary("exp", "math.exp", np.exp),
    unary("exp2", "math.exp2", np.exp2),
    unary("expm1", "math.expm1", np.expm1),
    unary("log", "math.log", np.log, 0.5),
    unary("log2", "math.log2", np.log2, 0.5),
    unary("log10", "math.log10", np.log10, 0.5),
    unary("log1p", "math.log1p", np.log1p, 0.5),
    unary("sqrt", "math.sqrt", np.sqrt, 0.5),
    unary("rsqrt", "math.rsqrt", lambda x: x**-0.5, 0.5),
    unary("cbrt", "math.cbrt", np.cbrt, 0.5),
    unary("sin", "math.sin", np.sin),
    unary("cos", "math.cos", np.cos),
    unary("tan", "math.tan", np.tan, 0.25),
    unary("atan", "math.atan", np.arctan),
    unary("sinh", "math.sinh", np.sinh),
    unary("cosh", "math.cosh", np.cosh),
    unary("tanh", "math.tanh", np.tanh),
    unary("erf", "math.erf", ERF),
    binary("addf", "arith.addf", np.add),
    binary("subf", "arith.subf", np.subtract),
    binary("mulf", "arith.mulf", np.multiply),
    binary("divf", "arith.divf", np.divide),
    binary("powf", "math.powf", np.power),
    Variant("fpowi", """%c3 = arith.constant 3 : i32
        %c0 = arith.constant 0 : i32
        %one = arith.constant 1 : i32
        %n = arith.index_cast %h : index to i32
        %m = arith.subi %n, %one : i32
        %zero = arith.subf %s, %s : f32
        %four = arith.constant 4.0 : f32
        %far = arith.addf %s, %four : f32
        %cube = math.fpowi %s, %c3 : f32, i32
        %unit = math.fpowi %zero, %c0 : f32, i32
        %power = math.fpowi %far, %m : f32, i32
        %t = arith.addf %cube, %unit : f32
        %r = arith.addf %t, %power : f32""", lambda s, b, h, *_: s**3 + 1 + (s + 4) ** (h - 1.0)),
    binary("copysign", "math.copysign", np.copysign),
    binary("maximumf", "arith.maximumf", np.maximum),
    binary("minimumf", "arith.minimumf", np.minimum),
    binary("maxnumf", "arith.maxnumf", np.maximum),
    binary("minnumf", "arith.minnumf", np.minimum),
    # The operands of a difference of which one is constant between jumps.
    Variant("floor", """%f = math.floor %s : f32
        %r = arith.subf %s, %f : f32""", lambda s, *_: s - np.floor(s)),
    Variant("roundeven", """%f = math.roundeven %s : f32
        %r = arith.mulf %s, %f : f32""", lambda s, *_: s * np.rint(s)),
    Variant("select", """%zero = arith.constant 0.0 : f32
        %c = arith.cmpf ogt, %s, %zero : f32
        %t = math.tanh %s : f32
        %r = arith.select %c, %s, %t : f32""", lambda s, *_: np.where(s > 0, s, np.tanh(s))),
    Variant("casts", """%w = arith.extf %s : f32 to f64
        %w2 = arith.mulf %w, %w : f64
        %r = arith.truncf %w2 : f64 to f32""", lambda s, *_: s * s),
    Variant("constant", "%r = arith.constant 0.5 : f32", lambda s, *_: 0 * s + 0.5),
    # Captured values.
    bias("bias_none", ""),
    bias("bias_1", "0"),
    bias("bias_b", "b"),
    bias("bias_j", "j"),
    bias("bias_hj", "hj"),
    bias("bias_ij", "ij", mask="mask(#attn.causal)", attended=CAUSAL),
    bias("bias_b00j", "b00j"),
    bias("bias_0h0j", "0h0j", shape=(2, 4, 2, 4, 3, 3, 3)),
    bias("bias_bhij", "bhij"),
    bias("bias_bf16", "hj", bias_element="bf16", tolerance=1e-2),
    Variant("alibi", """%m = tensor.extract %slopes[%h] : tensor<2xf32>
        %d = arith.subi %j, %i : index
        %di = arith.index_cast %d : index to i32
        %df = arith.sitofp %di : i32 to f32
        %a = arith.mulf %df, %m : f32
        %r = arith.addf %s, %a : f32""",
            lambda s, b, h, i, j, c: s + c["slopes"][h] * (j - i),
            {"slopes": Capture(lambda v: (v.hq,), lambda b, h, i, j: (h,))}),
    Variant("table", """%n = arith.constant 4 : index
        %e = arith.remui %j, %n : index
        %x = tensor.extract %table[%e] : tensor<4xf32>
        %y = arith.mulf %x, %x : f32
        %z = arith.mulf %y, %s : f32
        %r = math.tanh %z : f32""",
            lambda s, b, h, i, j, c: np.tanh(c["table"][j % 4] ** 2 * s),
            {"table": Capture(lambda v: (4,), lambda b, h, i, j: (j % 4,))}),
    Variant("two_captures", """%x = tensor.extract %gain[%h, %i] : tensor<2x5xf32>
        %y = tensor.extract %bias[%b, %j] : tensor<2x6xf32>
        %z = math.fma %s, %x, %y : f32
        %half = arith.constant 0.5 : f32
        %w = arith.mulf %z, %half : f32
        %r = math.tanh %w : f32""",
            lambda s, b, h, i, j, c: np.tanh((s * c["gain"][h, i] + c["bias"][b, j]) / 2),
            {"gain": Capture(lambda v: (v.hq, v.sq), lambda b, h, i, j: (h, i)),
             "bias": Capture(lambda v: (v.b, v.skv), lambda b, h, i, j: (b, j))}),
    Variant("branch", """%n = arith.constant 3 : index
        %in = arith.cmpi ult, %j, %n : index
        %r = scf.if %in -> f32 {
          %x = tensor.extract %table[%j] : tensor<3xf32>
          %y = arith.mulf %s, %x : f32
          %z = math.tanh %y : f32
          scf.yield %z : f32
        } else {
          scf.yield %s : f32
        }""",
            lambda s, b, h, i, j, c: np.where(
                j < 3, np.tanh(s * c["table"][np.minimum(j, 2)]), s),
            {"table": Capture(lambda v: (3,), lambda b, h, i, j: (np.minimum(j, 2),))}),
    # Hard cases, against formulas: a sum of exponentials that only its logarithm can hold, ragged lengths with masks
    # and both regions, probabilities of 0 and 1.
    bias("lse_below_88", "ij", shape=(1, 2, 2, 192, 192, 8, 8), mask="mask(#attn.causal)",
         # Scores of -120 are rounded to 8e-6.
         attended=CAUSAL, inputs={"bias": lambda x: x - 120}, tolerance=1e-5),
    bias("one_query_128_keys", "j", shape=(2, 2, 1, 1, 128, 16, 8),
         inputs={"bias": lambda x: x - 1000}, tolerance=1e-4),
    bias("ragged_both_regions", "hj", shape=(1, 4, 2, 131, 77, 8, 16),
         keep="""%n = arith.constant 50 : index
        %kept = arith.cmpi ult, %j, %n : index""",
         attended=lambda b, h, i, j, v: j < 50),
    Variant("nothing_to_attend", shape=(1, 2, 2, 70, 66, 8, 8),
            keep="%kept = arith.cmpi ult, %i, %b : index",
            attended=lambda b, h, i, j, v: i < b),
    Variant("huge_logits", shape=(1, 2, 2, 64, 65, 16, 16), inputs={"q": lambda x: x * 300},
            tolerance=1e-3),
    # More score operations.
    unary("erfc", "math.erfc", lambda x: 1 - ERF(x)),
    unary("asin", "math.asin", np.arcsin, -0.25),
    unary("acos", "math.acos", np.arccos, -0.25),
    unary("atanh", "math.atanh", np.arctanh, -0.5),
    unary("asinh", "math.asinh", np.arcsinh),
    unary("acosh", "math.acosh", np.arccosh, 1.5),
    binary("atan2", "math.atan2", np.arctan2),
    Variant("remf", """%a = arith.constant 0.7 : f32
        %e = arith.constant 0.3 : f32
        %c = arith.constant 3.0 : f32
        %x = math.fma %s, %c, %e : f32
        %sin = math.sin %s : f32
        %y = math.fma %sin, %e, %a : f32
        %r = arith.remf %x, %y : f32""", lambda s, *_: np.fmod(3 * s + 0.3, 0.3 * np.sin(s) + 0.7)),
    # Branches in branches.
    Variant("nested_branch", """%n = arith.constant 3 : index
        %in = arith.cmpi ult, %j, %n : index
        %late = arith.cmpi ult, %n, %i : index
        %r = scf.if %in -> f32 {
          %u = math.sin %s : f32
          %y = scf.if %late -> f32 {
            %x = tensor.extract %table[%j] : tensor<3xf32>
            %p = arith.mulf %u, %x : f32
            %z = math.tanh %p : f32
            scf.yield %z : f32
          } else {
            %w = arith.mulf %u, %s : f32
            scf.yield %w : f32
          }
          %t = arith.addf %y, %u : f32
          scf.yield %t : f32
        } else {
          scf.yield %s : f32
        }""",
            lambda s, b, h, i, j, c: np.where(
                j < 3, np.where(i > 3, np.tanh(np.sin(s) * c["table"][np.minimum(j, 2)]), np.sin(s) * s)
                + np.sin(s), s),
            {"table": Capture(lambda v: (3,), lambda b, h, i, j: (np.minimum(j, 2),))}),
]


class Graph:
    """A function of linalg and tensor operations, and the same on arrays."""

    def __init__(self, name, shapes, result, body, function):
        self.name, self.shapes, self.result = name, shapes, result
        self.body, self.compute = body, function

    def function(self):
        tensor = lambda shape: "tensor<" + "".join(f"{n}x" for n in shape) + "f32>"
        arguments = ", ".join(f"%{n}: {tensor(x)}" for n, x in self.shapes.items())
        return f"""func.func @{self.name}({arguments}) -> {tensor(self.result)} {{
{self.body}
  return %r : {tensor(self.result)}
}}
"""


def product(name, lhs, rhs, result, flags, function, epilogue="", **captured):
    """A matmul, with an epilogue that makes %z of %sum and the captures."""
    tensor = lambda shape: "tensor<" + "".join(f"{n}x" for n in shape) + "f32>"
    region = epilogue and f"""epilogue {{
      ^bb0(%sum: f32, %b: index, %i: index, %j: index):
        {epilogue}
        attn.yield %z : f32
      }}"""
    return Graph(name, {"x": lhs, "w": rhs, **captured}, result, f"""
  %e = tensor.empty() : {tensor(result)}
  %r = attn.matmul ins(%x, %w : {tensor(lhs)}, {tensor(rhs)}) outs(%e : {tensor(result)}) {flags}
      {region} -> {tensor(result)}""", function)


def turned(x, flags, flag):
    return x.swapaxes(-1, -2) if flag in flags else x


MATMULS = [
    product(f"product{number}{'_'.join(str(len(s)) for s in (lhs, rhs))}",
            lhs[:-2] + (lhs[-1], lhs[-2]) if "lhs" in flags else lhs,
            rhs[:-2] + (rhs[-1], rhs[-2]) if "rhs" in flags else rhs, result, flags,
            lambda x, w, flags=flags: turned(x, flags, "lhs") @ turned(w, flags, "rhs"))
    for number, flags in enumerate(("", "transpose_lhs", "transpose_rhs", "transpose_lhs transpose_rhs"))
    for lhs, rhs, result in (((3, 4), (4, 5), (3, 5)), ((2, 3, 4), (2, 4, 5), (2, 3, 5)),
                             ((2, 3, 4), (4, 5), (2, 3, 5)), ((3, 4), (2, 4, 5), (2, 3, 5)))
]


GRAPHS = [
    Graph("matmul_fill_add", {"x": (3, 4), "w": (4, 5), "c": (3, 5)}, (3, 5), """
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3x5xf32>) -> tensor<3x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<3x4xf32>, tensor<4x5xf32>)
      outs(%f : tensor<3x5xf32>) -> tensor<3x5xf32>
  %e2 = tensor.empty() : tensor<5x3xf32>
  %yt = linalg.transpose ins(%y : tensor<3x5xf32>) outs(%e2 : tensor<5x3xf32>)
      permutation = [1, 0]
  %e3 = tensor.empty() : tensor<5x5xf32>
  %f3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<5x5xf32>) -> tensor<5x5xf32>
  %y2 = linalg.matmul ins(%yt, %y : tensor<5x3xf32>, tensor<3x5xf32>)
      outs(%f3 : tensor<5x5xf32>) -> tensor<5x5xf32>
  %z = linalg.matmul ins(%y, %y2 : tensor<3x5xf32>, tensor<5x5xf32>)
      outs(%c : tensor<3x5xf32>) -> tensor<3x5xf32>
  %r = linalg.mul ins(%z, %y : tensor<3x5xf32>, tensor<3x5xf32>)
      outs(%e : tensor<3x5xf32>) -> tensor<3x5xf32>""",
          lambda x, w, c: ((x @ w) @ ((x @ w).T @ (x @ w)) + c) * (x @ w)),
    Graph("norm", {"x": (3, 4), "g": (4,)}, (3, 4), """
  %zero = arith.constant 0.0 : f32
  %eps = arith.constant 0.5 : f32
  %e1 = tensor.empty() : tensor<3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e1 : tensor<3xf32>) -> tensor<3xf32>
  %e = tensor.empty() : tensor<3x4xf32>
  %x2 = linalg.square ins(%x : tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>
  %sum = linalg.reduce { arith.addf } ins(%x2 : tensor<3x4xf32>)
      outs(%f : tensor<3xf32>) dimensions = [1]
  %r = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
                       affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum, %g : tensor<3x4xf32>, tensor<3xf32>, tensor<4xf32>)
      outs(%e : tensor<3x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %t = arith.addf %b, %eps : f32
    %s = math.rsqrt %t : f32
    %u = arith.mulf %a, %s : f32
    %v = arith.mulf %u, %c : f32
    linalg.yield %v : f32
  } -> tensor<3x4xf32>""",
          lambda x, g: x / np.sqrt((x * x).sum(1, keepdims=True) + 0.5) * g),
    Graph("shapes", {"x": (2, 6), "y": (3, 2, 2)}, (6, 2), """
  %a = tensor.expand_shape %x [[0], [1, 2]] output_shape [2, 3, 2]
      : tensor<2x6xf32> into tensor<2x3x2xf32>
  %e = tensor.empty() : tensor<3x2x2xf32>
  %t = linalg.transpose ins(%a : tensor<2x3x2xf32>) outs(%e : tensor<3x2x2xf32>)
      permutation = [1, 0, 2]
  %p = linalg.mul ins(%t, %y : tensor<3x2x2xf32>, tensor<3x2x2xf32>)
      outs(%e : tensor<3x2x2xf32>) -> tensor<3x2x2xf32>
  %c = tensor.collapse_shape %p [[0, 1], [2]] : tensor<3x2x2xf32> into tensor<6x2xf32>
  %s = tensor.extract_slice %c[1, 0] [2, 2] [2, 1] : tensor<6x2xf32> to tensor<2x2xf32>
  %e2 = tensor.empty() : tensor<2x2xf32>
  %q = linalg.exp ins(%s : tensor<2x2xf32>) outs(%e2 : tensor<2x2xf32>) -> tensor<2x2xf32>
  %i = tensor.insert_slice %q into %c[3, 0] [2, 2] [1, 1] : tensor<2x2xf32> into tensor<6x2xf32>
  %d = tensor.cast %i : tensor<6x2xf32> to tensor<?x2xf32>
  %r = tensor.cast %d : tensor<?x2xf32> to tensor<6x2xf32>""",
          lambda x, y: shapes(x, y)),
    Graph("broadcast", {"x": (4,), "y": (2, 3, 4), "w": (2, 4, 5)}, (2, 3, 5), """
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x3x4xf32>
  %b = linalg.broadcast ins(%x : tensor<4xf32>) outs(%e : tensor<2x3x4xf32>) dimensions = [0, 1]
  %s = linalg.sub ins(%y, %b : tensor<2x3x4xf32>, tensor<2x3x4xf32>)
      outs(%e : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %t = linalg.tanh ins(%s : tensor<2x3x4xf32>) outs(%e : tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %e2 = tensor.empty() : tensor<2x3x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e2 : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %r = linalg.batch_matmul ins(%t, %w : tensor<2x3x4xf32>, tensor<2x4x5xf32>)
      outs(%f : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>""",
          lambda x, y, w: np.tanh(y - x) @ w),
    # A head attends to nothing in the first rows; the log-sum-exp has a gradient.
    Graph("sinks", {"q": (2, 2, 6, 3), "k": (2, 1, 4, 3), "v": (2, 1, 4, 3), "sinks": (2,)}, (2, 2, 6, 3), """
  %e = tensor.empty() : tensor<2x2x6x3xf32>
  %l = tensor.empty() : tensor<2x2x6xf32>
  %o:2 = attn.attention ins(%q, %k, %v : tensor<2x2x6x3xf32>, tensor<2x1x4x3xf32>, tensor<2x1x4x3xf32>)
      outs(%e, %l : tensor<2x2x6x3xf32>, tensor<2x2x6xf32>) sinks(%sinks : tensor<2xf32>)
      mask(#attn.causal) -> tensor<2x2x6x3xf32>, tensor<2x2x6xf32>
  %b = linalg.broadcast ins(%o#1 : tensor<2x2x6xf32>) outs(%e : tensor<2x2x6x3xf32>) dimensions = [3]
  %r = linalg.add ins(%o#0, %b : tensor<2x2x6x3xf32>, tensor<2x2x6x3xf32>)
      outs(%e : tensor<2x2x6x3xf32>) -> tensor<2x2x6x3xf32>""",
          lambda q, k, v, sinks: sink_attention(q, k, v, sinks)),
    # The last queries have a key of their own.
    Graph("identity", {"q": (2, 4, 6, 3), "k": (2, 2, 4, 3), "v": (2, 2, 4, 3), "u": (4,)}, (2, 4, 6, 3), """
  %e = tensor.empty() : tensor<2x4x6x3xf32>
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x6x3xf32>, tensor<2x2x4x3xf32>, tensor<2x2x4x3xf32>)
      outs(%e : tensor<2x4x6x3xf32>) identity(%u : tensor<4xf32>) mask(#attn.causal) -> tensor<2x4x6x3xf32>""",
          lambda q, k, v, u: identity_attention(q, k, v, u)),
    # Groups of 2, 0 and 1 heads, not in order; the last entry is not valid and stands for the last key head.
    Graph("head_map", {"q": (2, 4, 5, 3), "k": (2, 3, 4, 3), "v": (2, 3, 4, 3), "u": (4,)}, (2, 4, 5, 3), """
  %e = tensor.empty() : tensor<2x4x5x3xf32>
  %map = arith.constant dense<[2, 0, 2, 9]> : tensor<4xi32>
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x5x3xf32>, tensor<2x3x4x3xf32>, tensor<2x3x4x3xf32>)
      outs(%e : tensor<2x4x5x3xf32>) heads(%map : tensor<4xi32>) identity(%u : tensor<4xf32>)
      mask(#attn.causal) -> tensor<2x4x5x3xf32>""",
          lambda q, k, v, u: identity_attention(q, k[:, [2, 0, 2, 2]], v[:, [2, 0, 2, 2]], u)),
    # One of two branches is taken, the other one where the condition is opposite.
    Graph("branches", {"x": (3, 4), "y": (3, 4), "c": (2,)}, (3, 4), """
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %a = tensor.extract %c[%c0] : tensor<2xf32>
  %yes = arith.cmpf ogt, %a, %zero : f32
  %no = arith.cmpf ole, %a, %zero : f32""" + "".join(f"""
  %r{n} = scf.if %{n} -> tensor<3x4xf32> {{
    %e = tensor.empty() : tensor<3x4xf32>
    %u = linalg.exp ins(%x : tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>
    %v = linalg.mul ins(%u, %y : tensor<3x4xf32>, tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>
    scf.yield %v : tensor<3x4xf32>
  }} else {{
    %z = math.tanh %x : tensor<3x4xf32>
    scf.yield %z : tensor<3x4xf32>
  }}""" for n in ("yes", "no")) + """
  %r = arith.mulf %ryes, %rno : tensor<3x4xf32>""",
          lambda x, y, c: np.exp(x) * y * np.tanh(x)),
    # Scalars and tensors of branches; the bodies of operations have branches, too.
    Graph("scalar_branches", {"x": (3, 4), "t": (3,)}, (3, 4), """
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %first = tensor.extract %t[%c0] : tensor<3xf32>
  %up = arith.cmpf ogt, %first, %zero : f32
  %a = scf.if %up -> f32 {
    %m = tensor.extract %t[%c1] : tensor<3xf32>
    %o = arith.mulf %m, %first : f32
    scf.yield %o : f32
  } else {
    %m = tensor.extract %t[%c2] : tensor<3xf32>
    %o = arith.addf %m, %first : f32
    scf.yield %o : f32
  }
  %q = tensor.expand_shape %x [[0, 1, 2], [3]] output_shape [1, 1, 3, 4] : tensor<3x4xf32> into tensor<1x1x3x4xf32>
  %e = tensor.empty() : tensor<1x1x3x4xf32>
  %o = attn.attention ins(%q, %q, %q : tensor<1x1x3x4xf32>, tensor<1x1x3x4xf32>, tensor<1x1x3x4xf32>)
      outs(%e : tensor<1x1x3x4xf32>) scale(1.0) score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %u = arith.mulf %s, %a : f32
        attn.yield %u : f32
      } -> tensor<1x1x3x4xf32>
  %y = tensor.collapse_shape %o [[0, 1, 2], [3]] : tensor<1x1x3x4xf32> into tensor<3x4xf32>
  %e2 = tensor.empty() : tensor<3x4xf32>
  %r = linalg.map ins(%y : tensor<3x4xf32>) outs(%e2 : tensor<3x4xf32>) (%v: f32, %init: f32) {
    %positive = arith.cmpf ogt, %v, %zero : f32
    %w = scf.if %positive -> f32 {
      %half = arith.constant 0.5 : f32
      %large = arith.cmpf ogt, %v, %half : f32
      %l = scf.if %large -> f32 {
        %z = math.exp %v : f32
        scf.yield %z : f32
      } else {
        %z = math.sin %v : f32
        scf.yield %z : f32
      }
      scf.yield %l : f32
    } else {
      %n = arith.negf %v : f32
      scf.yield %n : f32
    }
    linalg.yield %w : f32
  }""",
          lambda x, t: branched_attention(x, t[1] * t[0] if t[0] > 0 else t[2] + t[0])),
    Graph("attention_branches", {"x": (1, 2, 5, 3), "c": (2,)}, (1, 2, 5, 3), """
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %a = tensor.extract %c[%c0] : tensor<2xf32>
  %yes = arith.cmpf ogt, %a, %zero : f32
  %no = arith.cmpf ole, %a, %zero : f32
  %e = tensor.empty() : tensor<1x2x5x3xf32>""" + "".join(f"""
  %r{n} = scf.if %{n} -> tensor<1x2x5x3xf32> {{
    %o = attn.attention ins(%x, %x, %x : tensor<1x2x5x3xf32>, tensor<1x2x5x3xf32>, tensor<1x2x5x3xf32>)
        outs(%e : tensor<1x2x5x3xf32>) mask(#attn.causal) -> tensor<1x2x5x3xf32>
    scf.yield %o : tensor<1x2x5x3xf32>
  }} else {{
    scf.yield %x : tensor<1x2x5x3xf32>
  }}""" for n in ("yes", "no")) + """
  %r = linalg.mul ins(%ryes, %rno : tensor<1x2x5x3xf32>, tensor<1x2x5x3xf32>) outs(%e : tensor<1x2x5x3xf32>)
      -> tensor<1x2x5x3xf32>""",
          lambda x, c: identity_attention(x, x, x, np.zeros(2)) * x),
    Graph("dynamic_constant", {"x": (3, 4)}, (3, 4), """
  %d = tensor.cast %x : tensor<3x4xf32> to tensor<?x4xf32>
  %t = math.tanh %d : tensor<?x4xf32>
  %r = tensor.cast %t : tensor<?x4xf32> to tensor<3x4xf32>""", lambda x: np.tanh(x)),
    Graph("concat_pad", {"x": (2, 3), "y": (4, 3)}, (8, 5), """
  %d = tensor.cast %x : tensor<2x3xf32> to tensor<?x3xf32>
  %e = tensor.empty() : tensor<6x3xf32>
  %c = tensor.concat dim(0) %d, %y : (tensor<?x3xf32>, tensor<4x3xf32>) -> tensor<?x3xf32>
  %s = tensor.cast %c : tensor<?x3xf32> to tensor<6x3xf32>
  %t = linalg.exp ins(%s : tensor<6x3xf32>) outs(%e : tensor<6x3xf32>) -> tensor<6x3xf32>
  %z = arith.constant 0.5 : f32
  %p = tensor.pad %t low[2, 1] high[0, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : f32
  } : tensor<6x3xf32> to tensor<8x5xf32>
  %e2 = tensor.empty() : tensor<8x5xf32>
  %r = linalg.square ins(%p : tensor<8x5xf32>) outs(%e2 : tensor<8x5xf32>) -> tensor<8x5xf32>""",
          lambda x, y: np.pad(np.exp(np.concatenate([x, y])), ((2, 0), (1, 1)), constant_values=0.5)**2),
    Graph("elements", {"x": (3, 4)}, (3, 4), """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = tensor.extract %x[%c0, %c1] : tensor<3x4xf32>
  %b = tensor.extract %x[%c1, %c1] : tensor<3x4xf32>
  %p = arith.mulf %a, %b : f32
  %t = tensor.from_elements %a, %p, %b, %a, %p, %p : tensor<3x2xf32>
  %s = tensor.insert %b into %t[%c1, %c0] : tensor<3x2xf32>
  %e = tensor.empty() : tensor<3x4xf32>
  %i = tensor.insert_slice %s into %x[0, 1] [3, 2] [1, 1] : tensor<3x2xf32> into tensor<3x4xf32>
  %r = linalg.square ins(%i : tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>""",
          lambda x: elements(x)),
    Graph("softmax", {"x": (3, 4), "y": (3, 4)}, (3, 4), """
  %e = tensor.empty() : tensor<3x4xf32>
  %a = linalg.softmax dimension(0) ins(%x : tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>
  %b = linalg.mul ins(%a, %y : tensor<3x4xf32>, tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>
  %r = linalg.softmax dimension(1) ins(%b : tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>""",
          lambda x, y: softmax(softmax(x, 0) * y, 1)),
    Graph("permute", {"x": (2, 3, 4)}, (4, 2, 3), """
  %p = attn.permute %x [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  %e = tensor.empty() : tensor<4x2x3xf32>
  %r = linalg.exp ins(%p : tensor<4x2x3xf32>) outs(%e : tensor<4x2x3xf32>) -> tensor<4x2x3xf32>""",
          lambda x: np.exp(x.transpose(2, 0, 1))),
    # Dimensions of one element are read at 0 all along the loops.
    Graph("unit_dims", {"x": (1, 4), "y": (3, 1, 1), "z": (1, 1)}, (3, 4), """
  %e = tensor.empty() : tensor<3x4xf32>
  %r = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (0, j)>, affine_map<(i, j) -> (i, 0, 0)>,
                       affine_map<(i, j) -> (0, 0)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %y, %z : tensor<1x4xf32>, tensor<3x1x1xf32>, tensor<1x1xf32>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %o: f32):
    %t = math.exp %a : f32
    %u = arith.mulf %t, %b : f32
    %v = math.fma %u, %c, %u : f32
    linalg.yield %v : f32
  } -> tensor<3x4xf32>""",
          lambda x, y, z: np.exp(x) * y[:, 0] * (z + 1)),
    # A sum that widens, subtracts and rounds.
    Graph("sum_of_steps", {"x": (3, 4), "a": (3,)}, (3,), """
  %y = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3x4xf32>) outs(%a : tensor<3xf32>) {
  ^bb0(%v: f32, %sum: f32):
    %w = arith.extf %v : f32 to f64
    %s = arith.extf %sum : f32 to f64
    %p = math.fma %w, %w, %s : f64
    %q = arith.subf %p, %w : f64
    %t = arith.addf %w, %q : f64
    %u = arith.addf %w, %t : f64
    %n = arith.truncf %u : f64 to f32
    linalg.yield %n : f32
  } -> tensor<3xf32>
  %e = tensor.empty() : tensor<3xf32>
  %r = linalg.exp ins(%y : tensor<3xf32>) outs(%e : tensor<3xf32>) -> tensor<3xf32>""",
          lambda x, a: np.exp(a + (x * x + x).sum(1))),
    # A result that is written once, together with a sum, whose destination both read.
    Graph("sum_and_elements", {"x": (3, 4), "o": (3, 4), "a": (3,)}, (3, 4), """
  %y:2 = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<3x4xf32>) outs(%o, %a : tensor<3x4xf32>, tensor<3xf32>) {
  ^bb0(%v: f32, %before: f32, %sum: f32):
    %p = arith.mulf %v, %before : f32
    %t = arith.mulf %p, %p : f32
    %s = arith.addf %sum, %t : f32
    linalg.yield %p, %s : f32, f32
  } -> (tensor<3x4xf32>, tensor<3xf32>)
  %e = tensor.empty() : tensor<3x4xf32>
  %b = linalg.broadcast ins(%y#1 : tensor<3xf32>) outs(%e : tensor<3x4xf32>) dimensions = [1]
  %r = linalg.add ins(%y#0, %b : tensor<3x4xf32>, tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>""",
          lambda x, o, a: x * o + (a + ((x * o)**2).sum(1))[:, None]),
]

# Of operations that become kernels, compiled as those are.
KERNELS = [
    *MATMULS,
    # A bias, a factor of each row, a residual and the batch entry's own scale.
    product("matmul_epilogue", (2, 3, 4), (5, 4), (2, 3, 5), "transpose_rhs",
            lambda x, w, bias, factor, residual, scale:
                np.tanh(x @ w.T * factor[:, :, None] * scale[0] + bias) + residual * np.arange(5),
            epilogue="""%zero = arith.constant 0 : index
        %f = tensor.extract %factor[%b, %i] : tensor<2x3xf32>
        %g = tensor.extract %scale[%zero] : tensor<1xf32>
        %a = tensor.extract %bias[%j] : tensor<5xf32>
        %o = tensor.extract %residual[%b, %i, %j] : tensor<2x3x5xf32>
        %s = arith.mulf %sum, %f : f32
        %t = arith.mulf %s, %g : f32
        %u = arith.addf %t, %a : f32
        %v = math.tanh %u : f32
        %n = arith.index_cast %j : index to i32
        %m = arith.sitofp %n : i32 to f32
        %p = arith.mulf %o, %m : f32
        %z = arith.addf %v, %p : f32""",
            bias=(5,), factor=(2, 3), residual=(2, 3, 5), scale=(1,)),
    # An epilogue that reads only the accumulated value.
    product("matmul_square", (3, 4), (4, 5), (3, 5), "", lambda x, w: (x @ w)**2,
            epilogue="%z = arith.mulf %sum, %sum : f32"),
    Graph("map_heads", {"x": (2, 2, 3, 4), "w": (4,), "g": (2, 2, 3)}, (2, 2, 3, 4), """
  %e = tensor.empty() : tensor<2x2x3x4xf32>
  %r = attn.map_heads ins(%x : tensor<2x2x3x4xf32>) outs(%e : tensor<2x2x3x4xf32>) {
  ^bb0(%v: f32, %square: f32, %b: index, %h: index, %i: index, %d: index):
    %eps = arith.constant 0.5 : f32
    %s = arith.addf %square, %eps : f32
    %q = math.rsqrt %s : f32
    %n = arith.mulf %v, %q : f32
    %u = tensor.extract %w[%d] : tensor<4xf32>
    %t = arith.mulf %n, %u : f32
    %o = tensor.extract %g[%b, %h, %i] : tensor<2x2x3xf32>
    %z = arith.mulf %t, %o : f32
    attn.yield %z : f32
  } -> tensor<2x2x3x4xf32>""",
          lambda x, w, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.5) * w * g[..., None]),
    # Elements alone.
    Graph("map_elements", {"x": (2, 2, 3, 4)}, (2, 2, 3, 4), """
  %e = tensor.empty() : tensor<2x2x3x4xf32>
  %r = attn.map_heads ins(%x : tensor<2x2x3x4xf32>) outs(%e : tensor<2x2x3x4xf32>) {
  ^bb0(%v: f32, %square: f32, %b: index, %h: index, %i: index, %d: index):
    %own = tensor.extract %x[%b, %h, %i, %d] : tensor<2x2x3x4xf32>
    %t = math.sin %v : f32
    %z = arith.mulf %t, %own : f32
    attn.yield %z : f32
  } -> tensor<2x2x3x4xf32>""", lambda x: np.sin(x) * x),
    # Functions that the C library has only of scalars.
    Graph("library_functions", {"q": (1, 2, 5, 8), "k": (1, 2, 7, 8), "v": (1, 2, 7, 8)}, (1, 2, 5, 8), """
  %e = tensor.empty() : tensor<1x2x5x8xf32>
  %r = attn.attention ins(%q, %k, %v : tensor<1x2x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32>)
      outs(%e : tensor<1x2x5x8xf32>) scale(0.5) score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %half = arith.constant 0.5 : f32
        %two = arith.constant 2.0 : f32
        %sin = math.sin %s : f32
        %t = arith.mulf %sin, %half : f32
        %u = arith.addf %t, %two : f32
        %0 = math.asinh %s : f32
        %1 = math.acosh %u : f32
        %2 = math.atanh %t : f32
        %3 = math.asin %t : f32
        %4 = math.acos %t : f32
        %5 = math.atan2 %s, %u : f32
        %6 = math.erfc %s : f32
        %7 = arith.addf %0, %1 : f32
        %8 = arith.addf %7, %2 : f32
        %9 = math.fma %3, %two, %8 : f32
        %10 = arith.mulf %4, %5 : f32
        %11 = arith.addf %9, %10 : f32
        %12 = arith.addf %11, %6 : f32
        attn.yield %12 : f32
      } -> tensor<1x2x5x8xf32>""",
          lambda q, k, v: library_attention(q, k, v)),
]


def shapes(x, y):
    c = (x.reshape(2, 3, 2).transpose(1, 0, 2) * y).reshape(6, 2)
    result = c.copy()
    result[3:5] = np.exp(c[1:5:2])
    return result


# ===----------------------------------------------------------------------===#
# NumPy
# ===----------------------------------------------------------------------===#


def sink_attention(q, k, v, sinks):
    """Causal attention, plus its log-sum-exp."""
    s = q @ np.swapaxes(k, 2, 3) * q.shape[3]**-0.5
    i, j = np.ogrid[: q.shape[2], : k.shape[2]]
    s = np.where(j <= i + k.shape[2] - q.shape[2], s, -np.inf)
    total = np.exp(s).sum(-1, keepdims=True) + np.exp(sinks)[:, None, None]
    return np.exp(s) / total @ v + np.log(total)


def elements(x):
    a, b = x[0, 1], x[1, 1]
    result = x.copy()
    result[:, 1:3] = np.array([[a, a * b], [b, a], [a * b, a * b]])
    return result**2


def softmax(x, axis):
    e = np.exp(x)
    return e / e.sum(axis, keepdims=True)


def branched_attention(x, factor):
    """Attention of rows to each other, then one of three functions of each element."""
    p = np.exp(factor * (x @ x.T))
    y = p / p.sum(-1, keepdims=True) @ x
    return np.where(y > 0.5, np.exp(y), np.where(y > 0, np.sin(y), -y))


def library_attention(q, k, v):
    s = q @ np.swapaxes(k, 2, 3) / 2
    t = np.sin(s) / 2
    x = (np.arcsinh(s) + np.arccosh(t + 2) + np.arctanh(t) + 2 * np.arcsin(t)
         + np.arccos(t) * np.arctan2(s, t + 2) + 1 - ERF(s))
    return softmax(x, -1) @ v


def identity_attention(q, k, v, u):
    """Causal attention, mixed with the identity, of heads that share keys in groups."""
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = q @ np.swapaxes(k, 2, 3) * q.shape[3]**-0.5
    i, j = np.ogrid[: q.shape[2], : k.shape[2]]
    diagonal = i + k.shape[2] - q.shape[2]
    p = np.exp(np.where(j <= diagonal, s, -np.inf))
    total = p.sum(-1, keepdims=True)
    weight = u[:, None, None]
    return ((1 - weight) * p / np.where(total == 0, 1, total) + weight * (j == diagonal)) @ v


def scores(v, a):
    """Positions, scaled scores, and scores of all pairs with -inf where masked."""
    group = v.hq // v.hkv
    k = np.repeat(a["k"], group, 1)
    grid = np.ogrid[: v.b, : v.hq, : v.sq, : v.skv]
    x = v.scale * (a["q"] @ k.transpose(0, 1, 3, 2))
    s = v.score(x, *grid, a) if v.score else x
    keep = v.attended(*grid, v) if v.attended else True
    return grid, x, np.where(np.broadcast_to(keep, s.shape), s, -np.inf)


def forward(v, a):
    _, _, s = scores(v, a)
    top = s.max(-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (top + np.log(total))[..., 0]
    p = p / np.maximum(total, LEAST)
    return p @ np.repeat(a["v"], v.hq // v.hkv, 1), lse


def loss(v, a, dout, dlse):
    out, lse = forward(v, a)
    return (out * dout).sum() + (np.where(np.isfinite(lse), lse, 0) * dlse).sum()


def differences(function, a):
    """Gradients of a function of all of `a` by central differences."""
    step = 1e-5
    result = {}
    for name, array in a.items():
        result[name] = gradient = np.zeros(array.shape)
        for at in np.ndindex(*array.shape):
            value = array[at]
            array[at] = value + step
            above = function()
            array[at] = value - step
            below = function()
            array[at] = value
            gradient[at] = (above - below) / (2 * step)
    return result


def formulas(v, a, dout, dlse):
    """Gradients by their formulas; only the score_mod's is by differences."""
    group = v.hq // v.hkv
    grid, x, s = scores(v, a)
    out, lse = forward(v, a)
    p = np.where(np.isfinite(s), np.exp(s - np.where(np.isfinite(lse), lse, 0)[..., None]), 0)
    values = np.repeat(a["v"], group, 1)
    dp = dout @ values.transpose(0, 1, 3, 2)
    ds = p * (dp - (dout * out).sum(-1, keepdims=True) + dlse[..., None])
    step = 1e-6
    dx = ds
    result = {}
    if v.score:
        above, below = v.score(x + step, *grid, a), v.score(x - step, *grid, a)
        dx = ds * (above - below) / (2 * step)
    for name, capture in v.captures.items():
        changed = {d: dict(a, **{name: a[name] + d}) for d in (step, -step)}
        slope = (v.score(x, *grid, changed[step]) - v.score(x, *grid, changed[-step])) / (2 * step)
        if not capture.shape(v):
            result[name] = (ds * slope).sum()
            continue
        result[name] = np.zeros(a[name].shape)
        index = tuple(np.broadcast_to(n, ds.shape) for n in capture.index(*grid))
        np.add.at(result[name], index, ds * slope)
    dx = dx * v.scale
    fold = lambda g: g.reshape(v.b, v.hkv, group, v.skv, -1).sum(2)
    result["q"] = dx @ np.repeat(a["k"], group, 1)
    result["k"] = fold(dx.transpose(0, 1, 3, 2) @ a["q"])
    result["v"] = fold(p.transpose(0, 1, 3, 2) @ dout)
    return result


# ===----------------------------------------------------------------------===#
# Compiling and running
# ===----------------------------------------------------------------------===#

PIPELINE = (
    "builtin.module(attn-differentiate{mode=combined},attn-decompose-linalg,func.func(convert-elementwise-to-linalg),"
    "attn-results-to-arguments,attn-bufferize,"
    "func.func(llvm-request-c-wrappers,convert-attn-to-loops,convert-linalg-to-loops),"
    "convert-scf-to-cf,expand-strided-metadata,lower-affine,math-expand-ops{ops=rsqrt},"
    "convert-math-to-llvm,convert-math-to-libm,convert-to-llvm,reconcile-unrealized-casts)"
)


# Conversions that LLVM calls where the processor has none.
CONVERSIONS = """
#include <string.h>
__bf16 __truncsfbf2(float x) {
  unsigned bits;
  memcpy(&bits, &x, 4);
  bits += 0x7fff + (bits >> 16 & 1);
  unsigned short high = bits >> 16;
  __bf16 result;
  memcpy(&result, &high, 2);
  return result;
}
__bf16 __truncdfbf2(double x) { return __truncsfbf2(x); }
"""


def compile_functions(functions, args):
    path = os.path.join(args.work, "gradients")
    with open(path + ".mlir", "w") as file:
        file.writelines(f.function() for f in functions)
    run_tool(["attn-opt", path + ".mlir", f"--pass-pipeline={PIPELINE}",
              "-o", path + ".llvm.mlir"])
    run_tool(["mlir-translate", "--mlir-to-llvmir", path + ".llvm.mlir",
              "-o", path + ".ll"])
    with open(path + ".c", "w") as file:
        file.write(CONVERSIONS)
    run_tool([args.cc, "-O1", "-shared", "-fPIC", "-Wno-override-module", path + ".ll",
              path + ".c", "-o", path + ".so", "-lm", "-L" + args.library,
              "-lmlir_c_runner_utils", "-Wl,-rpath," + args.library])
    return ctypes.CDLL(path + ".so")


def to_memory(x, element):
    x = np.ascontiguousarray(x, np.float32)
    if element == "f32":
        return x
    return (np.atleast_1d(x).view(np.uint32) >> 16).astype(np.uint16).reshape(x.shape)


def from_memory(x, element):
    if element == "f32":
        return x.astype(F64)
    return (np.atleast_1d(x).astype(np.uint32) << 16).view(np.float32).reshape(x.shape).astype(F64)


def descriptor(array):
    rank = array.ndim
    fields = [("allocated", ctypes.c_void_p), ("aligned", ctypes.c_void_p),
              ("offset", ctypes.c_int64)]
    values = [array.ctypes.data, array.ctypes.data, 0]
    if rank:
        fields += [("sizes", ctypes.c_int64 * rank), ("strides", ctypes.c_int64 * rank)]
        values += [(ctypes.c_int64 * rank)(*array.shape),
                   (ctypes.c_int64 * rank)(*(n // array.itemsize for n in array.strides))]
    return type("Descriptor", (ctypes.Structure,), {"_fields_": fields})(*values)


def run(v, library, rng):
    """A list of messages, empty if all gradients agree."""
    elements = {"q": v.element, "k": v.element, "v": v.element}
    elements.update({n: c.element for n, c in v.captures.items()})
    shapes = {"q": (v.b, v.hq, v.sq, v.d), "k": (v.b, v.hkv, v.skv, v.d),
              "v": (v.b, v.hkv, v.skv, v.dv)}
    shapes.update({n: c.shape(v) for n, c in v.captures.items()})
    memory = {}
    for name, shape in shapes.items():
        x = np.asarray(rng.standard_normal(shape))
        x = (v.inputs or {}).get(name, lambda x: x)(x)
        memory[name] = to_memory(x, elements[name])
    a = {n: from_memory(m, elements[n]) for n, m in memory.items()}
    dout = to_memory(rng.standard_normal((v.b, v.hq, v.sq, v.dv)), v.element)
    dlse = to_memory(rng.standard_normal((v.b, v.hq, v.sq)), "f32")
    out, lse = np.zeros_like(dout), np.zeros_like(dlse)
    results = {n: np.full_like(m, 1) for n, m in memory.items()}
    arrays = [*memory.values(), dout, dlse, out, lse, *results.values()]
    descriptors = [descriptor(x) for x in arrays]
    getattr(library, f"_mlir_ciface_{v.name}_grad")(*(ctypes.byref(d) for d in descriptors))

    dout, dlse = from_memory(dout, v.element), from_memory(dlse, "f32")
    exact = {"formula": formulas(v, a, dout, dlse)}
    if max(v.sq, v.skv) < 10 and v.element == "f32":
        exact["finite difference"] = differences(lambda: loss(v, a, dout, dlse), a)
    messages = []
    for kind, gradients in exact.items():
        for name, result in results.items():
            result = from_memory(result, elements[name])
            if not np.isfinite(result).all():
                messages.append(f"gradient of {name} is not finite")
                continue
            size = np.abs(gradients[name]).max(initial=1e-3)
            error = np.abs(result - gradients[name]).max(initial=0) / size
            if not error <= v.tolerance:
                messages.append(f"gradient of {name}: error {error:.3g} from {kind}, "
                                f"allowed {v.tolerance:.3g}")
    _, exact_lse = forward(v, a)
    empty = np.isneginf(exact_lse)
    if (from_memory(results["q"], v.element)[empty] != 0).any():
        messages.append("gradient of a query with nothing to attend is not 0")
    return messages


def compile_kernels(functions, args):
    path = os.path.join(args.work, "kernels")
    with open(path + ".mlir", "w") as file:
        file.writelines(f.function() for f in functions)
    gradients = ",".join(f.name + "_grad" for f in functions)
    run_tool(["attn-opt", path + ".mlir", "--attn-differentiate=mode=combined",
              f"--symbol-privatize=exclude={gradients}", "--symbol-dce", "-o", path + ".grad.mlir"])
    run_tool(["attn-compile", path + ".grad.mlir", "-o", path + ".so", "--target=host"])
    return Artifact(path + ".so", args.runtime)


def call_loops(library, name, arrays):
    descriptors = [descriptor(x) for x in arrays]
    getattr(library, f"_mlir_ciface_{name}")(*(ctypes.byref(d) for d in descriptors))


def call_kernels(library, name, arrays):
    views = []
    for x in arrays:
        views.append(TensorView.make(x.shape, [n // x.itemsize for n in x.strides], DTYPES.index("f32"), -1))
        views[-1].data = x.ctypes.data
    pointers = (ctypes.POINTER(TensorView) * len(views))(*(ctypes.pointer(x) for x in views))
    if library[name].call(pointers, len(views), None) != 0:
        raise RuntimeError(library[name].last_error().decode())


def run_graph(graph, library, rng, call=call_loops):
    """A list of messages, empty if all gradients agree."""
    memory = {n: to_memory(rng.standard_normal(x), "f32") for n, x in graph.shapes.items()}
    dout = to_memory(rng.standard_normal(graph.result), "f32")
    results = {n: np.full_like(m, 1) for n, m in memory.items()}
    call(library, graph.name + "_grad", [*memory.values(), dout, np.zeros_like(dout), *results.values()])
    a = {n: from_memory(m, "f32") for n, m in memory.items()}
    exact = differences(lambda: (graph.compute(**a) * dout).sum(), a)
    return [f"gradient of {n}: error" for n in a
            if not np.abs(results[n] - exact[n]).max() <= 1e-5 * max(1, np.abs(exact[n]).max())]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", required=True, help="clang")
    parser.add_argument("--library", required=True, help="folder of MLIR's runner libraries")
    parser.add_argument("--work", required=True, help="folder for what is compiled")
    parser.add_argument("--runtime", required=True, help="the runtime library")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    library, kernels = compile_functions(VARIANTS + GRAPHS, args), compile_kernels(KERNELS, args)
    failures = 0
    cases = [(v, run, library) for v in VARIANTS] + [(g, run_graph, library) for g in GRAPHS]
    cases += [(g, functools.partial(run_graph, call=call_kernels), kernels) for g in KERNELS]
    for number, (case, check, compiled) in enumerate(cases):
        for message in check(case, compiled, np.random.default_rng([args.seed, number])):
            failures += 1
            print(f"{case.name}: {message}")
    print(f"{len(cases)} cases, {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
