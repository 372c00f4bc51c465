#!/usr/bin/env python3
# ===- matmul.py - Numerics of matmuls on a GPU -----------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compares matmuls on a GPU with f64, and keep masks generated in their kernels with NumPy's keep masks.

    matmul.py --compile build/bin/attn-compile --artifacts DIR
    matmul.py --artifacts DIR --runtime libattn_runtime.so

With --target=sm_80, kernels are those for sm_80, whose PTX later GPUs run.
"""

import sys
from functools import partial

import numpy as np
from device_suite import choose_variants, compile_artifact, describe_error, load, make_parser, run_cases
from matmul import MASK_SHAPES, MASK_VARIANTS, SHAPES, VARIANTS

SEED, OFFSET = -(2**40) + 5, 2**33 + 7


def run_case(torch, function, variant, sizes, others=()):
    """A message if something is wrong; `others` are further arguments of the function."""
    types = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
    arrays = {}
    for name, dims, dtype in variant.arguments():
        shape = variant.shape(dims, sizes)
        arrays[name] = torch.randn(shape, device="cuda").to(types[dtype])
    # What is not written shows.
    out = arrays["out"] = torch.full_like(arrays["out"], float("nan"))
    function(*arrays.values(), *others)
    torch.cuda.synchronize()

    wide = {name: array.double() for name, array in arrays.items()}
    # Each factor in f32 is split into two tf32 values.
    product_error = 2.0 ** (-21 if variant.dtype == "f32" else -22)
    result, error = variant.reference(wide, torch.einsum, product_error)
    difference = (out.double() - result).abs() / (error + 1e-30)
    return describe_error(torch.where(difference.isnan(), torch.inf, difference).max().item())


def make_words(torch, variant, shape):
    """All words of a mask, on the GPU."""
    b, h, u, w = (np.arange(n).reshape(tuple(-1 if i == axis else 1 for i in range(4))) for axis, n in enumerate(shape))
    words = variant.dropout.words(SEED, OFFSET, b, h + variant.first_head, u, w)
    if variant.layout == "columns":
        words = words.swapaxes(2, 3)
    return torch.from_numpy(np.ascontiguousarray(words)).cuda()


def run_mask_case(torch, functions, variant, sizes, words):
    """A message if a matmul, or keep masks generated in its kernel or in their own, are wrong."""
    states = [torch.tensor(value, device="cuda") for value in (SEED, OFFSET)]
    beside, alone = torch.zeros_like(words), torch.zeros_like(words)
    message = run_case(torch, functions["matmul"], variant, sizes, [*states, beside])
    functions["mask"](*states, alone)
    torch.cuda.synchronize()
    for name, made in (("concurrent with the matmul", beside), ("by themselves", alone)):
        wrong = (made != words).sum().item()
        if wrong:
            message = f"{message or ''} {wrong} of {words.numel()} words made {name} are wrong"
    return message


def list_shapes(variant):
    for sizes in SHAPES:
        sizes = dict(sizes, **{d: s for d, s in zip("mnk", variant.sizes) if s})
        # Copies need rows of whole units of 16 bytes.
        if variant.transpose_lhs:
            sizes["m"] += -sizes["m"] % 8
        yield sizes


def make_cases(torch, options):
    for variant in choose_variants(options, VARIANTS):
        function = load(options, str(variant), "matmul")
        for sizes in list_shapes(variant):
            yield f"{variant} {sizes}", partial(run_case, torch, function, variant, sizes)
    for variant in choose_variants(options, MASK_VARIANTS):
        functions = {name: load(options, str(variant), name) for name in ("matmul", "mask")}
        for shape in MASK_SHAPES:
            words = make_words(torch, variant, shape)
            for sizes in list_shapes(variant):
                yield (f"{variant} {sizes} mask {shape}",
                       partial(run_mask_case, torch, functions, variant, sizes, words))


def main():
    options = make_parser(__doc__, "target", "assemble", "only", "every").parse_args()
    if options.compile:
        flags = ["--fail-on-spills"] if options.assemble or options.target == "sm_90a" else []
        flags += ["--embed-ptx=false"] if options.assemble else []
        for variant in choose_variants(options, VARIANTS + MASK_VARIANTS):
            compile_artifact(options, str(variant), variant.module(), *flags)
        return 0

    import torch

    torch.manual_seed(0)
    return run_cases(make_cases(torch, options), options)


if __name__ == "__main__":
    sys.exit(main())
