# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``flash_attn_func`` and ``flash_attn_varlen_func`` of the package flash-attn."""

import math
from typing import Callable, List, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from attn.errors import AttnError, UnsupportedError
from attn.torch.alibi import check_slopes, write_score_mod
from attn.torch.checks import check_arguments, check_integers, drop_all, refuse_gradients, with_unit_stride
from attn.torch.descale import NAMES
from attn.torch.flash_arguments import check_entries, find_sinks, refuse_qv
from attn.torch.kernels import Kind, find_clauses
from attn.torch.key_clauses import find_key_clauses
from attn.torch.kv_cache import KVCache, attend_to_cache, check_longest
from attn.torch.rounded_output import Output, attend_rounded, check_output
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


def _attend_rounded(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    captures: Sequence[Tensor],
    kind: Kind,
    with_lse: bool,
    descales: Tuple[Optional[Tensor], ...],
    output: Output,
    order: Callable[[Tensor], Tensor],
    dims: int = 4,
) -> Result:
    """The results with an output of 8 bits, ``order`` of it, and perhaps of the log-sum-exp."""
    narrow, lse, amax = attend_rounded(query, key, value, captures, kind, with_lse, descales, output, dims)
    further: List[Optional[Tensor]] = []
    if with_lse and lse is not None:
        further = [lse[0] if dims == 3 else lse, None]
    further += [amax] if output.with_amax else []
    return (order(narrow), *further) if further else order(narrow)


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
    attention_chunk: int = 0,
    s_aux: Optional[Tensor] = None,
    qv: Optional[Tensor] = None,
    num_splits: int = 0,
    pack_gqa: Optional[bool] = None,
    sm_margin: int = 0,
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
    of probabilities, which kernels do not store. ``attention_chunk``, ``s_aux``, which has a gradient, ``num_splits``,
    ``pack_gqa``, ``sm_margin`` and ``qv`` are as in ``flash_attn_with_kvcache``.
    """
    refuse_qv(qv)
    _check(4, softmax_scale, dropout_p, softcap, q=q, k=k, v=v)
    clauses, captures = find_sinks(s_aux, q.shape[2])
    shift = None
    if alibi_slopes is not None:
        check_slopes(alibi_slopes, q.shape[0], q.shape[2])
        shift = torch.full((q.shape[0],), k.shape[1] - q.shape[1], dtype=torch.int32, device=q.device)
        captures += [alibi_slopes, shift]
    score_mod = write_score_mod(softcap, alibi_slopes, shift)
    mask = write_flash_mask(causal, window_size, attention_chunk)
    kind = _make_kind(mask, softmax_scale, score_mod, dropout_p, deterministic, clauses)
    query, key, value = (with_unit_stride(x, name).transpose(1, 2) for x, name in ((q, "q"), (k, "k"), (v, "v")))
    sources = move_sources(straight_through, (q, k, v), lambda source, _: source.transpose(1, 2))
    descales = (q_descale, k_descale, v_descale)
    output = check_output(out_dtype, out_scale, return_amax, dropout_p, straight_through, quantize_dout)
    if output is not None:
        return _attend_rounded(
            query, key, value, captures, kind, return_attn_probs, descales, output, lambda out: out.transpose(1, 2)
        )
    out, lse = attend_scaled(
        query, key, value, captures, kind, return_attn_probs, descales, sources, quantize_dout
    )
    out = (drop_all(out) if dropout_p == 1 else out).transpose(1, 2)
    return (out, lse, None) if return_attn_probs and lse is not None else out


def _find_lengths(
    cu_seqlens_q: Tensor, cu_seqlens_k: Optional[Tensor], seqused_k: Optional[Tensor], is_paged: bool
) -> Optional[Tensor]:
    """The number of keys of each sequence in a cache; None for all."""
    (bounds,) = check_entries({"cu_seqlens_q": cu_seqlens_q})
    if seqused_k is not None:
        return check_integers("seqused_k", seqused_k, bounds.shape[0] - 1)
    if cu_seqlens_k is not None:
        return check_integers("cu_seqlens_k", cu_seqlens_k, bounds.shape[0]).diff()
    if is_paged:
        raise AttnError("cu_seqlens_k and seqused_k are None; give one of them, for the numbers of keys")
    return None


def _split_unused(
    bounds_q: Tensor, bounds_k: Tensor, used_q: Optional[Tensor], used_k: Optional[Tensor], slopes: Optional[Tensor]
) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
    """Boundaries of packed sequences of which the first positions count, and slopes for them: each becomes one of the
    positions that count, one of the other queries, without keys, and one of the other keys, without queries."""
    check_entries({"cu_seqlens_q": bounds_q})
    check_integers("cu_seqlens_k", bounds_k, bounds_q.shape[0])
    sequences, ends = bounds_q.shape[0] - 1, []
    for name, bounds, used in (("seqused_q", bounds_q, used_q), ("seqused_k", bounds_k, used_k)):
        first, last = bounds[:-1], bounds[1:]
        counted = last if used is None else first + check_integers(name, used, sequences)
        other = (counted, last) if name == "seqused_k" else (last, last)
        ends.append(torch.cat((bounds[:1], torch.stack((counted, *other), 1).flatten())))
    if slopes is not None and slopes.dim() == 2:
        slopes = slopes.repeat_interleave(3, 0)
    return ends[0], ends[1], slopes


def _attend_packed(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    lengths: Optional[Tensor],
    table: Optional[Tensor],
    dropout_p: float,
    options: Tuple,
) -> Result:
    """Attention of packed queries to a KV cache, contiguous or in pages. ``options`` are arguments of
    ``attend_to_cache`` from the mask on, the sinks and the scales."""
    pools = {"k": k, "v": v}
    for name, tensor in pools.items():
        if tensor.dim() != 4:
            wanted = "4" if table is None else "4 with block_table"
            raise AttnError(f"{name} has {tensor.dim()} dimensions, expected {wanted}")
    refuse_gradients(q=q, **pools)
    cache = KVCache(k, v, lengths, table, "k").fill_lengths(q, cu_seqlens_q.shape[0] - 1)
    *options, sinks, descales = options
    out, lse = attend_to_cache(
        q, cache, cu_seqlens_q, *options, sinks=sinks, descales=descales, dropout_p=dropout_p
    )
    return (out, lse, None) if lse is not None else out


def _attend_padded(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lengths: Tuple[Optional[Tensor], Optional[Tensor]],
    kind: Kind,
    softcap: float,
    alibi_slopes: Optional[Tensor],
    sinks: Optional[Tensor],
    with_lse: bool,
    descales: Tuple[Optional[Tensor], ...],
    sources: Tuple[Optional[Sources], Optional[QuantizeGradient]],
    output: Optional[Output],
) -> Result:
    """Attention of batch entries ``[batch, positions, heads, head dim]``, of whose positions the first ones count."""
    query, key, value = (with_unit_stride(x, name).transpose(1, 2) for x, name in ((q, "q"), (k, "k"), (v, "v")))
    clause, operands = find_sinks(sinks, q.shape[2])
    given = {f"seqused_{side}": used for side, used in zip("qk", lengths) if used is not None}
    for name, used in given.items():
        check_integers(name, used, q.shape[0])
    others = {"seqused_q": lengths[0], "straight_through": sources[0], "dropout_p": kind.dropout_p or None}
    of_keys = find_key_clauses(query, key, value, None, lengths[1], others, (sinks, *descales))
    if of_keys is None:
        of_keys = find_clauses(query, key, None, None, None, *lengths)
    clauses, captures = " ".join(filter(None, (clause, of_keys[0]))), [*operands, *of_keys[1]]
    shift = None
    if alibi_slopes is not None:
        check_slopes(alibi_slopes, q.shape[0], q.shape[2])
        queries, keys = (
            torch.full((q.shape[0],), x.shape[1], dtype=torch.int32, device=q.device) if used is None else used
            for used, x in zip(lengths, (q, k))
        )
        shift = keys - queries
        captures += [alibi_slopes, shift]
    kind = kind._replace(clauses=clauses, score_mod=write_score_mod(softcap, alibi_slopes, shift))
    straight_through = move_sources(sources[0], (q, k, v), lambda source, _: source.transpose(1, 2))
    if output is not None:
        return _attend_rounded(
            query, key, value, captures, kind, with_lse, descales, output, lambda out: out.transpose(1, 2)
        )
    out, lse = attend_scaled(
        query, key, value, captures, kind, with_lse, descales, straight_through, sources[1]
    )
    out = out.transpose(1, 2)
    return (out, lse, None) if with_lse and lse is not None else out


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
    attention_chunk: int = 0,
    s_aux: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor, Tensor, List[Tensor], Kind]:
    """The tensors of ``flash_attn_varlen_func`` as ``[1, heads, positions, head dim]``, operands and captures, and the
    kind."""
    bounds = {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}
    _check(3, softmax_scale, dropout_p, softcap, q=q, k=k, v=v, **bounds)
    clause, captures = find_sinks(s_aux, q.shape[1])
    captures += check_entries(bounds)
    shift = None
    if alibi_slopes is not None:
        check_slopes(alibi_slopes, max(cu_seqlens_q.shape[0] - 1, 0), q.shape[1])
        shift = cu_seqlens_k.diff() - cu_seqlens_q.diff()
        captures += [alibi_slopes, shift]
    score_mod = write_score_mod(softcap, alibi_slopes, shift)
    mask = write_flash_mask(causal, window_size, attention_chunk)
    kind = _make_kind(mask, softmax_scale, score_mod, dropout_p, deterministic, f"{clause} packed".strip())
    query, key, value = (with_unit_stride(x, name).transpose(0, 1)[None] for x, name in ((q, "q"), (k, "k"), (v, "v")))
    return query, key, value, captures, kind


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Optional[Tensor] = None,
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
    out_dtype: Optional[torch.dtype] = None,
    out_scale: Optional[Tensor] = None,
    return_amax: bool = False,
    seqused_q: Optional[Tensor] = None,
    attention_chunk: int = 0,
    s_aux: Optional[Tensor] = None,
    q_descale: Optional[Tensor] = None,
    k_descale: Optional[Tensor] = None,
    v_descale: Optional[Tensor] = None,
    qv: Optional[Tensor] = None,
    num_splits: int = 0,
    pack_gqa: Optional[bool] = None,
    sm_margin: int = 0,
) -> Result:
    """Computes what ``flash_attn_varlen_func`` of the package flash-attn does: attention of sequences that are stored
    one after another, in tensors ``[positions, heads, head dim]``.

    Sequence ``s`` of the queries is at positions ``cu_seqlens_q[s]`` to ``cu_seqlens_q[s + 1]`` (``torch.int32``), and
    of the keys at ``cu_seqlens_k[s]`` to ``cu_seqlens_k[s + 1]``, of which the first ``seqused_q[s]`` and
    ``seqused_k[s]`` count, all by default: outputs of other queries are 0. The largest lengths are not needed, and an
    error if boundaries on the host have a longer sequence. Positions count from the start of a sequence, and all else
    is as in ``flash_attn_func``. The log-sum-exp is ``[heads, positions]``.

    With ``block_table`` (``[sequences, pages of a sequence]``, ``torch.int32``) keys and values are pages
    ``[pages, page size, key heads, head dim]``, as in ``flash_attn_with_kvcache``. Sequence ``s`` has ``seqused_k[s]``
    keys, or by default ``cu_seqlens_k[s + 1] - cu_seqlens_k[s]``. Without ``block_table`` and ``cu_seqlens_k``, keys
    and values are ``[sequences, positions, key heads, head dim]``, of which the first ``seqused_k[s]`` count, all by
    default. Chunks of prompts and single new tokens of any number of sequences are one call. There are no gradients
    then.

    Without ``cu_seqlens_q`` and ``cu_seqlens_k``, queries are ``[sequences, positions, heads, head dim]``, too, of
    which the first ``seqused_q[s]`` count: outputs of the others are 0. There are gradients, and the log-sum-exp is
    ``[sequences, heads, positions]``. Scales of 8 bits (``q_descale``, ``k_descale``, ``v_descale``) are for keys with
    a dimension of sequences. ``out_dtype``, ``out_scale`` and ``return_amax`` are as in ``sdpa``, without packed
    queries of a KV cache; an ``out_scale`` of each head needs a dimension of sequences, too.
    """
    refuse_qv(qv)
    descales = (q_descale, k_descale, v_descale)
    mask = write_flash_mask(causal, window_size, attention_chunk)
    output = check_output(out_dtype, out_scale, return_amax, dropout_p, straight_through, quantize_dout)
    if cu_seqlens_q is None:
        if block_table is not None or cu_seqlens_k is not None:
            other = "cu_seqlens_k" if block_table is None else "block_table"
            raise AttnError(f"cu_seqlens_q is None, and is needed with {other}")
        _check(4, softmax_scale, dropout_p, softcap, q=q, k=k, v=v)
        kind = _make_kind(mask, softmax_scale, "", dropout_p, deterministic)
        result = _attend_padded(
            q, k, v, (seqused_q, seqused_k), kind, softcap, alibi_slopes, s_aux, return_attn_probs, descales,
            (straight_through, quantize_dout), output,
        )  # fmt: skip
        if dropout_p != 1:
            return result
        return (drop_all(result[0]), *result[1:]) if isinstance(result, tuple) else drop_all(result)
    check_longest("max_seqlen_q", max_seqlen_q, cu_seqlens_q)
    check_longest("max_seqlen_k", max_seqlen_k, cu_seqlens_k)
    if block_table is not None or (cu_seqlens_k is None and isinstance(k, Tensor) and k.dim() == 4):
        _check(3, softmax_scale, dropout_p, softcap, q=q)
        for name, given in (("straight_through", straight_through), ("quantize_dout", quantize_dout)):
            if given is not None:
                raise UnsupportedError(f"{name} is given for attention with a KV cache, which has no gradients")
        if output is not None:
            raise UnsupportedError(
                "out_dtype is given with cu_seqlens_q and a KV cache; leave it out, and call quantize(out)"
            )
        if seqused_q is not None:
            raise UnsupportedError(
                "seqused_q is given with cu_seqlens_q and a KV cache; give the ends of sequences by cu_seqlens_q"
            )
        lengths = _find_lengths(cu_seqlens_q, cu_seqlens_k, seqused_k, block_table is not None)
        options = (mask, softmax_scale, softcap, alibi_slopes, return_attn_probs, s_aux, descales)
        return _attend_packed(q, k, v, cu_seqlens_q, lengths, block_table, dropout_p, options)
    if cu_seqlens_k is None:
        raise AttnError("cu_seqlens_k is None, and is needed unless k is a cache of 4 dimensions")
    for name, scale in zip(NAMES, descales):
        if scale is not None:
            raise UnsupportedError(
                f"{name} is given, which packed keys do not have; pass keys [sequences, positions, key heads, head dim]"
            )
    if seqused_q is not None or seqused_k is not None:
        cu_seqlens_q, cu_seqlens_k, alibi_slopes = _split_unused(
            cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, alibi_slopes
        )
    query, key, value, captures, kind = prepare_varlen(
        q, k, v, cu_seqlens_q, cu_seqlens_k, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes,
        deterministic, attention_chunk, s_aux,
    )  # fmt: skip
    sources = move_sources(straight_through, (q, k, v), lambda source, _: source.transpose(0, 1)[None])
    if output is not None:
        return _attend_rounded(
            query, key, value, captures, kind, return_attn_probs, (None, None, None), output,
            lambda out: out[0].transpose(0, 1), dims=3,
        )  # fmt: skip
    out, lse = attend_scaled(
        query, key, value, captures, kind, return_attn_probs, (None, None, None), sources, quantize_dout
    )
    out = (drop_all(out) if dropout_p == 1 else out)[0].transpose(0, 1)
    return (out, lse[0], None) if return_attn_probs and lse is not None else out
