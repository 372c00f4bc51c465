//===- ScheduleFamily.h - Schedules of one kind of kernel ------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The schedules that targets with one kind of kernel have: candidates for each
// operation, and a preference among them where no model gives times.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SCHEDULING_SCHEDULEFAMILY_H
#define ATTN_SCHEDULING_SCHEDULEFAMILY_H

#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "attn/Dialect/AttnTile/IR/StreamingOpInterface.h"
#include "attn/Interfaces/Target.h"
#include "attn/Scheduling/ForwardSchedules.h"

#include <array>

namespace mlir::attn {

/// Typical sizes for a length that is not known: each candidate is timed at
/// these lengths, with this many queries in all batch entries.
struct TypicalSizes {
  std::array<int64_t, 5> lengths;
  int64_t queries;
  /// Keys, if their number is not known but the number of queries is.
  int64_t keys;
  /// Two kernels are worth their size if they save this much on average.
  double leastGain;
};

/// A schedule for sequences of fewer than `bound` queries on average.
struct ShortSequenceSchedule {
  int64_t bound;
  ScheduleCandidate candidate;
};

/// The schedules of one `KernelScheduleKind`. There is one object for each
/// kind; none has state.
class ScheduleFamily {
public:
  virtual ~ScheduleFamily();

  /// The family of the kernels of `target`, or of its kernels on elements of
  /// `element`, if it is given.
  static const ScheduleFamily &get(const Target &target, Type element = {});

  /// The largest tiles that registers and shared memory of `device` hold;
  /// `std::nullopt` where tiles are in caches.
  virtual std::optional<TileCapacities>
  getTileCapacities(const DeviceFigures &device) const = 0;
  /// Sizes at which candidates are timed.
  virtual const TypicalSizes &getTypicalSizes() const = 0;
  /// Whether a model gives the time of the kernel of `op`.
  virtual bool isModelled(AttentionOp op) const = 0;

  /// All schedules of `op` that fit `device`.
  virtual SmallVector<ScheduleCandidate>
  getCandidates(AttentionOp op, const DeviceModel &device) const = 0;
  /// The schedules with the largest tiles, for operations without a model. If
  /// there is a second one, it is for at least `bound` queries.
  virtual SmallVector<ScheduleCandidate> getLargest(AttentionOp op,
                                                    const DeviceModel &device,
                                                    int64_t &bound) const = 0;
  /// Schedules of packed queries that attend to keys in a KV cache, of which
  /// many sequences have few: a chunk of a prompt and the new tokens of
  /// other sequences. Ordered by their bounds; longer sequences have the
  /// schedules above.
  virtual SmallVector<ShortSequenceSchedule>
  getForShortSequences(AttentionOp op, const DeviceModel &device) const {
    return {};
  }
  /// The schedule of the kernels of a gradient; `std::nullopt` if none fit. The
  /// dQ accumulator takes at most `dqWorkspaceBytes` bytes, if that is not
  /// negative, where there is another way.
  virtual std::optional<ScheduleChoice>
  chooseGradient(attn_tile::StreamingGradOpInterface op,
                 const DeviceModel &device, int64_t dqWorkspaceBytes) const = 0;
  /// The schedule of an operation that streams keys, for which there is no
  /// model; null if none fits.
  virtual ScheduleAttrInterface
  getStreaming(AttentionOpInterface op, const DeviceModel &device) const = 0;
  virtual ScheduleAttrInterface getMatmul(MatmulOp op,
                                          const DeviceModel &device) const = 0;
  /// The schedule of a kernel that computes functions of heads, without MMAs.
  virtual ScheduleAttrInterface getMap(MapHeadsOp op,
                                       const DeviceModel &device) const = 0;
  /// The schedules of linear attention and of its gradient, for kernels that go
  /// through chunks of tokens.
  virtual ScheduleAttrInterface getLinear(LinearAttentionOp op,
                                          const DeviceModel &device) const = 0;
  virtual ScheduleAttrInterface getLinear(LinearAttentionGradOp op,
                                          const DeviceModel &device) const = 0;
  /// The schedule of linear attention of few tokens; null if it is `getLinear`.
  virtual ScheduleAttrInterface getRecurrent(LinearAttentionOp) const {
    return {};
  }
  /// The number of tokens, for packed sequences their mean, from which on
  /// linear attention is faster with `chunks` than with `recurrent`.
  virtual int64_t getRecurrentBound(LinearAttentionOp,
                                    ScheduleAttrInterface /*recurrent*/,
                                    ScheduleAttrInterface /*chunks*/,
                                    const DeviceModel &) const {
    return 0;
  }
  /// The schedule of kernels without tiles, such as kernels that fill tables.
  virtual ScheduleAttrInterface getScalar(MLIRContext *context) const = 0;
  /// The schedule of kernels that move rows to KV caches, and of gradients of
  /// merges.
  virtual ScheduleAttrInterface getMoveRows(MLIRContext *context) const = 0;
  /// The schedule of merges.
  virtual ScheduleAttrInterface getMerge(MLIRContext *context) const {
    return getMoveRows(context);
  }
};

} // namespace mlir::attn

#endif // ATTN_SCHEDULING_SCHEDULEFAMILY_H
