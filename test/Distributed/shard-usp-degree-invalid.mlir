// RUN: not attn-opt %s --attn-shard-attention="method=usp ranks=8 ulysses-degree=3" 2>&1 | FileCheck %s --check-prefix=DIVIDE
// RUN: not attn-opt %s --attn-shard-attention="method=usp ranks=8 ulysses-degree=-2" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not attn-opt %s --attn-shard-attention="method=ring ranks=8 ulysses-degree=2" 2>&1 | FileCheck %s --check-prefix=METHOD
// RUN: not attn-opt %s --attn-shard-attention="method=auto ranks=8 ulysses-degree=2" 2>&1 | FileCheck %s --check-prefix=AUTO
// RUN: not attn-opt %s --attn-shard-attention="method=usp ranks=8 target=sm_1" 2>&1 | FileCheck %s --check-prefix=TARGET
// DIVIDE: error: 'ulysses-degree' must divide 'ranks', 8 (was 3)
// NEGATIVE: error: 'ulysses-degree' must divide 'ranks', 8 (was -2)
// METHOD: error: 'ulysses-degree' is for the method 'usp' (was 'ring')
// AUTO: error: 'ulysses-degree' is for the method 'usp' (was 'auto')
// TARGET: error: unknown target 'sm_1'

!t = tensor<1x8x64x16xf32>
func.func @attention(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0 : !t
}
