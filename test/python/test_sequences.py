# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sinks, head maps, the identity, the log-sum-exp, and sequences of different lengths from torch, against f64."""

import inspect
import math

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn import masks  # noqa: E402
from attn.torch import flex_attention, kernels, create_block_mask, sdpa, varlen_attn  # noqa: E402

H, D = 4, 16
LENGTHS = [(5, 5), (0, 3), (4, 0), (1, 9), (11, 11)]


def make(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype).requires_grad_()


def reference(q, k, v, keep=None, sinks=None, heads=None, identity=None):
    """Output and log-sum-exp of heads before positions; rows with nothing to attend are 0."""
    if heads is None:
        k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    else:
        k, v = k[..., heads, :, :], v[..., heads, :, :]
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if keep is not None:
        scores = scores.masked_fill(~keep, -math.inf)
    all_scores = scores
    if sinks is not None:
        all_scores = torch.cat([scores, sinks[:, None, None].expand(*scores.shape[:-1], 1)], -1)
    lse = all_scores.logsumexp(-1)
    weights = torch.exp(scores - lse.masked_fill(lse == -math.inf, 0.0)[..., None])
    if identity is not None:
        queries, keys = scores.shape[-2:]
        u = identity[:, None, None]
        weights = (1 - u) * weights + u * torch.eye(keys)[keys - queries :]
    return weights @ v, lse


def check(actual, inputs, expected, wide, rtol=1e-4, atol=2e-5):
    """Outputs and their gradients."""
    actual = actual if isinstance(actual, tuple) else (actual,)
    expected = expected[: len(actual)]
    losses = []
    for outputs in (actual, expected):
        loss = 0.0
        for number, out in enumerate(outputs):
            out = out.double()
            out = torch.where(out == -math.inf, 0.0, out)
            loss = loss + (out * torch.randn(out.shape, generator=torch.Generator().manual_seed(number))).sum()
        losses.append(loss)
    grads = [torch.autograd.grad(loss, tensors) for loss, tensors in zip(losses, (inputs, wide))]
    for a, e in zip((*actual, *grads[0]), (*expected, *grads[1])):
        torch.testing.assert_close(a.double(), e.double(), rtol=rtol, atol=atol)


def widen(*tensors):
    return [tensor.detach().double().requires_grad_() for tensor in tensors]


CAUSAL = torch.ones(9, 9, dtype=torch.bool).tril()


@pytest.mark.parametrize("return_lse", [False, True])
def test_sinks(return_lse):
    inputs = (make(2, H, 9, D), make(2, 2, 9, D, seed=1), make(2, 2, 9, D, seed=2), make(H, seed=3))
    wide = widen(*inputs)
    out = sdpa(*inputs[:3], is_causal=True, enable_gqa=True, sinks=inputs[3], return_lse=return_lse)
    check(out, inputs, reference(*wide[:3], CAUSAL, sinks=wide[3]), wide)


def test_head_map():
    """Groups differ in size, one is empty, and their number does not divide the number of heads."""
    inputs = (make(2, H, 9, D), make(2, 3, 9, D, seed=1), make(2, 3, 9, D, seed=2))
    heads = torch.tensor([2, 0, 2, 2], dtype=torch.int32)
    wide = widen(*inputs)
    check(sdpa(*inputs, is_causal=True, head_map=heads), inputs, reference(*wide, CAUSAL, heads=heads.long()), wide)


def test_identity():
    inputs = (make(2, H, 9, D), make(2, H, 9, D, seed=1), make(2, H, 9, D, seed=2))
    identity = torch.tensor([0.0, 1.0, 0.25, 0.5], requires_grad=True)
    inputs = (*inputs, identity)
    wide = widen(*inputs)
    out = sdpa(*inputs[:3], masks.causal(), identity=identity)
    check(out, inputs, reference(*wide[:3], CAUSAL, identity=wide[3]), wide)


@pytest.mark.parametrize("keys", [9, 12])
def test_identity_with_sinks(keys):
    """A sink takes nothing from what the identity adds, which its gradient must leave out."""
    inputs = (make(2, H, 9, D), make(2, 2, keys, D, seed=1), make(2, 2, keys, D, seed=2), make(H, seed=3))
    inputs = (*inputs, torch.tensor([0.0, 1.0, 0.25, 0.5], requires_grad=True))
    wide = widen(*inputs)
    out = sdpa(*inputs[:3], masks.causal(), enable_gqa=True, sinks=inputs[3], identity=inputs[4])
    keep = torch.ones(9, keys, dtype=torch.bool).tril(keys - 9)
    check(out, inputs, reference(*wide[:3], keep, sinks=wide[3], identity=wide[4]), wide)


@pytest.mark.parametrize("shape", [(9, D), (3, 9, D), (2, 3, 2, 9, D)])
def test_lse_of_other_numbers_of_dimensions(shape):
    inputs = [make(*shape, seed=seed) for seed in range(3)]
    wide = widen(*inputs)
    scores = wide[0] @ wide[1].mT / math.sqrt(D)
    check(sdpa(*inputs, return_lse=True), inputs, (scores.softmax(-1) @ wide[2], scores.logsumexp(-1)), wide)


def test_padded_lengths():
    """Masks see the lengths; the rest of the tensors, here not finite, has no influence, and no gradient."""
    queries, keys = ([pair[side] for pair in LENGTHS] for side in (0, 1))
    inputs = (make(len(LENGTHS), H, 12, D), *(make(len(LENGTHS), H, 11, D, seed=seed) for seed in (1, 2)))
    with torch.no_grad():
        for tensor, lengths in zip(inputs, (queries, keys, keys)):
            for entry, length in enumerate(lengths):
                tensor[entry, :, length:] = math.nan
    lengths = [torch.tensor(each, dtype=torch.int32) for each in (queries, keys)]
    out, lse = sdpa(*inputs, masks.causal(), query_lengths=lengths[0], key_lengths=lengths[1], return_lse=True)
    grads = torch.autograd.grad(out.square().sum(), inputs)
    for entry, (query, key) in enumerate(LENGTHS):
        wide = widen(inputs[0][entry, :, :query], *(tensor[entry, :, :key] for tensor in inputs[1:]))
        keep = torch.ones(query, key, dtype=torch.bool).tril(key - query)
        exact, exact_lse = reference(*wide, keep)
        torch.testing.assert_close(out[entry, :, :query].double(), exact, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(lse[entry, :, :query].double(), exact_lse, rtol=1e-4, atol=1e-5)
        assert not out[entry, :, query:].any() and (lse[entry, :, query:] == -math.inf).all()
        expected = torch.autograd.grad(exact.square().sum(), wide)
        for actual, wanted, length in zip((grad[entry] for grad in grads), expected, (query, key, key)):
            torch.testing.assert_close(actual[:, :length].double(), wanted, rtol=1e-4, atol=2e-5)
            assert not actual[:, length:].any()


def test_one_of_two_lengths():
    inputs = [make(2, H, 9, D, seed=seed) for seed in range(3)]
    lengths = torch.tensor([9, 4], dtype=torch.int32)
    full = torch.full((2,), 9, dtype=torch.int32)
    assert torch.equal(sdpa(*inputs, key_lengths=lengths), sdpa(*inputs, query_lengths=full, key_lengths=lengths))


def make_packed(heads=H):
    queries, keys = (sum(pair[side] for pair in LENGTHS) for side in (0, 1))
    # A row at the end belongs to no sequence.
    inputs = (make(queries + 1, H, D), make(keys, heads, D, seed=1), make(keys, heads, D, seed=2))
    bounds = [torch.tensor([0, *(pair[side] for pair in LENGTHS)]).cumsum(0).int() for side in (0, 1)]
    return inputs, bounds


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (2, 0), (3, 1)])
@pytest.mark.parametrize("value_heads", [2, 1, H])
def test_packed_sequences(window, value_heads):
    inputs, bounds = make_packed(heads=2)
    inputs = (*inputs[:2], make(len(inputs[1]), value_heads, D, seed=5))
    wide = widen(*inputs)
    results = []
    for (q0, q1), (k0, k1) in zip(*(zip(each[:-1], each[1:]) for each in bounds)):
        distance = torch.arange(k1 - k0) - (torch.arange(q1 - q0)[:, None] + (k1 - k0) - (q1 - q0))
        keep = torch.ones_like(distance, dtype=torch.bool)
        keep = keep & (distance >= -window[0]) if window[0] >= 0 else keep
        keep = keep & (distance <= window[1]) if window[1] >= 0 else keep
        parts = (wide[0][q0:q1], wide[1][k0:k1], wide[2][k0:k1])
        results.append(reference(*(part.transpose(0, 1) for part in parts), keep))
    none = wide[0].new_zeros(H, 1, D), wide[0].new_full((H, 1), -math.inf)
    exact, exact_lse = (torch.cat(each, 1) for each in zip(*results, none))
    out = varlen_attn(*inputs, *bounds, 11, 11, window_size=window, enable_gqa=True, return_lse=True)
    check(out, inputs, (exact.transpose(0, 1), exact_lse), wide)


def test_arguments_of_torch():
    """All arguments of torch's function, by their names; the ones that kernels have not are refused."""
    varlen = pytest.importorskip("torch.nn.attention.varlen")
    theirs, ours = (inspect.signature(function).parameters for function in (varlen.varlen_attn, varlen_attn))
    assert list(theirs)[:7] == list(ours)[:7] and not set(theirs) - set(ours)
    inputs, bounds = make_packed()
    expected = varlen_attn(*inputs, *bounds, return_lse=True)
    for actual, wanted in zip(varlen_attn(*inputs, *bounds, return_aux=varlen.AuxRequest(lse=True)), expected):
        assert torch.equal(actual, wanted)
    assert torch.equal(varlen_attn(*inputs, *bounds, return_aux=varlen.AuxRequest()), expected[0])
    lengths = bounds[1][1:] - bounds[1][:-1]
    for options, message in (
        ({"seqused_k": lengths}, "seqused_k is for KV caches; call attn.torch.flash_attn_with_kvcache"),
        ({"block_table": lengths[:, None]}, "block_table is for KV caches"),
        ({"num_splits": 1}, "num_splits is 1; leave it out"),
    ):
        with pytest.raises(attn.UnsupportedError, match=message):
            varlen_attn(*inputs, *bounds, **options)


def test_options_of_packed_sequences():
    inputs, bounds = make_packed()
    out = varlen_attn(*inputs, *bounds, block_mask=masks.causal())
    assert torch.equal(varlen_attn(*inputs, *bounds, window_size=(-1, 0)), out)
    sinks = make(H, seed=5)
    assert not torch.allclose(varlen_attn(*inputs, *bounds, block_mask=masks.causal(), sinks=sinks), out, atol=1e-2)
    compiled = torch.compile(
        lambda q, k, v, cu_q, cu_k: varlen_attn(q * 1, k, v, cu_q, cu_k, window_size=(-1, 0)),
        backend="aot_eager",
        fullgraph=True,
    )
    torch.testing.assert_close(compiled(*inputs, *bounds), out)
    assert not varlen_attn(*inputs, *bounds, dropout_p=1.0).any()


def test_nested_tensors():
    """Queries and keys of other lengths, and gradients that are nested, too."""
    query = torch.nested.nested_tensor([make(n, H, D, seed=n) for n, _ in LENGTHS], layout=torch.jagged)
    key, value = (
        torch.nested.nested_tensor([make(n, H, D, seed=s + n) for _, n in LENGTHS], layout=torch.jagged)
        for s in (20, 40)
    )
    value = torch.nested.nested_tensor_from_jagged(value.values(), key.offsets())
    leaves = [tensor.detach().requires_grad_() for tensor in (query, key, value)]
    out = sdpa(*(tensor.transpose(1, 2) for tensor in leaves), is_causal=True)
    assert out.shape == leaves[0].transpose(1, 2).shape
    grads = torch.autograd.grad(out.values().square().sum(), leaves)
    for entry, (queries, keys) in enumerate(LENGTHS):
        wide = widen(*(tensor.detach().unbind()[entry].transpose(0, 1) for tensor in leaves))
        exact, _ = reference(*wide, torch.ones(queries, keys, dtype=torch.bool).tril())
        actual = out.transpose(1, 2).unbind()[entry].double().transpose(0, 1)
        torch.testing.assert_close(actual, exact, rtol=1e-4, atol=1e-5)
        for actual, wanted in zip(grads, torch.autograd.grad(exact.square().sum(), wide)):
            actual = actual.unbind()[entry].double().transpose(0, 1)
            torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=2e-5)


def test_functions_go_with_all_of_them():
    """Tensors that the mask reads, sinks, heads and captured tensors stand behind one another."""
    inputs = (make(2, H, 9, D), make(2, 3, 9, D, seed=1), make(2, 3, 9, D, seed=2), make(H, seed=3), make(H, seed=4))
    heads = torch.tensor([2, 0, 2, 2], dtype=torch.int32)
    ids = torch.tensor([[0] * 4 + [1] * 5, [0] * 7 + [1] * 2], dtype=torch.int32)
    wide = widen(*inputs)
    q, k, v, sinks, slopes = inputs
    options = {"block_mask": masks.documents(ids), "sinks": sinks, "head_map": heads, "return_lse": True}
    out = flex_attention(q, k, v, lambda s, b, h, i, j: s * slopes[h], **options)
    same = ids[:, None, :, None] == ids[:, None, None, :]
    scaled = wide[0] * wide[4][:, None, None]
    check(out, inputs, reference(scaled, *wide[1:3], same, sinks=wide[3], heads=heads.long()), wide)
    lengths = torch.tensor([9, 4], dtype=torch.int32)
    bias = lambda s, b, h, i, j: s + slopes[h]  # noqa: E731
    q, k, v = (x[:, :3].detach() for x in inputs[:3])
    torch.testing.assert_close(flex_attention(q, k, v, bias, key_lengths=lengths), sdpa(q, k, v, key_lengths=lengths))
    plan = create_block_mask(q, k, v, block_mask=masks.documents(ids))
    with pytest.raises(
        attn.AttnError, match="precomputed_block_mask was made without sinks, head_map, identity and lengths"
    ):
        flex_attention(q, k, v, block_mask=masks.documents(ids), precomputed_block_mask=plan, sinks=torch.zeros(3))


def test_deterministic_calls(monkeypatch):
    passes = []
    compile_text = kernels.compile
    monkeypatch.setattr(kernels, "compile", lambda *a, **k: passes.append(k.get("passes")) or compile_text(*a, **k))
    compile_later = kernels.compile_in_background
    monkeypatch.setattr(
        kernels, "compile_in_background", lambda *a, **k: passes.append(k.get("passes")) or compile_later(*a, **k)
    )
    kernels.find_functions.cache_clear()
    kernels.find_backward.cache_clear()
    kernels._forget_plans()
    inputs = [make(1, H, 70, D, seed=seed) for seed in range(3)]
    expected = torch.autograd.grad(sdpa(*inputs).square().sum(), inputs)
    assert "deterministic" not in passes[-1]
    for _ in range(2):
        actual = torch.autograd.grad(sdpa(*inputs, deterministic=True).square().sum(), inputs)
        assert "deterministic" in passes[-1]
        in_flex = torch.autograd.grad(flex_attention(*inputs, deterministic=True).square().sum(), inputs)
        assert all(torch.equal(each, other) for each, other in zip(actual, in_flex))
        for each, wanted in zip(actual, expected):
            torch.testing.assert_close(each, wanted)


X = make(2, H, 9, D).detach()
P = make(9, H, D).detach()
INTS = torch.zeros(2, dtype=torch.int32)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: sdpa(X, X, X, sinks=torch.zeros(3)), r"sinks has the shape \(3,\), expected \(4,\)"),
        (lambda: sdpa(X, X, X, sinks=torch.zeros(4).int()), "sinks has the dtype torch.int32, expected one of bf16"),
        (lambda: sdpa(X, X, X, sinks=[0.0] * 4), "sinks is a list; pass a tensor with an element for each query head"),
        (lambda: sdpa(X, X, X, head_map=torch.zeros(4)), "head_map has the dtype torch.float32, expected torch.int32"),
        (lambda: sdpa(X, X, X, identity=torch.zeros(4, 1)), r"identity has the shape \(4, 1\), expected \(4,\)"),
        (lambda: sdpa(X, X, X, key_lengths=INTS.long()), "lengths has the dtype torch.int64, expected torch.int32"),
        (lambda: sdpa(X, X, X, key_lengths=INTS[:1]), r"lengths has the shape \(1,\), expected \(2,\)"),
        (lambda: sdpa(X, X, X, query_lengths=3), "query_lengths is a int; pass a tensor with an element for each"),
        (lambda: sdpa(X, X, X, query_lengths=INTS + 10), "not within its tensors"),
        (lambda: sdpa(X, X, X, key_lengths=INTS + 10), "a number of keys that is negative or more than its cache has"),
        (lambda: varlen_attn(X, P, P, INTS), "query has 4 dimensions, expected 3: positions, heads and head dim"),
        (lambda: varlen_attn(P, P[:, :2], P[:, :2], INTS), "pass enable_gqa=True if query heads share keys"),
        (lambda: varlen_attn(P, P, P, INTS, window_size=(-2, 0)), "window_size has -2 on the left, expected a number"),
        (lambda: varlen_attn(P, P, P, INTS, INTS[:1]), r"have the shapes \(2,\) and \(1,\); make them equal"),
        (lambda: varlen_attn(P, P, P, 3), "cu_seq_q is a int; pass a tensor"),
        (lambda: varlen_attn(P, P, P, INTS, block_mask=P), "block_mask is a Tensor; pass one of attn.masks"),
        (lambda: varlen_attn(P, P, P, INTS, block_mask=masks.documents(INTS[None])), "which masks of packed sequences"),
        (lambda: sdpa(*[JAGGED] * 3, torch.ones(9, 9)), "attn_mask is a tensor, which has no meaning for sequences"),
        (lambda: sdpa(*[JAGGED] * 3, return_lse=True), "nested tensors go with neither lengths, pages, positions, scales, out_dtype nor"),
        (lambda: sdpa(JAGGED, X, X), "key is not a jagged nested tensor, as query is"),
        (lambda: sdpa(*[JAGGED.transpose(1, 2)] * 3), "make it one as in nested.transpose"),
        (lambda: attn.Attention("f32", 2, 2, 16, sequences="ragged"), "sequences is 'ragged'; it must be 'packed', "),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(attn.AttnError, match=message):
        call()


JAGGED = torch.nested.nested_tensor([P, P[:4]], layout=torch.jagged).transpose(1, 2)
