# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""attn.torch.flex_attention with functions in whole graphs of torch.compile."""

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn.torch import flex, flex_attention, graphs  # noqa: E402
from test_flex import D, DOCUMENTS, H, MASKS, make_inputs, reference  # noqa: E402
from torch._dynamo.testing import CompileCounterWithBackend  # noqa: E402
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, noop_mask  # noqa: E402


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    flex._inspected.clear()
    yield
    torch._dynamo.reset()


def compile_whole(function):
    """A function without graph breaks, and the counter of its compilations."""
    counter = CompileCounterWithBackend("aot_eager")
    return torch.compile(function, backend=counter, fullgraph=True), counter


def alibi(slopes):
    return lambda s, b, h, q, k: s + slopes[h] * (k - q)


def make_blocks(length=256):
    return [torch.randn(1, 2, length, D, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]


def check(actual, inputs, score_mod=None, mask_mod=None, learned=()):
    """Compares a result and gradients with the reference in f64, whose functions get tensors of f64."""
    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    expected, _ = reference(*wide, score_mod, mask_mod)
    torch.testing.assert_close(actual.double(), expected, rtol=1e-4, atol=2e-5)
    if actual.requires_grad:
        made = torch.autograd.grad(actual.square().sum(), [*inputs, *learned])
        for gradient, exact in zip(made, torch.autograd.grad(expected.square().sum(), [*wide, *learned])):
            torch.testing.assert_close(gradient.double(), exact.double(), rtol=1e-3, atol=1e-4)


def test_functions_are_part_of_the_graph():
    """Captured tensors are inputs, with gradients; lengths vary, and so do functions."""
    compiled, counter = compile_whole(lambda q, k, v, mod, mask: flex_attention(q, k, v, mod, mask))
    causal = MASKS["causal"]
    learned = torch.rand(H, requires_grad=True)
    for slopes in (learned, torch.rand(H, requires_grad=True)):
        inputs = make_inputs()
        check(compiled(*inputs, alibi(slopes), causal), inputs, alibi(slopes), causal, [slopes])
    with torch.no_grad():
        learned.mul_(2)
    check(compiled(*inputs, alibi(learned), causal), inputs, alibi(learned), causal, [learned])
    assert counter.frame_count == 1
    for length in (20, 17, 13, 9):
        short = [tensor[:, :, :length].detach().requires_grad_() for tensor in inputs]
        check(compiled(*short, alibi(learned), causal), short, alibi(learned), causal, [learned])
    assert counter.frame_count == 2


def test_integers_of_graphs_vary(monkeypatch):
    """Torch makes them inputs of the graph at their second value; kernels read them."""
    texts = set()
    run_functions = flex._run
    monkeypatch.setattr(flex, "_run", lambda *args: texts.add(body := run_functions(*args)) or body)
    compiled, counter = compile_whole(lambda q, k, v, n: flex_attention(q, k, v, None, lambda b, h, i, j: j < n))
    inputs = [tensor.detach() for tensor in make_inputs()]
    for n in (5, 9, 12, 20):
        check(compiled(*inputs, n), inputs, mask_mod=lambda b, h, q, k: k < n)
    assert counter.frame_count == 2 and len(texts) == 2


def test_functions_that_change():
    compiled, counter = compile_whole(lambda q, k, v, mask: flex_attention(q, k, v, None, mask))
    inputs = [tensor.detach() for tensor in make_inputs()]
    for number, name in enumerate(("causal", "documents", "causal")):
        check(compiled(*inputs, MASKS[name]), inputs, mask_mod=MASKS[name])
        assert counter.frame_count == min(number + 1, 2)
    ids = DOCUMENTS.clone()
    mask_mod = lambda b, h, q, k: ids[b, q] == ids[b, k]  # noqa: E731
    for _ in range(2):
        check(compiled(*inputs, mask_mod), inputs, mask_mod=mask_mod)
        ids[0, 9] += 1


@pytest.mark.parametrize(
    "functions, message",
    [
        ((lambda s, b, h, q, k: (s, s), None), "score_mod .* computes with a tuple, which is no scalar"),
        ((lambda s, b, h, q, k: q > k, None), "score_mod .* returns a bool, expected a score"),
        ((None, lambda b, h, q, k: (q - k) * 0.5), "mask_mod .* returns a float, expected a bool"),
    ],
)
def test_results_of_other_kinds(functions, message):
    compiled, _ = compile_whole(lambda q, k, v: flex_attention(q, k, v, *functions))
    with pytest.raises(Exception, match=message):
        compiled(*make_inputs())


def test_tensors_that_functions_compute_are_in_the_graph():
    slopes = torch.rand(H, requires_grad=True)
    score_mod = lambda s, b, h, q, k: s + (slopes * 2)[h] * (k - q)  # noqa: E731
    inputs = make_inputs()
    compiled, _ = compile_whole(lambda q, k, v: flex_attention(q, k, v, score_mod))
    check(compiled(*inputs), inputs, score_mod, learned=[slopes])


def test_block_masks_are_inputs():
    """A new mask in each step, of any length, compiles nothing after the first ones."""
    compiled, counter = compile_whole(lambda q, k, v, mask: flex_attention(q, k, v, block_mask=mask))
    counts = []
    for step, length in enumerate((256, 256, 256, 384, 520, 300)):
        ids = torch.arange(length) // (50 + step)
        mask_mod = lambda b, h, q, k: ids[q] == ids[k]  # noqa: E731
        mask = create_block_mask(mask_mod, None, None, length, length, device="cpu")
        check(compiled(*make_blocks(length), mask), make_blocks(length), mask_mod=mask_mod)
        counts.append(counter.frame_count)
    assert counts[2] == counts[1] + 1 and counts[-1] <= counts[2] + 2


def read_masks(mask):
    """The graphs of the functions that masks are compiled to."""
    found = []

    def backend(module, _):
        found.extend(child.code for name, child in module.named_children() if name.startswith("mask_mod"))
        return module.forward

    out = torch.compile(lambda q, k, v: flex_attention(q, k, v, block_mask=mask), backend=backend, fullgraph=True)(
        *make_blocks()
    )
    return out, found


def test_blocks_are_left_to_their_function():
    mask = create_block_mask(MASKS["causal"], None, None, 256, 256, device="cpu")
    out, (code,) = read_masks(mask)
    check(out, make_blocks(), mask_mod=MASKS["causal"])
    assert "full" not in code and ">=" in code


@pytest.mark.parametrize("mask_mod", [noop_mask, MASKS["causal"]])
def test_blocks_that_decide(mask_mod):
    """Blocks that leave out pairs of their function, in a mask that is compared with it and in one that is not."""
    counts, indices = torch.ones(1, 1, 2, dtype=torch.int32), torch.tensor([[[[0, 1], [1, 0]]]], dtype=torch.int32)
    exact = lambda b, h, q, k: (q // 128 == k // 128) & torch.as_tensor(mask_mod(b, h, q, k))  # noqa: E731
    compiled, _ = compile_whole(lambda q, k, v, mask: flex_attention(q, k, v, block_mask=mask))
    for _ in range(flex._MAX_INSPECTED + 2):
        mask = BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=128, mask_mod=mask_mod)
        check(compiled(*make_blocks(), mask), make_blocks(), mask_mod=exact)


def test_methods_of_modules():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.slopes = torch.nn.Parameter(torch.rand(H))
            self.cap = 3.0

        def bend(self, s, b, h, q, k):
            return self.cap * s + self.slopes[h] * (k - q)

        def forward(self, q, k, v):
            return flex_attention(q, k, v, self.bend)

    model, inputs = Model().requires_grad_(False), [tensor.detach() for tensor in make_inputs()]
    compiled, _ = compile_whole(model)
    for cap in (3.0, 4.0):
        model.cap = cap
        check(compiled(*inputs), inputs, model.bend)


def test_functions_that_break_graphs_run_eagerly():
    def twice(s, b, h, q, k):
        torch._dynamo.graph_break()
        return s * 2

    inputs = [tensor.detach() for tensor in make_inputs()]
    compiled = torch.compile(lambda q, k, v: flex_attention(q, k, v, twice), backend="aot_eager")
    torch.testing.assert_close(compiled(*inputs), flex_attention(*inputs, twice))


def test_errors_of_functions():
    inputs = make_inputs()
    compiled, _ = compile_whole(lambda q, k, v: flex_attention(q, k, v, lambda s, b, h, i, j: torch.erfinv(s)))
    with pytest.raises(Exception, match="calls torch's 'erfinv', which is not supported on scalars"):
        compiled(*inputs)


def test_torch_without_such_operators(monkeypatch):
    """Another version of torch, whose Dynamo has no such functions."""
    assert flex._in_graphs.is_available
    from torch._dynamo.variables import higher_order_ops

    monkeypatch.delattr(higher_order_ops, "speculate_subgraph")
    monkeypatch.setattr(higher_order_ops, "_hop_name_to_variable_class", {})
    operator = flex._in_graphs.attend
    assert not graphs._register(operator, graphs._make_attention_class)
    monkeypatch.setattr(flex._in_graphs, "is_available", False)
    inputs = make_inputs()
    compiled, _ = compile_whole(lambda q, k, v: flex_attention(q, k, v, MASKS["causal"]))
    with pytest.raises(Exception, match=r"traced = attn\.torch\.trace\(score_mod, mask_mod\)"):
        compiled(*inputs)


def test_double_precision():
    inputs = [tensor.detach().double() for tensor in make_inputs()]
    compiled, _ = compile_whole(lambda q, k, v: flex_attention(q, k, v, lambda s, b, h, i, j: s * 2))
    with pytest.raises(Exception, match="torch.float64"):
        compiled(*inputs)
