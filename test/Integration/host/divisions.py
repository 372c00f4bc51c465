# ===- divisions.py - Integer divisions and shifts on the host -------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Score and mask regions divide and shift integers that they read: zero, the
# smallest and the largest integer, minus one, and others. With one key the
# logarithm of the sum of a row is its score, so that every result can be seen.
# The f64 reference of the artifact must give the same.
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
from tool_cache import run_tool  # noqa: E402

TYPES = {"i8": 8, "i64": 64, "index": 64}
STORED = {"i8": np.int8, "i64": np.int64, "index": np.int64}
OPS = ("divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "ceildivui", "shli", "shrsi", "shrui")
DIM = 8


def wrap(x, width):
    """The signed integer with the lowest bits of x."""
    x &= (1 << width) - 1
    return x - (1 << width) if x >> (width - 1) else x


def expected(op, x, y, width):
    """The result as traced functions of Python define it."""
    if op.endswith("ui") and op != "shrui":
        x, y = x % (1 << width), y % (1 << width)
    if op.startswith("sh"):
        amount = min(y % (1 << width), width)
        if op == "shli":
            return wrap(x << amount, width)
        return wrap((x if op == "shrsi" else x % (1 << width)) >> amount, width)
    divisor = y or 1
    truncated = abs(x) // abs(divisor) * (1 if (x < 0) == (divisor < 0) else -1)
    if op.startswith("rem"):
        return wrap(x - truncated * y, width)
    if op.startswith("floordiv"):
        return wrap(x // divisor, width)
    if op.startswith("ceildiv"):
        return wrap(-(-x // divisor), width)
    return wrap(truncated, width)


def make_function(name, op, type, count, in_mask):
    stored = "i64" if type == "index" else type
    operands = f"tensor<{count}x{stored}>"
    cast = "arith.index_cast %{0}s : i64 to index" if type == "index" else "arith.bitcast %{0}s : {1} to {1}"
    q, k = f"tensor<1x1x{count}x{DIM}xf32>", f"tensor<1x1x1x{DIM}xf32>"
    # `index` has no conversion to floating point of its own.
    to_i64 = {"i64": "arith.bitcast %r : i64 to i64", "index": "arith.index_cast %r : index to i64"}.get(
        type, f"arith.extsi %r : {type} to i64")
    body = f"""
      %xs = tensor.extract %x[%i] : {operands}
      %ys = tensor.extract %y[%i] : {operands}
      %xi = {cast.format("x", type)}
      %yi = {cast.format("y", type)}
      %r = arith.{op} %xi, %yi : {type}
      %wide = {to_i64}"""
    if in_mask:
        regions = f"""mask_mod {{
    ^bb0(%b: index, %h: index, %i: index, %j: index):{body}
      %w = tensor.extract %want[%i] : tensor<{count}xi64>
      %same = arith.cmpi eq, %wide, %w : i64
      attn.yield %same : i1
    }}"""
    else:
        regions = f"""score_mod {{
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):{body}
      %f = arith.sitofp %wide : i64 to f32
      attn.yield %f : f32
    }}"""
    return f"""
func.func @{name}(%q: {q}, %k: {k}, %x: {operands}, %y: {operands}, %want: tensor<{count}xi64>)
    -> ({q}, tensor<1x1x{count}xf32>) {{
  %out = tensor.empty() : {q}
  %lse = tensor.empty() : tensor<1x1x{count}xf32>
  %0:2 = attn.attention ins(%q, %k, %k : {q}, {k}, {k})
      outs(%out, %lse : {q}, tensor<1x1x{count}xf32>) {regions} -> {q}, tensor<1x1x{count}xf32>
  return %0#0, %0#1 : {q}, tensor<1x1x{count}xf32>
}}
"""


def make_values(width):
    smallest, largest = -(1 << (width - 1)), (1 << (width - 1)) - 1
    return [0, 1, -1, 2, -2, 7, -7, width - 1, width, width + 1, -width, smallest, smallest + 1, largest, largest - 1]


def view(array):
    dtype = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}.get(array.dtype, f"i{8 * array.itemsize}")
    strides = [stride // array.itemsize for stride in array.strides]
    result = TensorView.make(array.shape, strides, DTYPES.index(dtype), -1)
    result.data = array.ctypes.data
    return result


def call(function, arrays, *rest):
    views = [ctypes.pointer(view(array)) for array in arrays]
    pointers = (ctypes.POINTER(TensorView) * len(views))(*views)
    status = function(pointers, len(views), *rest)
    assert status == 0, status


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True)
    parser.add_argument("--runtime", required=True)
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)

    cases, text = [], ""
    for op, type in itertools.product(OPS, TYPES):
        pairs = list(itertools.product(make_values(TYPES[type]), repeat=2))
        for in_mask in (False, True):
            name = f"{op}_{type}{'_mask' if in_mask else ''}"
            text += make_function(name, op, type, len(pairs), in_mask)
            cases.append((name, op, type, pairs, in_mask))
    source, library = os.path.join(args.work, "divisions.mlir"), os.path.join(args.work, "divisions.so")
    with open(source, "w") as file:
        file.write(text)
    run_tool(["attn-compile", source, "-o", library, "--target=host", "--with-reference"])
    artifact = Artifact(library, args.runtime)

    failures = 0
    for name, op, type, pairs, in_mask in cases:
        width = TYPES[type]
        x, y = (np.array([pair[side] for pair in pairs], STORED[type]) for side in (0, 1))
        want = np.array([expected(op, a, b, width) for a, b in pairs], np.int64)
        q, k = np.zeros((1, 1, len(pairs), DIM), np.float32), np.zeros((1, 1, 1, DIM), np.float32)
        function = artifact[name]
        lse = np.full((1, 1, len(pairs)), np.nan, np.float32)
        out = np.empty_like(q)
        call(function.call, [q, k, x, y, want, out, lse], None)
        reference = np.full(lse.shape, np.nan)
        call(function._function.reference, [q, k, x, y, want, np.empty(q.shape), reference], 1)
        correct = np.zeros(len(pairs)) if in_mask else want.astype(np.float32).astype(np.float64)
        for what, got in (("kernel", lse), ("reference", reference)):
            # Scores go through multiplications by log2(e) and ln(2).
            wrong = ~(np.abs(got[0, 0] - correct) <= 1e-6 * np.abs(correct))
            for i in np.flatnonzero(wrong)[:3]:
                print(f"{name}: {what}: {pairs[i][0]} and {pairs[i][1]}: got {got[0, 0, i]}, expected {correct[i]}")
            failures += int(wrong.any())
    print(f"{len(cases)} cases, {failures} failures")
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
