// Very long kernels are assembled once, and with few optimizations. A stand-in for the assembler
// notes its options, and says that registers spill.

// RUN: rm -rf %t && split-file %s %t
// RUN: mkdir %t/bin && cp %t/ptxas %t/bin/ptxas && chmod +x %t/bin/ptxas
// RUN: %python %t/write.py > %t/long.mlir
// RUN: env LOG=%t/log attn-opt %t/long.mlir --attn-serialize-kernels='chip=sm_90a toolkit=%t' \
// RUN:   --remarks-filter='.*' --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s < %t/log

// REMARK: the kernel has more than 25000 lines of PTX: it is assembled with -O1

// CHECK: -O1
// CHECK-NOT: register-usage-level

// A level that was asked for stays, and short kernels are fully optimized.
// RUN: env LOG=%t/log.O2 attn-opt %t/long.mlir -o /dev/null \
// RUN:   --attn-serialize-kernels='chip=sm_90a toolkit=%t ptxas-options=-O2' 2>&1
// RUN: env LOG=%t/log.short attn-opt %t/short.mlir -o /dev/null \
// RUN:   --attn-serialize-kernels='chip=sm_90a toolkit=%t' 2>&1
// RUN: cat %t/log.O2 %t/log.short | FileCheck %s --check-prefix=OTHER
// OTHER-NOT: -O1

// Where very many values spill, another use of registers does not help, and the assembler runs once.
// RUN: env LOG=%t/log.spills SPILLS=1024 attn-opt %t/short.mlir -o /dev/null \
// RUN:   --attn-serialize-kernels='chip=sm_90a toolkit=%t' 2>&1
// RUN: env LOG=%t/log.spills SPILLS=1025 attn-opt %t/short.mlir -o /dev/null \
// RUN:   --attn-serialize-kernels='chip=sm_90a toolkit=%t' 2>&1
// RUN: FileCheck %s --check-prefix=HEAVY < %t/log.spills
// HEAVY: -arch
// HEAVY-NEXT: --register-usage-level=3
// HEAVY-NEXT: -arch
// HEAVY-NOT: -arch

//--- ptxas
#!/bin/sh
echo "$@" >> "$LOG"
spills=${SPILLS:-8}
echo "ptxas info    : $spills bytes stack frame, $spills bytes spill stores, $spills bytes spill loads"
while [ "$1" != -o ]; do shift; done
echo > "$2"

//--- write.py
print("gpu.module @first {")
print("  llvm.func @long(%p: !llvm.ptr<1>, %x0: f32) attributes {gpu.kernel, nvvm.kernel} {")
for i in range(26000):
    print(f"    %x{i + 1} = llvm.fmul %x{i}, %x{max(i - 1, 0)} : f32")
print("    llvm.store %x26000, %p : f32, !llvm.ptr<1>\n    llvm.return\n  }\n}")

//--- short.mlir
gpu.module @first {
  llvm.func @short(%p: !llvm.ptr<1>, %x: i32) attributes {gpu.kernel, nvvm.kernel} {
    llvm.store %x, %p : i32, !llvm.ptr<1>
    llvm.return
  }
}
