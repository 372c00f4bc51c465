// RUN: attn-opt %s --attn-raise-linalg --split-input-file --verify-diagnostics \
// RUN:   --remarks-filter=attn-raise-linalg --remark-format=emitRemark

// What is almost attention is left alone, with a remark that says why.

#all = affine_map<(b, i, j) -> (b, i, j)>
#row = affine_map<(b, i, j) -> (b, i)>
#column = affine_map<(b, i, j) -> (b, j)>

func.func private @scores(tensor<2x8x4xf32>, tensor<2x4x8xf32>) -> tensor<2x8x8xf32>

func.func @unknown_scores(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s = func.call @scores(%q, %k) : (tensor<2x8x4xf32>, tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark @below {{no attention: the scores come from 'func.call', which is no matmul of queries and keys}}
  %o = linalg.batch_matmul ins(%p, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

func.func @softmax_over_queries(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(1) ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark @below {{no attention: the softmax is not over the keys}}
  %o = linalg.batch_matmul ins(%p, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

#all = affine_map<(b, i, j) -> (b, i, j)>

func.func @dropout(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>, %keep: tensor<2x8x8xf32>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %factor = arith.constant 1.125 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %d = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p, %keep : tensor<2x8x8xf32>, tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.mulf %0, %factor : f32
    linalg.yield %1 : f32
  } -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark-re @below {{no attention: {{.*}} multiplied after the softmax, {{.*}} by numbers of an argument that are not known to be 0 and 1}}
  %o = linalg.batch_matmul ins(%d, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

// The scale of kept probabilities is computed.

#all = affine_map<(b, i, j) -> (b, i, j)>

func.func @dropout_scale(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>, %mask: tensor<2x8x8xi1>, %keep: f32) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %d = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p, %mask : tensor<2x8x8xf32>, tensor<2x8x8xi1>) outs(%e : tensor<2x8x8xf32>) {
  ^bb0(%a: f32, %m: i1, %out: f32):
    %0 = arith.uitofp %m : i1 to f32
    %1 = arith.mulf %a, %0 : f32
    %2 = arith.divf %1, %keep : f32
    linalg.yield %2 : f32
  } -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark @below {{no attention: the attention probabilities are divided after the softmax by a value that is not constant}}
  %o = linalg.batch_matmul ins(%d, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

// The same, by a factor.

#all = affine_map<(b, i, j) -> (b, i, j)>

func.func @dropout_factor(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>, %mask: tensor<2x8x8xi1>, %factor: f32) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %d = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p, %mask : tensor<2x8x8xf32>, tensor<2x8x8xi1>) outs(%e : tensor<2x8x8xf32>) {
  ^bb0(%a: f32, %m: i1, %out: f32):
    %0 = arith.uitofp %m : i1 to f32
    %1 = arith.mulf %0, %factor : f32
    %2 = arith.mulf %1, %a : f32
    linalg.yield %2 : f32
  } -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark @below {{no attention: the attention probabilities are multiplied after the softmax by a value that is not constant}}
  %o = linalg.batch_matmul ins(%d, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

// What is kept becomes smaller.

#all = affine_map<(b, i, j) -> (b, i, j)>

func.func @dropout_small_factor(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>, %mask: tensor<2x8x8xi1>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %less = arith.constant 0.75 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %d = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p, %mask : tensor<2x8x8xf32>, tensor<2x8x8xi1>) outs(%e : tensor<2x8x8xf32>) {
  ^bb0(%a: f32, %m: i1, %out: f32):
    %0 = arith.select %m, %a, %zero : f32
    %1 = arith.mulf %0, %less : f32
    linalg.yield %1 : f32
  } -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark @below {{no attention: the attention probabilities that dropout keeps are multiplied by 0.75, which is not one over a probability}}
  %o = linalg.batch_matmul ins(%d, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

// Nothing is dropped.

#all = affine_map<(b, i, j) -> (b, i, j)>

func.func @dropout_no_mask(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %more = arith.constant 1.25 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %d = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %0 = arith.mulf %a, %more : f32
    linalg.yield %0 : f32
  } -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark @below {{no attention: the attention probabilities are multiplied by 1.25 after the softmax, and none are dropped}}
  %o = linalg.batch_matmul ins(%d, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

// A factor of each head, as BERT has it.

#all = affine_map<(b, i, j) -> (b, i, j)>
#head = affine_map<(b, i, j) -> (b)>

func.func @dropout_head_mask(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>, %mask: tensor<2xf32>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %d = linalg.generic {indexing_maps = [#all, #head, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p, %mask : tensor<2x8x8xf32>, tensor<2xf32>) outs(%e : tensor<2x8x8xf32>) {
  ^bb0(%a: f32, %m: f32, %out: f32):
    %0 = arith.mulf %a, %m : f32
    linalg.yield %0 : f32
  } -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark-re @below {{no attention: {{.*}} multiplied after the softmax, {{.*}} by numbers of an argument that are not known to be 0 and 1}}
  %o = linalg.batch_matmul ins(%d, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

// As a signed number, a boolean is -1.

#all = affine_map<(b, i, j) -> (b, i, j)>

func.func @dropout_signed(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>, %mask: tensor<2x8x8xi1>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %d = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p, %mask : tensor<2x8x8xf32>, tensor<2x8x8xi1>) outs(%e : tensor<2x8x8xf32>) {
  ^bb0(%a: f32, %m: i1, %out: f32):
    %0 = arith.sitofp %m : i1 to f32
    %1 = arith.mulf %a, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark-re @below {{no attention: {{.*}} multiplied after the softmax, {{.*}} by numbers of 'arith.sitofp' that are not known to be 0 and 1}}
  %o = linalg.batch_matmul ins(%d, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

// The scores say which probabilities are dropped.

#all = affine_map<(b, i, j) -> (b, i, j)>

func.func @dropout_of_scores(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %d = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p, %s : tensor<2x8x8xf32>, tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) {
  ^bb0(%a: f32, %x: f32, %out: f32):
    %0 = arith.cmpf olt, %x, %zero : f32
    %1 = arith.select %0, %zero, %a : f32
    linalg.yield %1 : f32
  } -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark @below {{no attention: which attention probabilities are dropped depends on the scores}}
  %o = linalg.batch_matmul ins(%d, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

// Weights are squared.

#all = affine_map<(b, i, j) -> (b, i, j)>

func.func @squared(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>, %mask: tensor<2x8x8xi1>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %d = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p, %mask : tensor<2x8x8xf32>, tensor<2x8x8xi1>) outs(%e : tensor<2x8x8xf32>) {
  ^bb0(%a: f32, %m: i1, %out: f32):
    %0 = arith.select %m, %a, %zero : f32
    %1 = arith.mulf %0, %a : f32
    linalg.yield %1 : f32
  } -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark @below {{no attention: the attention probabilities are a product of exponentials}}
  %o = linalg.batch_matmul ins(%d, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

// Keep masks that are multiplied again and again.

#all = affine_map<(b, i, j) -> (b, i, j)>

func.func @dropout_powers(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>, %mask: tensor<2x8x8xi1>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %d = linalg.generic {indexing_maps = [#all, #all, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p, %mask : tensor<2x8x8xf32>, tensor<2x8x8xi1>) outs(%e : tensor<2x8x8xf32>) {
  ^bb0(%a: f32, %m: i1, %out: f32):
    %0 = arith.uitofp %m : i1 to f32
    %1 = arith.mulf %0, %0 : f32
    %2 = arith.mulf %1, %1 : f32
    %3 = arith.mulf %2, %2 : f32
    %4 = arith.mulf %3, %3 : f32
    %5 = arith.mulf %4, %4 : f32
    %6 = arith.mulf %5, %5 : f32
    %7 = arith.mulf %6, %6 : f32
    %8 = arith.mulf %a, %7 : f32
    linalg.yield %8 : f32
  } -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark @below {{no attention: the attention probabilities have too many factors}}
  %o = linalg.batch_matmul ins(%d, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

// Exponentials are dropped before they are summed up.

#all = affine_map<(b, i, j) -> (b, i, j)>
#row = affine_map<(b, i, j) -> (b, i)>

func.func @dropout_in_sum(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>, %mask: tensor<2x8x8xi1>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %x0 = linalg.exp ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %x = linalg.select ins(%mask, %x0, %s0 : tensor<2x8x8xi1>, tensor<2x8x8xf32>, tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %r = tensor.empty() : tensor<2x8xf32>
  %r0 = linalg.fill ins(%zero : f32) outs(%r : tensor<2x8xf32>) -> tensor<2x8xf32>
  %l = linalg.reduce { arith.addf } ins(%x : tensor<2x8x8xf32>) outs(%r0 : tensor<2x8xf32>) dimensions = [2]
  %d = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %l : tensor<2x8x8xf32>, tensor<2x8xf32>) outs(%e : tensor<2x8x8xf32>) {
  ^bb0(%a: f32, %sum: f32, %out: f32):
    %0 = arith.divf %a, %sum : f32
    linalg.yield %0 : f32
  } -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark @below {{no attention: what the exponentials are divided by is the sum of something else}}
  %o = linalg.batch_matmul ins(%d, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

// The probabilities are returned, too.
func.func @weights(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>) -> (tensor<2x8x4xf32>, tensor<2x8x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark @below {{no attention: the scores or the attention probabilities are used elsewhere, too}}
  %o = linalg.batch_matmul ins(%p, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o, %p : tensor<2x8x4xf32>, tensor<2x8x8xf32>
}

// -----

#all = affine_map<(b, i, j) -> (b, i, j)>
#row = affine_map<(b, i, j) -> (b, i)>

// The exponentials are divided by the sum of something else.
func.func @other_sum(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %x = linalg.exp ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %r = tensor.empty() : tensor<2x8xf32>
  %r0 = linalg.fill ins(%zero : f32) outs(%r : tensor<2x8xf32>) -> tensor<2x8xf32>
  %l = linalg.reduce { arith.addf } ins(%s : tensor<2x8x8xf32>) outs(%r0 : tensor<2x8xf32>) dimensions = [2]
  %lb = linalg.broadcast ins(%l : tensor<2x8xf32>) outs(%e : tensor<2x8x8xf32>) dimensions = [2]
  %p = linalg.div ins(%x, %lb : tensor<2x8x8xf32>, tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark @below {{no attention: what the exponentials are divided by is the sum of something else}}
  %o = linalg.batch_matmul ins(%p, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

// The sum is over queries.
func.func @sum_over_queries(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %x = linalg.exp ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %r = tensor.empty() : tensor<2x8xf32>
  %r0 = linalg.fill ins(%zero : f32) outs(%r : tensor<2x8xf32>) -> tensor<2x8xf32>
  %l = linalg.reduce { arith.addf } ins(%x : tensor<2x8x8xf32>) outs(%r0 : tensor<2x8xf32>) dimensions = [1]
  %lb = linalg.broadcast ins(%l : tensor<2x8xf32>) outs(%e : tensor<2x8x8xf32>) dimensions = [2]
  %p = linalg.div ins(%x, %lb : tensor<2x8x8xf32>, tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark @below {{no attention: what the exponentials are divided by is the sum of something else}}
  %o = linalg.batch_matmul ins(%p, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

// The exponentials are not normalised.
func.func @exponentials(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %x = linalg.exp ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark @below {{no attention: the attention probabilities are not divided by their sum}}
  %o = linalg.batch_matmul ins(%x, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

// Their matmul with the values is divided, but used before that, too.
func.func @late_used(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>) -> (tensor<2x8x4xf32>, tensor<2x8x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %x = linalg.exp ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %r = tensor.empty() : tensor<2x8xf32>
  %r0 = linalg.fill ins(%zero : f32) outs(%r : tensor<2x8xf32>) -> tensor<2x8xf32>
  %l = linalg.reduce { arith.addf } ins(%x : tensor<2x8x8xf32>) outs(%r0 : tensor<2x8xf32>) dimensions = [2]
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %lb = linalg.broadcast ins(%l : tensor<2x8xf32>) outs(%o0 : tensor<2x8x4xf32>) dimensions = [2]
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark-re @below {{no attention: {{.*}} not divided by their sum, and their matmul with the values is used more than once before it is}}
  %o = linalg.batch_matmul ins(%x, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %n = linalg.div ins(%o, %lb : tensor<2x8x4xf32>, tensor<2x8x4xf32>) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o, %n : tensor<2x8x4xf32>, tensor<2x8x4xf32>
}

// -----

// The sum that the matmul is divided by is a result, too.
func.func @late_sum_used(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>) -> (tensor<2x8x4xf32>, tensor<2x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %x = linalg.exp ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %r = tensor.empty() : tensor<2x8xf32>
  %r0 = linalg.fill ins(%zero : f32) outs(%r : tensor<2x8xf32>) -> tensor<2x8xf32>
  %l = linalg.reduce { arith.addf } ins(%x : tensor<2x8x8xf32>) outs(%r0 : tensor<2x8xf32>) dimensions = [2]
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %lb = linalg.broadcast ins(%l : tensor<2x8xf32>) outs(%o0 : tensor<2x8x4xf32>) dimensions = [2]
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark @below {{no attention: the scores or the attention probabilities are used elsewhere, too}}
  %o = linalg.batch_matmul ins(%x, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %n = linalg.div ins(%o, %lb : tensor<2x8x4xf32>, tensor<2x8x4xf32>) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %n, %l : tensor<2x8x4xf32>, tensor<2x8xf32>
}

// -----

// The matmul with the values is divided by the sum of the scores.
func.func @late_other_sum(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %x = linalg.exp ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %r = tensor.empty() : tensor<2x8xf32>
  %r0 = linalg.fill ins(%zero : f32) outs(%r : tensor<2x8xf32>) -> tensor<2x8xf32>
  %l = linalg.reduce { arith.addf } ins(%s : tensor<2x8x8xf32>) outs(%r0 : tensor<2x8xf32>) dimensions = [2]
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %lb = linalg.broadcast ins(%l : tensor<2x8xf32>) outs(%o0 : tensor<2x8x4xf32>) dimensions = [2]
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark @below {{no attention: what the exponentials are divided by is the sum of something else}}
  %o = linalg.batch_matmul ins(%x, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %n = linalg.div ins(%o, %lb : tensor<2x8x4xf32>, tensor<2x8x4xf32>) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %n : tensor<2x8x4xf32>
}

// -----

// The operation that divides the matmul does something else, too.
func.func @late_more(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %x = linalg.exp ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %r = tensor.empty() : tensor<2x8xf32>
  %r0 = linalg.fill ins(%zero : f32) outs(%r : tensor<2x8xf32>) -> tensor<2x8xf32>
  %l = linalg.reduce { arith.addf } ins(%x : tensor<2x8x8xf32>) outs(%r0 : tensor<2x8xf32>) dimensions = [2]
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %lb = linalg.broadcast ins(%l : tensor<2x8xf32>) outs(%o0 : tensor<2x8x4xf32>) dimensions = [2]
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark-re @below {{no attention: {{.*}} not divided by their sum, nor is their matmul with the values, which 'linalg.map' uses, by that alone}}
  %o = linalg.batch_matmul ins(%x, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %n = linalg.map ins(%o, %lb, %v : tensor<2x8x4xf32>, tensor<2x8x4xf32>, tensor<2x8x4xf32>) outs(%o0 : tensor<2x8x4xf32>)
    (%a: f32, %b: f32, %c: f32, %d: f32) {
      %0 = arith.divf %a, %b : f32
      %1 = arith.addf %0, %c : f32
      linalg.yield %1 : f32
    }
  return %n : tensor<2x8x4xf32>
}

// -----

// The user of the matmul is no function of its elements.
func.func @late_reduced(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>) -> tensor<2x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %x = linalg.exp ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %r = tensor.empty() : tensor<2x8xf32>
  %r0 = linalg.fill ins(%zero : f32) outs(%r : tensor<2x8xf32>) -> tensor<2x8xf32>
  %l = linalg.reduce { arith.addf } ins(%x : tensor<2x8x8xf32>) outs(%r0 : tensor<2x8xf32>) dimensions = [2]
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %lb = linalg.broadcast ins(%l : tensor<2x8xf32>) outs(%o0 : tensor<2x8x4xf32>) dimensions = [2]
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark-re @below {{no attention: {{.*}} not divided by their sum, nor is their matmul with the values, which 'linalg.reduce' uses}}
  %o = linalg.batch_matmul ins(%x, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %n = linalg.reduce { arith.addf } ins(%o : tensor<2x8x4xf32>) outs(%l : tensor<2x8xf32>) dimensions = [2]
  return %n : tensor<2x8xf32>
}

// -----

// The inits of the matmuls are not zero.
func.func @residual(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>, %r: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  // expected-remark @below {{no attention: the matmul with the values is added to a tensor}}
  %o = linalg.batch_matmul ins(%p, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%r : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

func.func @first_residual(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x8x4xf32>, %r: tensor<2x8x8xf32>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%r : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark @below {{no attention: the matmul of queries and keys is added to a tensor}}
  %o = linalg.batch_matmul ins(%p, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

func.func @f64(%q: tensor<2x8x4xf64>, %k: tensor<2x4x8xf64>, %v: tensor<2x8x4xf64>) -> tensor<2x8x4xf64> {
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<2x8x8xf64>
  %s0 = linalg.fill ins(%zero : f64) outs(%e : tensor<2x8x8xf64>) -> tensor<2x8x8xf64>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x4xf64>, tensor<2x4x8xf64>) outs(%s0 : tensor<2x8x8xf64>) -> tensor<2x8x8xf64>
  %p = linalg.softmax dimension(2) ins(%s : tensor<2x8x8xf64>) outs(%e : tensor<2x8x8xf64>) -> tensor<2x8x8xf64>
  %o0 = tensor.empty() : tensor<2x8x4xf64>
  %o1 = linalg.fill ins(%zero : f64) outs(%o0 : tensor<2x8x4xf64>) -> tensor<2x8x4xf64>
  // expected-remark @below {{no attention: the element type f64 is not supported}}
  %o = linalg.batch_matmul ins(%p, %v : tensor<2x8x8xf64>, tensor<2x8x4xf64>) outs(%o1 : tensor<2x8x4xf64>) -> tensor<2x8x4xf64>
  return %o : tensor<2x8x4xf64>
}

// -----

// The values have another element type than the queries and keys.
#q = affine_map<(b, i, j, d) -> (b, i, d)>
#k = affine_map<(b, i, j, d) -> (b, j, d)>
#s = affine_map<(b, i, j, d) -> (b, i, j)>

func.func @types(%q: tensor<2x8x4xbf16>, %k: tensor<2x8x4xbf16>, %v: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.generic {indexing_maps = [#q, #k, #s], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<2x8x4xbf16>, tensor<2x8x4xbf16>) outs(%s0 : tensor<2x8x8xf32>) {
  ^bb0(%a: bf16, %b: bf16, %out: f32):
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.extf %b : bf16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %out, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark @below {{no attention: queries, keys and values differ in their element type, or values have a factor}}
  %o = linalg.batch_matmul ins(%p, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

func.func @channels(%q: tensor<2x8x?xf32>, %k: tensor<2x?x8xf32>, %v: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x8x8xf32>
  %s0 = linalg.fill ins(%zero : f32) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<2x8x?xf32>, tensor<2x?x8xf32>) outs(%s0 : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<2x8x8xf32>) outs(%e : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %o0 = tensor.empty() : tensor<2x8x4xf32>
  %o1 = linalg.fill ins(%zero : f32) outs(%o0 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  // expected-remark @below {{no attention: the head dim is not static}}
  %o = linalg.batch_matmul ins(%p, %v : tensor<2x8x8xf32>, tensor<2x8x4xf32>) outs(%o1 : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %o : tensor<2x8x4xf32>
}

// -----

// A plain matmul is not worth a remark.
func.func @product(%a: tensor<2x8x4xf32>, %b: tensor<2x4x8xf32>, %c: tensor<2x8x8xf32>) -> tensor<2x8x8xf32> {
  %s = linalg.batch_matmul ins(%a, %b : tensor<2x8x4xf32>, tensor<2x4x8xf32>) outs(%c : tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  return %s : tensor<2x8x8xf32>
}
