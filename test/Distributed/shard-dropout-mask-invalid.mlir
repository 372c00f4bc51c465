// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=zigzag ranks=2" --verify-diagnostics
// RUN: not attn-opt %s --split-input-file --attn-shard-attention="method=striped ranks=2" 2>&1 | FileCheck %s
// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=ulysses ranks=2" -o /dev/null

!t = tensor<1x2x128x16xf32>
!w = tensor<1x2x64x8xi32>
// CHECK: error: 'attn.attention' op with 'dropout_mask' cannot be distributed over ranks by 'striped', but by 'ring', 'zigzag',
// CHECK-SAME: 'allgather', 'lightseq', 'ulysses' or 'usp': a word of a keep mask is of neighboring keys, and a rank has none
func.func @blocks(%q: !t, %k: !t, %v: !t, %out: !t, %mask: !w) -> !t {
  // expected-error @below {{'attn.attention' op with 'dropout_mask', dimension 2 of 'query' must be a multiple of 256, 64 for each of 4 chunks (was 128)}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) dropout_mask rows(%mask : !w) p(0.25) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x?x16xf32>
!w = tensor<1x2x?x?xi32>
func.func @dynamic(%q: !t, %k: !t, %v: !t, %out: !t, %mask: !w) -> !t {
  // expected-error @below {{'attn.attention' op with 'dropout_mask', dimension 2 of 'query' must be static (was dynamic)}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) dropout_mask rows(%mask : !w) p(0.25) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x128x16xf32>
!w = tensor<?x2x64x8xi32>
func.func @sequences(%q: !t, %k: !t, %v: !t, %out: !t, %mask: !w, %cu: tensor<?xi32>) -> !t {
  // expected-error @below {{'attn.attention' op with 'sequences packed' and 'dropout_mask' can be distributed over ranks only by 'ulysses': the rows of a rank begin anywhere in a sequence, and words of keep masks at multiples of 16 positions in it}}
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t)
      sequences packed(%cu, %cu : tensor<?xi32>, tensor<?xi32>) dropout_mask rows(%mask : !w) p(0.25) -> !t
  return %0 : !t
}
