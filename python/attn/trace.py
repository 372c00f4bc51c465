# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python functions of scalars become regions of attention.

The function is called once with ``Scalar`` objects, which write an operation for each use of them: operators, functions
of torch through ``__torch_function__``, and reads of tensors, ``bias[h, q_idx, kv_idx]``, which ``Tracer.read``
records. Only code that depends on the position is traced; all else is Python and runs while tracing.
"""

import functools
import itertools
import math
import numbers
import re
import struct
from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, Tuple

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
#: Tensors of 64 bits are read where no kernel is: in double precision on the host.
_READ = {**ELEMENTS, "float64": ("f32", F32)}


#: How many elements of captured tensors a function may combine.
MAX_ELEMENTS = 256


class Scalar:
    """A value that depends on the position: a score, an index or a truth value."""

    __slots__ = ("tracer", "name", "kind")

    def __init__(self, tracer: "Tracer", name: str, kind: str):
        self.tracer, self.name, self.kind = tracer, name, kind

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Tuple = (), kwargs: Optional[Dict] = None) -> Any:
        tracer = next(arg.tracer for arg in _flatten((args, kwargs)) if isinstance(arg, (Scalar, Row, Array)))
        return tracer.call(getattr(func, "__name__", str(func)), args, kwargs or {})

    def _refuse(self, what: str, instead: str) -> NoReturn:
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
        return self._refuse("the elements", "it is a scalar, which has none")

    __len__ = __getitem__ = lambda self, *_: self.__iter__()

    def __hash__(self) -> int:
        return self._refuse(
            "the hash, as lookups in a dict or a set do,",
            "put the values into a tensor and read it, as in tensor[h]",
        )

    def __round__(self, ndigits: Optional[int] = None) -> Any:
        return self.tracer.call("round", (self,), {} if ndigits is None else {"decimals": ndigits})

    def __divmod__(self, other: Any) -> Any:
        return self.tracer.call("floor_divide", (self, other), {}), self.tracer.call("remainder", (self, other), {})

    def __rdivmod__(self, other: Any) -> Any:
        return self.tracer.call("floor_divide", (other, self), {}), self.tracer.call("remainder", (other, self), {})

    def __matmul__(self, other: Any) -> Any:
        return self._refuse("a matmul, '@',", "it is a scalar: multiply by '*'")

    __rmatmul__ = __matmul__

    @property
    def dtype(self) -> Any:
        return self.tracer.dtype(self.kind)

    @property
    def device(self) -> Any:
        return self.tracer.device

    shape = property(lambda self: ())
    ndim = property(lambda self: 0)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in _FUNCTIONS and name not in _SHAPED:
            raise TraceError(f"{self.tracer.function} uses '{name}', which is not supported on scalars; {_KNOWN}")
        return lambda *args, **kwargs: self.tracer.call(name, (self, *args), kwargs)


def _add_operators() -> None:
    binary = {
        "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
        "mod": "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
        "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
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

    def refuse(self: Any, *_: Any) -> Any:
        return self.tracer.lift(self)

    for each in (Row, Array):
        for python, name in {**binary, "matmul": "matmul"}.items():
            setattr(each, f"__{python}__", operator(name, False))
            setattr(each, f"__r{python}__", operator(name, True))
        for name in ("lt", "le", "gt", "ge", "eq", "ne"):
            setattr(each, f"__{name}__", operator(name, False))
        for python in ("divmod", "rdivmod", "bool", "int", "float", "index", "len", "iter", "round", "hash"):
            setattr(each, f"__{python}__", refuse)
    for python, name in (("neg", "neg"), ("abs", "abs"), ("invert", "bitwise_not"), ("pos", "positive")):
        for each in (Scalar, Row, Array):
            setattr(each, f"__{python}__", lambda self, name=name: self.tracer.call(name, (self,), {}))


class Row:
    """A captured tensor some of whose dimensions have an index."""

    __slots__ = ("tracer", "tensor", "indices")

    def __init__(self, tracer: "Tracer", tensor: Any, indices: Tuple):
        self.tracer, self.tensor, self.indices = tracer, tensor, indices

    __torch_function__ = Scalar.__torch_function__

    def __getitem__(self, index: Any) -> Any:
        return self.tracer.read(self.tensor, self.indices + (index if isinstance(index, tuple) else (index,)))

    dtype = property(lambda self: self.tensor.dtype)
    device = property(lambda self: self.tensor.device)
    ndim = property(lambda self: self.tensor.ndim - len(self.indices))

    @property
    def shape(self) -> Tuple:
        self.tracer.note_sizes()
        return tuple(self.tensor.shape)[len(self.indices) :]

    def __getattr__(self, name: str) -> Any:
        return _find_method(self, name)


class Array:
    """Scalars in the order of the elements of a small tensor."""

    __slots__ = ("tracer", "shape", "elements")

    def __init__(self, tracer: "Tracer", shape: Tuple[int, ...], elements: Sequence[Scalar]):
        self.tracer, self.shape, self.elements = tracer, shape, tuple(elements)

    __torch_function__ = Scalar.__torch_function__

    def __getitem__(self, index: Any) -> Any:
        return self.tracer.call("__getitem__", (self, index), {})

    dtype = property(lambda self: self.tracer.dtype(self.elements[0].kind if self.elements else F32))
    device = property(lambda self: self.tracer.device)
    ndim = property(lambda self: len(self.shape))

    def __getattr__(self, name: str) -> Any:
        return _find_method(self, name)


def _find_method(value: Any, name: str) -> Callable:
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _FUNCTIONS or name in _SHAPED:
        return lambda *args, **kwargs: value.tracer.call(name, (value, *args), kwargs)
    raise TraceError(
        f"{value.tracer.function} uses '{name}' of {_describe(value)}; index all dimensions, or compute it for the "
        "whole tensor before, as in a variable of its own"
    )


def _describe(value: Any) -> str:
    if isinstance(value, Row):
        return f"a part of a captured tensor of shape {_shape(value.tensor)}"
    return f"a tensor of shape {_shape(value)}"


_add_operators()


def _flatten(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _flatten(item)
    elif isinstance(value, dict):
        yield from _flatten(list(value.values()))
    else:
        yield value


def _is_integer(value: Any) -> bool:
    """Whether it is an integer of Python or torch, which may stand for sizes of graphs."""
    is_number = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return is_number or type(value).__name__ == "SymInt"


def _is_tensor(value: Any) -> bool:
    is_traced = isinstance(value, (Scalar, Row, Array))
    return not is_traced and hasattr(value, "data_ptr") and hasattr(value, "stride")


def float_literal(value: float) -> str:
    return f"0x{struct.unpack('<I', struct.pack('<f', value))[0]:08X}"


class Tracer:
    """Writes one region. ``captures`` are shared by the regions of an operation."""

    def __init__(
        self,
        function: str,
        captures: List[Any],
        device: Any = None,
        dtypes: Optional[Dict[str, Any]] = None,
    ):
        self.function = function
        self.captures = captures
        #: The device that scalars report, and the dtype of each kind.
        self.device = device
        self._dtypes = dtypes or {}
        #: Called where the function asks for sizes of tensors; ``read`` asks, too.
        self.note_sizes: Callable[[], None] = lambda: None
        self.is_reading = False
        #: Makes a tensor without dimensions of a number that varies from call to call; None if there is none.
        self.capture_number: Callable[[Any], Any] = lambda value: None
        #: Tensors of one number that the function made, with the number.
        self.constants: List[Tuple[Any, Any]] = []
        self._lines: List[str] = []
        self._known: Dict[str, str] = {}
        #: Operations by the names of their results.
        self._texts: Dict[str, str] = {}
        #: Whether a name is a number that varies from call to call, or is computed from such alone.
        self._is_number: Dict[str, bool] = {}

    def argument(self, name: str, kind: str) -> Scalar:
        return Scalar(self, name, kind)

    def dtype(self, kind: str) -> Any:
        return self._dtypes.get(kind, {F32: "float32", INDEX: "int64", BOOL: "bool"}[kind])

    def emit(self, text: str, kind: str) -> Scalar:
        """The result of an operation, made once for equal operations."""
        name = self._known.get(text)
        if name is None:
            name = self._known[text] = f"%t{len(self._known)}"
            self._texts[name] = text
            self._lines.append(f"{name} = {text}")
        return Scalar(self, name, kind)

    def number(self, tensor: Any) -> Scalar:
        """A number that varies from call to call, in a tensor without dimensions."""
        number = self.read(tensor, ())
        self._is_number[number.name] = True
        return number

    def is_number(self, value: Any) -> bool:
        """Whether a value is computed from numbers that vary from call to call, and from nothing else but constants."""
        if not isinstance(value, Scalar):
            return False
        known = self._is_number.get(value.name)
        if known is None:
            text = self._texts.get(value.name, "")
            operands = [Scalar(self, name, INDEX) for name in re.findall(r"%\w+", text)]
            are_numbers = [self.is_number(operand) for operand in operands]
            known = any(are_numbers) and all(
                is_number or "arith.constant" in self._texts.get(operand.name, "")
                for operand, is_number in zip(operands, are_numbers)
            )
            self._is_number[value.name] = known
        return known

    def refuse_number(self, value: Any, what: str) -> None:
        if self.is_number(value):
            raise TraceError(f"{self.function} uses a number that varies from call to call as {what}")

    def finish(self, result: Any, kind: str) -> str:
        """The body of the region that yields ``result``, in one line: compilers of torch print it into comments."""
        value = self.lift(result)
        if kind == F32 and value.kind == BOOL:
            raise TraceError(
                f"{self.function} returns a bool, expected a score; keep scores as in torch.where(condition, score, "
                "-float('inf')), or pass the function as a mask_mod"
            )
        if kind == BOOL and value.kind == F32:
            raise TraceError(f"{self.function} returns a float, expected a bool; compare it, as in value > 0")
        value = self.cast(value, kind)
        return " ".join(self._lines + [f"attn.yield {value.name} : {kind}"])

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
        if isinstance(value, Array):
            raise TraceError(
                f"{self.function} uses a tensor of shape {_shape(value)} where a scalar is expected; reduce it, as by "
                "any() or sum()"
            )
        if isinstance(value, bool):
            return self.emit(f"arith.constant {'true' if value else 'false'}", BOOL)
        captured = self.capture_number(value)
        if captured is not None:
            return self.read(captured, ())
        if isinstance(value, numbers.Integral):
            if not -(2**63) <= value < 2**63:
                raise TraceError(f"{self.function} computes with {value}; integers have 64 bits")
            return self.emit(f"arith.constant {int(value)} : index", INDEX)
        if isinstance(value, numbers.Real):
            return self.emit(f"arith.constant {float_literal(float(value))} : f32", F32)
        if _is_tensor(value):
            for tensor, number in self.constants:
                if tensor is value:
                    is_rounded = _dtype(tensor) in ("float16", "bfloat16")
                    return _to(self, number, tensor.dtype) if is_rounded else self.lift(number)
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
        is_number = isinstance(value, numbers.Real)
        return self.lift(float(value)) if is_number else self.cast(self.lift(value), F32)

    def truth(self, value: Any) -> Scalar:
        is_number = isinstance(value, numbers.Real)
        return self.lift(bool(value)) if is_number else self.cast(self.lift(value), BOOL)

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
        self.is_reading = True
        try:
            return self._read(tensor, indices)
        finally:
            self.is_reading = False

    def _read(self, tensor: Any, indices: Sequence[Any]) -> Any:
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
            if _is_integer(index):
                size = tensor.shape[dim]
                if not -size <= index < size:
                    raise TraceError(
                        f"{self.function} reads index {index} of a dimension of size {size}; stay inside of it"
                    )
                index = index if index >= 0 else index + size
            # Negative ones count from the end.
            self.refuse_number(index, "an index")
            position = self.lift(index)
            if position.kind != INDEX:
                raise TraceError(
                    f"{self.function} reads a tensor with an index of type {position.kind}; make it an integer"
                )
            positions.append(self.lift(0) if tensor.shape[dim] == 1 else position)
        if len(indices) < tensor.ndim:
            return Row(self, tensor, tuple(indices))
        number = self._capture(tensor)
        element, kind = _READ[_dtype(tensor)]
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
        if _dtype(tensor) not in _READ:
            raise TraceError(
                f"{self.function} reads a tensor of {tensor.dtype}; convert it to one of {', '.join(ELEMENTS)}"
            )
        self.captures.append(tensor)
        return len(self.captures) - 1

    # Small tensors

    def array(self, value: Any, name: str) -> Array:
        """The elements of a scalar, of a part of a captured tensor or of a captured tensor, for a function ``name``."""
        if isinstance(value, Array):
            return value
        if isinstance(value, Row):
            tensor, first = value.tensor, value.indices
        elif _is_tensor(value) and value.ndim != 0:
            tensor, first = value, ()
        else:
            return Array(self, (), [self.lift(value)])
        self.note_sizes()
        shape = tuple([int(size) for size in tensor.shape[len(first) :]])
        if math.prod(shape) > MAX_ELEMENTS:
            what = _describe(value) if isinstance(value, Row) else "a captured tensor"
            raise TraceError(
                f"{self.function} uses '{name}' of {what} with {math.prod(shape)} elements, expected at most "
                f"{MAX_ELEMENTS}; index all dimensions, or compute it for the whole tensor before, as in a variable of "
                "its own"
            )
        places = itertools.product(*[range(size) for size in shape])
        return Array(self, shape, [self.read(tensor, (*first, *place)) for place in places])

    # Functions

    def call(self, name: str, args: Tuple, kwargs: Dict[str, Any]) -> Any:
        """Applies a function of torch, by its name, to scalars."""
        if name == "__getitem__":
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            return _select(self, args[0], index) if isinstance(args[0], Array) else self.read(args[0], index)
        name = name.strip("_")
        function = _SHAPED.get(name) or _FUNCTIONS.get(name)
        if name in _FUNCTIONS and any(isinstance(arg, (Row, Array)) for arg in (*args, *kwargs.values())):
            function = _SHAPED.get(name) or functools.partial(_apply_to_elements, name=name)
        if function is None:
            raise TraceError(f"{self.function} calls torch's '{name}', which is not supported on scalars; {_KNOWN}")
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
    return f"tensor<{''.join('1x' if size == 1 else '?x' for size in sizes)}{_READ[_dtype(tensor)][0]}>"


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
    def apply(tracer: Tracer, a: Any, *, decimals: int = 0) -> Scalar:
        if decimals:
            raise TraceError(f"{tracer.function} rounds to {decimals} decimals; multiply, round and divide instead")
        a = tracer.lift(a)
        return a if a.kind != F32 else tracer.emit(f"{op} {a.name} : f32", F32)

    return apply


def _divide(tracer: Tracer, a: Any, b: Any, *, rounding_mode: Optional[str] = None) -> Scalar:
    if rounding_mode == "floor":
        return _floor_divide(tracer, a, b)
    if rounding_mode == "trunc":
        return _truncated_divide(tracer, a, b)
    if rounding_mode is not None:
        raise TraceError(f"{tracer.function} divides with rounding_mode='{rounding_mode}'; use 'floor' or 'trunc'")
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


def _truncated_divide(tracer: Tracer, a: Any, b: Any) -> Scalar:
    kinds = [tracer.lift(each).kind for each in (a, b)]
    if F32 in kinds:
        return tracer.call("trunc", (_divide(tracer, a, b),), {})
    # Of the absolute values, so that both ways to round are the same.
    quotient = _floor_divide(tracer, _absolute(tracer, a), abs(b) if isinstance(b, int) else _absolute(tracer, b))
    is_negative = tracer.call("bitwise_xor", (tracer.compare("lt", a, 0), tracer.compare("lt", b, 0)), {})
    return tracer.select(is_negative, _negate(tracer, quotient), quotient)


def _fmod(tracer: Tracer, a: Any, b: Any) -> Scalar:
    return tracer.call("sub", (a, tracer.call("mul", (_truncated_divide(tracer, a, b), b), {})), {})


def _shift(is_left: bool) -> Callable:
    def apply(tracer: Tracer, a: Any, b: Any) -> Scalar:
        if not isinstance(b, numbers.Integral) or not 0 <= b < 32 or tracer.lift(a).kind == F32:
            raise TraceError(f"{tracer.function} shifts; only integers can be shifted, by numbers from 0 to 31")
        # As shifts do, division rounds down.
        return tracer.call("mul" if is_left else "floor_divide", (a, 1 << int(b)), {})

    return apply


def _lerp(tracer: Tracer, input: Any, end: Any, weight: Any) -> Scalar:
    input = tracer.float(input)
    distance = tracer.call("sub", (tracer.float(end), input), {})
    return tracer.call("add", (input, tracer.call("mul", (tracer.float(weight), distance), {})), {})


def _atan2(tracer: Tracer, y: Any, x: Any) -> Scalar:
    """The arc tangent of the smaller by the greater magnitude, turned to where it belongs."""
    y, x = tracer.float(y), tracer.float(x)
    wide, high = _absolute(tracer, x), _absolute(tracer, y)
    is_steep = tracer.compare("gt", high, wide)
    longer, shorter = tracer.select(is_steep, high, wide), tracer.select(is_steep, wide, high)
    # Where both are 0 so is the angle.
    longer = tracer.select(tracer.compare("eq", longer, 0.0), 1.0, longer)
    angle = tracer.call("atan", (_divide(tracer, shorter, longer),), {})
    angle = tracer.select(is_steep, tracer.call("rsub", (angle, math.pi / 2), {}), angle)
    angle = tracer.select(tracer.compare("lt", x, 0.0), tracer.call("rsub", (angle, math.pi), {}), angle)
    return tracer.select(tracer.compare("lt", y, 0.0), _negate(tracer, angle), angle)


def _leaky_relu(tracer: Tracer, a: Any, negative_slope: Any = 0.01, inplace: bool = False) -> Scalar:
    a = tracer.float(a)
    return tracer.select(tracer.compare("gt", a, 0.0), a, tracer.call("mul", (a, negative_slope), {}))


def _gelu(tracer: Tracer, a: Any, *, approximate: str = "none") -> Scalar:
    a = tracer.float(a)
    call = tracer.call
    if approximate == "none":
        bell = call("erf", (call("mul", (a, math.sqrt(0.5)), {}),), {})
    elif approximate == "tanh":
        cube = call("mul", (_power(tracer, a, 3), 0.044715), {})
        bell = call("tanh", (call("mul", (call("add", (a, cube), {}), math.sqrt(2 / math.pi)), {}),), {})
    else:
        raise TraceError(f"{tracer.function} calls gelu with approximate='{approximate}'; use 'none' or 'tanh'")
    return call("mul", (call("mul", (a, 0.5), {}), call("add", (bell, 1.0), {})), {})


def _masked_fill(tracer: Tracer, a: Any, mask: Any, value: Any) -> Scalar:
    # The filled tensor keeps its type.
    a = tracer.lift(a)
    return tracer.select(mask, tracer.cast(tracer.lift(value), a.kind), a)


def _power(tracer: Tracer, a: Any, b: Any) -> Scalar:
    # Integers to the power of constants are integers.
    if tracer.lift(b).kind != F32:
        tracer.refuse_number(b, "an exponent")
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


# Of greater exponents, the square of an exponential overflows, and gradients of quotients are not numbers.
_MAX_EXPONENT = 80.0


def _sigmoid(tracer: Tracer, a: Any) -> Scalar:
    exponent = tracer.call("minimum", (_negate(tracer, tracer.float(a)), _MAX_EXPONENT), {})
    exponential = tracer.call("exp", (exponent,), {})
    return _divide(tracer, 1.0, tracer.call("add", (exponential, 1.0), {}))


def _to(tracer: Tracer, a: Any, dtype: Any = None, *_: Any, **options: Any) -> Scalar:
    dtype = options.get("dtype", options.get("other", dtype))
    if isinstance(dtype, Scalar):
        return tracer.cast(tracer.lift(a), dtype.kind)
    if _is_tensor(dtype) or isinstance(dtype, Row):
        dtype = dtype.dtype
    name = str(dtype).rpartition(".")[2]
    if name == "float32":
        return tracer.float(a)
    if name in ("float16", "bfloat16"):
        element = ELEMENTS[name][0]
        a = tracer.emit(f"arith.truncf {tracer.float(a).name} : f32 to {element}", element)
        return tracer.emit(f"arith.extf {a.name} : {element} to f32", F32)
    if name in ("int32", "int64"):
        return tracer.cast(tracer.lift(a), INDEX)
    if name == "bool":
        return tracer.truth(a)
    if dtype is None or type(dtype).__name__ == "device" or dtype in ("cpu", "cuda"):
        # To another device: scalars are where the kernel is.
        return tracer.lift(a)
    raise TraceError(
        f"{tracer.function} converts a scalar to {dtype}; use float32, float16, bfloat16, int32, int64 or bool"
    )


def _fill(tracer: Tracer, like: Any, value: Any, dtype: Any) -> Scalar:
    """A number of the type of ``like``, or of type ``dtype`` if it is given."""
    if dtype is not None:
        return _to(tracer, value, dtype)
    if not isinstance(like, Scalar):
        return _to(tracer, value, like.dtype)
    return {F32: tracer.float, BOOL: tracer.truth}.get(like.kind, lambda x: tracer.cast(tracer.lift(x), INDEX))(value)


def _check_size(tracer: Tracer, size: Any) -> None:
    if len(size) != 0:
        raise TraceError(
            f"{tracer.function} makes a tensor of shape {tuple(size)}; only scalars can be made, of shape ()"
        )


def _new(fill: Any) -> Callable:
    def apply(tracer: Tracer, a: Any, size: Any = (), *, dtype: Any = None, **_: Any) -> Scalar:
        _check_size(tracer, (size,) if isinstance(size, int) else size)
        return _fill(tracer, a, fill, dtype)

    return apply


def _new_full(tracer: Tracer, a: Any, size: Any, fill_value: Any, *, dtype: Any = None, **_: Any) -> Scalar:
    _check_size(tracer, size)
    return _fill(tracer, a, fill_value, dtype)


def _new_tensor(tracer: Tracer, a: Any, data: Any, *, dtype: Any = None, **_: Any) -> Scalar:
    return _fill(tracer, a, data, dtype)


def _like(fill: Any) -> Callable:
    return lambda tracer, a, *, dtype=None, **_: _full_like(tracer, a, fill, dtype=dtype)


def _full_like(tracer: Tracer, a: Any, fill_value: Any, *, dtype: Any = None, **_: Any) -> Scalar:
    return _fill(tracer, tracer.lift(a), fill_value, dtype)


def _make_array(tracer: Tracer, shape: Tuple[int, ...], elements: Sequence[Scalar]) -> Any:
    return Array(tracer, shape, elements) if shape else elements[0]


def _apply_to_elements(tracer: Tracer, *args: Any, name: str, **kwargs: Any) -> Any:
    """A function of scalars at each element of tensors, which are broadcast."""
    keeps = name in ("to", "type", "type_as")

    def expand(value: Any, is_first: bool) -> Any:
        is_whole = _is_tensor(value) and value.ndim != 0
        if isinstance(value, (Row, Array)) or is_whole:
            return value if keeps and not is_first else tracer.array(value, name)
        return value

    values = [expand(value, number == 0) for number, value in enumerate(args)]
    named = {key: expand(value, False) for key, value in kwargs.items()}
    arrays = [value for value in (*values, *named.values()) if isinstance(value, Array)]
    rank = max(len(array.shape) for array in arrays)
    sizes = [[1] * (rank - len(array.shape)) + list(array.shape) for array in arrays]
    shape = tuple([next((size for size in each if size != 1), 1) for each in zip(*sizes)])
    if any(size not in (1, wanted) for each in sizes for size, wanted in zip(each, shape)):
        shapes = " and ".join(_shape(array) for array in arrays)
        raise TraceError(f"{tracer.function} calls torch's '{name}' with shapes {shapes}, which do not broadcast")

    def find(value: Any, place: Tuple[int, ...]) -> Any:
        if not isinstance(value, Array):
            return value
        number = 0
        for size, index in zip(value.shape, place[rank - len(value.shape) :]):
            number = number * size + (index if size != 1 else 0)
        return value.elements[number]

    elements = [
        tracer.call(name, tuple([find(value, place) for value in values]), {
            key: find(value, place) for key, value in named.items()
        })
        for place in itertools.product(*[range(size) for size in shape])
    ]  # fmt: skip
    return _make_array(tracer, shape, elements)


def _normalize_dim(tracer: Tracer, dim: Any, rank: int, name: str) -> int:
    if not _is_integer(dim) or not -rank <= dim < rank:
        raise TraceError(f"{tracer.function} calls torch's '{name}' with dim={dim} of a tensor of {rank} dimensions")
    return int(dim) % rank


def _reduce(name: str, combine: Callable, kind: Optional[str] = None) -> Callable:
    """A reduction of all elements, or along dimensions. Elements become ``kind``; truth values are counted."""

    def apply(tracer: Tracer, input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        array = tracer.array(input, name)
        rank = len(array.shape)
        dims = range(rank) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
        # Torch takes the dimensions 0 and -1 of scalars.
        reduced = {_normalize_dim(tracer, each, max(rank, 1), name) for each in dims}
        groups: Dict[Tuple[int, ...], List[Scalar]] = {}
        for place, element in zip(itertools.product(*[range(size) for size in array.shape]), array.elements):
            element = element if dtype is None else _to(tracer, element, dtype)
            element = tracer.cast(element, kind or (INDEX if element.kind == BOOL else element.kind))
            groups.setdefault(tuple([0 if dim in reduced else at for dim, at in enumerate(place)]), []).append(element)
        if not groups:
            raise TraceError(f"{tracer.function} calls torch's '{name}' of no elements, in shape {_shape(array)}")
        shape = tuple([1 if number in reduced else size for number, size in enumerate(array.shape)])
        if not keepdim:
            shape = tuple([size for number, size in enumerate(array.shape) if number not in reduced])
        results = [functools.reduce(functools.partial(combine, tracer), group) for group in groups.values()]
        return _make_array(tracer, shape, results)

    return apply


def _combine_by(name: str) -> Callable:
    return lambda tracer, a, b: tracer.call(name, (a, b), {})


def _or_reduce(name: str, reduction: str) -> Callable:
    """The function of two scalars, or the reduction of all elements where there is one argument alone."""

    def apply(tracer: Tracer, input: Any, *args: Any, **kwargs: Any) -> Any:
        if not args and not kwargs:
            return _SHAPED[reduction](tracer, input)
        is_shaped = any(isinstance(value, (Row, Array)) for value in (input, *args, *kwargs.values()))
        if args and _is_integer(args[0]) and is_shaped or "dim" in kwargs:
            raise TraceError(f"{tracer.function} calls torch's '{name}' along a dimension; use '{reduction}'")
        return tracer.call(f"{name}imum", (input, *args), kwargs)

    return apply


def _norm(tracer: Tracer, input: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, **options: Any) -> Any:
    order = options.pop("ord", p)
    if order not in (1, 2, 2.0, "fro") or any(value is not None for value in options.values()):
        raise TraceError(f"{tracer.function} computes a norm of the order {order!r}; the orders 1 and 2 are supported")
    array = tracer.array(input, "norm")
    power = _absolute if order == 1 else lambda tracer, a: _power(tracer, a, 2)
    powers = Array(tracer, array.shape, [power(tracer, tracer.float(a)) for a in array.elements])
    total = _SHAPED["sum"](tracer, powers, dim, keepdim)
    return total if order == 1 else tracer.call("sqrt", (total,), {})


def _mean(tracer: Tracer, input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    array = tracer.array(input, "mean")
    total = _SHAPED["sum"](tracer, Array(tracer, array.shape, [tracer.float(x) for x in array.elements]), dim, keepdim)
    count = len(array.elements) // (len(total.elements) if isinstance(total, Array) else 1)
    return tracer.call("div", (total, count), {})


def _dot(name: str) -> Callable:
    def apply(tracer: Tracer, input: Any, other: Any) -> Any:
        if isinstance(input, Scalar) and isinstance(other, Scalar):
            raise TraceError(f"{tracer.function} calls torch's '{name}' of scalars: multiply by '*'")
        arrays = [tracer.array(value, name) for value in (input, other)]
        if len(arrays[0].shape) != 1 or arrays[0].shape != arrays[1].shape:
            raise TraceError(
                f"{tracer.function} calls torch's '{name}' with shapes {_shape(arrays[0])} and {_shape(arrays[1])}, "
                "expected two vectors of one size"
            )
        return _SHAPED["sum"](tracer, tracer.call("mul", tuple(arrays), {}))

    return apply


def _unsqueeze(tracer: Tracer, input: Any, dim: int) -> Array:
    array = tracer.array(input, "unsqueeze")
    place = _normalize_dim(tracer, dim, len(array.shape) + 1, "unsqueeze")
    return Array(tracer, (*array.shape[:place], 1, *array.shape[place:]), array.elements)


def _squeeze(tracer: Tracer, input: Any, dim: Any = None) -> Any:
    array = tracer.array(input, "squeeze")
    rank = len(array.shape)
    dims = range(rank) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
    removed = {_normalize_dim(tracer, each, max(rank, 1), "squeeze") for each in dims}
    shape = tuple([size for number, size in enumerate(array.shape) if number not in removed or size != 1])
    return _make_array(tracer, shape, array.elements)


def _select(tracer: Tracer, array: Array, index: Tuple) -> Any:
    """An element or a part of a small tensor, at constant places."""
    elements, shape = array.elements, array.shape
    for each in index:
        if not _is_integer(each) or not shape or not -shape[0] <= each < shape[0]:
            raise TraceError(
                f"{tracer.function} reads a tensor of shape {_shape(array)} that it has computed at {index!r}; use "
                "constant numbers inside of it, or read the captured tensor before"
            )
        size = len(elements) // shape[0]
        first = (int(each) % shape[0]) * size
        elements, shape = elements[first : first + size], shape[1:]
    return _make_array(tracer, shape, elements)


def _silu(tracer: Tracer, a: Any, inplace: bool = False) -> Scalar:
    a = tracer.float(a)
    return tracer.call("mul", (a, _sigmoid(tracer, a)), {})


def _softplus(tracer: Tracer, a: Any, beta: Any = 1.0, threshold: Any = 20.0) -> Scalar:
    a = tracer.float(a)
    scaled = tracer.call("mul", (a, beta), {})
    is_linear = tracer.compare("gt", scaled, threshold)
    # The other branch is finite, so that its gradient is, too.
    bent = tracer.call("log1p", (tracer.call("exp", (tracer.select(is_linear, 0.0, scaled),), {}),), {})
    return tracer.select(is_linear, a, _divide(tracer, bent, beta))


def _elu(
    tracer: Tracer, a: Any, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0, inplace: bool = False
) -> Scalar:
    a = tracer.float(a)
    is_positive = tracer.compare("gt", a, 0.0)
    bent = tracer.call("mul", (tracer.select(is_positive, 0.0, a), input_scale), {})
    bent = tracer.call("mul", (tracer.call("expm1", (bent,), {}), alpha), {})
    return tracer.call("mul", (tracer.select(is_positive, a, bent), scale), {})


def _log_sigmoid(tracer: Tracer, a: Any) -> Scalar:
    # As torch computes it: the exponent is never above 0.
    a = tracer.float(a)
    exponential = tracer.call("exp", (_negate(tracer, _absolute(tracer, a)),), {})
    return tracer.call("sub", (_clamp(tracer, a, max=0.0), tracer.call("log1p", (exponential,), {})), {})


def _mish(tracer: Tracer, a: Any, inplace: bool = False) -> Scalar:
    a = tracer.float(a)
    return tracer.call("mul", (a, tracer.call("tanh", (_softplus(tracer, a),), {})), {})


def _hardtanh(tracer: Tracer, a: Any, min_val: Any = -1.0, max_val: Any = 1.0, inplace: bool = False) -> Scalar:
    return _clamp(tracer, tracer.float(a), min_val, max_val)


def _hardsigmoid(tracer: Tracer, a: Any, inplace: bool = False) -> Scalar:
    shifted = _hardtanh(tracer, tracer.call("add", (tracer.float(a), 3.0), {}), 0.0, 6.0)
    return tracer.call("mul", (shifted, 1 / 6), {})


def _hardswish(tracer: Tracer, a: Any, inplace: bool = False) -> Scalar:
    return tracer.call("mul", (a, _hardsigmoid(tracer, a)), {})


def _sign(tracer: Tracer, a: Any) -> Scalar:
    a = tracer.lift(a)
    one, zero = (1.0, 0.0) if a.kind == F32 else (1, 0)
    negative = tracer.select(tracer.compare("lt", a, zero), -one, zero)
    return tracer.select(tracer.compare("gt", a, zero), one, negative)


def _hypot(tracer: Tracer, a: Any, b: Any) -> Scalar:
    """Of quotients by the larger magnitude, since squares overflow."""
    a, b = _absolute(tracer, tracer.float(a)), _absolute(tracer, tracer.float(b))
    longer, shorter = tracer.call("maximum", (a, b), {}), tracer.call("minimum", (a, b), {})
    divisor = tracer.select(tracer.compare("eq", longer, 0.0), 1.0, longer)
    square = _power(tracer, _divide(tracer, shorter, divisor), 2)
    return tracer.call("mul", (longer, tracer.call("sqrt", (tracer.call("add", (square, 1.0), {}),), {})), {})


def _add_scaled(op: str) -> Callable:
    def apply(tracer: Tracer, a: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Scalar:
        return tracer.call("add", (a, tracer.call("mul", (tracer.call(op, (tensor1, tensor2), {}), value), {})), {})

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
    "relu": lambda tracer, a, inplace=False: _clamp(tracer, a, min=0),
    "sigmoid": _sigmoid,
    "minimum": _extremum("arith.minimumf", "arith.minsi"),
    "maximum": _extremum("arith.maximumf", "arith.maxsi"),
    "clamp": _clamp,
    "where": _where,
    "isinf": _is(math.inf),
    "isfinite": lambda tracer, a: tracer.compare("lt", tracer.call("abs", (tracer.float(a),), {}), math.inf),
    "sign": _sign,
    "hypot": _hypot,
    "addcmul": _add_scaled("mul"),
    "addcdiv": _add_scaled("div"),
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
    "new_full": _new_full,
    "new_tensor": _new_tensor,
    "ones_like": _like(1),
    "zeros_like": _like(0),
    "full_like": _full_like,
    "masked_fill": _masked_fill,
    "fmod": _fmod,
    "lerp": _lerp,
    "atan2": _atan2,
    "leaky_relu": _leaky_relu,
    "gelu": _gelu,
    "silu": _silu,
    "softplus": _softplus,
    "elu": _elu,
    "log_sigmoid": _log_sigmoid,
    "logsigmoid": _log_sigmoid,
    "mish": _mish,
    "hardtanh": _hardtanh,
    "relu6": lambda tracer, a, inplace=False: _hardtanh(tracer, a, 0.0, 6.0),
    "hardsigmoid": _hardsigmoid,
    "hardswish": _hardswish,
    "bitwise_left_shift": _shift(is_left=True),
    "bitwise_right_shift": _shift(is_left=False),
    "dim": lambda tracer, a: 0,
    "numel": lambda tracer, a: 1,
    "size": lambda tracer, a: (),
    "contiguous": lambda tracer, a: tracer.lift(a),
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
    "max": "maximum", "to_dtype": "to", "type_as": "to", "arctan2": "atan2", "nelement": "numel",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}.items():  # fmt: skip
    _FUNCTIONS[_alias] = _FUNCTIONS[_name]


#: Functions that know shapes of small tensors.
_SHAPED: Dict[str, Callable] = {
    "any": _reduce("any", _combine_by("logical_or"), BOOL),
    "all": _reduce("all", _combine_by("logical_and"), BOOL),
    "sum": _reduce("sum", _combine_by("add")),
    "amax": _reduce("amax", _combine_by("maximum")),
    "amin": _reduce("amin", _combine_by("minimum")),
    "prod": _reduce("prod", _combine_by("mul")),
    "max": _or_reduce("max", "amax"),
    "min": _or_reduce("min", "amin"),
    "norm": _norm,
    "linalg_vector_norm": _norm,
    "linalg_norm": _norm,
    "mean": _mean,
    **{name: _dot(name) for name in ("dot", "inner", "vdot", "matmul")},
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
}


def _reversed(name: str) -> Callable:
    return lambda tracer, a, b: tracer.call(name, (b, a), {})


for _name in ("sub", "div", "pow", "floordiv", "mod", "truediv", "add", "mul", "and", "or", "xor"):
    _FUNCTIONS["r" + _name] = _reversed(_name)
_KNOWN = "arithmetic, comparisons, torch.where and functions of single numbers are"
