//===- RandomTensors.cpp - Arguments of functions -------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes are those that the artifact asks for. Tensors with a meaning, such as
// lengths of sequences, get values that obey the rules of the operation; others
// hold values of the whole range of their type.
//
//===----------------------------------------------------------------------===//

#include "RandomTensors.h"
#include "Reference.h"
#include "TensorInterpreter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn::fuzz;

namespace {
/// Makes the tensors of one run.
class TensorMaker {
public:
  TensorMaker(Operation *op, const attn_function &function,
              RandomChoices &random, int64_t largestSize)
      : op(op), attention(dyn_cast<AttentionOpInterface>(op)),
        function(function), random(random), largestSize(largestSize),
        block(&op->getParentOfType<func::FuncOp>().getBody().front()) {}

  ArgumentTensors make();

private:
  void chooseSymbols();
  void setSize(Value argument, unsigned dim, int64_t size);
  int64_t getSize(Value tensor, unsigned dim) const;
  void setBatchSizes();
  void setBlockSizes(Attribute mask);
  bool isOutput(Value argument) const;
  bool isForwardResult(Value argument) const;
  bool mayRepeat(Value argument);

  void fill(Value argument, GuardedTensor &tensor);
  void fillFloats(GuardedTensor &tensor, bool isInput);
  void fillIntegers(GuardedTensor &tensor);
  bool fillMaskRead(Value argument, Attribute mask, GuardedTensor &tensor);
  void fillSorted(GuardedTensor &tensor, int64_t largest);
  void fillPositions(GuardedTensor &tensor);
  int64_t chooseFirst(int64_t largest);
  void fillIndices(Value argument, BlockSparseAttr mask, GuardedTensor &tensor);
  void fillOffsets(Value argument, BlockSparseAttr mask, GuardedTensor &tensor);
  void fillForwardResults(AttentionGradOp gradient,
                          const ArgumentTensors &tensors);

  Operation *op;
  AttentionOpInterface attention;
  const attn_function &function;
  RandomChoices &random;
  int64_t largestSize;
  Block *block;
  SmallVector<int64_t> symbols;
};
} // namespace

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

int64_t TensorMaker::getSize(Value tensor, unsigned dim) const {
  TensorSizes sizes([&](BlockArgument argument, unsigned dim) {
    int64_t size = function.args[argument.getArgNumber()].dims[dim];
    return size >= 0 ? size : symbols[ATTN_DIM_SYMBOL(size)];
  });
  return sizes.getSize(tensor, dim);
}

void TensorMaker::setSize(Value argument, unsigned dim, int64_t size) {
  unsigned number = cast<BlockArgument>(argument).getArgNumber();
  int64_t entry = function.args[number].dims[dim];
  if (entry < 0)
    symbols[ATTN_DIM_SYMBOL(entry)] = size;
}

/// The sizes of the lists of block-sparse masks.
void TensorMaker::setBlockSizes(Attribute mask) {
  mask.walk([&](BlockSparseAttr blocks) {
    Value offsets = attention.getMaskReads()[blocks.getOffsets()];
    Value indices = attention.getMaskReads()[blocks.getIndices()];
    int64_t queries = getSize(attention.getQuery(), 2);
    int64_t keys = getSize(attention.getKey(), 2);
    int64_t rows = llvm::divideCeil(queries, blocks.getRows());
    int64_t columns = llvm::divideCeil(keys, blocks.getColumns());
    setSize(offsets, 2, rows + 1);
    setSize(indices, 2, rows * columns + random.below(3));
  });
}

/// Few batch entries: each is computed by the reference, too.
void TensorMaker::setBatchSizes() {
  for (BlockArgument argument : block->getArguments()) {
    auto type = dyn_cast<ShapedType>(argument.getType());
    if (type && type.getRank() == 4 && isa<FloatType>(type.getElementType()))
      setSize(argument, 0, random.onceIn(24) ? 0 : random.between(1, 2));
  }
}

void TensorMaker::chooseSymbols() {
  for (int32_t i = 0; i < function.num_symbols; ++i)
    symbols.push_back(random.onceIn(24)  ? 0
                      : random.onceIn(3) ? random.between(1, 8)
                                         : random.between(1, largestSize));
  if (!attention)
    return;
  setBatchSizes();
  if (Value sequences = attention.getQuerySequences()) {
    bool isPacked = *attention.getSequenceLayout() == SequenceLayout::Packed;
    if (isPacked)
      for (Value lengths : {sequences, attention.getKeySequences()})
        setSize(lengths, 0, random.between(1, 4));
  }
  if (Value words = attention.getDropoutMask()) {
    bool isByRows = *attention.getMaskLayout() == MaskLayout::Rows;
    int64_t queries = getSize(attention.getQuery(), 2);
    int64_t keys = getSize(attention.getKey(), 2);
    setSize(words, isByRows ? 2 : 3, llvm::divideCeil(queries, 64) * 32);
    setSize(words, isByRows ? 3 : 2, llvm::divideCeil(keys, 64) * 4);
    if (Value sequences = attention.getQuerySequences())
      if (*attention.getSequenceLayout() == SequenceLayout::Packed)
        setSize(words, 0, getSize(sequences, 0) - 1);
  }
  if (Attribute mask = attention.getMaskAttr()) {
    setBlockSizes(mask);
    mask.walk([&](PackedDocumentsAttr documents) {
      int64_t count = random.between(1, 5);
      setSize(attention.getMaskReads()[documents.getQueries()], 1, count);
      setSize(attention.getMaskReads()[documents.getKeys()], 1, count);
    });
  }
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// The exponent of two below which numbers of `dtype` are subnormal, less one.
static int getLargestSubnormalExponent(attn_dtype dtype) {
  switch (dtype) {
  case ATTN_F8E4M3FN:
    return -7;
  case ATTN_F16:
  case ATTN_F8E5M2:
    return -15;
  default:
    return -127;
  }
}

void TensorMaker::fillFloats(GuardedTensor &tensor, bool isInput) {
  attn_dtype dtype = tensor.getDType();
  double largest = 0.9 * getLargest(dtype);
  auto getUniform = [&] { return 2 * random.fraction() - 1; };
  // Inputs of dot products are moderate most of the time, so that scores and
  // sums have a bound.
  uint64_t kind = random.below(isInput ? 16 : 8);
  double scale = std::ldexp(1.0, random.between(-3, 2));
  double offset = random.onceIn(8) ? scale * getUniform() * 4 : 0;
  tensor.fillReals([&]() -> double {
    switch (kind) {
    case 0:
      // All exponents of the type.
      return roundToDType(
          std::copysign(
              std::min(largest, std::exp2(random.fraction() * 280 - 150)),
              getUniform()),
          dtype);
    case 1:
      return std::ldexp(getUniform(), random.between(-14, 6));
    case 2:
      return random.onceIn(3) ? 0 : random.onceIn(2) ? -0.0 : getUniform();
    case 3:
      return std::ldexp(getUniform(), getLargestSubnormalExponent(dtype));
    case 4:
      if (isInput)
        return getUniform() * 8;
      return random.pick({0.0, -1e10, 1e12, -1e30, 1.0, -2.0, 1e-40});
    case 5:
      if (isInput)
        return random.onceIn(10) ? getUniform() * 100 : getUniform();
      return random.onceIn(2) ? -std::numeric_limits<double>::infinity() : 0;
    default:
      return offset + scale * getUniform();
    }
  });
}

void TensorMaker::fillIntegers(GuardedTensor &tensor) {
  if (tensor.getDType() == ATTN_I1)
    return tensor.fillIntegers([&] { return random.below(2); });
  uint64_t kind = random.below(4);
  tensor.fillIntegers([&]() -> int64_t {
    switch (kind) {
    case 0:
      return random.between(-3, 3);
    case 1:
      return random.between(0, 40);
    case 2:
      return random.pick<int64_t>({0, -1, 1, 2, 7, 127, -128, 2147483647,
                                   -2147483648,
                                   std::numeric_limits<int64_t>::max(),
                                   std::numeric_limits<int64_t>::min()});
    default:
      return random.word();
    }
  });
}

void TensorMaker::fillSorted(GuardedTensor &tensor, int64_t largest) {
  int64_t count = tensor.getShape().back();
  SmallVector<int64_t> row;
  tensor.fillIntegers([&] {
    if (row.empty()) {
      for (int64_t i = 0; i < count; ++i)
        row.push_back(random.between(0, largest));
      llvm::sort(row, std::greater<int64_t>());
    }
    return row.pop_back_val();
  });
}

/// The first position of a shard in a larger attention, at most `largest`.
int64_t TensorMaker::chooseFirst(int64_t largest) {
  int64_t first = random.onceIn(4)   ? 0
                  : random.onceIn(6) ? largest - random.below(40)
                                     : random.between(0, largestSize);
  return attention.getDropoutAttr() ? first / 16 * 16 : first;
}

/// A shard of a larger attention: its first query, key, batch entry and head,
/// and the lengths of the larger one.
void TensorMaker::fillPositions(GuardedTensor &tensor) {
  // The largest entry (attn.attention).
  constexpr int64_t largest = (int64_t(1) << 28) - 1;
  int64_t queries = getSize(attention.getQuery(), 2);
  int64_t keys = getSize(attention.getKey(), 2);
  int64_t query = chooseFirst(largest - queries);
  int64_t key = chooseFirst(largest - keys);
  auto chooseLength = [&](int64_t end) {
    return std::min(
        largest, random.onceIn(3) ? end : end + random.between(0, largestSize));
  };
  int64_t entries[] = {query,
                       key,
                       random.between(0, 3),
                       random.between(0, 3),
                       chooseLength(query + queries),
                       chooseLength(key + keys)};
  const int64_t *next = entries;
  tensor.fillIntegers([&] { return *next++; });
}

/// Each block row lists the same number of columns, `n`: offsets are multiples
/// of it, and indices repeat a permutation of the columns.
void TensorMaker::fillOffsets(Value argument, BlockSparseAttr mask,
                              GuardedTensor &tensor) {
  int64_t columns =
      llvm::divideCeil(getSize(attention.getKey(), 2), mask.getColumns());
  int64_t at = 0, count = tensor.getShape().back();
  tensor.fillIntegers([&] { return at++ % count * columns; });
}

void TensorMaker::fillIndices(Value argument, BlockSparseAttr mask,
                              GuardedTensor &tensor) {
  int64_t columns =
      llvm::divideCeil(getSize(attention.getKey(), 2), mask.getColumns());
  int64_t at = 0, count = tensor.getShape().back();
  tensor.fillIntegers(
      [&] { return at++ % count % std::max<int64_t>(columns, 1); });
}

/// Fills `argument` if a named mask reads it.
bool TensorMaker::fillMaskRead(Value argument, Attribute mask,
                               GuardedTensor &tensor) {
  if (!mask)
    return false;
  OperandRange reads = attention.getMaskReads();
  int64_t queries = getSize(attention.getQuery(), 2);
  int64_t keys = getSize(attention.getKey(), 2);
  bool isFilled = false;
  auto check = [&](int64_t read, llvm::function_ref<void()> fillTensor) {
    if (isFilled || reads[read] != argument)
      return;
    isFilled = true;
    fillTensor();
  };
  mask.walk([&](Attribute part) {
    if (auto documents = dyn_cast<DocumentsAttr>(part))
      for (int64_t read : {documents.getQueries(), documents.getKeys()})
        check(read, [&] {
          tensor.fillIntegers([&] { return random.between(-1, 2); });
        });
    if (auto documents = dyn_cast<PackedDocumentsAttr>(part)) {
      check(documents.getQueries(), [&] { fillSorted(tensor, queries); });
      check(documents.getKeys(), [&] { fillSorted(tensor, keys); });
    }
    if (auto tree = dyn_cast<TreeAttr>(part)) {
      check(tree.getParents(), [&] {
        int64_t at = 0, count = std::max<int64_t>(tensor.getShape().back(), 1);
        tensor.fillIntegers(
            [&] { return random.between(-1, at++ % count - 1); });
      });
    }
    if (auto blocks = dyn_cast<BlockSparseAttr>(part)) {
      check(blocks.getOffsets(),
            [&] { fillOffsets(argument, blocks, tensor); });
      check(blocks.getIndices(),
            [&] { fillIndices(argument, blocks, tensor); });
    }
  });
  return isFilled;
}

void TensorMaker::fill(Value argument, GuardedTensor &tensor) {
  if (isOutput(argument))
    return tensor.poison();
  if (!attention)
    return tensor.isFloat() ? fillFloats(tensor, true) : fillIntegers(tensor);
  for (auto [lengths, heads] :
       {std::pair(attention.getQuerySequences(), attention.getQuery()),
        std::pair(attention.getKeySequences(), attention.getKey())})
    if (argument == lengths) {
      int64_t rows = getSize(heads, 2);
      if (*attention.getSequenceLayout() == SequenceLayout::Packed)
        return fillSorted(tensor, rows);
      return tensor.fillIntegers([&] { return random.between(0, rows); });
    }
  if (fillMaskRead(argument, attention.getMaskAttr(), tensor))
    return;
  if (argument == attention.getHeadMap())
    return tensor.fillIntegers(
        [&] { return random.below(getSize(attention.getKey(), 1)); });
  if (argument == attention.getSeed() || argument == attention.getOffset())
    return tensor.fillIntegers([&] { return random.word(); });
  if (argument == attention.getPositions())
    return fillPositions(tensor);
  if (argument == attention.getDropoutMask())
    return tensor.fillIntegers([&] { return random.word(); });
  if (!tensor.isFloat())
    return fillIntegers(tensor);
  Value identity;
  if (auto forward = dyn_cast<AttentionOp>(op))
    identity = forward.getIdentity();
  if (auto gradient = dyn_cast<AttentionGradOp>(op))
    identity = gradient.getIdentity();
  if (argument == identity)
    return tensor.fillReals(
        [&] { return random.onceIn(4) ? random.below(2) : random.fraction(); });
  // Regions read others.
  bool isInput = llvm::any_of(argument.getUsers(), [](Operation *user) {
    return !isa<tensor::ExtractOp>(user);
  });
  fillFloats(tensor, isInput);
}

/// `value`, or 0 if it is not known.
static double getMiddle(Interval value) {
  if (!value.isKnown() || !(value.high < kInfinity))
    return 0;
  return value.low == -kInfinity ? value.high : value.middle();
}

/// Gives a gradient the log-sum-exp, and with an `identity` the output, that
/// attention would give. The formulas hold for any other output.
void TensorMaker::fillForwardResults(AttentionGradOp gradient,
                                     const ArgumentTensors &tensors) {
  TensorMap elements;
  for (const auto &[argument, tensor] : tensors)
    elements[argument] = tensor->getElements();
  ForwardResults results =
      computeForwardResults(gradient, elements, Accuracy::ofHost());
  for (const auto &[argument, tensor] : tensors) {
    size_t at = 0;
    if (argument == gradient.getLse())
      tensor->fillReals([&] { return getMiddle(results.lse[at++]); });
    else if (argument == gradient.getOut() && gradient.getIdentity())
      tensor->fillReals([&] { return getMiddle(results.out[at++]); });
  }
}

bool TensorMaker::isOutput(Value argument) const {
  auto destination = cast<DestinationStyleOpInterface>(op);
  return llvm::is_contained(destination.getDpsInits(), argument) ||
         isReturned(op, argument);
}

/// Whether a gradient takes `argument` from attention.
bool TensorMaker::isForwardResult(Value argument) const {
  auto gradient = dyn_cast<AttentionGradOp>(op);
  return gradient &&
         (argument == gradient.getOut() || argument == gradient.getLse());
}

/// Whether elements of `argument` may be in one place.
bool TensorMaker::mayRepeat(Value argument) {
  bool arePositions = attention && argument == attention.getPositions();
  return !isOutput(argument) && !isForwardResult(argument) && !arePositions;
}

ArgumentTensors TensorMaker::make() {
  chooseSymbols();
  ArgumentTensors tensors;
  for (BlockArgument argument : block->getArguments()) {
    const attn_tensor_spec &spec = function.args[argument.getArgNumber()];
    SmallVector<int64_t> shape;
    for (int32_t dim = 0; dim < spec.rank; ++dim)
      shape.push_back(getSize(argument, dim));
    auto tensor =
        std::make_unique<GuardedTensor>(static_cast<attn_dtype>(spec.dtype),
                                        shape, mayRepeat(argument), random);
    fill(argument, *tensor);
    tensors.push_back({argument, std::move(tensor)});
  }
  if (auto gradient = dyn_cast<AttentionGradOp>(op))
    fillForwardResults(gradient, tensors);
  return tensors;
}

ArgumentTensors mlir::attn::fuzz::makeTensors(Operation *op,
                                              const attn_function &function,
                                              RandomChoices &random,
                                              int64_t largestSize) {
  return TensorMaker(op, function, random, largestSize).make();
}
