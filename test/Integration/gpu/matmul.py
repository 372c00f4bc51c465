#!/usr/bin/env python3
# ===- matmul.py - Numerics of matrix products on a GPU -----------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compares matrix products on a GPU with f64.

    matmul.py --compile build/bin/attn-compile --artifacts DIR
    matmul.py --artifacts DIR --runtime libattn_runtime.so
"""

import argparse
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python"))
from matmul import SHAPES, VARIANTS  # noqa: E402


def compile_artifacts(args):
    os.makedirs(args.artifacts, exist_ok=True)
    for variant in VARIANTS:
        path = os.path.join(args.artifacts, str(variant))
        with open(path + ".mlir", "w") as file:
            file.write(variant.module())
        subprocess.run([args.compile, path + ".mlir", "-o", path + ".so", "--target=sm_90a", "--fail-on-spills"],
                       check=True)


def run_case(torch, function, variant, sizes):
    """Runs one case; returns the error in units of what is allowed."""
    types = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
    arrays = {}
    for name, dims, dtype in variant.arguments():
        shape = variant.shape(dims, sizes)
        arrays[name] = torch.randn(shape, device="cuda").to(types[dtype])
    # What is not written shows.
    out = arrays["out"] = torch.full_like(arrays["out"], float("nan"))
    function(*arrays.values())
    torch.cuda.synchronize()

    wide = {name: array.double() for name, array in arrays.items()}
    result, error = variant.reference(wide, torch.einsum)
    difference = (out.double() - result).abs() / (error + 1e-30)
    return torch.where(difference.isnan(), torch.inf, difference).max().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", required=True, help="directory of compiled artifacts")
    parser.add_argument("--compile", metavar="ATTN_COMPILE", help="compile the artifacts with this compiler and stop")
    parser.add_argument("--runtime", default="libattn_runtime.so", help="the runtime library")
    args = parser.parse_args()
    if args.compile:
        compile_artifacts(args)
        return 0

    import torch

    from attn.artifact import Artifact

    torch.manual_seed(0)
    failed = passed = 0
    for variant in VARIANTS:
        function = Artifact(os.path.join(args.artifacts, str(variant) + ".so"), args.runtime)["matmul"]
        for sizes in SHAPES:
            sizes = dict(sizes, **{d: s for d, s in zip("mnk", variant.sizes) if s})
            # Copies need rows of whole units of 16 bytes.
            if variant.transpose_lhs:
                sizes["m"] += -sizes["m"] % 8
            error = run_case(torch, function, variant, sizes)
            good = error <= 1
            failed += not good
            passed += good
            if not good:
                print(f"FAILED {variant} {sizes}: {error:.3g} of what is allowed", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
