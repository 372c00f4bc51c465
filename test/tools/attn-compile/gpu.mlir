// REQUIRES: ptxas
// RUN: attn-compile %s --target=sm_90a -o %t.ptx && FileCheck %s --check-prefix=PTX < %t.ptx
// RUN: ptxas -arch=sm_90a %t.ptx -o %t.assembled
// RUN: attn-compile %s --target=sm_90a -o %t.cubin --fail-on-spills --verbose 2>&1 | FileCheck %s --check-prefix=REPORT
// RUN: attn-compile %s --target=sm_90a -o %t.so --with-reference
// RUN: attn-compile %s --target=sm_90a -o - --emit=llvm --embed-ptx | FileCheck %s --check-prefix=EMBED
// RUN: not attn-compile %s --target=sm_90a -o %t.none.so --cuda-path=%t.nowhere 2>&1 | FileCheck %s --check-prefix=NOPTXAS
// RUN: attn-compile %s --target=sm_90a -o %t.embed.o --embed-ptx --cuda-path=%t.nowhere

// PTX:      .version 8.0
// PTX-NEXT: .target sm_90a
// PTX:      .visible .entry causal_kernel(
// PTX:      wgmma.mma_async

// REPORT: remark: {{.*}}chose #attn_tile.warp_specialized<
// REPORT: remark: uses {{[0-9]+}} registers, 0 bytes of stack, 0 bytes of spills
// REPORT: device {{ *[0-9.]+}} s

// EMBED-DAG: @causal_kernel_handle = internal {{.*}}global
// EMBED-DAG: .entry causal_kernel(
// EMBED-DAG: call i32 @attnrtLaunchKernel(

// NOPTXAS: error: needs the assembler ptxas of the CUDA toolkit, which was not found in {{.*}}.nowhere; set CUDA_HOME or install the package nvidia-cuda-nvcc
func.func @causal(%q: tensor<?x8x?x128xbf16>, %k: tensor<?x2x?x128xbf16>,
                  %v: tensor<?x2x?x128xbf16>) -> tensor<?x8x?x128xbf16> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %b = tensor.dim %q, %c0 : tensor<?x8x?x128xbf16>
  %s = tensor.dim %q, %c2 : tensor<?x8x?x128xbf16>
  %init = tensor.empty(%b, %s) : tensor<?x8x?x128xbf16>
  %out = attn.attention
      ins(%q, %k, %v : tensor<?x8x?x128xbf16>, tensor<?x2x?x128xbf16>, tensor<?x2x?x128xbf16>)
      outs(%init : tensor<?x8x?x128xbf16>)
      mask(#attn.causal) -> tensor<?x8x?x128xbf16>
  return %out : tensor<?x8x?x128xbf16>
}
