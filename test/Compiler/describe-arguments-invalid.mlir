// RUN: attn-opt %s --attn-describe-arguments --split-input-file --verify-diagnostics

// expected-error @below {{'func.func' op argument #1 of a public function must be a ranked tensor or memref of bf16, f16, f32, f64, i64, i32, i8 or i1 values (was 'f32')}}
func.func @scalar(%a: memref<4xf32>, %s: f32) {
  return
}

// -----

// expected-error @below {{'func.func' op argument #0 of a public function must be a ranked tensor or memref of bf16, f16, f32, f64, i64, i32, i8 or i1 values (was 'memref<4xi7>')}}
func.func @element(%a: memref<4xi7>) {
  return
}

// -----

// expected-error @below {{'func.func' op is public and must not have results once its tensors are memrefs}}
func.func @result(%a: memref<4xf32>) -> memref<4xf32> {
  return %a : memref<4xf32>
}
