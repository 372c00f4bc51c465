// RUN: attn-opt %s --convert-launch-to-runtime --split-input-file | FileCheck %s

// A launch: image, name and handle become globals, parameters are flattened,
// the status is returned.

// CHECK-DAG: llvm.mlir.global private constant @k_module_image("cubin\00") {addr_space = 0 : i32, alignment = 64 : i64}
// CHECK-DAG: llvm.mlir.global private constant @k_name("k\00")
// CHECK-DAG: llvm.mlir.global internal @k_handle() {{.*}} : !llvm.struct<(ptr, i64, ptr, i32, i32, i32, i32, i32, i32, ptr)>
// CHECK-NOT: gpu.binary
gpu.binary @k_module [#gpu.object<#nvvm.target<chip = "sm_90a">, kernels = <[
    #gpu.kernel_metadata<"k", !llvm.func<void ()>, metadata = {
        attn_tile.block_size = 384 : i32, attn_tile.shared_bytes = 1024 : i32}>]>,
    bin = "cubin">]

// CHECK-LABEL: func.func @launch(
// CHECK-SAME:    %[[A:[^ ]+]]: memref<?x8xf32, strided<[?, 1], offset: ?>>,
// CHECK-SAME:    %[[N:[^ ]+]]: index, %[[S:[^ ]+]]: f32, %[[STREAM:[^ ]+]]: !llvm.ptr) -> i32
func.func @launch(%a: memref<?x8xf32, strided<[?, 1], offset: ?>>, %n: index, %s: f32) {
  // CHECK-DAG: %[[BASE:.*]], %[[OFFSET:.*]], %[[SIZES:.*]]:2, %[[STRIDES:.*]]:2 = memref.extract_strided_metadata %[[A]]
  // CHECK-DAG: memref.extract_aligned_pointer_as_index %[[A]]
  // CHECK-DAG: %[[O:.*]] = arith.index_cast %[[OFFSET]] : index to i64
  // CHECK-DAG: llvm.getelementptr %{{.*}}[%[[O]]] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  // CHECK-DAG: arith.index_cast %[[SIZES]]#0
  // CHECK-DAG: arith.index_cast %[[STRIDES]]#0
  // CHECK-DAG: llvm.store %[[S]], %{{.*}} : f32, !llvm.ptr
  // CHECK: %[[HANDLE:.*]] = llvm.mlir.addressof @k_handle
  // CHECK-NEXT: %[[GX:.*]] = arith.index_cast %[[N]] : index to i64
  // CHECK: %[[PERSISTENT:.*]] = llvm.mlir.constant(1 : i32) : i32
  // CHECK: %[[STATUS:.*]] = llvm.call @attnrtLaunchKernel(%[[HANDLE]], %[[GX]], %{{.*}}, %{{.*}}, %[[PERSISTENT]], %{{.*}}, %[[STREAM]])
  // CHECK: %[[OK:.*]] = llvm.icmp "eq" %[[STATUS]]
  // CHECK: cf.cond_br %[[OK]], ^[[REST:.*]], ^[[LEAVE:.*]](%[[STATUS]] : i32)
  // CHECK: ^[[REST]]:
  // CHECK:   return %{{.*}} : i32
  // CHECK: ^[[LEAVE]](%[[FAILED:.*]]: i32):
  // CHECK-NEXT: return %[[FAILED]] : i32
  attn_tile.launch @k_module::@k grid(%n, %n, %n) ctas_per_sm(1)
      args(%a, %n, %s : memref<?x8xf32, strided<[?, 1], offset: ?>>, index, f32)
  return
}

// CHECK-LABEL: func.func @caller(
// CHECK-SAME:    %[[STREAM:[^ ]+]]: !llvm.ptr) -> i32
func.func @caller(%a: memref<?x8xf32, strided<[?, 1], offset: ?>>, %n: index, %s: f32) {
  // CHECK: %[[STATUS:.*]] = call @launch(%{{.*}}, %{{.*}}, %{{.*}}, %[[STREAM]])
  // CHECK: cf.cond_br
  call @launch(%a, %n, %s) : (memref<?x8xf32, strided<[?, 1], offset: ?>>, index, f32) -> ()
  return
}

// CHECK-LABEL: func.func @untouched()
// CHECK-NEXT:    return
func.func @untouched() {
  return
}

// -----

// Tensor maps: one element of the leading dimensions, swizzled as wide as a row.

gpu.binary @k_module [#gpu.object<#nvvm.target<chip = "sm_90a">, kernels = <[
    #gpu.kernel_metadata<"k", !llvm.func<void ()>, metadata = {
        attn_tile.block_size = 384 : i32, attn_tile.shared_bytes = 0 : i32}>]>,
    bin = "cubin">]

// CHECK-LABEL: func.func @tensor_map
func.func @tensor_map(%k: memref<?x8x?x128xbf16>, %n: index) {
  // CHECK: %[[MAP:.*]] = llvm.alloca %{{.*}} x i8 {alignment = 64 : i64}
  // CHECK: llvm.mlir.constant(176 : i32) : i32
  // CHECK: llvm.mlir.constant(64 : i32) : i32
  // CHECK: llvm.call @attnrtEncodeTensorMap(%[[MAP]], %{{.*}}) :
  // CHECK-SAME: (!llvm.ptr, !llvm.ptr, i32, i32, !llvm.ptr, !llvm.ptr, !llvm.ptr, i32, i32) -> i32
  %map = attn_tile.make_tensor_map %k
      : memref<?x8x?x128xbf16> -> !attn_tile.tensor_map<4, 176x64xbf16>
  // CHECK: llvm.store %[[MAP]], %{{.*}} : !llvm.ptr, !llvm.ptr
  // CHECK: llvm.call @attnrtLaunchKernel
  attn_tile.launch @k_module::@k grid(%n, %n, %n)
      args(%map : !attn_tile.tensor_map<4, 176x64xbf16>)
  return
}

// -----

// Temporary buffers are scratch memory in stream order. It is freed once,
// whatever fails.

gpu.binary @k_module [#gpu.object<#nvvm.target<chip = "sm_80">, kernels = <[
    #gpu.kernel_metadata<"k", !llvm.func<void ()>, metadata = {
        attn_tile.block_size = 128 : i32, attn_tile.shared_bytes = 0 : i32}>]>,
    bin = "cubin">]

// CHECK-LABEL: func.func @scratch
// CHECK-SAME:    %[[N:[^ ]+]]: index, %[[STREAM:[^ ]+]]: !llvm.ptr
func.func @scratch(%n: index) {
  // CHECK: %[[NULL:.*]] = llvm.mlir.zero
  // CHECK-NEXT: llvm.store %[[NULL]], %[[SLOT:.*]] : !llvm.ptr, !llvm.ptr
  // CHECK: llvm.call @attnrtMallocAsync(%[[SLOT]], %{{.*}}, %[[STREAM]])
  // CHECK: builtin.unrealized_conversion_cast
  %t = memref.alloc(%n) : memref<?x4xf32>
  // CHECK: llvm.call @attnrtLaunchKernel
  attn_tile.launch @k_module::@k grid(%n, %n, %n) args(%t : memref<?x4xf32>)
  // CHECK: cf.cond_br %{{.*}}, ^{{.*}}, ^[[LEAVE:.*]](%{{.*}} : i32)
  // CHECK: %[[NULL:.*]] = llvm.mlir.zero
  // CHECK: llvm.store %[[NULL]], %[[SLOT]]
  // CHECK: llvm.call @attnrtFreeAsync(%{{.*}}, %[[STREAM]])
  // CHECK: cf.cond_br %{{.*}}, ^{{.*}}, ^[[LEAVE]](%{{.*}} : i32)
  // CHECK: ^[[LEAVE]](%[[FAILED:.*]]: i32):
  // CHECK:   %[[LEFT:.*]] = llvm.load %[[SLOT]]
  // CHECK:   llvm.call @attnrtFreeAsync(%[[LEFT]], %[[STREAM]])
  // CHECK:   return %[[FAILED]] : i32
  memref.dealloc %t : memref<?x4xf32>
  return
}

// -----

// CHECK-LABEL: func.func @fault(
// CHECK-SAME:    %[[STREAM:.*]]: !llvm.ptr) -> i32
// CHECK:         %[[STATUS:.*]] = llvm.call @attnrtGetErrorFlag(%{{.*}}, %[[SLOT:[0-9]+]])
// CHECK:         llvm.load %[[SLOT]]
// CHECK:         llvm.icmp "eq" %[[STATUS]]
// CHECK:         cf.cond_br
// CHECK:         llvm.call @attnrtLaunchKernel
gpu.binary @kernels [#gpu.object<#nvvm.target<chip = "sm_90a">, kernels = <[
    #gpu.kernel_metadata<"report", !llvm.func<void (ptr, i64, i64)>,
      metadata = {attn_tile.block_size = 32 : i32, attn_tile.shared_bytes = 0 : i32}>]>,
    bin = "image">]
func.func @fault(%n: index) {
  %word = attn_tile.error_flag : memref<1xi32>
  attn_tile.launch @kernels::@report grid(%n, %n, %n) args(%word : memref<1xi32>)
  return
}

// -----

// A kernel on another stream; what fails in between joins it.

gpu.binary @k_module [#gpu.object<#nvvm.target<chip = "sm_90a">, kernels = <[
    #gpu.kernel_metadata<"k", !llvm.func<void ()>, metadata = {
        attn_tile.block_size = 384 : i32, attn_tile.shared_bytes = 1024 : i32}>]>,
    bin = "cubin">]

// CHECK-LABEL: func.func @streams(
// CHECK-SAME:    %[[N:[^ ]+]]: index, %[[STREAM:[^ ]+]]: !llvm.ptr) -> i32
func.func @streams(%n: index) {
  // CHECK-DAG: llvm.store %{{.*}}, %[[FORK:.*]] : !llvm.ptr, !llvm.ptr
  // CHECK: llvm.call @attnrtForkStream(%[[STREAM]], %[[FORK]], %[[SLOT:[^)]+]])
  // CHECK: %[[SIDE:.*]] = llvm.load %[[SLOT]]
  // CHECK: llvm.call @attnrtLaunchKernel({{.*}}, %[[STREAM]])
  // CHECK: llvm.call @attnrtLaunchKernel({{.*}}, %[[SIDE]])
  // CHECK: %[[F:.*]] = llvm.load %[[FORK]]
  // CHECK: llvm.store %{{.*}}, %[[FORK]]
  // CHECK: llvm.call @attnrtJoinStream(%[[F]], %[[STREAM]])
  // CHECK: return
  // CHECK: %[[L:.*]] = llvm.load %[[FORK]]
  // CHECK: llvm.call @attnrtJoinStream(%[[L]], %[[STREAM]])
  // CHECK: return
  %side = attn_tile.fork_stream
  attn_tile.launch @k_module::@k grid(%n, %n, %n) args()
  attn_tile.launch @k_module::@k on(%side) grid(%n, %n, %n) args()
  attn_tile.join_stream %side
  return
}

// -----

// A kernel that may begin early, and a map with its promotion.

gpu.binary @k_module [#gpu.object<#nvvm.target<chip = "sm_90a">, kernels = <[
    #gpu.kernel_metadata<"k", !llvm.func<void (ptr)>, metadata = {
        attn_tile.block_size = 384 : i32, attn_tile.shared_bytes = 1024 : i32}>]>,
    bin = "cubin">]

// CHECK-LABEL: func.func @early(
// CHECK:         %[[BYTES:.*]] = llvm.mlir.constant(64 : i32) : i32
// CHECK:         llvm.call @attnrtEncodeTensorMap({{.*}}, %[[BYTES]])
// CHECK:         llvm.call @attnrtLaunchKernelEarly(
func.func @early(%m: memref<?x32xf32>, %n: index) {
  %map = attn_tile.make_tensor_map %m {l2_promotion = 64 : i64} : memref<?x32xf32> -> !attn_tile.tensor_map<2, 32x32xf32>
  attn_tile.launch @k_module::@k early grid(%n, %n, %n) args(%map : !attn_tile.tensor_map<2, 32x32xf32>)
  return
}

// CTAs that wait for one another.

// CHECK-LABEL: func.func @together(
// CHECK:         llvm.call @attnrtLaunchKernelTogether(
func.func @together(%m: memref<?x32xf32>, %n: index) {
  %map = attn_tile.make_tensor_map %m {l2_promotion = 64 : i64} : memref<?x32xf32> -> !attn_tile.tensor_map<2, 32x32xf32>
  attn_tile.launch @k_module::@k together grid(%n, %n, %n) ctas_per_sm(1)
      args(%map : !attn_tile.tensor_map<2, 32x32xf32>)
  return
}

// -----

// CTAs of a cluster.

// CHECK-LABEL: llvm.mlir.global internal @k_handle()
// CHECK:         %[[THREADS:.*]] = llvm.mlir.constant(384 : i32)
// CHECK:         %[[GROUPS:.*]] = llvm.mlir.constant(2 : i32)
// CHECK:         llvm.insertvalue %[[GROUPS]], %{{.*}}[8]
gpu.binary @k_module [#gpu.object<#nvvm.target<chip = "sm_90a">, kernels = <[
    #gpu.kernel_metadata<"k", !llvm.func<void ()>, metadata = {
        attn_tile.block_size = 384 : i32, attn_tile.shared_bytes = 1024 : i32, attn_tile.cluster_size = 2 : i32}>]>,
    bin = "cubin">]
