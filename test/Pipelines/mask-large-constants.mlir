// Bounds of tiles that leave 32 bits, in which GPUs compute indices.
// RUN: attn-compile %s -o %t.mlir --stop-after=device --target=sm_80 2>&1 | count 0
// RUN: attn-compile %s -o %t.mlir --stop-after=device --target=sm_90a 2>&1 | count 0
// RUN: attn-compile %s -o %t.tile.mlir --stop-after=kernel --target=sm_80
// RUN: FileCheck %s < %t.tile.mlir

// The bound is computed in 64 bits.
// CHECK-LABEL: attn_tile.kernel @blocks
// CHECK: arith.constant 26843545600 : i64
// CHECK-NOT: arith.constant 26843545600 : index
func.func @blocks(%q: tensor<?x3x?x8xf16>, %k: tensor<?x3x?x8xf16>, %v: tensor<?x3x?x8xf16>, %out: tensor<?x3x?x8xf16>)
    -> tensor<?x3x?x8xf16> {
  %z = attn.attention ins(%q, %k, %v : tensor<?x3x?x8xf16>, tensor<?x3x?x8xf16>, tensor<?x3x?x8xf16>)
    outs(%out : tensor<?x3x?x8xf16>)
    mask(#attn.not<#attn.local_blocks<size = 25, after = 1073741823>>) -> tensor<?x3x?x8xf16>
  return %z : tensor<?x3x?x8xf16>
}

// An integer that is captured may be any: where the bounds would leave their
// type, all tiles are visited.
// CHECK-LABEL: attn_tile.kernel @window
// CHECK: arith.cmpi sle, %{{.*}}, %c268435455_i64 : i64
func.func @window(%q: tensor<?x3x?x8xf16>, %k: tensor<?x3x?x8xf16>, %v: tensor<?x3x?x8xf16>, %w: tensor<3xi64>,
    %out: tensor<?x3x?x8xf16>) -> tensor<?x3x?x8xf16> {
  %z = attn.attention ins(%q, %k, %v : tensor<?x3x?x8xf16>, tensor<?x3x?x8xf16>, tensor<?x3x?x8xf16>)
    outs(%out : tensor<?x3x?x8xf16>) mask_mod {
  ^bb0(%b: index, %h: index, %query: index, %key: index):
    %left = tensor.extract %w[%h] : tensor<3xi64>
    %i = arith.index_cast %query : index to i64
    %j = arith.index_cast %key : index to i64
    %first = arith.subi %i, %left : i64
    %keep = arith.cmpi sge, %j, %first : i64
    attn.yield %keep : i1
  } -> tensor<?x3x?x8xf16>
  return %z : tensor<?x3x?x8xf16>
}

// Large integers would be equal after they are limited: all tiles are visited.
// CHECK-LABEL: attn_tile.kernel @compare
// CHECK-NOT: 1073741823
// CHECK: arith.cmpi slt, %{{.*}}, %c9223372036854775744_i64 : i64
// CHECK-NOT: 1073741823
func.func @compare(%q: tensor<?x3x?x8xf16>, %k: tensor<?x3x?x8xf16>, %v: tensor<?x3x?x8xf16>, %w: tensor<3xi64>,
    %out: tensor<?x3x?x8xf16>) -> tensor<?x3x?x8xf16> {
  %z = attn.attention ins(%q, %k, %v : tensor<?x3x?x8xf16>, tensor<?x3x?x8xf16>, tensor<?x3x?x8xf16>)
    outs(%out : tensor<?x3x?x8xf16>) mask_mod {
  ^bb0(%b: index, %h: index, %query: index, %key: index):
    %bound = arith.constant 9223372036854775744 : i64
    %x = tensor.extract %w[%h] : tensor<3xi64>
    %keep = arith.cmpi slt, %x, %bound : i64
    attn.yield %keep : i1
  } -> tensor<?x3x?x8xf16>
  return %z : tensor<?x3x?x8xf16>
}

// One integer, compared with small ones, keeps its order.
// CHECK-LABEL: attn_tile.kernel @length
// CHECK-NOT: 268435455
// CHECK: arith.minsi %{{.*}}, %c1073741823_i64
// CHECK-NOT: 268435455
func.func @length(%q: tensor<?x3x?x8xf16>, %k: tensor<?x3x?x8xf16>, %v: tensor<?x3x?x8xf16>, %w: tensor<3xi64>,
    %out: tensor<?x3x?x8xf16>) -> tensor<?x3x?x8xf16> {
  %z = attn.attention ins(%q, %k, %v : tensor<?x3x?x8xf16>, tensor<?x3x?x8xf16>, tensor<?x3x?x8xf16>)
    outs(%out : tensor<?x3x?x8xf16>) mask_mod {
  ^bb0(%b: index, %h: index, %query: index, %key: index):
    %x = tensor.extract %w[%h] : tensor<3xi64>
    %j = arith.index_cast %key : index to i64
    %keep = arith.cmpi slt, %j, %x : i64
    attn.yield %keep : i1
  } -> tensor<?x3x?x8xf16>
  return %z : tensor<?x3x?x8xf16>
}
