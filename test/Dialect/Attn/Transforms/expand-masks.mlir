// RUN: attn-opt %s --attn-expand-masks --split-input-file | FileCheck %s

// What reads no operand stays named.

// CHECK-LABEL: func @documents
// CHECK-SAME:    %[[IDS:[a-z0-9]+]]: tensor<?x?xi32> {attn.equal_sizes = array<i64: 0, 0, 0, 1, 0, 2>},
// CHECK-SAME:    %[[OTHERS:[a-z0-9]+]]: tensor<1x?xi32> {attn.equal_sizes = array<i64: 1, 0, 2>})
// CHECK:         attn.attention {{.*}} mask(#attn.causal) mask_mod {
// CHECK-NEXT:    ^bb0(%[[B:.*]]: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-NEXT:      %[[X:.*]] = tensor.extract %[[IDS]][%[[B]], %[[I]]]
// CHECK-NEXT:      %[[ZERO:.*]] = arith.constant 0 : index
// CHECK-NEXT:      %[[Y:.*]] = tensor.extract %[[OTHERS]][%[[ZERO]], %[[J]]]
// CHECK-NEXT:      %[[SAME:.*]] = arith.cmpi eq, %[[X]], %[[Y]]
// CHECK-NEXT:      attn.yield %[[SAME]]
func.func @documents(%q: tensor<?x8x?x64xbf16>, %ids: tensor<?x?xi32>, %others: tensor<1x?xi32>) -> tensor<?x8x?x64xbf16> {
  %0 = attn.attention ins(%q, %q, %q : tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>)
      outs(%q : tensor<?x8x?x64xbf16>) mask(#attn.and<#attn.causal, #attn.documents<queries = 0, keys = 1>>)
      reads(%ids, %others : tensor<?x?xi32>, tensor<1x?xi32>) -> tensor<?x8x?x64xbf16>
  return %0 : tensor<?x8x?x64xbf16>
}

// -----

// A mask_mod region that is there is joined, tables are freed.

// CHECK-LABEL: func @packed
// CHECK-SAME:    %[[BOUNDS:[a-z0-9]+]]: memref<1x?xi32>)
// CHECK:         %[[QUERIES:.*]] = memref.alloc(%{{.*}}) : memref<1x?xi32>
// CHECK:         attn.sequence_ids ins(%[[BOUNDS]] : memref<1x?xi32>) outs(%[[QUERIES]] : memref<1x?xi32>) otherwise(-1) schedule(#attn_tile.sequential
// CHECK:         %[[KEYS:.*]] = memref.alloc(%{{.*}}) : memref<1x?xi32>
// CHECK:         attn.sequence_ids ins(%[[BOUNDS]] : memref<1x?xi32>) outs(%[[KEYS]] : memref<1x?xi32>) otherwise(-2)
// CHECK:         attn.attention
// CHECK-NOT:     mask
// CHECK:         schedule({{.*}}) mask_mod {
// CHECK:           %[[EVEN:.*]] = arith.cmpi ult
// CHECK:           memref.load %[[QUERIES]]
// CHECK:           memref.load %[[KEYS]]
// CHECK:           %[[SAME:.*]] = arith.cmpi eq
// CHECK:           %[[BOTH:.*]] = arith.andi %[[EVEN]], %[[SAME]]
// CHECK:           attn.yield %[[BOTH]]
// CHECK:         memref.dealloc %[[QUERIES]]
// CHECK:         memref.dealloc %[[KEYS]]
func.func @packed(%q: memref<1x8x?x64xbf16>, %bounds: memref<1x?xi32>) {
  attn.attention ins(%q, %q, %q : memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>, memref<1x8x?x64xbf16>)
      outs(%q : memref<1x8x?x64xbf16>) mask(#attn.packed_documents<queries = 0, keys = 0>)
      reads(%bounds : memref<1x?xi32>) schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %lower = arith.cmpi ult, %j, %i : index
        attn.yield %lower : i1
      }
  return
}

// -----

// A part of a disjunction takes all of it to the region.

// CHECK-LABEL: func @tree
// CHECK:         %[[MAP:.*]] = attn.ancestor_map ins(%{{.*}} : tensor<1x64xi32>) outs(%{{.*}} : tensor<1x?x?xi32>) -> tensor<1x?x?xi32>
// CHECK:         attn.attention
// CHECK-NOT:     mask
// CHECK:         mask_mod {
// CHECK:           %[[FIRST:.*]] = arith.ori
// CHECK:           %[[PREFIX:.*]] = arith.subi
// CHECK:           %[[BEFORE:.*]] = arith.cmpi slt, %{{.*}}, %[[PREFIX]]
// CHECK:           %[[WORD:.*]] = tensor.extract %[[MAP]]
// CHECK:           %[[SHIFTED:.*]] = arith.shrui %[[WORD]]
// CHECK:           %[[BIT:.*]] = arith.trunci %[[SHIFTED]] : i32 to i1
// CHECK:           %[[KEPT:.*]] = arith.ori %[[BEFORE]], %[[BIT]]
// CHECK:           %[[ANY:.*]] = arith.ori %[[FIRST]], %[[KEPT]]
// CHECK:           attn.yield %[[ANY]]
func.func @tree(%q: tensor<1x8x64x64xbf16>, %k: tensor<1x8x?x64xbf16>, %parents: tensor<1x64xi32>) -> tensor<1x8x64x64xbf16> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x8x64x64xbf16>, tensor<1x8x?x64xbf16>, tensor<1x8x?x64xbf16>)
      outs(%q : tensor<1x8x64x64xbf16>) mask(#attn.or<#attn.global_tokens<count = 4>, #attn.tree<parents = 0>>)
      reads(%parents : tensor<1x64xi32>) -> tensor<1x8x64x64xbf16>
  return %0 : tensor<1x8x64x64xbf16>
}

// -----

// Gradients, too. Of the mask of one form, what it reads is made once.

// CHECK-LABEL: func @blocks
// CHECK:         %[[COLUMNS:.*]] = arith.divui
// CHECK:         attn.block_sparse_map ins(%{{.*}}, %{{.*}} : memref<?x8x?xi32>, memref<?x8x?xi32>) columns(%[[COLUMNS]])
// CHECK-SAME:        {{^}} outs(%[[MAP:.*]] : memref<?x8x?x?xi32>)
// CHECK-NOT:     attn.block_sparse_map
// CHECK:         attn.attention_grad {{.*}} mask(#attn.and<#attn.causal, #attn.sliding_window<left = 64>>) mask_mod {
// CHECK-NEXT:    ^bb0(%[[B:.*]]: index, %[[H:.*]]: index, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK:           %[[ROW:.*]] = arith.divui %[[I]], %{{.*}} : index
// CHECK:           %[[COLUMN:.*]] = arith.divui %[[J]], %{{.*}} : index
// CHECK:           %[[PLACE:.*]] = arith.divui %[[COLUMN]]
// CHECK:           memref.load %[[MAP]][%[[B]], %[[H]], %[[ROW]], %[[PLACE]]]
#blocks = #attn.block_sparse<rows = 128, columns = 64, offsets = 0, indices = 1>
func.func @blocks(%q: memref<?x8x?x64xbf16>, %lse: memref<?x8x?xf32>, %x: memref<?x8x?xi32>) {
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>,
          memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?xf32>, memref<?x8x?x64xbf16>)
      outs(%q, %q, %q : memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>)
      mask(#attn.and<#attn.causal, #attn.and<#blocks, #attn.sliding_window<left = 64>>, #attn.not<#attn.not<#blocks>>>)
      reads(%x, %x : memref<?x8x?xi32>, memref<?x8x?xi32>)
  return
}

// -----

// In a KV cache, the lengths of masks are those that the device reads.

// CHECK-LABEL: func @cached_tree
// CHECK-SAME:    %[[LENGTHS:[a-z0-9]+]]: tensor<?xi32>, %[[TABLE:[a-z0-9]+]]: tensor<?x?xi32>
// CHECK:         %[[MAP:.*]] = attn.ancestor_map
// CHECK:         attn.attention
// CHECK-SAME:    mask_mod {
// CHECK-NEXT:    ^bb0(%[[B:.*]]: index, %[[H:.*]]: index, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-NEXT:      %[[LENGTH:.*]] = tensor.extract %[[LENGTHS]][%[[B]]]
// CHECK-NEXT:      %[[KEYS:.*]] = arith.index_cast %[[LENGTH]] : i32 to index
// CHECK-NEXT:      %[[PREFIX:.*]] = arith.subi %[[KEYS]], %{{.*}} : index
// CHECK-NEXT:      %[[BEFORE:.*]] = arith.cmpi slt, %[[J]], %[[PREFIX]] : index
// CHECK:           tensor.extract %[[MAP]][%[[B]], %[[I]], %{{.*}}]
func.func @cached_tree(%q: tensor<?x8x16x64xbf16>, %k: tensor<?x2x64x64xbf16>, %lengths: tensor<?xi32>, %table: tensor<?x?xi32>,
                       %parents: tensor<?x16xi32>) -> tensor<?x8x16x64xbf16> {
  %0 = attn.attention ins(%q, %k, %k : tensor<?x8x16x64xbf16>, tensor<?x2x64x64xbf16>, tensor<?x2x64x64xbf16>)
      outs(%q : tensor<?x8x16x64xbf16>) key_lengths(%lengths : tensor<?xi32>) page_table(%table : tensor<?x?xi32>)
      mask(#attn.tree<parents = 0>) reads(%parents : tensor<?x16xi32>) -> tensor<?x8x16x64xbf16>
  return %0 : tensor<?x8x16x64xbf16>
}

// -----

// Nodes of packed queries are rows of all sequences, which have one table.

// CHECK-LABEL: func @packed_tree
// CHECK-SAME:    %[[CU:[a-z0-9]+]]: memref<?xi32>, %[[LENGTHS:[a-z0-9]+]]: memref<?xi32>
// CHECK:         attn.ancestor_map ins(%{{.*}} : memref<1x?xi32>) outs(%[[MAP:.*]] : memref<1x?x?xi32>)
// CHECK:         attn.attention
// CHECK:         mask_mod {
// CHECK-NEXT:    ^bb0(%[[B:.*]]: index, %[[H:.*]]: index, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK:           %[[BEGIN:.*]] = memref.load %[[CU]][%[[B]]]
// CHECK:           %[[FIRST:.*]] = arith.index_cast %[[BEGIN]] : i32 to index
// CHECK:           memref.load %[[LENGTHS]][%[[B]]]
// CHECK:           %[[ROW:.*]] = arith.addi %[[FIRST]], %[[I]] : index
// CHECK:           %[[NODE:.*]] = arith.addi %[[FIRST]], %{{.*}} : index
// CHECK:           %[[ZERO:.*]] = arith.constant 0 : index
// CHECK:           %[[WORD:.*]] = arith.divui %[[NODE]]
// CHECK:           memref.load %[[MAP]][%[[ZERO]], %[[ROW]], %[[WORD]]]
func.func @packed_tree(%q: memref<1x8x?x64xbf16>, %k: memref<?x2x64x64xbf16>, %cu: memref<?xi32>, %lengths: memref<?xi32>,
                       %table: memref<?x?xi32>, %parents: memref<1x?xi32>) {
  attn.attention ins(%q, %k, %k : memref<1x8x?x64xbf16>, memref<?x2x64x64xbf16>, memref<?x2x64x64xbf16>)
      outs(%q : memref<1x8x?x64xbf16>) sequences packed_queries(%cu, %lengths : memref<?xi32>, memref<?xi32>)
      page_table(%table : memref<?x?xi32>) mask(#attn.tree<parents = 0>) reads(%parents : memref<1x?xi32>)
  return
}

// -----

// Tables have an entry for each key that the pages of an entry have room for.

// CHECK-LABEL: func @cached_documents
// CHECK-SAME:    %[[TABLE:[a-z0-9]+]]: memref<?x?xi32>
// CHECK:         %[[PAGES:.*]] = memref.dim %[[TABLE]], %{{.*}} : memref<?x?xi32>
// CHECK:         %[[ROOM:.*]] = arith.muli %[[PAGES]], %{{.*}} : index
// CHECK:         %[[KEYS:.*]] = memref.alloc(%[[ROOM]]) : memref<1x?xi32>
// CHECK:         attn.sequence_ids ins(%{{.*}}) outs(%[[KEYS]] : memref<1x?xi32>) otherwise(-2)
func.func @cached_documents(%q: memref<?x8x4x64xbf16>, %k: memref<?x2x64x64xbf16>, %lengths: memref<?xi32>, %table: memref<?x?xi32>,
                            %bounds: memref<1x?xi32>) {
  attn.attention ins(%q, %k, %k : memref<?x8x4x64xbf16>, memref<?x2x64x64xbf16>, memref<?x2x64x64xbf16>)
      outs(%q : memref<?x8x4x64xbf16>) key_lengths(%lengths : memref<?xi32>) page_table(%table : memref<?x?xi32>)
      mask(#attn.packed_documents<queries = 0, keys = 0>) reads(%bounds : memref<1x?xi32>)
  return
}
