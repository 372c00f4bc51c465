# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Named masks.

The compiler knows which tiles they keep, alone and combined with others. They combine by ``&``, ``|`` and ``~``:

    masks.causal() & masks.documents(ids)
    masks.global_tokens(64) | masks.sliding_window(left=256, right=256)

Where there are fewer queries than keys, causal masks and windows count from the last query and the last key, unless
``alignment`` is "top_left".
"""

from typing import Any, List, Optional, Sequence, Tuple, Union

from attn.errors import AttnError


class Read:
    """An operand that a mask reads: a tensor, or for ``attn.Attention`` its type."""

    def __init__(self, value: Any):
        self.value = value


class Mask:
    """A set of pairs that attend, as an attribute of the compiler."""

    def __init__(self, parts: Sequence[Union[str, Read]]):
        #: Text of the attribute, with operands in the place of their numbers.
        self._parts = tuple(parts)

    def attribute(self) -> Tuple[str, List[Any]]:
        """The attribute as MLIR text, and its operands."""
        reads: List[Any] = []
        text = ""
        for part in self._parts:
            if isinstance(part, str):
                text += part
                continue
            numbers = [number for number, value in enumerate(reads) if value is part.value]
            if not numbers:
                numbers = [len(reads)]
                reads.append(part.value)
            text += str(numbers[0])
        return text, reads

    def __and__(self, other: "Mask") -> "Mask":
        return self._combine("and", other)

    def __or__(self, other: "Mask") -> "Mask":
        return self._combine("or", other)

    def __invert__(self) -> "Mask":
        return Mask(("#attn.not<", *self._parts, ">"))

    def _combine(self, name: str, other: "Mask") -> "Mask":
        if not isinstance(other, Mask):
            return NotImplemented
        return Mask((f"#attn.{name}<", *self._parts, ", ", *other._parts, ">"))

    def __repr__(self) -> str:
        return f"<mask {self.attribute()[0]}>"


#: Numbers that masks may be given, from the lowest to this one; sizes and steps are at least 1.
_MAX_PARAMETER = (1 << 30) - 1
_POSITIVE = ("size", "dilation")
#: The sizes of blocks are multiples of this number.
_BLOCK_UNIT = 16


def _check_number(name: str, parameter: str, value: int) -> None:
    lowest = int(parameter in _POSITIVE)
    if parameter in ("rows", "columns"):
        if value < _BLOCK_UNIT or value % _BLOCK_UNIT:
            raise AttnError(f"{parameter} of {name} is {value}; it must be a positive multiple of {_BLOCK_UNIT}")
    elif not lowest <= value <= _MAX_PARAMETER:
        raise AttnError(f"{parameter} of {name} is {value}; it must be from {lowest} to {_MAX_PARAMETER}")


def _mask(name: str, **parameters: Any) -> Mask:
    """The named mask, with the parameters that are not None."""
    parts: List[Union[str, Read]] = []
    for parameter, value in parameters.items():
        if parameter == "alignment" and value not in (None, "bottom_right", "top_left"):
            raise AttnError(f"alignment of {name} is {value!r}; it must be 'bottom_right' or 'top_left'")
        if parameter != "alignment" and not isinstance(value, (Read, int, type(None))):
            raise AttnError(f"{parameter} of {name} is a {type(value).__name__}; pass a number")
        if isinstance(value, int):
            _check_number(name, parameter, value)
        if value is not None:
            parts += [", " if parts else "", f"{parameter} = ", value if isinstance(value, Read) else str(value)]
    return Mask([f"#attn.{name}", *(["<", *parts, ">"] if parts else [])])


def causal(alignment: Optional[str] = None) -> Mask:
    """Keys up to the position of the query."""
    return _mask("causal", alignment=alignment)


def sliding_window(left: Optional[int] = None, right: Optional[int] = None, alignment: Optional[str] = None) -> Mask:
    """Keys from ``left`` before the position of the query to ``right`` behind it; a side
    that is None has no end. ``right=0`` makes the window causal."""
    if left is None and right is None:
        raise AttnError("sliding_window has neither left nor right; give one of them")
    return _mask("sliding_window", left=left, right=right, alignment=alignment)


def dilated_window(left: int, right: int, dilation: int, alignment: Optional[str] = None) -> Mask:
    """Every ``dilation``-th key of a window."""
    return _mask("dilated_window", left=left, right=right, dilation=dilation, alignment=alignment)


def prefix_lm(length: int, alignment: Optional[str] = None) -> Mask:
    """Causal, but for the first ``length`` keys, which all queries attend."""
    return _mask("prefix_lm", length=length, alignment=alignment)


def local_blocks(
    size: int, before: Optional[int] = None, after: Optional[int] = None, alignment: Optional[str] = None
) -> Mask:
    """Keys of the query's block of ``size`` positions, and of so many blocks before and
    after it; a side that is None has no end."""
    if before is None and after is None:
        raise AttnError("local_blocks has neither before nor after; give one of them")
    return _mask("local_blocks", size=size, before=before, after=after, alignment=alignment)


def chunked(size: int, alignment: Optional[str] = None) -> Mask:
    """Causal within chunks of ``size`` positions."""
    return causal(alignment) & local_blocks(size, before=0, after=0, alignment=alignment)


def global_tokens(count: int) -> Mask:
    """The first ``count`` tokens attend to all, and all to them."""
    return _mask("global_tokens", count=count)


def documents(queries: Any, keys: Any = None) -> Mask:
    """Pairs of one document, by the id of each position: integers of 32 bits, of shape ``[batch, positions]`` or, for
    all batch entries, ``[1, positions]``. ``keys`` are the ids of the keys, if they differ."""
    return _mask("documents", queries=Read(queries), keys=Read(queries if keys is None else keys))


def packed_documents(queries: Any, keys: Any = None) -> Mask:
    """The same by the boundaries of documents: sorted positions (``cu_seqlens``) of
    shape ``[batch, documents + 1]``, or ``[1, documents + 1]``."""
    return _mask("packed_documents", queries=Read(queries), keys=Read(queries if keys is None else keys))


def tree(parents: Any) -> Mask:
    """Nodes of a tree, which attend to their ancestors and to all keys before the tree:
    ``parents[batch, node]`` is the parent of a node, or -1."""
    return _mask("tree", parents=Read(parents))


def blocks(rows: int, columns: int, offsets: Any, indices: Any) -> Mask:
    """Listed blocks of ``rows`` queries and ``columns`` keys: row ``r`` of blocks
    attends to ``indices[b, h, offsets[b, h, r] : offsets[b, h, r + 1]]``."""
    return _mask("block_sparse", rows=rows, columns=columns, offsets=Read(offsets), indices=Read(indices))
