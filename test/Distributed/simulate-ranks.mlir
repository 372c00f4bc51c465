// RUN: attn-opt %s --attn-simulate-ranks="ranks=2,4,16 output=-" -o /dev/null | FileCheck %s
// RUN: attn-opt %s --attn-simulate-ranks="ranks=4 format=json output=-" -o /dev/null | FileCheck %s --check-prefix=JSON
// RUN: not attn-opt %s --attn-simulate-ranks=format=xml 2>&1 | FileCheck %s --check-prefix=FORMAT
// RUN: not attn-opt %s --attn-simulate-ranks=ranks=2,1025 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not attn-opt %s --attn-simulate-ranks=dynamic-size=0 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not attn-opt %s --attn-simulate-ranks=target=sm_1 2>&1 | FileCheck %s --check-prefix=TARGET
// FORMAT: error: unknown format 'xml' (expected table or json)
// RANKS: error: 'ranks' must be from 1 to 1024 (was 1025)
// SIZE: error: dynamic-size must be positive (was 0)
// TARGET: error: unknown target 'sm_1'

!q = tensor<1x32x65536x128xbf16>
!k = tensor<1x8x65536x128xbf16>

// Methods are sorted by time. A causal mask leaves the last rank of a ring most of the work, and none of zigzag. Keys
// and values of a rank, 2 * 8 * 65536 / 2 * 128 * 2 bytes, are 134.2 MB with two ranks.
// CHECK: device #attn.device<"h200">
// CHECK: @causal, {{[0-9.]+}} ms on one rank
// CHECK: ranks method ms times compute ms exposed ms hidden imbalance MB sent
// CHECK: 2 zigzag {{.*}} 100% 1.00 134.2
// CHECK-DAG: 2 ring {{.*}} 100% 1.{{[3-5][0-9]}} 134.2
// CHECK-DAG: 2 allgather {{.*}} 0% 1.{{[3-5][0-9]}} 134.2
// CHECK: 2 usp one group has all ranks, as with ulysses
// CHECK: 4 zigzag {{.*}} 100% 1.00 201.3
// Two of four ranks compute in the last step of lightseq. Rank 0 sends keys twice and a result in f32.
// CHECK: 4 lightseq {{.*}} 1.2{{[0-9]}} 404.8
// CHECK-DAG: 4 ring {{.*}} 1.{{[6-7][0-9]}} 201.3
// CHECK: 16 usp {{.*}} 1.00
// CHECK: 16 ulysses {{.*}} 0% 1.00
// CHECK: 16 ring

// JSON: "device": "#attn.device<\"h200\">",
// JSON-NEXT: "calibration": "h200",
// JSON-NEXT: "functions": [
// JSON: "name": "causal",
// JSON-NEXT: "seconds": 0.0
// JSON-NEXT: "groups": [
// JSON: "ranks": 4,
// JSON-NEXT: "methods": [
// JSON: "method": "ulysses",
// JSON-NEXT: "seconds": 0.0
// JSON-NEXT: "computation": 0.0
// JSON-NEXT: "exposed": 0.00
// JSON-NEXT: "critical_computation": 0.0
// JSON-NEXT: "hidden": 0,
// JSON-NEXT: "imbalance": 1,
// JSON-NEXT: "bytes_sent":
// JSON: "method": "usp",
// JSON-NEXT: "ulysses_degree": 4,
// JSON-NEXT: "obstacle": "one group has all ranks, as with ulysses"
func.func @causal(%q: !q, %k: !k, %v: !k, %e: !q) -> !q {
  %o = attn.attention ins(%q, %k, %v : !q, !k, !k) outs(%e : !q) mask(#attn.causal) -> !q
  return %o : !q
}

!w = tensor<1x6x96x64xf32>

// Two of four ranks can divide six heads.
// CHECK: @few, {{[0-9.]+}} ms on one rank
// CHECK-DAG: 4 ring
// CHECK-DAG: 4 usp {{.*}} 1.00
// CHECK: 4 ulysses number of heads of 'query' must be a multiple of 4, the ranks that divide them (was 6)
// CHECK: 16 allgather
// CHECK: 16 zigzag
// CHECK-SAME: 1.00
func.func @few(%q: !w, %k: !w, %v: !w, %e: !w) -> !w {
  %o = attn.attention ins(%q, %k, %v : !w, !w, !w) outs(%e : !w) -> !w
  return %o : !w
}

// CHECK: @shard: 'attn.attention' cannot be distributed over ranks with 'positions'
// JSON: "name": "shard",
// JSON-NEXT: "obstacle": "'attn.attention' cannot be distributed over ranks with 'positions'"
func.func @shard(%q: !w, %k: !w, %v: !w, %e: !w, %p: tensor<6xi32>) -> !w {
  %o = attn.attention ins(%q, %k, %v : !w, !w, !w) outs(%e : !w) positions(%p : tensor<6xi32>) -> !w
  return %o : !w
}

// CHECK: @buffers: 'attn.attention' must be on tensors to be distributed over ranks
func.func @buffers(%q: memref<1x2x64x64xf32>, %k: memref<1x2x64x64xf32>, %v: memref<1x2x64x64xf32>,
                   %e: memref<1x2x64x64xf32>) {
  attn.attention ins(%q, %k, %v : memref<1x2x64x64xf32>, memref<1x2x64x64xf32>, memref<1x2x64x64xf32>)
      outs(%e : memref<1x2x64x64xf32>)
  return
}

// Functions without attention are left out.
// CHECK-NOT: @none
func.func @none(%q: !q) -> !q {
  return %q : !q
}
