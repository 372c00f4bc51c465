# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attn: a compiler for attention.

``attn.compile`` turns MLIR text, or a description such as ``attn.Attention``,
into a loaded artifact, and ``attn.aot`` writes a directory that C++ programs
call without Python; ``attn.explain`` says what the compiler chooses and why,
and ``attn.draw`` shows it.
``attn.torch`` has attention for PyTorch on top of it.
"""

from attn import masks
from attn.aot import Shape, aot
from attn.artifact import Artifact
from attn.builder import Attention, CacheAppend, LinearAttention, Merge, Quantize
from attn.compiler import compile, explain
from attn.draw import draw
from attn.errors import (
    AttnError,
    AttnWarning,
    CompileError,
    TraceError,
    UnsupportedError,
    WrongTypeError,
    WrongValueError,
)
from attn.version import __version__

__all__ = [
    "Artifact",
    "Attention",
    "AttnError",
    "AttnWarning",
    "CacheAppend",
    "CompileError",
    "LinearAttention",
    "Merge",
    "Quantize",
    "Shape",
    "TraceError",
    "UnsupportedError",
    "WrongTypeError",
    "WrongValueError",
    "__version__",
    "aot",
    "compile",
    "draw",
    "explain",
    "masks",
]
