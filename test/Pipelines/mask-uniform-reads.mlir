// Regions whose index turns out to be a constant only after reads that are the
// same for all pairs have been hoisted.
// RUN: attn-compile %s --target=sm_80 --embed-ptx --stop-after=device -o %t.mlir 2>&1 | count 0
// RUN: FileCheck %s < %t.mlir
// RUN: attn-compile %s --target=sm_90a --embed-ptx --stop-after=device -o %t.mlir 2>&1 | count 0
// RUN: FileCheck %s < %t.mlir

// CHECK: gpu.binary @forward_kernel_module {{.*}}ld.global.b8
// CHECK: gpu.binary @gradient_grad_dkdv_kernel_module {{.*}}ld.global.b8
// CHECK: gpu.binary @gradient_grad_dq_kernel_module {{.*}}ld.global.b8
func.func @forward(%q: tensor<1x1x64x64xf16>, %k: tensor<1x1x64x64xf16>, %v: tensor<1x1x64x64xf16>,
    %table: tensor<1x1xi8>, %out: tensor<1x1x64x64xf16>) -> tensor<1x1x64x64xf16> {
  %0 = attn.attention ins(%q, %k, %v : tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>)
    outs(%out : tensor<1x1x64x64xf16>) mask_mod {
  ^bb0(%b: index, %h: index, %query: index, %key: index):
    %zero = arith.constant 0 : index
    %none = arith.constant 0 : i8
    %large = arith.constant 2147483647 : index
    %far = arith.addi %query, %large : index
    %least = arith.maxsi %far, %zero : index
    %index = arith.minsi %least, %zero : index
    %x = tensor.extract %table[%index, %zero] : tensor<1x1xi8>
    %keep = arith.cmpi ne, %x, %none : i8
    attn.yield %keep : i1
  } -> tensor<1x1x64x64xf16>
  return %0 : tensor<1x1x64x64xf16>
}

func.func @gradient(%q: tensor<1x1x64x64xf16>, %k: tensor<1x1x64x64xf16>, %v: tensor<1x1x64x64xf16>,
    %do: tensor<1x1x64x64xf16>, %lse: tensor<1x1x64xf32>, %out: tensor<1x1x64x64xf16>, %table: tensor<1x1xi8>,
    %dq: tensor<1x1x64x64xf16>, %dk: tensor<1x1x64x64xf16>, %dv: tensor<1x1x64x64xf16>)
    -> (tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>) {
  %0:3 = attn.attention_grad
    ins(%q, %k, %v, %do, %lse, %out : tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>,
        tensor<1x1x64x64xf16>, tensor<1x1x64xf32>, tensor<1x1x64x64xf16>)
    outs(%dq, %dk, %dv : tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>) mask_mod {
  ^bb0(%b: index, %h: index, %query: index, %key: index):
    %zero = arith.constant 0 : index
    %none = arith.constant 0 : i8
    %large = arith.constant 2147483647 : index
    %far = arith.addi %query, %large : index
    %least = arith.maxsi %far, %zero : index
    %index = arith.minsi %least, %zero : index
    %x = tensor.extract %table[%index, %zero] : tensor<1x1xi8>
    %keep = arith.cmpi ne, %x, %none : i8
    attn.yield %keep : i1
  } -> tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>
  return %0#0, %0#1, %0#2 : tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>, tensor<1x1x64x64xf16>
}
