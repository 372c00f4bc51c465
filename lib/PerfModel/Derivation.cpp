//===- Derivation.cpp - Distributed and streamed axes ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ties the axes of operations together, checks how each can be cut, and tries
// all tiles in steps of the units.
//
//===----------------------------------------------------------------------===//

#include "attn/PerfModel/Derivation.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Chains
//===----------------------------------------------------------------------===//

/// Whether `op` reads the elements of the tensor or buffer `operand`.
static bool isRead(Operation *op, OpOperand &operand) {
  auto destination = dyn_cast<DestinationStyleOpInterface>(op);
  if (!destination || !destination.isDpsInit(&operand))
    return true;
  auto structured = dyn_cast<linalg::LinalgOp>(op);
  return structured &&
         !structured.getMatchingBlockArgument(&operand).use_empty() &&
         !isa_and_nonnull<tensor::EmptyOp, linalg::FillOp>(
             operand.get().getDefiningOp());
}

static ChainTensor makeTensor(Type type) {
  auto shaped = cast<ShapedType>(type);
  ChainTensor tensor;
  tensor.sizes = llvm::to_vector(shaped.getShape());
  Type element = shaped.getElementType();
  tensor.elementBytes =
      element.isIntOrFloat()
          ? int64_t(llvm::divideCeil(element.getIntOrFloatBitWidth(), 8))
          : 8;
  return tensor;
}

/// Ties the axes of a chain's operations together.
class OpChain::Builder {
public:
  explicit Builder(OpChain &chain) : chain(chain) {}

  void build() {
    collectAxes();
    for (auto [number, op] : llvm::enumerate(chain.ops)) {
      for (OpOperand &operand : op->getOpOperands())
        if (isRead(op, operand))
          addRead(number, operand);
      auto destination = cast<DestinationStyleOpInterface>(op);
      for (OpOperand &init : destination.getDpsInitsMutable())
        addWritten(number, destination, init);
    }
    joinAxes();
    nameAxes();
    renumberTensors();
    addHeldTiles();
  }

private:
  void collectAxes();
  DimAxes getDims(unsigned number, OpOperand &operand);
  void addRead(unsigned number, OpOperand &operand);
  void addWritten(unsigned number, DestinationStyleOpInterface op,
                  OpOperand &init);
  void joinAxes();
  void nameAxes();
  void renumberTensors();
  void addHeldTiles();

  /// The axis of the chain that an axis of an operation is part of.
  unsigned getNumber(unsigned axis) {
    return numbers.at(classes.getLeaderValue(axis));
  }
  void renumber(DimAxes &dims) {
    for (std::optional<unsigned> &axis : dims)
      if (axis)
        axis = getNumber(*axis);
  }

  OpChain &chain;
  /// Axes of operations, in one count, with the operation of each; `first` has
  /// the first axis of each operation.
  SmallVector<OpAxis> all;
  SmallVector<unsigned> first, owners;
  /// Axes that tensors tie together, and the number of each class by its
  /// leader.
  llvm::EquivalenceClasses<unsigned> classes;
  std::map<unsigned, unsigned> numbers;
  /// The tensors that operations of the chain compute.
  DenseMap<Value, unsigned> computed;
};

void OpChain::Builder::collectAxes() {
  for (auto [number, op] : llvm::enumerate(chain.ops)) {
    first.push_back(all.size());
    for (OpAxis &axis : cast<StreamableOpInterface>(op).getAxes()) {
      classes.insert(all.size());
      all.push_back(std::move(axis));
      owners.push_back(number);
    }
  }
}

DimAxes OpChain::Builder::getDims(unsigned number, OpOperand &operand) {
  DimAxes dims =
      cast<StreamableOpInterface>(chain.ops[number]).getDimAxes(operand);
  for (std::optional<unsigned> &dim : dims)
    if (dim)
      *dim += first[number];
  return dims;
}

/// Adds a tensor that an operation reads, or the operation to its users.
void OpChain::Builder::addRead(unsigned number, OpOperand &operand) {
  DimAxes dims = getDims(number, operand);
  if (auto it = computed.find(operand.get()); it != computed.end()) {
    ChainTensor &tensor = chain.tensors[it->second];
    dims.resize(tensor.axes.size());
    tensor.users.emplace_back(number, dims);
    for (auto [mine, its] : llvm::zip_equal(dims, tensor.axes))
      if (mine && its)
        classes.unionSets(*mine, *its);
    return;
  }
  if (dims.empty())
    return;
  ChainTensor tensor = makeTensor(operand.get().getType());
  tensor.axes = dims;
  tensor.users.emplace_back(number, dims);
  chain.tensors.push_back(std::move(tensor));
}

/// Adds a tensor that an operation computes.
void OpChain::Builder::addWritten(unsigned number,
                                  DestinationStyleOpInterface op,
                                  OpOperand &init) {
  ChainTensor tensor = makeTensor(init.get().getType());
  tensor.axes = getDims(number, init);
  tensor.producer = number;
  tensor.isStored = true;
  if (isa<TensorType>(init.get().getType())) {
    OpResult result = op.getTiedOpResult(&init);
    computed[result] = chain.tensors.size();
    tensor.isStored = llvm::any_of(result.getUsers(), [&](Operation *user) {
      return !llvm::is_contained(chain.ops, user);
    });
  }
  chain.tensors.push_back(std::move(tensor));
}

/// Numbers the classes in the order of their first members.
void OpChain::Builder::joinAxes() {
  for (auto [number, axis] : llvm::enumerate(all)) {
    auto [it, isNew] =
        numbers.try_emplace(classes.getLeaderValue(number), chain.axes.size());
    if (isNew)
      chain.axes.emplace_back();
    ChainAxis &chained = chain.axes[it->second];
    chained.uses.emplace_back(owners[number], axis);
    if (chained.name.empty())
      chained.name = axis.name;
    if (isNew || ShapedType::isDynamic(chained.size))
      chained.size = axis.size;
  }
}

void OpChain::Builder::nameAxes() {
  llvm::StringMap<unsigned> names;
  for (auto [number, axis] : llvm::enumerate(chain.axes)) {
    if (axis.name.empty())
      axis.name = "d" + std::to_string(number);
    else if (unsigned before = names[axis.name]++)
      axis.name += " " + std::to_string(before + 1);
  }
}

/// Replaces axes of operations by those of the chain.
void OpChain::Builder::renumberTensors() {
  for (ChainTensor &tensor : chain.tensors) {
    renumber(tensor.axes);
    for (DimAxes &dims : llvm::make_second_range(tensor.users))
      renumber(dims);
    if (tensor.axes.size() >= 3 && tensor.axes.front())
      chain.axes[*tensor.axes.front()].isBatch = true;
  }
}

void OpChain::Builder::addHeldTiles() {
  for (auto [number, op] : llvm::enumerate(chain.ops))
    for (HeldTile &tile : cast<StreamableOpInterface>(op).getHeldTiles()) {
      for (unsigned &axis : tile.axes)
        axis = getNumber(axis + first[number]);
      chain.held.emplace_back(number, std::move(tile));
    }
}

OpChain::OpChain(ArrayRef<Operation *> ops) : ops(ops.begin(), ops.end()) {
  Builder(*this).build();
}

bool ChainTensor::isReadWholeBy(unsigned op, unsigned axis) const {
  for (const auto &[user, dims] : users)
    for (auto [its, walked] : llvm::zip_equal(axes, dims))
      if (user == op && its == axis && walked != axis)
        return true;
  return false;
}

const OpAxis *OpChain::find(const ChainAxis &axis, unsigned op) const {
  for (const auto &[number, use] : axis.uses)
    if (number == op)
      return &use;
  return nullptr;
}

std::optional<AxisObstacle> OpChain::whyNotCut(const ChainAxis &axis) const {
  for (size_t i = 0; i < axis.uses.size(); ++i) {
    const auto &[number, use] = axis.uses[i];
    if (use.law == AxisLaw::Whole)
      return AxisObstacle{ops[number], use.text};
    // As in the matmul of a tensor with itself.
    if (i > 0 && axis.uses[i - 1].first == number)
      return AxisObstacle{ops[number], "pairs each piece with all others"};
  }
  return std::nullopt;
}

std::optional<AxisObstacle> OpChain::whyNotDistribute(unsigned number) const {
  const ChainAxis &axis = axes[number];
  if (auto obstacle = whyNotCut(axis))
    return obstacle;
  for (const auto &[op, use] : axis.uses)
    if (use.law == AxisLaw::Merge)
      return AxisObstacle{ops[op], "accumulates along the axis"};
  for (auto [op, operation] : llvm::enumerate(ops))
    if (!find(axis, op))
      return AxisObstacle{operation, "would be repeated by each CTA"};
  for (const ChainTensor &tensor : tensors)
    for (unsigned op : llvm::make_first_range(tensor.users))
      if (tensor.isReadWholeBy(op, number))
        return AxisObstacle{ops[op], "reads all pieces for each of its own"};
  for (const auto &[op, tile] : held)
    if (!llvm::is_contained(tile.axes, number))
      return AxisObstacle{ops[op], "would be repeated in part by each CTA"};
  return std::nullopt;
}

/// Whether `op` is or contains an exponential.
static bool hasExponential(Operation *op) {
  return op
      ->walk([](Operation *nested) {
        return isa<math::ExpOp, math::Exp2Op>(nested) ? WalkResult::interrupt()
                                                      : WalkResult::advance();
      })
      .wasInterrupted();
}

std::optional<AxisObstacle> OpChain::whyNotStream(unsigned number) const {
  const ChainAxis &axis = axes[number];
  if (auto obstacle = whyNotCut(axis))
    return obstacle;
  // Results that are known only after the last piece: accumulated ones, and all
  // that follow from them. `Maximum` ones follow from a maximum.
  enum Completion { Any, Partial, Maximum };
  SmallVector<Completion> results(ops.size(), Any);
  bool merges = false;
  for (auto [op, operation] : llvm::enumerate(ops)) {
    Completion read = Any;
    for (const ChainTensor &tensor : tensors) {
      if (!tensor.producer || !tensor.isReadBy(op))
        continue;
      read = std::max(read, results[*tensor.producer]);
      if (tensor.isReadWholeBy(op, number))
        read = std::max(read, Partial);
    }
    const OpAxis *use = find(axis, op);
    if (use && read != Any) {
      bool isSoftmax = read == Maximum && hasExponential(operation);
      std::string reason = "reads, together with a piece, a result that is "
                           "complete after the last one";
      if (isSoftmax)
        reason += " " + describeMissingLemma(onlineSoftmaxLemma);
      return AxisObstacle{operation, reason};
    }
    results[op] = read;
    if (use && use->law == AxisLaw::Merge) {
      merges = true;
      results[op] =
          StringRef(use->text).starts_with("arith.max") ? Maximum : Partial;
    }
  }
  if (!merges)
    return AxisObstacle{ops.back(), "accumulates nothing along the axis"};
  return std::nullopt;
}

StringRef OpChain::getMerge(unsigned axis) const {
  // The last operation decides: the others compute its operands.
  for (const auto &[op, use] : llvm::reverse(axes[axis].uses))
    if (use.law == AxisLaw::Merge)
      return use.text;
  return "";
}

bool OpChain::isReused(unsigned axis) const {
  return llvm::any_of(tensors, [&](const ChainTensor &tensor) {
    return !tensor.producer && !tensor.has(axis);
  });
}

/// Whether `op` computes matmuls.
static bool isMatmul(Operation *op) {
  auto interface = dyn_cast<CostOpInterface>(op);
  if (!interface)
    return false;
  OpCost cost = interface.getCost({});
  return cost.operations(ExecutionUnit::Mma32b) > 0 ||
         cost.operations(ExecutionUnit::Mma16b) > 0 ||
         cost.operations(ExecutionUnit::Mma8b) > 0;
}

/// `last`, and the operations whose results it uses, back to and including
/// matmuls. Values that do not depend on a matmul are inputs of the chain.
static SmallVector<Operation *> collectChain(StreamableOpInterface last) {
  llvm::SetVector<Operation *> found;
  found.insert(last);
  for (size_t i = 0; i < found.size(); ++i) {
    Operation *op = found[i];
    if (op != last && isMatmul(op))
      continue;
    for (OpOperand &operand : op->getOpOperands()) {
      auto producer = operand.get().getDefiningOp<StreamableOpInterface>();
      if (producer && producer->getBlock() == last->getBlock() &&
          producer.getHeldTiles().empty() && isRead(op, operand))
        found.insert(producer);
    }
  }
  SmallVector<Operation *> sorted = found.takeVector();
  llvm::sort(sorted,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  SmallVector<Operation *> ops;
  for (Operation *op : sorted)
    if (op == last || isMatmul(op) ||
        llvm::any_of(op->getOperands(), [&](Value operand) {
          return llvm::is_contained(ops, operand.getDefiningOp());
        }))
      ops.push_back(op);
  return ops;
}

/// Whether results of `ops` reach `ops` only as their operands: not through
/// other operations, nor through reads in regions.
static bool isClosed(ArrayRef<Operation *> ops) {
  DenseSet<Operation *> members(ops.begin(), ops.end()), others;
  Block *block = ops.front()->getBlock();
  for (Operation &op : llvm::make_range(ops.front()->getIterator(),
                                        std::next(ops.back()->getIterator()))) {
    bool isMember = members.contains(&op);
    bool isOpen = false;
    op.walk([&](Operation *nested) {
      for (Value operand : nested->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        if (!producer || producer->getBlock() != block)
          continue;
        isOpen |= others.contains(producer) ||
                  (members.contains(producer) && (!isMember || nested != &op));
      }
    });
    if (isOpen && isMember)
      return false;
    if (isOpen)
      others.insert(&op);
  }
  return true;
}

std::vector<OpChain> attn::findChains(Region &region) {
  std::vector<OpChain> chains;
  region.walk([&](StreamableOpInterface last) {
    if (!last.getHeldTiles().empty()) {
      chains.emplace_back(last.getOperation());
      return;
    }
    if (!isMatmul(last))
      return;
    SmallVector<Operation *> ops = collectChain(last);
    if (ops.size() > 1 && isClosed(ops))
      chains.emplace_back(ops);
  });
  return chains;
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Stages of streamed operands in shared memory: one that is used and one that
/// arrives.
static constexpr double stages = 2;
/// Times that differ by less than this fraction count as equal.
static constexpr double indifference = 0.015;

namespace {
/// Tries tiles of one chain.
class TileSearch {
public:
  TileSearch(const OpChain &chain, const CostAssumptions &assumptions,
             const TileCapacities &capacities, const DeviceFigures &device);
  Derivation run();

private:
  /// A result of an operation, and the operations between which it is live.
  struct LiveTensor {
    const ChainTensor *tensor;
    unsigned from, to;
    double elements;
  };

  double count(const ChainTensor &tensor, ArrayRef<int64_t> tiles) const;
  SmallVector<LiveTensor> getLiveTensors(std::optional<unsigned> streamed,
                                         ArrayRef<int64_t> tiles) const;
  double countLiveBytes(unsigned op, ArrayRef<LiveTensor> values) const;
  double countHeldBytes(unsigned op, ArrayRef<int64_t> tiles) const;
  double countRegisters(std::optional<unsigned> streamed,
                        ArrayRef<int64_t> tiles) const;
  double countShared(std::optional<unsigned> streamed,
                     ArrayRef<int64_t> tiles) const;
  int64_t getPieces(unsigned axis, int64_t tile) const {
    return int64_t(llvm::divideCeil(sizes[axis], tile));
  }
  Derivation evaluate(std::optional<unsigned> streamed,
                      ArrayRef<int64_t> tiles) const;
  StringRef getLimit(const Derivation &derivation) const;
  void tryTiles(std::optional<unsigned> streamed, unsigned from,
                SmallVector<int64_t> &tiles);

  const OpChain &chain;
  const CostAssumptions &assumptions;
  const TileCapacities &capacities;
  const DeviceFigures &device;
  SmallVector<int64_t> sizes;
  SmallVector<bool> isDistributed, isReused, isMatmulOp;
  /// The arithmetic of all operations, and the fraction of the pieces of a
  /// streamed axis that one of them visits.
  OpCost arithmetic;
  double visited = 0;
  std::vector<Derivation> tried;
};
} // namespace

TileSearch::TileSearch(const OpChain &chain, const CostAssumptions &assumptions,
                       const TileCapacities &capacities,
                       const DeviceFigures &device)
    : chain(chain), assumptions(assumptions), capacities(capacities),
      device(device) {
  for (auto [number, axis] : llvm::enumerate(chain.getAxes())) {
    int64_t size = axis.isBatch ? assumptions.getBatch(axis.size)
                                : assumptions.getSize(axis.size);
    sizes.push_back(std::max<int64_t>(size, 1));
    isDistributed.push_back(!chain.whyNotDistribute(number));
    isReused.push_back(chain.isReused(number));
  }
  for (Operation *op : chain.getOps()) {
    isMatmulOp.push_back(isMatmul(op));
    if (std::optional<OpCost> cost = getOpCost(op, assumptions))
      arithmetic += *cost;
    visited = std::max(
        visited, cast<StreamableOpInterface>(op).getVisitedPart(assumptions));
  }
  arithmetic.traffic = {};
  arithmetic.launches = 1;
}

/// Elements of the part of a tensor that belongs to pieces. Dimensions without
/// an axis, or whose axis is not cut, count as a whole. There are fewer
/// key/value heads than query heads, which share them.
double TileSearch::count(const ChainTensor &tensor,
                         ArrayRef<int64_t> tiles) const {
  double elements = 1;
  for (auto [axis, size] : llvm::zip_equal(tensor.axes, tensor.sizes)) {
    if (!axis) {
      elements *= double(assumptions.getSize(size));
      continue;
    }
    double part = 1;
    if (!ShapedType::isDynamic(size) && size < sizes[*axis])
      part = double(size) / double(sizes[*axis]);
    elements *= std::max(1.0, part * double(tiles[*axis]));
  }
  return elements;
}

/// When the results of operations are live.
SmallVector<TileSearch::LiveTensor>
TileSearch::getLiveTensors(std::optional<unsigned> streamed,
                           ArrayRef<int64_t> tiles) const {
  // Accumulated results are live in all steps.
  unsigned lastStep = 0;
  DenseSet<unsigned> accumulating;
  if (streamed)
    for (const auto &[op, use] : chain.getAxes()[*streamed].uses) {
      lastStep = std::max(lastStep, op);
      if (use.law == AxisLaw::Merge)
        accumulating.insert(op);
    }
  SmallVector<LiveTensor> values;
  for (const ChainTensor &tensor : chain.getTensors()) {
    if (!tensor.producer)
      continue;
    unsigned from = *tensor.producer;
    // Users are sorted.
    unsigned to = tensor.users.empty() ? from : tensor.users.back().first;
    if (accumulating.contains(from)) {
      from = 0;
      to = std::max(to, lastStep);
    }
    values.push_back({&tensor, from, to, count(tensor, tiles)});
  }
  return values;
}

/// Bytes of the tensors that are live while an operation runs.
double TileSearch::countLiveBytes(unsigned op,
                                  ArrayRef<LiveTensor> values) const {
  double bytes = 0;
  // Results of scalar functions reuse the registers of operands that end here.
  double results = 0, ending = 0;
  for (const LiveTensor &live : values) {
    if (op < live.from || op > live.to)
      continue;
    bool isResult = live.from == op && *live.tensor->producer == op;
    bool ends = live.to == op && !isResult;
    if (isResult && !isMatmulOp[op])
      results += live.elements;
    else if (ends && !isMatmulOp[op])
      ending += live.elements;
    else
      bytes += double(registerBytes) * live.elements;
    // Matmuls read operands that are rounded.
    if (isMatmulOp[op] && live.tensor->isReadBy(op))
      bytes += double(live.tensor->elementBytes) * live.elements;
  }
  return bytes + double(registerBytes) * std::max(results, ending);
}

/// Bytes of the tiles that an operation holds in all steps.
double TileSearch::countHeldBytes(unsigned op, ArrayRef<int64_t> tiles) const {
  double bytes = 0;
  for (const auto &[owner, tile] : chain.getHeldTiles()) {
    if (owner != op)
      continue;
    double elements = 1;
    for (unsigned axis : tile.axes)
      elements *= double(tiles[axis]);
    bytes += double(tile.elementBytes) * elements;
  }
  return bytes;
}

double TileSearch::countRegisters(std::optional<unsigned> streamed,
                                  ArrayRef<int64_t> tiles) const {
  SmallVector<LiveTensor> values = getLiveTensors(streamed, tiles);
  double most = 0;
  for (unsigned op = 0, e = chain.getOps().size(); op < e; ++op)
    most =
        std::max(most, countLiveBytes(op, values) + countHeldBytes(op, tiles));
  return most;
}

double TileSearch::countShared(std::optional<unsigned> streamed,
                               ArrayRef<int64_t> tiles) const {
  double bytes = 0;
  for (const ChainTensor &tensor : chain.getTensors()) {
    if (tensor.producer)
      continue;
    bool isStreamed = streamed && tensor.has(*streamed);
    bytes += (isStreamed ? stages : 1) * double(tensor.elementBytes) *
             count(tensor, tiles);
  }
  return bytes;
}

Derivation TileSearch::evaluate(std::optional<unsigned> streamed,
                                ArrayRef<int64_t> tiles) const {
  Derivation result;
  result.streamed = streamed;
  result.tiles = llvm::to_vector(tiles);
  result.registerBytes = countRegisters(streamed, tiles);
  result.sharedBytes = countShared(streamed, tiles);
  result.fits = capacities.getCapacity().fits(
      capacities.getNeed(result.registerBytes, result.sharedBytes));
  // A CTA reads its part of each input once, all of it along axes that are not
  // distributed, and writes its part of the results.
  double ctas = 1;
  SmallVector<int64_t> parts(sizes);
  for (unsigned axis = 0; axis < sizes.size(); ++axis)
    if (isDistributed[axis]) {
      ctas *= double(getPieces(axis, tiles[axis]));
      parts[axis] = std::min(tiles[axis], sizes[axis]);
    }
  result.cost = arithmetic;
  result.cost.steps = ctas;
  if (streamed)
    result.cost.steps *=
        visited * double(getPieces(*streamed, tiles[*streamed]));
  for (const ChainTensor &tensor : chain.getTensors()) {
    if (tensor.producer && !tensor.isStored)
      continue;
    double all = double(tensor.elementBytes) * count(tensor, sizes);
    result.cost.bytes(MemoryLevel::Memory) += all;
    double part = streamed && tensor.has(*streamed) ? visited : 1;
    result.cost.bytes(MemoryLevel::L2) +=
        tensor.producer
            ? all
            : part * ctas * double(tensor.elementBytes) * count(tensor, parts);
  }
  result.time = estimate(result.cost, device);
  return result;
}

StringRef TileSearch::getLimit(const Derivation &derivation) const {
  if (!derivation.streamed)
    return "";
  unsigned axis = *derivation.streamed;
  SmallVector<int64_t> larger = derivation.tiles;
  larger[axis] += capacities.streamUnit;
  if (derivation.tiles[axis] >= sizes[axis])
    return "the axis";
  std::optional<Resource> exceeded =
      capacities.getCapacity().findExceeded(capacities.getNeed(
          countRegisters(axis, larger), countShared(axis, larger)));
  return exceeded ? stringifyResource(*exceeded) : "instruction shape";
}

void TileSearch::tryTiles(std::optional<unsigned> streamed, unsigned from,
                          SmallVector<int64_t> &tiles) {
  if (from == sizes.size()) {
    tried.push_back(evaluate(streamed, tiles));
    return;
  }
  bool isStreamed = streamed && from == *streamed;
  if (!isStreamed && !(isDistributed[from] && isReused[from])) {
    tiles.push_back(isDistributed[from] ? 1 : sizes[from]);
    tryTiles(streamed, from + 1, tiles);
    tiles.pop_back();
    return;
  }
  int64_t unit =
      isStreamed ? capacities.streamUnit : capacities.distributedUnit;
  int64_t most =
      std::min<int64_t>(capacities.maxTile, llvm::alignTo(sizes[from], unit));
  for (int64_t tile = unit; tile <= most; tile += unit) {
    tiles.push_back(tile);
    tryTiles(streamed, from + 1, tiles);
    tiles.pop_back();
  }
}

Derivation TileSearch::run() {
  SmallVector<int64_t> tiles;
  tryTiles(std::nullopt, 0, tiles);
  for (unsigned axis = 0; axis < sizes.size(); ++axis)
    if (!chain.whyNotStream(axis))
      tryTiles(axis, 0, tiles);

  double least = std::numeric_limits<double>::infinity();
  for (const Derivation &each : tried)
    if (each.fits)
      least = std::min(least, each.time.seconds);
  auto getRank = [&](const Derivation &each) {
    if (!each.fits)
      return std::tuple(true,
                        capacities.getCapacity().getLoad(capacities.getNeed(
                            each.registerBytes, each.sharedBytes)),
                        0.0, 0.0);
    return std::tuple(false,
                      std::max(each.time.seconds, (1 + indifference) * least),
                      each.cost.steps, each.cost.bytes(MemoryLevel::L2));
  };
  Derivation best =
      *llvm::min_element(tried, [&](const Derivation &a, const Derivation &b) {
        return getRank(a) < getRank(b);
      });
  best.limit = getLimit(best);
  return best;
}

Derivation attn::derive(const OpChain &chain,
                        const CostAssumptions &assumptions,
                        const TileCapacities &capacities,
                        const DeviceFigures &device) {
  return TileSearch(chain, assumptions, capacities, device).run();
}
