#!/usr/bin/env python3
# ===- linear_attention.py - Linear attention, timed on a GPU ------------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Times causal linear attention without decay, with a decay of each head, token or key element, and with the delta rule
(without decay, with one of each token or key element), the gradients of each, and decode steps, next to fla-core.

    linear_attention.py --compile build/bin/attn-compile --artifacts DIR
    linear_attention.py --artifacts DIR --runtime libattn_runtime.so --out benchmarks/results/linear.jsonl

There are 16 heads of a head dim, and batch entries of 32k tokens together, or one sequence; or one head of one long
sequence. Positions come before heads in memory, as fla-core has them. fla-core (kernels of Triton) is timed if it can
be imported. Gradients are those of all inputs but decays of heads, by a call of a backward function, which computes
states again in both.

A decode step has one token of each batch entry. It reads and writes the states of 16 heads, in place; fla-core writes
new ones. A call is one step of several layers, so many that their states exceed the L2 cache. A copy of the states of
each layer, by torch, reads and writes as many bytes with as many launches: it is timed in turn with both.

Sequences of one length are also packed in one batch entry ("packed"), with boundaries (fla-core's `cu_seqlens`) and a
state for each, which is updated in place. Those of one token are a decode step.
"""

import importlib
import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402

DIMS = (64, 128)
# Linear attention, with decays; DeltaNet, gated DeltaNet and Kimi delta attention.
KINDS = ("plain", "head", "token", "element", "delta", "gated", "kimi")
MODES = ("fwd", "bwd")
# Heads and batch entries of decode steps, and the bytes that states of the layers exceed, with at most so many layers.
DECODE_CASES = ((16, 1), (16, 16), (16, 64))
LAYER_BYTES, MAX_LAYERS = 2**29, 64
# Heads, batch entries and length. One sequence of 8192 tokens is there to compare the time of a token with long ones.
CASES = ((16, 8, 4096), (16, 4, 8192), (16, 1, 8192), (16, 1, 32768), (16, 1, 65536), (16, 1, 131072), (1, 1, 262144))
# Heads, packed sequences and the length of each.
PACKED_CASES = ((16, 32, 1024), (16, 1, 32768), (16, 64, 1))
# Relative error of rows that is allowed.
MAX_ERROR = 1e-2
# Relative difference of gradients to the gradients of fla-core that is allowed.
MAX_DIFFERENCE = 2e-2
# Tokens of the delta rule that are checked, one after the other.
CHECKED_TOKENS = 1024


def get_decay(kind):
    return {"gated": "token", "kimi": "element", "plain": "", "delta": ""}.get(kind, kind)


def has_beta(kind):
    return kind in ("delta", "gated", "kimi")


def make_gradient(heads, dim, kind):
    """The module of a gradient of all inputs."""
    rows, tokens = f"tensor<?x{heads}x?x{dim}xbf16>", f"tensor<?x{heads}x?xf32>"
    decay = get_decay(kind)
    elements = f"tensor<?x{heads}x?x{dim}xf32>"
    decays = {"head": f"tensor<{heads}xf32>", "token": tokens, "element": elements}
    extra = {"log_decay": decays[decay]} if decay else {}
    extra.update({"beta": tokens} if has_beta(kind) else {})
    # Decays of heads are constants of models.
    given = {"query": rows, "key": rows, "value": rows, "dout": rows, **extra}
    made = {"dquery": rows, "dkey": rows, "dvalue": rows}
    made.update({f"d{name}": type for name, type in extra.items() if decay != "head"})
    arguments = ", ".join(f"%{name}: {type}" for name, type in {**given, **made}.items())
    clauses = [f"{name}(%{name} : {type})" for name, type in [*list(given.items())[4:], *list(made.items())[3:]]]
    results = ", ".join(made.values())
    return f"""func.func @linear_attention({arguments}) -> ({results}) {{
  %r:{len(made)} = attn.linear_attention_grad
      ins(%query, %key, %value, %dout : {rows}, {rows}, {rows}, {rows})
      outs(%dquery, %dkey, %dvalue : {rows}, {rows}, {rows})
      {" ".join(clauses)} causal -> {results}
  return {", ".join(f"%r#{number}" for number in range(len(made)))} : {results}
}}
"""


def module(heads, dim, kind, mode):
    from attn import LinearAttention

    if mode == "bwd":
        return make_gradient(heads, dim, kind)
    states = {name: mode != "fwd" for name in ("initial_state", "with_final_state", "in_place")}
    return LinearAttention(
        "bf16", heads, heads, heads, dim, decay=get_decay(kind), beta=has_beta(kind),
        sequences=mode == "packed", **states,
    ).mlir()  # fmt: skip


def make_modules():
    modes = [(mode, case[0]) for mode in MODES for case in CASES]
    modes += [(mode, case[0]) for mode, cases in (("decode", DECODE_CASES), ("packed", PACKED_CASES)) for case in cases]
    return {f"{kind}_{mode}_h{heads}_d{dim}": module(heads, dim, kind, mode) for mode, heads in dict.fromkeys(modes)
            for dim in DIMS for kind in KINDS}  # fmt: skip


def make_inputs(torch, batch, length, heads, dim, kind):
    """Queries, keys and values, positions before heads, and by name log-decays and betas."""
    def normal(*shape):
        return torch.randn(*shape, device=harness.DEVICE)

    inputs = {name: normal(batch, length, heads, dim).to(torch.bfloat16) for name in ("query", "key", "value")}
    inputs["key"] = torch.nn.functional.normalize(inputs["key"].float(), dim=-1).to(torch.bfloat16)
    if get_decay(kind):
        shape = (heads,) if kind == "head" else (batch, length, heads)
        shape += (dim,) * (get_decay(kind) == "element")
        inputs["log_decay"] = torch.nn.functional.logsigmoid(normal(*shape) + 4)
    if has_beta(kind):
        inputs["beta"] = normal(batch, length, heads).sigmoid()
    return inputs


def find_error(torch, actual, expected):
    error = ((actual - expected).norm() / expected.norm()).item()
    return math.inf if math.isnan(error) else error


def check_delta_rule(torch, inputs, out):
    """Relative error of the first rows of one head of all batch entries against float64."""
    length, head = min(CHECKED_TOKENS, out.shape[1]), out.shape[2] - 1
    q, k, v, beta = (inputs[name][:, :length, head].double() for name in ("query", "key", "value", "beta"))
    decays = inputs["log_decay"][:, :length, head].double().exp() if "log_decay" in inputs else torch.ones_like(beta)
    # Of elements, or one for all of them.
    decays = decays.reshape(len(q), length, -1, 1)
    state, rows = q.new_zeros(len(q), q.shape[2], v.shape[2]), []
    for t in range(length):
        state = state * decays[:, t]
        update = beta[:, t, None] * (v[:, t] - torch.einsum("bkv,bk->bv", state, k[:, t]))
        state = torch.baddbmm(state, k[:, t, :, None], update[:, None])
        rows.append(torch.einsum("bkv,bk->bv", state, q[:, t]) / math.sqrt(q.shape[2]))
    return find_error(torch, out[:, :length, head].double(), torch.stack(rows, 1))


def check(torch, inputs, out, count=16):
    """Relative error of some rows of the output against float64."""
    if bool(out.isnan().any()):
        return math.inf
    if "beta" in inputs:
        return check_delta_rule(torch, inputs, out)
    q, k, v = (inputs[name] for name in ("query", "key", "value"))
    batch, length, heads, dim = q.shape
    generator = torch.Generator().manual_seed(0)
    expected, actual = [], []
    for number in range(count):
        b, h, i = (torch.randint(limit, (1,), generator=generator).item() for limit in (batch, heads, length))
        i = (0, length - 1, i)[min(number, 2)]
        products = k[b, : i + 1, h].double() * q[b, i, h].double() / math.sqrt(dim)
        if "log_decay" in inputs:
            decay = inputs["log_decay"].double()
            sums = (decay[h] * torch.arange(1, i + 2, device=q.device) if decay.dim() == 1
                    else decay[b, : i + 1, h].cumsum(0))  # fmt: skip
            products = products * (sums[-1] - sums).exp().reshape(i + 1, -1)
        scores = products.sum(-1)
        expected.append(scores @ v[b, : i + 1, h].double())
        actual.append(out[b, i, h].double())
    return find_error(torch, torch.stack(actual), torch.stack(expected))


def import_fla(kind):
    """A function of fla-core from queries, keys, values, log-decays and betas to an output, or None."""
    try:
        from fla.ops.delta_rule import chunk_delta_rule
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule
        from fla.ops.gla import chunk_gla
        from fla.ops.kda import chunk_kda
        from fla.ops.linear_attn import chunk_linear_attn
        from fla.ops.simple_gla import chunk_simple_gla
    except ImportError as error:
        print(f"peer fla is left out: {error}", file=sys.stderr)
        return None
    return {
        "plain": lambda q, k, v: chunk_linear_attn(q, k, v, normalize=False)[0],
        "head": lambda q, k, v, log_decay: chunk_simple_gla(q, k, v, g_gamma=log_decay)[0],
        "token": lambda q, k, v, log_decay: chunk_simple_gla(q, k, v, g=log_decay)[0],
        "element": lambda q, k, v, log_decay: chunk_gla(q, k, v, log_decay)[0],
        "delta": lambda q, k, v, beta: chunk_delta_rule(q, k, v, beta)[0],
        "gated": lambda q, k, v, log_decay, beta: chunk_gated_delta_rule(q, k, v, log_decay, beta)[0],
        "kimi": lambda q, k, v, log_decay, beta: chunk_kda(q, k, v, log_decay, beta)[0],
    }[kind]


def import_fla_with_state(kind, form, boundaries=None):
    """A function of fla-core, `fused_recurrent` or `chunk`, from queries, keys, values, log-decays, betas and a state,
    or None. With `boundaries`, sequences are packed."""
    name, decay = {
        # Its functions without decays take no boundaries, and functions with decays take none of these.
        "plain": ("linear_attn" if boundaries is None else "simple_gla", ""),
        "head": ("simple_gla", "g_gamma"),
        "token": ("simple_gla", "g"),
        "element": ("gla", "gk" if form == "fused_recurrent" else "g"),
        "delta": ("delta_rule", ""),
        "gated": ("gated_delta_rule", "g"),
        "kimi": ("kda", "g"),
    }[kind]
    try:
        function = getattr(importlib.import_module(f"fla.ops.{name}"), f"{form}_{name}")
    except ImportError as error:
        print(f"peer fla is left out: {error}", file=sys.stderr)
        return None
    names = {"query": "q", "key": "k", "value": "v", "log_decay": decay}
    options = {} if boundaries is None else {"cu_seqlens": boundaries.long()}

    def step(inputs, state):
        named = {names.get(name, name): tensor for name, tensor in inputs.items()}
        return function(**named, initial_state=state, output_final_state=True, **options)

    return step


def compute_step(torch, inputs, state):
    """The output and the final state of one token in float64."""
    q, k, v = (inputs[name][:, 0].double() for name in ("query", "key", "value"))
    state = state.double()
    if "log_decay" in inputs:
        decay = inputs["log_decay"].double().exp()
        decay = decay.expand(len(q), -1) if decay.dim() == 1 else decay[:, 0]
        state = state * decay.reshape(*q.shape[:2], -1, 1)
    if "beta" in inputs:
        v = inputs["beta"][:, 0, :, None].double() * (v - torch.einsum("bhkv,bhk->bhv", state, k))
    state = state + k[..., None] * v[..., None, :]
    return torch.einsum("bhkv,bhk->bhv", state, q)[:, None] / math.sqrt(q.shape[-1]), state


def pack(torch, inputs):
    """The sequences of all batch entries, packed in one, and their boundaries."""
    count, length = inputs["query"].shape[:2]
    packed = {name: tensor if tensor.dim() == 1 else tensor.flatten(0, 1)[None] for name, tensor in inputs.items()}
    boundaries = torch.arange(count + 1, dtype=torch.int32, device=harness.DEVICE) * length
    return packed, boundaries


def measure_steps(torch, options, function, inputs, kind, is_packed):
    """Milliseconds by Attn and by fla-core of a step of one token, and of a copy of its states, or of packed sequences,
    the error of Attn, and the bytes of all states of a layer."""
    batch, length, heads, dim = inputs["query"].shape
    size = 4 * batch * heads * dim * dim
    # Longer sequences read much else.
    layers = min(MAX_LAYERS, math.ceil(LAYER_BYTES / size)) if length == 1 else 1
    random = torch.randn if length == 1 else torch.zeros
    states = [random(batch, heads, dim, dim, device=harness.DEVICE) for _ in range(layers)]
    before = states[0].clone()
    given, boundaries = pack(torch, inputs) if is_packed else (inputs, None)
    calls = []
    for state in states:
        run, filled = prepare_attn(torch, function, given, "decode", given["value"], state, boundaries)
        calls.append((run, filled))

    def run_all():
        for run, _ in calls:
            run()

    run_all()
    harness.synchronize(torch)
    out = calls[0][1][0].reshape(inputs["value"].shape)
    if length == 1:
        expected = compute_step(torch, inputs, before)
        error = max(find_error(torch, *pair) for pair in zip((out.double(), states[0].double()), expected))
    else:
        error = check(torch, inputs, out)
    runs = {"attn": run_all}
    if not is_packed:
        copies = [torch.empty_like(state) for state in states]
        runs["copy"] = lambda: [copy.copy_(state) for copy, state in zip(copies, states)]
    form = "fused_recurrent" if length == 1 else "chunk"
    step = import_fla_with_state(kind, form, boundaries) if options.peers != "none" else None
    if step:
        def run_fla():
            for state in states:
                step(given, state)

        try:
            run_fla()
            runs["fla"] = run_fla
        except Exception as problem:  # Peers are not ours: whatever is wrong with one is reported.
            print(f"peer fla failed: {(str(problem).splitlines() or [type(problem).__name__])[0]}", file=sys.stderr)
    # Launches of all layers are queued before the clock starts.
    times = harness.time_in_turn(torch, runs, options.repeats, options.rounds, harness.median, sleep=20_000_000)
    return {op: ms / layers for op, ms in times.items()}, error, size


def prepare_fla(torch, inputs, kind, mode, dout):
    """A call of fla-core, or None where it is missing."""
    function = import_fla(kind)
    if function is None or mode == "fwd":
        return function and (lambda: function(*inputs.values()))
    leaves = [tensor.detach().requires_grad_(kind != "head" or tensor.dim() > 1) for tensor in inputs.values()]
    out, wanted = function(*leaves), [leaf for leaf in leaves if leaf.requires_grad]
    return lambda: torch.autograd.grad(out, wanted, dout, retain_graph=True)


def prepare_attn(torch, function, inputs, mode, dout, state=None, boundaries=None):
    """A call of Attn, and the tensors that it fills; `state` is updated in place. With `boundaries`, sequences are
    packed."""
    def order(tensor):
        return tensor.transpose(1, 2) if tensor.dim() == 4 else tensor

    arguments = {name: tensor.transpose(1, 2).contiguous() if tensor.dim() == 3 else order(tensor)
                 for name, tensor in inputs.items()}  # fmt: skip
    if mode != "bwd":
        filled = [torch.full_like(dout, math.nan)]
        arguments.update({} if state is None else {"initial_state": state})
        arguments.update({} if boundaries is None else {"sequences": boundaries})
    else:
        filled = [torch.full_like(tensor, math.nan) for tensor in inputs.values()][:3]
        filled += [torch.full_like(inputs[name] if tensor.dim() == 4 else tensor, math.nan)
                   for name, tensor in list(arguments.items())[3:] if tensor.dim() > 1]  # fmt: skip
        arguments = {**dict(list(arguments.items())[:3]), "dout": order(dout), **arguments}
    run = function.bind(*arguments.values(), *map(order, filled), stream=harness.get_stream(torch))
    return run, filled


def check_gradients(torch, kind, inputs, made, dout):
    """The largest relative difference to the gradients of fla-core, or None."""
    peer = prepare_fla(torch, inputs, kind, "bwd", dout)
    if peer is None:
        return None
    worst = 0.0
    for actual, expected in zip(made, peer()):
        expected = expected.transpose(1, 2) if expected.dim() == 3 else expected
        worst = max(worst, find_error(torch, actual.double(), expected.double()))
    return worst


def make_parser():
    return harness.make_parser(__doc__, "rounds", "repeats", "peers", "only", "lengths", "target", rounds=3, repeats=9)


def measure(torch, options, function, inputs, kind, mode):
    """Milliseconds of Attn and of fla-core, and the error of Attn."""
    dout = torch.randn_like(inputs["value"])
    runs, error = {}, None
    runs["attn"], filled = prepare_attn(torch, function, inputs, mode, dout)
    runs["attn"]()
    harness.synchronize(torch)
    if mode == "fwd":
        error = check(torch, inputs, filled[0])
    if options.peers != "none":
        try:
            peer = prepare_fla(torch, inputs, kind, mode, dout)
            if peer:
                peer()
                runs["fla"] = peer
            if peer and mode == "bwd":
                error = check_gradients(torch, kind, inputs, filled, dout)
        except Exception as problem:  # Peers are not ours: whatever is wrong with one is reported.
            print(f"peer fla failed: {(str(problem).splitlines() or [type(problem).__name__])[0]}", file=sys.stderr)
    return harness.time_in_turn(torch, runs, options.repeats, options.rounds, harness.median), error


def make_cases(options):
    lengths = harness.split_list(options.lengths)
    for heads, batch, length in CASES:
        if lengths and str(length) not in lengths:
            continue
        for dim in DIMS:
            for kind in KINDS:
                for mode in MODES:
                    name = f"{kind}_{mode}_h{heads}_d{dim}"
                    if options.only in name:
                        yield name, heads, batch, length, dim, kind, mode


def make_decode_cases(options):
    for heads, batch in DECODE_CASES:
        for dim in DIMS:
            for kind in KINDS:
                name = f"{kind}_decode_h{heads}_d{dim}"
                if options.only in name and not options.lengths:
                    yield name, heads, batch, dim, kind


def make_packed_cases(options):
    lengths = harness.split_list(options.lengths)
    for heads, number, length in PACKED_CASES:
        for dim in DIMS:
            for kind in KINDS:
                name = f"{kind}_packed_h{heads}_d{dim}"
                if options.only in name and (not lengths or str(length) in lengths):
                    yield name, heads, number, length, dim, kind


def run_packed(torch, options, rows, artifacts):
    """Adds rows of packed sequences; gives how many times faster Attn is than fla-core."""
    ratios = []
    for name, heads, number, length, dim, kind in make_packed_cases(options):
        inputs = make_inputs(torch, number, length, heads, dim, kind)
        function = artifacts.load(name)["linear_attention"]
        times, error, size = measure_steps(torch, options, function, inputs, kind, is_packed=True)
        if not error <= MAX_ERROR:
            sys.exit(f"error: {name} of {number} sequences of {length} tokens has an error of {error:.2e}")
        # Queries, keys, values and outputs, and states, are read or written once.
        gigabytes = (8 * number * length * heads * dim + 2 * size) / 1e9
        line = f"{name:18s} {number:3d} x {length:6d} packed"
        for op, ms in times.items():
            own = {"error": error} if op == "attn" else {}
            rate = gigabytes / ms * 1e3
            rows.add(artifacts.commit_of(name), op=op, mode="packed", B=number, H=heads, S=length, D=dim, decay=kind,
                     ms=ms, gbytes=rate, **own)  # fmt: skip
            line += f"  {op} {ms:8.4f} ms {rate:7.0f} GB/s"
        if "fla" in times:
            ratios.append(times["fla"] / times["attn"])
            line += f"  {ratios[-1]:.2f}x"
        print(f"{line}  error {error:.1e}", flush=True)
    return ratios


def run_decode(torch, options, rows, artifacts):
    """Adds rows of decode steps; gives how many times faster Attn is than fla-core."""
    ratios = []
    for name, heads, batch, dim, kind in make_decode_cases(options):
        inputs = make_inputs(torch, batch, 1, heads, dim, kind)
        function = artifacts.load(name)["linear_attention"]
        times, error, size = measure_steps(torch, options, function, inputs, kind, is_packed=False)
        if not error <= MAX_ERROR:
            sys.exit(f"error: {name} of {batch} entries has an error of {error:.2e}")
        line = f"{name:18s} {batch:3d} entries"
        # States are read and written once.
        copied = 2 * size / times.pop("copy") / 1e6
        for op, ms in times.items():
            rate = 2 * size / ms / 1e6
            own = {"error": error} if op == "attn" else {}
            rows.add(artifacts.commit_of(name), op=op, mode="decode", B=batch, H=heads, S=1, D=dim, decay=kind, ms=ms,
                     gbytes=rate, copy_gbytes=copied, **own)  # fmt: skip
            line += f"  {op} {ms * 1e3:7.2f} us {rate:5.0f} GB/s ({rate / copied:.0%} of a copy)"
        if "fla" in times:
            ratios.append(times["fla"] / times["attn"])
            line += f"  {ratios[-1]:.2f}x"
        print(f"{line}  error {error:.1e}", flush=True)
    return ratios


def main():
    options = make_parser().parse_args()
    if options.compile:
        harness.compile_modules(options, make_modules())
        return 0

    import torch

    torch.manual_seed(0)
    rows, artifacts = harness.Rows(options, harness.describe_device(torch), suite="linear"), harness.Artifacts(options)
    ratios = []
    for name, heads, batch, length, dim, kind, mode in make_cases(options):
        inputs = make_inputs(torch, batch, length, heads, dim, kind)
        function = artifacts.load(name)["linear_attention"]
        times, error = measure(torch, options, function, inputs, kind, mode)
        if error is not None and not error <= (MAX_ERROR if mode == "fwd" else MAX_DIFFERENCE):
            sys.exit(f"error: {name} of {batch} x {length} tokens has an error of {error:.2e}")
        # Queries, keys, values and outputs, and their gradients, are read or written once.
        gigabytes = (4 if mode == "fwd" else 7) * 2 * batch * length * heads * dim / 1e9
        line = f"{name:18s} {batch:3d} x {length:6d}"
        for op, ms in times.items():
            own = {"error": error} if op == "attn" and error is not None else {}
            rate = gigabytes / ms * 1e3
            rows.add(artifacts.commit_of(name), op=op, mode=mode, B=batch, H=heads, S=length, D=dim, decay=kind, ms=ms,
                     gbytes=rate, **own)  # fmt: skip
            line += f"  {op} {ms:8.4f} ms {rate:7.0f} GB/s"
        if "fla" in times:
            ratios.append(times["fla"] / times["attn"])
            line += f"  {ratios[-1]:.2f}x"
        print(line + (f"  error {error:.1e}" if error is not None else ""), flush=True)
    ratios += run_decode(torch, options, rows, artifacts)
    ratios += run_packed(torch, options, rows, artifacts)
    if ratios:
        harness.print_means({"fla": ratios})
    return 0


if __name__ == "__main__":
    sys.exit(main())
