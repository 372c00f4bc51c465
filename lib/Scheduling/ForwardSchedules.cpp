//===- ForwardSchedules.cpp - Choice of forward schedules -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chooses, of the schedules that fit, the one that takes least time by
// measurements or the model of its kernel or, where there is neither, the
// largest.
//
//===----------------------------------------------------------------------===//

#include "attn/Scheduling/ForwardSchedules.h"
#include "ScheduleCandidates.h"
#include "attn/Analysis/MaskArea.h"
#include "attn/Analysis/MaskTiles.h"
#include "attn/Dialect/AttnTile/IR/AttnTileDialect.h"
#include "attn/Support/CheckSource.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Threading.h"

#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

using namespace mlir;
using namespace mlir::attn;

void attn::registerScheduleDialects(DialectRegistry &registry) {
  registry.insert<attn_tile::AttnTileDialect>();
}

/// Typical sizes for few queries of a batch that is not known: each candidate
/// is timed with these numbers of entries.
static constexpr int64_t typicalBatches[] = {1, 4, 16, 64};

/// Times of work that differ by less than this part count as equal: the model
/// is not more exact (docs/cost-model.md). Of such candidates the one with
/// larger key tiles is chosen, which has fewer steps.
static constexpr double modelIndifference = 0.015;
/// The same for measured times.
static constexpr double measuredIndifference = 0.005;

static bool hasDynamicLength(AttentionOpInterface op) {
  return op.getAddressing().isListed() ||
         ShapedType::isDynamic(getDimSize(op.getQuery(), 2));
}

/// One schedule for fewer than `bound` queries and one from there on.
static Attribute combine(int64_t bound, const ScheduleCandidate &below,
                         const ScheduleCandidate &from) {
  return ByQueryLengthAttr::get(below.schedule.getContext(), bound,
                                below.schedule, from.schedule);
}

namespace {
/// Candidates and the time of each at each length.
class TimedSchedules {
public:
  TimedSchedules(AttentionOpInterface op,
                 ArrayRef<ScheduleCandidate> candidates,
                 const TypicalSizes &typical)
      : op(op), candidates(candidates), typical(typical),
        times(candidates.size()) {}

  /// Takes times from models; fails if there is a candidate without one.
  LogicalResult estimate(const DeviceModel &model);
  /// Adds times, in microseconds, at one more length.
  void add(int64_t length, ArrayRef<double> microseconds);

  ScheduleChoice choose() const;
  /// Numbers of candidates, fastest first.
  SmallVector<size_t> sort() const;

private:
  /// Ranks candidates by three numbers, each summed over the lengths: the
  /// logarithm of the time over the best one, as far as they are told apart;
  /// minus the key tile; the same logarithm in full.
  using Rank = std::tuple<double, int64_t, double>;
  Rank getRank(size_t below, size_t from, size_t split) const;
  /// The time of a candidate at a length. An estimate is for the very size.
  double getSeconds(size_t index, size_t length) const;
  std::string explain(size_t index, size_t length) const;
  /// The best candidate but `chosen`, and how much longer it takes.
  std::string describeRunnerUp(size_t chosen) const;

  AttentionOpInterface op;
  ArrayRef<ScheduleCandidate> candidates;
  const TypicalSizes &typical;
  double indifference = measuredIndifference;
  StringRef origin = "measured";
  SmallVector<int64_t> lengths;
  /// For estimates: the device, and the sizes with each length.
  const DeviceModel *device = nullptr;
  SmallVector<CostAssumptions> sizes;
  /// The times that are compared, by candidate and length.
  std::vector<std::vector<double>> times;
  /// The time of the best candidate at each length.
  SmallVector<double> least;
};
} // namespace

LogicalResult TimedSchedules::estimate(const DeviceModel &model) {
  origin = "estimated";
  indifference = modelIndifference;
  device = &model;
  if (hasDynamicLength(op)) {
    lengths = llvm::to_vector(ArrayRef(typical.lengths));
    for (int64_t length : lengths)
      sizes.push_back({length, typical.queries / length});
  } else {
    int64_t length = getDimSize(op.getQuery(), 2);
    int64_t keys = std::max(length, typical.keys);
    if (length <= warpgroupRows &&
        ShapedType::isDynamic(getDimSize(op.getQuery(), 0)))
      for (int64_t batch : typicalBatches)
        sizes.push_back({keys, batch});
    else
      sizes.push_back(
          {keys, std::max<int64_t>(
                     1, typical.queries /
                            std::max(length, typical.lengths.front()))});
    lengths.assign(sizes.size(), length);
  }
  bool hasTypicalSizes = hasDynamicLength(op) ||
                         ShapedType::isDynamic(getDimSize(op.getQuery(), 0)) ||
                         ShapedType::isDynamic(getDimSize(op.getKey(), 2));
  std::shared_ptr<WorkBudget> budget = VisitedTiles::createBudget();
  for (const CostAssumptions &assumptions : sizes) {
    VisitedTiles tiles(cast<AttentionOpInterface>(op.getOperation()),
                       assumptions, /*batch=*/0, /*head=*/0, budget);
    if (hasTypicalSizes)
      tiles.setTypicalSizes();
    least.push_back(std::numeric_limits<double>::infinity());
    for (auto [candidate, candidateTimes] :
         llvm::zip_equal(candidates, times)) {
      ScheduleAttrInterface schedule = candidate.schedule;
      SmallVector<KernelTime> kernels = schedule.estimateKernels(tiles, model);
      if (kernels.empty())
        return failure();
      candidateTimes.push_back(getWorkSeconds(kernels));
      least.back() = std::min(least.back(), candidateTimes.back());
    }
  }
  if (budget->isExhausted())
    reportLimitedEstimates(op->getLoc());
  return success();
}

void TimedSchedules::add(int64_t length, ArrayRef<double> microseconds) {
  lengths.push_back(length);
  least.push_back(*llvm::min_element(microseconds) * 1e-6);
  for (auto [time, candidateTimes] : llvm::zip_equal(microseconds, times))
    candidateTimes.push_back(time * 1e-6);
}

SmallVector<size_t> TimedSchedules::sort() const {
  auto order = llvm::to_vector(llvm::seq<size_t>(0, candidates.size()));
  llvm::sort(order, [&](size_t a, size_t b) {
    return std::pair(std::get<2>(getRank(a, a, 0)), a) <
           std::pair(std::get<2>(getRank(b, b, 0)), b);
  });
  return order;
}

/// The rank of `below` up to length number `split` and of `from` from there on.
TimedSchedules::Rank TimedSchedules::getRank(size_t below, size_t from,
                                             size_t split) const {
  double loss = 0, told = 0;
  int64_t keys = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    size_t candidate = i < split ? below : from;
    double each = std::log(times[candidate][i] / least[i]);
    loss += each;
    told += std::max(0.0, each - indifference);
    keys += candidates[candidate].keyTile;
  }
  return {told, -keys, loss};
}

double TimedSchedules::getSeconds(size_t index, size_t length) const {
  if (!device)
    return times[index][length];
  VisitedTiles tiles(op, sizes[length]);
  ScheduleAttrInterface schedule = candidates[index].schedule;
  return attn::getSeconds(schedule.estimateKernels(tiles, *device));
}

std::string TimedSchedules::explain(size_t index, size_t length) const {
  return llvm::formatv("key tile {0} of {1} schedules that fit, {2} {3:f0} us "
                       "for {4} queries",
                       candidates[index].keyTile, candidates.size(), origin,
                       getSeconds(index, length) * 1e6, lengths[length])
      .str();
}

std::string TimedSchedules::describeRunnerUp(size_t chosen) const {
  for (size_t index : sort()) {
    if (index == chosen)
      continue;
    double loss = std::get<2>(getRank(index, index, 0)) -
                  std::get<2>(getRank(chosen, chosen, 0));
    ScheduleAttrInterface schedule = candidates[index].schedule;
    return llvm::formatv("; runner-up: tiles of {0} queries and {1} keys, "
                         "{2:f1} % of the time",
                         schedule.getQueryTile(), schedule.getKeyTile(),
                         100 * std::exp(loss / double(lengths.size())))
        .str();
  }
  return "";
}

ScheduleChoice TimedSchedules::choose() const {
  size_t one = 0, bestBelow = 0, bestFrom = 0, bestSplit = 0;
  std::optional<Rank> oneRank, bestRank;
  for (size_t from = 0; from < candidates.size(); ++from) {
    Rank alone = getRank(from, from, 0);
    if (!oneRank || alone < *oneRank)
      std::tie(oneRank, one) = std::pair(alone, from);
    if (!hasDynamicLength(op))
      continue;
    for (size_t below = 0; below < candidates.size(); ++below)
      for (size_t split = 1; split < lengths.size(); ++split)
        if (Rank rank = getRank(below, from, split);
            !bestRank || rank < *bestRank)
          std::tie(bestRank, bestBelow, bestFrom, bestSplit) =
              std::tuple(rank, below, from, split);
  }
  if (!bestRank || std::get<2>(*oneRank) - std::get<2>(*bestRank) <
                       typical.leastGain * double(lengths.size()))
    return {candidates[one].schedule,
            explain(one, lengths.size() - 1) + describeRunnerUp(one)};
  // Between two lengths that were tried.
  int64_t bound = (lengths[bestSplit - 1] + lengths[bestSplit]) / 2;
  return {combine(bound, candidates[bestBelow], candidates[bestFrom]),
          explain(bestBelow, 0) + "; from " + std::to_string(bound) +
              " queries on " + explain(bestFrom, lengths.size() - 1)};
}

static std::string describe(const ScheduleCandidate &candidate) {
  return "key tile " + std::to_string(candidate.keyTile) + " is bounded by " +
         candidate.limit;
}

/// The choice where there is no model.
static std::optional<ScheduleChoice>
chooseLargest(AttentionOp op, ArrayRef<ScheduleCandidate> largest,
              int64_t bound) {
  if (largest.empty())
    return std::nullopt;
  const ScheduleCandidate &below = largest.front(), &from = largest.back();
  if (largest.size() == 1)
    return ScheduleChoice{below.schedule, describe(below)};
  if (!hasDynamicLength(op)) {
    const ScheduleCandidate &only =
        getDimSize(op.getQuery(), 2) < bound ? below : from;
    return ScheduleChoice{only.schedule, describe(only)};
  }
  return ScheduleChoice{combine(bound, below, from),
                        describe(below) + "; from " + std::to_string(bound) +
                            " queries on " + describe(from)};
}

std::optional<ScheduleChoice>
attn::chooseByModel(AttentionOpInterface op,
                    ArrayRef<ScheduleCandidate> candidates,
                    const TypicalSizes &sizes, const DeviceModel &device) {
  TimedSchedules timed(op, candidates, sizes);
  if (candidates.empty() || failed(timed.estimate(device)))
    return std::nullopt;
  return timed.choose();
}

SmallVector<ScheduleCandidate> attn::getBestSchedules(AttentionOp op,
                                                      const Target &target,
                                                      const DeviceModel &device,
                                                      size_t most) {
  const ScheduleFamily &family =
      ScheduleFamily::get(target, getElementTypeOrSelf(op.getQuery()));
  SmallVector<ScheduleCandidate> candidates = family.getCandidates(op, device);
  TimedSchedules timed(cast<AttentionOpInterface>(op.getOperation()),
                       candidates, family.getTypicalSizes());
  SmallVector<ScheduleCandidate> best;
  if (family.isModelled(op) && succeeded(timed.estimate(device))) {
    for (size_t index : timed.sort())
      best.push_back(candidates[index]);
  } else {
    best = candidates;
    llvm::sort(best, [](ScheduleCandidate a, ScheduleCandidate b) {
      return std::pair(-a.keyTile, a.schedule.getQueryTile()) <
             std::pair(-b.keyTile, b.schedule.getQueryTile());
    });
  }
  best.truncate(std::min(best.size(), most));
  return best;
}

/// The schedule that `text` of a database says, if `op` can have it: files may
/// be older than the known schedules. Else null, and `reason` says why.
static ScheduleAttrInterface parseUsableSchedule(StringRef text, AttentionOp op,
                                                 const Target &target,
                                                 std::string &reason) {
  // Other threads may report diagnostics meanwhile.
  uint64_t thread = llvm::get_threadid();
  ScopedDiagnosticHandler handler(op.getContext(), [&](Diagnostic &diagnostic) {
    if (llvm::get_threadid() != thread)
      return failure();
    if (reason.empty())
      reason = diagnostic.str();
    return success();
  });
  if (failed(checkSource(llvm::MemoryBufferRef(text, "schedule"),
                         op.getContext())))
    return nullptr;
  Attribute attribute = parseAttribute(text, op.getContext());
  auto schedule = dyn_cast_if_present<ScheduleAttrInterface>(attribute);
  if (attribute && !schedule)
    reason = "it is no schedule";
  if (!schedule || failed(schedule.verifyUse(op, target)))
    return nullptr;
  return schedule;
}

FailureOr<std::optional<ScheduleChoice>>
attn::chooseMeasuredSchedule(AttentionOp op, const Target &target,
                             StringRef device,
                             const ScheduleDatabase &database) {
  std::optional<ScheduleChoice> none;
  const std::map<int64_t, ScheduleDatabase::Times> *measured =
      database.lookup(getTuningKey(op, target.getName(), device));
  if (!measured)
    return none;
  std::map<int64_t, ScheduleDatabase::Times> lengths = *measured;
  if (!hasDynamicLength(op)) {
    auto length = measured->find(getLengthClass(getDimSize(op.getQuery(), 2)));
    if (length == measured->end())
      return none;
    lengths = {*length};
  }
  // Candidates that were measured at all lengths.
  SmallVector<ScheduleCandidate> candidates;
  std::vector<std::string> texts;
  for (const auto &[text, time] : lengths.begin()->second) {
    if (!llvm::all_of(lengths, [&, &text = text](const auto &length) {
          return length.second.count(text);
        }))
      continue;
    std::string reason;
    ScheduleAttrInterface schedule =
        parseUsableSchedule(text, op, target, reason);
    if (!schedule) {
      op.emitWarning("schedule '")
          << text << "' of the database is left out: " << reason;
      continue;
    }
    candidates.push_back({schedule, schedule.getKeyTile(),
                          /*preloadsQueries=*/false, /*limit=*/""});
    texts.push_back(text);
  }
  if (candidates.empty())
    return none;
  // Measured times decide without the margin that estimates on hosts have.
  TimedSchedules timed(cast<AttentionOpInterface>(op.getOperation()),
                       candidates, deviceSizes);
  for (const auto &[length, times] : lengths) {
    SmallVector<double> microseconds;
    for (const std::string &text : texts)
      microseconds.push_back(times.at(text));
    timed.add(length, microseconds);
  }
  return std::optional(timed.choose());
}

/// The schedule of packed queries that attend to keys in a KV cache, for
/// sequences of any length, of which `longer` is for long ones.
static ScheduleChoice
addShortSequences(ScheduleChoice longer,
                  ArrayRef<ShortSequenceSchedule> shortOnes) {
  ScheduleChoice choice = std::move(longer);
  for (const auto &[bound, candidate] : llvm::reverse(shortOnes)) {
    auto outer = dyn_cast<ByQueryLengthAttr>(choice.schedule);
    if (outer && outer.getBound() <= bound)
      continue;
    choice.schedule =
        ByQueryLengthAttr::get(candidate.schedule.getContext(), bound,
                               candidate.schedule, choice.schedule);
    choice.reason = describe(candidate) + " for less than " +
                    std::to_string(bound) + " queries; " + choice.reason;
  }
  return choice;
}

static std::optional<ScheduleChoice>
chooseForLongSequences(AttentionOp op, const ScheduleFamily &family,
                       const DeviceModel &device) {
  SmallVector<ScheduleCandidate> candidates = family.getCandidates(op, device);
  if (candidates.empty())
    return std::nullopt;
  if (family.isModelled(op))
    if (std::optional<ScheduleChoice> choice =
            chooseByModel(cast<AttentionOpInterface>(op.getOperation()),
                          candidates, family.getTypicalSizes(), device))
      return choice;
  int64_t bound = 0;
  return chooseLargest(op, family.getLargest(op, device, bound), bound);
}

std::optional<ScheduleChoice>
attn::chooseForwardSchedule(AttentionOp op, const Target &target,
                            const DeviceModel &device) {
  const ScheduleFamily &family =
      ScheduleFamily::get(target, getElementTypeOrSelf(op.getQuery()));
  std::optional<ScheduleChoice> choice =
      chooseForLongSequences(op, family, device);
  if (!choice || !op.hasPackedQueries())
    return choice;
  return addShortSequences(std::move(*choice),
                           family.getForShortSequences(op, device));
}
