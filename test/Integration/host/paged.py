# ===- paged.py - KV caches on the host ----------------------------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Runs host kernels on KV caches with lengths, contiguous and paged. Both must be equal bit for bit, and within the
# errors of attention.py's formula in f64. Keys behind the length and pages of no entry are not finite, and table
# entries behind the last key are no pages. Wrong pages and lengths are reported, and matter to their entries alone.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --cc %host_cc --library %attn_libs_dir --work %t

import argparse
import concurrent.futures
import ctypes
import itertools
import os
import sys
import types

import numpy as np
from attention import CAPTURES, Dropout, Variant, compile_variant, descriptor, from_memory, round_to, to_memory
from sequences import compare


class Paged(Variant):
    """A variant whose keys and values are in pages, or contiguous if the page size is 0. `balance` says whether the
    number of splits follows from the lengths."""

    def __init__(self, page, *args, balance=False, has_pages=True, **options):
        super().__init__(*args, **options)
        # Without pages, the page size is that in which room for keys grows.
        self.page, self.balance, self.has_pages = page, balance, has_pages

    def contiguous(self):
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__, page=0)
        return copy

    def module(self):
        text = super().module()
        if self.balance:
            text = text.replace("split_kv_work_items", "balance_splits = true, split_kv_work_items")
        kinds = ((self.hq, self.d), (self.hkv, self.d), (self.value_heads, self.dv))
        q, k, v = (self.memref(*x, self.dtype) for x in kinds)
        rows = str(self.page or "?")
        cached = [x.replace("x?x", f"x{rows}x", 1) for x in (k, v)]
        for name, old, new in zip("kv", (k, v), cached):
            text = text.replace(f"%{name}: {old}", f"%{name}: {new}")
        text = text.replace(f"ins(%q, %k, %v : {q}, {k}, {v})", f"ins(%q, %k, %v : {q}, {', '.join(cached)})")
        parameters = ", %lengths: memref<?xi32>"
        clauses = "key_lengths(%lengths : memref<?xi32>)"
        if self.page:
            parameters += ", %table: memref<?x?xi32>"
            clauses += " page_table(%table : memref<?x?xi32>)"
        text = text.replace(", %lse: ", f"{parameters}, %lse: ", 1)
        at = text.index(")", text.index("f32>", text.index("%o, %lse :"))) + 1
        head, tail = text[:at], text[at:]
        # The clause follows those of heads.
        before = max((tail.index(")", tail.index(clause)) + 1 for clause in (" sinks(", " heads(") if clause in tail),
                     default=0)
        return f"{head}{tail[:before]} {clauses}{tail[before:]}"


# Lengths of the entries, and the number of queries of each.
CASES = {
    "decode": ([0, 1, 17, 64, 65, 200], 1),
    "several": ([5, 130, 31, 0, 63], 7),
    "full": ([128, 128], 40),
    "prefill": ([1, 70, 33], 70),
    "all_empty": ([0, 0], 3),
    "none": ([], 4),
    "uneven": ([3000, 7, 0, 129, 640, 1, 16], 2),
    "single": ([700], 1),
}

VARIANTS = [
    Paged(16, "f32", 64),
    Paged(64, "f32", 32, mask="causal", hq=4, hkv=2),
    Paged(32, "f32", 64, mask="causal", tile=(16, 24), layout="bshd"),
    Paged(256, "bf16", 64, mask="causal", hq=4, hkv=1, tile=(16, 64)),
    Paged(128, "f16", 72, dv=24, mask="window", tile=(8, 48), layout="bshd"),
    Paged(16, "f32", 40, mask="window_both", score="alibi", hq=4, hkv=2),
    Paged(16, "f32", 64, mask="causal", score="softcap", tile=(32, 128)),
    Paged(32, "bf16", 64, keep="docs", mask="causal", hq=2, hkv=1, out="f32"),
    Paged(16, "f32", 64, mask="causal", sinks="f32", hq=4, hkv=2),
    Paged(64, "f32", 32, head_map=[1, 0, 1, 1], hq=4, hkv=2, mask="causal"),
    Paged(16, "f32", 64, mask="causal", split=8, tile=(8, 16)),
    Paged(32, "bf16", 128, mask="causal", hq=8, hkv=2, split=8, pack=True, tile=(4, 32)),
    Paged(64, "f32", 64, mask="window", tile=None, hq=4, hkv=2),
    Paged(16, "f32", 64, mask="causal", split=8, balance=True, tile=(8, 16)),
    Paged(64, "f32", 40, dv=24, mask="window", split=64, balance=True, tile=(4, 8), sinks="f32", hq=4, hkv=2),
    Paged(32, "bf16", 128, mask="causal", hq=8, hkv=2, split=32, balance=True, pack=True, tile=(4, 32)),
    Paged(16, "f32", 64, hq=4, hkv=2, split=200, balance=True, tile=(16, 16), keep="docs", layout="bshd"),
    # Other numbers of value heads than of key heads.
    Paged(16, "f32", 32, mask="causal", hq=12, hkv=3, hv=6),
    Paged(32, "bf16", 64, mask="causal", hq=12, hkv=6, hv=2, split=8, pack=True, tile=(4, 32)),
    # Masks that read operands: drafts of trees behind the cached keys, and boundaries, blocks and ids of positions.
    Paged(16, "f32", 64, data="tree", hq=4, hkv=2),
    Paged(64, "bf16", 32, data="shared_tree", tile=(8, 48), layout="bshd"),
    Paged(32, "f32", 40, data="tree", hq=4, hkv=1, split=8, tile=(8, 16), sinks="f32", score="alibi"),
    Paged(16, "f32", 64, data="tree", split=64, balance=True, tile=(4, 16), hq=4, hkv=2),
    Paged(32, "f32", 64, data="tree", hq=8, hkv=2, split=8, pack=True, tile=(4, 32)),
    Paged(64, "f16", 64, data="tree", tile=None),
    Paged(32, "f32", 32, data="packed_documents", hq=4, hkv=2),
    Paged(16, "f32", 32, data="causal_blocks", tile=(16, 24)),
    Paged(16, "f32", 32, data="documents", hq=4, hkv=2, has_pages=False),
    # Dropout by positions, wherever keys are stored.
    Paged(16, "f32", 64, mask="causal", hq=4, hkv=2, dropout=Dropout(0.125, "philox", 7)),
    Paged(64, "bf16", 64, split=8, tile=(16, 16), dropout=Dropout(0.1, "arx", 6, bits=16)),
    Paged(32, "f32", 32, data="tree", split=64, balance=True, tile=(16, 32), dropout=Dropout(0.5, "threefry", 12)),
]


class Cache:
    """Pages in any order, and the same keys one after another."""

    def __init__(self, page, lengths, rng):
        self.lengths = np.array(lengths, np.int32)
        self.pages = -(-max(lengths, default=0) // page) + 1
        self.count = len(lengths) * self.pages + 3
        order = rng.permutation(self.count)[: len(lengths) * self.pages]
        self.table = order.reshape(len(lengths), self.pages).astype(np.int32)
        self.page = page
        behind = np.arange(self.pages) * page >= self.lengths[:, None]
        wrong = rng.choice([-1, 2**31 - 1, self.count], behind.shape)
        self.given = np.where(behind, wrong, self.table).astype(np.int32)

    def split(self, keys):
        """Pages of keys [batch, heads, positions, dim]; pages of no entry are not numbers."""
        batch, heads, _, dim = keys.shape
        pages = np.full((self.count, heads, self.page, dim), np.nan, np.float32)
        pages[self.table] = keys.reshape(batch, heads, self.pages, self.page, dim).transpose(0, 2, 1, 3, 4)
        return pages


def store(variant, values):
    """Values [batch, heads, positions, dim] in the layout of the variant."""
    order = {"bhsd": (0, 1, 2, 3), "bshd": (0, 2, 1, 3)}[variant.layout]
    return to_memory(values.transpose(order), variant.dtype).transpose(np.argsort(order))


def check_entry(variant, inputs, captures, sinks, reads, kept, s, length, out, lse):
    """What is wrong with the results of entry `s`. `kept` says which pairs dropout keeps."""
    out, lse = out[s : s + 1], lse[s : s + 1]
    if length == 0:
        expected = -np.inf
        if sinks is not None:
            expected = sinks.reshape(1, -1, 1)
        if (from_memory(out, variant.out) != 0).any() or not np.allclose(lse, expected, 1e-6):
            return "rows with nothing to attend"
        return None
    own = {name: x[s : s + 1] if name == "docs" else x for name, x in captures.items()}
    values = [round_to(x[s : s + 1, :, : None if n == 0 else length], variant.dtype) for n, x in enumerate(inputs)]
    reads = [x[s : s + 1] if len(x) > 1 else x for x in reads]
    kept = None if kept is None else kept[s : s + 1, :, :, :length]
    return compare(variant, values, own, out, lse, sinks=sinks, reads=reads, kept=kept)


def run(variant, libraries, lengths, queries, rng, runtime, bad=None):
    """What is wrong with the results, if anything. `bad` changes lengths and table, and gives the entries that it
    changes."""
    queries = 1 if variant.pack else queries
    cache = Cache(variant.page, lengths, rng)
    batch, stored = len(lengths), cache.pages * variant.page
    inputs = [rng.standard_normal((batch, variant.hq, queries, variant.d)).astype(np.float32)]
    for heads, dim in ((variant.hkv, variant.d), (variant.value_heads, variant.dv)):
        keys = rng.standard_normal((batch, heads, stored, dim)).astype(np.float32)
        keys.transpose(0, 2, 1, 3)[np.arange(stored) >= cache.lengths[:, None]] = np.nan
        inputs.append(keys)
    shape = types.SimpleNamespace(b=max(batch, 1), hq=variant.hq, sq=queries, skv=max(stored, 1))
    captures = {}
    for name in variant.captures:
        _, numpy_type, make = CAPTURES[name]
        captures[name] = np.ascontiguousarray(make(shape, rng), numpy_type)
    sinks = rng.standard_normal(variant.hq).astype(np.float32) if variant.sinks else None
    state, kept, _ = variant.generate_keep_mask(shape, rng)
    reads = variant.make_reads(shape, rng)
    more = [*captures.values(), *([sinks] if variant.sinks else []),
            *([np.array(variant.head_map, np.int32)] if variant.head_map else []), *state, *reads]
    element = {"bf16": np.uint16, "f16": np.float16, "f32": np.float32}[variant.out]
    given, table = cache.lengths.copy(), cache.given.copy()
    changed = bad(cache, given, table) if bad else ()
    results = []
    for library, is_paged in zip(libraries, (variant.has_pages, False)):
        kv = [store(variant, cache.split(x) if is_paged else x) for x in inputs[1:]]
        out = variant.array(batch, variant.hq, queries, variant.dv, lambda s: np.full(s, 7, element))
        lse = np.full((batch, variant.hq, queries), 7, np.float32)
        arrays = [store(variant, inputs[0]), *kv, out, given, *([table] if is_paged else []), lse, *more]
        library._mlir_ciface_run(*(ctypes.byref(descriptor(a)) for a in arrays))
        reported = runtime.attnrtTakeFault(0)
        if runtime.attnrtTakeFault(0) != 0:
            return "a fault was reported twice"
        if is_paged == variant.has_pages and reported != (1 if changed else 0):
            return f"status {reported}"
        results.append((out, lse))
    for s, length in enumerate(lengths):
        if s in changed:
            continue
        message = check_entry(variant, inputs, captures, sinks, reads, kept, s, length, *results[0])
        if message:
            return f"entry {s}: {message}"
        for paged, contiguous in zip(*results):
            if paged[s].tobytes() != contiguous[s].tobytes():
                return f"entry {s} differs from the contiguous cache"
    return None


def change_table(value):
    def change(cache, lengths, table):
        table[1, 0] = cache.count if value is None else value
        return (1,)
    return change


def change_length(value):
    def change(cache, lengths, table):
        lengths[1] = cache.pages * cache.page + 1 if value is None else value
        return (1,)
    return change


WRONG = (-1, None, -(2**31), 2**31 - 1)
BAD = [change(value) for change, value in itertools.product((change_table, change_length), WRONG)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", required=True, help="clang")
    parser.add_argument("--library", required=True, help="folder of libattn_runtime")
    parser.add_argument("--work", required=True, help="folder for what is compiled")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    runtime = ctypes.CDLL(os.path.join(args.library, "libattn_runtime.so"))

    modules = [x if x.has_pages else x.contiguous() for variant in VARIANTS for x in (variant, variant.contiguous())]
    paths = [os.path.join(args.work, f"variant{n}") for n in range(len(modules))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        libraries = list(pool.map(lambda x: compile_variant(*x, args), zip(modules, paths)))
    rng = np.random.default_rng(0)
    results = []
    for number, variant in enumerate(VARIANTS):
        pair = libraries[2 * number : 2 * number + 2]
        for name, (lengths, queries) in CASES.items():
            results.append((f"{variant}\n  {name}", run(variant, pair, lengths, queries, rng, runtime)))
        for bad_number, bad in enumerate(BAD if variant.has_pages else []):
            results.append((f"{variant}\n  bad {bad_number}", run(variant, pair, [70, 33, 5], 2, rng, runtime, bad)))
    failures = [(case, message) for case, message in results if message]
    for case, message in failures:
        print(f"{case}: {message}")
    print(f"{len(results)} cases, {len(failures)} failures")
    return len(failures) != 0


if __name__ == "__main__":
    sys.exit(main())
