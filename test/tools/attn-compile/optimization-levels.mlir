// Each level of optimization gives right results, in kernels and in loops of linalg, and each verifier leaves the code
// as it is.

// RUN: attn-compile %s --target=host --with-reference --host-opt-level=0 -o %t.0.so
// RUN: attn-compile %s --target=host --with-reference --host-opt-level=1 -o %t.1.so
// RUN: attn-compile %s --target=host --with-reference --host-opt-level=2 -o %t.2.so
// RUN: attn-compile %s --target=host --with-reference --host-opt-level=3 -o %t.3.so
// RUN: attn-run %t.0.so --shape=queries=70 --shape=keys=70 --check | FileCheck %s
// RUN: attn-run %t.1.so --shape=queries=70 --shape=keys=70 --check | FileCheck %s
// RUN: attn-run %t.2.so --shape=queries=70 --shape=keys=70 --check | FileCheck %s
// RUN: attn-run %t.3.so --shape=queries=70 --shape=keys=70 --check | FileCheck %s
// CHECK: attention {{.*}} ok
// CHECK: sums {{.*}} ok

// RUN: attn-compile %s --target=host -o %t.default.ll
// RUN: attn-compile %s --target=host --host-opt-level=1 --verify-each -o %t.each.ll
// RUN: diff %t.default.ll %t.each.ll

func.func @f(%query: tensor<1x2x?x32xf32>, %key: tensor<1x2x?x32xf32>,
             %value: tensor<1x2x?x32xf32>)
    -> (tensor<1x2x?x32xf32> {attn.name = "attention"}, tensor<1x2x?xf32> {attn.name = "sums"}) {
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %query, %c2 : tensor<1x2x?x32xf32>
  %empty = tensor.empty(%n) : tensor<1x2x?x32xf32>
  %attention = attn.attention ins(%query, %key, %value : tensor<1x2x?x32xf32>, tensor<1x2x?x32xf32>,
                                  tensor<1x2x?x32xf32>)
      outs(%empty : tensor<1x2x?x32xf32>) mask(#attn.causal) -> tensor<1x2x?x32xf32>
  %rows = tensor.empty(%n) : tensor<1x2x?xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%rows : tensor<1x2x?xf32>) -> tensor<1x2x?xf32>
  %sums = linalg.reduce ins(%query : tensor<1x2x?x32xf32>) outs(%zeros : tensor<1x2x?xf32>) dimensions = [3]
      (%element: f32, %sum: f32) {
        %square = arith.mulf %element, %element : f32
        %next = arith.addf %square, %sum : f32
        linalg.yield %next : f32
      }
  return %attention, %sums : tensor<1x2x?x32xf32>, tensor<1x2x?xf32>
}
