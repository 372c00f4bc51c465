// RUN: attn-opt %s -pass-pipeline='builtin.module(gpu.module(convert-math-to-libdevice))' | FileCheck %s

gpu.module @kernels {
  // CHECK-LABEL: llvm.func @functions
  llvm.func @functions(%x: f32) -> f32 {
    // CHECK: llvm.call @__nv_tanhf
    %0 = math.tanh %x : f32
    // CHECK: llvm.call @__nv_expf
    %1 = math.exp %0 : f32
    // CHECK: llvm.call @__nv_powf
    %2 = math.powf %1, %x : f32
    // Instructions stay for the conversion to LLVM.
    // CHECK: arith.maxnumf
    // CHECK: math.fma
    %m = arith.maxnumf %0, %1 : f32
    %3 = math.fma %0, %m, %2 : f32
    llvm.return %3 : f32
  }
}
