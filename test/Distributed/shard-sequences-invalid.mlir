// RUN: not attn-opt %s --attn-shard-attention="method=lightseq ranks=4" 2>&1 | FileCheck %s --check-prefix=LIGHTSEQ
// RUN: not attn-opt %s --attn-shard-attention="method=zigzag ranks=1" 2>&1 | FileCheck %s --check-prefix=ZIGZAG
// RUN: attn-opt %s --attn-shard-attention="method=ulysses ranks=2" | FileCheck %s

// LIGHTSEQ-NOT: error
// CHECK-LABEL: func @packed(
// CHECK: attn.comm.all_to_all
!t = tensor<1x2x64x16xf32>
func.func @packed(%q: !t, %k: !t, %v: !t, %out: !t, %cu: tensor<3xi32>) -> !t {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      sequences packed(%cu, %cu : tensor<3xi32>, tensor<3xi32>) -> !t
  return %0 : !t
}

// ZIGZAG: error: 'attn.attention' op with 'sequences padded' can be distributed over ranks only by 'ulysses'
// LIGHTSEQ: error: 'attn.attention' op with 'sequences padded' can be distributed over ranks only by 'ulysses'
func.func @padded(%q: !t, %k: !t, %v: !t, %out: !t, %n: tensor<1xi32>) -> !t {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      sequences padded(%n, %n : tensor<1xi32>, tensor<1xi32>) mask(#attn.sliding_window<left = 8, right = 0>) -> !t
  return %0 : !t
}
