# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""sdpa_packed computes what sdpa does, with a gradient in one tensor."""

import pytest
from attn import AttnError

torch = pytest.importorskip("torch")

from attn.torch import sdpa, sdpa_packed  # noqa: E402


def make(dtype=torch.float32, *shape):
    torch.manual_seed(0)
    return torch.randn(shape or (2, 33, 3, 4, 16)).to(dtype).requires_grad_()


def by_parts(qkv, **options):
    return sdpa(*qkv.permute(2, 0, 3, 1, 4).unbind(), **options).transpose(1, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3, "is_causal": True}])
def test_same_as_parts(dtype, options):
    qkv = make(dtype)
    expected = by_parts(qkv, **options)
    result = sdpa_packed(qkv, **options)
    dout = torch.randn_like(expected)
    torch.testing.assert_close(result, expected, rtol=0, atol=0)
    (gradient,) = torch.autograd.grad(result, qkv, dout)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, qkv, dout)[0], rtol=0, atol=0)
    assert gradient.is_contiguous()
    with torch.no_grad():
        torch.testing.assert_close(sdpa_packed(qkv, **options), expected, rtol=0, atol=0)


def test_dropout():
    qkv = make()
    results = []
    for function in (sdpa_packed, by_parts):
        torch.manual_seed(1)
        out = function(qkv, dropout_p=0.25)
        results.append((out, *torch.autograd.grad(out.square().sum(), qkv)))
    for result, expected in zip(*results):
        torch.testing.assert_close(result, expected, rtol=0, atol=0)


def test_views_and_compile():
    weight = torch.randn(192, 64, requires_grad=True)
    x = make(torch.float32, 2, 24, 64)

    def attend(x, attention):
        return attention((x @ weight.T).unflatten(-1, (3, 4, 16)), is_causal=True).flatten(2)

    expected = attend(x, by_parts)
    wanted = torch.autograd.grad(expected.sum(), (x, weight))
    for function in (attend, torch.compile(attend, backend="aot_eager", fullgraph=True)):
        result = function(x, sdpa_packed)
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(torch.autograd.grad(result.sum(), (x, weight)), wanted)


def test_operators_obey_the_rules_of_torch():
    torch.library.opcheck(torch.ops.attn.packed.default, (make(), None, True, None, 0.0, True))


@pytest.mark.parametrize("shape", [(2, 33, 3, 64), (2, 33, 2, 4, 16)])
def test_bad_shapes(shape):
    with pytest.raises(AttnError, match="it must have five dimensions: batch, positions, 3, heads and head dim"):
        sdpa_packed(make(torch.float32, *shape))


def test_bad_dropout():
    with pytest.raises(AttnError, match="dropout_p is 1.5; it must be from 0 to 1"):
        sdpa_packed(make(), dropout_p=1.5)
