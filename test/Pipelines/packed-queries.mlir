// RUN: attn-compile %s --target=sm_90a --emit=mlir --stop-after=kernel -o - | FileCheck %s --check-prefixes=CHECK,SM90A
// RUN: attn-compile %s --target=sm_80 --emit=mlir --stop-after=kernel -o - | FileCheck %s --check-prefixes=CHECK,SM80
// RUN: attn-compile %s --target=host --emit=mlir --stop-after=host -o - | FileCheck %s --check-prefix=HOST

// Queries are read and stored in the one batch entry at the row that the list of work items gives; pages of keys are
// found in the row of the sequence.

// CHECK-LABEL: attn_tile.kernel @chunks_work_items
// CHECK-LABEL: attn_tile.kernel @chunks_kernel
// CHECK:         attn_tile.copy %{{[a-z0-9_]+}}[%c0, %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}}, %c0] to
// SM90A:         attn_tile.copy %{{.*}}[%[[SEQUENCE:[a-z0-9_]+]], %{{.*}}, %{{.*}}, %c0] pages 64(
// SM90A-SAME:      !attn_tile.tensor_map<4, 64x64xbf16> to <128x64xbf16>
// SM80:          attn_tile.copy %{{.*}}[%[[SEQUENCE:[a-z0-9_]+]], %{{.*}}, %{{.*}}, %c0] pages 64(
// CHECK:         attn_tile.copy %{{.*}}[%[[SEQUENCE]], %{{.*}}, %{{.*}}, %c0] pages 64(
// CHECK:         attn_tile.store {{.*}}[%c0, %{{.*}}, %{{.*}}, %c0] within({{.*}}) : vector<{{.*}}xbf16>, memref<1x8x?x64xbf16

// The boundaries of queries are one more than the lengths of keys.

// HOST-DAG: constant @attn_symbol{{[0-9]+}}_of_{{.*}}("sequences + 1\00")
// HOST-DAG: constant @attn_symbol{{[0-9]+}}_of_{{.*}}("sequences\00")

!q = tensor<1x8x?x64xbf16>
!kv = tensor<?x2x64x64xbf16>
func.func @chunks(%q: !q, %k: !kv, %v: !kv, %o: !q, %cu: tensor<?xi32>, %n: tensor<?xi32>, %t: tensor<?x?xi32>) -> !q {
  %r = attn.attention ins(%q, %k, %v : !q, !kv, !kv) outs(%o : !q)
      sequences packed_queries(%cu, %n : tensor<?xi32>, tensor<?xi32>) page_table(%t : tensor<?x?xi32>)
      mask(#attn.causal) -> !q
  return %r : !q
}
