#!/usr/bin/env python3
# ===- head_ops.py - Numerics of what is fused with attention, on a GPU ------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compares attention with rotated, normalised and gated heads on a GPU with f64.

    head_ops.py --compile build/bin/attn-compile --artifacts DIR [--target sm_80]
    head_ops.py --artifacts DIR --runtime libattn_runtime.so
"""

import argparse
import os
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python"))
from head_ops import VARIANTS  # noqa: E402

SHAPES = [dict(b=2, q=333, k=447), dict(b=1, q=1, k=130), dict(b=1, q=1024, k=1024), dict(b=2, q=64, k=64),
          dict(b=3, q=5, k=3)]  # fmt: skip


def compile_artifacts(args):
    os.makedirs(args.artifacts, exist_ok=True)
    for variant in VARIANTS:
        path = os.path.join(args.artifacts, str(variant))
        with open(path + ".mlir", "w") as file:
            file.write(variant.module())
        subprocess.run([args.compile, path + ".mlir", "-o", path + ".so", f"--target={args.target}", "--fail-on-spills"],
                       check=True)


def run_case(torch, function, variant, sizes, rng):
    """Runs one case; returns the error in units of what is allowed."""
    types = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
    arrays = {}
    for name, shape, dtype in variant.arguments(sizes):
        values = variant.make(name, shape, rng).astype(np.float32)
        arrays[name] = torch.from_numpy(values).to("cuda").to(types[dtype])
    # What is not written shows.
    out = arrays["out"] = torch.full_like(arrays["out"], float("nan"))
    function(*arrays.values())
    torch.cuda.synchronize()
    wide = {name: array.double().cpu().numpy() for name, array in arrays.items()}
    result, allowed = variant.reference(wide)
    difference = abs(out.double().cpu().numpy() - result) / allowed
    return np.where(np.isnan(difference), np.inf, difference).max(initial=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", required=True, help="directory of compiled artifacts")
    parser.add_argument("--compile", metavar="ATTN_COMPILE", help="compile the artifacts with this compiler and stop")
    parser.add_argument("--target", default="sm_90a", help="target of the compiler")
    parser.add_argument("--runtime", default="libattn_runtime.so", help="the runtime library")
    args = parser.parse_args()
    if args.compile:
        compile_artifacts(args)
        return 0

    import torch
    from attn.artifact import Artifact

    rng = np.random.default_rng(0)
    failed = passed = 0
    for variant in VARIANTS:
        function = Artifact(os.path.join(args.artifacts, str(variant) + ".so"), args.runtime)["heads"]
        for sizes in SHAPES:
            error = run_case(torch, function, variant, sizes, rng)
            good = error <= 1
            failed += not good
            passed += good
            if not good:
                print(f"FAILED {variant} {sizes}: {error:.3g} of what is allowed", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
