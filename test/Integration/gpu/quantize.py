#!/usr/bin/env python3
# ===- quantize.py - Numerics of quantization on a GPU ------------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compares quantization to 8 bits on a GPU, bit for bit, with roundings to a table of all 8-bit numbers in f64.

    quantize.py --compile build/bin/attn-compile --artifacts DIR [--target sm_80]
    quantize.py --artifacts DIR --runtime libattn_runtime.so

Rotated numbers, sums in f32, are compared within their roundings. Outputs are filled with NaN before a call.
"""

import dataclasses
import math
import sys
from functools import partial

from device_suite import choose_variants, compile_artifact, load, make_parser, run_cases

from attn import Quantize


@dataclasses.dataclass(frozen=True)
class Variant(Quantize):
    """A quantization, with a name."""

    @property
    def name(self):
        parts = [self.dtype, self.out_dtype, f"r{self.rank}", f"d{self.size}", self.granularity]
        parts += [f"b{self.block_size}"] * (self.granularity == "block") + ["given"] * self.given_scale
        parts += ["rotated"] * self.rotated + ["unsaturated"] * (not self.saturate)
        return "_".join(parts)


E4M3, E5M2 = "f8E4M3FN", "f8E5M2"
VARIANTS = [
    Variant("bf16", 4, 128),
    Variant("f16", 4, 64, E5M2, granularity="head"),
    Variant("f32", 4, 128, granularity="block"),
    Variant("bf16", 4, 128, granularity="block", block_size=128),
    Variant("bf16", 4, 72, granularity="head", saturate=False),
    Variant("f32", 4, 64, E5M2, granularity="block", saturate=False),
    Variant("bf16", 2, 4096),
    Variant("f32", 2, 48, E5M2),
    Variant("f16", 3, 24, given_scale=True),
    Variant("bf16", 4, 128, granularity="head", given_scale=True),
    Variant("f32", 4, 128, E5M2, granularity="block", given_scale=True, saturate=False),
    Variant("bf16", 4, 128, granularity="head", rotated=True),
    Variant("f32", 4, 64, granularity="block", rotated=True),
    Variant("f16", 2, 1024, E5M2, rotated=True),
    Variant("bf16", 4, 256, granularity="head", rotated=True, given_scale=True),
]

# Sizes before the last one, of which variants with fewer dimensions take the last ones.
SHAPES = [(2, 3, 130), (1, 1, 1), (3, 8, 64), (1, 2, 1000), (2, 0, 5), (2, 2, 0)]


def make_input(torch, variant, sizes, seed, merged):
    """Numbers with heads of different sizes and some that are not finite, positions before heads in memory or not."""
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[variant.dtype]
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(*sizes, variant.size, generator=generator)
    if x.dim() == 4:
        x *= 10.0 ** torch.arange(-2, x.shape[1] - 2).clamp(max=2).view(-1, 1, 1)
    x = x.to(dtype)
    if x.numel() and not variant.rotated:
        x.view(-1)[0], x.view(-1)[x.numel() // 2], x.view(-1)[-1] = math.inf, math.nan, -0.0
    return x.transpose(1, 2).contiguous().transpose(1, 2) if merged and x.dim() == 4 else x


def call(torch, function, variant, x, scale, signs):
    """The 8-bit numbers, the scales and the largest absolute values that the kernels write, on the host."""
    from quantize_reference import E4M3 as e4m3, E5M2 as e5m2

    sizes = {"tensor": (), "head": x.shape[:2]}.get(variant.granularity)
    if sizes is None:
        sizes = (*x.shape[:2], -(-x.shape[2] // variant.block_size))
    # All bits but the sign are NaN in both formats.
    out = torch.full_like(x, 0x7F, dtype=torch.uint8, device="cuda").view(e4m3 if variant.out_dtype == E4M3 else e5m2)
    statistics = [torch.full(sizes, math.nan, device="cuda") for _ in range(1 if variant.given_scale else 2)]
    inputs = [tensor.cuda() for tensor in (x, scale, signs) if tensor is not None]
    function.bind(*inputs, out, *statistics, stream=torch.cuda.current_stream().cuda_stream)()
    torch.cuda.synchronize()
    found = [tensor.cpu() for tensor in (out, *statistics)]
    return found[0], found[1] if scale is None else scale, found[-1]


def rotate(torch, x, signs):
    """Rows times signs and a Hadamard matrix, in f64."""
    from quantize_reference import hadamard

    size = x.shape[-1]
    return x.double() @ (signs.double()[:, None] * hadamard(size) / math.sqrt(size))


def check_rotated(torch, variant, x, signs, found):
    """What is wrong with rotated numbers, or None."""
    from quantize_reference import choose_scale, reduce_amax, spread

    out, scale, amax = found
    rotated = rotate(torch, x, signs)
    expected = reduce_amax(rotated, variant.granularity, variant.block_size)
    if not torch.allclose(amax.double(), expected.double(), rtol=1e-5, atol=0):
        return f"amax is {amax.view(-1)[0]}, expected {expected.view(-1)[0]}, or others are wrong"
    if not variant.given_scale and not torch.equal(scale, choose_scale(amax, out.dtype)):
        return f"the scale is {scale.view(-1)[:1].tolist()}, and amax {amax.view(-1)[:1].tolist()}"
    scales = spread(scale, x, variant.block_size).double()
    # Half of the distance of two numbers, or of two subnormal ones.
    units = (2.0**-4, 2.0**-10) if variant.out_dtype == E4M3 else (2.0**-3, 2.0**-17)
    difference = (out.double() * scales - rotated).abs()
    wrong = ~(difference <= 1.001 * (rotated.abs() * units[0] + scales * units[1]))
    return f"{wrong.sum().item()} of {wrong.numel()} numbers are wrong" if wrong.any() else None


def check(torch, variant, x, scale, found):
    """What is wrong, or None."""
    from quantize_reference import choose_scale, reduce_amax, round_to, spread

    out, own_scale, amax = found
    expected = reduce_amax(x, variant.granularity, variant.block_size)
    if not torch.equal(amax, expected):
        return f"amax is {amax.view(-1)[:1].tolist()}, expected {expected.view(-1)[:1].tolist()}, or others are wrong"
    if scale is None:
        scale = choose_scale(amax, out.dtype)
    if not torch.equal(own_scale, scale):
        return f"the scale is {own_scale.view(-1)[:1].tolist()}, expected {scale.view(-1)[:1].tolist()}"
    rounded = round_to(x.float() / spread(scale, x, variant.block_size), out.dtype, variant.saturate)
    values = out.double()
    same = (values == rounded) & (values.signbit() == rounded.signbit()) | (values.isnan() & rounded.isnan())
    if not same.all():
        first = (~same).nonzero()[0].tolist()
        return f"{(~same).sum().item()} of {same.numel()} numbers are wrong, first at {first}"
    return None


def run_case(torch, function, variant, sizes, seed, merged):
    """A message if something is wrong."""
    from quantize_reference import choose_scale, reduce_amax

    x = make_input(torch, variant, sizes, seed, merged)
    generator = torch.Generator().manual_seed(seed)
    signs = None
    if variant.rotated:
        signs = torch.randint(2, (variant.size,), generator=generator) * 2.0 - 1
    scale = None
    if variant.given_scale:
        numbers = rotate(torch, x, signs) if variant.rotated else x
        amax = reduce_amax(numbers, variant.granularity, variant.block_size)
        scale = choose_scale(amax.float(), torch.float8_e4m3fn if variant.out_dtype == E4M3 else torch.float8_e5m2)
        # Half of the numbers' own, if they are known exactly: the largest ones are too large.
        scale = scale * (1.001 if variant.rotated else 0.5)
    found = call(torch, function, variant, x, scale, signs)
    if variant.rotated:
        return check_rotated(torch, variant, x, signs, found) if x.numel() else None
    return check(torch, variant, x, scale, found)


def make_cases(torch, options):
    for variant in choose_variants(options, VARIANTS):
        function = load(options, variant.name, "quantize")
        for seed, sizes in enumerate(SHAPES):
            sizes = sizes[len(sizes) + 1 - variant.rank :]
            for merged in (False, True)[: 2 if variant.rank == 4 else 1]:
                yield (f"{variant.name} {sizes} {merged}",
                       partial(run_case, torch, function, variant, sizes, seed, merged))  # fmt: skip


def main():
    options = make_parser(__doc__, "target", "assemble", "only", "every").parse_args()
    if options.compile:
        flags = ["--fail-on-spills"] if options.assemble or options.target == "sm_90a" else []
        flags += ["--embed-ptx=false"] if options.assemble else []
        for variant in choose_variants(options, VARIANTS):
            compile_artifact(options, variant.name, variant.mlir(), *flags)
        return 0

    import torch

    return run_cases(make_cases(torch, options), options)


if __name__ == "__main__":
    sys.exit(main())
