// RUN: attn-opt %s --attn-create-entry-points --split-input-file --verify-diagnostics

// expected-error @below {{'func.func' op argument #0 is not described by 'attn.name' and 'attn.dims'}}
func.func @dtype(%a: memref<4xindex> {attn.name = "a", attn.dims = array<i64: 4>})
    attributes {attn.symbols = []} {
  return
}

// -----

func.func @f(%a: memref<4xf32> {attn.name = "a", attn.dims = array<i64: 4>})
    attributes {attn.symbols = []} {
  return
}
// expected-error @below {{'func.func' op has the name of the reference of 'f', but not a body, or not the same arguments}}
func.func private @f.reference()

// -----

func.func @f(%a: memref<4xf32> {attn.name = "a", attn.dims = array<i64: 4>})
    attributes {attn.symbols = []} {
  return
}
// expected-error @below {{'func.func' op has the name of the reference of 'f', but not a body, or not the same arguments}}
func.func @f.reference(%a: memref<4x4xf32>) {
  return
}
