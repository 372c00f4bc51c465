// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a}))' | FileCheck %s --check-prefix=SM90
// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=host}))' | FileCheck %s --check-prefix=HOST

// Steps contract over the 128 elements of 128 bytes.
// SM90-LABEL: func @float8
// SM90: schedule(#attn_tile.matmul_warp_specialized<row_tile = 128, column_tile = 256, depth_tile = 128,
// HOST-LABEL: func @float8
// HOST: schedule(#attn_tile.matmul_sequential<
func.func @float8(%a: tensor<?x?xf8E4M3FN>, %c: tensor<?x?xbf16>) -> tensor<?x?xbf16> {
  %r = attn.matmul ins(%a, %a : tensor<?x?xf8E4M3FN>, tensor<?x?xf8E4M3FN>) outs(%c : tensor<?x?xbf16>) transpose_rhs
      -> tensor<?x?xbf16>
  return %r : tensor<?x?xbf16>
}
