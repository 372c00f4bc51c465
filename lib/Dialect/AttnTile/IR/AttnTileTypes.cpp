//===- AttnTileTypes.cpp - Types of attn_tile -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parsing, printing and verification of the types.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileTypes.h"
#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "attn/Support/KnownNames.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::attn_tile;

/// Parses `64x128xbf16`.
static ParseResult parseTileShape(AsmParser &parser,
                                  SmallVectorImpl<int64_t> &shape,
                                  Type &elementType) {
  return failure(parser.parseDimensionList(shape, /*allowDynamic=*/false) ||
                 parser.parseType(elementType));
}

static void printTileShape(AsmPrinter &printer, ArrayRef<int64_t> shape,
                           Type elementType) {
  for (int64_t size : shape)
    printer << size << 'x';
  printer << elementType;
}

#define GET_TYPEDEF_CLASSES
#include "attn/Dialect/AttnTile/IR/AttnTileTypes.cpp.inc"

void AttnTileDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "attn/Dialect/AttnTile/IR/AttnTileTypes.cpp.inc"
      >();
}

Type AttnTileDialect::parseType(DialectAsmParser &parser) const {
  return attn::parseTypeOrSuggest(*this, parser,
                                  attn::getMnemonics<
#define GET_TYPEDEF_LIST
#include "attn/Dialect/AttnTile/IR/AttnTileTypes.cpp.inc"
                                      >(),
                                  generatedTypeParser);
}

void AttnTileDialect::printType(Type type, DialectAsmPrinter &printer) const {
  (void)generatedTypePrinter(type, printer);
}

static LogicalResult
verifyStagedTile(function_ref<InFlightDiagnostic()> emitError,
                 ArrayRef<int64_t> shape, Type elementType, int64_t cluster) {
  if (shape.size() != 2 || shape[0] <= 0 || shape[1] <= 0)
    return emitError() << "staged tiles must have two positive dimensions";
  if (!elementType.isIntOrFloat())
    return emitError() << "staged tiles must hold integers or floats (was "
                       << elementType << ")";
  if (cluster <= 0 || shape[0] % cluster != 0)
    return emitError() << "'cluster' must be positive and divide the rows of a "
                          "staged tile (was "
                       << cluster << ")";
  return success();
}

LogicalResult BufferType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> shape, Type elementType,
                                 int64_t cluster) {
  return verifyStagedTile(emitError, shape, elementType, cluster);
}

LogicalResult PipeType::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<int64_t> shape, Type elementType,
                               int64_t stages, int64_t cluster) {
  if (failed(verifyStagedTile(emitError, shape, elementType, cluster)))
    return failure();
  if (stages <= 0)
    return emitError() << "'stages' must be positive (was " << stages << ")";
  if (stages > maxStages)
    return emitError() << "'stages' must be at most " << maxStages << " (was "
                       << stages << ")";
  return success();
}

LogicalResult PendingType::verify(function_ref<InFlightDiagnostic()> emitError,
                                  VectorType valueType) {
  if (valueType.getRank() != 2 || valueType.isScalable())
    return emitError() << "MMAs in flight must be vectors of two fixed "
                          "dimensions (was "
                       << valueType << ")";
  return success();
}

LogicalResult
TensorMapType::verify(function_ref<InFlightDiagnostic()> emitError,
                      int64_t rank, ArrayRef<int64_t> box, Type elementType) {
  // CUDA Driver API, "Tensor Map Object Management".
  constexpr int64_t maxRank = 5, maxBoxSize = 256;
  if (rank < 2 || rank > maxRank)
    return emitError() << "tensor maps must have 2 to " << maxRank
                       << " dimensions (was " << rank << ")";
  auto isBoxSize = [](int64_t size) { return size > 0 && size <= maxBoxSize; };
  if (box.size() != 2 || !llvm::all_of(box, isBoxSize))
    return emitError() << "boxes of tensor maps must have two dimensions of 1 "
                          "to "
                       << maxBoxSize;
  if (!elementType.isIntOrFloat())
    return emitError() << "tensor maps must be of integers or floats (was "
                       << elementType << ")";
  return success();
}

Type KeepMaskType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  StringRef form;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() ||
      parser.parseDimensionList(shape, /*allowDynamic=*/false,
                                /*withTrailingX=*/false))
    return {};
  if (succeeded(parser.parseOptionalComma()) &&
      failed(parser.parseOptionalKeyword(&form, {"transposed", "whole"}))) {
    parser.emitError(parser.getCurrentLocation(),
                     "expected 'transposed' or 'whole'");
    return {};
  }
  if (parser.parseGreater())
    return {};
  if (shape.size() != 2) {
    parser.emitError(loc, "keep masks of tiles must have two dimensions");
    return {};
  }
  return parser.getChecked<KeepMaskType>(loc, parser.getContext(), shape[0],
                                         shape[1], form == "transposed",
                                         form == "whole");
}

void KeepMaskType::print(AsmPrinter &printer) const {
  printer << '<' << getRows() << 'x' << getColumns();
  if (getTransposed())
    printer << ", transposed";
  if (getWhole())
    printer << ", whole";
  printer << '>';
}

LogicalResult KeepMaskType::verify(function_ref<InFlightDiagnostic()> emitError,
                                   int64_t rows, int64_t columns, bool, bool) {
  constexpr int64_t multiple = attn::DropoutAttr::keysOfWord;
  for (int64_t size : {rows, columns})
    if (size <= 0 || size % multiple != 0)
      return emitError() << "sizes of a keep mask of a tile must be positive "
                            "multiples of "
                         << multiple << " (was " << rows << "x" << columns
                         << ")";
  return success();
}

Type MaskBitsType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() ||
      parser.parseDimensionList(shape, /*allowDynamic=*/false,
                                /*withTrailingX=*/false) ||
      parser.parseGreater())
    return {};
  if (shape.size() != 2) {
    parser.emitError(loc, "tiles of bits must have two dimensions");
    return {};
  }
  return parser.getChecked<MaskBitsType>(loc, parser.getContext(), shape[0],
                                         shape[1]);
}

void MaskBitsType::print(AsmPrinter &printer) const {
  printer << '<' << getRows() << 'x' << getColumns() << '>';
}

LogicalResult MaskBitsType::verify(function_ref<InFlightDiagnostic()> emitError,
                                   int64_t rows, int64_t columns) {
  for (int64_t size : {rows, columns})
    if (size <= 0 || size % blockRows != 0)
      return emitError() << "sizes of a tile of bits must be positive "
                            "multiples of "
                         << blockRows << " (was " << rows << "x" << columns
                         << ")";
  return success();
}

BufferType PipeType::getBufferType() {
  return BufferType::get(getContext(), getShape(), getElementType(),
                         getCluster());
}
