#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the time of a call from Python without the kernel.

    python_overhead.py [--device=cpu|cuda] [--inductor] [--out benchmarks/results/compiler.jsonl]

Tensors have one position, so that a call takes as long as its overhead. On a GPU
calls are only submitted, and the calls in CUDA graphs are computed. The host's thread pool is left out: with
ATTN_NUM_THREADS=1 its kernels run on the calling thread. With --inductor, functions that torch.compile has compiled
are measured, too.
"""

import argparse
import datetime
import os
import pathlib
import sys
import time
from functools import partial

os.environ.setdefault("ATTN_NUM_THREADS", "1")

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import attn.torch  # noqa: E402
import harness  # noqa: E402
import torch  # noqa: E402
from compiler import describe_machine  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402


LIMIT = 25e-6  # Seconds of a call without gradients, of which these say something else.
UNLIMITED = ("backward", "graph", "Inductor")
# Calls that are measured in CUDA graphs, too.
GRAPHS = ("`sdpa`", "`sdpa`, causal", "torch's own function")
# Functions that are measured with torch's compiler.
COMPILED = {"`sdpa`": attn.torch.sdpa, "torch's own": scaled_dot_product_attention}


def measure(call, device, repetitions=200):
    """Microseconds of a call."""
    if device == "cuda":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(repetitions):
        call()
    return (time.perf_counter() - begin) / repetitions * 1e6


def measure_in_turns(runs, rounds):
    """The best of several rounds of each measurement, since other programs use the machine, too. A round has all
    measurements, so that a machine that becomes slower makes none of them look worse than the others."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            best[name] = min(best[name], run())
    return best


def make_graph_measurement(call, calls=100):
    """A function that gives the microseconds that a call takes as one of many in a CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()

    def run():
        torch.cuda.synchronize()
        begin = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / calls * 1e6

    return run


def make_calls(device):
    """The calls to measure, by name."""
    dtype = torch.bfloat16
    q, k, v = (torch.randn(1, 2, 1, 64, dtype=dtype, device=device) for _ in range(3))
    leaf = q.clone().requires_grad_()
    mask = torch.ones(1, 1, 1, 8, dtype=torch.bool, device=device)[..., :1]
    slopes = torch.randn(2, device=device)

    def penalty(score, batch, head, query, key):
        return score - slopes[head] * (query - key)

    def causal(batch, head, query, key):
        return query >= key

    def both_ways(function, dropout=0.0):
        out = function(leaf, k, v, dropout_p=dropout)
        out.backward(out.detach())

    return {
        "`sdpa`": lambda: attn.torch.sdpa(q, k, v),
        "`sdpa`, causal": lambda: attn.torch.sdpa(q, k, v, is_causal=True),
        "`sdpa` with a mask": lambda: attn.torch.sdpa(q, k, v, attn_mask=mask),
        "`flex_attention` with a `score_mod`": lambda: attn.torch.flex_attention(q, k, v, penalty),
        "`flex_attention` with both functions": lambda: attn.torch.flex_attention(q, k, v, penalty, causal),
        "`sdpa` with dropout": lambda: attn.torch.sdpa(q, k, v, dropout_p=0.125),
        "`sdpa` that records gradients": lambda: attn.torch.sdpa(leaf, k, v),
        "`sdpa`, forward and backward": lambda: both_ways(attn.torch.sdpa),
        "`sdpa` with dropout, forward and backward": lambda: both_ways(attn.torch.sdpa, 0.125),
        "torch's own function": lambda: scaled_dot_product_attention(q, k, v),
        "torch's own with dropout": lambda: scaled_dot_product_attention(q, k, v, dropout_p=0.125),
        "torch's own that records gradients": lambda: scaled_dot_product_attention(leaf, k, v),
        "torch's own, forward and backward": lambda: both_ways(scaled_dot_product_attention),
        "torch's own with dropout, forward and backward": lambda: both_ways(scaled_dot_product_attention, 0.125),
    }


def make_compiled_calls(device):
    """Calls of functions that torch's compiler has compiled, by name: forward, and forward and backward."""
    q, k, v = (torch.randn(1, 2, 1, 64, dtype=torch.bfloat16, device=device) for _ in range(3))
    leaf = q.clone().requires_grad_()

    def both_ways(function):
        out = function(leaf, k, v)
        out.backward(out.detach())

    calls = {}
    for name, function in COMPILED.items():
        compiled = torch.compile(function, fullgraph=True, dynamic=False)
        calls[f"{name}, under Inductor"] = partial(compiled, q, k, v)
        calls[f"{name}, forward and backward under Inductor"] = partial(both_ways, compiled)
    for call in calls.values():
        call()
    return calls


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rounds", type=int, default=50, metavar="N", help="measurements of each call (default: 50)")
    parser.add_argument("--inductor", action="store_true", help="measure functions compiled by torch.compile, too")
    harness.add_row_options(parser)
    options = parser.parse_args(arguments)
    common = {"date": datetime.date.today().isoformat(), "commit": options.commit or harness.find_package_commit()}
    machine = describe_machine()
    if options.device == "cuda":
        machine = f"{torch.cuda.get_device_name()}, {machine}"
    calls = make_calls(options.device)
    if options.inductor:
        calls |= make_compiled_calls(options.device)
    runs = {name: partial(measure, call, options.device) for name, call in calls.items()}
    if options.device == "cuda":
        for name, call in make_calls(options.device).items():
            if name in GRAPHS:
                runs[f"{name}, in a CUDA graph"] = make_graph_measurement(call)
    for name, microseconds in measure_in_turns(runs, options.rounds).items():
        seconds = microseconds * 1e-6
        print(f"| {name} | {seconds * 1e6:.1f} us |", flush=True)
        # Torch's engine, which is not ours, runs gradients in a thread of its own.
        limit = LIMIT if name.startswith("`") and not any(word in name for word in UNLIMITED) else None
        row = {"what": f"call from Python on one position, {name}", "limit_s": limit, "wall_s": round(seconds, 9)}
        harness.append_row(options.out, row | {"machine": machine} | common, harness.read_history())


if __name__ == "__main__":
    main()
