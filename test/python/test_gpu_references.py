# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The references of GPU suites in test/Integration/gpu, compared with token-by-token recurrences."""

import math
from functools import partial

import pytest
from conftest import import_gpu_suite

torch = pytest.importorskip("torch")

TOKENS = 130


@pytest.fixture(scope="module")
def suite():
    """test/Integration/gpu/linear_attention.py, with its inputs on the CPU."""
    with import_gpu_suite("linear_attention") as module:
        yield module


def make_inputs(variant, value=None, batch=2):
    """Inputs in f64; `value` sets all log-decays."""
    normal = partial(torch.randn, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    heads, rows = variant.heads, (batch, variant.heads, TOKENS)
    inputs = {"query": normal(*rows, variant.key_dim), "key": normal(*rows, variant.key_dim)}
    inputs["value"] = normal(*rows, variant.value_dim)
    if variant.decay:
        shape = {"head": (heads,), "token": rows, "element": (*rows, variant.key_dim)}[variant.decay]
        decays = torch.nn.functional.logsigmoid(normal(*shape))
        if value == "mixed":
            decays = torch.where(normal(*shape) > 0.8, -1e4, decays / 100)
        elif value is not None:
            decays.fill_(value)
        inputs["log_decay"] = decays
    if variant.beta:
        inputs["key"] = torch.nn.functional.normalize(inputs["key"], dim=-1)
        inputs["beta"] = 2 * normal(*rows).sigmoid()
    if variant.state:
        inputs["initial_state"] = normal(batch, heads, variant.key_dim, variant.value_columns)
    if variant.key_lengths:
        inputs["key_lengths"] = torch.tensor([TOKENS // 2, TOKENS + 3][:batch], dtype=torch.int32)
    if variant.sequences:
        inputs["sequences"] = torch.tensor([0, 3, 3, 64, 101, TOKENS], dtype=torch.int32)
    return inputs


def is_first(variant, inputs, token):
    """Whether the state before a token is none of its own."""
    if variant.sequences and token in inputs["sequences"].tolist():
        return True
    return variant.local_block is not None and token % variant.local_block == 0


def run_by_tokens(variant, inputs):
    """The output, before the normalizer, and the final state, token after token."""
    q, k, v = (inputs[name] for name in ("query", "key", "value"))
    if variant.normalizer:
        v = torch.cat([v, torch.ones_like(v[..., :1])], -1)
    batch, heads, tokens, key_dim = q.shape
    state = inputs["initial_state"] if variant.state else q.new_zeros(batch, heads, key_dim, v.shape[-1])
    rows, blocks = [], []
    for t in range(tokens):
        if is_first(variant, inputs, t):
            state = torch.zeros_like(state)
        is_key = torch.ones(batch, dtype=torch.bool)
        if variant.key_lengths:
            is_key = t < inputs["key_lengths"]
        after = state
        if variant.decay:
            decays = inputs["log_decay"]
            factors = {"head": lambda: decays.expand(batch, heads), "token": lambda: decays[:, :, t],
                       "element": lambda: decays[:, :, t]}[variant.decay]().exp()  # fmt: skip
            if not is_first(variant, inputs, t):
                after = after * factors.reshape(batch, heads, -1, 1)
        update = v[:, :, t]
        if variant.beta:
            update = inputs["beta"][:, :, t, None] * (update - (after * k[:, :, t, :, None]).sum(2))
        after = after + k[:, :, t, :, None] * update[:, :, None]
        state = torch.where(is_key[:, None, None, None], after, state)
        rows.append((state * q[:, :, t, :, None]).sum(2))
        blocks.append(state)
    if not variant.causal:
        length = variant.local_block or tokens
        lasts = [blocks[min((t // length + 1) * length, tokens) - 1] for t in range(tokens)]
        rows = [(last * q[:, :, t, :, None]).sum(2) for t, last in enumerate(lasts)]
    return torch.stack(rows, 2) / math.sqrt(key_dim), state


CASES = [
    dict(),
    dict(state=False, causal=False),
    dict(decay="head"),
    dict(decay="token"),
    dict(decay="element"),
    dict(beta=True),
    dict(beta=True, decay="head"),
    dict(beta=True, decay="token"),
    dict(beta=True, decay="element"),
    dict(normalizer=True, decay="token"),
    dict(key_lengths=True, decay="token", beta=True),
    dict(key_lengths=True, causal=False),
    dict(sequences=True, state=False, decay="element"),
    dict(local_block=17, state=False),
    dict(local_block=17, state=False, causal=False),
]


VALUES = [0.0, -1e-6, -100.0, -1000.0, -math.inf, "mixed"]


ALL = [(case, value) for case in CASES for value in [None, *VALUES * ("decay" in case)]]


@pytest.mark.parametrize("case, value", ALL)
def test_parts_equal_the_recurrence(suite, case, value):
    variant = suite.Variant(key_dim=8, value_dim=5, **case)
    inputs = make_inputs(variant, value, batch=1 if variant.sequences else 2)
    (out, _), (state, _) = suite.run_recurrence(torch, variant, inputs)
    expected, final = run_by_tokens(variant, inputs)
    for actual, exact in ((out, expected), (state, final)):
        torch.testing.assert_close(actual, exact, rtol=1e-8, atol=1e-9 * max(1.0, exact.abs().max().item()))


@pytest.mark.parametrize("case", [case for case in CASES if not {"local_block", "key_lengths"} & set(case)], ids=str)
def test_gradients_equal_those_of_the_recurrence(suite, case):
    variant = suite.Variant(key_dim=8, value_dim=5, gradient=True, **case)
    inputs = make_inputs(variant, "mixed", batch=1 if variant.sequences else 2)
    leaves = [tensor.requires_grad_() for tensor in inputs.values() if tensor.is_floating_point()]
    gradients = []
    for out, state in ([x[0] for x in suite.run_recurrence(torch, variant, inputs)], run_by_tokens(variant, inputs)):
        weights = torch.linspace(-1, 1, out.numel() + state.numel(), dtype=torch.float64)
        loss = (torch.cat([out.flatten(), state.flatten()]) * weights).sum()
        gradients.append(torch.autograd.grad(loss, leaves))
    for actual, exact in zip(*gradients):
        torch.testing.assert_close(actual, exact, rtol=1e-7, atol=1e-8 * max(1.0, exact.abs().max().item()))
