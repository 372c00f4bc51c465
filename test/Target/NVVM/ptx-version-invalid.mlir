// A version that is chosen has to have all instructions.

// RUN: not attn-opt %s --attn-serialize-kernels='chip=sm_80 features=+ptx70 format=ptx' 2>&1 | FileCheck %s --check-prefix=SM80
// RUN: not attn-opt %s --attn-serialize-kernels='chip=sm_90a features=+ptx80 format=ptx' 2>&1 | FileCheck %s --check-prefix=SM90
// RUN: attn-opt %s --attn-serialize-kernels='chip=sm_90a features=+ptx81 format=ptx'

// SM80: error: instruction 'mbarrier.test_wait.parity.shared.b64' needs at least PTX 7.1 (was 7.0)
// SM90: error: instruction 'red.global.add.v4.f32' needs at least PTX 8.1 (was 8.0)
gpu.module @parity {
  llvm.func @parity(%p: i32) attributes {gpu.kernel, nvvm.kernel} {
    llvm.inline_asm has_side_effects "{\n.reg .pred done;\nmbarrier.test_wait.parity.shared.b64 done, [$0], 0;\n}", "r" %p : (i32) -> ()
    llvm.return
  }
}
gpu.module @vectors {
  llvm.func @vectors(%p: !llvm.ptr<1>, %x: f32) attributes {gpu.kernel, nvvm.kernel} {
    llvm.inline_asm has_side_effects "red.global.add.v4.f32 [$0], {$1, $1, $1, $1};", "l,f" %p, %x : (!llvm.ptr<1>, f32) -> ()
    llvm.return
  }
}
