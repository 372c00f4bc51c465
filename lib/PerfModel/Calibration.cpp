//===- Calibration.cpp - Measured terms of the performance model ----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file is `{"format": "attn-calibration", "version": 1, "device": ...,
// "kind": "gpu" or "host", "terms": {...}}`. Each term has `value`, `unit`,
// `source` and `fit`, which says how the value was obtained. Other keys, such
// as the errors of the fit, are for readers.
//
//===----------------------------------------------------------------------===//

#include "attn/PerfModel/Calibration.h"
#include "attn/Dialect/Attn/IR/AttnDialect.h"
#include "attn/PerfModel/Roofline.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <cmath>

using namespace mlir;
using namespace mlir::attn;

static constexpr llvm::StringLiteral formatName = "attn-calibration";
/// Keys of a file and of the attribute.
static constexpr llvm::StringLiteral deviceKey = "device", kindKey = "kind",
                                     termsKey = "terms";

namespace {
struct EmbeddedCalibration {
  llvm::StringLiteral device, text;
};
} // namespace

/// Files of `share/attn/calibration`.
static constexpr EmbeddedCalibration embeddedCalibrations[] = {
#include "CalibrationData.inc"
};

StringRef attn::stringifyCalibrationKind(CalibrationKind kind) {
  return kind == CalibrationKind::GPU ? "gpu" : "host";
}

static std::optional<CalibrationKind> symbolizeKind(StringRef text) {
  for (CalibrationKind kind : {CalibrationKind::GPU, CalibrationKind::Host})
    if (text == stringifyCalibrationKind(kind))
      return kind;
  return std::nullopt;
}

namespace {
/// A line of CalibrationTerms.def.
struct TermLine {
  CalibrationKind kind;
  StringRef member, unit;
  double least, most;
  double Calibration::*pointer;
};
} // namespace

SmallVector<CalibrationTerm> attn::getCalibrationTerms(CalibrationKind kind) {
  static const TermLine lines[] = {
#define ATTN_GPU_TERM(member, unit, least, most)                               \
  {CalibrationKind::GPU, #member, unit, least, most, &Calibration::member},
#define ATTN_HOST_TERM(member, unit, least, most)                              \
  {CalibrationKind::Host, #member, unit, least, most, &Calibration::member},
#include "attn/PerfModel/CalibrationTerms.def"
  };
  SmallVector<CalibrationTerm> terms;
  for (const TermLine &line : lines)
    if (line.kind == kind)
      terms.push_back({llvm::convertToSnakeFromCamelCase(line.member),
                       line.unit, line.least, line.most, line.pointer});
  return terms;
}

//===----------------------------------------------------------------------===//
// Terms by name
//===----------------------------------------------------------------------===//

namespace {
/// Takes terms, and checks that each of a kind is there once.
class TermReader {
public:
  TermReader(CalibrationKind kind, CalibrationProblem report)
      : kind(kind), terms(getCalibrationTerms(kind)),
        isThere(terms.size(), false), report(report) {}

  /// The term `key`; null, with a report, if there is none of this name.
  const CalibrationTerm *find(StringRef key);
  LogicalResult set(const CalibrationTerm &term, double value,
                    const Twine &key);
  /// The calibration, if no term is missing.
  FailureOr<Calibration> finish();

private:
  CalibrationKind kind;
  SmallVector<CalibrationTerm> terms;
  SmallVector<bool> isThere;
  CalibrationProblem report;
  Calibration calibration;
};
} // namespace

const CalibrationTerm *TermReader::find(StringRef key) {
  const auto *found = llvm::find_if(
      terms, [&](const CalibrationTerm &term) { return term.key == key; });
  if (found != terms.end())
    return found;
  report(termsKey, "a term of kind " + stringifyCalibrationKind(kind),
         "'" + key + "'");
  return nullptr;
}

LogicalResult TermReader::set(const CalibrationTerm &term, double value,
                              const Twine &key) {
  if (std::isnan(value) || value < term.least || value > term.most) {
    report(
        key,
        llvm::formatv("a number from {0} to {1}", term.least, term.most).str(),
        llvm::formatv("{0}", value).str());
    return failure();
  }
  calibration.*term.member = value;
  isThere[&term - terms.begin()] = true;
  return success();
}

FailureOr<Calibration> TermReader::finish() {
  for (auto [term, isFound] : llvm::zip_equal(terms, isThere))
    if (!isFound) {
      report(Twine(termsKey) + "." + term.key, "a term in " + term.unit,
             "nothing");
      return failure();
    }
  return calibration;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

/// `value` as text for messages.
static std::string describe(const llvm::json::Value *value) {
  if (!value)
    return "nothing";
  constexpr size_t most = 60;
  std::string text = llvm::formatv("{0}", *value).str();
  if (std::optional<StringRef> string = value->getAsString())
    text = ("'" + *string + "'").str();
  if (text.size() > most)
    text = text.substr(0, most) + "...";
  return text;
}

static LogicalResult readTerm(TermReader &reader, StringRef name,
                              const llvm::json::Value &value,
                              CalibrationProblem report) {
  const CalibrationTerm *term = reader.find(name);
  if (!term)
    return failure();
  std::string path = (termsKey + "." + name).str();
  const llvm::json::Object *object = value.getAsObject();
  if (!object) {
    report(path, "an object with value, unit, source and fit",
           describe(&value));
    return failure();
  }
  if (object->getString("unit") != term->unit) {
    report(path + ".unit", "'" + term->unit + "'",
           describe(object->get("unit")));
    return failure();
  }
  for (StringRef key : {"source", "fit"})
    if (object->getString(key).value_or("").empty()) {
      report(path + "." + key, "text", describe(object->get(key)));
      return failure();
    }
  std::optional<double> number = object->getNumber("value");
  if (!number) {
    report(path + ".value", "a number", describe(object->get("value")));
    return failure();
  }
  return reader.set(*term, *number, path + ".value");
}

/// Reads all but the terms.
static FailureOr<CalibrationFile> readHeader(const llvm::json::Object &object,
                                             CalibrationProblem report) {
  auto fail = [&](StringRef key, const Twine &expected) {
    report(key, expected, describe(object.get(key)));
    return failure();
  };
  if (object.getString("format") != StringRef(formatName))
    return fail("format", "'" + formatName + "'");
  if (object.getInteger("version") != calibrationVersion)
    return fail("version", Twine(calibrationVersion));
  CalibrationFile file;
  file.device = object.getString(deviceKey).value_or("").str();
  if (file.device.empty())
    return fail(deviceKey, "the name of a device");
  std::optional<CalibrationKind> kind =
      symbolizeKind(object.getString(kindKey).value_or(""));
  if (!kind)
    return fail(kindKey, "'gpu' or 'host'");
  file.kind = *kind;
  if (!object.getObject(termsKey))
    return fail(termsKey, "an object");
  return file;
}

FailureOr<CalibrationFile> attn::parseCalibration(StringRef text,
                                                  CalibrationProblem report) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value) {
    report("the file", "JSON", llvm::toString(value.takeError()));
    return failure();
  }
  const llvm::json::Object *object = value->getAsObject();
  if (!object) {
    report("the file", "an object", describe(&*value));
    return failure();
  }
  FailureOr<CalibrationFile> file = readHeader(*object, report);
  if (failed(file))
    return failure();
  TermReader reader(file->kind, report);
  for (const auto &[name, term] : *object->getObject(termsKey))
    if (failed(readTerm(reader, name, term, report)))
      return failure();
  FailureOr<Calibration> terms = reader.finish();
  if (failed(terms))
    return failure();
  file->terms = *terms;
  return file;
}

SmallVector<StringRef> attn::getCalibratedDevices() {
  return llvm::map_to_vector(
      embeddedCalibrations,
      [](const EmbeddedCalibration &each) -> StringRef { return each.device; });
}

StringRef attn::getCalibrationText(StringRef device) {
  for (const EmbeddedCalibration &each : embeddedCalibrations)
    if (each.device == device)
      return each.text;
  return "";
}

//===----------------------------------------------------------------------===//
// Attribute
//===----------------------------------------------------------------------===//

DictionaryAttr attn::toAttribute(MLIRContext *context,
                                 const CalibrationFile &calibration) {
  Builder b(context);
  SmallVector<NamedAttribute> terms;
  for (const CalibrationTerm &term : getCalibrationTerms(calibration.kind))
    terms.push_back(b.getNamedAttr(
        term.key, b.getF64FloatAttr(calibration.terms.*term.member)));
  return b.getDictionaryAttr(
      {b.getNamedAttr(deviceKey, b.getStringAttr(calibration.device)),
       b.getNamedAttr(kindKey, b.getStringAttr(
                                   stringifyCalibrationKind(calibration.kind))),
       b.getNamedAttr(termsKey, b.getDictionaryAttr(terms))});
}

static std::string describe(Attribute attribute) {
  if (!attribute)
    return "nothing";
  std::string text;
  llvm::raw_string_ostream(text) << attribute;
  return text;
}

static FailureOr<CalibrationFile> parseCalibration(DictionaryAttr attribute,
                                                   CalibrationProblem report) {
  CalibrationFile file;
  auto fail = [&](StringRef key, const Twine &expected) {
    report(key, expected, describe(attribute.get(key)));
    return failure();
  };
  auto device = attribute.getAs<StringAttr>(deviceKey);
  if (!device)
    return fail(deviceKey, "the name of a device");
  file.device = device.str();
  auto kind = attribute.getAs<StringAttr>(kindKey);
  std::optional<CalibrationKind> known =
      symbolizeKind(kind ? kind.getValue() : "");
  if (!known)
    return fail(kindKey, "'gpu' or 'host'");
  file.kind = *known;
  auto terms = attribute.getAs<DictionaryAttr>(termsKey);
  if (!terms)
    return fail(termsKey, "a dictionary");
  TermReader reader(file.kind, report);
  for (NamedAttribute each : terms) {
    const CalibrationTerm *term = reader.find(each.getName());
    auto value = dyn_cast<FloatAttr>(each.getValue());
    if (!term)
      return failure();
    std::string path = (termsKey + "." + term->key).str();
    if (!value) {
      report(path, "a float", describe(each.getValue()));
      return failure();
    }
    if (failed(reader.set(*term, value.getValueAsDouble(), path)))
      return failure();
  }
  FailureOr<Calibration> checked = reader.finish();
  if (failed(checked))
    return failure();
  file.terms = *checked;
  return file;
}

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

/// The file of `device` in the library; `std::nullopt` if there is none.
static std::optional<CalibrationFile> getEmbedded(StringRef device) {
  StringRef text = getCalibrationText(device);
  if (text.empty())
    return std::nullopt;
  FailureOr<CalibrationFile> file = parseCalibration(
      text, [](const Twine &, const Twine &, const Twine &) {});
  // CalibrationTest.cpp checks that all files can be read.
  assert(succeeded(file) && "malformed calibration of the library");
  return std::optional<CalibrationFile>(std::move(file));
}

DeviceModel attn::getDeviceModel(StringRef name, const DeviceFigures &figures,
                                 StringRef otherwise) {
  DeviceModel model{figures, {}, {}};
  std::optional<CalibrationFile> file = getEmbedded(name);
  if (!file)
    file = getEmbedded(otherwise);
  if (file) {
    model.calibration = file->terms;
    model.calibratedFor = file->device;
  }
  return model;
}

FailureOr<DeviceModel> attn::getDeviceModel(Operation *op,
                                            const Target &target) {
  DeviceAttr device = getDevice(op, target.getName());
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  CalibrationKind expected =
      target.isHost() ? CalibrationKind::Host : CalibrationKind::GPU;
  Attribute attribute = module ? module->getAttr(calibrationAttrName) : nullptr;
  if (!attribute) {
    std::optional<CalibrationFile> own = getEmbedded(device.getName());
    return getDeviceModel(own && own->kind == expected ? device.getName() : "",
                          device.getFigures(), target.getDefaultDevice());
  }
  auto report = [&](const Twine &key, const Twine &expected,
                    const Twine &found) {
    module.emitError() << "attribute '" << calibrationAttrName << "': " << key
                       << ": expected " << expected << ", found " << found;
  };
  auto dictionary = dyn_cast<DictionaryAttr>(attribute);
  if (!dictionary) {
    report("the attribute", "a dictionary", describe(attribute));
    return failure();
  }
  FailureOr<CalibrationFile> file = ::parseCalibration(dictionary, report);
  if (failed(file))
    return failure();
  if (file->device != device.getName()) {
    report(deviceKey, "'" + device.getName() + "'", "'" + file->device + "'");
    return failure();
  }
  if (file->kind != expected) {
    report(kindKey,
           "'" + stringifyCalibrationKind(expected) + "' for target " +
               target.getName(),
           "'" + stringifyCalibrationKind(file->kind) + "'");
    return failure();
  }
  return DeviceModel{device.getFigures(), file->terms, file->device};
}

std::string attn::describeMissingCalibration(StringRef device,
                                             const DeviceModel &model) {
  if (model.calibratedFor == device)
    return "";
  return llvm::formatv("device '{0}' has no calibration: expected "
                       "'share/attn/calibration/{0}.json' when Attn is built, "
                       "or a file by the option 'calibration', found neither; "
                       "times are estimated by the calibration of '{1}'",
                       device, model.calibratedFor)
      .str();
}
