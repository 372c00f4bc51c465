// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=usp ranks=12" --remarks-filter="attn-shard-.*" \
// RUN:   --remark-format=emitRemark --verify-diagnostics | FileCheck %s

!t = tensor<1x24x384x16xf32>

// Groups are within hosts of 8 ranks: 12 ranks have groups of 4.
// CHECK-LABEL: func @hosts(
// CHECK-SAME: tensor<1x24x32x16xf32>
// CHECK: attn.comm.send_recv {{.*}} -> tensor<1x6x32x16xf32>
// expected-remark @below {{chose degree 4 of usp for 12 ranks}}
func.func @hosts(%q: !t, %k: !t, %v: !t) -> !t {
  %e = tensor.empty() : !t
  // expected-remark @below {{ring of 3 groups of 4 ranks: 3 of 3 steps; of 36 pairs of chunks, groups attend to 21, one of them to 7, and send their keys 6 times}}
  %o = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) mask(#attn.causal) -> !t
  return %o : !t
}

// -----

!t = tensor<1x6x384x16xf32>

// All attentions of a module have the same groups, and so ranks the same positions.
// CHECK-LABEL: func @six(
// CHECK: attn.comm.send_recv {{.*}} -> tensor<1x3x32x16xf32>
// CHECK-LABEL: func @eight(
// CHECK: attn.comm.send_recv {{.*}} -> tensor<1x4x32x16xf32>
// expected-remark @below {{chose degree 2 of usp for 12 ranks}}
func.func @six(%q: !t, %k: !t, %v: !t, %e: !t) -> !t {
  // expected-remark @below {{ring of 6 groups of 2 ranks: 6 of 6 steps}}
  %o = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) -> !t
  return %o : !t
}
!u = tensor<1x8x384x16xf32>
func.func @eight(%q: !u, %k: !u, %v: !u, %e: !u) -> !u {
  // expected-remark @below {{ring of 6 groups of 2 ranks: 6 of 6 steps}}
  %o = attn.attention ins(%q, %k, %v : !u, !u, !u) outs(%e : !u) -> !u
  return %o : !u
}

// -----

#device = #attn.device<"h200", host_devices = 0>

// On one host, all ranks are a group: this is ulysses, for which lengths need be no multiple of more than the ranks.
module attributes {attn.device = #device} {
  // CHECK-LABEL: func @one_group(
  // CHECK: attn.comm.all_to_all {{.*}} -> tensor<12x1x2x5x16xf32>
  // CHECK-NOT: attn.comm.send_recv
  // expected-remark @below {{chose degree 12 of usp for 12 ranks}}
  func.func @one_group(%q: tensor<1x24x60x16xf32>, %k: tensor<1x24x60x16xf32>, %v: tensor<1x24x60x16xf32>,
                       %e: tensor<1x24x60x16xf32>) -> tensor<1x24x60x16xf32> {
    %o = attn.attention
        ins(%q, %k, %v : tensor<1x24x60x16xf32>, tensor<1x24x60x16xf32>, tensor<1x24x60x16xf32>)
        outs(%e : tensor<1x24x60x16xf32>) mask(#attn.causal) -> tensor<1x24x60x16xf32>
    return %o : tensor<1x24x60x16xf32>
  }
}

// -----

!t = tensor<1x5x384x16xf32>

// No group can divide these heads: this is zigzag.
// CHECK-LABEL: func @no_groups(
// CHECK: tensor.extract_slice %{{.*}}[0, 0, 0, 0] [1, 5, 16, 16]
// CHECK: attn.comm.send_recv {{.*}} -> tensor<1x5x32x16xf32>
// expected-remark @below {{chose degree 1 of usp for 12 ranks}}
func.func @no_groups(%q: !t, %k: !t, %v: !t, %e: !t) -> !t {
  // expected-remark @below {{ring of 12 ranks: 12 of 12 steps}}
  %o = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) mask(#attn.causal) -> !t
  return %o : !t
}

// -----

// CHECK-LABEL: func @none(
func.func @none(%q: tensor<4xf32>) -> tensor<4xf32> {
  return %q : tensor<4xf32>
}
