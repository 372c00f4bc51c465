//===- RandomParts.cpp - Tensors that are parts of others -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tensors are written from the last operation back to arguments. The sizes of
// slices follow when all arguments are known: they are the smallest size of
// these, or less.
//
//===----------------------------------------------------------------------===//

#include "RandomParts.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir::attn::fuzz;
using llvm::ArrayRef;
using llvm::StringRef;
using llvm::Twine;

/// How many tensors of one module may share an argument, on average.
static constexpr unsigned kTensorsPerSource = 3;

static std::string getTensorType(ArrayRef<std::string> sizes,
                                 StringRef element) {
  std::string type = "tensor<";
  for (const std::string &size : sizes)
    type += (StringRef(size).starts_with("%") ? "?" : size) + "x";
  return type + element.str() + ">";
}

std::string PartShape::getType() const {
  return getTensorType(
      llvm::map_to_vector(dims, [](const PartDim &dim) { return dim.get(); }),
      element);
}

std::string PartWriter::add(const Twine &text) {
  std::string name = "%p" + std::to_string(numValues++);
  code += ("  " + name + " = " + text + "\n").str();
  return name;
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

PartSize PartWriter::makeSize(const Twine &name, StringRef size) {
  PartSize result;
  int64_t number;
  result.isDynamic = size.getAsInteger(10, number);
  if (result.isDynamic)
    result.levels = {
        ("%" + name + "_part").str(),
        ("%" + name + (random.onceIn(3) ? "_whole" : "_own")).str(),
        ("%" + name + "_whole").str()};
  else
    result.levels = {std::to_string(random.between((number + 1) / 2, number)),
                     size.str(), std::to_string(number + random.between(0, 3))};
  return result;
}

/// An index from 0 to `size`.
static std::string writeLess(RandomChoices &random, StringRef size) {
  StringRef text = random.pick<StringRef>(
      {"arith.minui $, %c7", "arith.minui $, %c16", "arith.divui $, %c2"});
  auto [before, after] = text.split('$');
  return (before + size + after + " : index").str();
}

void PartWriter::writeSize(const PartSize &size) {
  std::string whole;
  for (const auto &bound : size.bounds) {
    auto source = llvm::find_if(sources, [&](const PartSource &source) {
      return source.name == bound.first;
    });
    std::string own = add("tensor.dim " + source->name + ", %c" +
                          Twine(bound.second) + " : " + source->type);
    whole = whole.empty()
                ? own
                : add("arith.minui " + whole + ", " + own + " : index");
  }
  // The last operation is the whole.
  size_t at = code.rfind(whole);
  code.replace(at, whole.size(), size.levels[2]);
  for (unsigned level : {1, 0})
    if (size.levels[level] != size.levels[level + 1])
      code += "  " + size.levels[level] + " = " +
              writeLess(random, size.levels[level + 1]) + "\n";
}

std::string PartWriter::writeSizes(ArrayRef<PartSize *> sizes) {
  std::string before = takeCode();
  for (unsigned number : {0, 1, 2, 3, 7, 16})
    code += ("  %c" + Twine(number) + " = arith.constant " + Twine(number) +
             " : index\n")
                .str();
  for (PartSize *size : sizes)
    if (size->isDynamic)
      writeSize(*size);
  return std::exchange(code, before);
}

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

/// Where a slice of size `inner` begins in a dimension of size `outer`.
std::string PartWriter::chooseOffset(StringRef outer, StringRef inner,
                                     bool isDynamic) {
  if (random.onceIn(2))
    return "0";
  int64_t large, small;
  if (!isDynamic && !outer.getAsInteger(10, large) &&
      !inner.getAsInteger(10, small))
    return std::to_string(random.between(0, large - small));
  std::string rest = add("arith.subi " + outer + ", " + inner + " : index");
  return random.onceIn(2) ? rest : add("arith.divui " + rest + ", %c2 : index");
}

/// Offsets, sizes and strides of a slice.
static std::string getBounds(ArrayRef<std::string> offsets,
                             const PartShape &inner) {
  auto sizes = llvm::map_to_vector(
      inner.dims, [](const PartDim &dim) { return dim.get(); });
  llvm::SmallVector<std::string> strides(sizes.size(), "1");
  return "[" + llvm::join(offsets, ", ") + "] [" + llvm::join(sizes, ", ") +
         "] [" + llvm::join(strides, ", ") + "]";
}

std::string PartWriter::writeBounds(const PartShape &outer,
                                    const PartShape &inner) {
  llvm::SmallVector<std::string> offsets;
  for (auto [large, small] : llvm::zip_equal(outer.dims, inner.dims))
    offsets.push_back(
        large.level == small.level
            ? std::string("0")
            : chooseOffset(large.get(), small.get(), large.size->isDynamic));
  return getBounds(offsets, inner);
}

std::string PartWriter::writeBounds(const PartSource &source,
                                    const PartShape &inner) {
  llvm::SmallVector<std::string> offsets;
  for (auto [number, dim] : llvm::enumerate(inner.dims)) {
    std::string size = source.sizes[number];
    std::pair<std::string, unsigned> bound(source.name, number);
    if (dim.size->isDynamic && !llvm::is_contained(dim.size->bounds, bound))
      dim.size->bounds.push_back(bound);
    if (dim.size->isDynamic)
      size = add("tensor.dim " + source.name + ", %c" + Twine(number) + " : " +
                 source.type);
    offsets.push_back(chooseOffset(size, dim.get(), dim.size->isDynamic));
  }
  return getBounds(offsets, inner);
}

std::string PartWriter::writeSlice(StringRef value, const PartShape &from,
                                   const PartShape &to) {
  std::string bounds = writeBounds(from, to);
  return add("tensor.extract_slice " + value + bounds + " : " + from.getType() +
             " to " + to.getType());
}

std::string PartWriter::writeSlice(const PartSource &source,
                                   const PartShape &to) {
  std::string bounds = writeBounds(source, to);
  return add("tensor.extract_slice " + source.name + bounds + " : " +
             source.type + " to " + to.getType());
}

std::string PartWriter::writeInsert(StringRef value, const PartShape &from,
                                    StringRef into, const PartShape &to) {
  std::string bounds = writeBounds(to, from);
  return add("tensor.insert_slice " + value + " into " + into + bounds + " : " +
             from.getType() + " into " + to.getType());
}

/// `shape` with one or two dimensions of another level.
PartShape PartWriter::change(PartShape shape, bool isLarger) {
  for (unsigned i = 0, e = random.between(1, 2); i < e; ++i) {
    // Rows, whose sizes may be dynamic, most of the time.
    unsigned number = random.onceIn(2) ? 2 : random.below(shape.dims.size());
    PartLevel &level = shape.dims[number].level;
    if (isLarger && level != PartLevel::Whole)
      level = PartLevel(unsigned(level) + 1);
    if (!isLarger && level != PartLevel::Part)
      level = PartLevel(unsigned(level) - 1);
  }
  return shape;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

PartSource PartWriter::addSource(const PartShape &shape, bool isOutput) {
  PartSource source;
  source.element = shape.element;
  source.isOutput = isOutput;
  for (auto [number, dim] : llvm::enumerate(shape.dims)) {
    // An output that is written as a whole is not an argument of the artifact.
    bool isLarger = (isOutput && number == 1) || random.onceIn(4);
    int64_t rest = isLarger ? random.between(1, 4) : 0;
    source.sizes.push_back(dim.size->isDynamic
                               ? "?"
                               : std::to_string(std::stoll(dim.get()) + rest));
  }
  source.type = getTensorType(source.sizes, shape.element);
  source.name = addArgument(isOutput ? "out" : "x", source.type);
  sources.push_back(source);
  return source;
}

/// Whether tensors of `shape` are slices of `source`.
static bool holds(const PartSource &source, const PartShape &shape) {
  if (source.element != shape.element ||
      source.sizes.size() != shape.dims.size())
    return false;
  return llvm::all_of(llvm::zip_equal(source.sizes, shape.dims),
                      [](const auto &pair) {
                        const auto &[size, dim] = pair;
                        if (dim.size->isDynamic || size == "?")
                          return dim.size->isDynamic && size == "?";
                        return std::stoll(size) >= std::stoll(dim.get());
                      });
}

std::optional<PartSource> PartWriter::findSource(const PartShape &shape) {
  std::vector<PartSource> found;
  for (const PartSource &source : sources)
    if (!source.isOutput && holds(source, shape))
      found.push_back(source);
  if (found.empty() || random.onceIn(kTensorsPerSource))
    return std::nullopt;
  return random.pick(found);
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

std::string PartWriter::writeEmpty(const PartShape &shape) {
  std::vector<std::string> sizes;
  for (const PartDim &dim : shape.dims)
    if (dim.size->isDynamic)
      sizes.push_back(dim.get());
  return add("tensor.empty(" + llvm::join(sizes, ", ") +
             ") : " + shape.getType());
}

std::string PartWriter::writeMap(const Twine &name, ArrayRef<std::string> ins,
                                 const PartShape &shape) {
  std::string type = shape.getType(), empty = writeEmpty(shape);
  std::vector<std::string> types(ins.size(), type);
  return add("linalg.map { " + name + " } ins(" + llvm::join(ins, ", ") +
             " : " + llvm::join(types, ", ") + ") outs(" + empty + " : " +
             type + ")");
}

std::string PartWriter::writeUnary(StringRef value, const PartShape &shape) {
  StringRef name = random.pick<StringRef>({"arith.negf", "math.absf"});
  return writeMap(name, {value.str()}, shape);
}

std::string PartWriter::writeBinary(StringRef lhs, StringRef rhs,
                                    const PartShape &shape) {
  StringRef name = random.pick<StringRef>({"arith.maximumf", "arith.minimumf"});
  return writeMap(name, {lhs.str(), rhs.str()}, shape);
}

std::string PartWriter::writeTensor(const PartShape &shape, unsigned depth) {
  if (depth == 0) {
    std::optional<PartSource> found = findSource(shape);
    PartSource source = found ? *found : addSource(shape, /*isOutput=*/false);
    return writeSlice(source, shape);
  }
  switch (random.below(4)) {
  case 0:
    return writeUnary(writeTensor(shape, depth - 1), shape);
  case 1: {
    std::string lhs = writeTensor(shape, depth - 1);
    return writeBinary(lhs, writeTensor(shape, random.below(depth)), shape);
  }
  case 2: {
    PartShape larger = change(shape, /*isLarger=*/true);
    return writeSlice(writeTensor(larger, depth - 1), larger, shape);
  }
  default:
    PartShape smaller = change(shape, /*isLarger=*/false);
    std::string value = writeTensor(smaller, depth - 1);
    return writeInsert(value, smaller, writeTensor(shape, random.below(depth)),
                       shape);
  }
}

PartDestination PartWriter::writeDestination(const PartShape &shape) {
  if (!random.onceIn(3))
    return {writeEmpty(shape), std::nullopt};
  PartSource output = addSource(shape, /*isOutput=*/true);
  return {writeSlice(output, shape), output};
}

std::pair<std::string, std::string>
PartWriter::writeResult(std::string result, PartShape shape,
                        const PartDestination &destination, unsigned depth) {
  for (; depth > 0; --depth) {
    PartShape old = shape;
    switch (random.below(4)) {
    case 0:
      result = writeUnary(result, shape);
      break;
    case 1:
      result =
          writeBinary(result, writeTensor(shape, random.below(depth)), shape);
      break;
    case 2:
      shape = change(shape, /*isLarger=*/false);
      result = writeSlice(result, old, shape);
      break;
    default:
      shape = change(shape, /*isLarger=*/true);
      result = writeInsert(result, old, writeTensor(shape, random.below(depth)),
                           shape);
    }
  }
  PartSource source = destination.output && holds(*destination.output, shape)
                          ? *destination.output
                          : addSource(shape, /*isOutput=*/true);
  std::string bounds = writeBounds(source, shape);
  return {add("tensor.insert_slice " + result + " into " + source.name +
              bounds + " : " + shape.getType() + " into " + source.type),
          source.type};
}
