// RUN: attn-opt %s -attn-tile-split-roles=consumers=1 | FileCheck %s

// Idle warps convert tiles of 8 bits, but for conversions that warps of the consumer run. Whether a warp has rows is known
// in the consumer alone.

// CHECK-LABEL: attn_tile.kernel @convert(
// CHECK:         attn_tile.auxiliary_warps registers(72) {
// CHECK-NEXT:      scf.for %[[T:.*]] = %{{.*}} to %{{.*}} step
// CHECK-NEXT:        %[[K:.*]] = attn_tile.wait %[[KP:.*]][%[[T]]]
// CHECK-NEXT:        attn_tile.convert %[[K]] to %[[K16:.*]][%[[T]]]
// CHECK-NEXT:        attn_tile.release %[[K]]
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK:         attn_tile.role producer warpgroups(1) registers(72)
// CHECK-NOT:       attn_tile.convert
// CHECK:         attn_tile.role consumer
// CHECK-NEXT:      %[[ROWS:.*]] = attn_tile.has_rows
// CHECK-NEXT:      scf.for %[[I:.*]] = %{{.*}} to
// CHECK-NEXT:        %[[KC:.*]] = attn_tile.wait %[[K16]][%[[I]]]
// CHECK-NEXT:        scf.if %[[ROWS]] {
// CHECK-NEXT:          %[[V:.*]] = attn_tile.wait
// CHECK-NEXT:          attn_tile.convert %[[V]] to %[[V16:.*]][%[[I]]] from warp 1
// CHECK-NEXT:          attn_tile.release %[[V]]
// CHECK-NEXT:        }
// CHECK:             %[[VC:.*]] = attn_tile.wait %[[V16]]
// CHECK:             attn_tile.mma_start %[[KC]], %[[VC]]
attn_tile.kernel @convert(%key: memref<?x64xf8E4M3FN>, %value: memref<?x64xf8E4M3FN>, %n: index) {
  %kp = attn_tile.create_pipe : !attn_tile.pipe<64x64xf8E4M3FN, stages = 2>
  %vp = attn_tile.create_pipe : !attn_tile.pipe<64x64xf8E4M3FN, stages = 2>
  %k16 = attn_tile.create_pipe : !attn_tile.pipe<64x64xf16, stages = 1>
  %v16 = attn_tile.create_pipe : !attn_tile.pipe<64x64xf16, stages = 1>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = attn_tile.has_rows below(%c1)
  scf.for %t = %c0 to %n step %c1 {
    %a = attn_tile.acquire %kp[%t] : !attn_tile.pipe<64x64xf8E4M3FN, stages = 2>
    attn_tile.copy %key[%t, %c0] to %a : memref<?x64xf8E4M3FN> to !attn_tile.buffer<64x64xf8E4M3FN>
    attn_tile.commit %a : !attn_tile.buffer<64x64xf8E4M3FN>
    %k = attn_tile.wait %kp[%t] : !attn_tile.pipe<64x64xf8E4M3FN, stages = 2>
    attn_tile.convert %k to %k16[%t] : !attn_tile.buffer<64x64xf8E4M3FN>, !attn_tile.pipe<64x64xf16, stages = 1>
    attn_tile.release %k : !attn_tile.buffer<64x64xf8E4M3FN>
    %kc = attn_tile.wait %k16[%t] : !attn_tile.pipe<64x64xf16, stages = 1>
    %b = attn_tile.acquire %vp[%t] : !attn_tile.pipe<64x64xf8E4M3FN, stages = 2>
    attn_tile.copy %value[%t, %c0] to %b : memref<?x64xf8E4M3FN> to !attn_tile.buffer<64x64xf8E4M3FN>
    attn_tile.commit %b : !attn_tile.buffer<64x64xf8E4M3FN>
    scf.if %rows {
      %v = attn_tile.wait %vp[%t] : !attn_tile.pipe<64x64xf8E4M3FN, stages = 2>
      attn_tile.convert %v to %v16[%t] from warp 1
          : !attn_tile.buffer<64x64xf8E4M3FN>, !attn_tile.pipe<64x64xf16, stages = 1>
      attn_tile.release %v : !attn_tile.buffer<64x64xf8E4M3FN>
    }
    %vc = attn_tile.wait %v16[%t] : !attn_tile.pipe<64x64xf16, stages = 1>
    %p = attn_tile.mma_start %kc, %vc transpose_rhs : !attn_tile.buffer<64x64xf16>, !attn_tile.buffer<64x64xf16>
        -> !attn_tile.pending<vector<64x64xf32>>
    %s = attn_tile.mma_wait %p : !attn_tile.pending<vector<64x64xf32>>
    attn_tile.release %kc : !attn_tile.buffer<64x64xf16>
    attn_tile.release %vc : !attn_tile.buffer<64x64xf16>
  }
  attn_tile.return
}
