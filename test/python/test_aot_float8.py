# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matmuls, casts and quantizations of 8 bits in graphs that become artifacts, against f64."""

import math
import re
import subprocess

import attn
import pytest
from attn.artifact import Artifact
from conftest import BUILD

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from attn.torch import quantize  # noqa: E402
from attn.torch.lower import lower  # noqa: E402

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
HEADS, DIM = 2, 32
WIDTH = HEADS * DIM


def attend(x):
    """A block needs attention; of this one only the values matter: each query attends one key."""
    heads = x.unflatten(-1, (HEADS, DIM)).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads, is_causal=True).transpose(1, 2).flatten(2)


def attend_exactly(x):
    heads = x.double().unflatten(-1, (HEADS, DIM)).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads, is_causal=True).transpose(1, 2).flatten(2)


def run(model, inputs, out, folder):
    """The results of a compiled function, and the module before passes."""
    attn.aot(model, inputs, directory=folder / "made", name="f")
    artifact = Artifact(str(folder / "made" / "lib" / "libf.host.so"))
    owned = {name.replace(".", "_"): tensor.detach() for name, tensor in model.state_dict().items()}
    named = dict(zip([name for name, *_ in artifact["f"].args if name not in owned and name != "out"], inputs))
    tensors = {**named, **owned, "out": out}
    artifact["f"](*[tensors[name] for name, *_ in artifact["f"].args])
    return out


class Scaled(torch.nn.Module):
    """A linear layer of 8 bits behind attention, by torch's operator."""

    def __init__(self, formats, by_row, bias, out_dtype):
        super().__init__()
        weight = torch.randn(48, WIDTH)
        scale = weight.abs().amax(1, keepdim=True).T / 57344 if by_row else weight.abs().max() / 57344
        self.formats, self.by_row, self.out_dtype = formats, by_row, out_dtype
        self.register_buffer("weight", (weight / (scale.T if by_row else scale)).to(formats[1]))
        self.register_buffer("weight_scale", scale.contiguous())
        self.register_buffer("scale", torch.rand(20, 1) + 0.01 if by_row else torch.tensor(0.02))
        self.register_buffer("bias", torch.randn(48).to(out_dtype) if bias else None)

    def forward(self, x):
        rows = attend(x).flatten(0, 1)
        if self.by_row:
            rows = rows * 1.5
        return torch._scaled_mm(
            rows.to(self.formats[0]), self.weight.t(), scale_a=self.scale, scale_b=self.weight_scale, bias=self.bias,
            out_dtype=self.out_dtype,
        )  # fmt: skip


@pytest.mark.parametrize("formats", [(E4M3, E5M2), (E5M2, E4M3), (E5M2, E5M2)], ids=lambda f: f"{f[0]}-{f[1]}"[6:])
@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("bias, out_dtype", [(True, torch.bfloat16), (False, torch.float32)])
def test_scaled_matmul(tmp_path, formats, by_row, bias, out_dtype):
    torch.manual_seed(0)
    model, x = Scaled(formats, by_row, bias, out_dtype), torch.randn(1, 20, WIDTH)
    if formats[1] == E4M3:
        model.weight_scale.mul_(57344 / 448)
        model.weight = (model.weight.float() * 1.0).to(E4M3)
    out = run(model, (x,), torch.empty(20, 48, dtype=out_dtype), tmp_path)
    rows = attend_exactly(x).flatten(0, 1) * (1.5 if by_row else 1.0)
    rounded = rows.float().to(formats[0]).double()
    expected = (rounded * model.scale.double()) @ (model.weight.double().T * model.weight_scale.double())
    if bias:
        expected = expected + model.bias.double()
    # A value of the rows may round to the other neighbour.
    error = (out.double() - expected).norm() / expected.norm()
    assert error < 6e-3


@pytest.mark.parametrize("by_row", [False, True])
def test_sizes_that_vary(tmp_path, by_row):
    torch.manual_seed(0)
    model, x = Varying(by_row), torch.randn(1, 8, WIDTH)
    make = lambda length: (  # noqa: E731
        torch.randn(length, WIDTH), torch.rand(length, 1) + 0.1 if by_row else torch.tensor(0.3)
    )  # fmt: skip
    rows, scale = make(20)
    for tensor in (rows, scale)[: 1 + by_row]:
        torch._dynamo.mark_dynamic(tensor, 0)
    attn.aot(model, (x, rows, scale), directory=tmp_path / "made", name="f")
    artifact = Artifact(str(tmp_path / "made" / "lib" / "libf.host.so"))
    for length in (20, 33):
        rows, scale = make(length)
        tensors = {"x": x, "rows": rows, "scale": scale, **dict(model.named_buffers())}
        tensors.update(out0=torch.empty_like(x), out1=torch.empty(length, 16))
        artifact["f"](*[tensors[name] for name, *_ in artifact["f"].args])
        expected = (rows.to(E4M3).double() * scale.double()) @ (model.weight.double().T * model.columns.double())
        assert (tensors["out1"].double() - expected).norm() / expected.norm() < 1e-6


class Varying(torch.nn.Module):
    def __init__(self, by_row):
        super().__init__()
        self.register_buffer("weight", torch.randn(16, WIDTH).to(E4M3))
        self.register_buffer("columns", torch.rand(1, 16) + 0.5 if by_row else torch.tensor(2.0))

    def forward(self, x, rows, scale):
        scaled = torch._scaled_mm(
            rows.to(E4M3), self.weight.t(), scale_a=scale, scale_b=self.columns, out_dtype=torch.float32
        )
        return attend(x), scaled


class Quantizing(torch.nn.Module):
    """Inputs of attention by ``attn.torch.quantize``, and a result that is cast."""

    def forward(self, query, key, value, scale):
        q, k = (quantize(x, E4M3, "head") for x in (query, key))
        v = quantize(value, E5M2, "head", scale=scale)
        values = v.values.to(torch.float32) * scale[:, :, None, None]
        same = q.values.float() * q.scale[:, :, None, None]
        keys = k.values.float() * k.scale.unsqueeze(-1).unsqueeze(-1)
        return F.scaled_dot_product_attention(same, keys, values)


def test_quantize(tmp_path):
    torch.manual_seed(0)
    inputs = [torch.randn(1, HEADS, 24, DIM) for _ in range(3)]
    scale = torch.tensor([[0.25, 1.5]])
    out = run(Quantizing(), (*inputs, scale), torch.empty_like(inputs[0]), tmp_path)
    rounded = [quantize(x, E4M3, "head") for x in inputs[:2]] + [quantize(inputs[2], E5M2, "head", scale=scale)]
    exact = [x.values.double() * x.scale.double()[:, :, None, None] for x in rounded]
    torch.testing.assert_close(out.double(), F.scaled_dot_product_attention(*exact), rtol=1e-5, atol=1e-5)


class Casting(torch.nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, x, scale):
        y = (attend(x) / scale).clamp(-3.0, 2.5).to(torch.bfloat16).to(self.dtype).to(torch.bfloat16)
        return y.to(torch.float32) * scale


@pytest.mark.parametrize("dtype", [E4M3, E5M2, torch.float16])
def test_casts(tmp_path, dtype):
    torch.manual_seed(0)
    x, scale = torch.randn(1, 24, WIDTH), torch.tensor([0.1])
    model = Casting(dtype)
    out = run(model, (x, scale), torch.empty(1, 24, WIDTH), tmp_path)
    expected = model(x, scale)
    assert ((out - expected).abs() > 1e-6).float().mean() < 2e-3
    torch.testing.assert_close(out, expected, rtol=0.3, atol=1e-2)


class Rows(torch.nn.Module):
    """A function of the values of attention, in rows, with tensors of the module."""

    def __init__(self, function, **tensors):
        super().__init__()
        self.function = function
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    def forward(self, x):
        return self.function(self, attend(x).flatten(0, 1))


NUMBERS = {
    "mul": (lambda x, n: x * n, 0.1),
    "div": (lambda x, n: x / n, 0.3),
    "add": (lambda x, n: x + n, 0.1),
    "sub": (lambda x, n: x - n, 0.3),
    # Numbers that f16 does not have.
    "large": (lambda x, n: x * n, 1e5),
    "small": (lambda x, n: x / n, 1e-8),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("case", list(NUMBERS))
def test_numbers_are_not_rounded(tmp_path, dtype, case):
    torch.manual_seed(0)
    function, number = NUMBERS[case]
    magnitude = {"large": 1e-4, "small": 2.0**-20}.get(case, 1.0)
    x = (magnitude * torch.randn(1, 20, WIDTH)).to(dtype).float()
    model = Rows(lambda m, rows: function(rows.to(dtype), number))
    out = run(model, (x,), torch.empty(20, WIDTH, dtype=dtype), tmp_path)
    # The first query attends one key: its value is known exactly.
    expected = function(x[0, 0].double(), torch.tensor(number).double()).float().to(dtype)
    assert expected.isfinite().all()
    assert torch.equal(out[0], expected)


@pytest.mark.parametrize("low, high", [(0.0, math.inf), (-math.inf, 0.5), (-math.inf, math.inf), (math.nan, None)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_bounds_that_are_not_finite(tmp_path, low, high, dtype):
    torch.manual_seed(0)
    x = torch.randn(1, 4, WIDTH).to(dtype).float()
    model = Rows(lambda m, rows: rows.to(dtype).clamp(low, high))
    out = run(model, (x,), torch.empty(4, WIDTH, dtype=dtype), tmp_path)
    torch.testing.assert_close(out[0], x[0, 0].to(dtype).clamp(low, high), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_numbers_that_are_not_finite(tmp_path, number):
    x = torch.arange(4.0 * WIDTH).sub(7).view(1, 4, WIDTH)
    out = run(Rows(lambda m, rows: rows * number), (x,), torch.empty(4, WIDTH), tmp_path)
    torch.testing.assert_close(out[0], x[0, 0] * number, rtol=0, atol=0, equal_nan=True)


def test_products_of_scales(tmp_path):
    torch.manual_seed(0)
    weight, a, b = torch.randn(16, WIDTH).to(E4M3), torch.tensor(0.25), torch.tensor(3.0)
    product = lambda m, rows: torch._scaled_mm(  # noqa: E731
        rows.to(E4M3), m.weight.t(), m.a * m.b, m.a, out_dtype=torch.float32
    )
    x = torch.randn(1, 20, WIDTH).to(E4M3).float()
    out = run(Rows(product, weight=weight, a=a, b=b), (x,), torch.empty(20, 16), tmp_path)
    expected = x[0, 0].double() @ weight.double().T * 0.75 * 0.25
    torch.testing.assert_close(out[0].double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("move", [lambda w: w.permute(0, 1), lambda w: w.transpose(0, 0)], ids=["permute", "transpose"])
def test_views_that_transpose_nothing(tmp_path, move):
    torch.manual_seed(0)
    # Torch wants the columns of the second matrix contiguous.
    weight = torch.randn(WIDTH, WIDTH)
    multiply = lambda m, rows: torch._scaled_mm(  # noqa: E731
        rows.to(E4M3), move(m.weight.t().to(E4M3)), m.one, m.one, out_dtype=torch.float32
    )
    x = torch.randn(1, 16, WIDTH).to(E4M3).float()
    out = run(Rows(multiply, weight=weight, one=torch.tensor(1.0)), (x,), torch.empty(16, WIDTH), tmp_path)
    expected = x[0, 0].double() @ weight.to(E4M3).double().T
    torch.testing.assert_close(out[0].double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_casts_beyond_the_largest_number(tmp_path, dtype):
    """What torch does: the largest number, or infinity or NaN."""

    class Cast(torch.nn.Module):
        def forward(self, x):
            return (attend(x) * x).to(dtype).to(torch.float32)

    x = torch.full((1, 1, WIDTH), 200.0) * torch.arange(WIDTH)
    x[..., 0], x[..., 1] = torch.nan, torch.inf
    model = Cast()
    # A single key has a probability of one, and NaN as well as infinity reaches its head alone.
    x = x.nan_to_num(nan=1.0, posinf=3.0)
    out = run(model, (x,), torch.empty(1, 1, WIDTH), tmp_path)
    torch.testing.assert_close(out, model(x), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("target, count", [("sm_90a", 1), ("host", 1), ("sm_80", 0)])
def test_kernels(tmp_path, target, count):
    """A scaled matmul is one kernel with its scales where the target multiplies 8 bits."""
    model = Scaled((E4M3, E5M2), False, True, torch.bfloat16)
    _, lowered = lower(model, (torch.randn(1, 32, WIDTH),), "f")
    (tmp_path / "in.mlir").write_text(lowered.mlir)
    command = [BUILD / "bin" / "attn-opt", tmp_path / "in.mlir", f"--attn-schedule-pipeline=target={target}"]
    result = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    matmuls = re.findall(r"attn\.matmul ins\(.* : tensor<32x64xf8E4M3FN>, tensor<48x64xf8E5M2>\).*epilogue", result)
    assert len(matmuls) == count and result.count("linalg.matmul") == 1 - count


class Failing(torch.nn.Module):
    def __init__(self, make):
        super().__init__()
        self.make = make
        self.register_buffer("weight", torch.ones(16, WIDTH).to(E4M3))
        self.register_buffer("one", torch.tensor(1.0))
        self.register_buffer("blocks", torch.ones(16, 1))

    def forward(self, x):
        return self.make(self, attend(x).flatten(0, 1))


@pytest.mark.parametrize(
    "make, text",
    [
        (
            lambda m, x: torch._scaled_mm(x.to(E4M3), m.weight.t(), m.one, m.one, out_dtype=E4M3),
            "has a result of torch.float8_e4m3fn, which kernels do not round; pass out_dtype=torch.bfloat16",
        ),
        (lambda m, x: x.clamp(m.one), "aten.clamp.Tensor"),
        (lambda m, x: x.to(E4M3) * x.to(E4M3), "(aten.mul.Tensor) has an operand of torch.float8_e4m3fn"),
        (lambda m, x: x.double().float(), "which Attn does not compile here"),
    ],
)
def test_errors(tmp_path, make, text):
    with pytest.raises(attn.AttnError, match=re.escape(text)):
        attn.aot(Failing(make), (torch.randn(1, 16, WIDTH),), directory=tmp_path / "made", name="f")
