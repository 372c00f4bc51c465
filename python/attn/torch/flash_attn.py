# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``flash_attn_func`` and ``flash_attn_varlen_func`` of the package flash-attn."""

import math
from typing import Dict, List, Optional, Tuple, Union

import torch
from torch import Tensor

from attn.errors import AttnError, UnsupportedError
from attn.torch.alibi import check_slopes, write_score_mod
from attn.torch.checks import check_arguments, check_pages, drop_all, refuse_gradients, with_unit_stride
from attn.torch.kernels import Kind
from attn.torch.ops import attend
from attn.torch.rounded_output import attend_rounded, check_output
from attn.torch.sdpa import make_kind, write_flash_mask
from attn.torch.straight_through import QuantizeGradient, Sources, attend_scaled, move_sources

#: The output, or with ``return_attn_probs`` output, log-sum-exp and None. ``amax``, if it is wanted, follows.
Result = Union[Tensor, Tuple[Optional[Tensor], ...]]


def _make_kind(
    mask: str, scale: Optional[float], score_mod: str, dropout_p: float, deterministic: bool, clauses: str = ""
) -> Kind:
    dropout_p = 0.0 if dropout_p == 1 else dropout_p
    return make_kind(mask, scale, None)._replace(
        score_mod=score_mod, dropout_p=dropout_p, deterministic=deterministic, clauses=clauses
    )


def _check(rank: int, scale: Optional[float], dropout_p: float, softcap: float, **tensors: Tensor) -> None:
    check_arguments(scale, dropout_p, **tensors)
    for name, tensor in tensors.items():
        if name in "qkv" and tensor.dim() != rank:
            raise AttnError(f"{name} has {tensor.dim()} dimensions, expected {rank}")
    if not 0.0 <= softcap < math.inf:
        raise AttnError(f"softcap is {softcap}; it must be a finite number from 0")


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    *,
    q_descale: Optional[Tensor] = None,
    k_descale: Optional[Tensor] = None,
    v_descale: Optional[Tensor] = None,
    straight_through: Optional[Sources] = None,
    quantize_dout: Optional[QuantizeGradient] = None,
    out_dtype: Optional[torch.dtype] = None,
    out_scale: Optional[Tensor] = None,
    return_amax: bool = False,
) -> Result:
    """Computes what ``flash_attn_func`` of the package flash-attn does: attention of queries
    ``[batch, queries, heads, head dim]`` with keys and values ``[batch, keys, key heads, head dim]``.

    Tensors of ``torch.float8_e4m3fn`` and ``torch.float8_e5m2`` are multiplied by scales ``[batch, key heads]``,
    ``torch.float32``, or one for all, as in FlashAttention-3. The output is ``torch.bfloat16`` then. Gradients are as
    in ``sdpa``, with ``straight_through`` and ``quantize_dout``, which gets ``[batch, heads, queries, head dim]``.
    The output has 8 bits with ``out_dtype``, ``out_scale`` and ``return_amax``, as in ``sdpa``.

    ``causal`` and ``window_size``, the number of keys before and after a query that it attends to, -1 for all, put the
    last query at the last key. ``softcap`` keeps scaled scores below a number, 0 for none. ``alibi_slopes``
    (``[heads]`` or ``[batch, heads]``) times the distance of query and key is subtracted from scores. With
    ``return_attn_probs`` the results are the output, the log-sum-exp ``[batch, heads, queries]``, and None in the place
    of probabilities, which kernels do not store.
    """
    _check(4, softmax_scale, dropout_p, softcap, q=q, k=k, v=v)
    captures: List[Tensor] = []
    shift = None
    if alibi_slopes is not None:
        check_slopes(alibi_slopes, q.shape[0], q.shape[2])
        shift = torch.full((q.shape[0],), k.shape[1] - q.shape[1], dtype=torch.int32, device=q.device)
        captures = [alibi_slopes, shift]
    score_mod = write_score_mod(softcap, alibi_slopes, shift)
    kind = _make_kind(write_flash_mask(causal, window_size), softmax_scale, score_mod, dropout_p, deterministic)
    query, key, value = (with_unit_stride(x, name).transpose(1, 2) for x, name in ((q, "q"), (k, "k"), (v, "v")))
    sources = move_sources(straight_through, (q, k, v), lambda source, _: source.transpose(1, 2))
    descales = (q_descale, k_descale, v_descale)
    output = check_output(out_dtype, out_scale, return_amax, dropout_p, straight_through, quantize_dout)
    if output is not None:
        narrow, lse, amax = attend_rounded(query, key, value, captures, kind, return_attn_probs, descales, output)
        narrow = narrow.transpose(1, 2)
        further = [lse, None] if return_attn_probs else []
        further += [amax] if return_amax else []
        return (narrow, *further) if further else narrow
    out, lse = attend_scaled(
        query, key, value, captures, kind, return_attn_probs, descales, sources, quantize_dout
    )
    out = (drop_all(out) if dropout_p == 1 else out).transpose(1, 2)
    return (out, lse, None) if return_attn_probs and lse is not None else out


def _check_entries(tensors: Dict[str, Tensor]) -> List[Tensor]:
    """Tensors of boundaries or lengths with a stride of 1."""
    for name, tensor in tensors.items():
        if tensor.dtype != torch.int32 or tensor.dim() != 1:
            raise AttnError(f"{name} is {tensor.dtype} of {tensor.dim()} dimensions, expected torch.int32 of one")
    return [with_unit_stride(tensor, name) for name, tensor in tensors.items()]


def _find_lengths(cu_seqlens_q: Tensor, cu_seqlens_k: Optional[Tensor], seqused_k: Optional[Tensor]) -> Tensor:
    """The number of keys of each sequence in pages."""
    if seqused_k is not None:
        return _check_entries({"cu_seqlens_q": cu_seqlens_q, "seqused_k": seqused_k})[1]
    if cu_seqlens_k is None:
        raise AttnError("cu_seqlens_k and seqused_k are None; give one of them, for the numbers of keys")
    return _check_entries({"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k})[1].diff()


def _attend_to_pages(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    lengths: Tensor,
    table: Tensor,
    dropout_p: float,
    scale: Optional[float],
    mask: str,
    softcap: float,
    alibi_slopes: Optional[Tensor],
    with_lse: bool,
) -> Result:
    """Attention of packed queries to the pages of their sequences."""
    pools = {"k": k, "v": v}
    if dropout_p:
        raise UnsupportedError(f"dropout_p is {dropout_p}, which attention to pages does not have")
    for name, tensor in pools.items():
        if tensor.dim() != 4:
            raise AttnError(f"{name} has {tensor.dim()} dimensions, expected 4 with block_table")
    check_pages(k, "k", table)
    refuse_gradients(q=q, **pools)
    captures = [with_unit_stride(x, name) for name, x in (("cu_seqlens_q", cu_seqlens_q), ("block_table", table))]
    captures.insert(1, lengths)
    shift = None
    if alibi_slopes is not None:
        check_slopes(alibi_slopes, lengths.shape[0], q.shape[1])
        shift = lengths - cu_seqlens_q.diff()
        captures += [alibi_slopes, shift]
    score_mod = write_score_mod(softcap, alibi_slopes, shift)
    kind = _make_kind(mask, scale, score_mod, 0.0, False, "packed_queries page_table")
    key, value = (with_unit_stride(x, name).transpose(1, 2) for name, x in pools.items())
    out, lse = attend(with_unit_stride(q, "q").transpose(0, 1)[None], key, value, captures, kind, with_lse)
    out = out[0].transpose(0, 1)
    return (out, lse[0], None) if with_lse and lse is not None else out


def prepare_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    dropout_p: float,
    softmax_scale: Optional[float],
    causal: bool,
    window_size: Tuple[int, int],
    softcap: float,
    alibi_slopes: Optional[Tensor],
    deterministic: bool,
) -> Tuple[Tensor, Tensor, Tensor, List[Tensor], Kind]:
    """The tensors of ``flash_attn_varlen_func`` as ``[1, heads, positions, head dim]``, operands and captures, and the
    kind."""
    bounds = {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}
    _check(3, softmax_scale, dropout_p, softcap, q=q, k=k, v=v, **bounds)
    captures: List[Tensor] = _check_entries(bounds)
    shift = None
    if alibi_slopes is not None:
        check_slopes(alibi_slopes, max(cu_seqlens_q.shape[0] - 1, 0), q.shape[1])
        shift = cu_seqlens_k.diff() - cu_seqlens_q.diff()
        captures += [alibi_slopes, shift]
    score_mod = write_score_mod(softcap, alibi_slopes, shift)
    mask = write_flash_mask(causal, window_size)
    kind = _make_kind(mask, softmax_scale, score_mod, dropout_p, deterministic, "packed")
    query, key, value = (with_unit_stride(x, name).transpose(0, 1)[None] for x, name in ((q, "q"), (k, "k"), (v, "v")))
    return query, key, value, captures, kind


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Optional[Tensor] = None,
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
    *,
    straight_through: Optional[Sources] = None,
    quantize_dout: Optional[QuantizeGradient] = None,
) -> Result:
    """Computes what ``flash_attn_varlen_func`` of the package flash-attn does: attention of sequences that are stored
    one after another, in tensors ``[positions, heads, head dim]``.

    Sequence ``s`` of the queries is at positions ``cu_seqlens_q[s]`` to ``cu_seqlens_q[s + 1]`` (``torch.int32``), and
    of the keys at ``cu_seqlens_k[s]`` to ``cu_seqlens_k[s + 1]``. The largest lengths are not needed. Positions count
    from the start of a sequence, and all else is as in ``flash_attn_func``. The log-sum-exp is ``[heads, positions]``.

    With ``block_table`` (``[sequences, pages of a sequence]``, ``torch.int32``) keys and values are pages
    ``[pages, page size, key heads, head dim]``, as in ``flash_attn_with_kvcache``. Sequence ``s`` has ``seqused_k[s]``
    keys, or by default ``cu_seqlens_k[s + 1] - cu_seqlens_k[s]``. Chunks of prompts and single new tokens of any number
    of sequences are one call. There are no gradients then.
    """
    if block_table is not None:
        _check(3, softmax_scale, dropout_p, softcap, q=q)
        lengths = _find_lengths(cu_seqlens_q, cu_seqlens_k, seqused_k)
        mask = write_flash_mask(causal, window_size)
        return _attend_to_pages(
            q, k, v, cu_seqlens_q, lengths, block_table, dropout_p, softmax_scale, mask, softcap, alibi_slopes,
            return_attn_probs,
        )  # fmt: skip
    if seqused_k is not None:
        raise UnsupportedError("seqused_k is given without block_table; give the ends of sequences by cu_seqlens_k")
    if cu_seqlens_k is None:
        raise AttnError("cu_seqlens_k is None, and is needed without block_table")
    query, key, value, captures, kind = prepare_varlen(
        q, k, v, cu_seqlens_q, cu_seqlens_k, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes,
        deterministic,
    )  # fmt: skip
    sources = move_sources(straight_through, (q, k, v), lambda source, _: source.transpose(0, 1)[None])
    out, lse = attend_scaled(
        query, key, value, captures, kind, return_attn_probs, (None, None, None), sources, quantize_dout
    )
    out = (drop_all(out) if dropout_p == 1 else out)[0].transpose(0, 1)
    return (out, lse[0], None) if return_attn_probs and lse is not None else out
