// RUN: attn-opt %s --convert-attn-to-attn-tile --canonicalize --cse --split-input-file | FileCheck %s

// In pipelined steps the MMA of S adds to the log-sum-exp, and that of dP to delta, which are read before these MMAs
// start.

#tile = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>
#keys = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, pipelined = true>

// -lse / scale, with a scale of 0.25, and -delta.

// CHECK-LABEL: attn_tile.kernel @both_grad_preprocess_kernel
// CHECK:         %[[FACTOR:.*]] = arith.constant dense<-4.000000e+00> : vector<128xf32>
// CHECK:         %[[SUM:.*]] = vector.multi_reduction <add>
// CHECK:         arith.mulf %{{.*}}, %[[FACTOR]] : vector<128xf32>
// CHECK:         arith.negf %[[SUM]] : vector<128xf32>

// CHECK-LABEL: attn_tile.kernel @both_grad_dkdv_kernel
// CHECK:         %[[C:.*]] = arith.constant dense<0.360673755> : vector<128x64xf32>
// CHECK:         scf.for
// CHECK:           %[[LSE:.*]] = attn_tile.load {{.*}} -> vector<1x64xf32>
// CHECK:           %[[LSES:.*]] = vector.broadcast %[[LSE]]
// CHECK:           %[[S:.*]] = vector.contract {{.*}} %[[LSES]] :
// CHECK:           %[[DELTA:.*]] = attn_tile.load {{.*}} -> vector<1x64xf32>
// CHECK:           %[[DELTAS:.*]] = vector.broadcast %[[DELTA]]
// CHECK:           %[[DP:.*]] = vector.contract {{.*}} %[[DELTAS]] :
// CHECK:           %[[X:.*]] = arith.mulf %{{.*}}, %[[C]]
// CHECK:           %[[P:.*]] = math.exp2 %[[X]]
// CHECK:           arith.mulf %[[P]], %[[DP]]
func.func @both(%q: memref<1x1x512x128xbf16>, %lse: memref<1x1x512xf32>) {
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>,
          memref<1x1x512x128xbf16>, memref<1x1x512xf32>, memref<1x1x512x128xbf16>)
      outs(%q, %q, %q : memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>)
      scale(0.25) mask(#attn.causal) schedule(#attn_tile.gradient<preprocess = #tile, dkdv = #keys>)
  return
}

// -----

#tile = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>
#keys = #attn_tile.key_stationary<query_tile = 128, key_tile = 128, stages = 4, consumers = 2, pipelined = true,
                                  query_parts = 2>

// Of a step with two query tiles, the MMA of dP begins with zero.

// CHECK-LABEL: attn_tile.kernel @parts_grad_dkdv_kernel
// CHECK:         scf.for
// CHECK:           %[[LSES:.*]] = vector.broadcast
// CHECK:           vector.contract {{.*}} %[[LSES]] :
// CHECK:           vector.contract {{.*}} %[[ZERO:cst[^ ]*]] :
// CHECK:           arith.subf
// CHECK:           %[[LSES1:.*]] = vector.broadcast
// CHECK:           vector.contract {{.*}} %[[LSES1]] :
// CHECK:           vector.contract {{.*}} %[[ZERO]] :
// CHECK:           arith.subf
func.func @parts(%q: memref<1x1x512x64xbf16>, %lse: memref<1x1x512xf32>) {
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<1x1x512x64xbf16>, memref<1x1x512x64xbf16>, memref<1x1x512x64xbf16>,
          memref<1x1x512x64xbf16>, memref<1x1x512xf32>, memref<1x1x512x64xbf16>)
      outs(%q, %q, %q : memref<1x1x512x64xbf16>, memref<1x1x512x64xbf16>, memref<1x1x512x64xbf16>)
      schedule(#attn_tile.gradient<preprocess = #tile, dkdv = #keys>)
  return
}

// -----

#tile = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>
#keys = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, pipelined = true>

// A mask_mod region takes the registers.

// CHECK-LABEL: attn_tile.kernel @region_grad_preprocess_kernel
// CHECK:         arith.constant dense<-1.44269502> : vector<128xf32>
// CHECK-LABEL: attn_tile.kernel @region_grad_dkdv_kernel
// CHECK:         math.fma
// CHECK:         arith.subf
func.func @region(%q: memref<1x1x512x128xbf16>, %lse: memref<1x1x512xf32>) {
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>,
          memref<1x1x512x128xbf16>, memref<1x1x512xf32>, memref<1x1x512x128xbf16>)
      outs(%q, %q, %q : memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>)
      schedule(#attn_tile.gradient<preprocess = #tile, dkdv = #keys>)
      mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %kept = arith.cmpi uge, %i, %j : index
        attn.yield %kept : i1
      }
  return
}

// -----

#tile = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>
#keys = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, pipelined = true>

// A log-sum-exp divided by such a scale may be infinite.

// CHECK-LABEL: attn_tile.kernel @scale_grad_dkdv_kernel
// CHECK:         math.fma
// CHECK:         arith.subf
func.func @scale(%q: memref<1x1x512x128xbf16>, %lse: memref<1x1x512xf32>) {
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>,
          memref<1x1x512x128xbf16>, memref<1x1x512xf32>, memref<1x1x512x128xbf16>)
      outs(%q, %q, %q : memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>)
      scale(1.0e-30) schedule(#attn_tile.gradient<preprocess = #tile, dkdv = #keys>)
  return
}

// -----

#tile = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>
#keys = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2>

// Steps that are not pipelined add the values afterwards.

// CHECK-LABEL: attn_tile.kernel @in_order_grad_dkdv_kernel
// CHECK:         math.fma
// CHECK:         arith.subf
func.func @in_order(%q: memref<1x1x512x128xbf16>, %lse: memref<1x1x512xf32>) {
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>,
          memref<1x1x512x128xbf16>, memref<1x1x512xf32>, memref<1x1x512x128xbf16>)
      outs(%q, %q, %q : memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>)
      schedule(#attn_tile.gradient<preprocess = #tile, dkdv = #keys>)
  return
}

// -----

#tile = #attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 8>
#keys = #attn_tile.key_stationary<query_tile = 64, key_tile = 128, stages = 2, consumers = 2, pipelined = true>

// Dropout applies to dP before delta is subtracted.

// CHECK-LABEL: attn_tile.kernel @dropout_grad_dkdv_kernel
// CHECK:         math.fma
// CHECK:         arith.negf
func.func @dropout(%q: memref<1x1x512x128xbf16>, %lse: memref<1x1x512xf32>, %seed: i64) {
  attn.attention_grad ins(%q, %q, %q, %q, %lse, %q : memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>,
          memref<1x1x512x128xbf16>, memref<1x1x512xf32>, memref<1x1x512x128xbf16>)
      outs(%q, %q, %q : memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>, memref<1x1x512x128xbf16>)
      dropout(#attn.dropout<p = 0.5, rng = #attn.arx>, %seed, %seed : i64, i64)
      schedule(#attn_tile.gradient<preprocess = #tile, dkdv = #keys>)
  return
}
