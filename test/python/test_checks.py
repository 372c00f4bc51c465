# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Wrong arguments are errors that name them, and never end the process."""

import pathlib

import attn
import attn.errors
import pytest
from attn import AttnError, TraceError, UnsupportedError, masks

torch = pytest.importorskip("torch")

import numpy  # noqa: E402
from attn.torch import flex_attention, sdpa, sdpa_packed  # noqa: E402


def make(*shape, dtype=torch.float32):
    torch.manual_seed(0)
    return torch.randn(shape).to(dtype)


X = make(1, 2, 8, 16)
NESTED = torch.nested.nested_tensor([torch.ones(2, 8, 16)])


@pytest.mark.parametrize(
    "arguments, options, message",
    [
        ((None, X, X), {}, "query is a NoneType; pass a tensor"),
        ((X, X.numpy(), X), {}, "key is a ndarray; pass a tensor"),
        ((X.to_sparse(), X, X), {}, "query is a tensor of the kind torch.sparse_coo"),
        ((X, X, X), {"dropout_p": "much"}, "dropout_p is a str; pass a number"),
        ((X, X, X), {"dropout_p": torch.tensor(0.5)}, "dropout_p is a Tensor; pass a number"),
        ((X, X, X), {"scale": "large"}, "scale is a str; pass a number"),
        # It could change behind a plan.
        ((X, X, X), {"scale": torch.tensor(0.5)}, "scale is a Tensor; pass a number"),
        ((X, X, X), {"scale": float("nan")}, "scale is nan; it must be finite"),
        ((X, X, X), {"scale": -1e39}, "scale is -1e[+]39; it must be finite, and at most 3.4e[+]38, as an f32"),
        ((X, X, X), {"attn_mask": torch.ones(8, 8).to_sparse()}, "attn_mask is a tensor of the kind torch.sparse_coo"),
        ((X, X, X), {"block_mask": torch.ones(8, 8)}, "block_mask is a Tensor; pass one of attn.masks"),
        ((X, X, X), {"dropout_p": 1.25}, "dropout_p is 1.25; it must be from 0 to 1"),
        ((X[..., :0], X[..., :0], X), {}, "query has a head dim of 0; it must be at least 1"),
        ((X, X, X[..., :0]), {}, "value has a head dim of 0; it must be at least 1"),
        ((X[:, :0], X[:, :0], X[:, :0]), {}, "query has 0 heads; it needs at least 1"),
        ((NESTED, NESTED, NESTED), {}, "query is a tensor of the kind nested"),
        ((X, X, X), {"attn_mask": torch.ones(8, 8, device="meta")}, "attn_mask is on meta and query on cpu"),
        (
            (make(1, 6, 8, 16), make(1, 4, 8, 16), X),
            {"enable_gqa": True},
            "key has 4 heads, which do not divide the 6 heads of query",
        ),
        (
            (make(1, 4, 8, 16), make(1, 4, 8, 16), X),
            {"head_map": torch.zeros(4, dtype=torch.int32)},
            "key has 4 heads and value 2; with head_map they need the same number",
        ),
        (
            (make(2, 3, 2, 8, 16), make(3, 2, 2, 8, 16), make(3, 2, 2, 8, 16)),
            {},
            r"batch sizes \(2, 3\), \(3, 2\) and \(3, 2\); make them equal",
        ),
    ],
)
def test_sdpa(arguments, options, message):
    with pytest.raises(AttnError, match=message):
        sdpa(*arguments, **options)


@pytest.mark.parametrize("place", range(4))
def test_nested_tensors_after_calls_whose_plans_are_known(place):
    """Guards of torch, which find the plan of a repeated call, end the process when they see a nested tensor."""
    for _ in range(3):
        sdpa(X, X, X)
        sdpa(X, X, X, torch.zeros(8, 8))
    arguments = [X, X, X, *([torch.zeros(8, 8)] if place == 3 else [])]
    arguments[place] = NESTED
    with pytest.raises(AttnError, match="is a tensor of the kind nested"):
        sdpa(*arguments)


def test_strides():
    """Small tensors are copied, with one warning; larger ones are the caller's to copy."""
    values = make(1, 2, 16, 8).mT
    attn.errors._warned.discard("copy of value")
    with pytest.warns(attn.AttnWarning, match="value has a last dimension with a stride of 8, expected 1: it is"):
        out = sdpa(X, X, values)
    for call in (sdpa, flex_attention):
        assert torch.equal(call(X, X, values), out)
    large = torch.ones(1024, 1024).T
    x = make(1, 1, 1024, 16)
    with pytest.raises(AttnError, match=r"attn_mask has a last dimension with a stride of 1024, expected 1; call"):
        sdpa(x, x, x, large)
    with pytest.raises(AttnError, match=r"captured tensor 0 has a last dimension with a stride of 1024"):
        flex_attention(x, x, x, lambda s, b, h, i, j: s + large[i, j])
    with pytest.raises(AttnError, match="value has a last dimension with a stride of 65536"):
        sdpa(make(1, 1, 65536, 16), make(1, 1, 65536, 16), make(1, 1, 16, 65536).mT)


def test_other_functions():
    with pytest.raises(AttnError, match="query is a list; pass a tensor"):
        flex_attention([1.0], X, X)
    with pytest.raises(AttnError, match="scale is a str"):
        flex_attention(X, X, X, scale="large")
    with pytest.raises(AttnError, match="qkv is a NoneType"):
        sdpa_packed(None)
    for call in (sdpa_packed, lambda x: flex_attention(x, x, x)):
        with pytest.raises(UnsupportedError, match="is a tensor of the kind nested"):
            call(NESTED)


def test_dropout_of_everything():
    x = X.clone().requires_grad_()
    qkv = make(1, 8, 3, 2, 16).requires_grad_()
    for inputs, out in ((x, flex_attention(x, x, x, dropout_p=1.0)), (qkv, sdpa_packed(qkv, dropout_p=1.0))):
        assert not out.any() and not torch.autograd.grad(out.sum(), inputs)[0].any()


def test_meta():
    x = X.to("meta")
    assert sdpa(x, x, x).shape == x.shape
    assert sdpa_packed(make(1, 8, 3, 2, 16).to("meta")).shape == (1, 8, 2, 16)


def test_numbers_of_numpy():
    expected = sdpa(X, X, X, scale=0.5)
    torch.testing.assert_close(sdpa(X, X, X, scale=numpy.float32(0.5)), expected, rtol=0, atol=0)


def test_transformations():
    sdpa(X[0:1], X[0:1], X[0:1])
    with pytest.raises(UnsupportedError, match="no rules for torch.func.jvp, jacfwd and hessian; use vjp, grad"):
        torch.func.jvp(lambda x: sdpa(x, x, x), (X,), (X,))
    with pytest.raises(UnsupportedError, match="no second derivatives; do not nest torch.func.grad, vjp and jacrev"):
        torch.func.grad(lambda x: torch.func.grad(lambda y: sdpa(y, y, y).sum())(x).sum())(X)


@pytest.mark.parametrize(
    "score_mod, message",
    [
        (lambda s: s, "cannot be called with its 5 arguments, score, batch, head, query and key: too many positional"),
        (lambda s, b, h, i, j: i >= j, r"score_mod \(<lambda>\) returns a bool, expected a score; .* as a mask_mod"),
        (lambda s, b, h, i, j: s + i // 0, "divides an integer by 0"),
        (lambda s, b, h, i, j: s + i % 0, "divides an integer by 0"),
        (lambda s, b, h, i, j: s + i * 2**63, "computes with 9223372036854775808; integers have 64 bits"),
        (3, "score_mod is a int; pass a function"),
    ],
)
def test_functions(score_mod, message):
    with pytest.raises(AttnError, match=message):
        flex_attention(X, X, X, score_mod=score_mod)


def test_mask_function():
    for mask_mod in (lambda b, h, i, j: i * 0.5, lambda b, h, i, j: 1.0):
        with pytest.raises(TraceError, match=r"mask_mod \(<lambda>\) returns a float, expected a bool; compare it"):
            flex_attention(X, X, X, block_mask=mask_mod)
    with pytest.raises(TraceError, match="mask_mod .* its 4 arguments, batch, head, query and key: missing"):
        flex_attention(X, X, X, block_mask=lambda b, h, i, j, more: True)


def test_division_by_zero_of_data():
    """Pairs whose divisor is 0 get any score; others the right one."""
    divisors = torch.tensor([0, 1, 2, 3, 4, 5, 6, 7], dtype=torch.int32)

    def divide(score, batch, head, query, key):
        quotient = query // divisors[key] + query % divisors[key]
        return torch.where(divisors[key] == 0, -float("inf"), score + quotient)

    i, j = torch.arange(8)[:, None], torch.arange(1, 8)
    scores = (X @ X.mT / 4)[..., 1:] + i // j + i % j
    expected = torch.softmax(scores, -1) @ X[:, :, 1:]
    torch.testing.assert_close(flex_attention(X, X, X, score_mod=divide), expected)


def test_empty_capture():
    bias = torch.zeros(0)
    with pytest.raises(AttnError, match=r"captured tensor 0 has the shape \(0,\): there is no element to read"):
        flex_attention(X, X, X, score_mod=lambda s, b, h, i, j: s + bias[i])
    assert flex_attention(X[:0], X[:0], X[:0], score_mod=lambda s, b, h, i, j: s + bias[i]).shape == (0, 2, 8, 16)


@pytest.mark.parametrize(
    "make_mask, message",
    [
        (lambda: masks.sliding_window(), "neither left nor right"),
        (lambda: masks.sliding_window(left=-1), "left of sliding_window is -1; it must be from 0 to 1073741823"),
        (lambda: masks.dilated_window(4, 4, 0), "dilation of dilated_window is 0; it must be from 1 to 1073741823"),
        (lambda: masks.global_tokens(1 << 30), "count of global_tokens is 1073741824; it must be from 0 to 1073741823"),
        (lambda: masks.chunked(0), "size of local_blocks is 0; it must be from 1 to 1073741823"),
        (lambda: masks.local_blocks(8), "local_blocks has neither before nor after; give one of them"),
        (lambda: masks.blocks(24, 16, X, X), "rows of block_sparse is 24; it must be a positive multiple of 16"),
        (lambda: masks.sliding_window("far"), "left of sliding_window is a str; pass a number"),
        (lambda: masks.causal("bottom"), "alignment of causal is 'bottom'; it must be 'bottom_right' or 'top_left'"),
    ],
)
def test_masks(make_mask, message):
    with pytest.raises(AttnError, match=message):
        make_mask()


@pytest.mark.parametrize(
    "parameters, message",
    [
        ((torch.bfloat16, 1, 1, 16), "dtype is torch.bfloat16; it must be bf16, f16, f32, f8E4M3FN or f8E5M2"),
        (("f32", -1, 1, 16), "query_heads is -1"),
        (("f32", 1, 1, "wide"), "query_dim is 'wide'"),
    ],
)
def test_attention(parameters, message):
    with pytest.raises(AttnError, match=message):
        attn.Attention(*parameters)


def test_compile():
    with pytest.raises(AttnError, match="source is a PosixPath; pass MLIR text"):
        attn.compile(pathlib.Path("in.mlir"))
    with pytest.raises(AttnError, match="source is the name of a file, 'in.mlir'"):
        attn.compile("in.mlir")
    with pytest.raises(AttnError, match="the option 'schedule' is a NoneType"):
        attn.compile("module {}", options={"schedule": None})


def test_artifact():
    artifact = attn.compile(attn.Attention("f32", 2, 2, 16))
    with pytest.raises(AttnError, match="the artifact has no function 'other'; it has attention"):
        artifact["other"]
    function = artifact["attention"]
    with pytest.raises(AttnError, match="argument 'value' is a NoneType; pass a tensor"):
        function(X, X, None, X)
    with pytest.raises(AttnError, match="argument 'key' is a tensor of torch.complex64"):
        function(X, X.cfloat(), X, X)
    with pytest.raises(AttnError, match="got 0 arguments, expected 4"):
        function.flops()
    with pytest.raises(AttnError, match="argument 'query' has rank 3, expected 4"):
        function.flops(X[0], X, X, X)
