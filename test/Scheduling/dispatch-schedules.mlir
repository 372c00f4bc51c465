// RUN: attn-opt %s -attn-dispatch-schedules | FileCheck %s

#small = #attn_tile.sequential<query_tile = 16, key_tile = 64>
#large = #attn_tile.sequential<query_tile = 32, key_tile = 64>
#choice = #attn.by_query_length<bound = 100, below = #small, from = #large>

// On buffers, as in the pipelines.
// CHECK-LABEL: func.func @dynamic
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: memref<1x2x?x64xf32>
func.func @dynamic(%q: memref<1x2x?x64xf32>, %k: memref<1x2x?x64xf32>, %o: memref<1x2x?x64xf32>) {
  // CHECK:      %[[LENGTH:.*]] = memref.dim %[[Q]], %{{.*}}
  // CHECK:      %[[BOUND:.*]] = arith.constant 100 : index
  // CHECK:      %[[SHORT:.*]] = arith.cmpi ult, %[[LENGTH]], %[[BOUND]] : index
  // CHECK:      scf.if %[[SHORT]] {
  // CHECK-NEXT:   attn.attention ins(%[[Q]], {{.*}} mask(#attn.causal) schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
  // CHECK-NEXT: } else {
  // CHECK-NEXT:   attn.attention ins(%[[Q]], {{.*}} mask(#attn.causal) schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
  // CHECK-NEXT: }
  attn.attention ins(%q, %k, %k : memref<1x2x?x64xf32>, memref<1x2x?x64xf32>, memref<1x2x?x64xf32>)
      outs(%o : memref<1x2x?x64xf32>) mask(#attn.causal) schedule(#choice)
  return
}

// The tokens of linear attention are its queries.
// CHECK-LABEL: func.func @linear
// CHECK:         %[[FEW:.*]] = arith.cmpi ult, %{{.*}}, %c9{{.*}} : index
// CHECK:         scf.if %[[FEW]] {
// CHECK-NEXT:      attn.linear_attention {{.*}} schedule(#attn_tile.linear_recurrent<value_tile = 16>)
// CHECK-NEXT:    } else {
// CHECK-NEXT:      attn.linear_attention {{.*}} schedule(#attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>)
func.func @linear(%q: memref<1x2x?x64xbf16>) {
  attn.linear_attention ins(%q, %q, %q : memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>)
      outs(%q : memref<1x2x?x64xbf16>) causal
      schedule(#attn.by_query_length<bound = 9, below = #attn_tile.linear_recurrent<value_tile = 16>,
          from = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>>)
  return
}

// Packed sequences count with their mean length.
// CHECK-LABEL: func.func @linear_sequences
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: memref<1x2x?x64xbf16>, %{{.*}}: memref<?x2x64x64xf32>, %[[C:[a-z0-9]+]]: memref<?xi32>
// CHECK:         %[[TOKENS:.*]] = memref.dim %[[Q]], %{{.*}}
// CHECK:         %[[BOUNDARIES:.*]] = memref.dim %[[C]], %{{.*}}
// CHECK:         %[[SOME:.*]] = arith.maxui %[[BOUNDARIES]], %{{.*}}
// CHECK:         %[[COUNT:.*]] = arith.subi %[[SOME]], %{{.*}}
// CHECK:         %[[MEAN:.*]] = arith.divui %[[TOKENS]], %[[COUNT]]
// CHECK:         arith.cmpi ult, %[[MEAN]], %{{.*}}
func.func @linear_sequences(%q: memref<1x2x?x64xbf16>, %s: memref<?x2x64x64xf32>, %c: memref<?xi32>) {
  attn.linear_attention ins(%q, %q, %q : memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>)
      outs(%q : memref<1x2x?x64xbf16>) initial_state(%s : memref<?x2x64x64xf32>) sequences(%c : memref<?xi32>)
      causal
      schedule(#attn.by_query_length<bound = 9, below = #attn_tile.linear_recurrent<value_tile = 16>,
          from = #attn_tile.linear_multistage<chunk = 64, value_tile = 64, stages = 2, warps = 4>>)
  return
}

#one = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 3, split_work_items = 132>
#two = #attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2, split_work_items = 264, ctas_per_sm = 2>
#items = #attn_tile.by_work_items<more_than = 88, at_most = 132, within = #one, otherwise = #two>

// Heads of all batch entries have a work item for each of two tiles of columns.
// CHECK-LABEL: func.func @work_items
// CHECK-SAME:    (%[[Q:.*]]: memref<?x4x?x128xbf16>)
// CHECK:         %[[BATCH:.*]] = memref.dim %[[Q]], %c0{{.*}} : memref<?x4x?x128xbf16>
// CHECK:         %[[ITEMS:.*]] = arith.muli %[[BATCH]], %c8{{.*}} : index
// CHECK:         %[[MORE:.*]] = arith.cmpi ugt, %[[ITEMS]], %c88{{.*}} : index
// CHECK:         %[[MOST:.*]] = arith.cmpi ule, %[[ITEMS]], %c132{{.*}} : index
// CHECK:         %[[WITHIN:.*]] = arith.andi %[[MORE]], %[[MOST]] : i1
// CHECK:         scf.if %[[WITHIN]] {
// CHECK-NEXT:      attn.linear_attention {{.*}} schedule(#attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 3
// CHECK-NEXT:    } else {
// CHECK-NEXT:      attn.linear_attention {{.*}} schedule(#attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 2
func.func @work_items(%q: memref<?x4x?x128xbf16>) {
  attn.linear_attention ins(%q, %q, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      outs(%q : memref<?x4x?x128xbf16>) causal schedule(#items)
  return
}

// Columns of the gradient are values or keys. The number of its work items is known: 2 x 16 x 3.
// CHECK-LABEL: func.func @work_items_grad
// CHECK-NOT:     scf.if
// CHECK:         attn.linear_attention_grad {{.*}} schedule(#attn_tile.linear_warp_specialized<chunk = 64, value_tile = 64, stages = 3
// CHECK-NEXT:    return
func.func @work_items_grad(%q: memref<2x16x?x136xbf16>, %v: memref<2x16x?x64xbf16>) {
  attn.linear_attention_grad ins(%q, %q, %v, %v : memref<2x16x?x136xbf16>, memref<2x16x?x136xbf16>, memref<2x16x?x64xbf16>, memref<2x16x?x64xbf16>)
      outs(%q, %q, %v : memref<2x16x?x136xbf16>, memref<2x16x?x136xbf16>, memref<2x16x?x64xbf16>) causal schedule(#items)
  return
}

// Three schedules.
// CHECK-LABEL: func.func @three
// CHECK:         %[[SHORT:.*]] = arith.cmpi ult, %{{.*}}, %c16{{.*}} : index
// CHECK:         scf.if %[[SHORT]] {
// CHECK-NEXT:      attn.attention {{.*}} schedule(#attn_tile.sequential<query_tile = 8, key_tile = 64>)
// CHECK-NEXT:    } else {
// CHECK:           scf.if
// CHECK-NEXT:        attn.attention {{.*}} schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
// CHECK-NEXT:      } else {
// CHECK-NEXT:        attn.attention {{.*}} schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
func.func @three(%q: memref<1x2x?x64xf32>, %k: memref<1x2x?x64xf32>, %o: memref<1x2x?x64xf32>) {
  attn.attention ins(%q, %k, %k : memref<1x2x?x64xf32>, memref<1x2x?x64xf32>, memref<1x2x?x64xf32>)
      outs(%o : memref<1x2x?x64xf32>)
      schedule(#attn.by_query_length<bound = 16, below = #attn_tile.sequential<query_tile = 8, key_tile = 64>, from = #choice>)
  return
}

// Gradients.
// CHECK-LABEL: func.func @gradient
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: memref<1x2x?x64xf32>
func.func @gradient(%q: memref<1x2x?x64xf32>, %lse: memref<1x2x?xf32>, %o: memref<1x2x?x64xf32>) {
  // CHECK:      %[[LENGTH:.*]] = memref.dim %[[Q]], %{{.*}}
  // CHECK:      %[[SHORT:.*]] = arith.cmpi ult, %[[LENGTH]], %{{.*}} : index
  // CHECK:      scf.if %[[SHORT]] {
  // CHECK-NEXT:   attn.attention_grad ins(%[[Q]], {{.*}} schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
  // CHECK-NEXT: } else {
  // CHECK-NEXT:   attn.attention_grad ins(%[[Q]], {{.*}} schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
  // CHECK-NEXT: }
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<1x2x?x64xf32>, memref<1x2x?x64xf32>, memref<1x2x?x64xf32>,
          memref<1x2x?x64xf32>, memref<1x2x?xf32>, memref<1x2x?x64xf32>)
      outs(%o, %o, %o : memref<1x2x?x64xf32>, memref<1x2x?x64xf32>, memref<1x2x?x64xf32>) schedule(#choice)
  return
}

// On tensors, with regions.
// CHECK-LABEL: func.func @tensors
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: tensor<1x2x?x64xf32>
func.func @tensors(%q: tensor<1x2x?x64xf32>, %o: tensor<1x2x?x64xf32>) -> tensor<1x2x?x64xf32> {
  // CHECK:      %[[LENGTH:.*]] = tensor.dim %[[Q]]
  // CHECK:      %[[R:.*]] = scf.if {{.*}} -> (tensor<1x2x?x64xf32>) {
  // CHECK:        %[[A:.*]] = attn.attention
  // CHECK:          math.tanh
  // CHECK:        scf.yield %[[A]]
  // CHECK:      } else {
  // CHECK:        %[[B:.*]] = attn.attention
  // CHECK:          math.tanh
  // CHECK:        scf.yield %[[B]]
  // CHECK:      return %[[R]]
  %r = attn.attention ins(%q, %q, %q : tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>)
      outs(%o : tensor<1x2x?x64xf32>) schedule(#choice)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %t = math.tanh %s : f32
        attn.yield %t : f32
      } -> tensor<1x2x?x64xf32>
  return %r : tensor<1x2x?x64xf32>
}

// A static length decides.
// CHECK-LABEL: func.func @static
// CHECK-NOT:     scf.if
// CHECK:         schedule(#attn_tile.sequential<query_tile = 16
// CHECK:         schedule(#attn_tile.sequential<query_tile = 32
func.func @static(%q: memref<1x2x99x64xf32>, %p: memref<1x2x100x64xf32>, %k: memref<1x2x?x64xf32>) {
  attn.attention ins(%q, %k, %k : memref<1x2x99x64xf32>, memref<1x2x?x64xf32>, memref<1x2x?x64xf32>)
      outs(%q : memref<1x2x99x64xf32>) schedule(#choice)
  attn.attention ins(%p, %k, %k : memref<1x2x100x64xf32>, memref<1x2x?x64xf32>, memref<1x2x?x64xf32>)
      outs(%p : memref<1x2x100x64xf32>) schedule(#choice)
  return
}

// The mean length of packed sequences.
// CHECK-LABEL: func.func @packed
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: memref<1x2x?x64xf32>, %[[CU:[a-z0-9]+]]: memref<?xi32>
func.func @packed(%q: memref<1x2x?x64xf32>, %cu: memref<?xi32>) {
  // CHECK:      %[[ROWS:.*]] = memref.dim %[[Q]]
  // CHECK:      %[[ENTRIES:.*]] = memref.dim %[[CU]]
  // CHECK:      %[[SOME:.*]] = arith.maxui %[[ENTRIES]], %{{.*}}
  // CHECK:      %[[COUNT:.*]] = arith.subi %[[SOME]], %{{.*}}
  // CHECK:      %[[MEAN:.*]] = arith.divui %[[ROWS]], %[[COUNT]]
  // CHECK:      arith.cmpi ult, %[[MEAN]]
  // CHECK:      scf.if
  attn.attention ins(%q, %q, %q : memref<1x2x?x64xf32>, memref<1x2x?x64xf32>, memref<1x2x?x64xf32>)
      outs(%q : memref<1x2x?x64xf32>) sequences packed(%cu, %cu : memref<?xi32>, memref<?xi32>) schedule(#choice)
  return
}

// Others stay.
// CHECK-LABEL: func.func @plain
// CHECK-NEXT:    attn.attention {{.*}} schedule(#attn_tile.sequential<query_tile = 16
// CHECK-NEXT:    return
func.func @plain(%q: memref<1x2x?x64xf32>) {
  attn.attention ins(%q, %q, %q : memref<1x2x?x64xf32>, memref<1x2x?x64xf32>, memref<1x2x?x64xf32>)
      outs(%q : memref<1x2x?x64xf32>) schedule(#small)
  return
}

#staged = #attn_tile.by_alignment<aligned = #large, otherwise = #small>

// Where a bias begins, and its rows.
// CHECK-LABEL: func.func @alignment
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: memref<1x2x?x64xf32>, %[[BIAS:[a-z0-9]+]]: memref<2x?x?xbf16, strided<[?, ?, 1], offset: ?>>
func.func @alignment(%q: memref<1x2x?x64xf32>, %bias: memref<2x?x?xbf16, strided<[?, ?, 1], offset: ?>>) {
  // CHECK:      %{{.*}}, %[[OFFSET:.*]], %{{.*}}:3, %[[STRIDES:.*]]:3 = memref.extract_strided_metadata %[[BIAS]]
  // CHECK:      %[[POINTER:.*]] = memref.extract_aligned_pointer_as_index %[[BIAS]]
  // CHECK:      %[[BYTES:.*]] = arith.muli %[[OFFSET]], %{{.*}} : index
  // CHECK:      %[[FIRST:.*]] = arith.ori %{{.*}}, %[[BYTES]] : index
  // CHECK:      %[[HEAD:.*]] = arith.muli %[[STRIDES]]#0, %{{.*}} : index
  // CHECK:      %[[A:.*]] = arith.ori %[[FIRST]], %[[HEAD]] : index
  // CHECK:      %[[ROW:.*]] = arith.muli %[[STRIDES]]#1, %{{.*}} : index
  // CHECK:      %[[B:.*]] = arith.ori %[[A]], %[[ROW]] : index
  // CHECK:      %[[LOW:.*]] = arith.andi %[[B]], %{{.*}} : index
  // CHECK:      %[[ALIGNED:.*]] = arith.cmpi eq, %[[LOW]], %{{.*}} : index
  // CHECK:      scf.if %[[ALIGNED]] {
  // CHECK-NEXT:   attn.attention {{.*}} schedule(#attn_tile.sequential<query_tile = 32
  // CHECK:      } else {
  // CHECK-NEXT:   attn.attention {{.*}} schedule(#attn_tile.sequential<query_tile = 16
  attn.attention ins(%q, %q, %q : memref<1x2x?x64xf32>, memref<1x2x?x64xf32>, memref<1x2x?x64xf32>)
      outs(%q : memref<1x2x?x64xf32>) schedule(#staged)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = memref.load %bias[%h, %i, %j] : memref<2x?x?xbf16, strided<[?, ?, 1], offset: ?>>
        %y = arith.extf %x : bf16 to f32
        %r = arith.addf %s, %y : f32
        attn.yield %r : f32
      }
  return
}

// Nothing is read; rows are known not to be contiguous; there is no memory yet.
// CHECK-LABEL: func.func @known_alignment
// CHECK-NOT:     scf.if
// CHECK:         schedule(#attn_tile.sequential<query_tile = 32
// CHECK:         schedule(#attn_tile.sequential<query_tile = 16
func.func @known_alignment(%q: memref<1x2x?x64xf32>, %bias: memref<?x?xf32, strided<[1, ?]>>) {
  attn.attention ins(%q, %q, %q : memref<1x2x?x64xf32>, memref<1x2x?x64xf32>, memref<1x2x?x64xf32>)
      outs(%q : memref<1x2x?x64xf32>) schedule(#staged)
  attn.attention ins(%q, %q, %q : memref<1x2x?x64xf32>, memref<1x2x?x64xf32>, memref<1x2x?x64xf32>)
      outs(%q : memref<1x2x?x64xf32>) schedule(#staged)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = memref.load %bias[%i, %j] : memref<?x?xf32, strided<[1, ?]>>
        %r = arith.addf %s, %x : f32
        attn.yield %r : f32
      }
  return
}

// CHECK-LABEL: func.func @alignment_of_tensors
// CHECK-NOT:     scf.if
// CHECK:         schedule(#attn_tile.sequential<query_tile = 16
func.func @alignment_of_tensors(%q: tensor<1x2x?x64xf32>, %bias: tensor<?x?xf32>) -> tensor<1x2x?x64xf32> {
  %o = attn.attention ins(%q, %q, %q : tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>, tensor<1x2x?x64xf32>)
      outs(%q : tensor<1x2x?x64xf32>) schedule(#staged)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %bias[%i, %j] : tensor<?x?xf32>
        %r = arith.addf %s, %x : f32
        attn.yield %r : f32
      } -> tensor<1x2x?x64xf32>
  return %o : tensor<1x2x?x64xf32>
}

// Where work items are as many as are wanted, each has all keys, and there is
// nothing to merge: 8 packed heads of each batch entry, of 132 work items.
// A single key tile is not split either.
// CHECK-LABEL: func.func @shares(
// CHECK-SAME:      %[[Q:[a-z0-9]+]]: memref<?x32x1x64xf32>, %[[K:[a-z0-9]+]]: memref<?x8x?x64xf32>
// CHECK:         %[[BATCH:.*]] = memref.dim %[[Q]], %{{.*}}
// CHECK:         %[[WORK_ITEMS:.*]] = arith.muli %[[BATCH]], %{{.*}}
// CHECK:         %[[TWICE:.*]] = arith.muli %[[WORK_ITEMS]], %{{.*}}
// CHECK:         %[[BUSY:.*]] = arith.cmpi ugt, %[[TWICE]], %{{.*}}
// CHECK:         %[[KEYS:.*]] = memref.dim %[[K]], %{{.*}}
// CHECK:         %[[SHORT:.*]] = arith.cmpi ule, %[[KEYS]], %c64
// CHECK:         %[[UNSHARED:.*]] = arith.ori %[[BUSY]], %[[SHORT]]
// CHECK:         scf.if %[[UNSHARED]] {
// CHECK-NEXT:      attn.attention {{.*}} schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64, pack_gqa = true>)
// CHECK:         } else {
// CHECK-NEXT:      attn.attention {{.*}} schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64, split_kv_work_items = 132, pack_gqa = true>)
func.func @shares(%q: memref<?x32x1x64xf32>, %k: memref<?x8x?x64xf32>, %o: memref<?x32x1x64xf32>) {
  attn.attention ins(%q, %k, %k : memref<?x32x1x64xf32>, memref<?x8x?x64xf32>, memref<?x8x?x64xf32>)
      outs(%o : memref<?x32x1x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64, split_kv_work_items = 132, pack_gqa = true>)
  return
}

// 8 heads can have 16 splits each, 128 none; 64 keys are one tile.
// CHECK-LABEL: func.func @known_shares(
// CHECK-NOT:     scf.if
// CHECK:         attn.attention {{.*}}split_kv_work_items = 132>
// CHECK:         attn.attention
// CHECK-NOT:     split_kv_work_items
func.func @known_shares(%q: memref<1x8x1x64xf32>, %r: memref<16x8x1x64xf32>, %k: memref<1x8x65x64xf32>,
    %l: memref<16x8x65x64xf32>, %short: memref<1x8x64x64xf32>) {
  attn.attention ins(%q, %k, %k : memref<1x8x1x64xf32>, memref<1x8x65x64xf32>, memref<1x8x65x64xf32>)
      outs(%q : memref<1x8x1x64xf32>) schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64, split_kv_work_items = 132>)
  attn.attention ins(%r, %l, %l : memref<16x8x1x64xf32>, memref<16x8x65x64xf32>, memref<16x8x65x64xf32>)
      outs(%r : memref<16x8x1x64xf32>) schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64, split_kv_work_items = 132>)
  attn.attention ins(%q, %short, %short : memref<1x8x1x64xf32>, memref<1x8x64x64xf32>, memref<1x8x64x64xf32>)
      outs(%q : memref<1x8x1x64xf32>) schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64, split_kv_work_items = 132>)
  return
}

// Splits are listed for several batch entries with lengths of their own. A
// single one has equal splits, or none, without the order of a list.
// CHECK-LABEL: func.func @balanced(
// CHECK-SAME:      %[[Q:[a-z0-9]+]]: memref<?x8x1x64xbf16>
// CHECK:         %[[BATCH:.*]] = memref.dim %[[Q]], %{{.*}}
// CHECK:         %[[IS_ONE:.*]] = arith.cmpi eq, %[[BATCH]], %{{.*}}
// CHECK:         scf.if %[[IS_ONE]] {
// CHECK:           scf.if
// CHECK-NOT:         split_kv_work_items
// CHECK:             attn.attention {{.*}} traversal = grid>)
// CHECK:           } else {
// CHECK-NEXT:        attn.attention {{.*}} traversal = grid, split_kv_work_items = 132>)
// CHECK:         } else {
// CHECK-NEXT:      attn.attention {{.*}} traversal = grid, interleave = 0, split_kv_work_items = 132, balance_splits = true>)
func.func @balanced(%q: memref<?x8x1x64xbf16>, %k: memref<?x8x?x64xbf16>, %n: memref<?xi32>) {
  attn.attention ins(%q, %k, %k : memref<?x8x1x64xbf16>, memref<?x8x?x64xbf16>, memref<?x8x?x64xbf16>)
      outs(%q : memref<?x8x1x64xbf16>) key_lengths(%n : memref<?xi32>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 64, stages = 2, consumers = 1, traversal = grid,
               interleave = 0, split_kv_work_items = 132, balance_splits = true>)
  return
}
