# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Communicators: a thin layer over ``attn-runtime/attn_comm.h``.

A communicator is one rank's access to the other ranks of its group. Compiled functions that communicate use the one
that the calling thread has made current.
"""

import contextlib
import ctypes
import math
import numbers
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from attn.errors import AttnError
from attn.library import load_runtime

# ATTN_COMM_ABI_VERSION
_ABI_VERSION = 2
# Members of attn_comm_memory.
_HOST, _DEVICE = 1, 2
#: The legacy default stream of CUDA as ``stream``.
LEGACY_STREAM = 1
#: In place of a peer: nothing is sent, or nothing is received.
NO_PEER = -1
#: Members of ``attn_status``.
IO_ERROR, INTERNAL = 11, 14
_MAX_SECONDS = 24 * 3600


class _Comm(ctypes.Structure):
    """``attn_comm``"""

    _fields_ = [("functions", ctypes.c_void_p), ("rank", ctypes.c_int32), ("size", ctypes.c_int32)]


_Address, _Bytes, _Status = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
_SendRecvFn = ctypes.CFUNCTYPE(
    _Status, _Address, _Address, _Bytes, ctypes.c_int32, _Address, _Bytes, ctypes.c_int32, _Address
)
_CollectiveFn = ctypes.CFUNCTYPE(_Status, _Address, _Address, _Address, _Bytes, _Address)
_ReduceFn = ctypes.CFUNCTYPE(_Status, _Address, _Address, _Address, _Bytes, ctypes.c_int32, _Address)
_AbortFn = ctypes.CFUNCTYPE(_Status, _Address, _Status, ctypes.c_char_p)
_DestroyFn = ctypes.CFUNCTYPE(None, _Address)


class _Functions(ctypes.Structure):
    """``attn_comm_functions``"""

    _fields_ = [
        ("abi_version", ctypes.c_uint32),
        ("memory", ctypes.c_uint32),
        ("send_recv", _SendRecvFn),
        ("all_gather", _CollectiveFn),
        ("all_to_all", _CollectiveFn),
        ("reduce_scatter", _ReduceFn),
        ("abort", _AbortFn),
        ("destroy", _DestroyFn),
    ]


def check_timeout(timeout: Any) -> int:
    """Seconds that ranks wait for each other, in milliseconds."""
    if not isinstance(timeout, numbers.Real):
        raise AttnError(f"timeout is a {type(timeout).__name__}; pass a number of seconds")
    if not 0 < timeout <= _MAX_SECONDS:
        raise AttnError(f"timeout is {timeout}; it must be above 0 and at most {_MAX_SECONDS} seconds")
    return max(1, math.ceil(timeout * 1000))


def _last_error() -> str:
    runtime = load_runtime()
    runtime.attnGetLastError.restype = ctypes.c_char_p
    return (runtime.attnGetLastError() or b"").decode(errors="replace")


def _check(status: int) -> None:
    if status:
        raise AttnError(_last_error())


class Communicator:
    """One rank of a group, which one thread uses at a time."""

    def __init__(self, handle: int):
        self._handle: Optional[int] = handle
        comm = _Comm.from_address(handle)
        self.rank, self.size = comm.rank, comm.size

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Compiled functions that the thread calls in a ``with`` statement use this communicator."""
        runtime = load_runtime()
        runtime.attn_comm_get_current.restype = ctypes.c_void_p
        before = runtime.attn_comm_get_current()
        runtime.attn_comm_set_current(ctypes.c_void_p(self._handle))
        try:
            yield
        finally:
            runtime.attn_comm_set_current(ctypes.c_void_p(before))

    def all_gather(self, send: int, receive: int, num_bytes: int, stream: Optional[int] = None) -> None:
        """``attn_comm_all_gather`` of memory at addresses."""
        gather = load_runtime().attn_comm_all_gather
        gather.argtypes = [_Address, _Address, _Address, _Bytes, _Address]
        _check(gather(self._handle, send, receive, num_bytes, stream))

    def send_recv(
        self, send: int, send_bytes: int, to: int, receive: int, receive_bytes: int, source: int,
        stream: Optional[int] = None,
    ) -> None:  # fmt: skip
        """``attn_comm_send_recv`` of memory at addresses. Either rank may be ``NO_PEER``."""
        exchange = load_runtime().attn_comm_send_recv
        exchange.argtypes = [_Address, _Address, _Bytes, ctypes.c_int32, _Address, _Bytes, ctypes.c_int32, _Address]
        _check(exchange(self._handle, send, send_bytes, to, receive, receive_bytes, source, stream))

    def takes_device_memory(self) -> bool:
        return bool(_Functions.from_address(_Comm.from_address(self._handle or 0).functions).memory & _DEVICE)

    def gather_bytes(self, data: bytes) -> List[bytes]:
        """What each rank passes: as many bytes on all ranks."""
        received = ctypes.create_string_buffer(len(data) * self.size)
        sent = ctypes.create_string_buffer(data, len(data))
        self.all_gather(ctypes.addressof(sent), ctypes.addressof(received), len(data))
        return [received.raw[rank * len(data) : (rank + 1) * len(data)] for rank in range(self.size)]

    def gather_texts(self, text: str) -> List[str]:
        """The text of each rank."""
        data = text.encode()
        lengths = [int.from_bytes(length, "little") for length in self.gather_bytes(len(data).to_bytes(8, "little"))]
        padded = self.gather_bytes(data.ljust(max(lengths), b"\0"))
        return [part[:length].decode() for part, length in zip(padded, lengths)]

    def abort(self, status: int, text: str) -> None:
        """Ends the present or the next call on all ranks with an error."""
        load_runtime().attn_comm_abort(ctypes.c_void_p(self._handle), status, text.encode())

    def close(self) -> None:
        """Gives up the rank."""
        handle, self._handle = self._handle, None
        if handle is not None:
            load_runtime().attn_comm_destroy(ctypes.c_void_p(handle))


def create_local(size: int, timeout: float) -> List[Communicator]:
    """Communicators of ranks that are threads of this process."""
    milliseconds = check_timeout(timeout)
    comms = (ctypes.c_void_p * max(size, 1))()
    _check(load_runtime().attn_comm_create_local(size, ctypes.c_int64(milliseconds), comms))
    return [Communicator(comm) for comm in comms]


# attn_comm_nccl_id
_NCCL_ID_BYTES = 128


def create_nccl(host: Communicator, timeout: float) -> Communicator:
    """A communicator for memory of the current device, with the same ranks as one for memory of the host."""
    milliseconds, runtime = check_timeout(timeout), load_runtime()
    name, status, text = ctypes.create_string_buffer(_NCCL_ID_BYTES), 0, ""
    if host.rank == 0:
        status = runtime.attn_comm_nccl_unique_id(name)
        text = _last_error() if status else ""
    # All ranks learn if the first one has no library.
    problems = host.gather_texts(text)
    if problems[0]:
        raise AttnError(f"rank 0: {problems[0]}")
    name.raw = host.gather_bytes(name.raw)[0]
    comm = ctypes.c_void_p()
    _check(
        runtime.attn_comm_create_nccl(
            name, host.rank, host.size, ctypes.c_int64(milliseconds), ctypes.byref(comm)
        )
    )
    assert comm.value is not None
    return Communicator(comm.value)


class Transport:
    """The functions of a communicator in Python, on memory of the host. Each raises an exception if it fails, after
    which ``find_failure`` tells the status and the text of the error that ended the group."""

    rank: int
    size: int

    def send_recv(self, send: int, send_bytes: int, to: int, receive: int, receive_bytes: int, source: int) -> None:
        raise NotImplementedError

    def all_gather(self, send: int, receive: int, num_bytes: int) -> None:
        raise NotImplementedError

    def all_to_all(self, send: int, receive: int, num_bytes: int) -> None:
        raise NotImplementedError

    def reduce_scatter(self, send: int, receive: int, count: int, dtype: int) -> None:
        raise NotImplementedError

    def fail(self, status: int, text: str) -> Tuple[int, str]:
        """Ends the group with an error, if it has not ended yet. Returns the error that ended it."""
        raise NotImplementedError

    def close(self) -> None:
        """Gives up the rank."""


# Communicators in Python by the addresses of their structures, which must not move.
_transports: Dict[int, Tuple[Transport, _Comm]] = {}


def _set_error(status: int, text: str) -> int:
    return load_runtime().attnrtSetError(status, b"%s", text.encode())


def _run(name: str, address: int, call: Callable[[Transport], None]) -> int:
    """Makes a call of a transport. Exceptions cannot pass through compiled code."""
    transport, _ = _transports[address]
    try:
        call(transport)
        return 0
    except BaseException as error:  # noqa: BLE001
        status, text = transport.fail(IO_ERROR, f"rank {transport.rank}: {name}: {error}")
    return _set_error(status, text)


@_SendRecvFn
def _send_recv(comm, send, send_bytes, to, receive, receive_bytes, source, stream):
    arguments = (send, send_bytes, to, receive, receive_bytes, source)
    return _run("send_recv", comm, lambda transport: transport.send_recv(*arguments))


@_CollectiveFn
def _all_gather(comm, send, receive, num_bytes, stream):
    return _run("all_gather", comm, lambda transport: transport.all_gather(send, receive, num_bytes))


@_CollectiveFn
def _all_to_all(comm, send, receive, num_bytes, stream):
    return _run("all_to_all", comm, lambda transport: transport.all_to_all(send, receive, num_bytes))


@_ReduceFn
def _reduce_scatter(comm, send, receive, count, dtype, stream):
    return _run("reduce_scatter", comm, lambda transport: transport.reduce_scatter(send, receive, count, dtype))


@_AbortFn
def _abort(comm, status, text):
    transport, _ = _transports[comm]
    return _set_error(*transport.fail(status, f"rank {transport.rank}: {(text or b'').decode(errors='replace')}"))


@_DestroyFn
def _destroy(comm):
    transport, _ = _transports.pop(comm)
    transport.close()


_functions = _Functions(
    _ABI_VERSION, _HOST, _send_recv, _all_gather, _all_to_all, _reduce_scatter, _abort, _destroy
)  # fmt: skip


def create_from(transport: Transport) -> Communicator:
    """A communicator whose functions are in Python."""
    comm = _Comm(ctypes.addressof(_functions), transport.rank, transport.size)
    _transports[ctypes.addressof(comm)] = (transport, comm)
    return Communicator(ctypes.addressof(comm))
