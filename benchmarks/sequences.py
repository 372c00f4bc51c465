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
    sequences.py --artifacts DIR --runtime libattn_runtime.so --out benchmarks/results/masks.jsonl

The tensors are [tokens, heads, head dim]. Operations are counted for the attended pairs alone. The kernels that
schedule the sequences are part of the time. With `--mode bwd` gradients are timed, for which the output and its
log-sum-exp are given.
"""

import itertools
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402

SHAPES = ((64, 8, 128), (16, 16, 128), (32, 32, 64))
MASKS = {"full": "", "causal": "mask(#attn.causal)"}
TOKENS = 16384
# Matmuls for each pair.
MATMULS = {"fwd": 2, "bwd": 5}


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


def make_modules(mode):
    """Modules by the name of the artifact. Gradients need the output, which packed attention gives."""
    makers = [(module, "fwd", "batch"), (module, "fwd", "packed")]
    if mode == "bwd":
        makers = [(grad_module, "bwd", "batch"), (grad_module, "bwd", "packed"), (module, "fwd", "packed")]
    return {name_of(form, shape, mask, kind): make(form, *shape, mask)
            for shape in SHAPES for mask in MASKS for make, kind, form in makers}


def make_parser():
    parser = harness.make_parser(__doc__, "repeats", "only", repeats=9)
    parser.add_argument("--mode", choices=("fwd", "bwd"), default="fwd", help="what is timed")
    return parser


def view(x, count):
    """A tensor of `count` sequences of equal lengths, [count, heads, positions, head dim], of packed tokens."""
    return x.view(count, len(x) // count, *x.shape[1:]).transpose(1, 2)


class Inputs:
    """Packed tokens, and the output of attention for its gradient."""

    def __init__(self, torch, options, artifacts, shape, mask, lengths):
        heads, kv_heads, dim = shape
        tokens = sum(lengths)

        def make(count):
            return torch.randn(tokens, count, dim, device=harness.DEVICE, dtype=torch.bfloat16)

        self.torch, self.shape, self.lengths, self.is_backward = torch, shape, lengths, options.mode == "bwd"
        self.q, self.k, self.v, self.dout = make(heads), make(kv_heads), make(kv_heads), make(heads)
        self.bounds = torch.tensor([0] + lengths, device=harness.DEVICE).cumsum(0).int()
        self.out = torch.empty_like(self.q)
        self.lse = torch.empty(1, heads, tokens, device=harness.DEVICE)
        inputs = (view(x, 1) for x in (self.q, self.k, self.v))
        forward = artifacts.load(name_of("packed", shape, mask))["run"]
        forward.bind(*inputs, self.bounds, view(self.out, 1), self.lse, stream=harness.get_stream(torch))()

    def bind(self, form, function):
        """A call of a function, and its results as packed tokens."""
        count = 1 if form == "packed" else len(self.lengths)
        heads, length = self.shape[0], len(self.q) // count
        arguments = [view(x, count) for x in (self.q, self.k, self.v)]
        own = [self.bounds] if form == "packed" else []
        if self.is_backward:
            lse = self.lse.view(heads, count, length).transpose(0, 1).contiguous()
            outs = [self.torch.empty_like(x) for x in (self.q, self.k, self.v)]
            arguments += [view(self.out, count), lse, view(self.dout, count), *own, *(view(x, count) for x in outs)]
        else:
            outs = [self.torch.empty_like(self.q)]
            lse = self.torch.empty(count, heads, length, device=harness.DEVICE)
            arguments += [*own, view(outs[0], count), lse]
        return function.bind(*arguments, stream=harness.get_stream(self.torch)), outs


def measure(torch, options, artifacts, shape, mask, lengths):
    """Milliseconds of each form, and whether their results are the same, if there are two."""
    inputs = Inputs(torch, options, artifacts, shape, mask, lengths)
    forms = ("batch", "packed") if len(set(lengths)) == 1 else ("packed",)
    runs, outs = {}, {}
    for form in forms:
        function = artifacts.load(name_of(form, shape, mask, options.mode))["run"]
        runs[form], outs[form] = inputs.bind(form, function)
    times = harness.time_in_turn(torch, runs, options.repeats)
    # The schedules, and with them the order of additions, may differ.
    is_same = all(((x.float() - y.float()).norm() / x.float().norm()).item() < harness.MAX_ERROR
                  for x, y in zip(outs[forms[0]], outs["packed"]))
    return times, is_same


def main():
    options = make_parser().parse_args()
    if options.compile:
        harness.compile_modules(options, make_modules(options.mode))
        return 0

    import torch

    torch.manual_seed(0)
    rows, artifacts = harness.Rows(options, harness.describe_device(torch)), harness.Artifacts(options)
    chosen = {name: lengths for name, lengths in LENGTHS.items() if options.only in name}
    different = 0
    for shape, mask, (name, lengths) in itertools.product(SHAPES, MASKS, chosen.items()):
        heads, kv_heads, dim = shape
        times, is_same = measure(torch, options, artifacts, shape, mask, lengths)
        different += not is_same
        area = sum(n * n for n in lengths) * (0.5 if mask == "causal" else 1.0)
        text = f"h{heads}_{kv_heads} d{dim} {mask:7s}{name:12s}"
        for form, ms in times.items():
            row = rows.add(artifacts.commit_of(name_of(form, shape, mask, options.mode)),
                           op="attn" if form == "packed" else "attn_batch", mode=options.mode, B=len(lengths), H=heads,
                           Hkv=kv_heads, S=max(lengths), D=dim, causal=mask == "causal", p=0.0,
                           mask=f"packed_{name}_{mask}", ms=ms,
                           tflops=MATMULS[options.mode] * 2.0 * heads * dim * area / ms / 1e9)
            text += f"{row['op']} {row['tflops']:6.1f}  "
        if len(times) == 2:
            text += f"packed/batch {times['batch'] / times['packed']:.3f}{'' if is_same else '  DIFFERENT'}"
        print(text, flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
