#!/usr/bin/env python3
# ===- sequences_grad.py - Gradients of packed and padded sequences on the GPU -===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Compares gradients of packed and padded sequences with f64 gradients of each sequence by itself.

    sequences_grad.py --compile build/bin/attn-compile --artifacts DIR
    sequences_grad.py --artifacts DIR --runtime libattn_runtime.so
    compute-sanitizer sequences_grad.py --artifacts DIR --sanitizer-subset

What belongs to no sequence holds NaN and must neither matter nor change, nor may infinities of one sequence reach
another. Boundaries that are not valid are reported by the next call, and nothing is written.
"""

import ctypes
import math
import os
import random
import re
import sys
from dataclasses import dataclass
from functools import partial

import attention
from attention_grad import ROUNDING, SCORES, Variant, gradients, make_tokens
from device_suite import choose_variants, compile_artifact, load, make_parser, run_cases
from dropout_reference import Dropout
from sequences import BAD, Batch, check_reports, make_lengths, take

#: The subject of the rows that --record writes.
SUBJECT = "gradients of packed and padded sequences"


@dataclass
class Sequences(Variant):
    """A gradient whose lengths are given as packed boundaries or padded lengths."""

    form: str = "packed"
    # Whether hundreds of sequences are tried, too.
    hundreds: bool = False

    def mlir(self) -> str:
        text = super().mlir()
        kind = "tensor<?xi32>"
        if self.form == "packed":
            # A mask has an entry for each sequence, as many as there are boundaries but one.
            words = f"tensor<?x{self.heads[0]}x?x?xi32>"
            text = text.replace(words, "WORDS")
            text = re.sub(r"tensor.empty\(%batch, (%\w+_words)", r"tensor.empty(%entries, \1", text)
            text = text.replace("  %c4 = arith.constant 4 : index", f"""  %one = arith.constant 1 : index
  %boundaries = tensor.dim %sq, %c0 : {kind}
  %entries = arith.subi %boundaries, %one : index
  %c4 = arith.constant 4 : index""")
            text = re.sub(r"tensor<\?x(\d+)x\?x", r"tensor<1x\1x?x", text)
            text = re.sub(r"tensor<\?x(\d+)x\?xf32>", r"tensor<1x\1x?xf32>", text)
            text = re.sub(r"tensor.empty\(%batch, ", "tensor.empty(", text).replace("WORDS", words)
        text = text.replace(") -> (", f", %sq: {kind}, %sk: {kind}) -> (", 1)
        outs = text.index("outs(", text.index("attn.attention_grad"))
        end = text.index(")", text.index("identity(", outs) if self.identity else outs)
        return text[: end + 1] + f" sequences {self.form}(%sq, %sk : {kind}, {kind})" + text[end + 1 :]


VARIANTS = [
    Sequences("packed_d128_full", 128),
    Sequences("packed_d128_causal_grouped", 128, heads=(8, 2), mask="causal", dlse=True, hundreds=True),
    Sequences("packed_d128_deterministic", 128, heads=(4, 2), mask="causal", deterministic=True),
    Sequences("packed_d64_full", 64, dtype="f16", hundreds=True),
    Sequences("packed_d64_causal_grouped", 64, heads=(6, 2), mask="causal"),
    Sequences("packed_d64_dilated", 64, heads=(4, 2), mask="dilated"),
    Sequences("packed_d128_window", 128, heads=(4, 2), mask="window"),
    Sequences("packed_d72_40", 72, 40, mask="window_both", dlse=True),
    Sequences("packed_d128_chunked", 128, heads=(4, 2), mask="chunked"),
    Sequences("packed_d256_full", 256),
    Sequences("packed_d256_causal_grouped", 256, heads=(4, 2), mask="causal"),
    Sequences("packed_d128_documents", 128, heads=(4, 2), mask="causal", keep="documents"),
    Sequences("packed_d128_bias_of_batch", 128, heads=(4, 2), score="bias_of_batch"),
    Sequences("packed_d128_dropout", 128, mask="causal", dropout=Dropout(0.125, "philox", 7)),
    Sequences("packed_d64_dropout_deterministic", 64, heads=(4, 2), deterministic=True,
              dropout=Dropout(0.1, "philox", 7)),
    Sequences("packed_d128_bits", 128, heads=(4, 2), mask="causal", dropout=Dropout(0.125, "arx", 6), bits="columns"),
    Sequences("packed_d64_bits", 64, dropout=Dropout(0.125, "philox", 7), bits="rows"),
    Sequences("packed_d128_identity", 128, heads=(4, 2), mask="causal", identity=True),
    Sequences("padded_d128_causal_grouped", 128, heads=(8, 2), mask="causal", form="padded"),
    Sequences("padded_d64_full", 64, form="padded", hundreds=True),
    Sequences("padded_d64_deterministic", 64, mask="causal", form="padded", deterministic=True, dlse=True),
    Sequences("padded_d192_128", 192, 128, mask="causal_tl", dtype="f16", form="padded"),
    Sequences("padded_d128_dropout", 128, form="padded", dropout=Dropout(0.125, "philox", 7)),
    Sequences("packed_d128_heads", 128, heads=(12, 3, 6), mask="causal"),
    Sequences("padded_d64_heads", 64, heads=(12, 12, 4), form="padded", deterministic=True),
    Sequences("padded_d64_bits", 64, mask="causal", form="padded", dropout=Dropout(0.125, "philox", 7), bits="columns"),
]

# Of these version 13.5 of the assembler spills 4 to 20 bytes, and 13.0 none.
SPILLING = {f"packed_d128_{name}" for name in ("full", "window", "chunked", "identity")} | {"padded_d128_causal_grouped"}


def lengths_of(variant):
    """Those of the forward suite; fewer with dropout, whose keep masks NumPy makes."""
    lengths = make_lengths()
    if variant.dropout:
        return {name: lengths[name] for name in ("edges", "none", "empty")}
    if variant.hundreds:
        rng = random.Random(8)
        lengths["hundreds"] = [(rng.choice((1, 2, 17, 40)), rng.choice((1, 3, 20, 33))) for _ in range(400)]
    return lengths


def check_sequence(torch, variant, exact, masked, tensors, states, results):
    """The error in the gradients of one sequence, which `tensors` hold alone."""
    q, k, dout, dlse = (tensors[n] for n in (0, 1, 3, 4))
    rounded = gradients(torch, variant, *tensors, *states[:-1], q.dtype, first_batch=states[-1])[2]
    empty, unattended = masked
    if variant.score:
        # Rounding moves what a row has in common, as a gradient of its log-sum-exp does.
        out = exact[0]
        moved = ((out.to(q.dtype).double() - out) * dout.double()).sum(-1)
        given = gradients(torch, variant, *tensors[:4], dlse - moved, *states[:-1], torch.float64,
                          first_batch=states[-1])[2]
        exact = (out, *exact[1:4], *given[3:])
    exact = exact[1:]
    for name, result, expected, other in zip(("dq", "dk", "dv", "dcapture"), results, exact, rounded):
        if not result.isfinite().all():
            return f"{name} is not finite"
        error = (result.double() - expected).norm().item()
        floor = (2e-2 if variant.dropout or variant.identity else 1e-2) * math.sqrt(result.numel())
        # Of few numbers a single rounding may be most of the error.
        allowed = 1e-4 * floor + 2 * (other.double() - expected).norm().item()
        allowed += 2 * ROUNDING[variant.dtype] * expected.norm().item()
        if error > allowed and error > (floor if min(q.shape[2], k.shape[2]) <= 3 else 0):
            return f"{name}: error {error:.3g}, allowed {allowed:.3g}"
    if results[0].masked_fill(~empty[..., None], 0).any():
        return "dq of a row with nothing to attend is not 0"
    of_unattended = [x.masked_fill(~is_so[..., None], 0) for x, is_so in zip(results[1:3], unattended)]
    if not variant.identity and any(x.any() for x in of_unattended):
        return "dk or dv of a key that no query attends is not 0"
    return None


def run_case(torch, function, variant, batch, layout, seed):
    """What is wrong with a case, if anything."""
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[variant.dtype]
    generator = torch.Generator("cuda").manual_seed(seed)
    torch.manual_seed(seed)
    v_dim = variant.v_dim or variant.qk_dim
    kinds = ((variant.heads[0], variant.qk_dim, 0), (variant.heads[1], variant.qk_dim, 1), (variant.shared_heads[1], v_dim, 1),
             (variant.heads[0], v_dim, 0), (variant.heads[0], v_dim, 0))

    def make(heads, dim, side, fill):
        return attention.place(torch, (batch.batches, heads, batch.sizes[side], dim), dtype, layout, fill, 0)[0]

    q, k, v, out, dout = tensors = [make(*kind, float("nan")) for kind in kinds]
    for tensor, (_, _, side) in zip(tensors, kinds):
        for row in batch.rows[side]:
            take(tensor, row).normal_(generator=generator)
    lse, dlse = (torch.full((batch.batches, variant.heads[0], batch.sizes[0]), float("nan"), device="cuda")
                 for _ in range(2))
    for row in batch.rows[0]:
        part = take(dlse, row)
        part.normal_(generator=generator) if variant.dlse else part.zero_()
    rng_state = [int(x) for x in torch.randint(-(2**63), 2**63 - 1, (2,))] if variant.dropout else []
    size = max([*batch.sizes, 1])
    tokens = make_tokens(torch, size)
    identity = torch.rand(variant.heads[0], device="cuda")
    identity[0], identity[-1] = 1, 0
    captures = []
    if variant.score:
        score = SCORES[variant.score]
        longest = [max([row[2] for row in rows] + [1]) for rows in batch.rows]
        shape = score.shape(max(batch.count, 1), variant.heads[0], *longest)
        captures.append(score.size * (torch.rand(shape, device="cuda") + 0.5))

    def own(s):
        """The operands of sequence `s`, and what else its gradients depend on."""
        queries, keys = (batch.rows[side][s] for side in (0, 1))
        values = [take(x, batch.rows[side][s]) for x, side in ((q, 0), (k, 1), (v, 1), (dout, 0))]
        capture = [x[s : s + 1, : queries[2], : keys[2]] for x in captures]
        return [*values, take(dlse, queries)], [rng_state, (), tokens, identity, capture, s]

    exact = {}
    for s in range(batch.count):
        rows = batch.rows[0][s]
        if rows[2] == 0:
            continue
        if batch.rows[1][s][2] == 0:
            take(out, rows).zero_()
            take(lse, rows).fill_(float("-inf"))
            continue
        values, others = own(s)
        wide, wide_lse, wanted, masked = gradients(torch, variant, *values, *others[:-1], torch.float64, first_batch=s)
        take(out, rows).copy_(wide)
        take(lse, rows).copy_(wide_lse)
        exact[s] = (wide, *wanted), masked

    states = [torch.tensor(x, device="cuda") for x in rng_state]
    states += [tokens.doc] if variant.keep else []
    states += [identity] if variant.identity else []
    states += captures
    entries = [torch.tensor(e, device="cuda", dtype=torch.int32) for e in batch.entries]
    runs = []
    for _ in range(2):
        grads = [make(*kind, 7) for kind in kinds[:3]] + [torch.full_like(x, 7) for x in captures]
        function.bind(q, k, v, out, lse, dout, dlse, *states, *entries, *grads,
                      stream=torch.cuda.current_stream().cuda_stream)()
        torch.cuda.synchronize()
        runs.append(grads)
    grads = runs[0]
    if variant.deterministic and any(not torch.equal(a, b) for a, b in zip(*runs)):
        return "two runs differ"
    if batch.batches == 0:
        return None

    free = [torch.ones(batch.batches, batch.sizes[side], dtype=torch.bool, device="cuda") for side in (0, 1)]
    for s in range(batch.count):
        places = [batch.rows[side][s] for side in (0, 1)]
        for unused, (entry, first, count) in zip(free, places):
            unused[entry, first : first + count] = False
        results = [take(x, places[side]) for x, (_, _, side) in zip(grads[:3], kinds)]
        what = f"sequence {s} {places[0][2]}x{places[1][2]}"
        if min(places[0][2], places[1][2]) == 0:
            if any((x != 0).any().item() for x in results) and not variant.identity:
                return f"{what}: gradients without pairs are not 0"
            continue
        if captures:
            results.append(grads[3][s : s + 1, : places[0][2], : places[1][2]])
        wrong = check_sequence(torch, variant, *exact[s], *own(s), results)
        if wrong:
            return f"{what}: {wrong}"
    for name, x, side in zip(("dq", "dk", "dv"), grads, (0, 1, 1)):
        if (x.transpose(1, 2)[free[side]] != 7).any().item():
            return f"rows of {name} that are of no sequence have changed"

    # Infinities of a sequence stay there.
    for s in range(0, batch.count, 2):
        for tensor, side in ((q, 0), (k, 1), (v, 1), (dout, 0)):
            take(tensor, batch.rows[side][s]).fill_(float("inf"))
    again = [make(*kind, 7) for kind in kinds[:3]] + [torch.full_like(x, 7) for x in captures]
    function.bind(q, k, v, out, lse, dout, dlse, *states, *entries, *again,
                  stream=torch.cuda.current_stream().cuda_stream)()
    torch.cuda.synchronize()
    for s in range(1, batch.count, 2):
        for name, before, after, (_, _, side) in zip(("dq", "dk", "dv"), grads, again, kinds):
            before, after = (take(x, batch.rows[side][s]).float() for x in (before, after))
            # Sums of gradients of queries have no order.
            same = torch.equal(before, after) if variant.deterministic or side == 1 else (
                bool(after.isfinite().all()) and (before - after).norm().item() <= 1e-2 * before.norm().item() + 1e-4)
            if not same:
                return f"{name} of sequence {s} depends on another one"
    return None


def run_bad(torch, function, variant, runtime, entries):
    """What is wrong with how sequences that are not valid are met."""
    batches = 1 if variant.form == "packed" else len(entries[0])
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[variant.dtype]
    v_dim = variant.v_dim or variant.qk_dim
    q, k, v, out, dout = (torch.ones(batches, heads, 20, dim, device="cuda", dtype=dtype)
                          for heads, dim in ((variant.heads[0], variant.qk_dim), (variant.heads[1], variant.qk_dim),
                                             (variant.shared_heads[1], v_dim), (variant.heads[0], v_dim), (variant.heads[0], v_dim)))
    lse, dlse = (torch.zeros(batches, variant.heads[0], 20, device="cuda") for _ in range(2))
    lengths = [torch.tensor(e, device="cuda", dtype=torch.int32) for e in entries]
    grads = [torch.full_like(x, 7) for x in (q, k, v)]
    run = function.bind(q, k, v, out, lse, dout, dlse, *lengths, *grads, stream=torch.cuda.current_stream().cuda_stream)
    run()
    torch.cuda.synchronize()
    if any((x != 7).any().item() for x in grads):
        return "gradients have changed"
    return check_reports(torch, run, runtime)


def make_cases(torch, options):
    runtime = ctypes.CDLL(options.runtime)
    for variant in choose_variants(options, VARIANTS):
        function = load(options, f"grad_{variant.name}", variant.name)
        for number, (name, lengths) in enumerate(lengths_of(variant).items()):
            if options.sanitizer_subset and name != "edges":
                continue
            layout, gap = ("bshd", 0) if number % 2 else ("bhsd", 5)
            batch = Batch(variant.form, lengths, gap)
            yield f"{variant.name} {name} {layout}", partial(run_case, torch, function, variant, batch, layout, number)
        plain = not (variant.score or variant.keep or variant.identity or variant.dropout)
        for entries in BAD[variant.form] if plain and not options.sanitizer_subset else ():
            yield f"{variant.name} {entries}", partial(run_bad, torch, function, variant, runtime, entries)


def main():
    parser = make_parser(__doc__, "target", "assemble", "only", "every")
    parser.add_argument("--sanitizer-subset", action="store_true", help="one small case of each, for compute-sanitizer")
    options = parser.parse_args()
    if options.compile:
        for variant in choose_variants(options, VARIANTS):
            assembles = options.assemble or options.target == "sm_90a"
            may_spill = options.target == "sm_90a" and variant.name in SPILLING
            flags = ["--fail-on-spills"] if assembles and not may_spill else []
            flags += ["--embed-ptx=false"] if options.assemble else []
            compile_artifact(options, f"grad_{variant.name}", variant.mlir(), *flags)
        return 0

    import torch

    if options.sanitizer_subset:
        os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    torch.zeros(1, device="cuda")
    return run_cases(make_cases(torch, options), options)


if __name__ == "__main__":
    sys.exit(main())
