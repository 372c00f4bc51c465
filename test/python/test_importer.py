# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention is found in exported graphs, and computed as before."""

import copy
import math
import warnings

import attn.errors
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from attn.torch import from_export, sdpa  # noqa: E402
from torch import nn  # noqa: E402

WIDTH, HEADS, LAYERS, TOKENS, LENGTH = 64, 4, 2, 50, 24
DIM = WIDTH // HEADS


class GPT2Block(nn.Module):
    """Attention written out, with a mask from a buffer."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(2)])
        self.qkv, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.register_buffer("causal", torch.ones(1, 1, 64, 64, dtype=torch.bool).tril())

    def forward(self, x):
        length = x.shape[1]
        q, k, v = (
            part.view(*x.shape[:2], HEADS, DIM).transpose(1, 2) for part in self.qkv(self.norms[0](x)).split(WIDTH, 2)
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(DIM)
        least = torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype)
        scores = torch.where(self.causal[:, :, :length, :length], scores, least)
        weights = F.dropout(torch.softmax(scores, dim=-1), 0.0, self.training)
        x = x + self.project((weights @ v).transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norms[1](x))


class LlamaBlock(nn.Module):
    """Rotary positions, keys that are repeated, a mask that is added, and a softmax in f32."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.RMSNorm(WIDTH) for _ in range(2)])
        self.q, self.project = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.k, self.v = (nn.Linear(WIDTH, WIDTH // 2, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        angles = torch.arange(LENGTH)[:, None] * 10000.0 ** (-torch.arange(0, DIM, 2) / DIM)
        self.register_buffer("cos", angles.cos().repeat(1, 2))
        self.register_buffer("sin", angles.sin().repeat(1, 2))
        self.register_buffer("mask", torch.full((LENGTH, LENGTH), float("-inf")).triu(1))

    def rotate(self, x):
        low, high = x.chunk(2, -1)
        return x * self.cos + torch.cat([-high, low], -1) * self.sin

    def forward(self, x):
        y = self.norms[0](x)
        q, k, v = (part(y).unflatten(-1, (-1, DIM)).transpose(1, 2) for part in (self.q, self.k, self.v))
        q, k = self.rotate(q), self.rotate(k)
        k, v = (t[:, :, None].expand(-1, -1, 2, -1, -1).flatten(1, 2) for t in (k, v))
        scores = torch.matmul(q, k.transpose(2, 3)) * DIM**-0.5 + self.mask
        weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        x = x + self.project(torch.matmul(weights, v).transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def make_model(block):
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(TOKENS, WIDTH), *[block() for _ in range(LAYERS)], nn.Linear(WIDTH, TOKENS))


def train(model, steps=50, device="cpu"):
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        tokens = (torch.randint(TOKENS, (8, 1)) + torch.randint(1, 4, (8, 1)) * torch.arange(LENGTH + 1)) % TOKENS
        tokens = tokens.to(device)
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1).float(), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def calls(module):
    return [node for node in module.graph.nodes if node.target is sdpa]


@pytest.mark.parametrize("block", [GPT2Block, LlamaBlock])
@pytest.mark.parametrize("decomposed", [False, True])
def test_models_train_alike(block, decomposed):
    model = make_model(block)
    program = torch.export.export(model, (torch.zeros(8, LENGTH, dtype=torch.long),))
    module = from_export(program.run_decompositions() if decomposed else program)
    assert len(module.meta["attn_found"]) == LAYERS and module.meta["attn_left"] == []
    # The mask is known to be the causal one, and no softmax is left.
    assert all(call.args[3] is None and call.args[5] for call in calls(module))
    # Keys that were repeated are not.
    heads = HEADS // 2 if block is LlamaBlock else HEADS
    assert all(call.args[1].meta["val"].shape[1] == heads for call in calls(module))
    assert not any("softmax" in str(node.target) for node in module.graph.nodes)
    expected = train(make_model(block))
    assert expected[-1] < 0.5 * expected[0]
    torch.testing.assert_close(train(module), expected, rtol=1e-3, atol=1e-3)


def check(function, *inputs, found=1, decomposed=(False, True), **options):
    class Module(nn.Module):
        def forward(self, *args):
            return function(*args)

    expected = function(*inputs)
    result = None
    for decompose in decomposed:
        program = torch.export.export(Module(), inputs, **options)
        result = from_export(program.run_decompositions() if decompose else program)
        assert len(calls(result)) == found, result.meta["attn_left"]
        torch.testing.assert_close(result(*inputs), expected, rtol=1e-4, atol=1e-5)
    return result


def inputs(queries=12, keys=20, batch=2, heads=3):
    torch.manual_seed(0)
    return [torch.randn(batch, heads, length, 16) for length in (queries, keys, keys)]


def test_calls_of_torch():
    q, k, v = inputs()
    mask = torch.rand(12, 20) > 0.3
    bias = torch.randn(3, 12, 20)
    sdpa_of_torch = F.scaled_dot_product_attention
    check(lambda q, k, v: sdpa_of_torch(q, k, v, scale=0.3), q, k, v)
    check(lambda q, k, v: sdpa_of_torch(q, k, v, is_causal=True), q, k, v)
    check(lambda q, k, v, m: sdpa_of_torch(q, k, v, m), q, k, v, mask)
    check(lambda q, k, v, m: sdpa_of_torch(q, k, v, attn_mask=m), q, k, v, bias)
    check(lambda q, k, v: sdpa_of_torch(q, k[:, :1], v[:, :1], enable_gqa=True), q, k, v, decomposed=[False])


@pytest.mark.parametrize("change", [
    lambda s, mask, bias: s / 4.0,
    lambda s, mask, bias: s * 0.3 + bias,
    lambda s, mask, bias: bias + s,
    lambda s, mask, bias: s.masked_fill(mask, float("-inf")),
    lambda s, mask, bias: s.masked_fill(mask, -1e9) / 4.0,
    lambda s, mask, bias: torch.where(mask, torch.tensor(-1e9), s),
    lambda s, mask, bias: (s / 4.0).masked_fill(mask, -1e9) + bias,
    lambda s, mask, bias: s + (1.0 - mask.logical_not().float()) * -1e9,
    lambda s, mask, bias: s.masked_fill(torch.arange(20) > torch.arange(12)[:, None], float("-inf")),
    lambda s, mask, bias: s.masked_fill(torch.arange(20) > torch.arange(12)[:, None], -1e9).masked_fill(mask, -1e9),
])  # fmt: skip
def test_scores(change):
    q, k, v = inputs()
    mask = torch.rand(2, 1, 12, 20) > 0.6
    mask[..., 0] = False

    def attend(q, k, v, mask, bias):
        return torch.softmax(change(q @ k.transpose(-2, -1), mask, bias).float(), -1).type_as(q) @ v

    check(attend, q, k, v, mask, torch.randn(3, 12, 20))


def repeat_as_llama(x, times):
    batch, heads, length, channels = x.shape
    return x[:, :, None, :, :].expand(batch, heads, times, length, channels).reshape(
        batch, heads * times, length, channels
    )


@pytest.mark.parametrize("repeat", [
    repeat_as_llama,
    lambda x, times: torch.repeat_interleave(x, times, dim=1),
    lambda x, times: x.repeat_interleave(times, 1).contiguous(),
    lambda x, times: x.unsqueeze(2).expand(-1, -1, times, -1, -1).flatten(1, 2),
])
@pytest.mark.parametrize("calls_torch", [False, True])
def test_repeated_heads_are_shared(repeat, calls_torch):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, heads, length, 16) for heads, length in ((6, 12), (2, 20), (2, 20)))

    def attend(q, k, v):
        k, v = repeat(k, 3), repeat(v, 3)
        if calls_torch:
            return F.scaled_dot_product_attention(q, k, v)
        return torch.softmax(q @ k.transpose(2, 3) / 4, -1) @ v

    module = check(attend, q, k, v, decomposed=(False,) if calls_torch else (False, True))
    (call,) = calls(module)
    assert call.args[1].meta["val"].shape == k.shape and call.args[7] is True


@pytest.mark.parametrize("repeat", [
    # Alternating heads, not repeats one after another; positions.
    lambda k, v: (k.repeat(1, 3, 1, 1), v.repeat(1, 3, 1, 1)),
    lambda k, v: (k.repeat(1, 3, 1, 1).repeat_interleave(2, 2), v.repeat_interleave(3, 1).repeat(1, 1, 2, 1)),
])
def test_other_repetitions_are_not(repeat):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, heads, length, 16) for heads, length in ((6, 12), (2, 20), (2, 20)))

    def attend(q, k, v):
        k, v = repeat(k, v)
        return torch.softmax(q @ k.transpose(2, 3) / 4, -1) @ v

    (call,) = calls(check(attend, q, k, v))
    assert call.args[1].meta["val"].shape[1] == 6 and call.args[7] is False


@pytest.mark.parametrize("repeat", [
    lambda k, v: (k.repeat_interleave(3, 1), v.repeat(1, 3, 1, 1)),
    lambda k, v: (k.repeat_interleave(3, 1), v[:, :1].repeat_interleave(6, 1)),
])
@pytest.mark.parametrize("is_swapped", [False, True])
def test_keys_and_values_are_shared_in_other_groups(repeat, is_swapped):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, heads, length, 16) for heads, length in ((6, 12), (2, 20), (2, 20)))

    def attend(q, k, v):
        k, v = reversed(repeat(v, k)) if is_swapped else repeat(k, v)
        return torch.softmax(q @ k.transpose(2, 3) / 4, -1) @ v

    (call,) = calls(check(attend, q, k, v))
    shared = call.args[2 if is_swapped else 1], call.args[1 if is_swapped else 2]
    assert shared[0].meta["val"].shape[1] == 2 and shared[1].meta["val"].shape[1] in (1, 6) and call.args[7] is True


def test_layouts_and_sizes():
    q, k, v = inputs()
    check(lambda q, k, v: torch.softmax((q / 4) @ (k * 0.5).mT, -1) @ v, q, k, v)
    # Heads are the third dimension.
    args = [tensor.transpose(1, 2).contiguous() for tensor in (q, k, v)]
    check(lambda q, k, v: torch.softmax(q.transpose(1, 2) @ k.permute(0, 2, 3, 1), -1) @ v.transpose(1, 2), *args)
    # Batch and heads are one.
    args = [tensor.flatten(0, 1) for tensor in (q, k, v)]
    check(lambda q, k, v: torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)), -1), v), *args)
    length = torch.export.Dim("length", min=2)
    sizes = ({2: length}, {2: length}, {2: length})
    module = check(
        lambda q, k, v: torch.softmax(q @ k.mT, -1) @ v, *inputs(20, 20), decomposed=[False],
        dynamic_shapes=(sizes,),
    )  # fmt: skip
    q, k, v = inputs(33, 33)
    torch.testing.assert_close(module(q, k, v), torch.softmax(q @ k.mT, -1) @ v, rtol=1e-4, atol=1e-5)


def test_dropout():
    q, k, v = inputs(40, 40)

    class Module(nn.Module):
        def forward(self, q, k, v):
            return F.dropout(torch.softmax(q @ k.mT / 4, -1), 0.3, self.training) @ v

    for is_training, p in ((True, 0.3), (False, 0.0)):
        program = torch.export.export(Module().train(is_training), (q, k, v))
        for each in (program, program.run_decompositions()):
            (call,) = calls(from_export(each))
            assert call.args[4] == p


def test_gradients_and_compile():
    q, k, v = (tensor.requires_grad_() for tensor in inputs())

    class Module(nn.Module):
        def forward(self, q, k, v):
            return torch.softmax(q @ k.mT / 4, -1) @ v

    module = from_export(torch.export.export(Module(), (q, k, v)))
    expected = Module()(q, k, v)
    for call in (module, torch.compile(module, backend="aot_eager")):
        out = call(q, k, v)
        torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
        both = [torch.autograd.grad(x.square().sum(), (q, k, v), retain_graph=True) for x in (out, expected)]
        for actual, wanted in zip(*both):
            torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-4)


def softmax_by_hand(scores, least=lambda x: x.amax(-1, keepdim=True)):
    powers = torch.exp(scores - least(scores))
    return powers / powers.sum(-1, keepdim=True)


def softmax_of_tensorflow(scores):
    mask = torch.ones(scores.shape[-2:]).tril(3)
    return (scores * mask - 1e9 * (1 - mask)).softmax(-1)


def softmax_masked_by_numbers(scores):
    kept = (torch.arange(scores.shape[-1]) != 2).float()[None, None, None]
    return (scores * kept + (1.0 - kept) * -1e9).softmax(-1)


FORMS = {
    "einsum": lambda q, k, v: torch.einsum(
        "bhij,bhjd->bhid", (torch.einsum("bhid,bhjd->bhij", q, k) * 0.3).softmax(-1), v
    ),
    "einsum of keys first": lambda q, k, v: torch.einsum(
        "b h j d, b h i j -> b h i d", v, torch.einsum("bhjd,bhid->bhij", k, q).softmax(-1)
    ),
    "einsum of positions first": lambda q, k, v: torch.einsum(
        "bhij,bjhd->bihd",
        torch.einsum("bihd,bjhd->bhij", q.transpose(1, 2) * 0.3, k.transpose(1, 2)).softmax(-1),
        v.transpose(1, 2),
    ),
    "einsum and matmul": lambda q, k, v: torch.einsum("bhid,bhjd->bhij", q, k).softmax(-1) @ v,
    "matmul and einsum": lambda q, k, v: torch.einsum("nhst,nhtd->nshd", (q @ k.mT).softmax(-1), v),
    "cap": lambda q, k, v: (3.0 * torch.tanh((q @ k.mT) * 0.3 / 3.0)).softmax(-1) @ v,
    "cap and masks": lambda q, k, v: (
        (torch.tanh((q @ k.mT) / 2.0) * -2.0).masked_fill(torch.ones(12, 20).tril(4) == 0, -math.inf)
        + torch.arange(20) * 0.1
    ).softmax(-1) @ v,
    "by hand": lambda q, k, v: softmax_by_hand(q @ k.mT) @ v,
    "by hand, with max": lambda q, k, v: softmax_by_hand(q @ k.mT, lambda x: x.max(-1, keepdim=True)[0].detach()) @ v,
    "by hand, without": lambda q, k, v: (lambda e: e / e.sum(-1, keepdim=True))(torch.exp(q @ k.mT * 0.3)) @ v,
    "log_softmax": lambda q, k, v: (q @ k.mT * 0.3).log_softmax(-1).exp() @ v,
    "baddbmm": lambda q, k, v: torch.bmm(
        torch.baddbmm(
            torch.zeros(6, 12, 20), q.flatten(0, 1), k.flatten(0, 1).mT, beta=0, alpha=0.3
        ).softmax(-1),
        v.flatten(0, 1),
    ),
    "baddbmm of a bias": lambda q, k, v: torch.baddbmm(
        torch.arange(20).expand(6, 1, 20) * 0.1, q.flatten(0, 1), k.flatten(0, 1).mT, alpha=0.3
    ).view(2, 3, 12, 20).softmax(-1)
    @ v,
    "nan_to_num": lambda q, k, v: torch.nan_to_num((q @ k.mT).softmax(-1)) @ v,
    "tensorflow": lambda q, k, v: softmax_of_tensorflow(q @ k.mT) @ v,
    "tensorflow, added": lambda q, k, v: softmax_masked_by_numbers(q @ k.mT) @ v,
    "difference": lambda q, k, v: ((q @ k.mT) - torch.arange(20) * 0.1).softmax(-1) @ v,
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_forms(name):
    q, k, v = (tensor.requires_grad_() for tensor in inputs())

    class Module(nn.Module):
        def forward(self, q, k, v):
            return FORMS[name](q, k, v)

    wide = [tensor.detach().double().requires_grad_() for tensor in (q, k, v)]
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        expected = FORMS[name](*wide)
    finally:
        torch.set_default_dtype(default)
    program = torch.export.export(Module(), (q, k, v))
    for decompose in (False, True):
        module = from_export(program.run_decompositions() if decompose else program)
        assert len(calls(module)) == 1 and module.meta["attn_left"] == []
        assert not any(word in str(node.target) for node in module.graph.nodes for word in ("softmax", "exp.", "mm."))
        out = module(q, k, v)
        torch.testing.assert_close(out.double(), expected, rtol=1e-4, atol=1e-5)
        pairs = ((out, (q, k, v)), (expected, wide))
        both = [torch.autograd.grad(x.square().sum(), tensors, retain_graph=True) for x, tensors in pairs]
        for actual, wanted in zip(*both):
            torch.testing.assert_close(actual.double(), wanted, rtol=1e-3, atol=1e-4)


def test_rows_that_are_masked_altogether():
    def attend(q, k, v, mask):
        return torch.nan_to_num((q @ k.mT).masked_fill(mask, -math.inf).softmax(-1)) @ v

    mask = torch.zeros(12, 20, dtype=torch.bool)
    mask[3] = True
    module = check(attend, *inputs(), mask)
    assert (module(*inputs(), mask)[:, :, 3] == 0).all()


def test_masks_of_booleans_as_numbers():
    def attend(q, k, v, mask):
        kept = mask[:, None, None].to(q.dtype)
        return ((q @ k.mT) * kept - 1e9 * (1 - kept)).softmax(-1) @ v

    (call,) = calls(check(attend, *inputs(), torch.arange(20)[None] != torch.tensor([[3], [4]])))
    assert call.args[3].meta["val"].dtype == torch.bool


def test_many_keys_and_the_least_numbers_as_masks():
    # A multiple of the least number is infinite, in tiles where all scores are that.
    def attend(q, k, v, mask):
        return (q @ k.mT + (1.0 - mask[:, None, None].float()) * torch.finfo(q.dtype).min).softmax(-1) @ v

    mask = torch.arange(200)[None] < torch.tensor([[5], [150]])
    check(attend, *inputs(40, 200), mask)
    added = (1.0 - mask[:, None, None].float()) * torch.finfo(torch.float32).min
    check(lambda q, k, v, added: F.scaled_dot_product_attention(q, k, v, added), *inputs(40, 200), added)
    check(lambda q, k, v, added: (q @ k.mT + added).softmax(-1) @ v, *inputs(40, 200), added)


class WithBias(nn.Module):
    """A learned table of distances, as T5 has it."""

    def __init__(self, calls_torch, dtype=torch.float32):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(9, 3).to(dtype)
        self.calls_torch = calls_torch

    def forward(self, q, k, v):
        distance = torch.arange(20)[None] - torch.arange(12)[:, None]
        bias = self.table(distance.clamp(-4, 4) + 4).permute(2, 0, 1)[None]
        bias = bias.masked_fill(distance > 3, torch.finfo(bias.dtype).min)
        if self.calls_torch:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return torch.softmax(q @ k.mT / 4 + bias, -1) @ v


@pytest.mark.parametrize("calls_torch", [False, True])
@pytest.mark.parametrize("decomposed", [False, True])
def test_learned_biases(calls_torch, decomposed):
    program = torch.export.export(WithBias(calls_torch), tuple(inputs()))
    module = from_export(program.run_decompositions() if decomposed else program)
    assert len(calls(module)) == 1 and module.meta["attn_left"] == []
    wide = WithBias(calls_torch, torch.float64)
    with torch.no_grad():
        wide.table.weight.copy_(module.table.weight)
    out, expected = module(*inputs()), wide(*[tensor.double() for tensor in inputs()])
    torch.testing.assert_close(out.double(), expected, rtol=1e-4, atol=1e-5)
    (actual,) = torch.autograd.grad(out.square().sum(), [module.table.weight])
    (wanted,) = torch.autograd.grad(expected.square().sum(), [wide.table.weight])
    torch.testing.assert_close(actual.double(), wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("function,reason", [
    (lambda q, k, v: torch.softmax(q, -1), "not that of a matmul"),
    (lambda q, k, v: torch.softmax(q @ k.mT, 1) @ v, "not over the last dimension"),
    (lambda q, k, v: torch.softmax((q @ k.mT).sin(), -1) @ v, "sin.default is between the matmul and the softmax"),
    (lambda q, k, v: torch.softmax((q @ k.mT).sin() + q[..., :1], -1) @ v, "sin.default is between the matmul"),
    (lambda q, k, v: torch.softmax((q @ k.mT + q[..., :1]).tanh(), -1) @ v, "between the matmul and the cap"),
    (lambda q, k, v: torch.softmax((q @ k.mT).tanh().tanh(), -1) @ v, "between the matmul and the cap"),
    (lambda q, k, v: torch.softmax((q @ k.mT) * (q[..., :1] > 0) - 1e9 * (q[..., :1] < 1), -1) @ v, "mul.Tensor is"),
    (lambda q, k, v: torch.einsum("bhid,bhjd->bhij", q, k).softmax(-1).sum(1), "between the softmax and the"),
    (lambda q, k, v: torch.nan_to_num(torch.softmax(q @ k.mT, -1), 1.0) @ v, "is between the softmax and the matmul"),
    (lambda q, k, v: torch.softmax(q @ k.mT, -1).square() @ v, "is between the softmax and the matmul"),
    (lambda q, k, v: (lambda w: (w @ v, w))(torch.softmax(q @ k.mT, -1)),
     "attention probabilities are used more than once"),
    (lambda q, k, v: torch.softmax((q @ k.mT + q[..., :1]) * 2, -1) @ v, "scaled after something is added"),
    (lambda q, k, v: torch.softmax(q.double() @ k.double().mT, -1) @ v.double(), "no kernels for torch.float64 on cpu"),
])  # fmt: skip
def test_what_is_left_and_why(function, reason):
    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.function = function

        def forward(self, *args):
            return self.function(*args)

    program = torch.export.export(Module(), tuple(inputs()))
    attn.errors._warned.clear()
    with pytest.warns(attn.AttnWarning, match="no attention was found"):
        module = from_export(program)
    assert module.meta["attn_found"] == [] and reason in module.meta["attn_left"][0]
    expected, actual = Module.forward(module_of(function), *inputs()), module(*inputs())
    torch.testing.assert_close(actual, expected)


def module_of(function):
    holder = nn.Module()
    holder.function = function
    return holder


def test_what_is_left_beside_what_is_found():
    class Module(nn.Module):
        def forward(self, q, k, v, is_left):
            out = torch.softmax(q @ k.mT, -1) @ v
            if is_left:
                out = torch.softmax((out @ k.mT).sin(), -1) @ v
            # No attention, though a softmax: nothing to warn of.
            return torch.softmax(out, -1)

    for is_left in (True, False):
        program = torch.export.export(Module(), (*inputs(), is_left))
        attn.errors._warned.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                module = from_export(program)
        assert len(calls(module)) == 1 and len(module.meta["attn_left"]) == 1 + is_left
        texts = [str(each.message) for each in caught if each.category is attn.AttnWarning]
        if is_left:
            (text,) = texts
            assert "and 1 is not: softmax_1: aten.sin.default is between the matmul and the softmax" in text
            assert "softmax_2" not in text
        else:
            assert texts == []


def test_calls_of_torch_that_are_left():
    class Module(nn.Module):
        def forward(self, q, k, v):
            out = F.scaled_dot_product_attention(q, k, v)
            return F.scaled_dot_product_attention(out.double(), k.double(), v.double())

    program = torch.export.export(Module(), tuple(inputs()))
    attn.errors._warned.clear()
    with pytest.warns(attn.AttnWarning, match="scaled_dot_product_attention_1: there are no kernels for torch.float64"):
        module = from_export(program)
    assert len(calls(module)) == 1


def scale_in_place(q, k, v):
    scores = q @ k.mT
    scores /= 3.0
    scores.add_(q[..., :1].mT)
    return torch.softmax(scores, -1) @ v


def mask_in_place(q, k, v):
    scores = q @ k.mT
    mask = (q[..., 0] > 0)[:, :, None].expand_as(scores)
    scores.masked_fill_(mask, torch.finfo(scores.dtype).min)
    return torch.softmax(scores.float(), -1).type_as(scores) @ v


def bound_below(q, k, v):
    scores = q @ k.mT + torch.full((20, 20), torch.finfo(q.dtype).min).triu(1)
    return torch.softmax(torch.max(scores, torch.tensor(torch.finfo(q.dtype).min)), -1) @ v


def write_to_a_view(q, k, v):
    """Scores are read after a write through a view of them."""
    scores = q @ k.mT
    scores.mT.mul_(0.5)
    return torch.softmax(scores, -1) @ v


def read_by_a_view(q, k, v):
    scores = q @ k.mT
    rows = scores.mT
    scores.mul_(0.5)
    return torch.softmax(rows, -1) @ v + torch.softmax(scores.sin(), -1) @ v


def write_to_an_operand(q, k, v):
    """The sum has the dtype of the scores."""
    scores = (q @ k.mT).bfloat16()
    scores += q[..., :1].float()
    return torch.softmax(scores.float(), -1) @ v


def rotate_in_place(q, k, v):
    """The scale before the write would be taken from the matmul."""
    q = q * 0.25
    q[..., :8] *= 3
    return torch.softmax(q @ k.mT, -1) @ v


def write_to_keys(q, k, v):
    k = k.clone()
    k[..., :8].mul_(3)
    return torch.softmax(q @ k.mT, -1) @ v


def write_to_parts(q, k, v):
    scores = q @ k.mT
    first, _ = scores.chunk(2, 1)
    first.mul_(3)
    return torch.softmax(scores, -1) @ v


def keep_parts(q, k, v):
    """The parts are read after the write."""
    scores = q @ k.mT
    first, second = scores.chunk(2, -1)
    scores.add_(1.0)
    return torch.softmax(scores, -1) @ v + torch.cat((first, second), -1) @ v


def write_lists(q, k, v):
    scores = q @ k.mT
    torch._foreach_mul_([scores], 0.5)
    return torch.softmax(scores, -1) @ v


def write_by_out(q, k, v):
    scores = q @ k.mT
    view = scores.view(6, 20, 20)
    torch.mul(scores, 0.25, out=scores)
    return torch.softmax(view.view(2, 3, 20, 20), -1) @ v


def write_to_the_result(q, k, v):
    q, k, v = (x.reshape(2, 20, 3, 16).transpose(1, 2) for x in (q, k, v))
    out = torch.softmax(q @ k.mT, -1) @ v + 1.0
    out.view(6, 20, 16).mul_(3)
    return out


def write_to_shared_heads(q, k, v):
    k = k[:, :1].repeat_interleave(3, 1)
    k[:, 0].mul_(3)
    return F.scaled_dot_product_attention(q, k, v)


@pytest.mark.parametrize(
    "function,count",
    [(scale_in_place, 1), (mask_in_place, 1), (bound_below, 1), (write_to_a_view, None), (read_by_a_view, None),
     (write_to_an_operand, None), (rotate_in_place, 0), (write_to_keys, 0), (write_to_parts, 0), (keep_parts, None),
     (write_lists, 0), (write_by_out, 0), (write_to_the_result, 1), (write_to_shared_heads, 0)],
)  # fmt: skip
def test_operations_in_place(function, count):
    class Module(nn.Module):
        def forward(self, *args):
            return function(*args)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(Module(), tuple(inputs(20, 20)))
        module = from_export(program)
    assert count is None or len(module.meta["attn_found"]) == count
    torch.testing.assert_close(module(*inputs(20, 20)), function(*inputs(20, 20)), rtol=1e-4, atol=1e-5)


class WithBuffers(nn.Module):
    """A cache of keys, a scale that changes with each call, and a counter."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 3, 20, 16))
        self.register_buffer("scale", torch.tensor(0.25))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, q, k, v):
        self.calls.add_(1)
        self.keys[:, :, :12].copy_(k[:, :, :12])
        scores = q @ self.keys.mT * self.scale
        out = torch.softmax(scores, -1) @ v
        self.scale.mul_(1.5)
        return out


@pytest.mark.parametrize("decomposed", [False, True])
def test_buffers_that_are_written(decomposed):
    """Buffers are no constants, and importing does not change them."""
    program = torch.export.export(WithBuffers(), tuple(inputs(20, 20)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = from_export(program.run_decompositions() if decomposed else program)
    expected = WithBuffers()
    for seed in range(3):
        torch.manual_seed(seed)
        q, k, v = (torch.randn(2, 3, 20, 16) for _ in range(3))
        torch.testing.assert_close(module(q, k, v), expected(q, k, v), rtol=1e-4, atol=1e-5)
    assert dict(module.named_buffers())["calls"] == 3


class WithCache(nn.Module):
    """New keys and values are written to a cache before attention."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.randn(2, 3, 20, 16))
        self.register_buffer("values", torch.randn(2, 3, 20, 16))

    def forward(self, q, k, v, place):
        self.keys.index_copy_(2, place, k)
        self.values.index_copy_(2, place, v)
        return torch.softmax(q @ self.keys.mT * 0.25, -1) @ self.values


@pytest.mark.parametrize("decomposed", [False, True])
def test_caches(decomposed):
    torch.manual_seed(0)
    model, rows = WithCache(), [torch.randn(2, 3, 1, 16) for _ in range(3)]
    reference = copy.deepcopy(model)
    program = torch.export.export(model, (*rows, torch.tensor([5])))
    module = from_export(program.run_decompositions() if decomposed else program)
    assert len(calls(module)) == 1
    for place in (3, 4):
        actual, expected = (each(*rows, torch.tensor([place])) for each in (module, reference))
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


class WithSinks(nn.Module):
    """Attention whose softmax has a sink, of each head or of each query, as gpt-oss and Inkling 2 write it."""

    def __init__(self, of_queries, is_shifted):
        super().__init__()
        self.sinks = nn.Parameter(torch.tensor([2.0, -1.0, 0.5, 4.0]))
        self.of_queries, self.is_shifted = of_queries, is_shifted

    def forward(self, q, k, v, more):
        k, v = (x.repeat_interleave(2, 1) for x in (k, v))
        scores = (q @ k.transpose(2, 3)) * 0.25 + more
        sinks = self.sinks.reshape(1, -1, 1, 1).expand(q.shape[0], -1, q.shape[2], -1)
        if self.of_queries:
            sinks = q.sum(-1, keepdim=True) * sinks
        logits = torch.cat([scores, sinks], dim=-1)
        if self.is_shifted:
            logits = logits - logits.max(dim=-1, keepdim=True).values
        weights = F.softmax(logits, dim=-1, dtype=logits.dtype)[..., :-1]
        return F.dropout(weights, 0.0) @ v


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("is_shifted", [False, True])
@pytest.mark.parametrize("of_queries", [False, True])
def test_sinks(of_queries, is_shifted, decomposed):
    """Values and gradients, for lengths that vary, against float64."""
    torch.manual_seed(0)
    model = WithSinks(of_queries, is_shifted)

    def make(length):
        shapes = ((2, 4, length, 16), (2, 2, length, 16), (2, 2, length, 16), (1, 1, length, length))
        return [torch.randn(shape, requires_grad=True) for shape in shapes]

    length = torch.export.Dim("length", min=2, max=64)
    shapes = {name: {2: length} for name in "qkv"} | {"more": {2: length, 3: length}}
    program = torch.export.export(model, tuple(make(12)), dynamic_shapes=shapes)
    module = from_export(program.run_decompositions() if decomposed else program)
    assert len(module.meta["attn_found"]) == 1 and module.meta["attn_left"] == []
    (call,) = calls(module)
    assert set(call.kwargs) == {"state" if of_queries else "sinks"} and call.args[1].meta["val"].shape[1] == 2
    for number in (12, 33):
        inputs = make(number)
        exact = [x.detach().double().requires_grad_() for x in inputs]
        reference = WithSinks(of_queries, is_shifted).double()
        expected, actual = reference(*exact), module(*inputs)
        torch.testing.assert_close(actual.double(), expected, rtol=1e-5, atol=1e-5)
        dout = torch.randn(actual.shape)
        module.zero_grad()
        actual.backward(dout)
        expected.backward(dout.double())
        for x, y in zip((*inputs, *module.parameters()), (*exact, reference.sinks)):
            torch.testing.assert_close(x.grad.double(), y.grad, rtol=1e-4, atol=1e-4)


def test_sinks_that_are_left():
    def left(function, *shapes):
        class Model(nn.Module):
            def forward(self, q, k, v, sinks):
                return function(q @ k.mT, v, sinks)

        inputs = [torch.randn(shape) for shape in shapes]
        attn.errors._warned.clear()
        with pytest.warns(attn.errors.AttnWarning):
            module = from_export(torch.export.export(Model(), tuple(inputs)))
        assert torch.equal(module(*inputs), Model()(*inputs))
        (reason,) = module.meta["attn_left"]
        return reason

    def cut_first(scores, v, sinks):
        return torch.cat([scores, sinks], -1).softmax(-1)[..., 1:] @ v

    def plain(scores, v, sinks):
        return torch.cat([scores, sinks], -1).softmax(-1)[..., :-1] @ v

    def step(scores, v, sinks):
        return torch.cat([scores, sinks], -1).softmax(-1)[..., ::2] @ v

    shape, short = (2, 4, 12, 16), (2, 4, 2, 16)
    assert "their probabilities are not cut off" in left(step, short, short, short, (2, 4, 2, 1))
    assert "their probabilities are not cut off" in left(cut_first, shape, shape, shape, (2, 4, 12, 1))
    assert "other dimensions than batch, heads" in left(plain, shape[1:], shape[1:], shape[1:], (4, 12, 1))


@pytest.mark.parametrize("sizes", [(2, 1), (1, 4), (2, 4), (1, 1)])
def test_heads_in_the_batch(sizes):
    """Scores of bmm with batch and heads in one dimension, to which masks of four dimensions are added, as in BART of
    fairseq; the batch size varies if the mask's does."""

    class Model(nn.Module):
        def forward(self, q, k, v, mask):
            batch, _, length, _ = q.shape
            q, k, v = (x.reshape(batch * 4, length, 16) for x in (q, k, v))
            scores = torch.bmm(q * 0.25, k.transpose(1, 2)).view(batch, 4, length, length) + mask
            weights = scores.view(batch * 4, length, length).softmax(-1)
            return torch.bmm(F.dropout(weights, 0.0), v).view(batch, 4, length, 16).transpose(1, 2)

    def make(batch):
        rows = [torch.randn(batch, 4, 12, 16, requires_grad=True) for _ in range(3)]
        return *rows, torch.randn(batch if sizes[0] == 2 else 1, sizes[1], 12, 12)

    batch = torch.export.Dim("batch", min=2, max=64)
    shapes = {name: {0: batch} for name in "qkv"} | {"mask": {0: batch} if sizes[0] == 2 else {}}
    program = torch.export.export(Model(), make(2), dynamic_shapes=shapes)
    for decomposed in (False, True):
        module = from_export(program.run_decompositions() if decomposed else program)
        assert len(calls(module)) == 1 and module.meta["attn_left"] == []
        # The mask is not repeated.
        assert calls(module)[0].args[3].meta["val"].shape[-3:-2] == sizes[1:] or sizes == (1, 1)
        for number in (2, 3):
            inputs = make(number)
            exact = [x.detach().double().requires_grad_(x.requires_grad) for x in inputs]
            actual, expected = module(*inputs), Model()(*exact)
            torch.testing.assert_close(actual.double(), expected, rtol=1e-5, atol=1e-5)
            actual.square().sum().backward()
            expected.square().sum().backward()
            for x, y in zip(inputs[:3], exact):
                torch.testing.assert_close(x.grad.double(), y.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch,queries,sizes", [(4, 8, (1, 4, 1, 8)), (2, 8, (2, 1, 8, 8)), (4, 1, (1, 4, 1, 8))])
def test_queries_in_the_batch(batch, queries, sizes):
    """The first dimension of scores is not batch and heads, though their mask has these."""

    class Model(nn.Module):
        def forward(self, q, k, v, mask):
            scores = torch.bmm(q.reshape(batch, 4 * queries, 16), k.transpose(1, 2))
            scores = scores.view(batch, 4, queries, 8) + mask
            return torch.bmm(scores.view(batch, 4 * queries, 8).softmax(-1), v)

    inputs = (torch.randn(batch, 4, queries, 16), *torch.randn(2, batch, 8, 16), torch.randn(sizes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = from_export(torch.export.export(Model(), inputs))
    assert "a mask is added to scores of the shape" in module.meta["attn_left"][0]
    torch.testing.assert_close(module(*inputs), Model()(*inputs))


def test_views_of_results():
    """Strides of a result differ from the strides of a matmul, so that views of it are copies."""

    class Model(nn.Module):
        def forward(self, x):
            q, k, v = (part.view(2, 12, 4, 16).transpose(1, 2) for part in x.split(64, 2))
            out = (q @ k.mT).softmax(-1) @ v
            return out.view(2, 48, 16), (2 * out).view(8, 192)

    x = torch.randn(2, 12, 192)
    module = from_export(torch.export.export(Model(), (x,)))
    assert len(calls(module)) == 1
    for actual, expected in zip(module(x), Model()(x)):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("program,name", [("x", "str"), (None, "NoneType"), (nn.Linear(2, 2), "Linear")])
def test_programs_of_other_types(program, name):
    with pytest.raises(TypeError, match=f"program is a {name}; pass what torch.export.export returns") as caught:
        from_export(program)
    assert isinstance(caught.value, attn.AttnError)


def test_masks_of_a_length_that_varies():
    def attend(q, k, v):
        length = q.shape[2]
        mask = torch.full((length, length), torch.finfo(q.dtype).min).triu(1)[None, None]
        return torch.softmax(q @ k.mT / 4 + mask, -1) @ v

    length = torch.export.Dim("length", min=2, max=64)
    module = check(attend, *inputs(20, 20), dynamic_shapes=(({2: length},) * 3,))
    q, k, v = inputs(33, 33)
    torch.testing.assert_close(module(q, k, v), attend(q, k, v), rtol=1e-4, atol=1e-5)


def test_no_softmax():
    program = torch.export.export(nn.Linear(4, 4), (torch.randn(2, 4),))
    attn.errors._warned.clear()
    with pytest.warns(attn.AttnWarning, match="the graph has no softmax"):
        from_export(program)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_export(program)
