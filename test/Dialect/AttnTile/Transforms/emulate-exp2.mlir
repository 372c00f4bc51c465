// RUN: attn-opt %s -pass-pipeline='builtin.module(attn_tile.kernel(attn-tile-emulate-exp2{sixteenths=6}))' | FileCheck %s

// The exponentials of scores are mixed, those of rows and of other types stay.
// CHECK-LABEL: attn_tile.kernel @exponentials(
// CHECK-SAME:    %[[S:.*]]: vector<64x128xf32>, %[[M:.*]]: vector<64xf32>, %[[H:.*]]: vector<64x128xf16>,
attn_tile.kernel @exponentials(%s: vector<64x128xf32>, %m: vector<64xf32>, %h: vector<64x128xf16>,
                               %out: memref<64x128xf32>, %rows: memref<64xf32>, %half: memref<64x128xf16>) {
  %c0 = arith.constant 0 : index
  // CHECK: attn_tile.emulate_exp2 %[[S]] polynomials 6 : vector<64x128xf32>
  %p = math.exp2 %s : vector<64x128xf32>
  // CHECK: math.exp2 %[[M]] : vector<64xf32>
  %alpha = math.exp2 %m : vector<64xf32>
  // CHECK: math.exp2 %[[H]] : vector<64x128xf16>
  %q = math.exp2 %h : vector<64x128xf16>
  attn_tile.store %p, %out[%c0, %c0] : vector<64x128xf32>, memref<64x128xf32>
  attn_tile.store %alpha, %rows[%c0] : vector<64xf32>, memref<64xf32>
  attn_tile.store %q, %half[%c0, %c0] : vector<64x128xf16>, memref<64x128xf16>
  attn_tile.return
}
