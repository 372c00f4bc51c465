# ===- raise_linear_attention.py - Numerics of linear attention in linalg ---===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Runs the functions in which attn-raise-linalg finds linear attention, as they
# are written and with linear attention, and compares both with NumPy in f64.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --inputs %S/../../Conversion/LinalgToAttn --work %t

import argparse
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from raise_linalg import BF16, EPSILON, F16, F32, Case, positions, round_to, run, swap  # noqa: E402


def attend(q, k, v, mask=1.0, scale=1.0):
    """Attention of [B, H, S, D] without a softmax; heads of keys and values are repeated."""
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    return np.einsum("bhij,bhjd->bhid", scale * np.einsum("bhid,bhjd->bhij", q, k) * mask, v)


def is_causal(tokens):
    i, j = positions(tokens, tokens)
    return (j <= i).astype(np.float64)


def decays(rates, tokens):
    """exp(rate (i - j)) of each head where j <= i, and 0 elsewhere."""
    i, j = positions(tokens, tokens)
    return np.exp(rates[:, None, None] * np.maximum(i - j, 0)) * is_causal(tokens)


def causal(q, k, v):
    return attend(q, k, v, is_causal(64), 0.125)


def retention(q, k, v, gamma):
    return attend(q, k, v, decays(np.log(gamma), 48), 0.5)


def grouped(q, k, v):
    return attend(q, k, v, decays(np.full(8, -0.125), 40))


def token_decay(q, k, v, c):
    c = c.transpose(0, 2, 1)
    exponent = np.minimum(c[..., :, None] - c[..., None, :], 0)
    return swap(attend(swap(q), swap(k), swap(v), np.exp(exponent) * is_causal(q.shape[1])))


def normalised(q, k, v):
    q, k = np.maximum(q, np.float32(0.001)), np.maximum(k, np.float32(0.001))
    weights = np.einsum("bid,bjd->bij", q, k) * is_causal(40)
    return weights / (weights.sum(-1, keepdims=True) + 1e-6) @ v


def twice(q, k, v):
    return normalised(q, k, v)


def padded(q, k, v, mask):
    weights = np.einsum("bhid,bhjd->bhij", q, k) * mask[:, None, None, :]
    return weights @ v / weights.sum(-1, keepdims=True)


def widened(q, k, v, rate, row):
    return (attend(q[None], k[None], v[None], decays(rate, 24)) * row[:, None])[0]


def decay_of_heads(rng, shape):
    return (1 - rng.random(shape) * 0.3).astype(np.float32)


def rate_of_heads(rng, shape):
    return -rng.random(shape).astype(np.float32)


def cumulative(rng, shape):
    """Sums of log-decays, some of which forget all."""
    rates = -rng.random(shape) ** 4
    rates[:, 5::9] *= 200
    return np.cumsum(rates, 1).astype(np.float32)


def positive(rng, shape):
    return rng.random(shape, dtype=np.float32) + np.float32(0.1)


def keep_some(rng, shape):
    mask = rng.random(shape) < 0.7
    mask[:, 0] = True
    return mask


CASES = [
    Case(causal, "raise-linear-attention", F32, [(2, 4, 64, 16)] * 2 + [(2, 4, 64, 32)]),
    Case(retention, "raise-linear-attention", F32, [(2, 4, 48, 16)] * 3 + [(4,)], {3: decay_of_heads}),
    Case(grouped, "raise-linear-attention", F16, [(2, 8, 40, 16)] + [(2, 2, 40, 16)] * 2),
    Case(token_decay, "raise-linear-attention", F32, [(2, 77, 4, 16)] * 3 + [(2, 77, 4)], {3: cumulative}),
    Case(normalised, "raise-linear-attention", F32, [(3, 40, 16)] * 3),
    Case(twice, "raise-linear-attention", F32, [(3, 40, 16)] * 3),
    Case(padded, "raise-linear-attention", F32, [(2, 3, 40, 8)] * 2 + [(2, 3, 40, 16), (2, 40)],
         {0: positive, 1: positive, 3: keep_some}),
    Case(widened, "raise-linear-attention", BF16, [(2, 24, 16)] * 3 + [(2,), (24,)], {3: rate_of_heads, 4: positive}),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", required=True)
    parser.add_argument("--work", required=True)
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    failures = 0
    for case in CASES:
        with open(os.path.join(args.inputs, case.file + ".mlir"), encoding="utf-8") as file:
            (text,) = [p for p in file.read().split("// -----\n") if f"func.func @{case.name}(" in p]
        module = os.path.join(args.work, case.name + ".mlir")
        with open(module, "w", encoding="utf-8") as file:
            file.write(text)
        raised = subprocess.run(["attn-compile", module, "--stop-after=raise", "--emit=mlir", "-o", "-"],
                                capture_output=True, text=True, check=True).stdout
        found = 2 if case.reference in (normalised, twice, padded) else 1
        if raised.count("= attn.linear_attention ") != found or "reduction" in raised or "linalg.contract" in raised:
            sys.exit(f"{case.name}: linear attention was not found")
        rng = np.random.default_rng(len(case.name))
        arrays = []
        for index, shape in enumerate(case.inputs):
            make = case.special.get(index)
            arrays.append(make(rng, shape) if make else
                          round_to(rng.standard_normal(shape).astype(np.float32), case.element))
        expected = case.reference(*[array.astype(np.float64) for array in arrays])
        for variant, options in {"raised": [], "written": ["--raise=false"]}.items():
            result = run(module, case, arrays, args.work, options)
            error = np.abs(result - expected).max() / np.abs(expected).max()
            # As it is written, scores and sums are rounded to the element type.
            bound = EPSILON[F32 if case.element == BF16 and variant == "raised" else case.element] * 16
            ok = result.shape == expected.shape and error <= bound
            failures += not ok
            print(f"{case.name:12} {variant:8} {error:.2e} of {bound:.2e} {'ok' if ok else 'FAILED'}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
