# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention as operators of torch: ``torch.ops.attn.attention`` and its gradient.

Compilers of torch keep them as they are. A plain call in eager mode does the
same work without the dispatcher.
"""

import threading
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from attn.errors import AttnError, UnsupportedError
from attn.torch.kernels import (
    Kind,
    Mode,
    Plan,
    _get_current_device,
    _get_current_stream,
    check_tensors,
    get_plan,
    gradient_layout,
    output_layouts,
)
from attn.torch.plans import MaskPlan, find_tensor, reads_tensors

_library = torch.library.Library("attn", "DEF")
# With dropout, seed and offset of its random numbers are the two numbers of `rng`.
_parameters = (
    "Tensor query, Tensor key, Tensor value, Tensor[] captures, Tensor? rng, str mask, str score, str keep, "
    "float? scale, float dropout_p, int reads, bool with_lse"
)
_library.define(f"attention({_parameters}, int[]? gradients) -> (Tensor, Tensor)")
_library.define(
    f"attention_backward({_parameters}, int[] gradients, Tensor out, Tensor lse, Tensor dout, Tensor? dlse) -> Tensor[]"
)


def _find_plan(query, key, value, captures, rng, mask, score, keep, scale, dropout_p, reads, with_lse, gradients):
    """The plan of an operator's arguments, and the tensors it runs on."""
    tensors = (query, key, value, *captures)
    if dropout_p != 0:
        if rng is None or rng.shape != (2,) or rng.dtype != torch.int64 or rng.device != query.device:
            raise AttnError(f"rng must have two numbers of torch.int64 on {query.device}: seed and offset of dropout")
        tensors += (rng,)
    mode = Mode(with_lse, None if gradients is None else tuple(gradients))
    return get_plan(Kind(mask, score, keep, scale, dropout_p, reads), mode, query, key, value, captures), tensors


def _run(query, *arguments):
    plan, tensors = _find_plan(query, *arguments)
    outputs = plan.run(tensors)
    return outputs[0], outputs[1] if plan.with_lse else query.new_empty(0, dtype=torch.float32)


def _run_backward(*arguments):
    *arguments, out, lse, dout, dlse = arguments
    plan, tensors = _find_plan(*arguments)
    return plan.run_backward(tensors, out, lse, dout, dlse)


for _device in ("CPU", "CUDA"):
    _library.impl("attention", _run, _device)
    _library.impl("attention_backward", _run_backward, _device)


@torch.library.register_fake("attn::attention", lib=_library)
def _(query, key, value, captures, rng, mask, score, keep, scale, dropout_p, reads, with_lse, gradients):
    check_tensors(query, key, value, captures)
    has_lse = with_lse or gradients is not None
    outputs = [layout.make() for layout in output_layouts(query, value, has_lse)]
    return outputs[0], outputs[1] if has_lse else query.new_empty(0, dtype=torch.float32)


@torch.library.register_fake("attn::attention_backward", lib=_library)
def _(query, key, value, captures, rng, mask, score, keep, scale, dropout_p, reads, with_lse, gradients, *results):
    wanted = [query, key, value, *(captures[i] for i in gradients)]
    return [gradient_layout(tensor).make() for tensor in wanted]


def _setup_context(ctx: Any, inputs: Tuple, output: Tuple) -> None:
    query, key, value, captures, rng, *ctx.parameters = inputs
    ctx.num_captures = len(captures)
    ctx.set_materialize_grads(False)
    out, lse = output
    if not ctx.parameters[-2]:
        ctx.mark_non_differentiable(lse)
    ctx.save_for_backward(query, key, value, *captures, rng, out, lse)


def refuse_second_derivatives() -> None:
    """Says that gradients have no gradients, in a backward function."""
    # Gradients are recorded only to be differentiated themselves.
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise UnsupportedError("attention has no second derivatives; do not differentiate it with create_graph=True")


def _backward(ctx: Any, dout: Optional[Tensor], dlse: Optional[Tensor]) -> Tuple:
    refuse_second_derivatives()
    query, key, value, *captures, rng, out, lse = ctx.saved_tensors
    gradients = ctx.parameters[-1]
    if gradients is None:
        raise RuntimeError("attn::attention was called without 'gradients'; pass the captures to differentiate, or []")
    if dout is None:
        dout = torch.zeros_like(out)
    with_lse = ctx.parameters[-2]
    dquery, dkey, dvalue, *dcaptures = torch.ops.attn.attention_backward(
        query, key, value, captures, rng, *ctx.parameters[:-1], gradients, out, lse, dout, dlse if with_lse else None
    )
    by_capture: List[Optional[Tensor]] = [None] * len(captures)
    for number, gradient in zip(gradients, dcaptures):
        by_capture[number] = gradient
    return dquery, dkey, dvalue, by_capture, *[None] * 8, [None] * len(gradients)


torch.library.register_autograd("attn::attention", _backward, setup_context=_setup_context, lib=_library)


def _differentiate(plan: "AnyPlan", tensors: Sequence[Tensor], *results: Optional[Tensor]) -> Tuple:
    """Gradients for the arguments of the functions below."""
    refuse_second_derivatives()
    gradients = plan.run_backward(tensors, *results)
    if len(tensors) == 3:
        return (None, *gradients)
    by_tensor: List[Optional[Tensor]] = [None] * len(tensors)
    by_tensor[:3] = gradients[:3]
    for number, gradient in zip(plan.mode.gradients, gradients[3:]):
        by_tensor[3 + number] = gradient
    return (None, *by_tensor)


class _Attention(torch.autograd.Function):
    """The same in eager mode, for the output alone: each output takes time."""

    @staticmethod
    def forward(ctx: Any, plan: "AnyPlan", *tensors: Tensor) -> Tensor:
        out, ctx.lse = plan.run(tensors)
        ctx.plan = plan
        ctx.save_for_backward(*tensors, out)
        return out

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> Tuple:
        *tensors, out = ctx.saved_tensors
        return _differentiate(ctx.plan, tensors, out, ctx.lse, dout, None)


class _AttentionWithLse(torch.autograd.Function):
    """The output and the log-sum-exp, both of which have gradients."""

    @staticmethod
    def forward(ctx: Any, plan: "AnyPlan", *tensors: Tensor) -> Tuple[Tensor, Tensor]:
        out, lse = plan.run(tensors)
        ctx.plan = plan
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, out, lse)
        return out, lse

    @staticmethod
    def backward(ctx: Any, dout: Optional[Tensor], dlse: Optional[Tensor]) -> Tuple:
        *tensors, out, lse = ctx.saved_tensors
        return _differentiate(ctx.plan, tensors, out, lse, torch.zeros_like(out) if dout is None else dout, dlse)


_PLAIN = (Tensor, torch.nn.Parameter)


def is_plain(*tensors: Tensor) -> bool:
    """Whether tensors are what they seem, and nothing looks on."""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() != 0:
        return False
    # Tensors of torch.func are of the class Tensor, but without memory.
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    for tensor in tensors:
        if type(tensor) not in _PLAIN or tensor.is_meta:
            return False
    return True


# Generators of CUDA count in steps of this.
_OFFSET_STEP = 4
# Offsets of one table, which takes 64 KiB of the device.
_TABLE_ROWS = 4096
_MAX_TABLES = 16
_tables: Dict[Tuple, Tensor] = {}
_draws = threading.Lock()
_is_capturing = getattr(torch._C, "_cuda_isCurrentStreamCapturing", None)


def _as_signed(number: int) -> int:
    """An unsigned number of 64 bits as torch.int64 has it."""
    return number - 2**64 if number >= 2**63 else number


def _make_table(seed: int, first: int, device: torch.device) -> Tensor:
    """Rows of the seed and an offset, from number ``first`` of the steps on."""
    # Gradients keep rows, which they cannot of tensors made for inference alone.
    with torch.inference_mode(False):
        offsets = torch.arange(_TABLE_ROWS, dtype=torch.int64, device=device) * _OFFSET_STEP
        offsets += _as_signed(first * _OFFSET_STEP)
        return torch.stack((torch.full_like(offsets, _as_signed(seed)), offsets), 1)


def _advance(generator: torch.Generator, device: torch.device, stream: int) -> Tensor:
    """Seed and offset of a generator of CUDA, which then has the next offset.

    They are a row of a table, so that no kernel writes them. ``stream`` is the current
    one of the device, which makes the table before it reads it.
    """
    with _draws:
        offset = generator.get_offset()
        generator.set_offset((offset + _OFFSET_STEP) % 2**64)
        seed = generator.initial_seed()
        block, row = divmod(offset // _OFFSET_STEP, _TABLE_ROWS)
        name = (device.index, stream, seed, block)
        table = _tables.get(name)
        if table is None:
            if len(_tables) >= _MAX_TABLES:
                del _tables[next(iter(_tables))]
            table = _tables[name] = _make_table(seed, block * _TABLE_ROWS, device)
    return table[row]


def draw_state(device: torch.device) -> Tensor:
    """Seed and offset for dropout, from the generator that ``torch.manual_seed``
    sets, on the device, so that nothing waits for them.

    A generator of CUDA has a seed and an offset itself. Where something looks on,
    they are drawn by an operator: compilers of torch keep it, and graphs of CUDA
    draw new ones at each replay.
    """
    if device.type == "cuda" and is_plain():
        index = device.index
        # Whether the stream of another device captures is not told.
        if _get_current_device() == index and not _is_capturing():
            return _advance(torch.cuda.default_generators[index], device, _get_current_stream(index))
    return torch.randint(2**63 - 1, (2,), dtype=torch.int64, device=device)


class _PlannedCall:
    """A plan with that of its mask, in the place of a plan."""

    def __init__(self, plan: Plan, mask_plan: Tensor):
        self.mode = plan.mode
        self.run_backward = plan.run_backward
        self._plan = plan
        self._mask_plan = mask_plan

    def run(self, tensors: Sequence[Tensor]) -> List[Tensor]:
        return self._plan.run(tensors, self._mask_plan)


AnyPlan = Union[Plan, _PlannedCall]


def _mask_sizes(query: Tensor, key: Tensor) -> Tuple[int, ...]:
    return (query.shape[0], query.shape[1], query.shape[2], key.shape[2])


def _find_gradients(tensors: Sequence[Tensor], captures: Sequence[Tensor]) -> Optional[Tuple[int, ...]]:
    """Numbers of the captures with gradients, or None if nothing has one."""
    if not torch.is_grad_enabled() or not any([tensor.requires_grad for tensor in (*tensors, *captures)]):
        return None
    return tuple([i for i, capture in enumerate(captures) if capture.requires_grad])


def make_mask_plan(
    query: Tensor, key: Tensor, value: Tensor, captures: Sequence[Tensor], kind: Kind, with_lse: bool
) -> MaskPlan:
    """The plan of a mask for calls of ``attend`` with these arguments."""
    if not is_plain(query, key, value, *captures):
        raise UnsupportedError("plan_mask needs tensors with memory; call it outside of torch.compile and torch.export")
    gradients = _find_gradients((query, key, value), captures)
    plan = get_plan(kind, Mode(with_lse, gradients, planned=True), query, key, value, captures)
    if plan.mask_layout is None:
        raise AttnError(
            "the mask reads no tensor at places that depend on the position, so that kernels know which tiles it "
            "keeps: leave the plan out"
        )
    return MaskPlan(plan, kind, _mask_sizes(query, key), captures)


def _choose_plan(
    mode: Mode, query: Tensor, key: Tensor, value: Tensor, captures: Sequence[Tensor], kind: Kind, mask_plan: Any
) -> AnyPlan:
    """The plan of a call whose mask has a plan, or a ``BlockMask`` that plans belong to."""
    plan = get_plan(kind, mode._replace(planned=True), query, key, value, captures)
    sizes = _mask_sizes(query, key)
    if isinstance(mask_plan, MaskPlan):
        mask_plan.check(plan, kind, sizes, captures)
        return _PlannedCall(plan, mask_plan.tensor)
    if plan.mask_layout is None:
        return plan
    return _PlannedCall(plan, find_tensor(mask_plan, plan, kind, sizes, captures))


def run_plan(plan: AnyPlan, tensors: Tuple[Tensor, ...], needs_gradient: bool) -> Tensor:
    """The output alone, for tensors that ``is_plain``."""
    return _Attention.apply(plan, *tensors) if needs_gradient else plan.run(tensors)[0]


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    captures: Sequence[Tensor],
    kind: Kind,
    with_lse: bool,
    mask_plan: Any = None,
) -> Tuple[Tensor, Optional[Tensor]]:
    """Attention by the shortest way, with gradients if they are wanted. ``mask_plan``
    is that of the mask, or the ``BlockMask`` that it may be kept for."""
    gradients = _find_gradients((query, key, value), captures)
    rng = draw_state(query.device) if kind.dropout_p else None
    if is_plain(query, key, value, *captures):
        mode = Mode(with_lse, gradients)
        plan: AnyPlan
        if mask_plan is None or not (reads_tensors(kind) or isinstance(mask_plan, MaskPlan)):
            plan = get_plan(kind, mode, query, key, value, captures)
        else:
            plan = _choose_plan(mode, query, key, value, captures, kind, mask_plan)
        tensors = (query, key, value, *captures)
        if rng is not None:
            tensors += (rng,)
        needs_gradient = gradients is not None
        if with_lse:
            return _AttentionWithLse.apply(plan, *tensors) if needs_gradient else tuple(plan.run(tensors))
        return run_plan(plan, tensors, needs_gradient), None
    return torch.ops.attn.attention(
        query, key, value, list(captures), rng, *kind, with_lse,
        None if gradients is None else list(gradients),
    )  # fmt: skip
