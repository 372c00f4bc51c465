//===- RandomParts.h - Tensors that are parts of others ---------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes code around attention: slices of tensors, also of dynamic size,
// slices that are written over tensors, and elementwise operations that round
// nothing.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_FUZZ_RANDOMPARTS_H
#define ATTN_TEST_FUZZ_RANDOMPARTS_H

#include "RandomChoices.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mlir::attn::fuzz {

/// How much of a size a tensor has. Each level is as large as the one before,
/// or larger.
enum class PartLevel { Part, Own, Whole };

/// The sizes of tensors that are parts of one another in one dimension, by
/// level: numbers, or names of indices.
struct PartSize {
  std::array<std::string, 3> levels;
  bool isDynamic = false;
  /// Dimensions of arguments that the whole fits into.
  std::vector<std::pair<std::string, unsigned>> bounds;
};

/// One dimension of a tensor.
struct PartDim {
  PartSize *size;
  PartLevel level = PartLevel::Own;

  const std::string &get() const { return size->levels[unsigned(level)]; }
};

struct PartShape {
  llvm::SmallVector<PartDim, 4> dims;
  llvm::StringRef element;

  std::string getType() const;
};

/// An argument that slices are taken from or written to. Dynamic sizes are "?".
struct PartSource {
  std::string name, type;
  llvm::SmallVector<std::string, 4> sizes;
  llvm::StringRef element;
  /// Whether a result is written to it.
  bool isOutput = false;
};

/// A tensor for a result of attention, and the argument that it is a slice of,
/// if that is an output.
struct PartDestination {
  std::string value;
  std::optional<PartSource> output;
};

class PartWriter {
public:
  /// `addArgument` adds an argument of the function, of a name that begins with
  /// its first operand and a type, and returns the name.
  using AddArgument =
      std::function<std::string(const llvm::Twine &, const llvm::Twine &)>;

  PartWriter(RandomChoices &random, AddArgument addArgument)
      : random(random), addArgument(std::move(addArgument)) {}

  /// A size that attention sees as `size`, a number or "?".
  PartSize makeSize(const llvm::Twine &name, llvm::StringRef size);

  /// A tensor that is computed from arguments.
  std::string writeTensor(const PartShape &shape, unsigned depth);
  /// A tensor for a result of attention.
  PartDestination writeDestination(const PartShape &shape);
  /// Computes with a result of attention, and writes it over a part of an
  /// argument. Returns the value to return and its type.
  std::pair<std::string, std::string>
  writeResult(std::string result, PartShape shape,
              const PartDestination &destination, unsigned depth);

  /// The definition of the sizes, to which all tensors are known.
  std::string writeSizes(llvm::ArrayRef<PartSize *> sizes);
  /// The code since the last call.
  std::string takeCode() { return std::exchange(code, std::string()); }

private:
  std::string add(const llvm::Twine &text);
  void writeSize(const PartSize &size);
  std::string writeUnary(llvm::StringRef value, const PartShape &shape);
  std::string writeBinary(llvm::StringRef lhs, llvm::StringRef rhs,
                          const PartShape &shape);
  std::string writeMap(const llvm::Twine &name, llvm::ArrayRef<std::string> ins,
                       const PartShape &shape);
  std::string writeEmpty(const PartShape &shape);
  std::string writeSlice(llvm::StringRef value, const PartShape &from,
                         const PartShape &to);
  std::string writeSlice(const PartSource &source, const PartShape &to);
  std::string writeInsert(llvm::StringRef value, const PartShape &from,
                          llvm::StringRef into, const PartShape &to);
  std::string writeBounds(const PartShape &outer, const PartShape &inner);
  PartShape change(PartShape shape, bool isLarger);
  PartSource addSource(const PartShape &shape, bool isOutput);
  std::optional<PartSource> findSource(const PartShape &shape);
  std::string writeBounds(const PartSource &source, const PartShape &inner);
  std::string chooseOffset(llvm::StringRef outer, llvm::StringRef inner,
                           bool isDynamic);

  RandomChoices &random;
  AddArgument addArgument;
  std::string code;
  unsigned numValues = 0;
  std::vector<PartSource> sources;
};

} // namespace mlir::attn::fuzz

#endif // ATTN_TEST_FUZZ_RANDOMPARTS_H
