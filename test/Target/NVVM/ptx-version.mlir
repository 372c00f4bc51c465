// PTX is written for the oldest version that has the architecture and the
// instructions of each kernel.

// RUN: attn-opt %s --split-input-file --attn-serialize-kernels='chip=sm_80 format=ptx' | FileCheck %s --check-prefixes=CHECK,SM80
// RUN: attn-opt %s --split-input-file --attn-serialize-kernels='chip=sm_90a format=ptx' | FileCheck %s --check-prefixes=CHECK,SM90

// Names of operands, labels and directives are no instructions.
// CHECK: gpu.binary @plain
// SM80-SAME: features = "+ptx71"
// SM80-SAME: .version 7.1\0A.target sm_80\0A
// SM90-SAME: features = "+ptx80"
// SM90-SAME: .version 8.0\0A.target sm_90a\0A
gpu.module @plain {
  llvm.func @plain(%p: i32) attributes {gpu.kernel, nvvm.kernel} {
    llvm.inline_asm has_side_effects "{\n.reg .b32 mapa;\nstmatrix_${:uid}:\nmov.b32 mapa, $0;\n}", "r" %p : (i32) -> ()
    llvm.return
  }
}

// -----

// With PTX 7.0, LLVM would shift instead of converting.
// SM80: gpu.binary @widen
// SM80-SAME: .version 7.1\0A
// SM80-SAME: cvt.f32.bf16
gpu.module @widen {
  llvm.func @widen(%p: !llvm.ptr<1>, %q: !llvm.ptr<1>) attributes {gpu.kernel, nvvm.kernel} {
    %x = llvm.load %p : !llvm.ptr<1> -> bf16
    %y = llvm.fpext %x : bf16 to f32
    llvm.store %y, %q : f32, !llvm.ptr<1>
    llvm.return
  }
}

// -----

// Behind a predicate, and not the first instruction.
// SM80: gpu.binary @predicate
// SM80-SAME: .version 7.8\0A
gpu.module @predicate {
  llvm.func @predicate(%p: i32) attributes {gpu.kernel, nvvm.kernel} {
    llvm.inline_asm has_side_effects "{\n.reg .pred first;\n.reg .b32 x;\nsetp.eq.s32 first, $0, 0;\n@!first movmatrix.sync.aligned.m8n8.trans.b16 x, $0;\n}",
        "r" %p : (i32) -> ()
    llvm.return
  }
}

// -----

// Modules have versions of their own, and the newest instruction decides.
// SM90: gpu.binary @vectors
// SM90-SAME: .version 8.1\0A
gpu.module @vectors {
  llvm.func @vectors(%p: !llvm.ptr<1>, %x: f32) attributes {gpu.kernel, nvvm.kernel} {
    llvm.inline_asm has_side_effects "red.global.add.v4.f32 [$0], {$1, $1, $1, $1};", "l,f" %p, %x : (!llvm.ptr<1>, f32) -> ()
    llvm.inline_asm has_side_effects "fence.proxy.async;", "" : () -> ()
    llvm.return
  }
}
// SM90: gpu.binary @neighbour
// SM90-SAME: .version 8.0\0A
gpu.module @neighbour {
  llvm.func @neighbour(%p: !llvm.ptr<1>, %x: f32) attributes {gpu.kernel, nvvm.kernel} {
    llvm.inline_asm has_side_effects "red.global.add.f32 [$0], $1;", "l,f" %p, %x : (!llvm.ptr<1>, f32) -> ()
    llvm.return
  }
}
