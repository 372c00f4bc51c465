# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""attn.torch.flex_attention against torch's flex_attention, eager and in f64."""

import functools
import gc
import math
import types
import warnings
import weakref

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
import attn.errors  # noqa: E402
from attn.torch import flex, flex_attention, kernels, ops, trace  # noqa: E402
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, and_masks, create_block_mask  # noqa: E402
from torch.nn.attention.flex_attention import flex_attention as torch_flex_attention  # noqa: E402
from torch.nn.attention.flex_attention import noop_mask, or_masks  # noqa: E402

B, H, S, D = 2, 4, 24, 16


def make_inputs(dtype=torch.float32, heads=H, keys=S):
    torch.manual_seed(0)
    q = torch.randn(B, H, S, D).to(dtype).requires_grad_()
    k, v = (torch.randn(B, heads, keys, D).to(dtype).requires_grad_() for _ in range(2))
    return q, k, v


def reference(q, k, v, score_mod=None, mask_mod=None, scale=None):
    """Attention with functions of whole tensors of positions; rows with nothing to attend are 0."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    position = torch.meshgrid(*(torch.arange(size) for size in scores.shape), indexing="ij")
    if score_mod is not None:
        scores = score_mod(scores, *position)
    if mask_mod is not None:
        scores = scores.masked_fill(~torch.as_tensor(mask_mod(*position)), float("-inf"))
    lse = scores.logsumexp(-1)
    weights = torch.exp(scores - torch.where(lse == float("-inf"), 0.0, lse)[..., None])
    return weights @ v, lse


def gradients(out, lse, inputs):
    torch.manual_seed(1)
    loss = (out.double() * torch.randn(out.shape, dtype=torch.float64)).sum()
    finite = torch.where(lse == float("-inf"), 0.0, lse)
    loss = loss + (finite.double() * torch.randn(lse.shape, dtype=torch.float64)).sum()
    return torch.autograd.grad(loss, inputs)


def compare(score_mod=None, mask_mod=None, *, inputs=None, captures=(), **options):
    """Compares values and gradients with the reference in f64, whose functions get tensors of f64."""
    inputs = inputs or make_inputs()
    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    out, lse = flex_attention(
        *inputs, score_mod=score_mod, block_mask=mask_mod, return_lse=True, enable_gqa=True, **options
    )
    exact, exact_lse = reference(*wide, score_mod, mask_mod, **options)
    actual = (out, lse, *gradients(out, lse, [*inputs, *captures]))
    expected = (exact, exact_lse, *gradients(exact, exact_lse, [*wide, *captures]))
    for a, e in zip(actual, expected):
        torch.testing.assert_close(a.double(), e.double(), rtol=1e-4, atol=2e-5)


SLOPES = torch.exp2(-torch.arange(1.0, H + 1))
DOCUMENTS = torch.tensor([[0] * 7 + [1] * 11 + [2] * (S - 18), [0] * 20 + [1] * (S - 20)], dtype=torch.int32)
LENGTHS = torch.tensor([5, 24])
TABLE = torch.randn(H, 2 * S, generator=torch.Generator().manual_seed(3))
PLANE = torch.randn(1, H, S, S, generator=torch.Generator().manual_seed(4))
FLAGS = torch.rand(S, generator=torch.Generator().manual_seed(5)) > 0.4
CAP = torch.tensor(3.0)
SETTINGS = types.ModuleType("settings")

SCORES = {
    "identity": lambda s, b, h, q, k: s,
    "alibi": lambda s, b, h, q, k: s + SLOPES[h] * (k - q),
    "soft cap": lambda s, b, h, q, k: 5 * torch.tanh(s / 5),
    "scalar tensor": lambda s, b, h, q, k: CAP * (s / CAP).tanh(),
    "table": lambda s, b, h, q, k: s + TABLE[h, torch.clamp(k - q + S, 0, 2 * S - 1)],
    "plane": lambda s, b, h, q, k: s + PLANE[0, h, q, k],
    "where": lambda s, b, h, q, k: torch.where((q >= k) & FLAGS[k], s, s - 1.5),
    "inside": lambda s, b, h, q, k: torch.where(q % 3 == 0, -s.abs(), torch.maximum(s, 0.1 * s)),
    "functions": lambda s, b, h, q, k: torch.sigmoid(s) + 0.1 * torch.exp(-(s**2)) + torch.sqrt(1 + s * s),
    "relative": lambda s, b, h, q, k: s - torch.log1p((q - k).abs().float()) / (1 + h),
    "batch": lambda s, b, h, q, k: s * (b + 1) + (b * h) // 2,
    "masked": lambda s, b, h, q, k: torch.where(q >= k, s, float("-inf")),
    "masked_fill": lambda s, b, h, q, k: s.masked_fill(q < k, float("-inf")) + s.masked_fill(q % 2 == 0, 0.5),
    "like": lambda s, b, h, q, k: (
        s * torch.full_like(s, 2) + torch.where(q >= k, torch.ones_like(q), torch.zeros_like(s))
    ),
    "new": lambda s, b, h, q, k: s * s.new_full((), 2) + q.new_tensor(0.5) * b.new_ones(()) - s.new_zeros(()),
    "made": lambda s, b, h, q, k: s * torch.full((), 0.5) + torch.tensor(3) + s * torch.zeros((), dtype=s.dtype),
    "types": lambda s, b, h, q, k: s + (q - k).to(s.dtype) * 0.25 + (q > k).type_as(s) + q.to(torch.bool).type(s.dtype),
    "attributes": lambda s, b, h, q, k: s * (1 + len(s.shape[4:])) + torch.ones((), device=s.device, dtype=s.dtype),
    "lerp": lambda s, b, h, q, k: torch.lerp(s, 0.5 * s * s, 0.25) + torch.lerp(s, q.to(s.dtype), 0.125),
    "fmod": lambda s, b, h, q, k: torch.fmod(s * 3, 2) + torch.fmod(q - k, 3) + torch.fmod(q - k, -4),
    "remainder": lambda s, b, h, q, k: torch.remainder(s * 3, 2) + torch.remainder(q - k, 3),
    "truncated": lambda s, b, h, q, k: s + torch.div(q - k, 3, rounding_mode="trunc") * 0.5,
    "atan2": lambda s, b, h, q, k: torch.atan2(s, 0.5 - s * s) + torch.atan2(q - k + 0.5, s) * (k - 3.25).atan2(s - 5),
    "leaky relu": lambda s, b, h, q, k: torch.nn.functional.leaky_relu(s, 0.2) + torch.nn.functional.leaky_relu(-s),
    "gelu": lambda s, b, h, q, k: torch.nn.functional.gelu(s) - torch.nn.functional.gelu(2 * s, approximate="tanh"),
    "relu": lambda s, b, h, q, k: torch.nn.functional.relu(s - 0.125),
    "shifts": lambda s, b, h, q, k: s + (q << 1) * 0.125 - ((q - k) >> 2),
    "divmod": lambda s, b, h, q, k: s + torch.div(q - k, 3, rounding_mode="floor") * 0.5 - (q - k) % 3,
}
MASKS = {
    "causal": lambda b, h, q, k: q >= k,
    "window": lambda b, h, q, k: (q >= k) & (q - k <= 5),
    "documents": lambda b, h, q, k: DOCUMENTS[b, q] == DOCUMENTS[b, k],
    "lengths": lambda b, h, q, k: k < LENGTHS[b],
    "flags": lambda b, h, q, k: FLAGS[k] | (q == k),
    "heads": lambda b, h, q, k: torch.logical_or(h % 2 == 0, ~(q < k)),
    "blocks": lambda b, h, q, k: q // 8 == k // 8,
    "some rows": lambda b, h, q, k: (q > 4) & (k >= 0),
    "none": lambda b, h, q, k: (k >= 0) & (q < 0),
    "odd": lambda b, h, q, k: ((q + k) & 1) ^ 1 == 1,
    "noop": noop_mask,
    "new": lambda b, h, q, k: (q >= k) & b.new_ones((), dtype=torch.bool),
}


@pytest.mark.parametrize("name", SCORES)
def test_scores(name):
    compare(SCORES[name])


@pytest.mark.parametrize("name", MASKS)
def test_masks(name):
    compare(mask_mod=MASKS[name])


functional = torch.nn.functional
POINTS = torch.randn(S, 3, generator=torch.Generator().manual_seed(7))
TAGS = torch.randint(0, 3, (S, 4), generator=torch.Generator().manual_seed(8))
# Functions of small parts of tensors, which whole tensors of positions do not have.
SMALL = {
    "dot": lambda s, b, h, q, k: s + torch.dot(POINTS[q], POINTS[k]) - 0.5 * (POINTS[q] @ POINTS[k]),
    "distance": lambda s, b, h, q, k: s - ((POINTS[q] - POINTS[k]) ** 2).sum(-1) + (-POINTS[k]).amax(),
    "mean": lambda s, b, h, q, k: s + POINTS[q].mean() + TAGS[k].sum(0) * POINTS[k].amin(-1) + POINTS[h].mean(-1),
    "unsqueeze": lambda s, b, h, q, k: (s.unsqueeze(0) * POINTS[q].unsqueeze(-1).squeeze(-1)).sum(),
    "broadcast": lambda s, b, h, q, k: (
        s + (POINTS[q].unsqueeze(1) * TAGS[k].to(torch.float32)).sum(0, keepdim=True).sum((0, 1)) * 0.1
    ),
    "silu": lambda s, b, h, q, k: functional.silu(3 * s),
    "softplus": lambda s, b, h, q, k: functional.softplus(s) + functional.softplus(s * 30, beta=2.0, threshold=5.0),
    "elu": lambda s, b, h, q, k: functional.elu(s) + functional.elu(2 * s, alpha=0.5),
    "log sigmoid": lambda s, b, h, q, k: functional.logsigmoid(5 * s) + functional.mish(s),
    "hard": lambda s, b, h, q, k: (
        functional.hardswish(4 * s) + functional.relu6(8 * s) + functional.hardtanh(s, -0.5) + functional.hardsigmoid(s)
    ),
    "sign": lambda s, b, h, q, k: s * torch.sign(q - k) + (s - 0.5).sign() + torch.where(torch.isfinite(s), 0.5, s),
    "hypot": lambda s, b, h, q, k: torch.hypot(s, q - k - 0.5) + torch.hypot(1e30 * s, torch.full((), 1e30)) * 1e-30,
    "scaled": lambda s, b, h, q, k: torch.addcmul(s, s, s, value=0.5) + torch.addcdiv(s, s, k + 1.5, value=2),
    "product": lambda s, b, h, q, k: s * POINTS[q].prod() + TAGS[k].prod(0) + torch.prod(POINTS[k] + 1, 0),
    "extrema": lambda s, b, h, q, k: s + POINTS[q].max() - torch.min(POINTS[k]) + torch.max(s, POINTS[q, 0]),
    "norms": lambda s, b, h, q, k: (
        s
        - (POINTS[q] - POINTS[k] + 0.5).norm()
        - torch.linalg.vector_norm(POINTS[q]) * 0.5
        - torch.linalg.norm(POINTS[k], 1)
        - POINTS[q].norm(p=1, dim=-1)
    ),
}
SMALL_MASKS = {
    "any": lambda b, h, q, k: (TAGS[q].unsqueeze(-1) == TAGS[k].unsqueeze(0)).any(-1).all(-1),
    "all": lambda b, h, q, k: (TAGS[q] >= TAGS[k]).all() | (q == k),
    "count": lambda b, h, q, k: (TAGS[q] == TAGS[k]).sum() > 1,
    "element": lambda b, h, q, k: (TAGS[q] == TAGS[k])[1] & ~(TAGS[k] == 7).any(dim=-1),
}


def at_each_pair(function):
    """A function of scalars as one of whole tensors of positions."""

    def apply(*position):
        position = torch.broadcast_tensors(*position)
        return torch.vmap(function)(*[each.flatten() for each in position]).view(position[0].shape)

    return apply


@pytest.mark.parametrize("name", [*SMALL, *SMALL_MASKS])
def test_small_parts_of_tensors(name):
    """In double precision, which needs no kernels."""
    inputs = [tensor.detach().double().requires_grad_() for tensor in make_inputs()]
    score_mod, mask_mod = SMALL.get(name), SMALL_MASKS.get(name)
    out, lse = flex_attention(*inputs, score_mod, mask_mod, return_lse=True)
    exact, exact_lse = reference(
        *inputs, score_mod and at_each_pair(score_mod), mask_mod and at_each_pair(mask_mod)
    )
    actual, expected = (
        (each, each_lse, *gradients(each, each_lse, inputs)) for each, each_lse in ((out, lse), (exact, exact_lse))
    )
    for a, e in zip(actual, expected):
        torch.testing.assert_close(a, e, rtol=1e-5, atol=1e-6)


def test_kernels_of_small_parts_of_tensors():
    points = POINTS.clone().requires_grad_()

    def score_mod(s, b, h, q, k):
        s = functional.silu(s) + functional.softplus(-s) + functional.elu(3 * s)
        return s + torch.dot(points[q], points[k])

    inputs = make_inputs()
    out, lse = flex_attention(*inputs, score_mod, SMALL_MASKS["all"], return_lse=True)
    wide = [tensor.detach().double().requires_grad_() for tensor in inputs]
    exact, exact_lse = reference(*wide, at_each_pair(score_mod), at_each_pair(SMALL_MASKS["all"]))
    actual = (out, lse, *gradients(out, lse, [*inputs, points]))
    expected = (exact, exact_lse, *gradients(exact, exact_lse, [*wide, points]))
    for a, e in zip(actual, expected):
        torch.testing.assert_close(a.double(), e.double(), rtol=1e-4, atol=2e-5)


def test_gradients_of_large_scores_are_finite():
    x = torch.full((1, 1, 4, 8), 16.0)
    x.requires_grad_()
    tensors = (x, -x, x)
    out = flex_attention(*tensors, score_mod=lambda s, b, h, q, k: torch.sigmoid(s) * k)
    assert torch.autograd.grad(out.sum(), x)[0].isfinite().all()


def test_sizes_of_small_parts_are_followed():
    inputs = [tensor.detach().double() for tensor in make_inputs()]
    for size in (3, 5):
        points = torch.randn(S, size)
        score_mod = lambda s, b, h, q, k: s + torch.dot(points[q], points[k])  # noqa: E731
        exact, _ = reference(*inputs, at_each_pair(score_mod))
        torch.testing.assert_close(flex_attention(*inputs, score_mod), exact, rtol=1e-5, atol=1e-6)


def test_python_functions_of_scalars():
    inputs = make_inputs()
    expected = flex_attention(*inputs, score_mod=SCORES["divmod"])
    for mod in (
        lambda s, b, h, q, k: s + divmod(q - k, 3)[0] * 0.5 - divmod(q - k, 3)[1],
        lambda s, b, h, q, k: s + (q - k) // 3 * 0.5 - (q - k) % 3,
    ):
        assert torch.equal(flex_attention(*inputs, score_mod=mod), expected)
    compare(lambda s, b, h, q, k: round(s) if s.ndim == 0 else s.round())


def test_scores_are_rounded():
    def reference_mod(dtype):
        # Gradients pass through, rounded by torch, which the kernel leaves out.
        return lambda s, b, h, q, k: (s * 3).to(dtype).to(s.dtype) + torch.tensor(0.1, dtype=dtype)

    for dtype in (torch.bfloat16, torch.float16):
        inputs = [tensor.detach() for tensor in make_inputs()]
        wide = [tensor.double() for tensor in inputs]
        out, lse = flex_attention(*inputs, score_mod=reference_mod(dtype), return_lse=True)
        exact, exact_lse = reference(*wide, reference_mod(dtype))
        # Scores that lie between two numbers may be rounded either way.
        assert (out - exact).norm() < 2e-3 * exact.norm() and (lse - exact_lse).abs().max() < 5e-3
        unrounded, _ = reference(*wide, lambda s, b, h, q, k: s * 3 + 0.1)
        assert (out - exact).norm() < 0.1 * (out - unrounded).norm()


def test_block_masks_without_a_function():
    inputs = [torch.randn(1, 2, 256, D, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    full = create_block_mask(noop_mask, None, None, 256, 256, device="cpu")
    plain = flex_attention(*inputs)
    assert torch.equal(flex_attention(*inputs, block_mask=full), plain)
    counts = torch.tensor([[[1, 2], [2, 1]]], dtype=torch.int32)
    indices = torch.tensor([[[[0, 1], [0, 1]], [[0, 1], [1, 0]]]], dtype=torch.int32)
    blocks = BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=128)
    keep = torch.tensor([[[1, 0], [1, 1]], [[1, 1], [0, 1]]]).bool()
    exact, _ = reference(*(x.double() for x in inputs), mask_mod=lambda b, h, q, k: keep[h, q // 128, k // 128])
    for _ in range(2):
        out = flex_attention(*inputs, block_mask=blocks)
        torch.testing.assert_close(out.double(), exact, rtol=1e-4, atol=1e-5)
    compiled = torch.compile(lambda *args: flex_attention(*args, block_mask=blocks), backend="aot_eager")
    assert torch.equal(compiled(*inputs), out)
    assert not torch.equal(out, plain)


@pytest.mark.parametrize("kind", ["sparser", "full", "both", "ragged"])
def test_blocks_that_differ_from_their_function(kind):
    """All pairs of full blocks attend, and the pairs of partial blocks that the function keeps, as in torch's
    kernels."""
    length = 250 if kind == "ragged" else 256
    inputs = [torch.randn(1, 2, length, D, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    causal = MASKS["causal"]
    counts = torch.tensor([[[1, 1]]], dtype=torch.int32)
    indices = torch.tensor([[[[0, 1], [1, 0]]]], dtype=torch.int32)
    full_counts = torch.tensor([[[0, 1]]], dtype=torch.int32)
    full_indices = torch.tensor([[[[0, 1], [0, 1]]]], dtype=torch.int32)
    if kind == "full":
        full_counts, full_indices = torch.tensor([[[1, 0]]], dtype=torch.int32), full_indices.flip(-1)
    full = (full_counts, full_indices) if kind in ("full", "both") else (None, None)
    blocks = BlockMask.from_kv_blocks(
        counts, indices, *full, BLOCK_SIZE=128, mask_mod=causal, seq_lengths=(length, length)
    )
    partial = torch.eye(2, dtype=torch.bool)
    whole = torch.zeros(2, 2, dtype=torch.bool)
    if kind in ("full", "both"):
        whole[(0, 1) if kind == "full" else (1, 0)] = True

    def exact_mod(b, h, q, k):
        return whole[q // 128, k // 128] | (partial[q // 128, k // 128] & (q >= k))

    exact, _ = reference(*(x.double() for x in inputs), mask_mod=exact_mod)
    out = flex_attention(*inputs, block_mask=blocks)
    torch.testing.assert_close(out.double(), exact, rtol=1e-4, atol=1e-5)
    if kind == "both":
        assert flex._find_mask_mod(blocks) is causal


@pytest.mark.parametrize("is_sparser", [False, True])
def test_exported_block_masks(is_sparser):
    made = create_block_mask(MASKS["causal"], None, None, 256, 256, device="cpu")
    if is_sparser:
        counts, indices = torch.ones(1, 1, 2, dtype=torch.int32), torch.tensor([[[[0, 1], [1, 0]]]], dtype=torch.int32)
        made = BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=128, mask_mod=MASKS["causal"])
    inputs = tuple(torch.randn(1, 2, 256, D, generator=torch.Generator().manual_seed(seed)) for seed in range(3))

    class Module(torch.nn.Module):
        def forward(self, q, k, v):
            return flex_attention(q, k, v, block_mask=made)

    with torch.no_grad():
        program = torch.export.export(Module(), inputs, strict=False)
    torch.testing.assert_close(program.module()(*inputs), flex_attention(*inputs, block_mask=made))


@pytest.mark.parametrize("row, column", [(128, 0), (255, 0), (128, 127), (255, 127)])
def test_corners_of_blocks_are_compared(row, column):
    """A function that keeps one pair of a block that is left out, at a corner of the block."""
    blocks = BlockMask.from_kv_blocks(
        torch.ones(1, 1, 2, dtype=torch.int32),
        torch.tensor([[[[0, 1], [1, 0]]]], dtype=torch.int32),
        BLOCK_SIZE=128,
        mask_mod=lambda b, h, q, k: (q == k) | ((q == row) & (k == column)),
    )
    assert flex._find_mask_mod(blocks) is not blocks.mask_mod


def test_blocks_that_follow_their_function_are_left_to_it():
    for mask_mod in (MASKS["causal"], MASKS["window"], lambda b, h, q, k: (q - k).abs() < 100):
        made = create_block_mask(mask_mod, None, None, 500, 300, device="cpu")
        assert flex._find_mask_mod(made) is mask_mod


def test_sizes_of_tensors_are_looked_at():
    def scaled(t):
        return lambda s, b, h, q, k: s * t.shape[1] + t[0, h] * t[h].shape[-1]

    flex._traces.clear()
    for size in (H, H + 1, H + 1, H):
        compare(scaled(torch.randn(H, size)))


def test_both_share_captures():
    compare(
        lambda s, b, h, q, k: s + DOCUMENTS[b, k] * 0.25,
        lambda b, h, q, k: DOCUMENTS[b, q] == DOCUMENTS[b, k],
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_dtypes(dtype):
    inputs = make_inputs(dtype)
    out = flex_attention(*inputs, score_mod=SCORES["alibi"], block_mask=MASKS["causal"])
    exact, _ = reference(*(tensor.double() for tensor in inputs), SCORES["alibi"], MASKS["causal"])
    assert out.dtype == dtype
    assert (out.double() - exact).norm() <= 2 * torch.finfo(dtype).eps * exact.norm()


def test_grouped_heads_and_scale():
    compare(SCORES["alibi"], MASKS["causal"], inputs=make_inputs(heads=2, keys=30), scale=0.3)


@pytest.mark.parametrize("mask", ["causal", "documents"])
def test_other_numbers_of_value_heads(mask):
    q, k, _ = make_inputs(heads=2)
    for heads in (1, H):
        v = torch.randn(B, heads, S, D, generator=torch.Generator().manual_seed(7)).requires_grad_()
        compare(SCORES["alibi"], MASKS[mask], inputs=[q, k, v])


LEARNED = {
    "slopes": ((H,), lambda t: lambda s, b, h, q, k: s + t[h] * (k - q)),
    "temperature": ((H,), lambda t: lambda s, b, h, q, k: s * t[h]),
    "table": ((H, 2 * S), lambda t: lambda s, b, h, q, k: s + t[h, torch.clamp(k - q + S, 0, 2 * S - 1)]),
    "plane": ((1, H, S, S), lambda t: lambda s, b, h, q, k: s + t[0, h, q, k]),
    "rows": ((B, S), lambda t: lambda s, b, h, q, k: s * t[b, q] + t[b, k]),
    "scalar": ((), lambda t: lambda s, b, h, q, k: t * (s / t).tanh()),
    "where": ((S,), lambda t: lambda s, b, h, q, k: torch.where(q > k, s + t[q - k], s)),
    "embedding": ((H, 3), lambda t: lambda s, b, h, q, k: s + t[h, DOCUMENTS[b, k]]),
}


@pytest.mark.parametrize("mask", [None, "causal", "some rows"])
@pytest.mark.parametrize("name", LEARNED)
def test_gradients_of_captured_tensors(name, mask):
    shape, make = LEARNED[name]
    learned = (torch.rand(shape, generator=torch.Generator().manual_seed(6)) + 0.5).requires_grad_()
    compare(make(learned), MASKS.get(mask), captures=[learned])


def test_gradients_of_some_captured_tensors():
    learned, fixed = torch.rand(H, requires_grad=True), torch.rand(H)
    compare(lambda s, b, h, q, k: s * fixed[h] + learned[h] * q, MASKS["causal"], captures=[learned])
    half = torch.rand(H, dtype=torch.bfloat16, requires_grad=True)
    out = flex_attention(*make_inputs(), score_mod=lambda s, b, h, q, k: s * half[h])
    (gradient,) = torch.autograd.grad(out.sum(), [half])
    wide = half.detach().double().requires_grad_()
    exact, _ = reference(*(tensor.double() for tensor in make_inputs()), lambda s, b, h, q, k: s * wide[h])
    (expected,) = torch.autograd.grad(exact.sum(), [wide])
    assert gradient.dtype == torch.bfloat16
    torch.testing.assert_close(gradient.double(), expected, rtol=2**-7, atol=1e-2)


def test_parts_of_tensors():
    planes, inputs = PLANE[0], make_inputs()
    expected = flex_attention(*inputs, score_mod=lambda s, b, h, q, k: s + planes[h, q, k])
    for mod in (lambda s, b, h, q, k: s + planes[h][q, k], lambda s, b, h, q, k: s + planes[h, q][k]):
        assert torch.equal(flex_attention(*inputs, score_mod=mod), expected)
    expected = flex_attention(*inputs, score_mod=lambda s, b, h, q, k: s + planes[1, q, k])
    assert torch.equal(flex_attention(*inputs, score_mod=lambda s, b, h, q, k: s + planes[1 - H, q, k]), expected)


@pytest.mark.parametrize("combine", [and_masks, or_masks])
def test_masks_of_masks_and_block_masks(combine):
    inputs = [tensor.detach() for tensor in make_inputs()]
    mask = combine(MASKS["causal"], MASKS["documents"])
    block_mask = create_block_mask(mask, B, H, S, S, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = torch_flex_attention(*inputs, block_mask=block_mask)
    torch.testing.assert_close(flex_attention(*inputs, block_mask=block_mask), exact, rtol=1e-4, atol=1e-5)
    with pytest.raises(attn.AttnError, match="make it again for these"):
        flex_attention(inputs[0][:, :, :8], *inputs[1:], block_mask=block_mask)


def test_auxiliary_outputs():
    q, k, v = make_inputs()
    out, aux = flex_attention(q, k, v, return_aux=AuxRequest(lse=True))
    exact, lse = reference(q, k, v)
    torch.testing.assert_close(aux.lse, lse, rtol=1e-4, atol=1e-5)
    assert flex_attention(q, k, v, return_aux=AuxRequest())[1].lse is None
    with pytest.raises(attn.UnsupportedError, match="max_scores"):
        flex_attention(q, k, v, return_aux=AuxRequest(max_scores=True))


def test_traces_are_kept_and_renewed():
    q, k, v = make_inputs()

    def biased(bias, factor):
        return lambda s, b, h, i, j: s * factor + bias[h]

    first, second = torch.randn(H), torch.randn(H)
    flex._traces.clear()
    compare(biased(first, 2.0))
    assert len(flex._traces) == 1
    # Another tensor of the same kind, and the same tensor with other contents.
    compare(biased(second, 2.0))
    second.add_(1)
    compare(biased(second, 2.0))
    assert len(flex._traces) == 1
    compare(biased(second, 3.0))
    compare(biased(torch.randn(H).bfloat16().float(), 2.0))
    # For one and for all factors.
    assert len(flex._traces) == 2
    compare(biased(torch.randn(1), 2.0) if H == 1 else biased(torch.randn(H).int(), 2.0))
    assert len(flex._traces) == 3


@pytest.fixture
def compilations(monkeypatch):
    """The modules that are compiled, or found in the cache, from now on."""
    texts = []
    compile_text = kernels.compile
    monkeypatch.setattr(kernels, "compile", lambda source, **k: texts.append(source) or compile_text(source, **k))
    kernels.find_functions.cache_clear()
    kernels.find_backward.cache_clear()
    kernels._forget_plans()
    flex._traces.clear()
    flex._numbers.clear()
    flex._recent.clear()
    return texts


def detached_inputs():
    return [tensor.detach() for tensor in make_inputs()]


def check_mask(mask_mod):
    inputs = detached_inputs()
    exact, _ = reference(*(tensor.double() for tensor in inputs), None, mask_mod)
    torch.testing.assert_close(flex_attention(*inputs, None, mask_mod).double(), exact, rtol=1e-4, atol=2e-5)


def check_score(score_mod):
    inputs = detached_inputs()
    exact, _ = reference(*(tensor.double() for tensor in inputs), score_mod)
    torch.testing.assert_close(flex_attention(*inputs, score_mod).double(), exact, rtol=1e-4, atol=2e-5)


def test_integers_that_vary_are_captured(compilations):
    def between(low, high):
        return lambda b, h, q, k: (k >= low) & (k < high)

    # Both are one number where they are found to vary.
    for low, high in ((3, 9), (4, 4), (2, 11), (0, 24), (3, 9)):
        check_mask(between(low, high))
    assert len(compilations) == 2
    for number in (1, 2):
        check_mask(between(5, 20 + number))
    assert len(compilations) == 2


def test_integers_of_other_places_vary():
    """In double precision, which needs no kernels: defaults, globals, tuples, and functions in closures."""
    global LIMIT
    inputs = [tensor.double() for tensor in detached_inputs()]

    def inner(number):
        return lambda k: k < number

    def make(number):
        is_inside = inner(number)
        return (
            lambda b, h, q, k: k < LIMIT,
            lambda b, h, q, k, limit=number: k < limit,
            lambda b, h, q, k, *, limit=number: k < limit,
            lambda b, h, q, k: is_inside(k) & (k < bounds[1]),
            and_masks(lambda b, h, q, k: k < number, MASKS["causal"]),
        )

    expected = {}
    for number in (5, 7, 9, 6):
        LIMIT, bounds = number, (0, number)
        for place, mask_mod in enumerate(make(number)):
            out = flex_attention(*inputs, None, mask_mod)
            exact, _ = reference(*inputs, None, mask_mod)
            torch.testing.assert_close(out, exact)
            expected.setdefault(place, set()).add(flex._trace(None, mask_mod, inputs[0].device)[1])
    assert [len(texts) for texts in expected.values()] == [2] * 5


@pytest.mark.parametrize("name", ["branch", "loop", "shift", "index", "difference", "power", "type", "size"])
def test_integers_that_functions_need_as_constants(name):
    inputs = [tensor.double() for tensor in detached_inputs()]

    def make(n):
        return {
            "branch": lambda b, h, q, k: k < q if n > 6 else k > q,
            "loop": lambda b, h, q, k: sum((k % (i + 2) == 0) * 1 for i in range(n)) > 1,
            "shift": lambda b, h, q, k: (k >> n) == 0,
            "index": lambda b, h, q, k: FLAGS[n - 8] & (k < 9),
            "difference": lambda b, h, q, k: FLAGS[n - 8] | (k < n),
            "power": lambda b, h, q, k: (k**n) % 3 == 1,
            "type": lambda b, h, q, k: k < n if isinstance(n, int) else k < 0,
            "size": lambda b, h, q, k: k.new_full((), n) > k,
        }[name]

    for n in (1, 2, 3, 8) if name in ("power", "shift") else (5, 7, 9, 6):
        mask_mod = make(n)
        exact, _ = reference(*inputs, None, at_each_pair(mask_mod) if name == "size" else mask_mod)
        torch.testing.assert_close(flex_attention(*inputs, None, mask_mod), exact)


def test_floats_that_vary_are_captured(compilations):
    def modify(cap, slope, exponent):
        return lambda s, b, h, q, k: cap * torch.tanh(s / cap) - slope * (q - k).abs() + s.abs() ** exponent

    for numbers in ((5.0, 0.5, 1.5), (6.0, 0.25, 2.5), (0.5, 0.5, 0.75), (7.5, -0.125, 2.0)):
        check_score(modify(*numbers))
    assert len(compilations) == 2
    # A mask, and integers with floats.
    for number, share in ((3, 0.5), (5, 0.25), (9, 0.75), (1, 0.1)):
        check_mask(lambda b, h, q, k: (k < number) | (k < q * share))
    assert len(compilations) == 4


@pytest.mark.parametrize("name", ["branch", "math", "infinite", "large", "index"])
def test_floats_that_functions_need_as_constants(name):
    inputs = [tensor.double() for tensor in detached_inputs()]

    def make(x, n):
        return {
            "branch": lambda s, b, h, q, k: s * x if x > 0.6 else s + (k < n),
            "math": lambda s, b, h, q, k: s * math.sqrt(x) + (k < n),
            "infinite": lambda s, b, h, q, k: torch.where(k < n, s, x),
            "large": lambda s, b, h, q, k: torch.where(k < n, s, s * (x * 1e-38)),
            "index": lambda s, b, h, q, k: s * x * (k % 3 + [1, 2, 3, 4][n % 4]),
        }[name]

    numbers = {"infinite": (0.5, -math.inf, 2.0), "large": (1e38, 1e37, 2e38)}
    for number, x in enumerate(numbers.get(name, (0.5, 0.75, 0.25, 0.625))):
        score_mod = make(x, 20 - number)
        exact, _ = reference(*inputs, score_mod)
        torch.testing.assert_close(flex_attention(*inputs, score_mod), exact, rtol=1e-6, atol=1e-6)


def test_floats_as_constants_leave_integers_to_vary(compilations):
    def make(x, n):
        return lambda s, b, h, q, k: torch.where(k < n, s * math.sqrt(x), s)

    for n in (5, 7, 9, 6):
        check_score(make(0.5, n))
    check_score(make(0.25, 8))
    count = len(compilations)
    assert count <= 4
    for n in (10, 11):
        check_score(make(0.25, n))
    assert len(compilations) == count


def test_zeros_of_other_signs_are_other_constants():
    inputs = [tensor.double() for tensor in detached_inputs()]

    def make(zero):
        return lambda s, b, h, q, k: torch.where(1.0 / (zero + s * 0.0) > 0, s, -s)

    texts = {flex._trace(make(zero), None, inputs[0].device)[0] for zero in (0.0, -0.0, 0.0)}
    assert len(texts) == 2


def test_block_masks_of_integers_that_vary():
    inputs = detached_inputs()

    def make(n):
        return lambda b, h, q, k: (DOCUMENTS[b, q] == DOCUMENTS[b, k]) & (k < n)

    plans = {n: flex.create_block_mask(*inputs, block_mask=make(n)) for n in (20, 21, 22)}
    for n, plan in plans.items():
        out = flex_attention(*inputs, block_mask=make(n), precomputed_block_mask=plan)
        torch.testing.assert_close(out, flex_attention(*inputs, block_mask=make(n)))


def test_tensors_that_are_one_are_told_from_two():
    def add(x, y):
        return lambda s, b, h, i, j: s + x[i] * y[j]

    x, y = torch.randn(S), torch.randn(S)
    compare(add(x, x))
    compare(add(x, y))


def test_names_of_modules_are_followed():
    global WEIGHT
    WEIGHT = 1.0
    scale = lambda s, b, h, i, j: s * WEIGHT  # noqa: E731
    compare(scale)
    WEIGHT = 2.0
    compare(scale)


def test_partials_are_traced_once(monkeypatch):
    """New partials of equal functions over new tensors cost nothing, and integers that vary are captured."""

    def penalty(slopes, s, b, h, i, j, factor=1.0, distance=0):
        return s + factor * slopes[h] * (i - j + distance)

    traced = []
    run = flex._run
    monkeypatch.setattr(flex, "_run", lambda *arguments: traced.append(1) or run(*arguments))
    attn.errors._warned.discard("traced again")
    with warnings.catch_warnings():
        warnings.simplefilter("error", attn.AttnWarning)
        for number in range(4):
            compare(functools.partial(functools.partial(penalty, torch.randn(H)), factor=0.5))
        once = len(traced)
        compare(functools.partial(penalty, torch.randn(H), factor=2.0))
        another = len(traced)
        for distance in (1, 2, 3, 4):
            compare(functools.partial(penalty, torch.ones(H), distance=distance))
    assert once == 1 and another == 2 and len(traced) == 4


def test_objects_are_traced_again_with_a_warning():
    class Holder:
        factor = 2.0

    holder = Holder()
    mod = lambda s, b, h, i, j: s * holder.factor  # noqa: E731
    attn.errors._warned.discard("traced again")
    with pytest.warns(attn.AttnWarning, match="'holder', of type Holder, which may change"):
        compare(mod)
    holder.factor = 3.0
    compare(mod)


def test_modules_are_traced_again_with_a_warning():
    attn.errors._warned.discard("traced again")
    SETTINGS.factor = 2.0
    mod = lambda s, b, h, i, j: s * SETTINGS.factor  # noqa: E731
    with pytest.warns(attn.AttnWarning, match="'SETTINGS', of type module, which may change"):
        compare(mod)
    SETTINGS.factor = 3.0
    compare(mod)


def test_what_functions_refer_to_is_freed_with_them():
    def call():
        slopes = torch.randn(H)
        for _ in range(2):
            flex_attention(*make_inputs(), score_mod=lambda s, b, h, i, j: s + slopes[h])
        mod = lambda s, b, h, i, j: s + slopes[h]  # noqa: E731
        for _ in range(2):
            flex_attention(*make_inputs(), score_mod=mod)
        return weakref.ref(slopes)

    reference = call()
    gc.collect()
    assert reference() is None


def test_variables_may_be_bound_again():
    slopes = torch.randn(H)
    mod = lambda s, b, h, i, j: s + slopes[h]  # noqa: E731
    compare(mod)
    slopes = torch.randn(H)
    compare(mod)
    slopes = torch.randn(H).int()
    compare(mod)


def test_computed_tensors_are_computed_again_with_a_warning():
    slopes = torch.randn(H)
    attn.errors._warned.discard("computed again")
    with pytest.warns(attn.AttnWarning, match="Compute them before"):
        compare(lambda s, b, h, i, j: s + (slopes * 2)[h])
    slopes.zero_()
    compare(lambda s, b, h, i, j: s + (slopes * 2)[h])


def _branch(s, b, h, i, j):
    return s if i > j else -s


def _item(s, b, h, i, j):
    return s * b.item()


def _loop(s, b, h, i, j):
    for _ in range(i):
        s = s + 1
    return s


@pytest.mark.parametrize(
    "mod,text",
    [
        (_branch, r"score_mod \(_branch\) asks for the truth .* use torch\.where in the place of if"),
        (lambda s, b, h, i, j: max(s, 0.0), "use torch.where in the place of if, min and max"),
        (_item, "asks for the number"),
        (_loop, "asks for the number"),
        (lambda s, b, h, i, j: torch.erfinv(s), "calls torch's 'erfinv', which is not supported on scalars"),
        (lambda s, b, h, i, j: torch.softmax(s, 0), "calls torch's 'softmax'"),
        (lambda s, b, h, i, j: s.cumsum(0), "uses 'cumsum', which is not supported on scalars"),
        (lambda s, b, h, i, j: s + PLANE[0, h], "index all dimensions"),
        (lambda s, b, h, i, j: s + SLOPES, "read an element of it"),
        (lambda s, b, h, i, j: s + SLOPES[s], "make it an integer"),
        (lambda s, b, h, i, j: s + SLOPES[h, i], "give 1"),
        (lambda s, b, h, i, j: s + PLANE[0, H + 3, i, j], "stay inside of it"),
        (lambda s, b, h, i, j: s + PLANE[..., j], "an index for each dimension"),
        (lambda s, b, h, i, j: s + torch.zeros(S, dtype=torch.complex64)[j], "convert it to one of"),
        (lambda s, b, h, i, j: s & 1, "compare them first"),
        (lambda s, b, h, i, j: s.to(torch.float64), "use float32"),
        (lambda s, b, h, i, j: s.shape[0], "cannot be traced: IndexError: .* scalars without dimensions"),
        (lambda s, b, h, i, j: s + PLANE[0, h].sum(), "uses 'sum' of a part of a captured tensor .* compute it for"),
        (lambda s, b, h, i, j: PLANE[0, h] + 1, "uses 'add' of a part .* with 576 elements, expected at most 256"),
        (lambda s, b, h, i, j: s * POINTS[i], r"uses a tensor of shape \(3,\) where a scalar is expected; reduce it"),
        (lambda s, b, h, i, j: (TAGS[i] == POINTS[j]).sum(), r"'eq' with shapes \(4,\) and \(3,\), which do not broad"),
        (lambda s, b, h, i, j: torch.dot(TAGS[i], POINTS[j]), r"shapes \(4,\) and \(3,\), expected two vectors of one"),
        (lambda s, b, h, i, j: (POINTS[i] * 2).sum(1), "'sum' with dim=1 of a tensor of 1 dimensions"),
        (lambda s, b, h, i, j: (POINTS[i] * 2)[h], "use constant numbers inside of it"),
        (lambda s, b, h, i, j: POINTS[i].cumsum(0), "uses 'cumsum' of a part of a captured tensor"),
        (lambda s, b, h, i, j: -PLANE[0, h], "index all dimensions"),
        (lambda s, b, h, i, j: s @ s, r"a matmul, '@', .* multiply by '\*'"),
        (lambda s, b, h, i, j: s[0], "asks for the elements"),
        (lambda s, b, h, i, j: s * len(s), "asks for the elements"),
        (lambda s, b, h, i, j: s + {0: 1}[h], r"the hash, .* put the values into a tensor and read it"),
        (lambda s, b, h, i, j: s + (i << j), "only integers can be shifted, by numbers from 0 to 31"),
        (lambda s, b, h, i, j: s << 1, "only integers can be shifted"),
        (lambda s, b, h, i, j: round(s, 2), "rounds to 2 decimals"),
        (lambda s, b, h, i, j: s.new_zeros((2,)), "only scalars can be made"),
        (lambda s, b, h, i, j: torch.nn.functional.gelu(s, approximate="erf"), "use 'none' or 'tanh'"),
        (lambda s, b, h, i, j: s + None, "computes with a NoneType"),
        (lambda s, b, h, i, j: "score", "computes with a str"),
        (lambda s, b, h, i, j: s.clamp(lower=1), "in a way that is not supported"),
        (lambda s, b, h, i, j: torch.div(s, 2, rounding_mode="nearest"), "use 'floor' or 'trunc'"),
    ],
)
def test_what_cannot_be_traced(mod, text):
    with pytest.raises(attn.TraceError, match=text):
        flex_attention(*make_inputs(), score_mod=mod)


def test_bad_input():
    q, k, v = make_inputs()
    with pytest.raises(attn.AttnError, match="needs 4"):
        flex_attention(q[0], k, v)
    with pytest.raises(attn.AttnError, match="enable_gqa=True"):
        flex_attention(q, k[:, :2], v[:, :2])
    with pytest.raises(attn.AttnError, match="and value 2; pass enable_gqa=True if query heads share values"):
        flex_attention(q, k, v[:, :2])
    with pytest.raises(attn.AttnError, match="pass a BlockMask or a mask_mod"):
        flex_attention(q, k, v, block_mask=3)
    with pytest.raises(attn.AttnError, match="captured tensor 0 is on meta"):
        slopes = SLOPES.to("meta")
        flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + slopes[h])


def test_compile_and_export_keep_the_operator():
    q, k, v = make_inputs()
    slopes = torch.randn(H)

    def alibi(s, b, h, i, j):
        return s + slopes[h] * (j - i)

    def run(q, k, v):
        return flex_attention(q * 2, k, v, score_mod=alibi, block_mask=MASKS["causal"]) + 1

    torch.testing.assert_close(torch.compile(run, backend="aot_eager")(q, k, v), run(q, k, v))

    traced = trace(alibi, MASKS["causal"])
    whole = torch.compile(lambda q, k, v: flex_attention(q * 2, k, v, traced) + 1, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(whole(q, k, v), run(q, k, v))
    slopes.mul_(2)
    torch.testing.assert_close(whole(q, k, v), run(q, k, v))
    with pytest.raises(attn.AttnError, match="block_mask must be None"):
        flex_attention(q, k, v, traced, MASKS["causal"])

    class Module(torch.nn.Module):
        def forward(self, q, k, v):
            return run(q, k, v)

    with torch.no_grad():
        for strict in (False, True):
            program = torch.export.export(Module(), (q, k, v), strict=strict)
            assert "attn.attention" in program.graph_module.code
            torch.testing.assert_close(program.module()(q, k, v), run(q, k, v))


@pytest.fixture
def deterministic():
    yield torch.use_deterministic_algorithms
    torch.use_deterministic_algorithms(False)


def test_deterministic_algorithms(deterministic, monkeypatch):
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 4, 70, 16, requires_grad=True) for _ in range(3))
    slopes = torch.rand(4, requires_grad=True)

    def differentiate(score_mod, *wanted):
        out = flex_attention(query, key, value, score_mod)
        return torch.autograd.grad(out.square().sum(), wanted)

    passes = []
    compile_text = kernels.compile
    monkeypatch.setattr(kernels, "compile", lambda *a, **k: passes.append(k.get("passes")) or compile_text(*a, **k))
    compile_later = kernels.compile_in_background
    monkeypatch.setattr(
        kernels, "compile_in_background", lambda *a, **k: passes.append(k.get("passes")) or compile_later(*a, **k)
    )
    kernels.find_functions.cache_clear()
    kernels.find_backward.cache_clear()
    kernels._forget_plans()

    def plain(score, b, h, i, j):
        return score * 1.25

    def alibi(score, b, h, i, j):
        return score + slopes[h] * (j - i)

    expected = differentiate(plain, query, key, value)
    assert not any("deterministic" in text for text in passes)
    of_slopes = differentiate(alibi, slopes)[0]
    deterministic(True)
    actual = differentiate(plain, query, key, value)
    assert "deterministic" in passes[-1]
    for tensor, other in zip(actual, expected):
        torch.testing.assert_close(tensor, other)
    for tensor, other in zip(differentiate(plain, query, key, value), actual):
        assert torch.equal(tensor, other)
    # All positions are added to a slope.
    with pytest.raises(attn.UnsupportedError, match="cannot be computed deterministically .*no order of additions"):
        differentiate(alibi, slopes)
    deterministic(True, warn_only=True)
    with pytest.warns(UserWarning, match="attention is not deterministic: .*no order of additions"):
        # The order of additions differs from call to call.
        torch.testing.assert_close(differentiate(alibi, slopes)[0], of_slopes, rtol=1e-4, atol=0)


def test_autocast():
    """Queries, keys and values get its dtype, in calls and in graphs; captured tensors stay as they are."""
    inputs, slopes = make_inputs(), torch.rand(H, requires_grad=True)
    mixed = (inputs[0], inputs[1].bfloat16(), inputs[2])
    wide = [tensor.detach().double().requires_grad_() for tensor in (*inputs, slopes)]
    expected, _ = reference(*wide[:3], lambda s, b, h, q, k: s + wide[3][h] * (k - q))
    exact = torch.autograd.grad(expected.sum(), wide)

    def attend(q, k, v):
        return flex_attention(q, k, v, lambda s, b, h, i, j: s + slopes[h] * (j - i))

    for call in (attend, torch.compile(attend, backend="aot_eager", fullgraph=True)):
        with torch.autocast("cpu", torch.bfloat16):
            out = call(*mixed)
        assert out.dtype == torch.bfloat16
        torch.testing.assert_close(out.double(), expected, rtol=2e-2, atol=2e-2)
        for gradient, wanted in zip(torch.autograd.grad(out.float().sum(), (*inputs, slopes)), exact):
            assert gradient.dtype == torch.float32
            torch.testing.assert_close(gradient.double(), wanted, rtol=5e-2, atol=5e-2)
    with torch.autocast("cpu", torch.bfloat16):
        double = flex_attention(*(tensor.double() for tensor in inputs))
    assert double.dtype == torch.float64


def test_tiles_of_masks_without_closed_forms_are_classified():
    """Neighbours of points in a picture that is stored in blocks: attention visits no empty tiles."""

    def place(i):
        return i // 16 % 4 * 4 + i % 16 % 4, i // 64 * 4 + i % 16 // 4

    def neighbours(batch, head, query, key):
        (x, y), (other_x, other_y) = place(query), place(key)
        return (x - 2 <= other_x) & (other_x <= x + 2) & (y - 2 <= other_y) & (other_y <= y + 2)

    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 700, 16, requires_grad=True) for _ in range(3))
    out = flex_attention(q, k, v, None, neighbours)
    positions = torch.arange(700)
    keep = neighbours(0, 0, positions[:, None], positions)
    wide = [tensor.detach().double().requires_grad_() for tensor in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(*wide, attn_mask=keep)
    torch.testing.assert_close(out.double(), expected, rtol=1e-4, atol=1e-5)
    # Entries of a row of tiles are its place in the order, the numbers of its tiles and of the partial ones, and tiles.
    body = flex._run(neighbours, [], "i1", q.device)[0]
    plan = kernels.get_plan(kernels.Kind(mask_mod=body), kernels.Mode(planned=True), q, k, v, ())
    listed = plan.create_block_mask(())[0, 0, :, 1].tolist()

    def count(size):
        tiles = torch.nn.functional.pad(keep, (0, -700 % size, 0, -700 % size)).unflatten(1, (-1, size))
        return tiles.unflatten(0, (-1, size)).any(3).any(1).sum(1).tolist()

    # The schedule for this length has tiles of one of these sizes.
    assert any(listed[: len(counts)] == counts for counts in map(count, (32, 64, 128)))
    dout = torch.randn_like(out)
    gradients = torch.autograd.grad(out, (q, k, v), dout)
    for actual, wanted in zip(gradients, torch.autograd.grad(expected, wide, dout.double())):
        torch.testing.assert_close(actual.double(), wanted, rtol=1e-3, atol=1e-4)


def test_equal_calls_are_recognised_by_guards(monkeypatch):
    """Without preparing the call, which takes more time than all else together."""
    kernels._forget_plans()
    q, k, v = (tensor.detach() for tensor in make_inputs())
    leaf = q.clone().requires_grad_()
    slopes = SLOPES.clone().requires_grad_()
    documents = create_block_mask(lambda b, h, i, j: DOCUMENTS[b, i] == DOCUMENTS[b, j], B, None, S, S, device="cpu")

    def causal(b, h, i, j):
        return i >= j

    def make_penalty(tensor):
        return lambda s, b, h, i, j: s - tensor[h] * (i - j)

    penalty = make_penalty(SLOPES)
    made = flex.create_block_mask(q, k, v, block_mask=documents.mask_mod)
    calls = [
        lambda: flex_attention(q, k, v, penalty),
        lambda: flex_attention(q, k, v, make_penalty(SLOPES * 2)),
        lambda: flex_attention(q, k, v, penalty, causal),
        lambda: flex_attention(leaf, k, v, None, causal, scale=0.5),
        lambda: flex_attention(q, k, v, make_penalty(slopes)),
        lambda: flex_attention(q, k, v, None, documents, return_aux=AuxRequest(lse=True))[0],
        lambda: flex_attention(q, k, v, None, documents.mask_mod, return_lse=True)[1],
        lambda: flex_attention(q, k, v, None, documents.mask_mod, precomputed_block_mask=made),
        lambda: flex_attention(q, k, v, penalty, attn.masks.documents(DOCUMENTS) & attn.masks.causal()),
        lambda: flex_attention(q, k, v, trace(penalty, causal)),
        lambda: flex_attention(q, k, v, None, causal, dropout_p=0.25),
    ]

    def run(call):
        torch.manual_seed(2)
        return call()

    expected = [run(call) for call in calls]
    # No two of these calls differ in their tensors alone.
    assert not torch.equal(expected[0], expected[1]) and expected[4].requires_grad
    monkeypatch.setattr(flex, "prepare", None)
    for call, each in zip(calls, expected):
        out = run(call)
        assert torch.equal(out, each) and out.requires_grad == each.requires_grad
    (gradient,) = torch.autograd.grad(calls[4]().sum(), slopes)
    assert gradient.abs().sum() > 0
    with torch.no_grad(), pytest.raises(TypeError):
        # Another plan: functions forward differ.
        flex_attention(leaf, k, v, None, causal, scale=0.5)


def test_guards_tell_other_calls():
    """Calls that only look like the ones before."""
    kernels._forget_plans()
    q, k, v = (tensor.detach() for tensor in make_inputs())
    slopes = SLOPES.clone()
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, S, S, device="cpu")
    documents = DOCUMENTS.clone()
    of_documents = create_block_mask(lambda b, h, i, j: documents[b, i] == documents[b, j], B, None, S, S, device="cpu")

    def penalty(s, b, h, i, j):
        return s - slopes[h] * (i - j)

    def call(*tensors, **options):
        return flex_attention(*tensors, penalty, mask, **options)

    exact = [call(q, k, v) for _ in range(3)][0]
    batch = [tensor.expand(3, *tensor.shape) for tensor in (q, k, v)]
    torch.testing.assert_close(torch.func.vmap(call)(*batch), exact.expand(3, *exact.shape))
    assert call(*(tensor.double() for tensor in (q, k, v))).dtype == torch.float64
    with torch.inference_mode():
        assert call(q, k, v).is_inference()
    with pytest.raises(attn.AttnError, match="query has 4 heads and key 2"):
        call(q, k[:, :2], v[:, :2])
    with pytest.raises(attn.AttnError, match="block_mask was made for 24 queries and 24 keys, and there are 24 and 20"):
        call(q, k[:, :, :20], v[:, :, :20])
    with pytest.raises(attn.AttnError, match="key is a list"):
        call(q, [k], v)
    with pytest.raises(attn.AttnError, match="dropout_p is a list"):
        call(q, k, v, dropout_p=[])
    with pytest.raises(attn.AttnError, match="block_mask is a int"):
        flex_attention(q, k, v, None, 3)
    # The contents of captured tensors, and variables, change.
    slopes.mul_(2)
    doubled = flex_attention(q, k, v, lambda s, b, h, i, j: s - 2 * SLOPES[h] * (i - j), mask)
    torch.testing.assert_close(call(q, k, v), doubled)
    slopes = SLOPES[::2].repeat_interleave(2)
    assert not torch.equal(call(q, k, v), doubled)
    before = [flex_attention(q, k, v, None, of_documents) for _ in range(3)][0]
    documents.zero_()
    changed = flex_attention(q, k, v, None, of_documents)
    assert not torch.equal(before, changed)
    torch.testing.assert_close(changed, flex_attention(q, k, v))


def test_operators_recognise_equal_calls(monkeypatch):
    """A call of the operator with tensors of known layouts takes its plan again, unless something else has changed."""
    made = []
    get_plan = ops.get_plan
    monkeypatch.setattr(ops, "get_plan", lambda *a: made.append(a) or get_plan(*a))
    kernels.recent_plans.clear()

    def call(length, gradients="", captures=(), rng=None):
        q, k, v = (torch.randn(1, 2, length, 16, requires_grad=bool(gradients)) for _ in range(3))
        variant = f"gradients: {gradients}" if gradients else ""
        out, _ = torch.ops.attn.attention([q, k, v, *captures], rng, variant)
        torch.testing.assert_close(out, torch.nn.functional.scaled_dot_product_attention(q, k, v))
        assert out.requires_grad == bool(gradients)

    state = torch.zeros(2, dtype=torch.int64)
    for count, arguments in enumerate([(5,), (7,), (5, "inputs"), (5, "", [torch.ones(3)])], 1):
        for _ in range(3):
            call(*arguments)
            assert len(made) == count
    with torch.no_grad():
        call(5)
    # Without dropout, its state is no input.
    known = len(made)
    for _ in range(3):
        call(5, rng=state)
    assert len(made) == known
    before = torch.get_float32_matmul_precision()
    known = len(made)
    try:
        torch.set_float32_matmul_precision("high" if before == "highest" else "highest")
        call(5)
    finally:
        torch.set_float32_matmul_precision(before)
    assert len(made) == known + 1
