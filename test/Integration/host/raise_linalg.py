# ===- raise_linalg.py - Numerics of attention found in linalg --------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Runs the functions that attn-raise-linalg is tested with, as they are written
# and with attention found in them, and compares both with NumPy in f64.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --inputs %S/../../Conversion/LinalgToAttn --work %t

import argparse
import os
import re
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "Inputs"))
from tool_cache import run_tool  # noqa: E402

EPSILON = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24}


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q, k, v, scale=1.0, bias=0.0, keep=True, cap=None):
    """Attention of [B, H, S, D] in f64; key heads are repeated."""
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = scale * np.einsum("bhid,bhjd->bhij", q, k)
    if cap:
        s = cap * np.tanh(s / cap)
    return np.einsum("bhij,bhjd->bhid", softmax(np.where(keep, s + bias, -np.inf)), v)


def positions(sq, skv):
    return np.arange(sq)[:, None], np.arange(skv)[None, :]


def split(x, heads):
    """[B, S, H * D] to [B, H, S, D]"""
    b, s, c = x.shape
    return x.reshape(b, s, heads, c // heads).transpose(0, 2, 1, 3)


def merge(x):
    b, h, s, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(b, s, h * d)


def swap(x):
    return x.transpose(0, 2, 1, 3)


def swap_last(x):
    return x.swapaxes(-1, -2)


def bert(q, k, v, mask):
    bias = (1.0 - mask[:, None, None, :]) * -3.4028234663852886e38
    return merge(attention(split(q, 3), split(k, 3), split(v, 3), 8**-0.5, bias))


def gpt2(q, k, v):
    i, j = positions(20, 20)
    return merge(attention(q, k, v, 0.25, keep=j <= i))


def llama(q, k, v, mask):
    return attention(q, k, v, 8**-0.5, mask)


def t5(q, k, v, bias):
    return swap(attention(swap(q), swap(k), swap(v), 1.0, bias))


def llama_window(q, k, v):
    i, j = positions(16, 16)
    q = q.reshape(2, 16, 6, 16)
    return merge(attention(swap(q), swap(k), swap(v), 0.25, keep=(j <= i) & (i - j <= 4)))


def fused(q, k, v):
    i, j = positions(18, 18)
    return attention(q[None], k[None], v[None], 0.25, keep=j <= i, cap=5.0)[0]


def base2(q, k, v):
    i, j = positions(18, 18)
    return attention(q[None], k[None], v[None], 0.5, keep=j <= i)[0]


def base2_cap(q, k, v):
    return fused(q, k, v)


def vit(q, k, v):
    return merge(attention(q[None], k[None], v[None], 8**-0.5))


def late_quotient(q, k, v):
    return attention(q[None], swap_last(k)[None], v[None], 0.5)[0]


def late_grouped(q, k, v):
    i, j = positions(20, 20)
    return merge(attention(q, k, v, keep=j <= i))


def late_dynamic(q, k, v):
    return swap(attention(q, k, v))


def dropout(q, k, v, keep, scale, p):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    weights = softmax(scale * np.einsum("bhid,bhjd->bhij", q, k))
    return np.einsum("bhij,bhjd->bhid", np.where(keep, weights / (1 - p), 0), v)


def dropout_torch(q, k, v, mask):
    return dropout(q, k, v, mask != 0, 8**-0.5, 0.125)


def dropout_select(q, k, v, mask):
    return dropout(q, k, v, mask[:, None] != 0, 0.25, 0.1)


def dropout_random(q, k, v, random):
    return dropout(q[None], swap_last(k)[None], v[None], random >= np.float32(0.3), 1.0, 0.0)[0]


def dropout_numbers(q, k, v, mask):
    return dropout(q[None], swap_last(k)[None], v[None], mask != 0, 1.0, 0.2)[0]


def dropout_integers(q, k, v, mask):
    return dropout(q[None], swap_last(k)[None], v[None], mask != 0, 1.0, 0.5)[0]


def keep_mask(dtype):
    return lambda rng, shape: (rng.random(shape) < 0.8).astype(dtype)


def uniform(rng, shape):
    return rng.random(shape, dtype=np.float32)


def padding(rng, shape):
    """Ones for the first keys of each batch entry."""
    return (np.arange(shape[1])[None, :] < rng.integers(1, shape[1] + 1, (shape[0], 1))).astype(np.int64)


def window_mask(rng, shape):
    i, j = positions(*shape[-2:])
    return np.broadcast_to(np.where(j <= i + 2, 0.0, -3.4028234663852886e38), shape).astype(np.float32)


F32, F16, BF16 = "f32", "f16", "bf16"


class Case:
    """A function: file, element type, shapes or makers of inputs, reference."""

    def __init__(self, reference, file, element, inputs, special=None, assumed=None):
        self.name, self.reference, self.file = reference.__name__, reference, file
        self.element, self.inputs, self.special = element, inputs, special or {}
        #: The assumptions of attn-raise-linalg.
        self.assumed = assumed


CASES = [
    Case(bert, "torch-mlir", F32, [(2, 24, 24)] * 3 + [(2, 24)], {3: padding}),
    Case(gpt2, "torch-mlir", F16, [(2, 2, 20, 16)] * 3),
    Case(llama, "torch-mlir", F32, [(2, 6, 11, 8), (2, 2, 13, 8), (2, 2, 13, 8), (2, 1, 11, 13)],
         {3: window_mask}),
    Case(t5, "stablehlo", F32, [(2, 12, 3, 8), (2, 20, 3, 8), (2, 20, 3, 8), (3, 12, 20)]),
    Case(llama_window, "stablehlo", BF16, [(2, 16, 2, 3, 16), (2, 16, 2, 16), (2, 16, 2, 16)]),
    Case(fused, "iree", F16, [(4, 18, 16)] * 3),
    Case(base2, "iree", F16, [(4, 18, 16)] * 3),
    Case(base2_cap, "iree", F16, [(4, 18, 16)] * 3),
    Case(vit, "tosa", F32, [(4, 17, 8)] * 3),
    Case(late_quotient, "raise-late", F32, [(3, 20, 8), (3, 8, 12), (3, 12, 16)]),
    Case(late_grouped, "raise-late", F16, [(2, 6, 20, 16), (2, 2, 20, 16), (2, 2, 20, 16)]),
    Case(late_dynamic, "raise-late", F32, [(2, 4, 19, 8), (2, 4, 27, 8), (2, 4, 27, 8)]),
    Case(dropout_torch, "raise-dropout", F32, [(2, 3, 20, 8), (2, 3, 70, 8), (2, 3, 70, 8), (2, 3, 20, 70)],
         {3: keep_mask(bool)}),
    Case(dropout_select, "raise-dropout", F16, [(2, 2, 37, 16), (2, 2, 65, 16), (2, 2, 65, 16), (2, 37, 65)],
         {3: keep_mask(np.int8)}),
    Case(dropout_random, "raise-dropout", BF16, [(3, 16, 8), (3, 8, 16), (3, 16, 8), (3, 16, 16)], {3: uniform}),
    Case(dropout_numbers, "raise-dropout", F16, [(3, 16, 8), (3, 8, 16), (3, 16, 8), (3, 16, 16)],
         {3: keep_mask(np.float16)}, "assume-dropout-masks"),
    Case(dropout_integers, "raise-dropout", F32, [(3, 16, 8), (3, 8, 16), (3, 16, 8), (16, 16)],
         {3: keep_mask(np.int8)}, "assume-dropout-masks"),
]

TOSA = "builtin.module(func.func(tosa-to-linalg-named,tosa-to-linalg,tosa-to-arith,tosa-to-tensor))"


def round_to(x, element):
    if element == F16:
        return x.astype(np.float16).astype(np.float32)
    if element == BF16:
        bits = x.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)
    return x


def run(module, case, arrays, work, options):
    files = []
    for index, array in enumerate(arrays):
        files.append(os.path.join(work, f"{case.name}.{index}.npy"))
        np.save(files[-1], array)
    out, artifact = (os.path.join(work, case.name + suffix) for suffix in (".out.npy", ".so"))
    run_tool(["attn-compile", module, "--target=host", "-o", artifact, *options])
    command = ["attn-run", artifact, f"--function={case.name}", "--output-f32", f"--output={out}"]
    command += [f"--input={file}" for file in files]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{case.name}: {' '.join(command)}\n{done.stderr}")
    return np.load(out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", required=True)
    parser.add_argument("--work", required=True)
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    failures = 0
    for case in CASES:
        with open(os.path.join(args.inputs, case.file + ".mlir"), encoding="utf-8") as file:
            parts = [p for p in file.read().split("// -----\n") if f"func.func @{case.name}(" in p]
        (text,) = parts
        module = os.path.join(args.work, case.name + ".mlir")
        with open(module, "w", encoding="utf-8") as file:
            file.write(text)
        if "tosa." in text:
            subprocess.run(["mlir-opt", module, f"--pass-pipeline={TOSA}", "-o", module], check=True)
        if case.assumed:
            subprocess.run(["attn-opt", module, f"--attn-raise-linalg={case.assumed}", "-o", module], check=True)
        raised = subprocess.run(["attn-compile", module, "--stop-after=raise", "--emit=mlir", "-o", "-"],
                                capture_output=True, text=True, check=True).stdout
        # Keep masks are packed by a reduction over the bits of a word.
        packs = len(re.findall(r"dropout_mask +rows", raised))
        found = len(re.findall(r"= attn\.attention ", raised)) == 1 and packs == case.name.startswith("dropout")
        if not found or len(re.findall("reduction", raised)) != packs or re.search(r"matmul|softmax", raised):
            sys.exit(f"{case.name}: attention was not found")

        rng = np.random.default_rng(len(case.name))
        arrays = []
        for index, shape in enumerate(case.inputs):
            make = case.special.get(index)
            arrays.append(make(rng, shape) if make else
                          round_to(rng.standard_normal(shape).astype(np.float32), case.element))
        expected = case.reference(*[a.astype(np.float64) for a in arrays])
        # The operations as they are written round to the element type between
        # them; linalg.softmax alone has no lowering on its own.
        variants = {"raised": []}
        if "linalg.softmax" not in text:
            variants["written"] = ["--raise=false"]
        for variant, options in variants.items():
            result = run(module, case, arrays, args.work, options)
            error = np.abs(result - expected).max() / np.abs(expected).max()
            bound = 16 * EPSILON[case.element]
            ok = result.shape == expected.shape and error <= bound
            failures += not ok
            print(f"{case.name:20} {variant:8} {error:.2e} of {bound:.2e} {'ok' if ok else 'FAILED'}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
