// RUN: attn-opt %s --verify-roundtrip | FileCheck %s
// RUN: attn-opt %s --mlir-print-op-generic | attn-opt | FileCheck %s
// RUN: attn-opt %s --one-shot-bufferize=bufferize-function-boundaries --canonicalize | FileCheck %s --check-prefix=MEMREF

// CHECK-LABEL: func @plain
// CHECK: attn.matmul ins(%{{.*}}, %{{.*}} : tensor<4x?xf16>, tensor<?x8xf16>) outs(%{{.*}} : tensor<4x8xf32>) -> tensor<4x8xf32>
// MEMREF-LABEL: func @plain
// MEMREF-SAME: (%[[A:.*]]: memref<4x?xf16, {{.*}}>, %[[B:.*]]: memref<?x8xf16, {{.*}}>, %[[C:.*]]: memref<4x8xf32, {{.*}}>)
// MEMREF-NEXT: attn.matmul ins(%[[A]], %[[B]] : {{.*}}) outs(%[[C]] : {{.*}}){{$}}
func.func @plain(%a: tensor<4x?xf16>, %b: tensor<?x8xf16>, %c: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %r = attn.matmul ins(%a, %b : tensor<4x?xf16>, tensor<?x8xf16>) outs(%c : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// CHECK-LABEL: func @batch
// CHECK: attn.matmul ins({{.*}} : tensor<?x?x4xbf16>, tensor<8x?xbf16>) outs(%{{.*}} : tensor<?x4x8xbf16>)
// CHECK-SAME: transpose_lhs transpose_rhs schedule(#attn_tile.matmul_sequential<row_tile = 16, column_tile = 64, depth_tile = 64>) epilogue {
// CHECK-NEXT: ^bb0(%[[SUM:.*]]: f32, %[[BB:.*]]: index, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-NEXT:   %[[X:.*]] = tensor.extract %{{.*}}[%[[J]]]
// CHECK-NEXT:   %[[Y:.*]] = arith.addf %[[SUM]], %[[X]]
// CHECK-NEXT:   attn.yield %[[Y]] : f32
// MEMREF-LABEL: func @batch
// MEMREF: attn.matmul {{.*}} epilogue {
// MEMREF:   memref.load %{{.*}}[%{{.*}}] : memref<8xf32
func.func @batch(%a: tensor<?x?x4xbf16>, %b: tensor<8x?xbf16>, %c: tensor<?x4x8xbf16>,
                 %bias: tensor<8xf32>) -> tensor<?x4x8xbf16> {
  %r = attn.matmul ins(%a, %b : tensor<?x?x4xbf16>, tensor<8x?xbf16>) outs(%c : tensor<?x4x8xbf16>)
      transpose_lhs transpose_rhs
      schedule(#attn_tile.matmul_sequential<row_tile = 16, column_tile = 64, depth_tile = 64>)
      epilogue {
      ^bb0(%sum: f32, %bb: index, %i: index, %j: index):
        %x = tensor.extract %bias[%j] : tensor<8xf32>
        %y = arith.addf %sum, %x : f32
        attn.yield %y : f32
      } -> tensor<?x4x8xbf16>
  return %r : tensor<?x4x8xbf16>
}

// The destination is overwritten, so that nothing is copied to its place first.
// MEMREF-LABEL: func @twice
// MEMREF-SAME: (%[[A:.*]]: memref<8x8xbf16, {{.*}}>, %[[C:.*]]: memref<8x8xbf16, {{.*}}>)
// MEMREF-NEXT: %[[T:.*]] = memref.alloc
// MEMREF-NEXT: attn.matmul ins(%[[A]], %[[A]] : {{.*}}) outs(%[[T]] : {{.*}})
// MEMREF-NEXT: attn.matmul ins(%[[T]], %[[A]] : {{.*}}) outs(%[[C]] : {{.*}})
func.func @twice(%a: tensor<8x8xbf16>, %c: tensor<8x8xbf16>) -> tensor<8x8xbf16> {
  %e = tensor.empty() : tensor<8x8xbf16>
  %t = attn.matmul ins(%a, %a : tensor<8x8xbf16>, tensor<8x8xbf16>) outs(%e : tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %r = attn.matmul ins(%t, %a : tensor<8x8xbf16>, tensor<8x8xbf16>) outs(%c : tensor<8x8xbf16>) -> tensor<8x8xbf16>
  return %r : tensor<8x8xbf16>
}

// CHECK-LABEL: func @precision
// CHECK: attn.matmul ins({{.*}}) outs({{.*}}) transpose_rhs precision(high) -> tensor<4x8xf32>
// MEMREF-LABEL: func @precision
// MEMREF: attn.matmul {{.*}} precision(high)
func.func @precision(%a: tensor<4x?xf32>, %b: tensor<8x?xf32>, %c: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %r = attn.matmul ins(%a, %b : tensor<4x?xf32>, tensor<8x?xf32>) outs(%c : tensor<4x8xf32>)
      transpose_rhs precision(high) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// CHECK-LABEL: func @of_8_bits
// CHECK: attn.matmul ins(%{{.*}}, %{{.*}} : tensor<?x64xf8E4M3FN>, tensor<32x64xf8E5M2>) outs(%{{.*}} : tensor<?x32xf16>) transpose_rhs -> tensor<?x32xf16>
func.func @of_8_bits(%a: tensor<?x64xf8E4M3FN>, %b: tensor<32x64xf8E5M2>, %c: tensor<?x32xf16>) -> tensor<?x32xf16> {
  %r = attn.matmul ins(%a, %b : tensor<?x64xf8E4M3FN>, tensor<32x64xf8E5M2>) outs(%c : tensor<?x32xf16>) transpose_rhs
      -> tensor<?x32xf16>
  return %r : tensor<?x32xf16>
}
