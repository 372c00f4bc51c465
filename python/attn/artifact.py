# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs compiled artifacts on torch tensors.

An artifact is a shared library written by ``attn-compile``. It needs
``libattn_runtime.so`` and, for a GPU target, the CUDA driver; no compiler. The
structures below mirror ``attn-runtime/attn_runtime.h``.
"""

import ctypes
import functools
import itertools
import os
import stat
import struct
import zlib
from typing import Any, Dict, List, Optional, Sequence

from attn.errors import AttnError
from attn.library import ABI_VERSION, find_gpu_problem, load_runtime
from attn.version import __version__

DTYPES = ("bf16", "f16", "f32", "f64", "i32", "i64", "i8", "i1", "f8E4M3FN", "f8E5M2")
TORCH_NAMES = (
    "bfloat16", "float16", "float32", "float64", "int32", "int64", "int8", "bool", "float8_e4m3fn", "float8_e5m2"
)  # fmt: skip


class TensorView(ctypes.Structure):
    """``attn_tensor``"""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]

    @classmethod
    def make(cls, shape: Sequence[int], strides: Sequence[int], dtype: int, device: int) -> "TensorView":
        """A view without an address yet. It keeps its sizes alive."""
        rank = len(shape)
        sizes = ctypes.c_int64 * rank
        return cls(None, sizes(*shape), sizes(*strides), rank, dtype, device, 0)


# The bit of ``attn_access`` that outputs have.
_WRITE = 2


class _TensorSpec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("alignment", ctypes.c_int32),
        ("access", ctypes.c_int32),
    ]


_TensorArray = ctypes.POINTER(ctypes.POINTER(TensorView))
# Takes the array as an address: conversions to pointers of a type take a microsecond.
_CallFn = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p)
_FlopsFn = ctypes.CFUNCTYPE(ctypes.c_int64, _TensorArray)
_ReferenceFn = ctypes.CFUNCTYPE(ctypes.c_int32, _TensorArray, ctypes.c_int32, ctypes.c_int64)


class _Function(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("num_args", ctypes.c_int32),
        ("num_symbols", ctypes.c_int32),
        ("args", ctypes.POINTER(_TensorSpec)),
        ("symbols", ctypes.POINTER(ctypes.c_char_p)),
        ("call", _CallFn),
        ("flops", _FlopsFn),
        ("reference", _ReferenceFn),
    ]


class _Artifact(ctypes.Structure):
    _fields_ = [
        ("abi_version", ctypes.c_uint32),
        ("num_functions", ctypes.c_int32),
        ("target", ctypes.c_char_p),
        ("producer", ctypes.c_char_p),
        ("functions", ctypes.POINTER(_Function)),
        ("reserved", ctypes.c_void_p),
    ]


@functools.lru_cache(maxsize=None)
def element_types() -> Dict[Any, int]:
    """Numbers of torch's dtypes."""
    import torch

    return {getattr(torch, name): number for number, name in enumerate(TORCH_NAMES)}


def _describe(tensor: Any, name: str) -> TensorView:
    """The C view of a torch tensor, the argument of this name."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise AttnError(f"{name} is a {type(tensor).__name__}; pass a tensor of torch")
    dtype = element_types().get(tensor.dtype)
    if dtype is None:
        raise AttnError(f"{name} is a tensor of {tensor.dtype} (expected one of {', '.join(TORCH_NAMES)})")
    if tensor.device.type not in ("cuda", "cpu"):
        raise AttnError(f"{name} is on '{tensor.device}' (expected cpu or cuda)")
    device = tensor.device.index if tensor.device.type == "cuda" else -1
    view = TensorView.make(tensor.shape, tensor.stride(), dtype, device)
    view.data = tensor.data_ptr()
    return view


def _add_gpu_problem(text: str) -> str:
    """An error of a call, with the reason if tensors cannot be on a GPU since there is none."""
    problem = find_gpu_problem() if "expected a CUDA device" in text else None
    if problem is None:
        return text
    return (
        f"{text}. There is no GPU: {problem}; install the NVIDIA driver, name it by ATTN_CUDA_DRIVER, or compile for "
        "target='host'"
    )


class Function:
    """One function of an artifact: called with its inputs, then its outputs."""

    def __init__(self, function: _Function, library: ctypes.CDLL):
        #: The C function, which takes the address of views of tensors, their number and a stream.
        self.call = function.call
        self.name = function.name.decode()
        self.args = [
            (
                function.args[i].name.decode(),
                DTYPES[function.args[i].dtype],
                tuple(function.args[i].dims[d] for d in range(function.args[i].rank)),
                bool(function.args[i].access & _WRITE),
            )
            for i in range(function.num_args)
        ]
        #: Names of the sizes that are known at run time: size -1 - n of an argument is number n.
        self.symbols = [function.symbols[i].decode() for i in range(function.num_symbols)]
        self._function = function
        #: Returns the text of this thread's last error, in the runtime that the
        #: library found.
        self.last_error = library.attnGetLastError
        self.last_error.restype = ctypes.c_char_p

    def bind(self, *tensors: Any, stream: Optional[int] = None) -> Any:
        """A callable without arguments that runs the function on these tensors.

        ``stream`` is a CUDA stream handle; the default is the legacy stream.
        """
        names = [f"{self.name}: argument '{name}'" for name, *_ in self.args]
        names += [f"{self.name}: argument {number}" for number in range(len(names), len(tensors))]
        views = [ctypes.pointer(_describe(tensor, name)) for tensor, name in zip(tensors, names)]
        array = (ctypes.POINTER(TensorView) * len(views))(*views)
        call, count, error = self.call, len(views), self.last_error

        def run(_keep: Any = (tensors, views)) -> None:
            if call(array, count, stream) != 0:
                raise AttnError(_add_gpu_problem(error().decode()))

        run.array = array  # type: ignore[attr-defined]
        return run

    def __call__(self, *tensors: Any, stream: Optional[int] = None) -> None:
        self.bind(*tensors, stream=stream)()

    def flops(self, *tensors: Any) -> int:
        """Floating point operations of a call, by the compiler's count."""
        if len(tensors) != len(self.args):
            raise AttnError(f"{self.name}: got {len(tensors)} arguments, expected {len(self.args)}")
        array = self.bind(*tensors).array
        for tensor, (name, _, dims, _) in zip(tensors, self.args):
            if tensor.ndim != len(dims):
                raise AttnError(f"{self.name}: argument '{name}' has rank {tensor.ndim}, expected {len(dims)}")
        return self._function.flops(array)


# Follows the end of a library that attn-compile linked: this, the CRC-32 of all bytes before, and zero.
_CHECKSUM_MAGIC = b"ATTN-CRC"
_CHECKSUM = struct.Struct("<8sII")


def _find_elf_end(data: bytes) -> int:
    """The bytes that the headers of a shared library give it."""
    if len(data) < 64 or data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("it is not a shared library of 64 bits")
    program_offset, section_offset = struct.unpack_from("<QQ", data, 32)
    program_size, num_programs, section_size, num_sections = struct.unpack_from("<4H", data, 54)
    end = max(program_offset + program_size * num_programs, section_offset + section_size * num_sections)
    if end <= len(data):
        if num_programs and program_size < 56 or num_sections and section_size < 64:
            raise ValueError("its headers are damaged")
        for i in range(num_programs):
            offset, _, _, size = struct.unpack_from("<4Q", data, program_offset + i * program_size + 8)
            end = max(end, offset + size)
        for i in range(num_sections):
            (kind,) = struct.unpack_from("<I", data, section_offset + i * section_size + 4)
            offset, size = struct.unpack_from("<2Q", data, section_offset + i * section_size + 24)
            # SHT_NOBITS has no bytes in the file.
            end = max(end, offset if kind == 8 else offset + size)
    if end > len(data):
        raise ValueError(f"it is cut off: it has {len(data)} bytes, and its headers give it {end}")
    return end


def check_contents(data: bytes) -> None:
    """Raises ValueError if the bytes of a library differ from the ones that were written.

    To map a file that is too short ends the process when its pages are touched. A library that another linker made has
    no checksum.
    """
    end = _find_elf_end(data)
    if end == len(data):
        return
    if len(data) < end + _CHECKSUM.size:
        raise ValueError("its checksum is cut off")
    magic, checksum, _ = _CHECKSUM.unpack_from(data, end)
    if magic != _CHECKSUM_MAGIC or checksum != zlib.crc32(data[:end]):
        raise ValueError("its checksum is wrong")


_load_numbers = itertools.count(1)


def _name_descriptor(descriptor: int) -> str:
    """A path to open the file of a descriptor, a new one each time: the dynamic linker knows loaded libraries by their
    paths, and descriptors are used again."""
    parts = ("." if digit == "1" else "" for digit in format(next(_load_numbers), "b"))
    return f"/proc/self/fd/{'/'.join(parts)}/{descriptor}"


def _load_library(path: str, descriptor: int, is_checked: bool) -> ctypes.CDLL:
    """Loads an open file, after a check of its contents."""
    if not is_checked:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        with open(descriptor, "rb", closefd=False) as file:
            file.seek(0)
            check_contents(file.read())
    by_descriptor = _name_descriptor(descriptor)
    return ctypes.CDLL(by_descriptor if os.path.exists(by_descriptor) else os.path.abspath(path))


class Artifact:
    """A loaded artifact. ``functions`` maps names to callables.

    The file is opened once, so that the checked file is the loaded one. ``descriptor`` is a file that is open already;
    the caller closes it. ``is_checked``: the caller has read the file, and its contents are as they were written.
    """

    def __init__(
        self, path: str, runtime: Optional[str] = None, descriptor: Optional[int] = None, is_checked: bool = False
    ):
        load_runtime(runtime)
        opened = None
        try:
            if descriptor is None:
                # Opening a pipe waits for a writer otherwise.
                descriptor = opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            self._library = _load_library(path, descriptor, is_checked)
            artifact = _Artifact.in_dll(self._library, "attn_artifact")
        except (OSError, ValueError) as error:
            raise AttnError(f"{path} is no artifact that can be loaded: {error}") from None
        finally:
            if opened is not None:
                os.close(opened)
        if artifact.abi_version != ABI_VERSION:
            # Another version may have other fields after the number.
            raise AttnError(
                f"{path}: artifact has ABI version {artifact.abi_version}, expected {ABI_VERSION}, that of attn "
                f"{__version__}; compile it again with this version of Attn"
            )
        if artifact.reserved:
            raise AttnError(f"{path}: field 'reserved' of the artifact must be zero (was {artifact.reserved:#x})")
        self.target = artifact.target.decode()
        self.functions: Dict[str, Function] = {}
        for i in range(artifact.num_functions):
            function = Function(artifact.functions[i], self._library)
            self.functions[function.name] = function

    def __getitem__(self, name: str) -> Function:
        try:
            return self.functions[name]
        except KeyError:
            known = ", ".join(self.functions) or "none"
            raise AttnError(f"the artifact has no function '{name}'; it has {known}") from None

    def names(self) -> List[str]:
        return list(self.functions)
