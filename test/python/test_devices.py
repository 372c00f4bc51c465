# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""attn.torch in bf16 on a GPU if there is one, and else on the host, against torch in f64.

With ATTN_TEST_COMPILE_FOR=sm_90a, kernels for that target are compiled on the way:
the cache that they fill, `kernels` in ATTN_TEST_CACHE_DIR, serves on a machine without a compiler.
"""

import contextlib
import os

import pytest

torch = pytest.importorskip("torch")

import attn.torch  # noqa: E402
import test_importer  # noqa: E402
from attn.torch import flex_attention, sdpa  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
B, H, S, D = 2, 4, 200, 64


@pytest.fixture(autouse=True)
def compile_for():
    target = os.environ.get("ATTN_TEST_COMPILE_FOR")
    with attn.torch.compile_for(target) if target else contextlib.nullcontext():
        yield


def make_inputs(key_heads=H, queries=S, keys=S):
    torch.manual_seed(0)
    shapes = ((B, H, queries, D), (B, key_heads, keys, D), (B, key_heads, keys, D))
    return [torch.randn(shape).to(DEVICE, torch.bfloat16).requires_grad_() for shape in shapes]


def reference(q, k, v, change=lambda scores: scores, kept=1.0):
    groups = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(groups, 1) for x in (k, v))
    return (torch.softmax(change(q @ k.mT / q.shape[-1] ** 0.5), -1) * kept) @ v


def causal(scores):
    keep = torch.ones(scores.shape[-2:], dtype=torch.bool, device=DEVICE).tril()
    return scores.masked_fill(~keep, float("-inf"))


def gradients(out, inputs):
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(DEVICE, torch.bfloat16)
    return torch.autograd.grad(out, inputs, weights.to(out.dtype))


def compare(call, change=lambda scores: scores, kept=1.0, **shape):
    inputs = make_inputs(**shape)
    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    exact = reference(*wide, change, kept)
    out = call(*inputs)
    for actual, expected in zip((out, *gradients(out, inputs)), (exact, *gradients(exact, wide))):
        assert (actual.double() - expected).norm() <= 1.5e-2 * expected.norm()
    with torch.no_grad():
        torch.testing.assert_close(call(*inputs), out) if isinstance(kept, float) else None


def test_plain():
    compare(sdpa)
    compare(lambda q, k, v: sdpa(q, k, v, is_causal=True), causal)
    compare(lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True), causal, key_heads=2)
    compare(lambda q, k, v: sdpa(q, k, v, scale=0.3), lambda scores: scores * 0.3 * 8, queries=70, keys=330)


def test_masks():
    mask = (torch.rand(B, 1, S, S, generator=torch.Generator().manual_seed(2)) > 0.3).to(DEVICE)
    compare(lambda q, k, v: sdpa(q, k, v, attn_mask=mask), lambda scores: scores.masked_fill(~mask, float("-inf")))
    bias = torch.randn(H, S, S, generator=torch.Generator().manual_seed(2)).to(DEVICE, torch.bfloat16)
    compare(lambda q, k, v: sdpa(q, k, v, attn_mask=bias), lambda scores: scores + bias)


def test_functions():
    slopes = torch.rand(H, generator=torch.Generator().manual_seed(2)).to(DEVICE)
    documents = (torch.arange(S) // 70).to(DEVICE)
    distance = torch.arange(S, device=DEVICE)[:, None] - torch.arange(S, device=DEVICE)

    def score(s, b, h, i, j):
        return s - slopes[h] * (i - j)

    def mask(b, h, i, j):
        return (i >= j) & (documents[i] == documents[j])

    def change(scores):
        keep = documents[:, None] == documents
        return causal(scores - slopes[:, None, None] * distance).masked_fill(~keep, float("-inf"))

    compare(lambda q, k, v: flex_attention(q, k, v, score, mask), change)


def recover_mask(p, length):
    """The pairs that the next call keeps, from equal probabilities and values that are rows of the identity."""
    zeros = torch.zeros(B, H, length, D, device=DEVICE, dtype=torch.bfloat16)
    values = torch.eye(length, device=DEVICE, dtype=torch.bfloat16).expand(B, H, -1, -1).contiguous()
    # Dropped probabilities need not be zero: a GPU may leave 2^-64 of them (docs/rng.md).
    return sdpa(zeros, zeros, values, dropout_p=p) > 0.5 / length


@pytest.mark.parametrize("p", [0.125, 0.1])
def test_dropout(p):
    effective = round(p * 256) / 256
    torch.manual_seed(3)
    kept = recover_mask(p, 64)
    assert abs((~kept).double().mean() - effective) < 0.01

    def call(q, k, v):
        torch.manual_seed(3)
        return sdpa(q, k, v, dropout_p=p)

    compare(call, kept=kept / (1 - effective), queries=64, keys=64)
    q, k, v = make_inputs()
    torch.manual_seed(3)
    first, second = (sdpa(q, k, v, dropout_p=p) for _ in range(2))
    torch.manual_seed(3)
    assert torch.equal(sdpa(q, k, v, dropout_p=p), first) and not torch.equal(first, second)


def test_dropout_follows_the_generator():
    from torch.utils.checkpoint import checkpoint

    q, k, v = make_inputs()

    def call(query=q):
        return sdpa(query, k, v, dropout_p=0.125)

    module = torch.cuda if DEVICE == "cuda" else torch
    torch.manual_seed(3)
    call()
    state = module.get_rng_state()
    first, numbers, second = call(), torch.rand(4, device=DEVICE), call()
    module.set_rng_state(state)
    with torch.random.fork_rng():
        torch.manual_seed(4)
        other = call()
    with torch.inference_mode():
        again = call()
    assert torch.equal(again, first) and torch.equal(torch.rand(4, device=DEVICE), numbers)
    assert torch.equal(call(), second)
    results = (first, second, other)
    assert not any(torch.equal(results[i], results[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
    # What a checkpoint repeats, after other calls, has the same gradients.
    pairs = []
    # Checkpoints keep the states of the devices of their arguments.
    for run in (lambda f: f(q), lambda f: checkpoint(f, q, use_reentrant=False)):
        torch.manual_seed(5)
        outs = [run(call) for _ in range(3)]
        pairs.append(gradients(sum(outs), (q, k, v)))
    # Sums may have another order.
    assert all((one - other).norm() <= 1e-2 * one.norm() for one, other in zip(*pairs))
    # Numbers of several streams go on from one another.
    if DEVICE == "cuda":
        torch.manual_seed(3)
        call()
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            assert torch.equal(call(), first)
            assert torch.equal(torch.rand(4, device=DEVICE), numbers)
        torch.cuda.synchronize()
        assert torch.equal(call(), second)


@pytest.mark.skipif(DEVICE == "cpu", reason="graphs are those of CUDA")
def test_graphs_of_cuda_drop_anew():
    q, k, v = (tensor.detach() for tensor in make_inputs())
    sdpa(q, k, v, dropout_p=0.125)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = sdpa(q, k, v, dropout_p=0.125)
    results = []
    for _ in range(2):
        graph.replay()
        results.append(out.clone())
    # Calls that no graph holds go on from there.
    results += [sdpa(q, k, v, dropout_p=0.125) for _ in range(2)]
    assert not any(torch.equal(results[i], results[j]) for i in range(4) for j in range(i))
    assert all(torch.isfinite(result).all() for result in results)


@pytest.mark.parametrize("block", [test_importer.GPT2Block, test_importer.LlamaBlock])
def test_exported_models_train_alike(block):
    def make_model():
        return test_importer.make_model(block).to(DEVICE, torch.bfloat16)

    tokens = torch.zeros(8, test_importer.LENGTH, dtype=torch.long, device=DEVICE)
    module = attn.torch.from_export(torch.export.export(make_model(), (tokens,)))
    assert len(module.meta["attn_found"]) == test_importer.LAYERS
    expected = test_importer.train(make_model(), device=DEVICE)
    losses = test_importer.train(module, device=DEVICE)
    assert expected[-1] < 0.5 * expected[0]
    torch.testing.assert_close(losses, expected, rtol=5e-2, atol=5e-2)


class Model(torch.nn.Module):
    def __init__(self, dropout_p=0.0):
        super().__init__()
        self.dropout_p = dropout_p
        self.qkv, self.out = (torch.nn.Linear(H * D, n * H * D) for n in (3, 1))

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, H, D)).permute(2, 0, 3, 1, 4)
        return self.out(sdpa(q, k, v, is_causal=True, dropout_p=self.dropout_p).transpose(1, 2).flatten(2))


def test_sinks_and_head_maps():
    sinks = torch.randn(H, generator=torch.Generator().manual_seed(3)).to(DEVICE, torch.bfloat16)
    heads = torch.tensor([1, 0, 1, 1], dtype=torch.int32, device=DEVICE)

    def attend(q, k, v):
        scores = q @ k[:, heads.long()].mT / D**0.5
        scores = torch.cat((scores, sinks.double()[:, None, None].expand(*scores.shape[:-1], 1)), -1)
        return scores.softmax(-1)[..., :-1] @ v[:, heads.long()]

    inputs = make_inputs(key_heads=2)
    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    out, exact = sdpa(*inputs, sinks=sinks, head_map=heads), attend(*wide)
    for actual, expected in zip((out, *gradients(out, inputs)), (exact, *gradients(exact, wide))):
        assert (actual.double() - expected).norm() <= 1.5e-2 * expected.norm()


@pytest.mark.parametrize("decay", ["", "head", "token"])
def test_linear_attention(decay):
    """Calls of parts of a sequence, which pass the state on."""
    q, k, v = (tensor.detach().transpose(1, 2) for tensor in make_inputs(key_heads=2))
    shape = {"head": (H,), "token": (B, S, H)}.get(decay)
    g = torch.nn.functional.logsigmoid(torch.randn(shape, device=DEVICE)) if shape else None
    state, exact, rows, exact_rows = None, torch.zeros(B, H, D, D, dtype=torch.float64, device=DEVICE), [], []
    for part in (slice(0, 70), slice(70, S)):
        parts = q[:, part], k[:, part], v[:, part], g[:, part] if decay == "token" else g
        out, state = attn.torch.linear_attention(*parts, initial_state=state, output_final_state=True)
        rows.append(out)
    for t in range(S):
        factor = g[:, t] if decay == "token" else g
        exact = exact * factor.double().exp()[..., None, None] if decay else exact
        key, value = (tensor[:, t].double().repeat_interleave(2, 1) for tensor in (k, v))
        exact = exact + key[..., None] * value[..., None, :]
        exact_rows.append(torch.einsum("bhkv,bhk->bhv", exact, q[:, t].double()) / D**0.5)
    exact_out = torch.stack(exact_rows, 1)
    assert (torch.cat(rows, 1).double() - exact_out).norm() <= 1e-2 * exact_out.norm()
    assert (state.double() - exact).norm() <= 1e-2 * exact.norm()


@pytest.mark.parametrize("beta", [False, True])
def test_linear_attention_decode(beta):
    """Decode steps with the state in place, which a CUDA graph replays if there is a GPU."""
    generator = torch.Generator(DEVICE).manual_seed(5)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, device=DEVICE)

    q, k, v = (normal(B, 1, H, D).to(torch.bfloat16) for _ in range(3))
    k = torch.nn.functional.normalize(k.float(), dim=-1).to(torch.bfloat16)
    g = torch.nn.functional.logsigmoid(normal(B, 1, H))
    state, further = normal(B, H, D, D), {"beta": normal(B, 1, H).sigmoid()} if beta else {}
    exact, exact_rows = state.double(), []

    def step():
        return attn.torch.linear_attention(q, k, v, g, initial_state=state, inplace_final_state=True, **further)[0]

    def replay():
        graph.replay()
        return out.clone()

    if DEVICE == "cuda":
        step()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = step()
        state.copy_(exact)
    rows = []
    for _ in range(3):
        for tensor in (q, v):
            tensor.copy_(normal(*tensor.shape))
        rows.append(replay() if DEVICE == "cuda" else step())
        exact = exact * g[:, 0].double().exp()[..., None, None]
        update = v[:, 0].double()
        if beta:
            known = torch.einsum("bhkv,bhk->bhv", exact, k[:, 0].double())
            update = further["beta"][:, 0, :, None].double() * (update - known)
        exact = exact + k[:, 0, :, :, None].double() * update[..., None, :]
        exact_rows.append(torch.einsum("bhkv,bhk->bhv", exact, q[:, 0].double())[:, None] / D**0.5)
    assert (torch.cat(rows, 1).double() - torch.cat(exact_rows, 1)).norm() <= 5e-3 * torch.cat(exact_rows, 1).norm()
    assert (state.double() - exact).norm() <= 1e-5 * exact.norm()


def test_sequences():
    """Packed ones, padded ones and nested tensors, each sequence as if it was alone."""
    bounds = [0, 70, 70, 199, S]
    packed = [tensor[0].detach().transpose(0, 1).contiguous().requires_grad_() for tensor in make_inputs()]
    cu = torch.tensor(bounds, dtype=torch.int32, device=DEVICE)
    alone = [
        reference(*(tensor[None, first:last].double().transpose(1, 2) for tensor in packed), causal)[0].transpose(0, 1)
        for first, last in zip(bounds[:-1], bounds[1:])
    ]
    exact = torch.cat(alone)
    nested = [torch.nested.nested_tensor_from_jagged(tensor, cu.long()).transpose(1, 2) for tensor in packed]
    exact = (exact, *gradients(exact, packed))
    for out in (
        attn.torch.varlen_attn(*packed, cu, window_size=(-1, 0)),
        sdpa(*nested, is_causal=True).transpose(1, 2).values(),
    ):
        for actual, expected in zip((out, *gradients(out, packed)), exact):
            assert (actual.double() - expected.double()).norm() <= 1.5e-2 * expected.double().norm()
    lengths = torch.tensor([S, 77], dtype=torch.int32, device=DEVICE)
    query, key, value = make_inputs()
    out = sdpa(query, key, value, query_lengths=lengths, key_lengths=lengths)
    exact = reference(query[1:, :, :77].double(), key[1:, :, :77].double(), value[1:, :, :77].double())
    assert (out[1:, :, :77].double() - exact).norm() <= 1.5e-2 * exact.norm()
    assert not out[1, :, 77:].any()


class Serving:
    """Calls with a paged KV cache, whose lengths, boundaries and tables are tensors that change between calls."""

    page, key_heads = 16, 2
    #: Numbers of queries and of keys of each sequence; the first 32 keys are the same for all of a call with a prefix.
    steps = (([1, 1, 1, 1], [700, 33, 90, 250]), ([3, 0, 0, 1], [64, 400, 57, 999]), ([0, 2, 1, 1], [40, 41, 32, 513]))

    def __init__(self, kind):
        self.kind = kind
        torch.manual_seed(0)
        pages = 4 * 64
        self.pools = [torch.randn(pages, self.page, self.key_heads, D, device=DEVICE).bfloat16() for _ in range(2)]
        self.q = torch.randn(4, H, D, device=DEVICE).bfloat16()
        self.table = torch.zeros(4, 64, dtype=torch.int32, device=DEVICE)
        self.lengths, self.bounds = self.table.new_zeros(4), self.table.new_zeros(5)
        self.new = [torch.randn(4, 1, self.key_heads, D, device=DEVICE).bfloat16() for _ in range(2)]
        self.groups, self.prefixes = self.table.new_tensor([0, 4]), self.table.new_tensor([32])

    def set(self, number):
        """Changes the tensors in place; gives the number of queries of each sequence."""
        counts, lengths = self.steps[number]
        counts = counts if self.kind == "chunks" else [1] * 4
        order = torch.randperm(self.pools[0].shape[0], generator=torch.Generator().manual_seed(number)).view(4, 64)
        if self.kind == "prefix":
            order[:, :2] = order[0, :2].clone()
            lengths = [max(length, 33) for length in lengths]
        self.table.copy_(order)
        self.lengths.copy_(torch.tensor(lengths))
        self.bounds.copy_(torch.tensor([0, *counts]).cumsum(0))
        return counts, [length + 1 for length in lengths] if self.kind == "append" else lengths

    def call(self):
        """The output of all queries, `[queries, heads, head dim]`."""
        if self.kind == "chunks":
            return attn.torch.flash_attn_varlen_func(
                self.q, *self.pools, self.bounds, seqused_k=self.lengths, block_table=self.table, causal=True
            )
        q = self.q[:, None]
        if self.kind in ("decode", "append"):
            options = {"cache_seqlens": self.lengths, "block_table": self.table, "causal": True}
            new = self.new if self.kind == "append" else ()
            return attn.torch.flash_attn_with_kvcache(q, *self.pools, *new, **options)[:, 0]
        return attn.torch.flash_attn_with_shared_prefix(
            q, *self.pools, self.lengths, self.table, self.groups, self.prefixes, causal=True
        )[:, 0]

    def expected(self, counts, lengths):
        rows = []
        for i, (q, row, length) in enumerate(zip(self.q.split(counts), self.table.long(), lengths)):
            k, v = (pool[row].flatten(0, 1)[:length].double().transpose(0, 1) for pool in self.pools)
            if self.kind == "append":
                k[:, -1], v[:, -1] = (new[i, 0].double() for new in self.new)
            shift = length - len(q)

            def mask(scores, shift=shift):
                keep = torch.ones(scores.shape[-2:], dtype=torch.bool, device=DEVICE).tril(shift)
                return scores.masked_fill(~keep, float("-inf"))

            rows.append(reference(q.double().transpose(0, 1)[None], k[None], v[None], mask)[0].transpose(0, 1))
        return torch.cat(rows)


@pytest.mark.parametrize("kind", ["decode", "append", "chunks", "prefix"])
def test_paged_caches(kind):
    """Lengths, boundaries and tables are read at each call, and by each replay of a CUDA graph."""
    serving, outs = Serving(kind), []
    for number in range(3):
        exact = serving.expected(*serving.set(number))
        outs.append(serving.call())
        assert (outs[-1].double() - exact).norm() <= 1.5e-2 * exact.norm()
    if DEVICE == "cpu":
        return
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = serving.call()
    for number in range(3):
        serving.set(number)
        graph.replay()
        assert torch.equal(out, outs[number])


@pytest.mark.parametrize("p", [0.0, 0.125])
def test_compile(p):
    torch.manual_seed(0)
    model, x = Model(p).to(DEVICE, torch.bfloat16), torch.randn(B, S, H * D).to(DEVICE, torch.bfloat16)
    compiled = torch.compile(model, backend="inductor" if DEVICE == "cuda" else "aot_eager", fullgraph=True)
    # With dropout, the numbers of compiled calls on a GPU are others than those of calls that are not: they are
    # compared with themselves.
    modules = (model, compiled) if p == 0 or DEVICE == "cpu" else (compiled, compiled)
    results = []
    for module, seed in (*((module, 1) for module in modules), (compiled, 2)):
        model.zero_grad()
        torch.manual_seed(seed)
        out = module(x)
        out.float().square().sum().backward()
        results.append((out.detach(), model.qkv.weight.grad.clone()))
    same, other = ([(a - b).norm() / a.norm() for a, b in zip(results[0], result)] for result in results[1:])
    assert max(same) <= 2e-2
    assert (min(other) > 0.1) == (p > 0)
