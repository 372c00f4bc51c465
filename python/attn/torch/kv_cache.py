# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention with a KV cache, contiguous or paged."""

import math
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple, Union, cast

import torch
from torch import Tensor

from attn.errors import AttnError, UnsupportedError
from attn.masks import Mask
from attn.torch import cache_append
from attn.torch.alibi import check_slopes, write_score_mod
from attn.torch.checks import (
    PAGE_SIZES,
    check_arguments,
    check_integers,
    check_pages,
    drop_all,
    refuse_gradients,
    with_unit_stride,
)
from attn.torch.descale import check_descale, descale
from attn.torch.flash_arguments import check_entries, find_sinks, refuse_qv
from attn.torch.kernels import FLOAT8, Kind, has_values_in_keys, read_mask
from attn.torch.ops import attend, is_plain
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
    *,
    page_table: Optional[Tensor] = None,
    cu_seqlens_q: Optional[Tensor] = None,
    max_seqlen_q: Optional[int] = None,
    rotary_seqlens: Optional[Tensor] = None,
    attention_chunk: int = 0,
    s_aux: Optional[Tensor] = None,
    qv: Optional[Tensor] = None,
    cu_seqlens_k_new: Optional[Tensor] = None,
    scheduler_metadata: Any = None,
    pack_gqa: Optional[bool] = None,
    sm_margin: int = 0,
    mask: Optional[Mask] = None,
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
    (``[heads]`` or ``[batch, heads]``) times the distance of query and key is subtracted from scores. With
    ``return_softmax_lse`` the second result is the log-sum-exp ``[batch, heads, queries]``. There are no gradients.

    From ``page_table`` on, arguments are those of FlashAttention-3, by name:

    - ``page_table`` is its name of ``block_table``;
    - ``cu_seqlens_q`` (``torch.int32``): queries are packed, ``[positions, heads, head dim]``, those of entry ``b`` at
      ``cu_seqlens_q[b]`` to ``cu_seqlens_q[b + 1]``. The log-sum-exp is ``[heads, positions]``. ``max_seqlen_q`` is not
      needed, and an error if boundaries on the host have a longer sequence;
    - ``rotary_seqlens`` (``torch.int32``) take the place of ``cache_seqlens`` in the positions that rotate. Operations
      of torch rotate then, and packed queries;
    - ``attention_chunk``: queries attend to keys of their own chunk of so many positions;
    - ``s_aux``: sinks, a logit for each query head (``[heads]``) that takes part in the softmax without a value;
    - ``num_splits``, ``scheduler_metadata``, ``pack_gqa`` and ``sm_margin`` have no effect: the compiler chooses how
      kernels split keys and pack heads;
    - ``cu_seqlens_k_new`` (``torch.int32``): ``k`` and ``v`` are packed, ``[positions, key heads, head dim]``, those of
      entry ``b`` at ``cu_seqlens_k_new[b]`` to ``cu_seqlens_k_new[b + 1]``. Contiguous caches have a multiple of 16
      positions then;
    - ``qv`` is refused.

    Where ``v_cache`` is a slice of the first elements of ``k_cache``, as in multi-head latent attention
    (``v_cache = k_cache[..., :512]``), kernels read each row of the cache once.

    Caches of ``torch.float8_e4m3fn`` and ``torch.float8_e5m2`` are multiplied by ``k_descale`` and ``v_descale``,
    ``[batch, key heads]`` of ``torch.float32``, or one for all, as in FlashAttention-3; ``q_descale`` is for queries of
    8 bits, which kernels of GPUs do not take with caches. New keys and values are divided by the same scales and
    rounded to the type of the cache; quotients beyond its largest number become that number.

    ``mask``, one of ``attn.masks``, applies together with ``causal`` and ``window_size``. Masks see the lengths of each
    entry, new keys included: with ``masks.tree(parents)`` queries are nodes of a tree whose keys are the last ones, as
    in speculative decoding. Parents of packed queries, ``[1, positions]``, are rows of ``q``. Ids of
    ``masks.documents`` are for all positions of a contiguous cache.
    """
    refuse_qv(qv)
    if attention_chunk and cache_leftpad is not None:
        raise UnsupportedError(
            "attention_chunk is given with cache_leftpad, from which FlashAttention-3 counts chunks; move the first "
            "keys that count to the start of the cache"
        )
    if page_table is not None:
        if block_table is not None:
            raise AttnError("page_table and block_table are two names of one argument; pass one")
        block_table = page_table
    _check(q, k_cache, v_cache, k, v, softmax_scale, softcap, cu_seqlens_q, cu_seqlens_k_new)
    batch = q.shape[0] if cu_seqlens_q is None else cu_seqlens_q.shape[0] - 1
    check_longest("max_seqlen_q", max_seqlen_q, cu_seqlens_q)
    cache = KVCache(k_cache, v_cache, cache_seqlens, block_table).select(cache_batch_idx)
    if cu_seqlens_k_new is not None and cache.table is None:
        cache = cache.select(torch.arange(batch, device=q.device), "cu_seqlens_k_new")
    cache = cache.fill_lengths(q, batch, k)
    if k is not None and v is not None:
        is_local = causal or window_size[0] != -1 or window_size[1] != -1 or attention_chunk != 0
        scales = _find_scales(cache, batch, k_descale, v_descale)
        tables = {"rotary_cos": rotary_cos, "rotary_sin": rotary_sin}
        refuse_gradients(**{name: table for name, table in tables.items() if isinstance(table, Tensor)})
        rotary = _Rotary(rotary_cos, rotary_sin, rotary_interleaved, is_local, rotary_seqlens, cu_seqlens_q)
        q, cache = _append(q, cache, k, v, rotary, scales, cu_seqlens_k_new)
    else:
        for name, given in (
            ("rotary_cos", rotary_cos), ("rotary_sin", rotary_sin), ("rotary_seqlens", rotary_seqlens),
            ("cu_seqlens_k_new", cu_seqlens_k_new),
        ):  # fmt: skip
            if given is not None:
                raise AttnError(f"{name} is given without k and v, whose positions it is for")
    out, lse = attend_to_cache(
        q, cache, cu_seqlens_q, write_flash_mask(causal, window_size, attention_chunk), softmax_scale, softcap,
        alibi_slopes, return_softmax_lse, cache_leftpad, s_aux, (q_descale, k_descale, v_descale), mask,
    )  # fmt: skip
    return (out, cast(Tensor, lse)) if return_softmax_lse else out


def _check_dtypes(q: Tensor, k_cache: Tensor, v_cache: Tensor) -> None:
    """Refuses caches of a dtype that queries do not go with."""
    for name, cache in (("k_cache", k_cache), ("v_cache", v_cache)):
        of, other = ("k_cache", k_cache) if name == "v_cache" and k_cache.dtype in FLOAT8 else ("q", q)
        are_narrow = q.dtype in FLOAT8 and cache.dtype in FLOAT8
        is_narrow = name == "k_cache" and cache.dtype in FLOAT8 and q.dtype != torch.float64
        if cache.dtype != other.dtype and not (is_narrow or are_narrow):
            raise AttnError(f"{name} has the dtype {cache.dtype} and {of} {other.dtype}; convert them to one")


def _check(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Optional[Tensor], v: Optional[Tensor],
    softmax_scale: Optional[float], softcap: float, bounds: Optional[Tensor], new_bounds: Optional[Tensor],
) -> None:  # fmt: skip
    if (k is None) != (v is None):
        raise AttnError("k and v are needed together, and one of them is None")
    new = {} if k is None or v is None else {"k": k, "v": v}
    tensors = {"q": q, "k_cache": k_cache, "v_cache": v_cache, **new}
    check_arguments(softmax_scale, 0.0, **tensors)
    packed = {"q": ("cu_seqlens_q", bounds), **dict.fromkeys(new, ("cu_seqlens_k_new", new_bounds))}
    for name, tensor in tensors.items():
        by, ends = packed.get(name, ("", None))
        wanted = "4" if ends is None else f"3 with {by}"
        if tensor.dim() != int(wanted[0]):
            raise AttnError(f"{name} has {tensor.dim()} dimensions, expected {wanted}")
    check_entries({name: ends for name, ends in packed.values() if ends is not None})
    _check_dtypes(q, k_cache, v_cache)
    refuse_gradients(**tensors)
    if not 0.0 <= softcap < math.inf:
        raise AttnError(f"softcap is {softcap}; it must be a finite number from 0")


class KVCache(NamedTuple):
    """Keys and values, the number of keys of each entry if they are not all, and their pages if there are any."""

    keys: Tensor
    values: Tensor
    lengths: Union[Tensor, int, None]
    table: Optional[Tensor]
    #: The name of the keys in diagnostics.
    name: str = "k_cache"

    def select(self, indices: Optional[Tensor], name: str = "cache_batch_idx") -> "KVCache":
        """The entries of a contiguous cache with these indices: its positions as pages, so that nothing is copied.
        ``name`` is the argument that they are for."""
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
                f"{name} needs a cache of a multiple of 16 positions with nothing between its entries, and "
                f"k_cache has {rows} positions and the strides {self.keys.stride()}"
            )
        keys, values = (cache.unflatten(1, (-1, page)).flatten(0, 1) for cache in (self.keys, self.values))
        pages = torch.arange(rows // page, dtype=torch.int32, device=indices.device)
        table = indices.to(torch.int32)[:, None] * (rows // page) + pages
        return KVCache(keys, values, rows if self.lengths is None else self.lengths, table)

    def fill_lengths(self, q: Tensor, batch: int, new: Optional[Tensor] = None) -> "KVCache":
        """The same with a tensor of lengths, if they are given, there are pages or queries are packed. The lengths
        leave room for new keys."""
        table, lengths = self.table, self.lengths
        room, of_table = self.keys.shape[1], ""
        if table is not None:
            check_pages(self.keys, self.name, table)
            if table.dim() == 2:
                room, of_table = table.shape[1] * room, f" in the {table.shape[1]} pages of a row of block_table"
            table = with_unit_stride(table, "block_table")
        if lengths is None and (table is not None or q.dim() == 3):
            lengths = room
        if lengths is None:
            return self
        if isinstance(lengths, Tensor) or not isinstance(lengths, (int, torch.SymInt)):
            lengths = check_integers("cache_seqlens" if self.name == "k_cache" else "seqused_k", lengths, batch)
        else:
            count = 0 if new is None or new.dim() != 4 else new.shape[1]
            if not 0 <= lengths <= room - count:
                behind = f" with {count} new keys" if count else ""
                raise AttnError(f"cache_seqlens is {lengths}{behind}; {self.name} has room for {room} keys{of_table}")
            lengths = torch.full((batch,), lengths, dtype=torch.int32, device=q.device)
        return self._replace(lengths=lengths, table=table)


def _find_scales(
    cache: KVCache, batch: int, k_descale: Optional[Tensor], v_descale: Optional[Tensor]
) -> Tuple[Optional[Tensor], Optional[Tensor]]:
    """What elements of the cache are multiplied by, ``[batch, key heads]`` and ``[batch, value heads]``: both or
    none."""
    if k_descale is None and v_descale is None:
        return None, None
    ks, vs = (
        tensor.new_ones(batch, tensor.shape[2], dtype=torch.float32)
        if scale is None
        else check_descale(name, scale, tensor, batch, tensor.shape[2])
        for name, scale, tensor in (("k_descale", k_descale, cache.keys), ("v_descale", v_descale, cache.values))
    )
    return ks, vs


def _find_entries(bounds: Tensor, rows: Tensor) -> Tensor:
    """The entry of each row of packed queries."""
    entries = torch.searchsorted(bounds[1:], rows, right=True, out_int32=True)
    # Kernels report boundaries that are not in order; until then no index leaves the tensors.
    return entries.clamp(max=max(bounds.shape[0] - 2, 0))


def _scale_output(out: Tensor, bounds: Tensor, scale: Tensor) -> Tensor:
    """Packed rows ``[positions, heads, value dim]`` times the scale of their entry and value head."""
    rows = torch.arange(out.shape[0], dtype=torch.int32, device=out.device)
    by_head = scale.repeat_interleave(out.shape[1] // scale.shape[1], 1)
    return (out * by_head.index_select(0, _find_entries(bounds, rows))[..., None]).to(out.dtype)


class _Rotary(NamedTuple):
    """The rotary embedding of new keys and queries, if there is one."""

    cos: Optional[Tensor]
    sin: Optional[Tensor]
    is_interleaved: bool
    #: Whether the positions of queries differ.
    is_local: bool
    #: The position of the first new key and query of each entry, if it is not the number of its keys.
    seqlens: Optional[Tensor]
    #: The boundaries of packed queries.
    bounds: Optional[Tensor]

    def check_positions(self, first: Tensor, q: Tensor, new: Union[Tensor, int]) -> Tensor:
        """Whether tables have no row for a query or a new key of each entry, ``[batch]``: an error on the host."""
        assert self.cos is not None
        counts = torch.full_like(first, q.shape[1]) if self.bounds is None else self.bounds.diff()
        longest = (counts if self.is_local else counts.clamp(max=1)).clamp(min=new)
        is_outside = (first < 0) | (first > self.cos.shape[0] - longest)
        if _is_readable(first) and bool(is_outside.any()):
            entry = int(is_outside.int().argmax())
            name = "cache_seqlens" if self.seqlens is None else "rotary_seqlens"
            raise AttnError(
                f"{name} has {int(first[entry])} for entry {entry} with {int(longest[entry])} new keys or queries, and "
                f"rotary_cos has {self.cos.shape[0]} rows"
            )
        return is_outside

    def find_positions(self, first: Tensor, q: Tensor) -> Tensor:
        """The position of each query, ``[batch, queries]`` or of packed queries ``[positions]``."""
        if self.bounds is None:
            steps = torch.arange(q.shape[1], dtype=torch.int32, device=q.device)
            return first[:, None] + (steps if self.is_local else torch.zeros_like(steps))
        rows = torch.arange(q.shape[0], dtype=torch.int32, device=q.device)
        entries = _find_entries(self.bounds, rows)
        firsts = first.index_select(0, entries)
        return firsts + rows - self.bounds.index_select(0, entries) if self.is_local else firsts

    def rotate(self, rows: Tensor, positions: Tensor) -> Tensor:
        """Rows ``[..., heads, head dim]`` rotated by their positions ``[...]``, NaN where tables have no row."""
        assert self.cos is not None and self.sin is not None
        inside = positions.clamp(0, max(self.cos.shape[0] - 1, 0)).long()
        is_missing = (inside != positions)[..., None, None]
        cos, sin = (table[inside].unsqueeze(-2).masked_fill(is_missing, math.nan) for table in (self.cos, self.sin))
        if rows.dtype != torch.float64:
            cos, sin = cos.float(), sin.float()
        return cache_append.rotate_pairs(rows, cos, sin, self.is_interleaved)


def _is_readable(tensor: Tensor) -> bool:
    """Whether numbers of a tensor are known on the host, so that wrong ones are an error before anything is written."""
    return not torch.compiler.is_compiling() and tensor.device.type == "cpu" and is_plain(tensor)


def check_longest(name: str, longest: Any, bounds: Optional[Tensor]) -> None:
    """Refuses a largest length that is smaller than one of the sequences with these boundaries, where these are known.
    No kernel reads it: results follow from the boundaries alone."""
    if longest is None or torch.compiler.is_compiling():
        return
    if isinstance(longest, bool) or not isinstance(longest, (int, torch.SymInt, Tensor)):
        raise AttnError(f"{name} is a {type(longest).__name__}; pass a number, or None")
    if isinstance(longest, Tensor):
        # Lengths on a device are not waited for.
        if longest.numel() != 1 or not _is_readable(longest):
            return
        longest = longest.item()
    if longest < 0:
        raise AttnError(f"{name} is {longest}; it must be at least 0")
    if isinstance(bounds, Tensor) and _is_readable(bounds) and bounds.numel() > 1:
        length = int(bounds.diff().max())
        if longest < length:
            of = name.replace("max_seqlen", "cu_seqlens")
            raise AttnError(f"{name} is {longest}, and a sequence of {of} has a length of {length}")


class _NewRows(NamedTuple):
    """Packed new keys as entries of an append with one new key each."""

    entries: Tensor
    #: The place of each row among the new rows of its entry.
    steps: Tensor
    #: The numbers of new keys, `[batch]`.
    counts: Tensor

    @staticmethod
    def find(bounds: Tensor, rows: int, lengths: Tensor) -> Tuple["_NewRows", Tensor]:
        """The rows, and whether boundaries are wrong."""
        check_integers("cu_seqlens_k_new", bounds, lengths.shape[0] + 1)
        counts = bounds.diff()
        is_wrong = (bounds[0] != 0) | (bounds[-1] != rows) | (counts < 0).any()
        if _is_readable(bounds) and bool(is_wrong):
            raise AttnError(
                f"cu_seqlens_k_new must not decrease, from 0 to the {rows} rows of k, found {bounds.tolist()}"
            )
        numbers = torch.arange(rows, dtype=torch.int32, device=bounds.device)
        entries = _find_entries(bounds, numbers)
        return _NewRows(entries, numbers - bounds.index_select(0, entries), counts), is_wrong


def _append(
    q: Tensor,
    cache: KVCache,
    k: Tensor,
    v: Tensor,
    rotary: _Rotary,
    scales: Tuple[Optional[Tensor], Optional[Tensor]],
    new_bounds: Optional[Tensor] = None,
) -> Tuple[Tensor, KVCache]:
    """Writes new keys and values, packed ones with boundaries; gives the rotated queries, and the cache with its new
    lengths."""
    if not isinstance(cache.lengths, Tensor):
        raise AttnError("cache_seqlens is None, and k needs it: the number of keys that the cache has before")
    batch = q.shape[0] if rotary.bounds is None else rotary.bounds.shape[0] - 1
    if rotary.seqlens is not None:
        check_integers("rotary_seqlens", rotary.seqlens, batch)
        if rotary.cos is None:
            raise AttnError("rotary_seqlens is given without rotary_cos and rotary_sin")
    cos, sin = rotary.cos, rotary.sin
    cache_append.check_tables(cos, sin, k.shape[-1])
    check_integers("cache_seqlens", cache.lengths, batch)
    lengths, table = cache.lengths, cache.table
    new: Optional[_NewRows] = None
    is_wrong: Optional[Tensor] = None
    if new_bounds is not None:
        assert table is not None
        new, is_wrong = _NewRows.find(new_bounds, k.shape[0], lengths)
        is_wrong = is_wrong | (lengths < 0) | (lengths > table.shape[1] * cache.keys.shape[1] - new.counts)
    uses_torch = cos is not None and not (rotary.seqlens is rotary.bounds is new_bounds is None)
    if uses_torch:
        first = lengths if rotary.seqlens is None else rotary.seqlens
        is_outside = rotary.check_positions(first, q, k.shape[1] if new is None else new.counts)
        is_wrong = is_outside if is_wrong is None else is_wrong | is_outside
        q = rotary.rotate(q, rotary.find_positions(first, q))
        if rotary.seqlens is not None:
            if new is None:
                positions = first[:, None] + torch.arange(k.shape[1], dtype=torch.int32, device=k.device)
            else:
                positions = first.index_select(0, new.entries) + new.steps
            k = rotary.rotate(k, positions)
            cos = sin = None
    if is_wrong is not None:
        # Kernels report a negative length, and write nothing for its entry.
        lengths = lengths.masked_fill(is_wrong, -1)
    grown = None
    if new is not None:
        grown = lengths + new.counts
        if not k.shape[0]:
            return q, cache._replace(lengths=grown)
        lengths, table, *of_rows = (
            None if x is None else x.index_select(0, new.entries) for x in (lengths, cache.table, *scales)
        )
        lengths = torch.where(lengths < 0, lengths, lengths + new.steps)
        scales = (of_rows[0], of_rows[1])
        k, v = k[:, None], v[:, None]
    rotates_queries = cos is not None and not uses_torch
    key, value = (with_unit_stride(tensor, name).transpose(1, 2) for tensor, name in ((k, "k"), (v, "v")))
    query = with_unit_stride(q, "q").transpose(1, 2) if rotates_queries else None
    keys, values = cache.keys.transpose(1, 2), cache.values.transpose(1, 2)
    rotated, after = cache_append.cache_append(
        cache_append.Arguments(
            key, value, keys, values, lengths, table, cos, sin, query, rotary.is_interleaved, not rotary.is_local,
            *scales,
        )
    )  # fmt: skip
    after = after if grown is None else grown
    return q if rotated is None else rotated.transpose(1, 2), cache._replace(lengths=after)


def attend_to_cache(
    q: Tensor,
    cache: KVCache,
    bounds: Optional[Tensor],
    mask: str,
    scale: Optional[float],
    softcap: float,
    alibi_slopes: Optional[Tensor],
    with_lse: bool,
    leftpad: Optional[Tensor] = None,
    sinks: Optional[Tensor] = None,
    descales: Sequence[Optional[Tensor]] = (None, None, None),
    further: Optional[Mask] = None,
    dropout_p: float = 0.0,
) -> Tuple[Tensor, Optional[Tensor]]:
    """Attention of queries ``[batch, queries, heads, head dim]``, or of packed ones ``[positions, heads, head dim]``
    with boundaries. ``further`` is a mask beside ``mask``."""
    clause, operands = find_sinks(sinks, q.shape[-2])
    refuse_gradients(**({} if sinks is None else {"s_aux": sinks}))
    clauses = [clause] if clause else []
    batch = q.shape[0]
    if bounds is not None:
        assert isinstance(cache.lengths, Tensor)
        batch = bounds.shape[0] - 1
        operands += [with_unit_stride(bounds, "cu_seqlens_q"), cache.lengths]
        clauses.append("packed_queries")
    elif isinstance(cache.lengths, Tensor):
        operands.append(cache.lengths)
        clauses.append("key_lengths")
    if cache.table is not None:
        operands.append(cache.table)
        clauses.append("page_table")
    if not torch.compiler.is_compiling() and has_values_in_keys(cache.keys, cache.values):
        clauses.append("values_in_keys")
    of_kernels = 0.0 if dropout_p == 1 else dropout_p
    kind = make_kind(mask, scale, None)._replace(clauses=" ".join(clauses), dropout_p=of_kernels)
    kind, captures = _add_regions(kind, q, cache, bounds, batch, softcap, alibi_slopes, leftpad)
    key, value = (
        with_unit_stride(tensor, name).transpose(1, 2)
        for tensor, name in ((cache.keys, cache.name), (cache.values, cache.name.replace("k", "v", 1)))
    )
    query = with_unit_stride(q, "q")
    query = query.transpose(1, 2) if bounds is None else query.transpose(0, 1)[None]
    of_values = None
    if bounds is not None and descales[2] is not None:
        # Kernels for sequences have no epilogue.
        of_values = check_descale("v_descale", descales[2], value, batch, value.shape[1])
        descales = (*descales[:2], None)
    kind, captures = _add_mask(kind, [*operands, *captures], further, None if bounds is None else q.shape[0])
    kind, captures = descale(kind, captures, query, key, value, descales, batch)
    out, lse = attend(query, key, value, captures, kind, with_lse)
    out = drop_all(out) if dropout_p == 1 else out
    if bounds is None:
        return out.transpose(1, 2), lse
    out = out[0].transpose(0, 1)
    out = out if of_values is None else _scale_output(out, bounds, of_values)
    return out, lse[0] if with_lse and lse is not None else None


def _add_regions(
    kind: Kind,
    q: Tensor,
    cache: KVCache,
    bounds: Optional[Tensor],
    batch: int,
    softcap: float,
    alibi_slopes: Optional[Tensor],
    leftpad: Optional[Tensor],
) -> Tuple[Kind, List[Tensor]]:
    """The kind with changes of scores, and the tensors that it reads."""
    captures: List[Tensor] = []
    shift = None
    if alibi_slopes is not None:
        check_slopes(alibi_slopes, batch, q.shape[-2])
        # The last query is at the last key.
        lengths = cache.lengths
        if not isinstance(lengths, Tensor):
            lengths = torch.full((batch,), cache.keys.shape[1], dtype=torch.int32, device=q.device)
        check_integers("cache_seqlens" if cache.name == "k_cache" else "seqused_k", lengths, batch)
        shift = lengths - (q.shape[1] if bounds is None else bounds.diff())
        captures += [alibi_slopes, shift]
    score = write_score_mod(softcap, alibi_slopes, shift)
    keep = ""
    if leftpad is not None:
        check_integers("cache_leftpad", leftpad, batch)
        keep = _write_leftpad(leftpad, len(captures))
        captures.append(leftpad)
    return kind._replace(score_mod=score, mask_mod=keep), captures


def _add_mask(
    kind: Kind, captures: List[Tensor], mask: Optional[Mask], rows: Optional[int]
) -> Tuple[Kind, List[Tensor]]:
    """The kind with one more named mask, and the tensors that it reads before the others. ``rows`` is the number of
    packed queries, if they are packed."""
    if mask is None:
        return kind, captures
    if not isinstance(mask, Mask):
        raise AttnError(f"mask is a {type(mask).__name__}; pass one of attn.masks")
    named, reads = read_mask(mask, "mask")
    if rows is not None and "#attn.tree" in named:
        for read in reads:
            if tuple(read.shape) != (1, rows):
                raise AttnError(
                    f"mask reads a tensor of the shape {tuple(read.shape)}, expected (1, {rows}): with cu_seqlens_q "
                    "parents are rows of q, of all entries"
                )
    if kind.mask:
        named = f"#attn.and<{kind.mask}, {named}>"
    return kind._replace(mask=named, reads=len(reads)), [*reads, *captures]


def _write_leftpad(leftpad: Tensor, number: int) -> str:
    return (
        f"%first32 = tensor.extract %c{number}[%b] : {capture_type(leftpad)} "
        "%first = arith.index_cast %first32 : i32 to index %keep = arith.cmpi sge, %j, %first : index "
        "attn.yield %keep : i1"
    )
