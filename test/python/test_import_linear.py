# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linear attention is found in exported graphs, and computed as before."""

import math
import warnings

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from attn.torch import from_export, sdpa  # noqa: E402
from attn.torch.import_linear import differences, linear  # noqa: E402
from torch import nn  # noqa: E402

BATCH, HEADS, TOKENS, DIM = 2, 3, 40, 8
WIDTH = HEADS * DIM


def tensors(count=3, tokens=TOKENS, heads=HEADS, dim=DIM):
    torch.manual_seed(count)
    return [torch.randn(BATCH, heads, tokens, dim) for _ in range(count)]


def causal(tokens=TOKENS):
    return torch.ones(tokens, tokens).tril()


def export(module, inputs, decomposed, **options):
    program = torch.export.export(module, tuple(inputs), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return from_export(program.run_decompositions() if decomposed else program)


def count(module, target):
    return sum(node.target is target for node in module.graph.nodes)


def is_scores(node):
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.shape[-2:] == (TOKENS, TOKENS)


def check(module, inputs, calls, decomposed=(False, True), has_scores=False, **options):
    """Compares with the module in f64."""
    expected = module.double()(*[tensor.double() for tensor in inputs]).float()
    module = module.float()
    for each in decomposed:
        found = export(module, inputs, each, **options)
        assert count(found, linear) == calls, found.meta["attn_left"]
        assert any(map(is_scores, found.graph.nodes)) == has_scores
        error = (found(*inputs) - expected).abs().max() / expected.abs().max()
        assert error < 2e-6, error
    return found


class Function(nn.Module):
    def __init__(self, function, **buffers):
        super().__init__()
        self.function = function
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)

    def forward(self, *inputs):
        return self.function(self, *inputs)


class Retention(nn.Module):
    """RetNet: a decay of each head, positions in rotary embeddings, a group norm over heads."""

    def __init__(self, is_learned=False):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        gamma = 1 - 2.0 ** (-1 - torch.arange(HEADS, dtype=torch.float32))
        distance = torch.arange(TOKENS)[:, None] - torch.arange(TOKENS)
        self.register_buffer("distance", distance.float())
        self.register_buffer("causal", causal().bool())
        self.is_learned = is_learned
        if is_learned:
            self.gamma = nn.Parameter(gamma)
        else:
            self.register_buffer("gamma", gamma)

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (HEADS, DIM)).transpose(1, 2) for part in (self.q, self.k, self.v))
        decay = torch.where(self.causal, self.gamma[:, None, None] ** self.distance, 0.0)
        y = (q @ (k * DIM**-0.5).transpose(-1, -2) * decay) @ v
        return self.out(F.rms_norm(y, (DIM,), eps=1e-5).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("is_learned", [False, True])
def test_retention(is_learned):
    torch.manual_seed(0)
    module = Retention(is_learned)
    x = torch.randn(BATCH, TOKENS, WIDTH)
    check(module, [x], calls=1)


def elu_attention(self, q, k, v):
    """Katharopoulos et al. (2020): a causal mask, and rows over their sums."""
    q, k = F.elu(q) + 1, F.elu(k) + 1
    weights = torch.matmul(q, k.transpose(-1, -2)) * self.mask
    return torch.matmul(weights / (weights.sum(-1, keepdim=True) + 1e-6), v)


def late_normaliser(self, q, k, v):
    weights = torch.einsum("bhid,bhjd->bhij", q.relu() + 0.1, k.relu() + 0.1).tril()
    return torch.einsum("bhij,bhjd->bhid", weights, v) / weights.sum(-1).clamp(min=1e-3)[..., None]


@pytest.mark.parametrize("function", [elu_attention, late_normaliser])
def test_normalisers(function):
    check(Function(function, mask=causal()), tensors(), calls=2)


class NormAttention(nn.Module):
    """TransNormer (Qin et al. 2022): no normaliser, and a norm over merged heads."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm = nn.RMSNorm(WIDTH, eps=1e-5)
        self.register_buffer("mask", causal())

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, DIM)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        y = torch.einsum("bhij,bhjd->bhid", torch.einsum("bhid,bhjd->bhij", q, k) * self.mask, v)
        return self.out(self.norm(y.transpose(1, 2).flatten(2)))


class DiagAttention(nn.Module):
    """TransNormer: attention within blocks of tokens."""

    def __init__(self, block=10, has_softmax=True):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.block, self.has_softmax = block, has_softmax

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (HEADS, DIM)).unflatten(1, (-1, self.block)).flatten(0, 1).transpose(1, 2)
            for part in self.qkv(x).chunk(3, -1)
        )
        scores = q @ k.transpose(-1, -2) * DIM**-0.5
        weights = scores.softmax(-1) if self.has_softmax else scores.relu()
        y = (weights @ v).transpose(1, 2).flatten(2)
        return y.unflatten(0, (x.shape[0], -1)).flatten(1, 2)


def test_transnormer():
    torch.manual_seed(0)
    x = torch.randn(BATCH, TOKENS, WIDTH)
    found = check(NormAttention(), [x], calls=1)
    assert any("rms_norm" in str(node.target) or "rsqrt" in str(node.target) for node in found.graph.nodes)
    for has_softmax in (True, False):
        module = DiagAttention(has_softmax=has_softmax)
        for decomposed in (False, True):
            found = export(module, [x], decomposed)
            assert count(found, sdpa) == has_softmax and count(found, linear) == 0
            torch.testing.assert_close(found(x), module(x), rtol=1e-5, atol=1e-5)


def rotate(x):
    angles = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * 100.0 ** (-torch.arange(0, DIM, 2) / DIM)
    cos, sin = angles.cos().repeat(1, 2).to(x.dtype), angles.sin().repeat(1, 2).to(x.dtype)
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat([-high, low], -1) * sin


def rotary_before(self, q, k, v):
    """MoLFormer (Ross et al. 2022): rotary positions before the feature map."""
    q, k = F.elu(rotate(q)) + 1, F.elu(rotate(k)) + 1
    weights = q @ k.transpose(-1, -2)
    return weights @ v / weights.sum(-1, keepdim=True)


def rotary_after(self, q, k, v):
    q, k = rotate(F.elu(q) + 1), rotate(F.elu(k) + 1)
    return q @ k.transpose(-1, -2) @ v


def test_rotary_before_and_after_feature_maps():
    """The order of both is kept: results differ."""
    before = check(Function(rotary_before), tensors(), calls=2)
    after = check(Function(rotary_after), tensors(), calls=1)
    assert not any(node.target is sdpa for each in (before, after) for node in each.graph.nodes)
    inputs = tensors()
    assert not torch.allclose(before(*inputs), after(*inputs), atol=0.1)


def test_decays_of_tokens():
    """Sums of log-decays; the sums are not computed where the log-decays are known."""

    def forward(self, q, k, v, g):
        c = -F.softplus(g).cumsum(-1)
        if self.is_log_decay:
            c = F.logsigmoid(g).cumsum(-1)
        exponent = (c.unsqueeze(-1) - c.unsqueeze(-2)).masked_fill(~self.mask, -math.inf)
        return (q @ k.mT * exponent.exp()) @ v

    torch.manual_seed(1)
    g = torch.randn(BATCH, HEADS, TOKENS)
    for is_log_decay in (False, True):
        module = Function(forward, mask=causal().bool())
        module.is_log_decay = is_log_decay
        found = check(module, [*tensors(), g], calls=1)
        assert count(found, differences) == (not is_log_decay)


@pytest.mark.parametrize("outer", ["bhsd,bhse->bhsde", "bhse,bhsd->bhsed"])
def test_cumulative_sums_of_states(outer):
    def forward(self, q, k, v):
        key_first = outer.startswith("bhsd,")
        states = torch.einsum(outer, *((k, v) if key_first else (v, k))).cumsum(2)
        return torch.einsum(f"bhsd,{outer.split('->')[1]}->bhse", q, states)

    q, k, v = tensors()
    check(Function(forward), [q, k, torch.cat([v, v], -1)], calls=1, decomposed=(False,))


def test_shared_heads_padding_and_factors():
    def forward(self, q, k, v, keep, factor):
        k, v = (t[:, :, None].expand(-1, -1, 2, -1, -1).flatten(1, 2) for t in (k, v))
        weights = (q @ k.transpose(-1, -2)).masked_fill(keep[:, None, None] < 0.5, 0.0)
        return (weights.tril() * factor[:, None, :, None]) @ v / 4

    (q,), (_, k, v) = tensors(1, heads=4), tensors(heads=2)
    keep, factor = (torch.rand(BATCH, TOKENS) < 0.7).float(), torch.rand(BATCH, TOKENS)
    found = check(Function(forward), [q, k, v, keep, factor], calls=1)
    (call,) = (node for node in found.graph.nodes if node.target is linear)
    assert call.args[1].meta["val"].shape[1] == 2


def test_lengths_that_vary():
    def forward(self, q, k, v):
        return (q @ k.transpose(-1, -2)).tril() @ v

    length = torch.export.Dim("length", min=2, max=512)
    shapes = (({2: length},) * 3,)
    found = check(Function(forward), tensors(), calls=1, dynamic_shapes=shapes)
    inputs = tensors(tokens=77)
    torch.testing.assert_close(found(*inputs), forward(None, *inputs), rtol=1e-4, atol=1e-4)


def masked_by_ones(self, q, k, v):
    mask = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).triu(1)
    return (q @ k.transpose(-1, -2)).masked_fill(mask, 0) @ v


def masked_by_positions(self, q, k, v):
    position = torch.arange(q.shape[-2], device=q.device)
    return (q @ k.transpose(-1, -2)).masked_fill(position[None] > position[:, None], 0) @ v


def masked_by_difference(self, q, k, v):
    position = torch.arange(q.shape[-2], device=q.device)
    is_kept = position[:, None] - position[None] + 1 > 0
    return torch.where(is_kept, q @ k.transpose(-1, -2), 0) @ v


@pytest.mark.parametrize("function", [masked_by_ones, masked_by_positions, masked_by_difference])
def test_masks_of_lengths_that_vary(function):
    length = torch.export.Dim("length", min=16, max=512)
    found = check(Function(function), tensors(), calls=1, dynamic_shapes=(({2: length},) * 3,))
    for tokens in (17, 77):
        inputs = tensors(tokens=tokens)
        expected = function(None, *[x.double() for x in inputs])
        torch.testing.assert_close(found(*inputs).double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("least, most", [(0, 50), (0, 5000), (1, 1 << 20), (-1, 1 << 20)])
def test_other_masks_of_lengths_that_vary_are_left(least, most):
    """Windows, also ones that are longer than most sequences, and masks with another diagonal."""

    def forward(self, q, k, v):
        position = torch.arange(q.shape[-2])
        distance = position[:, None] - position[None]
        return (q @ k.transpose(-1, -2)).masked_fill((distance < least) | (distance > most), 0) @ v

    length = torch.export.Dim("length", min=16, max=512)
    found = export(Function(forward), tensors(), decomposed=False, dynamic_shapes=(({2: length},) * 3,))
    assert count(found, linear) == 0 and "not known to be the causal one" in found.meta["attn_left"][0]
    torch.testing.assert_close(found(*tensors()), forward(None, *tensors()))


def positions_in(dtype, is_cast):
    def forward(self, q, k, v):
        tokens = q.shape[-2]
        position = torch.arange(tokens).to(dtype) if is_cast else torch.arange(tokens, dtype=dtype)
        return torch.where(position[:, None] >= position[None], q @ k.transpose(-1, -2), 0.0) @ v

    return forward


def scaled_positions(self, q, k, v):
    """``0.99 j`` is at most ``i`` for later keys, too, from the position 100 on."""
    position = torch.arange(q.shape[-2], dtype=torch.float32)
    distance = torch.sub(position[:, None], position[None], alpha=0.99)
    return torch.where(distance >= 0, q @ k.transpose(-1, -2), 0.0) @ v


@pytest.mark.parametrize(
    "function, most",
    [
        (positions_in(torch.bfloat16, False), 511),
        (positions_in(torch.bfloat16, True), 511),
        (positions_in(torch.float16, False), 3000),
        (positions_in(torch.int8, True), 300),
        (scaled_positions, 300),
    ],
)
def test_masks_of_rounded_positions_are_left(function, most):
    """Masks that are the causal one for few tokens alone."""
    length = torch.export.Dim("length", min=16, max=4096)
    for decomposed in (False, True):
        found = export(Function(function), tensors(), decomposed, dynamic_shapes=(({2: length},) * 3,))
        assert count(found, linear) == 0
        inputs = tensors(tokens=most)
        torch.testing.assert_close(found(*inputs), function(None, *inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32, torch.float64])
def test_masks_of_exact_positions(dtype):
    length = torch.export.Dim("length", min=16, max=512)
    check(Function(positions_in(dtype, False)), tensors(), calls=1, dynamic_shapes=(({2: length},) * 3,))


@pytest.mark.parametrize("is_clamped", [False, True])
def test_decays_of_all_pairs_below_a_mask(is_clamped):
    """The mask drops later keys, whose decays may be any numbers."""
    distance = torch.arange(TOKENS)[:, None] - torch.arange(TOKENS)
    decay = (torch.tensor([-0.1, -0.2, 0.0])[:, None, None] * distance).exp()
    decay = decay.clamp(max=1.0) if is_clamped else decay

    def forward(self, q, k, v):
        return ((q @ k.transpose(-1, -2)) * self.decay).tril() @ v

    def masked(self, q, k, v):
        return (q @ k.transpose(-1, -2)).tril() * self.decay @ v

    for function in (forward, masked):
        check(Function(function, decay=decay), tensors(), calls=1)


def twice_with_mask(self, q, k, v):
    q, k = q.relu() + 1e-3, k.relu() + 1e-3
    out = (q @ k.transpose(-1, -2) * self.mask) @ v
    return out / ((q @ k.transpose(-1, -2) * self.mask).sum(-1, keepdim=True) + 1e-6)


def twice_by_tril(self, q, k, v):
    out = (F.relu(q) @ F.relu(k).transpose(-1, -2)).tril() @ v
    return out / ((F.relu(q) @ F.relu(k).transpose(-1, -2)).tril().sum(-1, keepdim=True) + 1.0)


@pytest.mark.parametrize("function", [twice_with_mask, twice_by_tril])
def test_scores_that_are_computed_twice(function):
    """For the output and for its normaliser."""
    check(Function(function, mask=causal()), tensors(), calls=2)


def test_scores_of_other_operands_are_left():
    """The sum adds up scores of other keys."""

    def forward(self, q, k, v):
        out = (q.relu() @ k.relu().transpose(-1, -2)).tril() @ v
        return out / ((q.relu() @ k.exp().transpose(-1, -2)).tril().sum(-1, keepdim=True) + 1.0)

    check(Function(forward), tensors(), calls=1, has_scores=True)


def test_gradients():
    module = Function(elu_attention, mask=causal())
    inputs = [tensor.requires_grad_() for tensor in tensors()]
    found = export(module, inputs, decomposed=False)
    assert count(found, linear) == 2
    expected = torch.autograd.grad(module(*inputs).square().sum(), inputs)
    actual = torch.autograd.grad(found(*inputs).square().sum(), inputs)
    for got, wanted in zip(actual, expected):
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-4)


LEFT = [
    (lambda s, v, x: s.triu() @ v, ""),
    (lambda s, v, x: (s * causal()).relu() @ v, ""),
    (lambda s, v, x: s * x @ v, "neither the causal mask nor a decay"),
    (lambda s, v, x: s * causal().tril(-1) @ v, "a constant that is neither the causal mask nor decays"),
    (lambda s, v, x: s * (1.1 ** (torch.arange(TOKENS)[:, None] - torch.arange(TOKENS))).tril() @ v,
     "a constant that is neither the causal mask nor decays"),
    (lambda s, v, x: s.masked_fill(causal().tril(-3) == 0, 0.0) @ v, "not known to be the causal one"),
    (lambda s, v, x: (s.tril() * x.exp()) @ v, "no decay from keys to queries"),
    (lambda s, v, x: (s.tril() @ v) + s.sum(), "its scores are used elsewhere, too, by output"),
    (lambda s, v, x: s.tril() @ v / s.tril().abs().sum(-1, keepdim=True).clamp(min=1),
     "its scores are used elsewhere, too, by sum_1"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(LEFT)))
def test_what_is_left_and_why(number):
    function, reason = LEFT[number]
    inputs = [*tensors(), torch.rand(TOKENS, TOKENS)]

    def forward(self, q, k, v, x):
        return function(q @ k.transpose(-1, -2), v, x)

    found = export(Function(forward), inputs, decomposed=False)
    assert count(found, linear) == 0 and found.meta["attn_found"] == []
    assert any(reason in left for left in found.meta["attn_left"]) or not reason, found.meta["attn_left"]
    torch.testing.assert_close(found(*inputs), forward(None, *inputs))


def test_few_tokens_and_other_types_are_left():
    def forward(self, q, k, v):
        return (q @ k.transpose(-1, -2)).tril() @ v

    for inputs, reason in (
        (tensors(tokens=8), "8 tokens are no more than the 8 elements of a key"),
        ([tensor.double() for tensor in tensors()], "there are no kernels for torch.float64 on cpu"),
    ):
        found = export(Function(forward), inputs, decomposed=False)
        assert count(found, linear) == 0 and reason in found.meta["attn_left"][0]
