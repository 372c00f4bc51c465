# ===- reassociate.py - Numerics of products that move past attention --------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Compiles attention whose keys and values are products for the host, makes sure
# that they are multiplied on the other side of attention where that is expected,
# and compares with the products as they are written, in f64.
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

EPSILON = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24}
#: Channels of queries, values and latents.
D, DV, R = 24, 16, 40


def tensor(shape, dtype):
    return "tensor<" + "".join(f"{size or '?'}x" for size in shape) + dtype + ">"


@dataclasses.dataclass(frozen=True)
class Variant:
    """Attention to products of a latent. ``form`` says where its weights are."""

    #: "rows": [B * S, r] with [r, H * d] in linalg; "stored": [B, S, r] with [H * d, r];
    #: "heads": [S, r] with [H, r, d]; "values": values of each head with weights they share.
    form: str
    dtype: str = "f32"
    batch: int = 2
    heads: int = 4
    queries: int = 3
    keys: int = 600
    moves: bool = True

    def __str__(self):
        return f"{self.form}-{self.dtype}-b{self.batch}-q{self.queries}-k{self.keys}"

    def arguments(self):
        """Names, shapes and types, the outputs last."""
        b, h, sq, sk = self.batch, self.heads, self.queries, self.keys
        latent = {"rows": (b * sk, R), "heads": (sk, R)}.get(self.form, (b, sk, R))
        inputs = [("q", (b, h, sq, D)), ("sinks", (h,))]
        if self.form == "values":
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

    def module(self):
        b, h, sk, t = self.batch, self.heads, self.keys, self.dtype
        types = {name: tensor(shape, dtype) for name, shape, dtype in self.arguments()}
        inputs = ", ".join(f"%{name}: {kind}" for name, kind in types.items() if name not in ("out", "lse"))
        keys = "" if self.form == "values" else self.product("k", "wk", D)
        # The score depends on the head, so that heads must not be mixed up.
        return f"""func.func @f({inputs}) -> ({types['out']}, {types['lse']}) {{
  %zero = arith.constant 0.0 : {t}{keys}{self.product("v", "wv", DV)}
  %e = tensor.empty() : {types['out']}
  %l = tensor.empty() : {types['lse']}
  %a:2 = attn.attention ins(%q, %k, %v : {types['q']}, {tensor((b, h, sk, D), t)}, {tensor((b, h, sk, DV), t)})
      outs(%e, %l : {types['out']}, {types['lse']}) sinks(%sinks : {types['sinks']}) mask(#attn.causal)
      score {{
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
            w = w.T if self.form == "stored" else w
            return (c.reshape(b, sk, R) @ w).reshape(b, sk, h, -1).transpose(0, 2, 1, 3)

        k = x["k"] if self.form == "values" else multiply(x["c"], x["wk"])
        v = multiply(x["c"], x["wv"])
        sink = x["sinks"][:, None, None]
        s = x["q"] @ k.swapaxes(2, 3) / np.sqrt(D) + sink
        i, j = np.ogrid[: self.queries, :sk]
        s = np.where(j <= i + sk - self.queries, s, -np.inf)
        p = np.exp(s)
        total = p.sum(-1, keepdims=True) + np.exp(sink)
        p = p / total
        # Rounded operands of products, in scores and in values.
        spread = np.sqrt((x["q"] ** 2).sum(-1, keepdims=True) * (k**2).sum(-1).mean(-1)[..., None, None] / D)
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
    # As many queries as keys: the products stay.
    Variant("stored", queries=200, keys=200, moves=False),
]


def view(array, dtype):
    result = TensorView.make(array.shape, [s // array.itemsize for s in array.strides], DTYPES.index(dtype), -1)
    result.data = array.ctypes.data
    return ctypes.pointer(result)


def has_moved(variant, path):
    """Whether attention is to what products are made of."""
    done = subprocess.run(["attn-compile", path, "--target=host", "--stop-after=schedule", "--emit=mlir", "-o", "-"],
                          check=True, capture_output=True, text=True)
    (types,) = re.findall(r"= attn\.attention ins\([^:]*: tensor<[^>]*>, tensor<([^>]*)>, tensor<([^>]*)>", done.stdout)
    return [kind.split("x")[3] for kind in types] == [str(D if variant.form == "values" else R), str(R)]


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
        subprocess.run(["attn-compile", path + ".mlir", "-o", path + ".so", "--target=host"], check=True)
        function = Artifact(path + ".so", args.runtime)["f"]
        wide, kept, views = {}, {}, []
        for name, shape, dtype in variant.arguments():
            values = np.full(shape, np.nan) if name in ("out", "lse") else rng.standard_normal(shape)
            # Results of heads differ by much more than what is allowed.
            values = values + 1 if name == "c" else values
            kept[name] = to_memory(values / np.sqrt(R) if name in ("wk", "wv") else values, dtype)
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
