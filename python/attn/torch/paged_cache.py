# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""KV caches whose pages sequences share out among them."""

from typing import Any, Dict, Hashable, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from attn.errors import AttnError
from attn.torch.kv_cache import PAGE_SIZES, flash_attn_with_kvcache


class Pages(NamedTuple):
    """The keys and values of a batch whose entries have the same number of keys."""

    #: Pools ``[pages, page size, key heads, head dim]``.
    keys: Tensor
    values: Tensor
    #: ``num_keys`` for each entry.
    lengths: Tensor
    table: Tensor
    num_keys: int

    def attach(self) -> Tuple[Tensor, Tensor]:
        """Tensors for a model that passes keys and values on as they are: ``find_pages`` finds the pages again."""
        tensors = self.keys.transpose(1, 2), self.values.transpose(1, 2)
        for tensor in tensors:
            tensor.attn_pages = self  # type: ignore[attr-defined]
        return tensors

    def gather(self) -> Tuple[Tensor, Tensor]:
        """Copies ``[batch, key heads, keys, head dim]``."""
        table = self.table.long()
        keys, values = (pool[table].flatten(1, 2)[:, : self.num_keys].transpose(1, 2) for pool in self[:2])
        return keys, values


def find_pages(key: Tensor) -> Optional[Pages]:
    """The pages that ``Pages.attach`` gave this tensor for, if it did."""
    return getattr(key, "attn_pages", None)


class PagedKVCache:
    """Keys and values of all layers of a model, in pages. A sequence has the same pages in each layer.

    ``keys[layer]`` and ``values[layer]`` are pools ``[pages, page size, key heads, head dim]``, of values with
    ``value_heads`` if they are given, as ``flash_attn_with_kvcache`` takes them. The host keeps the numbers of the
    pages of each sequence, which any hashable object names. It does not keep lengths: before a call that writes new
    keys, ``reserve`` makes room for them, and ``table`` gives the pages to the device.

        cache = PagedKVCache(32, 8, 128, pages=4096, dtype=torch.bfloat16, device="cuda")
        cache.reserve("a", 1000)
        out = cache.attend(layer, q, k, v, cache_seqlens=lengths, block_table=cache.table(["a"]), causal=True)
        cache.release("a")
    """

    def __init__(
        self,
        layers: int,
        key_heads: int,
        head_dim: int,
        *,
        pages: int,
        page_size: int = 64,
        value_dim: Optional[int] = None,
        value_heads: Optional[int] = None,
        dtype: torch.dtype = torch.float32,
        device: Union[torch.device, str] = "cpu",
    ):
        if page_size not in PAGE_SIZES:
            raise AttnError(f"page_size is {page_size}; it must be one of {', '.join(map(str, PAGE_SIZES))}")
        value_heads = key_heads if value_heads is None else value_heads
        for name, size in (
            ("layers", layers), ("key_heads", key_heads), ("value_heads", value_heads), ("head_dim", head_dim),
            ("pages", pages),
        ):  # fmt: skip
            if not isinstance(size, int) or size < 1:
                raise AttnError(f"{name} is {size!r}; it must be a number from 1")
        self.page_size = page_size

        def make(heads: int, dim: int) -> List[Tensor]:
            return [torch.empty(pages, page_size, heads, dim, dtype=dtype, device=device) for _ in range(layers)]

        self.keys = make(key_heads, head_dim)
        self.values = make(value_heads, head_dim if value_dim is None else value_dim)
        # The pages that were released last are taken first: they may still be in a cache of the device.
        self._free = list(reversed(range(pages)))
        self._pages: Dict[Hashable, List[int]] = {}

    @property
    def num_free_pages(self) -> int:
        """The number of pages that no sequence has."""
        return len(self._free)

    @property
    def sequences(self) -> Tuple[Hashable, ...]:
        """The sequences that have pages."""
        return tuple(self._pages)

    def count_pages(self, length: int) -> int:
        """The number of pages that so many keys need."""
        return -(-length // self.page_size)

    def can_reserve(self, sequence: Hashable, length: int) -> bool:
        """Whether ``reserve`` would find enough pages."""
        return self.count_pages(length) - len(self._pages.get(sequence, ())) <= len(self._free)

    def reserve(self, sequence: Hashable, length: int) -> None:
        """Gives a sequence, which may be a new one, pages for ``length`` keys in all, or raises an ``AttnError`` and
        changes nothing."""
        if length < 0:
            raise AttnError(f"length is {length}; it must be a number from 0")
        if not self.can_reserve(sequence, length):
            have = len(self._pages.get(sequence, ()))
            raise AttnError(
                f"sequence {sequence!r} needs {self.count_pages(length)} pages for {length} keys and has {have}, but "
                f"only {len(self._free)} pages are free; release other sequences, or make the cache with more pages"
            )
        own = self._pages.setdefault(sequence, [])
        while len(own) < self.count_pages(length):
            own.append(self._free.pop())

    def trim(self, sequence: Hashable, length: int) -> None:
        """Takes the pages behind key ``length`` from a sequence."""
        own = self._find(sequence)
        while len(own) > self.count_pages(length):
            self._free.append(own.pop())

    def release(self, sequence: Hashable) -> None:
        """Takes all pages from a sequence."""
        self._free.extend(reversed(self._find(sequence)))
        del self._pages[sequence]

    def _find(self, sequence: Hashable) -> List[int]:
        if sequence not in self._pages:
            raise AttnError(f"sequence {sequence!r} has no pages; reserve them first")
        return self._pages[sequence]

    def table(self, sequences: Sequence[Hashable], out: Optional[Tensor] = None) -> Tensor:
        """The page table of a batch of these sequences, ``[batch, pages of an entry]``, -1 where an entry has fewer.

        ``out`` is a table to be written, for CUDA graphs that read it at each replay: it may have more rows and
        columns, which are then -1. An entry of None has no pages.
        """
        rows = [[] if sequence is None else self._find(sequence) for sequence in sequences]
        width = max([len(row) for row in rows], default=0)
        shape = (len(rows), width) if out is None else tuple(out.shape)
        if len(shape) != 2 or shape[0] < len(rows) or shape[1] < width:
            raise AttnError(f"out has the shape {shape}, expected at least ({len(rows)}, {width})")
        device = self.keys[0].device
        table = torch.full(shape, -1, dtype=torch.int32, pin_memory=device.type == "cuda")
        for number, row in enumerate(rows):
            table[number, : len(row)] = torch.tensor(row, dtype=torch.int32)
        if out is None:
            return table.to(device, non_blocking=True)
        if out.dtype != torch.int32:
            raise AttnError(f"out has the dtype {out.dtype}, expected torch.int32")
        return out.copy_(table, non_blocking=True)

    def attend(
        self,
        layer: int,
        q: Tensor,
        k: Optional[Tensor] = None,
        v: Optional[Tensor] = None,
        **options: Any,
    ) -> Union[Tensor, Tuple[Tensor, Tensor]]:
        """``flash_attn_with_kvcache`` with the pools of a layer. ``options`` are its other arguments, of which
        ``cache_seqlens`` and ``block_table`` are needed."""
        for name in ("cache_seqlens", "block_table"):
            if options.get(name) is None:
                raise AttnError(f"{name} is not given, and a paged cache needs it")
        return flash_attn_with_kvcache(q, self.keys[layer], self.values[layer], k, v, **options)
