// The largest kernel is compiled first, so that no thread starts with it when
// the others have ended. A stand-in for the assembler notes the order.

// RUN: rm -rf %t && split-file %s %t
// RUN: mkdir %t/bin && cp %t/ptxas %t/bin/ptxas && chmod +x %t/bin/ptxas
// RUN: not env LOG=%t/log attn-opt %t/kernels.mlir --attn-serialize-kernels='chip=sm_90a toolkit=%t' \
// RUN:   --mlir-disable-threading -o /dev/null 2>/dev/null
// RUN: FileCheck %s < %t/log

// CHECK: entry large
// CHECK-NEXT: entry medium
// CHECK-NEXT: entry small
// CHECK-NEXT: entry tiny
// CHECK-NOT: entry

//--- ptxas
#!/bin/sh
for file; do
  case $file in
    *.ptx) grep -o 'entry [a-z]*' "$file" >> "$LOG" ;;
  esac
done
exit 1

//--- kernels.mlir
gpu.module @first {
  llvm.func @small(%p: !llvm.ptr<1>, %x: i32) attributes {gpu.kernel, nvvm.kernel} {
    llvm.return
  }
}
gpu.module @second {
  llvm.func @tiny(%p: !llvm.ptr<1>) attributes {gpu.kernel, nvvm.kernel} {
    llvm.return
  }
}
gpu.module @third {
  llvm.func @large(%p: !llvm.ptr<1>, %x: i32) attributes {gpu.kernel, nvvm.kernel} {
    %y = llvm.mul %x, %x : i32
    %z = llvm.add %x, %y : i32
    llvm.store %z, %p : i32, !llvm.ptr<1>
    llvm.return
  }
}
gpu.module @fourth {
  llvm.func @medium(%p: !llvm.ptr<1>, %x: i32) attributes {gpu.kernel, nvvm.kernel} {
    llvm.store %x, %p : i32, !llvm.ptr<1>
    llvm.return
  }
}
