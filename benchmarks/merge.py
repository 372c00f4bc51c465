#!/usr/bin/env python3
# ===- merge.py - Merges of partial results, timed on a GPU --------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Times merges of partial results and their gradients next to a copy of memory.

    merge.py --compile build/bin/attn-compile --artifacts DIR
    merge.py --artifacts DIR --runtime libattn_runtime.so --out benchmarks/results/merge.jsonl

There are 524,288 rows of outputs. Bytes: outputs and log-sum-exps of the partial results once, the result once. For the
gradient, the gradient of the result and the partial outputs once, their gradients once. Results are compared with
torch in float64.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402

BATCH, LENGTH = 4, 4096
COPIED_BYTES = 2**30
# Element type, heads and head dim.
LAYOUTS = (("bf16", 32, 128), ("f16", 32, 64), ("bf16", 16, 256), ("f32", 32, 128))
PARTS = (2, 3, 4, 8)
MAX_ERRORS = {"bf16": 2**-7, "f16": 2**-9, "f32": 1e-5}


def module(parts, dtype, heads, dim, mode, schedule=""):
    """The function `merge` or `gradient` of a number of partial results."""
    out, lse = f"tensor<?x{heads}x?x{dim}x{dtype}>", f"tensor<?x{heads}x?xf32>"

    def names(prefix):
        return ", ".join(f"%{prefix}{number}" for number in range(parts))

    def typed(prefix, kind):
        return ", ".join(f"%{prefix}{number}: {kind}" for number in range(parts))

    outs, lses = ", ".join([out] * parts), ", ".join([lse] * parts)
    ins = f"ins({names('out')} : {outs}) lses({names('lse')} : {lses})"
    clause = f" schedule({schedule})" if schedule else ""
    if mode == "fwd":
        results = f"{out}, {lse}"
        operation = f"attn.merge {ins} outs(%out, %lse : {results}){clause} -> {results}"
        count, given = 2, f"%out: {out}, %lse: {lse}"
    else:
        results = f"{outs}, {lses}"
        destinations = f"outs({names('dout')} : {outs}) dlses({names('dlse')} : {lses})"
        operation = f"attn.merge_grad {ins} dout(%dout : {out}) {destinations}{clause} -> {results}"
        count, given = 2 * parts, f"%dout: {out}, {typed('dout', out)}, {typed('dlse', lse)}"
    returned = ", ".join(f"%0#{number}" for number in range(count))
    return (
        f"func.func @merge({typed('out', out)}, {typed('lse', lse)}, {given}) -> ({results}) {{\n"
        f"  %0:{count} = {operation}\n  return {returned} : {results}\n}}\n"
    )


def make_modules(schedule):
    return {
        f"{mode}_{dtype}_d{dim}_p{parts}": module(parts, dtype, heads, dim, mode, schedule)
        for mode in ("fwd", "bwd") for dtype, heads, dim in LAYOUTS for parts in PARTS
    }  # fmt: skip


def make_inputs(torch, parts, dtype, heads, dim):
    """Partial outputs, their log-sum-exps, of which some are of no keys, and a gradient."""
    kind = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[dtype]
    shape = (BATCH, heads, LENGTH, dim)
    outs = [torch.randn(shape, device=harness.DEVICE).to(kind) for _ in range(parts)]
    lses = [torch.randn(shape[:3], device=harness.DEVICE) * 3 for _ in range(parts)]
    lses[0][:, :, ::7] = -float("inf")
    for lse in lses:
        lse[:, :, ::49] = -float("inf")
    return outs, lses, torch.randn(shape, device=harness.DEVICE).to(kind)


def find_error(torch, outs, lses, dout, results, mode, rows=256):
    """The largest difference from float64, relative to the largest number, in the first positions."""
    outs = [tensor[:, :, :rows].double().requires_grad_() for tensor in outs]
    lses = [tensor[:, :, :rows].double().requires_grad_() for tensor in lses]
    stacked = torch.stack(lses)
    lse = torch.logsumexp(stacked, 0)
    weights = (stacked - lse).exp()
    weights = torch.where(lse.isinf() | stacked.isinf(), torch.zeros_like(weights), weights)
    out = (weights.unsqueeze(-1) * torch.stack(outs)).sum(0)
    if mode == "fwd":
        expected = [out, lse]
    else:
        expected = [weight.unsqueeze(-1) * dout[:, :, :rows].double() for weight in weights]
        mean = (out * dout[:, :, :rows]).sum(-1)
        expected += [
            weight * ((partial_out * dout[:, :, :rows]).sum(-1) - mean) for weight, partial_out in zip(weights, outs)
        ]
    error = 0.0
    for wanted, found in zip(expected, results):
        found = found[:, :, :rows].double()
        same = (wanted == found) | (wanted - found == 0)
        difference = torch.where(same, torch.zeros_like(found), (wanted - found).abs())
        if difference.isnan().any():
            return float("inf")
        finite = torch.where(wanted.isinf(), torch.zeros_like(wanted), wanted)
        error = max(error, (difference.max() / finite.abs().max()).item())
    return error


def measure(torch, options, artifacts, name, layout, parts):
    """Milliseconds, bytes and the error of a merge or of a gradient."""
    mode, (dtype, heads, dim) = name[:3], layout
    outs, lses, dout = make_inputs(torch, parts, dtype, heads, dim)
    like = [outs[0], lses[0]] if mode == "fwd" else [*outs, *lses]
    results = [torch.full_like(tensor, float("nan")) for tensor in like]
    given = [*outs, *lses, *([] if mode == "fwd" else [dout]), *results]
    call = artifacts.load(name)["merge"].bind(*given, stream=harness.get_stream(torch))
    call()
    harness.synchronize(torch)
    error = find_error(torch, outs, lses, dout, results, mode)
    moved = sum(tensor.numel() * tensor.element_size() for tensor in given)
    return harness.median_ms(torch, call, options.repeats), moved, error


def main():
    parser = harness.make_parser(__doc__, "repeats", "only", "target", repeats=9)
    parser.add_argument("--schedule", default="", help="schedule of all merges, in the place of the chosen one")
    options = parser.parse_args()
    if options.compile:
        modules = make_modules(options.schedule)
        harness.compile_modules(options, {name: text for name, text in modules.items() if options.only in name})
        return 0

    import torch

    torch.manual_seed(0)
    rows, artifacts = harness.Rows(options, harness.describe_device(torch), suite="merge"), harness.Artifacts(options)
    copied = harness.measure_copy(torch, options.repeats, COPIED_BYTES)
    print(f"copy: {copied:.2f} TB/s")
    for mode in ("fwd", "bwd"):
        for layout in LAYOUTS:
            for parts in PARTS:
                name = f"{mode}_{layout[0]}_d{layout[2]}_p{parts}"
                if options.only not in name or name not in artifacts:
                    continue
                ms, moved, error = measure(torch, options, artifacts, name, layout, parts)
                if not error <= MAX_ERRORS[layout[0]]:
                    sys.exit(f"error: {name} has an error of {error:.2e}")
                rate = moved / ms / 1e9
                rows.add(artifacts.commit_of(name), op="attn", mode=mode, dtype=layout[0], B=BATCH, H=layout[1],
                         S=LENGTH, D=layout[2], parts=parts, ms=ms, tbytes=rate, copy_tbytes=copied, error=error)
                print(f"{name:18s} {ms:7.4f} ms {rate:6.2f} TB/s {rate / copied:5.0%} of a copy, error {error:.1e}",
                      flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
