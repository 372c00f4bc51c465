//===- LinearScheduleChoice.h - Choose by the model ------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chooses the schedule of linear attention among candidates.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_SCHEDULING_LINEARSCHEDULECHOICE_H
#define ATTN_LIB_SCHEDULING_LINEARSCHEDULECHOICE_H

#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "attn/PerfModel/Calibration.h"

namespace mlir::attn {

/// What is known of the sizes of linear attention.
struct LinearSizes {
  /// Batch entries, and the tokens of each. Dynamic for packed sequences.
  int64_t entries = ShapedType::kDynamic, tokens = ShapedType::kDynamic;
  /// Work items of a batch entry: one for each head and tile of columns.
  int64_t itemsOfEntry = 1;
};

/// What candidates must save where sizes are not known, as a part of the time.
struct LinearGains {
  /// Another candidate than the first.
  double ofOther;
  /// A choice between two candidates.
  double ofChoice;
};

/// The fastest of `candidates` for `op` by their estimated times. If the number
/// of batch entries is not known, the mean of typical sizes counts. The first
/// candidate is then chosen unless another one, or a choice between two by the
/// number of work items, saves more than the `least` gains.
ScheduleAttrInterface
chooseLinearSchedule(Operation *op, ArrayRef<ScheduleAttrInterface> candidates,
                     const LinearSizes &sizes, const DeviceModel &device,
                     const LinearGains &least);

} // namespace mlir::attn

#endif // ATTN_LIB_SCHEDULING_LINEARSCHEDULECHOICE_H
