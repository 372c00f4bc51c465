// RUN: attn-opt %s --convert-attn-to-loops --convert-linalg-to-loops --convert-scf-to-cf --convert-to-llvm \
// RUN:   --reconcile-unrealized-casts \
// RUN: | mlir-runner -e main --entry-point-result=void \
// RUN:   --shared-libs=%mlir_lib_dir/libmlir_runner_utils%shlibext,%mlir_lib_dir/libmlir_c_runner_utils%shlibext \
// RUN: | FileCheck %s

// All scores are 0, so outputs are means of the values that a query attends, 1 to 3. The shard has queries 2 and 3 of 5,
// and keys 1 to 3 of 5. Query 2 attends to keys 1 and 2, query 3 to keys 1 to 3. The mask_mod region leaves the global
// head 5, head 1 of the shard, without key 3. The score_mod region gives key 1 three times the weight for the global
// batch entry 7.
memref.global "private" constant @values : memref<1x2x3x1xf32> =
    dense<[[[[1.0], [2.0], [3.0]], [[1.0], [2.0], [3.0]]]]>
memref.global "private" constant @zeros : memref<1x2x2x1xf32> = dense<0.0>
memref.global "private" constant @zero_keys : memref<1x2x3x1xf32> = dense<0.0>
memref.global "private" constant @at : memref<6xi32> = dense<[2, 1, 7, 4, 5, 5]>

func.func @shard(%q: memref<1x2x2x1xf32>, %k: memref<1x2x3x1xf32>, %v: memref<1x2x3x1xf32>,
                 %out: memref<1x2x2x1xf32>, %p: memref<6xi32>) {
  attn.attention ins(%q, %k, %v : memref<1x2x2x1xf32>, memref<1x2x3x1xf32>, memref<1x2x3x1xf32>)
      outs(%out : memref<1x2x2x1xf32>) positions(%p : memref<6xi32>) mask(#attn.causal)
      score_mod {
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
        %c1 = arith.constant 1 : index
        %c7 = arith.constant 7 : index
        %log3 = arith.constant 1.09861229 : f32
        %is_entry = arith.cmpi eq, %b, %c7 : index
        %is_key = arith.cmpi eq, %j, %c1 : index
        %is_both = arith.andi %is_entry, %is_key : i1
        %r = arith.select %is_both, %log3, %s : f32
        attn.yield %r : f32
      } mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %c3 = arith.constant 3 : index
        %c5 = arith.constant 5 : index
        %is_other_head = arith.cmpi ne, %h, %c5 : index
        %is_other_key = arith.cmpi ne, %j, %c3 : index
        %kept = arith.ori %is_other_head, %is_other_key : i1
        attn.yield %kept : i1
      }
  return
}

func.func private @printMemrefF32(memref<*xf32>) attributes {llvm.emit_c_interface}

func.func @main() {
  %q = memref.get_global @zeros : memref<1x2x2x1xf32>
  %k = memref.get_global @zero_keys : memref<1x2x3x1xf32>
  %v = memref.get_global @values : memref<1x2x3x1xf32>
  %p = memref.get_global @at : memref<6xi32>
  %out = memref.alloc() : memref<1x2x2x1xf32>
  call @shard(%q, %k, %v, %out, %p) : (memref<1x2x2x1xf32>, memref<1x2x3x1xf32>, memref<1x2x3x1xf32>,
      memref<1x2x2x1xf32>, memref<6xi32>) -> ()
  %printed = memref.cast %out : memref<1x2x2x1xf32> to memref<*xf32>
  // (3 * 1 + 2) / 4 and (3 * 1 + 2 + 3) / 5, then without key 3.
  // CHECK: 1.25
  // CHECK: 1.6
  // CHECK: 1.25
  // CHECK: 1.25
  call @printMemrefF32(%printed) : (memref<*xf32>) -> ()
  memref.dealloc %out : memref<1x2x2x1xf32>
  return
}
