#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Two transformer blocks, forward and backward, whose memory is cut to budgets by attn-plan-recompute.

    python3 benchmarks/recompute.py --compile BUILD/bin/attn-compile --artifacts DIR
    python3 benchmarks/recompute.py --artifacts DIR [--out benchmarks/results/recompute.jsonl]

The first form compiles docs/examples/transformer_blocks.mlir once for each budget, with the attn-opt in the compiler's
folder, and needs no GPU. The second one needs torch, but no compiler. Gradients are checked against torch in float64.
Times are medians between events on the device. Scratch memory is memory that the functions allocate on the stream
themselves. Saved memory is the memory of the tensors that the forward function gives to the backward function.
"""

import ctypes
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "docs" / "examples" / "transformer_blocks.mlir"
# Megabytes; the largest one bounds nothing.
BUDGETS = (1000, 200, 100, 50, 20)
USED_HIGH, MEMPOOL_HANDLE = 8, 17
HEADS = 8
# Relative error of gradients of two blocks in bf16.
MAX_ERROR = 5e-2


def name_of(budget):
    return f"blocks_{budget}"


def make_modules(compiler):
    """The functions of each budget, by the name of the artifact."""
    modules, tool = {}, os.path.join(os.path.dirname(compiler), "attn-opt")
    for budget in BUDGETS:
        passes = ["--inline", "--attn-differentiate=function=blocks", f"--attn-plan-recompute=budget={budget * 10**6}"]
        passes += ["--symbol-privatize=exclude=blocks_fwd,blocks_bwd", "--symbol-dce"]
        done = subprocess.run([tool, EXAMPLE, *passes], check=True, stdout=subprocess.PIPE, text=True)
        modules[name_of(budget)] = done.stdout
    return modules


class Pool:
    """The memory that functions allocate on a stream. The runtime has its own pool, found by an allocation."""

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


def make_parser():
    return harness.make_parser(__doc__, "target", "repeats")


class Inputs:
    """Arguments of the blocks, the gradient of their result, and expected gradients."""

    def __init__(self, torch, forward):
        shapes = [dims for _, _, dims, is_output in forward.args if not is_output]
        self.tensors = [torch.randn(shape, device=harness.DEVICE).to(torch.bfloat16) for shape in shapes]
        for number, shape in enumerate(shapes):
            if len(shape) == 2 and number:
                self.tensors[number] *= shape[0] ** -0.5
        self.tensors[1] = (1 + 0.1 * self.tensors[1]).to(torch.bfloat16)
        self.dout = torch.randn_like(self.tensors[0])
        self.expected = reference(torch, self.tensors, self.dout)


def make_outputs(torch, arguments):
    """Tensors for the outputs among the arguments of a function."""
    dtypes = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
    return [torch.full(dims, float("nan"), dtype=dtypes.get(dtype, dtype), device=harness.DEVICE)
            for _, dtype, dims, is_output in arguments if is_output]


def measure(torch, options, artifact, inputs, pool):
    """Error, megabytes and milliseconds of the functions of a budget."""
    forward, backward = artifact["blocks_fwd"], artifact["blocks_bwd"]
    outputs, grads = make_outputs(torch, forward.args), make_outputs(torch, backward.args)
    stream = harness.get_stream(torch)
    run_forward = forward.bind(*inputs.tensors, *outputs, stream=stream)
    run_backward = backward.bind(*inputs.tensors, *outputs, inputs.dout, *grads, stream=stream)

    def both():
        run_forward()
        run_backward()

    peaks = []
    pool.high()
    for run in (run_forward, run_backward):
        run()
        harness.synchronize(torch)
        peaks.append(pool.high())
    error = max(((a.double() - e).norm() / e.norm()).item() for a, e in zip(grads, inputs.expected))
    saved = sum(x.numel() * x.element_size() for x in outputs[1:])
    fields = dict(saved_mb=saved / 1e6, error=error, forward_scratch_mb=peaks[0] / 1e6,
                  backward_scratch_mb=peaks[1] / 1e6, peak_mb=(saved + max(peaks)) / 1e6)
    for key, run in (("forward_ms", run_forward), ("backward_ms", run_backward), ("ms", both)):
        fields[key] = harness.median_ms(torch, run, options.repeats)
    return fields


def main():
    options = make_parser().parse_args()
    if options.compile:
        harness.compile_modules(options, make_modules(options.compile))
        return 0

    import torch

    torch.manual_seed(0)
    rows, artifacts = harness.Rows(options, harness.describe_device(torch)), harness.Artifacts(options)
    inputs = pool = None
    failures = 0
    for budget in BUDGETS:
        if name_of(budget) not in artifacts:
            continue
        artifact = artifacts.load(name_of(budget))
        inputs = inputs or Inputs(torch, artifact["blocks_fwd"])
        pool = pool or Pool(options.runtime, harness.get_stream(torch))
        fields = measure(torch, options, artifact, inputs, pool)
        is_right = fields["error"] < MAX_ERROR
        failures += not is_right
        row = rows.add(artifacts.commit_of(name_of(budget)), suite="recompute", example=EXAMPLE.stem, budget_mb=budget,
                       **fields)
        print(json.dumps(row) + ("" if is_right else "  WRONG"), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
