# ===- attention_state.py - Attention from a partial result on the host -----===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
#
# Attention that goes on from a state, the results of attention to other keys, against the formula in f64. States are
# ordinary and extreme: their log-sum-exps are far above and below the scores or -inf, where outputs are NaN and must
# not count. A state without keys must give the bits of attention without a state.
#
# ===----------------------------------------------------------------------===#
# REQUIRES: host-cc, numpy
# RUN: %python %s --work %t --runtime %attn_libs_dir/libattn_runtime%shlibext

import argparse
import ctypes
import os
import sys
from dataclasses import dataclass
from typing import Optional, Tuple

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "Inputs"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python"))
sys.path.insert(0, HERE)

from attention import EPSILON, MASKS, from_memory, to_memory  # noqa: E402
from attn.artifact import DTYPES, Artifact, TensorView  # noqa: E402
from dropout_reference import Dropout  # noqa: E402
from tool_cache import run_tool  # noqa: E402

SEED, OFFSET = 1234567, 89


@dataclass(frozen=True)
class Variant:
    """A function of attention from a state."""

    name: str
    batch: int = 2
    # Query and key heads.
    heads: Tuple[int, int] = (2, 2)
    dims: Tuple[int, int] = (32, 40)
    queries: int = 37
    keys: int = 53
    dtype: str = "f32"
    # The element types of the outputs of the state and of the operation.
    state: str = ""
    out: str = ""
    mask: str = "none"
    sinks: bool = False
    dropout: Optional[Dropout] = None
    # Boundaries of packed sequences of queries and keys, or the numbers of keys of a cache.
    packed: Optional[Tuple[Tuple[int, ...], Tuple[int, ...]]] = None
    key_lengths: Optional[Tuple[int, ...]] = None
    scale: Optional[float] = None
    softcap: bool = False
    epilogue: bool = False
    lse: bool = True
    # Whether the number of queries is static.
    is_static: bool = False
    schedule: str = ""

    @property
    def out_dtype(self):
        return self.out or self.dtype

    @property
    def state_dtype(self):
        return self.state or self.out_dtype

    @property
    def scale_or_default(self):
        return self.dims[0] ** -0.5 if self.scale is None else self.scale

    def types(self):
        """The arguments and results of the function, with their types."""
        hq, hk = self.heads
        qk_dim, v_dim = self.dims
        rows = f"tensor<{1 if self.packed else '?'}x{hq}x{self.queries if self.is_static else '?'}"
        cache = f"tensor<{1 if self.packed else '?'}x{hk}x?"
        arguments = {
            "q": f"{rows}x{qk_dim}x{self.dtype}>",
            "k": f"{cache}x{qk_dim}x{self.dtype}>",
            "v": f"{cache}x{v_dim}x{self.dtype}>",
            "so": f"{rows}x{v_dim}x{self.state_dtype}>",
            "sl": f"{rows}xf32>",
        }
        if self.sinks:
            arguments["sinks"] = f"tensor<{hq}xf32>"
        if self.dropout:
            arguments.update(seed="tensor<i64>", offset="tensor<i64>")
        if self.packed:
            arguments.update(cu_q="tensor<?xi32>", cu_k="tensor<?xi32>")
        if self.key_lengths:
            arguments["lengths"] = "tensor<?xi32>"
        results = {"o": f"{rows}x{v_dim}x{self.out_dtype}>"}
        if self.lse:
            results["l"] = arguments["sl"]
        return arguments, results

    def clauses(self):
        result = f"scale({self.scale:.6e}) " if self.scale is not None else ""
        result += MASKS[self.mask][0]
        if self.dropout:
            result += f" dropout({self.dropout}, %seed, %offset : tensor<i64>, tensor<i64>)"
        if self.schedule:
            result += f" schedule({self.schedule})"
        if self.softcap:
            result += """
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %t = math.tanh %s : f32
        attn.yield %t : f32
      }"""
        if self.epilogue:
            result += """
      epilogue {
      ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
        %y = arith.addf %x, %x : f32
        attn.yield %y : f32
      }"""
        return result

    def operands(self, has_state):
        a, _ = self.types()
        result = f"state(%so, %sl : {a['so']}, {a['sl']})" if has_state else ""
        result += f" sinks(%sinks : {a['sinks']})" if self.sinks else ""
        result += " sequences packed(%cu_q, %cu_k : tensor<?xi32>, tensor<?xi32>)" if self.packed else ""
        return result + (" key_lengths(%lengths : tensor<?xi32>)" if self.key_lengths else "")

    def mlir(self, name, has_state):
        a, r = self.types()
        made = ", ".join(r.values())
        outs = ", ".join(f"%{result}" for result in r)
        given = ", ".join(f"%{argument}: {kind}" for argument, kind in {**a, **r}.items())
        values = ", ".join(f"%0#{n}" for n in range(len(r))) if len(r) > 1 else "%0"
        return f"""
func.func @{name}({given}) -> ({made}) {{
  %0{f":{len(r)}" if len(r) > 1 else ""} = attn.attention ins(%q, %k, %v : {a['q']}, {a['k']}, {a['v']})
      outs({outs} : {made}) {self.operands(has_state)} {self.clauses()} -> {made}
  return {values} : {made}
}}
"""


SPLIT = "#attn_tile.sequential<query_tile = 8, key_tile = 16, split_kv_work_items = 16"
VARIANTS = [
    Variant("plain"),
    Variant("grouped", heads=(6, 2), mask="causal"),
    Variant("empty_rows", queries=61, keys=29, mask="causal"),
    Variant("window", mask="window_self", dims=(16, 16)),
    Variant("no_lse", lse=False, mask="causal"),
    Variant("no_keys", keys=0),
    Variant("one_query", queries=1),
    Variant("sinks", sinks=True, mask="causal", queries=61),
    Variant("scaled", scale=-0.5),
    Variant("tiny_scale", scale=1e-8),
    Variant("softcap", softcap=True, mask="window"),
    Variant("epilogue", epilogue=True),
    Variant("dropout", dropout=Dropout(0.25, "arx", 5)),
    Variant("dropout_sinks", dropout=Dropout(0.25, "philox", 7), sinks=True, dtype="bf16"),
    Variant("packed", batch=1, packed=((0, 12, 12, 37), (0, 20, 31, 53)), heads=(4, 2), mask="causal"),
    Variant("key_lengths", key_lengths=(53, 17), heads=(4, 1)),
    Variant("no_key_lengths", key_lengths=(0, 9), sinks=True),
    Variant("bf16", dtype="bf16", mask="causal", heads=(4, 2)),
    Variant("bf16_from_f32", dtype="bf16", state="f32"),
    Variant("bf16_to_f32", dtype="bf16", out="f32"),
    Variant("f16", dtype="f16", sinks=True),
    Variant("f32_from_f16", state="f16"),
    Variant("wide", dims=(64, 192), keys=129),
    Variant("split", queries=1, is_static=True, heads=(4, 2), keys=131, schedule=SPLIT + ">"),
    Variant("split_packed", queries=1, is_static=True, heads=(4, 2), keys=131, epilogue=True,
            schedule=SPLIT + ", pack_gqa = true>"),
    Variant("split_window", queries=19, heads=(1, 1), keys=131, mask="window", sinks=True, schedule=SPLIT + ">"),
    Variant("split_dropout", queries=19, heads=(1, 1), keys=131, dropout=Dropout(0.25, "arx", 5),
            schedule=SPLIT.replace("query_tile = 8", "query_tile = 16") + ">"),
    Variant("balanced", queries=1, is_static=True, heads=(4, 2), keys=256, batch=3, key_lengths=(256, 9, 0),
            schedule=SPLIT + ", pack_gqa = true, balance_splits = true>"),
    Variant("balanced_epilogue", queries=1, is_static=True, heads=(4, 2), keys=256, batch=3, key_lengths=(11, 200, 0),
            epilogue=True, dtype="bf16", state="f32",
            schedule=SPLIT + ", pack_gqa = true, balance_splits = true>"),
]
GRADIENTS = [
    Variant("grad"),
    Variant("grad_grouped", heads=(4, 2), mask="causal", queries=61),
    Variant("grad_sinks", sinks=True, mask="causal"),
    Variant("grad_dropout", dropout=Dropout(0.25, "arx", 5)),
    Variant("grad_softcap", softcap=True),
    Variant("grad_f32_state", dtype="bf16", state="f32"),
    Variant("grad_no_lse", lse=False),
    Variant("grad_packed", batch=1, packed=((0, 12, 12, 33), (2, 20, 31, 53)), heads=(4, 2)),
]


def view(array, dtype):
    result = TensorView.make(array.shape, [s // array.itemsize for s in array.strides], DTYPES.index(dtype), -1)
    result.data = array.ctypes.data
    return ctypes.pointer(result)


def call(function, arrays, types):
    """Calls a function with arrays that have the element types of the tensor types."""
    dtypes = [kind.rstrip(">").split("x")[-1].replace("tensor<", "") for kind in types]
    views = [view(array, dtype) for array, dtype in zip(arrays, dtypes)]
    if function.call((ctypes.POINTER(TensorView) * len(views))(*views), len(views), None):
        sys.exit(function.last_error().decode())


class Inputs:
    """Inputs of a variant, as they are in memory (`stored`) and as f64 (`exact`)."""

    def __init__(self, v, kind, rng):
        hq, hk = v.heads
        qk_dim, v_dim = v.dims
        rows, cache = (v.batch, hq, v.queries), (v.batch, hk, v.keys)
        arrays = {
            "q": (rng.standard_normal((*rows, qk_dim)), v.dtype),
            "k": (rng.standard_normal((*cache, qk_dim)), v.dtype),
            "v": (rng.standard_normal((*cache, v_dim)), v.dtype),
            "so": (rng.standard_normal((*rows, v_dim)), v.state_dtype),
            "sl": (make_lses(kind, rows, rng), "f32"),
        }
        if v.sinks:
            sinks = 2 * rng.standard_normal(hq)
            sinks[-1] = -np.inf
            arrays["sinks"] = (sinks, "f32")
        self.stored = {name: to_memory(x, dtype) for name, (x, dtype) in arrays.items()}
        self.exact = {
            name: from_memory(self.stored[name], dtype).astype(np.float64) for name, (_, dtype) in arrays.items()
        }
        none = np.isneginf(self.exact["sl"])
        self.exact["so"][none] = 0
        # Outputs of a state without keys do not count.
        nan = to_memory(np.full(1, np.nan, np.float32), v.state_dtype) if v.state_dtype != "bf16" else np.uint16(0x7FC0)
        self.stored["so"][none] = nan
        if v.dropout:
            self.stored.update(seed=np.array(SEED), offset=np.array(OFFSET))
        if v.packed:
            self.stored.update(zip(("cu_q", "cu_k"), (np.array(x, np.int32) for x in v.packed)))
        if v.key_lengths:
            self.stored["lengths"] = np.array(v.key_lengths, np.int32)


def make_lses(kind, shape, rng):
    lses = rng.standard_normal(shape)
    if kind == "high":
        lses = 1e4 + lses
    elif kind == "low":
        lses = -1e10 * (1 + np.abs(lses))
    elif kind == "very high":
        lses = 1e20 * (1 + np.abs(lses))
    elif kind == "empty":
        lses = np.full(shape, -np.inf)
    elif kind == "mixed":
        choice = rng.integers(0, 4, shape)
        lses = np.select([choice == 0, choice == 1, choice == 2], [-np.inf, 12 + lses, -1e4 * np.abs(lses)], lses)
    return lses


def list_sequences(v):
    """Batch entry, rows of queries and rows of keys of each sequence."""
    if v.packed:
        for number in range(len(v.packed[0]) - 1):
            yield number, 0, *(slice(bounds[number], bounds[number + 1]) for bounds in v.packed)
        return
    for number in range(v.batch):
        yield number, number, slice(0, v.queries), slice(0, v.key_lengths[number] if v.key_lengths else v.keys)


def attend(v, x, sequence, head):
    """Scores of a head of a sequence, probabilities, what values they belong to, the log-sum-exp, and the weight of the
    state, all in f64."""
    number, entry, rows, columns = sequence
    shared = head // (v.heads[0] // v.heads[1])
    q, k, values = x["q"][entry, head, rows], x["k"][entry, shared, columns], x["v"][entry, shared, columns]
    i, j = np.arange(len(q))[:, None], np.arange(len(k))[None]
    s = v.scale_or_default * (q @ k.T)
    s = np.tanh(s) if v.softcap else s
    s = np.where(MASKS[v.mask][1](i, j, len(q), len(k)), s, -np.inf)
    sl = x["sl"][entry, head, rows]
    sink = np.full_like(sl, x["sinks"][head] if v.sinks else -np.inf)
    largest = np.max(np.concatenate([s, sl[:, None], sink[:, None]], 1), 1)
    reference = np.where(np.isneginf(largest), 0, largest)
    p, w = np.exp(s - reference[:, None]), np.exp(sl - reference)
    total = p.sum(1) + w + np.exp(sink - reference)
    is_none = total == 0
    with np.errstate(divide="ignore"):
        lse = np.where(is_none, -np.inf, reference + np.log(total))
    total = np.where(is_none, 1, total)
    p, w = p / total[:, None], w / total
    dropped = np.ones_like(p)
    if v.dropout:
        kept = v.dropout.keep(SEED, OFFSET, np.array(number), np.array(head), i, j)
        dropped = kept / v.dropout.keep_probability
    return p, dropped, w, values, lse, sink


def evaluate(v, x):
    """The output and the log-sum-exp; NaN for rows of no sequence."""
    shape = (v.batch, v.heads[0], v.queries)
    out, lse = np.full((*shape, v.dims[1]), np.nan), np.full(shape, np.nan)
    for sequence in list_sequences(v):
        _, entry, rows, _ = sequence
        for head in range(v.heads[0]):
            p, dropped, w, values, row_lse, _ = attend(v, x, sequence, head)
            result = (p * dropped) @ values + w[:, None] * x["so"][entry, head, rows]
            out[entry, head, rows] = 2 * result if v.epilogue else result
            lse[entry, head, rows] = row_lse
    return out, lse


def exceeds(found, expected, tolerance):
    """Whether an element of a row of a sequence differs more from the expected one than `tolerance`."""
    with np.errstate(invalid="ignore"):
        error = np.abs(found.astype(np.float64) - expected)
    known = ~np.isnan(expected)
    error = np.where(found == expected, 0.0, error)
    return not np.all((error <= tolerance)[known])


def make_results(v, rows):
    _, results = v.types()
    shapes = {"o": (*rows, v.dims[1]), "l": rows}
    dtypes = {"o": v.out_dtype, "l": "f32"}
    return {n: to_memory(np.zeros(shapes[n], np.float32), dtypes[n]) for n in results}


def check_forward(v, artifact, kind, rng):
    inputs = Inputs(v, kind, rng)
    arguments, results = v.types()
    found = make_results(v, inputs.stored["sl"].shape)
    types = [*arguments.values(), *results.values()]
    call(artifact["with_state"], [*(inputs.stored[n] for n in arguments), *found.values()], types)
    if kind == "empty":
        plain = make_results(v, inputs.stored["sl"].shape)
        call(artifact["without_state"], [*(inputs.stored[n] for n in arguments), *plain.values()], types)
        for name, array in plain.items():
            if array.tobytes() != found[name].tobytes():
                return f"{name} is not that of no state"
    out, lse = evaluate(v, inputs.exact)
    # Probabilities and outputs are rounded.
    precision = max(EPSILON[v.dtype], EPSILON[v.out_dtype])
    if exceeds(from_memory(found["o"], v.out_dtype), out, 8 * precision * (2 if v.epilogue else 1) + 4e-6):
        return "o"
    finite = np.where(np.isinf(lse), 0, np.abs(lse))
    if v.lse and exceeds(found["l"], lse, 3e-6 + 3e-7 * finite):
        return "l"
    return None


def evaluate_gradients(v, x, out, dout, dlse):
    """The gradients of queries, keys, values, state and sinks, by the formulas of the softmax."""
    grads = {name: np.zeros_like(x[name]) for name in x}
    for sequence in list_sequences(v):
        _, entry, rows, columns = sequence
        for head in range(v.heads[0]):
            shared = head // (v.heads[0] // v.heads[1])
            p, dropped, w, values, lse, sink = attend(v, x, sequence, head)
            do, dl = dout[entry, head, rows], dlse[entry, head, rows]
            delta = (do * out[entry, head, rows]).sum(1) - dl
            ds = p * (dropped * (do @ values.T) - delta[:, None])
            grads["v"][entry, shared, columns] += (p * dropped).T @ do
            q, k = x["q"][entry, head, rows], x["k"][entry, shared, columns]
            if v.softcap:
                ds *= 1 - np.tanh(v.scale_or_default * (q @ k.T)) ** 2
            grads["q"][entry, head, rows] = v.scale_or_default * ds @ k
            grads["k"][entry, shared, columns] += v.scale_or_default * ds.T @ q
            so = x["so"][entry, head, rows]
            grads["so"][entry, head, rows] = w[:, None] * do
            grads["sl"][entry, head, rows] = w * ((do * so).sum(1) - delta)
            if v.sinks:
                weight = np.where(np.isneginf(sink), 0, np.exp(sink - np.where(np.isneginf(lse), 0, lse)))
                grads["sinks"][head] -= (weight * delta).sum()
    return grads


def check_gradient(v, artifact, kind, rng):
    inputs = Inputs(v, kind, rng)
    arguments, results = v.types()
    dtypes = {"q": v.dtype, "k": v.dtype, "v": v.dtype, "so": v.state_dtype, "sl": "f32", "sinks": "f32"}
    found = make_results(v, inputs.stored["sl"].shape)
    douts = {n: to_memory(rng.standard_normal(found[n].shape), {"o": v.out_dtype, "l": "f32"}[n]) for n in results}
    known = [name for name in dtypes if name in arguments]
    grads = {n: to_memory(np.full(inputs.stored[n].shape, 7, np.float32), dtypes[n]) for n in known}
    kinds = [*arguments.values(), *results.values(), *results.values(), *(arguments[n] for n in known)]
    given = [*(inputs.stored[n] for n in arguments), *found.values(), *douts.values(), *grads.values()]
    call(artifact["with_state_grad"], given, kinds)
    out, _ = evaluate(v, inputs.exact)
    dout = from_memory(douts["o"], v.out_dtype).astype(np.float64)
    dlse = douts["l"].astype(np.float64) if v.lse else np.zeros(dout.shape[:3])
    expected = evaluate_gradients(v, inputs.exact, np.nan_to_num(out), dout, dlse)
    for name in known:
        largest = np.abs(expected[name]).max()
        tolerance = (32 * EPSILON[v.dtype] + 2e-5) * max(1.0, largest)
        if exceeds(from_memory(grads[name], dtypes[name]), expected[name], tolerance):
            return f"gradient of {name}"
    return None


KINDS = ("normal", "mixed", "high", "low", "very high", "empty")


def compile_variant(v, folder, is_gradient):
    path = os.path.join(folder, v.name)
    with open(path + ".mlir", "w") as file:
        file.write(v.mlir("with_state", True) + ("" if is_gradient else v.mlir("without_state", False)))
    source = path + ".mlir"
    if is_gradient:
        source = path + ".grad.mlir"
        names = list(v.types()[0])
        listed = ",".join(str(names.index(n)) for n in ("q", "k", "v", "so", "sl", "sinks") if n in names)
        passes = [f"--attn-differentiate=function=with_state mode=combined arguments={listed}",
                  "--symbol-privatize=exclude=with_state_grad", "--symbol-dce"]
        run_tool(["attn-opt", path + ".mlir", *passes, "-o", source])
    run_tool(["attn-compile", source, "-o", path + ".so", "--target=host"])
    return path + ".so"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True, help="folder for what is compiled")
    parser.add_argument("--runtime", required=True, help="the runtime library")
    parser.add_argument("--only", default="", help="only variants whose name contains this")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    rng = np.random.default_rng(0)
    cases = failures = 0
    for variants, check in ((VARIANTS, check_forward), (GRADIENTS, check_gradient)):
        for v in variants:
            if args.only not in v.name:
                continue
            artifact = Artifact(compile_variant(v, args.work, check == check_gradient), args.runtime)
            for kind in KINDS:
                cases += 1
                message = check(v, artifact, kind, rng)
                if message:
                    failures += 1
                    print(f"{v.name}, {kind} state: wrong {message}")
    print(f"{cases} cases, {failures} failures")
    return failures != 0 or cases == 0


if __name__ == "__main__":
    sys.exit(main())
