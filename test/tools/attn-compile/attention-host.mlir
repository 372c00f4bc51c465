// REQUIRES: host-cc
// RUN: attn-compile %s -o %t.so --with-reference
// RUN: attn-run %t.so --check --shape=queries=37 --shape=keys=70 | FileCheck %s
// RUN: attn-compile %s -o %t.static.so --with-reference --static-runtime
// RUN: attn-run %t.so --list | FileCheck %s --check-prefix=LIST

// LIST: window
// CHECK: ok
func.func @window(%q: tensor<2x4x?x40xf32>, %k: tensor<2x2x?x40xf32>, %v: tensor<2x2x?x24xf32>)
    -> (tensor<2x4x?x24xf32> {attn.name = "out"}) {
  %c2 = arith.constant 2 : index
  %s = tensor.dim %q, %c2 : tensor<2x4x?x40xf32>
  %init = tensor.empty(%s) : tensor<2x4x?x24xf32>
  %out = attn.attention
      ins(%q, %k, %v : tensor<2x4x?x40xf32>, tensor<2x2x?x40xf32>, tensor<2x2x?x24xf32>)
      outs(%init : tensor<2x4x?x24xf32>)
      mask(#attn.sliding_window<left = 16, right = 0>) -> tensor<2x4x?x24xf32>
  return %out : tensor<2x4x?x24xf32>
}
