# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``flex_attention``: attention with Python functions of scores and positions."""

import collections
import functools
import inspect
import math
import types
import weakref
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple, Union, cast

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.attention.flex_attention import AuxOutput, AuxRequest, BlockMask, noop_mask
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from attn.errors import AttnError, TraceError, UnsupportedError, warn_once
from attn.masks import Mask
from attn.torch.checks import check_arguments, check_equal_heads, convert_by_autocast, drop_all, with_unit_stride
from attn.torch.evaluate import Pairs, checks_reads, evaluate_pairs
from attn.torch.graphs import GraphOperators, bind
from attn.torch.kernels import Kind, find_clauses, find_recent_plan, read_mask
from attn.torch.key_clauses import count_keys, find_key_clauses
from attn.torch.ops import AnyPlan, attend, is_observed, make_block_mask, run_recent, with_block_mask
from attn.torch.block_masks import PrecomputedBlockMask
from attn.trace import BOOL, F32, INDEX, Array, Row, Scalar, Tracer

ScoreMod = Callable[[Any, Any, Any, Any, Any], Any]
MaskMod = Callable[[Any, Any, Any, Any], Any]
_CONSTANT_MODULES = ("attn", "builtins", "math", "torch")
_POSITION = ("%b", "%h", "%i", "%j")
_TRACED = (Scalar, Row, Array)


def _constant(name: str, args: Tuple, kwargs: Dict[str, Any]) -> Optional[Union[bool, int, float]]:
    """The number of a tensor without dimensions that torch's function makes of it."""
    if name == "ones" or name == "zeros":
        size = kwargs.get("size", args[0] if len(args) == 1 else args)
        number = 1.0 if name == "ones" else 0.0
    elif name == "full":
        size, number = (*args, *(kwargs[key] for key in ("size", "fill_value") if key in kwargs))[:2]
    elif name in ("tensor", "scalar_tensor", "as_tensor"):
        size, number = (), args[0] if args else None
    else:
        return None
    is_number = isinstance(size, (tuple, list)) and len(size) == 0 and isinstance(number, (bool, int, float))
    return cast(Union[bool, int, float], number) if is_number else None


class _Reads(TorchFunctionMode):
    """Has reads of tensors traced, and notes other uses of tensors."""

    def __init__(self, tracer: Tracer):
        self.tracer = tracer
        self.computes = False
        #: Whether the result depends on sizes of tensors.
        self.sizes = False
        tracer.note_sizes = self._note_sizes

    def _note_sizes(self) -> None:
        self.sizes |= not self.tracer.is_reading

    def __torch_function__(self, func: Any, types: Any, args: Tuple = (), kwargs: Optional[Dict] = None) -> Any:
        name = getattr(func, "__name__", "")
        values = args[1] if name == "__getitem__" and isinstance(args[1], tuple) else args
        if name == "__getitem__" and any(isinstance(value, _TRACED) for value in (*values, *args)):
            return self.tracer.call(name, args, kwargs or {})
        if not any(isinstance(value, _TRACED) for value in args):
            number = _constant(name, args, kwargs or {})
            if number is not None:
                made = func(*args, **(kwargs or {}))
                kind = float if made.dtype.is_floating_point else bool if made.dtype == torch.bool else int
                self.tracer.constants.append((made, kind(number)))
                return made
            if name != "__get__":
                self.computes = True
            elif getattr(getattr(func, "__self__", None), "__name__", "") == "shape":
                self._note_sizes()
        return func(*args, **(kwargs or {}))


def _check_parameters(function: Callable, role: str, name: str, arguments: List[Scalar]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # Some functions that are not written in Python do not tell.
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        scores = "score, " if len(arguments) > len(_POSITION) else ""
        raise TraceError(
            f"{role} ({name}) cannot be called with its {len(arguments)} arguments, {scores}batch, head, query and "
            f"key: {error}"
        ) from None


def _make_number(value: Union[int, float, torch.SymInt, torch.SymFloat], device: torch.device) -> Tensor:
    """A tensor of a number that varies."""
    dtype = torch.float32 if isinstance(value, (float, torch.SymFloat)) else torch.int64
    return torch.full((), value, dtype=dtype, device=device)


_DTYPES = {F32: torch.float32, INDEX: torch.int64, BOOL: torch.bool}


def _run(
    function: Callable,
    captures: List[Tensor],
    kind: str,
    device: torch.device,
    replace: Optional[Callable[[Callable, Tracer], Callable]] = None,
) -> Tuple[str, bool, bool]:
    """The body of the region for a function, whether it computed tensors, and
    whether it asked for sizes of some. ``replace`` gives the function other numbers."""
    role = "score_mod" if kind == F32 else "mask_mod"
    if not callable(function):
        raise AttnError(f"{role} is a {type(function).__name__}; pass a function")
    name = getattr(function, "__name__", type(function).__name__)
    tracer = Tracer(f"{role} ({name})", captures, device, _DTYPES)
    varying: List[Tuple[Any, Tensor]] = []

    def capture_number(value: Any) -> Optional[Tensor]:
        if not isinstance(value, (torch.SymInt, torch.SymFloat)):
            return None
        for known, tensor in varying:
            if known is value:
                return tensor
        varying.append((value, _make_number(value, device)))
        return varying[-1][1]

    tracer.capture_number = capture_number
    if replace is not None:
        function = replace(function, tracer)
    position = [tracer.argument(name, INDEX) for name in _POSITION]
    arguments = [tracer.argument("%s", F32), *position] if kind == F32 else position
    _check_parameters(function, role, name, arguments)
    with _Reads(tracer) as reads:
        try:
            result = function(*arguments)
        except (TypeError, AttributeError, LookupError) as error:
            if isinstance(error, AttnError):
                raise
            raise TraceError(
                f"{tracer.function} cannot be traced: {type(error).__name__}: {error}. Its arguments are scalars "
                "without dimensions; use operators, functions of torch and reads of tensors, as in tensor[h, q]"
            ) from error
        body = tracer.finish(result, kind)
    is_nothing = body in ("attn.yield %s : f32", "%t0 = arith.constant true attn.yield %t0 : i1")
    return "" if is_nothing else body, reads.computes, reads.sizes


class _Trace(NamedTuple):
    score: str
    keep: str
    #: Places of the captured tensors in the list of tensors that the functions refer to; for tensors of numbers that
    #: vary, -1 - the place in the list of numbers.
    captures: Tuple[int, ...]
    #: The sizes of the tensors that the functions refer to, if they ask for some.
    sizes: Optional[Tuple[Any, ...]]


_traces: Dict[Tuple, _Trace] = {}


Number = Union[int, float]
# Kernels compute in f32.
_LARGEST = torch.finfo(torch.float32).max


def _may_vary(value: Any) -> bool:
    """Whether a value is a number that may become an argument of the kernel. Zeros have signs, which comparisons do not
    tell."""
    return type(value) is int or (type(value) is float and 0 < abs(value) <= _LARGEST)


class _Numbers:
    """Which numbers of functions vary: numbers that had a second value, unless a function needs them as constants."""

    def __init__(self, first: Tuple[Number, ...]):
        self._first = first
        self._varying: Set[int] = set()
        self._constants: Tuple[type, ...] = ()

    def find_varying(self, numbers: Tuple[Number, ...]) -> Tuple[int, ...]:
        """Places of the numbers that vary, after a call with these."""
        self._varying.update([place for place, pair in enumerate(zip(self._first, numbers)) if pair[0] != pair[1]])
        return tuple([place for place in sorted(self._varying) if type(numbers[place]) not in self._constants])

    def keep_constants(self, varying: List[Number]) -> None:
        """Notes that a function cannot be traced if these vary: first its floats become constants, then all numbers."""
        self._constants = (float,) if any([type(number) is float for number in varying]) else (float, int)


_numbers: Dict[Tuple, _Numbers] = {}
# Tensors of numbers that vary. Block masks are valid for the same tensors: some stay alive.
_number_tensors: "weakref.WeakValueDictionary[Tuple, Tensor]" = weakref.WeakValueDictionary()
_recent_numbers: "collections.deque[Tensor]" = collections.deque(maxlen=256)


def _find_number_tensors(numbers: List[Number], device: torch.device) -> List[Tensor]:
    """Numbers on a device, as one tensor for each, which nobody changes."""
    is_observed = torch._C._len_torch_dispatch_stack() != 0
    if is_observed or (device.type == "cuda" and torch.cuda.is_current_stream_capturing()):
        return [_make_number(number, device) for number in numbers]
    tensors = []
    for place, number in enumerate(numbers):
        # Equal numbers have tensors of their own, since they may differ in the next call.
        name = (type(number), number, numbers[:place].count(number), device)
        tensor = _number_tensors.get(name)
        if tensor is None:
            with torch.inference_mode(False):
                tensor = _number_tensors[name] = _make_number(number, device)
            _recent_numbers.append(tensor)
        tensors.append(tensor)
    return tensors


class _Replacement:
    """Functions whose numbers at some places are replaced, in the order in which ``_References`` lists them."""

    def __init__(self, first: int, objects: Mapping[int, Any]):
        self._place = first
        self._objects = objects

    def __call__(self, value: Any) -> Any:
        if _may_vary(value):
            self._place += 1
            return self._objects.get(self._place - 1, value)
        if isinstance(value, types.FunctionType):
            return self._replace_function(value)
        if type(value) is functools.partial:
            return self._replace_partial(value)
        if isinstance(value, tuple):
            items = [self(item) for item in value]
            is_same = all(item is old for item, old in zip(items, value))
            return value if is_same else getattr(value, "_make", tuple)(items)
        return value

    def _replace_partial(self, partial: functools.partial) -> functools.partial:
        function, arguments = self(partial.func), self(partial.args)
        keywords = {name: self(value) for name, value in partial.keywords.items()}
        is_same = function is partial.func and arguments is partial.args
        if is_same and all(value is partial.keywords[name] for name, value in keywords.items()):
            return partial
        return functools.partial(function, *arguments, **keywords)

    def _replace_function(self, function: types.FunctionType) -> types.FunctionType:
        is_same = True

        def replace(value: Any) -> Any:
            nonlocal is_same
            replaced = self(value)
            is_same = is_same and replaced is value
            return replaced

        closure = []
        for cell in function.__closure__ or ():
            is_kept = cell == types.CellType() or cell.cell_contents is function
            closure.append(cell if is_kept else types.CellType(replace(cell.cell_contents)))
        defaults = function.__defaults__ and tuple([replace(value) for value in function.__defaults__])
        keyword_defaults = {name: replace(value) for name, value in (function.__kwdefaults__ or {}).items()}
        scope = function.__globals__
        names = [name for name in _names(function.__code__) if name in scope and scope[name] is not function]
        scope = {**scope, **{name: replace(scope[name]) for name in names}} if names else scope
        if is_same:
            return function
        made = types.FunctionType(function.__code__, scope, function.__name__, defaults, tuple(closure))
        made.__kwdefaults__ = keyword_defaults or None
        return made


def _names(code: types.CodeType) -> Tuple[str, ...]:
    """Names that code and the functions in it look up, each once."""
    names = code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += constant.co_names
    return tuple(dict.fromkeys(names))


# Functions that look up one of these may tell a number from a scalar.
_INSPECTIONS = frozenset(("isinstance", "issubclass", "type", "hasattr", "getattr", "callable", "id", "str", "repr"))


class _References:
    """The objects that a function can reach, as a key that stays equal as long as a trace of it stays valid, and the
    tensors and numbers among them."""

    def __init__(self) -> None:
        self.tensors: List[Tensor] = []
        self.numbers: List[Number] = []
        #: Whether a function may look at types.
        self.inspects = False
        #: The objects that were inspected: cells of closures and entries of scopes, with their contents.
        self.cells: List[Tuple[Any, Any]] = []
        self.globals: List[Tuple[Dict[str, Any], str, Any]] = []
        #: The first thing found whose changes would go unnoticed.
        self.unknown: Optional[str] = None

    def key(self, value: Any, name: str) -> Any:
        if _may_vary(value):
            self.numbers.append(value)
            return type(value)
        if type(value) is float:
            # Unlike zeros, texts of zeros with other signs differ.
            return (float, repr(value))
        if value is None or isinstance(value, (bool, int, float, str)):
            return (type(value), value)
        if isinstance(value, Tensor):
            for number, known in enumerate(self.tensors):
                if known is value:
                    return ("same", number)
            self.tensors.append(value)
            return ("tensor", value.dtype, tuple([size == 1 for size in value.shape]), self._constant(value))
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if type(value) is functools.partial:
            return self._partial(value, name)
        if isinstance(value, tuple):
            return (tuple, tuple([self.key(item, name) for item in value]))
        if isinstance(value, (types.BuiltinFunctionType, torch.dtype)) or self._is_constant(value):
            return (type(value), id(value))
        if self.unknown is None:
            self.unknown = f"{name}, of type {type(value).__name__}"
        return None

    @staticmethod
    def _is_constant(value: Any) -> bool:
        """Whether it is a module or a class that nobody changes."""
        name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", "")
        return isinstance(value, (types.ModuleType, type)) and name.partition(".")[0] in _CONSTANT_MODULES

    @staticmethod
    def _constant(tensor: Tensor) -> Any:
        # Indices that are numbers are taken modulo the size.
        return tuple(tensor.shape) if tensor.ndim <= 1 else tensor.ndim

    def _partial(self, partial: functools.partial, name: str) -> Any:
        parts = [self.key(partial.func, name), self.key(partial.args, "an argument of functools.partial")]
        for keyword, value in partial.keywords.items():
            self.globals.append((partial.keywords, keyword, value))
            parts.append((keyword, self.key(value, f"'{keyword}'")))
        return (functools.partial, *parts)

    def _function(self, function: types.FunctionType) -> Any:
        code = function.__code__
        names = _names(code)
        self.inspects = self.inspects or not _INSPECTIONS.isdisjoint(names)
        parts: List[Any] = [code]
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            if cell == types.CellType():
                continue
            self.cells.append((cell, cell.cell_contents))
            if cell.cell_contents is not function:
                parts.append(self.key(cell.cell_contents, f"'{name}'"))
        for value in function.__defaults__ or ():
            parts.append(self.key(value, "a default value"))
        for name, value in (function.__kwdefaults__ or {}).items():
            parts.append((name, self.key(value, "a default value")))
        scope = function.__globals__
        for name in names:
            self.globals.append((scope, name, scope.get(name)))
            if name in scope and scope[name] is not function:
                parts.append(self.key(scope[name], f"'{name}'"))
        return tuple(parts)


class _Recent:
    """The trace of two functions, as long as they refer to the same objects."""

    def __init__(
        self,
        functions: Tuple,
        device: torch.device,
        references: _References,
        result: Tuple[str, str, List[Tensor]],
    ):
        name = (*[id(function) for function in functions], device)
        # Objects that functions refer to are to be freed with them.
        forget = functools.partial(_recent.pop, name, None)
        self._functions = [weakref.ref(function, lambda _: forget()) for function in functions if function is not None]
        self._cells, self._globals = references.cells, references.globals
        self.result = result
        _recent[name] = self

    def is_valid(self) -> bool:
        for cell, value in self._cells:
            if cell.cell_contents is not value:
                return False
        for scope, name, value in self._globals:
            if scope.get(name) is not value:
                return False
        return True


_recent: Dict[Tuple, _Recent] = {}


_blocks: "weakref.WeakKeyDictionary[BlockMask, Optional[MaskMod]]" = weakref.WeakKeyDictionary()
# Pairs of a block at which the function of a mask is compared with the block.
_SAMPLES_OF_BLOCK = 64


def _dense_blocks(counts: Optional[Tensor], indices: Optional[Tensor], columns: int) -> Optional[Tensor]:
    """The blocks that lists name, as truth values ``[batch, heads, rows, columns]``."""
    if counts is None or indices is None:
        return None
    listed = torch.arange(indices.shape[-1], device=indices.device) < counts[..., None]
    dense = torch.zeros(*indices.shape[:-1], columns + 1, dtype=torch.bool, device=indices.device)
    return dense.scatter_(-1, torch.where(listed, indices, columns).long(), True)[..., :columns]


def _follows_blocks(block_mask: BlockMask, partial: Tensor, full: Tensor) -> bool:
    """Whether the function keeps no pair of the blocks that are left out, and all pairs of the full ones.

    ``_SAMPLES_OF_BLOCK`` pairs of each block are tested, on both diagonals of the block from corner to corner.
    """
    rows, columns = block_mask.BLOCK_SIZE
    lengths = block_mask.seq_lengths
    device = partial.device
    steps = torch.arange(_SAMPLES_OF_BLOCK // 2, device=device)
    inside_rows = (steps * (rows - 1) // (len(steps) - 1)).repeat(2)
    inside_columns = steps * (columns - 1) // (len(steps) - 1)
    inside_columns = torch.cat((inside_columns, columns - 1 - inside_columns))
    batch, head, row, column = (index[:, None] for index in (~partial | full).nonzero(as_tuple=True))
    query, key = row * rows + inside_rows, column * columns + inside_columns
    position = torch.broadcast_tensors(batch, head, query, key)
    is_inside = ((query < lengths[0]) & (key < lengths[1])).flatten()
    points = [index.flatten()[is_inside] for index in position]
    if points[0].numel() == 0:
        return True
    kept = torch.vmap(block_mask.mask_mod)(*points).bool()
    return torch.equal(kept, full[points[0], points[1], points[2] // rows, points[3] // columns])


def _list_blocks(block_mask: BlockMask) -> Tuple[Tensor, Tensor]:
    """The partial and the full blocks of a mask, as truth values. With torch's noop_mask, partial blocks are full."""
    columns = -(-block_mask.seq_lengths[1] // block_mask.BLOCK_SIZE[1])
    partial = _dense_blocks(block_mask.kv_num_blocks, block_mask.kv_indices, columns)
    full = _dense_blocks(block_mask.full_kv_num_blocks, block_mask.full_kv_indices, columns)
    assert partial is not None
    return partial, torch.zeros_like(partial) if full is None else full


def _combine_blocks(block_mask: BlockMask, partial: Tensor, full: Tensor) -> MaskMod:
    """The function of a mask together with its blocks: full blocks attend in full, and partial ones by the function."""
    function = block_mask.mask_mod
    has_function = function is not noop_mask
    full = full if has_function else full | partial
    rows, columns = block_mask.BLOCK_SIZE
    batch, heads = full.shape[0] > 1, full.shape[1] > 1

    def find(blocks: Tensor, b: Any, h: Any, q: Any, k: Any) -> Any:
        return blocks[b if batch else 0, h if heads else 0, q // rows, k // columns]

    def blocks_alone(b: Any, h: Any, q: Any, k: Any) -> Any:
        return find(full, b, h, q, k)

    def both(b: Any, h: Any, q: Any, k: Any) -> Any:
        return find(full, b, h, q, k) | (find(partial, b, h, q, k) & function(b, h, q, k))

    return both if has_function else blocks_alone


def _with_blocks(block_mask: BlockMask) -> Optional[MaskMod]:
    """The function of a mask, together with its blocks if they disagree: blocks that are left out have pairs that the
    function keeps, or full blocks have pairs that it masks."""
    partial, full = _list_blocks(block_mask)
    if block_mask.mask_mod is noop_mask:
        return None if bool((full | partial).all()) else _combine_blocks(block_mask, partial, full)
    if _follows_blocks(block_mask, partial, full):
        return block_mask.mask_mod
    return _combine_blocks(block_mask, partial, full)


def _find_mask_mod(block_mask: BlockMask) -> Optional[MaskMod]:
    """The function that decides about pairs, determined once for each mask. While a CUDA graph is captured, and for
    tensors without memory, nothing can be tested, and the function alone is the mask."""
    # One look-up: weak dictionaries are slow. None stands for no function.
    found: Any = _blocks.get(block_mask, False)
    if found is False:
        indices = block_mask.kv_indices
        is_unknown = isinstance(indices, FakeTensor) or (
            indices.is_cuda and torch.cuda.is_current_stream_capturing()
        )
        if is_unknown and block_mask.mask_mod is not noop_mask:
            return block_mask.mask_mod
        # torch.export must not record the comparison.
        with _disable_current_modes():
            found = _blocks[block_mask] = _with_blocks(block_mask)
        # Compiled functions guard the attribute.
        block_mask._attn_needs_blocks = found not in (None, block_mask.mask_mod)
    return found


# How many masks with one function are compared with their blocks while functions are compiled: each is a compilation.
_MAX_INSPECTED = 2
_inspected: Dict[Any, int] = {}


def _inspect(block_mask: Any) -> None:
    """Compares a mask that a function is compiled for with its blocks."""
    if not isinstance(block_mask, BlockMask) or block_mask in _blocks:
        return
    name = getattr(block_mask.mask_mod, "__code__", None)
    _inspected[name] = _inspected.get(name, 0) + 1
    if _inspected[name] <= _MAX_INSPECTED:
        _find_mask_mod(block_mask)


def _find_graph_mask(block_mask: Union[BlockMask, MaskMod, None]) -> Optional[MaskMod]:
    """The function that decides about pairs in a graph: with the blocks of a ``BlockMask``, unless they were compared
    with its function and do not matter."""
    if not isinstance(block_mask, BlockMask):
        return block_mask
    _in_graphs.inspect(block_mask)
    if not getattr(block_mask, "_attn_needs_blocks", True):
        return None if block_mask.mask_mod is noop_mask else block_mask.mask_mod
    return _combine_blocks(block_mask, *_list_blocks(block_mask))


def _run_both(
    score_mod: Optional[ScoreMod],
    mask_mod: Optional[MaskMod],
    device: torch.device,
    first_of_mask: int,
    of_numbers: Mapping[int, Tensor],
) -> Tuple[str, str, List[Tensor], bool, bool]:
    """Bodies of both regions, the tensors that they read, whether functions computed tensors, and whether they asked
    for sizes of some. ``of_numbers`` has tensors for numbers of the functions, by their places."""
    captures: List[Tensor] = []
    bodies = ["", ""]
    computes = sizes = False
    for role, (function, kind, first) in enumerate(((score_mod, F32, 0), (mask_mod, BOOL, first_of_mask))):
        if function is None:
            continue
        end = first_of_mask if role == 0 else math.inf
        own = {place: tensor for place, tensor in of_numbers.items() if first <= place < end}

        def replace(function: Callable, tracer: Tracer) -> Callable:
            return _Replacement(first, {place: tracer.number(tensor) for place, tensor in own.items()})(function)

        bodies[role], has_computed, has_asked = _run(function, captures, kind, device, replace if own else None)
        computes, sizes = computes or has_computed, sizes or has_asked
    return bodies[0], bodies[1], captures, computes, sizes


def _trace(
    score_mod: Optional[ScoreMod], block_mask: Union[BlockMask, MaskMod, None], device: torch.device
) -> Tuple[str, str, List[Tensor]]:
    """Bodies of both regions, and the tensors that they read."""
    mask_mod = _find_mask_mod(block_mask) if isinstance(block_mask, BlockMask) else block_mask
    recent = _recent.get((id(score_mod), id(mask_mod), device))
    if recent is not None and recent.is_valid():
        return recent.result
    references = _References()
    score_key = references.key(score_mod, "score_mod")
    first_of_mask = len(references.numbers)
    name = (score_key, references.key(mask_mod, "mask_mod"), device)
    numbers, shapes = tuple(references.numbers), tuple([tuple(tensor.shape) for tensor in references.tensors])
    key: Tuple = (name, numbers)
    trace = _traces.get(key) if references.unknown is None else None
    varying: Tuple[int, ...] = ()
    if trace is None and references.unknown is None and not references.inspects:
        varying = _numbers.setdefault(name, _Numbers(numbers)).find_varying(numbers)
        if varying:
            key = (name, tuple([None if place in varying else number for place, number in enumerate(numbers)]))
            trace = _traces.get(key)
    of_numbers = dict(zip(varying, _find_number_tensors([numbers[place] for place in varying], device)))
    if trace is not None and trace.sizes in (None, shapes):
        captures = [
            references.tensors[place] if place >= 0 else of_numbers[-1 - place] for place in trace.captures
        ]
        result = (trace.score, trace.keep, captures)
        _Recent((score_mod, mask_mod), device, references, result)
        return result
    try:
        score, keep, captures, computes, sizes = _run_both(score_mod, mask_mod, device, first_of_mask, of_numbers)
    except Exception:
        if not varying:
            raise
        _numbers[name].keep_constants([numbers[place] for place in varying])
        return _trace(score_mod, mask_mod, device)
    places = []
    for capture in captures:
        places += [place for place, tensor in enumerate(references.tensors) if tensor is capture]
        places += [-1 - place for place, tensor in of_numbers.items() if tensor is capture]
    if references.unknown is not None:
        warn_once(
            "traced again",
            f"score_mod or mask_mod refers to {references.unknown}, which may change: it is traced again at each call. "
            "Bind what it reads to local variables: tensors, numbers and functions",
        )
    elif computes or len(places) != len(captures):
        warn_once(
            "computed again",
            "score_mod or mask_mod computes with tensors apart from reading elements: it is traced again, and computes "
            "them again, at each call. Compute them before",
        )
    else:
        _traces[key] = _Trace(score, keep, tuple(places), shapes if sizes else None)
    return score, keep, captures


# Python that runs as it is: compilers of torch see operators alone.
_trace._torchdynamo_disable = True  # type: ignore[attr-defined]
_trace._torchdynamo_disable_msg = (  # type: ignore[attr-defined]
    "score_mod and block_mask are traced in Python, since this version of torch does not record them. For "
    "fullgraph=True trace them before, as in traced = attn.torch.trace(score_mod, mask_mod), and call "
    "flex_attention(query, key, value, traced); torch.export.export does it by itself with strict=False"
)


def _attend_functions(
    score_mod: Any,
    score_captures: Tuple,
    mask_mod: Any,
    mask_captures: Tuple,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    operands: List[Tensor],
    mask: str,
    scale: Optional[float],
    dropout_p: float,
    reads: int,
    clauses: str,
    deterministic: bool,
    with_lse: bool,
) -> Tuple[Tensor, Tensor]:
    """Attention with functions, or with the graphs that Dynamo has recorded of them, which take captured tensors and
    numbers behind their scalars."""
    captures: List[Tensor] = []
    score = keep = ""
    if isinstance(score_mod, torch.fx.GraphModule) or isinstance(mask_mod, torch.fx.GraphModule):
        if query.dtype == torch.float64:
            raise UnsupportedError("query has the dtype torch.float64, which graphs do not have; call it in eager mode")
        if score_mod is not None:
            score = _run(bind(score_mod, score_captures, "score_mod"), captures, F32, query.device)[0]
        if mask_mod is not None:
            keep = _run(bind(mask_mod, mask_captures, "mask_mod"), captures, BOOL, query.device)[0]
    else:
        score, keep, captures = _trace(score_mod, mask_mod, query.device)
    captures = [*operands, *_readable_captures(captures)]
    kind = Kind(mask, score, keep, scale, dropout_p, reads, clauses, deterministic)
    out, lse = attend(query, key, value, captures, kind, with_lse)
    return out, query.new_empty(0, dtype=torch.float32) if lse is None else lse


_in_graphs = GraphOperators(_attend_functions, _inspect)


class Traced(NamedTuple):
    """Functions that have been traced, for ``flex_attention``'s ``score_mod``."""

    score: str
    keep: str
    captures: List[Tensor]


#: Arguments of ``flex_attention`` for scores and for masks.
Scores = Union[ScoreMod, Traced, None]
Blocks = Union[BlockMask, Mask, MaskMod, None]


def trace(score_mod: Optional[ScoreMod] = None, mask_mod: Optional[MaskMod] = None) -> Traced:
    """Traces functions once and for all: later assignments to their variables have no effect, but tensors that they
    read may change their contents.

    ``torch.compile`` does not look at the functions of ``flex_attention(query, key, value, traced)``.
    """
    return Traced(*_trace(score_mod, mask_mod, torch.get_default_device()))


class _Functions(NamedTuple):
    """All functions of a call as text: a mask with a name and the tensors that it reads, bodies of both regions, and
    the tensors that these read."""

    mask: str
    score: str
    keep: str
    reads: Tuple[Tensor, ...]
    captures: List[Tensor]


def _read_functions(score_mod: Scores, block_mask: Blocks, device: torch.device) -> _Functions:
    if isinstance(score_mod, Traced):
        if block_mask is not None:
            raise AttnError("score_mod has been traced, so that block_mask must be None; trace both with one another")
        return _Functions("", score_mod.score, score_mod.keep, (), score_mod.captures)
    _check_kind(block_mask)
    mask: str = ""
    reads: Tuple[Tensor, ...] = ()
    if isinstance(block_mask, Mask):
        mask, reads = read_mask(block_mask, "block_mask")
        block_mask = None
    score, keep, captures = _trace(score_mod, block_mask, device)
    return _Functions(mask, score, keep, reads, captures)


def _check_kind(block_mask: Blocks) -> None:
    if not (block_mask is None or isinstance(block_mask, (BlockMask, Mask)) or callable(block_mask)):
        raise AttnError(f"block_mask is a {type(block_mask).__name__}; pass a BlockMask or a mask_mod")


def _check_lengths(block_mask: Blocks, queries: int, keys: int) -> None:
    if isinstance(block_mask, BlockMask) and tuple(block_mask.seq_lengths) != (queries, keys):
        raise AttnError(
            f"block_mask was made for {block_mask.seq_lengths[0]} queries and {block_mask.seq_lengths[1]} keys, and "
            f"there are {queries} and {keys}; make it again for these"
        )


def prepare(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Scores,
    block_mask: Blocks,
    scale: Optional[float],
    enable_gqa: bool,
    dropout_p: float,
    has_head_map: bool = False,
    in_graph: bool = False,
    functions: Optional[_Functions] = None,
    num_shards: Tuple[int, int] = (1, 1),
    page_table: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor, Tensor, List[Tensor], Kind]:
    """Query, key and value for each batch entry, the tensors that functions read, and the kind of attention. In a graph
    functions are traced later. ``functions`` are given where they have been read. The query and the keys are one of
    ``num_shards`` equal shards of the sequence."""
    check_arguments(scale, dropout_p, query=query, key=key, value=value)
    query, key, value = convert_by_autocast(query, key, value)
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.dim() != 4:
            raise AttnError(f"{name} has {tensor.dim()} dimensions; it needs 4: batch, heads, positions and head dim")
    if not (enable_gqa or has_head_map):
        check_equal_heads(query, key, value)
    if not query.stride(-1) == key.stride(-1) == value.stride(-1) == 1:
        query, key, value = (
            with_unit_stride(tensor, name) for name, tensor in (("query", query), ("key", key), ("value", value))
        )
    # A dropout of 1 drops all probabilities: the output becomes 0 afterwards.
    dropout_p = 0.0 if dropout_p == 1 else dropout_p
    if key.shape[0] == 1 and query.shape[0] > 1 and page_table is None:
        key, value = key.expand(query.shape[0], -1, -1, -1), value.expand(query.shape[0], -1, -1, -1)
    _check_kind(block_mask)
    _check_lengths(block_mask, query.shape[2] * num_shards[0], count_keys(key, page_table) * num_shards[1])
    if in_graph:
        mask, reads = read_mask(block_mask, "block_mask") if isinstance(block_mask, Mask) else ("", ())
        return query, key, value, list(reads), Kind(mask, "", "", scale, dropout_p, len(reads))
    if functions is None:
        functions = _read_functions(score_mod, block_mask, query.device)
    captures = _readable_captures([*functions.reads, *functions.captures])
    kind = Kind(functions.mask, functions.score, functions.keep, scale, dropout_p, len(functions.reads))
    return query, key, value, captures, kind


def _readable_captures(captures: List[Tensor]) -> List[Tensor]:
    if all([tensor.dim() == 0 or tensor.stride(-1) == 1 for tensor in captures]):
        return captures
    return [with_unit_stride(tensor, f"captured tensor {number}") for number, tensor in enumerate(captures)]


def create_block_mask(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Scores = None,
    block_mask: Blocks = None,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
    *,
    dropout_p: float = 0.0,
) -> PrecomputedBlockMask:
    """Computes which tiles a mask that reads tensors keeps, once for many calls of ``flex_attention`` with such
    arguments, for example in all layers of a model.

    It does not read the contents of query, key and value. Call it where gradients are on if they are on in the calls,
    so that kernels are the same.
    """
    query, key, value, captures, kind = prepare(
        query, key, value, score_mod, block_mask, scale, enable_gqa, dropout_p
    )
    return make_block_mask(query, key, value, captures, kind, with_lse=False)


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Scores = None,
    block_mask: Blocks = None,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Optional[Mapping[str, Any]] = None,
    *,
    return_aux: Optional[AuxRequest] = None,
    dropout_p: float = 0.0,
    precomputed_block_mask: Optional[PrecomputedBlockMask] = None,
    sinks: Optional[Tensor] = None,
    head_map: Optional[Tensor] = None,
    identity: Optional[Tensor] = None,
    query_lengths: Optional[Tensor] = None,
    key_lengths: Optional[Tensor] = None,
    page_table: Optional[Tensor] = None,
    deterministic: bool = False,
) -> Union[Tensor, Tuple[Tensor, Tensor], Tuple[Tensor, AuxOutput]]:
    """Computes what ``torch.nn.attention.flex_attention.flex_attention`` does.

    ``score_mod`` and ``mask_mod`` are traced: code that depends on the position becomes part of the kernel, including
    reads of captured tensors. In the place of both, ``score_mod`` may be the result of ``trace``. ``block_mask`` may be
    a ``mask_mod`` itself, or one of ``attn.masks``. Of a ``BlockMask`` usually only the ``mask_mod`` is used: the
    compiler finds the blocks that it leaves out. If the blocks differ from the function, pairs attend as in kernels
    that torch compiles: all pairs of full blocks, and the pairs of partial blocks that the function keeps. Dropout,
    sinks, head map, identity, lengths, ``page_table`` and ``deterministic``, which torch's function does not have, are
    as in ``sdpa``.

    If the blocks depend on data, each call computes the block mask first. Calls with one ``BlockMask`` do so once, as
    long as torch changes none of the tensors that it reads. ``precomputed_block_mask`` is the result of
    ``create_block_mask``; compilers of torch ignore it.
    """
    if kernel_options:
        warn_once(
            "kernel options", f"kernel_options are those of other kernels and ignored: {', '.join(kernel_options)}"
        )
    if return_aux is not None and return_lse:
        raise AttnError("return_lse and return_aux exclude each other; use return_aux=AuxRequest(lse=True)")
    if return_aux is not None and return_aux.max_scores:
        raise UnsupportedError("return_aux asks for max_scores, which kernels do not compute; ask for lse alone")
    with_lse = return_lse or (return_aux is not None and return_aux.lse)
    if precomputed_block_mask is not None and not isinstance(precomputed_block_mask, PrecomputedBlockMask):
        raise AttnError(
            f"precomputed_block_mask is a {type(precomputed_block_mask).__name__}; pass what create_block_mask returns"
        )
    precomputed_mask = (
        block_mask if precomputed_block_mask is None and isinstance(block_mask, BlockMask) else precomputed_block_mask
    )
    has_options = deterministic or not (
        sinks is head_map is identity is query_lengths is key_lengths is page_table is None
    )
    name = functions = None
    if not (has_options or is_observed()) and isinstance(query, Tensor):
        functions = _read_functions(score_mod, block_mask, query.device)
        mask, score, keep, reads, captures = functions
        lengths = block_mask.seq_lengths if isinstance(block_mask, BlockMask) else None
        name = (
            mask, score, keep, len(reads), lengths, type(precomputed_mask), with_lse, scale, enable_gqa, dropout_p,
            torch.get_float32_matmul_precision(), torch.is_grad_enabled(),
        )  # fmt: skip
        tensors = (query, key, value, *reads, *captures)
        recent = find_recent_plan(name, tensors)
        if recent is not None:
            plan: AnyPlan = recent.plan
            if precomputed_mask is not None:
                plan = with_block_mask(recent.plan, query, key, tensors[3:], precomputed_mask)
            results = run_recent(recent, plan, tensors, with_lse)
            return _finish(*(results if with_lse else (results, None)), return_lse, return_aux)
    in_graph = torch.compiler.is_dynamo_compiling() and _in_graphs.is_available and not isinstance(score_mod, Traced)
    original = (query, key, value)
    query, key, value, captures, kind = prepare(
        query, key, value, score_mod, block_mask, scale, enable_gqa, dropout_p, head_map is not None, in_graph,
        functions, page_table=page_table,
    )  # fmt: skip
    if has_options:
        of_keys = find_key_clauses(
            query, key, value, page_table, key_lengths,
            {"query_lengths": query_lengths, "identity": identity, "dropout_p": kind.dropout_p or None},
            (sinks, *captures), has_unknown=in_graph,
        )  # fmt: skip
        lengths = (query_lengths, key_lengths) if of_keys is None else (None, None)
        clauses, operands = find_clauses(query, key, sinks, head_map, identity, *lengths)
        if of_keys is not None:
            clauses, operands = f"{clauses} {of_keys[0]}".strip(), [*operands, *of_keys[1]]
        if clauses and precomputed_block_mask is not None:
            raise AttnError(
                "precomputed_block_mask was made without sinks, head_map, identity and lengths; leave it out in calls "
                "with these"
            )
        captures = [*captures[: kind.reads], *operands, *captures[kind.reads :]]
        kind = kind._replace(clauses=clauses, deterministic=deterministic)
    lse: Optional[Tensor]
    if in_graph:
        mask_mod = None if isinstance(block_mask, Mask) else _find_graph_mask(block_mask)
        out, lse = _in_graphs.attend(
            score_mod, (), mask_mod, (), query, key, value, captures, kind.mask, kind.scale, kind.dropout_p,
            kind.reads, kind.clauses, kind.deterministic, with_lse,
        )  # fmt: skip
    else:
        # Kernels must read the tensors of the call as they are, and nothing else may be left to do.
        is_same = query is original[0] and key is original[1] and value is original[2]
        if not is_same or dropout_p == 1 or checks_reads():
            name = None
        out, lse = attend(query, key, value, captures, kind, with_lse, precomputed_mask, name)
    if dropout_p == 1:
        out = drop_all(out)
    return _finish(out, lse if with_lse else None, return_lse, return_aux)


def _finish(
    out: Tensor, lse: Optional[Tensor], return_lse: bool, return_aux: Optional[AuxRequest]
) -> Union[Tensor, Tuple[Tensor, Tensor], Tuple[Tensor, AuxOutput]]:
    """Results in the form that the caller asks for."""
    if return_aux is not None:
        return out, AuxOutput(lse=lse)
    return (out, cast(Tensor, lse)) if return_lse else out


def debug_pairs(
    query: Tensor,
    key: Tensor,
    score_mod: Scores = None,
    block_mask: Blocks = None,
    scale: Optional[float] = None,
    enable_gqa: bool = False,
    *,
    sinks: Optional[Tensor] = None,
    head_map: Optional[Tensor] = None,
    identity: Optional[Tensor] = None,
) -> Pairs:
    """Scores and probabilities that ``flex_attention`` with these arguments computes internally, in double precision,
    for inspection: they take memory for all pairs. Scores of pairs that do not attend are -inf."""
    query, key, _, captures, kind = prepare(
        query, key, key, score_mod, block_mask, scale, enable_gqa, 0.0, head_map is not None
    )
    clauses, operands = find_clauses(query, key, sinks, head_map, identity)
    captures = [*captures[: kind.reads], *operands, *captures[kind.reads :]]
    return Pairs(*evaluate_pairs(query.double(), key.double(), captures, kind._replace(clauses=clauses)))
