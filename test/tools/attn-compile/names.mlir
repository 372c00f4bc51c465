// REQUIRES: host-cc
// Names of functions and arguments that C does not allow, or that mean something
// else there, give headers that compile in C and C++ and call what they should.

// RUN: rm -rf %t && split-file %s %t
// RUN: attn-compile %t/names.mlir -o %t/names.h && FileCheck %s --check-prefix=HEADER < %t/names.h
// RUN: attn-compile %t/names.mlir -o %t/names.o
// RUN: %host_cc -Wall -Werror -Wno-unused-function -I%attn_include_dir -I%t %t/main.c %t/names.o -o %t/main \
// RUN:   -L%attn_libs_dir -lattn_runtime -lm -Wl,-rpath,%attn_libs_dir
// RUN: %t/main | FileCheck %s
// RUN: %host_cc -Wall -Werror -Wno-unused-function -x c++ -fsyntax-only -I%attn_include_dir -I%t %t/main.c

// CHECK: ok 2 ok 2 ok 2 ok 2

// HEADER:     /** Arguments of a___int_injected____:
// HEADER-NOT: */ int injected; /*
// HEADER:     __asm__("attn_call_a*/ int injected; /*");
// HEADER:     static inline int32_t double_(
// HEADER:     static inline int32_t exp_(
// HEADER:     static inline int32_t one_two(
// HEADER-NEXT:    const attn_tensor *x_y,
// HEADER-NEXT:    const attn_tensor *x_y_,

//--- names.mlir
func.func @"a*/ int injected; /*"(%a: tensor<1xf32>) -> (tensor<1xf32> {attn.name = "*/ int other; /*"}) {
  %init = tensor.empty() : tensor<1xf32>
  %0 = linalg.add ins(%a, %a : tensor<1xf32>, tensor<1xf32>) outs(%init : tensor<1xf32>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
func.func @double(%a: tensor<1xf32>) -> (tensor<1xf32> {attn.name = "class"}) {
  %init = tensor.empty() : tensor<1xf32>
  %0 = linalg.add ins(%a, %a : tensor<1xf32>, tensor<1xf32>) outs(%init : tensor<1xf32>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
func.func @exp(%a: tensor<1xf32>) -> (tensor<1xf32> {attn.name = "b"}) {
  %init = tensor.empty() : tensor<1xf32>
  %0 = linalg.add ins(%a, %a : tensor<1xf32>, tensor<1xf32>) outs(%init : tensor<1xf32>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
func.func @one.two(%a: tensor<1xf32> {attn.name = "x.y"}) -> (tensor<1xf32> {attn.name = "x_y"}) {
  %init = tensor.empty() : tensor<1xf32>
  %0 = linalg.add ins(%a, %a : tensor<1xf32>, tensor<1xf32>) outs(%init : tensor<1xf32>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
//--- main.c
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "names.h"

int main(void) {
  float in = 1, result = 0;
  int64_t shape = 1, stride = 1;
  attn_tensor a = {&in, &shape, &stride, 1, ATTN_F32, ATTN_DEVICE_HOST, 0};
  attn_tensor b = {&result, &shape, &stride, 1, ATTN_F32, ATTN_DEVICE_HOST, 0};
  printf("%s", attnStatusName(a___int_injected____(&a, &b, NULL)));
  printf(" %g", result), result = 0;
  printf(" %s", attnStatusName(double_(&a, &b, NULL)));
  printf(" %g", result), result = 0;
  printf(" %s", attnStatusName(exp_(&a, &b, NULL)));
  printf(" %g", result), result = 0;
  printf(" %s", attnStatusName(one_two(&a, &b, NULL)));
  printf(" %g\n", result);
  return 0;
}
