#!/usr/bin/env python3
# ===- linear_attention.py - Linear attention on the GPU ----------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compares linear attention, its final states and its gradients with the recurrence in f64.

    linear_attention.py --compile build/bin/attn-compile --artifacts DIR [--target sm_80]
    linear_attention.py --artifacts DIR --runtime libattn_runtime.so
    compute-sanitizer linear_attention.py --artifacts DIR --sanitizer-subset

Outputs are filled with NaN before a call. The reference computes some tokens at a time: each attends to the state before
these tokens and to the tokens until itself (test/python/test_gpu_references.py compares it with the recurrence). It also
adds up absolute values: the error of an element is at most some roundings of their sum, and the norm of all errors is
that of few roundings. With the delta rule, where such sums have no bound, it is compared with the root mean square
instead. Gradients are compared with torch's of the reference. It is computed on the CPU: processes (--processes) would
wait for each other's many operations on one GPU. Keys, values, decays and betas after `key_lengths` are NaN.
"""

import ctypes
import dataclasses
import math
import re
import sys
from functools import partial
from typing import List, Optional

from attention import compile_artifacts
from device_suite import describe_error, load, run_subset_suite

from attn import LinearAttention

# Half the distance of 1 to the next number, and of 0. Matmuls of f32 are three tf32 MMAs, whose accumulators are
# truncated, or one with the precision "high", whose operands are truncated, too.
ROUNDING = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-20}
ROUNDING_OF_HIGH = 2.0**-10
SUBNORMAL_ROUNDING = {"bf16": 2.0**-134, "f16": 2.0**-25, "f32": 2.0**-126}
# Tokens of the reference that are computed at a time.
REFERENCE_PART = 50
# The `eps` of normalizers, added to the sum of scores.
EPS = 1e-3


@dataclasses.dataclass(frozen=True)
class Variant:
    """Linear attention of some heads; see `attn.LinearAttention`."""

    dtype: str = "bf16"
    # Of matmuls of f32.
    precision: str = ""
    heads: int = 2
    key_heads: Optional[int] = None
    value_heads: Optional[int] = None
    key_dim: int = 64
    value_dim: int = 64
    decay: str = ""
    # The delta rule.
    beta: bool = False
    state: bool = True
    causal: bool = True
    scale: Optional[float] = None
    chunk: Optional[int] = None
    # Positions before heads in memory.
    merged: bool = False
    # A static number of tokens; few of them have a kernel of their own.
    tokens: Optional[int] = None
    # The final state replaces the initial one.
    in_place: bool = False
    # Of `attn.linear_attention` that is not plain.
    feature: str = ""
    normalizer: bool = False
    local_block: Optional[int] = None
    key_lengths: bool = False
    sequences: bool = False
    # Of `attn.linear_attention_grad` instead.
    gradient: bool = False
    # Without the gradient of log-decays.
    constant_decay: bool = False
    options: List[str] = dataclasses.field(default_factory=list, hash=False)

    @property
    def is_plain(self):
        """Whether the function is the recurrence alone."""
        return not (self.feature or self.normalizer or self.local_block or self.key_lengths or self.sequences)

    @property
    def has_equal_heads(self):
        """Whether there are as many heads of keys and of values as of queries."""
        return (self.key_heads or self.heads) == (self.value_heads or self.heads) == self.heads

    @property
    def rounding(self):
        """The relative error of an operand of a matmul."""
        return ROUNDING_OF_HIGH if self.precision == "high" else ROUNDING[self.dtype]

    @property
    def value_columns(self):
        """Columns of states."""
        return self.value_dim + self.normalizer

    @property
    def most_batch(self):
        """Batch entries of cases with few: packed sequences are one."""
        return 1 if self.sequences else 2

    @property
    def derived_gradients(self):
        """Arguments of the forward function, if attn-differentiate makes their gradients, in their order."""
        names = ["query", "key", "value"] + ["log_decay"] * bool(self.decay) + ["beta"] * self.beta
        return (names + ["initial_state"] * self.state) if self.gradient and not self.is_plain else []

    @property
    def passes(self):
        """Passes of attn-opt before the compiler."""
        if not self.derived_gradients:
            return []
        name, listed = LinearAttention.NAME, ",".join(map(str, range(len(self.derived_gradients))))
        return [f"--attn-differentiate=function={name} mode=combined arguments={listed}",
                f"--symbol-privatize=exclude={name}_grad", "--symbol-dce"]  # fmt: skip

    @property
    def may_spill(self):
        """Whether kernels of pairs have more tiles than registers, where chunks forget much."""
        return ((self.gradient or self.dtype == "f32") and self.decay == "element"
                and (self.beta or self.sequences))  # fmt: skip

    @property
    def is_for_sm_90a(self):
        """Whether tiles of f32, or the delta rule's with decays of elements, exceed sm_80's shared memory."""
        most = max(self.key_dim, self.value_dim)
        if self.dtype == "f32" and most > (64 if self.chunk == 128 else 192):
            return True
        return self.beta and self.decay == "element" and (most if self.gradient else self.key_dim) > 192

    @property
    def name(self):
        parts = [self.dtype + self.precision, f"h{self.heads}", f"k{self.key_dim}", f"v{self.value_dim}"]
        parts += [self.decay or "plain"] + ["beta"] * self.beta
        parts += [f"hk{self.key_heads}"] * bool(self.key_heads) + [f"hv{self.value_heads}"] * bool(self.value_heads)
        parts += ["full"] * (not self.causal) + ["stateless"] * (not self.state) + ["merged"] * self.merged
        parts += ["grad"] * self.gradient + ["constant"] * self.constant_decay
        parts += [f"t{self.tokens}"] * (self.tokens is not None) + ["inplace"] * self.in_place
        parts += [f"scale{self.scale}"] * (self.scale is not None) + [f"chunk{self.chunk}"] * (self.chunk is not None)
        parts += [self.feature] * bool(self.feature) + ["normalizer"] * self.normalizer
        parts += [f"local{self.local_block}"] * (self.local_block is not None)
        parts += ["lengths"] * self.key_lengths + ["sequences"] * self.sequences
        return "_".join(parts)

    def __str__(self):
        return self.name

    def mlir(self):
        if self.gradient and self.is_plain:
            return self._gradient_mlir()
        heads = (self.heads, self.key_heads or self.heads, self.value_heads or self.heads)
        text = LinearAttention(
            self.dtype, *heads, self.key_dim, self.value_dim, self.decay, self.beta,
            initial_state=self.state, with_final_state=self.state, in_place=self.in_place, causal=self.causal,
            scale=self.scale, chunk=self.chunk, feature=self.feature, normalizer_eps=EPS if self.normalizer else None,
            local_block=self.local_block, key_lengths=self.key_lengths, sequences=self.sequences,
            precision=self.precision,
        ).mlir()  # fmt: skip
        if self.tokens is None:
            return text
        text = re.sub(r"(tensor<\?x\d+)x\?x", rf"\1x{self.tokens}x", text)
        return text.replace("(%batch, %tokens)", "(%batch)")

    def _gradient_mlir(self):
        key, value = (f"tensor<?x{self.heads}x?x{dim}x{self.dtype}>" for dim in (self.key_dim, self.value_dim))
        state = f"tensor<?x{self.heads}x{self.key_dim}x{self.value_dim}xf32>"
        decay = {
            "head": f"tensor<{self.heads}xf32>",
            "token": f"tensor<?x{self.heads}x?xf32>",
            "element": f"tensor<?x{self.heads}x?x{self.key_dim}xf32>",
        }.get(self.decay)
        given = {"query": key, "key": key, "value": value, "dout": value}
        rows = f"tensor<?x{self.heads}x?xf32>"
        given.update({"log_decay": decay} if decay else {})
        given.update({"beta": rows} if self.beta else {})
        given.update({"initial_state": state, "dfinal_state": state} if self.state else {})
        made = {"dquery": key, "dkey": key, "dvalue": value}
        if decay and not self.constant_decay:
            made["dlog_decay"] = f"tensor<?x{self.heads}xf32>" if self.decay == "head" else decay
        made.update({"dbeta": rows} if self.beta else {})
        made.update({"dinitial_state": state} if self.state else {})
        arguments = ", ".join(f"%{name}: {kind}" for name, kind in {**given, **made}.items())
        results = ", ".join(made.values())
        clauses = [f"{name}(%{name} : {kind})" for name, kind in list(given.items())[4:] + list(made.items())[3:]]
        clauses += ["causal"] * self.causal + [f"scale({self.scale})"] * (self.scale is not None)
        clauses += [f"chunk({self.chunk})"] * (self.chunk is not None)
        clauses += [f"precision({self.precision})"] * bool(self.precision)
        return f"""func.func @linear_attention({arguments}) -> ({results}) {{
  %r:{len(made)} = attn.linear_attention_grad
      ins(%query, %key, %value, %dout : {key}, {key}, {value}, {value})
      outs(%dquery, %dkey, %dvalue : {key}, {key}, {value})
      {" ".join(clauses)} -> {results}
  return {", ".join(f"%r#{number}" for number in range(len(made)))} : {results}
}}
"""


VARIANTS = [
    Variant(),
    Variant(state=False),
    Variant(dtype="f16", key_dim=128, value_dim=128),
    Variant(heads=1, key_dim=128, value_dim=128),
    Variant(heads=1, key_dim=128, value_dim=128, decay="token"),
    Variant(heads=16, key_dim=128, value_dim=128, decay="head", merged=True),
    Variant(decay="head"),
    Variant(decay="token"),
    Variant(decay="token", state=False, merged=True),
    Variant(dtype="f16", decay="token", key_dim=128, value_dim=128),
    Variant(decay="token", key_dim=64, value_dim=128),
    Variant(decay="token", key_dim=72, value_dim=40),
    Variant(key_dim=16, value_dim=8),
    Variant(decay="token", key_dim=192, value_dim=128),
    Variant(decay="token", key_dim=256, value_dim=256),
    Variant(decay="token", heads=6, key_heads=3, value_heads=2),
    Variant(decay="token", chunk=128),
    Variant(decay="head", key_dim=128, value_dim=128, chunk=128),
    Variant(key_dim=128, value_dim=128, causal=False),
    Variant(causal=False, state=False, scale=1.0),
    Variant(scale=-0.5),
    Variant(heads=1, key_dim=128, value_dim=128, decay="token", in_place=True),
    Variant(causal=False, in_place=True),
    Variant(decay="head", beta=True, in_place=True),
    Variant(decay="element", dtype="f16", key_dim=128, value_dim=128, in_place=True),
    Variant(tokens=1, in_place=True),
    Variant(tokens=1, state=False, key_dim=128, value_dim=128, merged=True),
    Variant(tokens=1, dtype="f16", decay="head", key_dim=128, value_dim=128, in_place=True),
    Variant(tokens=1, decay="token", key_dim=72, value_dim=40, in_place=True, scale=-0.5),
    Variant(tokens=1, decay="element", key_dim=40, value_dim=72, in_place=True),
    Variant(tokens=1, decay="element", heads=16, key_dim=128, value_dim=128, in_place=True, merged=True),
    Variant(tokens=1, beta=True, key_dim=128, value_dim=128, in_place=True),
    Variant(tokens=1, beta=True, decay="token", heads=16, key_dim=128, value_dim=128, in_place=True, merged=True),
    Variant(tokens=1, beta=True, decay="element", key_dim=128, value_dim=128, in_place=True),
    Variant(tokens=1, beta=True, decay="element", key_dim=256, value_dim=256),
    Variant(tokens=1, beta=True, decay="token", heads=6, key_heads=3, value_heads=2, in_place=True),
    Variant(tokens=1, key_dim=8, value_dim=8, causal=False),
    Variant(tokens=3, dtype="f16", beta=True, decay="head", key_dim=72, value_dim=40, in_place=True),
    Variant(tokens=3, key_dim=64, value_dim=128, causal=False, in_place=True),
    Variant(tokens=3, decay="token", heads=6, key_heads=3, value_heads=2),
    Variant(tokens=8, decay="token", key_dim=128, value_dim=128, in_place=True),
    Variant(tokens=8, beta=True, key_dim=16, value_dim=8, state=False),
    Variant(tokens=8, beta=True, decay="element", key_dim=128, value_dim=128, in_place=True, merged=True),
    Variant(tokens=8, beta=True, decay="element", dtype="f16", key_dim=256, value_dim=256, in_place=True),
    Variant(gradient=True),
    Variant(gradient=True, state=False, heads=1, key_dim=128, value_dim=128),
    Variant(gradient=True, dtype="f16", decay="token", key_dim=128, value_dim=128, merged=True),
    Variant(gradient=True, decay="token", key_dim=64, value_dim=128),
    Variant(gradient=True, decay="head", heads=16),
    Variant(gradient=True, decay="head", heads=16, constant_decay=True),
    Variant(gradient=True, decay="token", key_dim=128, value_dim=64, constant_decay=True),
    Variant(gradient=True, decay="token", key_dim=72, value_dim=40, scale=-0.5),
    Variant(gradient=True, decay="token", key_dim=256, value_dim=256),
    Variant(gradient=True, decay="head", key_dim=128, value_dim=128, chunk=128),
    Variant(gradient=True, causal=False, key_dim=128, value_dim=64),
    Variant(decay="element"),
    Variant(decay="element", state=False, merged=True, key_dim=128, value_dim=128, heads=16),
    Variant(decay="element", heads=1, key_dim=128, value_dim=128),
    Variant(decay="element", dtype="f16", key_dim=64, value_dim=128),
    Variant(decay="element", key_dim=72, value_dim=40, scale=-0.5),
    Variant(decay="element", key_dim=16, value_dim=8),
    Variant(decay="element", key_dim=256, value_dim=256),
    Variant(decay="element", heads=6, key_heads=3, value_heads=2),
    Variant(gradient=True, decay="element"),
    Variant(gradient=True, decay="element", state=False, heads=16, key_dim=128, value_dim=128, merged=True),
    Variant(gradient=True, decay="element", dtype="f16", key_dim=64, value_dim=128),
    Variant(gradient=True, decay="element", key_dim=128, value_dim=64, constant_decay=True),
    Variant(gradient=True, decay="element", key_dim=72, value_dim=40, scale=-0.5),
    Variant(gradient=True, decay="element", key_dim=256, value_dim=256),
    Variant(beta=True),
    Variant(beta=True, state=False, key_dim=128, value_dim=128, merged=True),
    Variant(beta=True, heads=1, decay="token", key_dim=128, value_dim=128),
    Variant(beta=True, dtype="f16", decay="token", key_dim=64, value_dim=128),
    Variant(beta=True, decay="head", heads=6, key_heads=3, value_heads=2),
    Variant(beta=True, decay="token", key_dim=72, value_dim=40, scale=-0.5),
    Variant(beta=True, decay="token", key_dim=16, value_dim=8),
    Variant(beta=True, decay="token", key_dim=256, value_dim=256),
    Variant(beta=True, decay="token", heads=16, key_dim=128, value_dim=128),
    Variant(beta=True, decay="element"),
    Variant(beta=True, decay="element", heads=16, key_dim=128, value_dim=128, merged=True),
    Variant(beta=True, decay="element", heads=1, key_dim=128, value_dim=128),
    Variant(beta=True, decay="element", dtype="f16", key_dim=64, value_dim=128),
    Variant(beta=True, decay="element", heads=6, key_heads=3, value_heads=2),
    Variant(beta=True, decay="element", key_dim=72, value_dim=40, scale=-0.5),
    Variant(beta=True, decay="element", key_dim=256, value_dim=256),
    Variant(gradient=True, beta=True),
    Variant(gradient=True, beta=True, state=False, heads=1, key_dim=128, value_dim=128),
    Variant(gradient=True, beta=True, decay="token", key_dim=128, value_dim=128, merged=True),
    Variant(gradient=True, beta=True, decay="token", key_dim=64, value_dim=128, dtype="f16"),
    Variant(gradient=True, beta=True, decay="head", heads=16),
    Variant(gradient=True, beta=True, decay="token", heads=16, key_dim=128, value_dim=128),
    Variant(gradient=True, beta=True, decay="token", key_dim=128, value_dim=64, constant_decay=True),
    Variant(gradient=True, beta=True, decay="token", key_dim=72, value_dim=40, scale=-0.5),
    Variant(gradient=True, beta=True, decay="token", key_dim=16, value_dim=8),
    Variant(gradient=True, beta=True, decay="token", key_dim=256, value_dim=256),
    Variant(gradient=True, beta=True, decay="element"),
    Variant(gradient=True, beta=True, decay="element", heads=16, key_dim=128, value_dim=128, merged=True),
    Variant(gradient=True, beta=True, decay="element", dtype="f16", key_dim=64, value_dim=128),
    Variant(gradient=True, beta=True, decay="element", key_dim=72, value_dim=40, scale=-0.5),
    Variant(gradient=True, beta=True, decay="element", key_dim=256, value_dim=256),
    Variant(feature="elu", key_dim=128, value_dim=128),
    Variant(feature="relu", decay="token", dtype="f16"),
    Variant(feature="exp", decay="element", state=False, merged=True),
    Variant(feature="softmax", heads=6, key_heads=3, value_heads=2),
    Variant(feature="relu", beta=True, decay="head"),
    Variant(feature="softmax", causal=False, key_dim=72, value_dim=40, scale=1.0),
    Variant(feature="elu", normalizer=True),
    Variant(feature="elu", normalizer=True, decay="token", key_dim=128, value_dim=128, in_place=True),
    Variant(feature="exp", normalizer=True, decay="element", dtype="f16"),
    Variant(feature="relu", normalizer=True, decay="head", state=False, heads=6, key_heads=3, value_heads=2),
    Variant(feature="softmax", normalizer=True, causal=False, key_dim=128, value_dim=64),
    Variant(key_lengths=True),
    Variant(key_lengths=True, decay="head", key_dim=128, value_dim=128),
    Variant(key_lengths=True, decay="element", dtype="f16"),
    Variant(key_lengths=True, beta=True, decay="token", in_place=True),
    Variant(key_lengths=True, feature="elu", normalizer=True, causal=False),
    Variant(sequences=True, state=False),
    Variant(sequences=True, state=False, decay="head", key_dim=128, value_dim=128, merged=True),
    Variant(sequences=True, state=False, decay="element"),
    Variant(sequences=True, state=False, beta=True, decay="token"),
    Variant(sequences=True, state=False, feature="exp", normalizer=True, decay="token", dtype="f16"),
    Variant(sequences=True),
    Variant(sequences=True, decay="token", key_dim=128, value_dim=128, in_place=True),
    Variant(sequences=True, decay="head", heads=6, key_heads=3, value_heads=2, dtype="f16"),
    Variant(sequences=True, decay="element"),
    Variant(sequences=True, beta=True, decay="token", key_dim=128, value_dim=128),
    Variant(sequences=True, beta=True, decay="element", in_place=True),
    Variant(sequences=True, feature="elu", normalizer=True, decay="token"),
    Variant(sequences=True, dtype="f32", beta=True),
    Variant(sequences=True, decay="head", key_dim=72, value_dim=40, in_place=True, merged=True, scale=-0.5),
    Variant(sequences=True, heads=16, beta=True, decay="element", key_dim=128, value_dim=128, in_place=True, merged=True),
    Variant(sequences=True, heads=1, key_dim=128, value_dim=128),
    Variant(sequences=True, heads=1, decay="token", key_dim=128, value_dim=64, in_place=True),
    Variant(sequences=True, heads=1, beta=True, decay="token", key_dim=64, value_dim=128),
    Variant(sequences=True, heads=1, decay="element", dtype="f16"),
    Variant(local_block=64, state=False),
    Variant(local_block=100, state=False, decay="token", key_dim=128, value_dim=128),
    Variant(local_block=16, state=False, beta=True, decay="head", heads=6, key_heads=3, value_heads=2),
    Variant(local_block=100, state=False, causal=False, feature="softmax", normalizer=True, key_lengths=True),
    Variant(tokens=1, feature="elu", key_dim=128, value_dim=128, in_place=True),
    Variant(tokens=1, feature="elu", normalizer=True, decay="token", heads=16, key_dim=128, value_dim=128, merged=True),
    Variant(tokens=3, feature="softmax", normalizer=True, decay="element", in_place=True),
    Variant(tokens=8, feature="relu", beta=True, dtype="f16", decay="head", in_place=True),
    Variant(tokens=8, key_lengths=True, decay="token", feature="exp", normalizer=True, key_dim=72, value_dim=40),
    Variant(tokens=8, sequences=True, state=False, decay="head"),
    Variant(tokens=8, local_block=3, state=False, feature="elu", normalizer=True),
    Variant(gradient=True, feature="elu"),
    Variant(gradient=True, feature="exp", state=False, decay="token", key_dim=128, value_dim=128, dtype="f16"),
    Variant(gradient=True, feature="elu", normalizer=True, decay="token"),
    Variant(gradient=True, feature="softmax", normalizer=True, causal=False, heads=6, key_heads=3, value_heads=2),
    Variant(gradient=True, key_lengths=True, decay="element"),
    Variant(gradient=True, key_lengths=True, feature="elu", normalizer=True, decay="head"),
    Variant(gradient=True, sequences=True, state=False, decay="token", key_dim=128, value_dim=64),
    Variant(gradient=True, sequences=True, state=False, beta=True),
    Variant(gradient=True, sequences=True, decay="head", key_dim=128, value_dim=64),
    Variant(gradient=True, sequences=True, beta=True, decay="token"),
    Variant(gradient=True, sequences=True, decay="element"),
    Variant(gradient=True, sequences=True, heads=1, decay="token", key_dim=64, value_dim=128),
    Variant(gradient=True, sequences=True, heads=1, beta=True, key_dim=128, value_dim=64),
    Variant(gradient=True, sequences=True, heads=1, beta=True, decay="element", dtype="f16"),
    Variant(gradient=True, local_block=100, state=False, feature="relu", normalizer=True, decay="token"),
    Variant(dtype="f32"),
    Variant(dtype="f32", precision="high", decay="token", key_dim=128, value_dim=128),
    Variant(dtype="f32", decay="head", key_dim=40, value_dim=24, merged=True),
    Variant(dtype="f32", decay="token", key_dim=128, value_dim=128, chunk=128),
    Variant(dtype="f32", causal=False, key_dim=256, value_dim=256),
    Variant(dtype="f32", decay="element"),
    Variant(dtype="f32", decay="element", key_dim=128, value_dim=128, heads=6, key_heads=3, value_heads=2),
    Variant(dtype="f32", beta=True, decay="token"),
    Variant(dtype="f32", precision="high", beta=True, key_dim=128, value_dim=128),
    Variant(dtype="f32", beta=True, decay="element", key_dim=64, value_dim=128),
    Variant(dtype="f32", feature="elu", normalizer=True, decay="token"),
    Variant(dtype="f32", tokens=3, beta=True, decay="token", key_dim=128, value_dim=128, in_place=True),
    Variant(dtype="f32", gradient=True),
    Variant(dtype="f32", gradient=True, decay="token", key_dim=128, value_dim=128),
    Variant(dtype="f32", gradient=True, precision="high", decay="head", heads=4),
    Variant(dtype="f32", gradient=True, decay="element"),
    Variant(dtype="f32", gradient=True, beta=True, decay="token"),
    Variant(dtype="f32", gradient=True, beta=True, key_dim=40, value_dim=48),
    Variant(dtype="f32", gradient=True, beta=True, decay="element"),
]

SHAPES = [(1, 1), (2, 63), (1, 64), (3, 65), (2, 333), (1, 0), (0, 5), (1, 2048)]
LONG_SHAPES = [(1, 40000)]
LONG_GRADIENT_SHAPES = [(1, 12000)]
# The log-decays and betas of long sequences whose first tokens count until the last one: work items split them.
SLOW_DECAY, SLOW_BETA = -1e-5, 1e-3
# Batch entries where the number of tokens is static.
STATIC_BATCHES = [1, 3, 64, 0]
# With 16 heads of the delta rule, three batch entries do not have narrow tiles.
GRADIENT_SHAPES = [(1, 1), (2, 64), (1, 65), (2, 333), (3, 130), (1, 0), (0, 5), (1, 1500)]
# Log-decays of all tokens, or of some tokens between ones that forget little.
# "some" are small in some chunks alone: kernels have two forms.
EXTREME = [0.0, -1e-30, -1e-6, -0.34, -10.0, -100.0, -1000.0, -math.inf, "mixed", "some"]


# Packed sequences begin there, as far as there are tokens: with tokens before the first and after the last of them,
# sequences without tokens, and of one token.
BOUNDARIES = [2, 3, 3, 64, 67, 130, 300]
# Boundaries that are wrong, or too few or too many for the states.
BAD_BOUNDARIES = [[0, 30, 20, 70], [0, 71], [-1, 70]]
# The numbers of boundaries of sequences with states, and what makes them wrong if it is added: they are not sorted, or do
# not go from the first to the last token.
WRONG_BOUNDARIES = [(0, -1), (0, 1), (2, 10), (-1, 1), (-1, -1)]

# Betas of all tokens: nothing is written, the value of the key is replaced, or its difference changes its sign.
BETAS = [0.0, 1.0, 2.0]


def limit_batches(variant, shapes):
    """The shapes that a variant may have: packed sequences are one batch entry."""
    return [shape for shape in shapes if shape[0] == 1 or not variant.sequences]


def make_inputs(torch, variant, batch, tokens, value=None, beta=None, boundaries=None):
    """The arguments of the function; `value` sets all log-decays, `beta` all betas, and `boundaries` the packed
    sequences. They are made on the CPU: processes (--processes) would wait for each other's many operations on one GPU.
    """
    generator = torch.Generator().manual_seed(batch * 100003 + tokens)
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[variant.dtype]

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    def rows(heads, dim):
        if variant.merged:
            return normal(batch, tokens, heads, dim).to(dtype).transpose(1, 2)
        return normal(batch, heads, tokens, dim).to(dtype)

    inputs = {
        "query": rows(variant.heads, variant.key_dim),
        "key": rows(variant.key_heads or variant.heads, variant.key_dim),
        "value": rows(variant.value_heads or variant.heads, variant.value_dim),
    }
    if variant.decay:
        shape = (variant.heads,) if variant.decay == "head" else (batch, variant.heads, tokens)
        shape += (variant.key_dim,) * (variant.decay == "element")
        if value is None:
            decay = torch.nn.functional.logsigmoid(normal(*shape)) / 4
        elif value == "some":
            decay = torch.full(shape, -0.1)
            decay[0] = -3.0
            (decay if variant.decay != "element" else decay.transpose(2, 3))[..., -5:] = -2.0
        elif value == "mixed":
            rare = torch.rand(*shape, generator=generator) < 0.2
            decay = torch.where(rare, -1e4, -1e-3 * torch.rand(*shape, generator=generator))
        else:
            decay = torch.full(shape, value)
        inputs["log_decay"] = decay
    if variant.beta:
        inputs["key"] = torch.nn.functional.normalize(inputs["key"].float(), dim=-1).to(dtype)
        inputs["beta"] = normal(batch, variant.heads, tokens).sigmoid()
        if beta is not None:
            inputs["beta"].fill_(beta)
    if boundaries is None:
        boundaries = [min(position, tokens) for position in BOUNDARIES]
        # Sequences with states are all tokens.
        boundaries = [0, *boundaries, tokens] if variant.state else boundaries
    if variant.state:
        number = len(boundaries) - 1 if variant.sequences else batch
        state = normal(number, variant.heads, variant.key_dim, variant.value_columns)
        if variant.normalizer:
            # Sums of features are not negative, and numerators are like them.
            state[..., -1].abs_()
        inputs["initial_state"] = state
    if variant.sequences:
        inputs["sequences"] = torch.tensor(boundaries, dtype=torch.int32)
    if variant.key_lengths:
        # Numbers that are no lengths count as the nearest.
        some = torch.tensor([tokens * 2 // 3, tokens + 5, -3, 1, 0])
        lengths = some[torch.arange(batch) % len(some)].to(torch.int32)
        inputs["key_lengths"] = lengths
        spoil_padding(torch, inputs, lengths)
    return {name: tensor.cuda() for name, tensor in inputs.items()}


def spoil_padding(torch, inputs, lengths):
    """Makes keys, values, decays and betas NaN from `lengths` on."""
    for name in {"key", "value", "log_decay", "beta"} & set(inputs):
        tensor = inputs[name]
        if tensor.dim() > 2:
            is_padding = torch.arange(tensor.shape[2]) >= lengths[:, None]
            shape = (len(lengths), 1, tensor.shape[2], *[1] * (tensor.dim() - 3))
            tensor.masked_fill_(is_padding.view(shape), math.nan)


def make_outputs(torch, variant, inputs):
    """Outputs full of NaN."""
    query = inputs["query"]
    shape = (*query.shape[:3], variant.value_dim)
    if variant.merged:
        shape = (shape[0], shape[2], shape[1], shape[3])
    out = torch.full(shape, math.nan, dtype=query.dtype, device="cuda")
    outputs = [out.transpose(1, 2) if variant.merged else out]
    if variant.state:
        outputs.append(torch.full_like(inputs["initial_state"], math.nan))
    return outputs


def apply_feature(torch, feature, rows):
    """The feature map that kernels apply, of `attn.builder.FEATURES`."""
    if feature == "elu":
        return torch.nn.functional.elu(rows) + 1
    if feature == "softmax":
        return rows.softmax(-1)
    return {"": lambda x: x, "relu": torch.relu, "exp": torch.exp}[feature](rows)


def make_decays(torch, variant, inputs, shape, is_key):
    """The factors of states before each token, [batch, heads, tokens, key head dim or 1]; None if all are 1. At the
    first token of a sequence or a block they are 0."""
    batch, heads, tokens, _ = shape
    given = inputs.get("log_decay")
    if given is None and not (variant.sequences or variant.local_block):
        return None
    decays = torch.ones(batch, heads, tokens, 1, dtype=torch.float64, device=is_key.device)
    if given is not None:
        decays = given.double().clamp_max(0).exp()
        if variant.decay == "head":
            # With a gradient, each batch entry has its own.
            decays = decays.expand(batch, heads)[..., None].expand(batch, heads, tokens)
        decays = decays if variant.decay == "element" else decays[..., None]
        decays = torch.where(is_key, decays, torch.ones_like(decays))
    position = torch.arange(tokens, device=is_key.device)
    is_first = torch.zeros_like(position, dtype=torch.bool)
    if variant.sequences:
        is_first = torch.isin(position, inputs["sequences"].long())
    if variant.local_block:
        is_first = position % variant.local_block == 0
    return decays.masked_fill(is_first[:, None], 0)


def run_part(torch, is_causal, q, k, v, decay, beta, state):
    """The output of some tokens and the state after them: each token attends to the state before all of them and to the
    tokens until itself. All are [batch, heads, tokens, ...]; `decay` and `beta` may be None. Values of the delta rule
    are the solution of a triangular system of all these tokens.
    """
    tokens = q.shape[2]
    # exp(-690) is none of the state, and sums of parts stay small.
    logs = q.new_zeros(1, 1, tokens, 1) if decay is None else decay.clamp_min(1e-300).log()
    sums = logs.cumsum(2)
    is_seen = torch.ones(tokens, tokens, dtype=torch.bool, device=q.device).tril()[..., None]
    factors = (sums[:, :, :, None] - sums[:, :, None]).masked_fill(~is_seen, -math.inf).exp()

    def score(rows):
        if factors.shape[-1] == 1:
            return rows @ k.mT * factors[..., 0]
        return ((rows[:, :, :, None] * k[:, :, None]) * factors).sum(-1)

    if beta is not None:
        known = (k * sums.exp()) @ state
        unit = torch.eye(tokens, dtype=q.dtype, device=q.device)
        v = torch.linalg.solve_triangular((beta * score(k)).tril(-1) + unit, beta * (v - known), upper=False)
    last = sums[:, :, -1:]
    after = state * last.exp().mT + (k * (last - sums).exp()).mT @ v
    # Without a mask tokens see the last state.
    return (q * sums.exp()) @ state + score(q) @ v if is_causal else q @ after, after


def run_sequences(torch, variant, inputs):
    """`run_recurrence` of packed sequences, one after the other, from the state of each."""
    one, bounds, results = dataclasses.replace(variant, sequences=False), inputs["sequences"].long().tolist(), []
    for number, (first, last) in enumerate(zip(bounds, bounds[1:])):
        part = {name: tensor if tensor.dim() < 3 else tensor[:, :, first:last] for name, tensor in inputs.items()}
        part["initial_state"] = inputs["initial_state"][number : number + 1]
        results.append(run_recurrence(torch, one, part))

    def join(kind, index, dim):
        parts = [result[kind][index] for result in results]
        return None if parts[0] is None else torch.cat(parts, dim)

    return tuple(tuple(join(kind, index, dim) for index in range(2)) for kind, dim in enumerate((2, 0)))


def run_recurrence(torch, variant, inputs):
    """The output, before the normalizer, and the final state in f64, and the same of absolute values; see
    `compute_reference`."""
    from torch.utils.checkpoint import checkpoint

    if variant.sequences and variant.state:
        return run_sequences(torch, variant, inputs)

    def widen(tensor):
        return tensor.double().repeat_interleave(variant.heads // tensor.shape[1], dim=1)

    q, k, v = (widen(inputs[name]) for name in ("query", "key", "value"))
    scale = 1 / math.sqrt(variant.key_dim) if variant.scale is None else variant.scale
    q, k = apply_feature(torch, variant.feature, q) * scale, apply_feature(torch, variant.feature, k)
    if variant.normalizer:
        v = torch.cat([v, torch.ones_like(v[..., :1])], -1)
    state = inputs["initial_state"].double() if variant.state else q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3])
    lengths = inputs["key_lengths"][:, None] if variant.key_lengths else q.shape[2]
    is_key = (torch.arange(q.shape[2], device=q.device) < lengths)[..., None, :, None]
    k, v = (torch.where(is_key, tensor, torch.zeros_like(tensor)) for tensor in (k, v))
    decay = make_decays(torch, variant, inputs, q.shape, is_key)
    beta = torch.where(is_key, inputs["beta"].double()[..., None], 0) if variant.beta else None
    # Both computations as one, of twice as many batch entries.
    if not variant.beta:
        q, k, v, state = (torch.cat([tensor, tensor.abs()]) for tensor in (q, k, v, state))
        decay = None if decay is None else torch.cat([decay] * 2)

    rows, tokens = [], q.shape[2]
    most = REFERENCE_PART if variant.causal else variant.local_block or max(tokens, 1)
    run = partial(run_part, torch, variant.causal)
    for first in range(0, tokens, most):
        part = [x if x is None else x[:, :, first : first + most] for x in (q, k, v, decay, beta)]
        of_part = checkpoint(run, *part, state, use_reentrant=False) if variant.gradient else run(*part, state)
        rows.append(of_part[0])
        state = of_part[1]
    if not rows:
        out = v.new_empty(*q.shape[:3], v.shape[3])
    else:
        out = torch.cat(rows, 2)
    return ((out, None), (state, None)) if variant.beta else (out.chunk(2), state.chunk(2))


def find_mean_square(torch, x):
    """The root mean square of all elements or, if it is larger, of a row."""
    squares = x.square()
    return torch.maximum(squares.mean(), squares.mean(-1, keepdim=True)).sqrt()


def divide(outs, is_constant=False):
    """Outputs of numerators and, in the last column, the sums of their scores, which have no gradient if they are
    constant."""
    sums = outs[..., -1:] + EPS
    return outs[..., :-1] / (sums.detach() if is_constant else sums)


def compute_reference(torch, variant, inputs, constant_sums=False):
    """The output and the final state in f64, and the same of absolute values. With the delta rule the latter are the
    absolute values of the results and four times the root mean square of all of them or, if it is larger, of their row.
    Gradients go through parts of the tokens twice, so that few states are kept. With `constant_sums` the sums of a
    normalizer have no gradient.
    """
    inputs = {name: tensor.cpu() for name, tensor in inputs.items()}
    (out, sums), (state, state_sums) = run_recurrence(torch, variant, inputs)
    if variant.beta:
        return tuple((x, x.abs() + 4 * find_mean_square(torch, x)) if x.numel() else (x, x) for x in (out, state))
    if variant.normalizer:
        # Features are not negative, and sums are their own absolute values.
        out, sums = divide(out, constant_sums), divide(sums)
    return (out, sums), (state, state_sums)


def without_padding(torch, variant, inputs):
    """The inputs with zeros for the NaN that `spoil_padding` makes."""
    if not variant.key_lengths:
        return inputs
    return {name: torch.where(tensor.isnan(), torch.zeros_like(tensor), tensor) for name, tensor in inputs.items()}


def bound_subnormal(torch, variant, inputs):
    """What the decayed scores and values of two tokens may be off where they are subnormal."""
    if not variant.decay:
        return 0.0
    inputs = without_padding(torch, variant, inputs)
    rows = [apply_feature(torch, variant.feature, inputs[name].float()) for name in ("query", "key")]
    largest = max((tensor.abs().max().item() for tensor in (*rows, inputs["value"]) if tensor.numel()), default=0.0)
    return 2 * SUBNORMAL_ROUNDING[variant.dtype] * largest


def bound_sums(torch, variant, inputs):
    """The rounding of the largest sum of log-decays of key elements in a chunk: their differences are factors of f32
    rows. Smaller log-decays than -126 count as -126."""
    if variant.dtype != "f32" or variant.decay != "element" or not inputs["log_decay"].numel():
        return 0.0
    sums = [part.sum(2) for part in inputs["log_decay"].clamp_min(-126).split(variant.chunk or 64, 2)]
    return 2.0**-25 * max(sum.abs().max().item() for sum in sums)


def count_roundings(variant):
    """The roundings of outputs and of final states to the dtype of queries."""
    # Of scores or the state, of decayed values, and of the output.
    of_outputs = 3.5
    of_states = 3.5 if variant.beta else 1.2 if variant.decay or variant.sequences else 0
    # Features of queries and of keys are rounded, sums of scores as much as numerators are, and the quotient.
    of_outputs += 2 * bool(variant.feature)
    of_states += bool(variant.feature)
    return 2 * of_outputs + 1 if variant.normalizer else of_outputs, of_states


def find_error(torch, actual, expected, magnitudes, roundings, subnormal=0.0):
    """The largest error as a multiple of the allowed one, by the same with absolute values."""
    if not actual.numel():
        return 0.0
    if not bool(actual.isfinite().all()):
        return math.inf
    difference = (actual.to(expected.device).double() - expected).abs()
    tiny = 1e-30 + subnormal
    of_elements = (difference / (roundings * magnitudes + tiny)).max().item()
    of_all = roundings * expected.norm() + subnormal * math.sqrt(actual.numel())
    of_norms = (difference.norm() / (0.5 * of_all + 1e-30)).item()
    return max(of_elements, of_norms)


def call_function(torch, function, variant, inputs, outputs):
    """Calls a function with its state in place, or not."""
    arguments = dict(inputs)
    if variant.in_place:
        arguments["initial_state"] = outputs[1].copy_(inputs["initial_state"])
        outputs = outputs[:1]
    function.bind(*arguments.values(), *outputs, stream=torch.cuda.current_stream().cuda_stream)()


def run_case(torch, function, variant, batch, tokens, value=None, beta=None, boundaries=None):
    """A message if something is wrong."""
    inputs = make_inputs(torch, variant, batch, tokens, value, beta, boundaries)
    outputs = make_outputs(torch, variant, inputs)
    call_function(torch, function, variant, inputs, outputs)
    torch.cuda.synchronize()
    (out, out_sums), (state, state_sums) = compute_reference(torch, variant, inputs)
    unit, steps = variant.rounding, tokens * 2.0**-24
    # A state whose parts change their signs keeps all errors.
    unit *= 1.5 if beta == 2 else 1
    of_outputs, of_states = (count * unit for count in count_roundings(variant))
    subnormal = bound_subnormal(torch, variant, inputs)
    error = find_error(torch, outputs[0], out, out_sums, of_outputs + steps, subnormal)
    if variant.state:
        error = max(error, find_error(torch, outputs[1], state, state_sums, (of_states or 2.0**-14) + steps, subnormal))
    return describe_error(error)


def make_gradients(torch, variant, inputs):
    """Gradients of the output and of the final state, and gradients of the arguments, full of NaN."""
    out, *states = make_outputs(torch, variant, inputs)
    generator = torch.Generator().manual_seed(1)
    given = [torch.randn(x.shape, generator=generator).to(x.dtype).cuda() for x in (out, *states)]
    names = ["query", "key", "value"]
    names += ["log_decay"] * (bool(variant.decay) and not variant.constant_decay)
    names += ["beta"] * variant.beta + ["initial_state"] * variant.state
    made = {name: torch.full_like(inputs[name], math.nan) for name in names}
    if "log_decay" in made and variant.decay == "head" and variant.is_plain:
        # Each batch entry has a part of it.
        made["log_decay"] = made["log_decay"].repeat(len(out), 1)
    return given, made


def bound_decay_gradient(torch, variant, inputs, gradients):
    """The norm of the errors of log-decays' gradients if each term, an element of a row or of the initial state times its
    gradient, has an error of one unit of its own. A token's gradient adds up the terms of its row and of later ones in
    the chunk, and a head's adds up the gradients of all tokens; terms cancel. States of later chunks are left out.
    """
    rows = sum((inputs[of] * gradients[of]).square().sum(-1).detach() for of in ("query", "key", "value"))
    positions = torch.arange(rows.shape[-1], device=rows.device) % (variant.chunk or 64) + 1.0
    # A row is added so many times. Where the results are added up, so are its errors.
    squares = (rows * (positions.square() if variant.decay == "head" else positions)).sum()
    if variant.state:
        squares += (inputs["initial_state"] * gradients["initial_state"]).square().sum().detach()
    return squares.sqrt()


def without_own_tokens(torch, variant, inputs, gradients, dout):
    """The gradients of queries, keys and values without the part of each token with itself, which no decay changes:
    its terms cancel exactly. As many heads of each."""
    query, key, value = (inputs[of].detach() for of in ("query", "key", "value"))
    scale = 1 / math.sqrt(variant.key_dim) if variant.scale is None else variant.scale
    dscore = scale * (dout * value).sum(-1, keepdim=True)
    score = scale * (query * key).sum(-1, keepdim=True)
    own = {"query": dscore * key, "key": dscore * query, "value": score * dout}
    return {name: gradient - own[name] if name in own else gradient for name, gradient in gradients.items()}


def run_gradient(torch, function, variant, batch, tokens, value=None, beta=None):
    """A message if something is wrong."""
    inputs = make_inputs(torch, variant, batch, tokens, value, beta)
    (dout, *dstates), made = make_gradients(torch, variant, inputs)
    if variant.is_plain:
        own = {**inputs, "dout": dout, **({"dfinal_state": dstates[0]} if dstates else {})}
        order = ["query", "key", "value", "dout", "log_decay", "beta", "initial_state", "dfinal_state"]
        arguments = [own[name] for name in order if name in own]
    else:
        arguments = [*inputs.values(), dout, *dstates, *make_outputs(torch, variant, inputs)]
    function.bind(*arguments, *made.values(), stream=torch.cuda.current_stream().cuda_stream)()
    torch.cuda.synchronize()
    if not dout.numel():
        if "initial_state" in made and not torch.allclose(made["initial_state"], dstates[0]):
            return "the gradient of the state changes without tokens"
        if "log_decay" in made and bool(made["log_decay"].any()):
            return "log-decays have a gradient without tokens"
        return None
    inputs, made = ({name: tensor.cpu() for name, tensor in of.items()} for of in (inputs, made))
    inputs = without_padding(torch, variant, inputs)
    leaves = {name: tensor.double().requires_grad_(name in made) for name, tensor in inputs.items()}
    if variant.decay == "head" and variant.is_plain:
        leaves["log_decay"] = inputs["log_decay"].double().expand(batch, -1).clone().requires_grad_()

    def differentiate(**options):
        (out, _), (state, _) = compute_reference(torch, variant, leaves, **options)
        loss = sum((x * dx.cpu().double()).sum() for x, dx in zip((out, state), (dout, *dstates)))
        return torch.autograd.grad(loss, [leaves[name] for name in made])

    expected = differentiate()
    unit, error, worst = variant.rounding + bound_sums(torch, variant, inputs), 0.0, ""
    # Gradients through numerators and through sums of scores are rounded, and cancel.
    numerators = differentiate(constant_sums=True) if variant.normalizer else expected
    for name, exact, of_numerators in zip(made, expected, numerators):
        if not bool(made[name].isfinite().all()):
            return f"the gradient of {name} is not finite"
        roundings = (3 if variant.beta else 2) + 2 * bool(variant.feature) + 2 * variant.normalizer
        # A state whose parts change their signs keeps all errors, also of the inverse by tf32 MMAs.
        roundings *= 2 if beta == 2 and variant.dtype == "f32" else 1
        allowed = roundings * unit * (of_numerators.norm() + (exact - of_numerators).norm())
        if name == "log_decay":
            # Terms of a chunk that cancel have roundings of f32. For a head each is added as often as its position says.
            terms = [leaves["query"] * part for part in (numerators[0], expected[0] - numerators[0])]
            if variant.decay == "head":
                positions = torch.arange(terms[0].shape[2]) % (variant.chunk or 64) + 1.0
                allowed += 2.0**-21 * sum((term * positions[:, None]).norm() for term in terms)
            else:
                allowed += 2.0**-16 * sum(term.norm() for term in terms)
        if (variant.beta or variant.decay == "element" or variant.precision) and name == "log_decay":
            allowed += unit * bound_decay_gradient(torch, variant, leaves, dict(zip(made, expected)))
        elif variant.decay == "head" and variant.is_plain and variant.has_equal_heads and name == "log_decay":
            # Queries' and keys' gradients have roundings of their own.
            gradients = without_own_tokens(torch, variant, leaves, dict(zip(made, expected)), dout.cpu().double())
            allowed += unit * bound_decay_gradient(torch, variant, leaves, gradients)
        if variant.beta and name == "beta":
            # Rows times their gradients are added up, and terms cancel.
            allowed += unit * sum((leaves[of] * expected[i]).norm() for i, of in enumerate(("query", "key", "value")))
        own = ((made[name].double() - exact).norm() / (allowed + 1e-30)).item()
        error, worst = max((error, worst), (own, name))
    message = describe_error(error)
    return message and f"{message}, {worst}"


def run_continued(torch, function, variant, lengths):
    """Calls of parts of a sequence that pass on the state, compared with f64."""
    tokens = sum(lengths)
    inputs = make_inputs(torch, variant, 1, tokens)
    outputs = make_outputs(torch, variant, inputs)
    state, first = inputs["initial_state"], 0
    for length in lengths:
        def cut(name, tensor):
            return tensor[:, :, first : first + length] if name != "initial_state" and tensor.dim() > 1 else tensor

        part = {name: cut(name, tensor) for name, tensor in inputs.items()}
        part["initial_state"] = state
        for name in {"log_decay", "beta"} & set(part):
            part[name] = part[name].contiguous()
        after = torch.full_like(state, math.nan)
        call_function(torch, function, variant, part, [cut("out", outputs[0]), after])
        state, first = after, first + length
    torch.cuda.synchronize()
    (out, sums), (last, last_sums) = compute_reference(torch, variant, inputs)
    of_outputs, of_states = (max(count, 1.2) * variant.rounding for count in count_roundings(variant))
    error = max(find_error(torch, outputs[0], out, sums, of_outputs),
                find_error(torch, state, last, last_sums, of_states))  # fmt: skip
    return describe_error(error)


def run_same(torch, function, variant):
    """Two calls give the same bits."""
    inputs = make_inputs(torch, variant, variant.most_batch, variant.tokens or 500)
    results = []
    for _ in range(2):
        outputs = make_outputs(torch, variant, inputs)
        call_function(torch, function, variant, inputs, outputs)
        torch.cuda.synchronize()
        results.append(outputs)
    return None if all(map(torch.equal, *results)) else "two calls give different results"


def run_bad(torch, function, variant, runtime, value, tokens=70):
    """A positive log-decay is reported by the next call."""
    inputs = make_inputs(torch, variant, 1, tokens)
    inputs["log_decay"].view(-1)[-1] = value
    call_function(torch, function, variant, inputs, make_outputs(torch, variant, inputs))
    torch.cuda.synchronize()
    if runtime.attnrtTakeFault(1) != 1 or runtime.attnrtTakeFault(1) != 0:
        return "not reported once"
    return None


def run_bad_boundaries(torch, function, variant, runtime, tokens, boundaries=None, wrong=None, states=None):
    """Wrong boundaries of sequences, given ones or a `wrong` one among others, or wrong boundaries for a number of
    states, are reported by the next call."""
    inputs = make_inputs(torch, variant, 1, tokens)
    if boundaries:
        inputs["sequences"] = torch.tensor(boundaries, dtype=torch.int32, device="cuda")
        if variant.state:
            number = states or len(boundaries) - 1
            inputs["initial_state"] = inputs["initial_state"][:number].contiguous()
    else:
        inputs["sequences"][wrong[0]] += wrong[1]
    call_function(torch, function, variant, inputs, make_outputs(torch, variant, inputs))
    torch.cuda.synchronize()
    if runtime.attnrtTakeFault(1) != 1 or runtime.attnrtTakeFault(1) != 0:
        return "not reported once"
    return None


def make_cases_of_boundaries(torch, function, variant, runtime):
    """Wrong boundaries, and sequences of one token; few tokens have a kernel of their own."""
    run = partial(run_bad_boundaries, torch, function, variant, runtime)
    for boundaries in BAD_BOUNDARIES:
        yield f"{variant} bad {boundaries}", partial(run, 70, boundaries)
    if not variant.state:
        return
    yield f"{variant} bad number", partial(run, 20, [0, 20], states=2)
    for tokens in (70, 40):
        for wrong in WRONG_BOUNDARIES:
            yield f"{variant} bad {wrong} {tokens}", partial(run, tokens, wrong=wrong)
    for number in (1, 64):
        yield (f"{variant} {number} steps",
               partial(run_case, torch, function, variant, 1, number, boundaries=range(number + 1)))  # fmt: skip


def make_slow_cases(torch, function, variant, run, shapes):
    """Long sequences that forget little, of one head, which work items split."""
    for batch, tokens in shapes if variant.heads == 1 and not variant.tokens else ():
        value, beta = SLOW_DECAY if variant.decay else None, SLOW_BETA if variant.beta else None
        yield (f"{variant} {batch}x{tokens} slow",
               partial(run, torch, function, variant, batch, tokens, value, beta))  # fmt: skip


def make_cases(torch, options, variants):
    runtime = ctypes.CDLL(options.runtime)
    for variant in variants:
        function = load(options, variant.name, "linear_attention_grad" if variant.passes else "linear_attention")
        run = run_gradient if variant.gradient else run_case
        if options.sanitizer_subset:
            yield f"{variant}", partial(run, torch, function, variant, variant.most_batch, variant.tokens or 150)
            continue
        batch, tokens = variant.most_batch, variant.tokens or 200
        for beta in BETAS if variant.beta else ():
            yield f"{variant} beta {beta}", partial(run, torch, function, variant, batch, tokens, None, beta)
        if variant.gradient:
            for batch, tokens in limit_batches(variant, GRADIENT_SHAPES):
                yield f"{variant} {batch}x{tokens}", partial(run, torch, function, variant, batch, tokens)
            for value in EXTREME if variant.decay else ():
                yield f"{variant} {value}", partial(run, torch, function, variant, 1, 200, value)
            yield from make_slow_cases(torch, function, variant, run, LONG_GRADIENT_SHAPES)
            continue
        yield from make_slow_cases(torch, function, variant, run, LONG_SHAPES)
        shapes = SHAPES + (LONG_SHAPES if variant.heads == 1 else [])
        if variant.tokens:
            shapes = [(batch, variant.tokens) for batch in STATIC_BATCHES]
        for batch, tokens in limit_batches(variant, shapes):
            yield f"{variant} {batch}x{tokens}", partial(run_case, torch, function, variant, batch, tokens)
        yield f"{variant} same", partial(run_same, torch, function, variant)
        if variant.state and variant.causal and not (variant.key_lengths or variant.sequences):
            lengths = [variant.tokens] * 5 if variant.tokens else [1, 63, 200, 3, 8, 64, 130]
            yield f"{variant} continued", partial(run_continued, torch, function, variant, lengths)
        if variant.sequences and not variant.tokens:
            yield from make_cases_of_boundaries(torch, function, variant, runtime)
        if not variant.decay:
            continue
        for value in EXTREME:
            yield f"{variant} {value}", partial(run_case, torch, function, variant, 1, variant.tokens or 300, value)
        # Log-decays after `key_lengths` are not read.
        for value in () if variant.key_lengths else (1e-6, math.inf, math.nan):
            for tokens in (variant.tokens,) if variant.tokens else (70, 5):
                yield (f"{variant} bad {value} {tokens}",
                       partial(run_bad, torch, function, variant, runtime, value, tokens))  # fmt: skip


if __name__ == "__main__":
    sys.exit(run_subset_suite(__doc__, VARIANTS, compile_artifacts, make_cases))
