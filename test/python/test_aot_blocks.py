# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole blocks of transformers as artifacts: functions of elements, sums, normalizations and parts, against f64."""

import copy
import json
import math
import re

import attn
import pytest
from attn.artifact import DTYPES, Artifact, element_types

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from attn.torch.lower import lower  # noqa: E402

HEADS, KEY_HEADS, DIM = 4, 2, 16
WIDTH = HEADS * DIM


def run(model, inputs, folder, targets=("host",)):
    """The results of a compiled module, whose tensors are in files of the directory."""
    made = attn.aot(model, inputs, directory=folder / "made", name="f", targets=targets)
    return call(made, inputs, [tensor for tensor in as_tuple(model(*inputs))])


def call(made, inputs, like):
    """Calls the artifact in a directory; ``like`` has tensors of the shapes and dtypes of the results."""
    artifact = json.loads((made / "manifest.json").read_text())["artifacts"][0]
    outs = [torch.full_like(tensor, math.nan).contiguous() for tensor in like]
    tensors, results = iter(inputs), iter(outs)
    arguments = []
    for argument in artifact["functions"][0]["arguments"]:
        if "data" in argument:
            dtype = {number: dtype for dtype, number in element_types().items()}[DTYPES.index(argument["dtype"])]
            contents = bytearray((made / argument["data"]).read_bytes())
            arguments.append(torch.frombuffer(contents, dtype=dtype).reshape(argument["shape"]))
        else:
            arguments.append(next(results if argument["output"] else tensors))
    Artifact(str(made / artifact["library"]))["f"](*arguments)
    return outs


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def exact(model, inputs):
    """The same in f64, of the same numbers."""
    wide = [tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs]
    return as_tuple(copy.deepcopy(model).double()(*wide))


def check(model, inputs, folder, tolerance, targets=("host",)):
    model = model.eval()
    with torch.no_grad():
        for found, expected in zip(run(model, inputs, folder, targets), exact(model, inputs), strict=True):
            assert found.shape == expected.shape
            assert torch.equal(found.isnan(), expected.isnan())
            if found.numel():
                error = (found.double() - expected).nan_to_num().abs().max()
                assert error <= tolerance * expected.nan_to_num().abs().max().clamp(min=1e-30)


def rotate(x, cos, sin):
    """Rotary embedding as Llama has it."""
    left, right = x[..., : DIM // 2], x[..., DIM // 2 :]
    return x * cos + torch.cat((-right, left), -1) * sin


class LlamaBlock(torch.nn.Module):
    """RMSNorm by its parts, rotary embedding, grouped heads and SwiGLU."""

    def __init__(self, length):
        super().__init__()
        self.gain, self.last_gain = (torch.nn.Parameter(torch.rand(WIDTH) + 0.5) for _ in range(2))
        self.q, self.o = (torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.k, self.v = (torch.nn.Linear(WIDTH, KEY_HEADS * DIM, bias=False) for _ in range(2))
        self.gate, self.up = (torch.nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(2 * WIDTH, WIDTH, bias=False)
        angles = torch.arange(length)[:, None] * 100.0 ** -(torch.arange(DIM // 2) / (DIM // 2))
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos())
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin())

    def norm(self, x, gain):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return gain * wide.to(x.dtype)

    def forward(self, x):
        y = self.norm(x, self.gain)
        split = [part.unflatten(-1, (-1, DIM)).transpose(1, 2) for part in (self.q(y), self.k(y), self.v(y))]
        q, k = (rotate(part, self.cos.to(x.dtype), self.sin.to(x.dtype)) for part in split[:2])
        y = F.scaled_dot_product_attention(q, k, split[2], is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm(x, self.last_gain)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class GPTBlock(torch.nn.Module):
    """LayerNorm, one projection of queries, keys and values, and GELU."""

    def __init__(self, approximate, cut):
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(WIDTH), torch.nn.RMSNorm(WIDTH)
        self.qkv, self.o = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Linear(2 * WIDTH, WIDTH)
        self.approximate, self.cut = approximate, cut
        for norm in (self.first, self.second):
            torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
        torch.nn.init.normal_(self.first.bias)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, DIM)).transpose(1, 2) for part in self.cut(self.qkv(self.first(x))))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.o(y)
        return x + self.down(F.gelu(self.up(self.second(x)), approximate=self.approximate))


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.bfloat16, 3e-2), (torch.float16, 4e-3)])
def test_llama(tmp_path, dtype, tolerance):
    torch.manual_seed(0)
    targets = ("host",) if dtype == torch.float16 else ("host", "sm_80", "sm_90a")
    check(LlamaBlock(24).to(dtype), (torch.randn(2, 24, WIDTH, dtype=dtype),), tmp_path, tolerance, targets)


CUTS = {
    "split": lambda x: x.split(WIDTH, -1),
    "chunk": lambda x: x.chunk(3, -1),
    "unbind": lambda x: x.unflatten(-1, (3, WIDTH)).unbind(2),
    "select": lambda x: (x.unflatten(-1, (3, WIDTH)).select(2, number) for number in range(3)),
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gpt(tmp_path, approximate, cut):
    torch.manual_seed(0)
    check(GPTBlock(approximate, CUTS[cut]), (torch.randn(2, 20, WIDTH),), tmp_path, 1e-5)


class WithAttention(torch.nn.Module):
    """A function and attention, which graphs must have."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return F.scaled_dot_product_attention(x, x, x), *as_tuple(self.function(x, y))


FUNCTIONS = {
    "neg": lambda x, y: -x,
    "abs": lambda x, y: x.abs(),
    "relu": lambda x, y: F.relu(x),
    "sigmoid": lambda x, y: x.sigmoid(),
    "silu": lambda x, y: F.silu(x),
    "gelu": lambda x, y: F.gelu(x),
    "gelu_tanh": lambda x, y: F.gelu(x, approximate="tanh"),
    "exp": lambda x, y: x.exp(),
    "log": lambda x, y: y.log(),
    "sqrt": lambda x, y: y.sqrt(),
    "rsqrt": lambda x, y: y.rsqrt(),
    "sin": lambda x, y: x.sin(),
    "cos": lambda x, y: x.cos(),
    "tanh": lambda x, y: x.tanh(),
    "erf": lambda x, y: x.erf(),
    "square": lambda x, y: x.square(),
    "reciprocal": lambda x, y: y.reciprocal(),
    "powers": lambda x, y: x**2 + x**3 + y**0.5 + y**-0.5 + y**-1,
    "number_minus": lambda x, y: 3.5 - x,
    "number_over": lambda x, y: 2.0 / y,
    "maximum": lambda x, y: torch.maximum(x, y) - torch.minimum(x, y),
    "sum": lambda x, y: x.sum(),
    "sum_dims": lambda x, y: y.sum((0, -1)),
    "sum_keepdim": lambda x, y: x - y.sum(1, keepdim=True),
    "mean": lambda x, y: y.mean(),
    "mean_dim": lambda x, y: y.mean(-1),
    "amax": lambda x, y: x - x.amax(-1, keepdim=True),
    "amin": lambda x, y: x.amin((1, 2)),
    "rms_norm": lambda x, y: F.rms_norm(x, x.shape[-2:], eps=1e-3),
    "layer_norm": lambda x, y: F.layer_norm(x + 3, x.shape[-1:], y[0, 0, 0], y[0, 1, 1]),
    "layer_norm_bias": lambda x, y: F.layer_norm(x, x.shape[-1:], None, y[0, 1, 1]),
    "cat": lambda x, y: torch.cat((x, y, x[:, :1]), 1),
    "slice": lambda x, y: x[:, :, 1:-2:3, -4:],
    "select": lambda x, y: x[1, :, -1],
    "split_sizes": lambda x, y: x.split([2, 3, 4], 2)[1] * 2,
    "split_rest": lambda x, y: x.split(4, 2)[2] * 2,
    "split_nothing": lambda x, y: x.split([9, 0], 2)[1] * 2,
    "slice_nothing": lambda x, y: x[:, 3:] * 2,
    "narrow": lambda x, y: x.narrow(2, -3, 2),
    "expand_as": lambda x, y: x[:, :1].expand_as(y),
    "constant": lambda x, y: x * torch.tensor(3.25) + torch.arange(16.0).to(x.dtype),
    "input": lambda x, y: x,
    "no_change": lambda x, y: (x * 1, x.mT.mT, x.reshape(6, 9, 16).reshape(2, 3, 9, 16), torch.cat([x])),
    "twice": lambda x, y: ((z := x * 2), z, x * 2, z.reshape(-1)),
    "low_rank": lambda x, y: (x[0, 0, 0].t() * 2, x[0, 0, 0, 0].permute(()).exp()),
}


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 2e-6), (torch.bfloat16, 1.5e-2)], ids=["f32", "bf16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(tmp_path, name, dtype, tolerance):
    torch.manual_seed(0)
    x, y = torch.randn(2, 3, 9, 16, dtype=dtype), torch.rand(2, 3, 9, 16, dtype=dtype) + 0.1
    check(WithAttention(FUNCTIONS[name]), (x, y), tmp_path, tolerance)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)], ids=["f32", "bf16"])
def test_default_epsilon(tmp_path, dtype, tolerance):
    """RMSNorm without an epsilon takes the one of f32, which decides where numbers are small."""
    x = torch.randn(1, 2, 9, 16, dtype=dtype) * torch.finfo(torch.float32).eps ** 0.5
    model = WithAttention(lambda x, y: F.rms_norm(x, (16,))).eval()
    torch.testing.assert_close(run(model, (x, x), tmp_path)[1], model(x, x)[1], rtol=tolerance, atol=tolerance)


RANGE = ["sigmoid", "silu", "gelu", "gelu_tanh", "exp", "tanh", "erf", "relu", "neg", "amax"]


@pytest.mark.parametrize("name", RANGE)
def test_whole_range(tmp_path, name):
    """Large and small numbers, zeros, infinities and NaN."""
    numbers = [0.0, -0.0, 1e-40, -1e-30, 1e-8, 0.5, -3.0, 20.0, -20.0, 88.0, -104.0, 300.0, -300.0, 1e30, -3e38]
    x = torch.tensor([*numbers, math.inf, -math.inf, math.nan, 2.0, 1.0]).reshape(1, 1, 5, 4)
    model = WithAttention(FUNCTIONS[name]).eval()
    _, found = run(model, (x, x), tmp_path)
    # Vectorized code of torch makes NaN of infinity.
    erf = x.double() * 0.5 * (1 + torch.erf(x.double() * math.sqrt(0.5)))
    expected = erf if name == "gelu" else model(x, x)[1].double()
    torch.testing.assert_close(found, expected.float(), rtol=2e-5, atol=1e-7, equal_nan=True)


def test_sizes_that_vary(tmp_path):
    """Batches that the artifact gets when it is called."""
    torch.manual_seed(0)
    model = GPTBlock("tanh", CUTS["split"]).eval()
    made = attn.aot(model, (attn.Shape(("batch", 20, WIDTH)),), directory=tmp_path / "made", name="f")
    for batch in (1, 3):
        x = torch.randn(batch, 20, WIDTH)
        with torch.no_grad():
            torch.testing.assert_close(call(made, (x,), (x,))[0].double(), exact(model, (x,))[0], rtol=1e-4, atol=1e-5)


class FirstResult(torch.nn.Module):
    """A model of Transformers, whose first result counts."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)[0]


def make_model(name):
    transformers = pytest.importorskip("transformers")
    sizes = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, vocab_size=50)
    image = dict(image_size=24, patch_size=8)
    decoder = dict(num_key_value_heads=2, max_position_embeddings=64, use_cache=False)
    torch.manual_seed(0)
    return {
        "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **decoder)),
        "qwen3": lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(head_dim=32, **sizes, **decoder)),
        "gpt2": lambda: transformers.GPT2LMHeadModel(
            transformers.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=50, n_positions=32, use_cache=False)
        ),
        "bert": lambda: transformers.BertModel(transformers.BertConfig(**sizes), add_pooling_layer=False),
        "vit": lambda: transformers.ViTModel(transformers.ViTConfig(**sizes, **image), add_pooling_layer=False),
    }[name]()


@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt2", "bert", "vit"])
def test_models(tmp_path, name):
    """Models of Transformers from numbers of tokens or images to their results."""
    model = FirstResult(make_model(name)).eval()
    x = torch.randn(2, 3, 24, 24) if name == "vit" else torch.randint(0, 50, (2, 20))
    check(model, (x,), tmp_path, 1e-5, ("host", "sm_80", "sm_90a"))


@pytest.mark.parametrize("name", ["bert", "vit"])
def test_models_with_batches_that_vary(tmp_path, name):
    model = FirstResult(make_model(name)).eval()
    shape = attn.Shape(("batch", 3, 24, 24)) if name == "vit" else attn.Shape(("batch", 20), "i64")
    made = attn.aot(model, (shape,), directory=tmp_path / "made", name="f")
    for batch in (1, 3):
        x = torch.randn(batch, 3, 24, 24) if name == "vit" else torch.randint(0, 50, (batch, 20))
        with torch.no_grad():
            expected = model(x)
        torch.testing.assert_close(call(made, (x,), (expected,))[0], expected, rtol=1e-4, atol=1e-5)


def test_tensors_of_the_module_stay(tmp_path):
    """Buffers keep their names and contents next to constants of the graph."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("constant_0", torch.full((16,), 5.0))

        def forward(self, x):
            return F.scaled_dot_product_attention(x, x, x) * self.constant_0 + torch.arange(16.0) * 2

    check(Model(), (torch.randn(1, 2, 8, 16),), tmp_path, 1e-5)


@pytest.mark.parametrize("name, mask", [("llama", True), ("gpt2", True), ("bert", False)])
def test_masks_of_models(name, mask):
    """Models make causal masks of comparisons of positions, or masks that keep all pairs."""
    text = lower(FirstResult(make_model(name)).eval(), (torch.randint(0, 50, (2, 20)),), "f")[1].mlir
    assert text.count("attn.attention") == 2 and "mask_mod" not in text
    assert text.count("mask(#attn.causal") == (2 if mask else 0)


MASKS = {
    "causal": (torch.ones(8, 8).tril().bool(), True),
    "causal numbers": (torch.zeros(1, 1, 8, 8).masked_fill(torch.ones(8, 8).triu(1).bool(), -math.inf), True),
    "all": (torch.ones(2, 1, 1, 8).bool(), True),
    "window": (torch.ones(8, 8).tril().triu(-3).bool(), False),
    "strict": (torch.ones(8, 8).tril(-1).bool(), False),
    "finite": (torch.zeros(8, 8).masked_fill(torch.ones(8, 8).triu(1).bool(), -1e4), False),
    "padded": (torch.arange(8)[None, None, None] < torch.tensor([3, 8])[:, None, None, None], False),
}


@pytest.mark.parametrize("name", MASKS)
def test_constant_masks(tmp_path, name):
    mask, is_named = MASKS[name]
    model = torch.nn.Module()
    model.forward = lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=mask.clone())
    x = torch.randn(2, 3, 8, 16)
    text = lower(model, (x,), "f")[1].mlir
    assert is_named == ("tensor.extract" not in text), text
    torch.testing.assert_close(run(model, (x,), tmp_path)[0], torch.nan_to_num(model(x)), rtol=1e-5, atol=1e-5)


def test_rows_that_a_matrix_has_not(tmp_path):
    weight = torch.randn(7, 16)
    model = WithAttention(lambda x, y: F.embedding(y, weight)).eval()
    made = attn.aot(
        model, (torch.randn(1, 2, 8, 16), torch.zeros(5, dtype=torch.int64)), directory=tmp_path / "made", name="f"
    )
    ids = torch.tensor([6, -1, 0, 7, 2**40])
    _, found = call(made, (torch.randn(1, 2, 8, 16), ids), (torch.empty(1, 2, 8, 16), torch.empty(5, 16)))
    expected = torch.full((5, 16), math.nan)
    expected[0], expected[2] = weight[6], weight[0]
    torch.testing.assert_close(found, expected, equal_nan=True, rtol=0, atol=0)


def test_patches_of_batches_that_vary(tmp_path):
    torch.manual_seed(0)
    convolution = torch.nn.Conv2d(3, 16, (4, 2), stride=(4, 2))

    def embed(image):
        return F.scaled_dot_product_attention(*[convolution(image).flatten(2).mT[:, None]] * 3)

    shape = attn.Shape(("batch", 3, 8, 12))
    made = attn.aot(embed, (shape,), directory=tmp_path / "made", name="f")
    for batch in (1, 3):
        image = torch.randn(batch, 3, 8, 12)
        with torch.no_grad():
            expected = embed(image)
        torch.testing.assert_close(call(made, (image,), (expected,))[0], expected, rtol=1e-5, atol=1e-5)


ERRORS = {
    "(aten.pow.Tensor_Scalar) has the exponent 1.5, none of -1.0, -0.5, 0.5, 2.0, 3.0": lambda x, y: y**1.5,
    "rsub (aten.rsub.Scalar) has alpha = 2": lambda x, y: torch.rsub(x, 1.0, alpha=2),
    "add (aten.add.Tensor) has alpha = 2": lambda x, y: torch.add(x, y, alpha=2),
    "the graph has the operation aten.cumsum.default": lambda x, y: x.cumsum(-1),
    "conv2d (aten.conv2d.default) has windows that overlap, are padded or do not divide the image, or groups": (
        lambda x, y: F.conv2d(x, y[:1, :, :3, :3])
    ),
    "the graph writes to a tensor, by aten.mul_.Tensor (mul_)": lambda x, y: ((z := x + 1)[0].mul_(3), z * 1)[1],
    "linear (aten.linear.default) has another matrix than one of static sizes": lambda x, y: F.linear(x, y[0, 0, 0]),
    "dropout has dropout; call .eval() on the module": lambda x, y: F.dropout(x, 0.5, training=True),
    "cat (aten.cat.default) has tensors of several dtypes": lambda x, y: torch.cat((x, y.bfloat16())),
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors(tmp_path, text):
    x = torch.randn(1, 2, 8, 16)
    with pytest.raises(attn.UnsupportedError, match=re.escape(text)):
        attn.aot(WithAttention(ERRORS[text]), (x, x), directory=tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_inputs_without_a_dtype(tmp_path):
    inputs = torch.randn(1, 2, 8, 16), torch.ones(3, dtype=torch.int16)
    with pytest.raises(attn.UnsupportedError, match="the graph has a tensor of torch.int16"):
        attn.aot(WithAttention(lambda x, y: x * 2), inputs, directory=tmp_path / "made")


def test_matrix_of_sizes_that_vary(tmp_path):
    shapes = attn.Shape((1, 2, 8, 16)), attn.Shape((16, "columns"))
    with pytest.raises(attn.UnsupportedError, match="another matrix than one of static sizes, or a vector"):
        attn.aot(WithAttention(lambda x, y: x @ y), shapes, directory=tmp_path / "made")


def test_sizes_that_parts_need(tmp_path):
    shape = attn.Shape(("batch", 2, "length", 16))
    for function, text in (
        (lambda x, y: x.mean(2), "a mean over a size that varies"),
        (lambda x, y: torch.cat((x, y), 2), "parts of a size that varies"),
        (lambda x, y: x * x.shape[0], "a size that varies as an argument"),
    ):
        with pytest.raises(attn.UnsupportedError, match=text):
            attn.aot(WithAttention(function), (shape, shape), directory=tmp_path / "made")
