// RUN: attn-opt %s --attn-check-regions --split-input-file --verify-diagnostics

!t = tensor<1x2x64x16xf32>

func.func @in_bounds(%q: !t, %bias: tensor<64x64xf32>, %table: tensor<127xf32>, %slopes: tensor<2xf32>) -> !t {
  %c63 = arith.constant 63 : index
  %0 = attn.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
    score_mod {
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
      %x = tensor.extract %bias[%i, %j] : tensor<64x64xf32>
      %d = arith.subi %i, %j : index
      %e = arith.addi %d, %c63 : index
      %y = tensor.extract %table[%e] : tensor<127xf32>
      %z = tensor.extract %slopes[%h] : tensor<2xf32>
      %t = arith.addf %x, %y : f32
      %u = arith.addf %t, %z : f32
      attn.yield %u : f32
    } -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>

func.func @too_small(%q: !t, %bias: tensor<64x60xf32>) -> !t {
  // expected-note-re @below {{for batch 0, head 0, query {{[0-9]+}} and key 60}}
  %0 = attn.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
    score_mod {
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
      // expected-error @below {{reads out of bounds: index 1 is 60, but dimension 1 has size 60}}
      %x = tensor.extract %bias[%i, %j] : tensor<64x60xf32>
      %t = arith.addf %s, %x : f32
      attn.yield %t : f32
    } -> !t
  return %0 : !t
}

// -----

func.func @negative(%q: memref<1x2x64x16xf32>, %table: memref<64xf32>) {
  // expected-note-re @below {{for batch 0, head 0, query {{[0-9]+}} and key {{[0-9]+}}}}
  attn.attention ins(%q, %q, %q : memref<1x2x64x16xf32>, memref<1x2x64x16xf32>, memref<1x2x64x16xf32>)
    outs(%q : memref<1x2x64x16xf32>)
    score_mod {
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
      %d = arith.subi %i, %j : index
      // expected-error @below {{reads out of bounds: index 0 is -1, but dimension 0 has size 64}}
      %x = memref.load %table[%d] : memref<64xf32>
      %t = arith.addf %s, %x : f32
      attn.yield %t : f32
    }
  return
}

// -----

!t = tensor<1x2x64x16xf32>

func.func @heads(%q: !t, %slopes: tensor<1xf32>) -> !t {
  // expected-note-re @below {{for batch 0, head 1, query {{[0-9]+}} and key {{[0-9]+}}}}
  %0 = attn.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
    score_mod {
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
      // expected-error @below {{reads out of bounds: index 0 is 1, but dimension 0 has size 1}}
      %x = tensor.extract %slopes[%h] : tensor<1xf32>
      %t = arith.addf %s, %x : f32
      attn.yield %t : f32
    } -> !t
  return %0 : !t
}

// -----

!t = tensor<1x2x64x16xf32>

func.func @keys(%q: !t, %ids: tensor<32xi32>) -> !t {
  // expected-note-re @below {{for batch 0, head 0, query {{[0-9]+}} and key 32}}
  %0 = attn.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t)
    mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      // expected-error @below {{reads out of bounds: index 0 is 32, but dimension 0 has size 32}}
      %x = tensor.extract %ids[%j] : tensor<32xi32>
      %c = arith.constant 0 : i32
      %keep = arith.cmpi eq, %x, %c : i32
      attn.yield %keep : i1
    } -> !t
  return %0 : !t
}

// -----

// What the mask leaves out is not read.

!t = tensor<1x2x64x16xf32>

func.func @masked(%q: !t, %table: tensor<64xf32>) -> !t {
  %0 = attn.attention ins(%q, %q, %q : !t, !t, !t) outs(%q : !t) mask(#attn.causal)
    score_mod {
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
      %d = arith.subi %i, %j : index
      %x = tensor.extract %table[%d] : tensor<64xf32>
      %t = arith.addf %s, %x : f32
      attn.yield %t : f32
    } -> !t
  return %0 : !t
}

// -----

// Not known: dynamic sizes, indices that are read, masks that are.

func.func @unknown(%q: tensor<1x2x?x16xf32>, %k: tensor<1x2x64x16xf32>, %bias: tensor<4x?xf32>,
                   %ids: tensor<64xi32>, %n: index) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %k, %k : tensor<1x2x?x16xf32>, tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>)
    outs(%q : tensor<1x2x?x16xf32>)
    score_mod {
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
      %id = tensor.extract %ids[%j] : tensor<64xi32>
      %row = arith.index_cast %id : i32 to index
      %x = tensor.extract %bias[%row, %j] : tensor<4x?xf32>
      %t = arith.addf %s, %x : f32
      %y = tensor.extract %bias[%n, %i] : tensor<4x?xf32>
      %u = arith.addf %t, %y : f32
      attn.yield %u : f32
    } -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

func.func @static_tiles(%q: tensor<1x2x?x16xf32>, %lengths: tensor<?xindex>) -> tensor<1x2x?x16xf32> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>)
    outs(%q : tensor<1x2x?x16xf32>) mask(#attn.causal) attributes {attn.static_tiles}
    mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      %n = tensor.extract %lengths[%b] : tensor<?xindex>
      %keep = arith.cmpi slt, %j, %n : index
      attn.yield %keep : i1
    } -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

func.func @not_affine(%q: tensor<1x2x?x16xf32>) -> tensor<1x2x?x16xf32> {
  // expected-error @below {{with 'attn.static_tiles' must have a mask that is piecewise affine in the positions}}
  %0 = attn.attention ins(%q, %q, %q : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>)
    outs(%q : tensor<1x2x?x16xf32>) attributes {attn.static_tiles}
    mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      // expected-note @below {{'arith.muli' multiplies two values of which none is constant}}
      %p = arith.muli %i, %j : index
      %c = arith.constant 100 : index
      %keep = arith.cmpi slt, %p, %c : index
      attn.yield %keep : i1
    } -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

func.func @reads(%q: tensor<1x2x?x16xf32>, %ids: tensor<?xi32>) -> tensor<1x2x?x16xf32> {
  // expected-error @below {{with 'attn.static_tiles' must have a mask that is piecewise affine in the positions}}
  %0 = attn.attention ins(%q, %q, %q : tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>, tensor<1x2x?x16xf32>)
    outs(%q : tensor<1x2x?x16xf32>) attributes {attn.static_tiles}
    mask_mod {
    ^bb0(%b: index, %h: index, %i: index, %j: index):
      // expected-note @below {{'tensor.extract' is not piecewise affine in the positions}}
      %x = tensor.extract %ids[%i] : tensor<?xi32>
      // expected-note @below {{'tensor.extract' is not piecewise affine in the positions}}
      %y = tensor.extract %ids[%j] : tensor<?xi32>
      %keep = arith.cmpi eq, %x, %y : i32
      attn.yield %keep : i1
    } -> tensor<1x2x?x16xf32>
  return %0 : tensor<1x2x?x16xf32>
}

// -----

// expected-error @below {{must compute attention to have 'attn.static_tiles'}}
func.func private @no_attention() attributes {attn.static_tiles}

// -----

// expected-error @below {{must compute attention to have 'attn.classified_tiles'}}
func.func private @no_attention_to_classify() attributes {attn.classified_tiles}

// -----

func.func @no_unit(%q: memref<1x2x64x16xf32>) {
  // expected-error @below {{'attn.static_tiles' must be a unit attribute (was true)}}
  attn.attention ins(%q, %q, %q : memref<1x2x64x16xf32>, memref<1x2x64x16xf32>, memref<1x2x64x16xf32>)
    outs(%q : memref<1x2x64x16xf32>) attributes {attn.static_tiles = true}
  return
}

// -----

func.func @clamp(%q: memref<1x2x64x16xf32>, %low: f32, %high: f32) {
  attn.attention ins(%q, %q, %q : memref<1x2x64x16xf32>, memref<1x2x64x16xf32>, memref<1x2x64x16xf32>)
    outs(%q : memref<1x2x64x16xf32>)
    score_mod {
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
      // expected-error-re @below {{'math.clampf' op is refused, {{.*}}; use arith.maximumf of the value and the lower bound, and arith.minimumf of that}}
      %x = math.clampf %s to [%low, %high] : f32
      attn.yield %x : f32
    }
  return
}

// -----

func.func @clamp_sums(%x: tensor<64x64xf32>, %low: f32, %high: f32) -> tensor<64x64xf32> {
  %r = attn.matmul ins(%x, %x : tensor<64x64xf32>, tensor<64x64xf32>) outs(%x : tensor<64x64xf32>) epilogue {
  ^bb0(%s: f32, %batch: index, %row: index, %col: index):
    // expected-error @below {{'math.clampf' op is refused}}
    %y = math.clampf %s to [%low, %high] : f32
    attn.yield %y : f32
  } -> tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}
