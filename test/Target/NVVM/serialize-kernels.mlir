// RUN: attn-opt %s --attn-serialize-kernels='chip=sm_80 format=llvm' | FileCheck %s --check-prefix=LLVM
// RUN: attn-opt %s --attn-serialize-kernels='chip=sm_80 format=ptx' | FileCheck %s --check-prefix=PTX

// LLVM-NOT: gpu.module
// LLVM:     gpu.binary @kernels [#gpu.object<#nvvm.target<{{.*}}chip = "sm_80"
// LLVM-SAME:   metadata = {attn_tile.block_size = 32 : i64}
// LLVM-SAME:   offload = "BC\C0\DE
// PTX:      gpu.binary @kernels [#gpu.object<#nvvm.target<{{.*}}chip = "sm_80"
// PTX-SAME:    metadata = {attn_tile.block_size = 32 : i64}
// PTX-SAME:    assembly = "{{.*}}.visible .entry kernel(
gpu.module @kernels {
  llvm.func @kernel(%p: !llvm.ptr<1>) attributes {
      gpu.kernel, nvvm.kernel, attn_tile.block_size = 32 : i64} {
    llvm.return
  }
}
