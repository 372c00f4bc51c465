// RUN: attn-opt %s --attn-explain=target=sm_80 -o /dev/null 2>&1 | FileCheck %s
// RUN: attn-opt %s --attn-explain="target=sm_80 format=json output=-" -o /dev/null | FileCheck %s --check-prefix=JSON

// Unfused attention with a mask and dropout, and its gradient, at the shape of
// GPT-2 medium: 64 times 16 heads, 1024 tokens, head dim 64, in bf16. 18 passes
// over the scores of 2.147 GB each (of which the mask of dropout, in bytes, is
// half a pass when written and half when read), and twelve over tensors of 0.134
// GB, are 40.27 GB: the ledger of the FlashAttention paper (Dao et al. 2022).

// CHECK: device #attn.device<"a100">; ridge 153.0 FLOP per byte
// CHECK: @unfused
// CHECK: linalg.batch_matmul 137.439 2415.919 56.9
// CHECK: linalg.softmax 5.369 4294.967 1.2
// CHECK: total {{ *[0-9.]+}} 40265.318

// JSON:      "device": "#attn.device<\"a100\">"
// JSON:      "ridge": 15{{[23]}}.
// JSON-NEXT: "bandwidth": 2039000000000
// JSON:      "name": "unfused"
// JSON:      "name": "linalg.batch_matmul"
// JSON-NEXT: "flops": 137438953472
// JSON-NEXT: "units": {
// JSON-NEXT:   "mma_32b": 0
// JSON-NEXT:   "mma_16b": 137438953472
// JSON:      "bytes": {
// JSON-NEXT:   "memory": 2415919104
// JSON-NEXT:   "l2": 0
// JSON:      "bound": "memory"
// JSON:      "total": {
// JSON:        "memory": 40265318400

#id = affine_map<(b, i, j) -> (b, i, j)>
func.func @unfused(%q: tensor<1024x1024x64xbf16>, %kt: tensor<1024x64x1024xbf16>, %v: tensor<1024x1024x64xbf16>, %k: tensor<1024x1024x64xbf16>,
    %vt: tensor<1024x64x1024xbf16>, %do: tensor<1024x1024x64xbf16>)
    -> (tensor<1024x1024x64xbf16>, tensor<1024x1024x64xbf16>, tensor<1024x1024x64xbf16>, tensor<1024x1024x64xbf16>) {
  %zero = arith.constant 0.0 : bf16
  %ninf = arith.constant 0xFF80 : bf16
  %keep = arith.constant 1.125 : bf16
  %none = arith.constant 0 : i8
  %scores = tensor.empty() : tensor<1024x1024x1024xbf16>
  %bits = tensor.empty() : tensor<1024x1024x1024xi8>
  %heads = tensor.empty() : tensor<1024x1024x64xbf16>
  %zeroScores = linalg.fill ins(%zero : bf16) outs(%scores : tensor<1024x1024x1024xbf16>) -> tensor<1024x1024x1024xbf16>
  %zeroHeads = linalg.fill ins(%zero : bf16) outs(%heads : tensor<1024x1024x64xbf16>) -> tensor<1024x1024x64xbf16>

  // Forward.
  %s = linalg.batch_matmul
      ins(%q, %kt : tensor<1024x1024x64xbf16>, tensor<1024x64x1024xbf16>)
      outs(%zeroScores : tensor<1024x1024x1024xbf16>) -> tensor<1024x1024x1024xbf16>
  %masked = linalg.generic {indexing_maps = [#id, #id],
        iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s : tensor<1024x1024x1024xbf16>)
      outs(%scores : tensor<1024x1024x1024xbf16>) {
  ^bb0(%x: bf16, %init: bf16):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %attends = arith.cmpi sle, %j, %i : index
    %y = arith.select %attends, %x, %ninf : bf16
    linalg.yield %y : bf16
  } -> tensor<1024x1024x1024xbf16>
  %p = linalg.softmax dimension(2) ins(%masked : tensor<1024x1024x1024xbf16>) outs(%scores : tensor<1024x1024x1024xbf16>) -> tensor<1024x1024x1024xbf16>
  %dropped:2 = linalg.generic {indexing_maps = [#id, #id, #id],
        iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p : tensor<1024x1024x1024xbf16>)
      outs(%scores, %bits : tensor<1024x1024x1024xbf16>, tensor<1024x1024x1024xi8>) {
  ^bb0(%x: bf16, %init0: bf16, %init1: i8):
    // Which of them stay is of no concern here.
    %bit = arith.fptosi %x : bf16 to i8
    %stays = arith.cmpi ne, %bit, %none : i8
    %scaled = arith.mulf %x, %keep : bf16
    %y = arith.select %stays, %scaled, %zero : bf16
    linalg.yield %y, %bit : bf16, i8
  } -> (tensor<1024x1024x1024xbf16>, tensor<1024x1024x1024xi8>)
  %o = linalg.batch_matmul
      ins(%dropped#0, %v : tensor<1024x1024x1024xbf16>, tensor<1024x1024x64xbf16>)
      outs(%zeroHeads : tensor<1024x1024x64xbf16>) -> tensor<1024x1024x64xbf16>

  // Backward. Transposed operands are those of other layouts: they move the same.
  %dv = linalg.batch_matmul
      ins(%dropped#0, %do : tensor<1024x1024x1024xbf16>, tensor<1024x1024x64xbf16>)
      outs(%zeroHeads : tensor<1024x1024x64xbf16>) -> tensor<1024x1024x64xbf16>
  %dd = linalg.batch_matmul
      ins(%do, %vt : tensor<1024x1024x64xbf16>, tensor<1024x64x1024xbf16>)
      outs(%zeroScores : tensor<1024x1024x1024xbf16>) -> tensor<1024x1024x1024xbf16>
  %dp = linalg.generic {indexing_maps = [#id, #id, #id],
        iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%dd, %dropped#1 : tensor<1024x1024x1024xbf16>, tensor<1024x1024x1024xi8>)
      outs(%scores : tensor<1024x1024x1024xbf16>) {
  ^bb0(%x: bf16, %bit: i8, %init: bf16):
    %stays = arith.cmpi ne, %bit, %none : i8
    %scaled = arith.mulf %x, %keep : bf16
    %y = arith.select %stays, %scaled, %zero : bf16
    linalg.yield %y : bf16
  } -> tensor<1024x1024x1024xbf16>
  // The sum over the row is made on the way and moves nothing.
  %ds = linalg.generic {indexing_maps = [#id, #id, #id],
        iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%p, %dp : tensor<1024x1024x1024xbf16>, tensor<1024x1024x1024xbf16>)
      outs(%scores : tensor<1024x1024x1024xbf16>) {
  ^bb0(%x: bf16, %dx: bf16, %init: bf16):
    %difference = arith.subf %dx, %keep : bf16
    %y = arith.mulf %x, %difference : bf16
    linalg.yield %y : bf16
  } -> tensor<1024x1024x1024xbf16>
  %dq = linalg.batch_matmul
      ins(%ds, %k : tensor<1024x1024x1024xbf16>, tensor<1024x1024x64xbf16>)
      outs(%zeroHeads : tensor<1024x1024x64xbf16>) -> tensor<1024x1024x64xbf16>
  %dk = linalg.batch_matmul
      ins(%ds, %q : tensor<1024x1024x1024xbf16>, tensor<1024x1024x64xbf16>)
      outs(%zeroHeads : tensor<1024x1024x64xbf16>) -> tensor<1024x1024x64xbf16>
  return %o, %dq, %dk, %dv : tensor<1024x1024x64xbf16>, tensor<1024x1024x64xbf16>, tensor<1024x1024x64xbf16>, tensor<1024x1024x64xbf16>
}
