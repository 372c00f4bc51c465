//===- EmitC.cpp - Functions of the dialect as C --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each value is an array, each operation a loop, or a call of what Attn
// compiled.
//
//===----------------------------------------------------------------------===//

#include "Net.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace {
/// Writes one function.
class FunctionEmitter {
public:
  explicit FunctionEmitter(raw_ostream &os) : os(os) {}
  LogicalResult emit(func::FuncOp function);

private:
  LogicalResult emit(Operation *op);
  void emit(net::CallKernelOp op);

  /// Names a value, and declares it if it has no array yet.
  void declare(Value value, bool isResult);
  void declareTensor(Value value, StringRef name);
  StringRef name(Value value) { return names[value]; }

  raw_ostream &os;
  DenseMap<Value, std::string> names;
  unsigned numCalls = 0;
};
} // namespace

static int64_t count(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

void FunctionEmitter::declare(Value value, bool isResult) {
  std::string name = isResult ? "result" : "v" + std::to_string(names.size());
  names[value] = name;
  if (!isResult)
    os << llvm::formatv("  static float {0}[{1}];\n", name, count(value));
}

void FunctionEmitter::declareTensor(Value value, StringRef tensor) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> strides(type.getRank(), 1);
  for (int64_t i = type.getRank() - 1; i > 0; --i)
    strides[i - 1] = strides[i] * type.getDimSize(i);
  os << llvm::formatv(
      "    const int64_t {0}_shape[] = {{{1}}, {0}_strides[] = {{{2}};\n"
      "    attn_tensor {0} = {{(void *){3}, {0}_shape, {0}_strides, {4}, "
      "ATTN_F32, ATTN_DEVICE_HOST, 0};\n",
      tensor, llvm::join(llvm::map_range(type.getShape(), llvm::itostr), ", "),
      llvm::join(llvm::map_range(strides, llvm::itostr), ", "), name(value),
      type.getRank());
}

void FunctionEmitter::emit(net::CallKernelOp op) {
  os << "  {\n";
  std::string arguments;
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    declareTensor(input, "in" + std::to_string(i));
    arguments += "&in" + std::to_string(i) + ", ";
  }
  declareTensor(op.getResult(), "out");
  os << llvm::formatv("    int32_t status = {0}({1}&out, NULL);\n",
                      op.getKernel(), arguments)
     << "    if (status != ATTN_OK)\n      return status;\n  }\n";
}

LogicalResult FunctionEmitter::emit(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](net::AddOp add) {
        os << llvm::formatv("  for (int64_t i = 0; i < {0}; ++i)\n    {1}[i] = "
                            "{2}[i] + {3}[i];\n",
                            count(add), name(add), name(add.getLhs()),
                            name(add.getRhs()));
        return success();
      })
      .Case([&](net::RmsNormOp norm) {
        int64_t row = cast<RankedTensorType>(norm.getType()).getShape().back();
        os << llvm::formatv("  for (int64_t i = 0; i < {0}; i += {1}) {{\n"
                            "    float sum = 0;\n"
                            "    for (int64_t j = i; j < i + {1}; ++j)\n"
                            "      sum += {2}[j] * {2}[j];\n"
                            "    for (int64_t j = i; j < i + {1}; ++j)\n"
                            "      {3}[j] = {2}[j] / sqrtf(sum / {1});\n  }\n",
                            count(norm), row, name(norm.getInput()),
                            name(norm));
        return success();
      })
      .Case([&](net::CallKernelOp call) {
        emit(call);
        return success();
      })
      .Default([](Operation *op) {
        return op->emitOpError("cannot be written as C");
      });
}

LogicalResult FunctionEmitter::emit(func::FuncOp function) {
  Block &body = function.front();
  auto terminator = cast<func::ReturnOp>(body.getTerminator());
  if (terminator.getNumOperands() != 1 ||
      isa<BlockArgument>(terminator.getOperand(0)))
    return function.emitOpError("must return the result of one operation");
  os << "int32_t " << function.getName() << "(";
  for (BlockArgument argument : function.getArguments()) {
    names[argument] = "a" + std::to_string(argument.getArgNumber());
    os << "const float *" << name(argument) << ", ";
  }
  os << "float *result) {\n";
  for (Operation &op : body.without_terminator())
    declare(op.getResult(0), op.getResult(0) == terminator.getOperand(0));
  for (Operation &op : body.without_terminator())
    if (failed(emit(&op)))
      return failure();
  os << "  return ATTN_OK;\n}\n";
  return success();
}

LogicalResult net::emitC(ModuleOp module, StringRef header, raw_ostream &os) {
  os << "#include \"" << header
     << "\"\n#include <math.h>\n#include <stddef.h>\n";
  for (auto function : module.getOps<func::FuncOp>()) {
    os << "\n";
    if (failed(FunctionEmitter(os).emit(function)))
      return failure();
  }
  return success();
}
