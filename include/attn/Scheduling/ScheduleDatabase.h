//===- ScheduleDatabase.h - Measured times of schedules ------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The measurements of attn-tune, as a readable JSON file, by which schedules
// are chosen.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SCHEDULING_SCHEDULEDATABASE_H
#define ATTN_SCHEDULING_SCHEDULEDATABASE_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "llvm/Support/JSON.h"

#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace mlir::attn {

/// The key of measured times: a device, a target, and a textual description of
/// an attention without its lengths and batch.
struct TuningKey {
  std::string device;
  std::string target;
  std::string op;

  bool operator<(const TuningKey &other) const {
    return std::tie(device, target, op) <
           std::tie(other.device, other.target, other.op);
  }
};

/// The key of `op` when a schedule is chosen for it.
TuningKey getTuningKey(AttentionOp op, StringRef target, StringRef device);

/// The class of a length: its nearest power of two. Measured times apply to all
/// lengths of a class.
int64_t getLengthClass(int64_t length);

/// Parses the JSON `text`. Deeply nested text, which no file of measurements
/// has, is rejected first, since LLVM's parser is recursive.
llvm::Expected<llvm::json::Value> parseMeasurements(StringRef text);

/// A file of measured times.
class ScheduleDatabase {
public:
  /// Microseconds by schedule, as text, without schedules that failed.
  using Times = std::map<std::string, double>;

  /// Reads the file `path`; reports errors on `op`.
  LogicalResult read(Operation *op, StringRef path);
  /// Writes all entries, sorted.
  void print(raw_ostream &os) const;

  /// The times of `key` by the class of the number of queries, or null.
  const std::map<int64_t, Times> *lookup(const TuningKey &key) const;
  void set(const TuningKey &key, int64_t queries, Times times);

private:
  std::map<TuningKey, std::map<int64_t, Times>> entries;
};

} // namespace mlir::attn

#endif // ATTN_SCHEDULING_SCHEDULEDATABASE_H
