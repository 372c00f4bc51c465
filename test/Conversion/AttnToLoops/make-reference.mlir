// RUN: attn-opt %s --attn-make-reference --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @forward(
// CHECK: attn.attention
// CHECK: return

// CHECK-LABEL: func.func private @forward_reference(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: memref<?x8x?x64xbf16, strided<[?, ?, ?, ?], offset: ?>> {attn.name = "q"}, %[[OUT:[a-z0-9]+]]: memref<?x8x?x64xf64, strided<[?, ?, ?, ?], offset: ?>> {attn.name = "out"}, %[[LSE:[a-z0-9]+]]: memref<?x8x?xf64>, %[[SLOPE:[a-z0-9]+]]: f32, %[[STEP:[a-z0-9]+]]: index) attributes {note = "kept"} {
// CHECK: %[[TWO:.*]] = arith.constant 2.000000e+00 : f32
// CHECK: scf.parallel {{.*}} step (%{{.*}}, %{{.*}}, %[[STEP]])
// CHECK: arith.mulf %{{.*}}, %[[SLOPE]] : f32
// CHECK: arith.addf %{{.*}}, %[[TWO]] : f32
// CHECK: memref.store %{{.*}}, %[[OUT]][{{.*}}] : memref<?x8x?x64xf64, strided<[?, ?, ?, ?], offset: ?>>
// CHECK: memref.store %{{.*}}, %[[LSE]][{{.*}}] : memref<?x8x?xf64>
// CHECK: return
func.func @forward(
    %q: memref<?x8x?x64xbf16, strided<[?, ?, ?, ?], offset: ?>> {attn.name = "q"},
    %out: memref<?x8x?x64xbf16, strided<[?, ?, ?, ?], offset: ?>> {attn.name = "out"},
    %lse: memref<?x8x?xf32>, %slope: f32) attributes {note = "kept"} {
  %two = arith.constant 2.0 : f32
  attn.attention
      ins(%q, %q, %q : memref<?x8x?x64xbf16, strided<[?, ?, ?, ?], offset: ?>>,
          memref<?x8x?x64xbf16, strided<[?, ?, ?, ?], offset: ?>>,
          memref<?x8x?x64xbf16, strided<[?, ?, ?, ?], offset: ?>>)
      outs(%out, %lse : memref<?x8x?x64xbf16, strided<[?, ?, ?, ?], offset: ?>>,
           memref<?x8x?xf32>)
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %t = arith.mulf %s, %slope : f32
        %u = arith.addf %t, %two : f32
        attn.yield %u : f32
      }
  return
}

// -----

// Private functions, functions without a body and functions of other things
// are not spoken of.
// CHECK-NOT: _reference
func.func private @private(%q: memref<2x4x8x16xf32>, %out: memref<2x4x8x16xf32>) {
  attn.attention
      ins(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>)
      outs(%out : memref<2x4x8x16xf32>)
  return
}
func.func private @declaration(memref<2x4x8x16xf32>)
func.func @other(%m: memref<?xf32>, %i: index) {
  %c = arith.constant 0.0 : f32
  memref.store %c, %m[%i] : memref<?xf32>
  return
}

// -----

func.func @other_effects(%q: memref<2x4x8x16xf32>, %m: memref<?xf32>, %s: f32, %i: index) {
  // expected-remark @below {{no reference for 'memref.alloc'}}
  %out = memref.alloc() : memref<2x4x8x16xf32>
  attn.attention
      ins(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>)
      outs(%out : memref<2x4x8x16xf32>)
  return
}

// -----

func.func @output_is_cast(%q: memref<2x4x8x16xf32>, %arg: memref<?x4x8x16xf32>) {
  %out = memref.cast %arg : memref<?x4x8x16xf32> to memref<2x4x8x16xf32>
  // expected-remark @below {{no reference for an output that is not an argument}}
  attn.attention
      ins(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>)
      outs(%out : memref<2x4x8x16xf32>)
  return
}

// -----

// What later attention reads is there in full.
// CHECK-LABEL: func.func private @chain_reference(
// CHECK-SAME: %[[OUT1:[a-z0-9]+]]: memref<2x4x8x16xf64>, %[[OUT2:[a-z0-9]+]]: memref<2x4x8x16xf64>, %[[STEP:[a-z0-9]+]]: index)
// CHECK: %[[ONE:.*]] = arith.constant 1 : index
// CHECK: scf.parallel {{.*}} step (%{{.*}}, %{{.*}}, %[[ONE]])
// CHECK: memref.store %{{.*}}, %[[OUT1]]
// CHECK: scf.parallel {{.*}} step (%{{.*}}, %{{.*}}, %[[STEP]])
// CHECK: memref.load %[[OUT1]]
// CHECK: memref.store %{{.*}}, %[[OUT2]]
func.func @chain(%q: memref<2x4x8x16xf32>, %out1: memref<2x4x8x16xf32>,
                 %out2: memref<2x4x8x16xf32>) {
  attn.attention
      ins(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>)
      outs(%out1 : memref<2x4x8x16xf32>)
  attn.attention
      ins(%out1, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>)
      outs(%out2 : memref<2x4x8x16xf32>)
  return
}

// -----

func.func @region_reads_output(%q: memref<2x4x8x16xf32>, %out1: memref<2x4x8x16xf32>,
                               %out2: memref<2x4x8x16xf32>) {
  attn.attention
      ins(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>)
      outs(%out1 : memref<2x4x8x16xf32>)
  attn.attention
      ins(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>)
      outs(%out2 : memref<2x4x8x16xf32>)
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        // expected-remark @below {{no reference for an output that is used}}
        %t = memref.load %out1[%b, %h, %i, %i] : memref<2x4x8x16xf32>
        attn.yield %t : f32
      }
  return
}

// -----

// Gradients of captured values come from all rows.
// CHECK-LABEL: func.func private @gradient_reference(
// CHECK-SAME: %[[DQ:[a-z0-9]+]]: memref<2x4x8x16xf64>, %[[DBIAS:[a-z0-9]+]]: memref<8xf64>, %[[STEP:[a-z0-9]+]]: index)
// CHECK: linalg.fill ins(%{{.*}} : f64) outs(%[[DBIAS]] : memref<8xf64>)
// CHECK: %[[ONE:.*]] = arith.constant 1 : index
// CHECK: scf.parallel {{.*}} step (%{{.*}}, %{{.*}}, %[[ONE]])
// CHECK: memref.atomic_rmw addf %{{.*}}, %[[DBIAS]][%{{.*}}] : (f64, memref<8xf64>) -> f64
// CHECK: memref.store %{{.*}}, %[[DQ]]
// CHECK: scf.parallel {{.*}} step (%{{.*}}, %{{.*}}, %[[STEP]])
// CHECK-NOT: memref.atomic_rmw
// CHECK: return
func.func @gradient(%q: memref<2x4x8x16xf32>, %lse: memref<2x4x8xf32>,
                    %dq: memref<2x4x8x16xf32>, %dbias: memref<8xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%dbias : memref<8xf32>)
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>, memref<2x4x8x16xf32>, memref<2x4x8xf32>,
          memref<2x4x8x16xf32>)
      outs(%dq, %dq, %dq, %dbias : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
           memref<2x4x8x16xf32>, memref<8xf32>)
      score_grad {
      ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index,
           %g: memref<8xf32>):
        attn.accumulate %ds into %g[%j] : memref<8xf32>
        attn.yield %ds : f32
      }
  return
}

// -----

func.func @no_score_grad(%q: memref<2x4x8x16xf32>, %lse: memref<2x4x8xf32>,
                         %dq: memref<2x4x8x16xf32>) {
  // expected-error @below {{'attn.attention_grad' op with a score region must have a score_grad region before it is converted to loops}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>, memref<2x4x8x16xf32>, memref<2x4x8xf32>,
          memref<2x4x8x16xf32>)
      outs(%dq, %dq, %dq : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
           memref<2x4x8x16xf32>)
      score {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %t = math.tanh %s : f32
        attn.yield %t : f32
      }
  return
}

// -----

// expected-remark @below {{no reference for a function with results}}
func.func @results(%q: memref<2x4x8x16xf32>, %out: memref<2x4x8x16xf32>) -> index {
  %c = arith.constant 0 : index
  attn.attention
      ins(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>)
      outs(%out : memref<2x4x8x16xf32>)
  return %c : index
}

// -----

// expected-remark @below {{no reference for control flow}}
func.func @branch(%q: memref<2x4x8x16xf32>, %out: memref<2x4x8x16xf32>) {
  cf.br ^bb1
^bb1:
  attn.attention
      ins(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>)
      outs(%out : memref<2x4x8x16xf32>)
  return
}

// -----

func.func @tensors(%q: tensor<2x4x8x16xf32>) {
  // expected-remark @below {{no reference for attention on tensors}}
  %0 = attn.attention
      ins(%q, %q, %q : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%q : tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32>
  return
}

// -----

// CHECK-LABEL: func.func @f(
// expected-remark @below {{no reference because 'f_reference' exists already}}
func.func @f(%q: memref<2x4x8x16xf32>, %out: memref<2x4x8x16xf32>) {
  attn.attention
      ins(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>)
      outs(%out : memref<2x4x8x16xf32>)
  return
}
func.func private @f_reference()
