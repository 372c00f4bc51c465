// RUN: attn-opt %s --attn-hoist-rng=alternative=streams --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-hoist-rng=alternative=streams --split-input-file \
// RUN:   --remarks-filter=attn-hoist-rng --remark-format=emitRemark 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// Where keep masks cannot be generated concurrently with a matmul, they stay in the kernel, and
// a remark says why.

// CHECK-NOT: attn.overlap

#dropout = #attn.dropout<p = 0.5, rng = #attn.philox>
!t = tensor<1x2x64x32xf32>
func.func @no_matmul(%q: !t, %seed: i64) -> !t {
  // REMARK: makes random numbers in the kernel: no matmul runs before in the same block
  %r = attn.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
      dropout(#dropout, %seed, %seed : i64, i64) -> !t
  return %r : !t
}

// -----

#dropout = #attn.dropout<p = 0.5, rng = #attn.philox>
!t = tensor<1x2x64x32xf32>
!x = tensor<64x64xf32>
// The seed is computed from the matmul.
func.func @dominance(%q: !t, %x: !x) -> !t {
  %c0 = arith.constant 0 : index
  %p = attn.matmul ins(%x, %x : !x, !x) outs(%x : !x) -> !x
  %e = tensor.extract %p[%c0, %c0] : !x
  %seed = arith.fptosi %e : f32 to i64
  // REMARK: makes random numbers in the kernel: seed, offset or sizes are not known before the matmul
  %r = attn.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
      dropout(#dropout, %seed, %seed : i64, i64) -> !t
  return %r : !t
}

// -----

#dropout = #attn.dropout<p = 0.5, rng = #attn.philox>
!t = tensor<1x2x64x32xf32>
!x = tensor<64x64xf32>
func.func private @advance_generator()
func.func @side_effect(%q: !t, %x: !x, %seed: tensor<i64>) -> (!t, !x) {
  %p = attn.matmul ins(%x, %x : !x, !x) outs(%x : !x) -> !x
  call @advance_generator() : () -> ()
  // REMARK: makes random numbers in the kernel: 'func.call' may write memory between matmul and attention
  %r = attn.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
      dropout(#dropout, %seed, %seed : tensor<i64>, tensor<i64>) -> !t
  return %r, %p : !t, !x
}

// -----

#dropout = #attn.dropout<p = 0.5, rng = #attn.philox>
!t = tensor<1x2x64x32xf32>
!x = tensor<64x64xf32>
func.func @cache(%q: !t, %x: !x, %lengths: tensor<1xi32>, %seed: i64) -> (!t, !x) {
  %p = attn.matmul ins(%x, %x : !x, !x) outs(%x : !x) -> !x
  // REMARK: makes random numbers in the kernel: a KV cache has room for more keys than its sequences have
  %r = attn.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
      key_lengths(%lengths : tensor<1xi32>)
      dropout(#dropout, %seed, %seed : i64, i64) -> !t
  return %r, %p : !t, !x
}

// -----

#dropout = #attn.dropout<p = 0.5, rng = #attn.philox>
!t = tensor<1x2x64x32xf32>
!x = tensor<64x64xf32>
func.func @sequences(%q: !t, %x: !x, %ends: tensor<2xi32>, %seed: i64) -> (!t, !x) {
  %p = attn.matmul ins(%x, %x : !x, !x) outs(%x : !x) -> !x
  // REMARK: makes random numbers in the kernel: lengths of packed sequences are known on the device alone
  %r = attn.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
      sequences packed(%ends, %ends : tensor<2xi32>, tensor<2xi32>)
      dropout(#dropout, %seed, %seed : i64, i64) -> !t
  return %r, %p : !t, !x
}

// -----

#dropout = #attn.dropout<p = 0.5, rng = #attn.philox>
!t = tensor<1x64x65536x32xf32>
!x = tensor<64x64xf32>
func.func @memory(%q: !t, %x: !x, %seed: i64) -> (!t, !x) {
  %p = attn.matmul ins(%x, %x : !x, !x) outs(%x : !x) -> !x
  // REMARK: makes random numbers in the kernel: a mask takes 34359738368 bytes, of which 17625000000 may be used
  %r = attn.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
      dropout(#dropout, %seed, %seed : i64, i64) -> !t
  return %r, %p : !t, !x
}
