# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linear attention on the host against the recurrence in double precision, and its gradients against torch's own."""

import functools
import math
import sys

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
import attn.torch as at  # noqa: E402
from attn.errors import AttnError, UnsupportedError  # noqa: E402

# Relative errors of the largest element. f32 accumulators have some 1e-7 for each chunk.
F32 = 3e-6
BF16 = 1e-2


def recurrence(q, k, v, g=None, beta=None, scale=None, initial_state=None, causal=True):
    """The definition, token after token, in double precision."""
    heads = max(q.shape[2], v.shape[2])
    q, k, v = (t.double().repeat_interleave(heads // t.shape[2], dim=2) for t in (q, k, v))
    batch, tokens, _, key_dim = q.shape
    scale = 1 / math.sqrt(key_dim) if scale is None else scale
    state = q.new_zeros(batch, heads, key_dim, v.shape[3]) if initial_state is None else initial_state.double()
    rows = []
    for t in range(tokens):
        if g is not None:
            decay = (g if g.dim() == 1 else g[:, t]).double().exp()
            state = state * (decay[..., None] if g.dim() == 4 else decay[..., None, None])
        taken = v[:, t]
        if beta is not None:
            known = torch.einsum("bhkv,bhk->bhv", state, k[:, t])
            taken = beta[:, t].double()[..., None] * (taken - known)
        state = state + k[:, t][..., None] * taken[..., None, :]
        rows.append(torch.einsum("bhkv,bhk->bhv", state, q[:, t]) * scale)
    if not causal:
        return torch.einsum("bhkv,bthk->bthv", state, q) * scale, state
    return torch.stack(rows, 1) if rows else v.new_zeros(batch, 0, heads, v.shape[3]), state


def make(batch, tokens, heads, key_dim, value_dim, decay="", beta=False, state=False, dtype=torch.float32, seed=0,
         key_heads=None, value_heads=None, log_decay=None):
    """Arguments; keys have unit length, as the delta rule needs them."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    k = torch.nn.functional.normalize(normal(batch, tokens, key_heads or heads, key_dim), dim=-1)
    given = dict(
        q=normal(batch, tokens, heads, key_dim).to(dtype), k=k.to(dtype),
        v=normal(batch, tokens, value_heads or heads, value_dim).to(dtype),
    )  # fmt: skip
    states = max(heads, value_heads or heads)
    rows = (batch, tokens, states)
    shape = {"head": (states,), "token": rows, "element": (*rows, key_dim)}.get(decay)
    if shape:
        given["g"] = torch.nn.functional.logsigmoid(normal(*shape)) / 4 if log_decay is None else log_decay(*shape)
    if beta:
        given["beta"] = torch.rand(batch, tokens, states, generator=generator)
    if state:
        given["initial_state"] = normal(batch, states, key_dim, value_dim)
    return given


def error(actual, expected):
    assert actual.shape == expected.shape
    assert bool(actual.isfinite().all())
    return ((actual.double() - expected).abs().max() / expected.abs().max().clamp_min(1e-30)).item()


def check(given, tolerance=F32, **options):
    out, state = at.linear_attention(**given, output_final_state=True, **options)
    options.pop("chunk_size", None)
    expected, expected_state = recurrence(**given, **options)
    assert out.dtype == given["q"].dtype and state.dtype == torch.float32
    assert error(out, expected) <= tolerance
    assert error(state, expected_state) <= tolerance


@pytest.mark.parametrize("beta", [False, True])
@pytest.mark.parametrize("decay", ["", "head", "token", "element"])
@pytest.mark.parametrize("tokens", [1, 63, 64, 65, 200])
def test_values(tokens, decay, beta):
    check(make(2, tokens, 2, 32, 48, decay, beta, state=True))


@pytest.mark.parametrize("decay", ["", "head", "token", "element"])
def test_bf16(decay):
    check(make(1, 130, 2, 64, 64, decay, beta=decay == "token", dtype=torch.bfloat16), BF16)
    check(make(1, 130, 2, 64, 64, decay, dtype=torch.float16), BF16 / 4)


@pytest.mark.parametrize("sizes", [(1, 1), (5, 3), (16, 8), (24, 100), (128, 64)])
def test_head_dims(sizes):
    check(make(1, 70, 2, *sizes, "element", beta=True, state=True))


@pytest.mark.parametrize("chunk", [8, 16, 32, 128, 256])
def test_chunks(chunk):
    check(make(1, 300, 1, 16, 16, "token", beta=True), chunk_size=chunk)
    check(make(1, 300, 1, 16, 16, "element"), chunk_size=chunk)


def test_the_compiler_chooses_chunks(monkeypatch):
    """Without a chunk size, the operation has none."""
    module, texts = sys.modules["attn.torch.linear_attention"], []
    describe = module._describe
    monkeypatch.setattr(module, "_describe", lambda given: texts.append(describe(given).mlir()) or describe(given))
    inputs = [torch.randn(1, 70, 3, 88, generator=torch.Generator().manual_seed(0)) for _ in range(3)]
    for chunk in (None, 32):
        at.linear_attention(*inputs, chunk_size=chunk)
    assert ["chunk(" in text for text in texts] == [False, True]


def test_without_mask():
    check(make(2, 130, 2, 32, 48, state=True), causal=False)
    check(make(1, 7, 2, 16, 16), causal=False, scale=1.0)


def test_shared_heads():
    check(make(1, 70, 4, 16, 16, "token", key_heads=2, value_heads=1))
    # More heads of values than of queries and keys, as gated DeltaNet has.
    check(make(1, 70, 2, 16, 16, "token", beta=True, state=True, value_heads=4))


def test_no_tokens():
    given = make(2, 0, 2, 16, 16, "token", state=True)
    out, state = at.linear_attention(**given, output_final_state=True)
    assert out.shape == (2, 0, 2, 16)
    assert torch.equal(state, given["initial_state"])
    assert at.linear_attention(**given)[1] is None


def test_long_sequences():
    check(make(1, 4097, 1, 16, 16, "token"), 1e-5)
    check(make(1, 4097, 1, 16, 16, "element", beta=True, log_decay=lambda *s: torch.full(s, -1e-4)), 1e-5)
    check(make(1, 4097, 1, 16, 16), 1e-5)


def sum_in_parts(q, k, v, g):
    """The output and the final state without the delta rule in f64, 64 tokens of one head at a time."""
    state, rows = q.new_zeros(q.shape[-1], v.shape[-1]).double(), []
    for q, k, v, g in zip(*(tensor[0, :, 0].double().split(64) for tensor in (q, k, v, g))):
        sums = g.cumsum(0)
        factors = (sums[:, None] - sums).tril().exp().tril()
        rows.append(sums.exp()[:, None] * (q @ state) + (q @ k.T * factors) @ v)
        state = sums[-1].exp() * state + (k * (sums[-1] - sums).exp()[:, None]).T @ v
    return torch.cat(rows)[None, :, None] / math.sqrt(q.shape[-1]), state[None, None]


@pytest.mark.parametrize("value", [0.0, -1e-7, -1e-6, -1e-3, -1.0])
def test_very_long_sequences(value):
    """Each chunk's decay is rounded to f32."""
    tokens = 2**18
    given = make(1, tokens, 1, 8, 8, "token", log_decay=lambda *shape: torch.full(shape, value))
    out, state = at.linear_attention(**given, output_final_state=True)
    expected, expected_state = sum_in_parts(**given)
    bound = F32 + tokens / 64 * 2.0**-24
    assert error(out, expected) < bound and error(state, expected_state) < bound


@pytest.mark.parametrize("decay", ["head", "token", "element"])
@pytest.mark.parametrize("beta", [False, True])
@pytest.mark.parametrize("value", [0.0, -1e-30, -1e-8, -10.0, -100.0, -1000.0, -math.inf])
def test_extreme_decays(decay, beta, value):
    """A token sees itself, whatever the decay."""
    given = make(1, 100, 2, 16, 16, decay, beta, state=True, log_decay=lambda *s: torch.full(s, value))
    check(given, 1e-5)


def mixed(*shape):
    """Log-decays of tokens that forget all, between tokens that forget little."""
    decay = torch.rand(*shape, generator=torch.Generator().manual_seed(7)) * -1e-3
    return torch.where(torch.rand(*shape, generator=torch.Generator().manual_seed(8)) < 0.2, -1e4, decay)


def test_mixed_decays():
    """Small log-decays keep their precision next to large ones."""
    check(make(1, 300, 2, 16, 16, "token", state=True, log_decay=mixed))
    check(make(1, 300, 2, 16, 16, "element", state=True, log_decay=mixed))
    check(make(1, 300, 2, 16, 16, "element", beta=True, log_decay=mixed))


def test_zeros_and_denormals():
    given = make(1, 80, 1, 16, 16, "token", beta=True)
    for name in ("q", "k", "v", "beta"):
        changed = {**given, name: torch.zeros_like(given[name])}
        out, state = at.linear_attention(**changed, output_final_state=True)
        expected, expected_state = recurrence(**changed)
        torch.testing.assert_close(out.double(), expected, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(state.double(), expected_state, atol=1e-6, rtol=1e-5)
    tiny = {**given, "v": given["v"] * 1e-40}
    out, _ = at.linear_attention(**tiny)
    assert (out.double() - recurrence(**tiny)[0]).abs().max() < 1e-43


def test_equal_keys():
    """A triangular matrix whose powers are large: they would cancel in a sum of powers."""
    given = make(1, 256, 1, 16, 16, beta=True)
    given["k"] = given["k"][:, :1].expand_as(given["k"]).contiguous()
    given["beta"] = torch.ones_like(given["beta"])
    check(given, 1e-5)


def test_packed_sequences():
    lengths = [5, 64, 1, 100]
    given = make(1, sum(lengths), 2, 16, 16, "token", beta=True)
    states = torch.randn(len(lengths), 2, 16, 16)
    bounds = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)
    out, state = at.linear_attention(**given, initial_state=states, output_final_state=True, cu_seqlens=bounds)
    first = 0
    for number, length in enumerate(lengths):
        part = {name: tensor[:, first : first + length] for name, tensor in given.items()}
        expected, expected_state = recurrence(**part, initial_state=states[number : number + 1])
        assert error(out[:, first : first + length], expected) < F32
        assert error(state[number : number + 1], expected_state) < F32
        first += length


def run_in_calls(given, lengths):
    """The results of one call for each part, which pass on the state."""
    state, rows, first = given.get("initial_state"), [], 0
    for length in lengths:
        part = {name: tensor[:, first : first + length] if tensor.dim() > 2 and name != "initial_state" else tensor
                for name, tensor in given.items()}  # fmt: skip
        part["initial_state"] = state
        out, state = at.linear_attention(**part, output_final_state=True)
        rows.append(out)
        first += length
    return torch.cat(rows, 1), state


@pytest.mark.parametrize("beta", [False, True])
@pytest.mark.parametrize("decay", ["", "head", "token", "element"])
def test_state_continues(decay, beta):
    """Any calls of parts of a sequence compute the recurrence."""
    given = make(2, 150, 2, 16, 24, decay, beta, state=True)
    expected, expected_state = recurrence(**given)
    generator = torch.Generator().manual_seed(1)
    splits = [(1, 63, 70, 16), (1,) * 5 + (0, 145)]
    for count in (2, 5, 9):
        ends = torch.randint(151, (count,), generator=generator).sort().values.tolist()
        splits.append([end - begin for begin, end in zip([0, *ends], [*ends, 150])])
    for lengths in splits:
        out, state = run_in_calls(given, lengths)
        assert error(out, expected) < F32 and error(state, expected_state) < F32, lengths


@pytest.mark.parametrize("beta", [False, True])
@pytest.mark.parametrize("decay", ["", "head", "token", "element"])
@pytest.mark.parametrize("lengths", [(64, 128), (128, 64), (64, 64, 64)])
def test_calls_of_whole_chunks(decay, beta, lengths):
    """The state between chunks is in f32, within a call and between calls."""
    given = make(1, 192, 2, 16, 24, decay, beta, state=True)
    whole = at.linear_attention(**given, output_final_state=True)
    assert all(map(torch.equal, run_in_calls(given, lengths), whole))


@pytest.mark.parametrize("beta", [False, True])
@pytest.mark.parametrize("decay", ["", "head", "token", "element"])
@pytest.mark.parametrize("tokens", [0, 1, 3, 8, 70])
def test_state_in_place(tokens, decay, beta):
    given = make(2, tokens, 2, 16, 24, decay, beta, state=True)
    expected, expected_state = recurrence(**given)
    state = given["initial_state"]
    out, final = at.linear_attention(**given, inplace_final_state=True)
    assert final is state
    assert error(state, expected_state) <= F32
    assert tokens == 0 or error(out, expected) <= F32


def test_state_in_place_changes_nothing_else():
    """Only the entries of the call change, and a call that is not in place has the same results."""
    given = make(2, 5, 2, 16, 16, "token", beta=True, state=True, value_heads=4)
    pool = torch.randn(3, 4, 16, 16, generator=torch.Generator().manual_seed(3))
    before = pool.clone()
    pool[1:] = given["initial_state"]
    expected, expected_state = at.linear_attention(**given, output_final_state=True)
    version = pool._version
    out, final = at.gated_delta_rule(**{**given, "initial_state": pool[1:]}, inplace_final_state=True)
    assert torch.equal(out, expected) and torch.equal(pool[1:], expected_state) and torch.equal(pool[0], before[0])
    assert final.data_ptr() == pool[1:].data_ptr() and pool._version > version


def test_state_in_place_of_packed_sequences():
    given = make(1, 12, 2, 16, 16, "token")
    states = torch.randn(3, 2, 16, 16, generator=torch.Generator().manual_seed(4))
    cu_seqlens = torch.tensor([0, 5, 5, 12])
    expected, expected_states = at.linear_attention(
        **given, initial_state=states.clone(), output_final_state=True, cu_seqlens=cu_seqlens
    )
    out, final = at.linear_attention(**given, initial_state=states, cu_seqlens=cu_seqlens, inplace_final_state=True)
    assert final is states and torch.equal(out, expected) and torch.equal(states, expected_states)


def test_state_in_place_without_mask():
    given = make(1, 7, 2, 16, 16, state=True)
    expected, expected_state = recurrence(**given, causal=False)
    out, state = at.linear_attention(**given, causal=False, inplace_final_state=True)
    assert error(out, expected) <= F32 and error(state, expected_state) <= F32


def test_state_in_place_compiled():
    given = make(2, 1, 2, 16, 16, "token", beta=True, state=True)
    states = [given.pop("initial_state"), None]
    states[1] = states[0].clone()
    outs = [
        function(**given, initial_state=state, inplace_final_state=True)[0]
        for function, state in zip((at.linear_attention, torch.compile(at.linear_attention, fullgraph=True)), states)
    ]
    assert torch.equal(*outs) and torch.equal(*states)


@pytest.mark.parametrize("change, message", [
    (lambda given: given.update(initial_state=None), "inplace_final_state needs initial_state"),
    (lambda given: given.update(initial_state=given["initial_state"].bfloat16()), "dtype torch.bfloat16"),
    (lambda given: given.update(initial_state=given["initial_state"].mT), "contiguous torch.float32"),
    (lambda given: given["q"].requires_grad_(), "inplace_final_state has no gradients"),
])  # fmt: skip
def test_errors_of_state_in_place(change, message):
    given = make(1, 4, 2, 16, 16, state=True)
    change(given)
    with pytest.raises(AttnError, match=message):
        at.linear_attention(**given, inplace_final_state=True)


def gradients(function, given, weights):
    leaves = {name: tensor.detach().clone().requires_grad_() for name, tensor in given.items()}
    out, state = function(**leaves)
    loss = (out.double() * weights[0]).sum() + (state.double() * weights[1]).sum()
    return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values()))))


def check_gradients(given, tolerance=1e-5, **options):
    heads = max(given["q"].shape[2], given["v"].shape[2])
    generator = torch.Generator().manual_seed(3)
    weights = [
        torch.randn(*shape, generator=generator).double()
        for shape in (
            (*given["q"].shape[:2], heads, given["v"].shape[3]),
            (given["q"].shape[0], heads, given["q"].shape[3], given["v"].shape[3]),
        )
    ]
    actual = gradients(lambda **g: at.linear_attention(**g, output_final_state=True, **options), given, weights)
    options.pop("chunk_size", None)
    doubles = {name: tensor.double() for name, tensor in given.items()}
    expected = gradients(lambda **g: recurrence(**g, **options), doubles, weights)
    for name, gradient in actual.items():
        assert gradient.dtype == given[name].dtype
        assert error(gradient, expected[name]) <= tolerance, name


@pytest.mark.parametrize("beta", [False, True])
@pytest.mark.parametrize("decay", ["", "head", "token", "element"])
@pytest.mark.parametrize("tokens", [1, 100])
def test_gradients(tokens, decay, beta):
    check_gradients(make(2, tokens, 2, 16, 24, decay, beta, state=True))


def test_gradients_without_mask():
    check_gradients(make(2, 100, 2, 16, 24, state=True), causal=False)


def test_gradients_of_shared_heads():
    check_gradients(make(2, 70, 4, 16, 16, "head", key_heads=2, value_heads=1))
    check_gradients(make(1, 70, 2, 16, 16, "token", beta=True, value_heads=4))


@pytest.mark.parametrize("value", [0.0, -1e-8, -10.0])
def test_gradients_of_extreme_decays(value):
    for decay in ("token", "element"):
        check_gradients(make(1, 100, 1, 16, 16, decay, True, log_decay=lambda *s: torch.full(s, value)))


def test_gradients_of_mixed_decays():
    for decay in ("token", "element"):
        check_gradients(make(1, 200, 1, 16, 16, decay, True, log_decay=mixed))


def test_gradients_in_bf16():
    check_gradients(make(1, 100, 2, 16, 16, "token", True, True, dtype=torch.bfloat16), 3e-2)


def test_gradients_of_large_chunks():
    """The buffers of a work item do not fit on a stack."""
    check_gradients(make(1, 20, 1, 256, 256, "element", True, True), chunk_size=256)


def test_gradients_of_some():
    given = make(1, 70, 1, 16, 16, "token")
    for name in given:
        leaf = given[name].clone().requires_grad_()
        out, _ = at.linear_attention(**{**given, name: leaf})
        out.sum().backward()
        exact = given[name].double().requires_grad_()
        recurrence(**{**given, name: exact})[0].sum().backward()
        assert error(leaf.grad, exact.grad) < 1e-5


def test_gated_delta_rule():
    given = make(1, 70, 2, 16, 16, "token", beta=True, state=True)
    out, state = at.gated_delta_rule(**given, output_final_state=True)
    expected, expected_state = recurrence(**given)
    assert error(out, expected) < F32
    assert error(state, expected_state) < F32
    with pytest.raises(AttnError, match="beta is None; pass a tensor, or call linear_attention"):
        at.gated_delta_rule(given["q"], given["k"], given["v"], given["g"], None)


def test_torch_compile():
    given = make(1, 70, 2, 16, 16, "token", beta=True)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def function(q, k, v, g, beta):
        return at.linear_attention(q * 2, k, v, g, beta)[0]

    leaf = given["v"].clone().requires_grad_()
    out = function(**{**given, "v": leaf})
    assert error(out.detach(), recurrence(**{**given, "q": given["q"] * 2})[0]) < F32
    out.sum().backward()
    assert leaf.grad is not None


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(k=torch.zeros(1, 8, 2, 4)), r"k has the shape \(1, 8, 2, 4\), expected \(1, 8, 2, 16\)"),
        (dict(v=torch.zeros(1, 7, 2, 16)), r"v has the shape \(1, 7, 2, 16\), expected \(1, 8, 2, 16\)"),
        (dict(k=torch.zeros(1, 8, 3, 16)), "k has 3 heads, which must divide 2, the most that q or v has"),
        (dict(k=torch.zeros(1, 8, 2, 16).half()), "k has the dtype torch.float16 and q torch.float32; convert"),
        (dict(g=torch.zeros(1, 8)), r"g has the shape \(1, 8\), expected \(2,\) or \(1, 8, 2\) or \(1, 8, 2, 16\)"),
        (dict(beta=torch.zeros(1, 8)), r"beta has the shape \(1, 8\), expected \(1, 8, 2\)"),
        (dict(beta=torch.zeros(1, 8, 2, dtype=torch.int32)), "beta has the dtype torch.int32, expected one of floats"),
        (
            dict(initial_state=torch.zeros(1, 2, 16, 8)),
            r"initial_state has the shape \(1, 2, 16, 8\), expected \(1, 2, 16, 16\)",
        ),
        (dict(g=torch.zeros(2), causal=False), "g needs causal=True"),
        (dict(beta=torch.zeros(1, 8, 2), causal=False), "beta needs causal=True"),
        (dict(chunk_size=48), "chunk_size is 48; it must be a power of two from 8 to 256"),
        (dict(q=torch.zeros(8, 2, 16)), "q has 3 dimensions; it needs 4: batch, positions, heads and head dim"),
        (
            dict(cu_seqlens=torch.tensor([0, 9]), causal=False),
            r"cu_seqlens is \[0, 9\]; it must rise from 0 to 8",
        ),
        (
            dict(cu_seqlens=torch.tensor([0, 5, 3, 8]), causal=False),
            r"cu_seqlens is \[0, 5, 3, 8\]; it must rise from 0 to 8",
        ),
        (dict(cu_seqlens=torch.tensor([0.0, 8.0])), "cu_seqlens has the shape .* and the dtype torch.float32"),
        (dict(scale=math.inf), "scale is inf; it must be finite"),
        (dict(g=[0.0, 0.0]), "g is a list; pass a tensor of torch"),
    ],
)
def test_errors(change, message):
    given = dict(q=torch.zeros(1, 8, 2, 16), k=torch.zeros(1, 8, 2, 16), v=torch.zeros(1, 8, 2, 16))
    with pytest.raises(AttnError, match=message):
        at.linear_attention(**{**given, **change})


@pytest.mark.parametrize("decay", ["head", "token", "element"])
@pytest.mark.parametrize("value", [1e-6, math.inf, math.nan])
def test_positive_decays_are_reported(decay, value):
    given = make(1, 70, 2, 16, 16, decay)
    given["g"].view(-1)[-1] = value
    with pytest.raises(AttnError, match="a call was given a log-decay that is more than 0 or no number"):
        at.linear_attention(**given)
    given["g"].view(-1)[-1] = 0.0
    at.linear_attention(**given)


def test_double_precision_is_refused():
    given = {name: torch.zeros(1, 8, 2, 16, dtype=torch.float64) for name in ("q", "k", "v")}
    with pytest.raises(UnsupportedError, match="q has the dtype torch.float64; convert it to one of"):
        at.linear_attention(**given)


def test_description_errors():
    with pytest.raises(AttnError, match="decay is 'row'; it must be one of '', 'head', 'token', 'element'"):
        attn.LinearAttention("f32", 2, 2, 2, 16, decay="row")
    with pytest.raises(AttnError, match="key_heads is 3; it must divide the number of heads, 4"):
        attn.LinearAttention("f32", 4, 3, 4, 16)
    with pytest.raises(AttnError, match="in_place needs initial_state and with_final_state"):
        attn.LinearAttention("f32", 2, 2, 2, 16, initial_state=True, in_place=True)
    with pytest.raises(AttnError, match="precision is 'medium'; it must be 'highest' or 'high'"):
        attn.LinearAttention("f32", 2, 2, 2, 16, precision="medium")


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "change, message",
    [
        (dict(beta=True, chunk=128), r"'chunk' on {target} with 'beta' must be 64 \(was 128\)"),
        (dict(decay="element", chunk=128), r"'chunk' on {target} with 'log_decay' of each key element must be 64"),
        (dict(chunk=16), r"'chunk' on {target} must be 64 or 128 \(was 16\)"),
        (dict(key_dim=68), r"head dim of 'key' on {target} must be a multiple of 8 and at most 256 \(was 68\)"),
        (dict(value_dim=264), r"head dim of 'value' on {target} must be a multiple of 8 and at most 256 \(was 264\)"),
    ],
)
def test_gpu_targets(target, change, message):
    given = {**dict(dtype="bf16", heads=2, key_heads=2, value_heads=2, key_dim=64), **change}
    with pytest.raises(AttnError, match="'attn.linear_attention' op " + message.format(target=target)):
        attn.compile(attn.LinearAttention(**given), target=target)


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_matmul_precision(precision, monkeypatch):
    """Kernels multiply f32 as torch's own matmuls do, forward and backward."""
    module = sys.modules[at.linear_attention.__module__]
    compiled = []

    def record(description, **options):
        compiled.append(description.precision)
        return attn.compile(description, **options)

    monkeypatch.setattr(module, "compile", record)
    monkeypatch.setattr(module, "_plans", {})
    for find in (module._find_forward, module._find_backward):
        monkeypatch.setattr(module, find.__name__, functools.lru_cache(find.__wrapped__))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        query = torch.randn(1, 2, 5, 16, requires_grad=True)
        at.linear_attention(query, query, query)[0].sum().backward()
    finally:
        torch.set_float32_matmul_precision(before)
    expected = "" if precision == "highest" else "high"
    assert compiled == [expected, expected]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_precision_of_gpu_targets(target):
    form = attn.LinearAttention("f32", 2, 2, 2, 64, decay="token", beta=True, precision="high")
    assert "precision(high)" in form.mlir()
    attn.compile(form, target=target)
