# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled artifacts on disk.

An entry is a shared library, with a description and a checksum behind its end, in ``$ATTN_CACHE_DIR``,
``$XDG_CACHE_HOME/attn`` or ``~/.cache/attn``. Its name is a hash of all that it depends on. Entries are written to
another file and then renamed, so that any number of processes may use one folder; they may be deleted at any time. An
entry that is damaged, or was made by another build of the compiler, is made again; without a compiler, existing entries
are used. Each time an entry is written, the least recently used ones beyond ``$ATTN_CACHE_SIZE`` bytes are removed.

Entries are code that runs. So a folder or an entry that belongs to another user
than root, or that others can write, is not used: a warning says so once, and
artifacts are compiled without a cache. An entry is opened, checked and loaded by
one descriptor.
"""

import contextlib
import errno
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import re
import stat
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from attn.artifact import ABI_VERSION, Artifact
from attn.errors import AttnError, WrongValueError, get_logger, warn_once
from attn.library import compiler_fingerprint
from attn.version import __version__

_FORMAT = 2
# The last bytes of an entry: the size of the description before, and this.
_MAGIC = b"ATTNCACHE"
_SIZE_BYTES = 4
_DEFAULT_LIMIT = "4G"
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
# A file that is being written is older than this only if its process has ended.
_SECONDS_OF_WRITING = 3600


def cache_dir() -> pathlib.Path:
    """The folder of the entries."""
    folder = os.environ.get("ATTN_CACHE_DIR")
    if folder:
        return pathlib.Path(folder)
    base = os.environ.get("XDG_CACHE_HOME")
    return (pathlib.Path(base) if base else pathlib.Path.home() / ".cache") / "attn"


def size_limit() -> Optional[int]:
    """The bytes that entries may take together, ``$ATTN_CACHE_SIZE``; None if there is no limit."""
    text = os.environ.get("ATTN_CACHE_SIZE") or _DEFAULT_LIMIT
    if text == "unlimited":
        return None
    match = re.fullmatch(r"(\d+) ?([KMGT]?)(?:i?B)?", text, re.ASCII)
    if match is None or int(match[1]) == 0:
        raise WrongValueError(
            f"the environment variable ATTN_CACHE_SIZE is '{text}', expected a positive number of bytes, perhaps with "
            "K, M, G or T behind it, as in 4G, or 'unlimited'"
        )
    return int(match[1]) * _UNITS[match[2]]


@functools.lru_cache(maxsize=None)
def _host() -> str:
    """The properties of the machine that code for the host depends on."""
    machine = os.uname().machine
    names = ("model name", "flags", "Features", "CPU part")
    found = set()
    try:
        # The kernel writes the file while it is read, and takes long for many processors, which are all alike on x86.
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith(names):
                    found.add(line.rstrip("\n"))
                elif not line.strip() and machine == "x86_64":
                    break
    except OSError:
        pass
    return "\n".join([machine, *sorted(found)])


def make_key(text: str, passes: str, target: str, options: Tuple[Tuple[str, str], ...]) -> str:
    """The name of the entry for these inputs."""
    parts = [_FORMAT, ABI_VERSION, __version__, text, passes, options]
    if target == "host":
        parts.append(_host())
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class _Untrusted(Exception):
    """A folder or an entry that somebody else may have written; the text says why."""


def _check_owner(status: os.stat_result, what: str) -> None:
    """Only root and the user may have made, or may change, code that is run."""
    if status.st_uid not in (0, os.geteuid()):
        raise _Untrusted(f"{what} belongs to user {status.st_uid}, expected {os.geteuid()} or root")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(status.st_mode)
        raise _Untrusted(f"{what} can be written by others than its owner (mode {mode:o}, expected go-w)")


@contextlib.contextmanager
def _open_folder(create: bool = False) -> Iterator[int]:
    """A descriptor of the folder, which nobody can replace by another one meanwhile."""
    path = cache_dir()
    if create:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _check_owner(os.fstat(folder), f"the cache {path}")
        yield folder
    finally:
        os.close(folder)


@contextlib.contextmanager
def _try_lock(descriptor: int) -> Iterator[bool]:
    """Whether no other process holds a lock of this file, which this one then holds."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        # Some file systems have no locks.
        yield False
        return
    try:
        yield True
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _remove(folder: int, name: str) -> bool:
    """Removes an entry that nobody is loading. Returns whether it is gone."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        with _try_lock(descriptor) as is_mine:
            if not is_mine:
                return False
            # Another process may have written the entry again.
            if os.path.samestat(os.fstat(descriptor), os.stat(name, dir_fd=folder, follow_symlinks=False)):
                os.unlink(name, dir_fd=folder)
            return True
    except FileNotFoundError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _list_files(folder: int) -> List[Tuple[str, os.stat_result]]:
    """The regular files of a folder."""
    found = []
    with os.scandir(folder) as files:
        for file in files:
            with contextlib.suppress(OSError):
                if file.is_file(follow_symlinks=False):
                    found.append((file.name, file.stat(follow_symlinks=False)))
    return found


def _evict(folder: int, written: str) -> None:
    """Removes the least recently used entries but ``written`` until the rest is within the limit, and files that
    processes have left half written."""
    limit = size_limit()
    with _try_lock(folder) as is_mine:
        # A process that holds the lock is evicting.
        if limit is None or not is_mine:
            return
        files = _list_files(folder)
        for name, status in files:
            if name.endswith(".tmp") and time.time() - status.st_mtime > _SECONDS_OF_WRITING:
                _remove(folder, name)
        entries = [(name, status) for name, status in files if name.endswith(".so")]
        size = sum([status.st_size for _, status in entries])
        # Loading an entry sets the time of its last access; file systems may not.
        for name, status in sorted(entries, key=lambda entry: max(entry[1].st_atime_ns, entry[1].st_mtime_ns)):
            if size <= limit:
                break
            if name != written and _remove(folder, name):
                size -= status.st_size
                get_logger().info("the cache entry %s is removed: the cache is larger than %d bytes", name, limit)


@contextlib.contextmanager
def _keep(descriptor: int) -> Iterator[None]:
    """Has other processes keep the file of an entry while it is loaded, and notes that it is used."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except OSError:
        # Without locks a file that is removed stays readable here.
        pass
    try:
        status = os.fstat(descriptor)
        if status.st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "it has just been removed")
        with contextlib.suppress(OSError):
            os.utime(descriptor, ns=(time.time_ns(), status.st_mtime_ns))
        yield
    finally:
        # Forked processes share the lock.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _write(name: str, library: bytes, target: str) -> Artifact:
    """Writes an entry in full or not at all, and loads it."""
    import secrets

    description = {
        "sha256": hashlib.sha256(library).hexdigest(),
        "compiler": compiler_fingerprint(),
        "version": __version__,
        "target": target,
    }
    tail = json.dumps(description).encode()
    temporary = f"{name}{os.getpid()}-{secrets.token_hex(8)}.tmp"
    with _open_folder(create=True) as folder:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(library + tail + len(tail).to_bytes(_SIZE_BYTES, "little") + _MAGIC)
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.close(descriptor)
            os.unlink(temporary, dir_fd=folder)
            raise
        _evict(folder, name)
    try:
        return Artifact(str(cache_dir() / name), descriptor=descriptor, is_checked=True)
    finally:
        os.close(descriptor)


def _read_description(descriptor: int) -> Dict[str, Any]:
    """The description of an entry whose contents are as they were written."""
    with open(descriptor, "rb", closefd=False) as file:
        data = file.read()
    footer = _SIZE_BYTES + len(_MAGIC)
    if not data.endswith(_MAGIC):
        raise ValueError("it is cut off")
    size = int.from_bytes(data[-footer : -len(_MAGIC)], "little")
    description = json.loads(data[-footer - size : -footer])
    if hashlib.sha256(data[: -footer - size]).hexdigest() != description["sha256"]:
        raise ValueError("its checksum is wrong")
    return description


def _open_entry(name: str) -> int:
    """A descriptor of an entry that the user or root has written."""
    with _open_folder() as folder:
        # Opening a pipe waits for a writer otherwise, and devices may have no end.
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is not a regular file")
        _check_owner(status, f"the cache entry {cache_dir() / name}")
        return descriptor
    except BaseException:
        os.close(descriptor)
        raise


def _find_other_build(description: Dict[str, Any]) -> Optional[str]:
    """Why an entry of this description is of another build than the compiler; None if it is not, or there is no
    compiler."""
    compiler = compiler_fingerprint()
    made_by = str(description["compiler"])
    if compiler is None or made_by == compiler:
        return None
    version = description.get("version", "unknown")
    return (
        f"it was made by build {made_by[:8]} of attn {version}, expected build {compiler[:8]} of attn {__version__}"
    )


class Entry(NamedTuple):
    """An entry of the cache."""

    path: str
    bytes: int
    #: The target, and the version of Attn that made it; None if the entry does not tell.
    target: Optional[str]
    version: Optional[str]
    #: Seconds since it was written.
    age_s: float
    #: Why it is not used, and compiled again instead; None if it is used.
    refused: Optional[str]


def inspect() -> List[Entry]:
    """The entries of the cache, the newest first. Nothing of them is run."""
    path = cache_dir()
    problem = None
    try:
        with _open_folder():
            pass
    except FileNotFoundError:
        return []
    except (_Untrusted, OSError) as error:
        problem = str(error)
    entries = []
    for file in path.glob("*.so") if path.is_dir() else ():
        description: Dict[str, Any] = {}
        refused = problem
        try:
            status = file.lstat()
            if refused is None:
                descriptor = _open_entry(file.name)
                try:
                    description = _read_description(descriptor)
                    refused = _find_other_build(description)
                finally:
                    os.close(descriptor)
        except FileNotFoundError:
            # Another process has removed it.
            continue
        except (_Untrusted, OSError, ValueError, KeyError, TypeError) as error:
            refused = "it is not a regular file" if getattr(error, "errno", None) == errno.ELOOP else str(error)
        age = max(0.0, time.time() - status.st_mtime)
        target, version = description.get("target"), description.get("version")
        entries.append(Entry(str(file), status.st_size, target, version, age, refused))
    return sorted(entries, key=lambda entry: entry.age_s)


def _load(name: str) -> Optional[Artifact]:
    """The artifact of an entry; None if it must be made."""
    path = cache_dir() / name
    try:
        descriptor = _open_entry(name)
        try:
            with _keep(descriptor):
                reason = _find_other_build(_read_description(descriptor))
                if reason is not None:
                    get_logger().info("the cache entry %s is compiled again: %s", path, reason)
                    return None
                # Its SHA-256 covers the library and the checksum behind it.
                return Artifact(str(path), descriptor=descriptor, is_checked=True)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttnError) as error:
        # With O_NOFOLLOW a link gives "too many levels".
        reason = "it is not a regular file" if getattr(error, "errno", None) == errno.ELOOP else error
        warn_once("damaged cache entry", f"the cache entry {path} is damaged ({reason}); it is compiled again")
        return None


def _load_uncached(library: bytes) -> Artifact:
    """Loads a library that no folder keeps."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "artifact.so"
        file.write_bytes(library)
        # A loaded library stays when its file is removed.
        return Artifact(str(file))


def has_entry(key: str) -> bool:
    """Whether there is a file for an entry, which may turn out to be damaged."""
    try:
        return (cache_dir() / f"{key}.so").is_file()
    except (OSError, RuntimeError):
        return False


def load_or_create(key: str, create: Callable[[], bytes], target: str) -> Artifact:
    """The artifact of this name for a target, made and stored if it is not there."""
    name = f"{key}.so"
    try:
        cache_dir()
    except RuntimeError as error:
        warn_once("no cache", f"there is no folder for the cache ({error}); set ATTN_CACHE_DIR")
        return _load_uncached(create())
    try:
        artifact = _load(name)
    except _Untrusted as error:
        warn_once("untrusted cache", f"{error}; nothing in the cache is used, and everything is compiled again")
        return _load_uncached(create())
    if artifact is not None:
        return artifact
    # An invalid limit is an error before the compilation.
    size_limit()
    library = create()
    try:
        return _write(name, library, target)
    except _Untrusted as error:
        warn_once("untrusted cache", f"{error}; nothing in the cache is used, and everything is compiled again")
    except OSError as error:
        warn_once("cache not writable", f"cannot write to the cache {cache_dir()} ({error}); set ATTN_CACHE_DIR")
    return _load_uncached(library)
