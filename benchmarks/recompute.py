#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Two transformer blocks, forward and backward, whose memory is cut to budgets by attn-plan-recompute.

    python3 benchmarks/recompute.py --build BUILD --artifacts DIR
    python3 benchmarks/recompute.py --artifacts DIR [--out benchmarks/results/recompute.jsonl]

The first form compiles docs/examples/transformer_blocks.mlir once for each budget and needs no GPU. The second one needs torch, but
no compiler. Gradients are checked against torch in float64. Times are medians between events on the device; scratch memory is what
the functions allocate on the stream themselves, saved is what the forward function gives the backward one.
"""

import argparse
import ctypes
import datetime
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
sys.path.insert(0, str(ROOT / "benchmarks"))

from forward import median_ms  # noqa: E402

EXAMPLE = ROOT / "docs" / "examples" / "transformer_blocks.mlir"
# Megabytes; the largest one bounds nothing.
BUDGETS = (1000, 200, 100, 50, 20)
USED_HIGH, MEMPOOL_HANDLE = 8, 17
HEADS = 8


def name_of(budget):
    return f"blocks_{budget}"


def compile_artifacts(build, directory):
    os.makedirs(directory, exist_ok=True)
    for budget in BUDGETS:
        print(name_of(budget), file=sys.stderr)
        planned = os.path.join(directory, name_of(budget) + ".mlir")
        passes = ["--inline", "--attn-differentiate=function=blocks", f"--attn-plan-recompute=budget={budget * 10**6}"]
        passes += ["--symbol-privatize=exclude=blocks_fwd,blocks_bwd", "--symbol-dce"]
        subprocess.run([f"{build}/bin/attn-opt", EXAMPLE, *passes, "-o", planned], check=True)
        artifact = os.path.join(directory, name_of(budget) + ".so")
        subprocess.run([f"{build}/bin/attn-compile", planned, "-o", artifact, "--target=sm_90a"], check=True)


class Pool:
    """The memory that functions allocate on a stream: the runtime has a pool of its own, which what it allocates tells."""

    def __init__(self, runtime, stream):
        self.driver, library = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(runtime)
        pointer, self.pool, stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(stream)
        assert library.attnrtMallocAsync(ctypes.byref(pointer), ctypes.c_int64(1), stream) == 0
        assert self.driver.cuPointerGetAttribute(ctypes.byref(self.pool), MEMPOOL_HANDLE, pointer) == 0
        assert library.attnrtFreeAsync(pointer, stream) == 0

    def high(self):
        """The most bytes in use at a time since the last call."""
        value, none = ctypes.c_uint64(), ctypes.c_uint64(0)
        assert self.driver.cuMemPoolGetAttribute(self.pool, USED_HIGH, ctypes.byref(value)) == 0
        assert self.driver.cuMemPoolSetAttribute(self.pool, USED_HIGH, ctypes.byref(none)) == 0
        return value.value


def reference(torch, inputs, dout):
    """Gradients by torch in float64."""
    wide = [x.double().requires_grad_() for x in inputs]
    x, gain, wq, wk, wv, wo, w1, w2 = wide

    def norm(x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * gain

    def heads(y):
        return y.unflatten(-1, (HEADS, -1)).transpose(0, 1)

    def block(x):
        n = norm(x)
        q, k, v = (heads(n @ w) for w in (wq, wk, wv))
        later = torch.ones(len(x), len(x), dtype=torch.bool, device=x.device).triu(1)
        rows = []
        for h in range(HEADS):
            scores = (q[h] @ k[h].T * q.shape[-1] ** -0.5).masked_fill(later, float("-inf"))
            rows.append(scores.softmax(-1) @ v[h])
        r = x + torch.stack(rows, 1).flatten(1) @ wo
        return r + torch.nn.functional.silu(norm(r) @ w1) @ w2

    return torch.autograd.grad(block(block(x)), wide, dout.double())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", required=True, help="directory of compiled artifacts")
    parser.add_argument("--build", help="compile the artifacts with the tools of this build and stop")
    parser.add_argument("--runtime", default="libattn_runtime.so", help="the runtime library")
    parser.add_argument("--out", help="file to append rows to")
    parser.add_argument("--commit", default="", help="commit that the artifacts were built from")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    if options.build:
        compile_artifacts(options.build, options.artifacts)
        return 0

    import torch

    from attn.artifact import Artifact

    torch.manual_seed(0)
    dtypes = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
    expected, failures = None, 0
    for budget in BUDGETS:
        path = os.path.join(options.artifacts, name_of(budget) + ".so")
        if not os.path.exists(path):
            continue
        artifact = Artifact(path, options.runtime)
        forward, backward = artifact["blocks_fwd"], artifact["blocks_bwd"]

        def make(arguments):
            return [torch.full(dims, float("nan"), dtype=dtypes.get(dtype, dtype), device="cuda") for _, dtype, dims, _ in arguments]

        outputs = make([argument for argument in forward.args if argument[-1]])
        grads = make([argument for argument in backward.args if argument[-1]])
        if expected is None:
            shapes = [dims for _, _, dims, is_output in forward.args if not is_output]
            inputs = [torch.randn(shape, device="cuda").to(torch.bfloat16) for shape in shapes]
            for number, shape in enumerate(shapes):
                if len(shape) == 2 and number:
                    inputs[number] *= shape[0] ** -0.5
            inputs[1] = (1 + 0.1 * inputs[1]).to(torch.bfloat16)
            dout = torch.randn_like(inputs[0])
            expected = reference(torch, inputs, dout)
            pool = Pool(options.runtime, torch.cuda.current_stream().cuda_stream)
        stream = torch.cuda.current_stream().cuda_stream
        run_forward = forward.bind(*inputs, *outputs, stream=stream)
        run_backward = backward.bind(*inputs, *outputs, dout, *grads, stream=stream)

        def both():
            run_forward()
            run_backward()

        peaks = []
        pool.high()
        for run in (run_forward, run_backward):
            run()
            torch.cuda.synchronize()
            peaks.append(pool.high())
        error = max(((a.double() - e).norm() / e.norm()).item() for a, e in zip(grads, expected))
        good = error < 5e-2
        failures += not good
        saved = sum(x.numel() * x.element_size() for x in outputs[1:])
        row = dict(suite="recompute", example=EXAMPLE.stem, budget_mb=budget, saved_mb=saved / 1e6, error=error)
        row.update(forward_scratch_mb=peaks[0] / 1e6, backward_scratch_mb=peaks[1] / 1e6, peak_mb=(saved + max(peaks)) / 1e6)
        for key, run in (("forward_ms", run_forward), ("backward_ms", run_backward), ("ms", both)):
            row[key] = median_ms(torch, run, options.repeats)
        row.update(device=torch.cuda.get_device_name(), commit=options.commit)
        row.update(date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"))
        print(json.dumps(row) + ("" if good else "  WRONG"), flush=True)
        if options.out:
            with open(options.out, "a") as file:
                file.write(json.dumps(row) + "\n")
        del outputs, grads, run_forward, run_backward
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
