// RUN: attn-opt %s --attn-differentiate="function=f arguments=0 mode=combined" --split-input-file --verify-diagnostics

// expected-error @below {{no function 'f' to differentiate}}
module {
  func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

// expected-error @below {{'func.func' op has no argument #0 to compute a gradient of}}
func.func @f() {
  return
}

// -----

// expected-error @below {{'func.func' op argument #0 must be a ranked tensor of floats to compute a gradient of (was 'tensor<4xi32>')}}
func.func @f(%x: tensor<4xi32>) {
  return
}

// -----

// expected-error @below {{'func.func' op must have one block to be differentiated}}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  cf.br ^bb1
^bb1:
  return %x : tensor<4xf32>
}

// -----

// expected-error @below {{'func.func' op cannot be differentiated: 'f_grad' exists already}}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func private @f_grad()

// -----

func.func private @g(tensor<4xf32>) -> tensor<4xf32>
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{cannot differentiate 'func.call': it does not implement DifferentiableOpInterface}}
  %y = func.call @g(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @f(%x: tensor<2x4x8x16xf32>, %lse: tensor<2x4x8xf32>) -> tensor<2x4x8x16xf32> {
  // expected-error @below {{cannot differentiate 'attn.attention_grad': second derivatives of attention are not supported}}
  %0:3 = attn.attention_grad
      ins(%x, %x, %x, %x, %lse, %x : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>,
          tensor<2x4x8x16xf32>)
      outs(%x, %x, %x : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
           tensor<2x4x8x16xf32>)
      -> tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>
  return %0#0 : tensor<2x4x8x16xf32>
}

// -----

func.func @f(%x: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %0 = attn.attention
      ins(%x, %x, %x : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%x : tensor<2x4x8x16xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %two = arith.constant 2.0 : f32
        // expected-error @below {{cannot differentiate 'math.clampf': it does not implement DifferentiableOpInterface}}
        %t = math.clampf %s to [%two, %two] : f32
        attn.yield %t : f32
      } -> tensor<2x4x8x16xf32>
  return %0 : tensor<2x4x8x16xf32>
}

// -----

func.func @f(%x: tensor<3x4xf32>) -> tensor<3xf32> {
  %e = tensor.empty() : tensor<3xf32>
  // expected-error @below {{cannot differentiate 'linalg.reduce': its reduction is not a sum}}
  %m = linalg.reduce { arith.maximumf } ins(%x : tensor<3x4xf32>)
      outs(%e : tensor<3xf32>) dimensions = [1]
  return %m : tensor<3xf32>
}

// -----

func.func @f(%x: tensor<5xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  // expected-error @below {{cannot differentiate 'linalg.generic': indexing map of operand #0 is not a projected permutation}}
  %m = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i + 1)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : tensor<5xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4xf32>
  return %m : tensor<4xf32>
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %a = tensor.extract %x[%c0] : tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  // expected-error @below {{cannot differentiate 'linalg.fill' with respect to the scalar operand #0}}
  %y = linalg.fill ins(%a : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  // expected-error @below {{cannot differentiate 'linalg.generic': its body uses a value from outside of it that gradients are wanted of}}
  %y = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      outs(%e : tensor<4xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %a = tensor.extract %x[%i] : tensor<4xf32>
    linalg.yield %a : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @f(%x: tensor<2x4x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %0 = attn.attention
      ins(%x, %x, %x : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%x : tensor<2x4x8x16xf32>)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %c0 = arith.constant 0 : index
        %t = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
        %m = tensor.insert %s into %t[%c0] : tensor<2xf32>
        // expected-error @below {{cannot differentiate 'tensor.extract' of a tensor that is made in the score_mod region}}
        %y = tensor.extract %m[%c0] : tensor<2xf32>
        attn.yield %y : f32
      } -> tensor<2x4x8x16xf32>
  return %0 : tensor<2x4x8x16xf32>
}

// -----

func.func @f(%t: tensor<8x4xf32>, %q: tensor<1x2x8x16xf32>) -> tensor<1x2x8x16xf32> {
  // expected-error @below {{cannot differentiate 'attn.rope' with respect to 'cos'}}
  %0 = attn.rope %q, %t, %t : tensor<1x2x8x16xf32>, tensor<8x4xf32>, tensor<8x4xf32>
  return %0 : tensor<1x2x8x16xf32>
}

// -----

func.func @f(%q: tensor<1x2x8x16xf32>) -> tensor<1x2x8x16xf32> {
  // expected-error @below {{cannot differentiate 'attn.attention' with a query or epilogue region: differentiate before attn-fuse}}
  %0 = attn.attention ins(%q, %q, %q : tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>)
      outs(%q : tensor<1x2x8x16xf32>)
      epilogue {
      ^bb0(%x: f32, %b: index, %h: index, %i: index, %d: index):
        %y = arith.negf %x : f32
        attn.yield %y : f32
      } -> tensor<1x2x8x16xf32>
  return %0 : tensor<1x2x8x16xf32>
}

// -----

func.func @f(%q: tensor<1x2x8x16xf32>, %o: tensor<1x2x8x16xf8E5M2>) -> tensor<1x2x8x16xf8E5M2> {
  // expected-error @below {{cannot differentiate 'attn.attention' with an output of 'f8E5M2': gradients need the output before it is rounded to 8 bits}}
  %0 = attn.attention ins(%q, %q, %q : tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>)
      outs(%o : tensor<1x2x8x16xf8E5M2>) -> tensor<1x2x8x16xf8E5M2>
  return %0 : tensor<1x2x8x16xf8E5M2>
}

// -----

func.func @f(%sinks: tensor<4xf32>, %u: tensor<4xf32>, %x: tensor<2x4x8x16xf32>,
             %lengths: tensor<2xi32>) -> tensor<2x4x8x16xf32> {
  // expected-error @below {{cannot differentiate 'attn.attention' with sequences and 'identity' by 'sinks'}}
  %0 = attn.attention
      ins(%x, %x, %x : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>)
      outs(%x : tensor<2x4x8x16xf32>) sinks(%sinks : tensor<4xf32>) identity(%u : tensor<4xf32>)
      sequences padded(%lengths, %lengths : tensor<2xi32>, tensor<2xi32>) -> tensor<2x4x8x16xf32>
  return %0 : tensor<2x4x8x16xf32>
}

// -----

func.func @f(%u: tensor<4xf32>, %x: tensor<2x4x8x16xf32>,
             %lengths: tensor<2xi32>) -> tensor<2x4x8x16xf32> {
  // expected-error @below {{cannot differentiate 'attn.attention' with sequences by the weights of the identity}}
  %0 = attn.attention
      ins(%x, %x, %x : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>,
          tensor<2x4x8x16xf32>)
      outs(%x : tensor<2x4x8x16xf32>) identity(%u : tensor<4xf32>)
      sequences padded(%lengths, %lengths : tensor<2xi32>, tensor<2xi32>)
      -> tensor<2x4x8x16xf32>
  return %0 : tensor<2x4x8x16xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @f(%x: tensor<3x4xf32>, %a: tensor<3xf32>, %b: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error @below {{cannot differentiate 'linalg.generic': its result #1 depends on what result #0 is while it is summed up}}
  %r:2 = linalg.generic {indexing_maps = [#id, #row, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<3x4xf32>) outs(%a, %b : tensor<3xf32>, tensor<3xf32>) {
  ^bb0(%v: f32, %p: f32, %q: f32):
    %s = arith.addf %p, %v : f32
    %t = arith.mulf %s, %v : f32
    %u = arith.addf %q, %t : f32
    linalg.yield %s, %u : f32, f32
  } -> (tensor<3xf32>, tensor<3xf32>)
  return %r#1 : tensor<3xf32>
}

// -----

// Sums so far are a result of their own.
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @f(%x: tensor<3x4xf32>, %a: tensor<3xf32>) -> tensor<3x4xf32> {
  %e = tensor.empty() : tensor<3x4xf32>
  // expected-error @below {{cannot differentiate 'linalg.generic': its result #0 depends on what result #1 is while it is summed up}}
  %r:2 = linalg.generic {indexing_maps = [#id, #id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<3x4xf32>) outs(%e, %a : tensor<3x4xf32>, tensor<3xf32>) {
  ^bb0(%v: f32, %o: f32, %p: f32):
    %s = arith.addf %p, %v : f32
    linalg.yield %s, %s : f32, f32
  } -> (tensor<3x4xf32>, tensor<3xf32>)
  return %r#0 : tensor<3x4xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @f(%x: tensor<3x4xf32>) -> tensor<3xf32> {
  %e = tensor.empty() : tensor<3xf32>
  // expected-error @below {{cannot differentiate 'linalg.generic': its result #0 keeps only what the last iteration yields}}
  %r = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<3x4xf32>) outs(%e : tensor<3xf32>) {
  ^bb0(%v: f32, %p: f32):
    %s = math.exp %v : f32
    linalg.yield %s : f32
  } -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

// A loop that writes its elements more than once does not have to be called a
// reduction.
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @f(%x: tensor<3x4xf32>) -> tensor<3xf32> {
  %e = tensor.empty() : tensor<3xf32>
  // expected-error @below {{cannot differentiate 'linalg.generic': its result #0 keeps only what the last iteration yields}}
  %r = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<3x4xf32>) outs(%e : tensor<3xf32>) {
  ^bb0(%v: f32, %p: f32):
    linalg.yield %v : f32
  } -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @f(%x: tensor<3x4xf32>, %a: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error @below {{cannot differentiate 'linalg.generic': its reduction is not a sum}}
  %r = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<3x4xf32>) outs(%a : tensor<3xf32>) {
  ^bb0(%v: f32, %p: f32):
    %s = arith.addf %p, %v : f32
    %t = arith.mulf %s, %v : f32
    linalg.yield %t : f32
  } -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

// expected-error @below {{'func.func' op must be of tensors to be differentiated (argument #1 is 'memref<4xf32>')}}
func.func @f(%x: tensor<4xf32>, %y: memref<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{cannot differentiate 'memref.alloc' on memrefs}}
  %q = memref.alloc() : memref<1x2x8x16xf32>
  attn.attention ins(%q, %q, %q : memref<1x2x8x16xf32>, memref<1x2x8x16xf32>, memref<1x2x8x16xf32>)
      outs(%q : memref<1x2x8x16xf32>)
  return %x : tensor<4xf32>
}

// -----

func.func @f(%x: tensor<2x4xf32>, %c: i1, %z: tensor<2xf32>) -> tensor<2x4xf32> {
  %r = scf.if %c -> tensor<2x4xf32> {
    %e = tensor.empty() : tensor<2x4xf32>
    // expected-error @below {{cannot differentiate 'linalg.reduce': its reduction is not a sum}}
    %m = linalg.reduce { arith.maximumf } ins(%x : tensor<2x4xf32>) outs(%z : tensor<2xf32>) dimensions = [1]
    %b = linalg.broadcast ins(%m : tensor<2xf32>) outs(%e : tensor<2x4xf32>) dimensions = [1]
    scf.yield %b : tensor<2x4xf32>
  } else {
    scf.yield %x : tensor<2x4xf32>
  }
  return %r : tensor<2x4xf32>
}

// -----

func.func @f(%x: tensor<3xf32>) -> tensor<5xf32> {
  %c0 = arith.constant 0 : index
  %a = tensor.extract %x[%c0] : tensor<3xf32>
  // expected-error @below {{cannot differentiate 'tensor.pad': gradients are wanted of what it pads with}}
  %r = tensor.pad %x low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %a : f32
  } : tensor<3xf32> to tensor<5xf32>
  return %r : tensor<5xf32>
}

// -----

func.func @f(%x: tensor<2x4xf32>) -> tensor<3x4xf32> {
  %e = tensor.empty() : tensor<3x4xf32>
  // expected-error @below {{cannot differentiate 'linalg.generic': it reads only the start of dimension 0 of operand #0}}
  %r = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (0, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%x : tensor<2x4xf32>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

// What is subtracted from is no sum.
func.func @f(%x: tensor<3x4xf32>, %a: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error @below {{cannot differentiate 'linalg.generic': its reduction is not a sum}}
  %r = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3x4xf32>) outs(%a : tensor<3xf32>) {
  ^bb0(%v: f32, %sum: f32):
    %s = arith.subf %v, %sum : f32
    linalg.yield %s : f32
  } -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// -----

// Each head reads its partner.
func.func @f(%x: tensor<1x2x8x16xf32>) -> tensor<1x2x8x16xf32> {
  %e = tensor.empty() : tensor<1x2x8x16xf32>
  // expected-error @below {{cannot differentiate 'attn.map_heads': gradients are wanted of what its region reads by 'tensor.extract' not at the position}}
  %r = attn.map_heads ins(%x : tensor<1x2x8x16xf32>) outs(%e : tensor<1x2x8x16xf32>) {
      ^bb0(%v: f32, %square: f32, %b: index, %h: index, %i: index, %d: index):
        %c1 = arith.constant 1 : index
        %other = arith.xori %d, %c1 : index
        %p = tensor.extract %x[%b, %h, %i, %other] : tensor<1x2x8x16xf32>
        %z = arith.addf %v, %p : f32
        attn.yield %z : f32
      } -> tensor<1x2x8x16xf32>
  return %r : tensor<1x2x8x16xf32>
}

// -----

// The diagonal of a matrix.
func.func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %e = tensor.empty() : tensor<8x8xf32>
  // expected-error @below {{cannot differentiate 'attn.matmul': gradients are wanted of what its region reads by 'tensor.extract' not at the position}}
  %r = attn.matmul ins(%x, %x : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>)
      epilogue {
      ^bb0(%sum: f32, %b: index, %i: index, %j: index):
        %a = tensor.extract %x[%i, %i] : tensor<8x8xf32>
        %s = arith.addf %sum, %a : f32
        attn.yield %s : f32
      } -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}

// -----

// A scalar from outside.
func.func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %c0 = arith.constant 0 : index
  %a = tensor.extract %x[%c0, %c0] : tensor<8x8xf32>
  %e = tensor.empty() : tensor<8x8xf32>
  // expected-error @below {{what its region reads by 'arith.mulf' not at the position of the element, or from a tensor of another size}}
  %r = attn.matmul ins(%x, %x : tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>)
      epilogue {
      ^bb0(%sum: f32, %b: index, %i: index, %j: index):
        %s = arith.mulf %sum, %a : f32
        attn.yield %s : f32
      } -> tensor<8x8xf32>
  return %r : tensor<8x8xf32>
}

// -----

func.func @f(%bias: tensor<16xf32>, %a: tensor<8x4xf32>, %b: tensor<4x6xf32>) -> tensor<8x6xf32> {
  %e = tensor.empty() : tensor<8x6xf32>
  // expected-error @below {{cannot differentiate 'attn.matmul': gradients are wanted of what its region reads by 'tensor.extract' not at the position}}
  %r = attn.matmul ins(%a, %b : tensor<8x4xf32>, tensor<4x6xf32>) outs(%e : tensor<8x6xf32>) epilogue {
  ^bb0(%s: f32, %batch: index, %row: index, %col: index):
    %x = tensor.extract %bias[%col] : tensor<16xf32>
    %t = arith.addf %s, %x : f32
    attn.yield %t : f32
  } -> tensor<8x6xf32>
  return %r : tensor<8x6xf32>
}

// -----

func.func @f(%q: tensor<2x4x8x64xf32>, %k: tensor<9x2x16x64xf32>, %v: tensor<9x2x16x64xf32>,
             %n: tensor<2xi32>, %t: tensor<2x3xi32>) -> tensor<2x4x8x64xf32> {
  %e = tensor.empty() : tensor<2x4x8x64xf32>
  // expected-error @below {{cannot differentiate 'attn.attention' with 'page_table': gradients of a KV cache are not supported}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x64xf32>, tensor<9x2x16x64xf32>, tensor<9x2x16x64xf32>)
      outs(%e : tensor<2x4x8x64xf32>) key_lengths(%n : tensor<2xi32>) page_table(%t : tensor<2x3xi32>)
      -> tensor<2x4x8x64xf32>
  return %r : tensor<2x4x8x64xf32>
}

// -----

func.func @f(%q: tensor<2x4x8x64xf32>, %k: tensor<2x2x16x64xf32>, %v: tensor<2x2x16x64xf32>,
             %n: tensor<2xi32>) -> tensor<2x4x8x64xf32> {
  %e = tensor.empty() : tensor<2x4x8x64xf32>
  // expected-error @below {{cannot differentiate 'attn.attention' with 'key_lengths': gradients of a KV cache are not supported}}
  %r = attn.attention ins(%q, %k, %v : tensor<2x4x8x64xf32>, tensor<2x2x16x64xf32>, tensor<2x2x16x64xf32>)
      outs(%e : tensor<2x4x8x64xf32>) key_lengths(%n : tensor<2xi32>) -> tensor<2x4x8x64xf32>
  return %r : tensor<2x4x8x64xf32>
}

// -----

func.func @f(%x: tensor<4x16xf32>, %scale: tensor<f32>) -> tensor<4x16xf32> {
  %init = tensor.empty() : tensor<4x16xf8E5M2>
  // expected-error @below {{cannot differentiate 'attn.quantize': it does not implement DifferentiableOpInterface}}
  %q = attn.quantize ins(%x : tensor<4x16xf32>) given_scale(%scale : tensor<f32>) outs(%init : tensor<4x16xf8E5M2>)
      -> tensor<4x16xf8E5M2>
  %wide = tensor.empty() : tensor<4x16xf32>
  %r = linalg.map { arith.extf } ins(%q : tensor<4x16xf8E5M2>) outs(%wide : tensor<4x16xf32>)
  return %r : tensor<4x16xf32>
}
