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
from matmul import FLOAT8_VARIANTS, MASK_SHAPES, MASK_VARIANTS, SHAPES, VARIANTS

MATMULS = VARIANTS + FLOAT8_VARIANTS

SEED, OFFSET = -(2**40) + 5, 2**33 + 7


def make_strided(torch, array):
    """The array with rows of NaNs behind its own, which end at a multiple of 16 bytes, and the memory of both."""
    columns = array.shape[-1]
    rest = -columns % (16 // array.element_size()) + 16
    if array.element_size() == 1:
        # Nothing but the sign is not set.
        memory = torch.nn.functional.pad(array.view(torch.uint8), (0, rest), value=0x7F).view(array.dtype)
    else:
        memory = torch.nn.functional.pad(array, (0, rest), value=float("nan"))
    return memory[..., :columns], memory


def run_case(torch, function, variant, sizes, others=(), strided=False):
    """A message if something is wrong; `others` are further arguments of the function. With `strided`, there is memory
    between the rows of all matrices, which no kernel may write."""
    types = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "f8E4M3FN": torch.float8_e4m3fn}
    types["f8E5M2"] = torch.float8_e5m2
    arrays = {}
    for name, dims, dtype in variant.arguments():
        shape = variant.shape(dims, sizes)
        # What is not written shows.
        array = torch.full(shape, float("nan")) if name == "out" else torch.randn(shape)
        arrays[name] = array.to("cuda", types[dtype])
        if strided and len(shape) > 1:
            arrays[name], memory = make_strided(torch, arrays[name])
    function(*arrays.values(), *others)
    torch.cuda.synchronize()
    # The output is the last argument.
    out = arrays["out"]
    if strided and not memory[..., out.shape[-1]:].isnan().all():
        return "memory between rows of the output was written"

    wide = {name: array.double() for name, array in arrays.items()}
    # Each factor in f32 is split into two tf32 values, with a remainder of 2^-22 of it. The second values
    # of both factors, 2^-11 of them, are not multiplied.
    product_error = {"f32": 2.0**-20, "f8E4M3FN": 2.0**-12, "f8E5M2": 2.0**-12}.get(variant.dtype, 2.0**-22)
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
        if variant.dtype.startswith("f8"):
            sizes["k"] += -sizes["k"] % 16
        yield sizes


def make_cases(torch, options):
    chosen = choose_variants(options, MATMULS + MASK_VARIANTS)
    for variant in [variant for variant in chosen if variant in MATMULS]:
        function = load(options, str(variant), "matmul")
        for sizes in list_shapes(variant):
            yield f"{variant} {sizes}", partial(run_case, torch, function, variant, sizes)
        for sizes in list_shapes(variant) if not any(variant.sizes) else ():
            # Rows that end within 16 bytes of memory.
            sizes = {d: max(size - 3, 1) for d, size in sizes.items()}
            yield f"{variant} {sizes} strided", partial(run_case, torch, function, variant, sizes, strided=True)
    for variant in [variant for variant in chosen if variant in MASK_VARIANTS]:
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
        for variant in choose_variants(options, MATMULS + MASK_VARIANTS):
            compile_artifact(options, str(variant), variant.module(), *flags)
        return 0

    import torch

    torch.manual_seed(0)
    return run_cases(make_cases(torch, options), options)


if __name__ == "__main__":
    sys.exit(main())
