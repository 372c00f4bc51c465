# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions of the package flash-attn for queries, keys and values in one tensor.

Further arguments, ``further``, are those that the functions for separate tensors take by name.
"""

from typing import Any, Optional, Tuple

from torch import Tensor

from attn.errors import AttnError
from attn.torch.checks import check_arguments
from attn.torch.flash_attn import Result, flash_attn_func, flash_attn_varlen_func
from attn.torch.packed import sdpa_packed


def _check(name: str, tensor: Tensor, rank: int, dim: int, parts: int) -> None:
    check_arguments(None, 0.0, **{name: tensor})
    if tensor.dim() != rank or tensor.shape[dim] != parts:
        sizes = ["positions", str(parts), "heads", "head dim"]
        wanted = ", ".join(["batch", *sizes] if rank == 5 else sizes)
        raise AttnError(f"{name} has the shape {tuple(tensor.shape)}, expected ({wanted})")


def flash_attn_qkvpacked_func(
    qkv: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    **further: Any,
) -> Result:
    """``flash_attn_func`` of ``qkv``, ``[batch, positions, 3, heads, head dim]``. With no arguments behind ``causal``
    it is ``sdpa_packed``, whose kernels write the gradient of ``qkv``."""
    _check("qkv", qkv, 5, 2, 3)
    is_plain = not (further or softcap or deterministic or return_attn_probs) and alibi_slopes is None
    if is_plain and tuple(window_size) == (-1, -1):
        return sdpa_packed(qkv, dropout_p, causal, softmax_scale)
    return flash_attn_func(
        *qkv.unbind(2), dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic,
        return_attn_probs, **further,
    )  # fmt: skip


def flash_attn_kvpacked_func(
    q: Tensor,
    kv: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    **further: Any,
) -> Result:
    """``flash_attn_func`` of ``q`` and ``kv``, ``[batch, positions, 2, key heads, head dim]``."""
    _check("kv", kv, 5, 2, 2)
    return flash_attn_func(
        q, *kv.unbind(2), dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic,
        return_attn_probs, **further,
    )  # fmt: skip


def flash_attn_varlen_qkvpacked_func(
    qkv: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: Optional[int] = None,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    **further: Any,
) -> Result:
    """``flash_attn_varlen_func`` of ``qkv``, ``[positions, 3, heads, head dim]``."""
    _check("qkv", qkv, 4, 1, 3)
    return flash_attn_varlen_func(
        *qkv.unbind(1), cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, dropout_p, softmax_scale, causal, window_size,
        softcap, alibi_slopes, deterministic, return_attn_probs, **further,
    )  # fmt: skip


def flash_attn_varlen_kvpacked_func(
    q: Tensor,
    kv: Tensor,
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
    **further: Any,
) -> Result:
    """``flash_attn_varlen_func`` of ``q`` and ``kv``, ``[positions, 2, key heads, head dim]``."""
    _check("kv", kv, 4, 1, 2)
    return flash_attn_varlen_func(
        q, *kv.unbind(1), cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale, causal,
        window_size, softcap, alibi_slopes, deterministic, return_attn_probs, **further,
    )  # fmt: skip
