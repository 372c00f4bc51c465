# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Feature maps, normalizers and masks of linear attention on the host: values and gradients against matrices of all
pairs of tokens in double precision."""

import math
import pathlib
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
import attn.torch as at  # noqa: E402
from attn.errors import AttnError, UnsupportedError  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "Integration" / "Inputs"))

from dropout_reference import philox  # noqa: E402

# Relative errors of the largest element.
F32 = 1e-5
BF16 = 2e-2
EPS = 1e-3

FEATURES = {
    None: lambda x: x,
    "elu": lambda x: torch.nn.functional.elu(x) + 1,
    "relu": torch.relu,
    "exp": torch.exp,
    "softmax": lambda x: x.softmax(-1),
}


def seen_tokens(batch, tokens, causal=True, cu_seqlens=None, block=None, key_lengths=None):
    """Whether token t sees token s: [batch, t, s]."""
    t, s = torch.arange(tokens)[:, None], torch.arange(tokens)[None]
    seen = (s <= t) if causal else torch.ones(tokens, tokens, dtype=torch.bool)
    if cu_seqlens is not None:
        sequence = torch.bucketize(torch.arange(tokens), cu_seqlens.long(), right=True)
        seen = seen & (sequence[:, None] == sequence[None])
    if block is not None:
        seen = seen & (t // block == s // block)
    seen = seen.expand(batch, tokens, tokens)
    if key_lengths is not None:
        seen = seen & (s < key_lengths[:, None, None])
    return seen


def expected(q, k, v, g=None, scale=None, initial_state=None, feature=None, normalize=False, eps=EPS, key_lengths=None,
             use_qk_l2norm_in_kernel=False, **masks):
    """The output and the final state, in double precision, of decays of heads, tokens and key elements. Decays of
    tokens after ``key_lengths`` do not count."""
    heads = max(q.shape[2], v.shape[2])
    q, k, v = (x.double().repeat_interleave(heads // x.shape[2], dim=2) for x in (q, k, v))
    scale = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    if use_qk_l2norm_in_kernel:
        q, k = (x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt() for x in (q, k))
    phi = feature if callable(feature) else FEATURES[feature]
    q, k = phi(q), phi(k)
    batch, tokens, _, key_dim = q.shape
    if normalize:
        v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    decay = q.new_zeros(batch, tokens, heads, 1)
    if g is not None:
        given = g.double()
        decay = given if g.dim() == 4 else (given if g.dim() == 3 else given.expand(batch, tokens, heads))[..., None]
    is_key = torch.ones(batch, tokens, dtype=torch.bool)
    if key_lengths is not None:
        is_key = torch.arange(tokens)[None] < key_lengths[:, None]
        # Padding may be anything.
        k, v, decay = (torch.where(is_key[..., None, None], x, torch.zeros_like(x)) for x in (k, v, decay))
    total = decay.cumsum(1)
    seen = seen_tokens(batch, tokens, key_lengths=key_lengths, **masks)
    between = total[:, :, None] - total[:, None]
    if not masks.get("causal", True):
        between = torch.zeros_like(between)
    weight = torch.where(seen[..., None, None], between, torch.full_like(between, -math.inf)).exp()
    scores = torch.einsum("bthd,bshd,btshd->btsh", q, k, weight.expand(*weight.shape[:4], key_dim))
    sums = torch.einsum("btsh,bshe->bthe", scores, v)
    rest = (total[:, -1:] - total).exp()
    state = torch.einsum("bshd,bshe->bhde", k * rest, v)
    if initial_state is not None:
        first = initial_state.double()
        state = state + first * total[:, -1].exp().expand(batch, heads, key_dim)[..., None]
        kept = total.exp() if masks.get("causal", True) else torch.ones_like(total)
        sums = sums + torch.einsum("bthd,bhde->bthe", q * kept, first)
    sums = sums * scale
    return (sums[..., :-1] / (sums[..., -1:] + eps) if normalize else sums), state


def delta_rule(q, k, v, beta, g=None, scale=None, cu_seqlens=None, block=None, key_lengths=None, feature=None,
               initial_state=None):
    """The recurrence with masks, token after token. Returns the final state, too, from a given initial one."""
    q, k, v, beta = (x.double() for x in (q, k, v, beta))
    scale = 1 / math.sqrt(q.shape[3]) if scale is None else scale
    q, k = FEATURES[feature](q), FEATURES[feature](k)
    batch, tokens, heads, key_dim = q.shape
    firsts = set() if cu_seqlens is None else set(cu_seqlens.tolist())
    rows = []
    for b in range(batch):
        state = q.new_zeros(heads, key_dim, v.shape[3]) if initial_state is None else initial_state[b]
        for t in range(tokens):
            if t in firsts or (block is not None and t % block == 0):
                state = torch.zeros_like(state)
            if key_lengths is None or t < key_lengths[b]:
                if g is not None:
                    decay = (g if g.dim() == 1 else g[b, t]).double().exp()
                    state = state * (decay[..., None] if g.dim() == 4 else decay[..., None, None])
                known = torch.einsum("hde,hd->he", state, k[b, t])
                state = state + k[b, t][..., None] * (beta[b, t][..., None] * (v[b, t] - known))[:, None]
            rows.append(torch.einsum("hde,hd->he", state, q[b, t]) * scale)
    out = torch.stack(rows).reshape(batch, tokens, heads, -1)
    return out if initial_state is None else (out, state[None])


def make(batch, tokens, heads=2, key_dim=16, value_dim=24, decay="", dtype=torch.float32, key_heads=None, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    rows = (batch, tokens, heads)
    given = dict(
        q=normal(*rows, key_dim).to(dtype), k=normal(batch, tokens, key_heads or heads, key_dim).to(dtype),
        v=normal(batch, tokens, key_heads or heads, value_dim).to(dtype),
    )  # fmt: skip
    shape = {"head": (heads,), "token": rows, "element": (*rows, key_dim)}.get(decay)
    if shape:
        given["g"] = torch.nn.functional.logsigmoid(normal(*shape)) / 4
    return given


def error(actual, wanted, least=1e-30):
    """The largest error relative to the largest element, or to ``least``."""
    assert actual.shape == wanted.shape
    assert bool(actual.isfinite().all())
    if not actual.numel():
        return 0.0
    return ((actual.double() - wanted).abs().max() / wanted.abs().max().clamp_min(least)).item()


def check(given, tolerance=F32, with_state=True, **options):
    if options.get("normalize"):
        options.setdefault("eps", EPS)
    out, state = at.linear_attention(**given, output_final_state=with_state, **options)
    wanted, wanted_state = expected(**given, **options)
    assert out.dtype == given["q"].dtype
    assert error(out, wanted) <= tolerance
    if with_state:
        assert error(state, wanted_state) <= tolerance


def check_gradients(given, tolerance=2e-5, with_state=True, **options):
    if options.get("normalize"):
        options.setdefault("eps", EPS)
    generator = torch.Generator().manual_seed(3)

    def differentiate(function, leaves):
        leaves = {name: x.detach().clone().requires_grad_() for name, x in leaves.items()}
        results = function(**leaves)
        generator.manual_seed(3)
        loss = sum((x.double() * torch.randn(x.shape, generator=generator)).sum() for x in results if x is not None)
        return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values()))))

    actual = differentiate(lambda **g: at.linear_attention(**g, output_final_state=with_state, **options), given)
    doubles = {name: x.double() for name, x in given.items()}
    wanted = differentiate(lambda **g: expected(**g, **options)[: 1 + with_state], doubles)
    for name, gradient in actual.items():
        assert gradient.dtype == given[name].dtype
        # A normalizer's gradients of tokens that see only themselves cancel.
        assert error(gradient, wanted[name], least=0.1) <= tolerance, name


@pytest.mark.parametrize("feature", ["elu", "relu", "exp", "softmax"])
@pytest.mark.parametrize("normalize", [False, True])
def test_features(feature, normalize):
    for tokens, causal in ((1, True), (70, True), (70, False)):
        check(make(2, tokens, key_heads=1), feature=feature, normalize=normalize, causal=causal)
    check(make(1, 65, decay="token"), feature=feature, normalize=normalize, scale=1.0)
    check_gradients(make(1, 30, decay="token"), feature=feature, normalize=normalize)
    check_gradients(make(2, 20), feature=feature, normalize=normalize, causal=False)


@pytest.mark.parametrize("decay", ["", "head", "token", "element"])
def test_normalizer(decay):
    """States continue: they have the normalizer in their last column."""
    given = make(2, 90, decay=decay)
    options = dict(feature="elu", normalize=True, eps=EPS)
    check(given, **options)
    state = torch.rand(2, 2, 16, 25)
    check({**given, "initial_state": state}, **options)
    check_gradients({**make(1, 40, decay=decay), "initial_state": state[:1]}, **options)
    whole, last = at.linear_attention(**given, output_final_state=True, **options)
    rows, state, first = [], None, 0
    for length in (1, 63, 26):
        part = {name: x if x.dim() == 1 else x[:, first : first + length] for name, x in given.items()}
        out, state = at.linear_attention(**part, initial_state=state, output_final_state=True, **options)
        rows.append(out)
        first += length
    assert error(torch.cat(rows, 1), whole.double()) < F32
    assert error(state, last.double()) < F32


def test_narrow_types():
    for dtype, tolerance in ((torch.bfloat16, BF16), (torch.float16, BF16 / 4)):
        for feature in FEATURES:
            check(make(1, 100, dtype=dtype, decay="token"), tolerance, feature=feature, normalize=feature is not None)
    check_gradients(make(1, 60, dtype=torch.bfloat16, decay="token"), 5e-2, feature="elu", normalize=True)


def test_extreme_features():
    """Elements whose exponentials overflow, where "elu" does not use them; zeros and denormals."""
    given = make(1, 40)
    for factor in (0.0, 1e-40, 1e3):
        changed = {name: x * factor for name, x in given.items()}
        out, _ = at.linear_attention(**changed, feature="elu", normalize=True, eps=EPS)
        assert error(out, expected(**changed, feature="elu", normalize=True)[0]) < F32
        leaf = changed["k"].requires_grad_()
        at.linear_attention(**changed, feature="elu", normalize=True, eps=EPS)[0].sum().backward()
        assert bool(leaf.grad.isfinite().all())


def normal_numbers(seed, features, key_dim):
    """The projection of random features that docs/rng.md defines, in double precision."""
    i, j = (x.numpy() for x in torch.meshgrid(torch.arange(features), torch.arange(key_dim), indexing="ij"))
    words = philox((seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF), (j // 4, i, 0, 0), 10)
    bits = [torch.from_numpy((word >> 8).astype("int64")).double() for word in words]
    place = torch.from_numpy(j % 4)
    u, v = (torch.where(place < 2, bits[first], bits[first + 2]) for first in (0, 1))
    radius = (-2 * ((u + 1) / (1 << 24)).log()).sqrt()
    angle = 2 * math.pi * v / (1 << 24)
    return radius * torch.where(place % 2 == 0, angle.cos(), angle.sin())


def random_features(seed, features, dtype=torch.float32):
    """The feature map that kernels have: the projection is rounded as rows are."""

    def phi(rows):
        key_dim = rows.shape[-1]
        projection = normal_numbers(seed, features, key_dim).to(dtype).double()
        x = rows.double() / key_dim**0.25
        return (x @ projection.T - x.square().sum(-1, keepdim=True) / 2).exp() / features**0.5

    return phi


def check_random(given, seed, features, tolerance=F32, **options):
    named = dict(feature="random", random_features=features, feature_seed=seed)
    out, state = at.linear_attention(**given, **named, **options, output_final_state=True)
    phi = random_features(int(seed), features, given["q"].dtype)
    wanted = expected(**given, feature=phi, **{name: x for name, x in options.items() if name != "eps"})
    assert error(out, wanted[0]) <= tolerance and error(state, wanted[1]) <= tolerance
    return out


@pytest.mark.parametrize("seed", [0, 7, -1, 1 << 63, 0x123456789ABCDEF0])
def test_random_features_of_seeds(seed):
    given = make(1, 40, key_dim=18, key_heads=1)
    out = check_random(given, seed, 24, normalize=True, eps=EPS)
    assert not torch.equal(out, check_random(given, seed + 1, 24, normalize=True, eps=EPS))
    # Sums of log-decays of features, and the seed as a tensor.
    given["g"] = -torch.rand(1, 40, 2, 24) / 4
    check_random(given, torch.tensor(seed - (1 << 64) if seed >= 1 << 63 else seed), 24, scale=1.0)


def test_random_features_of_numpy_seeds():
    given = make(1, 10)
    options = dict(feature="random", random_features=8)
    expected, _ = at.linear_attention(**given, **options, feature_seed=(1 << 63) + 5)
    for seed in (np.uint64((1 << 63) + 5), np.int64((5 - (1 << 63))), np.array((1 << 63) + 5, dtype=np.uint64)):
        assert torch.equal(at.linear_attention(**given, **options, feature_seed=seed)[0], expected)


def test_random_features_approach_softmax():
    given = make(1, 30, heads=1, value_dim=16)
    given["q"], given["k"] = given["q"] / 2, given["k"] / 2
    out, _ = at.linear_attention(
        **given, feature="random", random_features=1 << 13, feature_seed=3, normalize=True, eps=0.0
    )
    q, k, v = (given[name].double().transpose(1, 2) for name in "qkv")
    exact = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
    assert error(out, exact) < 0.1


def test_random_features_of_parts():
    """A call on parts of the tokens has the numbers of one on all of them."""
    given = make(1, 50, decay="token")
    options = dict(feature="random", random_features=24, feature_seed=11, output_final_state=True)
    whole, last = at.linear_attention(**given, **options)
    first, state = at.linear_attention(**{name: x[:, :17] for name, x in given.items()}, **options)
    rest, state = at.linear_attention(
        **{name: x[:, 17:] for name, x in given.items()}, initial_state=state, **options
    )
    assert error(torch.cat([first, rest], 1), whole.double()) < F32 and error(state, last.double()) < F32


def test_random_features_of_narrow_types():
    for dtype, tolerance in ((torch.bfloat16, BF16), (torch.float16, BF16 / 4)):
        given = make(1, 60, dtype=dtype, decay="token")
        given["q"], given["k"] = given["q"] / 2, given["k"] / 2
        check_random(given, 5, 32, tolerance, normalize=True, eps=EPS)


def test_gradients_of_random_features():
    given = {name: x.requires_grad_() for name, x in make(2, 30).items()}
    doubles = {name: x.detach().double().requires_grad_() for name, x in given.items()}
    named = dict(feature="random", random_features=24, feature_seed=torch.tensor(9))
    results = at.linear_attention(**given, **named, normalize=True, eps=EPS, output_final_state=True)
    wanted = expected(**doubles, feature=random_features(9, 24), normalize=True)
    for name, gradient, exact in zip("qkv", differentiate_both(results, given), differentiate_both(wanted, doubles)):
        assert error(gradient, exact, least=0.1) <= 2e-5, name


def test_inductor_random_features():
    given = make(1, 40)

    @torch.compile(fullgraph=True)
    def function(q, k, v, seed):
        return at.linear_attention(q, k, v, feature="random", random_features=24, feature_seed=seed, normalize=True)[0]

    for seed in (2, 3):
        out = function(**given, seed=torch.tensor(seed))
        assert error(out, expected(**given, feature=random_features(seed, 24), normalize=True, eps=1e-6)[0]) < F32


def test_random_features():
    """Dot products of features approach exponentials of scaled dot products."""
    features = at.RandomFeatures(16, 64, seed=1)
    given = make(1, 50)
    exact = at.RandomFeatures(16, 64, seed=1, dtype=torch.float64)
    for causal in (True, False):
        out, _ = at.linear_attention(**given, feature=features, normalize=True, eps=EPS, causal=causal)
        wanted, _ = expected(**given, feature=exact, normalize=True, causal=causal)
        assert error(out, wanted) < F32
    many = at.RandomFeatures(16, 1 << 14, seed=2, dtype=torch.float64)
    q, k = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(3)).double() / 2
    torch.testing.assert_close(many(q) @ many(k).T, (q @ k.T / 4).exp(), rtol=0.2, atol=0.02)
    features.projection.requires_grad_()
    at.linear_attention(**given, feature=features, normalize=True)[0].sum().backward()
    assert bool(features.projection.grad.isfinite().all()) and bool(features.projection.grad.any())


@pytest.mark.parametrize("decay", ["", "head", "token", "element"])
@pytest.mark.parametrize("lengths", [[70], [1], [5, 64, 1, 30], [1, 1, 1], [0, 7, 0, 0, 3, 0], [63, 65]])
def test_packed_sequences(decay, lengths):
    bounds = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)
    given = make(1, sum(lengths), decay=decay)
    check(given, with_state=False, cu_seqlens=bounds)
    check(given, with_state=False, cu_seqlens=bounds.long(), feature="elu", normalize=True)
    if len(lengths) != 1:
        check_gradients(given, with_state=False, cu_seqlens=bounds, feature="exp", normalize=True)


@pytest.mark.parametrize("states", [{}, dict(output_final_state=True)])
def test_packed_sequences_are_one_call(monkeypatch, states):
    """Boundaries are not read by Python."""
    bounds = torch.tensor([0, 5, 60], dtype=torch.int32)
    given = make(1, 60, decay="token")
    at.linear_attention(**given, cu_seqlens=bounds, **states)
    monkeypatch.setattr(torch.Tensor, "tolist", lambda self: pytest.fail("tolist was called"))
    at.linear_attention(**given, cu_seqlens=bounds, **states)


def expected_sequences(cu_seqlens, initial_state, q, beta=None, normalize=False, **given):
    """Outputs and states of packed sequences in double precision, one sequence after the other."""
    bounds, rows, states = cu_seqlens.tolist(), [], []
    options = dict(feature=given.pop("feature", None), scale=given.pop("scale", None))
    for number, (first, last) in enumerate(zip(bounds, bounds[1:])):
        part = {name: x if x.dim() == 1 else x[:, first:last] for name, x in dict(q=q, **given).items()}
        state = initial_state[number : number + 1].double()
        if first == last:
            out, after = part["v"].double(), state
        elif beta is None:
            out, after = expected(**part, initial_state=state, normalize=normalize, **options)
        else:
            out, after = delta_rule(**part, beta=beta[:, first:last], initial_state=state, **options)
        rows.append(out)
        states.append(after)
    return torch.cat(rows, dim=1), torch.cat(states)


def differentiate_both(results, leaves):
    """The gradients of a sum of results with random factors."""
    generator = torch.Generator().manual_seed(4)
    loss = sum((x.double() * torch.randn(x.shape, generator=generator)).sum() for x in results)
    return torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True, allow_unused=True)


@pytest.mark.parametrize("decay", ["", "head", "token", "element"])
@pytest.mark.parametrize("form", ["plain", "normalized", "delta rule"])
@pytest.mark.parametrize("lengths", [[70], [1], [5, 64, 1, 30], [0, 7, 0, 0, 3, 0], [63, 65, 128]])
def test_packed_sequences_with_states(decay, form, lengths):
    """Outputs, final states and all gradients, with and without initial states."""
    bounds = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)
    given = make(1, sum(lengths), decay=decay)
    generator = torch.Generator().manual_seed(1)
    options = dict(normalize=True, feature="elu") if form == "normalized" else {}
    state = torch.rand(len(lengths), 2, 16, 24 + bool(options), generator=generator)
    if form == "delta rule":
        given["beta"] = torch.rand(1, sum(lengths), 2, generator=generator)
        given["k"] = given["k"] / given["k"].norm(dim=-1, keepdim=True)
    for initial in (None, state):
        leaves = dict(given) if initial is None else dict(given, initial_state=initial)
        leaves = {name: x.clone().requires_grad_() for name, x in leaves.items()}
        eps = dict(eps=EPS) if options else {}
        results = at.linear_attention(**leaves, cu_seqlens=bounds, output_final_state=True, **options, **eps)
        doubles = {name: x.detach().double().requires_grad_() for name, x in leaves.items()}
        first = doubles.get("initial_state", torch.zeros_like(state))
        exact = {name: x for name, x in doubles.items() if name != "initial_state"}
        wanted = expected_sequences(bounds, first, **exact, **options)
        for result, exact_result in zip(results, wanted):
            assert error(result, exact_result.detach()) <= F32
        gradients = differentiate_both(results, leaves), differentiate_both(wanted, doubles)
        for name, gradient, exact_gradient in zip(leaves, *gradients):
            assert error(gradient, exact_gradient, least=0.1) <= 2e-5, name


def test_packed_sequences_of_narrow_types():
    bounds = torch.tensor([0, 1, 65, 65, 130], dtype=torch.int32)
    state = torch.randn(4, 2, 16, 24, generator=torch.Generator().manual_seed(2))
    for dtype, tolerance in ((torch.bfloat16, BF16), (torch.float16, BF16 / 4)):
        for decay in ("", "token", "element"):
            given = make(1, 130, decay=decay, dtype=dtype)
            options = dict(cu_seqlens=bounds, initial_state=state)
            out, last = at.linear_attention(**given, output_final_state=True, **options)
            wanted, wanted_last = expected_sequences(**given, **options)
            assert out.dtype == dtype and last.dtype == torch.float32
            assert error(out, wanted) <= tolerance and error(last, wanted_last) <= tolerance


@pytest.mark.parametrize("decay", ["", "head", "token", "element"])
@pytest.mark.parametrize("is_delta_rule", [False, True])
def test_packed_sequences_have_the_bits_of_calls(decay, is_delta_rule):
    bounds = [0, 5, 69, 69, 70, 130]
    given = make(1, 130, decay=decay)
    if is_delta_rule:
        given["beta"] = torch.rand(1, 130, 2)
    state = torch.randn(5, 2, 16, 24)
    options = dict(initial_state=state, cu_seqlens=torch.tensor(bounds), output_final_state=True)
    out, last = at.linear_attention(**given, **options)
    for number, (begin, end) in enumerate(zip(bounds, bounds[1:])):
        part = {name: x if x.dim() == 1 else x[:, begin:end] for name, x in given.items()}
        options = dict(initial_state=state[number : number + 1], output_final_state=True)
        one, after = at.linear_attention(**part, **options)
        assert torch.equal(out[:, begin:end], one) and torch.equal(last[number : number + 1], after)


def test_packed_sequences_in_place():
    bounds = torch.tensor([0, 5, 5, 60], dtype=torch.int32)
    given = make(1, 60, decay="token")
    state = torch.randn(3, 2, 16, 24)
    wanted, wanted_state = expected_sequences(bounds, state.clone(), **given)
    options = dict(initial_state=state, cu_seqlens=bounds, inplace_final_state=True)
    with torch.no_grad():
        out, last = at.linear_attention(**given, **options)
    assert last.data_ptr() == state.data_ptr()
    assert error(out, wanted) <= F32 and error(state, wanted_state) <= F32


def test_packed_sequences_without_mask():
    """Each sequence is a call."""
    bounds = torch.tensor([0, 5, 5, 60], dtype=torch.int32)
    out, _ = at.linear_attention(**make(1, 60), cu_seqlens=bounds, causal=False)
    assert error(out, expected(**make(1, 60), cu_seqlens=bounds, causal=False)[0]) < F32


@pytest.mark.parametrize("bounds", [[0, 30, 20, 70], [0, 71], [-1, 70], [0, 69], [1, 70], [70, 0], [0, 1 << 30]])
@pytest.mark.parametrize("decay", ["", "head", "element"])
def test_wrong_boundaries_of_states_are_reported(bounds, decay):
    given = make(1, 70, decay=decay)
    message = "boundaries of sequences of linear attention that are not sorted or not within"
    with pytest.raises(AttnError, match=message):
        at.linear_attention(**given, cu_seqlens=torch.tensor(bounds), output_final_state=True)
    at.linear_attention(**given, cu_seqlens=torch.tensor([0, 70]), output_final_state=True)


STATES = """
!q = tensor<1x2x?x8xf32>
!s = tensor<?x2x8x8xf32>
func.func @forward(%q: !q, %c: tensor<?xi32>, %s: !s, %o: !q, %t: !s) -> (!q, !s) {
  %r:2 = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%o, %t : !q, !s) initial_state(%s : !s)
      sequences(%c : tensor<?xi32>) causal chunk(8) -> !q, !s
  return %r#0, %r#1 : !q, !s
}
func.func @backward(%q: !q, %c: tensor<?xi32>, %s: !s, %dq: !q, %dk: !q, %dv: !q, %t: !s) -> (!q, !q, !q, !s) {
  %r:4 = attn.linear_attention_grad ins(%q, %q, %q, %q : !q, !q, !q, !q) outs(%dq, %dk, %dv : !q, !q, !q)
      initial_state(%s : !s) sequences(%c : tensor<?xi32>) dinitial_state(%t : !s) causal chunk(8)
      -> !q, !q, !q, !s
  return %r#0, %r#1, %r#2, %r#3 : !q, !q, !q, !s
}
"""


@pytest.fixture(scope="module")
def functions_of_states():
    artifact = attn.compile(STATES)
    return {name: artifact[name] for name in ("forward", "backward")}


@pytest.mark.parametrize("name", ["forward", "backward"])
@pytest.mark.parametrize(
    "bounds, number, tokens",
    [([0, 4, 10], 1, 10), ([0, 4, 10], 3, 10), ([0, 4, 10], 0, 10), ([0, 0, 0], 1, 0), ([0], 0, 10), ([], 0, 10),
     ([0], 1, 10), ([0, 8, 5, 10], 2, 10)],
)  # fmt: skip
def test_numbers_of_states_are_checked(functions_of_states, name, bounds, number, tokens):
    """Nothing outside of the states is written, and a call without sequences is an error, too, if it has tokens."""
    function = functions_of_states[name]
    q, bounds = torch.randn(1, 2, tokens, 8), torch.tensor(bounds, dtype=torch.int32)
    memory = torch.full((8, 2, 8, 8), 7.0)
    tensors = [q, bounds, torch.randn(number, 2, 8, 8)]
    gradients = [torch.empty_like(q) for _ in range(1 if name == "forward" else 3)]
    with pytest.raises(AttnError, match="do not go from 0 to the number of tokens or have another number of states"):
        function(*tensors, *gradients, memory[4 : 4 + number])
    assert bool((memory[:4] == 7).all()) and bool((memory[4 + number :] == 7).all())


@pytest.mark.parametrize("bounds", [[0], []])
def test_no_tokens_of_no_sequence(functions_of_states, bounds):
    q, state = torch.empty(1, 2, 0, 8), torch.empty(0, 2, 8, 8)
    functions_of_states["forward"](q, torch.tensor(bounds, dtype=torch.int32), state, torch.empty_like(q), state)


@pytest.mark.parametrize("decay", ["token", "element"])
@pytest.mark.parametrize("value", [0.0, -1e-30, -10.0, -1e4, -math.inf])
def test_packed_extreme_decays(decay, value):
    given = make(1, 70, decay=decay)
    given["g"] = torch.full_like(given["g"], value)
    bounds = torch.tensor([0, 3, 4, 64, 70], dtype=torch.int32)
    # The reference subtracts sums of log-decays.
    given["g"] = given["g"].clamp_min(-200.0)
    check(given, with_state=False, cu_seqlens=bounds)


@pytest.mark.parametrize("bounds", [[0, 30, 20, 70], [0, 71], [-1, 70], [0, 1 << 30]])
@pytest.mark.parametrize("decay", ["", "token"])
def test_wrong_boundaries_are_reported(bounds, decay):
    given = make(1, 70, decay=decay)
    message = "boundaries of sequences of linear attention that are not sorted or not within"
    with pytest.raises(AttnError, match=message):
        at.linear_attention(**given, cu_seqlens=torch.tensor(bounds, dtype=torch.int32))
    at.linear_attention(**given, cu_seqlens=torch.tensor([0, 70], dtype=torch.int32))


@pytest.mark.parametrize("decay", ["", "head", "token", "element"])
@pytest.mark.parametrize("causal", [True, False])
def test_key_lengths(decay, causal):
    if decay and not causal:
        return
    given = make(4, 67, decay=decay)
    lengths = torch.tensor([0, 1, 37, 67], dtype=torch.int32)
    for options in ({}, dict(feature="elu", normalize=True)):
        check(given, key_lengths=lengths, causal=causal, **options)
        check_gradients(make(4, 67, decay=decay), key_lengths=lengths.long(), causal=causal, **options)
    # Other numbers count as the nearest.
    beyond, _ = at.linear_attention(**given, key_lengths=torch.tensor([-5, 1, 37, 1000]), causal=causal)
    assert torch.equal(beyond, at.linear_attention(**given, key_lengths=lengths, causal=causal)[0])


def test_padding_may_be_anything():
    given = make(2, 50, decay="token")
    lengths = torch.tensor([20, 33])
    wanted, wanted_state = at.linear_attention(
        **given, key_lengths=lengths, feature="exp", normalize=True, output_final_state=True
    )
    for b, length in enumerate(lengths.tolist()):
        for name in ("k", "v", "g"):
            given[name][b, length:] = math.nan
    leaves = {name: x.requires_grad_() for name, x in given.items()}
    out, state = at.linear_attention(
        **leaves, key_lengths=lengths, feature="exp", normalize=True, output_final_state=True
    )
    assert torch.equal(out, wanted) and torch.equal(state, wanted_state)
    out.sum().backward()
    assert all(bool(x.grad.isfinite().all()) for x in leaves.values())


@pytest.mark.parametrize("decay", ["", "head", "token", "element"])
@pytest.mark.parametrize("block", [1, 16, 33, 100])
def test_local_blocks(decay, block):
    for causal in (True, False) if not decay else (True,):
        for tokens in (1, 48, 67):
            check(make(2, tokens, decay=decay), with_state=False, block=block, causal=causal)
        options = dict(block=block, causal=causal, feature="elu", normalize=True)
        check(make(2, 67, decay=decay, key_heads=1), with_state=False, **options)
        check_gradients(make(2, 50, decay=decay), with_state=False, **options)
        check_gradients(make(2, 50, decay=decay), with_state=False, block=block, causal=causal)
    lengths = torch.tensor([20, 67])
    check(make(2, 67, decay=decay), with_state=False, block=block, key_lengths=lengths)


def test_blocks_of_packed_sequences():
    bounds = torch.tensor([0, 20, 67], dtype=torch.int32)
    given = make(1, 67)
    out, _ = at.linear_attention(**given, cu_seqlens=bounds, block=16)
    for begin, end in ((0, 20), (20, 67)):
        part = {name: x[:, begin:end] for name, x in given.items()}
        assert error(out[:, begin:end], expected(**part, block=16)[0]) < F32


@pytest.mark.parametrize("decay", ["", "token", "element"])
@pytest.mark.parametrize("mask", ["cu_seqlens", "block", "key_lengths", ""])
def test_delta_rule(decay, mask):
    given = make(1 if mask == "cu_seqlens" else 2, 67, decay=decay, value_dim=16)
    given["k"] = torch.nn.functional.normalize(given["k"], dim=-1)
    given["beta"] = torch.rand(given["q"].shape[:3], generator=torch.Generator().manual_seed(4))
    masks = dict(
        cu_seqlens=torch.tensor([0, 9, 9, 40, 67], dtype=torch.int32), block=20, key_lengths=torch.tensor([0, 41])
    )
    options = {mask: masks[mask]} if mask else {}
    out, _ = at.gated_delta_rule(**given, **options)
    assert error(out, delta_rule(**given, **options)) < F32
    leaves = {name: x.clone().requires_grad_() for name, x in given.items()}
    doubles = {name: x.double().requires_grad_() for name, x in given.items()}
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(5)).double()
    (at.gated_delta_rule(**leaves, **options)[0].double() * weights).sum().backward()
    (delta_rule(**doubles, **options) * weights).sum().backward()
    for name, leaf in leaves.items():
        assert error(leaf.grad, doubles[name].grad) < 3e-5, name


def test_delta_rule_without_decay():
    given = make(1, 40, value_dim=16)
    given["beta"] = torch.rand(1, 40, 2)
    given["k"] = torch.nn.functional.normalize(given["k"], dim=-1)
    out, _ = at.gated_delta_rule(given["q"], given["k"], given["v"], None, given["beta"])
    assert error(out, delta_rule(**given)) < F32
    assert torch.equal(out, at.gated_delta_rule(**given)[0])


def test_unit_length():
    given = make(1, 40)
    check(given, use_qk_l2norm_in_kernel=True)
    check_gradients(given, use_qk_l2norm_in_kernel=True, feature="elu")


def compiled(options, given, **bounds):
    """The output and gradients in a graph of Inductor."""

    @torch.compile(fullgraph=True)
    def function(q, k, v, g, **named):
        return at.linear_attention(q * 2, k, v, g, **named, **options)[0] + 1

    leaves = {name: x.clone().requires_grad_() for name, x in given.items()}
    out = function(**leaves, **bounds)
    out.sum().backward()
    doubles = {name: x.double().requires_grad_() for name, x in given.items()}
    wanted = expected(**{**doubles, "q": doubles["q"] * 2}, **options, **bounds)[0] + 1
    wanted.sum().backward()
    assert error(out.detach(), wanted.detach()) < F32
    for name, leaf in leaves.items():
        assert error(leaf.grad, doubles[name].grad) < 5e-5, name


def test_inductor():
    given = make(1, 60, decay="token")
    bounds = torch.tensor([0, 9, 60], dtype=torch.int32)
    normalized = dict(normalize=True, eps=EPS)
    compiled(dict(feature="elu", **normalized), given, cu_seqlens=bounds)
    compiled(dict(feature="softmax", block=16), given)
    compiled(dict(**normalized, feature=torch.exp), given, key_lengths=torch.tensor([33]))


def test_inductor_packed_states():
    given = make(1, 60, decay="token")
    options = dict(cu_seqlens=torch.tensor([0, 9, 60], dtype=torch.int32), initial_state=torch.randn(2, 2, 16, 24))

    @torch.compile(fullgraph=True)
    def function(q, k, v, g, cu_seqlens, initial_state):
        return at.linear_attention(
            q, k, v, g, initial_state=initial_state, cu_seqlens=cu_seqlens, output_final_state=True
        )

    leaves = {name: x.clone().requires_grad_() for name, x in given.items()}
    results = function(**leaves, **options)
    doubles = {name: x.double().requires_grad_() for name, x in given.items()}
    wanted = expected_sequences(**doubles, **options)
    for result, exact in zip(results, wanted):
        assert error(result.detach(), exact.detach()) <= F32
    gradients = differentiate_both(results, leaves), differentiate_both(wanted, doubles)
    for name, gradient, exact in zip(leaves, *gradients):
        assert error(gradient, exact, least=0.1) <= 5e-5, name


def test_inductor_delta_rule():
    given = make(1, 60, value_dim=16)
    given["beta"] = torch.rand(1, 60, 2)
    bounds = torch.tensor([0, 9, 60], dtype=torch.int32)

    @torch.compile(fullgraph=True)
    def function(q, k, v, beta, cu_seqlens):
        return at.gated_delta_rule(q, k, v, beta=beta, cu_seqlens=cu_seqlens, use_qk_l2norm_in_kernel=True)[0]

    expected_out, _ = at.gated_delta_rule(**given, cu_seqlens=bounds, use_qk_l2norm_in_kernel=True)
    assert error(function(**given, cu_seqlens=bounds), expected_out.double()) < F32


@pytest.mark.parametrize(
    "change, message",
    [
        (
            dict(feature="gelu"),
            "feature is 'gelu'; it must be a function or one of 'elu', 'relu', 'exp', 'softmax', 'random'",
        ),
        (dict(feature="random"), "random_features is None; it must be a whole number from 1 to 65536"),
        (dict(feature="random", random_features=0, feature_seed=1), "random_features is 0; it must be a whole number"),
        (dict(feature="random", random_features=np.array([4, 5]), feature_seed=1), "random_features is .4 5.; it must"),
        (dict(feature="random", random_features=8, feature_seed=np.array([4, 5])), "feature_seed is .4 5.; it must be"),
        (dict(feature="random", random_features=8, feature_seed=2**64), "feature_seed is 18446744073709551616; it"),
        (dict(feature="random", random_features=8), "feature_seed is None; it must be a whole number of 64 bits"),
        (
            dict(feature="random", random_features=8, feature_seed=torch.zeros(1)),
            r"feature_seed has the shape \(1,\) and the dtype torch.float32 on cpu, expected one torch.int64 on cpu",
        ),
        (dict(random_features=8), "random_features needs feature='random'"),
        (dict(feature="exp", feature_seed=8), "feature_seed needs feature='random'"),
        (
            dict(feature="random", random_features=8, feature_seed=0, initial_state=torch.zeros(1, 2, 16, 16)),
            r"initial_state has the shape \(1, 2, 16, 16\), expected \(1, 2, 8, 16\)",
        ),
        (dict(feature=3), "feature is a int; pass a name or a function of rows"),
        (dict(feature=lambda x: x[:, 1:]), r"feature makes \(1, 7, 2, 16\) of q of the shape \(1, 8, 2, 16\)"),
        (dict(feature=lambda x: None), "feature makes NoneType of q"),
        (dict(normalize=True, eps=-1.0), "eps is -1.0; it must be from 0 to 3.4e[+]38, as an f32"),
        (dict(normalize=True, eps=math.nan), "eps is nan"),
        (dict(normalize=True, beta=torch.zeros(1, 8, 2)), "normalize=True does not go with beta"),
        (dict(block=0), "block is 0; it must be a whole number from 1 to 2147483647"),
        (dict(block=4.0), "block is 4.0; it must be a whole number"),
        (dict(chunk_size=64.0), "chunk_size is 64.0; it must be a power of two from 8 to 256"),
        (dict(key_lengths=torch.tensor([True])), "key_lengths has the shape .* and the dtype torch.bool, expected"),
        (dict(cu_seqlens=torch.tensor([False, True])), "cu_seqlens has the shape .* and the dtype torch.bool, expected"),
        (dict(g=-torch.ones(2), gk=-torch.ones(1, 8, 2, 16)), "g and gk are all log-decays; pass one of them"),
        (dict(g_gamma=-torch.ones(1, 8, 2)), r"g_gamma has the shape \(1, 8, 2\), expected \(heads\)"),
        (dict(gk=-torch.ones(2)), r"gk has the shape \(2,\), expected \(batch, positions, heads, key head dim\)"),
        (dict(cu_seqlens=torch.tensor([0, 2**32 + 4, 8])), "boundaries of sequences of linear attention that are not"),
        (dict(block=4, output_final_state=True), "block does not go with initial_state and output_final_state"),
        (dict(key_lengths=torch.zeros(2, dtype=torch.int32)), r"key_lengths has the shape \(2,\) and the dtype"),
        (dict(key_lengths=torch.zeros(1)), "key_lengths has the shape .* and the dtype torch.float32, expected"),
        (dict(key_lengths=[8]), "key_lengths is a list; pass a tensor of torch"),
        (
            dict(key_lengths=torch.tensor([8]), cu_seqlens=torch.tensor([0, 8])),
            "key_lengths does not go with cu_seqlens",
        ),
        (dict(cu_seqlens=torch.tensor([8])), r"cu_seqlens has the shape \(1,\)"),
        (
            dict(normalize=True, initial_state=torch.zeros(1, 2, 16, 16)),
            r"initial_state has the shape \(1, 2, 16, 16\), expected \(1, 2, 16, 17\)",
        ),
        (
            dict(cu_seqlens=torch.tensor([0, 3, 8]), initial_state=torch.zeros(3, 2, 16, 16)),
            r"initial_state has the shape \(3, 2, 16, 16\), expected \(2, 2, 16, 16\)",
        ),
        (dict(head_first=True), "head_first=True is not supported"),
    ],
)
def test_errors(change, message):
    given = dict(q=torch.zeros(1, 8, 2, 16), k=torch.zeros(1, 8, 2, 16), v=torch.zeros(1, 8, 2, 16))
    with pytest.raises((AttnError, UnsupportedError), match=message):
        at.linear_attention(**{**given, **change})


def test_names_of_log_decays():
    """fla-core has names for log-decays of heads and of key elements."""
    given = {name: torch.randn(1, 8, 2, 16) for name in "qkv"}
    for name, decay in (("g_gamma", -torch.rand(2)), ("gk", -torch.rand(1, 8, 2, 16))):
        expected, _ = at.linear_attention(**given, g=decay)
        assert torch.equal(at.linear_attention(**given, **{name: decay})[0], expected)


def test_lengths_beyond_32_bits():
    given = {name: torch.randn(2, 8, 2, 16) for name in "qkv"}
    whole, _ = at.linear_attention(**given)
    lengths = torch.tensor([2**32 + 3, -(2**32) + 3])
    out, _ = at.linear_attention(**given, key_lengths=lengths)
    assert torch.equal(out[0], whole[0]) and not out[1].any()


def test_random_features_errors():
    with pytest.raises(AttnError, match="features is 0; it must be at least 1"):
        at.RandomFeatures(16, 0)
    with pytest.raises(AttnError, match="rows have a head dim of 8, and random features one of 16"):
        at.RandomFeatures(16, 4)(torch.zeros(1, 8))


def test_description_errors():
    for change, message in (
        (dict(feature="gelu"), "feature is 'gelu'; it must be one of '', 'elu', 'relu', 'exp', 'softmax', 'random'"),
        (dict(feature="random"), "random_features is None and feature 'random'; both or none must be random"),
        (dict(random_features=4), "random_features is 4 and feature ''; both or none must be random"),
        (dict(feature="random", random_features=0), "random_features is 0; it must be from 1 to 65536"),
        (dict(normalizer_eps=-1.0), "normalizer_eps is -1.0; it must be from 0"),
        (dict(local_block=0), "local_block is 0; it must be from 1"),
    ):
        with pytest.raises(AttnError, match=message):
            attn.LinearAttention("f32", 2, 2, 2, 16, **change)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "change",
    [
        dict(normalizer_eps=EPS, decay="token", initial_state=True, with_final_state=True, feature="elu"),
        dict(feature="random", random_features=128, normalizer_eps=EPS, decay="token"),
        dict(sequences=True, beta=True),
        dict(sequences=True, decay="token", initial_state=True, with_final_state=True),
        dict(sequences=True, decay="element", beta=True, initial_state=True, with_final_state=True),
        dict(local_block=100, causal=False, key_lengths=True, normalizer_eps=EPS, feature="softmax"),
    ],
)
def test_gpu_targets(target, change):
    """Outputs and gradients have kernels for GPUs, also where there is none to run them."""
    description = attn.LinearAttention(dtype="bf16", heads=2, key_heads=2, value_heads=2, key_dim=64, **change)
    attn.compile(description, target=target, passes="attn-differentiate{function=linear_attention mode=combined}")


#: Positive random features of a projection from outside of the region, and features that are a concatenation.
CAPTURED = """
!q = tensor<?x2x?x16xf32>
!k = tensor<?x1x?x16xf32>
!x = tensor<?x?x?x16xf32>
!y = tensor<?x?x?x24xf32>
!z = tensor<?x?x?x48xf32>
!n = tensor<?x?x?xf32>
#rows = affine_map<(b, h, s, m, d) -> (b, h, s, d)>
#matrix = affine_map<(b, h, s, m, d) -> (m, d)>
#features = affine_map<(b, h, s, m, d) -> (b, h, s, m)>
#all = affine_map<(b, h, s, m) -> (b, h, s, m)>
#norms = affine_map<(b, h, s, m) -> (b, h, s)>
func.func @f(%q: !q, %k: !k, %v: !k, %w: tensor<24x16xf32>) -> !q {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %batch = tensor.dim %q, %c0 : !q
  %tokens = tensor.dim %q, %c2 : !q
  %out = tensor.empty(%batch, %tokens) : !q
  %r = attn.linear_attention ins(%q, %k, %v : !q, !k, !k) outs(%out : !q) causal normalizer(eps = 1.0e-3) feature {
  ^bb0(%x: !x):
    %zero = arith.constant 0.0 : f32
    %half = arith.constant 0.5 : f32
    %d0 = arith.constant 0 : index
    %d1 = arith.constant 1 : index
    %d2 = arith.constant 2 : index
    %s0 = tensor.dim %x, %d0 : !x
    %s1 = tensor.dim %x, %d1 : !x
    %s2 = tensor.dim %x, %d2 : !x
    %e0 = tensor.empty(%s0, %s1, %s2) : !n
    %z0 = linalg.fill ins(%zero : f32) outs(%e0 : !n) -> !n
    %n = linalg.generic {indexing_maps = [#all, #norms],
                         iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
        ins(%x : !x) outs(%z0 : !n) {
    ^bb0(%a: f32, %sum: f32):
      %p = arith.mulf %a, %a : f32
      %t = arith.addf %sum, %p : f32
      linalg.yield %t : f32
    } -> !n
    %e1 = tensor.empty(%s0, %s1, %s2) : !y
    %z1 = linalg.fill ins(%zero : f32) outs(%e1 : !y) -> !y
    %projected = linalg.generic {indexing_maps = [#rows, #matrix, #features],
                                 iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
        ins(%x, %w : !x, tensor<24x16xf32>) outs(%z1 : !y) {
    ^bb0(%a: f32, %b: f32, %sum: f32):
      %p = arith.mulf %a, %b : f32
      %t = arith.addf %sum, %p : f32
      linalg.yield %t : f32
    } -> !y
    %y = linalg.generic {indexing_maps = [#all, #norms, #all],
                         iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
        ins(%projected, %n : !y, !n) outs(%e1 : !y) {
    ^bb0(%a: f32, %b: f32, %old: f32):
      %h = arith.mulf %b, %half : f32
      %d = arith.subf %a, %h : f32
      %e = math.exp %d : f32
      linalg.yield %e : f32
    } -> !y
    %z = tensor.concat dim(3) %y, %y : (!y, !y) -> !z
    attn.linear_yield %z : !z
  } -> !q
  return %r : !q
}
"""


def test_captured_projection():
    generator = torch.Generator().manual_seed(6)
    q, k, v = (torch.randn(2, heads, 40, 16, generator=generator) / 2 for heads in (2, 1, 1))
    w = torch.randn(24, 16, generator=generator) / 2
    out, dout = torch.empty_like(q), torch.randn(q.shape, generator=generator)
    attn.compile(CAPTURED, target="host")["f"](q, k, v, w, out)
    doubles = [x.double().requires_grad_() for x in (q, k, v, w)]

    def phi(x):
        y = (x @ doubles[3].T - x.square().sum(-1, keepdim=True) / 2).exp()
        return torch.cat([y, y], dim=-1)

    rows = [x.transpose(1, 2) for x in doubles[:3]]
    wanted = expected(*rows, feature=phi, normalize=True)[0].transpose(1, 2)
    assert error(out, wanted.detach()) < F32
    gradients = [torch.empty_like(x) for x in (q, k, v, w)]
    passes = "attn-differentiate{function=f mode=combined}"
    attn.compile(CAPTURED, target="host", passes=passes)["f_grad"](q, k, v, w, dout, out, *gradients)
    for name, gradient, exact in zip("qkvw", gradients, torch.autograd.grad(wanted, doubles, dout.double())):
        assert error(gradient, exact, least=0.1) < 5e-5, name
