#!/usr/bin/env python3
# ===- gemm.py - Matrix products, timed on a GPU -------------------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Times matrix products beside those of cuBLAS, through torch.

    gemm.py --compile build/bin/attn-compile --artifacts DIR
    gemm.py --artifacts DIR --runtime libattn_runtime.so --out benchmarks/results/gemm.jsonl --commit ID

The operands are those of a linear layer, [M, K] and [N, K], or with form nn [M, K] and [K, N]. Products of both sides
are timed in turn, several launches at a time, so that both have the clock rate of a device at its limit of power.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

SHAPES = ((8192, 6144, 4096), (8192, 12288, 4096), (8192, 8192, 8192), (4096, 4096, 4096), (2048, 6144, 4096),
          (16384, 4096, 14336))
FORMS = ("nt", "nn")
# Largest element of a difference from the product in f32, over the root of the mean square.
MAX_ERROR = 0.05


def module(form, bias, schedule, shape=None):
    """A product with dynamic sizes, or of one shape."""
    y = "tensor<?xf32>"
    m, n, k = shape or "???"
    lhs, x = f"tensor<{m}x{k}xbf16>", f"tensor<{m}x{n}xbf16>"
    rhs = f"tensor<{n}x{k}xbf16>" if form == "nt" else f"tensor<{k}x{n}xbf16>"
    transpose = "transpose_rhs" if form == "nt" else ""
    given = f"schedule({schedule})" if schedule else ""
    epilogue = """epilogue {
    ^bb0(%s: f32, %b: index, %i: index, %j: index):
      %x = tensor.extract %bias[%j] : tensor<?xf32>
      %t = arith.addf %s, %x : f32
      attn.yield %t : f32
  }""" if bias else ""
    argument = f"%bias: {y}, " if bias else ""
    return f"""func.func @run(%lhs: {lhs}, %rhs: {rhs}, {argument}%out: {x}) -> {x} {{
  %r = attn.matmul ins(%lhs, %rhs : {lhs}, {rhs}) outs(%out : {x}) {transpose} {given} {epilogue} -> {x}
  return %r : {x}
}}
"""


def compile_artifacts(options):
    os.makedirs(options.artifacts, exist_ok=True)
    schedules = dict(entry.split("=", 1) for entry in options.schedule)
    for form in FORMS:
        kinds = [("", False, ""), ("_bias", True, "")]
        kinds += [(f"_{name}", False, schedule) for name, schedule in schedules.items()]
        for suffix, bias, schedule in kinds:
            path = os.path.join(options.artifacts, form + suffix)
            with open(path + ".mlir", "w") as file:
                file.write(module(form, bias, schedule))
            subprocess.run([options.compile, path + ".mlir", "-o", path + ".so", "--target=sm_90a",
                            "--fail-on-spills"], check=True)


def measure(torch, functions, rounds, launches):
    """Median milliseconds of a launch of each function, all timed in turn."""
    times = {name: [] for name in functions}
    for round_number in range(rounds + 1):
        for name, function in functions.items():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(1_000_000)
            begin.record()
            for _ in range(launches):
                function()
            end.record()
            end.synchronize()
            if round_number:
                times[name].append(begin.elapsed_time(end) / launches)
    return {name: sorted(values)[len(values) // 2] for name, values in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", required=True, help="directory of compiled artifacts")
    parser.add_argument("--compile", metavar="ATTN_COMPILE", help="compile the artifacts with this compiler and stop")
    parser.add_argument("--schedule", action="append", default=[], metavar="NAME=ATTR",
                        help="also compile a product without bias with this schedule")
    parser.add_argument("--only", default="", help="names of what to time, of those compiled (all)")
    parser.add_argument("--shapes", default="", help="MxNxK of the products to time (all)")
    parser.add_argument("--runtime", default="libattn_runtime.so", help="the runtime library")
    parser.add_argument("--out", help="file to append rows to")
    parser.add_argument("--commit", default="", help="commit that the artifacts were built from")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--launches", type=int, default=4)
    options = parser.parse_args()
    if options.compile:
        compile_artifacts(options)
        return 0

    import torch

    from attn.artifact import Artifact

    stamp = dict(date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
                 device=torch.cuda.get_device_name(0), commit=options.commit)
    stream = torch.cuda.current_stream().cuda_stream
    names = sorted(file[:-3] for file in os.listdir(options.artifacts) if file.endswith(".so"))
    names = [name for name in names if not options.only or name in options.only.split(",")]
    shapes = [tuple(map(int, s.split("x"))) for s in options.shapes.split(",")] if options.shapes else SHAPES
    loaded = {name: Artifact(os.path.join(options.artifacts, name + ".so"), options.runtime)["run"] for name in names}
    wrong = 0
    for m, n, k in shapes:
        for form in FORMS:
            lhs = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
            rhs = torch.randn(*((n, k) if form == "nt" else (k, n)), device="cuda", dtype=torch.bfloat16)
            bias = torch.randn(n, device="cuda")
            peer = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
            matrix = rhs.t() if form == "nt" else rhs
            functions = {"cublas": lambda: torch.matmul(lhs, matrix, out=peer)}
            outs = {}
            for name, function in loaded.items():
                if not name.startswith(form):
                    continue
                outs[name] = torch.zeros_like(peer)
                extra = [bias] if name.endswith("_bias") else []
                functions[name] = function.bind(lhs, rhs, *extra, outs[name], stream=stream)
            if not outs:
                continue
            times = measure(torch, functions, options.rounds, options.launches)
            for name, ms in times.items():
                row = dict(op="cublas" if name == "cublas" else "attn", M=m, N=n, K=k, form=form,
                           epilogue="bias" if name.endswith("_bias") else "none", ms=ms,
                           tflops=2.0 * m * n * k / ms / 1e9, **stamp)
                text = f"{m}x{n}x{k} {name:16s}{ms:8.4f} ms {row['tflops']:6.1f} TFLOP/s"
                if name != "cublas":
                    expected = peer.float() + bias if name.endswith("_bias") else peer.float()
                    error = ((outs[name].float() - expected).abs().max() / expected.square().mean().sqrt()).item()
                    row["error"] = error
                    wrong += not error <= MAX_ERROR
                    text += f"  {times['cublas'] / ms:.3f} of cuBLAS  error {error:.4f}"
                    text += "" if error <= MAX_ERROR else "  WRONG"
                print(text, flush=True)
                if options.out:
                    with open(options.out, "a") as file:
                        file.write(json.dumps(row) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
