#!/usr/bin/env python3
# ===- head_maps.py - Maps of heads and their check, timed on a GPU ------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Times attention with a map of heads, which is read and checked on the device, beside equal groups of heads.

    head_maps.py --compile build/bin/attn-compile --artifacts DIR
    head_maps.py --artifacts DIR --runtime libattn_runtime.so --out benchmarks/results/masks.jsonl --commit ID

The map gives each key head as many query heads as it has without one, so that the work is the same.
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

HEADS, KV_HEADS, DIM = 64, 8, 128
LENGTHS = (1024, 2048, 4096, 16384)
MASKS = {"full": "", "causal": "mask(#attn.causal)"}
# Operations of the rows: with a map, and without.
FORMS = {"map": "attn", "groups": "attn_groups"}


def module(form, mask):
    q, k = (f"tensor<1x{h}x?x{DIM}xbf16>" for h in (HEADS, KV_HEADS))
    argument, heads = "", ""
    if form == "map":
        argument = f", %map: tensor<{HEADS}xi32>"
        heads = f"heads(%map : tensor<{HEADS}xi32>)"
    return f"""func.func @run(%q: {q}, %k: {k}, %v: {k}{argument}, %o: {q}) -> {q} {{
  %r = attn.attention ins(%q, %k, %v : {q}, {k}, {k}) outs(%o : {q}) {heads} {MASKS[mask]} -> {q}
  return %r : {q}
}}
"""


def compile_artifacts(compiler, directory):
    os.makedirs(directory, exist_ok=True)
    for form in FORMS:
        for mask in MASKS:
            path = os.path.join(directory, f"{form}_{mask}")
            with open(path + ".mlir", "w") as file:
                file.write(module(form, mask))
            subprocess.run([compiler, path + ".mlir", "-o", path + ".so", "--target=sm_90a"], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", required=True, help="directory of compiled artifacts")
    parser.add_argument("--compile", metavar="ATTN_COMPILE", help="compile the artifacts with this compiler and stop")
    parser.add_argument("--runtime", default="libattn_runtime.so", help="the runtime library")
    parser.add_argument("--out", help="file to append rows to")
    parser.add_argument("--commit", default="", help="commit that the artifacts were built from")
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each function, in turn")
    options = parser.parse_args()
    if options.compile:
        compile_artifacts(options.compile, options.artifacts)
        return 0

    import torch

    from attn.artifact import Artifact

    stamp = dict(date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
                 device=torch.cuda.get_device_name(0), commit=options.commit)
    stream = torch.cuda.current_stream().cuda_stream
    equal = torch.arange(HEADS, device="cuda", dtype=torch.int32) // (HEADS // KV_HEADS)
    for mask in MASKS:
        functions = {form: Artifact(os.path.join(options.artifacts, f"{form}_{mask}.so"), options.runtime)["run"]
                     for form in FORMS}
        for length in LENGTHS:
            q, k, v = (torch.randn(1, heads, length, DIM, device="cuda", dtype=torch.bfloat16)
                       for heads in (HEADS, KV_HEADS, KV_HEADS))
            outs = {form: torch.full_like(q, float("nan")) for form in FORMS}
            calls = {"map": functions["map"].bind(q, k, v, equal, outs["map"], stream=stream),
                     "groups": functions["groups"].bind(q, k, v, outs["groups"], stream=stream)}
            times = {form: [] for form in FORMS}
            for _ in range(options.rounds):
                for form, call in calls.items():
                    times[form].append(median_ms(torch, call, 9))
            if not torch.equal(*outs.values()):
                sys.exit(f"head_maps.py: error: results differ ({mask}, {length})")
            for form, op in FORMS.items():
                ms = sorted(times[form])[options.rounds // 2]
                share = (length + 1) / (2 * length) if mask == "causal" else 1
                tflops = share * 4 * HEADS * DIM * length**2 / ms / 1e9
                print(f"{mask:7s} {length:6d} {form:7s} {ms:8.4f} ms {tflops:6.1f} TFLOP/s", flush=True)
                if options.out:
                    row = dict(op=op, mode="fwd", B=1, H=HEADS, Hkv=KV_HEADS, S=length, D=DIM, causal=mask == "causal",
                               p=0.0, mask=f"head_map_{mask}", ms=ms, tflops=tflops, **stamp)
                    with open(options.out, "a") as file:
                        file.write(json.dumps(row) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
