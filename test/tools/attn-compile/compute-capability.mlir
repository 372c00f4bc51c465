// A compute capability stands for the target of its GPUs. Kernels for sm_90a run on
// no later GPU.

// RUN: attn-compile %s --target=9.0 --emit=mlir --stop-after=schedule -o - | FileCheck %s --check-prefix=HOPPER
// RUN: attn-compile %s --target=8.6 --emit=mlir --stop-after=schedule -o - | FileCheck %s --check-prefix=OTHER
// RUN: attn-compile %s --target=10.0 --emit=mlir --stop-after=schedule -o - | FileCheck %s --check-prefix=OTHER
// HOPPER: #attn_tile.warp_specialized<
// OTHER: #attn_tile.multistage<

!t = tensor<1x4x512x64xbf16>
func.func @f(%q: !t, %o: !t) -> !t {
  %0 = attn.attention ins(%q, %q, %q : !t, !t, !t) outs(%o : !t) -> !t
  return %0 : !t
}
