// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @batch(%q: memref<2x4x?x64xf16>, %k: memref<?x2x16x64xf16>, %o: memref<2x4x?x64xf16>, %c: memref<?xi32>,
                 %n: memref<?xi32>, %t: memref<?x?xi32>) {
  // expected-error @below {{dimension 0 of 'query' must be 1 where sequences are packed (was 2)}}
  attn.attention ins(%q, %k, %k : memref<2x4x?x64xf16>, memref<?x2x16x64xf16>, memref<?x2x16x64xf16>)
      outs(%o : memref<2x4x?x64xf16>) sequences packed_queries(%c, %n : memref<?xi32>, memref<?xi32>)
      page_table(%t : memref<?x?xi32>)
  return
}

// -----

func.func @boundaries(%q: memref<1x4x?x64xf16>, %k: memref<?x2x16x64xf16>, %o: memref<1x4x?x64xf16>, %c: memref<3xi32>,
                      %n: memref<3xi32>, %t: memref<3x?xi32>) {
  // expected-error @below {{dimension 0 of 'query_sequences' must be one more than dimension 0 of 'key_sequences', 4 (was 3)}}
  attn.attention ins(%q, %k, %k : memref<1x4x?x64xf16>, memref<?x2x16x64xf16>, memref<?x2x16x64xf16>)
      outs(%o : memref<1x4x?x64xf16>) sequences packed_queries(%c, %n : memref<3xi32>, memref<3xi32>)
      page_table(%t : memref<3x?xi32>)
  return
}

// -----

func.func @table(%q: memref<1x4x?x64xf16>, %k: memref<?x2x16x64xf16>, %o: memref<1x4x?x64xf16>, %c: memref<4xi32>,
                 %n: memref<3xi32>, %t: memref<4x?xi32>) {
  // expected-error @below {{dimension 0 of 'page_table' must match dimension 0 of 'key_sequences', 3 (was 4)}}
  attn.attention ins(%q, %k, %k : memref<1x4x?x64xf16>, memref<?x2x16x64xf16>, memref<?x2x16x64xf16>)
      outs(%o : memref<1x4x?x64xf16>) sequences packed_queries(%c, %n : memref<4xi32>, memref<3xi32>)
      page_table(%t : memref<4x?xi32>)
  return
}

// -----

func.func @entries(%q: memref<1x4x?x64xf16>, %k: memref<5x2x?x64xf16>, %o: memref<1x4x?x64xf16>, %c: memref<4xi32>,
                   %n: memref<3xi32>) {
  // expected-error @below {{dimension 0 of 'key_sequences' must match dimension 0 of 'key', 5 (was 3)}}
  attn.attention ins(%q, %k, %k : memref<1x4x?x64xf16>, memref<5x2x?x64xf16>, memref<5x2x?x64xf16>)
      outs(%o : memref<1x4x?x64xf16>) sequences packed_queries(%c, %n : memref<4xi32>, memref<3xi32>)
  return
}

// -----

func.func @values(%q: memref<1x4x?x64xf16>, %k: memref<3x2x?x64xf16>, %v: memref<2x2x?x64xf16>,
                  %o: memref<1x4x?x64xf16>, %c: memref<4xi32>, %n: memref<3xi32>) {
  // expected-error @below {{dimension 0 of 'value' must match dimension 0 of 'key', 3 (was 2)}}
  attn.attention ins(%q, %k, %v : memref<1x4x?x64xf16>, memref<3x2x?x64xf16>, memref<2x2x?x64xf16>)
      outs(%o : memref<1x4x?x64xf16>) sequences packed_queries(%c, %n : memref<4xi32>, memref<3xi32>)
  return
}

// -----

func.func @identity(%q: memref<1x4x?x64xf16>, %k: memref<3x2x?x64xf16>, %o: memref<1x4x?x64xf16>, %c: memref<4xi32>,
                    %n: memref<3xi32>, %u: memref<4xf32>) {
  // expected-error @below {{'packed_queries' must not be used together with 'identity'}}
  attn.attention ins(%q, %k, %k : memref<1x4x?x64xf16>, memref<3x2x?x64xf16>, memref<3x2x?x64xf16>)
      outs(%o : memref<1x4x?x64xf16>) identity(%u : memref<4xf32>)
      sequences packed_queries(%c, %n : memref<4xi32>, memref<3xi32>)
  return
}

// -----

func.func @packed_keys(%q: memref<1x4x?x64xf16>, %k: memref<?x2x16x64xf16>, %o: memref<1x4x?x64xf16>, %c: memref<4xi32>,
                       %t: memref<3x?xi32>) {
  // expected-error @below {{'page_table' needs 'key_lengths', or 'sequences' whose queries alone are packed}}
  attn.attention ins(%q, %k, %k : memref<1x4x?x64xf16>, memref<?x2x16x64xf16>, memref<?x2x16x64xf16>)
      outs(%o : memref<1x4x?x64xf16>) sequences packed(%c, %c : memref<4xi32>, memref<4xi32>)
      page_table(%t : memref<3x?xi32>)
  return
}

// -----

func.func @gradient(%q: memref<1x4x?x64xf16>, %k: memref<3x2x?x64xf16>, %l: memref<1x4x?xf32>, %c: memref<4xi32>,
                    %n: memref<3xi32>) {
  // expected-error @below {{must not have 'packed_queries': gradients of a KV cache are not supported}}
  attn.attention_grad ins(%q, %k, %k, %q, %l, %q : memref<1x4x?x64xf16>, memref<3x2x?x64xf16>, memref<3x2x?x64xf16>,
          memref<1x4x?x64xf16>, memref<1x4x?xf32>, memref<1x4x?x64xf16>)
      outs(%q, %k, %k : memref<1x4x?x64xf16>, memref<3x2x?x64xf16>, memref<3x2x?x64xf16>)
      sequences packed_queries(%c, %n : memref<4xi32>, memref<3xi32>)
  return
}
