# Licensed under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of support in README.md is true: each cell compiles, and no dtype that a cell leaves out does."""

import subprocess

import pytest
from conftest import BUILD, ROOT

HEADS = "tensor<1x4x256x64xDTYPE>"


def attention(clauses="", arguments="", before="", batch=HEADS):
    """A function of attention whose operation has some clauses."""
    return f"""
func.func @f(%q: {batch}, %k: {batch}, %v: {batch}{arguments}) -> {batch} {{
  %init = tensor.empty() : {batch}
  {before}
  %out = attn.attention ins(%{"r" if before else "q"}, %k, %v : {batch}, {batch}, {batch}) outs(%init : {batch})
      {clauses} -> {batch}
  return %out : {batch}
}}"""


DROPOUT = attention(
    "dropout(#attn.dropout<p = 0.125, rng = #attn.philox>, %seed, %offset : tensor<i64>, tensor<i64>)",
    ", %seed: tensor<i64>, %offset: tensor<i64>",
)
PACKED = attention("sequences packed(%b, %b : tensor<5xi32>, tensor<5xi32>)", ", %b: tensor<5xi32>")
PADDED = attention("sequences padded(%b, %b : tensor<1xi32>, tensor<1xi32>)", ", %b: tensor<1xi32>")
LENGTHS = attention("key_lengths(%n : tensor<1xi32>)", ", %n: tensor<1xi32>")
PAGED = attention(
    "key_lengths(%n : tensor<1xi32>) page_table(%t : tensor<1x9xi32>)", ", %n: tensor<1xi32>, %t: tensor<1x9xi32>"
)
PACKED_QUERIES = attention(
    "sequences packed_queries(%b, %n : tensor<5xi32>, tensor<4xi32>) page_table(%t : tensor<4x9xi32>)",
    ", %b: tensor<5xi32>, %n: tensor<4xi32>, %t: tensor<4x9xi32>",
)
_APPENDED = "tensor<1x4x16x64xDTYPE>, tensor<1x4x16x64xDTYPE>"
_CACHE = "tensor<9x4x64x64xDTYPE>, tensor<9x4x64x64xDTYPE>"
APPEND = f"""
func.func @f(%k: tensor<1x4x16x64xDTYPE>, %q: tensor<1x4x16x64xDTYPE>, %kc: tensor<9x4x64x64xDTYPE>,
             %vc: tensor<9x4x64x64xDTYPE>, %r: tensor<1x4x16x64xDTYPE>, %n: tensor<1xi32>, %t: tensor<1x9xi32>,
             %cos: tensor<256x32xf32>, %sin: tensor<256x32xf32>) -> ({_CACHE}, tensor<1x4x16x64xDTYPE>) {{
  %0:3 = attn.cache_append ins(%k, %k : {_APPENDED}) outs(%kc, %vc : {_CACHE})
      key_lengths(%n : tensor<1xi32>) page_table(%t : tensor<1x9xi32>)
      rotary(%cos, %sin : tensor<256x32xf32>, tensor<256x32xf32>) query(%q into %r : {_APPENDED})
      -> {_CACHE}, tensor<1x4x16x64xDTYPE>
  return %0#0, %0#1, %0#2 : {_CACHE}, tensor<1x4x16x64xDTYPE>
}}"""
_LINEAR = "tensor<1x4x512x64xDTYPE>"
LINEAR = f"""
func.func @f(%q: {_LINEAR}, %k: {_LINEAR}, %v: {_LINEAR}, %g: tensor<1x4x512xf32>, %b: tensor<1x4x512xf32>)
    -> {_LINEAR} {{
  %e = tensor.empty() : {_LINEAR}
  %r = attn.linear_attention ins(%q, %k, %v : {_LINEAR}, {_LINEAR}, {_LINEAR}) outs(%e : {_LINEAR})
      log_decay(%g : tensor<1x4x512xf32>) beta(%b : tensor<1x4x512xf32>) causal -> {_LINEAR}
  return %r : {_LINEAR}
}}"""
_ROWS = "tensor<?x?x?x64xDTYPE>"
LINEAR_FEATURES = f"""
func.func @f(%q: {_LINEAR}, %k: {_LINEAR}, %v: {_LINEAR}, %n: tensor<1xi32>) -> {_LINEAR} {{
  %e = tensor.empty() : {_LINEAR}
  %r = attn.linear_attention ins(%q, %k, %v : {_LINEAR}, {_LINEAR}, {_LINEAR}) outs(%e : {_LINEAR})
      key_lengths(%n : tensor<1xi32>) causal normalizer(eps = 1.0e-6)
      feature {{
      ^bb0(%x: {_ROWS}):
        %y = linalg.exp ins(%x : {_ROWS}) outs(%x : {_ROWS}) -> {_ROWS}
        attn.linear_yield %y : {_ROWS}
      }} -> {_LINEAR}
  return %r : {_LINEAR}
}}"""
HEAD_OPS = attention(
    "mask(#attn.causal)",
    ", %cos: tensor<256x32xf32>, %sin: tensor<256x32xf32>",
    f"""%n = attn.rms_norm %q epsilon(1.0e-05) : {HEADS}
  %r = attn.rope %n, %cos, %sin : {HEADS}, tensor<256x32xf32>, tensor<256x32xf32>""",
)
MATMUL = """
func.func @f(%x: tensor<512x256xDTYPE>, %w: tensor<256x512xDTYPE>) -> tensor<512x512xDTYPE> {
  %zero = arith.constant 0.0 : DTYPE
  %e = tensor.empty() : tensor<512x512xDTYPE>
  %f = linalg.fill ins(%zero : DTYPE) outs(%e : tensor<512x512xDTYPE>) -> tensor<512x512xDTYPE>
  %y = linalg.matmul ins(%x, %w : tensor<512x256xDTYPE>, tensor<256x512xDTYPE>)
      outs(%f : tensor<512x512xDTYPE>) -> tensor<512x512xDTYPE>
  %r = linalg.max ins(%y, %f : tensor<512x512xDTYPE>, tensor<512x512xDTYPE>)
      outs(%e : tensor<512x512xDTYPE>) -> tensor<512x512xDTYPE>
  return %r : tensor<512x512xDTYPE>
}"""

QUANTIZE = """
func.func @f(%x: tensor<1x4x512x64xDTYPE>, %signs: tensor<64xf32>)
    -> (tensor<1x4x512x64xf8E4M3FN>, tensor<1x4x8xf32>) {
  %e = tensor.empty() : tensor<1x4x512x64xf8E4M3FN>
  %s = tensor.empty() : tensor<1x4x8xf32>
  %r:2 = attn.quantize ins(%x : tensor<1x4x512x64xDTYPE>) rotate(%signs : tensor<64xf32>)
      outs(%e : tensor<1x4x512x64xf8E4M3FN>) scale(%s : tensor<1x4x8xf32>) block_size(64) saturate
      -> tensor<1x4x512x64xf8E4M3FN>, tensor<1x4x8xf32>
  return %r#0, %r#1 : tensor<1x4x512x64xf8E4M3FN>, tensor<1x4x8xf32>
}"""

FLOAT8_MATMUL = """
func.func @f(%x: tensor<512x256xDTYPE>, %w: tensor<512x256xDTYPE>, %s: tensor<f32>) -> tensor<512x512xbf16> {
  %e = tensor.empty() : tensor<512x512xbf16>
  %r = attn.matmul ins(%x, %w : tensor<512x256xDTYPE>, tensor<512x256xDTYPE>) outs(%e : tensor<512x512xbf16>)
      transpose_rhs epilogue {
  ^bb0(%sum: f32, %b: index, %i: index, %j: index):
    %scale = tensor.extract %s[] : tensor<f32>
    %y = arith.mulf %sum, %scale : f32
    attn.yield %y : f32
  } -> tensor<512x512xbf16>
  return %r : tensor<512x512xbf16>
}"""

FLOAT8 = """
func.func @f(%q: tensor<1x4x512x64xDTYPE>) -> tensor<1x4x512x64xbf16> {
  %e = tensor.empty() : tensor<1x4x512x64xbf16>
  %r = attn.attention ins(%q, %q, %q : tensor<1x4x512x64xDTYPE>, tensor<1x4x512x64xDTYPE>, tensor<1x4x512x64xDTYPE>)
      outs(%e : tensor<1x4x512x64xbf16>) -> tensor<1x4x512x64xbf16>
  return %r : tensor<1x4x512x64xbf16>
}"""
FLOAT8_OUT = """
func.func @f(%q: tensor<1x4x256x64xbf16>, %scale: tensor<1x4xf32>, %o: tensor<1x4x256x64xDTYPE>)
    -> tensor<1x4x256x64xDTYPE> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x256x64xbf16>, tensor<1x4x256x64xbf16>, tensor<1x4x256x64xbf16>)
      outs(%o : tensor<1x4x256x64xDTYPE>) epilogue {
      ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
        %s = tensor.extract %scale[%b, %h] : tensor<1x4xf32>
        %y = arith.divf %x, %s : f32
        attn.yield %y : f32
      } -> tensor<1x4x256x64xDTYPE>
  return %0 : tensor<1x4x256x64xDTYPE>
}
"""

FLOAT8_KEYS = FLOAT8.replace("%q, %q, %q : tensor<1x4x512x64xDTYPE>", "%e, %q, %q : tensor<1x4x512x64xbf16>")

FLOAT8_GRADIENT = """
!g = tensor<1x4x512x64xDTYPE>
!f = tensor<1x4x512x64xf32>
!o = tensor<1x4x512x64xbf16>
func.func @f(%q: !g, %o: !o, %lse: tensor<1x4x512xf32>, %do: !g) -> (!f, !f, !f) {
  %e = tensor.empty() : !f
  %r:3 = attn.attention_grad ins(%q, %q, %q, %o, %lse, %do : !g, !g, !g, !o, tensor<1x4x512xf32>, !g)
      outs(%e, %e, %e : !f, !f, !f) -> !f, !f, !f
  return %r#0, %r#1, %r#2 : !f, !f, !f
}"""

# {row: [(module, whether its gradient is compiled, too)]}
MODULES = {
    "attention (`attn.attention`)": [(attention("mask(#attn.causal)"), False)],
    "its gradients": [(attention("mask(#attn.causal)"), True)],
    "dropout, in attention and its gradients": [(DROPOUT, True)],
    "packed and padded sequences, and their gradients": [(PACKED, True), (PADDED, True)],
    "quantization to 8 bits (`attn.quantize`)": [(QUANTIZE, False)],
    "8-bit queries, keys and values": [(FLOAT8, False)],
    "8-bit keys and values, with wider queries": [(FLOAT8_KEYS, False)],
    "8-bit outputs, with a scale that is known before": [(FLOAT8_OUT, False)],
    "8-bit queries, keys and values in gradients (`attn.attention_grad`)": [(FLOAT8_GRADIENT, False)],
    "KV caches with lengths, contiguous and paged": [(LENGTHS, False), (PAGED, False)],
    "packed queries of sequences in KV caches (chunked prefill)": [(PACKED_QUERIES, False)],
    "appends to KV caches, with rotary position embedding": [(APPEND, False)],
    "linear attention, with decays and the delta rule, and its gradients": [(LINEAR, False), (LINEAR, True)],
    "feature maps, normalizers and masks of linear attention, and their gradients": [
        (LINEAR_FEATURES, False),
        (LINEAR_FEATURES, True),
    ],
    "rotary positions and norms of heads (`attn.rope`, `attn.rms_norm`)": [(HEAD_OPS, False)],
    "matmul with an epilogue (`attn.matmul`)": [(MATMUL, False)],
    "8-bit matmul, `A B^T`, with an epilogue for scales": [(FLOAT8_MATMUL, False)],
}


def read_table():
    """{(row, target): dtypes} of the table of support."""
    text = (ROOT / "README.md").read_text().split("<!-- support -->")[1].split("<!-- /support -->")[0]
    header, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.strip().splitlines()]
    return {(row, target): cell for row, *cells in rows for target, cell in zip(header[1:], cells)}


TABLE = read_table()


def compiles(module, with_gradient, dtype, target, folder):
    """Whether the compiler makes kernels of a module, and gives no other error than that about its dtype or target."""
    source = folder / "in.mlir"
    source.write_text(module.replace("DTYPE", dtype))
    if with_gradient:
        command = [BUILD / "bin" / "attn-opt", source, "--attn-differentiate=mode=combined", "-o", folder / "grad.mlir"]
        subprocess.run(command, check=True)
        source = folder / "grad.mlir"
    options = [f"--target={target}", "--emit=mlir", "--stop-after=kernel", "-o", folder / "out.mlir"]
    result = subprocess.run([BUILD / "bin" / "attn-compile", source, *options], capture_output=True, text=True)
    if result.returncode:
        refusals = (
            f"element type on {target} must be", f"has no kernels for {target}",
            f"kernels on {target} cannot write an output of",
        )  # fmt: skip
        assert any(refusal in result.stderr for refusal in refusals), result.stderr
        return False
    return "attn_tile.kernel" in (folder / "out.mlir").read_text()


def test_rows():
    assert {row for row, _ in TABLE} == MODULES.keys()


@pytest.mark.parametrize("row, target", TABLE, ids=lambda text: text.split(" ")[0])
def test_cell(row, target, tmp_path):
    for module, with_gradient in MODULES[row]:
        dtypes = ("f8E4M3FN", "f8E5M2") if row.startswith("8-bit") else ("bf16", "f16", "f32")
        found = [dtype for dtype in dtypes if compiles(module, with_gradient, dtype, target, tmp_path)]
        assert ", ".join(found) == TABLE[row, target]
