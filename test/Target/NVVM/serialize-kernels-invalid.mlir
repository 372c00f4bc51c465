// RUN: attn-opt %s --attn-serialize-kernels=format=elf --verify-diagnostics

// Versions of PTX that LLVM does not have, or that are too old, are reported as
// attn-compile does.
// RUN: not attn-opt %s '--attn-nvvm-pipeline=target=sm_80 ptx-version=79' 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: unknown value '79' of the option 'ptx-version' (expected a version that LLVM {{.*}} has, from 70 on for sm_80)
// RUN: not attn-opt %s '--attn-nvvm-pipeline=target=sm_90a ptx-version=78' 2>&1 | FileCheck %s --check-prefix=OLD
// RUN: not attn-opt %s '--attn-serialize-kernels=chip=sm_90a features=+ptx78' 2>&1 | FileCheck %s --check-prefix=OLD
// OLD: error: unknown value '78' of the option 'ptx-version' (expected a version that LLVM {{.*}} has, from 80 on for sm_90a)
// RUN: not attn-opt %s '--attn-nvvm-pipeline=target=sm_90a ptx-version=-3' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: error: unknown value '-3' of the option 'ptx-version'
// RUN: attn-opt %s '--attn-nvvm-pipeline=target=sm_80 format=ptx ptx-version=82'

// expected-error @below {{unknown format 'elf' (expected ptx, cubin or llvm)}}
module {
}
