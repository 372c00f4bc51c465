// Each function has its own names of arguments and sizes, its own entry points
// and its own reference, whatever other functions are called.

// RUN: attn-compile %s --with-reference -o %t.so
// RUN: attn-run %t.so --function=f1 --shape=a=3x4 --check | FileCheck %s --check-prefix=F1
// RUN: attn-run %t.so --function=f10 --shape=a=4x5 --check | FileCheck %s --check-prefix=F10
// RUN: attn-run %t.so --function=specs_f1 --check | FileCheck %s --check-prefix=SPECS
// RUN: attn-run %t.so --function=f1_name0 --check | FileCheck %s --check-prefix=NAME
// RUN: attn-run %t.so --function=f1_reference --check | FileCheck %s --check-prefix=REFERENCE

// F1: exp {{.*}} 3x4
// F1: exp {{.*}} ok
// F10: square {{.*}} 4x5
// F10: square {{.*}} ok
// SPECS: sum {{.*}} ok
// NAME: product {{.*}} ok
// REFERENCE: difference {{.*}} ok

func.func @f1(%a: tensor<?x4xf32>) -> (tensor<?x4xf32> {attn.name = "exp"}) {
  %c0 = arith.constant 0 : index
  %d0 = tensor.dim %a, %c0 : tensor<?x4xf32>
  %init = tensor.empty(%d0) : tensor<?x4xf32>
  %0 = linalg.exp ins(%a : tensor<?x4xf32>) outs(%init : tensor<?x4xf32>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
func.func @f10(%a: tensor<?x?xf32>) -> (tensor<?x?xf32> {attn.name = "square"}) {
  %c0 = arith.constant 0 : index
  %d0 = tensor.dim %a, %c0 : tensor<?x?xf32>
  %c1 = arith.constant 1 : index
  %d1 = tensor.dim %a, %c1 : tensor<?x?xf32>
  %init = tensor.empty(%d0, %d1) : tensor<?x?xf32>
  %0 = linalg.square ins(%a : tensor<?x?xf32>) outs(%init : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
func.func @specs_f1(%a: tensor<4xf32>) -> (tensor<4xf32> {attn.name = "sum"}) {
  %init = tensor.empty() : tensor<4xf32>
  %0 = linalg.add ins(%a, %a : tensor<4xf32>, tensor<4xf32>) outs(%init : tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @f1_name0(%a: tensor<4xf32>) -> (tensor<4xf32> {attn.name = "product"}) {
  %init = tensor.empty() : tensor<4xf32>
  %0 = linalg.mul ins(%a, %a : tensor<4xf32>, tensor<4xf32>) outs(%init : tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @f1_reference(%a: tensor<4xf32>) -> (tensor<4xf32> {attn.name = "difference"}) {
  %init = tensor.empty() : tensor<4xf32>
  %0 = linalg.sub ins(%a, %a : tensor<4xf32>, tensor<4xf32>) outs(%init : tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
