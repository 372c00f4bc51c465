// RUN: attn-opt %s --attn-raise-linalg --split-input-file --verify-diagnostics \
// RUN:   --remarks-filter=attn-raise-linalg --remark-format=emitRemark

// What is almost linear attention is left alone, with a remark that says why.

#all = affine_map<(h, i, j) -> (h, i, j)>

func.func @strict(%q: tensor<2x32x8xf32>, %k: tensor<2x8x32xf32>, %v: tensor<2x32x8xf32>) -> tensor<2x32x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x32x32xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x32x8xf32>, tensor<2x8x32xf32>)
      outs(%s0 : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x32x32xf32>) outs(%e : tensor<2x32x32xf32>) {
  ^bb0(%a: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ult, %j, %i : index
    %0 = arith.select %c, %a, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<2x32x32xf32>
  %oe = tensor.empty() : tensor<2x32x8xf32>
  %z = arith.constant 0.0 : f32
  %o0 = linalg.fill ins(%z : f32) outs(%oe : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  // expected-remark @below {{no linear attention: the mask is not known to be the causal one, 'key <= query'}}
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x32x32xf32>, tensor<2x32x8xf32>)
      outs(%o0 : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  return %o : tensor<2x32x8xf32>
}

// -----

#all = affine_map<(h, i, j) -> (h, i, j)>

func.func @window(%q: tensor<2x32x8xf32>, %k: tensor<2x8x32xf32>, %v: tensor<2x32x8xf32>) -> tensor<2x32x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x32x32xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x32x8xf32>, tensor<2x8x32xf32>)
      outs(%s0 : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x32x32xf32>) outs(%e : tensor<2x32x32xf32>) {
  ^bb0(%a: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ule, %j, %i : index
    %c4 = arith.constant 4 : index
    %first = arith.subi %i, %c4 : index
    %in = arith.cmpi sgt, %j, %first : index
    %both = arith.andi %c, %in : i1
    %0 = arith.select %both, %a, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<2x32x32xf32>
  %oe = tensor.empty() : tensor<2x32x8xf32>
  %z = arith.constant 0.0 : f32
  %o0 = linalg.fill ins(%z : f32) outs(%oe : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  // expected-remark @below {{no linear attention: the mask is not known to be the causal one, 'key <= query'}}
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x32x32xf32>, tensor<2x32x8xf32>)
      outs(%o0 : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  return %o : tensor<2x32x8xf32>
}

// -----

#all = affine_map<(h, i, j) -> (h, i, j)>

func.func @mask_of_argument(%q: tensor<2x32x8xf32>, %k: tensor<2x8x32xf32>, %v: tensor<2x32x8xf32>,
    %mask: tensor<2x32x32xf32>) -> tensor<2x32x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x32x32xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x32x8xf32>, tensor<2x8x32xf32>)
      outs(%s0 : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %w = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s, %mask : tensor<2x32x32xf32>, tensor<2x32x32xf32>) outs(%e : tensor<2x32x32xf32>) {
  ^bb0(%a: f32, %m: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %0 = arith.mulf %a, %m : f32
    linalg.yield %0 : f32
  } -> tensor<2x32x32xf32>
  %oe = tensor.empty() : tensor<2x32x8xf32>
  %z = arith.constant 0.0 : f32
  %o0 = linalg.fill ins(%z : f32) outs(%oe : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  // expected-remark @below {{no linear attention: the scores are multiplied by elements of an argument, which is no causal mask, decay, or factor of queries or keys}}
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x32x32xf32>, tensor<2x32x8xf32>)
      outs(%o0 : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  return %o : tensor<2x32x8xf32>
}

// -----

#all = affine_map<(h, i, j) -> (h, i, j)>

func.func @relu(%q: tensor<2x32x8xf32>, %k: tensor<2x8x32xf32>, %v: tensor<2x32x8xf32>) -> tensor<2x32x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x32x32xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x32x8xf32>, tensor<2x8x32xf32>)
      outs(%s0 : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x32x32xf32>) outs(%e : tensor<2x32x32xf32>) {
  ^bb0(%a: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %0 = arith.maximumf %a, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<2x32x32xf32>
  %oe = tensor.empty() : tensor<2x32x8xf32>
  %z = arith.constant 0.0 : f32
  %o0 = linalg.fill ins(%z : f32) outs(%oe : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  // expected-remark @below {{no linear attention: the weights are no multiples of the scores, which 'arith.maximumf' changes}}
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x32x32xf32>, tensor<2x32x8xf32>)
      outs(%o0 : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  return %o : tensor<2x32x8xf32>
}

// -----

#all = affine_map<(h, i, j) -> (h, i, j)>

func.func @growth(%q: tensor<2x32x8xf32>, %k: tensor<2x8x32xf32>, %v: tensor<2x32x8xf32>) -> tensor<2x32x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x32x32xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x32x8xf32>, tensor<2x8x32xf32>)
      outs(%s0 : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x32x32xf32>) outs(%e : tensor<2x32x32xf32>) {
  ^bb0(%a: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ule, %j, %i : index
    %i1 = arith.index_cast %i : index to i64
    %j1 = arith.index_cast %j : index to i64
    %d = arith.subi %i1, %j1 : i64
    %x = arith.sitofp %d : i64 to f32
    %g = arith.constant 1.5 : f32
    %p = math.powf %g, %x : f32
    %p1 = arith.select %c, %p, %zero : f32
    %0 = arith.mulf %a, %p1 : f32
    linalg.yield %0 : f32
  } -> tensor<2x32x32xf32>
  %oe = tensor.empty() : tensor<2x32x8xf32>
  %z = arith.constant 0.0 : f32
  %o0 = linalg.fill ins(%z : f32) outs(%oe : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  // expected-remark @below {{no linear attention: weights grow with the distance of query and key}}
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x32x32xf32>, tensor<2x32x8xf32>)
      outs(%o0 : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  return %o : tensor<2x32x8xf32>
}

// -----

#all = affine_map<(h, i, j) -> (h, i, j)>

func.func @symmetric(%q: tensor<2x32x8xf32>, %k: tensor<2x8x32xf32>, %v: tensor<2x32x8xf32>) -> tensor<2x32x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x32x32xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x32x8xf32>, tensor<2x8x32xf32>)
      outs(%s0 : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x32x32xf32>) outs(%e : tensor<2x32x32xf32>) {
  ^bb0(%a: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %i1 = arith.index_cast %i : index to i64
    %j1 = arith.index_cast %j : index to i64
    %d = arith.subi %i1, %j1 : i64
    %x = arith.sitofp %d : i64 to f32
    %g = arith.constant 0.5 : f32
    %y = math.absf %x : f32
    %p = math.powf %g, %y : f32
    %0 = arith.mulf %a, %p : f32
    linalg.yield %0 : f32
  } -> tensor<2x32x32xf32>
  %oe = tensor.empty() : tensor<2x32x8xf32>
  %z = arith.constant 0.0 : f32
  %o0 = linalg.fill ins(%z : f32) outs(%oe : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  // expected-remark @below {{no linear attention: weights that decay need the causal mask}}
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x32x32xf32>, tensor<2x32x8xf32>)
      outs(%o0 : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  return %o : tensor<2x32x8xf32>
}

// -----

#all = affine_map<(h, i, j) -> (h, i, j)>

func.func @gaussian(%q: tensor<2x32x8xf32>, %k: tensor<2x8x32xf32>, %v: tensor<2x32x8xf32>) -> tensor<2x32x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x32x32xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x32x8xf32>, tensor<2x8x32xf32>)
      outs(%s0 : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x32x32xf32>) outs(%e : tensor<2x32x32xf32>) {
  ^bb0(%a: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ule, %j, %i : index
    %i1 = arith.index_cast %i : index to i64
    %j1 = arith.index_cast %j : index to i64
    %d = arith.subi %i1, %j1 : i64
    %x = arith.sitofp %d : i64 to f32
    %y = arith.mulf %x, %x : f32
    %n = arith.negf %y : f32
    %p = math.exp %n : f32
    %p1 = arith.select %c, %p, %zero : f32
    %0 = arith.mulf %a, %p1 : f32
    linalg.yield %0 : f32
  } -> tensor<2x32x32xf32>
  %oe = tensor.empty() : tensor<2x32x8xf32>
  %z = arith.constant 0.0 : f32
  %o0 = linalg.fill ins(%z : f32) outs(%oe : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  // expected-remark @below {{no linear attention: an exponent of the weights is no difference of a value of the query and the same value of the key}}
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x32x32xf32>, tensor<2x32x8xf32>)
      outs(%o0 : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  return %o : tensor<2x32x8xf32>
}

// -----

#all = affine_map<(h, i, j) -> (h, i, j)>

func.func @other_values(%q: tensor<2x32x8xf32>, %k: tensor<2x8x32xf32>, %v: tensor<2x32x8xf32>, %left: tensor<32xf32>,
    %right: tensor<32xf32>) -> tensor<2x32x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x32x32xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x32x8xf32>, tensor<2x8x32xf32>)
      outs(%s0 : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %w = linalg.generic {indexing_maps = [#all, affine_map<(h, i, j) -> (i)>, affine_map<(h, i, j)
      -> (j)>, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s, %left, %right : tensor<2x32x32xf32>, tensor<32xf32>, tensor<32xf32>) outs(%e : tensor<2x32x32xf32>) {
  ^bb0(%a: f32, %m: f32, %n: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ule, %j, %i : index
    %y = arith.subf %m, %n : f32
    %p = math.exp %y : f32
    %p1 = arith.select %c, %p, %zero : f32
    %0 = arith.mulf %a, %p1 : f32
    linalg.yield %0 : f32
  } -> tensor<2x32x32xf32>
  %oe = tensor.empty() : tensor<2x32x8xf32>
  %z = arith.constant 0.0 : f32
  %o0 = linalg.fill ins(%z : f32) outs(%oe : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  // expected-remark @below {{no linear attention: an exponent of the weights is no difference of a value of the query and the same value of the key}}
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x32x32xf32>, tensor<2x32x8xf32>)
      outs(%o0 : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  return %o : tensor<2x32x8xf32>
}

// -----

#all = affine_map<(h, i, j) -> (h, i, j)>

func.func @small(%q: tensor<2x8x8xf32>, %k: tensor<2x8x8xf32>, %v: tensor<2x8x8xf32>) -> tensor<2x8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x8xf32>, tensor<2x8x8xf32>)
      outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ule, %j, %i : index
    %0 = arith.select %c, %a, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<2x8x8xf32>
  %oe = tensor.empty() : tensor<2x8x8xf32>
  %z = arith.constant 0.0 : f32
  %o0 = linalg.fill ins(%z : f32) outs(%oe : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // expected-remark @below {{no linear attention: 8 tokens are no more than the 8 elements of a key, so that scores are less work than a state}}
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x8x8xf32>, tensor<2x8x8xf32>)
      outs(%o0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  return %o : tensor<2x8x8xf32>
}

// -----

#all = affine_map<(h, i, j) -> (h, i, j)>

func.func @scores_returned(%q: tensor<2x32x8xf32>, %k: tensor<2x8x32xf32>, %v: tensor<2x32x8xf32>)
    -> (tensor<2x32x8xf32>, tensor<2x32x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x32x32xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x32x8xf32>, tensor<2x8x32xf32>)
      outs(%s0 : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x32x32xf32>) outs(%e : tensor<2x32x32xf32>) {
  ^bb0(%a: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ule, %j, %i : index
    %0 = arith.select %c, %a, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<2x32x32xf32>
  %oe = tensor.empty() : tensor<2x32x8xf32>
  %z = arith.constant 0.0 : f32
  %o0 = linalg.fill ins(%z : f32) outs(%oe : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  // expected-remark @below {{no linear attention: the scores or weights are used elsewhere, too, by 'func.return'}}
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x32x32xf32>, tensor<2x32x8xf32>)
      outs(%o0 : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  return %o, %w : tensor<2x32x8xf32>, tensor<2x32x32xf32>
}

// -----

// The normaliser of retention is a sum of absolute values.

#all = affine_map<(h, i, j) -> (h, i, j)>

func.func @absolute_normaliser(%q: tensor<2x32x8xf32>, %k: tensor<2x8x32xf32>, %v: tensor<2x32x8xf32>)
    -> (tensor<2x32x8xf32>, tensor<2x32xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x32x32xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x32x8xf32>, tensor<2x8x32xf32>)
      outs(%s0 : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x32x32xf32>) outs(%e : tensor<2x32x32xf32>) {
  ^bb0(%a: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ule, %j, %i : index
    %0 = arith.select %c, %a, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<2x32x32xf32>
  %abs = math.absf %w : tensor<2x32x32xf32>
  %re = tensor.empty() : tensor<2x32xf32>
  %r0 = linalg.fill ins(%zero : f32) outs(%re : tensor<2x32xf32>) -> tensor<2x32xf32>
  %r = linalg.reduce { arith.addf } ins(%abs : tensor<2x32x32xf32>) outs(%r0 : tensor<2x32xf32>) dimensions = [2]
  %oe = tensor.empty() : tensor<2x32x8xf32>
  %z = arith.constant 0.0 : f32
  %o0 = linalg.fill ins(%z : f32) outs(%oe : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  // expected-remark @below {{no linear attention: the scores or weights are used elsewhere, too, by 'linalg.reduce'}}
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x32x32xf32>, tensor<2x32x8xf32>)
      outs(%o0 : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  return %o, %r : tensor<2x32x8xf32>, tensor<2x32xf32>
}

// -----

#all = affine_map<(h, i, j) -> (h, i, j)>

func.func @added(%q: tensor<2x32x8xf32>, %k: tensor<2x8x32xf32>, %v: tensor<2x32x8xf32>, %init: tensor<2x32x8xf32>)
    -> tensor<2x32x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x32x32xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x32x8xf32>, tensor<2x8x32xf32>)
      outs(%s0 : tensor<2x32x32xf32>) -> tensor<2x32x32xf32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x32x32xf32>) outs(%e : tensor<2x32x32xf32>) {
  ^bb0(%a: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ule, %j, %i : index
    %0 = arith.select %c, %a, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<2x32x32xf32>
  %oe = tensor.empty() : tensor<2x32x8xf32>
  %z = arith.constant 0.0 : f32
  %o0 = linalg.fill ins(%z : f32) outs(%oe : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  // expected-remark @below {{no linear attention: the matmul with the values is added to a tensor}}
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x32x32xf32>, tensor<2x32x8xf32>)
      outs(%init : tensor<2x32x8xf32>) -> tensor<2x32x8xf32>
  return %o : tensor<2x32x8xf32>
}

// -----

#all = affine_map<(h, i, j) -> (h, i, j)>

func.func @f64(%q: tensor<2x32x8xf64>, %k: tensor<2x8x32xf64>, %v: tensor<2x32x8xf64>) -> tensor<2x32x8xf64> {
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<2x32x32xf64>
  %s0 = linalg.fill ins(%zero : f64) outs(%e : tensor<2x32x32xf64>) -> tensor<2x32x32xf64>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x32x8xf64>, tensor<2x8x32xf64>)
      outs(%s0 : tensor<2x32x32xf64>) -> tensor<2x32x32xf64>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x32x32xf64>) outs(%e : tensor<2x32x32xf64>) {
  ^bb0(%a: f64, %out: f64):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %c = arith.cmpi ule, %j, %i : index
    %0 = arith.select %c, %a, %zero : f64
    linalg.yield %0 : f64
  } -> tensor<2x32x32xf64>
  %oe = tensor.empty() : tensor<2x32x8xf64>
  %z = arith.constant 0.0 : f64
  %o0 = linalg.fill ins(%z : f64) outs(%oe : tensor<2x32x8xf64>) -> tensor<2x32x8xf64>
  // expected-remark @below {{no linear attention: the element type f64 is not supported}}
  %o = linalg.batch_matmul ins(%w, %v : tensor<2x32x32xf64>, tensor<2x32x8xf64>)
      outs(%o0 : tensor<2x32x8xf64>) -> tensor<2x32x8xf64>
  return %o : tensor<2x32x8xf64>
}

// -----

// A chain of matmuls is no attention: the keys and values of all tokens are the same weights. No remark.

func.func @chain(%x: tensor<64x32xf32>, %a: tensor<32x16xf32>, %b: tensor<16x32xf32>) -> tensor<64x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x16xf32>
  %h0 = linalg.fill ins(%zero : f32) outs(%e : tensor<64x16xf32>) -> tensor<64x16xf32>
  %h = linalg.matmul ins(%x, %a : tensor<64x32xf32>, tensor<32x16xf32>)
      outs(%h0 : tensor<64x16xf32>) -> tensor<64x16xf32>
  %oe = tensor.empty() : tensor<64x32xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%oe : tensor<64x32xf32>) -> tensor<64x32xf32>
  %o = linalg.matmul ins(%h, %b : tensor<64x16xf32>, tensor<16x32xf32>)
      outs(%o0 : tensor<64x32xf32>) -> tensor<64x32xf32>
  return %o : tensor<64x32xf32>
}

// -----

#all = affine_map<(i, j) -> (i, j)>

func.func @other_lengths(%q: tensor<?x8xf32>, %kt: tensor<8x?xf32>, %v: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %q, %c0 : tensor<?x8xf32>
  %m = tensor.dim %v, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%n, %m) : tensor<?x?xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %s = linalg.matmul ins(%q, %kt : tensor<?x8xf32>, tensor<8x?xf32>) outs(%s0 : tensor<?x?xf32>) -> tensor<?x?xf32>
  %w = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%s : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%a: f32, %out: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %c = arith.cmpi ule, %j, %i : index
    %0 = arith.select %c, %a, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<?x?xf32>
  %oe = tensor.empty(%n) : tensor<?x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%oe : tensor<?x8xf32>) -> tensor<?x8xf32>
  // expected-remark @below {{no linear attention: queries and keys are not known to have the same number}}
  %o = linalg.matmul ins(%w, %v : tensor<?x?xf32>, tensor<?x8xf32>) outs(%o0 : tensor<?x8xf32>) -> tensor<?x8xf32>
  return %o : tensor<?x8xf32>
}

// -----

// Slices of one tensor of log-decays do not make lengths equal.

#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>

func.func @slices(%q: tensor<40x8xf32>, %kt: tensor<8x48xf32>, %v: tensor<48x8xf32>,
                  %c: tensor<48xf32>) -> tensor<40x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<40x48xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<40x48xf32>) -> tensor<40x48xf32>
  %s = linalg.matmul ins(%q, %kt : tensor<40x8xf32>, tensor<8x48xf32>) outs(%s0 : tensor<40x48xf32>)
      -> tensor<40x48xf32>
  %ci = tensor.extract_slice %c[0] [40] [1] : tensor<48xf32> to tensor<40xf32>
  %w = linalg.generic {indexing_maps = [#all, #row, #column, #all], iterator_types = ["parallel", "parallel"]}
      ins(%s, %ci, %c : tensor<40x48xf32>, tensor<40xf32>, tensor<48xf32>) outs(%e : tensor<40x48xf32>) {
  ^bb0(%a: f32, %x: f32, %y: f32, %out: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %c0 = arith.cmpi ule, %j, %i : index
    %d = arith.subf %x, %y : f32
    %p = math.exp %d : f32
    %0 = arith.mulf %a, %p : f32
    %1 = arith.select %c0, %0, %zero : f32
    linalg.yield %1 : f32
  } -> tensor<40x48xf32>
  %oe = tensor.empty() : tensor<40x8xf32>
  %o0 = linalg.fill ins(%zero : f32) outs(%oe : tensor<40x8xf32>) -> tensor<40x8xf32>
  // expected-remark @below {{no linear attention: queries and keys are not known to have the same number}}
  %o = linalg.matmul ins(%w, %v : tensor<40x48xf32>, tensor<48x8xf32>) outs(%o0 : tensor<40x8xf32>) -> tensor<40x8xf32>
  return %o : tensor<40x8xf32>
}
