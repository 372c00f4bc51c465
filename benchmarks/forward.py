#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times forward attention and its peers, and appends rows to a results file.

    python3 benchmarks/forward.py --compile BUILD/bin/attn-compile --artifacts DIR
    python3 benchmarks/forward.py --artifacts DIR [--groups dense,gqa] [--out FILE]

The first form compiles the artifacts and needs no GPU; the second runs them and the installed peers in one process, and
needs no compiler. Each case is first checked: some rows of the output, which is filled with NaN before, against
float64. FLOPs: 4*B*H*D*area, area S*S or half of it when causal. Times are medians of CUDA events behind a sleep
kernel.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402
from cases import SCORES, Case, make_captures  # noqa: E402

LENGTHS = (1024, 2048, 4096, 8192, 16384)


def dense_cases():
    """(case, batch, length) of 16384 tokens and a hidden size of 2048."""
    for dim in (64, 128, 256):
        for mask in ("", "#attn.causal"):
            for length in LENGTHS:
                yield Case(2048 // dim, 2048 // dim, dim, dim, mask=mask), 16384 // length, length


def gqa_cases():
    yield Case(64, 8, 128, 128, mask="#attn.causal"), 1, 16384
    yield Case(32, 8, 128, 128, mask="#attn.causal"), 2, 8192


def mods_cases():
    """Each score_mod, and none."""
    for score in ("", *SCORES):
        yield Case(16, 16, 128, 128, score=score), 4, 4096


GROUPS = {"dense": dense_cases, "gqa": gqa_cases, "mods": mods_cases}


def select_cases(options):
    """Group, case, batch and length of the cases that the options name."""
    lengths = [int(length) for length in harness.split_list(options.lengths)]
    for group in harness.split_list(options.groups):
        if group not in GROUPS:
            sys.exit(f"error: unknown group '{group}' (expected some of {', '.join(GROUPS)})")
        for case, batch, length in GROUPS[group]():
            if options.only in case.name and (not lengths or length in lengths):
                yield group, case, batch, length


def make_parser():
    names = "compile-options", "variants", "only", "lengths", "peers", "repeats"
    parser = harness.make_parser(__doc__, *names)
    parser.add_argument("--groups", default="dense,gqa", help="groups of cases: " + ",".join(GROUPS))
    return parser


def make_problem(torch, case, batch, length):
    """Random inputs, and the tensors that the score_mod reads."""
    captures = make_captures(torch, case, batch, length)

    def make(heads):
        return torch.randn(batch, heads, length, case.qk_dim, device=harness.DEVICE, dtype=torch.bfloat16)

    problem = harness.Problem(make(case.heads), make(case.kv_heads), make(case.kv_heads), causal=bool(case.mask))
    if not case.score:
        return problem, captures
    score = SCORES[case.score]
    # Large tensors are left as they are.
    wide = {name: x.double() if x.is_floating_point() else x for name, x in captures.items() if x.numel() < 1 << 24}
    problem.score_mod = lambda s, b, h, i, j: score.apply(s, b, h, i, j, captures)
    problem.exact_score_mod = lambda s, b, h, i, j: score.apply(s, b, h, i, j, {**captures, **wide})
    if score.addend:
        problem.addend = score.addend(captures).expand(batch, case.heads, length, length)
    return problem, captures


def measure(torch, options, folders, peers, rows, group, case, batch, length):
    """Checks and times one case: rows, a line of text, and whether it is right."""
    problem, captures = make_problem(torch, case, batch, length)
    inputs = problem.q, problem.k, problem.v
    out, lse = torch.empty_like(problem.q), torch.empty(batch, case.heads, length, device=harness.DEVICE)
    runs, errors = {}, {"error": 0.0, "lse_error": 0.0}
    for op, artifacts in folders.items():
        if op != "attn" and case.name not in artifacts:
            continue
        out.fill_(float("nan"))
        lse.fill_(float("nan"))
        function = artifacts.load(case.name)[case.name]
        runs[op] = function.bind(*inputs, *captures.values(), out, lse, stream=harness.get_stream(torch))
        runs[op]()
        harness.synchronize(torch)
        for name, error in zip(errors, harness.check_forward(problem, out, lse)):
            errors[name] = max(errors[name], error)
    variants = list(runs)[1:]
    times = harness.time_in_turn(torch, {**runs, **harness.prepare_peers(peers, problem)}, options.repeats)
    # Variants are not recorded.
    others = "".join(f"  {op} {times.pop(op):.4f} ms" for op in variants)
    mask = f"mod:{case.score or 'none'}" if group == "mods" else "causal" if problem.causal else "full"
    flops = 4.0 * batch * case.heads * length * length * case.qk_dim * (0.5 if problem.causal else 1.0)
    made, text = harness.compare_times(
        rows, folders["attn"].commit_of(case.name), times, flops, errors, mode="fwd", B=batch, H=case.heads,
        Hkv=case.kv_heads, S=length, D=case.qk_dim, causal=problem.causal, p=0.0, mask=mask)
    is_right = errors["error"] < harness.MAX_ERROR and errors["lse_error"] < harness.MAX_LSE_ERROR
    return made, text + others, is_right


def main():
    options = make_parser().parse_args()
    cases = list(select_cases(options))
    if options.compile:
        harness.compile_modules(options, {case.name: case.mlir() for _, case, _, _ in cases})
        return 0

    import torch

    torch.manual_seed(0)
    rows, peers = harness.Rows(options, harness.describe_device(torch)), harness.select_peers(options.peers)
    folders = {"attn": harness.Artifacts(options)}
    for folder in harness.split_list(options.variants):
        folders[os.path.basename(folder.rstrip("/"))] = harness.Artifacts(options, folder)
    failures, ratios = 0, {}
    for group, case, batch, length in cases:
        made, text, is_right = measure(torch, options, folders, peers, rows, group, case, batch, length)
        failures += not is_right
        print(f"{case.name:32s} B{batch:<3d} S{length:<6d} {text}{'' if is_right else '  WRONG'}", flush=True)
        for row in made[1:] if group == "dense" else ():
            ratios.setdefault(row["op"], []).append(made[0]["tflops"] / row["tflops"])
    harness.print_means(ratios)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
