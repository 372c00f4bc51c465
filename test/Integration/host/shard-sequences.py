# ===- shard-sequences.py - Packed sequences of several ranks on the host ---===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# As shard-attention.py, whose parts it uses, with packed sequences: functions of threads that are ranks, against the
# formula of each sequence, and of its gradients, in f64. Rows of no sequence are no numbers, must not matter, and keep
# what destinations hold there. Ranks send as many bytes as the mask and the method need. Boundaries that are not valid
# are reported. With --random, as many random masks, boundaries, methods and numbers of ranks follow, which depend on
# --seed.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --work %t --runtime %attn_libs_dir/libattn_runtime%shlibext --random 8
# RUN: %if mpi %{ %mpirun -n 4 %python %s --work %t --runtime %attn_libs_dir/libattn_runtime%shlibext --mpi %}

import argparse
import copy
import importlib
import os
import sys
import zlib
from functools import partial

import numpy as np

shard = importlib.import_module("shard-attention")
shard.BATCH = 1  # All sequences are in one batch entry.
ALONE, WITH_ATTENTION, HEADS, DIM, VALUE_DIM = (
    shard.ALONE, shard.WITH_ATTENTION, shard.HEADS, shard.DIM, shard.VALUE_DIM)  # fmt: skip
# The methods that take packed sequences.
METHODS = ("ring", "zigzag", "striped", "lightseq", "allgather", "ulysses", *shard.GROUPS, shard.SEGMENTS)
KEPT = 7  # in destinations
LENGTH = 192

# Empty sequences, several in one chunk, one that is longer than a chunk, and rows of no sequence at both ends.
MIXED = [2, 7, 7, 60, 61, 150, 180]
LONG = [0, 192]
SHORT = list(range(0, 193, 8))
# Sequences that are shorter than there are ranks.
TINY = [3, 4, 6, 6, 7, 10, 12, 90, 91, 190, 191]
# Of queries and of keys: none of one or both of them, and more of the ones or of the others.
OTHER_QUERIES, OTHER_KEYS = [0, 30, 30, 100, 101, 170, 170], [4, 10, 60, 60, 190, 230, 230]


class Case(shard.Case):
    """`attended` is a function of arrays of positions within sequences, of which `b` is the number, and of the number
    of their keys minus the number of their queries. `reaches` says which rows of keys a row of queries may attend to,
    wherever sequences begin. `score_mod` makes %x of %s: the score times `factor` plus `added` of the same arrays.
    `score_grad` makes %dx of %ds."""

    has_halo = False

    def __init__(self, name, mask="", attended=None, boundaries=MIXED, key_boundaries=None, reaches=None, score_mod="",
                 factor=None, added=None, score_grad="", **others):  # fmt: skip
        super().__init__(name, mask, attended, **{"queries": LENGTH, "keys": LENGTH, **others})
        self.boundaries, self.has_same = boundaries, key_boundaries is None
        self.key_boundaries = boundaries if self.has_same else key_boundaries
        self.reaches, self.score_mod, self.score_grad = reaches, score_mod, score_grad
        self.factor = factor or (lambda b, h, i, j: 1.0)
        self.added = added or (lambda b, h, i, j: 0.0)

    def sequences(self):
        """The number of each sequence and the slices of its queries and its keys."""
        pairs = [list(map(slice, x, x[1:])) for x in (self.boundaries, self.key_boundaries)]
        return zip(range(len(pairs[0])), *pairs)

    def differentiate(self, gradient):
        # The gradient alone is written with destinations that have contents.
        return super().differentiate(gradient) if gradient == WITH_ATTENTION else ["--attn-derive-score-grad"]

    def types(self):
        """The types of all arguments in their order."""
        queries, keys = ("?", "?") if self.dynamic else (self.queries, self.keys)
        q, rows = f"tensor<1x{HEADS}x{queries}x{DIM}x{self.dtype}>", f"tensor<1x{HEADS}x{queries}xf32>"
        k, v = (f"tensor<1x{heads}x{keys}x{dim}x{self.dtype}>"
                for heads, dim in ((self.key_heads, DIM), (self.value_heads, VALUE_DIM)))  # fmt: skip
        out = f"tensor<1x{HEADS}x{queries}x{VALUE_DIM}x{self.dtype}>"
        return {"q": q, "k": k, "v": v, "out": out, "lse": rows, "dout": out, "dlse": rows, "dq": q, "dk": k, "dv": v,
                "cu_q": "tensor<?xi32>", "cu_k": "tensor<?xi32>", "sinks": f"tensor<{HEADS}xf32>",
                "bias": f"tensor<?x{HEADS}xf32>", "seed": "tensor<i64>", "offset": "tensor<i64>"}  # fmt: skip

    def names(self, gradient):
        """The operands and the destinations of the function."""
        lse = ["lse"] * self.has_lse
        tail = ["sinks"] * (self.sinks and gradient != ALONE) + ["cu_q"] + ["cu_k"] * (not self.has_same)
        tail += ["bias"] * self.bias + ["seed", "offset"] * bool(self.dropout)
        if gradient is None:
            return ["q", "k", "v"], ["out", *lse], tail
        if gradient == WITH_ATTENTION:
            return ["q", "k", "v"], [], tail
        return ["q", "k", "v", "out", "lse", "dout"] + ["dlse"] * self.has_lse, ["dq", "dk", "dv"], tail

    def clauses(self, gradient):
        cu_k = "cu_q" if self.has_same else "cu_k"
        text = f" sinks(%sinks : tensor<{HEADS}xf32>)" if self.sinks and gradient != ALONE else ""
        text += f" sequences packed(%cu_q, %{cu_k} : tensor<?xi32>, tensor<?xi32>)"
        text += f" mask({self.mask})" if self.mask else ""
        if self.dropout:
            text += f" dropout({self.dropout}, %seed, %offset : tensor<i64>, tensor<i64>)"
        score_mod = self.score_mod
        if self.bias:
            score_mod += f"""
        %y = tensor.extract %bias[%b, %h] : {self.types()["bias"]}
        %x = arith.addf %s, %y : f32"""
        if score_mod:
            text += f"""
      score_mod {{
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        {score_mod}
        attn.yield %x : f32
      }}"""
        if self.mask_mod:
            text += f"""
      mask_mod {{
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        {self.mask_mod}
        attn.yield %kept : i1
      }}"""
        if self.score_grad and gradient == ALONE:
            text += f"""
      score_mod_grad {{
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index):
        {self.score_grad}
        attn.yield %dx : f32
      }}"""
        return text

    def mlir(self, gradient=None):
        types = self.types()
        inputs, destinations, tail = self.names(gradient)
        arguments = ", ".join(f"%{name}: {types[name]}" for name in inputs + destinations + tail)
        names = destinations or ["out"] + ["lse"] * self.has_lse
        outs, listed = ", ".join(f"%{name}" for name in names), ", ".join(types[name] for name in names)
        name = shard.FUNCTIONS[gradient if gradient == ALONE else None]
        op = "attn.attention_grad" if gradient == ALONE else "attn.attention"
        ins = f"{', '.join(f'%{name}' for name in inputs)} : {', '.join(types[name] for name in inputs)}"
        several = len(names) > 1
        values = ", ".join(f"%0#{number}" for number in range(len(names))) if several else "%0"
        return f"""
func.func @{name}({arguments}) -> ({listed}) {{
  {"" if destinations else self.destinations(types)}
  %0{f":{len(names)}" if several else ""} = {op} ins({ins})
      outs({outs} : {listed}){self.clauses(gradient)} -> {listed}
  return {values} : {listed}
}}
"""


class Inputs(shard.Inputs):
    """Inputs, and the results and perhaps the gradients of all sequences in f64."""

    def __init__(self, case, seed, gradient=None, has_reference=True):
        rng = np.random.default_rng(seed)
        self.case = case
        inside = [np.zeros(case.queries, bool), np.zeros(case.keys, bool)]
        for _, *rows in case.sequences():
            for of, where in zip(inside, rows):
                of[where] = True
        self.inside = dict(zip(("q", "k"), inside))

        def draw(side, *shape):
            values = case.storage.round(rng.standard_normal(shape).astype(np.float32))
            # What belongs to no sequence must not matter.
            values[:, :, ~self.inside[side]] = np.nan
            return values

        self.q = draw("q", 1, HEADS, case.queries, DIM)
        self.k = draw("k", 1, case.key_heads, case.keys, DIM)
        self.v = draw("k", 1, case.value_heads, case.keys, VALUE_DIM)
        self.dout, self.dlse = draw("q", *self.q.shape[:3], VALUE_DIM), draw("q", *self.q.shape[:3])
        self.sinks = rng.standard_normal(HEADS).astype(np.float32)
        self.bias = rng.standard_normal((len(case.boundaries) - 1, HEADS)).astype(np.float32)
        if has_reference:
            self.compute(gradient)

    def compute(self, gradient):
        case = self.case
        like = {"out": (HEADS, case.queries, VALUE_DIM), "lse": (HEADS, case.queries), "dq": (HEADS, case.queries, DIM),
                "dk": (case.key_heads, case.keys, DIM), "dv": (case.value_heads, case.keys, VALUE_DIM)}  # fmt: skip
        self.expected = {name: np.full((1, *shape), np.nan) for name, shape in like.items()}
        self.expected["dsinks"], self.magnitudes = np.zeros(HEADS), {"dsinks": np.zeros(HEADS)}
        for number, queries, keys in case.sequences():
            part = Part(self, number, queries, keys)
            for name, rows in (("out", queries), ("lse", queries), ("dq", queries), ("dk", keys), ("dv", keys)):
                if name in part.expected:
                    self.expected[name][:, :, rows] = part.expected[name]
            if gradient:
                self.expected["dsinks"] += part.expected["dsinks"]
                self.magnitudes["dsinks"] += part.magnitudes["dsinks"]

    def arguments(self, part, key_part, gradient=None):
        case, store = self.case, self.case.storage.store
        values = {"q": store(self.q[:, :, part]), "k": store(self.k[:, :, key_part]),
                  "v": store(self.v[:, :, key_part]), "dout": store(self.dout[:, :, part]),
                  "dlse": self.dlse[:, :, part].copy(), "cu_q": np.array(case.boundaries, np.int32),
                  "cu_k": np.array(case.key_boundaries, np.int32), "sinks": self.sinks,
                  "bias": self.bias, "seed": np.array(shard.SEED), "offset": np.array(shard.OFFSET)}  # fmt: skip
        out = (1, HEADS, values["q"].shape[2], VALUE_DIM)
        new = {name: store(np.full(values[name[1:]].shape, KEPT, np.float32)) for name in ("dq", "dk", "dv")}
        new |= {"out": store(np.full(out, KEPT, np.float32)), "lse": np.full(out[:3], KEPT, np.float32)}
        new["dsinks"] = np.full(HEADS, np.nan, np.float32)
        inputs, destinations, tail = case.names(gradient)
        if gradient == ALONE:
            for name in ("out", "lse"):
                rows = np.ascontiguousarray(self.expected[name][:, :, part], np.float32)
                values[name] = store(rows) if name == "out" else rows
        if gradient == WITH_ATTENTION:
            tail = tail + ["dout"] + ["dlse"] * case.has_lse
            results = ["out"] + ["lse"] * case.has_lse + ["dq", "dk", "dv"] + ["dsinks"] * case.sinks
            return [values[name] for name in inputs + tail] + [new[name] for name in results], {
                name: new[name] for name in results}  # fmt: skip
        found = {name: new[name] for name in destinations}
        return [(values | found)[name] for name in inputs + destinations + tail], found


class Part(shard.Inputs):
    """A sequence as the only one."""

    def __init__(self, inputs, number, queries, keys):
        self.inputs, self.number = inputs, number
        self.case = copy.copy(inputs.case)
        self.case.queries, self.case.keys = queries.stop - queries.start, keys.stop - keys.start
        self.case.attended = lambda b, *others: inputs.case.attended(b + number, *others)
        self.q, self.dout, self.dlse = (x[:, :, queries] for x in (inputs.q, inputs.dout, inputs.dlse))
        self.k, self.v, self.sinks = inputs.k[:, :, keys], inputs.v[:, :, keys], inputs.sinks
        self.at = np.ix_([number], range(HEADS), range(self.case.queries), range(self.case.keys))
        self.compute(gradient=ALONE)

    def at_pairs(self, at):
        return self.at

    def modify_score(self, score):
        case = self.case
        if case.bias:
            score = score + self.inputs.bias[self.number][:, None, None]
        return score * case.factor(*self.at) + case.added(*self.at)

    def modify_score_grad(self, grad):
        return grad * self.case.factor(*self.at)


class Tester(shard.Tester):
    def check_case(self, case, method, ranks, gradient=None):
        # Of several processes, one compares.
        compares = not self.world or self.world.rank == 0
        inputs = Inputs(case, ranks, gradient, has_reference=compares or gradient == ALONE)
        function = self.shard(case, method, ranks, gradient)
        group = self.group(ranks)
        statuses, found = self.run(function, inputs, method, group, gradient)
        traffic = group.traffic()
        group.destroy()
        if not compares:
            return []
        wrong = [text for status, text in statuses if status]
        for name, result in found.items():
            wrong += self.compare(inputs, name, result, gradient)
        if case.reaches and not case.dynamic:
            at = np.ix_(range(1), range(1), range(case.queries), range(case.keys))
            inputs.attended = np.broadcast_to(case.reaches(*at[2:]), (1, 1, case.queries, case.keys))
            wrong += self.check_traffic(inputs, method, group, gradient, traffic)
        return wrong

    @staticmethod
    def compare(inputs, name, result, gradient):
        """What is wrong with a result."""
        expected, wrong = inputs.expected[name], []
        if name != "dsinks":
            inside = inputs.inside["k" if name in ("dk", "dv") else "q"]
            # New destinations have no contents.
            if gradient != WITH_ATTENTION or name in ("out", "lse"):
                changed = (result[:, :, ~inside] != KEPT).sum()
                if changed and gradient != WITH_ATTENTION:
                    wrong.append(f"{name}: {changed} elements of no sequence have changed")
            expected, result = expected[:, :, inside], result[:, :, inside]
        with np.errstate(invalid="ignore"):
            errors = np.where(result == expected, 0, np.abs(result - expected))
        magnitude = np.where(np.isinf(expected), 1, np.abs(expected))
        if name == "dsinks":
            magnitude = inputs.magnitudes[name]
        error = (errors / np.maximum(1, magnitude)).max(initial=0)
        return wrong if error <= inputs.tolerance(name) else wrong + [f"{name}: error {error:.2g}"]

    def check_invalid(self, method, ranks):
        """Boundaries that are not sorted, or out of bounds, are errors of some rank."""
        wrong = []
        for boundaries in ([0, 100, 50, 192], [0, 20, 193], [-1, 20, 192], [0, 20, 2**31 - 1], [-(2**31), 192]):
            case = Case("invalid", "#attn.causal", shard.causal)
            inputs, function = Inputs(case, 1, has_reference=False), self.shard(case, method, ranks)
            case.boundaries = case.key_boundaries = boundaries
            group = self.group(ranks)
            statuses, _ = self.run(function, inputs, method, group)
            group.destroy()
            if not any(status for status, _ in statuses):
                wrong.append(f"{boundaries} are not reported")
        return wrong


same_rows = lambda i, j: (i >= 0) & (j >= 0)
earlier = lambda i, j: j <= i
# Falls with the distance, by the head, and grows with the number of the sequence.
ALIBI = """%d = arith.subi %j, %i : index
        %h1 = arith.addi %h, %b : index
        %dh = arith.muli %d, %h1 : index
        %di = arith.index_cast %dh : index to i32
        %df = arith.sitofp %di : i32 to f32
        %c = arith.constant 0.0078125 : f32
        %z = arith.mulf %df, %c : f32"""
alibi = lambda b, h, i, j: (j - i) * (h + b) / 128.0
ONE = """
        %one = arith.constant 1.0 : f32
        %f = arith.addf %z, %one : f32"""
OTHER = {"boundaries": OTHER_QUERIES, "key_boundaries": OTHER_KEYS, "keys": 240}


def window(left, right):
    return {
        "mask": f"#attn.sliding_window<left = {left}, right = {right}>",
        "attended": lambda b, h, i, j, shift: (j >= i + shift - left) & (j <= i + shift + right),
    }


CASES = [
    Case("none", reaches=same_rows, has_lse=False),
    Case("none_long", boundaries=LONG, reaches=same_rows),
    Case("none_other", **OTHER, reaches=same_rows),
    Case("causal", "#attn.causal", shard.causal, reaches=earlier),
    Case("causal_long", "#attn.causal", shard.causal, boundaries=LONG, reaches=earlier),
    Case("causal_short", "#attn.causal", shard.causal, boundaries=SHORT, reaches=earlier, has_lse=False),
    Case("causal_empty", "#attn.causal", shard.causal, boundaries=[50, 50, 50], reaches=earlier),
    Case("no_sequences", "#attn.causal", shard.causal, boundaries=[50], reaches=earlier),
    Case("top_left", "#attn.causal<alignment = top_left>", lambda b, h, i, j, shift: j <= i, reaches=earlier),
    Case("causal_other", "#attn.causal", shard.causal, **OTHER),
    Case("top_left_other", "#attn.causal<alignment = top_left>", lambda b, h, i, j, shift: j <= i, **OTHER),
    # The same boundaries of tensors with rows of no sequence of other numbers.
    Case("causal_lengths", "#attn.causal", shard.causal, keys=240),
    Case("dynamic", "#attn.causal", shard.causal, dynamic=True),
    Case("dynamic_other", **window(20, 10), **OTHER, dynamic=True),
    Case("window", **window(40, 0), reaches=lambda i, j: (j <= i) & (j >= i - 40), sinks=True, has_lse=False),
    Case("two_sided", **window(10, 30), reaches=lambda i, j: (j <= i + 30) & (j >= i - 10)),
    Case("window_long", **window(20, 0), boundaries=LONG, reaches=lambda i, j: (j <= i) & (j >= i - 20)),
    Case("window_other", **window(20, 10), **OTHER),
    Case("diagonal", **window(0, 0), reaches=lambda i, j: i == j),
    Case("prefix", "#attn.prefix_lm<length = 20>", lambda b, h, i, j, shift: (j < 20) | (j <= i + shift)),
    Case("blocks", "#attn.local_blocks<size = 16, before = 1, after = 0>",
         lambda b, h, i, j, shift: ((i + shift) // 16 - 1 <= j // 16) & (j // 16 <= (i + shift) // 16)),
    Case("global", "#attn.or<#attn.global_tokens<count = 8>, #attn.sliding_window<left = 30, right = 0>>",
         lambda b, h, i, j, shift: (i < 8) | (j < 8) | ((j >= i + shift - 30) & (j <= i + shift))),
    Case("mask_mod", "#attn.causal", lambda b, h, i, j, shift: (j <= i + shift) & ((i + j + h) % 3 != 0),
         mask_mod=shard.DIAGONALS),
    Case("mask_mod_other", "", lambda b, h, i, j, shift: (i + j + h) % 3 != 0, mask_mod=shard.DIAGONALS, **OTHER),
    Case("alibi", "#attn.causal", shard.causal, score_mod=ALIBI + "\n        %x = arith.addf %s, %z : f32",
         added=alibi),
    Case("alibi_none", score_mod=ALIBI + "\n        %x = arith.addf %s, %z : f32", added=alibi, **OTHER),
    Case("scaled", "#attn.causal", shard.causal, score_mod=ALIBI + ONE + "\n        %x = arith.mulf %s, %f : f32",
         score_grad=ALIBI + ONE + "\n        %dx = arith.mulf %ds, %f : f32",
         factor=lambda *at: 1 + alibi(*at)),
    # Numbers of sequences stay as they are.
    Case("bias", "#attn.causal", shard.causal, bias=True, reaches=earlier),
    Case("sinks", "#attn.causal", shard.causal, sinks=True, reaches=earlier),
    Case("sinks_other", **OTHER, sinks=True),
    Case("heads", "#attn.causal", shard.causal, key_heads=HEADS),
    Case("one_head", **window(50, 0), key_heads=1, bias=True),
    Case("value_heads", "#attn.causal", shard.causal, key_heads=1, value_heads=HEADS),
    Case("bf16", "#attn.causal", shard.causal, dtype="bf16", reaches=earlier),
    Case("f16", **window(60, 5), dtype="f16", has_lse=False),
    Case("deterministic", "#attn.causal", shard.causal, deterministic=True),
    Case("causal_tiny", "#attn.causal", shard.causal, boundaries=TINY, reaches=earlier),
    # Bands that have rows of other ranks on one side of the diagonal alone.
    Case("narrow", **window(1, 30), boundaries=TINY, reaches=lambda i, j: (j <= i + 30) & (j >= i - 1)),
    Case("narrow_alibi", **window(1, 0), score_mod=ALIBI + "\n        %x = arith.addf %s, %z : f32", added=alibi,
         reaches=lambda i, j: (j <= i) & (j >= i - 1)),
    # Random numbers depend on the number of the sequence and on positions within it.
    Case("dropout", "#attn.causal", shard.causal, dropout=shard.Dropout(0.25, "philox", 7)),
    Case("dropout_other", **OTHER, dropout=shard.Dropout(0.5, "arx", 6, bits=4), sinks=True),
    Case("dropout_alibi", "#attn.causal", shard.causal, boundaries=SHORT, key_heads=1, added=alibi,
         score_mod=ALIBI + "\n        %x = arith.addf %s, %z : f32", dropout=shard.Dropout(0.25, "threefry", 20)),
]  # fmt: skip


class RandomCases(shard.RandomCases):
    """Cases with a method and a number of ranks, which follow from a seed."""

    def boundaries(self, rows, count):
        cuts = sorted(self.rng.choice([self.rng.randint(0, rows), 0, rows]) for _ in range(count + 1))
        return cuts

    def make(self, number):
        case, method, ranks, gradient = super().make(number)
        gradient = None if method == shard.SEGMENTS else gradient
        count = self.rng.randint(1, 7)
        queries, keys = case.queries, case.keys
        is_same = self.rng.random() < 0.5
        if is_same:
            keys = queries
        random = Case(f"sequences_{case.name}", case.mask, case.attended, self.boundaries(queries, count),
                      None if is_same else self.boundaries(keys, count), queries=queries, keys=keys,
                      mask_mod=case.mask_mod, bias=case.bias, sinks=case.sinks, dtype=case.dtype, dynamic=case.dynamic,
                      has_lse=case.has_lse, dropout=case.dropout if method == "ulysses" else None)  # fmt: skip
        return random, method, ranks, gradient


def make_checks(tester, method, has_gradients):
    """The checks of a method with their names and numbers of ranks. Functions take long to compile: most cases have a
    ring and one other method."""
    kinds = (None, ALONE, WITH_ATTENTION) if has_gradients else (None,)
    others, in_steps = ("zigzag", "allgather", "ulysses", "usp2", shard.SEGMENTS), ("striped", "lightseq")
    for number, case in enumerate(CASES):
        # Chunks of zigzag are slices, whose lengths must be static.
        if method in ("zigzag", *shard.GROUPS) and case.dynamic:
            continue
        if case.dropout:
            # Rows of a rank begin where no word of a keep mask does, unless it has all rows.
            for ranks in {"ulysses": (1, 2, 4), "ring": (1,)}.get(method, ()):
                kind = kinds[(number + ranks) % len(kinds)]
                kind = WITH_ATTENTION if kind == ALONE and case.sinks else kind
                yield f"{case.name} {ranks} {kind or ''}", ranks, partial(tester.check_case, case, method, ranks, kind)
            continue
        is_first = case.name in ("causal", "causal_other")
        if not is_first and method in others and method != others[number % 5]:
            continue
        if not is_first and method in in_steps and method != in_steps[number // 2 % 2]:
            continue
        # The larger group has cases whose heads matter, on two groups.
        if method == "usp4" and case.name not in ("causal", "window_other", "bias", "heads", "value_heads"):
            continue
        usual = ((4, 2)[number % 2],) if method == "ulysses" else ((4, 2, 3)[number % 3],)
        if case.name == "causal":
            usual = (1, 2, 4) if method == "ulysses" else (1, 2, 3, 4)
        if method in shard.GROUPS:
            usual = (8,) if method == "usp4" else (2, 4, 6, 8) if case.name == "causal" else ((4, 8)[number % 2],)
        for ranks in usual:
            kind = kinds[(number + ranks + len(method)) % len(kinds)]
            if kind == ALONE and case.sinks:
                kind = WITH_ATTENTION
            yield f"{case.name} {ranks} {kind or ''}", ranks, partial(tester.check_case, case, method, ranks, kind)
    if not tester.world and method != "usp4":
        yield "invalid 4", 4, partial(tester.check_invalid, method, 4)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True, help="folder for what is compiled")
    parser.add_argument("--runtime", required=True, help="the runtime library")
    parser.add_argument("--only", default="", help="run checks whose name contains this")
    parser.add_argument("--random", type=int, default=0, help="number of random cases")
    parser.add_argument("--seed", type=int, default=1, help="where random cases begin")
    parser.add_argument("--mpi", action="store_true", help="run with the processes of mpirun, and all checks for them")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run one of N checks, always the same ones")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    tester = Tester(args)
    checks = {}
    for method in METHODS:
        for name, ranks, check in make_checks(tester, method, has_gradients=method != shard.SEGMENTS):
            if not tester.world or ranks == tester.world.ranks:
                checks[f"{name} {method}"] = check
    cases = RandomCases(args.seed, METHODS)
    for number in range(args.random):
        case, method, ranks, gradient = cases.make(number)
        checks[f"{case.name} {method} {ranks} {gradient or ''}"] = partial(
            tester.check_case, case, method, ranks, gradient)  # fmt: skip
    failures, count = 0, 0
    for name, check in checks.items():
        if args.only not in name or zlib.crc32(name.encode()) % args.every:
            continue
        wrong, count = check(), count + 1
        failures += bool(wrong)
        for message in wrong:
            print(f"{name}: {message}")
    if not tester.world or tester.world.rank == 0:
        print(f"{count} checks, {failures} failures")
    return failures != 0 or count == 0


if __name__ == "__main__":
    sys.exit(main())
