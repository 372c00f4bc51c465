// RUN: attn-opt %s --convert-attn-to-attn-tile=target=sm_90a --canonicalize --cse --split-input-file | FileCheck %s

// A chunk has 8 neighbours of bf16. Rows are 3 chunks, so a head of 5 queries has 15. The factors of a chunk are
// computed once; the loads of all partial results come before the stores, and accesses are aligned.

// CHECK-LABEL: attn_tile.kernel @merged_merge
// CHECK-SAME: (%[[O0:[a-z0-9_]+]]: memref<2x3x5x24xbf16>, %[[O1:[a-z0-9_]+]]: memref<2x3x5x24xbf16>,
// CHECK-SAME: %[[L0:[a-z0-9_]+]]: memref<2x3x5xf32>, %[[L1:[a-z0-9_]+]]: memref<2x3x5xf32>,
// CHECK-SAME: %[[OUT:[a-z0-9_]+]]: memref<2x3x5x24xbf16>, %[[LSE:[a-z0-9_]+]]: memref<2x3x5xf32>)
// CHECK-DAG: %[[PART:[a-z0-9_]+]] = arith.constant 5.000000e-01 : f32
// CHECK-DAG: %[[PARTS:[a-z0-9_]+]] = arith.constant 2.000000e+00 : f32
// CHECK-DAG: %[[CHUNKS:[a-z0-9_]+]] = arith.constant 15 : index
// CHECK: scf.forall (%[[B:[a-z0-9_]+]], %[[H:[a-z0-9_]+]]) in (2, 3)
// CHECK: attn_tile.thread_for to(%[[CHUNKS]]) together(2)
// CHECK: memref.load %[[L0]][%[[B]], %[[H]], %[[I:[a-z0-9_]+]]] {attn_tile.in_bounds}
// CHECK: memref.load %[[O0]]{{.*}} {alignment = 16 : i64, attn_tile.in_bounds}
// CHECK-COUNT-3: memref.load %[[O0]]
// CHECK: memref.load %[[O0]]{{.*}} {alignment = 8 : i64, attn_tile.in_bounds}
// CHECK: memref.load %[[L1]]
// CHECK-COUNT-8: memref.load %[[O1]]
// CHECK-COUNT-3: math.exp2
// CHECK-NOT: math.exp2
// CHECK: arith.divf
// CHECK: math.log
// CHECK-NOT: memref.load
// CHECK-COUNT-8: memref.store %{{.*}}, %[[OUT]]
// CHECK: scf.if
// CHECK: memref.store %{{.*}}, %[[LSE]][%[[B]], %[[H]], %[[I]]]
func.func @merged(%a: memref<2x3x5x24xbf16>, %b: memref<2x3x5x24xbf16>, %la: memref<2x3x5xf32>,
                  %lb: memref<2x3x5xf32>, %o: memref<2x3x5x24xbf16>, %l: memref<2x3x5xf32>) {
  attn.merge ins(%a, %b : memref<2x3x5x24xbf16>, memref<2x3x5x24xbf16>)
      lses(%la, %lb : memref<2x3x5xf32>, memref<2x3x5xf32>) outs(%o, %l : memref<2x3x5x24xbf16>, memref<2x3x5xf32>)
      schedule(#attn_tile.move_rows<chunks = 64, threads = 32, together = 2, aligned = true, loads_early = true>)
  return
}

// -----

// Three parts count as a quarter of a key each. Without a log-sum-exp no logarithm is computed. On the host nothing is
// known about alignments.

// CHECK-LABEL: attn_tile.kernel @three_merge
// CHECK-DAG: arith.constant 2.500000e-01 : f32
// CHECK-NOT: alignment
// CHECK-NOT: math.log
// CHECK: attn_tile.return
func.func @three(%a: memref<2x3x5x24xf32>, %la: memref<2x3x5xf32>, %o: memref<2x3x5x24xf32>) {
  attn.merge ins(%a, %a, %a : memref<2x3x5x24xf32>, memref<2x3x5x24xf32>, memref<2x3x5x24xf32>)
      lses(%la, %la, %la : memref<2x3x5xf32>, memref<2x3x5xf32>, memref<2x3x5xf32>) outs(%o : memref<2x3x5x24xf32>)
      schedule(#attn_tile.move_rows<chunks = 1024, threads = 1>)
  return
}

// -----

// A work item of the gradient has 2 rows, of which the second one may not exist: the last one is read in its place. Its
// threads reduce dot(dout, partial output) before they store. Rows of 24 elements have 24 chunks for 32 threads.

// CHECK-LABEL: attn_tile.kernel @gradient_merge_grad
// CHECK-SAME: (%{{[a-z0-9_]+}}: memref<2x3x5x24xf16>, %{{[a-z0-9_]+}}: memref<2x3x5x24xf16>,
// CHECK-SAME: %{{[a-z0-9_]+}}: memref<2x3x5xf32>, %{{[a-z0-9_]+}}: memref<2x3x5xf32>,
// CHECK-SAME: %[[DOUT:[a-z0-9_]+]]: memref<2x3x5x24xf16>, %[[DLSE:[a-z0-9_]+]]: memref<2x3x5xf32>,
// CHECK-SAME: %[[DO0:[a-z0-9_]+]]: memref<2x3x5x24xf16>, %[[DO1:[a-z0-9_]+]]: memref<2x3x5x24xf32>,
// CHECK-DAG: %[[CHUNKS:[a-z0-9_]+]] = arith.constant 24 : index
// CHECK-DAG: %[[LAST:[a-z0-9_]+]] = arith.constant 4 : index
// CHECK-DAG: %[[ROWS:[a-z0-9_]+]] = arith.constant 5 : index
// CHECK: scf.forall (%[[B:[a-z0-9_]+]], %[[H:[a-z0-9_]+]], %{{.*}}) in (2, 3, 3)
// CHECK: %[[I0:[a-z0-9_]+]] = arith.muli
// CHECK: memref.load %[[DLSE]][%[[B]], %[[H]], %[[I0]]]
// CHECK: %[[NEXT:[a-z0-9_]+]] = arith.addi %[[I0]]
// CHECK: %[[EXISTS:[a-z0-9_]+]] = arith.cmpi slt, %[[NEXT]], %[[ROWS]]
// CHECK: %[[I1:[a-z0-9_]+]] = arith.minsi %[[NEXT]], %[[LAST]]
// CHECK: memref.load %[[DLSE]][%[[B]], %[[H]], %[[I1]]]
// CHECK: attn_tile.reduce to(%[[CHUNKS]])
// CHECK-COUNT-6: memref.load
// CHECK-NOT: memref.load
// CHECK: attn_tile.thread_for
// CHECK-NOT: scf.if
// CHECK-COUNT-2: memref.store
// CHECK: attn_tile.thread_for to(%[[CHUNKS]])
// CHECK: memref.load %[[DOUT]][%[[B]], %[[H]], %[[I0]], %[[C:[a-z0-9_]+]]]
// CHECK-NOT: scf.if
// CHECK: memref.store %{{.*}}, %[[DO0]][%[[B]], %[[H]], %[[I0]], %[[C]]]
// CHECK: memref.store %{{.*}}, %[[DO1]][%[[B]], %[[H]], %[[I0]], %[[C]]]
// CHECK: scf.if %[[EXISTS]]
// CHECK-COUNT-2: memref.store
// CHECK: memref.load %[[DOUT]][%[[B]], %[[H]], %[[I1]], %[[C:[a-z0-9_]+]]]
// CHECK: scf.if %[[EXISTS]]
// CHECK: memref.store %{{.*}}, %[[DO0]][%[[B]], %[[H]], %[[I1]], %[[C]]]
// CHECK: memref.store %{{.*}}, %[[DO1]][%[[B]], %[[H]], %[[I1]], %[[C]]]
func.func @gradient(%a: memref<2x3x5x24xf16>, %b: memref<2x3x5x24xf16>, %la: memref<2x3x5xf32>,
                    %lb: memref<2x3x5xf32>, %dout: memref<2x3x5x24xf16>, %dlse: memref<2x3x5xf32>,
                    %da: memref<2x3x5x24xf16>, %db: memref<2x3x5x24xf32>, %dla: memref<2x3x5xf32>,
                    %dlb: memref<2x3x5xf32>) {
  attn.merge_grad ins(%a, %b : memref<2x3x5x24xf16>, memref<2x3x5x24xf16>)
      lses(%la, %lb : memref<2x3x5xf32>, memref<2x3x5xf32>) dout(%dout : memref<2x3x5x24xf16>)
      dlse(%dlse : memref<2x3x5xf32>) outs(%da, %db : memref<2x3x5x24xf16>, memref<2x3x5x24xf32>)
      dlses(%dla, %dlb : memref<2x3x5xf32>, memref<2x3x5xf32>)
      schedule(#attn_tile.move_rows<chunks = 64, threads = 32, together = 2, aligned = true, loads_early = true>)
  return
}
