# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention to several sets of keys, merged: ``torch.ops.attn.merge``."""

import functools
from typing import Any, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from attn.artifact import Function
from attn.builder import Merge
from attn.compiler import compile
from attn.errors import AttnError, UnsupportedError
from attn.torch.checks import check_arguments, with_unit_stride
from attn.torch.kernels import (
    _NAMES,
    Binding,
    Layout,
    _readable,
    dense_like,
    describe,
    find_for_device,
    gradient_layout,
    kernel_dtypes,
    make_plans,
)
from attn.torch.ops import _library, is_plain, refuse_second_derivatives

_library.define("merge(Tensor[] outs, Tensor[] lses) -> (Tensor, Tensor)")
_library.define("merge_backward(Tensor[] outs, Tensor[] lses, Tensor dout, Tensor dlse) -> (Tensor[], Tensor[])")


def _check(outs: Sequence[Tensor], lses: Sequence[Tensor]) -> None:
    first = outs[0]
    if first.dim() != 4:
        raise AttnError(f"out0 has {first.dim()} dimensions; it needs 4: batch, heads, positions and head dim")
    of_lses = first.dtype if first.dtype == torch.float64 else torch.float32
    of_outs = ("out", outs, first.shape, first.dtype)
    for kind, tensors, shape, dtype in (of_outs, ("lse", lses, first.shape[:3], of_lses)):
        for number, tensor in enumerate(tensors):
            name = f"{kind}{number}"
            if tuple(tensor.shape) != tuple(shape):
                raise AttnError(f"{name} has the shape {tuple(tensor.shape)}, expected {tuple(shape)}")
            if tensor.dtype != dtype:
                raise AttnError(f"{name} has the dtype {tensor.dtype}, expected {dtype}")
            if tensor.device != first.device:
                raise AttnError(f"{name} is on {tensor.device} and out0 on {first.device}; move them to one device")
    allowed = (*kernel_dtypes(first.device), torch.float64)
    if first.dtype not in allowed:
        raise UnsupportedError(f"out0 has the dtype {first.dtype}; convert it to one of {', '.join(map(str, allowed))}")


def _evaluate(outs: Sequence[Tensor], lses: Sequence[Tensor]) -> Tuple[Tensor, Tensor]:
    """The same by operations of torch, which it differentiates."""
    stacked = torch.stack(list(lses))
    largest = stacked.amax(0).detach()
    is_none = largest == -torch.inf
    reference = largest.masked_fill(is_none, 0.0)
    weights = (stacked - reference).exp()
    total = weights.sum(0).masked_fill(is_none, 1.0)
    out = sum(out * weight[..., None] for out, weight in zip(outs, weights / total))
    return out, (total.log() + reference).masked_fill(is_none, -torch.inf)


@functools.lru_cache(maxsize=None)
def _find_function(description: Merge, target: str) -> Function:
    return compile(description, target=target)[description.NAME]


@functools.lru_cache(maxsize=None)
def _find_backward(description: Merge, target: str) -> Function:
    name = description.NAME
    passes = f"attn-differentiate{{function={name} mode=backward}},symbol-privatize{{exclude={name}_bwd}},symbol-dce"
    return compile(description, target=target, passes=passes)[f"{name}_bwd"]


def _layouts(out: Tensor, lse: Tensor) -> List[Layout]:
    return [
        Layout(tuple(tensor.shape), dense_like(tensor, tuple(tensor.shape)), tensor.dtype, tensor.device)
        for tensor in (out, lse)
    ]


_MAX_PLANS = 1024
_plans = make_plans()


def _remember(name: Tuple, binding: Binding) -> Binding:
    if len(_plans) >= _MAX_PLANS:
        _plans.clear()
    _plans[name] = binding
    return binding


def _describe(outs: Sequence[Tensor]) -> Merge:
    return Merge(_NAMES[outs[0].dtype], outs[0].shape[1], outs[0].shape[3], len(outs))


def _alternate(outs: Sequence[Tensor], lses: Sequence[Tensor]) -> List[Tensor]:
    """The arguments of the function: the output and the log-sum-exp of one part after another."""
    return [tensor for pair in zip(outs, lses) for tensor in pair]


def _run(outs: Sequence[Tensor], lses: Sequence[Tensor]) -> Tuple[Tensor, Tensor]:
    tensors = _alternate(outs, lses)
    name = tuple([describe(tensor) for tensor in tensors])
    plan = _plans.get(name)
    if plan is None:
        _check(outs, lses)
        function = find_for_device(_find_function, outs[0].device, _describe(outs))
        plan = _remember(name, Binding(function, tensors, _layouts(outs[0], lses[0])))
    out, lse = plan(tensors)
    return out, lse


def _run_backward(
    outs: Sequence[Tensor], lses: Sequence[Tensor], dout: Tensor, dlse: Tensor
) -> Tuple[List[Tensor], List[Tensor]]:
    tensors = _alternate(outs, lses)
    results = [_readable(dout), _readable(dlse)]
    # The function has the outputs as arguments, too, and does not read them.
    inputs = [*tensors, *results, *results]
    name = ("backward", *[describe(tensor) for tensor in inputs])
    plan = _plans.get(name)
    if plan is None:
        function = find_for_device(_find_backward, outs[0].device, _describe(outs))
        plan = _remember(name, Binding(function, inputs, [gradient_layout(tensor) for tensor in tensors]))
    made = plan(inputs)
    return made[::2], made[1::2]


for _device in ("CPU", "CUDA"):
    _library.impl("merge", _run, _device)
    _library.impl("merge_backward", _run_backward, _device)


@torch.library.register_fake("attn::merge", lib=_library)
def _(outs, lses):
    _check(outs, lses)
    return tuple(layout.make() for layout in _layouts(outs[0], lses[0]))


@torch.library.register_fake("attn::merge_backward", lib=_library)
def _(outs, lses, dout, dlse):
    return tuple([gradient_layout(tensor).make() for tensor in tensors] for tensors in (outs, lses))


def _setup_context(ctx: Any, inputs: Tuple, output: Tuple) -> None:
    ctx.set_materialize_grads(False)
    ctx.parts = len(inputs[0])
    ctx.save_for_backward(*inputs[0], *inputs[1])


def _backward(ctx: Any, dout: Optional[Tensor], dlse: Optional[Tensor]) -> Tuple[List[Tensor], List[Tensor]]:
    refuse_second_derivatives()
    outs, lses = ctx.saved_tensors[: ctx.parts], ctx.saved_tensors[ctx.parts :]
    layouts = _layouts(outs[0], lses[0])
    dout, dlse = (
        layout.make().zero_() if gradient is None else gradient for layout, gradient in zip(layouts, (dout, dlse))
    )
    return torch.ops.attn.merge_backward(list(outs), list(lses), dout, dlse)


torch.library.register_autograd("attn::merge", _backward, setup_context=_setup_context, lib=_library)


def merge(*parts: Tensor) -> Tuple[Tensor, Tensor]:
    """Attention to all keys, of attention to parts of them: ``merge(out0, lse0, out1, lse1, ...)``.

    Outputs are ``[batch, heads, queries, head dim]`` and log-sum-exps ``[batch, heads, queries]``
    (``torch.float32``). Merging is associative and commutative up to rounding. A part without keys has an output of 0
    and a log-sum-exp of -inf; where no part has keys, so has the result. The merge of one part is that part. It has
    gradients.
    """
    if not parts or len(parts) % 2:
        raise AttnError(f"merge takes pairs of an output and a log-sum-exp (was {len(parts)} tensors)")
    names = [f"{kind}{number}" for number in range(len(parts) // 2) for kind in ("out", "lse")]
    check_arguments(None, 0.0, **dict(zip(names, parts)))
    given = [with_unit_stride(tensor, name) for tensor, name in zip(parts, names)]
    outs, lses = given[::2], given[1::2]
    if len(outs) == 1:
        _check(outs, lses)
        return outs[0], lses[0]
    if outs[0].dtype == torch.float64:
        _check(outs, lses)
        return _evaluate(outs, lses)
    needs_gradients = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given)
    if is_plain(*given) and not needs_gradients:
        return _run(outs, lses)
    return torch.ops.attn.merge(outs, lses)
