# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments of fla-core 0.6 that kernels of linear attention here do not have: operations of torch compute some of
them, some say how kernels of fla-core work and change no result, and others are refused by name.
"""

from typing import Any, Dict, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from attn.errors import AttnError, UnsupportedError
from attn.torch.checks import check_arguments

# What `prepare_arguments` computes, by operations of torch.
_COMPUTED = (
    "state_v_first",
    "transpose_state_layout",
    "use_beta_sigmoid_in_kernel",
    "allow_neg_eigval",
    "use_gate_in_kernel",
    "A_log",
    "dt_bias",
    "lower_bound",
)
# Tables that follow from other arguments, and choices of kernels.
_WITHOUT_EFFECT = ("cu_seqlens_cpu", "chunk_indices", "safe_gate", "disable_recompute", "max_num_seqs")
_REFUSED = {
    "reverse": "call .flip(1) on q, k, v, g, beta and the output, and leave it out",
    "gv": "the elements of values have no decays of their own",
    "output_attentions": "scores are not kept",
    "return_intermediate_states": "only the last state is returned; pass it on from call to call",
    "cp_context": "call attn.torch.context_parallel",
    "use_graph": "graphs of CUDA capture calls as they are; leave it out",
    "layer_idx": "pass the log-decays of heads as g_gamma",
    "num_layers": "pass the log-decays of heads as g_gamma",
}

_REFUSED_FLAGS = ("reverse", "output_attentions", "return_intermediate_states", "use_graph")


class Arguments(NamedTuple):
    """What is left for kernels."""

    log_decay: Optional[Tensor]
    beta: Optional[Tensor]
    initial_state: Optional[Tensor]
    #: Whether states have the value head dim before the key head dim.
    is_value_first: bool


def _is_given(value: Any) -> bool:
    return value is not None and value is not False


def check_names(function: str, further: Dict[str, Any]) -> None:
    """Refuses names that fla-core does not have, and arguments that have no counterpart here."""
    for name, value in further.items():
        if name in _REFUSED:
            # A flag may be 0, but a layer has the number 0, too.
            is_flag = name in _REFUSED_FLAGS
            if bool(value) if is_flag else _is_given(value):
                raise UnsupportedError(f"{name} is not supported: {_REFUSED[name]}")
        elif name not in _COMPUTED and name not in _WITHOUT_EFFECT:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def _compute_gate(raw: Optional[Tensor], further: Dict[str, Any]) -> Tensor:
    """The log-decays of gates: ``-exp(A_log) * softplus(g + dt_bias)``, or with ``lower_bound``
    ``lower_bound * sigmoid(exp(A_log) * (g + dt_bias))``."""
    if raw is None or raw.dim() not in (3, 4):
        found = "None" if raw is None else f"of the shape {tuple(raw.shape)}"
        raise AttnError(f"use_gate_in_kernel needs g with batch, positions, heads and maybe a head dim; g is {found}")
    slopes, bias, least = (further.get(name) for name in ("A_log", "dt_bias", "lower_bound"))
    shape = raw.shape[2:]
    for name, tensor, size in (("A_log", slopes, shape[0]), ("dt_bias", bias, shape.numel())):
        if tensor is None:
            continue
        check_arguments(None, 0.0, **{name: tensor})
        if tensor.numel() != size:
            raise AttnError(f"{name} has the shape {tuple(tensor.shape)}, expected ({size},)")
    if slopes is None and least is None:
        raise AttnError("use_gate_in_kernel needs A_log or lower_bound")
    gate = raw.float()
    if bias is not None:
        gate = gate + bias.float().reshape(shape)
    factors = None if slopes is None else slopes.float().exp().reshape(shape[:1] + (1,) * (len(shape) - 1))
    if least is None:
        return -factors * torch.nn.functional.softplus(gate)
    return least * (gate if factors is None else factors * gate).sigmoid()


def _check_combination(further: Dict[str, Any], cu_seqlens: Optional[Tensor], beta: Optional[Tensor]) -> None:
    has_gate = _is_given(further.get("use_gate_in_kernel"))
    for name in ("A_log", "dt_bias", "lower_bound"):
        if _is_given(further.get(name)) and not has_gate:
            raise AttnError(f"{name} needs use_gate_in_kernel=True")
    if has_gate and _is_given(further.get("safe_gate")) and further.get("lower_bound") is None:
        raise AttnError("safe_gate with use_gate_in_kernel needs lower_bound")
    if _is_given(further.get("cu_seqlens_cpu")) and cu_seqlens is None:
        raise AttnError("cu_seqlens_cpu needs cu_seqlens, whose copy it is")
    if _is_given(further.get("allow_neg_eigval")) and not _is_given(further.get("use_beta_sigmoid_in_kernel")):
        raise AttnError("allow_neg_eigval needs use_beta_sigmoid_in_kernel=True")
    if _is_given(further.get("use_beta_sigmoid_in_kernel")) and beta is None:
        raise AttnError("use_beta_sigmoid_in_kernel needs beta")


def prepare_arguments(
    function: str,
    further: Dict[str, Any],
    log_decay: Optional[Tensor],
    beta: Optional[Tensor],
    initial_state: Optional[Tensor],
    cu_seqlens: Optional[Tensor],
    inplace_final_state: bool,
) -> Arguments:
    """Computes what arguments of fla-core ask for before kernels."""
    check_names(function, further)
    _check_combination(further, cu_seqlens, beta)
    if _is_given(further.get("use_gate_in_kernel")):
        log_decay = _compute_gate(log_decay, further)
    if _is_given(further.get("use_beta_sigmoid_in_kernel")):
        beta = beta.float().sigmoid() * (2 if _is_given(further.get("allow_neg_eigval")) else 1)
    names = [name for name in ("state_v_first", "transpose_state_layout") if _is_given(further.get(name))]
    if names and inplace_final_state:
        raise UnsupportedError(f"{names[0]} is not supported with inplace_final_state, which writes states as they are")
    if names and initial_state is not None:
        check_arguments(None, 0.0, initial_state=initial_state)
        if initial_state.dim() != 4:
            shape = tuple(initial_state.shape)
            wanted = "states, heads, value head dim, key head dim"
            raise AttnError(f"initial_state has the shape {shape}, expected ({wanted}) with {names[0]}")
        initial_state = initial_state.transpose(-1, -2)
    return Arguments(log_decay, beta, initial_state, bool(names))


def restore_states(result: Tuple[Tensor, Optional[Tensor]], is_value_first: bool) -> Tuple[Tensor, Optional[Tensor]]:
    """The output, and final states in the layout of the initial ones."""
    out, state = result
    return out, state.transpose(-1, -2) if is_value_first and state is not None else state
