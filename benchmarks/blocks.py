#!/usr/bin/env python3
# ===- blocks.py - Attention on listed blocks, timed on a GPU ------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Times block-sparse attention and its gradient at several densities.

    blocks.py --compile build/bin/attn-compile --artifacts DIR
    blocks.py --artifacts DIR --runtime libattn_runtime.so --out benchmarks/results/masks.jsonl

Blocks are kept at random, for all heads or for each. Operations are counted for the kept pairs; the kernels that read
the lists are part of the time.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402

HEADS, KV_HEADS, DIM, LENGTH = 64, 8, 128, 16384
DENSITIES = (0.01, 0.05, 0.1, 0.5, 1.0)
# Mode, size of blocks, and heads that have lists.
CASES = (("fwd", 128, 1), ("fwd", 128, HEADS), ("fwd", 64, HEADS), ("fwd", 16, HEADS),
         ("bwd", 128, 1), ("bwd", 128, HEADS))
# Matmuls for each pair of the forward pass, and of the gradient.
MATMULS = {"fwd": 2, "bwd": 5}


def module(mode, block, list_heads):
    q, k = (f"tensor<1x{h}x?x{DIM}xbf16>" for h in (HEADS, KV_HEADS))
    lse, lists = f"tensor<1x{HEADS}x?xf32>", f"tensor<1x{list_heads}x?xi32>"
    mask = (f"mask(#attn.block_sparse<rows = {block}, columns = {block}, offsets = 0, indices = 1>)"
            f" reads(%offsets, %indices : {lists}, {lists})")
    if mode == "fwd":
        return f"""func.func @run(%q: {q}, %k: {k}, %v: {k}, %offsets: {lists}, %indices: {lists}, %o: {q}) -> {q} {{
  %r = attn.attention ins(%q, %k, %v : {q}, {k}, {k}) outs(%o : {q}) {mask} -> {q}
  return %r : {q}
}}
"""
    return f"""func.func @run(%q: {q}, %k: {k}, %v: {k}, %o: {q}, %l: {lse}, %do: {q},
    %offsets: {lists}, %indices: {lists}, %dq: {q}, %dk: {k}, %dv: {k}) -> ({q}, {k}, {k}) {{
  %r:3 = attn.attention_grad ins(%q, %k, %v, %o, %l, %do : {q}, {k}, {k}, {q}, {lse}, {q})
      outs(%dq, %dk, %dv : {q}, {k}, {k}) {mask} -> {q}, {k}, {k}
  return %r#0, %r#1, %r#2 : {q}, {k}, {k}
}}
"""


def name_of(mode, block, list_heads):
    return f"{mode}_blocks{block}_{'shared' if list_heads == 1 else 'heads'}"


def make_lists(torch, kept):
    """Offsets and indices of `kept`, of blocks of each head."""
    offsets = torch.zeros(*kept.shape[:3], dtype=torch.int32, device=kept.device)
    offsets = torch.cat([offsets[..., :1], kept.sum(3).cumsum(2).int()], 2).contiguous()
    counts = offsets[0, :, -1].tolist()
    indices = torch.zeros(1, kept.shape[1], max(max(counts), 1), dtype=torch.int32, device=kept.device)
    columns = kept.nonzero()[:, 3].int().split(counts)
    for head, listed in enumerate(columns):
        indices[0, head, : len(listed)] = listed
    return offsets, indices


def make_parser():
    return harness.make_parser(__doc__, "repeats", repeats=5)


class Inputs:
    """Tensors that all cases share; their values have no influence on the times."""

    def __init__(self, torch):
        def make(heads):
            return torch.randn(1, heads, LENGTH, DIM, device=harness.DEVICE, dtype=torch.bfloat16)

        self.q, self.out, self.dout, self.k, self.v = map(make, (HEADS, HEADS, HEADS, KV_HEADS, KV_HEADS))
        self.lse = torch.full((1, HEADS, LENGTH), 9.0, device=harness.DEVICE)
        self.grads = [torch.empty_like(x) for x in (self.q, self.k, self.v)]

    def list(self, mode, lists):
        """The arguments of a function."""
        if mode == "fwd":
            return [self.q, self.k, self.v, *lists, self.out]
        return [self.q, self.k, self.v, self.out, self.lse, self.dout, *lists, *self.grads]


def measure(torch, options, artifacts, inputs, case, density):
    """Milliseconds, and the part of the pairs that is kept."""
    mode, block, list_heads = case
    blocks = LENGTH // block
    kept = torch.rand(1, list_heads, blocks, blocks, device=harness.DEVICE) < density
    arguments = inputs.list(mode, make_lists(torch, kept))
    run = artifacts.load(name_of(*case))["run"].bind(*arguments, stream=harness.get_stream(torch))
    return harness.median_ms(torch, run, options.repeats), kept.float().mean().item()


def main():
    options = make_parser().parse_args()
    if options.compile:
        harness.compile_modules(options, {name_of(*case): module(*case) for case in CASES})
        return 0

    import torch

    torch.manual_seed(0)
    rows, artifacts = harness.Rows(options, harness.describe_device(torch)), harness.Artifacts(options)
    inputs = Inputs(torch)
    for case in CASES:
        mode, name = case[0], name_of(*case)
        for density in DENSITIES:
            ms, share = measure(torch, options, artifacts, inputs, case, density)
            tflops = share * MATMULS[mode] * 2 * HEADS * DIM * LENGTH**2 / ms / 1e9
            rows.add(artifacts.commit_of(name), op="attn", mode=mode, B=1, H=HEADS, Hkv=KV_HEADS, S=LENGTH, D=DIM,
                     causal=False, p=0.0, mask=f"{name[4:]}_{density:.0%}", ms=ms, tflops=tflops)
            print(f"{name:24s} {share:7.4f} {ms:8.3f} ms {tflops:6.1f} TFLOP/s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
