# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From tensors to calls of compiled functions.

A ``Plan`` is made once for tensors of some shapes, strides, dtypes and device.
It checks them, compiles what they need, and keeps the C views of the arguments,
so that a later call only fills in addresses.
"""

import contextlib
import ctypes
import dataclasses
import functools
import math
import operator
import re
import warnings
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from attn.artifact import Function, TensorView, element_types
from attn.builder import Attention
from attn.compiler import compile, compile_in_background, find_gpu_target
from attn.errors import AttnError, CompileError, UnsupportedError
from attn.masks import Mask
from attn.torch.checks import with_unit_stride
from attn.trace import ELEMENTS, capture_type

_NAMES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
#: The dtypes of 8 bits that query, key and value may have.
FLOAT8 = {torch.float8_e4m3fn: "f8E4M3FN", torch.float8_e5m2: "f8E5M2"}
# Bytes that GPUs copy at a time: addresses and strides are multiples of this.
_GPU_ALIGNMENT = 16
# Random numbers of dropout have 8 bits if they meet the probability as closely as the compiler demands.
_DROPOUT_TOLERANCE = 0.05

# Functions that torch's own compiled code calls: the public functions take twice as long.
_empty_strided_cpu = torch._C._dynamo.guards._empty_strided_cpu
_empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda
_get_current_device = getattr(torch._C, "_cuda_getDevice", None)
_get_current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
_VIEW_WORDS = ctypes.sizeof(TensorView) // 8


# How many operands each clause has, in order; they follow the operands of the mask.
CLAUSES = {
    "state": 2, "sinks": 1, "heads": 1, "identity": 1, "packed": 2, "padded": 2, "packed_queries": 2, "key_lengths": 1,
    "page_table": 1, "positions": 1, "values_in_keys": 0, "same_sequences": 0,
}  # fmt: skip
#: Entries of the positions of a shard: first query, key, batch entry and query head, numbers of queries and keys.
NUM_POSITIONS = 6
#: The clauses of sequences of different lengths.
SEQUENCES = ("packed", "padded", "packed_queries")
#: The most queries behind other keys, as in decoding, for each number of which there is a kernel. One kernel takes any
#: number of more queries.
MAX_FEW_QUERIES = 64


class Kind(NamedTuple):
    """The kind of attention, without shapes: the parameters of ``attn.Attention``."""

    mask: str = ""
    score_mod: str = ""
    mask_mod: str = ""
    scale: Optional[float] = None
    dropout_p: float = 0.0
    #: How many of the captured tensors, the first ones, ``mask`` reads.
    reads: int = 0
    #: Names of clauses in the order of ``CLAUSES``, with a space between them, whose operands are the next ones.
    clauses: str = ""
    #: The body of a region on elements of the output.
    epilogue: str = ""
    #: Whether gradients are deterministic, whatever the mode of torch is.
    deterministic: bool = False
    #: The element type of the output, where it is not ``output_dtype``: "f32" or of 8 bits.
    out: str = ""

    @property
    def first_capture(self) -> int:
        """The number of the first of the captured tensors that regions read."""
        return self.reads + sum([CLAUSES[clause] for clause in self.clauses.split()])

    @property
    def sequences(self) -> str:
        """How sequences of different lengths are stored, if there are any."""
        return next((clause for clause in self.clauses.split() if clause in SEQUENCES), "")

    @property
    def packs_queries(self) -> bool:
        """Whether the queries of all sequences are in one batch entry."""
        return self.sequences in ("packed", "packed_queries")


class Mode(NamedTuple):
    """The results that are wanted."""

    with_lse: bool = False
    #: Numbers of the captures whose gradients are wanted in addition to the gradients of query, key and value; None if
    #: no gradients are.
    gradients: Optional[Tuple[int, ...]] = None
    #: Whether the block mask is given.
    planned: bool = False


def describe(tensor: Tensor) -> Tuple:
    """All properties of a tensor that a plan depends on. The device is a number: -1 for host memory."""
    return (tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device())


def kernel_dtypes(device: torch.device) -> Tuple[torch.dtype, ...]:
    """The dtypes of query, key and value that kernels for a device take."""
    if device.type not in ("cuda", "cpu", "meta"):
        return ()
    return (torch.float32, torch.bfloat16, torch.float16)


def multiplicand_dtypes(device: torch.device) -> Tuple[torch.dtype, ...]:
    """The same with dtypes of 8 bits, which the compiler refuses for GPUs before Hopper."""
    return kernel_dtypes(device) + tuple(FLOAT8)


def output_dtype(query: Tensor) -> torch.dtype:
    """The dtype of the output: query's, or torch.bfloat16 for a query of 8 bits."""
    return torch.bfloat16 if query.dtype in FLOAT8 else query.dtype


def matmul_precision(tensor: Tensor) -> str:
    """How GPU kernels multiply the elements of a tensor, as torch's own matmuls do: "high", or "" for the highest
    precision. Torch has a third level, "medium", below "high", which stands for "high" here."""
    if tensor.dtype is not torch.float32 or torch.get_float32_matmul_precision() == "highest":
        return ""
    return "high"


def find_target(device: torch.device) -> str:
    """The target of the compiler for a device."""
    if device.type == "cpu":
        return "host"
    capability = torch.cuda.get_device_capability(device)
    target = find_gpu_target(*capability)
    if target is not None:
        return target
    raise UnsupportedError(
        f"{torch.cuda.get_device_name(device)} has compute capability {capability[0]}.{capability[1]}; use a GPU with "
        "8.0 or later, or tensors on the CPU"
    )


#: Rounds of the generator of dropout.
DROPOUT_ROUNDS = 6


def find_dropout_threshold(p: float) -> Tuple[int, int]:
    """The numbers below which random numbers of so many bits drop a probability."""
    for bits in (8, 16):
        threshold = int(p * 2**bits + 0.5)
        if 0 < threshold < 2**bits and abs(threshold / 2**bits - p) <= _DROPOUT_TOLERANCE * p:
            return threshold, bits
    raise UnsupportedError(
        f"dropout_p is {p}, which random numbers of 16 bits do not meet; it must be 0, or from 0.00016 to 0.99999"
    )


def dropout_attribute(p: float) -> str:
    """Dropout with this probability as the compiler's attribute.

    Of the generators, `arx` takes less time in four of six cases of attention
    with its gradient, by 1.0 to 1.7 %, and 0.6 and 1.3 % more in the other two
    (docs/performance.md, Dropout).
    """
    threshold, bits = find_dropout_threshold(p)
    return f"#attn.dropout<p = {threshold / 2**bits!r}, rng = #attn.arx<rounds = {DROPOUT_ROUNDS}>, bits = {bits}>"


def read_mask(mask: Mask, argument: str) -> Tuple[str, Tuple[Tensor, ...]]:
    """A mask with a name, given as ``argument``: its attribute, and the tensors that it reads."""
    text, reads = mask.attribute()
    for read in reads:
        if not isinstance(read, Tensor) or read.dtype != torch.int32:
            kind = read.dtype if isinstance(read, Tensor) else type(read).__name__
            raise AttnError(f"{argument} reads a {kind}; give the mask tensors of torch.int32")
    return text, tuple(reads)


def find_operands(captures: Sequence[Tensor], kind: Kind) -> Dict[str, Sequence[Tensor]]:
    """The operands of each clause."""
    operands, number = {}, kind.reads
    for clause in kind.clauses.split():
        operands[clause] = captures[number : number + CLAUSES[clause]]
        number += CLAUSES[clause]
    return operands


# Names of the operands of clauses in diagnostics.
_OPERANDS = {
    "sinks": "sinks",
    "heads": "head_map",
    "identity": "identity",
    "packed": "cu_seqlens",
    "packed_queries": "cu_seqlens_q",
    "padded": "the tensor of lengths",
    "key_lengths": "cache_seqlens",
    "page_table": "block_table",
    "positions": "positions",
}


def check_clauses(kind: Kind, query: Tensor, captures: Sequence[Tensor]) -> Dict[str, str]:
    """The clauses, with the types of their operands where heads have an element each; refuses what does not fit."""
    types: Dict[str, str] = {}
    number = kind.reads
    heads = query.shape[1]
    entries = query.shape[0]
    for clause in kind.clauses.split():
        operands = captures[number : number + CLAUSES[clause]]
        number += len(operands)
        if clause == "state":
            types[clause] = _NAMES[operands[0].dtype]
            continue
        is_integer = clause not in ("sinks", "identity")
        for operand in operands:
            if is_integer and operand.dtype != torch.int32:
                raise AttnError(f"{_OPERANDS[clause]} has the dtype {operand.dtype}, expected torch.int32")
            if not is_integer and operand.dtype not in _NAMES:
                raise AttnError(f"{_OPERANDS[clause]} has the dtype {operand.dtype}, expected one of bf16, f16 and f32")
            if clause == "page_table":
                if operand.ndim != 2 or operand.shape[0] != entries:
                    raise AttnError(
                        f"{_OPERANDS[clause]} has the shape {tuple(operand.shape)}, expected ({entries}, pages "
                        "of an entry)"
                    )
                continue
            by_entry = (query.shape[0],)
            expected = {
                "packed": None, "padded": by_entry, "packed_queries": None, "key_lengths": by_entry,
                "positions": (NUM_POSITIONS,),
            }.get(clause, (heads,))  # fmt: skip
            if operand.ndim != 1 or (expected is not None and tuple(operand.shape) != tuple(expected)):
                wanted = expected or "(sequences + 1,)"
                raise AttnError(f"{_OPERANDS[clause]} has the shape {tuple(operand.shape)}, expected {wanted}")
        if clause == "packed_queries":
            entries = operands[1].shape[0]
            if operands[0].shape[0] != entries + 1:
                raise AttnError(
                    f"cu_seqlens_q has the shape {tuple(operands[0].shape)}, expected ({entries + 1},): one more than "
                    "the lengths of keys"
                )
        elif len(operands) == 2 and operands[0].shape != operands[1].shape:
            raise AttnError(
                f"{_OPERANDS[clause]} of queries and keys have the shapes {tuple(operands[0].shape)} and "
                f"{tuple(operands[1].shape)}; make them equal"
            )
        types[clause] = f"tensor<{heads}x{'i32' if is_integer else _NAMES[operands[0].dtype]}>"
    return types


def check_state(query: Tensor, value: Tensor, state_out: Tensor, state_lse: Tensor, allows_double: bool) -> None:
    """Refuses a state that is no result of attention of these queries."""
    rows = tuple(query.shape[:3])
    for name, tensor, shape, dtypes in (
        ("out", state_out, (*rows, value.shape[3]), tuple(_NAMES)), ("lse", state_lse, rows, (torch.float32,))
    ):  # fmt: skip
        if tuple(tensor.shape) != shape:
            raise AttnError(f"{name} of state has the shape {tuple(tensor.shape)}, expected {shape}")
        if tensor.dtype not in dtypes and not (allows_double and tensor.dtype == torch.float64):
            raise AttnError(
                f"{name} of state has the dtype {tensor.dtype}, expected {' or '.join(str(dtype) for dtype in dtypes)}"
            )


def has_values_in_keys(key: Tensor, value: Tensor) -> bool:
    """Whether each row of values is the beginning of a longer row of keys in memory. Kernels then read keys alone."""
    return (
        value.data_ptr() == key.data_ptr()
        and value.shape[3] < key.shape[3]
        and value.shape[:3] == key.shape[:3]
        and value.stride() == key.stride()
        and value.dtype == key.dtype
        and key.element_size() == 2
    )


def find_clauses(
    query: Tensor,
    key: Tensor,
    sinks: Optional[Tensor],
    head_map: Optional[Tensor],
    identity: Optional[Tensor],
    query_lengths: Optional[Tensor] = None,
    key_lengths: Optional[Tensor] = None,
    sequences: str = "padded",
    positions: Optional[Tensor] = None,
    state: Optional[Tuple[Tensor, Tensor]] = None,
) -> Tuple[str, List[Tensor]]:
    """The clauses of attention that there are operands for, and their operands."""
    clauses: List[str] = []
    operands: List[Tensor] = []
    if state is not None:
        if not isinstance(state, tuple) or [isinstance(tensor, Tensor) for tensor in state] != [True, True]:
            given = f"a {type(state).__name__}"
            if isinstance(state, tuple):
                given = f"({', '.join(type(part).__name__ for part in state)})"
            raise AttnError(f"state is {given}; pass a tuple of two tensors, out and lse")
        clauses.append("state")
        operands += [with_unit_stride(tensor, f"{name} of state") for name, tensor in zip(("out", "lse"), state)]
    for clause, name, tensor in (
        ("sinks", "sinks", sinks), ("heads", "head_map", head_map), ("identity", "identity", identity)
    ):  # fmt: skip
        if tensor is not None:
            if not isinstance(tensor, Tensor):
                kind = type(tensor).__name__
                raise AttnError(f"{name} is a {kind}; pass a tensor with an element for each query head")
            clauses.append(clause)
            operands.append(with_unit_stride(tensor, name))
    if query_lengths is not None or key_lengths is not None:
        for name, tensor, of in (("query_lengths", query_lengths, query), ("key_lengths", key_lengths, key)):
            if tensor is None:
                tensor = torch.full((of.shape[0],), of.shape[2], dtype=torch.int32, device=of.device)
            elif not isinstance(tensor, Tensor):
                kind = type(tensor).__name__
                raise AttnError(f"{name} is a {kind}; pass a tensor with an element for each batch entry")
            operands.append(with_unit_stride(tensor, name))
        clauses.append(sequences)
    if positions is not None:
        if not isinstance(positions, Tensor):
            raise AttnError(f"positions is a {type(positions).__name__}; pass a tensor of {NUM_POSITIONS} numbers")
        clauses.append("positions")
        operands.append(with_unit_stride(positions, "positions"))
    return " ".join(clauses), operands


def check_tensors(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    captures: Sequence[Tensor],
    has_head_map: bool = False,
    allows_double: bool = False,
    is_paged: bool = False,
    entries: Optional[int] = None,
) -> None:
    """Refuses arguments that no kernel takes, and says what to change. ``entries`` is the number of batch entries of
    keys, if queries have another number of them."""
    names = ["query", "key", "value"] + [f"captured tensor {i}" for i in range(len(captures))]
    for name, tensor in zip(names, (query, key, value, *captures)):
        if tensor.device != query.device:
            raise AttnError(
                f"{name} is on {tensor.device} and query on {query.device}; move them to one device, as in "
                f"{'tensor' if ' ' in name else name}.to(query.device)"
            )
        if tensor.ndim and tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
            raise AttnError(
                f"{name} has a last dimension with a stride of {tensor.stride(-1)}, which must be 1; call "
                ".contiguous() on it"
            )
    if query.device.type not in ("cpu", "cuda", "meta"):
        raise UnsupportedError(f"tensors are on {query.device}; move them to a CUDA device or the CPU")
    allowed = multiplicand_dtypes(query.device) + ((torch.float64,) if allows_double else ())
    for name, tensor in zip(names[:3], (query, key, value)):
        if tensor.ndim != 4:
            raise AttnError(f"{name} has {tensor.ndim} dimensions; it needs 4: batch, heads, positions and head dim")
        if tensor.dtype not in allowed:
            raise UnsupportedError(
                f"{name} has the dtype {tensor.dtype}, which {query.device.type} kernels do not take; convert it to "
                + " or ".join(str(dtype) for dtype in allowed)
            )
        # Keys and values of a wider query may have 8 bits. With a query of 8 bits, each has its own format.
        wanted = key if name == "value" and key.dtype in FLOAT8 else query
        is_narrow = name == "key" and key.dtype in FLOAT8 and query.dtype in _NAMES
        are_narrow = query.dtype in FLOAT8 and tensor.dtype in FLOAT8
        if tensor.dtype != wanted.dtype and not is_narrow and not are_narrow:
            of = "key" if wanted is key else "query"
            raise AttnError(f"{name} has the dtype {tensor.dtype} and {of} {wanted.dtype}; convert them to one")
    for name, tensor in (("query", query), ("value", value)):
        if tensor.shape[3] == 0:
            raise AttnError(f"{name} has a head dim of 0; it must be at least 1")
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.shape[1] == 0:
            raise AttnError(f"{name} has 0 heads; it needs at least 1")
    for name, tensor in zip(names[3:], captures):
        if element_name(tensor) not in ELEMENTS:
            raise UnsupportedError(f"{name} has the dtype {tensor.dtype}; convert it to one of {', '.join(ELEMENTS)}")
    if is_paged:
        if key.shape[0] != value.shape[0]:
            raise AttnError(f"key has {key.shape[0]} pages and value {value.shape[0]}; they need the same number")
    elif entries is not None:
        if key.shape[0] != entries or value.shape[0] != entries:
            raise AttnError(f"key and value have {key.shape[0]} and {value.shape[0]} batch entries, expected {entries}")
    elif key.shape[0] != query.shape[0] or value.shape[0] != query.shape[0]:
        raise AttnError(f"batch sizes differ: {query.shape[0]}, {key.shape[0]} and {value.shape[0]}")
    if has_head_map and key.shape[1] != value.shape[1]:
        raise AttnError(
            f"key has {key.shape[1]} heads and value {value.shape[1]}; with head_map they need the same number"
        )
    for name, tensor in (("key", key), ("value", value)):
        if not has_head_map and query.shape[1] % tensor.shape[1] != 0:
            raise AttnError(
                f"{name} has {tensor.shape[1]} heads, which do not divide the {query.shape[1]} heads of query"
            )
    if key.shape[2] != value.shape[2]:
        raise AttnError(f"key has {key.shape[2]} positions and value {value.shape[2]}; they need the same number")
    if query.shape[3] != key.shape[3]:
        raise AttnError(f"query has the head dim {query.shape[3]} and key {key.shape[3]}; they need the same one")


def check_kind(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    captures: Sequence[Tensor],
    kind: Kind,
    allows_double: bool = False,
) -> None:
    """``check_tensors`` for a kind of attention. Where double precision is allowed, captured tensors may have any
    dtype."""
    operands = find_operands(captures, kind)
    entries = operands["packed_queries"][1].shape[0] if "packed_queries" in operands else None
    checked = () if allows_double else captures
    check_tensors(query, key, value, checked, "heads" in operands, allows_double, "page_table" in operands, entries)
    if "state" in operands:
        check_state(query, value, *operands["state"], allows_double)


def element_name(tensor: Tensor) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def dense_like(tensor: Tensor, sizes: Sequence[int]) -> Tuple[int, ...]:
    """Strides of a dense tensor of these sizes with the order of dimensions of ``tensor``, whose last dimension stays
    last. So views, such as heads of a projection, are undone without a copy."""
    strides = [0] * len(sizes)
    order = sorted(range(len(sizes) - 1), key=lambda dim: tensor.stride(dim))
    step = 1
    for dim in [len(sizes) - 1] + order:
        strides[dim] = step
        step *= max(sizes[dim], 1) if isinstance(sizes[dim], int) else sizes[dim]
    return tuple(strides)


class Layout(NamedTuple):
    """A tensor to be made. If a kernel does not write all elements, the others are ``fill``."""

    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    fill: Optional[float] = None

    def make(self) -> Tensor:
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=self.device)


#: The dtypes of outputs that ``Kind.out`` names.
_OUTS = {"f32": torch.float32, **{name: dtype for dtype, name in FLOAT8.items()}}


def output_layouts(query: Tensor, value: Tensor, with_lse: bool, out: str = "") -> List[Layout]:
    """Layouts of ``out`` and, if asked for, ``lse``. The element type of the output is named as in ``Kind.out``."""
    batch, heads, queries, _ = query.shape
    shape = (batch, heads, queries, value.shape[3])
    dtype = _OUTS[out] if out else output_dtype(query)
    layouts = [Layout(shape, dense_like(query, shape), dtype, query.device)]
    if with_lse:
        strides = (heads * queries, queries, 1)
        layouts.append(Layout((batch, heads, queries), strides, torch.float32, query.device))
    return layouts


def gradient_layout(tensor: Tensor) -> Layout:
    """The layout of the gradient of a tensor."""
    shape = tuple(tensor.shape)
    dtype = torch.float32 if tensor.dtype in FLOAT8 else tensor.dtype
    return Layout(shape, dense_like(tensor, shape) if shape else (), dtype, tensor.device)


class _Frame:
    """C views of arguments, all but their addresses filled in."""

    def __init__(self, arguments: Sequence[Tuple]):
        self._made = [TensorView.make(*argument) for argument in arguments]
        views = (TensorView * len(arguments))(*self._made)
        self._pointers = (ctypes.POINTER(TensorView) * len(arguments))(*map(ctypes.pointer, views))
        #: The views as numbers of eight bytes; a view begins with its address.
        self.words = memoryview(views).cast("B").cast("Q")
        #: The argument of C functions.
        self.address = ctypes.addressof(self._pointers)


class Binding:
    """A compiled function with inputs and outputs of fixed layouts.

    ``state`` is the number of the input, if there is one, that has seed and offset,
    two arguments of the function.
    """

    def __init__(
        self,
        function: Function,
        inputs: Sequence[Tensor],
        outputs: Sequence[Layout],
        state: Optional[int] = None,
    ):
        self._call = function.call
        self._last_error = function.last_error
        self._device = inputs[0].get_device()
        layouts = [
            # Seed and offset may be no tensor.
            *(() if number == state else describe(tensor) for number, tensor in enumerate(inputs)),
            *((layout.shape, layout.strides, layout.dtype, self._device) for layout in outputs),
        ]
        # Numbers of the words that have the addresses of tensors.
        self._places = [number * _VIEW_WORDS for number in range(len(layouts))]
        self._seed = 0
        if state is not None:
            number = ((), (), torch.int64, self._device)
            layouts[state : state + 1] = [number, number]
            self._seed = self._places[state]
            self._places[state + 1 :] = [place + _VIEW_WORDS for place in self._places[state + 1 :]]
        ranks = [len(dims) for _, _, dims, _ in function.args]
        self._arguments = [self._as_argument(rank, *layout) for rank, layout in zip(ranks, layouts)]
        self._allocate = _empty_strided_cpu if self._device < 0 else _empty_strided_cuda
        self._outputs = [(layout.shape, layout.strides, layout.dtype) for layout in outputs]
        self._fills = [(number, layout.fill) for number, layout in enumerate(outputs) if layout.fill is not None]
        self._count = len(self._arguments)
        # Frames that no call is using: calls may overlap in time.
        self._free: List[_Frame] = []

    @staticmethod
    def _as_argument(
        rank: int, shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype, device: int
    ) -> Tuple:
        if not shape and rank == 1:
            shape, strides = (1,), (1,)
        return tuple(shape), tuple(strides), element_types()[dtype], device

    def __call__(self, inputs: Sequence[Tensor], outputs: Optional[List[Tensor]] = None) -> List[Tensor]:
        """Runs it, into ``outputs`` of the right layouts if they are given."""
        device = self._device
        stream = None
        if device >= 0:
            if _get_current_device() != device:
                with torch.cuda.device(device):
                    return self(inputs, outputs)
            stream = _get_current_stream(device)
        if outputs is None:
            outputs = [self._allocate(*layout) for layout in self._outputs]
            for number, fill in self._fills:
                outputs[number].fill_(fill)
        try:
            frame = self._free.pop()
        except IndexError:
            frame = _Frame(self._arguments)
        words = frame.words
        for place, tensor in zip(self._places, (*inputs, *outputs)):
            words[place] = tensor.data_ptr()
        seed = self._seed
        if seed:
            words[seed + _VIEW_WORDS] = words[seed] + 8
        status = self._call(frame.address, self._count, stream)
        self._free.append(frame)
        if status:
            raise AttnError(self._last_error().decode(errors="replace"))
        return outputs


class Functions(NamedTuple):
    """Compiled functions: the latter two are optional."""

    forward: Function
    #: Waits for the function that another thread may be compiling.
    backward: Optional[Callable[[], Function]] = None
    #: Makes the block mask.
    plan: Optional[Function] = None


# Suffixes of the names of functions that `attn-differentiate` adds, by its mode.
_SUFFIXES = {"forward": "fwd", "backward": "bwd"}


def _differentiate(description: Attention, gradients: Tuple[int, ...], deterministic: bool, mode: str) -> str:
    """The passes that add one of the functions forward and backward, and remove the given one."""
    name = description.NAME
    wanted = ",".join(str(argument) for argument in (0, 1, 2, *(3 + capture for capture in gradients)))
    how = f"mode={mode}{' deterministic' if deterministic else ''}"
    return (
        f"attn-differentiate{{function={name} arguments={wanted} {how}}},"
        f"symbol-privatize{{exclude={name}_{_SUFFIXES[mode]}}},symbol-dce"
    )


@contextlib.contextmanager
def _explain_gradients(gradients: Tuple[int, ...], deterministic: bool) -> Iterator[None]:
    """Says what to do if gradients of captured tensors cannot be compiled."""
    try:
        yield
    except CompileError as error:
        if not gradients:
            raise
        how = "deterministically" if deterministic else "here"
        raise UnsupportedError(
            f"gradients of captured tensors and of attn_mask cannot be computed {how} ({error}); call .detach() on "
            "them if they are not wanted"
        ) from error


@functools.lru_cache(maxsize=None)
def find_backward(
    description: Attention, target: str, gradients: Tuple[int, ...], planned: bool, deterministic: bool
) -> Callable[[], Function]:
    """The compiled function backward: its compilation starts now, and a call waits for the end."""
    options = {"explicit_block_masks": True} if planned else None
    passes = _differentiate(description, gradients, deterministic, "backward")
    wait = compile_in_background(description, target=target, passes=passes, options=options)

    def find() -> Function:
        with _explain_gradients(gradients, deterministic):
            return wait()[f"{description.NAME}_bwd"]

    return find


@functools.lru_cache(maxsize=None)
def find_functions(
    description: Attention,
    target: str,
    gradients: Optional[Tuple[int, ...]],
    planned: bool,
    deterministic: bool = False,
) -> Functions:
    """The compiled functions, the backward one only with gradients. While this one waits for the forward function,
    another thread compiles the backward one."""
    name = description.NAME
    options = {"explicit_block_masks": True} if planned else None
    if gradients is None:
        artifact = compile(description, target=target, options=options)
        return Functions(artifact[name], plan=artifact.functions.get(f"{name}_block_mask"))
    passes = _differentiate(description, gradients, deterministic, "forward")
    backward = find_backward(description, target, gradients, planned, deterministic)
    with _explain_gradients(gradients, deterministic):
        artifact = compile(description, target=target, passes=passes, options=options)
    return Functions(artifact[f"{name}_fwd"], backward, artifact.functions.get(f"{name}_fwd_block_mask"))


def _block_mask_layout(function: Function, query: Tensor, key: Tensor) -> Layout:
    """The layout of the output of a function that makes a block mask: its sizes are numbers of tiles."""
    lengths = {"batch": query.shape[0], "queries": query.shape[2], "keys": key.shape[2]}

    def measure(dim: int) -> int:
        if dim >= 0:
            return dim
        name = function.symbols[-1 - dim]
        tiles = re.fullmatch(r"ceil\((\w+) / (\d+)\)(?: \+ (\d+))?", name)
        if tiles is None:
            return lengths[name]
        return -(-lengths[tiles[1]] // int(tiles[2])) + int(tiles[3] or 0)

    shape = tuple(measure(dim) for dim in function.args[-1][2])
    strides = [1] * len(shape)
    for dim in reversed(range(len(shape) - 1)):
        strides[dim] = strides[dim + 1] * max(shape[dim + 1], 1)
    return Layout(shape, tuple(strides), torch.int32, query.device)


# Targets that plans compile for in addition to the device of their tensors.
_further_targets: Tuple[str, ...] = ()


def further_targets() -> Tuple[str, ...]:
    return _further_targets


# Plans of operators other than attention.
_other_plans: List[Dict[Tuple, Binding]] = []


def make_plans() -> Dict[Tuple, Binding]:
    """A dictionary for the plans of an operator, which ``compile_for`` empties."""
    _other_plans.append({})
    return _other_plans[-1]


def find_for_device(find: Callable[..., Function], device: torch.device, description: Any, *options: Any) -> Function:
    """``find(description, target, *options)`` for the target of a device, and also for further targets."""
    for target in _further_targets:
        find(description, target, *options)
    return find(description, find_target(device), *options)


@contextlib.contextmanager
def compile_for(target: str) -> Iterator[None]:
    """Lets calls of all operators in a ``with`` statement compile their kernels for another target, too.

    Results are those of the tensors' own device. A run of a model on the CPU, with
    small tensors in the dtype of the GPU, so fills the cache for machines that have
    a GPU and no compiler. Backward passes in the statement compile their kernels.
    """
    global _further_targets
    before = _further_targets
    # Existing plans have compiled already.
    _forget_plans()
    for plans in _other_plans:
        plans.clear()
    _further_targets = (*before, target)
    try:
        yield
    finally:
        _further_targets = before


def _compile_all(description: Attention, target: str, mode: Mode, deterministic: bool) -> None:
    """Compiles what calls on a device of this target will need."""
    wanted = [find_functions(description, target, mode.gradients, mode.planned, deterministic).backward]
    if mode.gradients is not None and torch.are_deterministic_algorithms_enabled():
        wanted.append(find_backward(description, target, mode.gradients, mode.planned, deterministic=True))
    for backward in wanted:
        if backward is not None:
            backward()


def describe_attention(
    kind: Kind, with_lse: bool, query: Tensor, key: Tensor, value: Tensor, captures: Sequence[Tensor]
) -> Attention:
    """Attention of a kind for tensors of some heads and head dims, whose batch and lengths may vary."""
    if "state" in kind.clauses.split():
        check_state(query, value, *find_operands(captures, kind)["state"], allows_double=False)
    clauses = check_clauses(kind, query, captures)
    is_paged = "page_table" in clauses
    check_kind(query, key, value, captures, kind)
    names = {**_NAMES, **FLOAT8}
    return Attention(
        dtype=names[query.dtype],
        key_dtype="" if key.dtype == query.dtype else names[key.dtype],
        value_dtype="" if value.dtype == key.dtype else names[value.dtype],
        out_dtype=kind.out or ("" if query.dtype in _NAMES else _NAMES[output_dtype(query)]),
        epilogue=kind.epilogue,
        query_heads=query.shape[1],
        key_heads=key.shape[1],
        query_dim=query.shape[3],
        value_dim=value.shape[3],
        mask=kind.mask,
        scale=kind.scale,
        score_mod=kind.score_mod,
        mask_mod=kind.mask_mod,
        captures=tuple(capture_type(tensor) for tensor in captures[kind.first_capture :]),
        reads=tuple(capture_type(tensor) for tensor in captures[: kind.reads]),
        sinks=clauses.get("sinks", ""),
        head_map=clauses.get("heads", ""),
        identity=clauses.get("identity", ""),
        sequences=kind.sequences,
        same_sequences="same_sequences" in clauses,
        key_lengths="key_lengths" in clauses,
        page_size=key.shape[2] if is_paged else None,
        positions="positions" in clauses,
        state_dtype=clauses.get("state", ""),
        with_lse=with_lse,
        dropout=dropout_attribute(kind.dropout_p) if kind.dropout_p else "",
        batch=1 if kind.packs_queries else None,
        precision=matmul_precision(query),
        values_in_keys="values_in_keys" in clauses,
        value_heads=None if value.shape[1] == key.shape[1] else value.shape[1],
    )


class Plan:
    """How to compute attention, and its gradients, for tensors of some layout."""

    def __init__(self, kind: Kind, mode: Mode, query: Tensor, key: Tensor, value: Tensor, captures: Sequence[Tensor]):
        description = describe_attention(kind, mode.with_lse, query, key, value, captures)
        queries = query.shape[2]
        # The compiler packs heads and splits keys if it knows that there are few queries.
        is_behind_keys = queries == 1 or description.key_lengths or queries < key.shape[2]
        if is_behind_keys and 1 <= queries <= MAX_FEW_QUERIES and mode.gradients is None and not kind.sequences:
            description = dataclasses.replace(description, queries=queries)
        for number in range(kind.first_capture, len(captures)):
            # Every pair reads it.
            if captures[number].numel() == 0 and query.numel() != 0 and key.shape[2] != 0:
                raise AttnError(
                    f"captured tensor {number} has the shape {tuple(captures[number].shape)}: there is no element to "
                    "read"
                )
        self.kind = kind
        self.mode = mode
        self.with_lse = mode.with_lse or mode.gradients is not None
        for target in _further_targets:
            _compile_all(description, target, mode, kind.deterministic)
        self._description = description
        self.has_dropout = kind.dropout_p != 0
        self._state = 3 + len(captures) if self.has_dropout else None
        inputs = (query, key, value, *captures)
        if self.has_dropout:
            inputs += (query.new_empty(2, dtype=torch.int64),)
        self._is_deterministic = kind.deterministic
        functions = find_functions(
            description, find_target(query.device), mode.gradients, mode.planned, kind.deterministic
        )
        # Rows that belong to no sequence are not written.
        self._gradient_fill = 0.0 if kind.sequences else None
        fills = (0.0, -math.inf) if kind.sequences else (None, None)
        self._backward = functions.backward
        #: Layout of the block mask, and the numbers of queries and keys of its tiles. None if there is none:
        #: the mask does not read tensors, or not at places that depend on the position.
        self.mask_layout: Optional[Layout] = None
        self.mask_tiles: Tuple[str, ...] = ()
        if functions.plan is not None:
            self.mask_layout = _block_mask_layout(functions.plan, query, key)
            self.mask_tiles = tuple(re.findall(r"/ (\d+)", " ".join(functions.plan.symbols)))
            self._create_block_mask = Binding(functions.plan, inputs, [self.mask_layout], self._state)
            inputs += (self.mask_layout.make(),)
        layouts = output_layouts(query, value, self.with_lse, kind.out)
        layouts = [layout._replace(fill=fill) for layout, fill in zip(layouts, fills)]
        self._run = Binding(functions.forward, inputs, layouts, self._state)
        self._gradients: Dict[Tuple, Binding] = {}

    def run(self, tensors: Sequence[Tensor], precomputed_mask: Optional[Tensor] = None) -> List[Tensor]:
        """The output and perhaps its log-sum-exp. ``tensors`` are query, key, value,
        captures and, with dropout, seed and offset in one tensor. A plan with a
        ``mask_layout`` takes what ``create_block_mask`` has made."""
        return self._run(tensors if precomputed_mask is None else (*tensors, precomputed_mask))

    def create_block_mask(self, captures: Sequence[Tensor], out: Optional[Tensor] = None) -> Tensor:
        """Computes which tiles the mask keeps, into ``out`` if it is given."""
        if out is None:
            assert self.mask_layout is not None
            out = self.mask_layout.make()
        if out.numel():
            # Only the sizes of query, key, value, seed and offset are read: any memory will do.
            state = (out,) if self.has_dropout else ()
            self._create_block_mask((out, out, out, *captures, *state), [out])
        return out

    def run_backward(
        self,
        tensors: Sequence[Tensor],
        out: Tensor,
        lse: Tensor,
        dout: Tensor,
        dlse: Optional[Tensor],
        gradients: Optional[List[Tensor]] = None,
    ) -> List[Tensor]:
        """Gradients of query, key, value and of the captures asked for: new ones, or given ones with the layouts of
        their tensors."""
        deterministic = not self._is_deterministic and torch.are_deterministic_algorithms_enabled()
        if self.mode.with_lse:
            results = [out, lse, dout, torch.zeros_like(lse) if dlse is None else _readable(dlse)]
        else:
            results = [out, lse, dout]
        layouts = (deterministic, gradients is None, *[tensor.stride() for tensor in results])
        binding = self._gradients.get(layouts)
        # Bindings are for gradients with readable strides.
        if binding is None or (dout.is_cuda and dout.data_ptr() % _GPU_ALIGNMENT):
            results[2] = _readable(dout)
            binding = self._bind_backward(tensors, results, gradients, deterministic)
        return binding((*tensors, *results), gradients)

    def _bind_backward(
        self,
        tensors: Sequence[Tensor],
        results: Sequence[Tensor],
        gradients: Optional[List[Tensor]],
        deterministic: bool,
    ) -> Binding:
        """The function backward for results with these strides."""
        layouts = (deterministic, gradients is None, *[tensor.stride() for tensor in results])
        binding = self._gradients.get(layouts)
        if binding is None:
            wanted = [*tensors[:3], *(tensors[3 + capture] for capture in self.mode.gradients or ())]
            if gradients is None:
                made = [gradient_layout(tensor)._replace(fill=self._gradient_fill) for tensor in wanted]
            else:
                made = [Layout(tuple(t.shape), t.stride(), t.dtype, t.device) for t in gradients]
            assert self._backward is not None
            backward = self._find_deterministic(results[0].device) if deterministic else self._backward()
            binding = self._gradients[layouts] = Binding(backward, [*tensors, *results], made, self._state)
        return binding

    def _find_deterministic(self, device: torch.device) -> Function:
        """The function backward that adds in one order, as torch.use_deterministic_algorithms asks for."""
        mode = self.mode
        assert mode.gradients is not None and self._backward is not None
        try:
            return find_backward(
                self._description, find_target(device), mode.gradients, mode.planned, deterministic=True
            )()
        except UnsupportedError as error:
            if not torch.is_deterministic_algorithms_warn_only_enabled():
                raise
            warnings.warn(f"attention is not deterministic: {error}", stacklevel=2)
            return self._backward()


def _readable(gradient: Tensor) -> Tensor:
    """A gradient as kernels read it. Expanded gradients, as of ``sum``, have strides of 0."""
    size = gradient.element_size()
    strides = gradient.stride()
    is_readable = strides[-1] == 1 and 0 not in strides
    if is_readable and gradient.device.type == "cuda":
        is_readable = gradient.data_ptr() % _GPU_ALIGNMENT == 0 and all(
            stride * size % _GPU_ALIGNMENT == 0 for stride in strides[:-1]
        )
    return gradient if is_readable else gradient.contiguous()


# Lengths that grow by one at a time would make plans without end.
_MAX_PLANS = 4096
_plans: Dict[Tuple, Plan] = {}
#: Plans of calls of functions on top, by their own arguments.
call_plans: Dict[Tuple, Plan] = {}


class RecentPlan(NamedTuple):
    """A plan of a call, and what tells whether it is for other tensors, too."""

    #: Compares all that ``describe`` tells, and classes, modes and transformations, in one call.
    check: Callable[..., bool]
    plan: Plan
    needs_gradient: bool


# Each check takes a part of the time that looking up a plan by descriptions takes.
_MAX_RECENT = 4
#: The latest plans of ``call_plans``, by all arguments of the call but its tensors.
recent_plans: Dict[Tuple, List[RecentPlan]] = {}
# Torch guards its own compiled code by this. It is private.
_TensorGuards = getattr(torch._C._dynamo.guards, "TensorGuards", None)


def _make_check(tensors: Sequence[Tensor]) -> Callable[..., bool]:
    """Guards of torch on tensors. Guards refuse a tensor that is there twice, as in attention of a tensor to itself: it
    is checked once, and that it is the same one."""
    first = {id(tensor): number for number, tensor in reversed(list(enumerate(tensors)))}
    distinct = sorted(first.values())
    check = _TensorGuards(
        *[tensors[number] for number in distinct], dynamic_dims_sizes=None, dynamic_dims_strides=None
    ).check
    if len(distinct) == len(tensors):
        return check
    repeated = [(number, first[id(tensor)]) for number, tensor in enumerate(tensors) if first[id(tensor)] != number]

    def check_repeated(*given: Tensor) -> bool:
        for number, same in repeated:
            if given[number] is not given[same]:
                return False
        return check(*[given[number] for number in distinct])

    return check_repeated


def remember_plan(name: Tuple, plan: Plan, needs_gradient: bool, tensors: Sequence[Tensor]) -> None:
    """Adds a plan to ``recent_plans``."""
    if any(map(torch._C._functorch.is_functorch_wrapped_tensor, tensors)):
        # Wrappers that have left their transformation have no memory themselves.
        return
    try:
        check = _make_check(tensors)
        # Torch of another version may compare other things.
        is_usable = check(*tensors) is True
    except TypeError:
        return
    if is_usable:
        if len(recent_plans) >= _MAX_PLANS:
            recent_plans.clear()
        known = recent_plans.get(name, [])
        # A call in another thread may go through the list.
        recent_plans[name] = [RecentPlan(check, plan, needs_gradient), *known[: _MAX_RECENT - 1]]


_is_nested = operator.attrgetter("is_nested")


def find_recent_plan(name: Tuple, tensors: Sequence[Tensor]) -> Optional[RecentPlan]:
    """The plan that ``remember_plan`` has added for such tensors."""
    try:
        known = recent_plans.get(name)
        # Guards of torch ask for sizes, which nested tensors do not have: that would end the process.
        if known is None or any(map(_is_nested, tensors)):
            return None
    except (AttributeError, TypeError):
        # An argument is not of its type, and is refused elsewhere.
        return None
    for recent in known:
        if recent.check(*tensors):
            return recent
    return None


def _forget_plans() -> None:
    _plans.clear()
    call_plans.clear()
    recent_plans.clear()


def get_plan(kind: Kind, mode: Mode, query: Tensor, key: Tensor, value: Tensor, captures: Sequence[Tensor]) -> Plan:
    """The plan for these arguments."""
    precision = matmul_precision(query)
    names = (kind, mode, precision, describe(query), describe(key), describe(value), *map(describe, captures))
    plan = _plans.get(names)
    if plan is None:
        if len(_plans) >= _MAX_PLANS:
            _forget_plans()
        plan = _plans[names] = Plan(kind, mode, query, key, value, captures)
    return plan
