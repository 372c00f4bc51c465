# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions of torch as modules of MLIR, for ``attn.aot``.

A graph of ``torch.export`` becomes one function. Its attention calls functions of ``attn.Attention``, which the
compiler inlines, and so do quantizations, of ``attn.Quantize``. Linear layers, ``torch._scaled_mm``, additions,
multiplications, divisions, clamps and casts of floats become operations of ``linalg``, and permutations and reshapes
views. Nothing else is lowered.
"""

import dataclasses
import functools
import inspect
import math
import operator
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor
from torch.fx import Node

from attn.aot import _DEFAULT_SIZE, Lowered, Shape, check_shape
from attn.artifact import DTYPES, element_types
from attn.errors import AttnError, UnsupportedError, WrongTypeError
from attn.torch.graph_writes import CHECKS
from attn.torch.importer import _CASTS, _COPIES, _EXPANDS, _VIEWS, _get_order, _Importer
from attn.torch.kernels import FLOAT8, describe_attention
from attn.torch.ops import read_variant
from attn.torch.quantize import _describe, _Options

aten = torch.ops.aten

_ELEMENTWISE = {
    aten.add.Tensor: "arith.addf",
    aten.sub.Tensor: "arith.subf",
    aten.mul.Tensor: "arith.mulf",
    aten.div.Tensor: "arith.divf",
}
_TRANSPOSITIONS = (aten.permute.default, aten.transpose.int, aten.mT.default, aten.t.default, aten.numpy_T.default)
_RESHAPES = (*_VIEWS, aten.squeeze.dim, aten.squeeze.default)
_SAME = (*_COPIES, aten.to.dtype, aten._to_copy.default, *_EXPANDS, *_VIEWS)


class _Value(NamedTuple):
    """A value of MLIR and its type."""

    name: str
    type: str


def _sizes(tensor: Tensor) -> Tuple[str, ...]:
    return tuple(str(size) if isinstance(size, int) else "?" for size in tensor.shape)


def _type(tensor: Tensor) -> str:
    return f"tensor<{''.join(size + 'x' for size in _sizes(tensor))}{DTYPES[element_types()[tensor.dtype]]}>"


def _signature(text: str) -> Tuple[List[str], List[str]]:
    """The types of the arguments and results of the function in the module of ``attn.Attention``."""
    found = re.match(r"func\.func @\w+\((.*)\)\s*-> \((.*)\) \{", text)
    assert found is not None, text
    arguments, results = (re.findall(r"tensor<[^>]*>", part) for part in found.groups())
    return arguments, results


class _Lowering:
    def __init__(self, module: torch.fx.GraphModule, name: str, names: Sequence[str]):
        self.module = module
        self.name = name
        self.names = list(names)
        self.functions: List[str] = []
        self.lines: List[str] = []
        self.arguments: List[_Value] = []
        #: Names of the arguments that are inputs of the graph.
        self.inputs: List[str] = []
        self.values: Dict[Node, _Value] = {}
        self.parts: Dict[Tuple[Node, int], _Value] = {}
        #: Arguments for tensors of the module, and the tensors by names of the arguments.
        self.owned: Dict[str, _Value] = {}
        self.data: Dict[str, Tensor] = {}
        self.count = 0

    def emit(self, operation: str, kind: str) -> _Value:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {operation}")
        return _Value(f"%v{self.count}", kind)

    def cast(self, value: _Value, kind: str) -> str:
        """The value as this type, which may know other sizes."""
        if value.type == kind:
            return value.name
        return self.emit(f"tensor.cast {value.name} : {value.type} to {kind}", kind).name

    def size(self, value: _Value, dim: int) -> str:
        number = self.emit(f"arith.constant {dim} : index", "index")
        return self.emit(f"tensor.dim {value.name}, {number.name} : {value.type}", "index").name

    def argument(self, wanted: str, kind: str) -> _Value:
        """A new argument, whose name is an identifier."""
        name = re.sub(r"\W", "_", wanted)
        name = name if re.match(r"[A-Za-z]", name) else f"arg_{name}"
        while any(argument.name == f"%{name}" for argument in self.arguments):
            name += "_"
        self.arguments.append(_Value(f"%{name}", kind))
        return self.arguments[-1]

    # Nodes

    def attention(self, node: Node) -> None:
        tensors, rng, variant, *numbers = node.args
        query, key, value, *captures = (tensor.meta["val"] for tensor in tensors)
        kind, mode = read_variant(variant, len(captures))
        kind = kind._replace(**dict(zip(("scale", "dropout_p"), numbers)))
        if kind.dropout_p or rng is not None:
            raise UnsupportedError(f"{node.name} has dropout; call .eval() on the module, or pass dropout_p=0")
        description = describe_attention(kind, mode.with_lse, query, key, value, captures)
        sizes = {"batch": query.shape[0], "queries": query.shape[2], "keys": key.shape[2]}
        known = {name: size for name, size in sizes.items() if isinstance(size, int)}
        if kind.sequences == "packed":
            known["batch"] = 1
        text = dataclasses.replace(description, **known).mlir()
        self.call_function(node, text, description.NAME, tensors)

    def quantize(self, node: Node) -> None:
        """``attn.torch.quantize``, with a given scale or its own."""
        given = _bind(node)
        x, scale, signs = (given.get(name) for name in ("x", "scale", "signs"))
        numbers = [given[name] for name in ("dtype", "granularity", "block_size")]
        of_scale, of_signs = (None if value is None else value.meta["val"] for value in (scale, signs))
        description = _describe(x.meta["val"], of_scale, _Options(*numbers, of_signs, given["saturate"]))
        operands = [value for value in (x, scale, signs) if value is not None]
        self.call_function(node, description.mlir(), description.NAME, operands)

    def call_function(self, node: Node, text: str, function: str, tensors: Sequence[Node]) -> None:
        """A call of the function of a module, whose results are parts of the node."""
        types, results = _signature(text)
        name = f"{self.name}_{len(self.functions)}"
        self.functions.append(text.replace(f"func.func @{function}(", f"func.func private @{name}("))
        operands = [self.cast(self.values[tensor], kind) for tensor, kind in zip(tensors, types)]
        self.count += 1
        self.lines.append(
            f"  %v{self.count}:{len(results)} = func.call @{name}({', '.join(operands)})\n"
            f"      : ({', '.join(types)}) -> ({', '.join(results)})"
        )
        for number, kind_of_result in enumerate(results):
            self.parts[node, number] = _Value(f"%v{self.count}#{number}", kind_of_result)

    def permute(self, node: Node) -> None:
        source = self.values[node.args[0]]
        order = _get_order(node, node.args[0].meta["val"].dim())
        varying = ", ".join(self.size(source, dim) for dim in order if _size_of(source, dim) == "?")
        sizes = "".join(f"{_size_of(source, dim)}x" for dim in order)
        kind = f"tensor<{sizes}{source.type.rpartition('x')[2]}"
        empty = self.emit(f"tensor.empty({varying}) : {kind}", kind)
        self.values[node] = self.emit(
            f"linalg.transpose ins({source.name} : {source.type}) outs({empty.name} : {kind}) "
            f"permutation = [{', '.join(map(str, order))}]",
            kind,
        )

    def unsqueeze(self, node: Node) -> None:
        source = self.values[node.args[0]]
        sizes = [_size_of(source, dim) for dim in range(node.args[0].meta["val"].dim())]
        if not sizes:
            raise UnsupportedError(f"{node.name} adds a dimension to a tensor without any")
        place = node.args[1] % (len(sizes) + 1)
        groups = [[dim] if dim < place else [dim + 1] for dim in range(len(sizes))]
        groups[min(place, len(sizes) - 1)] = [place, place + 1] if place < len(sizes) else [place - 1, place]
        results = [*sizes[:place], "1", *sizes[place:]]
        dims = [dim for dim in range(len(results)) if dim != place]
        shape = [
            "1" if dim == place else size if size != "?" else self.size(source, dims.index(dim))
            for dim, size in enumerate(results)
        ]
        kind = f"tensor<{''.join(size + 'x' for size in results)}{source.type.rpartition('x')[2]}"
        self.values[node] = self.emit(
            f"tensor.expand_shape {source.name} {groups} output_shape [{', '.join(shape)}] : {source.type} into {kind}",
            kind,
        )

    def empty(self, kind: str, sources: Sequence[Optional[Tuple[_Value, int]]]) -> _Value:
        """An empty tensor; ``sources`` has a value and its dimension of the same size for each size that varies."""
        varying = ", ".join(self.size(*source) for source in sources if source is not None)
        return self.emit(f"tensor.empty({varying}) : {kind}", kind)

    def regroup(self, value: _Value, groups: Sequence[Tuple[List[int], List[int]]], shape: Sequence[str]) -> _Value:
        """A view of ``value`` with this shape: each group of its dimensions becomes a group of dimensions."""
        element = value.type[:-1].rpartition("x")[2]
        before = [_size_of(value, dim) for sources, _ in groups for dim in sources]
        merged = [_merged([_size_of(value, dim) for dim in sources]) for sources, _ in groups]
        if len(merged) != len(before):
            kind = f"tensor<{''.join(size + 'x' for size in merged)}{element}>"
            dims = [sources for sources, _ in groups]
            value = self.emit(f"tensor.collapse_shape {value.name} {dims} : {value.type} into {kind}", kind)
        if len(merged) != len(shape):
            kind = f"tensor<{''.join(size + 'x' for size in shape)}{element}>"
            sizes = list(shape)
            for number, (_, targets) in enumerate(groups):
                for dim in targets:
                    sizes[dim] = self.size(value, number) if shape[dim] == "?" else shape[dim]
            dims = [targets for _, targets in groups]
            value = self.emit(
                f"tensor.expand_shape {value.name} {dims} output_shape [{', '.join(sizes)}] : {value.type} into {kind}",
                kind,
            )
        return value

    def reshape(self, node: Node) -> None:
        before, after = list(node.args[0].meta["val"].shape), list(node.meta["val"].shape)
        groups: List[Tuple[List[int], List[int]]] = []
        i = j = 0
        while i < len(before) and j < len(after):
            sources, targets = [i], [j]
            if str(before[i]) != str(after[j]):
                while not _is_equal(before, sources, after, targets):
                    grown, dims, limit = (sources, i, len(before)) if _is_less(before, sources, after, targets) else (
                        targets, j, len(after)
                    )  # fmt: skip
                    if dims + len(grown) >= limit:
                        raise UnsupportedError(self.refusal(node))
                    grown.append(dims + len(grown))
            groups.append((sources, targets))
            i, j = sources[-1] + 1, targets[-1] + 1
        if not groups:
            raise UnsupportedError(self.refusal(node))
        # Sizes of 1 at the end.
        groups[-1][0].extend(range(i, len(before)))
        groups[-1][1].extend(range(j, len(after)))
        if any(size != 1 for size in (*before[i:], *after[j:])):
            raise UnsupportedError(self.refusal(node))
        self.values[node] = self.regroup(self.values[node.args[0]], groups, _sizes(node.meta["val"]))

    def linear(self, node: Node) -> None:
        source, weight = self.values[node.args[0]], self.values[node.args[1]]
        shape = _sizes(node.args[0].meta["val"])
        features, width = _sizes(node.args[1].meta["val"])
        last = len(shape) - 1
        if shape[:-1].count("?") > 1 or not last:
            raise UnsupportedError(f"{node.name} has more than one size that varies before the last; give it one size")
        element = weight.type[:-1].rpartition("x")[2]
        leading = list(range(last))
        rows = self.regroup(source, [(leading, [0]), ([last], [1])], (_merged(shape[:-1]), width))
        kind = f"tensor<{_size_of(rows, 0)}x{features}x{element}>"
        empty = self.empty(kind, [(rows, 0) if _size_of(rows, 0) == "?" else None])
        zero = self.emit(f"arith.constant 0.0 : {element}", element)
        init = self.emit(f"linalg.fill ins({zero.name} : {element}) outs({empty.name} : {kind}) -> {kind}", kind)
        maps = ", ".join(f"affine_map<(i, j, k) -> ({dims})>" for dims in ("i, k", "j, k", "i, j"))
        out = self.emit(
            f"linalg.matmul indexing_maps = [{maps}] ins({rows.name}, {weight.name} : {rows.type}, {weight.type}) "
            f"outs({init.name} : {kind}) -> {kind}",
            kind,
        )
        if len(node.args) > 2 and node.args[2] is not None:
            bias = self.values[node.args[2]]
            out = self.combine("arith.addf", [out, bias], [2, 1], kind)
        self.values[node] = self.regroup(out, [([0], leading), ([1], [last])], _sizes(node.meta["val"]))

    def combine(self, operation: str, operands: Sequence[_Value], ranks: Sequence[int], kind: str) -> _Value:
        """Elements of tensors that broadcast to the type ``kind``."""
        rank = kind.count("x")
        names = [f"d{dim}" for dim in range(rank)]
        sources: List[Optional[Tuple[_Value, int]]] = [None] * rank
        maps: List[List[str]] = []
        for operand, own in zip(operands, ranks):
            dims = []
            for dim in range(own):
                place = rank - own + dim
                size = _size_of(operand, dim)
                dims.append("0" if size == "1" and _size_of(_Value("", kind), place) != "1" else names[place])
                if size == "?":
                    sources[place] = (operand, dim)
            maps.append(dims)
        element = kind[:-1].rpartition("x")[2].rpartition("<")[2]
        body = [f"%x.r = {operation} %x.0, %x.1 : {element}"]
        return self.loops(operands, maps, kind, sources, body)

    def loops(
        self,
        operands: Sequence[_Value],
        maps: Sequence[Sequence[str]],
        kind: str,
        sources: Sequence[Optional[Tuple[_Value, int]]],
        body: Sequence[str],
        result: str = "%x.r",
    ) -> _Value:
        """Loops over the elements of a tensor of type ``kind``, whose dimensions are ``d0``, ``d1``, .... ``body``
        makes ``result`` of elements ``%x.0``, ``%x.1``, ... of the operands, which are read as ``maps`` say."""
        rank = kind.count("x")
        names = [f"d{dim}" for dim in range(rank)]
        empty = self.empty(kind, sources)
        element = kind[:-1].rpartition("x")[2].rpartition("<")[2]
        texts = ", ".join(f"affine_map<({', '.join(names)}) -> ({', '.join(dims)})>" for dims in (*maps, names))
        iterators = ", ".join(['"parallel"'] * rank)
        elements = [operand.type[:-1].rpartition("x")[2].rpartition("<")[2] for operand in operands]
        arguments = "".join(f"%x.{number}: {text}, " for number, text in enumerate(elements))
        lines = "".join(f"      {line}\n" for line in body)
        return self.emit(
            f"linalg.generic {{indexing_maps = [{texts}], iterator_types = [{iterators}]}}\n"
            f"      ins({', '.join(operand.name for operand in operands)} : "
            f"{', '.join(operand.type for operand in operands)}) outs({empty.name} : {kind}) {{\n"
            f"    ^bb0({arguments}%x.old: {element}):\n{lines}      linalg.yield {result} : {element}\n  }} -> {kind}",
            kind,
        )

    def map(self, node: Node, source: Node, body: Sequence[str]) -> None:
        """The elements of one tensor, each by itself."""
        value, kind = self.values[source], _type(node.meta["val"])
        rank = kind.count("x")
        sources = [(value, dim) if _size_of(value, dim) == "?" else None for dim in range(rank)]
        self.values[node] = self.loops([value], [[f"d{dim}" for dim in range(rank)]], kind, sources, body)

    def convert(self, node: Node, source: Node) -> None:
        """A cast. Numbers beyond the largest one of 8 bits saturate if this torch saturates them."""
        before, after = (DTYPES[element_types()[tensor.meta["val"].dtype]] for tensor in (source, node))
        wide, limit = "%x.0", _find_limit(node.meta["val"].dtype)
        body = []
        if before != "f32" and after != "f32":
            body.append(f"%x.wide = arith.extf %x.0 : {before} to f32")
            wide, before = "%x.wide", "f32"
        if limit is not None and before != "f32":
            raise UnsupportedError(self.refusal(node))
        if limit is not None:
            body += _write_clamp(wide, "%x.kept", -limit, limit, torch.float32)
            wide = "%x.kept"
        operation = "arith.extf" if after == "f32" else "arith.truncf"
        body.append(f"%x.r = {operation} {wide} : {before} to {after}")
        self.map(node, source, body)

    def clamp(self, node: Node, source: Node) -> None:
        low, high = (*node.args[1:], None, None)[:2]
        self.map(node, source, _write_clamp("%x.0", "%x.r", low, high, node.meta["val"].dtype))

    def is_clamp(self, node: Node, source: Optional[Node]) -> bool:
        """Whether a node clamps floats to numbers."""
        if node.target != aten.clamp.default or source not in self.values or node.kwargs:
            return False
        bounds = [bound for bound in node.args[1:] if bound is not None]
        dtype = node.meta["val"].dtype
        is_wide = dtype in (torch.bfloat16, torch.float16, torch.float32)
        return bool(bounds) and is_wide and all(isinstance(bound, (int, float)) for bound in bounds)

    @staticmethod
    def is_cast(node: Node, source: Optional[Node]) -> bool:
        """Whether a node converts floats to another dtype of at most 32 bits, and does nothing else."""
        if node.target not in _CASTS or source is None:
            return False
        dtypes = (source.meta["val"].dtype, node.meta["val"].dtype)
        allowed = (torch.bfloat16, torch.float16, torch.float32, *FLOAT8)
        return all(dtype in allowed for dtype in dtypes) and dtypes[0] != dtypes[1]

    def scaled_matmul(self, node: Node) -> None:
        """``torch._scaled_mm`` with one scale of each matrix, or of each row of the first and column of the second."""
        given = _bind(node)
        a, b = given["self"], given["mat2"]
        out = node.meta["val"]
        rows, columns = out.shape
        if given.get("scale_result") is not None or out.dtype in FLOAT8:
            raise UnsupportedError(
                f"{node.name} has a result of {out.dtype}, which kernels do not round; pass out_dtype=torch.bfloat16"
                " and no scale_result"
            )
        # A transposed matrix is read where it is.
        is_matrix = b.target in _TRANSPOSITIONS and b.args[0] in self.values and b.args[0].meta["val"].dim() == 2
        transposed = is_matrix and list(_get_order(b, 2)) == [1, 0]
        left, right = self.values[a], self.values[b.args[0] if transposed else b]
        sources: List[Optional[Tuple[_Value, int]]] = [
            (left, 0) if _size_of(left, 0) == "?" else None,
            (right, 0 if transposed else 1) if _size_of(right, 0 if transposed else 1) == "?" else None,
        ]
        sizes = "".join(f"{size}x" for size in _sizes(out))
        wide = f"tensor<{sizes}f32>"
        zero = self.emit("arith.constant 0.0 : f32", "f32")
        empty = self.empty(wide, sources)
        init = self.emit(f"linalg.fill ins({zero.name} : f32) outs({empty.name} : {wide}) -> {wide}", wide)
        maps = ("i, k", "j, k" if transposed else "k, j", "i, j")
        texts = ", ".join(f"affine_map<(i, j, k) -> ({dims})>" for dims in maps)
        sums = self.emit(
            f"linalg.matmul indexing_maps = [{texts}] ins({left.name}, {right.name} : {left.type}, {right.type}) "
            f"outs({init.name} : {wide}) -> {wide}",
            wide,
        )
        operands, reads = [sums], [["d0", "d1"]]
        body, last = [], "%x.0"
        for name, by in (("scale_a", [rows, 1]), ("scale_b", [1, columns])):
            scale = given[name].meta["val"]
            if scale.dtype != torch.float32 or (scale.numel() != 1 and list(scale.shape) != by):
                raise UnsupportedError(
                    f"{node.name} has {name} of {scale.dtype} and the shape {tuple(scale.shape)}, expected "
                    f"torch.float32 and one number, or {tuple(by)}"
                )
            dims = ["d0", "0"] if name == "scale_a" else ["0", "d1"]
            reads.append(dims if scale.dim() == 2 and scale.numel() != 1 else ["0"] * scale.dim())
            operands.append(self.values[given[name]])
            body.append(f"%x.s{len(body)} = arith.mulf {last}, %x.{len(operands) - 1} : f32")
            last = f"%x.s{len(body) - 1}"
        if given.get("bias") is not None:
            bias = self.values[given["bias"]]
            element = bias.type[:-1].rpartition("x")[2]
            operands.append(bias)
            reads.append(["d1"])
            added = "%x.3"
            if element != "f32":
                body.append(f"%x.bias = arith.extf %x.3 : {element} to f32")
                added = "%x.bias"
            body.append(f"%x.sum = arith.addf {last}, {added} : f32")
            last = "%x.sum"
        kind = _type(out)
        element = kind[:-1].rpartition("x")[2]
        if element != "f32":
            body.append(f"%x.r = arith.truncf {last} : f32 to {element}")
            last = "%x.r"
        self.values[node] = self.loops(operands, reads, kind, sources, body, last)

    def elementwise(self, node: Node) -> None:
        tensors = [argument.meta["val"] for argument in node.args]
        self.values[node] = self.combine(
            _ELEMENTWISE[node.target],
            [self.values[argument] for argument in node.args],
            [tensor.dim() for tensor in tensors],
            _type(node.meta["val"]),
        )

    def with_number(self, node: Node, source: Node) -> None:
        """A number on the right-hand side. Torch computes in f32, and rounds the result alone, but hosts add rounded
        numbers."""
        element = DTYPES[element_types()[node.meta["val"].dtype]]
        number = _write_number(node.args[1], torch.float32)
        body = [f"%x.number = arith.constant {number} : f32"]
        if element == "f32":
            body.append(f"%x.r = {_ELEMENTWISE[node.target]} %x.0, %x.number : f32")
        else:
            body.append(f"%x.wide = arith.extf %x.0 : {element} to f32")
            body.append(f"%x.exact = {_ELEMENTWISE[node.target]} %x.wide, %x.number : f32")
            body.append(f"%x.r = arith.truncf %x.exact : f32 to {element}")
        self.map(node, source, body)

    def has_number(self, node: Node, source: Optional[Node]) -> bool:
        """Whether a node combines a tensor of floats, of the dtype of the result, and a number."""
        if node.target not in _ELEMENTWISE or node.kwargs or len(node.args) != 2 or source not in self.values:
            return False
        dtypes = (source.meta["val"].dtype, node.meta["val"].dtype)
        is_wide = dtypes[0] == dtypes[1] and dtypes[0] in (torch.bfloat16, torch.float16, torch.float32)
        return is_wide and isinstance(node.args[1], (int, float))

    def is_elementwise(self, node: Node) -> bool:
        """Whether a node combines two tensors of the dtype of the result, which are floating-point numbers."""
        if node.target not in _ELEMENTWISE or node.kwargs or len(node.args) != 2:
            return False
        value = node.meta["val"]
        # Floats of 8 bits have conversions alone.
        return value.dtype.is_floating_point and value.dtype not in FLOAT8 and all(
            isinstance(argument, Node) and argument in self.values and argument.meta["val"].dtype == value.dtype
            for argument in node.args
        )

    def call(self, node: Node) -> None:
        target = node.target
        if target is torch.ops.attn.attention.default:
            return self.attention(node)
        if target in (torch.ops.attn.quantize.default, torch.ops.attn.quantize_with_scale.default):
            return self.quantize(node)
        source = node.args[0] if node.args and isinstance(node.args[0], Node) else None
        value = node.meta["val"]
        if target is operator.getitem and (source, node.args[1]) in self.parts:
            # The function may not know all sizes.
            kind = _type(value)
            self.values[node] = _Value(self.cast(self.parts[source, node.args[1]], kind), kind)  # type: ignore[index]
        elif target in _TRANSPOSITIONS:
            self.permute(node)
        elif target == aten.unsqueeze.default:
            self.unsqueeze(node)
        elif target in _SAME and source in self.values and self.is_same(source, node):
            self.values[node] = self.values[source]
        elif target in _RESHAPES and source in self.values:
            self.reshape(node)
        elif target == aten.linear.default and all(argument in self.values for argument in node.args if argument):
            self.linear(node)
        elif target == aten._scaled_mm.default:
            self.scaled_matmul(node)
        elif self.is_cast(node, source) and source in self.values:
            self.convert(node, source)
        elif self.is_clamp(node, source):
            self.clamp(node, source)
        elif self.has_number(node, source):
            self.with_number(node, source)
        elif self.is_elementwise(node):
            self.elementwise(node)
        else:
            raise UnsupportedError(self.refusal(node))

    @staticmethod
    def is_same(a: Any, b: Node) -> bool:
        """Whether two tensors have the same elements at the same places."""
        return a.meta["val"].shape == b.meta["val"].shape and a.meta["val"].dtype == b.meta["val"].dtype

    def refusal(self, node: Node) -> str:
        return (
            f"the graph has the operation {node.target} ({node.name}), which Attn does not compile here; pass a "
            "function that has attention, linear layers, quantizations, arithmetic, casts and views alone, or package "
            "the model with AOTInductor, which keeps Attn's kernels"
        )

    def run(self) -> str:
        """The module as text."""
        returned: List[_Value] = []
        inputs = iter(self.names)
        for node in self.module.graph.nodes:
            value = node.meta.get("val")
            if node.op == "placeholder":
                if not isinstance(value, Tensor):
                    raise UnsupportedError(f"the argument '{node.name}' is a {type(value).__name__}; pass tensors")
                self.values[node] = self.argument(next(inputs, node.name), _type(value))
                self.inputs.append(self.values[node].name[1:])
            elif node.op == "get_attr" and not node.users:
                continue
            elif node.op == "get_attr" and isinstance(constant := _attribute(self.module, node.target), Tensor):
                node.meta.setdefault("val", constant)
                owned = self.owned.get(str(node.target))
                if owned is None:
                    owned = self.owned[str(node.target)] = self.argument(str(node.target), _type(constant))
                    self.data[owned.name[1:]] = constant
                self.values[node] = owned
            elif node.op == "output":
                results = node.args[0] if isinstance(node.args[0], (tuple, list)) else (node.args[0],)
                for result in results:
                    if result not in self.values:
                        raise UnsupportedError(f"the function returns {result}, which is not a tensor that it computes")
                    returned.append(self.values[result])
            elif node.op == "call_function" and node.users and node.target not in CHECKS and _is_tensor(value):
                self.call(node)
        if not self.functions:
            raise UnsupportedError("the graph has no attention; pass a function that calls it")
        for value in returned:
            if value in self.arguments:
                raise UnsupportedError(f"the function returns its argument '{value.name[1:]}'; return computed tensors")
        arguments = ", ".join(f"{argument.name}: {argument.type}" for argument in self.arguments)
        types = ", ".join(value.type for value in returned)
        outputs = ["out"] if len(returned) == 1 else [f"out{number}" for number in range(len(returned))]
        results = ", ".join(f'{value.type} {{attn.name = "{name}"}}' for value, name in zip(returned, outputs))
        return "\n".join(
            [
                *self.functions,
                f"func.func @{self.name}({arguments}) -> ({results}) {{",
                *self.lines,
                f"  return {', '.join(value.name for value in returned)} : {types}",
                "}",
                "",
            ]
        )


def _bind(node: Node) -> Dict[str, Any]:
    """The arguments of an operator by name."""
    names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
    return {**dict(zip(names, node.args)), **node.kwargs}


@functools.lru_cache(maxsize=None)
def _find_limit(dtype: torch.dtype) -> Optional[float]:
    """The largest number of 8 bits, if casts of this torch give it instead of infinity or NaN."""
    if dtype not in FLOAT8:
        return None
    limit = torch.finfo(dtype).max
    return limit if torch.tensor(4 * limit).to(dtype).float() == limit else None


def _write_number(number: Any, dtype: torch.dtype) -> str:
    """A number of a dtype as MLIR has it: infinities and NaN by their bits."""
    value = torch.tensor(float(number), dtype=torch.float64).to(dtype)
    if value.isfinite():
        return f"{value.item():.9e}"
    bits = value.view(torch.int32 if dtype == torch.float32 else torch.int16).item()
    width = 8 * dtype.itemsize
    return f"0x{bits % 2**width:0{width // 4}X}"


def _write_clamp(
    value: str, result: str, low: Optional[float], high: Optional[float], dtype: torch.dtype
) -> List[str]:
    """Operations that clamp ``value``; NaN stays NaN."""
    lines = []
    element = DTYPES[element_types()[dtype]]
    for name, bound, operation in (("low", low, "maximumf"), ("high", high, "minimumf")):
        if bound is None:
            continue
        lines.append(f"%x.{name} = arith.constant {_write_number(bound, dtype)} : {element}")
        clamped = result if name == "high" or high is None else "%x.raised"
        lines.append(f"{clamped} = arith.{operation} {value}, %x.{name} : {element}")
        value = clamped
    return lines


def _merged(sizes: Sequence[str]) -> str:
    """The size of these dimensions as one."""
    return "?" if "?" in sizes else str(math.prod(map(int, sizes)))


def _product(shape: Sequence[Any], dims: Sequence[int]) -> Optional[int]:
    """The number of elements; None where a size varies."""
    return math.prod(shape[dim] for dim in dims) if all(isinstance(shape[dim], int) for dim in dims) else None


def _is_equal(before: Sequence[Any], sources: Sequence[int], after: Sequence[Any], targets: Sequence[int]) -> bool:
    product = _product(before, sources)
    return product is not None and product == _product(after, targets)


def _is_less(before: Sequence[Any], sources: Sequence[int], after: Sequence[Any], targets: Sequence[int]) -> bool:
    products = _product(before, sources), _product(after, targets)
    if None in products:
        raise UnsupportedError("a view splits or joins a size that varies; give it a number")
    return products[0] < products[1]


def _size_of(value: _Value, dim: int) -> str:
    return value.type[len("tensor<") :].split("x")[dim]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) for v in value))


def _attribute(module: Any, target: Any) -> Any:
    for part in str(target).split("."):
        module = getattr(module, part, None)
    return module


def _parameter_names(function: Callable, count: int) -> List[str]:
    """The names of the parameters that so many arguments by position are for, if they are known."""
    names: List[str] = []
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        # Functions that are not written in Python may have no signature.
        return names
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return names[:count]


class _Function(torch.nn.Module):
    """A function as a module, which ``torch.export`` wants."""

    def __init__(self, function: Callable):
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


def _make_examples(examples: Optional[Sequence[Any]]) -> Tuple[Tuple[Tensor, ...], Tuple[Any, ...]]:
    """Tensors to export a function with, and which of their sizes vary."""
    if examples is None:
        raise AttnError("example_inputs is None; pass a tensor or attn.Shape for each argument of the function")
    dtypes = {DTYPES[number]: dtype for dtype, number in element_types().items()}
    # Sizes of examples that have different names differ.
    named: Dict[str, Tuple[int, Any]] = {}
    tensors, dynamic = [], []
    for number, example in enumerate(examples):
        if isinstance(example, Shape):
            check_shape(number, example)
            sizes = [size for size in example.sizes if isinstance(size, str)]
            for name in sizes:
                named.setdefault(name, (_DEFAULT_SIZE + 8 * len(named), torch.export.Dim(name)))
            shape = [named[size][0] if isinstance(size, str) else size for size in example.sizes]
            tensors.append(torch.zeros(shape, dtype=dtypes[example.dtype]))
            dynamic.append({dim: named[size][1] for dim, size in enumerate(example.sizes) if isinstance(size, str)})
        elif isinstance(example, Tensor):
            marked = getattr(example, "_dynamo_dynamic_indices", ())
            tensors.append(example.detach())
            dynamic.append({dim: torch.export.Dim.DYNAMIC for dim in marked})
        else:
            raise WrongTypeError(f"example_inputs[{number}] is a {type(example).__name__}; pass a tensor or attn.Shape")
    return tuple(tensors), tuple(dynamic)


def _spec(module: torch.nn.Module, dynamic: Sequence[Dict[int, Any]]) -> Any:
    """``dynamic_shapes`` of ``torch.export`` for the arguments of a module."""
    if not any(dynamic):
        return None
    parameters = inspect.signature(module.forward).parameters.values()
    is_packed = any(parameter.kind == parameter.VAR_POSITIONAL for parameter in parameters)
    return (tuple(dynamic),) if is_packed else tuple(dynamic)


def _export(
    source: Any, examples: Optional[Sequence[Any]]
) -> Tuple[torch.export.ExportedProgram, Tuple[Tensor, ...], List[str]]:
    """The program, its example inputs, and their names."""
    if isinstance(source, torch.export.ExportedProgram):
        if examples is not None:
            raise AttnError("source is an exported program, which has example inputs; leave example_inputs out")
        inputs = source.example_inputs
        if inputs is None or inputs[1] or not all(isinstance(value, Tensor) for value in inputs[0]):
            raise UnsupportedError("the exported program must take tensors by position alone")
        return source, tuple(inputs[0]), []
    tensors, dynamic = _make_examples(examples)
    module = source if isinstance(source, torch.nn.Module) else _Function(source)
    names = _parameter_names(source.forward if module is source else source, len(tensors))
    return torch.export.export(module, tensors, dynamic_shapes=_spec(module, dynamic), strict=False), tensors, names


def lower(source: Any, examples: Optional[Sequence[Any]], name: Optional[str]) -> Tuple[str, Lowered]:
    """The name of a function, and its module."""
    name = name or getattr(source, "__name__", "") or type(source).__name__.lower()
    name = name if re.fullmatch(r"[A-Za-z_]\w*", name) and name != "exportedprogram" else "attention"
    with torch.no_grad():
        program, tensors, names = _export(source, examples)
        inputs = {spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"}
        shapes = [node.meta["val"].shape for node in program.graph.nodes if node.name in inputs]
        dynamic = [
            {dim: torch.export.Dim.AUTO for dim, size in enumerate(shape) if not isinstance(size, int)}
            for shape in shapes
        ]
        module = program.module()
        _, left, _ = _Importer(module).run()
        if left:
            raise UnsupportedError(f"attention is left to torch: {'; '.join(left)}")
        module.recompile()
        again = torch.export.export(module, tensors, dynamic_shapes=_spec(module, dynamic), strict=False)
    lowering = _Lowering(again.module(), name, names)
    text = lowering.run()
    data = {key: tensor.detach().cpu().contiguous().reshape(-1) for key, tensor in lowering.data.items()}
    contents = {key: tensor.view(torch.uint8).numpy().tobytes() for key, tensor in data.items()}
    sizes = {argument: tuple(tensor.shape) for argument, tensor in zip(lowering.inputs, tensors)}
    return name, Lowered(text, contents, sizes)
