// RUN: attn-compile %s --target=sm_90a -o - --emit=llvm --embed-ptx --host-opt-level=2 | FileCheck %s
// RUN: attn-compile %s --target=sm_80 -o - --emit=llvm --embed-ptx --host-opt-level=2 | FileCheck %s
// RUN: attn-compile %s --target=host -o - --emit=llvm --host-opt-level=2 | FileCheck %s --check-prefix=HOST

// An output that is an input, too, is written by a kernel of its own when all of
// it has been read.

// CHECK-LABEL: define {{.*}}@attn_call_static(
// CHECK:         call i32 @attnrtMallocAsync(
// CHECK:         call i32 @attnrtLaunchKernel(ptr nonnull @static_kernel_handle,
// CHECK:         call i32 @attnrtLaunchKernel{{(Early)?}}(ptr nonnull @static_copy_kernel_handle,
// CHECK:         call i32 @attnrtFreeAsync(
// HOST-LABEL:  define {{.*}}@attn_call_static(
// HOST:          call {{.*}}@malloc(
// HOST:          call void @free(
func.func @static(%x: tensor<1x16x512x64xbf16>) -> tensor<1x16x512x64xbf16> {
  %r = attn.attention ins(%x, %x, %x : tensor<1x16x512x64xbf16>, tensor<1x16x512x64xbf16>, tensor<1x16x512x64xbf16>)
      outs(%x : tensor<1x16x512x64xbf16>) -> tensor<1x16x512x64xbf16>
  return %r : tensor<1x16x512x64xbf16>
}

// CHECK-LABEL: define {{.*}}@attn_call_dynamic(
// CHECK:         call i32 @attnrtMallocAsync(
// CHECK:         call i32 @attnrtLaunchKernel(
// CHECK:         call i32 @attnrtLaunchKernel{{(Early)?}}(ptr nonnull @dynamic_copy_kernel_handle,
// CHECK:         call i32 @attnrtFreeAsync(
// HOST-LABEL:  define {{.*}}@attn_call_dynamic(
// HOST:          call {{.*}}@malloc(
// HOST:          call void @free(
func.func @dynamic(%x: tensor<1x16x?x64xbf16>) -> tensor<1x16x?x64xbf16> {
  %r = attn.attention ins(%x, %x, %x : tensor<1x16x?x64xbf16>, tensor<1x16x?x64xbf16>, tensor<1x16x?x64xbf16>)
      outs(%x : tensor<1x16x?x64xbf16>) -> tensor<1x16x?x64xbf16>
  return %r : tensor<1x16x?x64xbf16>
}
