# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sequences of different lengths on several ranks against attention of each of them in double precision."""

import math
from unittest import mock

import pytest
from conftest import BUILD

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from attn.errors import AttnError  # noqa: E402
from attn.torch import PlacedSequences  # noqa: E402
from attn.torch.process_groups import Ranks, make_ranks  # noqa: E402
from rank_threads import SECONDS, get_results  # noqa: E402

pytestmark = pytest.mark.skipif(not (BUILD / "lib" / "libattn_runtime.so").is_file(), reason="needs a build")
HEADS, KEY_HEADS, DIM = 4, 2, 16
#: Short sequences and some that more than a rank computes, whose tokens no number of ranks divides.
MIXED = [5, 0, 67, 3, 201, 18, 1, 18, 9]
SHORT = [20, 22, 21, 20, 22, 21]


def cut(tensor, rank, size):
    """The even shard of a rank."""
    length = -(-tensor.shape[0] // size)
    return tensor[rank * length : (rank + 1) * length]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("lengths", [MIXED, SHORT, [0, 0], [1], [7, 300]])
def test_exchange(lengths, size):
    """Rows in attention's layout are the tokens that the placement names; the way back gives the shards again. Each is
    the gradient of the other."""
    total = sum(lengths)
    rows, back = (torch.arange(1, 3 * total + 1).view(total, 3) * factor for factor in (1.0, -2.0))

    def body(ranks):
        placed = PlacedSequences(lengths, ranks)
        shard = cut(rows, ranks.rank, size).clone().requires_grad_()
        assert placed.num_tokens == shard.shape[0]
        sequences = placed.to_attention(shard)
        tokens = torch.from_numpy(placed.placement.tokens(ranks.rank))
        expected = torch.where(tokens[:, None] >= 0, rows[tokens.clamp(min=0)] if total else rows[:0], 0.0)
        torch.testing.assert_close(sequences.detach(), expected, rtol=0, atol=0)
        returned = placed.from_attention(2 * sequences)
        torch.testing.assert_close(returned.detach(), 2 * shard.detach(), rtol=0, atol=0)
        gradient = torch.autograd.grad(returned, shard, cut(back, ranks.rank, size))[0]
        torch.testing.assert_close(gradient, 2 * cut(back, ranks.rank, size), rtol=0, atol=0)

    get_results(size, body)


def attend_exactly(tensors, lengths, causal):
    """The attention of each sequence in double precision."""
    query, key, value = (tensor.double().transpose(0, 1) for tensor in tensors)
    key, value = (tensor.repeat_interleave(HEADS // KEY_HEADS, 0) for tensor in (key, value))
    outs = []
    for q, k, v in zip(*[tensor.split(lengths, 1) for tensor in (query, key, value)]):
        scores = q @ k.mT / math.sqrt(DIM)
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -math.inf)
        outs.append(scores.softmax(-1) @ v)
    return torch.cat(outs, 1).transpose(0, 1)


def make_inputs(total, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(total, heads, DIM, generator=generator).to(dtype)
            for heads in (HEADS, KEY_HEADS, KEY_HEADS, HEADS)]  # fmt: skip


def differentiate(attention, tensors, dout):
    inputs = [tensor.detach().requires_grad_() for tensor in tensors]
    out = attention(*inputs)
    return [out.detach(), *torch.autograd.grad(out, inputs, dout)]


@pytest.mark.parametrize(
    "lengths, size, causal, method",
    [(lengths, size, causal, "ulysses") for lengths in (MIXED, SHORT) for size in (1, 2, 4) for causal in (True, False)]
    + [(MIXED, 2, True, "ring"), (MIXED, 4, True, "allgather")],
)
def test_attention(lengths, size, causal, method):
    """Output and gradients of even shards."""
    *tensors, dout = make_inputs(sum(lengths))
    expected = differentiate(lambda *all: attend_exactly(all, lengths, causal), [x.double() for x in tensors], dout)

    def body(ranks):
        placed = PlacedSequences(lengths, ranks, causal=causal)
        sizes = {group.size for group in placed.placement.groups_of(ranks.rank)}

        def attend(*shards):
            rows = placed.attention(*map(placed.to_attention, shards), method=method, causal=causal)
            return placed.from_attention(rows)

        return sizes, differentiate(attend, [cut(x, ranks.rank, size) for x in tensors], cut(dout, ranks.rank, size))

    results = get_results(size, body)
    assert lengths is SHORT or size == 1 or any(sizes != {1} for sizes, _ in results)
    for name, exact, *shards in zip(("out", "dq", "dk", "dv"), expected, *[found for _, found in results]):
        torch.testing.assert_close(
            torch.cat(shards).double(), exact, rtol=2e-5, atol=2e-5, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("layers", [1, 2])
def test_ranks_without_rows(layers):
    """Ranks without sequences make as many exchanges as others, also for gradients."""
    *tensors, dout = make_inputs(70)
    lengths, size = [50, 20], 4

    def attend_twice(attend):
        return lambda q, k, v: attend(attend(q, k, v), k, v) if layers == 2 else attend(q, k, v)

    exact = attend_twice(lambda *all: attend_exactly(all, lengths, True))
    expected = differentiate(exact, [x.double() for x in tensors], dout)

    def body(ranks):
        placed = PlacedSequences(lengths, ranks, group_sizes=[1])

        def attend(*shards):
            return placed.from_attention(placed.attention(*map(placed.to_attention, shards), causal=True))

        found = differentiate(attend_twice(attend), [cut(x, ranks.rank, size) for x in tensors],
                              cut(dout, ranks.rank, size))  # fmt: skip
        return placed.num_rows, found

    results = get_results(size, body)
    assert sorted(rows for rows, _ in results) == [0, 0, 20, 50]
    for exact, *found in zip(expected, *[found for _, found in results]):
        torch.testing.assert_close(torch.cat(found).double(), exact, rtol=2e-5, atol=2e-5)


def test_refusals():
    """All ranks refuse at once what some group cannot do."""
    lengths = [100, 71, 71, 10, 10]

    def body(ranks):
        placed = PlacedSequences(lengths, ranks)
        texts = []
        rows = torch.zeros(placed.num_rows, 3, DIM)
        for options in (dict(), dict(dropout_p=0.5), dict(alibi_slopes=torch.zeros(5, 3))):
            with pytest.raises(AttnError) as error:
                placed.attention(rows, rows, rows, **options)
            texts.append(str(error.value))
        with pytest.raises(AttnError) as error:
            placed.attention(rows[0], rows, rows)
        return [*texts, str(error.value)]

    for heads, dropout, slopes, _ in get_results(4, body):
        assert heads.startswith("query has 3 heads, which must be a multiple of ")
        assert dropout == "attention of placed sequences does not take dropout_p; leave it out"
        assert slopes == "alibi_slopes has the shape (5, 3), expected (3,)"


def test_local_sequences():
    """Sequences of one rank need no other in attention."""
    *tensors, _ = make_inputs(sum(SHORT), torch.bfloat16)
    expected = attend_exactly(tensors, SHORT, True)

    def body(ranks):
        placed = PlacedSequences(SHORT, ranks)
        assert {group.size for group in placed.placement.groups} == {1}
        rows = [placed.to_attention(cut(tensor, ranks.rank, 3)) for tensor in tensors]
        with mock.patch.object(ranks, "find_communicator", side_effect=AssertionError("communicates")):
            out = placed.attention(*rows, causal=True)
        return placed.from_attention(out)

    found = torch.cat(get_results(3, body)).double()
    torch.testing.assert_close(found, expected, rtol=0.03, atol=0.03)


def find_neighbors_in_process(rank, size, folder):
    """Groups of neighbors that ranks make in different orders, some more than others."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    ranks = make_ranks(None, SECONDS)
    orders = {0: [(0, 4), (0, 2)], 1: [(0, 4), (0, 2)], 2: [(0, 4)], 3: [(0, 4)], 4: [(4, 2), (4, 4)],
              5: [(4, 2), (4, 4)], 6: [(4, 4)], 7: [(4, 4)]}  # fmt: skip
    found = []
    for first, count in orders[rank]:
        found.append((first, count, ranks.find_neighbors(first, count).host.gather_bytes(bytes([rank]))))
    torch.save(found, f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def test_neighbors_of_processes(tmp_path):
    torch.multiprocessing.spawn(find_neighbors_in_process, args=(8, str(tmp_path)), nprocs=8)
    for rank in range(8):
        for first, count, members in torch.load(tmp_path / f"{rank}.pt"):
            assert members == [bytes([member]) for member in range(first, first + count)]


def attend_in_process(rank, size, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    *tensors, dout = make_inputs(sum(MIXED))
    placed = PlacedSequences(MIXED, timeout=SECONDS)

    def attend(*shards):
        return placed.from_attention(placed.attention(*map(placed.to_attention, shards), causal=True))

    found = differentiate(attend, [cut(tensor, rank, size) for tensor in tensors], cut(dout, rank, size))
    torch.save(found, f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def test_processes(tmp_path):
    """Groups of ranks among processes, which only their members make."""
    torch.multiprocessing.spawn(attend_in_process, args=(4, str(tmp_path)), nprocs=4)
    shards = [torch.load(tmp_path / f"{rank}.pt") for rank in range(4)]
    *tensors, dout = make_inputs(sum(MIXED))
    expected = differentiate(lambda *all: attend_exactly(all, MIXED, True), [x.double() for x in tensors], dout)
    for exact, *found in zip(expected, *shards):
        torch.testing.assert_close(torch.cat(found).double(), exact, rtol=2e-5, atol=2e-5)


def test_compiled():
    """Attention, and what moves rows, in a graph of torch.compile."""
    *tensors, dout = make_inputs(sum(MIXED))
    expected = differentiate(lambda *all: attend_exactly(all, MIXED, True), [x.double() for x in tensors], dout)

    def body(ranks):
        placed = PlacedSequences(MIXED, ranks)

        @torch.compile(fullgraph=True)
        def attend(*shards):
            return placed.from_attention(placed.attention(*map(placed.to_attention, shards), causal=True))

        return differentiate(attend, tensors, dout)

    for found, exact in zip(get_results(1, body)[0], expected):
        torch.testing.assert_close(found.double(), exact, rtol=2e-5, atol=2e-5)


def test_errors():
    def body(ranks):
        placed = PlacedSequences(MIXED, ranks)
        texts = []
        for function, shape in ((placed.to_attention, (3, 2)), (placed.from_attention, (1000,))):
            with pytest.raises(AttnError) as error:
                function(torch.zeros(shape))
            texts.append(str(error.value))
        with pytest.raises(AttnError, match="shard is on meta; the sequences were placed for cpu"):
            placed.to_attention(torch.zeros(placed.num_tokens, device="meta"))
        rows = torch.zeros(placed.num_rows, HEADS, DIM)
        with pytest.raises(AttnError, match="method is 'zigzag'; groups of ranks take one of ulysses, ring, allgather"):
            placed.attention(rows, rows, rows, method="zigzag")
        # Ranks whose lengths differ.
        with pytest.raises(AttnError) as error:
            PlacedSequences([10 + ranks.rank], ranks)
        return placed.num_tokens, placed.num_rows, *texts, str(error.value)

    for tokens, rows, shard, sequences, lengths in get_results(2, body):
        assert shard == f"shard has the shape (3, 2); dimension 0 must be {tokens}"
        assert sequences == f"rows has the shape (1000,); dimension 0 must be {rows}"
        assert lengths.startswith("rank 1 has a placement with the digest ") and lengths.endswith(" as rank 0 has")


def test_neighbors():
    """Groups of neighbors are made once for all of their ranks."""

    def body(ranks):
        first = ranks.rank // 2 * 2
        found = ranks.find_neighbors(first, 2)
        assert isinstance(found, Ranks) and found is ranks.find_neighbors(first, 2)
        assert ranks.find_neighbors(0, 4) is ranks
        return found.rank, found.size, found.host.gather_bytes(bytes([ranks.rank]))

    results = get_results(4, body)
    assert results == [(0, 2, [b"\0", b"\1"]), (1, 2, [b"\0", b"\1"]), (0, 2, [b"\2", b"\3"]), (1, 2, [b"\2", b"\3"])]
