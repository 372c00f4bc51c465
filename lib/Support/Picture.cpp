//===- Picture.cpp - Writing pictures and files ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Coordinates have one digit behind the point, if they need it.
//
//===----------------------------------------------------------------------===//

#include "attn/Support/Picture.h"
#include "mlir/IR/Operation.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace mlir::attn;

/// A coordinate in as few characters as it needs.
static std::string format(double value) {
  std::string text = llvm::formatv("{0:f1}", value).str();
  if (StringRef(text).ends_with(".0"))
    text.resize(text.size() - 2);
  return text;
}

void attn::openPicture(raw_ostream &os, double width, double height,
                       const Twine &title, StringRef style) {
  os << llvm::formatv(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" "
      "height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<title>",
      format(width), format(height));
  llvm::printHTMLEscaped(title.str(), os);
  os << "</title>\n";
  if (!style.empty())
    os << "<style>" << style << "</style>\n";
  os << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
}

void attn::closePicture(raw_ostream &os) { os << "</svg>\n"; }

void attn::drawText(raw_ostream &os, double x, double y, StringRef anchor,
                    const Twine &text) {
  os << llvm::formatv("<text x=\"{0}\" y=\"{1}\" text-anchor=\"{2}\">",
                      format(x), format(y), anchor);
  llvm::printHTMLEscaped(text.str(), os);
  os << "</text>\n";
}

void attn::drawLine(raw_ostream &os, double x1, double y1, double x2, double y2,
                    StringRef color, double width) {
  os << llvm::formatv("<line x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{3}\" "
                      "stroke=\"{4}\" stroke-width=\"{5}\"/>\n",
                      format(x1), format(y1), format(x2), format(y2), color,
                      format(width));
}

void attn::drawRectangle(raw_ostream &os, double x, double y, double width,
                         double height, StringRef attributes,
                         const Twine &hint) {
  os << llvm::formatv("<rect {0} x=\"{1}\" y=\"{2}\" width=\"{3}\" "
                      "height=\"{4}\"",
                      attributes, format(x), format(y), format(width),
                      format(height));
  std::string text = hint.str();
  if (text.empty()) {
    os << "/>\n";
    return;
  }
  os << "><title>";
  llvm::printHTMLEscaped(text, os);
  os << "</title></rect>\n";
}

LogicalResult attn::writeFile(Operation *op, StringRef path,
                              function_ref<void(raw_ostream &)> print) {
  std::string message;
  std::unique_ptr<llvm::ToolOutputFile> file = openOutputFile(path, &message);
  if (!file)
    return op->emitError() << message;
  print(file->os());
  file->os().flush();
  if (file->os().has_error()) {
    message = file->os().error().message();
    file->os().clear_error();
    return op->emitError("cannot write '") << path << "': " << message;
  }
  file->keep();
  return success();
}
