# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention in graphs of ``torch.export``.

Attention is found as a call of torch's ``scaled_dot_product_attention``, or as a
softmax between two products of matrices, before and after
``run_decompositions``. Scales, masks and biases between the first product and the
softmax, casts, and dropout after it, belong to it. All else stays.
"""

import math
import operator
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from attn.errors import WrongTypeError, warn_once
from attn.torch.kernels import kernel_dtypes
from attn.torch.sdpa import sdpa

aten = torch.ops.aten

_SOFTMAXES = (aten.softmax.int, aten._softmax.default)
_PRODUCTS = (aten.matmul.default, aten.bmm.default)
_CASTS = (aten.to.dtype, aten._to_copy.default, aten.type_as.default, aten.to.dtype_layout)
_COPIES = (aten.clone.default, aten.contiguous.default, aten.detach.default, aten.alias.default)
_VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)
_EXPANDS = (aten.expand.default,)
_SCALES: Dict[Any, Callable[[float], float]] = {
    aten.mul.Tensor: lambda x: x,
    aten.mul.Scalar: lambda x: x,
    aten.div.Tensor: lambda x: 1 / x,
    aten.div.Scalar: lambda x: 1 / x,
}
# Counts as impure for torch, but has no effect once its result is not used, or checks what is not there any more.
_CHECKS = (aten._assert_tensor_metadata.default,)
_WITHOUT_EFFECT = (aten.dropout.default, aten.native_dropout.default, *_CHECKS)
_NUMBERS = (bool, int, float, torch.SymInt, torch.SymFloat, torch.SymBool)
# What is added to a score, or takes its place, to mask it; less than any score.
_MASKED = -1e4


class _Mismatch(Exception):
    """A softmax is not that of attention, or of one that is supported."""


class _Attention(NamedTuple):
    """Attention in a graph: the node that it replaces, and arguments of ``sdpa``."""

    output: Node
    query: Node
    key: Node
    value: Node
    mask: Optional[Node] = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: Optional[float] = None
    enable_gqa: bool = False


def _shape(node: Node) -> Tuple:
    return tuple(node.meta["val"].shape)


def _rows(node: Node) -> Any:
    """The number of rows of a tensor; None for what is no tensor."""
    value = node.meta.get("val")
    return math.prod(value.shape[:-1]) if isinstance(value, Tensor) and value.dim() > 1 else None


def _source(node: Node, passed: Tuple, same_shape: bool = False) -> Node:
    """What ``node`` is by operations ``passed`` that copy it."""
    while node.op == "call_function" and node.target in passed:
        if same_shape and _shape(node.args[0]) != _shape(node):
            break
        node = node.args[0]
    return node


def _only_user(node: Node, what: str) -> Node:
    users = [user for user in node.users if user.target not in _CHECKS]
    if len(users) != 1:
        raise _Mismatch(f"{what} are used more than once")
    return users[0]


class _Importer:
    def __init__(self, module: GraphModule):
        self.module = module
        self.graph: Graph = module.graph
        self.values: Dict[Node, Optional[Tensor]] = {}

    # Constants

    def constant(self, node: Any) -> Any:
        """The value of what depends on no input and no parameter, or None."""
        if not isinstance(node, Node):
            return node
        if node not in self.values:
            self.values[node] = self._evaluate(node)
        return self.values[node]

    def _evaluate(self, node: Node) -> Optional[Tensor]:
        if node.op == "get_attr":
            value = operator.attrgetter(str(node.target))(self.module)
            return None if isinstance(value, torch.nn.Parameter) else value
        is_random = node.op != "call_function" or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        if is_random:
            return None
        inputs = node.all_input_nodes
        if any(self.constant(source) is None for source in inputs):
            return None
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), self.constant)
        with torch.no_grad():
            value = node.target(*args, **kwargs)
        return value if isinstance(value, Tensor) else None

    def number(self, node: Any) -> Optional[float]:
        """A number, or a constant with one element."""
        value = self.constant(node)
        if isinstance(value, Tensor):
            value = value.item() if value.numel() == 1 else None
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def has_gradient(self, node: Node) -> bool:
        """Whether parameters have an influence on it."""
        seen: Set[Node] = set()
        pending = [node]
        while pending:
            current = pending.pop()
            if current in seen:
                continue
            seen.add(current)
            if current.op == "get_attr" and self.constant(current) is None:
                return True
            value = current.meta.get("val")
            # Sizes and other numbers have none, nor have tensors of integers.
            has_none = isinstance(value, _NUMBERS) or (isinstance(value, Tensor) and not value.is_floating_point())
            if not has_none:
                pending += current.all_input_nodes
        return False

    # Masks

    def is_causal(self, mask: Node, is_kept: bool, query: Node, key: Node) -> bool:
        """Whether a mask is known to be the causal one; ``is_kept`` says what its
        ones mean."""
        value = self.constant(mask)
        queries, keys = _shape(query)[-2], _shape(key)[-2]
        if not isinstance(value, Tensor) or not isinstance(queries, int) or not isinstance(keys, int):
            return False
        if value.shape[-2:] != (queries, keys) or value.numel() != queries * keys:
            return False
        causal = torch.ones(queries, keys, dtype=torch.bool, device=value.device).tril()
        value = value.reshape(queries, keys)
        if value.dtype == torch.bool:
            return torch.equal(value if is_kept else ~value, causal)
        return bool(((value == 0) == causal).all()) and bool((value[~causal] <= _MASKED).all())

    # Patterns

    def operand(self, node: Node, rank: int) -> Tuple[Node, float]:
        """An operand of a product before batch and heads became one of its ``rank``
        dimensions, and its scale."""
        scale = 1.0
        while node.op == "call_function":
            source = node.args[0] if node.args and isinstance(node.args[0], Node) else None
            if source is None:
                break
            if node.target in _COPIES:
                node = source
            elif node.target in _EXPANDS and _shape(source) == _shape(node):
                node = source
            elif node.target in _VIEWS and len(_shape(node)) < rank and _shape(node)[-2:] == _shape(source)[-2:]:
                node = source
            elif node.target in _SCALES and self.number(node.args[1]) is not None:
                scale *= _SCALES[node.target](self.number(node.args[1]))
                node = source
            else:
                break
        return node, scale

    def shared_heads(self, node: Node) -> Tuple[Node, int]:
        """What is repeated where ``node`` is keys or values that have each head
        several times, one after another, and how often."""
        shape = _shape(node)
        repeated = _source(node, _COPIES)
        if len(shape) == 4 and repeated.target == aten.repeat_interleave.self_int:
            source, times = repeated.args[:2]
            if repeated.args[2:] in ((1,), (-3,)) or repeated.kwargs.get("dim") in (1, -3):
                return source, times
        if len(shape) != 4 or repeated.target not in (*_VIEWS, aten.flatten.using_ints):
            return node, 1
        expanded = _source(repeated.args[0], _COPIES)
        wide = _shape(expanded)
        if expanded.target not in _EXPANDS or len(wide) != 5 or wide[:1] + wide[3:] != shape[:1] + shape[2:]:
            return node, 1
        source = _source(expanded.args[0], (*_COPIES, aten.slice.Tensor), same_shape=True)
        if _shape(source) != (*wide[:2], 1, *wide[3:]):
            return node, 1
        if source.target == aten.unsqueeze.default and source.args[1] in (2, -3):
            return _source(source.args[0], (aten.slice.Tensor,), same_shape=True), wide[2]
        if source.target in _VIEWS and _shape(source.args[0]) == (*wide[:2], *wide[3:]):
            return source.args[0], wide[2]
        return node, 1

    def share_heads(self, attention: _Attention) -> _Attention:
        """Has query heads share keys and values where these are repeated."""
        (key, key_times), (value, value_times) = map(self.shared_heads, (attention.key, attention.value))
        if key_times == 1 or key_times != value_times or _shape(key)[1] != _shape(value)[1]:
            return attention
        return attention._replace(key=key, value=value, enable_gqa=True)

    def transposed(self, node: Node, result_rank: int) -> Tuple[Node, float]:
        """The keys, of which ``node`` is the transpose, and their scale."""
        node, scale = self.operand(node, result_rank)
        rank = len(_shape(node))
        last = {rank - 1, rank - 2}
        if node.target == aten.transpose.int:
            is_swap = {dim % rank for dim in node.args[1:3]} == last
        elif node.target == aten.permute.default:
            is_swap = list(node.args[1]) == [*range(rank - 2), rank - 1, rank - 2]
        else:
            is_swap = node.target in (aten.mT.default, aten.numpy_T.default, aten.t.default) and rank >= 2
        if is_swap:
            key, more = self.operand(node.args[0], result_rank)
            return key, scale * more
        # Other permutations, such as from [batch, positions, heads, channels] at once.
        with self.graph.inserting_after(node):
            key = self.graph.call_function(aten.transpose.int, (node, -2, -1))
            key.meta["val"] = node.meta["val"].transpose(-2, -1)
        return key, scale

    def match_scores(self, softmax: Node) -> Tuple[Node, Node, float, List[Tuple[Node, bool]]]:
        """Query, key, scale, and masks: with whether ones in them are kept."""
        node = softmax.args[0]
        scale = 1.0
        masks: List[Tuple[Node, bool]] = []
        while node.target not in _PRODUCTS:
            if node.op != "call_function":
                raise _Mismatch("it is not that of a product of matrices")
            if node.target in _CASTS + _COPIES + _VIEWS + _EXPANDS:
                node = node.args[0]
            elif node.target in _SCALES and self.number(node.args[1]) is not None:
                scale *= _SCALES[node.target](self.number(node.args[1]))
                node = node.args[0]
            elif node.target == aten.add.Tensor and not node.kwargs:
                if scale != 1.0:
                    raise _Mismatch("scores are scaled after something is added to them")
                node = self._take_bias(node, masks)
            elif node.target in (aten.masked_fill.Scalar, aten.masked_fill.Tensor) and self._masks(node.args[2]):
                masks.append((node.args[1], False))
                node = node.args[0]
            elif node.target in (aten.where.self, aten.where.ScalarOther) and self._masks(node.args[2]):
                masks.append((node.args[0], True))
                node = node.args[1]
            elif node.target in (aten.where.self, aten.where.ScalarSelf) and self._masks(node.args[1]):
                masks.append((node.args[0], False))
                node = node.args[2]
            else:
                raise _Mismatch(f"{node.target} is between the product and the softmax")
        rank = len(_shape(softmax))
        query, query_scale = self.operand(node.args[0], rank)
        key, key_scale = self.transposed(node.args[1], rank)
        return query, key, scale * query_scale * key_scale, masks

    def _masks(self, node: Any) -> bool:
        number = self.number(node)
        return number is not None and number <= _MASKED

    def _take_bias(self, node: Node, masks: List[Tuple[Node, bool]]) -> Node:
        """Notes what is added, and returns what it is added to."""
        sides = [(node.args[0], node.args[1]), (node.args[1], node.args[0])]
        for scores, bias in sides:
            if isinstance(scores, Node) and isinstance(bias, Node) and self._leads_to_product(scores):
                masks.append((bias, True))
                return scores
        raise _Mismatch("something other than a tensor is added to scores")

    def _leads_to_product(self, node: Node) -> bool:
        passed = _CASTS + _COPIES + _VIEWS + _EXPANDS + tuple(_SCALES) + (aten.add.Tensor, aten.masked_fill.Scalar)
        while node.op == "call_function" and node.target in passed:
            node = node.args[0]
        return node.op == "call_function" and node.target in (*_PRODUCTS, aten.where.self)

    def match_weights(self, softmax: Node) -> Tuple[Node, Node, float]:
        """The output, the values and the probability of dropout."""
        node, dropout = softmax, 0.0
        guard = self._find_guard(softmax)
        if guard is not None:
            node = guard
        while True:
            user = _only_user(node, "weights")
            if user.target in _CASTS + _COPIES + _VIEWS + _EXPANDS and user.args[0] is node:
                node = user
            elif user.target == aten.dropout.default:
                dropout = user.args[1] if user.args[2] else 0.0
                node = user
            elif user.target == aten.native_dropout.default:
                dropout = user.args[1] if user.args[2] is not False else 0.0
                if {use.args[1] for use in user.users} != {0}:
                    raise _Mismatch("the mask of dropout is used")
                node = _only_user(user, "weights")
            elif user.target in _PRODUCTS and user.args[0] is node:
                break
            else:
                raise _Mismatch(f"{user.target} is between the softmax and the product")
        value, value_scale = self.operand(user.args[1], len(_shape(softmax)))
        if value_scale != 1.0:
            value = user.args[1]
        output = user
        shape = (*_shape(softmax)[:-1], _shape(value)[-1])
        if _shape(output) != shape:
            output = _only_user(output, "products")
            if output.target not in _VIEWS or _shape(output) != shape:
                raise _Mismatch("the result has another shape")
        return output, value, float(dropout)

    @staticmethod
    def _find_guard(softmax: Node) -> Optional[Node]:
        """What makes rows zero whose scores are all masked, as torch's own function does."""
        for user in softmax.users:
            if user.target == aten.where.self and user.args[2] is softmax:
                condition = user.args[0]
                chain = []
                while condition.target in (aten.logical_not.default, aten.any.dim):
                    chain.append(condition.target)
                    condition = condition.args[0]
                expected = [aten.logical_not.default, aten.any.dim, aten.logical_not.default]
                is_all_masked = condition.target == aten.eq.Scalar and condition.args == (softmax.args[0], -math.inf)
                if chain == expected and is_all_masked:
                    return user
        return None

    def match(self, softmax: Node) -> _Attention:
        rank = len(_shape(softmax))
        if softmax.args[1] % rank != rank - 1:
            raise _Mismatch("it is not over the last dimension")
        query, key, scale, masks = self.match_scores(softmax)
        output, value, dropout = self.match_weights(softmax)
        for tensor in (query, key, value):
            if len(_shape(tensor)) != len(_shape(output)):
                raise _Mismatch("its operands have another number of dimensions than the result")
        is_causal = False
        kept: List[Tuple[Node, bool]] = []
        for mask, is_kept in masks:
            if self.is_causal(mask, is_kept, query, key):
                is_causal = True
            else:
                kept.append((mask, is_kept))
        if is_causal and kept:
            # One mask says it all: the others are joined with the causal one.
            is_causal, kept = False, masks
        if any(self.has_gradient(mask) for mask, _ in kept):
            raise _Mismatch("what is added to scores has a gradient")
        joined = self._join(kept, query, output)
        return _Attention(output, query, key, value, joined, dropout, is_causal, scale)

    def _join(self, masks: List[Tuple[Node, bool]], query: Node, output: Node) -> Optional[Node]:
        """One mask for ``sdpa``: of booleans that keep, or what is added."""
        if not masks:
            return None

        def call(target: Any, *args: Any) -> Node:
            node = self.graph.call_function(target, args)
            node.meta["val"] = target(*[arg.meta["val"] if isinstance(arg, Node) else arg for arg in args])
            return node

        with self.graph.inserting_before(output):
            dtype = query.meta["val"].dtype
            booleans, biases = [], []
            for mask, is_kept in masks:
                value = mask.meta["val"]
                if value.dtype == torch.bool:
                    booleans.append(mask if is_kept else call(aten.logical_not.default, mask))
                else:
                    biases.append(mask if value.dtype == dtype else call(aten.to.dtype, mask, dtype))
            keep = booleans[0] if booleans else None
            for other in booleans[1:]:
                keep = call(aten.logical_and.default, keep, other)
            if not biases:
                return keep
            bias = biases[0]
            for other in biases[1:]:
                bias = call(aten.add.Tensor, bias, other)
            return bias if keep is None else call(aten.where.ScalarOther, keep, bias, -math.inf)

    # Replacement

    def check(self, attention: _Attention) -> None:
        value = attention.query.meta["val"]
        if value.dtype not in kernel_dtypes(value.device):
            raise _Mismatch(f"there are no kernels for {value.dtype} on {value.device.type}")
        if attention.mask is not None and self.has_gradient(attention.mask):
            raise _Mismatch("its mask has a gradient")

    def replace(self, attention: _Attention) -> Node:
        with self.graph.inserting_before(attention.output):
            _, *arguments = attention
            node = self.graph.call_function(sdpa, tuple(arguments))
        node.meta["val"] = attention.output.meta["val"]
        attention.output.replace_all_uses_with(node)
        return node

    def is_between_products(self, softmax: Node) -> bool:
        """Whether there are products on both sides of a softmax, with nothing between
        that makes other rows: it is some attention, then."""
        rows = _rows(softmax)

        def reaches(start: List[Node], follow: Callable[[Node], Iterable[Node]]) -> bool:
            seen: Set[Node] = set()
            while start:
                node = start.pop()
                if node in seen or node.op != "call_function":
                    continue
                seen.add(node)
                if node.target in (*_PRODUCTS, aten.einsum.default, aten.baddbmm.default):
                    return True
                if _rows(node) == rows:
                    start += follow(node)
            return False

        before = reaches(list(softmax.all_input_nodes), lambda node: node.all_input_nodes)
        return before and reaches(list(softmax.users), lambda node: node.users)

    def run(self) -> Tuple[List[str], List[str], List[str]]:
        """What was found, what was left and why, and which of that is attention."""
        found, left, missed = [], [], []
        for node in list(self.graph.nodes):
            try:
                if node.target == aten.scaled_dot_product_attention.default:
                    names = ("query", "key", "value", "mask", "dropout_p", "is_causal")
                    attention = _Attention(node, **dict(zip(names, node.args)), **_renamed(node.kwargs))
                elif node.target in _SOFTMAXES:
                    attention = self.match(node)
                else:
                    continue
                self.check(attention)
                found.append(self.replace(self.share_heads(attention)).name)
            except _Mismatch as mismatch:
                left.append(f"{node.name}: {mismatch}")
                if node.target not in _SOFTMAXES or self.is_between_products(node):
                    missed.append(left[-1])
        self.graph.eliminate_dead_code(lambda node: node.is_impure() and node.target not in _WITHOUT_EFFECT)
        return found, left, missed


def _renamed(options: Dict[str, Any]) -> Dict[str, Any]:
    return {("mask" if name == "attn_mask" else name): value for name, value in options.items()}


def from_export(program: torch.export.ExportedProgram) -> GraphModule:
    """The module of an exported program, with its attention computed by Attn.

    What is found are calls of torch's ``scaled_dot_product_attention`` and
    softmaxes between two products, written out or decomposed. Everything else is
    left to torch. ``meta["attn_found"]`` of the result names the calls of ``sdpa``
    in it, ``meta["attn_left"]`` the softmaxes and calls that were left and why; a
    warning names those that are attention. Kernels are compiled when they are first
    called.

    Numbers that take the place of masked scores count as minus infinity if they are
    -10000 or less: rows in which all are masked give 0.
    """
    if not isinstance(program, torch.export.ExportedProgram):
        raise WrongTypeError(
            f"program is a {type(program).__name__}; pass what torch.export.export returns, as in "
            "from_export(torch.export.export(model, (example,)))"
        )
    module = program.module()
    found, left, missed = _Importer(module).run()
    module.recompile()
    module.meta["attn_found"], module.meta["attn_left"] = found, left
    if not found:
        reasons = "; ".join(left) if left else "the graph has no softmax"
        warn_once(f"nothing found: {reasons}", f"no attention was found, and all is left to torch: {reasons}")
    elif missed:
        reasons = "; ".join(missed)
        warn_once(f"left: {reasons}", f"attention is left to torch beside {len(found)} that is not: {reasons}")
    return module
