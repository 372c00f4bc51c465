# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``varlen_attn`` and ``flash_attn_varlen_func`` of shards: packed sequences over the ranks of a group."""

from typing import Any, Callable, List, Optional, Tuple, Union

import torch
from torch import Tensor

from attn.errors import AttnError, UnsupportedError
from attn.masks import Mask
from attn.torch import flash_attn, sdpa
from attn.torch.kernels import Kind

#: Attention of shards ``[1, heads, positions, head dim]`` with operands and captures of a kind.
Attend = Callable[[Tensor, Tensor, Tensor, List[Tensor], Kind, bool], Tuple[Tensor, Tensor]]


def _check(function: str, method: str, dropout_p: float) -> None:
    if torch.compiler.is_compiling():
        raise UnsupportedError(f"{function} over several ranks runs in eager mode alone; shard sdpa instead")
    if dropout_p and method != "ulysses":
        raise UnsupportedError(
            f"dropout_p is {dropout_p}, and {function} with the method {method.split()[0]} has no dropout: the rows of "
            "a rank begin anywhere in a sequence; choose ulysses"
        )
    if dropout_p == 1:
        raise UnsupportedError("dropout_p is 1, which drops everything; attention over several ranks takes less")


def _join_boundaries(kind: Kind, are_same: bool) -> Kind:
    """The kind, with the note that queries and keys have the same boundaries."""
    return kind._replace(clauses=f"{kind.clauses} same_sequences") if are_same else kind


def shard_varlen_attn(attend: Attend, method: str) -> Callable[..., Any]:
    def sharded_varlen_attn(
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
        deterministic: bool = False,
    ) -> Union[Tensor, Tuple[Tensor, Tensor]]:
        _check("varlen_attn", method, dropout_p)
        sdpa.refuse_caches(seqused_k, block_table, num_splits)
        for name, tensor in (("head_map", head_map), ("identity", identity)):
            if tensor is not None:
                raise UnsupportedError(f"varlen_attn over several ranks does not take {name}; leave it out")
        query, key, value, operands, kind = sdpa.prepare_varlen(
            query, key, value, cu_seq_q, cu_seq_k, scale, window_size, enable_gqa, dropout_p, soft_cap, block_mask,
            sinks, None, None, deterministic,
        )  # fmt: skip
        kind = _join_boundaries(kind, cu_seq_k is None or cu_seq_k is cu_seq_q)
        return_lse = return_lse or (return_aux is not None and return_aux.lse)
        out, lse = attend(query, key, value, operands, kind, return_lse)
        out = out[0].transpose(0, 1)
        return (out, lse[0]) if return_lse else out

    return sharded_varlen_attn


def shard_flash_attn_varlen_func(attend: Attend, method: str) -> Callable[..., Any]:
    def sharded_flash_attn_varlen_func(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_k: Tensor,
        max_seqlen_q: Optional[int] = None,
        max_seqlen_k: Optional[int] = None,
        dropout_p: float = 0.0,
        softmax_scale: Optional[float] = None,
        causal: bool = False,
        window_size: Tuple[int, int] = (-1, -1),
        softcap: float = 0.0,
        alibi_slopes: Optional[Tensor] = None,
        deterministic: bool = False,
        return_attn_probs: bool = False,
        block_table: Optional[Tensor] = None,
        seqused_k: Optional[Tensor] = None,
    ) -> flash_attn.Result:
        _check("flash_attn_varlen_func", method, dropout_p)
        for name, tensor in (("block_table", block_table), ("seqused_k", seqused_k)):
            if tensor is not None:
                raise UnsupportedError(f"flash_attn_varlen_func over several ranks does not take {name}; leave it out")
        if cu_seqlens_k is None:
            raise AttnError("cu_seqlens_k is None; give the boundaries of the keys, or pass cu_seqlens_q for them, too")
        query, key, value, captures, kind = flash_attn.prepare_varlen(
            q, k, v, cu_seqlens_q, cu_seqlens_k, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes,
            deterministic,
        )  # fmt: skip
        kind = _join_boundaries(kind, cu_seqlens_k is cu_seqlens_q)
        out, lse = attend(query, key, value, captures, kind, return_attn_probs)
        out = out[0].transpose(0, 1)
        return (out, lse[0], None) if return_attn_probs else out

    return sharded_flash_attn_varlen_func
