# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions of torch as modules of MLIR, for ``attn.aot``.

A graph of ``torch.export`` becomes one function. Its attention calls functions of ``attn.Attention``, which the
compiler inlines, and so do quantizations, of ``attn.Quantize``. Linear layers, ``torch._scaled_mm`` and what
``attn.torch.lower_functions`` lists become operations of ``linalg``, and permutations and reshapes views. Nothing else
is lowered.
"""

import dataclasses
import inspect
import math
import operator
import re
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor
from torch.fx import Node

from attn.aot import _DEFAULT_SIZE, Lowered, Shape, check_shape
from attn.artifact import DTYPES, element_types
from attn.errors import AttnError, UnsupportedError, WrongTypeError
from attn.torch.fold_constants import fold_constants, is_written, name_masks, read_attribute
from attn.torch.graph_writes import CHECKS
from attn.torch.importer import _CASTS, _COPIES, _EXPANDS, _PERMUTATIONS, _VIEWS, _get_order, _Importer
from attn.torch.kernels import describe_attention
from attn.torch.linalg_builder import Value, element_of, size_of, sizes_of, type_of
from attn.torch.lower_functions import bind
from attn.torch.lower_matmuls import MatmulLowering
from attn.torch.ops import read_variant
from attn.torch.quantize import _describe, _Options

aten = torch.ops.aten

_RESHAPES = (*_VIEWS, aten.view_as.default, aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default)
_SAME = (*_COPIES, *_CASTS, *_EXPANDS, *_VIEWS, aten.lift_fresh_copy.default, aten.detach_.default)


def _signature(text: str) -> Tuple[List[str], List[str]]:
    """The types of the arguments and results of the function in the module of ``attn.Attention``."""
    found = re.match(r"func\.func @\w+\((.*)\)\s*-> \((.*)\) \{", text)
    assert found is not None, text
    arguments, results = (re.findall(r"tensor<[^>]*>", part) for part in found.groups())
    return arguments, results


class _Lowering(MatmulLowering):
    def __init__(self, module: torch.fx.GraphModule, name: str, names: Sequence[str]):
        super().__init__()
        self.module = module
        self.name = name
        self.names = list(names)
        self.functions: List[str] = []
        self.arguments: List[Value] = []
        #: Names of the arguments that are inputs of the graph.
        self.inputs: List[str] = []
        #: Arguments for tensors of the module, and the tensors by names of the arguments.
        self.owned: Dict[str, Value] = {}
        self.data: Dict[str, Tensor] = {}

    def argument(self, wanted: str, kind: str) -> Value:
        """A new argument, whose name is an identifier."""
        name = re.sub(r"\W", "_", wanted)
        name = name if re.match(r"[A-Za-z]", name) else f"arg_{name}"
        while any(argument.name == f"%{name}" for argument in self.arguments):
            name += "_"
        self.arguments.append(Value(f"%{name}", kind))
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
        given = bind(node)
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
            self.parts[node, number] = Value(f"%v{self.count}#{number}", kind_of_result)

    def permute(self, node: Node) -> None:
        rank, value = node.args[0].meta["val"].dim(), self.values[node.args[0]]
        self.values[node] = value if rank < 2 else self.transpose(value, _get_order(node, rank))

    def unsqueeze(self, node: Node) -> None:
        source = self.values[node.args[0]]
        sizes = [size_of(source, dim) for dim in range(node.args[0].meta["val"].dim())]
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
        kind = f"tensor<{''.join(size + 'x' for size in results)}{element_of(source.type)}>"
        self.values[node] = self.emit(
            f"tensor.expand_shape {source.name} {groups} output_shape [{', '.join(shape)}] : {source.type} into {kind}",
            kind,
        )

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
        self.values[node] = self.regroup(self.values[node.args[0]], groups, sizes_of(node.meta["val"]))

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
            kind = type_of(value)
            self.values[node] = Value(self.cast(self.parts[source, node.args[1]], kind), kind)  # type: ignore[index]
        elif target in _PERMUTATIONS:
            self.permute(node)
        elif target == aten.unsqueeze.default:
            self.unsqueeze(node)
        elif target in _SAME and source in self.values and self.is_same(source, node):
            self.values[node] = self.values[source]
        elif target in _RESHAPES and source in self.values:
            self.reshape(node)
        elif target in _CASTS and source in self.values and self.is_cast(node, source):
            self.convert(node, source)
        elif not self.write_matmul(node) and not self.write_function(node):
            raise UnsupportedError(self.refusal(node))

    @staticmethod
    def is_same(a: Any, b: Node) -> bool:
        """Whether two tensors have the same elements at the same places."""
        return a.meta["val"].shape == b.meta["val"].shape and a.meta["val"].dtype == b.meta["val"].dtype

    def run(self) -> str:
        """The module as text."""
        returned: List[Value] = []
        inputs = iter(self.names)
        for node in self.module.graph.nodes:
            value = node.meta.get("val")
            if node.op == "placeholder":
                if not isinstance(value, Tensor):
                    raise UnsupportedError(f"the argument '{node.name}' is a {type(value).__name__}; pass tensors")
                self.values[node] = self.argument(next(inputs, node.name), type_of(value))
                self.inputs.append(self.values[node].name[1:])
            elif node.op == "get_attr" and not node.users:
                continue
            elif node.op == "get_attr" and isinstance(constant := read_attribute(self.module, node.target), Tensor):
                node.meta.setdefault("val", constant)
                owned = self.owned.get(str(node.target))
                if owned is None:
                    owned = self.owned[str(node.target)] = self.argument(str(node.target), type_of(constant))
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
        # An argument that is returned is no destination.
        arguments = ", ".join(
            f"{argument.name}: {argument.type} {{bufferization.writable = false}}" for argument in self.arguments
        )
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


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) for v in value))


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
        for node in module.graph.nodes:
            if is_written(node):
                raise UnsupportedError(
                    f"the graph writes to a tensor, by {node.target} ({node.name}), which Attn does not compile here; "
                    "use an operation that returns a new tensor"
                )
        name_masks(module, fold_constants(module, program.state_dict))
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
