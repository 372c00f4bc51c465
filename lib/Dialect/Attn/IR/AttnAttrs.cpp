//===- AttnAttrs.cpp - Attributes of the attn dialect ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registers the attributes, and implements choices of schedules.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "attn/Support/KnownNames.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::attn;

#include "attn/Dialect/Attn/IR/AttnEnums.cpp.inc"

#include "attn/Dialect/Attn/IR/AttnAttrInterfaces.cpp.inc"

//===----------------------------------------------------------------------===//
// Masks of masks
//===----------------------------------------------------------------------===//

static ParseResult parseMask(AsmParser &parser, MaskAttrInterface &mask) {
  return parser.parseAttribute(mask);
}

static void printMask(AsmPrinter &printer, MaskAttrInterface mask) {
  printer << mask;
}

static ParseResult parseMasks(AsmParser &parser,
                              SmallVector<MaskAttrInterface> &masks) {
  return parser.parseCommaSeparatedList(
      [&] { return parser.parseAttribute(masks.emplace_back()); });
}

static void printMasks(AsmPrinter &printer, ArrayRef<MaskAttrInterface> masks) {
  llvm::interleaveComma(masks, printer);
}

#define GET_ATTRDEF_CLASSES
#include "attn/Dialect/Attn/IR/AttnAttrs.cpp.inc"

#include "attn/Dialect/Attn/IR/AttnStructParameters.cpp.inc"

void AttnDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "attn/Dialect/Attn/IR/AttnAttrs.cpp.inc"
      >();
}

Attribute AttnDialect::parseAttribute(DialectAsmParser &parser,
                                      Type type) const {
  return attn::parseAttributeOrSuggest(*this, parser, type,
                                       attn::getMnemonics<
#define GET_ATTRDEF_LIST
#include "attn/Dialect/Attn/IR/AttnAttrs.cpp.inc"
                                           >(),
                                       generatedAttributeParser,
                                       getStructParameters);
}

void AttnDialect::printAttribute(Attribute attribute,
                                 DialectAsmPrinter &printer) const {
  (void)generatedAttributePrinter(attribute, printer);
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

LogicalResult
ByQueryLengthAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                          int64_t bound, ScheduleAttrInterface below,
                          Attribute from) {
  if (bound < 2)
    return emitError() << "bound must be at least 2 (was " << bound << ")";
  auto choice = dyn_cast<ByQueryLengthAttr>(from);
  if (choice ? choice.getBound() <= bound : !isa<ScheduleAttrInterface>(from))
    return emitError()
           << "'from' must be a schedule, or a choice with a larger "
              "bound than "
           << bound << " (was " << from << ")";
  return success();
}

ScheduleAttrInterface ByQueryLengthAttr::getFor(int64_t queries) const {
  if (queries < getBound())
    return getBelow();
  if (auto choice = dyn_cast<ByQueryLengthAttr>(getFrom()))
    return choice.getFor(queries);
  return cast<ScheduleAttrInterface>(getFrom());
}

bool ByQueryLengthAttr::any(
    function_ref<bool(ScheduleAttrInterface)> holds) const {
  if (holds(getBelow()))
    return true;
  if (auto choice = dyn_cast<ByQueryLengthAttr>(getFrom()))
    return choice.any(holds);
  return holds(cast<ScheduleAttrInterface>(getFrom()));
}
