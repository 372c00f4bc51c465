// REQUIRES: ptxas
// RUN: attn-opt %s --attn-serialize-kernels='chip=sm_90a report' -o /dev/null 2>&1 | FileCheck %s --implicit-check-not=remark
// RUN: attn-opt %s --attn-serialize-kernels='chip=sm_90a report' --mlir-disable-threading -o /dev/null 2>&1 | FileCheck %s --implicit-check-not=remark
// RUN: not attn-opt %s --attn-serialize-kernels='chip=sm_90a ptxas-options=--no-such-option' \
// RUN:   2>&1 | FileCheck %s --check-prefix=FAILED --implicit-check-not=error

// Modules are compiled side by side. What is said of them comes in their order,
// and what fails in all of them is said of the first one.

// CHECK: order.mlir:[[@LINE+6]]:{{.*}} remark: uses {{[0-9]+}} registers
// CHECK: order.mlir:[[@LINE+10]]:{{.*}} remark: uses {{[0-9]+}} registers
// CHECK: order.mlir:[[@LINE+14]]:{{.*}} remark: uses {{[0-9]+}} registers
// FAILED: order.mlir:[[@LINE+2]]:{{.*}} error: {{.*}}ptxas' failed: {{.*}}no-such-option

gpu.module @first {
  llvm.func @a(%p: !llvm.ptr<1>) attributes {gpu.kernel, nvvm.kernel} {
    llvm.return
  }
}
gpu.module @second {
  llvm.func @b(%p: !llvm.ptr<1>) attributes {gpu.kernel, nvvm.kernel} {
    llvm.return
  }
}
gpu.module @third {
  llvm.func @c(%p: !llvm.ptr<1>) attributes {gpu.kernel, nvvm.kernel} {
    llvm.return
  }
}
