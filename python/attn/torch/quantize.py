# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors of 8 bits with scales: ``torch.ops.attn.quantize``."""

import functools
from typing import Any, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from attn.artifact import Function
from attn.builder import Quantize
from attn.compiler import compile
from attn.errors import AttnError, UnsupportedError
from attn.torch.checks import check_arguments, with_unit_stride
from attn.torch.kernels import (
    _NAMES,
    FLOAT8,
    Binding,
    Layout,
    dense_like,
    describe,
    find_for_device,
    kernel_dtypes,
    make_plans,
)
from attn.torch.ops import _library, is_plain

_library.define(
    "quantize(Tensor x, ScalarType dtype, str granularity, int block_size, Tensor? signs, bool saturate) "
    "-> (Tensor, Tensor, Tensor)"
)
_library.define(
    "quantize_with_scale(Tensor x, Tensor scale, ScalarType dtype, str granularity, int block_size, Tensor? signs, "
    "bool saturate) -> (Tensor, Tensor)"
)

GRANULARITIES = ("tensor", "head", "block")
BLOCK_SIZES = (64, 128)
#: The sizes of a last dimension that may be rotated: powers of two between these.
MIN_ROTATED, MAX_ROTATED = 16, 1024


class Quantized(NamedTuple):
    """A tensor of 8 bits: its elements stand for their values times ``scale``."""

    values: Tensor
    scale: Tensor
    #: The largest finite absolute values of the elements that share a scale.
    amax: Tensor


class _Options(NamedTuple):
    """The arguments of the operators that are no tensors, and the signs."""

    dtype: torch.dtype
    granularity: str
    block_size: int
    signs: Optional[Tensor]
    saturate: bool


def _scale_shape(x: Tensor, options: _Options) -> Tuple[int, ...]:
    if options.granularity == "tensor":
        return ()
    if options.granularity == "head":
        return tuple(x.shape[:2])
    return (*x.shape[:2], (x.shape[2] + options.block_size - 1) // options.block_size)


def _check_rotation(x: Tensor, signs: Tensor) -> None:
    size = x.shape[-1]
    if size & (size - 1) or not MIN_ROTATED <= size <= MAX_ROTATED:
        raise UnsupportedError(
            f"x has a last dimension of {size}; a rotation needs a power of two from {MIN_ROTATED} to {MAX_ROTATED}"
        )
    if tuple(signs.shape) != (size,):
        raise AttnError(f"rotate has the shape {tuple(signs.shape)}, expected {(size,)}: the last dimension of x")
    if signs.dtype != torch.float32:
        raise AttnError(f"rotate has the dtype {signs.dtype}, expected torch.float32")


def _check(x: Tensor, scale: Optional[Tensor], options: _Options) -> None:
    """Refuses arguments that no kernel takes."""
    allowed = kernel_dtypes(x.device)
    if x.dtype not in allowed:
        raise UnsupportedError(f"x has the dtype {x.dtype}; convert it to one of {', '.join(map(str, allowed))}")
    if not 2 <= x.dim() <= 4:
        raise AttnError(f"x has {x.dim()} dimensions, expected 2 to 4")
    if options.dtype not in FLOAT8:
        raise UnsupportedError(f"dtype is {options.dtype}, expected {' or '.join(map(str, FLOAT8))}")
    if options.granularity not in GRANULARITIES:
        raise AttnError(f"granularity is {options.granularity!r}, expected {', '.join(map(repr, GRANULARITIES))}")
    if options.granularity != "tensor" and x.dim() != 4:
        raise AttnError(
            f"granularity is {options.granularity!r} and x has {x.dim()} dimensions, expected 4: batch, heads, "
            "positions and head dim"
        )
    if options.block_size not in BLOCK_SIZES:
        raise AttnError(f"block_size is {options.block_size}, expected {' or '.join(map(str, BLOCK_SIZES))}")
    if options.signs is not None:
        _check_rotation(x, options.signs)
    if scale is not None:
        shape = _scale_shape(x, options)
        if tuple(scale.shape) != shape:
            raise AttnError(
                f"scale has the shape {tuple(scale.shape)}, expected {shape}: one for each {options.granularity}"
            )
        if scale.dtype != torch.float32:
            raise AttnError(f"scale has the dtype {scale.dtype}, expected torch.float32")
    for name, tensor in (("scale", scale), ("rotate", options.signs)):
        if tensor is not None and tensor.device != x.device:
            raise AttnError(f"{name} is on {tensor.device} and x on {x.device}; move them to one device")


@functools.lru_cache(maxsize=None)
def _find_function(description: Quantize, target: str) -> Function:
    return compile(description, target=target)[description.NAME]


def _describe(x: Tensor, scale: Optional[Tensor], options: _Options) -> Quantize:
    return Quantize(
        dtype=_NAMES[x.dtype],
        rank=x.dim(),
        size=x.shape[-1],
        out_dtype=FLOAT8[options.dtype],
        granularity=options.granularity,
        block_size=options.block_size,
        given_scale=scale is not None,
        rotated=options.signs is not None,
        saturate=options.saturate,
    )


def _layouts(x: Tensor, scale: Optional[Tensor], options: _Options) -> List[Layout]:
    """Layouts of the values, of the scale unless it is given, and of ``amax``."""
    shape = tuple(x.shape)
    values = Layout(shape, dense_like(x, shape), options.dtype, x.device)
    sizes = _scale_shape(x, options)
    strides, step = [], 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step *= size
    statistic = Layout(sizes, tuple(strides), torch.float32, x.device)
    return [values, *[statistic] * (1 if scale is not None else 2)]


_MAX_PLANS = 1024
_plans = make_plans()


def _call(x: Tensor, scale: Optional[Tensor], options: _Options) -> List[Tensor]:
    tensors = (x, scale, options.signs)
    inputs = [tensor for tensor in tensors if tensor is not None]
    name = (*[None if tensor is None else describe(tensor) for tensor in tensors], options._replace(signs=None))
    plan = _plans.get(name)
    if plan is None:
        _check(x, scale, options)
        function = find_for_device(_find_function, x.device, _describe(x, scale, options))
        if len(_plans) >= _MAX_PLANS:
            _plans.clear()
        plan = _plans[name] = Binding(function, inputs, _layouts(x, scale, options))
    return plan(inputs)


def _run(x: Tensor, *options: Any) -> Tuple[Tensor, Tensor, Tensor]:
    values, scale, amax = _call(x, None, _Options(*options))
    return values, scale, amax


def _run_with_scale(x: Tensor, scale: Tensor, *options: Any) -> Tuple[Tensor, Tensor]:
    values, amax = _call(x, scale, _Options(*options))
    return values, amax


for _device in ("CPU", "CUDA"):
    _library.impl("quantize", _run, _device)
    _library.impl("quantize_with_scale", _run_with_scale, _device)


@torch.library.register_fake("attn::quantize", lib=_library)
def _(x, *options):
    given = _Options(*options)
    _check(x, None, given)
    return tuple([layout.make() for layout in _layouts(x, None, given)])


@torch.library.register_fake("attn::quantize_with_scale", lib=_library)
def _(x, scale, *options):
    given = _Options(*options)
    _check(x, scale, given)
    return tuple([layout.make() for layout in _layouts(x, scale, given)])


def _refuse(ctx: Any, *gradients: Optional[Tensor]) -> None:
    raise UnsupportedError(
        "quantize has no gradient; call it in the forward function of a torch.autograd.Function, or of x.detach()"
    )


for _name in ("quantize", "quantize_with_scale"):
    torch.library.register_autograd(f"attn::{_name}", _refuse, lib=_library)


def rotation_signs(size: int, seed: int = 0, device: Optional[torch.device] = None) -> Tensor:
    """Random signs for ``quantize``: 1 or -1 for each element of a last dimension, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, (size,), generator=generator).float().mul_(2).sub_(1)
    return signs.to(device)


def quantize(
    x: Tensor,
    dtype: torch.dtype = torch.float8_e4m3fn,
    granularity: str = "tensor",
    *,
    block_size: int = 64,
    rotate: Optional[Tensor] = None,
    scale: Optional[Tensor] = None,
    saturate: bool = True,
) -> Quantized:
    """The quotients of ``x`` and a scale, rounded to 8 bits, with the scale and the largest absolute values ``amax``.

    ``x`` has two to four dimensions, and the scale ``granularity``: "tensor", or of ``[batch, heads, positions, head
    dim]`` "head" (``[batch, heads]``) or "block" (``[batch, heads, blocks]``) of ``block_size`` positions, 64 or 128.
    The scale divides: it is ``descale`` in FlashAttention, and ``scale_inv`` in Transformer Engine. Without ``scale``
    it follows from ``amax``: then the largest element becomes the largest number of ``dtype``, unless the scale would
    be below 2^-126. With ``scale``, for example from the ``amax`` of steps before, ``amax`` is for later steps.

    ``rotate`` are signs (``rotation_signs``) of a rotation of the last dimension, a power of two from 16 to 1024: it
    spreads large elements, and leaves scores of queries and keys with the same signs as they are. Quotients beyond
    the largest number of ``dtype`` become that number, or, if not ``saturate``, infinity, or NaN in
    ``torch.float8_e4m3fn``. There is no gradient.
    """
    given = {"x": x, **({} if rotate is None else {"rotate": rotate}), **({} if scale is None else {"scale": scale})}
    check_arguments(None, 0.0, **given)
    x = with_unit_stride(x, "x")
    signs = None if rotate is None else rotate.contiguous()
    options = _Options(dtype, granularity, block_size, signs, saturate)
    needs_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given.values())
    calls_directly = is_plain(*given.values()) and not needs_gradient
    if scale is None:
        return Quantized(*(_run if calls_directly else torch.ops.attn.quantize)(x, *options))
    run = _run_with_scale if calls_directly else torch.ops.attn.quantize_with_scale
    values, amax = run(x, scale.contiguous(), *options)
    return Quantized(values, scale, amax)
