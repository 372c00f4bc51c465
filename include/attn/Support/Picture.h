//===- Picture.h - Writing pictures and files -------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Elements of SVG, and files that are written whole or not at all.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_PICTURE_H
#define ATTN_SUPPORT_PICTURE_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir {
class Operation;
} // namespace mlir

namespace mlir::attn {

/// Begins a picture on a white ground, with a title and rules of style.
void openPicture(raw_ostream &os, double width, double height,
                 const Twine &title, StringRef style = "");
void closePicture(raw_ostream &os);

/// Draws a text at its `anchor`: start, middle or end.
void drawText(raw_ostream &os, double x, double y, StringRef anchor,
              const Twine &text);
void drawLine(raw_ostream &os, double x1, double y1, double x2, double y2,
              StringRef color, double width);
/// Draws a rectangle with further attributes, and a hint that is shown under
/// the pointer.
void drawRectangle(raw_ostream &os, double x, double y, double width,
                   double height, StringRef attributes, const Twine &hint = "");

/// Writes a file whole, or not at all and reports why not on `op`.
LogicalResult writeFile(Operation *op, StringRef path,
                        function_ref<void(raw_ostream &)> print);

} // namespace mlir::attn

#endif // ATTN_SUPPORT_PICTURE_H
