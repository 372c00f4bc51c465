// RUN: attn-opt %s --convert-attn-to-attn-tile --split-input-file | FileCheck %s

// Probabilities are exp2 of an exponent that is 8 larger, so that they use the range of E4M3. The row sum is multiplied
// by 2^-8 before its logarithm, and so is the inverse that the output is multiplied by.
// CHECK-LABEL: attn_tile.kernel @float8_kernel(
// CHECK:         scf.for
// CHECK:           %[[S:.*]] = vector.contract {{.*}} : vector<32x64xf8E4M3FN>, vector<64x64xf8E4M3FN> into
// CHECK:           %[[NEGATED:.*]] = arith.negf
// CHECK:           %[[EIGHT:.*]] = arith.constant dense<8.000000e+00> : vector<32xf32>
// CHECK:           arith.addf %[[NEGATED]], %[[EIGHT]]
// CHECK:           math.fma
// CHECK:           %[[P:.*]] = math.exp2 %{{.*}} : vector<32x64xf32>
// CHECK:           %[[ROUNDED:.*]] = arith.truncf %[[P]] : vector<32x64xf32> to vector<32x64xf8E4M3FN>
// CHECK:           vector.contract {{.*}} %[[ROUNDED]], %{{.*}} : vector<32x64xf8E4M3FN>, vector<64x64xf8E4M3FN> into
// CHECK:         %[[FACTOR:.*]] = arith.constant dense<3.906250e-03> : vector<32xf32>
// CHECK:         %[[SUM:.*]] = arith.mulf %{{.*}}, %[[FACTOR]]
// CHECK:         %[[NUMERATOR:.*]] = arith.constant dense<3.906250e-03> : vector<32xf32>
// CHECK:         arith.divf %[[NUMERATOR]], %[[SUM]]
// CHECK:         math.log %[[SUM]]
func.func @float8(%q: memref<1x2x128x64xf8E4M3FN>, %o: memref<1x2x128x64xbf16>, %lse: memref<1x2x128xf32>) {
  attn.attention ins(%q, %q, %q : memref<1x2x128x64xf8E4M3FN>, memref<1x2x128x64xf8E4M3FN>, memref<1x2x128x64xf8E4M3FN>)
      outs(%o, %lse : memref<1x2x128x64xbf16>, memref<1x2x128xf32>)
      schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
  return
}

// -----

// Probabilities are E4M3 for values of E5M2, too. A sink adds 2^8 to the row sum.
// CHECK-LABEL: attn_tile.kernel @e5m2_with_sinks_kernel(
// CHECK:         arith.constant 3.200000e+01 : f32
// CHECK:         scf.for
// CHECK:           arith.truncf {{.*}} : vector<32x64xf32> to vector<32x64xf8E4M3FN>
// CHECK:           arith.extf {{.*}} : vector<32x64xf8E4M3FN> to vector<32x64xf32>
// CHECK:           arith.extf {{.*}} : vector<64x64xf8E5M2> to vector<64x64xf32>
// CHECK:           vector.contract {{.*}} : vector<32x64xf32>, vector<64x64xf32> into vector<32x64xf32>
func.func @e5m2_with_sinks(%q: memref<1x2x128x64xf8E5M2>, %sinks: memref<2xf32>, %o: memref<1x2x128x64xbf16>) {
  attn.attention ins(%q, %q, %q : memref<1x2x128x64xf8E5M2>, memref<1x2x128x64xf8E5M2>, memref<1x2x128x64xf8E5M2>)
      outs(%o : memref<1x2x128x64xbf16>) sinks(%sinks : memref<2xf32>)
      schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
  return
}

// -----

// Values become f16, and so do 2^15 times the probabilities. Row sums are divided by that.
// CHECK-LABEL: attn_tile.kernel @keys_alone_kernel(
// CHECK-NOT:     dense<8.000000e+00>
// CHECK:         %[[K:.*]] = arith.extf {{.*}} : vector<64x64xf8E5M2> to vector<64x64xbf16>
// CHECK:         vector.contract {{.*}} %[[K]], {{.*}} : vector<32x64xbf16>, vector<64x64xbf16> into vector<32x64xf32>
// CHECK:         %[[SHIFT:.*]] = arith.constant dense<1.500000e+01> : vector<32xf32>
// CHECK:         arith.addf {{.*}}, %[[SHIFT]]
// CHECK:         %[[V:.*]] = arith.extf {{.*}} : vector<64x64xf8E5M2> to vector<64x64xf16>
// CHECK:         %[[P:.*]] = arith.truncf {{.*}} : vector<32x64xf32> to vector<32x64xf16>
// CHECK:         vector.contract {{.*}} %[[P]], %[[V]], {{.*}} : vector<32x64xf16>, vector<64x64xf16> into vector<32x64xf32>
// CHECK:         arith.constant dense<3.05175781E-5> : vector<32xf32>
func.func @keys_alone(%q: memref<1x2x128x64xbf16>, %k: memref<1x2x128x64xf8E5M2>, %o: memref<1x2x128x64xbf16>) {
  attn.attention ins(%q, %k, %k : memref<1x2x128x64xbf16>, memref<1x2x128x64xf8E5M2>, memref<1x2x128x64xf8E5M2>)
      outs(%o : memref<1x2x128x64xbf16>)
      schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
  return
}

// -----

// An output of 8 bits saturates.
// CHECK-LABEL: attn_tile.kernel @out_of_8_bits_kernel(
// CHECK:         %[[LARGEST:.*]] = arith.constant dense<5.734400e+04> : vector<32x64xf32>
// CHECK:         %[[BELOW:.*]] = arith.minimumf %{{.*}}, %[[LARGEST]]
// CHECK:         %[[LOWEST:.*]] = arith.constant dense<-5.734400e+04> : vector<32x64xf32>
// CHECK:         %[[WITHIN:.*]] = arith.maximumf %[[BELOW]], %[[LOWEST]]
// CHECK:         %[[R:.*]] = arith.truncf %[[WITHIN]] : vector<32x64xf32> to vector<32x64xf8E5M2>
// CHECK:         attn_tile.store %[[R]], %{{.*}} : vector<32x64xf8E5M2>, memref<1x2x128x64xf8E5M2>
func.func @out_of_8_bits(%q: memref<1x2x128x64xbf16>, %o: memref<1x2x128x64xf8E5M2>) {
  attn.attention ins(%q, %q, %q : memref<1x2x128x64xbf16>, memref<1x2x128x64xbf16>, memref<1x2x128x64xbf16>)
      outs(%o : memref<1x2x128x64xf8E5M2>)
      schedule(#attn_tile.sequential<query_tile = 32, key_tile = 64>)
  return
}
