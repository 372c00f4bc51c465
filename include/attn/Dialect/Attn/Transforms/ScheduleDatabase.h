//===- ScheduleDatabase.h - Measured times of schedules ------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What attn-tune measures, as a JSON file that people can read, and from which
// schedules are chosen.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTN_TRANSFORMS_SCHEDULEDATABASE_H
#define ATTN_DIALECT_ATTN_TRANSFORMS_SCHEDULEDATABASE_H

#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "llvm/Support/JSON.h"

#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace mlir::attn {

/// What measured times hold for: a device, a target, and an attention up to its
/// lengths and batch, in words.
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

/// Lengths of one class are taken for the same: their nearest power of two.
int64_t getLengthClass(int64_t length);

/// The JSON that `text` is. LLVM's parser recurses: what is nested deeply,
/// which no file of measurements is, is an error before it comes to that.
llvm::Expected<llvm::json::Value> parseMeasurements(StringRef text);

/// A file of measured times.
class ScheduleDatabase {
public:
  /// Microseconds by schedule, as text; what failed is not in it.
  using Times = std::map<std::string, double>;

  /// Reads the file `path`; reports on `op` why it cannot.
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

#endif // ATTN_DIALECT_ATTN_TRANSFORMS_SCHEDULEDATABASE_H
