#!/usr/bin/env python3
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times training steps of a Llama of Hugging Face Transformers, with Attn and with torch's SDPA backends.

    llama.py --fill-cache      # where there is a compiler; no GPU
    llama.py --out benchmarks/results/llama.jsonl

The first form fills the kernel cache, $ATTN_CACHE_DIR, which the second can use on another machine. A step is forward
with the loss, backward and the optimizer (AdamW), in bf16. torch.compile compiles the whole model, as one graph. All
sides start with the same parameters, see the same tokens and are timed in turn, several steps at a time.

The model has a mask of one of three kinds:

- causal: the model has a cache of keys, as in a loop that calls a model with its defaults, so that Transformers knows
  that tokens are one sequence. SDPA gets `is_causal`, which is faster than any mask.
- default: the same with the mask that Transformers makes for SDPA. In a compiled model it may be a dense one, since
  versions for torch before 2.14 do not leave masks out while torch compiles. FlashAttention-2 takes none.
- sequences: the model has no cache, as in Transformers' Trainer. The mask depends on position ids, which Transformers
  cannot look at while torch compiles.
"""

import os
import pathlib
import sys
import time
from functools import partial

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import harness  # noqa: E402

# Transformers' names of attention functions, by the names of the sides: Attn's, and SDPA with one of its backends.
ATTENTION = {"attn": "attn", "cudnn": "bench_cudnn", "fa2": "bench_fa2", "efficient": "bench_efficient",
             "math": "bench_math"}  # fmt: skip
BACKENDS = {"cudnn": "CUDNN_ATTENTION", "fa2": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "math": "MATH"}
MASKS = ("causal", "default", "sequences")
# Losses of sides that round differently differ by less than this.
MAX_LOSS_ERROR = 0.02


def register():
    """Adds the attention functions to Transformers."""
    import attn.transformers
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    def make_attention(backend):
        def attend(*arguments, **options):
            with sdpa_kernel(backend):
                return sdpa_attention_forward(*arguments, **options)

        return attend

    attn.transformers.register()
    for op, backend in BACKENDS.items():
        attend = make_attention(getattr(SDPBackend, backend))
        for name, make_mask in ((ATTENTION[op], sdpa_mask), (f"{ATTENTION[op]}_causal", lambda **_: None)):
            AttentionInterface.register(name, attend)
            AttentionMaskInterface.register(name, make_mask)


def make_config(options, layers=None):
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=options.vocabulary, hidden_size=options.hidden, intermediate_size=options.intermediate,
        num_hidden_layers=layers or options.layers, num_attention_heads=options.heads,
        num_key_value_heads=options.kv_heads, head_dim=options.head_dim, max_position_embeddings=options.length,
        tie_word_embeddings=False,
    )  # fmt: skip


class Side:
    """A model with one kind of attention, and its training step."""

    def __init__(self, torch, options, op, mask, compile_options):
        from transformers import LlamaForCausalLM

        torch.manual_seed(0)
        with torch.device(harness.DEVICE):
            model = LlamaForCausalLM(make_config(options)).to(torch.bfloat16).train()
        model.set_attn_implementation(ATTENTION[op] + ("_causal" if mask == "causal" and op in BACKENDS else ""))
        model.config.use_cache = mask != "sequences"
        generator = torch.Generator().manual_seed(1)
        size = (4, options.batch, options.length)
        self.tokens = torch.randint(options.vocabulary, size, generator=generator).to(harness.DEVICE)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        self.model, self.losses = torch.compile(model, fullgraph=True, **compile_options), []

    def step(self):
        tokens = self.tokens[len(self.losses) % len(self.tokens)]
        loss = self.model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.losses.append(loss.detach())

    def train(self, steps):
        for _ in range(steps):
            self.step()


def prepare(torch, options, op, mask, compile_options):
    """A side after its first step and two more, and the seconds of the first one. None if a backend of torch fails."""
    begin = time.perf_counter()
    try:
        side = Side(torch, options, op, mask, compile_options)
        side.step()
        harness.synchronize(torch)
        first = time.perf_counter() - begin
        side.step()
        side.step()
    except Exception as error:  # Torch's backends are not ours: some take no mask.
        if op == "attn":
            raise
        print(f"{op} failed: {(str(error).splitlines() or [type(error).__name__])[0]}", file=sys.stderr)
        return None
    return side, first


def measure(torch, options, rows, mask, compile_options):
    """Adds rows of all sides with one kind of mask. Gives whether their losses agree."""
    import transformers

    sides = {}
    for op in harness.split_list(options.ops):
        prepared = prepare(torch, options, op, mask, compile_options)
        if prepared:
            sides[op] = prepared
    runs = {op: partial(side.train, options.steps) for op, (side, _) in sides.items()}
    times = harness.time_in_turn(torch, runs, options.repeats, options.rounds, warmup=1)
    commit = options.commit or harness.find_package_commit()
    expected, is_right = None, True
    for op in times:
        side, first = sides[op]
        ms = times[op] / options.steps
        losses = [round(loss.item(), 4) for loss in side.losses[:8]]
        expected = expected or losses
        is_close = all(abs(a - b) < MAX_LOSS_ERROR for a, b in zip(losses, expected))
        is_right = is_right and is_close
        rows.add(
            commit, suite="llama", op=op, mask=mask, B=options.batch, S=options.length, layers=options.layers,
            hidden=options.hidden, intermediate=options.intermediate, H=options.heads, Hkv=options.kv_heads,
            D=options.head_dim, vocabulary=options.vocabulary, dtype="bf16", ms=round(ms, 4),
            first_step_s=round(first, 3), losses=losses, torch=torch.__version__,
            transformers=transformers.__version__,
        )  # fmt: skip
        ratio = times[op] / next(iter(times.values()))
        wrong = "" if is_close else "  WRONG"
        print(f"{mask} {op}: {ms:.3f} ms ({ratio:.3f}x), first step {first:.1f} s, losses {losses}{wrong}", flush=True)
    return is_right


def fill_cache(torch, options):
    """Compiles the kernels of the steps for a GPU that this machine need not have."""
    from attn.torch import compile_for
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM(make_config(options, layers=1)).to(torch.bfloat16).train()
    model.set_attn_implementation(ATTENTION["attn"])
    # Two sequences in a row have a mask that reads position ids.
    sequences, one = torch.arange(16).repeat(2)[None], torch.arange(32)[None]
    tokens = torch.zeros((1, 32), dtype=torch.int64)
    for mask in harness.split_list(options.masks):
        model.config.use_cache = mask != "sequences"
        positions = sequences if mask == "sequences" else one
        with compile_for(options.fill_cache):
            model(input_ids=tokens, labels=tokens, position_ids=positions).loss.backward()


def make_parser():
    import argparse

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fill-cache", nargs="?", const="sm_90a", metavar="TARGET", help="compile and measure nothing")
    harness.add_row_options(parser)
    parser.add_argument("--ops", default="attn,cudnn,fa2,efficient", help=f"sides, some of {','.join(ATTENTION)}")
    parser.add_argument("--masks", default=",".join(MASKS), help="kinds of masks")
    for name, default in dict(batch=1, length=4096, layers=4, hidden=2048, intermediate=8192, heads=32, kv_heads=8,
                              head_dim=64, vocabulary=32000, steps=5, repeats=5, rounds=5).items():  # fmt: skip
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    return parser


def main(arguments=None, **compile_options):
    options = make_parser().parse_args(arguments)
    for name, known in (("ops", ATTENTION), ("masks", MASKS)):
        for value in harness.split_list(getattr(options, name)):
            if value not in known:
                sys.exit(f"error: unknown value '{value}' of --{name} (expected some of {', '.join(known)})")

    import torch

    register()
    if options.fill_cache:
        fill_cache(torch, options)
        return 0
    rows = harness.Rows(options, harness.describe_device(torch))
    is_right = True
    for mask in harness.split_list(options.masks):
        torch._dynamo.reset()
        is_right &= measure(torch, options, rows, mask, compile_options)
    return 0 if is_right else 1


if __name__ == "__main__":
    # Each side is compiled, whatever was compiled before.
    os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "0")
    sys.exit(main())
