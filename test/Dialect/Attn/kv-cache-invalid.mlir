// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @table_alone(%q: memref<2x4x1x64xf16>, %k: memref<9x2x64x64xf16>, %v: memref<9x2x64x64xf16>,
    %o: memref<2x4x1x64xf16>, %lengths: memref<2xi32>, %table: memref<2x5xi32>) {
  // expected-error @below {{'attn.attention' op 'page_table' needs 'key_lengths'}}
  attn.attention ins(%q, %k, %v : memref<2x4x1x64xf16>, memref<9x2x64x64xf16>, memref<9x2x64x64xf16>) outs(%o : memref<2x4x1x64xf16>)
      page_table(%table : memref<2x5xi32>)
  return
}

// -----

func.func @sequences(%q: memref<2x4x1x64xf16>, %k: memref<2x2x64x64xf16>, %v: memref<2x2x64x64xf16>,
    %o: memref<2x4x1x64xf16>, %lengths: memref<2xi32>, %table: memref<2x5xi32>) {
  // expected-error @below {{'attn.attention' op 'key_lengths' must not be used together with 'sequences'}}
  attn.attention ins(%q, %k, %v : memref<2x4x1x64xf16>, memref<2x2x64x64xf16>, memref<2x2x64x64xf16>) outs(%o : memref<2x4x1x64xf16>)
      sequences padded(%lengths, %lengths : memref<2xi32>, memref<2xi32>) key_lengths(%lengths : memref<2xi32>)
  return
}

// -----

func.func @dynamic_page(%q: memref<2x4x1x64xf16>, %k: memref<9x2x?x64xf16>, %v: memref<9x2x?x64xf16>,
    %o: memref<2x4x1x64xf16>, %lengths: memref<2xi32>, %table: memref<2x5xi32>) {
  // expected-error @below {{'attn.attention' op dimension 2 of 'key', the page size, must be static}}
  attn.attention ins(%q, %k, %v : memref<2x4x1x64xf16>, memref<9x2x?x64xf16>, memref<9x2x?x64xf16>) outs(%o : memref<2x4x1x64xf16>)
      key_lengths(%lengths : memref<2xi32>) page_table(%table : memref<2x5xi32>)
  return
}

// -----

func.func @small_page(%q: memref<2x4x1x64xf16>, %k: memref<9x2x8x64xf16>, %v: memref<9x2x8x64xf16>,
    %o: memref<2x4x1x64xf16>, %lengths: memref<2xi32>, %table: memref<2x5xi32>) {
  // expected-error @below {{'attn.attention' op dimension 2 of 'key' is not valid: page size must be a power of two from 16 to 256 (was 8)}}
  attn.attention ins(%q, %k, %v : memref<2x4x1x64xf16>, memref<9x2x8x64xf16>, memref<9x2x8x64xf16>) outs(%o : memref<2x4x1x64xf16>)
      key_lengths(%lengths : memref<2xi32>) page_table(%table : memref<2x5xi32>)
  return
}

// -----

func.func @large_page(%q: memref<2x4x1x64xf16>, %k: memref<9x2x512x64xf16>, %v: memref<9x2x512x64xf16>,
    %o: memref<2x4x1x64xf16>, %lengths: memref<2xi32>, %table: memref<2x5xi32>) {
  // expected-error @below {{'attn.attention' op dimension 2 of 'key' is not valid: page size must be a power of two from 16 to 256 (was 512)}}
  attn.attention ins(%q, %k, %v : memref<2x4x1x64xf16>, memref<9x2x512x64xf16>, memref<9x2x512x64xf16>) outs(%o : memref<2x4x1x64xf16>)
      key_lengths(%lengths : memref<2xi32>) page_table(%table : memref<2x5xi32>)
  return
}

// -----

func.func @odd_page(%q: memref<2x4x1x64xf16>, %k: memref<9x2x48x64xf16>, %v: memref<9x2x48x64xf16>,
    %o: memref<2x4x1x64xf16>, %lengths: memref<2xi32>, %table: memref<2x5xi32>) {
  // expected-error @below {{'attn.attention' op dimension 2 of 'key' is not valid: page size must be a power of two from 16 to 256 (was 48)}}
  attn.attention ins(%q, %k, %v : memref<2x4x1x64xf16>, memref<9x2x48x64xf16>, memref<9x2x48x64xf16>) outs(%o : memref<2x4x1x64xf16>)
      key_lengths(%lengths : memref<2xi32>) page_table(%table : memref<2x5xi32>)
  return
}

// -----

func.func @lengths_batch(%q: memref<2x4x1x64xf16>, %k: memref<2x2x64x64xf16>, %v: memref<2x2x64x64xf16>,
    %o: memref<2x4x1x64xf16>, %lengths: memref<3xi32>, %table: memref<2x5xi32>) {
  // expected-error @below {{'attn.attention' op dimension 0 of 'key_lengths' must match dimension 0 of 'query', 2 (was 3)}}
  attn.attention ins(%q, %k, %v : memref<2x4x1x64xf16>, memref<2x2x64x64xf16>, memref<2x2x64x64xf16>) outs(%o : memref<2x4x1x64xf16>)
      key_lengths(%lengths : memref<3xi32>)
  return
}

// -----

func.func @lengths_container(%q: memref<2x4x1x64xf16>, %k: memref<2x2x64x64xf16>, %v: memref<2x2x64x64xf16>,
    %o: memref<2x4x1x64xf16>, %lengths: tensor<2xi32>, %table: memref<2x5xi32>) {
  // expected-error @below {{'attn.attention' op operands must be all tensors or all memrefs, but 'query' is 'memref<2x4x1x64xf16>' and 'key_lengths' is 'tensor<2xi32>'}}
  attn.attention ins(%q, %k, %v : memref<2x4x1x64xf16>, memref<2x2x64x64xf16>, memref<2x2x64x64xf16>) outs(%o : memref<2x4x1x64xf16>)
      key_lengths(%lengths : tensor<2xi32>)
  return
}

// -----

func.func @table_batch(%q: memref<2x4x1x64xf16>, %k: memref<9x2x64x64xf16>, %v: memref<9x2x64x64xf16>,
    %o: memref<2x4x1x64xf16>, %lengths: memref<2xi32>, %table: memref<3x5xi32>) {
  // expected-error @below {{'attn.attention' op dimension 0 of 'page_table' must match dimension 0 of 'query', 2 (was 3)}}
  attn.attention ins(%q, %k, %v : memref<2x4x1x64xf16>, memref<9x2x64x64xf16>, memref<9x2x64x64xf16>) outs(%o : memref<2x4x1x64xf16>)
      key_lengths(%lengths : memref<2xi32>) page_table(%table : memref<3x5xi32>)
  return
}

// -----

func.func @table_container(%q: memref<2x4x1x64xf16>, %k: memref<9x2x64x64xf16>, %v: memref<9x2x64x64xf16>,
    %o: memref<2x4x1x64xf16>, %lengths: memref<2xi32>, %table: tensor<2x5xi32>) {
  // expected-error @below {{'attn.attention' op operands must be all tensors or all memrefs, but 'query' is 'memref<2x4x1x64xf16>' and 'page_table' is 'tensor<2x5xi32>'}}
  attn.attention ins(%q, %k, %v : memref<2x4x1x64xf16>, memref<9x2x64x64xf16>, memref<9x2x64x64xf16>) outs(%o : memref<2x4x1x64xf16>)
      key_lengths(%lengths : memref<2xi32>) page_table(%table : tensor<2x5xi32>)
  return
}

// -----

func.func @pages_of_value(%q: memref<2x4x1x64xf16>, %k: memref<9x2x64x64xf16>, %v: memref<8x2x64x64xf16>,
    %o: memref<2x4x1x64xf16>, %lengths: memref<2xi32>, %table: memref<2x5xi32>) {
  // expected-error @below {{'attn.attention' op dimension 0 of 'value' must match dimension 0 of 'key', 9 (was 8)}}
  attn.attention ins(%q, %k, %v : memref<2x4x1x64xf16>, memref<9x2x64x64xf16>, memref<8x2x64x64xf16>) outs(%o : memref<2x4x1x64xf16>)
      key_lengths(%lengths : memref<2xi32>) page_table(%table : memref<2x5xi32>)
  return
}

// -----

func.func @page_of_value(%q: memref<2x4x1x64xf16>, %k: memref<9x2x64x64xf16>, %v: memref<9x2x32x64xf16>,
    %o: memref<2x4x1x64xf16>, %lengths: memref<2xi32>, %table: memref<2x5xi32>) {
  // expected-error @below {{'attn.attention' op dimension 2 of 'value' must match dimension 2 of 'key', 64 (was 32)}}
  attn.attention ins(%q, %k, %v : memref<2x4x1x64xf16>, memref<9x2x64x64xf16>, memref<9x2x32x64xf16>) outs(%o : memref<2x4x1x64xf16>)
      key_lengths(%lengths : memref<2xi32>) page_table(%table : memref<2x5xi32>)
  return
}

// -----

func.func @batch_of_cache(%q: memref<2x4x1x64xf16>, %k: memref<3x2x64x64xf16>, %v: memref<3x2x64x64xf16>,
    %o: memref<2x4x1x64xf16>, %lengths: memref<2xi32>, %table: memref<2x5xi32>) {
  // expected-error @below {{'attn.attention' op dimension 0 of 'key' must match dimension 0 of 'query', 2 (was 3)}}
  attn.attention ins(%q, %k, %v : memref<2x4x1x64xf16>, memref<3x2x64x64xf16>, memref<3x2x64x64xf16>) outs(%o : memref<2x4x1x64xf16>)
      key_lengths(%lengths : memref<2xi32>)
  return
}

// -----

func.func @identity(%q: memref<2x4x1x64xf16>, %k: memref<2x2x64x64xf16>, %v: memref<2x2x64x64xf16>,
    %o: memref<2x4x1x64xf16>, %lengths: memref<2xi32>, %table: memref<2x5xi32>, %u: memref<4xf32>) {
  // expected-error @below {{'attn.attention' op 'key_lengths' must not be used together with 'identity'}}
  attn.attention ins(%q, %k, %v : memref<2x4x1x64xf16>, memref<2x2x64x64xf16>, memref<2x2x64x64xf16>) outs(%o : memref<2x4x1x64xf16>)
      identity(%u : memref<4xf32>) key_lengths(%lengths : memref<2xi32>)
  return
}

// -----

func.func @ids_of_pages(%q: memref<2x4x1x64xf16>, %k: memref<9x2x64x64xf16>, %v: memref<9x2x64x64xf16>,
    %o: memref<2x4x1x64xf16>, %lengths: memref<2xi32>, %table: memref<2x5xi32>, %d: memref<2x1xi32>, %e: memref<2x320xi32>) {
  // expected-error @below {{'attn.attention' op mask #attn.documents<queries = 0, keys = 1> must not be used together with 'page_table', which does not say how many keys have an id}}
  attn.attention ins(%q, %k, %v : memref<2x4x1x64xf16>, memref<9x2x64x64xf16>, memref<9x2x64x64xf16>) outs(%o : memref<2x4x1x64xf16>)
      key_lengths(%lengths : memref<2xi32>) page_table(%table : memref<2x5xi32>)
      mask(#attn.documents<queries = 0, keys = 1>) reads(%d, %e : memref<2x1xi32>, memref<2x320xi32>)
  return
}

// -----

func.func @ids(%q: memref<2x4x1x64xf16>, %k: memref<2x2x64x64xf16>, %v: memref<2x2x64x64xf16>,
    %o: memref<2x4x1x64xf16>, %lengths: memref<2xi32>, %d: memref<2x1xi32>, %e: memref<2x63xi32>) {
  // expected-error @below {{'attn.attention' op mask dimension 1 of operand 1 of 'reads', 'keys', must be 64 (was 63)}}
  attn.attention ins(%q, %k, %v : memref<2x4x1x64xf16>, memref<2x2x64x64xf16>, memref<2x2x64x64xf16>) outs(%o : memref<2x4x1x64xf16>)
      key_lengths(%lengths : memref<2xi32>)
      mask(#attn.documents<queries = 0, keys = 1>) reads(%d, %e : memref<2x1xi32>, memref<2x63xi32>)
  return
}

// -----

func.func @parents(%q: memref<2x4x8x64xf16>, %k: memref<9x2x64x64xf16>, %v: memref<9x2x64x64xf16>,
    %o: memref<2x4x8x64xf16>, %lengths: memref<2xi32>, %table: memref<2x5xi32>, %d: memref<3x8xi32>) {
  // expected-error @below {{'attn.attention' op mask dimension 0 of operand 0 of 'reads', 'parents', must be 1 or 2 (was 3)}}
  attn.attention ins(%q, %k, %v : memref<2x4x8x64xf16>, memref<9x2x64x64xf16>, memref<9x2x64x64xf16>) outs(%o : memref<2x4x8x64xf16>)
      key_lengths(%lengths : memref<2xi32>) page_table(%table : memref<2x5xi32>)
      mask(#attn.tree<parents = 0>) reads(%d : memref<3x8xi32>)
  return
}

// -----

func.func @block_mask(%q: memref<2x4x1x64xf16>, %k: memref<2x2x64x64xf16>, %v: memref<2x2x64x64xf16>,
    %o: memref<2x4x1x64xf16>, %lengths: memref<2xi32>, %table: memref<2x5xi32>, %d: memref<2x1x1x4xi32>) {
  // expected-error @below {{'attn.attention' op 'key_lengths' must not be used together with 'block_mask'}}
  attn.attention ins(%q, %k, %v : memref<2x4x1x64xf16>, memref<2x2x64x64xf16>, memref<2x2x64x64xf16>) outs(%o : memref<2x4x1x64xf16>)
      key_lengths(%lengths : memref<2xi32>) block_mask(%d : memref<2x1x1x4xi32>)
  return
}

// -----

func.func @dropout_mask(%q: memref<2x4x1x64xf16>, %k: memref<2x2x64x64xf16>, %v: memref<2x2x64x64xf16>,
    %o: memref<2x4x1x64xf16>, %lengths: memref<2xi32>, %table: memref<2x5xi32>, %d: memref<2x4x?x?xi32>) {
  // expected-error @below {{'attn.attention' op 'key_lengths' must not be used together with 'dropout_mask'}}
  attn.attention ins(%q, %k, %v : memref<2x4x1x64xf16>, memref<2x2x64x64xf16>, memref<2x2x64x64xf16>) outs(%o : memref<2x4x1x64xf16>)
      key_lengths(%lengths : memref<2xi32>) dropout_mask rows(%d : memref<2x4x?x?xi32>) p(0.5)
  return
}

// -----

func.func @query_region(%q: memref<2x4x1x64xf16>, %k: memref<2x2x64x64xf16>, %v: memref<2x2x64x64xf16>,
    %o: memref<2x4x1x64xf16>, %lengths: memref<2xi32>, %table: memref<2x5xi32>) {
  // expected-error @below {{'attn.attention' op query region must not be used together with 'key_lengths'}}
  attn.attention ins(%q, %k, %v : memref<2x4x1x64xf16>, memref<2x2x64x64xf16>, memref<2x2x64x64xf16>) outs(%o : memref<2x4x1x64xf16>)
      key_lengths(%lengths : memref<2xi32>)
      query {
      ^bb0(%x: f32, %square: f32, %b: index, %h: index, %i: index, %d: index):
        attn.yield %x : f32
      }
  return
}

// -----

// expected-error @below {{page size must be a power of two from 16 to 256 (was 24)}}
func.func private @attribute() attributes {test.addressing = #attn.paged_kv<page_size = 24>}
