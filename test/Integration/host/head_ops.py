# ===- head_ops.py - Numerics of what is fused with attention --------------===#
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
# so.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --work %t --runtime %attn_libs_dir/libattn_runtime%shlibext

import argparse
import os
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python"))

import head_ops  # noqa: E402
from attention import from_memory, to_memory  # noqa: E402
from attn.artifact import DTYPES, Artifact, TensorView  # noqa: E402
import ctypes  # noqa: E402

SHAPES = [dict(b=2, q=33, k=47), dict(b=1, q=1, k=130), dict(b=1, q=64, k=64), dict(b=2, q=5, k=3)]


def view(array, dtype):
    result = TensorView.make(array.shape, [s // array.itemsize for s in array.strides], DTYPES.index(dtype), -1)
    result.data = array.ctypes.data
    return ctypes.pointer(result)


def run(function, variant, sizes, rng):
    """The largest error, in units of what is allowed."""
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
        subprocess.run(["attn-compile", path + ".mlir", "-o", path + ".so", "--target=host"], check=True)
        function = Artifact(path + ".so", args.runtime)["heads"]
        for sizes in SHAPES:
            cases += 1
            error = run(function, variant, sizes, rng)
            if not error <= 1:
                failures += 1
                print(f"{variant} {sizes}: {error:.3g} of what is allowed")
    print(f"{cases} cases, {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
