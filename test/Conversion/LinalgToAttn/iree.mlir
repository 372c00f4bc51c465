// RUN: attn-opt %s --attn-raise-linalg --attn-simplify-masks --canonicalize --cse --split-input-file | FileCheck %s

// Attention in the form of IREE's input: matmuls with transposed operands by
// indexing maps, f16 operands with f32 accumulators, elementwise operations fused.
// The functions are run by Integration/host/raise_linalg.py, too.

#q = affine_map<(b, i, j, d) -> (b, i, d)>
#k = affine_map<(b, i, j, d) -> (b, j, d)>
#s = affine_map<(b, i, j, d) -> (b, i, j)>
#all = affine_map<(b, i, j) -> (b, i, j)>
#row = affine_map<(b, i, j) -> (b, i)>
#p = affine_map<(b, i, d, j) -> (b, i, j)>
#v = affine_map<(b, i, d, j) -> (b, j, d)>
#o = affine_map<(b, i, d, j) -> (b, i, d)>

// The scale, a soft cap and a causal mask in one operation; the sum of f32
// values is the result.

// CHECK-LABEL: func.func @fused(
// CHECK:         attn.attention ins({{.*}} : tensor<1x4x18x16xf16>, tensor<1x4x18x16xf16>, tensor<1x4x18x16xf16>)
// CHECK-SAME:        outs({{.*}} : tensor<1x4x18x16xf32>) scale(5.000000e-02) mask(#attn.causal) score_mod {
// CHECK:           math.tanh
// CHECK-NOT:       arith.select
// CHECK-NOT:     linalg.generic
func.func @fused(%q: tensor<4x18x16xf16>, %k: tensor<4x18x16xf16>, %v: tensor<4x18x16xf16>) -> tensor<4x18x16xf32> {
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %scale = arith.constant 0.25 : f32
  %cap = arith.constant 5.0 : f32
  %e = tensor.empty() : tensor<4x18x18xf32>
  %e0 = linalg.fill ins(%zero : f32) outs(%e : tensor<4x18x18xf32>) -> tensor<4x18x18xf32>
  %s = linalg.batch_matmul indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<4x18x16xf16>, tensor<4x18x16xf16>) outs(%e0 : tensor<4x18x18xf32>)
      -> tensor<4x18x18xf32>
  %x = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<4x18x18xf32>) outs(%e : tensor<4x18x18xf32>) {
  ^bb0(%in: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %0 = arith.mulf %in, %scale : f32
    %1 = arith.divf %0, %cap : f32
    %2 = math.tanh %1 : f32
    %3 = arith.mulf %2, %cap : f32
    %4 = arith.cmpi ugt, %j, %i : index
    %5 = arith.select %4, %inf, %3 : f32
    linalg.yield %5 : f32
  } -> tensor<4x18x18xf32>
  %r = tensor.empty() : tensor<4x18xf32>
  %r0 = linalg.fill ins(%inf : f32) outs(%r : tensor<4x18xf32>) -> tensor<4x18xf32>
  %m = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<4x18x18xf32>) outs(%r0 : tensor<4x18xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.maxnumf %in, %out : f32
    linalg.yield %0 : f32
  } -> tensor<4x18xf32>
  %w = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %m : tensor<4x18x18xf32>, tensor<4x18xf32>) outs(%e : tensor<4x18x18xf32>) {
  ^bb0(%in: f32, %max: f32, %out: f32):
    %0 = arith.subf %in, %max : f32
    %1 = math.exp %0 : f32
    linalg.yield %1 : f32
  } -> tensor<4x18x18xf32>
  %l0 = linalg.fill ins(%zero : f32) outs(%r : tensor<4x18xf32>) -> tensor<4x18xf32>
  %l = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w : tensor<4x18x18xf32>) outs(%l0 : tensor<4x18xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %out, %in : f32
    linalg.yield %0 : f32
  } -> tensor<4x18xf32>
  %eh = tensor.empty() : tensor<4x18x18xf16>
  %ph = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%w, %l : tensor<4x18x18xf32>, tensor<4x18xf32>) outs(%eh : tensor<4x18x18xf16>) {
  ^bb0(%in: f32, %sum: f32, %out: f16):
    %0 = arith.divf %in, %sum : f32
    %1 = arith.truncf %0 : f32 to f16
    linalg.yield %1 : f16
  } -> tensor<4x18x18xf16>
  %o = tensor.empty() : tensor<4x18x16xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%o : tensor<4x18x16xf32>) -> tensor<4x18x16xf32>
  %o1 = linalg.generic {indexing_maps = [#p, #v, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%ph, %v : tensor<4x18x18xf16>, tensor<4x18x16xf16>) outs(%o0 : tensor<4x18x16xf32>) {
  ^bb0(%a: f16, %b: f16, %out: f32):
    %0 = arith.extf %a : f16 to f32
    %1 = arith.extf %b : f16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %2, %out : f32
    linalg.yield %3 : f32
  } -> tensor<4x18x16xf32>
  return %o1 : tensor<4x18x16xf32>
}

// -----

#q = affine_map<(b, i, j, d) -> (b, i, d)>
#k = affine_map<(b, i, j, d) -> (b, j, d)>
#s = affine_map<(b, i, j, d) -> (b, i, j)>
#all = affine_map<(b, i, j) -> (b, i, j)>
#row = affine_map<(b, i, j) -> (b, i)>
#p = affine_map<(b, i, d, j) -> (b, i, j)>
#v = affine_map<(b, i, d, j) -> (b, j, d)>
#o = affine_map<(b, i, d, j) -> (b, i, d)>

// The softmax of base 2, whose scale has the logarithm.

// CHECK-LABEL: func.func @base2(
// CHECK:         attn.attention ins({{.*}} : tensor<1x4x18x16xf16>, tensor<1x4x18x16xf16>, tensor<1x4x18x16xf16>)
// CHECK-SAME:        scale(5.000000e-01) mask(#attn.causal) ->
// CHECK-NOT:     linalg.generic
func.func @base2(%q: tensor<4x18x16xf16>, %k: tensor<4x18x16xf16>, %v: tensor<4x18x16xf16>) -> tensor<4x18x16xf32> {
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %scale = arith.constant 0.72134752 : f32
  %e = tensor.empty() : tensor<4x18x18xf32>
  %e0 = linalg.fill ins(%zero : f32) outs(%e : tensor<4x18x18xf32>) -> tensor<4x18x18xf32>
  %s = linalg.batch_matmul indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<4x18x16xf16>, tensor<4x18x16xf16>) outs(%e0 : tensor<4x18x18xf32>)
      -> tensor<4x18x18xf32>
  %x = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<4x18x18xf32>) outs(%e : tensor<4x18x18xf32>) {
  ^bb0(%in: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %3 = arith.mulf %in, %scale : f32
    %4 = arith.cmpi ugt, %j, %i : index
    %5 = arith.select %4, %inf, %3 : f32
    linalg.yield %5 : f32
  } -> tensor<4x18x18xf32>
  %r = tensor.empty() : tensor<4x18xf32>
  %r0 = linalg.fill ins(%inf : f32) outs(%r : tensor<4x18xf32>) -> tensor<4x18xf32>
  %m = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<4x18x18xf32>) outs(%r0 : tensor<4x18xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.maxnumf %in, %out : f32
    linalg.yield %0 : f32
  } -> tensor<4x18xf32>
  %w = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %m : tensor<4x18x18xf32>, tensor<4x18xf32>) outs(%e : tensor<4x18x18xf32>) {
  ^bb0(%in: f32, %max: f32, %out: f32):
    %0 = arith.subf %in, %max : f32
    %1 = math.exp2 %0 : f32
    linalg.yield %1 : f32
  } -> tensor<4x18x18xf32>
  %l0 = linalg.fill ins(%zero : f32) outs(%r : tensor<4x18xf32>) -> tensor<4x18xf32>
  %l = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w : tensor<4x18x18xf32>) outs(%l0 : tensor<4x18xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %out, %in : f32
    linalg.yield %0 : f32
  } -> tensor<4x18xf32>
  %eh = tensor.empty() : tensor<4x18x18xf16>
  %ph = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%w, %l : tensor<4x18x18xf32>, tensor<4x18xf32>) outs(%eh : tensor<4x18x18xf16>) {
  ^bb0(%in: f32, %sum: f32, %out: f16):
    %0 = arith.divf %in, %sum : f32
    %1 = arith.truncf %0 : f32 to f16
    linalg.yield %1 : f16
  } -> tensor<4x18x18xf16>
  %o = tensor.empty() : tensor<4x18x16xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%o : tensor<4x18x16xf32>) -> tensor<4x18x16xf32>
  %o1 = linalg.generic {indexing_maps = [#p, #v, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%ph, %v : tensor<4x18x18xf16>, tensor<4x18x16xf16>) outs(%o0 : tensor<4x18x16xf32>) {
  ^bb0(%a: f16, %b: f16, %out: f32):
    %0 = arith.extf %a : f16 to f32
    %1 = arith.extf %b : f16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %2, %out : f32
    linalg.yield %3 : f32
  } -> tensor<4x18x16xf32>
  return %o1 : tensor<4x18x16xf32>
}

// -----

#q = affine_map<(b, i, j, d) -> (b, i, d)>
#k = affine_map<(b, i, j, d) -> (b, j, d)>
#s = affine_map<(b, i, j, d) -> (b, i, j)>
#all = affine_map<(b, i, j) -> (b, i, j)>
#row = affine_map<(b, i, j) -> (b, i)>
#p = affine_map<(b, i, d, j) -> (b, i, j)>
#v = affine_map<(b, i, d, j) -> (b, j, d)>
#o = affine_map<(b, i, d, j) -> (b, i, d)>

// Differences multiplied by the logarithm, then base 2, of capped scores; keys
// are scaled.

// CHECK-LABEL: func.func @base2_cap(
// CHECK:         attn.attention ins({{.*}} : tensor<1x4x18x16xf16>, tensor<1x4x18x16xf16>, tensor<1x4x18x16xf16>)
// CHECK-SAME:        scale(5.000000e-02) mask(#attn.causal) score_mod {
// CHECK:           %[[T:.*]] = math.tanh
// CHECK-NEXT:      %[[S:.*]] = arith.mulf %[[T]], %{{.*}} : f32
// CHECK-NEXT:      attn.yield %[[S]]
// CHECK-NOT:     linalg.generic
func.func @base2_cap(%q: tensor<4x18x16xf16>, %k: tensor<4x18x16xf16>, %v: tensor<4x18x16xf16>) -> tensor<4x18x16xf32> {
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %log2e = arith.constant 1.44269504 : f32
  %quarter = arith.constant 0.25 : f16
  %ek = tensor.empty() : tensor<4x18x16xf16>
  %scaled = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%k : tensor<4x18x16xf16>) outs(%ek : tensor<4x18x16xf16>) {
  ^bb0(%in: f16, %out: f16):
    %0 = arith.mulf %in, %quarter : f16
    linalg.yield %0 : f16
  } -> tensor<4x18x16xf16>
  %cap = arith.constant 5.0 : f32
  %e = tensor.empty() : tensor<4x18x18xf32>
  %e0 = linalg.fill ins(%zero : f32) outs(%e : tensor<4x18x18xf32>) -> tensor<4x18x18xf32>
  %s = linalg.batch_matmul indexing_maps = [#q, #k, #s] ins(%q, %scaled : tensor<4x18x16xf16>, tensor<4x18x16xf16>) outs(%e0 : tensor<4x18x18xf32>)
      -> tensor<4x18x18xf32>
  %x = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<4x18x18xf32>) outs(%e : tensor<4x18x18xf32>) {
  ^bb0(%in: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %1 = arith.divf %in, %cap : f32
    %2 = math.tanh %1 : f32
    %3 = arith.mulf %2, %cap : f32
    %4 = arith.cmpi ugt, %j, %i : index
    %5 = arith.select %4, %inf, %3 : f32
    linalg.yield %5 : f32
  } -> tensor<4x18x18xf32>
  %r = tensor.empty() : tensor<4x18xf32>
  %r0 = linalg.fill ins(%inf : f32) outs(%r : tensor<4x18xf32>) -> tensor<4x18xf32>
  %m = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<4x18x18xf32>) outs(%r0 : tensor<4x18xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.maxnumf %in, %out : f32
    linalg.yield %0 : f32
  } -> tensor<4x18xf32>
  %w = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %m : tensor<4x18x18xf32>, tensor<4x18xf32>) outs(%e : tensor<4x18x18xf32>) {
  ^bb0(%in: f32, %max: f32, %out: f32):
    %0 = arith.subf %in, %max : f32
    %3 = arith.mulf %0, %log2e : f32
    %1 = math.exp2 %3 : f32
    linalg.yield %1 : f32
  } -> tensor<4x18x18xf32>
  %l0 = linalg.fill ins(%zero : f32) outs(%r : tensor<4x18xf32>) -> tensor<4x18xf32>
  %l = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w : tensor<4x18x18xf32>) outs(%l0 : tensor<4x18xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %out, %in : f32
    linalg.yield %0 : f32
  } -> tensor<4x18xf32>
  %eh = tensor.empty() : tensor<4x18x18xf16>
  %ph = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%w, %l : tensor<4x18x18xf32>, tensor<4x18xf32>) outs(%eh : tensor<4x18x18xf16>) {
  ^bb0(%in: f32, %sum: f32, %out: f16):
    %0 = arith.divf %in, %sum : f32
    %1 = arith.truncf %0 : f32 to f16
    linalg.yield %1 : f16
  } -> tensor<4x18x18xf16>
  %o = tensor.empty() : tensor<4x18x16xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%o : tensor<4x18x16xf32>) -> tensor<4x18x16xf32>
  %o1 = linalg.generic {indexing_maps = [#p, #v, #o], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%ph, %v : tensor<4x18x18xf16>, tensor<4x18x16xf16>) outs(%o0 : tensor<4x18x16xf32>) {
  ^bb0(%a: f16, %b: f16, %out: f32):
    %0 = arith.extf %a : f16 to f32
    %1 = arith.extf %b : f16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %2, %out : f32
    linalg.yield %3 : f32
  } -> tensor<4x18x16xf32>
  return %o1 : tensor<4x18x16xf32>
}
