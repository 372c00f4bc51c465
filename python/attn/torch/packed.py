# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``sdpa_packed``: attention of queries, keys and values in one tensor."""

import functools
from typing import Any, List, Optional, Tuple, cast

import torch
from torch import Tensor

from attn.errors import AttnError
from attn.torch.checks import check_arguments, convert_by_autocast, drop_all, with_unit_stride
from attn.torch.kernels import Kind, Mode, Plan, check_tensors, get_plan
from attn.torch.ops import _library, draw_state, refuse_second_derivatives
from attn.torch.sdpa import CAUSAL, sdpa

# `rng` is seed and offset of dropout.
_parameters = "Tensor qkv, Tensor? rng, bool is_causal, float? scale, float dropout_p"
_library.define(f"packed({_parameters}, bool needs_gradient) -> (Tensor, Tensor)")
_library.define(f"packed_backward({_parameters}, Tensor out, Tensor lse, Tensor dout) -> Tensor")


def _split(qkv: Tensor) -> Tuple[Tensor, ...]:
    """Queries, keys and values, with heads before positions, as views."""
    return qkv.permute(2, 0, 3, 1, 4).unbind()


@functools.lru_cache(maxsize=None)
def _make_kind(is_causal: bool, scale: Optional[float], dropout_p: float) -> Kind:
    return Kind(mask=CAUSAL if is_causal else "", scale=scale, dropout_p=dropout_p)


def _find_plan(qkv: Tensor, rng: Optional[Tensor], *parameters: Any) -> Tuple[Plan, Tuple[Tensor, ...]]:
    *kind, needs_gradient = parameters
    tensors = _split(qkv)
    plan = get_plan(_make_kind(*kind), Mode(False, () if needs_gradient else None), *tensors, ())
    return plan, tensors if rng is None else (*tensors, rng)


def _run(qkv: Tensor, *arguments: Any) -> Tuple[Tensor, Tensor]:
    plan, tensors = _find_plan(qkv, *arguments)
    out, *lse = plan.run(tensors)
    return out.transpose(1, 2), lse[0] if lse else qkv.new_empty(0, dtype=torch.float32)


def _run_backward(qkv: Tensor, *arguments: Any) -> Tensor:
    *arguments, out, lse, dout = arguments
    plan, tensors = _find_plan(qkv, *arguments, True)
    gradient = torch.empty(qkv.shape, dtype=qkv.dtype, device=qkv.device)
    plan.run_backward(tensors, out.transpose(1, 2), lse, dout.transpose(1, 2), None, list(_split(gradient)))
    return gradient


for _device in ("CPU", "CUDA"):
    _library.impl("packed", _run, _device)
    _library.impl("packed_backward", _run_backward, _device)


@torch.library.register_fake("attn::packed", lib=_library)
def _(qkv, rng, is_causal, scale, dropout_p, needs_gradient):
    check_tensors(*_split(qkv), ())
    batch, positions, _, heads, channels = qkv.shape
    lse = (batch, heads, positions) if needs_gradient else (0,)
    return qkv.new_empty(batch, positions, heads, channels), qkv.new_empty(lse, dtype=torch.float32)


@torch.library.register_fake("attn::packed_backward", lib=_library)
def _(qkv, *arguments):
    return qkv.new_empty(qkv.shape)


def _setup_context(ctx: Any, inputs: Tuple, output: Tuple) -> None:
    qkv, rng, *ctx.parameters, needs_gradient = inputs
    if not needs_gradient:
        raise RuntimeError("attn::packed was called without 'needs_gradient'")
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(qkv, rng, *output)


def _backward(ctx: Any, dout: Tensor, _: Optional[Tensor]) -> Tuple:
    refuse_second_derivatives()
    qkv, rng, out, lse = ctx.saved_tensors
    gradient = torch.ops.attn.packed_backward(qkv, rng, *ctx.parameters, out, lse, dout)
    missing: List[None] = [None] * 5
    return gradient, *missing


torch.library.register_autograd("attn::packed", _backward, setup_context=_setup_context, lib=_library)


def sdpa_packed(
    qkv: Tensor, dropout_p: float = 0.0, is_causal: bool = False, scale: Optional[float] = None
) -> Tensor:
    """Attention of ``qkv``, of shape ``[batch, positions, 3, heads, head dim]``.

    Returns ``[batch, positions, heads, head dim]``. It computes ``sdpa`` of the three parts. The gradient is one
    tensor, too; gradients of three views would have to be joined.
    """
    check_arguments(scale, dropout_p, qkv=qkv)
    if qkv.dim() != 5 or qkv.shape[2] != 3:
        raise AttnError(
            f"qkv has the shape {tuple(qkv.shape)}; it must have five dimensions: batch, positions, 3, heads and "
            "head dim"
        )
    qkv = with_unit_stride(qkv, "qkv")
    (qkv,) = convert_by_autocast(qkv)
    needs_gradient = torch.is_grad_enabled() and qkv.requires_grad
    if qkv.dtype == torch.float64 and qkv.device.type == "cpu" and not torch.compiler.is_compiling():
        # Double precision has no kernels.
        return cast(Tensor, sdpa(*_split(qkv), None, dropout_p, is_causal, scale)).transpose(1, 2)
    drops_all, dropout_p = dropout_p == 1, 0.0 if dropout_p == 1 else dropout_p
    rng = draw_state(qkv.device) if dropout_p else None
    out = torch.ops.attn.packed(qkv, rng, is_causal, scale, dropout_p, needs_gradient)[0]
    return drop_all(out) if drops_all else out
