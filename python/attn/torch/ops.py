# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention as operators of torch: ``torch.ops.attn.attention`` and its gradient.

Compilers of torch keep them as they are. A plain call in eager mode does the
same work without the dispatcher.
"""

import functools
import threading
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor
from torch.autograd import forward_ad

from attn.errors import AttnError, UnsupportedError
from attn.torch import evaluate
from attn.torch.inductor import call_directly, prepare_lowering
from attn.torch.kernels import (
    FLOAT8,
    Kind,
    Mode,
    Plan,
    RecentPlan,
    _get_current_device,
    _get_current_stream,
    check_kind,
    find_recent_plan,
    get_plan,
    gradient_layout,
    has_values_in_keys,
    output_layouts,
    remember_plan,
)
from attn.torch.block_masks import PrecomputedBlockMask, find_tensor, mask_sizes, may_have_block_mask

_library = torch.library.Library("attn", "DEF")
# `tensors` are query, key, value and the captures: AOTInductor cannot pass a list that may be empty. With dropout, seed
# and offset of its random numbers are the two numbers of `rng`. `variant` is all else but numbers that graphs may
# compute, as `write_variant` writes it: one argument, since each takes time in each call.
_library.define(
    "attention(Tensor[] tensors, Tensor? rng, str variant, float? scale=None, float dropout_p=0.0) -> (Tensor, Tensor)"
)
_library.define(
    "attention_backward(Tensor[] tensors, Tensor? rng, str variant, Tensor out, Tensor lse, Tensor dout, Tensor? dlse, "
    "float? scale=None, float dropout_p=0.0) -> Tensor[]"
)
# Fields of `variant`.
_TEXTS, _FLAGS = ("mask", "score_mod", "mask_mod", "clauses", "epilogue", "out"), ("deterministic", "with_lse")
_SEPARATOR = "; "


def write_variant(kind: Kind, mode: Mode) -> str:
    """The operators' argument ``variant``: the fields of ``kind`` and ``mode`` that differ from their defaults, as in
    "mask: #attn.causal; reads: 1; with_lse: true; gradients: inputs 0". ``gradients`` is missing if none is recorded,
    otherwise "inputs" for query, key and value, followed by the numbers of captures that have one.

    Compilers of torch print it into comments and into literals of C++: it is one line without quotes.
    """
    fields = [f"{name}: {getattr(kind, name)}" for name in _TEXTS if getattr(kind, name)]
    fields += [f"reads: {kind.reads}"] if kind.reads else []
    fields += [f"{name}: true" for name in _FLAGS if getattr(kind if name == "deterministic" else mode, name)]
    if mode.gradients is not None:
        fields.append(f"gradients: {' '.join(['inputs', *map(str, mode.gradients)])}")
    return _SEPARATOR.join(fields)


@functools.lru_cache(maxsize=1024)
def read_variant(text: str, count: int) -> Tuple[Kind, Mode]:
    """What ``write_variant`` has written, for so many captures: the kind without scale and dropout, and the mode."""
    fields: Dict[str, str] = {}
    for field in text.split(_SEPARATOR) if text else ():
        name, _, value = field.partition(": ")
        if name not in (*_TEXTS, *_FLAGS, "reads", "gradients") or name in fields or not value:
            known = ", ".join((*_TEXTS, "reads", *_FLAGS, "gradients"))
            raise AttnError(f"variant has the field {field!r}, expected one 'name: value' for some of {known}")
        if name in _FLAGS and value != "true":
            raise AttnError(f"{name} of variant is {value!r}; it must be 'true', or missing")
        fields[name] = value
    reads = fields.pop("reads", "0")
    if not reads.isdecimal() or int(reads) > count:
        raise AttnError(
            f"reads of variant is {reads!r}; it must be a number of captured tensors, of which there are {count}"
        )
    mode = Mode("with_lse" in fields, _read_gradients(fields.pop("gradients", ""), count))
    kind = Kind(reads=int(reads), deterministic="deterministic" in fields)
    return kind._replace(**{name: fields[name] for name in _TEXTS if name in fields}), mode


def _read_gradients(text: str, count: int) -> Optional[Tuple[int, ...]]:
    """The numbers in the field ``gradients``; there are so many captures."""
    first, *numbers = text.split() or ("",)
    if first not in ("", "inputs") or not all(number.isdecimal() and int(number) < count for number in numbers):
        raise AttnError(
            f"gradients is {text!r}; it must be '', or 'inputs' and the numbers of captured tensors, of which there "
            f"are {count}"
        )
    return tuple(map(int, numbers)) if first else None


def _find_plan(tensors, rng, variant, scale, dropout_p):
    """The plan for an operator's arguments, and the tensors it runs on."""
    if dropout_p != 0:
        device = tensors[0].device
        if rng is None or rng.shape != (2,) or rng.dtype != torch.int64 or rng.device != device:
            raise AttnError(f"rng must have two numbers of torch.int64 on {device}: seed and offset of dropout")
        tensors = (*tensors, rng)
    # Guards do not see which tensors share memory.
    in_keys = has_values_in_keys(tensors[1], tensors[2])
    name = (len(tensors), _get_precision(), variant, scale, dropout_p, in_keys)
    recent = find_recent_plan(name, tensors)
    if recent is not None:
        return recent.plan, tensors
    query, key, value, *captures = tensors[:-1] if dropout_p != 0 else tensors
    kind, mode = read_variant(variant, len(captures))
    if in_keys and mode.gradients is None and "values_in_keys" not in kind.clauses.split():
        kind = kind._replace(clauses=f"{kind.clauses} values_in_keys".strip())
    plan = get_plan(kind._replace(scale=scale, dropout_p=dropout_p), mode, query, key, value, captures)
    remember_plan(name, plan, False, tensors)
    return plan, tensors


def _check_reads(query: Tensor, key: Tensor, captures: Sequence[Tensor], kind: Kind) -> None:
    """Checks reads of captured tensors, where ATTN_CHECK_READS asks for it and tensors have contents."""
    if captures and evaluate.checks_reads() and not (query.is_cuda and _is_capturing()):
        evaluate.check_reads(query, key, captures, kind)


def _run(tensors, rng, variant, scale=None, dropout_p=0.0):
    plan, inputs = _find_plan(tensors, rng, variant, scale, dropout_p)
    _check_reads(tensors[0], tensors[1], tensors[3:], plan.kind)
    outputs = plan.run(inputs)
    return outputs[0], outputs[1] if plan.with_lse else tensors[0].new_empty(0, dtype=torch.float32)


def _run_backward(tensors, rng, variant, out, lse, dout, dlse, scale=None, dropout_p=0.0):
    plan, inputs = _find_plan(tensors, rng, variant, scale, dropout_p)
    return plan.run_backward(inputs, out, lse, dout, dlse)


for _device in ("CPU", "CUDA"):
    _library.impl("attention", _run, _device)
    _library.impl("attention_backward", _run_backward, _device)


def _find_graph_plan(tensors, rng, variant, scale, dropout_p):
    """The plan for an operator's arguments in code of Inductor, and the tensors it runs on. The plan is None if the
    operator itself must be called: guards of plans have excluded modes, transformations and gradients."""
    inputs = tensors if rng is None else (*tensors, rng)
    name = ("graph", len(inputs), _get_precision(), variant, scale, dropout_p)
    recent = find_recent_plan(name, inputs)
    if recent is None:
        if torch.is_grad_enabled() or not is_plain(*inputs):
            return None, inputs
        plan, inputs = _find_plan(tensors, rng, variant, scale, dropout_p)
        remember_plan(name, plan, False, inputs)
    else:
        plan = recent.plan
    return plan, inputs


def _run_plain(plan, inputs, tensors):
    """Runs a plan whose results nothing observes or differentiates."""
    if len(tensors) > 3:
        _check_reads(tensors[0], tensors[1], tensors[3:], plan.kind)
    outputs = plan.run(inputs)
    return outputs[0], outputs[1] if plan.with_lse else _get_empty(tensors[0].device)


def _run_in_graph(tensors, rng, variant, scale=None, dropout_p=0.0):
    plan, inputs = _find_graph_plan(tensors, rng, variant, scale, dropout_p)
    if plan is None:
        return torch.ops.attn.attention.default(tensors, rng, variant, scale, dropout_p)
    return _run_plain(plan, inputs, tensors)


def _run_backward_in_graph(tensors, rng, variant, out, lse, dout, dlse, scale=None, dropout_p=0.0):
    plan, inputs = _find_graph_plan(tensors, rng, variant, scale, dropout_p)
    if plan is None:
        results = (out, lse, dout, dlse)
        return torch.ops.attn.attention_backward.default(tensors, rng, variant, *results, scale, dropout_p)
    return plan.run_backward(inputs, out, lse, dout, dlse)


call_directly(torch.ops.attn.attention.default, _run_in_graph)
call_directly(torch.ops.attn.attention_backward.default, _run_backward_in_graph)


@torch.library.register_fake("attn::attention", lib=_library)
def _(tensors, rng, variant, scale=None, dropout_p=0.0):
    prepare_lowering(torch.ops.attn.attention.default)
    query, key, value, *captures = tensors
    kind, mode = read_variant(variant, len(captures))
    check_kind(query, key, value, captures, Kind(reads=kind.reads, clauses=kind.clauses))
    has_lse = mode.with_lse or mode.gradients is not None
    outputs = [layout.make() for layout in output_layouts(query, value, has_lse, kind.out)]
    return outputs[0], outputs[1] if has_lse else query.new_empty(0, dtype=torch.float32)


@torch.library.register_fake("attn::attention_backward", lib=_library)
def _(tensors, rng, variant, *results, **numbers):
    prepare_lowering(torch.ops.attn.attention_backward.default)
    captures = tensors[3:]
    _, mode = read_variant(variant, len(captures))
    wanted = [*tensors[:3], *(captures[i] for i in mode.gradients or ())]
    return [gradient_layout(tensor).make() for tensor in wanted]


def _setup_context(ctx: Any, inputs: Tuple, output: Tuple) -> None:
    tensors, rng, *ctx.parameters = inputs
    ctx.mode = read_variant(ctx.parameters[0], len(tensors) - 3)[1]
    ctx.set_materialize_grads(False)
    out, lse = output
    if not ctx.mode.with_lse:
        ctx.mark_non_differentiable(lse)
    ctx.save_for_backward(*tensors, rng, out, lse)


def refuse_second_derivatives() -> None:
    """Fails in a backward function: gradients have no gradients."""
    # Gradients are recorded only to be differentiated themselves.
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise UnsupportedError("attention has no second derivatives; do not differentiate it with create_graph=True")


def _by_tensor(count: int, mode: Mode, made: Sequence[Tensor]) -> List[Optional[Tensor]]:
    """Gradients of so many tensors, of which some captures have one."""
    by_tensor: List[Optional[Tensor]] = [None] * count
    for number, gradient in zip((0, 1, 2, *(3 + number for number in mode.gradients or ())), made):
        by_tensor[number] = gradient
    return by_tensor


def _backward(ctx: Any, dout: Optional[Tensor], dlse: Optional[Tensor]) -> Tuple:
    refuse_second_derivatives()
    *tensors, rng, out, lse = ctx.saved_tensors
    if ctx.mode.gradients is None:
        raise RuntimeError(
            "attn::attention was called without gradients; its variant needs 'gradients: inputs' and numbers of "
            "captured tensors"
        )
    if dout is None:
        dout = torch.zeros_like(out)
    variant, *numbers = ctx.parameters
    made = torch.ops.attn.attention_backward(
        tensors, rng, variant, out, lse, dout, dlse if ctx.mode.with_lse else None, *numbers
    )
    return _by_tensor(len(tensors), ctx.mode, made), None, *[None for _ in ctx.parameters]


torch.library.register_autograd("attn::attention", _backward, setup_context=_setup_context, lib=_library)


@functools.lru_cache(maxsize=None)
def _get_empty(device: torch.device) -> Tensor:
    """The log-sum-exp of calls that want none. A new tensor takes a microsecond."""
    with torch.inference_mode(False):
        return torch.empty(0, dtype=torch.float32, device=device)


def _skip_recording() -> None:
    """Lets plain calls that record no gradients, for example in compiled graphs, run at once: torch would look for
    the operator a second time. Torch's own kernel for the other calls is private."""
    info = getattr(torch._library.autograd, "Info", None)
    make_kernel = getattr(torch._library.autograd, "make_autograd_impl", None)
    if info is None or make_kernel is None:
        return
    record = make_kernel(torch.ops.attn.attention.default, info(_backward, _setup_context))

    def run(keyset, tensors, rng, variant, scale=None, dropout_p=0.0):
        if torch.is_grad_enabled() or not is_plain(*tensors):
            return record(keyset, tensors, rng, variant, scale, dropout_p)
        return _run_plain(*_find_plan(tensors, rng, variant, scale, dropout_p), tensors)

    for device in ("CPU", "CUDA"):
        _library.impl("attention", run, f"Autograd{device}", with_keyset=True)


def _slice(tensor: Optional[Tensor], dim: Optional[int], number: int) -> Optional[Tensor]:
    return tensor if tensor is None or dim is None else tensor.select(dim, number)


def _merge(tensor: Optional[Tensor], dim: Optional[int], size: int) -> Optional[Tensor]:
    """A tensor whose first dimension has the entries of the mapped one and of the batch."""
    if tensor is None:
        return None
    mapped = tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    # Kernels read tensors in place if the last dimension has a stride of 1.
    merged = mapped.flatten(0, 1)
    return merged if merged.stride(-1) == 1 else merged.contiguous()


def _is_batch(info: Any, in_dims: Tuple, kind: Kind, rng: Optional[Tensor]) -> bool:
    """Whether mapped calls are one call with more batch entries: nothing but query, key and value is mapped, and
    nothing depends on the number of the batch entry."""
    regions = (kind.score_mod, kind.mask_mod, kind.epilogue)
    has_state = "state" in kind.clauses.split()
    depends_on_batch = any("%b" in region for region in regions) or kind.reads > 0 or has_state
    depends_on_batch = depends_on_batch or kind.clauses.endswith(
        ("packed", "padded", "packed_queries", "key_lengths", "page_table", "positions")
    )
    is_random = rng is not None and (in_dims[1] is not None or info.randomness != "different")
    is_mapped = any(dim is not None for dim in in_dims[0][3:])
    return not (depends_on_batch or is_random or is_mapped)


@torch.library.register_vmap("attn::attention", lib=_library)
def _(info, in_dims, tensors, rng, variant, scale=None, dropout_p=0.0):
    size, parameters = info.batch_size, (variant, scale, dropout_p)
    if _is_batch(info, in_dims, read_variant(variant, len(tensors) - 3)[0], rng):
        merged = [_merge(tensor, dim, size) for tensor, dim in zip(tensors[:3], in_dims[0])]
        out, lse = torch.ops.attn.attention([*merged, *tensors[3:]], rng, *parameters)
        has_lse = lse.dim() > 1
        return (out.unflatten(0, (size, -1)), lse.unflatten(0, (size, -1)) if has_lse else lse), (
            0, 0 if has_lse else None,
        )  # fmt: skip
    calls = []
    for number in range(size):
        slices = [_slice(tensor, dim, number) for tensor, dim in zip(tensors, in_dims[0])]
        calls.append(torch.ops.attn.attention(slices, _slice(rng, in_dims[1], number), *parameters))
    return tuple([torch.stack(results) for results in zip(*calls)]), (0, 0)


@torch.library.register_vmap("attn::attention_backward", lib=_library)
def _(info, in_dims, tensors, rng, variant, out, lse, dout, dlse, scale=None, dropout_p=0.0):
    results, dims, numbers = (out, lse, dout, dlse), in_dims[3:7], (scale, dropout_p)
    size = info.batch_size
    kind, mode = read_variant(variant, len(tensors) - 3)
    if not mode.gradients and _is_batch(info, in_dims, kind, rng):
        merged = [_merge(tensor, dim, size) for tensor, dim in zip(tensors[:3], in_dims[0])]
        of_results = [_merge(tensor, dim, size) for tensor, dim in zip(results, dims)]
        made = torch.ops.attn.attention_backward([*merged, *tensors[3:]], rng, variant, *of_results, *numbers)
        return [tensor.unflatten(0, (size, -1)) for tensor in made], [0] * len(made)
    calls = []
    for number in range(size):
        slices = [_slice(tensor, dim, number) for tensor, dim in zip(tensors, in_dims[0])]
        of_results = [_slice(tensor, dim, number) for tensor, dim in zip(results, dims)]
        state = _slice(rng, in_dims[1], number)
        calls.append(torch.ops.attn.attention_backward(slices, state, variant, *of_results, *numbers))
    return [torch.stack(made) for made in zip(*calls)], [0] * len(calls[0])


class _TransformedBackward(torch.autograd.Function):
    """The gradient in a transformation of torch.func, which records gradients whether they are differentiated or
    not."""

    generate_vmap_rule = True

    @staticmethod
    def forward(parameters: Tuple, rng: Optional[Tensor], count: int, *tensors: Any) -> Tuple[Tensor, ...]:
        variant, *numbers = parameters
        results = tensors[count:]
        return tuple(torch.ops.attn.attention_backward(tensors[:count], rng, variant, *results, *numbers))

    @staticmethod
    def setup_context(ctx: Any, inputs: Tuple, output: Tuple) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tuple:
        raise UnsupportedError(
            "attention has no second derivatives; do not nest torch.func.grad, vjp and jacrev around it"
        )


class _Transformed(torch.autograd.Function):
    """Attention in a transformation of torch.func, which does not take the functions that torch makes for operators
    with lists of tensors."""

    generate_vmap_rule = True

    @staticmethod
    def forward(parameters: Tuple, rng: Optional[Tensor], *tensors: Tensor) -> Tuple[Tensor, Tensor]:
        return torch.ops.attn.attention(tensors, rng, *parameters)

    @staticmethod
    def setup_context(ctx: Any, inputs: Tuple, output: Tuple) -> None:
        ctx.parameters, rng, *tensors = inputs
        ctx.has_rng = rng is not None
        ctx.mode = read_variant(ctx.parameters[0], len(tensors) - 3)[1]
        if not ctx.mode.with_lse:
            ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*tensors, *output, *([rng] if ctx.has_rng else []))

    @staticmethod
    def backward(ctx: Any, dout: Tensor, dlse: Optional[Tensor]) -> Tuple:
        tensors = list(ctx.saved_tensors)
        rng = tensors.pop() if ctx.has_rng else None
        *tensors, out, lse = tensors
        results = (out, lse, dout, dlse if ctx.mode.with_lse else None)
        made = _TransformedBackward.apply(ctx.parameters, rng, len(tensors), *tensors, *results)
        return None, None, *_by_tensor(len(tensors), ctx.mode, made)


def _differentiate(
    call: Tuple["AnyPlan", "State"], tensors: Sequence[Tensor], *results: Optional[Tensor]
) -> Sequence[Optional[Tensor]]:
    """Gradients for the tensors of the functions below."""
    if torch.is_grad_enabled():
        refuse_second_derivatives()
    plan, rng = call
    gradients = plan.run_backward(tensors if rng is None else (*tensors, rng), *results)
    if len(tensors) == 3:
        return gradients
    by_tensor: List[Optional[Tensor]] = [None] * len(tensors)
    by_tensor[:3] = gradients[:3]
    for number, gradient in zip(plan.mode.gradients, gradients[3:]):
        by_tensor[3 + number] = gradient
    return by_tensor


class _Attention(torch.autograd.Function):
    """The same in eager mode, for the output alone: each output takes time, and so does each argument. ``call`` is the
    plan with seed and offset of dropout."""

    @staticmethod
    def forward(ctx: Any, call: Tuple["AnyPlan", "State"], *tensors: Tensor) -> Tensor:
        plan, rng = call
        out, ctx.lse = plan.run(tensors if rng is None else (*tensors, rng))
        ctx.call = call
        ctx.save_for_backward(*tensors, out)
        return out

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> Tuple:
        *tensors, out = ctx.saved_tensors
        return (None, *_differentiate(ctx.call, tensors, out, ctx.lse, dout, None))


class _AttentionWithLse(torch.autograd.Function):
    """The output and the log-sum-exp, both of which have gradients."""

    @staticmethod
    def forward(ctx: Any, call: Tuple["AnyPlan", "State"], *tensors: Tensor) -> Tuple[Tensor, Tensor]:
        plan, rng = call
        out, lse = plan.run(tensors if rng is None else (*tensors, rng))
        ctx.call = call
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, out, lse)
        return out, lse

    @staticmethod
    def backward(ctx: Any, dout: Optional[Tensor], dlse: Optional[Tensor]) -> Tuple:
        *tensors, out, lse = ctx.saved_tensors
        dout = torch.zeros_like(out) if dout is None else dout
        return (None, *_differentiate(ctx.call, tensors, out, lse, dout, dlse))


# Torch's own ``apply`` first looks for transformations of torch.func, of which recent plans know that there are none.
_apply = super(torch.autograd.Function, _Attention).apply
_apply_with_lse = super(torch.autograd.Function, _AttentionWithLse).apply

for _function in (_Attention, _AttentionWithLse):
    # Nodes of graphs call ``backward`` themselves, without looking up which function it is. The class is private.
    if hasattr(_function, "_backward_cls"):
        _function._backward_cls.apply = _function.backward


def is_transformed() -> bool:
    """Whether a transformation of torch.func is on."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def has_dual_level() -> bool:
    """Whether ``torch.autograd.forward_ad`` is on."""
    return getattr(forward_ad, "_current_level", -1) >= 0


def refuse_tangents(*tensors: Tensor) -> None:
    """Refuses tensors that have tangents."""
    if any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors):
        raise UnsupportedError(
            "attention has no forward-mode derivatives but in double precision on the host, and a tensor has a "
            "tangent of torch.autograd.forward_ad; use torch.autograd.grad, or torch.float64"
        )


def is_observed() -> bool:
    """Whether compilers or modes of torch observe calls, which checks of tensors do not all tell."""
    return torch.compiler.is_compiling() or _len_dispatch_stack() != 0 or has_dual_level()


_get_precision = torch.get_float32_matmul_precision
_len_dispatch_stack = torch._C._len_torch_dispatch_stack
_PLAIN = (Tensor, torch.nn.Parameter)


def is_plain(*tensors: Tensor) -> bool:
    """Whether tensors are plain ones, and no mode or transformation observes the call."""
    if is_observed():
        return False
    # Traces of torch.jit record operators, and would have all other results as constants.
    if torch._C._get_tracing_state() is not None:
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
_ROW_BYTES = 16
#: Tables and their addresses.
_tables: Dict[Tuple, Tuple[Tensor, int]] = {}
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


class Row:
    """A row of a table in the place of a tensor: kernels need its address alone, and making a tensor takes time."""

    __slots__ = ("_table", "_number", "_address")

    def __init__(self, table: Tensor, number: int, address: int):
        # Keeps the memory.
        self._table = table
        self._number = number
        self._address = address

    def data_ptr(self) -> int:
        return self._address

    def make_tensor(self) -> Tensor:
        return self._table[self._number]


def _advance(generator: torch.Generator, device: torch.device, stream: int) -> Row:
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
        found = _tables.get(name)
        if found is None:
            if len(_tables) >= _MAX_TABLES:
                del _tables[next(iter(_tables))]
            table = _make_table(seed, block * _TABLE_ROWS, device)
            found = _tables[name] = (table, table.data_ptr())
    table, address = found
    return Row(table, row, address + row * _ROW_BYTES)


def draw_row(device: torch.device) -> Union[Tensor, Row]:
    """``draw_state`` for a call that nothing observes."""
    if device.type == "cuda":
        index = device.index
        # Whether the stream of another device captures is not told.
        if _get_current_device() == index and not _is_capturing():
            return _advance(torch.cuda.default_generators[index], device, _get_current_stream(index))
    return torch.randint(2**63 - 1, (2,), dtype=torch.int64, device=device)


def draw_state(device: torch.device) -> Tensor:
    """Seed and offset for dropout, from the generator that ``torch.manual_seed``
    sets, on the device, so that nothing waits for them.

    A generator of CUDA has a seed and an offset itself. If a call is observed, they are drawn by an operator: compilers
    of torch keep it, and graphs of CUDA draw new ones at each replay.
    """
    if is_plain():
        state = draw_row(device)
        return state if isinstance(state, Tensor) else state.make_tensor()
    return torch.randint(2**63 - 1, (2,), dtype=torch.int64, device=device)


class _PlannedCall:
    """A plan with its block mask, in the place of a plan."""

    def __init__(self, plan: Plan, precomputed_mask: Tensor):
        self.mode = plan.mode
        self.run_backward = plan.run_backward
        self._plan = plan
        self._precomputed_mask = precomputed_mask

    def run(self, tensors: Sequence[Any]) -> List[Tensor]:
        return self._plan.run(tensors, self._precomputed_mask)


AnyPlan = Union[Plan, _PlannedCall]
#: Seed and offset of dropout, if there is any.
State = Union[Tensor, Row, None]


def find_gradients(tensors: Sequence[Tensor], captures: Sequence[Tensor]) -> Optional[Tuple[int, ...]]:
    """Numbers of the captures with gradients, or None if nothing has one."""
    # Traces of torch.jit are compared with traces without gradients, and must be the same.
    is_recorded = torch.is_grad_enabled() or torch._C._get_tracing_state() is not None
    if not is_recorded or not any([_requires_grad(tensor) for tensor in (*tensors, *captures)]):
        return None
    return tuple([i for i, capture in enumerate(captures) if _requires_grad(capture)])


def refuse_float8_gradients(*tensors: Tensor) -> None:
    """Refuses query, key and value of 8 bits that require gradients."""
    for name, tensor in zip(("query", "key", "value"), tensors):
        if tensor.dtype in FLOAT8 and torch.is_grad_enabled() and _requires_grad(tensor):
            raise UnsupportedError(
                f"{name} has the dtype {tensor.dtype}, for which there are no gradients; pass the tensors before "
                "rounding as straight_through, or call it under torch.no_grad()"
            )


def _requires_grad(tensor: Tensor) -> bool:
    """Whether a tensor has a gradient, or what transformations of torch.func have wrapped."""
    if tensor.requires_grad or torch.compiler.is_compiling() or not is_transformed():
        return tensor.requires_grad
    wrappers = torch._C._functorch
    while wrappers.is_functorch_wrapped_tensor(tensor):
        tensor = wrappers.get_unwrapped(tensor)
        if tensor.requires_grad:
            return True
    return False


def make_block_mask(
    query: Tensor, key: Tensor, value: Tensor, captures: Sequence[Tensor], kind: Kind, with_lse: bool
) -> PrecomputedBlockMask:
    """The block mask for calls of ``attend`` with these arguments."""
    if not is_plain(query, key, value, *captures):
        raise UnsupportedError(
            "create_block_mask needs tensors with memory; call it outside of torch.compile and torch.export"
        )
    gradients = find_gradients((query, key, value), captures)
    plan = get_plan(kind, Mode(with_lse, gradients, planned=True), query, key, value, captures)
    if plan.mask_layout is None:
        raise AttnError(
            "the mask reads no tensor at places that depend on the position, so that kernels know which tiles it "
            "keeps: leave the block mask out"
        )
    return PrecomputedBlockMask(plan, mask_sizes(query, key), captures)


def with_block_mask(
    plan: Plan, query: Tensor, key: Tensor, captures: Sequence[Tensor], precomputed_mask: Any
) -> AnyPlan:
    """A plan with its block mask, if it takes one: the given one, or one that belongs to a ``BlockMask``."""
    if not plan.mode.planned:
        return plan
    if isinstance(precomputed_mask, PrecomputedBlockMask):
        precomputed_mask.check(plan, mask_sizes(query, key), captures)
        return _PlannedCall(plan, precomputed_mask.tensor)
    if plan.mask_layout is None:
        return plan
    return _PlannedCall(plan, find_tensor(precomputed_mask, plan, query, key, captures))


def run_plan(plan: AnyPlan, tensors: Tuple[Tensor, ...], needs_gradient: bool, rng: State, with_lse: bool) -> Any:
    """The output, or the output and the log-sum-exp, for tensors that ``is_plain``."""
    if needs_gradient:
        return (_AttentionWithLse if with_lse else _Attention).apply((plan, rng), *tensors)
    results = plan.run(tensors if rng is None else (*tensors, rng))
    return tuple(results) if with_lse else results[0]


def run_recent(recent: RecentPlan, plan: AnyPlan, tensors: Tuple[Tensor, ...], with_lse: bool) -> Any:
    """The same for a plan that ``find_recent_plan`` has found for these tensors. ``plan`` is the recent one, perhaps
    with its block mask."""
    rng = draw_row(tensors[0].device) if recent.plan.has_dropout else None
    if recent.needs_gradient:
        return (_apply_with_lse if with_lse else _apply)((plan, rng), *tensors)
    results = plan.run(tensors if rng is None else (*tensors, rng))
    return tuple(results) if with_lse else results[0]


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    captures: Sequence[Tensor],
    kind: Kind,
    with_lse: bool,
    precomputed_mask: Any = None,
    name: Optional[Tuple] = None,
) -> Tuple[Tensor, Optional[Tensor]]:
    """Attention by the shortest way, with gradients if they are wanted. ``precomputed_mask`` is the block mask, or the
    ``BlockMask`` that it may be kept for. ``find_recent_plan`` then finds the plan by ``name``, if there is one."""
    if not torch.compiler.is_compiling():
        if evaluate.takes(query):
            state = draw_state(query.device) if kind.dropout_p else None
            results = evaluate.attend(query, key, value, captures, kind, state)
            if is_plain(query, key, value, *captures):
                _check_reads(query, key, captures, kind)
            return results
        if has_dual_level():
            refuse_tangents(query, key, value, *captures)
    gradients = find_gradients((query, key, value), captures)
    if gradients is not None:
        refuse_float8_gradients(query, key, value)
    if is_plain(query, key, value, *captures):
        is_planned = precomputed_mask is not None and (
            may_have_block_mask(kind) or isinstance(precomputed_mask, PrecomputedBlockMask)
        )
        plan = get_plan(kind, Mode(with_lse, gradients, is_planned), query, key, value, captures)
        _check_reads(query, key, captures, kind)
        tensors = (query, key, value, *captures)
        needs_gradient = gradients is not None
        if name is not None:
            remember_plan(name, plan, needs_gradient, tensors)
        call = with_block_mask(plan, query, key, captures, precomputed_mask)
        state = draw_row(query.device) if kind.dropout_p else None
        results = run_plan(call, tensors, needs_gradient, state, with_lse)
        return results if with_lse else (results, None)
    rng = draw_state(query.device) if kind.dropout_p else None
    parameters = (write_variant(kind, Mode(with_lse, gradients)), kind.scale, kind.dropout_p)
    if gradients is not None and not torch.compiler.is_compiling() and is_transformed():
        return _Transformed.apply(parameters, rng, query, key, value, *captures)
    return torch.ops.attn.attention([query, key, value, *captures], rng, *parameters)


_skip_recording()
