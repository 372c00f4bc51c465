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

func.func @documents(%q: memref<1x4x?x64xf16>, %k: memref<3x2x?x64xf16>, %o: memref<1x4x?x64xf16>, %c: memref<4xi32>,
                    %n: memref<3xi32>, %d: memref<1x?xi32>) {
  // expected-error @below {{mask #attn.documents<queries = 0, keys = 1> must not read operands together with 'sequences'}}
  attn.attention ins(%q, %k, %k : memref<1x4x?x64xf16>, memref<3x2x?x64xf16>, memref<3x2x?x64xf16>)
      outs(%o : memref<1x4x?x64xf16>) sequences packed_queries(%c, %n : memref<4xi32>, memref<3xi32>)
      mask(#attn.documents<queries = 0, keys = 1>) reads(%d, %d : memref<1x?xi32>, memref<1x?xi32>)
  return
}

// -----

func.func @packed_documents(%q: memref<1x4x?x64xf16>, %k: memref<3x2x?x64xf16>, %o: memref<1x4x?x64xf16>, %c: memref<4xi32>,
                    %n: memref<3xi32>, %d: memref<1x?xi32>) {
  // expected-error @below {{mask #attn.packed_documents<queries = 0, keys = 1> must not read operands together with 'sequences'}}
  attn.attention ins(%q, %k, %k : memref<1x4x?x64xf16>, memref<3x2x?x64xf16>, memref<3x2x?x64xf16>)
      outs(%o : memref<1x4x?x64xf16>) sequences packed_queries(%c, %n : memref<4xi32>, memref<3xi32>)
      mask(#attn.packed_documents<queries = 0, keys = 1>) reads(%d, %d : memref<1x?xi32>, memref<1x?xi32>)
  return
}

// -----

func.func @block_sparse(%q: memref<1x4x?x64xf16>, %k: memref<3x2x?x64xf16>, %o: memref<1x4x?x64xf16>, %c: memref<4xi32>,
                    %n: memref<3xi32>, %d: memref<1x1x?xi32>) {
  // expected-error @below {{mask #attn.block_sparse<rows = 16, columns = 16, offsets = 0, indices = 1> must not read operands together with 'sequences'}}
  attn.attention ins(%q, %k, %k : memref<1x4x?x64xf16>, memref<3x2x?x64xf16>, memref<3x2x?x64xf16>)
      outs(%o : memref<1x4x?x64xf16>) sequences packed_queries(%c, %n : memref<4xi32>, memref<3xi32>)
      mask(#attn.block_sparse<rows = 16, columns = 16, offsets = 0, indices = 1>) reads(%d, %d : memref<1x1x?xi32>, memref<1x1x?xi32>)
  return
}

// -----

func.func @parents(%q: memref<1x4x24x64xf16>, %k: memref<3x2x?x64xf16>, %o: memref<1x4x24x64xf16>, %c: memref<4xi32>,
                   %n: memref<3xi32>, %d: memref<3x8xi32>) {
  // expected-error @below {{mask dimension 0 of operand 0 of 'reads', 'parents', must be 1 (was 3)}}
  attn.attention ins(%q, %k, %k : memref<1x4x24x64xf16>, memref<3x2x?x64xf16>, memref<3x2x?x64xf16>)
      outs(%o : memref<1x4x24x64xf16>) sequences packed_queries(%c, %n : memref<4xi32>, memref<3xi32>)
      mask(#attn.tree<parents = 0>) reads(%d : memref<3x8xi32>)
  return
}

// -----

func.func @dropout_mask(%q: memref<1x4x?x64xf16>, %k: memref<3x2x?x64xf16>, %o: memref<1x4x?x64xf16>, %c: memref<4xi32>,
                        %n: memref<3xi32>, %d: memref<3x4x?x?xi32>) {
  // expected-error @below {{'packed_queries' must not be used together with 'dropout_mask'}}
  attn.attention ins(%q, %k, %k : memref<1x4x?x64xf16>, memref<3x2x?x64xf16>, memref<3x2x?x64xf16>)
      outs(%o : memref<1x4x?x64xf16>) sequences packed_queries(%c, %n : memref<4xi32>, memref<3xi32>)
      dropout_mask rows(%d : memref<3x4x?x?xi32>) p(0.5)
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
