#!/usr/bin/env python3
# ===- generate.py - Serve a language model from a paged KV cache -------------===#
#
# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------===#
"""Continuous batching of a small Llama: requests come and go while others decode.

    python3 docs/examples/generate.py --check
    python3 docs/examples/generate.py --device cuda --dtype bfloat16 --requests 64

Each step prefills a chunk of one prompt, and decodes one token of each running request. Keys and values are in the
pages of one cache; a request that finds no free page makes the latest one give up its pages and start again. On a GPU
the decode step is one CUDA graph for all batches and lengths. With --check, tokens must equal the greedy generation of
Transformers, and in 16 bits have logits near the largest ones. The model has random weights; --model takes the folder
or name of a Llama instead.
"""

import argparse
import collections
import dataclasses
import random
import sys
import time
from typing import Deque, List, Optional

import torch
import transformers
from torch import Tensor
from torch.nn.functional import rms_norm, silu

import attn.torch


# Roundings between a logit and the largest one, at most, of a token in 16 bits. A logit has the roundings of three
# layers and of itself.
NEAR_LOGITS = 4.0


@dataclasses.dataclass(eq=False)
class Request:
    """A prompt and the tokens that follow it."""

    prompt: List[int]
    new_tokens: int
    tokens: List[int] = dataclasses.field(default_factory=list)
    #: How many of all tokens have keys in the cache.
    cached: int = 0

    @property
    def all_tokens(self) -> List[int]:
        return self.prompt + self.tokens

    @property
    def is_finished(self) -> bool:
        return len(self.tokens) == self.new_tokens


class Llama:
    """The parameters of a Llama of Transformers, with a forward pass that reads and writes a paged cache."""

    def __init__(self, model: transformers.LlamaForCausalLM, pages: int, page_size: int, longest: int):
        self.model, self.config = model, model.config
        config, weight = model.config, model.lm_head.weight
        self.head_dim = config.head_dim
        self.cache = attn.torch.PagedKVCache(
            config.num_hidden_layers, config.num_key_value_heads, self.head_dim, pages=pages, page_size=page_size,
            dtype=weight.dtype, device=weight.device,
        )  # fmt: skip
        positions = torch.arange(longest, device=weight.device)[None]
        angles = model.model.rotary_emb(weight, positions)
        # Both halves of a row have the same angles.
        self.cos, self.sin = (table[0, :, : self.head_dim // 2].contiguous() for table in angles)

    def forward(self, tokens: Tensor, lengths: Tensor, table: Tensor) -> Tensor:
        """The next tokens of a batch ``[batch, new tokens]``, whose entries have so many keys in the cache."""
        epsilon = self.config.rms_norm_eps
        x = self.model.model.embed_tokens(tokens)
        for number, layer in enumerate(self.model.model.layers):
            y = rms_norm(x, x.shape[-1:], layer.input_layernorm.weight, epsilon)
            a = layer.self_attn
            q, k, v = (p(y).unflatten(-1, (-1, self.head_dim)) for p in (a.q_proj, a.k_proj, a.v_proj))
            out = self.cache.attend(
                number, q, k, v, rotary_cos=self.cos, rotary_sin=self.sin, rotary_interleaved=False,
                cache_seqlens=lengths, block_table=table, causal=True,
            )  # fmt: skip
            x = x + a.o_proj(out.flatten(2))
            y = rms_norm(x, x.shape[-1:], layer.post_attention_layernorm.weight, epsilon)
            x = x + layer.mlp.down_proj(silu(layer.mlp.gate_proj(y)) * layer.mlp.up_proj(y))
        x = rms_norm(x[:, -1], x.shape[-1:], self.model.model.norm.weight, epsilon)
        return self.model.lm_head(x).argmax(-1)


class DecodeStep:
    """One token for each entry of a batch of a fixed size, as one CUDA graph on a GPU."""

    def __init__(self, llama: Llama, batch: int, longest: int):
        self.llama, self.batch = llama, batch
        device = llama.cos.device
        # Entries without a request write into a page of their own.
        llama.cache.reserve("idle", 1)
        self.tokens = torch.zeros(batch, 1, dtype=torch.long, device=device)
        self.lengths = torch.zeros(batch, dtype=torch.int32, device=device)
        self.table = torch.zeros(batch, llama.cache.count_pages(longest), dtype=torch.int32, device=device)
        self.graph: Optional[torch.cuda.CUDAGraph] = None
        self._fill([])
        if device.type == "cuda":
            # The first call compiles.
            self._forward()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self._forward()

    @torch.no_grad()
    def _forward(self) -> None:
        self.result = self.llama.forward(self.tokens, self.lengths, self.table)

    def _fill(self, requests: List[Request]) -> None:
        idle = self.batch - len(requests)
        self.tokens.copy_(torch.tensor([request.all_tokens[-1] for request in requests] + [0] * idle)[:, None])
        self.lengths.copy_(torch.tensor([request.cached for request in requests] + [0] * idle, dtype=torch.int32))
        self.llama.cache.table([*requests, *["idle"] * idle], self.table)

    def __call__(self, requests: List[Request]) -> List[int]:
        self._fill(requests)
        if self.graph is None:
            self._forward()
        else:
            self.graph.replay()
        return self.result[: len(requests)].tolist()


class Server:
    """Requests that wait, and requests that run: the latter have pages."""

    def __init__(self, llama: Llama, batch: int, chunk: int, longest: int):
        self.llama, self.chunk, self.longest = llama, chunk, longest
        self.decode = DecodeStep(llama, batch, longest)
        self.pages = llama.cache.num_free_pages
        self.waiting: Deque[Request] = collections.deque()
        self.running: List[Request] = []
        self.restarts = 0

    def submit(self, request: Request) -> None:
        tokens = len(request.prompt) + request.new_tokens
        if tokens > self.longest:
            raise ValueError(f"a request has {tokens} tokens, more than {self.longest}")
        if self.llama.cache.count_pages(tokens) > self.pages:
            raise ValueError(f"a request of {tokens} tokens needs more than the {self.pages} pages of the cache")
        self.waiting.append(request)

    def _reserve(self, request: Request, length: int) -> bool:
        """Makes room for so many keys of a running request; later requests may lose their pages, and so may itself."""
        cache = self.llama.cache
        while not cache.can_reserve(request, length):
            last = self.running.pop()
            cache.release(last)
            last.cached = 0
            self.waiting.appendleft(last)
            self.restarts += 1
            if last is request:
                return False
        cache.reserve(request, length)
        return True

    def _prefill(self) -> None:
        """Caches a chunk of the first request whose last token but one has no keys yet."""
        if self.waiting and len(self.running) < self.decode.batch:
            first = self.waiting[0]
            if self.llama.cache.can_reserve(first, min(len(first.all_tokens), self.chunk)):
                self.llama.cache.reserve(self.waiting.popleft(), 0)
                self.running.append(first)
        for request in self.running:
            rest = request.all_tokens[request.cached :]
            if len(rest) > 1 or not request.tokens:
                break
        else:
            return
        part = rest[: self.chunk]
        if not self._reserve(request, request.cached + len(part)):
            return
        device = self.llama.cos.device
        lengths = torch.tensor([request.cached], dtype=torch.int32, device=device)
        table = self.llama.cache.table([request])
        result = self.llama.forward(torch.tensor([part], device=device), lengths, table)
        request.cached += len(part)
        if len(part) == len(rest):
            request.tokens.append(int(result))

    def _decode(self) -> None:
        ready = [r for r in self.running if r.tokens and r.cached == len(r.all_tokens) - 1 and not r.is_finished]
        ready = [request for request in ready if request in self.running and self._reserve(request, request.cached + 1)]
        ready = [request for request in ready if request in self.running]
        if ready:
            for request, token in zip(ready, self.decode(ready)):
                request.cached += 1
                request.tokens.append(token)

    @torch.no_grad()
    def run(self) -> None:
        while self.waiting or self.running:
            self._prefill()
            self._decode()
            for request in [request for request in self.running if request.is_finished]:
                self.running.remove(request)
                self.llama.cache.release(request)


def make_model(options: argparse.Namespace) -> transformers.LlamaForCausalLM:
    torch.manual_seed(0)
    if options.model:
        model = transformers.LlamaForCausalLM.from_pretrained(options.model)
    else:
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=512, hidden_size=128, intermediate_size=256, num_hidden_layers=3, num_attention_heads=8,
            num_key_value_heads=2, max_position_embeddings=1024,
        ))  # fmt: skip
    return model.to(options.device, getattr(torch, options.dtype)).eval()


@torch.no_grad()
def find_gap(model: transformers.LlamaForCausalLM, request: Request) -> float:
    """By how much the logit of a token is below the largest one, at most, for Transformers with the same tokens before
    it: relative to the largest logit of the position, in roundings of the dtype."""
    tokens = torch.tensor([request.all_tokens], device=model.device)
    logits = model(tokens).logits[0, len(request.prompt) - 1 : -1].float()
    chosen = logits.gather(1, tokens[0, len(request.prompt) :, None])[:, 0]
    largest = logits.max(1).values
    return float(((largest - chosen) / logits.abs().max(1).values).max() / torch.finfo(model.dtype).eps)


def check(model: transformers.LlamaForCausalLM, requests: List[Request]) -> int:
    """The number of requests for which Transformers generates other tokens. In 16 bits, roundings decide between tokens
    with about the same logits, and all tokens after them are others: these count if their logits are near the largest
    ones."""
    wrong, most = 0, 0.0
    if model.dtype in (torch.bfloat16, torch.float16):
        for number, request in enumerate(requests):
            gap = find_gap(model, request)
            most = max(most, gap)
            if gap > NEAR_LOGITS:
                wrong += 1
                print(f"request {number}: a token's logit is {gap:.1f} roundings below the largest one")
        print(f"logits of tokens are at most {most:.1f} roundings below the largest ones")
        return wrong
    for number, request in enumerate(requests):
        prompt = torch.tensor([request.prompt], device=model.device)
        expected = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=request.new_tokens, do_sample=False,
            min_new_tokens=request.new_tokens, pad_token_id=0,
        )[0, prompt.shape[1] :].tolist()  # fmt: skip
        if expected != request.tokens:
            wrong += 1
            print(f"request {number}: {request.tokens} instead of {expected}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="folder or name of a Llama")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--requests", type=int, default=12)
    parser.add_argument("--batch", type=int, default=4, help="requests that run at a time, at most")
    parser.add_argument("--chunk", type=int, default=32, help="tokens of a prompt in a step, at most")
    parser.add_argument("--pages", type=int, default=24)
    parser.add_argument("--page-size", type=int, default=16)
    parser.add_argument("--longest", type=int, default=256, help="tokens of a request, at most")
    parser.add_argument("--check", action="store_true", help="compare with the generation of Transformers")
    options = parser.parse_args()
    model = make_model(options)
    llama = Llama(model, options.pages, options.page_size, options.longest)
    server = Server(llama, options.batch, options.chunk, options.longest)
    rng = random.Random(0)
    requests = []
    for _ in range(options.requests):
        prompt = [rng.randrange(3, model.config.vocab_size) for _ in range(rng.randint(1, options.longest // 3))]
        requests.append(Request(prompt, rng.randint(1, options.longest // 4)))
        server.submit(requests[-1])
    start = time.perf_counter()
    server.run()
    seconds = time.perf_counter() - start
    count = sum(len(request.tokens) for request in requests)
    print(f"{count} tokens of {len(requests)} requests in {seconds:.2f} s, {server.restarts} restarts")
    if not options.check:
        return 0
    wrong = check(model, requests)
    print(f"{len(requests) - wrong} requests equal, {wrong} differ")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
