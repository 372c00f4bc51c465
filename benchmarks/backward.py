#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of attention on a GPU, compared with its peers in the same run.

    python3 benchmarks/backward.py --compile BUILD/bin/attn-compile --artifacts DIR
    python3 benchmarks/backward.py --artifacts DIR [--out ROWS.jsonl] [--only NAME] [--lengths 1024,16384]

The first form compiles the artifacts and needs no GPU. The second one needs torch, but no compiler. Each case is
checked against float64 for a few rows of queries and of keys before it is timed. The output and its log-sum-exp are
inputs and are not timed. FLOPs: 10*B*H*D*area, area S*S or half of it when causal.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402
from forward import GROUPS, select_cases  # noqa: E402


def make_parser():
    names = "compile-options", "target", "only", "lengths", "peers", "repeats"
    parser = harness.make_parser(__doc__, *names, repeats=11)
    parser.add_argument("--deterministic", action="store_true",
                        help="deterministic gradients, in rows of a mode of their own")
    parser.add_argument("--groups", default="dense,gqa", help="groups of cases: " + ",".join(GROUPS))
    return parser


def make_problem(torch, case, batch, length, deterministic):
    """Random inputs, the gradient of the output, and the output and log-sum-exp of FlashAttention."""
    def make(heads):
        return torch.randn(batch, heads, length, case.qk_dim, device=harness.DEVICE, dtype=torch.bfloat16)

    q, dout, k, v = make(case.heads), make(case.heads), make(case.kv_heads), make(case.kv_heads)
    heads = (x.repeat_interleave(case.heads // case.kv_heads, 1) for x in (k, v))
    causal = bool(case.mask)
    name = "_scaled_dot_product_flash_attention" + ("_for_cpu" if harness.DEVICE == "cpu" else "")
    out, lse = getattr(torch.ops.aten, name)(q, *heads, 0.0, causal)[:2]
    return harness.Problem(q, k, v, causal=causal, deterministic=deterministic), dout, out, lse.contiguous()


def measure(torch, options, artifacts, peers, rows, case, batch, length):
    """Checks and times one case: rows, a line of text, and whether it is right."""
    problem, dout, out, lse = make_problem(torch, case, batch, length, options.deterministic)
    inputs = problem.q, problem.k, problem.v
    grads = [torch.full_like(x, float("nan")) for x in inputs]
    stream = harness.get_stream(torch)
    run = artifacts.load(case.name)[case.name].bind(*inputs, out, lse, dout, *grads, stream=stream)
    run()
    harness.synchronize(torch)
    error = harness.check_backward(problem, dout, lse, out, grads)
    runs = {"attn": run, **harness.prepare_peers(peers, problem, dout)}
    times = harness.time_in_turn(torch, runs, options.repeats, warmup=2)
    flops = 10.0 * batch * case.heads * length * length * case.qk_dim * (0.5 if problem.causal else 1.0)
    made, text = harness.compare_times(
        rows, artifacts.commit_of(case.name), times, flops, {"error": error},
        mode="bwd_deterministic" if options.deterministic else "bwd", B=batch, H=case.heads, Hkv=case.kv_heads,
        S=length, D=case.qk_dim, causal=problem.causal, p=0.0, mask="causal" if problem.causal else "full")
    return made, text, error < harness.MAX_GRAD_ERROR


def main():
    options = make_parser().parse_args()
    cases = list(select_cases(options))
    if options.compile:
        modules = {case.name: case.grad_mlir(options.deterministic) for _, case, _, _ in cases}
        harness.compile_modules(options, modules)
        return 0

    import torch

    torch.manual_seed(0)
    common = {} if options.target == "sm_90a" else {"target": options.target, "schedule": ""}
    rows = harness.Rows(options, harness.describe_device(torch), **common)
    artifacts, peers = harness.Artifacts(options), harness.select_peers(options.peers)
    failures, ratios = 0, {}
    for group, case, batch, length in cases:
        made, text, is_right = measure(torch, options, artifacts, peers, rows, case, batch, length)
        failures += not is_right
        print(f"{case.name:32s} B{batch:<3d} S{length:<6d} {text}{'' if is_right else '  WRONG'}", flush=True)
        for row in made[1:] if group == "dense" else ():
            ratios.setdefault(row["op"], []).append(made[0]["tflops"] / row["tflops"])
    harness.print_means(ratios)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
