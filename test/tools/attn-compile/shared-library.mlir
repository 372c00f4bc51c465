// REQUIRES: host-cc
// RUN: rm -rf %t && mkdir %t
// RUN: attn-compile %s -o %t/scale.h
// RUN: attn-compile %s -o %t/libscale.so
// RUN: %host_cc -I%attn_include_dir -I%t %S/Inputs/call_scale.c -o %t/dynamic %t/libscale.so \
// RUN:   -L%attn_libs_dir -lattn_runtime -Wl,-rpath,%t -Wl,-rpath,%attn_libs_dir
// RUN: %t/dynamic | FileCheck %s

// CHECK:      scale ok
// CHECK-NEXT: 10 20 30 40 0
// CHECK-NEXT: 50 60 70 80 0
// CHECK-NEXT: shape_mismatch: scale: argument 'a': dimension 1 is 5, expected 4

func.func @scale(%a: tensor<?x4xf32>, %s: tensor<f32>) -> (tensor<?x4xf32> {attn.name = "b"}) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x4xf32>
  %init = tensor.empty(%n) : tensor<?x4xf32>
  %factor = tensor.extract %s[] : tensor<f32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,
                                        affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<?x4xf32>) outs(%init : tensor<?x4xf32>) {
  ^bb0(%x: f32, %o: f32):
    %y = arith.mulf %x, %factor : f32
    linalg.yield %y : f32
  } -> tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}
