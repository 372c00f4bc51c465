#!/usr/bin/env python3
# ===- fuzz.py - Random modules on the GPU ------------------------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compares random modules with the bounds that the fuzzers' reference gives in f64.

    fuzz.py --compile build/bin/attn-compile --artifacts DIR --target sm_80 [--count 300] [--seed 1]
    fuzz.py --artifacts DIR --target sm_80 --runtime libattn_runtime.so [--jobs 8]

attn-fuzz-cases, in the folder of the compiler, writes modules, arguments and bounds to DIR, unless they are there:
several targets, the host among them, share them. A module that the compiler refuses has no artifact. Modules run in several processes, as the
driver needs a second to translate PTX. One that ends its process, or takes a minute, fails alone. Inputs and memory
between elements must not change.
"""

import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import numpy as np
from device_suite import load, make_parser, run_cases

# Names of torch.
DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64", "i64": "int64", "i32": "int32",
          "i8": "int8", "i1": "bool"}  # fmt: skip
# Diagnostics about the inside of the compiler.
INTERNAL = re.compile(r"failed to legalize|marked illegal|<unknown>:0|LLVM ERROR|PLEASE submit|attn_tile\.|before its operands")
COMPILE_SECONDS = 60
RUN_SECONDS = 60


# ---------------------------------------------------------------------------
# Where there is a compiler
# ---------------------------------------------------------------------------


def compile_module(options, number):
    """What is wrong with how a module compiles, if anything. A refusal is none."""
    base = os.path.join(options.artifacts, number)
    command = [options.compile, base + ".mlir", "-o", f"{base}.{options.target}.so", f"--target={options.target}"]
    begin = time.monotonic()
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS)
    except subprocess.TimeoutExpired:
        return f"takes more than {COMPILE_SECONDS} s"
    errors = [line for line in result.stderr.splitlines() if "error: " in line]
    print(f"{number}: {errors[0] if errors else 'compiled'} ({time.monotonic() - begin:.1f} s)", file=sys.stderr)
    if result.returncode not in (0, 1) or INTERNAL.search(result.stderr):
        return f"exit status {result.returncode}: {result.stderr.strip()}"
    if bool(result.returncode) != bool(errors):
        return f"exit status {result.returncode} with {len(errors)} errors: {result.stderr.strip()}"
    return None


def compile_all(options):
    if not os.path.exists(os.path.join(options.artifacts, "0.json")) or options.write:
        writer = os.path.join(os.path.dirname(options.compile), "attn-fuzz-cases")
        arguments = [options.artifacts, f"--count={options.count}", f"--seed={options.seed}"]
        subprocess.run([writer, *arguments], check=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        numbers = find_numbers(options.artifacts, ".mlir")
        problems = list(pool.map(partial(compile_module, options), numbers))
    for number, problem in zip(numbers, problems):
        if problem:
            print(f"{number} {problem}")
    failed = sum(problem is not None for problem in problems)
    refused = len(numbers) - failed - len(find_numbers(options.artifacts, f".{options.target}.so"))
    print(f"{len(numbers) - refused - failed} compiled, {refused} refused, {failed} failed")
    return 1 if failed else 0


def find_numbers(folder, suffix):
    """The numbers of modules with such a file, in order."""
    names = [name[: -len(suffix)] for name in os.listdir(folder) if name.endswith(suffix)]
    return sorted((name for name in names if name.isdigit()), key=int)


# ---------------------------------------------------------------------------
# Where there is a GPU
# ---------------------------------------------------------------------------


def place(torch, shape, dtype, device, rng):
    """A tensor in a random layout, and the memory around it, filled with a NaN.

    Rows begin at multiples of 16 elements, as fast copies want them. So does what precedes the tensor.
    """
    order = list(range(len(shape) - 1))
    if rng.random() < 0.5:
        rng.shuffle(order)
    strides, stride = [1] * len(shape), max(shape[-1], 1) if shape else 1
    if stride % 8 or rng.random() < 0.5:
        stride = -(-stride // 16) * 16 + rng.choice((0, 0, 16))
    for dim in order:
        strides[dim] = stride
        stride *= max(shape[dim], 1) + rng.choice((0, 0, 1))
    guard = 16 * rng.randrange(1, 5)
    bytes_ = torch.full(((stride + 2 * guard) * dtype.itemsize,), 255, dtype=torch.uint8, device=device)
    buffer = bytes_.view(dtype) if dtype != torch.bool else bytes_.zero_().view(dtype)
    return buffer.as_strided(shape, strides, guard), bytes_


def read_arguments(torch, description, contents):
    """For each argument its dtype and shape, and either its elements or positions and bounds."""
    at = 0

    def take(count, kind):
        nonlocal at
        values = np.frombuffer(contents, kind, count, at)
        at += values.nbytes
        return values

    arguments = []
    for argument in description:
        dtype, shape = getattr(torch, DTYPES[argument["dtype"]]), argument["shape"]
        if "bounds" in argument:
            count = argument["bounds"]
            arguments.append((dtype, shape, None, (take(count, "<i4"), take(count, "<f4"), take(count, "<f4"))))
            continue
        elements = bytearray(take(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize, "u1"))
        tensor = torch.frombuffer(elements, dtype=dtype) if elements else torch.empty(0, dtype=dtype)
        arguments.append((dtype, shape, tensor.reshape(shape), None))
    return arguments, at


def find_wrong(values, bounds):
    """The first element that is outside of its bounds, if there is one, and the number of elements compared."""
    positions, low, high = bounds
    actual = values[positions]
    is_kept = low > high
    is_right = np.isnan(low) | np.where(is_kept, np.isnan(actual), (low <= actual) & (actual <= high))
    compared = int(np.count_nonzero(~np.isnan(low)))
    if is_right.all():
        return None, compared
    n = int(np.argmin(is_right))
    expected = "its old contents" if is_kept[n] else f"between {low[n]:.9g} and {high[n]:.9g}"
    count = int(np.count_nonzero(~is_right))
    return f"element {positions[n]}: expected {expected}, got {actual[n]:.9g} ({count} of {len(positions)})", compared


def synchronize(torch, device):
    if device != "cpu":
        torch.cuda.synchronize()


def run_arguments(torch, function, arguments, device, rng):
    """What is wrong with a run, if anything, and the number of elements compared."""
    tensors, memories = [], []
    for dtype, shape, elements, _ in arguments:
        tensor, memory = place(torch, shape, dtype, device, rng)
        if elements is not None:
            tensor.copy_(elements)
        tensors.append(tensor)
        memories.append((memory, memory.clone()))
    function(*tensors)
    synchronize(torch, device)
    total = 0
    for number, ((_, shape, _, bounds), tensor, (memory, before)) in enumerate(zip(arguments, tensors, memories)):
        where = f"argument {number} {list(shape)} strides {list(tensor.stride())}"
        if bounds is None:
            if not torch.equal(memory, before):
                return f"{where}, an input, was written", total
            continue
        message, compared = find_wrong(tensor.double().cpu().numpy().ravel(), bounds)
        total += compared
        if message:
            return f"{where}, {message}", total
        tensor.view(torch.uint8 if tensor.dtype == torch.bool else tensor.dtype).fill_(float("nan"))
        old = before.view(tensor.dtype).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        old.fill_(float("nan"))
        if not torch.equal(memory, before):
            return f"{where}: memory between its elements was written", total
    return None, total


def get_device(options):
    return "cpu" if options.target == "host" else "cuda"


def run_module(torch, options, number):
    """What is wrong with the runs of a module, if anything, and the number of elements compared."""
    base = os.path.join(options.artifacts, number)
    function = load(options, f"{number}.{options.target}", "f")
    with open(base + ".json") as file:
        runs = json.load(file)
    with open(base + ".bin", "rb") as file:
        contents = file.read()
    rng, total = random.Random(number), 0
    for run, description in enumerate(runs):
        arguments, used = read_arguments(torch, description, contents)
        contents = contents[used:]
        message, compared = run_arguments(torch, function, arguments, get_device(options), rng)
        total += compared
        if message:
            return f"run {run}: {message}", total
    return None, total


def run_worker(options):
    """Runs modules of the command line; prints a line for each."""
    import torch

    for number in options.modules.split(","):
        print(f"begin {number}", flush=True)
        try:
            message, compared = run_module(torch, options, number)
        except RuntimeError as error:
            message, compared = " ".join(str(error).split()), 0
        print(json.dumps([number, message, compared]), flush=True)
        try:
            synchronize(torch, get_device(options))
        except RuntimeError:
            # Nothing else runs in this process after such an error.
            return 1
    return 0


def run_slice(options, numbers, results):
    """Runs modules in processes, and sets their results. The first module without one ended its process."""
    while numbers:
        command = [sys.executable, os.path.abspath(__file__), "--artifacts", options.artifacts, "--runtime",
                   options.runtime, "--target", options.target, "--modules", ",".join(numbers)]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            timer = None
            for line in process.stdout:
                if timer:
                    timer.cancel()
                timer = threading.Timer(RUN_SECONDS, process.kill)
                timer.start()
                if line.startswith("["):
                    number, message, compared = json.loads(line)
                    numbers.remove(number)
                    results[number].set_result((message, compared))
            if timer:
                timer.cancel()
            said = process.stderr.read().strip().splitlines()
        if process.returncode != 0 and numbers and not (process.returncode == 1 and not said):
            results[numbers.pop(0)].set_result((f"its process ended with {process.returncode}: {said[-1:]}", 0))


def run_all(options):
    numbers = find_numbers(options.artifacts, f".{options.target}.so")
    results = {number: Future() for number in numbers}
    for first in range(options.jobs):
        threading.Thread(target=run_slice, args=(options, numbers[first :: options.jobs], results)).start()
    compared = 0

    def wait(number):
        nonlocal compared
        message, count = results[number].result()
        compared += count
        return message

    status = run_cases(((number, partial(wait, number)) for number in numbers), options)
    print(f"{compared} values compared")
    return status


def main():
    parser = make_parser(__doc__, "target")
    parser.add_argument("--count", type=int, default=300, help="number of modules that are written")
    parser.add_argument("--seed", type=int, default=1, help="where the random numbers begin")
    parser.add_argument("--write", action="store_true", help="write modules even if there are some")
    parser.add_argument("--jobs", type=int, default=8, help="number of modules that compile or run at a time")
    parser.add_argument("--modules", help="run these modules, given by numbers, in this process")
    options = parser.parse_args()
    if options.compile:
        return compile_all(options)
    return run_worker(options) if options.modules else run_all(options)


if __name__ == "__main__":
    sys.exit(main())
