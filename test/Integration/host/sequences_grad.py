# ===- sequences_grad.py - Gradients of sequences on the host -------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Runs gradients of packed and padded sequences on the host and compares each sequence with attention_grad.py's formula
# in f64. Elements that belong to no sequence are poisoned and must neither matter nor change; boundaries that are not
# valid are reported and nothing is written.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --cc %host_cc --library %attn_libs_dir --work %t

import ctypes
import re
import sys

import numpy as np
from attention import CAPTURES, F64, compile_variant, descriptor, from_memory, to_memory
from attention_grad import Variant, check, forward, gradient, to_numpy
from dropout_reference import Dropout
from sequences import Batch, Shape, run_variants, take


class Sequences(Variant):
    """A gradient whose lengths are given as packed boundaries or padded lengths."""

    def __init__(self, form, dtype, d, **options):
        super().__init__(dtype, d, **options)
        self.form = form

    def module(self):
        text = super().module()
        if self.form == "packed":
            text = re.sub(r"memref<\?x(\d)", r"memref<1x\1", text)
        kind = "memref<?xi32>"
        text = text.replace("%dq: ", f"%sq: {kind}, %sk: {kind}, %dq: ", 1)
        at = text.index(")", text.index("outs(%dq"))
        if self.identity:
            at = text.index(")", text.index("identity(", at))
        return text[: at + 1] + f" sequences {self.form}(%sq, %sk : {kind}, {kind})" + text[at + 1 :]


VARIANTS = [
    Sequences("packed", "f32", 64, tile=(16, 64)),
    Sequences("packed", "f32", 64, mask="causal", hq=4, hkv=2, parts="dkdv", tile=(32, 64), layout="bshd"),
    Sequences("packed", "f32", 40, mask="window", parts="dkdv", tile=(16, 64), dlse=True),
    # Tiles of which some reach further behind a sequence than others.
    Sequences("packed", "f32", 32, mask="causal", parts="dkdv dq dv", tile=(24, 16), hq=4, hkv=1),
    Sequences("packed", "bf16", 64, mask="window_both", parts="dkdv", tile=(64, 32), hq=6, hkv=2),
    Sequences("packed", "f32", 32, score="softcap", keep="docs", mask="causal", deterministic=True),
    Sequences("packed", "f32", 32, score="alibi", reads=True, hq=4, hkv=2),
    Sequences("packed", "f32", 64, mask="causal", hq=4, hkv=2, identity="f32"),
    Sequences("packed", "f32", 32, mask="causal", parts="dkdv", tile=(32, 32), dropout=Dropout(0.1, "philox", 7)),
    Sequences("packed", "f32", 32, packed="rows"),
    Sequences("padded", "f32", 64, tile=(16, 64), mask="causal", layout="bshd"),
    Sequences("padded", "f16", 64, parts="dkdv", tile=(32, 64), hq=4, hkv=2, dlse=True),
    Sequences("padded", "f32", 64, hq=4, hkv=2, dropout=Dropout(0.5, "arx", 6, bits=4)),
    # Other numbers of value heads than of key heads.
    Sequences("packed", "f32", 32, mask="causal", hq=12, hkv=3, hv=6),
    Sequences("packed", "f32", 32, parts="dkdv", tile=(32, 16), hq=12, hkv=12, hv=4, dropout=Dropout(0.1, "arx", 6)),
    Sequences("padded", "f32", 32, mask="causal", hq=12, hkv=1, hv=12),
]


def run(variant, library, batch, rng, runtime):
    """Returns a message if the results are wrong."""
    # Heads, head dim, whether of keys, and element type of q, k, v, out and dout.
    kinds = [(variant.hq, variant.d, 0, variant.dtype), (variant.hkv, variant.d, 1, variant.dtype),
             (variant.value_heads, variant.dv, 1, variant.dtype), (variant.hq, variant.dv, 0, variant.out),
             (variant.hq, variant.dv, 0, variant.out)]
    order = {"bhsd": (0, 1, 2, 3), "bshd": (0, 2, 1, 3), "bhds": (0, 1, 3, 2)}[variant.layout]

    def make(heads, dim, side, dtype):
        def fill(shape):
            # What belongs to no sequence is not a number.
            values = np.full((batch.batches, heads, batch.sizes[side], dim), np.nan)
            for row in batch.rows[side]:
                take(values, row)[...] = rng.standard_normal((1, heads, row[2], dim))
            return to_memory(values.transpose(order), dtype)

        return variant.array(batch.batches, heads, batch.sizes[side], dim, fill)

    q, k, v, out, dout = (make(*kind) for kind in kinds)
    lse, dlse = (np.full((batch.batches, variant.hq, batch.sizes[0]), np.nan, np.float32) for _ in range(2))
    captures = {}
    for name in variant.captures:
        _, numpy_type, make_capture = CAPTURES[name]
        captures[name] = np.ascontiguousarray(make_capture(Shape(variant, batch), rng), numpy_type)
    longest = Shape(variant, batch)
    longest.sq, longest.skv = (max((row[2] for row in rows), default=0) for rows in batch.rows)
    keep_mask, kept, _ = variant.generate_keep_mask(longest, rng)
    stored = identity = None
    if variant.identity:
        identity = rng.random(variant.hq)
        identity[0], identity[-1] = 1, 0
        stored = to_memory(identity, variant.identity)
        identity = from_memory(stored, variant.identity).astype(F64)

    def own(s):
        """The operands of a sequence by itself."""
        rows = [batch.rows[side][s] for side in (0, 1)]
        values = [from_memory(take(x, rows[side]), dtype)
                  for x, (_, _, side, dtype) in zip((q, k, v, dout), (*kinds[:3], kinds[4]))]
        of_queries = np.s_[rows[0][0] : rows[0][0] + 1, :, rows[0][1] : rows[0][1] + rows[0][2]]
        own_captures = {name: x[s : s + 1] if name == "docs" else x for name, x in captures.items()}
        own_kept = None if kept is None else kept[s : s + 1, :, : rows[0][2], : rows[1][2]]
        return rows, [*values, dlse[of_queries]], own_captures, own_kept, of_queries

    # The forward pass of each sequence in f64.
    passed = {}
    for s in range(batch.count):
        rows, values, own_captures, own_kept, of_queries = own(s)
        dlse[of_queries] = rng.standard_normal(dlse[of_queries].shape) if variant.dlse else 0
        if rows[0][2] == 0:
            continue
        if rows[1][2] == 0:
            take(out, rows[0])[...] = 0
            lse[of_queries] = -np.inf
            continue
        wide = [x.astype(F64) for x in values[:3]]
        passed[s] = forward(variant, *wide, own_captures, own_kept, lambda x: x, identity=identity)
        take(out, rows[0])[...] = to_memory(passed[s].out, variant.out)
        lse[of_queries] = passed[s].lse

    element = to_numpy(variant.dtype)
    results = [variant.array(batch.batches, heads, batch.sizes[side], dim, lambda s: np.full(s, 7, element))
               for heads, dim, side, _ in kinds[:3]]
    sequences = [np.ascontiguousarray(entries, np.int32) for entries in batch.entries]
    capture_grads = [np.zeros(captures[name].shape, np.float32) for name, *_ in variant.capture_grads]
    arrays = [q, k, v, out, lse, dout, dlse, *sequences, *results, *captures.values(), *capture_grads, *keep_mask]
    if stored is not None:
        arrays.append(stored)
    library._mlir_ciface_run(*(ctypes.byref(descriptor(a)) for a in arrays))
    if runtime.attnrtTakeFault(0) != 0:
        return "a fault was reported"

    free = [np.ones((batch.batches, batch.sizes[side]), bool) for side in (0, 1)]
    sums = [np.zeros(x.shape, F64) for x in capture_grads]
    for s in range(batch.count):
        rows, values, own_captures, own_kept, of_queries = own(s)
        for side in (0, 1):
            entry, first, count = rows[side]
            free[side][entry, first : first + count] = False
        grads = [from_memory(take(x, rows[side]), variant.dtype) for x, (_, _, side, _) in zip(results, kinds)]
        if rows[0][2] == 0 or rows[1][2] == 0:
            if identity is None and any((x != 0).any() for x in grads):
                return f"sequence {s}: gradients without pairs are not 0"
            continue
        given = from_memory(take(out, rows[0]), variant.out)
        wide = [x.astype(F64) for x in values]
        exact = gradient(variant, passed[s], *wide[:2], *wide[3:], own_captures, lambda x: x,
                         (given.astype(F64), lse[of_queries].astype(F64)))
        for total, grad in zip(sums, exact[3:]):
            total += grad
        message = check(variant, passed[s], values, own_captures, own_kept, (), identity, given, lse[of_queries], grads,
                        [])
        if message:
            return f"sequence {s} {rows[0][2]}x{rows[1][2]}: {message}"
    for (name, *_), grad, total in zip(variant.capture_grads, capture_grads, sums):
        if np.abs(grad - total).max() > 1e-4 * max(1, np.abs(total).max()):
            return f"d{name}"
    for name, result, (_, _, side, _) in zip(("dq", "dk", "dv"), results, kinds):
        if (result.transpose(0, 2, 1, 3)[free[side]] != 7).any():
            return f"rows of {name} that are of no sequence have changed"
    return None


def run_bad(variant, library, entries, runtime):
    """Whether sequences that are not valid are reported and change nothing."""
    batches = 1 if variant.form == "packed" else len(entries[0])

    def filled(heads, dim, dtype, value):
        return variant.array(batches, heads, 20, dim, lambda s: to_memory(np.full(s, value), dtype))

    kinds = ((variant.hq, variant.d), (variant.hkv, variant.d), (variant.value_heads, variant.dv))
    q, k, v = (filled(*kind, variant.dtype, 1.0) for kind in kinds)
    out, dout = (filled(variant.hq, variant.dv, variant.out, 1.0) for _ in range(2))
    grads = [filled(*kind, variant.dtype, 7.0) for kind in kinds]
    lse, dlse = (np.zeros((batches, variant.hq, 20), np.float32) for _ in range(2))
    arrays = [q, k, v, out, lse, dout, dlse, *(np.array(e, np.int32) for e in entries), *grads]
    shape = Shape(variant, Batch(variant.form, [(20, 20)] * (len(entries[0]) - (variant.form == "packed")), 0))
    shape.sq = shape.skv = 20
    arrays += variant.generate_keep_mask(shape, np.random.default_rng(0))[0]
    library._mlir_ciface_run(*(ctypes.byref(descriptor(a)) for a in arrays))
    if runtime.attnrtTakeFault(0) != 1 or runtime.attnrtTakeFault(0) != 0:
        return "not reported once"
    if any((from_memory(x, variant.dtype) != 7).any() for x in grads):
        return "gradients have changed"
    return None


if __name__ == "__main__":
    sys.exit(run_variants(VARIANTS, compile_variant, run, run_bad, lambda v: not v.captures and not v.identity))
