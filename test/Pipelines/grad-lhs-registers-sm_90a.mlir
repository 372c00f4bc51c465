// RUN: attn-compile %s -o - --emit=mlir --stop-after=kernel --target=sm_90a | FileCheck %s

// With head dim 64, the values of a work item stay in the registers of the consumers:
// they are read once, behind the first MMA, after what lies behind the end of
// the sequence has been cleared, and leave their stage to the values of the next work item
// when an MMA has taken them. The keys stay in shared memory, for one MMA
// has them transposed.

// CHECK-LABEL: attn_tile.kernel @held_grad_dkdv_kernel(
// CHECK:         attn_tile.role consumer
// CHECK:           %[[K:.*]] = attn_tile.wait %{{.*}} : <128x64xbf16, stages = 1>
// CHECK-NEXT:      attn_tile.clear %[[K]] within(
// CHECK:           attn_tile.mma_start %[[K]], %{{.*}} transpose_rhs
// CHECK:           %[[V:.*]] = attn_tile.wait %[[VS:.*]] : <128x64xbf16, stages = 1>
// CHECK-NEXT:      attn_tile.clear %[[V]] within(
// CHECK-NEXT:      %[[TILE:.*]] = attn_tile.read %[[V]] : <128x64xbf16> -> vector<128x64xbf16>
// CHECK-NEXT:      attn_tile.mma_start %[[TILE]], %{{.*}} transpose_rhs
// CHECK-NEXT:      attn_tile.release %[[V]]
// CHECK:           scf.for
// CHECK:             attn_tile.mma_start %[[TILE]], %{{.*}} transpose_rhs
// CHECK:             attn_tile.mma_start %{{.*}}, %[[K]] transpose_lhs
// CHECK:             attn_tile.mma_start %[[TILE]], %{{.*}} transpose_rhs
// CHECK:             math.exp2
// CHECK-NEXT:        attn_tile.wait %{{.*}} : <1x64xf32, stages = 4>
// CHECK-NEXT:        attn_tile.mma_wait
// CHECK:             scf.yield
// CHECK:             %[[UNREAD:.*]] = attn_tile.wait %[[VS]] : <128x64xbf16, stages = 1>
// CHECK-NEXT:        attn_tile.release %[[UNREAD]]
// CHECK:           attn_tile.release %[[K]]
// CHECK-NOT:       attn_tile.read {{.*}} vector<128x64xbf16>
// CHECK:           attn_tile.return

func.func @held(%q: tensor<1x4x?x64xbf16>, %k: tensor<1x2x?x64xbf16>, %v: tensor<1x2x?x64xbf16>,
                %lse: tensor<1x4x?xf32>, %cu: tensor<?xi32>)
    -> (tensor<1x4x?x64xbf16>, tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>) {
  %r:3 = attn.attention_grad ins(%q, %k, %v, %q, %lse, %q : tensor<1x4x?x64xbf16>, tensor<1x2x?x64xbf16>,
          tensor<1x2x?x64xbf16>, tensor<1x4x?x64xbf16>, tensor<1x4x?xf32>, tensor<1x4x?x64xbf16>)
      outs(%q, %k, %v : tensor<1x4x?x64xbf16>, tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>)
      sequences packed(%cu, %cu : tensor<?xi32>, tensor<?xi32>)
      -> tensor<1x4x?x64xbf16>, tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>
  return %r#0, %r#1, %r#2 : tensor<1x4x?x64xbf16>, tensor<1x2x?x64xbf16>, tensor<1x2x?x64xbf16>
}
