// Queries, keys and values that are slices of one tensor.
// attn-compile: --target=sm_90a
// attn-compile: --target=host

!x = tensor<?x?x3x4x64xbf16>
!s = tensor<?x?x4x64xbf16>
!q = tensor<?x4x?x64xbf16>
func.func @attention(%joined: !x, %out: !q) -> !q {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %joined, %c0 : !x
  %n = tensor.dim %joined, %c1 : !x
  %q0 = tensor.extract_slice %joined[0, 0, 0, 0, 0] [%b, %n, 1, 4, 64] [1, 1, 1, 1, 1] : !x to !s
  %k0 = tensor.extract_slice %joined[0, 0, 1, 0, 0] [%b, %n, 1, 4, 64] [1, 1, 1, 1, 1] : !x to !s
  %v0 = tensor.extract_slice %joined[0, 0, 2, 0, 0] [%b, %n, 1, 4, 64] [1, 1, 1, 1, 1] : !x to !s
  %q = attn.permute %q0 [0, 2, 1, 3] : !s -> !q
  %k = attn.permute %k0 [0, 2, 1, 3] : !s -> !q
  %v = attn.permute %v0 [0, 2, 1, 3] : !s -> !q
  %0 = attn.attention ins(%q, %k, %v : !q, !q, !q) outs(%out : !q) -> !q
  return %0 : !q
}
