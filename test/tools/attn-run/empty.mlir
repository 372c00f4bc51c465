// A tensor without elements reads as zero, also in the kernel that classifies
// tiles.

// REQUIRES: host-cc
// RUN: attn-run %s --target=host --check --shape=query=2x2x100x32 --shape=key=2x2x130x32 --shape=a=0x4 --shape=b=2x130 \
// RUN:   --fill=b=const:0 | FileCheck %s
// CHECK:      check against the f64 reference
// CHECK:      out {{.*}} ok

func.func @f(%query: tensor<?x2x?x32xf32>, %key: tensor<?x2x?x32xf32>, %value: tensor<?x2x?x32xf32>,
             %out: tensor<?x2x?x32xf32>, %a: tensor<?x?xi64>, %b: tensor<?x?xi64>) -> tensor<?x2x?x32xf32> {
  %0 = attn.attention
      ins(%query, %key, %value : tensor<?x2x?x32xf32>, tensor<?x2x?x32xf32>, tensor<?x2x?x32xf32>)
      outs(%out : tensor<?x2x?x32xf32>) mask_mod {
  ^bb0(%batch: index, %head: index, %i: index, %j: index):
    %x = tensor.extract %a[%batch, %i] : tensor<?x?xi64>
    %y = tensor.extract %b[%batch, %j] : tensor<?x?xi64>
    %equal = arith.cmpi eq, %x, %y : i64
    attn.yield %equal : i1
  } -> tensor<?x2x?x32xf32>
  return %0 : tensor<?x2x?x32xf32>
}
