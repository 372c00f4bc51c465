#!/usr/bin/env python3
# ===- float8_gradients.py - Gradients of 8-bit attention on a GPU ------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compares gradients of attention to 8-bit numbers on a GPU with f64.

    float8_gradients.py --compile build/bin/attn-compile --artifacts DIR [--target sm_80]
    float8_gradients.py --artifacts DIR --runtime libattn_runtime.so

Scores have a factor for each batch entry and key head. The output and the log-sum-exp are computed in f64. Errors are norms,
compared with the error of the same gradient in torch operations of 16 bits. Gradients are filled with NaN before a call.
"""

import dataclasses
import math
import sys
from functools import partial
from typing import Optional, Tuple

from device_suite import choose_variants, compile_artifact, load, make_parser, run_cases

E4M3, E5M2 = "f8E4M3FN", "f8E5M2"
SHAPES = [dict(b=2, q=333, k=447), dict(b=1, q=130, k=130), dict(b=3, q=65, k=33), dict(b=1, q=1, k=64)]
ROUNDING = {"bf16": 2.0**-8, "f16": 2.0**-11}


@dataclasses.dataclass(frozen=True)
class Variant:
    """A gradient: dtypes of query, key and value, and of the gradient of the output if the output has another one."""

    dtypes: Tuple[str, str, str] = (E4M3, E4M3, E4M3)
    dout: str = ""
    dim: int = 64
    heads: Tuple[int, int] = (4, 2)
    causal: bool = True
    out: str = "bf16"
    grad: str = "f32"
    deterministic: bool = False

    @property
    def name(self):
        parts = [*self.dtypes, self.dout or self.out, f"d{self.dim}", "h%d_%d" % self.heads, self.out, self.grad]
        return "_".join(parts + ["causal"] * self.causal + ["deterministic"] * self.deterministic)

    # What `choose_variants` looks at: the operands become wider, on all GPUs.
    is_for_sm_90a = False

    def tensors(self, b: Optional[int] = None, q: Optional[int] = None, k: Optional[int] = None):
        """Shapes and dtypes of the inputs, then of the gradients."""
        hq, hk = self.heads
        query, key, rows = (b, hq, q, self.dim), (b, hk, k, self.dim), (b, hq, q)
        inputs = list(zip((query, key, key), self.dtypes))
        inputs += [((b, hk), "f32"), (query, self.out), (rows, "f32"), (query, self.dout or self.out)]
        wide = ("bf16", "f16", "f32")
        return inputs, [(query, self.dtypes[0] if self.dtypes[0] in wide else self.grad), (key, self.grad), (key, self.grad)]

    def module(self):
        def tensor(shape, dtype):
            return "tensor<" + "".join(f"{size or '?'}x" for size in shape) + dtype + ">"

        inputs, grads = ([tensor(*one) for one in part] for part in self.tensors())
        names = ("q", "k", "v", "scale", "out", "lse", "dout")
        q, k, v, scale, *_ = inputs
        results = ", ".join(grads)
        options = ("mask(#attn.causal) " if self.causal else "") + ("deterministic " if self.deterministic else "")
        return f"""func.func @gradient({", ".join(f"%{name}: {kind}" for name, kind in zip(names, inputs))}) -> ({results}) {{
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %b = tensor.dim %q, %c0 : {q}
  %m = tensor.dim %q, %c2 : {q}
  %n = tensor.dim %k, %c2 : {k}
  %dq = tensor.empty(%b, %m) : {grads[0]}
  %dk = tensor.empty(%b, %n) : {grads[1]}
  %dv = tensor.empty(%b, %n) : {grads[2]}
  %r:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : {q}, {k}, {v}, {", ".join(inputs[4:])})
      outs(%dq, %dk, %dv : {results}) {options}
      score_mod {{
      ^bb0(%s: f32, %bi: index, %h: index, %i: index, %j: index):
        %group = arith.constant {self.heads[0] // self.heads[1]} : index
        %shared = arith.floordivsi %h, %group : index
        %x = tensor.extract %scale[%bi, %shared] : {scale}
        %y = arith.mulf %s, %x : f32
        attn.yield %y : f32
      }} -> {results}
  return %r#0, %r#1, %r#2 : {results}
}}
"""


VARIANTS = [
    Variant(),
    Variant(dim=128, causal=False),
    Variant(dim=128, dout=E5M2, heads=(8, 2)),
    Variant((E5M2, E5M2, E5M2), causal=False),
    Variant((E5M2, E4M3, E5M2), dout=E4M3, dim=128),
    Variant(dim=256, heads=(2, 1)),
    Variant(dim=80, heads=(2, 2), grad="bf16"),
    Variant(out="f16", dout=E5M2, grad="f16"),
    Variant(heads=(2, 2), deterministic=True),
    Variant(("bf16", E4M3, E4M3)),
    Variant(("f16", E5M2, E5M2), out="f16", dim=128, causal=False),
]


def compile_artifacts(options):
    for variant in choose_variants(options, VARIANTS):
        flags = ["--embed-ptx=false"] * options.assemble
        compile_artifact(options, variant.name, variant.module(), *flags, passes=["--attn-derive-score-grad"])


def attend(torch, variant, q, k, v, scale):
    """The output and the log-sum-exp, by operations in the dtype of the operands."""
    group = variant.heads[0] // variant.heads[1]
    k, v, scale = (x.repeat_interleave(group, 1) for x in (k, v, scale))
    s = q @ k.transpose(-1, -2) * (scale.to(q.dtype)[..., None, None] / math.sqrt(variant.dim))
    i = torch.arange(s.shape[2], device=s.device)[:, None] + s.shape[3] - s.shape[2]
    masked = torch.arange(s.shape[3], device=s.device) > i
    if not variant.causal:
        masked = torch.zeros_like(masked)
    empty = masked.all(-1)[:, None]
    s = s.masked_fill(masked, -torch.inf)
    p = s.masked_fill(empty, 0).softmax(-1).masked_fill(empty, 0)
    return p @ v, s.logsumexp(-1)


def run_case(torch, function, variant, sizes, seed):
    """A message if something is wrong."""
    types = {
        "bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, E4M3: torch.float8_e4m3fn,
        E5M2: torch.float8_e5m2,
    }  # fmt: skip
    generator = torch.Generator("cuda").manual_seed(seed)
    inputs, grads = variant.tensors(**sizes)
    q, k, v, scale, _, _, dout = (
        torch.randn(shape, device="cuda", generator=generator).to(types[dtype]) for shape, dtype in inputs
    )
    scale = scale.abs() + 0.25

    def differentiate(dtype):
        leaves = [x.to(dtype).requires_grad_() for x in (q, k, v)]
        out, lse = attend(torch, variant, *leaves, scale)
        return out.detach(), lse.detach(), torch.autograd.grad(out, leaves, dout.to(dtype))

    out, lse, exact = differentiate(torch.float64)
    _, _, rounded = differentiate(types[variant.out])
    found = [torch.full(shape, torch.nan, device="cuda", dtype=types[dtype]) for shape, dtype in grads]
    function(q, k, v, scale, out.to(types[variant.out]), lse.float(), dout, *found)
    torch.cuda.synchronize()
    for name, result, expected, other in zip(("dq", "dk", "dv"), found, exact, rounded):
        if not result.isfinite().all():
            return f"{name} is not finite"
        error = (result.double() - expected).norm().item()
        # Where exact gradients vanish only roundings are left.
        size = expected.norm().item() + 1e-2 * result.numel() ** 0.5
        allowed = 2 * (other.double() - expected).norm().item() + ROUNDING[variant.out] * size
        if not error <= allowed:
            return f"{name}: error {error:.3g}, allowed {allowed:.3g}, of {expected.norm().item():.3g}"
    return None


def make_cases(torch, options):
    for variant in choose_variants(options, VARIANTS):
        function = load(options, variant.name, "gradient")
        for seed, sizes in enumerate(SHAPES):
            yield f"{variant.name} {sizes}", partial(run_case, torch, function, variant, sizes, seed)


def main():
    options = make_parser(__doc__, "target", "assemble", "only", "every").parse_args()
    if options.compile:
        compile_artifacts(options)
        return 0

    import torch

    return run_cases(make_cases(torch, options), options)


if __name__ == "__main__":
    sys.exit(main())
