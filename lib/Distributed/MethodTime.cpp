//===- MethodTime.cpp - Times of methods of sharding ----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the programs of ranks, with the computations and messages that the
// emitters of AttentionShard.cpp and GradientShard.cpp emit.
//
//===----------------------------------------------------------------------===//

#include "MethodTime.h"
#include "HaloRows.h"
#include "IdentityRows.h"
#include "LightSeqTime.h"
#include "ProgramWriter.h"
#include "SequenceShard.h"
#include "StripedShard.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/PerfModel/Roofline.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <numeric>

using namespace mlir;
using namespace mlir::attn;

ArrayRef<RankMethod> attn::getRankMethods() {
  static constexpr RankMethod methods[] = {
      RankMethod::AllGather, RankMethod::Ring,     RankMethod::Zigzag,
      RankMethod::Striped,   RankMethod::LightSeq, RankMethod::Ulysses,
      RankMethod::Usp};
  return methods;
}

StringRef attn::stringifyRankMethod(RankMethod method) {
  switch (method) {
  case RankMethod::AllGather:
    return "allgather";
  case RankMethod::Ring:
    return "ring";
  case RankMethod::Zigzag:
    return "zigzag";
  case RankMethod::Striped:
    return "striped";
  case RankMethod::LightSeq:
    return "lightseq";
  case RankMethod::Ulysses:
    return "ulysses";
  case RankMethod::Usp:
    return "usp";
  }
  llvm_unreachable("unknown method");
}

RankLinks attn::getRankLinks(const DeviceFigures &figures) {
  // Figures count both directions.
  auto getLink = [&](int64_t gbps, int64_t ns) {
    return RankLink{double(gbps) * 1e9 / 2 * double(figures.linkPercent) / 100,
                    double(ns) * 1e-9};
  };
  RankLinks links;
  links.local =
      figures.linkGBps
          ? getLink(figures.linkGBps, figures.linkNs)
          : RankLink{getSustainedRate(figures, MemoryLevel::Memory) / 2,
                     double(figures.linkNs) * 1e-9};
  links.network = figures.networkGBps
                      ? getLink(figures.networkGBps, figures.networkNs)
                      : links.local;
  links.hostRanks = figures.hostDevices;
  return links;
}

std::optional<StringRef> attn::findOtherClause(AttentionOpInterface op,
                                               bool takesKeyLengths) {
  SmallVector<std::pair<StringRef, bool>> clauses = {
      {"key_lengths", op.getKeyLengths() != nullptr && !takesKeyLengths},
      {"page_table", op.getPageTable() != nullptr},
      {"positions", op.getPositions() != nullptr},
      {"reads", !op.getMaskReads().empty()}};
  if (auto attention = dyn_cast<AttentionOp>(op.getOperation()))
    clauses.append({{"state", attention.getStateOut() != nullptr},
                    {"block_mask", attention.getBlockMask() != nullptr},
                    {"query", !attention.getQueryRegion().empty()},
                    {"epilogue", !attention.getEpilogue().empty()},
                    {"out of 8 bits",
                     isFloat8(getElementTypeOrSelf(attention.getOut()))}});
  for (auto [name, isPresent] : clauses)
    if (isPresent)
      return name;
  return std::nullopt;
}

std::string attn::whyNotCut(Operation *op, StringRef name, Value value,
                            ChunkPlacement placement) {
  int64_t dim = getPositionDim(cast<ShapedType>(value.getType()));
  int64_t length = getDimSize(value, dim);
  int64_t chunks = placement.getNumChunks();
  std::string prefix =
      ("dimension " + Twine(dim) + " of '" + name + "' must be ").str();
  auto attention = dyn_cast<AttentionOpInterface>(op);
  int64_t attended = placement.getRing().getNumChunks();
  bool readsMask = attention && attention.getDropoutMask() && attended > 1;
  if (ShapedType::isDynamic(length) && readsMask)
    return "with 'dropout_mask', " + prefix + "static (was dynamic)";
  if (ShapedType::isDynamic(length))
    return placement.chunksPerRank == 1
               ? ""
               : prefix + "static with " +
                     std::to_string(placement.chunksPerRank) +
                     " chunks for each rank (was dynamic)";
  auto describe = [&](int64_t unit, int64_t each, const Twine &of) {
    return (prefix + "a multiple of " + Twine(unit) + ", " + Twine(each) +
            " for each of " + of + " (was " + Twine(length) + ")")
        .str();
  };
  if (length % chunks != 0)
    return describe(chunks, placement.chunksPerRank,
                    Twine(placement.ranks) + " ranks");
  if (!attention || !attention.hasDropout() || attended == 1)
    return "";
  int64_t each = readsMask ? DropoutMaskOp::blockSize : DropoutAttr::keysOfWord;
  if (length % (each * attended) != 0)
    return (readsMask ? "with 'dropout_mask', " : "with dropout, ") +
           describe(each * attended, each, Twine(attended) + " chunks");
  return "";
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

namespace {
/// Writes the ring of one attention, as `ShardEmitter::emitRing` emits it.
class RingWriter {
public:
  RingWriter(ProgramWriter &writer, AttentionOpInterface op,
             ShardKernels &kernels, ChunkPlacement placement, int64_t headParts,
             const CostAssumptions &assumptions);

  void write();

private:
  double getComputation(const RingStep &step, int64_t rank) const;
  double getForward(const RingStep &step, int64_t rank) const;
  double getGradient(const RingStep &step, int64_t rank) const;
  double getPair(const RingStep &step, int64_t rank, int64_t querySlot,
                 int64_t keySlot, double nothingBytes) const;
  void addMessages(const RingStep &step, const RingStep *next);
  void addReturn(const RingStep &step);
  void addSums(const RingStep &step);
  /// Moves tensors of a part of all chunks and heads.
  double getSlotBytes(double bytes) const {
    return bytes / double(placement.getNumChunks() * headParts);
  }
  double getRankBytes(double bytes) const {
    return getSlotBytes(bytes) * double(placement.chunksPerRank);
  }

  ProgramWriter &writer;
  bool isGradient;
  ChunkPlacement placement;
  int64_t headParts;
  AttentionBytes bytes;
  SmallVector<RingStep> steps;
  /// The part of the rows of keys that goes from rank to rank.
  double sentPart = 1;
  PairTimes pairs;
  /// Of the present step: whether any rank attends, by slots.
  SmallVector<SmallVector<bool, 2>, 2> attends;
};
} // namespace

RingWriter::RingWriter(ProgramWriter &writer, AttentionOpInterface op,
                       ShardKernels &kernels, ChunkPlacement placement,
                       int64_t headParts, const CostAssumptions &assumptions)
    : writer(writer), isGradient(attn::isGradient(op)), placement(placement),
      headParts(headParts), bytes(op, assumptions) {
  bytes.repeatHeads(op, headParts);
  int64_t chunks = placement.getNumChunks();
  ShardSizes sizes{bytes.queries / chunks, bytes.keys / chunks, headParts,
                   /*isPartial=*/true};
  pairs = PairTimes(op, kernels, sizes, placement);
  steps = scheduleRing(pairs.reachable, placement);
  if (placement.chunksPerRank == 1 && !placement.isStriped)
    if (std::optional<ChunkRows> sent =
            findHaloRows(op, pairs.reachable, chunks))
      sentPart = double(sent->size) / double(sizes.keys);
}

/// Seconds of a rank for its queries of a slot and its keys of another one, if
/// it attends; else it fills `nothingBytes`.
double RingWriter::getPair(const RingStep &step, int64_t rank,
                           int64_t querySlot, int64_t keySlot,
                           double nothingBytes) const {
  if (!step.getAttending(querySlot, keySlot).test(rank))
    return writer.getMoveSeconds(nothingBytes);
  int64_t ranks = placement.ranks;
  int64_t query = placement.getChunk(rank, querySlot);
  int64_t key =
      placement.getChunk((rank + ranks - step.number) % ranks, keySlot);
  return pairs.get(query, key);
}

double RingWriter::getForward(const RingStep &step, int64_t rank) const {
  double seconds = 0, partial = getSlotBytes(bytes.getPartial());
  for (int64_t query = 0; query < placement.chunksPerRank; ++query) {
    // Attention reads the results so far, from which it goes on. Ranks that do
    // not attend copy them.
    bool hasState = step.number > 0;
    for (int64_t key = 0; key < placement.chunksPerRank; ++key) {
      if (!attends[query][key])
        continue;
      seconds += getPair(step, rank, query, key, 2 * partial);
      if (hasState && step.getAttending(query, key).test(rank))
        seconds += writer.getMoveSeconds(partial);
      hasState = true;
    }
  }
  return seconds;
}

double RingWriter::getGradient(const RingStep &step, int64_t rank) const {
  double ofQuery = getSlotBytes(bytes.queryF32);
  double ofKeys = getSlotBytes(bytes.getKeyGradients());
  double seconds = 0;
  SmallVector<int64_t, 2> queryTerms(placement.chunksPerRank),
      keyTerms(placement.chunksPerRank);
  for (int64_t query = 0; query < placement.chunksPerRank; ++query)
    for (int64_t key = 0; key < placement.chunksPerRank; ++key)
      if (attends[query][key]) {
        seconds += getPair(step, rank, query, key, ofQuery + ofKeys);
        ++queryTerms[query];
        ++keyTerms[key];
      }
  auto addSum = [&](int64_t terms, double of) {
    if (terms > 1)
      seconds += writer.getMoveSeconds(double(terms + 1) * of);
  };
  for (int64_t terms : queryTerms)
    addSum(terms + (terms > 0 && step.number > 0 ? 1 : 0), ofQuery);
  for (int64_t terms : keyTerms)
    addSum(terms, ofKeys);
  return seconds;
}

double RingWriter::getComputation(const RingStep &step, int64_t rank) const {
  return isGradient ? getGradient(step, rank) : getForward(step, rank);
}

/// Adds the messages of `step` to the last steps of all ranks.
void RingWriter::addMessages(const RingStep &step, const RingStep *next) {
  int64_t ranks = placement.ranks;
  auto addFromPrevious = [&](const llvm::BitVector &receivers, double of) {
    for (unsigned rank : receivers.set_bits())
      writer.addMessage((rank + ranks - 1) % ranks, rank, of);
  };
  if (next)
    addFromPrevious(next->receivers,
                    sentPart * getRankBytes(bytes.getKeyValues()));
  if (!isGradient || step.number == 0)
    return;
  // Gradients follow their keys, and return from the last holders of the step
  // before.
  addFromPrevious(step.receivers,
                  sentPart * getRankBytes(bytes.getKeyGradients()));
  addReturn(steps[size_t(step.number - 1)]);
}

void RingWriter::addReturn(const RingStep &step) {
  if (!step.hasReturn())
    return;
  int64_t ranks = placement.ranks;
  for (unsigned rank : step.lastHolders.set_bits())
    writer.addMessage(rank, (rank + ranks - step.number) % ranks,
                      sentPart * getRankBytes(bytes.getKeyGradients()));
}

/// Adds the additions of a rank's gradients to the gradients that it received.
void RingWriter::addSums(const RingStep &step) {
  double moved = 0;
  for (int64_t key = 0; key < placement.chunksPerRank; ++key)
    if (step.isAttended(key)) {
      // Both slots of the first step go to one tensor.
      int64_t passes = step.number > 0                ? 3
                       : placement.chunksPerRank == 1 ? 0
                                                      : 2;
      moved +=
          sentPart * double(passes) * getSlotBytes(bytes.getKeyGradients());
    }
  writer.addMove(moved);
}

void RingWriter::write() {
  int64_t slots = placement.chunksPerRank;
  for (const RingStep &step : steps) {
    attends.assign(size_t(slots), {});
    for (int64_t query = 0; query < slots; ++query)
      for (int64_t key = 0; key < slots; ++key)
        attends[query].push_back(step.getAttending(query, key).any());
    writer.addSteps([&](int64_t rank) { return getComputation(step, rank); });
    bool isLast = &step == &steps.back();
    addMessages(step, isLast ? nullptr : &step + 1);
    if (isGradient)
      addSums(step);
  }
  if (!isGradient)
    return;
  if (steps.back().hasReturn()) {
    writer.addSteps([](int64_t) { return 0.0; });
    addReturn(steps.back());
  }
  // Gradients are rounded.
  writer.addMove(getRankBytes(bytes.queryF32 + bytes.query +
                              bytes.getKeyGradients() + bytes.getKeyValues()));
}

/// Writes an attention to keys that all ranks gather, if `gathers`.
static void writeAllGather(ProgramWriter &writer, AttentionOpInterface op,
                           ShardKernels &kernels, bool gathers,
                           const CostAssumptions &assumptions) {
  int64_t ranks = writer.getNumRanks();
  AttentionBytes bytes(op, assumptions);
  auto getPart = [&](double of) { return of / double(ranks); };
  if (gathers) {
    for (double of : {bytes.key, bytes.value})
      writer.addCollective(
          getAllGatherSeconds(writer.getLinks(), ranks, getPart(of)),
          getPart(of) * double(ranks - 1));
    // Parts of all ranks become neighbors.
    writer.addMove(2 * bytes.getKeyValues());
  }
  ShardSizes sizes{bytes.queries / ranks, bytes.keys};
  ChunkDensities densities = kernels.getDensities(sizes, ranks);
  writer.addSteps([&](int64_t rank) {
    return kernels.getSeconds(sizes, densities.getMean(rank));
  });
  if (!isGradient(op))
    return;
  // Ranks exchange their parts of all gradients, and add them up.
  writer.addMove(2 * bytes.getKeyGradients());
  for (double of : {bytes.keyF32, bytes.valueF32})
    writer.addCollective(
        getAllToAllSeconds(writer.getLinks(), ranks, getPart(of)),
        getPart(of) * double(ranks - 1));
  writer.addSum(getPart(bytes.getKeyGradients()), ranks);
  writer.addMove(getPart(bytes.getKeyGradients() + bytes.getKeyValues()));
}

namespace {
/// The ranks that exchange positions for heads: `ranks` of `all` ranks, with
/// `links` between them.
struct UlyssesGroup {
  int64_t ranks, all;
  RankLinks links;

  /// Seconds in which each rank of the group sends `bytes` to each other one:
  /// to all at once if these are all ranks, else to one after another.
  double getSeconds(double bytes) const {
    if (ranks == all)
      return getAllToAllSeconds(links, ranks, bytes);
    return double(ranks - 1) * links.local.getSeconds(bytes);
  }
};

/// Writes an attention of which each rank has some heads, and positions of a
/// whole or of a part of a ring.
class UlyssesWriter {
public:
  UlyssesWriter(ProgramWriter &writer, AttentionOpInterface op,
                ShardKernels &kernels, const UlyssesGroup &group,
                const CostAssumptions &assumptions)
      : writer(writer), op(op), kernels(kernels), group(group),
        assumptions(assumptions), bytes(op, assumptions) {}

  /// `placement` has one rank where ranks get all positions.
  void write(ChunkPlacement placement);

private:
  void addExchange(double of, int64_t heads);
  void addResults();

  ProgramWriter &writer;
  AttentionOpInterface op;
  ShardKernels &kernels;
  const UlyssesGroup &group;
  const CostAssumptions &assumptions;
  AttentionBytes bytes;
};
} // namespace

/// Exchanges a tensor of `of` bytes with `heads` heads. If there are fewer
/// heads than ranks, several ranks get the same one.
void UlyssesWriter::addExchange(double of, int64_t heads) {
  double ofRank = of / double(group.all);
  double toEach = ofRank / double(std::min(group.ranks, heads));
  // Tensors are made contiguous before they are sent, and after it.
  writer.addOrder(ofRank);
  writer.addCollective(group.getSeconds(toEach),
                       toEach * double(group.ranks - 1));
  writer.addOrder(toEach * double(group.ranks));
}

void UlyssesWriter::addResults() {
  int64_t queryHeads = op.getNumQueryHeads();
  if (!isGradient(op)) {
    addExchange(bytes.out, queryHeads);
    return;
  }
  addExchange(bytes.query, queryHeads);
  int64_t keyHeads = getDimSize(op.getKey(), 1);
  int64_t valueHeads = getDimSize(op.getValue(), 1);
  // Ranks with the same head add up their parts of its gradient, in f32.
  addExchange(group.ranks > keyHeads ? bytes.keyF32 : bytes.key, keyHeads);
  addExchange(group.ranks > valueHeads ? bytes.valueF32 : bytes.value,
              valueHeads);
}

void UlyssesWriter::write(ChunkPlacement placement) {
  int64_t queryHeads = op.getNumQueryHeads();
  addExchange(bytes.query, queryHeads);
  addExchange(bytes.key, getDimSize(op.getKey(), 1));
  addExchange(bytes.value, getDimSize(op.getValue(), 1));
  if (isGradient(op)) {
    addExchange(bytes.out + bytes.lse, queryHeads);
    addExchange(bytes.out, queryHeads);
  }
  if (placement.ranks == 1) {
    ShardSizes sizes{bytes.queries, bytes.keys, group.ranks};
    double seconds = kernels.getSeconds(sizes);
    writer.addSteps([&](int64_t) { return seconds; });
  } else {
    RingWriter(writer, op, kernels, placement, group.ranks, assumptions)
        .write();
  }
  addResults();
}

//===----------------------------------------------------------------------===//
// Methods
//===----------------------------------------------------------------------===//

MethodModel::MethodModel(ArrayRef<AttentionOpInterface> ops,
                         const Target &target, const DeviceModel &device,
                         const CostAssumptions &assumptions)
    : device(device), links(getRankLinks(device)), assumptions(assumptions),
      ops(ops) {
  for (AttentionOpInterface op : ops)
    kernels.push_back(
        std::make_unique<ShardKernels>(op, target, device, assumptions));
}

MethodModel::~MethodModel() = default;

void MethodModel::setBusySeconds(double seconds) {
  for (std::unique_ptr<ShardKernels> &of : kernels)
    of->setBusySeconds(seconds);
}

double MethodModel::getWholeSeconds(double busySeconds) {
  setBusySeconds(busySeconds);
  double seconds = 0;
  for (auto [op, of] : llvm::zip_equal(ops, kernels)) {
    AttentionBytes bytes(op, assumptions);
    seconds += of->getSeconds({bytes.queries, bytes.keys});
  }
  return seconds;
}

double MethodModel::getWholeSeconds() {
  // Throttling depends on the time without it.
  return getWholeSeconds(getWholeSeconds(/*busySeconds=*/0));
}

std::string attn::whyNotDivideHeads(AttentionOpInterface op, int64_t ranks) {
  if (op.getHeadMap())
    return "heads cannot be divided with 'head_map'";
  auto describe = [&](StringRef name, StringRef relation, int64_t heads) {
    return ("number of heads of '" + name + "' must be " + relation + " " +
            Twine(ranks) + ", the ranks that divide them (was " + Twine(heads) +
            ")")
        .str();
  };
  if (op.getNumQueryHeads() % ranks != 0)
    return describe("query", "a multiple of", op.getNumQueryHeads());
  for (auto [name, value] :
       {std::pair("key", op.getKey()), std::pair("value", op.getValue())}) {
    int64_t heads = getDimSize(value, 1);
    if (heads % ranks != 0 && ranks % heads != 0)
      return describe(name, "a multiple or a divisor of", heads);
  }
  return "";
}

std::string attn::whyNotCapture(AttentionOpInterface op,
                                ChunkPlacement placement) {
  auto grad = dyn_cast<AttentionGradOp>(op.getOperation());
  if (!grad || grad.getDcaptures().empty() || !placement.isBalanced)
    return "";
  return "with 'dcaptures' cannot be distributed over ranks by 'lightseq', but "
         "by 'ring', 'zigzag', 'striped', 'allgather', 'ulysses' or 'usp'";
}

std::string attn::whyNotCut(ArrayRef<AttentionOpInterface> ops,
                            ChunkPlacement placement) {
  for (AttentionOpInterface op : ops) {
    for (std::string reason :
         {whyNotShardSequences(op, placement), whyNotStripe(op, placement),
          whyNotCapture(op, placement), whyNotIdentity(op, placement)})
      if (!reason.empty())
        return reason;
    for (const AttentionOperand &operand : op.getShapedOperands())
      if (std::string reason =
              whyNotCut(op, operand.name, operand.value, placement);
          !reason.empty())
        return reason;
  }
  return "";
}

int64_t attn::chooseUlyssesDegree(ArrayRef<AttentionOpInterface> ops,
                                  int64_t ranks, int64_t hostRanks) {
  bool isOneHost = hostRanks == 0 || ranks <= hostRanks;
  int64_t most = isOneHost ? ranks : std::gcd(ranks, hostRanks);
  for (int64_t degree = most; degree > 1; --degree)
    if (most % degree == 0 && llvm::all_of(ops, [&](AttentionOpInterface op) {
          return whyNotDivideHeads(op, degree).empty();
        }))
      return degree;
  return 1;
}

int64_t MethodModel::getUlyssesDegree(RankMethod method, int64_t ranks) const {
  if (method == RankMethod::Usp)
    return chooseUlyssesDegree(ops, ranks, links.hostRanks);
  return method == RankMethod::Ulysses ? ranks : 1;
}

/// Which positions ranks have with a `method` that exchanges no heads.
static ChunkPlacement getRing(RankMethod method, int64_t ranks) {
  ChunkPlacement placement{ranks};
  placement.isBalanced = method == RankMethod::LightSeq;
  placement.isStriped = method == RankMethod::Striped && ranks > 1;
  if (method == RankMethod::Zigzag)
    placement.chunksPerRank = 2;
  return placement;
}

std::string MethodModel::whyNot(RankMethod method, int64_t ranks) {
  int64_t degree = getUlyssesDegree(method, ranks);
  if (method == RankMethod::Usp && degree == ranks)
    return "one group has all ranks, as with ulysses";
  if (method == RankMethod::Usp && degree == 1)
    return "no ranks of a host can divide the heads, as with zigzag";
  ChunkPlacement placement = getRing(method, ranks);
  if (method == RankMethod::Ulysses || method == RankMethod::Usp)
    placement = ChunkPlacement::ofGroups(ranks, degree);
  std::string reason = whyNotCut(ops, placement);
  if (method == RankMethod::Ulysses)
    for (AttentionOpInterface op : ops)
      if (reason.empty())
        reason = whyNotDivideHeads(op, degree);
  return reason;
}

/// Writes the programs of `ranks` ranks that divide heads among the ranks of
/// `group`.
static void writeUlysses(ProgramWriter &writer, const UlyssesGroup &group,
                         ArrayRef<AttentionOpInterface> ops,
                         ArrayRef<std::unique_ptr<ShardKernels>> kernels,
                         const CostAssumptions &assumptions) {
  ChunkPlacement placement{group.all / group.ranks, /*chunksPerRank=*/2};
  for (auto [op, of] : llvm::zip_equal(ops, kernels))
    UlyssesWriter(writer, op, *of, group, assumptions).write(placement);
}

MethodTime MethodModel::estimate(RankMethod method, int64_t ranks) {
  MethodTime time;
  time.method = method;
  time.ulyssesDegree = getUlyssesDegree(method, ranks);
  time.obstacle = whyNot(method, ranks);
  if (!time.obstacle.empty())
    return time;
  setBusySeconds(getWholeSeconds(/*busySeconds=*/0) / double(ranks));
  // All ranks of a group do the same, and exchange the rest with one rank of
  // each other group.
  bool isUsp = method == RankMethod::Usp;
  RankLinks between = links;
  if (isUsp)
    between.hostRanks /= time.ulyssesDegree;
  UlyssesGroup group{time.ulyssesDegree, ranks, links};
  ProgramWriter writer(isUsp ? ranks / group.ranks : ranks, between, device);
  if (isUsp || method == RankMethod::Ulysses) {
    writeUlysses(writer, group, ops, kernels, assumptions);
  } else {
    llvm::SmallPtrSet<void *, 4> gathered;
    for (auto [op, of] : llvm::zip_equal(ops, kernels)) {
      if (method == RankMethod::AllGather)
        writeAllGather(writer, op, *of,
                       gathered.insert(op.getKey().getAsOpaquePointer()).second,
                       assumptions);
      else if (method == RankMethod::LightSeq)
        writeLightSeq(writer, op, *of, assumptions);
      else
        RingWriter(writer, op, *of, getRing(method, ranks), /*headParts=*/1,
                   assumptions)
            .write();
    }
  }
  RankTimeline timeline = simulateRanks(writer.get(), writer.getLinks());
  time.seconds = timeline.getSeconds();
  for (const RankTimes &of : timeline.ranks) {
    time.computation = std::max(time.computation, of.computation);
    time.exposed = std::max(time.exposed, of.exposed);
  }
  time.bytesSent = writer.getMostSent();
  time.criticalComputation = timeline.getCriticalComputation();
  time.hiddenShare = timeline.getHiddenShare();
  time.imbalance = timeline.getImbalance();
  return time;
}

SmallVector<MethodTime> MethodModel::estimateAll(ArrayRef<RankMethod> methods,
                                                 int64_t ranks) {
  SmallVector<MethodTime> times;
  for (RankMethod method : methods)
    times.push_back(estimate(method, ranks));
  llvm::sort(times, [](const MethodTime &a, const MethodTime &b) {
    return std::tuple(!a.obstacle.empty(), a.seconds, a.method) <
           std::tuple(!b.obstacle.empty(), b.seconds, b.method);
  });
  return times;
}
