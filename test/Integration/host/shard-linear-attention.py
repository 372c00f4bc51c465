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
# States are the same on all ranks, bit for bit. With --random, as many random cases follow, which depend on --seed.
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


class Case:
    def __init__(self, name, causal=True, decay=None, beta=False, initial=False, final=False, heads=2, key_heads=None,
                 value_heads=None, tokens=192, dims=(16, 24), dtype="f32", dynamic=False, kinds=(FORWARD, GRADIENT)):
        self.name, self.causal, self.decay, self.beta, self.kinds = name, causal, decay, beta, kinds
        self.initial, self.final, self.dynamic, self.dtype, self.tokens = initial, final, dynamic, dtype, tokens
        self.heads, self.key_heads, self.value_heads = heads, key_heads or heads, value_heads or heads
        self.key_dim, self.value_dim = dims
        self.storage = shard.Storage(dtype)
        self.tolerance = {"f32": 3e-5, "bf16": 2**-6, "f16": 2**-9}[dtype]

    def shapes(self, kind):
        """The shapes of all arguments but results by name."""
        rows = (BATCH, self.heads, self.tokens)
        shapes = {"q": (*rows, self.key_dim), "k": (BATCH, self.key_heads, self.tokens, self.key_dim),
                  "v": (BATCH, self.value_heads, self.tokens, self.value_dim)}  # fmt: skip
        state = (BATCH, self.heads, self.key_dim, self.value_dim)
        if kind == GRADIENT:
            shapes["dout"] = (*rows, self.value_dim)
        if self.decay:
            shapes["g"] = tuple(shapes["q"][dim] for dim in DECAYS[self.decay])
        if self.beta:
            shapes["b"] = rows
        if self.initial:
            shapes["initial"] = state
        if kind == COMBINED:
            shapes["dout"] = (*rows, self.value_dim)
        if kind != FORWARD and self.final:
            shapes["dfinal"] = state
        return shapes

    def results(self, kind):
        """The shapes of results."""
        shapes, results = self.shapes(kind), {}
        if kind != GRADIENT:
            results["out"] = (*shapes["q"][:3], self.value_dim)
            if self.final:
                results["final"] = (BATCH, self.heads, self.key_dim, self.value_dim)
        if kind != FORWARD:
            names = ["q", "k", "v"] + ["g"] * bool(self.decay) + ["b"] * self.beta + ["initial"] * self.initial
            results.update({f"d{name}": shapes[name] for name in names})
            if self.decay == "head" and kind == GRADIENT:
                results["dg"] = (BATCH, self.heads)
        return results

    def element(self, name):
        """The element type of an argument."""
        return self.dtype if name.removeprefix("d") in ("q", "k", "v", "out") else "f32"

    def has_tokens(self, name, shape):
        return len(shape) > 2 and name not in STATES

    def type(self, name, shape):
        sizes = list(shape)
        if self.dynamic and len(shape) > 2:
            sizes[0] = "?"
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
        text += " causal" * self.causal + " chunk(16)"
        kinds = ", ".join(results.values())
        # Combined functions make destinations.
        inits = "" if kind != COMBINED else "\n  ".join(
            f"%{name} = tensor.empty() : {kind}" for name, kind in results.items())  # fmt: skip
        given = arguments if kind == COMBINED else types
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
            count = len(self.results(kind)) - 1 - self.final
            listed = ",".join(str(i) for i in range(count))
            passes += [f"--attn-differentiate=function=attention mode=combined arguments={listed}",
                       "--symbol-privatize=exclude=attention_grad", "--symbol-dce"]  # fmt: skip
        return [*passes, f"--attn-shard-attention=method=allgather ranks={ranks}"]

    def sent_bytes(self, kind, ranks):
        """The bytes that each rank sends, for any number of tokens."""
        if ranks == 1:
            return 0
        heads = BATCH * self.heads
        state = self.key_dim * self.value_dim
        of_decays = {"token": 1, "element": self.key_dim}.get(self.decay, 0)
        maps = state + (self.key_dim**2 if self.beta else of_decays)
        elements = maps
        if kind != FORWARD:
            elements += state + (self.decay == "head")
        # The gradient has repeated heads of keys or values.
        if kind == COMBINED and not self.heads == self.key_heads == self.value_heads:
            elements += maps
        return 4 * (ranks - 1) * heads * elements


class Inputs:
    """Inputs, and the results of the recurrence over all tokens in f64."""

    def __init__(self, case, kind, seed):
        rng = np.random.default_rng(seed)
        self.case, self.kind, self.given = case, kind, {}
        for name, shape in case.shapes(kind).items():
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
        self.expected = self.compute()

    def compute(self):
        case, given = self.case, {name: array.astype(np.float64) for name, array in self.given.items()}
        q = given["q"]
        k, v = (given[name].repeat(case.heads // given[name].shape[1], 1) for name in ("k", "v"))
        zero = np.zeros((BATCH, case.heads, case.key_dim, case.value_dim))
        first, scale = given.get("initial", zero), case.key_dim**-0.5
        if not case.causal:
            return self.compute_full(q, k, v, given, first, scale)
        log_decay = np.zeros_like(q)
        if case.decay:
            g = np.maximum(given["g"], -126)
            log_decay += {1: lambda: g[:, None, None], 3: lambda: g[..., None], 4: lambda: g}[g.ndim]()
        decay = np.exp(log_decay)[..., None]
        states, kept, residuals, updates = [first], [], [], []
        out = np.zeros((*q.shape[:3], case.value_dim))
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
        return {**expected, **self.collect(grads)}

    def compute_full(self, q, k, v, given, first, scale):
        last = first + np.einsum("bhti,bhtj->bhij", k, v)
        expected = {"out": scale * np.einsum("bhij,bhti->bhtj", last, q), "final": last}
        if "dout" not in given:
            return expected
        dout = scale * given["dout"]
        dstate = given.get("dfinal", np.zeros_like(first)) + np.einsum("bhti,bhtj->bhij", q, dout)
        grads = {"q": np.einsum("bhij,bhtj->bhti", last, dout), "k": np.einsum("bhij,bhtj->bhti", dstate, v),
                 "v": np.einsum("bhij,bhti->bhtj", dstate, k), "initial": dstate}  # fmt: skip
        return {**expected, **self.collect(grads)}

    def collect(self, grads):
        """Gradients in the shapes of the operands."""
        case = self.case
        for name, heads in (("k", case.key_heads), ("v", case.value_heads)):
            whole = grads[name]
            grads[name] = whole.reshape(BATCH, heads, -1, *whole.shape[2:]).sum(2)
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
            stored = case.storage.store(array) if case.element(name) != "f32" else array
            return np.ascontiguousarray(stored)

        arguments = [cut(name, array) for name, array in self.given.items()]
        results = {name: cut(name, np.full(shape, np.nan, np.float32))
                   for name, shape in case.results(self.kind).items()}  # fmt: skip
        return [*arguments, *results.values()], results


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
        inputs, wrong = Inputs(case, kind, ranks), []
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
            if found != expected:
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
