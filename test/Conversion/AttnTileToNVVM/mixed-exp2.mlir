// RUN: attn-opt %s -convert-attn-tile-to-nvvm | FileCheck %s

// A thread has four elements; every second one is a polynomial: the power of the
// nearest integer, times a polynomial of the rest. The smallest is 2^-127, which
// is 0, so that -inf gives 0.
// CHECK-LABEL: llvm.func @mixed
// CHECK:         llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"
// CHECK:         %[[LEAST:.*]] = arith.constant -1.270000e+02 : f32
// CHECK:         %[[X:.*]] = arith.maximumf %{{.*}}, %[[LEAST]] : f32
// CHECK:         %[[BIAS:.*]] = arith.constant 0x4B400000 : f32
// CHECK:         %[[B:.*]] = arith.addf %[[X]], %[[BIAS]] : f32
// CHECK:         %[[N:.*]] = arith.subf %[[B]], %[[BIAS]] : f32
// CHECK:         %[[F:.*]] = arith.subf %[[X]], %[[N]] : f32
// CHECK-COUNT-3: math.fma %{{.*}}, %[[F]], %{{.*}} : f32
// CHECK:         %[[BITS:.*]] = arith.bitcast %[[B]] : f32 to i32
// CHECK:         %[[E:.*]] = arith.shli %[[BITS]], %{{.*}} : i32
// CHECK:         %[[P:.*]] = arith.addi %[[E]], %{{.*}} : i32
// CHECK:         arith.bitcast %[[P]] : i32 to f32
// CHECK:         arith.mulf
// CHECK:         llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"
// CHECK:         arith.maximumf
// CHECK-NOT:     llvm.call_intrinsic "llvm.nvvm.ex2
attn_tile.kernel @mixed(%in: memref<64x8xf32>, %out: memref<64x8xf32>)
    attributes {layout = #attn_tile.row_blocks<warps = 4>} {
  %c0 = arith.constant 0 : index
  %x = attn_tile.load %in[%c0, %c0] : memref<64x8xf32> -> vector<64x8xf32>
  %r = attn_tile.emulate_exp2 %x polynomials 8 : vector<64x8xf32>
  attn_tile.store %r, %out[%c0, %c0] : vector<64x8xf32>, memref<64x8xf32>
  attn_tile.return
}
