// RUN: rm -rf %t && split-file %s %t
// RUN: not attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/none.json}))' 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: cannot read the database '{{.*}}none.json': No such file or directory
// RUN: not attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/text.json}))' 2>&1 | FileCheck %s --check-prefix=TEXT
// TEXT: error: malformed database '{{.*}}text.json': [1:2, byte=2]: Invalid JSON value
// RUN: not attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/array.json}))' \
// RUN:   2>&1 | FileCheck %s --check-prefix=ARRAY
// ARRAY: error: malformed database '{{.*}}array.json': expected an object with 'version' and 'entries'
// RUN: not attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/version.json}))' \
// RUN:   2>&1 | FileCheck %s --check-prefix=VERSION
// VERSION: error: malformed database '{{.*}}version.json': expected version 1 (was 2)
// RUN: not attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/entries.json}))' \
// RUN:   2>&1 | FileCheck %s --check-prefix=ENTRIES
// ENTRIES: error: malformed database '{{.*}}entries.json': expected an array 'entries'
// RUN: not attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/entry.json}))' \
// RUN:   2>&1 | FileCheck %s --check-prefix=ENTRY
// ENTRY: error: malformed database '{{.*}}entry.json': entry 0 must have 'device', 'target' and 'op', a positive 'queries' and an object 'microseconds'
// RUN: not attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/time.json}))' 2>&1 | FileCheck %s --check-prefix=TIME
// TIME: error: malformed database '{{.*}}time.json': entry 0 has a time of 'a' that is not positive
// RUN: %python -c "print('[' * 200000)" > %t/deep.json
// RUN: not attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/deep.json}))' 2>&1 | FileCheck %s --check-prefix=DEEP
// DEEP: error: malformed database '{{.*}}deep.json': arrays and objects are nested deeper than 64
// RUN: %python -c "print(chr(123) + '\"a\":' * 64 + '[' * 64)" > %t/mixed.json
// RUN: not attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/mixed.json}))' \
// RUN:   2>&1 | FileCheck %s --check-prefix=MIXED
// MIXED: error: malformed database '{{.*}}mixed.json': arrays and objects are nested deeper than 64

// Brackets in strings are not nested, nor is what a string's quotes do that are escaped.

// RUN: attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/strings.json}))' \
// RUN:   2>&1 | FileCheck %s --check-prefix=STRINGS
// STRINGS-NOT: malformed
// STRINGS:     schedule(#attn_tile.sequential<query_tile = 16, key_tile = 32>)

// Schedules that there are not, that are spelt otherwise by now, or that cannot
// be used, are left out; others of the same entry count.

// RUN: attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/schedule.json}))' \
// RUN:   2>&1 | FileCheck %s --check-prefix=SCHEDULE
// SCHEDULE-NOT: error
// SCHEDULE:     warning: schedule '#attn.causal' of the database is left out: it is no schedule
// SCHEDULE:     warning: schedule '#attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>' of the database is left out: 'attn.attention'
// SCHEDULE-SAME:     op cannot have schedule '#attn_tile.multistage<{{.*}}>' on target host, it is for sm_80
// SCHEDULE:     warning: schedule '#attn_tile.sequential<query_tile = 16, keys = 32>' of the database is left out: unknown parameter 'keys' of
// SCHEDULE-SAME:     '#attn_tile.sequential' (expected query_tile, key_tile, split_kv_work_items, pack_gqa, balance_splits)
// SCHEDULE-NOT: error
// SCHEDULE:     schedule(#attn_tile.sequential<query_tile = 16, key_tile = 32>)

// The parser of schedules is recursive.

// RUN: %python %S/Inputs/deep.py %t/strings.json > %t/nested.json
// RUN: attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/nested.json}))' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NESTED
// NESTED: warning: schedule '#attn.not<#attn.not<{{.*}}' of the database is left out: brackets are nested more than 1000 deep
// NESTED: schedule(#attn_tile.sequential<query_tile = 16, key_tile = 32>)

// Where none is left, it is as if nothing had been measured.

// RUN: attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule))' > %t/unmeasured.mlir
// RUN: attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/use.json}))' 2> %t/use.txt | diff - %t/unmeasured.mlir
// RUN: FileCheck %s --check-prefix=USE --input-file=%t/use.txt
// USE: warning: schedule '#attn_tile.multistage<{{.*}}>' of the database is left out: 'attn.attention' op cannot have schedule '#attn_tile.multistage<{{.*}}>'
// USE-SAME:     on target host, it is for sm_80

//--- f.mlir
func.func @f(%q: tensor<1x4x16x64xf32>, %o: tensor<1x4x16x64xf32>) -> tensor<1x4x16x64xf32> {
  %0 = attn.attention ins(%q, %q, %q : tensor<1x4x16x64xf32>, tensor<1x4x16x64xf32>, tensor<1x4x16x64xf32>)
      outs(%o : tensor<1x4x16x64xf32>) -> tensor<1x4x16x64xf32>
  return %0 : tensor<1x4x16x64xf32>
}
//--- text.json
text
//--- array.json
[]
//--- version.json
{"version": 2, "entries": []}
//--- entries.json
{"version": 1}
//--- entry.json
{"version": 1, "entries": [{"device": "host", "target": "host", "op": "o", "queries": 0, "microseconds": {}}]}
//--- time.json
{"version": 1, "entries": [{"device": "host", "target": "host", "op": "o", "queries": 16, "microseconds": {"a": 0}}]}
//--- schedule.json
{"version": 1, "entries": [{"device": "host", "target": "host", "op": "attn.attention f32, heads 4/4, head dim 64/64", "queries": 16,
  "microseconds": {"#attn.causal": 1, "#attn_tile.sequential<query_tile = 16, keys = 32>": 1,
    "#attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>": 1,
    "#attn_tile.sequential<query_tile = 16, key_tile = 32>": 2}}]}
//--- strings.json
{"version": 1, "entries": [{"device": "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[[[", "target": "host", "op": "o",
  "queries": 16, "microseconds": {}}, {"device": "host", "target": "host", "op": "attn.attention f32, heads 4/4, head dim 64/64", "queries": 16,
  "microseconds": {"#attn_tile.sequential<query_tile = 16, key_tile = 32>": 2}}]}
//--- use.json
{"version": 1, "entries": [{"device": "host", "target": "host", "op": "attn.attention f32, heads 4/4, head dim 64/64", "queries": 16,
  "microseconds": {"#attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>": 1}}]}
