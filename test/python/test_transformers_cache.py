# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generation of models of Transformers from ``PagedCache``, against their own attention and cache."""

from unittest import mock

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import attn  # noqa: E402
import attn.transformers  # noqa: E402
from attn.transformers_cache import PagedCache  # noqa: E402
from test_transformers import make_model, make_padding, make_tokens  # noqa: E402

attn.transformers.register()


def make_cache(model, pages=24):
    return PagedCache(model.config, pages=pages, page_size=16)


def generate(model, cache, mask, **options):
    tokens = make_tokens()
    if mask is not None:
        tokens = tokens * mask
    return model.generate(
        tokens, attention_mask=torch.ones_like(tokens) if mask is None else mask, past_key_values=cache,
        max_new_tokens=14, do_sample=False, **options,
    )  # fmt: skip


@pytest.mark.parametrize("padding", ["none", "left"])
@pytest.mark.parametrize("name", ["llama", "mistral", "qwen2", "gemma2", "gpt_oss", "llama4", "gpt2"])
def test_generation(name, padding):
    model = make_model(name)
    mask = None if padding == "none" else make_padding(padding)
    model.set_attn_implementation("eager")
    expected = generate(model, transformers.DynamicCache(config=model.config), mask)
    model.set_attn_implementation("attn")
    cache = make_cache(model)
    with mock.patch.object(attn.transformers, "_attend_pages", wraps=attn.transformers._attend_pages) as calls:
        assert torch.equal(generate(model, cache, mask), expected)
    # Nothing but prompts with padding needs a copy of the pages.
    assert calls.call_count >= 13 * model.config.num_hidden_layers
    assert cache.get_seq_length() == 33


def test_beams():
    model = make_model("llama")
    results = []
    for implementation, make in (("eager", lambda: None), ("attn", lambda: make_cache(model, 40))):
        model.set_attn_implementation(implementation)
        results.append(generate(model, make(), None, num_beams=3))
    assert torch.equal(*results)


def test_chunks_and_crops():
    """A prompt in parts, and tokens that are taken back, as in speculative decoding."""
    model = make_model("llama")
    model.set_attn_implementation("attn")
    tokens = make_tokens(length=40)
    with torch.no_grad():
        expected = model(tokens, use_cache=False).logits
        cache = make_cache(model)
        parts = [model(tokens[:, :33], past_key_values=cache).logits]
        parts.append(model(tokens[:, 33:35], past_key_values=cache).logits)
        model(make_tokens(length=5, seed=3), past_key_values=cache)
        used = cache._pools.num_free_pages
        cache.crop(-5)
        assert cache.get_seq_length() == 35 and cache._pools.num_free_pages == used
        parts.append(model(tokens[:, 35:], past_key_values=cache).logits)
        torch.testing.assert_close(torch.cat(parts, 1), expected, rtol=1e-3, atol=1e-3)
        cache.reset()
        assert cache.get_seq_length() == 0 and cache._pools.num_free_pages == 24
        torch.testing.assert_close(model(tokens, past_key_values=cache).logits, expected, rtol=1e-3, atol=1e-3)


def test_batches():
    model = make_model("llama")
    model.set_attn_implementation("attn")
    tokens, last = make_tokens(), make_tokens(length=1, seed=5)
    with torch.no_grad():
        for change, index in (
            (lambda cache: cache.batch_repeat_interleave(2), [0, 0, 1, 1, 2, 2]),
            (lambda cache: cache.batch_select_indices(torch.tensor([2, 0])), [2, 0]),
            (lambda cache: cache.reorder_cache(torch.tensor([1, 1, 0])), [1, 1, 0]),
        ):
            cache = make_cache(model, 40)
            model(tokens, past_key_values=cache)
            change(cache)
            found = model(last[index], past_key_values=cache).logits[:, -1]
            expected = model(torch.cat((tokens, last), 1)[index], use_cache=False).logits[:, -1]
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


def test_other_attention():
    model = make_model("llama")
    model.set_attn_implementation("sdpa")
    with pytest.raises(attn.AttnError, match="has the attention 'sdpa', which does not know pages"):
        generate(model, make_cache(model), None)


def test_too_few_pages():
    model = make_model("llama")
    model.set_attn_implementation("attn")
    with pytest.raises(attn.AttnError, match="needs 2 pages for 20 keys and has 0, but only 1 pages are free"):
        generate(model, make_cache(model, 5), None)


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2"])
def test_compiled_steps(name):
    """One graph for all lengths, with the tokens of eager attention."""
    model = make_model(name)
    tokens = make_tokens()
    model.set_attn_implementation("eager")
    expected = model.generate(tokens, max_new_tokens=14, do_sample=False)
    model.set_attn_implementation("attn")
    cache = PagedCache(model.config, pages=24, page_size=16, max_length=48)
    graphs = 0

    def backend(graph, inputs):
        nonlocal graphs
        graphs += 1
        return graph.forward

    torch._dynamo.reset()
    step = torch.compile(model.forward, fullgraph=True, backend=backend)
    with torch.no_grad():
        logits, forward = model(tokens, past_key_values=cache).logits, step
        for _ in range(13):
            tokens = torch.cat((tokens, logits[:, -1:].argmax(-1)), 1)
            logits = forward(input_ids=tokens[:, -1:].contiguous(), past_key_values=cache).logits
        tokens = torch.cat((tokens, logits[:, -1:].argmax(-1)), 1)
    assert torch.equal(tokens, expected[:, : tokens.shape[1]]) and graphs == 1
    assert int(cache.get_seq_length()) == tokens.shape[1] - 1
    cache.reset()
    assert int(cache.get_seq_length()) == 0
