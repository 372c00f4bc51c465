# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``flash_attn_with_shared_prefix`` on the CPU, against f64 and against attention without sharing."""

import math

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn.torch import flash_attn_with_kvcache, flash_attn_with_shared_prefix  # noqa: E402
from test_kv_cache import D, HKV, H, make, reference  # noqa: E402


class Call:
    """Sequences in groups, whose first keys are in the same pages."""

    def __init__(self, groups, page, queries, dtype=torch.float32):
        """``groups`` has the number of shared keys, and the number of keys that each sequence has in all."""
        self.lengths = [length for _, lengths in groups for length in lengths]
        batch, width = len(self.lengths), -(-max(self.lengths) // page) + 1
        self.groups = torch.tensor([0, *[len(lengths) for _, lengths in groups]]).cumsum(0).int()
        self.prefixes = torch.tensor([prefix for prefix, _ in groups]).int()
        order = torch.randperm(batch * width + 1, generator=torch.Generator().manual_seed(4))
        self.table = order[: batch * width].view(batch, width).int()
        for (prefix, _), begin, end in zip(groups, self.groups.tolist(), self.groups.tolist()[1:]):
            self.table[begin:end, : prefix // page] = self.table[begin, : prefix // page].clone()
        self.k, self.v = (make(len(order), page, HKV, D, seed=seed, dtype=dtype) for seed in (1, 2))
        self.q = make(batch, queries, H, D, dtype=dtype)

    def rows(self, pool, entry):
        return pool[self.table[entry].long()].flatten(0, 1)

    def run(self, **options):
        lengths = torch.tensor(self.lengths, dtype=torch.int32)
        return flash_attn_with_shared_prefix(
            self.q, self.k, self.v, lengths, self.table, self.groups, self.prefixes, return_softmax_lse=True, **options
        )


GROUPS = {
    "one": [(64, [70, 64 + 33, 65, 64 + 16])],
    "several": [(32, [40, 100, 33]), (0, [7, 50]), (128, [130]), (16, [17, 48])],
    "no_own_keys": [(32, [35, 40])],
}


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("queries, options", [(1, {}), (1, {"causal": True}), (3, {"causal": True, "softcap": 4.0}),
                                              (2, {"softmax_scale": 0.3})])  # fmt: skip
def test_against_f64(name, queries, options):
    page = 16
    groups = [(prefix, [length + queries for length in lengths]) for prefix, lengths in GROUPS[name]]
    call = Call(groups, page, queries)
    out, lse = call.run(**options)
    named = {"softmax_scale": "scale"}
    given = {named.get(option, option): value for option, value in options.items()}
    for entry, length in enumerate(call.lengths):
        rows = (call.rows(pool, entry) for pool in (call.k, call.v))
        exact, exact_lse = reference(call.q[entry], *rows, length, **given)
        torch.testing.assert_close(out[entry].double(), exact, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(lse[entry].double(), exact_lse, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.bfloat16, 3e-2)])
def test_dtypes(dtype, tolerance):
    call = Call(GROUPS["several"], 16, 1, dtype)
    out, _ = call.run(causal=True)
    expected = flash_attn_with_kvcache(
        call.q, call.k, call.v, cache_seqlens=torch.tensor(call.lengths).int(), block_table=call.table, causal=True
    )
    torch.testing.assert_close(out, expected, rtol=tolerance, atol=tolerance)


def test_compile():
    """Groups and lengths are read when the graph runs."""
    call = Call(GROUPS["several"], 16, 1)
    function = torch.compile(flash_attn_with_shared_prefix, fullgraph=True, backend="eager")
    for groups, prefixes in ((call.groups, call.prefixes), ([0, 1, 2, 5, 8], [16, 0, 0, 0])):
        given = (call.q, call.k, call.v, torch.tensor(call.lengths).int(), call.table,
                 *(torch.as_tensor(x).int() for x in (groups, prefixes)))  # fmt: skip
        assert torch.equal(function(*given), flash_attn_with_shared_prefix(*given))


def test_long_prefix():
    """A prefix that is longer than an entry is no number of keys."""
    call = Call([(32, [40, 48])], 16, 1)
    call.lengths[1] = 20
    with pytest.raises(attn.AttnError, match="number of keys that is negative"):
        for _ in range(2):
            call.run()


def test_refusals():
    call = Call(GROUPS["one"], 16, 1)
    for name, value, message in (
        ("groups", call.groups.long(), "cu_groups is torch.int64 of the shape .* expected torch.int32 with 1 dimension"),
        ("prefixes", torch.zeros(3).int(), r"prefix_seqlens has the shape \(3,\), expected \(1,\)"),
        ("lengths", [1, 2], r"cache_seqlens has the shape \(2,\), expected \(4,\)"),
        ("q", call.q[0], "q has 3 dimensions, expected 4"),
    ):
        other = Call(GROUPS["one"], 16, 1)
        setattr(other, name, value)
        with pytest.raises(attn.AttnError, match=message):
            other.run()
    assert math.isfinite(call.run()[0].sum())
