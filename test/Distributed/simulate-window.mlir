// RUN: attn-opt %s --attn-simulate-ranks="ranks=64,128 output=-" -o /dev/null | FileCheck %s

// A window reaches the last 5,056 rows of the chunk before, which are all that a ring sends, also where tiles of kernels
// are in two chunks: 2 * 32 * 5056 * 64 * 2 bytes are 41.4 MB.
// CHECK: 64 ring {{.*}} 41.4
// CHECK: 128 ring {{.*}} 41.4
!t = tensor<1x32x1048576x64xf16>
func.func @window(%q: !t, %k: !t, %v: !t, %e: !t) -> !t {
  %o = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) mask(#attn.sliding_window<left = 5000, right = 0>) -> !t
  return %o : !t
}
