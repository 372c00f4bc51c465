// RUN: attn-opt %s --attn-explain -o /dev/null 2>&1 | FileCheck %s
// RUN: attn-opt %s --attn-raise-linalg --attn-explain -o /dev/null 2>&1 | FileCheck %s --check-prefix=ONLINE
// RUN: attn-opt %s --attn-explain=target=host -o /dev/null 2>&1 | FileCheck %s --check-prefix=HOST
// RUN: attn-opt %s --attn-raise-linalg --attn-explain="format=json output=-" -o /dev/null | FileCheck %s --check-prefix=JSON

// What one kernel of several operations could do with their axes. A softmax
// keeps whole rows, for which there is no room, until it is in the online form.

// CHECK-LABEL: @attention
// CHECK:      derivation of linalg.batch_matmul to linalg.batch_matmul, 3 operations
// CHECK-NEXT:   d0 16 distribute by 1{{$}}
// CHECK-NEXT:   d1 4096 distribute by 64{{$}}
// CHECK-NEXT:   d2 4096 whole: linalg.softmax has no head, body and merge along it (missing lemma 'online softmax: merge of (max, sum, accumulator)')
// CHECK-NEXT:   d3 128 stream by 16: arith.addf
// CHECK-NEXT:   d4 128 whole: linalg.batch_matmul would be repeated by each CTA
// CHECK-NEXT:   no tiles fit: a step needs 1605.6 kB of registers and 1314.8 kB of shared memory{{$}}

// ONLINE-LABEL: @attention
// ONLINE:      derivation of attn.attention{{$}}
// ONLINE-NEXT:   batch 1 distribute by 1{{$}}
// ONLINE-NEXT:   head 16 distribute by 1{{$}}
// ONLINE-NEXT:   query 4096 distribute by 128{{$}}
// ONLINE-NEXT:   key 4096 stream by 176: online softmax: merge of (max, sum, accumulator)
// ONLINE-NEXT:   qk head dim 128 whole: attn.attention takes exponentials of complete scores
// ONLINE-NEXT:   v head dim 128 whole: attn.attention would be repeated in part by each CTA
// ONLINE-NEXT:   a step has 200.7 kB of registers and 213.0 kB of shared memory, bounded by registers
// ONLINE-NEXT:   12288 steps move 1107.3 MB l2 and 67.1 MB memory; {{[0-9.]+}} us, bounded by mma_16b

// HOST-LABEL: @attention
// HOST:      derivation of
// HOST-NEXT:   d0 16 distribute{{$}}
// HOST-NEXT:   d1 4096 distribute{{$}}
// HOST-NEXT:   d2 4096 whole: linalg.softmax has no head
// HOST-NEXT:   d3 128 stream: arith.addf
// HOST-NEXT:   d4 128 whole
// HOST-NOT:    a step

// JSON-LABEL: "name": "attention"
// JSON:      "derivations": [
// JSON:          "operations": [
// JSON-NEXT:       "attn.attention"
// JSON-NEXT:     ],
// JSON-NEXT:     "axes": [
// JSON:              "name": "query",
// JSON-NEXT:         "size": 4096,
// JSON-NEXT:         "use": "distribute",
// JSON-NEXT:         "reason": "",
// JSON-NEXT:         "tile": 128
// JSON:              "name": "key",
// JSON-NEXT:         "size": 4096,
// JSON-NEXT:         "use": "stream",
// JSON-NEXT:         "reason": "online softmax: merge of (max, sum, accumulator)",
// JSON-NEXT:         "tile": 176
// JSON:          "fits": true,
// JSON-NEXT:     "register_bytes": 200704,
// JSON-NEXT:     "shared_bytes": 212992,
// JSON-NEXT:     "limit": "registers",
// JSON:            "l2": 1107296256,
// JSON:          "steps": 12288,
// JSON:          "bound": "mma_16b"
func.func @attention(%q: tensor<16x4096x128xbf16>, %kt: tensor<16x128x4096xbf16>, %v: tensor<16x4096x128xbf16>)
    -> tensor<16x4096x128xbf16> {
  %zero = arith.constant 0.0 : bf16
  %scores = tensor.empty() : tensor<16x4096x4096xbf16>
  %heads = tensor.empty() : tensor<16x4096x128xbf16>
  %zeroScores = linalg.fill ins(%zero : bf16) outs(%scores : tensor<16x4096x4096xbf16>) -> tensor<16x4096x4096xbf16>
  %zeroHeads = linalg.fill ins(%zero : bf16) outs(%heads : tensor<16x4096x128xbf16>) -> tensor<16x4096x128xbf16>
  %s = linalg.batch_matmul ins(%q, %kt : tensor<16x4096x128xbf16>, tensor<16x128x4096xbf16>)
      outs(%zeroScores : tensor<16x4096x4096xbf16>) -> tensor<16x4096x4096xbf16>
  %p = linalg.softmax dimension(2) ins(%s : tensor<16x4096x4096xbf16>)
      outs(%scores : tensor<16x4096x4096xbf16>) -> tensor<16x4096x4096xbf16>
  %o = linalg.batch_matmul ins(%p, %v : tensor<16x4096x4096xbf16>, tensor<16x4096x128xbf16>)
      outs(%zeroHeads : tensor<16x4096x128xbf16>) -> tensor<16x4096x128xbf16>
  return %o : tensor<16x4096x128xbf16>
}

// The same by its steps: the exponentials need the maximum of the whole row.
// CHECK-LABEL: @steps
// CHECK:      derivation of linalg.batch_matmul to linalg.batch_matmul, 6 operations
// CHECK:        d2 1024 whole: linalg.generic reads, together with a piece,
// CHECK-SAME:       a result that is complete after the last one (missing lemma 'online softmax: merge of (max, sum, accumulator)')
#full = affine_map<(b, i, j) -> (b, i, j)>
#row = affine_map<(b, i, j) -> (b, i)>
func.func @steps(%q: tensor<16x1024x64xf32>, %kt: tensor<16x64x1024xf32>, %v: tensor<16x1024x64xf32>)
    -> tensor<16x1024x64xf32> {
  %zero = arith.constant 0.0 : f32
  %ninf = arith.constant 0xFF800000 : f32
  %scores = tensor.empty() : tensor<16x1024x1024xf32>
  %rows = tensor.empty() : tensor<16x1024xf32>
  %heads = tensor.empty() : tensor<16x1024x64xf32>
  %zeroScores = linalg.fill ins(%zero : f32) outs(%scores : tensor<16x1024x1024xf32>) -> tensor<16x1024x1024xf32>
  %least = linalg.fill ins(%ninf : f32) outs(%rows : tensor<16x1024xf32>) -> tensor<16x1024xf32>
  %zeroRows = linalg.fill ins(%zero : f32) outs(%rows : tensor<16x1024xf32>) -> tensor<16x1024xf32>
  %zeroHeads = linalg.fill ins(%zero : f32) outs(%heads : tensor<16x1024x64xf32>) -> tensor<16x1024x64xf32>
  %s = linalg.batch_matmul ins(%q, %kt : tensor<16x1024x64xf32>, tensor<16x64x1024xf32>)
      outs(%zeroScores : tensor<16x1024x1024xf32>) -> tensor<16x1024x1024xf32>
  %max = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%s : tensor<16x1024x1024xf32>) outs(%least : tensor<16x1024xf32>) {
  ^bb0(%x: f32, %acc: f32):
    %y = arith.maximumf %acc, %x : f32
    linalg.yield %y : f32
  } -> tensor<16x1024xf32>
  %e = linalg.generic {indexing_maps = [#full, #row, #full], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%s, %max : tensor<16x1024x1024xf32>, tensor<16x1024xf32>) outs(%scores : tensor<16x1024x1024xf32>) {
  ^bb0(%x: f32, %m: f32, %init: f32):
    %d = arith.subf %x, %m : f32
    %y = math.exp %d : f32
    linalg.yield %y : f32
  } -> tensor<16x1024x1024xf32>
  %sum = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%e : tensor<16x1024x1024xf32>) outs(%zeroRows : tensor<16x1024xf32>) {
  ^bb0(%x: f32, %acc: f32):
    %y = arith.addf %acc, %x : f32
    linalg.yield %y : f32
  } -> tensor<16x1024xf32>
  %p = linalg.generic {indexing_maps = [#full, #row, #full], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%e, %sum : tensor<16x1024x1024xf32>, tensor<16x1024xf32>) outs(%scores : tensor<16x1024x1024xf32>) {
  ^bb0(%x: f32, %total: f32, %init: f32):
    %y = arith.divf %x, %total : f32
    linalg.yield %y : f32
  } -> tensor<16x1024x1024xf32>
  %o = linalg.batch_matmul ins(%p, %v : tensor<16x1024x1024xf32>, tensor<16x1024x64xf32>)
      outs(%zeroHeads : tensor<16x1024x64xf32>) -> tensor<16x1024x64xf32>
  return %o : tensor<16x1024x64xf32>
}

// Two matmuls with a function of each element between them: the hidden axis is
// streamed.
// CHECK-LABEL: @perceptron
// CHECK:      derivation of linalg.matmul to linalg.matmul, 3 operations
// CHECK-NEXT:   d0 ? distribute by 128{{$}}
// CHECK-NEXT:   d1 1024 stream by 176: arith.addf
// CHECK-NEXT:   d2 128 whole: could be streamed by arith.addf
// CHECK-NEXT:   d3 128 whole: linalg.matmul would be repeated by each CTA
// CHECK-NEXT:   a step has 200.7 kB of registers
// CHECK-NEXT:   192 steps
func.func @perceptron(%x: tensor<?x128xbf16>, %w1: tensor<128x1024xbf16>, %w2: tensor<1024x128xbf16>,
                      %hidden: tensor<?x1024xbf16>, %out: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %zero = arith.constant 0.0 : bf16
  %h0 = linalg.fill ins(%zero : bf16) outs(%hidden : tensor<?x1024xbf16>) -> tensor<?x1024xbf16>
  %o0 = linalg.fill ins(%zero : bf16) outs(%out : tensor<?x128xbf16>) -> tensor<?x128xbf16>
  %h = linalg.matmul ins(%x, %w1 : tensor<?x128xbf16>, tensor<128x1024xbf16>)
      outs(%h0 : tensor<?x1024xbf16>) -> tensor<?x1024xbf16>
  %a = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]}
      ins(%h : tensor<?x1024xbf16>) outs(%hidden : tensor<?x1024xbf16>) {
  ^bb0(%y: bf16, %init: bf16):
    %z = arith.maximumf %y, %zero : bf16
    linalg.yield %z : bf16
  } -> tensor<?x1024xbf16>
  %o = linalg.matmul ins(%a, %w2 : tensor<?x1024xbf16>, tensor<1024x128xbf16>)
      outs(%o0 : tensor<?x128xbf16>) -> tensor<?x128xbf16>
  return %o : tensor<?x128xbf16>
}

// A matmul alone is no chain.
// CHECK-LABEL: @product
// CHECK-NOT:  derivation
func.func @product(%a: tensor<128x128xbf16>, %c: tensor<128x128xbf16>) -> tensor<128x128xbf16> {
  %0 = linalg.matmul ins(%a, %a : tensor<128x128xbf16>, tensor<128x128xbf16>)
      outs(%c : tensor<128x128xbf16>) -> tensor<128x128xbf16>
  return %0 : tensor<128x128xbf16>
}
