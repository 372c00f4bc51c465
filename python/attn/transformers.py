# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of Hugging Face Transformers.

``register()`` adds the attention implementation "attn", which ``from_pretrained`` takes as ``attn_implementation``.

Transformers describes masks by functions of positions. These are evaluated with symbols in the place of positions; the
expressions that result become named masks, lengths of keys, or tensors of document ids. A mask that is no such
expression becomes a dense boolean tensor.
"""

import inspect
import operator
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, Union, cast

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.attention.flex_attention import BlockMask
from torch.overrides import TorchFunctionMode

from attn.errors import AttnError, UnsupportedError
from attn.masks import Mask, Read, causal, documents, local_blocks, sliding_window
from attn.torch.kernels import read_mask
from attn.torch.ops import attend as attend_operator
from attn.torch.paged_cache import Pages, find_pages
from attn.torch.sdpa import CAUSAL, make_bias_kind, sdpa

#: Ids of queries and of keys that attend to nothing: they differ from one another, and from all ids of documents.
_NO_QUERY, _NO_KEY = -(2**31), -(2**31) + 1

# Compilers of torch follow these functions.
_OPERATORS: Dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "floordiv": operator.floordiv,
    "abs": abs,
    "and": operator.and_,
    "or": operator.or_,
    "invert": operator.invert,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_MIRRORED = {"gt": "lt", "ge": "le"}


class _Expression:
    """An expression of the positions of a pair: the place of a tensor without dimensions in functions of masks.

    Its operation is "query", "key", "batch", "head", "all", "none", "read" of a tensor, or one of ``_OPERATORS``.
    """

    device = None

    def __init__(self, operation: str, *operands: Any):
        self.operation = operation
        self.operands = operands

    def to(self, device: Any) -> "_Expression":
        if device is not None and not isinstance(device, (str, torch.device)):
            raise TypeError("a mask converts a position")
        return self

    def new_ones(self, *_: Any, **__: Any) -> "_Expression":
        return _Expression("all")

    def new_zeros(self, *_: Any, **__: Any) -> "_Expression":
        return _Expression("none")

    def __bool__(self) -> bool:
        raise TypeError("a mask depends on the truth value of a position")

    def __add__(self, other: Any) -> "_Expression":
        return _Expression("add", self, other)

    def __sub__(self, other: Any) -> "_Expression":
        return _Expression("sub", self, other)

    def __floordiv__(self, other: Any) -> "_Expression":
        return _Expression("floordiv", self, other)

    def __abs__(self) -> "_Expression":
        return _Expression("abs", self)

    def __and__(self, other: Any) -> "_Expression":
        return _Expression("and", self, other)

    def __or__(self, other: Any) -> "_Expression":
        return _Expression("or", self, other)

    def __invert__(self) -> "_Expression":
        return _Expression("invert", self)

    def __eq__(self, other: Any) -> "_Expression":  # type: ignore[override]
        return _Expression("eq", self, other)

    def __ne__(self, other: Any) -> "_Expression":  # type: ignore[override]
        return _Expression("ne", self, other)

    def __lt__(self, other: Any) -> "_Expression":
        return _Expression("lt", self, other)

    def __le__(self, other: Any) -> "_Expression":
        return _Expression("le", self, other)

    def __gt__(self, other: Any) -> "_Expression":
        return _Expression("gt", self, other)

    def __ge__(self, other: Any) -> "_Expression":
        return _Expression("ge", self, other)


class _Reads(TorchFunctionMode):
    """Makes expressions of reads of tensors by expressions."""

    def __torch_function__(self, func: Any, types: Any, args: Tuple = (), kwargs: Optional[Dict] = None) -> Any:
        if func is Tensor.__getitem__:
            indices = args[1] if isinstance(args[1], tuple) else (args[1],)
            if isinstance(indices[0], _Expression):
                return _Expression("read", args[0], *indices)
        return func(*args, **(kwargs or {}))


def _uses(expression: Any, position: str) -> bool:
    """Whether an expression depends on "query", "key", "batch" or "head"."""
    if not isinstance(expression, _Expression):
        return False
    if expression.operation == position:
        return True
    for operand in expression.operands:
        if _uses(operand, position):
            return True
    return False


def _evaluate(expression: Any, batch: Tensor, positions: Tensor) -> Any:
    """The values of an expression of the query alone, or of the key alone: ``[batch or 1, positions]``."""
    if not isinstance(expression, _Expression):
        return expression
    operation = expression.operation
    if operation == "batch":
        return batch
    if operation == "query" or operation == "key":
        return positions
    operands = [_evaluate(operand, batch, positions) for operand in expression.operands]
    if operation == "read":
        return operands[0][tuple(operands[1:])]
    return _OPERATORS[operation](*operands)


def _as_position(expression: Any) -> Optional[Tuple[str, int, Optional[Tensor]]]:
    """"query" or "key", a number that is added to the position, and the tensor by which the position is looked up in
    its sequence, if the expression is of this form."""
    if not isinstance(expression, _Expression):
        return None
    operation, operands = expression.operation, expression.operands
    if operation == "query" or operation == "key":
        return operation, 0, None
    if operation == "read" and len(operands) == 3:
        row, column = operands[1:]
        if row.operation == "batch" and isinstance(column, _Expression) and column.operation in ("query", "key"):
            return column.operation, 0, operands[0]
        return None
    if operation in ("add", "sub") and isinstance(operands[1], int):
        position = _as_position(operands[0])
        if position is None:
            return None
        side, offset, table = position
        return side, offset + operands[1] if operation == "add" else offset - operands[1], table
    return None


def _as_chunk(expression: _Expression) -> Optional[Tuple[int, Optional[Tensor]]]:
    """The size of chunks of positions, and the first position of each batch entry, if the expression is the number of
    a chunk."""
    if expression.operation != "floordiv" or not isinstance(expression.operands[1], int):
        return None
    position, size = expression.operands
    starts = None
    if position.operation == "sub" and isinstance(position.operands[1], _Expression):
        position, start = position.operands
        if start.operation != "read" or len(start.operands) != 2 or start.operands[1].operation != "batch":
            return None
        starts = start.operands[0]
    return (size, starts) if position.operation in ("query", "key") else None


def _least(first: Optional[int], second: Optional[int]) -> Optional[int]:
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)


class _Pattern:
    """A conjunction of conditions for a query and a key to attend."""

    def __init__(self) -> None:
        #: How many positions the key may be before and after the query.
        self.left: Optional[int] = None
        self.right: Optional[int] = None
        #: Expressions of the query and of the key that are equal.
        self.equal: List[Tuple[_Expression, _Expression]] = []
        self.of_query: List[_Expression] = []
        self.of_key: List[_Expression] = []
        #: In each of these lists, at least one pattern holds.
        self.either: List[List["_Pattern"]] = []
        #: The tensor in which positions are looked up: those in sequences that are packed into one.
        self.table: Optional[Tensor] = None
        #: The number of positions of a chunk, if query and key are in one.
        self.chunk: Optional[int] = None

    def _parts(self) -> List["_Pattern"]:
        """This pattern, and all that it contains."""
        parts = [self]
        for patterns in self.either:
            for pattern in patterns:
                parts += pattern._parts()
        return parts

    def reads(self) -> bool:
        """Whether a mask of this pattern reads tensors."""
        # Dynamo of torch 2.11 knows no bool of a list.
        return any([len(part.equal) + len(part.of_query) + len(part.of_key) > 0 for part in self._parts()])

    def is_relative(self) -> bool:
        """Whether the distance of query and key counts."""
        return any([part.left is not None or part.right is not None or part.chunk is not None
                    for part in self._parts()])  # fmt: skip

    def tables(self) -> List[Tensor]:
        """The tensors in which positions are looked up."""
        return [part.table for part in self._parts() if part.table is not None]

    def name_chunks(self, kv_offset: int) -> None:
        """Makes chunks of expressions that are equal, if no batch entry begins with padding."""
        for number, (query, key) in enumerate(self.equal):
            first, second = _as_chunk(query), _as_chunk(key)
            if first is None or second is None or first[0] != second[0] or first[1] is not second[1]:
                continue
            size, starts = first
            if kv_offset % size == 0 and (starts is None or not bool(starts.any())):
                self.chunk = size
                del self.equal[number]
                return

    def add(self, expression: Any) -> bool:
        """Adds the conditions of an expression; whether all have a form that is known."""
        if not isinstance(expression, _Expression) or _uses(expression, "head"):
            return False
        operation, operands = expression.operation, expression.operands
        if operation == "all":
            return True
        if operation == "and":
            return self.add(operands[0]) and self.add(operands[1])
        of_query, of_key = _uses(expression, "query"), _uses(expression, "key")
        if of_query != of_key:
            # Positions are not negative.
            is_zero = len(operands) == 2 and isinstance(operands[1], int) and operands[1] == 0
            if operation == "ge" and is_zero and operands[0].operation in ("query", "key"):
                return True
            (self.of_query if of_query else self.of_key).append(expression)
            return True
        if not of_query:
            return False
        if operation == "or":
            return self._add_either(expression)
        if operation == "eq":
            return self._add_equal(*operands)
        return self._add_distance(operation, operands)

    def _add_either(self, expression: _Expression) -> bool:
        patterns: List[_Pattern] = []
        pending = [expression]
        while pending:
            part = pending.pop()
            if part.operation == "or":
                pending += [part.operands[1], part.operands[0]]
            elif part.operation != "none":
                pattern = _Pattern()
                if not pattern.add(part):
                    return False
                patterns.append(pattern)
        self.either.append(patterns)
        return True

    def _add_equal(self, first: Any, second: Any) -> bool:
        if _uses(first, "key"):
            first, second = second, first
        if _uses(first, "key") or _uses(second, "query"):
            return False
        self.equal.append((first, second))
        return True

    def _add_distance(self, operation: str, operands: Tuple) -> bool:
        first, second = operands
        if operation in _MIRRORED:
            operation, first, second = _MIRRORED[operation], second, first
        if operation not in ("lt", "le"):
            return False
        strict = 1 if operation == "lt" else 0
        if isinstance(first, _Expression) and first.operation == "abs" and isinstance(second, int):
            inner = first.operands[0]
            if inner.operation != "sub":
                return False
            pair = _as_position(inner.operands[0]), _as_position(inner.operands[1])
            limit = second - strict
            return self._limit(pair, limit) and self._limit((pair[1], pair[0]), limit)
        return self._limit((_as_position(first), _as_position(second)), -strict)

    def _limit(self, pair: Tuple, limit: int) -> bool:
        """The first position is at most ``limit`` behind the second one."""
        first, second = pair
        if first is None or second is None or first[0] == second[0]:
            return False
        if (first[2] is None) != (second[2] is None):
            return False
        if first[2] is not None:
            if first[2] is not second[2] or (self.table is not None and self.table is not first[2]):
                return False
            self.table = first[2]
        limit += second[1] - first[1]
        if limit < 0:
            return False
        if first[0] == "key":
            self.right = _least(self.right, limit)
        else:
            self.left = _least(self.left, limit)
        return True


def _find_pattern(function: Callable) -> Optional[_Pattern]:
    """The pattern of a function of batch, head, query and key, if it is known."""
    try:
        with _Reads():
            expression = function(
                _Expression("batch"), _Expression("head"), _Expression("query"), _Expression("key")
            )
    except Exception:  # The function does not take symbols; torch calls it with tensors then.
        return None
    pattern = _Pattern()
    if not pattern.add(expression):
        return None
    # Positions that are looked up need ids of sequences, see _has_sequences.
    return pattern if pattern.equal or not pattern.tables() else None


class _Positions:
    """Positions of queries and keys, and the alignment of masks of positions."""

    def __init__(self, batch: Tensor, queries: Tensor, keys: Tensor, alignment: Optional[str]):
        self.batch, self.queries, self.keys, self.alignment = batch, queries, keys, alignment


    def evaluate(self, expression: Any) -> Any:
        """The values of an expression of the query alone, or of the key alone: ``[batch or 1, positions]``."""
        return _evaluate(expression, self.batch, self.keys if _uses(expression, "key") else self.queries)


def _join(queries: Tensor, keys: Tensor) -> Tensor:
    """Values of queries, followed by those of keys, for each batch entry."""
    batch = max(queries.shape[0], keys.shape[0])
    return torch.cat((queries.expand(batch, -1), keys.expand(batch, -1)), -1)


def _has_sequences(pattern: _Pattern, at: _Positions) -> Tensor:
    """Whether pairs of equal ids have the same distance in tables of positions as in the tensor of all sequences."""
    found = []
    for first, second in pattern.equal:
        ids = _join(at.evaluate(first), at.evaluate(second))
        sorted_ids, order = ids.sort(-1)
        is_new = sorted_ids[:, 1:] != sorted_ids[:, :-1]
        for table in pattern.tables():
            positions = table[at.batch, at.queries] - at.queries
            # Where each sequence begins, for each of its positions.
            starts = _join(positions, positions).expand_as(order).gather(-1, order)
            is_new = is_new | (starts[:, 1:] == starts[:, :-1])
        found.append(is_new.all())
    return torch.stack(found).any()


# Types whose values do not meet _NO_QUERY and _NO_KEY.
_SMALL_IDS = (torch.bool, torch.uint8, torch.int8, torch.int16)


def _number_ids(queries: Tensor, keys: Tensor) -> Tuple[Tensor, Tensor]:
    """Ids of 32 bits that are equal where the given ones are. Sizes do not depend on contents."""
    if queries.dtype in _SMALL_IDS and keys.dtype in _SMALL_IDS:
        return queries.to(torch.int32), keys.to(torch.int32)
    ordered, order = _join(queries, keys).sort(-1)
    steps = torch.nn.functional.pad(ordered[:, 1:] != ordered[:, :-1], (1, 0)).cumsum(-1, dtype=torch.int32)
    numbers = torch.empty_like(steps).scatter(-1, order, steps)
    return numbers[:, : queries.shape[1]], numbers[:, queries.shape[1] :]


def _combine_ids(ids: Tensor, conditions: List[Any], none: int) -> Tensor:
    for condition in conditions:
        ids = torch.where(condition, ids, none)
    return ids.contiguous()


def _build(pattern: _Pattern, at: _Positions, padding: Optional[Tensor] = None) -> Optional[Mask]:
    """The named mask of a pattern together with a mask ``[batch, keys]`` of keys; None if all pairs attend."""
    parts: List[Mask] = []
    if pattern.left is not None or pattern.right is not None:
        if pattern.left is None and pattern.right == 0:
            parts.append(causal(at.alignment))
        else:
            parts.append(sliding_window(pattern.left, pattern.right, at.alignment))
    if pattern.chunk is not None:
        parts.append(local_blocks(pattern.chunk, before=0, after=0, alignment=at.alignment))
    of_query = [at.evaluate(condition) for condition in pattern.of_query]
    of_key = [at.evaluate(condition) for condition in pattern.of_key]
    if padding is not None:
        of_key.append(padding)
    equal = [_number_ids(at.evaluate(query), at.evaluate(key)) for query, key in pattern.equal]
    if not equal and (of_query or of_key):
        equal.append((torch.ones_like(at.queries, dtype=torch.int32), torch.ones_like(at.keys, dtype=torch.int32)))
    for number, (queries, keys) in enumerate(equal):
        if number == 0:
            queries, keys = _combine_ids(queries, of_query, _NO_QUERY), _combine_ids(keys, of_key, _NO_KEY)
        parts.append(documents(queries.contiguous(), keys.contiguous()))
    for patterns in pattern.either:
        either: Optional[Mask] = None
        keeps_all = False
        for each in patterns:
            mask = _build(each, at)
            if mask is None:
                keeps_all = True
            else:
                either = mask if either is None else either | mask
        if either is not None and not keeps_all:
            parts.append(either)
    if not parts:
        return None
    result = parts[0]
    for part in parts[1:]:
        result = result & part
    return result


class AttentionMask(BlockMask):
    """The mask of a forward call of a model: a named mask and the lengths of keys.

    It has the shape ``[batch, 1, queries, keys]`` of the mask it stands for. It is a ``BlockMask``, since models pass
    these on as they are, but only the attention "attn" understands it: there are no lists of blocks.
    """

    def __init__(
        self,
        shape: Tuple[int, int, int, int],
        mask: Optional[Mask] = None,
        key_lengths: Optional[Tensor] = None,
        num_keys: Optional[int] = None,
    ):
        self._shape = shape
        #: The pairs that attend; None for all.
        self.mask = mask
        #: The number of keys of each batch entry, torch.int32 of shape ``[batch]``; None for all.
        self.key_lengths = key_lengths
        #: How many of the keys the mask is for: none attends to the others.
        self.num_keys = shape[3] if num_keys is None else num_keys

    @property
    def shape(self) -> Tuple[int, int, int, int]:
        return self._shape

    @property
    def ndim(self) -> int:
        return 4

    def dim(self) -> int:
        return 4

    def size(self, dim: Optional[int] = None) -> Any:
        return self._shape if dim is None else self._shape[dim]

    def __getitem__(self, index: Any) -> "AttentionMask":
        """The mask itself; an ``AttnError`` for an index that leaves out a part of it."""
        indices = index if isinstance(index, tuple) else (index,)
        if indices and indices[0] is Ellipsis:
            indices = (*[slice(None)] * (5 - len(indices)), *indices[1:])
        if len(indices) > 4:
            raise AttnError(f"the model takes the part {index} of a mask, which has four dimensions")
        for size, each in zip(self._shape, indices):
            is_whole = isinstance(each, slice) and each.start in (None, 0) and each.step in (None, 1)
            if not is_whole or not (each.stop is None or each.stop >= size):
                raise AttnError(
                    f"the model takes the part {index} of a mask of the shape {self._shape}, which has no elements; "
                    'use attn_implementation="sdpa" for it'
                )
        return self

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Tuple = (), kwargs: Optional[Dict] = None) -> Any:
        raise UnsupportedError(
            f"the model computes {getattr(func, '__name__', func)} of its mask, which has no elements; use "
            'attn_implementation="sdpa" or "eager" for it'
        )

    def to(self, device: Any, *_: Any, **__: Any) -> "AttentionMask":
        """The mask with its tensors on a device."""
        mask = self.mask
        if mask is not None:
            mask = Mask([Read(part.value.to(device)) if isinstance(part, Read) else part for part in mask._parts])
        lengths = None if self.key_lengths is None else self.key_lengths.to(device)
        return AttentionMask(self._shape, mask, lengths, self.num_keys)

    def __repr__(self) -> str:
        lengths = "" if self.key_lengths is None else ", key_lengths"
        return f"AttentionMask(shape={self._shape}, mask={self.mask}{lengths})"

    __str__ = __repr__


def _is_tracing(*tensors: Any) -> bool:
    """Whether contents of tensors cannot be looked at."""
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return True
    for tensor in tensors:
        if isinstance(tensor, FakeTensor) or (
            isinstance(tensor, Tensor) and tensor.is_cuda and torch.cuda.is_current_stream_capturing()
        ):
            return True
    return False


def _describe_padding(padding: Tensor) -> Tuple[bool, bool]:
    """Whether all keys count, and whether those that do are the first ones of each batch entry."""
    is_sorted = (padding[:, :-1] >= padding[:, 1:]).all()
    has_all, is_right = torch.stack([padding.all(), is_sorted]).tolist()
    return has_all, is_right


def make_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Union[int, Tensor] = 0,
    kv_offset: int = 0,
    mask_function: Optional[Callable] = None,
    attention_mask: Optional[Tensor] = None,
    use_vmap: bool = False,
    device: Any = "cpu",
    **kwargs: Any,
) -> Union[AttentionMask, Tensor]:
    """The mask of a model, as ``AttentionMaskInterface`` asks for it.

    ``mask_function`` is a function of batch, head, query and key; the first query is at ``q_offset``, the first key at
    ``kv_offset``. ``attention_mask`` of the shape ``[batch, positions]`` and the dtype torch.bool is False for keys
    that are padding. Returns an ``AttentionMask``, or, for a mask that is no expression of those that are known, a
    tensor ``[batch, 1, queries, keys]`` of torch.bool.
    """
    # Dynamo of torch 2.11 cannot import from the package itself, which is no plain module.
    from transformers.masking_utils import causal_mask_function, sdpa_mask

    if mask_function is None:
        mask_function = causal_mask_function

    def make_dense() -> Tensor:
        kwargs.update(allow_is_causal_skip=False, allow_is_bidirectional_skip=False)
        return sdpa_mask(
            batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=q_offset, kv_offset=kv_offset,
            mask_function=mask_function, attention_mask=attention_mask, use_vmap=use_vmap, device=device, **kwargs,
        )  # fmt: skip

    # Functions that are not of Transformers may compute anything.
    pattern = None if use_vmap else _find_pattern(mask_function)
    if pattern is None or (attention_mask is not None and attention_mask.ndim != 2):
        return make_dense()
    is_tracing = _is_tracing(attention_mask, q_offset)
    if isinstance(q_offset, Tensor) and not is_tracing:
        q_offset = int(q_offset)
    if not is_tracing:
        pattern.name_chunks(kv_offset)
    # Query i and key j are at a distance of j - i - shift.
    shift = q_offset - kv_offset
    is_causal = pattern.right == 0
    shape = (batch_size, 1, q_length, kv_length)
    num_keys = kv_length
    if is_causal and q_length > 1 and not isinstance(shift, Tensor) and 0 < shift + q_length < kv_length:
        # Keys behind the last query, which the cache has room for.
        num_keys = shift + q_length
    padding = attention_mask
    if padding is not None:
        missing = kv_offset + num_keys - padding.shape[-1]
        if missing > 0:
            padding = torch.nn.functional.pad(padding, (0, missing))
        padding = padding[:, kv_offset : kv_offset + num_keys]
    lengths = None
    if padding is not None and not is_tracing:
        has_all, is_right = _describe_padding(padding)
        is_aligned = not pattern.is_relative() or (not isinstance(shift, Tensor) and shift == 0)
        if has_all:
            padding = None
        elif is_right and is_aligned and not pattern.reads() and q_length > 1:
            lengths, padding = padding.sum(-1, dtype=torch.int32), None
    reads = pattern.reads() or padding is not None
    if q_length == 1 and reads:
        # There are no more pairs than keys.
        return make_dense()
    alignment = None
    if pattern.is_relative():
        if isinstance(shift, Tensor):
            if not is_causal or reads or lengths is not None:
                return make_dense()
            lengths = (shift + q_length).to(torch.int32).reshape(1).expand(batch_size).contiguous()
        elif shift == 0:
            alignment = "top_left"
        elif shift == num_keys - q_length:
            pass
        elif is_causal and 0 < shift + q_length <= num_keys and not reads and lengths is None:
            lengths = torch.full((batch_size,), shift + q_length, dtype=torch.int32, device=device)
        else:
            return make_dense()
        if pattern.tables() and (isinstance(shift, Tensor) or shift != 0 or num_keys != q_length):
            return make_dense()
        if not isinstance(shift, Tensor) and pattern.left is not None and pattern.left >= shift + q_length - 1:
            pattern.left = None
        if is_causal and q_length == 1 and alignment is None:
            # The query is at the last key.
            pattern.right = None
    batch = torch.arange(batch_size, device=device)[:, None]
    queries = torch.arange(q_length, device=device)[None] + q_offset
    keys = torch.arange(num_keys, device=device)[None] + kv_offset
    at = _Positions(batch, queries, keys, alignment)
    if pattern.tables():
        has_sequences = _has_sequences(pattern, at)
        if is_tracing:
            torch._assert_async(has_sequences, "position_ids must count from the start of each sequence")
        elif not has_sequences:
            return make_dense()
    mask = _build(pattern, at, padding)
    return AttentionMask(shape, mask, lengths, num_keys)


#: Arguments of attention that no kernel has.
REFUSED = ("head_mask", "indices", "block_indices")

#: Types of models that leave masks out unless they are tensors.
_IGNORING_MASKS = ("doge",)

#: Types of models that extend dense masks by numbers that are added to scores, also masks of booleans.
_ADDING_TO_MASKS = ("deepseek_v4",)


def _check_call(module: torch.nn.Module, attention_mask: Any, arguments: Dict[str, Any]) -> None:
    """Refuses what a module asks for that kernels do not compute."""
    if arguments.get("output_attentions"):
        raise UnsupportedError(
            'output_attentions needs probabilities, which kernels do not store; use attn_implementation="eager"'
        )
    for name in REFUSED:
        if arguments.get(name) is not None:
            raise UnsupportedError(f'the model passes {name}; use attn_implementation="eager"')
    model = getattr(getattr(module, "config", None), "model_type", "")
    if model in _IGNORING_MASKS and not isinstance(attention_mask, BlockMask):
        raise UnsupportedError(f'models of type {model} leave out masks of "attn"; use attn_implementation="eager"')
    is_boolean = isinstance(attention_mask, Tensor) and attention_mask.dtype == torch.bool
    if model in _ADDING_TO_MASKS and is_boolean:
        raise UnsupportedError(
            f'models of type {model} extend masks by numbers, and "attn" made this one of booleans; '
            'use attn_implementation="eager"'
        )


def _make_state(query: Tensor, value: Tensor, sinks: Optional[Tensor]) -> Optional[Tuple[Tensor, Tensor]]:
    """Sinks of each query, as attention to another key whose value is 0: its log-sum-exp is the sink."""
    if sinks is None:
        return None
    shape = (*query.shape[:3], value.shape[3])
    if sinks.shape != (*shape[:3], 1):
        raise AttnError(f"sinks has the shape {tuple(sinks.shape)}, expected {(*shape[:3], 1)}")
    return query.new_zeros(shape), sinks[..., 0].to(torch.float32)


def _add_bias(mask: Optional[Tensor], bias: Tensor) -> Tensor:
    """A bias of scores, with a dense mask."""
    if mask is None:
        return bias
    if mask.dtype == torch.bool:
        return torch.where(mask, bias, torch.full((), float("-inf"), dtype=bias.dtype, device=bias.device))
    return bias + mask


def _attend_pages(
    query: Tensor,
    pages: Pages,
    dense: Optional[Tensor],
    mask: Optional[Mask],
    lengths: Optional[Tensor],
    apply_causal: bool,
    scaling: Optional[float],
    softcap: Optional[float],
    sinks: Optional[Tensor],
) -> Tensor:
    """Attention to the pages of a cache, which are not copied. ``mask`` reads no tensors."""
    named = CAUSAL if apply_causal else "" if mask is None else read_mask(mask, "attention_mask")[0]
    kind = make_bias_kind(dense, named, scaling, softcap)
    clauses = "key_lengths page_table" if sinks is None else "sinks key_lengths page_table"
    captures = [] if sinks is None else [sinks]
    captures += [pages.lengths if lengths is None else lengths, pages.table]
    captures += [] if dense is None else [dense]
    key, value = pages.keys.transpose(1, 2), pages.values.transpose(1, 2)
    return attend_operator(query, key, value, captures, kind._replace(clauses=clauses), False)[0]


def attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Union[Tensor, AttentionMask, None],
    dropout: float = 0.0,
    scaling: Optional[float] = None,
    is_causal: Optional[bool] = None,
    softcap: Optional[float] = None,
    s_aux: Optional[Tensor] = None,
    position_bias: Optional[Tensor] = None,
    sinks: Optional[Tensor] = None,
    **kwargs: Any,
) -> Tuple[Tensor, None]:
    """The attention of a module of Transformers, as ``AttentionInterface`` asks for it.

    - ``query`` is ``[batch, heads, queries, head dim]``, ``key`` and ``value`` are
      ``[batch, key heads, keys, head dim]``, all of one dtype that ``sdpa`` takes.
    - ``attention_mask`` is the result of ``make_mask``, or a tensor of four dimensions that broadcasts to
      ``[batch, heads, queries, keys]``: of torch.bool, or added to the scores. With None, modules that are causal
      attend to keys up to the query. A sliding window is a part of the mask.
    - ``softcap`` bounds scores; ``s_aux`` are sinks of the shape ``[heads]``, and ``sinks`` sinks of each query,
      ``[batch, heads, queries, 1]``; ``position_bias``, which broadcasts to ``[batch, heads, queries, keys]``, is added
      to the scores. All but ``softcap`` have gradients.

    Returns the output ``[batch, queries, heads, head dim]``, and None in the place of probabilities. Raises an
    ``UnsupportedError`` if the model asks for probabilities or chooses keys by indices, and an ``AttnError`` for a mask
    or sinks of other sizes.
    """
    _check_call(module, attention_mask, kwargs)
    block_mask = lengths = dense = None
    apply_causal = False
    pages = find_pages(key)
    cached = key.shape[2] if pages is None else pages.num_keys
    if isinstance(attention_mask, AttentionMask):
        queries, keys = attention_mask.shape[2:]
        if query.shape[2] != queries or cached != keys:
            raise AttnError(
                f"the mask is for {queries} queries and {keys} keys, and a layer has {query.shape[2]} and "
                f'{cached}; use attn_implementation="sdpa" for this model'
            )
        block_mask, lengths, num_keys = attention_mask.mask, attention_mask.key_lengths, attention_mask.num_keys
        if num_keys != keys:
            if pages is not None:
                (key, value), pages = pages.gather(), None
            key, value = key[:, :, :num_keys], value[:, :, :num_keys]
            if position_bias is not None:
                position_bias = position_bias[..., :num_keys]
        if lengths is not None and lengths.shape[0] != query.shape[0]:
            lengths = lengths.expand(query.shape[0]).contiguous()
    elif isinstance(attention_mask, BlockMask):
        raise AttnError("attention_mask is a BlockMask of torch; pass a tensor of the shape [batch, keys]")
    elif attention_mask is not None:
        if attention_mask.dim() != 4:
            raise AttnError(
                f"attention_mask has the shape {tuple(attention_mask.shape)}, expected four dimensions: batch, heads, "
                "queries and keys"
            )
        dense = attention_mask[..., :cached]
    else:
        if is_causal is None:
            is_causal = getattr(module, "is_causal", True)
        # A single query is the last one.
        apply_causal = query.shape[2] > 1 and bool(is_causal)
    if position_bias is not None:
        dense = _add_bias(dense, position_bias.to(torch.float32)).contiguous()
    elif dense is not None and dense.is_floating_point() and dense.dtype != query.dtype:
        dense = dense.to(torch.float32)
    if pages is not None:
        reads = block_mask is not None and bool(block_mask.attribute()[1])
        is_inference = not (torch.is_grad_enabled() and query.requires_grad) and dropout == 0.0
        if is_inference and not reads and sinks is None:
            out = _attend_pages(query, pages, dense, block_mask, lengths, apply_causal, scaling, softcap, s_aux)
            return out.transpose(1, 2).contiguous(), None
        key, value = pages.gather()
    is_grouped = not query.shape[1] == key.shape[1] == value.shape[1]
    out = sdpa(
        query, key, value, dense, dropout, apply_causal, scaling, enable_gqa=is_grouped, soft_cap=softcap,
        block_mask=block_mask, sinks=s_aux, key_lengths=lengths, state=_make_state(query, value, sinks),
    )  # fmt: skip
    return cast(Tensor, out).transpose(1, 2).contiguous(), None


#: Names of the attention implementation.
registered: Set[str] = set()


def register(name: str = "attn") -> None:
    """Adds the attention implementation ``name`` to Transformers. Calls after the first one change nothing.

    Raises an ``ImportError`` if Transformers is missing or too old.
    """
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask

        if "q_offset" not in inspect.signature(sdpa_mask).parameters:
            raise ImportError("masks of this version know no q_offset")
    except ImportError as error:
        raise ImportError(
            "attn.transformers needs Transformers 5, which has AttentionInterface and AttentionMaskInterface: "
            f"pip install --upgrade 'transformers>=5' ({error})"
        ) from error
    AttentionInterface.register(name, attend)
    AttentionMaskInterface.register(name, make_mask)
    registered.add(name)
