# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Named masks: their pairs, their text, and the arguments that they refuse."""

import pytest

torch = pytest.importorskip("torch")

import attn  # noqa: E402
from attn import masks  # noqa: E402
from attn.torch import flex_attention, create_block_mask, sdpa  # noqa: E402

B, H, Q, K, D = 2, 4, 70, 90, 16
SHIFT = K - Q
IDS = torch.arange(K, dtype=torch.int32)[None] // 20
QUERY_IDS = IDS[:, :Q].contiguous()
BOUNDARIES = torch.tensor([[0, 20, 40, 60, Q]], dtype=torch.int32)
PARENTS = torch.tensor([[-1, *(number // 2 for number in range(Q - 1))]], dtype=torch.int32)
OFFSETS = torch.tensor([[[0, 1, 3, 3, 4, 6]]], dtype=torch.int32)
INDICES = torch.tensor([[[0, 0, 2, 1, 0, 1]]], dtype=torch.int32)


def is_ancestor(node, other):
    while node >= 0:
        if node == other:
            return True
        node = int(PARENTS[0, node])
    return False


ANCESTORS = torch.tensor([[is_ancestor(node, other) for other in range(Q)] for node in range(Q)])
BLOCKS = torch.zeros(5, 3, dtype=torch.bool)
for row in range(5):
    BLOCKS[row, INDICES[0, 0, OFFSETS[0, 0, row] : OFFSETS[0, 0, row + 1]].long()] = True

CASES = {
    "causal": (masks.causal(), lambda q, k: k <= q + SHIFT),
    "causal_top_left": (masks.causal("top_left"), lambda q, k: k <= q),
    "window": (masks.sliding_window(left=9, right=3), lambda q, k: (k >= q + SHIFT - 9) & (k <= q + SHIFT + 3)),
    "left": (masks.sliding_window(left=9, alignment="top_left"), lambda q, k: k >= q - 9),
    "dilated": (
        masks.dilated_window(12, 0, 4),
        lambda q, k: (k >= q + SHIFT - 12) & (k <= q + SHIFT) & ((q + SHIFT - k) % 4 == 0),
    ),
    "prefix": (masks.prefix_lm(33), lambda q, k: (k < 33) | (k <= q + SHIFT)),
    "blocks": (
        masks.local_blocks(16, before=1, after=0),
        lambda q, k: (k // 16 <= (q + SHIFT) // 16) & (k // 16 >= (q + SHIFT) // 16 - 1),
    ),
    "chunked": (masks.chunked(16), lambda q, k: ((q + SHIFT) // 16 == k // 16) & (k <= q + SHIFT)),
    "global": (masks.global_tokens(5), lambda q, k: (q < 5) | (k < 5)),
    "documents": (masks.documents(QUERY_IDS, IDS), lambda q, k: QUERY_IDS[0, q] == IDS[0, k]),
    "packed": (masks.packed_documents(BOUNDARIES), lambda q, k: (q // 20 == k // 20) & (k < Q)),
    "tree": (masks.tree(PARENTS), lambda q, k: (k < SHIFT) | ANCESTORS[q, (k - SHIFT).clamp(min=0)]),
    "lists": (masks.blocks(16, 32, OFFSETS, INDICES), lambda q, k: BLOCKS[q // 16, k // 32]),
    "combined": (
        (masks.causal() & masks.documents(QUERY_IDS, IDS))
        | ~masks.sliding_window(left=80, right=40)
        | masks.global_tokens(2),
        lambda q, k: ((k <= q + SHIFT) & (QUERY_IDS[0, q] == IDS[0, k]))
        | ~((k >= q + SHIFT - 80) & (k <= q + SHIFT + 40))
        | (q < 2)
        | (k < 2),
    ),
}


def make_inputs():
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(B, H, length, D, generator=generator).requires_grad_() for length in (Q, K, K)
    ]


def reference(inputs, keep):
    query, key, value = (tensor.double() for tensor in inputs)
    kept = keep(torch.arange(Q)[:, None], torch.arange(K))
    scores = (query @ key.mT * D**-0.5).masked_fill(~kept, float("-inf"))
    return torch.where(kept.any(1)[:, None], scores, 0.0).softmax(-1).mul(kept) @ value


CALLS = {
    "flex_attention": lambda inputs, mask, **options: flex_attention(*inputs, block_mask=mask, **options),
    "sdpa": lambda inputs, mask, **options: sdpa(*inputs, attn_mask=mask, **options),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", CASES)
def test_pairs_and_gradients(name, call):
    mask, keep = CASES[name]
    inputs = make_inputs()
    out = CALLS[call](inputs, mask)
    expected = reference(inputs, keep)
    torch.testing.assert_close(out.double(), expected, rtol=1e-4, atol=2e-5)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    for actual, exact in zip(
        torch.autograd.grad((out * weights).sum(), inputs), torch.autograd.grad((expected * weights).sum(), inputs)
    ):
        torch.testing.assert_close(actual.double(), exact.double(), rtol=1e-4, atol=5e-5)


def test_text():
    mask = masks.causal() & masks.documents(IDS)
    text, reads = mask.attribute()
    assert text == "#attn.and<#attn.causal, #attn.documents<queries = 0, keys = 0>>"
    assert len(reads) == 1 and reads[0] is IDS
    assert repr(~masks.sliding_window(right=0)) == "<mask #attn.not<#attn.sliding_window<right = 0>>>"
    with pytest.raises(TypeError):
        masks.causal() & "documents"


def test_score_mods_beside_masks_have_captures_of_their_own():
    inputs, slopes = make_inputs(), torch.exp2(-torch.arange(1.0, H + 1)).requires_grad_()
    mask, keep = CASES["documents"]
    out = flex_attention(*inputs, lambda s, b, h, q, k: s + slopes[h] * (k - q), mask)
    query, key, value = (tensor.double() for tensor in inputs)
    i, j = torch.arange(Q)[:, None], torch.arange(K)
    scores = query @ key.mT * D**-0.5 + slopes.double()[:, None, None] * (j - i)
    expected = scores.masked_fill(~keep(i, j), float("-inf")).softmax(-1) @ value
    torch.testing.assert_close(out.double(), expected, rtol=1e-4, atol=2e-5)
    actual, exact = (torch.autograd.grad(result.sum(), slopes)[0] for result in (out, expected))
    torch.testing.assert_close(actual, exact, rtol=1e-3, atol=1e-4)


def test_plans_and_the_operator():
    inputs = [tensor.detach() for tensor in make_inputs()]
    mask, keep = CASES["packed"]
    plan = create_block_mask(*inputs, block_mask=mask)
    expected = flex_attention(*inputs, block_mask=mask)
    torch.testing.assert_close(
        flex_attention(*inputs, block_mask=mask, precomputed_block_mask=plan), expected, rtol=0, atol=0
    )
    function = torch.compile(lambda *tensors: flex_attention(*tensors, block_mask=mask), backend="aot_eager")
    torch.testing.assert_close(function(*inputs), expected)


def test_what_masks_cannot_read():
    inputs = make_inputs()
    with pytest.raises(attn.AttnError, match="block_mask reads a torch.int64; give the mask tensors of torch.int32"):
        flex_attention(*inputs, block_mask=masks.documents(IDS.long()))
    with pytest.raises(attn.AttnError, match="block_mask reads a list"):
        flex_attention(*inputs, block_mask=masks.documents([0]))


def changed(tensor, place, value):
    tensor = tensor.clone()
    tensor.view(-1)[place] = value
    return tensor


@pytest.mark.parametrize(
    "mask, message",
    [
        (masks.packed_documents(changed(BOUNDARIES, 4, 80), BOUNDARIES),
         "boundaries of documents hold 80, expected 0 to 70"),
        (masks.packed_documents(BOUNDARIES, changed(BOUNDARIES, 0, -3)),
         "boundaries of documents hold -3, expected 0 to 90"),
        (masks.packed_documents(changed(BOUNDARIES, 2, 15)),
         "boundaries of documents hold 15 after 20, expected no smaller one"),
        (masks.tree(changed(PARENTS, 5, 9)),
         "'parents' holds 9 for node 5, expected -1 or a smaller number than the node's"),
        (masks.tree(changed(PARENTS, 0, -2)), "'parents' holds -2 for node 0, expected -1 or a smaller number"),
        (masks.blocks(16, 32, changed(OFFSETS, 5, 7), INDICES),
         "'offsets' holds 7, expected 0 to 6, the size of 'indices'"),
        (masks.blocks(16, 32, changed(OFFSETS, 0, -1), INDICES), "'offsets' holds -1, expected 0 to 6"),
        (masks.blocks(16, 32, changed(OFFSETS, 3, 2), INDICES),
         "'offsets' holds 2 after 3, expected no smaller one"),
        (masks.blocks(16, 32, OFFSETS, changed(INDICES, 4, 3)), "'indices' holds 3, expected 0 to 2"),
        (masks.blocks(16, 32, OFFSETS, changed(INDICES, 4, -5)), "'indices' holds -5, expected 0 to 2"),
        (masks.blocks(16, 32, OFFSETS, changed(INDICES, 1, 2)),
         "'indices' holds 2 twice in row 1 of blocks, expected it once"),
    ],
)
def test_what_masks_cannot_hold(mask, message):
    inputs = [tensor.detach() for tensor in make_inputs()]
    with pytest.raises(attn.AttnError, match=f"a call was given a mask that is not valid: {message}"):
        flex_attention(*inputs, block_mask=mask)
    # An error is reported once.
    valid, _ = CASES["lists"]
    flex_attention(*inputs, block_mask=valid)


def test_sdpa_reads_masks_anew_in_each_call():
    inputs = [tensor.detach() for tensor in make_inputs()]
    ids = IDS.clone()
    mask = masks.documents(QUERY_IDS, ids)
    first = sdpa(*inputs, mask)
    torch.testing.assert_close(sdpa(*inputs, mask), first, rtol=0, atol=0)
    ids[:, 40:] = 0
    keep = QUERY_IDS[0][:, None] == ids[0]
    torch.testing.assert_close(sdpa(*inputs, mask), sdpa(*inputs, keep), rtol=1e-4, atol=2e-5)
    # Masks of the same tensors that say something else, and none.
    torch.testing.assert_close(sdpa(*inputs, ~mask), sdpa(*inputs, ~keep), rtol=1e-4, atol=2e-5)
    everything = torch.nn.functional.scaled_dot_product_attention(*inputs)
    torch.testing.assert_close(sdpa(*inputs), everything, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("lead", [(), (3,), (2, 3, 2)])
def test_sdpa_with_other_numbers_of_dimensions(lead):
    # The last of the three is heads, if there are so many.
    batch = (lead[0] if lead else 1) if len(lead) < 3 else lead[0] * lead[1]
    ids = torch.randint(3, (batch, 40), generator=torch.Generator().manual_seed(2), dtype=torch.int32)
    keep = ids[:, :, None] == ids[:, None]
    keep = keep.view(2, 3, 1, 40, 40) if len(lead) == 3 else keep.view(*lead, 40, 40)
    query = torch.randn(*lead, 40, D, generator=torch.Generator().manual_seed(3))
    expected = torch.nn.functional.scaled_dot_product_attention(query, query, query, attn_mask=keep)
    torch.testing.assert_close(sdpa(query, query, query, masks.documents(ids)), expected, rtol=1e-4, atol=2e-5)


def test_sdpa_options_beside_masks():
    inputs = [tensor.detach() for tensor in make_inputs()]
    mask, keep = CASES["combined"]
    options = {"scale": 0.3, "dropout_p": 0.25}
    results = []
    for call in CALLS.values():
        torch.manual_seed(0)
        results.append(call(inputs, mask, **options))
    torch.testing.assert_close(*results, rtol=0, atol=0)
    query, key, value = inputs
    kept = keep(torch.arange(Q)[:, None], torch.arange(K))
    expected = sdpa(query, key[:, :2], value[:, :2], kept, enable_gqa=True)
    actual = sdpa(query, key[:, :2], value[:, :2], mask, enable_gqa=True)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=2e-5)
    with torch.autocast("cpu", torch.bfloat16):
        assert sdpa(*inputs, mask).dtype == torch.bfloat16
    function = torch.compile(lambda *tensors: sdpa(*tensors, attn_mask=mask), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(function(*inputs), sdpa(*inputs, mask))


def test_what_sdpa_refuses():
    inputs = make_inputs()
    with pytest.raises(attn.AttnError, match="attn_mask reads a torch.int64; give the mask tensors of torch.int32"):
        sdpa(*inputs, masks.documents(IDS.long()))
    with pytest.raises(attn.AttnError, match="attn_mask is a function; pass a tensor or one of attn.masks"):
        sdpa(*inputs, lambda b, h, q, k: q >= k)
    with pytest.raises(attn.AttnError, match="dimension 0 is 3, expected 2 as dimension 0 of 'query'"):
        sdpa(*inputs, masks.documents(QUERY_IDS.expand(3, -1).contiguous(), IDS))


def test_in_the_builder():
    mask = masks.causal() & masks.documents("tensor<?x?xi32>")
    artifact = attn.compile(attn.Attention("f32", H, H, D, mask=mask))
    function = artifact[attn.Attention.NAME]
    assert [name for name, *_ in function.args] == ["query", "key", "value", "mask_0", "out"]
    query = torch.randn(B, H, Q, D)
    ids = QUERY_IDS.expand(B, -1).contiguous()
    out = torch.empty_like(query)
    function(query, query, query, ids, out)
    keep = (QUERY_IDS[0][:, None] == QUERY_IDS[0]).tril()
    expected = torch.nn.functional.scaled_dot_product_attention(query, query, query, attn_mask=keep)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=2e-5)
    text = attn.Attention("f32", H, H, D, mask="#attn.tree<parents = 0>", reads=("tensor<1x?xi32>",)).mlir()
    assert "mask(#attn.tree<parents = 0>)\n      reads(%mask_0 : tensor<1x?xi32>)" in text
