# ===- hoist_rng.py - Dropout concurrent with matmuls on the host ------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Compiles a layer (projection, attention with dropout and its gradient) with each
# alternative of attn-hoist-rng. All drop the probabilities that docs/rng.md defines, so that their results are equal
# bit by bit, and match f64 with these keep masks.
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
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python"))

from attn.artifact import DTYPES, Artifact, TensorView  # noqa: E402
from dropout_reference import Dropout, pack  # noqa: E402
from tool_cache import run_tool  # noqa: E402

HIDDEN, HEADS, DIM = 48, 4, 16
COLUMNS = 3 * HEADS * DIM
ALTERNATIVES = ("in-kernel", "sequential", "streams", "fused")
# Both matmuls generate keep masks.
SHARED = "--pass-pipeline=builtin.module(func.func(attn-hoist-rng{alternative=fused max-matmuls=2}))"
DROPOUTS = (Dropout(0.125, "philox", 7), Dropout(0.25, "arx", 6), Dropout(0.1, "threefry", 12))
LENGTHS = (1, 64, 100)
Q, L, Y = f"tensor<1x{HEADS}x?x{DIM}xf32>", f"tensor<1x{HEADS}x?xf32>", f"tensor<?x{COLUMNS}xf32>"


def module(dropout):
    state = f"dropout({dropout}, %seed, %offset : tensor<i64>, tensor<i64>)"
    # A matmul of the layer before, and the projection.
    text = f"""func.func @layer(%x0: tensor<?x{HIDDEN}xf32>, %w0: tensor<{HIDDEN}x{HIDDEN}xf32>,
    %w: tensor<{HIDDEN}x{COLUMNS}xf32>, %seed: tensor<i64>,
    %offset: tensor<i64>, %dout: {Q}) -> ({Y}, {Q}, {L}, {Q}, {Q}, {Q}) {{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x0, %c0 : tensor<?x{HIDDEN}xf32>
  %e0 = tensor.empty(%n) : tensor<?x{HIDDEN}xf32>
  %x = attn.matmul ins(%x0, %w0 : tensor<?x{HIDDEN}xf32>, tensor<{HIDDEN}x{HIDDEN}xf32>)
      outs(%e0 : tensor<?x{HIDDEN}xf32>) -> tensor<?x{HIDDEN}xf32>
  %e = tensor.empty(%n) : {Y}
  %y = attn.matmul ins(%x, %w : tensor<?x{HIDDEN}xf32>, tensor<{HIDDEN}x{COLUMNS}xf32>) outs(%e : {Y}) -> {Y}
"""
    for i, name in enumerate("qkv"):
        part, four = f"tensor<?x{HEADS * DIM}xf32>", f"tensor<1x?x{HEADS}x{DIM}xf32>"
        text += f"""  %{name}s = tensor.extract_slice %y[0, {i * HEADS * DIM}] [%n, {HEADS * DIM}] [1, 1] : {Y} to {part}
  %{name}4 = tensor.expand_shape %{name}s [[0, 1], [2, 3]] output_shape [1, %n, {HEADS}, {DIM}] : {part} into {four}
  %{name} = attn.permute %{name}4 [0, 2, 1, 3] : {four} -> {Q}
"""
    return text + f"""  %o = tensor.empty(%n) : {Q}
  %m = tensor.empty(%n) : {L}
  %out, %lse = attn.attention ins(%q, %k, %v : {Q}, {Q}, {Q}) outs(%o, %m : {Q}, {L}) mask(#attn.causal) {state} -> {Q}, {L}
  %e1 = tensor.empty(%n) : {Q}
  %e2 = tensor.empty(%n) : {Q}
  %e3 = tensor.empty(%n) : {Q}
  %dq, %dk, %dv = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : {Q}, {Q}, {Q}, {Q}, {L}, {Q})
      outs(%e1, %e2, %e3 : {Q}, {Q}, {Q}) mask(#attn.causal) {state} -> {Q}, {Q}, {Q}
  return %y, %out, %lse, %dq, %dk, %dv : {Y}, {Q}, {L}, {Q}, {Q}, {Q}
}}
// The keep mask of some heads.
func.func @heads(%seed: tensor<i64>, %offset: tensor<i64>, %e: tensor<1x2x?x?xi32>) -> tensor<1x2x?x?xi32> {{
  %0 = attn.dropout_mask columns by({dropout}, %seed, %offset : tensor<i64>, tensor<i64>)
      outs(%e : tensor<1x2x?x?xi32>) from_head(1) -> tensor<1x2x?x?xi32>
  return %0 : tensor<1x2x?x?xi32>
}}
"""


def call(function, arrays):
    views = []
    for array in arrays:
        dtype = {"float32": "f32", "int64": "i64", "int32": "i32"}[str(array.dtype)]
        view = TensorView.make(array.shape, [s // array.itemsize for s in array.strides], DTYPES.index(dtype), -1)
        view.data = array.ctypes.data
        views.append(ctypes.pointer(view))
    if function.call((ctypes.POINTER(TensorView) * len(views))(*views), len(views), None) != 0:
        raise RuntimeError(function.last_error().decode())


def reference(q, k, v, dout, keep, keep_probability):
    """Output and gradients in f64."""
    n = q.shape[2]
    scores = np.einsum("bhid,bhjd->bhij", q, k) / DIM**0.5
    scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    factor = keep / keep_probability
    dropped = weights * factor
    out = dropped @ v
    dweights = np.einsum("bhid,bhjd->bhij", dout, v) * factor
    dscores = weights * (dweights - (weights * dweights).sum(-1, keepdims=True)) / DIM**0.5
    return out, dscores @ k, dscores.swapaxes(2, 3) @ q, dropped.swapaxes(2, 3) @ dout


def run(functions, dropout, length, rng):
    shapes = (length, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, COLUMNS)
    x, w0, w = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    w0 *= HIDDEN**-0.5
    w *= HIDDEN**-0.5
    dout = rng.standard_normal((1, HEADS, length, DIM)).astype(np.float32)
    seed, offset = (np.array(rng.integers(-(2**63), 2**63 - 1)) for _ in range(2))
    results = {}
    for alternative, function in functions.items():
        shapes = [(length, COLUMNS), dout.shape, dout.shape[:3], *[dout.shape] * 3]
        # What is not written shows.
        outputs = [np.full(shape, np.nan, np.float32) for shape in shapes]
        call(function, [x, w0, w, seed, offset, dout, *outputs])
        results[alternative] = outputs
    wrong = []
    first = results["in-kernel"]
    for alternative, outputs in results.items():
        if any(a.tobytes() != b.tobytes() for a, b in zip(first, outputs)):
            wrong.append(f"{alternative} differs from in-kernel")
    q, k, v = (part.reshape(1, length, HEADS, DIM).swapaxes(1, 2) for part in
               np.split(first[0].astype(np.float64), 3, axis=1))
    positions = (np.arange(size).reshape([-1] + [1] * after) for size, after in
                 ((1, 3), (HEADS, 2), (length, 1), (length, 0)))
    keep = dropout.keep(int(seed), int(offset), *positions)
    expected = reference(q, k, v, dout.astype(np.float64), keep, dropout.keep_probability)
    for name, actual, wide in zip(("out", "dq", "dk", "dv"), (first[1], *first[3:]), expected):
        error = np.linalg.norm(actual - wide) / (np.linalg.norm(wide) + 1e-30)
        if not error <= 1e-5 and not np.allclose(actual, wide, atol=1e-5):
            wrong.append(f"{name} has an error of {error:.3g}")
    return wrong, int(seed), int(offset), keep


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True, help="folder for what is compiled")
    parser.add_argument("--runtime", required=True, help="the runtime library")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    rng = np.random.default_rng(0)
    cases = failures = 0
    for number, dropout in enumerate(DROPOUTS):
        path = os.path.join(args.work, f"layer{number}")
        with open(path + ".mlir", "w") as file:
            file.write(module(dropout))
        artifacts = {}
        for alternative in ALTERNATIVES:
            library = f"{path}-{alternative}.so"
            run_tool(["attn-compile", path + ".mlir", "-o", library, "--target=host", "--host-opt-level=0",
                      f"--dropout={alternative}"])
            artifacts[alternative] = Artifact(library, args.runtime)
        run_tool(["attn-opt", path + ".mlir", SHARED, "-o", path + "-shared.mlir"])
        run_tool(["attn-compile", path + "-shared.mlir", "-o", path + "-shared.so", "--target=host",
                  "--host-opt-level=0"])
        artifacts["shared"] = Artifact(path + "-shared.so", args.runtime)
        for length in LENGTHS:
            cases += 1
            functions = {name: artifact["layer"] for name, artifact in artifacts.items()}
            wrong, seed, offset, keep = run(functions, dropout, length, rng)
            words = pack(keep[:, 1:3], "columns")
            made = np.zeros_like(words)
            call(artifacts["fused"]["heads"], [np.array(seed), np.array(offset), made])
            # Words of pairs beyond the lengths may be anything.
            full = np.zeros((1, 2, length + -length % 64, length + -length % 64), dtype=bool)
            full[:, :, :length, :length] = True
            within = pack(full, "columns")
            if ((made ^ words) & within).any():
                wrong.append("keep masks of some heads differ")
            b, h, w, u = (np.arange(n).reshape(tuple(-1 if i == axis else 1 for i in range(4)))
                          for axis, n in enumerate(made.shape))
            if (made != dropout.words(seed, offset, b, h + 1, u, w)).any():
                wrong.append("words of keep masks of some heads differ")
            failures += bool(wrong)
            for text in wrong:
                print(f"{dropout} {length}: {text}")
    print(f"{cases} cases, {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
