#!/usr/bin/env python3
# ===- linear_attention.py - Linear attention, timed on a GPU ------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Times causal linear attention without decay, and with a decay of each head or token, next to fla-core.

    linear_attention.py --compile build/bin/attn-compile --artifacts DIR
    linear_attention.py --artifacts DIR --runtime libattn_runtime.so --out benchmarks/results/linear.jsonl

There are 16 heads of a head dim, and batch entries of 32k tokens together; or one head of one long sequence. Positions
come before heads in memory, as fla-core has them. fla-core (kernels of Triton) is timed if it can be imported.
"""

import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402

DIMS = (64, 128)
DECAYS = ("plain", "head", "token")
# Heads, batch entries and length.
CASES = ((16, 8, 4096), (16, 4, 8192), (16, 1, 32768), (16, 1, 65536), (16, 1, 131072), (1, 1, 262144))
# Relative error of rows that is allowed.
MAX_ERROR = 1e-2


def module(heads, dim, decay):
    from attn import LinearAttention

    kind = "" if decay == "plain" else decay
    return LinearAttention("bf16", heads, heads, heads, dim, decay=kind).mlir()


def make_modules():
    return {f"{decay}_h{heads}_d{dim}": module(heads, dim, decay)
            for heads in sorted({case[0] for case in CASES}) for dim in DIMS for decay in DECAYS}  # fmt: skip


def make_inputs(torch, batch, length, heads, dim, decay):
    """Queries, keys, values and, with a decay, log-decays, positions before heads."""
    def normal(*shape):
        return torch.randn(*shape, device=harness.DEVICE)

    inputs = [normal(batch, length, heads, dim).to(torch.bfloat16) for _ in range(3)]
    inputs[1] = torch.nn.functional.normalize(inputs[1].float(), dim=-1).to(torch.bfloat16)
    if decay != "plain":
        shape = (heads,) if decay == "head" else (batch, length, heads)
        inputs.append(torch.nn.functional.logsigmoid(normal(*shape) + 4))
    return inputs


def check(torch, inputs, out, count=16):
    """Relative error of some rows of the output against float64."""
    q, k, v, *decays = inputs
    batch, length, heads, dim = q.shape
    generator = torch.Generator().manual_seed(0)
    expected, actual = [], []
    for number in range(count):
        b, h, i = (torch.randint(limit, (1,), generator=generator).item() for limit in (batch, heads, length))
        i = (0, length - 1, i)[min(number, 2)]
        scores = k[b, : i + 1, h].double() @ q[b, i, h].double() / math.sqrt(dim)
        if decays:
            decay = decays[0].double()
            sums = (decay[h] * torch.arange(1, i + 2, device=q.device) if decay.dim() == 1
                    else decay[b, : i + 1, h].cumsum(0))  # fmt: skip
            scores = scores * (sums[-1] - sums).exp()
        expected.append(scores @ v[b, : i + 1, h].double())
        actual.append(out[b, i, h].double())
    expected, actual = torch.stack(expected), torch.stack(actual)
    error = ((actual - expected).norm() / expected.norm()).item()
    return math.inf if math.isnan(error) or bool(out.isnan().any()) else error


def prepare_fla(inputs, decay):
    """A call of fla-core, or None where it is missing."""
    try:
        from fla.ops.linear_attn import chunk_linear_attn
        from fla.ops.simple_gla import chunk_simple_gla
    except ImportError as error:
        print(f"peer fla is left out: {error}", file=sys.stderr)
        return None
    q, k, v, *decays = inputs
    if decay == "plain":
        return lambda: chunk_linear_attn(q, k, v, normalize=False)
    name = "g_gamma" if decay == "head" else "g"
    return lambda: chunk_simple_gla(q, k, v, **{name: decays[0]})


def make_parser():
    return harness.make_parser(__doc__, "rounds", "repeats", "peers", "only", "lengths", "target", rounds=3, repeats=9)


def measure(torch, options, artifacts, name, inputs, decay):
    """Milliseconds of Attn and of fla-core, and the error of Attn."""
    q, k, v, *decays = inputs
    out = torch.full_like(v, float("nan"))
    own = [tensor.transpose(1, 2) for tensor in (q, k, v)]
    own += [tensor if tensor.dim() == 1 else tensor.transpose(1, 2).contiguous() for tensor in decays]
    function = artifacts.load(name)["linear_attention"]
    runs = {"attn": function.bind(*own, out.transpose(1, 2), stream=harness.get_stream(torch))}
    runs["attn"]()
    harness.synchronize(torch)
    error = check(torch, inputs, out)
    peer = prepare_fla(inputs, decay) if options.peers != "none" else None
    if peer:
        try:
            peer()
            runs["fla"] = peer
        except Exception as problem:  # Peers are not ours: whatever is wrong with one is reported.
            print(f"peer fla failed: {(str(problem).splitlines() or [type(problem).__name__])[0]}", file=sys.stderr)
    return harness.time_in_turn(torch, runs, options.repeats, options.rounds, harness.median), error


def main():
    options = make_parser().parse_args()
    if options.compile:
        harness.compile_modules(options, make_modules())
        return 0

    import torch

    torch.manual_seed(0)
    rows, artifacts = harness.Rows(options, harness.describe_device(torch), suite="linear"), harness.Artifacts(options)
    ratios, lengths = [], harness.split_list(options.lengths)
    for heads, batch, length in CASES:
        if lengths and str(length) not in lengths:
            continue
        for dim in DIMS:
            for decay in DECAYS:
                name = f"{decay}_h{heads}_d{dim}"
                if options.only not in name:
                    continue
                inputs = make_inputs(torch, batch, length, heads, dim, decay)
                times, error = measure(torch, options, artifacts, name, inputs, decay)
                if not error <= MAX_ERROR:
                    sys.exit(f"error: {name} of {batch} x {length} tokens has an error of {error:.2e}")
                # Queries, keys, values and outputs are read or written once.
                gigabytes = 4 * 2 * batch * length * heads * dim / 1e9
                line = f"{name:14s} {batch:3d} x {length:6d}"
                for op, ms in times.items():
                    own = {"error": error} if op == "attn" else {}
                    rate = gigabytes / ms * 1e3
                    rows.add(artifacts.commit_of(name), op=op, mode="fwd", B=batch, H=heads, S=length, D=dim,
                             decay=decay, ms=ms, gbytes=rate, **own)
                    line += f"  {op} {ms:8.4f} ms {rate:7.0f} GB/s"
                if "fla" in times:
                    ratios.append(times["fla"] / times["attn"])
                    line += f"  {ratios[-1]:.2f}x"
                print(line + f"  error {error:.1e}", flush=True)
    if ratios:
        harness.print_means({"fla": ratios})
    return 0


if __name__ == "__main__":
    sys.exit(main())
