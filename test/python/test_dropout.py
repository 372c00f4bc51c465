# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dropout in attn.torch: against attention in f64 that drops the same probabilities.

Outputs show which ones are dropped: with equal scores, and values that are rows of the identity, each output is a
probability.
"""

import concurrent.futures
import sys

import pytest
from conftest import ROOT

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn.torch import flex_attention, kernels, ops, sdpa  # noqa: E402
from attn.torch.kernels import dropout_attribute  # noqa: E402
from dropout_reference import Dropout  # noqa: E402

B, H, S, D = 2, 4, 72, 32


def recover_mask(seed, p, batch=B, heads=H, queries=S, keys=S):
    """What the first call after torch.manual_seed(seed) keeps."""
    torch.manual_seed(seed)
    zeros = torch.zeros(batch, heads, queries, 16)
    values = torch.eye(keys).expand(batch, heads, keys, keys)
    return sdpa(zeros, torch.zeros(batch, heads, keys, 16), values, dropout_p=p) > 0


def effective(p):
    bits = 8 if "bits = 8" in dropout_attribute(p) else 16
    return int(p * 2**bits + 0.5) / 2**bits


def reference(q, k, v, kept, p, change=lambda scores: scores):
    """Attention in f64 that keeps the probabilities of ``kept``."""
    groups = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(groups, 1) for x in (k, v))
    weights = torch.softmax(change(q @ k.mT / q.shape[-1] ** 0.5), -1)
    return (weights * kept / (1 - effective(p))) @ v


def make_inputs(dtype=torch.float32, key_heads=H):
    torch.manual_seed(100)
    return [torch.randn(B, heads, S, D).to(dtype).requires_grad_() for heads in (H, key_heads, key_heads)]


def gradients(out, inputs):
    weights = torch.randn(out.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return torch.autograd.grad((out.double() * weights).sum(), inputs)


def compare(call, change=lambda scores: scores, p=0.25, dtype=torch.float32, key_heads=H):
    inputs = make_inputs(dtype, key_heads)
    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    exact = reference(*wide, recover_mask(7, p), p, change)
    torch.manual_seed(7)
    out = call(*inputs)
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}[dtype]
    for actual, expected in zip((out, *gradients(out, inputs)), (exact, *gradients(exact, wide))):
        assert (actual.double() - expected).norm() <= tolerance * expected.norm()


def causal(scores):
    return scores.masked_fill(torch.ones(S, S).triu(1).bool(), float("-inf"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("p", [0.1, 0.125, 0.5])
def test_sdpa(dtype, p):
    compare(lambda q, k, v: sdpa(q, k, v, dropout_p=p, is_causal=True), causal, p=p, dtype=dtype)


def test_grouped_heads():
    compare(lambda q, k, v: sdpa(q, k, v, dropout_p=0.25, enable_gqa=True), key_heads=2)


def test_masks():
    mask = torch.rand(S, S, generator=torch.Generator().manual_seed(2)) > 0.3
    fill = lambda scores: scores.masked_fill(~mask, float("-inf"))  # noqa: E731
    compare(lambda q, k, v: sdpa(q, k, v, attn_mask=mask, dropout_p=0.25), fill)
    bias = torch.randn(H, 1, S, generator=torch.Generator().manual_seed(2))
    compare(lambda q, k, v: sdpa(q, k, v, attn_mask=bias, dropout_p=0.25), lambda scores: scores + bias)


def test_flex_attention():
    slopes = torch.rand(H, generator=torch.Generator().manual_seed(2))
    distance = torch.arange(S)[:, None] - torch.arange(S)

    def call(q, k, v):
        return flex_attention(
            q, k, v, lambda s, b, h, i, j: s - slopes[h] * (i - j), lambda b, h, i, j: i >= j, dropout_p=0.25
        )

    compare(call, lambda scores: causal(scores - slopes[:, None, None] * distance))


def test_log_sum_exp_is_that_of_all_probabilities():
    q, k, v = make_inputs()
    out, lse = flex_attention(q, k, v, return_lse=True, dropout_p=0.25)
    _, expected = flex_attention(q, k, v, return_lse=True)
    torch.testing.assert_close(lse, expected)
    (gradient,) = torch.autograd.grad(lse.sum() + 0 * out.sum(), q)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), q)[0])


def test_keep_masks_are_those_of_the_documentation():
    torch.manual_seed(5)
    seed, offset = torch.randint(2**63 - 1, (2,)).tolist()
    kept = recover_mask(5, 0.1)
    b, h, i, j = (torch.arange(n).reshape([-1] + [1] * (3 - d)).numpy() for d, n in enumerate((B, H, S, S)))
    expected = Dropout(effective(0.1), "arx", 6).keep(seed, offset, b, h, i, j)
    assert (kept.numpy() == expected).all()


@pytest.mark.parametrize("p", [0.0005, 0.02, 0.1, 0.125, 0.5, 0.9, 0.999])
def test_rate(p):
    assert abs(effective(p) - p) <= 0.05 * p
    kept = recover_mask(11, p, 4, 8, 256, 256)
    deviation = (effective(p) * (1 - effective(p)) / kept.numel()) ** 0.5
    assert abs((~kept).double().mean() - effective(p)) <= 5 * deviation
    # Rows, columns and heads alike.
    for dims in ((0, 1, 2), (0, 1, 3), (2, 3)):
        rates = (~kept).double().mean(dims)
        assert (rates - effective(p)).abs().max() <= 6 * deviation * rates.numel() ** 0.5


def test_manual_seed_repeats_and_calls_advance():
    q, k, v = make_inputs()
    torch.manual_seed(3)
    first, second = (sdpa(q, k, v, dropout_p=0.5) for _ in range(2))
    torch.manual_seed(3)
    again = [sdpa(q, k, v, dropout_p=0.5) for _ in range(2)]
    assert torch.equal(first, again[0]) and torch.equal(second, again[1])
    assert not torch.equal(first, second)
    # Other calls of the generator count too, calls without dropout do not.
    torch.manual_seed(3)
    sdpa(q, k, v)
    assert torch.equal(first, sdpa(q, k, v, dropout_p=0.5))
    # Of two calls about half of the keep mask differ, of heads and batch entries as well.
    masks = [recover_mask(seed, 0.5) for seed in (3, 4)]
    for one, other in (masks, masks[0].unbind(0)[:2], masks[0].unbind(1)[:2]):
        assert 0.45 < (one != other).double().mean() < 0.55


def test_checkpoints_drop_the_same():
    from torch.utils.checkpoint import checkpoint

    q, k, v = make_inputs()
    results = []
    for call in (lambda f, *args: f(*args), lambda f, *args: checkpoint(f, *args, use_reentrant=False)):
        torch.manual_seed(3)
        out = call(lambda *args: sdpa(*args, dropout_p=0.3), q, k, v)
        results.append((out, *gradients(out, (q, k, v))))
    for one, other in zip(*results):
        assert torch.equal(one, other)


class CudaGenerator:
    """What a generator of CUDA has that one of the host has not."""

    def __init__(self, seed, offset=0):
        self.seed, self.offset = seed, offset

    def initial_seed(self):
        return self.seed

    def get_offset(self):
        return self.offset

    def set_offset(self, offset):
        assert offset % 4 == 0 and 0 <= offset < 2**64
        self.offset = offset


@pytest.fixture
def draw():
    """Draws a state from a generator: its two numbers, unsigned."""
    ops._tables.clear()
    yield lambda generator, stream=0: [
        number % 2**64 for number in ops._advance(generator, torch.device("cpu"), stream).make_tensor().tolist()
    ]
    ops._tables.clear()


@pytest.mark.parametrize("seed", [0, 3, 2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("begin", [0, 40, 4 * 4095, 8 * 4096, 2**63 - 8, 2**64 - 12])
def test_states_are_those_of_the_generator(draw, seed, begin):
    generator = CudaGenerator(seed, begin)
    # Other operators of torch count further between calls.
    for offset, others in ((begin, 0), (begin + 4, 4 * 4096), (begin + 8 + 4 * 4096, 12)):
        assert draw(generator) == [seed, offset % 2**64]
        generator.offset = (generator.offset + others) % 2**64
    generator.offset = begin
    assert draw(generator) == [seed, begin]


def test_states_come_from_few_tables(draw):
    generator = CudaGenerator(3)
    states = [draw(generator) for _ in range(2 * ops._TABLE_ROWS)]
    assert states == [[3, 4 * number] for number in range(len(states))]
    assert len(ops._tables) == 2
    # Streams have their own; and there is an end of tables.
    for stream in range(40):
        assert draw(CudaGenerator(stream % 3, 16), stream) == [stream % 3, 16]
    assert len(ops._tables) == ops._MAX_TABLES
    assert draw(CudaGenerator(3, 400)) == [3, 400]


def test_states_are_drawn_once_by_threads(draw):
    generator = CudaGenerator(5)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        states = list(pool.map(lambda _: tuple(draw(generator)), range(400)))
    assert sorted(states) == [(5, 4 * number) for number in range(400)]


def test_states_made_for_inference_serve_gradients(draw):
    generator, device = CudaGenerator(3), torch.device("cpu")
    with torch.inference_mode():
        first = ops._advance(generator, device, 0).make_tensor()
    second = ops._advance(generator, device, 0).make_tensor()
    assert len(ops._tables) == 1
    for state in (first, second):
        q, k, v = make_inputs()
        torch.ops.attn.attention([q, k, v], state, "gradients: inputs", None, 0.3)[0].sum().backward()


@pytest.mark.parametrize("function", [sdpa, flex_attention])
def test_rows_are_read_by_their_addresses(draw, monkeypatch, function):
    """Without a tensor for each, whose making takes as long as the rest of drawing."""
    made = []
    monkeypatch.setattr(ops.Row, "make_tensor", lambda self: pytest.fail("a tensor for a row"))

    def draw_row(device):
        made.append(ops._advance(generator, device, 0))
        return made[-1]

    q, k, v = make_inputs()
    expected = []
    for offset in (0, 4, 8):
        state = torch.tensor([3, offset])
        out, _ = torch.ops.attn.attention([q, k, v], state, "gradients: inputs", None, 0.3)
        expected.append((out, *gradients(out, (q, k, v))))
    for name in (ops.__name__, sdpa.__module__):
        monkeypatch.setattr(sys.modules[name], "draw_row", draw_row)
    for is_recorded in (True, False):
        generator = CudaGenerator(3)
        for each in expected:
            with torch.set_grad_enabled(is_recorded):
                out = function(q, k, v, dropout_p=0.3)
            results = (out, *gradients(out, (q, k, v))) if is_recorded else (out,)
            for actual, wanted in zip(results, each):
                assert torch.equal(actual, wanted) and actual.data_ptr() != wanted.data_ptr()
    assert len(made) == 6 and len(ops._tables) == 1


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(32, 96)

    def forward(self, x):
        q, k, v = self.qkv(x).view(x.shape[0], x.shape[1], 3, 2, 16).permute(2, 0, 3, 1, 4)
        return sdpa(q, k, v, dropout_p=0.3 if self.training else 0.0).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile(backend):
    torch.manual_seed(0)
    model, x = Model(), torch.randn(2, 40, 32)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    for training in (True, False):
        model.train(training)
        results = []
        for module in (model, compiled, compiled):
            model.zero_grad()
            if len(results) < 2:
                torch.manual_seed(1)
            out = module(x)
            out.square().sum().backward()
            results.append((out, model.qkv.weight.grad.clone()))
        for actual, expected in zip(*results[:2]):
            torch.testing.assert_close(actual, expected)
        assert torch.equal(results[1][0], results[2][0]) != training


PROJECTED = """
func.func @projected(%x: tensor<72x32xf32>, %w: tensor<32x128xf32>, %k: tensor<1x4x72x32xf32>, %seed: tensor<i64>,
                     %offset: tensor<i64>) -> tensor<1x4x72x32xf32> {
  %e = tensor.empty() : tensor<72x128xf32>
  %p = attn.matmul ins(%x, %w : tensor<72x32xf32>, tensor<32x128xf32>) outs(%e : tensor<72x128xf32>) -> tensor<72x128xf32>
  %h = tensor.expand_shape %p [[0, 1], [2, 3]] output_shape [1, 72, 4, 32] : tensor<72x128xf32> into tensor<1x72x4x32xf32>
  %q = attn.permute %h [0, 2, 1, 3] : tensor<1x72x4x32xf32> -> tensor<1x4x72x32xf32>
  %o = tensor.empty() : tensor<1x4x72x32xf32>
  %r = attn.attention ins(%q, %k, %k : tensor<1x4x72x32xf32>, tensor<1x4x72x32xf32>, tensor<1x4x72x32xf32>)
      outs(%o : tensor<1x4x72x32xf32>)
      dropout(#attn.dropout<p = 0.25, rng = #attn.arx>, %seed, %offset : tensor<i64>, tensor<i64>) -> tensor<1x4x72x32xf32>
  return %r : tensor<1x4x72x32xf32>
}
"""


@pytest.mark.parametrize("alternative", ["best", "sequential", "streams", "fused"])
def test_keep_masks_generated_elsewhere_are_the_same(alternative):
    torch.manual_seed(0)
    inputs = [
        torch.randn(72, 32),
        torch.randn(32, 128),
        torch.randn(1, 4, 72, 32),
        torch.tensor(-5),
        torch.tensor(2**40),
    ]
    results = [torch.full((1, 4, 72, 32), float("nan")) for _ in range(2)]
    for options, result in zip(({}, {"dropout": alternative}), results):
        attn.compile(PROJECTED, options=options)["projected"](*inputs, result)
    assert torch.equal(*results)


PADDED = """
func.func @padded(%x: tensor<72x32xf32>, %q: tensor<3x4x72x16xf32>, %lengths: tensor<3xi32>, %seed: tensor<i64>)
    -> (tensor<3x4x72x16xf32>, tensor<72x72xf32>) {
  %e = tensor.empty() : tensor<72x72xf32>
  %p = attn.matmul ins(%x, %x : tensor<72x32xf32>, tensor<72x32xf32>) outs(%e : tensor<72x72xf32>) transpose_rhs
      -> tensor<72x72xf32>
  %zero = arith.constant 0.0 : f32
  %o = tensor.empty() : tensor<3x4x72x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<3x4x72x16xf32>) -> tensor<3x4x72x16xf32>
  %r = attn.attention ins(%q, %q, %q : tensor<3x4x72x16xf32>, tensor<3x4x72x16xf32>, tensor<3x4x72x16xf32>)
      outs(%f : tensor<3x4x72x16xf32>) sequences padded(%lengths, %lengths : tensor<3xi32>, tensor<3xi32>)
      dropout(#attn.dropout<p = 0.25, rng = #attn.arx>, %seed, %seed : tensor<i64>, tensor<i64>)
      -> tensor<3x4x72x16xf32>
  return %r, %p : tensor<3x4x72x16xf32>, tensor<72x72xf32>
}
"""


@pytest.mark.parametrize("alternative", ["sequential", "streams"])
def test_keep_mask_of_padded_sequences(alternative):
    torch.manual_seed(0)
    inputs = [
        torch.randn(72, 32),
        torch.randn(3, 4, 72, 16),
        torch.tensor([72, 0, 41], dtype=torch.int32),
        torch.tensor(7),
    ]
    results = [torch.full((3, 4, 72, 16), float("nan")) for _ in range(2)]
    for options, result in zip(({}, {"dropout": alternative}), results):
        attn.compile(PADDED, options=options)["padded"](*inputs, result, torch.empty(72, 72))
    assert torch.equal(*results) and results[0][2, :, :41].abs().sum() > 0


def test_factors_that_are_taken_for_keep_masks():
    source = (ROOT / "test" / "tools" / "attn-compile" / "assumptions.mlir").read_text()
    torch.manual_seed(0)
    q, k, v = (torch.randn(shape, dtype=torch.float16) for shape in ((3, 16, 8), (3, 8, 16), (3, 16, 8)))
    mask = (torch.rand(3, 16, 16) > 0.3).half()
    expected = torch.softmax(q.double() @ k.double(), -1) * mask / 0.8 @ v.double()
    out = torch.empty(3, 16, 8, dtype=torch.float16)
    # Numbers that are not 0 are keep masks to keep.
    attn.compile(source, options={"assume_dropout_masks": True})["dropped"](q, k, v, mask * 0.5, out)
    torch.testing.assert_close(out.double(), expected, atol=5e-3, rtol=5e-3)


def test_operators_obey_the_rules_of_torch():
    q, k, v = make_inputs()
    rng = torch.tensor([3, 4])
    torch.library.opcheck(
        torch.ops.attn.attention.default, ([q, k, v], rng, "gradients: inputs", None, 0.3),
        test_utils=("test_schema", "test_faketensor", "test_autograd_registration", "test_aot_dispatch_static"),
    )  # fmt: skip
    for wrong in (None, rng[:1], rng.int()):
        with pytest.raises(attn.AttnError, match="rng must have two numbers of torch.int64 on cpu"):
            torch.ops.attn.attention([q, k, v], wrong, "gradients: inputs", None, 0.3)


@pytest.mark.parametrize("text", ["q", "inputs -1", "inputs 1", "inputs x", "0"])
def test_operators_refuse_other_gradients(text):
    q, k, v = make_inputs()
    with pytest.raises(attn.AttnError, match=f"gradients is '{text}'; it must be '', or 'inputs' and .* there are 1$"):
        torch.ops.attn.attention([q, k, v, q], None, f"gradients: {text}")


@pytest.mark.parametrize(
    "kind",
    [
        kernels.Kind(),
        kernels.Kind(mask="#attn.causal<alignment = top_left>", scale=0.5, dropout_p=0.1),
        kernels.Kind(
            score_mod="attn.yield %s : f32", mask_mod="%a = arith.cmpi sle, %j, %i : index attn.yield %a : i1"
        ),
        kernels.Kind(mask="#attn.documents<queries = 0, keys = 1>", reads=2, clauses="sinks heads", deterministic=True),
    ],
)
@pytest.mark.parametrize("mode", [kernels.Mode(), kernels.Mode(True, ()), kernels.Mode(False, (0, 2))])
def test_variants_are_read_as_they_were_written(kind, mode):
    read = ops.read_variant(ops.write_variant(kind, mode), 4)
    # Numbers are arguments of operators.
    assert read == (kind._replace(scale=None, dropout_p=0.0), mode)


@pytest.mark.parametrize(
    "variant, message",
    [
        ("causal", "field 'causal', expected one 'name: value' for some of mask, score_mod"),
        ("mask: ", "field 'mask: '"),
        ("reads: 1; reads: 1", "field 'reads: 1'"),
        ("deterministic: yes", "deterministic of variant is 'yes'; it must be 'true', or missing"),
        ("reads: two", "reads of variant is 'two'; it must be a number of captured tensors, of which there are 0"),
        ("reads: 1", "reads of variant is '1'"),
    ],
)
def test_operators_refuse_other_variants(variant, message):
    q, k, v = make_inputs()
    with pytest.raises(attn.AttnError, match=message):
        torch.ops.attn.attention([q, k, v], None, variant)


@pytest.mark.parametrize("p", [-0.1, 1.5, float("nan")])
def test_probabilities_out_of_range(p):
    q, k, v = make_inputs()
    for call in (sdpa, flex_attention):
        with pytest.raises(attn.AttnError, match="it must be from 0 to 1"):
            call(q, k, v, dropout_p=p)


@pytest.mark.parametrize("p", [1e-7, 1 - 1e-7])
def test_probabilities_that_few_bits_do_not_meet(p):
    with pytest.raises(attn.UnsupportedError, match="which random numbers of 16 bits do not meet"):
        sdpa(*make_inputs(), dropout_p=p)


GIVEN = """
func.func @given(%q: tensor<?x2x?x16xf32>, %k: tensor<?x2x?x16xf32>, %mask: tensor<?x2x?x?xi32>,
                 %out: tensor<?x2x?x16xf32>) -> tensor<?x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>)
      outs(%out : tensor<?x2x?x16xf32>)
      dropout_mask LAYOUT(%mask : tensor<?x2x?x?xi32>) p(0.25) -> tensor<?x2x?x16xf32>
  return %0 : tensor<?x2x?x16xf32>
}
func.func @made(%seed: tensor<i64>, %mask: tensor<?x2x?x?xi32>) -> tensor<?x2x?x?xi32> {
  %0 = attn.dropout_mask LAYOUT by(#attn.dropout<p = 0.25, rng = #attn.arx>, %seed, %seed : tensor<i64>, tensor<i64>)
      outs(%mask : tensor<?x2x?x?xi32>) -> tensor<?x2x?x?xi32>
  return %0 : tensor<?x2x?x?xi32>
}
"""


def keep_of_words(words, queries, keys):
    """Whether probabilities are kept, from words by rows as docs/rng.md packs them."""
    i, j = torch.arange(queries)[:, None], torch.arange(keys)[None]
    word = words[..., i // 16 * 8 + i % 8, j // 16].long()
    pair = j % 16
    bit = 4 * (pair % 8 // 2) + 16 * (pair % 2) + 2 * (pair // 8) + i % 16 // 8
    return (word >> bit & 1).bool()


@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_given_keep_masks(layout):
    torch.manual_seed(0)
    artifact = attn.compile(GIVEN.replace("LAYOUT", layout))
    q, k, seed = torch.randn(3, 2, 70, 16), torch.randn(3, 2, 130, 16), torch.tensor(5)
    by_layout = (lambda x: x) if layout == "rows" else lambda x: x.transpose(2, 3).contiguous()

    def make(batch, queries, keys):
        return by_layout(torch.zeros(batch, 2, queries, keys, dtype=torch.int32))

    given, made = artifact["given"], artifact["made"]
    mask, out = make(3, 64, 12), torch.full_like(q, float("nan"))
    made(seed, mask)
    given(q, k, mask, out)
    weights = torch.softmax(q.double() @ k.double().mT / 4, -1)
    keep = keep_of_words(by_layout(mask), 70, 130)
    assert 0.7 < keep.double().mean() < 0.8
    torch.testing.assert_close(out.double(), weights * keep / 0.75 @ k.double(), atol=1e-5, rtol=1e-5)

    first, second = (2, 3) if layout == "rows" else (3, 2)
    untouched = out.clone()
    for sizes, message in (
        ((2, 64, 12), "argument 'mask': dimension 0 is 2, expected 3 "),
        ((3, 32, 12), f"argument 'mask': dimension {first} is 32, expected 64 for dimension 2 of 'q', which is 70"),
        ((3, 64, 11), f"argument 'mask': dimension {second} is 11, expected 12 for dimension 2 of 'k'"),
    ):
        with pytest.raises(attn.AttnError, match=message):
            given(q, k, make(*sizes), out)
    assert torch.equal(out, untouched)
    for sizes, message in (((3, 48, 12), f"dimension {first} is 48, expected a multiple of 32"),
                           ((3, 64, 6), f"dimension {second} is 6, expected a multiple of 4")):
        with pytest.raises(attn.AttnError, match=message):
            made(seed, make(*sizes))


PACKED = """
func.func @packed(%q: tensor<1x2x?x16xf32>, %ends: tensor<?xi32>, %mask: tensor<?x2x?x?xi32>,
                  %out: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>)
      outs(%out : tensor<1x2x?x16xf32>) sequences packed(%ends, %ends : tensor<?xi32>, tensor<?xi32>)
      dropout_mask rows(%mask : tensor<?x2x?x?xi32>) p(0.25) -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}
"""


def test_given_keep_masks_of_sequences():
    torch.manual_seed(0)
    packed = attn.compile(PACKED)["packed"]
    q, ends = torch.randn(1, 2, 100, 16), torch.tensor([0, 37, 100], dtype=torch.int32)
    mask = torch.randint(-(2**31), 2**31 - 1, (2, 2, 32, 4), dtype=torch.int32)
    out = torch.full_like(q, float("nan"))
    packed(q, ends, mask, out)
    for sequence, (begin, end) in enumerate(((0, 37), (37, 100))):
        x = q[0, :, begin:end].double()
        weights = torch.softmax(x @ x.mT / 4, -1) * keep_of_words(mask[sequence], end - begin, end - begin)
        torch.testing.assert_close(out[0, :, begin:end].double(), weights / 0.75 @ x, atol=1e-5, rtol=1e-5)

    for sizes, message in (
        ((1, 32, 4), "dimension 0 is 1, expected 2 for dimension 0 of 'ends', which is 3"),
        ((2, 16, 4), "dimension 2 is 16, expected a multiple of 32"),
        ((2, 32, 0), "dimension 3 is 0, expected a multiple of 4 above 0, as dimension 2 of 'q' is 100"),
    ):
        with pytest.raises(attn.AttnError, match=message):
            packed(q, ends, torch.zeros(sizes[0], 2, *sizes[1:], dtype=torch.int32), out)
    # One sequence is longer than the mask has words for.
    longer = torch.tensor([0, 30, 100], dtype=torch.int32)
    with pytest.raises(attn.AttnError, match="boundaries of sequences that are not sorted or not within its tensors"):
        packed(q, longer, mask, out)
    nothing, no_mask = torch.empty(1, 2, 0, 16), torch.empty(2, 2, 0, 0, dtype=torch.int32)
    packed(nothing, torch.zeros(3, dtype=torch.int32), no_mask, torch.empty_like(nothing))
