#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times dropout: in the kernels of attention, before them, and concurrently with the projection.

    dropout.py --compile build/bin/attn-compile --artifacts DIR --suites parts,layers,attention
    dropout.py --artifacts DIR --runtime libattn_runtime.so --suites parts,layers,attention --out rows.jsonl
    dropout.py --predict build/bin/attn-opt --artifacts DIR --out benchmarks/results/dropout.jsonl

A layer is the projection to queries, keys and values, causal attention and, in mode train, its gradient, compiled as
one function for each alternative of attn-hoist-rng. Peers are cuBLAS with cuDNN or FlashAttention-2, through torch,
with the same p. Suite `parts` times the kernels of layers one by one, for the constants of the cost model. Suite
`attention` times attention and its gradient alone, and the same peers. Suite `concurrent` times a projection and the
keep mask of full attention: alone, one after the other, on two streams and in one kernel. The first form needs no GPU,
the second no compiler. Results of the alternatives are compared: they drop the same attention probabilities. The third
form compares the measured times of suite `grid` with the estimates of attn-explain.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402

P = 0.125
RNGS = {
    "arx6": "#attn.arx<rounds = 6>",
    "philox7": "#attn.philox<rounds = 7>",
    "philox10": "#attn.philox<rounds = 10>",
    "threefry12": "#attn.threefry<rounds = 12>",
}
ALTERNATIVES = ("in-kernel", "sequential", "fused")
LENGTHS, TRAIN_LENGTHS = (2048, 4096, 8192, 16384, 32768), (8192,)


@dataclass(frozen=True)
class Layer:
    hidden: int
    heads: int
    kv_heads: int
    dim: int

    @property
    def columns(self):
        return (self.heads + 2 * self.kv_heads) * self.dim


MODELS = {
    "llama2-7b": Layer(4096, 32, 32, 128),
    "llama3-8b": Layer(4096, 32, 8, 128),
    "llama3-70b": Layer(8192, 64, 8, 128),
}
# Shapes and generators by which predictions are judged, at four lengths each.
GRID = (
    (Layer(4096, 32, 32, 128), "arx6"),
    (Layer(4096, 32, 32, 128), "philox7"),
    (Layer(2048, 32, 32, 64), "philox10"),
    (Layer(1024, 16, 16, 64), "arx6"),
    (Layer(2048, 16, 16, 128), "threefry12"),
)
GRID_LENGTHS = (2048, 4096, 8192, 16384)
# Attention alone: heads, head dim, and batch and length.
ATTENTION = tuple((Layer(heads * dim, heads, heads, dim), batch, length)
                  for heads, dim, batch, length in ((32, 128, 1, 8192), (32, 64, 1, 8192), (16, 64, 64, 1024)))
# The GEMM of the suite `concurrent`, and its keep masks: of 32 heads, at these lengths.
CONCURRENT = dict(M=8192, N=6144, K=4096)
CONCURRENT_HEADS, CONCURRENT_LENGTHS, CONCURRENT_RNGS = 32, (2048, 4096, 8192), ("arx6", "philox7")
CONCURRENT_KINDS = ("sequential", "streams", "fused")


def types(layer, batch=1):
    h, hkv, d = layer.heads, layer.kv_heads, layer.dim
    return dict(
        x=f"tensor<?x{layer.hidden}xbf16>",
        w=f"tensor<{layer.columns}x{layer.hidden}xbf16>",
        y=f"tensor<?x{layer.columns}xbf16>",
        q=f"tensor<{batch}x{h}x?x{d}xbf16>",
        k=f"tensor<{batch}x{hkv}x?x{d}xbf16>",
        l=f"tensor<{batch}x{h}x?xf32>",
        rows=f"tensor<{batch}x{h}x?x?xi32>",
    )


def attribute(rng):
    return f"#attn.dropout<p = {P}, rng = {RNGS[rng]}>"


def forward(t, dropout, mask):
    return f"""  %o = tensor.empty(%n) : {t['q']}
  %m = tensor.empty(%n) : {t['l']}
  %out, %lse = attn.attention ins(%q, %k, %v : {t['q']}, {t['k']}, {t['k']}) outs(%o, %m : {t['q']}, {t['l']})
      {mask} {dropout} -> {t['q']}, {t['l']}
"""


def backward(t, dropout, mask):
    return f"""  %eq = tensor.empty(%n) : {t['q']}
  %ek = tensor.empty(%n) : {t['k']}
  %ev = tensor.empty(%n) : {t['k']}
  %dq, %dk, %dv = attn.attention_grad
      ins(%q, %k, %v, %out, %lse, %dout : {t['q']}, {t['k']}, {t['k']}, {t['q']}, {t['l']}, {t['q']})
      outs(%eq, %ek, %ev : {t['q']}, {t['k']}, {t['k']}) {mask} {dropout} -> {t['q']}, {t['k']}, {t['k']}
"""


def layer_module(layer, mode, rng, causal=True):
    """One function: projection, attention and, in mode train, its gradient."""
    t = types(layer)
    mask = "mask(#attn.causal)" if causal else ""
    dropout = f"dropout({attribute(rng)}, %seed, %offset : tensor<i64>, tensor<i64>)" if rng != "none" else ""
    state = "%seed: tensor<i64>, %offset: tensor<i64>" if rng != "none" else ""
    arguments = [f"%x: {t['x']}", f"%w: {t['w']}"] + ([state] if state else [])
    results, values = [t["y"], t["q"], t["l"]], ["%y", "%out", "%lse"]
    if mode == "train":
        arguments.append(f"%dout: {t['q']}")
        results += [t["q"], t["k"], t["k"]]
        values += ["%dq", "%dk", "%dv"]
    text = f"""func.func @layer({', '.join(arguments)}) -> ({', '.join(results)}) {{
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : {t['x']}
  %e = tensor.empty(%n) : {t['y']}
  %y = attn.matmul ins(%x, %w : {t['x']}, {t['w']}) outs(%e : {t['y']}) transpose_rhs -> {t['y']}
"""
    first = 0
    for name, heads in (("q", layer.heads), ("k", layer.kv_heads), ("v", layer.kv_heads)):
        width = heads * layer.dim
        s = f"tensor<?x{width}xbf16>"
        four = f"tensor<1x?x{heads}x{layer.dim}xbf16>"
        head = t["q"] if name == "q" else t["k"]
        text += f"""  %{name}s = tensor.extract_slice %y[0, {first}] [%n, {width}] [1, 1] : {t['y']} to {s}
  %{name}4 = tensor.expand_shape %{name}s [[0, 1], [2, 3]] output_shape [1, %n, {heads}, {layer.dim}] : {s} into {four}
  %{name} = attn.permute %{name}4 [0, 2, 1, 3] : {four} -> {head}
"""
        first += width
    text += forward(t, dropout, mask)
    if mode == "train":
        text += backward(t, dropout, mask)
    return text + f"  return {', '.join(values)} : {', '.join(results)}\n}}\n"


def has_gradients(rng):
    """Whether the parts with this generator have gradients: other generators would tell nothing new about them."""
    return rng == "arx6"


def attention_functions(t, mask, kinds, gradients):
    """Functions fwd_KIND and bwd_KIND, by the arguments of each kind and its dropout."""
    qkv = f"%q: {t['q']}, %k: {t['k']}, %v: {t['k']}"
    size = f"  %c2 = arith.constant 2 : index\n  %n = tensor.dim %q, %c2 : {t['q']}\n"
    text = ""
    for kind, (arguments, dropout) in kinds.items():
        if kind != "columns":
            text += f"""func.func @fwd_{kind}({qkv}{arguments}) -> ({t['q']}, {t['l']}) {{
{size}{forward(t, dropout, mask)}  return %out, %lse : {t['q']}, {t['l']}
}}
"""
        if gradients:
            text += f"""func.func @bwd_{kind}({qkv}, %out: {t['q']}, %lse: {t['l']}, %dout: {t['q']}{arguments})
    -> ({t['q']}, {t['k']}, {t['k']}) {{
{size}{backward(t, dropout, mask)}  return %dq, %dk, %dv : {t['q']}, {t['k']}, {t['k']}
}}
"""
    return text


STATES = "%seed: tensor<i64>, %offset: tensor<i64>"


def made(rng):
    """Dropout whose keep masks attention makes."""
    return f"dropout({attribute(rng)}, %seed, %offset : tensor<i64>, tensor<i64>)"


def mask_function(t, kind, rng):
    """The function mask_KIND."""
    return f"""func.func @mask_{kind}({STATES}, %e: {t['rows']}) -> {t['rows']} {{
  %y = attn.dropout_mask {kind} by({attribute(rng)}, %seed, %offset : tensor<i64>, tensor<i64>)
      outs(%e : {t['rows']}) -> {t['rows']}
  return %y : {t['rows']}
}}
"""


def read_keep_mask(t, kind):
    """The argument and the dropout of attention that reads keep masks."""
    return f", %bits: {t['rows']}", f"dropout_mask {kind}(%bits : {t['rows']}) p({P})"


def attention_module(layer, batch, causal):
    """Attention and its gradient: without dropout, by two generators, and with keep masks that are read, in the layout
    that is best for each."""
    t = types(layer, batch)
    mask = "mask(#attn.causal)" if causal else ""
    kinds = {"none": ("", "")}
    kinds.update({rng: (f", {STATES}", made(rng)) for rng in ("philox7", "arx6")})
    text = "".join(mask_function(t, kind, "arx6") for kind in ("rows", "columns"))
    text += attention_functions(t, mask, {"rows": read_keep_mask(t, "rows")}, False)
    return text + attention_functions(t, mask, {**kinds, "columns": read_keep_mask(t, "columns")}, True)


def parts_module(layer, rng, causal):
    """Functions for the kernels of a layer."""
    t = types(layer)
    mask = "mask(#attn.causal)" if causal else ""
    text = f"""func.func @gemm(%x: {t['x']}, %w: {t['w']}, %e: {t['y']}) -> {t['y']} {{
  %y = attn.matmul ins(%x, %w : {t['x']}, {t['w']}) outs(%e : {t['y']}) transpose_rhs -> {t['y']}
  return %y : {t['y']}
}}
"""
    for kind in ("rows", "columns"):
        text += mask_function(t, kind, rng)
    kinds = {"none": ("", ""), "kernel": (f", {STATES}", made(rng)), "rows": read_keep_mask(t, "rows"),
             "columns": read_keep_mask(t, "columns")}
    return text + attention_functions(t, mask, kinds, has_gradients(rng))


def concurrent_module(rng):
    """A matmul and a keep mask by themselves, and together in each way."""
    _, n, k = CONCURRENT.values()
    x, w, y = f"tensor<?x{k}xbf16>", f"tensor<{n}x{k}xbf16>", f"tensor<?x{n}xbf16>"
    bits = f"tensor<1x{CONCURRENT_HEADS}x?x?xi32>"
    product = f"attn.matmul ins(%x, %w : {x}, {w}) outs(%y : {y}) transpose_rhs -> {y}"
    text = mask_function(dict(rows=bits), "rows", rng) + f"""func.func @gemm(%x: {x}, %w: {w}, %y: {y}) -> {y} {{
  %0 = {product}
  return %0 : {y}
}}
"""
    for kind in CONCURRENT_KINDS:
        text += f"""func.func @{kind}(%x: {x}, %w: {w}, {STATES}, %y: {y}, %bits: {bits}) -> ({y}, {bits}) {{
  %0:2 = attn.overlap by {kind} {{
    %1 = {product}
    attn.overlap_yield %1 : {y}
  }} and {{
    %1 = attn.dropout_mask rows by({attribute(rng)}, %seed, %offset : tensor<i64>, tensor<i64>) outs(%bits : {bits})
        -> {bits}
    attn.overlap_yield %1 : {bits}
  }} -> ({y}, {bits})
  return %0#0, %0#1 : {y}, {bits}
}}
"""
    return text


def name_of(layer):
    return f"h{layer.heads}_{layer.kv_heads}_d{layer.dim}_c{layer.hidden}"


def attention_name(layer, batch, causal):
    return f"attention-{name_of(layer)}-b{batch}-{'causal' if causal else 'full'}"


def modules(suites):
    """(name, text, compiler options) of everything to compile."""
    if "parts" in suites:
        for layer, rng in GRID:
            # Masks are in the model already; one full one for comparison.
            for causal in (False, True) if (layer, rng) == GRID[0] else (True,):
                kind = "causal" if causal else "full"
                yield f"parts-{name_of(layer)}-{rng}-{kind}", parts_module(layer, rng, causal), []
    if "concurrent" in suites:
        for rng in CONCURRENT_RNGS:
            yield f"concurrent-{rng}", concurrent_module(rng), ["--fail-on-spills"]
    if "grid" in suites:
        for layer, rng in GRID:
            for alternative in ALTERNATIVES:
                name = f"grid-{name_of(layer)}-{rng}-{alternative}"
                yield name, layer_module(layer, "fwd", rng), [f"--dropout={alternative}"]
    if "attention" in suites:
        for layer, batch, _ in ATTENTION:
            for causal in (False, True):
                yield attention_name(layer, batch, causal), attention_module(layer, batch, causal), []
    if "layers" in suites:
        for model, layer in MODELS.items():
            modes = ("fwd", "train") if model == "llama3-8b" else ("fwd",)
            for mode in modes:
                yield f"{model}-{mode}-none", layer_module(layer, mode, "none"), []
                for rng in ("philox7", "arx6"):
                    for alternative in ALTERNATIVES:
                        name = f"{model}-{mode}-{rng}-{alternative}"
                        yield name, layer_module(layer, mode, rng), [f"--dropout={alternative}"]


def compile_artifacts(options):
    """Compiles what the suites need. Ends the program if a module does not compile."""
    compiler = harness.Compiler(options)
    for name, text, flags in modules(harness.split_list(options.suites)):
        if options.only not in name:
            continue
        print(name, file=sys.stderr, flush=True)
        error = compiler.compile(name, text, harness.OPTIONS["target"]["default"], *flags)
        if error:
            sys.exit(f"{error}\nerror: {name} does not compile")


def measure(torch, functions, rounds):
    """Median milliseconds of each function, timed alternately behind a sleep kernel; the first round warms up."""
    times = {name: [] for name in functions}
    for number in range(rounds + 1):
        for name, function in functions.items():
            ms = harness.time_once(torch, function)
            if number:
                times[name].append(ms)
    return {name: harness.median(values) for name, values in times.items()}


# Peers: their names in rows, their names in the harness, and their dropout.
PEERS = (("cudnn", "cudnn", P), ("fa2", "fa2", P), ("cudnn_nodrop", "cudnn", 0.0))


def predict(options):
    """Compares measured times of the alternatives with the estimates of attn-explain; returns whether they agree."""
    os.makedirs(options.artifacts, exist_ok=True)
    measured = {}
    with open(options.out) as file:
        for row in map(json.loads, file):
            if row.get("suite") == "grid":
                measured.setdefault((row["model"], row["rng"], row["N"]), {})[row["op"]] = row["ms"]
    names = {"attn": "in_kernel", "attn_sequential": "sequential", "attn_hoisted": "fused"}
    errors, points, right = [], 0, 0
    for layer, rng in GRID:
        source = os.path.join(options.artifacts, f"predict-{name_of(layer)}-{rng}.mlir")
        with open(source, "w") as file:
            file.write(layer_module(layer, "fwd", rng))
        for length in GRID_LENGTHS:
            times = measured.get((f"{name_of(layer)}", rng, length))
            if not times:
                continue
            passes = f"--attn-explain=format=json output=- target=sm_90a dynamic-size={length}"
            command = [options.predict, source, passes, "-o", os.devnull]
            text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            function = json.loads(text)["functions"][0]
            found = function["dropout"][0]
            both = {}
            for op, name in names.items():
                if op in times and found[name] is not None:
                    both[op] = times[op], found[name] * 1e3
            errors += [predicted / ms - 1 for ms, predicted in both.values()]
            fastest = min(both, key=lambda op: both[op][0])
            chosen = min(both, key=lambda op: both[op][1])
            # A choice is right if nothing is faster by more than the noise of repeats.
            good = both[chosen][0] <= 1.01 * both[fastest][0]
            points, right = points + 1, right + good
            print(f"{name_of(layer):20s} {rng:11s} N {length:6d} " + "  ".join(
                f"{op} {ms:.3f} ms, predicted {predicted:.3f} ({predicted / ms - 1:+.1%})"
                for op, (ms, predicted) in both.items()) + ("" if good else "  WRONG CHOICE"))
    worst = max(map(abs, errors), default=0.0)
    print(f"{points} points, {right} chosen right, largest error {worst:.1%}, "
          f"{sum(abs(e) <= 0.15 for e in errors)} of {len(errors)} within 15 %")
    return worst <= 0.15 and right >= 0.95 * points


class Runner:
    def __init__(self, torch, options):
        self.torch, self.options = torch, options
        self.artifacts, self.failures = harness.Artifacts(options), 0
        self.rows = harness.Rows(options, harness.describe_device(torch))
        self.peers = {peer.name for peer in harness.select_peers(options.peers, ("cudnn", "fa2"))}
        self.stream = harness.get_stream(torch)
        self.seed, self.offset = (torch.tensor(value, device=harness.DEVICE) for value in (42, 4))

    def find(self, name, function):
        return self.artifacts.load(name)[function] if name in self.artifacts else None

    def random(self, *shape):
        return self.torch.randn(*shape, device=harness.DEVICE, dtype=self.torch.bfloat16)

    def nan(self, *shape, dtype=None):
        return self.torch.full(shape, float("nan"), device=harness.DEVICE, dtype=dtype or self.torch.bfloat16)

    def mask(self, layer, length, kind):
        words = [32 * -(-length // 64), 4 * -(-length // 64)]
        shape = words if kind == "rows" else words[::-1]
        return self.torch.zeros(1, layer.heads, *shape, device=harness.DEVICE, dtype=self.torch.int32)

    def emit(self, name, times, **row):
        """Adds rows of an artifact and of its peers."""
        for op, ms in times.items():
            self.rows.add(self.artifacts.commit_of(name), op=op, **row, ms=ms)

    def report_failure(self, op, error):
        print(f"{op}: {(str(error).splitlines() or [type(error).__name__])[0]}", flush=True)

    def compare(self, what, results, tolerance=2e-2):
        """All of `results` (lists of tensors) are alike."""
        first, *others = results.items()
        for name, tensors in others:
            for number, (a, b) in enumerate(zip(first[1], tensors)):
                a, b = a.float(), b.float()
                error = ((a - b).norm() / a.norm()).item()
                if not error <= tolerance:
                    self.failures += 1
                    print(f"WRONG {what}: result {number} of {name} is {error:.3g} from that of {first[0]}", flush=True)

    def run_parts(self, layer, rng, causal, length):
        kind = "causal" if causal else "full"
        name = f"parts-{name_of(layer)}-{rng}-{kind}"
        if self.find(name, "gemm") is None:
            return
        shapes = [(1, heads, length, layer.dim) for heads in (layer.heads, layer.kv_heads, layer.kv_heads)]
        q, k, v = (self.random(*shape) for shape in shapes)
        dout = self.random(*shapes[0])
        x, w = self.random(length, layer.hidden), self.random(layer.columns, layer.hidden)
        y = self.nan(length, layer.columns)
        state = (self.seed, self.offset)
        bits = {kind: self.mask(layer, length, kind) for kind in ("rows", "columns")}
        runs = {"gemm": self.find(name, "gemm").bind(x, w, y, stream=self.stream)}
        for layout, tensor in bits.items():
            runs["mask_" + layout] = self.find(name, "mask_" + layout).bind(*state, tensor, stream=self.stream)
            runs["mask_" + layout]()
        extra = {"none": (), "kernel": state, "rows": (bits["rows"],), "columns": (bits["columns"],)}
        outs, lses, grads = {}, {}, {}
        for form, arguments in extra.items():
            if form == "columns":
                outs[form], lses[form] = outs["rows"], lses["rows"]
            else:
                outs[form], lses[form] = self.nan(*shapes[0]), self.nan(*shapes[0][:3], dtype=self.torch.float32)
                results = outs[form], lses[form]
                runs["fwd_" + form] = self.find(name, "fwd_" + form).bind(
                    q, k, v, *arguments, *results, stream=self.stream)
                runs["fwd_" + form]()
            grads[form] = [self.nan(*shape) for shape in shapes] if has_gradients(rng) else []
            if not grads[form]:
                continue
            runs["bwd_" + form] = self.find(name, "bwd_" + form).bind(
                q, k, v, outs[form], lses[form], dout, *arguments, *grads[form], stream=self.stream)
            runs["bwd_" + form]()
        harness.synchronize(self.torch)
        dropped = [form for form in extra if form != "none" and (form != "columns" or has_gradients(rng))]
        self.compare(f"{name} {length}", {f: [outs[f], lses[f], *grads[f]] for f in dropped})
        times = measure(self.torch, runs, self.options.rounds)
        self.emit(name, times, suite="parts", rng=rng, N=length, H=layer.heads, Hkv=layer.kv_heads, D=layer.dim,
                  C=layer.hidden, mask=kind, p=P)
        print(f"{name} {length}: " + " ".join(f"{op} {ms:.3f}" for op, ms in times.items()), flush=True)

    def run_attention(self, layer, batch, causal, length):
        name = attention_name(layer, batch, causal)
        if self.find(name, "fwd_none") is None:
            return
        shape = (batch, layer.heads, length, layer.dim)
        q, k, v, dout = (self.random(*shape) for _ in range(4))
        state = (self.seed, self.offset)
        bits = {kind: self.mask(layer, length, kind).repeat(batch, 1, 1, 1) for kind in ("rows", "columns")}
        for kind, tensor in bits.items():
            self.find(name, "mask_" + kind).bind(*state, tensor, stream=self.stream)()
        # The functions of attention and of its gradient, each with its arguments.
        kinds = ("none", ()), ("philox7", state), ("arx6", state)
        forms = {kind: 2 * [(kind, arguments)] for kind, arguments in kinds}
        forms["read"] = [(kind, (tensor,)) for kind, tensor in bits.items()]
        ops = {"none": "attn_nodrop", "philox7": "attn", "arx6": "attn", "read": "attn_hoisted"}
        runs, results = {"fwd": {}, "bwd": {}}, {}
        for kind, ((forward, arguments), (backward, others)) in forms.items():
            out, lse = self.nan(*shape), self.nan(*shape[:3], dtype=self.torch.float32)
            grads = [self.nan(*shape) for _ in range(3)]
            key = ops[kind], "arx6" if kind == "read" else kind
            runs["fwd"][key] = self.find(name, "fwd_" + forward).bind(
                q, k, v, *arguments, out, lse, stream=self.stream)
            runs["bwd"][key] = self.find(name, "bwd_" + backward).bind(
                q, k, v, out, lse, dout, *others, *grads, stream=self.stream)
            runs["fwd"][key]()
            runs["bwd"][key]()
            results[kind] = [out, lse, *grads]
        harness.synchronize(self.torch)
        self.compare(f"{name} {length}", {kind: results[kind] for kind in ("arx6", "read")})
        for op, peer, p in PEERS:
            if peer not in self.peers:
                continue
            problem = harness.Problem(q, k, v, causal=causal, dropout=p)
            try:
                runs["fwd"][op, "torch"] = harness.PEERS[peer].forward(problem)
                runs["bwd"][op, "torch"] = harness.PEERS[peer].backward(problem, dout)
            except RuntimeError as error:
                runs["fwd"].pop((op, "torch"), None)
                self.report_failure(op, error)
        for mode, functions in runs.items():
            times = measure(self.torch, functions, self.options.rounds)
            for (op, rng), ms in times.items():
                self.emit(name, {op: ms}, suite="attention", mode=mode, rng=rng, B=batch, H=layer.heads,
                          Hkv=layer.kv_heads, S=length, D=layer.dim, mask="causal" if causal else "full", p=P)
            text = " ".join(f"{op}/{rng} {ms:.3f}" for (op, rng), ms in times.items())
            print(f"{name} {length} {mode}: {text}", flush=True)

    def run_concurrent(self, length):
        m, n, k = CONCURRENT.values()
        x, w = self.random(m, k), self.random(n, k)
        state = (self.seed, self.offset)
        shape = (1, CONCURRENT_HEADS, 32 * -(-length // 64), 4 * -(-length // 64))
        runs = {}
        for rng in CONCURRENT_RNGS:
            name = f"concurrent-{rng}"
            if self.find(name, "gemm") is None:
                continue
            results = {}
            for kind in ("alone", *CONCURRENT_KINDS):
                y, bits = self.nan(m, n), self.torch.zeros(shape, device=harness.DEVICE, dtype=self.torch.int32)
                if kind == "alone":
                    if not runs:
                        runs["gemm", "none"] = self.find(name, "gemm").bind(x, w, y, stream=self.stream)
                    self.find(name, "gemm").bind(x, w, y, stream=self.stream)()
                    runs["mask", rng] = self.find(name, "mask_rows").bind(*state, bits, stream=self.stream)
                    runs["mask", rng]()
                else:
                    runs[kind, rng] = self.find(name, kind).bind(x, w, *state, y, bits, stream=self.stream)
                    runs[kind, rng]()
                results[kind] = y, bits
            harness.synchronize(self.torch)
            for kind, tensors in results.items():
                for what, one, other in zip(("matmul", "mask"), results["alone"], tensors):
                    if not self.torch.equal(one, other):
                        self.failures += 1
                        print(f"WRONG {name} {length}: the {what} of {kind} is not that of its own kernel", flush=True)
        if not runs:
            return
        times = measure(self.torch, runs, self.options.rounds)
        for (op, rng), ms in times.items():
            name = f"concurrent-{CONCURRENT_RNGS[0] if rng == 'none' else rng}"
            self.emit(name, {op: ms}, suite="concurrent", rng=rng, N=length, H=CONCURRENT_HEADS,
                      product=list(CONCURRENT.values()), p=P)
        print(f"concurrent {length}: " + " ".join(f"{op}/{rng} {ms:.3f}" for (op, rng), ms in times.items()),
              flush=True)

    def make_layer_peer(self, peer, p, layer, mode, length, x, w, dout):
        """A call of a layer whose GEMM is torch's."""
        torch = self.torch
        y = torch.empty(length, layer.columns, device=harness.DEVICE, dtype=torch.bfloat16)
        widths = [heads * layer.dim for heads in (layer.heads, layer.kv_heads, layer.kv_heads)]

        def split(tensor):
            return [part.view(1, length, -1, layer.dim).transpose(1, 2) for part in tensor.split(widths, 1)]

        attend = peer.prepare(harness.Problem(*split(y), causal=True, dropout=p))

        def run():
            torch.matmul(x, w.t(), out=y)
            parts = split(y)
            if mode == "train":
                parts = [part.detach().requires_grad_() for part in parts]
            out = attend(*parts)
            if mode == "train":
                torch.autograd.grad(out, parts, dout)

        return run

    def make_layer_peers(self, *layer):
        found = {}
        for op, peer, p in PEERS:
            if peer not in self.peers:
                continue
            run = self.make_layer_peer(harness.PEERS[peer], p, *layer)
            try:
                run()
                found[op] = run
            except RuntimeError as error:
                self.report_failure(op, error)
        return found

    def run_layer(self, suite, prefix, model, layer, mode, rngs, length, peers):
        names = {}
        x, w = self.random(length, layer.hidden), self.random(layer.columns, layer.hidden)
        # Projections of unit variance.
        w *= layer.hidden**-0.5
        shapes = [(1, heads, length, layer.dim) for heads in (layer.heads, layer.kv_heads, layer.kv_heads)]
        dout = self.random(*shapes[0])
        runs = {}
        for rng in rngs:
            results = {}
            for alternative in ALTERNATIVES if rng != "none" else ("",):
                name = "-".join(filter(None, (prefix, rng, alternative)))
                function = self.find(name, "layer")
                if function is None:
                    continue
                outputs = [self.nan(length, layer.columns), self.nan(*shapes[0]),
                           self.nan(*shapes[0][:3], dtype=self.torch.float32)]
                inputs = [x, w] + ([self.seed, self.offset] if rng != "none" else [])
                if mode == "train":
                    inputs.append(dout)
                    outputs += [self.nan(*shape) for shape in shapes]
                op = {"": "attn_nodrop", "in-kernel": "attn", "sequential": "attn_sequential", "fused": "attn_hoisted"}[
                    alternative]
                key = (op, rng)
                names[key] = name
                runs[key] = function.bind(*inputs, *outputs, stream=self.stream)
                runs[key]()
                results[op] = outputs
            harness.synchronize(self.torch)
            if len(results) > 1:
                self.compare(f"{prefix} {rng} {length}", results)
        if not runs:
            return
        if peers:
            found = self.make_layer_peers(layer, mode, length, x, w, dout)
            runs.update({(op, "torch"): run for op, run in found.items()})
        times = measure(self.torch, runs, self.options.rounds)
        for (op, rng), ms in times.items():
            # Rows of peers have the commit of the first artifact.
            name = names.get((op, rng), next(iter(names.values())))
            self.emit(name, {op: ms}, suite=suite, model=model, mode=mode, rng=rng, N=length, H=layer.heads,
                      Hkv=layer.kv_heads, D=layer.dim, C=layer.hidden, mask="causal", p=P)
        print(f"{prefix} {length}: " + " ".join(f"{op}/{rng} {ms:.3f}" for (op, rng), ms in times.items()), flush=True)


def make_parser():
    names = "compile-options", "only", "lengths", "peers", "rounds"
    parser = harness.make_parser(__doc__, *names, rounds=9)
    parser.add_argument("--predict", metavar="ATTN_OPT",
                        help="compare measured times of --out with predictions and stop")
    parser.add_argument("--suites", default="parts,grid,attention,layers",
                        help="parts, concurrent, grid, attention and layers, joined by commas")
    return parser


def main():
    options = make_parser().parse_args()
    if options.compile:
        compile_artifacts(options)
        return 0

    if options.predict:
        return 0 if predict(options) else 1

    import torch

    torch.manual_seed(0)
    suites = harness.split_list(options.suites)
    runner = Runner(torch, options)
    lengths = [int(length) for length in harness.split_list(options.lengths)]

    def pick(all_lengths):
        return [length for length in all_lengths if not lengths or length in lengths]

    for layer, rng in GRID:
        for length in pick(GRID_LENGTHS):
            if "parts" in suites:
                for causal in (False, True):
                    runner.run_parts(layer, rng, causal, length)
            if "grid" in suites:
                name = name_of(layer)
                runner.run_layer("grid", f"grid-{name}", name, layer, "fwd", [rng], length, peers=False)
    if "concurrent" in suites:
        for length in pick(CONCURRENT_LENGTHS):
            runner.run_concurrent(length)
    if "attention" in suites:
        for layer, batch, length in ATTENTION:
            for causal in (False, True):
                runner.run_attention(layer, batch, causal, length)
    if "layers" in suites:
        for model, layer in MODELS.items():
            for mode in ("fwd", "train"):
                for length in pick(LENGTHS if mode == "fwd" else TRAIN_LENGTHS):
                    rngs = ["none", "philox7", "arx6"]
                    runner.run_layer("layers", f"{model}-{mode}", model, layer, mode, rngs, length, peers=True)
    return 1 if runner.failures else 0


if __name__ == "__main__":
    sys.exit(main())
