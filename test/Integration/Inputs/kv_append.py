# ===- kv_append.py - New keys and values for KV caches ---------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Variants of attn.cache_append: their modules, arguments, and results in f64.
#
# ===----------------------------------------------------------------------===#

import dataclasses
from typing import Tuple

import numpy as np

# Bits of elements, whose values numpy has no type for, and the rounding of their type.
BITS = {"bf16": np.uint16, "f16": np.uint16, "f32": np.uint32, "f8E4M3FN": np.uint8, "f8E5M2": np.uint8}
EPSILON = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24, "f8E4M3FN": 2.0**-4, "f8E5M2": 2.0**-3}
# The smallest normal number: smaller ones may be rounded by their distance.
TINY = {"bf16": 2.0**-126, "f16": 2.0**-14, "f32": 2.0**-126, "f8E4M3FN": 2.0**-6, "f8E5M2": 2.0**-14}
#: Bits of the mantissa, bias and bits of the largest number of 8-bit types.
EIGHT_BITS = {"f8E4M3FN": (3, 7, 0x7E), "f8E5M2": (2, 15, 0x7B)}
#: Rows of the tables of angles.
POSITIONS = 700


def to_bits(x, dtype):
    x = np.ascontiguousarray(x, np.float32)
    if dtype == "f32":
        return x.view(np.uint32)
    if dtype == "f16":
        return x.astype(np.float16).view(np.uint16)
    bits = x.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def make_numbers(dtype):
    """All numbers of an 8-bit type from 0 on that are finite; the bits of a number are its index."""
    mantissa, bias, largest = EIGHT_BITS[dtype]
    bits = np.arange(largest + 1)
    exponent, rest = bits >> mantissa, bits & ((1 << mantissa) - 1)
    significand = rest + (exponent > 0) * 2.0**mantissa
    return significand * 2.0 ** (np.maximum(exponent, 1) - bias - mantissa)


def quantize(x, dtype):
    """The bits of the 8-bit numbers next to f32 numbers, even ones of two, at most the largest."""
    numbers = make_numbers(dtype)
    middles = (numbers[1:] + numbers[:-1]) / 2
    size = np.minimum(np.abs(x.astype(np.float64)), numbers[-1])
    bits = np.searchsorted(middles, size)
    bits += (bits < len(middles)) & (bits % 2 == 1) & (middles[np.minimum(bits, len(middles) - 1)] == size)
    bits = np.where(np.isnan(x), 0x7F, bits)
    return (bits | np.signbit(x) * 0x80).astype(np.uint8)


def from_bits(bits, dtype):
    if dtype in EIGHT_BITS:
        numbers = np.full(128, np.nan)
        numbers[: EIGHT_BITS[dtype][2] + 1] = make_numbers(dtype)
        if dtype == "f8E5M2":
            numbers[0x7C] = np.inf
        return np.where(bits & 0x80, -1.0, 1.0) * numbers[bits & 0x7F]
    if dtype == "bf16":
        bits, dtype = bits.astype(np.uint32) << 16, "f32"
    # Bits of signalling NaNs are no error.
    with np.errstate(invalid="ignore"):
        return bits.view({"f16": np.float16, "f32": np.float32}[dtype]).astype(np.float64)


@dataclasses.dataclass(frozen=True)
class Append:
    """An append to a paged cache, or to a contiguous one if the page size is 0."""

    page: int
    dtype: str = "bf16"
    head_dim: int = 64
    value_dim: int = 0
    heads: Tuple[int, int] = (4, 2)
    rotated: int = 0
    interleaved: bool = False
    table: str = "f32"
    query: bool = False
    same_position: bool = False
    new_lengths: bool = True
    layout: str = "bhsd"
    #: The type of the cache if it is another one, and whether it has scales.
    cache_dtype: str = ""
    scaled: bool = False

    # Of the compiler.
    options = []
    may_spill = False

    @property
    def name(self):
        sizes = [f"d{self.head_dim}", f"v{self.dims[1]}", f"h{self.heads[0]}x{self.heads[1]}"]
        parts = [f"page{self.page}", self.dtype, *sizes]
        if self.rotated:
            parts += [f"r{self.rotated}", self.table, *(["interleaved"] if self.interleaved else [])]
        parts += ["query"] * self.query + ["same"] * self.same_position + ["lengths"] * self.new_lengths
        parts += [self.cache_dtype] * bool(self.cache_dtype) + ["scaled"] * self.scaled
        return "_".join([*parts, self.layout])

    __str__ = name.fget

    @property
    def dims(self):
        return self.head_dim, self.value_dim or self.head_dim

    @property
    def stored(self):
        return self.cache_dtype or self.dtype

    def arguments(self):
        """Names and types of the arguments of the function, in order."""
        d, dv = self.dims
        hq, hkv = self.heads
        rows = self.page or "?"
        types = {"k": f"?x{hkv}x?x{d}x{self.dtype}", "v": f"?x{hkv}x?x{dv}x{self.dtype}", "n": "?xi32"}
        if self.page:
            types["t"] = "?x?xi32"
        if self.rotated:
            types["cos"] = types["sin"] = f"?x{self.rotated // 2}x{self.table}"
        if self.query:
            types["q"] = f"?x{hq}x?x{d}x{self.dtype}"
        if self.scaled:
            types["ks"] = types["vs"] = f"?x{hkv}xf32"
        types.update(kc=f"?x{hkv}x{rows}x{d}x{self.stored}", vc=f"?x{hkv}x{rows}x{dv}x{self.stored}")
        if self.query:
            types["r"] = types["q"]
        if self.new_lengths:
            types["next"] = "?xi32"
        return {name: f"tensor<{kind}>" for name, kind in types.items()}

    def mlir(self):
        types = self.arguments()
        results = [name for name in ("kc", "vc", "r", "next") if name in types]
        kinds = ", ".join(types[name] for name in results)
        lines = [
            f"func.func @append({', '.join(f'%{name}: {kind}' for name, kind in types.items())}) -> ({kinds}) {{",
            f"  %x:{len(results)} = attn.cache_append ins(%k, %v : {types['k']}, {types['v']})",
            f"      outs(%kc, %vc : {types['kc']}, {types['vc']}) key_lengths(%n : {types['n']})",
        ]
        if self.new_lengths:
            lines.append(f"      new_lengths(%next : {types['next']})")
        if self.page:
            lines.append(f"      page_table(%t : {types['t']})")
        if self.rotated:
            interleaved = "interleaved" if self.interleaved else ""
            lines.append(f"      rotary(%cos, %sin : {types['cos']}, {types['sin']}) {interleaved}")
        if self.query:
            lines.append(f"      query(%q into %r : {types['q']}, {types['r']})")
        lines += ["      same_position"] * self.same_position
        if self.scaled:
            lines.append(f"      scales(%ks, %vs : {types['ks']}, {types['vs']})")
        values = ", ".join(f"%x#{i}" for i in range(len(results)))
        lines += [f"      -> {kinds}", f"  return {values} : {kinds}", "}", ""]
        return "\n".join(lines)

    def make(self, lengths, new, queries, rng, room=0):
        """The arguments, elements as bits. Caches and destinations hold any bits. Entries have `room` more keys than
        they need; table entries in front of the new keys and behind them are no pages."""
        batch, (d, dv), (hq, hkv) = len(lengths), self.dims, self.heads
        capacity = max(lengths, default=0) + new + room
        entries, rows = batch, capacity
        made = {"n": np.array(lengths, np.int32)}
        if self.page:
            pages = max(-(-capacity // self.page), 1)
            entries, rows = batch * pages + 3, self.page
            table = rng.permutation(entries)[: batch * pages].reshape(batch, pages).astype(np.int32)
            first = np.arange(pages) * self.page
            unused = (first + self.page <= made["n"][:, None]) | (first >= made["n"][:, None] + new)
            made["t"] = np.where(unused, rng.choice([-1, entries, 2**31 - 1], table.shape), table).astype(np.int32)

        def draw(*shape):
            return to_bits(rng.standard_normal(shape), self.dtype)

        def poison(*shape, dtype=self.dtype):
            # Any bits, also those of signalling NaNs and subnormal numbers.
            limit = np.iinfo(BITS[dtype]).max
            return rng.integers(0, limit, shape, BITS[dtype], endpoint=True)

        made.update(k=draw(batch, hkv, new, d), v=poison(batch, hkv, new, dv))
        if self.cache_dtype:
            # Numbers in the range of an 8-bit type, and any bits.
            shape = made["v"].shape
            near = to_bits(rng.standard_normal(shape) * 2.0 ** rng.integers(-12, 12, shape), self.dtype)
            made["v"] = np.where(rng.random(shape) < 0.75, near, made["v"])
        made.update({n: poison(entries, hkv, rows, size, dtype=self.stored) for n, size in (("kc", d), ("vc", dv))})
        if self.scaled:
            made.update({name: to_bits(2.0 ** rng.uniform(-8, 8, (batch, hkv)), "f32") for name in ("ks", "vs")})
        if self.rotated:
            angles = rng.uniform(-4, 4, (POSITIONS, self.rotated // 2))
            made.update(cos=to_bits(np.cos(angles), self.table), sin=to_bits(np.sin(angles), self.table))
        if self.query:
            made.update(q=draw(batch, hq, queries, d), r=poison(batch, hq, queries, d))
        if self.new_lengths:
            made["next"] = np.full(batch, 77, np.int32)
        return {name: made[name] for name in self.arguments()}

    def type_of(self, name):
        return self.arguments()[name][:-1].rpartition("x")[2]

    def _rotate(self, before, name, positions):
        """Rows `[batch, heads, rows, dim]` rotated at `positions` `[batch, rows]`, and the errors that are allowed."""
        x = from_bits(before[name], self.dtype)
        half = self.rotated // 2
        cos, sin = (from_bits(before[name], self.table)[positions][:, None] for name in ("cos", "sin"))
        if self.interleaved:
            first, second = slice(0, self.rotated, 2), slice(1, self.rotated, 2)
        else:
            first, second = slice(0, half), slice(half, self.rotated)
        exact, size = x.copy(), np.zeros(x.shape)
        a, b = x[..., first], x[..., second]
        exact[..., first], exact[..., second] = a * cos - b * sin, b * cos + a * sin
        size[..., first], size[..., second] = abs(a * cos) + abs(b * sin), abs(b * cos) + abs(a * sin)
        eps = EPSILON[self.dtype]
        allowed = np.where(size > 0, eps * np.maximum(abs(exact), TINY[self.dtype]) + 4 * EPSILON["f32"] * size, 0)
        return exact, allowed

    def check(self, before, after, invalid=()):
        """What is wrong with the results. Entries in `invalid` are not written; rows without a page neither."""
        lengths, new = before["n"].astype(np.int64), before["k"].shape[2]
        valid = np.array([s not in invalid for s in range(len(lengths))], bool)
        safe = np.where(valid, lengths, 0)
        for name, source in (("kc", "k"), ("vc", "v")):
            message = self._check_cache(before, after, name, source, safe, valid)
            if message:
                return f"{name}: {message}"
        if self.query:
            steps = np.arange(before["q"].shape[2]) * (not self.same_position)
            exact, allowed = self._rotate(before, "q", safe[:, None] + steps)
            wrong = compare(before["q"], after["r"], exact, allowed, self.dtype)[valid]
            if wrong.any():
                return f"queries: {wrong.sum()} elements"
        if self.new_lengths and not np.array_equal(after["next"], np.where(valid, lengths + new, 0)):
            return f"new lengths {after['next']}"
        return None

    def _quantize(self, before, name, exact, error):
        """Bits, numbers and allowed errors of new elements in a cache of 8 bits. `error` is the allowed error of the
        numbers in the type of the keys; if it is None, the bits are exact."""
        scale = from_bits(before[name[0] + "s"], "f32")[:, :, None, None] if self.scaled else 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            quotient = exact.astype(np.float32) / np.float32(scale)
        bits = quantize(quotient, self.cache_dtype)
        if error is None:
            return bits, from_bits(bits, self.cache_dtype), np.zeros(bits.shape)
        # Rotated keys are rounded to 8 bits alone.
        largest = make_numbers(self.cache_dtype)[-1]
        number = np.clip(exact / scale, -largest, largest)
        allowed = EPSILON[self.cache_dtype] * np.maximum(abs(number), TINY[self.cache_dtype]) + error / scale
        return bits, number, np.where(error > 0, allowed, 0)

    def _check_cache(self, before, after, name, source, lengths, valid):
        new = before[source].shape[2]
        positions = lengths[:, None] + np.arange(new)
        copied = before[source]
        is_rotated = source == "k" and self.rotated
        if is_rotated:
            exact, allowed = self._rotate(before, source, positions)
        else:
            exact, allowed = from_bits(copied, self.dtype), np.zeros(copied.shape)
        if self.cache_dtype:
            copied, exact, allowed = self._quantize(before, name, exact, allowed if is_rotated else None)
        entries, rows = np.broadcast_to(np.arange(len(lengths))[:, None], positions.shape), positions
        if self.page:
            entries, rows = np.take_along_axis(before["t"], positions // self.page, 1), positions % self.page
        written = valid[:, None] & (entries >= 0) & (entries < before[name].shape[0])
        found = after[name].copy()
        picked = found.transpose(0, 2, 1, 3)[entries[written], rows[written]]
        chosen = [x.transpose(0, 2, 1, 3)[written] for x in (copied, exact, allowed)]
        wrong = compare(chosen[0], picked, *chosen[1:], self.stored)
        if wrong.any():
            return f"{wrong.sum()} new elements of {wrong.size}"
        found.transpose(0, 2, 1, 3)[entries[written], rows[written]] = before[name].transpose(0, 2, 1, 3)[
            entries[written], rows[written]
        ]
        if not np.array_equal(found, before[name]):
            return f"{(found != before[name]).sum()} elements are not new and have changed"
        return None


def compare(source, found, exact, allowed, dtype):
    """Where elements are wrong. Elements without an allowed error are bits of the source."""
    with np.errstate(invalid="ignore"):
        difference = abs(from_bits(found, dtype) - exact)
        bits = found != source
        if dtype in EIGHT_BITS:
            bits &= ~(np.isnan(from_bits(found, dtype)) & np.isnan(exact))
        return np.where(allowed > 0, ~(difference <= allowed), bits)


VARIANTS = [
    Append(0),
    Append(16, heads=(8, 2), rotated=64, query=True),
    Append(64, head_dim=128, rotated=128, query=True, heads=(32, 8), layout="bshd"),
    Append(0, head_dim=128, rotated=64, interleaved=True, query=True, same_position=True, layout="bshd"),
    Append(32, "f16", head_dim=72, value_dim=40, rotated=32, table="f16", query=True),
    Append(256, "f32", head_dim=64, rotated=16, interleaved=True, query=True, new_lengths=False),
    Append(0, "f32", head_dim=32, value_dim=64, rotated=32, table="bf16", heads=(2, 1), layout="bshd"),
    Append(128, "f16", head_dim=256, value_dim=128, heads=(6, 1)),
    Append(16, head_dim=24, rotated=12, interleaved=True, query=True, heads=(3, 3)),
    Append(64, head_dim=8, rotated=2, query=True, heads=(1, 1), table="bf16"),
    Append(64, head_dim=128, rotated=128, query=True, heads=(32, 8), cache_dtype="f8E4M3FN", scaled=True),
    Append(0, head_dim=128, rotated=64, interleaved=True, query=True, cache_dtype="f8E5M2", scaled=True, layout="bshd"),
    Append(16, "f16", head_dim=80, value_dim=48, cache_dtype="f8E4M3FN"),
    Append(0, "f32", head_dim=32, value_dim=64, rotated=32, cache_dtype="f8E5M2", heads=(2, 1)),
    Append(128, "f32", head_dim=48, rotated=12, interleaved=True, query=True, cache_dtype="f8E4M3FN", scaled=True),
]

# Lengths of the entries, new keys, queries, and keys that there is room for beyond what the longest entry needs.
CASES = {
    "decode": ([0, 1, 17, 64, 65, 200], 1, 1, 3),
    "several": ([5, 130, 31, 0, 63, 64], 7, 3, 0),
    "chunk": ([1, 70, 333], 129, 140, 20),
    "full": ([40, 40], 24, 24, 0),
    "no_keys": ([3, 0], 0, 2, 1),
    "no_queries": ([3, 0], 2, 0, 1),
    "no_entries": ([], 3, 3, 1),
    "many": ([(37 * n) % 300 for n in range(64)], 1, 1, 1),
}

WRONG = (-1, None, -(2**31), 2**31 - 1)


def make_bad(variant, rng):
    """Names, arguments, invalid entries and the words of the report."""
    lengths, new = [70, 33, 5], 20
    for value in WRONG:
        arguments = variant.make(lengths, new, new, rng, room=5)
        # One too many, or what there is never room for.
        room = variant.page * arguments["t"].shape[1] if variant.page else arguments["kc"].shape[2]
        arguments["n"][1] = room - new + 1 if value is None else value
        yield f"length {value}", arguments, (1,), "number of keys"
        if variant.page:
            arguments = variant.make(lengths, new, new, rng, room=5)
            page = 33 // variant.page
            arguments["t"][1, page] = arguments["kc"].shape[0] if value is None else value
            yield f"page {value}", arguments, (), "page table"
    if variant.rotated:
        arguments = variant.make(lengths, new, new + 5 if variant.query else new, rng, room=POSITIONS)
        most = POSITIONS - new - 5 * variant.query
        arguments["n"][1] = most + 1
        if variant.page:
            arguments["t"] = np.arange(arguments["t"].size, dtype=np.int32).reshape(arguments["t"].shape)
        yield "position", arguments, (1,), "rotary embedding"
