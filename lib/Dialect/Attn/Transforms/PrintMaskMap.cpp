//===- PrintMaskMap.cpp - Pictures of the cost of masks -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Draws which tiles of the score matrix kernels visit, and which of them with
// code for masks. Kernels iterate over the same ranges: their code is emitted
// for each tile of queries and folded.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskArea.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/Attn/Transforms/Passes.h"
#include "attn/Support/Picture.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <vector>

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNPRINTMASKMAPPASS
#include "attn/Dialect/Attn/Transforms/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

namespace {
/// The contents of a picture.
struct MaskMap {
  std::string title;
  int64_t queryTile = 0, keyTile = 0;
  std::vector<TileRow> rows;
  int64_t numColumns = 0;
  /// Whether data decides which pairs of partial tiles are kept.
  bool readsData = false;
};
} // namespace

using TileKind = SmallVector<TileRow::Range> TileRow::*;

static int64_t countTiles(ArrayRef<TileRow> rows, TileKind kind) {
  int64_t count = 0;
  for (const TileRow &row : rows)
    for (auto [begin, end] : row.*kind)
      count += end - begin;
  return count;
}

static void drawTiles(raw_ostream &os, ArrayRef<TileRow> rows, TileKind kind,
                      StringRef attributes, int64_t cell, int64_t left,
                      int64_t top) {
  for (auto [number, row] : llvm::enumerate(rows))
    for (auto [begin, end] : row.*kind)
      drawRectangle(os, left + begin * cell, top + int64_t(number) * cell,
                    (end - begin) * cell, cell, attributes);
}

/// Writes `map` as JSON.
static void print(raw_ostream &os, const MaskMap &map) {
  llvm::json::OStream json(os, /*IndentSize=*/2);
  auto printTiles = [&](StringRef name, TileKind kind) {
    json.attributeArray(name, [&] {
      for (auto [number, row] : llvm::enumerate(map.rows))
        for (auto [begin, end] : row.*kind)
          json.value(llvm::json::Array{int64_t(number), begin, end});
    });
  };
  json.object([&] {
    json.attribute("title", map.title);
    json.attribute("query_tile", map.queryTile);
    json.attribute("key_tile", map.keyTile);
    json.attribute("rows", int64_t(map.rows.size()));
    json.attribute("columns", map.numColumns);
    json.attribute("reads_data", map.readsData);
    printTiles("partial", &TileRow::masked);
    printTiles("full", &TileRow::full);
  });
  os << "\n";
}

/// Writes `map` as SVG.
static void draw(raw_ostream &os, const MaskMap &map) {
  constexpr int64_t largest = 512, margin = 24, line = 18, legend = 240;
  constexpr StringRef empty = "class=\"empty\"", partial = "class=\"partial\"",
                      full = "class=\"full\"";
  auto numRows = int64_t(map.rows.size());
  int64_t cell =
      std::clamp<int64_t>(largest / std::max(numRows, map.numColumns), 1, 32);
  int64_t width = map.numColumns * cell, height = numRows * cell;
  int64_t left = margin, top = 2 * margin + line;
  int64_t legendX = left + width + margin;
  int64_t imageWidth = std::max(legendX + legend, 2 * largest);
  int64_t imageHeight = std::max(top + height, top + 5 * line) + margin;
  openPicture(os, imageWidth, imageHeight, map.title,
              ".empty { fill: #f2f2f2 } .partial { fill: #f0a030 } "
              ".full { fill: #3070b0 }");
  drawText(os, left, margin, "start", map.title);
  drawText(os, left, top - 6, "start", "keys to the right, queries down");
  drawRectangle(os, left, top, width, height, empty);
  drawTiles(os, map.rows, &TileRow::masked, partial, cell, left, top);
  drawTiles(os, map.rows, &TileRow::full, full, cell, left, top);
  // Lines between tiles, where there is room for them.
  for (int64_t x = left + cell; cell > 3 && x < left + width; x += cell)
    drawLine(os, x, top, x, top + height, "#ffffff", 0.5);
  for (int64_t y = top + cell; cell > 3 && y < top + height; y += cell)
    drawLine(os, left, y, left + width, y, "#ffffff", 0.5);

  int64_t numMasked = countTiles(map.rows, &TileRow::masked);
  int64_t numFull = countTiles(map.rows, &TileRow::full);
  int64_t y = top;
  auto explain = [&](StringRef kind, StringRef text, int64_t count) {
    drawRectangle(os, legendX, y, 12, 12, kind);
    drawText(os, legendX + line, y + 10, "start",
             text + ": " + Twine(count) + " tiles");
    y += line;
  };
  explain(full, "full, no code for masks", numFull);
  explain(partial,
          map.readsData ? "partial or decided by data" : "partial, masked",
          numMasked);
  explain(empty, "empty, not visited",
          numRows * map.numColumns - numMasked - numFull);
  closePicture(os);
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
  if (attention.readsKeyLengths())
    return attention.emitOpError(attention.getAddressing().isListed()
                                     ? "has sequences, whose lengths"
                                     : "has 'key_lengths', which")
           << " are known at run time alone: no map can be drawn";
  if (attention.isShard())
    return attention.emitOpError("is a shard, whose positions are known at run "
                                 "time alone: no map can be drawn");
  int64_t queryLength = getDimSize(attention.getQuery(), 2);
  int64_t keyLength = getDimSize(attention.getKey(), 2);
  if (ShapedType::isDynamic(queryLength) || ShapedType::isDynamic(keyLength) ||
      queryLength == 0 || keyLength == 0)
    return attention.emitOpError(
        "must have static lengths of at least one for its map to be drawn");
  int64_t rows = queryTile, columns = keyTile;
  if (ScheduleAttrInterface schedule = attention.getChosenSchedule()) {
    // Work items of a cluster visit the same tiles.
    rows = rows ? rows : schedule.getClusterSize() * schedule.getQueryTile();
    columns = columns ? columns : schedule.getKeyTile();
  }
  if (rows < 1 || columns < 1)
    return attention.emitOpError("needs a schedule, or positive 'query-tile' "
                                 "and 'key-tile', for its map to be drawn");

  MaskMap map;
  map.queryTile = rows;
  map.keyTile = columns;
  map.numColumns = llvm::divideCeil(keyLength, columns);
  map.readsData = readsByPosition(attention.getMaskMod());
  llvm::raw_string_ostream title(map.title);
  title << '@' << name << ": ";
  if (MaskAttrInterface mask = attention.getMaskAttr())
    title << mask << (attention.getMaskMod().empty() ? "" : " and ");
  if (!attention.getMaskMod().empty())
    title << "mask_mod region";
  else if (!attention.getMaskAttr())
    title << "no mask";
  title << ", " << queryLength << " x " << keyLength << ", tiles " << rows
        << " x " << columns;

  VisitedTiles tiles(cast<AttentionOpInterface>(attention.getOperation()),
                     CostAssumptions(), batch, head);
  std::optional<std::vector<TileRow>> visited = tiles.getRows(rows, columns);
  if (!visited)
    return attention.emitOpError("has a mask whose tiles depend on values that "
                                 "are known at run time alone: no map can be "
                                 "drawn");
  map.rows = std::move(*visited);
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
  return writeFile(attention, path, [&](raw_ostream &os) { writer(os, map); });
}
