// RUN: attn-compile %s --target=sm_90a --stop-after=kernel -o - | FileCheck %s
// RUN: attn-compile %s --target=sm_80 --stop-after=kernel -o - | FileCheck %s
// RUN: attn-compile %s --target=sm_90a --embed-ptx -o %t.o
// RUN: attn-compile %s --target=sm_80 -o %t.o
// RUN: attn-compile %s -o %t.o

// Without queries or without a batch there is nothing to compute, and no kernel. Gradients without pairs are zeros.

// CHECK-LABEL: func.func @no_queries(
// CHECK-NEXT:    return
func.func @no_queries(%q: tensor<1x2x0x64xbf16>, %k: tensor<1x2x64x64xbf16>, %v: tensor<1x2x64x64xbf16>)
      -> (tensor<1x2x0x64xbf16>, tensor<1x2x0xf32>) {
  %e = tensor.empty() : tensor<1x2x0x64xbf16>
  %l = tensor.empty() : tensor<1x2x0xf32>
  %r:2 = attn.attention ins(%q, %k, %v : tensor<1x2x0x64xbf16>, tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>)
      outs(%e, %l : tensor<1x2x0x64xbf16>, tensor<1x2x0xf32>)
      mask(#attn.causal) -> tensor<1x2x0x64xbf16>, tensor<1x2x0xf32>
  return %r#0, %r#1 : tensor<1x2x0x64xbf16>, tensor<1x2x0xf32>
}

// CHECK-LABEL: func.func @no_batch(
// CHECK-NEXT:    return
func.func @no_batch(%q: tensor<0x2x64x64xbf16>, %k: tensor<0x2x64x64xbf16>, %v: tensor<0x2x64x64xbf16>,
      %seed: tensor<i64>, %offset: tensor<i64>)
      -> (tensor<0x2x64x64xbf16>) {
  %e = tensor.empty() : tensor<0x2x64x64xbf16>
  %r = attn.attention ins(%q, %k, %v : tensor<0x2x64x64xbf16>, tensor<0x2x64x64xbf16>, tensor<0x2x64x64xbf16>)
      outs(%e : tensor<0x2x64x64xbf16>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.arx, bits = 8>,
      %seed, %offset : tensor<i64>, tensor<i64>) -> tensor<0x2x64x64xbf16>
  return %r : tensor<0x2x64x64xbf16>
}

// CHECK-LABEL: func.func @no_batch_block_mask(
// CHECK-NEXT:    return
func.func @no_batch_block_mask(%q: tensor<0x2x64x64xbf16>, %k: tensor<0x2x64x64xbf16>, %v: tensor<0x2x64x64xbf16>, %ids: tensor<0x64xi32>)
      -> (tensor<0x2x64x64xbf16>) {
  %e = tensor.empty() : tensor<0x2x64x64xbf16>
  %r = attn.attention ins(%q, %k, %v : tensor<0x2x64x64xbf16>, tensor<0x2x64x64xbf16>, tensor<0x2x64x64xbf16>)
      outs(%e : tensor<0x2x64x64xbf16>) mask_mod {
      ^bb0(%b: index, %h: index, %i: index, %j: index):
        %x = tensor.extract %ids[%b, %i] : tensor<0x64xi32>
        %y = tensor.extract %ids[%b, %j] : tensor<0x64xi32>
        %same = arith.cmpi eq, %x, %y : i32
        attn.yield %same : i1
      } -> tensor<0x2x64x64xbf16>
  return %r : tensor<0x2x64x64xbf16>
}

// CHECK-LABEL: func.func @grad_no_batch(
// CHECK-NEXT:    return
func.func @grad_no_batch(%q: tensor<0x2x64x64xbf16>, %k: tensor<0x2x64x64xbf16>, %v: tensor<0x2x64x64xbf16>,
      %out: tensor<0x2x64x64xbf16>, %lse: tensor<0x2x64xf32>, %dout: tensor<0x2x64x64xbf16>)
      -> (tensor<0x2x64x64xbf16>, tensor<0x2x64x64xbf16>, tensor<0x2x64x64xbf16>) {
  %e = tensor.empty() : tensor<0x2x64x64xbf16>
  %e1 = tensor.empty() : tensor<0x2x64x64xbf16>
  %r:3 = attn.attention_grad ins(%q, %k, %v,
      %out, %lse, %dout : tensor<0x2x64x64xbf16>, tensor<0x2x64x64xbf16>, tensor<0x2x64x64xbf16>,
          tensor<0x2x64x64xbf16>, tensor<0x2x64xf32>, tensor<0x2x64x64xbf16>)
      outs(%e, %e1, %e1 : tensor<0x2x64x64xbf16>, tensor<0x2x64x64xbf16>, tensor<0x2x64x64xbf16>)
          -> tensor<0x2x64x64xbf16>, tensor<0x2x64x64xbf16>, tensor<0x2x64x64xbf16>
  return %r#0, %r#1, %r#2 : tensor<0x2x64x64xbf16>, tensor<0x2x64x64xbf16>, tensor<0x2x64x64xbf16>
}

// CHECK-LABEL: func.func @grad_no_queries(
// CHECK-NOT:     attn_tile.launch
// CHECK:         attn_tile.launch @grad_no_queries_fill_kernel {{.*}}args(%{{.*}} : memref<1x2x64x64xbf16,
// CHECK-NEXT:    attn_tile.launch @grad_no_queries_fill_kernel {{.*}}args(%{{.*}} : memref<1x2x64x64xbf16,
// CHECK-NOT:     attn_tile.launch
// CHECK:         return
func.func @grad_no_queries(%q: tensor<1x2x0x64xbf16>, %k: tensor<1x2x64x64xbf16>, %v: tensor<1x2x64x64xbf16>,
      %seed: tensor<i64>, %offset: tensor<i64>,
      %out: tensor<1x2x0x64xbf16>, %lse: tensor<1x2x0xf32>, %dout: tensor<1x2x0x64xbf16>)
      -> (tensor<1x2x0x64xbf16>, tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>) {
  %e = tensor.empty() : tensor<1x2x0x64xbf16>
  %e1 = tensor.empty() : tensor<1x2x64x64xbf16>
  %r:3 = attn.attention_grad ins(%q, %k, %v,
      %out, %lse, %dout : tensor<1x2x0x64xbf16>, tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>,
          tensor<1x2x0x64xbf16>, tensor<1x2x0xf32>, tensor<1x2x0x64xbf16>)
      outs(%e, %e1, %e1 : tensor<1x2x0x64xbf16>, tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>)
      dropout(#attn.dropout<p = 0.125, rng = #attn.arx, bits = 8>,
      %seed, %offset : tensor<i64>, tensor<i64>) -> tensor<1x2x0x64xbf16>, tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>
  return %r#0, %r#1, %r#2 : tensor<1x2x0x64xbf16>, tensor<1x2x64x64xbf16>, tensor<1x2x64x64xbf16>
}

// Equal kernels are one.
// CHECK-LABEL: func.func @grad_no_keys(
// CHECK-NOT:     attn_tile.launch
// CHECK:         attn_tile.launch @grad_no_queries_fill_kernel {{.*}}args(%{{.*}} : memref<1x2x64x64xbf16,
// CHECK-NOT:     attn_tile.launch
// CHECK:         return
func.func @grad_no_keys(%q: tensor<1x2x64x64xbf16>, %k: tensor<1x2x0x64xbf16>, %v: tensor<1x2x0x64xbf16>,
      %out: tensor<1x2x64x64xbf16>, %lse: tensor<1x2x64xf32>, %dout: tensor<1x2x64x64xbf16>)
      -> (tensor<1x2x64x64xbf16>, tensor<1x2x0x64xbf16>, tensor<1x2x0x64xbf16>) {
  %e = tensor.empty() : tensor<1x2x64x64xbf16>
  %e1 = tensor.empty() : tensor<1x2x0x64xbf16>
  %r:3 = attn.attention_grad ins(%q, %k, %v,
      %out, %lse, %dout : tensor<1x2x64x64xbf16>, tensor<1x2x0x64xbf16>, tensor<1x2x0x64xbf16>,
          tensor<1x2x64x64xbf16>, tensor<1x2x64xf32>, tensor<1x2x64x64xbf16>)
      outs(%e, %e1, %e1 : tensor<1x2x64x64xbf16>, tensor<1x2x0x64xbf16>, tensor<1x2x0x64xbf16>)
      mask(#attn.causal) -> tensor<1x2x64x64xbf16>, tensor<1x2x0x64xbf16>, tensor<1x2x0x64xbf16>
  return %r#0, %r#1, %r#2 : tensor<1x2x64x64xbf16>, tensor<1x2x0x64xbf16>, tensor<1x2x0x64xbf16>
}
