# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs compiled artifacts on torch tensors.

An artifact is a shared library written by ``attn-compile``. It needs
``libattn_runtime.so`` and, for a GPU target, the CUDA driver; no compiler. The
structures below mirror ``attn-runtime/attn_runtime.h``.
"""

import ctypes
from typing import Dict, List, Optional, Tuple

ABI_VERSION = 1
DTYPES = ("bf16", "f16", "f32", "f64", "i32", "i64", "i8", "i1")
_TORCH_NAMES = ("bfloat16", "float16", "float32", "float64", "int32", "int64", "int8", "bool")


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


class _TensorSpec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("alignment", ctypes.c_int32),
        ("is_output", ctypes.c_int32),
    ]


_TensorArray = ctypes.POINTER(ctypes.POINTER(_Tensor))
_CallFn = ctypes.CFUNCTYPE(ctypes.c_int32, _TensorArray, ctypes.c_int32, ctypes.c_void_p)
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


class AttnError(RuntimeError):
    """A call was refused or failed; the text is the runtime's."""


def _describe(tensor) -> Tuple[_Tensor, list]:
    """The C view of a torch tensor, and what must outlive it."""
    rank = tensor.dim()
    shape = (ctypes.c_int64 * rank)(*tensor.shape)
    strides = (ctypes.c_int64 * rank)(*tensor.stride())
    name = str(tensor.dtype).rpartition(".")[2]
    if name not in _TORCH_NAMES:
        raise AttnError(f"tensors of {tensor.dtype} are not supported (expected one of {', '.join(_TORCH_NAMES)})")
    device = tensor.device.index if tensor.device.type == "cuda" else -1
    if tensor.device.type not in ("cuda", "cpu"):
        raise AttnError(f"tensors on '{tensor.device}' are not supported (expected cpu or cuda)")
    view = _Tensor(tensor.data_ptr(), shape, strides, rank, _TORCH_NAMES.index(name), device, 0)
    return view, [shape, strides, view]


class Function:
    """One function of an artifact: called with its inputs, then its outputs."""

    def __init__(self, function: _Function, runtime: ctypes.CDLL):
        self.name = function.name.decode()
        self.args = [
            (
                function.args[i].name.decode(),
                DTYPES[function.args[i].dtype],
                tuple(function.args[i].dims[d] for d in range(function.args[i].rank)),
                bool(function.args[i].is_output),
            )
            for i in range(function.num_args)
        ]
        self._function = function
        self._runtime = runtime

    def bind(self, *tensors, stream: Optional[int] = None):
        """A callable without arguments that runs the function on these tensors.

        ``stream`` is a CUDA stream handle; the default is the legacy stream.
        """
        keep, views = [], []
        for tensor in tensors:
            view, parts = _describe(tensor)
            keep.append((tensor, parts))
            views.append(ctypes.pointer(view))
        array = (ctypes.POINTER(_Tensor) * len(views))(*views)
        call, count, error = self._function.call, len(views), self._runtime.attnGetLastError

        def run(_keep=keep):
            if call(array, count, stream) != 0:
                raise AttnError(error().decode())

        run.array = array
        return run

    def __call__(self, *tensors, stream: Optional[int] = None):
        self.bind(*tensors, stream=stream)()

    def flops(self, *tensors) -> int:
        """Floating point operations of a call, by the compiler's count."""
        return self._function.flops(self.bind(*tensors).array)


class Artifact:
    """A loaded artifact. ``functions`` maps names to callables."""

    def __init__(self, path: str, runtime: str = "libattn_runtime.so"):
        self._runtime = ctypes.CDLL(runtime, mode=ctypes.RTLD_GLOBAL)
        self._runtime.attnGetLastError.restype = ctypes.c_char_p
        self._library = ctypes.CDLL(path)
        artifact = _Artifact.in_dll(self._library, "attn_artifact")
        if artifact.abi_version != ABI_VERSION:
            raise AttnError(f"{path}: artifact has ABI version {artifact.abi_version}, expected {ABI_VERSION}")
        self.target = artifact.target.decode()
        self.functions: Dict[str, Function] = {}
        for i in range(artifact.num_functions):
            function = Function(artifact.functions[i], self._runtime)
            self.functions[function.name] = function

    def __getitem__(self, name: str) -> Function:
        return self.functions[name]

    def names(self) -> List[str]:
        return list(self.functions)
