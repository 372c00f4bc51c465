# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``sdpa`` with ``state`` on the CPU: attention that goes on from a partial result, against attention to all keys."""

import math

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn import masks  # noqa: E402
from attn.torch import merge, sdpa  # noqa: E402

B, H, SQ, D, DV = 2, 4, 21, 16, 24
TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def make(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def make_parts(dtype, sizes, heads=H):
    """Queries, and keys and values of some parts."""
    query = make(B, H, SQ, D, dtype=dtype)
    parts = [
        (make(B, heads, n, D, seed=2 * i + 1, dtype=dtype), make(B, heads, n, DV, seed=2 * i + 2, dtype=dtype))
        for i, n in enumerate(sizes)
    ]
    return query, parts


def attend(query, key, value):
    """Attention to all keys by torch alone."""
    group = query.shape[1] // key.shape[1]
    key, value = (tensor.repeat_interleave(group, 1) for tensor in (key, value))
    scores = query @ key.mT / math.sqrt(D)
    lse = scores.logsumexp(-1) if key.shape[2] else scores.sum(-1) - math.inf
    finite = lse.masked_fill(lse == -math.inf, 0.0)
    return (scores - finite[..., None]).exp() @ value, lse


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("sizes", [(7, 30), (1, 65), (0, 9), (9, 0), (0, 0), (5, 6, 7)])
def test_parts_one_after_another(dtype, sizes):
    """A loop over parts of the keys gives what attention to all of them does, also where parts have no keys."""
    query, parts = make_parts(dtype, sizes, heads=2)
    out, lse = sdpa(query, *parts[0], enable_gqa=True, return_lse=True)
    for part in parts[1:]:
        out, lse = sdpa(query, *part, enable_gqa=True, state=(out, lse), return_lse=True)
    exact = attend(*(tensor.double() for tensor in (query, *(torch.cat(side, 2) for side in zip(*parts)))))
    for found, expected in zip((out, lse), exact):
        torch.testing.assert_close(found.double(), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("queries", [1, SQ])
def test_agrees_with_merge(dtype, queries):
    """With an output of f32 for other keys, sinks and a mask that leaves rows empty."""
    query, ((key, value),) = make_parts(dtype, (9,))
    query = query[:, :, :queries]
    state = make(B, H, queries, DV, seed=8, dtype=torch.float32), 3 * make(B, H, queries, seed=9).float()
    state[1][0] = -math.inf
    options = dict(sinks=make(H, seed=7, dtype=torch.float32), attn_mask=masks.sliding_window(left=2, right=0))
    found = sdpa(query, key, value, state=state, return_lse=True, **options)
    out, lse = sdpa(query, key, value, return_lse=True, **options)
    state[0][0] = 0
    for actual, expected in zip(found, merge(*state, out.float(), lse)):
        torch.testing.assert_close(actual.float(), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_empty_state():
    """No bit differs from attention without a state, whatever the output of the state is."""
    query, ((key, value),) = make_parts(torch.float32, (33,))
    state = torch.full((B, H, SQ, DV), math.nan), torch.full((B, H, SQ), -math.inf)
    found = sdpa(query, key, value, is_causal=True, state=state, return_lse=True)
    for actual, expected in zip(found, sdpa(query, key, value, is_causal=True, return_lse=True)):
        assert torch.equal(actual, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("sizes", [(7, 9), (0, 6), (6, 0), (0, 0)])
@pytest.mark.parametrize("wanted", ["out", "lse", "both"])
def test_gradients(dtype, sizes, wanted):
    """Those of both parts of the keys, against autograd of attention to all keys in f64."""
    query, parts = make_parts(dtype, sizes, heads=2)
    given = [tensor.requires_grad_() for tensor in (query, *parts[0], *parts[1])]
    exact = [tensor.detach().double().requires_grad_() for tensor in given]
    state = sdpa(*given[:3], enable_gqa=True, return_lse=True)
    found = sdpa(given[0], *given[3:], enable_gqa=True, state=state, return_lse=True)
    expected = attend(exact[0], torch.cat(exact[1::2], 2), torch.cat(exact[2::2], 2))
    dout, dlse = make(B, H, SQ, DV, seed=90), make(B, H, SQ, seed=91)
    gradients = {"out": (0, dout), "lse": (1, dlse)}
    # In f64 the log-sum-exp of no keys at all is a constant.
    names = [name for name in ("out", "lse") if wanted in (name, "both") and found[gradients[name][0]].requires_grad]
    assert names or (dtype, sum(sizes)) == (torch.float64, 0)
    if not names:
        return
    torch.autograd.backward(
        [found[gradients[name][0]] for name in names],
        [gradients[name][1].to(found[gradients[name][0]].dtype) for name in names],
    )
    torch.autograd.backward([expected[gradients[name][0]] for name in names], [gradients[name][1] for name in names])
    tolerance = {torch.float32: 2e-5, torch.bfloat16: 5e-2, torch.float64: 1e-10}[dtype]
    for left, right in zip(given, exact):
        reference = torch.zeros_like(right) if right.grad is None else right.grad.nan_to_num()
        gradient = torch.zeros_like(left) if left.grad is None else left.grad
        scale = max(1.0, float(reference.abs().max())) if reference.numel() else 1.0
        torch.testing.assert_close(gradient.double(), reference, rtol=tolerance, atol=tolerance * scale)


def test_gradients_of_the_state_alone():
    query, ((key, value),) = make_parts(torch.float64, (5,))
    state = make(B, H, SQ, DV, seed=8).requires_grad_(), make(B, H, SQ, seed=9).requires_grad_()
    with torch.no_grad():
        state[1][0, 0] = -math.inf
    results = sdpa(query, key, value, state=state, return_lse=True)
    exact = torch.autograd.grad([result.square().sum() for result in results], state)
    single = [tensor.float() for tensor in (query, key, value)]
    narrow = [tensor.detach().float().requires_grad_() for tensor in state]
    results = sdpa(*single, state=tuple(narrow), return_lse=True)
    found = torch.autograd.grad([result.square().sum() for result in results], narrow)
    for actual, expected in zip(found, exact):
        torch.testing.assert_close(actual.double(), expected, rtol=1e-5, atol=2e-5)
        assert not expected[0, 0].any()


def test_gradients_of_rows_of_no_sequence():
    """Rows beyond the last query have no gradients, whatever the gradients of their outputs are."""
    query, parts = make_parts(torch.float32, (7, 9))
    state = [tensor.detach().requires_grad_() for tensor in sdpa(query, *parts[0], return_lse=True)]
    lengths = torch.tensor([SQ, 5], dtype=torch.int32)
    out = sdpa(query, *parts[1], query_lengths=lengths, state=tuple(state))
    dout = torch.ones_like(out)
    dout[1, :, 5:] = math.nan
    dstate_out, dstate_lse = torch.autograd.grad(out, state, dout)
    for gradient in (dstate_out, dstate_lse):
        assert bool(gradient.isfinite().all())
        assert not bool(gradient[1, :, 5:].any())
        assert bool(gradient[1, :, :5].any())


def test_gradcheck():
    query, key, value = make(1, 2, 3, 4), make(1, 1, 5, 4, seed=1), make(1, 1, 5, 4, seed=2)
    state = make(1, 2, 3, 4, seed=3), make(1, 2, 3, seed=4)
    inputs = [tensor.requires_grad_() for tensor in (query, key, value, *state)]
    assert torch.autograd.gradcheck(
        lambda q, k, v, so, sl: sdpa(q, k, v, enable_gqa=True, state=(so, sl), return_lse=True), inputs
    )


def test_dropout_is_of_the_keys_of_the_call():
    query, ((key, value),) = make_parts(torch.float32, (64,))
    state = torch.ones(B, H, SQ, DV), torch.full((B, H, SQ), 1e3)
    torch.testing.assert_close(sdpa(query, key, value, dropout_p=0.5, state=state), state[0])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile(backend):
    query, ((key, value),) = make_parts(torch.float32, (9,))
    state = make(B, H, SQ, DV, seed=8, dtype=torch.float32), make(B, H, SQ, seed=9, dtype=torch.float32)
    function = torch.compile(lambda *x: sdpa(*x[:3], state=x[3:], return_lse=True), fullgraph=True, backend=backend)
    for actual, expected in zip(
        function(query, key, value, *state), sdpa(query, key, value, state=state, return_lse=True)
    ):
        torch.testing.assert_close(actual, expected)


def test_vmap():
    query, ((key, value),) = make_parts(torch.float32, (9,))
    state = make(B, H, SQ, DV, seed=8, dtype=torch.float32), make(B, H, SQ, seed=9, dtype=torch.float32)
    call = lambda q: sdpa(q, key, value, state=state)  # noqa: E731
    queries = torch.stack([query, 2 * query])
    torch.testing.assert_close(torch.func.vmap(call)(queries), torch.stack([call(q) for q in queries]))


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda o, x: o, "state is a Tensor; pass a tuple of two tensors, out and lse"),
        (lambda o, x: (o, x[0]), r"lse of state has the shape \(4, 21\), expected \(2, 4, 21\)"),
        (lambda o, x: (o[..., :8], x), r"out of state has the shape \(2, 4, 21, 8\), expected \(2, 4, 21, 24\)"),
        (lambda o, x: (o.double(), x), "out of state has the dtype torch.float64, expected torch.float32 or"),
        (lambda o, x: (o, x.half()), "lse of state has the dtype torch.float16, expected torch.float32"),
    ],
)
def test_bad_states(change, message):
    query, ((key, value),) = make_parts(torch.float32, (9,))
    with pytest.raises(attn.AttnError, match=message):
        sdpa(query, key, value, state=change(torch.zeros(B, H, SQ, DV), torch.zeros(B, H, SQ)))


@pytest.mark.parametrize(
    "options, message",
    [({"identity": torch.ones(H)}, "identity and state do not go together"), ({"dropout_p": 1.0}, "dropout_p is 1")],
)
def test_other_arguments(options, message):
    query, ((key, value),) = make_parts(torch.float32, (9,))
    with pytest.raises(attn.UnsupportedError, match=message):
        sdpa(query, key, value, state=(torch.zeros(B, H, SQ, DV), torch.zeros(B, H, SQ)), **options)


def test_other_tensors_are_refused():
    query, ((key, value),) = make_parts(torch.float32, (9,))
    state = torch.zeros(H, SQ, DV), torch.zeros(H, SQ)
    with pytest.raises(attn.UnsupportedError, match="query has 3 dimensions, and tensors need 4 dimensions with state"):
        sdpa(query[0], key[0], value[0], state=state)
    narrow = [tensor.to(torch.float8_e4m3fn) for tensor in (query, key, value)]
    state = torch.zeros(B, H, SQ, DV), torch.zeros(B, H, SQ)
    with pytest.raises(attn.UnsupportedError, match="v_descale and state do not go together"):
        sdpa(*narrow, state=state, v_descale=torch.ones(()))
