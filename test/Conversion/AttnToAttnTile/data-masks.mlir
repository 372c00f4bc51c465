// RUN: attn-opt %s --attn-expand-masks --convert-attn-to-attn-tile | FileCheck %s

// The loop over the key tiles of a mask that reads operands goes over a list, of the tiles that the named mask with it
// leaves, too. Lists are those of each head where the mask is.

// CHECK-LABEL: attn_tile.kernel @documents_kernel(
// CHECK:         attn_tile.kv_tile_iterator {{.*}} by(#attn.causal) listed(%{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] : memref<?x1x?x?xi32>) mask_mod {
// CHECK-LABEL: func @documents(
// CHECK:         attn_tile.launch @documents_classes
// CHECK:         attn_tile.launch @documents_lists
// CHECK:         attn_tile.launch @documents_order
// CHECK:         attn_tile.launch @documents_kernel
func.func @documents(%q: memref<1x8x?x64xf32>, %x0: memref<1x?xi32>) {
  attn.attention ins(%q, %q, %q : memref<1x8x?x64xf32>, memref<1x8x?x64xf32>, memref<1x8x?x64xf32>)
      outs(%q : memref<1x8x?x64xf32>) mask(#attn.and<#attn.causal, #attn.documents<queries = 0, keys = 0>>)
      reads(%x0 : memref<1x?xi32>)
      schedule(#attn_tile.sequential<query_tile = 64, key_tile = 64>)
  return
}

// CHECK-LABEL: attn_tile.kernel @packed_documents_kernel(
// CHECK:         attn_tile.kv_tile_iterator {{.*}} by(#attn.causal) listed(%{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] : memref<?x1x?x?xi32>) mask_mod {
// CHECK-LABEL: func @packed_documents(
// CHECK:         attn_tile.launch @packed_documents_sequence_ids
// CHECK:         attn_tile.launch @packed_documents_sequence_ids_0
// CHECK:         attn_tile.launch @packed_documents_classes
// CHECK:         attn_tile.launch @packed_documents_lists
// CHECK:         attn_tile.launch @packed_documents_order
// CHECK:         attn_tile.launch @packed_documents_kernel
func.func @packed_documents(%q: memref<1x8x?x64xf32>, %x0: memref<1x?xi32>) {
  attn.attention ins(%q, %q, %q : memref<1x8x?x64xf32>, memref<1x8x?x64xf32>, memref<1x8x?x64xf32>)
      outs(%q : memref<1x8x?x64xf32>) mask(#attn.and<#attn.causal, #attn.packed_documents<queries = 0, keys = 0>>)
      reads(%x0 : memref<1x?xi32>)
      schedule(#attn_tile.sequential<query_tile = 64, key_tile = 64>)
  return
}

// CHECK-LABEL: attn_tile.kernel @tree_kernel(
// CHECK:         attn_tile.kv_tile_iterator {{.*}} by(#attn.causal) listed(%{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] : memref<?x1x?x?xi32>) mask_mod {
// CHECK-LABEL: func @tree(
// CHECK:         attn_tile.launch @tree_ancestor_map
// CHECK:         attn_tile.launch @tree_classes
// CHECK:         attn_tile.launch @tree_lists
// CHECK:         attn_tile.launch @tree_order
// CHECK:         attn_tile.launch @tree_kernel
func.func @tree(%q: memref<1x8x?x64xf32>, %x0: memref<1x?xi32>) {
  attn.attention ins(%q, %q, %q : memref<1x8x?x64xf32>, memref<1x8x?x64xf32>, memref<1x8x?x64xf32>)
      outs(%q : memref<1x8x?x64xf32>) mask(#attn.and<#attn.causal, #attn.tree<parents = 0>>)
      reads(%x0 : memref<1x?xi32>)
      schedule(#attn_tile.sequential<query_tile = 64, key_tile = 64>)
  return
}

// CHECK-LABEL: attn_tile.kernel @blocks_kernel(
// CHECK:         attn_tile.kv_tile_iterator {{.*}} by(#attn.causal) listed(%{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] : memref<?x8x?x?xi32>) mask_mod {
// CHECK-LABEL: func @blocks(
// CHECK:         attn_tile.launch @blocks_block_sparse_map
// CHECK:         attn_tile.launch @blocks_classes
// CHECK:         attn_tile.launch @blocks_lists
// CHECK:         attn_tile.launch @blocks_order
// CHECK:         attn_tile.launch @blocks_kernel
func.func @blocks(%q: memref<1x8x?x64xf32>, %x0: memref<1x8x?xi32>, %x1: memref<1x8x?xi32>) {
  attn.attention ins(%q, %q, %q : memref<1x8x?x64xf32>, memref<1x8x?x64xf32>, memref<1x8x?x64xf32>)
      outs(%q : memref<1x8x?x64xf32>) mask(#attn.and<#attn.causal, #attn.block_sparse<rows = 64, columns = 32, offsets = 0, indices = 1>>)
      reads(%x0, %x1 : memref<1x8x?xi32>, memref<1x8x?xi32>)
      schedule(#attn_tile.sequential<query_tile = 64, key_tile = 64>)
  return
}

// Rows of packed heads are queries of several heads: lists are for tiles of these rows, one for all groups where the mask
// does not depend on the head.

// CHECK-LABEL: attn_tile.kernel @draft_classes(
// CHECK-SAME:    %[[CLASSES:[a-z0-9]*]]: memref<?x1x?x?xi32>, %[[ROWS:[a-z0-9]*]]: index
// CHECK:         %[[QUERY:.*]] = arith.divui %{{.*}}, %c4
// CHECK-LABEL: attn_tile.kernel @draft_kernel(
// CHECK:         attn_tile.pack_gqa %{{.*}} to memref<1x2x32x64xbf16
// CHECK:         attn_tile.kv_tile_iterator {{.*}} listed(%{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] : memref<?x1x?x?xi32>) split({{.*}}) mask_mod {
// CHECK-LABEL: func @draft(
// CHECK:         %[[ALL:.*]] = arith.muli %c8{{[_0-9]*}}, %c4{{[_0-9]*}} : index
// CHECK:         attn_tile.launch @draft_classes args(%{{.*}}, %[[ALL]], %{{.*}}
func.func @draft(%q: memref<1x8x8x64xbf16>, %k: memref<1x2x?x64xbf16>, %x0: memref<1x8xi32>) {
  attn.attention ins(%q, %k, %k : memref<1x8x8x64xbf16>, memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>)
      outs(%q : memref<1x8x8x64xbf16>) mask(#attn.tree<parents = 0>) reads(%x0 : memref<1x8xi32>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1,
          traversal = grid, split_kv_work_items = 132, pack_gqa = true>)
  return
}

// In a KV cache the device reads the lengths: there are no lists, and the mask is evaluated in the kernel, for the tiles
// that the nodes are in.

// CHECK-LABEL: attn_tile.kernel @cached_draft_kernel(
// CHECK:         attn_tile.kv_tile_iterator
// CHECK-NOT:     listed
// CHECK-SAME:    mask_mod {
// CHECK:         memref.load %{{.*}} : memref<?xi32>
// CHECK:         memref.load %{{.*}} : memref<?x?x?xi32>
// CHECK-LABEL: func @cached_draft(
// CHECK:         attn_tile.launch @cached_draft_ancestor_map
// CHECK-NOT:     attn_tile.launch @cached_draft_classes
// CHECK:         attn_tile.launch @cached_draft_kernel
func.func @cached_draft(%q: memref<?x8x8x64xbf16>, %k: memref<?x2x16x64xbf16>, %n: memref<?xi32>, %t: memref<?x?xi32>, %x0: memref<?x8xi32>) {
  attn.attention ins(%q, %k, %k : memref<?x8x8x64xbf16>, memref<?x2x16x64xbf16>, memref<?x2x16x64xbf16>)
      outs(%q : memref<?x8x8x64xbf16>) key_lengths(%n : memref<?xi32>) page_table(%t : memref<?x?xi32>)
      mask(#attn.tree<parents = 0>) reads(%x0 : memref<?x8xi32>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1,
          traversal = grid, split_kv_work_items = 132, pack_gqa = true>)
  return
}
