//===- LoadCalibration.cpp - Read a calibration file ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attaches the terms of a file to a module.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnDialect.h"
#include "attn/PerfModel/Calibration.h"
#include "attn/PerfModel/Roofline.h"
#include "attn/Scheduling/Passes.h"
#include "llvm/Support/DebugLog.h"
#include "llvm/Support/MemoryBuffer.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNLOADCALIBRATIONPASS
#include "attn/Scheduling/Passes.h.inc"
} // namespace mlir::attn

#define DEBUG_TYPE "attn-load-calibration"

using namespace mlir;
using namespace mlir::attn;

/// Reads the file `path`, which must be for `device`.
static FailureOr<CalibrationFile> readFile(ModuleOp module, StringRef path,
                                           StringRef device) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return module.emitError("cannot read the calibration file '")
           << path << "': " << buffer.getError().message();
  auto report = [&](const Twine &key, const Twine &expected,
                    const Twine &found) {
    module.emitError("calibration file '")
        << path << "': " << key << ": expected " << expected << ", found "
        << found;
  };
  FailureOr<CalibrationFile> file =
      parseCalibration((*buffer)->getBuffer(), report);
  if (failed(file))
    return failure();
  if (file->device != device) {
    report("device", "'" + device + "'", "'" + file->device + "'");
    return failure();
  }
  return file;
}

/// Warns if the library has no calibration of `device`, where `module` has
/// operations whose kernels are chosen by their times.
static LogicalResult warnOfMissing(ModuleOp module, StringRef device,
                                   const Target &target) {
  auto *dialect = module.getContext()->getLoadedDialect<AttnDialect>();
  auto isOurs = [&](Operation *op) {
    return op->getDialect() == dialect ? WalkResult::interrupt()
                                       : WalkResult::advance();
  };
  if (!dialect || !module.walk(isOurs).wasInterrupted())
    return success();
  FailureOr<DeviceModel> model = getDeviceModel(module, target);
  if (failed(model))
    return failure();
  LDBG() << "device " << device << " has the calibration of "
         << model->calibratedFor;
  std::string text = describeMissingCalibration(device, *model);
  if (!text.empty())
    module.emitWarning(text);
  return success();
}

namespace {
struct AttnLoadCalibrationPass
    : public attn::impl::AttnLoadCalibrationPassBase<AttnLoadCalibrationPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<const Target *> found = lookupTarget(module, target);
    if (failed(found))
      return signalPassFailure();
    DeviceAttr device = getDevice(module, target);
    if (file.empty()) {
      if (failed(warnOfMissing(module, device.getName(), **found)))
        signalPassFailure();
      return;
    }
    FailureOr<CalibrationFile> read = readFile(module, file, device.getName());
    if (failed(read))
      return signalPassFailure();
    module->setAttr(calibrationAttrName, toAttribute(&getContext(), *read));
    // A calibration that `target` cannot have is an error here, not later.
    if (failed(getDeviceModel(module, **found)))
      signalPassFailure();
  }
};
} // namespace
