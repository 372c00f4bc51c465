# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention with a KV cache, contiguous or paged."""

import math
from typing import List, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor

from attn.errors import AttnError, UnsupportedError
from attn.torch import cache_append
from attn.torch.alibi import check_slopes, write_score_mod
from attn.torch.checks import PAGE_SIZES, check_arguments, check_pages, refuse_gradients, with_unit_stride
from attn.torch.descale import check_descale, descale
from attn.torch.kernels import Kind, has_values_in_keys
from attn.torch.ops import attend
from attn.torch.sdpa import make_kind, write_flash_mask
from attn.trace import capture_type


def flash_attn_with_kvcache(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    k: Optional[Tensor] = None,
    v: Optional[Tensor] = None,
    rotary_cos: Optional[Tensor] = None,
    rotary_sin: Optional[Tensor] = None,
    cache_seqlens: Union[Tensor, int, None] = None,
    cache_batch_idx: Optional[Tensor] = None,
    cache_leftpad: Optional[Tensor] = None,
    block_table: Optional[Tensor] = None,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Optional[Tensor] = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
    q_descale: Optional[Tensor] = None,
    k_descale: Optional[Tensor] = None,
    v_descale: Optional[Tensor] = None,
) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """Computes what ``flash_attn_with_kvcache`` of the package flash-attn does: attention of queries
    ``[batch, queries, heads, head dim]`` with the keys of a cache, to which it may append.

    ``k_cache`` and ``v_cache`` are ``[batch, positions, key heads, head dim]``, or with ``block_table`` pages
    ``[pages, page size, key heads, head dim]``. Key ``j`` of entry ``b`` is then row ``j % page_size`` of page
    ``block_table[b, j // page_size]`` (``torch.int32``); page sizes are 16, 32, 64, 128 and 256. ``cache_seqlens``
    (``torch.int32``, or one number) has the number of keys of each entry, all by default. With ``cache_batch_idx``
    (``[batch]``), entry ``b`` uses entry ``cache_batch_idx[b]`` of a contiguous cache with a multiple of 16 positions.
    Keys before ``cache_leftpad[b]`` (``torch.int32``) do not count; positions do not change, as in FlashAttention-3.
    Kernels read all of these on the device, so that
    graphs of CUDA see new ones at each replay. An entry without keys has an output of 0.

    New keys and values ``k`` and ``v``, ``[batch, new keys, key heads, head dim]``, are written into the cache behind
    its keys, and take part. ``cache_seqlens`` does not count them and stays as it is. ``rotary_cos`` and
    ``rotary_sin``, ``[positions, rotated elements / 2]``, rotate new keys and queries by their positions: neighbouring
    elements, or if not ``rotary_interleaved`` elements of both halves. New key ``i`` has the position
    ``cache_seqlens[b] + i``, and so has query ``i`` with ``causal`` or a window; without them all queries have the
    position ``cache_seqlens[b]``.

    ``causal`` and ``window_size``, the number of keys before and after a query that it attends to, -1 for all, put the
    last query at the last key. ``softcap`` keeps scaled scores below a number, 0 for none. ``alibi_slopes``
    (``[heads]`` or ``[batch, heads]``) times the distance of query and key is subtracted from scores. ``num_splits``
    has no effect: the compiler chooses how many work items share the keys of a query. With ``return_softmax_lse`` the
    second result is the log-sum-exp ``[batch, heads, queries]``. There are no gradients.

    Where ``v_cache`` is a slice of the first elements of ``k_cache``, as in multi-head latent attention
    (``v_cache = k_cache[..., :512]``), kernels read each row of the cache once.

    Caches of ``torch.float8_e4m3fn`` and ``torch.float8_e5m2`` are multiplied by ``k_descale`` and ``v_descale``,
    ``[batch, key heads]`` of ``torch.float32``, or one for all, as in FlashAttention-3; ``q_descale`` is for queries of
    8 bits, which kernels of GPUs do not take with caches. New keys and values are divided by the same scales and
    rounded to the type of the cache; quotients beyond its largest number become that number.
    """
    _check(q, k_cache, v_cache, k, v, softmax_scale, softcap)
    left, right = window_size
    cache = _Cache(k_cache, v_cache, cache_seqlens, block_table).select(cache_batch_idx).fill_lengths(q)
    if k is not None and v is not None:
        is_local = causal or left != -1 or right != -1
        scales = _find_scales(cache, k, k_descale, v_descale)
        q, cache = _append(q, cache, k, v, rotary_cos, rotary_sin, rotary_interleaved, is_local, scales)
    elif rotary_cos is not None or rotary_sin is not None:
        raise AttnError("rotary_cos is given without k and v, whose positions it is for")
    kind = make_kind(write_flash_mask(causal, window_size), softmax_scale, None)
    kind, captures = _add_regions(kind, q, cache, softcap, alibi_slopes, cache_leftpad)
    query, key, value = (
        with_unit_stride(tensor, name).transpose(1, 2)
        for tensor, name in ((q, "q"), (cache.keys, "k_cache"), (cache.values, "v_cache"))
    )
    kind, captures = descale(kind, captures, query, key, value, (q_descale, k_descale, v_descale))
    out, lse = attend(query, key, value, captures, kind, return_softmax_lse)
    out = out.transpose(1, 2)
    return (out, lse) if return_softmax_lse else out


def _check(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Optional[Tensor], v: Optional[Tensor],
    softmax_scale: Optional[float], softcap: float,
) -> None:  # fmt: skip
    if (k is None) != (v is None):
        raise AttnError("k and v are needed together, and one of them is None")
    new = {} if k is None or v is None else {"k": k, "v": v}
    tensors = {"q": q, "k_cache": k_cache, "v_cache": v_cache, **new}
    check_arguments(softmax_scale, 0.0, **tensors)
    for name, tensor in tensors.items():
        if tensor.dim() != 4:
            raise AttnError(f"{name} has {tensor.dim()} dimensions, expected 4")
    refuse_gradients(**tensors)
    if not 0.0 <= softcap < math.inf:
        raise AttnError(f"softcap is {softcap}; it must be a finite number from 0")


class _Cache(NamedTuple):
    """Keys and values, the number of keys of each entry if they are not all, and their pages if there are any."""

    keys: Tensor
    values: Tensor
    lengths: Union[Tensor, int, None]
    table: Optional[Tensor]

    def select(self, indices: Optional[Tensor]) -> "_Cache":
        """The entries of a contiguous cache with these indices: its positions as pages, so that nothing is copied."""
        if indices is None:
            return self
        if self.table is not None:
            raise UnsupportedError("cache_batch_idx is given with block_table, whose rows can be in any order")
        if not isinstance(indices, Tensor) or indices.dim() != 1:
            raise AttnError("cache_batch_idx must be a tensor with an index for each entry of the batch")
        rows = self.keys.shape[1]
        page = next((size for size in reversed(PAGE_SIZES) if rows % size == 0), None)
        are_joined = all([cache.stride(0) == rows * cache.stride(1) for cache in (self.keys, self.values)])
        if page is None or not are_joined:
            raise UnsupportedError(
                f"cache_batch_idx needs a cache of a multiple of 16 positions with nothing between its entries, and "
                f"k_cache has {rows} positions and the strides {self.keys.stride()}"
            )
        keys, values = (cache.unflatten(1, (-1, page)).flatten(0, 1) for cache in (self.keys, self.values))
        pages = torch.arange(rows // page, dtype=torch.int32, device=indices.device)
        table = indices.to(torch.int32)[:, None] * (rows // page) + pages
        return _Cache(keys, values, rows if self.lengths is None else self.lengths, table)

    def fill_lengths(self, q: Tensor) -> "_Cache":
        """The same with a tensor of lengths, if they are given or there are pages."""
        table, lengths = self.table, self.lengths
        if table is not None:
            check_pages(self.keys, "k_cache", table)
            if lengths is None and table.dim() == 2:
                lengths = table.shape[1] * self.keys.shape[1]
            table = with_unit_stride(table, "block_table")
        if lengths is None:
            return self
        if not isinstance(lengths, Tensor):
            lengths = torch.full((q.shape[0],), lengths, dtype=torch.int32, device=q.device)
        return self._replace(lengths=with_unit_stride(lengths, "cache_seqlens"), table=table)


def _find_scales(
    cache: _Cache, k: Tensor, k_descale: Optional[Tensor], v_descale: Optional[Tensor]
) -> Tuple[Optional[Tensor], Optional[Tensor]]:
    """What elements of the cache are multiplied by, ``[batch, key heads]`` and ``[batch, value heads]``: both or
    none."""
    if k_descale is None and v_descale is None:
        return None, None
    ks, vs = (
        tensor.new_ones(k.shape[0], tensor.shape[2], dtype=torch.float32)
        if scale is None
        else check_descale(name, scale, tensor, k.shape[0], tensor.shape[2])
        for name, scale, tensor in (("k_descale", k_descale, cache.keys), ("v_descale", v_descale, cache.values))
    )
    return ks, vs


def _append(
    q: Tensor,
    cache: _Cache,
    k: Tensor,
    v: Tensor,
    cos: Optional[Tensor],
    sin: Optional[Tensor],
    is_interleaved: bool,
    is_local: bool,
    scales: Tuple[Optional[Tensor], Optional[Tensor]],
) -> Tuple[Tensor, _Cache]:
    """Writes new keys and values; gives the rotated queries, and the cache with its new lengths."""
    if not isinstance(cache.lengths, Tensor):
        raise AttnError("cache_seqlens is None, and k needs it: the number of keys that the cache has before")
    key, value, query = (
        with_unit_stride(tensor, name).transpose(1, 2) for tensor, name in ((k, "k"), (v, "v"), (q, "q"))
    )
    keys, values = cache.keys.transpose(1, 2), cache.values.transpose(1, 2)
    rotated, lengths = cache_append.cache_append(
        cache_append.Arguments(
            key, value, keys, values, cache.lengths, cache.table, cos, sin, None if cos is None else query,
            is_interleaved, not is_local, *scales,
        )
    )  # fmt: skip
    return q if rotated is None else rotated.transpose(1, 2), cache._replace(lengths=lengths)


def _add_regions(
    kind: Kind,
    q: Tensor,
    cache: _Cache,
    softcap: float,
    alibi_slopes: Optional[Tensor],
    leftpad: Optional[Tensor],
) -> Tuple[Kind, List[Tensor]]:
    """The kind with the lengths and pages of the cache and with changes of scores, and the tensors that it reads."""
    operands: List[Tensor] = []
    clauses = []
    if isinstance(cache.lengths, Tensor):
        operands.append(cache.lengths)
        clauses.append("key_lengths")
    if cache.table is not None:
        operands.append(cache.table)
        clauses.append("page_table")
    if not torch.compiler.is_compiling() and has_values_in_keys(cache.keys, cache.values):
        clauses.append("values_in_keys")
    captures: List[Tensor] = []
    shift = None
    if alibi_slopes is not None:
        check_slopes(alibi_slopes, q.shape[0], q.shape[2])
        # The last query is at the last key.
        lengths = cache.lengths
        if not isinstance(lengths, Tensor):
            lengths = torch.full((q.shape[0],), cache.keys.shape[1], dtype=torch.int32, device=q.device)
        shift = lengths - q.shape[1]
        captures += [alibi_slopes, shift]
    score = write_score_mod(softcap, alibi_slopes, shift)
    keep = ""
    if leftpad is not None:
        if leftpad.dtype != torch.int32 or tuple(leftpad.shape) != (q.shape[0],):
            raise AttnError(
                f"cache_leftpad is {leftpad.dtype} of the shape {tuple(leftpad.shape)}, expected torch.int32 of "
                f"({q.shape[0]},)"
            )
        keep = _write_leftpad(leftpad, len(captures))
        captures.append(leftpad)
    kind = kind._replace(score_mod=score, mask_mod=keep, clauses=" ".join(clauses))
    return kind, [*operands, *captures]


def _write_leftpad(leftpad: Tensor, number: int) -> str:
    return (
        f"%first32 = tensor.extract %c{number}[%b] : {capture_type(leftpad)} "
        "%first = arith.index_cast %first32 : i32 to index %keep = arith.cmpi sge, %j, %first : index "
        "attn.yield %keep : i1"
    )
