# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``sdpa`` of shards of a larger attention on the CPU, merged, against the larger attention."""

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn import masks  # noqa: E402
from attn.torch import merge, sdpa  # noqa: E402

BATCH, HEADS, KEY_HEADS, QUERIES, KEYS, DIM = 2, 4, 2, 80, 112, 16
QUERY_PARTS, KEY_PARTS = ((0, 32), (32, 80)), ((0, 48), (48, 64), (64, 112))


def make(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    shapes = [(BATCH, HEADS, QUERIES, DIM), (BATCH, KEY_HEADS, KEYS, DIM), (BATCH, KEY_HEADS, KEYS, DIM)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]


def at(query, key, batch=0, head=0):
    return torch.tensor([query, key, batch, head, QUERIES, KEYS], dtype=torch.int32)


def attend_to_shards(query, key, value, **options):
    """All batch entries and heads by shards, with random numbers that begin anew for each of them."""
    group = HEADS // KEY_HEADS
    batches = []
    for b in range(BATCH):
        heads = []
        for g in range(KEY_HEADS):
            rows = []
            for first, end in QUERY_PARTS:
                parts = []
                for first_key, end_key in KEY_PARTS:
                    torch.manual_seed(7)
                    parts += sdpa(
                        query[b : b + 1, g * group : (g + 1) * group, first:end],
                        key[b : b + 1, g : g + 1, first_key:end_key],
                        value[b : b + 1, g : g + 1, first_key:end_key],
                        enable_gqa=True, positions=at(first, first_key, b, g * group), return_lse=True, **options,
                    )  # fmt: skip
                rows.append(merge(*parts)[0])
            heads.append(torch.cat(rows, 2))
        batches.append(torch.cat(heads, 1))
    return torch.cat(batches, 0)


OPTIONS = {
    "causal": {"attn_mask": masks.causal()},
    "top_left": {"is_causal": True},
    "window": {"attn_mask": masks.sliding_window(left=20, right=3)},
    "soft_cap": {"attn_mask": masks.causal(), "soft_cap": 2.0},
    "dropout": {"attn_mask": masks.causal(), "dropout_p": 0.25},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", OPTIONS)
def test_shards(name, dtype):
    options = OPTIONS[name]
    whole, sharded = make(torch.float64), make(dtype)
    torch.manual_seed(7)
    expected = sdpa(*whole, enable_gqa=True, **options)
    found = attend_to_shards(*sharded, **options)
    grad = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected.backward(grad)
    found.backward(grad.to(dtype))
    for actual, exact in zip((found, *(x.grad for x in sharded)), (expected, *(x.grad for x in whole))):
        torch.testing.assert_close(actual.double(), exact, rtol=1e-4, atol=1e-5)


def test_module():
    text = attn.Attention("bf16", 8, 2, 64, mask="#attn.causal", positions=True).mlir()
    assert "%positions: tensor<6xi32>" in text
    assert "positions(%positions : tensor<6xi32>)\n      mask(#attn.causal)" in text


@pytest.mark.parametrize(
    "options, message",
    [
        ({"attn_mask": torch.ones(QUERIES, KEYS, dtype=torch.bool)}, "attn_mask is a tensor, which positions do not"),
        ({"attn_mask": masks.documents(torch.zeros(KEYS, dtype=torch.int32))}, "the mask reads tensors"),
        ({"identity": torch.zeros(HEADS)}, "identity and positions do not go together"),
        ({"query_lengths": torch.tensor([3, 4], dtype=torch.int32)}, "query_lengths and positions do not go"),
        ({"key_lengths": torch.tensor([3, 4], dtype=torch.int32)}, "key_lengths and positions do not go"),
        ({"positions": [0] * 6}, "positions is a list; pass a tensor of 6 numbers"),
        ({"positions": torch.zeros(6)}, "positions has the dtype torch.float32, expected torch.int32"),
        ({"positions": torch.zeros(5, dtype=torch.int32)}, r"positions has the shape \(5,\), expected \(6,\)"),
        (
            {"positions": torch.tensor([8, 0, 0, 0, QUERIES, KEYS], dtype=torch.int32), "dropout_p": 0.5},
            "first query or first key is not at a multiple of 16",
        ),
    ],
)
def test_refuses(options, message):
    with torch.no_grad(), pytest.raises(attn.AttnError, match=message):
        sdpa(*make(), enable_gqa=True, **{"positions": at(0, 0), **options})
