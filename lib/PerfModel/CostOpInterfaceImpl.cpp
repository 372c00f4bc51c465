//===- CostOpInterfaceImpl.cpp - Work of attention and linalg -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Counts for attention and its gradient, structured operations and tensors.
//
//===----------------------------------------------------------------------===//

#include "attn/PerfModel/CostOpInterfaceImpl.h"
#include "attn/Analysis/MaskArea.h"
#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "attn/Dialect/Attn/IR/AttnMergeOps.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Interfaces/CostOpInterface.h"
#include "attn/PerfModel/Capacity.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace mlir::attn;

/// The unit that multiplies matrices with elements of `type`.
static ExecutionUnit getMmaUnit(Type type) {
  unsigned width = type.isIntOrFloat() ? type.getIntOrFloatBitWidth() : 64;
  if (width <= 8)
    return ExecutionUnit::Mma8b;
  return width <= 16 ? ExecutionUnit::Mma16b : ExecutionUnit::Mma32b;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Query heads of all batch entries.
static double getNumHeads(AttentionOpInterface op,
                          const CostAssumptions &assumptions) {
  return double(assumptions.getBatch(getDimSize(op.getQuery(), 0))) *
         double(op.getNumQueryHeads());
}

/// Counts arithmetic and the device's memory, which do not depend on tiles.
static OpCost getAttentionCost(AttentionOpInterface op,
                               const CostAssumptions &assumptions,
                               double pairs) {
  OpCost cost;
  cost.launches = 1;
  Type element = getElementTypeOrSelf(op.getQuery().getType());
  cost.operations(getMmaUnit(element)) = pairs * double(op.getFlopsPerPair());
  // The softmax of one score: a factor and the maximum of its row, subtraction
  // of the maximum and exp2, and the sum; conversion of pairs.
  cost.operations(ExecutionUnit::Fma) = 3.5 * pairs;
  cost.operations(ExecutionUnit::Special) = pairs;
  if (!op.getScoreMod().empty())
    addScalarCost(op.getScoreMod().front(), pairs, cost);

  double bytes = getOperandBytes(op, assumptions);
  llvm::SetVector<Value> captured;
  for (Region &region : op->getRegions())
    getUsedValuesDefinedAbove(region, captured);
  for (Value value : captured)
    bytes += getShapedBytes(value.getType(), assumptions);
  cost.bytes(MemoryLevel::Memory) = bytes;
  return cost;
}

namespace {
struct AttentionModel
    : public CostOpInterface::ExternalModel<AttentionModel, AttentionOp> {
  OpCost getCost(Operation *operation,
                 const CostAssumptions &assumptions) const {
    auto op = cast<AttentionOp>(operation);
    auto interface = cast<AttentionOpInterface>(operation);
    double heads = getNumHeads(interface, assumptions);
    OpCost cost =
        getAttentionCost(interface, assumptions,
                         heads * countAttendedPairs(interface, assumptions));
    // Each tile of queries is read once.
    double queries =
        heads * double(assumptions.getSize(getDimSize(op.getQuery(), 2)));
    if (!op.getQueryRegion().empty())
      addScalarCost(op.getQueryRegion().front(),
                    queries * double(op.getQKHeadDim()), cost);
    if (!op.getEpilogue().empty())
      addScalarCost(op.getEpilogue().front(),
                    queries * double(op.getVHeadDim()), cost);
    ScheduleAttrInterface schedule = interface.getChosenSchedule();
    if (!schedule)
      return cost;
    // A work item reads its queries and writes its output once. Each step reads
    // a tile of keys and values through L2, once for the CTAs of a cluster.
    double keyTile = double(schedule.getKeyTile());
    double bytes = double(getElementBytes(interface.getQuery())) *
                   double(interface.getQKHeadDim() + interface.getVHeadDim());
    double rows = double(assumptions.getSize(getDimSize(op.getQuery(), 2)));
    VisitedTiles tiles(interface, assumptions);
    int64_t cluster = schedule.getClusterSize();
    cost.steps =
        tiles.getNumHeads() * double(cluster) *
        tiles.count(cluster * schedule.getQueryTile(), schedule.getKeyTile())
            .total;
    cost.bytes(MemoryLevel::L2) =
        bytes * (heads * rows + cost.steps * keyTile / double(cluster));
    // Staged tiles are written once, and read by each group of rows, whose MMAs
    // read the staged queries, too.
    if (int64_t rowsPerRead = schedule.getRowsPerRead()) {
      double readers =
          double(llvm::divideCeil(schedule.getQueryTile(), rowsPerRead));
      cost.bytes(MemoryLevel::Shared) =
          bytes * cost.steps * keyTile * (1 + readers) +
          double(getElementBytes(interface.getQuery())) * cost.steps *
              double(schedule.getQueryTile() * interface.getQKHeadDim());
    }
    return cost;
  }
};

struct AttentionGradModel
    : public CostOpInterface::ExternalModel<AttentionGradModel,
                                            AttentionGradOp> {
  OpCost getCost(Operation *operation,
                 const CostAssumptions &assumptions) const {
    auto op = cast<AttentionGradOp>(operation);
    auto interface = cast<AttentionOpInterface>(operation);
    double pairs = getNumHeads(interface, assumptions) *
                   countAttendedPairs(interface, assumptions);
    OpCost cost = getAttentionCost(interface, assumptions, pairs);
    // The gradient of the softmax: a subtraction and a multiplication,
    // converted.
    cost.operations(ExecutionUnit::Fma) += 2.5 * pairs;
    if (!op.getScoreModGrad().empty())
      addScalarCost(op.getScoreModGrad().front(), pairs, cost);
    return cost;
  }
};

/// A kernel that generates keep masks and writes them.
struct DropoutMaskModel
    : public CostOpInterface::ExternalModel<DropoutMaskModel, DropoutMaskOp> {
  OpCost getCost(Operation *operation,
                 const CostAssumptions &assumptions) const {
    auto op = cast<DropoutMaskOp>(operation);
    OpCost cost;
    cost.launches = 1;
    double bytes = getShapedBytes(op.getOut().getType(), assumptions);
    RngWork work = op.getDropout().countKeepWord();
    double words = bytes / 4;
    cost.operations(ExecutionUnit::Integer) = words * double(work.integer);
    cost.operations(ExecutionUnit::WideMultiply) =
        words * double(work.wideMultiply);
    cost.bytes(MemoryLevel::Memory) = bytes;
    return cost;
  }
};

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

struct MatmulModel
    : public CostOpInterface::ExternalModel<MatmulModel, MatmulOp> {
  OpCost getCost(Operation *operation,
                 const CostAssumptions &assumptions) const {
    auto op = cast<MatmulOp>(operation);
    OpCost cost;
    cost.launches = 1;
    auto size = [&](Value value, int64_t dim) {
      return double(assumptions.getSize(getDimSize(value, dim)));
    };
    bool isBatched = MatmulOp::isBatched(op.getOut());
    double batch =
        isBatched ? double(assumptions.getBatch(getDimSize(op.getOut(), 0)))
                  : 1;
    double elements =
        batch * size(op.getOut(), isBatched) * size(op.getOut(), isBatched + 1);
    Type element = getElementTypeOrSelf(op.getLhs().getType());
    cost.operations(getMmaUnit(element)) =
        2 * elements * size(op.getLhs(), op.getLhsDepthDim());
    double bytes = getOperandBytes(operation, assumptions);
    if (!op.getEpilogue().empty()) {
      addScalarCost(op.getEpilogue().front(), elements, cost);
      llvm::SetVector<Value> captured;
      getUsedValuesDefinedAbove(op.getEpilogue(), captured);
      for (Value value : captured)
        bytes += getShapedBytes(value.getType(), assumptions);
    }
    cost.bytes(MemoryLevel::Memory) = bytes;
    return cost;
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Structured operations
//===----------------------------------------------------------------------===//

/// Whether a kernel can start from `init` without reading it.
static bool isConstantInit(Value init) {
  return isa_and_nonnull<tensor::EmptyOp, linalg::FillOp>(init.getDefiningOp());
}

/// Whether all users only start from the tensor that `op` fills.
static bool isFoldedFill(Operation *op) {
  return isa<linalg::FillOp>(op) && op->getNumResults() == 1 &&
         llvm::all_of(op->getUses(), [](OpOperand &use) {
           auto user = dyn_cast<DestinationStyleOpInterface>(use.getOwner());
           return user && user.isDpsInit(&use);
         });
}

static OpCost getLinalgCost(Operation *operation,
                            const CostAssumptions &assumptions) {
  OpCost cost;
  if (isFoldedFill(operation))
    return cost;
  auto op = cast<linalg::LinalgOp>(operation);
  cost.launches = 1;
  double iterations = 1;
  for (int64_t size : op.getStaticLoopRanges())
    iterations *= double(assumptions.getSize(size));
  if (linalg::isaContractionOpInterface(op)) {
    Type element =
        getElementTypeOrSelf(op.getDpsInputOperand(0)->get().getType());
    cost.operations(getMmaUnit(element)) = 2 * iterations;
  } else {
    addScalarCost(*op.getBlock(), iterations, cost);
  }
  double bytes = getOperandBytes(operation, assumptions);
  for (OpOperand &init : op.getDpsInitsMutable())
    if (!op.getMatchingBlockArgument(&init).use_empty() &&
        !isConstantInit(init.get()))
      bytes += getShapedBytes(init.get().getType(), assumptions);
  cost.bytes(MemoryLevel::Memory) = bytes;
  return cost;
}

namespace {
// The model is instantiated for each operation, the function once.
template <typename OpTy>
struct LinalgModel
    : public CostOpInterface::ExternalModel<LinalgModel<OpTy>, OpTy> {
  OpCost getCost(Operation *op, const CostAssumptions &assumptions) const {
    return getLinalgCost(op, assumptions);
  }
};

/// `linalg.softmax`: a maximum, subtractions and exponentials, a sum, a
/// multiplication.
struct SoftmaxModel
    : public CostOpInterface::ExternalModel<SoftmaxModel, linalg::SoftmaxOp> {
  OpCost getCost(Operation *operation,
                 const CostAssumptions &assumptions) const {
    auto op = cast<linalg::SoftmaxOp>(operation);
    double elements = 1;
    for (int64_t size : op.getInputOperandType().getShape())
      elements *= double(assumptions.getSize(size));
    OpCost cost;
    cost.launches = 1;
    cost.operations(ExecutionUnit::Fma) = 4 * elements;
    cost.operations(ExecutionUnit::Special) = elements;
    cost.bytes(MemoryLevel::Memory) = getOperandBytes(operation, assumptions);
    return cost;
  }
};

/// Functions of heads: a kernel that reads and writes once, whether it is
/// written as a region or not.
template <typename OpTy>
struct HeadOpModel
    : public CostOpInterface::ExternalModel<HeadOpModel<OpTy>, OpTy> {
  OpCost getCost(Operation *op, const CostAssumptions &assumptions) const {
    OpCost cost;
    cost.launches = 1;
    double bytes = getOperandBytes(op, assumptions);
    if (auto map = dyn_cast<MapHeadsOp>(op)) {
      auto type = cast<ShapedType>(map.getIn().getType());
      double elements = double(assumptions.getBatch(type.getDimSize(0)));
      for (int64_t size : type.getShape().drop_front())
        elements *= double(assumptions.getSize(size));
      addScalarCost(map.getBody().front(), elements, cost);
      llvm::SetVector<Value> captured;
      getUsedValuesDefinedAbove(map.getBody(), captured);
      captured.remove(map.getIn());
      for (Value value : captured)
        bytes += getShapedBytes(value.getType(), assumptions);
    }
    cost.bytes(MemoryLevel::Memory) = bytes;
    return cost;
  }
};

/// The kernel reads new keys, values and queries, and writes as many.
struct CacheAppendModel
    : public CostOpInterface::ExternalModel<CacheAppendModel, CacheAppendOp> {
  OpCost getCost(Operation *operation,
                 const CostAssumptions &assumptions) const {
    auto op = cast<CacheAppendOp>(operation);
    double bytes = 0;
    double cacheElements = double(getElementBytes(op.getKeyCache())) /
                           double(getElementBytes(op.getKey()));
    for (Value operand : {op.getKey(), op.getValue()})
      bytes +=
          (1 + cacheElements) * getShapedBytes(operand.getType(), assumptions);
    if (op.getQuery())
      bytes += 2 * getShapedBytes(op.getQuery().getType(), assumptions);
    OpCost cost;
    cost.launches = 1;
    cost.bytes(MemoryLevel::Memory) = bytes;
    return cost;
  }
};

} // namespace

/// FLOPs of linear attention for a token and head: matmuls with the state and
/// with the chunk. The delta rule reads the state once more, and multiplies
/// keys by keys and the solution by the triangular matrix.
template <typename OpTy>
static double getFlopsOfToken(OpTy op) {
  double keyDim = op.getKeyHeadDim(), valueDim = op.getValueHeadDim();
  double chunk = op.getCausal() ? op.getChunkOrDefault() : 0;
  double flops = 4 * keyDim * valueDim + 2 * chunk * (keyDim + valueDim);
  if (op.getBeta())
    flops += 2 * keyDim * valueDim + chunk * (2 * keyDim + valueDim);
  return flops;
}

namespace {
/// Linear attention and its gradient read and write their operands. The
/// gradient repeats the matmuls, and has two for each of them.
template <typename OpTy>
struct LinearAttentionModel
    : public CostOpInterface::ExternalModel<LinearAttentionModel<OpTy>, OpTy> {
  OpCost getCost(Operation *operation,
                 const CostAssumptions &assumptions) const {
    auto op = cast<OpTy>(operation);
    double bytes = 0;
    for (Value operand : op->getOperands())
      bytes += getShapedBytes(operand.getType(), assumptions);
    OpCost cost;
    cost.launches = 1;
    cost.bytes(MemoryLevel::Memory) = bytes;
    Value query = op.getQuery();
    double tokens = double(assumptions.getBatch(getDimSize(query, 0))) *
                    double(op.getNumHeads()) *
                    double(assumptions.getSize(getDimSize(query, 2)));
    double repetitions = std::is_same_v<OpTy, LinearAttentionOp> ? 1 : 3;
    cost.operations(getMmaUnit(getElementTypeOrSelf(query.getType()))) =
        repetitions * tokens * getFlopsOfToken(op);
    return cost;
  }
};

/// Merges and their gradients read and write their operands once.
template <typename OpTy>
struct MergeModel
    : public CostOpInterface::ExternalModel<MergeModel<OpTy>, OpTy> {
  OpCost getCost(Operation *op, const CostAssumptions &assumptions) const {
    OpCost cost;
    cost.launches = 1;
    for (Value operand : op->getOperands())
      cost.bytes(MemoryLevel::Memory) +=
          getShapedBytes(operand.getType(), assumptions);
    return cost;
  }
};

/// Operations that move nothing.
template <typename OpTy>
struct FreeModel
    : public CostOpInterface::ExternalModel<FreeModel<OpTy>, OpTy> {
  OpCost getCost(Operation *, const CostAssumptions &) const { return {}; }
};
} // namespace

template <typename... OpTys>
static void attachLinalgModels(MLIRContext *context) {
  (OpTys::template attachInterface<LinalgModel<OpTys>>(*context), ...);
}

template <typename... OpTys>
static void attachFreeModels(MLIRContext *context) {
  (OpTys::template attachInterface<FreeModel<OpTys>>(*context), ...);
}

void attn::registerCostOpInterfaceExternalModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, AttnDialect *) {
    AttentionOp::attachInterface<AttentionModel>(*context);
    AttentionGradOp::attachInterface<AttentionGradModel>(*context);
    DropoutMaskOp::attachInterface<DropoutMaskModel>(*context);
    CacheAppendOp::attachInterface<CacheAppendModel>(*context);
    LinearAttentionOp::attachInterface<LinearAttentionModel<LinearAttentionOp>>(
        *context);
    LinearAttentionGradOp::attachInterface<
        LinearAttentionModel<LinearAttentionGradOp>>(*context);
    MergeOp::attachInterface<MergeModel<MergeOp>>(*context);
    MergeGradOp::attachInterface<MergeModel<MergeGradOp>>(*context);
    MapHeadsOp::attachInterface<HeadOpModel<MapHeadsOp>>(*context);
    MatmulOp::attachInterface<MatmulModel>(*context);
    RmsNormOp::attachInterface<HeadOpModel<RmsNormOp>>(*context);
    RopeOp::attachInterface<HeadOpModel<RopeOp>>(*context);
    attachFreeModels<PermuteOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    attachLinalgModels<
#define GET_OP_LIST
#include "mlir/Dialect/Linalg/IR/LinalgStructuredOps.cpp.inc"
        >(context);
    linalg::SoftmaxOp::attachInterface<SoftmaxModel>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    attachFreeModels<tensor::EmptyOp, tensor::CastOp, tensor::CollapseShapeOp,
                     tensor::ExpandShapeOp>(context);
  });
}
