# ===- shard-linear-attention.py - Linear attention of several ranks --------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Functions that attn-shard-attention makes of linear attention and its gradient, called by threads that are the ranks
# of a local group, against the recurrence over all tokens in f64. Ranks send states, so as many bytes for any length.
# States are the same on all ranks, bit for bit. Feature maps, normalizers and masks are around the same reference;
# their gradients are by the chain rule. With --random, as many random cases follow, which depend on --seed.
#
# With --mpi, the ranks are the processes that mpirun has started: the same functions, which the run before has
# compiled, must give the same results by the same number of bytes.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --work %t --runtime %attn_libs_dir/libattn_runtime%shlibext --random 6
# RUN: %if mpi %{ %mpirun -n 4 %python %s --work %t --runtime %attn_libs_dir/libattn_runtime%shlibext --mpi %}
# RUN: %if mpi %{ %mpirun -n 2 %python %s --work %t --runtime %attn_libs_dir/libattn_runtime%shlibext --mpi %}

import argparse
import importlib.util
import os
import random
import sys
from functools import partial

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC = importlib.util.spec_from_file_location("shard_attention", os.path.join(HERE, "shard-attention.py"))
shard = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(shard)

BATCH = 2
FORWARD, GRADIENT, COMBINED = "forward", "gradient", "combined"
# A function of attn-differentiate has a name of its own.
NAMES = {FORWARD: "attention", GRADIENT: "attention", COMBINED: "attention_grad"}
RANKS = (1, 2, 3, 4, 6)
#: Log-decays by their kind: the dimensions of [B, H, S, Dk] that they have.
DECAYS = {"head": (1,), "token": (0, 1, 2), "element": (0, 1, 2, 3)}
#: Arguments that have no tokens.
STATES = ("initial", "final", "dinitial", "dfinal")
#: Arguments that are i32, the same on all ranks.
INDICES = ("lengths", "sequences")
EPS = 1e-2
#: Columns of values of a normalizer.
NORMALIZER_COLUMNS = 8


class Feature:
    """A feature map of rows: the element %r of an element %a in f32, as MLIR and as f64, and its derivative."""

    def __init__(self, body, apply, derivative):
        self.body, self.apply = body, apply
        self.pull_back = lambda x, y, dy: dy * derivative(x, y)

    def feature_dim(self, dim):
        return dim

    def rows(self, rows, dtype):
        wide = dtype == "f32"
        lines = [self.body]
        if not wide:
            lines = [f"%a = arith.extf %given : {dtype} to f32", *lines, f"%n = arith.truncf %r : f32 to {dtype}"]
        identity = "affine_map<(b, h, s, d) -> (b, h, s, d)>"
        return f"""%y = linalg.generic {{indexing_maps = [{identity}, {identity}],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]}} ins(%x : {rows}) outs(%e : {rows}) {{
      ^bb1(%{'a' if wide else 'given'}: {dtype}, %old: {dtype}):
        {chr(10).join(lines)}
        linalg.yield %{'r' if wide else 'n'} : {dtype}
      }} -> {rows}
      attn.linear_yield %y : {rows}"""


class Softmax(Feature):
    """A softmax over the elements of rows."""

    def __init__(self):
        self.apply = lambda x: (lambda e: e / e.sum(-1, keepdims=True))(np.exp(x - x.max(-1, keepdims=True)))
        self.pull_back = lambda x, y, dy: y * (dy - (y * dy).sum(-1, keepdims=True))

    def rows(self, rows, dtype):
        return f"""%y = linalg.softmax dimension(3) ins(%x : {rows}) outs(%e : {rows}) -> {rows}
      attn.linear_yield %y : {rows}"""


class Projected(Feature):
    """Exponentials of a projection, and of its negative, side by side; the matrix is an argument of the function."""

    FEATURES = 12

    def __init__(self):
        self.weight = None

    def feature_dim(self, dim):
        return 2 * self.FEATURES

    def apply(self, x):
        product = x @ self.weight
        return np.concatenate([np.exp(product), np.exp(-product)], -1)

    def pull_back(self, x, y, dy):
        both = y * dy
        dproduct = both[..., : self.FEATURES] - both[..., self.FEATURES :]
        self.dweight = self.dweight + np.einsum("bhsd,bhsm->dm", x, dproduct)
        return dproduct @ self.weight.T

    def rows(self, rows, dtype):
        dim = rows.split("x")[-2]
        part, both, weight = (rows.replace(f"x{dim}x", f"x{size}x") for size in (self.FEATURES, 2 * self.FEATURES, dim))
        weight = f"tensor<{dim}x{self.FEATURES}xf32>"
        maps = [f"affine_map<(b, h, s, m, d) -> {of}>" for of in ("(b, h, s, d)", "(d, m)", "(b, h, s, m)")]
        identity = "affine_map<(b, h, s, d) -> (b, h, s, d)>"
        exponential = lambda name, negate: f"""%{name} = linalg.generic {{indexing_maps = [{identity}, {identity}],
        iterator_types = ["parallel", "parallel", "parallel", "parallel"]}} ins(%p : {part}) outs(%f : {part}) {{
      ^bb1(%a: f32, %old: f32):
        %n = arith.negf %a : f32
        %r = math.exp %{'n' if negate else 'a'} : f32
        linalg.yield %r : f32
      }} -> {part}"""
        return f"""%f = tensor.empty(%s0, %s1, %s2) : {part}
      %zero = arith.constant 0.0 : f32
      %z = linalg.fill ins(%zero : f32) outs(%f : {part}) -> {part}
      %p = linalg.generic {{indexing_maps = [{', '.join(maps)}],
        iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}}
        ins(%x, %w : {rows}, {weight}) outs(%z : {part}) {{
      ^bb1(%a: f32, %c: f32, %sum: f32):
        %m = arith.mulf %a, %c : f32
        %t = arith.addf %sum, %m : f32
        linalg.yield %t : f32
      }} -> {part}
      {exponential("y0", False)}
      {exponential("y1", True)}
      %y = tensor.concat dim(3) %y0, %y1 : ({part}, {part}) -> {both}
      attn.linear_yield %y : {both}"""


# Rows are multiplied by the cosine of their position.
POSITION = """%i = linalg.index 2 : index
        %j = arith.index_cast %i : index to i32
        %t = arith.sitofp %j : i32 to f32
        %c = math.cos %t : f32
        %r = arith.mulf %a, %c : f32"""


def find_cosines(x):
    return np.cos(np.arange(x.shape[-2]))[:, None]


FEATURES = {
    "position": Feature(POSITION, lambda x: x * find_cosines(x), lambda x, y: find_cosines(x)),
    "exp": Feature("%r = math.exp %a : f32", np.exp, lambda x, y: y),
    "relu": Feature("""%o = arith.constant 0.0 : f32
        %r = arith.maximumf %a, %o : f32""", lambda x: np.maximum(x, 0), lambda x, y: x > 0),
    "elu": Feature("""%o = arith.constant 0.0 : f32
        %i = arith.constant 1.0 : f32
        %m = arith.minimumf %a, %o : f32
        %u = arith.addf %a, %i : f32
        %t = math.exp %m : f32
        %c = arith.cmpf ogt, %a, %o : f32
        %r = arith.select %c, %u, %t : f32""", lambda x: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))),
                   lambda x, y: np.where(x > 0, 1, y)),
    "softmax": Softmax(),
    "projected": Projected(),
}  # fmt: skip


class Case:
    #: Whether functions make destinations of results.
    makes_results = False

    def __init__(self, name, causal=True, decay=None, beta=False, initial=False, final=False, heads=2, key_heads=None,
                 value_heads=None, tokens=192, dims=(16, 24), dtype="f32", dynamic=False, kinds=(FORWARD, GRADIENT),
                 batch=BATCH):
        self.name, self.causal, self.decay, self.beta, self.kinds = name, causal, decay, beta, kinds
        self.batch = batch
        self.initial, self.final, self.dynamic, self.dtype, self.tokens = initial, final, dynamic, dtype, tokens
        self.heads, self.key_heads, self.value_heads = heads, key_heads or heads, value_heads or heads
        self.key_dim, self.value_dim = dims
        self.storage = shard.Storage(dtype)
        self.tolerance = {"f32": 3e-5, "bf16": 2**-6, "f16": 2**-9}[dtype]

    @property
    def state_shape(self):
        return self.batch, self.heads, self.key_dim, self.value_dim

    def further_shapes(self):
        """The shapes of arguments after the others of the forward function."""
        return {}

    def further_clauses(self):
        """Clauses before "causal", before the chunk, and behind it."""
        return "", "", ""

    def shapes(self, kind):
        """The shapes of all arguments but results by name."""
        rows = (self.batch, self.heads, self.tokens)
        shapes = {"q": (*rows, self.key_dim), "k": (self.batch, self.key_heads, self.tokens, self.key_dim),
                  "v": (self.batch, self.value_heads, self.tokens, self.value_dim)}  # fmt: skip
        if kind == GRADIENT:
            shapes["dout"] = (*rows, self.value_dim)
        if self.decay:
            shapes["g"] = tuple((*rows, self.state_shape[2])[dim] for dim in DECAYS[self.decay])
        if self.beta:
            shapes["b"] = rows
        if self.initial:
            shapes["initial"] = self.state_shape
        shapes.update(self.further_shapes())
        if kind == COMBINED:
            shapes["dout"] = (*rows, self.value_dim)
        if kind != FORWARD and self.final:
            shapes["dfinal"] = self.state_shape
        return shapes

    def differentiated(self):
        """The arguments that have gradients."""
        return ["q", "k", "v"] + ["g"] * bool(self.decay) + ["b"] * self.beta + ["initial"] * self.initial

    def results(self, kind):
        """The shapes of results."""
        shapes, results = self.shapes(kind), {}
        if kind != GRADIENT:
            results["out"] = (*shapes["q"][:3], self.value_dim)
            if self.final:
                results["final"] = self.state_shape
        if kind != FORWARD:
            results.update({f"d{name}": shapes[name] for name in self.differentiated()})
            if self.decay == "head" and kind == GRADIENT:
                results["dg"] = (self.batch, self.heads)
        return results

    def element(self, name):
        """The element type of an argument."""
        if name in INDICES:
            return "i32"
        return self.dtype if name.removeprefix("d") in ("q", "k", "v", "out") else "f32"

    def has_tokens(self, name, shape):
        return len(shape) > 2 and name not in STATES

    def type(self, name, shape):
        sizes = list(shape)
        if self.dynamic and (len(shape) > 2 or name in INDICES):
            sizes[0] = "?"
        if self.dynamic and len(shape) > 2:
            sizes[2] = "?" if self.has_tokens(name, shape) else shape[2]
        return f"tensor<{'x'.join(map(str, sizes))}x{self.element(name)}>"

    def mlir(self, kind):
        arguments = {name: self.type(name, shape) for name, shape in self.shapes(kind).items()}
        results = {name: self.type(name, shape) for name, shape in self.results(kind).items()}
        clauses = {"log_decay": "g", "beta": "b", "initial_state": "initial"}
        operands, outs = ["q", "k", "v"], ["out"] + ["final"] * self.final
        operation = "linear_attention"
        if kind == GRADIENT:
            operands, outs, operation = [*operands, "dout"], ["dq", "dk", "dv"], "linear_attention_grad"
            clauses.update(dfinal_state="dfinal", dlog_decay="dg", dbeta="db", dinitial_state="dinitial")
        else:
            arguments.pop("dout", None), arguments.pop("dfinal", None)
            results = {name: results[name] for name in outs}
        types = {**arguments, **results}
        list_of = lambda names: ", ".join(f"%{name}" for name in names) + " : " + ", ".join(types[n] for n in names)
        text = f"ins({list_of(operands)}) outs({list_of(outs)})"
        for clause, name in clauses.items():
            if name in types:
                text += f" {clause}({list_of([name])})"
        masks, clauses, feature = self.further_clauses()
        text += masks + " causal" * self.causal + clauses + " chunk(16)" + feature
        kinds = ", ".join(results.values())
        # Combined functions and ones with local blocks make destinations.
        makes_inits = kind == COMBINED or self.makes_results
        sizes = {"out": "%batch, %tokens", "final": "%batch"} if self.dynamic else {}
        inits = "" if not makes_inits else "\n  ".join([
            "%c0 = arith.constant 0 : index", "%c2 = arith.constant 2 : index",
            f"%batch = tensor.dim %q, %c0 : {types['q']}", f"%tokens = tensor.dim %q, %c2 : {types['q']}",
            *(f"%{name} = tensor.empty({sizes.get(name, '')}) : {kind}" for name, kind in results.items()),
        ])  # fmt: skip
        given = arguments if makes_inits else types
        values = ", ".join(f"%r#{i}" for i in range(len(results))) if len(results) > 1 else "%r"
        return f"""
func.func @attention({", ".join(f"%{name}: {kind}" for name, kind in given.items())}) -> ({kinds}) {{
  {inits}
  %r{f":{len(results)}" if len(results) > 1 else ""} = attn.{operation} {text} -> {kinds}
  return {values} : {kinds}
}}
"""

    def passes(self, kind, ranks):
        passes = []
        if kind == COMBINED:
            names = list(self.shapes(FORWARD))
            listed = ",".join(str(names.index(name)) for name in self.differentiated())
            passes += [f"--attn-differentiate=function=attention mode=combined arguments={listed}",
                       "--symbol-privatize=exclude=attention_grad", "--symbol-dce"]  # fmt: skip
        return [*passes, f"--attn-shard-attention=method=allgather ranks={ranks}"]

    def sent_bytes(self, kind, ranks):
        """The bytes that each rank sends, for any number of tokens."""
        if ranks == 1:
            return 0
        heads = self.batch * self.heads
        state = self.key_dim * self.value_dim
        of_decays = {"token": 1, "element": self.key_dim}.get(self.decay, 0)
        maps = state + (self.key_dim**2 if self.beta else of_decays)
        elements = maps
        if kind != FORWARD:
            elements += state + (self.decay == "head")
        # The gradient has repeated heads of keys or values, and the same decays.
        if kind == COMBINED and not self.heads == self.key_heads == self.value_heads:
            elements += maps if self.beta else state
        return 4 * (ranks - 1) * heads * elements


class Inputs:
    """Inputs, and the results of the recurrence over all tokens in f64."""

    def __init__(self, case, kind, seed):
        rng = np.random.default_rng(seed)
        self.case, self.kind, self.given = case, kind, {}
        for name, shape in case.shapes(kind).items():
            if name in INDICES:
                self.given[name] = np.array(case.indices(), np.int32)
                continue
            values = rng.standard_normal(shape).astype(np.float32)
            if name == "k":
                # The delta rule keeps states bounded for keys of length one.
                values /= np.linalg.norm(values, axis=-1, keepdims=True)
            if name == "b":
                values = 1 / (1 + np.exp(-values))
            if name == "g":
                # Heads forget little or much, down to nothing that is left.
                speed = np.array([0.01, 0.3, 3, 0.1])[np.arange(case.heads) % 4].astype(np.float32)
                values = -np.abs(values) * (speed if len(shape) == 1 else speed.reshape(1, -1, *[1] * (len(shape) - 2)))
                if len(shape) == 3:
                    values[0, 0, case.tokens // 2] = -200
            if case.element(name) != "f32":
                values = case.storage.round(values)
            self.given[name] = values.astype(np.float32)
        self.prepare()
        self.expected = self.compute()

    def prepare(self):
        """Changes inputs."""

    def compute(self):
        given = self.widen()
        expected = self.run(given, self.find_decays(given))
        return {**expected, **self.collect(expected)} if "dout" in given else expected

    def widen(self):
        """The inputs in f64, with as many heads of keys and values as of queries."""
        given = {name: array.astype(np.float64) for name, array in self.given.items() if name not in INDICES}
        given.update({name: given[name].repeat(self.case.heads // given[name].shape[1], 1) for name in ("k", "v")})
        return given

    def find_decays(self, given):
        """The factors of rows of states."""
        log_decay = np.zeros((*given["q"].shape[:3], self.case.state_shape[2]))
        if self.case.decay:
            g = np.maximum(given["g"], -126)
            log_decay += {1: lambda: g[:, None, None], 3: lambda: g[..., None], 4: lambda: g}[g.ndim]()
        return np.exp(log_decay)[..., None]

    def run(self, given, decay):
        """The output, the final state and gradients by the names of operands, of log-decays in the shape of keys."""
        case, q, k, v = self.case, given["q"], given["k"], given["v"]
        zero = np.zeros((*q.shape[:2], q.shape[3], v.shape[3]))
        first, scale = given.get("initial", zero), case.key_dim**-0.5
        if not case.causal:
            return self.run_full(q, k, v, given, first, scale)
        states, kept, residuals, updates = [first], [], [], []
        out = np.zeros((*q.shape[:3], v.shape[3]))
        for t in range(case.tokens):
            kept.append(decay[:, :, t] * states[-1])
            residuals.append(v[:, :, t] - np.einsum("bhij,bhi->bhj", kept[-1], k[:, :, t]) * case.beta)
            updates.append(residuals[-1] * (given["b"][:, :, t, None] if case.beta else 1))
            states.append(kept[-1] + np.einsum("bhi,bhj->bhij", k[:, :, t], updates[-1]))
            out[:, :, t] = scale * np.einsum("bhij,bhi->bhj", states[-1], q[:, :, t])
        expected = {"out": out, "final": states[-1]}
        if "dout" not in given:
            return expected
        grads = {name: np.zeros_like(x) for name, x in (("q", q), ("k", k), ("v", v), ("g", q))}
        grads["b"], dstate = np.zeros(q.shape[:3]), given.get("dfinal", zero)
        for t in reversed(range(case.tokens)):
            dout, key = scale * given["dout"][:, :, t], k[:, :, t]
            grads["q"][:, :, t] = np.einsum("bhij,bhj->bhi", states[t + 1], dout)
            dstate = dstate + np.einsum("bhi,bhj->bhij", q[:, :, t], dout)
            grads["k"][:, :, t] = np.einsum("bhij,bhj->bhi", dstate, updates[t])
            dupdate = np.einsum("bhij,bhi->bhj", dstate, key)
            if case.beta:
                grads["b"][:, :, t] = (dupdate * residuals[t]).sum(-1)
                dupdate = dupdate * given["b"][:, :, t, None]
                grads["k"][:, :, t] -= np.einsum("bhij,bhj->bhi", kept[t], dupdate)
                dstate = dstate - np.einsum("bhi,bhj->bhij", key, dupdate)
            grads["v"][:, :, t] = dupdate
            grads["g"][:, :, t] = (dstate * kept[t]).sum(-1)
            dstate = decay[:, :, t] * dstate
        grads["initial"] = dstate
        return {**expected, **grads}

    def run_full(self, q, k, v, given, first, scale):
        last = first + np.einsum("bhti,bhtj->bhij", k, v)
        expected = {"out": scale * np.einsum("bhij,bhti->bhtj", last, q), "final": last}
        if "dout" not in given:
            return expected
        dout = scale * given["dout"]
        dstate = given.get("dfinal", np.zeros_like(first)) + np.einsum("bhti,bhtj->bhij", q, dout)
        grads = {"q": np.einsum("bhij,bhtj->bhti", last, dout), "k": np.einsum("bhij,bhtj->bhti", dstate, v),
                 "v": np.einsum("bhij,bhti->bhtj", dstate, k), "initial": dstate}  # fmt: skip
        return {**expected, **grads}

    def collect(self, expected):
        """Gradients in the shapes of the operands."""
        case = self.case
        grads = {name: expected[name] for name in expected if name not in ("out", "final")}
        for name, heads in (("k", case.key_heads), ("v", case.value_heads)):
            whole = grads[name]
            grads[name] = whole.reshape(case.batch, heads, case.heads // heads, *whole.shape[2:]).sum(2)
        if case.decay in ("head", "token"):
            grads["g"] = np.where(self.given["g"] < -126, 0, 1) * grads["g"].sum(-1) if case.decay == "token" else (
                grads["g"].sum((2, 3)))  # fmt: skip
            if case.decay == "head" and self.kind == COMBINED:
                grads["g"] = grads["g"].sum(0)
        return {f"d{name}": array for name, array in grads.items()}

    def arguments(self, rank, ranks):
        """The arguments of a rank, and its results by name, which are at first no numbers."""
        case = self.case

        def cut(name, array):
            if case.has_tokens(name, array.shape):
                array = array[:, :, shard.positions_of("allgather", rank, ranks, case.tokens)]
            stored = array if case.element(name) in ("f32", "i32") else case.storage.store(array)
            return np.ascontiguousarray(stored)

        arguments = [cut(name, array) for name, array in self.given.items()]
        results = {name: cut(name, np.full(shape, np.nan, np.float32))
                   for name, shape in case.results(self.kind).items()}  # fmt: skip
        return [*arguments, *results.values()], results


class FormCase(Case):
    """Linear attention that is not plain."""

    makes_results = True

    def __init__(self, name, feature=None, normalizer=False, block=None, lengths=None, sequences=None, **options):
        options = {"tokens": 180, "heads": 2, "dims": (8, 16), "kinds": (FORWARD, COMBINED), **options}
        if lengths or sequences:
            options["batch"] = len(lengths) if lengths else 1
        super().__init__(name, **options)
        self.feature, self.normalizer, self.block = feature, normalizer, block
        self.lengths, self.sequences = lengths, sequences
        # Features and quotients are rounded once more.
        self.tolerance *= {"f32": 3, "bf16": 4, "f16": 4}[self.dtype]

    @property
    def feature_dim(self):
        return FEATURES[self.feature].feature_dim(self.key_dim) if self.feature else self.key_dim

    @property
    def state_shape(self):
        return self.batch, self.heads, self.feature_dim, self.value_dim + self.normalizer

    def indices(self):
        return self.lengths or self.sequences

    def further_shapes(self):
        shapes = {}
        if self.indices():
            shapes["lengths" if self.lengths else "sequences"] = (len(self.indices()),)
        if self.feature == "projected":
            shapes["w"] = (self.key_dim, Projected.FEATURES)
        return shapes

    def differentiated(self):
        return super().differentiated() + ["w"] * (self.feature == "projected")

    def further_clauses(self):
        indices = self.type("lengths", (len(self.indices() or []),))
        masks = f" key_lengths(%lengths : {indices})" * bool(self.lengths)
        masks += f" sequences(%sequences : {indices})" * bool(self.sequences)
        clauses = f" local_blocks({self.block})" * bool(self.block)
        clauses += f" normalizer(eps = {EPS:e})" * self.normalizer
        if not self.feature:
            return masks, clauses, ""
        rows = f"tensor<?x?x?x{self.key_dim}x{self.dtype}>"
        sizes = "\n      ".join(f"%i{i} = arith.constant {i} : index\n      %s{i} = tensor.dim %x, %i{i} : {rows}"
                                for i in range(3))  # fmt: skip
        return masks, clauses, f""" feature {{
    ^bb0(%x: {rows}):
      {sizes}
      %e = tensor.empty(%s0, %s1, %s2) : {rows}
      {FEATURES[self.feature].rows(rows, self.dtype)}
    }}"""

    def passes(self, kind, ranks):
        passes = super().passes(kind, ranks)
        if kind == COMBINED and self.block:
            passes.insert(0, "--attn-decompose-linear-attention=reset-local-blocks")
        return passes

    def sent_bytes(self, kind, ranks):
        """As of plain linear attention; None for gradients."""
        if ranks == 1 or (kind == FORWARD and self.block and self.tokens % (ranks * self.block) == 0):
            return 0
        if kind != FORWARD:
            return None
        has_tokens = self.decay == "token" or self.sequences or self.block or (self.decay == "head" and self.lengths)
        of_decays = self.feature_dim if self.decay == "element" else 1 if has_tokens else 0
        columns = self.value_dim + NORMALIZER_COLUMNS * self.normalizer
        maps = self.feature_dim * (columns + (self.feature_dim if self.beta else 0)) + of_decays * (not self.beta)
        return 4 * (ranks - 1) * self.batch * self.heads * maps


class FormInputs(Inputs):
    """Inputs of linear attention that is not plain, with padding that is no numbers, and the results."""

    def prepare(self):
        case = self.case
        if "w" in self.given:
            self.given["w"] *= 0.3
        for name in ("initial", "dfinal"):
            if case.normalizer and name in self.given:
                # Sums of scores are not negative.
                self.given[name][..., -1] = np.abs(self.given[name][..., -1])
        if case.lengths:
            for name in {"k", "v", "g", "b"} & set(self.given):
                array = self.given[name]
                if array.ndim > 2:
                    self.given[name] = np.where(self.find_keys(array.ndim), array, np.float32("nan"))

    def find_keys(self, rank=4):
        """Whether tokens are before the key lengths."""
        case, tokens = self.case, np.arange(self.case.tokens)
        is_key = tokens < (np.array(case.lengths)[:, None] if case.lengths else case.tokens)
        return is_key.reshape(len(case.lengths or [0]), 1, case.tokens, *[1] * (rank - 3))

    def find_decays(self, given):
        case, tokens = self.case, np.arange(self.case.tokens)
        decay = np.where(self.find_keys(5), super().find_decays(given), 1)
        is_first = np.isin(tokens, case.sequences or [])
        if case.block:
            is_first |= tokens % case.block == 0
        return np.where(is_first[:, None, None], 0, decay)

    def compute(self):
        case, given, is_key = self.case, self.widen(), self.find_keys()
        feature = FEATURES.get(case.feature)
        if case.feature == "projected":
            feature.weight, feature.dweight = given["w"], 0
        for name in ("k", "v"):
            given[name] = np.where(is_key, given[name], 0)
        if "b" in given:
            given["b"] = np.where(is_key[..., 0], given["b"], 0)
        rows = {name: given[name] for name in ("q", "k")}
        if feature:
            given.update({name: feature.apply(x) for name, x in rows.items()})
        features = {name: given[name] for name in rows}
        given["k"] = np.where(is_key, given["k"], 0)
        if case.normalizer:
            given["v"] = np.where(is_key, np.append(given["v"], np.ones_like(given["v"][..., :1]), -1), 0)
        decay = self.find_decays(given)
        dout = given.pop("dout", None)
        expected = self.run_blocks(given, decay)
        whole = expected["out"]
        if case.normalizer:
            expected["out"] = whole[..., :-1] / (whole[..., -1:] + EPS)
        if dout is None:
            return expected
        if case.normalizer:
            sums = whole[..., -1:] + EPS
            dsums = -(dout * whole[..., :-1]).sum(-1, keepdims=True) / sums**2
            dout = np.append(dout / sums, dsums, -1)
        grads = self.run_blocks({**given, "dout": dout}, decay)
        grads["v"] = np.where(is_key, grads["v"], 0)[..., : case.value_dim]
        grads["k"] = np.where(is_key, grads["k"], 0)
        if feature:
            grads.update({name: feature.pull_back(rows[name], features[name], grads[name]) for name in rows})
        if "g" in grads:
            grads["g"] = np.where(is_key & (decay[..., 0] > 0), grads["g"], 0)
        if "b" in grads:
            grads["b"] = np.where(is_key[..., 0], grads["b"], 0)
        result = self.collect(grads)
        if case.feature == "projected":
            result["dw"] = feature.dweight
        return {**expected, **result}

    def run_blocks(self, given, decay):
        """Without a causal mask, each local block is run by itself."""
        case = self.case
        if case.causal or not case.block:
            return self.run(given, decay)
        parts = []
        for first in range(0, case.tokens, case.block):
            cut = {name: x[:, :, first : first + case.block] for name, x in given.items() if name not in STATES}
            parts.append(self.run(cut, decay))
        return {name: np.concatenate([part[name] for part in parts], 2) for name in parts[0]}


CASES = [
    Case("plain"),
    Case("plain_f16", dtype="f16", kinds=(FORWARD,)),
    Case("states", initial=True, final=True, heads=3),
    Case("head", decay="head", heads=4, initial=True, final=True, kinds=(FORWARD, GRADIENT, COMBINED)),
    Case("token", decay="token", heads=4, initial=True, final=True),
    Case("token_alone", decay="token", kinds=(FORWARD, COMBINED)),
    Case("element", decay="element", heads=3, initial=True, final=True),
    Case("full", causal=False, kinds=(FORWARD, GRADIENT, COMBINED)),
    Case("full_states", causal=False, initial=True, final=True),
    Case("bf16", decay="token", dtype="bf16", final=True),
    Case("groups", decay="token", heads=4, key_heads=1, value_heads=2, final=True, kinds=(FORWARD, COMBINED)),
    Case("dynamic", decay="token", initial=True, final=True, dynamic=True),
    Case("dynamic_head", decay="head", heads=2, dynamic=True),
    Case("dynamic_element", decay="element", final=True, dynamic=True),
    Case("delta", beta=True, initial=True, final=True, kinds=(FORWARD, GRADIENT, COMBINED)),
    Case("gated_delta", decay="token", beta=True, heads=4),
    Case("kimi_delta", decay="element", beta=True, initial=True, final=True, dims=(24, 16)),
]  # fmt: skip


#: Numbers of keys that end in each of 1 to 6 ranks, at their first and last tokens, and numbers that are no lengths.
LENGTHS = [20, 45, 75, 100, 130, 170, 180, 0, 1, 30, 90, 500, -3]
#: Boundaries in ranks and between them, of sequences without tokens and of one token, too.
SEQUENCES = [5, 20, 20, 36, 60, 61, 90, 140, 178]

FORMS = [
    FormCase("exp", "exp", key_heads=1, decay="token", initial=True, final=True),
    FormCase("elu", "elu", normalizer=True, initial=True, final=True),
    FormCase("relu", "relu", normalizer=True, decay="head", heads=4, value_heads=2),
    FormCase("softmax", "softmax", decay="element", final=True),
    FormCase("softmax_full", "softmax", normalizer=True, causal=False, initial=True, final=True),
    FormCase("projected", "projected", normalizer=True, decay="token", initial=True, final=True),
    FormCase("projected_full", "projected", causal=False),
    FormCase("feature_delta", "softmax", beta=True, decay="token", final=True),
    FormCase("feature_bf16", "elu", normalizer=True, dtype="bf16", kinds=(FORWARD,)),
    FormCase("lengths", lengths=LENGTHS, final=True, initial=True),
    FormCase("lengths_head", lengths=LENGTHS, decay="head", final=True),
    FormCase("lengths_token", "exp", lengths=LENGTHS, decay="token", normalizer=True, final=True),
    FormCase("lengths_element", lengths=LENGTHS, decay="element", initial=True),
    FormCase("lengths_delta", lengths=LENGTHS, decay="token", beta=True, final=True),
    FormCase("lengths_full", "elu", lengths=LENGTHS, causal=False, normalizer=True, final=True),
    FormCase("lengths_none", lengths=[0, 0], normalizer=True, feature="elu", final=True),
    FormCase("sequences", sequences=SEQUENCES),
    FormCase("sequences_head", sequences=SEQUENCES, decay="head", heads=4),
    FormCase("sequences_token", "elu", sequences=SEQUENCES, decay="token", normalizer=True),
    FormCase("sequences_element", sequences=SEQUENCES, decay="element"),
    FormCase("sequences_delta", sequences=SEQUENCES, beta=True),
    FormCase("blocks", block=7),
    FormCase("blocks_long", "elu", block=100, normalizer=True, decay="token"),
    FormCase("blocks_head", block=36, decay="head", beta=True),
    FormCase("blocks_lengths", block=50, lengths=LENGTHS, decay="element"),
    FormCase("blocks_full", "exp", block=3, causal=False, normalizer=True, kinds=(FORWARD,)),
    FormCase("blocks_positions", "position", block=15, lengths=LENGTHS, decay="token"),
    FormCase("blocks_projected", "projected", block=15, normalizer=True, kinds=(FORWARD,)),
    FormCase("blocks_full_positions", "position", block=15, causal=False, kinds=(FORWARD,)),
    FormCase("blocks_full_lengths", block=15, causal=False, lengths=LENGTHS, kinds=(FORWARD,)),
    FormCase("form_dynamic", "softmax", normalizer=True, decay="token", lengths=LENGTHS, final=True, dynamic=True),
    FormCase("sequences_dynamic", "projected", sequences=SEQUENCES, normalizer=True, dynamic=True),
    FormCase("blocks_dynamic", "relu", block=50, decay="token", normalizer=True, dynamic=True),
]  # fmt: skip


def make_random(seed, number):
    """A case, a kind of function and a number of ranks."""
    rng = random.Random(f"linear {seed} {number}")
    maybe = lambda probability: rng.random() < probability
    causal, ranks = maybe(0.8), rng.randint(1, 6)
    heads = rng.choice([1, 2, 4])
    kind = rng.choice([FORWARD, GRADIENT, COMBINED])
    divisor = lambda: rng.choice([n for n in (1, 2, 4) if heads % n == 0]) if kind != GRADIENT else heads
    case = Case(f"random_{seed}_{number}", causal, rng.choice([None, *DECAYS]) if causal else None,
                causal and maybe(0.3), maybe(0.5), maybe(0.5), heads, divisor(), divisor(),
                ranks * rng.randint(1, 240 // ranks), (rng.choice([8, 16, 40]), rng.choice([8, 24])),
                rng.choice(["f32", "f32", "bf16"]), kind != COMBINED and maybe(0.3))  # fmt: skip
    return case, kind, ranks


class Tester(shard.Tester):
    def shard_case(self, case, kind, ranks):
        name = f"linear_{case.name}_{case.tokens}_{kind}_{ranks}"
        return self.compile(name, case.mlir(kind), case.passes(kind, ranks), NAMES[kind])

    def run_case(self, inputs, group):
        """The statuses of all ranks, the results of each by name, and the bytes that each sent."""
        function = self.shard_case(inputs.case, inputs.kind, group.ranks)
        chunks = [inputs.arguments(rank, group.ranks) for rank in range(group.ranks)]
        statuses = group.run(lambda rank: shard.call(function, chunks[rank][0]))
        return statuses, group.share([results for _, results in chunks]), group.traffic()

    def check_linear(self, case, kind, ranks):
        inputs, wrong = (FormInputs if isinstance(case, FormCase) else Inputs)(case, kind, ranks), []
        group = self.group(ranks)
        statuses, results, traffic = self.run_case(inputs, group)
        group.destroy()
        # Of several processes, one compares.
        if self.world and self.world.rank:
            return []
        wrong += [text for status, text in statuses if status]
        for name, shape in case.results(kind).items():
            parts = [result[name] for result in results]
            if case.has_tokens(name, shape):
                found = np.concatenate(parts, 2)
            else:
                found = parts[0]
                if not all(np.array_equal(part, found) for part in parts):
                    wrong.append(f"{name}: ranks have other bits")
            found = case.storage.load(found) if case.element(name) != "f32" else found
            expected = inputs.expected[name]
            error = np.abs(found - expected).max() / max(1, np.abs(expected).max())
            if not error <= case.tolerance:
                wrong.append(f"{name}: error {error:.2g}")
        expected = {shard.SEND_RECV: 0, shard.ALL_GATHER: case.sent_bytes(kind, ranks), shard.ALL_TO_ALL: 0}
        for rank, found in enumerate(traffic):
            if expected[shard.ALL_GATHER] is not None and found != expected:
                wrong.append(f"rank {rank} sent {found} bytes, expected {expected}")
        return wrong

    def check_mixed(self, ranks):
        """Linear attention to the results of attention, with rows between them, against the same on one rank."""
        tokens = 96
        kind = f"tensor<{BATCH}x2x{tokens}x16xf32>"
        text = f"""
func.func @attention(%q: {kind}, %k: {kind}, %v: {kind}, %out: {kind}) -> {kind} {{
  %e = tensor.empty() : {kind}
  %a = attn.attention ins(%q, %k, %v : {kind}, {kind}, {kind}) outs(%e : {kind}) mask(#attn.causal) -> {kind}
  %t = linalg.tanh ins(%a : {kind}) outs(%e : {kind}) -> {kind}
  %o = attn.linear_attention ins(%q, %k, %t : {kind}, {kind}, {kind}) outs(%out : {kind}) causal -> {kind}
  return %o : {kind}
}}
"""
        given = [np.random.default_rng(i).standard_normal((BATCH, 2, tokens, 16)).astype(np.float32) for i in range(3)]
        found = {}
        for count in (1, ranks):
            # Only the run of one process compares.
            if self.world and count == 1:
                continue
            function = self.compile(f"mixed_{count}", text, [f"--attn-shard-attention=method=allgather ranks={count}"])
            group = self.group(count)
            chunks = [[np.split(array, count, 2)[rank].copy() for array in (*given, given[0])]
                      for rank in range(count)]  # fmt: skip
            statuses = group.run(lambda rank: shard.call(function, chunks[rank]))
            found[count] = np.concatenate(group.share([chunk[-1] for chunk in chunks]), 2)
            group.destroy()
            if any(status for status, _ in statuses):
                return [text for _, text in statuses]
        error = np.abs(found[ranks] - found.get(1, found[ranks])).max()
        return [] if error <= 2e-5 else [f"error {error:.2g} against one rank"]

    def check_linear_delays(self, kind):
        """Random delays, and so other orders of arrival, change nothing."""
        case, ranks, expected = next(case for case in CASES if case.name == "head"), 4, None
        inputs = Inputs(case, kind, 1)
        for seed in range(6):
            group = self.group(ranks, faults=lambda rank: shard.Faults(3000, seed * 64 + rank, -1, 0, 0, -1, 0))
            statuses, results, _ = self.run_case(inputs, group)
            group.destroy()
            if any(status for status, _ in statuses):
                return [text for _, text in statuses]
            expected = expected or results
            for rank in range(ranks):
                for name, result in results[rank].items():
                    if not np.array_equal(result, expected[rank][name]):
                        return [f"delays with seed {seed} change '{name}' of rank {rank}"]
        return []

    def check_linear_failures(self):
        """A call that fails on one rank fails on all of them, at whatever call: of states, decays and gradients."""
        case, ranks, wrong = next(case for case in CASES if case.name == "token"), 4, []
        inputs = Inputs(case, GRADIENT, 1)
        for number in range(3):
            code = shard.DRIVER_ERROR
            faults = lambda rank: shard.Faults(0, 0, number if rank == 1 else -1, code, 0, -1, 0)
            group = self.group(ranks, faults=faults)
            statuses, _, _ = self.run_case(inputs, group)
            group.destroy()
            for rank, (status, text) in enumerate(statuses):
                if status != code or f"rank 1: call {number} fails as it should" not in text:
                    wrong.append(f"call {number}: rank {rank} returned {status} and '{text}'")
        return wrong


def make_checks(tester):
    for case in CASES:
        for kind in case.kinds:
            # Some cases have all numbers of ranks.
            has_all = (case.name, kind) in (("head", FORWARD), ("token", GRADIENT), ("delta", FORWARD))
            for ranks in RANKS if has_all else (4,):
                yield f"{case.name} {kind} {ranks}", ranks, partial(tester.check_linear, case, kind, ranks)
    for case in FORMS:
        for kind in case.kinds:
            has_all = case.name in ("lengths_token", "sequences_token", "blocks_long", "blocks_full")
            for ranks in range(1, 7) if has_all else (3,):
                yield f"{case.name} {kind} {ranks}", ranks, partial(tester.check_linear, case, kind, ranks)
    # As many bytes with a fourth of the tokens, and with one for each rank.
    for tokens in (48, 4):
        case = Case("short", decay="token", initial=True, final=True, tokens=tokens)
        yield f"short {tokens} 4", 4, partial(tester.check_linear, case, GRADIENT, 4)
    for kind in (FORWARD, GRADIENT):
        yield f"delays {kind}", 4, partial(tester.check_linear_delays, kind)
    yield "failures", 4, tester.check_linear_failures
    yield "mixed", 4, partial(tester.check_mixed, 4)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True, help="folder for what is compiled")
    parser.add_argument("--runtime", required=True, help="the runtime library")
    parser.add_argument("--only", default="", help="run checks whose name contains this")
    parser.add_argument("--random", type=int, default=0, help="number of random cases")
    parser.add_argument("--seed", type=int, default=1, help="where random cases begin")
    parser.add_argument("--mpi", action="store_true", help="run with the processes of mpirun, and all checks for them")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    tester, checks = Tester(args), {}
    for name, ranks, check in make_checks(tester):
        if not tester.world or ranks == tester.world.ranks:
            checks[name] = check
    for number in range(args.random):
        case, kind, ranks = make_random(args.seed, number)
        checks[f"{case.name} {kind} {ranks}"] = partial(tester.check_linear, case, kind, ranks)
    failures, count = 0, 0
    for name, check in checks.items():
        if args.only not in name:
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
