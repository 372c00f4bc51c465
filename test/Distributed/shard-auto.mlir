// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=auto ranks=4" --remarks-filter="attn-shard-.*" \
// RUN:   --remark-format=emitRemark --verify-diagnostics | FileCheck %s

!t = tensor<1x32x65536x128xbf16>

// A causal mask leaves ranks equally much with striped and zigzag. Kernels of striped are longer and fewer.
// CHECK-LABEL: func @causal(
// CHECK-NOT: tensor.extract_slice
// CHECK: attn.comm.send_recv
// CHECK-NOT: attn.comm.all_gather
// expected-remark-re @below {{chose striped, {{[0-9]+}} us, of 6 methods for 4 ranks; runner-up: zigzag, }}
func.func @causal(%q: !t, %k: !t, %v: !t) -> !t {
  %e = tensor.empty() : !t
  // expected-remark @below {{ring of 4 ranks: 4 of 4 steps}}
  %o = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) mask(#attn.causal) -> !t
  return %o : !t
}

// -----

!t = tensor<1x32x65536x128xbf16>

// Dropout needs neighbors.
// CHECK-LABEL: func @dropout(
// CHECK: tensor.extract_slice
// CHECK: attn.comm.send_recv
// expected-remark @below {{striped cannot serve: with 'dropout' cannot be distributed over ranks by 'striped'}}
// expected-remark @below {{chose zigzag, }}
func.func @dropout(%q: !t, %k: !t, %v: !t, %seed: i64) -> !t {
  %e = tensor.empty() : !t
  // expected-remark @below {{ring of 4 ranks: 4 of 4 steps}}
  %o = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) mask(#attn.causal)
      dropout(#attn.dropout<p = 0.125, rng = #attn.philox<rounds = 7>>, %seed, %seed : i64, i64) -> !t
  return %o : !t
}

// -----

!q = tensor<1x8x512x64xbf16>

// Messages of a short sequence take longer than its computation, and one exchange is shorter than three.
// CHECK-LABEL: func @short(
// CHECK: attn.comm.all_gather
// CHECK-NOT: attn.comm.send_recv
// expected-remark @below {{chose allgather, }}
func.func @short(%q: !q, %k: !q, %v: !q) -> !q {
  %e = tensor.empty() : !q
  %o = attn.attention ins(%q, %k, %v : !q, !q, !q) outs(%e : !q) mask(#attn.causal) -> !q
  return %o : !q
}

// -----

!t = tensor<1x32x65536x128xbf16>

// Without a mask, all ranks compute equally much. Differences of less than a hundredth do not count.
// CHECK-LABEL: func @full(
// CHECK-NOT: tensor.extract_slice
// CHECK: attn.comm.send_recv
// expected-remark @below {{chose ring, }}
func.func @full(%q: !t, %k: !t, %v: !t) -> !t {
  %e = tensor.empty() : !t
  // expected-remark @below {{ring of 4 ranks: 4 of 4 steps}}
  %o = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) -> !t
  return %o : !t
}

// -----

!t = tensor<1x32x65536x128xbf16>

// Ranks exchange keys with their neighbors alone.
// CHECK-LABEL: func @window(
// CHECK: attn.comm.send_recv
// expected-remark @below {{chose ring, }}
func.func @window(%q: !t, %k: !t, %v: !t) -> !t {
  %e = tensor.empty() : !t
  // expected-remark @below {{ring of 4 ranks: 2 of 4 steps}}
  %o = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) mask(#attn.sliding_window<left = 1023, right = 0>) -> !t
  return %o : !t
}

// -----

!t = tensor<1x32x65540x128xbf16>

// expected-remark @below {{zigzag cannot serve: dimension 2 of 'query' must be a multiple of 8, 2 for each of 4 ranks (was 65540)}}
// expected-remark-re @below {{chose striped, {{[0-9]+}} us, of 5 methods for 4 ranks; runner-up: ulysses, }}
func.func @odd(%q: !t, %k: !t, %v: !t) -> !t {
  %e = tensor.empty() : !t
  // expected-remark @below {{ring of 4 ranks: 4 of 4 steps}}
  %o = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) mask(#attn.causal) -> !t
  return %o : !t
}

// -----

!t = tensor<1x30x65540x128xbf16>

// Neither have ranks as many heads.
// CHECK-LABEL: func @odd_heads(
// CHECK-COUNT-4: attn.attention ins(
// expected-remark @below {{zigzag cannot serve: dimension 2 of 'query' must be a multiple of 8, 2 for each of 4 ranks (was 65540)}}
// expected-remark @below {{ulysses cannot serve: number of heads of 'query' must be a multiple of 4, the ranks that divide them (was 30)}}
// expected-remark @below {{usp cannot serve: dimension 2 of 'query' must be a multiple of 8, 2 for each of 4 ranks (was 65540)}}
// expected-remark-re @below {{chose striped, {{[0-9]+}} us, of 4 methods for 4 ranks; runner-up: lightseq, }}
func.func @odd_heads(%q: !t, %k: !t, %v: !t) -> !t {
  %e = tensor.empty() : !t
  // expected-remark @below {{ring of 4 ranks: 4 of 4 steps}}
  %o = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) mask(#attn.causal) -> !t
  return %o : !t
}

// -----

!t = tensor<?x32x?x128xbf16>

// Lengths are taken to be 4096, and no step can be left out.
// CHECK-LABEL: func @dynamic(
// expected-remark @below {{zigzag cannot serve: dimension 2 of 'query' must be static with 2 chunks for each rank (was dynamic)}}
// expected-remark-re @below {{chose striped, {{[0-9]+}} us, of 5 methods for 4 ranks; runner-up: ring, }}
func.func @dynamic(%q: !t, %k: !t, %v: !t, %e: !t) -> !t {
  // expected-remark @below {{ring of 4 ranks: 4 of 4 steps}}
  // expected-remark @below {{no step is left out, since lengths are dynamic}}
  %o = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) mask(#attn.causal) -> !t
  return %o : !t
}

// -----

!t = tensor<1x32x65536x128xbf16>
!l = tensor<1x32x65536xf32>

// One method serves all functions of a module, since it says which positions ranks have. Gradients in a ring send f32.
// CHECK-LABEL: func @forward(
// CHECK: attn.comm.all_to_all
// CHECK-LABEL: func @gradient(
// CHECK: attn.comm.all_to_all
// expected-remark @below {{chose ulysses, }}
func.func @forward(%q: !t, %k: !t, %v: !t, %e: !t, %n: !l) -> (!t, !l) {
  %o, %lse = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e, %n : !t, !l) mask(#attn.causal) -> !t, !l
  return %o, %lse : !t, !l
}
func.func @gradient(%q: !t, %k: !t, %v: !t, %o: !t, %lse: !l, %do: !t, %dq: !t, %dk: !t, %dv: !t) -> (!t, !t, !t) {
  %r:3 = attn.attention_grad ins(%q, %k, %v, %o, %lse, %do : !t, !t, !t, !t, !l, !t) outs(%dq, %dk, %dv : !t, !t, !t)
      mask(#attn.causal) -> !t, !t, !t
  return %r#0, %r#1, %r#2 : !t, !t, !t
}

// -----

!t = tensor<1x32x65536x128xbf16>

// A function without attention stays.
// CHECK-LABEL: func @none(
// CHECK-SAME: tensor<1x32x65536x128xbf16>) -> tensor<1x32x65536x128xbf16>
func.func @none(%q: !t) -> !t {
  return %q : !t
}

// -----

!t = tensor<1x2x62x16xbf16>

// If no method can serve, ring says why.
// expected-remark @below {{usp cannot serve: dimension 2 of 'query' must be a multiple of 8, 2 for each of 4 ranks (was 62)}}
// expected-remark @below {{zigzag cannot serve: dimension 2 of 'query' must be a multiple of 8, 2 for each of 4 ranks (was 62)}}
// expected-remark @below {{striped cannot serve: dimension 2 of 'query' must be a multiple of 4, 1 for each of 4 ranks (was 62)}}
// expected-remark @below {{ring cannot serve: dimension 2 of 'query' must be a multiple of 4, 1 for each of 4 ranks (was 62)}}
// expected-remark @below {{allgather cannot serve: dimension 2 of 'query' must be a multiple of 4, 1 for each of 4 ranks (was 62)}}
// expected-remark @below {{lightseq cannot serve: dimension 2 of 'query' must be a multiple of 4, 1 for each of 4 ranks (was 62)}}
// expected-remark @below {{ulysses cannot serve: dimension 2 of 'query' must be a multiple of 4, 1 for each of 4 ranks (was 62)}}
func.func @neither(%q: !t, %k: !t, %v: !t, %e: !t) -> !t {
  // expected-error @below {{dimension 2 of 'query' must be a multiple of 4, 1 for each of 4 ranks (was 62)}}
  %o = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) -> !t
  return %o : !t
}

// -----

!t = tensor<1x4x64x16xf32>

// Linear attention decides for all functions of a module.
// CHECK-LABEL: func @softmax(
// CHECK: attn.comm.all_gather
// CHECK-LABEL: func @linear(
// CHECK: attn.comm.all_gather
func.func @softmax(%q: !t, %k: !t, %v: !t, %e: !t) -> !t {
  %o = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) -> !t
  return %o : !t
}
// expected-remark @below {{chose allgather, the only method for linear attention}}
func.func @linear(%q: !t, %k: !t, %v: !t, %e: !t) -> !t {
  %o = attn.linear_attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) -> !t
  return %o : !t
}

// -----

!t = tensor<2x32x4096x128xbf16>

// Padded sequences have one method.
// CHECK-LABEL: func @padded(
// CHECK: attn.comm.all_to_all
// CHECK: attn.attention {{.*}} sequences padded(
// expected-remark @below {{zigzag cannot serve: with 'sequences padded' can be distributed over ranks only by 'ulysses'}}
// expected-remark @below {{ring cannot serve}}
// expected-remark @below {{striped cannot serve: with 'sequences padded' can be distributed over ranks only by 'ulysses'}}
// expected-remark @below {{allgather cannot serve}}
// expected-remark @below {{chose ulysses, }}
func.func @padded(%q: !t, %k: !t, %v: !t, %lengths: tensor<2xi32>) -> !t {
  %e = tensor.empty() : !t
  %o = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t)
      sequences padded(%lengths, %lengths : tensor<2xi32>, tensor<2xi32>) mask(#attn.causal) -> !t
  return %o : !t
}

// -----

!t = tensor<1x32x65536x128xbf16>

// CHECK-LABEL: func @packed(
// CHECK: attn.attention {{.*}} sequences packed(
// expected-remark-re @below {{chose striped, {{.*}} of 5 methods for 4 ranks}}
func.func @packed(%q: !t, %k: !t, %v: !t, %cu: tensor<?xi32>) -> !t {
  %e = tensor.empty() : !t
  // expected-remark @below {{ring of 4 ranks: 4 of 4 steps}}
  %o = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t)
      sequences packed(%cu, %cu : tensor<?xi32>, tensor<?xi32>) mask(#attn.causal) -> !t
  return %o : !t
}
