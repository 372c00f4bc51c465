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

// -----

func.func @dimension(
    %a: memref<4xf32>,
    // expected-error @below {{argument #1 of function 'dimension' has a size that no call can have: dimension 2 must be at most 2147483647 (was 1099511627776)}}
    %b: memref<?x1x1099511627776xbf16>) {
  return
}

// -----

func.func @bytes(
    // expected-error @below {{argument #0 of function 'bytes' has more bytes than an address space (was 'tensor<2147483647x?x2147483647x64xbf16>')}}
    %a: memref<2147483647x?x2147483647x64xbf16>) {
  return
}

// -----

// Empty tensors have no bytes.
func.func @empty(%a: memref<0x2147483647x2147483647x64xbf16>, %b: memref<2147483647x2147483647x64x0xbf16>, %c: memref<2147483647xi8>) {
  return
}
