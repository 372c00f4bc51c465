# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors of graphs that neither inputs nor the state of the module decide, such as positions and angles of rotary
embeddings, as constants; masks among them by name."""

from typing import Any, Container, Dict, Optional

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from attn.torch.importer import _COPIES, _EXPANDS, _PERMUTATIONS, _SQUEEZES, _VIEWS
from attn.torch.lower_functions import bind

aten = torch.ops.aten

#: Operations that compute nothing.
_LAYOUTS = frozenset(
    (
        *_COPIES, *_EXPANDS, *_VIEWS, *_PERMUTATIONS, *_SQUEEZES, aten.select.int, aten.slice.Tensor,
        aten.lift_fresh_copy.default, aten.detach_.default,
    )
)  # fmt: skip


def read_attribute(module: Any, target: Any) -> Any:
    for part in str(target).split("."):
        module = getattr(module, part, None)
    return module


def is_written(node: Node) -> bool:
    """Whether a node writes to the memory of an operand."""
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable and target != aten.detach_.default


def _evaluate(node: Node, known: Dict[Node, Tensor]) -> Optional[Tensor]:
    """The value of a node whose operands are known; None if it has another one at each call, or no static sizes."""
    target, value = node.target, node.meta.get("val")
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or not isinstance(value, Tensor):
        return None
    if is_written(node) or torch.Tag.nondeterministic_seeded in target.tags:
        return None
    if not all(isinstance(size, int) for size in value.shape) or any(
        operand not in known for operand in node.all_input_nodes
    ):
        return None
    return target(
        *torch.fx.node.map_arg(node.args, known.__getitem__), **torch.fx.node.map_arg(node.kwargs, known.__getitem__)
    )


def fold_constants(module: GraphModule, state: Container[str]) -> Dict[Node, Tensor]:
    """Replaces what operations compute without inputs by buffers of ``module``, and returns constants by nodes. Tensors
    with names in ``state`` may get other contents later, and are not folded; views alone stay."""
    known: Dict[Node, Tensor] = {}
    computed = set()
    for node in module.graph.nodes:
        if node.op == "get_attr":
            attribute = read_attribute(module, node.target)
            if isinstance(attribute, Tensor) and str(node.target) not in state:
                known[node] = attribute
            continue
        value = _evaluate(node, known)
        if value is not None:
            known[node] = value
            if node.target not in _LAYOUTS or any(operand in computed for operand in node.all_input_nodes):
                computed.add(node)
    number = 0
    for node in [node for node in module.graph.nodes if node in computed]:
        if all(user in computed for user in node.users):
            continue
        while hasattr(module, name := f"constant_{number}"):
            number += 1
        module.register_buffer(name, known[node].detach().contiguous(), persistent=False)
        with module.graph.inserting_before(node):
            constant = module.graph.get_attr(name)
        constant.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(constant)
        known[constant] = known[node]
    module.graph.eliminate_dead_code()
    module.recompile()
    return known


def _find_kept(mask: Tensor) -> Optional[Tensor]:
    """Which pairs a mask keeps; None if it adds other numbers than 0 and negative infinity."""
    if mask.dtype == torch.bool:
        return mask
    kept = mask == 0
    return kept if bool((kept | mask.isneginf()).all()) else None


def name_masks(module: GraphModule, constants: Dict[Node, Tensor]) -> None:
    """Makes masks that are constants, as exported models have them, causal masks or none where they are."""
    for node in module.graph.nodes:
        if node.target != aten.scaled_dot_product_attention.default:
            continue
        given = bind(node)
        mask, sizes = given["attn_mask"], [given[name].meta["val"].shape[-2] for name in ("query", "key")]
        if mask not in constants or given["is_causal"]:
            continue
        kept = _find_kept(constants[mask])
        if kept is None or not all(isinstance(size, int) for size in sizes):
            continue
        is_causal = bool((kept == torch.ones(sizes, dtype=torch.bool).tril()).all())
        if is_causal or bool(kept.all()):
            operands = {name: given[name] for name in ("query", "key", "value")}
            rest = {name: value for name, value in given.items() if name not in operands}
            node.args = tuple(operands.values())
            node.kwargs = {**rest, "attn_mask": None, "is_causal": is_causal and sizes != [1, 1]}
    module.graph.eliminate_dead_code()
    module.recompile()
