//===- BufferizableOpInterfaceImpl.cpp - Bufferisation --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How operations of the attn dialect bufferise.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/Transforms/BufferizableOpInterfaceImpl.h"
#include "attn/Dialect/Attn/IR/AttnCommOps.h"
#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "attn/Dialect/Attn/IR/AttnMergeOps.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/IR/AttnQuantizeOp.h"
#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/IR/DstBufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/Operation.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::bufferization;

/// The buffers of the operands of `op` that are tensors, and its other
/// operands.
static FailureOr<SmallVector<Value>>
getBuffers(Operation *op, RewriterBase &rewriter,
           const BufferizationOptions &options, BufferizationState &state) {
  SmallVector<Value> buffers;
  for (Value operand : op->getOperands()) {
    if (!isa<TensorType>(operand.getType())) {
      buffers.push_back(operand);
      continue;
    }
    FailureOr<Value> buffer = getBuffer(rewriter, operand, options, state);
    if (failed(buffer))
      return failure();
    buffers.push_back(*buffer);
  }
  return buffers;
}

/// Replaces an operation in destination style by the same one on `buffers`.
static void replaceByBufferized(Operation *op, RewriterBase &rewriter,
                                ArrayRef<Value> buffers) {
  rewriter.setInsertionPoint(op);
  OperationState state(op->getLoc(), op->getName(), buffers, TypeRange(),
                       op->getAttrs());
  for (unsigned i = 0, e = op->getNumRegions(); i < e; ++i)
    state.addRegion();
  auto bufferized = cast<DestinationStyleOpInterface>(rewriter.create(state));
  for (auto [from, to] :
       llvm::zip_equal(op->getRegions(), bufferized->getRegions()))
    rewriter.inlineRegionBefore(from, to, to.begin());
  replaceOpWithBufferizedValues(rewriter, op,
                                ValueRange(bufferized.getDpsInits()));
}

namespace {
/// Attention and its gradient read their inputs. They overwrite their inits,
/// except for destinations that regions add to. Operations in regions report
/// the reads of regions.
template <typename OpTy>
struct AttentionModel
    : public DstBufferizableOpInterfaceExternalModel<AttentionModel<OpTy>,
                                                     OpTy> {
  /// The block argument that stands for `operand`, or null.
  static BlockArgument getArgument(Operation *op, OpOperand &operand) {
    for (const RegionDestination &entry :
         cast<AttentionOpInterface>(op).getRegionDestinations())
      if (entry.destination == &operand)
        return entry.argument;
    return {};
  }

  /// The destination that block argument `value` stands for.
  static OpOperand *getDestination(Operation *op, Value value) {
    for (const RegionDestination &entry :
         cast<AttentionOpInterface>(op).getRegionDestinations())
      if (entry.argument == value)
        return entry.destination;
    return nullptr;
  }

  bool bufferizesToMemoryRead(Operation *op, OpOperand &opOperand,
                              const AnalysisState &state) const {
    // Rows that belong to no sequence keep their elements.
    auto attention = cast<AttentionOpInterface>(op);
    return attention.getAddressing().isListed() ||
           !attention.isDpsInit(&opOperand) || getArgument(op, opOperand);
  }

  /// Writes of a block argument are writes of its destination.
  bool isWritable(Operation *op, Value value,
                  const AnalysisState &state) const {
    return true;
  }

  FailureOr<BufferLikeType>
  getBufferType(Operation *op, Value value, const BufferizationOptions &options,
                const BufferizationState &state,
                SmallVector<Value> &invocationStack) const {
    Value source = isa<OpResult>(value)
                       ? cast<DestinationStyleOpInterface>(op)
                             .getTiedOpOperand(cast<OpResult>(value))
                             ->get()
                       : getDestination(op, value)->get();
    return bufferization::getBufferType(source, options, state,
                                        invocationStack);
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter,
                          const BufferizationOptions &options,
                          BufferizationState &state) const {
    auto attention = cast<AttentionOpInterface>(op);
    if (attention.isBufferized())
      return success();

    FailureOr<SmallVector<Value>> buffers =
        getBuffers(op, rewriter, options, state);
    if (failed(buffers))
      return failure();
    for (const RegionDestination &entry : attention.getRegionDestinations()) {
      Value buffer = (*buffers)[entry.destination->getOperandNumber()];
      BlockArgument argument = entry.argument;
      rewriter.setInsertionPointToStart(argument.getOwner());
      Type type = argument.getType();
      rewriter.modifyOpInPlace(op, [&] { argument.setType(buffer.getType()); });
      auto tensor =
          ToTensorOp::create(rewriter, argument.getLoc(), type, argument);
      rewriter.replaceAllUsesExcept(argument, tensor, tensor);
    }
    replaceByBufferized(op, rewriter, *buffers);
    return success();
  }
};

/// Operations that read their inputs and overwrite their inits. Operations in
/// regions report the reads of regions.
template <typename OpTy>
struct DestinationModel
    : public DstBufferizableOpInterfaceExternalModel<DestinationModel<OpTy>,
                                                     OpTy> {
  bool bufferizesToMemoryRead(Operation *op, OpOperand &opOperand,
                              const AnalysisState &) const {
    return !cast<DestinationStyleOpInterface>(op).isDpsInit(&opOperand);
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter,
                          const BufferizationOptions &options,
                          BufferizationState &state) const {
    if (op->getNumResults() == 0)
      return success();
    FailureOr<SmallVector<Value>> buffers =
        getBuffers(op, rewriter, options, state);
    if (failed(buffers))
      return failure();
    replaceByBufferized(op, rewriter, *buffers);
    return success();
  }
};

/// Reads an element of the initial state before it writes the one of the final
/// state, and reads no element that another work item writes: both may be one
/// buffer.
struct LinearAttentionModel
    : public DstBufferizableOpInterfaceExternalModel<LinearAttentionModel,
                                                     LinearAttentionOp> {
  bool bufferizesToMemoryRead(Operation *op, OpOperand &opOperand,
                              const AnalysisState &) const {
    return !cast<LinearAttentionOp>(op).isDpsInit(&opOperand);
  }

  bool isNotConflicting(Operation *op, OpOperand *read, OpOperand *write,
                        const AnalysisState &state) const {
    auto attention = cast<LinearAttentionOp>(op);
    return read->getOwner() == op && write->getOwner() == op &&
           read->get() == attention.getInitialState() &&
           write->get() == attention.getFinalState() &&
           state.areEquivalentBufferizedValues(read->get(), write->get());
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter,
                          const BufferizationOptions &options,
                          BufferizationState &state) const {
    return DestinationModel<LinearAttentionOp>().bufferize(op, rewriter,
                                                           options, state);
  }
};

/// Sends one buffer and receives another. Both are contiguous: others are
/// copied on the way.
template <typename OpTy>
struct CommModel
    : public DstBufferizableOpInterfaceExternalModel<CommModel<OpTy>, OpTy> {
  /// A rank that receives from none keeps the elements of its destination.
  static constexpr bool mayKeepElements = std::is_same_v<OpTy, SendRecvOp>;

  bool bufferizesToMemoryRead(Operation *op, OpOperand &opOperand,
                              const AnalysisState &) const {
    return mayKeepElements ||
           !cast<DestinationStyleOpInterface>(op).isDpsInit(&opOperand);
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter,
                          const BufferizationOptions &options,
                          BufferizationState &state) const {
    auto comm = cast<OpTy>(op);
    if (comm.isBufferized())
      return success();
    FailureOr<SmallVector<Value>> found =
        getBuffers(op, rewriter, options, state);
    if (failed(found))
      return failure();
    SmallVector<Value> buffers = *found;
    Location loc = op->getLoc();
    Value &sent = buffers[comm.getSentMutable().getOperandNumber()];
    Value &received = buffers[comm.getReceivedMutable().getOperandNumber()];
    Value destination = received;
    rewriter.setInsertionPoint(op);
    if (failed(makeContiguous(sent, /*isRead=*/true, loc, rewriter, options)) ||
        failed(
            makeContiguous(received, mayKeepElements, loc, rewriter, options)))
      return failure();
    OperationState newState(loc, op->getName(), buffers, TypeRange(),
                            op->getAttrs());
    rewriter.create(newState);
    if (received != destination &&
        failed(options.createMemCpy(rewriter, loc, received, destination)))
      return failure();
    replaceOpWithBufferizedValues(rewriter, op, destination);
    return success();
  }

private:
  /// Replaces `buffer` by a new one unless it has the identity layout. The new
  /// one has its elements if `isRead`.
  static LogicalResult makeContiguous(Value &buffer, bool isRead, Location loc,
                                      RewriterBase &rewriter,
                                      const BufferizationOptions &options) {
    auto type = cast<MemRefType>(buffer.getType());
    if (type.getLayout().isIdentity())
      return success();
    SmallVector<Value> sizes;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      if (type.isDynamicDim(dim))
        sizes.push_back(memref::DimOp::create(rewriter, loc, buffer, dim));
    FailureOr<Value> contiguous = options.createAlloc(
        rewriter, loc,
        MemRefType::get(type.getShape(), type.getElementType(),
                        MemRefLayoutAttrInterface(), type.getMemorySpace()),
        sizes);
    if (failed(contiguous))
      return failure();
    if (isRead &&
        failed(options.createMemCpy(rewriter, loc, buffer, *contiguous)))
      return failure();
    buffer = *contiguous;
    return success();
  }
};

/// A view.
struct PermuteModel
    : public BufferizableOpInterface::ExternalModel<PermuteModel, PermuteOp> {
  bool bufferizesToMemoryRead(Operation *, OpOperand &,
                              const AnalysisState &) const {
    return false;
  }
  bool bufferizesToMemoryWrite(Operation *, OpOperand &,
                               const AnalysisState &) const {
    return false;
  }
  AliasingValueList getAliasingValues(Operation *op, OpOperand &,
                                      const AnalysisState &) const {
    return {{op->getOpResult(0), BufferRelation::Unknown}};
  }

  static AffineMap getMap(PermuteOp op) {
    return AffineMap::getPermutationMap(op.getPermutation(), op.getContext());
  }

  FailureOr<BufferLikeType>
  getBufferType(Operation *op, Value, const BufferizationOptions &options,
                const BufferizationState &state,
                SmallVector<Value> &invocationStack) const {
    auto permute = cast<PermuteOp>(op);
    FailureOr<BufferLikeType> source = bufferization::getBufferType(
        permute.getSource(), options, state, invocationStack);
    if (failed(source))
      return failure();
    auto type = cast<MemRefType>(*source);
    auto [strides, offset] = type.getStridesAndOffset();
    ArrayRef<int64_t> permutation = permute.getPermutation();
    auto layout = StridedLayoutAttr::get(
        op->getContext(), offset, applyPermutation(strides, permutation));
    return cast<BufferLikeType>(
        MemRefType::get(applyPermutation(type.getShape(), permutation),
                        type.getElementType(), layout, type.getMemorySpace()));
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter,
                          const BufferizationOptions &options,
                          BufferizationState &state) const {
    auto permute = cast<PermuteOp>(op);
    FailureOr<Value> source =
        getBuffer(rewriter, permute.getSource(), options, state);
    if (failed(source))
      return failure();
    replaceOpWithNewBufferizedOp<memref::TransposeOp>(
        rewriter, op, *source, AffineMapAttr::get(getMap(permute)));
    return success();
  }
};

/// Writes a buffer that its parent has chosen. It reads partial results that no
/// other operation sees.
struct AccumulateModel
    : public BufferizableOpInterface::ExternalModel<AccumulateModel,
                                                    AccumulateOp> {
  bool bufferizesToMemoryRead(Operation *, OpOperand &,
                              const AnalysisState &) const {
    return false;
  }
  bool bufferizesToMemoryWrite(Operation *, OpOperand &,
                               const AnalysisState &) const {
    return true;
  }
  bool mustBufferizeInPlace(Operation *, OpOperand &,
                            const AnalysisState &) const {
    return true;
  }
  AliasingValueList getAliasingValues(Operation *, OpOperand &,
                                      const AnalysisState &) const {
    return {};
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter,
                          const BufferizationOptions &options,
                          BufferizationState &state) const {
    auto accumulate = cast<AccumulateOp>(op);
    if (isa<MemRefType>(accumulate.getDestination().getType()))
      return success();
    FailureOr<Value> buffer =
        getBuffer(rewriter, accumulate.getDestination(), options, state);
    if (failed(buffer))
      return failure();
    rewriter.replaceOpWithNewOp<AccumulateOp>(op, accumulate.getValue(),
                                              *buffer, accumulate.getIndices());
    return success();
  }
};

/// Writes some rows of the cache, which keeps the others, and overwrites its
/// other destinations.
struct CacheAppendModel
    : public DstBufferizableOpInterfaceExternalModel<CacheAppendModel,
                                                     CacheAppendOp> {
  bool bufferizesToMemoryRead(Operation *op, OpOperand &opOperand,
                              const AnalysisState &) const {
    auto append = cast<CacheAppendOp>(op);
    return !append.isDpsInit(&opOperand) ||
           opOperand == append.getKeyCacheMutable() ||
           opOperand == append.getValueCacheMutable();
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter,
                          const BufferizationOptions &options,
                          BufferizationState &state) const {
    return DestinationModel<CacheAppendOp>().bufferize(op, rewriter, options,
                                                       state);
  }
};

/// The buffers of results are the buffers of the yielded values.
struct OverlapModel
    : public BufferizableOpInterface::ExternalModel<OverlapModel, OverlapOp> {
  static OpOperand &getYielded(Operation *op, OpResult result) {
    auto overlap = cast<OverlapOp>(op);
    unsigned number = 0, index = result.getResultNumber();
    while (index >= overlap.getYielded(number).size())
      index -= overlap.getYielded(number++).size();
    return overlap.getBodies()[number].front().getTerminator()->getOpOperand(
        index);
  }

  AliasingOpOperandList getAliasingOpOperands(Operation *op, Value value,
                                              const AnalysisState &) const {
    return {
        {&getYielded(op, cast<OpResult>(value)), BufferRelation::Equivalent}};
  }

  FailureOr<BufferLikeType>
  getBufferType(Operation *op, Value value, const BufferizationOptions &options,
                const BufferizationState &state,
                SmallVector<Value> &invocationStack) const {
    Value yielded = getYielded(op, cast<OpResult>(value)).get();
    if (auto buffer = dyn_cast<BufferLikeType>(yielded.getType()))
      return buffer;
    return bufferization::getBufferType(yielded, options, state,
                                        invocationStack);
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter,
                          const BufferizationOptions &,
                          BufferizationState &) const {
    auto overlap = cast<OverlapOp>(op);
    SmallVector<Type> types;
    for (unsigned i = 0; i < overlap.getBodies().size(); ++i)
      llvm::append_range(types, overlap.getYielded(i).getTypes());
    OperationState newState(op->getLoc(), op->getName(), ValueRange(), types,
                            op->getAttrs());
    for (Region &body : overlap.getBodies())
      newState.addRegion()->takeBody(body);
    Operation *bufferized = rewriter.create(newState);
    replaceOpWithBufferizedValues(rewriter, op, bufferized->getResults());
    return success();
  }
};

struct OverlapYieldModel
    : public BufferizableOpInterface::ExternalModel<OverlapYieldModel,
                                                    OverlapYieldOp> {
  bool bufferizesToMemoryRead(Operation *, OpOperand &,
                              const AnalysisState &) const {
    return true;
  }
  bool bufferizesToMemoryWrite(Operation *, OpOperand &,
                               const AnalysisState &) const {
    return false;
  }
  AliasingValueList getAliasingValues(Operation *op, OpOperand &operand,
                                      const AnalysisState &) const {
    auto overlap = cast<OverlapOp>(op->getParentOp());
    unsigned number = op->getParentRegion()->getRegionNumber();
    OpResult result = overlap->getResult(overlap.getFirstResult(number) +
                                         operand.getOperandNumber());
    return {{result, BufferRelation::Equivalent}};
  }
  bool mustBufferizeInPlace(Operation *, OpOperand &,
                            const AnalysisState &) const {
    return true;
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter,
                          const BufferizationOptions &options,
                          BufferizationState &state) const {
    FailureOr<SmallVector<Value>> values =
        getBuffers(op, rewriter, options, state);
    if (failed(values))
      return failure();
    rewriter.replaceOpWithNewOp<OverlapYieldOp>(op, *values);
    return success();
  }
};
} // namespace

void attn::registerBufferizableOpInterfaceExternalModels(
    DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, AttnDialect *) {
    AttentionOp::attachInterface<AttentionModel<AttentionOp>>(*context);
    AttentionGradOp::attachInterface<AttentionModel<AttentionGradOp>>(*context);
    AccumulateOp::attachInterface<AccumulateModel>(*context);
    PermuteOp::attachInterface<PermuteModel>(*context);
    DropoutMaskOp::attachInterface<DestinationModel<DropoutMaskOp>>(*context);
    CacheAppendOp::attachInterface<CacheAppendModel>(*context);
    LinearAttentionOp::attachInterface<LinearAttentionModel>(*context);
    LinearAttentionGradOp::attachInterface<
        DestinationModel<LinearAttentionGradOp>>(*context);
    SendRecvOp::attachInterface<CommModel<SendRecvOp>>(*context);
    AllGatherOp::attachInterface<CommModel<AllGatherOp>>(*context);
    AllToAllOp::attachInterface<CommModel<AllToAllOp>>(*context);
    MergeOp::attachInterface<DestinationModel<MergeOp>>(*context);
    MergeGradOp::attachInterface<DestinationModel<MergeGradOp>>(*context);
    QuantizeOp::attachInterface<DestinationModel<QuantizeOp>>(*context);
    OverlapOp::attachInterface<OverlapModel>(*context);
    OverlapYieldOp::attachInterface<OverlapYieldModel>(*context);
    SequenceIdsOp::attachInterface<DestinationModel<SequenceIdsOp>>(*context);
    AncestorMapOp::attachInterface<DestinationModel<AncestorMapOp>>(*context);
    BlockSparseMapOp::attachInterface<DestinationModel<BlockSparseMapOp>>(
        *context);
    MapHeadsOp::attachInterface<DestinationModel<MapHeadsOp>>(*context);
    MatmulOp::attachInterface<DestinationModel<MatmulOp>>(*context);
    CreateBlockMaskOp::attachInterface<DestinationModel<CreateBlockMaskOp>>(
        *context);
  });
}
