#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times training steps of a model with the shape of GPT-2 medium, and the attention in them.

    training.py --fill-cache [--dropout P]      # where there is a compiler; no GPU
    training.py --out benchmarks/results/training.jsonl

The first fills the kernel cache, $ATTN_CACHE_DIR, which the second can use on
another machine. A step is forward, backward and the optimizer (AdamW) in bf16,
with dropout in attention alone. All blocks and the loss are compiled by
torch.compile, each once, since blocks are alike. Attention is by attn.torch.sdpa,
by sdpa_packed on the projection as it is, by one of torch's backends, or "unfused" by one operation of torch after
another; in one process, with the same tokens. The attention
of a step is also timed alone, on views of one projection as in the model.
"""

import argparse
import datetime
import gc
import json
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import harness  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from attn.torch import compile_for, sdpa, sdpa_packed  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

TORCH_BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
}
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


class Block(nn.Module):
    def __init__(self, width, heads, attention):
        super().__init__()
        self.heads, self.attention = heads, attention
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.project(attend(self.attention, self.qkv(self.norms[0](x)), self.heads).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[1](x)), approximate="tanh"))


def split_heads(qkv, heads):
    """Queries, keys and values as views of one projection."""
    return qkv.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4).unbind()


def attend(attention, qkv, heads):
    """Attention of one projection, with heads after positions."""
    if getattr(attention, "takes_packed", False):
        return attention(qkv.unflatten(-1, (3, heads, -1)))
    return attention(*split_heads(qkv, heads)).transpose(1, 2)


class Model(nn.Module):
    def __init__(self, arguments, length, attention):
        super().__init__()
        width = arguments.width
        self.tokens, self.positions = nn.Embedding(arguments.vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, arguments.heads, attention) for _ in range(arguments.layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, arguments.vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                scale = (2 * arguments.layers) ** -0.5 if "project" in name or "down" in name else 1
                nn.init.normal_(weight, std=0.02 * scale)

    def forward(self, tokens):
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
        x = self.tokens(inputs) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return self.loss(x, targets)

    def loss(self, x, targets):
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())


class Clock:
    """Milliseconds of calls that run on a device."""

    def __init__(self, device):
        self.device = device

    def now(self):
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() * 1e3

    def median(self, call, repeats):
        times = []
        for _ in range(repeats):
            begin = self.now()
            call()
            times.append(self.now() - begin)
        return statistics.median(times)


def make_attention(backend, dropout):
    if backend == "attn-packed":

        def packed(qkv):
            return sdpa_packed(qkv, is_causal=True, dropout_p=dropout)

        packed.takes_packed = True
        return packed
    if backend == "attn":
        return lambda q, k, v: sdpa(q, k, v, is_causal=True, dropout_p=dropout)

    def unfused(q, k, v):
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        return F.dropout(weights, dropout) @ v

    if backend == "unfused":
        return unfused

    def by_torch(q, k, v):
        with sdpa_kernel(TORCH_BACKENDS[backend]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)

    return by_torch


def time_steps(arguments, clock, batch, length, backend):
    """Milliseconds of a step, of the first one with compilation, and losses."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch.device(arguments.device):
        model = Model(arguments, length, make_attention(backend, arguments.dropout)).to(DTYPES[arguments.dtype])
        batches = torch.randint(arguments.vocabulary, (4, batch, length + 1))
    for block in model.blocks:
        block.compile(fullgraph=backend.startswith("attn"))
    model.loss = torch.compile(model.loss, fullgraph=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    losses = []

    def step():
        loss = model(batches[len(losses) % len(batches)])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())

    first = clock.median(step, 1)
    clock.median(step, 2)
    milliseconds = clock.median(step, arguments.steps)
    return milliseconds, first, [round(loss.item(), 4) for loss in losses]


def time_attention(arguments, clock, batch, length, backend):
    """Milliseconds of the attention of one layer, forward, and forward and backward."""
    attention = make_attention(backend, arguments.dropout)
    shape = (batch, length, 3 * arguments.width)
    qkv = torch.randn(shape, device=arguments.device, dtype=DTYPES[arguments.dtype]).requires_grad_()
    dout = torch.randn(shape[0], length, arguments.width, device=arguments.device, dtype=DTYPES[arguments.dtype])
    dout = dout.unflatten(-1, (arguments.heads, -1))
    if backend == "attn-packed":
        inputs = [qkv.detach().unflatten(-1, (3, arguments.heads, -1)).requires_grad_()]
    else:
        dout = dout.transpose(1, 2)
        inputs = [part.detach().requires_grad_() for part in split_heads(qkv, arguments.heads)]

    def forward():
        with torch.no_grad():
            attention(*inputs)

    def both():
        torch.autograd.grad(attention(*inputs), inputs, dout)

    def of_layers(call):
        # Layers follow one another in a model: calls are submitted while others run.
        for _ in range(arguments.layers):
            call()

    results = []
    for call in (forward, both):
        clock.median(call, 2)
        results.append(clock.median(lambda: of_layers(call), arguments.steps) / arguments.layers)
    return results


def measure(arguments, batch, length, backend):
    clock = Clock(arguments.device)
    row = {"suite": "training", "batch": batch, "length": length, "backend": backend, "layers": arguments.layers}
    row.update(width=arguments.width, heads=arguments.heads, dropout=arguments.dropout, dtype=arguments.dtype)
    try:
        row["attention_forward_ms"], row["attention_ms"] = time_attention(arguments, clock, batch, length, backend)
        if not arguments.attention_only:
            row["step_ms"], row["first_step_ms"], losses = time_steps(arguments, clock, batch, length, backend)
            row["losses"] = losses
            if arguments.device == "cuda":
                row["memory_gb"] = torch.cuda.max_memory_allocated() / 1e9
    except RuntimeError as error:
        # Some of torch's backends do not take each case.
        if backend.startswith("attn"):
            raise
        row["error"] = str(error).splitlines()[0][:200]
    row = {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}
    gc.collect()
    if arguments.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        row["device"] = torch.cuda.get_device_name()
    commit = arguments.commit or harness.find_package_commit()
    row.update(torch=torch.__version__, commit=commit, date=datetime.date.today().isoformat())
    return row


def fill_cache(arguments):
    """Compiles the kernels of the steps for a GPU that this machine need not have."""
    for shape in arguments.shapes.split(","):
        length = int(shape.split("x")[1])
        qkv = torch.zeros((1, length, 3 * arguments.width), dtype=DTYPES[arguments.dtype], requires_grad=True)
        for backend in ("attn", "attn-packed"):
            attention = make_attention(backend, arguments.dropout)
            with compile_for(arguments.fill_cache):
                attend(attention, qkv, arguments.heads)
                with torch.no_grad():
                    attend(attention, qkv, arguments.heads)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fill-cache", nargs="?", const="sm_90a", metavar="TARGET", help="compile and measure nothing")
    harness.add_row_options(parser)
    parser.add_argument("--shapes", default="64x1024,8x8192", help="batches and lengths")
    parser.add_argument("--backends", default="attn,attn-packed,flash,cudnn,efficient",
                        help="attn, attn-packed, unfused, and torch's")
    parser.add_argument("--dropout", type=float, default=0.125)
    parser.add_argument("--dtype", default="bf16", choices=sorted(DTYPES))
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--vocabulary", type=int, default=50304)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--attention-only", action="store_true", help="time no steps")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cpu", "cuda"))
    arguments = parser.parse_args(argv)
    if arguments.fill_cache:
        fill_cache(arguments)
        return
    for shape in arguments.shapes.split(","):
        batch, length = map(int, shape.split("x"))
        for backend in arguments.backends.split(","):
            row = measure(arguments, batch, length, backend)
            print(json.dumps(row), flush=True)
            harness.append_row(arguments.out, row, harness.read_history())


if __name__ == "__main__":
    # Blocks are compiled once for each backend and shape.
    os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "0")
    main()
