# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Appends to KV caches as an operator of torch: ``torch.ops.attn.cache_append``.

Tensors have heads before positions, as for ``torch.ops.attn.attention``.
"""

import functools
from typing import List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from attn.artifact import Function
from attn.builder import CacheAppend
from attn.compiler import compile
from attn.errors import AttnError, UnsupportedError
from attn.torch.kernels import (
    _NAMES,
    FLOAT8,
    Binding,
    Layout,
    dense_like,
    describe,
    find_for_device,
    kernel_dtypes,
    make_plans,
)
from attn.torch.ops import _library, is_plain

_library.define(
    "cache_append(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor lengths, "
    "Tensor? page_table, Tensor? cos, Tensor? sin, Tensor? query, bool interleaved, bool same_position, "
    "Tensor? key_scale, Tensor? value_scale) "
    "-> (Tensor, Tensor)"
)


class Arguments(NamedTuple):
    """The arguments of the operator."""

    key: Tensor
    value: Tensor
    key_cache: Tensor
    value_cache: Tensor
    #: How many keys each entry has before, `[batch]`.
    lengths: Tensor
    page_table: Optional[Tensor] = None
    #: The tables of the rotary position embedding, `[positions, rotated elements / 2]`.
    cos: Optional[Tensor] = None
    sin: Optional[Tensor] = None
    #: Queries to be rotated.
    query: Optional[Tensor] = None
    interleaved: bool = True
    #: Whether all queries have the position of the first new key.
    same_position: bool = False
    #: Scales of a cache of 8 bits that divide new elements, `[batch, key heads]` and `[batch, value heads]` of
    #: torch.float32: both or none.
    key_scale: Optional[Tensor] = None
    value_scale: Optional[Tensor] = None


# Names in diagnostics: those of flash_attn_with_kvcache.
_NAMES_OF = {
    "key": "k", "value": "v", "key_cache": "k_cache", "value_cache": "v_cache", "lengths": "cache_seqlens",
    "page_table": "block_table", "cos": "rotary_cos", "sin": "rotary_sin", "query": "q", "key_scale": "k_descale",
    "value_scale": "v_descale",
}  # fmt: skip


def _check_shape(name: str, tensor: Tensor, expected: Tuple[Optional[int], ...]) -> None:
    """Refuses a tensor of other sizes; None stands for any size."""
    if tensor.dim() == len(expected) and all([b is None or a == b for a, b in zip(tensor.shape, expected)]):
        return
    wanted = ", ".join(["any" if size is None else str(size) for size in expected])
    raise AttnError(f"{name} has the shape {tuple(tensor.shape)}, expected ({wanted}{',' * (len(expected) == 1)})")


def _check_dtypes(given: Arguments) -> None:
    allowed = (*kernel_dtypes(given.key.device), *((torch.float64,) if not given.key.is_cuda else ()))
    for field, tensor in given._asdict().items():
        if not isinstance(tensor, Tensor):
            continue
        name = _NAMES_OF[field]
        if tensor.device != given.key.device:
            raise AttnError(f"{name} is on {tensor.device} and k on {given.key.device}; move them to one device")
        if tensor.dim() and tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
            raise AttnError(
                f"{name} has a last dimension with a stride of {tensor.stride(-1)}, which must be 1; call "
                ".contiguous() on it"
            )
        if field in ("lengths", "page_table"):
            if tensor.dtype != torch.int32:
                raise AttnError(f"{name} has the dtype {tensor.dtype}, expected torch.int32")
        elif field in ("key_cache", "value_cache") and tensor.dtype in FLOAT8 and given.key.dtype != torch.float64:
            if tensor.dtype != given.key_cache.dtype:
                raise AttnError(
                    f"{name} has the dtype {tensor.dtype} and k_cache {given.key_cache.dtype}; convert them to one"
                )
        elif field in ("key_scale", "value_scale"):
            if tensor.dtype != torch.float32:
                raise AttnError(f"{name} has the dtype {tensor.dtype}, expected torch.float32")
            if given.key_cache.dtype not in FLOAT8:
                raise UnsupportedError(
                    f"{name} is for caches of {' and '.join(map(str, FLOAT8))}, and k_cache has the dtype "
                    f"{given.key_cache.dtype}; leave it out"
                )
        elif tensor.dtype not in allowed:
            raise UnsupportedError(
                f"{name} has the dtype {tensor.dtype}; convert it to one of {', '.join(map(str, allowed))}"
            )
        elif field not in ("cos", "sin") and tensor.dtype != given.key.dtype:
            raise AttnError(f"{name} has the dtype {tensor.dtype} and k {given.key.dtype}; convert them to one")


def check_tables(cos: Optional[Tensor], sin: Optional[Tensor], head_dim: int) -> None:
    """Refuses tables of the rotary embedding that do not go together or with the head dim."""
    if (cos is None) != (sin is None):
        raise AttnError("rotary_cos and rotary_sin are needed together, and one of them is None")
    if cos is None or sin is None:
        return
    if cos.dim() != 2 or not 1 <= cos.shape[1] <= head_dim // 2:
        raise AttnError(
            f"rotary_cos has the shape {tuple(cos.shape)}, expected positions and from 1 to {head_dim // 2} columns, "
            "half the head dim"
        )
    _check_shape("rotary_sin", sin, tuple(cos.shape))
    if cos.dtype != sin.dtype:
        raise AttnError(f"rotary_sin has the dtype {sin.dtype} and rotary_cos {cos.dtype}")


def check(given: Arguments) -> None:
    """Refuses arguments that no kernel takes. Sizes are of tensors with heads before positions."""
    for name in ("key", "value", "key_cache", "value_cache", "query"):
        tensor = getattr(given, name)
        if tensor is not None and tensor.dim() != 4:
            raise AttnError(f"{_NAMES_OF[name]} has {tensor.dim()} dimensions, expected 4")
    _check_dtypes(given)
    batch, heads, new, head_dim = given.key.shape
    value_heads, value_dim = given.value.shape[1], given.value.shape[3]
    _check_shape("v", given.value, (batch, value_heads, new, value_dim))
    entries, _, rows, _ = given.key_cache.shape
    if given.page_table is None:
        entries = batch
    else:
        _check_shape("block_table", given.page_table, (batch, None))
    _check_shape("k_cache", given.key_cache, (entries, heads, rows, head_dim))
    _check_shape("v_cache", given.value_cache, (entries, value_heads, rows, value_dim))
    _check_shape("cache_seqlens", given.lengths, (batch,))
    if (given.key_scale is None) != (given.value_scale is None):
        raise AttnError("k_descale and v_descale are needed together, and one of them is None")
    for name, count in (("key_scale", heads), ("value_scale", value_heads)):
        if getattr(given, name) is not None:
            _check_shape(_NAMES_OF[name], getattr(given, name), (batch, count))
    check_tables(given.cos, given.sin, head_dim)
    if given.query is not None:
        _check_shape("q", given.query, (batch, None, None, head_dim))


@functools.lru_cache(maxsize=None)
def _find_function(description: CacheAppend, target: str) -> Function:
    return compile(description, target=target)[description.NAME]


def _describe(given: Arguments) -> CacheAppend:
    return CacheAppend(
        dtype=_NAMES[given.key.dtype],
        key_heads=given.key.shape[1],
        key_dim=given.key.shape[3],
        value_dim=given.value.shape[3],
        page_size=None if given.page_table is None else given.key_cache.shape[2],
        rotary_dim=0 if given.cos is None else 2 * given.cos.shape[1],
        rotary_dtype="f32" if given.cos is None else _NAMES[given.cos.dtype],
        interleaved=given.cos is not None and given.interleaved,
        query_heads=0 if given.query is None else given.query.shape[1],
        same_position=given.query is not None and given.same_position,
        cache_dtype={**_NAMES, **FLOAT8}[given.key_cache.dtype],
        scales=given.key_scale is not None,
        value_heads=None if given.value.shape[1] == given.key.shape[1] else given.value.shape[1],
    )


def _layouts(given: Arguments) -> List[Layout]:
    """Layouts of the rotated queries, if there are any, and of the new lengths."""
    lengths = Layout((given.key.shape[0],), (1,), torch.int32, given.key.device)
    query = given.query
    if query is None:
        return [lengths]
    shape = tuple(query.shape)
    return [Layout(shape, dense_like(query, shape), query.dtype, query.device), lengths]


_MAX_PLANS = 1024
_plans = make_plans()


def _run(*arguments) -> Tuple[Tensor, Tensor]:
    """Rotated queries, without elements if there are none, and new lengths."""
    given = Arguments(*arguments)
    if given.key.dtype == torch.float64:
        return _evaluate(given)
    tensors = (
        given.key, given.value, given.lengths, given.page_table, given.cos, given.sin, given.query, given.key_scale,
        given.value_scale, given.key_cache, given.value_cache,
    )  # fmt: skip
    inputs = [tensor for tensor in tensors if tensor is not None]
    flags = given.interleaved, given.same_position
    name = (*[None if tensor is None else describe(tensor) for tensor in tensors], *flags)
    plan = _plans.get(name)
    if plan is None:
        check(given)
        if len(_plans) >= _MAX_PLANS:
            _plans.clear()
        function = find_for_device(_find_function, given.key.device, _describe(given))
        plan = Binding(function, inputs, _layouts(given))
        _plans[name] = plan
    results = plan(inputs)
    return results[0] if len(results) == 2 else given.key.new_empty(0), results[-1]


def rotate_pairs(rows: Tensor, cos: Tensor, sin: Tensor, is_interleaved: bool) -> Tensor:
    """Rows ``[..., head dim]`` whose first elements are rotated by angles ``[..., rotated elements / 2]``."""
    half = cos.shape[-1]
    rotated, rest = rows[..., : 2 * half], rows[..., 2 * half :]
    pairs = rotated.unflatten(-1, (half, 2)) if is_interleaved else rotated.unflatten(-1, (2, half)).mT
    a, b = pairs.unbind(-1)
    pairs = torch.stack((a * cos - b * sin, b * cos + a * sin), -1)
    return torch.cat(((pairs if is_interleaved else pairs.mT).flatten(-2).to(rows.dtype), rest), -1)


def _rotate(rows: Tensor, positions: Tensor, given: Arguments) -> Tensor:
    """Rows `[batch, heads, rows, head dim]` at positions `[batch, rows]`."""
    if given.cos is None or given.sin is None:
        return rows
    cos, sin = (table.to(rows.dtype)[positions][:, None] for table in (given.cos, given.sin))
    return rotate_pairs(rows, cos, sin, given.interleaved)


def _evaluate(given: Arguments) -> Tuple[Tensor, Tensor]:
    """The same by operations of torch, in double precision on the host."""
    check(given)
    new, lengths = given.key.shape[2], given.lengths.long()
    positions = lengths[:, None] + torch.arange(new)
    rows = given.key_cache.shape[2]
    room = rows if given.page_table is None else rows * given.page_table.shape[1]
    if bool(((lengths < 0) | (lengths + new > room)).any()):
        raise AttnError("a call was given a number of keys that is negative or more than its cache has room for")
    longest = max(new, 0 if given.query is None else given.query.shape[2])
    if given.cos is not None and bool((lengths + longest > given.cos.shape[0]).any()):
        raise AttnError(
            "a call was given new keys or queries at positions for which its tables of the rotary embedding have no row"
        )
    entries = torch.arange(len(lengths))[:, None].expand(positions.shape)
    if given.page_table is not None:
        entries, positions_in = given.page_table.long().gather(1, positions // rows), positions % rows
        if bool(((entries < 0) | (entries >= given.key_cache.shape[0])).any()):
            raise AttnError("a call was given a page table with an entry that is no page of its cache")
    else:
        positions_in = positions
    given.key_cache[entries, :, positions_in] = _rotate(given.key, positions, given).transpose(1, 2)
    given.value_cache[entries, :, positions_in] = given.value.transpose(1, 2)
    query = given.query
    if query is None:
        return given.key.new_empty(0), (lengths + new).int()
    steps = torch.arange(query.shape[2]) * (not given.same_position)
    return _rotate(query, lengths[:, None] + steps, given), (lengths + new).int()


for _device in ("CPU", "CUDA"):
    _library.impl("cache_append", _run, _device)


@torch.library.register_fake("attn::cache_append", lib=_library)
def _(*arguments):
    given = Arguments(*arguments)
    check(given)
    made = [layout.make() for layout in _layouts(given)]
    return made[0] if len(made) == 2 else given.key.new_empty(0), made[-1]


def cache_append(given: Arguments) -> Tuple[Optional[Tensor], Tensor]:
    """Rotated queries, if there are queries, and the new lengths of the entries, whose cache is written."""
    tensors = [tensor for tensor in given if isinstance(tensor, Tensor)]
    if is_plain(*tensors):
        rotated, lengths = _run(*given)
        for cache in (given.key_cache, given.value_cache):
            if not cache.is_inference():
                torch.autograd.graph.increment_version(cache)
    else:
        rotated, lengths = torch.ops.attn.cache_append(*given)
    return (None if given.query is None else rotated), lengths
