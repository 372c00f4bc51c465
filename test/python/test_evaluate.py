# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Double precision on the host, and checks of reads of captured tensors."""

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
import attn.torch  # noqa: E402
from attn import masks  # noqa: E402
from attn.torch import evaluate, flex_attention, kernels, sdpa, sdpa_packed, varlen_attn  # noqa: E402
from test_flex import MASKS, SCORES  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

B, H, S, D = 2, 4, 24, 16
IDS = torch.tensor([[0] * 7 + [1] * 11 + [2] * 6, [0] * 20 + [1] * 4], dtype=torch.int32)
BOUNDS = torch.tensor([[0, 7, 18, 24], [2, 9, 9, 20]], dtype=torch.int32)


def make(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype).requires_grad_()


def make_inputs(queries=S, key_heads=H):
    return [make(B, heads, length, D, seed=seed) for seed, (heads, length) in enumerate(
        ((H, queries), (key_heads, S), (key_heads, S))
    )]  # fmt: skip


def agree(call, inputs):
    """Results and gradients of both agree with kernels in single precision."""
    narrow = [tensor.detach().float().requires_grad_() for tensor in inputs]
    results = []
    for tensors in (inputs, narrow):
        out, lse = call(*tensors)
        assert out.dtype == tensors[0].dtype
        loss = out.square().sum() + torch.where(lse.isinf(), 0.0, lse).sum()
        results.append((out, lse, *torch.autograd.grad(loss, tensors)))
    for wide, actual in zip(*results):
        torch.testing.assert_close(wide.float(), actual, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", [*SCORES, *MASKS])
def test_functions(name):
    score_mod, mask_mod = SCORES.get(name), MASKS.get(name)
    agree(lambda *tensors: flex_attention(*tensors, score_mod, mask_mod, return_lse=True), make_inputs())


NAMED = {
    "causal": masks.causal(),
    "causal, top left": masks.causal("top_left"),
    "window": masks.sliding_window(left=5, right=2),
    "left": masks.sliding_window(left=5),
    "dilated": masks.dilated_window(left=8, right=4, dilation=2),
    "prefix": masks.prefix_lm(6),
    "blocks": masks.local_blocks(5, before=1, after=0),
    "chunked": masks.chunked(7),
    "global": masks.global_tokens(3) | ~masks.causal(),
    "documents": masks.documents(IDS) & masks.causal(),
    "one batch entry": masks.documents(IDS[:1]),
    "packed documents": masks.packed_documents(BOUNDS),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_masks(name):
    queries = S if "document" in name or "batch" in name else 20
    agree(lambda *tensors: sdpa(*tensors, NAMED[name], return_lse=True), make_inputs(queries))


def test_options():
    """All that sdpa has and a kernel of one call does, the last two of which are float tensors."""
    sinks, bias = make(H, seed=4), make(S, S, seed=5)
    agree(
        lambda q, k, v, s, b: sdpa(q, k, v, b, is_causal=True, soft_cap=3.0, enable_gqa=True, sinks=s, return_lse=True),
        [*make_inputs(key_heads=2), sinks, bias],
    )
    heads = torch.tensor([2, 0, 2, 2], dtype=torch.int32)
    agree(lambda *tensors: sdpa(*tensors, head_map=heads, return_lse=True), make_inputs(key_heads=3))
    weights = torch.tensor([0.0, 0.5, 0.25, 1.0])
    inputs = [tensor.detach() for tensor in make_inputs(20)]
    out = sdpa(*inputs, masks.causal(), identity=weights)
    torch.testing.assert_close(out.float(), sdpa(*(x.float() for x in inputs), masks.causal(), identity=weights))


def test_torch_agrees():
    inputs = make_inputs()
    for options in ({}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": make(S, S, seed=5)}):
        torch.testing.assert_close(sdpa(*inputs, **options), scaled_dot_product_attention(*inputs, **options))
    qkv = make(B, S, 3, H, D)
    parts = [part.transpose(1, 2) for part in qkv.unbind(2)]
    expected = scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2)
    torch.testing.assert_close(sdpa_packed(qkv, is_causal=True), expected)


def test_gradcheck():
    """Also where rows have nothing to attend, and twice."""
    inputs = [make(1, 2, 5, 3, seed=seed) for seed in range(3)]
    slopes = make(2, seed=4)

    def alibi(q, k, v, slopes):
        return flex_attention(
            q, k, v, lambda s, b, h, i, j: s + slopes[h] * (j - i), lambda b, h, i, j: (i >= j) & (i > 1)
        )

    assert torch.autograd.gradcheck(alibi, (*inputs, slopes))
    assert torch.autograd.gradcheck(lambda *tensors: sdpa(*tensors, masks.causal(), return_lse=True), inputs)
    assert torch.autograd.gradgradcheck(lambda *tensors: sdpa(*tensors, is_causal=True), inputs)


def with_lse(function, *tensors, **options):
    """Output and log-sum-exp, of which kernels have no gradient together with an identity."""
    if "identity" in options:
        return function(*tensors, **options), torch.zeros(())
    return function(*tensors, **options, return_lse=True)


LENGTHS = dict(
    query_lengths=torch.tensor([20, 11], dtype=torch.int32), key_lengths=torch.tensor([24, 7], dtype=torch.int32)
)


@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(is_causal=True),
        dict(attn_mask=masks.causal()),
        dict(attn_mask=masks.sliding_window(left=5, right=2), sinks=torch.randn(H)),
        dict(identity=torch.rand(H), attn_mask=masks.causal()),
        dict(query_lengths=torch.tensor([0, 24], dtype=torch.int32), key_lengths=torch.tensor([9, 0], dtype=torch.int32)),
        dict(dropout_p=0.25, identity=torch.rand(H)),
        dict(dropout_p=0.003, soft_cap=2.0),
    ],
    ids=" ".join,
)
def test_padded_sequences_and_dropout(options):
    def call(*tensors):
        torch.manual_seed(3)
        return with_lse(sdpa, *tensors, **{**LENGTHS, **options})

    agree(call, make_inputs())
    lengths = LENGTHS["query_lengths"] if "query_lengths" not in options else options["query_lengths"]
    for entry, length in zip(call(*make_inputs())[0], lengths):
        assert not entry[:, length:].any()


def test_dropout_without_lengths():
    def call(*tensors):
        torch.manual_seed(-5)
        return flex_attention(
            *tensors, lambda s, b, h, i, j: s * (1 + h), dropout_p=0.5, return_lse=True, enable_gqa=True
        )

    agree(call, make_inputs(queries=40, key_heads=2))


@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(block_mask=masks.causal("top_left"), dropout_p=0.25),
        dict(window_size=(3, 0), sinks=torch.randn(H)),
        dict(cu_seq_k=torch.tensor([0, 3, 3, 20], dtype=torch.int32), identity=torch.rand(H)),
    ],
    ids=" ".join,
)
def test_packed_sequences(options):
    starts = torch.tensor([2, 9, 15, 24], dtype=torch.int32)

    def call(*tensors):
        torch.manual_seed(3)
        return with_lse(varlen_attn, *tensors, starts, **options)

    agree(call, [make(26, H, D, seed=seed) for seed in range(3)])


def test_gradcheck_of_sequences_and_dropout():
    inputs = [make(2, 2, 5, 3, seed=seed) for seed in range(3)]
    lengths = torch.tensor([5, 3], dtype=torch.int32)

    def padded(*tensors):
        torch.manual_seed(7)
        return sdpa(*tensors, masks.causal(), query_lengths=lengths, key_lengths=lengths, dropout_p=0.5)

    assert torch.autograd.gradcheck(padded, inputs)
    packed = [make(6, 2, 3, seed=seed) for seed in range(3)]
    starts = torch.tensor([0, 2, 6], dtype=torch.int32)
    assert torch.autograd.gradcheck(lambda *tensors: varlen_attn(*tensors, starts, return_lse=True), packed)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: sdpa(x, x, x, dropout_p=1e-9), "dropout_p is 1e-09, which random numbers of 16 bits do not meet"),
        (lambda x: sdpa(x, x, x, key_lengths=torch.ones(2)), "lengths has the dtype torch.float32, expected torch.int"),
        (lambda x: sdpa(x, x, x, masks.tree(IDS - 1)), "#attn.tree has no form by operations of torch"),
        (lambda x: sdpa(x, x.float(), x), "key has the dtype torch.float32 and query torch.float64"),
    ],
)
def test_what_double_precision_has_not(call, message):
    with pytest.raises(attn.AttnError, match=message):
        call(make_inputs()[0])


def test_scores_and_probabilities():
    query, key, value = (tensor.detach().float() for tensor in make_inputs(key_heads=2))
    sinks = make(H, seed=4).detach().float()
    options = {"score_mod": SCORES["alibi"], "block_mask": masks.causal(), "enable_gqa": True, "sinks": sinks}
    pairs = attn.torch.debug_pairs(query, key, **options)
    assert (pairs.scores == -float("inf")).equal(~torch.ones(B, H, S, S, dtype=torch.bool).tril())
    out = pairs.probabilities @ value.double().repeat_interleave(2, 1)
    actual, lse = flex_attention(query, key, value, **options, return_lse=True)
    torch.testing.assert_close(actual.double(), out, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close((pairs.scores - lse[..., None]).exp(), pairs.probabilities, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dims", [2, 3, 4, 5])
def test_scores_and_probabilities_of_sdpa(dims):
    query, key, value = (tensor.detach().float() for tensor in make_inputs())
    bias = make(S, S, seed=5).detach().bfloat16()
    if dims == 5:
        query, key, value = (tensor[None] for tensor in (query, key, value))
    elif dims < 4:
        query, key, value = (tensor[(0,) * (4 - dims)] for tensor in (query, key, value))
    pairs = attn.torch.debug_sdpa(query, key, bias, is_causal=True, soft_cap=3.0, scale=0.5)
    scores = 3 * (query.double() @ key.double().mT / 6).tanh() + bias.double()
    scores = scores.masked_fill(~torch.ones(S, S, dtype=torch.bool).tril(), -float("inf"))
    torch.testing.assert_close(pairs.scores, scores, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(pairs.probabilities, scores.softmax(-1), rtol=1e-6, atol=1e-6)
    assert evaluate._records == []


def test_probabilities_have_gradients_and_options():
    query, key = make_inputs()[:2]
    sinks = make(H, seed=4)
    pairs = attn.torch.debug_sdpa(query, key, masks.causal(), sinks=sinks)
    scores = torch.cat((pairs.scores, sinks[:, None, None].expand(B, H, S, 1)), -1)
    torch.testing.assert_close(pairs.probabilities, scores.softmax(-1)[..., :-1])
    made = torch.autograd.grad(pairs.probabilities.square().sum(), (query, key, sinks))
    assert all(gradient.abs().sum() > 0 for gradient in made)
    with pytest.raises(attn.AttnError, match="key is a list; pass a tensor"):
        attn.torch.debug_sdpa(query, [])


def attend_in_parts(query, key, value, split=4):
    """Attention to two parts of the keys, combined by the log-sum-exp of each."""
    parts = [slice(None, split), slice(split, None)]
    calls = [sdpa(query, key[:, :, part], value[:, :, part], return_lse=True) for part in parts]
    lse = torch.logaddexp(calls[0][1], calls[1][1])
    return sum(out * (each - lse).exp()[..., None] for out, each in calls), lse


def test_log_sum_exps_combine_parts():
    inputs = [make(1, 2, 6, 4, seed=seed) for seed in range(3)]
    assert torch.autograd.gradcheck(attend_in_parts, inputs)
    narrow = [tensor.detach().float().requires_grad_() for tensor in inputs]
    results = []
    for call, tensors in ((attend_in_parts, narrow), (lambda *x: sdpa(*x, return_lse=True), inputs)):
        out, lse = call(*tensors)
        results.append((out, lse, *torch.autograd.grad(out.square().sum() + lse.sin().sum(), tensors)))
    for actual, expected in zip(*results):
        torch.testing.assert_close(actual.double(), expected, rtol=1e-4, atol=1e-5)


def test_forward_mode():
    """It works by operations of torch, and is refused by kernels, rather than without tangents."""
    inputs = [make(1, 2, 5, 3, seed=seed) for seed in range(3)]
    assert torch.autograd.gradcheck(
        lambda *tensors: sdpa(*tensors, is_causal=True), inputs, check_forward_ad=True, check_backward_ad=False
    )
    tangents = [make(1, 2, 5, 3, seed=3 + seed).detach() for seed in range(3)]
    masked = ~torch.ones(5, 5, dtype=torch.bool).tril()

    def plain(query, key, value):
        return (query @ key.mT / 3**0.5).masked_fill(masked, -float("inf")).softmax(-1) @ value

    _, expected = torch.func.jvp(plain, tuple(inputs), tuple(tangents))
    for call in (
        lambda *x: sdpa(*x, is_causal=True), lambda *x: flex_attention(*x, None, lambda b, h, i, j: i >= j)
    ):  # fmt: skip
        torch.testing.assert_close(torch.func.jvp(call, tuple(inputs), tuple(tangents))[1], expected)
    torch.testing.assert_close(torch.func.hessian(lambda x: sdpa(x, *inputs[1:], is_causal=True).sum())(inputs[0]),
                               torch.func.hessian(lambda x: plain(x, *inputs[1:]).sum())(inputs[0]))
    forward_ad = torch.autograd.forward_ad
    x = inputs[0].detach().float()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x)
        for call in (lambda: sdpa(x, dual, x), lambda: flex_attention(dual, x, x)):
            with pytest.raises(attn.UnsupportedError, match="no forward-mode derivatives .* has a tangent"):
                call()


@pytest.fixture
def check_reads(monkeypatch):
    def set_value(value):
        monkeypatch.setenv("ATTN_CHECK_READS", value)
        evaluate.checks_reads.cache_clear()
        # A process reads the variable once: calls that are known do not look at it again.
        kernels.recent_plans.clear()

    yield set_value
    monkeypatch.undo()
    evaluate.checks_reads.cache_clear()


def test_reads_are_checked_wherever_tensors_have_contents(check_reads):
    check_reads("1")
    x, table = make_inputs()[0].detach().float(), torch.zeros(S - 3)

    def attend(query):
        return flex_attention(query, query, query, lambda s, b, h, i, j: s + table[j])

    message = f"score_mod reads index {S - 3} of dimension 0 of captured tensor 0, .* query 0 and key {S - 3}"
    compiled = torch.compile(attend, backend="aot_eager", fullgraph=True)
    for call in (
        lambda: attend(x.double()), lambda: compiled(x), lambda: torch.vmap(attend)(x[None]),
        lambda: torch.func.grad(lambda query: attend(query).sum())(x),
    ):  # fmt: skip
        with pytest.raises(attn.AttnError, match=message):
            call()


def test_lengths_limit_the_reads_that_are_checked(check_reads):
    check_reads("1")
    x, table = make_inputs()[0].detach().float(), torch.zeros(S - 3)
    lengths = torch.full((B,), S - 3, dtype=torch.int32)
    for function in (
        {"score_mod": lambda s, b, h, i, j: s + table[j]}, {"block_mask": lambda b, h, i, j: table[j] == 0}
    ):  # fmt: skip
        flex_attention(x, x, x, **function, key_lengths=lengths)
        with pytest.raises(attn.AttnError, match=f"reads index {S - 3} .* at batch 1, .* and key {S - 3}"):
            flex_attention(x, x, x, **function, key_lengths=lengths + torch.arange(B, dtype=torch.int32))


@pytest.mark.parametrize(
    "mask, message",
    [
        (masks.documents(torch.zeros(1, S - 1, dtype=torch.int32)), "queries of the mask documents have the shape "),
        (masks.documents(torch.zeros(1, S, dtype=torch.int32), torch.zeros(1, S + 1, dtype=torch.int32)), "keys of "),
        (masks.packed_documents(torch.zeros(B + 1, 3, dtype=torch.int32)), "queries of the mask packed_documents "),
    ],
)
def test_documents_of_other_sizes(mask, message, check_reads):
    x = make_inputs()[0].detach()
    with pytest.raises(attn.AttnError, match=message):
        sdpa(x, x, x, masks.causal() & mask)
    check_reads("1")
    with pytest.raises(attn.AttnError, match=message):
        sdpa(x.float(), x.float(), x.float(), masks.causal() & mask)


def test_reads_are_checked(check_reads, monkeypatch):
    x = make_inputs()[0].detach().float()
    table, flags = torch.zeros(H, 30), torch.ones(S - 1, dtype=torch.bool)

    def score_mod(s, b, h, i, j):
        return s + table[h, i - j]

    # Without checks the nearest element is read.
    flex_attention(x, x, x, score_mod)
    check_reads("1")
    monkeypatch.setattr(evaluate, "_PAIRS_AT_ONCE", 4 * B * H * S)
    with pytest.raises(
        attn.AttnError,
        match="score_mod reads index -1 of dimension 1 of captured tensor 0, of size 30, at batch 0, head 0, "
        "query 0 and key 1",
    ):
        flex_attention(x, x, x, score_mod)
    # Reads at masked pairs are not checked.
    flex_attention(x, x, x, score_mod, lambda b, h, i, j: i >= j)
    flex_attention(x, x, x, score_mod, masks.causal())
    with pytest.raises(attn.AttnError, match="mask_mod reads index 23 of dimension 0 .* 23, at .* query 23 and key 0"):
        flex_attention(x, x, x, None, lambda b, h, i, j: flags[i])
    flex_attention(x, x, x, score_mod, key_lengths=torch.zeros(B, dtype=torch.int32))
    check_reads("0")
    flex_attention(x, x, x, score_mod)
    check_reads("always")
    with pytest.raises(attn.AttnError, match="ATTN_CHECK_READS is 'always', expected 0 or 1"):
        flex_attention(x, x, x, score_mod)
