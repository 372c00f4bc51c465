# ===- cache_append.py - New keys and values for KV caches on the host ------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Appends to contiguous and paged caches on the host. Values and elements that
# are not rotated are equal bit for bit, rotated ones are within one rounding of
# f64, and all other elements of caches keep their bits. Entries without room,
# pages that do not exist and positions without angles are reported, and nothing
# is written for them.
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
from kv_append import CASES, VARIANTS, make_bad  # noqa: E402
from tool_cache import run_tool  # noqa: E402


def view(array, dtype):
    result = TensorView.make(array.shape, [s // array.itemsize for s in array.strides], DTYPES.index(dtype), -1)
    result.data = array.ctypes.data
    return ctypes.pointer(result)


def place(array, layout):
    """A copy of an array in the given order of dimensions."""
    if array.ndim != 4 or layout == "bhsd":
        return array.copy()
    return np.ascontiguousarray(array.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)


def run(function, variant, before, invalid=(), report=None):
    after = {name: place(array, variant.layout) for name, array in before.items()}
    views = [view(array, variant.type_of(name)) for name, array in after.items()]
    code = function.call((ctypes.POINTER(TensorView) * len(views))(*views), len(views), None)
    text = function.last_error().decode() if code else ""
    if (report or "") not in text or bool(report) != bool(text):
        return f"reported '{text}'"
    return variant.check(before, after, invalid)


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
            file.write(variant.mlir())
        run_tool(["attn-compile", path + ".mlir", "-o", path + ".so", "--target=host"])
        function = Artifact(path + ".so", args.runtime)["append"]
        given = [(name, variant.make(*case[:3], rng, case[3]), (), None) for name, case in CASES.items()]
        for name, *case in [*given, *make_bad(variant, rng)]:
            cases += 1
            message = run(function, variant, *case)
            if message:
                failures += 1
                print(f"{variant} {name}: {message}")
    print(f"{cases} cases, {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
