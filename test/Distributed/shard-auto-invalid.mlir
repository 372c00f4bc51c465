// RUN: not attn-opt %s --attn-shard-attention="method=auto ranks=2 target=sm_1" 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not attn-opt %s --attn-shard-attention="method=auto ranks=2" 2>&1 | FileCheck %s --check-prefix=CLAUSE
// TARGET: error: unknown target 'sm_1'
// CLAUSE: error: 'attn.attention' op cannot be distributed over ranks with 'positions'

!t = tensor<1x2x64x16xbf16>

func.func @shard(%q: !t, %k: !t, %v: !t, %e: !t, %p: tensor<6xi32>) -> !t {
  %o = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) positions(%p : tensor<6xi32>) -> !t
  return %o : !t
}
