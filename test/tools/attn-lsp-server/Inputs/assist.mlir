// completion
func.func @operation(%q: tensor<1x8x?x64xf32>, %o: tensor<1x8x?x64xf32>) {
  %0 = attn.att|
  return
}
// -----
// completion
attn_tile.kernel @operation_first_in_line() {
  attn_tile.kv_|
}
// -----
// completion
func.func private @attribute() attributes {é = "😀", a = #attn.ca|}
// -----
// completion
func.func private @attribute_in_brackets() attributes {a = #attn<se|
// -----
// completion
func.func private @keyword() attributes {a = #attn<sequence_layout pa|
// -----
// completion
func.func @type(%p: !attn_tile.p|
// -----
// completion
func.func private @parameters() attributes {a = #attn.sliding_window<left = 4,
  |
// -----
// completion
func.func private @nested() attributes {a = #attn.or<#attn.causal<alignment = top_left>, #attn.local_blocks<size = 512, |
// -----
// completion
func.func private @value() attributes {a = #attn.causal<alignment = |>}
// -----
// completion
func.func private @figure() attributes {a = #attn.device<"h100", clock|
// -----
// completion
func.func private @comment() // #attn.ca|
// -----
// completion
func.func private @dictionary() attributes {attn.att|
// -----
// hover
func.func @operation(%x: memref<?x8xf32>, %y: memref<8xf32>) {
  attn.overlap by streams {
    %0 = "attn.per|mute"(%x) : (memref<?x8xf32>) -> memref<?x8xf32>
  }
}
// -----
// hover
func.func @resolved(%q: tensor<1x8x?x64xf32>) {
  %0 = attn.perm|ute %q [0, 2, 1, 3] : tensor<1x8x?x64xf32> -> tensor<1x?x8x64xf32>
  return
}
// -----
// hover
func.func private @attribute() attributes {é = "😀", a = #attn.caus|al}
// -----
// hover
func.func private @parameter() attributes {a = #attn.dropout<p = 0.1, rng = #attn.philox, bi|ts = 8>}
// -----
// hover
func.func private @type(!attn_|tile.pending<vector<128x176xf32>>)
// -----
// hover
func.func private @comment() // #attn.caus|al
