// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_90a}))' | FileCheck %s --check-prefix=SM90
// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=sm_80}))' | FileCheck %s --check-prefix=SM80
// RUN: attn-opt %s --pass-pipeline='builtin.module(func.func(attn-choose-schedule{target=host}))' | FileCheck %s --check-prefix=HOST

// SM90-LABEL: func @large
// SM90: schedule(#attn_tile.matmul_warp_specialized<row_tile = 128, column_tile = 256, depth_tile = 64, stages = 4, consumers = 2, interleave = 16>)
// SM80-LABEL: func @large
// SM80: schedule(#attn_tile.matmul_multistage<row_tile = 128, column_tile = 128, depth_tile = 64, stages = 2, warps = 4>)
// HOST-LABEL: func @large
// HOST: schedule(#attn_tile.matmul_sequential<row_tile = 16, column_tile = 64, depth_tile = 64>)
func.func @large(%a: tensor<?x?xbf16>, %c: tensor<?x?xbf16>) -> tensor<?x?xbf16> {
  %r = attn.matmul ins(%a, %a : tensor<?x?xbf16>, tensor<?x?xbf16>) outs(%c : tensor<?x?xbf16>) -> tensor<?x?xbf16>
  return %r : tensor<?x?xbf16>
}

// All columns of a narrow result.
// SM90-LABEL: func @narrow
// SM90: schedule(#attn_tile.matmul_warp_specialized<row_tile = 128, column_tile = 128, depth_tile = 64, stages = 6,
func.func @narrow(%a: tensor<?x?xbf16>, %b: tensor<?x96xbf16>, %c: tensor<?x96xbf16>) -> tensor<?x96xbf16> {
  %r = attn.matmul ins(%a, %b : tensor<?x?xbf16>, tensor<?x96xbf16>) outs(%c : tensor<?x96xbf16>) -> tensor<?x96xbf16>
  return %r : tensor<?x96xbf16>
}

// What is read for each element takes registers.
// SM90-LABEL: func @residual
// SM90: schedule(#attn_tile.matmul_warp_specialized<row_tile = 128, column_tile = 128,
func.func @residual(%a: tensor<?x?xbf16>, %c: tensor<?x?xbf16>, %x: tensor<?x?xf32>) -> tensor<?x?xbf16> {
  %r = attn.matmul ins(%a, %a : tensor<?x?xbf16>, tensor<?x?xbf16>) outs(%c : tensor<?x?xbf16>) epilogue {
  ^bb0(%sum: f32, %b: index, %i: index, %j: index):
    %y = tensor.extract %x[%i, %j] : tensor<?x?xf32>
    %z = arith.addf %sum, %y : f32
    attn.yield %z : f32
  } -> tensor<?x?xbf16>
  return %r : tensor<?x?xbf16>
}

// What each column reads does not.
// SM90-LABEL: func @bias
// SM90: schedule(#attn_tile.matmul_warp_specialized<row_tile = 128, column_tile = 256,
func.func @bias(%a: tensor<?x?xbf16>, %c: tensor<?x?xbf16>, %x: tensor<?xf32>) -> tensor<?x?xbf16> {
  %r = attn.matmul ins(%a, %a : tensor<?x?xbf16>, tensor<?x?xbf16>) outs(%c : tensor<?x?xbf16>) epilogue {
  ^bb0(%sum: f32, %b: index, %i: index, %j: index):
    %y = tensor.extract %x[%j] : tensor<?xf32>
    %z = arith.addf %sum, %y : f32
    attn.yield %z : f32
  } -> tensor<?x?xbf16>
  return %r : tensor<?x?xbf16>
}

// SM90-LABEL: func @narrower
// SM90: schedule(#attn_tile.matmul_warp_specialized<row_tile = 128, column_tile = 64,
// SM80-LABEL: func @narrower
// SM80: schedule(#attn_tile.matmul_multistage<row_tile = 128, column_tile = 64,
func.func @narrower(%a: tensor<?x?xf16>, %b: tensor<?x40xf16>, %c: tensor<?x40xf16>) -> tensor<?x40xf16> {
  %r = attn.matmul ins(%a, %b : tensor<?x?xf16>, tensor<?x40xf16>) outs(%c : tensor<?x40xf16>) -> tensor<?x40xf16>
  return %r : tensor<?x40xf16>
}
