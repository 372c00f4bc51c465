# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention as operators of torch: ``torch.ops.attn.attention`` and its gradient.

Compilers of torch keep them as they are. A plain call in eager mode does the
same work without the dispatcher.
"""

from typing import Any, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from attn.errors import UnsupportedError
from attn.torch.kernels import Kind, Mode, Plan, check_tensors, get_plan, gradient_layout, output_layouts

_library = torch.library.Library("attn", "DEF")
_library.define(
    "attention(Tensor query, Tensor key, Tensor value, Tensor[] captures, str mask, str score, str keep, "
    "float? scale, bool with_lse, int[]? gradients) -> (Tensor, Tensor)"
)
_library.define(
    "attention_backward(Tensor query, Tensor key, Tensor value, Tensor[] captures, str mask, str score, str keep, "
    "float? scale, bool with_lse, int[] gradients, Tensor out, Tensor lse, Tensor dout, Tensor? dlse) -> Tensor[]"
)


def _mode(with_lse: bool, gradients: Optional[Sequence[int]]) -> Mode:
    return Mode(with_lse, None if gradients is None else tuple(gradients))


def _run(query, key, value, captures, mask, score, keep, scale, with_lse, gradients):
    plan = get_plan(Kind(mask, score, keep, scale), _mode(with_lse, gradients), query, key, value, captures)
    outputs = plan.run((query, key, value, *captures))
    return outputs[0], outputs[1] if plan.with_lse else query.new_empty(0, dtype=torch.float32)


def _run_backward(query, key, value, captures, mask, score, keep, scale, with_lse, gradients, out, lse, dout, dlse):
    plan = get_plan(Kind(mask, score, keep, scale), _mode(with_lse, gradients), query, key, value, captures)
    return plan.run_backward((query, key, value, *captures), out, lse, dout, dlse)


for _device in ("CPU", "CUDA"):
    _library.impl("attention", _run, _device)
    _library.impl("attention_backward", _run_backward, _device)


@torch.library.register_fake("attn::attention", lib=_library)
def _(query, key, value, captures, mask, score, keep, scale, with_lse, gradients):
    check_tensors(query, key, value, captures)
    has_lse = with_lse or gradients is not None
    outputs = [layout.make() for layout in output_layouts(query, value, has_lse)]
    return outputs[0], outputs[1] if has_lse else query.new_empty(0, dtype=torch.float32)


@torch.library.register_fake("attn::attention_backward", lib=_library)
def _(query, key, value, captures, mask, score, keep, scale, with_lse, gradients, out, lse, dout, dlse):
    wanted = [query, key, value, *(captures[i] for i in gradients)]
    return [gradient_layout(tensor).make() for tensor in wanted]


def _setup_context(ctx: Any, inputs: Tuple, output: Tuple) -> None:
    query, key, value, captures, *ctx.parameters = inputs
    ctx.num_captures = len(captures)
    ctx.set_materialize_grads(False)
    out, lse = output
    if not ctx.parameters[-2]:
        ctx.mark_non_differentiable(lse)
    ctx.save_for_backward(query, key, value, *captures, out, lse)


def _refuse_second_derivatives() -> None:
    # Gradients are recorded only to be differentiated themselves.
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise UnsupportedError("attention has no second derivatives; do not differentiate it with create_graph=True")


def _backward(ctx: Any, dout: Optional[Tensor], dlse: Optional[Tensor]) -> Tuple:
    _refuse_second_derivatives()
    query, key, value, *captures, out, lse = ctx.saved_tensors
    gradients = ctx.parameters[-1]
    if gradients is None:
        raise RuntimeError("attn::attention was called without 'gradients'; pass the captures to differentiate, or []")
    if dout is None:
        dout = torch.zeros_like(out)
    with_lse = ctx.parameters[-2]
    dquery, dkey, dvalue, *dcaptures = torch.ops.attn.attention_backward(
        query, key, value, captures, *ctx.parameters[:-1], gradients, out, lse, dout, dlse if with_lse else None
    )
    by_capture: List[Optional[Tensor]] = [None] * len(captures)
    for number, gradient in zip(gradients, dcaptures):
        by_capture[number] = gradient
    return dquery, dkey, dvalue, by_capture, None, None, None, None, None, [None] * len(gradients)


torch.library.register_autograd("attn::attention", _backward, setup_context=_setup_context, lib=_library)


class _Attention(torch.autograd.Function):
    """The same in eager mode."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, *tensors: Tensor) -> Tuple[Tensor, Tensor]:
        out, lse = plan.run(tensors)
        ctx.plan = plan
        ctx.set_materialize_grads(False)
        if not plan.mode.with_lse:
            ctx.mark_non_differentiable(lse)
        ctx.save_for_backward(*tensors, out, lse)
        return out, lse

    @staticmethod
    def backward(ctx: Any, dout: Optional[Tensor], dlse: Optional[Tensor]) -> Tuple:
        _refuse_second_derivatives()
        *tensors, out, lse = ctx.saved_tensors
        if dout is None:
            dout = torch.zeros_like(out)
        plan = ctx.plan
        gradients = plan.run_backward(tensors, out, lse, dout, dlse)
        by_tensor: List[Optional[Tensor]] = [None] * len(tensors)
        by_tensor[:3] = gradients[:3]
        for number, gradient in zip(plan.mode.gradients, gradients[3:]):
            by_tensor[3 + number] = gradient
        return (None, *by_tensor)


_PLAIN = (Tensor, torch.nn.Parameter)


def is_plain(*tensors: Tensor) -> bool:
    """Whether tensors are what they seem, and nothing looks on."""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() != 0:
        return False
    for tensor in tensors:
        if type(tensor) not in _PLAIN or tensor.is_meta:
            return False
    return True


def attend(
    query: Tensor, key: Tensor, value: Tensor, captures: Sequence[Tensor], kind: Kind, with_lse: bool
) -> Tuple[Tensor, Optional[Tensor]]:
    """Attention by the shortest way, with gradients if they are wanted."""
    needs_gradient = torch.is_grad_enabled() and (
        query.requires_grad
        or key.requires_grad
        or value.requires_grad
        or any([capture.requires_grad for capture in captures])
    )
    gradients = None
    if needs_gradient:
        gradients = tuple([i for i, capture in enumerate(captures) if capture.requires_grad])
    if is_plain(query, key, value, *captures):
        plan = get_plan(kind, Mode(with_lse, gradients), query, key, value, captures)
        if needs_gradient:
            return _Attention.apply(plan, query, key, value, *captures)
        outputs = plan.run((query, key, value, *captures))
        return outputs[0], outputs[1] if with_lse else None
    return torch.ops.attn.attention(
        query, key, value, list(captures), kind.mask, kind.score, kind.keep, kind.scale, with_lse,
        None if gradients is None else list(gradients),
    )  # fmt: skip
