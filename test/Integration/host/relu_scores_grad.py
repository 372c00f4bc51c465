# ===- relu_scores_grad.py - A gradient of another dialect ---------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Runs host kernels of `test_attn.relu_scores_grad`, the gradient of attention with a rectifier for the softmax, and
# compares them with numpy in f64. The operation implements StreamingGradOpInterface and AttentionOpInterface; the
# compiler knows nothing else of it.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --cc %host_cc --library %attn_libs_dir --work %t

import ctypes
import dataclasses

import numpy as np
from attention import EPSILON, F64, descriptor, from_memory, round_to, to_memory
from linear_scores import ELEMENTS, keeps, run_variants


@dataclasses.dataclass
class Variant:
    """A function of memrefs with dynamic batch and lengths."""

    name: str
    dtype: str = "f32"
    heads: tuple = (2, 2)
    dims: tuple = (32, 32)
    scale: float = None
    mask: str = ""
    # Without tiles, the compiler chooses a schedule.
    tiles: tuple = (16, 16)

    def module(self):
        (hq, hkv), (dqk, dv) = self.heads, self.dims
        q, k, v, o = (f"memref<?x{heads}x?x{dim}x{self.dtype}>"
                      for heads, dim in ((hq, dqk), (hkv, dqk), (hkv, dv), (hq, dv)))  # fmt: skip
        options = f" scale({self.scale})" if self.scale is not None else ""
        options += f" mask({self.mask})" if self.mask else ""
        if self.tiles:
            options += " schedule(#attn_tile.sequential<query_tile = %d, key_tile = %d>)" % self.tiles
        return f"""
func.func @run(%q: {q}, %k: {k}, %v: {v}, %o: {o}, %do: {o}, %dq: {q}, %dk: {k}, %dv: {v}) {{
  test_attn.relu_scores_grad ins(%q, %k, %v, %o, %do : {q}, {k}, {v}, {o}, {o})
      outs(%dq, %dk, %dv : {q}, {k}, {v}){options}
  return
}}"""

    def get_scale(self):
        return self.dims[0] ** -0.5 if self.scale is None else self.scale


VARIANTS = [
    Variant("plain"),
    Variant("f16", dtype="f16", dims=(64, 64)),
    Variant("bf16", dtype="bf16", dims=(40, 24), mask="#attn.causal"),
    Variant("grouped", heads=(4, 2), mask="#attn.causal", scale=0.5),
    Variant("window", mask="#attn.sliding_window<left = 20, right = 0>", tiles=(8, 32)),
    Variant("negative_scale", scale=-0.25, tiles=(32, 16)),
    Variant("chosen", heads=(4, 2), mask="#attn.causal", tiles=None),
]
SHAPES = [(1, 1, 1), (2, 37, 37), (1, 64, 130), (3, 5, 200), (1, 130, 64)]


def compute(variant, q, k, v, dout, step):
    """The gradients of queries, keys and values; `step` rounds after each operation."""
    group, scale = variant.heads[0] // variant.heads[1], variant.get_scale()

    def transpose(x):
        return x.transpose(0, 1, 3, 2)

    def sum_group(x):
        batch, _, keys, dim = x.shape
        return step(x.reshape(batch, variant.heads[1], group, keys, dim).sum(2))

    keys, values = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scores = step(step(q @ transpose(keys)) * scale)
    factors = np.where(keeps(variant, (1, q.shape[2], k.shape[2])), np.maximum(scores, 0), 0)
    score_grads = np.where(factors > 0, step(dout @ transpose(values)), 0)
    return (step(step(score_grads @ keys) * scale), sum_group(step(transpose(score_grads) @ q) * scale),
            sum_group(transpose(factors) @ dout))  # fmt: skip


def run(variant, library, shape, rng):
    """Returns a message if the results are wrong."""
    batch, queries, keys = shape
    (hq, hkv), (dqk, dv) = variant.heads, variant.dims
    sizes = ((hq, queries, dqk), (hkv, keys, dqk), (hkv, keys, dv), (hq, queries, dv))
    q, k, v, dout = (to_memory(rng.standard_normal((batch, *size)), variant.dtype) for size in sizes)
    # The gradient of a rectifier does not need the output.
    out = np.full_like(dout, 7)
    results = [np.full((batch, *size), 7, ELEMENTS[variant.dtype]) for size in sizes[:3]]
    library._mlir_ciface_run(*(ctypes.byref(descriptor(a)) for a in (q, k, v, out, dout, *results)))
    inputs = [from_memory(x, variant.dtype) for x in (q, k, v, dout)]
    exact = compute(variant, *(x.astype(F64) for x in inputs), lambda x: x)
    rounded = compute(variant, *inputs, lambda x: round_to(x, variant.dtype))
    for name, result, expected, other in zip(("dquery", "dkey", "dvalue"), results, exact, rounded):
        result = from_memory(result, variant.dtype).astype(F64)
        if not np.isfinite(result).all():
            return f"{name} is not finite"
        allowed = 2 * np.abs(other - expected).max() + EPSILON[variant.dtype] * np.abs(expected).max() + 1e-5
        if np.abs(result - expected).max() > allowed:
            return f"{name}: error {np.abs(result - expected).max():.3g}, allowed {allowed:.3g}"
    return None


if __name__ == "__main__":
    run_variants(VARIANTS, SHAPES, run)
