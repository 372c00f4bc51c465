// RUN: attn-opt %s --attn-decompose-linear-attention -split-input-file -verify-diagnostics

!q = tensor<1x2x9x8xf32>
!x = tensor<?x?x?x8xf32>
func.func @other_rows(%q: !q, %y: !x) -> !q {
  // expected-error @below {{'attn.linear_attention' op feature region must yield as many rows as its argument has, which dimension 0 does not show}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) feature {
    ^bb0(%x: !x):
      attn.linear_yield %y : !x
    } -> !q
  return %r : !q
}

// -----

!q = tensor<1x2x9x8xf32>
!x = tensor<?x?x?x8xf32>
func.func @more_tokens(%q: !q) -> !q {
  // expected-error @below {{'attn.linear_attention' op feature region must yield as many rows as its argument has, which dimension 2 does not show}}
  %r = attn.linear_attention ins(%q, %q, %q : !q, !q, !q) outs(%q : !q) feature {
    ^bb0(%x: !x):
      %y = tensor.concat dim(2) %x, %x : (!x, !x) -> !x
      attn.linear_yield %y : !x
    } -> !q
  return %r : !q
}
