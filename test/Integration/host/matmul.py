# ===- matmul.py - Numerics of matmuls on the host ------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Compiles matmuls of linalg in many variants for the host, runs each with
# several shapes, and compares with f64.
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

import matmul  # noqa: E402
from attention import from_memory, to_memory  # noqa: E402
from attn.artifact import DTYPES, Artifact, TensorView  # noqa: E402
from tool_cache import run_tool  # noqa: E402

# On the host nothing has to be a multiple of anything.
VARIANTS = matmul.VARIANTS + [
    matmul.Matmul("f32", batch="l", epilogue="rows_residual"),
    matmul.Matmul("f32", epilogue="accumulate"),
]
SHAPES = [
    dict(b=2, m=33, n=129, k=71),
    dict(b=3, m=16, n=64, k=64),
    dict(b=1, m=1, n=1, k=1),
    dict(b=2, m=5, n=7, k=0),
    dict(b=0, m=5, n=7, k=3),
    dict(b=1, m=40, n=37, k=200),
]


def view(array, dtype):
    result = TensorView.make(array.shape, [s // array.itemsize for s in array.strides], DTYPES.index(dtype), -1)
    result.data = array.ctypes.data
    return ctypes.pointer(result)


def run(function, variant, sizes, rng, padded):
    """Returns the largest error, as a multiple of the allowed one."""
    arrays, views = {}, []
    for name, dims, dtype in variant.arguments():
        shape = variant.shape(dims, sizes)
        # Rows that are apart in memory.
        whole = shape[:-1] + (shape[-1] + (3 if padded else 0),)
        memory = to_memory(rng.standard_normal(whole), dtype)
        if name == "out":
            # What is not written shows.
            memory[...] = to_memory(np.full(whole, np.nan), dtype)
        arrays[name] = memory
        views.append(view(memory[..., : shape[-1]], dtype))
    code = function.call((ctypes.POINTER(TensorView) * len(views))(*views), len(views), None)
    if code != 0:
        raise RuntimeError(function.last_error().decode())
    wide = {name: from_memory(arrays[name], dtype)[..., : variant.shape(dims, sizes)[-1]].astype(np.float64)
            for name, dims, dtype in variant.arguments()}
    result, allowed = variant.reference(wide, np.einsum)
    difference = abs(wide["out"] - result) / (allowed + 1e-300)
    return np.where(np.isnan(difference), np.inf, difference).max(initial=0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True, help="folder for what is compiled")
    parser.add_argument("--runtime", required=True, help="the runtime library")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    rng = np.random.default_rng(0)
    cases = failures = 0
    for variant in VARIANTS:
        path = os.path.join(args.work, str(variant))
        with open(path + ".mlir", "w") as file:
            file.write(variant.module())
        run_tool(["attn-compile", path + ".mlir", "-o", path + ".so", "--target=host"])
        function = Artifact(path + ".so", args.runtime)["matmul"]
        for sizes in SHAPES:
            sizes = dict(sizes, **{d: s for d, s in zip("mnk", variant.sizes) if s})
            for padded in (False, True):
                cases += 1
                error = run(function, variant, sizes, rng, padded)
                if not error <= 1:
                    failures += 1
                    print(f"{variant} {sizes} padded={padded}: {error:.3g} of what is allowed")
    print(f"{cases} cases, {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
