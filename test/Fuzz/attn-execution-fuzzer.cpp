//===- attn-execution-fuzzer.cpp - Fuzzer that runs what it compiles ------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes a random module, compiles it for the host, runs it in this process a
// few times, with other sizes, layouts and values each time, and compares the
// outputs with a reference that uses no code of the compiler. An input that
// is a module as text is run instead of a random one.
//
// Environment variables: ATTN_FUZZ_PRINT=1 prints each module,
// its diagnostics and the arguments of its runs;
// ATTN_FUZZ_COMPILE=0 neither compiles nor runs modules;
// ATTN_FUZZ_KEEP_GOING=1 counts wrong results instead of ending at the first;
// ATTN_FUZZ_PERTURB=1 changes one element of an output by more than its bound
// after each run, which must be found.
//
//===----------------------------------------------------------------------===//

#include "FuzzSupport.h"
#include "GuardedTensor.h"
#include "HostCode.h"
#include "RandomModule.h"
#include "RandomTensors.h"
#include "Reference.h"
#include "attn/Compiler/Compiler.h"
#include "attn/InitAllDialects.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <cstring>
#include <random>

using namespace mlir;
using namespace mlir::attn::fuzz;

/// Runs of one module.
static constexpr unsigned kRuns = 3;
static constexpr unsigned kModulesPerContext = 200;
/// Elements of a tensor whose values are printed after a wrong result.
static constexpr int64_t kPrintedElements = 128;

namespace {
struct Counts {
  uint64_t rejected = 0, compiled = 0, runs = 0, compared = 0, unknown = 0,
           wrong = 0;
};
} // namespace

static Counts counts;

static void printCounts() {
  llvm::errs() << "attn-execution-fuzzer: " << counts.compiled
               << " modules compiled and executed, " << counts.runs << " runs, "
               << counts.compared << " values compared, " << counts.wrong
               << " runs with wrong results, " << counts.unknown
               << " values without a bound, " << counts.rejected
               << " modules rejected\n";
}

static bool isSet(const char *variable, StringRef expected = "1") {
  const char *value = std::getenv(variable);
  return value && StringRef(value) == expected;
}

/// The input that is run.
static ArrayRef<uint8_t> currentInput;

/// Writes the input to the working directory, as libFuzzer does after a crash.
static void saveInput() {
  std::error_code error;
  std::string name =
      "wrong-" + llvm::utohexstr(llvm::xxh3_64bits(currentInput));
  llvm::raw_fd_ostream os(name, error);
  os.write(reinterpret_cast<const char *>(currentInput.data()),
           currentInput.size());
  llvm::errs() << "input: " << name << "\n";
}

static ModuleParser &getParser() {
  static ModuleParser *parser = [] {
    DialectRegistry registry;
    attn::registerCompilerDialects(registry);
    return new ModuleParser(std::move(registry), kModulesPerContext);
  }();
  return *parser;
}

/// The one operation that is computed.
static Operation *findOperation(ModuleOp module) {
  Operation *found = nullptr;
  module.walk([&](Operation *op) {
    if (isa<attn::AttentionOp, attn::AttentionGradOp, attn::MatmulOp>(op))
      found = op;
  });
  return found;
}

namespace {
/// One run of a compiled module.
class Run {
public:
  Run(StringRef text, Operation *op, const attn_function &function,
      RandomChoices &random)
      : text(text), op(op), function(function), random(random) {}

  void execute();

private:
  void call();
  void printArguments() const;
  void comparePart(Value output, GuardedTensor &tensor,
                   ArrayRef<ExpectedElement> expected);
  void perturb(const ExpectedMap &expected);
  /// Reports a wrong result, and ends the process.
  void fail(const Twine &message);

  StringRef text;
  Operation *op;
  const attn_function &function;
  RandomChoices &random;
  ArgumentTensors arguments;
};
} // namespace

void Run::printArguments() const {
  for (const auto &[argument, tensor] : arguments) {
    llvm::errs() << "  argument "
                 << cast<BlockArgument>(argument).getArgNumber() << ": "
                 << tensor->describe();
    DenseElements elements = tensor->getElements();
    if (elements.size() <= kPrintedElements) {
      llvm::errs() << " =";
      for (double real : elements.reals)
        llvm::errs() << llvm::format(" %.9g", real);
      for (int64_t integer : elements.integers)
        llvm::errs() << " " << integer;
    }
    llvm::errs() << "\n";
  }
}

void Run::fail(const Twine &message) {
  llvm::errs() << "attn-execution-fuzzer: wrong result\n" << message << "\n";
  printArguments();
  llvm::errs() << text;
  ++counts.wrong;
  if (!isSet("ATTN_FUZZ_KEEP_GOING"))
    std::abort();
  saveInput();
}

void Run::call() {
  SmallVector<attn_tensor> tensors;
  for (const auto &[argument, tensor] : arguments)
    tensors.push_back(tensor->getDescriptor());
  SmallVector<const attn_tensor *> pointers;
  for (const attn_tensor &tensor : tensors)
    pointers.push_back(&tensor);
  int32_t status = function.call(pointers.data(), pointers.size(), nullptr);
  if (status != ATTN_OK)
    fail("status " + Twine(attnStatusName(status)) + ": " + attnGetLastError());
}

/// "[0, 2, 5]" of a position.
static std::string describePosition(ArrayRef<int64_t> shape, int64_t position) {
  SmallVector<std::string> index;
  for (int64_t size : llvm::reverse(shape)) {
    index.insert(index.begin(), std::to_string(position % size));
    position /= size;
  }
  return "[" + llvm::join(index, ", ") + "]";
}

void Run::comparePart(Value output, GuardedTensor &tensor,
                      ArrayRef<ExpectedElement> expected) {
  if (!tensor.isUnchangedBetweenElements())
    return fail("memory between the elements of argument " +
                Twine(cast<BlockArgument>(output).getArgNumber()) +
                " was written");
  DenseElements actual = tensor.getElements();
  for (auto [position, element] : llvm::enumerate(expected)) {
    double value = actual.reals[position];
    // Outputs begin as NaN.
    bool isRight =
        element.isWritten ? element.value.contains(value) : std::isnan(value);
    if (element.isWritten && !element.value.isKnown()) {
      ++counts.unknown;
      continue;
    }
    ++counts.compared;
    if (isRight)
      continue;
    std::string message;
    llvm::raw_string_ostream os(message);
    os << "argument " << cast<BlockArgument>(output).getArgNumber()
       << ", element " << describePosition(actual.shape, position)
       << ": expected ";
    if (element.isWritten)
      os << llvm::format("between %.9g and %.9g", element.value.low,
                         element.value.high);
    else
      os << "its old contents";
    os << llvm::format(", got %.9g", value);
    return fail(message);
  }
}

/// Changes the first element that has a bound.
void Run::perturb(const ExpectedMap &expected) {
  for (const auto &[argument, tensor] : arguments) {
    auto found = expected.find(argument);
    if (found == expected.end())
      continue;
    for (auto [position, element] : llvm::enumerate(found->second))
      if (element.isWritten && element.value.isFinite()) {
        double width = element.value.high - element.value.low;
        tensor->perturb(position,
                        3 * width + 0.1 * element.value.magnitude() + 0.01);
        return;
      }
  }
}

void Run::execute() {
  arguments = makeTensors(op, function, random);
  TensorMap elements;
  for (const auto &[argument, tensor] : arguments) {
    tensor->remember();
    elements[argument] = tensor->getElements();
  }
  // A crash leaves no time to.
  if (isSet("ATTN_FUZZ_PRINT"))
    printArguments();
  call();
  ++counts.runs;
  ExpectedMap expected = computeReference(op, elements);
  if (isSet("ATTN_FUZZ_PERTURB"))
    perturb(expected);
  for (const auto &[argument, tensor] : arguments) {
    auto found = expected.find(argument);
    if (found != expected.end())
      comparePart(argument, *tensor, found->second);
    else if (!tensor->isUnchanged())
      fail("argument " + Twine(cast<BlockArgument>(argument).getArgNumber()) +
           ", an input, was written");
  }
}

extern "C" int LLVMFuzzerInitialize(int *argc, char ***argv) {
  std::atexit(printCounts);
  return 0;
}

/// libFuzzer's own mutation.
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

/// Half of the inputs are new, so that modules differ from one another.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  std::mt19937_64 random(seed);
  if (random() % 2 || maxSize < sizeof(uint64_t))
    return LLVMFuzzerMutate(data, size, maxSize);
  uint64_t bytes = random();
  std::memcpy(data, &bytes, sizeof(bytes));
  return sizeof(bytes);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  currentInput = ArrayRef(data, size);
  RandomChoices random(currentInput);
  StringRef given(reinterpret_cast<const char *>(data), size);
  bool isModule = given.contains("func.func");
  std::string text = isModule ? given.str() : writeRandomModule(random);
  if (isSet("ATTN_FUZZ_PRINT"))
    llvm::errs() << text;
  MLIRContext &context = getParser().beginModule();
  ScopedDiagnosticHandler handler(&context, [](Diagnostic &diagnostic) {
    if (isSet("ATTN_FUZZ_PRINT"))
      llvm::errs() << "diagnostic: " << diagnostic << "\n";
    // The parser's handler notes it.
    return failure();
  });
  OwningOpRef<ModuleOp> module = getParser().parse(text);
  Operation *op = module ? findOperation(*module) : nullptr;
  if (!op) {
    ++counts.rejected;
    return -1;
  }
  if (isSet("ATTN_FUZZ_COMPILE", "0"))
    return 0;
  OwningOpRef<ModuleOp> original(module->clone());
  noteOperations(*module, "");
  std::unique_ptr<HostCode> code = HostCode::compile(*module, random);
  if (!code) {
    ++counts.rejected;
    return 0;
  }
  noteOperations(*module, "llvm");
  ++counts.compiled;
  for (unsigned i = 0; i < kRuns; ++i)
    Run(text, findOperation(*original), code->getFunction(), random).execute();
  return 0;
}
