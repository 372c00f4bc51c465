# ===- device_suite.py - What the programs of this folder have in common -----===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""The command line, how artifacts are compiled and found, and how cases are run and counted.

A program compiles where there is a compiler (--compile) and runs where there are a GPU and PyTorch. Importing this module
also lets it import `attn` and what test/Integration/Inputs has.
"""

import argparse
import datetime
import json
import multiprocessing
import os
import sys
import time
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python"))
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))

from tool_cache import run_tool  # noqa: E402

# Options that only some programs have.
OPTIONS = {
    "target": dict(default="sm_90a", help="target of the compiler"),
    "assemble": dict(action="store_true", help="compile to machine code for every target"),
    "only": dict(default="", help="only variants whose name contains this"),
    "every": dict(type=int, metavar="N", default=1, help="of these, one in N, always the same ones"),
}


def make_parser(description, *more):
    """The options of all programs, and the named ones of OPTIONS."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", required=True, help="directory of compiled artifacts")
    parser.add_argument("--compile", metavar="ATTN_COMPILE", help="compile the artifacts with this compiler and stop")
    parser.add_argument("--runtime", default="libattn_runtime.so", help="the runtime library")
    parser.add_argument("--record", metavar="FILE", help="append the result to FILE, as report.py reads it")
    parser.add_argument("--commit", default="", help="commit of the compiler that built the artifacts, for --record")
    for name in more:
        parser.add_argument(f"--{name}", **OPTIONS[name])
    return parser


def is_for_sm_90a(variant):
    """Whether a variant is for sm_90a alone: one that says so, with a given schedule, or with elements of 8 bits."""
    is_given = getattr(variant, "schedule", "") or getattr(variant, "sums", "")
    says_so = getattr(variant, "is_for_sm_90a", False)
    return says_so or bool(is_given) or getattr(variant, "dtype", "").startswith("f8")


def choose_variants(options, variants):
    """The variants that --only, --every and the target leave. A sample of a small suite has at least one variant."""

    def name_of(variant):
        return getattr(variant, "name", str(variant))

    def number_of(variant):
        return zlib.crc32(name_of(variant).encode())

    meant = [v for v in variants if options.only in name_of(v) and (options.target == "sm_90a" or not is_for_sm_90a(v))]
    sample = [variant for variant in meant if number_of(variant) % options.every == 0]
    return sample or sorted(meant, key=number_of)[:1]


def write_source(options, name, text):
    """Writes a module to the folder of artifacts; gives its path without the extension."""
    os.makedirs(options.artifacts, exist_ok=True)
    base = os.path.join(options.artifacts, name)
    with open(base + ".mlir", "w") as file:
        file.write(text)
    return base


def run_passes(options, base, passes):
    """Runs passes of the attn-opt in the compiler's folder on a source that `write_source` wrote; gives the path of the
    new source."""
    if not passes:
        return f"{base}.mlir"
    opt = os.path.join(os.path.dirname(options.compile), "attn-opt")
    run_tool([opt, f"{base}.mlir", *passes, "-o", f"{base}.opt.mlir"])
    return f"{base}.opt.mlir"


def compile_artifact(options, name, text, *flags, passes=()):
    """Compiles a module, after passes of the attn-opt in the compiler's folder; stops the program if that fails."""
    base = write_source(options, name, text)
    source = run_passes(options, base, passes)
    target = getattr(options, "target", OPTIONS["target"]["default"])
    run_tool([options.compile, source, "-o", base + ".so", f"--target={target}", *flags])


def load(options, name, function):
    """The function of a compiled artifact."""
    from attn.artifact import Artifact

    return Artifact(os.path.join(options.artifacts, name + ".so"), options.runtime)[function]


def find_subject(suite):
    """What a suite tests, in a table's words: its `SUBJECT`, or the first line of its text."""
    subject = getattr(suite, "SUBJECT", None) or (suite.__doc__ or "all cases").strip().splitlines()[0]
    return subject.rstrip(".")


def record(options, passed, failed, part=False, device=None):
    """Appends a row of the result to the file of --record, if there is one; report.py defines its form. With --tool,
    `failed` is the number of reports."""
    if not options.record:
        return
    if not options.commit:
        raise SystemExit("--record needs --commit, the commit of the compiler that built the artifacts")
    if device is None:
        import torch

        device = torch.cuda.get_device_name()
    row = {"suite": os.path.basename(sys.argv[0]), "of": find_subject(sys.modules["__main__"]), "target": getattr(options, "target", "sm_90a")}
    if getattr(options, "only", ""):
        row["only"] = options.only
    if getattr(options, "every", 1) != 1:
        row["every"] = options.every
    if getattr(options, "tool", ""):
        row["tool"] = options.tool
    if part or "only" in row or "every" in row:
        row["part"] = True
    row.update(passed=passed, failed=failed, date=datetime.date.today().isoformat())
    row.update(device=device, commit=options.commit)
    with open(options.record, "a") as file:
        file.write(json.dumps(row) + "\n")


def count_cases(cases):
    """Runs cases, pairs of a name and a function that gives a message if something is wrong; gives the numbers of passed
    and of failed ones.
    """
    passed = failed = 0
    for name, run in cases:
        try:
            message = run()
        except RuntimeError as error:
            message = " ".join(str(error).split()) or type(error).__name__
        if message:
            failed += 1
            print(f"FAILED {name}: {message}", flush=True)
        else:
            passed += 1
    return passed, failed


def report_cases(passed, failed, options):
    """Prints and records the numbers of cases; gives the exit status."""
    print(f"{passed} passed, {failed} failed", flush=True)
    record(options, passed, failed)
    return 1 if failed or not passed else 0


def run_cases(cases, options):
    """Runs cases, see `count_cases`; gives the exit status."""
    return report_cases(*count_cases(cases), options)


def count_in_processes(count, variants, processes):
    """The numbers of passed and failed cases of all variants, which some processes take one after the other and
    `count`."""
    context = multiprocessing.get_context("fork")
    waiting, results, workers = context.SimpleQueue(), context.SimpleQueue(), []
    processes = min(processes, len(variants))
    # Numbers of variants, few bytes that a pipe has room for.
    for item in [*range(len(variants)), *[None] * processes]:
        waiting.put(item)

    def work():
        for item in iter(waiting.get, None):
            results.put((item, count([variants[item]])))

    for _ in range(processes):
        workers.append(context.Process(target=work))
        workers[-1].start()
    counts = []
    for number in range(len(variants)):
        # A process that ends early, by a signal, too, ends the program.
        while results.empty():
            if broken := [worker.exitcode for worker in workers if worker.exitcode]:
                raise SystemExit(f"a process of the suite ended with status {broken[0]}")
            time.sleep(0.05)
        item, numbers = results.get()
        counts.append(numbers)
        progress = f"[{number + 1}/{len(variants)}] {variants[item]}"
        print(f"{progress}: {numbers[0]} passed, {numbers[1]} failed", flush=True)
    for worker in workers:
        worker.join()
    return [sum(numbers) for numbers in zip(*counts)]


def run_subset_suite(description, variants, compile_all, make_cases):
    """The program of a suite that has a subset for sanitizers. `compile_all` compiles the variants that the options ask
    for, and `make_cases(torch, options, variants)` gives their cases for `run_cases`."""
    parser = make_parser(description, "target", "assemble", "only", "every")
    parser.add_argument("--sanitizer-subset", action="store_true", help="one small case of each, for compute-sanitizer")
    parser.add_argument("--processes", type=int, metavar="N", default=1, help="run the variants in N processes")
    options = parser.parse_args()
    variants = choose_variants(options, variants)
    if options.compile:
        return compile_all(options, variants)

    def count(share):
        import torch

        if options.sanitizer_subset:
            os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
        if options.processes > 1:
            torch.set_num_threads(1)
        torch.zeros(1, device="cuda")
        return count_cases(make_cases(torch, options, share))

    if options.processes > 1:
        return report_cases(*count_in_processes(count, variants, options.processes), options)
    return report_cases(*count(variants), options)


def describe_error(error):
    """The message for an error, given as a multiple of the allowed one, if it is larger."""
    return None if error <= 1 else f"{error:.3g} of what is allowed"
