// RUN: attn-opt %s --attn-raise-linalg --canonicalize --cse --split-input-file | FileCheck %s --check-prefixes=CHECK,KNOWN
// RUN: attn-opt %s --attn-raise-linalg=assume-dropout-masks --canonicalize --cse --split-input-file | FileCheck %s --check-prefixes=CHECK,ASSUMED

// Weights that are dropped by keep masks that the caller has made. The functions
// are run by Integration/host/raise_linalg.py, too.

// As torch-mlir lowers `aten.dropout`: a mask of booleans, converted, times the
// probabilities, times a number.

#all = affine_map<(b, h, i, j) -> (b, h, i, j)>

// CHECK-LABEL: func.func @dropout_torch(
// CHECK-SAME:    %{{.*}}: tensor<2x3x20x8xf32>, %{{.*}}: tensor<2x3x70x8xf32>, %{{.*}}: tensor<2x3x70x8xf32>, %[[MASK:.*]]: tensor<2x3x20x70xi1>
// CHECK-DAG:     %[[C19:.*]] = arith.constant 19 : index
// CHECK-DAG:     %[[C69:.*]] = arith.constant 69 : index
// CHECK:         %[[ZERO:.*]] = linalg.fill {{.*}} -> tensor<2x3x32x8xi32>
// CHECK:         %[[BITS:.*]] = tensor.empty() : tensor<32xi32>
// CHECK:         %[[WORDS:.*]] = linalg.generic
// CHECK-SAME:        iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]
// CHECK-SAME:        ins(%[[BITS]] : tensor<32xi32>) outs(%[[ZERO]] : tensor<2x3x32x8xi32>)
// CHECK-DAG:       %[[B:.*]] = linalg.index 0
// CHECK-DAG:       %[[H:.*]] = linalg.index 1
// CHECK-DAG:       %[[I:.*]] = arith.minui %{{.*}}, %[[C19]] : index
// CHECK-DAG:       %[[J:.*]] = arith.minui %{{.*}}, %[[C69]] : index
// CHECK:           %[[KEPT:.*]] = tensor.extract %[[MASK]][%[[B]], %[[H]], %[[I]], %[[J]]]
// CHECK:           %[[WORD:.*]] = arith.extui %[[KEPT]] : i1 to i32
// CHECK:           %[[BIT:.*]] = arith.shli %[[WORD]]
// CHECK:           arith.ori %{{.*}}, %[[BIT]]
// CHECK:         attn.attention
// CHECK-SAME:        dropout_mask rows(%[[WORDS]] : tensor<2x3x32x8xi32>) p(0.125000045)
// CHECK-NOT:     linalg.generic
// CHECK-NOT:     linalg.batch_matmul
func.func @dropout_torch(%q: tensor<2x3x20x8xf32>, %k: tensor<2x3x70x8xf32>, %v: tensor<2x3x70x8xf32>, %mask: tensor<2x3x20x70xi1>)
    -> tensor<2x3x20x8xf32> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.35355339059327379 : f32
  %factor = arith.constant 1.1428571428571428 : f64
  %kt0 = tensor.empty() : tensor<2x3x8x70xf32>
  %kt = linalg.transpose ins(%k : tensor<2x3x70x8xf32>) outs(%kt0 : tensor<2x3x8x70xf32>) permutation = [0, 1, 3, 2]
  %qc = tensor.collapse_shape %q [[0, 1], [2], [3]] : tensor<2x3x20x8xf32> into tensor<6x20x8xf32>
  %kc = tensor.collapse_shape %kt [[0, 1], [2], [3]] : tensor<2x3x8x70xf32> into tensor<6x8x70xf32>
  %s0 = tensor.empty() : tensor<6x20x70xf32>
  %s1 = linalg.fill ins(%zero : f32) outs(%s0 : tensor<6x20x70xf32>) -> tensor<6x20x70xf32>
  %s2 = linalg.batch_matmul ins(%qc, %kc : tensor<6x20x8xf32>, tensor<6x8x70xf32>) outs(%s1 : tensor<6x20x70xf32>) -> tensor<6x20x70xf32>
  %s3 = tensor.expand_shape %s2 [[0, 1], [2], [3]] output_shape [2, 3, 20, 70] : tensor<6x20x70xf32> into tensor<2x3x20x70xf32>
  %e = tensor.empty() : tensor<2x3x20x70xf32>
  %s4 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s3 : tensor<2x3x20x70xf32>) outs(%e : tensor<2x3x20x70xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.mulf %in, %scale : f32
    linalg.yield %0 : f32
  } -> tensor<2x3x20x70xf32>
  %p = linalg.softmax dimension(3) ins(%s4 : tensor<2x3x20x70xf32>) outs(%e : tensor<2x3x20x70xf32>) -> tensor<2x3x20x70xf32>
  %m = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%mask : tensor<2x3x20x70xi1>) outs(%e : tensor<2x3x20x70xf32>) {
  ^bb0(%in: i1, %out: f32):
    %0 = arith.uitofp %in : i1 to f32
    linalg.yield %0 : f32
  } -> tensor<2x3x20x70xf32>
  %d0 = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%m, %p : tensor<2x3x20x70xf32>, tensor<2x3x20x70xf32>) outs(%e : tensor<2x3x20x70xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %0 = arith.mulf %in, %in_0 : f32
    linalg.yield %0 : f32
  } -> tensor<2x3x20x70xf32>
  %d1 = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%d0 : tensor<2x3x20x70xf32>) outs(%e : tensor<2x3x20x70xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.truncf %factor : f64 to f32
    %1 = arith.mulf %in, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x3x20x70xf32>
  %pc = tensor.collapse_shape %d1 [[0, 1], [2], [3]] : tensor<2x3x20x70xf32> into tensor<6x20x70xf32>
  %vc = tensor.collapse_shape %v [[0, 1], [2], [3]] : tensor<2x3x70x8xf32> into tensor<6x70x8xf32>
  %o0 = tensor.empty() : tensor<6x20x8xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<6x20x8xf32>) -> tensor<6x20x8xf32>
  %o2 = linalg.batch_matmul ins(%pc, %vc : tensor<6x20x70xf32>, tensor<6x70x8xf32>) outs(%o1 : tensor<6x20x8xf32>) -> tensor<6x20x8xf32>
  %o3 = tensor.expand_shape %o2 [[0, 1], [2], [3]] output_shape [2, 3, 20, 8] : tensor<6x20x8xf32> into tensor<2x3x20x8xf32>
  return %o3 : tensor<2x3x20x8xf32>
}

// -----

// As JAX has it: a selection between the scaled probabilities and zero, by integers
// that are compared, in f16, any length; the mask is shared by the heads and is
// used for something else, too.

#all = affine_map<(b, h, i, j) -> (b, h, i, j)>
#mask = affine_map<(b, h, i, j) -> (b, i, j)>
#row = affine_map<(b, h, i, j) -> (b, h, i)>
#q = affine_map<(b, h, i, j, d) -> (b, h, i, d)>
#k = affine_map<(b, h, i, j, d) -> (b, h, j, d)>
#s = affine_map<(b, h, i, j, d) -> (b, h, i, j)>
#p = affine_map<(b, h, i, d, j) -> (b, h, i, j)>
#v = affine_map<(b, h, i, d, j) -> (b, h, j, d)>
#o = affine_map<(b, h, i, d, j) -> (b, h, i, d)>

// CHECK-LABEL: func.func @dropout_select(
// CHECK-SAME:    %[[Q:.*]]: tensor<?x2x?x16xf16>, %[[K:.*]]: tensor<?x2x?x16xf16>, %{{.*}}: tensor<?x2x?x16xf16>, %[[MASK:.*]]: tensor<?x?x?xi8>
// CHECK-DAG:     %[[C64:.*]] = arith.constant 64 : index
// CHECK-DAG:     %[[C32:.*]] = arith.constant 32 : index
// CHECK-DAG:     %[[C4:.*]] = arith.constant 4 : index
// CHECK-DAG:     %[[U0:.*]] = arith.ceildivui %{{.*}}, %[[C64]]
// CHECK-DAG:     %[[U:.*]] = arith.muli %[[U0]], %[[C32]]
// CHECK-DAG:     %[[W0:.*]] = arith.ceildivui %{{.*}}, %[[C64]]
// CHECK-DAG:     %[[W:.*]] = arith.muli %[[W0]], %[[C4]]
// CHECK:         tensor.empty(%{{.*}}, %[[U]], %[[W]]) : tensor<?x2x?x?xi32>
// CHECK:         %[[WORDS:.*]] = linalg.generic
// CHECK:           %[[X:.*]] = tensor.extract %[[MASK]][%{{.*}}, %{{.*}}, %{{.*}}] : tensor<?x?x?xi8>
// CHECK:           arith.cmpi ne, %[[X]]
// CHECK:         attn.attention
// CHECK-SAME:        dropout_mask rows(%[[WORDS]] : tensor<?x2x?x?xi32>) p(0.100000024)
func.func @dropout_select(%q: tensor<?x2x?x16xf16>, %k: tensor<?x2x?x16xf16>, %v: tensor<?x2x?x16xf16>, %mask: tensor<?x?x?xi8>)
    -> (tensor<?x2x?x16xf16>, tensor<?x?x?xi8>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %none = arith.constant 0 : i8
  %one = arith.constant 1 : i8
  %zero = arith.constant 0.0 : f16
  %zerof = arith.constant 0.0 : f32
  %quarter = arith.constant 0.25 : f32
  %inf = arith.constant 0xFF800000 : f32
  %keep = arith.constant 0.9 : f32
  %b = tensor.dim %q, %c0 : tensor<?x2x?x16xf16>
  %n = tensor.dim %q, %c2 : tensor<?x2x?x16xf16>
  %m = tensor.dim %k, %c2 : tensor<?x2x?x16xf16>
  %e = tensor.empty(%b, %n, %m) : tensor<?x2x?x?xf32>
  %e0 = linalg.fill ins(%zerof : f32) outs(%e : tensor<?x2x?x?xf32>) -> tensor<?x2x?x?xf32>
  %s0 = linalg.generic {indexing_maps = [#q, #k, #s], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<?x2x?x16xf16>, tensor<?x2x?x16xf16>) outs(%e0 : tensor<?x2x?x?xf32>) {
  ^bb0(%x: f16, %y: f16, %out: f32):
    %0 = arith.extf %x : f16 to f32
    %1 = arith.extf %y : f16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %out, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<?x2x?x?xf32>
  %s = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s0 : tensor<?x2x?x?xf32>) outs(%e : tensor<?x2x?x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.mulf %in, %quarter : f32
    linalg.yield %0 : f32
  } -> tensor<?x2x?x?xf32>
  %r = tensor.empty(%b, %n) : tensor<?x2x?xf32>
  %r0 = linalg.fill ins(%inf : f32) outs(%r : tensor<?x2x?xf32>) -> tensor<?x2x?xf32>
  %max = linalg.reduce { arith.maximumf } ins(%s : tensor<?x2x?x?xf32>) outs(%r0 : tensor<?x2x?xf32>) dimensions = [3]
  %x = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s, %max : tensor<?x2x?x?xf32>, tensor<?x2x?xf32>) outs(%e : tensor<?x2x?x?xf32>) {
  ^bb0(%in: f32, %top: f32, %out: f32):
    %0 = arith.subf %in, %top : f32
    %1 = math.exp %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x2x?x?xf32>
  %r1 = linalg.fill ins(%zerof : f32) outs(%r : tensor<?x2x?xf32>) -> tensor<?x2x?xf32>
  %l = linalg.reduce { arith.addf } ins(%x : tensor<?x2x?x?xf32>) outs(%r1 : tensor<?x2x?xf32>) dimensions = [3]
  %h = tensor.empty(%b, %n, %m) : tensor<?x2x?x?xf16>
  %w = linalg.generic {indexing_maps = [#all, #row, #mask, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %l, %mask : tensor<?x2x?x?xf32>, tensor<?x2x?xf32>, tensor<?x?x?xi8>) outs(%h : tensor<?x2x?x?xf16>) {
  ^bb0(%in: f32, %sum: f32, %decision: i8, %out: f16):
    %0 = arith.divf %in, %sum : f32
    %1 = arith.divf %0, %keep : f32
    %2 = arith.cmpi ne, %decision, %none : i8
    %3 = arith.select %2, %1, %zerof : f32
    %4 = arith.truncf %3 : f32 to f16
    linalg.yield %4 : f16
  } -> tensor<?x2x?x?xf16>
  %o = tensor.empty(%b, %n) : tensor<?x2x?x16xf16>
  %o0 = linalg.fill ins(%zero : f16) outs(%o : tensor<?x2x?x16xf16>) -> tensor<?x2x?x16xf16>
  %o1 = linalg.generic {indexing_maps = [#p, #v, #o], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%w, %v : tensor<?x2x?x?xf16>, tensor<?x2x?x16xf16>) outs(%o0 : tensor<?x2x?x16xf16>) {
  ^bb0(%a: f16, %c: f16, %out: f16):
    %0 = arith.mulf %a, %c : f16
    %1 = arith.addf %out, %0 : f16
    linalg.yield %1 : f16
  } -> tensor<?x2x?x16xf16>
  %db = tensor.empty(%b, %n, %m) : tensor<?x?x?xi8>
  %dropped = linalg.map ins(%mask : tensor<?x?x?xi8>) outs(%db : tensor<?x?x?xi8>)
    (%in: i8, %out: i8) {
      %0 = arith.subi %one, %in : i8
      linalg.yield %0 : i8
    }
  return %o1, %dropped : tensor<?x2x?x16xf16>, tensor<?x?x?xi8>
}

// -----

// Random numbers that are compared: no scale, a mask whose ones are drops, the
// first heads' dimension collapsed with the batch.

#all = affine_map<(b, i, j) -> (b, i, j)>

// CHECK-LABEL: func.func @dropout_random(
// CHECK-SAME:    %[[RANDOM:[^:]*]]: tensor<3x16x16xf32>)
// CHECK:         %[[WORDS:.*]] = linalg.generic
// CHECK:           %[[X:.*]] = tensor.extract %[[RANDOM]]
// CHECK:           %[[DROPPED:.*]] = arith.cmpf olt, %[[X]]
// CHECK:           %[[KEPT:.*]] = arith.xori %[[DROPPED]], %{{.*}} : i1
// CHECK:           arith.extui %[[KEPT]]
// CHECK:         attn.attention
// CHECK-SAME:        dropout_mask rows(%[[WORDS]] : tensor<1x3x32x4xi32>) p(0.000000e+00)
// CHECK-NOT:     linalg.batch_matmul
func.func @dropout_random(%q: tensor<3x16x8xbf16>, %k: tensor<3x8x16xbf16>, %v: tensor<3x16x8xbf16>, %random: tensor<3x16x16xf32>) -> tensor<3x16x8xbf16> {
  %zero = arith.constant 0.0 : bf16
  %one = arith.constant 1.0 : bf16
  %p = arith.constant 0.3 : f32
  %e = tensor.empty() : tensor<3x16x16xbf16>
  %s0 = linalg.fill ins(%zero : bf16) outs(%e : tensor<3x16x16xbf16>) -> tensor<3x16x16xbf16>
  %s = linalg.batch_matmul ins(%q, %k : tensor<3x16x8xbf16>, tensor<3x8x16xbf16>) outs(%s0 : tensor<3x16x16xbf16>) -> tensor<3x16x16xbf16>
  %w = linalg.softmax dimension(2) ins(%s : tensor<3x16x16xbf16>) outs(%e : tensor<3x16x16xbf16>) -> tensor<3x16x16xbf16>
  %d = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%w, %random : tensor<3x16x16xbf16>, tensor<3x16x16xf32>) outs(%e : tensor<3x16x16xbf16>) {
  ^bb0(%a: bf16, %x: f32, %out: bf16):
    %0 = arith.cmpf olt, %x, %p : f32
    %1 = arith.uitofp %0 : i1 to bf16
    %2 = arith.subf %one, %1 : bf16
    %3 = arith.mulf %2, %a : bf16
    linalg.yield %3 : bf16
  } -> tensor<3x16x16xbf16>
  %o0 = tensor.empty() : tensor<3x16x8xbf16>
  %o1 = linalg.fill ins(%zero : bf16) outs(%o0 : tensor<3x16x8xbf16>) -> tensor<3x16x8xbf16>
  %o = linalg.batch_matmul ins(%d, %v : tensor<3x16x16xbf16>, tensor<3x16x8xbf16>) outs(%o1 : tensor<3x16x8xbf16>) -> tensor<3x16x8xbf16>
  return %o : tensor<3x16x8xbf16>
}

// -----

// A number that stands in the place of a boolean may be any, unless the caller
// of the pass says otherwise. The mask has its scale before it is applied.

#all = affine_map<(b, i, j) -> (b, i, j)>

// CHECK-LABEL: func.func @dropout_numbers(
// CHECK-SAME:    %[[MASK:[^:]*]]: tensor<3x16x16xf16>)
// KNOWN-NOT:     attn.attention
// ASSUMED:       %[[WORDS:.*]] = linalg.generic
// ASSUMED:         %[[X:.*]] = tensor.extract %[[MASK]]
// ASSUMED:         %[[Y:.*]] = arith.extf %[[X]] : f16 to f32
// ASSUMED:         arith.cmpf une, %[[Y]]
// ASSUMED:       attn.attention
// ASSUMED-SAME:      dropout_mask rows(%[[WORDS]] : tensor<1x3x32x4xi32>) p(0.199999988)
// CHECK:         return
func.func @dropout_numbers(%q: tensor<3x16x8xf16>, %k: tensor<3x8x16xf16>, %v: tensor<3x16x8xf16>, %mask: tensor<3x16x16xf16>) -> tensor<3x16x8xf16> {
  %zero = arith.constant 0.0 : f16
  %keep = arith.constant 0.8 : f32
  %e = tensor.empty() : tensor<3x16x16xf16>
  %s0 = linalg.fill ins(%zero : f16) outs(%e : tensor<3x16x16xf16>) -> tensor<3x16x16xf16>
  %s = linalg.batch_matmul ins(%q, %k : tensor<3x16x8xf16>, tensor<3x8x16xf16>) outs(%s0 : tensor<3x16x16xf16>) -> tensor<3x16x16xf16>
  %w = linalg.softmax dimension(2) ins(%s : tensor<3x16x16xf16>) outs(%e : tensor<3x16x16xf16>) -> tensor<3x16x16xf16>
  %d = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%w, %mask : tensor<3x16x16xf16>, tensor<3x16x16xf16>) outs(%e : tensor<3x16x16xf16>) {
  ^bb0(%a: f16, %m: f16, %out: f16):
    %0 = arith.extf %m : f16 to f32
    %1 = arith.extf %a : f16 to f32
    %2 = arith.divf %0, %keep : f32
    %3 = arith.mulf %2, %1 : f32
    %4 = arith.truncf %3 : f32 to f16
    linalg.yield %4 : f16
  } -> tensor<3x16x16xf16>
  %o0 = tensor.empty() : tensor<3x16x8xf16>
  %o1 = linalg.fill ins(%zero : f16) outs(%o0 : tensor<3x16x8xf16>) -> tensor<3x16x8xf16>
  %o = linalg.batch_matmul ins(%d, %v : tensor<3x16x16xf16>, tensor<3x16x8xf16>) outs(%o1 : tensor<3x16x8xf16>) -> tensor<3x16x8xf16>
  return %o : tensor<3x16x8xf16>
}

// -----

// The same of integers, after which the probabilities are divided.

#all = affine_map<(b, i, j) -> (b, i, j)>
#queries = affine_map<(b, i, j) -> (i, j)>

// CHECK-LABEL: func.func @dropout_integers(
// CHECK-SAME:    %[[MASK:[^:]*]]: tensor<16x16xi8>)
// KNOWN-NOT:     attn.attention
// ASSUMED:         %[[X:.*]] = tensor.extract %[[MASK]][%{{.*}}, %{{.*}}]
// ASSUMED:         arith.cmpi ne, %[[X]]
// ASSUMED:       attn.attention
// ASSUMED-SAME:      p(5.000000e-01)
// CHECK:         return
func.func @dropout_integers(%q: tensor<3x16x8xf32>, %k: tensor<3x8x16xf32>, %v: tensor<3x16x8xf32>, %mask: tensor<16x16xi8>) -> tensor<3x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<3x16x16xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<3x16x16xf32>) -> tensor<3x16x16xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<3x16x8xf32>, tensor<3x8x16xf32>) outs(%s0 : tensor<3x16x16xf32>) -> tensor<3x16x16xf32>
  %w = linalg.softmax dimension(2) ins(%s : tensor<3x16x16xf32>) outs(%e : tensor<3x16x16xf32>) -> tensor<3x16x16xf32>
  %d = linalg.generic {indexing_maps = [#all, #queries, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%w, %mask : tensor<3x16x16xf32>, tensor<16x16xi8>) outs(%e : tensor<3x16x16xf32>) {
  ^bb0(%a: f32, %m: i8, %out: f32):
    %0 = arith.sitofp %m : i8 to f32
    %1 = arith.mulf %a, %0 : f32
    %2 = arith.divf %1, %half : f32
    linalg.yield %2 : f32
  } -> tensor<3x16x16xf32>
  %o0 = tensor.empty() : tensor<3x16x8xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<3x16x8xf32>) -> tensor<3x16x8xf32>
  %o = linalg.batch_matmul ins(%d, %v : tensor<3x16x16xf32>, tensor<3x16x8xf32>) outs(%o1 : tensor<3x16x8xf32>) -> tensor<3x16x8xf32>
  return %o : tensor<3x16x8xf32>
}

// -----

// A mask that is applied before the softmax changes scores.

#all = affine_map<(b, i, j) -> (b, i, j)>

// CHECK-LABEL: func.func @before_softmax(
// CHECK:         attn.attention
// CHECK-NOT:     dropout_mask
// CHECK:         score_mod {
// CHECK:           arith.uitofp
func.func @before_softmax(%q: tensor<3x16x8xf32>, %k: tensor<3x8x16xf32>, %v: tensor<3x16x8xf32>, %mask: tensor<3x16x16xi1>) -> tensor<3x16x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x16x16xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<3x16x16xf32>) -> tensor<3x16x16xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<3x16x8xf32>, tensor<3x8x16xf32>) outs(%s0 : tensor<3x16x16xf32>) -> tensor<3x16x16xf32>
  %d = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s, %mask : tensor<3x16x16xf32>, tensor<3x16x16xi1>) outs(%e : tensor<3x16x16xf32>) {
  ^bb0(%a: f32, %m: i1, %out: f32):
    %0 = arith.uitofp %m : i1 to f32
    %1 = arith.mulf %a, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<3x16x16xf32>
  %w = linalg.softmax dimension(2) ins(%d : tensor<3x16x16xf32>) outs(%e : tensor<3x16x16xf32>) -> tensor<3x16x16xf32>
  %o0 = tensor.empty() : tensor<3x16x8xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<3x16x8xf32>) -> tensor<3x16x8xf32>
  %o = linalg.batch_matmul ins(%w, %v : tensor<3x16x16xf32>, tensor<3x16x8xf32>) outs(%o1 : tensor<3x16x8xf32>) -> tensor<3x16x8xf32>
  return %o : tensor<3x16x8xf32>
}
