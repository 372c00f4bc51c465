//===- ScheduleDatabase.cpp - Measured times of schedules -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file is `{"version": 1, "entries": [...]}`. An entry has `device`,
// `target`, `op`, `queries` and `microseconds`, an object with a time for each
// schedule.
//
//===----------------------------------------------------------------------===//

#include "attn/Scheduling/ScheduleDatabase.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/xxhash.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::attn;

static constexpr int64_t databaseVersion = 1;

/// A hash of the text of a region distinguishes it from others.
static void describeRegion(raw_ostream &os, StringRef name, Region &region) {
  if (region.empty())
    return;
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  flags.useLocalScope().printGenericOpForm();
  // Values are numbered once for all operations.
  Operation *scope = region.getParentOp();
  while (!scope->hasTrait<OpTrait::IsIsolatedFromAbove>() &&
         scope->getParentOp())
    scope = scope->getParentOp();
  AsmState state(scope, flags);
  for (Operation &op : region.front()) {
    op.print(stream, state);
    stream << '\n';
  }
  os << ", " << name << ' ' << llvm::utohexstr(llvm::xxh3_64bits(text), true);
}

TuningKey attn::getTuningKey(AttentionOp op, StringRef target,
                             StringRef device) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << op->getName() << ' ' << getElementTypeOrSelf(op.getQuery().getType())
     << ", heads " << op.getNumQueryHeads() << '/' << op.getNumKeyHeads();
  if (op.getNumValueHeads() != op.getNumKeyHeads())
    os << '/' << op.getNumValueHeads();
  os << ", head dim " << op.getQKHeadDim() << '/' << op.getVHeadDim();
  KVAddressingAttrInterface addressing = op.getAddressing();
  if (addressing.packsQueries() && addressing.hasEntries())
    os << ", packed queries";
  else if (addressing.isListed())
    os << ", sequences";
  if (op.getPageTable())
    os << ", pages of " << getDimSize(op.getKey(), 2);
  else if (op.getKeyLengths())
    os << ", key lengths";
  if (MaskAttrInterface mask = op.getMaskAttr())
    os << ", mask " << mask;
  describeRegion(os, "score_mod", op.getScoreMod());
  describeRegion(os, "mask_mod", op.getMaskMod());
  describeRegion(os, "query", op.getQueryRegion());
  describeRegion(os, "epilogue", op.getEpilogue());
  if (op.hasDropout())
    os << ", dropout";
  return {device.str(), target.str(), text};
}

int64_t attn::getLengthClass(int64_t length) {
  return int64_t(1) << static_cast<unsigned>(
             std::lround(std::log2(double(std::max<int64_t>(1, length)))));
}

/// Whether arrays and objects of `text` are nested no deeper than `most`.
static bool isNestedUpTo(StringRef text, unsigned most) {
  unsigned depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString && c == '\\')
      ++i;
    else if (c == '"')
      inString = !inString;
    else if (!inString && (c == '[' || c == '{') && ++depth > most)
      return false;
    else if (!inString && (c == ']' || c == '}') && depth > 0)
      --depth;
  }
  return true;
}

llvm::Expected<llvm::json::Value> attn::parseMeasurements(StringRef text) {
  constexpr unsigned mostNested = 64;
  if (!isNestedUpTo(text, mostNested))
    return llvm::createStringError(
        "arrays and objects are nested deeper than " + Twine(mostNested));
  return llvm::json::parse(text);
}

LogicalResult ScheduleDatabase::read(Operation *op, StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return op->emitError("cannot read the database '")
           << path << "': " << buffer.getError().message();
  auto malformed = [&](const Twine &why) {
    return op->emitError("malformed database '") << path << "': " << why;
  };
  llvm::Expected<llvm::json::Value> value =
      parseMeasurements((*buffer)->getBuffer());
  if (!value)
    return malformed(llvm::toString(value.takeError()));
  const llvm::json::Object *file = value->getAsObject();
  std::optional<int64_t> version =
      file ? file->getInteger("version") : std::nullopt;
  if (!version)
    return malformed("expected an object with 'version' and 'entries'");
  if (*version != databaseVersion)
    return malformed("expected version " + Twine(databaseVersion) + " (was " +
                     Twine(*version) + ")");
  const llvm::json::Array *array = file->getArray("entries");
  if (!array)
    return malformed("expected an array 'entries'");
  for (auto [number, each] : llvm::enumerate(*array)) {
    const llvm::json::Object *entry = each.getAsObject();
    auto getText = [&](StringRef name) {
      return entry ? entry->getString(name) : std::nullopt;
    };
    auto device = getText("device"), target = getText("target"),
         name = getText("op");
    auto queries = entry ? entry->getInteger("queries") : std::nullopt;
    const llvm::json::Object *measured =
        entry ? entry->getObject("microseconds") : nullptr;
    if (!device || !target || !name || !queries || *queries < 1 || !measured)
      return malformed("entry " + Twine(number) +
                       " must have 'device', 'target' and 'op', a positive "
                       "'queries' and an object 'microseconds'");
    Times times;
    for (const auto &[schedule, time] : *measured) {
      std::optional<double> microseconds = time.getAsNumber();
      if (!microseconds || *microseconds <= 0)
        return malformed("entry " + Twine(number) + " has a time of '" +
                         StringRef(schedule) + "' that is not positive");
      times[StringRef(schedule).str()] = *microseconds;
    }
    set({device->str(), target->str(), name->str()}, *queries,
        std::move(times));
  }
  return success();
}

void ScheduleDatabase::print(raw_ostream &os) const {
  llvm::json::OStream json(os, /*IndentSize=*/1);
  json.object([&] {
    json.attribute("version", databaseVersion);
    json.attributeArray("entries", [&] {
      for (const auto &[key, lengths] : entries)
        for (const auto &[queries, times] : lengths)
          json.object([&, &key = key, &queries = queries, &times = times] {
            json.attribute("device", key.device);
            json.attribute("target", key.target);
            json.attribute("op", key.op);
            json.attribute("queries", queries);
            json.attributeObject("microseconds", [&] {
              for (const auto &[schedule, time] : times)
                json.attribute(schedule, std::round(time * 100) / 100);
            });
          });
    });
  });
  os << '\n';
}

const std::map<int64_t, ScheduleDatabase::Times> *
ScheduleDatabase::lookup(const TuningKey &key) const {
  auto entry = entries.find(key);
  return entry == entries.end() ? nullptr : &entry->second;
}

void ScheduleDatabase::set(const TuningKey &key, int64_t queries, Times times) {
  entries[key][getLengthClass(queries)] = std::move(times);
}
