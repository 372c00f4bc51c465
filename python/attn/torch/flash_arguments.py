# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments that functions of the package flash-attn have in common."""

from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor

from attn.errors import AttnError, UnsupportedError
from attn.torch.checks import check_integers, with_unit_stride


def refuse_qv(qv: Optional[Tensor]) -> None:
    """Refuses the second part of queries, which FlashAttention-3 multiplies by values."""
    if qv is not None:
        raise UnsupportedError(
            "qv is given; pass torch.cat((qv, q), -1) as q, rows of values followed by keys as k_cache, and "
            "k_cache[..., :value_dim] as v_cache"
        )


def find_sinks(sinks: Optional[Tensor], heads: int) -> Tuple[str, List[Tensor]]:
    """The clause of sinks, and its operand, of the argument ``s_aux``."""
    if sinks is None:
        return "", []
    if not isinstance(sinks, Tensor):
        raise AttnError(f"s_aux is a {type(sinks).__name__}; pass a tensor with an element for each query head")
    if tuple(sinks.shape) != (heads,):
        raise AttnError(f"s_aux has the shape {tuple(sinks.shape)}, expected ({heads},)")
    if sinks.dtype not in (torch.bfloat16, torch.float16, torch.float32):
        raise AttnError(f"s_aux has the dtype {sinks.dtype}, expected one of bf16, f16 and f32")
    return "sinks", [with_unit_stride(sinks, "s_aux")]


def check_entries(tensors: Dict[str, Tensor]) -> List[Tensor]:
    """Tensors of boundaries or lengths of any number of sequences, with a stride of 1."""
    return [check_integers(name, tensor, "sequences + 1" if "cu_" in name else "sequences")
            for name, tensor in tensors.items()]  # fmt: skip
