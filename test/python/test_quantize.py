# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``quantize`` on the CPU, against roundings to a table of all 8-bit numbers in f64."""

import itertools
import math
import shutil

import pytest
from conftest import ROOT

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn.torch import flex_attention, quantize, rotation_signs, sdpa  # noqa: E402
from quantize_reference import (  # noqa: E402
    E4M3, E5M2, LARGEST, choose_scale, finite_numbers, hadamard, reduce_amax, round_to, spread,
)

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
INF, NAN = math.inf, math.nan


def make(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def check(found, x, dtype, granularity, saturate=True, scale=None, block_size=64):
    amax = reduce_amax(x, granularity, block_size)
    torch.testing.assert_close(found.amax, amax, rtol=0, atol=0)
    expected_scale = choose_scale(amax, dtype) if scale is None else scale
    torch.testing.assert_close(found.scale, expected_scale, rtol=0, atol=0, equal_nan=True)
    quotients = x.float() / spread(expected_scale, x, block_size)
    expected = round_to(quotients, dtype, saturate)
    torch.testing.assert_close(found.values.double(), expected, rtol=0, atol=0, equal_nan=True)
    signs = found.values.double().signbit() == expected.signbit()
    assert bool((signs | expected.isnan()).all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("out_dtype", LARGEST)
@pytest.mark.parametrize("granularity, block_size", [("tensor", 64), ("head", 64), ("block", 64), ("block", 128)])
@pytest.mark.parametrize("positions", [1, 64, 130])
def test_against_a_table(dtype, out_dtype, granularity, block_size, positions):
    x = make(2, 3, positions, 32, dtype=dtype) * torch.tensor([1.0, 30.0, 1e-3]).to(dtype)[:, None, None]
    for given in (x, x.transpose(1, 2).contiguous().transpose(1, 2)):
        found = quantize(given, out_dtype, granularity, block_size=block_size)
        assert found.values.dtype == out_dtype and (positions == 1 or found.values.stride() == given.stride())
        check(found, x, out_dtype, granularity, block_size=block_size)


@pytest.mark.parametrize("shape", [(5, 48), (300, 200), (3, 70, 24), (1, 1), (2, 2, 3, 5)])
def test_matrices(shape):
    x = make(*shape)
    check(quantize(x), x, E4M3, "tensor")


# Ties, the largest numbers, and numbers next to both.
def make_hard(dtype):
    numbers = finite_numbers(dtype)
    middles = (numbers[1:] + numbers[:-1]) / 2
    ends = torch.tensor([LARGEST[dtype] * factor for factor in (1.0, 1.03, 1.0357, 1.04, 1.0625, 1.07, 1.125, 4.0)])
    points = torch.cat((numbers, middles, ends.double())).float()
    points = torch.cat((points, points.nextafter(torch.tensor(INF)), points.nextafter(torch.tensor(-INF))))
    special = torch.tensor([INF, NAN, 3e38, 1e-45, 1e-38])
    points = torch.cat((points, special))
    return torch.cat((points, -points))[None]


@pytest.mark.parametrize("out_dtype", LARGEST)
@pytest.mark.parametrize("saturate", [True, False])
def test_ties_and_large_numbers(out_dtype, saturate):
    x = make_hard(out_dtype)
    scale = torch.tensor(1.0)
    check(quantize(x, out_dtype, scale=scale, saturate=saturate), x, out_dtype, "tensor", saturate, scale)
    # Numbers of the format stay as they are.
    exact = finite_numbers(out_dtype).float()[None]
    assert torch.equal(quantize(exact, out_dtype, scale=scale).values.float(), exact)


@pytest.mark.parametrize("scale", [0.5, 3.0, 1e-3, 1e30, 1e-44, -2.0, 0.0, INF, NAN])
@pytest.mark.parametrize("saturate", [True, False])
def test_given_scales(scale, saturate):
    x = make(4, 64, dtype=torch.bfloat16)
    x[0, :3] = torch.tensor([0.0, -0.0, INF])
    given = torch.tensor(scale)
    check(quantize(x, E5M2, scale=given, saturate=saturate), x, E5M2, "tensor", saturate, given)


@pytest.mark.parametrize("out_dtype", LARGEST)
@pytest.mark.parametrize("granularity", ["tensor", "head", "block"])
@pytest.mark.parametrize("saturate", [True, False])
def test_special_elements(out_dtype, granularity, saturate):
    """Elements that are not finite do not count; zeros have a scale of 1, and tiny numbers the smallest normal one."""
    x = make(1, 6, 70, 16)
    x[0, 0] = 0.0
    x[0, 1] = INF
    x[0, 2, 3, 4] = NAN
    x[0, 3, 69] = -INF
    x[0, 4] *= 1e-43
    x[0, 5] *= 8e37
    check(quantize(x, out_dtype, granularity, saturate=saturate), x, out_dtype, granularity, saturate)
    found = quantize(torch.zeros(3, 16), out_dtype, saturate=saturate)
    assert found.scale == 1 and found.amax == 0 and not found.values.float().any()


@pytest.mark.parametrize("shape", [(0, 16), (2, 0, 5, 16), (2, 3, 0, 16), (2, 3, 5, 0)])
def test_tensors_without_elements(shape):
    x = torch.empty(shape)
    found = quantize(x)
    assert found.values.shape == shape and found.scale == 1 and found.amax == 0
    if len(shape) == 4:
        found = quantize(x, granularity="head")
        assert found.scale.shape == shape[:2] and bool((found.scale == 1).all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, granularity", [
    ((2, 3, 70, 64), "head"), ((2, 1, 65, 128), "block"), ((40, 16), "tensor"), ((3, 9, 1024), "tensor"),
])  # fmt: skip
def test_rotation(dtype, shape, granularity):
    x, size = make(*shape, dtype=dtype), shape[-1]
    signs = rotation_signs(size, seed=3)
    rotation = signs.double()[:, None] * hadamard(size) / math.sqrt(size)
    torch.testing.assert_close(rotation @ rotation.mT, torch.eye(size).double())
    rotated = x.double() @ rotation
    found = quantize(x, E4M3, granularity, rotate=signs)
    amax = reduce_amax(rotated, granularity)
    torch.testing.assert_close(found.amax, amax, rtol=1e-5, atol=0)
    torch.testing.assert_close(found.scale, amax / 448, rtol=1e-5, atol=0)
    values = found.values.double() * spread(found.scale, x).double()
    # Half of the distance of two numbers, or of two subnormal ones.
    bound = rotated.abs() * 2.0**-4 * 1.001 + spread(found.scale, x).double() * 2.0**-10 * 1.001
    assert bool(((values - rotated).abs() <= bound).all())
    delayed = quantize(x, E4M3, granularity, rotate=signs, scale=found.scale)
    assert torch.equal(delayed.values.float(), found.values.float())
    assert torch.equal(delayed.amax, found.amax)


def test_a_rotation_keeps_rows_with_nan_apart():
    x = make(4, 32)
    x[1, 3], x[2, 7] = NAN, INF
    found = quantize(x, E5M2, rotate=rotation_signs(32), saturate=False)
    is_finite = found.values.float().isfinite()
    assert is_finite[0].all() and is_finite[3].all() and not is_finite[1].any() and not is_finite[2].any()


def relative_error(found, expected):
    return ((found.double() - expected).square().mean() / expected.square().mean()).sqrt()


def test_attention_of_rotated_queries_and_keys():
    """Scores stay the same, and a few large elements cost less accuracy (Shah et al. 2024, section 4.3)."""
    q, k, v = (make(2, 4, 512, 64, seed=seed) for seed in range(3))
    for number, tensor in enumerate((q, k, v)):
        generator = torch.Generator().manual_seed(10 + number)
        is_large = torch.rand(tensor.shape, generator=generator) < 0.001
        tensor += 10 * is_large * make(*tensor.shape, seed=20 + number)
    exact = torch.nn.functional.scaled_dot_product_attention(*(x.double() for x in (q, k, v)))
    errors = []
    for rotate in (None, rotation_signs(64)):
        quantized = [quantize(x, granularity="head", rotate=rotate) for x in (q, k)]
        quantized.append(quantize(v, granularity="head"))
        scales = dict(zip(("q_descale", "k_descale", "v_descale"), (x.scale for x in quantized)))
        errors.append(relative_error(sdpa(*(x.values for x in quantized), **scales), exact))
    assert errors[1] < 0.8 * errors[0] < 0.1


def test_scales_of_blocks_in_a_score_mod():
    q, k, v = (make(1, 2, 200, 64, seed=seed) for seed in range(3))
    k[:, :, 64:128] *= 100
    q8, k8 = (quantize(x, granularity="block") for x in (q, k))
    q_scale, k_scale = q8.scale, k8.scale

    def score_mod(score, b, h, i, j):
        return score * q_scale[b, h, i // 64] * k_scale[b, h, j // 64]

    v8 = quantize(v, scale=torch.tensor(1.0))
    found = flex_attention(q8.values, k8.values, v8.values, score_mod=score_mod, scale=0.01)
    given = [x.values.double() * spread(x.scale, q).double() for x in (q8, k8)]
    exact = torch.softmax(given[0] @ given[1].mT * 0.01, -1) @ v8.values.double()
    assert relative_error(found, exact) < 0.05


def test_function_that_quantizes_and_attends():
    """A module of the kernel corpus."""
    text = (ROOT / "test" / "Corpus" / "quantize-attention.mlir").read_text()
    q, k, v = (make(2, 8, length, 128, seed=seed, dtype=torch.bfloat16) for seed, length in enumerate((70, 90, 90)))
    found = torch.empty(2, 8, 70, 128, dtype=torch.bfloat16)
    attn.compile(text)["layer"](q, k, v, rotation_signs(128), found)
    exact = [tensor.double() for tensor in (q, k, v)]
    mask = torch.ones(70, 90, dtype=torch.bool).tril(20)
    expected = torch.nn.functional.scaled_dot_product_attention(*exact, attn_mask=mask)
    assert relative_error(found, expected) < 0.06


def all_options():
    x = make(1, 2, 66, 16)
    choices = ("tensor", "block"), (None, rotation_signs(16)), (False, True)
    for granularity, rotate, delayed in itertools.product(*choices):
        scale = quantize(x, granularity=granularity).scale if delayed else None
        yield x, {"granularity": granularity, "rotate": rotate, "scale": scale}


def assert_same(found, expected):
    for one, other in zip(found, expected):
        assert one.dtype == other.dtype and one.stride() == other.stride()
        assert torch.equal(one.float(), other.float())


def test_fake_tensors_and_operator():
    from torch._subclasses.fake_tensor import FakeTensorMode

    for x, options in all_options():
        expected = quantize(x, **options)
        with FakeTensorMode() as mode:
            fake = {name: mode.from_tensor(o) if isinstance(o, torch.Tensor) else o for name, o in options.items()}
            for made, real in zip(quantize(mode.from_tensor(x), **fake), expected):
                assert made.shape == real.shape and made.dtype == real.dtype and made.stride() == real.stride()
        plain = (E4M3, options["granularity"], 64, options["rotate"], True)
        tests = ("test_schema", "test_faketensor", "test_autograd_registration")
        if options["scale"] is None:
            torch.library.opcheck(torch.ops.attn.quantize.default, (x, *plain), test_utils=tests)
        else:
            operator = torch.ops.attn.quantize_with_scale.default
            torch.library.opcheck(operator, (x, options["scale"], *plain), test_utils=tests)


@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor compiles C++ for the host")
@pytest.mark.parametrize("dynamic", [False, True])
def test_inductor(dynamic):
    for x, options in all_options():

        def run(x):
            found = quantize(x * 2, **options)
            return found.values, found.scale * 2, found.amax + 1

        expected = run(x)
        assert_same(torch.compile(run, fullgraph=True, dynamic=dynamic)(x), expected)
        torch._dynamo.reset()


def test_refusals():
    x, heads = make(4, 16), make(1, 2, 4, 16)
    cases = [
        (lambda: quantize(x.double()), "x has the dtype torch.float64; convert it to one of"),
        (lambda: quantize(x[0]), "x has 1 dimensions, expected 2 to 4"),
        (lambda: quantize(x, torch.float16), "dtype is torch.float16, expected torch.float8_e4m3fn or"),
        (lambda: quantize(x, granularity="row"), "granularity is 'row', expected 'tensor', 'head', 'block'"),
        (lambda: quantize(x, granularity="head"), "granularity is 'head' and x has 2 dimensions, expected 4"),
        (lambda: quantize(heads, granularity="block", block_size=32), "block_size is 32, expected 64 or 128"),
        (lambda: quantize(x[:, :12], rotate=rotation_signs(12)), "x has a last dimension of 12; a rotation needs a"),
        (lambda: quantize(x, rotate=rotation_signs(32)), r"rotate has the shape \(32,\), expected \(16,\)"),
        (lambda: quantize(x, rotate=rotation_signs(16).half()), "rotate has the dtype torch.float16"),
        (lambda: quantize(x, scale=torch.ones(1)), r"scale has the shape \(1,\), expected \(\): one for each tensor"),
        (lambda: quantize(heads, granularity="head", scale=torch.ones(1, 3)), r"scale has the shape \(1, 3\), expected"),
        (lambda: quantize(x, scale=torch.tensor(1)), "scale has the dtype torch.int64, expected torch.float32"),
        (lambda: quantize([1.0]), "x is a list; pass a tensor of torch"),
    ]
    for call, message in cases:
        with pytest.raises(attn.AttnError, match=message):
            call()
    with pytest.raises(attn.AttnError, match="quantize has no gradient; call it in the forward function"):
        quantize(x.requires_grad_()).values.float().sum().backward()


def test_builder_refusals():
    for options, message in [
        ({"dtype": "f64"}, "dtype is 'f64'; it must be bf16, f16 or f32"),
        ({"out_dtype": "bf16"}, "out_dtype is 'bf16'; it must be f8E4M3FN or f8E5M2"),
        ({"rank": 5}, "rank is 5; it must be 2, 3 or 4"),
        ({"block_size": 16}, "block_size is 16; it must be 64 or 128"),
        ({"granularity": "row"}, "granularity is 'row'; it must be 'tensor', 'head' or 'block'"),
        ({"granularity": "head"}, "granularity is 'head' and rank 2; it must be 'tensor'"),
        ({"rotated": True, "size": 24}, "size is 24; a rotation needs a power of two from 16 to 1024"),
    ]:
        with pytest.raises(attn.AttnError, match=message):
            attn.Quantize(**{"dtype": "bf16", "rank": 2, "size": 64, **options})
