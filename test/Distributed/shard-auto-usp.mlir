// RUN: attn-opt %s --split-input-file --attn-shard-attention="method=auto ranks=64" --remarks-filter="attn-shard-.*" \
// RUN:   --remark-format=emitRemark --verify-diagnostics | FileCheck %s

!t = tensor<1x32x65536x128xbf16>

// Eight hosts of eight ranks: a ring sends whole keys from host to host, and there are more ranks than heads.
// CHECK-LABEL: func @hosts(
// CHECK: attn.comm.send_recv {{.*}} -> tensor<1x4x1024x128xbf16>
// CHECK: attn.overlap by streams
// CHECK: attn.comm.send_recv {{.*}} -> tensor<1x4x8192x128xbf16>
// expected-remark @below {{ulysses cannot serve: number of heads of 'query' must be a multiple of 64, the ranks that divide them (was 32)}}
// expected-remark-re @below {{chose usp of degree 8, {{[0-9]+}} us, of 6 methods for 64 ranks; runner-up: }}
func.func @hosts(%q: !t, %k: !t, %v: !t) -> !t {
  %e = tensor.empty() : !t
  // expected-remark @below {{ring of 8 groups of 8 ranks: 8 of 8 steps}}
  %o = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) mask(#attn.causal) -> !t
  return %o : !t
}

// -----

!t = tensor<1x32x65600x128xbf16>

// Chunks that groups cannot have.
// expected-remark @below {{usp cannot serve: dimension 2 of 'query' must be a multiple of 128, 2 for each of 64 ranks (was 65600)}}
// expected-remark @below {{ulysses cannot serve: }}
// expected-remark @below {{zigzag cannot serve: }}
// expected-remark-re @below {{chose {{ring|allgather}}, {{[0-9]+}} us, of 4 methods for 64 ranks; runner-up: }}
func.func @odd(%q: !t, %k: !t, %v: !t, %e: !t) -> !t {
  %o = attn.attention ins(%q, %k, %v : !t, !t, !t) outs(%e : !t) mask(#attn.causal) -> !t
  return %o : !t
}
