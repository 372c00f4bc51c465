#!/usr/bin/env python3
# ===- sequences.py - Attention on packed sequences, timed on a GPU ------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Times packed sequences, and equal ones also as a batch.

    sequences.py --compile build/bin/attn-compile --artifacts DIR
    sequences.py --artifacts DIR --runtime libattn_runtime.so --out benchmarks/results/masks.jsonl --commit ID

The tensors are [tokens, heads, channels]. Operations are counted for the attended pairs alone; the kernels that plan
the sequences are part of the time. With `--mode bwd` these are gradients, for which the output and its log-sum-exp are
given.
"""

import argparse
import datetime
import json
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from forward import median_ms  # noqa: E402

SHAPES = ((64, 8, 128), (16, 16, 128), (32, 32, 64))
MASKS = {"full": "", "causal": "mask(#attn.causal)"}
TOKENS = 16384


def mixed(tokens, count):
    """Random lengths with that sum."""
    cuts = sorted(random.Random(1).sample(range(1, tokens), count - 1))
    return [end - begin for begin, end in zip([0] + cuts, cuts + [tokens])]


LENGTHS = {f"{TOKENS // s}x{s}": [s] * (TOKENS // s) for s in (128, 1024, 2048, 4096, 16384)}
LENGTHS.update({f"mixed{n}": mixed(TOKENS, n) for n in (8, 64)})
LENGTHS["mixed_long"] = [16384, 8192, 4096, 2048, 1024] + [128] * 8


def parts(form, heads, kv_heads, dim):
    """Types of queries, keys and the log-sum-exp; the argument and the clause of packed sequences."""
    batch = "1" if form == "packed" else "?"
    q, k = (f"tensor<{batch}x{h}x?x{dim}xbf16>" for h in (heads, kv_heads))
    lse = f"tensor<{batch}x{heads}x?xf32>"
    arguments, sequences = "", ""
    if form == "packed":
        arguments = ", %cu: tensor<?xi32>"
        sequences = "sequences packed(%cu, %cu : tensor<?xi32>, tensor<?xi32>)"
    return q, k, lse, arguments, sequences


def module(form, heads, kv_heads, dim, mask):
    q, k, lse, arguments, sequences = parts(form, heads, kv_heads, dim)
    return f"""func.func @run(%q: {q}, %k: {k}, %v: {k}{arguments}, %o: {q}, %l: {lse}) -> ({q}, {lse}) {{
  %r:2 = attn.attention ins(%q, %k, %v : {q}, {k}, {k}) outs(%o, %l : {q}, {lse})
      {sequences} {MASKS[mask]} -> {q}, {lse}
  return %r#0, %r#1 : {q}, {lse}
}}
"""


def grad_module(form, heads, kv_heads, dim, mask):
    q, k, lse, arguments, sequences = parts(form, heads, kv_heads, dim)
    return f"""func.func @run(%q: {q}, %k: {k}, %v: {k}, %o: {q}, %l: {lse}, %do: {q}{arguments},
    %dq: {q}, %dk: {k}, %dv: {k}) -> ({q}, {k}, {k}) {{
  %r:3 = attn.attention_grad ins(%q, %k, %v, %o, %l, %do : {q}, {k}, {k}, {q}, {lse}, {q})
      outs(%dq, %dk, %dv : {q}, {k}, {k}) {sequences} {MASKS[mask]} -> {q}, {k}, {k}
  return %r#0, %r#1, %r#2 : {q}, {k}, {k}
}}
"""


def name_of(form, shape, mask, mode="fwd"):
    return f"{'grad_' if mode == 'bwd' else ''}{form}_h{shape[0]}_{shape[1]}_d{shape[2]}_{mask}"


def compile_artifacts(compiler, directory, mode):
    os.makedirs(directory, exist_ok=True)
    # Gradients need the output, which attention itself gives.
    makers = [(module, "fwd", "batch")]
    if mode == "bwd":
        makers = [(grad_module, "bwd", form) for form in ("batch", "packed")]
    makers.append((module, "fwd", "packed"))
    for shape in SHAPES:
        for mask in MASKS:
            for make, kind, form in makers:
                path = os.path.join(directory, name_of(form, shape, mask, kind))
                with open(path + ".mlir", "w") as file:
                    file.write(make(form, *shape, mask))
                subprocess.run([compiler, path + ".mlir", "-o", path + ".so", "--target=sm_90a"], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", required=True, help="directory of compiled artifacts")
    parser.add_argument("--compile", metavar="ATTN_COMPILE", help="compile the artifacts with this compiler and stop")
    parser.add_argument("--runtime", default="libattn_runtime.so", help="the runtime library")
    parser.add_argument("--out", help="file to append rows to")
    parser.add_argument("--commit", default="", help="commit that the artifacts were built from")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--mode", choices=("fwd", "bwd"), default="fwd", help="what is timed")
    parser.add_argument("--only", default="", help="only lengths whose name contains this")
    options = parser.parse_args()
    if options.compile:
        compile_artifacts(options.compile, options.artifacts, options.mode)
        return 0

    import torch

    from attn.artifact import Artifact

    stamp = dict(date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
                 device=torch.cuda.get_device_name(0), commit=options.commit)
    stream = torch.cuda.current_stream().cuda_stream
    different = 0
    for shape in SHAPES:
        heads, kv_heads, dim = shape
        for mask in MASKS:
            def load(form, mode):
                path = os.path.join(options.artifacts, name_of(form, shape, mask, mode) + ".so")
                return Artifact(path, options.runtime)["run"]

            forward = load("packed", "fwd")
            functions = {form: forward if (form, options.mode) == ("packed", "fwd") else load(form, options.mode)
                         for form in ("batch", "packed")}
            for name, lengths in LENGTHS.items():
                if options.only not in name:
                    continue
                tokens, longest = sum(lengths), max(lengths)
                q, k, v, dout = (torch.randn(tokens, h, dim, device="cuda", dtype=torch.bfloat16)
                                 for h in (heads, kv_heads, kv_heads, heads))
                bounds = torch.tensor([0] + lengths, device="cuda").cumsum(0).int()

                def view(x, count):
                    return x.view(count, tokens // count, *x.shape[1:]).transpose(1, 2)

                given, given_lse = torch.empty_like(q), torch.empty(1, heads, tokens, device="cuda")
                forward.bind(*(view(x, 1) for x in (q, k, v)), bounds, view(given, 1), given_lse, stream=stream)()
                runs, outs = {}, {}
                for form, function in functions.items():
                    if form == "batch" and len(set(lengths)) > 1:
                        continue
                    count = 1 if form == "packed" else len(lengths)
                    own = [bounds] if form == "packed" else []
                    inputs = [view(x, count) for x in (q, k, v)]
                    if options.mode == "bwd":
                        lse = given_lse.view(heads, count, tokens // count).transpose(0, 1).contiguous()
                        inputs += [view(given, count), lse, view(dout, count)]
                        outs[form] = [torch.empty_like(x) for x in (q, k, v)]
                        results = [view(x, count) for x in outs[form]]
                    else:
                        outs[form] = [torch.empty_like(q)]
                        lse = torch.empty(count, heads, tokens // count, device="cuda")
                        results = [view(outs[form][0], count), lse]
                    runs[form] = function.bind(*inputs, *own, *results, stream=stream)
                times = {}
                for _ in range(2):
                    for form, run in runs.items():
                        times[form] = min(times.get(form, float("inf")), median_ms(torch, run, options.repeats))
                area = sum(n * n for n in lengths) * (0.5 if mask == "causal" else 1.0)
                products = 5 if options.mode == "bwd" else 2
                rows = [dict(op="attn" if form == "packed" else "attn_batch", mode=options.mode, B=len(lengths),
                             H=heads, Hkv=kv_heads, S=longest, D=dim, causal=mask == "causal", p=0.0,
                             mask=f"packed_{name}_{mask}", ms=ms,
                             tflops=products * 2.0 * heads * dim * area / ms / 1e9, **stamp)
                        for form, ms in times.items()]
                text = "  ".join(f"{row['op']} {row['tflops']:6.1f}" for row in rows)
                if len(rows) == 2:
                    # The schedules, and with them the order of sums, may differ.
                    good = all(((x.float() - y.float()).norm() / x.float().norm()).item() < 6e-3
                               for x, y in zip(outs["batch"], outs["packed"]))
                    different += not good
                    text += f"  packed/batch {times['batch'] / times['packed']:.3f}{'' if good else '  DIFFERENT'}"
                print(f"h{heads}_{kv_heads} d{dim} {mask:7s}{name:12s}{text}", flush=True)
                if options.out:
                    with open(options.out, "a") as file:
                        file.writelines(json.dumps(row) + "\n" for row in rows)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
