// RUN: attn-opt %s --split-input-file --verify-diagnostics --verify-roundtrip | FileCheck %s

// CHECK-LABEL: func private @buffers(
// CHECK-SAME:    !attn_tile.buffer<176x128xbf16>, !attn_tile.buffer<16x8xf32>, !attn_tile.buffer<64x64xf8E4M3FN>, !attn_tile.buffer<64x64xi8>,
// CHECK-SAME:    !attn_tile.buffer<1x1xi1>)
func.func private @buffers(!attn_tile.buffer<176x128xbf16>, !attn_tile.buffer<16x8xf32>,
                           !attn_tile.buffer<64x64xf8E4M3FN>, !attn_tile.buffer<64x64xi8>,
                           !attn_tile.buffer<1x1xi1>)

// -----

// CHECK-LABEL: func private @pipes(
// CHECK-SAME:    !attn_tile.pipe<176x128xbf16, stages = 2>, !attn_tile.pipe<16x8xf32, stages = 1>)
func.func private @pipes(!attn_tile.pipe<176x128xbf16, stages = 2>,
                         !attn_tile.pipe<16x8xf32, stages = 1>)

// -----

// CHECK-LABEL: func private @clusters(
// CHECK-SAME:    !attn_tile.pipe<176x128xbf16, stages = 2, cluster = 2>, !attn_tile.buffer<176x128xbf16, cluster = 2>,
// CHECK-SAME:    !attn_tile.pipe<16x8xf32, stages = 1>, !attn_tile.buffer<16x8xf32>)
func.func private @clusters(!attn_tile.pipe<176x128xbf16, stages = 2, cluster = 2>,
                            !attn_tile.buffer<176x128xbf16, cluster = 2>,
                            !attn_tile.pipe<16x8xf32, stages = 1, cluster = 1>,
                            !attn_tile.buffer<16x8xf32, cluster = 1>)

// -----

// CHECK-LABEL: func private @pending(
// CHECK-SAME:    !attn_tile.pending<vector<128x176xf32>>)
func.func private @pending(!attn_tile.pending<vector<128x176xf32>>)

// -----

// CHECK-LABEL: func private @tensor_maps(
// CHECK-SAME:    !attn_tile.tensor_map<4, 176x64xbf16>, !attn_tile.tensor_map<2, 16x32xf32>)
func.func private @tensor_maps(!attn_tile.tensor_map<4, 176x64xbf16>,
                               !attn_tile.tensor_map<2, 16x32xf32>)

// -----

// expected-error @below {{staged tiles must have two positive dimensions}}
func.func private @rank_of_buffer(!attn_tile.buffer<64xbf16>)

// -----

// expected-error @below {{staged tiles must have two positive dimensions}}
func.func private @rows_of_buffer(!attn_tile.buffer<0x64xbf16>)

// -----

// expected-error @below {{staged tiles must have two positive dimensions}}
func.func private @columns_of_buffer(!attn_tile.buffer<64x0xbf16>)

// -----

// expected-error @below {{staged tiles must hold integers or floats (was 'index')}}
func.func private @element_type_of_buffer(!attn_tile.buffer<64x64xindex>)

// -----

// expected-error @below {{expected static shape}}
func.func private @dynamic_buffer(!attn_tile.buffer<?x64xbf16>)

// -----

// expected-error @below {{staged tiles must have two positive dimensions}}
func.func private @rank_of_pipe(!attn_tile.pipe<2x64x64xbf16, stages = 2>)

// -----

// expected-error @below {{staged tiles must hold integers or floats (was 'vector<2xf32>')}}
func.func private @element_type_of_pipe(!attn_tile.pipe<64x64xvector<2xf32>, stages = 2>)

// -----

// expected-error @below {{'stages' must be positive (was 0)}}
func.func private @stages(!attn_tile.pipe<64x64xbf16, stages = 0>)

// -----

// expected-error @below {{'stages' must be positive (was -1)}}
func.func private @negative_stages(!attn_tile.pipe<64x64xbf16, stages = -1>)

// -----

// expected-error @below {{'stages' must be at most 256 (was 257)}}
func.func private @many_stages(!attn_tile.pipe<64x64xbf16, stages = 257>)

// -----

// expected-error @below {{'cluster' must be positive and divide the rows of a staged tile (was 0)}}
func.func private @no_cluster(!attn_tile.pipe<64x64xbf16, stages = 1, cluster = 0>)

// -----

// expected-error @below {{'cluster' must be positive and divide the rows of a staged tile (was 3)}}
func.func private @parts_of_rows(!attn_tile.buffer<64x64xbf16, cluster = 3>)

// -----

// expected-error @below {{invalid kind of type specified}}
// expected-error @below {{failed to parse AttnTile_PendingType parameter 'valueType' which is to be a `::mlir::VectorType`}}
func.func private @pending_scalar(!attn_tile.pending<f32>)

// -----

// expected-error @below {{MMAs in flight must be vectors of two fixed dimensions (was 'vector<16xf32>')}}
func.func private @pending_rank(!attn_tile.pending<vector<16xf32>>)

// -----

// expected-error @below {{MMAs in flight must be vectors of two fixed dimensions (was 'vector<16x[8]xf32>')}}
func.func private @pending_scalable(!attn_tile.pending<vector<16x[8]xf32>>)

// -----

// expected-error @below {{tensor maps must have 2 to 5 dimensions (was 1)}}
func.func private @map_low_rank(!attn_tile.tensor_map<1, 16x64xbf16>)

// -----

// expected-error @below {{tensor maps must have 2 to 5 dimensions (was 6)}}
func.func private @map_high_rank(!attn_tile.tensor_map<6, 16x64xbf16>)

// -----

// expected-error @below {{boxes of tensor maps must have two dimensions of 1 to 256}}
func.func private @map_box_rank(!attn_tile.tensor_map<2, 64xbf16>)

// -----

// expected-error @below {{boxes of tensor maps must have two dimensions of 1 to 256}}
func.func private @map_box_size(!attn_tile.tensor_map<4, 257x64xbf16>)

// -----

// expected-error @below {{boxes of tensor maps must have two dimensions of 1 to 256}}
func.func private @map_empty_box(!attn_tile.tensor_map<4, 64x0xbf16>)

// -----

// expected-error @below {{tensor maps must be of integers or floats (was 'index')}}
func.func private @map_element_type(!attn_tile.tensor_map<4, 64x64xindex>)
