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


def test_positions_without_angles():
    """Of tables on any device, they give no numbers."""
    cache = Cache()
    angles = torch.ones(50, 4)
    new = make(len(LENGTHS), 1, HKV, D)
    out = flash_attn_with_kvcache(
        make(len(LENGTHS), 1, H, D), *cache.dense, new, new, angles, angles, cache_seqlens=ints(LENGTHS),
        rotary_seqlens=ints([0, 49, 50, 70]),
    )  # fmt: skip
    assert out.isnan().all((1, 2, 3)).tolist() == [False, False, True, True]


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
    for options in ({}, {"causal": True}, {"window_size": (3, 0), "softcap": 2.0, "alibi_slopes": SLOPES}):
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
    (dict(cu_seqlens_k_new=ints([0])), "cu_seqlens_k_new is given; pass as many new keys of each entry"),
    (dict(page_table=TABLE, block_table=TABLE), "page_table and block_table are two names of one argument"),
    (dict(cu_seqlens_q=BOUNDS), "q has 4 dimensions, expected 3 with cu_seqlens_q"),
    (dict(q=Q[0], cu_seqlens_q=BOUNDS.long()), "cu_seqlens_q is torch.int64 of 1 dimensions, expected torch.int32"),
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
          rotary_sin=torch.ones(9, 4), cu_seqlens_q=BOUNDS), r"cache_seqlens is torch.int32 of the shape \(3,\), expected"),
    (dict(q=Q[:, 0], cache_seqlens=ints([1] * 3), cu_seqlens_q=BOUNDS), r"cu_seqlens_q has the shape \(5,\), expected \(4"),
    (dict(cache_seqlens=1, k=NEW_KEYS, v=NEW_KEYS, rotary_cos=torch.ones(9, 4), rotary_sin=torch.ones(9, 4),
          rotary_seqlens=ints([1])), r"rotary_seqlens is torch.int32 of the shape \(1,\), expected torch.int32 of \(4,\)"),
]  # fmt: skip


@pytest.mark.parametrize("change, message", REFUSALS, ids=itertools.count())
def test_refusals(change, message):
    with pytest.raises(attn.AttnError, match=message):
        flash_attn_with_kvcache(**{**dict(q=Q, k_cache=CACHE, v_cache=CACHE), **change})


VARLEN_REFUSALS = [
    (dict(seqused_k=ints([1] * 3), alibi_slopes=SLOPES), r"seqused_k is torch.int32 of the shape \(3,\), expected"),
    (dict(qv=Q[0]), "qv is given"),
    (dict(seqused_q=ints([1])), "seqused_q is given with cu_seqlens_q"),
    (dict(cu_seqlens_k=BOUNDS, seqused_k=ints([1])), "seqused_k is given with cu_seqlens_k and without block_table"),
    (dict(cu_seqlens_q=None, cu_seqlens_k=BOUNDS), "cu_seqlens_q is None, and is needed with cu_seqlens_k"),
    (dict(cu_seqlens_q=None, block_table=TABLE), "cu_seqlens_q is None, and is needed with block_table"),
    (dict(cu_seqlens_q=None, q=Q, seqused_k=ints([1])), r"seqused_k has the shape \(1,\), expected \(4,\)"),
    (dict(q=Q[:, 0].clone().requires_grad_()), "q requires a gradient, which attention with a KV cache does not have"),
    (dict(straight_through=(Q, Q, Q)), "straight_through is given for attention with a KV cache, which has no gradients"),
    (dict(quantize_dout=abs), "quantize_dout is given for attention with a KV cache, which has no gradients"),
    (dict(cu_seqlens_k=BOUNDS, k_descale=torch.ones(())), "k_descale is given, which packed keys do not have"),
    (dict(seqused_k=ints([1] * 3)), r"cu_seqlens_q has the shape \(5,\), expected \(4,\): one more than the lengths"),
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
