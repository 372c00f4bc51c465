# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A paged KV cache for Hugging Face Transformers.

The attention "attn" (``attn.transformers.register``) reads its pages in place. Other attentions do not know them.
"""

from typing import Any, List, Optional, Tuple

import torch
from torch import Tensor
from transformers import Cache, PreTrainedConfig
from transformers.cache_utils import CacheLayerMixin

from attn.errors import AttnError
from attn.torch.cache_append import Arguments, cache_append
from attn.torch.paged_cache import PagedKVCache, Pages
from attn.transformers import registered


class _Layer(CacheLayerMixin):
    """The keys and values of one layer. All batch entries have the same number of keys."""

    is_sliding = False
    is_croppable = True
    supports_early_init = False

    def __init__(self, owner: "PagedCache", number: int):
        super().__init__()
        self._owner = owner
        self._number = number
        self.length = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self._owner._make_pools(key_states, value_states)
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> Tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        owner, (batch, _, new, _) = self._owner, key_states.shape
        table = owner._reserve(batch, self.length + new)
        lengths = owner._make_lengths(batch, self.length)
        self.length += new
        return self._append(key_states, value_states, lengths, table, self.length)

    def _append(
        self, key_states: Tensor, value_states: Tensor, lengths: Tensor, table: Optional[Tensor], num_keys: int
    ) -> Tuple[Tensor, Tensor]:
        """Writes new keys behind the ``lengths`` that entries have; gives the pages, with room for ``num_keys``."""
        pools = self._owner._pools
        keys, values = pools.keys[self._number], pools.values[self._number]
        if keys.shape[2] != key_states.shape[1] or keys.shape[3] != key_states.shape[3]:
            raise AttnError(
                f"layer {self._number} has {key_states.shape[1]} key heads of the head dim {key_states.shape[3]}, and "
                f"the first layer {keys.shape[2]} of {keys.shape[3]}; a paged cache needs layers of one kind"
            )
        key, value = (each if each.stride(-1) == 1 else each.contiguous() for each in (key_states, value_states))
        _, lengths = cache_append(Arguments(key, value, keys.transpose(1, 2), values.transpose(1, 2), lengths, table))
        return Pages(keys, values, lengths, table, num_keys).attach()

    def get_mask_sizes(self, query_length: int) -> Tuple[int, int]:
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1

    def reset(self) -> None:
        self.length = 0

    def crop(self, tokens_to_remove: int) -> None:
        if tokens_to_remove > 0:
            raise ValueError(f"tokens_to_remove is {tokens_to_remove}; it must be the negative of a number of tokens")
        self.length = max(self.length + tokens_to_remove, 0)


class _StaticLayer(_Layer):
    """A layer with room for a number of keys of each batch entry, whose length only the device knows, so that
    ``torch.compile`` compiles one graph for all lengths."""

    is_compileable = True
    is_croppable = False

    def __init__(self, owner: "PagedCache", number: int, max_length: int):
        super().__init__(owner, number)
        self.max_cache_len = max_length
        self.cumulative_length = torch.tensor(0, dtype=torch.int32)
        self._table: Optional[Tensor] = None

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        super().lazy_initialization(key_states, value_states)
        self._table = self._owner._reserve(key_states.shape[0], self.max_cache_len)
        self.cumulative_length = self.cumulative_length.to(key_states.device)
        if not torch.compiler.is_compiling():
            torch._dynamo.mark_static_address(self.cumulative_length)

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> Tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        batch, _, new, _ = key_states.shape
        lengths = self.cumulative_length.expand(batch).contiguous()
        self.cumulative_length.add_(new)
        return self._append(key_states, value_states, lengths, self._table, self.max_cache_len)

    def get_mask_sizes(self, query_length: int) -> Tuple[int, int]:
        return self.max_cache_len, 0

    def get_seq_length(self) -> Any:
        return self.cumulative_length if self.is_initialized else 0

    def get_max_length(self) -> int:
        return self.max_cache_len

    def reset(self) -> None:
        self.cumulative_length.zero_()

    def crop(self, tokens_to_remove: int) -> None:
        raise AttnError("a paged cache with max_length does not know its length on the host; crop one without it")


class PagedCache(Cache):
    """The KV cache of a model in pages of ``attn.torch.PagedKVCache``, which it makes when it sees the first keys.

        attn.transformers.register()
        model.set_attn_implementation("attn")
        cache = attn.transformers_cache.PagedCache(model.config, pages=512)
        model.generate(tokens, past_key_values=cache)

    New keys are written into pages in place, and attention reads them there. ``pages`` is the number of pages of all
    batch entries; each layer has a pool of so many. Sliding windows are part of the mask, so all keys stay.

    With ``max_length`` each batch entry has pages for so many keys from the first call on, and only the device knows
    how many it has, as in ``StaticCache``: ``torch.compile`` compiles one graph for all lengths.
    """

    def __init__(
        self, config: PreTrainedConfig, *, pages: int, page_size: int = 64, max_length: Optional[int] = None
    ):
        self._config = config.get_text_config(decoder=True)
        count = self._config.num_hidden_layers
        if max_length is None:
            layers = [_Layer(self, number) for number in range(count)]
        else:
            layers = [_StaticLayer(self, number, max_length) for number in range(count)]
        super().__init__(layers=layers)
        self._num_pages, self._page_size = pages, page_size
        self._pools: Any = None
        self._table: Optional[Tensor] = None
        self._lengths: Optional[Tuple[Tuple[int, int], Tensor]] = None

    def _make_pools(self, key: Tensor, value: Tensor) -> None:
        name = self._config._attn_implementation
        if name not in registered:
            raise AttnError(
                f"the model has the attention {name!r}, which does not know pages; call attn.transformers.register() "
                'and model.set_attn_implementation("attn")'
            )
        if self._pools is None:
            self._pools = PagedKVCache(
                len(self.layers), key.shape[1], key.shape[3], pages=self._num_pages, page_size=self._page_size,
                value_dim=value.shape[3], dtype=key.dtype, device=key.device,
            )  # fmt: skip

    def _reserve(self, batch: int, length: int) -> Tensor:
        """Makes room for so many keys of each batch entry; gives their table."""
        pools = self._pools
        if self._table is None or self._table.shape != (batch, pools.count_pages(length)):
            for entry in range(batch):
                pools.reserve(entry, length)
            self._table = pools.table(range(batch))
        return self._table

    def _make_lengths(self, batch: int, length: int) -> Tensor:
        """The same tensor for all layers of a step."""
        if self._lengths is None or self._lengths[0] != (batch, length):
            made = torch.full((batch,), length, dtype=torch.int32, device=self._pools.keys[0].device)
            self._lengths = (batch, length), made
        return self._lengths[1]

    def _select(self, indices: List[int]) -> None:
        """Gives batch entry ``i`` the keys of entry ``indices[i]``."""
        pools, length = self._pools, self.get_seq_length()
        if pools is None or length == 0:
            return
        old = pools.table(range(len(pools.sequences)))[indices].long()[:, : pools.count_pages(length)]
        for entry in pools.sequences:
            pools.release(entry)
        self._table = None
        new = self._reserve(len(indices), length).long()
        for pool in (*pools.keys, *pools.values):
            # The right-hand side is a copy: pages may be read and written.
            pool[new] = pool[old]

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self._select(beam_idx.tolist())

    def batch_repeat_interleave(self, repeats: int) -> None:
        count = 0 if self._pools is None else len(self._pools.sequences)
        self._select([entry for entry in range(count) for _ in range(repeats)])

    def batch_select_indices(self, indices: Tensor) -> None:
        entries = torch.arange(0 if self._pools is None else len(self._pools.sequences))
        self._select(entries[indices.cpu()].tolist())

    def crop(self, tokens_to_remove: int) -> None:
        super().crop(tokens_to_remove)
        self._trim()

    def reset(self) -> None:
        super().reset()
        self._trim()

    def _trim(self) -> None:
        """Takes the pages behind the last key from all entries."""
        self._table = None
        if self._pools is not None:
            for entry in self._pools.sequences:
                self._pools.trim(entry, self.get_seq_length())
