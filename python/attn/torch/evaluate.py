# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention by operations of torch, from the same text that kernels are compiled from.

In double precision on the host it takes the place of kernels, which have none, so that
``torch.autograd.gradcheck`` runs on models. With ATTN_CHECK_READS=1 the indices of all
reads of captured tensors are computed for each call, and those outside are an error.
"""

import contextlib
import functools
import math
import operator
import os
import re
import struct
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from attn.errors import AttnError, UnsupportedError
from attn.torch.kernels import (
    DROPOUT_ROUNDS,
    SEQUENCES,
    Kind,
    check_clauses,
    check_kind,
    check_tensors,
    find_dropout_threshold,
    find_operands,
)


# The functions of tensors for the operations, by name.
_OPERATIONS: Dict[str, Callable] = {
    **dict.fromkeys(("arith.addf", "arith.addi"), torch.add),
    **dict.fromkeys(("arith.subf", "arith.subi"), torch.sub),
    **dict.fromkeys(("arith.mulf", "arith.muli"), torch.mul),
    **dict.fromkeys(("arith.minimumf", "arith.minsi"), torch.minimum),
    **dict.fromkeys(("arith.maximumf", "arith.maxsi"), torch.maximum),
    "arith.divf": torch.div,
    "arith.floordivsi": lambda a, b: torch.div(a, torch.where(b == 0, 1, b), rounding_mode="floor"),
    "arith.andi": torch.bitwise_and,
    "arith.ori": torch.bitwise_or,
    "arith.xori": torch.bitwise_xor,
    "arith.negf": torch.neg,
    "arith.select": torch.where,
    "arith.sitofp": lambda a: a.double(),
    "arith.uitofp": lambda a: a.double(),
    "arith.fptosi": lambda a: a.long(),
    "arith.index_cast": lambda a: a,
    "arith.index_castui": lambda a: a.long(),
    "arith.extf": lambda a: a,
    "math.absf": torch.abs,
    "math.powf": torch.pow,
    "math.roundeven": torch.round,
    **{f"math.{name}": getattr(torch, name) for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "atan", "sinh",
        "cosh", "tanh", "erf", "floor", "ceil", "trunc",
    )},
}  # fmt: skip
_COMPARISONS = {name: getattr(torch, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")}
_ROUNDED = {"bf16": torch.bfloat16, "f16": torch.float16}


class Pairs(NamedTuple):
    """Scores, and probabilities after the softmax, of all pairs: ``[batch, heads, queries, keys]``."""

    scores: Tensor
    probabilities: Tensor


class _Pairs(NamedTuple):
    """Positions as tensors that broadcast to ``[batch, heads, queries, keys]``, and the captured tensors to read at
    them."""

    position: Tuple[Tensor, ...]
    #: Numbers of queries and keys; of sequences, tensors that broadcast, too.
    lengths: Tuple[Union[int, Tensor], Union[int, Tensor]]
    captures: Sequence[Tensor]


def _constant(text: str, device: torch.device) -> Tensor:
    """A literal as the tracer writes it."""
    value, _, kind = text.partition(" : ")
    if not kind:
        return torch.tensor(value == "true", device=device)
    if kind == "index":
        return torch.tensor(int(value), device=device)
    number = struct.unpack("<f", struct.pack("<I", int(value, 16)))[0] if value.startswith("0x") else float(value)
    return torch.tensor(number, dtype=torch.float64, device=device)


class _Region:
    """The body of a region, evaluated at pairs."""

    def __init__(self, text: str, pairs: _Pairs, read: Optional[Callable[[int, Tensor, Tuple], None]] = None):
        self._pairs = pairs
        self._read = read
        self._values: Dict[str, Tensor] = dict(zip(("%b", "%h", "%i", "%j"), pairs.position))
        self._lines = re.split(r"\s+(?=%\w+ = |attn\.yield )", text.strip())

    def evaluate(self, score: Optional[Tensor] = None) -> Tensor:
        if score is not None:
            self._values["%s"] = score
        for line in self._lines:
            name, _, operation = line.partition(" = ")
            if not operation:
                return self._values[name.split()[1]]
            self._values[name] = self._apply(*operation.split(" ", 1))
        raise AttnError("a region ends without attn.yield")

    def _apply(self, name: str, rest: str) -> Tensor:
        if name == "arith.constant":
            return _constant(rest, self._pairs.position[0].device)
        if name == "tensor.extract":
            return self._extract(rest)
        operands = [self._values[operand] for operand in re.findall(r"%\w+", rest)]
        if name in ("arith.cmpi", "arith.cmpf"):
            return _COMPARISONS[rest.split(",")[0][-2:]](*operands)
        if name == "arith.truncf":
            return operands[0].to(_ROUNDED[rest.rpartition(" ")[2]]).double()
        operation = _OPERATIONS.get(name)
        if operation is None:
            raise UnsupportedError(f"operation '{name}' of a region has no form by operations of torch")
        return operation(*operands)

    def _extract(self, rest: str) -> Tensor:
        number, indices = re.match(r"%c(\d+)\[(.*?)\]", rest).groups()  # type: ignore[union-attr]
        tensor = self._pairs.captures[int(number)]
        tensor = tensor[None] if tensor.ndim == 0 else tensor
        index = tuple([self._values[name] for name in indices.split(", ")])
        if self._read is not None:
            self._read(int(number), tensor, index)
        inside = [torch.clamp(each, 0, size - 1) for each, size in zip(index, tensor.shape)]
        value = tensor[tuple(inside)]
        return value.double() if value.is_floating_point() else value if value.dtype == torch.bool else value.long()


# Named masks


def _split_parameters(text: str) -> List[str]:
    """The parts of a list of parameters, at the commas of the outermost level."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    return [*parts, text[start:].strip()]


def _evaluate_mask(text: str, pairs: _Pairs) -> Tensor:
    """Which pairs a named mask keeps."""
    name, _, rest = text.removeprefix("#attn.").partition("<")
    parts = _split_parameters(rest[:-1]) if rest else []
    if name in ("and", "or", "not"):
        masks = [_evaluate_mask(part, pairs) for part in parts]
        return ~masks[0] if name == "not" else functools.reduce(operator.and_ if name == "and" else operator.or_, masks)
    batch, _, query, key = pairs.position
    parameters = dict(part.split(" = ") for part in parts)
    is_top_left = parameters.pop("alignment", "") == "top_left"
    numbers = {name: int(value) for name, value in parameters.items()}
    row = query if is_top_left else query + (pairs.lengths[1] - pairs.lengths[0])
    if name in ("documents", "packed_documents"):
        of_queries, of_keys = (pairs.captures[numbers[side]].long() for side in ("queries", "keys"))
        return _same_document(name == "packed_documents", of_queries, of_keys, batch, query, key)
    if name not in _POSITIONAL:
        raise UnsupportedError(f"the mask #attn.{name} has no form by operations of torch")
    return _POSITIONAL[name](row, key, query, **numbers)


def _check_documents(kind: Kind, query: Tensor, key: Tensor, captures: Sequence[Tensor]) -> None:
    """Refuses tensors of documents whose sizes differ from the sizes of queries and keys."""
    if kind.sequences == "packed":
        return
    for is_packed, *numbers in re.findall(r"#attn\.(packed_)?documents<queries = (\d+), keys = (\d+)>", kind.mask):
        for side, number, of in zip(("queries", "keys"), numbers, (query, key)):
            shape = tuple(captures[int(number)].shape)
            positions = shape[-1] if is_packed else of.shape[2]
            if shape not in ((1, positions), (query.shape[0], positions)):
                wanted = "documents + 1" if is_packed else positions
                raise AttnError(
                    f"{side} of the mask {is_packed}documents have the shape {shape}, expected "
                    f"({query.shape[0]}, {wanted}) or (1, {wanted})"
                )


def _same_document(is_packed: bool, queries: Tensor, keys: Tensor, batch: Tensor, query: Tensor, key: Tensor) -> Tensor:
    def find(tensor: Tensor, position: Tensor) -> Tensor:
        entry = batch if tensor.shape[0] > 1 else torch.zeros_like(batch)
        if not is_packed:
            return tensor[entry, position]
        number = (position[..., None] >= tensor[entry]).sum(-1)
        return torch.where((number == 0) | (number == tensor.shape[1]), -1, number)

    first, second = find(queries, query), find(keys, key)
    return (first == second) & (first >= 0) if is_packed else first == second


def _window(row: Tensor, key: Tensor, query: Tensor, left: Optional[int] = None, right: Optional[int] = None) -> Tensor:
    keep = torch.ones_like(row - key, dtype=torch.bool)
    keep = keep if left is None else keep & (key >= row - left)
    return keep if right is None else keep & (key <= row + right)


def _dilated(row: Tensor, key: Tensor, query: Tensor, left: int, right: int, dilation: int) -> Tensor:
    return _window(row, key, query, left, right) & ((row - key) % dilation == 0)


def _local_blocks(
    row: Tensor, key: Tensor, query: Tensor, size: int, before: Optional[int] = None, after: Optional[int] = None
) -> Tensor:
    blocks = (torch.div(each, size, rounding_mode="floor") for each in (row, key, query))
    return _window(*blocks, left=before, right=after)


_POSITIONAL: Dict[str, Callable] = {
    "causal": lambda row, key, query: key <= row,
    "sliding_window": _window,
    "dilated_window": _dilated,
    "prefix_lm": lambda row, key, query, length: (key < length) | (key <= row),
    "local_blocks": _local_blocks,
    "global_tokens": lambda row, key, query, count: (query < count) | (key < count),
}


# Attention


def _positions(sizes: Sequence[int], device: torch.device, first_query: int = 0) -> Tuple[Tensor, ...]:
    """Numbers of batch entries, heads, queries and keys, each in a dimension of its own."""
    starts = (0, 0, first_query, 0)
    return tuple([
        torch.arange(start, start + size, device=device).view([-1 if dim == number else 1 for dim in range(4)])
        for number, (start, size) in enumerate(zip(starts, sizes))
    ])  # fmt: skip


# Scores and probabilities of calls are appended to the last one.
_records: List[List[Tuple[Tensor, Tensor]]] = []


@contextlib.contextmanager
def record_pairs() -> Iterator[List[Tuple[Tensor, Tensor]]]:
    """Has calls in double precision, on any device, record scores and probabilities."""
    record: List[Tuple[Tensor, Tensor]] = []
    _records.append(record)
    try:
        yield record
    finally:
        _records.remove(record)


def takes(query: Tensor) -> bool:
    """Whether a call is computed by operations of torch."""
    return query.dtype == torch.float64 and (not query.is_cuda or bool(_records))


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    captures: Sequence[Tensor],
    kind: Kind,
    rng: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor]:
    """Output and log-sum-exp in double precision. With dropout, ``rng`` has seed and offset."""
    check_kind(query, key, value, captures, kind, allows_double=True)
    operands = find_operands(captures, kind)
    of_lengths = [clause for clause in operands if clause in (*SEQUENCES, "key_lengths", "page_table", "positions")]
    given = [operand for clause in of_lengths for operand in operands[clause]]
    check_clauses(Kind(clauses=" ".join(of_lengths)), query, given)
    key, value = (_gather_pages(tensor, captures, kind) for tensor in (key, value))
    scores, probabilities, lse = _evaluate(query, key, captures, kind, rng)
    if _records:
        _records[-1].append((scores, probabilities))
    out = probabilities @ value[:, _find_heads(query, value, captures, kind)]
    return (_add_state(out, lse, *operands["state"]) if "state" in operands else out), lse


def _add_state(out: Tensor, lse: Tensor, state_out: Tensor, state_lse: Tensor) -> Tensor:
    """The output with a partial result that its log-sum-exp includes."""
    is_none = (state_lse == -math.inf) | (lse == -math.inf)
    weight = (state_lse.double().masked_fill(is_none, 0.0) - lse.masked_fill(is_none, 0.0)).exp() * ~is_none
    return out + weight[..., None] * state_out.double().masked_fill(is_none[..., None], 0.0)


def _gather_pages(tensor: Tensor, captures: Sequence[Tensor], kind: Kind) -> Tensor:
    """The keys or values of each batch entry of a cache, 0 behind its length."""
    operands = find_operands(captures, kind)
    if "page_table" in operands:
        table = operands["page_table"][0].long().clamp(0, max(tensor.shape[0] - 1, 0))
        tensor = tensor[table].transpose(1, 2).flatten(2, 3)
    is_packed = "packed_queries" in operands
    lengths = operands["packed_queries"][1] if is_packed else operands.get("key_lengths", (None,))[0]
    if lengths is None:
        return tensor
    behind = torch.arange(tensor.shape[2], device=tensor.device) >= lengths.view(-1, 1)
    tensor = tensor.masked_fill(behind[:, None, :, None], 0.0)
    # All keys are in the batch entry of the queries.
    return tensor.transpose(0, 1).flatten(1, 2)[None] if is_packed else tensor


def evaluate_pairs(query: Tensor, key: Tensor, captures: Sequence[Tensor], kind: Kind) -> Tuple[Tensor, Tensor]:
    """Scores, -inf where pairs do not attend, and probabilities."""
    check_tensors(query, key, key, (), has_head_map="heads" in kind.clauses.split(), allows_double=True)
    return _evaluate(query, key, captures, kind)[:2]


def _find_heads(query: Tensor, shared: Tensor, captures: Sequence[Tensor], kind: Kind) -> Tensor:
    """The head of keys, or of values, that each query head attends."""
    heads = find_operands(captures, kind).get("heads")
    if heads is not None:
        return heads[0].long()
    group = query.shape[1] // max(shared.shape[1], 1)
    return torch.arange(query.shape[1], device=query.device) // max(group, 1)


class _Places(NamedTuple):
    """Where rows and columns are in their sequences."""

    position: Tuple[Tensor, ...]
    lengths: Tuple[Union[int, Tensor], Union[int, Tensor]]
    #: The pairs of one sequence, and the rows of any sequence; None for all.
    pairs: Optional[Tensor] = None
    rows: Optional[Tensor] = None


def _locate(
    query: Tensor,
    key: Tensor,
    captures: Sequence[Tensor],
    kind: Kind,
    rows: Optional[slice] = None,
) -> _Places:
    """Places of all rows, or of some, and of all columns."""
    sizes = (query.shape[2], key.shape[2])
    first, end, _ = (rows or slice(None)).indices(sizes[0])
    position = _positions((*query.shape[:2], end - first, sizes[1]), query.device, first)
    if "key_lengths" in kind.clauses.split():
        length = find_operands(captures, kind)["key_lengths"][0].long().clamp(0, sizes[1]).view(-1, 1, 1, 1)
        return _Places(position, (sizes[0], length), position[3] < length)
    if "positions" in kind.clauses.split():
        entries = find_operands(captures, kind)["positions"][0].long()
        # First query, key, batch entry and head.
        offsets = [entries[number] for number in (2, 3, 0, 1)]
        position = tuple(place + offset for place, offset in zip(position, offsets))
        return _Places(position, (entries[4], entries[5]))
    if not kind.sequences:
        return _Places(position, sizes)
    operands = find_operands(captures, kind)[kind.sequences]
    if kind.packs_queries:
        return _locate_packed(position, operands, has_entries=kind.sequences == "packed_queries")
    lengths = [each.long().clamp(0, size).view(-1, 1, 1, 1) for each, size in zip(operands, sizes)]
    is_row, is_column = (place < length for place, length in zip(position[2:], lengths))
    return _Places(position, (lengths[0], lengths[1]), is_row & is_column, is_row)


def _locate_packed(position: Sequence[Tensor], operands: Sequence[Tensor], has_entries: bool) -> _Places:
    """Places of sequences that begin at the positions of ``operands``, of queries and of keys. If keys have entries of
    one size, the latter are lengths."""
    starts = [bounds.long() for bounds in operands]
    lengths = [bounds.diff() for bounds in starts]
    if has_entries:
        count, columns = len(starts[1]), position[3].numel()
        lengths[1] = starts[1]
        starts[1] = torch.arange(count + 1, device=starts[1].device) * (columns // max(count, 1))
    numbers, places, insides = [], [], []
    for place, bounds, length in zip(position[2:], starts, lengths):
        number = torch.searchsorted(bounds, place.flatten(), right=True).view(place.shape) - 1
        is_inside = (number >= 0) & (number < len(bounds) - 1)
        numbers.append(number.clamp(0, max(len(bounds) - 2, 0)))
        places.append(place - bounds[numbers[-1]])
        insides.append(is_inside & (places[-1] < length[numbers[-1]]) if len(length) else is_inside)
    of_rows = [length[numbers[0]] for length in lengths]
    pairs = insides[0] & insides[1] & (numbers[0] == numbers[1])
    return _Places((numbers[0], position[1], *places), (of_rows[0], of_rows[1]), pairs, insides[0])


def _evaluate(
    query: Tensor, key: Tensor, captures: Sequence[Tensor], kind: Kind, rng: Optional[Tensor] = None
) -> Tuple[Tensor, Tensor, Tensor]:
    """Scores, probabilities, some of which ``rng`` drops, and log-sum-exp."""
    _check_documents(kind, query, key, captures)
    key = key[:, _find_heads(query, key, captures, kind)]
    places = _locate(query, key, captures, kind)
    scores = query @ key.mT * (1 / math.sqrt(query.shape[3]) if kind.scale is None else kind.scale)
    pairs = _Pairs(places.position, places.lengths, captures[kind.first_capture :])
    if kind.score_mod:
        scores = _Region(kind.score_mod, pairs).evaluate(scores).expand(scores.shape)
    keep = scores != -math.inf
    if places.pairs is not None:
        keep = keep & places.pairs
    if kind.mask_mod:
        keep = keep & _Region(kind.mask_mod, pairs).evaluate()
    if kind.mask:
        keep = keep & _evaluate_mask(kind.mask, pairs._replace(captures=captures[: kind.reads]))
    operands = find_operands(captures, kind)
    probabilities, lse = _normalize(scores, keep, operands.get("sinks"), operands.get("state"))
    if rng is not None:
        probabilities = _drop(probabilities, kind.dropout_p, rng, places.position)
    if "identity" in operands:
        probabilities = _mix_identity(probabilities, places, operands["identity"][0])
    if places.rows is not None:
        lse = lse.masked_fill(~places.rows[..., 0], -math.inf)
    return scores.masked_fill(~keep, -math.inf), probabilities, lse


def _normalize(
    scores: Tensor, keep: Tensor, sinks: Optional[Sequence[Tensor]], state: Optional[Sequence[Tensor]]
) -> Tuple[Tensor, Tensor]:
    """The softmax of the kept scores and its log-sum-exp; rows with nothing to attend are 0."""
    is_empty = ~keep.any(-1, keepdim=True)
    # Of an empty row all gradients are 0.
    masked = scores.masked_fill(~keep, -math.inf).masked_fill(is_empty, 0.0)
    if scores.shape[-1] == 0:
        lse = scores.new_full(scores.shape[:-1], -math.inf)
    else:
        lse = masked.logsumexp(-1)
    lse = lse.masked_fill(is_empty[..., 0], -math.inf)
    if sinks is not None:
        lse = torch.logaddexp(lse, sinks[0].double()[:, None].expand(lse.shape))
    if state is not None:
        # Both may be -inf, where the gradient of the sum would be NaN.
        other = state[1].double()
        is_none = (lse == -math.inf) & (other == -math.inf)
        lse = torch.logaddexp(lse.masked_fill(is_none, 0.0), other).masked_fill(is_none, -math.inf)
    finite = lse.masked_fill(lse == -math.inf, 0.0)
    return (masked - finite[..., None]).exp() * ~is_empty, lse


def _mix_identity(probabilities: Tensor, places: _Places, identity: Tensor) -> Tensor:
    weight = identity.double()[:, None, None]
    row = places.position[2] + (places.lengths[1] - places.lengths[0])
    diagonal = places.position[3] == row
    diagonal = diagonal if places.pairs is None else diagonal & places.pairs
    return (1 - weight) * probabilities + weight * diagonal


# Dropout

_WORD = 2**32 - 1


def _rotate(word: Tensor, by: int) -> Tensor:
    return ((word << by) | (word >> (32 - by))) & _WORD


def _generate(key: Sequence[Tensor], counter: Sequence[Tensor]) -> Tuple[Tensor, ...]:
    """Four words of `#attn.arx` (docs/rng.md), as integers of 64 bits."""
    x0, x1, x2, x3 = counter
    for number in range(DROPOUT_ROUNDS):
        x0 = (x0 + x1 + key[0] + number * 0x9E3779B9) & _WORD
        x1 = _rotate(x1, 5) ^ x0
        x0 = _rotate(x0, 16)
        x2 = (x2 + x3 + key[1] + number * 0xBB67AE85) & _WORD
        x3 = _rotate(x3, 8) ^ x2
        x0 = (x0 + x3) & _WORD
        x3 = _rotate(x3, 13) ^ x0
        x2 = (x2 + x1) & _WORD
        x1 = _rotate(x1, 7) ^ x2
        x2 = _rotate(x2, 16)
    return x0, x1, x2, x3


def _drop(probabilities: Tensor, p: float, rng: Tensor, position: Sequence[Tensor]) -> Tensor:
    """Probabilities of which kernels with this state keep some: the others are 0."""
    threshold, bits = find_dropout_threshold(p)
    seed, offset = rng.long()
    batch, head, query, key = position
    y0, y1, *others = _generate((seed & _WORD, seed >> 32 & _WORD), (offset & _WORD, offset >> 32 & _WORD, batch, head))
    row = query // 16 * 8 + query % 8
    # The place of a pair in words for 16 queries or keys.
    place = key % 2 * 16 + key % 8 // 2 * 4 + key % 16 // 8 * 2 + query % 16 // 8
    number = torch.zeros_like(place)
    for first in range(0, bits, 4):
        for word in _generate((y0, y1), (key // 16 * 4 + first // 4, row, *others)):
            number = number * 2 + (word >> place & 1)
    return torch.where(number >= threshold, probabilities / (1 - threshold / 2**bits), 0.0)


# Reads


@functools.lru_cache(maxsize=None)
def checks_reads() -> bool:
    """Whether ATTN_CHECK_READS asks for checks."""
    value = os.environ.get("ATTN_CHECK_READS", "0")
    if value not in ("", "0", "1"):
        raise AttnError(f"the environment variable ATTN_CHECK_READS is '{value}', expected 0 or 1")
    return value == "1"


# The number of pairs that are checked together.
_PAIRS_AT_ONCE = 1 << 22


def check_reads(query: Tensor, key: Tensor, captures: Sequence[Tensor], kind: Kind) -> None:
    """Refuses reads out of the bounds of captured tensors: in a score_mod at pairs that attend, in a mask_mod at pairs
    that lengths and a named mask keep. A score of 0 stands for all scores."""
    _check_documents(kind, query, key, captures)
    count = max(1, _PAIRS_AT_ONCE // max(1, query.shape[0] * query.shape[1] * key.shape[2]))
    for first in range(0, query.shape[2], count):
        places = _locate(query, key, captures, kind, slice(first, first + count))
        pairs = _Pairs(places.position, places.lengths, captures[kind.first_capture :])
        keep = torch.ones((), dtype=torch.bool, device=query.device) if places.pairs is None else places.pairs
        if kind.mask:
            keep = keep & _evaluate_mask(kind.mask, pairs._replace(captures=captures[: kind.reads]))
        if kind.mask_mod:
            check = functools.partial(_check_read, "mask_mod", keep, places.position)
            keep = keep & _Region(kind.mask_mod, pairs, check).evaluate()
        if kind.score_mod:
            check = functools.partial(_check_read, "score_mod", keep, places.position)
            _Region(kind.score_mod, pairs, check).evaluate(torch.zeros((), dtype=torch.float64, device=query.device))


def _check_read(
    role: str, keep: Tensor, position: Sequence[Tensor], number: int, tensor: Tensor, index: Sequence[Tensor]
) -> None:
    for dim, (each, size) in enumerate(zip(index, tensor.shape)):
        is_outside = ((each < 0) | (each >= size)) & keep
        if not bool(is_outside.any()):
            continue
        is_outside, each, *position = torch.broadcast_tensors(is_outside, each, *position)
        place = tuple(is_outside.nonzero()[0].tolist())
        where = [int(axis[place]) for axis in position]
        raise AttnError(
            f"{role} reads index {int(each[place])} of dimension {dim} of captured tensor {number}, of size {size}, "
            f"at batch {where[0]}, head {where[1]}, query {where[2]} and key {where[3]}"
        )
