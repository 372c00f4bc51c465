# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Refuses, by their names, arguments that no plan can be made for."""

import numbers
from typing import Any, Optional, Tuple, Union

import torch
from torch import Tensor

from attn.builder import MAX_SCALE
from attn.errors import AttnError, UnsupportedError, warn_once

# Larger tensors are not copied unasked.
_MAX_COPIED_BYTES = 1 << 20
#: The sizes of pages that kernels take.
PAGE_SIZES = (16, 32, 64, 128, 256)


def specialize(number: Any) -> Any:
    """A number, for kernels that are compiled for one. ``torch.compile`` may give functions in its graphs a symbol: it
    compiles the graph once more for another number then."""
    return float(number) if isinstance(number, torch.SymFloat) else number


def check_arguments(scale: Optional[float], dropout_p: float, /, **tensors: Any) -> None:
    """Refuses arguments that are not tensors with strides, and numbers out of range. In the graphs of ``torch.compile``
    numbers may be unknown, and are not checked."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise AttnError(f"{name} is a {type(tensor).__name__}; pass a tensor of torch")
        if tensor.layout != torch.strided or tensor.is_nested:
            kind = "nested" if tensor.is_nested else str(tensor.layout)
            raise UnsupportedError(f"{name} is a tensor of the kind {kind}; convert it to one with strides")
    if torch.compiler.is_compiling():
        return
    if torch._C._functorch.peek_interpreter_stack() is not None:
        kinds = [interpreter.key() for interpreter in torch._C._functorch.get_interpreter_stack()]
        # Operations of torch, which compute double precision on the host, have rules.
        first = next(iter(tensors.values()))
        is_evaluated = first.dtype == torch.float64 and not first.is_cuda
        if torch._C._functorch.TransformType.Jvp in kinds and not is_evaluated:
            raise UnsupportedError(
                "attention has no rules for torch.func.jvp, jacfwd and hessian; use vjp, grad or jacrev"
            )
    if not isinstance(dropout_p, numbers.Real):
        raise AttnError(f"dropout_p is a {type(dropout_p).__name__}; pass a number")
    if not 0.0 <= dropout_p <= 1.0:
        raise AttnError(f"dropout_p is {dropout_p}; it must be from 0 to 1")
    if scale is None or isinstance(scale, torch.SymFloat):
        return
    # A tensor may change from call to call.
    if not isinstance(scale, numbers.Real):
        raise AttnError(f"scale is a {type(scale).__name__}; pass a number, or None for 1 / sqrt(head_dim)")
    if not abs(scale) <= MAX_SCALE:
        raise AttnError(f"scale is {scale}; it must be finite, and at most {MAX_SCALE:.3g}, as an f32")


def check_equal_heads(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Refuses tensors ``[..., heads, positions, head dim]`` or ``[positions, heads, head dim]`` whose query heads share
    key or value heads."""
    for name, tensor in (("key", key), ("value", value)):
        heads = [x.shape[1] for x in (query, tensor)]
        if heads[0] != heads[1]:
            raise AttnError(
                f"query has {heads[0]} heads and {name} {heads[1]}; pass enable_gqa=True if query heads share {name}s"
            )


def check_pages(pool: Tensor, name: str, table: Any, name_of_table: str = "block_table", dim: int = 1) -> None:
    """Refuses a page table that is no tensor, and a pool of pages whose size, of dimension ``dim``, no kernel takes."""
    if not isinstance(table, Tensor):
        raise AttnError(f"{name_of_table} is a {type(table).__name__}; pass a tensor [batch, pages of an entry]")
    if pool.shape[dim] not in PAGE_SIZES:
        raise UnsupportedError(
            f"{name} has pages of {pool.shape[dim]} positions; they must have {', '.join(map(str, PAGE_SIZES))}"
        )


def refuse_gradients(**tensors: Tensor) -> None:
    """Refuses tensors that require gradients, for attention with a KV cache."""
    for name, tensor in tensors.items():
        if torch.is_grad_enabled() and tensor.requires_grad:
            raise UnsupportedError(
                f"{name} requires a gradient, which attention with a KV cache does not have; call it under "
                "torch.no_grad()"
            )


def with_unit_stride(tensor: Tensor, name: str) -> Tensor:
    """A tensor whose last dimension has a stride of 1, as kernels need it: a small one is copied, with a warning."""
    if tensor.dim() == 0 or tensor.shape[-1] <= 1 or tensor.stride(-1) == 1:
        return tensor
    if tensor.numel() * tensor.element_size() > _MAX_COPIED_BYTES:
        raise AttnError(
            f"{name} has a last dimension with a stride of {tensor.stride(-1)}, expected 1; call .contiguous() on it"
        )
    if not torch.compiler.is_compiling():
        warn_once(
            f"copy of {name}",
            f"{name} has a last dimension with a stride of {tensor.stride(-1)}, expected 1: it is copied at each call",
        )
    return tensor.contiguous()


def check_integers(name: str, tensor: Any, *shape: Union[int, str]) -> Tensor:
    """A tensor of torch.int32 with these sizes, of which text stands for any, and a stride of 1."""
    if not isinstance(tensor, Tensor):
        raise AttnError(f"{name} is a {type(tensor).__name__}; pass a tensor of torch.int32")
    if tensor.dtype != torch.int32:
        raise AttnError(f"{name} has the dtype {tensor.dtype}, expected torch.int32")
    if tensor.dim() != len(shape) or not all([isinstance(a, str) or a == b for a, b in zip(shape, tensor.shape)]):
        wanted = f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
        raise AttnError(f"{name} has the shape {tuple(tensor.shape)}, expected {wanted}")
    return with_unit_stride(tensor, name)


def drop_all(out: Tensor) -> Tensor:
    """Zeros in the place of an output all of whose probabilities are dropped, and zeros as gradients of the inputs of
    ``out``."""
    return out.masked_fill(torch.ones((), dtype=torch.bool, device=out.device), 0)


def convert_by_autocast(*tensors: Tensor) -> Tuple[Tensor, ...]:
    """Tensors in the dtype of autocast, where it is on: it leaves integers, double precision and 8 bits as they are."""
    kind = tensors[0].device.type
    # Tensors without memory have no autocast.
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    return tuple([
        tensor.to(dtype) if tensor.is_floating_point() and tensor.element_size() in (2, 4) else tensor
        for tensor in tensors
    ])  # fmt: skip
