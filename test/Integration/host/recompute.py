# ===- recompute.py - Planned pairs of functions on the host ---------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Differentiates two layers (norm, projections, attention, MLP), without dropout
# and with dropout that attention makes itself in one layer and reads from a tensor
# of keep masks in the other. Forward and backward functions whose memory is planned
# for several budgets give what the function of both gives.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --work %t --runtime %attn_libs_dir/libattn_runtime%shlibext

import argparse
import ctypes
import os
import re
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python"))

from attn.artifact import DTYPES, Artifact, TensorView  # noqa: E402
from tool_cache import run_tool  # noqa: E402

LENGTH, WIDTH, HEADS, INNER = 40, 32, 2, 96
DIM = WIDTH // HEADS
X, H = f"tensor<{LENGTH}x{WIDTH}xf32>", f"tensor<1x{HEADS}x{LENGTH}x{DIM}xf32>"
S, R = f"tensor<1x{LENGTH}x{HEADS}x{DIM}xf32>", f"tensor<{LENGTH}xf32>"
W, G, B = f"tensor<{WIDTH}x{WIDTH}xf32>", f"tensor<{WIDTH}xf32>", f"tensor<{LENGTH}x{INNER}xf32>"
W1, W2 = f"tensor<{WIDTH}x{INNER}xf32>", f"tensor<{INNER}x{WIDTH}xf32>"
# Keep masks of blocks of 64 queries and 64 keys, as words.
D = f"tensor<1x{HEADS}x32x4xi32>"
WEIGHTS = {"gain": G, "wq": W, "wk": W, "wv": W, "wo": W, "w1": W1, "w2": W2}
DROPOUT = "#attn.dropout<p = 0.25, rng = #attn.philox<rounds = 7>>"
STATE = "%seed, %offset : tensor<i64>, tensor<i64>"
# What the attention of each layer says of its dropout.
VARIANTS = {
    "plain": ("", ""),
    "dropout": (f"dropout({DROPOUT}, {STATE})", f"dropout_mask rows(%bits : {D}) p(0.25)"),
}
# Bytes; the last one saves whatever is worth it.
BUDGETS = (0, 30000, None)

MAPS = """#rows = affine_map<(i, j) -> (i)>
#columns = affine_map<(i, j) -> (j)>
#all = affine_map<(i, j) -> (i, j)>
"""


def norm(name, source):
    return f"""  %{name}_e = tensor.empty() : {R}
  %{name}_f = linalg.fill ins(%zero : f32) outs(%{name}_e : {R}) -> {R}
  %{name}_s = linalg.generic {{indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}}
      ins(%{source} : {X}) outs(%{name}_f : {R}) {{
  ^bb0(%a: f32, %sum: f32):
    %2 = arith.mulf %a, %a : f32
    %3 = arith.addf %sum, %2 : f32
    linalg.yield %3 : f32
  }} -> {R}
  %{name} = linalg.generic {{indexing_maps = [#all, #rows, #columns, #all], iterator_types = ["parallel", "parallel"]}}
      ins(%{source}, %{name}_s, %gain : {X}, {R}, {G}) outs(%x_e : {X}) {{
  ^bb0(%a: f32, %b: f32, %g: f32, %o: f32):
    %mean = arith.mulf %b, %share : f32
    %m = arith.addf %mean, %eps : f32
    %s = math.rsqrt %m : f32
    %t = arith.mulf %a, %s : f32
    %u = arith.mulf %t, %g : f32
    linalg.yield %u : f32
  }} -> {X}
"""


def product(name, left, right, types, init):
    a, b, c = types
    return f"""  %{name} = linalg.matmul ins(%{left}, %{right} : {a}, {b}) outs(%{init} : {c}) -> {c}
"""


def layer(name, source, attention):
    """Operations that compute %{name} of %{source}."""
    at = lambda part: f"{name}_{part}"
    text = norm(at("n"), source)
    for part in "qkv":
        text += product(at(part + "2"), at("n"), "w" + part, (X, W, X), "x_f")
        text += f"""  %{at(part)}4 = tensor.expand_shape %{at(part)}2 [[0, 1], [2, 3]]
      output_shape [1, {LENGTH}, {HEADS}, {DIM}] : {X} into {S}
  %{at(part)} = linalg.transpose ins(%{at(part)}4 : {S}) outs(%h_e : {H}) permutation = [0, 2, 1, 3]
"""
    text += f"""  %{at("a")} = attn.attention ins(%{at("q")}, %{at("k")}, %{at("v")} : {H}, {H}, {H})
      outs(%h_e : {H}) mask(#attn.causal) {attention} -> {H}
  %{at("t")} = linalg.transpose ins(%{at("a")} : {H}) outs(%s_e : {S}) permutation = [0, 2, 1, 3]
  %{at("o")} = tensor.collapse_shape %{at("t")} [[0, 1], [2, 3]] : {S} into {X}
"""
    text += product(at("r"), at("o"), "wo", (X, W, X), source)
    text += norm(at("m"), at("r"))
    text += product(at("h"), at("m"), "w1", (X, W1, B), "b_f")
    text += f"""  %{at("g")} = linalg.generic {{
      indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}}
      ins(%{at("h")} : {B}) outs(%b_e : {B}) {{
  ^bb0(%b: f32, %o: f32):
    %n = arith.negf %b : f32
    %e = math.exp %n : f32
    %d = arith.addf %e, %one : f32
    %s = arith.divf %b, %d : f32
    linalg.yield %s : f32
  }} -> {B}
"""
    return text + product(name, at("g"), "w2", (B, W2, X), at("r"))


def module(variant):
    weights = ", ".join(f"%{n}: {t}" for n, t in WEIGHTS.items())
    bits = ""
    if "%bits" in VARIANTS[variant][1]:
        bits = f"""  %bits_e = tensor.empty() : {D}
  %bits = attn.dropout_mask rows by({DROPOUT}, {STATE}) outs(%bits_e : {D}) -> {D}
"""
    return MAPS + f"""func.func @f(%x: {X}, {weights}, %seed: tensor<i64>, %offset: tensor<i64>) -> {X} {{
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %eps = arith.constant 1.0e-06 : f32
  %share = arith.constant {1 / WIDTH} : f32
  %x_e = tensor.empty() : {X}
  %x_f = linalg.fill ins(%zero : f32) outs(%x_e : {X}) -> {X}
  %h_e = tensor.empty() : {H}
  %s_e = tensor.empty() : {S}
  %b_e = tensor.empty() : {B}
  %b_f = linalg.fill ins(%zero : f32) outs(%b_e : {B}) -> {B}
{bits}{layer("y", "x", VARIANTS[variant][0])}{layer("z", "y", VARIANTS[variant][1])}  return %z : {X}
}}
"""


def compile_module(path, name, passes, runtime):
    """The artifact of the functions that `passes` make, and the remarks of the plan."""
    passed, library = f"{path}.{name}.mlir", f"{path}.{name}.so"
    passes = [*passes, "--symbol-privatize=exclude=f_fwd,f_bwd,f_grad", "--symbol-dce"]
    done = subprocess.run(["attn-opt", path + ".mlir", *passes, "-o", passed, "--remarks-filter=attn-plan-recompute",
                           "--remark-format=emitRemark"], check=True, stderr=subprocess.PIPE, text=True)
    run_tool(["attn-compile", passed, "--target=host", "--host-opt-level=0", "-o", library])
    return Artifact(library, runtime), done.stderr


def call(function, inputs):
    """The outputs of a function."""
    shapes = [dims for _, _, dims, is_output in function.args if is_output]
    dtypes = [dtype for _, dtype, _, is_output in function.args if is_output]
    # What is not written shows.
    outputs = [np.full(shape, -1 if dtype == "i32" else np.nan, np.int32 if dtype == "i32" else np.float32)
               for shape, dtype in zip(shapes, dtypes)]
    views = []
    for array in [*inputs, *outputs]:
        dtype = {"float32": "f32", "int64": "i64", "int32": "i32"}[str(array.dtype)]
        view = TensorView.make(array.shape, [s // array.itemsize for s in array.strides], DTYPES.index(dtype), -1)
        view.data = array.ctypes.data
        views.append(ctypes.pointer(view))
    if function.call((ctypes.POINTER(TensorView) * len(views))(*views), len(views), None) != 0:
        raise RuntimeError(function.last_error().decode())
    return outputs


def run(variant, args):
    """A list of messages, empty if all agree."""
    path = os.path.join(args.work, variant)
    with open(path + ".mlir", "w") as file:
        file.write(module(variant))
    combined, _ = compile_module(path, "combined", ["--attn-differentiate=mode=combined"], args.runtime)
    rng = np.random.default_rng(len(variant))
    inputs = [rng.standard_normal((LENGTH, WIDTH))]
    for shape in ((WIDTH,), *[(WIDTH, WIDTH)] * 4, (WIDTH, INNER), (INNER, WIDTH)):
        inputs.append(1 + rng.standard_normal(shape) / 8 if len(shape) == 1 else
                      rng.standard_normal(shape) * shape[0]**-0.5)
    inputs = [x.astype(np.float32) for x in inputs]
    inputs += [np.array(rng.integers(-(2**63), 2**63 - 1)) for _ in range(2)]
    dout = rng.standard_normal((LENGTH, WIDTH)).astype(np.float32)
    expected = call(combined["f_grad"], [*inputs, dout])
    messages, sizes, numbers = [], [], set()
    for budget in BUDGETS:
        option = "--attn-plan-recompute=target=host" + ("" if budget is None else f" budget={budget}")
        artifact, remarks = compile_module(path, str(budget), ["--attn-differentiate", option], args.runtime)
        y, *saved = call(artifact["f_fwd"], inputs)
        found = [y, *call(artifact["f_bwd"], [*inputs, y, *saved, dout])]
        size = sum(x.nbytes for x in saved)
        sizes.append(size)
        numbers.add(len(re.findall("recomputed result", remarks)))
        if budget is not None and size > budget:
            messages.append(f"{size} bytes are saved with a budget of {budget}")
        if f"saves {size} of" not in remarks:
            messages.append(f"{size} bytes are saved, not what the remark says: {remarks}")
        for number, (x, e) in enumerate(zip(found, expected, strict=True)):
            error = np.abs(x - e).max() / np.abs(e).max()
            if not error <= args.tolerance:
                messages.append(f"budget {budget}: result {number}: error {error:.3g}")
            elif args.verbose:
                print(variant, budget, size, number, error)
    if sizes != sorted(set(sizes)) or len(numbers) < 3:
        messages.append(f"budgets make no difference: {sizes}")
    return messages


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True, help="folder for what is compiled")
    parser.add_argument("--runtime", required=True, help="the runtime library")
    parser.add_argument("--tolerance", type=float, default=2e-6)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    failures = 0
    for variant in VARIANTS:
        for message in run(variant, args):
            failures += 1
            print(f"{variant}: {message}")
    print(f"{len(VARIANTS)} variants, {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
