//===- Calibration.h - Measured terms of the performance model -*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The terms of the performance model that are measured on a device. They come
// from files that `benchmarks/calibrate.py` writes: `share/attn/calibration`
// has one for each known device, which are part of the library, and
// `attn-load-calibration` reads others. See docs/cost-model.md.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_PERFMODEL_CALIBRATION_H
#define ATTN_PERFMODEL_CALIBRATION_H

#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "attn/Dialect/Attn/IR/DeviceFigures.h"
#include "attn/Interfaces/Target.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>

namespace mlir::attn {

/// The measured terms. Units are in CalibrationTerms.def. A calibration has the
/// terms of GPUs or the terms of hosts; all others are 0.
struct Calibration {
#define ATTN_GPU_TERM(member, unit, least, most) double member = 0;
#define ATTN_HOST_TERM(member, unit, least, most) double member = 0;
#include "attn/PerfModel/CalibrationTerms.def"
};

enum class CalibrationKind { GPU, Host };
StringRef stringifyCalibrationKind(CalibrationKind kind);

/// One of the terms.
struct CalibrationTerm {
  std::string key;
  StringRef unit;
  double least, most;
  double Calibration::*member;
};

/// The terms that a calibration of `kind` has, all of which it must have.
SmallVector<CalibrationTerm> getCalibrationTerms(CalibrationKind kind);

/// The version of the format of calibration files.
inline constexpr int64_t calibrationVersion = 1;

/// A calibration file.
struct CalibrationFile {
  std::string device;
  CalibrationKind kind = CalibrationKind::GPU;
  Calibration terms;
};

/// Is called with the key of a problem, with what was expected and what was
/// found.
using CalibrationProblem = function_ref<void(
    const Twine &key, const Twine &expected, const Twine &found)>;

/// Reads the text of a calibration file; fails after the first problem.
FailureOr<CalibrationFile> parseCalibration(StringRef text,
                                            CalibrationProblem report);

/// The attribute of a module that overrides the calibration of the library.
inline constexpr llvm::StringLiteral calibrationAttrName = "attn.calibration";

/// The names of the devices whose files are part of the library.
SmallVector<StringRef> getCalibratedDevices();

/// The text of the file of `device` in the library; empty if there is none.
StringRef getCalibrationText(StringRef device);

/// `calibration` as the module attribute `attn.calibration`, a dictionary of
/// the device, the kind and the terms.
DictionaryAttr toAttribute(MLIRContext *context,
                           const CalibrationFile &calibration);

/// All that the performance model knows of a device.
struct DeviceModel : DeviceFigures {
  Calibration calibration;
  /// The device whose calibration it is, which may be another one where there
  /// is none for the device itself.
  std::string calibratedFor;
  /// More registers for tiles than a thread of the device has, to find how many
  /// a schedule lacks.
  int64_t extraRegisters = 0;

  /// The model that `figures` are part of: `ScheduleAttrInterface`, which
  /// knows no models, passes its figures on.
  static const DeviceModel &get(const DeviceFigures &figures) {
    return static_cast<const DeviceModel &>(figures);
  }
};

/// The figures of `device`, and its calibration in the library or, if there is
/// none, the one of the known device `otherwise`.
DeviceModel getDeviceModel(StringRef name, const DeviceFigures &figures,
                           StringRef otherwise);

/// The device that `op` is compiled for (`getDevice`), with the calibration of
/// its module (`attn.calibration`) or of the library. Reports an attribute that
/// is no calibration for `target`.
FailureOr<DeviceModel> getDeviceModel(Operation *op, const Target &target);

/// Where a calibration of `device` is expected, and what `model`, whose
/// calibration it lacks, has instead; empty if `model` has its own.
std::string describeMissingCalibration(StringRef device,
                                       const DeviceModel &model);

} // namespace mlir::attn

#endif // ATTN_PERFMODEL_CALIBRATION_H
