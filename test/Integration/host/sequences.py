# ===- sequences.py - Sequences of different lengths on the host ---------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Runs host kernels on packed and padded sequences and compares each sequence with attention.py's formula in f64.
# Elements that belong to no sequence are poisoned and must neither matter nor change; boundaries that are not valid are
# reported and nothing is written.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --cc %host_cc --library %attn_libs_dir --work %t

import argparse
import concurrent.futures
import ctypes
import os
import re
import sys
import types

import numpy as np
from attention import (CAPTURES, EPSILON, F64, Variant, attention, compile_variant, descriptor,
                       from_memory, round_to, to_memory)
from dropout_reference import Dropout

# Lengths of queries and keys of each sequence.
CASES = {
    "single": [(1, 1)],
    "none": [],
    "all_empty": [(0, 0), (0, 0)],
    "tokens": [(1, 5), (1, 1), (1, 129), (1, 64)],
    "edges": [(127, 127), (128, 128), (129, 129), (1, 1)],
    "uneven": [(3, 200), (200, 3), (64, 65), (17, 16)],
    "empty": [(0, 5), (5, 0), (0, 0), (31, 33), (0, 1)],
    "many": [(1 + 7 * n % 23, 1 + 5 * n % 37) for n in range(40)],
}

# What boundaries or lengths must not be, with room for 20 rows.
BAD = {
    "packed": [([0, 9, 5, 20], [0, 9, 15, 20]), ([0, 9, 15, 20], [0, 9, 5, 20]),
               ([-1, 9, 15, 20], [0, 9, 15, 20]), ([0, 9, 15, 21], [0, 9, 15, 20]),
               ([0, 9, 15, 20], [0, 9, 15, 2**31 - 1]), ([0, 20, 0, 20], [0, 20, 20, 20]),
               ([-(2**31), 20], [0, 20])],
    "padded": [([0, 21], [5, 5]), ([0, 5], [5, -1]), ([-(2**31), 5], [5, 5])],
}


class Sequences(Variant):
    """A variant whose lengths are given as packed boundaries or padded lengths."""

    def __init__(self, form, dtype, d, **options):
        super().__init__(dtype, d, **options)
        self.form = form

    def module(self):
        text = super().module()
        if self.form == "packed":
            text = re.sub(r"memref<\?x(\d)", r"memref<1x\1", text)
        kind = "memref<?xi32>"
        text = text.replace("%lse: ", f"%sq: {kind}, %sk: {kind}, %lse: ", 1)
        at = text.index("%o, %lse :")
        at = text.index(")", text.index("f32>", at)) + 1
        return text[:at] + f" sequences {self.form}(%sq, %sk : {kind}, {kind})" + text[at:]


VARIANTS = [
    Sequences("packed", "f32", 64, tile=(16, 64)),
    Sequences("packed", "f32", 32, mask="causal", layout="bshd", tile=(32, 16)),
    Sequences("packed", "f32", 40, mask="window", score="alibi", hq=4, hkv=2),
    Sequences("packed", "f32", 64, keep="docs", mask="causal"),
    Sequences("packed", "bf16", 64, mask="causal", layout="bshd", hq=4, hkv=1, out="f32"),
    Sequences("packed", "f16", 72, dv=24, mask="window_both", tile=(7, 24)),
    Sequences("padded", "f32", 64, tile=(16, 64)),
    Sequences("padded", "f32", 32, mask="causal", score="softcap", layout="bshd"),
    Sequences("padded", "bf16", 64, mask="causal_top_left", hq=4, hkv=2, keep="docs"),
    Sequences("packed", "f32", 32, mask="causal", dropout=Dropout(0.1, "philox", 7)),
    Sequences("padded", "f32", 64, hq=4, hkv=2, dropout=Dropout(0.5, "arx", 6, bits=4)),
    Sequences("packed", "f32", 32, mask="causal", packed="rows"),
    Sequences("padded", "f32", 64, hq=4, hkv=2, packed="columns"),
    Sequences("packed", "f32", 32, mask="causal", hq=12, hkv=3, hv=6),
    Sequences("padded", "bf16", 32, mask="causal", hq=12, hkv=12, hv=4, dropout=Dropout(0.1, "arx", 6)),
]


class Batch:
    """Where the sequences of a case are stored: rows of a batch entry."""

    def __init__(self, form, lengths, gap):
        self.count = len(lengths)
        queries, keys = zip(*lengths) if lengths else ((), ())
        if form == "packed":
            self.batches = 1
            self.sizes = []
            self.entries = []
            self.rows = []
            for values in (queries, keys):
                bounds = gap + np.concatenate([[0], np.cumsum(values, dtype=int)])
                self.entries.append(bounds)
                self.sizes.append(int(bounds[-1]) + gap)
                self.rows.append([(0, int(b), n) for b, n in zip(bounds, values)])
        else:
            self.batches = len(lengths)
            self.sizes = [max(values, default=0) + gap for values in (queries, keys)]
            self.entries = [np.array(values, int) for values in (queries, keys)]
            self.rows = [[(s, 0, n) for s, n in enumerate(values)] for values in (queries, keys)]


class Shape:
    def __init__(self, variant, batch):
        self.b, self.hq = max(batch.count, 1), variant.hq
        self.sq, self.skv = batch.sizes


def take(array, row):
    entry, first, count = row
    return array[entry : entry + 1, :, first : first + count]


def run(variant, library, batch, rng, runtime):
    """Returns a message if the results are wrong."""
    memory = {"q": (variant.hq, batch.sizes[0], variant.d), "k": (variant.hkv, batch.sizes[1], variant.d),
              "v": (variant.value_heads, batch.sizes[1], variant.dv)}
    inputs = []
    for number, (heads, length, dim) in enumerate(memory.values()):
        rows = batch.rows[min(number, 1)]

        def make(shape, rows=rows, heads=heads, length=length, dim=dim):
            # What belongs to no sequence is not a number.
            values = np.full((batch.batches, heads, length, dim), np.nan)
            for row in rows:
                take(values, row)[...] = rng.standard_normal((1, heads, row[2], dim))
            order = {"bhsd": (0, 1, 2, 3), "bshd": (0, 2, 1, 3), "bhds": (0, 1, 3, 2)}[variant.layout]
            return to_memory(values.transpose(order), variant.dtype)

        inputs.append(variant.array(batch.batches, heads, length, dim, make))
    element = {"bf16": np.uint16, "f16": np.float16, "f32": np.float32}[variant.out]
    out = variant.array(batch.batches, variant.hq, batch.sizes[0], variant.dv,
                        lambda s: np.full(s, 7, element))
    lse = np.full((batch.batches, variant.hq, batch.sizes[0]), 7, np.float32)
    sequences = [np.ascontiguousarray(entries, np.int32) for entries in batch.entries]
    captures = {}
    for name in variant.captures:
        _, numpy_type, make = CAPTURES[name]
        captures[name] = np.ascontiguousarray(make(Shape(variant, batch), rng), numpy_type)
    arrays = [*inputs, out, *sequences, lse, *captures.values()]
    # Keep masks have the sizes of the longest sequence.
    longest = Shape(variant, batch)
    longest.sq, longest.skv = (max((row[2] for row in rows), default=0) for rows in batch.rows)
    keep_mask, kept, _ = variant.generate_keep_mask(longest, rng)
    arrays += keep_mask
    library._mlir_ciface_run(*(ctypes.byref(descriptor(a)) for a in arrays))
    if runtime.attnrtTakeFault(0) != 0:
        return "a fault was reported"

    free = np.ones((batch.batches, batch.sizes[0]), bool)
    for s in range(batch.count):
        rows = batch.rows[0][s]
        free[rows[0], rows[1] : rows[1] + rows[2]] = False
        if rows[2] == 0:
            continue
        values = [from_memory(take(x, batch.rows[min(n, 1)][s]), variant.dtype)
                  for n, x in enumerate(inputs)]
        own = {name: x[s : s + 1] if name == "docs" else x for name, x in captures.items()}
        own_kept = None if kept is None else kept[s : s + 1, :, : rows[2], : batch.rows[1][s][2]]
        message = compare(
            variant, values, own, take(out, rows), lse[rows[0] : rows[0] + 1, :, rows[1] : rows[1] + rows[2]],
            kept=own_kept,
        )  # fmt: skip
        if message:
            return f"sequence {s}: {message}"
    if (out.transpose(0, 2, 1, 3)[free] != 7).any() or (lse.transpose(0, 2, 1)[free] != 7).any():
        return "rows of no sequence have changed"
    return None


def compare(variant, values, captures, out, lse, **operands):
    """What is wrong with the results of one sequence. `operands` are further ones of the reference."""
    if values[1].shape[2] == 0:
        if (from_memory(out, variant.out) != 0).any() or not np.isneginf(lse).all():
            return "rows with nothing to attend"
        return None
    exact, exact_lse = attention(variant, *(x.astype(F64) for x in values), captures, lambda x: x, **operands)
    rounded, _ = attention(variant, *values, captures, lambda x: round_to(x, variant.dtype), **operands)
    result = from_memory(out, variant.out).astype(F64)
    if not np.isfinite(result).all():
        return "output is not finite"
    allowed = 2 * np.abs(rounded - exact).max() + EPSILON[variant.out] * np.abs(exact).max() + 1e-6
    if np.abs(result - exact).max() > allowed:
        return f"output: error {np.abs(result - exact).max():.3g}, allowed {allowed:.3g}"
    empty = np.isneginf(exact_lse)
    if (np.isneginf(lse) != empty).any() or (result[empty] != 0).any():
        return "rows with nothing to attend"
    if (np.abs(lse[~empty] - exact_lse[~empty]) > 4e-6 + 2e-6 * np.abs(exact_lse[~empty])).any():
        return "lse"
    return None


def run_bad(variant, library, entries, runtime):
    """Whether sequences that are not valid are reported and change nothing."""
    batches = 1 if variant.form == "packed" else len(entries[0])
    def filled(heads, dim):
        return variant.array(batches, heads, 20, dim, lambda s: to_memory(np.full(s, 7.0), variant.dtype))
    q, k, v = filled(variant.hq, variant.d), filled(variant.hkv, variant.d), filled(variant.value_heads, variant.dv)
    out = filled(variant.hq, variant.dv)
    lse = np.full((batches, variant.hq, 20), 7, np.float32)
    arrays = [q, k, v, out, *(np.array(e, np.int32) for e in entries), lse]
    count = len(entries[0]) - (variant.form == "packed")
    shape = types.SimpleNamespace(b=count, hq=variant.hq, sq=20, skv=20)
    arrays += variant.generate_keep_mask(shape, np.random.default_rng(0))[0]
    library._mlir_ciface_run(*(ctypes.byref(descriptor(a)) for a in arrays))
    if runtime.attnrtTakeFault(0) != 1 or runtime.attnrtTakeFault(0) != 0:
        return "not reported once"
    if (from_memory(out, variant.dtype) != 7).any() or (lse != 7).any():
        return "outputs have changed"
    return None


def run_variants(variants, compile_variant, run, run_bad, takes_bad):
    """Compiles and runs all cases of these; gives whether one failed. `takes_bad` says which cases get invalid
    operands."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", required=True, help="clang")
    parser.add_argument("--library", required=True, help="folder of libattn_runtime")
    parser.add_argument("--work", required=True, help="folder for what is compiled")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    runtime = ctypes.CDLL(os.path.join(args.library, "libattn_runtime.so"))

    paths = [os.path.join(args.work, f"variant{n}") for n in range(len(variants))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        libraries = list(pool.map(lambda x: compile_variant(*x, args), zip(variants, paths)))
    rng = np.random.default_rng(0)
    results = []
    for variant, library in zip(variants, libraries):
        for name, lengths in CASES.items():
            for gap in (0, 3):
                message = run(variant, library, Batch(variant.form, lengths, gap), rng, runtime)
                results.append((f"{variant}\n  {name}, gap {gap}", message))
        if takes_bad(variant):
            for entries in BAD[variant.form]:
                results.append((f"{variant}\n  {entries}", run_bad(variant, library, entries, runtime)))
    failures = [(case, message) for case, message in results if message]
    for case, message in failures:
        print(f"{case}: {message}")
    print(f"{len(results)} cases, {len(failures)} failures")
    return len(failures) != 0


if __name__ == "__main__":
    sys.exit(run_variants(VARIANTS, compile_variant, run, run_bad, lambda variant: not variant.captures))
