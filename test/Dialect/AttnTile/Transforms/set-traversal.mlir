// RUN: attn-opt %s -attn-tile-set-traversal | FileCheck %s --check-prefixes=CHECK,GRID
// RUN: attn-opt %s -attn-tile-set-traversal=interleave=0 | FileCheck %s --check-prefixes=CHECK,LONGEST
// RUN: attn-opt %s -attn-tile-set-traversal='kind=persistent interleave=4' \
// RUN:   | FileCheck %s --check-prefixes=CHECK,WALK,PERSISTENT
// RUN: attn-opt %s -attn-tile-set-traversal='kind=paired' \
// RUN:   | FileCheck %s --check-prefixes=CHECK,WALK,PAIRED

// CHECK-LABEL: attn_tile.kernel @items
// CHECK-SAME:    %[[A:[a-z0-9]+]]: memref<?x?x?x8xf16>, %[[COUNT:[a-z0-9]+]]: index
attn_tile.kernel @items(%a: memref<?x?x?x8xf16>, %count: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c16 = arith.constant 16 : index
  %rows = memref.dim %a, %c2 : memref<?x?x?x8xf16>
  %n = arith.ceildivsi %rows, %c16 : index
  // CHECK-DAG:  %[[C0:.*]] = arith.constant 0 : index
  // CHECK-DAG:  %[[C1:.*]] = arith.constant 1 : index
  // CHECK:      %[[N:.*]] = arith.ceildivsi

  // The query tile varies fastest and counts down.
  // GRID:       %[[WORK_ITEM:.*]] = attn_tile.program_id 0
  // GRID:       %[[TILE:.*]] = arith.remui %[[WORK_ITEM]], %[[N]]
  // GRID:       %[[OUTER:.*]] = arith.divui %[[WORK_ITEM]], %[[N]]
  // GRID:       %[[TOP:.*]] = arith.subi %[[N]], %{{.*}}
  // GRID:       %[[I:.*]] = arith.subi %[[TOP]], %[[TILE]]
  // GRID:       %[[H:.*]] = arith.remui %[[OUTER]], %[[HEADS:.*]]
  // GRID:       %[[B:.*]] = arith.divui %[[OUTER]], %[[HEADS]]
  // GRID:       %[[ROW:.*]] = arith.muli %[[I]]
  // GRID:       attn_tile.load %[[A]][%[[B]], %[[H]], %[[ROW]], %[[C0]]] stream(%[[C0]] of %[[C1]])
  // GRID:       scf.for %[[T:.*]] =
  // GRID:         attn_tile.load {{.*}} stream(%[[T]] of %[[COUNT]])

  // The query tile varies slowest.
  // LONGEST:    %[[WORK_ITEM:.*]] = attn_tile.program_id 0
  // LONGEST:    %[[PAIRS:.*]] = arith.muli
  // LONGEST:    %[[TILE:.*]] = arith.divui %[[WORK_ITEM]], %[[PAIRS]]
  // LONGEST:    %[[OUTER:.*]] = arith.remui %[[WORK_ITEM]], %[[PAIRS]]
  // LONGEST:    %[[TOP:.*]] = arith.subi %[[N]], %{{.*}}
  // LONGEST:    arith.subi %[[TOP]], %[[TILE]]
  // LONGEST:    arith.remui %[[OUTER]], %[[HEADS:.*]]
  // LONGEST:    arith.divui %[[OUTER]], %[[HEADS]]

  // Every other round is walked backwards.
  // PERSISTENT: %[[TOTAL:.*]] = arith.muli %{{.*}}, %[[N]]
  // PERSISTENT: %[[P:.*]] = attn_tile.program_id 0
  // PERSISTENT: %[[G:.*]] = attn_tile.num_programs 0
  // PERSISTENT: %[[SHARE:.*]] = arith.divui %{{.*}}, %[[G]]

  // Pairs come first, all but the pairs of a partial last wave; then the tile
  // in the middle of each odd number of tiles, first to the CTAs behind those
  // with most of the last wave; then the long or the short tiles of the pairs
  // of that wave.
  // PAIRED:     %[[HEADS:.*]] = arith.muli
  // PAIRED:     %[[HALF:.*]] = arith.divui %[[N]], %[[C2:.*]]
  // PAIRED:     %[[P:.*]] = attn_tile.program_id 0
  // PAIRED:     %[[G:.*]] = attn_tile.num_programs 0
  // PAIRED:     %[[ALL:.*]] = arith.muli %[[HEADS]], %{{.*}}
  // PAIRED:     %[[LEFT:.*]] = arith.remui %[[ALL]], %[[G]]
  // PAIRED:     %[[SHORTS:.*]] = arith.divui
  // PAIRED:     %[[REST:.*]] = arith.select %{{.*}}, %[[LEFT]], %{{.*}}
  // PAIRED:     %[[PAIRS:.*]] = arith.subi %{{.*}}, %[[REST]]
  // PAIRED:     %[[MYPAIRS:.*]] = arith.divui %{{.*}}, %[[G]]
  // PAIRED:     %[[OTHERS:.*]] = arith.subi %[[G]], %[[REST]]
  // PAIRED:     %[[MORE:.*]] = arith.remui %[[REST]], %[[OTHERS]]
  // PAIRED:     %[[BUSY:.*]] = arith.addi %[[REST]], %[[MORE]]
  // PAIRED:     %[[LONGER:.*]] = arith.remui %[[PAIRS]], %[[G]]
  // PAIRED:     %[[MOST:.*]] = arith.select %{{.*}}, %[[BUSY]], %[[LONGER]]
  // PAIRED:     arith.subi %{{.*}}, %[[MOST]]
  // PAIRED:     %[[MYMIDDLES:.*]] = arith.divui %{{.*}}, %[[G]]
  // PAIRED:     %[[GETSLONG:.*]] = arith.cmpi ult, %[[P]], %[[REST]]
  // PAIRED:     %[[MYSHORT:.*]] = arith.divui %{{.*}}, %[[OTHERS]]
  // PAIRED:     %[[MYREST:.*]] = arith.select %[[GETSLONG]], %{{.*}}, %[[MYSHORT]]
  // PAIRED:     %[[BEFORE:.*]] = arith.addi %{{.*}}, %[[MYMIDDLES]]
  // PAIRED:     %[[SHARE:.*]] = arith.addi %[[BEFORE]], %[[MYREST]]

  // Each stream length has its own base, that grows from work item to work item.
  // WALK:       scf.for %[[R:.*]] = %[[ZERO:.*]] to %[[SHARE]] step
  // WALK-SAME:  iter_args(%[[ONES:.*]] = %[[ZERO]], %[[COUNTS:.*]] = %[[ZERO]])
  // PERSISTENT: %[[FIRST:.*]] = arith.muli %[[R]], %[[G]]
  // PERSISTENT: %[[MIRRORED:.*]] = arith.subi %{{.*}}, %[[P]]
  // PERSISTENT: %[[FORWARD:.*]] = arith.addi %[[FIRST]], %[[P]]
  // PERSISTENT: arith.select %{{.*}}, %[[MIRRORED]], %[[FORWARD]]
  // PAIRED:     %[[ISREST:.*]] = arith.cmpi uge, %[[R]], %[[BEFORE]]
  // PAIRED:     arith.select %[[ISREST]], %{{.*}}, %{{.*}} : index
  // PAIRED:     %[[LAST:.*]] = arith.subi %[[N]]
  // PAIRED:     %[[LONG:.*]] = arith.subi %[[LAST]], %[[PLACE:.*]] :
  // PAIRED:     %[[OFPAIR:.*]] = arith.select %{{.*}}, %[[LONG]], %[[PLACE]]
  // PAIRED:     arith.select %{{.*}}, %[[HALF]], %[[OFPAIR]]
  // WALK:       attn_tile.load {{.*}} stream(%[[ONES]] of %[[C1]])
  // WALK:       scf.for %[[T:.*]] =
  // WALK:         %[[POS:.*]] = arith.addi %[[COUNTS]], %[[T]]
  // WALK:         attn_tile.load {{.*}} stream(%[[POS]] of %[[COUNT]])
  // WALK:       %[[ONES1:.*]] = arith.addi %[[ONES]], %{{.*}}
  // WALK:       %[[COUNTS1:.*]] = arith.addi %[[COUNTS]], %[[COUNT]]
  // WALK:       scf.yield %[[ONES1]], %[[COUNTS1]]

  // CHECK:      attn_tile.return
  %batch = memref.dim %a, %c0 : memref<?x?x?x8xf16>
  %heads = memref.dim %a, %c1 : memref<?x?x?x8xf16>
  scf.forall (%b, %h, %i) in (%batch, %heads, %n) {
    %row = arith.muli %i, %c16 : index
    %q = attn_tile.load %a[%b, %h, %row, %c0] stream(%c0 of %c1)
        : memref<?x?x?x8xf16> -> vector<16x8xf16>
    scf.for %t = %c0 to %count step %c1 {
      %k = attn_tile.load %a[%b, %h, %t, %c0] stream(%t of %count)
          : memref<?x?x?x8xf16> -> vector<16x8xf16>
      attn_tile.store %k, %a[%b, %h, %row, %c0] : vector<16x8xf16>, memref<?x?x?x8xf16>
    }
    attn_tile.store %q, %a[%b, %h, %row, %c0] : vector<16x8xf16>, memref<?x?x?x8xf16>
  }
  attn_tile.return
}

// A kernel without a loop has one work item.
// CHECK-LABEL: attn_tile.kernel @one_work_item
// CHECK-NEXT:    attn_tile.return
attn_tile.kernel @one_work_item() {
  attn_tile.return
}

// The sizes of the grid are computed from the operands of the launch.
// CHECK-LABEL: func.func @launches
// CHECK-SAME:    %[[A:.*]]: memref<?x?x?x8xf16>, %[[COUNT:.*]]: index
// CHECK:         %[[ROWS:.*]] = memref.dim %[[A]]
// CHECK:         %[[TILES:.*]] = arith.ceildivsi %[[ROWS]]
// CHECK:         %[[TOTAL:.*]] = arith.muli %{{.*}}, %[[TILES]]
// GRID:          attn_tile.launch @items grid(%[[TOTAL]], %[[ONE:.*]], %[[ONE]]) args(%[[A]], %[[COUNT]] :
// WALK:          attn_tile.launch @items grid(%[[TOTAL]], %[[ONE:.*]], %[[ONE]]) ctas_per_sm(1) args
// CHECK:         attn_tile.launch @one_work_item grid(%{{.*}}, %{{.*}}, %{{.*}}) args()
func.func @launches(%a: memref<?x?x?x8xf16>, %count: index) {
  attn_tile.launch @items args(%a, %count : memref<?x?x?x8xf16>, index)
  attn_tile.launch @one_work_item args()
  return
}

// The kernel computes the number of work items; launches are made for the bound.
// With one CTA for each work item of the bound some CTAs have none. Elsewhere a
// step loads what describes the work item of the next one; pairs are neighbours.

// CHECK-LABEL: attn_tile.kernel @bounded
// CHECK-SAME:    %[[LIST:[a-z0-9]+]]: memref<?xi32>, %[[OUT:[a-z0-9]+]]: memref<?xi32>
attn_tile.kernel @bounded(%list: memref<?xi32>, %out: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %size = memref.dim %list, %c0 : memref<?xi32>
  %found = memref.load %list[%c0] : memref<?xi32>
  %n = arith.index_cast %found : i32 to index
  %items = attn_tile.assume_upper_bound %n, %size
  // CHECK:      %[[N:.*]] = attn_tile.assume_upper_bound
  // PAIRED:     %[[UNITS:.*]] = arith.divui %[[N]], %{{.*}}
  // GRID:       %[[NUMBER:.*]] = attn_tile.program_id 0
  // GRID:       %[[HAS:.*]] = arith.cmpi ult, %[[NUMBER]], %{{.*}}
  // GRID:       scf.if %[[HAS]] {
  // GRID-NOT:     scf.for
  // GRID:         %[[ONLY:.*]] = memref.load %[[LIST]][%[[AT:.*]]]
  // GRID-NEXT:    memref.store %[[ONLY]], %[[OUT]][%[[AT]]]
  // WALK:       %[[SHARE:.*]] = arith.divui
  // PAIRED:     %[[STEPS:.*]] = arith.muli %[[SHARE]], %{{.*}}
  // WALK:       %[[EXISTS:.*]] = arith.cmpi ugt
  // WALK:       %[[FIRST:.*]]:2 = scf.if %[[EXISTS]] -> (i32, index) {
  // WALK:         %[[X0:.*]] = memref.load %[[LIST]]
  // WALK:         scf.yield %[[X0]], %{{.*}} : i32, index
  // WALK:       } else {
  // WALK:         scf.yield %{{.*}}, %{{.*}} : i32, index
  // WALK:       scf.for {{.*}} iter_args(%[[X:.*]] = %[[FIRST]]#0, %[[I:.*]] = %[[FIRST]]#1)
  // WALK:         memref.store %[[X]], %[[OUT]][%[[I]]]
  // WALK:         %[[NEXT:.*]] = arith.minui
  // WALK:         memref.load %[[LIST]]
  scf.forall (%i) in (%items) {
    %x = memref.load %list[%i] : memref<?xi32>
    memref.store %x, %out[%i] : memref<?xi32>
  }
  attn_tile.return
}

// CHECK-LABEL: func.func @launch_bounded
// CHECK-SAME:    %[[LIST:[a-z0-9]+]]: memref<?xi32>
// CHECK:         %[[SIZE:.*]] = memref.dim %[[LIST]]
// CHECK-NOT:     memref.load
// CHECK:         attn_tile.launch @bounded grid(%[[SIZE]],
// GRID-NOT:      ctas_per_sm
// WALK-SAME:     ctas_per_sm(1)
func.func @launch_bounded(%list: memref<?xi32>, %out: memref<?xi32>) {
  attn_tile.launch @bounded args(%list, %out : memref<?xi32>, memref<?xi32>)
  return
}
