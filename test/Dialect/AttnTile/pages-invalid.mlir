// RUN: attn-opt %s --split-input-file --verify-diagnostics

func.func @rank(%m: memref<2x16x64xbf16>, %t: memref<?x?xi32>, %f: memref<1xi32>, %i: index) {
  // expected-error @below {{'attn_tile.load' op source must have four dimensions to be paged (has 3)}}
  %0 = attn_tile.load %m[%i, %i, %i] pages(%t, %i, %i, %f : memref<?x?xi32>, memref<1xi32>)
      : memref<2x16x64xbf16> -> vector<64x64xbf16>
  return
}

// -----

func.func @dynamic_page(%m: memref<?x2x?x64xbf16>, %t: memref<?x?xi32>, %f: memref<1xi32>, %i: index) {
  // expected-error @below {{'attn_tile.load' op page size must be a static power of two (was ?)}}
  %0 = attn_tile.load %m[%i, %i, %i, %i] pages(%t, %i, %i, %f : memref<?x?xi32>, memref<1xi32>)
      : memref<?x2x?x64xbf16> -> vector<64x64xbf16>
  return
}

// -----

func.func @copy_page(%m: !attn_tile.tensor_map<4, 16x64xbf16>, %b: !attn_tile.buffer<64x64xbf16>, %t: memref<?x?xi32>,
                     %f: memref<1xi32>, %i: index) {
  // expected-error @below {{'attn_tile.copy' op page size must be a static power of two (was 24)}}
  attn_tile.copy %m[%i, %i, %i, %i] pages 24(%t, %i, %i, %f : memref<?x?xi32>, memref<1xi32>)
      to %b : !attn_tile.tensor_map<4, 16x64xbf16> to !attn_tile.buffer<64x64xbf16>
  return
}

// -----

func.func @parts(%m: memref<?x2x16x64xbf16>, %t: memref<?x?xi32>, %i: index) {
  // expected-error @below {{'attn_tile.load' op needs all or none of page table, number of keys, number of pages and fault}}
  %0 = "attn_tile.load"(%m, %i, %i, %i, %i, %t, %i, %i) <{operandSegmentSizes = array<i32: 1, 4, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0>}>
      : (memref<?x2x16x64xbf16>, index, index, index, index, memref<?x?xi32>, index, index) -> vector<64x64xbf16>
  return
}

// -----

func.func @contiguous(%m: memref<?x2x?x64xbf16>, %i: index) {
  // expected-error @below {{'attn_tile.load' op rows of #attn.dense_kv must be stored in pages of at least one key (has pages of 0)}}
  %0 = attn_tile.load %m[%i, %i, %i, %i] stored(#attn.dense_kv from %i of %i)
      : memref<?x2x?x64xbf16> -> vector<64x64xbf16>
  return
}

// -----

func.func @pages_and_rows(%m: memref<?x2x16x64xbf16>, %t: memref<?x?xi32>, %f: memref<1xi32>, %i: index) {
  // expected-error @below {{'attn_tile.load' op must not have both pages and rows of #attn.paged_kv<page_size = 16>}}
  %0 = attn_tile.load %m[%i, %i, %i, %i] pages(%t, %i, %i, %f : memref<?x?xi32>, memref<1xi32>)
      stored(#attn.paged_kv<page_size = 16> from %i of %i) : memref<?x2x16x64xbf16> -> vector<64x64xbf16>
  return
}

// -----

func.func @parts_of_rows(%m: memref<?x2x?x64xbf16>, %i: index) {
  // expected-error @below {{'attn_tile.load' op needs all or none of addressing, first stored row and number of stored rows}}
  %0 = "attn_tile.load"(%m, %i, %i, %i, %i, %i) <{addressing = #attn.paged_kv<page_size = 16>,
                                                  operandSegmentSizes = array<i32: 1, 4, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0>}>
      : (memref<?x2x?x64xbf16>, index, index, index, index, index) -> vector<64x64xbf16>
  return
}
