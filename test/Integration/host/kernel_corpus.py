# ===- kernel_corpus.py - The kernel corpus on the host -----------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Compiles each module of test/Corpus for the host, as its comments say. attn-run runs each function on random inputs
# and compares with the f64 reference, if it has one. With --valgrind, valgrind runs attn-run on code for a processor
# that valgrind knows, and reports accesses outside of tensors and branches on uninitialized values.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy, long-tests
# RUN: %python %s --compile attn-compile --runner attn-run --artifacts %t %every | FileCheck %s
# CHECK: {{^[0-9]+}} passed, 0 failed

import argparse
import os
import pathlib
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "Inputs"))

from corpus_runs import check, compile_one, list_runs, name_compilations, run_program  # noqa: E402

# Valgrind has no AVX-512.
VALGRIND_PROCESSOR = "x86-64-v3"
# An exit status that attn-run does not have.
VALGRIND_ERROR = 99
VALGRIND_SECONDS = 1800


def check_memory(valgrind, command):
    """The reports of valgrind about a run, if there are any."""
    options = ["--quiet", "--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]
    # Valgrind has no room for the translation of longer sequences of vector instructions.
    options += ["--vex-guest-max-insns=25", f"--error-exitcode={VALGRIND_ERROR}"]
    status, text = run_program([valgrind, *options, *command], VALGRIND_SECONDS)
    return None if status == 0 else f"exit status {status}: {text.strip()}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile", default="attn-compile", help="the compiler")
    parser.add_argument("--runner", default="attn-run", help="the program that runs artifacts")
    parser.add_argument("--artifacts", required=True, help="directory of compiled artifacts")
    parser.add_argument("--valgrind", default="", help="report errors of this program instead of comparing results")
    parser.add_argument("--every", type=int, metavar="N", default=1, help="one compilation in N, always the same ones")
    parser.add_argument("--only", default="", help="only compilations whose name contains this")
    parser.add_argument("--verbose", action="store_true", help="print each function that passes, too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    options = parser.parse_args()
    compiler = shutil.which(options.compile) or parser.error(f"there is no program '{options.compile}'")
    os.makedirs(options.artifacts, exist_ok=True)
    named = [item for item in name_compilations("host").items() if options.only in item[0]]
    compilations = dict(named[:: options.every])
    processor = [f"--host-cpu={VALGRIND_PROCESSOR}"] if options.valgrind else []

    def compile_named(name):
        compile_one(compiler, options.artifacts, name, compilations[name], *processor)

    def run(item):
        name, is_checked, command = item
        message = check_memory(options.valgrind, command) if options.valgrind else check(command, is_checked)
        if message or options.verbose:
            print(f"FAILED {name}: {message}" if message else f"passed {name}", flush=True)
        return not message

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(compile_named, compilations))
        runs = list_runs(options.runner, options.artifacts, compilations, few=bool(options.valgrind))
        results = list(pool.map(run, runs))
    print(f"{sum(results)} passed, {results.count(False)} failed")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
