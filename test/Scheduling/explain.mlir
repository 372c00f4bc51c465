// RUN: attn-opt %s --attn-explain="dynamic-size=16384 roofline=%t.roofline.svg flow=%t.flow.svg" -o %t.mlir 2>&1 | FileCheck %s
// RUN: attn-opt %s | diff - %t.mlir
// RUN: attn-opt %s --attn-explain="dynamic-size=16384 format=json output=-" -o /dev/null | FileCheck %s --check-prefix=JSON
// RUN: FileCheck %s --check-prefix=ROOFLINE --input-file=%t.roofline.svg
// RUN: FileCheck %s --check-prefix=FLOW --input-file=%t.flow.svg

// CHECK: device #attn.device<"h200">; ridge 206.1 FLOP per byte

// Products of 8192 times 8192 with 128 and with 8192 steps.
// CHECK-LABEL: @products
// CHECK:      operation GFLOP MB FLOP/B us bound
// CHECK-NEXT: linalg.matmul 17.180 138.412 124.1 {{.*}} memory
// CHECK-NEXT: linalg.matmul 1099.512 402.653 2730.7 {{.*}} mma_16b
// CHECK-NEXT: total
func.func @products(%a: tensor<8192x128xbf16>, %b: tensor<128x8192xbf16>, %c: tensor<8192x8192xbf16>)
    -> (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) {
  %zero = arith.constant 0.0 : bf16
  %empty = tensor.empty() : tensor<8192x8192xbf16>
  %init = linalg.fill ins(%zero : bf16) outs(%empty : tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  %0 = linalg.matmul ins(%a, %b : tensor<8192x128xbf16>, tensor<128x8192xbf16>)
      outs(%init : tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  %1 = linalg.matmul ins(%c, %0 : tensor<8192x8192xbf16>, tensor<8192x8192xbf16>)
      outs(%init : tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
  return %0, %1 : tensor<8192x8192xbf16>, tensor<8192x8192xbf16>
}

// A matmul that accumulates reads its destination.
// CHECK-LABEL: @sum
// CHECK: linalg.matmul 0.004 0.098
// CHECK: linalg.generic 0.000 0.066
func.func @sum(%a: tensor<128x128xbf16>, %c: tensor<128x128xf32>) -> tensor<128x128xbf16> {
  %empty = tensor.empty() : tensor<128x128xbf16>
  %0 = linalg.matmul ins(%a, %a : tensor<128x128xbf16>, tensor<128x128xbf16>)
      outs(%empty : tensor<128x128xbf16>) -> tensor<128x128xbf16>
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      outs(%0 : tensor<128x128xbf16>) {
  ^bb0(%x: bf16):
    %y = arith.addf %x, %x : bf16
    linalg.yield %y : bf16
  } -> tensor<128x128xbf16>
  return %1 : tensor<128x128xbf16>
}

// Half of the pairs, and of the tiles.
// CHECK-LABEL: @attention
// CHECK-NOT:  tensor.dim
// CHECK:      attn.attention {{.*}} mma_16b
// CHECK-NEXT:   264192 steps; per step 8.40 MFLOP, 66.6 kB l2, 229.4 kB shared
// CHECK-NEXT:   schedule #attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2>, estimated
// CHECK-NEXT: total
// Its schedule has a model of its time: a step takes longer than any part of it.
// JSON-LABEL: "name": "attention"
// JSON:      "bound": "mma_16b",
// JSON-NEXT: "schedule": "#attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2>",
// JSON-NEXT: "kernels": [
// JSON-NEXT: {
// JSON-NEXT:   "name": "attention",
// JSON-NEXT:   "consumers": 2,
// JSON-NEXT:   "mma": 1912.8
// JSON-NEXT:   "chain": 1897.2
// JSON-NEXT:   "exponentials": 924.6
// JSON-NEXT:   "step": 2415.8
// JSON-NEXT:   "mask": 800,
// JSON-NEXT:   "work_item": 3400,
// JSON-NEXT:   "launch": 60610.1
// JSON-NEXT:   "steps": 2064,
// JSON-NEXT:   "masked_steps": 32,
// JSON-NEXT:   "work_items": 32,
// JSON-NEXT:   "memory": {{[0-9.]+}},
// JSON-NEXT:   "combine": 0,
// JSON-NEXT:   "cycles_per_second": 16901
// JSON-NEXT: }
// JSON-LABEL: "name": "gradient"
// JSON-NOT:  "kernels"
func.func @attention(%q: tensor<?x32x?x128xbf16>, %k: tensor<?x8x?x128xbf16>, %v: tensor<?x8x?x128xbf16>,
                     %init: tensor<?x32x?x128xbf16>) -> tensor<?x32x?x128xbf16> {
  %0 = attn.attention
      ins(%q, %k, %v : tensor<?x32x?x128xbf16>, tensor<?x8x?x128xbf16>, tensor<?x8x?x128xbf16>)
      outs(%init : tensor<?x32x?x128xbf16>) mask(#attn.causal)
      schedule(#attn_tile.warp_specialized<query_tile = 128, key_tile = 128, stages = 2, consumers = 2>)
      -> tensor<?x32x?x128xbf16>
  return %0 : tensor<?x32x?x128xbf16>
}

// Five matmuls where attention has two.
// CHECK-LABEL: @gradient
// CHECK: attn.attention_grad 86.369 {{.*}} mma_16b
func.func @gradient(%q: tensor<1x16x2048x128xbf16>, %k: tensor<1x16x2048x128xbf16>, %v: tensor<1x16x2048x128xbf16>,
                    %out: tensor<1x16x2048x128xbf16>, %lse: tensor<1x16x2048xf32>, %dout: tensor<1x16x2048x128xbf16>,
                    %dq: tensor<1x16x2048x128xbf16>, %dk: tensor<1x16x2048x128xbf16>, %dv: tensor<1x16x2048x128xbf16>)
    -> (tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>) {
  %0:3 = attn.attention_grad
      ins(%q, %k, %v, %out, %lse, %dout : tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>,
          tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>, tensor<1x16x2048xf32>, tensor<1x16x2048x128xbf16>)
      outs(%dq, %dk, %dv : tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>)
      -> tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>
  return %0#0, %0#1, %0#2 : tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>
}

// The kernels of a gradient, one after the other. Kernels that only move memory have no steps.
// JSON-LABEL: "name": "scheduled_gradient"
// JSON:      "kernels": [
// JSON:        "name": "preprocess",
// JSON:        "steps": 0,
// JSON:        "memory": 15412
// JSON:        "name": "dkdv",
// JSON-NEXT:   "consumers": 2,
// JSON-NEXT:   "mma": 2926.0
// JSON:        "step": 3664.6
// JSON:        "steps": 32.969
// JSON-NEXT:   "masked_steps": 3.8
// JSON-NEXT:   "work_items": 1.9
// JSON:        "name": "dq_convert",
// JSON-NOT:    "name": "dq"
func.func @scheduled_gradient(%q: tensor<1x16x2048x128xbf16>, %k: tensor<1x16x2048x128xbf16>, %v: tensor<1x16x2048x128xbf16>,
                    %out: tensor<1x16x2048x128xbf16>, %lse: tensor<1x16x2048xf32>, %dout: tensor<1x16x2048x128xbf16>,
                    %dq: tensor<1x16x2048x128xbf16>, %dk: tensor<1x16x2048x128xbf16>, %dv: tensor<1x16x2048x128xbf16>)
    -> (tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>) {
  %0:3 = attn.attention_grad
      ins(%q, %k, %v, %out, %lse, %dout : tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>,
          tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>, tensor<1x16x2048xf32>, tensor<1x16x2048x128xbf16>)
      outs(%dq, %dk, %dv : tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>)
      mask(#attn.causal)
      schedule(#attn_tile.gradient<
          preprocess = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>,
          dkdv = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, traversal = paired, pipelined = true>>)
      -> tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>
  return %0#0, %0#1, %0#2 : tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>, tensor<1x16x2048x128xbf16>
}

// Where keep masks of dropout may be made.
// CHECK-LABEL: @dropout
// CHECK:      attn.matmul 0.537 {{.*}}
// CHECK:      total
// CHECK-NEXT: dropout of 1 operation after 1 matmul: in the kernel {{[0-9]+}} us, one after another {{[0-9]+}} us, fused with matmuls {{[0-9]+}} us;
// CHECK-SAME:     mask of 33.6 MB
// JSON:      "name": "dropout"
// JSON:      "dropout": [
// JSON:          "attentions": 1,
// JSON-NEXT:     "matmuls": 1,
// JSON-NEXT:     "in_kernel": {{[0-9.e-]+}},
// JSON-NEXT:     "sequential": {{[0-9.e-]+}},
// JSON-NEXT:     "fused": {{[0-9.e-]+}},
// JSON-NEXT:     "mask_bytes": 33554432
func.func @dropout(%x: tensor<512x1024xbf16>, %w: tensor<1024x512xbf16>, %e: tensor<512x512xbf16>,
                   %q: tensor<1x64x2048x64xbf16>, %seed: i64) -> (tensor<512x512xbf16>, tensor<1x64x2048x64xbf16>) {
  %p = attn.matmul ins(%x, %w : tensor<512x1024xbf16>, tensor<1024x512xbf16>)
      outs(%e : tensor<512x512xbf16>) -> tensor<512x512xbf16>
  %r = attn.attention ins(%q, %q, %q : tensor<1x64x2048x64xbf16>, tensor<1x64x2048x64xbf16>, tensor<1x64x2048x64xbf16>)
      outs(%q : tensor<1x64x2048x64xbf16>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.arx>, %seed, %seed : i64, i64) -> tensor<1x64x2048x64xbf16>
  return %p, %r : tensor<512x512xbf16>, tensor<1x64x2048x64xbf16>
}

// ROOFLINE: <svg xmlns="http://www.w3.org/2000/svg"
// ROOFLINE: <title>Roofline of h200</title>
// ROOFLINE: <circle {{.*}}<title>@products: linalg.matmul, 124.1 FLOP per byte, {{.*}} bound by memory</title></circle>
// ROOFLINE: <title>@attention: attn.attention, {{.*}} bound by mma_16b</title></circle>
// ROOFLINE: </svg>

// FLOW: <title>Bytes moved</title>
// FLOW: >@attention</text>
// FLOW: >attn.attention</text>
// FLOW-COUNT-3: MB</title></rect>
// FLOW: </svg>
