#!/usr/bin/env python3
# ===- kernel_corpus.py - The kernel corpus on the GPU ----------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Modules of the kernel corpus.

    kernel_corpus.py --compile build/bin/attn-compile --artifacts DIR --target sm_80
    kernel_corpus.py --artifacts DIR --target sm_80 --runner build/bin/attn-run [--jobs 8]
    kernel_corpus.py --artifacts DIR --target sm_80 --runner build/bin/attn-run --tool memcheck

Compiles each module of test/Corpus for a target, with the f64 reference (test/Integration/Inputs/corpus_runs.py). Where
there is a GPU, attn-run runs each function on random inputs and compares with the reference, if it has one; with --tool,
compute-sanitizer counts the reports of its tool. Neither needs PyTorch.
"""

import os
import re
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from device_suite import choose_variants, make_parser, record

from corpus_runs import check, compile_one, list_runs, name_compilations, run_program  # noqa: E402  isort:skip

SUMMARY = re.compile(r"SUMMARY: (\d+) (?:error|hazard)")


# ---------------------------------------------------------------------------
# Where there is a compiler
# ---------------------------------------------------------------------------


def choose_compilations(options):
    """The compilations of the corpus for the target that --only and --every leave."""
    names = name_compilations(options.target)
    return {name: names[name] for name in choose_variants(options, names)}


def compile_all(options, compilations):
    os.makedirs(options.artifacts, exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        compile_named = partial(compile_one, options.compile, options.artifacts)
        list(pool.map(compile_named, compilations, compilations.values()))
    print(f"{len(compilations)} compiled")
    return 0


# ---------------------------------------------------------------------------
# Where there is a GPU
# ---------------------------------------------------------------------------


def count_reports(sanitizer, tool, command):
    """The number of reports of a tool of compute-sanitizer about a run, and what the run printed."""
    status, text = run_program([sanitizer, f"--tool={tool}", *command])
    found = sum(map(int, SUMMARY.findall(text)))
    # A program that fails without a report has not run its kernels.
    if status is None or not SUMMARY.search(text) or (status != 0 and not found):
        return None, text
    return found, text


def find_device():
    """The name of the first GPU."""
    status, text = run_program(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
    return text.splitlines()[0].strip() if status == 0 else "unknown"


def run_all(options, compilations):
    """Runs all functions in several processes, which the driver's translation of PTX would otherwise wait for."""
    runs = list(list_runs(options.runner, options.artifacts, compilations))
    passed, failed, reports = 0, 0, 0
    lock = threading.Lock()

    def run(item):
        nonlocal passed, failed, reports
        name, is_checked, command = item
        count = 0
        if options.tool:
            count, text = count_reports(options.sanitizer, options.tool, command)
            message = text if count != 0 else None
        else:
            message = check(command, is_checked)
        with lock:
            passed += message is None
            failed += message is not None
            reports += count or 0
            if message:
                print(f"FAILED {name}: {' '.join(message.split())[:options.width]}", flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(run, runs))
    print(f"{passed} passed, {failed} failed" + (f", {reports} reports of {options.tool}" if options.tool else ""))
    record(options, passed, reports if options.tool else failed, device=options.record and find_device())
    return 1 if failed or not passed else 0


def main():
    parser = make_parser(__doc__, "target", "only", "every")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default 2)")
    parser.add_argument("--runner", metavar="ATTN_RUN", default="attn-run", help="the program that runs artifacts")
    parser.add_argument("--tool", choices=("memcheck", "racecheck", "synccheck", "initcheck"), default="",
                        help="count the reports of this tool of compute-sanitizer")
    parser.add_argument("--sanitizer", default="compute-sanitizer", help="the program compute-sanitizer")
    parser.add_argument("--width", type=int, default=300, help="characters of a failure that are printed (default 300)")
    options = parser.parse_args()
    compilations = choose_compilations(options)
    if options.compile:
        return compile_all(options, compilations)
    if not shutil.which(options.runner):
        parser.error(f"there is no program '{options.runner}'; name attn-run with --runner")
    return run_all(options, compilations)


if __name__ == "__main__":
    sys.exit(main())
