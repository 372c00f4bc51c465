#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times forward attention beside its peers and appends rows to a results file.

    python3 benchmarks/forward.py --compile BUILD/bin/attn-compile --artifacts DIR
    python3 benchmarks/forward.py --artifacts DIR [--groups dense,gqa] [--out FILE]

The first form compiles the artifacts and needs no GPU; the second runs them
beside cuDNN, FlashAttention-2 and FlexAttention (through torch) in one process and needs no
compiler. Each case is first checked: some rows of the output, which is filled
with NaN before, against float64. FLOPs: 4*B*H*D*area, area S*S or half of it
when causal. Times are medians of CUDA events behind a sleep kernel.
"""

import argparse
import datetime
import json
import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from cases import SCORES, Case, make_captures  # noqa: E402

LENGTHS = (1024, 2048, 4096, 8192, 16384)


def dense_cases():
    """(case, batch, length) of 16384 tokens and a hidden size of 2048."""
    for dim in (64, 128, 256):
        for mask in ("", "#attn.causal"):
            for length in LENGTHS:
                yield Case(2048 // dim, 2048 // dim, dim, dim, mask=mask), 16384 // length, length


def gqa_cases():
    yield Case(64, 8, 128, 128, mask="#attn.causal"), 1, 16384
    yield Case(32, 8, 128, 128, mask="#attn.causal"), 2, 8192


def mods_cases():
    """Score changes, beside no change."""
    for score in ("", *SCORES):
        yield Case(16, 16, 128, 128, score=score), 4, 4096


GROUPS = {"dense": dense_cases, "gqa": gqa_cases, "mods": mods_cases}


def compile_modules(compiler, directory, modules, extra, target="sm_90a"):
    """Compiles `modules`, by the name of the artifact."""
    os.makedirs(directory, exist_ok=True)
    for i, (name, text) in enumerate(modules.items()):
        print(f"[{i + 1}/{len(modules)}] {name}", file=sys.stderr)
        source = os.path.join(directory, name + ".mlir")
        with open(source, "w") as file:
            file.write(text)
        output = os.path.join(directory, name + ".so")
        subprocess.run([compiler, source, "-o", output, f"--target={target}", *extra], check=True)


def compile_artifacts(compiler, directory, groups, extra):
    modules = {case.name: case.mlir() for group in groups for case, _, _ in GROUPS[group]()}
    compile_modules(compiler, directory, modules, extra)


def median_ms(torch, fn, repeats, warmup=3, sleep=1_000_000):
    """Median milliseconds that the GPU spends in fn(). A sleep kernel of ``sleep`` clocks goes first, so that all launches are
    queued before the clock starts and the overhead of Python is charged to nobody."""
    for _ in range(warmup):
        fn()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(sleep)
        begin.record()
        fn()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def check_rows(torch, case, captures, q, k, v, out, lse, count=64):
    """Relative error of some rows of the output, and largest error of their log-sum-exp, against float64."""
    B, H, Sq, D = q.shape
    Skv = k.shape[2]
    generator = torch.Generator().manual_seed(0)
    b = torch.randint(B, (count,), generator=generator)
    h = torch.randint(H, (count,), generator=generator)
    i = torch.randint(Sq, (count,), generator=generator)
    i[0], i[1] = 0, Sq - 1
    group = case.heads // case.kv_heads
    b, h, i = b.to(q.device), h.to(q.device), i.to(q.device)
    qr, kr, vr = q[b, h, i].double(), k[b, h // group].double(), v[b, h // group].double()
    scores = torch.einsum("nd,nsd->ns", qr, kr) / math.sqrt(D)
    j = torch.arange(Skv, device=q.device)
    if case.score:
        wide = {name: x.double() if x.is_floating_point() else x for name, x in captures.items() if x.numel() < 1 << 24}
        at = b[:, None], h[:, None], i[:, None], j[None, :]
        scores = SCORES[case.score].apply(scores, *at, {**captures, **wide})
    if case.mask:
        scores.masked_fill_(j[None, :] > i[:, None] + (Skv - Sq), float("-inf"))
    expected = torch.einsum("ns,nsd->nd", scores.softmax(-1), vr)
    actual = out[b, h, i].double()
    error = ((actual - expected).norm() / expected.norm()).item()
    lse_error = (lse[b, h, i].double() - scores.logsumexp(-1)).abs().max().item()
    if math.isnan(error) or out.isnan().any().item():
        error = float("inf")
    return error, lse_error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", required=True, help="directory of compiled artifacts")
    parser.add_argument("--compile", metavar="ATTN_COMPILE", help="compile the artifacts with this compiler and stop")
    parser.add_argument("--compile-options", default="", help="further options for the compiler")
    parser.add_argument(
        "--variants", default="", help="directories of further artifacts to time beside the first, joined by commas; not recorded"
    )
    parser.add_argument("--groups", default="dense,gqa", help="groups of cases: " + ",".join(GROUPS))
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--lengths", default="", help="only these lengths, joined by commas")
    parser.add_argument("--peers", default="cudnn", help="cudnn,fa2,flex or empty")
    parser.add_argument("--runtime", default="libattn_runtime.so", help="the runtime library")
    parser.add_argument("--out", help="file to append rows to")
    parser.add_argument("--commit", default="", help="commit that the artifacts were built from")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    groups = options.groups.split(",")
    if options.compile:
        compile_artifacts(options.compile, options.artifacts, groups, options.compile_options.split())
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
    torch.manual_seed(0)
    variants = [directory for directory in options.variants.split(",") if directory]
    failures, ratios, artifacts = 0, [], {}

    def load(directory, name):
        path = os.path.join(directory, name + ".so")
        if path not in artifacts:
            artifacts[path] = Artifact(path, options.runtime) if os.path.exists(path) else None
        return artifacts[path]

    for group in groups:
        for case, B, S in GROUPS[group]():
            if options.only not in case.name or (lengths and S not in lengths):
                continue
            H, Hkv, D = case.heads, case.kv_heads, case.qk_dim
            causal = bool(case.mask)
            captures = make_captures(torch, case, B, S)
            q = torch.randn(B, H, S, D, device="cuda", dtype=torch.bfloat16)
            k, v = (torch.randn(B, Hkv, S, D, device="cuda", dtype=torch.bfloat16) for _ in range(2))
            stream = torch.cuda.current_stream().cuda_stream
            out, lse = torch.empty_like(q), torch.empty(B, H, S, device="cuda")
            runs = {}
            error, lse_error = 0.0, 0.0
            for directory in [options.artifacts, *variants]:
                artifact = load(directory, case.name)
                if artifact is None:
                    continue
                op = "attn" if directory == options.artifacts else os.path.basename(directory.rstrip("/"))
                out.fill_(float("nan"))
                lse.fill_(float("nan"))
                runs[op] = artifact[case.name].bind(q, k, v, *captures.values(), out, lse, stream=stream)
                runs[op]()
                torch.cuda.synchronize()
                errors = check_rows(torch, case, captures, q, k, v, out, lse)
                error, lse_error = max(error, errors[0]), max(lse_error, errors[1])
            good = error < 6e-3 and lse_error < 2e-3
            failures += not good
            flops = 4.0 * B * H * S * S * D * (0.5 if causal else 1.0)
            row = dict(mode="fwd", B=B, H=H, Hkv=Hkv, S=S, D=D, causal=causal, p=0.0, mask="causal" if causal else "full")
            if group == "mods":
                row["mask"] = f"mod:{case.score or 'none'}"

            addend = None
            if case.score and SCORES[case.score].addend:
                addend = SCORES[case.score].addend(captures).expand(B, H, S, S)

            def make_peer(backend):
                def run_peer():
                    with sdpa_kernel(backend):
                        return F.scaled_dot_product_attention(q, k, v, attn_mask=addend, is_causal=causal, enable_gqa=H != Hkv)

                return run_peer

            def make_flex():
                from torch.nn.attention.flex_attention import flex_attention

                torch._dynamo.reset()
                compiled = torch.compile(flex_attention, dynamic=False)
                score = None
                if case.score:

                    def score(s, b, h, i, j):
                        return SCORES[case.score].apply(s, b, h, i, j, captures)

                return lambda: compiled(q, k, v, score_mod=score, enable_gqa=H != Hkv)

            # Two rounds in turn, the better one of each: nobody has the cooler GPU.
            for peer in peers:
                if peer == "flex":
                    runs[peer] = make_flex()
                elif not case.score or (addend is not None and peer == "cudnn"):
                    runs[peer] = make_peer(backends[peer])
            times = {}
            for _ in range(2):
                for op, fn in runs.items():
                    times[op] = min(times.get(op, math.inf), median_ms(torch, fn, options.repeats))
            rows = []
            for op, ms in times.items():
                rows.append(dict(op=op, **row, ms=ms, tflops=flops / ms / 1e9, **stamp))
            rows[0].update(error=error, lse_error=lse_error)
            text = f"{case.name:32s} B{B:<3d} S{S:<6d} attn {rows[0]['tflops']:6.1f} TF"
            for peer_row in rows[1:]:
                ratio = rows[0]["tflops"] / peer_row["tflops"]
                text += f"  {peer_row['op']} {peer_row['tflops']:6.1f} ({ratio:.3f}x)"
                if peer_row["op"] == "cudnn" and group == "dense":
                    ratios.append(ratio)
            print(f"{text}  error {error:.1e} lse {lse_error:.1e}{'' if good else '  WRONG'}", flush=True)
            if options.out:
                with open(options.out, "a") as file:
                    for r in rows:
                        if r["op"] == "attn" or r["op"] in peers:
                            file.write(json.dumps(r) + "\n")
            del q, k, v, captures, out, lse, runs
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{len(ratios)} dense cases: geometric mean {mean:.3f}x cuDNN, worst {min(ratios):.3f}x")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
