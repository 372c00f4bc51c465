# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention for PyTorch.

``sdpa`` has the signature and the meaning of torch's
``scaled_dot_product_attention``, ``flex_attention`` those of torch's
``flex_attention``. ``sdpa_packed`` takes queries, keys and values in one tensor. ``from_export`` puts attention into
graphs of ``torch.export``. Kernels are compiled when they are first needed, for the device that the tensors are on: a
GPU, or the host.
"""

from attn.torch.flex import Traced, flex_attention, plan_mask, trace
from attn.torch.importer import from_export
from attn.torch.kernels import compile_for
from attn.torch.packed import sdpa_packed
from attn.torch.plans import MaskPlan
from attn.torch.sdpa import sdpa

__all__ = [
    "MaskPlan",
    "Traced",
    "compile_for",
    "flex_attention",
    "from_export",
    "plan_mask",
    "sdpa",
    "sdpa_packed",
    "trace",
]
