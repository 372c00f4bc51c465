# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention to several sets of keys, merged: ``torch.ops.attn.merge``."""

import functools
from typing import Dict, List, Tuple

import torch
from torch import Tensor

from attn.artifact import Function
from attn.builder import Merge
from attn.compiler import compile
from attn.errors import AttnError, UnsupportedError
from attn.torch.checks import check_arguments, refuse_gradients, with_unit_stride
from attn.torch.kernels import _NAMES, Binding, Layout, dense_like, describe, find_target, kernel_dtypes
from attn.torch.ops import _library, is_plain

_library.define("merge(Tensor out0, Tensor lse0, Tensor out1, Tensor lse1) -> (Tensor, Tensor)")


def _check(out0: Tensor, lse0: Tensor, out1: Tensor, lse1: Tensor) -> None:
    if out0.dim() != 4:
        raise AttnError(f"out0 has {out0.dim()} dimensions; it needs 4: batch, heads, positions and head dim")
    expected = {"lse0": (lse0, out0.shape[:3]), "out1": (out1, out0.shape), "lse1": (lse1, out0.shape[:3])}
    for name, (tensor, shape) in expected.items():
        if tuple(tensor.shape) != tuple(shape):
            raise AttnError(f"{name} has the shape {tuple(tensor.shape)}, expected {tuple(shape)}")
        dtype = out0.dtype if name == "out1" or out0.dtype == torch.float64 else torch.float32
        if tensor.dtype != dtype:
            raise AttnError(f"{name} has the dtype {tensor.dtype}, expected {dtype}")
        if tensor.device != out0.device:
            raise AttnError(f"{name} is on {tensor.device} and out0 on {out0.device}; move them to one device")
    allowed = (*kernel_dtypes(out0.device), torch.float64)
    if out0.dtype not in allowed:
        raise UnsupportedError(f"out0 has the dtype {out0.dtype}; convert it to one of {', '.join(map(str, allowed))}")


def _evaluate(out0: Tensor, lse0: Tensor, out1: Tensor, lse1: Tensor) -> Tuple[Tensor, Tensor]:
    """The same by operations of torch."""
    lse = torch.logaddexp(lse0, lse1)
    reference = lse.masked_fill(lse == -torch.inf, 0.0)
    out = out0 * (lse0 - reference).exp()[..., None] + out1 * (lse1 - reference).exp()[..., None]
    return out, lse


@functools.lru_cache(maxsize=None)
def _find_function(description: Merge, target: str) -> Function:
    return compile(description, target=target)[description.NAME]


def _layouts(out: Tensor, lse: Tensor) -> List[Layout]:
    return [
        Layout(tuple(tensor.shape), dense_like(tensor, tuple(tensor.shape)), tensor.dtype, tensor.device)
        for tensor in (out, lse)
    ]


_MAX_PLANS = 1024
_plans: Dict[Tuple, Binding] = {}


def _run(*tensors: Tensor) -> Tuple[Tensor, Tensor]:
    name = tuple([describe(tensor) for tensor in tensors])
    plan = _plans.get(name)
    if plan is None:
        _check(*tensors)
        if tensors[0].dtype == torch.float64:
            return _evaluate(*tensors)
        if len(_plans) >= _MAX_PLANS:
            _plans.clear()
        out, lse = tensors[:2]
        description = Merge(_NAMES[out.dtype], out.shape[1], out.shape[3])
        plan = Binding(_find_function(description, find_target(out.device)), tensors, _layouts(out, lse))
        _plans[name] = plan
    out, lse = plan(tensors)
    return out, lse


for _device in ("CPU", "CUDA"):
    _library.impl("merge", _run, _device)


@torch.library.register_fake("attn::merge", lib=_library)
def _(*tensors):
    _check(*tensors)
    return tuple(layout.make() for layout in _layouts(*tensors[:2]))


def merge(out0: Tensor, lse0: Tensor, out1: Tensor, lse1: Tensor) -> Tuple[Tensor, Tensor]:
    """Attention to all keys, of attention to two parts of them: outputs ``[batch, heads, queries, head dim]`` and
    log-sum-exps ``[batch, heads, queries]`` (``torch.float32``).

    Merging is associative and commutative up to rounding, so that any number of parts can be merged. A part without
    keys has an output of 0 and a log-sum-exp of -inf. There are no gradients.
    """
    tensors = {"out0": out0, "lse0": lse0, "out1": out1, "lse1": lse1}
    check_arguments(None, 0.0, **tensors)
    refuse_gradients(**tensors)
    given = [with_unit_stride(tensor, name) for name, tensor in tensors.items()]
    return _run(*given) if is_plain(*given) else torch.ops.attn.merge(*given)
