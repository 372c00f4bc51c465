// RUN: attn-opt %s --convert-attn-to-attn-tile --canonicalize --cse --split-input-file | FileCheck %s

// The dkdv kernel visits the tiles of queries that attend its keys, those that the mask cuts first: it is the
// analysis of what queries attend, asked about the other dimension.

#tile = #attn_tile.sequential<query_tile = 64, key_tile = 128>

// From the tile of the diagonal to the end; one range, in order.

// CHECK-LABEL: attn_tile.kernel @causal_grad_dkdv_kernel
// CHECK:         %[[BEGIN:.*]] = arith.divui %[[KEY:.*]], %c64 : index
// CHECK:         %[[HIGH:.*]] = arith.minsi %{{.*}}, %c256 : index
// CHECK:         %[[CUT:.*]] = arith.subi %[[HIGH]], %[[BEGIN]] : index
// CHECK:         %[[FULL:.*]] = arith.subi %c256, %[[HIGH]] : index
// CHECK:         %[[COUNT:.*]] = arith.addi %[[CUT]], %[[FULL]] : index
// CHECK:         %[[PARTIAL:.*]] = arith.cmpi sgt, %{{.*}}, %c16384 : index
// CHECK:         %[[MASKED:.*]] = arith.select %[[PARTIAL]], %[[COUNT]], %[[CUT]] : index
// CHECK:         scf.for %[[T:.*]] = %c0 to %[[COUNT]]
// CHECK:           arith.addi %[[BEGIN]], %[[T]] : index
// CHECK:           %[[IS:.*]] = arith.cmpi slt, %[[T]], %[[MASKED]] : index
// CHECK:           scf.if %[[IS]]
// CHECK:             attn_tile.mask {{.*}} by(#attn.causal) transposed
func.func @causal(%q: memref<1x1x16384x64xf32>, %lse: memref<1x1x16384xf32>) {
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<1x1x16384x64xf32>, memref<1x1x16384x64xf32>, memref<1x1x16384x64xf32>,
          memref<1x1x16384x64xf32>, memref<1x1x16384xf32>, memref<1x1x16384x64xf32>)
      outs(%q, %q, %q : memref<1x1x16384x64xf32>, memref<1x1x16384x64xf32>, memref<1x1x16384x64xf32>)
      mask(#attn.causal) schedule(#attn_tile.gradient<preprocess = #tile, dkdv = #tile>)
  return
}

// -----

#tile = #attn_tile.sequential<query_tile = 64, key_tile = 128>

// Nothing beyond the block: both ends are cut, and full tiles lie between.

// CHECK-LABEL: attn_tile.kernel @chunked_grad_dkdv_kernel
// CHECK:         %[[BLOCK:.*]] = arith.divui %{{.*}}, %c1024 : index
// CHECK:         %[[FIRST:.*]] = arith.muli %[[BLOCK]], %c1024 : index
// CHECK:         %[[NEXT:.*]] = arith.addi %[[FIRST]], %c1024 : index
// CHECK:         %[[END:.*]] = arith.minsi %[[NEXT]], %c16384 : index
// CHECK:         scf.for %[[T:.*]] = %c0 to %{{.*}} step
// CHECK-COUNT-2:   arith.select {{.*}} : index
// CHECK:           scf.if
// CHECK:             attn_tile.mask
func.func @chunked(%q: memref<1x1x16384x64xf32>, %lse: memref<1x1x16384xf32>) {
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<1x1x16384x64xf32>, memref<1x1x16384x64xf32>, memref<1x1x16384x64xf32>,
          memref<1x1x16384x64xf32>, memref<1x1x16384xf32>, memref<1x1x16384x64xf32>)
      outs(%q, %q, %q : memref<1x1x16384x64xf32>, memref<1x1x16384x64xf32>, memref<1x1x16384x64xf32>)
      mask(#attn.and<#attn.causal, #attn.local_blocks<size = 1024, before = 0, after = 0>>) schedule(#attn_tile.gradient<preprocess = #tile, dkdv = #tile>)
  return
}

// -----

#tile = #attn_tile.sequential<query_tile = 64, key_tile = 128>

// All queries attend the keys of the prefix; others are those of a causal mask.

// CHECK-LABEL: attn_tile.kernel @prefix_grad_dkdv_kernel
// CHECK:         %[[LEFT:.*]] = arith.subi %c4095, %[[KEY:.*]] : index
// CHECK:         %[[IS_PREFIX:.*]] = arith.cmpi sge, %[[LEFT]], %c0 : index
// CHECK:         arith.select %[[IS_PREFIX]], %c16384, %c0 : index
// CHECK:         arith.divui %[[KEY]], %c64 : index
// CHECK:         scf.for
// CHECK-COUNT-2:   arith.select {{.*}} : index
func.func @prefix(%q: memref<1x1x16384x64xf32>, %lse: memref<1x1x16384xf32>) {
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<1x1x16384x64xf32>, memref<1x1x16384x64xf32>, memref<1x1x16384x64xf32>,
          memref<1x1x16384x64xf32>, memref<1x1x16384xf32>, memref<1x1x16384x64xf32>)
      outs(%q, %q, %q : memref<1x1x16384x64xf32>, memref<1x1x16384x64xf32>, memref<1x1x16384x64xf32>)
      mask(#attn.prefix_lm<length = 4096>) schedule(#attn_tile.gradient<preprocess = #tile, dkdv = #tile>)
  return
}

// -----

#tile = #attn_tile.sequential<query_tile = 64, key_tile = 128>

// A region has the loop over the tiles that it cuts to itself, and adds the mask to the scores.

// CHECK-LABEL: attn_tile.kernel @region_grad_dkdv_kernel
// CHECK:         arith.cmpi sgt, %{{.*}}, %c16384 : index
// CHECK:         %[[MASKED:.*]] = arith.select
// CHECK:         scf.for %{{.*}} = %c0 to %[[MASKED]]
// CHECK:           %[[LEFT_OUT:.*]] = attn_tile.mask %cst
// CHECK:           vector.contract {{.*}}, %[[LEFT_OUT]]
// CHECK-NOT:       attn_tile.mask
// CHECK:         scf.for %{{.*}} = %[[MASKED]] to
// CHECK-NOT:       attn_tile.mask
// CHECK:           attn_tile.bulk_reduce_add
func.func @region(%q: memref<1x1x16384x64xf32>, %lse: memref<1x1x16384xf32>) {
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<1x1x16384x64xf32>, memref<1x1x16384x64xf32>, memref<1x1x16384x64xf32>,
          memref<1x1x16384x64xf32>, memref<1x1x16384xf32>, memref<1x1x16384x64xf32>)
      outs(%q, %q, %q : memref<1x1x16384x64xf32>, memref<1x1x16384x64xf32>, memref<1x1x16384x64xf32>)
      schedule(#attn_tile.gradient<preprocess = #tile, dkdv = #tile>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %c100 = arith.constant 100 : index
        %end = arith.addi %j, %c100 : index
        %r = arith.cmpi sle, %i, %end : index
        attn.yield %r : i1
      }
  return
}
