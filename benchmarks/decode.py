#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times decoding, one query for each head, beside its peers and appends rows to a results file.

    python3 benchmarks/decode.py --compile BUILD/bin/attn-compile --artifacts DIR
    python3 benchmarks/decode.py --artifacts DIR [--out FILE]

The first form compiles the artifacts and needs no GPU; the second runs them beside cuDNN and FlashAttention-2 (through
torch) in one process and needs no compiler. Each case is first checked: the whole output, which is filled with NaN before,
and its log-sum-exp, against float64. The measure is what keys and values hold, in TB/s. Times are medians of CUDA events
behind a sleep kernel; kernels are timed in turn, and the median over the rounds counts.
"""

import argparse
import datetime
import json
import math
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from forward import median_ms  # noqa: E402

# Batch, query heads, key heads, keys, head dimension.
CASES = ((1, 32, 8, 65536, 128), (16, 32, 8, 8192, 128), (64, 32, 8, 4096, 128))
ROUNDS = 5


def get_name(case):
    B, H, Hkv, S, D = case
    return f"decode_b{B}_h{H}_{Hkv}_s{S}_d{D}"


def make_module(case, schedule):
    """Query, key and value in; output and log-sum-exp back."""
    B, H, Hkv, S, D = case
    q, k, lse = f"tensor<{B}x{H}x1x{D}xbf16>", f"tensor<{B}x{Hkv}x{S}x{D}xbf16>", f"tensor<{B}x{H}x1xf32>"
    given = f"schedule({schedule}) " if schedule else ""
    return f"""func.func @decode(%query: {q}, %key: {k}, %value: {k}) -> ({q}, {lse}) {{
  %out = tensor.empty() : {q}
  %lse = tensor.empty() : {lse}
  %r:2 = attn.attention ins(%query, %key, %value : {q}, {k}, {k})
      outs(%out, %lse : {q}, {lse}) {given}-> {q}, {lse}
  return %r#0, %r#1 : {q}, {lse}
}}
"""


def compile_artifacts(options):
    os.makedirs(options.artifacts, exist_ok=True)
    for case in CASES:
        for name, schedule in [("", ""), *(entry.split("=", 1) for entry in options.schedule)]:
            path = os.path.join(options.artifacts, get_name(case) + (f".{name}" if name else ""))
            with open(path + ".mlir", "w") as file:
                file.write(make_module(case, schedule))
            command = [options.compile, path + ".mlir", "-o", path + ".so", f"--target={options.target}", "--fail-on-spills"]
            subprocess.run(command, check=True)


def get_errors(torch, q, k, v, out, lse):
    """Relative error of the output, and largest error of the log-sum-exp, against float64."""
    error, lse_error = 0.0, 0.0
    group = q.shape[1] // k.shape[1]
    for b in range(q.shape[0]):
        queries = q[b, :, 0].double().unflatten(0, (k.shape[1], group))
        scores = torch.einsum("hgd,hsd->hgs", queries, k[b].double()) / math.sqrt(q.shape[3])
        expected = torch.einsum("hgs,hsd->hgd", scores.softmax(-1), v[b].double()).flatten(0, 1)
        error = max(error, ((out[b, :, 0].double() - expected).norm() / expected.norm()).item())
        lse_error = max(lse_error, (lse[b, :, 0].double() - scores.logsumexp(-1).flatten()).abs().max().item())
    return (math.inf if math.isnan(error) else error), (math.inf if math.isnan(lse_error) else lse_error)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", required=True, help="directory of compiled artifacts")
    parser.add_argument("--compile", metavar="ATTN_COMPILE", help="compile the artifacts with this compiler and stop")
    parser.add_argument(
        "--schedule", action="append", default=[], metavar="NAME=SCHEDULE", help="compile and time this schedule as well"
    )
    parser.add_argument("--record", action="store_true", help="record times of these as well")
    parser.add_argument("--target", default="sm_90a", help="what to compile for")
    parser.add_argument("--runtime", default="libattn_runtime.so", help="the runtime library")
    parser.add_argument("--out", help="file to append rows to")
    parser.add_argument("--commit", default="", help="commit that the artifacts were built from")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    if options.compile:
        compile_artifacts(options)
        return 0

    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from attn.artifact import Artifact

    backends = {"cudnn": SDPBackend.CUDNN_ATTENTION, "fa2": SDPBackend.FLASH_ATTENTION}
    stamp = dict(
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        device=torch.cuda.get_device_name(0),
        commit=options.commit,
    )
    torch.manual_seed(0)
    schedules = dict(entry.split("=", 1) for entry in options.schedule)
    failures = 0
    for case in CASES:
        B, H, Hkv, S, D = case
        q = torch.randn(B, H, 1, D, device="cuda", dtype=torch.bfloat16)
        k, v = (torch.randn(B, Hkv, S, D, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        out, lse = torch.empty_like(q), torch.empty(B, H, 1, device="cuda")
        stream = torch.cuda.current_stream().cuda_stream
        runs, errors = {}, {}
        for name in ["", *schedules]:
            path = os.path.abspath(os.path.join(options.artifacts, get_name(case) + (f".{name}" if name else "") + ".so"))
            if not os.path.exists(path):
                continue
            run = Artifact(path, options.runtime)["decode"].bind(q, k, v, out, lse, stream=stream)
            out.fill_(math.nan)
            lse.fill_(math.nan)
            run()
            torch.cuda.synchronize()
            runs[name or "attn"] = run
            errors[name or "attn"] = get_errors(torch, q, k, v, out, lse)

        def make_peer(backend):
            def run_peer():
                with torch.no_grad(), sdpa_kernel(backend):
                    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

            return run_peer

        runs.update({name: make_peer(backend) for name, backend in backends.items()})
        times = {name: [] for name in runs}
        for _ in range(ROUNDS):
            for name, run in runs.items():
                times[name].append(median_ms(torch, run, options.repeats, sleep=4_000_000))
        ms = {name: statistics.median(values) for name, values in times.items()}
        print(get_name(case))
        for name, value in ms.items():
            rate = 4.0 * k.numel() / value / 1e9
            row = dict(op=name, mode="decode", B=B, H=H, Hkv=Hkv, S=S, D=D, causal=False, p=0.0, mask="full", ms=value, tbytes_per_s=rate)
            row.update(stamp)
            # Rows with a schedule are not of what users get by default.
            if name in schedules or options.target != "sm_90a":
                row.update(target=options.target, schedule=schedules.get(name, ""))
            text = f"  {name:24s} {value * 1e3:7.1f} us  {rate:.2f} TB/s  {ms['cudnn'] / value:.3f}x cudnn"
            if name in errors:
                error, lse_error = errors[name]
                good = error < 6e-3 and lse_error < 2e-3
                failures += not good
                row.update(error=error, lse_error=lse_error)
                text += f"  error {error:.1e} lse {lse_error:.1e}{'' if good else '  WRONG'}"
            print(text, flush=True)
            if options.out and (options.record or name == "attn" or name in backends):
                with open(options.out, "a") as file:
                    file.write(json.dumps(row) + "\n")
        del q, k, v, out, lse, runs
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
