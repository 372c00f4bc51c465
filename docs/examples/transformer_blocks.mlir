// Two transformer blocks: normalisation, projections, causal attention and an
// MLP with a residual around each. Gradients whose memory is planned:
//
//   attn-opt --inline --attn-differentiate=function=blocks \
//     --attn-plan-recompute=budget=100000000 --remarks-filter=attn-plan-recompute

#rows = affine_map<(i, j) -> (i)>
#columns = affine_map<(i, j) -> (j)>
#all = affine_map<(i, j) -> (i, j)>

func.func private @norm(%x: tensor<4096x1024xbf16>, %gain: tensor<1024xbf16>)
    -> tensor<4096x1024xbf16> {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 9.765625e-04 : f32
  %eps = arith.constant 1.0e-06 : f32
  %e = tensor.empty() : tensor<4096xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4096xf32>) -> tensor<4096xf32>
  %sum = linalg.generic {indexing_maps = [#all, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<4096x1024xbf16>) outs(%f : tensor<4096xf32>) {
  ^bb0(%a: bf16, %acc: f32):
    %w = arith.extf %a : bf16 to f32
    %s = arith.mulf %w, %w : f32
    %r = arith.addf %acc, %s : f32
    linalg.yield %r : f32
  } -> tensor<4096xf32>
  %init = tensor.empty() : tensor<4096x1024xbf16>
  %y = linalg.generic {indexing_maps = [#all, #rows, #columns, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum, %gain : tensor<4096x1024xbf16>, tensor<4096xf32>, tensor<1024xbf16>)
      outs(%init : tensor<4096x1024xbf16>) {
  ^bb0(%a: bf16, %b: f32, %g: bf16, %o: bf16):
    %mean = arith.mulf %b, %scale : f32
    %m = arith.addf %mean, %eps : f32
    %s = math.rsqrt %m : f32
    %aw = arith.extf %a : bf16 to f32
    %gw = arith.extf %g : bf16 to f32
    %t = arith.mulf %aw, %s : f32
    %u = arith.mulf %t, %gw : f32
    %r = arith.truncf %u : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<4096x1024xbf16>
  return %y : tensor<4096x1024xbf16>
}

func.func private @project(%x: tensor<4096x1024xbf16>, %w: tensor<1024x1024xbf16>)
    -> tensor<1x8x4096x128xbf16> {
  %zero = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<4096x1024xbf16>
  %f = linalg.fill ins(%zero : bf16) outs(%e : tensor<4096x1024xbf16>) -> tensor<4096x1024xbf16>
  %y = linalg.matmul ins(%x, %w : tensor<4096x1024xbf16>, tensor<1024x1024xbf16>)
      outs(%f : tensor<4096x1024xbf16>) -> tensor<4096x1024xbf16>
  %s = tensor.expand_shape %y [[0, 1], [2, 3]] output_shape [1, 4096, 8, 128]
      : tensor<4096x1024xbf16> into tensor<1x4096x8x128xbf16>
  %t = tensor.empty() : tensor<1x8x4096x128xbf16>
  %h = linalg.transpose ins(%s : tensor<1x4096x8x128xbf16>)
      outs(%t : tensor<1x8x4096x128xbf16>) permutation = [0, 2, 1, 3]
  return %h : tensor<1x8x4096x128xbf16>
}

func.func private @block(
    %x: tensor<4096x1024xbf16>, %gain: tensor<1024xbf16>,
    %wq: tensor<1024x1024xbf16>, %wk: tensor<1024x1024xbf16>, %wv: tensor<1024x1024xbf16>,
    %wo: tensor<1024x1024xbf16>, %w1: tensor<1024x3072xbf16>, %w2: tensor<3072x1024xbf16>)
    -> tensor<4096x1024xbf16> {
  %zero = arith.constant 0.0 : bf16
  %one = arith.constant 1.0 : f32
  %n = func.call @norm(%x, %gain) : (tensor<4096x1024xbf16>, tensor<1024xbf16>) -> tensor<4096x1024xbf16>
  %q = func.call @project(%n, %wq) : (tensor<4096x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1x8x4096x128xbf16>
  %k = func.call @project(%n, %wk) : (tensor<4096x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1x8x4096x128xbf16>
  %v = func.call @project(%n, %wv) : (tensor<4096x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1x8x4096x128xbf16>
  %heads = tensor.empty() : tensor<1x8x4096x128xbf16>
  %a = attn.attention
      ins(%q, %k, %v : tensor<1x8x4096x128xbf16>, tensor<1x8x4096x128xbf16>, tensor<1x8x4096x128xbf16>)
      outs(%heads : tensor<1x8x4096x128xbf16>) mask(#attn.causal) -> tensor<1x8x4096x128xbf16>
  %te = tensor.empty() : tensor<1x4096x8x128xbf16>
  %t = linalg.transpose ins(%a : tensor<1x8x4096x128xbf16>)
      outs(%te : tensor<1x4096x8x128xbf16>) permutation = [0, 2, 1, 3]
  %rows = tensor.collapse_shape %t [[0, 1], [2, 3]] : tensor<1x4096x8x128xbf16> into tensor<4096x1024xbf16>
  // The product is added to the residual.
  %r = linalg.matmul ins(%rows, %wo : tensor<4096x1024xbf16>, tensor<1024x1024xbf16>)
      outs(%x : tensor<4096x1024xbf16>) -> tensor<4096x1024xbf16>

  %m = func.call @norm(%r, %gain) : (tensor<4096x1024xbf16>, tensor<1024xbf16>) -> tensor<4096x1024xbf16>
  %he = tensor.empty() : tensor<4096x3072xbf16>
  %hf = linalg.fill ins(%zero : bf16) outs(%he : tensor<4096x3072xbf16>) -> tensor<4096x3072xbf16>
  %h = linalg.matmul ins(%m, %w1 : tensor<4096x1024xbf16>, tensor<1024x3072xbf16>)
      outs(%hf : tensor<4096x3072xbf16>) -> tensor<4096x3072xbf16>
  %g = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%h : tensor<4096x3072xbf16>) outs(%he : tensor<4096x3072xbf16>) {
  ^bb0(%b: bf16, %o: bf16):
    %bw = arith.extf %b : bf16 to f32
    %bn = arith.negf %bw : f32
    %be = math.exp %bn : f32
    %bd = arith.addf %be, %one : f32
    %bs = arith.divf %bw, %bd : f32
    %bt = arith.truncf %bs : f32 to bf16
    linalg.yield %bt : bf16
  } -> tensor<4096x3072xbf16>
  %y = linalg.matmul ins(%g, %w2 : tensor<4096x3072xbf16>, tensor<3072x1024xbf16>)
      outs(%r : tensor<4096x1024xbf16>) -> tensor<4096x1024xbf16>
  return %y : tensor<4096x1024xbf16>
}

func.func @blocks(
    %x: tensor<4096x1024xbf16>, %gain: tensor<1024xbf16>,
    %wq: tensor<1024x1024xbf16>, %wk: tensor<1024x1024xbf16>, %wv: tensor<1024x1024xbf16>,
    %wo: tensor<1024x1024xbf16>, %w1: tensor<1024x3072xbf16>, %w2: tensor<3072x1024xbf16>)
    -> tensor<4096x1024xbf16> {
  %y = func.call @block(%x, %gain, %wq, %wk, %wv, %wo, %w1, %w2)
      : (tensor<4096x1024xbf16>, tensor<1024xbf16>, tensor<1024x1024xbf16>, tensor<1024x1024xbf16>,
         tensor<1024x1024xbf16>, tensor<1024x1024xbf16>, tensor<1024x3072xbf16>, tensor<3072x1024xbf16>)
      -> tensor<4096x1024xbf16>
  %z = func.call @block(%y, %gain, %wq, %wk, %wv, %wo, %w1, %w2)
      : (tensor<4096x1024xbf16>, tensor<1024xbf16>, tensor<1024x1024xbf16>, tensor<1024x1024xbf16>,
         tensor<1024x1024xbf16>, tensor<1024x1024xbf16>, tensor<1024x3072xbf16>, tensor<3072x1024xbf16>)
      -> tensor<4096x1024xbf16>
  return %z : tensor<4096x1024xbf16>
}
