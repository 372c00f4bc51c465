# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of attention to tensors of 8 bits.

Torch gives a tensor of 8 bits a gradient of 8 bits, without a scale. So gradients of the values that elements stand for
go to the tensors that the elements were rounded from: the straight-through estimator (Bengio et al. 2013).
"""

from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from attn.errors import AttnError, UnsupportedError
from attn.torch.descale import descale
from attn.torch.kernels import FLOAT8, Kind, Mode, _readable
from attn.torch.ops import (
    attend,
    draw_state,
    find_gradients,
    has_dual_level,
    is_transformed,
    refuse_float8_gradients,
    refuse_second_derivatives,
    refuse_tangents,
    write_variant,
)
from attn.torch.quantize import Quantized

#: The tensors that the elements of query, key and value were rounded from; None where no gradient is wanted.
Sources = Tuple[Optional[Tensor], Optional[Tensor], Optional[Tensor]]
#: Rounds the gradient of the output, ``[batch, heads, queries, head dim]``, to 8 bits.
QuantizeGradient = Callable[[Tensor], Quantized]

#: Names of arguments.
TENSORS = ("query", "key", "value")


class _Call(NamedTuple):
    """Arguments that are no tensors. ``forward`` has the scale of values in its epilogue, ``backward`` has not."""

    forward: Kind
    backward: Kind
    with_lse: bool
    #: Numbers of the captures that have gradients.
    gradients: Tuple[int, ...]
    quantize_dout: Optional[QuantizeGradient]

    def variant(self, is_forward: bool) -> str:
        if is_forward and self.forward != self.backward:
            return write_variant(self.forward, Mode(True, None))
        return write_variant(self.backward, Mode(self.with_lse, self.gradients))

    def numbers(self) -> Tuple[Optional[float], float]:
        return self.forward.scale, self.forward.dropout_p


def _by_row(scale: Tensor, heads: int) -> Tensor:
    """Scales ``[batch, key heads]`` as factors of ``[batch, heads, positions, head dim]``."""
    return scale.repeat_interleave(heads // scale.shape[1], 1)[:, :, None, None]


def _dequantize(dout: Any, shape: torch.Size) -> Tuple[Tensor, Tensor]:
    """The numbers of a gradient of 8 bits, and their scale."""
    if not isinstance(dout, Quantized):
        raise AttnError(f"quantize_dout returned a {type(dout).__name__}, expected attn.torch.Quantized")
    values, scale = dout.values, dout.scale
    if values.dtype not in FLOAT8 or values.shape != shape:
        raise AttnError(
            f"quantize_dout returned values of {values.dtype} and the shape {tuple(values.shape)}, expected "
            f"{' or '.join(map(str, FLOAT8))} and {tuple(shape)}"
        )
    if scale.dim() and tuple(scale.shape) != tuple(shape[:2]):
        raise AttnError(
            f"quantize_dout returned a scale of the shape {tuple(scale.shape)}, expected () or {tuple(shape[:2])}: "
            "batch and heads"
        )
    return values, scale[..., None, None] if scale.dim() else scale


def _get_room(tensor: Tensor) -> float:
    """How much larger elements of a tensor of 8 bits are than elements of e4m3; 1 for wider ones."""
    return torch.finfo(tensor.dtype).max / torch.finfo(torch.float8_e4m3fn).max if tensor.dtype in FLOAT8 else 1.0


def _find_unit(
    dout: Tensor, dlse: Optional[Tensor], key: Tensor, value: Tensor, k_descale: Optional[Tensor]
) -> Tensor:
    """A power of two, in whose multiples f16 can represent the gradients of output, scores and query. Gradients of
    scores grow with elements of values and scales of keys, and gradients of queries with elements of keys, too."""
    largest = dout.abs().amax() * _get_room(value)
    if dlse is not None:
        # The gradient of the output is multiplied by elements of values, which are so much larger.
        largest = torch.maximum(largest, dlse.abs().amax() / 256)
    spread = 8 * _get_room(key)
    if k_descale is not None:
        largest = largest * (k_descale.abs().amax() * spread).clamp(2.0**-12, 2.0**12)
    else:
        largest = largest * spread
    unit = largest.log2().floor().exp2()
    # There is none for zeros, infinities and NaN.
    return torch.where(unit.isfinite() & (unit > 0), unit, 1.0)


class _Attention(torch.autograd.Function):
    """Attention to tensors of 8 bits. The first three tensors get the gradients of query, key and value. Seed and
    offset of dropout, and three scales, may be None."""

    @staticmethod
    def forward(
        call: _Call,
        query_source: Optional[Tensor],
        key_source: Optional[Tensor],
        value_source: Optional[Tensor],
        rng: Optional[Tensor],
        q_descale: Optional[Tensor],
        k_descale: Optional[Tensor],
        v_descale: Optional[Tensor],
        *tensors: Tensor,
    ) -> Tuple[Tensor, Tensor]:
        return torch.ops.attn.attention(tensors, rng, call.variant(is_forward=True), *call.numbers())

    @staticmethod
    def setup_context(ctx: Any, inputs: Tuple, output: Tuple[Tensor, Tensor]) -> None:
        ctx.call, *sources = inputs[:4]
        ctx.dtypes = [None if source is None else source.dtype for source in sources]
        ctx.set_materialize_grads(False)
        if not ctx.call.with_lse:
            ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs[4:], *output)

    @staticmethod
    def backward(ctx: Any, dout: Optional[Tensor], dlse: Optional[Tensor]) -> Tuple:
        refuse_second_derivatives()
        call: _Call = ctx.call
        rng, *rest = ctx.saved_tensors
        scales, tensors, (out, lse) = rest[:3], rest[3:-2], rest[-2:]
        dout = torch.zeros_like(out) if dout is None else dout
        # Kernels see neither the scale of values nor the scale of the gradient.
        factor, unit = None, None
        if call.quantize_dout is not None:
            dout, factor = _dequantize(call.quantize_dout(_readable(dout)), out.shape)
        if scales[2] is not None:
            of_value = _by_row(scales[2], out.shape[1])
            factor = of_value if factor is None else factor * of_value
            out = (out.float() / of_value).to(out.dtype)
        if factor is not None:
            dout = dout.float() * factor
            if out.dtype == torch.float16 and dout.numel():
                # Products with small scales would be zero.
                unit = _find_unit(dout, dlse, *tensors[1:3], scales[1])
                dout, dlse = dout / unit, None if dlse is None else dlse / unit
            dout = dout.to(out.dtype)
        made = torch.ops.attn.attention_backward(
            tensors, rng, call.variant(is_forward=False), out, lse, dout, dlse if call.with_lse else None,
            *call.numbers(),
        )  # fmt: skip
        if unit is not None:
            made = [(gradient.float() * unit).to(gradient.dtype) for gradient in made]
        gradients: List[Optional[Tensor]] = []
        for gradient, scale, dtype in zip(made, scales, ctx.dtypes):
            if dtype is not None and scale is not None:
                gradient = gradient / _by_row(scale, gradient.shape[1])
            gradients.append(None if dtype is None else gradient.to(dtype))
        of_captures: List[Optional[Tensor]] = [None] * (len(tensors) - 3)
        for number, gradient in zip(call.gradients, made[3:]):
            of_captures[number] = gradient
        return (None, *gradients, None, None, None, None, None, None, None, *of_captures)


def move_sources(given: Any, tensors: Sequence[Tensor], move: Callable[[Tensor, int], Tensor]) -> Any:
    """Tensors before rounding, of the shapes of ``tensors``: query, key and value, as ``move`` changes them by their
    numbers. All else stays, and is refused later."""
    if not isinstance(given, tuple) or len(given) != len(TENSORS):
        return given
    sources: List[Any] = []
    for number, (name, tensor, source) in enumerate(zip(TENSORS, tensors, given)):
        if isinstance(source, Tensor) and source.dtype not in FLOAT8:
            if source.shape != tensor.shape:
                raise AttnError(
                    f"straight_through has the shape {tuple(source.shape)} for {name}, expected that of {name}, "
                    f"{tuple(tensor.shape)}"
                )
            source = move(source, number)
        sources.append(source)
    return tuple(sources)


def _find_sources(given: Any, tensors: Sequence[Tensor]) -> Sources:
    """The tensors that get the gradients of query, key and value: wider ones get their own."""
    if given is None:
        given = (None, None, None)
    elif not isinstance(given, tuple) or len(given) != 3:
        raise AttnError("straight_through must be a tuple of three: the tensors before rounding, or None")
    sources: List[Optional[Tensor]] = []
    for name, tensor, source in zip(TENSORS, tensors, given):
        if tensor.dtype not in FLOAT8:
            if source is not None:
                raise UnsupportedError(
                    f"straight_through has a tensor for {name}, which has the dtype {tensor.dtype}, and so a gradient "
                    "of its own; pass None"
                )
            sources.append(tensor)
            continue
        if source is not None and (not isinstance(source, Tensor) or source.dtype in FLOAT8):
            kind = source.dtype if isinstance(source, Tensor) else type(source).__name__
            raise AttnError(f"straight_through has a {kind} for {name}, expected a tensor of wider floats, or None")
        sources.append(source)
    return sources[0], sources[1], sources[2]


def attend_scaled(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    captures: Sequence[Tensor],
    kind: Kind,
    with_lse: bool,
    descales: Sequence[Optional[Tensor]],
    straight_through: Optional[Sources] = None,
    quantize_dout: Optional[QuantizeGradient] = None,
) -> Tuple[Tensor, Optional[Tensor]]:
    """``attend`` with the scales of query, key and value. Tensors of 8 bits have gradients by ``straight_through``."""
    tensors = (query, key, value)
    if not any(tensor.dtype in FLOAT8 for tensor in tensors):
        if straight_through is not None or quantize_dout is not None:
            name = "quantize_dout" if straight_through is None else "straight_through"
            raise UnsupportedError(
                f"{name} is for tensors of {' and '.join(map(str, FLOAT8))}, and query and key have the dtypes "
                f"{query.dtype} and {key.dtype}; leave it out"
            )
        kind, captures = descale(kind, captures, *tensors, descales)
        return attend(query, key, value, captures, kind, with_lse)
    sources = _find_sources(straight_through, tensors)
    if not torch.compiler.is_compiling() and has_dual_level():
        refuse_tangents(*[x for x in (*sources, *tensors, *descales, *captures) if isinstance(x, Tensor)])
    if straight_through is not None:
        query, key, value = (
            tensor if source is tensor else tensor.detach() for tensor, source in zip(tensors, sources)
        )
        tensors = (query, key, value)
        descales = [scale.detach() if isinstance(scale, Tensor) else scale for scale in descales]
    refuse_float8_gradients(*tensors)
    scaled, captures = descale(kind, captures, *tensors, descales)
    gradients = find_gradients([source for source in sources if source is not None], captures)
    if gradients is None:
        return attend(query, key, value, captures, scaled, with_lse)
    scales = [
        None if scale is None else scale.expand(query.shape[0], heads.shape[1])
        for scale, heads in zip(descales, (key, key, value))
    ]
    call = _Call(scaled, scaled._replace(epilogue=kind.epilogue), with_lse, gradients, quantize_dout)
    if not torch.compiler.is_compiling() and is_transformed():
        raise UnsupportedError(
            "attention to tensors of 8 bits has no gradients within transformations of torch.func, as grad, vjp and "
            "vmap are; use torch.autograd.grad outside of them"
        )
    rng = draw_state(query.device) if kind.dropout_p else None
    out, lse = _Attention.apply(call, *sources, rng, *scales, *tensors, *captures)
    return out, lse if with_lse else None
