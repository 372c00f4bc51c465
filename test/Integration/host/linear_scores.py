# ===- linear_scores.py - A reduction over keys of another dialect -------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Runs host kernels of `test_attn.linear_scores`, attention without a softmax, and compares them with numpy in f64. The
# operation implements StreamingOpInterface and AttentionOpInterface, and may have the KV addressing of another dialect;
# the compiler knows nothing else of it.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --cc %host_cc --library %attn_libs_dir --work %t

import argparse
import ctypes
import dataclasses
import os
import sys

import numpy as np
from attention import EPSILON, F64, PIPELINE, descriptor, from_memory, round_to, run_tool, to_memory

ELEMENTS = {"bf16": np.uint16, "f16": np.float16, "f32": np.float32}


@dataclasses.dataclass
class Variant:
    """A function of memrefs with dynamic batch and lengths."""

    name: str
    dtype: str = "f32"
    heads: tuple = (2, 2)
    dims: tuple = (32, 32)
    scale: float = None
    mask: str = ""
    has_lengths: bool = False
    #: The addressing of test/lib.
    addressing: str = ""
    schedule: str = ""

    def module(self):
        q, k, v, o = (
            f"memref<?x{heads}x?x{dim}x{self.dtype}>"
            for heads, dim in zip((self.heads[0], self.heads[1], self.heads[1], self.heads[0]),
                                  (self.dims[0], self.dims[0], self.dims[1], self.dims[1]))
        )  # fmt: skip
        lengths = self.has_lengths and "memref<?xi32>"
        argument = f", %lengths: {lengths}" if lengths else ""
        options = f" key_lengths(%lengths : {lengths})" if lengths else ""
        options += f" scale({self.scale})" if self.scale is not None else ""
        options += f" mask({self.mask})" if self.mask else ""
        options += f" addressing(#test_attn.{self.addressing})" if self.addressing else ""
        options += f" schedule({self.schedule})" if self.schedule else ""
        return f"""
func.func @run(%q: {q}, %k: {k}, %v: {v}, %o: {o}{argument}) {{
  test_attn.linear_scores ins(%q, %k, %v : {q}, {k}, {v}) outs(%o : {o}){options}
  return
}}"""

    def get_rows(self, stored, lengths, entry):
        """The rows of the keys of a batch entry, in the order of the keys."""
        length = stored if lengths is None else int(lengths[entry])
        keys = np.arange(max(0, length - stored), length)
        return keys + stored - length if self.addressing == "left_padded_kv" else keys % stored

    def get_lengths(self, batch, stored, rng):
        """Lengths of keys; in ring buffers, more than there are rows."""
        if not self.addressing.startswith("ring_buffer_kv"):
            return rng.integers(0, stored + 1, batch, np.int32)
        lengths = rng.integers(0, 3 * stored + 1, batch, np.int32)
        page = int(self.addressing[len("ring_buffer_kv<") : -1])
        # Only whole pages are replaced.
        if stored % page:
            return lengths % (stored + 1)
        return np.where(lengths > stored, lengths // page * page, lengths).astype(np.int32)

    def get_scale(self):
        return self.dims[0] ** -0.5 if self.scale is None else self.scale


def sequential(query_tile, key_tile, work_items=0, balances=False):
    """The schedule of the host; with `work_items`, splits of keys, which are listed if it `balances` them."""
    parameters = f"query_tile = {query_tile}, key_tile = {key_tile}"
    if work_items:
        parameters += f", split_kv_work_items = {work_items}"
    if balances:
        parameters += ", balance_splits = true"
    return f"#attn_tile.sequential<{parameters}>"


VARIANTS = [
    Variant("plain"),
    Variant("f16", dtype="f16", dims=(64, 64)),
    Variant("bf16", dtype="bf16", dims=(40, 24), mask="#attn.causal"),
    Variant("causal", heads=(4, 2), mask="#attn.causal", scale=0.5),
    Variant("window", mask="#attn.sliding_window<left = 20, right = 0>", schedule=sequential(16, 16)),
    Variant("negative_scale", scale=-0.25),
    Variant("lengths", has_lengths=True, heads=(4, 2)),
    Variant("causal_lengths", has_lengths=True, mask="#attn.causal"),
    Variant("splits", schedule=sequential(16, 16, work_items=64)),
    Variant("split_lengths", schedule=sequential(8, 32, work_items=512), has_lengths=True, heads=(4, 1)),
    Variant("listed_splits", schedule=sequential(8, 32, work_items=512, balances=True), has_lengths=True, heads=(4, 1)),
    Variant("left_padded", has_lengths=True, addressing="left_padded_kv", heads=(4, 2), mask="#attn.causal"),
    Variant("left_padded_splits", schedule=sequential(8, 32, work_items=512), has_lengths=True,
            addressing="left_padded_kv"),
    Variant("left_padded_listed_splits", schedule=sequential(8, 32, work_items=512, balances=True), has_lengths=True,
            addressing="left_padded_kv", heads=(4, 1)),
    Variant("ring_buffer", has_lengths=True, addressing="ring_buffer_kv<1>", heads=(4, 2), mask="#attn.causal"),
    Variant("ring_buffer_of_pages", has_lengths=True, addressing="ring_buffer_kv<16>",
            schedule=sequential(16, 32), mask="#attn.sliding_window<left = 20, right = 0>"),
    Variant("ring_buffer_splits", schedule=sequential(8, 32, work_items=512), has_lengths=True, dtype="bf16",
            addressing="ring_buffer_kv<8>"),
    Variant("ring_buffer_listed_splits", schedule=sequential(8, 32, work_items=512, balances=True), has_lengths=True,
            addressing="ring_buffer_kv<1>", heads=(4, 1)),
]
SHAPES = [(1, 1, 1), (2, 37, 37), (1, 64, 130), (3, 5, 200), (1, 130, 64), (4, 33, 96)]


def keeps(variant, shape):
    """Whether pairs attend, `[B, 1, Sq, Skv]`."""
    _, queries, keys = shape
    i, j = np.ogrid[:queries, :keys]
    keep = np.ones((queries, keys), bool)
    if "causal" in variant.mask:
        keep &= j <= i + keys - queries
    if "window" in variant.mask:
        keep &= (j <= i + keys - queries) & (j >= i + keys - queries - 20)
    return keep


def compute(variant, q, k, v, lengths, step):
    """The formula on arrays; `step` rounds after each operation."""
    group = variant.heads[0] // variant.heads[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    out = np.empty((*q.shape[:3], v.shape[3]), q.dtype)
    for b in range(q.shape[0]):
        rows = variant.get_rows(k.shape[2], lengths, b)
        scores = step(step(q[b] @ k[b][:, rows].transpose(0, 2, 1)) * variant.get_scale())
        scores = np.where(keeps(variant, scores.shape), scores, 0)
        out[b] = step(scores @ v[b][:, rows])
    return out


def run(variant, library, shape, rng):
    """Returns a message if the results are wrong."""
    batch, queries, keys = shape
    (hq, hkv), (dqk, dv) = variant.heads, variant.dims
    lengths = None
    if variant.has_lengths:
        lengths = variant.get_lengths(batch, keys, rng)
    arrays = []
    for heads, length, dim in ((hq, queries, dqk), (hkv, keys, dqk), (hkv, keys, dv)):
        values = rng.standard_normal((batch, heads, length, dim))
        if lengths is not None and arrays:
            # Rows of no sequence are not numbers.
            for b in range(batch):
                is_padding = np.ones(length, bool)
                is_padding[variant.get_rows(length, lengths, b)] = False
                values[b, :, is_padding] = np.nan
        arrays.append(to_memory(values, variant.dtype))
    out = np.full((batch, hq, queries, dv), 7, ELEMENTS[variant.dtype])
    arguments = [*arrays, out] + ([lengths] if lengths is not None else [])
    library._mlir_ciface_run(*(ctypes.byref(descriptor(a)) for a in arguments))
    inputs = [from_memory(x, variant.dtype) for x in arrays]
    exact = compute(variant, *(x.astype(F64) for x in inputs), lengths, lambda x: x)
    rounded = compute(variant, *inputs, lengths, lambda x: round_to(x, variant.dtype))
    result = from_memory(out, variant.dtype).astype(F64)
    if not np.isfinite(result).all():
        return "output is not finite"
    allowed = 2 * np.abs(rounded - exact).max() + EPSILON[variant.dtype] * np.abs(exact).max() + 1e-5
    if np.abs(result - exact).max() > allowed:
        return f"error {np.abs(result - exact).max():.3g}, allowed {allowed:.3g}"
    return None


def compile_variant(variant, path, args):
    with open(path + ".mlir", "w") as file:
        file.write(variant.module())
    run_tool(["attn-test-opt", path + ".mlir", f"--pass-pipeline={PIPELINE}", "-o", path + ".llvm.mlir"])
    run_tool(["mlir-translate", "--mlir-to-llvmir", path + ".llvm.mlir", "-o", path + ".ll"])
    run_tool([args.cc, "-O1", "-march=native", "-shared", "-fPIC", "-Wno-override-module", path + ".ll", "-o",
              path + ".so", "-L" + args.library, "-lattn_runtime", "-lm", "-Wl,-rpath," + args.library])  # fmt: skip
    return ctypes.CDLL(path + ".so")


def run_variants(variants, shapes, run):
    """Runs each variant with each shape, a batch and numbers of queries and keys; `run` returns a message if results
    are wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--work", required=True)
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    failures = 0
    for variant in variants:
        library = compile_variant(variant, os.path.join(args.work, variant.name), args)
        rng = np.random.default_rng(0)
        for shape in shapes:
            message = run(variant, library, shape, rng)
            if message:
                print(f"{variant.name}, batch, queries and keys {shape}: {message}")
                failures += 1
    sys.exit(failures != 0)


if __name__ == "__main__":
    run_variants(VARIANTS, SHAPES, run)
