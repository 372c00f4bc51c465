# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``context_parallel``: attention whose sequence is distributed over the ranks of a group."""

import contextlib
import dataclasses
import functools
import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from attn.artifact import Function
from attn.builder import Attention
from attn.communicator import LEGACY_STREAM
from attn.compiler import compile, compile_in_background
from attn.errors import AttnError, UnsupportedError
from attn.masks import Mask
from attn.torch import flex
from attn.torch.checks import check_arguments, check_equal_heads, convert_by_autocast, specialize, with_unit_stride
from attn.torch.flash_attn import flash_attn_varlen_func
from attn.torch.kernels import (
    CLAUSES,
    FLOAT8,
    Binding,
    Kind,
    Mode,
    _readable,
    describe,
    describe_attention,
    find_clauses,
    find_target,
    further_targets,
    gradient_layout,
    output_layouts,
    read_mask,
)
from attn.torch.linear_attention import METHOD as LINEAR_METHOD
from attn.torch.linear_attention import (
    Feature,
    Form,
    attend_linearly,
    check_delta_rule,
    gated_delta_rule,
    linear_attention,
    prepare_random_features,
    prepare_rows,
)
from attn.torch.ops import _library, draw_state, read_variant, refuse_second_derivatives, write_variant
from attn.torch.process_groups import Ranks, agree, find_place, find_ranks, make_ranks
from attn.torch.sdpa import _check_cap, _combine, make_kind, sdpa, varlen_attn
from attn.torch.shard_methods import (
    SEGMENTS,
    STRIPED,
    check_method,
    chunks_of_rank,
    describe_method,
    find_degree,
    order_chunks,
    resolve_mesh,
)
from attn.torch.varlen_shards import shard_flash_attn_varlen_func, shard_varlen_attn

# How long ranks wait for each other: some compile longer than others.
_SECONDS = 600.0
#: The dimension of positions.
_SEQUENCE = 2
# The most functions of one kind that are kept: most methods have one for each length.
_MAX_FUNCTIONS = 1024

_library.define(
    "sharded_attention(Tensor[] tensors, Tensor? rng, str variant, str ranks, str method, float? scale, "
    "float dropout_p) -> (Tensor, Tensor)"
)
_library.define(
    "sharded_attention_backward(Tensor[] tensors, Tensor? rng, str variant, str ranks, str method, Tensor out, "
    "Tensor lse, Tensor dout, Tensor? dlse, float? scale, float dropout_p) -> Tensor[]"
)
# The tensor of the first rank.
_library.define("tensor_of_first_rank(Tensor tensor, str ranks) -> Tensor")


#
# Plans, of a method and its degree as ``describe_method`` describes them
#


def count_query_shards(method: str, ranks: int) -> int:
    """Of how many shards of queries the whole has."""
    return 1 if method == SEGMENTS else ranks


def describe_shards(
    kind: Kind,
    with_lse: bool,
    method: str,
    ranks: int,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    captures: Sequence[Tensor],
) -> Attention:
    """The attention of the whole, of which a rank has such shards."""
    description = describe_attention(kind, with_lse, query, key, value, captures)
    if kind.sequences and method == "ulysses":
        # The number of positions differs from batch to batch, and each rank has all of them.
        return description
    return dataclasses.replace(
        description,
        batch=query.shape[0],
        queries=query.shape[_SEQUENCE] * count_query_shards(method, ranks),
        keys=key.shape[_SEQUENCE] * ranks,
    )


def write_passes(method: str, ranks: int, differentiate: str = "") -> str:
    """The passes that make the function of one rank. The pass is the same for one rank, so that results are, too."""
    return f"{differentiate}attn-shard-attention{{method={method} ranks={ranks}}}"


@functools.lru_cache(maxsize=_MAX_FUNCTIONS)
def find_forward(description: Attention, target: str, method: str, ranks: int) -> Function:
    """The compiled function of one rank."""
    return compile(description, target=target, passes=write_passes(method, ranks))[description.NAME]


@functools.lru_cache(maxsize=_MAX_FUNCTIONS)
def find_backward(
    description: Attention, target: str, method: str, ranks: int, gradients: Tuple[int, ...], deterministic: bool
) -> Callable[[], Function]:
    """The compiled gradient of one rank: its compilation starts now, and a call waits for the end."""
    name = description.NAME
    arguments = ",".join(map(str, (0, 1, 2, *(3 + number for number in gradients))))
    how = f"mode=backward{' deterministic' if deterministic else ''}"
    passes = write_passes(
        method,
        ranks,
        f"attn-differentiate{{function={name} arguments={arguments} {how}}},symbol-privatize{{exclude={name}_bwd}},"
        "symbol-dce,",
    )
    wait = compile_in_background(description, target=target, passes=passes)
    return lambda: wait()[f"{name}_bwd"]


def check_heads(method: str, ranks: int, heads: int, key_heads: int, value_heads: int) -> None:
    """Whether each rank can have as many heads as the others."""
    degree = find_degree(method, ranks)
    what = f"{degree}, {'the number of ranks' if method == 'ulysses' else 'ulysses_degree'}"
    others = f"with the method {method.split()[0]}; the methods ring, zigzag, striped, lightseq and allgather take any"
    if heads % degree:
        raise UnsupportedError(f"query has {heads} heads, which must be a multiple of {what}, {others}")
    for name, shared in (("key", key_heads), ("value", value_heads)):
        if shared % degree and degree % shared:
            raise UnsupportedError(
                f"{name} has {shared} heads, which must be a multiple or a divisor of {what}, {others}"
            )


def _differentiated(tensors: Sequence[Tensor], mode: Mode) -> List[Tensor]:
    """The tensors that have gradients."""
    return [*tensors[:3], *(tensors[3 + number] for number in mode.gradients or ())]


def _find_same(kind: Kind) -> Optional[int]:
    """The number of the tensor with the boundaries of keys, if these are the boundaries of queries."""
    if "same_sequences" not in kind.clauses.split():
        return None
    before = kind.clauses.split(kind.sequences)[0].split()
    return 3 + kind.reads + sum([CLAUSES[clause] for clause in before]) + 1


class _ShardPlan:
    """How a rank computes attention, and its gradients, for shards of some layout."""

    def __init__(self, ranks: Ranks, method: str, kind: Kind, mode: Mode, tensors: Sequence[Tensor]):
        query, key, value, *captures = tensors
        chunks = chunks_of_rank(method, ranks.size)
        for name, tensor in (("query", query), ("key", key)):
            if tensor.shape[_SEQUENCE] % chunks:
                raise AttnError(
                    f"{name} has {tensor.shape[_SEQUENCE]} positions, which {chunks} chunks of a rank cannot have "
                    "equally many of; make the sequence a multiple of "
                    f"{chunks * ranks.size}, twice the number of ranks"
                )
        check_heads(method, ranks.size, query.shape[1], key.shape[1], value.shape[1])
        deterministic = kind.deterministic or torch.are_deterministic_algorithms_enabled()
        agree(ranks, _list_facts(method, kind, mode, deterministic, tensors))
        self.mode = mode
        self.has_dropout = kind.dropout_p != 0
        # Queries and keys may have the same boundaries, of which functions have one argument.
        self._same = _find_same(kind)
        self._state = len(self._select(tensors)) if self.has_dropout else None
        self._ranks = ranks
        self._communicator = ranks.find_communicator(query.device)
        description = describe_shards(kind, True, method, ranks.size, query, key, value, captures)
        target = find_target(query.device)
        self._backward: Optional[Callable[[], Function]] = None
        of_gradient = dataclasses.replace(description, with_lse=mode.with_lse)
        if mode.gradients is not None:
            self._backward = find_backward(of_gradient, target, method, ranks.size, mode.gradients, deterministic)
        forward = find_forward(description, target, method, ranks.size)
        for other in further_targets():
            find_forward(description, other, method, ranks.size)
            if mode.gradients is not None:
                find_backward(of_gradient, other, method, ranks.size, mode.gradients, deterministic)()
        inputs = [*tensors, query.new_empty(2, dtype=torch.int64)] if self.has_dropout else list(tensors)
        layouts = output_layouts(query, value, True)
        # Rows that belong to no sequence may not be written.
        self._gradient_fill = 0.0 if kind.sequences else None
        if kind.sequences:
            layouts = [layout._replace(fill=fill) for layout, fill in zip(layouts, (0.0, -math.inf))]
        self._run = Binding(forward, self._select(inputs), layouts, self._state)
        self._gradients: Dict[Tuple, Binding] = {}

    def _select(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """The tensors that functions have arguments for."""
        if self._same is None:
            return tensors
        return [tensor for number, tensor in enumerate(tensors) if number != self._same]

    def _call(self, binding: Binding, tensors: Sequence[Tensor]) -> List[Tensor]:
        with self._communicator.current():
            try:
                return binding(tensors)
            except AttnError as error:
                self._ranks.fail(str(error))
                raise

    def run(self, tensors: Sequence[Tensor]) -> List[Tensor]:
        return self._call(self._run, self._select(tensors))

    def run_backward(
        self, tensors: Sequence[Tensor], out: Tensor, lse: Tensor, dout: Tensor, dlse: Optional[Tensor]
    ) -> List[Tensor]:
        results = [out, lse, _readable(dout)]
        if self.mode.with_lse:
            results.append(torch.zeros_like(lse) if dlse is None else _readable(dlse))
        layouts = tuple([tensor.stride() for tensor in results])
        binding = self._gradients.get(layouts)
        if binding is None:
            assert self._backward is not None
            made = [gradient_layout(tensor) for tensor in _differentiated(tensors, self.mode)]
            made[:3] = [layout._replace(fill=self._gradient_fill) for layout in made[:3]]
            inputs = [*self._select(tensors), *results]
            binding = self._gradients[layouts] = Binding(self._backward(), inputs, made, self._state)
        return self._call(binding, (*self._select(tensors), *results))


def _list_facts(method: str, kind: Kind, mode: Mode, deterministic: bool, tensors: Sequence[Tensor]) -> Dict[str, str]:
    """All that ranks must agree about, by names that users know."""
    facts = {"method": method, "the number of tensors": str(len(tensors))}
    names = ["query", "key", "value", *(f"captured tensor {i}" for i in range(len(tensors) - 3))]
    for name, tensor in zip(names, tensors):
        facts[f"{name} of the shape"] = str(tuple(tensor.shape))
        facts[f"{name} of the dtype"] = str(tensor.dtype)
        facts[f"{name} on a device of the type"] = tensor.device.type
    for name, field in (
        ("the mask", kind.mask), ("score_mod", kind.score_mod), ("mask_mod", kind.mask_mod), ("scale", kind.scale),
        ("dropout_p", kind.dropout_p), ("the operands", kind.clauses), ("deterministic", deterministic),
        ("gradients", mode.gradients), ("return_lse", mode.with_lse),
        ("the matmul precision", torch.get_float32_matmul_precision()),
    ):  # fmt: skip
        facts[name] = repr(field)
    return facts


_MAX_PLANS = 4096
_plans: Dict[Tuple, _ShardPlan] = {}


def _find_plan(
    tensors: Sequence[Tensor], rng: Optional[Tensor], variant: str, ranks: str, method: str, scale: Any, dropout_p: Any
) -> Tuple[_ShardPlan, Sequence[Tensor]]:
    """The plan for an operator's arguments, and the tensors that it runs on."""
    precision, deterministic = torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled()
    layouts = [describe(tensor) for tensor in tensors]
    name = (variant, ranks, method, scale, dropout_p, precision, deterministic, *layouts)
    plan = _plans.get(name)
    if plan is None:
        if len(_plans) >= _MAX_PLANS:
            _plans.clear()
        kind, mode = read_variant(variant, len(tensors) - 3)
        kind = kind._replace(scale=scale, dropout_p=dropout_p)
        plan = _plans[name] = _ShardPlan(find_ranks(ranks), method, kind, mode, tensors)
    return plan, tensors if rng is None else (*tensors, rng)


#
# Operators
#


def _run(tensors, rng, variant, ranks, method, scale, dropout_p):
    plan, inputs = _find_plan(tensors, rng, variant, ranks, method, scale, dropout_p)
    out, lse = plan.run(inputs)
    return out, lse


def _run_backward(tensors, rng, variant, ranks, method, out, lse, dout, dlse, scale, dropout_p):
    plan, inputs = _find_plan(tensors, rng, variant, ranks, method, scale, dropout_p)
    return plan.run_backward(inputs, out, lse, dout, dlse)


def _gather(tensor: Tensor, ranks: str) -> Tensor:
    """The tensors of all ranks, in a new first dimension."""
    group, sent = find_ranks(ranks), tensor.contiguous()
    received = sent.new_empty(group.size, *sent.shape)
    num_bytes = sent.numel() * sent.element_size()
    comm, stream = group.find_communicator(tensor.device), None
    if tensor.is_cuda:
        stream = torch.cuda.current_stream(tensor.device).cuda_stream or LEGACY_STREAM
    with torch.cuda.device(tensor.device) if tensor.is_cuda else contextlib.nullcontext():
        comm.all_gather(sent.data_ptr(), received.data_ptr(), num_bytes, stream)
    return received


for _device in ("CPU", "CUDA"):
    _library.impl("sharded_attention", _run, _device)
    _library.impl("sharded_attention_backward", _run_backward, _device)
    _library.impl("tensor_of_first_rank", lambda tensor, ranks: _gather(tensor, ranks)[0].clone(), _device)


@torch.library.register_fake("attn::sharded_attention", lib=_library)
def _(tensors, rng, variant, ranks, method, scale, dropout_p):
    return tuple([layout.make() for layout in output_layouts(tensors[0], tensors[2], True)])


@torch.library.register_fake("attn::sharded_attention_backward", lib=_library)
def _(tensors, rng, variant, *arguments, **numbers):
    mode = read_variant(variant, len(tensors) - 3)[1]
    return [gradient_layout(tensor).make() for tensor in _differentiated(tensors, mode)]


@torch.library.register_fake("attn::tensor_of_first_rank", lib=_library)
def _(tensor, ranks):
    return torch.empty_like(tensor)


def _setup_context(ctx: Any, inputs: Tuple, output: Tuple) -> None:
    tensors, rng, *ctx.parameters = inputs
    ctx.mode = read_variant(ctx.parameters[0], len(tensors) - 3)[1]
    ctx.set_materialize_grads(False)
    out, lse = output
    if not ctx.mode.with_lse:
        ctx.mark_non_differentiable(lse)
    ctx.save_for_backward(*tensors, rng, out, lse)


def _backward(ctx: Any, dout: Optional[Tensor], dlse: Optional[Tensor]) -> Tuple:
    refuse_second_derivatives()
    *tensors, rng, out, lse = ctx.saved_tensors
    variant, ranks, method, *numbers = ctx.parameters
    dout = torch.zeros_like(out) if dout is None else dout
    made = torch.ops.attn.sharded_attention_backward(
        tensors, rng, variant, ranks, method, out, lse, dout, dlse if ctx.mode.with_lse else None, *numbers
    )
    by_tensor: List[Optional[Tensor]] = [*made[:3], *[None for _ in tensors[3:]]]
    for number, gradient in zip(ctx.mode.gradients, made[3:]):
        by_tensor[3 + number] = gradient
    return by_tensor, None, *[None for _ in ctx.parameters]


torch.library.register_autograd("attn::sharded_attention", _backward, setup_context=_setup_context, lib=_library)


#
# Functions
#


def _refuse(function: str, arguments: Dict[str, Any]) -> None:
    """Refuses arguments that attention over ranks does not have."""
    for name, value in arguments.items():
        if value is not None:
            raise UnsupportedError(f"{function} over several ranks does not take {name}; leave it out")


def _check_shards(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.dim() != 4:
            raise UnsupportedError(
                f"{name} has {tensor.dim()} dimensions, and attention over several ranks takes 4: batch, heads, "
                "positions of this rank and head dim"
            )
        if tensor.dtype in FLOAT8 or tensor.dtype == torch.float64:
            raise UnsupportedError(
                f"{name} has the dtype {tensor.dtype}, and attention over several ranks takes torch.float32, "
                "torch.bfloat16 and torch.float16"
            )
    if not enable_gqa:
        check_equal_heads(query, key, value)


def _attend(
    ranks: str,
    method: str,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    captures: Sequence[Tensor],
    kind: Kind,
    with_lse: bool,
) -> Tuple[Tensor, Tensor]:
    wanted = [number for number, capture in enumerate(captures) if torch.is_grad_enabled() and capture.requires_grad]
    for number in wanted:
        is_sinks = kind.clauses.split()[:1] == ["sinks"] and number == kind.reads
        if method == "lightseq" and not is_sinks:
            raise UnsupportedError(
                f"captured tensor {number} requires a gradient, which the method {method} does not have; choose "
                "another method, or call .detach() on it"
            )
    needs_gradient = bool(wanted) or (
        torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
    )
    if needs_gradient and method == SEGMENTS:
        raise UnsupportedError(
            f"query, key or value requires a gradient, which the method {method} does not have; call it under "
            "torch.no_grad(), or choose another method"
        )
    if kind.dropout_p and method == STRIPED:
        raise UnsupportedError(
            f"dropout_p is {kind.dropout_p}, which the method {method} does not have: words of keep masks are of "
            "neighboring keys, and a rank has none; choose another method"
        )
    rng = None
    if kind.dropout_p:
        # Ranks drop what one process with the seed of the first rank does.
        rng = torch.ops.attn.tensor_of_first_rank(draw_state(query.device), ranks)
    variant = write_variant(kind, Mode(with_lse, tuple(wanted) if needs_gradient else None))
    return torch.ops.attn.sharded_attention(
        [query, key, value, *captures], rng, variant, ranks, method, kind.scale, kind.dropout_p
    )


def _attend_sdpa(
    ranks: str,
    method: str,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    named: str,
    dropout_p: float,
    is_causal: bool,
    scale: Optional[float],
    enable_gqa: bool,
    soft_cap: Optional[float],
    sinks: Optional[Tensor],
    key_lengths: Optional[Tensor],
    return_lse: bool,
    deterministic: bool,
) -> Tuple[Tensor, Tensor]:
    """``sdpa`` of the shards of this rank, with checks and conversions of all arguments."""
    dropout_p = specialize(dropout_p)
    check_arguments(scale, dropout_p, query=query, key=key, value=value)
    _check_cap(soft_cap)
    if dropout_p == 1:
        raise UnsupportedError("dropout_p is 1, which drops everything; attention over several ranks takes less")
    query, key, value = convert_by_autocast(query, key, value)
    _check_shards(query, key, value, enable_gqa)
    query, key, value = (
        with_unit_stride(tensor, name) for tensor, name in ((query, "query"), (key, "key"), (value, "value"))
    )
    clauses, operands = find_clauses(query, key, sinks, None, None)
    if key_lengths is not None:
        clauses = f"{clauses} key_lengths".strip()
        operands.append(with_unit_stride(key_lengths, "key_lengths"))
    kind = make_kind(_combine(is_causal, named), scale, soft_cap)
    kind = kind._replace(dropout_p=dropout_p, clauses=clauses, deterministic=deterministic)
    return _attend(ranks, method, query, key, value, operands, kind, return_lse)


# A call of this function is one node of a graph.
_attend_in_graph = torch.compiler.allow_in_graph(_attend_sdpa)


def _check_key_lengths(key_lengths: Any, query: Tensor, method: str, has_mask: bool, dropout_p: float) -> None:
    """Whether ranks can have segments of a KV cache whose entries have ``key_lengths``."""
    if key_lengths is None:
        return
    if method != SEGMENTS:
        raise UnsupportedError(f"sdpa with the method {method} does not take key_lengths; leave it out")
    shape = (query.shape[0],)
    if not isinstance(key_lengths, Tensor) or key_lengths.dtype != torch.int32 or key_lengths.shape != shape:
        is_tensor = isinstance(key_lengths, Tensor)
        found = f"{key_lengths.dtype} {tuple(key_lengths.shape)}" if is_tensor else type(key_lengths).__name__
        raise AttnError(f"key_lengths is {found}, expected a tensor of torch.int32 with the shape {shape}")
    if has_mask or dropout_p:
        raise UnsupportedError(
            "sdpa over several ranks takes key_lengths without masks and dropout: all queries attend to all keys that "
            "there are; leave is_causal, attn_mask, block_mask and dropout_p out"
        )


def _shard_sdpa(ranks: str, method: str) -> Callable[..., Any]:
    def sharded_sdpa(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Optional[Mask] = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: Optional[float] = None,
        enable_gqa: bool = False,
        soft_cap: Optional[float] = None,
        *,
        block_mask: Optional[Mask] = None,
        sinks: Optional[Tensor] = None,
        head_map: Optional[Tensor] = None,
        identity: Optional[Tensor] = None,
        query_lengths: Optional[Tensor] = None,
        key_lengths: Optional[Tensor] = None,
        positions: Optional[Tensor] = None,
        q_descale: Optional[Tensor] = None,
        k_descale: Optional[Tensor] = None,
        v_descale: Optional[Tensor] = None,
        return_lse: bool = False,
        deterministic: bool = False,
    ) -> Union[Tensor, Tuple[Tensor, Tensor]]:
        _refuse(
            "sdpa",
            {
                "head_map": head_map, "identity": identity, "query_lengths": query_lengths, "positions": positions,
                "q_descale": q_descale, "k_descale": k_descale, "v_descale": v_descale,
            },
        )  # fmt: skip
        has_mask = is_causal or attn_mask is not None or block_mask is not None
        _check_key_lengths(key_lengths, query, method, has_mask, dropout_p)
        named = ""
        for name, mask in (("attn_mask", attn_mask), ("block_mask", block_mask)):
            if mask is None:
                continue
            if not isinstance(mask, Mask):
                raise UnsupportedError(
                    f"{name} is a {type(mask).__name__}, and sdpa over several ranks takes one of attn.masks; or "
                    "shard flex_attention with a mask_mod"
                )
            text, reads = read_mask(mask, name)
            if reads:
                raise UnsupportedError(
                    f"{name} is {text}, which reads tensors; sdpa over several ranks takes masks of positions alone, "
                    "and flex_attention a mask_mod that reads tensors"
                )
            named = f"#attn.and<{named}, {text}>" if named else text
        out, lse = _attend_in_graph(
            ranks, method, query, key, value, named, dropout_p, is_causal, scale, enable_gqa, soft_cap, sinks,
            key_lengths, return_lse, deterministic,
        )  # fmt: skip
        return (out, lse) if return_lse else out

    return sharded_sdpa


def _shard_flex_attention(ranks: str, method: str) -> Callable[..., Any]:
    size = find_ranks(ranks).size
    num_shards = (count_query_shards(method, size), size)

    def sharded_flex_attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        score_mod: Any = None,
        block_mask: Any = None,
        scale: Optional[float] = None,
        enable_gqa: bool = False,
        return_lse: bool = False,
        kernel_options: Any = None,
        *,
        return_aux: Any = None,
        dropout_p: float = 0.0,
        precomputed_block_mask: Any = None,
        sinks: Optional[Tensor] = None,
        head_map: Optional[Tensor] = None,
        identity: Optional[Tensor] = None,
        query_lengths: Optional[Tensor] = None,
        key_lengths: Optional[Tensor] = None,
        deterministic: bool = False,
    ) -> Union[Tensor, Tuple[Tensor, Tensor]]:
        if torch.compiler.is_compiling():
            raise UnsupportedError("flex_attention over several ranks runs in eager mode alone; shard sdpa instead")
        _refuse(
            "flex_attention",
            {
                "return_aux": return_aux, "precomputed_block_mask": precomputed_block_mask, "head_map": head_map,
                "identity": identity, "query_lengths": query_lengths, "key_lengths": key_lengths,
            },
        )  # fmt: skip
        if dropout_p == 1:
            raise UnsupportedError("dropout_p is 1, which drops everything; attention over several ranks takes less")
        query, key, value, captures, kind = flex.prepare(
            query, key, value, score_mod, block_mask, scale, enable_gqa, dropout_p, num_shards=num_shards
        )
        _check_shards(query, key, value, enable_gqa)
        if kind.reads:
            raise UnsupportedError(
                f"block_mask is {kind.mask}, which reads tensors; pass a mask_mod that reads them"
            )
        clauses, operands = find_clauses(query, key, sinks, None, None)
        kind = kind._replace(clauses=clauses, deterministic=deterministic)
        out, lse = _attend(ranks, method, query, key, value, [*operands, *captures], kind, return_lse)
        return (out, lse) if return_lse else out

    return sharded_flex_attention


def _attend_varlen(ranks: str, method: str, query: Tensor, key: Tensor, value: Tensor, *others: Any) -> Any:
    _check_shards(query, key, value, enable_gqa=True)
    return _attend(ranks, method, query, key, value, *others)


def _shard_linear_attention(ranks: str) -> Callable[..., Any]:
    def sharded_linear_attention(
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
    ) -> Tuple[Tensor, Optional[Tensor]]:
        q, k, scale, name = prepare_rows(q, k, scale, feature, head_first, use_qk_l2norm_in_kernel)
        number, seed = prepare_random_features(feature, random_features, feature_seed, q.device)
        form = Form(name, eps if normalize else None, block, number, key_lengths, seed)
        return attend_linearly(
            ranks, q, k, v, g, beta, scale, initial_state, output_final_state, cu_seqlens, causal, chunk_size, form
        )

    return sharded_linear_attention


def _shard_delta_rule(ranks: str) -> Callable[..., Any]:
    attend = _shard_linear_attention(ranks)

    def sharded_delta_rule(
        q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor], beta: Tensor, *further: Any, **named: Any
    ) -> Tuple[Tensor, Optional[Tensor]]:
        check_delta_rule(beta)
        return attend(q, k, v, g, beta, *further, **named)

    return sharded_delta_rule


def context_parallel(
    function: Callable[..., Any],
    group: Any = None,
    method: str = "ring",
    timeout: float = _SECONDS,
    ulysses_degree: Optional[int] = None,
) -> Callable[..., Any]:
    """``attn.torch.sdpa``, ``flex_attention``, ``varlen_attn``, ``flash_attn_varlen_func``, ``linear_attention`` or
    ``gated_delta_rule`` over the ranks of a group (context parallelism).

    The result takes the shards of this rank, ``[batch, heads, positions / ranks, head dim]`` as ``shard_sequence``
    makes them, and returns this rank's shard of the output. All else is that of the whole: masks, functions of
    positions, and dropout, whose bits are those of one process with the seed of the first rank. It has gradients. All
    ranks get the whole gradient of ``sinks`` and, but for "lightseq", of tensors that functions capture.

    ``group`` is a process group of ``torch.distributed``, a ``DeviceMesh`` of one dimension, None for all processes, or
    one of ``local_ranks``. ``method`` is "ring", in which keys and values go from rank to rank; "zigzag", a ring in
    which causal masks leave all ranks equally much; "striped", another one, in which rank ``r`` of ``n`` has the
    positions ``r``, ``r + n``, ``r + 2 n`` and so on, without dropout; "lightseq", in which ranks that would be idle
    in a ring compute for others; "allgather", in which each rank gets all keys at once; "ulysses", in which ranks
    exchange heads for positions, so that each attends with all positions of some heads: the number of ranks must
    divide the number of query heads, and of key heads and of value heads it must be a divisor or a multiple; or
    "usp", in which groups of ``ulysses_degree`` neighboring ranks do so, and are the members of a zigzag ring. With
    "usp", ``group`` may be a ``DeviceMesh`` of two dimensions, whose last one are the ranks of each group.

    The method "distattention" is for decoding from a long KV cache: all ranks pass all queries and get all of the
    output, and each has a shard of the keys and values. It has no gradient. With ``key_lengths`` (``torch.int32``,
    ``[batch]``), the number of keys that there are on all ranks, rank ``r`` has keys from ``r * positions`` on.

    ``varlen_attn`` and ``flash_attn_varlen_func`` take shards ``[positions / ranks, heads, head dim]`` of packed
    sequences, as ``shard_sequence`` makes them with ``dim=0``. Boundaries are positions in the whole, and all ranks
    pass the same. Pass one tensor for queries and keys where they are the same: then a causal mask leaves messages out.
    They have dropout with "ulysses" alone.

    Linear attention takes the method "allgather", by which ranks gather states. Its shards are
    ``[batch, positions / ranks, heads, head dim]``, as ``shard_sequence`` makes them with ``dim=1``. All ranks pass the
    same initial state, per-head log-decays and gradient of the final state, and get the whole final state, and the
    whole gradients of what is the same on all ranks. ``cu_seqlens`` and ``key_lengths`` are positions in the whole.
    ``block`` and ``cu_seqlens`` need ``causal``, and ``cu_seqlens`` goes with no states.

    Ranks wait ``timeout`` seconds for each other at most. An error of one rank is an exception of all of them, which
    names the rank. A group that has failed needs a new call of ``context_parallel`` on all ranks.
    """
    check_method(method, ulysses_degree)
    if function in (linear_attention, gated_delta_rule) and method != LINEAR_METHOD:
        raise UnsupportedError(
            f"method is {method}, and {function.__name__} over several ranks takes {LINEAR_METHOD}"
        )
    group, ulysses_degree = resolve_mesh(group, method, ulysses_degree)
    ranks = make_ranks(group, timeout)
    method = describe_method(method, ranks.size, ulysses_degree)
    if function is linear_attention:
        return _shard_linear_attention(ranks.name)
    if function is gated_delta_rule:
        return _shard_delta_rule(ranks.name)
    if function is sdpa:
        return _shard_sdpa(ranks.name, method)
    if function is flex.flex_attention:
        return _shard_flex_attention(ranks.name, method)
    for varlen, shard in ((varlen_attn, shard_varlen_attn), (flash_attn_varlen_func, shard_flash_attn_varlen_func)):
        if function is varlen:
            return shard(functools.partial(_attend_varlen, ranks.name, method), method)
    name = getattr(function, "__name__", type(function).__name__)
    raise UnsupportedError(
        f"function is {name}; pass sdpa, flex_attention, varlen_attn, flash_attn_varlen_func, linear_attention or "
        "gated_delta_rule of attn.torch"
    )


#
# Shards of tensors
#


def shard_sequence(
    tensor: Tensor,
    group: Any = None,
    method: str = "ring",
    dim: int = _SEQUENCE,
    ulysses_degree: Optional[int] = None,
) -> Tensor:
    """The shard of this rank of a tensor that all ranks have: a part of its positions, dimension ``dim``. With
    "zigzag", a rank has two parts, one from either end. With "striped", rank ``r`` of ``n`` has the positions ``r``,
    ``r + n``, ``r + 2 n`` and so on. With "usp", a group of ``ulysses_degree`` neighboring ranks has parts as with
    "zigzag", and each rank an equal part of these, one behind the other."""
    check_method(method, ulysses_degree)
    group, ulysses_degree = resolve_mesh(group, method, ulysses_degree)
    rank, size = find_place(group)
    order = order_chunks(describe_method(method, size, ulysses_degree), size)
    length = tensor.shape[dim]
    if length % len(order):
        raise AttnError(
            f"dimension {dim} has {length} positions, which must be a multiple of {len(order)} for {size} ranks "
            f"with the method {method}"
        )
    if method == STRIPED:
        return tensor.index_select(dim, torch.arange(rank, length, size, device=tensor.device))
    chunks, of_rank = tensor.chunk(len(order), dim), len(order) // size
    wanted = order[rank * of_rank : (rank + 1) * of_rank]
    return torch.cat([chunks[chunk] for chunk in wanted], dim)


def unshard_sequence(
    tensor: Tensor,
    group: Any = None,
    method: str = "ring",
    dim: int = _SEQUENCE,
    ulysses_degree: Optional[int] = None,
) -> Tensor:
    """The whole tensor, on all ranks, of which each rank has a shard. It has no gradient."""
    check_method(method, ulysses_degree)
    group, ulysses_degree = resolve_mesh(group, method, ulysses_degree)
    ranks = make_ranks(group, _SECONDS)
    method = describe_method(method, ranks.size, ulysses_degree)
    order = order_chunks(method, ranks.size)
    of_rank = len(order) // ranks.size
    if tensor.shape[dim] % of_rank:
        raise AttnError(f"dimension {dim} has {tensor.shape[dim]} positions, which must be a multiple of {of_rank}")
    facts = {"a tensor of the shape": str(tuple(tensor.shape)), "the dtype": str(tensor.dtype), "method": method}
    agree(ranks, facts)
    shards = _gather(tensor.detach(), ranks.name)
    if method == STRIPED:
        dim %= tensor.dim()
        return torch.stack(tuple(shards), dim + 1).flatten(dim, dim + 1)
    chunks = [chunk for shard in shards for chunk in shard.chunk(of_rank, dim)]
    return torch.cat([chunks[order.index(number)] for number in range(len(order))], dim)
