//===- StreamableOpInterfaceImpl.cpp - Axes of operations -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The axes of attention, of matmuls and of structured operations.
//
//===----------------------------------------------------------------------===//

#include "attn/PerfModel/StreamableOpInterfaceImpl.h"
#include "attn/Analysis/MaskArea.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Interfaces/StreamableOpInterface.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace mlir;
using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

static int64_t getMaxKeys(AttentionOpInterface op) {
  return op.getAddressing().getMaxKeys(op.getKey(), op.getPageTable());
}

namespace {
/// The online form of attention. Its state is the state of the online softmax,
/// with which the key axis can be streamed.
struct AttentionModel
    : public StreamableOpInterface::ExternalModel<AttentionModel, AttentionOp> {
  enum Axis : unsigned { Batch, Head, Query, Key, QKHeadDim, VHeadDim };

  SmallVector<OpAxis> getAxes(Operation *operation) const {
    auto op = cast<AttentionOp>(operation);
    return {OpAxis::map(getDimSize(op.getQuery(), 0), "batch"),
            OpAxis::map(getDimSize(op.getQuery(), 1), "head"),
            OpAxis::map(getDimSize(op.getQuery(), 2), "query"),
            OpAxis::merge(getMaxKeys(op), onlineSoftmaxLemma, "key"),
            OpAxis::whole(op.getQKHeadDim(),
                          "takes exponentials of complete scores",
                          "qk head dim"),
            OpAxis::map(op.getVHeadDim(), "v head dim")};
  }

  DimAxes getDimAxes(Operation *operation, OpOperand &operand) const {
    auto op = cast<AttentionOp>(operation);
    if (&operand == &op.getQueryMutable())
      return {Batch, Head, Query, QKHeadDim};
    if (&operand == &op.getKeyMutable())
      return {Batch, Head, Key, QKHeadDim};
    if (&operand == &op.getValueMutable())
      return {Batch, Head, Key, VHeadDim};
    if (&operand == &op.getOutMutable())
      return {Batch, Head, Query, VHeadDim};
    if (op.isDpsInit(&operand) || operand.get() == op.getStateLse())
      return {Batch, Head, Query};
    if (operand.get() == op.getStateOut())
      return {Batch, Head, Query, VHeadDim};
    return {};
  }

  double getVisitedPart(Operation *operation,
                        const CostAssumptions &assumptions) const {
    auto op = cast<AttentionOp>(operation);
    double pairs = double(assumptions.getSize(getDimSize(op.getQuery(), 2))) *
                   double(assumptions.getSize(getMaxKeys(op)));
    auto interface = cast<AttentionOpInterface>(operation);
    return pairs == 0 ? 1 : countAttendedPairs(interface, assumptions) / pairs;
  }

  /// Scores as f32, and P, which is multiplied with the values.
  SmallVector<HeldTile> getHeldTiles(Operation *operation) const {
    auto op = cast<AttentionOp>(operation);
    Type element = getElementTypeOrSelf(op.getValue());
    SmallVector<unsigned> axes = {Batch, Head, Query, Key};
    return {
        {axes, 4},
        {axes, int64_t(llvm::divideCeil(element.getIntOrFloatBitWidth(), 8))}};
  }
};

//===----------------------------------------------------------------------===//
// Matmuls
//===----------------------------------------------------------------------===//

struct MatmulModel
    : public StreamableOpInterface::ExternalModel<MatmulModel, MatmulOp> {
  enum Axis : unsigned { Row, Column, Depth, Batch };

  SmallVector<OpAxis> getAxes(Operation *operation) const {
    auto op = cast<MatmulOp>(operation);
    SmallVector<OpAxis> axes = {
        OpAxis::map(getDimSize(op.getLhs(), op.getLhsRowDim()), "row"),
        OpAxis::map(getDimSize(op.getRhs(), op.getRhsColumnDim()), "column"),
        OpAxis::merge(getDimSize(op.getLhs(), op.getLhsDepthDim()),
                      arith::AddFOp::getOperationName(), "depth")};
    if (MatmulOp::isBatched(op.getOut()))
      axes.push_back(OpAxis::map(getDimSize(op.getOut(), 0), "batch"));
    return axes;
  }

  DimAxes getDimAxes(Operation *operation, OpOperand &operand) const {
    auto op = cast<MatmulOp>(operation);
    bool isLhs = &operand == &op.getLhsMutable();
    bool isRhs = &operand == &op.getRhsMutable();
    if (!isLhs && !isRhs && !op.isDpsInit(&operand))
      return {};
    bool isBatched = MatmulOp::isBatched(operand.get());
    DimAxes axes(2 + isBatched);
    if (isBatched)
      axes[0] = Batch;
    if (isLhs) {
      axes[op.getLhsRowDim()] = Row;
      axes[op.getLhsDepthDim()] = Depth;
    } else if (isRhs) {
      axes[op.getRhsDepthDim()] = Depth;
      axes[op.getRhsColumnDim()] = Column;
    } else {
      axes[isBatched] = Row;
      axes[isBatched + 1] = Column;
    }
    return axes;
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Structured operations
//===----------------------------------------------------------------------===//

/// Whether results of `op` do not depend on the order of evaluation, apart from
/// rounding.
static bool isAssociative(Operation *op) {
  return isa<arith::AddFOp, arith::AddIOp, arith::MulFOp, arith::MulIOp,
             arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp,
             arith::MinNumFOp, arith::MaxSIOp, arith::MinSIOp, arith::MaxUIOp,
             arith::MinUIOp, arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op);
}

/// The names of the operations that merge accumulated values of `op`; none if a
/// result is accumulated in another way.
static std::optional<std::string> getCombiners(linalg::LinalgOp op) {
  std::string names;
  for (unsigned i = 0, e = op.getNumDpsInits(); i < e; ++i) {
    SmallVector<Operation *> combiners;
    if (!matchReduction(op.getRegionOutputArgs(), i, combiners) ||
        combiners.size() != 1 || !isAssociative(combiners.front()))
      return std::nullopt;
    StringRef name = combiners.front()->getName().getStringRef();
    if (!StringRef(names).contains(name))
      names += (names.empty() ? "" : ", ") + name.str();
  }
  return names;
}

static SmallVector<OpAxis> getLinalgAxes(Operation *operation) {
  auto op = cast<linalg::LinalgOp>(operation);
  std::optional<std::string> combiners;
  if (op.getNumReductionLoops() > 0)
    combiners = getCombiners(op);
  SmallVector<OpAxis> axes;
  for (auto [size, iterator] :
       llvm::zip_equal(op.getStaticLoopRanges(), op.getIteratorTypesArray())) {
    if (iterator == utils::IteratorType::parallel)
      axes.push_back(OpAxis::map(size));
    else if (combiners)
      axes.push_back(OpAxis::merge(size, *combiners));
    else
      axes.push_back(OpAxis::whole(
          size, "does not accumulate by one associative operation"));
  }
  return axes;
}

static DimAxes getLinalgDimAxes(Operation *operation, OpOperand &operand) {
  auto op = cast<linalg::LinalgOp>(operation);
  DimAxes axes;
  if (!isa<ShapedType>(operand.get().getType()))
    return axes;
  for (AffineExpr expr : op.getMatchingIndexingMap(&operand).getResults()) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    axes.push_back(dim ? std::optional(dim.getPosition()) : std::nullopt);
  }
  return axes;
}

// The model is instantiated for each operation, functions once.
namespace {
template <typename OpTy>
struct LinalgModel
    : public StreamableOpInterface::ExternalModel<LinalgModel<OpTy>, OpTy> {
  SmallVector<OpAxis> getAxes(Operation *operation) const {
    return getLinalgAxes(operation);
  }

  DimAxes getDimAxes(Operation *operation, OpOperand &operand) const {
    return getLinalgDimAxes(operation, operand);
  }
};

/// Each element of a softmax needs the maximum and the sum of all its row.
struct SoftmaxModel
    : public StreamableOpInterface::ExternalModel<SoftmaxModel,
                                                  linalg::SoftmaxOp> {
  SmallVector<OpAxis> getAxes(Operation *operation) const {
    auto op = cast<linalg::SoftmaxOp>(operation);
    SmallVector<OpAxis> axes;
    for (int64_t size : op.getInputOperandType().getShape())
      axes.push_back(OpAxis::map(size));
    OpAxis &row = axes[op.getDimension()];
    row = OpAxis::whole(row.size, "has no head, body and merge along it " +
                                      describeMissingLemma(onlineSoftmaxLemma));
    return axes;
  }

  DimAxes getDimAxes(Operation *operation, OpOperand &) const {
    auto op = cast<linalg::SoftmaxOp>(operation);
    DimAxes axes;
    for (int64_t dim = 0, e = op.getInputOperandType().getRank(); dim < e;
         ++dim)
      axes.push_back(unsigned(dim));
    return axes;
  }
};
} // namespace

template <typename... OpTys>
static void attachLinalgModels(MLIRContext *context) {
  (OpTys::template attachInterface<LinalgModel<OpTys>>(*context), ...);
}

void attn::registerStreamableOpInterfaceExternalModels(
    DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, AttnDialect *) {
    AttentionOp::attachInterface<AttentionModel>(*context);
    MatmulOp::attachInterface<MatmulModel>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    attachLinalgModels<
#define GET_OP_LIST
#include "mlir/Dialect/Linalg/IR/LinalgStructuredOps.cpp.inc"
        >(context);
    linalg::SoftmaxOp::attachInterface<SoftmaxModel>(*context);
  });
}
