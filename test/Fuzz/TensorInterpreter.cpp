//===- TensorInterpreter.cpp - Tensors around an operation ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tensors are evaluated from the operands of an operation, or from what a
// function returns, back to arguments.
//
//===----------------------------------------------------------------------===//

#include "TensorInterpreter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/ErrorHandling.h"

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn::fuzz;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

int64_t TensorSizes::getIndex(Value index) const {
  auto compute = [&](Operation *op, auto function) {
    return function(getIndex(op->getOperand(0)), getIndex(op->getOperand(1)));
  };
  return llvm::TypeSwitch<Operation *, int64_t>(index.getDefiningOp())
      .Case([&](arith::ConstantIndexOp op) { return op.value(); })
      .Case([&](tensor::DimOp op) {
        return getSize(op.getSource(), *op.getConstantIndex());
      })
      .Case([&](arith::MinUIOp op) {
        return compute(op, [](int64_t a, int64_t b) { return std::min(a, b); });
      })
      .Case([&](arith::SubIOp op) {
        return compute(op, [](int64_t a, int64_t b) { return a - b; });
      })
      .Case([&](arith::DivUIOp op) {
        return compute(op, [](int64_t a, int64_t b) { return a / b; });
      })
      .Default([](Operation *) -> int64_t {
        llvm::report_fatal_error("the reference does not know an index");
      });
}

SmallVector<int64_t>
TensorSizes::getIndices(ArrayRef<OpFoldResult> indices) const {
  return llvm::map_to_vector(indices, [&](OpFoldResult index) {
    auto value = dyn_cast<Value>(index);
    return value ? getIndex(value)
                 : cast<IntegerAttr>(cast<Attribute>(index)).getInt();
  });
}

/// The operand whose sizes the result of an operation has, and whose elements
/// if it does not write them.
static Value getTiedOperand(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
    return insert.getDest();
  return cast<DestinationStyleOpInterface>(op)
      .getTiedOpOperand(cast<OpResult>(value))
      ->get();
}

int64_t TensorSizes::getSize(Value tensor, unsigned dim) const {
  auto type = cast<ShapedType>(tensor.getType());
  if (!type.isDynamicDim(dim))
    return type.getDimSize(dim);
  if (auto argument = dyn_cast<BlockArgument>(tensor))
    return getSizeOfArgument(argument, dim);
  if (auto slice = tensor.getDefiningOp<tensor::ExtractSliceOp>())
    return getIndices(slice.getMixedSizes())[dim];
  if (auto empty = tensor.getDefiningOp<tensor::EmptyOp>())
    return getIndices(empty.getMixedSizes())[dim];
  return getSize(getTiedOperand(tensor), dim);
}

SmallVector<int64_t> TensorSizes::getShape(Value tensor) const {
  SmallVector<int64_t> shape;
  for (int64_t dim = 0, e = cast<RankedTensorType>(tensor.getType()).getRank();
       dim < e; ++dim)
    shape.push_back(getSize(tensor, dim));
  return shape;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

BlockArgument attn::fuzz::getDestination(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<tensor::InsertSliceOp, DestinationStyleOpInterface>(op))
      return {};
    value = getTiedOperand(value);
  }
  return cast<BlockArgument>(value);
}

static OperandRange getReturned(Operation *op) {
  return op->getBlock()->getTerminator()->getOperands();
}

bool attn::fuzz::isReturned(Operation *op, Value argument) {
  return llvm::any_of(getReturned(op), [&](Value value) {
    return getDestination(value) == argument;
  });
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

namespace {
/// A tensor. An element that is not written has the contents of an output
/// before the call.
struct ExpectedTensor {
  SmallVector<int64_t> shape;
  std::vector<ExpectedElement> elements;

  explicit ExpectedTensor(ArrayRef<int64_t> shape)
      : shape(shape), elements(llvm::product_of(shape)) {}
  ExpectedElement &at(ArrayRef<int64_t> index) {
    int64_t position = 0;
    for (auto [size, i] : llvm::zip_equal(shape, index))
      position = position * size + i;
    return elements[position];
  }
};

class TensorInterpreter {
public:
  /// `expected` has the results of `op`, by its destinations.
  TensorInterpreter(Operation *op, const TensorMap &tensors,
                    const ExpectedMap &expected)
      : op(op), tensors(tensors), expected(expected),
        sizes([&](BlockArgument argument, unsigned dim) {
          return tensors.find(argument)->second.shape[dim];
        }) {}

  ExpectedTensor get(Value tensor);

private:
  ExpectedTensor readArgument(Value argument);
  ExpectedTensor slice(tensor::ExtractSliceOp slice);
  ExpectedTensor insert(tensor::InsertSliceOp insert);
  ExpectedTensor map(linalg::MapOp map);
  /// Visits all indices of a slice of `shape`, and the same ones in the whole.
  void forEachElement(
      OffsetSizeAndStrideOpInterface slice, ArrayRef<int64_t> shape,
      llvm::function_ref<void(ArrayRef<int64_t>, ArrayRef<int64_t>)> visit);

  Operation *op;
  const TensorMap &tensors;
  const ExpectedMap &expected;
  TensorSizes sizes;
};
} // namespace

void TensorInterpreter::forEachElement(
    OffsetSizeAndStrideOpInterface slice, ArrayRef<int64_t> shape,
    llvm::function_ref<void(ArrayRef<int64_t>, ArrayRef<int64_t>)> visit) {
  SmallVector<int64_t> offsets = sizes.getIndices(slice.getMixedOffsets());
  SmallVector<int64_t> strides = sizes.getIndices(slice.getMixedStrides());
  SmallVector<int64_t> index(shape.size()), whole(shape.size());
  for (int64_t n = 0, e = llvm::product_of(shape); n < e; ++n) {
    int64_t rest = n;
    for (int64_t dim = shape.size() - 1; dim >= 0; --dim) {
      index[dim] = rest % shape[dim];
      whole[dim] = offsets[dim] + index[dim] * strides[dim];
      rest /= shape[dim];
    }
    visit(index, whole);
  }
}

ExpectedTensor TensorInterpreter::readArgument(Value argument) {
  const DenseElements &elements = tensors.find(argument)->second;
  ExpectedTensor result(elements.shape);
  // Outputs begin as NaN.
  for (auto [element, real] : llvm::zip_equal(result.elements, elements.reals))
    element = {real, !std::isnan(real)};
  return result;
}

ExpectedTensor TensorInterpreter::slice(tensor::ExtractSliceOp slice) {
  ExpectedTensor whole = get(slice.getSource());
  ExpectedTensor result(sizes.getShape(slice.getResult()));
  forEachElement(slice, result.shape,
                 [&](ArrayRef<int64_t> index, ArrayRef<int64_t> from) {
                   result.at(index) = whole.at(from);
                 });
  return result;
}

ExpectedTensor TensorInterpreter::insert(tensor::InsertSliceOp insert) {
  ExpectedTensor part = get(insert.getSource()), result = get(insert.getDest());
  forEachElement(insert, part.shape,
                 [&](ArrayRef<int64_t> index, ArrayRef<int64_t> to) {
                   result.at(to) = part.at(index);
                 });
  return result;
}

/// The result of an operation that rounds nothing.
static Interval compute(Operation *op, ArrayRef<Interval> operands) {
  return llvm::TypeSwitch<Operation *, Interval>(op)
      .Case([&](arith::NegFOp) { return -operands[0]; })
      .Case([&](math::AbsFOp) { return abs(operands[0]); })
      .Case([&](arith::MaximumFOp) { return max(operands[0], operands[1]); })
      .Case([&](arith::MinimumFOp) { return min(operands[0], operands[1]); })
      .Default([](Operation *) -> Interval {
        llvm::report_fatal_error("the reference does not know an operation");
      });
}

ExpectedTensor TensorInterpreter::map(linalg::MapOp map) {
  SmallVector<ExpectedTensor> inputs = llvm::map_to_vector(
      map.getInputs(), [&](Value input) { return get(input); });
  ExpectedTensor result(sizes.getShape(map.getInit()));
  Operation &scalar = map.getMapper().front().front();
  for (auto [position, element] : llvm::enumerate(result.elements)) {
    SmallVector<Interval> operands;
    for (Value operand : scalar.getOperands()) {
      unsigned number = cast<BlockArgument>(operand).getArgNumber();
      operands.push_back(inputs[number].elements[position].value);
    }
    element = {compute(&scalar, operands), true};
  }
  return result;
}

ExpectedTensor TensorInterpreter::get(Value tensor) {
  if (isa<BlockArgument>(tensor))
    return readArgument(tensor);
  Operation *definition = tensor.getDefiningOp();
  if (definition == op) {
    ExpectedTensor result(sizes.getShape(tensor));
    result.elements = expected.find(getTiedOperand(tensor))->second;
    return result;
  }
  return llvm::TypeSwitch<Operation *, ExpectedTensor>(definition)
      .Case([&](tensor::ExtractSliceOp op) { return slice(op); })
      .Case([&](tensor::InsertSliceOp op) { return insert(op); })
      .Case([&](linalg::MapOp op) { return map(op); })
      .Case([&](tensor::EmptyOp op) {
        return ExpectedTensor(sizes.getShape(tensor));
      })
      .Default([](Operation *) -> ExpectedTensor {
        llvm::report_fatal_error("the reference does not know a tensor");
      });
}

void attn::fuzz::addOperands(Operation *op, TensorMap &tensors) {
  ExpectedMap none;
  TensorInterpreter interpreter(op, tensors, none);
  for (Value operand : op->getOperands()) {
    if (isa<BlockArgument>(operand))
      continue;
    ExpectedTensor tensor = interpreter.get(operand);
    DenseElements elements;
    elements.shape = tensor.shape;
    elements.isFloat = true;
    for (const ExpectedElement &element : tensor.elements)
      elements.reals.push_back(element.value.low);
    tensors[operand] = std::move(elements);
  }
}

ExpectedMap attn::fuzz::computeReturned(Operation *op, const TensorMap &tensors,
                                        const ExpectedMap &expected) {
  TensorInterpreter interpreter(op, tensors, expected);
  ExpectedMap returned;
  for (Value value : getReturned(op))
    returned[getDestination(value)] = interpreter.get(value).elements;
  return returned;
}
