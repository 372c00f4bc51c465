// REQUIRES: ptxas
// RUN: attn-compile %s --target=sm_90a -o %t.so --fail-on-spills
// RUN: not attn-compile %s --target=sm_90a -o %t.so --fail-on-spills --ptxas-options=--register-usage-level=5 2>&1 | FileCheck %s

// Kernels whose registers spill are assembled once more with less use of them, unless
// options say how much, and spill none then.

// CHECK: error: registers spill to memory: {{[0-9]+}} bytes
!t = tensor<?x8x?x256xbf16>
func.func @grad(%q: !t, %k: !t, %v: !t, %out: !t, %lse: tensor<?x8x?xf32>, %dout: !t, %dq: !t, %dk: !t, %dv: !t) -> (!t, !t, !t) {
  %r:3 = attn.attention_grad ins(%q, %k, %v, %out, %lse, %dout : !t, !t, !t, !t, tensor<?x8x?xf32>, !t)
      outs(%dq, %dk, %dv : !t, !t, !t)
      schedule(#attn_tile.gradient<
        preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
        dkdv = #attn_tile.key_stationary<query_tile = 48, key_tile = 128, stages = 2, consumers = 2, pipelined = true>,
        dv = #attn_tile.key_stationary<query_tile = 80, key_tile = 128, stages = 2, consumers = 2>>) -> !t, !t, !t
  return %r#0, %r#1, %r#2 : !t, !t, !t
}
