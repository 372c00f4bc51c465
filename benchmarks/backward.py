#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of attention on a GPU, beside cuDNN and FlashAttention-2 through torch in the same run.

    python3 benchmarks/backward.py --compile BUILD/bin/attn-compile --artifacts DIR
    python3 benchmarks/backward.py --artifacts DIR [--out ROWS.jsonl] [--only NAME] [--lengths 1024,16384]

The first form compiles the artifacts and needs no GPU. The second one needs torch, but no compiler. Each case is checked against
float64 for a few rows of queries and of keys before it is timed; out and its log-sum-exp are inputs and are not timed.
"""

import argparse
import datetime
import json
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from cases import Case  # noqa: E402
from forward import GROUPS, compile_modules, median_ms  # noqa: E402


def compile_artifacts(options, groups):
    modules = {case.name: case.grad_mlir(options.deterministic) for group in groups for case, _, _ in GROUPS[group]()}
    compile_modules(options.compile, options.artifacts, modules, options.compile_options.split(), options.target)


def check_rows(torch, case, q, k, v, dout, lse, out, grads, count=32, keep=None):
    """Relative error of some rows of each gradient, against float64. `keep` is the mask if it is not causal or full."""
    B, H, Sq, D = q.shape
    Skv = k.shape[2]
    group = case.heads // case.kv_heads
    scale = 1 / math.sqrt(D)
    if keep is None and case.mask:
        keep = lambda i, j: j <= i + (Skv - Sq)  # noqa: E731
    generator = torch.Generator().manual_seed(0)

    def pick(limit):
        return torch.randint(limit, (count,), generator=generator).tolist()

    def weights(b, h, rows, columns):
        """Weights of rows of queries and keys, and the gradients of scores."""
        qr, kr, vr = q[b, h, rows].double(), k[b, h // group, columns].double(), v[b, h // group, columns].double()
        do = dout[b, h, rows].double()
        scores = qr @ kr.T * scale
        if keep is not None:
            i = torch.arange(Sq, device=q.device)[rows][:, None]
            j = torch.arange(Skv, device=q.device)[columns][None, :]
            scores.masked_fill_(~keep(i, j), float("-inf"))
        p = (scores - lse[b, h, rows].double()[:, None]).exp()
        delta = (do * out[b, h, rows].double()).sum(-1, keepdim=True)
        return p, p * (do @ vr.T - delta) * scale, qr, kr, do

    errors = []
    expected = {"dq": [], "dk": [], "dv": []}
    actual = {"dq": [], "dk": [], "dv": []}
    for b, h, i, j in zip(pick(B), pick(H), [0, Sq - 1] + pick(Sq), [0, Skv - 1] + pick(Skv)):
        _, ds, _, kr, _ = weights(b, h, slice(i, i + 1), slice(None))
        expected["dq"].append((ds @ kr)[0])
        actual["dq"].append(grads[0][b, h, i].double())
        dk = dv = 0
        for member in range(h // group * group, h // group * group + group):
            p, ds, qr, _, do = weights(b, member, slice(None), slice(j, j + 1))
            dk, dv = dk + (ds.T @ qr)[0], dv + (p.T @ do)[0]
        expected["dk"].append(dk)
        expected["dv"].append(dv)
        actual["dk"].append(grads[1][b, h // group, j].double())
        actual["dv"].append(grads[2][b, h // group, j].double())
    for name in expected:
        e, a = torch.stack(expected[name]), torch.stack(actual[name])
        errors.append(((a - e).norm() / e.norm()).item())
    if any(math.isnan(error) for error in errors) or any(grad.isnan().any().item() for grad in grads):
        return float("inf")
    return max(errors)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", required=True, help="directory of compiled artifacts")
    parser.add_argument("--compile", metavar="ATTN_COMPILE", help="compile the artifacts with this compiler and stop")
    parser.add_argument("--compile-options", default="", help="further options for the compiler")
    parser.add_argument("--target", default="sm_90a", help="what to compile for")
    parser.add_argument("--deterministic", action="store_true", help="deterministic gradients, in rows of a mode of their own")
    parser.add_argument("--groups", default="dense,gqa", help="groups of cases: " + ",".join(GROUPS))
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--lengths", default="", help="only these lengths, joined by commas")
    parser.add_argument("--peers", default="cudnn,fa2", help="cudnn,fa2 or empty")
    parser.add_argument("--runtime", default="libattn_runtime.so", help="the runtime library")
    parser.add_argument("--out", help="file to append rows to")
    parser.add_argument("--commit", default="", help="commit that the artifacts were built from")
    parser.add_argument("--repeats", type=int, default=11)
    options = parser.parse_args()
    groups = options.groups.split(",")
    if options.compile:
        compile_artifacts(options, groups)
        return 0

    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from attn.artifact import Artifact

    backends = {"cudnn": SDPBackend.CUDNN_ATTENTION, "fa2": SDPBackend.FLASH_ATTENTION}
    peers = [peer for peer in options.peers.split(",") if peer]
    lengths = [int(length) for length in options.lengths.split(",") if length]
    stamp = dict(
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        device=torch.cuda.get_device_name(0),
        commit=options.commit,
    )
    if options.target != "sm_90a":
        stamp.update(target=options.target, schedule="")
    torch.manual_seed(0)
    failures, ratios, artifacts = 0, [], {}
    for group in groups:
        for case, B, S in GROUPS[group]():
            if options.only not in case.name or (lengths and S not in lengths):
                continue
            if case.name not in artifacts:
                artifacts[case.name] = Artifact(os.path.join(options.artifacts, case.name + ".so"), options.runtime)
            H, Hkv, D = case.heads, case.kv_heads, case.qk_dim
            causal = bool(case.mask)
            q, dout = (torch.randn(B, H, S, D, device="cuda", dtype=torch.bfloat16) for _ in range(2))
            k, v = (torch.randn(B, Hkv, S, D, device="cuda", dtype=torch.bfloat16) for _ in range(2))
            # Flash attention gives out and its log-sum-exp.
            heads = (x.repeat_interleave(H // Hkv, 1) for x in (k, v))
            out, lse = torch.ops.aten._scaled_dot_product_flash_attention(q, *heads, 0.0, causal)[:2]
            grads = [torch.full_like(x, float("nan")) for x in (q, k, v)]
            stream = torch.cuda.current_stream().cuda_stream
            run = artifacts[case.name][case.name].bind(q, k, v, out, lse, dout, *grads, stream=stream)
            run()
            torch.cuda.synchronize()
            error = check_rows(torch, case, q, k, v, dout, lse, out, grads)
            good = error < 1e-2
            failures += not good
            flops = 10.0 * B * H * S * S * D * (0.5 if causal else 1.0)
            mode = "bwd_deterministic" if options.deterministic else "bwd"
            row = dict(mode=mode, B=B, H=H, Hkv=Hkv, S=S, D=D, causal=causal, p=0.0, mask="causal" if causal else "full")

            def make_peer(backend):
                inputs = [x.detach().clone().requires_grad_(True) for x in (q, k, v)]
                with sdpa_kernel(backend):
                    result = F.scaled_dot_product_attention(*inputs, is_causal=causal, enable_gqa=H != Hkv)
                return lambda: torch.autograd.grad(result, inputs, dout, retain_graph=True)

            # Two rounds in turn, the better one of each: nobody has the cooler GPU.
            runs = {"attn": run, **{peer: make_peer(backends[peer]) for peer in peers}}
            times = {}
            for _ in range(2):
                for op, fn in runs.items():
                    times[op] = min(times.get(op, math.inf), median_ms(torch, fn, options.repeats, warmup=2))
            rows = [dict(op=op, **row, ms=ms, tflops=flops / ms / 1e9, **stamp) for op, ms in times.items()]
            rows[0].update(error=error)
            text = f"{case.name:32s} B{B:<3d} S{S:<6d} attn {rows[0]['tflops']:6.1f} TF"
            for peer_row in rows[1:]:
                ratio = rows[0]["tflops"] / peer_row["tflops"]
                text += f"  {peer_row['op']} {peer_row['tflops']:6.1f} ({ratio:.3f}x)"
                if peer_row["op"] == "cudnn" and group == "dense":
                    ratios.append(ratio)
            print(f"{text}  error {error:.1e}{'' if good else '  WRONG'}", flush=True)
            if options.out:
                with open(options.out, "a") as file:
                    for r in rows:
                        file.write(json.dumps(r) + "\n")
            del q, k, v, out, lse, dout, grads, run, runs
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{len(ratios)} dense cases: geometric mean {mean:.3f}x cuDNN, worst {min(ratios):.3f}x")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
