#!/usr/bin/env python3
# ===- gradients.py - Numerics of differentiated functions on a GPU ----------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compares gradients of whole functions, by attn-differentiate, on a GPU with f64.

    gradients.py --compile build/bin/attn-compile --artifacts DIR
    gradients.py --artifacts DIR --runtime libattn_runtime.so

The functions have more than attention: sinks, weights of the identity, maps of heads, and what head_ops.py has around it, so
that gradients are sums and products of linalg, too. Errors are norms, beside those of the same function in torch operations in
the dtype of the inputs.
"""

import sys
from dataclasses import dataclass, field
from functools import partial
from typing import Optional

import numpy as np
from device_suite import choose_variants, compile_artifact, load, make_parser, run_cases
from head_ops import Heads

SHAPES = [dict(b=2, q=333, k=447), dict(b=1, q=130, k=130), dict(b=1, q=1, k=64), dict(b=3, q=65, k=33)]
ROUNDING = {"bf16": 2.0**-8, "f16": 2.0**-11}


@dataclass(frozen=True)
class Weighted:
    """Attention with sinks, or mixed with the identity."""

    name: str
    heads: tuple = (4, 2)
    channels: int = 64
    dtype: str = "bf16"
    causal: bool = True
    sinks: bool = False
    identity: bool = False
    lse: bool = False
    # The key head of each query head.
    head_map: Optional[tuple] = None

    def __str__(self):
        return self.name

    @property
    def function(self):
        return self.name

    def arguments(self, sizes):
        """Names, shapes and types."""
        hq, hk = self.heads
        arguments = [("q", (sizes["b"], hq, sizes["q"], self.channels), self.dtype),
                     ("k", (sizes["b"], hk, sizes["k"], self.channels), self.dtype),
                     ("v", (sizes["b"], hk, sizes["k"], self.channels), self.dtype)]
        if self.sinks:
            arguments.append(("sinks", (hq,), self.dtype))
        if self.identity:
            arguments.append(("identity", (hq,), "f32"))
        if self.head_map:
            arguments.append(("map", (hq,), "i32"))
        return arguments

    def results(self, sizes):
        shape = (sizes["b"], self.heads[0], sizes["q"], self.channels)
        return [(shape, self.dtype)] + [(shape[:3], "f32")] * self.lse

    def module(self):
        def tensor(shape, dtype):
            return "tensor<" + "".join(f"{n or '?'}x" for n in shape) + dtype + ">"

        none = dict(b=0, q=0, k=0)
        types = {name: tensor(shape, dtype) for name, shape, dtype in self.arguments(none)}
        outs = [tensor(*result) for result in self.results(none)]
        options = f" sinks(%sinks : {types['sinks']})" if self.sinks else ""
        options += f" heads(%map : {types['map']})" if self.head_map else ""
        options += f" identity(%identity : {types['identity']})" if self.identity else ""
        options += " mask(#attn.causal)" if self.causal else ""
        inits = [f"  %init{n} = tensor.empty(%b, %s) : {out}" for n, out in enumerate(outs)]
        names = ", ".join(f"%init{n}" for n in range(len(outs)))
        returned = ", ".join(f"%r#{n}" for n in range(len(outs)))
        return f"""func.func @{self.name}({", ".join(f"%{n}: {t}" for n, t in types.items())}) -> ({", ".join(outs)}) {{
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %b = tensor.dim %q, %c0 : {types["q"]}
  %s = tensor.dim %q, %c2 : {types["q"]}
{chr(10).join(inits)}
  %r:{len(outs)} = attn.attention ins(%q, %k, %v : {types["q"]}, {types["k"]}, {types["v"]})
      outs({names} : {", ".join(outs)}){options} -> {", ".join(outs)}
  return {returned} : {", ".join(outs)}
}}
"""

    def make(self, name, shape, rng):
        if name == "map":
            return np.array(self.head_map)
        if name == "identity":
            # One head has the identity alone, and one has none of it.
            values = rng.random(shape)
            values[0], values[-1] = 1, 0
            return values
        return rng.standard_normal(shape) * (2 if name == "sinks" else 1)

    def apply(self, torch, x):
        group = self.heads[0] // self.heads[1]
        chosen = self.head_map or [head // group for head in range(self.heads[0])]
        k, v = (x[name][:, list(chosen)] for name in "kv")
        out, lse = attend(torch, x["q"], k, v, self.causal, x.get("sinks"), x.get("identity"))
        return [out, lse] if self.lse else [out]


@dataclass(frozen=True)
class Around:
    """Heads that are rotated, normalised and gated."""

    heads: Heads = field(default_factory=Heads)

    def __str__(self):
        return f"heads-{self.heads}"

    @property
    def function(self):
        return "heads"

    @property
    def dtype(self):
        return self.heads.dtype

    def arguments(self, sizes):
        return self.heads.arguments(sizes)[:-1]

    def results(self, sizes):
        return [self.heads.arguments(sizes)[-1][1:]]

    def module(self):
        return self.heads.module()

    def make(self, name, shape, rng):
        return self.heads.make(name, shape, rng)

    def apply(self, torch, x):
        h = self.heads
        group = h.query_heads // h.key_heads
        q, k = (self._prepare(torch, x, name) for name in "qk")
        k, v = (y.repeat_interleave(group, 1) for y in (k, x["v"]))
        out, _ = attend(torch, q, k, v, h.causal)
        if h.gate == "merged":
            out = out.transpose(1, 2).flatten(2)
        if h.gate:
            out = out * (x["gate"] if h.gate == "tensor" else x["gate"].sigmoid())
        return [out]

    def _prepare(self, torch, x, name):
        h, y = self.heads, x[name]
        if h.norm:
            y = y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-5) * x[name + "w"]
        if not h.rope:
            return y
        first, n = h.offset if name == "q" else 0, h.pairs
        cos, sin = (x[table][..., first : first + y.shape[2], :n] for table in ("cos", "sin"))
        if h.batched_tables:
            cos, sin = cos[:, None], sin[:, None]
        if h.rope == "interleaved":
            one, two = y[..., 0 : 2 * n : 2], y[..., 1 : 2 * n : 2]
            pairs = torch.stack([one * cos - two * sin, two * cos + one * sin], -1).flatten(-2)
        else:
            one, two = y[..., :n], y[..., n : 2 * n]
            pairs = torch.cat([one * cos - two * sin, two * cos + one * sin], -1)
        return torch.cat([pairs, y[..., 2 * n :]], -1)


def attend(torch, q, k, v, causal, sinks=None, identity=None):
    """Attention by operations in the dtype of `q`; what rows with nothing to attend give is 0."""
    s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    i = torch.arange(s.shape[2], device=s.device)[:, None] + s.shape[3] - s.shape[2]
    j = torch.arange(s.shape[3], device=s.device)[None, :]
    masked = j > i if causal else torch.zeros_like(i + j, dtype=torch.bool)
    s = s.masked_fill(masked, -torch.inf)
    if sinks is not None:
        s = torch.cat([s, sinks.to(s.dtype).view(1, -1, 1, 1).expand(*s.shape[:3], 1)], -1)
        masked = torch.nn.functional.pad(masked, (0, 1))
    empty = masked.all(-1)
    s = s.masked_fill(empty[:, None], 0)
    p = s.softmax(-1).masked_fill(empty[:, None], 0)[..., : k.shape[2]]
    if identity is not None:
        u = identity.to(p.dtype).view(1, -1, 1, 1)
        p = (1 - u) * p + u * (i == j)
    return p @ v, s.logsumexp(-1).masked_fill(empty, 0)


VARIANTS = [
    Weighted("sinks", sinks=True),
    Weighted("sinks_lse", heads=(8, 2), channels=128, sinks=True, lse=True),
    Weighted("sinks_full", heads=(2, 2), dtype="f16", causal=False, sinks=True),
    Weighted("identity", identity=True),
    Weighted("identity_full", heads=(8, 2), channels=128, dtype="f16", causal=False, identity=True),
    Weighted("head_map", heads=(5, 3), head_map=(2, 2, 0, 2, 2)),
    Weighted("head_map_sinks", heads=(2, 6), channels=128, dtype="f16", sinks=True, head_map=(5, 1)),
    Weighted("head_map_identity", heads=(5, 3), identity=True, head_map=(2, 2, 0, 2, 2)),
    Around(Heads("bf16", rope="halves")),
    Around(Heads("bf16", 128, rope="halves", causal=True)),
    Around(Heads("f16", rope="interleaved", rotated=32, batched_tables=True)),
    Around(Heads("bf16", rope="halves", gate="sigmoid")),
    Around(Heads("bf16", gate="merged", causal=True)),
    Around(Heads("bf16", 128, norm=True, causal=True)),
    Around(Heads("f16", rope="halves", norm=True, gate="sigmoid")),
]


def get_wanted(variant):
    """Numbers of the arguments whose gradients are wanted: tables of angles and maps of heads have none."""
    names = [name for name, _, _ in variant.arguments(dict(b=1, q=1, k=1))]
    return [n for n, name in enumerate(names) if name not in ("cos", "sin", "map")]


def compile_artifacts(options):
    for variant in choose_variants(options, VARIANTS):
        wanted = ",".join(map(str, get_wanted(variant)))
        passes = [f"--attn-differentiate=function={variant.function} mode=combined arguments={wanted}",
                  f"--symbol-privatize=exclude={variant.function}_grad", "--symbol-dce"]
        compile_artifact(options, f"function_{variant}", variant.module(), passes=passes)


def run_case(torch, function, variant, sizes, rng):
    """A message if something is wrong."""
    types = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "i32": torch.int32}
    names, inputs = [], {}
    for name, shape, dtype in variant.arguments(sizes):
        names.append(name)
        values = torch.from_numpy(np.asarray(variant.make(name, shape, rng), np.float32))
        inputs[name] = values.cuda().to(types[dtype])
    outputs = [torch.full(shape, torch.nan, device="cuda", dtype=types[dtype]) for shape, dtype in variant.results(sizes)]
    douts = [torch.randn_like(out) for out in outputs]
    wanted = [names[n] for n in get_wanted(variant)]
    grads = [torch.full_like(inputs[name], torch.nan) for name in wanted]
    function(*inputs.values(), *douts, *outputs, *grads)
    torch.cuda.synchronize()

    def compute(dtype):
        own = {name: x.to(dtype, copy=True).requires_grad_(name in wanted) for name, x in inputs.items()}
        results = variant.apply(torch, own)
        total = sum((y * dy.to(y.dtype)).sum() for y, dy in zip(results, douts))
        return [results[0].detach(), *torch.autograd.grad(total, [own[name] for name in wanted])]

    exact, rounded = compute(torch.float64), compute(types[variant.dtype])
    for name, result, expected, other in zip(["out", *wanted], [outputs[0], *grads], exact, rounded):
        if not result.isfinite().all():
            return f"{name} is not finite"
        error = (result.double() - expected).norm().item()
        # Where exact gradients vanish only roundings are left.
        floor = 1e-2 * result.numel() ** 0.5
        allowed = 2 * (other.double() - expected).norm().item() + ROUNDING[variant.dtype] * (expected.norm().item() + floor)
        if not error <= allowed:
            return f"{name}: error {error:.3g}, allowed {allowed:.3g}, of {expected.norm().item():.3g}"
    return None


def make_cases(torch, options):
    rng = np.random.default_rng(0)
    for variant in choose_variants(options, VARIANTS):
        function = load(options, f"function_{variant}", f"{variant.function}_grad")
        for sizes in SHAPES:
            yield f"{variant} {sizes}", partial(run_case, torch, function, variant, sizes, rng)


def main():
    options = make_parser(__doc__, "target", "only", "every").parse_args()
    if options.compile:
        compile_artifacts(options)
        return 0

    import torch

    torch.manual_seed(0)
    return run_cases(make_cases(torch, options), options)


if __name__ == "__main__":
    sys.exit(main())
