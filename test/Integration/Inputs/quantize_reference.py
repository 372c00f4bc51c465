# ===- quantize_reference.py - Roundings to 8 bits by a table in f64 ----------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""What the numerics of quantization on the host and on GPUs have in common: roundings to a table of all 8-bit numbers in
f64, the largest absolute values, and scales."""

import math

import torch

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
LARGEST = {E4M3: 448.0, E5M2: 57344.0}
INF, NAN = math.inf, math.nan


def finite_numbers(dtype):
    """The finite numbers of a format that are not negative, in order, in f64."""
    codes = torch.arange(128, dtype=torch.uint8)
    numbers = codes.view(dtype).double()
    return numbers[numbers.isfinite()]


def round_to(quotients, dtype, saturate):
    """Quotients, rounded to nearest even by comparison with all numbers of the format, in f64."""
    numbers = finite_numbers(dtype)
    # The next number, if the format went on.
    beyond = 2 * numbers[-1] - numbers[-2]
    numbers = torch.cat((numbers, beyond[None]))
    size = quotients.abs().double().nan_to_num(0.0, 1e300)
    upper = torch.searchsorted(numbers, size.contiguous()).clamp(max=len(numbers) - 1)
    lower = (upper - 1).clamp(min=0)
    below, above = size - numbers[lower], numbers[upper] - size
    # The code of a number is its place: even codes have even mantissas.
    takes_lower = (below < above) | ((below == above) & (lower % 2 == 0))
    code = torch.where(takes_lower, lower, upper)
    code = torch.where(size >= beyond, len(numbers) - 1, code)
    rounded = numbers[code]
    is_beyond = code == len(numbers) - 1
    limit = LARGEST[dtype] if saturate else (INF if dtype == E5M2 else NAN)
    rounded = torch.where(is_beyond, limit, rounded)
    return torch.where(quotients.isnan(), NAN, rounded).copysign(quotients.double())


def reduce_amax(x, granularity, block_size=64):
    """The largest finite absolute values, by plain loops over scales."""
    sizes = torch.where(x.isfinite(), x.abs(), 0.0).float()
    if granularity == "tensor":
        return sizes.max() if sizes.numel() else torch.zeros(())
    if granularity == "head":
        return sizes.amax((2, 3)) if sizes.numel() else torch.zeros(x.shape[:2])
    blocks = [block.amax((2, 3)) for block in sizes.split(block_size, 2) if block.numel()]
    return torch.stack(blocks, 2) if blocks else sizes.new_zeros(*x.shape[:2], -(-x.shape[2] // block_size))


def spread(scale, x, block_size=64):
    """The scale of each element."""
    if scale.dim() == 3:
        scale = scale.repeat_interleave(block_size, 2)[:, :, : x.shape[2]]
    return scale.reshape(*scale.shape, *[1] * (x.dim() - scale.dim())).expand(x.shape)


def choose_scale(amax, dtype):
    scale = (amax / torch.tensor(LARGEST[dtype])).clamp(min=2.0**-126)
    return torch.where(amax == 0, 1.0, scale)


def hadamard(size):
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while len(matrix) < size:
        matrix = torch.cat((torch.cat((matrix, matrix), 1), torch.cat((matrix, -matrix), 1)))
    return matrix
