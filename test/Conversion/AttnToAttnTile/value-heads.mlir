// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file | FileCheck %s
// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file | attn-opt --split-input-file --verify-roundtrip -o /dev/null

// Query head `h` attends key head `h / 4` and value head `h / 2`.
// CHECK-LABEL: attn_tile.kernel @forward_kernel(
// CHECK-SAME:    %{{.*}}: memref<1x12x?x64xf32>, %[[K:.*]]: memref<1x3x?x64xf32>, %[[V:.*]]: memref<1x6x?x64xf32>, %{{.*}}: memref<1x12x?x64xf32>)
// CHECK:         scf.forall (%[[B:.*]], %[[H:.*]], %{{.*}}) in
// CHECK:           %[[C4:.*]] = arith.constant 4 : index
// CHECK:           %[[KH:.*]] = arith.divui %[[H]], %[[C4]] : index
// CHECK:           %[[C2:.*]] = arith.constant 2 : index
// CHECK:           %[[VH:.*]] = arith.divui %[[H]], %[[C2]] : index
// CHECK:           attn_tile.load %[[K]][%[[B]], %[[KH]],
// CHECK:           attn_tile.load %[[V]][%[[B]], %[[VH]],
func.func @forward(%q: memref<1x12x?x64xf32>, %k: memref<1x3x?x64xf32>, %v: memref<1x6x?x64xf32>,
                   %o: memref<1x12x?x64xf32>) {
  attn.attention ins(%q, %k, %v : memref<1x12x?x64xf32>, memref<1x3x?x64xf32>, memref<1x6x?x64xf32>)
      outs(%o : memref<1x12x?x64xf32>) schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64>)
  return
}

// -----

// The rows of a tile are the three query heads that share a key and a value head: there are four such groups.
// CHECK-LABEL: attn_tile.kernel @packed_kernel(
// CHECK-SAME:    %{{.*}}: memref<1x4x3x64xf32>, %[[K:.*]]: memref<1x2x?x64xf32>, %[[V:.*]]: memref<1x4x?x64xf32>, %{{.*}}: memref<1x4x3x64xf32>)
// CHECK:         scf.forall (%[[B:.*]], %[[G:.*]], %{{.*}}) in
// CHECK:           %[[C2:.*]] = arith.constant 2 : index
// CHECK:           %[[KH:.*]] = arith.divui %[[G]], %[[C2]] : index
// CHECK:           attn_tile.load %[[K]][%[[B]], %[[KH]],
// CHECK:           attn_tile.load %[[V]][%[[B]], %[[G]],
func.func @packed(%q: memref<1x12x1x64xf32>, %k: memref<1x2x?x64xf32>, %v: memref<1x4x?x64xf32>,
                  %o: memref<1x12x1x64xf32>) {
  attn.attention ins(%q, %k, %v : memref<1x12x1x64xf32>, memref<1x2x?x64xf32>, memref<1x4x?x64xf32>)
      outs(%o : memref<1x12x1x64xf32>)
      schedule(#attn_tile.sequential<query_tile = 16, key_tile = 64, pack_gqa = true>)
  return
}

// -----

// Groups of several queries are views.
// CHECK-LABEL: attn_tile.kernel @few_kernel(
// CHECK-SAME:    %[[Q:[a-z0-9]*]]: memref<1x12x3x64xbf16>, %[[K:[a-z0-9]*]]: memref<1x6x?x64xbf16>, %[[V:[a-z0-9]*]]: memref<1x2x?x64xbf16>,
// CHECK:         attn_tile.pack_gqa %[[Q]] : memref<1x12x3x64xbf16>
// CHECK-SAME:  to memref<1x6x6x64xbf16, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 2>>
// CHECK:         scf.forall (%[[B:.*]], %[[G:.*]], %{{.*}}) in
// CHECK:           %[[C3:.*]] = arith.constant 3 : index
// CHECK:           %[[VH:.*]] = arith.divui %[[G]], %[[C3]] : index
// CHECK:           attn_tile.load %[[K]][%[[B]], %[[G]],
// CHECK:           attn_tile.load %[[V]][%[[B]], %[[VH]],
func.func @few(%q: memref<1x12x3x64xbf16>, %k: memref<1x6x?x64xbf16>, %v: memref<1x2x?x64xbf16>,
               %o: memref<1x12x3x64xbf16>) {
  attn.attention ins(%q, %k, %v : memref<1x12x3x64xbf16>, memref<1x6x?x64xbf16>, memref<1x2x?x64xbf16>)
      outs(%o : memref<1x12x3x64xbf16>)
      schedule(#attn_tile.warp_specialized<query_tile = 64, key_tile = 128, stages = 3, consumers = 1,
          traversal = grid, pack_gqa = true>)
  return
}

// -----

// Work items have the six groups that share a key and a value head. Their dV are those of heads, their dK are added up.
// CHECK-LABEL: attn_tile.kernel @gradient_grad_dkdv_kernel(
// CHECK-SAME:    %[[K:[a-z0-9]*]]: memref<?x3x?x64xf16>, %[[V:[a-z0-9]*]]: memref<?x6x?x64xf16>,
// CHECK-SAME:    %[[GROUPS:[a-z0-9]*]]: memref<?x6x?x64xf32>, %[[DV:[a-z0-9]*]]: memref<?x6x?x64xf16>)
// CHECK:         scf.forall (%[[B:.*]], %[[G:.*]], %{{.*}}) in
// CHECK:           %[[C2:.*]] = arith.constant 2 : index
// CHECK:           %[[KH:.*]] = arith.divui %[[G]], %[[C2]] : index
// CHECK:           attn_tile.load %[[K]][%[[B]], %[[KH]],
// CHECK:           attn_tile.load %[[V]][%[[B]], %[[G]],
// CHECK:           attn_tile.store %{{.*}}, %[[GROUPS]][%[[B]], %[[G]],
// CHECK:           attn_tile.store %{{.*}}, %[[DV]][%[[B]], %[[G]],
// CHECK-LABEL: attn_tile.kernel @gradient_grad_dk_sum_kernel(
// CHECK-SAME:    %[[GROUPS:.*]]: memref<?x6x?x64xf32>, %[[DK:.*]]: memref<?x3x?x64xf16>)
// CHECK:         scf.forall (%[[B:.*]], %[[H:.*]], %{{.*}}) in
// CHECK:           %[[FIRST:.*]] = arith.muli %[[H]], %[[C2:.*]] : index
// CHECK:           %[[SUM:.*]] = scf.for %[[I:.*]] = %{{.*}} to %[[C2]] step %{{.*}} iter_args(%[[OLD:.*]] = %{{.*}})
// CHECK:             %[[G:.*]] = arith.addi %[[FIRST]], %[[I]] : index
// CHECK:             %[[TILE:.*]] = attn_tile.load %[[GROUPS]][%[[B]], %[[G]],
// CHECK:             arith.addf %[[OLD]], %[[TILE]]
// CHECK:           %[[ROUNDED:.*]] = arith.truncf %[[SUM]]
// CHECK:           attn_tile.store %[[ROUNDED]], %[[DK]][%[[B]], %[[H]],
// CHECK-LABEL: attn_tile.kernel @gradient_grad_dq_kernel(
// CHECK-SAME:    %[[K:[a-z0-9]*]]: memref<?x3x?x64xf16>, %[[V:[a-z0-9]*]]: memref<?x6x?x64xf16>,
// CHECK:         scf.forall (%[[B:.*]], %[[H:.*]], %{{.*}}) in
// CHECK:           %[[KH:.*]] = arith.divui %[[H]]
// CHECK:           %[[VH:.*]] = arith.divui %[[H]]
// CHECK:           attn_tile.load %[[K]][%[[B]], %[[KH]],
// CHECK:           attn_tile.load %[[V]][%[[B]], %[[VH]],
// CHECK-LABEL: func.func @gradient
// CHECK:         %[[BUFFER:.*]] = memref.alloc({{.*}}) : memref<?x6x?x64xf32>
// CHECK:         attn_tile.launch @gradient_grad_dkdv_kernel
// CHECK:         attn_tile.launch @gradient_grad_dk_sum_kernel args(%[[BUFFER]],
// CHECK-NOT:     dv_sum
// CHECK:         memref.dealloc %[[BUFFER]]
!q = memref<?x12x?x64xf16>
!k = memref<?x3x?x64xf16>
!v = memref<?x6x?x64xf16>
func.func @gradient(%q: !q, %k: !k, %v: !v, %o: !q, %l: memref<?x12x?xf32>, %do: !q, %dq: !q, %dk: !k, %dv: !v) {
  attn.attention_grad ins(%q, %k, %v, %o, %l, %do : !q, !k, !v, !q, memref<?x12x?xf32>, !q)
      outs(%dq, %dk, %dv : !q, !k, !v)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
          dkdv = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
          dq = #attn_tile.sequential<query_tile = 16, key_tile = 64>>)
  return
}

// -----

// Of packed sequences, only the rows of sequences are written.
// CHECK-LABEL: attn_tile.kernel @sequences_grad_dkdv_kernel(
// CHECK-LABEL: attn_tile.kernel @sequences_grad_dv_sum_kernel(
// CHECK-SAME:    %[[GROUPS:[a-z0-9]*]]: memref<1x4x?x64xf32>, %[[DV:[a-z0-9]*]]: memref<1x2x?x64xf32>, %[[LIST:[a-z0-9]*]]: memref<
// CHECK:         attn_tile.store %{{.*}}, %[[DV]][{{.*}}] within(
!q4 = memref<1x4x?x64xf32>
!v2 = memref<1x2x?x64xf32>
func.func @sequences(%q: !q4, %v: !v2, %l: memref<1x4x?xf32>, %n: memref<?xi32>, %dq: !q4, %dk: !q4, %dv: !v2) {
  attn.attention_grad ins(%q, %q, %v, %q, %l, %q : !q4, !q4, !v2, !q4, memref<1x4x?xf32>, !q4)
      outs(%dq, %dk, %dv : !q4, !q4, !v2) sequences packed(%n, %n : memref<?xi32>, memref<?xi32>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
          dkdv = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
          dq = #attn_tile.sequential<query_tile = 16, key_tile = 64>>)
  return
}
