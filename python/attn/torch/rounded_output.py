# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Outputs of 8 bits: attention divides by their scale and rounds where it would write the wider output."""

import functools
from typing import List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from attn.errors import AttnError, UnsupportedError
from attn.torch import evaluate
from attn.torch.checks import check_arguments
from attn.torch.descale import NAMES, descale
from attn.torch.kernels import FLOAT8, Kind
from attn.torch.ops import _requires_grad, attend
from attn.torch.quantize import quantize
from attn.trace import capture_type


class Output(NamedTuple):
    """How the output is rounded: the arguments ``out_dtype``, ``out_scale`` and ``return_amax``."""

    dtype: Optional[torch.dtype] = None
    scale: Optional[Tensor] = None
    with_amax: bool = False

    @property
    def granularity(self) -> str:
        return "head" if self.scale is not None and self.scale.dim() else "tensor"


def check_output(
    out_dtype: Optional[torch.dtype],
    out_scale: Optional[Tensor],
    return_amax: bool,
    dropout_p: float,
    straight_through: object,
    quantize_dout: object,
) -> Optional[Output]:
    """The output that these arguments ask for; None for the one without them. Refuses what does not go together."""
    if out_dtype is None:
        for name, is_given in (("out_scale", out_scale is not None), ("return_amax", return_amax)):
            if is_given:
                raise AttnError(f"{name} is for outputs of 8 bits; pass out_dtype, or leave it out")
        return None
    if out_dtype not in FLOAT8:
        raise UnsupportedError(f"out_dtype is {out_dtype}, expected {' or '.join(map(str, FLOAT8))}, or None")
    if dropout_p == 1:
        raise UnsupportedError("dropout_p is 1, with which the output is 0; leave out dropout or out_dtype")
    for name, argument in (("straight_through", straight_through), ("quantize_dout", quantize_dout)):
        if argument is not None:
            raise UnsupportedError(
                f"{name} is for gradients, which an output of {out_dtype} does not have; leave out out_dtype, and call "
                "quantize(out.detach())"
            )
    return Output(out_dtype, out_scale, return_amax)


def _check_scale(scale: Tensor, query: Tensor, dims: int) -> None:
    if not isinstance(scale, Tensor) or scale.dtype != torch.float32:
        kind = scale.dtype if isinstance(scale, Tensor) else type(scale).__name__
        raise AttnError(f"out_scale is {kind}, expected a tensor of torch.float32")
    if scale.device != query.device:
        raise AttnError(f"out_scale is on {scale.device} and query on {query.device}; move them to one device")
    wanted = tuple(query.shape[:2])
    if scale.dim() and (tuple(scale.shape) != wanted or dims != 4):
        by_head = f" or {wanted}: batch and query heads" if dims == 4 else ", as query has not 4 dimensions"
        raise AttnError(f"out_scale has the shape {tuple(scale.shape)}, expected (){by_head}")


def _refuse_gradients(dtype: torch.dtype, tensors: Sequence[Tuple[str, Optional[Tensor]]]) -> None:
    for name, tensor in tensors:
        if tensor is not None and torch.is_grad_enabled() and _requires_grad(tensor):
            raise UnsupportedError(
                f"{name} requires a gradient, which an output of {dtype} does not have; call it under torch.no_grad(), "
                "or leave out out_dtype, and call quantize(out.detach())"
            )


@functools.lru_cache(maxsize=1024)
def _add_scale(kind: Kind, number: int, type_of_scale: str, is_by_head: bool) -> Kind:
    """A kind whose output is divided by a scale, the capture with a number."""
    before, _, value = (kind.epilogue or "attn.yield %x : f32").rpartition("attn.yield ")
    at = "%b, %h" if is_by_head else "%only"
    text = "" if is_by_head else "%only = arith.constant 0 : index "
    text += f"%out_scale = tensor.extract %c{number}[{at}] : {type_of_scale} "
    text += f"%quotient = arith.divf {value.split()[0]}, %out_scale : f32 attn.yield %quotient : f32"
    return kind._replace(epilogue=before + text)


def attend_rounded(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    captures: Sequence[Tensor],
    kind: Kind,
    with_lse: bool,
    descales: Sequence[Optional[Tensor]],
    output: Output,
    dims: int = 4,
) -> Tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
    """``attend_scaled`` with an output of 8 bits, and its ``amax``. The tensors of the call had ``dims`` dimensions."""
    assert output.dtype is not None
    if not torch.compiler.is_compiling() and evaluate.takes(query):
        raise UnsupportedError(f"out_dtype is {output.dtype}, which goes with no query of {query.dtype}")
    if output.scale is not None:
        _check_scale(output.scale, query, dims)
    named = [("query", query), ("key", key), ("value", value), *zip(NAMES, descales), ("out_scale", output.scale)]
    named += [(f"captured tensor {number}", tensor) for number, tensor in enumerate(captures)]
    _refuse_gradients(output.dtype, named)
    kind, captures = descale(kind, captures, query, key, value, descales)
    # The amax takes a pass over an output that is not rounded. Kernels for sequences have no epilogue.
    if output.with_amax or kind.sequences:
        out, lse = attend(query, key, value, captures, kind._replace(out="f32"), with_lse)
        scale = torch.ones((), dtype=torch.float32, device=query.device) if output.scale is None else output.scale
        rounded = quantize(out, output.dtype, output.granularity, scale=scale)
        return rounded.values, lse, rounded.amax
    given: List[Tensor] = list(captures)
    if output.scale is not None:
        scale = output.scale.contiguous()
        check_arguments(None, 0.0, out_scale=scale)
        add = _add_scale.__wrapped__ if torch.compiler.is_compiling() else _add_scale
        kind = add(kind, len(given) - kind.first_capture, capture_type(scale), bool(scale.dim()))
        given.append(scale)
    out, lse = attend(query, key, value, given, kind._replace(out=FLOAT8[output.dtype]), with_lse)
    return out, lse, None
