# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Groups of ranks: process groups of ``torch.distributed``, and threads of one process."""

import collections
import contextlib
import ctypes
import datetime
import functools
import hashlib
import json
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist
from torch import Tensor

from attn import communicator
from attn.communicator import INTERNAL, NO_PEER, Communicator, Transport
from attn.errors import AttnError

_DTYPES = {2: torch.float32, 3: torch.float64}  # attn_dtype
# Tags of messages are 31 bits: messages of another size do not match.
_MAX_TAG = 2**31 - 1
# The tag of a message that nobody sends.
_NO_TAG = _MAX_TAG
# How long a rank whose connections were closed waits for the reason.
_SECONDS_FOR_REASON = 2.0
# The most facts that ranks remember to have agreed about.
_MAX_AGREED = 1 << 16
# Communicators that this process has had with the same ranks: names of new ones.
_counts: Dict[Tuple[int, ...], int] = collections.defaultdict(int)


def _view(address: int, num_bytes: int) -> Tensor:
    """Memory as a tensor of bytes, without a copy."""
    if num_bytes == 0:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer((ctypes.c_char * num_bytes).from_address(address), dtype=torch.uint8)


class GlooTransport(Transport):
    """Communication by gloo, in a process group of its own.

    A rank that fails leaves the reason in torch's store and closes its connections, so that calls of its neighbors fail
    at once. They do the same, and so all ranks get to know the reason.
    """

    def __init__(self, ranks: List[int], timeout: float):
        limit = datetime.timedelta(milliseconds=communicator.check_timeout(timeout))
        _counts[tuple(ranks)] += 1
        self._timeout = timeout
        name = f"attn/{'_'.join(map(str, ranks))}/{_counts[tuple(ranks)]}"
        self._store = dist.PrefixStore(name, dist.distributed_c10d._get_default_store())
        self.rank, self.size = ranks.index(dist.get_rank()), len(ranks)
        # dist.new_group names a group by the number of groups of the process, which differs from rank to rank.
        self._group = dist.ProcessGroupGloo(dist.PrefixStore("gloo", self._store), self.rank, self.size, limit)
        self._failure: Optional[Tuple[int, str]] = None

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    def _verify(self) -> None:
        if self._failure is not None:
            raise AttnError(self._failure[1])

    def _wait(self, work: "dist.Work") -> None:
        try:
            work.wait()
        except RuntimeError as error:
            if "Timed out" in str(error):
                raise AttnError(f"other ranks made no matching call within {self._timeout:g} s") from None
            raise

    def send_recv(self, send: int, send_bytes: int, to: int, receive: int, receive_bytes: int, source: int) -> None:
        self._verify()
        if self.rank in (to, source):
            if to != source or send_bytes != receive_bytes:
                raise AttnError("a rank that sends to itself must receive the same message")
            _view(receive, receive_bytes).copy_(_view(send, send_bytes))
            return
        works = []
        if source != NO_PEER and receive_bytes:
            works.append(self._group.recv([_view(receive, receive_bytes)], source, receive_bytes % _NO_TAG))
        if to != NO_PEER and send_bytes:
            works.append(self._group.send([_view(send, send_bytes)], to, send_bytes % _NO_TAG))
        for work in works:
            self._wait(work)

    def all_gather(self, send: int, receive: int, num_bytes: int) -> None:
        self._verify()
        parts = _view(receive, num_bytes * self.size).view(self.size, num_bytes)
        # The part may be in its place already, where gloo would copy it to itself.
        part = _view(send, num_bytes)
        if num_bytes and send == parts[self.rank].data_ptr():
            part = part.clone()
        if num_bytes:
            self._wait(self._group._allgather_base(parts.view(-1), part))

    def all_to_all(self, send: int, receive: int, num_bytes: int) -> None:
        self._verify()
        if num_bytes:
            total = num_bytes * self.size
            self._wait(self._group.alltoall_base(_view(receive, total), _view(send, total), [], []))

    def reduce_scatter(self, send: int, receive: int, count: int, dtype: int) -> None:
        element = _DTYPES[dtype]
        parts = torch.empty(self.size, count, dtype=element)
        self.all_to_all(send, parts.data_ptr(), count * element.itemsize)
        total = _view(receive, count * element.itemsize).view(element)
        # In the order of the ranks, whatever arrives first.
        total.copy_(parts[0])
        for part in parts[1:]:
            total += part

    def _find_reason(self) -> Optional[Tuple[int, str]]:
        """Why another rank has ended the group, if one has."""
        deadline = time.monotonic() + _SECONDS_FOR_REASON
        while True:
            try:
                if self._store.check(["failure"]):
                    status, _, text = self._store.get("failure").decode(errors="replace").partition(" ")
                    return int(status), text
            except Exception:  # noqa: BLE001
                # The process with the store may have ended.
                return None
            if time.monotonic() > deadline:
                return None
            time.sleep(0.01)

    def _close_connections(self) -> None:
        """Gloo closes all connections of a group in which a call has run into its time limit."""
        if self.size > 1:
            with contextlib.suppress(Exception):
                never = self._group.recv([torch.empty(1, dtype=torch.uint8)], (self.rank + 1) % self.size, _NO_TAG)
                never.wait(datetime.timedelta(milliseconds=1))

    def fail(self, status: int, text: str) -> Tuple[int, str]:
        if self._failure is not None:
            return self._failure
        # A connection that is closed, and a message that does not come, may be the fault of another rank.
        reason = self._find_reason() if status == communicator.IO_ERROR else None
        if reason is None:
            with contextlib.suppress(Exception):
                # The first reason stays.
                value = self._store.compare_set("failure", "", f"{status} {text}").decode(errors="replace")
                found, _, first = value.partition(" ")
                reason = int(found), first
        self._failure = reason or (status, text)
        self._close_connections()
        return self._failure

    def close(self) -> None:
        # Closes its connections.
        self._group = None


class Ranks:
    """This rank of a group, and how it reaches the other ones."""

    def __init__(self, name: str, host: Communicator, timeout: float, group: Optional["dist.ProcessGroup"] = None):
        self.name = name
        self.host = host
        self.rank, self.size = host.rank, host.size
        #: The process group whose ranks they are, if they are no threads.
        self.group = group
        self._timeout = timeout
        #: Digests of the facts that all ranks have agreed about.
        self.agreed: set = set()
        # Communicators for devices, by their numbers.
        self._devices: Dict[int, Communicator] = {}
        # Groups of neighbors, by the first of them and their number, and what makes them.
        self._neighbors: Dict[Tuple[int, int], "Ranks"] = {}
        self._make_neighbors: Optional[Callable[[int, int], "Ranks"]] = None

    def find_communicator(self, device: torch.device) -> Communicator:
        """The communicator for memory of a device. All ranks make the first call with a GPU together."""
        if device.type != "cuda" or self.host.takes_device_memory():
            return self.host
        number = torch.cuda.current_device() if device.index is None else device.index
        found = self._devices.get(number)
        if found is None:
            with torch.cuda.device(number):
                # Has torch make the context of the device current.
                torch.cuda.current_stream().query()
                found = self._devices[number] = communicator.create_nccl(self.host, self._timeout)
        return found

    def find_neighbors(self, first: int, size: int) -> "Ranks":
        """The group of the ranks from ``first`` on, ``size`` of them, which make the first call together. This rank is
        one of them."""
        if size == self.size:
            return self
        found = self._neighbors.get((first, size))
        if found is None:
            assert self._make_neighbors is not None
            found = self._neighbors[first, size] = self._make_neighbors(first, size)
        return found

    def fail(self, text: str) -> None:
        """Ends the group on all ranks, after an error of this one."""
        self.host.abort(INTERNAL, text.removeprefix(f"rank {self.rank}: "))

    def close(self) -> None:
        for ranks in self._neighbors.values():
            ranks.close()
        for comm in self._devices.values():
            comm.close()
        self.host.close()


#: All groups of this process by name, as operators of torch get them.
_all: Dict[str, Ranks] = {}
# The same by process groups and time limits.
_of_groups: Dict[Tuple[int, float], Tuple[Ranks, GlooTransport]] = {}


def find_ranks(name: str) -> Ranks:
    ranks = _all.get(name)
    if ranks is None:
        raise AttnError(f"this process has no group of ranks of the name '{name}'; call context_parallel in it")
    return ranks


def agree(ranks: Ranks, facts: Dict[str, str], again: bool = False) -> None:
    """Raises the same error on all ranks unless these facts are the same on all ranks. Ranks that have agreed about
    facts do not compare them ``again``."""
    text = json.dumps(facts)
    digest = hashlib.sha256(text.encode()).digest()
    if digest in ranks.agreed:
        return
    if any(other != digest for other in ranks.host.gather_bytes(digest)):
        others = [json.loads(other) for other in ranks.host.gather_texts(text)]
        for rank, other in enumerate(others):
            for name, expected in others[0].items():
                if other.get(name) != expected:
                    raise AttnError(f"rank {rank} has {name} {other.get(name)}, expected {expected} as rank 0 has")
    if not again:
        if len(ranks.agreed) >= _MAX_AGREED:
            # At the same call on all ranks.
            ranks.agreed.clear()
        ranks.agreed.add(digest)


def _find_process_group(group: Any) -> "dist.ProcessGroup":
    """The process group that a user means."""
    if not dist.is_available() or not dist.is_initialized():
        raise AttnError("there is no process group; call torch.distributed.init_process_group, or pass local_ranks")
    if group is None:
        return dist.group.WORLD
    if hasattr(group, "get_group") and hasattr(group, "ndim"):
        if group.ndim != 1:
            raise AttnError(
                f"group is a DeviceMesh of {group.ndim} dimensions, {group.mesh_dim_names}; pass the one of the "
                "sequence, as in mesh['cp']"
            )
        return group.get_group()
    if not isinstance(group, dist.ProcessGroup):
        raise AttnError(f"group is a {type(group).__name__}; pass a process group, a DeviceMesh or one of local_ranks")
    if dist.get_rank(group) < 0:
        raise AttnError(f"this process, rank {dist.get_rank()}, is not in the group {group.group_name}")
    return group


def find_place(group: Any) -> Tuple[int, int]:
    """The number of this rank of a group, and of all ranks."""
    if isinstance(group, Ranks):
        return group.rank, group.size
    found = _find_process_group(group)
    return dist.get_rank(found), dist.get_world_size(found)


def make_ranks(group: Any, timeout: float) -> Ranks:
    """This rank of a group: the same for all calls with the group and the time limit."""
    if isinstance(group, Ranks):
        return group
    found = _find_process_group(group)
    known = _of_groups.get((id(found), timeout))
    if known is not None and known[0].group is found and not known[1].has_failed:
        return known[0]
    members = dist.get_process_group_ranks(found)
    transport, ranks = _connect(members, timeout, found)
    _of_groups[id(found), timeout] = (ranks, transport)
    return ranks


def _connect(members: List[int], timeout: float, group: Optional["dist.ProcessGroup"]) -> Tuple[GlooTransport, Ranks]:
    """This rank of a group of processes, which all make the call."""
    transport = GlooTransport(members, timeout)
    name = f"ranks {', '.join(map(str, members))}, group {_counts[tuple(members)]}"
    ranks = _all[name] = Ranks(name, communicator.create_from(transport), timeout, group)
    ranks._make_neighbors = lambda first, size: _connect(members[first : first + size], timeout, None)[1]
    return transport, ranks


_local_groups = 0
_local_lock = threading.Lock()


class _LocalNeighbors:
    """Groups of neighbors among threads of this process. The first thread that asks for one makes it for all."""

    def __init__(self, timeout: float):
        self._timeout = timeout
        self._groups: Dict[Tuple[int, int], List[Ranks]] = {}
        self._lock = threading.Lock()

    def find(self, rank: int, first: int, size: int) -> Ranks:
        with self._lock:
            if (first, size) not in self._groups:
                self._groups[first, size] = local_ranks(size, self._timeout)
            return self._groups[first, size][rank - first]


def local_ranks(size: int, timeout: float = 600.0) -> List[Ranks]:
    """Ranks that are threads of this process, for tests and simulations: each thread passes one of them as ``group``.

    Backward passes must run in the thread of the rank, as
    ``torch.autograd.set_multithreading_enabled(False)`` has it, if tensors are on a GPU.
    """
    global _local_groups
    comms = communicator.create_local(size, timeout)
    with _local_lock:
        _local_groups += 1
        number = _local_groups
    group = [Ranks(f"thread {comm.rank} of {size}, group {number}", comm, timeout) for comm in comms]
    neighbors = _LocalNeighbors(timeout)
    for ranks in group:
        ranks._make_neighbors = functools.partial(neighbors.find, ranks.rank)
    _all.update((ranks.name, ranks) for ranks in group)
    return group
