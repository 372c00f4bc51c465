// RUN: attn-opt %s --attn-create-entry-points=target=host | FileCheck %s

// The group learns of each failure of a function that communicates, itself or by another one.

// CHECK-LABEL: llvm.func @attn_call_direct(
// CHECK:         llvm.cond_br %{{.*}}, ^{{.*}}, ^[[LEAVE:.*]](%{{.*}} : i32)
// CHECK:       ^[[LEAVE]](%[[STATUS:.*]]: i32):
// CHECK:         %[[TOLD:.*]] = llvm.call @attnrtCommFinish(%[[STATUS]]) : (i32) -> i32
// CHECK:         llvm.return %[[TOLD]] : i32

// CHECK-LABEL: llvm.func @attn_call_indirect(
// CHECK:         llvm.call @attnrtCommFinish

// CHECK-LABEL: llvm.func @attn_call_alone(
// CHECK-NOT:     attnrtCommFinish
llvm.func @attnrtCommRank(i64, !llvm.ptr) -> i32 attributes {sym_visibility = "private"}
func.func private @rank(%slot: !llvm.ptr) -> i32 {
  %ranks = llvm.mlir.constant(2 : i64) : i64
  %status = llvm.call @attnrtCommRank(%ranks, %slot) : (i64, !llvm.ptr) -> i32
  return %status : i32
}
func.func @direct(%a: memref<4xf32, strided<[1], offset: ?>> {attn.name = "a", attn.dims = array<i64: 4>}) -> i32
    attributes {attn.symbols = []} {
  %one = llvm.mlir.constant(1 : i32) : i32
  %slot = llvm.alloca %one x i64 : (i32) -> !llvm.ptr
  %ranks = llvm.mlir.constant(2 : i64) : i64
  %status = llvm.call @attnrtCommRank(%ranks, %slot) : (i64, !llvm.ptr) -> i32
  return %status : i32
}
func.func @indirect(%a: memref<4xf32, strided<[1], offset: ?>> {attn.name = "a", attn.dims = array<i64: 4>}) -> i32
    attributes {attn.symbols = []} {
  %one = llvm.mlir.constant(1 : i32) : i32
  %slot = llvm.alloca %one x i64 : (i32) -> !llvm.ptr
  %status = call @rank(%slot) : (!llvm.ptr) -> i32
  return %status : i32
}
func.func @alone(%a: memref<4xf32, strided<[1], offset: ?>> {attn.name = "a", attn.dims = array<i64: 4>}) -> i32
    attributes {attn.symbols = []} {
  %zero = llvm.mlir.constant(0 : i32) : i32
  return %zero : i32
}
