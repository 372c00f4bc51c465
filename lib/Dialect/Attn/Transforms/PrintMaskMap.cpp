//===- PrintMaskMap.cpp - Pictures of what masks cost ---------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Draws which tiles of the score matrix kernels visit, and which of them with
// code for masks. The ranges are those that kernels walk over: their code is
// emitted for each tile of queries and folded.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskTiles.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNPRINTMASKMAPPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Tiles `[begin, end)` of a row of tiles.
struct TileRun {
  int64_t row, begin, end;
};

/// What a picture shows.
struct MaskMap {
  std::string title;
  int64_t queryTile = 0, keyTile = 0;
  int64_t numRows = 0, numColumns = 0;
  SmallVector<TileRun> masked, full;
  /// Whether only data says which pairs of masked tiles are kept.
  bool readsData = false;
};
} // namespace

static int64_t countTiles(ArrayRef<TileRun> runs) {
  int64_t count = 0;
  for (const TileRun &run : runs)
    count += run.end - run.begin;
  return count;
}

/// Adds `ranges` of tiles in `row`; fails if they are no constants.
static LogicalResult addRuns(ArrayRef<IndexRange> ranges, int64_t row,
                             SmallVectorImpl<TileRun> &runs) {
  for (const IndexRange &range : ranges) {
    std::optional<int64_t> begin = getConstantIntValue(range.begin);
    std::optional<int64_t> end = getConstantIntValue(range.end);
    if (!begin || !end)
      return failure();
    if (*begin < *end)
      runs.push_back({row, *begin, *end});
  }
  return success();
}

static void drawRuns(raw_ostream &os, ArrayRef<TileRun> runs, StringRef kind,
                     int64_t cell, int64_t left, int64_t top) {
  for (const TileRun &run : runs)
    os << "  <rect class=\"" << kind << "\" x=\"" << left + run.begin * cell
       << "\" y=\"" << top + run.row * cell << "\" width=\""
       << (run.end - run.begin) * cell << "\" height=\"" << cell << "\"/>\n";
}

/// Writes `map` as JSON.
static void print(raw_ostream &os, const MaskMap &map) {
  llvm::json::OStream json(os, /*IndentSize=*/2);
  auto printRuns = [&](StringRef name, ArrayRef<TileRun> runs) {
    json.attributeArray(name, [&] {
      for (const TileRun &run : runs)
        json.value(llvm::json::Array{run.row, run.begin, run.end});
    });
  };
  json.object([&] {
    json.attribute("title", map.title);
    json.attribute("query_tile", map.queryTile);
    json.attribute("key_tile", map.keyTile);
    json.attribute("rows", map.numRows);
    json.attribute("columns", map.numColumns);
    json.attribute("reads_data", map.readsData);
    printRuns("partial", map.masked);
    printRuns("full", map.full);
  });
  os << "\n";
}

/// Writes `map` as SVG.
static void draw(raw_ostream &os, const MaskMap &map) {
  constexpr int64_t largest = 512, margin = 24, line = 18, legend = 240;
  int64_t cell = std::clamp<int64_t>(
      largest / std::max(map.numRows, map.numColumns), 1, 32);
  int64_t width = map.numColumns * cell, height = map.numRows * cell;
  int64_t left = margin, top = 2 * margin + line;
  int64_t legendX = left + width + margin;
  int64_t imageWidth = std::max(legendX + legend, 2 * largest);
  int64_t imageHeight = std::max(top + height, top + 5 * line) + margin;
  os << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << imageWidth
     << "\" height=\"" << imageHeight
     << "\" font-family=\"sans-serif\" font-size=\"12\">\n"
     << "  <style>.empty { fill: #f2f2f2 } .partial { fill: #f0a030 } .full { "
        "fill: #3070b0 } .grid { stroke: #ffffff; stroke-width: 0.5 }</style>\n"
     << "  <title>";
  printHTMLEscaped(map.title, os);
  os << "</title>\n  <text x=\"" << left << "\" y=\"" << margin << "\">";
  printHTMLEscaped(map.title, os);
  os << "</text>\n  <text x=\"" << left << "\" y=\"" << top - 6
     << "\">keys to the right, queries down</text>\n"
     << "  <rect class=\"empty\" x=\"" << left << "\" y=\"" << top
     << "\" width=\"" << width << "\" height=\"" << height << "\"/>\n";
  drawRuns(os, map.masked, "partial", cell, left, top);
  drawRuns(os, map.full, "full", cell, left, top);
  // Lines between tiles, where there is room for them.
  for (int64_t i = 1; cell > 3 && i < map.numColumns; ++i)
    os << "  <path class=\"grid\" d=\"M" << left + i * cell << ' ' << top << 'v'
       << height << "\"/>\n";
  for (int64_t i = 1; cell > 3 && i < map.numRows; ++i)
    os << "  <path class=\"grid\" d=\"M" << left << ' ' << top + i * cell << 'h'
       << width << "\"/>\n";

  int64_t numMasked = countTiles(map.masked), numFull = countTiles(map.full);
  int64_t number = 0;
  auto explain = [&](StringRef kind, StringRef text, int64_t count) {
    int64_t y = top + number++ * line;
    os << "  <rect class=\"" << kind << "\" x=\"" << legendX << "\" y=\"" << y
       << "\" width=\"12\" height=\"12\"/>\n  <text x=\"" << legendX + line
       << "\" y=\"" << y + 10 << "\">" << text << ": " << count
       << " tiles</text>\n";
  };
  explain("full", "full, no code for masks", numFull);
  explain("partial",
          map.readsData ? "partial or decided by data" : "partial, masked",
          numMasked);
  explain("empty", "empty, not visited",
          map.numRows * map.numColumns - numMasked - numFull);
  os << "</svg>\n";
}

namespace {
struct AttnPrintMaskMapPass
    : attn::impl::AttnPrintMaskMapPassBase<AttnPrintMaskMapPass> {
  using Base::Base;

  void runOnOperation() override {
    if (format != "svg" && format != "json") {
      getOperation()->emitError("unknown format '")
          << format << "' (expected svg or json)";
      return signalPassFailure();
    }
    llvm::StringMap<unsigned> numbers;
    getOperation()->walk([&](AttentionOp attention) {
      std::string name = "attention";
      if (auto function = attention->getParentOfType<FunctionOpInterface>())
        name = function.getName().str();
      FailureOr<MaskMap> map = getMap(attention, name);
      if (failed(map) || failed(write(attention, *map, name, numbers[name]++)))
        signalPassFailure();
    });
  }

private:
  FailureOr<MaskMap> getMap(AttentionOp attention, StringRef name);
  LogicalResult write(AttentionOp attention, const MaskMap &map, StringRef name,
                      unsigned number);
};
} // namespace

FailureOr<MaskMap> AttnPrintMaskMapPass::getMap(AttentionOp attention,
                                                StringRef name) {
  if (attention.hasSequences())
    return attention.emitOpError("has sequences, whose lengths are known at "
                                 "run time alone: no map can be drawn");
  int64_t queryLength = getDimSize(attention.getQuery(), 2);
  int64_t keyLength = getDimSize(attention.getKey(), 2);
  if (ShapedType::isDynamic(queryLength) || ShapedType::isDynamic(keyLength) ||
      queryLength == 0 || keyLength == 0)
    return attention.emitOpError(
        "must have static lengths of at least one for its map to be drawn");
  int64_t rows = queryTile, columns = keyTile;
  if (ScheduleAttrInterface schedule = attention.getChosenSchedule()) {
    rows = rows ? rows : schedule.getQueryTile();
    columns = columns ? columns : schedule.getKeyTile();
  }
  if (rows < 1 || columns < 1)
    return attention.emitOpError("needs a schedule, or positive 'query-tile' "
                                 "and 'key-tile', for its map to be drawn");

  MaskMap map;
  map.queryTile = rows;
  map.keyTile = columns;
  map.numRows = llvm::divideCeil(queryLength, rows);
  map.numColumns = llvm::divideCeil(keyLength, columns);
  map.readsData = readsByPosition(attention.getKeepRegion());
  llvm::raw_string_ostream title(map.title);
  title << '@' << name << ": ";
  if (MaskAttrInterface mask = attention.getMaskAttr())
    title << mask << (attention.getKeepRegion().empty() ? "" : " and ");
  if (!attention.getKeepRegion().empty())
    title << "keep region";
  else if (!attention.getMaskAttr())
    title << "no mask";
  title << ", " << queryLength << " x " << keyLength << ", tiles " << rows
        << " x " << columns;

  Region scratch;
  OpBuilder builder(attention->getContext());
  builder.setInsertionPointToStart(&scratch.emplaceBlock());
  Location loc = attention.getLoc();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  ScoreMask mask = {attention.getMaskAttr(), &attention.getKeepRegion(),
                    constant(batch),         constant(head),
                    constant(queryLength),   constant(keyLength)};
  for (int64_t row = 0; row < map.numRows; ++row) {
    TileRanges ranges = emitTileRanges(builder, loc, mask, MaskDim::Query,
                                       constant(row * rows), rows, columns);
    if (failed(addRuns(ranges.masked, row, map.masked)) ||
        failed(addRuns(ranges.full, row, map.full)))
      return attention.emitOpError("has a mask whose tiles depend on values "
                                   "that are known at run time alone: no map "
                                   "can be drawn");
  }
  return map;
}

LogicalResult AttnPrintMaskMapPass::write(AttentionOp attention,
                                          const MaskMap &map, StringRef name,
                                          unsigned number) {
  auto writer = format == "json" ? print : draw;
  if (directory.empty()) {
    writer(llvm::outs(), map);
    return success();
  }
  SmallString<128> path(directory);
  llvm::sys::path::append(path, name + "-" + Twine(number) + "." + format);
  std::string message;
  std::unique_ptr<llvm::ToolOutputFile> file = openOutputFile(path, &message);
  if (!file)
    return attention.emitError(message);
  writer(file->os(), map);
  file->keep();
  return success();
}
