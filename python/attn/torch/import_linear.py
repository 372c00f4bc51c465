# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linear attention in graphs of ``torch.export``.

A matmul of scores without a softmax with the values becomes ``linear_attention``, if scores are multiplied by the
causal mask, decays, and factors of queries or keys alone. So does a sum of such scores over the keys, the normaliser,
and ``q`` times the cumulative sum of ``k v^T``. Feature maps and norms stay.
"""

import math
import types
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

import torch
from torch import Tensor
from torch.fx import Node

from attn.torch.importer import (
    _CASTS,
    _COPIES,
    _EXPANDS,
    _FILLS,
    _MASKED,
    _MATMULS,
    _PERMUTATIONS,
    _SCALES,
    _SQUEEZES,
    _VIEWS,
    _Attention,
    _Importer,
    _Mismatch,
    _parse_einsum,
    _shape,
)
from attn.torch.linear_attention import linear_attention

aten = torch.ops.aten

_CONTRACTIONS = (*_MATMULS, aten.einsum.default)
_WHERES = {
    aten.where.self: (1, 2),
    aten.where.ScalarOther: (1, 2),
    aten.where.ScalarSelf: (2, 1),
}
_MOVES = (*_VIEWS, *_EXPANDS, *_SQUEEZES, *_PERMUTATIONS)
# Columns of ones whose product with scores is their sum: kernels have head dims that are multiples of it.
_COLUMNS_OF_SUM = 8
# The largest head dims of kernels on GPUs, of 16 bits and of f32, and the number of which head dims are multiples.
_MAX_HEAD_DIM_OF_GPU, _MAX_HEAD_DIM_OF_GPU_IN_F32, _HEAD_DIM_UNIT_OF_GPU = 256, 192, 8
# Operations of masks of any number of tokens: comparisons of positions, shifted by numbers, and conditions of these.
_POSITIONS = tuple(
    overload
    for name in (
        "arange ones zeros full ones_like zeros_like full_like scalar_tensor triu tril ge gt le lt add sub where "
        "logical_not bitwise_not logical_and bitwise_and logical_or bitwise_or lift_fresh_copy detach"
    ).split()
    for overload in (getattr(getattr(aten, name), one) for one in getattr(aten, name).overloads() if "out" not in one)
)
_COMBINATIONS = (aten.add.Tensor, aten.sub.Tensor)
# Types that hold all positions, and the ones of conditions.
_TYPES_OF_POSITIONS = (torch.bool, torch.int32, torch.int64, torch.float32, torch.float64)
# Such a mask with numbers up to this one is evaluated for numbers of tokens beyond it.
_MAX_SHIFT = 256
# How far a constant may be from a power of a decay, relatively.
_DECAY_TOLERANCE = 1e-4


def linear(
    query: Tensor,
    key: Tensor,
    value: Optional[Tensor],
    log_decay: Optional[Tensor] = None,
    causal: bool = True,
    scale: float = 1.0,
) -> Tensor:
    """Linear attention of tensors with heads before positions, or with positions and head dim alone. Without values,
    the sums of the scores over the keys, in a last dimension of 1. ``log_decay`` are those of heads, or of heads and
    positions."""
    if query.dim() == 3:
        value = None if value is None else value[:, None]
        return linear(query[:, None], key[:, None], value, log_decay, causal, scale)[:, 0]
    batch, _, tokens, _ = query.shape
    values = query.new_ones(batch, 1, tokens, _COLUMNS_OF_SUM) if value is None else value
    if log_decay is not None and log_decay.dim() == 3:
        log_decay = log_decay.transpose(1, 2)
    q, k, v = (tensor.transpose(1, 2) for tensor in (query, key, values))
    out, _ = linear_attention(q, k, v, log_decay, scale=scale, causal=causal)
    out = out.transpose(1, 2)
    return out[..., :1] if value is None else out


class _Factors(NamedTuple):
    """What the scores are multiplied by, and the node of the scores themselves."""

    scores: Node
    scale: float
    #: Tensors that broadcast to scores, and whether scores are divided by them.
    tensors: List[Tuple[Node, bool]]
    #: Masks where scores are kept, or set to 0.
    masks: List[Tuple[Node, bool]]
    is_tril: bool


class _Linear(NamedTuple):
    """Linear attention in a graph: the arguments of ``linear``, and what multiplies values and result."""

    attention: _Attention
    matmul: Node
    #: Sums are taken over the last dimension, which they keep or not.
    is_sum: bool
    causal: bool
    decays: List[Tuple[str, Any]]
    rows: List[Tuple[Node, bool]]
    columns: List[Tuple[Node, bool]]


def _is_sum_of_rows(node: Node) -> bool:
    if node.target != aten.sum.dim_IntList or len(node.args[1]) != 1:
        return False
    return node.args[1][0] % len(_shape(node.args[0])) == len(_shape(node.args[0])) - 1


class LinearImporter(_Importer):
    """Replaces linear attention in a graph."""

    def only_user(self, node: Node, what: str) -> Node:
        # Sums are replaced together with the matmul.
        users = {user: None for user in node.users if not _is_sum_of_rows(user)}
        return super().only_user(types.SimpleNamespace(users=users), what)

    # Factors

    def split(self, node: Node) -> Optional[_Factors]:
        """The factors of scores, if ``node`` is a multiple of a matmul's result."""
        scale, is_tril = 1.0, False
        tensors: List[Tuple[Node, bool]] = []
        masks: List[Tuple[Node, bool]] = []
        shape = _shape(node)
        while node.op == "call_function" and node.target not in _CONTRACTIONS and node.target not in _MOVES:
            target, args = node.target, node.args
            if target in (aten.mul.Tensor, aten.div.Tensor) and all(isinstance(arg, Node) for arg in args):
                is_quotient = target == aten.div.Tensor
                swaps = not is_quotient and not self.is_multiple(args[0], shape)
                scores, factor = (args[1], args[0]) if swaps else args
                number = self.number(factor)
                if number is not None:
                    scale *= 1 / number if is_quotient else number
                else:
                    tensors.append((factor, is_quotient))
                node = scores
            elif target in _SCALES and self.number(args[1]) is not None:
                scale *= _SCALES[target](self.number(args[1]))
                node = args[0]
            elif target == aten.neg.default:
                scale, node = -scale, args[0]
            elif target == aten.tril.default and args[1:] in ((), (0,)):
                is_tril, node = True, args[0]
            elif target in _FILLS and self.number(args[2]) == 0.0:
                masks.append((args[1], False))
                node = args[0]
            elif target in _WHERES and 0.0 in [self.number(arg) for arg in args[1:]]:
                is_kept = self.number(args[2]) == 0.0
                masks.append((args[0], is_kept))
                node = args[1 if is_kept else 2]
            elif target in (*_CASTS, *_COPIES):
                node = args[0]
            else:
                return None
            if not isinstance(node, Node) or _shape(node) != shape:
                return None
        return _Factors(node, scale, tensors, masks, is_tril) if self.is_matmul(node) else None

    def is_matmul(self, node: Any) -> bool:
        """Whether ``node`` is the result of a matmul, perhaps moved."""
        while isinstance(node, Node) and node.op == "call_function":
            if node.target in _CONTRACTIONS:
                return True
            is_scale = node.target in _SCALES and self.number(node.args[1]) is not None
            if node.target not in (*_MOVES, *_CASTS, *_COPIES) and not is_scale:
                return False
            node = node.args[0]
        return False

    def is_multiple(self, node: Node, shape: Tuple) -> bool:
        return _shape(node) == shape and self.split(node) is not None

    # Masks and decays

    def is_causal(self, mask: Node, is_kept: bool, query: Node, key: Node) -> bool:
        queries, keys = _shape(query)[-2], _shape(key)[-2]
        if isinstance(queries, int) or str(queries) != str(keys):
            return super().is_causal(mask, is_kept, query, key)
        # Conditions of positions that differ by numbers are the same for all numbers of tokens beyond these.
        shift = self.find_shift(mask, str(queries))
        if shift is None:
            return False
        for tokens in (1, 2, shift + 1, 2 * shift + 3):
            value = self.evaluate(mask, tokens, {})
            if value.dtype != torch.bool or value.shape[-2:] != (tokens, tokens) or value.numel() != tokens * tokens:
                return False
            causal = torch.ones(tokens, tokens, dtype=torch.bool, device=value.device).tril()
            if not torch.equal(value.reshape(tokens, tokens), causal if is_kept else ~causal):
                return False
        return True

    def find_shift(self, mask: Node, length: str) -> Optional[int]:
        """The largest number that a mask may compare a difference of positions with; None for nodes that are no mask of
        positions, and for lengths that are not ``length``."""
        total, pending, seen = 0, [mask], set()
        combinations = 0
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            if node.op != "call_function":
                return None
            if node.target == aten.sym_size.int:
                if str(node.meta["val"]) != length:
                    return None
                continue
            if node.target not in (*_POSITIONS, *_MOVES, *_CASTS, *_COPIES):
                return None
            # Narrow types round positions, or have too few of them.
            if node.meta["val"].dtype not in _TYPES_OF_POSITIONS:
                return None
            pending += node.all_input_nodes
            # A sum of two tensors may double the numbers in them.
            combinations += node.target in _COMBINATIONS and len(node.all_input_nodes) > 1
            if node.target not in _MOVES:
                for number in torch.utils._pytree.tree_leaves((node.args, node.kwargs)):
                    if isinstance(number, (int, float)):
                        if number % 1 != 0:
                            return None
                        total += abs(number)
        shift = total * 2.0**combinations
        return math.ceil(shift) if shift <= _MAX_SHIFT else None

    def evaluate(self, node: Node, tokens: int, values: Dict[Node, Any]) -> Any:
        """The value of a mask of positions for a number of tokens."""
        if node.target == aten.sym_size.int:
            return tokens
        if node not in values:
            args, kwargs = torch.fx.node.map_arg(
                (node.args, node.kwargs), lambda source: self.evaluate(source, tokens, values)
            )
            values[node] = node.target(*args, **kwargs)
        return values[node]

    def take_mask(self, mask: Node, is_kept: bool, attention: _Attention, columns: List[Tuple[Node, bool]]) -> bool:
        """Whether the mask is the causal one. Masks of keys alone become factors of these."""
        if self.is_causal(mask, is_kept, attention.query, attention.key):
            return True
        shape = _shape(mask)
        if len(shape) >= 2 and shape[-2] == 1:
            kept = mask if is_kept else self.insert(mask, aten.logical_not.default, mask)
            dtype = attention.query.meta["val"].dtype
            columns.append((self.insert(kept, aten.to.dtype, kept, dtype), False))
            return False
        raise _Mismatch("the mask of scores is not known to be the causal one")

    def read_constant(
        self, node: Node, tokens: Any, heads: int, is_masked: bool
    ) -> Optional[Tuple[bool, Optional[Tensor]]]:
        """Whether a constant is the causal mask, with log-decays of heads if it has any. Where scores have this mask
        already, later keys may have any decay."""
        value = self.constant(node)
        if not isinstance(value, Tensor) or not isinstance(tokens, int):
            return None
        unknown = _Mismatch("scores are multiplied by a constant that is neither the causal mask nor decays")
        value = value.double()
        while value.dim() > 3 and value.shape[0] == 1:
            value = value[0]
        if value.dim() == 2:
            value = value[None]
        if value.dim() != 3 or value.shape[-2:] != (tokens, tokens) or value.shape[0] not in (1, heads):
            raise unknown
        if is_masked:
            value = value.tril()
        if not torch.equal(value.triu(1), torch.zeros_like(value)):
            raise unknown
        rates = []
        distance = torch.arange(tokens)[:, None] - torch.arange(tokens)
        for head in value:
            first = head[:, 0]
            known = (first > 1e-20).nonzero()
            last = int(known[-1]) if len(known) else 0
            rate = math.log(first[last]) / last if last else 0.0
            expected = torch.exp(rate * distance.double()).tril()
            is_near = torch.allclose(head, expected, rtol=_DECAY_TOLERANCE, atol=1e-20)
            if not is_near or rate > 0 or last == 0:
                raise unknown
            rates.append(rate)
        if not any(rates):
            return True, None
        return True, torch.tensor(rates * (heads // len(rates)), dtype=torch.float32, device=value.device)

    def is_distance(self, node: Any, tokens: Any) -> bool:
        """Whether a constant is ``i - j`` wherever ``j <= i``."""
        value = self.constant(node)
        if not isinstance(value, Tensor) or not isinstance(tokens, int) or value.numel() != tokens * tokens:
            return False
        distance = torch.arange(tokens, device=value.device)[:, None] - torch.arange(tokens, device=value.device)
        return torch.equal(value.reshape(tokens, tokens).double().tril(), distance.double().tril())

    def read_exponent(
        self, node: Node, number: float, attention: _Attention, columns: List[Tuple[Node, bool]]
    ) -> Tuple[bool, Tuple[str, Any]]:
        """Whether an exponent is masked by the causal mask, and the decay: ``number`` times a tensor."""
        is_causal = False
        while True:
            target, args = node.target, node.args
            if target in _FILLS and self._masks(args[2]):
                is_causal |= self.take_mask(args[1], False, attention, columns)
                node = args[0]
            elif target in _WHERES and any(self._masks(arg) for arg in args[1:]):
                is_kept = self._masks(args[2])
                is_causal |= self.take_mask(args[0], is_kept, attention, columns)
                node = args[1 if is_kept else 2]
            elif target in _SCALES and self.number(args[1]) is not None:
                number *= _SCALES[target](self.number(args[1]))
                node = args[0]
            elif target == aten.neg.default:
                number, node = -number, args[0]
            elif target in (*_CASTS, *_COPIES):
                node = args[0]
            else:
                break
        tokens = _shape(attention.query)[-2]
        if node.target == aten.mul.Tensor:
            for rate, distance in (node.args, node.args[::-1]):
                is_rate = isinstance(rate, Node) and _shape(rate)[-2:] in ((1, 1), ())
                if is_rate and self.is_distance(distance, tokens):
                    return is_causal, ("rate", (rate, number))
        if node.target == aten.sub.Tensor and not node.kwargs:
            here, there = (self._squeezed(arg, dim) for arg, dim in zip(node.args, (-1, -2)))
            if here is not None and here is there:
                return is_causal, ("cumulative", (here, number))
        raise _Mismatch("scores are multiplied by an exponential that is no decay from keys to queries")

    @staticmethod
    def _squeezed(node: Any, dim: int) -> Optional[Node]:
        """The tensor to which ``node`` adds a dimension at ``dim``."""
        if not isinstance(node, Node) or node.target != aten.unsqueeze.default:
            return None
        rank = len(_shape(node))
        return node.args[0] if node.args[1] % rank == dim % rank else None

    def read_pair(
        self, node: Node, attention: _Attention, columns: List[Tuple[Node, bool]], is_masked: bool
    ) -> Tuple[bool, Optional[Tuple[str, Any]]]:
        """Whether a factor of pairs masks causally, and its decay. ``is_masked`` says whether scores have the causal
        mask already."""
        tokens = _shape(attention.query)[-2]
        heads = _shape(attention.query)[1] if len(_shape(attention.query)) == 4 else 1
        is_causal = False
        while True:
            constant = self.read_constant(node, tokens, heads, is_masked or is_causal)
            if constant is not None:
                return constant[0] or is_causal, None if constant[1] is None else ("constant", constant[1])
            target, args = node.target, node.args
            if target == aten.tril.default and args[1:] in ((), (0,)):
                is_causal, node = True, args[0]
            elif target in _FILLS and self.number(args[2]) == 0.0:
                is_causal |= self.take_mask(args[1], False, attention, columns)
                node = args[0]
            elif target in _WHERES and 0.0 in [self.number(arg) for arg in args[1:]]:
                is_kept = self.number(args[2]) == 0.0
                is_causal |= self.take_mask(args[0], is_kept, attention, columns)
                node = args[1 if is_kept else 2]
            elif target == aten.mul.Tensor and any(self.constant(arg) is not None for arg in args):
                is_first = self.constant(args[0]) is not None
                constant = self.read_constant(args[0 if is_first else 1], tokens, heads, is_masked or is_causal)
                if constant is None or constant[1] is not None:
                    break
                is_causal, node = True, args[1 if is_first else 0]
            elif target in (*_CASTS, *_COPIES, *_EXPANDS) or (
                target == aten.unsqueeze.default and _shape(node)[-2:] == _shape(args[0])[-2:]
            ):
                node = args[0]
            else:
                break
        if node.target in (aten.exp.default, aten.exp2.default):
            number = 1.0 if node.target == aten.exp.default else math.log(2)
            masks, decay = self.read_exponent(node.args[0], number, attention, columns)
            return is_causal or masks, decay
        if node.target == aten.pow.Tensor_Tensor and _shape(node.args[0])[-2:] in ((1, 1), ()):
            if self.is_distance(node.args[1], tokens):
                base = node.args[0]
                return is_causal, ("rate", (self.insert(base, aten.log.default, base), 1.0))
        raise _Mismatch(f"scores are multiplied by {node.name}, which is neither the causal mask nor a decay")

    # Matching

    def weights(self, operand: Any) -> Optional[Tuple[Node, _Factors]]:
        """The multiples of scores that ``operand`` of a matmul is a copy of."""
        found = None
        node = operand
        while isinstance(node, Node) and node.op == "call_function":
            value = node.meta.get("val")
            is_candidate = isinstance(value, Tensor) and value.dim() in (3, 4)
            if is_candidate and (found is None or value.dim() >= len(_shape(found))):
                found = node
            if node.target not in (*_MOVES, *_CASTS, *_COPIES):
                break
            node = node.args[0]
        if found is None:
            return None
        factors = self.split(found)
        return None if factors is None else (found, factors)

    def match_linear(self, node: Node) -> Optional[_Linear]:
        """Linear attention that ends at ``node``, a matmul or a sum; None if it looks like something else."""
        is_sum = _is_sum_of_rows(node)
        operands = node.args[1] if node.target == aten.einsum.default else node.args[: 1 if is_sum else 2]
        if node.target == aten.einsum.default and _parse_einsum(node) is None:
            return None
        for operand in operands:
            found = self.weights(operand)
            if found is not None:
                break
        else:
            return None
        last, factors = found
        shape = _shape(last)
        is_likely = factors.is_tril or bool(factors.masks) or bool(factors.tensors)
        try:
            scores = types.SimpleNamespace(args=(factors.scores,), meta=last.meta)
            query, key, scale, cap, masks = self.match_scores(scores)
            if cap is not None or masks:
                raise _Mismatch("something is added to scores")
            if is_sum:
                output, value, dropout, order = node, key, 0.0, None
            else:
                output, value, dropout, order = self.match_probabilities(last)
            if dropout:
                raise _Mismatch("scores have dropout")
            if any(len(_shape(tensor)) != len(shape) for tensor in (query, key, value)):
                raise _Mismatch("its operands have another number of dimensions than the scores")
            others = (tensor for tensor, _ in (*factors.masks, *factors.tensors))
            self.check_writes(output, (query, key, value, *others))
            attention = _Attention(output, query, key, value, scale=scale * factors.scale, order=order)
            attention = self.share_heads(attention) if not is_sum else attention
            return self.read_factors(node, is_sum, attention, factors, shape)
        except _Mismatch:
            # A chain of matmuls is no attention.
            if is_likely:
                raise
            return None

    def read_factors(
        self, node: Node, is_sum: bool, attention: _Attention, factors: _Factors, shape: Tuple
    ) -> Optional[_Linear]:
        causal, decays = factors.is_tril, []
        rows: List[Tuple[Node, bool]] = []
        columns: List[Tuple[Node, bool]] = []
        for mask, is_kept in factors.masks:
            causal |= self.take_mask(mask, is_kept, attention, columns)
        for tensor, is_inverse in factors.tensors:
            sizes = (1,) * len(shape) + _shape(tensor)
            if sizes[-1] == 1:
                rows.append((tensor, is_inverse))
            elif sizes[-2] == 1:
                columns.append((tensor, is_inverse))
            elif is_inverse:
                raise _Mismatch("scores are divided by a tensor of pairs")
            else:
                masks, decay = self.read_pair(tensor, attention, columns, causal)
                causal |= masks
                decays += [] if decay is None else [decay]
        for tensor, _ in columns:
            multiplied = _shape(attention.key if is_sum else attention.value)
            if len(_shape(tensor)) == 4 and _shape(tensor)[1] not in (1, multiplied[1]):
                raise _Mismatch("factors of keys differ between heads that share them")
        if decays and not causal:
            raise _Mismatch("decays need the causal mask")
        tokens, key_dim = _shape(attention.query)[-2:]
        if _shape(attention.key)[-2] != tokens:
            raise _Mismatch("queries and keys have other lengths")
        if isinstance(tokens, int) and tokens <= key_dim:
            raise _Mismatch(f"{tokens} tokens are no more than the {key_dim} elements of a key: scores are less work")
        self.check(attention)
        value_dim = _COLUMNS_OF_SUM if is_sum else _shape(attention.value)[-1]
        query = attention.query.meta["val"]
        largest = _MAX_HEAD_DIM_OF_GPU_IN_F32 if query.dtype == torch.float32 else _MAX_HEAD_DIM_OF_GPU
        for dim in (key_dim, value_dim):
            if query.device.type == "cuda" and (dim % _HEAD_DIM_UNIT_OF_GPU or dim > largest):
                raise _Mismatch(f"GPUs have no kernels of linear attention for the head dim {dim} in {query.dtype}")
        return _Linear(attention, node, is_sum, causal, decays, rows, columns)

    def number_of(self, node: Any, numbers: Dict[Any, Any]) -> Any:
        """What nodes with the same results have in common: they may compute it more than once."""
        if isinstance(node, (tuple, list)):
            return tuple(self.number_of(part, numbers) for part in node)
        if not isinstance(node, Node):
            return node if isinstance(node, (str, torch.dtype, torch.device)) else (type(node).__name__, repr(node))
        if node not in numbers:
            tags = getattr(node.target, "tags", ())
            schema = getattr(node.target, "_schema", None)
            is_pure = schema is not None and not schema.is_mutable and torch.Tag.nondeterministic_seeded not in tags
            name: Any = node
            if node.op == "call_function" and is_pure:
                named = sorted(node.kwargs.items())
                name = (node.target, self.number_of(node.args, numbers), self.number_of(named, numbers))
            numbers[node] = numbers.setdefault(name, len(numbers))
        return numbers[node]

    def scores_of(self, found: _Linear) -> Node:
        """The matmul of queries and keys."""
        node = self.weights(self._weights_operand(found))[1].scores
        while node.target not in _CONTRACTIONS:
            node = node.args[0]
        return node

    def _weights_operand(self, found: _Linear) -> Node:
        node = found.matmul
        operands = node.args[1] if node.target == aten.einsum.default else node.args[:2]
        return next(operand for operand in operands if isinstance(operand, Node) and self.weights(operand) is not None)

    def check_users(self, scores: Node, ends: Set[Node]) -> None:
        """Scores must not be left behind."""
        pending, seen = list(scores.users), set(ends)
        while pending:
            node = pending.pop()
            if node in seen or (node.op == "call_function" and node.target == aten.sym_size.int):
                continue
            seen.add(node)
            if node.op != "call_function" or node.target in _CONTRACTIONS or _is_sum_of_rows(node):
                raise _Mismatch(f"its scores are used elsewhere, too, by {node.name}")
            pending += node.users

    # Replacement

    def replace_linear(self, found: _Linear) -> Node:
        attention = found.attention
        output, query, order = attention.output, attention.query, attention.order

        def call(target: Any, *args: Any) -> Node:
            node = self.graph.call_function(target, args)
            node.meta["val"] = target(*[arg.meta["val"] if isinstance(arg, Node) else arg for arg in args])
            return node

        with self.graph.inserting_before(output):
            key, value = attention.key, None if found.is_sum else attention.value
            for tensor, is_inverse in found.columns:
                factor = call(aten.transpose.int, tensor, -1, -2)
                function = aten.div.Tensor if is_inverse else aten.mul.Tensor
                if value is None:
                    key = call(function, key, factor)
                else:
                    value = call(function, value, factor)
            decay = self.make_decay(found, call)
            node = self.graph.call_function(
                linear, (query, key, value, decay, found.causal, attention.scale)
            )
            shape = (*_shape(query)[:-1], 1 if found.is_sum else _shape(attention.value)[-1])
            node.meta["val"] = query.meta["val"].new_empty(shape)
            result = node
            for tensor, is_inverse in found.rows:
                result = call(aten.div.Tensor if is_inverse else aten.mul.Tensor, result, tensor)
            if found.is_sum and output.args[2:3] != (True,):
                result = call(aten.squeeze.dim, result, -1)
            if order is not None and order != tuple(sorted(order)):
                result = call(aten.permute.default, result, list(order))
            if result.meta["val"].dtype != output.meta["val"].dtype:
                result = call(aten.to.dtype, result, output.meta["val"].dtype)
        output.replace_all_uses_with(result)
        return node

    def make_decay(self, found: _Linear, call: Any) -> Optional[Node]:
        """The log-decays of heads, or of heads and positions."""
        shape = _shape(found.attention.query)
        heads = shape[1] if len(shape) == 4 else 1
        total = None
        for kind, content in found.decays:
            if kind == "constant":
                names = dict(self.module.named_buffers())
                unused = (f"log_decay_{number}" for number in range(len(names) + 1))
                name = next(name for name in unused if name not in names)
                self.module.register_buffer(name, content)
                decay = self.graph.get_attr(name)
                decay.meta["val"] = content
            else:
                tensor, number = content
                decay = tensor
                if kind == "cumulative":
                    is_sum = tensor.target == aten.cumsum.default
                    is_sum = is_sum and tensor.args[1] % len(_shape(tensor)) == len(_shape(tensor)) - 1
                    decay = tensor.args[0] if is_sum else call(differences, tensor)
                    decay = call(aten.expand.default, decay, [shape[0], heads, shape[-2]])
                else:
                    count = math.prod(_shape(tensor))
                    if count not in (1, heads):
                        raise _Mismatch("decays differ between entries of the batch")
                    decay = call(aten.expand.default, call(aten.reshape.default, decay, [count]), [heads])
                if number != 1.0:
                    decay = call(aten.mul.Tensor, decay, number)
            if total is not None and len(_shape(total)) != len(_shape(decay)):
                total, decay = (
                    part if len(_shape(part)) == 3 else call(aten.reshape.default, part, [1, heads, 1])
                    for part in (total, decay)
                )
            total = decay if total is None else call(aten.add.Tensor, total, decay)
        return total

    # Cumulative sums of states

    def match_states(self, node: Node) -> Optional[Tuple[_Attention, List[List[int]], List[int]]]:
        """``q`` times the cumulative sum of ``k v^T`` over positions: the operands, their permutations to batch, heads,
        positions and head dim, and that of the result from these."""
        letters = _parse_einsum(node) if node.target == aten.einsum.default else None
        if letters is None:
            return None
        for number in (0, 1):
            states = node.args[1][number]
            if states.target != aten.cumsum.default or states.args[0].target != aten.einsum.default:
                continue
            outer = states.args[0]
            inner = _parse_einsum(outer)
            if inner is None or len(_shape(states)) != 5:
                continue
            # The letters of the states, as the outer einsum calls them.
            names = dict(zip(letters[number], inner[2]))
            position = inner[2][states.args[1] % 5]
            query = [names.get(letter, "?") for letter in letters[1 - number]]
            result = [names.get(letter, "?") for letter in letters[2]]
            sides = {0: set(inner[0]), 1: set(inner[1])}
            (head_dim,) = set(query) - set(result) or {"?"}
            key_side = 0 if head_dim in sides[0] else 1
            (value_dim,) = sides[1 - key_side] - sides[key_side] or {"?"}
            common = sides[0] & sides[1]
            batch = [letter for letter in inner[2] if letter in common - {position}]
            if len(batch) != 2 or position not in common or set(query) != {*batch, position, head_dim}:
                continue
            if set(result) != {*batch, position, value_dim}:
                continue
            key, value = outer.args[1][key_side], outer.args[1][1 - key_side]
            wanted = [[*batch, position, head_dim], [*batch, position, head_dim], [*batch, position, value_dim]]
            given = [query, inner[key_side], inner[1 - key_side]]
            orders = [[list(has).index(letter) for letter in wants] for has, wants in zip(given, wanted)]
            back = [wanted[2].index(letter) for letter in result]
            return _Attention(node, node.args[1][1 - number], key, value, scale=1.0), orders, back
        return None

    def replace_states(self, attention: _Attention, orders: List[List[int]], back: List[int]) -> Node:
        output = attention.output
        tensors = []
        with self.graph.inserting_before(output):
            for tensor, order in zip(attention[1:4], orders):
                node = self.graph.call_function(aten.permute.default, (tensor, order))
                node.meta["val"] = tensor.meta["val"].permute(order)
                tensors.append(node)
            result = self.graph.call_function(linear, (*tensors, None, True, 1.0))
            query, value = tensors[0].meta["val"], tensors[2].meta["val"]
            result.meta["val"] = query.new_empty((*query.shape[:-1], value.shape[-1]))
            moved = self.graph.call_function(aten.permute.default, (result, back))
            moved.meta["val"] = output.meta["val"]
        output.replace_all_uses_with(moved)
        return result

    def run_linear(self) -> Tuple[List[str], List[str]]:
        """Calls of ``linear`` that were made, and matmuls that were left, with reasons."""
        names, left = [], []
        groups: Dict[Any, List[_Linear]] = {}
        numbers: Dict[Any, Any] = {}
        for node in self.graph.nodes:
            self.number_of(node, numbers)
        for node in list(self.graph.nodes):
            if node.op != "call_function" or (node.target not in _CONTRACTIONS and not _is_sum_of_rows(node)):
                continue
            try:
                states = self.match_states(node)
                if states is not None:
                    self.check(states[0])
                    names.append(self.replace_states(*states).name)
                    continue
                found = self.match_linear(node)
                if found is not None:
                    groups.setdefault(self.number_of(self.scores_of(found), numbers), []).append(found)
            except _Mismatch as mismatch:
                if not _is_sum_of_rows(node):
                    left.append(f"{node.name}: {mismatch}")
        for members in groups.values():
            if all(member.is_sum for member in members):
                continue
            try:
                for member in members:
                    self.check_users(self.scores_of(member), {other.matmul for other in members})
                # Factors of results may be functions of a sum, which is replaced last.
                for member in sorted(members, key=lambda member: member.is_sum):
                    names.append(self.replace_linear(member).name)
            except _Mismatch as mismatch:
                left.append(f"{members[0].matmul.name}: {mismatch}")
        self.graph.eliminate_dead_code()
        return names, left


def differences(cumulative: Tensor) -> Tensor:
    """The log-decays of which ``cumulative`` are the sums up to each position. The first one makes no difference."""
    rest = cumulative[..., 1:] - cumulative[..., :-1]
    # Sums are rounded, so that a difference may seem to grow.
    rounding = 2.0**-20 * (cumulative[..., 1:].abs() + cumulative[..., :-1].abs())
    rest = torch.where((rest > 0) & (rest <= rounding), torch.zeros_like(rest), rest)
    return torch.cat([torch.zeros_like(cumulative[..., :1]), rest], -1)
