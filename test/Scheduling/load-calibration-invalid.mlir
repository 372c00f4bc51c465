// Each problem of a calibration file is an error that names the file, the key,
// what is expected and what is found.

// RUN: rm -rf %t && mkdir %t
// RUN: not attn-opt %s --attn-load-calibration='file=%t/none.json target=sm_90a' 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: cannot read the calibration file '{{.*}}none.json': No such file or directory

// RUN: %python %S/Inputs/break-calibration.py %S/../../share/attn/calibration/h200.json %t
// RUN: not attn-opt %s --attn-load-calibration='file=%t/text.json target=sm_90a' 2>&1 | FileCheck %s --check-prefix=TEXT
// TEXT: error: calibration file '{{.*}}text.json': the file: expected JSON, found {{.*}}Invalid JSON value
// RUN: not attn-opt %s --attn-load-calibration='file=%t/array.json target=sm_90a' 2>&1 | FileCheck %s --check-prefix=ARRAY
// ARRAY: error: calibration file '{{.*}}array.json': the file: expected an object, found [1]
// RUN: not attn-opt %s --attn-load-calibration='file=%t/format.json target=sm_90a' 2>&1 | FileCheck %s --check-prefix=FORMAT
// FORMAT: error: calibration file '{{.*}}format.json': format: expected 'attn-calibration', found 'other'
// RUN: not attn-opt %s --attn-load-calibration='file=%t/version.json target=sm_90a' 2>&1 | FileCheck %s --check-prefix=VERSION
// VERSION: error: calibration file '{{.*}}version.json': version: expected 1, found 0
// RUN: not attn-opt %s --attn-load-calibration='file=%t/device.json target=sm_90a' 2>&1 | FileCheck %s --check-prefix=DEVICE
// DEVICE: error: calibration file '{{.*}}device.json': device: expected 'h200', found 'h300'
// RUN: not attn-opt %s --attn-load-calibration='file=%t/no-device.json target=sm_90a' 2>&1 | FileCheck %s --check-prefix=NODEVICE
// NODEVICE: error: calibration file '{{.*}}no-device.json': device: expected the name of a device, found nothing
// RUN: not attn-opt %s --attn-load-calibration='file=%t/kind.json target=sm_90a' 2>&1 | FileCheck %s --check-prefix=KIND
// KIND: error: calibration file '{{.*}}kind.json': kind: expected 'gpu' or 'host', found 'tpu'
// RUN: not attn-opt %s --attn-load-calibration='file=%t/terms.json target=sm_90a' 2>&1 | FileCheck %s --check-prefix=TERMS
// TERMS: error: calibration file '{{.*}}terms.json': terms: expected an object, found nothing
// RUN: not attn-opt %s --attn-load-calibration='file=%t/missing.json target=sm_90a' 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: error: calibration file '{{.*}}missing.json': terms.score: expected a term in cycle per score of a thread, found nothing
// RUN: not attn-opt %s --attn-load-calibration='file=%t/unknown.json target=sm_90a' 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: calibration file '{{.*}}unknown.json': terms: expected a term of kind gpu, found 'scores'
// RUN: not attn-opt %s --attn-load-calibration='file=%t/number.json target=sm_90a' 2>&1 | FileCheck %s --check-prefix=NUMBER
// NUMBER: error: calibration file '{{.*}}number.json': terms.score: expected an object with value, unit, source and fit, found 14
// RUN: not attn-opt %s --attn-load-calibration='file=%t/unit.json target=sm_90a' 2>&1 | FileCheck %s --check-prefix=UNIT
// UNIT: error: calibration file '{{.*}}unit.json': terms.score.unit: expected 'cycle per score of a thread', found 'second'
// RUN: not attn-opt %s --attn-load-calibration='file=%t/source.json target=sm_90a' 2>&1 | FileCheck %s --check-prefix=SOURCE
// SOURCE: error: calibration file '{{.*}}source.json': terms.score.source: expected text, found nothing
// RUN: not attn-opt %s --attn-load-calibration='file=%t/fit.json target=sm_90a' 2>&1 | FileCheck %s --check-prefix=FIT
// FIT: error: calibration file '{{.*}}fit.json': terms.score.fit: expected text, found ''
// RUN: not attn-opt %s --attn-load-calibration='file=%t/value.json target=sm_90a' 2>&1 | FileCheck %s --check-prefix=VALUE
// VALUE: error: calibration file '{{.*}}value.json': terms.score.value: expected a number, found 'many'
// RUN: not attn-opt %s --attn-load-calibration='file=%t/range.json target=sm_90a' 2>&1 | FileCheck %s --check-prefix=RANGE
// RANGE: error: calibration file '{{.*}}range.json': terms.score.value: expected a number from 0{{.*}} to 1000{{.*}}, found -1{{.*}}

// A file for another device of the target, and one of the other kind.

// RUN: not attn-opt %s --attn-load-calibration='file=%S/../../share/attn/calibration/h100.json target=sm_90a' 2>&1 | FileCheck %s --check-prefix=H100
// H100: error: calibration file '{{.*}}h100.json': device: expected 'h200', found 'h100'
// RUN: not attn-opt %s --attn-load-calibration='file=%t/host.json target=sm_90a' 2>&1 | FileCheck %s --check-prefix=HOST
// HOST: error: attribute 'attn.calibration': kind: expected 'gpu' for target sm_90a, found 'host'
// RUN: not attn-compile %s --target=sm_90a --calibration=%t/version.json --emit=mlir 2>&1 | FileCheck %s --check-prefix=VERSION

// The attribute is checked wherever times are estimated.

// RUN: sed 's/^module/module attributes {attn.calibration = 1 : i64}/' %s > %t/number.mlir
// RUN: not attn-opt %t/number.mlir --attn-choose-schedule=target=sm_90a 2>&1 | FileCheck %s --check-prefix=ATTR
// ATTR: error: attribute 'attn.calibration': the attribute: expected a dictionary, found 1 : i64
// RUN: sed 's/^module/module attributes {attn.calibration = {device = "h200", kind = "gpu", terms = {score = 1 : i64}}}/' %s > %t/integer.mlir
// RUN: not attn-opt %t/integer.mlir --attn-explain 2>&1 | FileCheck %s --check-prefix=INTEGER
// INTEGER: error: attribute 'attn.calibration': terms.score: expected a float, found 1 : i64
// RUN: sed 's/^module/module attributes {attn.calibration = {device = "h200", kind = "gpu", terms = {score = 1.0}}}/' %s > %t/few.mlir
// RUN: not attn-opt %t/few.mlir --attn-fuse=target=sm_90a 2>&1 | FileCheck %s --check-prefix=FEW
// FEW: error: attribute 'attn.calibration': terms.mma_cycle: expected a term in cycle per MMA cycle, found nothing

module {
  func.func @f(%q: tensor<4x32x4096x64xbf16>, %o: tensor<4x32x4096x64xbf16>) -> tensor<4x32x4096x64xbf16> {
    %0 = attn.attention
        ins(%q, %q, %q : tensor<4x32x4096x64xbf16>, tensor<4x32x4096x64xbf16>, tensor<4x32x4096x64xbf16>)
        outs(%o : tensor<4x32x4096x64xbf16>) -> tensor<4x32x4096x64xbf16>
    return %0 : tensor<4x32x4096x64xbf16>
  }
}
