#!/usr/bin/env python3
# ===- head_ops.py - Numerics of operations fused with attention, on a GPU ---===#
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

import sys
from functools import partial

import numpy as np
from device_suite import compile_artifact, describe_error, load, make_parser, run_cases
from head_ops import VARIANTS

SHAPES = [dict(b=2, q=333, k=447), dict(b=1, q=1, k=130), dict(b=1, q=1024, k=1024), dict(b=2, q=64, k=64),
          dict(b=3, q=5, k=3)]  # fmt: skip


def run_case(torch, function, variant, sizes, rng):
    """A message if something is wrong."""
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
    return describe_error(np.where(np.isnan(difference), np.inf, difference).max(initial=0))


def make_cases(torch, options):
    rng = np.random.default_rng(0)
    for variant in VARIANTS:
        function = load(options, str(variant), "heads")
        for sizes in SHAPES:
            yield f"{variant} {sizes}", partial(run_case, torch, function, variant, sizes, rng)


def main():
    options = make_parser(__doc__, "target").parse_args()
    if options.compile:
        for variant in VARIANTS:
            compile_artifact(options, str(variant), variant.module(), "--fail-on-spills")
        return 0

    import torch

    return run_cases(make_cases(torch, options), options)


if __name__ == "__main__":
    sys.exit(main())
