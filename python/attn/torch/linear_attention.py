# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linear attention: ``linear_attention`` and ``gated_delta_rule``, with the arguments of the package
flash-linear-attention (fla-core), and the operators ``torch.ops.attn.linear_attention`` and, over several ranks,
``torch.ops.attn.sharded_linear_attention``.
"""

import functools
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from attn.artifact import Function
from attn.builder import LinearAttention
from attn.compiler import compile
from attn.errors import AttnError, UnsupportedError
from attn.torch.checks import check_arguments, convert_by_autocast, with_unit_stride
from attn.torch.kernels import (
    _NAMES,
    Binding,
    Layout,
    _readable,
    dense_like,
    describe,
    find_target,
    gradient_layout,
    kernel_dtypes,
)
from attn.torch.ops import _library, refuse_second_derivatives
from attn.torch.process_groups import agree, find_ranks

_parameters = (
    "Tensor query, Tensor key, Tensor value, Tensor? log_decay, Tensor? beta, Tensor? initial_state, bool causal, "
    "float? scale, int chunk, bool with_final_state"
)
_gradients = "int[] gradients, Tensor dout, Tensor? dfinal_state"
# The operators of one rank have the name of the group as the last parameter.
for _name_of_operator, _all_parameters in (
    ("linear_attention", _parameters),
    ("sharded_linear_attention", f"{_parameters}, str ranks"),
):
    _library.define(f"{_name_of_operator}({_all_parameters}) -> (Tensor, Tensor)")
    _library.define(f"{_name_of_operator}_backward({_all_parameters}, {_gradients}) -> Tensor[]")

#: The only method of ``context_parallel`` for linear attention: ranks gather states.
METHOD = "allgather"
# How many arguments of the operator are tensors, the first ones.
_NUM_TENSORS = 6
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
    causal: bool
    scale: Optional[float]
    chunk: int
    with_final_state: bool
    #: The name of the group, if tensors are shards of this rank.
    ranks: str = ""

    @property
    def tensors(self) -> List[Tensor]:
        return [tensor for tensor in self[:_NUM_TENSORS] if tensor is not None]


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
        chunk=given.chunk,
    )


def _shard_pass(ranks: int) -> str:
    """The pass that makes functions of one of some ranks; none for 0."""
    return f"attn-shard-attention{{method={METHOD} ranks={ranks}}}" if ranks else ""


@functools.lru_cache(maxsize=None)
def _find_forward(description: LinearAttention, target: str, ranks: int) -> Function:
    return compile(description, target=target, passes=_shard_pass(ranks))[description.NAME]


@functools.lru_cache(maxsize=None)
def _find_backward(description: LinearAttention, target: str, ranks: int, gradients: Tuple[int, ...]) -> Function:
    name = description.NAME
    wanted = ",".join(map(str, gradients))
    passes = (
        f"attn-differentiate{{function={name} arguments={wanted} mode=backward}}",
        f"symbol-privatize{{exclude={name}_bwd}}",
        "symbol-dce",
        _shard_pass(ranks),
    )
    return compile(description, target=target, passes=",".join(filter(None, passes)))[f"{name}_bwd"]


def _layouts(given: _Arguments) -> List[Layout]:
    """Layouts of the output and, if it is wanted, of the final state."""
    query, value = given.query, given.value
    batch, heads, tokens, key_dim = query.shape
    shape = (batch, heads, tokens, value.shape[3])
    layouts = [Layout(shape, dense_like(query, shape), query.dtype, query.device)]
    if given.with_final_state:
        state = (batch, heads, key_dim, value.shape[3])
        strides = (heads * key_dim * state[3], key_dim * state[3], state[3], 1)
        layouts.append(Layout(state, strides, torch.float32, query.device))
    return layouts


_MAX_PLANS = 1024
_plans: Dict[Tuple, Binding] = {}


def _remember(name: Tuple, binding: Binding) -> Binding:
    if len(_plans) >= _MAX_PLANS:
        _plans.clear()
    _plans[name] = binding
    return binding


def _name(given: _Arguments, *further: Any) -> Tuple:
    described = [None if tensor is None else describe(tensor) for tensor in given[:_NUM_TENSORS]]
    return (*described, *given[_NUM_TENSORS:], *further)


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
        function = _find_forward(_describe(given), find_target(given.query.device), _join(given))
        plan = _remember(name, Binding(function, given.tensors, _layouts(given)))
    out, *states = _call_function(given, plan, given.tensors)
    return out, states[0] if states else out.new_empty(0, dtype=torch.float32)


def _run_backward(*arguments) -> List[Tensor]:
    """Gradients of the arguments whose numbers ``gradients`` has."""
    *parameters, gradients, dout, dfinal_state = arguments
    given = _Arguments(*parameters)
    numbers = [number for number in range(_NUM_TENSORS) if given[number] is not None]
    results = [_readable(dout)]
    if given.with_final_state:
        results.append(_readable(dfinal_state))
    # The function has the outputs as arguments, too, and does not read them.
    inputs = [*given.tensors, *results, *results]
    name = _name(given, tuple(gradients), *[tensor.stride() for tensor in results])
    plan = _plans.get(name)
    if plan is None:
        wanted = tuple(numbers.index(number) for number in gradients)
        ranks = _join(given, gradients)
        function = _find_backward(_describe(given), find_target(given.query.device), ranks, wanted)
        made = [gradient_layout(given[number]) for number in gradients]
        plan = _remember(name, Binding(function, inputs, made))
    return _call_function(given, plan, inputs)


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


def _check_shape(name: str, tensor: Tensor, *allowed: Tuple[int, ...]) -> None:
    if tuple(tensor.shape) not in allowed:
        expected = " or ".join(map(str, allowed))
        raise AttnError(f"{name} has the shape {tuple(tensor.shape)}, expected {expected}")


def _check(q: Tensor, k: Tensor, v: Tensor, optional: Dict[str, Optional[Tensor]], sequences: int) -> None:
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
    for name, shapes in (
        ("g", ((heads,), rows, (*rows, key_dim))),
        ("beta", (rows,)),
        ("initial_state", ((sequences, heads, key_dim, v.shape[3]),)),
    ):
        tensor = optional.get(name)
        if tensor is not None:
            _check_shape(name, tensor, *shapes)


def _read_lengths(cu_seqlens: Optional[Tensor], q: Tensor) -> Optional[List[int]]:
    """The lengths of packed sequences."""
    if cu_seqlens is None:
        return None
    if cu_seqlens.dim() != 1 or len(cu_seqlens) < 2 or cu_seqlens.is_floating_point():
        raise AttnError(
            f"cu_seqlens has the shape {tuple(cu_seqlens.shape)} and the dtype {cu_seqlens.dtype}, expected "
            "(sequences + 1,) integers"
        )
    if q.shape[0] != 1:
        raise AttnError(f"cu_seqlens needs a batch of 1, in which sequences are packed; q has {q.shape[0]}")
    bounds = cu_seqlens.tolist()
    lengths = [end - begin for begin, end in zip(bounds, bounds[1:])]
    if bounds[0] != 0 or bounds[-1] != q.shape[1] or min(lengths) < 0:
        raise AttnError(f"cu_seqlens is {bounds}; it must rise from 0 to {q.shape[1]}, the positions of q")
    return lengths


def _call(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Optional[Tensor],
    beta: Optional[Tensor],
    initial_state: Optional[Tensor],
    parameters: Tuple,
    ranks: str = "",
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
    tensors = (q, k, v, g, beta, initial_state)
    if ranks:
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
    chunk_size: int,
) -> Tuple[Tensor, Optional[Tensor]]:
    """``linear_attention``, of shards of this rank if ``ranks`` is the name of a group."""
    given = {"q": q, "k": k, "v": v, "g": g, "beta": beta, "initial_state": initial_state, "cu_seqlens": cu_seqlens}
    check_arguments(scale, 0.0, **{name: tensor for name, tensor in given.items() if tensor is not None})
    q, k, v = convert_by_autocast(q, k, v)
    if not causal and (g is not None or beta is not None):
        raise AttnError(f"{'g' if g is not None else 'beta'} needs causal=True")
    if chunk_size not in (8, 16, 32, 64, 128, 256):
        raise AttnError(f"chunk_size is {chunk_size}; it must be a power of two from 8 to 256")
    if ranks and cu_seqlens is not None:
        raise UnsupportedError("linear_attention over several ranks does not take cu_seqlens; leave it out")
    lengths = _read_lengths(cu_seqlens, q) if q.dim() == 4 else None
    optional = {"g": g, "beta": beta, "initial_state": initial_state}
    _check(q, k, v, optional, q.shape[0] if lengths is None else len(lengths))
    parameters = (causal, scale, chunk_size, output_final_state)
    if lengths is None:
        out, state = _call(q, k, v, g, beta, initial_state, parameters, ranks)
        return out, state if output_final_state else None
    # Kernels know one sequence a batch entry: each sequence is a call.
    states = [None] * len(lengths) if initial_state is None else initial_state.split(1)
    rows = [
        [None] * len(lengths) if tensor is None else [tensor] * len(lengths) if tensor.dim() == 1
        else tensor.split(lengths, dim=1)
        for tensor in (q, k, v, g, beta)
    ]  # fmt: skip
    results = [_call(*tensors, parameters) for tensors in zip(*rows, states)]
    out = torch.cat([result[0] for result in results], dim=1)
    return out, torch.cat([result[1] for result in results]) if output_final_state else None


def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Optional[Tensor] = None,
    beta: Optional[Tensor] = None,
    scale: Optional[float] = None,
    initial_state: Optional[Tensor] = None,
    output_final_state: bool = False,
    cu_seqlens: Optional[Tensor] = None,
    *,
    causal: bool = True,
    chunk_size: int = 64,
) -> Tuple[Tensor, Optional[Tensor]]:
    """Linear attention, whose keys and values become a state of fixed size.

    ``S[t] = exp(g[t]) S[t-1] + k[t] u[t]^T`` and ``out[t] = scale S[t]^T q[t]``, where ``u[t]`` is ``v[t]``, or
    ``beta[t] (v[t] - exp(g[t]) S[t-1]^T k[t])`` with ``beta``. Names and layouts are as in fla-core 0.6, with
    positions before heads: ``q`` and ``k`` are ``[batch, positions, heads, key head dim]`` and ``v`` is
    ``[batch, positions, heads, value head dim]``. Numbers of heads divide the largest one. ``g`` are log-decays, at
    most 0: ``[heads]``, ``[batch, positions, heads]``, or these and the key head dim. ``beta`` is
    ``[batch, positions, heads]``. States are ``[batch, heads, key head dim, value head dim]`` in f32; with
    ``cu_seqlens`` the batch is 1, and states belong to its sequences. ``scale`` is one over the root of the key head
    dim if it is None.

    Returns the output and the state after the last position, or None without ``output_final_state``. Without
    ``causal`` each position sees the last state.
    """
    return attend_linearly(
        "", q, k, v, g, beta, scale, initial_state, output_final_state, cu_seqlens, causal, chunk_size
    )


def check_delta_rule(g: Optional[Tensor], beta: Optional[Tensor]) -> None:
    """Refuses a delta rule without its operands."""
    for name, tensor in (("g", g), ("beta", beta)):
        if tensor is None:
            raise AttnError(f"{name} is None; pass a tensor, or call linear_attention")


def gated_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    scale: Optional[float] = None,
    initial_state: Optional[Tensor] = None,
    output_final_state: bool = False,
    cu_seqlens: Optional[Tensor] = None,
) -> Tuple[Tensor, Optional[Tensor]]:
    """Gated DeltaNet (``g`` of ``[batch, positions, heads]``) and Kimi delta attention (``g`` also has the key head
    dim): ``linear_attention`` with ``g`` and ``beta``. ``chunk_gated_delta_rule`` and ``chunk_kda`` of fla-core have
    these arguments, too. Keys are taken as they are: normalise them before."""
    check_delta_rule(g, beta)
    return linear_attention(q, k, v, g, beta, scale, initial_state, output_final_state, cu_seqlens)
