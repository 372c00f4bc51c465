//===- attn-parser-fuzzer.cpp - Fuzzer of parsers, verifiers and passes ---===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parses arbitrary text. A module that verifies must survive printing and
// parsing, in both forms, and passes may fail on it but not crash. The
// environment variable ATTN_FUZZ_PIPELINE replaces the passes, which are run
// one by one on copies of the module.
//
// Besides libFuzzer's own mutations of bytes there are mutations of tokens,
// most of which keep the text parsable.
//
//===----------------------------------------------------------------------===//

#include "FuzzSupport.h"
#include "attn/InitAllDialects.h"
#include "attn/InitAllPasses.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/ErrorHandling.h"

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

using namespace mlir;

/// libFuzzer's own mutation.
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

namespace {
/// Parses modules, and the passes to run on them.
class Harness {
public:
  Harness();

  void run(StringRef text);

private:
  void checkRoundTrip(ModuleOp module, OpPrintingFlags flags);
  void checkBytecode(ModuleOp module);

  attn::fuzz::ModuleParser parser;
  std::vector<std::string> pipelines;
};
} // namespace

static DialectRegistry createRegistry() {
  DialectRegistry registry;
  registry
      .insert<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect,
              math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
              tensor::TensorDialect, vector::VectorDialect>();
  attn::registerAllDialects(registry);
  return registry;
}

Harness::Harness() : parser(createRegistry(), /*modulesPerContext=*/2000) {
  attn::registerAllPasses();
  registerCanonicalizerPass();
  registerCSEPass();

  const char *given = std::getenv("ATTN_FUZZ_PIPELINE");
  StringRef list = given ? given
                         : "canonicalize;attn-make-reference;"
                           "convert-attn-to-loops;convert-attn-to-attn-tile;"
                           "attn-shard-attention{method=ring ranks=2};"
                           "attn-shard-attention{method=zigzag ranks=2}";
  for (StringRef pipeline : llvm::split(list, ';'))
    pipelines.push_back(pipeline.str());
}

void Harness::run(StringRef text) {
  parser.beginModule();
  OwningOpRef<ModuleOp> module = parser.parse(text);
  if (!module || attn::fuzz::mayHitDefectOfMLIR(*module))
    return;
  attn::fuzz::noteOperations(*module, "");

  checkRoundTrip(*module, OpPrintingFlags());
  checkRoundTrip(*module, OpPrintingFlags().printGenericOpForm());
  checkBytecode(*module);
  for (const std::string &pipeline : pipelines) {
    OwningOpRef<ModuleOp> copy = module->clone();
    PassManager pm(module->getContext());
    if (failed(parsePassPipeline(pipeline, pm, llvm::errs())))
      llvm::report_fatal_error("ATTN_FUZZ_PIPELINE does not parse");
    if (succeeded(pm.run(*copy)))
      attn::fuzz::noteOperations(*copy, pipeline);
  }
}

void Harness::checkRoundTrip(ModuleOp module, OpPrintingFlags flags) {
  std::string first, second;
  llvm::raw_string_ostream firstStream(first), secondStream(second);
  module.print(firstStream, flags);
  OwningOpRef<ModuleOp> reparsed = parser.parse(first);
  if (!reparsed)
    llvm::report_fatal_error("printed module does not parse");
  reparsed->print(secondStream, flags);
  if (first != second)
    llvm::report_fatal_error("printed module parses as another one");
}

void Harness::checkBytecode(ModuleOp module) {
  std::string bytes, first, second;
  llvm::raw_string_ostream stream(bytes), firstStream(first),
      secondStream(second);
  if (failed(writeBytecodeToFile(module, stream)))
    llvm::report_fatal_error("module cannot be written as bytecode");
  OwningOpRef<ModuleOp> reparsed = parser.parse(bytes, /*allowBytecode=*/true);
  if (!reparsed)
    llvm::report_fatal_error("bytecode cannot be read");
  module.print(firstStream);
  reparsed->print(secondStream);
  if (first != second)
    llvm::report_fatal_error("bytecode reads as another module");
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Harness harness;
  // The parser needs a terminated buffer.
  std::string text(reinterpret_cast<const char *>(data), size);
  if (!attn::fuzz::mayHitDefectOfMLIR(text))
    harness.run(text);
  return 0;
}

//===----------------------------------------------------------------------===//
// Mutations of tokens
//===----------------------------------------------------------------------===//

/// What to put into a text besides its own tokens.
static constexpr StringLiteral interestingTokens[] = {
    "0",
    "1",
    "-1",
    "?",
    "1073741824",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "0x7FC00000",
    "0x7F800000",
    "1.0e38",
    "-0.0",
    "f32",
    "f64",
    "f16",
    "bf16",
    "i1",
    "i8",
    "i64",
    "index",
    "none",
    "unit",
    "tensor<*xf32>",
    "memref<*xf32>",
    "#attn.causal",
    "#attn.causal<alignment = top_left>",
    "#attn.sliding_window<left = 1, right = 0>",
    "#attn_tile.sequential<query_tile = 16, key_tile = 32>",
    "arith.constant",
    "attn.yield",
    "attn.attention",
    "score",
    "keep",
    "mask",
    "scale",
    "schedule",
    "outs",
    "ins",
    "attributes",
    "(",
    ")",
    "{",
    "}",
    "<",
    ">",
    "[",
    "]",
    ",",
    ":",
    "=",
    "->"};

/// Splits text into words, blanks and single punctuation characters.
static std::vector<StringRef> tokenize(StringRef text) {
  auto isWord = [](char c) {
    return llvm::isAlnum(c) || StringRef("_.$#%@^!-").contains(c);
  };
  std::vector<StringRef> tokens;
  while (!text.empty()) {
    size_t length = 1;
    if (isWord(text.front()))
      length = text.take_while(isWord).size();
    else if (llvm::isSpace(text.front()))
      length = text.take_while(llvm::isSpace).size();
    tokens.push_back(text.take_front(length));
    text = text.drop_front(length);
  }
  return tokens;
}

/// Replaces, removes, repeats or moves a few tokens.
static std::string mutateTokens(StringRef text, std::mt19937 &random) {
  std::vector<StringRef> tokens = tokenize(text);
  auto below = [&](size_t bound) { return random() % bound; };
  auto pick = [&]() -> StringRef {
    if (below(2))
      return interestingTokens[below(std::size(interestingTokens))];
    return tokens[below(tokens.size())];
  };
  for (unsigned i = 0, e = 1 + below(3); i != e && !tokens.empty(); ++i) {
    size_t at = below(tokens.size());
    size_t length = std::min<size_t>(1 + below(12), tokens.size() - at);
    auto begin = tokens.begin() + at;
    switch (below(5)) {
    case 0:
    case 1:
      *begin = pick();
      break;
    case 2:
      tokens.erase(begin, begin + length);
      break;
    case 3: {
      std::vector<StringRef> copy(begin, begin + length);
      tokens.insert(tokens.begin() + below(tokens.size()), copy.begin(),
                    copy.end());
      break;
    }
    case 4:
      std::swap(*begin, tokens[below(tokens.size())]);
      break;
    }
  }
  std::string result;
  for (StringRef token : tokens)
    result += token;
  return result;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  std::mt19937 random(seed);
  if (size == 0 || random() % 4 == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::string text = mutateTokens(
      StringRef(reinterpret_cast<const char *>(data), size), random);
  size = std::min(text.size(), maxSize);
  std::copy_n(text.begin(), size, data);
  return size;
}
