# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scales of tensors of 8 bits.

An element stands for its value times a scale, which may differ from batch entry to batch entry and from key head to key
head. ``score_mod`` multiplies scores by the scales of query and key, ``epilogue`` the output by the scale of value.
"""

import functools
import re
from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from attn.errors import AttnError, UnsupportedError
from attn.torch.kernels import FLOAT8, Kind
from attn.trace import capture_type

#: Names of arguments, as the package flash-attn has them.
NAMES = ("q_descale", "k_descale", "v_descale")


def check_descale(name: str, descale: Tensor, tensor: Tensor, batch: int, heads: int) -> Tensor:
    """A scale for each batch entry and key or value head, ``[batch, heads]``, of a tensor of 8 bits."""
    if not isinstance(descale, Tensor) or descale.dtype != torch.float32:
        kind = descale.dtype if isinstance(descale, Tensor) else type(descale).__name__
        raise AttnError(f"{name} is {kind}, expected a tensor of torch.float32")
    if tensor.dtype not in FLOAT8:
        raise UnsupportedError(
            f"{name} is for tensors of {' and '.join(map(str, FLOAT8))}, and its tensor has the dtype {tensor.dtype}; "
            "leave it out"
        )
    if descale.requires_grad and torch.is_grad_enabled():
        raise UnsupportedError(f"{name} requires a gradient, which scales do not have; call .detach() on it")
    if descale.device != tensor.device:
        raise AttnError(f"{name} is on {descale.device} and its tensor on {tensor.device}; move them to one device")
    if descale.dim() > 2 or any(
        size not in (1, wanted) for size, wanted in zip(reversed(descale.shape), (heads, batch))
    ):
        raise AttnError(
            f"{name} has the shape {tuple(descale.shape)}, which does not broadcast to {(batch, heads)}: batch and "
            f"{'value' if name == NAMES[2] else 'key'} heads"
        )
    return descale.expand(batch, heads).contiguous()


def _write_scales(captures: Sequence[Tuple[int, str]], value: str, group: int, result: str) -> str:
    """Operations that multiply a value by the scales of its batch entry and head of ``group`` query heads: captures
    with some numbers and types."""
    text = f"%group = arith.constant {group} : index %shared = arith.floordivsi %h, %group : index "
    for place, (number, type_of_scale) in enumerate(captures):
        name = result if place == len(captures) - 1 else f"%scaled{place}"
        text += f"%scale{place} = tensor.extract %c{number}[%b, %shared] : {type_of_scale} "
        text += f"{name} = arith.mulf {value}, %scale{place} : f32 "
        value = name
    return text


@functools.lru_cache(maxsize=1024)
def _add_scales(kind: Kind, scales: Tuple[Tuple[str, str], ...], first: int, groups: Tuple[int, int]) -> Kind:
    """A kind with the named scales of some types, which are captures from number ``first`` on. ``groups`` are the
    query heads of a key head and of a value head."""
    numbers = {name: (first + place, type_of_scale) for place, (name, type_of_scale) in enumerate(scales)}
    of_scores = [numbers[name] for name in NAMES[:2] if name in numbers]
    if of_scores:
        scaled = _write_scales(of_scores, "%s", groups[0], "%descaled")
        rest = re.sub(r"%s\b", "%descaled", kind.score_mod or "attn.yield %s : f32")
        kind = kind._replace(score_mod=scaled + rest)
    if NAMES[2] in numbers:
        scaled = _write_scales([numbers[NAMES[2]]], "%x", groups[1], "%descaled")
        kind = kind._replace(epilogue=scaled + "attn.yield %descaled : f32")
    return kind


def descale(
    kind: Kind,
    captures: Sequence[Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    descales: Sequence[Optional[Tensor]],
    batch: Optional[int] = None,
) -> Tuple[Kind, List[Tensor]]:
    """A kind of attention, and its captures, with the given scales of query, key and value ``[batch, heads, positions,
    head dim]``, or pages of keys and values. ``score_mod`` sees the scores of the values that elements stand for.
    ``batch`` is the number of sequences, if their queries are packed."""
    batch = query.shape[0] if batch is None else batch
    given = {
        name: check_descale(name, scale, tensor, batch, heads.shape[1])
        for name, scale, tensor, heads in zip(NAMES, descales, (query, key, value), (key, key, value))
        if scale is not None
    }
    if not given:
        return kind, list(captures)
    if "heads" in kind.clauses.split():
        raise UnsupportedError(f"{next(iter(given))} and head_map do not go together; leave one out")
    if NAMES[2] in given and "state" in kind.clauses.split():
        raise UnsupportedError(f"{NAMES[2]} and state do not go together: the output of the state would be scaled")
    if NAMES[2] in given and kind.sequences:
        raise UnsupportedError(
            f"{NAMES[2]} and sequences of different lengths do not go together; leave it out and multiply the output "
            "by it"
        )
    types = tuple([(name, capture_type(scale)) for name, scale in given.items()])
    # The code of regions has these numbers, which may be symbols under torch.compile.
    groups = (int(query.shape[1] // key.shape[1]), int(query.shape[1] // value.shape[1]))
    kind = _add_scales(kind, types, len(captures) - kind.first_capture, groups)
    return kind, [*captures, *given.values()]
