// RUN: attn-opt %s --attn-describe-arguments --split-input-file --verify-diagnostics

// expected-error @below {{argument #1 of a public function must be a ranked tensor or memref of bf16, f16, f32, f64, i64, i32, i8 or i1 values (was 'f32')}}
func.func @scalar(%a: memref<4xf32>, %s: f32) {
  return
}

// -----

// expected-error-re @below {{'func.func' op argument #0 of a public function must be a ranked tensor or memref of {{.*}} i8 or i1 values (was 'memref<4xi7>')}}
func.func @element(%a: memref<4xi7>) {
  return
}

// -----

// expected-error @below {{'func.func' op is public and must not have results once its tensors are memrefs}}
func.func @result(%a: memref<4xf32>) -> memref<4xf32> {
  return %a : memref<4xf32>
}

// -----

// expected-error @below {{function 'sizes' has 65 dynamic sizes, more than the 64 that calls can check; make some of them static or equal}}
func.func @sizes(%a0: memref<?x?x?x?x?x?x?x?x?x?x?x?x?xf32>, %a1: memref<?x?x?x?x?x?x?x?x?x?x?x?x?xf32>, %a2: memref<?x?x?x?x?x?x?x?x?x?x?x?x?xf32>,
    %a3: memref<?x?x?x?x?x?x?x?x?x?x?x?x?xf32>, %a4: memref<?x?x?x?x?x?x?x?x?x?x?x?x?xf32>) {
  return
}

// -----

// expected-error @below {{function 'attnrtParallelFor' must not have a name that begins with 'attnrt', as those of the runtime do}}
func.func @attnrtParallelFor(%a: memref<4xf32>) {
  return
}

// -----

// expected-error @below {{function 'attn_artifact' must not have a name that begins with 'attn_', as those of the runtime do}}
func.func private @attn_artifact(%a: memref<4xf32>) {
  return
}
