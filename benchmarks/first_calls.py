#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the first call of a kernel from Python: compiled, and from the cache.

    first_calls.py [--out benchmarks/results/compiler.jsonl --commit ID]

It uses the package that Python finds, and a cache of its own. Each measurement is
made by a process of its own, which has imported the package; it includes loading
the compiler, or finding that it is not needed, and loading the artifact. The
smallest of several counts.
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

from compiler import describe_machine  # noqa: E402

GRADIENTS = (
    "attn-differentiate{function=attention arguments=0,1,2},"
    "symbol-privatize{exclude=attention_fwd,attention_bwd},symbol-dce"
)
DROPOUT = "#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>"
# Name, target, arguments of attn.Attention and passes.
CASES = (
    ("forward, D 64", "sm_90a", dict(query_heads=16, key_heads=16, query_dim=64), ""),
    ("forward, D 128", "sm_90a", dict(query_heads=32, key_heads=8, query_dim=128), ""),
    ("both directions, D 64, dropout", "sm_90a", dict(query_heads=16, key_heads=16, query_dim=64, dropout=DROPOUT), GRADIENTS),
    ("both directions, D 128", "sm_90a", dict(query_heads=32, key_heads=8, query_dim=128), GRADIENTS),
    ("forward, D 64", "host", dict(query_heads=16, key_heads=16, query_dim=64), ""),
    ("both directions, D 64", "host", dict(query_heads=16, key_heads=16, query_dim=64), GRADIENTS),
)
CALL = """
import json, sys, time, attn
target, arguments, passes = json.loads(sys.argv[1])
begin = time.perf_counter()
attn.compile(attn.Attention("bf16", mask="#attn.causal", **arguments), target=target, passes=passes)
print(time.perf_counter() - begin)
"""


def measure(case, folder):
    """Seconds until the artifact can be called, with this folder as cache."""
    environment = dict(os.environ, ATTN_CACHE_DIR=str(folder))
    command = [sys.executable, "-c", CALL, json.dumps(case[1:])]
    return float(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", metavar="N", type=int, default=5)
    parser.add_argument("--commit", metavar="ID", default="unknown")
    parser.add_argument("--out", metavar="FILE", type=pathlib.Path, help="add rows to this file")
    options = parser.parse_args(arguments)
    common = {"machine": describe_machine(), "date": datetime.date.today().isoformat(), "commit": options.commit}
    for case in CASES:
        compiled, cached = [], []
        for _ in range(options.repeats):
            with tempfile.TemporaryDirectory() as folder:
                compiled.append(measure(case, folder))
                cached.append(measure(case, folder))
        # Those of both directions have four or five kernels, each of which may take that long.
        limit = None if case[3] else 2
        for how, limit, times in (("compiled", limit, compiled), ("from the cache", 0.05, cached)):
            what = f"first call from Python on {case[1]}, {case[0]}, {how}"
            row = json.dumps({"what": what, "limit_s": limit, "wall_s": round(min(times), 6), **common})
            print(row, flush=True)
            if options.out:
                with options.out.open("a") as file:
                    file.write(row + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
