// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file | FileCheck %s
// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file | attn-opt --split-input-file --verify-roundtrip -o /dev/null

// The dkdv kernel sees each pair once: it adds gradients of what the
// score_mod region reads. Pairs without weight add nothing.

// CHECK-LABEL: attn_tile.kernel @bias_grad_dkdv_kernel(
// CHECK-SAME:    %[[DX:[a-z0-9]+]]: memref<2x?x?xf32>
// CHECK:         %[[E:.*]] = math.exp2
// CHECK:         %[[P:.*]] = arith.select %{{.*}}, %{{.*}}, %[[E]]
// CHECK:         %[[DS:.*]] = arith.mulf %[[P]], %{{.*}} : vector<64x32xf32>
// CHECK:         %[[COUNTS:.*]] = arith.cmpf une, %[[P]]
// CHECK:         %[[TERMS:.*]] = arith.select %[[COUNTS]], %[[DS]]
// CHECK-NEXT:    attn_tile.scatter_add %[[TERMS]] into %[[DX]] at({{.*}}) lengths({{.*}}) transposed : vector<64x32xf32> into memref<2x?x?xf32> {
// CHECK-NEXT:    ^bb0(%b: index, %h: index, %i: index, %j: index):
// CHECK-NEXT:      attn_tile.yield %h, %i, %j : index, index, index
// CHECK-NEXT:    }
// CHECK:         attn_tile.map
// CHECK-LABEL: attn_tile.kernel @bias_grad_dq_kernel(
// CHECK-NOT:     scatter_add
// CHECK-LABEL: func.func @bias
func.func @bias(%q: memref<?x2x?x64xbf16>, %lse: memref<?x2x?xf32>, %bias: memref<2x?x?xf32>, %dbias: memref<2x?x?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>,
          memref<?x2x?x64xbf16>, memref<?x2x?xf32>, memref<?x2x?x64xbf16>)
      outs(%q, %q, %q, %dbias : memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>, memref<2x?x?xf32>)
      schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %x = memref.load %bias[%h, %i, %j] : memref<2x?x?xf32>
        %r = arith.addf %s, %x : f32
        attn.yield %r : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %dx: memref<2x?x?xf32>):
        attn.accumulate %ds into %dx[%h, %i, %j] : memref<2x?x?xf32>
        attn.yield %ds : f32
      }
  return
}

// -----

// An addition in a conditional adds zero where the condition does not hold; its
// indices are made without it. One key, query and head has one owner.

// CHECK-LABEL: attn_tile.kernel @near_grad_dkdv_kernel(
// CHECK:         arith.cmpf une
// CHECK-NEXT:    %[[TERMS:.*]] = attn_tile.map
// CHECK-NEXT:    ^bb0(%{{.*}}: f32, %[[DS:.*]]: f32, %b: index, %h: index, %i: index, %j: index):
// CHECK-NEXT:      %[[NEAR:.*]] = arith.cmpi ult, %j, %i
// CHECK-NEXT:      %[[ZERO:.*]] = arith.constant 0.0
// CHECK-NEXT:      %[[TERM:.*]] = arith.select %[[NEAR]], %[[DS]], %[[ZERO]]
// CHECK-NEXT:      attn_tile.yield %[[TERM]]
// CHECK:         %[[KEPT:.*]] = arith.select %{{.*}}, %[[TERMS]]
// CHECK:         attn_tile.scatter_add %[[KEPT]]
// CHECK:           %[[D:.*]] = arith.subi %i, %j
// CHECK-NEXT:      attn_tile.yield %[[D]]
func.func @near(%q: memref<1x1x?x64xbf16>, %lse: memref<1x1x?xf32>, %dtable: memref<?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<1x1x?x64xbf16>, memref<1x1x?x64xbf16>, memref<1x1x?x64xbf16>,
          memref<1x1x?x64xbf16>, memref<1x1x?xf32>, memref<1x1x?x64xbf16>)
      outs(%q, %q, %q, %dtable : memref<1x1x?x64xbf16>, memref<1x1x?x64xbf16>, memref<1x1x?x64xbf16>, memref<?xf32>)
      schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        attn.yield %s : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %dx: memref<?xf32>):
        %near = arith.cmpi ult, %j, %i : index
        scf.if %near {
          %d = arith.subi %i, %j : index
          attn.accumulate %ds into %dx[%d] : memref<?xf32>
        }
        attn.yield %ds : f32
      }
  return
}

// -----

// In order where one row of tiles adds to each element.

// CHECK-LABEL: attn_tile.kernel @deterministic_grad_dkdv_kernel(
// CHECK:         attn_tile.scatter_add
func.func @deterministic(%q: memref<?x2x?x64xbf16>, %lse: memref<?x2x?xf32>, %dx: memref<?x2x?xf32>) {
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>,
          memref<?x2x?x64xbf16>, memref<?x2x?xf32>, memref<?x2x?x64xbf16>)
      outs(%q, %q, %q, %dx : memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?xf32>)
      schedule(#attn_tile.gradient<preprocess = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
                                   dkdv = #attn_tile.sequential<query_tile = 16, key_tile = 64>,
                                   dq = #attn_tile.sequential<query_tile = 16, key_tile = 64>>)
      deterministic
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        attn.yield %s : f32
      } score_mod_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index, %x: memref<?x2x?xf32>):
        attn.accumulate %ds into %x[%b, %h, %j] : memref<?x2x?xf32>
        attn.yield %ds : f32
      }
  return
}
