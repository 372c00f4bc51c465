// RUN: attn-opt %s --canonicalize --attn-simplify-masks | FileCheck %s

#dropout = #attn.dropout<p = 0.0, rng = #attn.philox>

// The last query of a whole attention attends to all keys, the only query of a shard need not.

// CHECK-LABEL: func @one_query
// CHECK: attn.attention {{.*}} positions(%{{.*}} : tensor<6xi32>) mask(#attn.causal)
func.func @one_query(%q: tensor<1x4x1x64xf16>, %k: tensor<1x4x64x64xf16>, %o: tensor<1x4x1x64xf16>,
                     %p: tensor<6xi32>) -> tensor<1x4x1x64xf16> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x4x1x64xf16>, tensor<1x4x64x64xf16>, tensor<1x4x64x64xf16>)
      outs(%o : tensor<1x4x1x64xf16>) positions(%p : tensor<6xi32>) mask(#attn.causal) -> tensor<1x4x1x64xf16>
  return %0 : tensor<1x4x1x64xf16>
}

// The sizes of the operands are not the lengths that a named mask would see.

// CHECK-LABEL: func @sizes_of_operands
// CHECK: attn.attention
// CHECK-NOT: mask(
// CHECK: mask_mod {
func.func @sizes_of_operands(%q: tensor<1x4x?x64xf16>, %k: tensor<1x4x?x64xf16>, %o: tensor<1x4x?x64xf16>,
                             %p: tensor<6xi32>) -> tensor<1x4x?x64xf16> {
  %c2 = arith.constant 2 : index
  %queries = tensor.dim %q, %c2 : tensor<1x4x?x64xf16>
  %keys = tensor.dim %k, %c2 : tensor<1x4x?x64xf16>
  %0 = attn.attention ins(%q, %k, %k : tensor<1x4x?x64xf16>, tensor<1x4x?x64xf16>, tensor<1x4x?x64xf16>)
      outs(%o : tensor<1x4x?x64xf16>) positions(%p : tensor<6xi32>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %shift = arith.subi %keys, %queries : index
        %last = arith.addi %i, %shift : index
        %kept = arith.cmpi sle, %j, %last : index
        attn.yield %kept : i1
      } -> tensor<1x4x?x64xf16>
  return %0 : tensor<1x4x?x64xf16>
}

// Positions go with the dropout that they are for.

// CHECK-LABEL: func @empty_dropout
// CHECK: attn.attention
// CHECK-NOT: positions
// CHECK-NOT: dropout
// CHECK: return
func.func @empty_dropout(%q: tensor<1x4x?x64xf16>, %o: tensor<1x4x?x64xf16>, %p: tensor<6xi32>, %seed: i64)
    -> tensor<1x4x?x64xf16> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x?x64xf16>, tensor<1x4x?x64xf16>, tensor<1x4x?x64xf16>)
      outs(%o : tensor<1x4x?x64xf16>) positions(%p : tensor<6xi32>) dropout_only
      dropout(#dropout, %seed, %seed : i64, i64) -> tensor<1x4x?x64xf16>
  return %0 : tensor<1x4x?x64xf16>
}
