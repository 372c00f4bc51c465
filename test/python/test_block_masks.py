# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Block masks: results are those without, and what does not fit is refused."""

import pytest

torch = pytest.importorskip("torch")
from torch.nn.attention.flex_attention import create_block_mask as create_torch_block_mask  # noqa: E402

import attn  # noqa: E402
from attn.torch import flex_attention, create_block_mask  # noqa: E402
from attn.compiler import compile_bytes  # noqa: E402
from attn.torch import block_masks  # noqa: E402

B, H, S, D = 2, 4, 300, 16


def make_inputs(length=S, batch=B, requires_grad=False):
    generator = torch.Generator().manual_seed(length)
    return [
        torch.randn(batch, heads, length, D, generator=generator).requires_grad_(requires_grad)
        for heads in (H, H // 2, H // 2)
    ]


def make_ids(length=S, batch=B):
    ids = torch.arange(length, dtype=torch.int32) // 70
    return torch.stack([ids + entry // 2 * (ids > 1) for entry in range(batch)])


def documents(ids):
    return lambda b, h, q, k: (q >= k) & (ids[b, q] == ids[b, k])


def attend(inputs, mask, **options):
    return flex_attention(*inputs, block_mask=mask, enable_gqa=True, **options)


def dense(inputs, mask):
    query, key, value = (tensor.detach().double() for tensor in inputs)
    key, value = (tensor.repeat_interleave(2, 1) for tensor in (key, value))
    b, h, q, k = torch.meshgrid(*(torch.arange(size) for size in (*query.shape[:3], key.shape[2])), indexing="ij")
    scores = (query @ key.mT * D**-0.5).masked_fill(~mask(b, h, q, k), float("-inf"))
    return (scores.softmax(-1).nan_to_num() @ value).float()


@pytest.mark.parametrize("length", (2, 63, 300))
def test_results_are_those_without_a_plan(length):
    inputs, mask = make_inputs(length), documents(make_ids(length))
    plan = create_block_mask(*inputs, block_mask=mask, enable_gqa=True)
    assert plan.tensor.dtype == torch.int32 and plan.tensor.shape[:2] == (B, 1)
    out = attend(inputs, mask, precomputed_block_mask=plan)
    torch.testing.assert_close(out, attend(inputs, mask), rtol=0, atol=0)
    torch.testing.assert_close(out, dense(inputs, mask), rtol=1e-4, atol=2e-5)


def test_the_plan_is_what_the_kernel_walks_over():
    inputs, mask = make_inputs(), documents(make_ids())
    plan = create_block_mask(*inputs, block_mask=mask, enable_gqa=True)
    expected = attend(inputs, mask)
    rows = plan.tensor.shape[2]
    assert sorted(plan.tensor[0, 0, :, 0].tolist()) == list(range(rows))
    # Rows that visit nothing but tile 0, as if it were masked, are other results.
    plan.tensor[..., 1:3] = 1
    plan.tensor[..., 3] = 0
    assert not torch.equal(attend(inputs, mask, precomputed_block_mask=plan), expected)


def test_masks_of_heads():
    inputs = make_inputs()
    keeps = torch.rand(H, S, generator=torch.Generator().manual_seed(1)) > 0.5
    keeps[1, :200] = False

    def mask(b, h, q, k):
        return keeps[h, k]

    plan = create_block_mask(*inputs, block_mask=mask, enable_gqa=True)
    assert plan.tensor.shape[1] == H
    torch.testing.assert_close(
        attend(inputs, mask, precomputed_block_mask=plan), dense(inputs, mask), rtol=1e-4, atol=2e-5
    )


def test_gradients_scores_and_dropout():
    ids, slopes = make_ids(), torch.exp2(-torch.arange(1.0, H + 1))
    mask = documents(ids)

    def score(s, b, h, q, k):
        return s + slopes[h] * (k - q)

    def run(**options):
        inputs = make_inputs(requires_grad=True)
        torch.manual_seed(3)
        if options.pop("planned"):
            options["precomputed_block_mask"] = create_block_mask(
                *inputs, score, mask, enable_gqa=True, dropout_p=options["dropout_p"]
            )
        torch.manual_seed(3)
        out, lse = attend(inputs, mask, score_mod=score, return_lse=True, **options)
        return (out, lse, *torch.autograd.grad(out.sum() + lse[:, :, 1:].sum(), inputs))

    for dropout_p in (0.0, 0.25):
        for actual, expected in zip(
            run(planned=True, dropout_p=dropout_p), run(planned=False, dropout_p=dropout_p)
        ):
            torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_changes_are_noticed():
    inputs, ids = make_inputs(), make_ids()
    mask = documents(ids)
    plan = create_block_mask(*inputs, block_mask=mask, enable_gqa=True)
    assert plan.is_current()
    ids[:, 100:] += 7
    assert not plan.is_current()
    with pytest.raises(attn.AttnError, match=r"has changed since precomputed_block_mask was made; call its update\(\)"):
        attend(inputs, mask, precomputed_block_mask=plan)
    address = plan.tensor.data_ptr()
    plan.update()
    assert plan.tensor.data_ptr() == address
    torch.testing.assert_close(
        attend(inputs, mask, precomputed_block_mask=plan), dense(inputs, mask), rtol=1e-4, atol=2e-5
    )


def test_other_calls_are_refused():
    inputs, ids = make_inputs(), make_ids()
    mask = documents(ids)
    plan = create_block_mask(*inputs, block_mask=mask, enable_gqa=True)

    def refuses(text, inputs, mask, **options):
        with pytest.raises(attn.AttnError, match=text):
            attend(inputs, mask, precomputed_block_mask=plan, **options)

    refuses("made for another mask", inputs, lambda b, h, q, k: ids[b, q] == ids[b, k])
    refuses("made for another mask", inputs, None)
    refuses("made for other tensors than those that the mask reads", inputs, documents(make_ids()))
    refuses("the call has 2, 4, 200 and 200; call create_block_mask", make_inputs(200), mask)
    with pytest.raises(attn.AttnError, match="leave the block mask out"):
        create_block_mask(*inputs, block_mask=lambda b, h, q, k: q >= k, enable_gqa=True)
    with pytest.raises(attn.AttnError, match="precomputed_block_mask is a int; pass what create_block_mask returns"):
        attend(inputs, mask, precomputed_block_mask=1)


def test_block_masks_keep_their_plans(monkeypatch):
    inputs, ids = make_inputs(), make_ids()
    mask = documents(ids)
    made = []
    make = block_masks.PrecomputedBlockMask

    def count(*arguments):
        made.append(arguments)
        return make(*arguments)

    monkeypatch.setattr(block_masks, "PrecomputedBlockMask", count)
    block_mask = create_torch_block_mask(mask, B, None, S, S, device="cpu")
    for _ in range(3):
        torch.testing.assert_close(attend(inputs, block_mask), dense(inputs, mask), rtol=1e-4, atol=2e-5)
    assert len(made) == 1
    ids[:, 150:] += 5
    for _ in range(2):
        torch.testing.assert_close(attend(inputs, block_mask), dense(inputs, mask), rtol=1e-4, atol=2e-5)
    assert len(made) == 2
    # A function alone may read anything next time.
    attend(inputs, mask)
    assert len(made) == 2 and len(block_masks._of_block_masks) == 1
    made.clear()
    del block_mask
    assert not block_masks._of_block_masks


def test_masks_of_positions_without_a_closed_form(monkeypatch):
    """They read no tensors, so that the block mask of a BlockMask is valid for ever."""
    inputs, made = make_inputs(), []
    make = block_masks.PrecomputedBlockMask
    monkeypatch.setattr(block_masks, "PrecomputedBlockMask", lambda *a: made.append(a) or make(*a))

    def neighbours(b, h, q, k):
        return (q // 16 % 4 - 1 <= k // 16 % 4) & (q % 16 // 4 + q // 64 * 4 <= k % 16 // 4 + k // 64 * 4)

    expected = dense(inputs, neighbours)
    block_mask = create_torch_block_mask(neighbours, None, None, S, S, device="cpu")
    for _ in range(3):
        torch.testing.assert_close(attend(inputs, block_mask), expected, rtol=1e-4, atol=2e-5)
    assert len(made) == 1
    other = create_torch_block_mask(lambda b, h, q, k: q >= k, None, None, S, S, device="cpu")
    torch.testing.assert_close(attend(inputs, other), dense(inputs, other.mask_mod), rtol=1e-4, atol=2e-5)
    # A closed form needs none.
    assert len(made) == 1
    plan = create_block_mask(*inputs, block_mask=neighbours, enable_gqa=True)
    for _ in range(2):
        out = attend(inputs, neighbours, precomputed_block_mask=plan)
        torch.testing.assert_close(out, expected, rtol=1e-4, atol=2e-5)


def test_the_compiler_ignores_plans():
    inputs, mask = make_inputs(), documents(make_ids())
    plan = create_block_mask(*inputs, block_mask=mask, enable_gqa=True)
    traced = attn.torch.trace(None, mask)
    function = torch.compile(
        lambda q, k, v: flex_attention(q, k, v, traced, enable_gqa=True, precomputed_block_mask=plan),
        backend="aot_eager",
        fullgraph=True,
    )
    torch.testing.assert_close(function(*inputs), attend(inputs, mask))


MODULE = """
func.func @f(%q: tensor<?x2x?x16xf32>, %ids: tensor<?xi32>) -> tensor<?x2x?x16xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %b = tensor.dim %q, %c0 : tensor<?x2x?x16xf32>
  %s = tensor.dim %q, %c2 : tensor<?x2x?x16xf32>
  %init = tensor.empty(%b, %s) : tensor<?x2x?x16xf32>
  %0 = attn.attention ins(%q, %q, %q : tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>)
      outs(%init : tensor<?x2x?x16xf32>)
      mask_mod {
      ^bb0(%b0: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %ids[%i] : tensor<?xi32>
        %y = tensor.extract %ids[%j] : tensor<?xi32>
        %same = arith.cmpi eq, %x, %y : i32
        attn.yield %same : i1
      } -> tensor<?x2x?x16xf32>
  return %0 : tensor<?x2x?x16xf32>
}
"""


def test_functions_of_an_artifact():
    artifact = attn.compile(MODULE, options={"explicit_block_masks": True})
    assert sorted(artifact.names()) == ["f", "f_block_mask"]
    names = [name for name, *_ in artifact["f"].args]
    assert names[2] == "block_mask"
    rows, columns = (artifact["f_block_mask"].symbols[-1 - dim] for dim in artifact["f_block_mask"].args[-1][2][2:])
    query_tile, key_tile = (int(name.split("/ ")[1].split(")")[0]) for name in (rows, columns))
    assert rows == f"ceil(queries / {query_tile})" and columns == f"ceil(queries / {key_tile}) + 4"
    query, ids = torch.randn(1, 2, 100, 16), torch.arange(100, dtype=torch.int32) // 30
    plan = torch.empty(1, 1, -(-100 // query_tile), -(-100 // key_tile) + 4, dtype=torch.int32)
    artifact["f_block_mask"](query, ids, plan)
    out = torch.empty_like(query)
    artifact["f"](query, ids, plan, out)
    mask = (ids[:, None] == ids)[None, None]
    expected = torch.nn.functional.scaled_dot_product_attention(query, query, query, attn_mask=mask)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=2e-5)
    with pytest.raises(
        attn.AttnError, match="argument 'block_mask': dimension 2 is .*: it must be made for the lengths"
    ):
        artifact["f"](query, ids, torch.empty(1, 1, plan.shape[2] + 1, plan.shape[3], dtype=torch.int32), out)
    with pytest.raises(attn.AttnError, match="argument 'block_mask': dimension 3 is"):
        artifact["f"](query, ids, torch.empty(1, 1, plan.shape[2], 4, dtype=torch.int32), out)


KEEP = """mask_mod {
      ^bb0(%b0: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %ids[%i] : tensor<100xi32>
        %y = tensor.extract %ids[%j] : tensor<100xi32>
        %same = arith.cmpi eq, %x, %y : i32
        attn.yield %same : i1
      }"""
TYPE = "tensor<1x2x100x16xf32>"
LAYERS = f"""
func.func @f(%q: {TYPE}, %ids: tensor<100xi32>) -> {TYPE} {{
  %init = tensor.empty() : {TYPE}
  %0 = attn.attention ins(%q, %q, %q : {TYPE}, {TYPE}, {TYPE}) outs(%init : {TYPE}) {KEEP} -> {TYPE}
  %1 = attn.attention ins(%0, %q, %0 : {TYPE}, {TYPE}, {TYPE}) outs(%init : {TYPE}) {KEEP} -> {TYPE}
  return %1 : {TYPE}
}}
"""


@pytest.mark.parametrize("explicit", (False, True))
def test_layers_share_a_block_mask(explicit):
    options = {"explicit_block_masks": explicit}
    tiled = compile_bytes(LAYERS, emit="mlir", options={**options, "stop_after": "tile"}).decode()
    assert tiled.count("attn_tile.launch @f_block_mask_classes" if explicit else "attn_tile.launch @f_classes") == 1
    artifact = attn.compile(LAYERS, options=options)
    query, ids = torch.randn(1, 2, 100, 16), torch.arange(100, dtype=torch.int32) // 30
    inputs = [query, ids]
    if explicit:
        inputs.append(torch.empty(artifact["f_block_mask"].args[-1][2], dtype=torch.int32))
        artifact["f_block_mask"](*inputs)
    out = torch.empty_like(query)
    artifact["f"](*inputs, out)
    mask = (ids[:, None] == ids)[None, None]
    sdpa = torch.nn.functional.scaled_dot_product_attention
    first = sdpa(query, query, query, attn_mask=mask)
    torch.testing.assert_close(out, sdpa(first, query, first, attn_mask=mask), rtol=1e-4, atol=2e-5)
