# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention with a KV cache, contiguous or paged."""

import math
from typing import Optional, Tuple, Union

import torch
from torch import Tensor

from attn.errors import AttnError, UnsupportedError
from attn.torch.checks import check_arguments, with_unit_stride
from attn.torch.ops import attend
from attn.torch.sdpa import make_kind, write_window

#: The sizes of pages that kernels take.
PAGE_SIZES = (16, 32, 64, 128, 256)


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
) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """Computes what ``flash_attn_with_kvcache`` of the package flash-attn does: attention of queries
    ``[batch, queries, heads, head dim]`` with the keys of a cache.

    ``k_cache`` and ``v_cache`` are ``[batch, positions, key heads, head dim]``, or with ``block_table`` pages
    ``[pages, page size, key heads, head dim]``. Key ``j`` of entry ``b`` is then row ``j % page_size`` of page
    ``block_table[b, j // page_size]`` (``torch.int32``); page sizes are 16, 32, 64, 128 and 256. ``cache_seqlens``
    (``torch.int32``, or one number) has the number of keys of each entry, all by default. Kernels read lengths and
    tables on the device, so that graphs of CUDA see new ones at each replay. An entry without keys has an output of 0.

    ``causal`` and ``window_size``, the number of keys before and after a query that it attends to, -1 for all, put the
    last query at the last key. ``softcap`` keeps scaled scores below a number, 0 for none. ``num_splits`` has no
    effect: the compiler chooses how many work items share the keys of a query. With ``return_softmax_lse`` the second
    result is the log-sum-exp ``[batch, heads, queries]``. There are no gradients.
    """
    for name, value in (
        ("k", k), ("v", v), ("rotary_cos", rotary_cos), ("rotary_sin", rotary_sin), ("alibi_slopes", alibi_slopes),
        ("cache_batch_idx", cache_batch_idx), ("cache_leftpad", cache_leftpad),
    ):  # fmt: skip
        if value is not None:
            raise UnsupportedError(f"{name} is given, which flash_attn_with_kvcache does not support; pass None")
    check_arguments(softmax_scale, 0.0, q=q, k_cache=k_cache, v_cache=v_cache)
    for name, tensor in (("q", q), ("k_cache", k_cache), ("v_cache", v_cache)):
        if tensor.dim() != 4:
            raise AttnError(f"{name} has {tensor.dim()} dimensions, expected 4")
        if torch.is_grad_enabled() and tensor.requires_grad:
            raise UnsupportedError(
                f"{name} requires a gradient, which attention with a KV cache does not have; call it under "
                "torch.no_grad()"
            )
    if not 0.0 <= softcap < math.inf:
        raise AttnError(f"softcap is {softcap}; it must be a finite number from 0")
    clauses, operands = _find_operands(q, k_cache, cache_seqlens, block_table)
    left, right = window_size
    mask = write_window(left, 0 if causal else right)
    if causal and left == -1:
        mask = "#attn.causal"
    kind = make_kind(mask, softmax_scale, softcap or None)._replace(clauses=clauses)
    query, key, value = (
        with_unit_stride(tensor, name).transpose(1, 2)
        for tensor, name in ((q, "q"), (k_cache, "k_cache"), (v_cache, "v_cache"))
    )
    out, lse = attend(query, key, value, operands, kind, return_softmax_lse)
    out = out.transpose(1, 2)
    return (out, lse) if return_softmax_lse else out


def _find_operands(
    q: Tensor, k_cache: Tensor, cache_seqlens: Union[Tensor, int, None], block_table: Optional[Tensor]
) -> Tuple[str, Tuple[Tensor, ...]]:
    """The clauses of attention with the cache, and their operands."""
    page_size = k_cache.shape[1]
    if block_table is not None:
        if not isinstance(block_table, Tensor):
            raise AttnError(f"block_table is a {type(block_table).__name__}; pass a tensor [batch, pages of an entry]")
        if page_size not in PAGE_SIZES:
            raise UnsupportedError(
                f"k_cache has pages of {page_size} positions; they must have {', '.join(map(str, PAGE_SIZES))}"
            )
        if cache_seqlens is None and block_table.dim() == 2:
            cache_seqlens = block_table.shape[1] * page_size
    if cache_seqlens is None:
        return "", ()
    if not isinstance(cache_seqlens, Tensor):
        cache_seqlens = torch.full((q.shape[0],), cache_seqlens, dtype=torch.int32, device=q.device)
    lengths = with_unit_stride(cache_seqlens, "cache_seqlens")
    if block_table is None:
        return "key_lengths", (lengths,)
    return "key_lengths page_table", (lengths, with_unit_stride(block_table, "block_table"))
