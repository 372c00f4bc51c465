// RUN: not attn-opt %s --attn-shard-attention="method=ring ranks=4" 2>&1 | FileCheck %s --check-prefix=RING
// RUN: not attn-opt %s --attn-shard-attention="method=zigzag ranks=4" 2>&1 | FileCheck %s --check-prefix=ZIGZAG
// RUN: not attn-opt %s --attn-shard-attention="method=lightseq ranks=4" 2>&1 | FileCheck %s --check-prefix=LIGHTSEQ
// RUN: not attn-opt %s --attn-shard-attention="method=ulysses ranks=2" 2>&1 | FileCheck %s --check-prefix=ULYSSES
// RUN: not attn-opt %s --attn-shard-attention="method=distattention ranks=4" 2>&1 | FileCheck %s --check-prefix=DISTATTENTION
// RING: error: 'attn.linear_attention' op cannot be distributed over ranks by 'ring', but by 'allgather' or 'auto'
// ZIGZAG: error: 'attn.linear_attention' op cannot be distributed over ranks by 'zigzag', but by 'allgather' or 'auto'
// LIGHTSEQ: error: 'attn.linear_attention' op cannot be distributed over ranks by 'lightseq', but by 'allgather' or 'auto'
// ULYSSES: error: 'attn.linear_attention' op cannot be distributed over ranks by 'ulysses', but by 'allgather' or 'auto'
// DISTATTENTION: error: 'attn.linear_attention' op cannot be distributed over ranks by 'distattention', but by 'allgather' or 'auto'

!t = tensor<1x2x64x16xf32>
func.func @method(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  %0 = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) causal -> !t
  return %0 : !t
}
