// RUN: attn-opt %s | attn-opt | FileCheck %s
// RUN: attn-opt %s --attn-bufferize | FileCheck %s --check-prefix=BUFFER

// CHECK-LABEL: func @plan
// CHECK:         attn.create_block_mask sizes(%{{.*}}, %{{.*}}, %{{.*}}) outs(%{{.*}} : tensor<?x1x?x?xi32>) mask(#attn.causal)
// CHECK-SAME:      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 32>) mask_mod {
// CHECK-NEXT:    ^bb0(%b: index, %h: index, %i: index, %j: index):
// CHECK:         } -> tensor<?x1x?x?xi32>
// CHECK:         attn.attention
// CHECK-SAME:      block_mask(%{{.*}} : tensor<?x1x?x?xi32>)
// BUFFER-LABEL: func @plan
// BUFFER:         attn.create_block_mask sizes({{.*}}) outs(%[[PLAN:.*]] : memref<?x1x?x?xi32, strided<[?, ?, ?, 1], offset: ?>>) mask(#attn.causal)
// BUFFER:           memref.load
// BUFFER:         attn.attention
// BUFFER-SAME:      block_mask(%[[PLAN]] : memref<?x1x?x?xi32, strided<[?, ?, ?, 1], offset: ?>>)
func.func @plan(%q: tensor<?x2x?x16xf32>, %out: tensor<?x2x?x16xf32> {bufferization.writable = true},
                %ids: tensor<?x?xi32>, %init: tensor<?x1x?x?xi32> {bufferization.writable = true},
                %batch: index, %queries: index) -> tensor<?x2x?x16xf32> {
  %block_mask = attn.create_block_mask sizes(%batch, %queries, %queries) outs(%init : tensor<?x1x?x?xi32>) mask(#attn.causal)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 32>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %ids[%b, %i] : tensor<?x?xi32>
        %y = tensor.extract %ids[%b, %j] : tensor<?x?xi32>
        %same = arith.cmpi eq, %x, %y : i32
        attn.yield %same : i1
      } -> tensor<?x1x?x?xi32>
  %0 = attn.attention ins(%q, %q, %q : tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>, tensor<?x2x?x16xf32>)
      outs(%out : tensor<?x2x?x16xf32>) mask(#attn.causal) block_mask(%block_mask : tensor<?x1x?x?xi32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 32>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %ids[%b, %i] : tensor<?x?xi32>
        %y = tensor.extract %ids[%b, %j] : tensor<?x?xi32>
        %same = arith.cmpi eq, %x, %y : i32
        attn.yield %same : i1
      } -> tensor<?x2x?x16xf32>
  return %0 : tensor<?x2x?x16xf32>
}
