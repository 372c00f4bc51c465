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

Compiles each module of test/Corpus for a target, as its comments say (benchmarks/corpus.py), with the f64 reference.
Where there is a GPU, attn-run runs each function on random inputs and compares with the reference, if it has one; with
--tool, compute-sanitizer counts the reports of its tool. Neither needs PyTorch. Dynamic sizes are small and odd. A module
may state them and the contents of inputs, with options of attn-run and --values for integers, and that results are not
compared:

    // attn-run: --shape=queries=1 --fill=seed=const:5 --values=cu_seqlens=3:0,70,150 --no-check
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from device_suite import choose_variants, make_parser, record
from tool_cache import run_tool

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))

from corpus import read_corpus  # noqa: E402

# Small sizes keep racecheck, which slows kernels a hundredfold, to seconds.
SIZES = {"batch": 2, "queries": 150, "keys": 203, "rows": 150, "columns": 200}
OTHER_SIZE = 4
# Of gradients: about the log-sum-exp of as many scores, so that probabilities are ordinary numbers.
FILLS = {"lse": "const:6"}
RUN_SECONDS = 240
DIRECTIVE = re.compile(r"^//\s*attn-run:(.*)$", re.M)
SUMMARY = re.compile(r"SUMMARY: (\d+) (?:error|hazard)")


# ---------------------------------------------------------------------------
# Where there is a compiler
# ---------------------------------------------------------------------------


def choose_compilations(options):
    """The compilations of the corpus for the target that --only and --every leave."""
    compilations = read_corpus(ROOT / "test" / "Corpus", "").values()
    names = {f"{one.module.stem}.{one.number}": one for one in compilations if f"--target={options.target}" in one.options}
    return {name: names[name] for name in choose_variants(options, names)}


def compile_one(options, item):
    """Compiles a module, with the reference unless an operation has none."""
    name, compilation = item
    base = os.path.join(options.artifacts, name)
    source = str(compilation.module)
    if compilation.passes:
        source = base + ".mlir"
        opt = os.path.join(os.path.dirname(options.compile), "attn-opt")
        run_tool([opt, str(compilation.module), *compilation.passes, "-o", source])
    flags = dict.fromkeys([*compilation.options, "--with-reference"])
    run_tool([options.compile, source, "-o", base + ".so", *flags])


def compile_all(options, compilations):
    os.makedirs(options.artifacts, exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(partial(compile_one, options), compilations.items()))
    print(f"{len(compilations)} compiled")
    return 0


# ---------------------------------------------------------------------------
# Where there is a GPU
# ---------------------------------------------------------------------------


def run_program(command):
    """The exit status and the output of a program, or None and a message if it takes too long."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS)
    except subprocess.TimeoutExpired:
        return None, f"takes more than {RUN_SECONDS} s"
    return result.returncode, result.stdout + result.stderr


def list_functions(runner, artifact):
    """For each function of an artifact whether it has a reference, and the names of the dynamic sizes of each argument."""
    status, text = run_program([runner, "--list", artifact])
    if status:
        raise SystemExit(f"{artifact}: {text}")
    functions = {}
    for line in text.splitlines()[1:]:
        if not line.startswith(" "):
            name, _, note = line.partition(" (")
            sizes = {}
            functions[name] = not note, sizes
        elif argument := re.match(r" +(?:input|output) +(\w+): \w+\[(.*)\]", line):
            sizes[argument[1]] = [size for size in argument[2].split(", ") if size.isidentifier()]
    return functions


def write_values(options, name, argument, text):
    """Writes integers, as in SHAPE:N,N,..., to a file, repeated to fill the shape; gives its path."""
    shape, values = text.split(":")
    path = os.path.join(options.artifacts, f"{name}.{argument}.npy")
    np.save(path, np.resize(np.array(values.split(","), np.int32), [int(size) for size in shape.split("x")]))
    return path


def list_runs(options, compilations):
    """Names, whether results are compared, and commands, one for each function."""
    for name, compilation in compilations.items():
        artifact = os.path.join(options.artifacts, name + ".so")
        stated = shlex.split(" ".join(DIRECTIVE.findall(compilation.module.read_text())))
        for function, (is_checked, sizes) in list_functions(options.runner, artifact).items():
            given = {("--shape", size): SIZES.get(size, OTHER_SIZE) for each in sizes.values() for size in each}
            known = {*sizes, *(size for _, size in given)}
            if "dout" in sizes:
                given.update({("--fill", argument): FILLS[argument] for argument in {*sizes} & {*FILLS}})
            command = [options.runner, artifact, f"--function={function}"]
            for option, _, value in (one.partition("=") for one in stated):
                argument, _, value = value.partition("=")
                if option == "--no-check":
                    is_checked = False
                if not value:
                    command += [f"{option}={argument}"] if argument else []
                    continue
                if argument not in known:
                    # It is about another function.
                    continue
                if argument in sizes and option != "--fill":
                    # The sizes of an argument follow from its shape.
                    for size in sizes[argument]:
                        given.pop(("--shape", size), None)
                if option == "--values":
                    given["--input", argument] = write_values(options, name, argument, value)
                else:
                    given[option, argument] = value
            command += [f"{option}={argument}={value}" for (option, argument), value in given.items()]
            yield f"{name} {function}", is_checked, command


def check(command, is_checked):
    """What is wrong with a run or its results, if anything."""
    status, text = run_program([*command, *["--check"] * is_checked])
    return None if status == 0 else f"exit status {status}: {text.strip()}"


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
    runs = list(list_runs(options, compilations))
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
