//===- TargetInfo.cpp - Targets for GPUs ----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What architectures have in common, and the list of targets.
//
//===----------------------------------------------------------------------===//

#include "attn/Target/TargetInfo.h"
#include "PTX.h"
#include "Targets.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::attn;

FailureOr<attn_tile::MmaAttrInterface>
TargetInfo::getMmaOf(attn_tile::MmaStartOp op) const {
  Type lhs = op.getLhs().getType();
  auto buffer = dyn_cast<attn_tile::BufferType>(lhs);
  Type element = buffer ? buffer.getElementType() : getElementTypeOrSelf(lhs);
  auto kernel = op->getParentOfType<attn_tile::KernelOp>();
  bool highest = !kernel || isHighest(kernel.getPrecision());
  auto find = [&](bool isHighest) {
    return cast_if_present<attn_tile::MmaAttrInterface>(
        getMma(element, isHighest));
  };
  attn_tile::MmaAttrInterface given = op.getMmaAttr();
  attn_tile::MmaAttrInterface chosen = find(highest);
  if (!given && chosen)
    return chosen;
  if (!given)
    return op.emitOpError("operands must be ")
           << describeElementTypes() << " on " << getName() << " (were "
           << element << ")";
  if (given == find(true) || given == find(false))
    return given;
  InFlightDiagnostic diagnostic = op.emitOpError("cannot be '")
                                  << given << "' on " << getName();
  if (chosen)
    diagnostic << ", which has '" << chosen << "' for " << element;
  return diagnostic;
}

LogicalResult TargetInfo::emitLocalStore(OpBuilder &,
                                         attn_tile::LocalStoreOp op, ValueRange,
                                         const StagedTile &,
                                         const ThreadPosition &) const {
  return op.emitOpError("cannot store register tiles to shared memory on ")
         << getName();
}

LogicalResult TargetInfo::emitLocalConvert(OpBuilder &,
                                           attn_tile::LocalConvertOp op,
                                           const StagedTile &,
                                           const StagedTile &, Value,
                                           const ThreadPosition &) const {
  return op.emitOpError("cannot convert tiles in shared memory on ")
         << getName();
}

FailureOr<SmallVector<Value>>
TargetInfo::emitRead(OpBuilder &, attn_tile::ReadOp op, const StagedTile &,
                     const ThreadPosition &) const {
  return op.emitOpError("cannot read tiles of several rows on ") << getName();
}

Value TargetInfo::emitTransposeBlock(OpBuilder &builder, Location loc,
                                     Value word) const {
  return ptx::emitWithResults(builder, loc, word.getType(),
                              "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;",
                              "=r,r", word)
      .front();
}

LogicalResult TargetInfo::emitStoreThrough(OpBuilder &,
                                           attn_tile::StoreThroughOp op,
                                           ValueRange, ValueRange, ValueRange,
                                           Value,
                                           const ThreadPosition &) const {
  return op.emitOpError("cannot store through shared memory on ") << getName();
}

void TargetInfo::emitAtomicAdd(OpBuilder &builder, Location loc, Value address,
                               ValueRange values) const {
  for (auto [i, value] : llvm::enumerate(values)) {
    Value element = LLVM::GEPOp::create(
        builder, loc, address.getType(), value.getType(), address,
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    LLVM::AtomicRMWOp::create(builder, loc, LLVM::AtomicBinOp::fadd, element,
                              value, LLVM::AtomicOrdering::monotonic);
  }
}

const TargetInfo *attn::lookupTargetInfo(StringRef name) {
  const Target *target = lookupTarget(name);
  return target ? target->getTargetInfo() : nullptr;
}

FailureOr<const TargetInfo *> attn::lookupTargetInfo(Operation *op,
                                                     StringRef name) {
  if (const TargetInfo *info = lookupTargetInfo(name))
    return info;
  return op->emitError("unknown GPU architecture '")
         << name << "' (expected " << describeGPUTargets() << ")";
}

void attn::registerAllTargets() {
  registerHostTarget();
  registerSM80Target();
  registerSM90aTarget();
}
