// RUN: attn-opt %s --attn-check-device-memory --split-input-file --verify-diagnostics

memref.global "private" constant @slopes : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]>
attn_tile.kernel @k(%m: memref<4xf32>) {
  attn_tile.return
}
func.func @launches() {
  // expected-error @below {{is a constant in the memory of the host, which kernels of the device cannot read; pass it to 'launches' as an argument}}
  %m = memref.get_global @slopes : memref<4xf32>
  // expected-note @below {{used by 'attn_tile.launch' here}}
  attn_tile.launch @k args(%m : memref<4xf32>)
  return
}

// -----

// Arguments of other functions are memory of the device as well.
memref.global "private" constant @slopes : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]>
attn_tile.kernel @k(%m: memref<4xf32>) {
  attn_tile.return
}
func.func private @launches(%m: memref<4xf32>) {
  attn_tile.launch @k args(%m : memref<4xf32>)
  return
}
func.func @calls() {
  // expected-error @below {{pass it to 'calls' as an argument}}
  %m = memref.get_global @slopes : memref<4xf32>
  // expected-note @below {{used by 'func.call' here}}
  call @launches(%m) : (memref<4xf32>) -> ()
  return
}

// -----

// What callers give to described functions is memory of the device.
memref.global "private" constant @slopes : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]>
func.func @described(%i: index, %out: memref<4xf32>) attributes {attn.symbols = []} {
  // expected-error @below {{pass it to 'described' as an argument}}
  %m = memref.get_global @slopes : memref<4xf32>
  // expected-note @below {{used by 'memref.load' here}}
  %x = memref.load %m[%i] : memref<4xf32>
  return
}

// -----

// A function that is neither handles memory of the host.
memref.global "private" constant @bounds : memref<4xindex> = dense<[1, 2, 3, 4]>
attn_tile.kernel @k(%n: index) {
  attn_tile.return
}
func.func private @lookup(%i: index) -> index {
  %m = memref.get_global @bounds : memref<4xindex>
  %n = memref.load %m[%i] : memref<4xindex>
  return %n : index
}
func.func @launches(%i: index) {
  %n = call @lookup(%i) : (index) -> index
  attn_tile.launch @k args(%n : index)
  return
}
