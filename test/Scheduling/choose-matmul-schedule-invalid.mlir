// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a}))' --split-input-file --verify-diagnostics

func.func @element(%a: tensor<?x?xf32>, %c: tensor<?x?xf32>) -> tensor<?x?xf32> {
  // expected-error-re @below {{cannot have schedule '#attn_tile.matmul_warp_specialized<row_tile = 128, column_tile = 128{{.*}}>' on target sm_90a with 'f32' elements}}
  %r = attn.matmul ins(%a, %a : tensor<?x?xf32>, tensor<?x?xf32>) outs(%c : tensor<?x?xf32>)
      schedule(#attn_tile.matmul_warp_specialized<row_tile = 128, column_tile = 128, depth_tile = 64, stages = 4, consumers = 2>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// -----

func.func @host_schedule(%a: tensor<?x?xbf16>, %c: tensor<?x?xbf16>) -> tensor<?x?xbf16> {
  // expected-error-re @below {{cannot have schedule '#attn_tile.matmul_sequential<row_tile = 16, column_tile = 64{{.*}}>' on target sm_90a, it is for host}}
  %r = attn.matmul ins(%a, %a : tensor<?x?xbf16>, tensor<?x?xbf16>) outs(%c : tensor<?x?xbf16>)
      schedule(#attn_tile.matmul_sequential<row_tile = 16, column_tile = 64, depth_tile = 64>) -> tensor<?x?xbf16>
  return %r : tensor<?x?xbf16>
}

// -----

func.func @of_attention(%a: tensor<?x?xbf16>, %c: tensor<?x?xbf16>) -> tensor<?x?xbf16> {
  // expected-error-re @below {{cannot have schedule '#attn_tile.warp_specialized<query_tile = 128, key_tile = 64{{.*}}>', it is for attention}}
  %r = attn.matmul ins(%a, %a : tensor<?x?xbf16>, tensor<?x?xbf16>) outs(%c : tensor<?x?xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 64, stages = 2, consumers = 2>) -> tensor<?x?xbf16>
  return %r : tensor<?x?xbf16>
}

// -----

func.func @of_both(%a: tensor<?x?xbf16>, %c: tensor<?x?xbf16>) -> tensor<?x?xbf16> {
  // expected-error @below {{'attn.matmul' op cannot have schedule '#attn_tile.sequential<query_tile = 16, key_tile = 64>', it is for attention and gradients}}
  %r = attn.matmul ins(%a, %a : tensor<?x?xbf16>, tensor<?x?xbf16>) outs(%c : tensor<?x?xbf16>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>) -> tensor<?x?xbf16>
  return %r : tensor<?x?xbf16>
}

// -----

func.func @attention(%q: tensor<1x8x?x64xbf16>) -> tensor<1x8x?x64xbf16> {
  // expected-error @below {{cannot have schedule '#attn_tile.matmul_sequential<row_tile = 16, column_tile = 64, depth_tile = 64>', it is for matmuls}}
  %r = attn.attention
      ins(%q, %q, %q : tensor<1x8x?x64xbf16>, tensor<1x8x?x64xbf16>, tensor<1x8x?x64xbf16>)
      outs(%q : tensor<1x8x?x64xbf16>)
      schedule(#attn_tile.matmul_sequential<row_tile = 16, column_tile = 64, depth_tile = 64>) -> tensor<1x8x?x64xbf16>
  return %r : tensor<1x8x?x64xbf16>
}

// -----

func.func @columns_of_rhs(%a: tensor<?x?xf8E4M3FN>, %c: tensor<?x?xbf16>) -> tensor<?x?xbf16> {
  // expected-error @below {{'attn.matmul' op inputs of 'f8E4M3FN' on sm_90a must be contiguous along the contracted dimension: 'rhs' must be [N, K], with 'transpose_rhs'}}
  %r = attn.matmul ins(%a, %a : tensor<?x?xf8E4M3FN>, tensor<?x?xf8E4M3FN>) outs(%c : tensor<?x?xbf16>)
      -> tensor<?x?xbf16>
  return %r : tensor<?x?xbf16>
}

// -----

func.func @columns_of_lhs(%a: tensor<?x?xf8E4M3FN>, %c: tensor<?x?xbf16>) -> tensor<?x?xbf16> {
  // expected-error @below {{'attn.matmul' op inputs of 'f8E4M3FN' on sm_90a must be contiguous along the contracted dimension: 'lhs' must be [M, K], without 'transpose_lhs'}}
  %r = attn.matmul ins(%a, %a : tensor<?x?xf8E4M3FN>, tensor<?x?xf8E4M3FN>) outs(%c : tensor<?x?xbf16>)
      transpose_lhs transpose_rhs -> tensor<?x?xbf16>
  return %r : tensor<?x?xbf16>
}
