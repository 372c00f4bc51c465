# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled artifacts on disk.

An entry is a shared library, with a description and a checksum behind its end,
in ``$ATTN_CACHE_DIR``, ``$XDG_CACHE_HOME/attn`` or ``~/.cache/attn``. Its name
is made of all that it depends on. Entries are written to another file and then
renamed, so that any number of processes may use one folder; they may be deleted
at any time. An entry that is damaged, or was made by another build of the
compiler, is made again; without a compiler what there is is used.
"""

import functools
import hashlib
import json
import os
import pathlib
import platform
import stat
import tempfile
from typing import Any, Callable, Dict, Optional, Tuple

from attn.artifact import ABI_VERSION, Artifact
from attn.errors import AttnError, warn_once
from attn.library import compiler_fingerprint
from attn.version import __version__

_FORMAT = 1
# The last bytes of an entry: the size of the description before, and this.
_MAGIC = b"ATTNCACHE"
_SIZE_BYTES = 4


def cache_dir() -> pathlib.Path:
    """The folder of the entries."""
    folder = os.environ.get("ATTN_CACHE_DIR")
    if folder:
        return pathlib.Path(folder)
    base = os.environ.get("XDG_CACHE_HOME")
    return (pathlib.Path(base) if base else pathlib.Path.home() / ".cache") / "attn"


@functools.lru_cache(maxsize=None)
def _host() -> str:
    """What code for the host depends on."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = ("model name", "flags", "Features", "CPU part")
    return "\n".join([platform.machine()] + sorted({line for line in lines if line.startswith(names)}))


def make_key(text: str, passes: str, target: str, options: Tuple[Tuple[str, str], ...]) -> str:
    """The name of what these become."""
    parts = [_FORMAT, ABI_VERSION, __version__, text, passes, options]
    if target == "host":
        parts.append(_host())
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _write(path: pathlib.Path, library: bytes) -> None:
    """Writes an entry in full or not at all."""
    description = {
        "sha256": hashlib.sha256(library).hexdigest(),
        "compiler": compiler_fingerprint(),
        "version": __version__,
    }
    tail = json.dumps(description).encode()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(library + tail + len(tail).to_bytes(_SIZE_BYTES, "little") + _MAGIC)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _read_description(path: pathlib.Path) -> Dict[str, Any]:
    """The description of an entry whose contents are as they were written."""
    # Opening a pipe waits for a writer otherwise, and devices may have no end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read()
    finally:
        os.close(descriptor)
    footer = _SIZE_BYTES + len(_MAGIC)
    if not data.endswith(_MAGIC):
        raise ValueError("it is cut off")
    size = int.from_bytes(data[-footer : -len(_MAGIC)], "little")
    description = json.loads(data[-footer - size : -footer])
    if hashlib.sha256(data[: -footer - size]).hexdigest() != description["sha256"]:
        raise ValueError("its checksum is wrong")
    return description


def _load(path: pathlib.Path) -> Optional[Artifact]:
    """The artifact of an entry; None if it must be made."""
    try:
        description = _read_description(path)
        compiler = compiler_fingerprint()
        if compiler is not None and description["compiler"] != compiler:
            return None
        return Artifact(str(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttnError) as error:
        warn_once("damaged cache entry", f"the cache entry {path} is damaged ({error}); it is compiled again")
        return None


def load_or_create(key: str, create: Callable[[], bytes]) -> Artifact:
    """The artifact of this name, made and stored if it is not there."""
    path = cache_dir() / f"{key}.so"
    artifact = _load(path)
    if artifact is not None:
        return artifact
    library = create()
    try:
        _write(path, library)
        return Artifact(str(path))
    except OSError as error:
        warn_once("cache not writable", f"cannot write to the cache {path.parent} ({error}); set ATTN_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "artifact.so"
        file.write_bytes(library)
        # What is loaded stays when its file is removed.
        return Artifact(str(file))
