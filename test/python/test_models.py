# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small models train as they do with torch's attention: the same losses over 50 steps."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from attn.torch import flex_attention, sdpa  # noqa: E402
from torch import nn  # noqa: E402

WIDTH, HEADS, LAYERS, TOKENS, LENGTH = 64, 4, 2, 50, 24


class GPT2Block(nn.Module):
    """Layer norms, one projection to heads, an MLP with GELU."""

    def __init__(self, attention):
        super().__init__()
        self.attention = attention
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(2)])
        self.qkv, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = self.qkv(self.norms[0](x)).view(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        x = x + self.project(self.attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class LlamaBlock(nn.Module):
    """RMS norms, rotary positions, heads that share keys, a gated MLP."""

    def __init__(self, attention):
        super().__init__()
        self.attention, self.dim, self.key_heads = attention, WIDTH // HEADS, HEADS // 2
        self.norms = nn.ModuleList([nn.RMSNorm(WIDTH) for _ in range(2)])
        self.q, self.project = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.k, self.v = (nn.Linear(WIDTH, self.key_heads * self.dim, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        angles = torch.arange(LENGTH)[:, None] * 10000.0 ** (-torch.arange(0, self.dim, 2) / self.dim)
        self.register_buffer("cos", angles.cos().repeat(1, 2))
        self.register_buffer("sin", angles.sin().repeat(1, 2))

    def rotate(self, x):
        low, high = x.chunk(2, -1)
        return x * self.cos + torch.cat([-high, low], -1) * self.sin

    def forward(self, x):
        y = self.norms[0](x)
        q, k, v = (part(y).unflatten(-1, (-1, self.dim)).transpose(1, 2) for part in (self.q, self.k, self.v))
        out = self.attention(self.rotate(q), self.rotate(k), v, enable_gqa=True)
        x = x + self.project(out.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def by_torch(q, k, v, enable_gqa=False):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=enable_gqa)


def by_sdpa(q, k, v, enable_gqa=False):
    return sdpa(q, k, v, is_causal=True, enable_gqa=enable_gqa)


def by_flex_attention(q, k, v, enable_gqa=False):
    return flex_attention(q, k, v, block_mask=lambda b, h, i, j: i >= j, enable_gqa=enable_gqa)


def train(block, attention, steps=50):
    torch.manual_seed(0)
    embed, head = nn.Embedding(TOKENS, WIDTH), nn.Linear(WIDTH, TOKENS)
    model = nn.Sequential(embed, *[block(attention) for _ in range(LAYERS)], head)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        # Counting, with a step that the beginning shows.
        tokens = (torch.randint(TOKENS, (8, 1)) + torch.randint(1, 4, (8, 1)) * torch.arange(LENGTH + 1)) % TOKENS
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


@pytest.mark.parametrize("block", [GPT2Block, LlamaBlock])
def test_losses(block):
    expected = train(block, by_torch)
    assert expected[-1] < 0.5 * expected[0]
    for attention in (by_sdpa, by_flex_attention):
        torch.testing.assert_close(train(block, attention), expected, rtol=1e-3, atol=1e-3)
