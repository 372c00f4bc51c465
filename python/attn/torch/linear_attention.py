# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linear attention: ``linear_attention`` and ``gated_delta_rule``, with the arguments of the package
flash-linear-attention (fla-core), and the operators ``torch.ops.attn.linear_attention``, with the state in place
``torch.ops.attn.linear_attention_`` and, over several ranks, ``torch.ops.attn.sharded_linear_attention``.
"""

import dataclasses
import functools
import operator
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from attn.artifact import Function
from attn.builder import FEATURES, MAX_RANDOM_FEATURES, MAX_SCALE, RANDOM_FEATURE, LinearAttention
from attn.compiler import compile
from attn.errors import AttnError, UnsupportedError
from attn.torch.checks import check_arguments, convert_by_autocast, with_unit_stride
from attn.torch.fla_arguments import check_names, prepare_arguments, restore_states
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
    matmul_precision,
)
from attn.torch.ops import _library, refuse_second_derivatives
from attn.torch.process_groups import agree, find_ranks

_parameters = (
    "Tensor query, Tensor key, Tensor value, Tensor? log_decay, Tensor? beta, Tensor? initial_state, "
    "Tensor? key_lengths, Tensor? sequences, Tensor? seed, bool causal, float? scale, int chunk, "
    "bool with_final_state, str feature, float? normalizer_eps, int? local_block, int? random_features"
)
_gradients = "int[] gradients, Tensor dout, Tensor? dfinal_state"
# The operators of one rank have the name of the group as the last parameter.
for _name_of_operator, _all_parameters in (
    ("linear_attention", _parameters),
    ("sharded_linear_attention", f"{_parameters}, str ranks"),
):
    _library.define(f"{_name_of_operator}({_all_parameters}) -> (Tensor, Tensor)")
    _library.define(f"{_name_of_operator}_backward({_all_parameters}, {_gradients}) -> Tensor[]")

_library.define(
    "linear_attention_(Tensor query, Tensor key, Tensor value, Tensor? log_decay, Tensor? beta, "
    "Tensor(a!) initial_state, Tensor? key_lengths, Tensor? sequences, Tensor? seed, bool causal, float? scale, "
    "int chunk, str feature, float? normalizer_eps, int? local_block, int? random_features) -> Tensor"
)

#: The only method of ``context_parallel`` for linear attention: ranks gather states.
METHOD = "allgather"
# How many arguments of the operator are tensors, the first ones.
_NUM_TENSORS = 9
# The kinds of log-decays, by their number of dimensions.
_DECAYS = {1: "head", 3: "token", 4: "element"}


class _Arguments(NamedTuple):
    """The arguments of the operator. Tensors have heads before positions."""

    query: Tensor
    key: Tensor
    value: Tensor
    log_decay: Optional[Tensor]
    beta: Optional[Tensor]
    initial_state: Optional[Tensor]
    key_lengths: Optional[Tensor]
    sequences: Optional[Tensor]
    seed: Optional[Tensor]
    causal: bool
    scale: Optional[float]
    chunk: int
    with_final_state: bool
    feature: str
    normalizer_eps: Optional[float]
    local_block: Optional[int]
    random_features: Optional[int]
    #: The name of the group, if tensors are shards of this rank.
    ranks: str = ""

    @classmethod
    def in_place(cls, *arguments: Any) -> "_Arguments":
        """The arguments of the operator that replaces the state."""
        number = cls._fields.index("with_final_state")
        return cls(*arguments[:number], True, *arguments[number:])

    @property
    def tensors(self) -> List[Tensor]:
        return [tensor for tensor in self[:_NUM_TENSORS] if tensor is not None]

    @property
    def is_plain(self) -> bool:
        """Whether the function is the recurrence alone."""
        return not self.feature and all(
            part is None for part in (self.normalizer_eps, self.local_block, self.key_lengths, self.sequences)
        )


def _describe(given: _Arguments) -> LinearAttention:
    return LinearAttention(
        dtype=_NAMES[given.query.dtype],
        heads=given.query.shape[1],
        key_heads=given.key.shape[1],
        value_heads=given.value.shape[1],
        key_dim=given.query.shape[3],
        value_dim=given.value.shape[3],
        decay="" if given.log_decay is None else _DECAYS[given.log_decay.dim()],
        beta=given.beta is not None,
        initial_state=given.initial_state is not None,
        with_final_state=given.with_final_state,
        causal=given.causal,
        scale=given.scale,
        chunk=given.chunk or None,
        precision=matmul_precision(given.query),
        feature=given.feature,
        normalizer_eps=given.normalizer_eps,
        local_block=given.local_block,
        random_features=given.random_features,
        key_lengths=given.key_lengths is not None,
        sequences=given.sequences is not None,
    )


def _shard_pass(ranks: int) -> str:
    """The pass that makes functions of one of some ranks; none for 0."""
    return f"attn-shard-attention{{method={METHOD} ranks={ranks}}}" if ranks else ""


@functools.lru_cache(maxsize=None)
def _find_forward(description: LinearAttention, target: str, ranks: int) -> Function:
    return compile(description, target=target, passes=_shard_pass(ranks))[description.NAME]


@functools.lru_cache(maxsize=None)
def _find_backward(
    description: LinearAttention, target: str, ranks: int, gradients: Tuple[int, ...], is_plain: bool
) -> Function:
    name = description.NAME
    wanted = ",".join(map(str, gradients))
    # Only plain linear attention needs no values of the forward function but its arguments.
    mode, suffix = ("backward", "bwd") if is_plain else ("combined", "grad")
    passes = (
        # Ranks do not divide local blocks that are batch entries.
        "attn-decompose-linear-attention{reset-local-blocks=true}" if ranks and description.local_block else "",
        f"attn-differentiate{{function={name} arguments={wanted} mode={mode}}}",
        f"symbol-privatize{{exclude={name}_{suffix}}}",
        "symbol-dce",
        _shard_pass(ranks),
    )
    return compile(description, target=target, passes=",".join(filter(None, passes)))[f"{name}_{suffix}"]


def _layouts(given: _Arguments) -> List[Layout]:
    """Layouts of the output and, if it is wanted, of the final state."""
    query, value = given.query, given.value
    batch, heads, tokens, key_dim = query.shape
    shape = (batch, heads, tokens, value.shape[3])
    layouts = [Layout(shape, dense_like(query, shape), query.dtype, query.device)]
    if given.with_final_state:
        number = batch if given.sequences is None else given.sequences.shape[0] - 1
        key_dim = given.random_features or key_dim
        state = (number, heads, key_dim, value.shape[3] + (given.normalizer_eps is not None))
        strides = (heads * key_dim * state[3], key_dim * state[3], state[3], 1)
        layouts.append(Layout(state, strides, torch.float32, query.device))
    return layouts


_MAX_PLANS = 1024
_plans = make_plans()


def _remember(name: Tuple, binding: Binding) -> Binding:
    if len(_plans) >= _MAX_PLANS:
        _plans.clear()
    _plans[name] = binding
    return binding


def _name(given: _Arguments, *further: Any) -> Tuple:
    described = [None if tensor is None else describe(tensor) for tensor in given[:_NUM_TENSORS]]
    return (*described, *given[_NUM_TENSORS:], matmul_precision(given.query), *further)


def _join(given: _Arguments, gradients: Sequence[int] = ()) -> int:
    """The number of ranks, which have the same arguments; 0 without a group."""
    if not given.ranks:
        return 0
    ranks = find_ranks(given.ranks)
    names = _Arguments._fields
    facts = {}
    for name, tensor in zip(names[:_NUM_TENSORS], given):
        facts[f"{name} of the shape"] = "none" if tensor is None else str(tuple(tensor.shape))
        facts[f"{name} of the dtype"] = "none" if tensor is None else str(tensor.dtype)
    for name, value in zip(names[_NUM_TENSORS:-1], given[_NUM_TENSORS:]):
        facts[name] = repr(value)
    facts["gradients of"] = ", ".join(names[number] for number in gradients) or "none"
    facts["the device of the type"] = given.query.device.type
    facts["the matmul precision"] = matmul_precision(given.query) or "highest"
    agree(ranks, facts)
    return ranks.size


def _call_function(given: _Arguments, plan: Binding, tensors: Sequence[Tensor]) -> List[Tensor]:
    """Calls a function, which communicates if there are ranks."""
    if not given.ranks:
        return plan(tensors)
    ranks = find_ranks(given.ranks)
    with ranks.find_communicator(given.query.device).current():
        try:
            return plan(tensors)
        except AttnError as error:
            ranks.fail(str(error))
            raise


def _run(*arguments) -> Tuple[Tensor, Tensor]:
    """The output and the final state, which has no elements if it is not wanted."""
    given = _Arguments(*arguments)
    name = _name(given)
    plan = _plans.get(name)
    if plan is None:
        function = find_for_device(_find_forward, given.query.device, _describe(given), _join(given))
        plan = _remember(name, Binding(function, given.tensors, _layouts(given)))
    out, *states = _call_function(given, plan, given.tensors)
    return out, states[0] if states else out.new_empty(0, dtype=torch.float32)


def _run_in_place(*arguments) -> Tensor:
    """The output; the final state replaces the initial one."""
    given = _Arguments.in_place(*arguments)
    name = _name(given, "in place")
    plan = _plans.get(name)
    if plan is None:
        description = dataclasses.replace(_describe(given), in_place=True)
        function = find_for_device(_find_forward, given.query.device, description, 0)
        plan = _remember(name, Binding(function, given.tensors, _layouts(given)[:1]))
    out = plan(given.tensors)[0]
    if not given.initial_state.is_inference():
        torch.autograd.graph.increment_version(given.initial_state)
    return out


def _run_backward(*arguments) -> List[Tensor]:
    """Gradients of the arguments whose numbers ``gradients`` has."""
    *parameters, gradients, dout, dfinal_state = arguments
    given = _Arguments(*parameters)
    numbers = [number for number in range(_NUM_TENSORS) if given[number] is not None]
    results = [_readable(dout)]
    if given.with_final_state:
        results.append(_readable(dfinal_state))
    # The function has the outputs as arguments, too, and does not read them, or computes them again.
    inputs = [*given.tensors, *(results if given.is_plain else ()), *results]
    name = _name(given, tuple(gradients), *[tensor.stride() for tensor in results])
    plan = _plans.get(name)
    if plan is None:
        wanted = tuple(numbers.index(number) for number in gradients)
        ranks = _join(given, gradients)
        options = (ranks, wanted, given.is_plain)
        function = find_for_device(_find_backward, given.query.device, _describe(given), *options)
        made = [] if given.is_plain else _layouts(given)
        made += [gradient_layout(given[number]) for number in gradients]
        plan = _remember(name, Binding(function, inputs, made))
    return _call_function(given, plan, inputs)[-len(gradients) :]


def _make_results(*arguments):
    given = _Arguments(*arguments)
    made = [layout.make() for layout in _layouts(given)]
    return made[0], made[1] if len(made) == 2 else made[0].new_empty(0, dtype=torch.float32)


def _make_gradients(*arguments):
    *parameters, gradients, _, _ = arguments
    return [gradient_layout(parameters[number]).make() for number in gradients]


def _setup_context(ctx: Any, inputs: Tuple, output: Tuple) -> None:
    ctx.parameters = inputs[_NUM_TENSORS:]
    ctx.set_materialize_grads(False)
    if not _Arguments(*inputs).with_final_state:
        ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*inputs[:_NUM_TENSORS])


def _backward(ctx: Any, dout: Optional[Tensor], dfinal_state: Optional[Tensor]) -> Tuple:
    refuse_second_derivatives()
    tensors = ctx.saved_tensors
    given = _Arguments(*tensors, *ctx.parameters)
    numbers = [number for number in range(_NUM_TENSORS) if ctx.needs_input_grad[number]]
    layouts = _layouts(given)
    if dout is None:
        dout = layouts[0].make().zero_()
    if given.with_final_state and dfinal_state is None:
        dfinal_state = layouts[1].make().zero_()
    further = (numbers, dout, dfinal_state)
    made = (
        torch.ops.attn.sharded_linear_attention_backward(*given, *further) if given.ranks
        else torch.ops.attn.linear_attention_backward(*given[:-1], *further)
    )  # fmt: skip
    by_argument: List[Optional[Tensor]] = [None] * (_NUM_TENSORS + len(ctx.parameters))
    for number, gradient in zip(numbers, made):
        by_argument[number] = gradient
    return tuple(by_argument)


for _name_of_operator in ("linear_attention", "sharded_linear_attention"):
    for _device in ("CPU", "CUDA"):
        _library.impl(_name_of_operator, _run, _device)
        _library.impl(f"{_name_of_operator}_backward", _run_backward, _device)
    torch.library.register_fake(f"attn::{_name_of_operator}", _make_results, lib=_library)
    torch.library.register_fake(f"attn::{_name_of_operator}_backward", _make_gradients, lib=_library)
    torch.library.register_autograd(
        f"attn::{_name_of_operator}", _backward, setup_context=_setup_context, lib=_library
    )


for _device in ("CPU", "CUDA"):
    _library.impl("linear_attention_", _run_in_place, _device)


@torch.library.register_fake("attn::linear_attention_", lib=_library)
def _(*arguments):
    return _layouts(_Arguments.in_place(*arguments))[0].make()


def _check_shape(name: str, tensor: Tensor, *allowed: Tuple[int, ...]) -> None:
    if tuple(tensor.shape) not in allowed:
        expected = " or ".join(map(str, allowed))
        raise AttnError(f"{name} has the shape {tuple(tensor.shape)}, expected {expected}")


def _check(
    q: Tensor, k: Tensor, v: Tensor, optional: Dict[str, Optional[Tensor]], sequences: int, form: "Form"
) -> None:
    """Refuses tensors that no kernel takes. Heads follow positions."""
    for name, tensor in {"q": q, "k": k, "v": v, **optional}.items():
        if tensor is None:
            continue
        if tensor.device != q.device:
            raise AttnError(f"{name} is on {tensor.device} and q on {q.device}; move them to one device")
        if name not in ("q", "k", "v"):
            if not tensor.is_floating_point():
                raise AttnError(f"{name} has the dtype {tensor.dtype}, expected one of floats")
            continue
        if tensor.dim() != 4:
            raise AttnError(f"{name} has {tensor.dim()} dimensions; it needs 4: batch, positions, heads and head dim")
        if tensor.dtype not in kernel_dtypes(q.device):
            raise UnsupportedError(
                f"{name} has the dtype {tensor.dtype}; convert it to one of "
                + ", ".join(map(str, kernel_dtypes(q.device)))
            )
        if tensor.dtype != q.dtype:
            raise AttnError(f"{name} has the dtype {tensor.dtype} and q {q.dtype}; convert them to one")
        if 0 in tensor.shape[2:]:
            raise AttnError(f"{name} has the shape {tuple(tensor.shape)}; it needs at least 1 head and head dim")
    batch, tokens, _, key_dim = q.shape
    heads = max(q.shape[2], v.shape[2])
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if heads % tensor.shape[2]:
            raise AttnError(f"{name} has {tensor.shape[2]} heads, which must divide {heads}, the most that q or v has")
    _check_shape("k", k, (batch, tokens, k.shape[2], key_dim))
    _check_shape("v", v, (batch, tokens, v.shape[2], v.shape[3]))
    rows = (batch, tokens, heads)
    features = form.random_features or key_dim
    columns = v.shape[3] + (form.normalizer_eps is not None)
    for name, shapes in (
        ("g", ((heads,), rows, (*rows, features))),
        ("beta", (rows,)),
        ("initial_state", ((sequences, heads, features, columns),)),
    ):
        tensor = optional.get(name)
        if tensor is not None:
            _check_shape(name, tensor, *shapes)


class Form(NamedTuple):
    """What linear attention has besides the recurrence."""

    feature: str = ""
    normalizer_eps: Optional[float] = None
    local_block: Optional[int] = None
    random_features: Optional[int] = None
    key_lengths: Optional[Tensor] = None
    #: The seed of random features: one torch.int64.
    seed: Optional[Tensor] = None


def _check_form(form: Form, q: Tensor, beta: Optional[Tensor], cu_seqlens: Optional[Tensor], has_states: bool) -> None:
    """Refuses parts that no kernel takes, and parts that exclude each other."""
    if form.normalizer_eps is not None:
        if not 0 <= form.normalizer_eps <= MAX_SCALE:
            raise AttnError(f"eps is {form.normalizer_eps}; it must be from 0 to {MAX_SCALE:.3g}, as an f32")
        if beta is not None:
            raise AttnError("normalize=True does not go with beta: the delta rule has no sum of scores")
    if form.local_block is not None:
        if not hasattr(form.local_block, "__index__") or not 1 <= form.local_block < 1 << 31:
            raise AttnError(f"block is {form.local_block}; it must be a whole number from 1 to {(1 << 31) - 1}")
        if has_states:
            raise AttnError(
                "block does not go with initial_state and output_final_state: each block of tokens has its own state"
            )
    lengths = form.key_lengths
    if lengths is None:
        return
    if cu_seqlens is not None:
        raise AttnError("key_lengths does not go with cu_seqlens, which has the lengths of the sequences")
    if not _is_of_integers(lengths) or tuple(lengths.shape) != q.shape[:1]:
        raise AttnError(
            f"key_lengths has the shape {tuple(lengths.shape)} and the dtype {lengths.dtype}, expected "
            f"({q.shape[0]},) integers"
        )
    if lengths.device != q.device:
        raise AttnError(f"key_lengths is on {lengths.device} and q on {q.device}; move them to one device")


def _check_form_of_ranks(form: Form, causal: bool, cu_seqlens: Optional[Tensor], has_states: bool) -> None:
    """Refuses parts that several ranks do not take."""
    if form.local_block is not None and not causal:
        raise UnsupportedError("linear_attention over several ranks takes block with causal=True alone")
    if cu_seqlens is not None and (has_states or not causal or form.local_block is not None):
        raise UnsupportedError(
            "linear_attention over several ranks takes cu_seqlens with causal=True, and without block, initial_state "
            "and output_final_state, alone"
        )


def _check_boundaries(cu_seqlens: Tensor, q: Tensor) -> None:
    if cu_seqlens.dim() != 1 or len(cu_seqlens) < 2 or not _is_of_integers(cu_seqlens):
        raise AttnError(
            f"cu_seqlens has the shape {tuple(cu_seqlens.shape)} and the dtype {cu_seqlens.dtype}, expected "
            "(sequences + 1,) integers"
        )
    if q.shape[0] != 1:
        raise AttnError(f"cu_seqlens needs a batch of 1, in which sequences are packed; q has {q.shape[0]}")


def _read_lengths(cu_seqlens: Tensor, q: Tensor) -> List[int]:
    """The lengths of packed sequences."""
    bounds = cu_seqlens.tolist()
    lengths = [end - begin for begin, end in zip(bounds, bounds[1:])]
    if bounds[0] != 0 or bounds[-1] != q.shape[1] or min(lengths) < 0:
        raise AttnError(f"cu_seqlens is {bounds}; it must rise from 0 to {q.shape[1]}, the positions of q")
    return lengths


def _check_in_place(state: Optional[Tensor], inputs: Sequence[Optional[Tensor]]) -> None:
    """Refuses initial states that cannot be replaced by the final ones."""
    if state is None:
        raise AttnError("inplace_final_state needs initial_state, which it writes")
    if state.dtype != torch.float32 or not state.is_contiguous():
        raise AttnError(
            f"initial_state has the dtype {state.dtype} and the strides {state.stride()}; inplace_final_state needs "
            "contiguous torch.float32"
        )
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in (state, *inputs)):
        raise AttnError("inplace_final_state has no gradients; call it under torch.no_grad()")


def _is_of_integers(tensor: Tensor) -> bool:
    """Whether the nearest numbers of 32 bits can be computed."""
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype in (torch.bool, torch.uint64))


def _to_int32(tensor: Tensor) -> Tensor:
    """The nearest numbers of 32 bits: lengths and boundaries beyond them mean the same as these."""
    if tensor.dtype in (torch.int64, torch.uint32):
        # Not all operations have unsigned numbers.
        limits = torch.iinfo(torch.int32)
        tensor = tensor.to(torch.int64).clamp(limits.min, limits.max)
    return tensor.to(torch.int32)


def _call(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Optional[Tensor],
    beta: Optional[Tensor],
    initial_state: Optional[Tensor],
    parameters: Tuple,
    ranks: str = "",
    key_lengths: Optional[Tensor] = None,
    sequences: Optional[Tensor] = None,
    in_place: bool = False,
    seed: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor]:
    """One call of the operator; heads follow positions."""
    heads = max(q.shape[2], v.shape[2])
    # Each head of the operator's queries has a state.
    if q.shape[2] != heads:
        q = q.repeat_interleave(heads // q.shape[2], dim=2)
    q, k, v = (with_unit_stride(tensor, name).transpose(1, 2) for name, tensor in (("q", q), ("k", k), ("v", v)))
    if g is not None:
        g = (g if g.dim() == 1 else g.transpose(1, 2)).float().contiguous()
    if beta is not None:
        beta = beta.transpose(1, 2).float().contiguous()
    if initial_state is not None:
        initial_state = initial_state.float().contiguous()
    key_lengths, sequences = (
        None if tensor is None else _to_int32(tensor).contiguous() for tensor in (key_lengths, sequences)
    )
    tensors = (q, k, v, g, beta, initial_state, key_lengths, sequences, seed)
    if in_place:
        causal, scale, chunk, _, *form = parameters
        out, state = torch.ops.attn.linear_attention_(*tensors, causal, scale, chunk, *form), initial_state
    elif ranks:
        out, state = torch.ops.attn.sharded_linear_attention(*tensors, *parameters, ranks)
    else:
        out, state = torch.ops.attn.linear_attention(*tensors, *parameters)
    return out.transpose(1, 2), state


def attend_linearly(
    ranks: str,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Optional[Tensor],
    beta: Optional[Tensor],
    scale: Optional[float],
    initial_state: Optional[Tensor],
    output_final_state: bool,
    cu_seqlens: Optional[Tensor],
    causal: bool,
    chunk_size: Optional[int],
    form: Form = Form(),
    inplace_final_state: bool = False,
) -> Tuple[Tensor, Optional[Tensor]]:
    """``linear_attention``, of shards of this rank if ``ranks`` is the name of a group."""
    given = {"q": q, "k": k, "v": v, "g": g, "beta": beta, "initial_state": initial_state, "cu_seqlens": cu_seqlens}
    given["key_lengths"] = form.key_lengths
    check_arguments(scale, 0.0, **{name: tensor for name, tensor in given.items() if tensor is not None})
    q, k, v = convert_by_autocast(q, k, v)
    if not causal and (g is not None or beta is not None):
        raise AttnError(f"{'g' if g is not None else 'beta'} needs causal=True")
    if chunk_size is not None and (
        not hasattr(chunk_size, "__index__") or chunk_size not in (8, 16, 32, 64, 128, 256)
    ):
        raise AttnError(f"chunk_size is {chunk_size}; it must be a power of two from 8 to 256")
    has_states = initial_state is not None or output_final_state
    if ranks:
        _check_form_of_ranks(form, causal, cu_seqlens, has_states)
    lengths, is_packed = None, False
    if q.dim() == 4:
        _check_form(form, q, beta, cu_seqlens, has_states)
        if cu_seqlens is not None:
            _check_boundaries(cu_seqlens, q)
            # One call has no blocks of sequences, and needs a causal mask.
            is_packed = causal and form.local_block is None
            lengths = None if is_packed else _read_lengths(cu_seqlens, q)
    optional = {"g": g, "beta": beta, "initial_state": initial_state}
    is_whole = cu_seqlens is None or q.dim() != 4
    _check(q, k, v, optional, q.shape[0] if is_whole else len(cu_seqlens) - 1, form)
    parameters = (causal, scale, chunk_size or 0, output_final_state, *form[:4])
    if inplace_final_state:
        _check_in_place(initial_state, (q, k, v, g, beta))
    if lengths is None:
        sequences = cu_seqlens if is_packed else None
        further = (form.key_lengths, sequences, inplace_final_state, form.seed)
        out, state = _call(q, k, v, g, beta, initial_state, parameters, ranks, *further)
        return out, state if output_final_state or inplace_final_state else None
    # Each sequence is a call.
    states = [None] * len(lengths) if initial_state is None else initial_state.split(1)
    rows = [
        [None] * len(lengths) if tensor is None else [tensor] * len(lengths) if tensor.dim() == 1
        else tensor.split(lengths, dim=1)
        for tensor in (q, k, v, g, beta)
    ]  # fmt: skip
    named = dict(in_place=inplace_final_state, seed=form.seed)
    results = [_call(*tensors, parameters, **named) for tensors in zip(*rows, states)]
    out = torch.cat([result[0] for result in results], dim=1)
    if inplace_final_state:
        return out, initial_state
    return out, torch.cat([result[1] for result in results]) if output_final_state else None


def _normalize_rows(rows: Tensor) -> Tensor:
    """Rows of unit length, as fla-core makes them."""
    wide = rows.float()
    return (wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + 1e-6)).to(rows.dtype)


class RandomFeatures:
    """Positive random features of the softmax kernel (Performer, Choromanski et al. 2021), for ``feature``:
    ``exp(W x - dot(x, x) / 2) / sqrt(features)`` of ``x = rows / key_dim^0.25``, whose dot products have the mean
    ``exp(dot(q, k) / sqrt(key_dim))``. The rows of ``W`` are normally distributed; each ``key_dim`` of them are
    orthogonal. ``projection`` is ``W``, which may be trained or drawn again.
    """

    def __init__(
        self, key_dim: int, features: int, seed: int = 0, device: Any = None, dtype: torch.dtype = torch.float32
    ):
        for name, number in (("key_dim", key_dim), ("features", features)):
            if number < 1:
                raise AttnError(f"{name} is {number}; it must be at least 1")
        generator = torch.Generator().manual_seed(seed)
        blocks = []
        for _ in range(-(-features // key_dim)):
            normal = torch.randn(key_dim, key_dim, generator=generator, dtype=torch.float64)
            lengths = torch.randn(key_dim, key_dim, generator=generator, dtype=torch.float64).norm(dim=1)
            blocks.append(torch.linalg.qr(normal)[0] * lengths[:, None])
        self.projection = torch.cat(blocks)[:features].to(device=device, dtype=dtype)

    def __call__(self, rows: Tensor) -> Tensor:
        features, key_dim = self.projection.shape
        if rows.shape[-1] != key_dim:
            raise AttnError(f"rows have a head dim of {rows.shape[-1]}, and random features one of {key_dim}")
        rows = rows.to(self.projection.dtype) / key_dim**0.25
        exponents = rows @ self.projection.T - rows.square().sum(-1, keepdim=True) / 2
        return exponents.exp() / features**0.5


#: A feature map: its name, or a function of rows.
Feature = Union[None, str, Callable[[Tensor], Tensor]]


def _apply_feature(feature: Callable[[Tensor], Tensor], name: str, rows: Tensor) -> Tensor:
    features = feature(rows)
    if not isinstance(features, Tensor) or features.shape[:-1] != rows.shape[:-1]:
        found = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise AttnError(
            f"feature makes {found} of {name} of the shape {tuple(rows.shape)}; it must keep all dimensions but the "
            "last"
        )
    return features.to(rows.dtype)


def prepare_rows(
    q: Tensor, k: Tensor, scale: Optional[float], feature: Feature, head_first: bool, is_unit_length: bool
) -> Tuple[Tensor, Tensor, Optional[float], str]:
    """Queries and keys, ``scale``, and the name of the feature map that kernels apply."""
    if head_first:
        raise UnsupportedError("head_first=True is not supported; call .transpose(1, 2) and leave it out")
    if is_unit_length:
        q, k = _normalize_rows(q), _normalize_rows(k)
    if feature is None or isinstance(feature, str):
        if feature is not None and feature not in FEATURES:
            raise AttnError(
                f"feature is {feature!r}; it must be a function or one of {', '.join(map(repr, FEATURES))}"
            )
        return q, k, scale, feature or ""
    if not callable(feature):
        raise AttnError(f"feature is a {type(feature).__name__}; pass a name or a function of rows")
    # The default belongs to the head dim before the feature map.
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return _apply_feature(feature, "q", q), _apply_feature(feature, "k", k), scale, ""


def _find_index(number: Any) -> Optional[int]:
    """A whole number, of Python, NumPy or torch; None for others."""
    try:
        return operator.index(number)
    except TypeError:
        return None


def prepare_random_features(
    feature: Feature, number: Optional[int], seed: Union[None, int, Tensor], device: torch.device
) -> Tuple[Optional[int], Optional[Tensor]]:
    """The number of random features and their seed, if ``feature`` is "random"."""
    if feature != RANDOM_FEATURE:
        for name, given in (("random_features", number), ("feature_seed", seed)):
            if given is not None:
                raise AttnError(f"{name} needs feature={RANDOM_FEATURE!r}")
        return None, None
    whole = _find_index(number)
    if whole is None or not 1 <= whole <= MAX_RANDOM_FEATURES:
        raise AttnError(f"random_features is {number}; it must be a whole number from 1 to {MAX_RANDOM_FEATURES}")
    if isinstance(seed, Tensor):
        if seed.dtype != torch.int64 or seed.numel() != 1 or seed.device != device:
            raise AttnError(
                f"feature_seed has the shape {tuple(seed.shape)} and the dtype {seed.dtype} on {seed.device}, expected "
                f"one torch.int64 on {device}"
            )
        return whole, seed.reshape(())
    bits = _find_index(seed)
    if bits is None or not -(1 << 63) <= bits < 1 << 64:
        raise AttnError(f"feature_seed is {seed}; it must be a whole number of 64 bits, or a tensor of one")
    # A fill, unlike a copy from the host, waits for nothing.
    return whole, torch.full((), bits - (1 << 64) if bits >= 1 << 63 else bits, dtype=torch.int64, device=device)


def _choose_log_decay(**given: Optional[Tensor]) -> Optional[Tensor]:
    """The log-decays that are there, by one of their names."""
    names = [name for name, tensor in given.items() if tensor is not None]
    if len(names) > 1:
        raise AttnError(f"{' and '.join(names)} are all log-decays; pass one of them")
    for name, tensor in given.items():
        check_arguments(None, 0.0, **({} if tensor is None else {name: tensor}))
        rank = {"g_gamma": 1, "gk": 4}.get(name)
        if tensor is not None and rank and tensor.dim() != rank:
            wanted = {1: "heads", 4: "batch, positions, heads, key head dim"}[rank]
            raise AttnError(f"{name} has the shape {tuple(tensor.shape)}, expected ({wanted})")
    return given[names[0]] if names else None


def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Optional[Tensor] = None,
    beta: Optional[Tensor] = None,
    scale: Optional[float] = None,
    initial_state: Optional[Tensor] = None,
    output_final_state: bool = False,
    *,
    cu_seqlens: Optional[Tensor] = None,
    g_gamma: Optional[Tensor] = None,
    gk: Optional[Tensor] = None,
    causal: bool = True,
    chunk_size: Optional[int] = None,
    feature: Feature = None,
    random_features: Optional[int] = None,
    feature_seed: Union[None, int, Tensor] = None,
    normalize: bool = False,
    eps: float = 1e-6,
    block: Optional[int] = None,
    key_lengths: Optional[Tensor] = None,
    head_first: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    inplace_final_state: bool = False,
    **fla_core: Any,
) -> Tuple[Tensor, Optional[Tensor]]:
    """Linear attention, whose keys and values become a state of fixed size.

    ``S[t] = exp(g[t]) S[t-1] + k[t] u[t]^T`` and ``out[t] = scale S[t]^T q[t]``, where ``u[t]`` is ``v[t]``, or
    ``beta[t] (v[t] - exp(g[t]) S[t-1]^T k[t])`` with ``beta``. Names and layouts are as in fla-core 0.6, with
    positions before heads: ``q`` and ``k`` are ``[batch, positions, heads, key head dim]`` and ``v`` is
    ``[batch, positions, heads, value head dim]``. Numbers of heads divide the largest one. ``g`` are log-decays, at
    most 0: ``[heads]``, ``[batch, positions, heads]``, or these and the key head dim; fla-core also calls the first
    ones ``g_gamma`` and the last ones ``gk``. ``beta`` is
    ``[batch, positions, heads]``. States are ``[batch, heads, key head dim, value head dim]`` in f32; with
    ``cu_seqlens`` the batch is 1, and states belong to its sequences. ``scale`` is one over the root of the key head
    dim if it is None. Kernels compute ``chunk_size`` positions at a time, a power of two from 8 to 256; if it is None,
    the compiler chooses.

    ``feature`` is a feature map of queries and keys: "elu" (plus one), "relu", "exp" or "softmax" (of each row), which
    kernels apply, or a function of tensors such as ``RandomFeatures``, which torch applies to ``q`` and to ``k``.
    "random" are ``random_features`` positive random features (Performer), which kernels compute from
    ``feature_seed``, a number or a torch.int64 tensor of one: ``exp(W x - dot(x, x) / 2) / sqrt(random_features)`` of
    ``x = rows / key_dim^0.25``, with normally distributed ``W`` that depends on the seed alone. States have a row, and
    elements of ``g``, for each of them.
    ``normalize`` divides outputs by ``eps`` plus the sum of their scores: ``v`` replaced by ones. States have this sum
    as a further column, the last one. A token sees tokens of its ``block`` of that many tokens, the first
    ``key_lengths[b]`` tokens, or tokens of its sequence in ``cu_seqlens``. ``use_qk_l2norm_in_kernel`` gives ``q`` and
    ``k`` unit length first. ``fla_core`` are further arguments of fla-core, see ``attn.torch.fla_arguments``.

    Returns the output and the state after the last position, or None without ``output_final_state``. Without
    ``causal`` each position sees the last state. ``cu_seqlens`` is read where kernels run, unless there is a ``block``
    or no ``causal``: then each sequence is a call. With ``inplace_final_state`` the final state replaces the
    contents of ``initial_state``, a contiguous f32 tensor, which is returned; there are no gradients then. A decode
    step of one position, or few, reads and writes the state once. A call that reports a positive ``g`` or wrong
    ``cu_seqlens`` may have written it.
    """
    g = _choose_log_decay(g=g, g_gamma=g_gamma, gk=gk)
    g, beta, initial_state, is_value_first = prepare_arguments(
        "linear_attention", fla_core, g, beta, initial_state, cu_seqlens, inplace_final_state
    )
    q, k, scale, name = prepare_rows(q, k, scale, feature, head_first, use_qk_l2norm_in_kernel)
    number, seed = prepare_random_features(feature, random_features, feature_seed, q.device)
    form = Form(name, eps if normalize else None, block, number, key_lengths, seed)
    result = attend_linearly(
        "", q, k, v, g, beta, scale, initial_state, output_final_state, cu_seqlens, causal, chunk_size, form,
        inplace_final_state,
    )  # fmt: skip
    return restore_states(result, is_value_first)


def check_delta_rule(beta: Optional[Tensor]) -> None:
    """Refuses a delta rule without its operand."""
    if beta is None:
        raise AttnError("beta is None; pass a tensor, or call linear_attention")


def gated_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Optional[Tensor] = None,
    beta: Optional[Tensor] = None,
    scale: Optional[float] = None,
    initial_state: Optional[Tensor] = None,
    output_final_state: bool = False,
    *,
    cu_seqlens: Optional[Tensor] = None,
    gk: Optional[Tensor] = None,
    chunk_size: Optional[int] = None,
    feature: Feature = None,
    random_features: Optional[int] = None,
    feature_seed: Union[None, int, Tensor] = None,
    block: Optional[int] = None,
    key_lengths: Optional[Tensor] = None,
    head_first: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    inplace_final_state: bool = False,
    **fla_core: Any,
) -> Tuple[Tensor, Optional[Tensor]]:
    """Gated DeltaNet (``g`` of ``[batch, positions, heads]``), Kimi delta attention (``g`` also has the key head dim)
    and DeltaNet (``g`` is None): ``linear_attention`` with ``beta``. ``chunk_gated_delta_rule``, ``chunk_kda`` and
    ``chunk_delta_rule`` of fla-core have these arguments, too. Keys are taken as they are, unless
    ``use_qk_l2norm_in_kernel`` gives them unit length."""
    check_delta_rule(beta)
    check_names("gated_delta_rule", fla_core)
    return linear_attention(
        q, k, v, g, beta, scale, initial_state, output_final_state, cu_seqlens=cu_seqlens, gk=gk, chunk_size=chunk_size,
        feature=feature, random_features=random_features, feature_seed=feature_seed, block=block,
        key_lengths=key_lengths, head_first=head_first,
        use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel, inplace_final_state=inplace_final_state, **fla_core,
    )  # fmt: skip
