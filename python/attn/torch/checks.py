# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments that no plan can be made for, refused by their names."""

import math
import numbers
from typing import Any, Optional

import torch
from torch import Tensor

from attn.errors import AttnError, UnsupportedError


def check_arguments(scale: Optional[float], dropout_p: float, **tensors: Any) -> None:
    """Refuses what is no tensor with strides, and numbers out of range. In the graphs of
    ``torch.compile`` numbers may be unknown, and are not looked at."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise AttnError(f"{name} is a {type(tensor).__name__}; pass a tensor of torch")
        if tensor.layout != torch.strided or tensor.is_nested:
            kind = "nested" if tensor.is_nested else str(tensor.layout)
            raise UnsupportedError(f"{name} is a tensor of the kind {kind}; convert it to one with strides")
    if torch.compiler.is_compiling():
        return
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise UnsupportedError(
            "attention has no rules for the transformations of torch.func, such as vmap and jvp; call it outside of "
            "them, with batches in the first dimension and gradients by torch.autograd"
        )
    if not isinstance(dropout_p, numbers.Real):
        raise AttnError(f"dropout_p is a {type(dropout_p).__name__}; pass a number")
    if not 0.0 <= dropout_p < 1.0:
        raise AttnError(f"dropout_p is {dropout_p}; it must be at least 0 and less than 1")
    if scale is None or isinstance(scale, torch.SymFloat):
        return
    # A tensor may change from call to call.
    if not isinstance(scale, numbers.Real):
        raise AttnError(f"scale is a {type(scale).__name__}; pass a number, or None for 1 / sqrt(channels)")
    if not math.isfinite(scale):
        raise AttnError(f"scale is {scale}; it must be finite")


def autocast_dtype(device: torch.device) -> Optional[torch.dtype]:
    """What autocast converts tensors on a device to; None where it is off."""
    kind = device.type
    # Tensors without memory have no autocast.
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return None
    return torch.get_autocast_dtype(kind)
