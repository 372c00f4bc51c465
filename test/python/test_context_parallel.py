# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention over the ranks of a group against attention of the whole in double precision.

Ranks are threads of the test, or processes with a process group of gloo.
"""

import functools
import math
import os
import re
import sys
import time

import pytest
from conftest import BUILD, SLOWDOWN

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from attn import masks  # noqa: E402
from attn.errors import AttnError, UnsupportedError  # noqa: E402
from attn.torch import (  # noqa: E402
    choose_ulysses_degree,
    context_parallel,
    flex_attention,
    gated_delta_rule,
    linear_attention,
    local_ranks,
    sdpa,
    shard_sequence,
    unshard_sequence,
)
from attn.torch.process_groups import make_ranks  # noqa: E402
from rank_threads import SECONDS, run_threads  # noqa: E402

pytestmark = pytest.mark.skipif(not (BUILD / "lib" / "libattn_runtime.so").is_file(), reason="needs a build")
METHODS = ("ring", "zigzag", "striped", "lightseq", "allgather", "ulysses")
# Words of keep masks are of neighboring keys.
METHODS_WITH_DROPOUT = tuple(method for method in METHODS if method != "striped")
BATCH, HEADS, KEY_HEADS, LENGTH, DIM = 2, 4, 2, 96, 16
DROPOUT, SEED = 0.25, 11
SHORT_SECONDS = 3


def make(heads, seed, dtype=torch.float32, length=LENGTH, dim=DIM):
    return torch.randn(BATCH, heads, length, dim, generator=torch.Generator().manual_seed(seed)).to(dtype)


def make_inputs(dtype=torch.float32):
    """Query, key, value, and the gradient of the output."""
    return [make(heads, seed, dtype) for seed, heads in enumerate((HEADS, KEY_HEADS, KEY_HEADS, HEADS))]


def differentiate(attention, query, key, value, dout):
    """Output and log-sum-exp, and the gradients of query, key and value."""
    inputs = [tensor.detach().requires_grad_() for tensor in (query, key, value)]
    out, lse = attention(*inputs)
    return [out.detach(), lse.detach(), *torch.autograd.grad(out, inputs, dout)]


def attend_exactly(query, key, value, keep=None, score=None, sinks=None):
    """Output and log-sum-exp in double precision."""
    key, value = (tensor.repeat_interleave(HEADS // KEY_HEADS, 1) for tensor in (key, value))
    scores = query @ key.mT / math.sqrt(DIM)
    positions = torch.meshgrid(*[torch.arange(size) for size in scores.shape[-2:]], indexing="ij")
    if score is not None:
        scores = score(scores, *positions)
    if keep is not None:
        scores = scores.masked_fill(~keep(*positions), -math.inf)
    lse = scores.logsumexp(-1)
    if sinks is not None:
        lse = torch.logaddexp(lse, sinks.double()[None, :, None])
    # Rows with nothing to attend are 0.
    probabilities = (scores - lse.masked_fill(lse == -math.inf, 0)[..., None]).exp()
    return probabilities @ value, lse


def on_shards(attention, group, method, inputs):
    """``differentiate`` on the shards of this rank, with results of the whole."""
    results = differentiate(attention, *[shard_sequence(tensor, group, method) for tensor in inputs])
    return [unshard_sequence(result, group, method) for result in results]


def check(found, expected, dtype=torch.float32):
    for name, result, exact in zip(("out", "lse", "dquery", "dkey", "dvalue"), found, expected):
        tolerance = 2e-5 if dtype == torch.float32 or name == "lse" else 0.03
        torch.testing.assert_close(
            result.double(), exact, rtol=tolerance, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}"
        )


#
# Threads
#


SINKS = torch.linspace(-1, 1, HEADS)
DOCUMENTS = torch.tensor([0] * 30 + [1] * 41 + [2] * (LENGTH - 71), dtype=torch.int32)
# By name: options of sdpa, and of ``attend_exactly``.
SDPA_CASES = {
    "full": ({}, {}),
    "causal": ({"is_causal": True}, {"keep": lambda i, j: j <= i}),
    "window": ({"attn_mask": masks.sliding_window(20, 3)}, {"keep": lambda i, j: (j >= i - 20) & (j <= i + 3)}),
    "both": (
        {"attn_mask": masks.sliding_window(20, 30), "block_mask": ~masks.global_tokens(4), "is_causal": True},
        {"keep": lambda i, j: (j >= i - 20) & (j <= i) & (i >= 4) & (j >= 4)},
    ),
    "soft cap": ({"soft_cap": 2.0, "scale": 0.5}, {"score": lambda s, i, j: 2 * torch.tanh(s * math.sqrt(DIM) / 4)}),
    "sinks": ({"sinks": SINKS, "is_causal": True}, {"sinks": SINKS, "keep": lambda i, j: j <= i}),
}  # fmt: skip
FLEX_CASES = {
    "bias": (
        {"score_mod": lambda s, b, h, i, j: s + 0.1 * (j - i)},
        {"score": lambda s, i, j: s + 0.1 * (j - i)},
    ),
    "documents": (
        {"block_mask": lambda b, h, i, j: (DOCUMENTS[i] == DOCUMENTS[j]) & (i >= j)},
        {"keep": lambda i, j: (DOCUMENTS[i] == DOCUMENTS[j]) & (i >= j)},
    ),
}


@pytest.mark.parametrize("name", SDPA_CASES)
@pytest.mark.parametrize("method", METHODS)
def test_sdpa(method, name):
    options, exact = SDPA_CASES[name]
    inputs = make_inputs()
    expected = differentiate(functools.partial(attend_exactly, **exact), *[tensor.double() for tensor in inputs])

    def body(ranks):
        attention = context_parallel(sdpa, ranks, method)
        attention = functools.partial(attention, **options, enable_gqa=True, return_lse=True)
        return on_shards(attention, ranks, method, inputs)

    # Of four heads, each of three ranks cannot have as many.
    for result in run_threads(2 if method == "ulysses" else 3, body):
        if isinstance(result, Exception):
            raise result
        check(result, expected)


@pytest.mark.parametrize("method", METHODS)
def test_gradient_of_sinks(method):
    """All ranks get the whole gradient of sinks, which are the same on all ranks."""
    query, key, value, dout = make_inputs()

    def attend(attention, *tensors):
        sinks = SINKS.clone().requires_grad_()
        *inputs, gradient = tensors
        return torch.autograd.grad(attention(*inputs, sinks), sinks, gradient)[0]

    keep = lambda i, j: j <= i  # noqa: E731
    exact = lambda q, k, v, sinks: attend_exactly(q, k, v, sinks=sinks, keep=keep)[0]  # noqa: E731
    expected = attend(exact, *[tensor.double() for tensor in (query, key, value, dout)])

    def body(ranks):
        sharded = context_parallel(sdpa, ranks, method)
        attention = lambda q, k, v, sinks: sharded(q, k, v, sinks=sinks, is_causal=True, enable_gqa=True)  # noqa: E731
        return attend(attention, *[shard_sequence(tensor, ranks, method) for tensor in (query, key, value, dout)])

    for result in run_threads(2, body):
        if isinstance(result, Exception):
            raise result
        torch.testing.assert_close(result, expected, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("name", FLEX_CASES)
@pytest.mark.parametrize("method", METHODS)
def test_flex_attention(method, name):
    options, exact = FLEX_CASES[name]
    inputs = make_inputs()
    expected = differentiate(functools.partial(attend_exactly, **exact), *[tensor.double() for tensor in inputs])

    def body(ranks):
        attention = context_parallel(flex_attention, ranks, method)
        attention = functools.partial(attention, **options, enable_gqa=True, return_lse=True)
        return on_shards(attention, ranks, method, inputs)

    for result in run_threads(2, body):
        if isinstance(result, Exception):
            raise result
        check(result, expected)


@pytest.mark.parametrize("method", METHODS)
def test_gradient_of_captures(method):
    """All ranks get the whole gradient of a captured tensor, which is the same on all ranks."""
    query, key, value, dout = make_inputs()
    bias = make(HEADS, 7)[0, :, :, 0]

    def attend(attention, *tensors):
        captured = bias.to(tensors[0].dtype).requires_grad_()
        *inputs, gradient = tensors
        return torch.autograd.grad(attention(*inputs, captured), captured, gradient)[0]

    exact = lambda q, k, v, bias: attend_exactly(  # noqa: E731
        q, k, v, score=lambda s, i, j: s + bias[:, None, :], keep=lambda i, j: j <= i
    )[0]
    expected = attend(exact, *[tensor.double() for tensor in (query, key, value, dout)])

    def body(ranks):
        sharded = context_parallel(flex_attention, ranks, method)
        attention = lambda q, k, v, bias: sharded(  # noqa: E731
            q, k, v, score_mod=lambda s, b, h, i, j: s + bias[h, j], block_mask=lambda b, h, i, j: j <= i, enable_gqa=True
        )
        return attend(attention, *[shard_sequence(tensor, ranks, method) for tensor in (query, key, value, dout)])

    for result in run_threads(2, body):
        if method == "lightseq":
            assert isinstance(result, UnsupportedError)
            assert str(result).startswith("captured tensor 0 requires a gradient, which the method lightseq does not")
            continue
        if isinstance(result, Exception):
            raise result
        torch.testing.assert_close(result.double(), expected, rtol=2e-5, atol=2e-4)


def make_linear_inputs(decay, is_delta, dtype):
    """The arguments of ``linear_attention``, and gradients of its output and final state. Query heads share keys."""
    draw = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    generator, rows = torch.Generator().manual_seed(3), (BATCH, LENGTH, HEADS)
    inputs = {"q": draw(*rows, DIM), "k": torch.nn.functional.normalize(draw(BATCH, LENGTH, KEY_HEADS, DIM), dim=-1),
              "v": draw(*rows, 8)}  # fmt: skip
    inputs = {name: tensor.to(dtype) for name, tensor in inputs.items()}
    shape = {"head": (HEADS,), "token": rows, "element": (*rows, DIM)}.get(decay)
    if shape:
        inputs["g"] = -torch.rand(*shape, generator=generator) / 4
    if is_delta:
        inputs["beta"] = torch.rand(*rows, generator=generator)
    inputs["initial_state"] = draw(BATCH, HEADS, DIM, 8)
    return inputs, [draw(*rows, 8).to(dtype), draw(BATCH, HEADS, DIM, 8)]


def differentiate_linear(attention, inputs, gradients):
    """Output, final state, and the gradients of all inputs by name."""
    inputs = {name: tensor.detach().clone().requires_grad_() for name, tensor in inputs.items()}
    results = attention(**inputs, output_final_state=True)
    made = torch.autograd.grad(results, list(inputs.values()), gradients)
    return dict(zip(["out", "state", *inputs], [*(result.detach() for result in results), *made]))


LINEAR_CASES = {
    "plain": (None, False, {}), "full": (None, False, {"causal": False}), "head": ("head", False, {"scale": 0.5}),
    "token": ("token", False, {}), "element": ("element", False, {}), "delta": (None, True, {}),
    "gated delta": ("token", True, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", LINEAR_CASES)
def test_linear_attention(name):
    """Shards against the whole. States and per-head log-decays have their whole gradients on all ranks."""
    decay, is_delta, options = LINEAR_CASES[name]
    inputs, gradients = make_linear_inputs(decay, is_delta, torch.float32)
    function = gated_delta_rule if name == "gated delta" else linear_attention
    expected = differentiate_linear(functools.partial(function, **options), inputs, gradients)
    has_positions = lambda tensor, name: tensor.dim() > 1 and name not in ("state", "initial_state")  # noqa: E731

    def body(ranks):
        attention = functools.partial(context_parallel(function, ranks, "allgather"), **options)
        cut = lambda tensor: shard_sequence(tensor, ranks, "allgather", dim=1)  # noqa: E731
        shards = {name: cut(tensor) if has_positions(tensor, name) else tensor for name, tensor in inputs.items()}
        found = differentiate_linear(attention, shards, [cut(gradients[0]), gradients[1]])
        join = lambda tensor: unshard_sequence(tensor, ranks, "allgather", dim=1)  # noqa: E731
        return {name: join(tensor) if has_positions(tensor, name) else tensor for name, tensor in found.items()}

    for found in run_threads(3, body):
        if isinstance(found, Exception):
            raise found
        for result, tensor in found.items():
            exact, bound = expected[result], 3e-5 * expected[result].abs().max().item()
            torch.testing.assert_close(
                tensor, exact, rtol=0, atol=bound, msg=lambda text, result=result: f"{result}: {text}"
            )


#: Linear attention with features, normalizers and masks: the kind of log-decay, whether there are states, and options.
FORMS = {
    "features": ("token", True, dict(feature="exp", normalize=True, eps=1e-2)),
    "full": (None, True, dict(feature="softmax", normalize=True, causal=False)),
    "lengths": ("head", True, dict(key_lengths=torch.tensor([20, 70]), feature="elu", normalize=True)),
    "blocks": ("token", False, dict(block=20, feature="relu")),
    "sequences": ("token", False, dict(cu_seqlens=torch.tensor([0, 30, 32, 33, 75, LENGTH]), feature="elu")),
    "random features": ("token", True, dict(feature="random", random_features=DIM, feature_seed=5, normalize=True)),
    "unit length": (None, True, dict(use_qk_l2norm_in_kernel=True, feature=lambda rows: rows.square())),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_linear_attention(name):
    """Shards against the whole, with gradients."""
    decay, has_states, options = FORMS[name]
    inputs, gradients = make_linear_inputs(decay, False, torch.float32)
    if name == "sequences":
        inputs = {key: tensor if tensor.dim() == 1 else tensor[:1] for key, tensor in inputs.items()}
        gradients = [tensor[:1] for tensor in gradients]
    if options.get("normalize"):
        # With the sums of scores, which are not negative.
        sums = torch.ones(BATCH, HEADS, DIM, 1)
        inputs["initial_state"], gradients[1] = (
            torch.cat([tensor, sums], -1) for tensor in (inputs["initial_state"], gradients[1])
        )
    if not has_states:
        del inputs["initial_state"]

    def differentiate(attention, inputs, gradients):
        inputs = {key: tensor.detach().clone().requires_grad_() for key, tensor in inputs.items()}
        out, state = attention(**inputs, **options, output_final_state=has_states)
        results = [out, state] if has_states else [out]
        made = torch.autograd.grad(results, list(inputs.values()), gradients[: len(results)])
        names = ["out", "state"][: len(results)]
        return dict(zip([*names, *inputs], [*(result.detach() for result in results), *made]))

    expected = differentiate(linear_attention, inputs, gradients)
    has_positions = lambda tensor, key: tensor.dim() > 1 and key not in ("state", "initial_state")  # noqa: E731

    def body(ranks):
        cut = lambda tensor: shard_sequence(tensor, ranks, "allgather", dim=1)  # noqa: E731
        shards = {key: cut(tensor) if has_positions(tensor, key) else tensor for key, tensor in inputs.items()}
        attention = context_parallel(linear_attention, ranks, "allgather")
        found = differentiate(attention, shards, [cut(gradients[0]), gradients[1]])
        join = lambda tensor: unshard_sequence(tensor, ranks, "allgather", dim=1)  # noqa: E731
        return {key: join(tensor) if has_positions(tensor, key) else tensor for key, tensor in found.items()}

    for found in run_threads(3, body):
        if isinstance(found, Exception):
            raise found
        for key, tensor in found.items():
            bound = 5e-5 * max(1, expected[key].abs().max().item())
            torch.testing.assert_close(
                tensor, expected[key], rtol=0, atol=bound, msg=lambda text, key=key: f"{key}: {text}"
            )


def test_linear_attention_alone():
    """A call without states and gradients, in bf16."""
    inputs, _ = make_linear_inputs("token", False, torch.bfloat16)
    del inputs["initial_state"]
    expected, _ = linear_attention(**inputs)

    def body(ranks):
        attention = context_parallel(linear_attention, ranks, "allgather")
        shards = {name: shard_sequence(tensor, ranks, "allgather", dim=1) for name, tensor in inputs.items()}
        out, state = attention(**shards)
        assert state is None and out.dtype == torch.bfloat16 and not out.requires_grad
        return unshard_sequence(out, ranks, "allgather", dim=1)

    for found in run_threads(2, body):
        if isinstance(found, Exception):
            raise found
        torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)


def test_refusals_of_linear_attention():
    inputs, _ = make_linear_inputs("token", True, torch.float32)

    def body(ranks):
        texts = []
        for function, method in ((linear_attention, "ring"), (gated_delta_rule, "zigzag")):
            with pytest.raises(UnsupportedError) as error:
                context_parallel(function, ranks, method)
            texts.append(str(error.value))
        attention = context_parallel(linear_attention, ranks, "allgather")
        for options in (dict(cu_seqlens=torch.tensor([0, LENGTH])), dict(block=4, causal=False)):
            with pytest.raises(UnsupportedError) as error:
                attention(**{**inputs, "g": None, "beta": None} if "block" in options else inputs, **options)
            texts.append(str(error.value))
        with pytest.raises(AttnError) as error:
            context_parallel(gated_delta_rule, ranks, "allgather")(**{**inputs, "beta": None})
        texts.append(str(error.value))
        # Ranks that disagree compile nothing.
        length = LENGTH // 2 if ranks.rank == 0 else LENGTH // 4
        with pytest.raises(AttnError) as error:
            attention(**{name: tensor[:, :length] if name != "initial_state" else tensor
                         for name, tensor in inputs.items()})  # fmt: skip
        return [*texts, str(error.value)]

    for texts in run_threads(2, body):
        if isinstance(texts, Exception):
            raise texts
        assert texts[0] == "method is ring, and linear_attention over several ranks takes allgather"
        assert texts[1] == "method is zigzag, and gated_delta_rule over several ranks takes allgather"
        assert texts[2] == (
            "linear_attention over several ranks takes cu_seqlens with causal=True, and without block, initial_state "
            "and output_final_state, alone"
        )
        assert texts[3] == "linear_attention over several ranks takes block with causal=True alone"
        assert texts[4] == "beta is None; pass a tensor, or call linear_attention"
        assert texts[5] == (
            "rank 1 has query of the shape (2, 4, 24, 16), expected (2, 4, 48, 16) as rank 0 has"
        )


def test_block_mask_of_the_whole():
    """A ``BlockMask`` is that of the whole sequence."""
    keep = lambda b, h, i, j: i >= j  # noqa: E731
    make_mask = torch.nn.attention.flex_attention.create_block_mask
    whole = make_mask(keep, None, None, LENGTH, LENGTH, device="cpu")
    of_shard = make_mask(keep, None, None, LENGTH // 2, LENGTH // 2, device="cpu")
    inputs = make_inputs()

    def body(ranks, block_mask):
        attention = context_parallel(flex_attention, ranks)
        query, key, value, _ = (shard_sequence(tensor, ranks) for tensor in inputs)
        return unshard_sequence(attention(query, key, value, block_mask=block_mask, enable_gqa=True), ranks)

    expected = attend_exactly(*[tensor.double() for tensor in inputs[:3]], keep=lambda i, j: j <= i)[0]
    for result in run_threads(2, functools.partial(body, block_mask=whole)):
        check([result], [expected])
    for result in run_threads(2, functools.partial(body, block_mask=of_shard)):
        assert isinstance(result, AttnError)
        assert str(result) == (
            "block_mask was made for 48 queries and 48 keys, and there are 96 and 96; make it again for these"
        )


@pytest.mark.parametrize("method", METHODS)
def test_results_without_gradients(method):
    """A call without gradients has the same output, and so has one in bf16."""
    inputs = make_inputs(torch.bfloat16)
    expected = attend_exactly(*[tensor.double() for tensor in inputs[:3]], keep=lambda i, j: j <= i)[0]

    def body(ranks):
        attention = context_parallel(sdpa, ranks, method)
        query, key, value, _ = (shard_sequence(tensor, ranks, method) for tensor in inputs)
        out = attention(query, key, value, is_causal=True, enable_gqa=True)
        assert out.dtype == torch.bfloat16 and not out.requires_grad
        # Heads of a projection, whose rows are not neighbors, are read in place.
        strided = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in (query, key, value)]
        same = attention(*strided, is_causal=True, enable_gqa=True)
        assert same.stride() == strided[0].stride()
        torch.testing.assert_close(same, out, rtol=0, atol=0)
        return [unshard_sequence(out, ranks, method)]

    for result in run_threads(4, body):
        if isinstance(result, Exception):
            raise result
        check(result, [expected], torch.bfloat16)


def test_selective_checkpoint(monkeypatch):
    """A checkpointed layer that saves the results of attention computes and sends nothing of it again."""
    *inputs, dout = make_inputs()
    module, calls = sys.modules[context_parallel.__module__], []
    find_plan = module._find_plan
    monkeypatch.setattr(module, "_find_plan", lambda *args: calls.append(1) or find_plan(*args))
    create = torch.utils.checkpoint.create_selective_checkpoint_contexts
    saving = functools.partial(create, [torch.ops.attn.sharded_attention.default])

    def body(ranks, **options):
        attention = context_parallel(sdpa, ranks, "lightseq")
        leaves = [shard_sequence(tensor, ranks, "lightseq").requires_grad_() for tensor in inputs]
        layer = lambda q, k, v: torch.tanh(attention(torch.tanh(q), k, v, is_causal=True, enable_gqa=True))  # noqa: E731
        out = torch.utils.checkpoint.checkpoint(layer, *leaves, use_reentrant=False, **options)
        return torch.autograd.grad(out, leaves, shard_sequence(dout, ranks, "lightseq"))

    plain = run_threads(2, body)
    assert len(calls) == 2 * 3, plain
    calls.clear()
    for found, expected in zip(run_threads(2, functools.partial(body, context_fn=saving)), plain):
        if isinstance(found, Exception):
            raise found
        assert all(map(torch.equal, found, expected))
    assert len(calls) == 2 * 2


# By name: the number of queries, options of sdpa, and of ``attend_exactly``.
SEGMENT_CASES = {
    "one query": (1, {}, {}),
    "soft cap": (1, {"soft_cap": 2.0, "scale": 0.5}, {"score": lambda s, i, j: 2 * torch.tanh(s * math.sqrt(DIM) / 4)}),
    "sinks": (3, {"sinks": SINKS}, {"sinks": SINKS}),
    "top left": (3, {"is_causal": True}, {"keep": lambda i, j: j <= i}),
    "window": (
        2,
        {"attn_mask": masks.sliding_window(40, 0)},
        {"keep": lambda i, j: (j >= i + LENGTH - 2 - 40) & (j <= i + LENGTH - 2)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", SEGMENT_CASES)
def test_segments_of_keys(name, dtype):
    """Decoding: all ranks have all queries, and each a segment of the keys."""
    queries, options, exact = SEGMENT_CASES[name]
    _, key, value, _ = make_inputs(dtype)
    query = make(HEADS, 7, dtype, queries)
    expected = attend_exactly(query.double(), key.double(), value.double(), **exact)

    def body(ranks):
        attention = context_parallel(sdpa, ranks, "distattention")
        parts = [shard_sequence(tensor, ranks, "distattention") for tensor in (key, value)]
        return attention(query, *parts, **options, enable_gqa=True, return_lse=True)

    results = run_threads(3, body)
    for result in results:
        if isinstance(result, Exception):
            raise result
        check(result, expected, dtype)
        assert all(torch.equal(tensor, other) for tensor, other in zip(result, results[0]))


def test_segments_of_caches():
    """The lengths of a cache grow, and no function is compiled again."""
    _, key, value, _ = make_inputs()
    query = make(HEADS, 7, length=1)
    lengths = torch.tensor([[0, LENGTH], [LENGTH // 3, 1], [50, LENGTH // 3 + 1]], dtype=torch.int32)

    def body(ranks):
        attention = context_parallel(sdpa, ranks, "distattention")
        parts = [shard_sequence(tensor, ranks, "distattention") for tensor in (key, value)]
        return [attention(query, *parts, key_lengths=each, enable_gqa=True, return_lse=True) for each in lengths]

    for results in run_threads(3, body):
        if isinstance(results, Exception):
            raise results
        for result, each in zip(results, lengths):
            for entry, length in enumerate(each.tolist()):
                row = [tensor[entry : entry + 1, :, :length].double() for tensor in (key, value)]
                exact = attend_exactly(query[entry : entry + 1].double(), *row)
                check([tensor[entry : entry + 1] for tensor in result], exact)


def test_segments_with_flex_attention():
    queries = 2
    query = make(HEADS, 7, length=queries)
    _, key, value, _ = make_inputs()
    make_mask = torch.nn.attention.flex_attention.create_block_mask
    block_mask = make_mask(lambda b, h, i, j: (i + j) % 3 != 0, None, None, queries, LENGTH, device="cpu")
    expected = attend_exactly(
        *(tensor.double() for tensor in (query, key, value)), keep=lambda i, j: (i + j) % 3 != 0,
        score=lambda s, i, j: s + 0.1 * j
    )  # fmt: skip

    def body(ranks):
        attention = context_parallel(flex_attention, ranks, "distattention")
        parts = [shard_sequence(tensor, ranks, "distattention") for tensor in (key, value)]
        score_mod = lambda s, b, h, i, j: s + 0.1 * j  # noqa: E731
        return attention(query, *parts, score_mod, block_mask, enable_gqa=True, return_lse=True)

    for result in run_threads(2, body):
        if isinstance(result, Exception):
            raise result
        check(result, expected)


def test_refusals_of_segments():
    tensor, lengths = torch.zeros(2, 1, 8, 16), torch.zeros(2, dtype=torch.int32)
    cases = [
        ("distattention", {"key_lengths": lengths, "is_causal": True}, "takes key_lengths without masks and dropout"),
        ("distattention", {"key_lengths": lengths, "dropout_p": 0.5}, "takes key_lengths without masks and dropout"),
        ("distattention", {"key_lengths": lengths[:1]}, "key_lengths is torch.int32 (1,), expected a tensor of"),
        ("distattention", {"key_lengths": [3]}, "key_lengths is list, expected a tensor of torch.int32 with the shape"),
        ("ring", {"key_lengths": lengths}, "sdpa with the method ring does not take key_lengths; leave it out"),
    ]

    def body(ranks):
        texts = []
        for method, options, _ in cases:
            with pytest.raises(AttnError) as error:
                context_parallel(sdpa, ranks, method)(tensor, tensor, tensor, **options)
            texts.append(str(error.value))
        with pytest.raises(UnsupportedError, match="requires a gradient, which the method distattention does not"):
            context_parallel(sdpa, ranks, "distattention")(tensor.clone().requires_grad_(), tensor, tensor)
        return texts

    for texts in run_threads(2, body):
        for text, (_, _, expected) in zip(texts, cases):
            assert expected in text


def test_order_of_shards():
    whole = torch.arange(12).view(1, 12)

    def body(ranks, method):
        shard = shard_sequence(whole, ranks, method, dim=1)
        return shard.tolist()[0], unshard_sequence(shard, ranks, method, dim=1).tolist()

    for method, first, last in (
        ("ring", [0, 1, 2, 3], [8, 9, 10, 11]), ("zigzag", [0, 1, 10, 11], [4, 5, 6, 7]),
        ("striped", [0, 3, 6, 9], [2, 5, 8, 11]),
    ):  # fmt: skip
        found = run_threads(3, functools.partial(body, method=method))
        assert (found[0][0], found[2][0]) == (first, last)
        assert all(result[1] == whole.tolist() for result in found)
    for result in run_threads(5, functools.partial(body, method="zigzag")):
        assert str(result) == (
            "dimension 1 has 12 positions, which must be a multiple of 10 for 5 ranks with the method zigzag"
        )


#
# Groups of ranks
#


def on_groups(attention, group, degree, inputs):
    """``on_shards`` with the method usp."""
    where = {"group": group, "method": "usp", "ulysses_degree": degree}
    results = differentiate(attention, *[shard_sequence(tensor, **where) for tensor in inputs])
    return [unshard_sequence(result, **where) for result in results]


# By name: ranks, the degree, and options of sdpa and ``attend_exactly``. There are two key heads.
GROUP_CASES = {
    "full": (4, 2, "full"), "causal": (4, 2, "causal"), "window": (8, 2, "window"), "soft cap": (4, 2, "soft cap"),
    "sinks": (8, 4, "sinks"), "few key heads": (8, 4, "causal"), "zigzag": (2, 1, "causal"),
    "ulysses": (2, 2, "causal"),
}  # fmt: skip


@pytest.mark.parametrize("name", GROUP_CASES)
def test_groups(name):
    size, degree, case = GROUP_CASES[name]
    options, exact = SDPA_CASES[case]
    inputs = make_inputs()
    expected = differentiate(functools.partial(attend_exactly, **exact), *[tensor.double() for tensor in inputs])

    def body(ranks):
        attention = context_parallel(sdpa, ranks, "usp", ulysses_degree=degree)
        attention = functools.partial(attention, **options, enable_gqa=True, return_lse=True)
        return on_groups(attention, ranks, degree, inputs)

    for result in run_threads(size, body):
        if isinstance(result, Exception):
            raise result
        check(result, expected)


def test_groups_of_three():
    """The middle rank of a group has positions of both of its chunks."""
    inputs = [make(heads, seed) for seed, heads in enumerate((6, 3, 3, 6))]
    whole = functools.partial(sdpa, is_causal=True, enable_gqa=True, return_lse=True)
    expected = [tensor.double() for tensor in differentiate(whole, *inputs)]

    def body(ranks):
        attention = context_parallel(sdpa, ranks, "usp", ulysses_degree=3)
        attention = functools.partial(attention, is_causal=True, enable_gqa=True, return_lse=True)
        return on_groups(attention, ranks, 3, inputs)

    for result in run_threads(6, body):
        if isinstance(result, Exception):
            raise result
        check(result, expected)


@pytest.mark.parametrize("name", FLEX_CASES)
def test_groups_with_flex_attention(name):
    options, exact = FLEX_CASES[name]
    inputs = make_inputs()
    expected = differentiate(functools.partial(attend_exactly, **exact), *[tensor.double() for tensor in inputs])

    def body(ranks):
        attention = context_parallel(flex_attention, ranks, "usp", ulysses_degree=2)
        attention = functools.partial(attention, **options, enable_gqa=True, return_lse=True)
        return on_groups(attention, ranks, 2, inputs)

    for result in run_threads(4, body):
        if isinstance(result, Exception):
            raise result
        check(result, expected)


def test_order_of_groups():
    whole = torch.arange(24).view(1, 24)

    def body(ranks, degree):
        where = {"group": ranks, "method": "usp", "dim": 1, "ulysses_degree": degree}
        shard = shard_sequence(whole, **where)
        return shard.tolist()[0], unshard_sequence(shard, **where).tolist()

    orders = {
        (4, 2): [[*range(6)], [*range(18, 24)], [*range(6, 12)], [*range(12, 18)]],
        (4, 4): [[*range(6 * rank, 6 * rank + 6)] for rank in range(4)],
        (2, 1): [[*range(6), *range(18, 24)], [*range(6, 18)]],
        (6, 3): [[0, 1, 2, 3], [4, 5, 18, 19], [20, 21, 22, 23], [6, 7, 8, 9], [10, 11, 12, 13], [14, 15, 16, 17]],
    }
    for (size, degree), expected in orders.items():
        found = run_threads(size, functools.partial(body, degree=degree))
        assert [result[0] for result in found] == expected
        assert all(result[1] == whole.tolist() for result in found)


def test_refusals_of_groups():
    heads = torch.zeros(1, 6, 8, 16)
    cases = [
        (dict(ulysses_degree=None), heads, heads, "method is 'usp', which needs ulysses_degree, the neighboring ranks"),
        (dict(ulysses_degree=3), heads, heads, "ulysses_degree is 3; it must divide 4, the number of ranks"),
        (dict(ulysses_degree=0), heads, heads, "ulysses_degree is 0; it must divide 4, the number of ranks"),
        (dict(ulysses_degree=2.0), heads, heads, "ulysses_degree is 2.0; it must divide 4, the number of ranks"),
        (dict(method="ring", ulysses_degree=2), heads, heads,
         "ulysses_degree is 2, and method is 'ring'; only usp takes it"),
        (dict(ulysses_degree=2), heads[:, :3], heads[:, :3],
         "query has 3 heads, which must be a multiple of 2, ulysses_degree, with the method usp; the methods ring,"),
        (dict(ulysses_degree=2), heads, heads[:, :3],
         "key has 3 heads, which must be a multiple or a divisor of 2, ulysses_degree, with the method usp"),
        (dict(ulysses_degree=2), heads[:, :, :7], heads[:, :, :7],
         "query has 7 positions, which 2 chunks of a rank cannot have equally many of"),
    ]  # fmt: skip

    def body(ranks):
        texts = []
        for options, query, key, _ in cases:
            with pytest.raises(AttnError) as error:
                context_parallel(sdpa, ranks, **{"method": "usp", **options})(query, key, key, enable_gqa=True)
            texts.append(str(error.value))
        with pytest.raises(AttnError, match="has 20 positions, which must be a multiple of 8 for 4 ranks"):
            shard_sequence(torch.zeros(1, 1, 20, 4), ranks, "usp", ulysses_degree=2)
        # Degrees that differ.
        degree = 2 if ranks.rank else 4
        with pytest.raises(AttnError) as error:
            tensor = torch.zeros(1, 4, 8, 16)
            context_parallel(sdpa, ranks, "usp", ulysses_degree=degree)(tensor, tensor, tensor)
        return [*texts, str(error.value)]

    for texts in run_threads(4, body):
        if isinstance(texts, Exception):
            raise texts
        for text, (_, _, _, expected) in zip(texts, cases):
            assert text.startswith(expected), text
        assert texts[-1] == "rank 1 has method usp ulysses-degree=2, expected usp ulysses-degree=4 as rank 0 has"


def test_choose_ulysses_degree():
    group = local_ranks(8)
    assert choose_ulysses_degree(*make_inputs()[:3], group[0]) == 4
    assert choose_ulysses_degree(*[make(3, 0)] * 3, group[0]) == 1


DISAGREEMENTS = {
    "query of the shape": (lambda x: x[:, :, :-1], {}, r"\(2, 4, 47, 16\), expected \(2, 4, 48, 16\)"),
    "query of the dtype": (lambda x: x.bfloat16(), {}, "torch.bfloat16, expected torch.float32"),
    "the mask": (None, {"is_causal": False}, "'', expected '#attn.causal<alignment = top_left>'"),
    "scale": (None, {"scale": 0.5}, "0.5, expected None"),
    "dropout_p": (None, {"dropout_p": 0.5}, "0.5, expected 0.0"),
    "method": (None, {"method": "allgather"}, "allgather, expected ring"),
}


@pytest.mark.parametrize("name", DISAGREEMENTS)
def test_ranks_that_disagree(name):
    convert, change, text = DISAGREEMENTS[name]
    inputs = make_inputs()

    def body(ranks):
        options = {"is_causal": True, **(change if ranks.rank == 1 else {})}
        attention = context_parallel(sdpa, ranks, options.pop("method", "ring"))
        query, key, value, _ = (shard_sequence(tensor, ranks) for tensor in inputs)
        if convert is not None and ranks.rank == 1:
            query, key, value = convert(query), convert(key), convert(value)
        if options.get("dropout_p"):
            # All draw a seed, before they find out.
            torch.ops.attn.tensor_of_first_rank(torch.zeros(2, dtype=torch.int64), ranks.name)
        return attention(query, key, value, enable_gqa=True, **options)

    if name == "dropout_p":
        # The first rank makes no call that matches the one for the seed.
        for result in run_threads(2, body, timeout=SHORT_SECONDS):
            assert isinstance(result, AttnError)
        return
    for result in run_threads(2, body):
        assert isinstance(result, AttnError)
        assert result.args[0].startswith(f"rank 1 has {name} ")
        assert re.search(text, str(result)), str(result)
        assert str(result).endswith("as rank 0 has")


REFUSALS = {
    "head_map": ({"head_map": torch.zeros(HEADS, dtype=torch.int32)}, "sdpa over several ranks does not take head_map"),
    "key_lengths": ({"key_lengths": torch.ones(BATCH, dtype=torch.int32)}, "does not take key_lengths; leave it out"),
    "positions": ({"positions": torch.zeros(6, dtype=torch.int32)}, "does not take positions; leave it out"),
    "tensor": ({"attn_mask": torch.ones(LENGTH, LENGTH, dtype=torch.bool)}, "attn_mask is a Tensor, and sdpa over"),
    "reads": ({"attn_mask": masks.documents(DOCUMENTS[None].expand(BATCH, -1))}, "which reads tensors; sdpa over"),
    "all dropped": ({"dropout_p": 1.0}, "dropout_p is 1, which drops everything"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    options, text = REFUSALS[name]
    inputs = make_inputs()

    def body(ranks):
        query, key, value, _ = (shard_sequence(tensor, ranks) for tensor in inputs)
        return context_parallel(sdpa, ranks)(query, key, value, enable_gqa=True, **options)

    for result in run_threads(2, body):
        assert isinstance(result, UnsupportedError) and text in str(result)


def test_refusals_of_shards():
    def body(ranks):
        query = torch.zeros(1, 1, 7, 16)
        texts = []
        for method, tensor in (("zigzag", query), ("ring", query[0]), ("ring", query.double())):
            with pytest.raises(AttnError) as error:
                context_parallel(sdpa, ranks, method)(tensor, tensor, tensor)
            texts.append(str(error.value))
        heads = torch.zeros(1, 6, 8, 16)
        for query, key in ((heads[:, :3], heads[:, :3]), (heads, heads[:, :3])):
            with pytest.raises(UnsupportedError) as error:
                context_parallel(sdpa, ranks, "ulysses")(query, key, key, enable_gqa=True)
            texts.append(str(error.value))
        with pytest.raises(UnsupportedError) as error:
            context_parallel(sdpa, ranks, "striped")(heads, heads, heads, dropout_p=0.5)
        texts.append(str(error.value))
        for arguments in ((torch.add,), (sdpa, None, "tree"), (sdpa, 3)):
            with pytest.raises(AttnError) as error:
                context_parallel(*arguments[:1], *(arguments[1:] or [ranks]))
            texts.append(str(error.value))
        return texts

    for texts in run_threads(2, body):
        assert texts[0].startswith("query has 7 positions, which 2 chunks of a rank cannot have equally many of")
        assert texts[1].startswith("query has 3 dimensions, and attention over several ranks takes 4")
        assert texts[2].startswith("query has the dtype torch.float64, and attention over several ranks takes")
        assert texts[3].startswith("query has 3 heads, which must be a multiple of 2, the number of ranks")
        assert texts[4].startswith("key has 3 heads, which must be a multiple or a divisor of 2, the number of ranks")
        assert texts[5] == (
            "dropout_p is 0.5, which the method striped does not have: words of keep masks are of neighboring keys, and "
            "a rank has none; choose another method"
        )
        assert texts[6] == (
            "function is add; pass sdpa, flex_attention, varlen_attn, flash_attn_varlen_func, linear_attention or "
            "gated_delta_rule of attn.torch"
        )
        assert texts[7] == (
            "method is 'tree'; it must be one of ring, zigzag, striped, lightseq, allgather, ulysses, usp, distattention"
        )
        assert "call torch.distributed.init_process_group, or pass local_ranks" in texts[8]


#
# Processes
#


def show_dropout(attention, group, method):
    """Which pairs attention with dropout keeps: probabilities are equal, and values are unit vectors."""
    length = 128
    query = torch.zeros(1, HEADS, length, 16)
    value = torch.eye(length).expand(1, HEADS, length, length).contiguous()
    torch.manual_seed(SEED)
    if group == "whole":
        return sdpa(query, query, value, dropout_p=DROPOUT) != 0
    # The seeds of other ranks do not matter.
    torch.manual_seed(SEED + dist.get_rank())
    shards = [shard_sequence(tensor, group, method) for tensor in (query, query, value)]
    return unshard_sequence(attention(*shards, dropout_p=DROPOUT), group, method) != 0


def compute_results():
    """The results of all tests, by name. Errors are texts."""
    results = {}
    for method in METHODS:
        attention = context_parallel(sdpa, method=method, timeout=SECONDS)
        causal = functools.partial(attention, is_causal=True, enable_gqa=True, return_lse=True)
        results["causal", method] = on_shards(causal, None, method, make_inputs())
        if method not in METHODS_WITH_DROPOUT:
            continue
        results["dropout", method] = show_dropout(attention, None, method)
        dropped = functools.partial(attention, dropout_p=DROPOUT, enable_gqa=True, return_lse=True)
        torch.manual_seed(SEED)
        inputs = [make(heads, seed, length=128) for seed, heads in enumerate((HEADS, KEY_HEADS, KEY_HEADS, HEADS))]
        results["dropout gradients", method] = on_shards(dropped, None, method, inputs)
    if dist.get_world_size() == 2:
        results["compiled"] = compute_compiled()
    else:
        results["mesh"] = compute_on_mesh() and compute_on_mesh_of_groups()
    results.update(compute_errors())
    return results


def compute_compiled():
    """Whether a function in one graph of torch.compile has the same results."""
    attention = context_parallel(sdpa, method="zigzag", timeout=SECONDS)
    shards = [shard_sequence(tensor, None, "zigzag") for tensor in make_inputs()]

    def forward(query, key, value):
        return attention(2 * query, 2 * key, 2 * value, is_causal=True, enable_gqa=True) + 1

    compiled = torch.compile(forward, fullgraph=True, backend="aot_eager")
    found = []
    for function in (forward, compiled):
        inputs = [tensor.detach().requires_grad_() for tensor in shards[:3]]
        out = function(*inputs)
        found.append([out.detach(), *torch.autograd.grad(out, inputs, shards[3])])
    return all(torch.equal(eager, other) for eager, other in zip(*found))


def compute_on_mesh():
    """Results of a dimension of a mesh: each half of the ranks has a sequence of its own."""
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("dp", "cp"))
    with pytest.raises(AttnError, match="group is a DeviceMesh of 2 dimensions"):
        context_parallel(sdpa, mesh)
    attention = functools.partial(context_parallel(sdpa, mesh["cp"], timeout=SECONDS), enable_gqa=True, return_lse=True)
    inputs = [tensor * (1 + mesh["dp"].get_local_rank()) for tensor in make_inputs()]
    found = on_shards(attention, mesh["cp"], "ring", inputs)
    exact = differentiate(attend_exactly, *[tensor.double() for tensor in inputs])
    check(found, exact)
    return True


def compute_on_mesh_of_groups():
    """Results of a mesh whose last dimension are ranks that exchange heads for positions."""
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("ring", "ulysses"))
    with pytest.raises(AttnError, match="ulysses_degree is 4, and the last dimension of the DeviceMesh is 2"):
        context_parallel(sdpa, mesh, "usp", ulysses_degree=4)
    attention = context_parallel(sdpa, mesh, "usp", timeout=SECONDS)
    attention = functools.partial(attention, is_causal=True, enable_gqa=True, return_lse=True)
    inputs = make_inputs()
    # The mesh says the degree.
    found = on_groups(attention, mesh, None, inputs)
    exact = functools.partial(attend_exactly, keep=lambda i, j: j <= i)
    check(found, differentiate(exact, *[tensor.double() for tensor in inputs]))
    return True


def expect_error(name, call):
    start = time.monotonic()
    try:
        call()
    except AttnError as error:
        return {name: (str(error), time.monotonic() - start)}
    return {name: ("no error", 0.0)}


def compute_errors():
    results, rank = {}, dist.get_rank()
    attention = context_parallel(sdpa, timeout=SECONDS)
    query, key, value, _ = (shard_sequence(tensor) for tensor in make_inputs())

    def disagree():
        attention(query, key, value, enable_gqa=True, scale=0.5 if rank == 1 else None)

    results.update(expect_error("disagreement", disagree))

    def fail():
        attention(query, key, value, enable_gqa=True, is_causal=True)
        if rank == 1:
            make_ranks(None, SECONDS).host.abort(14, "no kernel")
        attention(query, key, value, enable_gqa=True, is_causal=True)

    results.update(expect_error("failure", fail))
    # The group has failed on all ranks, and says so again.
    results.update(expect_error("failed", lambda: attention(query, key, value, enable_gqa=True, is_causal=True)))
    # A new group works, until a rank does not come.
    attention = context_parallel(sdpa, timeout=SHORT_SECONDS)
    results["again"] = unshard_sequence(attention(query, key, value, enable_gqa=True))
    dist.barrier()
    results.update(
        expect_error(
            "missing",
            lambda: None if rank == 1 else [attention(query, key, value, enable_gqa=True) for _ in range(4)],
        )
    )
    dist.barrier()
    return results


def run_process(rank, size, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    torch.save(compute_results(), f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def run_processes(size, folder):
    """The results of each rank."""
    torch.multiprocessing.spawn(run_process, args=(size, str(folder)), nprocs=size)
    return [torch.load(folder / f"{rank}.pt") for rank in range(size)]


def check_values(results):
    keep = {"keep": lambda i, j: j <= i}
    expected = differentiate(functools.partial(attend_exactly, **keep), *[tensor.double() for tensor in make_inputs()])
    for method in METHODS:
        check(results["causal", method], expected)


def check_dropout(results):
    """Ranks drop what one process drops."""
    expected = show_dropout(sdpa, "whole", None)
    assert 0.2 < 1 - expected.double().mean() < 0.3
    inputs = [make(heads, seed, length=128) for seed, heads in enumerate((HEADS, KEY_HEADS, KEY_HEADS, HEADS))]
    torch.manual_seed(SEED)
    whole = functools.partial(sdpa, dropout_p=DROPOUT, enable_gqa=True, return_lse=True)
    with_gradients = differentiate(whole, *inputs)
    for method in METHODS_WITH_DROPOUT:
        assert torch.equal(results["dropout", method], expected)
        check(results["dropout gradients", method], [tensor.double() for tensor in with_gradients])


def check_errors(rank, results):
    assert results["disagreement"][0] == "rank 1 has scale 0.5, expected None as rank 0 has"
    for name in ("failure", "failed"):
        text, seconds = results[name]
        assert text == "rank 1: no kernel"
        assert seconds < SECONDS / 2
    check([results["again"]], [attend_exactly(*[tensor.double() for tensor in make_inputs()[:3]])[0]])
    if rank != 1:
        text, seconds = results["missing"]
        assert f"other ranks made no matching call within {SHORT_SECONDS} s" in text
        assert seconds < 10 * SHORT_SECONDS * SLOWDOWN


@pytest.mark.parametrize("size", [2, 4])
def test_processes(size, tmp_path):
    for rank, results in enumerate(run_processes(size, tmp_path)):
        check_values(results)
        check_dropout(results)
        check_errors(rank, results)
        assert results["mesh" if size == 4 else "compiled"]


def stop_process(rank, size, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    attention = context_parallel(sdpa, timeout=SECONDS)
    query, key, value, _ = (shard_sequence(tensor) for tensor in make_inputs())
    attention(query, key, value, enable_gqa=True)
    if rank == 1:
        os._exit(0)
    found = expect_error("stopped", lambda: [attention(query, key, value, enable_gqa=True) for _ in range(4)])
    torch.save(found, f"{folder}/{rank}.pt")
    # Gloo would wait for the rank that has ended.
    os._exit(0)


def test_a_rank_that_ends(tmp_path):
    """Other ranks do not wait for a process that has ended."""
    torch.multiprocessing.spawn(stop_process, args=(3, str(tmp_path)), nprocs=3)
    for rank in (0, 2):
        text, seconds = torch.load(tmp_path / f"{rank}.pt")["stopped"]
        assert "onnection" in text, text
        assert seconds < SECONDS / 2
