// RUN: attn-opt %s --split-input-file --verify-diagnostics
// RUN: %python %S/Inputs/operand-segments.py attn-opt

// The generic form says itself how operands are split: any split must be
// verified before an operand is read. The script tries all splits of four
// values.

func.func @no_query(%q: tensor<1x1x8x8xf32>) -> tensor<1x1x8x8xf32> {
  // expected-error @+1 {{'operandSegmentSizes' must give 'query' 1 value (was 0)}}
  %0 = "attn.attention"(%q, %q, %q, %q) <{operandSegmentSizes = array<i32: 0, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}> ({
  }, {
  }, {
  }, {
  }) : (tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>) -> tensor<1x1x8x8xf32>
  return %0 : tensor<1x1x8x8xf32>
}

// -----

func.func @two_values(%q: tensor<1x1x8x8xf32>) -> tensor<1x1x8x8xf32> {
  // expected-error @+1 {{'operandSegmentSizes' must give 'value' 1 value (was 2)}}
  %0 = "attn.attention"(%q, %q, %q, %q) <{operandSegmentSizes = array<i32: 1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}> ({
  }, {
  }, {
  }, {
  }) : (tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>) -> tensor<1x1x8x8xf32>
  return %0 : tensor<1x1x8x8xf32>
}

// -----

func.func @two_sinks(%q: tensor<1x1x8x8xf32>, %s: tensor<1xf32>) -> tensor<1x1x8x8xf32> {
  // expected-error @+1 {{'operandSegmentSizes' must give 'sinks' 0 or 1 values (was 2)}}
  %0 = "attn.attention"(%q, %q, %q, %q, %s, %s) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}> ({
  }, {
  }, {
  }, {
  }) : (tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x8x8xf32>
  return %0 : tensor<1x1x8x8xf32>
}

// -----

// The sum is upstream's.

func.func @sum(%q: tensor<1x1x8x8xf32>) -> tensor<1x1x8x8xf32> {
  // expected-error @+1 {{operand count (4) does not match with the total size (3)}}
  %0 = "attn.attention"(%q, %q, %q, %q) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}> ({
  }, {
  }, {
  }, {
  }) : (tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>) -> tensor<1x1x8x8xf32>
  return %0 : tensor<1x1x8x8xf32>
}

// -----

func.func @grad(%q: tensor<1x1x8x8xf32>, %l: tensor<1x1x8xf32>) {
  // expected-error @+1 {{'operandSegmentSizes' must give 'query' 1 value (was 2)}}
  %0:3 = "attn.attention_grad"(%q, %q, %q, %q, %l, %q, %q, %q,
      %q) <{operandSegmentSizes = array<i32: 2, 0, 1, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0>}> ({
  }, {
  }, {
  }) : (tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>,
      tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>) -> (tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>)
  return
}

// -----

func.func @tile_load(%m: memref<8x8xf32>, %i: index) {
  // expected-error @+1 {{'operandSegmentSizes' must give 'source' 1 value (was 0)}}
  %0 = "attn_tile.load"(%m, %i, %i) <{operandSegmentSizes = array<i32: 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}>
      : (memref<8x8xf32>, index, index) -> vector<8x8xf32>
  return
}
