#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the compiler itself: start-up, compile times, memory, and calls.

    compiler.py --build-dir build [--out benchmarks/results/compiler.jsonl]
    compiler.py --build-dir build --call-overhead build/bin/attn-call-overhead [--driver libfakecuda.so]

Programs run one after another, each several times after a run that fills the caches of the file system. The smallest
elapsed and processor times count, and the largest resident memory, including children. `--call-overhead` adds the host
time of a call of a compiled function: with the machine's driver, or with one that does nothing, as the unit tests have
it.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import harness  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "docs" / "examples" / "llama3_attention.mlir"


def describe_machine():
    """Processor and number of usable cores."""
    name = platform.processor() or platform.machine()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            name = line.split(":", 1)[1].strip()
            break
    return f"{len(os.sched_getaffinity(0))} cores of {name}"


# Runs a command and reports on it from a process of its own, whose only children are the command and its descendants.
MEASURE = """
import json, resource, subprocess, sys, time
begin = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
wall = time.perf_counter() - begin
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]))
"""


def measure(command, repeats):
    """Elapsed seconds, processor seconds and megabytes of a command."""
    runs = []
    for _ in range(repeats + 1):
        answer = subprocess.run([sys.executable, "-c", MEASURE, *map(str, command)], stdout=subprocess.PIPE, check=True)
        code, *run = json.loads(answer.stdout)
        if code != 0:
            sys.exit(f"compiler.py: error: exit code {code} of {' '.join(map(str, command))}")
        runs.append(run)
    walls, cpus, peaks = zip(*runs[1:])
    return {"wall_s": round(min(walls), 4), "cpu_s": round(min(cpus), 4), "peak_mb": round(max(peaks), 1)}


def commands(programs, folder):
    """The commands to measure: (name, seconds that it should stay below or None, command)."""
    compile_example = [programs / "attn-compile", EXAMPLE]
    shape = ["--shape=batch=1", "--shape=queries=128", "--shape=keys=128"]
    on_gpu, on_host = [*compile_example, "--target=sm_90a", "-o"], [*compile_example, "--target=host", "-o"]
    run_on_host = [programs / "attn-run", EXAMPLE, "--target=host", *shape]
    return [
        ("start of attn-opt", 0.1, [programs / "attn-opt", os.devnull]),
        ("causal attention from text to cubin for sm_90a", 2, [*on_gpu, folder / "a.cubin"]),
        ("causal attention from text to a library for sm_90a", None, [*on_gpu, folder / "a.so"]),
        ("causal attention from text to a library for the host", None, [*on_host, folder / "b.so"]),
        ("first result of attn-run from text on the host", None, run_on_host),
    ]


def measure_calls(program, driver):
    """Microseconds of one call, and the device of the driver."""
    environment = dict(os.environ, **({"ATTN_CUDA_DRIVER": str(driver)} if driver else {}))
    answer = subprocess.run([program], stdout=subprocess.PIPE, env=environment, check=True)
    return json.loads(answer.stdout)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", metavar="DIR", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--call-overhead", metavar="PROGRAM", type=pathlib.Path,
                        help="attn-call-overhead, to measure calls too")
    parser.add_argument("--driver", metavar="LIBRARY", type=pathlib.Path,
                        help="driver for calls (default: the machine's)")
    parser.add_argument("--repeats", metavar="N", type=int, default=10)
    harness.add_row_options(parser)
    options = parser.parse_args(arguments)

    commit = options.commit or harness.find_commit(options.build_dir / "bin" / "attn-compile")
    common = {"machine": describe_machine(), "date": datetime.date.today().isoformat(), "commit": commit}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, limit, command in commands(options.build_dir.resolve() / "bin", pathlib.Path(folder)):
            rows.append({"what": name, "limit_s": limit, **measure(command, options.repeats), **common})
            print(json.dumps(rows[-1]), flush=True)
    if options.call_overhead:
        calls = measure_calls(options.call_overhead, options.driver)
        name = "call of attention on the host, " + ("without the driver's part" if options.driver else calls["device"])
        rows.append({"what": name, "limit_s": 10e-6, "wall_s": round(calls["call_us"] * 1e-6, 9), **common})
        print(json.dumps(rows[-1]))
    for row in rows:
        harness.append_row(options.out, row, harness.read_history())
    return 0


if __name__ == "__main__":
    sys.exit(main())
