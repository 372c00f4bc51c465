// A matmul of 8-bit matrices with a scale of each. GPUs before Hopper have no such kernels.
// attn-compile: --target=sm_90a
// attn-compile: --target=host

!a = tensor<?x1024xf8E4M3FN>
!b = tensor<512x1024xf8E4M3FN>
!c = tensor<?x512xbf16>
!scale = tensor<f32>
func.func @matmul(%x: !a, %y: !b, %x_scale: !scale, %y_scale: !scale, %out: !c) -> !c {
  %0 = attn.matmul ins(%x, %y : !a, !b) outs(%out : !c) transpose_rhs epilogue {
  ^bb0(%sum: f32, %b: index, %i: index, %j: index):
    %sx = tensor.extract %x_scale[] : !scale
    %sy = tensor.extract %y_scale[] : !scale
    %s = arith.mulf %sx, %sy : f32
    %r = arith.mulf %sum, %s : f32
    attn.yield %r : f32
  } -> !c
  return %0 : !c
}
