// RUN: attn-opt %s --attn-choose-schedule=target=host --split-input-file | FileCheck %s
// RUN: attn-opt %s --attn-choose-schedule=target=host --split-input-file -o /dev/null \
// RUN:   --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// Tiles go by the model of the time of a core: large ones where all pairs
// attend, smaller ones where a mask cuts tiles, and where there are few queries.

// CHECK-LABEL: @full
// CHECK: schedule(#attn.by_query_length<bound = 80, below = #attn_tile.sequential<query_tile = 32, key_tile = 32>,
// CHECK-SAME: from = #attn_tile.sequential<query_tile = 128, key_tile = 128>>)
// REMARK: key tile 32 of 20 schedules that fit, estimated {{[0-9]+}} us for 32 queries; from 80 queries on key tile 128 of 20 schedules that fit, estimated
func.func @full(%q: memref<?x4x?x64xf32>, %o: memref<?x4x?x64xf32>) {
  attn.attention ins(%q, %q, %q : memref<?x4x?x64xf32>, memref<?x4x?x64xf32>, memref<?x4x?x64xf32>)
      outs(%o : memref<?x4x?x64xf32>)
  return
}

// CHECK-LABEL: @causal
// CHECK: from = #attn_tile.sequential<query_tile = 64, key_tile = 64>>)
func.func @causal(%q: memref<?x4x?x64xf32>, %o: memref<?x4x?x64xf32>) {
  attn.attention ins(%q, %q, %q : memref<?x4x?x64xf32>, memref<?x4x?x64xf32>, memref<?x4x?x64xf32>)
      outs(%o : memref<?x4x?x64xf32>) mask(#attn.causal)
  return
}

// CHECK-LABEL: @window
// CHECK: schedule(#attn_tile.sequential<query_tile = 32, key_tile = 32>)
func.func @window(%q: memref<1x4x1024x64xf32>, %o: memref<1x4x1024x64xf32>) {
  attn.attention ins(%q, %q, %q : memref<1x4x1024x64xf32>, memref<1x4x1024x64xf32>, memref<1x4x1024x64xf32>)
      outs(%o : memref<1x4x1024x64xf32>) mask(#attn.sliding_window<left = 127, right = 0>)
  return
}

// One query for each head has tiles of one row, or of the heads that share keys.

// CHECK-LABEL: @one_query
// CHECK: schedule(#attn_tile.sequential<query_tile = 1, key_tile = {{[0-9]+}}>)
func.func @one_query(%q: memref<?x8x1x64xf32>, %k: memref<?x8x?x64xf32>, %o: memref<?x8x1x64xf32>) {
  attn.attention ins(%q, %k, %k : memref<?x8x1x64xf32>, memref<?x8x?x64xf32>, memref<?x8x?x64xf32>)
      outs(%o : memref<?x8x1x64xf32>)
  return
}

// CHECK-LABEL: @one_query_of_groups
// CHECK: schedule(#attn_tile.sequential<query_tile = 4, key_tile = {{[0-9]+}}, pack_gqa = true>)
func.func @one_query_of_groups(%q: memref<?x8x1x64xf32>, %k: memref<?x2x?x64xf32>, %o: memref<?x8x1x64xf32>) {
  attn.attention ins(%q, %k, %k : memref<?x8x1x64xf32>, memref<?x2x?x64xf32>, memref<?x2x?x64xf32>)
      outs(%o : memref<?x8x1x64xf32>)
  return
}

// Cores that would have nothing to do share keys.

// CHECK-LABEL: @one_head
// CHECK: schedule(#attn_tile.sequential<query_tile = 1, key_tile = {{[0-9]+}}, split_kv_work_items = 4>)
func.func @one_head(%q: memref<1x1x1x64xf32>, %k: memref<1x1x65536x64xf32>, %o: memref<1x1x1x64xf32>) {
  attn.attention ins(%q, %k, %k : memref<1x1x1x64xf32>, memref<1x1x65536x64xf32>, memref<1x1x65536x64xf32>)
      outs(%o : memref<1x1x1x64xf32>)
  return
}

// A word of keep masks is for 16 queries.

// CHECK-LABEL: @dropout
// CHECK: schedule(#attn_tile.sequential<query_tile = 16, key_tile = {{[0-9]+}}>)
func.func @dropout(%q: memref<1x8x1x64xf32>, %k: memref<1x8x?x64xf32>, %s: memref<i64>, %o: memref<1x8x1x64xf32>) {
  attn.attention ins(%q, %k, %k : memref<1x8x1x64xf32>, memref<1x8x?x64xf32>, memref<1x8x?x64xf32>)
      outs(%o : memref<1x8x1x64xf32>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.arx<rounds = 6>>, %s, %s : memref<i64>, memref<i64>)
  return
}

// Tiles are on the stack: those of long heads are small.

// CHECK-LABEL: @long_heads
// CHECK: schedule(#attn_tile.sequential<query_tile = 16, key_tile = 32>)
func.func @long_heads(%q: memref<?x1x?x4096xf32>, %o: memref<?x1x?x4096xf32>) {
  attn.attention ins(%q, %q, %q : memref<?x1x?x4096xf32>, memref<?x1x?x4096xf32>, memref<?x1x?x4096xf32>)
      outs(%o : memref<?x1x?x4096xf32>)
  return
}

// CHECK-LABEL: @gradient
// CHECK: schedule(#attn_tile.sequential<query_tile = {{[0-9]+}}, key_tile = {{[0-9]+}}>)
func.func @gradient(%q: memref<1x4x1024x64xf32>, %l: memref<1x4x1024xf32>, %o: memref<1x4x1024x64xf32>) {
  attn.attention_grad ins(%q, %q, %q, %q, %l, %q : memref<1x4x1024x64xf32>, memref<1x4x1024x64xf32>, memref<1x4x1024x64xf32>,
                          memref<1x4x1024x64xf32>, memref<1x4x1024xf32>, memref<1x4x1024x64xf32>)
      outs(%o, %o, %o : memref<1x4x1024x64xf32>, memref<1x4x1024x64xf32>, memref<1x4x1024x64xf32>)
  return
}

// -----

// The device decides: 32 registers of 512 bits have room for rows of 256 scores.

module attributes {attn.device = #attn.device<"host", sms = 1, registers = 512, l2_bytes = 1048576>} {
  // REMARK: of 25 schedules that fit
  // CHECK-LABEL: @wide
  // CHECK: schedule(#attn_tile.sequential<
  func.func @wide(%q: memref<1x4x1024x32xf32>, %o: memref<1x4x1024x32xf32>) {
    attn.attention ins(%q, %q, %q : memref<1x4x1024x32xf32>, memref<1x4x1024x32xf32>, memref<1x4x1024x32xf32>)
        outs(%o : memref<1x4x1024x32xf32>)
    return
  }

  // One core has no other to share keys with.
  // CHECK-LABEL: @one_core
  // CHECK-NOT: split_kv_work_items
  // CHECK: return
  func.func @one_core(%q: memref<1x1x1x64xf32>, %k: memref<1x1x65536x64xf32>, %o: memref<1x1x1x64xf32>) {
    attn.attention ins(%q, %k, %k : memref<1x1x1x64xf32>, memref<1x1x65536x64xf32>, memref<1x1x65536x64xf32>)
        outs(%o : memref<1x1x1x64xf32>)
    return
  }

  // As many queries as a size can say have tiles like others.
  // CHECK-LABEL: @longest
  // CHECK: schedule(#attn_tile.sequential<query_tile = {{[0-9]+}}, key_tile = {{[0-9]+}}>)
  func.func @longest(%q: memref<1x1x9223372036854775807x64xf32>, %k: memref<1x1x16x64xf32>,
                     %o: memref<1x1x9223372036854775807x64xf32>) {
    attn.attention ins(%q, %k, %k : memref<1x1x9223372036854775807x64xf32>, memref<1x1x16x64xf32>, memref<1x1x16x64xf32>)
        outs(%o : memref<1x1x9223372036854775807x64xf32>)
    return
  }
}
