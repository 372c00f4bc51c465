# ===- reassociate.py - Numerics of matmuls that move past attention ---------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Compiles attention whose keys and values are matmuls for the host, makes sure that these matmuls move to the other
# side of attention where that is expected, and compares with the original order in f64.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --work %t --runtime %attn_libs_dir/libattn_runtime%shlibext

import argparse
import ctypes
import dataclasses
import os
import re
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python"))

from attention import from_memory, to_memory  # noqa: E402
from attn.artifact import DTYPES, Artifact, TensorView  # noqa: E402
from tool_cache import run_tool  # noqa: E402

EPSILON = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24}
#: Head dims: of keys that each head has of its own, of keys that heads share, and of values; and the size of latents.
D, DR, DV, R = 24, 8, 16, 40


def tensor(shape, dtype):
    return "tensor<" + "".join(f"{size or '?'}x" for size in shape) + dtype + ">"


@dataclasses.dataclass(frozen=True)
class Variant:
    """Attention to projections of a latent. ``form`` says how their matrices are stored."""

    #: "rows": [B * S, r] with [r, H * d] in linalg; "stored": [B, S, r] with [H * d, r];
    #: "heads": [S, r] with [H, r, d]; "values": values of each head with a matrix they share.
    #: One matmul of keys and values, which is sliced: "joined": like "heads"; "concat": like "stored", with columns
    #: that all heads share, concatenated; "cache": these and the latent in one tensor; "insert": like "rows", all keys
    #: before all values, with shared columns in front.
    #: Attentive probing, whose keys are the latent itself, and whose values are stored: "shared": of one head; "spread":
    #: broadcast to all heads.
    form: str
    dtype: str = "f32"
    batch: int = 2
    heads: int = 4
    queries: int = 3
    keys: int = 600
    moves: bool = True

    def __str__(self):
        return f"{self.form}-{self.dtype}-b{self.batch}-q{self.queries}-k{self.keys}"

    @property
    def is_shared(self):
        return self.form in ("concat", "cache", "insert")

    @property
    def is_probing(self):
        return self.form in ("shared", "spread")

    @property
    def key_heads(self):
        return 1 if self.form == "shared" else self.heads

    @property
    def qk_head_dim(self):
        return R if self.is_probing else D + DR if self.is_shared else D

    def arguments(self):
        """Names, shapes and types, the outputs last."""
        b, h, sq, sk = self.batch, self.heads, self.queries, self.keys
        latent = {"rows": (b * sk, R), "insert": (b * sk, R), "heads": (sk, R), "joined": (sk, R)}
        latent = latent.get(self.form, (b, sk, R))
        inputs = [("q", (b, h, sq, self.qk_head_dim)), ("sinks", (h,))]
        weights = {"joined": (h, R, D + DV), "concat": (h * (D + DV), R), "insert": (R, h * (D + DV))}
        if self.form == "cache":
            inputs += [("cache", (b, sk, R + DR)), ("w", weights["concat"])]
        elif self.form in weights:
            inputs += [("c", latent), ("w", weights[self.form])]
            inputs += [("kr", (b, 1, sk, DR) if self.form == "concat" else (b, sk, DR))] * self.is_shared
        elif self.is_probing:
            inputs += [("c", latent), ("wv", (h * DV, R))]
        elif self.form == "values":
            inputs += [("k", (b, h, sk, D)), ("c", (b * h, sk, R)), ("wv", (R, DV))]
        else:
            inputs += [("c", latent)]
            for name, channels in (("wk", D), ("wv", DV)):
                shape = {"rows": (R, h * channels), "stored": (h * channels, R)}.get(self.form, (h, R, channels))
                inputs.append((name, shape))
        return [(name, shape, "f32" if name == "sinks" else self.dtype) for name, shape in inputs] + [
            ("out", (b, h, sq, DV), self.dtype), ("lse", (b, h, sq), "f32")]

    def product(self, name, weights, channels):
        """Lines that make keys or values of each head."""
        b, h, sk, t = self.batch, self.heads, self.keys, self.dtype
        types = {n: tensor(shape, kind) for n, shape, kind in self.arguments()}
        result = tensor((b, h, sk, channels), t)
        if self.form in ("heads", "values"):
            flat = tensor((b * h, sk, channels), t)
            return f"""
  %{name}0 = tensor.empty() : {flat}
  %{name}1 = attn.matmul ins(%c, %{weights} : {types['c']}, {types[weights]}) outs(%{name}0 : {flat}) -> {flat}
  %{name} = tensor.expand_shape %{name}1 [[0, 1], [2], [3]] output_shape [{b}, {h}, {sk}, {channels}] : {flat} into {result}
"""
        split = tensor((b, sk, h, channels), t)
        if self.form == "rows":
            flat = tensor((b * sk, h * channels), t)
            lines = f"""
  %{name}1 = linalg.fill ins(%zero : {t}) outs(%{name}0 : {flat}) -> {flat}
  %{name}2 = linalg.matmul ins(%c, %{weights} : {types['c']}, {types[weights]}) outs(%{name}1 : {flat}) -> {flat}
  %{name}3 = tensor.expand_shape %{name}2 [[0, 1], [2, 3]] output_shape [{b}, {sk}, {h}, {channels}] : {flat} into {split}"""
        else:
            flat = tensor((b, sk, h * channels), t)
            lines = f"""
  %{name}2 = attn.matmul ins(%c, %{weights} : {types['c']}, {types[weights]}) outs(%{name}0 : {flat}) transpose_rhs -> {flat}
  %{name}3 = tensor.expand_shape %{name}2 [[0], [1], [2, 3]] output_shape [{b}, {sk}, {h}, {channels}] : {flat} into {split}"""
        return f"""
  %{name}0 = tensor.empty() : {flat}{lines}
  %{name}4 = tensor.empty() : {result}
  %{name} = linalg.transpose ins(%{name}3 : {split}) outs(%{name}4 : {result}) permutation = [0, 2, 1, 3]
"""

    def joined(self):
        """Lines that slice keys and values of each head from one matmul."""
        b, h, sk, t, d = self.batch, self.heads, self.keys, self.dtype, D + DV
        types = {n: tensor(shape, kind) for n, shape, kind in self.arguments()}
        heads, keys, values = (tensor((b, h, sk, n), t) for n in (d, D, DV))
        ranges = f"""
  %n = tensor.extract_slice %kv[0, 0, 0, 0] [{b}, {h}, {sk}, {D}] [1, 1, 1, 1] : {heads} to {keys}
  %v = tensor.extract_slice %kv[0, 0, 0, {D}] [{b}, {h}, {sk}, {DV}] [1, 1, 1, 1] : {heads} to {values}"""
        if self.form == "joined":
            flat = tensor((h, sk, d), t)
            return f"""
  %p0 = tensor.empty() : {flat}
  %p = attn.matmul ins(%c, %w : {types['c']}, {types['w']}) outs(%p0 : {flat}) -> {flat}
  %kv = tensor.expand_shape %p [[0, 1], [2], [3]] output_shape [1, {h}, {sk}, {d}] : {flat} into {heads}{ranges}
  %k = tensor.cast %n : {keys} to {keys}
"""
        shared, wide = tensor((b, h, sk, DR), t), tensor((b, h, sk, D + DR), t)
        if self.form in ("concat", "cache"):
            flat, split = tensor((b, sk, h * d), t), tensor((b, sk, h, d), t)
            slices = ""
            if self.form == "cache":
                types["c"], types["kr"] = tensor((b, sk, R), t), tensor((b, 1, sk, DR), t)
                part = tensor((b, sk, DR), t)
                slices = f"""
  %c = tensor.extract_slice %cache[0, 0, 0] [{b}, {sk}, {R}] [1, 1, 1] : {types['cache']} to {types['c']}
  %kr0 = tensor.extract_slice %cache[0, 0, {R}] [{b}, {sk}, {DR}] [1, 1, 1] : {types['cache']} to {part}
  %kr = tensor.expand_shape %kr0 [[0, 1], [2], [3]] output_shape [{b}, 1, {sk}, {DR}] : {part} into {types['kr']}"""
            return slices + f"""
  %p0 = tensor.empty() : {flat}
  %p1 = attn.matmul ins(%c, %w : {types['c']}, {types['w']}) outs(%p0 : {flat}) transpose_rhs -> {flat}
  %p2 = tensor.expand_shape %p1 [[0], [1], [2, 3]] output_shape [{b}, {sk}, {h}, {d}] : {flat} into {split}
  %p3 = tensor.empty() : {heads}
  %kv = linalg.transpose ins(%p2 : {split}) outs(%p3 : {heads}) permutation = [0, 2, 1, 3]{ranges}
  %r0 = tensor.empty() : {shared}
  %r = linalg.generic {{indexing_maps = [affine_map<(b, h, s, d) -> (b, 0, s, d)>, affine_map<(b, h, s, d) -> (b, h, s, d)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%kr : {types['kr']}) outs(%r0 : {shared}) {{
  ^bb0(%x: {t}, %y: {t}):
    linalg.yield %x : {t}
  }} -> {shared}
  %k = tensor.concat dim(3) %n, %r : ({keys}, {shared}) -> {wide}
"""
        flat, rows = tensor((b * sk, h * d), t), tensor((b, sk, h * d), t)
        lines = f"""
  %p0 = tensor.empty() : {flat}
  %p1 = linalg.fill ins(%zero : {t}) outs(%p0 : {flat}) -> {flat}
  %p2 = linalg.matmul ins(%c, %w : {types['c']}, {types['w']}) outs(%p1 : {flat}) -> {flat}
  %p = tensor.expand_shape %p2 [[0, 1], [2]] output_shape [{b}, {sk}, {h * d}] : {flat} into {rows}"""
        for name, start, channels in (("n", 0, D), ("u", h * D, DV)):
            part, split = tensor((b, sk, h * channels), t), tensor((b, sk, h, channels), t)
            lines += f"""
  %{name}0 = tensor.extract_slice %p[0, 0, {start}] [{b}, {sk}, {h * channels}] [1, 1, 1] : {rows} to {part}
  %{name} = tensor.expand_shape %{name}0 [[0], [1], [2, 3]] output_shape [{b}, {sk}, {h}, {channels}] : {part} into {split}"""
        own, shared, wide = (tensor((b, sk, h, n), t) for n in (D, DR, D + DR))
        return lines + f"""
  %r0 = tensor.empty() : {shared}
  %r = linalg.broadcast ins(%kr : {types['kr']}) outs(%r0 : {shared}) dimensions = [2]
  %k0 = tensor.empty() : {wide}
  %k1 = tensor.insert_slice %r into %k0[0, 0, 0, 0] [{b}, {sk}, {h}, {DR}] [1, 1, 1, 1] : {shared} into {wide}
  %k2 = tensor.insert_slice %n into %k1[0, 0, 0, {DR}] [{b}, {sk}, {h}, {D}] [1, 1, 1, 1] : {own} into {wide}
  %k3 = tensor.empty() : {tensor((b, h, sk, D + DR), t)}
  %k = linalg.transpose ins(%k2 : {wide}) outs(%k3 : {tensor((b, h, sk, D + DR), t)}) permutation = [0, 2, 1, 3]
  %v0 = tensor.empty() : {values}
  %v = linalg.transpose ins(%u : {tensor((b, sk, h, DV), t)}) outs(%v0 : {values}) permutation = [0, 2, 1, 3]
"""

    def shared_keys(self):
        """Lines that make the latent keys of one head, or of all heads."""
        b, h, sk, t = self.batch, self.heads, self.keys, self.dtype
        one, all_heads = (tensor((b, heads, sk, R), t) for heads in (1, h))
        name = "k" if self.form == "shared" else "one"
        lines = f"""
  %{name} = tensor.expand_shape %c [[0, 1], [2], [3]] output_shape [{b}, 1, {sk}, {R}] : {tensor((b, sk, R), t)} into {one}"""
        if self.form == "shared":
            return lines
        return lines + f"""
  %k0 = tensor.empty() : {all_heads}
  %k = linalg.generic {{indexing_maps = [affine_map<(b, h, s, d) -> (b, 0, s, d)>, affine_map<(b, h, s, d) -> (b, h, s, d)>],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}}
      ins(%one : {one}) outs(%k0 : {all_heads}) {{
  ^bb0(%x: {t}, %y: {t}):
    linalg.yield %x : {t}
  }} -> {all_heads}"""

    def module(self):
        b, h, sk, t = self.batch, self.heads, self.keys, self.dtype
        types = {name: tensor(shape, dtype) for name, shape, dtype in self.arguments()}
        inputs = ", ".join(f"%{name}: {kind}" for name, kind in types.items() if name not in ("out", "lse"))
        if "w" in types:
            products = self.joined()
        else:
            products = self.shared_keys() if self.is_probing else ""
            products += "" if self.is_probing or self.form == "values" else self.product("k", "wk", D)
            products += self.product("v", "wv", DV)
        # The score depends on the head, so that heads must not be mixed up.
        return f"""func.func @f({inputs}) -> ({types['out']}, {types['lse']}) {{
  %zero = arith.constant 0.0 : {t}{products}
  %e = tensor.empty() : {types['out']}
  %l = tensor.empty() : {types['lse']}
  %a:2 = attn.attention ins(%q, %k, %v : {types['q']}, {tensor((b, self.key_heads, sk, self.qk_head_dim), t)}, {tensor((b, h, sk, DV), t)})
      outs(%e, %l : {types['out']}, {types['lse']}) sinks(%sinks : {types['sinks']}) mask(#attn.causal)
      score_mod {{
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %sinks[%h] : {types['sinks']}
        %y = arith.addf %s, %x : f32
        attn.yield %y : f32
      }} -> {types['out']}, {types['lse']}
  return %a#0, %a#1 : {types['out']}, {types['lse']}
}}
"""

    def reference(self, x):
        """Both results, and how far the first one may be off."""
        b, h, sk = self.batch, self.heads, self.keys
        eps = EPSILON[self.dtype]

        def multiply(c, w):
            if self.form == "values":
                return np.einsum("bhsr,rd->bhsd", c.reshape(b, h, sk, R), w)
            if self.form == "heads":
                return np.einsum("sr,hrd->hsd", c, w)[None]
            w = w.T if self.form == "stored" or self.is_probing else w
            return (c.reshape(b, sk, R) @ w).reshape(b, sk, h, -1).transpose(0, 2, 1, 3)

        if "w" in x:
            w, shared, c = x["w"], x.get("kr"), x.get("c")
            if self.form == "cache":
                c, shared = x["cache"][..., :R], x["cache"][:, None, :, R:]
            if self.form == "joined":
                k, v = np.split(np.einsum("sr,hrd->hsd", c, w)[None], [D], -1)
            elif self.form in ("concat", "cache"):
                product = (c @ w.T).reshape(b, sk, h, D + DV).transpose(0, 2, 1, 3)
                k, v = product[..., :D], product[..., D:]
                k = np.concatenate([k, np.broadcast_to(shared, (b, h, sk, DR))], -1)
            else:
                k, v = np.split((c @ w).reshape(b, sk, -1), [h * D], -1)
                k, v = (part.reshape(b, sk, h, -1).transpose(0, 2, 1, 3) for part in (k, v))
                k = np.concatenate([np.broadcast_to(shared[:, None], (b, h, sk, DR)), k], -1)
        else:
            k = x["c"][:, None] if self.is_probing else x["k"] if self.form == "values" else multiply(x["c"], x["wk"])
            v = multiply(x["c"], x["wv"])
        channels = self.qk_head_dim
        sink = x["sinks"][:, None, None]
        s = x["q"] @ k.swapaxes(2, 3) / np.sqrt(channels) + sink
        i, j = np.ogrid[: self.queries, :sk]
        s = np.where(j <= i + sk - self.queries, s, -np.inf)
        p = np.exp(s)
        total = p.sum(-1, keepdims=True) + np.exp(sink)
        p = p / total
        # Rounded operands of matmuls, in scores and in values.
        spread = np.sqrt((x["q"] ** 2).sum(-1, keepdims=True) * (k**2).sum(-1).mean(-1)[..., None, None] / channels)
        allowed = 2 * eps * (1 + spread / 4) * (p @ abs(v)).mean(-1, keepdims=True) + 4e-6
        return p @ v, np.log(total)[..., 0], allowed, eps * (1 + spread[..., 0]) + 4e-6


VARIANTS = [
    Variant("rows"),
    Variant("rows", "bf16", queries=1),
    Variant("stored"),
    Variant("stored", "f16", batch=1),
    Variant("heads", batch=1),
    Variant("heads", "bf16", batch=1, queries=1),
    Variant("values", keys=2000),
    Variant("joined", batch=1),
    Variant("concat"),
    Variant("concat", "bf16", queries=1),
    Variant("cache"),
    Variant("cache", "bf16", batch=1, queries=1),
    Variant("insert"),
    Variant("insert", "f16", batch=1, queries=1),
    Variant("shared", queries=1),
    Variant("shared", "bf16", queries=2),
    Variant("spread", queries=1),
    Variant("spread", "f16", batch=1, queries=2),
    # As many queries as keys: the matmuls stay.
    Variant("shared", queries=200, keys=200, moves=False),
    Variant("stored", queries=200, keys=200, moves=False),
    Variant("concat", queries=200, keys=200, moves=False),
]


def view(array, dtype):
    result = TensorView.make(array.shape, [s // array.itemsize for s in array.strides], DTYPES.index(dtype), -1)
    result.data = array.ctypes.data
    return ctypes.pointer(result)


def has_moved(variant, path):
    """Whether attention reads the latents that keys and values are projected from."""
    done = subprocess.run(["attn-compile", path, "--target=host", "--stop-after=schedule", "--emit=mlir", "-o", "-"],
                          check=True, capture_output=True, text=True)
    (types,) = re.findall(r"= attn\.attention ins\([^:]*: tensor<[^>]*>, tensor<([^>]*)>, tensor<([^>]*)>", done.stdout)
    channels = D if variant.form == "values" else R if variant.is_probing else R + variant.qk_head_dim - D
    return [kind.split("x")[3] for kind in types] == [str(channels), str(R)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True, help="folder for what is compiled")
    parser.add_argument("--runtime", required=True, help="the runtime library")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    rng = np.random.default_rng(0)
    failures = 0
    for variant in VARIANTS:
        path = os.path.join(args.work, str(variant))
        with open(path + ".mlir", "w", encoding="utf-8") as file:
            file.write(variant.module())
        if has_moved(variant, path + ".mlir") != variant.moves:
            failures += 1
            print(f"{variant}: products are not where they are expected")
        run_tool(["attn-compile", path + ".mlir", "-o", path + ".so", "--target=host"])
        function = Artifact(path + ".so", args.runtime)["f"]
        wide, kept, views = {}, {}, []
        for name, shape, dtype in variant.arguments():
            values = np.full(shape, np.nan) if name in ("out", "lse") else rng.standard_normal(shape)
            # Results of heads differ by much more than the allowed error.
            values = values + 1 if name == "c" else values
            kept[name] = to_memory(values / np.sqrt(R) if name in ("w", "wk", "wv") else values, dtype)
            wide[name] = from_memory(kept[name], dtype).astype(np.float64)
            views.append(view(kept[name], dtype))
        if function.call((ctypes.POINTER(TensorView) * len(views))(*views), len(views), None) != 0:
            raise RuntimeError(function.last_error().decode())
        out, lse, allowed, allowed_lse = variant.reference(wide)
        for name, expected, bound, dtype in (("out", out, allowed, variant.dtype), ("lse", lse, allowed_lse, "f32")):
            error = (abs(from_memory(kept[name], dtype) - expected) / bound).max()
            print(f"{variant} {name}: {error:.3f} of what is allowed")
            failures += not error <= 1
    print(f"{failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
