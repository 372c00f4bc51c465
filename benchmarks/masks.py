#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times attention under masks and FlexAttention, and appends rows to a results file.

    python3 benchmarks/masks.py --compile BUILD/bin/attn-compile --artifacts DIR [--backward]
    python3 benchmarks/masks.py --artifacts DIR [--backward] [--only NAMES] [--out FILE]

Batch 1, 64 query and 8 key heads, head dimension 128, 16384 tokens, bf16. FLOPs: 4*H*D*area with the exact number of
attended pairs, 10*H*D*area backward. Each case is first checked: some rows of the results, which are filled with NaN
before, against float64. FlexAttention gets a block mask that is made beforehand and is not timed.
"""

import os
import sys
from types import SimpleNamespace

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402
from cases import BLOCK, Case  # noqa: E402

HEADS, KV_HEADS, LENGTH, DIM = 64, 8, 16384, 128
WINDOW, GLOBAL = 1024, 256
# The name of the function of a gradient.
GRADIENT = "gradient"
# Lengths of documents, in 64ths of all tokens.
DOCUMENTS = (2, 9, 1, 6, 14, 3, 7, 5, 8, 4, 2, 3)

# Name to attribute, mask_mod region, and predicate on torch tensors of positions and on tensors of a value for each
# token.
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
    """The tensors that the masks of documents read."""
    lengths = torch.tensor([number * LENGTH // 64 for number in DOCUMENTS], device=harness.DEVICE)
    number = torch.arange(len(DOCUMENTS), device=harness.DEVICE)

    def repeat(values):
        return torch.repeat_interleave(values, lengths).to(torch.int32)

    doc, start, size = repeat(number), repeat(lengths.cumsum(0) - lengths), repeat(lengths)
    part = ((torch.arange(LENGTH, device=harness.DEVICE, dtype=torch.int32) - start) * 4 // size).clamp(max=3)
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
    keys = torch.arange(LENGTH, device=harness.DEVICE)[None, :]
    rows = torch.arange(LENGTH, device=harness.DEVICE)[:, None].split(1024)
    return sum(int(keep(row, keys).sum()) for row in rows)


def make_parser():
    parser = harness.make_parser(__doc__, "compile-options", "variants", "peers", "repeats")
    parser.add_argument("--backward", action="store_true", help="gradients, of which forward attention is no part")
    parser.add_argument("--only", default=",".join(MASKS), help="names of masks: " + ",".join(MASKS))
    return parser


def make_modules(names, backward):
    """Modules by the name of the artifact; modules of gradients have attention, too."""
    if not backward:
        return {name: get_case(name).mlir() for name in names}
    return {f"{name}_grad": get_case(name).mlir() + get_case(name).grad_mlir(name=GRADIENT) for name in names}


class Runner:
    """Inputs that all masks share, and the calls and checks for one of them."""

    def __init__(self, torch, options):
        self.torch, self.options = torch, options
        self.suffix = "_grad" if options.backward else ""
        self.q, self.dout, self.out, self.k, self.v = (
            torch.randn(1, heads, LENGTH, DIM, device=harness.DEVICE, dtype=torch.bfloat16)
            for heads in (HEADS, HEADS, HEADS, KV_HEADS, KV_HEADS))
        self.lse = torch.empty(1, HEADS, LENGTH, device=harness.DEVICE)
        self.tokens = make_tokens(torch)
        self.artifacts = {"attn": harness.Artifacts(options)}
        for folder in harness.split_list(options.variants):
            self.artifacts[os.path.basename(folder.rstrip("/"))] = harness.Artifacts(options, folder)
        self.peers = harness.select_peers(options.peers, ("flex", "flex_flash"))
        self.rows = harness.Rows(options, harness.describe_device(torch))

    def run(self, artifacts, name, problem):
        """A call of one artifact, and the errors of its results."""
        case, stream = get_case(name), harness.get_stream(self.torch)
        captures = [getattr(self.tokens, capture) for capture in case.captures]
        inputs = problem.q, problem.k, problem.v
        grads = [self.torch.full_like(x, float("nan")) for x in inputs]
        self.out.fill_(float("nan"))
        self.lse.fill_(float("nan"))
        functions = artifacts.load(name + self.suffix)
        run = functions[case.name].bind(*inputs, *captures, self.out, self.lse, stream=stream)
        run()
        if self.options.backward:
            run = functions[GRADIENT].bind(*inputs, self.out, self.lse, self.dout, *captures, *grads, stream=stream)
            run()
        harness.synchronize(self.torch)
        if self.options.backward:
            return run, {"error": harness.check_backward(problem, self.dout, self.lse, self.out, grads)}
        return run, dict(zip(("error", "lse_error"), harness.check_forward(problem, self.out, self.lse)))

    def measure(self, name):
        """Checks and times one mask, and prints a line; whether results are right."""
        keep, backward = get_predicate(name, self.tokens), self.options.backward
        problem = harness.Problem(self.q, self.k, self.v, mask_mod=keep)
        runs, errors = {}, {}
        for op, artifacts in self.artifacts.items():
            runs[op], found = self.run(artifacts, name, problem)
            errors = {key: max(errors.get(key, 0.0), value) for key, value in found.items()}
        limit = harness.MAX_GRAD_ERROR if backward else harness.MAX_ERROR
        is_right = errors["error"] < limit and errors.get("lse_error", 0.0) < harness.MAX_LSE_ERROR
        runs.update(harness.prepare_peers(self.peers, problem, self.dout if backward else None))
        times = harness.time_in_turn(self.torch, runs, self.options.repeats)
        variants = {op: times.pop(op) for op in list(self.artifacts)[1:]}
        pairs = count_pairs(self.torch, keep)
        flops = (10.0 if backward else 4.0) * HEADS * DIM * pairs
        area = pairs / LENGTH**2
        _, text = harness.compare_times(
            self.rows, self.artifacts["attn"].commit_of(name + self.suffix), times, flops, errors,
            mode="bwd" if backward else "fwd", B=1, H=HEADS, Hkv=KV_HEADS, S=LENGTH, D=DIM, p=0.0, mask=name,
            causal="causal" in name, area=area)
        text += "".join(f"  {op} {ms:.4f} ms" for op, ms in variants.items())
        print(f"{name:24s} area {area:.4f} {text}{'' if is_right else '  WRONG'}", flush=True)
        return is_right


def main():
    options = make_parser().parse_args()
    names = harness.split_list(options.only)
    unknown = [name for name in names if name not in MASKS]
    if unknown:
        sys.exit(f"error: unknown mask '{unknown[0]}' (expected some of {', '.join(MASKS)})")
    if options.compile:
        harness.compile_modules(options, make_modules(names, options.backward))
        return 0

    import torch

    torch.manual_seed(0)
    runner = Runner(torch, options)
    results = [runner.measure(name) for name in names]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
