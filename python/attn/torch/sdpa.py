# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``scaled_dot_product_attention``."""

import functools
import math
import numbers
from typing import Any, List, Optional, Sequence, Tuple, Union, cast

import torch
from torch import Tensor

from attn.errors import AttnError, UnsupportedError
from attn.masks import Mask, causal
from attn.torch.checks import (
    check_arguments,
    check_equal_heads,
    convert_by_autocast,
    drop_all,
    specialize,
    with_unit_stride,
)
from attn.torch.evaluate import Pairs, record_pairs
from attn.torch.kernels import (
    FLOAT8,
    Kind,
    Mode,
    call_plans,
    describe,
    find_clauses,
    find_recent_plan,
    get_plan,
    matmul_precision,
    output_dtype,
    read_mask,
    remember_plan,
)
from attn.torch.key_clauses import count_keys, find_key_clauses
from attn.torch.ops import draw_row, is_observed, is_plain, refuse_float8_gradients, run_plan, run_recent
from attn.torch.rounded_output import Output, attend_rounded, check_output
from attn.torch.straight_through import QuantizeGradient, Sources, attend_scaled, move_sources
from attn.trace import capture_type

#: Torch aligns causal masks to the first query and key.
CAUSAL = "#attn.causal<alignment = top_left>"
_is_dynamo_compiling = torch.compiler.is_dynamo_compiling
_is_autocast_enabled = torch._C._is_any_autocast_enabled


@functools.lru_cache(maxsize=None)
def _make_kind(
    mask_type: Optional[str],
    mask: str,
    reads: int,
    scale: Optional[float],
    dropout_p: float,
    soft_cap: Optional[float] = None,
) -> Kind:
    """The kind of attention with a mask of this type, each of whose four dimensions may be 1, together with a named one
    that reads so many tensors. Regions are one line each, as operators of torch want them."""
    cap = "" if soft_cap is None else write_cap(soft_cap)
    capped = "%capped" if cap else "%s"
    score = f"{cap}attn.yield %capped : f32" if cap else ""
    if mask_type is None:
        return Kind(mask=mask, score_mod=score, scale=scale, dropout_p=dropout_p, reads=reads)
    *sizes, element = mask_type[len("tensor<") : -1].split("x")
    indices = ["%first" if size == "1" else name for size, name in zip(sizes, ("%b", "%h", "%i", "%j"))]
    read = f"%first = arith.constant 0 : index %m = tensor.extract %c0[{', '.join(indices)}] : {mask_type} "
    if element == "i1":
        return Kind(mask, score, read + "attn.yield %m : i1", scale, dropout_p, reads)
    widen = "" if element == "f32" else f"%w = arith.extf %m : {element} to f32 "
    add = f"%r = arith.addf {capped}, {'%w' if widen else '%m'} : f32 attn.yield %r : f32"
    return Kind(mask, read + widen + cap + add, "", scale, dropout_p, reads)


def make_kind(mask: str, scale: Optional[float], soft_cap: Optional[float]) -> Kind:
    """The kind of attention with a named mask that reads nothing."""
    # Compilers of torch do not follow caches.
    make = _make_kind.__wrapped__ if torch.compiler.is_compiling() else _make_kind
    return make(None, mask, 0, scale, 0.0, soft_cap)


def make_bias_kind(bias: Optional[Tensor], mask: str, scale: Optional[float], soft_cap: Optional[float]) -> Kind:
    """The same with a tensor of four dimensions, the first capture of regions: of torch.bool, or added to scores."""
    make = _make_kind.__wrapped__ if torch.compiler.is_compiling() else _make_kind
    return make(None if bias is None else capture_type(bias), mask, 0, scale, 0.0, soft_cap)


def write_cap(soft_cap: float) -> str:
    # Compilers of torch do not follow the bits of a number. So many digits tell each f32 from others.
    return (
        f"%cap = arith.constant {soft_cap:.9e} : f32 %part = arith.divf %s, %cap : f32 "
        "%bent = math.tanh %part : f32 %capped = arith.mulf %bent, %cap : f32 "
    )


def _check_cap(soft_cap: Optional[float]) -> None:
    if soft_cap is None:
        return
    # A tensor may change from call to call.
    if not isinstance(soft_cap, (numbers.Real, torch.SymFloat)):
        raise AttnError(f"soft_cap is a {type(soft_cap).__name__}; pass a number, or None")
    if not 0.0 < soft_cap < math.inf:
        raise AttnError(f"soft_cap is {soft_cap}; it must be a finite number above 0, or None")


def _four_dimensions(tensor: Tensor, name: str, enable_gqa: bool) -> Tensor:
    """Three dimensions are batch, positions and head dim, or as for torch heads before these if heads are grouped."""
    if tensor.dim() < 2:
        raise AttnError(f"{name} has {tensor.dim()} dimensions; it needs at least 2: positions and head dim")
    if tensor.dim() == 4:
        return tensor
    if tensor.dim() < 4:
        return tensor[:, None] if tensor.dim() == 3 and not enable_gqa else tensor[(None,) * (4 - tensor.dim())]
    return tensor.flatten(0, -4)


def _broadcast_batches(*tensors: Tensor) -> Tuple[Tensor, ...]:
    """Tensors of more than four dimensions, all but the last three of which become equal."""
    batches = [tensor.shape[:-3] for tensor in tensors]
    if batches[0] == batches[1] == batches[2]:
        return tensors
    try:
        batch = torch.broadcast_shapes(*batches)
    except RuntimeError:
        raise AttnError(
            f"query, key and value have the batch sizes {', '.join(map(str, map(tuple, batches[:2])))} and "
            f"{tuple(batches[2])}; make them equal, or 1"
        ) from None
    return tuple([tensor.expand(*batch, *tensor.shape[-3:]) for tensor in tensors])


def _expand(tensor: Tensor, batch: int, heads: int) -> Tensor:
    result = tensor.expand(batch, heads, -1, -1)
    # GPUs copy blocks of tensors, whose strides cannot be 0.
    return result.contiguous() if tensor.is_cuda and result.shape != tensor.shape else result


def _move_source(source: Tensor, shape: torch.Size, batch: Tuple[int, ...], enable_gqa: bool) -> Tensor:
    """A tensor before rounding with the four dimensions that the one after it has got."""
    if source.dim() > 4:
        source = source.expand(*batch, *source.shape[-3:])
    return _four_dimensions(source, "straight_through", enable_gqa).expand(shape)


def _broadcast(
    query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool, has_head_map: bool
) -> Tuple[Tensor, Tensor, Tensor]:
    """Tensors whose batch sizes are equal, and whose heads are as kernels want them: key heads and value heads divide
    query heads, or are as many if there is a map."""
    named = (("query", query), ("key", key), ("value", value))
    batch = max(query.shape[0], key.shape[0], value.shape[0])
    heads = max(query.shape[1], key.shape[1], value.shape[1])
    for name, tensor in named:
        if tensor.shape[0] not in (1, batch):
            raise AttnError(
                f"{name} has a batch size of {tensor.shape[0]}, and another tensor {batch}; make them equal"
            )
        if not (enable_gqa or has_head_map) and tensor.shape[1] not in (1, heads):
            raise AttnError(
                f"{name} has {tensor.shape[1]} heads, and another tensor {heads}; pass enable_gqa=True if query heads "
                "share keys and values"
            )
    query_heads = query.shape[1] if enable_gqa or has_head_map else heads
    key_heads, value_heads = key.shape[1], value.shape[1]
    if has_head_map and 1 in (key_heads, value_heads):
        key_heads = value_heads = max(key_heads, value_heads)
    return _expand(query, batch, query_heads), _expand(key, batch, key_heads), _expand(value, batch, value_heads)


def _check_mask(attn_mask: Tensor, query: Tensor, keys: int) -> Tensor:
    """The mask with four dimensions."""
    if attn_mask.device != query.device:
        raise AttnError(
            f"attn_mask is on {attn_mask.device} and query on {query.device}; move them to one device, as in "
            "attn_mask.to(query.device)"
        )
    wanted = output_dtype(query)
    if attn_mask.dtype not in (torch.bool, wanted, torch.float32):
        raise UnsupportedError(
            f"attn_mask has the dtype {attn_mask.dtype}; it must be torch.bool, that of "
            f"{'the output' if query.dtype in FLOAT8 else 'query'} ({wanted}) or torch.float32"
        )
    sizes = (query.shape[0], query.shape[1], query.shape[2], keys)
    if attn_mask.dim() > 4 or any(
        size not in (1, expected) for size, expected in zip(reversed(attn_mask.shape), reversed(sizes))
    ):
        raise AttnError(
            f"attn_mask has the shape {tuple(attn_mask.shape)}, which does not broadcast to {sizes}: batch, heads, "
            "queries and keys"
        )
    if attn_mask.dim() and attn_mask.shape[-1] > 1 and attn_mask.stride(-1) == 0:
        # All keys of a query read one element.
        attn_mask = attn_mask[..., :1]
    attn_mask = with_unit_stride(attn_mask, "attn_mask")
    return attn_mask if attn_mask.dim() == 4 else attn_mask[(None,) * (4 - attn_mask.dim())]


def _combine(is_causal: bool, named: str) -> str:
    """The causal mask of torch together with a named mask, each of which may be missing."""
    if is_causal and named:
        return f"#attn.and<{CAUSAL}, {named}>"
    return CAUSAL if is_causal else named


def _are_same(tensors: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    return all(tensor is other for tensor, other in zip(tensors, others))


def _reads_as_is(captures: Sequence[Tensor], read: Sequence[Tensor]) -> bool:
    """Whether kernels read captures at their own addresses, perhaps with dimensions of size 1 before theirs."""
    return all(
        tensor.data_ptr() == other.data_ptr() and tensor.shape == other.shape[other.dim() - tensor.dim() :]
        for tensor, other in zip(captures, read)
    )


def _check_shard(
    attn_mask: Optional[Tensor],
    reads: int,
    identity: Optional[Tensor],
    query_lengths: Optional[Tensor],
    key_lengths: Optional[Tensor],
    page_table: Optional[Tensor],
) -> None:
    """Refuses arguments that have no meaning for a shard."""
    if attn_mask is not None:
        raise UnsupportedError("attn_mask is a tensor, which positions do not go with; pass one of attn.masks")
    if reads:
        raise UnsupportedError("the mask reads tensors, which positions do not go with; pass one of positions alone")
    for name, tensor in (
        ("identity", identity), ("query_lengths", query_lengths), ("key_lengths", key_lengths),
        ("page_table", page_table),
    ):  # fmt: skip
        if tensor is not None:
            raise UnsupportedError(f"{name} and positions do not go together; leave one out")


def _check_state(query: Tensor, dropout_p: float, identity: Optional[Tensor]) -> None:
    """Refuses arguments that do not go with a state."""
    if identity is not None:
        raise UnsupportedError("identity and state do not go together; leave one out")
    if dropout_p == 1:
        raise UnsupportedError("dropout_p is 1, with which only the state counts; leave out dropout or state")
    if isinstance(query, Tensor) and (query.is_nested or query.dim() != 4):
        kind = "is a nested tensor" if query.is_nested else f"has {query.dim()} dimensions"
        raise UnsupportedError(f"query {kind}, and tensors need 4 dimensions with state")


def sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Union[Tensor, Mask, None] = None,
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
    page_table: Optional[Tensor] = None,
    positions: Optional[Tensor] = None,
    state: Optional[Tuple[Tensor, Tensor]] = None,
    q_descale: Optional[Tensor] = None,
    k_descale: Optional[Tensor] = None,
    v_descale: Optional[Tensor] = None,
    straight_through: Optional[Sources] = None,
    quantize_dout: Optional[QuantizeGradient] = None,
    out_dtype: Optional[torch.dtype] = None,
    out_scale: Optional[Tensor] = None,
    return_amax: bool = False,
    return_lse: bool = False,
    deterministic: bool = False,
) -> Union[Tensor, Tuple[Tensor, ...]]:
    """Computes ``torch.nn.functional.scaled_dot_product_attention``.

    Rows with nothing to attend are 0. Kernels need a last dimension with a
    stride of 1, ``attn_mask`` included: small tensors are copied, with a warning. As in
    torch's function dropout applies whenever ``dropout_p`` is not 0, in training and evaluation
    alike. ``is_causal``, which torch does not take together with ``attn_mask``, applies together with it.

    ``soft_cap``, which torch's function does not have, keeps scaled scores below a
    number: each becomes ``soft_cap * tanh(score / soft_cap)`` before the mask.

    ``attn_mask`` may be one of ``attn.masks``, for which there is no tensor of pairs: kernels leave out the tiles that
    it masks. Such masks are aligned to the last query and key unless they say otherwise. The tensors that they read
    have one batch dimension, for all dimensions that query has before its heads. ``block_mask`` is such a mask, too,
    and applies together with ``attn_mask``.

    Arguments that torch's function does not have:

    - ``sinks``, a logit for each query head that takes part in the softmax without a value;
    - ``head_map``, the key head of each query head (``torch.int32``), in the place of equal groups;
    - ``identity``, for each query head the weight of the identity matrix (SoftPAG), which is mixed
      with the probabilities;
    - ``query_lengths`` and ``key_lengths`` (``torch.int32``), the number of positions of each batch entry
      that count: masks see these lengths, and outputs and gradients of other positions are 0. With up to 64 queries,
      ``key_lengths`` alone and no gradients, kernels split the keys of each entry, as in decoding;
    - ``page_table`` (``[batch, pages of an entry]``, ``torch.int32``): key and value are pages ``[pages, key heads,
      page size, head dim]`` of 16, 32, 64, 128 or 256 positions, and key ``j`` of entry ``b`` is row ``j % page size``
      of page ``page_table[b, j // page size]``. ``key_lengths`` are all by default. There are no gradients;
    - ``positions`` (``torch.int32``), six numbers that make the tensors a shard of a larger attention: the positions
      there of the first query and the first key, the numbers of the first batch entry and the first query head, and how
      many queries and keys there are. Named masks and dropout see the positions and lengths of the larger attention;
      ``attn.torch.merge`` merges the results of shards with the same queries. With dropout, the first query and key are
      at multiples of 16;
    - ``state``, the output and the log-sum-exp (``torch.float32``) of attention of the same queries to other keys. The
      call gives the results of attention to both sets of keys, as ``attn.torch.merge`` does, without a merge. Sinks and
      dropout are of the keys of the call alone. Both tensors have gradients. All tensors have four dimensions then;
    - ``q_descale``, ``k_descale`` and ``v_descale`` (``torch.float32``), scales ``[batch, key heads]``, of values
      ``[batch, value heads]``, or one for all, by which tensors of ``torch.float8_e4m3fn`` and ``torch.float8_e5m2``
      are multiplied. With a query of 8 bits the output is ``torch.bfloat16``. Keys and values alone may have 8 bits,
      too;
    - ``straight_through``, the tensors of query, key and value before they were rounded to 8 bits, or None for one.
      They get the gradients of the values that elements stand for. Scales count as constants;
    - ``quantize_dout``, a function of the gradient of the output, such as ``quantize``: its result, with one scale or
      one for each batch entry and query head, takes the place of the gradient;
    - ``out_dtype``, ``torch.float8_e4m3fn`` or ``torch.float8_e5m2``: the output has 8 bits, divided by ``out_scale``
      (``torch.float32``, one number, or ``[batch, query heads]``; 1 by default) and rounded as ``quantize`` does. It
      has no gradients. ``return_amax`` asks for ``amax``, as of ``quantize``, as the last result, for the scale of
      later steps: an output of ``torch.float32`` is written and read again then;
    - ``return_lse``, the log-sum-exp of the scores as second result, which has gradients, too;
    - ``deterministic``: gradients are bitwise equal each time, whatever the mode of torch is.

    Jagged nested tensors of heads before positions are packed sequences, as ``varlen_attn`` takes them.
    """
    named = ""
    captures: Tuple[Tensor, ...] = ()
    argument = "block_mask"
    if isinstance(attn_mask, Mask):
        if block_mask is None:
            argument, block_mask = "attn_mask", attn_mask
        else:
            block_mask = attn_mask & block_mask
        attn_mask = None
    elif attn_mask is not None and not isinstance(attn_mask, Tensor):
        raise AttnError(f"attn_mask is a {type(attn_mask).__name__}; pass a tensor or one of attn.masks")
    if block_mask is not None:
        if not isinstance(block_mask, Mask):
            raise AttnError(f"block_mask is a {type(block_mask).__name__}; pass one of attn.masks")
        named, captures = read_mask(block_mask, argument)
    if positions is not None:
        _check_shard(attn_mask, len(captures), identity, query_lengths, key_lengths, page_table)
    if state is not None:
        _check_state(query, dropout_p, identity)
    output = None
    if out_dtype is not None or out_scale is not None or return_amax:
        output = check_output(out_dtype, out_scale, return_amax, dropout_p, straight_through, quantize_dout)
    # Compilers of torch look no further: they would guard all that they see.
    if _is_dynamo_compiling() and not (isinstance(query, Tensor) and query.is_nested):
        return _attend_in_graph(
            query, key, value, attn_mask, captures, named, dropout_p, is_causal, scale, enable_gqa, soft_cap, sinks,
            head_map, identity, query_lengths, key_lengths, page_table, positions, state,
            (q_descale, k_descale, v_descale), straight_through, quantize_dout, return_lse, deterministic,
            None if output is None else tuple(output),
        )  # fmt: skip
    reads = len(captures)
    if attn_mask is not None:
        captures = (*captures, attn_mask)
    call = None
    has_options = (
        return_lse or deterministic or not (
            sinks is head_map is identity is query_lengths is key_lengths is page_table is positions is state is None
            and q_descale is k_descale is v_descale is straight_through is quantize_dout is output is None
        )
    )
    name = None
    if not (has_options or is_observed()):
        name = (
            is_causal, scale, enable_gqa, dropout_p, soft_cap, named, len(captures),
            torch.get_float32_matmul_precision(), torch.is_grad_enabled(),
        )  # fmt: skip
        tensors = (query, key, value, *captures)
        recent = find_recent_plan(name, tensors)
        if recent is not None:
            if attn_mask is not None and recent.needs_gradient:
                tensors = _with_full_mask(tensors, attn_mask)
            return run_recent(recent, recent.plan, tensors, with_lse=False)
    if (
        is_plain(query, key, value, *captures)
        and not _is_autocast_enabled()
        and not has_options
        and (attn_mask is None or not attn_mask.requires_grad)
    ):
        needs_gradient = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
        tensors = (query, key, value, *captures)
        plan = None
        try:
            layouts = tuple([describe(tensor) for tensor in tensors])
            precision = matmul_precision(query)
            call = (is_causal, scale, enable_gqa, dropout_p, soft_cap, needs_gradient, named, precision, layouts)
            plan = call_plans.get(call)
        except (RuntimeError, TypeError):
            # Sparse and nested tensors have no strides, and are refused or converted below; so are arguments that are
            # not numbers.
            call = None
        if plan is not None:
            if needs_gradient:
                # The name of the plan does not tell which of the tensors have one.
                refuse_float8_gradients(query, key, value)
            if name is not None:
                remember_plan(name, plan, needs_gradient, tensors)
            if attn_mask is not None and needs_gradient:
                tensors = _with_full_mask(tensors, attn_mask)
            rng = draw_row(query.device) if dropout_p else None
            return run_plan(plan, tensors, needs_gradient, rng, with_lse=False)
    if isinstance(query, Tensor) and query.is_nested and query.layout == torch.jagged:
        if attn_mask is not None:
            raise UnsupportedError(
                "attn_mask is a tensor, which has no meaning for sequences of different lengths; pass one of attn.masks"
            )
        if return_lse or not (
            query_lengths is key_lengths is page_table is positions is None
            and q_descale is k_descale is v_descale is straight_through is quantize_dout is output is None
        ):
            raise UnsupportedError(
                "nested tensors go with neither lengths, pages, positions, scales, out_dtype nor return_lse; call "
                "varlen_attn with their values()"
            )
        return _attend_jagged(
            query, key, value, is_causal, block_mask, scale=scale, enable_gqa=enable_gqa, dropout_p=dropout_p,
            soft_cap=soft_cap, sinks=sinks, head_map=head_map, identity=identity, deterministic=deterministic,
        )  # fmt: skip
    return _attend(
        query, key, value, attn_mask, captures[:reads], named, dropout_p, is_causal, scale, enable_gqa, soft_cap, sinks,
        head_map, identity, query_lengths, key_lengths, page_table, positions, state,
        (q_descale, k_descale, v_descale), straight_through, quantize_dout, return_lse, deterministic, output, call,
    )  # fmt: skip


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Optional[Tensor],
    captures: Tuple[Tensor, ...],
    named: str,
    dropout_p: float,
    is_causal: bool,
    scale: Optional[float],
    enable_gqa: bool,
    soft_cap: Optional[float],
    sinks: Optional[Tensor],
    head_map: Optional[Tensor],
    identity: Optional[Tensor],
    query_lengths: Optional[Tensor],
    key_lengths: Optional[Tensor],
    page_table: Optional[Tensor],
    positions: Optional[Tensor],
    state: Optional[Tuple[Tensor, Tensor]],
    descales: Tuple[Optional[Tensor], ...],
    straight_through: Optional[Sources],
    quantize_dout: Optional[QuantizeGradient],
    return_lse: bool,
    deterministic: bool,
    output: Optional[Tuple],
    call: Optional[Tuple] = None,
) -> Union[Tensor, Tuple[Tensor, ...]]:
    """``sdpa`` with checks and conversions of all arguments. ``named`` is the named mask, which reads ``captures``.
    ``output`` has the fields of ``Output``. ``call_plans`` keeps the plan for later calls by the name ``call``."""
    masks = {} if attn_mask is None else {"attn_mask": attn_mask}
    dropout_p = specialize(dropout_p)
    check_arguments(scale, dropout_p, query=query, key=key, value=value, **masks)
    _check_cap(soft_cap)
    reads, given = len(captures), (*captures, *masks.values())
    # A dropout of 1 drops all probabilities: the output becomes 0 afterwards.
    if dropout_p == 1 or query.dtype == torch.float64:
        # Later calls have no plan either.
        call = None
    drops_all, dropout_p = dropout_p == 1, 0.0 if dropout_p == 1 else dropout_p
    query, key, value = convert_by_autocast(query, key, value)
    if attn_mask is not None:
        (attn_mask,) = convert_by_autocast(attn_mask)
    original = (query, key, value)
    batch = query.shape[:-3]
    if not (query.dim() == key.dim() == value.dim() == 4):
        if not (query.dim() == key.dim() == value.dim()):
            raise AttnError(
                f"query, key and value have {query.dim()}, {key.dim()} and {value.dim()} dimensions; give them the "
                "same number"
            )
        if query.dim() > 4:
            query, key, value = _broadcast_batches(query, key, value)
            batch = query.shape[:-3]
        if attn_mask is not None and query.dim() == 3 and not enable_gqa:
            # The first dimension is the batch: the mask has no heads.
            attn_mask = attn_mask[:, None] if attn_mask.dim() == 3 else attn_mask
        elif attn_mask is not None and query.dim() > 4:
            attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2]).flatten(0, -4)
        query, key, value = (
            _four_dimensions(tensor, name, enable_gqa)
            for tensor, name in ((query, "query"), (key, "key"), (value, "value"))
        )
    query, key, value = (
        with_unit_stride(tensor, name) for tensor, name in ((query, "query"), (key, "key"), (value, "value"))
    )
    if page_table is not None:
        if original[0].dim() != 4:
            raise UnsupportedError(f"query has {original[0].dim()} dimensions, and needs 4 with page_table")
        if not enable_gqa and head_map is None:
            check_equal_heads(query, key, value)
    elif not (query.shape[0] == key.shape[0] == value.shape[0] and query.shape[1] == key.shape[1] == value.shape[1]):
        query, key, value = _broadcast(query, key, value, enable_gqa, head_map is not None)
    shapes = (query.shape, key.shape, value.shape)
    straight_through = move_sources(
        straight_through, original, lambda source, number: _move_source(source, shapes[number], batch, enable_gqa)
    )
    of_keys = find_key_clauses(
        query, key, value, page_table, key_lengths,
        {"query_lengths": query_lengths, "identity": identity, "dropout_p": dropout_p or None,
         "straight_through": straight_through},
        (attn_mask, sinks, *(state if isinstance(state, tuple) else ()), *descales),
    )  # fmt: skip
    lengths = (query_lengths, key_lengths) if of_keys is None else (None, None)
    clauses, operands = find_clauses(
        query, key, sinks, head_map, identity, *lengths, positions=positions, state=state
    )
    if of_keys is not None:
        clauses, operands = f"{clauses} {of_keys[0]}".strip(), [*operands, *of_keys[1]]
    read = tuple([with_unit_stride(tensor, "a tensor that the mask reads") for tensor in captures])
    read = (*read, *operands)
    mask_type = None
    if attn_mask is not None:
        attn_mask = _check_mask(attn_mask, query, count_keys(key, page_table))
        read, mask_type = (*read, attn_mask), capture_type(attn_mask)
    # Numbers of compilers of torch are no keys of caches.
    make_kind = _make_kind.__wrapped__ if is_observed() else _make_kind
    kind = make_kind(mask_type, _combine(is_causal, named), reads, scale, dropout_p, soft_cap)
    if clauses or deterministic:
        kind = kind._replace(clauses=clauses, deterministic=deterministic)
    dims = original[0].dim()
    if output is not None:
        rounding = Output(*output)
        out, lse, amax = attend_rounded(query, key, value, read, kind, return_lse, descales, rounding, dims)
        out = _restore(out, dims, batch, enable_gqa)
        further = [] if lse is None or not return_lse else [_restore(lse, dims, batch, enable_gqa)]
        further += [] if amax is None or not rounding.with_amax else [amax]
        return (out, *further) if further else out
    out, lse = attend_scaled(query, key, value, read, kind, return_lse, descales, straight_through, quantize_dout)
    if drops_all:
        out = drop_all(out)
    if call is not None and _are_same((query, key, value), original) and _reads_as_is(given, read):
        # Kernels read these tensors in place: the next call need not check them again.
        mode = Mode(False, () if torch.is_grad_enabled() and any(t.requires_grad for t in original) else None)
        call_plans[call] = get_plan(kind, mode, query, key, value, read)
    out = _restore(out, dims, batch, enable_gqa)
    return (out, _restore(lse, dims, batch, enable_gqa)) if return_lse else out


# A call of this function is one node of a graph. Later stages look into it, with the sizes and strides of tensors.
_attend_in_graph = torch.compiler.allow_in_graph(_attend)


def _with_full_mask(tensors: Tuple[Tensor, ...], attn_mask: Tensor) -> Tuple[Tensor, ...]:
    """The tensors with a mask of four dimensions, by which tensors that are kept for the gradient are identified."""
    return (*tensors[:-1], attn_mask[(None,) * (4 - attn_mask.dim())]) if attn_mask.dim() < 4 else tensors


def _restore(result: Tensor, dims: int, batch: Tuple[int, ...], enable_gqa: bool) -> Tensor:
    """A result with as many dimensions before its heads as the tensors of the call."""
    if dims == 4:
        return result
    if dims > 4:
        return result.reshape(*batch, *result.shape[1:])
    return result[0, 0] if dims == 2 else result[0] if enable_gqa else result[:, 0]


def debug_sdpa(
    query: Tensor,
    key: Tensor,
    attn_mask: Union[Tensor, Mask, None] = None,
    is_causal: bool = False,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
    soft_cap: Optional[float] = None,
    *,
    block_mask: Optional[Mask] = None,
    sinks: Optional[Tensor] = None,
    head_map: Optional[Tensor] = None,
    identity: Optional[Tensor] = None,
) -> Pairs:
    """Scores and probabilities that ``sdpa`` with these arguments computes internally, in double precision, for
    inspection: they take memory for all pairs. Scores of pairs that do not attend are -inf. Both have gradients."""
    check_arguments(scale, 0.0, query=query, key=key)
    if isinstance(attn_mask, Tensor) and attn_mask.is_floating_point():
        attn_mask = attn_mask.double()
    query, key = query.double(), key.double()
    with record_pairs() as record:
        sdpa(
            query, key, key, attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa, soft_cap=soft_cap,
            block_mask=block_mask, sinks=sinks, head_map=head_map, identity=identity,
        )  # fmt: skip
    batch = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3])
    return Pairs(*[_restore(tensor, query.dim(), batch, enable_gqa) for tensor in record[0]])


def refuse_caches(seqused_k: Optional[Tensor], block_table: Optional[Tensor], num_splits: Optional[int]) -> None:
    """Refuses arguments of ``varlen_attn`` for KV caches."""
    if seqused_k is not None or block_table is not None:
        raise UnsupportedError(
            f"{'block_table' if seqused_k is None else 'seqused_k'} is for KV caches; call "
            "attn.torch.flash_attn_with_kvcache"
        )
    if num_splits is not None:
        raise UnsupportedError(f"num_splits is {num_splits}; leave it out: kernels choose splits by the lengths")


def prepare_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Optional[Tensor],
    scale: Optional[float],
    window_size: Tuple[int, int],
    enable_gqa: bool,
    dropout_p: float,
    soft_cap: Optional[float],
    block_mask: Optional[Mask],
    sinks: Optional[Tensor],
    head_map: Optional[Tensor],
    identity: Optional[Tensor],
    deterministic: bool,
) -> Tuple[Tensor, Tensor, Tensor, List[Tensor], Kind]:
    """The tensors of ``varlen_attn`` as ``[1, heads, positions, head dim]``, the operands of clauses, and the kind."""
    check_arguments(scale, dropout_p, query=query, key=key, value=value, cu_seq_q=cu_seq_q)
    query, key, value = convert_by_autocast(query, key, value)
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.dim() != 3:
            raise AttnError(f"{name} has {tensor.dim()} dimensions, expected 3: positions, heads and head dim")
    if not enable_gqa and head_map is None:
        check_equal_heads(query, key, value)
    _check_cap(soft_cap)
    named = write_window(*window_size)
    if block_mask is not None:
        if not isinstance(block_mask, Mask):
            raise AttnError(f"block_mask is a {type(block_mask).__name__}; pass one of attn.masks")
        text, captures = read_mask(block_mask, "block_mask")
        if captures:
            raise UnsupportedError("block_mask reads tensors, which masks of packed sequences cannot")
        named = f"#attn.and<{named}, {text}>" if named else text
    query, key, value = (with_unit_stride(x, name).transpose(0, 1)[None] for x, name in (
        (query, "query"), (key, "key"), (value, "value")
    ))  # fmt: skip
    clauses, operands = find_clauses(
        query, key, sinks, head_map, identity, cu_seq_q, cu_seq_q if cu_seq_k is None else cu_seq_k, "packed"
    )
    make_kind = _make_kind.__wrapped__ if torch.compiler.is_compiling() else _make_kind
    kind = make_kind(None, named, 0, scale, 0.0 if dropout_p == 1 else dropout_p, soft_cap)
    return query, key, value, operands, kind._replace(clauses=clauses, deterministic=deterministic)


def varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Optional[Tensor] = None,
    max_q: Optional[int] = None,
    max_k: Optional[int] = None,
    *,
    return_aux: Optional[Any] = None,
    return_lse: bool = False,
    scale: Optional[float] = None,
    window_size: Tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Optional[Tensor] = None,
    block_table: Optional[Tensor] = None,
    num_splits: Optional[int] = None,
    dropout_p: float = 0.0,
    soft_cap: Optional[float] = None,
    block_mask: Optional[Mask] = None,
    sinks: Optional[Tensor] = None,
    head_map: Optional[Tensor] = None,
    identity: Optional[Tensor] = None,
    straight_through: Optional[Sources] = None,
    quantize_dout: Optional[QuantizeGradient] = None,
    deterministic: bool = False,
) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """Computes what ``torch.nn.attention.varlen.varlen_attn`` does: attention of sequences that are stored one after
    another, in tensors ``[positions, heads, head dim]``.

    Sequence ``s`` of the queries is at positions ``cu_seq_q[s]`` to ``cu_seq_q[s + 1]`` (``torch.int32``). ``cu_seq_k``
    gives the positions of the keys, which are the same by default. The largest lengths, ``max_q`` and ``max_k``, are
    not needed. ``window_size`` is the number of keys before and after the query that it attends to, -1 for all, where
    the last query is at the last key. Masks, as ``block_mask``, see the positions of a sequence; masks that read
    tensors do not go with sequences. The log-sum-exp, which ``return_lse`` or torch's ``AuxRequest(lse=True)`` as
    ``return_aux`` asks for, is ``[heads, positions]``. There are no ``positions`` and no ``state``. All else is as in
    ``sdpa``; rows that belong to no sequence are 0. Of torch's arguments, ``seqused_k``, ``block_table`` and
    ``num_splits`` are refused.
    """
    refuse_caches(seqused_k, block_table, num_splits)
    return_lse = return_lse or (return_aux is not None and return_aux.lse)
    tensors = (query, key, value)
    query, key, value, operands, kind = prepare_varlen(
        query, key, value, cu_seq_q, cu_seq_k, scale, window_size, enable_gqa, dropout_p, soft_cap, block_mask, sinks,
        head_map, identity, deterministic,
    )  # fmt: skip
    sources = move_sources(straight_through, tensors, lambda source, _: source.transpose(0, 1)[None])
    out, lse = attend_scaled(
        query, key, value, operands, kind, return_lse, (None, None, None), sources, quantize_dout
    )
    out = (drop_all(out) if dropout_p == 1 else out)[0].transpose(0, 1)
    return (out, lse[0]) if return_lse else out


def write_window(left: int, right: int) -> str:
    """The mask of a window of keys, each side of which may be -1 for all."""
    for name, size in (("left", left), ("right", right)):
        if not isinstance(size, int) or size < -1:
            raise AttnError(f"window_size has {size!r} on the {name}, expected a number of keys, or -1 for all")
    sides = [f"{name} = {size}" for name, size in (("left", left), ("right", right)) if size >= 0]
    return f"#attn.sliding_window<{', '.join(sides)}>" if sides else ""


def write_flash_mask(causal: bool, window_size: Tuple[int, int], attention_chunk: int = 0) -> str:
    """The mask of functions of flash-attn: the last query is at the last key. Positions may be in chunks, whose queries
    attend to keys of the chunk."""
    left, right = window_size
    mask = write_window(left, 0 if causal else right)
    mask = "#attn.causal" if causal and left == -1 else mask
    if not isinstance(attention_chunk, int) or isinstance(attention_chunk, bool) or attention_chunk < 0:
        raise AttnError(f"attention_chunk is {attention_chunk!r}, expected a number of positions, or 0 for none")
    if not attention_chunk:
        return mask
    chunk = f"#attn.local_blocks<size = {attention_chunk}, before = 0, after = 0>"
    return f"#attn.and<{mask}, {chunk}>" if mask else chunk


def _attend_jagged(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    is_causal: bool,
    block_mask: Optional[Mask],
    **options: Any,
) -> Tensor:
    """``sdpa`` of jagged nested tensors ``[batch, heads, positions, head dim]``."""
    packed = []
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not (isinstance(tensor, Tensor) and tensor.is_nested and tensor.layout == torch.jagged):
            raise AttnError(f"{name} is not a jagged nested tensor, as query is")
        if tensor.dim() != 4 or tensor._ragged_idx != 2 or tensor.lengths() is not None:
            raise UnsupportedError(
                f"{name} is a nested tensor that is not of the form [batch, heads, positions, head dim] with positions "
                "without gaps; make it one as in nested.transpose(1, 2)"
            )
        packed.append(tensor.values().transpose(0, 1))
    offsets = [tensor.offsets() for tensor in (query, key, value)]
    if offsets[1] is not offsets[2] and not torch.equal(offsets[1], offsets[2]):
        raise AttnError("key and value are nested tensors of different lengths; make them equal")
    mask = block_mask
    if is_causal:
        mask = causal("top_left") if mask is None else mask & causal("top_left")
    out = varlen_attn(*packed, *(each.to(torch.int32) for each in offsets[:2]), block_mask=mask, **options)
    return torch.nested.nested_tensor_from_jagged(cast(Tensor, out), offsets[0]).transpose(1, 2)
