//===- AttnTileAttrs.cpp - Attributes of attn_tile ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers of the attributes and the map of register tiles to threads.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnInterfaces.h"
#include "attn/Dialect/Attn/IR/DeviceFigures.h"
#include "attn/Dialect/AttnTile/IR/AttnTileParameters.h"
#include "attn/Dialect/AttnTile/IR/WarpgroupShapes.h"
#include "attn/Support/KnownNames.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::attn_tile;

#include "attn/Dialect/AttnTile/IR/AttnTileEnums.cpp.inc"

#include "attn/Dialect/AttnTile/IR/AttnTileAttrInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.cpp.inc"

#include "attn/Dialect/AttnTile/IR/AttnTileStructParameters.cpp.inc"

void AttnTileDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.cpp.inc"
      >();
}

Attribute AttnTileDialect::parseAttribute(DialectAsmParser &parser,
                                          Type type) const {
  return attn::parseAttributeOrSuggest(*this, parser, type,
                                       attn::getMnemonics<
#define GET_ATTRDEF_LIST
#include "attn/Dialect/AttnTile/IR/AttnTileAttrs.cpp.inc"
                                           >(),
                                       generatedAttributeParser,
                                       getStructParameters);
}

void AttnTileDialect::printAttribute(Attribute attribute,
                                     DialectAsmPrinter &printer) const {
  (void)generatedAttributePrinter(attribute, printer);
}

using EmitErrorFn = function_ref<InFlightDiagnostic()>;

static LogicalResult verifyPositive(EmitErrorFn emitError, StringRef name,
                                    int64_t value) {
  if (value > 0)
    return success();
  return emitError() << "'" << name << "' must be positive (was " << value
                     << ")";
}

static LogicalResult verifyNotNegative(EmitErrorFn emitError, StringRef name,
                                       int64_t value) {
  if (value >= 0)
    return success();
  return emitError() << "'" << name << "' must not be negative (was " << value
                     << ")";
}

static LogicalResult verifyMultiple(EmitErrorFn emitError, StringRef name,
                                    int64_t value, int64_t factor) {
  if (value > 0 && value % factor == 0)
    return success();
  return emitError() << "'" << name << "' must be a positive multiple of "
                     << factor << " (was " << value << ")";
}

static LogicalResult verifyAtMost(EmitErrorFn emitError, StringRef name,
                                  int64_t value, int64_t bound) {
  if (value <= bound)
    return success();
  return emitError() << "'" << name << "' must be at most " << bound << " (was "
                     << value << ")";
}

/// Stages that a schedule may ask for: fewer than a pipe may have.
static constexpr int64_t maxStages = 64;

static LogicalResult verifyStages(EmitErrorFn emitError, StringRef name,
                                  int64_t value) {
  return failure(failed(verifyPositive(emitError, name, value)) ||
                 failed(verifyAtMost(emitError, name, value, maxStages)));
}

//===----------------------------------------------------------------------===//
// RowBlockLayoutAttr
//===----------------------------------------------------------------------===//

/// Rows of the block that one warp owns, and columns of one instruction atom.
static constexpr int64_t rowsPerWarp = 16;
static constexpr int64_t columnsPerAtom = 8;
/// Columns of the widest wgmma.
static constexpr int64_t maxWgmmaColumns = 256;

LogicalResult RowBlockLayoutParameters::verify(EmitErrorFn emitError) const {
  return verifyPositive(emitError, "warps", warps);
}

//===----------------------------------------------------------------------===//
// PackedGQALayoutAttr
//===----------------------------------------------------------------------===//

LogicalResult PackedGQALayoutParameters::verify(EmitErrorFn emitError) const {
  if (failed(verifyPositive(emitError, "group_size", groupSize)))
    return failure();
  if (rank < 2)
    return emitError() << "'rank' must be at least 2 (was " << rank << ")";
  if (rows < 1 || rows >= rank)
    return emitError() << "'rows' must be a dimension after the first one of "
                       << rank << " dimensions (was " << rows << ")";
  return success();
}

/// The symbols are the offset and the strides of batch, query head, query and
/// so on.
AffineMap PackedGQALayoutAttr::getAffineMap() const {
  MLIRContext *context = getContext();
  AffineExpr place = getAffineSymbolExpr(0, context);
  for (int64_t dim = 0; dim < getRank(); ++dim) {
    AffineExpr index = getAffineDimExpr(dim, context);
    AffineExpr row = getAffineDimExpr(getRows(), context);
    if (dim == getRows())
      index = row.floorDiv(getGroupSize());
    else if (dim == getRows() - 1)
      index = index * getGroupSize() + row % getGroupSize();
    place = place + index * getAffineSymbolExpr(dim + 1, context);
  }
  return AffineMap::get(getRank(), getRank() + 1, place);
}

LogicalResult PackedGQALayoutAttr::verifyLayout(ArrayRef<int64_t> shape,
                                                EmitErrorFn emitError) const {
  if (static_cast<int64_t>(shape.size()) != getRank())
    return emitError() << "packed GQA layout needs a memref of rank "
                       << getRank() << " (has rank " << shape.size() << ")";
  int64_t rows = shape[getRows()];
  if (!ShapedType::isDynamic(rows) && rows % getGroupSize() != 0)
    return emitError() << "packed GQA layout needs a number of rows that is a "
                          "multiple of 'group_size' ("
                       << getGroupSize() << ") in dimension " << getRows()
                       << " (was " << rows << ")";
  return success();
}

LogicalResult PackedGQALayoutAttr::getStridesAndOffset(
    ArrayRef<int64_t>, SmallVectorImpl<int64_t> &, int64_t &) const {
  return failure();
}

//===----------------------------------------------------------------------===//
// RowBlockLayoutAttr
//===----------------------------------------------------------------------===//

int64_t RowBlockLayoutAttr::getNumThreads() const {
  return getWarps() * warpThreads;
}

bool RowBlockLayoutAttr::supports(ArrayRef<int64_t> shape) const {
  if (shape.empty() || shape.size() > 2)
    return false;
  bool isOneRow = shape.size() == 2 && shape[0] == 1;
  if (!isOneRow && shape[0] % (rowsPerWarp * getWarps()) != 0)
    return false;
  return shape.size() == 1 || shape[1] == 1 || shape[1] % columnsPerAtom == 0;
}

int64_t RowBlockLayoutAttr::getRowRegisters(int64_t rows) const {
  return rows == 1 ? 1 : rows / (rowsPerWarp * getWarps()) * 2;
}

int64_t RowBlockLayoutAttr::getColumnRegisters(int64_t columns) const {
  return columns == 1 ? 1 : columns / columnsPerAtom * 2;
}

static Value emitConstant(OpBuilder &builder, Location loc, int32_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

Value RowBlockLayoutAttr::emitBaseRow(OpBuilder &builder, Location loc,
                                      Value thread) const {
  Value warp = arith::ShRUIOp::create(builder, loc, thread,
                                      emitConstant(builder, loc, 5));
  Value lane = arith::AndIOp::create(builder, loc, thread,
                                     emitConstant(builder, loc, 31));
  Value quad =
      arith::ShRUIOp::create(builder, loc, lane, emitConstant(builder, loc, 2));
  Value block = arith::MulIOp::create(builder, loc, warp,
                                      emitConstant(builder, loc, rowsPerWarp));
  return arith::AddIOp::create(builder, loc, block, quad);
}

int64_t RowBlockLayoutAttr::getRowOffset(int64_t r) const {
  return r / 2 * rowsPerWarp * getWarps() + r % 2 * 8;
}

Value RowBlockLayoutAttr::emitBaseColumn(OpBuilder &builder, Location loc,
                                         Value thread) const {
  Value inQuad = arith::AndIOp::create(builder, loc, thread,
                                       emitConstant(builder, loc, 3));
  return arith::ShLIOp::create(builder, loc, inQuad,
                               emitConstant(builder, loc, 1));
}

int64_t RowBlockLayoutAttr::getColumnOffset(int64_t c) const {
  return c / 2 * columnsPerAtom + c % 2;
}

SmallVector<int64_t> RowBlockLayoutAttr::getRowShuffles() const {
  return {1, 2};
}

SmallVector<int64_t> RowBlockLayoutAttr::getColumnShuffles() const {
  return {4, 8, 16};
}

//===----------------------------------------------------------------------===//
// MMA instructions
//===----------------------------------------------------------------------===//

/// Bytes of multiplicands in one step of the contracted dimension: of mma.sync,
/// with tf32 values in words, and of wgmma.
static constexpr int64_t stepBytes = 32;

/// Lanes of a quad, which hold a row together, and the consecutive columns that
/// a lane holds of each atom.
static constexpr int64_t quadLanes = 4, columnsOfLane = 2;

/// The type of elements that are rounded to `multiplicand`.
static Type getMmaElement(Type multiplicand) {
  if (multiplicand.isTF32())
    return Float32Type::get(multiplicand.getContext());
  return multiplicand;
}

/// The columns of an accumulator of `depth` columns that a lane of a quad
/// holds.
static SmallVector<int64_t> getAccumulatorColumns(int64_t depth, int64_t lane) {
  SmallVector<int64_t> columns;
  for (int64_t atom = 0; atom < depth; atom += columnsPerAtom)
    for (int64_t i = 0; i < columnsOfLane; ++i)
      columns.push_back(atom + columnsOfLane * (lane % quadLanes) + i);
  return columns;
}

LogicalResult MmaSyncParameters::verify(EmitErrorFn emitError) const {
  if (!multiplicand.isBF16() && !multiplicand.isF16() && !multiplicand.isTF32())
    return emitError() << "'multiplicand' must be bf16, f16 or tf32 (was "
                       << multiplicand << ")";
  if (terms != 1 && (terms != 3 || !multiplicand.isTF32()))
    return emitError() << "'terms' must be 1"
                       << (multiplicand.isTF32() ? " or 3" : "") << " for "
                       << multiplicand << " (was " << terms << ")";
  return success();
}

Type MmaSyncAttr::getMultiplicandType() const { return getMultiplicand(); }

Type MmaSyncAttr::getElementType() const {
  return getMmaElement(getMultiplicand());
}

Type MmaSyncAttr::getAccumulatorType() const {
  return Float32Type::get(getContext());
}

int64_t MmaSyncAttr::getRows() const { return rowsPerWarp; }
int64_t MmaSyncAttr::getMaxColumns() const { return columnsPerAtom; }

int64_t MmaSyncAttr::getDepth() const {
  return stepBytes * 8 / getElementType().getIntOrFloatBitWidth();
}

int64_t MmaSyncAttr::getNumThreads() const { return warpThreads; }
bool MmaSyncAttr::readsSharedMemory() const { return false; }
bool MmaSyncAttr::supportsMNMajor() const { return true; }

SmallVector<int64_t> MmaSyncAttr::getFragmentIndices(int64_t lane) const {
  return getAccumulatorColumns(getDepth(), lane);
}

int64_t MmaSyncAttr::getNumTerms() const { return getTerms(); }

double MmaSyncAttr::getFlopsPerCycle(const attn::DeviceFigures &device) const {
  return (getMultiplicand().isTF32() ? device.mmaFlopsPerCycle32b
                                     : device.mmaFlopsPerCycle16b) /
         double(getTerms());
}

LogicalResult WgmmaParameters::verify(EmitErrorFn emitError) const {
  if (!isa<BFloat16Type, Float16Type>(multiplicand) &&
      !attn::isFloat8(multiplicand))
    return emitError() << "'multiplicand' must be bf16, f16, f8E4M3FN or "
                          "f8E5M2 (was "
                       << multiplicand << ")";
  return success();
}

Type WgmmaAttr::getMultiplicandType() const { return getMultiplicand(); }
Type WgmmaAttr::getElementType() const { return getMultiplicand(); }

Type WgmmaAttr::getAccumulatorType() const {
  return Float32Type::get(getContext());
}

int64_t WgmmaAttr::getRows() const { return warpgroupRows; }
int64_t WgmmaAttr::getMaxColumns() const { return maxWgmmaColumns; }

int64_t WgmmaAttr::getDepth() const {
  return stepBytes * 8 / getElementType().getIntOrFloatBitWidth();
}

int64_t WgmmaAttr::getNumThreads() const { return warpgroupThreads; }
bool WgmmaAttr::readsSharedMemory() const { return true; }

bool WgmmaAttr::supportsMNMajor() const {
  constexpr unsigned bits = 16;
  return getElementType().getIntOrFloatBitWidth() == bits;
}

SmallVector<int64_t> WgmmaAttr::getFragmentIndices(int64_t lane) const {
  return getAccumulatorColumns(getDepth(), lane);
}

int64_t WgmmaAttr::getNumTerms() const { return 1; }

double WgmmaAttr::getFlopsPerCycle(const attn::DeviceFigures &device) const {
  return attn::isFloat8(getElementType()) ? device.mmaFlopsPerCycle8b
                                          : device.mmaFlopsPerCycle16b;
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

/// Rows or columns of the largest tile. Tiles are unrolled, so larger ones take
/// unbounded compile time and registers.
static constexpr int64_t maxTile = 256;

/// Checks the columns of the result of a work item: a multiple of `step`, which
/// by default is the step of an MMA, or 0.
static LogicalResult verifyHeadDimTile(EmitErrorFn emitError, int64_t tile,
                                       int64_t step = 16) {
  if (tile >= 0 && tile % step == 0)
    return verifyAtMost(emitError, "head_dim_tile", tile, maxTile);
  return emitError() << "'head_dim_tile' must be 0 or a positive multiple of "
                     << step << " (was " << tile << ")";
}

/// CTAs of a cluster that every device has room for, and rows in which stages
/// are swizzled.
static constexpr int64_t maxCluster = 8, swizzleRows = 8;

bool attn_tile::isL2Promotion(int64_t bytes) {
  return llvm::is_contained({0, 64, 128, 256}, bytes);
}

static LogicalResult verifySplitKV(EmitErrorFn emitError, int64_t workItems,
                                   bool balanceSplits) {
  if (failed(verifyNotNegative(emitError, "split_kv_work_items", workItems)))
    return failure();
  if (!balanceSplits || workItems > 0)
    return success();
  return emitError() << "'balance_splits' needs 'split_kv_work_items' above 0";
}

/// Checks the rows of the tile of a work item that `consumers` hold, `tile` as
/// the parameter `name`.
static LogicalResult verifyConsumerRows(EmitErrorFn emitError, StringRef name,
                                        int64_t tile, int64_t consumers,
                                        bool consumerColumns,
                                        int64_t headDimTile) {
  constexpr int64_t rows = 64;
  if (!consumerColumns && tile != consumers * rows)
    return emitError() << "'" << name
                       << "' must be 64 times 'consumers' (expected "
                       << consumers * rows << ", was " << tile << ")";
  if (!consumerColumns)
    return success();
  if (tile != rows)
    return emitError() << "'" << name
                       << "' must be 64 with 'consumer_columns' (was " << tile
                       << ")";
  if (consumers > 1 && headDimTile > 0)
    return success();
  return emitError() << "'consumer_columns' needs at least 2 'consumers' and a "
                        "'head_dim_tile' (were "
                     << consumers << " and " << headDimTile << ")";
}

LogicalResult WarpSpecializedParameters::verify(EmitErrorFn emitError) const {
  if (!isL2Promotion(l2Promotion))
    return emitError() << "'l2_promotion' must be 0, 64, 128 or 256 (was "
                       << l2Promotion << ")";
  if (failed(verifyPositive(emitError, "consumers", consumers)) ||
      failed(verifySplitKV(emitError, splitKvWorkItems, balanceSplits)) ||
      failed(verifyNotNegative(emitError, "score_stages", scoreStages)) ||
      failed(verifyAtMost(emitError, "score_stages", scoreStages, maxStages)) ||
      failed(verifyStages(emitError, "stages", stages)) ||
      failed(verifyStages(emitError, "query_stages", queryStages)) ||
      failed(verifyPositive(emitError, "ctas_per_sm", ctasPerSm)) ||
      failed(verifyAtMost(emitError, "ctas_per_sm", ctasPerSm, 2)) ||
      failed(verifyNotNegative(emitError, "exp2_emulation", exp2Emulation)) ||
      failed(verifyAtMost(emitError, "exp2_emulation", exp2Emulation, 16)) ||
      failed(verifyHeadDimTile(emitError, headDimTile)) ||
      failed(verifyMultiple(emitError, "key_tile", keyTile, 16)))
    return failure();
  if (failed(verifyConsumerRows(emitError, "query_tile", queryTile, consumers,
                                consumerColumns, headDimTile)))
    return failure();
  if (failed(verifyAtMost(emitError, "key_tile", keyTile, maxTile)) ||
      failed(verifyAtMost(emitError, "consumers", consumers, 3)))
    return failure();
  if (interleave < 0)
    return emitError() << "'interleave' must not be negative (was "
                       << interleave << ")";
  if (skipEmptyRows && consumers != 1)
    return emitError() << "'skip_empty_rows' needs 1 of 'consumers' (was "
                       << consumers << ")";
  if (pingPong && consumers < 2)
    return emitError() << "'ping_pong' needs at least 2 'consumers' (was "
                       << consumers << ")";
  if (failed(verifyPositive(emitError, "cluster", cluster)) ||
      failed(verifyAtMost(emitError, "cluster", cluster, maxCluster)))
    return failure();
  // The part of each CTA is whole blocks of eight rows, in which stages are
  // laid out.
  if (keyTile % (cluster * swizzleRows) != 0)
    return emitError() << "'key_tile' must be a multiple of "
                       << cluster * swizzleRows
                       << " with 'cluster' = " << cluster << " (was " << keyTile
                       << ")";
  if (cluster > 1 && (splitKvWorkItems > 0 || packGqa))
    return emitError() << "'cluster' is for many tiles of queries, which "
                          "'split_kv_work_items' and 'pack_gqa' are not (was "
                       << cluster << ")";
  if (maskBits && (splitKvWorkItems > 0 || packGqa || cluster > 1))
    return emitError()
           << "'mask_bits' are of whole rows of tiles, which "
              "'split_kv_work_items', 'pack_gqa' and 'cluster' do not "
              "have";
  return success();
}

/// Kernels of gradients read columns of staged tiles from multiples of this
/// number on.
static constexpr int64_t gradientColumns = 64;

LogicalResult KeyStationaryParameters::verify(EmitErrorFn emitError) const {
  if (failed(verifyPositive(emitError, "consumers", consumers)) ||
      failed(verifyStages(emitError, "stages", stages)) ||
      failed(verifyPositive(emitError, "query_parts", queryParts)) ||
      failed(verifyStages(emitError, "key_stages", keyStages)) ||
      failed(
          verifyMultiple(emitError, "query_tile", queryTile, 16 * queryParts)))
    return failure();
  if (failed(verifyConsumerRows(emitError, "key_tile", keyTile, consumers,
                                consumerColumns, headDimTile)))
    return failure();
  if (failed(verifyAtMost(emitError, "query_tile", queryTile, maxTile)) ||
      failed(verifyAtMost(emitError, "consumers", consumers, 3)))
    return failure();
  if (interleave < 0)
    return emitError() << "'interleave' must not be negative (was "
                       << interleave << ")";
  // Each part finds its rows in the same stages in every step.
  if (stages % queryParts != 0)
    return emitError() << "'stages' must be a multiple of 'query_parts' = "
                       << queryParts << " (was " << stages << ")";
  // A pipelined step waits for parts of the next step before it releases its
  // last part.
  if (pipelined && stages <= queryParts)
    return emitError() << "'pipelined' needs more stages than 'query_parts' = "
                       << queryParts << " (was " << stages << ")";
  if (failed(verifyNotNegative(emitError, "dq_ring_depth", dqRingDepth)) ||
      failed(verifyAtMost(emitError, "dq_ring_depth", dqRingDepth,
                          KeyStationaryAttr::maxDqRingDepth)))
    return failure();
  // CTAs that wait for others must be sure that these have begun.
  if (dqRingDepth > 0 && (traversal == TraversalKind::Grid || interleave != 1))
    return emitError() << "'dq_ring_depth' needs CTAs that iterate over one "
                          "head after the other (was "
                       << dqRingDepth << ")";
  if (orderedDq && (traversal == TraversalKind::Grid || interleave != 1))
    return emitError() << "'ordered_dq' needs CTAs that iterate over one head "
                          "after the other";
  if (orderedDq && dqRingDepth > 0)
    return emitError()
           << "'ordered_dq' and 'dq_ring_depth' need the same idle warps "
              "(was "
           << dqRingDepth << ")";
  if (prefetchWorkItem && traversal == TraversalKind::Grid)
    return emitError() << "'prefetch_work_item' needs CTAs that iterate over "
                          "several work items";
  return verifyHeadDimTile(emitError, headDimTile, gradientColumns);
}

LogicalResult KeyMultistageParameters::verify(EmitErrorFn emitError) const {
  if (failed(verifyPositive(emitError, "warps", warps)) ||
      failed(verifyAtMost(emitError, "warps", warps, maxTile / 16)) ||
      failed(verifyStages(emitError, "stages", stages)) ||
      failed(verifyMultiple(emitError, "query_tile", queryTile, 16)) ||
      failed(verifyAtMost(emitError, "query_tile", queryTile, maxTile)) ||
      failed(verifyMultiple(emitError, "key_tile", keyTile, 16 * warps)) ||
      failed(verifyHeadDimTile(emitError, headDimTile, gradientColumns)))
    return failure();
  return verifyAtMost(emitError, "key_tile", keyTile, maxTile);
}

/// The columns that a kernel of a gradient computes, or 0 for all of them.
static int64_t getGradientColumns(Attribute part) {
  if (auto byKey = dyn_cast_if_present<KeyStationaryAttr>(part))
    return byKey.getHeadDimTile();
  if (auto byKey = dyn_cast_if_present<KeyMultistageAttr>(part))
    return byKey.getHeadDimTile();
  if (auto byQuery = dyn_cast_if_present<WarpSpecializedAttr>(part))
    return byQuery.getHeadDimTile();
  if (auto byQuery = dyn_cast_if_present<MultistageAttr>(part))
    return byQuery.getHeadDimTile();
  return 0;
}

LogicalResult GradientParameters::verify(EmitErrorFn emitError) const {
  auto hasDqRing = [](attn::ScheduleAttrInterface part) {
    auto byKey = dyn_cast_if_present<KeyStationaryAttr>(part);
    return byKey && byKey.getDqRingDepth() > 0;
  };
  if (hasDqRing(dv) || (dq && hasDqRing(dkdv)))
    return emitError() << "'dq_ring_depth' is for 'dkdv' without 'dq'";
  auto isOrderedDq = [](attn::ScheduleAttrInterface part) {
    auto byKey = dyn_cast_if_present<KeyStationaryAttr>(part);
    return byKey && byKey.getOrderedDq();
  };
  if (isOrderedDq(dv) || (dq && isOrderedDq(dkdv)))
    return emitError() << "'ordered_dq' is for 'dkdv' without 'dq'";
  if (getGradientColumns(dkdv) > 0 && (!dq || !dv))
    return emitError() << "'head_dim_tile' of 'dkdv' needs 'dq' and 'dv'";
  if (int64_t columns = getGradientColumns(dq); columns % gradientColumns != 0)
    return emitError() << "'head_dim_tile' of 'dq' must be a multiple of "
                       << gradientColumns << " (was " << columns << ")";
  if (dq)
    return success();
  // Kernels of both schedules access the dQ accumulator, whose fragment order
  // depends on the number of warps.
  auto preprocessOnGPU = dyn_cast<MultistageAttr>(preprocess);
  auto dkdvOnGPU = dyn_cast<KeyStationaryAttr>(dkdv);
  if (preprocessOnGPU && dkdvOnGPU &&
      preprocessOnGPU.getWarps() != 4 * dkdvOnGPU.getConsumers())
    return emitError() << "'preprocess' must have as many warps as the "
                          "consumers of 'dkdv' without 'dq' (expected "
                       << 4 * dkdvOnGPU.getConsumers() << ", found "
                       << preprocessOnGPU.getWarps() << ")";
  return success();
}

LogicalResult
MatmulWarpSpecializedParameters::verify(EmitErrorFn emitError) const {
  if (failed(verifyPositive(emitError, "consumers", consumers)) ||
      failed(verifyStages(emitError, "stages", stages)) ||
      failed(verifyMultiple(emitError, "column_tile", columnTile, 64)) ||
      failed(verifyMultiple(emitError, "depth_tile", depthTile, 64)) ||
      failed(verifyPositive(emitError, "interleave", interleave)))
    return failure();
  if (rowTile != consumers * 64)
    return emitError() << "'row_tile' must be 64 times 'consumers' (expected "
                       << consumers * 64 << ", was " << rowTile << ")";
  return success(
      succeeded(verifyAtMost(emitError, "column_tile", columnTile, maxTile)) &&
      succeeded(verifyAtMost(emitError, "depth_tile", depthTile, maxTile)) &&
      succeeded(verifyAtMost(emitError, "consumers", consumers, 3)));
}

LogicalResult MatmulMultistageParameters::verify(EmitErrorFn emitError) const {
  return success(
      succeeded(verifyPositive(emitError, "warps", warps)) &&
      succeeded(verifyAtMost(emitError, "warps", warps, maxTile / 16)) &&
      succeeded(verifyStages(emitError, "stages", stages)) &&
      succeeded(verifyMultiple(emitError, "row_tile", rowTile, 16 * warps)) &&
      succeeded(verifyMultiple(emitError, "column_tile", columnTile, 16)) &&
      succeeded(verifyMultiple(emitError, "depth_tile", depthTile, 16)) &&
      succeeded(verifyAtMost(emitError, "row_tile", rowTile, maxTile)) &&
      succeeded(verifyAtMost(emitError, "column_tile", columnTile, maxTile)) &&
      succeeded(verifyAtMost(emitError, "depth_tile", depthTile, maxTile)));
}

LogicalResult LinearMultistageParameters::verify(EmitErrorFn emitError) const {
  return success(
      succeeded(verifyPositive(emitError, "warps", warps)) &&
      succeeded(verifyAtMost(emitError, "warps", warps, maxTile / 16)) &&
      succeeded(verifyStages(emitError, "stages", stages)) &&
      succeeded(verifyPositive(emitError, "local_stages", localStages)) &&
      succeeded(verifyAtMost(emitError, "local_stages", localStages, 2)) &&
      succeeded(verifyMultiple(emitError, "chunk", chunk, 16 * warps)) &&
      succeeded(verifyMultiple(emitError, "value_tile", valueTile, 16)) &&
      succeeded(verifyAtMost(emitError, "chunk", chunk, maxTile)) &&
      succeeded(verifyAtMost(emitError, "value_tile", valueTile, maxTile)) &&
      succeeded(
          verifyNotNegative(emitError, "split_work_items", splitWorkItems)));
}

LogicalResult
LinearWarpSpecializedParameters::verify(EmitErrorFn emitError) const {
  constexpr int64_t maxConsumers = 3;
  return success(
      succeeded(verifyMultiple(emitError, "chunk", chunk, warpgroupRows)) &&
      succeeded(verifyAtMost(emitError, "chunk", chunk,
                             maxConsumers * warpgroupRows)) &&
      succeeded(verifyMultiple(emitError, "value_tile", valueTile, 16)) &&
      succeeded(verifyAtMost(emitError, "value_tile", valueTile, maxTile)) &&
      succeeded(verifyStages(emitError, "stages", stages)) &&
      succeeded(verifyPositive(emitError, "local_stages", localStages)) &&
      succeeded(verifyAtMost(emitError, "local_stages", localStages, 2)) &&
      succeeded(verifyPositive(emitError, "ctas_per_sm", ctasPerSm)) &&
      succeeded(verifyAtMost(emitError, "ctas_per_sm", ctasPerSm, 2)) &&
      succeeded(
          verifyNotNegative(emitError, "split_work_items", splitWorkItems)));
}

LogicalResult LinearRecurrentParameters::verify(EmitErrorFn emitError) const {
  if (valueTile == 8 || valueTile == 16 || valueTile == 32)
    return success();
  return emitError() << "'value_tile' must be 8, 16 or 32 (was " << valueTile
                     << ")";
}

LogicalResult ByWorkItemsParameters::verify(EmitErrorFn emitError) const {
  if (failed(verifyNotNegative(emitError, "more_than", moreThan)))
    return failure();
  if (atMost <= moreThan)
    return emitError() << "'at_most' must be larger than 'more_than', which is "
                       << moreThan << " (was " << atMost << ")";
  for (auto [name, part] : {std::make_pair(StringRef("within"), within),
                            std::make_pair(StringRef("otherwise"), otherwise)})
    if (!isa<LinearMultistageAttr, LinearWarpSpecializedAttr>(part))
      return emitError() << "'" << name
                         << "' must be #attn_tile.linear_multistage or "
                         << "#attn_tile.linear_warp_specialized (was "
                         << Attribute(part) << ")";
  if (within.getHeadDimTile() == otherwise.getHeadDimTile())
    return success();
  return emitError() << "'within' and 'otherwise' must have the same "
                     << "'value_tile' (were " << Attribute(within) << " and "
                     << Attribute(otherwise) << ")";
}

/// Tokens of a chunk of kernels with pair matrices, and their warps.
static constexpr int64_t chunkOfPairs = 64, warpsOfPairs = 4;

/// Whether warps multiply in kernels with pair matrices with schedule `part`.
static bool isPairsByWarps(attn::ScheduleAttrInterface part) {
  auto schedule = dyn_cast<LinearMultistageAttr>(part);
  return schedule && schedule.getChunk() == chunkOfPairs &&
         schedule.getWarps() == warpsOfPairs;
}

/// Checks a part of the schedule of kernels with pair matrices, for kernels in
/// which warps multiply.
static LogicalResult verifyPairsPart(EmitErrorFn emitError, StringRef name,
                                     attn::ScheduleAttrInterface part) {
  if (isPairsByWarps(part))
    return success();
  return emitError() << "'" << name << "' must be #attn_tile.linear_multistage "
                     << "with chunks of 64 and 4 warps (was " << Attribute(part)
                     << ")";
}

/// Checks a part of the schedule of kernels with pair matrices, for kernels
/// that go through chunks.
static LogicalResult verifyChunksPart(EmitErrorFn emitError, StringRef name,
                                      attn::ScheduleAttrInterface part) {
  auto withProducer = dyn_cast<LinearWarpSpecializedAttr>(part);
  if (isPairsByWarps(part) ||
      (withProducer && withProducer.getChunk() == chunkOfPairs))
    return success();
  return emitError() << "'" << name << "' must be #attn_tile.linear_multistage "
                     << "with 4 warps, or #attn_tile.linear_warp_specialized, "
                     << "and have chunks of 64 (was " << Attribute(part) << ")";
}

LogicalResult LinearPairsParameters::verify(EmitErrorFn emitError) const {
  if (failed(verifyPairsPart(emitError, "pairs", pairs)) ||
      (levels && failed(verifyPairsPart(emitError, "levels", levels))) ||
      (starts && failed(verifyPairsPart(emitError, "starts", starts))))
    return failure();
  if (failed(verifyChunksPart(emitError, "chunks", chunks)) ||
      (gradients &&
       failed(verifyChunksPart(emitError, "gradients", gradients))))
    return failure();
  if (bool(starts) != (chunks.getSplitKvWorkItems() != 0))
    return emitError()
           << "'split_work_items' of 'chunks' must be positive with "
           << "'starts', and 0 without (was " << chunks.getSplitKvWorkItems()
           << ")";
  if (starts && narrow)
    return emitError() << "'narrow' must not be given with 'starts'";
  if (!narrow) {
    if (narrowWorkItems == 0)
      return success();
    return emitError() << "'narrow_work_items' needs 'narrow'";
  }
  if (failed(verifyChunksPart(emitError, "narrow", narrow)) ||
      failed(verifyPositive(emitError, "narrow_work_items", narrowWorkItems)))
    return failure();
  if (narrow.getHeadDimTile() < chunks.getHeadDimTile())
    return success();
  return emitError() << "'value_tile' of 'narrow' must be less than that of "
                     << "'chunks' (expected less than "
                     << chunks.getHeadDimTile() << ", was "
                     << narrow.getHeadDimTile() << ")";
}

LogicalResult MatmulSequentialParameters::verify(EmitErrorFn emitError) const {
  return success(
      succeeded(verifyPositive(emitError, "row_tile", rowTile)) &&
      succeeded(verifyPositive(emitError, "column_tile", columnTile)) &&
      succeeded(verifyPositive(emitError, "depth_tile", depthTile)));
}

LogicalResult ScalarParameters::verify(EmitErrorFn emitError) const {
  constexpr int64_t maxWarps = 32;
  return success(succeeded(verifyPositive(emitError, "warps", warps)) &&
                 succeeded(verifyAtMost(emitError, "warps", warps, maxWarps)));
}

LogicalResult MoveRowsParameters::verify(EmitErrorFn emitError) const {
  constexpr int64_t maxChunks = 1 << 20;
  if (failed(verifyPositive(emitError, "chunks", chunks)) ||
      failed(verifyAtMost(emitError, "chunks", chunks, maxChunks)) ||
      failed(verifyPositive(emitError, "together", together)) ||
      failed(verifyAtMost(emitError, "together", together, chunks)))
    return failure();
  if (threads == 1 || threads == warpThreads)
    return success();
  return emitError() << "'threads' must be 1 or " << warpThreads << " (was "
                     << threads << ")";
}

LogicalResult MultistageParameters::verify(EmitErrorFn emitError) const {
  if (failed(verifyPositive(emitError, "warps", warps)) ||
      failed(verifyHeadDimTile(emitError, headDimTile)) ||
      failed(verifySplitKV(emitError, splitKvWorkItems, balanceSplits)) ||
      failed(verifyAtMost(emitError, "warps", warps, maxTile / 16)) ||
      failed(verifyStages(emitError, "stages", stages)) ||
      failed(verifyMultiple(emitError, "key_tile", keyTile, 16)) ||
      failed(verifyAtMost(emitError, "key_tile", keyTile, maxTile)) ||
      failed(verifyMultiple(emitError, "query_tile", queryTile, 16 * warps)))
    return failure();
  return verifyAtMost(emitError, "query_tile", queryTile, maxTile);
}

LogicalResult SequentialParameters::verify(EmitErrorFn emitError) const {
  if (failed(verifyPositive(emitError, "query_tile", queryTile)) ||
      failed(verifySplitKV(emitError, splitKvWorkItems, balanceSplits)) ||
      failed(verifyAtMost(emitError, "query_tile", queryTile, maxTile)) ||
      failed(verifyMultiple(emitError, "key_tile", keyTile, 8)))
    return failure();
  return verifyAtMost(emitError, "key_tile", keyTile, maxTile);
}
