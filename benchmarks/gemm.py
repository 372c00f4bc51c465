#!/usr/bin/env python3
# ===- gemm.py - Matmuls, timed on a GPU -------------------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Times matmuls and cuBLAS, through torch.

    gemm.py --compile build/bin/attn-compile --artifacts DIR
    gemm.py --artifacts DIR --runtime libattn_runtime.so --out benchmarks/results/gemm.jsonl

The operands have the layout of a linear layer, [M, K] and [N, K], or with form nn [M, K] and [K, N]. Kernels of both
sides are timed alternately, several launches at a time, so that both have the clock rate of a device at its power
limit.
"""

import itertools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402

SHAPES = ((8192, 6144, 4096), (8192, 12288, 4096), (8192, 8192, 8192), (4096, 4096, 4096), (2048, 6144, 4096),
          (16384, 4096, 14336))
FORMS = ("nt", "nn")
# Largest element of a difference from the matmul in f32, over the root of the mean square.
MAX_ERROR = 0.05


def module(form, bias, schedule, shape=None):
    """A matmul with dynamic sizes, or of one shape."""
    y = "tensor<?xf32>"
    m, n, k = shape or "???"
    lhs, x = f"tensor<{m}x{k}xbf16>", f"tensor<{m}x{n}xbf16>"
    rhs = f"tensor<{n}x{k}xbf16>" if form == "nt" else f"tensor<{k}x{n}xbf16>"
    transpose = "transpose_rhs" if form == "nt" else ""
    given = f"schedule({schedule})" if schedule else ""
    epilogue = """epilogue {
    ^bb0(%s: f32, %b: index, %i: index, %j: index):
      %x = tensor.extract %bias[%j] : tensor<?xf32>
      %t = arith.addf %s, %x : f32
      attn.yield %t : f32
  }""" if bias else ""
    argument = f"%bias: {y}, " if bias else ""
    return f"""func.func @run(%lhs: {lhs}, %rhs: {rhs}, {argument}%out: {x}) -> {x} {{
  %r = attn.matmul ins(%lhs, %rhs : {lhs}, {rhs}) outs(%out : {x}) {transpose} {given} {epilogue} -> {x}
  return %r : {x}
}}
"""


def make_modules(schedules):
    """Modules by the name of the artifact: a form, and the variant of the matmul."""
    kinds = [("", False, ""), ("_bias", True, "")]
    kinds += [(f"_{name}", False, schedule) for name, schedule in schedules.items()]
    return {form + suffix: module(form, bias, schedule) for form in FORMS for suffix, bias, schedule in kinds}


def make_parser():
    parser = harness.make_parser(__doc__, "target", "rounds", rounds=15)
    parser.add_argument("--schedule", action="append", default=[], metavar="NAME=ATTR",
                        help="also compile a matmul without bias with this schedule")
    parser.add_argument("--only", default="", help="names of what to time, of those compiled (all)")
    parser.add_argument("--shapes", default="", help="MxNxK of the matmuls to time (all)")
    parser.add_argument("--launches", type=int, default=4, help="launches of one measurement")
    return parser


class Operands:
    """Random operands of one shape and form, and the result of cuBLAS."""

    def __init__(self, torch, shape, form):
        m, n, k = shape

        def make(*sizes):
            return torch.randn(*sizes, device=harness.DEVICE, dtype=torch.bfloat16)

        self.lhs, self.rhs = make(m, k), make(n, k) if form == "nt" else make(k, n)
        self.matrix = self.rhs.t() if form == "nt" else self.rhs
        self.bias = torch.randn(n, device=harness.DEVICE)
        self.peer = torch.empty(m, n, device=harness.DEVICE, dtype=torch.bfloat16)

    def get_error(self, name, out):
        expected = self.peer.float() + self.bias if name.endswith("_bias") else self.peer.float()
        return ((out.float() - expected).abs().max() / expected.square().mean().sqrt()).item()


def measure(torch, options, artifacts, names, shape, form):
    """Milliseconds of cuBLAS and of the artifacts of a form, and errors of the latter."""
    operands = Operands(torch, shape, form)
    runs = {"cublas": lambda: torch.matmul(operands.lhs, operands.matrix, out=operands.peer)}
    outs, times = {}, {}
    for name in names:
        outs[name] = torch.zeros_like(operands.peer)
        extra = [operands.bias] if name.endswith("_bias") else []
        runs[name] = artifacts.load(name)["run"].bind(operands.lhs, operands.rhs, *extra, outs[name],
                                                      stream=harness.get_stream(torch))
    # The first round warms up.
    for number in range(options.rounds + 1):
        for name, run in runs.items():
            ms = harness.time_once(torch, run, options.launches)
            if number:
                times.setdefault(name, []).append(ms)
    errors = {name: operands.get_error(name, out) for name, out in outs.items()}
    return {name: harness.median(values) for name, values in times.items()}, errors


def select_names(options, artifacts):
    """The artifacts to time; stops the program if a requested one does not exist."""
    names = sorted(artifacts.commits)
    wanted = harness.split_list(options.only)
    missing = [name for name in wanted if name not in names]
    if missing:
        sys.exit(f"error: there is no artifact '{missing[0]}' in '{options.artifacts}' (it has {', '.join(names)})")
    return wanted or names


def main():
    options = make_parser().parse_args()
    if options.compile:
        schedules = dict(entry.split("=", 1) for entry in options.schedule)
        flags = ["--fail-on-spills"] if options.target != "host" else []
        harness.compile_modules(options, make_modules(schedules), *flags)
        return 0

    import torch

    torch.manual_seed(0)
    rows, artifacts = harness.Rows(options, harness.describe_device(torch)), harness.Artifacts(options)
    names = select_names(options, artifacts)
    shapes = [tuple(map(int, text.split("x"))) for text in harness.split_list(options.shapes)] or SHAPES
    wrong = 0
    for shape, form in itertools.product(shapes, FORMS):
        of_form = [name for name in names if name.startswith(form)]
        if not of_form:
            continue
        m, n, k = shape
        times, errors = measure(torch, options, artifacts, of_form, shape, form)
        for name, ms in times.items():
            is_ours = name in errors
            row = rows.add(artifacts.commit_of(name if is_ours else of_form[0]), op="attn" if is_ours else "cublas",
                           M=m, N=n, K=k, form=form, epilogue="bias" if name.endswith("_bias") else "none", ms=ms,
                           tflops=2.0 * m * n * k / ms / 1e9, **({"error": errors[name]} if is_ours else {}))
            text = f"{m}x{n}x{k} {name:16s}{ms:8.4f} ms {row['tflops']:6.1f} TFLOP/s"
            if is_ours:
                is_right = errors[name] <= MAX_ERROR
                wrong += not is_right
                text += f"  {times['cublas'] / ms:.3f} of cuBLAS  error {errors[name]:.4f}"
                text += "" if is_right else "  WRONG"
            print(text, flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
