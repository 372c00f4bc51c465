#!/usr/bin/env python3
# ===- paged.py - KV caches on the GPU -----------------------------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compares attention with paged KV caches, by attention.py's formula in f64, one batch entry at a time.

    paged.py --compile build/bin/attn-compile --artifacts DIR
    paged.py --artifacts DIR --runtime libattn_runtime.so
    compute-sanitizer paged.py --artifacts DIR --sanitizer-subset

Keys behind the lengths and pages of no entry hold NaN and must not matter, nor may the order of pages. Table entries
behind the last key are no pages. Wrong pages and lengths are reported by the next call.
"""

import ctypes
import random
import sys
from dataclasses import dataclass
from functools import partial

import attention
from attention import Case, Variant, compile_artifacts, make_reads, name_heads
from device_suite import load, run_subset_suite
from dropout_reference import Dropout
from sequences import check_sequence

#: The subject of the rows that --record writes.
SUBJECT = "paged and contiguous KV caches with lengths"


@dataclass(frozen=True)
class Paged(Variant):
    """A function whose keys and values are in pages, or contiguous with lengths if the page size is 0. `balance` says
    whether the number of splits follows from the lengths. Keys and values have the type `stored`, or that of queries,
    and if they are `scaled` a scale for each entry and head."""

    page: int = 64
    balance: bool = False
    stored: str = ""
    scaled: bool = False

    @property
    def name(self) -> str:
        stored = (self.stored and "_" + self.stored) + "_scaled" * self.scaled
        return f"page{self.page}_{super().name}{'_balanced' * self.balance}{stored}"

    @property
    def stored_dtype(self) -> str:
        return self.stored or self.dtype

    @property
    def options(self):
        options = super().options
        if not self.balance:
            return options
        return [x.replace("split_kv_work_items", "balance_splits = true, split_kv_work_items") for x in options]

    @property
    def cached(self):
        """The types of stored keys and values."""
        rows = self.page or "?"
        return [f"tensor<?x{heads}x{rows}x{dim}x{self.stored_dtype}>" for heads, dim in self.kv_kinds]

    def slice_keys(self, k, v, rows=""):
        return super().slice_keys(*self.cached, str(self.page or ""))

    def mlir(self) -> str:
        text = super().mlir()
        q = f"tensor<?x{self.heads}x{self.length}x{self.qk_dim}x{self.dtype}>"
        k, v = (f"tensor<?x{heads}x?x{dim}x{self.dtype}>" for heads, dim in self.kv_kinds)
        cached = self.cached
        for name, old, new in (("key", k, cached[0]), ("value", v, cached[1])):
            text = text.replace(f"%{name}: {old}", f"%{name}: {new}")
        text = text.replace(f"{q}, {k}, {v})", f"{q}, {', '.join(cached)})")
        parameters, clauses = ", %lengths: tensor<?xi32>", " key_lengths(%lengths : tensor<?xi32>)"
        if self.page:
            parameters += ", %table: tensor<?x?xi32>"
            clauses += " page_table(%table : tensor<?x?xi32>)"
        if self.scaled:
            parameters += f", %kscale: {self.scale_type}, %vscale: {self.scale_type}"
            place = text.rindex(" -> ")
            text = text[:place] + self.regions() + text[place:]
        text = text.replace(") -> (", f"{parameters}) -> (", 1)
        end = text.index(")", text.index("sinks(%sinks") if self.sinks else text.index("outs(")) + 1
        return text[:end] + clauses + text[end:]


    @property
    def scale_type(self) -> str:
        return f"tensor<?x{self.kv_heads}xf32>"

    def regions(self) -> str:
        """Regions that multiply scores and the output by scales of keys and values."""
        assert not self.score

        def region(kind, position, scale):
            return f"""
      {kind} {{
      ^bb0(%x: f32, %b: index, %h: index, %i: index, %{position}: index):
        %group = arith.constant {self.heads // self.kv_heads} : index
        %head = arith.divui %h, %group : index
        %factor = tensor.extract %{scale}[%b, %head] : {self.scale_type}
        %y = arith.mulf %x, %factor : f32
        attn.yield %y : f32
      }}"""

        return region("score_mod", "j", "kscale") + region("epilogue", "d", "vscale")


def variant(page, qk_dim, v_dim=None, heads=(2, 2), **rest):
    return Paged(qk_dim, v_dim or qk_dim, **name_heads(heads), page=page, **rest)


# A tile of queries for decoding: heads of a group are its rows, and work items split the keys.
DECODE = (1, 64, 2, False, "grid", 1)

E4M3, E5M2 = "f8E4M3FN", "f8E5M2"

VARIANTS = [
    variant(64, 128, heads=(8, 2), mask="causal"),
    variant(16, 128, heads=(8, 2), mask="causal"),
    variant(256, 128, mask="causal"),
    variant(32, 64, dtype="f16", mask="window"),
    variant(128, 64, mask="causal", heads=(6, 1), lse=False),
    variant(64, 256, mask="causal"),
    variant(16, 72, 40, mask="window_both"),
    variant(64, 128, mask="causal", score="alibi"),
    variant(64, 128, mask="causal", keep="docs"),
    variant(64, 128, mask="causal", out="f32"),
    variant(16, 128, heads=(8, 2), mask="causal", pack=1),
    variant(64, 128, heads=(32, 8), mask="causal", pack=1),
    variant(128, 64, heads=(16, 2), mask="causal", pack=4),
    variant(64, 192, 128, heads=(8, 1), mask="causal", pack=2, dtype="f16"),
    variant(64, 128, heads=(8, 2), mask="causal", pack=1, schedule=DECODE, split=132),
    variant(16, 128, heads=(8, 2), mask="causal", pack=3, schedule=DECODE, split=132),
    variant(32, 128, mask="causal", schedule=(2, 128, 2, True, "paired", 1)),
    variant(64, 64, schedule=(3, 128, 2, True, "persistent", 1)),
    variant(0, 128, heads=(8, 2), mask="causal"),
    variant(0, 128, heads=(8, 2), mask="causal", pack=1),
    variant(64, 128, heads=(8, 2), mask="causal", pack=1, schedule=DECODE, split=132, balance=True),
    variant(16, 128, heads=(8, 2), mask="causal", pack=3, schedule=DECODE, split=132, balance=True),
    variant(256, 64, heads=(4, 4), mask="window", schedule=DECODE, split=132, balance=True, dtype="f16"),
    variant(0, 128, heads=(16, 2), score="alibi", pack=4, schedule=DECODE, split=264, balance=True),
    # Other numbers of value heads than of key heads.
    variant(64, 128, heads=(12, 3, 6), mask="causal", pack=1),
    variant(16, 64, heads=(12, 6, 2), pack=4, dtype="f16"),
    # Latents, whose first elements are values.
    variant(64, 576, 512, heads=(16, 1), pack=1, latent=True),
    variant(16, 576, 512, heads=(8, 1), mask="causal", dtype="f16", latent=True),
    variant(0, 576, 512, heads=(128, 1), mask="causal", pack=1, latent=True),
    variant(256, 320, 256, heads=(4, 2), mask="window", pack=4, latent=True),
    # Keys and values of 8 bits, which kernels convert.
    variant(64, 128, heads=(8, 2), mask="causal", stored=E4M3),
    variant(16, 128, heads=(8, 2), mask="causal", stored=E5M2, dtype="f16"),
    variant(32, 256, mask="causal", stored=E4M3),
    variant(0, 64, heads=(8, 2), mask="window", stored=E5M2),
    variant(64, 192, 128, heads=(8, 1), mask="causal", stored=E4M3, dtype="f16"),
    variant(64, 128, heads=(32, 8), mask="causal", pack=1, stored=E4M3),
    variant(0, 128, heads=(8, 2), mask="causal", score="alibi", pack=4, stored=E5M2),
    variant(16, 128, heads=(8, 2), mask="causal", pack=3, schedule=DECODE, split=264, balance=True, stored=E4M3),
    variant(64, 128, heads=(8, 2), mask="causal", stored=E4M3, scaled=True),
    variant(64, 128, heads=(32, 8), mask="causal", pack=1, stored=E4M3, scaled=True),
    variant(0, 64, heads=(8, 2), mask="window", stored=E5M2, scaled=True),
    variant(0, 128, heads=(8, 2), pack=4, stored=E4M3, scaled=True),
    variant(16, 128, heads=(8, 2), mask="causal", pack=3, schedule=DECODE, split=264, stored=E4M3, scaled=True),
    variant(16, 128, heads=(8, 2), mask="causal", pack=1, schedule=DECODE, split=264, balance=True, stored=E4M3,
            scaled=True),
    variant(64, 128, heads=(8, 2), pack=3, schedule=DECODE, split=264, balance=True, scaled=True, out="f32"),
    # Masks that read operands: drafts of trees behind the cached keys, and boundaries and blocks of positions.
    variant(16, 128, heads=(8, 2), data="tree", pack=8),
    variant(64, 128, heads=(32, 8), data="tree", pack=64),
    variant(0, 128, heads=(8, 2), data="shared_tree", pack=4, dtype="f16"),
    variant(64, 64, heads=(4, 4), data="tree", pack=16),
    variant(32, 128, heads=(8, 1), data="tree", lse=False),
    variant(64, 128, heads=(8, 2), data="shared_tree", pack=3, schedule=DECODE, split=132, balance=True),
    variant(64, 128, heads=(8, 2), data="tree", pack=8, score="alibi"),
    variant(16, 128, heads=(8, 2), data="tree", pack=4, stored=E4M3),
    variant(16, 576, 512, heads=(16, 1), data="tree", pack=2, latent=True),
    variant(64, 128, heads=(8, 2), data="packed_documents", pack=2),
    variant(32, 64, data="causal_blocks"),
    # Dropout by positions, wherever keys are stored.
    variant(16, 128, heads=(8, 2), mask="causal", dropout=Dropout(0.125, "philox", 7), pack=4),
    variant(0, 64, heads=(4, 2), dropout=Dropout(0.5, "arx", 6)),
    variant(64, 128, heads=(8, 2), mask="causal", dropout=Dropout(0.1, "arx", 6), pack=1),
    variant(64, 128, heads=(8, 2), data="tree", dropout=Dropout(0.125, "philox", 7), pack=8, dtype="f16"),
]


def get_dtypes(torch):
    return {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32,
            E4M3: torch.float8_e4m3fn, E5M2: torch.float8_e5m2}


def make_lengths():
    rng = random.Random(7)
    return {
        "edges": [0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 175, 176, 177, 300],
        "long": [5000, 0, 777],
        "one": [4096],
        "uneven": [9000, 3, 0, 777, 64, 2500],
        "many": [rng.randrange(700) for _ in range(100)],
        "empty": [0, 0],
        "none": [],
    }


class Cache:
    """Where the keys of entries are stored."""

    def __init__(self, torch, page, lengths, seed):
        generator = torch.Generator().manual_seed(seed)
        self.page, self.lengths = page, lengths
        longest = max(lengths, default=0)
        self.pages = -(-longest // page) + 1 if page else 1
        self.rows = page or longest + 5
        self.count = len(lengths) * self.pages + (3 if page else 0)
        order = torch.randperm(self.count, generator=generator) if page else torch.arange(self.count)
        self.table = order[: len(lengths) * self.pages].view(len(lengths), self.pages)
        behind = torch.arange(self.pages) * self.rows >= torch.tensor(lengths, dtype=torch.long).view(-1, 1)
        self.given = torch.where(behind, 2**31 - 1, self.table).to(torch.int32).cuda()
        self.key_lengths = torch.tensor(lengths, dtype=torch.int32, device="cuda")

    def fill(self, torch, tensor, heads, dim, generator):
        """Fills the pages of keys; gives the keys of each entry."""
        keys = []
        for entry, length in zip(self.table.tolist(), self.lengths):
            rows = torch.randn(heads, length, dim, device="cuda", generator=generator).to(tensor.dtype)
            for number, page in enumerate(entry):
                part = rows[:, number * self.rows : (number + 1) * self.rows]
                tensor[page, :, : part.shape[1]] = part
            keys.append(rows[None])
        return keys

    def operands(self):
        return [self.key_lengths, *([self.given] if self.page else [])]


def run_case(torch, function, v, lengths, queries, layout, seed):
    """What is wrong with a case, if anything."""
    dtypes = get_dtypes(torch)
    generator = torch.Generator("cuda").manual_seed(seed)
    batch = len(lengths)
    caches = [Cache(torch, v.page, lengths, seed + n) for n in range(2 if v.page else 1)]
    q, _ = attention.place(torch, (batch, v.heads, queries, v.qk_dim), dtypes[v.dtype], layout, float("nan"), 0)
    q.normal_(generator=generator)
    captures = {}
    for name in v.captures:
        if name == "slopes":
            captures[name] = 2.0 ** -torch.arange(1, v.heads + 1, device="cuda", dtype=torch.float32)
        elif name in v.reads:
            # Masks see positions of all keys that there is room for.
            stored = Case(v, batch, queries, caches[0].pages * caches[0].rows, seed=seed)
            captures[name] = torch.from_numpy(make_reads(stored)[v.reads.index(name)]).cuda()
        elif name in ("seed", "offset"):
            captures[name] = torch.tensor(seed * 0x9E3779B97F4A7C1 + len(name), device="cuda")
        else:
            size = (max(batch, 1), max([queries, *lengths]))
            captures[name] = torch.randint(3, size, device="cuda", dtype=torch.int32, generator=generator)
    scales = []
    if v.scaled:
        scales = [torch.rand(batch, v.kv_heads, device="cuda", generator=generator) + 0.5 for _ in range(2)]
    results = []
    # The same keys in pages of another order.
    for cache in caches:
        generator.manual_seed(seed + 100)
        inputs, keys = [q], []
        for heads, dim in v.kv_kinds:
            shape = (cache.count, heads, cache.rows, dim)
            tensor, _ = attention.place(torch, shape, dtypes[v.stored_dtype], layout, float("nan"), 0)
            keys.append(cache.fill(torch, tensor, heads, dim, generator))
            inputs.append(tensor)
        if v.latent:
            inputs[2] = inputs[1][..., : v.v_dim]
            keys[1] = [rows[..., : v.v_dim] for rows in keys[0]]
        out, _ = attention.place(torch, (batch, v.heads, queries, v.v_dim), dtypes[v.out_dtype], layout, 7, 0)
        lse = torch.full((batch, v.heads, queries), 7.0, device="cuda")
        run = function.bind(*inputs, *captures.values(), *cache.operands(), *scales, out, *([lse] if v.lse else []),
                            stream=torch.cuda.current_stream().cuda_stream)
        run()
        torch.cuda.synchronize()
        results.append((out, lse))
    for s, length in enumerate(lengths):
        case = Case(v, 1, queries, length, entry=s)
        by_entry = ("docs", *v.reads)
        own = {name: x[s : s + 1] if name in by_entry and len(x) > 1 else x for name, x in captures.items()}
        out, lse = (x[s : s + 1] for x in results[0])
        stored = [each[s] for each in keys]
        if v.scaled:
            stored = [each.double() * scale[s].view(-1, 1, 1) for each, scale in zip(stored, scales)]
        wrong = check_sequence(torch, case, [q[s : s + 1], *stored], own, out, lse if v.lse else None)
        if wrong:
            return f"entry {s} {queries}x{length}: {wrong}"
    if not all(torch.equal(*pair) for pair in zip(results[0], results[-1])):
        return "the order of pages matters"
    return None


def run_bad(torch, function, v, runtime, change, word):
    """What is wrong with how a wrong page or length is met. `change` makes it."""
    dtypes = get_dtypes(torch)
    queries = v.pack or 9
    cache = Cache(torch, v.page, [200, 130, 65], 0)
    q = torch.ones(3, v.heads, queries, v.qk_dim, device="cuda", dtype=dtypes[v.dtype])
    k, value = (torch.ones(cache.count, heads, cache.rows, dim, device="cuda").to(dtypes[v.stored_dtype])
                for heads, dim in v.kv_kinds)
    out = torch.full((3, v.heads, queries, v.v_dim), 7.0, device="cuda", dtype=dtypes[v.out_dtype])
    lse = torch.full((3, v.heads, queries), 7.0, device="cuda")
    change(cache)
    scales = [torch.ones(3, v.kv_heads, device="cuda")] * 2 if v.scaled else []
    run = function.bind(q, k, value, *cache.operands(), *scales, out, *([lse] if v.lse else []),
                        stream=torch.cuda.current_stream().cuda_stream)
    run()
    torch.cuda.synchronize()
    if not torch.allclose(out[::2].float(), torch.ones((), device="cuda"), atol=1e-2):
        return "other entries have changed"
    try:
        run()
        return "the next call did not report it"
    except RuntimeError as error:
        if word not in str(error):
            return f"reported as '{error}'"
    run()
    torch.cuda.synchronize()
    if runtime.attnrtTakeFault(1) != 1 or runtime.attnrtTakeFault(1) != 0:
        return "not reported once when asked for"
    return None


def set_page(value, cache):
    # Masks of windows read the last pages only.
    cache.given[1, -(-int(cache.key_lengths[1]) // cache.rows) - 1] = value


def set_length(value, cache):
    cache.key_lengths[1] = value


def make_cases(torch, options, variants):
    runtime = ctypes.CDLL(options.runtime)
    for v in variants:
        function = load(options, v.name, v.name)
        for number, (name, lengths) in enumerate(make_lengths().items()):
            if options.sanitizer_subset and name != "edges":
                continue
            queries = v.pack or (1, 3, 64, 9, 130, 200, 7)[number]
            layout = "bshd" if number % 2 else "bhsd"
            yield f"{v.name} {name} {layout}", partial(run_case, torch, function, v, lengths, queries, layout, number)
        if v.captures:
            continue
        for value in (-1, 2**31 - 1, -(2**31)):
            if v.page:
                yield f"{v.name} page {value}", partial(
                    run_bad, torch, function, v, runtime, partial(set_page, value), "page table")
            yield f"{v.name} length {value}", partial(
                run_bad, torch, function, v, runtime, partial(set_length, value), "number of keys")


if __name__ == "__main__":
    sys.exit(run_subset_suite(__doc__, VARIANTS, compile_artifacts, make_cases))
