// RUN: attn-opt %s --split-input-file --verify-diagnostics
// RUN: not attn-opt %s --split-input-file 2>&1 | FileCheck %s

// A name that is not known is an error at its place, with the names that are, and the one that is meant if it is near.

// expected-error @below {{unknown attribute `causall` in dialect `attn`; did you mean 'causal'? (expected and, arx, block_sparse, by_query_length, causal,}}
func.func private @attribute() attributes {a = #attn.causall}
// CHECK: :[[#@LINE-1]]:54: error: unknown attribute `causall` in dialect `attn`

// -----

// expected-error @below {{unknown attribute `padded` in dialect `attn` (expected and, arx,}}
func.func private @not_near() attributes {a = #attn<padded>}

// -----

// expected-error @+2 {{failed to parse Attn_DropoutAttr parameter 'rng'}}
// expected-error @below {{unknown attribute `philoxx` in dialect `attn`; did you mean 'philox'? (expected and, arx,}}
func.func private @nested() attributes {a = #attn.dropout<p = 0.1, rng = #attn.philoxx>}

// -----

// expected-error @below {{unknown parameter 'sise' of '#attn.sliding_window' (expected left, right, alignment)}}
func.func private @parameter() attributes {a = #attn.sliding_window<sise = 4>}

// -----

// expected-error @below {{unknown parameter 'lefft' of '#attn.sliding_window'; did you mean 'left'? (expected left, right, alignment)}}
func.func private @near_parameter() attributes {a = #attn.sliding_window<right = 0, lefft = 4>}
// CHECK: :[[#@LINE-1]]:85: error: unknown parameter 'lefft' of '#attn.sliding_window'

// -----

// expected-error @+2 {{failed to parse Attn_DropoutAttr parameter 'rng'}}
// expected-error @below {{unknown parameter 'round' of '#attn.philox'; did you mean 'rounds'? (expected rounds)}}
func.func private @parameter_of_nested() attributes {a = #attn.dropout<p = 0.1, rng = #attn.philox<round = 7>>}

// -----

// expected-error @below {{parameter 'left' of '#attn.sliding_window' is given twice}}
func.func private @twice() attributes {a = #attn.sliding_window<left = 4, left = 4>}

// -----

// Within the form without a dot, and across lines.

func.func private @in_brackets() attributes {a = #attn<global_tokens<
  // expected-error @below {{unknown parameter 'kount' of '#attn.global_tokens'; did you mean 'count'? (expected count)}}
  kount
  = 4>>}

// -----

// expected-error @below {{unknown figure 'clock_mzh'; did you mean 'clock_mhz'? (expected sms, clock_mhz,}}
func.func private @figure() attributes {d = #attn.device<"h200", clock_mzh = 1000>}

// -----

func.func @operation(%q: tensor<1x8x?x64xf32>, %o: tensor<1x8x?x64xf32>) {
  // expected-error @below {{custom op 'attn.atention' is unknown; did you mean 'attention'? (expected accumulate, ancestor_map, attention,}}
  %0 = attn.atention ins(%q, %q, %q : tensor<1x8x?x64xf32>, tensor<1x8x?x64xf32>, tensor<1x8x?x64xf32>)
      outs(%o : tensor<1x8x?x64xf32>) -> tensor<1x8x?x64xf32>
  // CHECK: :[[#@LINE-2]]:8: error: custom op 'attn.atention' is unknown
  return
}

// -----

func.func @operation_not_near() {
  // expected-error @below {{custom op 'attn.softmax' is unknown (expected accumulate, ancestor_map, attention,}}
  attn.softmax
  return
}

// -----

// A diagnostic of another dialect's parser is not changed.

// expected-error @+2 {{failed to parse Attn_DropoutAttr parameter 'rng'}}
// expected-error-re @below {{unknown attribute `fastmat` in dialect `arith`{{$}}}}
func.func private @other_dialect() attributes {a = #attn.dropout<p = 0.1, rng = #arith.fastmat<none>>}

// -----

// A mask of others has no error of its own: --verify-diagnostics fails with a second one.
// expected-error @below {{unknown attribute `slidin_window` in dialect `attn`; did you mean 'sliding_window'?}}
func.func private @in_masks() attributes {test.mask = #attn.and<#attn.causal, #attn.slidin_window<left = 3>>}

// -----

// expected-error @below {{local blocks must bound at least one of 'before' and 'after'}}
func.func private @in_mask() attributes {test.mask = #attn.not<#attn.local_blocks<size = 8>>}

// -----

// expected-error @below {{invalid kind of attribute specified}}
func.func private @no_mask() attributes {test.mask = #attn.or<#attn.causal, 3 : i64>}
