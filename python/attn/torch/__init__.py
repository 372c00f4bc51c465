# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention for PyTorch.

``sdpa``, ``flex_attention`` and ``varlen_attn`` have the signatures and the meanings of torch's
``scaled_dot_product_attention``, ``flex_attention`` and ``varlen_attn``, the function for packed sequences.
``flash_attn_func``, ``flash_attn_varlen_func`` and ``flash_attn_with_kvcache``, which is for KV caches, also paged
ones, have the signatures of the package flash-attn. ``PagedKVCache`` has the pages of sequences.
``linear_attention`` and ``gated_delta_rule`` have the arguments of the package fla-core.
``context_parallel`` makes functions over several ranks of them; ``PlacedSequences`` has short sequences on one rank
each.
``quantize`` rounds tensors to 8 bits, with scales. ``sdpa_packed`` takes queries, keys and values in one tensor.
``from_export`` puts attention into graphs of ``torch.export``. Kernels are compiled when they are first needed, for the
device that the tensors are on: a GPU, or the host.
"""

from attn.torch.context_parallel import context_parallel, shard_sequence, unshard_sequence
from attn.torch.flash_attn import flash_attn_func, flash_attn_varlen_func
from attn.torch.flash_packed import (
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
)
from attn.torch.flex import Pairs, Traced, debug_pairs, flex_attention, create_block_mask, trace
from attn.torch.importer import from_export
from attn.torch.kernels import compile_for
from attn.torch.kv_cache import flash_attn_with_kvcache
from attn.torch.linear_attention import RandomFeatures, gated_delta_rule, linear_attention
from attn.torch.merge import merge
from attn.torch.packed import sdpa_packed
from attn.torch.paged_cache import PagedKVCache
from attn.torch.placed_sequences import PlacedSequences
from attn.torch.process_groups import local_ranks
from attn.torch.quantize import Quantized, quantize, rotation_signs
from attn.torch.rank_times import choose_method, choose_ulysses_degree
from attn.torch.block_masks import PrecomputedBlockMask
from attn.torch.sdpa import debug_sdpa, sdpa, varlen_attn
from attn.torch.shared_prefix import flash_attn_with_shared_prefix

__all__ = [
    "PagedKVCache",
    "PlacedSequences",
    "PrecomputedBlockMask",
    "RandomFeatures",
    "Pairs",
    "Quantized",
    "Traced",
    "choose_method",
    "choose_ulysses_degree",
    "compile_for",
    "context_parallel",
    "debug_pairs",
    "debug_sdpa",
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
    "flash_attn_with_shared_prefix",
    "flex_attention",
    "from_export",
    "gated_delta_rule",
    "linear_attention",
    "local_ranks",
    "create_block_mask",
    "merge",
    "quantize",
    "rotation_signs",
    "sdpa",
    "sdpa_packed",
    "shard_sequence",
    "trace",
    "unshard_sequence",
    "varlen_attn",
]
