# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of one sequence as functions of the package flash-attn define it, in f64."""

import math
import random
import typing

import torch


class Options(typing.NamedTuple):
    """Arguments of these functions; `alibi` is the number of dimensions of slopes, 0 for none."""

    causal: bool = False
    window_size: typing.Tuple[int, int] = (-1, -1)
    attention_chunk: int = 0
    softcap: float = 0.0
    softmax_scale: typing.Optional[float] = None
    alibi: int = 0
    sinks: bool = False


def draw_options(rng: random.Random) -> Options:
    return Options(
        causal=rng.random() < 0.5,
        window_size=rng.choice([(-1, -1), (-1, -1), (rng.randrange(40), rng.randrange(-1, 9)), (-1, rng.randrange(9))]),
        attention_chunk=rng.choice([0, 0, 0, 8, 24]),
        softcap=rng.choice([0.0, 0.0, 3.0]),
        softmax_scale=rng.choice([None, 0.3]),
        alibi=rng.choice([0, 0, 1, 2]),
        sinks=rng.random() < 0.3,
    )


def attend(q, k, v, options, slopes=None, sinks=None, first=0):
    """Output and log-sum-exp of queries `[queries, heads, head dim]`, the last of which is at the last key. Keys before
    `first` do not count."""
    heads = torch.arange(q.shape[1])
    q, k, v = (x.double().transpose(0, 1) for x in (q, k, v))
    k, v = (x[heads // (len(heads) // len(x))] for x in (k, v))
    scale = 1 / math.sqrt(q.shape[2]) if options.softmax_scale is None else options.softmax_scale
    s = q @ k.mT * scale
    if options.softcap:
        s = options.softcap * torch.tanh(s / options.softcap)
    i, j = torch.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1], torch.arange(k.shape[1])
    if slopes is not None:
        s = s - slopes.double()[:, None, None] * (i - j).abs()
    left, right = options.window_size[0], 0 if options.causal else options.window_size[1]
    keep = (j >= first) & ((j >= i - left) | (left < 0)) & ((j <= i + right) | (right < 0))
    if options.attention_chunk:
        keep = keep & (torch.div(i, options.attention_chunk, rounding_mode="floor") == j // options.attention_chunk)
    s = s.masked_fill(~keep, -math.inf)
    logits = s if sinks is None else torch.cat((s, sinks.double()[:, None, None].expand(*s.shape[:2], 1)), -1)
    lse = logits.logsumexp(-1)
    p = torch.exp(s - lse.masked_fill(lse == -math.inf, 0.0)[..., None])
    return (p @ v).transpose(0, 1), lse
