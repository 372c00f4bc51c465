// REQUIRES: host-cc
// RUN: rm -rf %t && split-file %s %t
// RUN: attn-compile %t/one.mlir -o %t/one.o && attn-compile %t/one.mlir -o %t/one.h
// RUN: attn-compile %t/two.mlir -o %t/two.o && attn-compile %t/two.mlir -o %t/two.h

// A program links both.
// RUN: %host_cc -I%attn_include_dir -I%t %t/main.c %t/one.o %t/two.o -o %t/main \
// RUN:   -L%attn_libs_dir -lattn_runtime -lm -Wl,-rpath,%attn_libs_dir
// RUN: %t/main | FileCheck %s
// CHECK: ok 2 2.71828

// Folders of the runtime may have commas and signs that mean something to a
// shell, and outputs may look like options.
// RUN: mkdir '%t/a,b$c' && cp %attn_libs_dir/libattn_runtime.so* '%t/a,b$c'
// RUN: cd %t && attn-compile one.mlir -o -x.so '--runtime-dir=%t/a,b$c'
// RUN: readelf -d %t/-x.so | FileCheck %s --check-prefix=PATH
// PATH: [$ORIGIN:{{.*}}/a,b$c]

// RUN: not attn-compile %t/one.mlir -o %t/out.so --runtime-dir=%t/c:d 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: runtime library '{{.*}}c:d/libattn_runtime.so' does not exist
// RUN: mkdir %t/c:d && cp %attn_libs_dir/libattn_runtime.so* %t/c:d
// RUN: not attn-compile %t/one.mlir -o %t/out.so --runtime-dir=%t/c:d 2>&1 | FileCheck %s --check-prefix=COLON
// COLON: error: the folder of the runtime must not contain ':', which the dynamic linker replaces or splits paths at (was '{{.*}}c:d')
// RUN: mkdir '%t/$ORIGIN' && cp %attn_libs_dir/libattn_runtime.so* '%t/$ORIGIN'
// RUN: not attn-compile %t/one.mlir -o %t/out.so '--runtime-dir=%t/$ORIGIN' 2>&1 | FileCheck %s --check-prefix=REPLACED
// REPLACED: error: the folder of the runtime must not contain '$ORIGIN',

//--- one.mlir
func.func @one(%a: tensor<1xf32>) -> (tensor<1xf32> {attn.name = "b"}) {
  %init = tensor.empty() : tensor<1xf32>
  %0 = linalg.add ins(%a, %a : tensor<1xf32>, tensor<1xf32>) outs(%init : tensor<1xf32>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
//--- two.mlir
func.func @two(%a: tensor<1xf32>) -> (tensor<1xf32> {attn.name = "b"}) {
  %init = tensor.empty() : tensor<1xf32>
  %0 = linalg.exp ins(%a : tensor<1xf32>) outs(%init : tensor<1xf32>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
//--- main.c
#include "one.h"
#include "two.h"
#include <stdio.h>

int main(void) {
  float in = 1, doubled = 0, added = 0;
  int64_t shape = 1, stride = 1;
  attn_tensor a = {&in, &shape, &stride, 1, ATTN_F32, ATTN_DEVICE_HOST, 0};
  attn_tensor b = {&doubled, &shape, &stride, 1, ATTN_F32, ATTN_DEVICE_HOST, 0};
  attn_tensor c = {&added, &shape, &stride, 1, ATTN_F32, ATTN_DEVICE_HOST, 0};
  int32_t status = one(&a, &b, NULL);
  status |= two(&a, &c, NULL);
  printf("%s %g %g\n", attnStatusName(status), doubled, added);
  return 0;
}
