# ===- head_ops.py - Numerics of operations fused with attention -----------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Compiles attention with rotated, normalised and gated heads for the host, and
# compares with f64. Queries become part of attention or a kernel of their own by
# cost, keys are always the latter, gates are part of the epilogue: the remarks say
# so. Gradients are compared with finite differences, element by element.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --work %t --runtime %attn_libs_dir/libattn_runtime%shlibext

import argparse
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python"))

import head_ops  # noqa: E402
from attention import from_memory, to_memory  # noqa: E402
from attn.artifact import DTYPES, Artifact, TensorView  # noqa: E402
from tool_cache import run_tool  # noqa: E402
import ctypes  # noqa: E402

SHAPES = [dict(b=2, q=33, k=47), dict(b=1, q=1, k=130), dict(b=1, q=64, k=64), dict(b=2, q=5, k=3)]


GRADIENTS = [
    head_ops.Heads("f32", 8, norm=True),
    head_ops.Heads("f32", 8, rope="halves", norm=True, gate="sigmoid", causal=True),
    head_ops.Heads("bf16", 16, norm=True),
    head_ops.Heads("f16", 16, rope="interleaved", rotated=8, norm=True, gate="merged"),
]
GRADIENT_SHAPES = [dict(b=2, q=3, k=5), dict(b=1, q=5, k=2)]
STEP = 1e-5


def view(array, dtype):
    result = TensorView.make(array.shape, [s // array.itemsize for s in array.strides], DTYPES.index(dtype), -1)
    result.data = array.ctypes.data
    return ctypes.pointer(result)


def run(function, variant, sizes, rng):
    """The largest error, as a multiple of the allowed one."""
    wide, views, kept = {}, [], []
    for name, shape, dtype in variant.arguments(sizes):
        values = variant.make(name, shape, rng)
        memory = to_memory(np.full(shape, np.nan) if name == "out" else values, dtype)
        wide[name] = from_memory(memory, dtype).astype(np.float64)
        kept.append(memory)
        views.append(view(memory, dtype))
    code = function.call((ctypes.POINTER(TensorView) * len(views))(*views), len(views), None)
    if code != 0:
        raise RuntimeError(function.last_error().decode())
    out = from_memory(kept[-1], variant.dtype).astype(np.float64)
    result, allowed = variant.reference(wide)
    difference = abs(out - result) / allowed
    return np.where(np.isnan(difference), np.inf, difference).max(initial=0)


def get_wanted(variant):
    """Numbers of the arguments whose gradients are wanted."""
    names = [name for name, _, _ in variant.arguments(GRADIENT_SHAPES[0])]
    return [number for number, name in enumerate(names) if name not in ("cos", "sin", "out")]


def run_gradients(function, variant, sizes, rng):
    """The largest error of a gradient, by its norm, as a multiple of the allowed one."""
    arguments = variant.arguments(sizes)
    inputs, out = arguments[:-1], arguments[-1]
    results = [out] + [inputs[number] for number in get_wanted(variant)]
    wide, kept, dtypes = {}, [], []
    for name, shape, dtype in [*inputs, ("dout", *out[1:])]:
        kept.append(to_memory(variant.make(name, shape, rng), dtype))
        dtypes.append(dtype)
        wide[name] = from_memory(kept[-1], dtype).astype(np.float64)
    for _, shape, dtype in results:
        kept.append(to_memory(np.full(shape, np.nan), dtype))
        dtypes.append(dtype)
    views = [view(memory, dtype) for memory, dtype in zip(kept, dtypes)]
    code = function.call((ctypes.POINTER(TensorView) * len(views))(*views), len(views), None)
    if code != 0:
        raise RuntimeError(function.last_error().decode())

    dout = wide.pop("dout")
    worst = 0.0
    for (name, _, dtype), memory in zip(results[1:], kept[-len(results) + 1:]):
        array = wide[name]
        expected = np.zeros(array.shape)
        for at in np.ndindex(*array.shape):
            value, sides = array[at], []
            for step in (STEP, -STEP):
                array[at] = value + step
                sides.append((variant.reference(wide)[0] * dout).sum())
            array[at] = value
            expected[at] = (sides[0] - sides[1]) / (2 * STEP)
        eps = head_ops.EPSILON[variant.dtype]
        error = np.linalg.norm(from_memory(memory, dtype).astype(np.float64) - expected)
        # Operands of all matmuls are rounded, and exponentials are off; where gradients cancel, only these errors are
        # left.
        allowed = (4 * eps + 4e-6) * (np.linalg.norm(expected) + expected.size**0.5)
        worst = max(worst, np.inf if np.isnan(error) else error / allowed)
    return worst


def compile_gradients(variant, path):
    passes = [f"--attn-differentiate=function=heads mode=combined arguments={','.join(map(str, get_wanted(variant)))}",
              "--symbol-privatize=exclude=heads_grad", "--symbol-dce"]
    run_tool(["attn-opt", path + ".mlir", *passes, "-o", path + ".grad.mlir"])
    run_tool(["attn-compile", path + ".grad.mlir", "-o", path + ".grad.so", "--target=host"])
    return path + ".grad.so"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True, help="folder for what is compiled")
    parser.add_argument("--runtime", required=True, help="the runtime library")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    rng = np.random.default_rng(0)
    cases = failures = 0
    for variant in head_ops.VARIANTS + head_ops.HOST_VARIANTS:
        path = os.path.join(args.work, str(variant))
        with open(path + ".mlir", "w") as file:
            file.write(variant.module())
        run_tool(["attn-compile", path + ".mlir", "-o", path + ".so", "--target=host"])
        function = Artifact(path + ".so", args.runtime)["heads"]
        for sizes in SHAPES:
            cases += 1
            error = run(function, variant, sizes, rng)
            if not error <= 1:
                failures += 1
                print(f"{variant} {sizes}: {error:.3g} of what is allowed")
    for variant in GRADIENTS:
        path = os.path.join(args.work, str(variant))
        with open(path + ".mlir", "w") as file:
            file.write(variant.module())
        function = Artifact(compile_gradients(variant, path), args.runtime)["heads_grad"]
        for sizes in GRADIENT_SHAPES:
            cases += 1
            error = run_gradients(function, variant, sizes, rng)
            if not error <= 1:
                failures += 1
                print(f"gradients of {variant} {sizes}: {error:.3g} of what is allowed")
    print(f"{cases} cases, {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
