// The terms of a file replace the terms of the library: with slower MMAs, the
// same kernel takes longer. The files of the library are as they are in
// share/attn/calibration.

// RUN: attn-opt %s --attn-load-calibration='file=%S/../../share/attn/calibration/h200.json target=sm_90a' \
// RUN:   | FileCheck %s --check-prefix=ATTR
// ATTR: module attributes {attn.calibration = {device = "h200", kind = "gpu", terms = {added_byte = {{[^ ]*}} : f64,
// ATTR-SAME: mma_cycle = {{[^ ]*}} : f64,

// RUN: attn-opt %s --attn-choose-schedule=target=sm_90a --attn-explain='format=json output=%t.library.json' -o /dev/null
// RUN: attn-opt %s --attn-choose-schedule=target=sm_90a -o %t.mlir
// RUN: attn-opt %t.mlir --attn-load-calibration='file=%S/../../share/attn/calibration/h200.json target=sm_90a' \
// RUN:   --attn-explain='format=json output=%t.same.json' -o /dev/null
// RUN: diff %t.library.json %t.same.json
// RUN: %python -c "import json, sys; f = json.load(open(sys.argv[1])); \
// RUN:   f['terms']['mma_cycle']['value'] *= 2; json.dump(f, open(sys.argv[2], 'w'))" \
// RUN:   %S/../../share/attn/calibration/h200.json %t.slow-mma.json
// RUN: attn-opt %t.mlir --attn-load-calibration='file=%t.slow-mma.json target=sm_90a' \
// RUN:   --attn-explain='format=json output=%t.slow.json' -o /dev/null
// RUN: %python -c "import json, sys; \
// RUN:   a, b = (json.load(open(f))['functions'][0]['operations'][0]['kernels'][0]['mma'] for f in sys.argv[1:]); \
// RUN:   assert abs(b / a - 2) < 1e-6, (a, b)" \
// RUN:   %t.library.json %t.slow.json

// The command-line compiler takes the file as well, and chooses by it: with a
// softmax that takes no time, a third consumer gains nothing.

// RUN: attn-compile %s --target=sm_90a --emit=mlir --stop-after=schedule | FileCheck %s --check-prefix=CHOSEN
// CHOSEN: consumers = 3
// RUN: %python -c "import json, sys; f = json.load(open(sys.argv[1])); \
// RUN:   f['terms']['score']['value'] = f['terms']['issued_per_score']['value'] = 0; json.dump(f, open(sys.argv[2], 'w'))" \
// RUN:   %S/../../share/attn/calibration/h200.json %t.no-softmax.json
// RUN: attn-compile %s --target=sm_90a --calibration=%t.no-softmax.json --emit=mlir --stop-after=schedule \
// RUN:   | FileCheck %s --check-prefix=OTHER
// OTHER: attn.calibration
// OTHER: consumers = 2

// A device without a calibration has the one of the target's default device.

// RUN: sed 's/^module/module attributes {attn.device = #attn.device<"b200">}/' %s > %t.b200.mlir
// RUN: attn-opt %t.b200.mlir --attn-explain -o /dev/null 2>&1 | FileCheck %s --check-prefix=B200
// B200: device #attn.device<"b200">
// B200-NEXT: the model has the calibration of h200

// The compiler warns of it once, and of no other device. Modules without
// operations of ours have no times.

// RUN: attn-compile %t.b200.mlir --target=sm_90a --emit=mlir --stop-after=schedule -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=WARNING
// RUN: attn-opt %t.b200.mlir --attn-load-calibration=target=sm_90a -o /dev/null 2>&1 | FileCheck %s --check-prefix=WARNING
// RUN: attn-opt %t.b200.mlir --attn-load-calibration=target=sm_80 -o /dev/null 2>&1 | FileCheck %s --check-prefix=OTHER-TARGET
// WARNING: warning: device 'b200' has no calibration:
// WARNING-SAME: expected 'share/attn/calibration/b200.json' when Attn is built, or a file by the option 'calibration',
// WARNING-SAME: found neither; times are estimated by the calibration of 'h200'
// WARNING-NOT: warning:
// OTHER-TARGET: warning: device 'b200' has no calibration: {{.*}} by the calibration of 'a100'
// RUN: attn-opt %s --attn-load-calibration=target=sm_90a -o /dev/null 2>&1 | count 0
// RUN: echo 'module attributes {attn.device = #attn.device<"b200">} { func.func @g() { return } }' \
// RUN:   | attn-opt --attn-load-calibration=target=sm_90a -o /dev/null 2>&1 | count 0

module {
  func.func @f(%q: tensor<4x32x4096x64xbf16>, %o: tensor<4x32x4096x64xbf16>) -> tensor<4x32x4096x64xbf16> {
    %0 = attn.attention
        ins(%q, %q, %q : tensor<4x32x4096x64xbf16>, tensor<4x32x4096x64xbf16>, tensor<4x32x4096x64xbf16>)
        outs(%o : tensor<4x32x4096x64xbf16>) -> tensor<4x32x4096x64xbf16>
    return %0 : tensor<4x32x4096x64xbf16>
  }
}
