// RUN: rm -rf %t && split-file %s %t
// RUN: not attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/none.json}))' 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: cannot read the database '{{.*}}none.json': No such file or directory
// RUN: not attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/text.json}))' 2>&1 | FileCheck %s --check-prefix=TEXT
// TEXT: error: malformed database '{{.*}}text.json': [1:2, byte=2]: Invalid JSON value
// RUN: not attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/array.json}))' 2>&1 | FileCheck %s --check-prefix=ARRAY
// ARRAY: error: malformed database '{{.*}}array.json': expected an object with 'version' and 'entries'
// RUN: not attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/version.json}))' 2>&1 | FileCheck %s --check-prefix=VERSION
// VERSION: error: malformed database '{{.*}}version.json': expected version 1 (was 2)
// RUN: not attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/entries.json}))' 2>&1 | FileCheck %s --check-prefix=ENTRIES
// ENTRIES: error: malformed database '{{.*}}entries.json': expected an array 'entries'
// RUN: not attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/entry.json}))' 2>&1 | FileCheck %s --check-prefix=ENTRY
// ENTRY: error: malformed database '{{.*}}entry.json': entry 0 must have 'device', 'target' and 'op', a positive 'queries' and an object 'microseconds'
// RUN: not attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/time.json}))' 2>&1 | FileCheck %s --check-prefix=TIME
// TIME: error: malformed database '{{.*}}time.json': entry 0 has a time of 'a' that is not positive
// RUN: not attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/schedule.json}))' 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// SCHEDULE: error: 'attn.attention' op has '#attn.causal' in the database, which is no schedule
// RUN: not attn-opt %t/f.mlir --pass-pipeline='builtin.module(func.func(attn-choose-schedule{database=%t/use.json}))' 2>&1 | FileCheck %s --check-prefix=USE
// USE: error: 'attn.attention' op cannot have schedule '#attn_tile.multistage<{{.*}}>' on target host, it is for sm_80

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
{"version": 1, "entries": [{"device": "host", "target": "host", "op": "attn.attention f32, heads 4/4, channels 64/64", "queries": 16,
  "microseconds": {"#attn.causal": 1}}]}
//--- use.json
{"version": 1, "entries": [{"device": "host", "target": "host", "op": "attn.attention f32, heads 4/4, channels 64/64", "queries": 16,
  "microseconds": {"#attn_tile.multistage<query_tile = 128, key_tile = 64, stages = 2, warps = 4>": 1}}]}
