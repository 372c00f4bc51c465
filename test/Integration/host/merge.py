# ===- merge.py - Merges of partial results on the host ---------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Merges of 2 to 5 partial results and their gradients against the formula in
# f64. Log-sum-exps cover the exponents of f32, partial results may have no keys
# in some rows, and rows may have none at all. The error of an output is compared
# with the largest partial output of its row, up to the largest f32.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --work %t --runtime %attn_libs_dir/libattn_runtime%shlibext

import argparse
import ctypes
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python"))

from attn.artifact import DTYPES, Artifact, TensorView  # noqa: E402
from tool_cache import run_tool  # noqa: E402

BATCH, HEADS, QUERIES = 2, 3, 37
MAX = float(np.finfo(np.float32).max)
# Numbers of partial results and head dims: whole chunks, and ones of single elements.
SHAPES = [(2, 64), (3, 40), (5, 7)]


def mlir(parts, head_dim):
    out, lse = f"tensor<?x{HEADS}x?x{head_dim}xf32>", f"tensor<?x{HEADS}x?xf32>"
    numbers = range(parts)

    def names(prefix):
        return ", ".join(f"%{prefix}{i}" for i in numbers)

    def types(kind):
        return ", ".join([kind] * parts)

    def arguments(prefix, kind):
        return ", ".join(f"%{prefix}{i}: {kind}" for i in numbers)

    given = f"ins({names('o')} : {types(out)}) lses({names('l')} : {types(lse)})"
    made = f"{types(out)}, {types(lse)}"
    return f"""
func.func @merge({arguments('o', out)}, {arguments('l', lse)}, %out: {out}, %lse: {lse}) -> ({out}, {lse}) {{
  %0:2 = attn.merge {given} outs(%out, %lse : {out}, {lse}) -> {out}, {lse}
  return %0#0, %0#1 : {out}, {lse}
}}
func.func @gradient({arguments('o', out)}, {arguments('l', lse)}, %dout: {out}, %dlse: {lse},
    {arguments('do', out)}, {arguments('dl', lse)}) -> ({made}) {{
  %0:{2 * parts} = attn.merge_grad {given} dout(%dout : {out}) dlse(%dlse : {lse})
      outs({names('do')} : {types(out)}) dlses({names('dl')} : {types(lse)}) -> {made}
  return {", ".join(f"%0#{i}" for i in range(2 * parts))} : {made}
}}
"""


def view(array):
    result = TensorView.make(
        array.shape, [s // array.itemsize for s in array.strides], DTYPES.index("f32"), -1
    )
    result.data = array.ctypes.data
    return ctypes.pointer(result)


def call(function, arrays):
    views = [view(array) for array in arrays]
    if function.call((ctypes.POINTER(TensorView) * len(views))(*views), len(views), None):
        sys.exit(function.last_error().decode())


def weights_of(lses):
    """The factors and log-sum-exps of all rows in f64, and where there are no keys."""
    lses = lses.astype(np.float64)
    largest = lses.max(0)
    is_none = np.isneginf(largest)
    reference = np.where(is_none, 0.0, largest)
    with np.errstate(invalid="ignore", over="ignore", under="ignore", divide="ignore"):
        weights = np.exp(lses - reference)
        total = weights.sum(0)
        lse = np.where(is_none, -np.inf, reference + np.log(total))
    return weights / np.where(is_none, 1.0, total), lse


def make_lses(kind, parts, rng):
    lses = rng.standard_normal((parts, BATCH, HEADS, QUERIES))
    if kind == "exponents":
        lses = np.sign(lses) * np.exp2(rng.uniform(-126, 127.9, lses.shape))
    elif kind == "large":
        lses = 1e4 + 10 * lses
    elif kind == "distant":
        lses = 40 * lses
    elif kind == "empty":
        lses = np.where(rng.random(lses.shape) < 0.6, -np.inf, lses)
    return lses.astype(np.float32)


def make_case(kind, parts, head_dim, rng):
    lses = make_lses("normal" if kind == "largest" else kind, parts, rng)
    outs = rng.standard_normal((*lses.shape, head_dim)).astype(np.float32)
    if kind == "largest":
        outs = (np.sign(outs) * MAX * rng.uniform(0.9, 1.0, outs.shape)).astype(np.float32)
    outs[np.isneginf(lses)] = 0
    return outs, lses


def exceeds(found, expected, scale, tolerance):
    """Whether an element is further from the expected one than `tolerance` times `scale`."""
    with np.errstate(invalid="ignore"):
        error = np.abs(found.astype(np.float64) - expected)
    error = np.where(found == expected, 0.0, error)
    return not np.all(error <= tolerance * scale)


def check_merge(function, outs, lses):
    out, lse = np.full_like(outs[0], np.nan), np.full_like(lses[0], np.nan)
    call(function, [*outs, *lses, out, lse])
    weights, exact = weights_of(lses)
    expected = (weights[..., None] * outs.astype(np.float64)).sum(0)
    largest = np.abs(outs).max((0, -1)).astype(np.float64)[..., None]
    if exceeds(out, expected, largest, 2e-6):
        return "out"
    return "lse" if exceeds(lse, exact, 1 + np.abs(np.where(np.isneginf(exact), 0, exact)), 3e-7) else None


def check_gradient(function, outs, lses, rng):
    dout = rng.standard_normal(outs.shape[1:]).astype(np.float32)
    dlse = rng.standard_normal(lses.shape[1:]).astype(np.float32)
    douts, dlses = np.full_like(outs, np.nan), np.full_like(lses, np.nan)
    call(function, [*outs, *lses, dout, dlse, *douts, *dlses])
    weights, _ = weights_of(lses)
    if exceeds(douts, weights[..., None] * dout.astype(np.float64), 1.0, 1e-5):
        return "douts"
    products = (outs.astype(np.float64) * dout).sum(-1)
    expected = weights * (products - (weights * products).sum(0) + dlse)
    return "dlses" if exceeds(dlses, expected, 1 + np.abs(products).max(0), 1e-5) else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True, help="folder for what is compiled")
    parser.add_argument("--runtime", required=True, help="the runtime library")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    rng = np.random.default_rng(0)
    cases = failures = 0
    for parts, head_dim in SHAPES:
        path = os.path.join(args.work, f"merge-{parts}-{head_dim}")
        with open(path + ".mlir", "w") as file:
            file.write(mlir(parts, head_dim))
        run_tool(["attn-compile", path + ".mlir", "-o", path + ".so", "--target=host"])
        artifact = Artifact(path + ".so", args.runtime)
        for kind in ("normal", "exponents", "large", "distant", "empty", "largest"):
            outs, lses = make_case(kind, parts, head_dim, rng)
            messages = [check_merge(artifact["merge"], outs, lses)]
            if kind != "largest":
                messages.append(check_gradient(artifact["gradient"], outs, lses, rng))
            for message in messages:
                cases += 1
                failures += message is not None
                if message:
                    print(f"{parts} parts, head dim {head_dim}, {kind}: wrong {message}")
    print(f"{cases} cases, {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
