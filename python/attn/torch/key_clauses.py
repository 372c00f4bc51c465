# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments of ``sdpa`` and ``flex_attention`` for keys with lengths, perhaps in pages, as clauses of a KV cache."""

from typing import Any, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

from attn.errors import AttnError, UnsupportedError
from attn.torch.checks import check_integers, check_pages
from attn.torch.kernels import MAX_FEW_QUERIES
from attn.torch.ops import find_gradients


def count_keys(key: Tensor, page_table: Optional[Tensor]) -> int:
    """The number of keys that an entry has room for. Refuses pages that no kernel takes."""
    if page_table is None:
        return key.shape[2]
    check_pages(key, "key", page_table, "page_table", dim=2)
    return key.shape[2] * check_integers("page_table", page_table, "batch", "pages of an entry").shape[1]


def _find_pages(
    query: Tensor,
    key: Tensor,
    page_table: Tensor,
    key_lengths: Optional[Tensor],
    others: Mapping[str, Any],
    needs_gradient: bool,
) -> Tuple[str, List[Tensor]]:
    for name, argument in others.items():
        if argument is not None:
            raise UnsupportedError(f"{name} and page_table do not go together; leave one out")
    if needs_gradient:
        raise UnsupportedError(
            "a tensor requires a gradient, which attention to pages does not have; call it under torch.no_grad()"
        )
    batch, room = query.shape[0], count_keys(key, page_table)
    table = check_integers("page_table", page_table, batch, "pages of an entry")
    if key_lengths is None:
        key_lengths = torch.full((batch,), room, dtype=torch.int32, device=query.device)
    return "key_lengths page_table", [check_integers("key_lengths", key_lengths, batch), table]


def find_key_clauses(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    page_table: Optional[Tensor],
    key_lengths: Optional[Tensor],
    others: Mapping[str, Any],
    further: Sequence[Any],
    has_unknown: bool = False,
) -> Optional[Tuple[str, List[Tensor]]]:
    """The clauses of a KV cache, and their operands, in the place of padded sequences: with a page table, and for few
    queries of lengths of keys alone, which kernels then split.

    Both mean the same: query ``i`` of an entry is at position ``length - queries + i`` for masks, and at ``i`` for
    functions. But a KV cache has no gradients. ``others`` are arguments that it does not go with, and ``further``
    arguments that may be tensors with gradients; there may be unknown ones.
    """
    if page_table is None and key_lengths is None:
        return None
    given = [tensor for tensor in further if isinstance(tensor, Tensor)]
    needs_gradient = find_gradients((query, key, value), given) is not None
    if page_table is not None:
        return _find_pages(query, key, page_table, key_lengths, others, needs_gradient)
    needs_gradient = needs_gradient or (has_unknown and torch.is_grad_enabled())
    is_few = statically_known_true(query.shape[2] <= MAX_FEW_QUERIES)
    if needs_gradient or not is_few or any([argument is not None for argument in others.values()]):
        return None
    return "key_lengths", [check_integers("key_lengths", key_lengths, query.shape[0])]
