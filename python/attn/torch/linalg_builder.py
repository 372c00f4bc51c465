# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operations of ``linalg`` and ``tensor``, as text."""

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from attn.artifact import DTYPES, element_types
from attn.errors import UnsupportedError


class Value(NamedTuple):
    """A value of MLIR and its type."""

    name: str
    type: str


def sizes_of(tensor: Tensor) -> Tuple[str, ...]:
    return tuple(str(size) if isinstance(size, int) else "?" for size in tensor.shape)


def type_of(tensor: Tensor) -> str:
    if tensor.dtype not in element_types():
        raise UnsupportedError(f"the graph has a tensor of {tensor.dtype}, which Attn does not compile")
    return f"tensor<{''.join(size + 'x' for size in sizes_of(tensor))}{DTYPES[element_types()[tensor.dtype]]}>"


class LinalgBuilder:
    """Writes operations, one after the other, to ``lines``."""

    def __init__(self) -> None:
        self.lines: List[str] = []
        self.count = 0

    def emit(self, operation: str, kind: str) -> Value:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {operation}")
        return Value(f"%v{self.count}", kind)

    def cast(self, value: Value, kind: str) -> str:
        """The value as this type, which may know other sizes."""
        if value.type == kind:
            return value.name
        return self.emit(f"tensor.cast {value.name} : {value.type} to {kind}", kind).name

    def size(self, value: Value, dim: int) -> str:
        number = self.emit(f"arith.constant {dim} : index", "index")
        return self.emit(f"tensor.dim {value.name}, {number.name} : {value.type}", "index").name

    def divide_size(self, value: Value, dim: int, sizes: Sequence[str]) -> str:
        """The size of a dimension, divided by the product of static sizes."""
        size, product = self.size(value, dim), math.prod(map(int, sizes))
        if product == 1:
            return size
        number = self.emit(f"arith.constant {product} : index", "index")
        return self.emit(f"arith.divui {size}, {number.name} : index", "index").name

    def transpose(self, value: Value, order: Sequence[int]) -> Value:
        """A tensor whose dimension ``i`` is dimension ``order[i]`` of ``value``."""
        sizes = "".join(f"{size_of(value, dim)}x" for dim in order)
        kind = f"tensor<{sizes}{element_of(value.type)}>"
        empty = self.empty(kind, [(value, dim) if size_of(value, dim) == "?" else None for dim in order])
        return self.emit(
            f"linalg.transpose ins({value.name} : {value.type}) outs({empty.name} : {kind}) "
            f"permutation = [{', '.join(map(str, order))}]",
            kind,
        )

    def matmul(self, rows: Value, matrix: Value, is_transposed: bool, element: str) -> Value:
        """A matmul with a result of some element type, from zeros."""
        columns = 0 if is_transposed else 1
        kind = f"tensor<{size_of(rows, 0)}x{size_of(matrix, columns)}x{element}>"
        sizes = ((rows, 0), (matrix, columns))
        empty = self.empty(kind, [(value, dim) if size_of(value, dim) == "?" else None for value, dim in sizes])
        zero = self.emit(f"arith.constant 0.0 : {element}", element)
        init = self.emit(f"linalg.fill ins({zero.name} : {element}) outs({empty.name} : {kind}) -> {kind}", kind)
        reads = ("i, k", "j, k" if is_transposed else "k, j", "i, j")
        maps = ", ".join(f"affine_map<(i, j, k) -> ({dims})>" for dims in reads)
        return self.emit(
            f"linalg.matmul indexing_maps = [{maps}] ins({rows.name}, {matrix.name} : {rows.type}, {matrix.type}) "
            f"outs({init.name} : {kind}) -> {kind}",
            kind,
        )

    def empty(self, kind: str, sources: Sequence[Optional[Tuple[Value, int]]]) -> Value:
        """An empty tensor; ``sources`` has a value and its dimension of the same size for each size that varies."""
        varying = ", ".join(self.size(*source) for source in sources if source is not None)
        return self.emit(f"tensor.empty({varying}) : {kind}", kind)

    def regroup(self, value: Value, groups: Sequence[Tuple[List[int], List[int]]], shape: Sequence[str]) -> Value:
        """A view of ``value`` with this shape: each group of its dimensions becomes a group of dimensions."""
        element = element_of(value.type)
        before = [size_of(value, dim) for sources, _ in groups for dim in sources]
        merged = [merge_sizes([size_of(value, dim) for dim in sources]) for sources, _ in groups]
        if len(merged) != len(before):
            kind = f"tensor<{''.join(size + 'x' for size in merged)}{element}>"
            dims = [sources for sources, _ in groups]
            value = self.emit(f"tensor.collapse_shape {value.name} {dims} : {value.type} into {kind}", kind)
        if len(merged) != len(shape):
            kind = f"tensor<{''.join(size + 'x' for size in shape)}{element}>"
            sizes = list(shape)
            for number, (_, targets) in enumerate(groups):
                for dim in targets:
                    if shape[dim] == "?":
                        others = [shape[other] for other in targets if other != dim]
                        sizes[dim] = self.divide_size(value, number, others)
            dims = [targets for _, targets in groups]
            value = self.emit(
                f"tensor.expand_shape {value.name} {dims} output_shape [{', '.join(sizes)}] : {value.type} into {kind}",
                kind,
            )
        return value

    def broadcast(self, operands: Sequence[Value], ranks: Sequence[int], kind: str) -> List[List[str]]:
        """How operands that broadcast to the type ``kind`` are read."""
        rank = kind.count("x")
        maps: List[List[str]] = []
        for operand, own in zip(operands, ranks):
            places = range(rank - own, rank)
            is_spread = [
                size_of(operand, dim) == "1" and size_of(Value("", kind), place) != "1"
                for dim, place in enumerate(places)
            ]
            maps.append(["0" if spread else f"d{place}" for spread, place in zip(is_spread, places)])
        return maps

    def combine(self, operation: str, operands: Sequence[Value], ranks: Sequence[int], kind: str) -> Value:
        """Elements of tensors that broadcast to the type ``kind``."""
        maps = self.broadcast(operands, ranks, kind)
        return self.loops(operands, maps, kind, [f"%x.r = {operation} %x.0, %x.1 : {element_of(kind)}"])

    def loops(
        self,
        operands: Sequence[Value],
        maps: Sequence[Sequence[str]],
        kind: str,
        body: Sequence[str],
        result: str = "%x.r",
        sizes: Optional[Dict[int, Tuple[Value, int]]] = None,
    ) -> Value:
        """Loops over the elements of a tensor of type ``kind``, whose dimensions are ``d0``, ``d1``, .... ``body``
        makes ``result`` of elements ``%x.0``, ``%x.1``, ... of the operands, which are read as ``maps`` say. Sizes that
        vary are sizes of operands, or those of ``sizes``: a value and its dimension for a dimension."""
        names = [f"d{dim}" for dim in range(kind.count("x"))]
        known = {
            int(name[1:]): (operand, dim)
            for operand, dims in zip(operands, maps)
            for dim, name in enumerate(dims)
            if name != "0" and size_of(operand, dim) == "?"
        }
        known.update(sizes or {})
        init = self.empty(kind, [known.get(dim) for dim in range(len(names))])
        return self.generic(operands, maps, init, names, names, body, result)

    def generic(
        self,
        operands: Sequence[Value],
        maps: Sequence[Sequence[str]],
        init: Value,
        results: Sequence[str],
        names: Sequence[str],
        body: Sequence[str],
        result: str,
    ) -> Value:
        """Loops ``names`` around ``body``, which makes ``result`` of elements of the operands and ``%x.old``, the
        element of ``init`` with the indices ``results``. Loops that these have not are reductions."""
        texts = ", ".join(f"affine_map<({', '.join(names)}) -> ({', '.join(dims)})>" for dims in (*maps, results))
        iterators = ", ".join('"parallel"' if name in results else '"reduction"' for name in names)
        arguments = "".join(f"%x.{number}: {element_of(operand.type)}, " for number, operand in enumerate(operands))
        lines = "".join(f"      {line}\n" for line in body)
        kind, element = init.type, element_of(init.type)
        return self.emit(
            f"linalg.generic {{indexing_maps = [{texts}], iterator_types = [{iterators}]}}\n"
            f"      ins({', '.join(operand.name for operand in operands)} : "
            f"{', '.join(operand.type for operand in operands)}) outs({init.name} : {kind}) {{\n"
            f"    ^bb0({arguments}%x.old: {element}):\n{lines}      linalg.yield {result} : {element}\n  }} -> {kind}",
            kind,
        )

    def map(self, value: Value, kind: str, body: Sequence[str]) -> Value:
        """The elements of one tensor, each by itself."""
        return self.loops([value], [[f"d{dim}" for dim in range(kind.count("x"))]], kind, body)


def write_number(number: Any, dtype: torch.dtype) -> str:
    """A number of a dtype as MLIR has it: infinities and NaN by their bits."""
    value = torch.tensor(float(number), dtype=torch.float64).to(dtype)
    if value.isfinite():
        return f"{value.item():.9e}"
    bits = value.view(torch.int32 if dtype == torch.float32 else torch.int16).item()
    width = 8 * dtype.itemsize
    return f"0x{bits % 2**width:0{width // 4}X}"


def write_clamp(
    value: str, result: str, low: Optional[float], high: Optional[float], dtype: torch.dtype
) -> List[str]:
    """Operations that clamp ``value``; NaN stays NaN."""
    lines = []
    element = DTYPES[element_types()[dtype]]
    for name, bound, operation in (("low", low, "maximumf"), ("high", high, "minimumf")):
        if bound is None:
            continue
        lines.append(f"%x.{name} = arith.constant {write_number(bound, dtype)} : {element}")
        clamped = result if name == "high" or high is None else "%x.raised"
        lines.append(f"{clamped} = arith.{operation} {value}, %x.{name} : {element}")
        value = clamped
    return lines


def merge_sizes(sizes: Sequence[str]) -> str:
    """The size of these dimensions as one."""
    return "?" if "?" in sizes else str(math.prod(map(int, sizes)))


def size_of(value: Value, dim: int) -> str:
    return value.type[len("tensor<") :].split("x")[dim]


def element_of(kind: str) -> str:
    """The element type of a type of tensors."""
    return kind[:-1].rpartition("x")[2].rpartition("<")[2]
