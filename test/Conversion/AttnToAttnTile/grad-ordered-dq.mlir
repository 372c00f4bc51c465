// RUN: attn-opt %s --convert-attn-to-attn-tile | FileCheck %s
// RUN: attn-opt %s --convert-attn-to-attn-tile | attn-opt --verify-roundtrip -o /dev/null

// Tiles of keys add to dQ in order. OrderedAccumulationTest.cpp runs
// what finds the numbers.

// A counter for each row, used for the first rows of tiles only, is
// cleared with the dQ accumulator.
// CHECK-LABEL: attn_tile.kernel @full_grad_preprocess_kernel(
// CHECK-SAME:    %[[SUMS:[a-z0-9]+]]: memref<?x4x?x128xf32>, %[[ORDERED:[a-z0-9]+]]: memref<?x4x?xi32>)
// CHECK:         scf.forall (%[[B:.*]], %[[H:.*]], %[[T:.*]]) in
// CHECK:           %[[ROW:.*]] = arith.muli %[[T]]
// CHECK:           attn_tile.thread_for to(%{{.*}}) {
// CHECK-NEXT:      ^bb0(%[[I:.*]]: index):
// CHECK-NEXT:        %[[OFROW:.*]] = arith.addi %[[ROW]], %[[I]] : index
// CHECK-NEXT:        %[[ZERO:.*]] = arith.constant 0 : i32
// CHECK-NEXT:        memref.store %[[ZERO]], %[[ORDERED]][%[[B]], %[[H]], %[[OFROW]]]
// CHECK:           attn_tile.store_fragments %{{.*}} to %[[SUMS]]

// Each tile of keys begins with queries of its own, and comes to the first ones
// after the last ones.
// CHECK-LABEL: attn_tile.kernel @full_grad_dkdv_kernel(
// CHECK-SAME:    %[[SUMS:[a-z0-9]+]]: memref<?x4x?x128xf32>, %[[ORDERED:[a-z0-9]+]]: memref<?x4x?xi32>)
// CHECK:         %[[PROGRAMS:.*]] = attn_tile.num_programs 0
// CHECK:         scf.forall (%[[B:.*]], %[[H:.*]], %{{.*}}) in
// CHECK:           arith.divui %{{.*}}, %[[PROGRAMS]] : index
// CHECK:           arith.minsi
// CHECK:           %[[OFWAVE:.*]] = arith.subi
// CHECK-NEXT:      %[[SHARE:.*]] = arith.muli %[[OFWAVE]], %{{.*}} : index
// CHECK-NEXT:      %[[SIZE:.*]] = arith.subi
// CHECK-NEXT:      %[[START:.*]] = arith.divui %[[SHARE]], %[[SIZE]] : index
// CHECK:           scf.for %[[STEP:.*]] = %{{.*}} to %[[COUNT:.*]] step
// CHECK-NEXT:        %[[PLACE:.*]] = arith.addi %[[STEP]], %[[START]] : index
// CHECK-NEXT:        %[[ISBEHIND:.*]] = arith.cmpi sge, %[[PLACE]], %[[COUNT]] : index
// CHECK-NEXT:        %[[BEHIND:.*]] = arith.subi %[[PLACE]], %[[COUNT]] : index
// CHECK-NEXT:        arith.select %[[ISBEHIND]], %[[BEHIND]], %[[PLACE]] : index
// CHECK:             attn_tile.load %{{.*}} stream(%[[STEP]] of %[[COUNT]])
// CHECK:             attn_tile.bulk_reduce_add %{{.*}} to %[[SUMS]][%[[B]], %[[H]], %[[QUERY:[^:,]*]], %{{[^,]*}}]
// CHECK-SAME:            ordered(%{{.*}} of %[[ORDERED]][%[[B]], %[[H]], %[[QUERY]]])

// CHECK-LABEL: attn_tile.kernel @full_grad_dq_convert_kernel(

// CHECK-LABEL: func.func @full(
// CHECK:         memref.alloc(%{{.*}}) : memref<?x4x?x128xf32>
// CHECK:         %[[ORDERED:.*]] = memref.alloc(%{{.*}}) : memref<?x4x?xi32>
// CHECK:         attn_tile.launch @full_grad_preprocess_kernel args({{.*}}, %[[ORDERED]] :
// CHECK-NEXT:    attn_tile.launch @full_grad_dkdv_kernel args({{.*}}, %[[ORDERED]] :
// CHECK-NEXT:    attn_tile.launch @full_grad_dq_convert_kernel
// CHECK:         memref.dealloc %[[ORDERED]]
func.func @full(%q: memref<?x4x?x128xbf16>, %k: memref<?x4x?x128xbf16>, %lse: memref<?x4x?xf32>) {
  attn.attention_grad
      ins(%q, %k, %k, %q, %lse, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>,
          memref<?x4x?x128xbf16>, memref<?x4x?xf32>, memref<?x4x?x128xbf16>)
      outs(%q, %k, %k : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      schedule(#attn_tile.gradient<
          preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, ordered_dq = true>>)
      deterministic
  return
}

// Pairs of tiles of keys: the second one goes through its queries downwards. A
// tile that makes the number even has no keys, and visits no queries.
// CHECK-LABEL: attn_tile.kernel @causal_grad_dkdv_kernel(
// CHECK-SAME:    %{{[a-z0-9]+}}: memref<?x4x?x128xbf16>, %[[KEY:[a-z0-9]+]]: memref<?x4x?x128xbf16>
// CHECK:         %[[KEYS:.*]] = memref.dim %[[KEY]]
// CHECK:         %[[PAIRS:.*]] = arith.divui
// CHECK:         %[[PAIRS:.*]] = arith.divui
// CHECK:         %[[TILES:.*]] = arith.muli %[[PAIRS]]
// CHECK:         scf.forall (%{{.*}}, %{{.*}}, %{{.*}}) in (%{{.*}}, %{{.*}}, %[[TILES]])
// CHECK:           %[[FIRST:.*]] = arith.muli
// CHECK:           %[[HALF:.*]] = arith.divui %[[TILES]]
// CHECK:           %[[ISSECOND:.*]] = arith.cmpi sge, %{{.*}}, %[[HALF]] : index
// CHECK:           %[[EXISTS:.*]] = arith.cmpi slt, %[[FIRST]], %[[KEYS]] : index
// CHECK-NEXT:      %[[COUNT:.*]] = arith.select %[[EXISTS]]
// CHECK-NEXT:      %[[MASKED:.*]] = arith.select %[[EXISTS]]
// CHECK:           scf.for %[[STEP:.*]] = %{{.*}} to %[[COUNT]] step
// CHECK:             %[[DOWN:.*]] = arith.subi %{{.*}}, %[[STEP]] : index
// CHECK:             %[[ISMASKED:.*]] = arith.cmpi slt, %[[STEP]], %[[MASKED]] : index
// CHECK:             %[[ISFIRST:.*]] = arith.xori %[[ISSECOND]]
// CHECK:             %[[GOESUP:.*]] = arith.ori %[[ISMASKED]], %[[ISFIRST]] : i1
// CHECK:             arith.select %[[GOESUP]], %[[STEP]], %[[DOWN]] : index
// CHECK:             attn_tile.bulk_reduce_add {{.*}} ordered(
func.func @causal(%q: memref<?x4x?x128xbf16>, %k: memref<?x4x?x128xbf16>, %lse: memref<?x4x?xf32>) {
  attn.attention_grad
      ins(%q, %k, %k, %q, %lse, %q : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>,
          memref<?x4x?x128xbf16>, memref<?x4x?xf32>, memref<?x4x?x128xbf16>)
      outs(%q, %k, %k : memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>, memref<?x4x?x128xbf16>)
      mask(#attn.causal)
      schedule(#attn_tile.gradient<
          preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = paired, ordered_dq = true>>)
      deterministic
  return
}
