// RUN: attn-opt %s --attn-make-reference --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @forward(
// CHECK: attn.attention
// CHECK: return

// CHECK-LABEL: func.func private @forward.reference(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: memref<?x8x?x64xbf16, strided<[?, ?, ?, ?], offset: ?>> {attn.name = "q"},
// CHECK-SAME: %[[OUT:[a-z0-9]+]]: memref<?x8x?x64xf64, strided<[?, ?, ?, ?], offset: ?>> {attn.name = "out"}, %[[LSE:[a-z0-9]+]]: memref<?x8x?xf64>,
// CHECK-SAME: %[[SLOPE:[a-z0-9]+]]: f32, %[[STEP:[a-z0-9]+]]: index) attributes {note = "kept"} {
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
      score_mod {
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
// CHECK-NOT: .reference(
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

func.func @other_effects(%q: memref<2x4x8x16xf32>, %m: memref<?xf32>, %s: f32, %i: index,
                         %out: memref<2x4x8x16xf32>) {
  // expected-remark @below {{no reference for 'memref.store'}}
  memref.store %s, %m[%i] : memref<?xf32>
  attn.attention
      ins(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>)
      outs(%out : memref<2x4x8x16xf32>)
  return
}

// -----

memref.global @global : memref<2x4x8x16xf32>
func.func @output_is_global(%q: memref<2x4x8x16xf32>) {
  %out = memref.get_global @global : memref<2x4x8x16xf32>
  // expected-remark @below {{no reference for an output that is neither an argument nor allocated in the function}}
  attn.attention
      ins(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>)
      outs(%out : memref<2x4x8x16xf32>)
  return
}

// -----

// What later attention reads is there in full.
// CHECK-LABEL: func.func private @chain.reference(
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
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        // expected-remark @below {{no reference for an output that is used}}
        %t = memref.load %out1[%b, %h, %i, %i] : memref<2x4x8x16xf32>
        attn.yield %t : f32
      }
  return
}

// -----

// Gradients of captured values come from all rows.
// CHECK-LABEL: func.func private @gradient.reference(
// CHECK-SAME: %[[DQ:[a-z0-9]+]]: memref<2x4x8x16xf64>, %[[DBIAS:[a-z0-9]+]]: memref<8xf64>, %[[STEP:[a-z0-9]+]]: index)
// CHECK: scf.parallel
// CHECK: memref.store %{{.*}}, %[[DBIAS]]
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
      score_mod_grad {
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
  // expected-error @below {{'attn.attention_grad' op with a score_mod region must have a score_mod_grad region before it is converted to loops}}
  attn.attention_grad
      ins(%q, %q, %q, %q, %lse, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>, memref<2x4x8x16xf32>, memref<2x4x8xf32>,
          memref<2x4x8x16xf32>)
      outs(%dq, %dq, %dq : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
           memref<2x4x8x16xf32>)
      score_mod {
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
// expected-remark @below {{no reference because 'f.reference' exists already}}
func.func @f(%q: memref<2x4x8x16xf32>, %out: memref<2x4x8x16xf32>) {
  attn.attention
      ins(%q, %q, %q : memref<2x4x8x16xf32>, memref<2x4x8x16xf32>,
          memref<2x4x8x16xf32>)
      outs(%out : memref<2x4x8x16xf32>)
  return
}
func.func private @f.reference()

// -----

// Views of outputs have elements of f64. What the function allocates has the
// elements that the program says, and is there in full.
// CHECK-LABEL: func.func private @views.reference(
// CHECK-SAME: %[[OUT:[a-z0-9]+]]: memref<?x4x8x16xf64>, %[[STEP:[a-z0-9]+]]: index)
// CHECK: %[[TEMP:.*]] = memref.alloc() : memref<2x4x8x16xbf16>
// CHECK: %[[ONE:.*]] = arith.constant 1 : index
// CHECK: scf.parallel {{.*}} step (%{{.*}}, %{{.*}}, %[[ONE]])
// CHECK: memref.store %{{.*}}, %[[TEMP]]
// CHECK: %[[CAST:.*]] = memref.cast %[[OUT]] : memref<?x4x8x16xf64> to memref<2x4x8x16xf64>
// CHECK: scf.parallel {{.*}} step (%{{.*}}, %{{.*}}, %[[STEP]])
// CHECK: memref.store %{{.*}}, %[[CAST]]
// CHECK: memref.dealloc %[[TEMP]]
func.func @views(%q: memref<2x4x8x16xbf16>, %arg: memref<?x4x8x16xbf16>) {
  %temp = memref.alloc() : memref<2x4x8x16xbf16>
  attn.attention
      ins(%q, %q, %q : memref<2x4x8x16xbf16>, memref<2x4x8x16xbf16>, memref<2x4x8x16xbf16>)
      outs(%temp : memref<2x4x8x16xbf16>)
  %out = memref.cast %arg : memref<?x4x8x16xbf16> to memref<2x4x8x16xbf16>
  attn.attention
      ins(%temp, %q, %q : memref<2x4x8x16xbf16>, memref<2x4x8x16xbf16>, memref<2x4x8x16xbf16>)
      outs(%out : memref<2x4x8x16xbf16>)
  memref.dealloc %temp : memref<2x4x8x16xbf16>
  return
}

// -----

// CHECK-LABEL: func.func private @matmul.reference(
// CHECK-SAME: %[[A:[a-z0-9]+]]: memref<8x16xbf16>, %[[B:[a-z0-9]+]]: memref<4x16xbf16>, %[[C:[a-z0-9]+]]: memref<8x4xf64>
// CHECK: scf.parallel (%[[I:.*]], %[[J:.*]]) =
// CHECK: %[[SUM:.*]] = scf.for %[[K:[a-z0-9]+]] = {{.*}} -> (f64)
// CHECK-DAG: memref.load %[[A]][%[[I]], %[[K]]]
// CHECK-DAG: memref.load %[[B]][%[[J]], %[[K]]]
// CHECK: %[[ROUNDED:.*]] = arith.truncf %[[SUM]] : f64 to f32
// CHECK: %[[NEGATED:.*]] = arith.negf %[[ROUNDED]] : f32
// CHECK: %[[RESULT:.*]] = arith.extf %[[NEGATED]] : f32 to f64
// CHECK: memref.store %[[RESULT]], %[[C]][%[[I]], %[[J]]]
func.func @matmul(%a: memref<8x16xbf16>, %b: memref<4x16xbf16>, %c: memref<8x4xbf16>) {
  attn.matmul ins(%a, %b : memref<8x16xbf16>, memref<4x16xbf16>) outs(%c : memref<8x4xbf16>) transpose_rhs epilogue {
  ^bb0(%sum: f32, %x: index, %i: index, %j: index):
    %y = arith.negf %sum : f32
    attn.yield %y : f32
  }
  return
}

// -----

// Linalg is computed in its own types; what it reads of outputs is rounded as
// the program rounds it. Integers stay.
// CHECK-LABEL: func.func private @linalg.reference(
// CHECK-SAME: %[[X:[a-z0-9]+]]: memref<8xf32>, %[[Y:[a-z0-9]+]]: memref<8xf64>, %[[Z:[a-z0-9]+]]: memref<8xf64>, %[[N:[a-z0-9]+]]: memref<8xi32>
// CHECK: scf.parallel
// CHECK: %[[EXP:.*]] = math.exp %{{.*}} : f32
// CHECK: %[[WIDE:.*]] = arith.extf %[[EXP]] : f32 to f64
// CHECK: memref.store %[[WIDE]], %[[Y]]
// CHECK: scf.parallel
// CHECK: %[[READ:.*]] = memref.load %[[Y]]
// CHECK: %[[NARROW:.*]] = arith.truncf %[[READ]] : f64 to f32
// CHECK: math.exp %[[NARROW]] : f32
// CHECK: scf.parallel
// CHECK: memref.store %{{.*}}, %[[N]][%{{.*}}] : memref<8xi32>
func.func @linalg(%x: memref<8xf32>, %y: memref<8xf32>, %z: memref<8xf32>, %n: memref<8xi32>) {
  linalg.exp ins(%x : memref<8xf32>) outs(%y : memref<8xf32>)
  linalg.exp ins(%y : memref<8xf32>) outs(%z : memref<8xf32>)
  %one = arith.constant 1 : i32
  linalg.fill ins(%one : i32) outs(%n : memref<8xi32>)
  return
}

// -----

func.func @in_place(%x: memref<8xf32>) {
  // expected-remark @below {{no reference for an output that is read before it is written}}
  linalg.exp ins(%x : memref<8xf32>) outs(%x : memref<8xf32>)
  return
}

// -----

func.func @added_to(%x: memref<8x8xf32>, %y: memref<8x8xf32>) {
  // expected-remark @below {{no reference for an output that is read before it is written}}
  linalg.matmul ins(%x, %x : memref<8x8xf32>, memref<8x8xf32>) outs(%y : memref<8x8xf32>)
  return
}

// -----

func.func @linalg_on_tensors(%x: tensor<8xf32>, %out: memref<8xf32>) {
  %e = tensor.empty() : tensor<8xf32>
  // expected-remark @below {{no reference for 'linalg.exp' on tensors}}
  %r = linalg.exp ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) -> tensor<8xf32>
  return
}
