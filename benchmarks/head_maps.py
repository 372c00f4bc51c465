#!/usr/bin/env python3
# ===- head_maps.py - Maps of heads and their check, timed on a GPU ------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Times attention with a map of heads, which is read and checked on the device, and with equal groups of heads.

    head_maps.py --compile build/bin/attn-compile --artifacts DIR
    head_maps.py --artifacts DIR --runtime libattn_runtime.so --out benchmarks/results/masks.jsonl

The map gives each key/value head as many query heads as the equal groups, so that the work is the same. To time
attention without the check, attn-opt from the compiler's folder writes the tiled program, from which the check is
removed.
"""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402

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


def cut_check(compiler, text):
    """The tiled program of a module without the check, by the attn-opt in the compiler's folder."""
    pipeline = ("--attn-schedule-pipeline=target=sm_90a", "--attn-bufferization-pipeline", "--attn-tiling-pipeline")
    tool = os.path.join(os.path.dirname(compiler), "attn-opt")
    text = subprocess.run([tool, "-", *pipeline], input=text, check=True, stdout=subprocess.PIPE, text=True).stdout
    text, count = CHECK.subn("", text)
    if count == 0:
        sys.exit("error: the tiled program has no check of the map of heads")
    return text


def make_modules(compiler):
    """Modules by the name of the artifact."""
    modules = {f"{form}_{mask}": module(form, mask) for form in FORMS for mask in MASKS}
    return {name: cut_check(compiler, text) if name.startswith("unchecked") else text for name, text in modules.items()}


def make_parser():
    return harness.make_parser(__doc__, "rounds", rounds=7)


def measure(torch, options, artifacts, mask, length):
    """Milliseconds of each form, and whether all give the same results."""
    def make(heads):
        return torch.randn(1, heads, length, DIM, device=harness.DEVICE, dtype=torch.bfloat16)

    q, k, v = make(HEADS), make(KV_HEADS), make(KV_HEADS)
    equal = torch.arange(HEADS, device=harness.DEVICE, dtype=torch.int32) // (HEADS // KV_HEADS)
    outs, runs = {}, {}
    for form in FORMS:
        outs[form] = torch.full_like(q, float("nan"))
        maps = [] if form == "groups" else [equal]
        function = artifacts.load(f"{form}_{mask}")["run"]
        runs[form] = function.bind(q, k, v, *maps, outs[form], stream=harness.get_stream(torch))
    times = harness.time_in_turn(torch, runs, 9, options.rounds, harness.median)
    return times, all(torch.equal(out, outs["map"]) for out in outs.values())


def main():
    options = make_parser().parse_args()
    if options.compile:
        harness.compile_modules(options, make_modules(options.compile))
        return 0

    import torch

    torch.manual_seed(0)
    rows, artifacts = harness.Rows(options, harness.describe_device(torch)), harness.Artifacts(options)
    for mask in MASKS:
        for length in LENGTHS:
            times, is_same = measure(torch, options, artifacts, mask, length)
            if not is_same:
                sys.exit(f"error: results differ ({mask}, {length})")
            for form, op in FORMS.items():
                share = (length + 1) / (2 * length) if mask == "causal" else 1
                ms = times[form]
                tflops = share * 4 * HEADS * DIM * length**2 / ms / 1e9
                print(f"{mask:7s} {length:6d} {form:9s} {ms:8.4f} ms {tflops:6.1f} TFLOP/s", flush=True)
                rows.add(artifacts.commit_of(f"{form}_{mask}"), op=op, mode="fwd", B=1, H=HEADS, Hkv=KV_HEADS, S=length,
                         D=DIM, causal=mask == "causal", p=0.0, mask=f"head_map_{mask}", ms=ms, tflops=tflops)
    return 0


if __name__ == "__main__":
    sys.exit(main())
