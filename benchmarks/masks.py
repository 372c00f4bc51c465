#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times attention under masks beside FlexAttention and appends rows to a results file.

    python3 benchmarks/masks.py --compile BUILD/bin/attn-compile --artifacts DIR [--backward]
    python3 benchmarks/masks.py --artifacts DIR [--backward] [--only NAMES] [--out FILE]

Batch 1, 64 query and 8 key heads of 128 channels, 16384 tokens, bf16. FLOPs: 4*H*D*area with the exact number of attended
pairs, 10*H*D*area backward. Each case is first checked: some rows of the results, which are filled with NaN before, against
float64. FlexAttention gets its block mask ready made; the time of making it is not counted.
"""

import argparse
import datetime
import json
import math
import os
import sys
from types import SimpleNamespace

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import backward  # noqa: E402
from cases import BLOCK, Case  # noqa: E402
from forward import compile_modules, median_ms  # noqa: E402

HEADS, KV_HEADS, LENGTH, DIM = 64, 8, 16384, 128
WINDOW, GLOBAL = 1024, 256
# The name of the function of a gradient.
GRADIENT = "gradient"
# Lengths of documents, in 64ths of all tokens.
DOCUMENTS = (2, 9, 1, 6, 14, 3, 7, 5, 8, 4, 2, 3)

# Name to attribute, keep region, and predicate on torch tensors of positions and on tensors of a value for each token.
MASKS = {
    "full": ("", "", None),
    "causal": ("#attn.causal", "", lambda q, k, t: q >= k),
    "sliding_window": (
        f"#attn.sliding_window<left = {WINDOW}, right = {WINDOW}>",
        "",
        lambda q, k, t: (q - k <= WINDOW) & (k - q <= WINDOW),
    ),
    "sliding_window_causal": (
        f"#attn.sliding_window<left = {WINDOW}, right = 0>",
        "",
        lambda q, k, t: (q >= k) & (q - k <= WINDOW),
    ),
    "prefix_lm_causal": (
        f"#attn.prefix_lm<length = {LENGTH // 4}>",
        "",
        lambda q, k, t: (q >= k) | (k < LENGTH // 4),
    ),
    "global_sliding_window": (
        f"#attn.or<#attn.global_tokens<count = {GLOBAL}>, #attn.sliding_window<left = {WINDOW}, right = {WINDOW}>>",
        "",
        lambda q, k, t: (q < GLOBAL) | (k < GLOBAL) | ((q - k <= WINDOW) & (k - q <= WINDOW)),
    ),
    "block_causal": (
        f"#attn.local_blocks<size = {BLOCK}, after = 0>",
        "",
        lambda q, k, t: q // BLOCK >= k // BLOCK,
    ),
    "chunked_causal": (
        f"#attn.and<#attn.causal, #attn.local_blocks<size = {BLOCK}, before = 0, after = 0>>",
        "",
        lambda q, k, t: (q >= k) & (q // BLOCK == k // BLOCK),
    ),
    "full_document": ("", "document", lambda q, k, t: t.doc[q] == t.doc[k]),
    "causal_document": ("#attn.causal", "document", lambda q, k, t: (t.doc[q] == t.doc[k]) & (q >= k)),
    "share_question": (
        "#attn.causal",
        "share_question",
        lambda q, k, t: (t.doc[q] == t.doc[k]) & (q >= k) & ((t.part[k] == 0) | (t.part[q] == t.part[k])),
    ),
    "causal_blockwise": (
        "#attn.causal",
        "blockwise",
        lambda q, k, t: (q >= k) & ((t.doc[q] == t.doc[k]) | (t.doc[q] == len(DOCUMENTS) - 1)),
    ),
    "prefix_lm_document": (
        "",
        "prefix_document",
        lambda q, k, t: (t.doc[q] == t.doc[k]) & ((q >= k) | (t.part[k] == 0)),
    ),
    "block_causal_document": (
        "",
        "block_document",
        lambda q, k, t: (t.doc[q] == t.doc[k]) & ((q - t.start[q]) // BLOCK >= (k - t.start[k]) // BLOCK),
    ),
}


def get_case(name):
    return Case(HEADS, KV_HEADS, DIM, DIM, mask=MASKS[name][0], keep=MASKS[name][1])


def make_tokens(torch):
    """What the masks of documents read."""
    lengths = torch.tensor([number * LENGTH // 64 for number in DOCUMENTS], device="cuda")
    number = torch.arange(len(DOCUMENTS), device="cuda")

    def repeat(values):
        return torch.repeat_interleave(values, lengths).to(torch.int32)

    doc, start, size = repeat(number), repeat(lengths.cumsum(0) - lengths), repeat(lengths)
    part = ((torch.arange(LENGTH, device="cuda", dtype=torch.int32) - start) * 4 // size).clamp(max=3)
    return SimpleNamespace(doc=doc, start=start, part=part)


def make_numpy_tokens():
    """The same as NumPy arrays."""
    import numpy as np

    lengths = np.array([number * LENGTH // 64 for number in DOCUMENTS])

    def repeat(values):
        return np.repeat(values, lengths).astype(np.int32)

    doc, start, size = repeat(np.arange(len(DOCUMENTS))), repeat(lengths.cumsum() - lengths), repeat(lengths)
    part = ((np.arange(LENGTH, dtype=np.int32) - start) * 4 // size).clip(max=3)
    return SimpleNamespace(doc=doc, start=start, part=part)


def get_predicate(name, tokens):
    """The predicate on positions."""
    keep = MASKS[name][2]
    return keep and (lambda q, k: keep(q, k, tokens))


def count_pairs(torch, keep):
    """Number of attended pairs."""
    if keep is None:
        return LENGTH * LENGTH
    keys = torch.arange(LENGTH, device="cuda")[None, :]
    rows = (torch.arange(low, low + 1024, device="cuda")[:, None] for low in range(0, LENGTH, 1024))
    return sum(int(keep(row, keys).sum()) for row in rows)


def check_rows(torch, keep, q, k, v, out, lse, count=64):
    """Relative error of some rows of the output, and largest error of their log-sum-exp, against float64."""
    generator = torch.Generator().manual_seed(0)
    h = torch.randint(HEADS, (count,), generator=generator)
    i = torch.randint(LENGTH, (count,), generator=generator)
    i[0], i[1] = 0, LENGTH - 1
    h, i = h.to(q.device), i.to(q.device)
    group = HEADS // KV_HEADS
    qr, kr, vr = q[0, h, i].double(), k[0, h // group].double(), v[0, h // group].double()
    scores = torch.einsum("nd,nsd->ns", qr, kr) / math.sqrt(DIM)
    if keep is not None:
        scores.masked_fill_(~keep(i[:, None], torch.arange(LENGTH, device=q.device)[None, :]), float("-inf"))
    expected = torch.einsum("ns,nsd->nd", scores.softmax(-1), vr)
    error = ((out[0, h, i].double() - expected).norm() / expected.norm()).item()
    lse_error = (lse[0, h, i].double() - scores.logsumexp(-1)).abs().max().item()
    if math.isnan(error) or out.isnan().any().item():
        error = float("inf")
    return error, lse_error


def make_flex(torch, keep, q, k, v, dout=None):
    """A call of FlexAttention, or with `dout` of its gradient."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._dynamo.reset()
    compiled = torch.compile(flex_attention, dynamic=False)
    block_mask = None
    if keep is not None:
        predicate = lambda b, h, i, j: keep(i, j)  # noqa: E731
        block_mask = create_block_mask(predicate, None, None, LENGTH, LENGTH, device="cuda")
    if dout is None:
        return lambda: compiled(q, k, v, block_mask=block_mask, enable_gqa=True)
    inputs = [x.detach().clone().requires_grad_(True) for x in (q, k, v)]
    result = compiled(*inputs, block_mask=block_mask, enable_gqa=True)
    return lambda: torch.autograd.grad(result, inputs, dout, retain_graph=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", required=True, help="directory of compiled artifacts")
    parser.add_argument("--compile", metavar="ATTN_COMPILE", help="compile the artifacts with this compiler and stop")
    parser.add_argument("--compile-options", default="", help="further options for the compiler")
    parser.add_argument("--backward", action="store_true", help="gradients, of which forward attention is no part")
    parser.add_argument(
        "--variants", default="", help="directories of further artifacts to time beside the first, joined by commas; not recorded"
    )
    parser.add_argument("--only", default=",".join(MASKS), help="names of masks: " + ",".join(MASKS))
    parser.add_argument("--peers", default="flex", help="flex or empty")
    parser.add_argument("--runtime", default="libattn_runtime.so", help="the runtime library")
    parser.add_argument("--out", help="file to append rows to")
    parser.add_argument("--commit", default="", help="commit that the artifacts were built from")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    names = options.only.split(",")
    if options.compile:
        modules = {name: get_case(name).mlir() for name in names}
        if options.backward:
            modules = {f"{name}_grad": text + get_case(name).grad_mlir(name=GRADIENT) for name, text in modules.items()}
        compile_modules(options.compile, options.artifacts, modules, options.compile_options.split())
        return 0

    import torch

    from attn.artifact import Artifact

    stamp = dict(
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        device=torch.cuda.get_device_name(0),
        commit=options.commit,
    )
    torch.manual_seed(0)
    q, dout = (torch.randn(1, HEADS, LENGTH, DIM, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    k, v = (torch.randn(1, KV_HEADS, LENGTH, DIM, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    tokens = make_tokens(torch)
    failures = 0
    for name in names:
        case, keep = get_case(name), get_predicate(name, tokens)
        captures = [getattr(tokens, capture) for capture in case.captures]
        out, lse = torch.empty_like(q), torch.empty(1, HEADS, LENGTH, device="cuda")
        grads = [torch.empty_like(x) for x in (q, k, v)]
        stream = torch.cuda.current_stream().cuda_stream
        runs, errors = {}, {}
        for directory in [options.artifacts, *filter(None, options.variants.split(","))]:
            suffix = "_grad" if options.backward else ""
            artifact = Artifact(os.path.join(directory, f"{name}{suffix}.so"), options.runtime)
            op = "attn" if directory == options.artifacts else os.path.basename(directory.rstrip("/"))
            for result in (out, lse, *grads):
                result.fill_(float("nan"))
            runs[op] = artifact[case.name].bind(q, k, v, *captures, out, lse, stream=stream)
            runs[op]()
            if options.backward:
                runs[op] = artifact[GRADIENT].bind(q, k, v, out, lse, dout, *captures, *grads, stream=stream)
                runs[op]()
            torch.cuda.synchronize()
            if options.backward:
                found = {"error": backward.check_rows(torch, case, q, k, v, dout, lse, out, grads, keep=keep)}
            else:
                found = dict(zip(("error", "lse_error"), check_rows(torch, keep, q, k, v, out, lse)))
            errors = {key: max(errors.get(key, 0.0), value) for key, value in found.items()}
        good = errors["error"] < (1e-2 if options.backward else 6e-3) and errors.get("lse_error", 0.0) < 2e-3
        failures += not good
        if options.peers:
            runs["flex"] = make_flex(torch, keep, q, k, v, dout if options.backward else None)
        times = {}
        for _ in range(2):
            for op, fn in runs.items():
                times[op] = min(times.get(op, math.inf), median_ms(torch, fn, options.repeats))
        pairs = count_pairs(torch, keep)
        flops = (10.0 if options.backward else 4.0) * HEADS * DIM * pairs
        shape = dict(mode="bwd" if options.backward else "fwd", B=1, H=HEADS, Hkv=KV_HEADS, S=LENGTH, D=DIM, p=0.0, mask=name)
        shape.update(causal="causal" in name, area=pairs / LENGTH**2)
        rows = [dict(op=op, **shape, ms=ms, tflops=flops / ms / 1e9, **stamp) for op, ms in times.items()]
        rows[0].update(errors)
        text = f"{name:24s} area {shape['area']:.4f} " + "".join(f" {r['op']} {r['tflops']:6.1f} TF {r['ms']:.3f} ms " for r in rows)
        text += "".join(f" {key} {value:.1e}" for key, value in errors.items())
        if len(rows) > 1:
            text += f"  {rows[1]['ms'] / rows[0]['ms']:.2f}x"
        print(f"{text}{'' if good else '  WRONG'}", flush=True)
        if options.out:
            with open(options.out, "a") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows if row["op"] in ("attn", "flex"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
