//===- AttnDialect.cpp - The attn dialect ---------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registers the operations and attributes of the dialect.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnDialect.h"
#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "attn/Dialect/Attn/IR/AttnCommOps.h"
#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "attn/Dialect/Attn/IR/AttnMergeOps.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/IR/AttnQuantizeOp.h"
#include "attn/Dialect/Attn/IR/TileDensity.h"
#include "attn/Support/KnownNames.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Transforms/InliningUtils.h"

using namespace mlir;
using namespace mlir::attn;

#include "attn/Dialect/Attn/IR/AttnDialect.cpp.inc"

namespace {
/// Operations of the dialect compute the same wherever they are.
struct AttnInlinerInterface : public DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;

  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final {
    return true;
  }
};
} // namespace

void AttnDialect::initialize() {
  addInterfaces<AttnInlinerInterface>();
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "attn/Dialect/Attn/IR/AttnOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "attn/Dialect/Attn/IR/AttnCommOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "attn/Dialect/Attn/IR/AttnLinearOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "attn/Dialect/Attn/IR/AttnMergeOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "attn/Dialect/Attn/IR/AttnQuantizeOp.cpp.inc"
      >();
}

std::optional<Dialect::ParseOpHook>
AttnDialect::getParseOperationHook(StringRef) const {
  return ParseOpHook(attn::suggestOperation);
}

/// Checks a unit attribute of attention.
static LogicalResult verifyUnit(Operation *op, StringRef name,
                                Attribute value) {
  if (!isa<AttentionOpInterface>(op))
    return op->emitOpError("must compute attention to have '") << name << "'";
  if (!isa<UnitAttr>(value))
    return op->emitOpError("'")
           << name << "' must be a unit attribute (was " << value << ")";
  return success();
}

static LogicalResult verifyDevice(Operation *op, Attribute value) {
  StringRef name = AttnDialect::getDeviceAttrName();
  if (!isa<ModuleOp>(op))
    return op->emitOpError("cannot have '")
           << name << "' (expected on a module)";
  if (!isa<DeviceAttr>(value))
    return op->emitOpError("'")
           << name << "' must be #attn.device (was " << value << ")";
  return success();
}

static LogicalResult verifyTileDensity(Operation *op, Attribute value) {
  if (!isa<AttentionOpInterface>(op))
    return op->emitOpError("must compute attention to have '")
           << tileDensityAttrName << "'";
  auto parts = dyn_cast<DenseF64ArrayAttr>(value);
  auto isPart = [](double part) { return part >= 0 && part <= 1; };
  if (!parts || parts.size() != 2 || !llvm::all_of(parts.asArrayRef(), isPart))
    return op->emitOpError("'")
           << tileDensityAttrName
           << "' must be two numbers from 0 to 1, as array<f64: 0.5, 0.1> (was "
           << value << ")";
  return success();
}

std::optional<TileDensity> attn::getTileDensity(AttentionOpInterface op) {
  auto parts = op->getAttrOfType<DenseF64ArrayAttr>(tileDensityAttrName);
  if (!parts)
    return std::nullopt;
  return TileDensity{parts[0], parts[1]};
}

LogicalResult AttnDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == getStaticTilesAttrName() || name == getClassifiedTilesAttrName())
    return verifyUnit(op, name, attribute.getValue());
  if (attribute.getName() == getDeviceAttrName())
    return verifyDevice(op, attribute.getValue());
  if (attribute.getName() == tileDensityAttrName)
    return verifyTileDensity(op, attribute.getValue());
  return success();
}
