// RUN: attn-opt %s --split-input-file --verify-diagnostics

//===----------------------------------------------------------------------===//
// kernel and return
//===----------------------------------------------------------------------===//

// expected-error @below {{'attn_tile.kernel' op must have a body}}
attn_tile.kernel private @declaration(memref<?xf32>)

// -----

// expected-error @below {{'attn_tile.kernel' op must return nothing (returns 1 values)}}
attn_tile.kernel @results() -> i32 {
  attn_tile.return
}

// -----

// expected-error @below {{'attn_tile.kernel' op entry block must have 1 arguments to match function signature}}
"attn_tile.kernel"() <{function_type = (index) -> (), sym_name = "no_argument"}> ({
  attn_tile.return
}) : () -> ()

// -----

// expected-error @below {{type of entry block argument #0('i32') must match the type of the corresponding argument in function signature('index')}}
"attn_tile.kernel"() <{function_type = (index) -> (), sym_name = "argument_type"}> ({
^bb0(%a: i32):
  attn_tile.return
}) : () -> ()

// -----

// expected-error @below {{'attn_tile.kernel' op attribute 'layout' failed to satisfy constraint: ThreadLayoutAttrInterface instance}}
attn_tile.kernel @layout() attributes {layout = 8 : i64} {
  attn_tile.return
}

// -----

// expected-error @below {{'attn_tile.kernel' op attribute 'schedule' failed to satisfy constraint: ScheduleAttrInterface instance}}
attn_tile.kernel @schedule() attributes {schedule = #attn_tile.row_blocks<warps = 4>} {
  attn_tile.return
}

// -----

attn_tile.kernel @no_terminator() {
  // expected-error @below {{block with no terminator, has}}
  %c0 = arith.constant 0 : index
}

// -----

func.func @return_of_function() {
  // expected-error @below {{'attn_tile.return' op expects parent op 'attn_tile.kernel'}}
  attn_tile.return
}

// -----

//===----------------------------------------------------------------------===//
// launch
//===----------------------------------------------------------------------===//

attn_tile.kernel @kernel() {
  attn_tile.return
}
func.func @grid_of_two(%n: index) {
  // expected-error @below {{'attn_tile.launch' op grid must have 0 or 3 dimensions (has 2)}}
  attn_tile.launch @kernel grid(%n, %n) args()
  return
}

// -----

attn_tile.kernel @kernel() {
  attn_tile.return
}
func.func @bound_without_grid() {
  // expected-error @below {{'attn_tile.launch' op 'ctas_per_sm' needs a grid}}
  attn_tile.launch @kernel ctas_per_sm(1) args()
  return
}

// -----

attn_tile.kernel @kernel() {
  attn_tile.return
}

func.func @early_together(%n: index) {
  // expected-error @below {{'attn_tile.launch' op cannot be both 'early' and 'together'}}
  attn_tile.launch @kernel early together grid(%n, %n, %n) args()
  return
}

// -----

attn_tile.kernel @kernel() {
  attn_tile.return
}
func.func @bound_of_zero(%n: index) {
  // expected-error @below {{attribute 'ctas_per_sm' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  attn_tile.launch @kernel grid(%n, %n, %n) ctas_per_sm(0) args()
  return
}

// -----

attn_tile.kernel @kernel() {
  attn_tile.return
}
func.func @grid_type(%n: i32) {
  // expected-error @below {{'attn_tile.launch' op operand #0 must be variadic of index, but got 'i32'}}
  "attn_tile.launch"(%n, %n, %n) <{kernel = @kernel, operandSegmentSizes = array<i32: 3, 0, 0>}> : (i32, i32, i32) -> ()
  return
}

// -----

func.func @missing_kernel() {
  // expected-error @below {{'attn_tile.launch' op kernel @missing does not exist}}
  attn_tile.launch @missing args()
  return
}

// -----

module @nested {
}
func.func @missing_in_module() {
  // expected-error @below {{'attn_tile.launch' op kernel @nested::@missing does not exist}}
  attn_tile.launch @nested::@missing args()
  return
}

// -----

func.func @function() {
  return
}
func.func @missing_in_function() {
  // expected-error @below {{'attn_tile.launch' op kernel @function::@missing does not exist}}
  attn_tile.launch @function::@missing args()
  return
}

// -----

memref.global @global : memref<4xf32>
func.func @not_a_kernel() {
  // expected-error @below {{'attn_tile.launch' op kernel @global is not a kernel}}
  attn_tile.launch @global args()
  return
}

// -----

attn_tile.kernel @kernel(%a: memref<?xf32>) {
  attn_tile.return
}
func.func @argument_types(%a: memref<?xf16>, %n: index) {
  // expected-error @below {{argument types do not match those of kernel @kernel (expected 'memref<?xf32>', found 'memref<?xf16>', 'index')}}
  attn_tile.launch @kernel args(%a, %n : memref<?xf16>, index)
  return
}

// -----

attn_tile.kernel @kernel(%a: memref<?xf32>) {
  attn_tile.return
}
func.func @no_arguments() {
  // expected-error @below {{'attn_tile.launch' op argument types do not match those of kernel @kernel (expected 'memref<?xf32>', found )}}
  attn_tile.launch @kernel args()
  return
}

// -----

//===----------------------------------------------------------------------===//
// program_id and num_programs
//===----------------------------------------------------------------------===//

attn_tile.kernel @program_id() {
  // expected-error-re @below {{attribute 'dim' failed to satisfy constraint: {{.*}} whose value is non-negative whose maximum value is 2}}
  %0 = attn_tile.program_id 3
  attn_tile.return
}

// -----

attn_tile.kernel @num_programs() {
  // expected-error-re @below {{attribute 'dim' failed to satisfy constraint: {{.*}} whose value is non-negative whose maximum value is 2}}
  %0 = attn_tile.num_programs -1
  attn_tile.return
}

// -----

//===----------------------------------------------------------------------===//
// load and store
//===----------------------------------------------------------------------===//

attn_tile.kernel @load_indices(%m: memref<?x?xf32>, %i: index) {
  // expected-error @below {{'attn_tile.load' op needs one index per dimension of the memref (expected 2, found 1)}}
  %0 = attn_tile.load %m[%i] : memref<?x?xf32> -> vector<4xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @load_rank(%m: memref<?xf32>, %i: index) {
  // expected-error @below {{'attn_tile.load' op tile must not have more dimensions than the memref (has 2, memref has 1)}}
  %0 = attn_tile.load %m[%i] : memref<?xf32> -> vector<4x4xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @load_element_type(%m: memref<?xf32>, %i: index) {
  // expected-error @below {{'attn_tile.load' op tile and memref must have the same element type (found 'f16' and 'f32')}}
  %0 = attn_tile.load %m[%i] : memref<?xf32> -> vector<4xf16>
  attn_tile.return
}

// -----

attn_tile.kernel @load_scalar(%m: memref<f32>) {
  // expected-error @below {{'attn_tile.load' op result #0 must be vector of any type values, but got 'vector<f32>'}}
  %0 = attn_tile.load %m[] : memref<f32> -> vector<f32>
  attn_tile.return
}

// -----

attn_tile.kernel @load_unranked(%m: memref<*xf32>, %i: index) {
  // expected-error @below {{'attn_tile.load' op operand #0 must be memref of any type values, but got 'memref<*xf32>'}}
  %0 = "attn_tile.load"(%m, %i) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}> : (memref<*xf32>, index) -> vector<4xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @stream_without_length(%m: memref<?xf32>, %i: index) {
  // expected-error @below {{'attn_tile.load' op needs both position and length of a stream}}
  %0 = "attn_tile.load"(%m, %i, %i) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0>}> : (memref<?xf32>, index, index) -> vector<4xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @stream_without_position(%m: memref<?xf32>, %i: index) {
  // expected-error @below {{'attn_tile.load' op needs both position and length of a stream}}
  %0 = "attn_tile.load"(%m, %i, %i) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>}> : (memref<?xf32>, index, index) -> vector<4xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @order_of_row(%m: memref<?xf32>, %i: index) {
  // expected-error @below {{'attn_tile.load' op tile must have two dimensions for any order of the elements of a row (has 1)}}
  %0 = attn_tile.load %m[%i] any_order : memref<?xf32> -> vector<4xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @order_in_stream(%m: memref<?x8xf32>, %i: index) {
  // expected-error @below {{'attn_tile.load' op of a stream or of unaligned rows must keep the order of elements}}
  %0 = attn_tile.load %m[%i, %i] stream(%i of %i) any_order : memref<?x8xf32> -> vector<4x4xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @order_of_unaligned_rows(%m: memref<?x8xf32>, %i: index) {
  // expected-error @below {{'attn_tile.load' op of a stream or of unaligned rows must keep the order of elements}}
  %0 = attn_tile.load %m[%i, %i] unaligned any_order : memref<?x8xf32> -> vector<4x4xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @order_of_dynamic_rows(%m: memref<?x?xf32>, %i: index) {
  // expected-error @below {{'attn_tile.load' op source must have a static last dimension for any order of the elements of a row (was 'memref<?x?xf32>')}}
  %0 = attn_tile.load %m[%i, %i] any_order : memref<?x?xf32> -> vector<4x4xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @store_indices(%v: vector<4xf32>, %m: memref<?xf32>, %i: index) {
  // expected-error @below {{'attn_tile.store' op needs one index per dimension of the memref (expected 1, found 2)}}
  attn_tile.store %v, %m[%i, %i] : vector<4xf32>, memref<?xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @store_rank(%v: vector<4x4xf32>, %m: memref<?xf32>, %i: index) {
  // expected-error @below {{'attn_tile.store' op tile must not have more dimensions than the memref (has 2, memref has 1)}}
  attn_tile.store %v, %m[%i] : vector<4x4xf32>, memref<?xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @store_element_type(%v: vector<4xf32>, %m: memref<?xbf16>, %i: index) {
  // expected-error @below {{'attn_tile.store' op tile and memref must have the same element type (found 'f32' and 'bf16')}}
  attn_tile.store %v, %m[%i] : vector<4xf32>, memref<?xbf16>
  attn_tile.return
}

// -----

//===----------------------------------------------------------------------===//
// key_tiles
//===----------------------------------------------------------------------===//

attn_tile.kernel @query_tile(%i: index) {
  // expected-error @below {{'attn_tile.kv_tile_iterator' op tiles must be positive (were 0 and 64)}}
  %0:3 = attn_tile.kv_tile_iterator at(%i, %i) queries(%i, 0) keys(64) lengths(%i, %i)
  attn_tile.return
}

// -----

attn_tile.kernel @key_tile(%i: index) {
  // expected-error @below {{'attn_tile.kv_tile_iterator' op tiles must be positive (were 64 and -16)}}
  %0:3 = attn_tile.kv_tile_iterator at(%i, %i) queries(%i, 64) keys(-16) lengths(%i, %i)
  attn_tile.return
}

// -----

attn_tile.kernel @key_tiles_mask(%i: index) {
  // expected-error @below {{invalid kind of attribute specified}}
  %0:3 = attn_tile.kv_tile_iterator at(%i, %i) queries(%i, 64) keys(64) lengths(%i, %i) by(#attn_tile.row_blocks<warps = 1>)
  attn_tile.return
}

// -----

attn_tile.kernel @key_tiles_arguments(%i: index) {
  // expected-error @below {{'attn_tile.kv_tile_iterator' op region must have arguments ('index', 'index', 'index', 'index'), found ('index')}}
  %0:3 = attn_tile.kv_tile_iterator at(%i, %i) queries(%i, 64) keys(64) lengths(%i, %i) mask_mod {
  ^bb0(%j: index):
    %true = arith.constant true
    attn_tile.yield %true : i1
  }
  attn_tile.return
}

// -----

attn_tile.kernel @key_tiles_yield(%i: index) {
  // expected-error @below {{'attn_tile.kv_tile_iterator' op region must yield 'i1' (yields 'index')}}
  %0:3 = attn_tile.kv_tile_iterator at(%i, %i) queries(%i, 64) keys(64) lengths(%i, %i) mask_mod {
  ^bb0(%b: index, %h: index, %q: index, %k: index):
    attn_tile.yield %k : index
  }
  attn_tile.return
}

// -----

//===----------------------------------------------------------------------===//
// map
//===----------------------------------------------------------------------===//

attn_tile.kernel @map_rank(%s: vector<16xf32>, %c: index) {
  // expected-error @below {{'attn_tile.map' op tile must have two dimensions (has 1)}}
  %0 = attn_tile.map %s at(%c, %c, %c, %c) lengths(%c, %c) : vector<16xf32> {
  ^bb0(%x: f32, %b: index, %h: index, %i: index, %j: index):
    attn_tile.yield %x : f32
  }
  attn_tile.return
}

// -----

attn_tile.kernel @map_other(%s: vector<16x8xf32>, %t: vector<8xf32>, %c: index) {
  // expected-error @below {{other tiles must have the shape of the tile or be vectors of its rows (found 'vector<8xf32>' for a tile of 'vector<16x8xf32>')}}
  %0 = attn_tile.map %s at(%c, %c, %c, %c) lengths(%c, %c) with(%t : vector<8xf32>) : vector<16x8xf32> {
  ^bb0(%x: f32, %b: index, %h: index, %i: index, %j: index, %y: f32):
    attn_tile.yield %x : f32
  }
  attn_tile.return
}

// -----

attn_tile.kernel @map_other_argument(%s: vector<16x8xf32>, %t: vector<16xbf16>, %c: index) {
  // expected-error @below {{region must have arguments ('f32', 'index', 'index', 'index', 'index', 'bf16'), found ('f32', 'index', 'index', 'index', 'index')}}
  %0 = attn_tile.map %s at(%c, %c, %c, %c) lengths(%c, %c) with(%t : vector<16xbf16>) : vector<16x8xf32> {
  ^bb0(%x: f32, %b: index, %h: index, %i: index, %j: index):
    attn_tile.yield %x : f32
  }
  attn_tile.return
}

// -----

attn_tile.kernel @map_arguments(%s: vector<16x8xf32>, %c: index) {
  // expected-error @below {{'attn_tile.map' op region must have arguments ('f32', 'index', 'index', 'index', 'index'), found ('f32', 'index')}}
  %0 = attn_tile.map %s at(%c, %c, %c, %c) lengths(%c, %c) : vector<16x8xf32> {
  ^bb0(%x: f32, %i: index):
    attn_tile.yield %x : f32
  }
  attn_tile.return
}

// -----

attn_tile.kernel @map_element(%s: vector<16x8xf32>, %c: index) {
  // expected-error @below {{region must have arguments ('f32', 'index', 'index', 'index', 'index'), found ('f16', 'index', 'index', 'index', 'index')}}
  %0 = attn_tile.map %s at(%c, %c, %c, %c) lengths(%c, %c) : vector<16x8xf32> {
  ^bb0(%x: f16, %b: index, %h: index, %i: index, %j: index):
    attn_tile.yield %x : f16
  }
  attn_tile.return
}

// -----

attn_tile.kernel @map_terminator(%s: vector<16x8xf32>, %c: index) {
  // expected-error @below {{'attn_tile.map' op region must end with 'attn_tile.yield'}}
  %0 = attn_tile.map %s at(%c, %c, %c, %c) lengths(%c, %c) : vector<16x8xf32> {
  ^bb0(%x: f32, %b: index, %h: index, %i: index, %j: index):
    llvm.unreachable
  }
  attn_tile.return
}

// -----

attn_tile.kernel @map_yield(%s: vector<16x8xf32>, %c: index) {
  // expected-error @below {{'attn_tile.map' op region must yield 'f32' (yields 'index')}}
  %0 = attn_tile.map %s at(%c, %c, %c, %c) lengths(%c, %c) : vector<16x8xf32> {
  ^bb0(%x: f32, %b: index, %h: index, %i: index, %j: index):
    attn_tile.yield %j : index
  }
  attn_tile.return
}

// -----

attn_tile.kernel @map_empty(%s: vector<16x8xf32>, %c: index) {
  // expected-error @below {{'attn_tile.map' op expects a non-empty block}}
  %0 = attn_tile.map %s at(%c, %c, %c, %c) lengths(%c, %c) : vector<16x8xf32> {
  }
  attn_tile.return
}

// -----

attn_tile.kernel @map_no_block(%s: vector<16x8xf32>, %c: index) {
  // expected-error @below {{'attn_tile.map' op region #0 ('body') failed to verify constraint: region with 1 blocks}}
  %0 = "attn_tile.map"(%s, %c, %c, %c, %c, %c, %c) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0>}> ({
  }) : (vector<16x8xf32>, index, index, index, index, index, index) -> vector<16x8xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @map_result(%s: vector<16x8xf32>, %c: index) {
  // expected-error @below {{'attn_tile.map' op sources must have the type of the result (expected 'vector<16x8xf16>', found 'vector<16x8xf32>')}}
  %0 = "attn_tile.map"(%s, %c, %c, %c, %c, %c, %c) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 0>}> ({
  ^bb0(%x: f32, %b: index, %h: index, %i: index, %j: index):
    attn_tile.yield %x : f32
  }) : (vector<16x8xf32>, index, index, index, index, index, index) -> vector<16x8xf16>
  attn_tile.return
}

// -----

attn_tile.kernel @yield_of_kernel(%x: f32) {
  // expected-error-re @below {{expects parent op to be one of 'attn_tile.warp_compact, {{.*}}, attn_tile.mask, attn_tile.reduce, attn_tile.scatter_add'}}
  attn_tile.yield %x : f32
}

// -----

//===----------------------------------------------------------------------===//
// mask
//===----------------------------------------------------------------------===//

attn_tile.kernel @mask_rank(%s: vector<2x16x8xf32>, %c: index) {
  // expected-error @below {{'attn_tile.mask' op tile must have two dimensions (has 3)}}
  %0 = attn_tile.mask %s at(%c, %c, %c, %c) lengths(%c, %c) : vector<2x16x8xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @mask_element_type(%s: vector<16x8xi32>, %c: index) {
  // expected-error @below {{'attn_tile.mask' op tile must hold floats (holds 'i32')}}
  %0 = attn_tile.mask %s at(%c, %c, %c, %c) lengths(%c, %c) : vector<16x8xi32>
  attn_tile.return
}

// -----

attn_tile.kernel @mask_arguments(%s: vector<16x8xf32>, %c: index) {
  // expected-error @below {{region must have arguments ('index', 'index', 'index', 'index'), found ('f32', 'index', 'index', 'index', 'index')}}
  %0 = attn_tile.mask %s at(%c, %c, %c, %c) lengths(%c, %c) : vector<16x8xf32> mask_mod {
  ^bb0(%x: f32, %b: index, %h: index, %i: index, %j: index):
    %keep = arith.constant true
    attn_tile.yield %keep : i1
  }
  attn_tile.return
}

// -----

attn_tile.kernel @mask_terminator(%s: vector<16x8xf32>, %c: index) {
  // expected-error @below {{'attn_tile.mask' op region must end with 'attn_tile.yield'}}
  %0 = attn_tile.mask %s at(%c, %c, %c, %c) lengths(%c, %c) : vector<16x8xf32> mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    llvm.unreachable
  }
  attn_tile.return
}

// -----

attn_tile.kernel @mask_yield(%s: vector<16x8xf32>, %c: index) {
  // expected-error @below {{'attn_tile.mask' op region must yield 'i1' (yields 'index')}}
  %0 = attn_tile.mask %s at(%c, %c, %c, %c) lengths(%c, %c) : vector<16x8xf32> mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    attn_tile.yield %i : index
  }
  attn_tile.return
}

// -----

attn_tile.kernel @mask_blocks(%s: vector<16x8xf32>, %c: index) {
  // expected-error @below {{'attn_tile.mask' op expects region #0 to have 0 or 1 blocks}}
  %0 = attn_tile.mask %s at(%c, %c, %c, %c) lengths(%c, %c) : vector<16x8xf32> mask_mod {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    cf.br ^end
  ^end:
    %keep = arith.constant true
    attn_tile.yield %keep : i1
  }
  attn_tile.return
}

// -----

attn_tile.kernel @mask_attribute(%s: vector<16x8xf32>, %c: index) {
  // expected-error @below {{invalid kind of attribute specified}}
  %0 = attn_tile.mask %s at(%c, %c, %c, %c) lengths(%c, %c) by(#attn_tile.row_blocks<warps = 1>) : vector<16x8xf32>
  attn_tile.return
}

// -----

//===----------------------------------------------------------------------===//
// emulate_exp2
//===----------------------------------------------------------------------===//

attn_tile.kernel @mixed_none(%s: vector<16x8xf32>) {
  // expected-error-re @below {{attribute 'sixteenths' failed to satisfy constraint: {{.*}} whose minimum value is 1 whose maximum value is 16}}
  %0 = attn_tile.emulate_exp2 %s polynomials 0 : vector<16x8xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @mixed_f16(%s: vector<16x8xf16>) {
  // expected-error @below {{'attn_tile.emulate_exp2' op operand #0 must be vector of 32-bit float values of ranks 2, but got 'vector<16x8xf16>'}}
  %0 = attn_tile.emulate_exp2 %s polynomials 4 : vector<16x8xf16>
  attn_tile.return
}

// -----

//===----------------------------------------------------------------------===//
// invert_triangular
//===----------------------------------------------------------------------===//

attn_tile.kernel @not_square(%a: vector<64x32xf32>) {
  // expected-error @below {{'attn_tile.invert_triangular' op tile must be square, of a power of two of rows from 64 on (was 'vector<64x32xf32>')}}
  %0 = attn_tile.invert_triangular %a : vector<64x32xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @no_power(%a: vector<96x96xf32>) {
  // expected-error @below {{'attn_tile.invert_triangular' op tile must be square, of a power of two of rows from 64 on (was 'vector<96x96xf32>')}}
  %0 = attn_tile.invert_triangular %a : vector<96x96xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @few_rows(%a: vector<32x32xf32>) {
  // expected-error @below {{'attn_tile.invert_triangular' op tile must be square, of a power of two of rows from 64 on (was 'vector<32x32xf32>')}}
  %0 = attn_tile.invert_triangular %a : vector<32x32xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @inverse_shape(%a: vector<64x64xf32>) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x128xf32, stages = 1>
  // expected-error @below {{'attn_tile.invert_triangular' op pipe must have one stage that holds the tile, 'vector<64x64xf32>' (was '!attn_tile.pipe<64x128xf32, stages = 1>')}}
  %0 = attn_tile.invert_triangular %a in %p : vector<64x64xf32>, !attn_tile.pipe<64x128xf32, stages = 1>
  attn_tile.return
}

// -----

attn_tile.kernel @inverse_stages(%a: vector<64x64xf32>) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xf32, stages = 2>
  // expected-error @below {{'attn_tile.invert_triangular' op pipe must have one stage that holds the tile, 'vector<64x64xf32>' (was '!attn_tile.pipe<64x64xf32, stages = 2>')}}
  %0 = attn_tile.invert_triangular %a in %p : vector<64x64xf32>, !attn_tile.pipe<64x64xf32, stages = 2>
  attn_tile.return
}

// -----

attn_tile.kernel @inverse_type(%a: vector<64x64xf32>) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  // expected-error @below {{'attn_tile.invert_triangular' op pipe must have one stage that holds the tile, 'vector<64x64xf32>' (was '!attn_tile.pipe<64x64xbf16, stages = 1>')}}
  %0 = attn_tile.invert_triangular %a in %p : vector<64x64xf32>, !attn_tile.pipe<64x64xbf16, stages = 1>
  attn_tile.return
}

// -----

//===----------------------------------------------------------------------===//
// rescale, subtract_rows and partial_sum
//===----------------------------------------------------------------------===//

attn_tile.kernel @subtract_rows(%s: vector<16x8xf32>, %m: vector<8xf32>) {
  // expected-error @below {{'attn_tile.subtract_rows' op needs one subtrahend for each row (expected 16, found 8)}}
  %0 = attn_tile.subtract_rows %m from %s : vector<8xf32>, vector<16x8xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @subtract_rows_type(%s: vector<16x8xf16>, %m: vector<16xf32>) {
  // expected-error @below {{'attn_tile.subtract_rows' op operand #1 must be vector of 32-bit float values of ranks 2, but got 'vector<16x8xf16>'}}
  %0 = attn_tile.subtract_rows %m from %s : vector<16xf32>, vector<16x8xf16>
  attn_tile.return
}

// -----

attn_tile.kernel @rescale_rows(%acc: vector<16x8xf32>, %f: vector<8xf32>) {
  // expected-error @below {{'attn_tile.rescale' op needs one factor for each row (expected 16, found 8)}}
  %0 = attn_tile.rescale %acc by %f : vector<16x8xf32>, vector<8xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @rescale_source(%acc: vector<16xf32>, %f: vector<16xf32>) {
  // expected-error @below {{'attn_tile.rescale' op operand #0 must be vector of 32-bit float values of ranks 2, but got 'vector<16xf32>'}}
  %0 = attn_tile.rescale %acc by %f : vector<16xf32>, vector<16xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @rescale_factor(%acc: vector<16x8xf32>, %f: vector<16xf16>) {
  // expected-error @below {{'attn_tile.rescale' op operand #1 must be vector of 32-bit float values of ranks 1, but got 'vector<16xf16>'}}
  %0 = attn_tile.rescale %acc by %f : vector<16x8xf32>, vector<16xf16>
  attn_tile.return
}

// -----

attn_tile.kernel @partial_sum_rows(%s: vector<16x64xf32>, %acc: vector<32x8xf32>) {
  // expected-error @below {{'attn_tile.partial_sum' op source and accumulator must have the same rows (found 16 and 32)}}
  %0 = attn_tile.partial_sum %s into %acc : vector<16x64xf32> into vector<32x8xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @partial_sum_columns(%s: vector<16x60xf32>, %acc: vector<16x8xf32>) {
  // expected-error @below {{'attn_tile.partial_sum' op columns of the accumulator must divide those of the source (found 8 and 60)}}
  %0 = attn_tile.partial_sum %s into %acc : vector<16x60xf32> into vector<16x8xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @partial_sum_source(%s: vector<16x64xf16>, %acc: vector<16x8xf32>) {
  // expected-error @below {{'attn_tile.partial_sum' op operand #0 must be vector of 32-bit float values of ranks 2, but got 'vector<16x64xf16>'}}
  %0 = attn_tile.partial_sum %s into %acc : vector<16x64xf16> into vector<16x8xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @partial_sum_accumulator(%s: vector<16x64xf32>, %acc: vector<16xf32>) {
  // expected-error @below {{'attn_tile.partial_sum' op operand #1 must be vector of 32-bit float values of ranks 2, but got 'vector<16xf32>'}}
  %0 = attn_tile.partial_sum %s into %acc : vector<16x64xf32> into vector<16xf32>
  attn_tile.return
}

// -----

//===----------------------------------------------------------------------===//
// create_pipe, acquire and wait
//===----------------------------------------------------------------------===//

attn_tile.kernel @pipe_offset() {
  // expected-error @below {{attribute 'offset' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  %0 = attn_tile.create_pipe at(-1) : !attn_tile.pipe<64x64xbf16, stages = 2>
  attn_tile.return
}

// -----

attn_tile.kernel @pipe_barriers() {
  // expected-error @below {{attribute 'barriers' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  %0 = attn_tile.create_pipe barriers(-8) : !attn_tile.pipe<64x64xbf16, stages = 2>
  attn_tile.return
}

// -----

attn_tile.kernel @pipe_type() {
  // expected-error @below {{invalid kind of type specified}}
  %0 = attn_tile.create_pipe : !attn_tile.buffer<64x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @pipe_of_other_cluster() attributes {cluster = 4 : i64} {
  // expected-error @below {{'attn_tile.create_pipe' op pipe must be of one CTA or of the clusters of the kernel (expected 4, was 2)}}
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2, cluster = 2>
  attn_tile.return
}

// -----

attn_tile.kernel @pipe_without_cluster() {
  // expected-error @below {{'attn_tile.create_pipe' op pipe must be of one CTA or of the clusters of the kernel (expected 1, was 2)}}
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2, cluster = 2>
  attn_tile.return
}

// -----

attn_tile.kernel @acquired_type(%p: !attn_tile.pipe<64x64xbf16, stages = 2>, %t: index) {
  // expected-error @below {{'attn_tile.acquire' op failed to verify that buffer is one stage of the pipe}}
  %a = "attn_tile.acquire"(%p, %t) : (!attn_tile.pipe<64x64xbf16, stages = 2>, index) -> !attn_tile.buffer<64x32xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @awaited_type(%p: !attn_tile.pipe<64x64xbf16, stages = 2>, %t: index) {
  // expected-error @below {{'attn_tile.wait' op failed to verify that buffer is one stage of the pipe}}
  %a = "attn_tile.wait"(%p, %t) : (!attn_tile.pipe<64x64xbf16, stages = 2>, index) -> !attn_tile.buffer<64x64xf16>
  attn_tile.return
}

// -----

attn_tile.kernel @no_commit(%p: !attn_tile.pipe<64x64xbf16, stages = 2>, %t: index) {
  // expected-error @below {{'attn_tile.acquire' op buffer must have exactly one 'commit' (has none)}}
  %a = attn_tile.acquire %p[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
  attn_tile.return
}

// -----

// A buffer that is acquired is not released.
attn_tile.kernel @acquire_release(%p: !attn_tile.pipe<64x64xbf16, stages = 2>, %t: index) {
  // expected-error @below {{'attn_tile.acquire' op buffer must have exactly one 'commit' (has none)}}
  %a = attn_tile.acquire %p[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
  attn_tile.release %a : !attn_tile.buffer<64x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @two_commits(%p: !attn_tile.pipe<64x64xbf16, stages = 2>, %t: index) {
  // expected-error @below {{'attn_tile.acquire' op buffer must have exactly one 'commit' (has more)}}
  %a = attn_tile.acquire %p[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
  // expected-note @below {{see 'commit' here}}
  attn_tile.commit %a : !attn_tile.buffer<64x64xbf16>
  attn_tile.commit %a : !attn_tile.buffer<64x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @commit_in_region(%p: !attn_tile.pipe<64x64xbf16, stages = 2>, %t: index, %b: i1) {
  // expected-error @below {{'attn_tile.acquire' op buffer must have its 'commit' in the same block}}
  %a = attn_tile.acquire %p[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
  scf.if %b {
    // expected-note @below {{see 'commit' here}}
    attn_tile.commit %a : !attn_tile.buffer<64x64xbf16>
  }
  attn_tile.return
}

// -----

attn_tile.kernel @copy_after_commit(%p: !attn_tile.pipe<64x64xbf16, stages = 2>,
                                    %k: memref<?x64xbf16>, %t: index) {
  %a = attn_tile.acquire %p[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
  // expected-note @below {{see 'commit' here}}
  attn_tile.commit %a : !attn_tile.buffer<64x64xbf16>
  // expected-error @below {{'attn_tile.copy' op uses a buffer after its 'commit'}}
  attn_tile.copy %k[%t, %t] to %a : memref<?x64xbf16> to !attn_tile.buffer<64x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @read_other_tile(%p: !attn_tile.pipe<1x64xf32, stages = 2>, %t: index) {
  %a = attn_tile.wait %p[%t] : !attn_tile.pipe<1x64xf32, stages = 2>
  // expected-error @below {{'attn_tile.read' op tile must be what the buffer holds (expected 'vector<1x64xf32>', found 'vector<1x32xf32>')}}
  %r = attn_tile.read %a : !attn_tile.buffer<1x64xf32> -> vector<1x32xf32>
  attn_tile.release %a : !attn_tile.buffer<1x64xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @no_release(%p: !attn_tile.pipe<64x64xbf16, stages = 2>, %t: index) {
  // expected-error @below {{'attn_tile.wait' op buffer must have exactly one 'release' (has none)}}
  %a = attn_tile.wait %p[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
  attn_tile.return
}

// -----

attn_tile.kernel @two_releases(%p: !attn_tile.pipe<64x64xbf16, stages = 2>, %t: index) {
  // expected-error @below {{'attn_tile.wait' op buffer must have exactly one 'release' (has more)}}
  %a = attn_tile.wait %p[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
  // expected-note @below {{see 'release' here}}
  attn_tile.release %a : !attn_tile.buffer<64x64xbf16>
  attn_tile.release %a : !attn_tile.buffer<64x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @release_in_other_block(%p: !attn_tile.pipe<64x64xbf16, stages = 2>, %t: index) {
  // expected-error @below {{'attn_tile.wait' op buffer must have its 'release' in the same block}}
  %a = attn_tile.wait %p[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
  cf.br ^next
^next:
  // expected-note @below {{see 'release' here}}
  attn_tile.release %a : !attn_tile.buffer<64x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @use_after_release(%p: !attn_tile.pipe<64x64xbf16, stages = 2>,
                                    %q: vector<16x64xbf16>, %t: index) {
  %a = attn_tile.wait %p[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
  // expected-note @below {{see 'release' here}}
  attn_tile.release %a : !attn_tile.buffer<64x64xbf16>
  // expected-error @below {{'attn_tile.mma_start' op uses a buffer after its 'release'}}
  %s = attn_tile.mma_start %q, %a : vector<16x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<16x64xf32>>
  attn_tile.return
}

// -----

// The check looks into roles and loops, and at uses in regions.
attn_tile.kernel @nested_use_after_release(%p: !attn_tile.pipe<64x64xbf16, stages = 2>,
                                           %q: vector<64x64xbf16>, %t: index, %b: i1) {
  attn_tile.role consumer warpgroups(1) registers(240) {
    scf.if %b {
      %a = attn_tile.wait %p[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
      // expected-note @below {{see 'release' here}}
      attn_tile.release %a : !attn_tile.buffer<64x64xbf16>
      scf.if %b {
        // expected-error @below {{'attn_tile.mma_start' op uses a buffer after its 'release'}}
        %s = attn_tile.mma_start %q, %a : vector<64x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<64x64xf32>>
      }
    }
  }
  attn_tile.return
}

// -----

attn_tile.kernel @use_in_next_block(%p: !attn_tile.pipe<64x64xbf16, stages = 2>,
                                    %q: vector<16x64xbf16>, %t: index) {
  %a = attn_tile.wait %p[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
  // expected-note @below {{see 'release' here}}
  attn_tile.release %a : !attn_tile.buffer<64x64xbf16>
  cf.br ^next
^next:
  // expected-error @below {{'attn_tile.mma_start' op uses a buffer after its 'release'}}
  %s = attn_tile.mma_start %q, %a : vector<16x64xbf16>, !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<16x64xf32>>
  attn_tile.return
}

// -----

//===----------------------------------------------------------------------===//
// copy and make_tensor_map
//===----------------------------------------------------------------------===//

attn_tile.kernel @copy_indices(%k: memref<?x8x?x64xbf16>, %a: !attn_tile.buffer<64x64xbf16>, %t: index) {
  // expected-error @below {{'attn_tile.copy' op needs one index per dimension of the source (expected 4, found 2)}}
  attn_tile.copy %k[%t, %t] to %a : memref<?x8x?x64xbf16> to !attn_tile.buffer<64x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @copy_indices_of_map(%k: !attn_tile.tensor_map<4, 64x64xbf16>, %a: !attn_tile.buffer<64x64xbf16>, %t: index) {
  // expected-error @below {{'attn_tile.copy' op needs one index per dimension of the source (expected 4, found 3)}}
  attn_tile.copy %k[%t, %t, %t] to %a : !attn_tile.tensor_map<4, 64x64xbf16> to !attn_tile.buffer<64x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @copy_rank(%k: memref<?xbf16>, %a: !attn_tile.buffer<64x64xbf16>, %t: index) {
  // expected-error @below {{'attn_tile.copy' op source must have at least two dimensions (has 1)}}
  attn_tile.copy %k[%t] to %a : memref<?xbf16> to !attn_tile.buffer<64x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @copy_element_type(%k: memref<?x64xf16>, %a: !attn_tile.buffer<64x64xbf16>, %t: index) {
  // expected-error @below {{'attn_tile.copy' op source and buffer must have the same element type (found 'f16' and 'bf16')}}
  attn_tile.copy %k[%t, %t] to %a : memref<?x64xf16> to !attn_tile.buffer<64x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @copy_element_type_of_map(%k: !attn_tile.tensor_map<2, 64x64xf32>, %a: !attn_tile.buffer<64x64xbf16>, %t: index) {
  // expected-error @below {{'attn_tile.copy' op source and buffer must have the same element type (found 'f32' and 'bf16')}}
  attn_tile.copy %k[%t, %t] to %a : !attn_tile.tensor_map<2, 64x64xf32> to !attn_tile.buffer<64x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @copy_source(%k: vector<64x64xbf16>, %a: !attn_tile.buffer<64x64xbf16>) {
  // expected-error @below {{operand #0 must be memref of any type values or a descriptor of a strided array for bulk copies, but got 'vector<64x64xbf16>'}}
  attn_tile.copy %k[] to %a : vector<64x64xbf16> to !attn_tile.buffer<64x64xbf16>
  attn_tile.return
}

// -----

func.func @map_rank(%k: memref<?x64xbf16>) {
  // expected-error @below {{'attn_tile.make_tensor_map' op memref and tensor map must have the same rank (found 2 and 4)}}
  %0 = attn_tile.make_tensor_map %k : memref<?x64xbf16> -> !attn_tile.tensor_map<4, 64x64xbf16>
  return
}

// -----

func.func @map_element_type(%k: memref<?x64xbf16>) {
  // expected-error @below {{'attn_tile.make_tensor_map' op memref and tensor map must have the same element type (found 'bf16' and 'f16')}}
  %0 = attn_tile.make_tensor_map %k : memref<?x64xbf16> -> !attn_tile.tensor_map<2, 64x64xf16>
  return
}

// -----

//===----------------------------------------------------------------------===//
// mma_start and mma_wait
//===----------------------------------------------------------------------===//

attn_tile.kernel @lhs_rank(%p: vector<64xbf16>, %v: !attn_tile.buffer<64x32xbf16>) {
  // expected-error @below {{'attn_tile.mma_start' op lhs must have two dimensions (has 1)}}
  %0 = attn_tile.mma_start %p, %v : vector<64xbf16>, !attn_tile.buffer<64x32xbf16> -> !attn_tile.pending<vector<16x32xf32>>
  attn_tile.return
}

// -----

attn_tile.kernel @lhs_element_type(%p: vector<16x64xf16>, %v: !attn_tile.buffer<64x32xbf16>) {
  // expected-error @below {{'attn_tile.mma_start' op lhs and rhs must have the same element type, or 8 bits (found 'f16' and 'bf16')}}
  %0 = attn_tile.mma_start %p, %v : vector<16x64xf16>, !attn_tile.buffer<64x32xbf16> -> !attn_tile.pending<vector<16x32xf32>>
  attn_tile.return
}

// -----

attn_tile.kernel @lhs_of_8_bits(%p: vector<16x64xf8E4M3FN>, %v: !attn_tile.buffer<64x32xbf16>) {
  // expected-error @below {{'attn_tile.mma_start' op lhs and rhs must have the same element type, or 8 bits (found 'f8E4M3FN' and 'bf16')}}
  %0 = attn_tile.mma_start %p, %v : vector<16x64xf8E4M3FN>, !attn_tile.buffer<64x32xbf16> -> !attn_tile.pending<vector<16x32xf32>>
  attn_tile.return
}

// -----

attn_tile.kernel @staged_lhs_element_type(%p: !attn_tile.buffer<16x64xf16>, %v: !attn_tile.buffer<64x32xbf16>) {
  // expected-error @below {{'attn_tile.mma_start' op lhs and rhs must have the same element type, or 8 bits (found 'f16' and 'bf16')}}
  %0 = attn_tile.mma_start %p, %v : !attn_tile.buffer<16x64xf16>, !attn_tile.buffer<64x32xbf16> -> !attn_tile.pending<vector<16x32xf32>>
  attn_tile.return
}

// -----

attn_tile.kernel @contracted(%p: vector<16x32xbf16>, %v: !attn_tile.buffer<64x32xbf16>) {
  // expected-error @below {{'attn_tile.mma_start' op lhs and rhs must agree in the contracted dimension (found 32 and 64)}}
  %0 = attn_tile.mma_start %p, %v : vector<16x32xbf16>, !attn_tile.buffer<64x32xbf16> -> !attn_tile.pending<vector<16x32xf32>>
  attn_tile.return
}

// -----

attn_tile.kernel @contracted_transposed(%p: vector<16x64xbf16>, %v: !attn_tile.buffer<64x32xbf16>) {
  // expected-error @below {{'attn_tile.mma_start' op lhs and rhs must agree in the contracted dimension (found 64 and 32)}}
  %0 = attn_tile.mma_start %p, %v transpose_rhs : vector<16x64xbf16>, !attn_tile.buffer<64x32xbf16> -> !attn_tile.pending<vector<16x32xf32>>
  attn_tile.return
}

// -----

attn_tile.kernel @mma_shape(%p: vector<16x64xbf16>, %v: !attn_tile.buffer<64x32xbf16>) {
  // expected-error @below {{'attn_tile.mma_start' op result must be 'vector<16x32xf32>' (was 'vector<16x64xf32>')}}
  %0 = attn_tile.mma_start %p, %v : vector<16x64xbf16>, !attn_tile.buffer<64x32xbf16> -> !attn_tile.pending<vector<16x64xf32>>
  attn_tile.return
}

// -----

attn_tile.kernel @mma_element_type(%p: vector<16x64xbf16>, %v: !attn_tile.buffer<64x32xbf16>) {
  // expected-error @below {{'attn_tile.mma_start' op result must be 'vector<16x32xf32>' (was 'vector<16x32xbf16>')}}
  %0 = attn_tile.mma_start %p, %v : vector<16x64xbf16>, !attn_tile.buffer<64x32xbf16> -> !attn_tile.pending<vector<16x32xbf16>>
  attn_tile.return
}

// -----

// expected-note @below {{prior use here}}
attn_tile.kernel @accumulator(%p: vector<16x64xbf16>, %v: !attn_tile.buffer<64x32xbf16>, %acc: vector<16x64xf32>) {
  // expected-error @below {{use of value '%acc' expects different type than prior uses: 'vector<16x32xf32>' vs 'vector<16x64xf32>'}}
  %0 = attn_tile.mma_start %p, %v acc %acc : vector<16x64xbf16>, !attn_tile.buffer<64x32xbf16> -> !attn_tile.pending<vector<16x32xf32>>
  attn_tile.return
}

// -----

attn_tile.kernel @accumulator_generic(%p: vector<16x64xbf16>, %v: !attn_tile.buffer<64x32xbf16>, %acc: vector<16x64xf32>) {
  // expected-error @below {{'attn_tile.mma_start' op accumulator must be 'vector<16x32xf32>' (was 'vector<16x64xf32>')}}
  %0 = "attn_tile.mma_start"(%p, %v, %acc) : (vector<16x64xbf16>, !attn_tile.buffer<64x32xbf16>, vector<16x64xf32>) -> !attn_tile.pending<vector<16x32xf32>>
  attn_tile.return
}

// -----

attn_tile.kernel @accumulator_element_type(%p: vector<16x64xbf16>, %v: !attn_tile.buffer<64x32xbf16>, %acc: vector<16x32xf16>) {
  // expected-error @below {{operand #2 must be vector of 32-bit float values of ranks 2 or the result of an MMA in flight, but got 'vector<16x32xf16>'}}
  %0 = "attn_tile.mma_start"(%p, %v, %acc) : (vector<16x64xbf16>, !attn_tile.buffer<64x32xbf16>, vector<16x32xf16>) -> !attn_tile.pending<vector<16x32xf32>>
  attn_tile.return
}

// -----

attn_tile.kernel @rhs_in_registers(%p: vector<16x64xbf16>, %v: vector<64x32xbf16>) {
  // expected-error @below {{'attn_tile.mma_start' op operand #1 must be a tile staged in shared memory, but got 'vector<64x32xbf16>'}}
  %0 = "attn_tile.mma_start"(%p, %v) : (vector<16x64xbf16>, vector<64x32xbf16>) -> !attn_tile.pending<vector<16x32xf32>>
  attn_tile.return
}

// -----

attn_tile.kernel @wait_result(%s: !attn_tile.pending<vector<16x32xf32>>) {
  // expected-error @below {{'attn_tile.mma_wait' op failed to verify that result is the pending value}}
  %0 = "attn_tile.mma_wait"(%s) : (!attn_tile.pending<vector<16x32xf32>>) -> vector<16x64xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @wait_of_value(%s: vector<16x32xf32>) {
  // expected-error @below {{'attn_tile.mma_wait' op operand #0 must be the result of an MMA in flight, but got 'vector<16x32xf32>'}}
  %0 = "attn_tile.mma_wait"(%s) : (vector<16x32xf32>) -> vector<16x32xf32>
  attn_tile.return
}

// -----

//===----------------------------------------------------------------------===//
// beside
//===----------------------------------------------------------------------===//

attn_tile.kernel @auxiliary_with_tiles(%k: memref<?x16xf16>) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'attn_tile.auxiliary_warps' op must compute with scalars alone}}
  attn_tile.auxiliary_warps {
    // expected-note @below {{'attn_tile.load' does not}}
    %t = attn_tile.load %k[%c0, %c0] : memref<?x16xf16> -> vector<16x16xf16>
  }
  attn_tile.return
}

// -----

attn_tile.kernel @auxiliary_in_three_dimensions() {
  attn_tile.auxiliary_warps {
    // expected-error @below {{'attn_tile.num_programs' op in 'attn_tile.auxiliary_warps' must be of dimension 0, the only one that auxiliary warps have}}
    %n = attn_tile.num_programs 1
  }
  attn_tile.return
}

// -----

attn_tile.kernel @auxiliary_twice() {
  // expected-note @below {{see the first one here}}
  attn_tile.auxiliary_warps {
  }
  // expected-error @below {{'attn_tile.auxiliary_warps' op is a second one without 'warps' in the kernel}}
  attn_tile.auxiliary_warps {
  }
  attn_tile.return
}

// -----

attn_tile.kernel @auxiliary_joined_by_some() {
  // expected-error @below {{'attn_tile.auxiliary_warps' op that is 'joined' cannot have 'warps': it has all that others leave, and those of the consumers}}
  "attn_tile.auxiliary_warps"() <{joined, registers = 64 : i64, warps = 1 : i64}> ({
  ^bb0:
  }) : () -> ()
  attn_tile.return
}

// -----

attn_tile.kernel @count_after_tiles(%c: memref<?xi32>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xf32, stages = 2>
  // expected-error @below {{'attn_tile.semaphore_add' op pipe must have one stage of f32 values (was '!attn_tile.pipe<64x16xf32, stages = 2>')}}
  attn_tile.semaphore_add %c[%i] of additions after(%p[%i]) : memref<?xi32>, !attn_tile.pipe<64x16xf32, stages = 2>
  attn_tile.return
}

// -----

attn_tile.kernel @count_after_all(%c: memref<?xi32>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xf32, stages = 1>
  // expected-error @below {{'attn_tile.semaphore_add' op 'after' a pipe must be 'of additions'}}
  attn_tile.semaphore_add %c[%i] after(%p[%i]) : memref<?xi32>, !attn_tile.pipe<64x16xf32, stages = 1>
  attn_tile.return
}

// -----

attn_tile.kernel @count_without_position(%c: memref<?xi32>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xf32, stages = 1>
  // expected-error @below {{'attn_tile.semaphore_add' op needs 'pipe' and 'position' together}}
  "attn_tile.semaphore_add"(%c, %i, %p) <{additions, operandSegmentSizes = array<i32: 1, 1, 1, 0>}>
      : (memref<?xi32>, index, !attn_tile.pipe<64x16xf32, stages = 1>) -> ()
  attn_tile.return
}

// -----

attn_tile.kernel @complete_halves() {
  attn_tile.role consumer warpgroups(1) registers(24) {
    %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xf16, stages = 1>
    // expected-error @below {{'attn_tile.semaphore_release' op pipe must have one stage of f32 values (was '!attn_tile.pipe<64x16xf16, stages = 1>')}}
    attn_tile.semaphore_release %p : !attn_tile.pipe<64x16xf16, stages = 1>
  }
  attn_tile.return
}

// -----

attn_tile.kernel @complete_of_the_producer() {
  attn_tile.role producer warpgroups(1) registers(24) {
    %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xf32, stages = 1>
    // expected-error @below {{'attn_tile.semaphore_release' op must be inside of the role of consumers}}
    attn_tile.semaphore_release %p : !attn_tile.pipe<64x16xf32, stages = 1>
  }
  attn_tile.return
}

// -----

attn_tile.kernel @number_of_a_warp() {
  attn_tile.auxiliary_warps {
    // expected-error @below {{'attn_tile.fetch_work_item' op must be inside of 'attn_tile.auxiliary_warps' that is 'joined'}}
    %n = attn_tile.fetch_work_item
  }
  attn_tile.return
}

// -----

attn_tile.kernel @number_of_a_role() {
  attn_tile.role consumer warpgroups(1) registers(24) {
    // expected-error @below {{'attn_tile.fetch_work_item' op must be inside of 'attn_tile.auxiliary_warps' that is 'joined'}}
    %n = attn_tile.fetch_work_item
  }
  attn_tile.return
}

// -----

attn_tile.kernel @part_of_warps(%n: index) {
  attn_tile.auxiliary_warps {
    // expected-error @below {{'attn_tile.is_active_warp' op must be inside of 'attn_tile.auxiliary_warps' that is 'joined'}}
    %b = attn_tile.is_active_warp %n
  }
  attn_tile.return
}

// -----

attn_tile.kernel @throughput_hint_of_warps(%n: index) {
  attn_tile.auxiliary_warps {
    // expected-error @below {{'attn_tile.throughput_hint' op needs 'attn_tile.auxiliary_warps' to be 'joined'}}
    attn_tile.throughput_hint %n of %n
  }
  attn_tile.return
}

// -----

attn_tile.kernel @throughput_hint_twice(%n: index) {
  attn_tile.auxiliary_warps joined {
    attn_tile.throughput_hint %n of %n
    // expected-error @below {{'attn_tile.throughput_hint' op is a second one in 'attn_tile.auxiliary_warps'}}
    attn_tile.throughput_hint %n of %n
  }
  attn_tile.return
}

// -----

attn_tile.kernel @none_together(%n: index) {
  // expected-error @below {{attribute 'together' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  attn_tile.thread_for to(%n) together(0) {
  ^bb0(%i: index):
    attn_tile.yield
  }
  attn_tile.return
}

// -----

attn_tile.kernel @auxiliary_in_role() {
  attn_tile.role producer warpgroups(1) registers(24) {
    // expected-error @below {{'attn_tile.auxiliary_warps' op expects parent op 'attn_tile.kernel'}}
    attn_tile.auxiliary_warps {
    }
  }
  attn_tile.return
}

// -----

//===----------------------------------------------------------------------===//
// role, pingpong_wait and pingpong_arrive
//===----------------------------------------------------------------------===//

attn_tile.kernel @no_warpgroups() {
  // expected-error @below {{attribute 'warpgroups' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  attn_tile.role consumer warpgroups(0) registers(240) {
  }
  attn_tile.return
}

// -----

attn_tile.kernel @no_registers() {
  // expected-error @below {{'attn_tile.role' op attribute 'registers' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  attn_tile.role consumer warpgroups(1) registers(0) {
  }
  attn_tile.return
}

// -----

attn_tile.kernel @few_registers() {
  // expected-error @below {{'attn_tile.role' op 'registers' must be a multiple of 8 in [24, 256] (was 16)}}
  attn_tile.role consumer warpgroups(1) registers(16) {
  }
  attn_tile.return
}

// -----

attn_tile.kernel @many_registers() {
  // expected-error @below {{'attn_tile.role' op 'registers' must be a multiple of 8 in [24, 256] (was 264)}}
  attn_tile.role consumer warpgroups(1) registers(264) {
  }
  attn_tile.return
}

// -----

attn_tile.kernel @odd_registers() {
  // expected-error @below {{'attn_tile.role' op 'registers' must be a multiple of 8 in [24, 256] (was 100)}}
  attn_tile.role consumer warpgroups(1) registers(100) {
  }
  attn_tile.return
}

// -----

attn_tile.kernel @role_arguments() {
  // expected-error @below {{'attn_tile.role' op body must have no arguments (has 1)}}
  attn_tile.role consumer warpgroups(1) registers(240) {
  ^bb0(%x: index):
  }
  attn_tile.return
}

// -----

attn_tile.kernel @role_kind() {
  // expected-error @below {{expected ::mlir::attn_tile::RoleKind to be one of: producer, consumer}}
  // expected-error @below {{failed to parse AttnTile_RoleKindAttr parameter 'value' which is to be a `::mlir::attn_tile::RoleKind`}}
  attn_tile.role observer warpgroups(1) registers(240) {
  }
  attn_tile.return
}

// -----

func.func @role_of_function() {
  // expected-error @below {{'attn_tile.role' op expects parent op 'attn_tile.kernel'}}
  attn_tile.role consumer warpgroups(1) registers(240) {
  }
  return
}

// -----

attn_tile.kernel @await_order_outside() {
  // expected-error @below {{'attn_tile.pingpong_wait' op must be inside of a role}}
  attn_tile.pingpong_wait
  attn_tile.return
}

// -----

attn_tile.kernel @pass_order_outside(%b: i1) {
  scf.if %b {
    // expected-error @below {{'attn_tile.pingpong_arrive' op must be inside of a role}}
    attn_tile.pingpong_arrive
  }
  attn_tile.return
}

// -----

func.func @load_within_half(%m: memref<?xf32>, %i: index) {
  // expected-error @below {{'attn_tile.load' op needs both first row and extent of a sequence}}
  %0 = "attn_tile.load"(%m, %i, %i) <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0>}> : (memref<?xf32>, index, index) -> vector<4xf32>
  return
}

// -----

func.func @store_within_half(%m: memref<?xf32>, %i: index, %v: vector<4xf32>) {
  // expected-error @below {{'attn_tile.store' op needs both first row and extent of a sequence}}
  "attn_tile.store"(%v, %m, %i, %i) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>}> : (vector<4xf32>, memref<?xf32>, index, index) -> ()
  return
}

// -----

func.func @reduce_yield(%n: index) {
  // expected-error @below {{'attn_tile.reduce' op region must yield 'index', 'index' (yields 'index')}}
  %0:2 = attn_tile.reduce to(%n) by [#vector.kind<add>, #vector.kind<maxsi>] : index, index {
  ^bb0(%i: index):
    attn_tile.yield %i : index
  }
  return
}

// -----

func.func @reduce_arguments(%n: index) {
  // expected-error @below {{'attn_tile.reduce' op region must have arguments ('index'), found ('index', 'index')}}
  %0 = attn_tile.reduce to(%n) by [#vector.kind<add>] : index {
  ^bb0(%i: index, %j: index):
    attn_tile.yield %i : index
  }
  return
}

// -----

func.func @reduce_kinds(%n: index) {
  // expected-error @below {{'attn_tile.reduce' op needs one kind for each result (expected 1, found 2)}}
  %0 = attn_tile.reduce to(%n) by [#vector.kind<add>, #vector.kind<add>] : index {
  ^bb0(%i: index):
    attn_tile.yield %i : index
  }
  return
}

// -----

func.func @reduce_kind_of_float(%n: index, %x: f32) {
  // expected-error @below {{'attn_tile.reduce' op kind of an f32 must be 'add' or 'maxnumf' (found 'maxsi')}}
  %0 = attn_tile.reduce to(%n) by [#vector.kind<maxsi>] : f32 {
  ^bb0(%i: index):
    attn_tile.yield %x : f32
  }
  return
}

// -----

attn_tile.kernel @scatter_add_indices(%t: vector<64x32xf32>, %d: memref<4x?xf32>, %n: index) {
  // expected-error @below {{'attn_tile.scatter_add' op region must yield 'index', 'index' (yields 'index')}}
  attn_tile.scatter_add %t into %d at(%n, %n, %n, %n) lengths(%n, %n) : vector<64x32xf32> into memref<4x?xf32> {
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    attn_tile.yield %h : index
  }
  attn_tile.return
}

// -----

attn_tile.kernel @scatter_add_arguments(%t: vector<64x32xf32>, %d: memref<4xf32>, %n: index) {
  // expected-error @below {{'attn_tile.scatter_add' op region must have arguments ('index', 'index', 'index', 'index'), found ('index')}}
  attn_tile.scatter_add %t into %d at(%n, %n, %n, %n) lengths(%n, %n) : vector<64x32xf32> into memref<4xf32> {
  ^bb0(%h: index):
    attn_tile.yield %h : index
  }
  attn_tile.return
}

// -----

func.func @reduce_kind(%n: index) {
  // expected-error @below {{'attn_tile.reduce' op kind of an index must be 'add', 'minsi' or 'maxsi' (found 'mul')}}
  %0 = attn_tile.reduce to(%n) by [#vector.kind<mul>] : index {
  ^bb0(%i: index):
    attn_tile.yield %i : index
  }
  return
}

// -----

func.func @compact_condition(%n: index) {
  // expected-error @below {{'attn_tile.warp_compact' op region must yield 'i1' (yields 'index')}}
  %0 = attn_tile.warp_compact to(%n) where {
  ^bb0(%i: index):
    attn_tile.yield %i : index
  } do {
  ^bb0(%i: index, %rank: index):
    attn_tile.yield
  }
  return
}

// -----

func.func @compact_body(%n: index, %c: i1) {
  // expected-error @below {{'attn_tile.warp_compact' op region must have arguments ('index', 'index'), found ('index')}}
  %0 = attn_tile.warp_compact to(%n) where {
  ^bb0(%i: index):
    attn_tile.yield %c : i1
  } do {
  ^bb0(%i: index):
    attn_tile.yield
  }
  return
}

// -----

func.func @each_yield(%n: index) {
  // expected-error @below {{'attn_tile.thread_for' op region must yield  (yields 'index')}}
  attn_tile.thread_for to(%n) {
  ^bb0(%i: index):
    attn_tile.yield %i : index
  }
  return
}

// -----

attn_tile.kernel @map_no_source(%c: index) {
  // expected-error @below {{'attn_tile.map' op needs at least one source}}
  %0 = "attn_tile.map"(%c, %c, %c, %c, %c, %c) <{operandSegmentSizes = array<i32: 0, 1, 1, 1, 1, 1, 1, 0>}> ({
  ^bb0(%b: index, %h: index, %i: index, %j: index):
    %x = arith.constant 0.0 : f32
    attn_tile.yield %x : f32
  }) : (index, index, index, index, index, index) -> vector<16x8xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @map_two_arguments(%s: vector<16x8xf32>, %c: index) {
  // expected-error @below {{region must have arguments ('f32', 'f32', 'index', 'index', 'index', 'index'), found ('f32', 'index', 'index', 'index', 'index')}}
  %0 = attn_tile.map %s, %s at(%c, %c, %c, %c) lengths(%c, %c) : vector<16x8xf32> {
  ^bb0(%x: f32, %b: index, %h: index, %i: index, %j: index):
    attn_tile.yield %x : f32
  }
  attn_tile.return
}

// -----

attn_tile.kernel @store_transposed(%v: vector<8xf32>, %m: memref<?x?xf32>, %i: index) {
  // expected-error @below {{'attn_tile.store' op tile must have two dimensions to be transposed (has 1)}}
  attn_tile.store %v, %m[%i, %i] transposed : vector<8xf32>, memref<?x?xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @packed_indices(%v: vector<8x8xf32>, %m: memref<?x8xf32>, %i: index) {
  // expected-error @below {{'attn_tile.bulk_reduce_add' op needs one index per dimension of the memref (expected 2, found 1)}}
  attn_tile.bulk_reduce_add %v to %m[%i] : vector<8x8xf32> to memref<?x8xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @semaphore_indices(%v: vector<8x8xf32>, %m: memref<?x8xf32>, %c: memref<?x?xi32>, %i: index) {
  // expected-error @below {{'attn_tile.bulk_reduce_add' op semaphores have 2 dimensions, but 1 indices}}
  attn_tile.bulk_reduce_add %v to %m[%i, %i] ordered(%i of %c[%i]) : vector<8x8xf32> to memref<?x8xf32>, memref<?x?xi32>
  attn_tile.return
}

// -----

attn_tile.kernel @semaphores_alone(%v: vector<8x8xf32>, %m: memref<?x8xf32>, %c: memref<?xi32>, %i: index) {
  // expected-error @below {{'attn_tile.bulk_reduce_add' op needs 'ordinal' and 'semaphores' together}}
  "attn_tile.bulk_reduce_add"(%v, %m, %i, %i, %c, %i) <{operandSegmentSizes = array<i32: 1, 1, 2, 0, 1, 1>}>
      : (vector<8x8xf32>, memref<?x8xf32>, index, index, memref<?xi32>, index) -> ()
  attn_tile.return
}

// -----

attn_tile.kernel @order_alone(%v: vector<8x8xf32>, %m: memref<?x8xf32>, %i: index) {
  // expected-error @below {{'attn_tile.bulk_reduce_add' op needs 'ordinal' and 'semaphores' together}}
  "attn_tile.bulk_reduce_add"(%v, %m, %i, %i, %i) <{operandSegmentSizes = array<i32: 1, 1, 2, 1, 0, 0>}>
      : (vector<8x8xf32>, memref<?x8xf32>, index, index, index) -> ()
  attn_tile.return
}

// -----

attn_tile.kernel @order_indices_alone(%v: vector<8x8xf32>, %m: memref<?x8xf32>, %i: index) {
  // expected-error @below {{'attn_tile.bulk_reduce_add' op has 'semaphore_indices', but no 'semaphores'}}
  "attn_tile.bulk_reduce_add"(%v, %m, %i, %i, %i) <{operandSegmentSizes = array<i32: 1, 1, 2, 0, 0, 1>}>
      : (vector<8x8xf32>, memref<?x8xf32>, index, index, index) -> ()
  attn_tile.return
}

// -----

attn_tile.kernel @ordered_indices(%m: memref<?x8xf32>, %c: memref<?x?xi32>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<8x8xf32, stages = 1>
  attn_tile.auxiliary_warps {
    // expected-error @below {{'attn_tile.ordered_reduce_add' op semaphores have 2 dimensions, but 1 indices}}
    attn_tile.ordered_reduce_add %p[%i] to %m[%i, %i] ordered(%i of %c[%i]) : !attn_tile.pipe<8x8xf32, stages = 1> to memref<?x8xf32>, memref<?x?xi32>
  }
  attn_tile.return
}

// -----

attn_tile.kernel @ordered_outside(%m: memref<?x8xf32>, %c: memref<?xi32>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<8x8xf32, stages = 1>
  // expected-error @below {{'attn_tile.ordered_reduce_add' op must be inside of 'attn_tile.auxiliary_warps'}}
  attn_tile.ordered_reduce_add %p[%i] to %m[%i, %i] ordered(%i of %c[%i]) : !attn_tile.pipe<8x8xf32, stages = 1> to memref<?x8xf32>, memref<?xi32>
  attn_tile.return
}

// -----

attn_tile.kernel @ordered_packed(%m: memref<?x8xf32>, %c: memref<?xi32>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<8x8xf32, stages = 1>
  attn_tile.auxiliary_warps {
    // expected-error @below {{'attn_tile.ordered_reduce_add' op needs one index per dimension of the memref (expected 2, found 1)}}
    attn_tile.ordered_reduce_add %p[%i] to %m[%i] ordered(%i of %c[%i]) : !attn_tile.pipe<8x8xf32, stages = 1> to memref<?x8xf32>, memref<?xi32>
  }
  attn_tile.return
}

// -----

attn_tile.kernel @ordered_stages(%m: memref<?x8xf32>, %c: memref<?xi32>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<8x8xf32, stages = 2>
  attn_tile.auxiliary_warps {
    // expected-error @below {{'attn_tile.ordered_reduce_add' op pipe must have one stage of f32 values (was '!attn_tile.pipe<8x8xf32, stages = 2>')}}
    attn_tile.ordered_reduce_add %p[%i] to %m[%i, %i] ordered(%i of %c[%i]) : !attn_tile.pipe<8x8xf32, stages = 2> to memref<?x8xf32>, memref<?xi32>
  }
  attn_tile.return
}

// -----

attn_tile.kernel @ordered_type(%m: memref<?x8xf32>, %c: memref<?xi32>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<8x8xbf16, stages = 1>
  attn_tile.auxiliary_warps {
    // expected-error @below {{'attn_tile.ordered_reduce_add' op pipe must have one stage of f32 values (was '!attn_tile.pipe<8x8xbf16, stages = 1>')}}
    attn_tile.ordered_reduce_add %p[%i] to %m[%i, %i] ordered(%i of %c[%i]) : !attn_tile.pipe<8x8xbf16, stages = 1> to memref<?x8xf32>, memref<?xi32>
  }
  attn_tile.return
}

// -----

attn_tile.kernel @publish_buffer(%b: !attn_tile.buffer<8x8xf32>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<8x8xf32, stages = 1>
  // expected-error @below {{buffer must be what 'attn_tile.stage_fragments' has put, in the same block, at the same position of the pipe}}
  attn_tile.commit_fragments %b in %p[%i] : !attn_tile.pipe<8x8xf32, stages = 1>
  attn_tile.return
}

// -----

attn_tile.kernel @publish_pipe(%v: vector<8x8xf32>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<8x8xf32, stages = 1>
  %q = attn_tile.create_pipe : !attn_tile.pipe<8x8xf32, stages = 1>
  %b = attn_tile.stage_fragments %v in %p[%i] : vector<8x8xf32>, !attn_tile.pipe<8x8xf32, stages = 1>
  // expected-error @below {{buffer must be what 'attn_tile.stage_fragments' has put, in the same block, at the same position of the pipe}}
  attn_tile.commit_fragments %b in %q[%i] : !attn_tile.pipe<8x8xf32, stages = 1>
  attn_tile.return
}

// -----

attn_tile.kernel @publish_block(%v: vector<8x8xf32>, %i: index, %c: i1) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<8x8xf32, stages = 1>
  %b = attn_tile.stage_fragments %v in %p[%i] : vector<8x8xf32>, !attn_tile.pipe<8x8xf32, stages = 1>
  scf.if %c {
    // expected-error @below {{buffer must be what 'attn_tile.stage_fragments' has put, in the same block, at the same position of the pipe}}
    attn_tile.commit_fragments %b in %p[%i] : !attn_tile.pipe<8x8xf32, stages = 1>
  }
  attn_tile.return
}

// -----

attn_tile.kernel @publish_position(%v: vector<8x8xf32>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<8x8xf32, stages = 1>
  %b = attn_tile.stage_fragments %v in %p : vector<8x8xf32>, !attn_tile.pipe<8x8xf32, stages = 1>
  // expected-error @below {{buffer must be what 'attn_tile.stage_fragments' has put, in the same block, at the same position of the pipe}}
  attn_tile.commit_fragments %b in %p[%i] : !attn_tile.pipe<8x8xf32, stages = 1>
  attn_tile.return
}

// -----

attn_tile.kernel @packed_strided(%v: vector<8x8xf32>, %m: memref<?x8xf32, strided<[?, 1]>>, %i: index) {
  // expected-error @below {{'attn_tile.bulk_reduce_add' op memref must hold contiguous f32 values (was 'memref<?x8xf32, strided<[?, 1]>>')}}
  attn_tile.bulk_reduce_add %v to %m[%i, %i] : vector<8x8xf32> to memref<?x8xf32, strided<[?, 1]>>
  attn_tile.return
}

// -----

attn_tile.kernel @rounded_indices(%m: memref<?x64xf32>, %d: memref<?x64xbf16>, %i: index) {
  // expected-error @below {{'attn_tile.convert_dq' op needs one index per dimension of the memref (expected 2, found 1)}}
  attn_tile.convert_dq %m[%i] to %d[%i, %i] part(%i of 1) times 1.0
      : vector<64x16xf32> in memref<?x64xf32> to memref<?x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @rounded_rows(%m: memref<?x48xf32>, %d: memref<?x64xbf16>, %i: index) {
  // expected-error @below {{'attn_tile.convert_dq' op tile must take whole rows of the memref (has 1024 elements, memref was 'memref<?x48xf32>')}}
  attn_tile.convert_dq %m[%i, %i] to %d[%i, %i] part(%i of 1) times 1.0
      : vector<64x16xf32> in memref<?x48xf32> to memref<?x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @rounded_rank(%m: memref<?x64xf32>, %d: memref<64xbf16>, %i: index) {
  // expected-error @below {{'attn_tile.convert_dq' op destination must have at least two dimensions (has 1)}}
  attn_tile.convert_dq %m[%i, %i] to %d[%i] part(%i of 1) times 1.0
      : vector<64x16xf32> in memref<?x64xf32> to memref<64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @rounded_place(%m: memref<?x64xf32>, %d: memref<?x64xbf16>, %i: index) {
  // expected-error @below {{'attn_tile.convert_dq' op needs one index per dimension of the destination (expected 2, found 3)}}
  attn_tile.convert_dq %m[%i, %i] to %d[%i, %i, %i] part(%i of 1) times 1.0
      : vector<64x16xf32> in memref<?x64xf32> to memref<?x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @counted(%c: memref<?x2xi32>, %i: index) {
  // expected-error @below {{'attn_tile.semaphore_add' op needs one index per dimension of the semaphores (expected 2, found 1)}}
  attn_tile.semaphore_add %c[%i] : memref<?x2xi32>
  attn_tile.return
}

// -----

attn_tile.kernel @awaited(%c: memref<?xi32>, %i: index) {
  // expected-error @below {{'attn_tile.semaphore_wait' op needs one index per dimension of the semaphores (expected 1, found 2)}}
  attn_tile.semaphore_wait %c[%i, %i] to(%i) : memref<?xi32>
  attn_tile.return
}

// -----

attn_tile.kernel @packed_stored(%v: vector<8x8xf32>, %m: memref<?x8xf32>, %i: index) {
  // expected-error @below {{'attn_tile.store_fragments' op needs one index per dimension of the memref (expected 2, found 1)}}
  attn_tile.store_fragments %v to %m[%i] : vector<8x8xf32> to memref<?x8xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @packed_element(%m: memref<?x8xf16>, %i: index) {
  // expected-error @below {{'attn_tile.load_fragments' op memref must hold contiguous f32 values (was 'memref<?x8xf16>')}}
  %0 = attn_tile.load_fragments %m[%i, %i] : memref<?x8xf16> to vector<8x8xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @packed_rows(%m: memref<?x24xf32>, %i: index) {
  // expected-error @below {{'attn_tile.load_fragments' op tile must take whole rows of the memref (has 64 elements, memref was 'memref<?x24xf32>')}}
  %0 = attn_tile.load_fragments %m[%i, %i] : memref<?x24xf32> to vector<8x8xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @packed_columns(%m: memref<?x?xf32>, %i: index) {
  // expected-error @below {{'attn_tile.load_fragments' op tile must take whole rows of the memref (has 64 elements, memref was 'memref<?x?xf32>')}}
  %0 = attn_tile.load_fragments %m[%i, %i] : memref<?x?xf32> to vector<8x8xf32>
  attn_tile.return
}

// -----

attn_tile.kernel @share_shape(%v: vector<64x16xbf16>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x32xbf16, stages = 2>
  // expected-error @below {{tile must be columns of what a stage of the pipe holds (which is 'vector<64x32xbf16>', found 'vector<64x16xbf16>' from column 24)}}
  %b = attn_tile.local_store %v in %p[%i] from(24) : vector<64x16xbf16>, !attn_tile.pipe<64x32xbf16, stages = 2>
  attn_tile.return
}

// -----

attn_tile.kernel @convert_from(%i: index) {
  %k = attn_tile.create_pipe : !attn_tile.pipe<64x32xbf16, stages = 1>
  %b = attn_tile.wait %k[%i] : !attn_tile.pipe<64x32xbf16, stages = 1>
  // expected-error @below {{buffer must have elements of f8E4M3FN or f8E5M2 (was '!attn_tile.buffer<64x32xbf16>')}}
  %c = attn_tile.local_convert %b in %k[%i] : !attn_tile.buffer<64x32xbf16>, !attn_tile.pipe<64x32xbf16, stages = 1>
  attn_tile.return
}

// -----

attn_tile.kernel @convert_to(%i: index) {
  %k = attn_tile.create_pipe : !attn_tile.pipe<64x32xf8E5M2, stages = 1>
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x32xf32, stages = 1>
  %b = attn_tile.wait %k[%i] : !attn_tile.pipe<64x32xf8E5M2, stages = 1>
  // expected-error @below {{stages of the pipe must have elements of bf16 or f16 and the shape of the buffer, '!attn_tile.buffer<64x32xf8E5M2>' (were '!attn_tile.buffer<64x32xf32>')}}
  %c = attn_tile.local_convert %b in %p[%i] : !attn_tile.buffer<64x32xf8E5M2>, !attn_tile.pipe<64x32xf32, stages = 1>
  attn_tile.return
}

// -----

attn_tile.kernel @convert_shape(%i: index) {
  %k = attn_tile.create_pipe : !attn_tile.pipe<64x32xf8E5M2, stages = 1>
  %p = attn_tile.create_pipe : !attn_tile.pipe<32x64xf16, stages = 1>
  %b = attn_tile.wait %k[%i] : !attn_tile.pipe<64x32xf8E5M2, stages = 1>
  // expected-error @below {{stages of the pipe must have elements of bf16 or f16 and the shape of the buffer, '!attn_tile.buffer<64x32xf8E5M2>' (were '!attn_tile.buffer<32x64xf16>')}}
  %c = attn_tile.local_convert %b in %p[%i] : !attn_tile.buffer<64x32xf8E5M2>, !attn_tile.pipe<32x64xf16, stages = 1>
  attn_tile.return
}

// -----

attn_tile.kernel @mma_lhs_registers(%v: vector<16x64xbf16>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<16x64xbf16, stages = 2>
  %b = attn_tile.wait %p[%i] : !attn_tile.pipe<16x64xbf16, stages = 2>
  // expected-error @below {{'attn_tile.mma_start' op lhs in registers cannot be transposed}}
  %s = attn_tile.mma_start %v, %b transpose_lhs
      : vector<16x64xbf16>, !attn_tile.buffer<16x64xbf16>
      -> !attn_tile.pending<vector<64x64xf32>>
  attn_tile.release %b : !attn_tile.buffer<16x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @mma_rows_of_registers(%v: vector<16x64xbf16>, %i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x16xbf16, stages = 2>
  %b = attn_tile.wait %p[%i] : !attn_tile.pipe<64x16xbf16, stages = 2>
  // expected-error @below {{'attn_tile.mma_start' op lhs in registers has all of its rows multiplied}}
  %s = attn_tile.mma_start %v, %b first_row(0)
      : vector<16x64xbf16>, !attn_tile.buffer<64x16xbf16>
      -> !attn_tile.pending<vector<16x16xf32>>
  attn_tile.return
}

// -----

attn_tile.kernel @mma_columns(%i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x32xbf16, stages = 2>
  %b = attn_tile.wait %p[%i] : !attn_tile.pipe<64x32xbf16, stages = 2>
  // expected-error @below {{'attn_tile.mma_start' op columns must be among those of rhs (from 24 on, of 32, result was 'vector<32x16xf32>')}}
  %s = attn_tile.mma_start %b, %b transpose_lhs first_column(24)
      : !attn_tile.buffer<64x32xbf16>, !attn_tile.buffer<64x32xbf16>
      -> !attn_tile.pending<vector<32x16xf32>>
  attn_tile.return
}

// -----

attn_tile.kernel @mma_columns_of_transposed(%i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x32xbf16, stages = 2>
  %b = attn_tile.wait %p[%i] : !attn_tile.pipe<64x32xbf16, stages = 2>
  // expected-error @below {{'attn_tile.mma_start' op a transposed rhs has all of its columns multiplied}}
  %s = attn_tile.mma_start %b, %b transpose_rhs first_column(0)
      : !attn_tile.buffer<64x32xbf16>, !attn_tile.buffer<64x32xbf16>
      -> !attn_tile.pending<vector<64x64xf32>>
  attn_tile.return
}

// -----

attn_tile.kernel @mma_consumer_columns(%i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x32xbf16, stages = 2>
  %b = attn_tile.wait %p[%i] : !attn_tile.pipe<64x32xbf16, stages = 2>
  // expected-error @below {{'attn_tile.mma_start' op columns of a consumer must be among those of rhs (number 32, result was 'vector<32x40xf32>')}}
  %s = attn_tile.mma_start %b, %b transpose_lhs consumer_columns
      : !attn_tile.buffer<64x32xbf16>, !attn_tile.buffer<64x32xbf16>
      -> !attn_tile.pending<vector<32x40xf32>>
  attn_tile.return
}

// -----

attn_tile.kernel @mma_both_columns(%i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x32xbf16, stages = 2>
  %b = attn_tile.wait %p[%i] : !attn_tile.pipe<64x32xbf16, stages = 2>
  // expected-error @below {{'attn_tile.mma_start' op columns are those from 'first_column' on, or those of the consumer}}
  %s = attn_tile.mma_start %b, %b transpose_lhs first_column(16) consumer_columns
      : !attn_tile.buffer<64x32xbf16>, !attn_tile.buffer<64x32xbf16>
      -> !attn_tile.pending<vector<32x16xf32>>
  attn_tile.return
}

// -----

attn_tile.kernel @consumer_columns(%v: vector<64x32xbf16>) {
  // expected-error @below {{'attn_tile.consumer_columns' op result must have the rows of the tile and a part of its columns (tile 'vector<64x32xbf16>', result 'vector<32x16xbf16>')}}
  %c = attn_tile.consumer_columns %v : vector<64x32xbf16> -> vector<32x16xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @mma_rows(%i: index) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x32xbf16, stages = 2>
  %b = attn_tile.wait %p[%i] : !attn_tile.pipe<64x32xbf16, stages = 2>
  // expected-error @below {{'attn_tile.mma_start' op rows must be among those of lhs (from 24 on, of 32, result was 'vector<16x32xf32>')}}
  %s = attn_tile.mma_start %b, %b transpose_lhs first_row(24)
      : !attn_tile.buffer<64x32xbf16>, !attn_tile.buffer<64x32xbf16>
      -> !attn_tile.pending<vector<16x32xf32>>
  attn_tile.return
}

// -----

attn_tile.kernel @packed_pipe(%v: vector<8x8xf32>) {
  %p = attn_tile.create_pipe : !attn_tile.pipe<8x8xf32, stages = 2>
  // expected-error-re @below {{pipe must have one stage of the size of the tile (expected '{{.*}}<8x8xf32, stages = 1>', found '{{.*}}<8x8xf32, stages = 2>')}}
  %b = attn_tile.stage_fragments %v in %p : vector<8x8xf32>, !attn_tile.pipe<8x8xf32, stages = 2>
  attn_tile.return
}

// -----

func.func @key_tiles_row(%i: index, %list: memref<?x1x?x?xi32>) {
  // expected-error @below {{'attn_tile.kv_tile_iterator' op needs three indices for a row of a list, and none without a list (has 2)}}
  %0:3 = attn_tile.kv_tile_iterator at(%i, %i) queries(%i, 64) keys(64) lengths(%i, %i)
      listed(%list[%i, %i] : memref<?x1x?x?xi32>)
  return
}

// -----

func.func @keep_mask_stream(%i: index, %w: i32) {
  // expected-error @below {{'attn_tile.generate_keep_mask' op 'stream' must have 4 words (has 3)}}
  %0 = attn_tile.generate_keep_mask at(%i, %i) stream(%w, %w, %w)
      by(<p = 0.5, rng = #attn.arx>) : !attn_tile.keep_mask<16x16>
  return
}

// -----

// expected-error @below {{keep masks of tiles must have two dimensions}}
func.func @keep_mask_rank(%d: !attn_tile.keep_mask<16>)

// -----

// expected-error @below {{expected 'transposed' or 'whole'}}
func.func @keep_mask_keyword(%d: !attn_tile.keep_mask<16x16, rows>)

// -----

// expected-error @below {{sizes of a keep mask of a tile must be positive multiples of 16 (was 16x24)}}
func.func @keep_mask_size(%d: !attn_tile.keep_mask<16x24>)

// -----

func.func @dropout_tile(%p: vector<16x32xbf16>, %d: !attn_tile.keep_mask<16x16>) {
  // expected-error @below {{'attn_tile.dropout' op keep mask must be that of a tile of 16x32 (was '!attn_tile.keep_mask<16x16>')}}
  %0 = attn_tile.dropout %p by %d : vector<16x32xbf16>, !attn_tile.keep_mask<16x16>
  return
}

// -----

// expected-error @below {{tiles of bits must have two dimensions}}
func.func @mask_bits_rank(%d: !attn_tile.mask_bits<16>)

// -----

// expected-error @below {{sizes of a tile of bits must be positive multiples of 16 (was 16x24)}}
func.func @mask_bits_columns(%d: !attn_tile.mask_bits<16x24>)

// -----

// expected-error @below {{sizes of a tile of bits must be positive multiples of 16 (was 0x16)}}
func.func @mask_bits_rows(%d: !attn_tile.mask_bits<0x16>)

// -----

func.func @load_mask_bits_words(%m: memref<?x1x?x?x64xi32>, %i: index) {
  // expected-error @below {{'attn_tile.load_mask_bits' op source must have the words of '!attn_tile.mask_bits<32x80>' (expected 128, found 64)}}
  %0 = attn_tile.load_mask_bits %m[%i, %i, %i, %i] : memref<?x1x?x?x64xi32> -> !attn_tile.mask_bits<32x80>
  return
}

// -----

func.func @load_mask_bits_dynamic(%m: memref<?x1x?x?x?xi32>, %i: index) {
  // expected-error @below {{'attn_tile.load_mask_bits' op source must have the words of '!attn_tile.mask_bits<16x64>' (expected 32, found ?)}}
  %0 = attn_tile.load_mask_bits %m[%i, %i, %i, %i] : memref<?x1x?x?x?xi32> -> !attn_tile.mask_bits<16x64>
  return
}

// -----

func.func @apply_mask_bits_tile(%s: vector<16x32xf32>, %b: !attn_tile.mask_bits<32x16>) {
  // expected-error @below {{'attn_tile.apply_mask_bits' op bits must be those of a tile of 16x32 (was '!attn_tile.mask_bits<32x16>')}}
  %0 = attn_tile.apply_mask_bits %s by %b : vector<16x32xf32>, !attn_tile.mask_bits<32x16>
  return
}

// -----

attn_tile.kernel @auxiliary_with_bits(%m: memref<?x1x?x?x32xi32>) {
  %c0 = arith.constant 0 : index
  // expected-error @below {{'attn_tile.auxiliary_warps' op must compute with scalars alone}}
  attn_tile.auxiliary_warps {
    // expected-note @below {{'attn_tile.load_mask_bits' does not}}
    %b = attn_tile.load_mask_bits %m[%c0, %c0, %c0, %c0] : memref<?x1x?x?x32xi32> -> !attn_tile.mask_bits<16x64>
  }
  attn_tile.return
}

// -----

attn_tile.kernel @store_through_indices(%out: memref<?x?xbf16>) {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %t = arith.constant dense<1.0> : vector<64x64xbf16>
  // expected-error @below {{'attn_tile.store_through' op needs one index per dimension of the destination (expected 2, found 1)}}
  attn_tile.store_through %p, %t to %out[%c0] : !attn_tile.pipe<64x64xbf16, stages = 2>, vector<64x64xbf16> to memref<?x?xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @store_through_rank(%out: memref<?xbf16>) {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %t = arith.constant dense<1.0> : vector<64x64xbf16>
  // expected-error @below {{'attn_tile.store_through' op destination must have at least two dimensions (has 1)}}
  attn_tile.store_through %p, %t to %out[%c0] : !attn_tile.pipe<64x64xbf16, stages = 2>, vector<64x64xbf16> to memref<?xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @store_through_element(%out: memref<?x?xf16>) {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %t = arith.constant dense<1.0> : vector<64x64xbf16>
  // expected-error @below {{'attn_tile.store_through' op pipe and destination must have the element type of the tile (expected 'bf16', found 'f16')}}
  attn_tile.store_through %p, %t to %out[%c0, %c0] : !attn_tile.pipe<64x64xbf16, stages = 2>, vector<64x64xbf16> to memref<?x?xf16>
  attn_tile.return
}

// -----

attn_tile.kernel @store_through_pipe_element(%out: memref<?x?xbf16>) {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xf16, stages = 2>
  %t = arith.constant dense<1.0> : vector<64x64xbf16>
  // expected-error @below {{'attn_tile.store_through' op pipe and destination must have the element type of the tile (expected 'bf16', found 'f16')}}
  attn_tile.store_through %p, %t to %out[%c0, %c0] : !attn_tile.pipe<64x64xf16, stages = 2>, vector<64x64xbf16> to memref<?x?xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @store_through_blocks(%out: memref<?x?xbf16>) {
  %c0 = arith.constant 0 : index
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 2>
  %t = arith.constant dense<1.0> : vector<64x96xbf16>
  // expected-error @below {{tile must be made of whole stages of the pipe ('vector<64x96xbf16>' is not, of '!attn_tile.pipe<64x64xbf16, stages = 2>')}}
  attn_tile.store_through %p, %t to %out[%c0, %c0] : !attn_tile.pipe<64x64xbf16, stages = 2>, vector<64x96xbf16> to memref<?x?xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @acc_in_flight(%p: !attn_tile.pending<vector<64x32xf32>>) {
  %c0 = arith.constant 0 : index
  %pipe = attn_tile.create_pipe : !attn_tile.pipe<64x64xbf16, stages = 1>
  %b = attn_tile.wait %pipe[%c0] : !attn_tile.pipe<64x64xbf16, stages = 1>
  // expected-error @below {{'attn_tile.mma_start' op accumulator must be 'vector<64x64xf32>' (was 'vector<64x32xf32>')}}
  %0 = "attn_tile.mma_start"(%b, %b, %p) : (!attn_tile.buffer<64x64xbf16>, !attn_tile.buffer<64x64xbf16>, !attn_tile.pending<vector<64x32xf32>>)
      -> !attn_tile.pending<vector<64x64xf32>>
  attn_tile.return
}

// -----

func.func @promotion(%m: memref<?x64xbf16>) {
  // expected-error @below {{attribute 'l2_promotion' failed to satisfy constraint: 64-bit signless integer attribute whose value is 0, 64, 128 or 256}}
  %map = attn_tile.make_tensor_map %m {l2_promotion = 32 : i64} : memref<?x64xbf16> -> !attn_tile.tensor_map<2, 64x64xbf16>
  return
}

// -----

func.func @packed_group_size(%q: memref<1x8x3x64xf32>) {
  // expected-error @below {{'group_size' must be positive (was 0)}}
  %0 = attn_tile.pack_gqa %q : memref<1x8x3x64xf32> to memref<1x2x12x64xf32, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 0>>
  return
}

// -----

func.func @packed_rank(%q: memref<8xf32>) {
  // expected-error @below {{'rank' must be at least 2 (was 1)}}
  %0 = attn_tile.pack_gqa %q : memref<8xf32> to memref<8xf32, #attn_tile.packed_gqa<rank = 1, rows = 0, group_size = 4>>
  return
}

// -----

func.func @packed_rows(%q: memref<1x8x3x64xf32>) {
  // expected-error @below {{'rows' must be a dimension after the first one of 4 dimensions (was 4)}}
  %0 = attn_tile.pack_gqa %q : memref<1x8x3x64xf32> to memref<1x2x12x64xf32, #attn_tile.packed_gqa<rank = 4, rows = 4, group_size = 4>>
  return
}

// -----

func.func @packed_rank_of_memref(%q: memref<1x8x3x64xf32>) {
  // expected-error @below {{packed GQA layout needs a memref of rank 4 (has rank 3)}}
  %0 = attn_tile.pack_gqa %q : memref<1x8x3x64xf32> to memref<2x12x64xf32, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 4>>
  return
}

// -----

func.func @packed_number_of_rows(%q: memref<1x8x3x64xf32>) {
  // expected-error @below {{packed GQA layout needs a number of rows that is a multiple of 'group_size' (4) in dimension 2 (was 13)}}
  %0 = attn_tile.pack_gqa %q : memref<1x8x3x64xf32> to memref<1x2x13x64xf32, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 4>>
  return
}

// -----

func.func @pack_plain(%q: memref<1x8x3x64xf32>) {
  // expected-error @below {{'attn_tile.pack_gqa' op result must have a layout #attn_tile.packed_gqa (was 'memref<1x2x12x64xf32>')}}
  %0 = attn_tile.pack_gqa %q : memref<1x8x3x64xf32> to memref<1x2x12x64xf32>
  return
}

// -----

func.func @pack_rank(%q: memref<8x3xf32>) {
  // expected-error @below {{'attn_tile.pack_gqa' op source must have rank 4, or 3 without queries (was 2)}}
  %0 = attn_tile.pack_gqa %q : memref<8x3xf32> to memref<1x2x12x64xf32, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 4>>
  return
}

// -----

func.func @pack_without_queries(%q: memref<1x8x64xf32>) {
  // expected-error @below {{'attn_tile.pack_gqa' op source without queries needs rows as the last dimension of the result (was dimension 2 of 4)}}
  %0 = attn_tile.pack_gqa %q : memref<1x8x64xf32> to memref<1x2x12x64xf32, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 4>>
  return
}

// -----

func.func @pack_heads(%q: memref<1x6x3x64xf32>) {
  // expected-error @below {{'attn_tile.pack_gqa' op source must have a static number of query heads that is a multiple of 'group_size' (4)}}
  %0 = attn_tile.pack_gqa %q : memref<1x6x3x64xf32> to memref<1x2x12x64xf32, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 4>>
  return
}

// -----

func.func @pack_dynamic_rows(%q: memref<1x8x4x64xf32>) {
  // expected-error @below {{'attn_tile.pack_gqa' op result has rows for ? queries, the source has 4}}
  %0 = attn_tile.pack_gqa %q : memref<1x8x4x64xf32> to memref<1x2x?x64xf32, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 4>>
  return
}

// -----

func.func @pack_static_rows(%q: memref<1x8x?x64xf32>) {
  // expected-error @below {{'attn_tile.pack_gqa' op result has rows for 4 queries, the source has ?}}
  %0 = attn_tile.pack_gqa %q : memref<1x8x?x64xf32> to memref<1x2x16x64xf32, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 4>>
  return
}

// -----

func.func @pack_queries(%q: memref<1x8x5x64xf32>) {
  // expected-error @below {{'attn_tile.pack_gqa' op result has rows for 3 queries, the source has 5}}
  %0 = attn_tile.pack_gqa %q : memref<1x8x5x64xf32> to memref<1x2x12x64xf32, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 4>>
  return
}

// -----

func.func @pack_elements(%q: memref<1x8x3x64xf32>) {
  // expected-error @below {{'attn_tile.pack_gqa' op result must view the elements of the source (expected shape 1, 2, 12, 64 of 'f32', was 'memref<1x2x12x64xbf16, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 4>>')}}
  %0 = attn_tile.pack_gqa %q : memref<1x8x3x64xf32> to memref<1x2x12x64xbf16, #attn_tile.packed_gqa<rank = 4, rows = 2, group_size = 4>>
  return
}

// -----

attn_tile.kernel @other_elements(%p: !attn_tile.pipe<64x64xbf16, stages = 2>, %q: vector<16x64xbf16>, %t: index) {
  %a = attn_tile.wait %p[%t] : !attn_tile.pipe<64x64xbf16, stages = 2>
  // expected-error @below {{'attn_tile.mma_start' op elements must be 'f32', which '#attn_tile.mma_sync<multiplicand = tf32>' multiplies (were 'bf16')}}
  %s = attn_tile.mma_start %q, %a mma(#attn_tile.mma_sync<multiplicand = tf32>) : vector<16x64xbf16>,
      !attn_tile.buffer<64x64xbf16> -> !attn_tile.pending<vector<16x64xf32>>
  attn_tile.release %a : !attn_tile.buffer<64x64xbf16>
  attn_tile.return
}

// -----

attn_tile.kernel @convert_through_pipe_from(%i: index) {
  %k = attn_tile.create_pipe : !attn_tile.pipe<64x32xf16, stages = 1>
  %b = attn_tile.wait %k[%i] : !attn_tile.pipe<64x32xf16, stages = 1>
  // expected-error @below {{'attn_tile.convert' op buffer must have elements of f8E4M3FN or f8E5M2 (was '!attn_tile.buffer<64x32xf16>')}}
  attn_tile.convert %b to %k[%i] : !attn_tile.buffer<64x32xf16>, !attn_tile.pipe<64x32xf16, stages = 1>
  attn_tile.release %b : !attn_tile.buffer<64x32xf16>
  attn_tile.return
}

// -----

attn_tile.kernel @convert_through_pipe_to(%i: index) {
  %k = attn_tile.create_pipe : !attn_tile.pipe<64x32xf8E5M2, stages = 1>
  %p = attn_tile.create_pipe : !attn_tile.pipe<32x64xf16, stages = 1>
  %b = attn_tile.wait %k[%i] : !attn_tile.pipe<64x32xf8E5M2, stages = 1>
  // expected-error @below {{'attn_tile.convert' op stages of the pipe must have elements of bf16 or f16 and the shape of the buffer, '!attn_tile.buffer<64x32xf8E5M2>' (were '!attn_tile.buffer<32x64xf16>')}}
  attn_tile.convert %b to %p[%i] : !attn_tile.buffer<64x32xf8E5M2>, !attn_tile.pipe<32x64xf16, stages = 1>
  attn_tile.release %b : !attn_tile.buffer<64x32xf8E5M2>
  attn_tile.return
}

// -----

// Barriers count the warps that fill a stage.
attn_tile.kernel @converting_warps(%i: index) {
  %k = attn_tile.create_pipe : !attn_tile.pipe<64x32xf8E5M2, stages = 1>
  %p = attn_tile.create_pipe : !attn_tile.pipe<64x32xf16, stages = 1>
  %b = attn_tile.wait %k[%i] : !attn_tile.pipe<64x32xf8E5M2, stages = 1>
  // expected-error @below {{'attn_tile.convert' op must be run by the warps that fill other stages of the pipe}}
  attn_tile.convert %b to %p[%i] : !attn_tile.buffer<64x32xf8E5M2>, !attn_tile.pipe<64x32xf16, stages = 1>
  // expected-note @below {{see the other conversion here}}
  attn_tile.convert %b to %p[%i] from warp 2 : !attn_tile.buffer<64x32xf8E5M2>, !attn_tile.pipe<64x32xf16, stages = 1>
  attn_tile.release %b : !attn_tile.buffer<64x32xf8E5M2>
  attn_tile.return
}
