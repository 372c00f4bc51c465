#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times attention with KV caches as an inference engine calls it, and its peers, and appends rows to a results file.

    python3 benchmarks/serving.py [--suites=decode,paged,ragged,append,prefill,prefix] [--only=TEXT] [--out FILE]

Needs torch and the package attn, whose compiler compiles what is not in its cache. Each case is first checked against
float64 for some rows. Times are medians of CUDA events behind a sleep kernel; calls are timed alternately, and the
median over the rounds counts. Of calls with a cache the measure is the size of the keys and values that are attended to
over the time, in TB/s; of prefill, the operations of attended pairs over the time.

| suite | cases |
|---|---|
| `decode` | one query, equal lengths, a contiguous cache without lengths; 4 and 16 queries; sinks, window, soft cap |
| `paged` | the same lengths in pages of 64 and 16 keys, and contiguous with lengths |
| `ragged` | lengths from 128 to 16384 (log-uniform), in pages |
| `append` | new keys and values of one token, with rotary embedding, alone and with attention |
| `prefill` | a chunk of 2048 queries on 32768 keys, alone and together with 32 sequences that decode |
| `prefix` | 64 sequences with a prefix of 8192 keys and 512 keys of their own, with and without sharing |
"""

import argparse
import math
import os
import random
import statistics
import sys
import typing

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402

HEADS, KEY_HEADS, DIM = 32, 8, 128
ROUNDS = 5


class Case(typing.NamedTuple):
    """Numbers of queries and keys of each sequence, and how they are stored and masked."""

    suite: str
    name: str
    queries: typing.Tuple[int, ...]
    keys: typing.Tuple[int, ...]
    #: The size of pages; 0 for a contiguous cache with lengths, None for one without.
    page: typing.Optional[int] = 64
    heads: typing.Tuple[int, int] = (HEADS, KEY_HEADS)
    dim: int = DIM
    window: int = -1
    softcap: float = 0.0
    sinks: bool = False


def make_cases():
    """All cases, except for the suites `append` and `prefix`."""
    shapes = ((1, 65536), (16, 8192), (64, 4096))
    cases = [Case("decode", f"b{b}_s{s}", (1,) * b, (s,) * b, None) for b, s in shapes]
    cases += [Case("decode", f"b1_s65536_q{n}", (n,), (65536,), 0) for n in (4, 16)]
    cases += [Case("decode", "b32_s32768_h64_1_d256", (1,) * 32, (32768,) * 32, None, (64, 1), 256),
              Case("decode", "b1_s1024", (1,), (1024,), None),
              Case("decode", "b16_s8192_window1024", (1,) * 16, (8192,) * 16, None, window=1024),
              Case("decode", "b16_s8192_softcap", (1,) * 16, (8192,) * 16, None, softcap=30.0),
              Case("decode", "b16_s8192_sinks", (1,) * 16, (8192,) * 16, None, sinks=True)]
    cases += [Case("paged", f"b{b}_s{s}_page{page}", (1,) * b, (s,) * b, page)
              for b, s in shapes for page in (0, 64, 16)]
    rng = random.Random(0)
    ragged = tuple(int(128 * 128 ** rng.random()) for _ in range(64))
    cases += [Case("ragged", f"b64_128_to_16k_page{page}", (1,) * 64, ragged, page) for page in (0, 64, 16)]
    cases += [Case("ragged", "b64_padded_to_16k", (1,) * 64, (4096,) * 63 + (16384,), 64)]
    chunk, tokens = ((2048,), (32768,)), ((1,) * 32, (8192,) * 32)
    cases += [Case("prefill", "chunk2048_s32768", *chunk), Case("prefill", "tokens32_s8192", *tokens),
              Case("prefill", "chunk2048_with_tokens32", chunk[0] + tokens[0], chunk[1] + tokens[1])]
    return cases


class Inputs:
    """The tensors of a case: queries, and keys in pages or one after another."""

    def __init__(self, torch, case):
        self.torch, self.case = torch, case
        heads, key_heads = case.heads
        batch, longest = len(case.keys), max(case.keys)

        def make(*shape):
            return torch.randn(*shape, device=harness.DEVICE, dtype=torch.bfloat16)

        self.is_packed = len(set(case.queries)) > 1 or case.suite == "prefill"
        shape = (sum(case.queries),) if self.is_packed else (batch, case.queries[0])
        self.q = make(*shape, heads, case.dim)
        # As large as the log-sum-exp of the scores: a wrong sink is seen.
        self.sinks = math.log(longest) + make(heads) if case.sinks else None
        self.lengths = torch.tensor(case.keys, dtype=torch.int32, device=harness.DEVICE)
        self.bounds = torch.tensor((0, *case.queries), device=harness.DEVICE).cumsum(0).int()
        self.table = None
        if not case.page:
            self.k, self.v = (make(batch, longest, key_heads, case.dim) for _ in range(2))
            return
        pages = [-(-length // case.page) for length in case.keys]
        order = torch.randperm(sum(pages), device=harness.DEVICE).int().split(pages)
        self.table = torch.zeros(batch, max(pages), dtype=torch.int32, device=harness.DEVICE)
        for row, own in zip(self.table, order):
            row[: len(own)] = own
        self.k, self.v = (make(sum(pages), case.page, key_heads, case.dim) for _ in range(2))

    def rows(self, pool, entry):
        """The keys of one sequence."""
        length = self.case.keys[entry]
        if self.table is None:
            return pool[entry, :length]
        return pool[self.table[entry, : -(-length // self.case.page)].long()].flatten(0, 1)[:length]

    def options(self):
        """Arguments of functions with the names of flash-attn."""
        window = (self.case.window, 0) if self.case.window >= 0 else (-1, -1)
        sinks = {"s_aux": self.sinks} if self.case.sinks else {}
        return {"causal": True, "window_size": window, "softcap": self.case.softcap, **sinks}

    def get_error(self, out, count=8):
        """The relative error of some rows against float64."""
        torch, case = self.torch, self.case
        rng, expected, actual = random.Random(0), [], []
        out = out.flatten(0, 1) if not self.is_packed else out
        queries = self.q if self.is_packed else self.q.flatten(0, 1)
        bounds = self.bounds.tolist()
        for _ in range(count):
            entry, head = rng.randrange(len(case.keys)), rng.randrange(case.heads[0])
            i = rng.randrange(case.queries[entry])
            last = case.keys[entry] - case.queries[entry] + i
            first = max(last - case.window, 0) if case.window >= 0 else 0
            group = head // (case.heads[0] // case.heads[1])
            k, v = (self.rows(pool, entry)[first : last + 1, group].double() for pool in (self.k, self.v))
            row = bounds[entry] + i
            scores = k @ queries[row, head].double() / math.sqrt(case.dim)
            if case.softcap:
                scores = case.softcap * torch.tanh(scores / case.softcap)
            if case.sinks:
                logits = torch.cat((scores, self.sinks[head : head + 1].double()))
                expected.append(logits.softmax(0)[:-1] @ v)
            else:
                expected.append(scores.softmax(0) @ v)
            actual.append(out[row, head].double())
        expected, actual = torch.stack(expected), torch.stack(actual)
        error = ((actual - expected).norm() / expected.norm()).item()
        return math.inf if math.isnan(error) or out.isnan().any().item() else error


def prepare_attn(inputs):
    import attn.torch

    if inputs.is_packed:
        return lambda: attn.torch.flash_attn_varlen_func(
            inputs.q, inputs.k, inputs.v, inputs.bounds, seqused_k=inputs.lengths, block_table=inputs.table,
            **inputs.options(),
        )  # fmt: skip
    lengths = None if inputs.case.page is None else inputs.lengths
    return lambda: attn.torch.flash_attn_with_kvcache(
        inputs.q, inputs.k, inputs.v, cache_seqlens=lengths, block_table=inputs.table, **inputs.options()
    )


def prepare_fa3(inputs):
    from flash_attn_interface import flash_attn_with_kvcache

    case, options = inputs.case, inputs.options()
    if inputs.is_packed:
        return lambda: flash_attn_with_kvcache(
            inputs.q, inputs.k, inputs.v, cache_seqlens=inputs.lengths, page_table=inputs.table,
            cu_seqlens_q=inputs.bounds, max_seqlen_q=max(case.queries), **options,
        )  # fmt: skip
    return lambda: flash_attn_with_kvcache(
        inputs.q, inputs.k, inputs.v, cache_seqlens=inputs.lengths, page_table=inputs.table, **options
    )


def prepare_flashinfer(inputs):
    """Its plan, work on the host with a copy to the device, is made beforehand and not timed."""
    import flashinfer

    torch, case = inputs.torch, inputs.case
    if case.page not in (16, 64) or (case.window >= 0 and inputs.is_packed) or case.sinks:
        return None
    workspace = torch.empty(256 << 20, dtype=torch.uint8, device=harness.DEVICE)
    pages = [-(-length // case.page) for length in case.keys]
    starts = torch.tensor([0, *pages], device=harness.DEVICE).cumsum(0).int()
    numbers = torch.cat([row[:count] for row, count in zip(inputs.table, pages)])
    last = torch.tensor([(n - 1) % case.page + 1 for n in case.keys], dtype=torch.int32, device=harness.DEVICE)
    dtypes = {"q_data_type": torch.bfloat16, "kv_data_type": torch.bfloat16}
    if inputs.is_packed:
        wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD")
        wrapper.plan(inputs.bounds, starts, numbers, last, *case.heads, case.dim, case.page, causal=True, **dtypes)
        return lambda: wrapper.run(inputs.q, (inputs.k, inputs.v))
    if case.queries[0] != 1:
        return None
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=True)
    wrapper.plan(starts, numbers, last, *case.heads, case.dim, case.page, window_left=case.window,
                 logits_soft_cap=case.softcap or None, **dtypes)
    q = inputs.q[:, 0]
    return lambda: wrapper.run(q, (inputs.k, inputs.v))[:, None]


def prepare_cudnn(inputs):
    """Torch's function, which has neither lengths nor pages."""
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    case = inputs.case
    if case.page is not None or case.window >= 0 or case.softcap or case.sinks or case.queries[0] != 1:
        return None
    q, k, v = (x.transpose(1, 2) for x in (inputs.q, inputs.k, inputs.v))

    def run():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(1, 2)

    return run


PEERS = {"fa3": prepare_fa3, "flashinfer": prepare_flashinfer, "cudnn": prepare_cudnn}


def select_peers(text):
    """The names of --peers."""
    wanted = list(PEERS) if text == "all" else [] if text == "none" else harness.split_list(text)
    unknown = [name for name in wanted if name not in PEERS]
    if unknown:
        sys.exit(f"error: unknown peer '{unknown[0]}' (expected all, none or some of {', '.join(PEERS)})")
    return wanted


def prepare_peers(names, inputs):
    """Calls by the name of the peer. One that is missing, does not support the case or fails is left out, and named."""
    runs = {}
    for name in names:
        try:
            run = PEERS[name](inputs)
            if run is None:
                continue
            run()
        except Exception as error:  # Peers are not ours: whatever is wrong with one is reported, and others are timed.
            print(f"peer {name} is left out: {(str(error).splitlines() or [type(error).__name__])[0]}", file=sys.stderr)
            continue
        runs[name] = run
    return runs


def count_pairs(case):
    """Attended pairs of one head."""
    return sum(n * (s - n) + n * (n + 1) // 2 for n, s in zip(case.queries, case.keys))


class Recorder:
    """Times calls alternately, prints them and records rows."""

    def __init__(self, torch, options):
        self.torch, self.options = torch, options
        self.commit = options.commit or harness.find_package_commit()
        self.rows = harness.Rows(options, harness.describe_device(torch), suite="serving")
        self.failures = 0

    def add(self, mode, name, runs, errors, measure, **fields):
        """`measure` gives from milliseconds the name and the number of the measure."""
        times = harness.time_in_turn(self.torch, runs, self.options.repeats, ROUNDS, statistics.median, sleep=4_000_000)
        print(f"{mode} {name}")
        first = next(iter(times))
        for op, ms in times.items():
            unit, value = measure(ms)
            error = {"error": errors[op]} if op in errors else {}
            self.rows.add(self.commit, op=op, mode=mode, case=name, ms=ms, **{unit: value}, **error, **fields)
            text = f"  {op:16s} {ms * 1e3:8.1f} us  {value:7.2f} {unit}  {ms / times[first]:.3f}x the time of {first}"
            if error:
                is_right = errors[op] < harness.MAX_ERROR
                self.failures += not is_right
                text += f"  error {errors[op]:.1e}{'' if is_right else '  WRONG'}"
            print(text, flush=True)


def run_case(torch, recorder, peers, case):
    inputs = Inputs(torch, case)
    runs = {"attn": prepare_attn(inputs)}
    runs.update(prepare_peers(peers, inputs))
    errors = {op: inputs.get_error(out[0] if isinstance(out, tuple) else out) for op, out in
              ((op, run()) for op, run in runs.items())}
    element = 2
    seen = [min(s, case.window + n) if case.window >= 0 else s for n, s in zip(case.queries, case.keys)]
    size = 2 * element * case.heads[1] * case.dim * sum(seen)
    flops = 4 * case.heads[0] * case.dim * count_pairs(case)

    def measure(ms):
        return ("tflops", flops / ms / 1e9) if case.suite == "prefill" else ("tbytes_per_s", size / ms / 1e9)

    recorder.add(case.suite, case.name, runs, errors, measure, B=len(case.keys), H=case.heads[0], Hkv=case.heads[1],
                 S=max(case.keys), D=case.dim, causal=True, p=0.0, page=case.page)


def run_append(torch, recorder, peers, batch=64, keys=4096):
    """New keys and values of one token of each sequence: the append alone, attention alone, and both."""
    import attn.torch
    from attn.torch.cache_append import Arguments, cache_append

    case = Case("append", f"b{batch}_s{keys}_page64", (1,) * batch, (keys,) * batch, 64, (HEADS, KEY_HEADS), DIM)
    inputs = Inputs(torch, case)
    k, v = (torch.randn(batch, 1, KEY_HEADS, DIM, device=harness.DEVICE, dtype=torch.bfloat16) for _ in range(2))
    angles = torch.rand(8192, DIM // 2, device=harness.DEVICE)
    cos, sin = angles.cos().bfloat16(), angles.sin().bfloat16()
    before = inputs.lengths - 1
    heads_first = [x.transpose(1, 2) for x in (k, v, inputs.k, inputs.v)]
    given = Arguments(*heads_first, before, inputs.table, cos, sin, inputs.q.transpose(1, 2))

    def attend(lengths, *new):
        return attn.torch.flash_attn_with_kvcache(
            inputs.q, inputs.k, inputs.v, *new, cache_seqlens=lengths, block_table=inputs.table, causal=True
        )

    runs = {
        "append": lambda: cache_append(given),
        "attention": lambda: attend(inputs.lengths),
        "append_attention": lambda: attend(before, k, v, cos, sin),
    }
    if "fa3" in peers:
        try:
            from flash_attn_interface import flash_attn_with_kvcache

            runs["fa3_append_attention"] = lambda: flash_attn_with_kvcache(
                inputs.q, inputs.k, inputs.v, k, v, rotary_cos=cos, rotary_sin=sin, cache_seqlens=before,
                page_table=inputs.table, causal=True,
            )  # fmt: skip
            runs["fa3_append_attention"]()
        except Exception as error:
            runs.pop("fa3_append_attention", None)
            print(f"peer fa3 is left out: {(str(error).splitlines() or [type(error).__name__])[0]}", file=sys.stderr)
    recorder.add("append", case.name, runs, {}, lambda ms: ("us", ms * 1e3), B=batch, H=HEADS, Hkv=KEY_HEADS, S=keys,
                 D=DIM, page=case.page)


def run_prefix(torch, recorder, batch=64, prefix=8192, own=512, page=64):
    """Sequences with a common prefix, with and without sharing."""
    import attn.torch

    case = Case("prefix", f"b{batch}_prefix{prefix}_own{own}", (1,) * batch, (prefix + own,) * batch, page,
                (HEADS, KEY_HEADS), DIM)
    inputs = Inputs(torch, case._replace(keys=(prefix + own,) + (own,) * (batch - 1)))
    inputs.case = case
    table = torch.zeros(batch, (prefix + own) // page, dtype=torch.int32, device=harness.DEVICE)
    table[0] = inputs.table[0]
    table[1:, : prefix // page] = inputs.table[0, : prefix // page]
    table[1:, prefix // page :] = inputs.table[1:, : own // page]
    inputs.table, inputs.lengths = table, torch.full_like(inputs.lengths, prefix + own)
    groups = torch.tensor([0, batch], dtype=torch.int32, device=harness.DEVICE)
    shared = torch.tensor([prefix], dtype=torch.int32, device=harness.DEVICE)
    runs = {
        "attn": lambda: attn.torch.flash_attn_with_shared_prefix(
            inputs.q, inputs.k, inputs.v, inputs.lengths, table, groups, shared, causal=True
        ),
        "unshared": lambda: attn.torch.flash_attn_with_kvcache(
            inputs.q, inputs.k, inputs.v, cache_seqlens=inputs.lengths, block_table=table, causal=True
        ),
    }
    errors = {op: inputs.get_error(run()) for op, run in runs.items()}
    recorder.add("prefix", case.name, runs, errors, lambda ms: ("us", ms * 1e3), B=batch, H=HEADS, Hkv=KEY_HEADS,
                 S=prefix + own, D=DIM, page=page)


SUITES = ("decode", "paged", "ragged", "append", "prefill", "prefix")


def make_parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", default=",".join(SUITES), help="suites, joined by commas; all by default")
    for name in ("only", "peers", "repeats"):
        parser.add_argument(f"--{name}", **harness.OPTIONS[name])
    harness.add_row_options(parser)
    return parser


def main(arguments=None):
    options = make_parser().parse_args(arguments)
    suites = harness.split_list(options.suites)
    unknown = [name for name in suites if name not in SUITES]
    if unknown:
        sys.exit(f"error: unknown suite '{unknown[0]}' (expected some of {', '.join(SUITES)})")
    peers = select_peers(options.peers)

    import torch

    torch.manual_seed(0)
    recorder = Recorder(torch, options)
    with torch.no_grad():
        for case in make_cases():
            if case.suite in suites and options.only in f"{case.suite} {case.name}":
                run_case(torch, recorder, peers, case)
        if "append" in suites and options.only in "append":
            run_append(torch, recorder, peers)
        if "prefix" in suites and options.only in "prefix":
            run_prefix(torch, recorder)
    return 1 if recorder.failures else 0


if __name__ == "__main__":
    sys.exit(main())
