// RUN: attn-compile %s --target=sm_80 --emit=ptx -o - | FileCheck %s

// On sm_80 all warps copy and multiply, with barriers around the state.

// CHECK: .entry linear_linear_attention(
// CHECK-NOT: wgmma
// CHECK: cp.async.cg.shared.global
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK: st.shared.b32
// CHECK: bar.sync
// CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK: st.global.v4.b32
// CHECK-NOT: wgmma
func.func @linear(%q: tensor<?x16x?x128xbf16>, %k: tensor<?x16x?x128xbf16>, %v: tensor<?x16x?x128xbf16>,
                  %o: tensor<?x16x?x128xbf16>) -> tensor<?x16x?x128xbf16> {
  %r = attn.linear_attention ins(%q, %k, %v : tensor<?x16x?x128xbf16>, tensor<?x16x?x128xbf16>, tensor<?x16x?x128xbf16>)
      outs(%o : tensor<?x16x?x128xbf16>) causal
      schedule(#attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>)
      -> tensor<?x16x?x128xbf16>
  return %r : tensor<?x16x?x128xbf16>
}
