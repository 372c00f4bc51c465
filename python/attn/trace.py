# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python functions of scalars become regions of attention.

The function is called once with ``Scalar`` objects, which write an operation for
each thing that is done with them: operators, functions of torch through
``__torch_function__``, and reads of tensors, ``bias[h, q_idx, kv_idx]``, which
``Tracer.read`` takes note of. Only what depends on the position is traced; all
else is Python and is done while tracing.
"""

import math
import numbers
import struct
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from attn.errors import TraceError

F32, INDEX, BOOL = "f32", "index", "i1"
_RANK = {BOOL: 0, INDEX: 1, F32: 2}

#: How element types of captured tensors are read: (MLIR type, kind of the scalar).
ELEMENTS = {
    "float32": ("f32", F32),
    "bfloat16": ("bf16", F32),
    "float16": ("f16", F32),
    "int64": ("i64", INDEX),
    "int32": ("i32", INDEX),
    "int8": ("i8", INDEX),
    "bool": ("i1", BOOL),
}


class Scalar:
    """A value that depends on the position: a score, an index or a truth value."""

    __slots__ = ("tracer", "name", "kind")

    def __init__(self, tracer: "Tracer", name: str, kind: str):
        self.tracer, self.name, self.kind = tracer, name, kind

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Tuple = (), kwargs: Optional[Dict] = None) -> Any:
        tracer = next(arg.tracer for arg in _flatten((args, kwargs)) if isinstance(arg, (Scalar, Row)))
        return tracer.call(getattr(func, "__name__", str(func)), args, kwargs or {})

    def _refuse(self, what: str, instead: str) -> Any:
        raise TraceError(
            f"{self.tracer.function} asks for {what} of a value that depends on the position, which is not known "
            f"when it is traced; {instead}"
        )

    def __bool__(self) -> bool:
        return self._refuse(
            "the truth",
            "use torch.where in the place of if, min and max, and &, | and ~ in the place of and, or and not",
        )

    def __int__(self) -> int:
        return self._refuse("the number", "compute with it as it is, by functions of torch and not of math")

    __index__ = __float__ = __int__

    def item(self) -> Any:
        return self._refuse("the number", "compute with it as it is, by functions of torch and not of math")

    tolist = item

    def __iter__(self) -> Any:
        return self._refuse("the elements", "it is a scalar")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("shape", "dtype", "device", "ndim"):
            return self._refuse(f"the attribute '{name}'", "it is a scalar without one")
        if name not in _FUNCTIONS:
            raise TraceError(f"{self.tracer.function} calls '{name}', which is not supported on scalars")
        return lambda *args, **kwargs: self.tracer.call(name, (self, *args), kwargs)


def _add_operators() -> None:
    binary = {
        "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
        "mod": "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    }  # fmt: skip

    def operator(name: str, is_reversed: bool) -> Callable:
        def apply(self: Scalar, other: Any) -> Any:
            return self.tracer.call(name, (other, self) if is_reversed else (self, other), {})

        return apply

    for python, name in binary.items():
        setattr(Scalar, f"__{python}__", operator(name, False))
        setattr(Scalar, f"__r{python}__", operator(name, True))
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Scalar, f"__{name}__", operator(name, False))
    for python, name in (("neg", "neg"), ("abs", "abs"), ("invert", "bitwise_not"), ("pos", "positive")):
        setattr(Scalar, f"__{python}__", lambda self, name=name: self.tracer.call(name, (self,), {}))


_add_operators()


class Row:
    """A captured tensor some of whose dimensions have an index."""

    __slots__ = ("tracer", "tensor", "indices")

    def __init__(self, tracer: "Tracer", tensor: Any, indices: Tuple):
        self.tracer, self.tensor, self.indices = tracer, tensor, indices

    __torch_function__ = Scalar.__torch_function__

    def __getitem__(self, index: Any) -> Any:
        return self.tracer.read(self.tensor, self.indices + (index if isinstance(index, tuple) else (index,)))


def _flatten(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _flatten(item)
    elif isinstance(value, dict):
        yield from _flatten(list(value.values()))
    else:
        yield value


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "data_ptr") and hasattr(value, "stride")


def _float_literal(value: float) -> str:
    return f"0x{struct.unpack('<I', struct.pack('<f', value))[0]:08X}"


class Tracer:
    """Writes one region. ``captures`` are shared by the regions of an operation."""

    def __init__(self, function: str, captures: List[Any]):
        self.function = function
        self.captures = captures
        self._lines: List[str] = []
        self._known: Dict[str, str] = {}

    def argument(self, name: str, kind: str) -> Scalar:
        return Scalar(self, name, kind)

    def emit(self, text: str, kind: str) -> Scalar:
        """The result of an operation, made once for equal operations."""
        name = self._known.get(text)
        if name is None:
            name = self._known[text] = f"%t{len(self._known)}"
            self._lines.append(f"{name} = {text}")
        return Scalar(self, name, kind)

    def finish(self, result: Any, kind: str) -> str:
        """The body of the region that yields ``result``."""
        value = self.cast(self.lift(result), kind)
        return "\n".join(self._lines + [f"attn.yield {value.name} : {kind}"])

    # Values

    def lift(self, value: Any) -> Scalar:
        """Anything that stands for a scalar, as one."""
        if isinstance(value, Scalar):
            return value
        if isinstance(value, Row):
            raise TraceError(
                f"{self.function} computes with a part of a captured tensor of shape {_shape(value.tensor)} that has "
                f"only {len(value.indices)} indices; index all dimensions"
            )
        if isinstance(value, bool):
            return self.emit(f"arith.constant {'true' if value else 'false'}", BOOL)
        if isinstance(value, numbers.Integral):
            if not -(2**63) <= value < 2**63:
                raise TraceError(f"{self.function} computes with {value}; integers have 64 bits")
            return self.emit(f"arith.constant {int(value)} : index", INDEX)
        if isinstance(value, numbers.Real):
            return self.emit(f"arith.constant {_float_literal(float(value))} : f32", F32)
        if _is_tensor(value):
            if value.ndim != 0:
                raise TraceError(
                    f"{self.function} computes with a captured tensor of shape {_shape(value)}; read an element of it, "
                    "as in tensor[h], or give it no dimensions"
                )
            return self.read(value, ())
        raise TraceError(f"{self.function} computes with a {type(value).__name__}, which is no scalar")

    def cast(self, value: Scalar, kind: str) -> Scalar:
        if value.kind == kind:
            return value
        if kind == F32 and value.kind == INDEX:
            number = self.emit(f"arith.index_cast {value.name} : index to i32", "i32")
            return self.emit(f"arith.sitofp {number.name} : i32 to f32", F32)
        if kind == F32:
            return self.emit(f"arith.uitofp {value.name} : i1 to f32", F32)
        if kind == INDEX and value.kind == BOOL:
            return self.emit(f"arith.index_castui {value.name} : i1 to index", INDEX)
        if kind == INDEX:
            number = self.emit(f"arith.fptosi {value.name} : f32 to i32", "i32")
            return self.emit(f"arith.index_cast {number.name} : i32 to index", INDEX)
        return self.compare("ne", value, self.cast(self.lift(0), value.kind))

    def promote(self, *values: Any) -> List[Scalar]:
        """The values as scalars of their common kind."""
        scalars = [self.lift(value) for value in values]
        kind = max((scalar.kind for scalar in scalars), key=_RANK.__getitem__)
        return [self.cast(scalar, kind) for scalar in scalars]

    def float(self, value: Any) -> Scalar:
        return self.cast(self.lift(value), F32)

    def truth(self, value: Any) -> Scalar:
        return self.cast(self.lift(value), BOOL)

    def compare(self, predicate: str, a: Any, b: Any) -> Scalar:
        a, b = self.promote(a, b)
        if a.kind == F32:
            name = {"ne": "une"}.get(predicate, "o" + predicate)
            return self.emit(f"arith.cmpf {name}, {a.name}, {b.name} : f32", BOOL)
        if a.kind == BOOL:
            a, b = self.cast(a, INDEX), self.cast(b, INDEX)
        name = predicate if predicate in ("eq", "ne") else "s" + predicate
        return self.emit(f"arith.cmpi {name}, {a.name}, {b.name} : index", BOOL)

    def select(self, condition: Any, a: Any, b: Any) -> Scalar:
        condition = self.truth(condition)
        a, b = self.promote(a, b)
        return self.emit(f"arith.select {condition.name}, {a.name}, {b.name} : {a.kind}", a.kind)

    # Captured tensors

    def read(self, tensor: Any, indices: Sequence[Any]) -> Any:
        """An element of a captured tensor; a ``Row`` if indices are missing."""
        if len(indices) > tensor.ndim:
            raise TraceError(
                f"{self.function} reads a tensor of shape {_shape(tensor)} with {len(indices)} indices; give "
                f"{tensor.ndim}"
            )
        positions = []
        for dim, index in enumerate(indices):
            if isinstance(index, slice) or index is None or index is Ellipsis:
                raise TraceError(
                    f"{self.function} reads a tensor with an index that is no number; give an index for each dimension"
                )
            if isinstance(index, numbers.Integral) and not isinstance(index, bool):
                size = tensor.shape[dim]
                if not -size <= index < size:
                    raise TraceError(
                        f"{self.function} reads index {index} of a dimension of size {size}; stay inside of it"
                    )
                index = int(index) % size
            position = self.lift(index)
            if position.kind != INDEX:
                raise TraceError(
                    f"{self.function} reads a tensor with an index of type {position.kind}; make it an integer"
                )
            positions.append(self.lift(0) if tensor.shape[dim] == 1 else position)
        if len(indices) < tensor.ndim:
            return Row(self, tensor, tuple(indices))
        number = self._capture(tensor)
        element, kind = ELEMENTS[_dtype(tensor)]
        source = f"%c{number}[{', '.join(position.name for position in positions)}] : {capture_type(tensor)}"
        if tensor.ndim == 0:
            source = f"%c{number}[{self.lift(0).name}] : {capture_type(tensor)}"
        if kind == BOOL:
            return self.emit(f"tensor.extract {source}", BOOL)
        value = self.emit(f"tensor.extract {source}", kind)
        if kind == INDEX:
            return self.emit(f"arith.index_cast {value.name} : {element} to index", INDEX)
        return value if element == "f32" else self.emit(f"arith.extf {value.name} : {element} to f32", F32)

    def _capture(self, tensor: Any) -> int:
        for number, known in enumerate(self.captures):
            if known is tensor:
                return number
        if _dtype(tensor) not in ELEMENTS:
            raise TraceError(
                f"{self.function} reads a tensor of {tensor.dtype}; convert it to one of {', '.join(ELEMENTS)}"
            )
        self.captures.append(tensor)
        return len(self.captures) - 1

    # Functions

    def call(self, name: str, args: Tuple, kwargs: Dict[str, Any]) -> Any:
        """Applies a function of torch, by its name, to scalars."""
        if name == "__getitem__":
            return self.read(args[0], args[1] if isinstance(args[1], tuple) else (args[1],))
        function = _FUNCTIONS.get(name.strip("_"))
        if function is None:
            raise TraceError(f"{self.function} calls torch's '{name}', which is not supported on scalars")
        try:
            return function(self, *args, **kwargs)
        except TypeError as error:
            if isinstance(error, TraceError):
                raise
            raise TraceError(
                f"{self.function} calls torch's '{name}' in a way that is not supported: {error}"
            ) from None


def _shape(tensor: Any) -> str:
    return str(tuple(tensor.shape))


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def capture_type(tensor: Any) -> str:
    """The type of a captured tensor: sizes vary from call to call, but not
    whether they are 1. A tensor without dimensions is passed with one."""
    sizes = [1] if tensor.ndim == 0 else tensor.shape
    return f"tensor<{''.join('1x' if size == 1 else '?x' for size in sizes)}{ELEMENTS[_dtype(tensor)][0]}>"


def _arithmetic(float_op: str, index_op: str) -> Callable:
    def apply(tracer: Tracer, a: Any, b: Any, *, alpha: Any = 1, out: None = None) -> Scalar:
        if alpha != 1:
            b = tracer.call("mul", (b, alpha), {})
        a, b = tracer.promote(a, b)
        if a.kind == BOOL:
            a, b = tracer.cast(a, INDEX), tracer.cast(b, INDEX)
        op = float_op if a.kind == F32 else index_op
        return tracer.emit(f"{op} {a.name}, {b.name} : {a.kind}", a.kind)

    return apply


def _logic(op: str, only_bool: bool) -> Callable:
    def apply(tracer: Tracer, a: Any, b: Any) -> Scalar:
        a, b = (tracer.truth(a), tracer.truth(b)) if only_bool else tracer.promote(a, b)
        if a.kind == F32:
            raise TraceError(f"{tracer.function} combines floats bit by bit; compare them first")
        return tracer.emit(f"{op} {a.name}, {b.name} : {a.kind}", a.kind)

    return apply


def _not(tracer: Tracer, a: Any) -> Scalar:
    a = tracer.lift(a)
    if a.kind == F32:
        raise TraceError(f"{tracer.function} inverts the bits of a float; compare it first")
    ones = tracer.lift(True if a.kind == BOOL else -1)
    return tracer.emit(f"arith.xori {a.name}, {ones.name} : {a.kind}", a.kind)


def _unary(op: str) -> Callable:
    def apply(tracer: Tracer, a: Any) -> Scalar:
        return tracer.emit(f"{op} {tracer.float(a).name} : f32", F32)

    return apply


def _rounding(op: str) -> Callable:
    def apply(tracer: Tracer, a: Any) -> Scalar:
        a = tracer.lift(a)
        return a if a.kind != F32 else tracer.emit(f"{op} {a.name} : f32", F32)

    return apply


def _divide(tracer: Tracer, a: Any, b: Any, *, rounding_mode: Optional[str] = None) -> Scalar:
    if rounding_mode == "floor":
        return _floor_divide(tracer, a, b)
    if rounding_mode is not None:
        raise TraceError(f"{tracer.function} divides with rounding_mode='{rounding_mode}'; use 'floor' or none")
    return tracer.emit(f"arith.divf {tracer.float(a).name}, {tracer.float(b).name} : f32", F32)


def _floor_divide(tracer: Tracer, a: Any, b: Any) -> Scalar:
    is_constant = isinstance(b, numbers.Integral)
    if is_constant and b == 0 and tracer.lift(a).kind != F32:
        raise TraceError(f"{tracer.function} divides an integer by 0")
    a, b = tracer.promote(a, b)
    if a.kind == F32:
        return tracer.call("floor", (_divide(tracer, a, b),), {})
    if a.kind == BOOL:
        a, b = tracer.cast(a, INDEX), tracer.cast(b, INDEX)
    if not is_constant:
        # Processors stop programs that divide by 0.
        b = tracer.select(tracer.compare("eq", b, 0), 1, b)
    return tracer.emit(f"arith.floordivsi {a.name}, {b.name} : index", INDEX)


def _remainder(tracer: Tracer, a: Any, b: Any) -> Scalar:
    quotient = _floor_divide(tracer, a, b)
    return tracer.call("sub", (a, tracer.call("mul", (quotient, b), {})), {})


def _power(tracer: Tracer, a: Any, b: Any) -> Scalar:
    if isinstance(b, int) and 1 <= b <= 4:
        result = a = tracer.lift(a)
        for _ in range(b - 1):
            result = tracer.call("mul", (result, a), {})
        return result
    return tracer.emit(f"math.powf {tracer.float(a).name}, {tracer.float(b).name} : f32", F32)


def _negate(tracer: Tracer, a: Any) -> Scalar:
    a = tracer.lift(a)
    if a.kind == F32:
        return tracer.emit(f"arith.negf {a.name} : f32", F32)
    return tracer.call("sub", (0, a), {})


def _absolute(tracer: Tracer, a: Any) -> Scalar:
    a = tracer.lift(a)
    if a.kind == F32:
        return tracer.emit(f"math.absf {a.name} : f32", F32)
    return tracer.call("maximum", (a, _negate(tracer, a)), {})


def _extremum(float_op: str, index_op: str) -> Callable:
    arithmetic = _arithmetic(float_op, index_op)
    return lambda tracer, a, other, *, out=None: arithmetic(tracer, a, other)


def _clamp(tracer: Tracer, a: Any, min: Any = None, max: Any = None) -> Scalar:
    if min is not None:
        a = tracer.call("maximum", (a, min), {})
    return a if max is None else tracer.call("minimum", (a, max), {})


def _where(tracer: Tracer, condition: Any, *args: Any, **kwargs: Any) -> Scalar:
    def choose(input: Any, other: Any) -> Scalar:
        return tracer.select(condition, input, other)

    return choose(*args, **kwargs)


def _sigmoid(tracer: Tracer, a: Any) -> Scalar:
    exponential = tracer.call("exp", (_negate(tracer, tracer.float(a)),), {})
    return _divide(tracer, 1.0, tracer.call("add", (exponential, 1.0), {}))


def _to(tracer: Tracer, a: Any, dtype: Any = None, **_: Any) -> Scalar:
    name = str(dtype).rpartition(".")[2]
    if name == "float32":
        return tracer.float(a)
    if name in ("int32", "int64"):
        return tracer.cast(tracer.lift(a), INDEX)
    if name == "bool":
        return tracer.truth(a)
    raise TraceError(f"{tracer.function} converts a scalar to {dtype}; use float32, int32, int64 or bool")


def _new(fill: Any) -> Callable:
    def apply(tracer: Tracer, a: Any, size: Any, fill_value: Any = fill, dtype: Any = None, **_: Any) -> Scalar:
        if len(size) != 0:
            raise TraceError(
                f"{tracer.function} makes a tensor of shape {tuple(size)}; only scalars can be made, of shape ()"
            )
        value = tracer.lift(fill_value)
        return value if dtype is None else _to(tracer, value, dtype)

    return apply


def _is(a: float) -> Callable:
    return lambda tracer, value: tracer.compare("eq", tracer.call("abs", (tracer.float(value),), {}), a)


#: Functions of torch and methods of tensors, by their names.
_FUNCTIONS: Dict[str, Callable] = {
    "add": _arithmetic("arith.addf", "arith.addi"),
    "sub": _arithmetic("arith.subf", "arith.subi"),
    "mul": _arithmetic("arith.mulf", "arith.muli"),
    "div": _divide,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "pow": _power,
    "neg": _negate,
    "abs": _absolute,
    "positive": lambda tracer, a: tracer.lift(a),
    "square": lambda tracer, a: _power(tracer, a, 2),
    "reciprocal": lambda tracer, a: _divide(tracer, 1.0, a),
    "relu": lambda tracer, a: _clamp(tracer, a, min=0),
    "sigmoid": _sigmoid,
    "minimum": _extremum("arith.minimumf", "arith.minsi"),
    "maximum": _extremum("arith.maximumf", "arith.maxsi"),
    "clamp": _clamp,
    "where": _where,
    "isinf": _is(math.inf),
    "isnan": lambda tracer, a: tracer.compare("ne", tracer.float(a), tracer.float(a)),
    "bitwise_and": _logic("arith.andi", only_bool=False),
    "bitwise_or": _logic("arith.ori", only_bool=False),
    "bitwise_xor": _logic("arith.xori", only_bool=False),
    "bitwise_not": _not,
    "logical_and": _logic("arith.andi", only_bool=True),
    "logical_or": _logic("arith.ori", only_bool=True),
    "logical_xor": _logic("arith.xori", only_bool=True),
    "logical_not": lambda tracer, a: _not(tracer, tracer.truth(a)),
    "float": lambda tracer, a: tracer.float(a),
    "int": lambda tracer, a: tracer.cast(tracer.lift(a), INDEX),
    "bool": lambda tracer, a: tracer.truth(a),
    "to": _to,
    "type": _to,
    "clone": lambda tracer, a: tracer.lift(a),
    "detach": lambda tracer, a: tracer.lift(a),
    "new_ones": _new(1),
    "new_zeros": _new(0),
    "new_full": _new(None),
    "floor": _rounding("math.floor"),
    "ceil": _rounding("math.ceil"),
    "trunc": _rounding("math.trunc"),
    "round": _rounding("math.roundeven"),
    **{name: _unary(f"math.{op}") for name, op in {
        "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10",
        "log1p": "log1p", "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin", "cos": "cos", "tan": "tan", "atan": "atan",
        "arctan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "erf": "erf",
    }.items()},
}  # fmt: skip
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _FUNCTIONS[_name] = lambda tracer, a, b, _name=_name: tracer.compare(_name, a, b)
for _alias, _name in {
    "true_divide": "div", "divide": "div", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "subtract": "sub", "multiply": "mul", "negative": "neg", "absolute": "abs", "clip": "clamp", "fix": "trunc",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "invert": "bitwise_not", "long": "int",
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "not_equal": "ne", "min": "minimum",
    "max": "maximum", "to_dtype": "to",
}.items():  # fmt: skip
    _FUNCTIONS[_alias] = _FUNCTIONS[_name]


def _reversed(name: str) -> Callable:
    return lambda tracer, a, b: tracer.call(name, (b, a), {})


for _name in ("sub", "div", "pow", "floordiv", "mod", "truediv", "add", "mul", "and", "or", "xor"):
    _FUNCTIONS["r" + _name] = _reversed(_name)
