# ===- run-ranks.py - attn-run on several ranks ------------------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Modules of whole attention and its gradients that attn-run distributes over ranks, which are threads or, with
# --mpirun, processes. The joined outputs must equal the outputs of attn-run without ranks, and the formula in f64.
# Ranks must send as many bytes as the method needs. With --matrix=1, all combinations of methods, masks, dropout, key
# heads and ranks run.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --work %t
# RUN: %if mpi %{ %python %s --work %t --mpirun %mpirun %}

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import zlib
from functools import partial

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = importlib.util.spec_from_file_location("shard_attention", os.path.join(HERE, "shard-attention.py"))
shard = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(shard)

# Case, method, ranks, gradient, and whether the ranks are processes. All ranks have the whole of the gradient of sinks.
RUNS = [
    ("sinks", "allgather", 2, shard.WITH_ATTENTION, False),
    ("none", "ring", 4, None, True),
    ("one_head", "zigzag", 4, None, True),
    ("bias", "allgather", 4, None, True),
    ("heads", "ring", 2, shard.ALONE, True),
    ("one_head", "ulysses", 4, None, True),
    ("one_head", "usp2", 4, None, False),
    ("sinks", "usp2", 4, shard.WITH_ATTENTION, True),
    ("sinks", "lightseq", 4, shard.WITH_ATTENTION, False),
]


def make_matrix():
    """Each method with each mask, dropout, number of key heads and ranks, alone and with gradients."""
    masks = {case.name: case for case in shard.CASES if case.name in ("none", "causal", "window", "bias")}
    for name, mask in masks.items():
        for dropout in (None, shard.Dropout(0.25, "philox", 7)):
            for key_heads in (1, 2, 4):
                case = shard.Case(f"{name}_{dropout is not None}_{key_heads}", mask.mask, mask.attended, 128, 128,
                                  bias=mask.bias, dropout=dropout, key_heads=key_heads)  # fmt: skip
                shard.CASES.append(case)
                for method in shard.METHODS:
                    for ranks in (2, 4):
                        for gradient in (None, shard.WITH_ATTENTION):
                            yield case.name, method, ranks, gradient, True


def run_tool(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.stdout


def run_module(launcher, module, inputs, outputs, options):
    """The report of attn-run, and the outputs by name."""
    files = [f"--input={path}" for path in inputs] + [f"--output={path}" for path in outputs.values()]
    command = [*launcher, "attn-run", module, *files, "--json", "--compiler-option=--host-opt-level=0", *options]
    report = json.loads(run_tool(command))
    return report, {name: np.load(path) for name, path in outputs.items()}


def check(args, name, method, ranks, gradient, launcher):
    case = next(case for case in shard.CASES if case.name == name)
    inputs, wrong = shard.Inputs(case, ranks, gradient), []
    path = os.path.join(args.work, f"{name}_{gradient}")
    with open(path + ".mlir", "w") as file:
        file.write(case.mlir(gradient))
    if gradient:
        run_tool(["attn-opt", path + ".mlir", *case.differentiate(gradient), "-o", path + ".gradient.mlir"])
    module = path + (".gradient.mlir" if gradient else ".mlir")
    arrays, results = inputs.arguments(slice(None), slice(None), gradient)
    files = []
    for array in arrays:
        if not any(array is result for result in results.values()):
            files.append(f"{path}.{len(files)}.npy")
            np.save(files[-1], array)
    _, whole = run_module([], module, files, {name: f"{path}.whole.{name}.npy" for name in results}, [])
    name_of_method = "usp" if method in shard.GROUPS else method
    options = [f"--ranks={ranks}", f"--shard-method={name_of_method}"]
    options += [f"--ulysses-degree={shard.degree_of(method)}"] * (method in shard.GROUPS)
    outputs = {name: f"{path}.ranks.{name}.npy" for name in results}
    report, found = run_module(launcher, module, files, outputs, options)
    for output, array in found.items():
        for reference, values in (("the formula", inputs.expected[output]), ("one rank", whole[output])):
            magnitude = inputs.magnitudes.get(output, np.abs(values))
            error = (np.abs(array - values) / np.maximum(1, magnitude)).max()
            if array.shape != values.shape or not error <= inputs.tolerance(output):
                wrong.append(f"{output}: error {error:.2g} against {reference}")
    counts = [ranks - 1] * ranks, [1] * ranks
    if method in (*shard.RINGS, *shard.GROUPS):
        counts = shard.count_messages(inputs.attended, method, ranks)
    rows = shard.count_sent_rows(inputs.attended, ranks) if method == "ring" else case.keys // ranks
    sent_bytes = partial(shard.Tester.sent_bytes, case, method, ranks, gradient, rows=rows)
    expected = [sum(sent_bytes(*count).values()) for count in zip(*counts)]
    if method == shard.BALANCED:
        expected = report["ranks"]["bytes_sent"]
        sinks = shard.HEADS * 4 * (ranks - 1) if gradient and case.sinks else 0
        wrong += shard.check_balanced_traffic(inputs, ranks, gradient, [sent - sinks for sent in expected])
    transport = "MPI" if launcher else "threads"
    described = {"count": ranks, "method": name_of_method, "transport": transport, "bytes_sent": expected}
    if report["ranks"] != described:
        wrong.append(f"the report says {report['ranks']}, expected {described}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True, help="folder for what is compiled")
    parser.add_argument("--mpirun", help="run the cases of processes by this launcher")
    parser.add_argument("--matrix", type=int, metavar="N", help="run one of N of all combinations instead, for minutes")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    runs = [run for run in RUNS if run[4] == bool(args.mpirun)]
    if args.matrix:
        runs = [run for run in make_matrix() if zlib.crc32(repr(run).encode()) % args.matrix == 0]
    failures = 0
    for name, method, ranks, gradient, is_mpi in runs:
        launcher = [args.mpirun, "-n", str(ranks)] if is_mpi else []
        wrong = check(args, name, method, ranks, gradient, launcher)
        failures += bool(wrong)
        for message in wrong:
            print(f"{name} {method} {ranks} {gradient}: {message}")
    print(f"{len(runs)} runs, {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
