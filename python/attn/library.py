# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the shared libraries are: the runtime, and the compiler if there is one.

They are looked for in the folder that the environment variable ATTN_LIBRARY_DIR
names, or else in the folder ``lib`` of the package, where wheels have them.
"""

import ctypes
import functools
import hashlib
import os
import pathlib
from typing import Optional

from attn.errors import AttnError
from attn.version import __version__

#: The version of the layouts and signatures of ``attn_runtime.h``.
ABI_VERSION = 3
_RUNTIME = "libattn_runtime.so.3"
_COMPILER = "libattn_c.so.1"


def library_dir() -> pathlib.Path:
    """The folder of the shared libraries."""
    folder = os.environ.get("ATTN_LIBRARY_DIR")
    if not folder:
        return pathlib.Path(__file__).parent / "lib"
    if not os.path.isdir(folder):
        raise AttnError(f"ATTN_LIBRARY_DIR must name a folder with {_RUNTIME} (was '{folder}')")
    return pathlib.Path(folder)


def runtime_path() -> pathlib.Path:
    return library_dir() / _RUNTIME


def runtime_header() -> pathlib.Path:
    """The C header of the runtime: in the package, or in the sources that the package lies in."""
    package = pathlib.Path(__file__).parent
    for folder in (package, package.parents[1]):
        header = folder / "include" / "attn-runtime" / "attn_runtime.h"
        if header.is_file():
            return header
    raise AttnError(f"the package in {package} has no header attn_runtime.h; install it again")


def _load(path: pathlib.Path, mode: int) -> ctypes.CDLL:
    if not path.exists():
        place = "ATTN_LIBRARY_DIR names it" if os.environ.get("ATTN_LIBRARY_DIR") else "it is the package's own"
        raise AttnError(
            f"there is no {path.name} in the folder {path.parent} ({place}); install the package again, or set "
            "ATTN_LIBRARY_DIR to the folder 'lib' of a build of Attn"
        )
    try:
        return ctypes.CDLL(os.path.abspath(path), mode=mode)
    except OSError as error:
        raise AttnError(
            f"cannot load {path}: {error}; install the library that is missing or the package again, or set "
            "ATTN_LIBRARY_DIR to the folder 'lib' of a build of Attn"
        ) from None


def _refuse_version(path: pathlib.Path, found: str, expected: str) -> None:
    raise AttnError(
        f"{path} is of another build: it has {found}, expected {expected}, of the Python package "
        f"{pathlib.Path(__file__).parent}; install both from one build"
    )


@functools.lru_cache(maxsize=None)
def load_runtime(path: Optional[str] = None) -> ctypes.CDLL:
    """The runtime, visible to the artifacts that are loaded after it."""
    file = pathlib.Path(path) if path else runtime_path()
    library = _load(file, ctypes.RTLD_GLOBAL)
    version = library.attnrtAbiVersion()
    if version != ABI_VERSION:
        _refuse_version(file, f"ABI version {version}", f"ABI version {ABI_VERSION}")
    return library


def compiler_path() -> pathlib.Path:
    return library_dir() / _COMPILER


@functools.lru_cache(maxsize=None)
def load_compiler() -> ctypes.CDLL:
    library = _load(compiler_path(), ctypes.RTLD_LOCAL)
    library.attncVersion.restype = ctypes.c_char_p
    version = library.attncVersion().decode(errors="replace")
    if version != __version__:
        _refuse_version(compiler_path(), f"version {version}", f"version {__version__}")
    return library


def find_gpu_problem() -> Optional[str]:
    """Why there is no GPU; None if there is one."""
    runtime = load_runtime()
    count = ctypes.c_int32()
    if runtime.attnrtDeviceCount(ctypes.byref(count)) == 0 and count.value > 0:
        return None
    runtime.attnGetLastError.restype = ctypes.c_char_p
    return (runtime.attnGetLastError() or b"").decode(errors="replace") or "the driver reports none"


@functools.lru_cache(maxsize=None)
def compiler_fingerprint() -> Optional[str]:
    """Tells builds of the compiler apart, without loading it; None if there is
    none. The first page of the library holds its build identifier."""
    try:
        path = compiler_path()
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read(4096))
        digest.update(str(path.stat().st_size).encode())
        return digest.hexdigest()
    except OSError:
        return None
