//===- CommOps.cpp - Communication of ranks -------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers and effects of operations by which ranks communicate.
//
//===----------------------------------------------------------------------===//

#include "Destinations.h"
#include "attn/Dialect/Attn/IR/AttnCommOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::attn;

#define GET_OP_CLASSES
#include "attn/Dialect/Attn/IR/AttnCommOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Common parts
//===----------------------------------------------------------------------===//

namespace {
/// The state of the group: the calls that its ranks have made.
struct GroupResource : SideEffects::Resource::Base<GroupResource> {
  StringRef getName() final { return "attn.comm"; }
};
} // namespace

/// Adds the effects of `op` on memrefs, and on the group: ranks must make the
/// same calls in the same order.
static void addCommEffects(DestinationStyleOpInterface op,
                           EffectList &effects) {
  addOperandEffects(op, effects);
  effects.emplace_back(MemoryEffects::Read::get(), GroupResource::get());
  effects.emplace_back(MemoryEffects::Write::get(), GroupResource::get());
}

/// Checks what all of these operations need of their buffers.
template <typename OpTy>
static LogicalResult verifyBuffers(OpTy op) {
  auto sent = cast<ShapedType>(op.getSent().getType());
  auto received = cast<ShapedType>(op.getReceived().getType());
  if (isa<MemRefType>(sent) != isa<MemRefType>(received))
    return op.emitOpError("operands must be both tensors or both memrefs, but "
                          "'sent' is ")
           << sent << " and 'received' is " << received;
  if (sent.getElementType() != received.getElementType())
    return op.emitOpError("'received' must have the element type of 'sent', ")
           << sent.getElementType() << " (was " << received.getElementType()
           << ")";
  for (auto [name, type] :
       {std::pair<StringRef, ShapedType>{"sent", sent}, {"received", received}})
    if (auto memref = dyn_cast<MemRefType>(type);
        memref && !memref.getLayout().isIdentity())
      return op.emitOpError("'")
             << name << "' must have the identity layout (was " << memref
             << ")";
  return success();
}

/// Checks that `shape` of 'received' is `expected`, whose source is `source`.
static LogicalResult verifyShape(Operation *op, ArrayRef<int64_t> shape,
                                 ArrayRef<int64_t> expected, StringRef source,
                                 int64_t firstDim) {
  for (auto [dim, sizes] : llvm::enumerate(llvm::zip_equal(shape, expected))) {
    auto [actual, size] = sizes;
    if (!ShapedType::isDynamic(actual) && !ShapedType::isDynamic(size) &&
        actual != size)
      return op->emitOpError("dimension ")
             << int64_t(dim) + firstDim << " of 'received' must be dimension "
             << dim << " of '" << source << "', " << size << " (was " << actual
             << ")";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// SendRecvOp
//===----------------------------------------------------------------------===//

void SendRecvOp::getEffects(EffectList &effects) {
  addCommEffects(*this, effects);
}

LogicalResult
SendRecvOp::reifyResultShapes(OpBuilder &builder,
                              ReifiedRankedShapedTypeDims &shapes) {
  return reifyDestinationShapes(builder, *this, shapes);
}

LogicalResult SendRecvOp::verify() { return verifyBuffers(*this); }

//===----------------------------------------------------------------------===//
// AllGatherOp
//===----------------------------------------------------------------------===//

void AllGatherOp::getEffects(EffectList &effects) {
  addCommEffects(*this, effects);
}

LogicalResult
AllGatherOp::reifyResultShapes(OpBuilder &builder,
                               ReifiedRankedShapedTypeDims &shapes) {
  return reifyDestinationShapes(builder, *this, shapes);
}

LogicalResult AllGatherOp::verify() {
  if (failed(verifyBuffers(*this)))
    return failure();
  auto sent = cast<ShapedType>(getSent().getType());
  auto received = cast<ShapedType>(getReceived().getType());
  if (received.getRank() != sent.getRank() + 1)
    return emitOpError("'received' must have the dimensions of 'sent' and one "
                       "more, ")
           << sent.getRank() + 1 << " (was " << received.getRank() << ")";
  return verifyShape(*this, received.getShape().drop_front(), sent.getShape(),
                     "sent", /*firstDim=*/1);
}

//===----------------------------------------------------------------------===//
// AllToAllOp
//===----------------------------------------------------------------------===//

void AllToAllOp::getEffects(EffectList &effects) {
  addCommEffects(*this, effects);
}

LogicalResult
AllToAllOp::reifyResultShapes(OpBuilder &builder,
                              ReifiedRankedShapedTypeDims &shapes) {
  return reifyDestinationShapes(builder, *this, shapes);
}

LogicalResult AllToAllOp::verify() {
  if (failed(verifyBuffers(*this)))
    return failure();
  auto sent = cast<ShapedType>(getSent().getType());
  auto received = cast<ShapedType>(getReceived().getType());
  if (sent.getRank() == 0)
    return emitOpError("'sent' needs a dimension of ranks");
  if (received.getRank() != sent.getRank())
    return emitOpError("'received' must have as many dimensions as 'sent', ")
           << sent.getRank() << " (was " << received.getRank() << ")";
  return verifyShape(*this, received.getShape(), sent.getShape(), "sent",
                     /*firstDim=*/0);
}
