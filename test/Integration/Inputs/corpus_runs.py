# ===- corpus_runs.py - Compile and run the kernel corpus -------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""How the suites of the host and of GPUs compile the modules of test/Corpus, as their comments say
(benchmarks/corpus.py), and run them by attn-run on random inputs. Dynamic sizes are small and odd. A module may state
them and the contents of inputs, with options of attn-run and --values for integers, and that results are not compared:

    // attn-run: --shape=queries=1 --fill=seed=const:5 --values=cu_seqlens=3:0,70,150 --no-check
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys

import numpy as np
from tool_cache import run_tool

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))

from corpus import read_corpus  # noqa: E402

# Small sizes keep racecheck, which slows kernels a hundredfold, to seconds.
SIZES = {"batch": 2, "queries": 150, "keys": 203, "rows": 150, "columns": 200}
OTHER_SIZE = 4
# Where each instruction is interpreted. Modules that state sizes or values run with the sizes above.
FEW_SIZES = {"batch": 1, "queries": 37, "keys": 53, "rows": 40, "columns": 48}
# Of gradients: about the log-sum-exp of as many scores, so that probabilities are ordinary numbers.
FILLS = {"lse": "const:6"}
RUN_SECONDS = 240
DIRECTIVE = re.compile(r"^//\s*attn-run:(.*)$", re.M)


def name_compilations(target):
    """The compilations of the corpus for a target, by name."""
    compilations = read_corpus(ROOT / "test" / "Corpus", "").values()
    return {f"{one.module.stem}.{one.number}": one for one in compilations if f"--target={target}" in one.options}


def compile_one(compiler, artifacts, name, compilation, *more):
    """Compiles a module, with the reference unless an operation has none."""
    base = os.path.join(artifacts, name)
    source = str(compilation.module)
    if compilation.passes:
        source = base + ".mlir"
        opt = os.path.join(os.path.dirname(compiler), "attn-opt")
        run_tool([opt, str(compilation.module), *compilation.passes, "-o", source])
    flags = dict.fromkeys([*compilation.options, *more, "--with-reference"])
    run_tool([compiler, source, "-o", base + ".so", *flags])


def run_program(command, seconds=RUN_SECONDS):
    """The exit status and the output of a program, or None and a message if it takes longer than some seconds."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None, f"takes more than {seconds} s"
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


def write_values(artifacts, name, argument, text):
    """Writes integers, as in SHAPE:N,N,..., to a file, repeated to fill the shape; gives its path."""
    shape, values = text.split(":")
    path = os.path.join(artifacts, f"{name}.{argument}.npy")
    np.save(path, np.resize(np.array(values.split(","), np.int32), [int(size) for size in shape.split("x")]))
    return path


def list_runs(runner, artifacts, compilations, few=False):
    """Names, whether results are compared, and commands, one for each function, of few rows if that is asked for."""
    for name, compilation in compilations.items():
        artifact = os.path.join(artifacts, name + ".so")
        stated = shlex.split(" ".join(DIRECTIVE.findall(compilation.module.read_text())))
        sizes_by_name = FEW_SIZES if few and not stated else SIZES
        for function, (is_checked, sizes) in list_functions(runner, artifact).items():
            given = {("--shape", size): sizes_by_name.get(size, OTHER_SIZE) for each in sizes.values() for size in each}
            known = {*sizes, *(size for _, size in given)}
            if "dout" in sizes:
                given.update({("--fill", argument): FILLS[argument] for argument in {*sizes} & {*FILLS}})
            command = [runner, artifact, f"--function={function}"]
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
                    given["--input", argument] = write_values(artifacts, name, argument, value)
                else:
                    given[option, argument] = value
            command += [f"{option}={argument}={value}" for (option, argument), value in given.items()]
            yield f"{name} {function}", is_checked, command


def check(command, is_checked):
    """What is wrong with a run or its results, if anything."""
    status, text = run_program([*command, *["--check"] * is_checked])
    return None if status == 0 else f"exit status {status}: {text.strip()}"
