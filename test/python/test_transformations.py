# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Transformations of torch.func around attention: vmap, grad, vjp and jacrev."""

import pytest

torch = pytest.importorskip("torch")

from attn import masks  # noqa: E402
from attn.torch import flex_attention, ops, sdpa  # noqa: E402
from torch.func import grad, jacrev, vjp, vmap  # noqa: E402

V, B, H, S, D = 3, 2, 2, 9, 16


def make(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


QUERY, KEY, VALUE = (make(V, B, H, S, D, seed=seed) for seed in range(3))
BIASES = make(V, S, S, seed=3)
SLOPES = make(H, seed=4)
IDS = torch.tensor([[0] * 4 + [1] * 5, [0] * 7 + [1] * 2], dtype=torch.int32)

CALLS = {
    "causal": lambda q, k, v: sdpa(q, k, v, is_causal=True),
    "sinks": lambda q, k, v: sdpa(q, k, v, sinks=SLOPES),
    "score_mod": lambda q, k, v: flex_attention(q, k, v, lambda s, b, h, i, j: s + SLOPES[h] * (j - i)),
    "batch": lambda q, k, v: flex_attention(q, k, v, lambda s, b, h, i, j: s * (b + 1)),
    "documents": lambda q, k, v: sdpa(q, k, v, masks.documents(IDS)),
    "lse": lambda q, k, v: sdpa(q, k, v, return_lse=True)[1],
}


def loop(function, *tensors):
    return torch.stack([function(*slices) for slices in zip(*tensors)])


@pytest.mark.parametrize("name", CALLS)
def test_vmap_and_gradients(name):
    """Mapped calls, their gradients by autograd, and mapped gradients."""
    call = CALLS[name]
    tensors = [tensor.clone().requires_grad_() for tensor in (QUERY, KEY, VALUE)]
    out, expected = vmap(call)(*tensors), loop(call, *tensors)
    torch.testing.assert_close(out, expected)
    both = [torch.autograd.grad(each.square().sum(), tensors) for each in (out, expected)]
    loss = lambda *inputs: call(*inputs).square().sum()  # noqa: E731
    for actual, by_autograd, wanted in zip(vmap(grad(loss, (0, 1, 2)))(QUERY, KEY, VALUE), *both):
        torch.testing.assert_close(by_autograd, wanted, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-5)


def test_one_call_serves_all_mapped_ones(monkeypatch):
    sizes = []
    find_plan = ops._find_plan
    monkeypatch.setattr(ops, "_find_plan", lambda tensors, *a: sizes.append(tensors[0].shape[0]) or find_plan(tensors, *a))
    vmap(CALLS["causal"])(QUERY, KEY, VALUE)
    assert sizes == [V * B]
    vmap(CALLS["batch"])(QUERY, KEY, VALUE)
    assert sizes[1:] == [B] * V


@pytest.mark.parametrize("dims", [(0, None, None), (None, 1, 0), (3, 2, 1)])
def test_other_dimensions_are_mapped(dims):
    tensors = [t[0] if dim is None else t.movedim(0, dim) for t, dim in zip((QUERY, KEY, VALUE), dims)]
    slices = [
        [t if dim is None else t.select(dim, number) for t, dim in zip(tensors, dims)] for number in range(V)
    ]  # fmt: skip
    expected = torch.stack([CALLS["causal"](*each) for each in slices])
    torch.testing.assert_close(vmap(CALLS["causal"], dims)(*tensors), expected)


def test_mapped_captures():
    """Gradients of captures, too, are equal to the gradients of each call."""
    call = lambda q, bias: sdpa(q, q, q, bias)  # noqa: E731
    torch.testing.assert_close(vmap(call)(QUERY, BIASES), loop(call, QUERY, BIASES))
    loss = lambda q, bias: call(q, bias).square().sum()  # noqa: E731
    for actual, expected in zip(
        vmap(grad(loss, (0, 1)))(QUERY, BIASES),
        zip(*[grad(loss, (0, 1))(q, bias) for q, bias in zip(QUERY, BIASES)]),
    ):
        torch.testing.assert_close(actual, torch.stack(expected), rtol=1e-4, atol=1e-5)


def test_vjp_and_jacobian():
    q, k, v = (tensor[0, :1, :, :3] for tensor in (QUERY, KEY, VALUE))
    exact = lambda q: torch.nn.functional.scaled_dot_product_attention(q, k, v)  # noqa: E731
    out, pull = vjp(lambda q: sdpa(q, k, v), q)
    expected, pull_exact = vjp(exact, q)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(pull(v)[0], pull_exact(v)[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(jacrev(lambda q: sdpa(q, k, v))(q), jacrev(exact)(q), rtol=1e-4, atol=1e-5)


def test_random_numbers():
    call = lambda q: sdpa(q, q, q, dropout_p=0.5)  # noqa: E731
    same = QUERY[:1].expand(V, -1, -1, -1, -1)
    torch.manual_seed(0)
    different = vmap(call, randomness="different")(same)
    assert not torch.equal(different[0], different[1])
    equal = vmap(call, randomness="same")(same)
    assert torch.equal(equal[0], equal[1])
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(call)(same)
