#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times decoding, one query for each head, and its peers, and appends rows to a results file.

    python3 benchmarks/decode.py --compile BUILD/bin/attn-compile --artifacts DIR
    python3 benchmarks/decode.py --artifacts DIR [--out FILE]

The first form compiles the artifacts and needs no GPU; the second runs them and the installed peers in one process, and
needs no compiler. Each case is first checked: the whole output, which is filled with NaN before, and its log-sum-exp,
against float64. The measure is the size of keys and values over the time, in TB/s. Times are medians of CUDA events
behind a sleep kernel. Kernels are timed alternately, and the median over the rounds counts.
"""

import math
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402

# Batch, query heads, key/value heads, keys, head dim.
CASES = ((1, 32, 8, 65536, 128), (16, 32, 8, 8192, 128), (64, 32, 8, 4096, 128))
ROUNDS = 5


def get_name(case):
    B, H, Hkv, S, D = case
    return f"decode_b{B}_h{H}_{Hkv}_s{S}_d{D}"


def make_module(case, schedule):
    """Query, key and value in; output and log-sum-exp back."""
    B, H, Hkv, S, D = case
    q, k, lse = f"tensor<{B}x{H}x1x{D}xbf16>", f"tensor<{B}x{Hkv}x{S}x{D}xbf16>", f"tensor<{B}x{H}x1xf32>"
    given = f"schedule({schedule}) " if schedule else ""
    return f"""func.func @decode(%query: {q}, %key: {k}, %value: {k}) -> ({q}, {lse}) {{
  %out = tensor.empty() : {q}
  %lse = tensor.empty() : {lse}
  %r:2 = attn.attention ins(%query, %key, %value : {q}, {k}, {k})
      outs(%out, %lse : {q}, {lse}) {given}-> {q}, {lse}
  return %r#0, %r#1 : {q}, {lse}
}}
"""


def read_schedules(options):
    """Schedules by name: the one that the compiler chooses, named "attn", and the schedules of the options."""
    entries = [entry.split("=", 1) for entry in options.schedule]
    wrong = [entry[0] for entry in entries if len(entry) != 2 or entry[0] in ("", "attn")]
    if wrong:
        sys.exit(f"error: --schedule takes NAME=SCHEDULE with a name of its own (was '{wrong[0]}')")
    return {"attn": "", **dict(entries)}


def get_artifact(case, schedule):
    return get_name(case) + ("" if schedule == "attn" else f".{schedule}")


def get_errors(torch, q, k, v, out, lse):
    """Relative error of the output, and largest error of the log-sum-exp, against float64."""
    if out.isnan().any().item() or lse.isnan().any().item():
        return math.inf, math.inf
    error, lse_error = 0.0, 0.0
    group = q.shape[1] // k.shape[1]
    for b in range(q.shape[0]):
        queries = q[b, :, 0].double().unflatten(0, (k.shape[1], group))
        scores = torch.einsum("hgd,hsd->hgs", queries, k[b].double()) / math.sqrt(q.shape[3])
        expected = torch.einsum("hgs,hsd->hgd", scores.softmax(-1), v[b].double()).flatten(0, 1)
        error = max(error, ((out[b, :, 0].double() - expected).norm() / expected.norm()).item())
        lse_error = max(lse_error, (lse[b, :, 0].double() - scores.logsumexp(-1).flatten()).abs().max().item())
    return error, lse_error


def make_parser():
    parser = harness.make_parser(__doc__, "target", "peers", "repeats")
    parser.add_argument("--schedule", action="append", default=[], metavar="NAME=SCHEDULE",
                        help="compile and time this schedule as well")
    parser.add_argument("--record", action="store_true", help="record times of these as well")
    return parser


def measure(torch, options, schedules, artifacts, peers, case):
    """Milliseconds of the artifacts of a case and of the peers, and errors of the artifacts."""
    batch, heads, kv_heads, keys, dim = case

    def make(heads, length):
        return torch.randn(batch, heads, length, dim, device=harness.DEVICE, dtype=torch.bfloat16)

    problem = harness.Problem(make(heads, 1), make(kv_heads, keys), make(kv_heads, keys))
    inputs = problem.q, problem.k, problem.v
    out, lse = torch.empty_like(problem.q), torch.empty(batch, heads, 1, device=harness.DEVICE)
    runs, errors = {}, {}
    for op in schedules:
        name = get_artifact(case, op)
        if op != "attn" and name not in artifacts:
            continue
        runs[op] = artifacts.load(name)["decode"].bind(*inputs, out, lse, stream=harness.get_stream(torch))
        out.fill_(math.nan)
        lse.fill_(math.nan)
        runs[op]()
        harness.synchronize(torch)
        errors[op] = get_errors(torch, *inputs, out, lse)
    runs.update(harness.prepare_peers(peers, problem))
    times = harness.time_in_turn(torch, runs, options.repeats, ROUNDS, statistics.median, sleep=4_000_000)
    return times, errors


def main():
    options = make_parser().parse_args()
    schedules = read_schedules(options)
    if options.compile:
        modules = {get_artifact(case, op): make_module(case, schedule)
                   for case in CASES for op, schedule in schedules.items()}
        harness.compile_modules(options, modules, *(["--fail-on-spills"] if options.target != "host" else []))
        return 0

    import torch

    torch.manual_seed(0)
    rows = harness.Rows(options, harness.describe_device(torch))
    artifacts, peers = harness.Artifacts(options), harness.select_peers(options.peers)
    failures = 0
    for case in CASES:
        batch, heads, kv_heads, keys, dim = case
        times, errors = measure(torch, options, schedules, artifacts, peers, case)
        print(get_name(case))
        for op, ms in times.items():
            more = {}
            # Rows with a schedule are kept apart from rows of the default.
            if (op in schedules and op != "attn") or options.target != "sm_90a":
                more.update(target=options.target, schedule=schedules.get(op, ""))
            if op in errors:
                more.update(error=errors[op][0], lse_error=errors[op][1])
            rate = 4.0 * batch * kv_heads * keys * dim / ms / 1e9
            if options.record or op == "attn" or op not in schedules:
                commit = artifacts.commit_of(get_artifact(case, op if op in schedules else "attn"))
                rows.add(commit, op=op, mode="decode", B=batch, H=heads, Hkv=kv_heads, S=keys, D=dim, causal=False,
                         p=0.0, mask="full", ms=ms, tbytes_per_s=rate, **more)
            text = f"  {op:24s} {ms * 1e3:7.1f} us  {rate:.2f} TB/s  {ms / times['attn']:.3f}x the time of attn"
            if op in errors:
                error, lse_error = errors[op]
                is_right = error < harness.MAX_ERROR and lse_error < harness.MAX_LSE_ERROR
                failures += not is_right
                text += f"  error {error:.1e} lse {lse_error:.1e}{'' if is_right else '  WRONG'}"
            print(text, flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
