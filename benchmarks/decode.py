#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times decoding, few queries for each head, and its peers, and appends rows to a results file.

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
import typing

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402



class Case(typing.NamedTuple):
    """Sizes, and whether each query head has a sink (f32, the last input)."""

    batch: int
    heads: int
    kv_heads: int
    keys: int
    dim: int
    queries: int = 1
    sinks: bool = False


CASES = (
    Case(1, 32, 8, 65536, 128), Case(16, 32, 8, 8192, 128), Case(64, 32, 8, 4096, 128),
    Case(1, 32, 8, 65536, 128, queries=4), Case(1, 32, 8, 65536, 128, queries=16),
    Case(16, 32, 8, 8192, 128, queries=4), Case(64, 32, 8, 4096, 128, queries=4),
    Case(1, 32, 8, 65536, 128, sinks=True), Case(16, 32, 8, 8192, 128, sinks=True),
    Case(32, 64, 1, 32768, 256),
)
ROUNDS = 5


def get_name(case):
    few = f"_q{case.queries}" if case.queries != 1 else ""
    return (f"decode_b{case.batch}_h{case.heads}_{case.kv_heads}_s{case.keys}_d{case.dim}{few}"
            f"{'_sinks' if case.sinks else ''}")


def make_module(case, schedule):
    """Query, key, value and perhaps sinks in; output and log-sum-exp back."""
    B, H, Hkv, S, D, Q, has_sinks = Case(*case)
    q, k, lse = f"tensor<{B}x{H}x{Q}x{D}xbf16>", f"tensor<{B}x{Hkv}x{S}x{D}xbf16>", f"tensor<{B}x{H}x{Q}xf32>"
    given = f"schedule({schedule}) " if schedule else ""
    argument = f", %sinks: tensor<{H}xf32>" if has_sinks else ""
    sinks = f"sinks(%sinks : tensor<{H}xf32>) " if has_sinks else ""
    return f"""func.func @decode(%query: {q}, %key: {k}, %value: {k}{argument}) -> ({q}, {lse}) {{
  %out = tensor.empty() : {q}
  %lse = tensor.empty() : {lse}
  %r:2 = attn.attention ins(%query, %key, %value : {q}, {k}, {k})
      outs(%out, %lse : {q}, {lse}) {sinks}{given}-> {q}, {lse}
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


def get_errors(torch, q, k, v, sinks, out, lse):
    """Relative error of the output, and largest error of the log-sum-exp, against float64."""
    if out.isnan().any().item() or lse.isnan().any().item():
        return math.inf, math.inf
    error, lse_error = 0.0, 0.0
    heads, queries, dim = q.shape[1:]
    for b in range(q.shape[0]):
        # One key head at a time: scores in float64 are large.
        for group in range(k.shape[1]):
            which = slice(group * heads // k.shape[1], (group + 1) * heads // k.shape[1])
            scores = q[b, which].double().flatten(0, 1) @ k[b, group].double().T / math.sqrt(dim)
            maximum = scores.max(-1, keepdim=True).values
            weights = (scores - maximum).exp()
            total = weights.sum(-1, keepdim=True)
            if sinks is not None:
                total = total + (sinks[which].double().repeat_interleave(queries)[:, None] - maximum).exp()
            expected = weights / total @ v[b, group].double()
            expected_lse = (total.log() + maximum).flatten()
            actual = out[b, which].double().flatten(0, 1)
            error = max(error, ((actual - expected).norm() / expected.norm()).item())
            lse_error = max(lse_error, (lse[b, which].double().flatten() - expected_lse).abs().max().item())
    return error, lse_error


def make_parser():
    parser = harness.make_parser(__doc__, "target", "peers", "repeats")
    parser.add_argument("--schedule", action="append", default=[], metavar="NAME=SCHEDULE",
                        help="compile and time this schedule as well")
    parser.add_argument("--record", action="store_true", help="record times of these as well")
    return parser


def measure(torch, options, schedules, artifacts, peers, case):
    """Milliseconds of the artifacts of a case and of the peers, and errors of the artifacts."""
    batch, heads, kv_heads, keys, dim, queries, has_sinks = case

    def make(heads, length):
        return torch.randn(batch, heads, length, dim, device=harness.DEVICE, dtype=torch.bfloat16)

    problem = harness.Problem(make(heads, queries), make(kv_heads, keys), make(kv_heads, keys))
    inputs = [problem.q, problem.k, problem.v]
    sinks = torch.randn(heads, device=harness.DEVICE) if has_sinks else None
    if has_sinks:
        inputs.append(sinks)
    out, lse = torch.empty_like(problem.q), torch.empty(batch, heads, queries, device=harness.DEVICE)
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
        errors[op] = get_errors(torch, problem.q, problem.k, problem.v, sinks, out, lse)
    # No peer has sinks.
    if not has_sinks:
        runs.update(harness.prepare_peers(peers, problem))
    times = harness.time_in_turn(torch, runs, options.repeats, ROUNDS, statistics.median, sleep=4_000_000)
    return times, errors


def main():
    options = make_parser().parse_args()
    schedules = read_schedules(options)
    if options.compile:
        modules = {get_artifact(case, op): make_module(case, schedule)
                   for case in (Case(*case) for case in CASES) for op, schedule in schedules.items()}
        harness.compile_modules(options, modules, *(["--fail-on-spills"] if options.target != "host" else []))
        return 0

    import torch

    torch.manual_seed(0)
    rows = harness.Rows(options, harness.describe_device(torch))
    artifacts, peers = harness.Artifacts(options), harness.select_peers(options.peers)
    failures = 0
    for case in (Case(*case) for case in CASES):
        batch, heads, kv_heads, keys, dim, queries, has_sinks = case
        times, errors = measure(torch, options, schedules, artifacts, peers, case)
        print(get_name(case))
        for op, ms in times.items():
            more = {}
            # Rows with a schedule are kept apart from rows of the default.
            if (op in schedules and op != "attn") or options.target != "sm_90a":
                more.update(target=options.target, schedule=schedules.get(op, ""))
            if op in errors:
                more.update(error=errors[op][0], lse_error=errors[op][1])
            # Rows of other cases are told apart by the kind of the mask.
            if queries != 1 or has_sinks:
                more.update(queries=queries, sinks=has_sinks)
            kind = " and ".join(["sinks"] * has_sinks + [f"{queries} queries"] * (queries != 1)) or "full"
            rate = 4.0 * batch * kv_heads * keys * dim / ms / 1e9
            if options.record or op == "attn" or op not in schedules:
                commit = artifacts.commit_of(get_artifact(case, op if op in schedules else "attn"))
                rows.add(commit, op=op, mode="decode", B=batch, H=heads, Hkv=kv_heads, S=keys, D=dim, causal=False,
                         p=0.0, mask=kind, ms=ms, tbytes_per_s=rate, **more)
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
