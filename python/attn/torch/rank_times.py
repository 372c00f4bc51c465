# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``choose_method``: the method of ``context_parallel`` with the least estimated time."""

import functools
import json
import pathlib
import tempfile
from typing import Any, Dict, Optional

from torch import Tensor

from attn.builder import Attention
from attn.compiler import run_passes
from attn.errors import AttnError, UnsupportedError
from attn.masks import Mask
from attn.torch.context_parallel import _check_shards, describe_shards
from attn.torch.kernels import find_target, read_mask
from attn.torch.process_groups import find_place
from attn.torch.sdpa import _combine, make_kind
from attn.torch.shard_methods import GROUPS, METHODS


@functools.lru_cache(maxsize=None)
def _simulate(description: Attention, target: str, ranks: int, gradients: bool) -> Dict[str, Dict[str, Any]]:
    """What attn-simulate-ranks says of each method."""
    name = description.NAME
    differentiate = f"attn-differentiate{{function={name} arguments=0,1,2 mode=combined}}," if gradients else ""
    with tempfile.TemporaryDirectory(prefix="attn-") as folder:
        report = pathlib.Path(folder, "ranks.json")
        simulate = f"attn-simulate-ranks{{target={target} ranks={ranks} format=json output={report}}}"
        run_passes(description, differentiate + simulate)
        functions = json.loads(report.read_text())["functions"]
    # The function with the gradients has the forward pass, too, and comes last.
    return {method["method"]: method for method in functions[-1]["groups"][0]["methods"]}


def choose_method(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    group: Any = None,
    attn_mask: Optional[Mask] = None,
    is_causal: bool = False,
    *,
    gradients: bool = True,
) -> str:
    """The method of ``context_parallel`` and ``shard_sequence`` for which the compiler estimates the least time.

    Tensors are of the whole, before they are sharded. Only their shapes, dtypes and device count, so that all ranks get
    the same answer. ``gradients`` says whether there is a backward pass. A method that cannot shard such
    lengths is left out. If it is "usp", the estimate is with the degree of ``choose_ulysses_degree``.
    """
    _check_shards(query, key, value, enable_gqa=True)
    mask = ""
    if attn_mask is not None:
        if not isinstance(attn_mask, Mask):
            raise UnsupportedError(f"attn_mask is a {type(attn_mask).__name__}; pass one of attn.masks, or None")
        mask, reads = read_mask(attn_mask, "attn_mask")
        if reads:
            raise UnsupportedError(f"attn_mask is {mask}, which reads tensors; pass a mask of positions alone")
    kind = make_kind(_combine(is_causal, mask), None, None)
    description = describe_shards(kind, False, METHODS[0], 1, query, key, value, [])
    _, size = find_place(group)
    times = _simulate(description, find_target(query.device), size, gradients)
    possible = [method for method in METHODS if "seconds" in times.get(method, {})]
    if not possible:
        raise AttnError(f"no method can shard such tensors: {times[METHODS[0]]['obstacle']}")
    return min(possible, key=lambda method: times[method]["seconds"])


def choose_ulysses_degree(query: Tensor, key: Tensor, value: Tensor, group: Any = None) -> int:
    """The ``ulysses_degree`` of the method "usp" that the compiler takes for such tensors of the whole: the most
    neighboring ranks of a host that their heads allow. Of all ranks, the method is "ulysses", and of one, "zigzag"."""
    _check_shards(query, key, value, enable_gqa=True)
    description = describe_shards(make_kind("", None, None), False, METHODS[0], 1, query, key, value, [])
    _, size = find_place(group)
    return _simulate(description, find_target(query.device), size, False)[GROUPS]["ulysses_degree"]
