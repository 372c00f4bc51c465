# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention in graphs of ``torch.export``.

Attention is found as a call of torch's ``scaled_dot_product_attention``, or as a softmax between two matmuls, which may
be written as ``einsum``, before and after ``run_decompositions``. Scales, caps, masks and biases between the first
matmul and the softmax, casts, and dropout after it, belong to it, and so do sinks: logits that are concatenated to
scores, and whose probabilities are cut off. All else stays.
"""

import math
import operator
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple, cast

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from attn.errors import WrongTypeError, warn_once
from attn.torch.graph_writes import CHECKS, GraphWrites
from attn.torch.kernels import kernel_dtypes
from attn.torch.sdpa import sdpa

aten = torch.ops.aten

_SOFTMAXES = (aten.softmax.int, aten._softmax.default)
_MATMULS = (aten.matmul.default, aten.bmm.default)
_CASTS = (aten.to.dtype, aten._to_copy.default, aten.type_as.default, aten.to.dtype_layout)
_COPIES = (aten.clone.default, aten.contiguous.default, aten.detach.default, aten.alias.default)
_VIEWS = (
    aten.view.default,
    aten._unsafe_view.default,
    aten.reshape.default,
    aten.flatten.using_ints,
    aten.unflatten.int,
)
_EXPANDS = (aten.expand.default,)
_SQUEEZES = (aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
_PERMUTATIONS = (
    aten.permute.default,
    aten.transpose.int,
    aten.mT.default,
    aten.numpy_T.default,
    aten.t.default,
)
_SCALES: Dict[Any, Callable[[float], float]] = {
    aten.mul.Tensor: lambda x: x,
    aten.mul.Scalar: lambda x: x,
    aten.div.Tensor: lambda x: 1 / x,
    aten.div.Scalar: lambda x: 1 / x,
}
_SUMS = (aten.add.Tensor, aten.sub.Tensor)
# With a number that is less than any score, these keep what masks leave.
_LOWER_BOUNDS = (aten.max.other, aten.maximum.default, aten.clamp_min.default, aten.clamp.default)
_FILLS = (aten.masked_fill.Scalar, aten.masked_fill.Tensor)
#: Operations between the first matmul and the softmax, with scores as their first argument.
_PASSED = (
    *(_CASTS + _COPIES + _VIEWS + _EXPANDS + _SQUEEZES + _PERMUTATIONS),
    *(*_SCALES, *_SUMS, *_FILLS, *_LOWER_BOUNDS, aten.tanh.default),
)
# Impure for torch, but without effect once the result is unused or the checked tensor is gone.
_WITHOUT_EFFECT = (aten.dropout.default, aten.native_dropout.default, *CHECKS)
# Numbers that mask a score, added to it or in its place; less than any score.
_MASKED = -1e4


class _Mismatch(Exception):
    """A softmax that does not belong to attention, or not to a supported one."""


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
    soft_cap: Optional[float] = None
    #: The permutation of the result's dimensions to the dimensions of ``output``.
    order: Optional[Tuple[int, ...]] = None
    #: How many heads the first dimension of ``output`` has for each batch entry; 0 if it is the batch entry alone.
    heads: int = 0
    #: Logits without a value: of each head, ``[heads]``, or of each query, ``[batch, heads, queries, 1]``.
    sinks: Optional[Node] = None


def _shape(node: Node) -> Tuple:
    return tuple(node.meta["val"].shape)


def _get_order(node: Node, rank: int) -> List[int]:
    """The dimension of the source that each dimension of a permutation is."""
    order = list(range(rank))
    if node.target == aten.permute.default:
        return [dim % rank for dim in node.args[1]]
    a, b = node.args[1:3] if node.target == aten.transpose.int else (-2, -1)
    order[a], order[b] = order[b], order[a]
    return order


def _rows(node: Node) -> Any:
    """The number of rows of a tensor; None for other values."""
    value = node.meta.get("val")
    return math.prod(value.shape[:-1]) if isinstance(value, Tensor) and value.dim() > 1 else None


def _source(node: Node, passed: Tuple, same_shape: bool = False) -> Node:
    """The origin of ``node`` through operations ``passed``, which copy it."""
    while node.op == "call_function" and node.target in passed:
        if same_shape and _shape(node.args[0]) != _shape(node):
            break
        node = node.args[0]
    return node


#: For each dimension of a tensor the names of the dimensions in it, the outermost first. Names of size 1 are in none.
Groups = List[List[str]]


class _Names:
    """The dimensions of scores by name, followed through operations that move them."""

    def __init__(self, shape: Tuple):
        self.batch = [f"b{number}" for number in range(len(shape) - 2)]
        self.sizes: Dict[str, Any] = {}
        self.scores = self.add([*self.batch, "i", "j"], shape)

    def add(self, names: Iterable[str], shape: Tuple) -> Groups:
        groups: Groups = []
        for name, size in zip(names, shape):
            if size != 1:
                self.sizes[name] = size
            groups.append([name] if size != 1 else [])
        return groups

    def fit(self, groups: Groups, node: Node) -> bool:
        shape = _shape(node)
        return len(shape) == len(groups) and all(
            math.prod(self.sizes[name] for name in group) == size for group, size in zip(groups, shape)
        )

    def _regroup(self, groups: Groups, shape: Tuple) -> Optional[Groups]:
        """The same in the same order, in dimensions of other sizes."""
        pending = [name for group in groups for name in group]
        result: Groups = []
        for size in shape:
            group: List[str] = []
            while math.prod(self.sizes[name] for name in group) != size:
                if not pending:
                    return None
                group.append(pending.pop(0))
            result.append(group)
        return None if pending else result

    def move(self, node: Node, groups: Groups, is_forward: bool) -> Optional[Groups]:
        """The names in ``node``, from the names in its first argument, or the other way."""
        if node.op != "call_function" or not node.args or not isinstance(node.args[0], Node):
            return None
        # Parts of a tensor that is split have a list as their source.
        if not isinstance(node.args[0].meta["val"], Tensor):
            return None
        shape, source = _shape(node), _shape(node.args[0])
        if node.target in _PERMUTATIONS:
            rank = len(shape)
            order = _get_order(node, rank)
            return [groups[dim] for dim in order] if is_forward else [groups[order.index(dim)] for dim in range(rank)]
        if node.target in (*_VIEWS, *_SQUEEZES):
            return self._regroup(groups, shape if is_forward else source)
        is_same = node.target in _COPIES or (node.target in _EXPANDS and shape == source)
        return groups if is_same else None

    def order(self, groups: Groups, names: List[str]) -> Optional[List[int]]:
        """Which dimension each of the names is, if each is one."""
        if len(groups) != len(names) or any(len(group) > 1 for group in groups):
            return None
        empty = [dim for dim, group in enumerate(groups) if not group]
        order = []
        for name in names:
            if name not in self.sizes:
                if not empty:
                    return None
                order.append(empty.pop(0))
            elif [name] in groups:
                order.append(groups.index([name]))
            else:
                return None
        return order


def _parse_einsum(node: Node) -> Optional[Tuple[str, str, str]]:
    """The letters of both operands and of the result."""
    equation = str(node.args[0]).replace(" ", "")
    if len(node.args[1]) != 2 or "->" not in equation or "." in equation:
        return None
    operands, result = equation.split("->")
    left, right = operands.split(",")
    is_plain = all(len(set(letters)) == len(letters) for letters in (left, right, result))
    # Dimensions of only one operand are in the result: nothing else is contracted.
    return (left, right, result) if is_plain and set(left) ^ set(right) <= set(result) else None


class _Importer:
    def __init__(self, module: GraphModule):
        self.module = module
        self.graph: Graph = module.graph
        self.values: Dict[Node, Optional[Tensor]] = {}
        self.writes = GraphWrites(self.graph)

    def only_user(self, node: Node, what: str) -> Node:
        users = [user for user in node.users if user.target not in CHECKS]
        if len(users) != 1:
            raise _Mismatch(f"{what} are used more than once")
        return users[0]

    # Constants

    def constant(self, node: Any) -> Any:
        """The value of a node that depends on no input and no parameter, or None."""
        if not isinstance(node, Node):
            return node
        if node not in self.values:
            self.values[node] = self._evaluate(node)
        return self.values[node]

    def _evaluate(self, node: Node) -> Optional[Tensor]:
        if self.writes.may_change(node):
            return None
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
        """An operand of a matmul before batch and heads became one of its ``rank`` dimensions, and its scale."""
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
        """The repeated tensor where ``node`` is keys or values that have each head several times, one after another,
        and the number of repetitions."""
        shape = _shape(node)
        repeated = _source(node, _COPIES)
        if len(shape) == 4 and repeated.target == aten.repeat_interleave.self_int:
            source, times = repeated.args[:2]
            if repeated.args[2:] in ((1,), (-3,)) or repeated.kwargs.get("dim") in (1, -3):
                return source, times
        if len(shape) != 4 or repeated.target not in _VIEWS:
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
        """Lets query heads share keys and values where these are repeated."""
        (key, key_times), (value, value_times) = map(self.shared_heads, (attention.key, attention.value))
        if key_times == value_times == 1:
            return attention
        self.check_writes(attention.output, (key, value), (attention.key, attention.value))
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
        # Other permutations, such as from [batch, positions, heads, head dim] at once.
        with self.graph.inserting_after(node):
            key = self.graph.call_function(aten.transpose.int, (node, -2, -1))
            key.meta["val"] = node.meta["val"].transpose(-2, -1)
        return key, scale

    def insert(self, after: Node, target: Any, *args: Any) -> Node:
        with self.graph.inserting_after(after):
            node = self.graph.call_function(target, args)
        node.meta["val"] = target(*[arg.meta["val"] if isinstance(arg, Node) else arg for arg in args])
        return node

    def arrange(self, node: Node, groups: Groups, names: _Names, wanted: List[str]) -> Tuple[Node, float]:
        """The tensor that ``node`` was moved from, with the ``wanted`` dimensions, and its scale."""
        found: Optional[Tuple[Node, List[int], float]] = None
        scale = 1.0
        current: Optional[Groups] = groups
        while current is not None:
            order = names.order(current, wanted)
            if order is not None and (found is None or found[1] != sorted(found[1]) or order == sorted(order)):
                found = (node, order, scale)
            if node.op == "call_function" and node.target in _SCALES and self.number(node.args[1]) is not None:
                scale *= _SCALES[node.target](cast(float, self.number(node.args[1])))
            else:
                current = names.move(node, current, is_forward=False)
            if current is not None:
                node = node.args[0]
        if found is None:
            raise _Mismatch("an operand of its matmuls has other dimensions than batch, heads, positions and head dim")
        node, order, scale = found
        return (node if order == sorted(order) else self.insert(node, aten.permute.default, node, order)), scale

    def match_moved_matmul(self, node: Node, shape: Tuple) -> Optional[Tuple[Node, Node, float]]:
        """Query, key and scale if ``node`` is a matmul whose dimensions were moved, or an ``einsum``; None if it is a
        plain matmul or no matmul."""
        names = _Names(shape)
        groups: Optional[Groups] = names.scores
        scale, is_moved = 1.0, False
        while node.op == "call_function" and node.target not in (*_MATMULS, aten.einsum.default):
            if node.target in _SCALES and self.number(node.args[1]) is not None:
                scale *= _SCALES[node.target](cast(float, self.number(node.args[1])))
            else:
                is_moved |= node.target in (*_PERMUTATIONS, *_SQUEEZES)
                groups = names.move(node, cast(Groups, groups), is_forward=False)
            if groups is None or not isinstance(node.args[0], Node):
                return None
            node = node.args[0]
        if node.op != "call_function" or groups is None:
            return None
        if node.target == aten.einsum.default:
            letters = _parse_einsum(node)
            if letters is None:
                return None
            (left, right, result), operands = letters, node.args[1]
            places = dict(zip(result, groups))
            channels = [letter for letter in left if letter not in places]
            if len(channels) != 1 or set(right) - set(places) != set(channels):
                return None
            places[channels[0]] = names.add(["d"], (_shape(operands[0])[left.index(channels[0])],))[0]
            sides = [[places[letter] for letter in side] for side in (left, right)]
        elif is_moved:
            operands = node.args[:2]
            head_dim_group = names.add(["d"], _shape(operands[0])[-1:])[0]
            sides = [[*groups[:-1], head_dim_group], [*groups[:-2], head_dim_group, groups[-1]]]
        else:
            return None
        if any(not names.fit(side, operand) for side, operand in zip(sides, operands)):
            return None
        has = [{name for group in side for name in group} for side in sides]
        if "j" in has[0] or "i" in has[1]:
            operands, sides, has = operands[::-1], sides[::-1], has[::-1]
        if "j" in has[0] or "i" in has[1] or has[0] - {"i"} != has[1] - {"j"}:
            return None
        query, query_scale = self.arrange(operands[0], sides[0], names, [*names.batch, "i", "d"])
        key, key_scale = self.arrange(operands[1], sides[1], names, [*names.batch, "j", "d"])
        return query, key, scale * query_scale * key_scale

    def match_scores(
        self, softmax: Node, without_sinks: Optional[Node] = None, splits_heads: bool = False
    ) -> Tuple[Node, Node, float, Optional[float], List[Tuple[Node, bool]]]:
        """Query, key, scale, cap, and masks: with whether ones in them are kept. If ``splits_heads``, masks may have
        batch and heads where these are one dimension of scores."""
        node = softmax.args[0] if without_sinks is None else without_sinks
        shape = _shape(softmax) if without_sinks is None else _shape(without_sinks)
        scale, cap = 1.0, None
        masks: List[Tuple[Node, bool]] = []
        number = 0
        while node.target not in _MATMULS:
            if node.op != "call_function":
                raise _Mismatch("it is not that of a matmul")
            if len(masks) != number:
                # Scores as the last mask found them.
                self.check_split(masks[-1][0], _shape(node), shape)
                number = len(masks)
            if node.target in (*_PERMUTATIONS, *_SQUEEZES, *_VIEWS, aten.einsum.default) and _shape(node) == shape:
                moved = self.match_moved_matmul(node, shape)
                if moved is not None:
                    query, key, more = moved
                    return query, key, *self._capped(scale * more, cap), self._fitting(masks, shape, splits_heads)
            if node.target in _CASTS + _COPIES + _VIEWS + _EXPANDS:
                node = node.args[0]
            elif node.target in _SCALES and self.number(node.args[1]) is not None:
                scale *= _SCALES[node.target](self.number(node.args[1]))
                node = node.args[0]
            elif node.target == aten.tanh.default and cap is None:
                if scale == 0.0:
                    raise _Mismatch("scores are capped at 0")
                scale, cap = 1.0, scale
                node = node.args[0]
            elif cap is not None:
                raise _Mismatch(f"{node.target} is between the matmul and the cap of its scores")
            elif node.target == aten.baddbmm.default:
                beta, alpha = node.kwargs.get("beta", 1), node.kwargs.get("alpha", 1)
                if beta not in (0, 1) or (beta == 1 and scale != 1.0):
                    raise _Mismatch("scores are scaled after something is added to them")
                if beta == 1:
                    masks.append((node.args[0], True))
                return self._operands(node.args[1:], shape, scale * alpha, cap, masks, splits_heads)
            elif node.target in _SUMS and self._take_matmul_with_mask(node, masks):
                node = self._scores_with_mask(node.args[0])[0]
            elif node.target in _SUMS and not node.kwargs:
                if scale != 1.0:
                    raise _Mismatch("scores are scaled after something is added to them")
                node = self._take_bias(node, masks)
            elif node.target in _LOWER_BOUNDS and len(node.args) == 2 and not node.kwargs and self._masks(node.args[1]):
                node = node.args[0]
            elif node.target in _FILLS and self._masks(node.args[2]):
                masks.append((node.args[1], False))
                node = node.args[0]
            elif node.target in (aten.where.self, aten.where.ScalarOther) and self._masks(node.args[2]):
                masks.append((node.args[0], True))
                node = node.args[1]
            elif node.target in (aten.where.self, aten.where.ScalarSelf) and self._masks(node.args[1]):
                masks.append((node.args[0], False))
                node = node.args[2]
            else:
                raise _Mismatch(f"{node.target} is between the matmul and the softmax")
        if len(masks) != number:
            self.check_split(masks[-1][0], _shape(node), shape)
        return self._operands(node.args, shape, scale, cap, masks, splits_heads)

    def _operands(
        self,
        operands: Tuple,
        shape: Tuple,
        scale: float,
        cap: Optional[float],
        masks: List[Tuple[Node, bool]],
        splits_heads: bool,
    ) -> Tuple[Node, Node, float, Optional[float], List[Tuple[Node, bool]]]:
        query, query_scale = self.operand(operands[0], len(shape))
        key, key_scale = self.transposed(operands[1], len(shape))
        scale *= query_scale * key_scale
        return query, key, *self._capped(scale, cap), self._fitting(masks, shape, splits_heads)

    @staticmethod
    def check_split(mask: Node, found: Tuple, shape: Tuple) -> None:
        """Refuses a mask of four dimensions for scores of three, ``shape``, unless these were ``found`` as a view with
        batch and heads in the place of the first one."""
        if len(_shape(mask)) == 4 and len(shape) == 3:
            if len(found) != 4 or found[2:] != shape[1:] or found[0] * found[1] != shape[0]:
                raise _Mismatch(f"a mask is added to scores of the shape {found}, and their softmax has {shape}")

    @staticmethod
    def _capped(scale: float, cap: Optional[float]) -> Tuple[float, Optional[float]]:
        """Scale and cap of ``cap * tanh(scale * score)`` as ``sdpa`` has them."""
        return (scale, None) if cap is None else (scale * cap, abs(cap))

    def _fitting(self, masks: List[Tuple[Node, bool]], shape: Tuple, splits_heads: bool) -> List[Tuple[Node, bool]]:
        """The masks in shapes that broadcast to scores. In a mask, batch and heads may be one dimension; if
        ``splits_heads``, in scores, too: such masks broadcast to scores that a view gives both dimensions."""
        result = []
        for mask, is_kept in masks:
            sizes = _shape(mask)
            is_broadcast = len(sizes) <= len(shape) and all(
                size == 1 or size == expected for size, expected in zip(reversed(sizes), reversed(shape))
            )
            is_split = splits_heads and len(sizes) == 4 and len(shape) == 3
            if not is_broadcast and not is_split:
                if len(sizes) != 3 or len(shape) != 4 or sizes[0] != shape[0] * shape[1]:
                    raise _Mismatch(f"a mask of the shape {sizes} is not of the scores' shape {shape}")
                mask = self.insert(mask, aten.reshape.default, mask, [*shape[:2], *sizes[1:]])
            result.append((mask, is_kept))
        return result

    def _masks(self, node: Any) -> bool:
        number = self.number(node)
        return number is not None and number <= _MASKED

    def _take_bias(self, node: Node, masks: List[Tuple[Node, bool]]) -> Node:
        """Notes the bias that is added, and returns the operand that it is added to."""
        sides = [(node.args[0], node.args[1]), (node.args[1], node.args[0])]
        is_sum = node.target == aten.add.Tensor
        for scores, bias in sides if is_sum else sides[:1]:
            if isinstance(scores, Node) and isinstance(bias, Node) and self._leads_to_matmul(scores):
                masks.append((bias if is_sum else self.insert(bias, aten.neg.default, bias), True))
                return scores
        between = node.args[0]
        while isinstance(between, Node) and between.op == "call_function" and between.target in _PASSED:
            between = between.args[0]
        if isinstance(between, Node) and not self._leads_to_matmul(between):
            raise _Mismatch(f"{between.target} is between the matmul and the softmax")
        raise _Mismatch("something other than a tensor is added to scores")

    def _leads_to_matmul(self, node: Any) -> bool:
        while isinstance(node, Node) and node.op == "call_function" and node.target in _PASSED:
            node = node.args[0]
        if not isinstance(node, Node) or node.op != "call_function":
            return False
        if node.target in (aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf):
            return any(self._leads_to_matmul(arg) for arg in node.args[1:])
        return node.target in (*_MATMULS, aten.einsum.default, aten.baddbmm.default)

    def _scores_with_mask(self, node: Any) -> Tuple[Any, Any]:
        """Both factors of a multiplication by a mask, the scores first."""
        if not isinstance(node, Node) or node.target != aten.mul.Tensor or not isinstance(node.args[1], Node):
            return None, None
        first, second = node.args
        return (first, second) if self._leads_to_matmul(first) else (second, first)

    def _take_matmul_with_mask(self, node: Node, masks: List[Tuple[Node, bool]]) -> bool:
        """Notes a mask of ones and zeros as in ``scores * mask - 1e9 * (1 - mask)``."""
        scores, mask = self._scores_with_mask(node.args[0])
        bias = node.args[1]
        if node.kwargs or not isinstance(mask, Node) or not isinstance(bias, Node):
            return False
        if not self._leads_to_matmul(scores):
            return False
        ones, added = self.constant(mask), self.constant(bias)
        sign = 1.0 if node.target == aten.add.Tensor else -1.0
        if isinstance(ones, Tensor) and isinstance(added, Tensor):
            ones, added = torch.broadcast_tensors(ones, added * sign)
            is_mask = ((ones == 1) & (added == 0)) | ((ones == 0) & (added <= _MASKED))
            if not bool(is_mask.all()):
                return False
        else:
            # Ones and zeros come from booleans, and one minus the mask is subtracted.
            source = _source(mask, _CASTS + _COPIES)
            factor = self.number(bias.args[1]) if bias.target in (aten.mul.Tensor, aten.mul.Scalar) else None
            rest = bias.args[0] if factor is not None else None
            is_rest = isinstance(rest, Node) and (
                (rest.target == aten.rsub.Scalar and rest.args == (mask, 1))
                or (rest.target == aten.sub.Tensor and rest.args == (1, mask))
            )
            if source.meta["val"].dtype != torch.bool or not is_rest or sign * cast(float, factor) > _MASKED:
                return False
            mask = source
        masks.append((self.insert(mask, aten.ne.Scalar, mask, 0), True))
        return True

    def match_moved_output(self, node: Node, shape: Tuple) -> Tuple[Node, Node, Tuple[int, ...]]:
        """The output, the values, and the permutation of the output's dimensions, if the probabilities are moved before
        a matmul, or are an operand of an ``einsum``."""
        unknown = _Mismatch("its attention probabilities are moved in a way that is not known")
        names = _Names(shape)
        groups: Optional[Groups] = names.scores
        user = self.only_user(node, "attention probabilities")
        while user.target not in (*_MATMULS, aten.einsum.default):
            groups = names.move(user, cast(Groups, groups), is_forward=True)
            if groups is None:
                raise _Mismatch(f"{user.target} is between the softmax and the matmul")
            node, user = user, self.only_user(user, "attention probabilities")
        if user.target == aten.einsum.default:
            letters = _parse_einsum(user)
            if letters is None:
                raise unknown
            position = user.args[1].index(node)
            weights, values, result = letters[position], letters[1 - position], letters[2]
            value = user.args[1][1 - position]
            places = dict(zip(weights, groups))
            channels = [letter for letter in values if letter not in places]
            if len(channels) != 1:
                raise unknown
            places[channels[0]] = names.add(["d"], (_shape(value)[values.index(channels[0])],))[0]
            sides = [[places[letter] for letter in side] for side in (values, result)]
        else:
            value = user.args[1]
            if user.args[0] is not node or groups[-1] != (["j"] if "j" in names.sizes else []):
                raise unknown
            head_dim_group = names.add(["d"], _shape(value)[-1:])[0]
            sides = [[*groups[:-2], groups[-1], head_dim_group], [*groups[:-1], head_dim_group]]
        if not names.fit(sides[0], value) or not names.fit(sides[1], user):
            raise unknown
        has = [{name for group in side for name in group} for side in sides]
        if "i" in has[0] or "j" in has[1] or has[0] - {"j"} != has[1] - {"i"}:
            raise unknown
        value, scale = self.arrange(value, sides[0], names, [*names.batch, "j", "d"])
        if scale != 1.0:
            value = self.insert(value, aten.mul.Tensor, value, scale)
        output, after = user, sides[1]
        while True:
            order = names.order(after, [*names.batch, "i", "d"])
            if order is not None:
                return output, value, tuple(order.index(dim) for dim in range(len(order)))
            output = self.only_user(output, "matmuls")
            moved = names.move(output, after, is_forward=True)
            if moved is None:
                raise _Mismatch("the result has another shape")
            after = moved

    def match_probabilities(self, softmax: Node) -> Tuple[Node, Node, float, Optional[Tuple[int, ...]]]:
        """The output, the values, the probability of dropout, and the permutation of the output's dimensions, if they
        are permuted."""
        node, dropout = softmax, 0.0
        guard = self._find_guard(softmax)
        if guard is not None:
            node = guard
        while True:
            user = self.only_user(node, "attention probabilities")
            if user.target in (*_PERMUTATIONS, *_SQUEEZES, aten.einsum.default) and _shape(node) == _shape(softmax):
                output, value, order = self.match_moved_output(node, _shape(softmax))
                return output, value, float(dropout), order
            if user.target in _CASTS + _COPIES + _VIEWS + _EXPANDS and user.args[0] is node:
                node = user
            elif user.target == aten.dropout.default:
                dropout = user.args[1] if user.args[2] else 0.0
                node = user
            elif user.target == aten.native_dropout.default:
                dropout = user.args[1] if user.args[2] is not False else 0.0
                if {use.args[1] for use in user.users} != {0}:
                    raise _Mismatch("the mask of dropout is used")
                node = self.only_user(user, "attention probabilities")
            elif user.target == aten.nan_to_num.default and user.args[1:2] in ((), (None,), (0.0,)):
                node = user
            elif user.target in _MATMULS and user.args[0] is node:
                break
            else:
                raise _Mismatch(f"{user.target} is between the softmax and the matmul")
        value, value_scale = self.operand(user.args[1], len(_shape(softmax)))
        if value_scale != 1.0:
            value = user.args[1]
        output = user
        shape = (*_shape(softmax)[:-1], _shape(value)[-1])
        if _shape(output) != shape:
            output = self.only_user(output, "matmuls")
            if output.target not in _VIEWS or _shape(output) != shape:
                raise _Mismatch("the result has another shape")
        return output, value, float(dropout), None

    def _find_guard(self, softmax: Node) -> Optional[Node]:
        """The operation that makes rows zero whose scores are all masked, as torch's own function does, or replaces
        NaNs."""
        zero = None
        parts: Set[Node] = set()
        for user in softmax.users:
            if user.target == aten.isnan.default and len(user.users) == 1:
                zero = next(iter(user.users))
                parts |= {user, zero}
        is_where = zero is not None and zero.target == aten.where.self and zero.args[2] is softmax
        if zero is not None and is_where and self.number(zero.args[1]) == 0.0:
            # nan_to_num goes on to replace infinities; probabilities are never infinite.
            for user in softmax.users:
                following = next(iter(zero.users)) if len(zero.users) == 1 else None
                is_infinite = user.target == aten.eq.Scalar and math.isinf(user.args[1])
                if is_infinite and following is not None and following.args[::2] == (user, zero):
                    parts.add(user)
                    zero = following
            if set(softmax.users) <= parts:
                return zero
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

    def split_sinks(self, softmax: Node) -> Optional[Tuple[Node, Node, Node]]:
        """Scores, sinks, and the probabilities of keys, if the last element of each row of ``softmax`` is a sink."""
        last = len(_shape(softmax)) - 1
        node = _source(softmax.args[0], _CASTS + _COPIES)
        if node.target == aten.sub.Tensor and self._is_over_last(
            node.args[1], node.args[0], (aten.amax.default, aten.max.dim)
        ):
            node = _source(node.args[0], _CASTS + _COPIES)
        if node.target != aten.cat.default or len(node.args[0]) != 2 or node.args[1:] not in ((last,), (-1,)):
            return None
        scores, sinks = node.args[0]
        if _shape(sinks)[-1] != 1:
            return None
        probabilities = softmax
        while _shape(probabilities) != _shape(scores):
            probabilities = self.only_user(probabilities, "attention probabilities and sinks")
            is_cut = probabilities.target == aten.slice.Tensor and probabilities.args[1] % (last + 1) == last
            is_cut = is_cut and probabilities.args[2] == 0 and probabilities.args[4:] in ((), (1,))
            if not is_cut and probabilities.target not in _CASTS + _COPIES:
                raise _Mismatch("sinks are concatenated to scores, and their probabilities are not cut off")
        if last != 3:
            raise _Mismatch("scores with sinks have other dimensions than batch, heads, queries and keys")
        return scores, self._find_sinks(sinks, _shape(scores)), probabilities

    def _find_sinks(self, sinks: Node, shape: Tuple) -> Node:
        """Sinks of each head where these do not depend on batch entry and query, or of each query."""
        source = sinks
        while source.op == "call_function" and source.target in _EXPANDS + _CASTS + _COPIES:
            if source.args[0].meta["val"].dtype not in (torch.float32, torch.bfloat16, torch.float16):
                break
            source = source.args[0]
        heads = shape[1]
        if _shape(source) in ((1, heads, 1, 1), (heads, 1, 1)):
            return self.insert(source, aten.reshape.default, source, [heads])
        return sinks

    def match(self, softmax: Node) -> _Attention:
        rank = len(_shape(softmax))
        if softmax.args[1] % rank != rank - 1:
            raise _Mismatch("it is not over the last dimension")
        split = self.split_sinks(softmax)
        scores, sinks, probabilities = split or (None, None, softmax)
        query, key, scale, cap, masks = self.match_scores(softmax, scores, splits_heads=True)
        output, value, dropout, order = self.match_probabilities(probabilities)
        for tensor in (query, key, value):
            if len(_shape(tensor)) != len(_shape(output)):
                raise _Mismatch("its operands have another number of dimensions than the result")
        self.check_writes(output, (query, key, value, sinks, *(mask for mask, _ in masks)))
        heads = self._count_heads(masks, _shape(query))
        if heads and order is not None:
            raise _Mismatch("its masks have a dimension for heads, and its result has another order of dimensions")
        if heads:
            query, key, value = (self._split_heads(tensor, heads) for tensor in (query, key, value))
        masks = [(self._fit_heads(mask, heads, _shape(output)), is_kept) for mask, is_kept in masks]
        is_causal = False
        kept: List[Tuple[Node, bool]] = []
        for mask, is_kept in masks:
            if self.is_causal(mask, is_kept, query, key):
                is_causal = True
            else:
                kept.append((mask, is_kept))
        if is_causal and kept:
            # One mask is enough: the others are joined with the causal one.
            is_causal, kept = False, masks
        joined = self._join(kept, query, output)
        return _Attention(
            output, query, key, value, joined, dropout, is_causal, scale, soft_cap=cap, order=order, heads=heads,
            sinks=sinks,
        )  # fmt: skip

    def _count_heads(self, masks: List[Tuple[Node, bool]], shape: Tuple) -> int:
        """The number of heads in the first dimension of a query, by masks that have a dimension for them; 0 if no mask
        has. Views of scores, to which these were added, have the batch first."""
        for mask, _ in masks:
            sizes = _shape(mask)
            if len(shape) == 3 and len(sizes) == 4 and sizes[:2] != (1, 1):
                return int(sizes[1] if sizes[1] != 1 else shape[0] // sizes[0])
        return 0

    def _fit_heads(self, mask: Node, heads: int, shape: Tuple) -> Node:
        """A mask in the dimensions of attention: with ``heads``, or without if there are none."""
        sizes = _shape(mask)
        if heads and len(sizes) == 3 and sizes[0] == shape[0]:
            return self._split_heads(mask, heads)
        if not heads and len(sizes) == 4 and len(shape) == 3:
            return self.insert(mask, aten.select.int, mask, 0, 0)
        return mask

    def _split_heads(self, tensor: Node, heads: int) -> Node:
        """``tensor``, whose first dimension is batch and heads, with four dimensions."""
        source = _source(tensor, _COPIES)
        if source.target in _VIEWS:
            sizes = _shape(source.args[0])
            if len(sizes) == 4 and sizes[1:] == (heads, *_shape(tensor)[1:]):
                return source.args[0]
        return self.insert(tensor, aten.unflatten.int, tensor, 0, [-1, heads])

    def _join(self, masks: List[Tuple[Node, bool]], query: Node, output: Node) -> Optional[Node]:
        """One mask for ``sdpa``: booleans that keep, or a bias."""
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

    def check_writes(
        self, output: Node, sources: Iterable[Optional[Node]], results: Optional[Iterable[Node]] = None
    ) -> None:
        """Refuses attention whose tensors are written to in between; arguments as of ``find_written_between``."""
        written = self.writes.find_written_between(output, sources, results)
        if written is not None:
            raise _Mismatch(f"operations write to {written.name}")

    # Replacement

    def check(self, attention: _Attention) -> None:
        value = attention.query.meta["val"]
        if value.dtype not in kernel_dtypes(value.device):
            raise _Mismatch(f"there are no kernels for {value.dtype} on {value.device.type}")

    def replace(self, attention: _Attention) -> Node:
        output, *arguments, order, heads, _ = attention
        with self.graph.inserting_before(output):
            for number, tensor in enumerate(arguments):
                value = tensor.meta["val"] if isinstance(tensor, Node) else None
                # Kernels read rows whose elements follow one another.
                if value is not None and value.dim() and value.shape[-1] != 1 and value.stride(-1) != 1:
                    arguments[number] = self.graph.call_function(aten.contiguous.default, (tensor,))
                    arguments[number].meta["val"] = value.contiguous()
            node = result = self.graph.call_function(sdpa, tuple(arguments), self._write_sinks(attention))
            node.meta["val"] = output.meta["val"]
            if order is not None and order != tuple(sorted(order)):
                node.meta["val"] = node.meta["val"].permute([order.index(dim) for dim in range(len(order))])
                result = self.graph.call_function(aten.permute.default, (node, list(order)))
                result.meta["val"] = output.meta["val"]
            if heads:
                node.meta["val"] = output.meta["val"].unflatten(0, (-1, heads))
                result = self.graph.call_function(aten.flatten.using_ints, (node, 0, 1))
                result.meta["val"] = output.meta["val"]
            if self.writes.exist:
                # Operations may write to a view of the result, which other strides would not have.
                result = self.graph.call_function(aten.contiguous.default, (result,))
                result.meta["val"] = output.meta["val"]
        output.replace_all_uses_with(result)
        return node

    def _write_sinks(self, attention: _Attention) -> Dict[str, Any]:
        """Sinks as an argument of ``sdpa``. The ones of each query are attention to another key whose value is 0."""
        sinks = attention.sinks
        if sinks is None:
            return {}
        if len(_shape(sinks)) == 1:
            return {"sinks": sinks}
        query, value = attention.query, attention.value

        def size(node: Node, dim: int) -> Any:
            number = _shape(node)[dim]
            return number if isinstance(number, int) else self.graph.call_function(aten.sym_size.int, (node, dim))

        sizes = [*(size(query, dim) for dim in range(3)), size(value, 3)]
        lse = self.graph.call_function(aten.select.int, (sinks, -1, 0))
        lse = self.graph.call_function(aten.expand.default, (lse, sizes[:3]))
        lse = self.graph.call_function(aten.to.dtype, (lse, torch.float32))
        return {"state": (self.graph.call_function(aten.new_zeros.default, (query, sizes)), lse)}

    def find_softmax(self, node: Node) -> Optional[Node]:
        """A softmax in the place of one that is written out as other operations."""
        scores = None
        if node.target == aten.exp.default:
            (log,) = node.args
            if log.target in (aten.log_softmax.int, aten._log_softmax.default):
                scores, dim = log.args[:2]
        elif node.target == aten.div.Tensor and isinstance(node.args[1], Node):
            powers = node.args[0]
            is_power = isinstance(powers, Node) and powers.target == aten.exp.default
            if not is_power or not self._is_over_last(node.args[1], powers, (aten.sum.dim_IntList,)):
                return None
            (scores,), dim = powers.args, -1
            if scores.target == aten.sub.Tensor and self._is_over_last(
                scores.args[1], scores.args[0], (aten.amax.default, aten.max.dim)
            ):
                scores = scores.args[0]
        if scores is None:
            return None
        with self.graph.inserting_before(node):
            softmax = self.graph.call_function(aten.softmax.int, (scores, dim))
        softmax.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(softmax)
        return softmax

    @staticmethod
    def _is_over_last(node: Any, source: Node, functions: Tuple) -> bool:
        """Whether ``node`` is one of these functions over the last dimension of ``source``, which it keeps."""
        if not isinstance(node, Node):
            return False
        node = _source(node, _COPIES + _EXPANDS)
        if node.target == operator.getitem and node.args[1] == 0:
            node = node.args[0]
        if node.target not in functions or node.args[0] is not source or node.args[2:3] != (True,):
            return False
        dims = node.args[1] if isinstance(node.args[1], (list, tuple)) else [node.args[1]]
        rank = len(_shape(source))
        return [dim % rank for dim in dims] == [rank - 1]

    def is_between_matmuls(self, softmax: Node) -> bool:
        """Whether there are matmuls on both sides of a softmax, and nothing between them makes other rows: then it is
        some attention."""
        rows = _rows(softmax)

        def reaches(start: List[Node], follow: Callable[[Node], Iterable[Node]]) -> bool:
            seen: Set[Node] = set()
            while start:
                node = start.pop()
                if node in seen or node.op != "call_function":
                    continue
                seen.add(node)
                if node.target in (*_MATMULS, aten.einsum.default, aten.baddbmm.default):
                    return True
                if _rows(node) == rows:
                    start += follow(node)
            return False

        before = reaches(list(softmax.all_input_nodes), lambda node: node.all_input_nodes)
        return before and reaches(list(softmax.users), lambda node: node.users)

    def run(self) -> Tuple[List[str], List[str], List[str]]:
        """Calls that were found, softmaxes and calls that were left, with reasons, and the ones of these that are
        attention."""
        found, left, missed = [], [], []
        for node in list(self.graph.nodes):
            softmax = node if node.target in _SOFTMAXES else self.find_softmax(node)
            try:
                if node.target == aten.scaled_dot_product_attention.default:
                    names = ("query", "key", "value", "mask", "dropout_p", "is_causal")
                    attention = _Attention(node, **dict(zip(names, node.args)), **_renamed(node.kwargs))
                elif softmax is not None:
                    attention = self.match(softmax)
                else:
                    continue
                self.check(attention)
                found.append(self.replace(self.share_heads(attention)).name)
            except _Mismatch as mismatch:
                left.append(f"{node.name}: {mismatch}")
                if softmax is None or self.is_between_matmuls(softmax):
                    missed.append(left[-1])
                if softmax is not None and softmax is not node:
                    softmax.replace_all_uses_with(node)
        self.graph.eliminate_dead_code(lambda node: node.is_impure() and node.target not in _WITHOUT_EFFECT)
        return found, left, missed


def _renamed(options: Dict[str, Any]) -> Dict[str, Any]:
    return {("mask" if name == "attn_mask" else name): value for name, value in options.items()}


def from_export(program: torch.export.ExportedProgram) -> GraphModule:
    """The module of an exported program, with its attention computed by Attn.

    Attention is found as calls of torch's ``scaled_dot_product_attention`` and as softmaxes between two matmuls,
    written out or decomposed. Matmuls of scores without a softmax, with the causal mask and decays or without, become
    linear attention, and so do sums that normalise them. Everything else is left to torch. ``meta["attn_found"]`` of
    the result names the calls of ``sdpa`` and of linear attention in it, ``meta["attn_left"]`` the softmaxes, matmuls
    and calls that were left and why; a warning names the ones that are attention. Kernels are compiled when they are
    first called.

    Numbers in the place of masked scores count as minus infinity if they are -10000 or less, and numbers that are added
    to scores if they are less than -1e30: rows in which all are masked give 0.
    """
    if not isinstance(program, torch.export.ExportedProgram):
        raise WrongTypeError(
            f"program is a {type(program).__name__}; pass what torch.export.export returns, as in "
            "from_export(torch.export.export(model, (example,)))"
        )
    module = program.module()
    found, left, missed = _Importer(module).run()
    # That module needs this one.
    from attn.torch.import_linear import LinearImporter

    linear, left_linear = LinearImporter(module).run_linear()
    found, left, missed = found + linear, left + left_linear, missed + left_linear
    # Results of kernels may have other strides than the ones they replace. Where operations write to tensors, results
    # are copied instead.
    if not GraphWrites(module.graph).exist:
        for node in module.graph.find_nodes(op="call_function", target=aten.view.default):
            node.target = aten.reshape.default
    module.recompile()
    module.meta["attn_found"], module.meta["attn_left"] = found, left
    if not found:
        reasons = "; ".join(left) if left else "the graph has no softmax"
        warn_once(f"nothing found: {reasons}", f"no attention was found, and all is left to torch: {reasons}")
    elif missed:
        reasons = "; ".join(missed)
        warn_once(f"left: {reasons}", f"some attention is left to torch, and {len(found)} is not: {reasons}")
    return module
