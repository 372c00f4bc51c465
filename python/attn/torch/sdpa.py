# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``scaled_dot_product_attention``."""

import functools
import math
from typing import Optional, Tuple, Union

import torch
from torch import Tensor

from attn.errors import AttnError, UnsupportedError
from attn.masks import Mask
from attn.torch.checks import autocast_dtype, check_arguments
from attn.torch.kernels import Kind, Mode, call_plans, describe, get_plan, read_mask
from attn.torch.ops import attend, draw_state, is_plain, run_plan
from attn.trace import capture_type, float_literal

#: Torch aligns causal masks to the first query and key.
CAUSAL = "#attn.causal<alignment = top_left>"
_is_autocast_enabled = torch._C._is_any_autocast_enabled


@functools.lru_cache(maxsize=None)
def _make_kind(
    mask_type: Optional[str],
    is_causal: bool,
    scale: Optional[float],
    dropout_p: float,
    soft_cap: Optional[float] = None,
) -> Kind:
    """What is computed with a mask of this type, each of whose four dimensions
    may be 1."""
    mask = CAUSAL if is_causal else ""
    cap = "" if soft_cap is None else _write_cap(soft_cap)
    capped = "%capped" if cap else "%s"
    score = f"{cap}attn.yield %capped : f32" if cap else ""
    if mask_type is None:
        return Kind(mask=mask, score=score, scale=scale, dropout_p=dropout_p)
    *sizes, element = mask_type[len("tensor<") : -1].split("x")
    indices = ["%first" if size == "1" else name for size, name in zip(sizes, ("%b", "%h", "%i", "%j"))]
    read = "%first = arith.constant 0 : index\n" f"%m = tensor.extract %c0[{', '.join(indices)}] : {mask_type}\n"
    if element == "i1":
        return Kind(mask=mask, score=score, keep=read + "attn.yield %m : i1", scale=scale, dropout_p=dropout_p)
    widen = "" if element == "f32" else f"%w = arith.extf %m : {element} to f32\n"
    add = f"%r = arith.addf {capped}, {'%w' if widen else '%m'} : f32\nattn.yield %r : f32"
    return Kind(mask=mask, score=read + widen + cap + add, scale=scale, dropout_p=dropout_p)


def _write_cap(soft_cap: float) -> str:
    return (
        f"%cap = arith.constant {float_literal(soft_cap)} : f32\n"
        "%part = arith.divf %s, %cap : f32\n"
        "%bent = math.tanh %part : f32\n"
        "%capped = arith.mulf %bent, %cap : f32\n"
    )


def _four_dimensions(tensor: Tensor, name: str) -> Tensor:
    if tensor.dim() < 2:
        raise AttnError(f"{name} has {tensor.dim()} dimensions; it needs at least 2: positions and channels")
    if tensor.dim() == 4:
        return tensor
    if tensor.dim() < 4:
        return tensor[(None,) * (4 - tensor.dim())] if tensor.dim() == 2 else tensor[:, None]
    return tensor.flatten(0, -4)


def _expand(tensor: Tensor, batch: int, heads: int) -> Tensor:
    result = tensor.expand(batch, heads, -1, -1)
    # GPUs copy blocks of tensors, whose strides cannot be 0.
    return result.contiguous() if tensor.is_cuda and result.shape != tensor.shape else result


def _broadcast(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> Tuple[Tensor, Tensor, Tensor]:
    """Tensors whose batch sizes are equal, and whose heads are as kernels want
    them: key heads divide query heads."""
    named = (("query", query), ("key", key), ("value", value))
    batch = max(query.shape[0], key.shape[0], value.shape[0])
    heads = max(query.shape[1], key.shape[1], value.shape[1])
    for name, tensor in named:
        if tensor.shape[0] not in (1, batch):
            raise AttnError(
                f"{name} has a batch size of {tensor.shape[0]}, and another tensor {batch}; make them equal"
            )
        if not enable_gqa and tensor.shape[1] not in (1, heads):
            raise AttnError(
                f"{name} has {tensor.shape[1]} heads, and another tensor {heads}; pass enable_gqa=True if query heads "
                "share keys and values"
            )
    query_heads = query.shape[1] if enable_gqa else heads
    key_heads = max(key.shape[1], value.shape[1])
    if key.shape[1] not in (1, key_heads) or value.shape[1] not in (1, key_heads):
        raise AttnError(f"key has {key.shape[1]} heads and value {value.shape[1]}; they need the same number")
    return _expand(query, batch, query_heads), _expand(key, batch, key_heads), _expand(value, batch, key_heads)


def _check_mask(attn_mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """The mask with four dimensions."""
    if attn_mask.device != query.device:
        raise AttnError(
            f"attn_mask is on {attn_mask.device} and query on {query.device}; move them to one device, as in "
            "attn_mask.to(query.device)"
        )
    if attn_mask.dtype != torch.bool and attn_mask.dtype not in (query.dtype, torch.float32):
        raise UnsupportedError(
            f"attn_mask has the dtype {attn_mask.dtype}; it must be torch.bool, that of query ({query.dtype}) or "
            "torch.float32"
        )
    sizes = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    if attn_mask.dim() > 4 or any(
        size not in (1, expected) for size, expected in zip(reversed(attn_mask.shape), reversed(sizes))
    ):
        raise AttnError(
            f"attn_mask has the shape {tuple(attn_mask.shape)}, which does not broadcast to {sizes}: batch, heads, "
            "queries and keys"
        )
    if attn_mask.dim() and attn_mask.shape[-1] > 1 and attn_mask.stride(-1) != 1:
        raise AttnError(
            f"attn_mask has a last dimension with a stride of {attn_mask.stride(-1)}, which must be 1; call "
            ".contiguous() on it"
        )
    return attn_mask if attn_mask.dim() == 4 else attn_mask[(None,) * (4 - attn_mask.dim())]


def sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Union[Tensor, Mask, None] = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
    soft_cap: Optional[float] = None,
) -> Tensor:
    """Computes what ``torch.nn.functional.scaled_dot_product_attention`` does.

    Rows with nothing to attend are 0. Tensors must have a last dimension with a
    stride of 1, ``attn_mask`` included. As in torch's function dropout applies
    whenever ``dropout_p`` is not 0, in training and evaluation alike.

    ``soft_cap``, which torch's function does not have, keeps scaled scores below a
    number: each becomes ``soft_cap * tanh(score / soft_cap)`` before the mask.

    ``attn_mask`` may be one of ``attn.masks``, for which there is no tensor of pairs:
    kernels leave out the tiles that it masks. Those are aligned to the last query and
    key if not said otherwise. What they read has one batch dimension, as many
    as query may have before its heads.
    """
    named = ""
    captures: Tuple[Tensor, ...] = ()
    if isinstance(attn_mask, Mask):
        named, captures = read_mask(attn_mask, "attn_mask")
        attn_mask = None
    elif attn_mask is not None:
        if not isinstance(attn_mask, Tensor):
            raise AttnError(f"attn_mask is a {type(attn_mask).__name__}; pass a tensor or one of attn.masks")
        captures = (attn_mask,)
    call = None
    if (
        is_plain(query, key, value, *captures)
        and not _is_autocast_enabled()
        and (attn_mask is None or not attn_mask.requires_grad)
    ):
        needs_gradient = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
        tensors = (query, key, value, *captures)
        call = (is_causal, scale, enable_gqa, dropout_p, soft_cap, needs_gradient, named, *map(describe, tensors))
        plan = call_plans.get(call)
        if plan is not None:
            if needs_gradient and attn_mask is not None and attn_mask.dim() < 4:
                # What is kept for the gradient is told by its dimensions.
                tensors = (query, key, value, attn_mask[(None,) * (4 - attn_mask.dim())])
            if dropout_p:
                tensors += (draw_state(query.device),)
            return run_plan(plan, tensors, needs_gradient)
    check_arguments(scale, dropout_p, query=query, key=key, value=value)
    if soft_cap is not None and not 0.0 < soft_cap < math.inf:
        raise AttnError(f"soft_cap is {soft_cap}; it must be a finite number above 0, or None")
    if is_causal and (attn_mask is not None or named):
        part = 'combine the mask with masks.causal("top_left")' if named else "put the causal part into the mask"
        raise AttnError(f"is_causal and attn_mask exclude each other; {part}")
    dtype = autocast_dtype(query.device)
    if dtype is not None:
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
        if attn_mask is not None and attn_mask.dtype != torch.bool:
            attn_mask = attn_mask.to(dtype)
    shapes = (query.shape, key.shape, value.shape)
    if not (query.dim() == key.dim() == value.dim() == 4):
        if not (query.dim() == key.dim() == value.dim()):
            raise AttnError(
                f"query, key and value have {query.dim()}, {key.dim()} and {value.dim()} dimensions; give them the "
                "same number"
            )
        if query.dim() > 4 and not query.shape[:-3] == key.shape[:-3] == value.shape[:-3]:
            raise AttnError(
                f"query, key and value have the batch sizes {tuple(query.shape[:-3])}, {tuple(key.shape[:-3])} and "
                f"{tuple(value.shape[:-3])}; make them equal"
            )
        if attn_mask is not None and query.dim() == 3:
            # The first dimension is the batch: the mask has no heads.
            attn_mask = attn_mask[:, None] if attn_mask.dim() == 3 else attn_mask
        elif attn_mask is not None and query.dim() > 4:
            attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2]).flatten(0, -4)
        query, key, value = (
            _four_dimensions(tensor, name) for tensor, name in ((query, "query"), (key, "key"), (value, "value"))
        )
    if not (query.shape[0] == key.shape[0] == value.shape[0] and query.shape[1] == key.shape[1] == value.shape[1]):
        query, key, value = _broadcast(query, key, value, enable_gqa)
    if named:
        score = "" if soft_cap is None else _write_cap(soft_cap) + "attn.yield %capped : f32"
        kind = Kind(mask=named, score=score, scale=scale, dropout_p=dropout_p, reads=len(captures))
    else:
        if attn_mask is not None:
            attn_mask = _check_mask(attn_mask, query, key)
            captures = (attn_mask,)
        mask_type = None if attn_mask is None else capture_type(attn_mask)
        # Compilers of torch do not follow caches.
        make_kind = _make_kind.__wrapped__ if torch.compiler.is_compiling() else _make_kind
        kind = make_kind(mask_type, is_causal, scale, dropout_p, soft_cap)
    out, _ = attend(query, key, value, captures, kind, False)
    if call is not None and shapes == (query.shape, key.shape, value.shape):
        # Kernels read these tensors where they are: the next call need not look at them again.
        mode = Mode(False, () if needs_gradient else None)
        call_plans[call] = get_plan(kind, mode, query, key, value, captures)
    return out if len(shapes[0]) == 4 else out.reshape(*shapes[0][:-1], out.shape[-1])
