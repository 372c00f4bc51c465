//===- CostReportPictures.h - Pictures of work and its bounds ---*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The cost report of a program, and how it is drawn.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_SCHEDULING_COSTREPORTPICTURES_H
#define ATTN_LIB_SCHEDULING_COSTREPORTPICTURES_H

#include "attn/PerfModel/Derivation.h"
#include "attn/Scheduling/DropoutTime.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace mlir::attn {

/// One operation of a cost report.
struct CostReportEntry {
  std::string name;
  OpCost cost;
  RooflineEstimate time;
  /// Of attention or its gradient, if their schedule has a model.
  SmallVector<KernelTime> kernels;
  /// Their schedule for the assumed sizes, if they have one.
  ScheduleAttrInterface schedule;
};

/// Times of the dropout of attentions for each place where its keep masks can
/// be generated, with the attentions and the matmuls before them.
struct CostReportDropout {
  size_t attentions;
  size_t matmuls;
  DropoutTimes times;
};

/// The roles that the axes of operations can have in one kernel, and the sizes
/// of their tiles where these are bounded.
struct CostReportDerivation {
  OpChain chain;
  std::optional<Derivation> tiles;
  /// The schedule of the chain, if it is one operation that has one.
  ScheduleAttrInterface schedule;
};

/// The operations of a function, in order, and their totals.
struct CostReportFunction {
  std::string name;
  std::vector<CostReportEntry> entries;
  std::vector<CostReportDropout> dropouts;
  std::vector<CostReportDerivation> derivations;
  OpCost total;
  double seconds = 0;
};

/// Draws, as SVG, the roofs of the device's memory and of MMAs with 16-bit
/// elements, and each operation at its intensity and estimated speed.
void drawRoofline(raw_ostream &os, DeviceAttr device,
                  ArrayRef<CostReportFunction> functions);

/// Draws, as SVG, the bytes that each operation moves, by level.
void drawFlow(raw_ostream &os, ArrayRef<CostReportFunction> functions);

} // namespace mlir::attn

#endif // ATTN_LIB_SCHEDULING_COSTREPORTPICTURES_H
