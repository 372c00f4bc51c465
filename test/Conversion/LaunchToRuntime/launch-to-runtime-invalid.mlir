// RUN: attn-opt %s --convert-launch-to-runtime --split-input-file --verify-diagnostics

// expected-error @below {{'gpu.binary' op kernel "k" needs 'attn_tile.block_size' and 'attn_tile.shared_bytes'}}
gpu.binary @k_module [#gpu.object<#nvvm.target<chip = "sm_90a">, kernels = <[
    #gpu.kernel_metadata<"k", !llvm.func<void ()>>]>, bin = "cubin">]

// -----

// expected-error @below {{'gpu.binary' op object has no kernel table}}
gpu.binary @k_module [#gpu.object<#nvvm.target<chip = "sm_90a">, bin = "cubin">]

// -----

// expected-error @below {{'gpu.binary' op expected an #nvvm.target with a chip such as "sm_90a", got #rocdl.target}}
gpu.binary @k_module [#gpu.object<#rocdl.target, kernels = <[
    #gpu.kernel_metadata<"k", !llvm.func<void ()>, metadata = {
        attn_tile.block_size = 128 : i32, attn_tile.shared_bytes = 0 : i32}>]>,
    bin = "cubin">]

// -----

gpu.binary @k_module [#gpu.object<#nvvm.target<chip = "sm_90a">, kernels = <[
    #gpu.kernel_metadata<"k", !llvm.func<void ()>, metadata = {
        attn_tile.block_size = 128 : i32, attn_tile.shared_bytes = 0 : i32}>]>,
    bin = "cubin">]
func.func @no_grid() {
  // expected-error @below {{'attn_tile.launch' op needs a grid}}
  attn_tile.launch @k_module::@k args()
  return
}

// -----

gpu.binary @k_module [#gpu.object<#nvvm.target<chip = "sm_90a">, kernels = <[
    #gpu.kernel_metadata<"k", !llvm.func<void ()>, metadata = {
        attn_tile.block_size = 128 : i32, attn_tile.shared_bytes = 0 : i32}>]>,
    bin = "cubin">]
func.func @structured(%n: index, %c: i1) {
  scf.if %c {
    // expected-error @below {{'attn_tile.launch' op must not be nested in structured control flow here}}
    attn_tile.launch @k_module::@k grid(%n, %n, %n) args()
  }
  return
}

// -----

gpu.binary @k_module [#gpu.object<#nvvm.target<chip = "sm_90a">, kernels = <[
    #gpu.kernel_metadata<"k", !llvm.func<void ()>, metadata = {
        attn_tile.block_size = 128 : i32, attn_tile.shared_bytes = 0 : i32}>]>,
    bin = "cubin">]
func.func @host_access(%n: index, %m: memref<4xindex>) {
  // expected-error @below {{'memref.load' op would touch memory of the device on the host}}
  %x = memref.load %m[%n] : memref<4xindex>
  attn_tile.launch @k_module::@k grid(%x, %x, %x) args()
  return
}

// -----

gpu.binary @k_module [#gpu.object<#nvvm.target<chip = "sm_90a">, kernels = <[
    #gpu.kernel_metadata<"k", !llvm.func<void (ptr, i64, i64)>, metadata = {
        attn_tile.block_size = 128 : i32, attn_tile.shared_bytes = 0 : i32}>]>,
    bin = "cubin">]
memref.global "private" constant @slopes : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]>
func.func @constant(%n: index) {
  // expected-error @below {{is a constant in the memory of the host, which kernels of the device cannot read; pass it to 'constant' as an argument}}
  %m = memref.get_global @slopes : memref<4xf32>
  // expected-note @below {{used by 'attn_tile.launch' here}}
  attn_tile.launch @k_module::@k grid(%n, %n, %n) args(%m : memref<4xf32>)
  return
}
