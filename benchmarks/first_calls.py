#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the first call of a kernel from Python: compiled, and from the cache.

    first_calls.py [--out benchmarks/results/compiler.jsonl]

It uses the package that Python finds, and a cache of its own. Each measurement is
made by a process of its own, which has imported the package; it includes loading
the compiler, or finding that it is not needed, and loading the artifact. From the
cache, the call is also measured as a further one, in a process that has called
another kernel before. The smallest of several counts. With a GPU that PyTorch
finds, first calls of `attn.torch.sdpa` are measured too, until their results are
there.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import harness  # noqa: E402
from compiler import describe_machine  # noqa: E402

GRADIENTS = (
    "attn-differentiate{function=attention arguments=0,1,2},"
    "symbol-privatize{exclude=attention_fwd,attention_bwd},symbol-dce"
)
DROPOUT = "#attn.dropout<p = 0.125, rng = #attn.arx<rounds = 6>>"
# Name, target, arguments of attn.Attention and passes.
CASES = (
    ("forward, D 64", "sm_90a", dict(query_heads=16, key_heads=16, query_dim=64), ""),
    ("forward, D 128", "sm_90a", dict(query_heads=32, key_heads=8, query_dim=128), ""),
    (
        "both directions, D 64, dropout",
        "sm_90a",
        dict(query_heads=16, key_heads=16, query_dim=64, dropout=DROPOUT),
        GRADIENTS,
    ),
    ("both directions, D 128", "sm_90a", dict(query_heads=32, key_heads=8, query_dim=128), GRADIENTS),
    ("forward, D 64", "host", dict(query_heads=16, key_heads=16, query_dim=64), ""),
    ("both directions, D 64", "host", dict(query_heads=16, key_heads=16, query_dim=64), GRADIENTS),
)
CALL = """
import json, sys, time, attn
target, arguments, passes = json.loads(sys.argv[1])
if sys.argv[2:]:
    attn.compile(attn.Attention("bf16", query_heads=2, key_heads=2, query_dim=32), target=target)
begin = time.perf_counter()
attn.compile(attn.Attention("bf16", mask="#attn.causal", **arguments), target=target, passes=passes)
print(time.perf_counter() - begin)
"""

# Arguments of torch's function, and whether gradients are computed.
TORCH_CASES = (
    ("forward, D 64", (16, 64), dict(is_causal=True), False),
    ("forward, D 128", (16, 128), dict(is_causal=True), False),
    ("both directions, D 64, dropout", (16, 64), dict(is_causal=True, dropout_p=0.125), True),
    ("both directions, D 128", (16, 128), dict(is_causal=True), True),
)
TORCH_CALL = """
import json, sys, time, torch, attn.torch
(heads, channels), options, gradients = json.loads(sys.argv[1])
tensors = [torch.randn(1, heads, 1024, channels, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
tensors = [tensor.requires_grad_(gradients) for tensor in tensors]
# What the first backward pass of any kind takes, more than a second of imports, is torch's own.
other = torch.ones(1, device="cuda", requires_grad=True)
(other * 2).backward(torch.ones(1, device="cuda"))
if sys.argv[2:]:
    attn.torch.sdpa(*(tensor.detach()[..., :32] for tensor in tensors))
torch.cuda.synchronize()
begin = time.perf_counter()
out = attn.torch.sdpa(*tensors, **options)
if gradients:
    out.backward(out.detach())
torch.cuda.synchronize()
print(time.perf_counter() - begin)
"""


def find_gpu():
    """The name of the GPU that PyTorch finds, if any."""
    try:
        import torch
    except ImportError:
        return None
    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def list_measurements(machine):
    """The case, a limit in seconds for a call that compiles, the device, and the process that measures the call."""
    for name, *arguments in CASES:
        # Cases with both directions have four or five kernels, each of which may take two seconds.
        limit = None if arguments[2] else 2
        yield f"first call from Python on {arguments[0]}, {name}", limit, machine, (CALL, json.dumps(arguments))
    gpu = find_gpu()
    for name, *arguments in TORCH_CASES if gpu else ():
        limit = None if arguments[2] else 2
        yield f"first call of `sdpa`, {name}", limit, f"{gpu}, {machine}", (TORCH_CALL, json.dumps(arguments))


def measure(process, folder, *flags):
    """Seconds until the artifact can be called, or has been, with this folder as cache; the flag `further` calls
    another kernel before."""
    environment = dict(os.environ, ATTN_CACHE_DIR=str(folder))
    command = [sys.executable, "-c", *process, *flags]
    return float(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", metavar="N", type=int, default=5)
    parser.add_argument("--only", metavar="TEXT", default="", help="measure what has this in its name")
    harness.add_row_options(parser)
    options = parser.parse_args(arguments)
    common = {"date": datetime.date.today().isoformat(), "commit": options.commit or harness.find_package_commit()}
    for name, limit, machine, process in list_measurements(describe_machine()):
        if options.only not in name:
            continue
        compiled, cached, further = [], [], []
        for _ in range(options.repeats):
            with tempfile.TemporaryDirectory() as folder:
                compiled.append(measure(process, folder))
                cached.append(measure(process, folder))
                measure(process, folder, "further")  # Fills the cache with the other kernel.
                further.append(measure(process, folder, "further"))
        variants = (
            ("compiled", limit, compiled),
            ("from the cache", 0.05, cached),
            ("from the cache as a further kernel", 0.05, further),
        )
        for how, bound, times in variants:
            seconds = round(min(times), 6)
            row = {"what": f"{name}, {how}", "limit_s": bound, "wall_s": seconds, "machine": machine} | common
            print(json.dumps(row), flush=True)
            harness.append_row(options.out, row, harness.read_history())
    return 0


if __name__ == "__main__":
    sys.exit(main())
