# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operations of torch around attention, as operations of ``linalg``, for ``attn.torch.lower``.

Functions of elements, sums, means and maxima, normalizations, concatenations and slices of floats. As in torch, values
of 16 bits are computed in f32 and each operation rounds its result.
"""

import functools
import math
import numbers
import re
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor
from torch.fx import Node

from attn.artifact import DTYPES, element_types
from attn.errors import UnsupportedError
from attn.torch.kernels import FLOAT8
from attn.torch.linalg_builder import (
    LinalgBuilder,
    Value,
    element_of,
    size_of,
    type_of,
    write_clamp,
    write_number,
)

aten = torch.ops.aten

_WIDE = (torch.bfloat16, torch.float16, torch.float32)
_ARITHMETIC = {
    aten.add.Tensor: "arith.addf",
    aten.sub.Tensor: "arith.subf",
    aten.mul.Tensor: "arith.mulf",
    aten.div.Tensor: "arith.divf",
    aten.maximum.default: "arith.maximumf",
    aten.minimum.default: "arith.minimumf",
}
_SIGMOID = (
    "%x.one = arith.constant 1.0 : f32",
    "%x.minus = arith.negf %x.w0 : f32",
    "%x.exp = math.exp %x.minus : f32",
    "%x.sum = arith.addf %x.one, %x.exp : f32",
)
#: From ``%x.w0``, an f32, to ``%x.f``.
_FUNCTIONS: Dict[Any, Sequence[str]] = {
    aten.neg.default: ("%x.f = arith.negf %x.w0 : f32",),
    aten.abs.default: ("%x.f = math.absf %x.w0 : f32",),
    aten.relu.default: ("%x.zero = arith.constant 0.0 : f32", "%x.f = arith.maximumf %x.w0, %x.zero : f32"),
    aten.sigmoid.default: (*_SIGMOID, "%x.f = arith.divf %x.one, %x.sum : f32"),
    aten.silu.default: (*_SIGMOID, "%x.f = arith.divf %x.w0, %x.sum : f32"),
    aten.reciprocal.default: ("%x.one = arith.constant 1.0 : f32", "%x.f = arith.divf %x.one, %x.w0 : f32"),
    aten.square.default: ("%x.f = arith.mulf %x.w0, %x.w0 : f32",),
    **{
        getattr(aten, name).default: (f"%x.f = math.{name} %x.w0 : f32",)
        for name in ("exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf")
    },
}
#: Of ``aten.pow``, by exponents.
_POWERS = {
    2.0: _FUNCTIONS[aten.square.default],
    3.0: ("%x.square = arith.mulf %x.w0, %x.w0 : f32", "%x.f = arith.mulf %x.square, %x.w0 : f32"),
    0.5: _FUNCTIONS[aten.sqrt.default],
    -0.5: _FUNCTIONS[aten.rsqrt.default],
    -1.0: _FUNCTIONS[aten.reciprocal.default],
}
#: Of ``aten.gelu``, by ``approximate``.
_GELU = {
    "none": (
        f"%x.root = arith.constant {math.sqrt(0.5):.9e} : f32",
        "%x.scaled = arith.mulf %x.w0, %x.root : f32",
        "%x.erf = math.erf %x.scaled : f32",
    ),
    "tanh": (
        f"%x.root = arith.constant {math.sqrt(2 / math.pi):.9e} : f32",
        "%x.cubic = arith.constant 4.4715e-02 : f32",
        "%x.square = arith.mulf %x.w0, %x.w0 : f32",
        "%x.cube = arith.mulf %x.square, %x.w0 : f32",
        "%x.part = arith.mulf %x.cube, %x.cubic : f32",
        "%x.inner = arith.addf %x.w0, %x.part : f32",
        "%x.scaled = arith.mulf %x.inner, %x.root : f32",
        "%x.erf = math.tanh %x.scaled : f32",
    ),
}
_HALF_OF_GELU = (
    "%x.one = arith.constant 1.0 : f32",
    "%x.half = arith.constant 0.5 : f32",
    "%x.raised = arith.addf %x.erf, %x.one : f32",
    "%x.halved = arith.mulf %x.w0, %x.half : f32",
    "%x.f = arith.mulf %x.halved, %x.raised : f32",
)
#: Reductions, their initial values, and whether the result is divided by the number of elements.
_REDUCTIONS: Dict[Any, Tuple[str, float, bool]] = {
    aten.sum.default: ("arith.addf", 0.0, False),
    aten.sum.dim_IntList: ("arith.addf", 0.0, False),
    aten.mean.default: ("arith.addf", 0.0, True),
    aten.mean.dim: ("arith.addf", 0.0, True),
    aten.amax.default: ("arith.maximumf", -math.inf, False),
    aten.amin.default: ("arith.minimumf", math.inf, False),
}
_EXPANDS = (aten.expand.default, aten.expand_as.default)
_SPLITS = (aten.split.Tensor, aten.split_with_sizes.default, aten.chunk.default, aten.unbind.int)


def bind(node: Node) -> Dict[str, Any]:
    """The arguments of an operator by name, with defaults."""
    arguments = node.target._schema.arguments  # type: ignore[union-attr]
    defaults = {argument.name: argument.default_value for argument in arguments if argument.has_default_value()}
    given = dict(zip((argument.name for argument in arguments), node.args))
    return {**defaults, **given, **node.kwargs}


def _meta(node: Any) -> Tensor:
    return node.meta["val"]


class FunctionLowering(LinalgBuilder):
    """Writes operations for nodes of a graph, whose values are ``values``, or parts of their values ``parts``."""

    def __init__(self) -> None:
        super().__init__()
        self.values: Dict[Node, Value] = {}
        self.parts: Dict[Tuple[Node, int], Value] = {}
        self._writers: Dict[Any, Callable[[Node], None]] = {
            aten.gelu.default: self._gelu,
            aten.pow.Tensor_Scalar: self._power,
            aten.rsub.Scalar: self._subtract_from_number,
            aten.rms_norm.default: self._normalize,
            aten.layer_norm.default: self._normalize,
            aten.cat.default: self._concatenate,
            aten.embedding.default: self._embed,
            aten.dropout.default: self._dropout,
            **dict.fromkeys(_EXPANDS, self._expand),
            aten.slice.Tensor: self._slice,
            aten.narrow.default: self._narrow,
            aten.select.int: self._select,
            aten.clamp.default: self._clamp,
            **dict.fromkeys(_FUNCTIONS, self._function),
            **dict.fromkeys(_REDUCTIONS, self._reduce),
            **dict.fromkeys(_SPLITS, self._split),
            **dict.fromkeys(_ARITHMETIC, self._arithmetic),
        }

    def write_function(self, node: Node) -> bool:
        """Writes what a node of this module computes. Returns whether it is one."""
        writer = self._writers.get(node.target)
        if writer is None:
            return False
        for operand in node.all_input_nodes:
            is_tensor = isinstance(_meta(operand), Tensor)
            if is_tensor and operand not in self.values:
                raise UnsupportedError(self.refusal(node))
            if not is_tensor and node.target not in _EXPANDS:
                raise UnsupportedError(self.refusal(node, "a size that varies as an argument"))
        writer(node)
        return True

    def refusal(self, node: Node, why: str = "") -> str:
        if why:
            return f"{node.name} ({node.target}) has {why}, which Attn does not compile here"
        return (
            f"the graph has the operation {node.target} ({node.name}), which Attn does not compile here; pass a "
            "function of attention, linear layers, normalizations, quantizations, arithmetic, functions of elements, "
            "casts and views, or package the model with AOTInductor, which keeps Attn's kernels"
        )

    # Functions of elements

    def _check_floats(self, node: Node, *operands: Any) -> None:
        for operand in operands:
            if isinstance(operand, Node) and _meta(operand).dtype not in _WIDE:
                raise UnsupportedError(self.refusal(node, f"an operand of {_meta(operand).dtype}"))
        if _meta(node).dtype not in _WIDE:
            raise UnsupportedError(self.refusal(node, f"a result of {_meta(node).dtype}"))

    def _map_wide(self, node: Node, source: Node, body: Sequence[str]) -> None:
        """Elements of ``source``, each by itself, from ``%x.w0`` to ``%x.f`` in f32."""
        self._check_floats(node, source)
        value, kind = self.values[source], type_of(_meta(node))
        maps = self.broadcast([value], [_meta(source).dim()], kind)
        self.values[node] = self._loop_wide([value], maps, kind, body)

    def _function(self, node: Node) -> None:
        self._map_wide(node, node.args[0], _FUNCTIONS[node.target])  # type: ignore[arg-type]

    def _gelu(self, node: Node) -> None:
        given = bind(node)
        self._map_wide(node, given["self"], [*_GELU[given["approximate"]], *_HALF_OF_GELU])

    def _power(self, node: Node) -> None:
        exponent = node.args[1]
        if not isinstance(exponent, numbers.Real) or float(exponent) not in _POWERS:
            allowed = ", ".join(map(str, sorted(_POWERS)))
            raise UnsupportedError(self.refusal(node, f"the exponent {exponent}, none of {allowed}"))
        self._map_wide(node, node.args[0], _POWERS[float(exponent)])  # type: ignore[arg-type]

    def _subtract_from_number(self, node: Node) -> None:
        given = bind(node)
        if given["alpha"] != 1:
            raise UnsupportedError(self.refusal(node, f"alpha = {given['alpha']}"))
        number = write_number(given["other"], torch.float32)
        body = [f"%x.number = arith.constant {number} : f32", "%x.f = arith.subf %x.number, %x.w0 : f32"]
        self._map_wide(node, given["self"], body)

    def _arithmetic(self, node: Node) -> None:
        """Two tensors that broadcast, or a tensor and a number on the right-hand side."""
        given = bind(node)
        if given.get("alpha", 1) != 1:
            raise UnsupportedError(self.refusal(node, f"alpha = {given['alpha']}"))
        left, right = given["self"], given["other"]
        self._check_floats(node, left, right)
        if not isinstance(left, Node) or not isinstance(right, (Node, numbers.Real)):
            raise UnsupportedError(self.refusal(node))
        operation = _ARITHMETIC[node.target]
        if not isinstance(right, Node):
            number = write_number(right, torch.float32)
            body = [f"%x.number = arith.constant {number} : f32", f"%x.f = {operation} %x.w0, %x.number : f32"]
            return self._map_wide(node, left, body)
        operands = [self.values[operand] for operand in (left, right)]
        ranks = [_meta(operand).dim() for operand in (left, right)]
        kind = type_of(_meta(node))
        if all(element_of(operand.type) == element_of(kind) for operand in operands):
            self.values[node] = self.combine(operation, operands, ranks, kind)
        else:
            body = [f"%x.f = {operation} %x.w0, %x.w1 : f32"]
            self.values[node] = self._loop_wide(operands, self.broadcast(operands, ranks, kind), kind, body)
        return None

    def _loop_wide(
        self, operands: Sequence[Value], maps: Sequence[Sequence[str]], kind: str, body: Sequence[str],
        result: str = "%x.f",
    ) -> Value:  # fmt: skip
        """Loops over elements of type ``kind``; ``body`` makes ``result`` of ``%x.w0``, ``%x.w1``, ..., in f32."""
        lines, result = _extend(operands, body, result)
        if (element := element_of(kind)) != "f32":
            lines, result = [*lines, f"%x.r = arith.truncf {result} : f32 to {element}"], "%x.r"
        return self.loops(operands, maps, kind, lines, result)

    # Casts and clamps

    @staticmethod
    def is_cast(node: Node, source: Node) -> bool:
        """Whether a node, a cast, converts floats to another dtype of at most 32 bits."""
        dtypes = (_meta(source).dtype, _meta(node).dtype)
        return all(dtype in (*_WIDE, *FLOAT8) for dtype in dtypes) and dtypes[0] != dtypes[1]

    def convert(self, node: Node, source: Node) -> None:
        """A cast. Numbers beyond the largest one of 8 bits saturate if this torch saturates them."""
        before, after = (DTYPES[element_types()[_meta(tensor).dtype]] for tensor in (source, node))
        wide, limit = "%x.0", _find_limit(_meta(node).dtype)
        body = []
        if before != "f32" and after != "f32":
            body.append(f"%x.wide = arith.extf %x.0 : {before} to f32")
            wide, before = "%x.wide", "f32"
        if limit is not None and before != "f32":
            raise UnsupportedError(self.refusal(node))
        if limit is not None:
            body += write_clamp(wide, "%x.kept", -limit, limit, torch.float32)
            wide = "%x.kept"
        operation = "arith.extf" if after == "f32" else "arith.truncf"
        body.append(f"%x.r = {operation} {wide} : {before} to {after}")
        self.values[node] = self.map(self.values[source], type_of(_meta(node)), body)

    def _clamp(self, node: Node) -> None:
        given = bind(node)
        bounds = [given["min"], given["max"]]
        if not all(bound is None or isinstance(bound, (int, float)) for bound in bounds):
            raise UnsupportedError(self.refusal(node))
        self._check_floats(node, given["self"])
        body = write_clamp("%x.0", "%x.r", bounds[0], bounds[1], _meta(node).dtype)
        self.values[node] = self.map(self.values[given["self"]], type_of(_meta(node)), body)

    # Reductions and normalizations

    def _reduce(self, node: Node) -> None:
        given = bind(node)
        source = given["self"]
        self._check_floats(node, source)
        rank, operation, initial, is_mean = _meta(source).dim(), *_REDUCTIONS[node.target]
        dims = sorted({dim % rank for dim in given.get("dim") or range(rank)}) if rank else []
        body = [f"%x.f = {operation} %x.old, %x.w0 : f32"]
        reduced = self._reduce_rows([self.values[source]], rank, dims, body, initial)
        kind = type_of(_meta(node))
        if is_mean:
            count = self._write_count(node, source, dims)
            body, result = [count, "%x.f = arith.divf %x.w0, %x.count : f32"], "%x.f"
        else:
            body, result = [], "%x.w0"
        if kind == reduced.type and not is_mean:
            self.values[node] = reduced
            return
        # Dimensions of size 1 may stand for the dimensions that are reduced.
        kept = [dim for dim in range(rank) if dim not in dims]
        places = kept if given.get("keepdim") else list(range(len(kept)))
        self.values[node] = self._loop_wide([reduced], [[f"d{place}" for place in places]], kind, body, result)

    def _write_count(self, node: Node, source: Node, dims: Sequence[int]) -> str:
        sizes = [_meta(source).shape[dim] for dim in dims]
        if not all(isinstance(size, int) for size in sizes):
            raise UnsupportedError(self.refusal(node, "a mean over a size that varies"))
        return f"%x.count = arith.constant {write_number(math.prod(sizes), torch.float32)} : f32"

    def _reduce_rows(
        self, operands: Sequence[Value], rank: int, dims: Sequence[int], body: Sequence[str], initial: float = 0.0
    ) -> Value:
        """Reduces elements of the first operand over ``dims``, in f32; other operands have the remaining dimensions.
        ``body`` makes ``%x.f`` of ``%x.old``, which is ``initial`` at first, and ``%x.w0``, ``%x.w1``, ...."""
        value = operands[0]
        kept = [dim for dim in range(rank) if dim not in dims]
        kind = f"tensor<{''.join(size_of(value, dim) + 'x' for dim in kept)}f32>"
        empty = self.empty(kind, [(value, dim) if size_of(value, dim) == "?" else None for dim in kept])
        number = self.emit(f"arith.constant {write_number(initial, torch.float32)} : f32", "f32")
        init = self.emit(f"linalg.fill ins({number.name} : f32) outs({empty.name} : {kind}) -> {kind}", kind)
        names, rows = ([f"d{dim}" for dim in numbers] for numbers in (range(rank), kept))
        maps = [names, *[rows] * (len(operands) - 1)]
        lines, result = _extend(operands, body, "%x.f")
        return self.generic(operands, maps, init, rows, names, lines, result)

    def _normalize(self, node: Node) -> None:
        """``rms_norm`` and ``layer_norm``, in f32 with one rounding."""
        given = bind(node)
        source, factors = given["input"], [(given["weight"], "arith.mulf"), (given.get("bias"), "arith.addf")]
        self._check_floats(node, source, *(factor for factor, _ in factors))
        value, rank = self.values[source], _meta(source).dim()
        dims = list(range(rank - len(given["normalized_shape"]), rank))
        rows = [f"d{dim}" for dim in range(rank - len(dims))]
        operands, maps = [value], [[f"d{dim}" for dim in range(rank)]]
        deviation, body = "%x.w0", [self._write_count(node, source, dims)]
        if node.target == aten.layer_norm.default:
            operands.append(self._reduce_rows([value], rank, dims, ["%x.f = arith.addf %x.old, %x.w0 : f32"]))
            maps.append(rows)
            body += ["%x.mean = arith.divf %x.w1, %x.count : f32", "%x.deviation = arith.subf %x.w0, %x.mean : f32"]
            deviation = "%x.deviation"
        square = f"%x.square = arith.mulf {deviation}, {deviation} : f32"
        squares = [*body, square, "%x.f = arith.addf %x.old, %x.square : f32"]
        operands.append(self._reduce_rows(operands, rank, dims, squares))
        maps.append(rows)
        eps = given["eps"] if given["eps"] is not None else torch.finfo(torch.float32).eps
        body += [
            f"%x.eps = arith.constant {write_number(eps, torch.float32)} : f32",
            f"%x.variance = arith.divf %x.w{len(operands) - 1}, %x.count : f32",
            "%x.raised = arith.addf %x.variance, %x.eps : f32",
            "%x.factor = math.rsqrt %x.raised : f32",
            f"%x.normal = arith.mulf {deviation}, %x.factor : f32",
        ]
        result = "%x.normal"
        for factor, operation in factors:
            if factor is not None:
                body.append(f"{result}.f = {operation} {result}, %x.w{len(operands)} : f32")
                result = f"{result}.f"
                operands.append(self.values[factor])
                maps.append([f"d{dim}" for dim in dims])
        self.values[node] = self._loop_wide(operands, maps, type_of(_meta(node)), body, result)

    # Parts

    def _embed(self, node: Node) -> None:
        """Rows of a matrix. Rows that it has not are NaN."""
        weight, ids = node.args[:2]
        self._check_floats(node, weight)
        matrix, numbers, kind = self.values[weight], self.values[ids], type_of(_meta(node))
        rank, element = _meta(node).dim(), element_of(matrix.type)
        nan = write_number(math.nan, _meta(node).dtype)
        body = [
            f"%x.column = linalg.index {rank - 1} : index",
            f"%x.number = arith.index_cast %x.0 : {element_of(numbers.type)} to index",
            f"%x.rows = arith.constant {self._read_size(node, weight, 0)} : index",
            "%x.first = arith.constant 0 : index",
            "%x.exists = arith.cmpi ult, %x.number, %x.rows : index",
            "%x.row = arith.select %x.exists, %x.number, %x.first : index",
            f"%x.nan = arith.constant {nan} : {element}",
            f"%x.read = tensor.extract {matrix.name}[%x.row, %x.column] : {matrix.type}",
            f"%x.r = arith.select %x.exists, %x.read, %x.nan : {element}",
        ]
        self.values[node] = self.loops([numbers], [[f"d{dim}" for dim in range(rank - 1)]], kind, body)

    def _dropout(self, node: Node) -> None:
        given = bind(node)
        if given["train"] and given["p"]:
            raise UnsupportedError(f"{node.name} has dropout; call .eval() on the module, or pass dropout_p=0")
        self.values[node] = self.values[given["input"]]

    def _find_size(self, node: Node, size: Any) -> Tuple[Value, int]:
        """A value, and its dimension, of a size that varies."""
        for other, value in self.values.items():
            for dim, found in enumerate(_meta(other).shape):
                if str(found) == str(size):
                    return value, dim
        raise UnsupportedError(self.refusal(node, "a size that no tensor has"))

    def _expand(self, node: Node) -> None:
        value, kind = self.values[node.args[0]], type_of(_meta(node))
        maps = self.broadcast([value], [_meta(node.args[0]).dim()], kind)
        sizes = {
            dim: self._find_size(node, size) for dim, size in enumerate(_meta(node).shape) if not isinstance(size, int)
        }
        self.values[node] = self.loops([value], maps, kind, [], "%x.0", sizes)

    def _extract_slice(self, value: Value, dim: int, first: int, size: int, step: int = 1) -> Value:
        """So many elements of a dimension."""
        rank = value.type.count("x")
        sizes = [size_of(value, number) for number in range(rank)]
        sizes[dim] = str(size)
        if size == 0:
            return self._write_empty(value, sizes)
        kind = f"tensor<{''.join(text + 'x' for text in sizes)}{element_of(value.type)}>"
        taken = [self.size(value, number) if text == "?" else text for number, text in enumerate(sizes)]
        offsets, steps = ["0"] * rank, ["1"] * rank
        offsets[dim], steps[dim] = str(first), str(step)
        at = "".join(f"[{', '.join(numbers)}]" for numbers in (offsets, taken, steps))
        return self.emit(f"tensor.extract_slice {value.name}{at} : {value.type} to {kind}", kind)

    def _write_empty(self, value: Value, sizes: Sequence[str]) -> Value:
        """A tensor without elements, with the sizes of ``value`` that vary."""
        kind = f"tensor<{''.join(text + 'x' for text in sizes)}{element_of(value.type)}>"
        return self.empty(kind, [(value, number) if text == "?" else None for number, text in enumerate(sizes)])

    def _read_size(self, node: Node, source: Node, dim: int) -> int:
        size = _meta(source).shape[dim]
        if not isinstance(size, int):
            raise UnsupportedError(self.refusal(node, "parts of a size that varies"))
        return size

    def _slice(self, node: Node) -> None:
        given = bind(node)
        source, step = given["self"], given["step"]
        dim = given["dim"] % _meta(source).dim()
        if step == 1 and not given["start"] and str(_meta(node).shape) == str(_meta(source).shape):
            self.values[node] = self.values[source]
            return
        size = self._read_size(node, source, dim)
        first = given["start"] or 0
        first = min(max(first + size if first < 0 else first, 0), size)
        self.values[node] = self._extract_slice(self.values[source], dim, first, _meta(node).shape[dim], step)

    def _narrow(self, node: Node) -> None:
        given = bind(node)
        source = given["self"]
        dim = given["dim"] % _meta(source).dim()
        first = given["start"] % max(self._read_size(node, source, dim), 1)
        self.values[node] = self._extract_slice(self.values[source], dim, first, given["length"])

    def _squeeze(self, value: Value, dim: int) -> Value:
        """A view without a dimension of size 1."""
        rank = value.type.count("x")
        groups: List[Tuple[List[int], List[int]]] = [([number], [number]) for number in range(dim)]
        groups += [([number], [number - 1]) for number in range(dim + 1, rank)]
        if groups:
            groups[max(dim - 1, 0)][0].append(dim)
            groups[max(dim - 1, 0)][0].sort()
        shape = [size_of(value, number) for number in range(rank) if number != dim]
        if groups:
            return self.regroup(value, groups, shape)
        kind = f"tensor<{element_of(value.type)}>"
        return self.emit(f"tensor.collapse_shape {value.name} [] : {value.type} into {kind}", kind)

    def _select(self, node: Node) -> None:
        given = bind(node)
        source = given["self"]
        dim = given["dim"] % _meta(source).dim()
        size = self._read_size(node, source, dim)
        if not isinstance(given["index"], int):
            raise UnsupportedError(self.refusal(node, "an index that varies"))
        self.values[node] = self._squeeze(self._extract_slice(self.values[source], dim, given["index"] % size, 1), dim)

    def _split(self, node: Node) -> None:
        given = bind(node)
        source = given["self"]
        dim = given.get("dim", 0) % _meta(source).dim()
        self._read_size(node, source, dim)
        first = 0
        for number, part in enumerate(node.meta["val"]):
            size = 1 if node.target == aten.unbind.int else part.shape[dim]
            value = self._extract_slice(self.values[source], dim, first, size)
            self.parts[node, number] = self._squeeze(value, dim) if node.target == aten.unbind.int else value
            first += size

    def _concatenate(self, node: Node) -> None:
        given = bind(node)
        # An empty tensor of one dimension takes no part.
        sources = [source for source in given["tensors"] if list(_meta(source).shape) != [0]]
        rank = _meta(node).dim()
        dim, kind = given["dim"] % rank, type_of(_meta(node))
        if not sources or any(_meta(source).dtype != _meta(node).dtype for source in sources):
            raise UnsupportedError(self.refusal(node, "tensors of several dtypes"))
        sizes = [self._read_size(node, source, dim) for source in sources]
        value = self.values[sources[0]]
        whole = self.empty(kind, [(value, number) if size_of(value, number) == "?" else None for number in range(rank)])
        for place, (source, size) in enumerate(zip(sources, sizes)):
            part = self.values[source]
            taken = [
                self.size(value, number) if text == "?" else text
                for number, text in enumerate(size_of(part, number) for number in range(rank))
            ]
            offsets = ["0"] * rank
            offsets[dim] = str(sum(sizes[:place]))
            at = "".join(f"[{', '.join(numbers)}]" for numbers in (offsets, taken, ["1"] * rank))
            whole = self.emit(f"tensor.insert_slice {part.name} into {whole.name}{at} : {part.type} into {kind}", kind)
        self.values[node] = whole


def _extend(operands: Sequence[Value], body: Sequence[str], result: str) -> Tuple[List[str], str]:
    """``body``, which reads elements of the operands in f32 as ``%x.w0``, ``%x.w1``, ..., behind their extensions; and
    the name of its result."""
    lines, text = [], "\n".join([*body, result])
    for number, operand in enumerate(operands):
        element = element_of(operand.type)
        if element == "f32":
            text = re.sub(rf"%x\.w{number}\b", f"%x.{number}", text)
        else:
            lines.append(f"%x.w{number} = arith.extf %x.{number} : {element} to f32")
    *body, result = text.split("\n")
    return [*lines, *body], result


@functools.lru_cache(maxsize=None)
def _find_limit(dtype: torch.dtype) -> Optional[float]:
    """The largest number of 8 bits, if casts of this torch give it instead of infinity or NaN."""
    if dtype not in FLOAT8:
        return None
    limit = torch.finfo(dtype).max
    return limit if torch.tensor(4 * limit).to(dtype).float() == limit else None
