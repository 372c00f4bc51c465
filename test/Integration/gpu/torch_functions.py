#!/usr/bin/env python3
# ===- torch_functions.py - attn.torch on the GPU --------------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compares sdpa and flex_attention on the GPU with f64, values and gradients.

    torch_functions.py --prepare sm_90a     # fills $ATTN_CACHE_DIR; needs no GPU
    torch_functions.py                      # needs no compiler if the cache is full

An error may be twice that of the same computation by operations of PyTorch in
the same dtype, plus one rounding.
"""

import argparse
import os
import sys
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "python"))
import torch  # noqa: E402
from attn import masks  # noqa: E402
from attn.torch import flex_attention, kernels, create_block_mask, sdpa  # noqa: E402

torch.manual_seed(0)
HEADS, LONGEST = 4, 512
SLOPES = torch.exp2(-torch.arange(1.0, HEADS + 1))
DOCUMENTS = torch.sort(torch.randint(0, 4, (2, LONGEST), dtype=torch.int32)).values
LENGTHS = torch.tensor([200, 77])
BIAS = torch.randn(1, HEADS, LONGEST, LONGEST).bfloat16()
CAPTURES = {"slopes": SLOPES, "documents": DOCUMENTS, "lengths": LENGTHS, "bias": BIAS}

# Functions of the captured tensors they read.
SCORES = {
    "alibi": lambda slopes: lambda s, b, h, q, k: s + slopes[h] * (k - q),
    "soft cap": lambda: lambda s, b, h, q, k: 5 * torch.tanh(s / 5),
    "bias": lambda bias: lambda s, b, h, q, k: s + bias[0, h, q, k],
}
MASKS = {
    "causal": lambda: lambda b, h, q, k: q >= k,
    "window": lambda: lambda b, h, q, k: (q >= k) & (q - k < 100),
    "documents": lambda documents: lambda b, h, q, k: documents[b, q] == documents[b, k],
    "lengths": lambda lengths: lambda b, h, q, k: k < lengths[b],
}


def bind(make, captures):
    """A function over the captures that the parameters of ``make`` name."""
    names = make.__code__.co_varnames[: make.__code__.co_argcount]
    return make(*(captures[name] for name in names))


class Case:
    """One call. ``mask`` is the shape and dtype of an attn_mask, ``learned`` the captured tensor that gets a gradient,
    too."""

    def __init__(self, queries=200, keys=200, dim=64, key_heads=HEADS, dtype=torch.bfloat16, gradients=True, **options):
        self.queries, self.keys, self.dim, self.key_heads = queries, keys, dim, key_heads
        self.dtype, self.gradients = dtype, gradients
        self.views = options.pop("views", False)
        self.learned = options.pop("learned", None)
        self.mask = options.pop("mask", None)
        self.score, self.keep = options.pop("score", None), options.pop("keep", None)
        # Whether documents are a mask of attn.masks, and whether there is a precomputed block mask.
        self.named, self.planned = options.pop("named", False), options.pop("planned", False)
        self.options = options
        self.name = ", ".join(
            [f"{queries}x{keys}x{dim}", str(dtype)[6:], f"{HEADS}/{key_heads} heads"]
            + [str(part) for part in (self.mask, self.score, self.keep) if part]
            + [f"{name}={value}" for name, value in options.items()]
            + ["views"] * self.views
            + [f"gradient of {self.learned}"] * bool(self.learned)
            + ["named"] * self.named
            + ["planned"] * self.planned
        )

    def make(self, device):
        generator = torch.Generator().manual_seed(1)
        sizes = ((HEADS, self.queries), (self.key_heads, self.keys), (self.key_heads, self.keys))
        tensors = []
        for heads, length in sizes:
            shape = (2, length, heads, self.dim) if self.views else (2, heads, length, self.dim)
            tensor = torch.randn(shape, generator=generator).to(device, self.dtype)
            tensors.append((tensor.transpose(1, 2) if self.views else tensor).requires_grad_(self.gradients))
        captures = {name: tensor.to(device) for name, tensor in CAPTURES.items()}
        if self.mask is not None:
            shape, dtype = self.mask
            mask = torch.randn(shape, generator=generator)
            captures["mask"] = (mask > 0 if dtype is torch.bool else mask.to(dtype)).to(device)
        if self.learned:
            captures[self.learned] = captures[self.learned].detach().requires_grad_()
        return tensors, captures

    def call(self, tensors, captures):
        options = dict(self.options, enable_gqa=self.key_heads != HEADS)
        if self.score or self.keep:
            score = bind(SCORES[self.score], captures) if self.score else None
            keep = bind(MASKS[self.keep], captures) if self.keep else None
            if self.named:
                ids = captures["documents"]
                keep = masks.documents(ids[:, : self.queries], ids[:, : self.keys])
            if self.planned:
                options["precomputed_block_mask"] = create_block_mask(*tensors, score, keep, **options)
            return flex_attention(*tensors, score, keep, **options)
        return sdpa(*tensors, attn_mask=captures.get("mask"), **options)

    def compute(self, tensors, captures, dtype):
        """The same by operations of PyTorch in ``dtype``."""
        q, k, v = (tensor.to(dtype) for tensor in tensors)
        k, v = (tensor.repeat_interleave(HEADS // self.key_heads, 1) for tensor in (k, v))
        s = q @ k.mT * self.options.get("scale", self.dim**-0.5)
        size = [torch.arange(n, device=s.device) for n in s.shape]
        position = torch.meshgrid(*size, indexing="ij")
        if self.score:
            s = bind(SCORES[self.score], captures)(s, *position).to(dtype)
        keep = torch.ones_like(s, dtype=torch.bool)
        if self.keep:
            keep = bind(MASKS[self.keep], captures)(*position)
        if self.options.get("is_causal"):
            keep = position[2] >= position[3]
        if self.mask is not None and self.mask[1] is torch.bool:
            keep = keep & captures["mask"]
        elif self.mask is not None:
            s = s + captures["mask"].to(dtype)
        s = s.masked_fill(~keep, float("-inf"))
        return torch.where(keep.any(-1, keepdim=True), s, 0.0).softmax(-1).masked_fill(~keep, 0.0) @ v


BF16, F16 = torch.bfloat16, torch.float16
CASES = [
    Case(),
    Case(1, 300),
    Case(257, 100, 128, is_causal=True),
    Case(100, 257, 128, is_causal=True, scale=0.3),
    Case(200, 200, 64, dtype=F16, is_causal=True, views=True),
    Case(200, 150, 128, key_heads=2, views=True),
    Case(mask=((200, 200), torch.bool)),
    Case(199, 201, mask=((2, 1, 199, 201), torch.bool)),
    Case(199, 201, mask=((2, 1, 1, 201), torch.bool)),
    Case(mask=((1, 4, 200, 200), BF16)),
    Case(199, 201, 128, mask=((199, 201), BF16)),
    Case(199, 201, 128, mask=((199, 201), torch.float32)),
    Case(score="alibi"),
    Case(score="soft cap", keep="causal", dtype=F16),
    Case(300, 300, 128, score="bias", keep="causal"),
    Case(300, 300, 128, key_heads=2, keep="window"),
    Case(keep="documents"),
    Case(300, 300, score="alibi", keep="documents"),
    Case(keep="lengths"),
    Case(mask=((1, 4, 200, 200), BF16), learned="mask"),
    Case(199, 201, 128, mask=((2, 1, 1, 201), torch.float32), learned="mask"),
    Case(300, 300, 128, score="bias", keep="causal", learned="bias"),
    Case(200, 150, key_heads=2, score="alibi", dtype=F16, learned="slopes"),
    Case(keep="documents", planned=True),
    Case(300, 300, 128, key_heads=2, score="alibi", keep="documents", planned=True),
    Case(300, 400, 128, keep="documents", named=True),
    Case(400, 300, 128, keep="documents", named=True, planned=True, gradients=False),
]


def gradients(out, tensors):
    torch.manual_seed(2)
    weights = torch.randn(out.shape, device=out.device, dtype=torch.float64)
    return torch.autograd.grad((out.double() * weights).sum(), tensors)


def check(case, device):
    """The largest share of its bound that an error takes."""
    tensors, captures = case.make(device)
    learned = [*tensors, captures[case.learned]] if case.learned else tensors
    results = []
    for call in (
        lambda: case.call(tensors, captures),
        lambda: case.compute(tensors, captures, torch.float64),
        lambda: case.compute(tensors, captures, case.dtype),
    ):
        out = call()
        results.append((out, *gradients(out, learned)) if case.gradients else (out,))
    shares = []
    for actual, exact, peer in zip(*results):
        exact = exact.double()
        bound = 2 * (peer.double() - exact).norm() + torch.finfo(case.dtype).eps * exact.norm()
        shares.append(((actual.double() - exact).norm() / bound).item())
    return max(share if share == share else float("inf") for share in shares)


def prepare(target):
    """Has all kernels compiled, by calls that compute nothing on the host."""
    kernels.find_target = lambda device: target
    kernels.Binding.__call__ = lambda self, inputs, outputs=None: (
        [self._allocate(*layout) for layout in self._outputs] if outputs is None else outputs
    )
    failures = 0
    for case in CASES:
        try:
            tensors, captures = case.make("cpu")
            case.call(tensors, captures)
        except Exception as error:
            failures += 1
            print(f"failed: {case.name}: {error}")
    print(f"{len(CASES) - failures} prepared, {failures} failed")
    return failures


def run():
    failures = 0
    for case in CASES:
        try:
            share = check(case, "cuda")
        except Exception:
            traceback.print_exc(limit=3, file=sys.stdout)
            share = float("inf")
        failures += share > 1
        print(f"{'ok' if share <= 1 else 'FAILED'} {share:.2f} {case.name}")
    print(f"{len(CASES) - failures} passed, {failures} failed")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepare", metavar="TARGET", help="compile for this target and run nothing")
    arguments = parser.parse_args()
    return 1 if (prepare(arguments.prepare) if arguments.prepare else run()) else 0


if __name__ == "__main__":
    sys.exit(main())
