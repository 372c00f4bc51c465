// RUN: attn-test-opt %s -attn-describe-arguments | FileCheck %s

// Arguments have the names and equal sizes that an operation of test/lib states by DescribableOpInterface.

// CHECK-LABEL: func.func @linear(
// CHECK-SAME:    {attn.alignment = 2 : i32, attn.dims = array<i64: -1, 4, -2, 64>, attn.name = "q", attn.read}
// CHECK-SAME:    {attn.alignment = 2 : i32, attn.dims = array<i64: -1, 2, -3, 64>, attn.name = "k", attn.read}
// CHECK-SAME:    {attn.alignment = 2 : i32, attn.dims = array<i64: -1, 4, -2, 64>, attn.name = "out", attn.output, attn.read}
// CHECK-SAME:    {attn.alignment = 4 : i32, attn.dims = array<i64: -1>, attn.name = "key_lengths", attn.read}
// CHECK-SAME:    attributes {attn.symbols = ["batch", "queries", "keys"]}

func.func @linear(%q: memref<?x4x?x64xbf16>, %k: memref<?x2x?x64xbf16>, %o: memref<?x4x?x64xbf16>,
                  %lengths: memref<?xi32>) {
  test_attn.linear_scores ins(%q, %k, %k : memref<?x4x?x64xbf16>, memref<?x2x?x64xbf16>, memref<?x2x?x64xbf16>)
      outs(%o : memref<?x4x?x64xbf16>) key_lengths(%lengths : memref<?xi32>) addressing(#test_attn.ring_buffer_kv<1>)
  return
}
