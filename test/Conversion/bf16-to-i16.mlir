// RUN: attn-opt %s --pass-pipeline='builtin.module(llvm.func(attn-bf16-to-i16))' | FileCheck %s

// CHECK-LABEL: llvm.func @moves(
// CHECK-DAG: %[[ZERO:.*]] = llvm.mlir.constant(dense<[0, 16256]> : vector<2xi16>) : vector<2xi16>
// CHECK-DAG: %[[LEAST:.*]] = llvm.mlir.constant(-32767 : i16) : i16
// CHECK: %[[GATHERED:.*]] = llvm.intr.masked.gather %{{.*}}, %{{.*}}, %[[ZERO]] {alignment = 2 : i32}
// CHECK-SAME: -> vector<2xi16>
// CHECK: llvm.cond_br %{{.*}}, ^bb1(%[[GATHERED]] : vector<2xi16>), ^bb2(%[[LEAST]] : i16)
// CHECK: ^bb1(%[[VECTOR:.*]]: vector<2xi16>):
// CHECK: %[[ELEMENT:.*]] = llvm.extractelement %[[VECTOR]][%{{.*}} : i64] : vector<2xi16>
// CHECK: llvm.br ^bb2(%[[ELEMENT]] : i16)
// CHECK: ^bb2(%[[SCALAR:.*]]: i16):
// CHECK: %[[BITS:.*]] = llvm.bitcast %[[SCALAR]] : i16 to i16
// CHECK: %[[CHOSEN:.*]] = llvm.select %{{.*}}, %[[SCALAR]], %[[LEAST]] : i1, i16
// CHECK: llvm.store %[[CHOSEN]], %{{.*}} {alignment = 2 : i64} : i16, !llvm.ptr
// CHECK: llvm.return %[[BITS]] : i16
llvm.func @moves(%pointers: vector<2x!llvm.ptr>, %mask: vector<2xi1>, %condition: i1, %to: !llvm.ptr) -> i16 {
  %zero = llvm.mlir.constant(dense<[0.0, 1.0]> : vector<2xbf16>) : vector<2xbf16>
  %least = llvm.mlir.constant(0x8001 : bf16) : bf16
  %index = llvm.mlir.constant(1 : i64) : i64
  %gathered = llvm.intr.masked.gather %pointers, %mask, %zero {alignment = 2 : i32}
    : (vector<2x!llvm.ptr>, vector<2xi1>, vector<2xbf16>) -> vector<2xbf16>
  llvm.cond_br %condition, ^bb1(%gathered : vector<2xbf16>), ^bb2(%least : bf16)
^bb1(%vector: vector<2xbf16>):
  %element = llvm.extractelement %vector[%index : i64] : vector<2xbf16>
  llvm.br ^bb2(%element : bf16)
^bb2(%scalar: bf16):
  %bits = llvm.bitcast %scalar : bf16 to i16
  %chosen = llvm.select %condition, %scalar, %least : i1, bf16
  llvm.store %chosen, %to {alignment = 2 : i64} : bf16, !llvm.ptr
  llvm.return %bits : i16
}

// Signatures, and operations that compute, keep bf16.

llvm.func @callee(bf16) -> bf16

// CHECK-LABEL: llvm.func @others(
// CHECK-SAME: %[[ARGUMENT:.*]]: bf16, %[[TO:.*]]: !llvm.ptr) -> bf16
// CHECK: %[[A:.*]] = llvm.bitcast %[[ARGUMENT]] : bf16 to i16
// CHECK: llvm.store %[[A]], %[[TO]]
// CHECK: %[[F:.*]] = llvm.bitcast %[[A]] : i16 to bf16
// CHECK: %[[WIDE:.*]] = llvm.fpext %[[F]] : bf16 to f32
// CHECK: %[[C:.*]] = llvm.bitcast %[[A]] : i16 to bf16
// CHECK: %[[CALLED:.*]] = llvm.call @callee(%[[C]]) : (bf16) -> bf16
// CHECK: %[[I:.*]] = llvm.bitcast %[[CALLED]] : bf16 to i16
// CHECK: %[[R:.*]] = llvm.bitcast %[[I]] : i16 to bf16
// CHECK: llvm.return %[[R]] : bf16
llvm.func @others(%argument: bf16, %to: !llvm.ptr) -> bf16 {
  llvm.store %argument, %to : bf16, !llvm.ptr
  %wide = llvm.fpext %argument : bf16 to f32
  llvm.store %wide, %to : f32, !llvm.ptr
  %called = llvm.call @callee(%argument) : (bf16) -> bf16
  llvm.return %called : bf16
}
