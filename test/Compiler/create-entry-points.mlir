// RUN: attn-opt %s --attn-create-entry-points=target=sm_90a | FileCheck %s

// The function is called with memrefs made of the caller's tensors, and with the
// stream.

// CHECK-LABEL: func.func private @f(
func.func @f(%a: memref<?x4xf32, strided<[?, 1], offset: ?>> {attn.name = "a", attn.dims = array<i64: -1, 4>,
                                                               attn.alignment = 16 : i32, attn.output, attn.read},
             %stream: !llvm.ptr) -> i32 attributes {attn.symbols = ["n"]} {
  %c0 = llvm.mlir.constant(0 : i32) : i32
  return %c0 : i32
}

// CHECK-DAG: llvm.mlir.global private constant @attn_name_f("f\00")
// CHECK-DAG: llvm.mlir.global private constant @attn_name0_of_attn_specs_f("a\00")
// CHECK-DAG: llvm.mlir.global private constant @attn_dims0_of_attn_specs_f() {{.*}} : !llvm.array<2 x i64>
// CHECK-DAG: llvm.mlir.global private constant @attn_specs_f() {{.*}} : !llvm.array<1 x struct<(ptr, i32, i32, ptr, i32, i32)>>

// CHECK-LABEL: llvm.func @attn_call_f(
// CHECK-SAME:    %[[ARGS:[^ ]+]]: !llvm.ptr, %[[N:[^ ]+]]: i32, %[[STREAM:[^ ]+]]: !llvm.ptr) -> i32
// CHECK:         %[[SPECS:.*]] = llvm.mlir.addressof @attn_specs_f
// CHECK:         %[[KIND:.*]] = llvm.mlir.constant(1 : i32) : i32
// CHECK:         %[[STATUS:.*]] = llvm.call @attnrtCheckTensors(%[[SPECS]], %{{.*}}, %[[ARGS]], %[[N]], %{{.*}}, %{{.*}})
// CHECK:         llvm.cond_br %{{.*}}, ^[[BODY:.*]], ^[[LEAVE:.*]](%[[STATUS]] : i32)
// CHECK:       ^[[BODY]]:
// CHECK:         %[[MEMREF:.*]] = builtin.unrealized_conversion_cast %{{.*}} to memref<?x4xf32, strided<[?, 1], offset: ?>>
// CHECK:         %[[RESULT:.*]] = func.call @f(%[[MEMREF]], %[[STREAM]])
// CHECK:         llvm.br ^[[LEAVE]](%[[RESULT]] : i32)

// Sizes that follow from others are checked after all others.

// CHECK-LABEL: llvm.func @attn_call_g(
// CHECK:         %[[STATUS:.*]] = llvm.call @attnrtCheckTensors(
// CHECK:         llvm.cond_br %{{.*}}, ^[[ROWS:.*]], ^[[LEAVE:.*]](%[[STATUS]] : i32)
// CHECK:       ^[[ROWS]]:
// CHECK:         %[[TILE:.*]] = llvm.mlir.constant(16 : i64) : i64
// CHECK:         %[[FACTOR:.*]] = llvm.mlir.constant(3 : i64) : i64
// CHECK:         %[[EXTRA:.*]] = llvm.mlir.constant(0 : i64) : i64
// CHECK:         %[[STATUS:.*]] = llvm.call @attnrtCheckTileCount(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[TILE]], %[[FACTOR]], %[[EXTRA]],
// CHECK-SAME:        %{{.*}})
// CHECK:         llvm.cond_br %{{.*}}, ^[[COLUMNS:.*]], ^[[LEAVE]](%[[STATUS]] : i32)
// CHECK:       ^[[COLUMNS]]:
// CHECK:         %[[STATUS:.*]] = llvm.call @attnrtCheckTileCount(
// CHECK:         llvm.cond_br %{{.*}}, ^[[MULTIPLE:.*]], ^[[LEAVE]](%[[STATUS]] : i32)
// CHECK:       ^[[MULTIPLE]]:
// CHECK:         %[[DIVISOR:.*]] = llvm.mlir.constant(8 : i64) : i64
// CHECK:         %[[STATUS:.*]] = llvm.call @attnrtCheckMultiple(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[DIVISOR]], %{{.*}})
// CHECK:         llvm.cond_br %{{.*}}, ^[[BODY:.*]], ^[[LEAVE]](%[[STATUS]] : i32)
// CHECK:       ^[[BODY]]:
// CHECK:         func.call @g(
func.func @g(%a: memref<?xf32> {attn.name = "a", attn.dims = array<i64: -1>, attn.alignment = 4 : i32},
             %block_mask: memref<?x?xi32> {attn.name = "block_mask", attn.dims = array<i64: -2, -3>, attn.alignment = 4 : i32,
                                     attn.tile_counts = array<i64: 0, 0, 0, 16, 3, 0, 1, 0, 0, 32, 1, 4>,
                                     attn.multiples = array<i64: 0, -1, 0, 8>},
             %stream: !llvm.ptr) -> i32 attributes {attn.symbols = ["n", "rows", "columns"]} {
  %c0 = llvm.mlir.constant(0 : i32) : i32
  return %c0 : i32
}

// CHECK: llvm.mlir.global private constant @attn_functions() {{.*}} : !llvm.array<2 x struct<(ptr, i32, i32, ptr, ptr, ptr, ptr, ptr)>>
// CHECK: llvm.mlir.global private constant @attn_target("sm_90a\00")
// CHECK: llvm.mlir.global weak constant @attn_artifact() {{.*}} : !llvm.struct<(i32, i32, ptr, ptr, ptr, ptr)>
