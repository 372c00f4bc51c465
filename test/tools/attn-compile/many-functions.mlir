// Libraries of many functions are linked from several objects, which threads
// compile at the same time. Threads change no byte.

// RUN: rm -rf %t && mkdir %t
// RUN: attn-compile %s -o %t/threads.so
// RUN: attn-compile %s -o %t/one-thread.so --mlir-disable-threading
// RUN: cmp %t/threads.so %t/one-thread.so

// Names that were local to the module have a prefix, so that none is one of a
// library.
// RUN: readelf --syms --wide %t/threads.so | FileCheck %s --check-prefix=SYMBOLS
// SYMBOLS-DAG: LOCAL {{.*}} attn.local.f0
// SYMBOLS-DAG: LOCAL {{.*}} attn.local.f15
// SYMBOLS-DAG: GLOBAL {{.*}} attn_call_f0

// An object file is one object, for other linkers.
// RUN: attn-compile %s -o %t/functions.o
// RUN: readelf --syms --wide %t/functions.o | FileCheck %s --check-prefix=OBJECT --implicit-check-not=attn.local
// OBJECT: attn_call_f0

// RUN: attn-run %t/threads.so --function=f0 --fill=x=const:-2 | FileCheck %s --check-prefix=EXP
// EXP: 1.3534e-01
// RUN: attn-run %t/threads.so --function=f10 --fill=x=const:-2 | FileCheck %s --check-prefix=NEGF
// NEGF: 2.0000e+00
// RUN: attn-run %t/threads.so --function=f13 --fill=x=const:-2 | FileCheck %s --check-prefix=SQUARE
// SQUARE: 4.0000e+00

!x = tensor<8xf32>
func.func @f0(%x: !x, %out: !x) -> !x {
  %0 = linalg.exp ins(%x : !x) outs(%out : !x) -> !x
  return %0 : !x
}
func.func @f1(%x: !x, %out: !x) -> !x {
  %0 = linalg.abs ins(%x : !x) outs(%out : !x) -> !x
  return %0 : !x
}
func.func @f2(%x: !x, %out: !x) -> !x {
  %0 = linalg.negf ins(%x : !x) outs(%out : !x) -> !x
  return %0 : !x
}
func.func @f3(%x: !x, %out: !x) -> !x {
  %0 = linalg.ceil ins(%x : !x) outs(%out : !x) -> !x
  return %0 : !x
}
func.func @f4(%x: !x, %out: !x) -> !x {
  %0 = linalg.floor ins(%x : !x) outs(%out : !x) -> !x
  return %0 : !x
}
func.func @f5(%x: !x, %out: !x) -> !x {
  %0 = linalg.square ins(%x : !x) outs(%out : !x) -> !x
  return %0 : !x
}
func.func @f6(%x: !x, %out: !x) -> !x {
  %0 = linalg.tanh ins(%x : !x) outs(%out : !x) -> !x
  return %0 : !x
}
func.func @f7(%x: !x, %out: !x) -> !x {
  %0 = linalg.sqrt ins(%x : !x) outs(%out : !x) -> !x
  return %0 : !x
}
func.func @f8(%x: !x, %out: !x) -> !x {
  %0 = linalg.exp ins(%x : !x) outs(%out : !x) -> !x
  return %0 : !x
}
func.func @f9(%x: !x, %out: !x) -> !x {
  %0 = linalg.abs ins(%x : !x) outs(%out : !x) -> !x
  return %0 : !x
}
func.func @f10(%x: !x, %out: !x) -> !x {
  %0 = linalg.negf ins(%x : !x) outs(%out : !x) -> !x
  return %0 : !x
}
func.func @f11(%x: !x, %out: !x) -> !x {
  %0 = linalg.ceil ins(%x : !x) outs(%out : !x) -> !x
  return %0 : !x
}
func.func @f12(%x: !x, %out: !x) -> !x {
  %0 = linalg.floor ins(%x : !x) outs(%out : !x) -> !x
  return %0 : !x
}
func.func @f13(%x: !x, %out: !x) -> !x {
  %0 = linalg.square ins(%x : !x) outs(%out : !x) -> !x
  return %0 : !x
}
func.func @f14(%x: !x, %out: !x) -> !x {
  %0 = linalg.tanh ins(%x : !x) outs(%out : !x) -> !x
  return %0 : !x
}
func.func @f15(%x: !x, %out: !x) -> !x {
  %0 = linalg.sqrt ins(%x : !x) outs(%out : !x) -> !x
  return %0 : !x
}
