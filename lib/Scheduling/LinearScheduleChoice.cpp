//===- LinearScheduleChoice.cpp - Choose by the model ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Candidates are timed for each number of batch entries. One that is faster for
// some numbers in a row becomes a choice at run time.
//
//===----------------------------------------------------------------------===//

#include "LinearScheduleChoice.h"
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.h"
#include "attn/Interfaces/CostOpInterface.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::attn;

/// Tokens of all batch entries where their number is not known, and tokens that
/// an entry then has at least and at most.
static constexpr int64_t typicalTokens = 32768, leastTokens = 512,
                         mostTokens = 131072;

namespace {
/// The times of candidates for numbers of batch entries.
class LinearTimes {
public:
  LinearTimes(Operation *op, ArrayRef<ScheduleAttrInterface> candidates,
              const LinearSizes &sizes, const DeviceModel &device);

  ScheduleAttrInterface choose(const LinearGains &least) const;

private:
  /// The numbers from `first` to before `last`, for which one candidate is
  /// faster than another, and how much is gained.
  struct Band {
    size_t first = 0, last = 0;
    double gain = 0;
  };

  void add(int64_t entries, double weight);
  double getMean(size_t candidate) const;
  Band findBand(size_t within, size_t otherwise) const;
  ScheduleAttrInterface makeChoice(size_t within, size_t otherwise,
                                   const Band &band) const;

  Operation *op;
  ArrayRef<ScheduleAttrInterface> candidates;
  const LinearSizes &sizes;
  const DeviceModel &device;
  bool canDispatch;
  /// For each number of entries: work items, the weight of the number, and the
  /// logarithm of the time of each candidate.
  SmallVector<int64_t> items;
  SmallVector<double> weights;
  SmallVector<SmallVector<double>> times;
};
} // namespace

LinearTimes::LinearTimes(Operation *op,
                         ArrayRef<ScheduleAttrInterface> candidates,
                         const LinearSizes &sizes, const DeviceModel &device)
    : op(op), candidates(candidates), sizes(sizes), device(device),
      canDispatch(ShapedType::isDynamic(sizes.entries)) {
  constexpr int64_t roundsOfItems = 8;
  if (!canDispatch) {
    add(sizes.entries, /*weight=*/1);
    return;
  }
  int64_t most =
      std::max<int64_t>(2, roundsOfItems * device.sms / sizes.itemsOfEntry);
  // Numbers have the weight of their logarithm.
  for (int64_t number = 1; number <= most; ++number)
    add(number, 1 / double(number));
}

void LinearTimes::add(int64_t entries, double weight) {
  CostAssumptions assumptions;
  assumptions.dynamicBatch = entries;
  assumptions.dynamicSize =
      ShapedType::isDynamic(sizes.tokens)
          ? std::clamp(typicalTokens / std::max<int64_t>(entries, 1),
                       leastTokens, mostTokens)
          : sizes.tokens;
  SmallVector<double> &row = times.emplace_back();
  for (ScheduleAttrInterface candidate : candidates)
    row.push_back(std::log(
        getSeconds(candidate.estimateOpKernels(op, assumptions, device))));
  items.push_back(entries * sizes.itemsOfEntry);
  weights.push_back(weight);
}

/// The mean of the logarithms of times.
double LinearTimes::getMean(size_t candidate) const {
  double sum = 0, total = 0;
  for (auto [row, weight] : llvm::zip_equal(times, weights)) {
    sum += weight * row[candidate];
    total += weight;
  }
  return sum / total;
}

/// The neighbouring numbers with the largest sum of gains.
LinearTimes::Band LinearTimes::findBand(size_t within, size_t otherwise) const {
  Band best, current;
  double total = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    total += weights[i];
    current.gain += weights[i] * (times[i][otherwise] - times[i][within]);
    current.last = i + 1;
    if (current.gain > best.gain)
      best = current;
    if (current.gain < 0)
      current = {i + 1, i + 1, 0};
  }
  best.gain /= total;
  return best;
}

/// The choice by work items between two candidates. If the one is for all
/// numbers from some on, the other one is within bounds.
ScheduleAttrInterface LinearTimes::makeChoice(size_t within, size_t otherwise,
                                              const Band &band) const {
  int64_t moreThan = band.first == 0 ? 0 : items[band.first - 1];
  int64_t atMost = items[band.last - 1];
  if (band.last == items.size()) {
    std::swap(within, otherwise);
    atMost = moreThan;
    moreThan = 0;
  }
  return cast<ScheduleAttrInterface>(Attribute(attn_tile::ByWorkItemsAttr::get(
      op->getContext(), moreThan, atMost, candidates[within],
      candidates[otherwise])));
}

/// The fastest candidate. If the number of batch entries is not known, the
/// first one unless another one gains enough, or a choice between two of them.
ScheduleAttrInterface LinearTimes::choose(const LinearGains &least) const {
  // Without a model of a device, the first candidate.
  if (!llvm::all_of(times.front(),
                    [](double time) { return std::isfinite(time); }))
    return candidates.front();
  SmallVector<double> means;
  for (size_t i = 0; i < candidates.size(); ++i)
    means.push_back(getMean(i));
  size_t fastest = llvm::min_element(means) - means.begin();
  if (canDispatch &&
      means[fastest] + std::log1p(least.ofOther) >= means.front())
    fastest = 0;
  // Kernels with pair matrices are many.
  if (!canDispatch || isa<attn_tile::LinearPairsAttr>(candidates.front()))
    return candidates[fastest];
  ScheduleAttrInterface best = candidates[fastest];
  double leastMean = means[fastest] - std::log1p(least.ofChoice);
  for (size_t within = 0; within < candidates.size(); ++within)
    for (size_t otherwise = 0; otherwise < candidates.size(); ++otherwise) {
      Band band = findBand(within, otherwise);
      bool isAll = band.first == 0 && band.last == items.size();
      if (isAll || means[otherwise] - band.gain >= leastMean)
        continue;
      leastMean = means[otherwise] - band.gain;
      best = makeChoice(within, otherwise, band);
    }
  return best;
}

ScheduleAttrInterface
attn::chooseLinearSchedule(Operation *op,
                           ArrayRef<ScheduleAttrInterface> candidates,
                           const LinearSizes &sizes, const DeviceModel &device,
                           const LinearGains &least) {
  if (candidates.size() == 1)
    return candidates.front();
  return LinearTimes(op, candidates, sizes, device).choose(least);
}
