// RUN: attn-opt %s --attn-simplify-masks --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-simplify-masks --split-input-file -o %t.once
// RUN: attn-opt %t.once --attn-simplify-masks --split-input-file -o %t.twice
// RUN: diff %t.once %t.twice

// CHECK-LABEL: func @double_negation
// CHECK: mask(#attn.causal) ->
func.func @double_negation(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask(#attn.not<#attn.not<#attn.causal>>) -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @de_morgan
// CHECK: mask(#attn.or<#attn.not<#attn.global_tokens<count = 4>>, #attn.not<#attn.local_blocks<size = 8, before = 0, after = 0>>>) ->
func.func @de_morgan(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask(#attn.not<#attn.and<#attn.global_tokens<count = 4>, #attn.local_blocks<size = 8, before = 0, after = 0>>>) -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @de_morgan_merges
// CHECK: mask(#attn.none) ->
func.func @de_morgan_merges(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask(#attn.and<#attn.not<#attn.sliding_window<left = 4>>, #attn.not<#attn.sliding_window<right = 4>>>) -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @nested
// CHECK: mask(#attn.or<#attn.local_blocks<size = 8, after = 0>, #attn.global_tokens<count = 4>>) ->
func.func @nested(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask(#attn.or<#attn.local_blocks<size = 8, after = 0>, #attn.or<#attn.global_tokens<count = 4>, #attn.not<#attn.and<#attn.not<#attn.causal>>>>>)
    -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @duplicates
// CHECK: mask(#attn.and<#attn.local_blocks<size = 8, after = 0>, #attn.global_tokens<count = 4>>) ->
func.func @duplicates(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask(#attn.and<#attn.local_blocks<size = 8, after = 0>, #attn.global_tokens<count = 4>, #attn.local_blocks<size = 8, after = 0>>) -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @absorbed
// CHECK: mask(#attn.causal) ->
func.func @absorbed(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask(#attn.or<#attn.causal, #attn.and<#attn.causal, #attn.global_tokens<count = 4>>>) -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @implied
// CHECK: mask(#attn.sliding_window<left = 8, right = 0>) ->
func.func @implied(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask(#attn.and<#attn.sliding_window<left = 8, right = 0>, #attn.sliding_window<left = 16, right = 2>>) -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @implied_block
// CHECK: mask(#attn.local_blocks<size = 8, after = 0, alignment = top_left>) ->
func.func @implied_block(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask(#attn.or<#attn.local_blocks<size = 8, after = 0, alignment = top_left>, #attn.causal<alignment = top_left>>) -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @causal_window
// CHECK: mask(#attn.sliding_window<left = 512, right = 0>) ->
func.func @causal_window(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask(#attn.and<#attn.causal, #attn.sliding_window<left = 512>>) -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @causal_dilated
// CHECK: mask(#attn.dilated_window<left = 12, right = 0, dilation = 4>) ->
func.func @causal_dilated(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask(#attn.and<#attn.causal, #attn.dilated_window<left = 13, right = 16, dilation = 4>>) -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @blocks_and_before
// CHECK: mask(#attn.local_blocks<size = 8, before = 1, after = 0>) ->
func.func @blocks_and_before(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask(#attn.and<#attn.local_blocks<size = 8, after = 0>, #attn.local_blocks<size = 8, before = 1, after = 3>>) -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @other_corner
// CHECK: mask(#attn.and<#attn.causal, #attn.sliding_window<left = 512, alignment = top_left>>) ->
func.func @other_corner(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask(#attn.and<#attn.causal, #attn.sliding_window<left = 512, alignment = top_left>>) -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @excluded_middle
// CHECK: attn.attention
// CHECK-NOT: mask(
func.func @excluded_middle(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask(#attn.or<#attn.causal, #attn.not<#attn.causal>>) -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @contradiction
// CHECK: mask(#attn.none) ->
func.func @contradiction(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask(#attn.and<#attn.causal, #attn.not<#attn.causal>>) -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @empty_prefix
// CHECK: mask(#attn.causal) ->
func.func @empty_prefix(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask(#attn.prefix_lm<length = 0>) -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @single_blocks
// CHECK: mask(#attn.sliding_window<left = 7, right = 0>) ->
func.func @single_blocks(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask(#attn.local_blocks<size = 1, before = 7, after = 0>) -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @window_covers
// CHECK: attn.attention
// CHECK-NOT: mask(
func.func @window_covers(%q: tensor<1x2x128x16xf32>, %k: tensor<1x2x128x16xf32>) -> tensor<1x2x128x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x128x16xf32>, tensor<1x2x128x16xf32>, tensor<1x2x128x16xf32>) outs(%q : tensor<1x2x128x16xf32>)
    mask(#attn.sliding_window<left = 127, right = 127>) -> tensor<1x2x128x16xf32>
  return %0 : tensor<1x2x128x16xf32>
}

// -----

// CHECK-LABEL: func @window_covers_left
// CHECK: mask(#attn.causal) ->
func.func @window_covers_left(%q: tensor<1x2x128x16xf32>, %k: tensor<1x2x128x16xf32>) -> tensor<1x2x128x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x128x16xf32>, tensor<1x2x128x16xf32>, tensor<1x2x128x16xf32>) outs(%q : tensor<1x2x128x16xf32>)
    mask(#attn.sliding_window<left = 127, right = 0>) -> tensor<1x2x128x16xf32>
  return %0 : tensor<1x2x128x16xf32>
}

// -----

// CHECK-LABEL: func @prefix_covers
// CHECK: attn.attention
// CHECK-NOT: mask(
func.func @prefix_covers(%q: tensor<1x2x128x16xf32>, %k: tensor<1x2x128x16xf32>) -> tensor<1x2x128x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x128x16xf32>, tensor<1x2x128x16xf32>, tensor<1x2x128x16xf32>) outs(%q : tensor<1x2x128x16xf32>)
    mask(#attn.prefix_lm<length = 128>) -> tensor<1x2x128x16xf32>
  return %0 : tensor<1x2x128x16xf32>
}

// -----

// CHECK-LABEL: func @square
// CHECK: mask(#attn.sliding_window<left = 16, right = 0>) ->
func.func @square(%q: tensor<1x2x128x16xf32>, %k: tensor<1x2x128x16xf32>) -> tensor<1x2x128x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x128x16xf32>, tensor<1x2x128x16xf32>, tensor<1x2x128x16xf32>) outs(%q : tensor<1x2x128x16xf32>)
    mask(#attn.and<#attn.causal<alignment = top_left>, #attn.sliding_window<left = 16>>) -> tensor<1x2x128x16xf32>
  return %0 : tensor<1x2x128x16xf32>
}

// -----

// CHECK-LABEL: func @wide
// CHECK: mask(#attn.sliding_window<right = 112, alignment = top_left>) ->
func.func @wide(%q: tensor<1x2x16x16xf32>, %k: tensor<1x2x128x16xf32>) -> tensor<1x2x16x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x16x16xf32>, tensor<1x2x128x16xf32>, tensor<1x2x128x16xf32>) outs(%q : tensor<1x2x16x16xf32>)
    mask(#attn.sliding_window<right = 112, alignment = top_left>) -> tensor<1x2x16x16xf32>
  return %0 : tensor<1x2x16x16xf32>
}

// -----

// CHECK-LABEL: func @one_query
// CHECK: attn.attention
// CHECK-NOT: mask(
func.func @one_query(%q: tensor<1x2x1x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x1x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x1x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x1x16xf32>)
    mask(#attn.causal) -> tensor<1x2x1x16xf32>
  return %0 : tensor<1x2x1x16xf32>
}

// -----

// CHECK-LABEL: func @blocks_cover
// CHECK: mask(#attn.local_blocks<size = 64, after = 0>) ->
func.func @blocks_cover(%q: tensor<1x2x100x16xf32>, %k: tensor<1x2x100x16xf32>) -> tensor<1x2x100x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x100x16xf32>, tensor<1x2x100x16xf32>, tensor<1x2x100x16xf32>) outs(%q : tensor<1x2x100x16xf32>)
    mask(#attn.local_blocks<size = 64, before = 1, after = 0>) -> tensor<1x2x100x16xf32>
  return %0 : tensor<1x2x100x16xf32>
}

// -----

// CHECK-LABEL: func @no_tokens
// CHECK: mask(#attn.causal) ->
func.func @no_tokens(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask(#attn.or<#attn.causal, #attn.global_tokens<count = 0>>) -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @tokens_cover
// CHECK: mask(#attn.causal) ->
func.func @tokens_cover(%q: tensor<1x2x64x16xf32>, %k: tensor<1x2x8x16xf32>) -> tensor<1x2x64x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x64x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>) outs(%q : tensor<1x2x64x16xf32>)
    mask(#attn.and<#attn.global_tokens<count = 8>, #attn.causal>) -> tensor<1x2x64x16xf32>
  return %0 : tensor<1x2x64x16xf32>
}

// -----

// CHECK-LABEL: func @causal_region
// CHECK: mask(#attn.causal) ->
// CHECK-NOT: mask_mod
func.func @causal_region(%q: tensor<1x2x64x16xf32>, %k: tensor<1x2x64x16xf32>) -> tensor<1x2x64x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>) outs(%q : tensor<1x2x64x16xf32>)
    mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %keep = arith.cmpi sle, %j, %i : index
      attn.yield %keep : i1
    } -> tensor<1x2x64x16xf32>
  return %0 : tensor<1x2x64x16xf32>
}

// -----

// CHECK-LABEL: func @causal_of_dynamic
// CHECK: mask(#attn.causal<alignment = top_left>) ->
// CHECK-NOT: mask_mod
func.func @causal_of_dynamic(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %keep = arith.cmpi sge, %i, %j : index
      attn.yield %keep : i1
    } -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @causal_by_lengths
// The offset is computed outside of the region: its operands are not looked at.
// CHECK: attn.attention
// CHECK-NOT: mask(
// CHECK: mask_mod
func.func @causal_by_lengths(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %c2 = arith.constant 2 : index
  %sq = tensor.dim %q, %c2 : tensor<1x2x?x16xf32>
  %sk = tensor.dim %k, %c2 : tensor<1x2x?x16xf32>
  %offset = arith.subi %sk, %sq : index
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %d = arith.addi %i, %offset : index
      %keep = arith.cmpi sle, %j, %d : index
      attn.yield %keep : i1
    } -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @causal_by_sizes
// CHECK: mask(#attn.causal) ->
// CHECK-NOT: mask_mod
func.func @causal_by_sizes(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %c2 = arith.constant 2 : index
  %sq = tensor.dim %q, %c2 : tensor<1x2x?x16xf32>
  %sk = tensor.dim %k, %c2 : tensor<1x2x?x16xf32>
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %e = arith.addi %i, %sk : index
      %d = arith.subi %e, %sq : index
      %keep = arith.cmpi sle, %j, %d : index
      attn.yield %keep : i1
    } -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @strictly_causal
// CHECK: mask(#attn.not<#attn.sliding_window<left = 0, alignment = top_left>>) ->
// CHECK-NOT: mask_mod
func.func @strictly_causal(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %keep = arith.cmpi slt, %j, %i : index
      attn.yield %keep : i1
    } -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @window_of_i32
// CHECK: mask(#attn.sliding_window<left = 7, right = 0>) ->
// CHECK-NOT: mask_mod
func.func @window_of_i32(%q: tensor<1x2x64x16xf32>, %k: tensor<1x2x64x16xf32>) -> tensor<1x2x64x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>) outs(%q : tensor<1x2x64x16xf32>)
    mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %x = arith.index_cast %i : index to i32
      %y = arith.index_cast %j : index to i32
      %c8 = arith.constant 8 : i32
      %c0 = arith.constant 0 : i32
      %d = arith.subi %x, %y : i32
      %near = arith.cmpi slt, %d, %c8 : i32
      %past = arith.cmpi sge, %d, %c0 : i32
      %keep = arith.andi %near, %past : i1
      attn.yield %keep : i1
    } -> tensor<1x2x64x16xf32>
  return %0 : tensor<1x2x64x16xf32>
}

// -----

// CHECK-LABEL: func @prefix_region
// CHECK: mask(#attn.prefix_lm<length = 8>) ->
// CHECK-NOT: mask_mod
func.func @prefix_region(%q: tensor<1x2x64x16xf32>, %k: tensor<1x2x64x16xf32>) -> tensor<1x2x64x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>) outs(%q : tensor<1x2x64x16xf32>)
    mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %c8 = arith.constant 8 : index
      %p = arith.cmpi ult, %j, %c8 : index
      %c = arith.cmpi sle, %j, %i : index
      %keep = arith.ori %p, %c : i1
      attn.yield %keep : i1
    } -> tensor<1x2x64x16xf32>
  return %0 : tensor<1x2x64x16xf32>
}

// -----

// CHECK-LABEL: func @tokens_region
// CHECK: mask(#attn.global_tokens<count = 8>) ->
// CHECK-NOT: mask_mod
func.func @tokens_region(%q: tensor<1x2x64x16xf32>, %k: tensor<1x2x64x16xf32>) -> tensor<1x2x64x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>) outs(%q : tensor<1x2x64x16xf32>)
    mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %c8 = arith.constant 8 : index
      %p = arith.cmpi ult, %j, %c8 : index
      %c = arith.cmpi slt, %i, %c8 : index
      %keep = arith.ori %p, %c : i1
      attn.yield %keep : i1
    } -> tensor<1x2x64x16xf32>
  return %0 : tensor<1x2x64x16xf32>
}

// -----

// CHECK-LABEL: func @no_tokens_region
// CHECK: mask(#attn.not<#attn.global_tokens<count = 8>>) ->
// CHECK-NOT: mask_mod
func.func @no_tokens_region(%q: tensor<1x2x64x16xf32>, %k: tensor<1x2x64x16xf32>) -> tensor<1x2x64x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>) outs(%q : tensor<1x2x64x16xf32>)
    mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %c8 = arith.constant 8 : index
      %p = arith.cmpi uge, %j, %c8 : index
      %c = arith.cmpi sge, %i, %c8 : index
      %keep = arith.andi %p, %c : i1
      attn.yield %keep : i1
    } -> tensor<1x2x64x16xf32>
  return %0 : tensor<1x2x64x16xf32>
}

// -----

// CHECK-LABEL: func @chunks_region
// CHECK: mask(#attn.and<#attn.local_blocks<size = 8, before = 0, after = 0>, #attn.causal>) ->
// CHECK-NOT: mask_mod
func.func @chunks_region(%q: tensor<1x2x64x16xf32>, %k: tensor<1x2x64x16xf32>) -> tensor<1x2x64x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>) outs(%q : tensor<1x2x64x16xf32>)
    mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %c8 = arith.constant 8 : index
      %x = arith.divui %i, %c8 : index
      %y = arith.divui %j, %c8 : index
      %p = arith.cmpi eq, %x, %y : index
      %c = arith.cmpi sle, %j, %i : index
      %keep = arith.andi %p, %c : i1
      attn.yield %keep : i1
    } -> tensor<1x2x64x16xf32>
  return %0 : tensor<1x2x64x16xf32>
}

// -----

// CHECK-LABEL: func @true_region
// CHECK: attn.attention
// CHECK-NOT: mask(
// CHECK-NOT: mask_mod
func.func @true_region(%q: tensor<1x2x64x16xf32>, %k: tensor<1x2x64x16xf32>) -> tensor<1x2x64x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>) outs(%q : tensor<1x2x64x16xf32>)
    mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %c64 = arith.constant 64 : index
      %keep = arith.cmpi slt, %j, %c64 : index
      attn.yield %keep : i1
    } -> tensor<1x2x64x16xf32>
  return %0 : tensor<1x2x64x16xf32>
}

// -----

// CHECK-LABEL: func @false_region
// CHECK: mask(#attn.none) ->
// CHECK-NOT: mask_mod
func.func @false_region(%q: tensor<1x2x64x16xf32>, %k: tensor<1x2x64x16xf32>) -> tensor<1x2x64x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>) outs(%q : tensor<1x2x64x16xf32>)
    mask(#attn.causal) mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %keep = arith.cmpi sgt, %j, %i : index
      attn.yield %keep : i1
    } -> tensor<1x2x64x16xf32>
  return %0 : tensor<1x2x64x16xf32>
}

// -----

// CHECK-LABEL: func @implied_region
// CHECK: mask(#attn.causal) ->
// CHECK-NOT: mask_mod
func.func @implied_region(%q: tensor<1x2x64x16xf32>, %k: tensor<1x2x64x16xf32>) -> tensor<1x2x64x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>) outs(%q : tensor<1x2x64x16xf32>)
    mask(#attn.causal) mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %c5 = arith.constant 5 : index
      %d = arith.addi %i, %c5 : index
      %keep = arith.cmpi sle, %j, %d : index
      attn.yield %keep : i1
    } -> tensor<1x2x64x16xf32>
  return %0 : tensor<1x2x64x16xf32>
}

// -----

// CHECK-LABEL: func @causal_documents
// CHECK: mask(#attn.sliding_window<left = 512, right = 0, alignment = top_left>) mask_mod
// CHECK: %[[SAME:.*]] = arith.cmpi eq
// CHECK: attn.yield %[[SAME]]
func.func @causal_documents(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>, %ids: tensor<?x?xi32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask(#attn.sliding_window<left = 512, alignment = top_left>) mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %x = tensor.extract %ids[%b, %i] : tensor<?x?xi32>
      %y = tensor.extract %ids[%b, %j] : tensor<?x?xi32>
      %same = arith.cmpi eq, %x, %y : i32
      %causal = arith.cmpi sle, %j, %i : index
      %keep = arith.andi %same, %causal : i1
      attn.yield %keep : i1
    } -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// CHECK-LABEL: func @unnamed
// CHECK: attn.attention
// CHECK-NOT: mask(
// CHECK: mask_mod
func.func @unnamed(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>) outs(%q : tensor<1x2x?x16xf32>)
    mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %c3 = arith.constant 3 : index
      %x = arith.muli %i, %c3 : index
      %keep = arith.cmpi sle, %j, %x : index
      attn.yield %keep : i1
    } -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// Lengths of sequences are not those of the tensors.
// CHECK-LABEL: func @sequences
// CHECK: mask(#attn.sliding_window<left = 127, right = 127>)
func.func @sequences(%q: tensor<1x2x128x16xf32>, %cu: tensor<3xi32>) -> tensor<1x2x128x16xf32> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x2x128x16xf32>, tensor<1x2x128x16xf32>, tensor<1x2x128x16xf32>)
    outs(%q : tensor<1x2x128x16xf32>) sequences packed(%cu, %cu : tensor<3xi32>, tensor<3xi32>)
    mask(#attn.sliding_window<left = 127, right = 127>) -> tensor<1x2x128x16xf32>
  return %0 : tensor<1x2x128x16xf32>
}

// -----

// CHECK-LABEL: func @gradient
// CHECK: attn.attention_grad
// CHECK-SAME: mask(#attn.sliding_window<left = 8, right = 0>)
// CHECK-NOT: mask_mod
func.func @gradient(%q: memref<1x2x64x16xf32>, %lse: memref<1x2x64xf32>) {
  attn.attention_grad
    ins(%q, %q, %q, %q, %lse, %q : memref<1x2x64x16xf32>, memref<1x2x64x16xf32>, memref<1x2x64x16xf32>,
        memref<1x2x64x16xf32>, memref<1x2x64xf32>, memref<1x2x64x16xf32>)
    outs(%q, %q, %q : memref<1x2x64x16xf32>, memref<1x2x64x16xf32>, memref<1x2x64x16xf32>)
    mask(#attn.sliding_window<left = 8>) mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %keep = arith.cmpi sle, %j, %i : index
      attn.yield %keep : i1
    }
  return
}
