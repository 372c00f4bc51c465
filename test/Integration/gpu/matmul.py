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

import sys
from functools import partial

from device_suite import compile_artifact, describe_error, load, make_parser, run_cases
from matmul import SHAPES, VARIANTS


def run_case(torch, function, variant, sizes):
    """A message if something is wrong."""
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
    return describe_error(torch.where(difference.isnan(), torch.inf, difference).max().item())


def make_cases(torch, options):
    for variant in VARIANTS:
        function = load(options, str(variant), "matmul")
        for sizes in SHAPES:
            sizes = dict(sizes, **{d: s for d, s in zip("mnk", variant.sizes) if s})
            # Copies need rows of whole units of 16 bytes.
            if variant.transpose_lhs:
                sizes["m"] += -sizes["m"] % 8
            yield f"{variant} {sizes}", partial(run_case, torch, function, variant, sizes)


def main():
    options = make_parser(__doc__).parse_args()
    if options.compile:
        for variant in VARIANTS:
            compile_artifact(options, str(variant), variant.module(), "--fail-on-spills")
        return 0

    import torch

    torch.manual_seed(0)
    return run_cases(make_cases(torch, options))


if __name__ == "__main__":
    sys.exit(main())
