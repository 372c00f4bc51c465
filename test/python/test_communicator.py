# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of shards on local ranks, with partial results that ``merge`` combines, against attention of the whole.

Queries and keys are cut at the same places, one shard for each rank. A causal mask then is full for the keys of ranks
before, causal for the rank's own keys and empty for ranks after.
"""

import ctypes
import math
import threading

import pytest
from conftest import BUILD

torch = pytest.importorskip("torch")

from attn.torch import merge, sdpa  # noqa: E402

LIBRARY = BUILD / "lib" / "libattn_runtime.so"
pytestmark = pytest.mark.skipif(not LIBRARY.is_file(), reason="needs a build")
BATCH, HEADS, HEAD_DIM, SHARD = 2, 3, 16, 24
F32 = 2  # attn_dtype
TIME_LIMIT_MS = 120000


@pytest.fixture(scope="module")
def library():
    return ctypes.CDLL(str(LIBRARY))


class Rank:
    """The calls of one communicator, on contiguous tensors."""

    def __init__(self, library, comm):
        self._library, self._comm = library, comm

    def _check(self, status):
        if status:
            self._library.attnGetLastError.restype = ctypes.c_char_p
            raise RuntimeError(self._library.attnGetLastError().decode())

    def send_recv(self, sent, to, source):
        received, size = torch.empty_like(sent), ctypes.c_int64(sent.numel() * sent.element_size())
        self._check(self._library.attn_comm_send_recv(
            self._comm, ctypes.c_void_p(sent.data_ptr()), size, to, ctypes.c_void_p(received.data_ptr()), size, source,
            None))  # fmt: skip
        return received

    def all_gather(self, sent, ranks):
        received, size = sent.new_empty(ranks, *sent.shape), ctypes.c_int64(sent.numel() * sent.element_size())
        self._check(self._library.attn_comm_all_gather(
            self._comm, ctypes.c_void_p(sent.data_ptr()), ctypes.c_void_p(received.data_ptr()), size, None))
        return received

    def reduce_scatter(self, sent):
        received = torch.empty_like(sent[0])
        self._check(self._library.attn_comm_reduce_scatter(
            self._comm, ctypes.c_void_p(sent.data_ptr()), ctypes.c_void_p(received.data_ptr()),
            ctypes.c_int64(received.numel()), F32, None))  # fmt: skip
        return received


def run_ranks(library, ranks, body):
    """The results of ``body(number, rank)`` on a thread for each rank."""
    comms = (ctypes.c_void_p * ranks)()
    assert library.attn_comm_create_local(ranks, ctypes.c_int64(TIME_LIMIT_MS), comms) == 0
    results = [None] * ranks

    def run(number):
        try:
            results[number] = body(number, Rank(library, ctypes.c_void_p(comms[number])))
        except Exception as error:  # noqa: BLE001
            library.attn_comm_abort(ctypes.c_void_p(comms[number]), 14, str(error).encode())
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for comm in comms:
        library.attn_comm_destroy(ctypes.c_void_p(comm))
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def make(ranks, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, HEADS, ranks * SHARD, HEAD_DIM, generator=generator)


def attend_exactly(q, k, v, causal):
    scores = q @ k.mT / math.sqrt(HEAD_DIM)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    return scores.softmax(-1) @ v


def attend_parts(q, parts, number, causal):
    """Attention of the queries of rank ``number`` to ``parts``, the keys and values of ranks by their number."""
    results = []
    for source, (k, v) in parts.items():
        if not causal or source <= number:
            results += sdpa(q, k, v, is_causal=causal and source == number, return_lse=True)
    return merge(*results)[0]


def shards_of(tensor, ranks):
    return [shard.contiguous() for shard in tensor.split(SHARD, dim=2)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("ranks", [2, 4])
def test_ring(library, ranks, causal):
    q, k, v = (make(ranks, seed) for seed in range(3))
    shards = [shards_of(tensor, ranks) for tensor in (q, k, v)]

    def body(number, rank):
        mine, parts = torch.stack([shards[1][number], shards[2][number]]), {}
        for step in range(ranks):
            parts[(number - step) % ranks] = tuple(mine)
            mine = rank.send_recv(mine, (number + 1) % ranks, (number - 1) % ranks)
        return attend_parts(shards[0][number], parts, number, causal)

    out = torch.cat(run_ranks(library, ranks, body), dim=2)
    expected = attend_exactly(q.double(), k.double(), v.double(), causal)
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_by_all_gather(library, causal):
    """Keys and values are gathered; their gradients are added up and scattered."""
    ranks = 4
    inputs, dout = [make(ranks, seed) for seed in range(3)], make(ranks, 3)
    shards = [shards_of(tensor, ranks) for tensor in (*inputs, dout)]

    def body(number, rank):
        q = shards[0][number].clone().requires_grad_()
        gathered = [rank.all_gather(shard[number], ranks).requires_grad_() for shard in shards[1:3]]
        out = attend_parts(q, dict(enumerate(zip(*gathered))), number, causal)
        gradients = torch.autograd.grad(out, [q, *gathered], shards[3][number])
        return gradients[0], *[rank.reduce_scatter(gradient.contiguous()) for gradient in gradients[1:]]

    found = [torch.cat(parts, dim=2) for parts in zip(*run_ranks(library, ranks, body))]
    exact = [tensor.double().requires_grad_() for tensor in inputs]
    expected = torch.autograd.grad(attend_exactly(*exact, causal), exact, dout.double())
    for gradient, reference in zip(found, expected):
        torch.testing.assert_close(gradient.double(), reference, rtol=1e-4, atol=1e-4)


def test_an_error_ends_the_call_on_all_ranks(library):
    def body(number, rank):
        if number == 1:
            raise RuntimeError("no kernel")
        rank.all_gather(torch.zeros(4), 3)

    with pytest.raises(RuntimeError, match="^rank 1: no kernel$"):
        run_ranks(library, 3, body)
