# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""attn.torch.sdpa against torch's scaled_dot_product_attention in f64."""

import io
import math
import sys
import warnings

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn import masks  # noqa: E402
from attn.torch import kernels, ops, sdpa  # noqa: E402
from torch._dynamo.source import ConstantSource  # noqa: E402
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def make_inputs(shape_q, shape_k, shape_v=None, dtype=torch.float32, requires_grad=True):
    torch.manual_seed(0)
    shapes = (shape_q, shape_k, shape_v or shape_k)
    return [torch.randn(shape).to(dtype).requires_grad_(requires_grad) for shape in shapes]


def gradients(out, inputs):
    torch.manual_seed(1)
    weights = torch.randn(out.shape, dtype=torch.float64)
    return torch.autograd.grad((out.double() * weights).sum(), inputs)


def check(actual, exact, peer, dtype, terms=0.0):
    """The contract of docs/Numerics.md: twice the error of torch in the same dtype, and a rounding of the result, or
    of the terms of this norm that cancel in it."""
    actual, exact, peer = actual.detach().double(), exact.detach(), peer.detach().double()
    rounding = torch.finfo(dtype).eps * max(exact.norm(), terms)
    assert actual.shape == exact.shape
    assert torch.isfinite(actual).all()
    assert (actual - exact).norm() <= 2 * (peer - exact).norm() + rounding


def compare(inputs, options=None, options_of=lambda convert: {}):
    """Compares values and gradients of sdpa with torch's in f64 and in the same dtype."""
    options = dict(options or {})
    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    results = []
    for tensors, call in ((inputs, sdpa), (wide, scaled_dot_product_attention), (inputs, scaled_dot_product_attention)):
        convert = (lambda x: x.double()) if tensors is wide else (lambda x: x)
        out = call(*tensors, **options, **options_of(convert))
        results.append((out, *gradients(out, tensors)))
    # For a query with one key to attend to, the gradient is zero: a difference of two terms, each about as large as the
    # output's gradient, that are added up in different orders and do not cancel exactly.
    cancelled = results[1][0].detach().norm()
    for actual, exact, peer in zip(*results):
        is_zero = exact.norm() <= torch.finfo(exact.dtype).eps * cancelled
        check(actual, exact, peer, inputs[0].dtype, terms=cancelled if is_zero else 0.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_causal", [False, True])
def test_plain(dtype, is_causal):
    compare(make_inputs((2, 4, 33, 32), (2, 4, 47, 32), dtype=dtype), {"is_causal": is_causal})


@pytest.mark.parametrize("queries,keys", [(1, 1), (47, 33), (33, 47), (1, 65)])
def test_causal_is_aligned_to_the_first_key(queries, keys):
    compare(make_inputs((1, 2, queries, 16), (1, 2, keys, 16)), {"is_causal": True})


def test_scale_and_value_channels():
    compare(make_inputs((2, 2, 20, 32), (2, 2, 30, 32), (2, 2, 30, 24)), {"scale": 0.3})


def test_grouped_heads():
    compare(make_inputs((2, 6, 20, 32), (2, 2, 30, 32)), {"enable_gqa": True, "is_causal": True})


@pytest.mark.parametrize("key_heads,value_heads", [(4, 2), (1, 6), (4, 6), (3, 1), (12, 4), (4, 12), (1, 12), (12, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_keys_and_values_with_different_numbers_of_heads(key_heads, value_heads, dtype):
    inputs = make_inputs((2, 12, 20, 32), (2, key_heads, 30, 32), (2, value_heads, 30, 24), dtype=dtype)
    compare(inputs, {"enable_gqa": True, "is_causal": True})


def test_few_queries_with_different_numbers_of_heads():
    """The rows of a tile are query heads that share both a key and a value head."""
    inputs = make_inputs((2, 12, 1, 32), (2, 2, 30, 32), (2, 4, 30, 24))
    compare(inputs, {"enable_gqa": True})
    with torch.no_grad():
        exact = scaled_dot_product_attention(*(tensor.double() for tensor in inputs), enable_gqa=True)
        torch.testing.assert_close(sdpa(*inputs, enable_gqa=True).double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(33, 47), (4, 33, 47), (2, 1, 33, 47), (2, 4, 1, 47), (1, 1, 33, 1), (1, 47)])
def test_bool_masks_broadcast(shape):
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(2)) > 0.3
    compare(make_inputs((2, 4, 33, 32), (2, 4, 47, 32)), {"attn_mask": mask})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(33, 47), (2, 1, 1, 47), (4, 33, 1)])
def test_float_masks_broadcast(dtype, shape):
    mask = torch.randn(shape, generator=torch.Generator().manual_seed(2)).to(dtype)
    compare(make_inputs((2, 4, 33, 32), (2, 4, 47, 32), dtype=dtype), options_of=lambda c: {"attn_mask": c(mask)})


@pytest.mark.parametrize("shape", [(9, 11), (4, 1, 11), (2, 1, 9, 1), (2, 4, 9, 11)])
def test_gradient_of_a_float_mask(shape):
    inputs = make_inputs((2, 4, 9, 16), (2, 4, 11, 16))
    mask = torch.randn(shape, generator=torch.Generator().manual_seed(2)).requires_grad_()
    wide = [tensor.detach().double().requires_grad_() for tensor in (*inputs, mask)]
    exact = torch.nn.functional.scaled_dot_product_attention(*wide)
    out = sdpa(*inputs, attn_mask=mask)
    for actual, expected in zip(gradients(out, [*inputs, mask]), gradients(exact, wide)):
        torch.testing.assert_close(actual.double(), expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("fill", [False, float("-inf")])
def test_rows_with_nothing_to_attend(fill):
    q, k, v = make_inputs((1, 2, 8, 16), (1, 2, 8, 16))
    mask = torch.zeros(8, 8) if fill else torch.ones(8, 8, dtype=torch.bool)
    mask[3] = fill
    out = sdpa(q, k, v, attn_mask=mask)
    assert (out[:, :, 3] == 0).all()
    dq, dk, dv = gradients(out, [q, k, v])
    assert (dq[:, :, 3] == 0).all()
    assert all(torch.isfinite(gradient).all() for gradient in (dq, dk, dv))


@pytest.mark.parametrize("lead", [(), (3,), (2, 3, 2)])
def test_other_numbers_of_dimensions(lead):
    compare(make_inputs((*lead, 9, 16), (*lead, 11, 16)), {"is_causal": True})
    mask = torch.rand((*lead, 9, 11)) > 0.3
    compare(make_inputs((*lead, 9, 16), (*lead, 11, 16)), {"attn_mask": mask})


def test_batches_and_heads_broadcast():
    compare(make_inputs((2, 4, 9, 16), (1, 4, 11, 16)))
    compare(make_inputs((2, 4, 9, 16), (2, 1, 11, 16)))
    compare(make_inputs((1, 1, 9, 16), (2, 4, 11, 16)))


def test_views_of_projections():
    torch.manual_seed(0)
    packed = torch.randn(2, 20, 3 * 4 * 16)
    results = []
    for dtype, call in ((torch.float32, sdpa), (torch.float64, scaled_dot_product_attention)):
        leaf = packed.detach().to(dtype).requires_grad_()
        q, k, v = leaf.view(2, 20, 3, 4, 16).permute(2, 0, 3, 1, 4)
        out = call(q, k, v, is_causal=True)
        results.append((out, *gradients(out, [leaf])))
    for actual, exact in zip(*results):
        torch.testing.assert_close(actual.double(), exact.double(), rtol=1e-4, atol=1e-5)
    # The result can be merged without a copy.
    q, k, v = packed.view(2, 20, 3, 4, 16).permute(2, 0, 3, 1, 4)
    assert sdpa(q, k, v).transpose(1, 2).is_contiguous()


def test_empty_tensors():
    q, k, v = make_inputs((0, 2, 8, 16), (0, 2, 8, 16), requires_grad=False)
    assert sdpa(q, k, v).shape == (0, 2, 8, 16)
    q, k, v = make_inputs((1, 2, 8, 16), (1, 2, 0, 16), requires_grad=False)
    assert (sdpa(q, k, v) == 0).all()


def test_autocast():
    q, k, v = make_inputs((1, 2, 8, 16), (1, 2, 8, 16))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = sdpa(q, k, v)
    assert out.dtype == torch.bfloat16
    assert all(gradient.dtype == torch.float32 for gradient in gradients(out, [q, k, v]))


@pytest.mark.parametrize("call", [sdpa, scaled_dot_product_attention])
def test_dtypes_that_autocast_leaves(call):
    """The function of torch does the same."""
    q, k, v = (tensor.detach() for tensor in make_inputs((1, 2, 8, 16), (1, 2, 8, 16)))
    jagged = torch.nested.nested_tensor([q[0].transpose(0, 1), k[0].transpose(0, 1)], layout=torch.jagged)
    jagged = jagged.transpose(1, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert call(q.double(), k.double(), v.double()).dtype == torch.float64
        assert call(jagged, jagged, jagged).dtype == torch.bfloat16
        assert call(q, k.bfloat16(), v, torch.zeros(8, 8)).dtype == torch.bfloat16
        assert call(q, k, v, torch.ones(8, 8, dtype=torch.bool)).dtype == torch.bfloat16


def test_threads_share_plans():
    from concurrent.futures import ThreadPoolExecutor

    q, k, v = make_inputs((1, 2, 64, 16), (1, 2, 64, 16), requires_grad=False)
    batches = [q * (i + 1) for i in range(16)]
    expected = [sdpa(batch, k, v) for batch in batches]
    with ThreadPoolExecutor(8) as pool:
        for actual, wanted in zip(pool.map(lambda batch: sdpa(batch, k, v), batches * 10), expected * 10):
            assert torch.equal(actual, wanted)


def test_second_derivatives_are_refused():
    q, k, v = make_inputs((1, 2, 8, 16), (1, 2, 8, 16))
    with pytest.raises(attn.UnsupportedError, match="create_graph=True"):
        torch.autograd.grad(sdpa(q, k, v).sum(), [q], create_graph=True)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = self.qkv(x).view(x.shape[0], x.shape[1], 3, 2, 16).permute(2, 0, 3, 1, 4)
        return self.out(sdpa(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile_keeps_the_operator(backend):
    torch.manual_seed(0)
    model, x = Model(), torch.randn(2, 10, 32)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    results = []
    for module in (model, compiled):
        model.zero_grad()
        loss = module(x).square().sum()
        loss.backward()
        results.append((loss, model.qkv.weight.grad.clone()))
    for actual, expected in zip(*results):
        torch.testing.assert_close(actual, expected)


def test_dropout_that_is_a_symbol():
    """Functions in graphs of torch.compile may get one: kernels are for its value."""
    environment = ShapeEnv()
    source = ConstantSource("dropout_p")
    symbol = environment.create_unspecified_symbol(0.25, source, dynamic_dim=DimDynamic.DYNAMIC)
    dropout_p = environment.create_symfloatnode(symbol, hint=0.25, source=source)
    assert isinstance(dropout_p, torch.SymFloat)
    query = torch.randn(1, 2, 8, 16)
    torch.manual_seed(3)
    out = sdpa(query, query, query, dropout_p=dropout_p)
    torch.manual_seed(3)
    assert torch.equal(out, sdpa(query, query, query, dropout_p=0.25))


def test_export_keeps_the_operator():
    torch.manual_seed(0)
    model, x = Model().eval(), torch.randn(2, 10, 32)
    with torch.no_grad():
        program = torch.export.export(model, (x,), dynamic_shapes={"x": {1: torch.export.Dim("length", min=2)}})
        assert "attn.attention" in program.graph_module.code
        file = io.BytesIO()
        torch.export.save(program, file)
        file.seek(0)
        loaded = torch.export.load(file).module()
        for length in (10, 17):
            x = torch.randn(2, length, 32)
            torch.testing.assert_close(loaded(x), model(x))


def test_operators_obey_the_rules_of_torch():
    q, k, v = make_inputs((1, 2, 8, 16), (1, 2, 8, 16))
    mask = torch.rand(1, 1, 8, 8) > 0.5
    keep = """
        %z = arith.constant 0 : index
        %m = tensor.extract %c0[%z, %z, %i, %j] : tensor<1x1x?x?xi1>
        attn.yield %m : i1
    """
    torch.library.opcheck(
        torch.ops.attn.attention.default, ([q, k, v, mask], None, f"mask_mod: {keep}; gradients: inputs"),
        test_utils=("test_schema", "test_faketensor", "test_autograd_registration", "test_aot_dispatch_static"),
    )  # fmt: skip


def good():
    return make_inputs((1, 2, 8, 16), (1, 2, 8, 16), requires_grad=False)


@pytest.mark.parametrize(
    "change,error,text",
    [
        (lambda q, k, v: (q.int(), k.int(), v.int()), attn.UnsupportedError, "convert it to torch.float32"),
        (lambda q, k, v: (q.double(), k, v), attn.AttnError, "key has the dtype torch.float32 and query torch.float64"),
        (lambda q, k, v: (q, k.bfloat16(), v), attn.AttnError, "convert them to one"),
        (lambda q, k, v: (q, k[:, :, :, :8], v), attn.AttnError, "head dim 16 and key 8"),
        (lambda q, k, v: (q, k, v[:, :, :4]), attn.AttnError, "8 positions and value 4"),
        (lambda q, k, v: (q.repeat(1, 2, 1, 1), k, v), attn.AttnError, "pass enable_gqa=True"),
        (lambda q, k, v: (q, k, v, torch.ones(7, 8)), attn.AttnError, "does not broadcast"),
        (lambda q, k, v: (q, k, v, torch.ones(8, 8, dtype=torch.int32)), attn.UnsupportedError, "must be torch.bool"),
        (lambda q, k, v: (q[0], k, v), attn.AttnError, "the same number"),
        (lambda q, k, v: (q[0, 0, 0], k[0, 0, 0], v[0, 0, 0]), attn.AttnError, "at least 2"),
        (lambda q, k, v: (q.repeat(3, 1, 1, 1), k.repeat(2, 1, 1, 1), v), attn.AttnError, "make them equal"),
        (lambda q, k, v: (q, k.to("meta"), v), attn.AttnError, r"move them to one device, as in key\.to"),
    ],
)
def test_bad_input(change, error, text):
    with pytest.raises(error, match=text):
        sdpa(*change(*good()))


def test_bad_numbers_of_heads():
    q, k, v = good()
    with pytest.raises(attn.AttnError, match="key has 2 heads, which do not divide the 3 heads of query"):
        sdpa(q.repeat(1, 2, 1, 1)[:, :3], k, v, enable_gqa=True)
    with pytest.raises(attn.AttnError, match="value has 2 heads, which do not divide the 3 heads of query"):
        sdpa(q.repeat(1, 2, 1, 1)[:, :3], k[:, :1], v, enable_gqa=True)


@pytest.mark.parametrize("shape", [(2, 1, 9, 1), (9, 1), (2, 4, 1, 1)])
def test_masks_that_are_expanded_along_keys(shape):
    """Their last stride is 0, in first and in later calls, with gradients of the mask and without."""
    inputs = make_inputs((2, 4, 9, 16), (2, 4, 11, 16))
    mask = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    for _ in range(2):
        compare(inputs, options_of=lambda c: {"attn_mask": c(mask).expand(*shape[:-1], 11)})
    wide = [tensor.detach().double().requires_grad_() for tensor in (*inputs, mask)]
    exact = scaled_dot_product_attention(*wide[:3], wide[3].expand(*shape[:-1], 11))
    mask.requires_grad_()
    out = sdpa(*inputs, mask.expand(*shape[:-1], 11))
    for actual, expected in zip(gradients(out, [*inputs, mask]), gradients(exact, wide)):
        torch.testing.assert_close(actual.double(), expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("kind", ["bool", "bias", "named", "all"])
def test_causal_together_with_masks(kind):
    q, k, v = make_inputs((2, 4, 9, 16), (2, 4, 11, 16))
    causal = torch.ones(9, 11, dtype=torch.bool).tril()
    keep = torch.rand(9, 11, generator=torch.Generator().manual_seed(2)) > 0.3
    bias = torch.randn(9, 11, generator=torch.Generator().manual_seed(3))
    window = torch.ones(9, 11, dtype=torch.bool).triu(-3)
    named = masks.sliding_window(left=3, alignment="top_left")
    options, exact = {
        "bool": ({"attn_mask": keep}, causal & keep),
        "bias": ({"attn_mask": bias}, bias.masked_fill(~causal, -math.inf)),
        "named": ({"attn_mask": named}, causal & window),
        "all": ({"attn_mask": bias, "block_mask": named}, bias.masked_fill(~(causal & window), -math.inf)),
    }[kind]
    wide = [tensor.detach().double().requires_grad_() for tensor in (q, k, v)]
    expected = scaled_dot_product_attention(*wide, exact if exact.dtype == torch.bool else exact.double())
    expected = (expected, *gradients(expected, wide))
    for _ in range(2):
        out = sdpa(q, k, v, is_causal=True, **options)
        for actual, wanted in zip((out, *gradients(out, (q, k, v))), expected):
            torch.testing.assert_close(actual.double(), wanted, rtol=1e-4, atol=2e-5)


def test_named_masks_together_with_masks():
    """Tensors that a named mask reads stand before the tensor mask, whose gradient is wanted."""
    q, k, v = make_inputs((2, 4, 12, 16), (2, 4, 12, 16))
    ids = torch.tensor([[0] * 5 + [1] * 7, [0] * 8 + [1] * 4], dtype=torch.int32)
    bias = torch.randn(12, 12, generator=torch.Generator().manual_seed(3)).requires_grad_()
    wide = [tensor.detach().double().requires_grad_() for tensor in (q, k, v, bias)]
    same = ids[:, None, :, None] == ids[:, None, None, :]
    expected = scaled_dot_product_attention(*wide[:3], wide[3].masked_fill(~same, -math.inf))
    out = sdpa(q, k, v, bias, block_mask=masks.documents(ids))
    both = masks.documents(ids) & masks.causal()
    assert torch.equal(sdpa(q, k, v, masks.causal(), block_mask=masks.documents(ids)), sdpa(q, k, v, both))
    for actual, wanted in zip((out, *gradients(out, (q, k, v, bias))), (expected, *gradients(expected, wide))):
        torch.testing.assert_close(actual.double(), wanted, rtol=1e-4, atol=2e-5)


def test_batches_of_several_dimensions_broadcast():
    compare(make_inputs((2, 1, 4, 9, 16), (1, 3, 4, 11, 16), (2, 3, 4, 11, 16)))
    compare(make_inputs((2, 3, 1, 9, 16), (1, 1, 4, 11, 16)))


def test_three_dimensions_with_grouped_heads():
    """As for torch, heads come first then."""
    mask = torch.rand(4, 9, 11, generator=torch.Generator().manual_seed(2)) > 0.3
    compare(make_inputs((4, 9, 16), (2, 11, 16)), {"enable_gqa": True, "attn_mask": mask})


def test_dropout_of_everything():
    inputs = make_inputs((2, 4, 9, 16), (2, 4, 11, 16))
    out = sdpa(*inputs, dropout_p=1.0)
    assert out.shape == (2, 4, 9, 16)
    for tensor in (out, *gradients(out, inputs)):
        assert not tensor.any()


def test_traces_of_torch_jit():
    """They have the operator, so that other tensors give other results."""
    q, k, v = good()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(lambda q, k, v: sdpa(q, k, v, is_causal=True), (q, k, v))
        file = io.BytesIO()
        torch.jit.save(traced, file)
        file.seek(0)
        loaded = torch.jit.load(file)
    other = torch.randn_like(q)
    for call in (traced, loaded):
        assert torch.equal(call(other, k, v), sdpa(other, k, v, is_causal=True))


def test_traces_of_torch_jit_have_gradients():
    q, k, v = make_inputs((1, 2, 9, 16), (1, 2, 9, 16))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # With torch's comparison of the trace, which is without gradients.
        traced = torch.jit.trace(lambda q, k, v: sdpa(q, k, v, is_causal=True), (q, k, v))
    actual, expected = (
        torch.autograd.grad(call(q, k, v).square().sum(), (q, k, v))
        for call in (traced, lambda *tensors: sdpa(*tensors, is_causal=True))
    )
    for one, other in zip(actual, expected):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("mask", [None, "causal", "keep", "bias", "named"])
def test_soft_caps(mask):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, length, 16, requires_grad=True) for length in (20, 40, 40))
    wide = [tensor.detach().double().requires_grad_() for tensor in (q, k, v)]
    keep, bias = torch.rand(2, 1, 20, 40) > 0.4, torch.randn(3, 20, 40)
    causal = torch.ones(20, 40, dtype=torch.bool).tril()
    options = {
        "causal": {"is_causal": True},
        "keep": {"attn_mask": keep},
        "bias": {"attn_mask": bias},
        "named": {"attn_mask": masks.causal("top_left")},
    }.get(mask, {})
    scores = 2.0 * torch.tanh(0.5 * wide[0] @ wide[1].mT / 2.0)
    if mask == "bias":
        scores = scores + bias
    elif mask is not None:
        scores = scores.masked_fill(~(keep if mask == "keep" else causal), float("-inf"))
    expected = scores.softmax(-1) @ wide[2]
    for _ in range(2):
        out = sdpa(q, k, v, scale=0.5, soft_cap=2.0, **options)
        torch.testing.assert_close(out.double(), expected, rtol=1e-4, atol=1e-5)
    # Other caps, and none, are other calls.
    assert not torch.allclose(sdpa(q, k, v, scale=0.5, soft_cap=3.0, **options), out, atol=1e-3)
    assert not torch.allclose(sdpa(q, k, v, scale=0.5, **options), out, atol=1e-3)
    both = [torch.autograd.grad(x.square().sum(), t) for x, t in ((out, (q, k, v)), (expected, wide))]
    for actual, wanted in zip(*both):
        torch.testing.assert_close(actual.double(), wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("soft_cap", [0.0, -1.0, float("inf"), float("nan")])
def test_soft_caps_that_are_none(soft_cap):
    q = torch.randn(1, 1, 4, 16)
    # It could change behind a plan.
    with pytest.raises(attn.AttnError, match="soft_cap is a Tensor; pass a number"):
        sdpa(*make_inputs((1, 2, 8, 16), (1, 2, 8, 16)), soft_cap=torch.tensor(3.0))
    with pytest.raises(attn.AttnError, match="soft_cap is .*; it must be a finite number above 0"):
        sdpa(q, q, q, soft_cap=soft_cap)


@pytest.mark.parametrize("dims", [2, 3, 4])
def test_masks_of_few_dimensions_in_later_calls(dims):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 3, 12, 16, requires_grad=True) for _ in range(3))
    bias = torch.randn(*(1, 3, 12, 12)[4 - dims :])
    wide = [tensor.detach().double().requires_grad_() for tensor in (q, k, v)]
    expected = torch.autograd.grad(scaled_dot_product_attention(*wide, bias.double()).square().sum(), wide)
    for _ in range(3):
        for actual, wanted in zip(torch.autograd.grad(sdpa(q, k, v, bias).square().sum(), (q, k, v)), expected):
            torch.testing.assert_close(actual.double(), wanted, rtol=1e-3, atol=1e-4)


def test_equal_calls_are_recognised_by_guards(monkeypatch):
    """Without looking at each property of tensors, which takes microseconds."""
    kernels._forget_plans()
    wide = make_inputs((1, 2, 9, 16), (1, 2, 9, 16), requires_grad=False)
    narrow = [tensor[:, :, :5] for tensor in wide]
    masked = [*wide, torch.randn(9, 9)]
    calls = [wide, narrow, masked, [wide[0].clone().requires_grad_(), *wide[1:]]]
    for _ in range(2):
        expected = [sdpa(*tensors) for tensors in calls]
        with torch.no_grad():
            sdpa(*calls[-1])
    monkeypatch.setattr(sys.modules[sdpa.__module__], "describe", lambda tensor: pytest.fail("described"))
    for tensors, each in zip(calls, expected):
        out = sdpa(*tensors)
        assert torch.equal(out, each) and out.requires_grad == each.requires_grad
    with torch.no_grad():
        assert not sdpa(*calls[-1]).requires_grad
    assert torch.equal(sdpa(*masked, dropout_p=0.0), expected[2])
    with pytest.raises(pytest.fail.Exception):
        sdpa(*wide, scale=2.0)
    assert max(map(len, kernels.recent_plans.values())) <= kernels._MAX_RECENT


def test_guards_find_plans_of_a_tensor_that_is_given_twice(monkeypatch):
    """As in attention of a tensor to itself."""
    kernels._forget_plans()
    q, k, v = make_inputs((1, 2, 9, 16), (1, 2, 9, 16), requires_grad=False)
    calls = [(q, q, q), (q, k, k), (q, k, q), (q, k, v)]
    for _ in range(2):
        for tensors in calls:
            torch.testing.assert_close(sdpa(*tensors), scaled_dot_product_attention(*tensors))
    monkeypatch.setattr(sys.modules[sdpa.__module__], "describe", lambda tensor: pytest.fail("described"))
    for tensors in calls:
        torch.testing.assert_close(sdpa(*tensors), scaled_dot_product_attention(*tensors))
        other = torch.randn_like(q)
        replaced = [other if tensor is q else tensor for tensor in tensors]
        torch.testing.assert_close(sdpa(*replaced), scaled_dot_product_attention(*replaced))


def test_tensors_that_have_left_a_transformation():
    """They are wrappers of tensors, without memory."""
    kernels._forget_plans()
    q, k, v = make_inputs((1, 2, 9, 16), (1, 2, 9, 16), requires_grad=False)
    left = []

    def look(tensor):
        left.append(tensor)
        return tensor.sum()

    torch.func.grad(look)(q)
    leaf = k.clone().requires_grad_()
    for function in (sdpa, attn.torch.flex_attention):
        expected = function(q, k, v)
        for _ in range(3):
            assert torch.equal(function(left[0], k, v), expected)
            assert torch.equal(function(left[0], leaf, v), expected)


def test_guards_tell_whether_gradients_are_recorded():
    """A call without gradients, as in an evaluation, and then the same one with them."""
    kernels._forget_plans()
    inputs = make_inputs((1, 2, 9, 16), (1, 2, 9, 16))
    for is_enabled in (False, True, False, True):
        with torch.set_grad_enabled(is_enabled):
            for _ in range(3):
                assert sdpa(*inputs).requires_grad == is_enabled


class _Names(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names = [*getattr(self, "names", []), str(func)]
        return func(*args, **(kwargs or {}))


def test_guards_tell_observed_calls():
    inputs = make_inputs((1, 2, 9, 16), (1, 2, 9, 16), requires_grad=False)
    exact = [sdpa(*inputs) for _ in range(3)][0]
    with _Names() as mode:
        sdpa(*inputs)
    assert "attn.attention.default" in mode.names
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert sdpa(*inputs).dtype == torch.bfloat16
    batch = [tensor.expand(3, *tensor.shape) for tensor in inputs]
    torch.testing.assert_close(torch.func.vmap(sdpa)(*batch), exact.expand(3, *exact.shape))
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        assert type(sdpa(*inputs)).__name__ == "FakeTensor"
    traced = torch.jit.trace(lambda *tensors: sdpa(*tensors), inputs)
    torch.testing.assert_close(traced(*[-tensor for tensor in inputs]), sdpa(*[-tensor for tensor in inputs]))
    with torch.autograd.forward_ad.dual_level(), pytest.raises(attn.UnsupportedError, match="forward-mode"):
        sdpa(torch.autograd.forward_ad.make_dual(inputs[0], inputs[0]), *inputs[1:])
    torch.testing.assert_close(sdpa(*inputs), exact)
    with torch.inference_mode():
        assert sdpa(*inputs).is_inference()
    narrow = [tensor.double() for tensor in inputs]
    assert sdpa(*narrow).dtype == torch.float64
    with pytest.raises(attn.AttnError, match="scale is a list"):
        sdpa(*inputs, scale=[2.0])


@pytest.mark.parametrize("length", [20, 33, 200])
def test_masks_of_the_lowest_number(length):
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, length, 16, requires_grad=True) for _ in range(3))
    lowest = torch.finfo(torch.float32).min
    mask = torch.full((length, length), lowest).triu(1)
    mask[0] = lowest
    tensors = (query, key, value)
    out = sdpa(query, key, value, mask)
    # A row of nothing else attends to all keys alike.
    torch.testing.assert_close(out[:, :, 0], value.mean(2), rtol=1e-5, atol=1e-5)
    infinite = mask.masked_fill(mask == lowest, -math.inf)
    expected = scaled_dot_product_attention(*(x.double() for x in tensors), infinite.double())
    torch.testing.assert_close(out[:, :, 1:].double(), expected[:, :, 1:], rtol=1e-5, atol=1e-5)
    dout = torch.randn_like(out)
    dout[:, :, 0] = 0
    actual = torch.autograd.grad(out, tensors, dout)
    for gradient, other in zip(actual, torch.autograd.grad(expected, tensors, dout.double())):
        torch.testing.assert_close(gradient, other, rtol=1e-4, atol=1e-4)


def test_gradients_of_one_plan_with_other_strides():
    """A plan keeps a function backward for gradients of each strides."""
    torch.manual_seed(11)
    q, k, v = (torch.randn(2, 2, 9, 16) for _ in range(3))
    transposed = torch.randn(2, 9, 2, 16).transpose(1, 2)
    columns = torch.randn(2, 2, 16, 9).transpose(2, 3)
    one = torch.ones(()).expand(2, 2, 9, 16)
    for dout in (transposed, columns, one, transposed.contiguous(), one, columns, transposed):
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        sdpa(*leaves).backward(dout)
        exact = [x.double().requires_grad_() for x in (q, k, v)]
        torch.nn.functional.scaled_dot_product_attention(*exact).backward(dout.double())
        for leaf, expected in zip(leaves, exact):
            assert torch.allclose(leaf.grad.double(), expected.grad, atol=1e-5)


def test_nodes_call_backward_themselves():
    q = torch.randn(1, 1, 4, 16, requires_grad=True)
    out = sdpa(q, q, q)
    assert type(out.grad_fn).apply is ops._Attention.backward
