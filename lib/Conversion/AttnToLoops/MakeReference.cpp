//===- MakeReference.cpp - f64 references of functions --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adds a reference to each public function of attention: a function that
// computes the same in f64, for any selection of rows. Operations around
// attention are computed in their own types, which define the roundings.
//
//===----------------------------------------------------------------------===//

#include "LinearAttentionToLoops.h"
#include "MergeToLoops.h"
#include "attn/Conversion/AttnToLoops/AttnToLoops.h"
#include "attn/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNMAKEREFERENCEPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

/// Whether references compute the results of `op`.
static bool isComputed(Operation *op) {
  return isa<AttentionOpInterface, LinearAttentionOp, LinearAttentionGradOp,
             MatmulOp, MergeOp, MergeGradOp, linalg::LinalgOp>(op);
}

/// Whether `function` has an operation that could have a reference.
static bool isCandidate(func::FuncOp function) {
  return function.isPublic() && !function.isExternal() &&
         function.getBody()
             .walk([](Operation *op) {
               return isComputed(op) ? WalkResult::interrupt()
                                     : WalkResult::advance();
             })
             .wasInterrupted();
}

/// The memref that `op` makes a view of; null if it makes none.
static Value getViewSource(Operation *op) {
  if (auto view = dyn_cast_if_present<ViewLikeOpInterface>(op))
    return view.getViewSource();
  if (auto transpose = dyn_cast_if_present<memref::TransposeOp>(op))
    return transpose.getIn();
  return {};
}

/// The memref at the end of the chain of views of `memref`.
static Value getViewed(Value memref) {
  while (Value source = getViewSource(memref.getDefiningOp()))
    memref = source;
  return memref;
}

/// Whether `op` computes block masks, or allocates them: references do not need
/// them.
static bool isOfBlockMask(Operation *op) {
  Value buffer;
  if (auto blockMask = dyn_cast<CreateBlockMaskOp>(op))
    return blockMask.getOut().getDefiningOp<memref::AllocOp>();
  if (auto alloc = dyn_cast<memref::AllocOp>(op))
    buffer = alloc;
  else if (auto dealloc = dyn_cast<memref::DeallocOp>(op))
    buffer = dealloc.getMemref();
  return buffer && llvm::all_of(buffer.getUses(), [](OpOperand &use) {
           auto attention = dyn_cast<AttentionOp>(use.getOwner());
           return isa<CreateBlockMaskOp, memref::DeallocOp>(use.getOwner()) ||
                  (attention && attention.getBlockMask() == use.get());
         });
}

namespace {
/// The accesses of a function's operations to its memrefs. Views count as the
/// memrefs that they view.
struct FunctionAccesses {
  /// Arguments that are written.
  llvm::SmallSetVector<Value, 2> outputs;
  /// Memrefs whose elements are read.
  llvm::SmallDenseSet<Value> read;
};
} // namespace

/// Calls `visit` with each memref whose elements `op` reads.
static void forEachRead(Operation *op, function_ref<void(Value)> visit) {
  auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    auto writer = dyn_cast<DestinationStyleOpInterface>(op);
    bool isInit = writer && writer.isDpsInit(&operand);
    if (!isInit || (linalgOp && linalgOp.payloadUsesValueFromOperand(&operand)))
      visit(operand.get());
  }
  visitUsedValuesDefinedAbove(op->getRegions(), [&](OpOperand *operand) {
    if (isa<MemRefType>(operand->get().getType()))
      visit(operand->get());
  });
}

/// Checks that references can compute `op` of a function, if it has effects,
/// and adds the memrefs that it writes. Emits a remark and fails if not.
static LogicalResult findWritten(Operation &op,
                                 SmallVectorImpl<Value> &written) {
  if (isa<memref::AllocOp, memref::DeallocOp, memref::LoadOp>(op))
    return success();
  if (!isComputed(&op)) {
    if (!isMemoryEffectFree(&op) || op.getNumRegions() != 0)
      return op.emitRemark() << "no reference for '" << op.getName() << "'";
    return success();
  }
  auto attention = dyn_cast<AttentionOpInterface>(op);
  if (attention && !attention.isBufferized())
    return op.emitRemark("no reference for attention on tensors");
  auto writer = cast<DestinationStyleOpInterface>(op);
  if (!writer.hasPureBufferSemantics())
    return op.emitRemark() << "no reference for '" << op.getName()
                           << "' on tensors";
  llvm::append_range(written, writer.getDpsInits());
  return success();
}

/// Checks that `op` reads no output of the function before it is written:
/// references begin with other contents. Its regions must not read outputs at
/// all, since they need the stored type, which outputs of references do not
/// have. Emits a remark and fails otherwise.
static LogicalResult verifyReads(Operation &op,
                                 const FunctionAccesses &accesses,
                                 const llvm::SmallDenseSet<Value> &written) {
  if (!isComputed(&op) && !isa<memref::LoadOp>(op))
    return success();
  LogicalResult result = success();
  auto verify = [&](Operation *reader, Value memref, bool inRegion) {
    Value viewed = getViewed(memref);
    if (failed(result) || !accesses.outputs.contains(viewed))
      return;
    if (inRegion || isa<memref::LoadOp>(reader))
      result = reader->emitRemark("no reference for an output that is used");
    else if (!written.contains(viewed))
      result = reader->emitRemark(
          "no reference for an output that is read before it is written");
  };
  forEachRead(&op,
              [&](Value memref) { verify(&op, memref, /*inRegion=*/false); });
  visitUsedValuesDefinedAbove(op.getRegions(), [&](OpOperand *operand) {
    if (isa<MemRefType>(operand->get().getType()))
      verify(operand->getOwner(), operand->get(), /*inRegion=*/true);
  });
  return result;
}

/// Checks that `function` is straight-line code that references can compute,
/// and finds its accesses to memrefs. Emits a remark and fails if not.
static LogicalResult findAccesses(func::FuncOp function,
                                  FunctionAccesses &accesses) {
  if (!function.getBody().hasOneBlock())
    return function.emitRemark("no reference for control flow");
  if (function.getNumResults() != 0)
    return function.emitRemark("no reference for a function with results");
  SmallVector<std::pair<Operation *, SmallVector<Value>>> steps;
  for (Operation &op : function.front().without_terminator()) {
    if (isOfBlockMask(&op))
      continue;
    SmallVector<Value> written;
    if (failed(findWritten(op, written)))
      return failure();
    for (Value &memref : written) {
      memref = getViewed(memref);
      if (isa<BlockArgument>(memref))
        accesses.outputs.insert(memref);
      else if (!memref.getDefiningOp<memref::AllocOp>())
        return op.emitRemark("no reference for an output that is neither an "
                             "argument nor allocated in the function");
    }
    steps.emplace_back(&op, std::move(written));
  }
  llvm::SmallDenseSet<Value> written;
  for (const auto &[op, writtenByOp] : steps) {
    if (failed(verifyReads(*op, accesses, written)))
      return failure();
    if (isComputed(op))
      forEachRead(
          op, [&](Value memref) { accesses.read.insert(getViewed(memref)); });
    written.insert_range(writtenByOp);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// `type` with f64 instead of other floats.
static Type widen(Type type) {
  auto memref = dyn_cast<MemRefType>(type);
  if (!memref || !isa<FloatType>(memref.getElementType()))
    return type;
  return MemRefType::Builder(memref).setElementType(
      Float64Type::get(type.getContext()));
}

namespace {
/// Writes the body of a reference at a builder's insertion point.
class ReferenceWriter {
public:
  ReferenceWriter(OpBuilder &builder, const FunctionAccesses &accesses,
                  IRMapping &mapping, Value rowStep)
      : rewriter(builder), accesses(accesses), mapping(mapping),
        rowStep(rowStep) {}

  LogicalResult write(Operation &op);

private:
  LogicalResult writeAttention(AttentionOpInterface attention);
  LogicalResult writeLinalg(linalg::LinalgOp op);
  /// Writes the region of `op` on elements `arguments`, whose float types may
  /// differ from the region's own.
  void writeBody(linalg::LinalgOp op, OpBuilder &builder, ValueRange arguments,
                 TypeRange resultTypes);

  IRRewriter rewriter;
  const FunctionAccesses &accesses;
  IRMapping &mapping;
  Value rowStep;
};
} // namespace

LogicalResult ReferenceWriter::write(Operation &op) {
  if (isOfBlockMask(&op))
    return success();
  if (auto attention = dyn_cast<AttentionOpInterface>(op))
    return writeAttention(attention);
  if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op))
    return writeLinalg(linalgOp);
  if (auto matmul = dyn_cast<MatmulOp>(op)) {
    writeMatmulLoops(rewriter, matmul, mapping);
    return success();
  }
  if (auto linear = dyn_cast<LinearAttentionOp>(op)) {
    writeLinearAttentionLoops(rewriter, linear, mapping);
    return success();
  }
  if (auto gradient = dyn_cast<LinearAttentionGradOp>(op)) {
    writeLinearAttentionGradLoops(rewriter, gradient, mapping);
    return success();
  }
  if (auto merge = dyn_cast<MergeOp>(op)) {
    writeMergeLoops(rewriter, merge, mapping);
    return success();
  }
  if (auto gradient = dyn_cast<MergeGradOp>(op)) {
    writeMergeGradLoops(rewriter, gradient, mapping);
    return success();
  }
  Operation *clone = rewriter.clone(op, mapping);
  Value source = getViewSource(clone);
  if (source && getElementTypeOrSelf(source.getType()).isF64())
    clone->getResult(0).setType(widen(clone->getResult(0).getType()));
  return success();
}

LogicalResult ReferenceWriter::writeAttention(AttentionOpInterface attention) {
  // Memrefs that other operations read must be computed in full.
  Value step = rowStep;
  for (Value init : attention.getDpsInits()) {
    Value viewed = getViewed(init);
    if (accesses.read.contains(viewed) || !accesses.outputs.contains(viewed))
      step = arith::ConstantIndexOp::create(rewriter, attention.getLoc(), 1);
  }
  return writeLoops(rewriter, attention, mapping, step);
}

void ReferenceWriter::writeBody(linalg::LinalgOp op, OpBuilder &builder,
                                ValueRange arguments, TypeRange resultTypes) {
  Block *body = op.getBlock();
  Location loc = op.getLoc();
  auto convert = [&](Value value, Type type) {
    if (value.getType() == type)
      return value;
    return convertScalarToDtype(builder, loc, value, type,
                                /*isUnsignedCast=*/false);
  };
  IRMapping inner = mapping;
  for (auto [own, given] : llvm::zip_equal(body->getArguments(), arguments))
    inner.map(own, convert(given, own.getType()));
  for (Operation &nested : body->without_terminator())
    builder.clone(nested, inner);
  SmallVector<Value> results;
  for (auto [value, type] :
       llvm::zip_equal(body->getTerminator()->getOperands(), resultTypes))
    results.push_back(convert(inner.lookupOrDefault(value), type));
  linalg::YieldOp::create(builder, loc, results);
}

LogicalResult ReferenceWriter::writeLinalg(linalg::LinalgOp op) {
  SmallVector<Value> inputs, outputs;
  for (OpOperand *operand : op.getDpsInputOperands())
    inputs.push_back(mapping.lookupOrDefault(operand->get()));
  for (Value init : op.getDpsInits())
    outputs.push_back(mapping.lookupOrDefault(init));
  SmallVector<Type> types = llvm::map_to_vector(outputs, [](Value output) {
    return getElementTypeOrSelf(output.getType());
  });
  auto generic = linalg::GenericOp::create(
      rewriter, op.getLoc(), inputs, outputs, op.getIndexingMapsArray(),
      op.getIteratorTypesArray(),
      [&](OpBuilder &builder, Location, ValueRange arguments) {
        writeBody(op, builder, arguments, types);
      });
  // The copy becomes loops, because remaining linalg would become kernels.
  if (failed(linalg::linalgOpToParallelLoops(rewriter, generic)))
    return op.emitOpError("cannot be written as loops");
  rewriter.eraseOp(generic);
  return success();
}

/// Adds the reference of `function` after it.
static LogicalResult makeReference(func::FuncOp function,
                                   const FunctionAccesses &accesses,
                                   StringRef name) {
  OpBuilder builder(function.getContext());
  builder.setInsertionPointAfter(function);
  Location loc = function.getLoc();

  SmallVector<Type> types;
  for (BlockArgument argument : function.getArguments()) {
    Type type = argument.getType();
    types.push_back(accesses.outputs.contains(argument) ? widen(type) : type);
  }
  types.push_back(builder.getIndexType());

  auto reference = cast<func::FuncOp>(builder.cloneWithoutRegions(function));
  reference.setName(name);
  reference.setPrivate();
  reference.setType(builder.getFunctionType(types, {}));
  if (ArrayAttr argAttrs = function.getArgAttrsAttr()) {
    SmallVector<Attribute> attrs(argAttrs.getValue());
    attrs.push_back(builder.getDictionaryAttr({}));
    reference.setArgAttrsAttr(builder.getArrayAttr(attrs));
  }

  SmallVector<Location> locs;
  for (BlockArgument argument : function.getArguments())
    locs.push_back(argument.getLoc());
  locs.push_back(loc);
  Block *body = builder.createBlock(&reference.getBody(), {}, types, locs);
  IRMapping mapping;
  mapping.map(function.getArguments(), body->getArguments().drop_back());
  ReferenceWriter writer(builder, accesses, mapping,
                         body->getArguments().back());
  for (Operation &op : function.front().without_terminator())
    if (failed(writer.write(op)))
      return failure();
  builder.setInsertionPointToEnd(body);
  func::ReturnOp::create(builder, loc);
  return success();
}

namespace {
struct AttnMakeReferencePass
    : public attn::impl::AttnMakeReferencePassBase<AttnMakeReferencePass> {
  using Base::Base;

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    SmallVector<func::FuncOp> functions(llvm::make_filter_range(
        getOperation().getOps<func::FuncOp>(), isCandidate));
    for (func::FuncOp function : functions) {
      std::string name = (function.getName() + ".reference").str();
      if (symbols.lookup(name)) {
        function.emitRemark()
            << "no reference because '" << name << "' exists already";
        continue;
      }
      FunctionAccesses accesses;
      if (failed(findAccesses(function, accesses)))
        continue;
      if (failed(makeReference(function, accesses, name)))
        return signalPassFailure();
      ++numReferences;
    }
  }
};
} // namespace
