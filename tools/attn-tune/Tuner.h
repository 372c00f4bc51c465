//===- Tuner.h - Candidates, and their times -----------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles candidates into a folder, measures them, and collects the results.
// Files that are in the folder already are kept.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTN_TUNE_TUNER_H
#define ATTN_TOOLS_ATTN_TUNE_TUNER_H

#include "attn/Scheduling/ScheduleDatabase.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>
#include <vector>

struct TunerOptions {
  std::string input;
  std::string target;
  std::string folder;
  unsigned candidates = 8;
  unsigned jobs = 1;
  std::vector<int64_t> lengths;
  /// Batch entries if their number is not static; 0 for 16384 tokens.
  int64_t batch = 0;
  unsigned repeats = 20;
  unsigned timeout = 60;
  /// Shapes of other arguments, and of sizes, as for attn-run.
  std::vector<std::string> shapes;
  /// The programs that compile and measure.
  std::string compiler, runner;
};

class Tuner {
public:
  explicit Tuner(const TunerOptions &options) : options(options) {}

  /// Derives the candidates and their runs from `module`, in which schedules
  /// have been chosen for the target. Writes them into the folder.
  mlir::LogicalResult plan(mlir::ModuleOp module);

  /// Compiles candidates, some at a time.
  mlir::LogicalResult compile();
  /// Measures the compiled candidates, one after the other, each in a process
  /// of its own.
  mlir::LogicalResult measure();
  /// Adds the measured times to `database`.
  mlir::LogicalResult collect(mlir::attn::ScheduleDatabase &database);
  /// Writes `database` in full or not at all.
  static mlir::LogicalResult save(const mlir::attn::ScheduleDatabase &database,
                                  llvm::StringRef path);

private:
  struct Run {
    size_t candidate;
    int64_t length;
  };

  std::string getFile(size_t candidate, const llvm::Twine &suffix) const;
  std::string getResultFile(const Run &run) const;
  std::vector<std::string> getArguments(const Run &run) const;
  std::vector<Run> getRuns() const;
  std::optional<double> readResult(const Run &run) const;
  mlir::LogicalResult writeScript() const;
  mlir::LogicalResult setArguments(mlir::attn::AttentionOp op);

  const TunerOptions &options;
  mlir::attn::TuningKey key;
  std::vector<std::string> schedules;
  std::vector<int64_t> lengths;
  /// Arguments of the function whose shapes depend on the length.
  struct Argument {
    std::string name;
    llvm::SmallVector<int64_t> shape;
  };
  std::vector<Argument> arguments;
};

#endif // ATTN_TOOLS_ATTN_TUNE_TUNER_H
