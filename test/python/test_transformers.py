# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of Hugging Face Transformers with Attn against their own attention."""

import ast
import copy
import inspect
import pathlib
import re
import sys
import types
from unittest import mock

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import attn.transformers  # noqa: E402
from attn import AttnError, UnsupportedError  # noqa: E402
from transformers import masking_utils  # noqa: E402

attn.transformers.register()

TOKENS, LENGTH, WINDOW = 97, 20, 8
SIZES = dict(
    vocab_size=TOKENS, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=16, max_position_embeddings=64, initializer_range=0.15, pad_token_id=0,
    bos_token_id=1, eos_token_id=None, attention_dropout=0.0,
)  # fmt: skip
LAYERS = ["sliding_attention", "full_attention"]
DECODERS = {
    "llama": lambda: transformers.LlamaConfig(**SIZES),
    "short": lambda: transformers.LlamaConfig(**{**SIZES, "num_hidden_layers": 1}),
    "mistral": lambda: transformers.MistralConfig(**SIZES, sliding_window=WINDOW),
    "qwen2": lambda: transformers.Qwen2Config(
        **SIZES, use_sliding_window=True, sliding_window=WINDOW, layer_types=LAYERS
    ),
    "qwen3": lambda: transformers.Qwen3Config(**SIZES),
    "gemma2": lambda: transformers.Gemma2Config(
        **SIZES, sliding_window=WINDOW, layer_types=LAYERS, attn_logit_softcapping=5.0, query_pre_attn_scalar=16
    ),
    "gemma3": lambda: transformers.Gemma3TextConfig(
        **SIZES, sliding_window=WINDOW, layer_types=LAYERS, query_pre_attn_scalar=16
    ),
    "gpt_oss": lambda: transformers.GptOssConfig(
        **SIZES, sliding_window=WINDOW, layer_types=LAYERS, num_local_experts=4, num_experts_per_tok=2
    ),
    "llama4": lambda: transformers.Llama4TextConfig(
        **SIZES, attention_chunk_size=WINDOW, layer_types=["chunked_attention", "full_attention"],
        intermediate_size_mlp=96, num_local_experts=2, no_rope_layers=[1, 0],
    ),
    "gpt2": lambda: transformers.GPT2Config(
        vocab_size=TOKENS, n_positions=64, n_embd=64, n_layer=2, n_head=4, initializer_range=0.15, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, pad_token_id=0, bos_token_id=1, eos_token_id=None,
    ),
}  # fmt: skip
NAMES = [name for name in DECODERS if name != "short"]
_models = {}


def make_model(name):
    if name not in _models:
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(DECODERS[name]())
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                if "sinks" in key:
                    parameter.normal_()
        _models[name] = model.eval()
    return _models[name]


def make_tokens(batch=3, length=LENGTH, seed=0):
    return torch.randint(2, TOKENS, (batch, length), generator=torch.Generator().manual_seed(seed))


def make_padding(side, batch=3, length=LENGTH):
    """The mask of tokens: each batch entry has more padding."""
    mask = torch.ones(batch, length, dtype=torch.long)
    for entry in range(1, batch):
        mask[entry, : 4 * entry] = 0
    return mask if side == "left" else mask.flip(-1)


def run_both(model, function):
    """The results of a function of the model with each attention."""
    results = []
    for implementation in ("eager", "attn"):
        model.set_attn_implementation(implementation)
        with mock.patch.object(attn.transformers, "sdpa", wraps=attn.transformers.sdpa) as calls:
            results.append(function(model))
        assert (calls.call_count > 0) == (implementation == "attn")
    return results


@pytest.mark.parametrize("padding", ["none", "left", "right"])
@pytest.mark.parametrize("name", NAMES)
def test_logits(name, padding):
    mask = None if padding == "none" else make_padding(padding)

    def run(model):
        with torch.no_grad():
            return model(make_tokens(), attention_mask=mask).logits

    expected, actual = run_both(make_model(name), run)
    valid = torch.ones(3, LENGTH, dtype=torch.bool) if mask is None else mask.bool()
    torch.testing.assert_close(actual[valid], expected[valid], rtol=1e-3, atol=1e-3)


def train(model, steps=3, **arguments):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for step in range(steps):
        tokens = make_tokens(seed=step)
        mask = arguments.get("attention_mask")
        labels = tokens
        if mask is not None:
            # A token is predicted at the position before it.
            labels = labels.masked_fill(mask * torch.nn.functional.pad(mask, (1, -1)) == 0, -100)
        loss = model(tokens, labels=labels, use_cache=False, **arguments).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


@pytest.mark.parametrize("name", NAMES)
def test_losses(name):
    expected, actual = run_both(make_model(name), lambda model: train(copy.deepcopy(model).train()))
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", NAMES)
def test_generation(name, cache):
    def run(model):
        options = dict(max_new_tokens=8, do_sample=False, cache_implementation=cache, disable_compile=True)
        if cache == "dynamic":
            del options["cache_implementation"]
        padded = model.generate(make_tokens(), attention_mask=make_padding("left"), **options)
        return torch.cat((padded, model.generate(make_tokens(), **options)))

    expected, actual = run_both(make_model(name), run)
    assert torch.equal(actual, expected)


def make_encoder(name):
    """A model that is no decoder alone, and the arguments of a call without and with padding."""
    if name in _models:
        return _models[name]
    torch.manual_seed(0)
    tokens, mask = make_tokens(), make_padding("right")
    sizes = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96)
    if name == "bert":
        config = transformers.BertConfig(
            vocab_size=TOKENS, max_position_embeddings=64, initializer_range=0.15, hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0, **sizes,
        )  # fmt: skip
        model = transformers.AutoModelForMaskedLM.from_config(config)
        calls = [dict(input_ids=tokens, labels=tokens)]
        calls += [dict(calls[0], attention_mask=each) for each in (mask, make_padding("left"))]
    elif name == "vit":
        config = transformers.ViTConfig(
            image_size=16, patch_size=4, hidden_dropout_prob=0.0, initializer_range=0.15, num_labels=5, **sizes
        )
        model = transformers.AutoModelForImageClassification.from_config(config)
        calls = [dict(pixel_values=torch.randn(3, 3, 16, 16), labels=torch.tensor([1, 2, 3]))]
    elif name == "t5":
        config = transformers.T5Config(
            vocab_size=TOKENS, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, dropout_rate=0.0,
            decoder_start_token_id=0, eos_token_id=None,
        )  # fmt: skip
        model = transformers.AutoModelForSeq2SeqLM.from_config(config)
        calls = [dict(input_ids=tokens, labels=tokens[:, :12].contiguous())]
        calls.append(dict(calls[0], attention_mask=mask))
    else:
        config = transformers.WhisperConfig(
            vocab_size=TOKENS, num_mel_bins=8, d_model=64, encoder_layers=2, decoder_layers=2,
            encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96,
            max_source_positions=12, max_target_positions=64, dropout=0.0, attention_dropout=0.0, init_std=0.15,
            pad_token_id=0, bos_token_id=1, eos_token_id=None, decoder_start_token_id=2, suppress_tokens=None,
            begin_suppress_tokens=None,
        )  # fmt: skip
        model = transformers.WhisperForConditionalGeneration(config)
        calls = [dict(input_features=torch.randn(3, 8, 24), labels=tokens[:, :12].contiguous())]
    _models[name] = model.eval(), calls
    return _models[name]


@pytest.mark.parametrize("name", ["bert", "vit", "t5", "whisper"])
def test_encoders(name):
    """Logits, and losses of some steps, with and without padding."""
    model, calls = make_encoder(name)

    def run(model):
        with torch.no_grad():
            return [model(**call).logits for call in calls]

    for number, (expected, actual) in enumerate(zip(*run_both(model, run))):
        if name == "bert" and number:
            valid = calls[number]["attention_mask"].bool()
            expected, actual = expected[valid], actual[valid]
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)

    def train(model):
        model = copy.deepcopy(model).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        losses = []
        for _ in range(3):
            loss = model(**calls[0]).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return torch.tensor(losses)

    expected, actual = run_both(model, train)
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", ["t5", "whisper"])
def test_generation_of_encoders(name, cache):
    model, calls = make_encoder(name)
    arguments = {key: value for key, value in calls[-1].items() if key != "labels"}

    def run(model):
        options = dict(max_new_tokens=8, do_sample=False, disable_compile=True)
        if cache == "static":
            options["cache_implementation"] = cache
        # Whisper's own function is for its tokens.
        return transformers.GenerationMixin.generate(model, **arguments, **options)

    expected, actual = run_both(model, run)
    assert torch.equal(actual, expected)


def test_packed_sequences():
    """Positions that begin again are sequences of their own, with a window and without."""
    positions = torch.cat((torch.arange(9), torch.arange(11)))[None]
    for name in ("llama", "gemma3", "llama4"):

        def run(model):
            with torch.no_grad():
                return model(make_tokens(2), position_ids=positions, use_cache=False).logits

        expected, actual = run_both(make_model(name), run)
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)


def test_prefill_in_parts():
    """More than one query behind keys of a cache, with and without padding."""

    def run(model):
        logits = []
        for mask in (None, make_padding("left")):
            for make_cache in (transformers.DynamicCache, lambda config: transformers.StaticCache(config, 32)):
                cache = make_cache(config=model.config)
                for part in (slice(0, 7), slice(7, 13), slice(13, 20)):
                    with torch.no_grad():
                        part_mask = None if mask is None else mask[:, : part.stop]
                        out = model(make_tokens()[:, part], attention_mask=part_mask, past_key_values=cache)
                logits.append(out.logits)
        return torch.stack(logits)

    for name in ("llama", "gemma3"):
        expected, actual = run_both(make_model(name), run)
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "name, padding, backend", [("gemma2", "none", "eager"), ("short", "left", "inductor")]
)
def test_compiled_training(name, padding, backend):
    """Without a mask, and with a mask of padding, whose contents compilers of torch do not know."""
    torch._dynamo.reset()
    arguments = {} if padding == "none" else dict(attention_mask=make_padding(padding))
    losses = []
    for implementation in ("eager", "attn"):
        model = make_model(name)
        model.set_attn_implementation(implementation)
        model = copy.deepcopy(model).train()
        if implementation == "attn":
            model = torch.compile(model, fullgraph=True, backend=backend)
        losses.append(train(model, **arguments))
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("padding", ["none", "left"])
def test_compiled_generation(padding):
    """A mask that is an argument of a compiled function."""
    torch._dynamo.reset()
    model = make_model("gemma3")
    mask = None if padding == "none" else make_padding(padding)
    options = dict(attention_mask=mask, max_new_tokens=8, do_sample=False, cache_implementation="static")
    model.set_attn_implementation("eager")
    expected = model.generate(make_tokens(), disable_compile=True, **options)
    config = transformers.CompileConfig(backend="eager", fullgraph=True, mode=None)
    config._compile_all_devices = True
    model.set_attn_implementation("attn")
    assert torch.equal(model.generate(make_tokens(), compile_config=config, **options), expected)


def test_dense_masks():
    """Masks of four dimensions, boolean and added."""
    keep = torch.rand(3, 1, LENGTH, LENGTH, generator=torch.Generator().manual_seed(0)) < 0.5
    keep |= torch.eye(LENGTH, dtype=torch.bool)
    added = torch.where(keep, 0.0, torch.finfo(torch.float32).min)
    model = make_model("llama")
    with torch.no_grad():
        model.set_attn_implementation("eager")
        expected = model(make_tokens(), attention_mask=added).logits
        model.set_attn_implementation("attn")
        for mask in (keep, added):
            actual = model(make_tokens(), attention_mask=mask).logits
            torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)


PADDINGS = {
    "none": None,
    "left": torch.arange(12) >= torch.tensor([[0], [3]]),
    "right": torch.arange(12) < torch.tensor([[12], [8]]),
    "gaps": (torch.arange(12) + torch.tensor([[0], [1]])) % 4 != 1,
}
# Queries, keys, and the positions of the first ones.
PLACES = [(12, 12, 0, 0), (5, 12, 3, 0), (12, 20, 0, 0), (5, 12, 7, 0), (1, 12, 11, 0), (4, 8, 8, 4), (1, 12, 6, 0)]
BLOCKS = torch.tensor([[-1, -1, 0, 0, 0, -1, 1, 1, 1, 1, -1, -1] + [-1] * 8]).expand(2, -1)
STARTS = torch.tensor([0, 2])
# Two sequences that are packed into one, the second of which begins at 8: their ids, and positions in them.
SEQUENCES = (torch.arange(20) >= 8).long()[None].expand(2, -1)
IN_SEQUENCE = (torch.arange(20) - 8 * SEQUENCES).contiguous()
# Ids whose lower 32 bits are equal, that differ by less than 1, or that are the least number of 32 bits.
WIDE, FRACTIONS, LEAST = SEQUENCES * 2**32, SEQUENCES / 4, SEQUENCES.int() - 2**31


def refuse_symbols(batch, head, query, key):
    if not isinstance(query, torch.Tensor):
        raise ValueError("expected tensors")
    return key <= query


def make_packed(table, ids=SEQUENCES, other=None):
    """Causal in positions of a table, and only pairs of equal ids."""
    other = table if other is None else other
    return lambda batch, head, query, key: (
        (other[batch, key] <= table[batch, query]) & (ids[batch, query] == ids[batch, key])
    )


FUNCTIONS = {
    "causal": masking_utils.causal_mask_function,
    "window": masking_utils.sliding_window_causal_mask_function(4),
    "bidirectional": masking_utils.bidirectional_mask_function,
    "bidirectional window": masking_utils.sliding_window_bidirectional_mask_function(3),
    "chunks": masking_utils.chunked_causal_mask_function(4, torch.zeros(2, dtype=torch.long)),
    "chunks behind padding": masking_utils.chunked_causal_mask_function(4, torch.tensor([0, 3])),
    "blocks": masking_utils.or_masks(
        masking_utils.causal_mask_function, masking_utils.blockwise_overlay(BLOCKS)
    ),
    "conditions": lambda batch, head, query, key: (key <= query) & (query >= STARTS[batch]) & (key != 2),
    "packed": make_packed(IN_SEQUENCE),
    "wide ids": make_packed(IN_SEQUENCE, WIDE),
    "fractions": make_packed(IN_SEQUENCE, FRACTIONS),
    "least ids": lambda batch, head, query, key: (LEAST[batch, query] == LEAST[batch, key]) & (key != 2),
    "unknown": lambda batch, head, query, key: (key * query) % 3 != 1,
    "conversion": lambda batch, head, query, key: key.to(torch.bool) <= query.to(torch.bool),
    "symbols": refuse_symbols,
    "falling positions": make_packed(19 - IN_SEQUENCE),
    "two sequences of an id": make_packed(IN_SEQUENCE, torch.zeros_like(SEQUENCES)),
    "two tables": make_packed(IN_SEQUENCE, other=IN_SEQUENCE + 1),
}
DENSE = ("unknown", "conversion", "symbols", "falling positions", "two sequences of an id", "two tables")


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_masks(function, padding):
    """Named masks and lengths against the dense masks of Transformers, at all places of queries and keys."""
    generator = torch.Generator().manual_seed(0)
    module = torch.nn.Module()
    for queries, keys, q_offset, kv_offset in PLACES:
        arguments = dict(
            batch_size=2, q_length=queries, kv_length=keys, kv_offset=kv_offset, mask_function=FUNCTIONS[function],
            attention_mask=PADDINGS[padding],
        )  # fmt: skip
        dense = masking_utils.sdpa_mask(q_offset=q_offset, allow_is_causal_skip=False, **arguments)
        q = torch.randn(2, 4, queries, 16, generator=generator)
        k, v = (torch.randn(2, 2, keys, 16, generator=generator) for _ in range(2))
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, dense, enable_gqa=True).transpose(1, 2)
        # Rows with nothing to attend are 0.
        expected = torch.where(dense.any(-1).transpose(1, 2)[..., None], expected, 0.0)
        for offset in (q_offset, torch.tensor([q_offset])):
            mask = attn.transformers.make_mask(q_offset=offset, **arguments)
            is_dense = isinstance(mask, torch.Tensor)
            assert function not in DENSE or is_dense
            assert is_dense or mask.shape == (2, 1, queries, keys)
            # Operations of torch compute double precision, where nothing is compiled; they do not know lengths.
            has_lengths = not is_dense and mask.key_lengths is not None
            dtype = torch.float32 if has_lengths else torch.float64
            actual, weights = attn.transformers.attend(module, *(each.to(dtype) for each in (q, k, v)), mask)
            assert weights is None
            torch.testing.assert_close(actual.float(), expected, rtol=1e-4, atol=1e-4)


def test_packed_sequences_of_compilers():
    """Contents are not known: positions that do not count from the start of a sequence are an error of the call."""
    torch._dynamo.reset()
    q = torch.randn(2, 2, 12, 16, generator=torch.Generator().manual_seed(0))

    def run(table, ids):
        mask = attn.transformers.make_mask(2, 12, 12, mask_function=make_packed(table, ids))
        return attn.transformers.attend(torch.nn.Module(), q, q, q, mask)[0]

    compiled = torch.compile(run, fullgraph=True, backend="eager")
    for ids in (SEQUENCES, WIDE, FRACTIONS):
        torch.testing.assert_close(compiled(IN_SEQUENCE, ids), run(IN_SEQUENCE, ids))
    for table, ids in ((19 - IN_SEQUENCE, SEQUENCES), (IN_SEQUENCE, torch.zeros_like(SEQUENCES))):
        with pytest.raises(RuntimeError, match="position_ids must count from the start of each sequence"):
            compiled(table, ids)


def test_named_masks():
    """The masks of usual models have no elements."""

    def describe(function, *places, padding="none", q_offset=0):
        mask = attn.transformers.make_mask(
            2, *places, q_offset=q_offset, mask_function=FUNCTIONS[function], attention_mask=PADDINGS[padding]
        )
        return repr(mask.mask), mask.key_lengths, mask.num_keys

    text, lengths, keys = describe("causal", 12, 12)
    assert (text, lengths, keys) == ("<mask #attn.causal<alignment = top_left>>", None, 12)
    assert describe("window", 12, 20)[2] == 12
    text, lengths, _ = describe("window", 12, 12, padding="right")
    assert text == "<mask #attn.sliding_window<left = 3, right = 0, alignment = top_left>>"
    assert lengths.tolist() == [12, 8]
    assert "#attn.documents" in describe("window", 12, 12, padding="left")[0]
    assert "#attn.local_blocks<size = 4" in describe("chunks", 12, 12)[0]
    for function in ("packed", "wide ids", "fractions"):
        assert describe(function, 12, 12)[0].startswith("<mask #attn.and<#attn.causal<"), function
    assert describe("causal", 1, 12, q_offset=11)[:2] == ("None", None)
    # The place of a query in a static cache is a tensor.
    assert describe("causal", 1, 12, q_offset=torch.tensor(6))[1].tolist() == [7, 7]


def test_parts_of_masks():
    mask = attn.transformers.make_mask(2, 12, 12)
    assert mask[:, :, :, :12] is mask and mask[..., :20] is mask
    assert mask.to("meta").shape == (2, 1, 12, 12)
    with pytest.raises(AttnError, match="takes the part .* of a mask of the shape"):
        mask[:, :, :, :5]
    for index in ((*[slice(None)] * 4, None), (..., *[slice(None)] * 5)):
        with pytest.raises(AttnError, match="which has four dimensions"):
            mask[index]
    with pytest.raises(UnsupportedError, match="the model computes .*add.* of its mask"):
        torch.zeros(2, 1, 12, 12) + mask
    x = torch.zeros(2, 2, 9, 16)
    with pytest.raises(AttnError, match="the mask is for 12 queries and 12 keys, and a layer has 9 and 9"):
        attn.transformers.attend(torch.nn.Module(), x, x, x, mask)


def test_probabilities_are_refused():
    x = torch.zeros(2, 2, 9, 16)
    with pytest.raises(UnsupportedError, match='use attn_implementation="eager"'):
        attn.transformers.attend(torch.nn.Module(), x, x, x, None, output_attentions=True)
    for name in attn.transformers.REFUSED:
        with pytest.raises(UnsupportedError, match=f"the model passes {name}"):
            attn.transformers.attend(torch.nn.Module(), x, x, x, None, **{name: torch.zeros(2, 9, 3)})
    with pytest.raises(AttnError, match=r"sinks has the shape \(2, 2, 9\), expected \(2, 2, 9, 1\)"):
        attn.transformers.attend(torch.nn.Module(), x, x, x, None, sinks=torch.zeros(2, 2, 9))
    with pytest.raises(AttnError, match="attention_mask has the shape"):
        attn.transformers.attend(torch.nn.Module(), x, x, x, torch.ones(2, 9))
    model = make_model("llama")
    model.set_attn_implementation("attn")
    with pytest.raises(UnsupportedError, match="output_attentions needs probabilities"):
        model(make_tokens(), output_attentions=True)
    with pytest.raises(ValueError, match="output_attentions"):
        model.config.output_attentions = True


def test_models_without_our_masks():
    """Doge adds masks to its biases only if they are tensors: causal masks would be lost."""
    x = torch.zeros(2, 2, 9, 16)
    module = torch.nn.Module()
    module.config = types.SimpleNamespace(model_type="doge")
    with pytest.raises(UnsupportedError, match="models of type doge leave out masks"):
        attn.transformers.attend(module, x, x, x, torch.zeros(2, 2, 9, 9))
    # DeepSeek V4 appends numbers to dense masks, which a mask of booleans would invert.
    module.config.model_type = "deepseek_v4"
    with pytest.raises(UnsupportedError, match="models of type deepseek_v4 extend masks by numbers"):
        attn.transformers.attend(module, x, x, x, torch.ones(2, 1, 9, 9, dtype=torch.bool))


@pytest.mark.parametrize("causal", [True, False])
def test_sinks_of_queries(causal):
    """Sinks with a logit for each query, in the softmax of float64, with gradients."""
    torch.manual_seed(0)
    tensors = [torch.randn(2, heads, 9, 16) for heads in (4, 2, 2)] + [3 * torch.randn(2, 4, 9, 1)]
    inputs = [x.requires_grad_() for x in tensors]
    exact = [x.detach().double().requires_grad_() for x in tensors]
    module = torch.nn.Module()
    module.is_causal = causal
    out, _ = attn.transformers.attend(module, *inputs[:3], None, scaling=0.5, sinks=inputs[3])
    query, key, value, sinks = exact
    scores = query @ key.repeat_interleave(2, 1).mT * 0.5
    if causal:
        scores = scores.masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), float("-inf"))
    weights = torch.cat((scores, sinks), -1).softmax(-1)[..., :-1]
    expected = (weights @ value.repeat_interleave(2, 1)).transpose(1, 2)
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5)
    dout = torch.randn(out.shape)
    out.backward(dout)
    expected.backward(dout.double())
    for actual, wanted in zip(inputs, exact):
        torch.testing.assert_close(actual.grad.double(), wanted.grad, rtol=1e-4, atol=1e-4)


#: Arguments that masks hold already, or that other functions of attention need.
WITHOUT_EFFECT = {
    "sliding_window", "cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "position_ids",
    "output_attentions", "deterministic",
}  # fmt: skip


def test_arguments_of_models():
    """All arguments that models of Transformers give to attention are computed, refused, or have no effect."""
    known = set(inspect.signature(attn.transformers.attend).parameters) | set(attn.transformers.REFUSED)
    given = {}
    folder = pathlib.Path(transformers.__file__).parent / "models"
    for path in folder.glob("*/modeling_*.py"):
        text = path.read_text()
        # Parsing these files as a whole takes ten seconds.
        for match in re.finditer(r"attention_interface(?=\()|def eager_attention_forward(?=\()", text):
            end = match.end()
            while text[match.end() : end].count("(") != text[match.end() : end].count(")") or end == match.end():
                end = text.index(")", end) + 1
            arguments = text[match.end() : end]
            if match[0].startswith("def"):
                function = ast.parse(f"def f{arguments}: ...").body[0]
                names = [argument.arg for argument in [*function.args.args[4:], *function.args.kwonlyargs]]
            else:
                names = [keyword.arg for keyword in ast.parse(f"f{arguments}").body[0].value.keywords]
            for name in names:
                given.setdefault(name, path.parent.name)
    assert {"scaling", "dropout", "attention_mask"} <= set(given)
    unknown = {name: model for name, model in given.items() if name and name not in known | WITHOUT_EFFECT}
    assert not unknown


@pytest.mark.parametrize("module", [None, types.SimpleNamespace()])
def test_missing_transformers(monkeypatch, module):
    monkeypatch.setitem(sys.modules, "transformers", module)
    with pytest.raises(ImportError, match="pip install --upgrade 'transformers>=5'"):
        attn.transformers.register()


def test_old_transformers(monkeypatch):
    monkeypatch.setattr(masking_utils, "sdpa_mask", lambda batch_size, cache_position: None)
    with pytest.raises(ImportError, match="know no q_offset"):
        attn.transformers.register()
