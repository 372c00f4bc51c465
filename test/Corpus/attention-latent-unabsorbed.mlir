// Multi-head latent attention as it is written: keys and values are projections of a cache of latents, and the
// rotated part of the keys stands next to them. It becomes attention to the cache.
// attn-compile: --target=sm_90a
// attn-compile: --target=sm_80

#shared = affine_map<(b, h, s, c) -> (b, 0, s, c)>
#all = affine_map<(b, h, s, c) -> (b, h, s, c)>
func.func @layer(%q: tensor<4x16x1x192xbf16>, %cache: tensor<4x8192x576xbf16>, %w: tensor<4096x512xbf16>) -> tensor<4x16x1x128xbf16> {
  %e = tensor.empty() : tensor<4x8192x4096xbf16>
  %f = tensor.empty() : tensor<4x16x8192x256xbf16>
  %g = tensor.empty() : tensor<4x16x8192x64xbf16>
  %out = tensor.empty() : tensor<4x16x1x128xbf16>
  %c = tensor.extract_slice %cache[0, 0, 0] [4, 8192, 512] [1, 1, 1] : tensor<4x8192x576xbf16> to tensor<4x8192x512xbf16>
  %r = tensor.extract_slice %cache[0, 0, 512] [4, 8192, 64] [1, 1, 1] : tensor<4x8192x576xbf16> to tensor<4x8192x64xbf16>
  %kr = tensor.expand_shape %r [[0, 1], [2], [3]] output_shape [4, 1, 8192, 64] : tensor<4x8192x64xbf16> into tensor<4x1x8192x64xbf16>
  %0 = attn.matmul ins(%c, %w : tensor<4x8192x512xbf16>, tensor<4096x512xbf16>) outs(%e : tensor<4x8192x4096xbf16>) transpose_rhs -> tensor<4x8192x4096xbf16>
  %1 = tensor.expand_shape %0 [[0], [1], [2, 3]] output_shape [4, 8192, 16, 256] : tensor<4x8192x4096xbf16> into tensor<4x8192x16x256xbf16>
  %2 = linalg.transpose ins(%1 : tensor<4x8192x16x256xbf16>) outs(%f : tensor<4x16x8192x256xbf16>) permutation = [0, 2, 1, 3]
  %kn = tensor.extract_slice %2[0, 0, 0, 0] [4, 16, 8192, 128] [1, 1, 1, 1] : tensor<4x16x8192x256xbf16> to tensor<4x16x8192x128xbf16>
  %v = tensor.extract_slice %2[0, 0, 0, 128] [4, 16, 8192, 128] [1, 1, 1, 1] : tensor<4x16x8192x256xbf16> to tensor<4x16x8192x128xbf16>
  %3 = linalg.generic {indexing_maps = [#shared, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%kr : tensor<4x1x8192x64xbf16>) outs(%g : tensor<4x16x8192x64xbf16>) {
  ^bb0(%x: bf16, %y: bf16):
    linalg.yield %x : bf16
  } -> tensor<4x16x8192x64xbf16>
  %k = tensor.concat dim(3) %kn, %3 : (tensor<4x16x8192x128xbf16>, tensor<4x16x8192x64xbf16>) -> tensor<4x16x8192x192xbf16>
  %a = attn.attention ins(%q, %k, %v : tensor<4x16x1x192xbf16>, tensor<4x16x8192x192xbf16>, tensor<4x16x8192x128xbf16>)
      outs(%out : tensor<4x16x1x128xbf16>) -> tensor<4x16x1x128xbf16>
  return %a : tensor<4x16x1x128xbf16>
}
