# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention with a paged KV cache whose sequences begin with the same pages."""

from typing import Dict, Optional, Tuple, Union

import torch
from torch import Tensor

from attn.errors import AttnError
from attn.torch.flash_attn import flash_attn_varlen_func
from attn.torch.kv_cache import flash_attn_with_kvcache
from attn.torch.merge import merge


def _check(q: Tensor, block_table: Tensor, **entries: Tensor) -> None:
    if q.dim() != 4:
        raise AttnError(f"q has {q.dim()} dimensions, expected 4")
    for name, tensor in {"block_table": block_table, **entries}.items():
        rank = 2 if name == "block_table" else 1
        if not isinstance(tensor, Tensor) or tensor.dtype != torch.int32 or tensor.dim() != rank:
            kind = f"{tensor.dtype} of the shape {tuple(tensor.shape)}" if isinstance(tensor, Tensor) else type(tensor)
            raise AttnError(f"{name} is {kind}, expected torch.int32 with {rank} dimensions")
    for name, size in (("cache_seqlens", q.shape[0]), ("prefix_seqlens", entries["cu_groups"].shape[0] - 1)):
        if entries[name].shape[0] != size:
            raise AttnError(f"{name} has the shape {tuple(entries[name].shape)}, expected ({size},)")


def flash_attn_with_shared_prefix(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    cache_seqlens: Tensor,
    block_table: Tensor,
    cu_groups: Tensor,
    prefix_seqlens: Tensor,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    softcap: float = 0.0,
    return_softmax_lse: bool = False,
) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """Computes what ``flash_attn_with_kvcache`` computes of the same arguments, for sequences that begin with the same
    pages, which are read once for all of them (cascade attention).

    The entries ``cu_groups[g]`` to ``cu_groups[g + 1]`` of the batch (``torch.int32``) are group ``g``. Their first
    ``prefix_seqlens[g]`` keys (``torch.int32``) are in the same pages, which the row of ``block_table`` of each entry
    lists. They are a multiple of the page size, and all before the queries: at most ``cache_seqlens[b]`` minus the
    number of queries. A prefix that is longer than ``cache_seqlens[b]`` is reported as a wrong number of keys. A group
    may have a single entry, and a prefix may have 0 keys.

    All queries of a group attend to the prefix as rows of one matrix, each query attends to the rest of its own keys,
    and the results are merged by their log-sum-exps. Lengths, tables and groups are read on the device.
    """
    entries = {"cache_seqlens": cache_seqlens, "cu_groups": cu_groups, "prefix_seqlens": prefix_seqlens}
    _check(q, block_table, **entries)
    batch, queries, heads, _ = q.shape
    options: Dict = {"softmax_scale": softmax_scale, "softcap": softcap}
    shared, tables = _find_shared(cu_groups, prefix_seqlens, block_table, batch)
    out0, lse0, _ = flash_attn_varlen_func(
        q.flatten(0, 1), k_cache, v_cache, cu_groups if queries == 1 else cu_groups * queries,
        seqused_k=prefix_seqlens, block_table=tables, return_attn_probs=True, **options,
    )  # fmt: skip
    lengths = torch.where(shared <= cache_seqlens, cache_seqlens, -1)
    out1, lse1 = flash_attn_with_kvcache(
        q, k_cache, v_cache, cache_seqlens=lengths, cache_leftpad=shared, block_table=block_table, causal=causal,
        return_softmax_lse=True, **options,
    )  # fmt: skip
    out0 = out0.unflatten(0, (batch, queries)).transpose(1, 2)
    lse0 = lse0.view(heads, batch, queries).transpose(0, 1)
    out, lse = merge(out0, lse0, out1.transpose(1, 2), lse1)
    out = out.transpose(1, 2)
    return (out, lse) if return_softmax_lse else out


def _find_shared(
    cu_groups: Tensor, prefix_seqlens: Tensor, block_table: Tensor, batch: int
) -> Tuple[Tensor, Tensor]:
    """The number of keys that each entry has in common with its group, and the pages of each group."""
    groups = prefix_seqlens.shape[0]
    if groups == 1:
        return prefix_seqlens.repeat(batch), block_table[:1]
    numbers = torch.arange(batch, dtype=torch.int32, device=cu_groups.device)
    # Kernels report groups that are not in order; until then no index leaves the tensors.
    group = torch.searchsorted(cu_groups[1:], numbers, right=True, out_int32=True).clamp_(max=max(groups - 1, 0))
    firsts = cu_groups[:-1].clamp(0, max(batch - 1, 0))
    return prefix_seqlens.index_select(0, group), block_table.index_select(0, firsts)
