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
    blocks.py --artifacts DIR --runtime libattn_runtime.so --out benchmarks/results/masks.jsonl --commit ID

Blocks are kept at random, for all heads or for each. Operations are counted for the kept pairs; the kernels that read
the lists are part of the time.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from forward import median_ms  # noqa: E402

HEADS, KV_HEADS, DIM, LENGTH = 64, 8, 128, 16384
DENSITIES = (0.01, 0.05, 0.1, 0.5, 1.0)
# Mode, size of blocks, and heads that have lists.
CASES = (("fwd", 128, 1), ("fwd", 128, HEADS), ("fwd", 64, HEADS), ("fwd", 16, HEADS), ("bwd", 128, 1), ("bwd", 128, HEADS))
# Products of the forward pass are two for each pair, of gradients five.
PRODUCTS = {"fwd": 2, "bwd": 5}


def module(mode, block, list_heads):
    q, k = (f"tensor<1x{h}x?x{DIM}xbf16>" for h in (HEADS, KV_HEADS))
    lse, lists = f"tensor<1x{HEADS}x?xf32>", f"tensor<1x{list_heads}x?xi32>"
    mask = (f"mask(#attn.block_mask<rows = {block}, columns = {block}, offsets = 0, indices = 1>)"
            f" reads(%offsets, %indices : {lists}, {lists})")
    if mode == "fwd":
        return f"""func.func @run(%q: {q}, %k: {k}, %v: {k}, %offsets: {lists}, %indices: {lists}, %o: {q}) -> {q} {{
  %r = attn.attention ins(%q, %k, %v : {q}, {k}, {k}) outs(%o : {q}) {mask} -> {q}
  return %r : {q}
}}
"""
    return f"""func.func @run(%q: {q}, %k: {k}, %v: {k}, %o: {q}, %l: {lse}, %do: {q}, %offsets: {lists}, %indices: {lists},
    %dq: {q}, %dk: {k}, %dv: {k}) -> ({q}, {k}, {k}) {{
  %r:3 = attn.attention_grad ins(%q, %k, %v, %o, %l, %do : {q}, {k}, {k}, {q}, {lse}, {q})
      outs(%dq, %dk, %dv : {q}, {k}, {k}) {mask} -> {q}, {k}, {k}
  return %r#0, %r#1, %r#2 : {q}, {k}, {k}
}}
"""


def name_of(mode, block, list_heads):
    return f"{mode}_blocks{block}_{'shared' if list_heads == 1 else 'heads'}"


def compile_artifacts(compiler, directory):
    os.makedirs(directory, exist_ok=True)
    for case in CASES:
        path = os.path.join(directory, name_of(*case))
        with open(path + ".mlir", "w") as file:
            file.write(module(*case))
        subprocess.run([compiler, path + ".mlir", "-o", path + ".so", "--target=sm_90a"], check=True)


def make_lists(torch, kept):
    """Offsets and indices of `kept`, of blocks of each head."""
    offsets = torch.zeros(*kept.shape[:3], dtype=torch.int32, device="cuda")
    offsets = torch.cat([offsets[..., :1], kept.sum(3).cumsum(2).int()], 2).contiguous()
    counts = offsets[0, :, -1].tolist()
    indices = torch.zeros(1, kept.shape[1], max(max(counts), 1), dtype=torch.int32, device="cuda")
    columns = kept.nonzero()[:, 3].int().split(counts)
    for head, listed in enumerate(columns):
        indices[0, head, : len(listed)] = listed
    return offsets, indices


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", required=True, help="directory of compiled artifacts")
    parser.add_argument("--compile", metavar="ATTN_COMPILE", help="compile the artifacts with this compiler and stop")
    parser.add_argument("--runtime", default="libattn_runtime.so", help="the runtime library")
    parser.add_argument("--out", help="file to append rows to")
    parser.add_argument("--commit", default="", help="commit that the artifacts were built from")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if options.compile:
        compile_artifacts(options.compile, options.artifacts)
        return 0

    import torch

    from attn.artifact import Artifact

    stamp = dict(date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
                 device=torch.cuda.get_device_name(0), commit=options.commit)
    stream = torch.cuda.current_stream().cuda_stream

    def make(heads):
        return torch.randn(1, heads, LENGTH, DIM, device="cuda", dtype=torch.bfloat16)

    q, out, dout, k, v = make(HEADS), make(HEADS), make(HEADS), make(KV_HEADS), make(KV_HEADS)
    lse = torch.full((1, HEADS, LENGTH), 9.0, device="cuda")
    grads = [torch.empty_like(x) for x in (q, k, v)]
    for case in CASES:
        mode, block, list_heads = case
        function = Artifact(os.path.join(options.artifacts, name_of(*case) + ".so"), options.runtime)["run"]
        for density in DENSITIES:
            blocks = LENGTH // block
            kept = torch.rand(1, list_heads, blocks, blocks, device="cuda") < density
            lists = make_lists(torch, kept)
            inputs = [q, k, v, *lists, out] if mode == "fwd" else [q, k, v, out, lse, dout, *lists, *grads]
            ms = median_ms(torch, function.bind(*inputs, stream=stream), options.repeats)
            share = kept.float().mean().item()
            tflops = share * PRODUCTS[mode] * 2 * HEADS * DIM * LENGTH**2 / ms / 1e9
            print(f"{name_of(*case):24s} {share:7.4f} {ms:8.3f} ms {tflops:6.1f} TFLOP/s", flush=True)
            if options.out:
                row = dict(op="attn", mode=mode, B=1, H=HEADS, Hkv=KV_HEADS, S=LENGTH, D=DIM, causal=False, p=0.0,
                           mask=f"{name_of(*case)[4:]}_{density:.0%}", ms=ms, tflops=tflops, **stamp)
                with open(options.out, "a") as file:
                    file.write(json.dumps(row) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
