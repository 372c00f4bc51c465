// The plain tiled program of causal attention after attn-tile-peel-masks:
// bfloat16, head size 128, eight query heads to a key head.

#queries_keys = affine_map<(m, n, k) -> (m, k)>
#keys = affine_map<(m, n, k) -> (n, k)>
#probabilities = affine_map<(m, n, k) -> (m, k)>
#values = affine_map<(m, n, k) -> (k, n)>
#result = affine_map<(m, n, k) -> (m, n)>

attn_tile.kernel @causal(%q: memref<?x16x?x128xbf16>, %k: memref<?x2x?x128xbf16>,
                         %v: memref<?x2x?x128xbf16>, %out: memref<?x16x?x128xbf16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c128 = arith.constant 128 : index
  %c176 = arith.constant 176 : index
  %B = memref.dim %q, %c0 : memref<?x16x?x128xbf16>
  %Sq = memref.dim %q, %c2 : memref<?x16x?x128xbf16>
  %Skv = memref.dim %k, %c2 : memref<?x2x?x128xbf16>
  %N = arith.ceildivsi %Sq, %c128 : index
  %shift = arith.subi %Skv, %Sq : index
  %key_tiles = arith.ceildivsi %Skv, %c176 : index
  scf.forall (%b, %h, %i) in (%B, 16, %N) {
    %row = arith.muli %i, %c128 : index
    %hk = arith.divui %h, %c8 : index
    %qt = attn_tile.load %q[%b, %h, %row, %c0] stream(%c0 of %c1)
        : memref<?x16x?x128xbf16> -> vector<128x128xbf16>
    // Keys [0, diagonal) are attended by the last row of the tile, keys
    // [0, diagonal - 127) by its first row as well.
    %end = arith.addi %row, %c128 : index
    %diagonal = arith.addi %end, %shift : index
    %reached = arith.minsi %diagonal, %Skv : index
    %tiles = arith.ceildivsi %reached, %c176 : index
    %count = arith.maxsi %tiles, %c1 : index
    %last = arith.subi %count, %c1 : index
    %all = arith.addi %row, %shift : index
    %full_keys = arith.addi %all, %c1 : index
    %some = arith.maxsi %full_keys, %c0 : index
    %whole = arith.minsi %some, %Skv : index
    %full_tiles = arith.divui %whole, %c176 : index
    %cut = arith.subi %count, %full_tiles : index
    %lead = arith.maxsi %cut, %c1 : index

    %m0 = arith.constant dense<0xFF800000> : vector<128xf32>
    %l0 = arith.constant dense<0.0> : vector<128x8xf32>
    %acc0 = arith.constant dense<0.0> : vector<128x128xf32>
    %s0 = arith.constant dense<0.0> : vector<128x176xf32>
    %zero = arith.constant dense<0.0> : vector<128xf32>
    %scale = arith.constant dense<0.127517432> : vector<128xf32>
    %wide_scale = arith.constant dense<0.127517432> : vector<128x176xf32>

    %masked:3 = scf.for %t = %c0 to %lead step %c1
        iter_args(%m = %m0, %l = %l0, %acc = %acc0)
        -> (vector<128xf32>, vector<128x8xf32>, vector<128x128xf32>) {
      %tile = arith.subi %last, %t : index
      %col = arith.muli %tile, %c176 : index
      %kt = attn_tile.load %k[%b, %hk, %col, %c0] stream(%t of %count)
          : memref<?x2x?x128xbf16> -> vector<176x128xbf16>
      %s = vector.contract {indexing_maps = [#queries_keys, #keys, #result],
          iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
          %qt, %kt, %s0 : vector<128x128xbf16>, vector<176x128xbf16> into vector<128x176xf32>
      %s2 = attn_tile.mask %s at(%b, %h, %row, %col) lengths(%Sq, %Skv)
          by(#attn.causal) : vector<128x176xf32>
      %m1 = vector.multi_reduction <maxnumf>, %s2, %m [1] : vector<128x176xf32> to vector<128xf32>
      %none = arith.cmpf oeq, %m1, %m0 : vector<128xf32>
      %ms0 = arith.select %none, %zero, %m1 : vector<128xi1>, vector<128xf32>
      %ms = arith.mulf %ms0, %scale : vector<128xf32>
      %mc = arith.mulf %m, %scale : vector<128xf32>
      %d = arith.subf %mc, %ms : vector<128xf32>
      %alpha = math.exp2 %d : vector<128xf32>
      %neg = arith.negf %ms : vector<128xf32>
      %negt = vector.broadcast %neg : vector<128xf32> to vector<176x128xf32>
      %negb = vector.transpose %negt, [1, 0] : vector<176x128xf32> to vector<128x176xf32>
      %x = math.fma %s2, %wide_scale, %negb : vector<128x176xf32>
      %p = math.exp2 %x : vector<128x176xf32>
      %alphat8 = vector.broadcast %alpha : vector<128xf32> to vector<8x128xf32>
      %alpha8 = vector.transpose %alphat8, [1, 0] : vector<8x128xf32> to vector<128x8xf32>
      %ls = arith.mulf %l, %alpha8 : vector<128x8xf32>
      %l1 = attn_tile.partial_sum %p into %ls : vector<128x176xf32> into vector<128x8xf32>
      %alphat = vector.broadcast %alpha : vector<128xf32> to vector<128x128xf32>
      %alphab = vector.transpose %alphat, [1, 0] : vector<128x128xf32> to vector<128x128xf32>
      %acc1 = arith.mulf %acc, %alphab : vector<128x128xf32>
      %vt = attn_tile.load %v[%b, %hk, %col, %c0] stream(%t of %count)
          : memref<?x2x?x128xbf16> -> vector<176x128xbf16>
      %pb = arith.truncf %p : vector<128x176xf32> to vector<128x176xbf16>
      %acc2 = vector.contract {indexing_maps = [#probabilities, #values, #result],
          iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
          %pb, %vt, %acc1 : vector<128x176xbf16>, vector<176x128xbf16> into vector<128x128xf32>
      scf.yield %m1, %l1, %acc2 : vector<128xf32>, vector<128x8xf32>, vector<128x128xf32>
    }
    %done:3 = scf.for %t = %lead to %count step %c1
        iter_args(%m = %masked#0, %l = %masked#1, %acc = %masked#2)
        -> (vector<128xf32>, vector<128x8xf32>, vector<128x128xf32>) {
      %tile = arith.subi %last, %t : index
      %col = arith.muli %tile, %c176 : index
      %kt = attn_tile.load %k[%b, %hk, %col, %c0] stream(%t of %count)
          : memref<?x2x?x128xbf16> -> vector<176x128xbf16>
      %s = vector.contract {indexing_maps = [#queries_keys, #keys, #result],
          iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
          %qt, %kt, %s0 : vector<128x128xbf16>, vector<176x128xbf16> into vector<128x176xf32>
      %m1 = vector.multi_reduction <maxnumf>, %s, %m [1] : vector<128x176xf32> to vector<128xf32>
      %none = arith.cmpf oeq, %m1, %m0 : vector<128xf32>
      %ms0 = arith.select %none, %zero, %m1 : vector<128xi1>, vector<128xf32>
      %ms = arith.mulf %ms0, %scale : vector<128xf32>
      %mc = arith.mulf %m, %scale : vector<128xf32>
      %d = arith.subf %mc, %ms : vector<128xf32>
      %alpha = math.exp2 %d : vector<128xf32>
      %neg = arith.negf %ms : vector<128xf32>
      %negt = vector.broadcast %neg : vector<128xf32> to vector<176x128xf32>
      %negb = vector.transpose %negt, [1, 0] : vector<176x128xf32> to vector<128x176xf32>
      %x = math.fma %s, %wide_scale, %negb : vector<128x176xf32>
      %p = math.exp2 %x : vector<128x176xf32>
      %alphat8 = vector.broadcast %alpha : vector<128xf32> to vector<8x128xf32>
      %alpha8 = vector.transpose %alphat8, [1, 0] : vector<8x128xf32> to vector<128x8xf32>
      %ls = arith.mulf %l, %alpha8 : vector<128x8xf32>
      %l1 = attn_tile.partial_sum %p into %ls : vector<128x176xf32> into vector<128x8xf32>
      %alphat = vector.broadcast %alpha : vector<128xf32> to vector<128x128xf32>
      %alphab = vector.transpose %alphat, [1, 0] : vector<128x128xf32> to vector<128x128xf32>
      %acc1 = arith.mulf %acc, %alphab : vector<128x128xf32>
      %vt = attn_tile.load %v[%b, %hk, %col, %c0] stream(%t of %count)
          : memref<?x2x?x128xbf16> -> vector<176x128xbf16>
      %pb = arith.truncf %p : vector<128x176xf32> to vector<128x176xbf16>
      %acc2 = vector.contract {indexing_maps = [#probabilities, #values, #result],
          iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>}
          %pb, %vt, %acc1 : vector<128x176xbf16>, vector<176x128xbf16> into vector<128x128xf32>
      scf.yield %m1, %l1, %acc2 : vector<128xf32>, vector<128x8xf32>, vector<128x128xf32>
    }

    %sum = vector.multi_reduction <add>, %done#1, %zero [1] : vector<128x8xf32> to vector<128xf32>
    %empty = arith.cmpf oeq, %sum, %zero : vector<128xf32>
    %one = arith.constant dense<1.0> : vector<128xf32>
    %divisor = arith.select %empty, %one, %sum : vector<128xi1>, vector<128xf32>
    %inverse = arith.divf %one, %divisor : vector<128xf32>
    %inverset = vector.broadcast %inverse : vector<128xf32> to vector<128x128xf32>
    %inverseb = vector.transpose %inverset, [1, 0] : vector<128x128xf32> to vector<128x128xf32>
    %o = arith.mulf %done#2, %inverseb : vector<128x128xf32>
    %ob = arith.truncf %o : vector<128x128xf32> to vector<128x128xbf16>
    attn_tile.store %ob, %out[%b, %h, %row, %c0] : vector<128x128xbf16>, memref<?x16x?x128xbf16>
  }
  attn_tile.return
}

func.func @main(%q: memref<?x16x?x128xbf16>, %k: memref<?x2x?x128xbf16>,
                %v: memref<?x2x?x128xbf16>, %out: memref<?x16x?x128xbf16>) {
  attn_tile.launch @causal args(%q, %k, %v, %out : memref<?x16x?x128xbf16>,
      memref<?x2x?x128xbf16>, memref<?x2x?x128xbf16>, memref<?x16x?x128xbf16>)
  return
}
