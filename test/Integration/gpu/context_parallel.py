#!/usr/bin/env python3
# ===- context_parallel.py - Attention over the ranks of a group on GPUs ---===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compares attention over several ranks with attention of the whole on one GPU, values and gradients, and times it.

    context_parallel.py --prepare sm_90a --ranks 2 4                        # fills $ATTN_CACHE_DIR; needs no GPU
    python -m torch.distributed.run --nproc-per-node=2 context_parallel.py  # a process and a GPU for each rank, by NCCL
    context_parallel.py --local 4                                           # ranks are threads that share one GPU

Needs no compiler if the cache is full. The reference is computed in double precision; with dropout, it is attention of
one rank with the same seed. Prints a JSON object for each check and each time, and a line with the number of failures.
"""

import argparse
import dataclasses
import functools
import json
import math
import os
import sys
import threading
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "python"))
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from attn import masks  # noqa: E402
from attn.torch import context_parallel, local_ranks, sdpa, shard_sequence, unshard_sequence  # noqa: E402
from attn.torch import kernels, ops  # noqa: E402
from attn.torch.process_groups import make_ranks  # noqa: E402
from attn.torch.sdpa import _combine, make_kind  # noqa: E402

shards = sys.modules["attn.torch.context_parallel"]
METHODS = ("ring", "zigzag", "lightseq", "allgather", "ulysses")
LENGTH, DIM, SEED, DROPOUT = 2048, 128, 5, 0.25
# Errors of bf16: of values, and of gradients as a part of the largest one.
VALUE_TOLERANCE, GRADIENT_TOLERANCE = 0.02, 0.03
LIMIT, SHORT_LIMIT = 300.0, 5.0
TIMED_LENGTH, TIMED_HEADS, TIMED_RUNS = 65536, 32, 5


class Case:
    """Attention of some heads with a mask. ``keep`` is the mask as a function of positions."""

    def __init__(self, name, heads=8, key_heads=8, keep=None, dtype=torch.bfloat16, length=LENGTH, **options):
        self.name, self.heads, self.key_heads, self.keep = name, heads, key_heads, keep
        self.dtype, self.length, self.options = dtype, length, options

    @property
    def dropout(self):
        return self.options.get("dropout_p", 0.0)

    def make_kind(self):
        mask = self.options.get("attn_mask")
        named = mask.attribute()[0] if mask is not None else ""
        kind = make_kind(_combine(self.options.get("is_causal", False), named), None, None)
        return kind._replace(dropout_p=self.dropout)

    def make(self, device):
        """Query, key, value and the gradient of the output."""
        generator = torch.Generator().manual_seed(len(self.name))
        shape = lambda heads: (1, heads, self.length, DIM)  # noqa: E731
        return [
            torch.randn(shape(heads), generator=generator).to(device, self.dtype)
            for heads in (self.heads, self.key_heads, self.key_heads, self.heads)
        ]


CASES = [
    Case("full"),
    Case("causal", keep=lambda i, j: j <= i, is_causal=True),
    Case("causal, 8/2 heads", key_heads=2, keep=lambda i, j: j <= i, is_causal=True),
    Case("window", keep=lambda i, j: (j <= i) & (j >= i - 300), attn_mask=masks.sliding_window(300, 0)),
    Case("dropout", key_heads=2, dropout_p=DROPOUT, is_causal=True),
    Case("causal, f16", keep=lambda i, j: j <= i, is_causal=True, dtype=torch.float16),
]
TIMED = Case("causal 64k", TIMED_HEADS, TIMED_HEADS, is_causal=True, length=TIMED_LENGTH)
# Decoding: one query, whose keys are distributed.
SEGMENTS, SEGMENT_LENGTH, TIMED_SEGMENT_LENGTH = "distattention", 8192, 1 << 20
SEGMENT_HEADS, SEGMENT_KEY_HEADS = 32, 8


#
# Preparation
#


def prepare(target, sizes):
    """Compiles all functions for a target."""
    for size in sizes:
        prepare_case(make_bits_case(size), target, [size])
    for case in (*CASES, TIMED):
        prepare_case(case, target, sizes)
    prepare_segments(target, sizes)


def prepare_case(case, target, sizes):
    of_keys = (1, case.key_heads, case.length, DIM)
    whole = [
        torch.empty(shape, dtype=case.dtype, device="meta")
        for shape in ((1, case.heads, case.length, DIM), of_keys, of_keys)
    ]
    kind, with_lse = case.make_kind(), case is not TIMED
    if case.dropout or case is TIMED:
        of_one = kernels.describe_attention(kind, with_lse, *whole, [])
        kernels.find_functions(of_one, target, (), False).backward()
        kernels.find_functions(of_one, target, None, False)
    for size in sizes:
        parts = [tensor.narrow(2, 0, case.length // size) for tensor in whole]
        for method in METHODS:
            start = time.monotonic()
            description = shards.describe_shards(kind, True, method, size, *parts, [])
            of_gradient = dataclasses.replace(description, with_lse=with_lse)
            wait = shards.find_backward(of_gradient, target, method, size, (), False)
            shards.find_forward(description, target, method, size)
            wait()
            print(f"{case.name}, {method}, {size} ranks: {time.monotonic() - start:.1f} s", flush=True)


def list_segment_shapes(length, size=1, batch=1):
    """The shapes of the query, and of the keys and values of a rank."""
    shape = (batch, SEGMENT_KEY_HEADS, length // size, DIM)
    return [(batch, SEGMENT_HEADS, 1, DIM), shape, shape]


def make_meta(shapes):
    return [torch.empty(shape, dtype=torch.bfloat16, device="meta") for shape in shapes]


def prepare_segments(target, sizes):
    kind = make_kind("", None, None)
    for size in sizes:
        for length, clauses, operands in (
            (TIMED_SEGMENT_LENGTH, "", []),
            (SEGMENT_LENGTH, "key_lengths", [torch.empty(2, dtype=torch.int32, device="meta")]),
        ):
            parts = make_meta(list_segment_shapes(length, size, 2 if operands else 1))
            of_ranks = shards.describe_shards(kind._replace(clauses=clauses), True, SEGMENTS, size, *parts, operands)
            shards.find_forward(of_ranks, target, SEGMENTS, size)
    whole = make_meta(list_segment_shapes(TIMED_SEGMENT_LENGTH))
    of_one = dataclasses.replace(kernels.describe_attention(kind, False, *whole, []), queries=1)
    kernels.find_functions(of_one, target, None, False)


#
# Ranks
#


class Rank:
    """What a check needs of its rank."""

    def __init__(self, group, number, size, device, mode):
        self.group, self.number, self.size, self.device, self.mode = group, number, size, device, mode

    def report(self, **row):
        if self.number == 0:
            print(json.dumps({"ranks": self.size, "mode": self.mode, **row}), flush=True)

    def synchronize(self):
        """Waits for the device, and for the other ranks."""
        torch.cuda.synchronize()
        make_ranks(self.group, LIMIT).host.gather_bytes(b"here")

    def largest(self, number):
        return max(map(float, make_ranks(self.group, LIMIT).host.gather_texts(repr(number))))


def fix_seed(rank):
    """Seed and offset that calls draw: threads share the generator of torch."""
    if rank.mode == "threads":
        return torch.tensor([SEED, 0], dtype=torch.int64, device=rank.device)
    torch.manual_seed(SEED)
    return ops.draw_state(rank.device)


def set_seed_of_rank(rank):
    """The seed of the first rank is what the reference has; other seeds do not matter."""
    if rank.mode == "processes":
        torch.manual_seed(SEED + rank.number)


#
# Checks
#


def differentiate(attention, tensors):
    inputs = [tensor.detach().requires_grad_() for tensor in tensors[:3]]
    out, lse = attention(*inputs)
    return [out.detach(), lse.detach(), *torch.autograd.grad(out, inputs, tensors[3])]


def attend_exactly(case, query, key, value):
    key, value = (tensor.repeat_interleave(case.heads // case.key_heads, 1) for tensor in (key, value))
    scores = query @ key.mT / math.sqrt(DIM)
    if case.keep is not None:
        place = torch.arange(case.length, device=query.device)
        scores = scores.masked_fill(~case.keep(place[:, None], place[None]), -math.inf)
    lse = scores.logsumexp(-1)
    return (scores - lse[..., None]).exp() @ value, lse


def attend_as_one(case, state, query, key, value):
    """Attention of one rank, with the seed and offset ``state``."""
    variant = ops.write_variant(case.make_kind(), kernels.Mode(True, ()))
    return torch.ops.attn.attention([query, key, value], state, variant, None, case.dropout)


def find_expected(case, rank, state):
    tensors = case.make(rank.device)
    if case.dropout:
        return tensors, differentiate(functools.partial(attend_as_one, case, state), tensors)
    return tensors, differentiate(functools.partial(attend_exactly, case), [tensor.double() for tensor in tensors])


def check_case(case, method, rank, expected=None):
    """The errors of all results; raises an exception if one is too large."""
    state = fix_seed(rank) if case.dropout else None
    tensors, exact = expected or find_expected(case, rank, state)
    attention = functools.partial(
        context_parallel(sdpa, rank.group, method, LIMIT), **case.options, enable_gqa=True, return_lse=True
    )
    if case.dropout:
        set_seed_of_rank(rank)
    found = differentiate(attention, [shard_sequence(tensor, rank.group, method) for tensor in tensors])
    errors = {}
    for name, result, wanted in zip(("out", "lse", "dquery", "dkey", "dvalue"), found, exact):
        # Each rank compares its own shard.
        wanted = shard_sequence(wanted, rank.group, method).double()
        magnitude = wanted.abs().max().item() if name.startswith("d") else 1.0
        error = (result.double() - wanted).abs().max().item() / max(magnitude, 1e-3)
        errors[name] = rank.largest(error if math.isfinite(error) else 1e30)
        limit = GRADIENT_TOLERANCE if name.startswith("d") else VALUE_TOLERANCE
        if not errors[name] <= limit:
            raise ValueError(f"{name}: error {errors[name]:.3g}, expected at most {limit}; all errors: {errors}")
    return {name: float(f"{error:.3g}") for name, error in errors.items()}


def make_bits_case(ranks):
    return Case("bits", ranks, ranks, dropout_p=DROPOUT, length=DIM * ranks)


def check_bits(method, rank):
    """Probabilities are equal and values are unit vectors: outputs show which pairs are kept."""
    case = make_bits_case(rank.size)
    state = fix_seed(rank)
    query = torch.zeros(1, 2, case.length, DIM, dtype=case.dtype, device=rank.device)
    rounds = []
    for first in range(0, case.length, DIM):
        value = torch.zeros_like(query)
        value[:, :, first : first + DIM] = torch.eye(DIM, dtype=case.dtype, device=rank.device)
        with torch.no_grad():
            out = attend_as_one(case, state, query, query, value)[0]
            sharded = [shard_sequence(tensor, rank.group, method) for tensor in (query, query, value)]
            set_seed_of_rank(rank)
            found = context_parallel(sdpa, rank.group, method, LIMIT)(*sharded, dropout_p=DROPOUT)
        # A dropped probability of bf16 is so small that it is no normal number.
        least = 0.5 / case.length
        rounds.append((out > least, unshard_sequence(found, rank.group, method) > least))
    kept = sum(int(expected.sum()) for expected, _ in rounds) / (case.heads * case.length**2)
    if not abs(kept - (1 - DROPOUT)) < 0.02:
        raise ValueError(f"one rank keeps {kept:.3f} of the pairs, expected {1 - DROPOUT}")
    differing = sum(int((expected != found).sum()) for expected, found in rounds)
    if rank.largest(differing):
        raise ValueError(f"{differing} pairs differ from one rank")
    return {"kept": kept}


def make_segments(length, rank, batch=1):
    """The query, keys and values of the whole, which all ranks draw."""
    generator = torch.Generator(rank.device).manual_seed(3)
    return [
        torch.randn(shape, generator=generator, device=rank.device, dtype=torch.bfloat16)
        for shape in list_segment_shapes(length, batch=batch)
    ]


def check_segments(rank):
    """A KV cache of two sequences, one of which ends in the first segment."""
    query, key, value = make_segments(SEGMENT_LENGTH, rank, batch=2)
    lengths = torch.tensor([SEGMENT_LENGTH - 77, 100], dtype=torch.int32, device=rank.device)
    parts = [shard_sequence(tensor, rank.group, SEGMENTS) for tensor in (key, value)]
    attention = context_parallel(sdpa, rank.group, SEGMENTS, LIMIT)
    out, lse = attention(query, *parts, enable_gqa=True, return_lse=True, key_lengths=lengths)
    key, value = (x.double().repeat_interleave(SEGMENT_HEADS // SEGMENT_KEY_HEADS, 1) for x in (key, value))
    scores = query.double() @ key.mT / math.sqrt(DIM)
    places = torch.arange(SEGMENT_LENGTH, device=rank.device)
    scores = scores.masked_fill(places >= lengths.view(2, 1, 1, 1), -math.inf)
    exact = scores.logsumexp(-1)
    errors = {
        "out": (out - (scores - exact[..., None]).exp() @ value).abs().max().item(),
        "lse": (lse - exact).abs().max().item(),
    }
    errors = {name: rank.largest(error if math.isfinite(error) else 1e30) for name, error in errors.items()}
    if max(errors.values()) > VALUE_TOLERANCE:
        raise ValueError(f"errors {errors}, expected at most {VALUE_TOLERANCE}")
    return {name: float(f"{error:.3g}") for name, error in errors.items()}


def check_disagreement(rank):
    """All ranks raise the same error."""
    attention = context_parallel(sdpa, rank.group, "ring", LIMIT)
    tensor = torch.zeros(1, 1, 256, 64, dtype=torch.bfloat16, device=rank.device)
    try:
        attention(tensor, tensor, tensor, scale=0.5 if rank.number == 1 else None)
    except Exception as error:  # noqa: BLE001
        if str(error) == "rank 1 has scale 0.5, expected None as rank 0 has":
            return {}
        raise
    raise ValueError("ranks that disagree about the scale raise no error")


def check_missing(rank):
    """A rank that makes no call: the other ranks end by their time limit, and say so."""
    # With a causal mask, rank 0 needs no keys of other ranks.
    case = CASES[0]
    tensors = [shard_sequence(tensor, rank.group) for tensor in case.make(rank.device)[:3]]
    attention = functools.partial(context_parallel(sdpa, rank.group, "ring", SHORT_LIMIT), **case.options)
    attention = functools.partial(attention, enable_gqa=True, return_lse=True)
    inputs = [tensor.detach().requires_grad_() for tensor in tensors]
    attention(*inputs)
    rank.synchronize()
    text, start = "", time.monotonic()
    if rank.number != 1:
        try:
            for _ in range(3):
                attention(*inputs)
                torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001
            text = str(error)
    seconds = time.monotonic() - start
    # Rank 1 waits for the other ones here.
    texts = make_ranks(rank.group, LIMIT).host.gather_texts(text)
    others = [other for number, other in enumerate(texts) if number != 1]
    if not all(f"{int(SHORT_LIMIT * 1000)} ms" in other for other in others) or seconds > 6 * SHORT_LIMIT:
        raise ValueError(f"after {seconds:.1f} s ranks raised {others}")
    return {"seconds": round(seconds, 1), "text": others[0]}


#
# Times
#


def time_runs(run, synchronize):
    """Milliseconds of a run, the median of several."""
    run()
    times = []
    for _ in range(TIMED_RUNS):
        synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def time_attention(attention, tensors, synchronize):
    """Milliseconds of attention, and of attention with its gradient."""
    inputs = [tensor.detach().requires_grad_() for tensor in tensors[:3]]

    def forward():
        with torch.no_grad():
            attention(*inputs, is_causal=True)

    def both():
        torch.autograd.grad(attention(*inputs, is_causal=True), inputs, tensors[3])

    return time_runs(forward, synchronize), time_runs(both, synchronize)


def time_methods(rank, run_check):
    # All ranks draw the same tensors, on their own devices.
    generator = torch.Generator(rank.device).manual_seed(1)
    shape = (1, TIMED_HEADS, TIMED_LENGTH, DIM)
    whole = [torch.randn(shape, generator=generator, device=rank.device, dtype=TIMED.dtype) for _ in range(4)]
    flops = 4 * DIM * TIMED_HEADS * TIMED_LENGTH**2 / 2
    milliseconds = {}

    def measure(name, attention, tensors, synchronize):
        forward, both = (rank.largest(value) for value in time_attention(attention, tensors, synchronize))
        milliseconds[name] = both
        row = {"forward_ms": round(forward, 3), "forward_backward_ms": round(both, 3)}
        row["tflops_of_all_ranks"] = round(3.5 * flops / both / 1e9, 1)
        if "one rank" in milliseconds:
            row["speedup"] = round(milliseconds["one rank"] / both, 3)
        return row

    if rank.mode == "threads":
        # Ranks would disturb one another.
        if rank.number == 0:
            forward, both = time_attention(sdpa, whole, torch.cuda.synchronize)
            milliseconds["one rank"] = both
            rank.report(time="one rank", forward_ms=round(forward, 3), forward_backward_ms=round(both, 3))
        rank.synchronize()
    else:
        run_check("time", "one rank", lambda: measure("one rank", sdpa, whole, rank.synchronize))
    for method in METHODS:
        tensors = [shard_sequence(tensor, rank.group, method) for tensor in whole]
        attention = context_parallel(sdpa, rank.group, method, LIMIT)
        run_check("time", method, lambda: measure(method, attention, tensors, rank.synchronize))  # noqa: B023


def time_segments(rank):
    """Attention of one query to a KV cache, of one rank that has all of it and of all ranks, in milliseconds."""
    whole = make_segments(TIMED_SEGMENT_LENGTH, rank)
    parts = [whole[0], *[shard_sequence(tensor, rank.group, SEGMENTS) for tensor in whole[1:]]]
    attention = context_parallel(sdpa, rank.group, SEGMENTS, LIMIT)
    with torch.no_grad():
        one = rank.largest(time_runs(lambda: sdpa(*whole, enable_gqa=True), rank.synchronize))
        error = (attention(*parts, enable_gqa=True) - sdpa(*whole, enable_gqa=True)).abs().max().item()
        both = rank.largest(time_runs(lambda: attention(*parts, enable_gqa=True), rank.synchronize))
    if not rank.largest(error) <= VALUE_TOLERANCE:
        raise ValueError(f"error {error}, expected at most {VALUE_TOLERANCE}")
    gigabytes = 2 * whole[1].numel() * 2 / 1e9
    row = {"one_rank_ms": round(one, 4), "ms": round(both, 4), "speedup": round(one / both, 3)}
    return {**row, "terabytes_per_second": round(gigabytes / both, 2)}


#
# Runs
#


def run_all(rank, args):
    """The number of failures. All ranks run the same checks, and stop at the first one that fails on some ranks
    alone."""
    failures, group_failed = 0, False

    def run_check(kind, name, check, **facts):
        nonlocal failures, group_failed
        if group_failed or args.only not in f"{kind} {name} {facts.get('method', '')}":
            return
        try:
            result = check()
        except ValueError as error:
            failures += 1
            rank.report(**{kind: name}, **facts, failed=str(error))
        except Exception as error:  # noqa: BLE001
            failures += 1
            # Another rank may have no error of its own.
            group_failed = True
            print(json.dumps({kind: name, **facts, "rank": rank.number, "failed": str(error)}), flush=True)
            traceback.print_exc()
        else:
            rank.report(**{kind: name}, **facts, **result)

    for case in CASES:
        expected = None if case.dropout else find_expected(case, rank, None)
        for method in args.methods:
            run_check("check", case.name, functools.partial(check_case, case, method, rank, expected), method=method)
    for method in args.methods:
        run_check("check", "dropout bits", functools.partial(check_bits, method, rank), method=method)
    run_check("check", "segments", functools.partial(check_segments, rank), method=SEGMENTS)
    run_check("check", "disagreement", functools.partial(check_disagreement, rank))
    if not args.no_times:
        time_methods(rank, run_check)
        if rank.mode == "processes":
            run_check("time", "decode 1M", functools.partial(time_segments, rank), method=SEGMENTS)
    # Local ranks have one time limit for all calls.
    if rank.size > 1 and rank.mode == "processes":
        run_check("check", "missing rank", functools.partial(check_missing, rank))
    return failures


def run_threads(size, args):
    group, failures = local_ranks(size, LIMIT), [1] * size
    state = torch.tensor([SEED, 0], dtype=torch.int64, device="cuda")
    # Threads share the generator of torch.
    shards.draw_state = lambda device: state

    def run(number):
        torch.cuda.set_device(0)
        with torch.cuda.stream(torch.cuda.Stream()), torch.autograd.set_multithreading_enabled(False):
            rank = Rank(group[number], number, size, torch.device("cuda", 0), "threads")
            try:
                failures[number] = run_all(rank, args)
            except Exception as error:  # noqa: BLE001
                traceback.print_exc()
                group[number].host.abort(14, str(error))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return max(failures)


def run_process(args):
    number = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(number)
    device = torch.device("cuda", number)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("cpu:gloo,cuda:nccl")
    rank = Rank(dist.group.WORLD, dist.get_rank(), dist.get_world_size(), device, "processes")
    if rank.number == 0:
        print(json.dumps({"device": torch.cuda.get_device_name(device), "nccl": torch.cuda.nccl.version()}), flush=True)
    return run_all(rank, args)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--prepare", metavar="TARGET", help="compile for a target, such as sm_90a, and run nothing")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2], help="numbers of ranks to compile for")
    parser.add_argument("--local", type=int, metavar="N", help="N ranks are threads that share one GPU")
    parser.add_argument("--only", default="", help="run checks whose name contains this")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS, help="methods to check")
    parser.add_argument("--no-times", action="store_true", help="measure no times")
    args = parser.parse_args()
    if args.prepare:
        prepare(args.prepare, args.ranks)
        return 0
    if not args.local and "LOCAL_RANK" not in os.environ:
        parser.error("run it by python -m torch.distributed.run, or with --local N")
    failures = run_threads(args.local, args) if args.local else run_process(args)
    if args.local or os.environ["RANK"] == "0":
        print(f"{failures} failures", flush=True)
    # Groups that have failed on purpose leave calls behind that nobody waits for.
    sys.stdout.flush()
    os._exit(failures != 0)


if __name__ == "__main__":
    sys.exit(main())
