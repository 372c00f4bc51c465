//===- attn-fuzz-cases.cpp - Random modules and bounds of results ---------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes random modules for GPUs to a folder, each with the arguments of a few
// runs and bounds of the results, for test/Integration/gpu/fuzz.py. Module
// number N is in the file N.mlir, with derivatives of its `score_mod`. N.json
// describes the runs: a list of arguments for each, with dtype, shape, and the
// number of elements with bounds if the argument is an output. N.bin has the
// contents, in this order: the elements of an input, or positions (i32), lower
// and upper bounds (f32) of an output. An unknown element has NaN as bounds,
// and one that keeps its contents has infinity as the lower and -infinity as
// the upper bound.
//
//===----------------------------------------------------------------------===//

#include "FuzzSupport.h"
#include "HostCode.h"
#include "RandomModule.h"
#include "RandomTensors.h"
#include "Reference.h"
#include "attn/Autodiff/Passes.h"
#include "attn/InitAllDialects.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>
#include <numeric>

using namespace mlir;
using namespace mlir::attn::fuzz;
namespace cl = llvm::cl;

/// Runs of one module, and how often sizes are chosen for one.
static constexpr unsigned kRuns = 2;
static constexpr unsigned kTries = 6;
static constexpr unsigned kModulesPerContext = 200;
/// Bytes of one run, and elements of an output with bounds.
static constexpr size_t kLargestRun = 64 * 1024;
static constexpr size_t kBoundedElements = 1024;
/// Lengths of modules with several tiles.
static constexpr int64_t kLongLength = 300;

static cl::opt<std::string> folder(cl::Positional, cl::Required,
                                   cl::desc("<folder>"));
static cl::opt<unsigned> numModules("count", cl::desc("Number of modules"),
                                    cl::init(100));
static cl::opt<unsigned>
    firstNumber("first", cl::desc("Number of the first module"), cl::init(0));
static cl::opt<uint64_t>
    seed("seed", cl::desc("Where the random numbers begin"), cl::init(1));

/// The nearest f32 that is not above `value`.
static float roundDown(double value) {
  float rounded = static_cast<float>(value);
  return rounded > value ? std::nextafterf(rounded, -kInfinity) : rounded;
}

namespace {
/// The description and the contents of one run.
struct Case {
  llvm::json::Array arguments;
  std::vector<char> bytes;

  template <typename T>
  void append(T value) {
    size_t at = bytes.size();
    bytes.resize(at + sizeof(T));
    std::memcpy(bytes.data() + at, &value, sizeof(T));
  }
  void addArgument(const GuardedTensor &tensor,
                   std::optional<ArrayRef<ExpectedElement>> expected,
                   RandomChoices &random);
  void addBounds(ArrayRef<ExpectedElement> expected, RandomChoices &random);
};
} // namespace

/// Elements to compare, in ascending order.
static std::vector<int32_t> choosePositions(size_t count,
                                            RandomChoices &random) {
  std::vector<int32_t> positions(count);
  std::iota(positions.begin(), positions.end(), 0);
  if (count <= kBoundedElements)
    return positions;
  for (size_t i = 0; i < kBoundedElements; ++i)
    std::swap(positions[i], positions[i + random.word() % (count - i)]);
  positions.resize(kBoundedElements);
  llvm::sort(positions);
  return positions;
}

void Case::addBounds(ArrayRef<ExpectedElement> expected,
                     RandomChoices &random) {
  std::vector<int32_t> positions = choosePositions(expected.size(), random);
  for (int32_t position : positions)
    append(position);
  auto getBounds = [&](int32_t position) {
    const ExpectedElement &element = expected[position];
    return element.isWritten ? element.value : Interval(kInfinity, -kInfinity);
  };
  for (int32_t position : positions)
    append(roundDown(getBounds(position).low));
  for (int32_t position : positions)
    append(-roundDown(-getBounds(position).high));
}

void Case::addArgument(const GuardedTensor &tensor,
                       std::optional<ArrayRef<ExpectedElement>> expected,
                       RandomChoices &random) {
  llvm::json::Object argument;
  argument["dtype"] = attnDTypeName(tensor.getDType());
  argument["shape"] = llvm::json::Array(tensor.getShape());
  if (expected) {
    argument["bounds"] = std::min(expected->size(), kBoundedElements);
    addBounds(*expected, random);
  } else {
    std::vector<char> elements = tensor.getBytes();
    bytes.insert(bytes.end(), elements.begin(), elements.end());
  }
  arguments.push_back(std::move(argument));
}

/// A run of `op`, which was compiled to `function`. Nothing if it has more
/// bytes than a run may have.
static std::optional<Case> makeCase(Operation *op,
                                    const attn_function &function,
                                    RandomChoices &random,
                                    int64_t largestSize) {
  ArgumentTensors arguments = makeTensors(op, function, random, largestSize);
  TensorMap elements;
  size_t numBytes = 0;
  for (const auto &[argument, tensor] : arguments) {
    elements[argument] = tensor->getElements();
    numBytes += elements[argument].size() * attnDTypeSize(tensor->getDType());
  }
  if (numBytes > kLargestRun)
    return std::nullopt;
  ExpectedMap expected = computeReference(op, elements, Accuracy::ofGPU());
  Case run;
  for (const auto &[argument, tensor] : arguments) {
    auto found = expected.find(argument);
    run.addArgument(
        *tensor,
        found == expected.end()
            ? std::nullopt
            : std::optional<ArrayRef<ExpectedElement>>(found->second),
        random);
  }
  return run;
}

static void writeFile(const Twine &name, StringRef contents) {
  SmallString<128> path(folder);
  llvm::sys::path::append(path, name);
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (error) {
    llvm::errs() << "cannot write " << path << ": " << error.message() << "\n";
    std::exit(1);
  }
  os << contents;
}

/// The operation whose results are bounded.
static Operation *findOperation(ModuleOp module) {
  Operation *found = nullptr;
  module.walk([&](DestinationStyleOpInterface op) { found = op; });
  return found;
}

/// The module with the derivative of its `score_mod`; null if it is refused.
static OwningOpRef<ModuleOp> makeModule(ModuleParser &parser, StringRef text) {
  OwningOpRef<ModuleOp> module = parser.parse(text);
  if (!module)
    return nullptr;
  PassManager pm(module->getContext());
  pm.addPass(attn::createAttnDeriveScoreGradPass());
  return succeeded(pm.run(*module)) ? std::move(module) : nullptr;
}

/// Writes a module with its runs; whether there are some.
static bool writeCases(ModuleParser &parser, unsigned number) {
  RandomChoices random(uint64_t(seed) << 32 | number);
  int64_t longest = random.onceIn(2) ? kLongLength : 40;
  std::string text =
      writeRandomModule(random, {/*isForGPU=*/true, /*largestLength=*/longest});
  MLIRContext &context = parser.beginModule();
  ScopedDiagnosticHandler handler(&context,
                                  [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> module = makeModule(parser, text);
  if (!module)
    return false;
  // What the arguments are is in the compiled function.
  OwningOpRef<ModuleOp> compiled(module->clone());
  std::unique_ptr<HostCode> code = HostCode::compile(*compiled, random);
  if (!code)
    return false;
  llvm::json::Array runs;
  std::vector<char> contents;
  for (unsigned tries = 0; tries < kTries && runs.size() < kRuns; ++tries) {
    std::optional<Case> run =
        makeCase(findOperation(*module), code->getFunction(), random, longest);
    if (!run) {
      longest = std::max<int64_t>(longest / 2, 16);
      continue;
    }
    runs.push_back(std::move(run->arguments));
    contents.insert(contents.end(), run->bytes.begin(), run->bytes.end());
  }
  if (runs.empty())
    return false;
  std::string ir, description;
  llvm::raw_string_ostream(ir) << *module;
  llvm::raw_string_ostream(description) << llvm::json::Value(std::move(runs));
  writeFile(Twine(number) + ".mlir", ir);
  writeFile(Twine(number) + ".json", description);
  writeFile(Twine(number) + ".bin",
            StringRef(contents.data(), contents.size()));
  return true;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::ParseCommandLineOptions(argc, argv, "random modules and their results\n");
  if (std::error_code error = llvm::sys::fs::create_directories(folder)) {
    llvm::errs() << "cannot make " << folder << ": " << error.message() << "\n";
    return 1;
  }
  DialectRegistry registry;
  attn::registerCompilerDialects(registry);
  ModuleParser parser(std::move(registry), kModulesPerContext);
  unsigned written = 0, refused = 0;
  while (written < numModules)
    (writeCases(parser, firstNumber + written + refused) ? written : refused) +=
        1;
  llvm::outs() << written << " modules written, " << refused << " refused\n";
  return 0;
}
