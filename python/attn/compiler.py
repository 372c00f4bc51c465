# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler: a thin layer over ``attn-c/Compiler.h``."""

import contextlib
import ctypes
import json
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Protocol, Tuple, Union

from attn import cache
from attn.artifact import Artifact
from attn.errors import AttnError, CompileError, WrongValueError, get_logger
from attn.library import load_compiler

# Compilations that take longer are announced.
_SECONDS_TO_NOTICE = 1.0
_ABI_VERSION = 1
_VERSION_MISMATCH = 2

Options = Mapping[str, Union[str, int, bool]]


class Builder(Protocol):
    """An object that ``compile`` takes in the place of text."""

    def mlir(self) -> str:
        """The module as MLIR text."""


Source = Union[str, Builder]


def _check_text(name: str, text: str) -> str:
    """Returns ``text`` if it can be encoded: Python's texts may hold halves of surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        found = f"character {error.start} is {text[error.start]!a}"
        raise WrongValueError(f"{name} must be Unicode text, but {found}, half of a surrogate pair") from None
    return text


def _text(source: Source) -> str:
    if not isinstance(source, str):
        if not hasattr(source, "mlir"):
            raise AttnError(f"source is a {type(source).__name__}; pass MLIR text, or attn.Attention")
        return _check_text("source", source.mlir())
    _check_text("source", source)
    if source.endswith((".mlir", ".mlirbc")) and "\n" not in source:
        raise AttnError(f"source is the name of a file, '{source}'; pass the text in it")
    return source


def _option_texts(target: str, options: Optional[Options]) -> Tuple[Tuple[str, str], ...]:
    for name, value in {"target": target, **(options or {})}.items():
        if not isinstance(value, (str, int)):
            raise AttnError(f"the option '{name}' is a {type(value).__name__}; pass text, a number or a bool")
        _check_text("the name of an option", name)
        _check_text(f"the option '{name}'", str(value))
    texts = {name.replace("_", "-"): str(value) for name, value in (options or {}).items()}
    for name, value in (options or {}).items():
        if isinstance(value, bool):
            texts[name.replace("_", "-")] = "true" if value else "false"
    texts["target"] = target
    return tuple(sorted(texts.items()))


def _take_bytes(library: ctypes.CDLL, buffer: ctypes.c_void_p) -> bytes:
    """The bytes of a buffer, which is destroyed."""
    library.attncBufferData.restype = ctypes.c_void_p
    library.attncBufferSize.restype = ctypes.c_size_t
    try:
        return ctypes.string_at(library.attncBufferData(buffer), library.attncBufferSize(buffer))
    finally:
        library.attncBufferDestroy(buffer)


class _Session:
    """A context of the compiler with one module and its options."""

    def __init__(self, text: str, passes: str, options: Tuple[Tuple[str, str], ...]):
        self._c = load_compiler()
        self._handles: List[Tuple[Any, ctypes.c_void_p]] = []
        self.context = ctypes.c_void_p()
        self._c.attncContextGetError.restype = ctypes.c_char_p
        self._c.attncContextGetError.argtypes = [ctypes.c_void_p]
        status = self._c.attncContextCreate(ctypes.c_uint32(_ABI_VERSION), ctypes.byref(self.context))
        if status == _VERSION_MISMATCH:
            raise AttnError(
                f"the compiler library has ABI version {self._c.attncAbiVersion()}, expected {_ABI_VERSION}; "
                "install the package again"
            )
        self._handles.append((self._c.attncContextDestroy, self.context))
        try:
            source = text.encode()
            self.module = self._create(
                "attncModule", "Parse", self.context, source, ctypes.c_size_t(len(source)), b"module.mlir"
            )
            self.options = self._create("attncOptions", "Create")
            for name, value in options:
                self._check(self._c.attncOptionsSet(self.context, self.options, name.encode(), value.encode()))
            if passes:
                self._check(self._c.attncModuleRunPasses(self.module, passes.encode()))
        except BaseException:
            self.close()
            raise

    def _create(self, prefix: str, function: str, *args: Any) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self._check(getattr(self._c, prefix + function)(*args, ctypes.byref(handle)))
        self._handles.append((getattr(self._c, prefix + "Destroy"), handle))
        return handle

    def _check(self, status: int) -> None:
        if status != 0:
            raise CompileError(self._c.attncContextGetError(self.context).decode(errors="replace"))

    def run(self, function: str) -> bytes:
        """The bytes that a function of the module and the options writes."""
        buffer = ctypes.c_void_p()
        self._check(getattr(self._c, function)(self.module, self.options, ctypes.byref(buffer)))
        return _take_bytes(self._c, buffer)

    def close(self) -> None:
        for destroy, handle in reversed(self._handles):
            destroy(handle)
        self._handles.clear()


@contextlib.contextmanager
def _session(source: Source, passes: str, target: str, options: Optional[Options]) -> Iterator[_Session]:
    session = _Session(_text(source), _check_text("passes", passes), _option_texts(target, options))
    try:
        yield session
    finally:
        session.close()


def describe() -> Dict[str, Any]:
    """Facts about the compiler: ``version``, ``llvm`` (a version), ``targets``, and ``ptxas``, a path or None."""
    library = load_compiler()
    library.attncDescribe.restype = ctypes.c_void_p
    return json.loads(_take_bytes(library, ctypes.c_void_p(library.attncDescribe())))


def find_gpu_target(major: int, minor: int) -> Optional[str]:
    """The target for a GPU of a compute capability; None if there is none."""
    if (major, minor) == (9, 0):
        return "sm_90a"
    return "sm_80" if major >= 8 else None


def run_passes(source: Source, passes: str) -> None:
    """Runs passes that write files."""
    with _session(source, passes, "host", None):
        pass


def compile_bytes(
    source: Source, *, target: str = "host", emit: str = "so", passes: str = "", options: Optional[Options] = None
) -> bytes:
    """The output of ``attn-compile`` for a module: ``emit`` is "so", "obj", "ptx", "cubin", "header", "llvm" or
    "mlir"."""
    with _session(source, passes, target, {**(options or {}), "emit": emit}) as session:
        return session.run("attncCompile")


def _shows_progress() -> bool:
    """Whether a line on stderr announces compilations: ATTN_PROGRESS, or else whether it is a terminal."""
    value = os.environ.get("ATTN_PROGRESS", "")
    if value not in ("", "0", "1"):
        raise AttnError(f"the environment variable ATTN_PROGRESS is '{value}', expected 0 or 1")
    return value == "1" or (value == "" and sys.stderr is not None and sys.stderr.isatty())


class _Progress:
    """Announces a compilation that takes long, and the folder of the result, to the logger ``attn`` and as a line on
    stderr."""

    def __init__(self, target: str):
        self._target = target
        self._is_shown = _shows_progress()
        self._lock = threading.Lock()
        self._has_begun = self._has_ended = False
        self._timer = threading.Timer(_SECONDS_TO_NOTICE, self._begin)
        self._timer.daemon = True
        self._start = time.monotonic()

    def _begin(self) -> None:
        try:
            kept = f"; the result is kept in {cache.cache_dir()}"
        except RuntimeError:
            kept = ""
        with self._lock:
            if self._has_ended:
                return
            self._has_begun = True
            if self._is_shown:
                print(f"attn: compiling for {self._target}{kept} ...", end="", file=sys.stderr, flush=True)
        get_logger().info("attn: compiling for %s takes more than %g s%s", self._target, _SECONDS_TO_NOTICE, kept)

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._timer.cancel()
        with self._lock:
            self._has_ended = True
            if self._has_begun and self._is_shown:
                how = "done in" if kind is None else "failed after"
                print(f" {how} {time.monotonic() - self._start:.1f} s", file=sys.stderr, flush=True)


def _compile_text(text: str, passes: str, texts: Tuple[Tuple[str, str], ...], target: str, is_noticed: bool) -> bytes:
    try:
        load_compiler()
    except AttnError as error:
        raise AttnError(
            f"no usable entry of the cache has this module for {target}, and it cannot be compiled: {error}. Entries "
            "of a machine with a compiler may be copied, see attn.cache.inspect()"
        ) from None
    with _Progress(target) if is_noticed else contextlib.nullcontext():
        return compile_bytes(text, target=target, passes=passes, options=dict(texts))


_artifacts: Dict[str, Artifact] = {}
# Locks of results, by their keys: one thread makes a result, and others wait for it.
_locks: Dict[str, threading.Lock] = {}
_lock = threading.Lock()


def _forget_locks() -> None:
    """In a process that was forked while another thread compiled, nobody releases its lock."""
    global _lock
    _lock = threading.Lock()
    _locks.clear()


os.register_at_fork(after_in_child=_forget_locks)


class _Request:
    """A module with its passes and options, whose result has a key."""

    def __init__(self, source: Source, target: str, passes: str, options: Optional[Options]):
        self.target = target
        self._text, self._texts = _text(source), _option_texts(target, options)
        self._passes = _check_text("passes", passes)
        self.key = cache.make_key(self._text, self._passes, target, self._texts)

    def load(self, is_noticed: bool = True) -> Artifact:
        """The result, from memory, from disk, or compiled."""
        artifact = _artifacts.get(self.key)
        if artifact is not None:
            return artifact
        with _lock:
            lock = _locks.setdefault(self.key, threading.Lock())
        with lock:
            artifact = _artifacts.get(self.key)
            if artifact is None:
                artifact = cache.load_or_create(
                    self.key,
                    lambda: _compile_text(self._text, self._passes, self._texts, self.target, is_noticed),
                    self.target,
                )
                _artifacts[self.key] = artifact
        return artifact


class _Compilation:
    """A result that a thread of its own makes, which a call waits for."""

    def __init__(self, request: _Request):
        self._request = request
        self._error: Optional[BaseException] = None
        # No daemon: the libraries of the compiler must not end before it.
        self._thread = threading.Thread(target=self._run, name="attn compiler")
        self._thread.start()

    def _run(self) -> None:
        try:
            self._request.load(is_noticed=False)
        except BaseException as error:
            self._error = error

    def __call__(self) -> Artifact:
        if self._thread.is_alive():
            with _Progress(self._request.target):
                self._thread.join()
        if self._error is not None:
            raise self._error
        # A forked process has neither the thread nor its result.
        return self._request.load()


def compile(source: Source, *, target: str = "host", passes: str = "", options: Optional[Options] = None) -> Artifact:
    """Compiles a module and loads the result.

    ``source`` is MLIR text or has a method ``mlir`` that returns it. ``passes``
    run first, such as ``"attn-differentiate"``. ``options`` are options of
    ``attn-compile``, such as ``{"schedule": "#attn_tile.sequential<...>"}``.

    Results are kept in memory and on disk (see ``attn.cache``); the compiler is loaded only if the result is not there.
    """
    return _Request(source, target, passes, options).load()


def compile_in_background(
    source: Source, *, target: str = "host", passes: str = "", options: Optional[Options] = None
) -> Callable[[], Artifact]:
    """Has another thread do what ``compile`` does, if the result is neither in memory nor on disk. A call of the result
    waits for the artifact, or raises the error."""
    request = _Request(source, target, passes, options)
    if request.key in _artifacts or cache.has_entry(request.key):
        return request.load
    return _Compilation(request)


def explain(
    source: Source, *, target: str = "sm_90a", passes: str = "", options: Optional[Options] = None
) -> List[Dict[str, Any]]:
    """The compiler's choices for a module, and their reasons: one dictionary for each remark, with ``pass``, ``name``,
    ``kind``, ``message`` and its place."""
    with _session(source, passes, target, options) as session:
        return json.loads(session.run("attncExplain"))
