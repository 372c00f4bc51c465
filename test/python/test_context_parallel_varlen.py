# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packed sequences over the ranks of a group against each sequence in double precision.

Ranks are threads of the test, or processes with a process group of gloo.
"""

import functools
import math

import pytest
from conftest import BUILD

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from attn import masks  # noqa: E402
from attn.errors import AttnError, UnsupportedError  # noqa: E402
from attn.torch import (  # noqa: E402
    context_parallel,
    flash_attn_varlen_func,
    shard_sequence,
    unshard_sequence,
    varlen_attn,
)
from test_context_parallel import SECONDS, run_threads  # noqa: E402

pytestmark = pytest.mark.skipif(not (BUILD / "lib" / "libattn_runtime.so").is_file(), reason="needs a build")
METHODS = ("ring", "zigzag", "striped", "lightseq", "allgather", "ulysses")
HEADS, KEY_HEADS, LENGTH, KEYS, DIM = 4, 2, 96, 120, 16
SEED = 11
# An empty sequence, several in one chunk, one of several chunks, and rows of no sequence.
CU = torch.tensor([0, 5, 5, 12, 70, 90], dtype=torch.int32)
CU_K = torch.tensor([3, 20, 22, 22, 100, 115], dtype=torch.int32)
SINKS = torch.linspace(-1, 1, HEADS)
SLOPES = torch.linspace(0.1, 0.4, HEADS)


def make_inputs(keys=LENGTH):
    """Query, key, value, and the gradient of the output, of packed sequences."""
    shapes = ((LENGTH, HEADS), (keys, KEY_HEADS), (keys, KEY_HEADS), (LENGTH, HEADS))
    return [torch.randn(*shape, DIM, generator=torch.Generator().manual_seed(seed))
            for seed, shape in enumerate(shapes)]  # fmt: skip


def attend_exactly(query, key, value, cu_q, cu_k, keep=None, bias=None, sinks=None):
    """Output and log-sum-exp of all sequences in double precision. ``keep`` and ``bias`` are functions of the position
    of the last key that a query sees with a causal mask, and of the position of the key."""
    out, lse = torch.zeros_like(query), torch.full(query.shape[1::-1], -math.inf, dtype=query.dtype)
    for begin, end, first, last in zip(cu_q[:-1], cu_q[1:], cu_k[:-1], cu_k[1:]):
        key_part, value_part = (
            x[first:last].repeat_interleave(HEADS // KEY_HEADS, 1).transpose(0, 1) for x in (key, value)
        )  # fmt: skip
        scores = query[begin:end].transpose(0, 1) @ key_part.mT / math.sqrt(DIM)
        i, j = torch.meshgrid(*[torch.arange(size) for size in scores.shape[-2:]], indexing="ij")
        diagonal = i + (last - first) - (end - begin)
        if bias is not None:
            scores = scores + bias(diagonal, j)
        if keep is not None:
            scores = scores.masked_fill(~keep(diagonal, j), -math.inf)
        part = scores.logsumexp(-1)
        if sinks is not None:
            part = torch.logaddexp(part, sinks.double()[:, None])
        probabilities = (scores - part.masked_fill(part == -math.inf, 0)[..., None]).exp()
        out = torch.cat([out[:begin], (probabilities @ value_part).transpose(0, 1), out[end:]])
        lse = torch.cat([lse[:, :begin], part, lse[:, end:]], 1)
    return out, lse


def differentiate(attention, query, key, value, dout):
    inputs = [tensor.detach().requires_grad_() for tensor in (query, key, value)]
    out, lse = attention(*inputs)[:2]
    return [out.detach(), lse.detach(), *torch.autograd.grad(out, inputs, dout)]


def on_shards(attention, group, method, inputs):
    results = differentiate(attention, *[shard_sequence(tensor, group, method, dim=0) for tensor in inputs])
    dims = (0, 1, 0, 0, 0)
    return [unshard_sequence(result, group, method, dim=dim) for result, dim in zip(results, dims)]


def check(found, expected):
    for name, result, exact in zip(("out", "lse", "dquery", "dkey", "dvalue"), found, expected):
        message = functools.partial("{}: {}".format, name)
        torch.testing.assert_close(result.double(), exact, rtol=2e-5, atol=2e-5, msg=message)


causal = lambda i, j: j <= i  # noqa: E731
# By name: function, options, boundaries of keys, and options of ``attend_exactly``.
CASES = {
    "full": (varlen_attn, {}, None, {}),
    "full, other keys": (varlen_attn, {}, CU_K, {}),
    "causal": (varlen_attn, {"window_size": (-1, 0)}, None, {"keep": causal}),
    "causal, other keys": (varlen_attn, {"window_size": (-1, 0)}, CU_K, {"keep": causal}),
    "window": (varlen_attn, {"window_size": (7, 3)}, None, {"keep": lambda i, j: (j >= i - 7) & (j <= i + 3)}),
    "prefix": (
        varlen_attn, {"block_mask": masks.prefix_lm(6)}, None, {"keep": lambda i, j: (j < 6) | (j <= i)},
    ),
    "sinks": (varlen_attn, {"window_size": (-1, 0), "sinks": SINKS}, None, {"keep": causal, "sinks": SINKS}),
    "flash": (flash_attn_varlen_func, {"causal": True}, CU, {"keep": causal}),
    "alibi": (
        flash_attn_varlen_func, {"causal": True, "alibi_slopes": SLOPES}, CU,
        {"keep": causal, "bias": lambda i, j: -SLOPES.double()[:, None, None] * (i - j).abs()},
    ),
}  # fmt: skip


def complete(function, name):
    """The function of query, key and value of a case."""
    original, options, cu_k, _ = CASES[name]
    if original is flash_attn_varlen_func:
        return lambda q, k, v: function(q, k, v, CU, cu_k, return_attn_probs=True, **options)
    return lambda q, k, v: function(q, k, v, CU, cu_k, return_lse=True, enable_gqa=True, **options)


def find_expected(name, inputs):
    _, _, cu_k, exact = CASES[name]
    bounds = (CU.tolist(), (CU if cu_k is None else cu_k).tolist())
    whole = lambda q, k, v: attend_exactly(q, k, v, *bounds, **exact)  # noqa: E731
    return differentiate(whole, *[tensor.double() for tensor in inputs])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("method", METHODS)
def test_varlen(method, name):
    function, _, cu_k, _ = CASES[name]
    inputs = make_inputs(LENGTH if cu_k is None or cu_k is CU else KEYS)

    def body(ranks):
        return on_shards(complete(context_parallel(function, ranks, method), name), ranks, method, inputs)

    for result in run_threads(2 if method in ("ulysses", "zigzag") else 3, body):
        if isinstance(result, Exception):
            raise result
        check(result, find_expected(name, inputs))


@pytest.mark.parametrize("name", ("causal", "causal, other keys", "sinks", "alibi"))
def test_groups(name):
    """Groups of two ranks that exchange heads."""
    function, _, cu_k, _ = CASES[name]
    inputs = make_inputs(LENGTH if cu_k is None or cu_k is CU else KEYS)

    def body(ranks):
        where = {"group": ranks, "method": "usp", "ulysses_degree": 2}
        attention = complete(context_parallel(function, **where), name)
        results = differentiate(attention, *[shard_sequence(tensor, dim=0, **where) for tensor in inputs])
        return [unshard_sequence(result, dim=dim, **where) for result, dim in zip(results, (0, 1, 0, 0, 0))]

    for result in run_threads(4, body):
        if isinstance(result, Exception):
            raise result
        check(result, find_expected(name, inputs))


def test_refusals():
    query, key, value, _ = make_inputs()

    def body(ranks):
        varlen, flash = (context_parallel(function, ranks) for function in (varlen_attn, flash_attn_varlen_func))
        shards = [shard_sequence(tensor, ranks, dim=0) for tensor in (query, key, value)]
        texts = []
        for call in (
            lambda: varlen(*shards, CU, enable_gqa=True, dropout_p=0.5),
            lambda: varlen(*shards, CU, enable_gqa=True, head_map=torch.zeros(HEADS, dtype=torch.int32)),
            lambda: varlen(*shards, CU, enable_gqa=True, seqused_k=CU),
            lambda: varlen(*shards, CU),
            lambda: varlen(*shards, CU.long(), enable_gqa=True),
            lambda: flash(*shards, CU, CU, block_table=CU),
            lambda: flash(*shards, CU, None),
            lambda: context_parallel(varlen_attn, ranks, "zigzag")(*[x[:9] for x in shards], CU, enable_gqa=True),
        ):
            with pytest.raises((AttnError, UnsupportedError)) as error:
                call()
            texts.append(str(error.value))
        return texts

    for texts in run_threads(2, body):
        if isinstance(texts, Exception):
            raise texts
        assert texts[0] == (
            "dropout_p is 0.5, and varlen_attn with the method ring has no dropout: the rows of a rank begin anywhere "
            "in a sequence; choose ulysses"
        )
        assert texts[1] == "varlen_attn over several ranks does not take head_map; leave it out"
        assert texts[2].startswith("seqused_k is for KV caches")
        assert "heads" in texts[3]
        assert texts[4] == "cu_seqlens has the dtype torch.int64, expected torch.int32"
        assert texts[5] == "flash_attn_varlen_func over several ranks does not take block_table; leave it out"
        assert texts[6].startswith("cu_seqlens_k is None")
        assert texts[7].startswith("query has 9 positions, which 2 chunks of a rank cannot have equally many of")


def drop(attention):
    """Causal attention with dropout, as a function of query, key and value."""
    options = {"window_size": (-1, 0), "dropout_p": 0.25, "enable_gqa": True, "return_lse": True}
    return lambda q, k, v: attention(q, k, v, CU, **options)


def run_process(rank, size, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    results = {}
    for method in METHODS:
        for name in ("causal", "causal, other keys"):
            attention = complete(context_parallel(varlen_attn, method=method, timeout=SECONDS), name)
            inputs = make_inputs(LENGTH if name == "causal" else KEYS)
            results[method, name] = on_shards(attention, None, method, inputs)
    # The seeds of other ranks do not matter.
    torch.manual_seed(SEED + rank)
    attention = drop(context_parallel(varlen_attn, method="ulysses", timeout=SECONDS))
    results["ulysses", "dropout"] = on_shards(attention, None, "ulysses", make_inputs())
    torch.save(results, f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def test_processes(tmp_path):
    """Ranks that exchange heads drop what one process with the seed of the first rank does."""
    torch.manual_seed(SEED)
    dropped = [tensor.double() for tensor in differentiate(drop(varlen_attn), *make_inputs())]
    assert (dropped[0] - find_expected("causal", make_inputs())[0]).abs().max() > 0.1
    torch.multiprocessing.spawn(run_process, args=(2, str(tmp_path)), nprocs=2)
    for rank in range(2):
        for (_, name), found in torch.load(tmp_path / f"{rank}.pt").items():
            inputs = make_inputs(KEYS if name == "causal, other keys" else LENGTH)
            check(found, dropped if name == "dropout" else find_expected(name, inputs))
