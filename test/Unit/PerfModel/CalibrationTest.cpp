//===- CalibrationTest.cpp - Tests of calibrations ------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "attn/PerfModel/Calibration.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringSet.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::attn;

static FailureOr<CalibrationFile> parse(StringRef text) {
  return parseCalibration(
      text, [](const Twine &key, const Twine &expected, const Twine &found) {
        ADD_FAILURE()
            << (key + ": expected " + expected + ", found " + found).str();
      });
}

// The library could not use a file of its own that is malformed.
TEST(CalibrationTest, FilesOfTheLibrary) {
  SmallVector<StringRef> devices = getCalibratedDevices();
  EXPECT_EQ(devices.size(), 4u);
  for (StringRef device : devices) {
    FailureOr<CalibrationFile> file = parse(getCalibrationText(device));
    ASSERT_TRUE(succeeded(file)) << device.str();
    EXPECT_EQ(file->device, device.str());
    EXPECT_EQ(file->kind,
              device == "host" ? CalibrationKind::Host : CalibrationKind::GPU);
    EXPECT_TRUE(getKnownDevice(device)) << device.str();
  }
  EXPECT_TRUE(getCalibrationText("h300").empty());
}

// Keys are unique, and each term has a range that is not empty.
TEST(CalibrationTest, Terms) {
  llvm::StringSet<> keys;
  for (CalibrationKind kind : {CalibrationKind::GPU, CalibrationKind::Host})
    for (const CalibrationTerm &term : getCalibrationTerms(kind)) {
      EXPECT_TRUE(keys.insert(term.key).second) << term.key;
      EXPECT_LT(term.least, term.most) << term.key;
      EXPECT_FALSE(term.unit.empty()) << term.key;
    }
  EXPECT_TRUE(keys.contains("mma_cycle"));
  EXPECT_TRUE(keys.contains("host_mma_cycle"));
}

// The attribute has all values in full.
TEST(CalibrationTest, Attribute) {
  MLIRContext context;
  CalibrationFile file = *parse(getCalibrationText("h200"));
  DictionaryAttr attribute = toAttribute(&context, file);
  auto terms = attribute.getAs<DictionaryAttr>("terms");
  SmallVector<CalibrationTerm> known = getCalibrationTerms(file.kind);
  ASSERT_EQ(terms.size(), known.size());
  for (const CalibrationTerm &term : known)
    EXPECT_EQ(terms.getAs<FloatAttr>(term.key).getValueAsDouble(),
              file.terms.*term.member);
}

// A device without a file has the calibration of another one, which the model
// names.
TEST(CalibrationTest, Fallback) {
  DeviceModel own = getDeviceModel("h100", *getKnownDevice("h100"), "h200");
  EXPECT_EQ(own.calibratedFor, "h100");
  DeviceModel other = getDeviceModel("b200", *getKnownDevice("b200"), "h200");
  EXPECT_EQ(other.calibratedFor, "h200");
  EXPECT_EQ(other.sms, getKnownDevice("b200")->sms);
  EXPECT_GT(other.calibration.score, 0);
}
