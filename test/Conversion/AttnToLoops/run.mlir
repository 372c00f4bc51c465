// RUN: attn-opt %s --attn-make-reference \
// RUN: | sed -e '/func private @reference_of_full/d' -e 's/@reference_of_full/@full.reference/' \
// RUN: | attn-opt --convert-attn-to-loops --convert-linalg-to-loops --convert-scf-to-cf --convert-to-llvm \
// RUN:   --reconcile-unrealized-casts \
// RUN: | mlir-runner -e main --entry-point-result=void \
// RUN:   --shared-libs=%mlir_lib_dir/libmlir_runner_utils%shlibext,%mlir_lib_dir/libmlir_c_runner_utils%shlibext \
// RUN: | FileCheck %s

// Two query heads share one key head of head dim 1. The scale is 1, so keys 0
// and ln 3 give the query 1 (row 0 of head 0, row 1 of head 1) the probabilities 1/4
// and 3/4, and the query 0 the probabilities 1/2 and 1/2.
memref.global "private" constant @query : memref<1x2x2x1xf32> =
    dense<[[[[1.0], [0.0]], [[0.0], [1.0]]]]>
memref.global "private" constant @key : memref<1x1x2x1xf32> =
    dense<[[[[0.0], [1.0986122886681098]]]]>
memref.global "private" constant @value : memref<1x1x2x3xf32> =
    dense<[[[[4.0, 0.0, 1.0], [8.0, 4.0, 1.0]]]]>

func.func @full(%q: memref<1x2x?x1xf32>, %k: memref<1x1x?x1xf32>,
                %v: memref<1x1x?x3xf32>, %out: memref<1x2x?x3xf32>,
                %lse: memref<1x2x?xf32>) {
  attn.attention
      ins(%q, %k, %v : memref<1x2x?x1xf32>, memref<1x1x?x1xf32>,
          memref<1x1x?x3xf32>)
      outs(%out, %lse : memref<1x2x?x3xf32>, memref<1x2x?xf32>)
  return
}

// Row 0 attends to key 0 only. The score_mod region negates: the query 1 has the
// probabilities 3/4 and 1/4. The mask_mod region leaves nothing to row 0 of head 1.
func.func @masked(%q: memref<1x2x?x1xf32>, %k: memref<1x1x?x1xf32>,
                  %v: memref<1x1x?x3xf32>, %out: memref<1x2x?x3xf32>,
                  %lse: memref<1x2x?xf32>) {
  attn.attention
      ins(%q, %k, %v : memref<1x2x?x1xf32>, memref<1x1x?x1xf32>,
          memref<1x1x?x3xf32>)
      outs(%out, %lse : memref<1x2x?x3xf32>, memref<1x2x?xf32>)
      mask(#attn.causal)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %t = arith.negf %s : f32
        attn.yield %t : f32
      } mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %c = arith.cmpi ule, %h, %i : index
        attn.yield %c : i1
      }
  return
}

func.func private @printMemrefF32(memref<*xf32>) attributes {llvm.emit_c_interface}
func.func private @printMemrefF64(memref<*xf64>) attributes {llvm.emit_c_interface}
func.func private @reference_of_full(memref<1x2x?x1xf32>, memref<1x1x?x1xf32>, memref<1x1x?x3xf32>, memref<1x2x?x3xf64>, memref<1x2x?xf64>, index)

func.func @main() {
  %q0 = memref.get_global @query : memref<1x2x2x1xf32>
  %k0 = memref.get_global @key : memref<1x1x2x1xf32>
  %v0 = memref.get_global @value : memref<1x1x2x3xf32>
  %q = memref.cast %q0 : memref<1x2x2x1xf32> to memref<1x2x?x1xf32>
  %k = memref.cast %k0 : memref<1x1x2x1xf32> to memref<1x1x?x1xf32>
  %v = memref.cast %v0 : memref<1x1x2x3xf32> to memref<1x1x?x3xf32>
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %out = memref.alloc(%c2) : memref<1x2x?x3xf32>
  %lse = memref.alloc(%c2) : memref<1x2x?xf32>
  %printed_out = memref.cast %out : memref<1x2x?x3xf32> to memref<*xf32>
  %printed_lse = memref.cast %lse : memref<1x2x?xf32> to memref<*xf32>

  // CHECK: sizes = [1, 2, 2, 3]
  // CHECK-NEXT{LITERAL}: [[[[7,    3,    1],
  // CHECK-NEXT: [6,    2,    1]],
  // CHECK-NEXT{LITERAL}: [[6,    2,    1],
  // CHECK-NEXT{LITERAL}: [7,    3,    1]]]]
  // CHECK: sizes = [1, 2, 2]
  // CHECK-NEXT{LITERAL}: [[[1.38629,    0.693147],
  // CHECK-NEXT{LITERAL}: [0.693147,    1.38629]]]
  call @full(%q, %k, %v, %out, %lse) : (memref<1x2x?x1xf32>, memref<1x1x?x1xf32>, memref<1x1x?x3xf32>, memref<1x2x?x3xf32>, memref<1x2x?xf32>) -> ()
  call @printMemrefF32(%printed_out) : (memref<*xf32>) -> ()
  call @printMemrefF32(%printed_lse) : (memref<*xf32>) -> ()

  // CHECK: sizes = [1, 2, 2, 3]
  // CHECK-NEXT{LITERAL}: [[[[4,    0,    1],
  // CHECK-NEXT: [6,    2,    1]],
  // CHECK-NEXT{LITERAL}: [[0,    0,    0],
  // CHECK-NEXT{LITERAL}: [5,    1,    1]]]]
  // CHECK: sizes = [1, 2, 2]
  // CHECK-NEXT{LITERAL}: [[[0,    0.693147],
  // CHECK-NEXT{LITERAL}: [-inf,    0.287682]]]
  call @masked(%q, %k, %v, %out, %lse) : (memref<1x2x?x1xf32>, memref<1x1x?x1xf32>, memref<1x1x?x3xf32>, memref<1x2x?x3xf32>, memref<1x2x?xf32>) -> ()
  call @printMemrefF32(%printed_out) : (memref<*xf32>) -> ()
  call @printMemrefF32(%printed_lse) : (memref<*xf32>) -> ()

  // A step of 2 leaves row 1 of each head as it was.
  // CHECK: sizes = [1, 2, 2, 3]
  // CHECK-NEXT{LITERAL}: [[[[7,    3,    1],
  // CHECK-NEXT: [-1,    -1,    -1]],
  // CHECK-NEXT{LITERAL}: [[6,    2,    1],
  // CHECK-NEXT{LITERAL}: [-1,    -1,    -1]]]]
  // CHECK: sizes = [1, 2, 2]
  // CHECK-NEXT{LITERAL}: [[[1.38629,    -1],
  // CHECK-NEXT{LITERAL}: [0.693147,    -1]]]
  %old = arith.constant -1.0 : f64
  %out64 = memref.alloc(%c2) : memref<1x2x?x3xf64>
  %lse64 = memref.alloc(%c2) : memref<1x2x?xf64>
  linalg.fill ins(%old : f64) outs(%out64 : memref<1x2x?x3xf64>)
  linalg.fill ins(%old : f64) outs(%lse64 : memref<1x2x?xf64>)
  call @reference_of_full(%q, %k, %v, %out64, %lse64, %c2)
      : (memref<1x2x?x1xf32>, memref<1x1x?x1xf32>, memref<1x1x?x3xf32>, memref<1x2x?x3xf64>, memref<1x2x?xf64>, index) -> ()
  %printed_out64 = memref.cast %out64 : memref<1x2x?x3xf64> to memref<*xf64>
  %printed_lse64 = memref.cast %lse64 : memref<1x2x?xf64> to memref<*xf64>
  call @printMemrefF64(%printed_out64) : (memref<*xf64>) -> ()
  call @printMemrefF64(%printed_lse64) : (memref<*xf64>) -> ()

  memref.dealloc %out : memref<1x2x?x3xf32>
  memref.dealloc %lse : memref<1x2x?xf32>
  memref.dealloc %out64 : memref<1x2x?x3xf64>
  memref.dealloc %lse64 : memref<1x2x?xf64>
  return
}
