# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments of FlashAttention-3 by name, and functions for packed tensors, against f64 and the other functions."""

import inspect
import itertools
import math

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn.torch import (  # noqa: E402
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
    flash_attn_with_kvcache,
)
from flash_reference import Options, attend  # noqa: E402

H, HKV, D, PAGE, ROOM = 4, 2, 16, 16, 96
LENGTHS, QUERIES, NEW = [0, 7, 40, 60], [1, 0, 20, 3], 4
SINKS = torch.tensor([0.5, -1.0, 2.0, 0.0])
SLOPES = torch.tensor([0.1, 0.2, 0.3, 0.4])
FIRST = [0, 3, 0, 20]


def make(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def ints(numbers):
    return torch.tensor(numbers, dtype=torch.int32)


BOUNDS = ints([0, *itertools.accumulate(QUERIES)])


class Cache:
    """A contiguous cache, the same in pages, and what both have after new keys are written."""

    def __init__(self):
        self.dense = [make(len(LENGTHS), ROOM, HKV, D, seed=seed) for seed in (1, 2)]
        for tensor in self.dense:
            for entry, length in enumerate(LENGTHS):
                tensor[entry, length:] = math.nan
        order = torch.randperm(len(LENGTHS) * ROOM // PAGE, generator=torch.Generator().manual_seed(5))
        self.table = order.view(len(LENGTHS), -1).to(torch.int32)
        self.pools = [torch.empty(len(order), PAGE, HKV, D) for _ in self.dense]
        for pool, tensor in zip(self.pools, self.dense):
            pool[self.table.long()] = tensor.unflatten(1, (-1, PAGE))

    def stored(self, is_paged):
        """Tensors of the cache, and the arguments that it needs."""
        return (self.pools, {"page_table": self.table}) if is_paged else (self.dense, {})


def rotate(rows, positions, cos, sin, interleaved):
    """Rows `[n, heads, D]` of which the first elements are rotated, in f64."""
    rows, half = rows.double().clone(), cos.shape[1]
    first = torch.arange(half) * 2 if interleaved else torch.arange(half)
    second = first + (1 if interleaved else half)
    a, b = rows[..., first], rows[..., second]
    cos, sin = (table.double()[positions][:, None] for table in (cos, sin))
    rows[..., first], rows[..., second] = a * cos - b * sin, a * sin + b * cos
    return rows


PACKED = {
    "plain": ({}, {}),
    "chunks": ({"causal": True, "attention_chunk": 16}, {}),
    "sinks": ({"window_size": (9, 0), "s_aux": SINKS, "softcap": 3.0}, {"sinks": SINKS}),
    "slopes": ({"causal": True, "alibi_slopes": SLOPES}, {"slopes": SLOPES}),
    "left": ({"cache_leftpad": ints(FIRST)}, {"first": FIRST}),
}


@pytest.mark.parametrize("is_paged", [False, True])
@pytest.mark.parametrize("case", PACKED)
def test_packed_queries(case, is_paged):
    options, of_reference = PACKED[case]
    cache = Cache()
    q, (stored, more) = make(BOUNDS[-1], H, D), cache.stored(is_paged)
    out, lse = flash_attn_with_kvcache(
        q, *stored, cache_seqlens=ints(LENGTHS), cu_seqlens_q=BOUNDS, max_seqlen_q=20, return_softmax_lse=True, num_splits=3,
        scheduler_metadata=ints([1]), pack_gqa=True, sm_margin=8, **more, **options,
    )  # fmt: skip
    assert out.shape == q.shape and lse.shape == (H, len(q))
    known = Options(**{name: value for name, value in options.items() if name in Options._fields})
    for entry, length in enumerate(LENGTHS):
        rows = slice(*BOUNDS[entry : entry + 2].tolist())
        given = {name: value[entry] if name == "first" else value for name, value in of_reference.items()}
        exact, exact_lse = attend(q[rows], *(x[entry, :length] for x in cache.dense), known, **given)
        torch.testing.assert_close(out[rows].double(), exact, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(lse[:, rows].double(), exact_lse, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("has_seqlens", [False, True])
def test_rotation(has_seqlens, causal, is_packed, interleaved):
    """Queries and new keys at positions of their own, or packed queries, with new keys written to pages."""
    cache = Cache()
    angles = make(200, 6, seed=9)
    cos, sin = angles.cos(), angles.sin()
    first = [90, 1, 150, 0] if has_seqlens else LENGTHS
    counts = QUERIES if is_packed else [3] * len(LENGTHS)
    q, k, v = make(sum(counts), H, D), *(make(len(LENGTHS), NEW, HKV, D, seed=seed) for seed in (6, 7))
    bounds = ints([0, *itertools.accumulate(counts)])
    stored, more = cache.stored(is_paged=not is_packed)
    out = flash_attn_with_kvcache(
        q if is_packed else q.unflatten(0, (-1, 3)), *stored, k, v, cos, sin, cache_seqlens=ints(LENGTHS),
        causal=causal, rotary_interleaved=interleaved, rotary_seqlens=ints(first) if has_seqlens else None,
        cu_seqlens_q=bounds if is_packed else None, **more,
    )  # fmt: skip
    out = out if is_packed else out.flatten(0, 1)
    for entry, length in enumerate(LENGTHS):
        rows = slice(*bounds[entry : entry + 2].tolist())
        steps = torch.arange(counts[entry]) * causal
        queries = rotate(q[rows], first[entry] + steps, cos, sin, interleaved)
        new = rotate(k[entry], first[entry] + torch.arange(NEW), cos, sin, interleaved)
        keys = torch.cat((cache.dense[0][entry, :length].double(), new))
        values = torch.cat((cache.dense[1][entry, :length], v[entry]))
        exact, _ = attend(queries, keys, values, Options(causal=causal))
        torch.testing.assert_close(out[rows].double(), exact, rtol=1e-4, atol=1e-5)
        if is_packed:
            written = stored[0][entry, length : length + NEW]
        else:
            written = stored[0][cache.table[entry].long()].flatten(0, 1)[length : length + NEW]
        torch.testing.assert_close(written.double(), new, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_paged", [False, True])
def test_scales_of_packed_queries(is_paged):
    """A cache of 8 bits, with scales of each sequence and key head."""
    cache = Cache()
    stored, more = cache.stored(is_paged)
    narrow = [x.to(torch.float8_e4m3fn) for x in stored]
    q, scales = make(BOUNDS[-1], H, D).half(), [make(len(LENGTHS), HKV, seed=seed).abs() + 0.5 for seed in (3, 4)]
    given = dict(k_descale=scales[0], v_descale=scales[1], causal=True)
    out = flash_attn_with_kvcache(q, *narrow, cache_seqlens=ints(LENGTHS), cu_seqlens_q=BOUNDS, **more, **given)
    table = {} if not is_paged else {"block_table": cache.table}
    other = flash_attn_varlen_func(q, *narrow, BOUNDS, seqused_k=ints(LENGTHS), **table, **given)
    assert torch.equal(out, other) and out.dtype == torch.float16
    for entry, length in enumerate(LENGTHS):
        rows = slice(*BOUNDS[entry : entry + 2].tolist())
        keys = [x[entry, :length].to(torch.float8_e4m3fn).double() * scale[entry][:, None]
                for x, scale in zip(cache.dense, scales)]  # fmt: skip
        exact, _ = attend(q[rows], *keys, Options(causal=True))
        torch.testing.assert_close(out[rows].double(), exact, rtol=4e-3, atol=4e-3)


def run_graph(graph, inputs):
    return graph.forward


def run_opaque(function):
    """A call that sees no contents of tensors before it runs, as on a GPU."""
    torch._dynamo.reset()
    return torch.compile(function, backend=run_graph, fullgraph=True)()


ANGLES = torch.ones(50, 4)


@pytest.mark.parametrize("first", [[0, 47, 3, 0], [0, 46, -1, 0], [0, 0, 2**31 - 1, 1]])
@pytest.mark.parametrize("packed", ["", "queries", "keys"])
def test_positions_without_angles(first, packed):
    """Nothing is written where tables have no row: an error before, or of the kernel that reads lengths."""
    cache = Cache()
    new = make(len(LENGTHS), NEW, HKV, D)
    bounds = torch.arange(len(LENGTHS) + 1, dtype=torch.int32)
    given = dict(k=new, v=new, cache_seqlens=ints(LENGTHS), rotary_seqlens=ints(first))
    if packed == "keys":
        given.update(k=new.flatten(0, 1), v=new.flatten(0, 1), cu_seqlens_k_new=bounds * NEW)
    if packed == "queries":
        given["cu_seqlens_q"] = bounds
    before, entry = [x.clone() for x in cache.dense], 1 if first[1] == 47 else 2
    q = make(len(LENGTHS), H, D) if packed == "queries" else make(len(LENGTHS), 1, H, D)

    def call():
        return flash_attn_with_kvcache(q, *cache.dense, rotary_cos=ANGLES, rotary_sin=ANGLES, **given)

    message = f"rotary_seqlens has {first[entry]} for entry {entry} with 4 new keys or queries, and rotary_cos has 50 rows"
    with pytest.raises(attn.AttnError, match=message):
        call()
    assert all(torch.equal(*(torch.nan_to_num(x) for x in pair)) for pair in zip(before, cache.dense))
    with pytest.raises(attn.AttnError, match="a number of keys that is negative or more than its cache has room for"):
        run_opaque(call)
    assert all(torch.equal(*(torch.nan_to_num(x[entry]) for x in pair)) for pair in zip(before, cache.dense))
    given["rotary_seqlens"] = ints([0, 46, 3, 0])
    assert not call().isnan().any()


def test_positions_of_packed_queries_without_angles():
    cache = Cache()
    new, before = make(len(LENGTHS), 1, HKV, D), [x.clone() for x in cache.dense]
    with pytest.raises(attn.AttnError, match="cache_seqlens has 40 for entry 2 with 20 new keys or queries, and rotary_c"):
        flash_attn_with_kvcache(
            make(BOUNDS[-1], H, D), *cache.dense, new, new, ANGLES, ANGLES, cache_seqlens=ints([0, 7, 40, 46]),
            cu_seqlens_q=BOUNDS, causal=True,
        )  # fmt: skip
    assert all(torch.equal(*(torch.nan_to_num(x) for x in pair)) for pair in zip(before, cache.dense))


@pytest.mark.parametrize("is_paged", [False, True])
@pytest.mark.parametrize("case", ["plain", "causal", "rotated", "placed", "packed queries", "scaled"])
def test_packed_new_keys(case, is_paged):
    """New keys of different numbers, with rotation, packed queries and caches of 8 bits."""
    cache, counts, queries = Cache(), [3, 0, 17, 1], 2
    angles = make(200, 6, seed=9)
    cos, sin = angles.cos(), angles.sin()
    ends = ints([0, *itertools.accumulate(counts)])
    k, v = (make(sum(counts), HKV, D, seed=seed) for seed in (6, 7))
    q = make(len(LENGTHS), queries, H, D)
    stored, more = cache.stored(is_paged)
    causal, first, scales = case != "plain", LENGTHS, [torch.ones(len(LENGTHS), HKV)] * 2
    if case in ("rotated", "placed", "packed queries"):
        more.update(rotary_cos=cos, rotary_sin=sin)
    if case == "placed":
        first = [90, 1, 150, 0]
        more["rotary_seqlens"] = ints(first)
    if case == "packed queries":
        more["cu_seqlens_q"] = torch.arange(len(LENGTHS) + 1, dtype=torch.int32) * queries
    tolerance = dict(rtol=1e-4, atol=1e-5)
    if case == "scaled":
        stored, q, k, v = [x.to(torch.float8_e4m3fn) for x in stored], q.half(), k.half(), v.half()
        scales = [make(len(LENGTHS), HKV, seed=seed).abs() + 0.5 for seed in (3, 4)]
        more.update(k_descale=scales[0], v_descale=scales[1])
        tolerance = dict(rtol=4e-3, atol=4e-3)
    given = q.flatten(0, 1) if case == "packed queries" else q
    out = flash_attn_with_kvcache(
        given, *stored, k, v, cache_seqlens=ints(LENGTHS), causal=causal, cu_seqlens_k_new=ends, **more
    ).view(q.shape)
    for entry, length in enumerate(LENGTHS):
        rows, own = slice(*ends[entry : entry + 2].tolist()), q[entry]
        keys, values = [x[entry, :length] for x in cache.dense], [k[rows], v[rows]]
        if "rotary_cos" in more:
            own = rotate(own, first[entry] + torch.arange(queries), cos, sin, True)
            values[0] = rotate(values[0], first[entry] + torch.arange(counts[entry]), cos, sin, True)
        if case == "scaled":
            keys = [x.to(torch.float8_e4m3fn).double() * scale[entry][:, None] for x, scale in zip(keys, scales)]
            values = [(x.float() / scale[entry][:, None]).to(torch.float8_e4m3fn).double() * scale[entry][:, None]
                      for x, scale in zip(values, scales)]  # fmt: skip
        if not is_paged or case != "scaled":
            keys = [x.double() for x in keys]
        keys = [torch.cat(pair) for pair in zip(keys, values)]
        exact, _ = attend(own, *keys, Options(causal=causal))
        torch.testing.assert_close(out[entry].double(), exact, **tolerance)


def test_packed_new_keys_that_are_wrong():
    cache, q = Cache(), make(len(LENGTHS), 1, H, D)
    new = make(5, HKV, D)
    before = [x.clone() for x in cache.dense]
    for ends in ([0, 1, 2, 3, 4], [0, 3, 1, 4, 5], [1, 2, 3, 4, 5]):
        def call(ends=ends):
            return flash_attn_with_kvcache(
                q, *cache.dense, new, new, cache_seqlens=ints(LENGTHS), cu_seqlens_k_new=ints(ends)
            )

        with pytest.raises(attn.AttnError, match="cu_seqlens_k_new must not decrease, from 0 to the 5 rows of k, found"):
            call()
        with pytest.raises(attn.AttnError, match="a number of keys that is negative or more"):
            run_opaque(call)
    # No row of an entry without room for all is written.
    with pytest.raises(attn.AttnError, match="a number of keys that is negative or more"):
        flash_attn_with_kvcache(
            q, *cache.dense, new, new, cache_seqlens=ints([94] * 4), cu_seqlens_k_new=ints([0, 5, 5, 5, 5])
        )
    assert all(torch.equal(*(torch.nan_to_num(x) for x in pair)) for pair in zip(before, cache.dense))


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"causal": True, "alibi_slopes": SLOPES}, {"s_aux": SINKS}])
@pytest.mark.parametrize("sides", ["q", "k", "qk"])
def test_used_positions_of_packed_sequences(sides, options):
    """Keys and queries that do not count hold NaN, and have gradients of 0."""
    lengths = [(5, 9), (3, 4), (0, 6), (7, 2)]
    used = [(4 if "q" in sides else 5, 7 if "k" in sides else 9), (3, 4), (0, 6), (5, 0) if sides == "qk" else (7, 2)]
    ends = [ints([0, *itertools.accumulate(side)]) for side in zip(*lengths)]
    tensors = [make(15, H, D), make(21, HKV, D, seed=1), make(21, HKV, D, seed=2)]
    given = {f"seqused_{side}": ints([pair["qk".index(side)] for pair in used]) for side in sides}
    if "alibi_slopes" in options:
        options = {**options, "alibi_slopes": SLOPES.expand(4, H) * torch.arange(1, 5)[:, None]}
    leaves, exact = ([x.clone().requires_grad_() for x in tensors] for _ in range(2))
    with torch.no_grad():
        for side, positions in enumerate(ends):
            for n, pair in enumerate(used):
                for leaf in (leaves[:1], leaves[1:])[side]:
                    leaf[positions[n] + pair[side] : positions[n + 1]] = math.nan
    out = flash_attn_varlen_func(*leaves, *ends, 7, 9, **given, **options)
    out.square().sum().backward()
    total = 0
    for n, (queries, keys) in enumerate(used):
        rows, columns = (slice(ends[side][n], ends[side][n] + count) for side, count in enumerate((queries, keys)))
        slopes = options["alibi_slopes"][n] if "alibi_slopes" in options else None
        result, _ = attend(exact[0][rows], exact[1][columns], exact[2][columns],
                           Options(causal=options.get("causal", False)), slopes=slopes, sinks=options.get("s_aux"))  # fmt: skip
        torch.testing.assert_close(out[rows].double(), result, rtol=1e-4, atol=1e-5)
        assert (out[rows.stop : ends[0][n + 1]] == 0).all()
        total = total + result.square().sum()
    total.backward()
    for leaf, other in zip(leaves, exact):
        torch.testing.assert_close(leaf.grad, other.grad, rtol=1e-3, atol=1e-4)


def test_largest_lengths():
    """One that is too small is an error where boundaries are known, and elsewhere has no influence."""
    q, k = make(14, H, D), make(18, HKV, D)
    ends = ints([0, 2, 14]), ints([0, 10, 18])
    right = flash_attn_varlen_func(q, k, k, *ends, 12, 10)
    for largest, name in (((11, 10), "q is 11, and a sequence of cu_seqlens_q has a length of 12"),
                          ((12, 9), "k is 9, and a sequence of cu_seqlens_k has a length of 10"),
                          ((-1, 9), "q is -1; it must be at least 0"), (("a", 9), "q is a str; pass a number")):  # fmt: skip
        with pytest.raises(attn.AttnError, match=f"max_seqlen_{name}"):
            flash_attn_varlen_func(q, k, k, *ends, *largest)
    assert torch.equal(run_opaque(lambda: flash_attn_varlen_func(q, k, k, *ends, 3, 3)), right)
    cache = Cache()
    with pytest.raises(attn.AttnError, match="max_seqlen_q is 19, and a sequence of cu_seqlens_q has a length of 20"):
        flash_attn_with_kvcache(
            make(BOUNDS[-1], H, D), *cache.dense, cache_seqlens=ints(LENGTHS), cu_seqlens_q=BOUNDS, max_seqlen_q=19
        )


SCALED = [
    lambda q, x, given: attn.torch.sdpa(*(y.transpose(1, 2) for y in (q, x, x)), enable_gqa=True, **given),
    lambda q, x, given: flash_attn_func(q, x, x, **given),
    lambda q, x, given: flash_attn_varlen_func(q, x, x, **given),
    lambda q, x, given: flash_attn_varlen_func(q[:, 0], x, x, ints([0, 1, 2]), **given),
    lambda q, x, given: flash_attn_with_kvcache(q, x, x, **given),
    lambda q, x, given: flash_attn_with_kvcache(q[:, 0], x, x, cu_seqlens_q=ints([0, 1, 2]), **given),
    lambda q, x, given: flash_attn_with_kvcache(
        q, x.clone(), x.clone(), q[:, :1, :HKV], q[:, :1, :HKV], cache_seqlens=3, **given
    ),
]  # fmt: skip


@pytest.mark.parametrize("name", ["k_descale", "v_descale"])
@pytest.mark.parametrize("number", range(len(SCALED)))
def test_scales_have_no_gradients(number, name):
    """All functions refuse them; without gradients they take the same scale."""
    q, x = make(2, 1, H, D).half(), make(2, 16, HKV, D).to(torch.float8_e4m3fn)
    scale = torch.ones(2, HKV, requires_grad=True)
    with pytest.raises(attn.AttnError, match=f"{name} requires a gradient, which scales do not have"):
        SCALED[number](q, x, {name: scale})
    SCALED[number](q, x, {name: scale.detach()})
    with torch.no_grad():
        SCALED[number](q, x, {name: scale})


@pytest.mark.parametrize("is_paged", [False, True])
def test_trees_of_packed_queries(is_paged):
    """Parents are rows of packed queries."""
    cache = Cache()
    q, (stored, more) = make(BOUNDS[-1], H, D), cache.stored(is_paged)
    parents = [[-1 if node == 0 else max(node - 1 - (node * (row + 2)) % 3, 0) for node in range(count)]
               for row, count in enumerate(QUERIES)]  # fmt: skip
    packed = [-1 if node < 0 else node + int(first) for own, first in zip(parents, BOUNDS) for node in own]
    given = dict(cache_seqlens=ints(LENGTHS), cu_seqlens_q=BOUNDS, **more)
    out = flash_attn_with_kvcache(q, *stored, mask=attn.masks.tree(ints([packed])), **given)
    for entry, (length, count) in enumerate(zip(LENGTHS, QUERIES)):
        rows = slice(*BOUNDS[entry : entry + 2].tolist())
        keep = torch.zeros(count, length, dtype=torch.bool)
        for node in range(count):
            keep[node, : max(length - count, 0)] = True
            step = node
            while step >= 0:
                if step + length - count >= 0:
                    keep[node, step + length - count] = True
                step = parents[entry][step]
        k, v = (x[entry, :length].double().transpose(0, 1).repeat_interleave(H // HKV, 0) for x in cache.dense)
        scores = (q[rows].double().transpose(0, 1) @ k.mT / math.sqrt(D)).masked_fill(~keep, -math.inf)
        exact = (scores.softmax(-1).nan_to_num() @ v).transpose(0, 1)
        torch.testing.assert_close(out[rows].double(), exact, rtol=1e-4, atol=1e-5)
    for wrong in ([packed] * len(LENGTHS), [packed[1:]]):
        message = rf"mask reads a tensor of the shape \({len(wrong)}, {len(wrong[0])}\), expected \(1, 24\): with cu_seq"
        with pytest.raises(attn.AttnError, match=message):
            flash_attn_with_kvcache(q, *stored, mask=attn.masks.tree(ints(wrong)), **given)


@pytest.mark.parametrize("queries", [1, 3])
def test_sinks_and_chunks_of_a_cache(queries):
    cache = Cache()
    q = make(len(LENGTHS), queries, H, D)
    options = dict(causal=True, attention_chunk=16)
    for stored, more in map(cache.stored, (False, True)):
        out = flash_attn_with_kvcache(q, *stored, cache_seqlens=ints(LENGTHS), s_aux=SINKS, **options, **more)
        for entry, length in enumerate(LENGTHS):
            keys = (x[entry, :length] for x in cache.dense)
            exact, _ = attend(q[entry], *keys, Options(**options), sinks=SINKS)
            torch.testing.assert_close(out[entry].double(), exact, rtol=1e-4, atol=1e-5)


def test_gradient_of_sinks():
    tensors = [make(1, 5, H, D), make(1, 9, HKV, D, seed=1), make(1, 9, HKV, D, seed=2), SINKS]
    leaves, packed, exact = ([x.clone().requires_grad_() for x in tensors] for _ in range(3))
    options = Options(causal=True, attention_chunk=4)
    given = dict(causal=True, attention_chunk=4)
    flash_attn_func(*leaves[:3], s_aux=leaves[3], **given).square().sum().backward()
    bounds, ends = ints([0, 5]), ints([0, 9])
    rows = [x[0] for x in packed[:3]]
    flash_attn_varlen_func(*rows, bounds, ends, s_aux=packed[3], **given).square().sum().backward()
    attend(*(x[0] for x in exact[:3]), options, sinks=exact[3])[0].square().sum().backward()
    for leaf, row, other in zip(leaves, packed, exact):
        torch.testing.assert_close(leaf.grad, other.grad, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(row.grad, other.grad, rtol=1e-3, atol=1e-4)


def test_gradients_of_used_positions():
    """Padded queries and keys of flash_attn_varlen_func."""
    tensors = [make(2, 5, H, D), make(2, 9, HKV, D, seed=1), make(2, 9, HKV, D, seed=2)]
    leaves, exact = ([x.clone().requires_grad_() for x in tensors] for _ in range(2))
    used = [(4, 7), (5, 2)]
    sides = [ints(side) for side in zip(*used)]
    out = flash_attn_varlen_func(*leaves, seqused_q=sides[0], seqused_k=sides[1], causal=True)
    assert (out[0, 4:] == 0).all()
    out.square().sum().backward()
    sum(attend(exact[0][n, :queries], exact[1][n, :keys], exact[2][n, :keys], Options(causal=True))[0].square().sum()
        for n, (queries, keys) in enumerate(used)).backward()  # fmt: skip
    for leaf, other in zip(leaves, exact):
        torch.testing.assert_close(leaf.grad, other.grad, rtol=1e-3, atol=1e-4)
    assert (flash_attn_varlen_func(*tensors, dropout_p=1.0, seqused_k=sides[1]) == 0).all()


def test_compile():
    """A call with packed queries and rotation is one graph for all lengths."""
    graphs = 0

    def backend(graph, inputs):
        nonlocal graphs
        graphs += 1
        return graph.forward

    def function(q, k, v, new, cos, lengths, bounds):
        return flash_attn_with_kvcache(
            q, k, v, new, new, cos, cos, cache_seqlens=lengths, cu_seqlens_q=bounds, causal=True, s_aux=SINKS,
            attention_chunk=32,
        )  # fmt: skip

    compiled = torch.compile(function, fullgraph=True, backend=backend)
    new, cos = make(len(LENGTHS), 1, HKV, D, seed=4), make(200, 4)
    for number in range(2):
        caches, lengths = [Cache().dense for _ in range(2)], ints(LENGTHS) + number
        given = [(make(BOUNDS[-1], H, D), *cache, new, cos, lengths, BOUNDS) for cache in caches]
        torch.testing.assert_close(compiled(*given[0]), function(*given[1]), equal_nan=True)
        assert all(torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) for a, b in zip(*caches))
    assert graphs == 1


def test_packed_tensors():
    qkv = make(2, 7, 3, H, D)
    q, k, v = qkv.unbind(2)
    kv = make(2, 9, 2, HKV, D, seed=1)
    for options in ({}, {"causal": True}, {"window_size": (3, 0), "softcap": 2.0, "alibi_slopes": SLOPES},
                    {"causal": True, "s_aux": SINKS, "attention_chunk": 4, "num_splits": 2, "pack_gqa": True}):  # fmt: skip
        pairs = [
            (flash_attn_qkvpacked_func(qkv, **options), flash_attn_func(q, k, v, **options)),
            (flash_attn_kvpacked_func(q, kv, **options), flash_attn_func(q, *kv.unbind(2), **options)),
        ]
        bounds, ends = ints([0, 2, 14]), ints([0, 10, 18])
        rows, columns = qkv.flatten(0, 1), kv.flatten(0, 1)
        pairs += [
            (flash_attn_varlen_qkvpacked_func(rows, bounds, 12, **options),
             flash_attn_varlen_func(*rows.unbind(1), bounds, bounds, **options)),
            (flash_attn_varlen_kvpacked_func(rows[:, 0], columns, bounds, ends, 12, 10, **options),
             flash_attn_varlen_func(rows[:, 0], *columns.unbind(1), bounds, ends, **options)),
        ]  # fmt: skip
        for actual, expected in pairs:
            torch.testing.assert_close(actual, expected)
    out, lse, _ = flash_attn_qkvpacked_func(qkv, causal=True, return_attn_probs=True)
    assert out.shape == q.shape and lse.shape == (2, H, 7)
    leaf, other = qkv.clone().requires_grad_(), qkv.clone().requires_grad_()
    flash_attn_qkvpacked_func(leaf, causal=True).square().sum().backward()
    flash_attn_func(*other.unbind(2), causal=True).square().sum().backward()
    torch.testing.assert_close(leaf.grad, other.grad)
    with pytest.raises(attn.AttnError, match=r"qkv has the shape \(2, 7, 2, 4, 16\), expected \(batch, positions, 3, h"):
        flash_attn_qkvpacked_func(qkv[:, :, :2])
    with pytest.raises(attn.AttnError, match=r"kv has the shape \(7, 3, 4, 16\), expected \(positions, 2, heads, head"):
        flash_attn_varlen_kvpacked_func(q[0], qkv[0], ints([0, 7]), ints([0, 7]))


Q, NEW_KEYS = make(len(LENGTHS), 1, H, D), make(len(LENGTHS), 2, HKV, D)
CACHE = make(len(LENGTHS), 32, HKV, D)
TABLE = torch.zeros(len(LENGTHS), 3, dtype=torch.int32)
REFUSALS = [
    (dict(qv=Q), r"qv is given; pass torch.cat\(\(qv, q\), -1\) as q"),
    (dict(cu_seqlens_k_new=ints([0])), "cu_seqlens_k_new is given without k and v"),
    (dict(cu_seqlens_k_new=ints([0]), k=NEW_KEYS, v=NEW_KEYS), "k has 4 dimensions, expected 3 with cu_seqlens_k_new"),
    (dict(cu_seqlens_k_new=ints([0]), k=NEW_KEYS[0], v=NEW_KEYS[0], cache_seqlens=1),
     r"cu_seqlens_k_new has the shape \(1,\), expected \(5,\)"),
    (dict(cu_seqlens_k_new=ints([0]), k=NEW_KEYS[0], v=NEW_KEYS[0], k_cache=CACHE[:, :9], v_cache=CACHE[:, :9]),
     "cu_seqlens_k_new needs a cache of a multiple of 16 positions with nothing between its entries"),
    (dict(cache_seqlens=ints([1] * 3)), r"cache_seqlens has the shape \(3,\), expected \(4,\)"),
    (dict(cache_seqlens=ints([1] * 4).long()), "cache_seqlens has the dtype torch.int64, expected torch.int32"),
    (dict(cache_seqlens=[1] * 4), "cache_seqlens is a list; pass a tensor of torch.int32"),
    (dict(page_table=TABLE, block_table=TABLE), "page_table and block_table are two names of one argument"),
    (dict(cu_seqlens_q=BOUNDS), "q has 4 dimensions, expected 3 with cu_seqlens_q"),
    (dict(q=Q[0], cu_seqlens_q=BOUNDS.long()), "cu_seqlens_q has the dtype torch.int64, expected torch.int32"),
    (dict(q=Q[0], cu_seqlens_q=[0]), "cu_seqlens_q is a list; pass a tensor of torch.int32"),
    (dict(attention_chunk=-1), "attention_chunk is -1, expected a number of positions"),
    (dict(s_aux=SINKS[:2]), r"s_aux has the shape \(2,\), expected \(4,\)"),
    (dict(s_aux=SINKS.double()), "s_aux has the dtype torch.float64, expected one of bf16"),
    (dict(s_aux=[1.0] * 4), "s_aux is a list; pass a tensor with an element for each query head"),
    (dict(s_aux=SINKS.clone().requires_grad_()), "s_aux requires a gradient, which attention with a KV cache"),
    (dict(k_cache=CACHE.half()), "k_cache has the dtype torch.float16 and q torch.float32; convert them to one"),
    (dict(v_cache=CACHE.bfloat16()), "v_cache has the dtype torch.bfloat16 and q torch.float32; convert them to one"),
    (dict(k_cache=CACHE.to(torch.float8_e5m2)), "v_cache has the dtype torch.float32 and k_cache torch.float8_e5m2"),
    (dict(cache_seqlens=33), "cache_seqlens is 33; k_cache has room for 32 keys"),
    (dict(cache_seqlens=-1), "cache_seqlens is -1; k_cache has room for 32 keys"),
    (dict(cache_seqlens=97, page_table=TABLE), "cache_seqlens is 97; k_cache has room for 96 keys in the 3 pages of a"),
    (dict(cache_seqlens=31, k=NEW_KEYS, v=NEW_KEYS), "cache_seqlens is 31 with 2 new keys; k_cache has room for 32"),
    (dict(cache_seqlens=ints([33] * 4)), "a number of keys that is negative or more than its cache has room for"),
    (dict(cache_seqlens=1, k=NEW_KEYS, v=NEW_KEYS, rotary_seqlens=ints(LENGTHS)), "rotary_seqlens is given without rota"),
    (dict(rotary_cos=torch.ones(9, 4)), "rotary_cos is given without k and v"),
    (dict(rotary_seqlens=ints(LENGTHS)), "rotary_seqlens is given without k and v"),
    (dict(cache_seqlens=1, k=NEW_KEYS, v=NEW_KEYS, rotary_cos=torch.ones(9, 4, requires_grad=True),
          rotary_sin=torch.ones(9, 4)), "rotary_cos requires a gradient, which attention with a KV cache does not have"),
    (dict(attention_chunk=True), "attention_chunk is True, expected a number of positions"),
    (dict(attention_chunk=4, cache_leftpad=ints(LENGTHS)), "attention_chunk is given with cache_leftpad, from which"),
    (dict(cache_seqlens=1, k=NEW_KEYS, v=NEW_KEYS, rotary_cos=torch.ones(9, 4), rotary_seqlens=ints(LENGTHS)),
     "rotary_cos and rotary_sin are needed together"),
    (dict(cache_seqlens=1, k=NEW_KEYS, v=NEW_KEYS, rotary_cos=torch.ones(9, 12), rotary_sin=torch.ones(9, 12),
          rotary_seqlens=ints(LENGTHS)), r"rotary_cos has the shape \(9, 12\), expected positions and from 1 to 8 columns"),
    (dict(q=Q[:, 0], cache_seqlens=ints([1] * 3), k=NEW_KEYS, v=NEW_KEYS, rotary_cos=torch.ones(9, 4),
          rotary_sin=torch.ones(9, 4), cu_seqlens_q=BOUNDS), r"cache_seqlens has the shape \(3,\), expected"),
    (dict(q=Q[:, 0], cache_seqlens=ints([1] * 3), cu_seqlens_q=BOUNDS), r"cache_seqlens has the shape \(3,\), expected \(4,\)"),
    (dict(cache_seqlens=1, k=NEW_KEYS, v=NEW_KEYS, rotary_cos=torch.ones(9, 4), rotary_sin=torch.ones(9, 4),
          rotary_seqlens=ints([1])), r"rotary_seqlens has the shape \(1,\), expected \(4,\)"),
]  # fmt: skip


@pytest.mark.parametrize("change, message", REFUSALS, ids=itertools.count())
def test_refusals(change, message):
    with pytest.raises(attn.AttnError, match=message):
        flash_attn_with_kvcache(**{**dict(q=Q, k_cache=CACHE, v_cache=CACHE), **change})


VARLEN_REFUSALS = [
    (dict(seqused_k=ints([1] * 3), alibi_slopes=SLOPES), r"seqused_k has the shape \(3,\), expected \(4,\)"),
    (dict(qv=Q[0]), "qv is given"),
    (dict(seqused_q=ints([1])), "seqused_q is given with cu_seqlens_q and a KV cache"),
    (dict(k=CACHE[0], v=CACHE[0], cu_seqlens_k=BOUNDS, seqused_k=ints([1])), r"seqused_k has the shape \(1,\), expected \(4,"),
    (dict(k=CACHE[0], v=CACHE[0], cu_seqlens_k=BOUNDS, seqused_k=ints([2] * 4)), "boundaries of sequences that are not sort"),
    (dict(cu_seqlens_q=None, cu_seqlens_k=BOUNDS), "cu_seqlens_q is None, and is needed with cu_seqlens_k"),
    (dict(cu_seqlens_q=None, block_table=TABLE), "cu_seqlens_q is None, and is needed with block_table"),
    (dict(cu_seqlens_q=None, q=Q, seqused_k=ints([1])), r"seqused_k has the shape \(1,\), expected \(4,\)"),
    (dict(q=Q[:, 0].clone().requires_grad_()), "q requires a gradient, which attention with a KV cache does not have"),
    (dict(straight_through=(Q, Q, Q)), "straight_through is given for attention with a KV cache, which has no gradients"),
    (dict(quantize_dout=abs), "quantize_dout is given for attention with a KV cache, which has no gradients"),
    (dict(cu_seqlens_k=BOUNDS, k_descale=torch.ones(())), "k_descale is given, which packed keys do not have"),
    (dict(seqused_k=ints([1] * 3)), r"seqused_k has the shape \(3,\), expected \(4,\)"),
]


@pytest.mark.parametrize("change, message", VARLEN_REFUSALS, ids=itertools.count())
def test_refusals_of_sequences(change, message):
    given = dict(q=Q[:, 0], k=CACHE, v=CACHE, cu_seqlens_q=ints([0, 1, 2, 3, 4]))
    with pytest.raises(attn.AttnError, match=message):
        flash_attn_varlen_func(**{**given, **change})


#: Parameters of the functions in hopper/flash_attn_interface.py of FlashAttention.
OF_FLASH_ATTENTION_3 = {
    flash_attn_func: """q k v softmax_scale causal qv q_descale k_descale v_descale window_size attention_chunk softcap
        num_splits pack_gqa deterministic sm_margin return_attn_probs""",
    flash_attn_varlen_func: """q k v cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k seqused_q seqused_k
        softmax_scale causal qv q_descale k_descale v_descale window_size attention_chunk softcap num_splits pack_gqa
        deterministic sm_margin return_attn_probs""",
    flash_attn_with_kvcache: """q k_cache v_cache k v qv rotary_cos rotary_sin cache_seqlens cache_batch_idx
        cache_leftpad page_table cu_seqlens_q cu_seqlens_k_new max_seqlen_q rotary_seqlens q_descale k_descale v_descale
        softmax_scale causal window_size attention_chunk softcap rotary_interleaved scheduler_metadata num_splits
        pack_gqa sm_margin return_softmax_lse""",
}


@pytest.mark.parametrize("function", OF_FLASH_ATTENTION_3)
def test_names_of_arguments(function):
    assert set(OF_FLASH_ATTENTION_3[function].split()) <= inspect.signature(function).parameters.keys()
