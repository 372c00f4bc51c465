// RUN: attn-compile %s --target=sm_90a --emit=ptx -o - | FileCheck %s

// On sm_90a a producer copies tiles, and a warpgroup multiplies. The state of 128 rows goes through shared memory to the
// MMA with the queries; keys are read transposed for the one that adds to it.

// CHECK: .entry linear_linear_attention(
// CHECK-NOT: mma.sync
// CHECK: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// CHECK: stmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK: fence.proxy.async.shared::cta
// CHECK: bar.sync
// CHECK: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// CHECK: cp.async.bulk.tensor.4d
// CHECK-NOT: mma.sync
func.func @linear(%q: tensor<?x16x?x128xbf16>, %k: tensor<?x16x?x128xbf16>, %v: tensor<?x16x?x128xbf16>,
                  %o: tensor<?x16x?x128xbf16>) -> tensor<?x16x?x128xbf16> {
  %r = attn.linear_attention ins(%q, %k, %v : tensor<?x16x?x128xbf16>, tensor<?x16x?x128xbf16>, tensor<?x16x?x128xbf16>)
      outs(%o : tensor<?x16x?x128xbf16>) causal
      schedule(#attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2>)
      -> tensor<?x16x?x128xbf16>
  return %r : tensor<?x16x?x128xbf16>
}
