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

The map gives each key head as many query heads as it has without one, so that the work is the same. To see what the
check alone costs, it is cut out of the program of tiles in between, with the attn-opt beside the compiler.
"""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from forward import median_ms  # noqa: E402

HEADS, KV_HEADS, DIM = 64, 8, 128
LENGTHS = (1024, 2048, 4096, 16384)
MASKS = {"full": "", "causal": "mask(#attn.causal)"}
# Operations of the rows: with a map, with one that is not checked, and without.
FORMS = {"map": "attn", "unchecked": "attn_unchecked", "groups": "attn_groups"}
CHECK = re.compile(r" *scf\.if %\d+ {\n *memref\.store %c\d+_i32, [^\n]* : memref<1xi32>\n *}\n")


def module(form, mask):
    q, k = (f"tensor<1x{h}x?x{DIM}xbf16>" for h in (HEADS, KV_HEADS))
    argument, heads = "", ""
    if form != "groups":
        argument = f", %map: tensor<{HEADS}xi32>"
        heads = f"heads(%map : tensor<{HEADS}xi32>)"
    return f"""func.func @run(%q: {q}, %k: {k}, %v: {k}{argument}, %o: {q}) -> {q} {{
  %r = attn.attention ins(%q, %k, %v : {q}, {k}, {k}) outs(%o : {q}) {heads} {MASKS[mask]} -> {q}
  return %r : {q}
}}
"""


def cut_check(compiler, path):
    """Replaces the module at ``path`` by its tiled program without the check."""
    pipeline = ("--attn-schedule-pipeline=target=sm_90a", "--attn-bufferization-pipeline", "--attn-tiling-pipeline")
    tool = os.path.join(os.path.dirname(compiler), "attn-opt")
    text = subprocess.run([tool, path, *pipeline], check=True, stdout=subprocess.PIPE, text=True).stdout
    text, count = CHECK.subn("", text)
    if count == 0:
        sys.exit(f"head_maps.py: error: {path} has no check")
    with open(path, "w") as file:
        file.write(text)


def compile_artifacts(compiler, directory):
    os.makedirs(directory, exist_ok=True)
    for form in FORMS:
        for mask in MASKS:
            path = os.path.join(directory, f"{form}_{mask}")
            with open(path + ".mlir", "w") as file:
                file.write(module(form, mask))
            if form == "unchecked":
                cut_check(compiler, path + ".mlir")
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
            calls = {form: function.bind(q, k, v, *([] if form == "groups" else [equal]), outs[form], stream=stream)
                     for form, function in functions.items()}
            times = {form: [] for form in FORMS}
            for _ in range(options.rounds):
                for form, call in calls.items():
                    times[form].append(median_ms(torch, call, 9))
            if any(not torch.equal(out, outs["map"]) for out in outs.values()):
                sys.exit(f"head_maps.py: error: results differ ({mask}, {length})")
            for form, op in FORMS.items():
                ms = sorted(times[form])[options.rounds // 2]
                share = (length + 1) / (2 * length) if mask == "causal" else 1
                tflops = share * 4 * HEADS * DIM * length**2 / ms / 1e9
                print(f"{mask:7s} {length:6d} {form:9s} {ms:8.4f} ms {tflops:6.1f} TFLOP/s", flush=True)
                if options.out:
                    row = dict(op=op, mode="fwd", B=1, H=HEADS, Hkv=KV_HEADS, S=length, D=DIM, causal=mask == "causal",
                               p=0.0, mask=f"head_map_{mask}", ms=ms, tflops=tflops, **stamp)
                    with open(options.out, "a") as file:
                        file.write(json.dumps(row) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
