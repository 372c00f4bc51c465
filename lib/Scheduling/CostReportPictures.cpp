//===- CostReportPictures.cpp - Pictures of work and its bounds -----------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes SVG.
//
//===----------------------------------------------------------------------===//

#include "CostReportPictures.h"
#include "attn/Support/Picture.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mlir::attn;

/// A power of ten in words of one letter.
static std::string describePower(int power) {
  static constexpr StringLiteral prefixes[] = {"", "k", "M", "G", "T", "P"};
  if (power < 0 || power >= 18)
    return ("1e" + Twine(power)).str();
  std::string digits = "1";
  digits.append(power % 3, '0');
  return (digits + prefixes[power / 3]).str();
}

namespace {
/// A roofline with logarithmic axes: the rate of work over its intensity.
class RooflinePicture {
public:
  RooflinePicture(raw_ostream &os, DeviceAttr device,
                  ArrayRef<CostReportFunction> functions);
  void draw();

private:
  void chooseDecades();
  void drawAxes();
  void drawRoof();
  void drawEntry(const CostReportFunction &function,
                 const CostReportEntry &entry);
  double toX(double intensity) const {
    return left +
           (std::log10(intensity) - x0) / (x1 - x0) * (width - left - right);
  }
  double toY(double rate) const {
    return height - bottom -
           (std::log10(rate) - y0) / (y1 - y0) * (height - top - bottom);
  }

  static constexpr double width = 720, height = 480, left = 70, right = 20,
                          top = 40, bottom = 50;
  raw_ostream &os;
  DeviceAttr device;
  ArrayRef<CostReportFunction> functions;
  /// Peak rates of memory and of arithmetic.
  double bandwidth, ceiling;
  /// The powers of ten at the ends of the axes.
  int x0, x1, y0, y1;
};
} // namespace

/// Whether a point shows the intensity.
static bool hasPoint(double intensity) {
  return std::isfinite(intensity) && intensity > 0;
}

RooflinePicture::RooflinePicture(raw_ostream &os, DeviceAttr device,
                                 ArrayRef<CostReportFunction> functions)
    : os(os), device(device), functions(functions) {
  const DeviceFigures &figures = device.getFigures();
  bandwidth = getPeakRate(figures, MemoryLevel::Memory);
  ceiling = getPeakRate(figures, ExecutionUnit::Mma16b);
  if (ceiling == 0)
    ceiling = getPeakRate(figures, ExecutionUnit::Fma);
  chooseDecades();
}

/// Chooses decades that show all points and the ridge.
void RooflinePicture::chooseDecades() {
  double low = 1, high = 10 * ceiling / bandwidth;
  double slow = ceiling;
  for (const CostReportFunction &function : functions)
    for (const CostReportEntry &entry : function.entries) {
      double intensity = entry.cost.getIntensity();
      if (!hasPoint(intensity))
        continue;
      low = std::min(low, intensity);
      high = std::max(high, intensity);
      slow = std::min(slow, entry.cost.getFlops() / entry.time.seconds);
    }
  x0 = static_cast<int>(std::floor(std::log10(low)));
  x1 = static_cast<int>(std::ceil(std::log10(high)));
  y0 = static_cast<int>(
      std::floor(std::log10(std::min(slow, bandwidth * std::pow(10.0, x0)))));
  y1 = static_cast<int>(std::ceil(std::log10(ceiling)));
}

void RooflinePicture::drawAxes() {
  for (int power = x0; power <= x1; ++power) {
    double x = toX(std::pow(10.0, power));
    drawLine(os, x, top, x, height - bottom, "#dddddd", 1);
    drawText(os, x, height - bottom + 16, "middle",
             power < 0 ? ("1e" + Twine(power)).str() : describePower(power));
  }
  for (int power = y0; power <= y1; ++power) {
    double y = toY(std::pow(10.0, power));
    drawLine(os, left, y, width - right, y, "#dddddd", 1);
    drawText(os, left - 6, y + 4, "end", describePower(power));
  }
  drawText(os, width / 2, height - 12, "middle", "FLOP per byte of memory");
  drawText(os, left, top - 6, "end", "FLOP/s");
}

void RooflinePicture::drawRoof() {
  double ridge = ceiling / bandwidth;
  drawLine(os, toX(std::pow(10.0, x0)), toY(bandwidth * std::pow(10.0, x0)),
           toX(ridge), toY(ceiling), "#444444", 2);
  drawLine(os, toX(ridge), toY(ceiling), width - right, toY(ceiling), "#444444",
           2);
}

void RooflinePicture::drawEntry(const CostReportFunction &function,
                                const CostReportEntry &entry) {
  double intensity = entry.cost.getIntensity();
  double rate = entry.cost.getFlops() / entry.time.seconds;
  if (!hasPoint(intensity) || rate <= 0)
    return;
  os << llvm::formatv(
      "<circle cx=\"{0:f1}\" cy=\"{1:f1}\" r=\"5\" fill=\"{2}\" "
      "fill-opacity=\"0.7\"><title>",
      toX(intensity), toY(rate),
      entry.time.bound == stringifyMemoryLevel(MemoryLevel::Memory)
          ? "#d95f02"
          : "#1b9e77");
  llvm::printHTMLEscaped("@" + function.name + ": " + entry.name, os);
  os << llvm::formatv(", {0:f1} FLOP per byte, {1:f1} us, bound by {2}",
                      intensity, entry.time.seconds * 1e6, entry.time.bound)
     << "</title></circle>\n";
}

void RooflinePicture::draw() {
  openPicture(os, width, height, "Roofline of " + device.getName());
  drawText(os, width / 2, 24, "middle",
           "Estimated speed on " + device.getName() + ", ridge at " +
               llvm::formatv("{0:f0}", getRidge(device.getFigures())).str() +
               " FLOP per byte");
  drawAxes();
  drawRoof();
  for (const CostReportFunction &function : functions)
    for (const CostReportEntry &entry : function.entries)
      drawEntry(function, entry);
  closePicture(os);
}

void attn::drawRoofline(raw_ostream &os, DeviceAttr device,
                        ArrayRef<CostReportFunction> functions) {
  RooflinePicture(os, device, functions).draw();
}

void attn::drawFlow(raw_ostream &os, ArrayRef<CostReportFunction> functions) {
  constexpr double width = 720, labels = 220, right = 90, row = 22, top = 60;
  static constexpr StringLiteral colors[] = {"#d95f02", "#7570b3", "#1b9e77"};
  auto fill = [](unsigned level) {
    return ("fill=\"" + colors[level] + "\"").str();
  };
  double most = 1;
  size_t rows = 0;
  for (const CostReportFunction &function : functions) {
    rows += 1 + function.entries.size();
    for (const CostReportEntry &entry : function.entries)
      most = std::max(most, *llvm::max_element(entry.cost.traffic));
  }
  openPicture(os, width, top + row * double(rows) + 20, "Bytes moved");
  drawText(os, 10, 22, "start", "Bytes moved, by level");
  for (unsigned i = 0; i < numMemoryLevels; ++i) {
    drawRectangle(os, labels + 100 * i, 32, 12, 12, fill(i));
    drawText(os, labels + 100 * i + 18, 42, "start",
             stringifyMemoryLevel(static_cast<MemoryLevel>(i)));
  }
  double y = top;
  for (const CostReportFunction &function : functions) {
    drawText(os, 10, y + 14, "start", "@" + function.name);
    y += row;
    for (const CostReportEntry &entry : function.entries) {
      drawText(os, 24, y + 14, "start", entry.name);
      for (unsigned i = 0; i < numMemoryLevels; ++i) {
        double bytes = entry.cost.traffic[i];
        if (bytes == 0)
          continue;
        drawRectangle(os, labels, y + 2 + 6 * i,
                      bytes / most * (width - labels - right), 5, fill(i),
                      llvm::formatv("{0:f3} MB", bytes * 1e-6).str());
      }
      drawText(os, width - 4, y + 14, "end",
               llvm::formatv("{0:f1} MB",
                             entry.cost.bytes(MemoryLevel::Memory) * 1e-6)
                   .str());
      y += row;
    }
  }
  closePicture(os);
}
