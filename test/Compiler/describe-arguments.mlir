// RUN: attn-opt %s --attn-describe-arguments=staged-alignment=16 | FileCheck %s

// Sizes that attention needs to be equal have one number; a bias has numbers of
// its own. Blocks of query, key, value and out are copied, rows of lse are not.

// CHECK-LABEL: func.func @symbols(
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: -1, 4, -2, 64>, attn.name = "q", attn.read}
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: -1, 2, -3, 64>, attn.name = "k", attn.read}
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: -1, 2, -3, 64>, attn.name = "v", attn.read}
// CHECK-SAME:    {attn.alignment = 4 : i32, attn.dims = array<i64: -4, 16>, attn.name = "slopes"}
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: -1, 4, -2, 64>, attn.name = "out", attn.output}
// CHECK-SAME:    {attn.alignment = 4 : i32, attn.dims = array<i64: -1, 4, -2>, attn.name = "lse", attn.output}
// CHECK-SAME:    attributes {attn.symbols = ["batch", "queries", "keys", "size3"]}
func.func @symbols(%q: memref<?x4x?x64xf16>, %k: memref<?x2x?x64xf16>, %v: memref<?x2x?x64xf16>,
                   %s: memref<?x16xf32> {attn.name = "slopes"}, %o: memref<?x4x?x64xf16>,
                   %l: memref<?x4x?xf32>) {
  attn.attention ins(%q, %k, %v : memref<?x4x?x64xf16>, memref<?x2x?x64xf16>, memref<?x2x?x64xf16>)
      outs(%o, %l : memref<?x4x?x64xf16>, memref<?x4x?xf32>)
  return
}

// A size that must equal a static one is static.

// CHECK-LABEL: func.func @static(
// CHECK-SAME:    attn.dims = array<i64: 2, 4, -1, 64>
// CHECK-SAME:    attn.dims = array<i64: 2, 4, -2, 64>
// CHECK-SAME:    attn.dims = array<i64: 2, 4, -2, 64>
// CHECK-SAME:    attn.dims = array<i64: 2, 4, -1, 64>
func.func @static(%q: memref<2x4x?x64xf16>, %k: memref<?x4x?x64xf16>, %v: memref<?x4x?x64xf16>,
                  %o: memref<2x4x?x64xf16>) {
  attn.attention ins(%q, %k, %v : memref<2x4x?x64xf16>, memref<?x4x?x64xf16>, memref<?x4x?x64xf16>)
      outs(%o : memref<2x4x?x64xf16>)
  return
}

// The count of operations: 2 * 4 * (64 + 64) for each attended pair and batch;
// under a mask pairs are counted row by row.

// CHECK-LABEL: llvm.func @attn_flops_causal(
// CHECK:         scf.for
// CHECK:         %[[PER_PAIR:.*]] = arith.constant 1024 : index
// CHECK:         arith.muli %{{.*}}, %[[PER_PAIR]]
func.func @causal(%q: memref<2x4x?x64xf16>, %k: memref<2x4x?x64xf16>, %v: memref<2x4x?x64xf16>,
                  %o: memref<2x4x?x64xf16>) {
  attn.attention ins(%q, %k, %v : memref<2x4x?x64xf16>, memref<2x4x?x64xf16>, memref<2x4x?x64xf16>)
      outs(%o : memref<2x4x?x64xf16>) mask(#attn.causal)
  return
}

// Between keys that are attended are some that are not: they are counted one by
// one.

// CHECK-LABEL: llvm.func @attn_flops_dilated(
// CHECK:         scf.for
// CHECK:         scf.for %{{.*}} iter_args(%[[SUM:.*]] =
// CHECK:           arith.remsi
// CHECK:           %[[ATTENDS:.*]] = arith.andi
// CHECK:           %[[ONE:.*]] = arith.index_castui %[[ATTENDS]] : i1 to index
// CHECK:           arith.addi %[[SUM]], %[[ONE]]
func.func @dilated(%q: memref<2x4x?x64xf16>, %k: memref<2x4x?x64xf16>, %v: memref<2x4x?x64xf16>,
                   %o: memref<2x4x?x64xf16>) {
  attn.attention ins(%q, %k, %v : memref<2x4x?x64xf16>, memref<2x4x?x64xf16>, memref<2x4x?x64xf16>)
      outs(%o : memref<2x4x?x64xf16>) mask(#attn.dilated_window<left = 8, right = 0, dilation = 4>)
  return
}

// Other functions that write an argument.

// CHECK-LABEL: func.func @copy(
// CHECK-SAME:    attn.name = "arg0", attn.read},
// CHECK-SAME:    attn.name = "arg1", attn.output}
// CHECK-NOT:   attn_flops_copy
func.func @copy(%a: memref<?xi32>, %b: memref<?xi32>) {
  memref.copy %a, %b : memref<?xi32> to memref<?xi32>
  return
}

// Boundaries and lengths of sequences. Operations are not counted: lengths are
// known on the device alone.

// CHECK-LABEL: func.func @packed(
// CHECK-SAME:    attn.dims = array<i64: -3>, attn.name = "q_sequences"
// CHECK-SAME:    attn.dims = array<i64: -3>, attn.name = "k_sequences"
// CHECK-SAME:    attn.symbols = ["queries", "keys", "boundaries"]
// CHECK-NOT:   attn_flops_packed
func.func @packed(%q: memref<1x4x?x64xf16>, %k: memref<1x4x?x64xf16>,
                  %cu_q: memref<?xi32>, %cu_k: memref<?xi32>, %o: memref<1x4x?x64xf16>) {
  attn.attention ins(%q, %k, %k : memref<1x4x?x64xf16>, memref<1x4x?x64xf16>, memref<1x4x?x64xf16>)
      outs(%o : memref<1x4x?x64xf16>) sequences packed(%cu_q, %cu_k : memref<?xi32>, memref<?xi32>)
  return
}

// CHECK-LABEL: func.func @padded(
// CHECK-SAME:    attn.dims = array<i64: -1>, attn.name = "q_sequences"
// CHECK-SAME:    attn.symbols = ["batch", "queries", "keys"]
func.func @padded(%q: memref<?x4x?x64xf16>, %k: memref<?x4x?x64xf16>,
                  %len_q: memref<?xi32>, %len_k: memref<?xi32>, %o: memref<?x4x?x64xf16>) {
  attn.attention ins(%q, %k, %k : memref<?x4x?x64xf16>, memref<?x4x?x64xf16>, memref<?x4x?x64xf16>)
      outs(%o : memref<?x4x?x64xf16>) sequences padded(%len_q, %len_k : memref<?xi32>, memref<?xi32>)
  return
}

// CHECK-LABEL: func.func @dropout(
// CHECK-SAME: %{{[a-z0-9]+}}: memref<i64> {{{.*}}attn.name = "seed", attn.read}
// CHECK-SAME: %{{[a-z0-9]+}}: memref<i64> {{{.*}}attn.name = "offset", attn.read}
func.func @dropout(%q: memref<1x4x64x16xf32>, %out: memref<1x4x64x16xf32>, %seed: memref<i64>, %offset: memref<i64>) {
  attn.attention
      ins(%q, %q, %q : memref<1x4x64x16xf32>, memref<1x4x64x16xf32>, memref<1x4x64x16xf32>)
      outs(%out : memref<1x4x64x16xf32>)
      dropout(#attn.dropout<p = 0.5, rng = #attn.arx>, %seed, %offset : memref<i64>, memref<i64>)
  return
}

// The size of a result that no argument has says nothing about arguments.
// CHECK-LABEL: func.func @no_such_size(
// CHECK-SAME:    %{{.*}}: memref<1x2x?x64xf32>
func.func @no_such_size(%q: memref<1x2x?x64xf32>) {
  %c48 = arith.constant 48 : index
  %n = memref.dim %q, %c48 : memref<1x2x?x64xf32>
  %o = memref.alloc(%n) : memref<1x2x?x64xf32>
  attn.attention
      ins(%q, %q, %q : memref<1x2x?x64xf32>, memref<1x2x?x64xf32>, memref<1x2x?x64xf32>)
      outs(%o : memref<1x2x?x64xf32>)
  return
}

// Sizes of a matmul have names, its operations are counted, and tensors copied
// in blocks are aligned.
// CHECK-LABEL: func.func @matmul(
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: -1, -2, -3>, attn.name = "lhs", attn.read}
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: 64, -3>, attn.name = "rhs", attn.read}
// CHECK-SAME:    {attn.alignment = 4 : i32, attn.dims = array<i64: -1, -2, 64>, attn.name = "out", attn.output}
// CHECK-SAME:    attributes {attn.symbols = ["batch", "rows", "depth"]}
// CHECK-LABEL: llvm.func @attn_flops_matmul(
// CHECK: %[[TWO:.*]] = arith.constant 2 : index
// CHECK-COUNT-4: arith.muli
// CHECK: arith.addi
// CHECK: llvm.return
func.func @matmul(%a: memref<?x?x?xbf16>, %b: memref<64x?xbf16>, %c: memref<?x?x64xf32>) {
  attn.matmul ins(%a, %b : memref<?x?x?xbf16>, memref<64x?xbf16>) outs(%c : memref<?x?x64xf32>) transpose_rhs
  return
}

// Sizes that a mask needed to be equal before it became a region; notes that
// make no sense count for nothing.

// CHECK-LABEL: func.func @noted(
// CHECK-SAME:    attn.dims = array<i64: -1, 4, -2, 64>
// CHECK-SAME:    attn.dims = array<i64: -1, 4, -3, 64>
// CHECK-SAME:    attn.dims = array<i64: -1, -2>
// CHECK-SAME:    attn.dims = array<i64: 1, -3>
// CHECK-SAME:    attn.dims = array<i64: -4>
// CHECK-NOT:     attn.equal_sizes
func.func @noted(%q: memref<?x4x?x64xf16>, %k: memref<?x4x?x64xf16>,
                 %ids: memref<?x?xi32> {attn.equal_sizes = array<i64: 0, 0, 0, 1, 0, 2>},
                 %others: memref<1x?xi32> {attn.equal_sizes = array<i64: 1, 1, 2>},
                 %x: memref<?xi32> {attn.equal_sizes = array<i64: 0, 9, 0, -1, 0, 2, 0, 0>}, %o: memref<?x4x?x64xf16>) {
  attn.attention ins(%q, %k, %k : memref<?x4x?x64xf16>, memref<?x4x?x64xf16>, memref<?x4x?x64xf16>)
      outs(%o : memref<?x4x?x64xf16>)
  return
}

// Sizes of a block mask follow from the lengths, in the function that takes it and in the one that makes it.

#schedule = #attn_tile.sequential<query_tile = 16, key_tile = 32>
// CHECK-LABEL: func.func @planned(
// CHECK-SAME:    attn.dims = array<i64: -1, 4, -2, 64>
// CHECK-SAME:    attn.dims = array<i64: -1, 4, -3, 64>
// CHECK-SAME:    {attn.alignment = 4 : i32, attn.dims = array<i64: -1, 1, -4, -5>, attn.name = "block_mask", attn.read,
// CHECK-SAME:  attn.tile_counts = array<i64: 2, 0, 2, 16, 1, 0,
// CHECK-SAME:    3, 1, 2, 32, 1, 4>}
// CHECK-SAME:    attributes {attn.symbols = ["batch", "queries", "keys", "ceil(queries / 16)", "ceil(keys / 32) + 4"]}
func.func @planned(%q: memref<?x4x?x64xf16>, %k: memref<?x4x?x64xf16>, %block_mask: memref<?x1x?x?xi32>, %o: memref<?x4x?x64xf16>) {
  attn.attention ins(%q, %k, %k : memref<?x4x?x64xf16>, memref<?x4x?x64xf16>, memref<?x4x?x64xf16>)
      outs(%o : memref<?x4x?x64xf16>) block_mask(%block_mask : memref<?x1x?x?xi32>) schedule(#schedule)
  return
}

// CHECK-LABEL: func.func @plan(
// CHECK-SAME:    attn.dims = array<i64: -1, 4, -2, 64>, attn.name = "arg0"}
// CHECK-SAME:    attn.dims = array<i64: -3, 4, 96, 64>, attn.name = "arg1"}
// CHECK-SAME:    attn.dims = array<i64: -4>, attn.name = "arg2", attn.read}
// CHECK-SAME:    attn.dims = array<i64: -1, 1, -5, 7>, attn.name = "arg3"
// CHECK-SAME:    attn.output, attn.tile_counts = array<i64: 2, 0, 2, 16, 1, 0>}
// CHECK-SAME:    attributes {attn.symbols = ["batch", "queries", "size2", "size3", "ceil(queries / 16)"]}
func.func @plan(%q: memref<?x4x?x64xf16>, %k: memref<?x4x96x64xf16>, %ids: memref<?xi32>, %block_mask: memref<?x1x?x7xi32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %keys = arith.constant 96 : index
  %batch = memref.dim %q, %c0 : memref<?x4x?x64xf16>
  %queries = memref.dim %q, %c2 : memref<?x4x?x64xf16>
  attn.create_block_mask sizes(%batch, %queries, %keys) outs(%block_mask : memref<?x1x?x7xi32>) schedule(#schedule) mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %x = memref.load %ids[%j] : memref<?xi32>
    %y = memref.load %ids[%i] : memref<?xi32>
    %same = arith.cmpi eq, %x, %y : i32
    attn.yield %same : i1
  }
  return
}

// Threads read several words of a mask's row at once, and one word of a column. Its sizes follow from the lengths.

// CHECK-LABEL: func.func @given_keep_mask(
// CHECK:         attn.alignment = 16 : i32, attn.dims = array<i64: -1, 4, -3, -4>, attn.name = "dropout_mask"
// CHECK-SAME:    attn.tile_counts = array<i64: 2, 0, 2, 64, 32, 0, 3, 0, 2, 64, 4, 0>}
// CHECK-SAME:    attributes {attn.symbols = ["batch", "queries", "32 * ceil(queries / 64)", "4 * ceil(queries / 64)"]}
// CHECK-LABEL: func.func @given_columns(
// CHECK:         attn.alignment = 4 : i32, attn.dims = array<i64: {{.*}}>, attn.name = "dropout_mask"
// CHECK-SAME:    attn.tile_counts = array<i64: 3, 0, 2, 64, 32, 0, 2, 0, 2, 64, 4, 0>}
func.func @given_keep_mask(%q: memref<?x4x?x64xbf16>, %m: memref<?x4x?x?xi32>, %o: memref<?x4x?x64xbf16>) {
  attn.attention ins(%q, %q, %q : memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>)
      outs(%o : memref<?x4x?x64xbf16>) dropout_mask rows(%m : memref<?x4x?x?xi32>) p(0.25)
  return
}
func.func @given_columns(%q: memref<?x4x?x64xbf16>, %m: memref<?x4x?x?xi32>, %o: memref<?x4x?x64xbf16>) {
  attn.attention ins(%q, %q, %q : memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>)
      outs(%o : memref<?x4x?x64xbf16>) dropout_mask columns(%m : memref<?x4x?x?xi32>) p(0.25)
  return
}

// Also where only the lengths are dynamic.

// CHECK-LABEL: func.func @given_static_keep_mask(
// CHECK:         attn.dims = array<i64: 1, 4, 32, 4>, attn.name = "dropout_mask", attn.read, attn.tile_counts = array<i64: 2, 0, 2, 64, 32, 0>}
func.func @given_static_keep_mask(%q: memref<1x4x?x64xbf16>, %k: memref<1x4x9x64xbf16>, %m: memref<1x4x32x4xi32>) {
  attn.attention ins(%q, %k, %k : memref<1x4x?x64xbf16>, memref<1x4x9x64xbf16>, memref<1x4x9x64xbf16>)
      outs(%q : memref<1x4x?x64xbf16>) dropout_mask rows(%m : memref<1x4x32x4xi32>) p(0.25)
  return
}

// Those of packed sequences have an entry for each, of whole blocks.

// CHECK-LABEL: func.func @given_of_sequences(
// CHECK:         attn.multiples = array<i64: 2, 0, 2, 32, 3, 1, 2, 4>, attn.name = "dropout_mask"
// CHECK-SAME:    attn.tile_counts = array<i64: 0, 3, 0, 1, 1, -1>}
// CHECK-SAME:    attributes {attn.symbols = ["queries", "keys", "boundaries - 1", "size3", "size4", "boundaries"]}
func.func @given_of_sequences(%q: memref<1x4x?x64xbf16>, %k: memref<1x4x?x64xbf16>, %m: memref<?x4x?x?xi32>,
                              %b: memref<?xi32>, %c: memref<?xi32>, %o: memref<1x4x?x64xbf16>) {
  attn.attention ins(%q, %k, %k : memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>, memref<1x4x?x64xbf16>)
      outs(%o : memref<1x4x?x64xbf16>) sequences packed(%b, %c : memref<?xi32>, memref<?xi32>)
      dropout_mask rows(%m : memref<?x4x?x?xi32>) p(0.25)
  return
}

// They may be a view of an argument, of which only the sizes that it shares are known.

// CHECK-LABEL: func.func @given_view(
// CHECK:         attn.dims = array<i64: 2, -2, -3>, attn.name = "dropout_mask", attn.read,
// CHECK-SAME:  attn.tile_counts = array<i64: 2, 0, 2, 64, 32, 0, 1, 0, 2, 64, 4, 0>}
func.func @given_view(%q: memref<1x2x?x64xbf16>, %m: memref<2x?x?xi32>, %o: memref<1x2x?x64xbf16>) {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %w = memref.dim %m, %c1 : memref<2x?x?xi32>
  %u = memref.dim %m, %c2 : memref<2x?x?xi32>
  %x = memref.expand_shape %m [[0, 1], [2], [3]] output_shape [1, 2, %w, %u] : memref<2x?x?xi32> into memref<1x2x?x?xi32>
  %t = memref.transpose %x (a, b, c, d) -> (a, b, d, c) : memref<1x2x?x?xi32> to memref<1x2x?x?xi32, strided<[?, ?, 1, ?]>>
  attn.attention ins(%q, %q, %q : memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>)
      outs(%o : memref<1x2x?x64xbf16>)
      dropout_mask rows(%t : memref<1x2x?x?xi32, strided<[?, ?, 1, ?]>>) p(0.25)
  return
}

// A slice has the size that is given for it, which must then be right.

// CHECK-LABEL: func.func @given_part(
// CHECK-SAME:    attn.dims = array<i64: 1, 2, -1, 64>, attn.name = "q", attn.read, attn.tile_counts = array<i64: 2, 0, 2, 64, 32, 0>}
// CHECK:         attn.dims = array<i64: 1, 2, -2, -3>, attn.name = "dropout_mask", attn.read}
func.func @given_part(%q: memref<1x2x?x64xbf16>, %m: memref<1x2x?x?xi32>, %o: memref<1x2x?x64xbf16>) {
  %c2 = arith.constant 2 : index
  %u = memref.dim %q, %c2 : memref<1x2x?x64xbf16>
  %x = memref.subview %m[0, 0, 0, 0] [1, 2, %u, 4] [1, 1, 1, 1]
      : memref<1x2x?x?xi32> to memref<1x2x?x4xi32, strided<[?, ?, ?, 1]>>
  attn.attention ins(%q, %q, %q : memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>, memref<1x2x?x64xbf16>)
      outs(%o : memref<1x2x?x64xbf16>)
      dropout_mask rows(%x : memref<1x2x?x4xi32, strided<[?, ?, ?, 1]>>) p(0.25)
  return
}

// Queries, keys and values that are slices of one tensor have its sizes.

// CHECK-LABEL: func.func @joined(
// CHECK-SAME:    attn.dims = array<i64: -1, -2, 3, 4, 64>, attn.name = "q", attn.read}
// CHECK-SAME:    attn.dims = array<i64: -1, 4, -2, 64>, attn.name = "out", attn.output}
func.func @joined(%joined: memref<?x?x3x4x64xbf16>, %out: memref<?x4x?x64xbf16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = memref.dim %joined, %c0 : memref<?x?x3x4x64xbf16>
  %n = memref.dim %joined, %c1 : memref<?x?x3x4x64xbf16>
  %s = memref.subview %joined[0, 0, 1, 0, 0] [%b, %n, 1, 4, 64] [1, 1, 1, 1, 1]
      : memref<?x?x3x4x64xbf16> to memref<?x?x4x64xbf16, strided<[?, 768, 64, 1], offset: 256>>
  %t = memref.transpose %s (b, n, h, d) -> (b, h, n, d)
      : memref<?x?x4x64xbf16, strided<[?, 768, 64, 1], offset: 256>>
      to memref<?x4x?x64xbf16, strided<[?, 64, 768, 1], offset: 256>>
  attn.attention ins(%t, %t, %t : memref<?x4x?x64xbf16, strided<[?, 64, 768, 1], offset: 256>>,
      memref<?x4x?x64xbf16, strided<[?, 64, 768, 1], offset: 256>>,
      memref<?x4x?x64xbf16, strided<[?, 64, 768, 1], offset: 256>>) outs(%out : memref<?x4x?x64xbf16>)
  return
}

// What generates keep masks does not know how many are read.

// CHECK-LABEL: func.func @made_keep_mask(
// CHECK-SAME:    attn.multiples = array<i64: 3, -1, 0, 32, 2, -1, 0, 4>
func.func @made_keep_mask(%m: memref<?x4x?x?xi32>, %seed: memref<i64>) {
  attn.dropout_mask columns by(#attn.dropout<p = 0.5, rng = #attn.arx>, %seed, %seed : memref<i64>, memref<i64>)
      outs(%m : memref<?x4x?x?xi32>)
  return
}

// An argument may be read and written, or through a view. Of a memref that may be one of several, nothing is known.

// CHECK-LABEL: func.func @in_place(
// CHECK-SAME:    attn.name = "arg0", attn.output, attn.read}
// CHECK-SAME:    attn.name = "arg1", attn.read}
// CHECK-SAME:    attn.name = "arg2", attn.output}
// CHECK-SAME:    attn.name = "arg3", attn.read}
// CHECK-SAME:    attn.name = "arg4"}
func.func @in_place(%x: memref<4xf32>, %y: memref<2x2xf32>, %z: memref<4xf32>, %a: memref<4xf32>, %b: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  %true = arith.constant true
  %flat = memref.collapse_shape %y [[0, 1]] : memref<2x2xf32> into memref<4xf32>
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%flat : memref<4xf32>) outs(%x : memref<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %sum = arith.addf %in, %out : f32
    linalg.yield %sum : f32
  }
  %either = arith.select %true, %a, %a : memref<4xf32>
  memref.copy %either, %z : memref<4xf32> to memref<4xf32>
  %size = memref.dim %b, %c0 : memref<4xf32>
  return
}

// Partial results have numbers. All batches and queries are one, and outputs are accessed in blocks.
// CHECK-LABEL: func.func @merge(
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: -1, 4, -2, 64>, attn.name = "out0", attn.read}
// CHECK-SAME:    {attn.alignment = 4 : i32, attn.dims = array<i64: -1, 4, -2>, attn.name = "lse0", attn.read}
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: -1, 4, -2, 64>, attn.name = "out1", attn.read}
// CHECK-SAME:    {attn.alignment = 4 : i32, attn.dims = array<i64: -1, 4, -2>, attn.name = "lse1", attn.read}
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: -1, 4, -2, 64>, attn.name = "out", attn.output}
// CHECK-SAME:    attributes {attn.symbols = ["batch", "queries"]}
func.func @merge(%a: memref<?x4x?x64xbf16>, %la: memref<?x4x?xf32>, %b: memref<?x4x?x64xbf16>, %lb: memref<?x4x?xf32>,
                 %o: memref<?x4x?x64xbf16>) {
  attn.merge ins(%a, %b : memref<?x4x?x64xbf16>, memref<?x4x?x64xbf16>)
      lses(%la, %lb : memref<?x4x?xf32>, memref<?x4x?xf32>) outs(%o : memref<?x4x?x64xbf16>)
  return
}

// CHECK-LABEL: func.func @merge_gradient(
// CHECK-SAME:    attn.name = "out0", attn.read}
// CHECK-SAME:    attn.name = "lse0", attn.read}
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: -1, 4, -2, 64>, attn.name = "dout", attn.read}
// CHECK-SAME:    attn.name = "dlse", attn.read}
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: -1, 4, -2, 64>, attn.name = "dout0", attn.output}
// CHECK-SAME:    attn.name = "dlse0", attn.output}
func.func @merge_gradient(%a: memref<?x4x?x64xbf16>, %la: memref<?x4x?xf32>, %d: memref<?x4x?x64xbf16>,
                          %dl: memref<?x4x?xf32>, %da: memref<?x4x?x64xbf16>, %dla: memref<?x4x?xf32>) {
  attn.merge_grad ins(%a : memref<?x4x?x64xbf16>) lses(%la : memref<?x4x?xf32>) dout(%d : memref<?x4x?x64xbf16>)
      dlse(%dl : memref<?x4x?xf32>) outs(%da : memref<?x4x?x64xbf16>) dlses(%dla : memref<?x4x?xf32>)
  return
}

// Tiles of linear attention are copied, and threads access neighbours of states together; row values are single.

// CHECK-LABEL: func.func @linear(
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: -1, 4, -2, 64>, attn.name = "q", attn.read}
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: -1, 2, -2, 64>, attn.name = "k", attn.read}
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: -1, 2, -2, 64>, attn.name = "v", attn.read}
// CHECK-SAME:    {attn.alignment = 4 : i32, attn.dims = array<i64: -1, 4, -2>, attn.name = "log_decay", attn.read}
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: -1, 4, 64, 64>, attn.name = "initial_state", attn.read}
// CHECK-SAME:    {attn.alignment = 16 : i32, attn.dims = array<i64: -1, 4, -2, 64>, attn.name = "out", attn.output}
func.func @linear(%q: memref<?x4x?x64xf16>, %k: memref<?x2x?x64xf16>, %v: memref<?x2x?x64xf16>, %g: memref<?x4x?xf32>,
                  %s: memref<?x4x64x64xf32>, %o: memref<?x4x?x64xf16>) {
  attn.linear_attention ins(%q, %k, %v : memref<?x4x?x64xf16>, memref<?x2x?x64xf16>, memref<?x2x?x64xf16>)
      outs(%o : memref<?x4x?x64xf16>) log_decay(%g : memref<?x4x?xf32>) initial_state(%s : memref<?x4x64x64xf32>) causal
  return
}

// CHECK-LABEL: func.func @linear_gradient(
// CHECK-COUNT-7: attn.alignment = 16 : i32
// CHECK-NOT:   attn.alignment = 16 : i32
func.func @linear_gradient(%q: memref<?x4x?x64xf16>, %k: memref<?x4x?x64xf16>, %v: memref<?x4x?x64xf16>,
                           %do: memref<?x4x?x64xf16>, %dq: memref<?x4x?x64xf16>, %dk: memref<?x4x?x64xf16>,
                           %dv: memref<?x4x?x64xf16>, %g: memref<?x4x?xf32>, %dg: memref<?x4x?xf32>) {
  attn.linear_attention_grad ins(%q, %k, %v, %do : memref<?x4x?x64xf16>, memref<?x4x?x64xf16>, memref<?x4x?x64xf16>, memref<?x4x?x64xf16>)
      outs(%dq, %dk, %dv : memref<?x4x?x64xf16>, memref<?x4x?x64xf16>, memref<?x4x?x64xf16>)
      log_decay(%g : memref<?x4x?xf32>) dlog_decay(%dg : memref<?x4x?xf32>) causal
  return
}
