# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ALiBi (Press et al. 2022) as regions of scores."""

from typing import Optional

import torch
from torch import Tensor

from attn.errors import AttnError
from attn.torch.sdpa import write_cap
from attn.trace import capture_type


def check_slopes(slopes: Tensor, batch: int, heads: int) -> None:
    """Refuses slopes that are not one number for each head, or for each head of each batch entry."""
    if not isinstance(slopes, Tensor):
        raise AttnError(f"alibi_slopes is a {type(slopes).__name__}; pass a tensor of torch")
    if slopes.dtype != torch.float32 or tuple(slopes.shape) not in ((heads,), (batch, heads)):
        raise AttnError(
            f"alibi_slopes is {slopes.dtype} of the shape {tuple(slopes.shape)}, expected torch.float32 of ({heads},) "
            f"or ({batch}, {heads})"
        )
    if slopes.requires_grad:
        raise AttnError("alibi_slopes requires a gradient, which slopes do not have here; call .detach() on it")


def write_score_mod(softcap: float, slopes: Optional[Tensor], shift: Optional[Tensor]) -> str:
    """The body of a region that bounds scores, if ``softcap`` is not 0, and then subtracts slope times distance. Its
    first two captures are slopes and ``shift``, the position of query 0 of each sequence."""
    score = write_cap(softcap) if softcap else ""
    result = "%capped" if softcap else "%s"
    if slopes is not None and shift is not None:
        score += _write_alibi(result, slopes, shift)
        result = "%biased"
    return f"{score}attn.yield {result} : f32" if score else ""


def _write_alibi(score: str, slopes: Tensor, shift: Tensor) -> str:
    """Defines %biased."""
    indices = "%h" if slopes.dim() == 1 else "%b, %h"
    return (
        f"%slope = tensor.extract %c0[{indices}] : {capture_type(slopes)} "
        f"%shift32 = tensor.extract %c1[%b] : {capture_type(shift)} %shift = arith.index_cast %shift32 : i32 to index "
        "%row = arith.addi %i, %shift : index %distance = arith.subi %row, %j : index "
        "%distance32 = arith.index_cast %distance : index to i32 %signed = arith.sitofp %distance32 : i32 to f32 "
        "%size = math.absf %signed : f32 %bias = arith.mulf %slope, %size : f32 "
        f"%biased = arith.subf {score}, %bias : f32 "
    )
