# ===- head_ops.py - Attention of rotated and normalised heads --------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Variants of attention with operations around it that become part of it: their
# modules, and references in f64.
#
# ===----------------------------------------------------------------------===#

import dataclasses
from typing import Dict, List, Tuple

import numpy as np

EPSILON = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24}
#: Rows of the tables of angles.
POSITIONS = 1200


def _rotate_halves(x, dtype, lead, channels):
    """The half-split rotation as models write it: slices, a negation, a
    concatenation, products with tables of all channels, and a sum."""
    half = channels // 2
    full, part = f"tensor<{lead}x{channels}x{dtype}>", f"tensor<{lead}x{half}x{dtype}>"
    sizes = lead.split("x")
    dynamic = ", ".join(f"%{x}_d{i}" if size == "?" else size for i, size in enumerate(sizes))
    lines = [f"%{x}_c{i} = arith.constant {i} : index\n%{x}_d{i} = tensor.dim %{x}, %{x}_c{i} : {full}"
             for i, size in enumerate(sizes) if size == "?"]
    inits = ", ".join(f"%{x}_d{i}" for i, size in enumerate(sizes) if size == "?")
    lines += [
        f"%{x}_a = tensor.extract_slice %{x}[0, 0, 0, 0] [{dynamic}, {half}] [1, 1, 1, 1] : {full} to {part}",
        f"%{x}_b = tensor.extract_slice %{x}[0, 0, 0, {half}] [{dynamic}, {half}] [1, 1, 1, 1] : {full} to {part}",
        f"%{x}_n = arith.negf %{x}_b : {part}",
        f"%{x}_r = tensor.concat dim(3) %{x}_n, %{x}_a : ({part}, {part}) -> {full}",
        f"%{x}_e = tensor.empty({inits}) : {full}",
        f"%{x}_rope = linalg.generic {{indexing_maps = [#all, #all, #table, #table, #all], iterator_types = "
        '["parallel", "parallel", "parallel", "parallel"]}',
        f"    ins(%{x}, %{x}_r, %cos, %sin : {full}, {full}, tensor<{POSITIONS}x{channels}xf32>, "
        f"tensor<{POSITIONS}x{channels}xf32>) outs(%{x}_e : {full}) {{",
        f"^bb0(%x: {dtype}, %y: {dtype}, %c: f32, %s: f32, %o: {dtype}):",
        *([f"  %x1 = arith.extf %x : {dtype} to f32", f"  %y1 = arith.extf %y : {dtype} to f32"]
          if dtype != "f32" else []),
        f"  %xc = arith.mulf {'%x' if dtype == 'f32' else '%x1'}, %c : f32",
        f"  %ys = arith.mulf {'%y' if dtype == 'f32' else '%y1'}, %s : f32",
        "  %z = arith.addf %xc, %ys : f32",
        *([f"  %z1 = arith.truncf %z : f32 to {dtype}"] if dtype != "f32" else []),
        f"  linalg.yield {'%z' if dtype == 'f32' else '%z1'} : {dtype}",
        f"}} -> {full}",
    ]
    return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class Heads:
    """Attention whose queries and keys go through ``norm`` and ``rope``, and whose
    output is gated."""

    dtype: str
    channels: int = 64
    query_heads: int = 4
    key_heads: int = 2
    #: "halves", "interleaved", "linalg" for halves as models write it, or none.
    rope: str = ""
    #: Channels that are rotated; 0 for all.
    rotated: int = 0
    offset: int = 0
    batched_tables: bool = False
    norm: bool = False
    #: "sigmoid" of a tensor, "tensor", or "merged": after heads were merged.
    gate: str = ""
    causal: bool = False

    def __str__(self):
        parts = [self.dtype, f"d{self.channels}", self.rope, f"r{self.rotated}" if self.rotated else "",
                 f"at{self.offset}" if self.offset else "", "tables" if self.batched_tables else "",
                 "norm" if self.norm else "", self.gate, "causal" if self.causal else ""]
        return "-".join(part for part in parts if part)

    @property
    def pairs(self):
        return (self.rotated or self.channels) // 2

    def arguments(self, sizes: Dict[str, int]) -> List[Tuple[str, Tuple, str]]:
        """Names, shapes and types, the output last."""
        b, q, k = sizes["b"], sizes["q"], sizes["k"]
        arguments = [("q", (b, self.query_heads, q, self.channels), self.dtype),
                     ("k", (b, self.key_heads, k, self.channels), self.dtype),
                     ("v", (b, self.key_heads, k, self.channels), self.dtype)]
        if self.rope:
            columns = self.channels if self.rope == "linalg" else self.pairs
            shape = (POSITIONS, columns)
            if self.batched_tables:
                shape = (b, *shape)
            arguments += [("cos", shape, "f32"), ("sin", shape, "f32")]
        if self.norm:
            arguments += [("qw", (self.channels,), self.dtype), ("kw", (self.channels,), "f32")]
        if self.gate == "merged":
            arguments.append(("gate", (b, q, self.query_heads * self.channels), self.dtype))
        elif self.gate:
            arguments.append(("gate", (b, self.query_heads, q, self.channels), self.dtype))
        out = arguments[-1][1] if self.gate == "merged" else (b, self.query_heads, q, self.channels)
        return arguments + [("out", out, self.dtype)]

    def module(self) -> str:
        def type_of(name, shape, dtype):
            static = {"q": (1, 3), "k": (1, 3), "v": (1, 3), "gate": (2,) if self.gate == "merged" else (1, 3)}
            dims = [str(size) if name not in static or i in static[name] else "?" for i, size in enumerate(shape)]
            if name in ("cos", "sin") and self.batched_tables:
                dims[0] = "?"
            return f"tensor<{'x'.join(dims)}x{dtype}>"

        types = {name: type_of(name, shape, dtype)
                 for name, shape, dtype in self.arguments(dict(b=1, q=1, k=1)) if name != "out"}
        lines = []
        heads = {"q": self.query_heads, "k": self.key_heads}
        names = {"q": "%q", "k": "%k"}
        for x in ("q", "k"):
            if self.norm:
                lines.append(f"%{x}_norm = attn.rms_norm {names[x]} weight(%{x}w : {types[x + 'w']}) epsilon(1.0e-05) : "
                             f"{types[x]}")
                names[x] = f"%{x}_norm"
            if self.rope == "linalg":
                lines.append(_rotate_halves(x, self.dtype, f"?x{heads[x]}x?", self.channels))
                names[x] = f"%{x}_rope"
            elif self.rope:
                at, pairs = "", " interleaved" if self.rope == "interleaved" else ""
                if self.offset and x == "q":
                    lines.append(f"%offset = arith.constant {self.offset} : index")
                    at = " at(%offset)"
                lines.append(f"%{x}_rope = attn.rope {names[x]}, %cos, %sin{at}{pairs} : {types[x]}, "
                             f"{types['cos']}, {types['sin']}")
                names[x] = f"%{x}_rope"
        q = types["q"]
        lines += [
            "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n%c2 = arith.constant 2 : index",
            f"%b = tensor.dim %q, %c0 : {q}\n%s = tensor.dim %q, %c2 : {q}",
            f"%init = tensor.empty(%b, %s) : {q}",
            f"%a = attn.attention ins({names['q']}, {names['k']}, %v : {q}, {types['k']}, {types['v']}) outs(%init : {q})",
            "    " + ("mask(#attn.causal) " if self.causal else "") + f"-> {q}",
        ]
        result, result_type = "%a", q
        if self.gate == "merged":
            split = f"tensor<?x?x{self.query_heads}x{self.channels}x{self.dtype}>"
            result_type = types["gate"]
            lines += [
                f"%t0 = tensor.empty(%b, %s) : {split}",
                f"%t = linalg.transpose ins(%a : {q}) outs(%t0 : {split}) permutation = [0, 2, 1, 3]",
                f"%m = tensor.collapse_shape %t [[0], [1], [2, 3]] : {split} into {result_type}",
            ]
            result = "%m"
        if self.gate:
            rank = 3 if self.gate == "merged" else 4
            extend = self.dtype != "f32"
            lines += [
                f"%g0 = tensor.empty(%b, %s) : {result_type}",
                "%gated = linalg.generic {indexing_maps = [#i" + f"{rank}, #i{rank}, #i{rank}], iterator_types = ["
                + ", ".join(['"parallel"'] * rank) + "]}",
                f"    ins({result}, %gate : {result_type}, {types['gate']}) outs(%g0 : {result_type}) {{",
                f"^bb0(%x0: {self.dtype}, %y0: {self.dtype}, %o: {self.dtype}):",
                f"  %x = arith.extf %x0 : {self.dtype} to f32\n  %y = arith.extf %y0 : {self.dtype} to f32"
                if extend else "",
            ]
            x, y = ("%x", "%y") if extend else ("%x0", "%y0")
            if self.gate != "tensor":
                lines.append(f"  %one = arith.constant 1.0 : f32\n  %n = arith.negf {y} : f32\n  %e = math.exp %n : f32\n"
                             "  %p = arith.addf %e, %one : f32\n  %w = arith.divf %one, %p : f32")
                y = "%w"
            lines.append(f"  %z = arith.mulf {x}, {y} : f32")
            lines.append(f"  %z1 = arith.truncf %z : f32 to {self.dtype}\n  linalg.yield %z1 : {self.dtype}"
                         if extend else "  linalg.yield %z : f32")
            lines.append(f"}} -> {result_type}")
            result = "%gated"
        arguments = ", ".join(f"%{name}: {kind}" for name, kind in types.items())
        body = "\n".join("  " + line for text in lines for line in text.split("\n") if line)
        return (
            "#all = affine_map<(b, h, i, d) -> (b, h, i, d)>\n#table = affine_map<(b, h, i, d) -> (i, d)>\n"
            "#i3 = affine_map<(b, i, c) -> (b, i, c)>\n#i4 = affine_map<(b, h, i, d) -> (b, h, i, d)>\n"
            f"func.func @heads({arguments}) -> {result_type} {{\n{body}\n  return {result} : {result_type}\n}}\n"
        )

    def make(self, name, shape, rng):
        if name in ("cos", "sin"):
            columns = self.pairs
            angles = np.arange(POSITIONS)[:, None] / 50.0 ** (np.arange(columns) / columns)
            if self.rope == "linalg":
                angles = np.concatenate([angles, angles], axis=1)
            if self.batched_tables:
                angles = angles[None] + np.arange(shape[0])[:, None, None]
            return np.cos(angles) if name == "cos" else np.sin(angles)
        return rng.standard_normal(shape)

    def _prepare(self, x, name, wide):
        if self.norm:
            x = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * wide[name + "w"]
        if not self.rope:
            return x
        first = self.offset if name == "q" else 0
        cos, sin = (wide[table][..., first : first + x.shape[2], : self.pairs] for table in ("cos", "sin"))
        if self.batched_tables:
            cos, sin = cos[:, None], sin[:, None]
        y = x.copy()
        n = self.pairs
        halves = self.rope != "interleaved"
        one = slice(0, n) if halves else slice(0, 2 * n, 2)
        two = slice(n, 2 * n) if halves else slice(1, 2 * n, 2)
        y[..., one] = x[..., one] * cos - x[..., two] * sin
        y[..., two] = x[..., two] * cos + x[..., one] * sin
        return y

    def reference(self, wide):
        """The result, and allowed errors: the errors of operands that are rounded to the element type, and of the
        result."""
        q, k = self._prepare(wide["q"], "q", wide), self._prepare(wide["k"], "k", wide)
        v = wide["v"]
        group = self.query_heads // self.key_heads
        k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
        s = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(self.channels)
        spread = np.einsum("bhid,bhjd->bhij", abs(q), abs(k)) / np.sqrt(self.channels)
        if self.causal:
            i, j = np.ogrid[: s.shape[2], : s.shape[3]]
            s = np.where(j <= i + s.shape[3] - s.shape[2], s, -np.inf)
        top = s.max(-1, keepdims=True, initial=-1e30)
        p = np.exp(s - top)
        total = p.sum(-1, keepdims=True)
        p = np.divide(p, total, out=np.zeros_like(p), where=total > 0)
        out = p @ v
        eps = EPSILON[self.dtype]
        # Errors of scores come from rounded queries and keys; errors of probabilities also from their own rounding.
        error = 4 * eps * ((p * (2 + spread.max(-1, keepdims=True))) @ abs(v)) + 4e-6 * (p @ abs(v)) + 1e-7
        if self.gate == "merged":
            out, error = (x.transpose(0, 2, 1, 3).reshape(wide["gate"].shape) for x in (out, error))
        if self.gate:
            gate = wide["gate"] if self.gate == "tensor" else 1 / (1 + np.exp(-wide["gate"]))
            out, error = out * gate, error * abs(gate)
        return out, error + 2 * eps * abs(out) + 1e-7


#: Variants that GPUs have kernels for, too.
VARIANTS = [
    Heads("bf16", rope="halves"),
    Heads("bf16", 128, rope="halves", norm=True, causal=True),
    Heads("bf16", 128, rope="interleaved", offset=7),
    Heads("f16", rope="interleaved", rotated=32, batched_tables=True),
    Heads("bf16", rope="linalg", causal=True),
    Heads("bf16", norm=True, gate="sigmoid"),
    Heads("f16", 128, gate="tensor"),
    Heads("bf16", gate="merged", causal=True),
    Heads("bf16", 128, rope="halves", norm=True, gate="merged"),
]
HOST_VARIANTS = [
    Heads("f32", rope="halves"),
    Heads("f32", 40, rope="interleaved", norm=True),
    Heads("f32", 24, rope="halves", rotated=10, offset=3, causal=True),
    Heads("f32", 64, rope="linalg"),
    Heads("f32", 32, norm=True, gate="sigmoid"),
    Heads("f32", 20, gate="merged"),
    Heads("f32", 20, rope="halves", norm=True, gate="tensor", batched_tables=True),
]
