# ===- packed_queries.py - Packed queries and KV caches on the host ------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Runs host kernels on packed queries, chunks of prompts and single tokens, of sequences whose keys are in a KV cache,
# contiguous and paged. Both must be equal bit for bit, so must pages in another order, and within the errors of
# attention.py's formula in f64. Queries of no sequence, keys behind the lengths and pages of no sequence are not
# finite; rows of no sequence do not change. Boundaries and lengths that are not valid are reported and nothing is written;
# wrong pages are reported, and matter to their sequences alone.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --cc %host_cc --library %attn_libs_dir --work %t

import argparse
import concurrent.futures
import ctypes
import itertools
import os
import random
import sys
import types

import numpy as np
from attention import Dropout, compile_variant, descriptor, from_memory, round_to, to_memory
from paged import Cache, Paged, change_table, store
from sequences import compare


class PackedQueries(Paged):
    """A variant whose queries are packed, and whose keys are in pages, or contiguous if the page size is 0."""

    def module(self):
        text = super().module()
        q, o = self.memref(self.hq, self.d, self.dtype), self.memref(self.hq, self.dv, self.out)
        for name, old in (("q", q), ("o", o), ("lse", f"memref<?x{self.hq}x?xf32>")):
            text = text.replace(f"%{name}: {old}", f"%{name}: {one_entry(old)}")
        text = text.replace(f"ins(%q, %k, %v : {q}", f"ins(%q, %k, %v : {one_entry(q)}")
        at = text.index("%o, %lse :")
        head, tail = text[:at], text[at:]
        end = tail.index(")", tail.index("f32>")) + 1
        lse = f"memref<?x{self.hq}x?xf32>"
        outs = tail[:end].replace(o, one_entry(o), 1).replace(lse, one_entry(lse))
        text = head + outs + tail[end:]
        text = text.replace("%lengths: memref<?xi32>", "%cu: memref<?xi32>, %lengths: memref<?xi32>")
        return text.replace("key_lengths(%lengths : memref<?xi32>)",
                            "sequences packed_queries(%cu, %lengths : memref<?xi32>, memref<?xi32>)")


def one_entry(memref):
    return memref.replace("memref<?x", "memref<1x", 1)


# Numbers of queries and keys of each sequence: chunks of prompts with single tokens, and edges.
CASES = {
    "mixed": [(40, 100), (1, 65), (1, 200), (17, 17), (1, 1), (33, 64)],
    "edges": [(1, 16), (16, 16), (15, 17), (0, 5), (5, 0), (0, 0), (31, 128), (64, 64)],
    "more_queries": [(9, 3), (64, 63), (2, 1)],
    "tokens": [(1, n) for n in (0, 1, 15, 16, 17, 63, 64, 65, 130)],
    "empty": [(0, 0), (0, 3)],
    "none": [],
}
_random = random.Random(11)
for _number in range(6):
    CASES[f"random{_number}"] = [
        (_random.choice((0, 1, 1, _random.randrange(70))), _random.randrange(300))
        for _ in range(_random.randrange(1, 9))
    ]

VARIANTS = [
    PackedQueries(16, "f32", 64, mask="causal"),
    PackedQueries(64, "f32", 32, mask="causal", hq=4, hkv=2, tile=(16, 64)),
    PackedQueries(32, "f32", 64, tile=(16, 24), layout="bshd"),
    PackedQueries(256, "bf16", 64, mask="causal", hq=4, hkv=1, tile=(16, 64)),
    PackedQueries(128, "f16", 72, dv=24, mask="window", tile=(8, 48), layout="bshd"),
    PackedQueries(16, "f32", 40, mask="window_both", score="alibi", hq=4, hkv=2),
    PackedQueries(16, "f32", 64, mask="causal", sinks="f32", hq=4, hkv=2),
    PackedQueries(64, "f32", 32, head_map=[1, 0, 1, 1], hq=4, hkv=2, mask="causal"),
    PackedQueries(16, "f32", 64, mask="causal", split=8, tile=(8, 16), hq=4, hkv=2),
    PackedQueries(64, "f32", 64, mask="causal", score="softcap", sinks="f32", split=32, tile=(4, 16), hq=4, hkv=4),
    PackedQueries(16, "f32", 32, mask="causal", hq=12, hkv=6, hv=3),
    # Drafts of trees, whose nodes are rows of the queries, and dropout by positions in sequences.
    PackedQueries(16, "f32", 64, data="shared_tree", hq=4, hkv=2),
    PackedQueries(64, "bf16", 32, data="shared_tree", split=8, tile=(8, 16), hq=4, hkv=2, layout="bshd"),
    PackedQueries(16, "f32", 64, mask="causal", hq=4, hkv=2, dropout=Dropout(0.125, "philox", 7)),
    PackedQueries(64, "f32", 32, data="shared_tree", tile=(16, 32), dropout=Dropout(0.5, "arx", 6, bits=4)),
]


class Call:
    """The arrays of a call, but for keys and values."""

    def __init__(self, variant, cases, rng, gap):
        self.counts, lengths = (list(x) for x in zip(*cases)) if cases else ([], [])
        self.cache = Cache(variant.page, lengths, rng)
        self.bounds = (gap + np.concatenate([[0], np.cumsum(self.counts, dtype=int)])).astype(np.int32)
        self.total = int(self.bounds[-1]) + gap
        q = np.full((1, variant.hq, self.total, variant.d), np.nan, np.float32)
        rows = slice(gap, self.total - gap)
        q[:, :, rows] = rng.standard_normal(q[:, :, rows].shape)
        self.q = q
        stored = self.cache.pages * variant.page
        self.keys = []
        for heads, dim in ((variant.hkv, variant.d), (variant.value_heads, variant.dv)):
            keys = rng.standard_normal((len(lengths), heads, stored, dim)).astype(np.float32)
            keys.transpose(0, 2, 1, 3)[np.arange(stored) >= self.cache.lengths[:, None]] = np.nan
            self.keys.append(keys)
        self.slopes = [2.0 ** -np.arange(1, variant.hq + 1, dtype=np.float32)] if variant.score == "alibi" else []
        self.sinks = rng.standard_normal(variant.hq).astype(np.float32) if variant.sinks else None
        shape = types.SimpleNamespace(b=len(lengths), hq=variant.hq, sq=max(self.counts, default=0), skv=stored)
        self.state, self.kept, _ = variant.generate_keep_mask(shape, rng)
        self.parents, self.reads = [], []
        if variant.data:
            rows = np.full((1, self.total), -1, np.int32)
            for count, begin in zip(self.counts, self.bounds):
                own = variant.make_reads(types.SimpleNamespace(b=1, sq=count), rng)[0]
                rows[:, begin : begin + count] = np.where(own < 0, own, own + begin)
                self.parents.append(own)
            self.reads = [rows]

    def run(self, variant, library, cache):
        """Output and log-sum-exp, for pages of a cache or for contiguous keys."""
        kv = [store(variant, cache.split(x) if cache else x) for x in self.keys]
        element = {"bf16": np.uint16, "f16": np.float16, "f32": np.float32}[variant.out]
        out = variant.array(1, variant.hq, self.total, variant.dv, lambda s: np.full(s, 7, element))
        lse = np.full((1, variant.hq, self.total), 7, np.float32)
        more = [*self.slopes, *([] if self.sinks is None else [self.sinks]),
                *([np.array(variant.head_map, np.int32)] if variant.head_map else []), *self.state, *self.reads]
        arrays = [store(variant, self.q), *kv, out, self.bounds, self.cache.lengths, *([cache.given] if cache else []),
                  lse, *more]
        library._mlir_ciface_run(*(ctypes.byref(descriptor(a)) for a in arrays))
        return out, lse


def check_sequence(variant, call, s, out, lse):
    """What is wrong with the results of sequence `s`, if anything."""
    rows, length = slice(*call.bounds[s : s + 2]), int(call.cache.lengths[s])
    out, lse = out[:, :, rows], lse[:, :, rows]
    if call.counts[s] == 0:
        return None
    if length == 0:
        expected = -np.inf if call.sinks is None else call.sinks.reshape(1, -1, 1)
        if (from_memory(out, variant.out) != 0).any() or not np.allclose(lse, expected, 1e-6):
            return "rows with nothing to attend"
        return None
    values = [call.q[:, :, rows], *(x[s : s + 1, :, :length] for x in call.keys)]
    captures = {"slopes": call.slopes[0]} if call.slopes else {}
    more = {"reads": call.parents[s : s + 1]}
    if call.kept is not None:
        more["kept"] = call.kept[s : s + 1, :, : call.counts[s], :length]
    return compare(variant, [round_to(x, variant.dtype) for x in values], captures, out, lse, sinks=call.sinks, **more)


def run(variant, libraries, cases, rng, runtime, gap, bad=None):
    """What is wrong with the results, if anything. `bad` changes the table, and gives the sequences that it changes."""
    call = Call(variant, cases, rng, gap)
    shuffled = Cache(variant.page, [n for _, n in cases], rng)
    changed = bad(call.cache, None, call.cache.given) if bad else ()
    results = []
    for library, cache in zip((libraries[0], libraries[0], libraries[1]), (call.cache, shuffled, None)):
        results.append(call.run(variant, library, cache))
        reported = runtime.attnrtTakeFault(0)
        if reported != (1 if changed and cache is call.cache else 0):
            return f"status {reported}"
    for s in range(len(cases)):
        if s in changed:
            continue
        message = check_sequence(variant, call, s, *results[0])
        if message:
            return f"sequence {s} {cases[s]}: {message}"
        rows = slice(*call.bounds[s : s + 2])
        for paged, *others in zip(*results):
            if any(paged[:, :, rows].tobytes() != other[:, :, rows].tobytes() for other in others):
                return f"sequence {s} differs between caches"
    free = np.ones(call.total, bool)
    free[call.bounds[0] : call.bounds[-1]] = False
    out, lse = results[0]
    if (out.transpose(0, 2, 1, 3)[:, free] != 7).any() or (lse[:, :, free] != 7).any():
        return "rows of no sequence have changed"
    return None


def run_bad(variant, library, bounds, lengths, rng, runtime):
    """Whether boundaries and lengths that are not valid are reported and change nothing."""
    call = Call(variant, [(5, 20)] * (len(bounds) - 1), rng, 0)
    call.bounds[:], call.cache.lengths[:] = bounds, lengths
    out, lse = call.run(variant, library, call.cache)
    if runtime.attnrtTakeFault(0) != 1 or runtime.attnrtTakeFault(0) != 0:
        return "not reported once"
    return "outputs have changed" if (out != 7).any() or (lse != 7).any() else None


# Of three sequences, with 15 rows in all and room for 20 keys and a page more.
BAD = [([0, 9, 5, 15], [5, 5, 5]), ([-1, 5, 10, 15], [5, 5, 5]), ([0, 5, 10, 16], [5, 5, 5]),
       ([0, 5, 10, 15], [5, -1, 5]), ([0, 5, 10, 15], [5, 5, 2**31 - 1]), ([0, 15, 0, 15], [5, 5, 5])]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", required=True, help="clang")
    parser.add_argument("--library", required=True, help="folder of libattn_runtime")
    parser.add_argument("--work", required=True, help="folder for what is compiled")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    runtime = ctypes.CDLL(os.path.join(args.library, "libattn_runtime.so"))

    modules = [x for variant in VARIANTS for x in (variant, variant.contiguous())]
    paths = [os.path.join(args.work, f"variant{n}") for n in range(len(modules))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        libraries = list(pool.map(lambda x: compile_variant(*x, args), zip(modules, paths)))
    rng = np.random.default_rng(0)
    results = []
    for number, variant in enumerate(VARIANTS):
        pair = libraries[2 * number : 2 * number + 2]
        for (name, cases), gap in itertools.product(CASES.items(), (0, 3)):
            results.append((f"{variant}\n  {name}, gap {gap}", run(variant, pair, cases, rng, runtime, gap)))
        for value in (-1, None, -(2**31), 2**31 - 1):
            message = run(variant, pair, [(9, 70), (3, 33), (1, 5)], rng, runtime, 2, change_table(value))
            results.append((f"{variant}\n  page {value}", message))
        for bounds, lengths in BAD:
            message = run_bad(variant, pair[0], bounds, lengths, rng, runtime)
            results.append((f"{variant}\n  {bounds} {lengths}", message))
    failures = [(case, message) for case, message in results if message]
    for case, message in failures:
        print(f"{case}: {message}")
    print(f"{len(results)} cases, {len(failures)} failures")
    return len(failures) != 0


if __name__ == "__main__":
    sys.exit(main())
