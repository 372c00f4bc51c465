// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=allgather ranks=4" --canonicalize --cse | FileCheck %s

#all = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#row = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#head = affine_map<(d0, d1, d2) -> (d1)>
#rows = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
!t = tensor<1x2x64x16xf32>
!l = tensor<1x2x64xf32>

// The gradient of sinks: each rank adds up its rows, and all ranks add up the results of ranks.
// CHECK-LABEL: func @sinks(
// CHECK-SAME: %[[DOUT:[^:]*]]: tensor<1x2x16x16xf32>) -> (tensor<1x2x16x16xf32>, tensor<2xf32>) {
// CHECK: %[[A:.*]] = attn.attention
// CHECK: %[[EMPTY:.*]] = tensor.empty() : tensor<1x2x16xf32>
// CHECK: %[[ZEROS:.*]] = linalg.fill ins({{.*}}) outs(%[[EMPTY]] : tensor<1x2x16xf32>)
// CHECK: %[[DELTA:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[DOUT]] : {{.*}}) outs(%[[ZEROS]] : tensor<1x2x16xf32>)
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[DELTA]] : tensor<1x2x16xf32>) outs({{.*}} : tensor<2xf32>)
// CHECK:   arith.subf
// CHECK: %[[SUMS:.*]] = attn.comm.all_gather ins(%[[SUM]] : tensor<2xf32>) outs({{.*}} : tensor<4x2xf32>)
// CHECK: %[[TOTAL:.*]] = linalg.generic {{.*}} iterator_types = ["reduction", "parallel"]} ins(%[[SUMS]] : tensor<4x2xf32>)
// CHECK:   arith.addf
// CHECK: return %[[A]], %[[TOTAL]]
func.func @sinks(%q: !t, %k: !t, %v: !t, %dout: !t) -> (!t, tensor<2xf32>) {
  %e = tensor.empty() : !t
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) -> !t
  %zero = arith.constant 0.0 : f32
  %el = tensor.empty() : !l
  %zeros = linalg.fill ins(%zero : f32) outs(%el : !l) -> !l
  %delta = linalg.generic {indexing_maps = [#all, #all, #row],
                           iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%0, %dout : !t, !t) outs(%zeros : !l) {
  ^bb0(%x: f32, %y: f32, %sum: f32):
    %xy = arith.mulf %x, %y : f32
    %r = arith.addf %sum, %xy : f32
    linalg.yield %r : f32
  } -> !l
  %es = tensor.empty() : tensor<2xf32>
  %none = linalg.fill ins(%zero : f32) outs(%es : tensor<2xf32>) -> tensor<2xf32>
  %dsinks = linalg.generic {indexing_maps = [#rows, #head], iterator_types = ["reduction", "parallel", "reduction"]}
      ins(%delta : !l) outs(%none : tensor<2xf32>) {
  ^bb0(%x: f32, %sum: f32):
    %r = arith.subf %sum, %x : f32
    linalg.yield %r : f32
  } -> tensor<2xf32>
  return %0, %dsinks : !t, tensor<2xf32>
}

// -----

!t = tensor<?x2x?x16xf32>

// Operands of operations on rows become chunks, and new destinations as long as chunks.
// CHECK-LABEL: func @scaled(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<?x2x?x16xf32>, %
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG: %[[N:.*]] = tensor.dim %[[Q]], %[[C2]]
// CHECK: %[[E:.*]] = tensor.empty(%{{.*}}, %[[N]]) : tensor<?x2x?x16xf32>
// CHECK: %[[EXP:.*]] = linalg.exp ins(%[[Q]] : {{.*}}) outs(%[[E]] :
// CHECK: attn.attention ins(%[[EXP]],
func.func @scaled(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %b = tensor.dim %q, %c0 : !t
  %n = tensor.dim %q, %c2 : !t
  %e = tensor.empty(%b, %n) : !t
  %exp = linalg.exp ins(%q : !t) outs(%e : !t) -> !t
  %0 = attn.attention ins(%exp, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>

// A backward function names its forward function, which is no call.
// CHECK-LABEL: func @attention_fwd(
// CHECK-SAME: tensor<1x2x16x16xf32>
// CHECK-LABEL: func @attention_bwd(
// CHECK-SAME: tensor<1x2x16x16xf32>
func.func @attention_fwd(%q: !t, %k: !t, %v: !t, %out: !t) -> !t {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0 : !t
}
func.func @attention_bwd(%q: !t, %k: !t, %v: !t, %out: !t) -> !t attributes {attn.forward = @attention_fwd} {
  %0 = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0 : !t
}

// -----

#all = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#position = affine_map<(d0, d1, d2, d3) -> (d2)>
!t = tensor<1x2x?x16xf32>

// Bodies read positions in the whole, and its length. A tensor of positions has them in its only dimension.
// CHECK-LABEL: func @positions(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<1x2x?x16xf32>{{.*}}, %[[BIAS:[^:]*]]: tensor<?xf32>
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG: %[[C4:.*]] = arith.constant 4 : index
// CHECK-DAG: %[[RANK:.*]] = attn.comm.rank ranks(4)
// CHECK-DAG: %[[N:.*]] = tensor.dim %[[Q]], %[[C2]]
// CHECK-DAG: %[[WHOLE:.*]] = arith.muli %[[N]], %[[C4]] : index
// CHECK-DAG: %[[E:.*]] = tensor.empty(%[[N]]) : tensor<1x2x?x16xf32>
// CHECK-DAG: %[[FIRST:.*]] = arith.muli %[[RANK]], %[[N]] : index
// CHECK: %[[R:.*]] = linalg.generic {{.*}} ins(%[[Q]], %[[BIAS]] : {{.*}}) outs(%[[E]] :
// CHECK:   %[[I:.*]] = linalg.index 2 : index
// CHECK:   %[[POSITION:.*]] = arith.addi %[[I]], %[[FIRST]] : index
// CHECK:   arith.subi %[[WHOLE]], %[[POSITION]]
// CHECK: attn.attention ins(%[[R]],
func.func @positions(%q: !t, %k: !t, %v: !t, %bias: tensor<?xf32>, %out: !t) -> !t {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %q, %c2 : !t
  %e = tensor.empty(%n) : !t
  %r = linalg.generic {indexing_maps = [#all, #position, #all],
                       iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%q, %bias : !t, tensor<?xf32>) outs(%e : !t) {
  ^bb0(%x: f32, %b: f32, %old: f32):
    %i = linalg.index 2 : index
    %left = arith.subi %n, %i : index
    %n32 = arith.index_cast %left : index to i32
    %f = arith.sitofp %n32 : i32 to f32
    %y = arith.mulf %x, %f : f32
    %z = arith.addf %y, %b : f32
    linalg.yield %z : f32
  } -> !t
  %0 = attn.attention ins(%r, %k, %v : !t, !t, !t) outs(%out : !t) -> !t
  return %0 : !t
}
