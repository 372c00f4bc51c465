// RUN: mlir-opt %s --pass-pipeline="builtin.module(func.func(tosa-to-linalg-named,tosa-to-linalg,tosa-to-arith,tosa-to-tensor))" \
// RUN:   | attn-opt --attn-raise-linalg --canonicalize | FileCheck %s

// ViT in TOSA, after upstream's lowering. The function is run by
// Integration/host/raise_linalg.py, too.

// CHECK-LABEL: func.func @vit(
// CHECK-SAME:    %[[Q:.*]]: tensor<4x17x8xf32>, %[[K:.*]]: tensor<4x17x8xf32>, %[[V:.*]]: tensor<4x17x8xf32>
// CHECK-DAG:     %[[Q1:.*]] = tensor.expand_shape %[[Q]] {{\[}}[0, 1], [2], [3]]
// CHECK-DAG:     %[[K1:.*]] = tensor.expand_shape %[[K]] {{\[}}[0, 1], [2], [3]]
// CHECK-DAG:     %[[V1:.*]] = tensor.expand_shape %[[V]] {{\[}}[0, 1], [2], [3]]
// CHECK:         attn.attention ins(%[[Q1]], %[[K1]], %[[V1]] : tensor<1x4x17x8xf32>,
// CHECK-NOT:     scale
// CHECK-NOT:     score_mod
// CHECK:         linalg.transpose {{.*}} permutation = [1, 0, 2]
// CHECK-NOT:     linalg.batch_matmul
func.func @vit(%q: tensor<4x17x8xf32>, %k: tensor<4x17x8xf32>, %v: tensor<4x17x8xf32>) -> tensor<1x17x32xf32> {
  %zp = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %shift = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %scale = "tosa.const"() <{values = dense<0.35355338> : tensor<1x1x1xf32>}> : () -> tensor<1x1x1xf32>
  %kt = tosa.transpose %k {perms = array<i32: 0, 2, 1>} : (tensor<4x17x8xf32>) -> tensor<4x8x17xf32>
  %s = tosa.matmul %q, %kt, %zp, %zp : (tensor<4x17x8xf32>, tensor<4x8x17xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<4x17x17xf32>
  %x = tosa.mul %s, %scale, %shift : (tensor<4x17x17xf32>, tensor<1x1x1xf32>, tensor<1xi8>) -> tensor<4x17x17xf32>
  %m = tosa.reduce_max %x {axis = 2 : i32} : (tensor<4x17x17xf32>) -> tensor<4x17x1xf32>
  %d = tosa.sub %x, %m : (tensor<4x17x17xf32>, tensor<4x17x1xf32>) -> tensor<4x17x17xf32>
  %e = tosa.exp %d : (tensor<4x17x17xf32>) -> tensor<4x17x17xf32>
  %l = tosa.reduce_sum %e {axis = 2 : i32} : (tensor<4x17x17xf32>) -> tensor<4x17x1xf32>
  %r = tosa.reciprocal %l : (tensor<4x17x1xf32>) -> tensor<4x17x1xf32>
  %p = tosa.mul %e, %r, %shift : (tensor<4x17x17xf32>, tensor<4x17x1xf32>, tensor<1xi8>) -> tensor<4x17x17xf32>
  %o = tosa.matmul %p, %v, %zp, %zp : (tensor<4x17x17xf32>, tensor<4x17x8xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<4x17x8xf32>
  %ot = tosa.transpose %o {perms = array<i32: 1, 0, 2>} : (tensor<4x17x8xf32>) -> tensor<17x4x8xf32>
  %shape = tosa.const_shape {values = dense<[1, 17, 32]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %res = tosa.reshape %ot, %shape : (tensor<17x4x8xf32>, !tosa.shape<3>) -> tensor<1x17x32xf32>
  return %res : tensor<1x17x32xf32>
}
