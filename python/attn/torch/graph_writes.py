# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operations of ``torch.fx`` graphs that write to tensors, and the nodes that may be in the memory of these."""

from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

import torch
from torch import Tensor
from torch.fx import Graph, Node

aten = torch.ops.aten

#: Operations whose results are in memory of their own.
_FRESH = frozenset(
    getattr(aten, name)
    for name in (
        "matmul", "bmm", "baddbmm", "linear", "mul", "div", "add", "sub", "rsub", "neg", "tanh", "sin", "cos", "exp",
        "softmax", "_softmax", "log_softmax", "where", "masked_fill", "cat", "clone", "sigmoid", "relu", "gelu", "silu",
        "lift_fresh_copy", "clamp", "clamp_min", "maximum", "eq", "ne", "lt", "le", "gt", "ge", "logical_not",
    )
)  # fmt: skip
#: Operations that have a form which writes the result into the first argument.
_IN_PLACE = frozenset(getattr(aten, name) for name in ("mul", "div", "add", "sub", "masked_fill", "tanh", "clamp"))
# Impure for torch, but they read no elements.
CHECKS = (aten._assert_tensor_metadata.default,)


def _is_mutable(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _find_aliased(node: Node) -> List[Node]:
    """The operands in whose memory the result of ``node`` may be."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
        return list(node.all_input_nodes)
    if target._schema.is_mutable:
        return _find_arguments(node, lambda alias: alias.is_write)
    is_fresh = len(node.args[1]) == 2 if target == aten.einsum.default else target.overloadpacket in _FRESH
    if is_fresh:
        return []
    # Some operations return an operand without saying so.
    return _find_arguments(node, lambda alias: True) or list(node.all_input_nodes)


def _takes_shape_of(node: Node, source: Node) -> bool:
    """Whether ``node`` takes a shape or a dtype of ``source``, and no elements."""
    takes = (aten.expand_as.default, aten.type_as.default, aten.view_as.default)
    return node.target in takes and node.args[0] is not source


def _find_arguments(node: Node, takes: Callable[[Any], bool]) -> List[Node]:
    """The operands, also in lists, of which the schema says something that ``takes`` takes."""
    arguments = node.target._schema.arguments
    given = {**{argument.name: value for argument, value in zip(arguments, node.args)}, **node.kwargs}
    found: List[Node] = []
    for argument in arguments:
        if argument.alias_info is not None and takes(argument.alias_info):
            torch.fx.node.map_arg(given.get(argument.name), found.append)
    return found


def _find_written(node: Node) -> List[Node]:
    """The nodes to whose memory ``node`` writes."""
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return list(node.all_input_nodes)
    if not _is_mutable(node) or node.target == aten.detach_.default:
        return []
    return _find_arguments(node, lambda alias: alias.is_write)


class GraphWrites:
    """The operations of a graph that write to tensors, after arithmetic in place became operations that return a
    tensor where all that read it afterwards are known."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.places = {node: place for place, node in enumerate(graph.nodes)}
        self.attributes: Dict[Any, List[Node]] = {}
        for node in graph.find_nodes(op="get_attr"):
            self.attributes.setdefault(node.target, []).append(node)
        self._functionalize()
        self.writes = self._find_writes()

    @property
    def exist(self) -> bool:
        return bool(self.writes)

    def may_change(self, node: Node) -> bool:
        """Whether ``node`` writes, or an operation writes to it."""
        is_written = any(node in memory for _, memory in self.writes)
        return is_written or (_is_mutable(node) and node.target != aten.detach_.default)

    def _functionalize(self) -> None:
        """Replaces arithmetic that writes into a tensor of the graph by operations that return another, where all that
        read it afterwards are known."""
        for node in self.graph.nodes:
            packet = self._find_functional(node)
            source = node.args[0] if packet is not None else None
            is_fresh = isinstance(source, Node) and source.op == "call_function" and not _find_aliased(source)
            if not is_fresh or not self._keeps_dtype(node):
                continue
            others = [user for user in source.users if user is not node and user.target not in CHECKS]
            later = {user for user in others if self.places[user] > self.places[node]}
            # A view from before would have to see the new contents.
            earlier = [user for user in others if user not in later and not _takes_shape_of(user, source)]
            if not any(source in _find_aliased(user) for user in earlier):
                node.target = getattr(packet, node.target._overloadname)
                source.replace_all_uses_with(node, lambda user, later=later: user in later)

    @staticmethod
    def _find_functional(node: Node) -> Any:
        """The operation that computes what ``node`` writes into its first argument; None for other nodes."""
        if not _is_mutable(node) or not node.target._schema.name.startswith("aten::"):
            return None
        name = node.target._schema.name[len("aten::") :]
        packet = getattr(aten, name[:-1], None) if name.endswith("_") else None
        return packet if packet in _IN_PLACE and node.target._overloadname in packet.overloads() else None

    @staticmethod
    def _keeps_dtype(node: Node) -> bool:
        """Whether the operands of ``node`` do not change the dtype of its first one, which has fractions."""
        values = [operand.meta.get("val") for operand in node.all_input_nodes]
        if not all(isinstance(value, Tensor) for value in values):
            return False
        dtype = values[0].dtype
        return dtype.is_floating_point and all(torch.promote_types(dtype, value.dtype) == dtype for value in values)

    def _find_writes(self) -> List[Tuple[int, Set[Node]]]:
        """The places of operations that write to tensors, and all nodes that may be in the memory of these."""
        writes = []
        for node in self.graph.nodes:
            pending = _find_written(node)
            memory: Set[Node] = set()
            while pending:
                tensor = pending.pop()
                if tensor not in memory:
                    memory.add(tensor)
                    pending += _find_aliased(tensor)
                    pending += [user for user in tensor.users if tensor in _find_aliased(user)]
                    # A buffer may have several nodes.
                    pending += self.attributes.get(tensor.target, ()) if tensor.op == "get_attr" else ()
            if memory:
                writes.append((self.places[node], memory))
        return writes

    def find_written_between(
        self, output: Node, sources: Iterable[Optional[Node]], results: Optional[Iterable[Node]] = None
    ) -> Optional[Node]:
        """A node that an operation writes to, if ``sources`` are read where ``output`` is instead of ``results`` of
        other nodes, and the operation is in between. Without ``results`` it is ``output``."""
        if not self.writes:
            return None
        ends: Set[Node] = set()
        pending = [source for source in sources if source is not None]
        while pending:
            node = pending.pop()
            # Others were inserted, where their operands are.
            if node in self.places:
                ends.add(node)
            else:
                pending += node.all_input_nodes
        nodes = set(ends)
        pending = [output] if results is None else list(results)
        while pending:
            node = pending.pop()
            if node not in nodes:
                nodes.add(node)
                pending += node.all_input_nodes
        for node in nodes:
            begin = self.places.get(node, 0)
            if node.op in ("placeholder", "get_attr"):
                readers = (user for user in node.users if user in nodes and user in self.places)
                begin = min((self.places[user] for user in readers), default=0)
            for place, memory in self.writes:
                if node in memory and begin < place < self.places[output]:
                    return node
        return None
