//===- FuzzSupport.cpp - What the fuzzers share ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Contexts for many inputs, features that are new about an input, and inputs
// that are kept from MLIR.
//
//===----------------------------------------------------------------------===//

#include "FuzzSupport.h"
#include "attn/Support/CheckSource.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Compiler.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/xxhash.h"

#include <iterator>

using namespace mlir;
using namespace mlir::attn::fuzz;

/// Whether `text` holds operations whose custom parsers take iterator types for
/// strings, with iterator types that are not. mlir-opt crashes on
/// `linalg.generic {iterator_types = [affine_map<(i) -> (i)>], ...}`, and on
/// vector.contract alike: the parser casts without asking.
static bool hasUncheckedIteratorTypes(StringRef text) {
  static const llvm::Regex customForm(
      "(^|[^\"])(linalg\\.generic|vector\\.contract)");
  static const llvm::Regex strings("^iterator_types[[:space:]]*=[[:space:]]*"
                                   "\\[(\"[a-z]*\"(,[[:space:]]*)?)*\\]");
  if (!customForm.match(text))
    return false;
  StringRef key = "iterator_types";
  for (size_t at = text.find(key); at != StringRef::npos;
       at = text.find(key, at + 1))
    if (!strings.match(text.drop_front(at)))
      return true;
  return false;
}

/// Whether `text` holds an array of `index`, whose width the parser asks for:
/// mlir-opt crashes on `func.func @f() attributes {a = array<index: 1>}`.
static bool hasArrayOfIndices(StringRef text) {
  static const llvm::Regex array("array[[:space:]]*<[[:space:]]*index");
  return array.match(text);
}

/// Whether `text` holds an operation of linalg whose custom parser wants a list
/// of numbers after `dimensions =` or `permutation =`, without that list:
/// mlir-opt crashes on `linalg.reduce ... dimensions = 1` and on `permutation =
/// [0,]`, as the parser uses the list before it asks whether there was one.
static bool hasUncheckedDimensions(StringRef text) {
  static const llvm::Regex customForm(
      "(^|[^\"])linalg\\.(reduce|transpose|broadcast)");
  static const llvm::Regex numbers(
      "^(dimensions|permutation)[[:space:]]*=[[:space:]]*"
      "\\[([0-9]{1,9}(,[[:space:]]*[0-9]{1,9})*)?\\]");
  if (!customForm.match(text))
    return false;
  for (StringRef key : {"dimensions", "permutation"})
    for (size_t at = text.find(key); at != StringRef::npos;
         at = text.find(key, at + 1))
      if (!numbers.match(text.drop_front(at)))
        return true;
  return false;
}

/// Whether `text` names a result by a number that no operation reaches:
/// mlir-opt runs out of memory on `return %x#2147483648 : i32`, as the parser
/// makes room for all results before it.
static bool hasHugeResultNumber(StringRef text) {
  static const llvm::Regex number("#[[:space:]]*[0-9]{6,}");
  return number.match(text);
}

/// Whether `text` holds an operation with a generated parser and a region that
/// more text follows. If that text is wrong, mlir-opt writes to values of the
/// discarded region that were named before, as `%j` by
/// `"test.use"(%j) : (index) -> ()` in front of `tensor.generate { ^bb0(%j:
/// index): ... } : tensor<3xi`.
static bool hasUnguardedRegion(StringRef text) {
  static const llvm::Regex customForm(
      "(^|[^\"])(tensor\\.generate|tensor\\.pad|scf\\.reduce)");
  return customForm.match(text);
}

/// Whether `text` asks for the size of a dimension and holds a negative index:
/// canonicalization crashes mlir-opt on `memref.dim %m, %c` where `%c` is -1,
/// as a pattern for allocations of gpu reads that dimension of the type.
static bool hasNegativeDimension(StringRef text) {
  static const llvm::Regex dim("(memref|tensor)\\.dim");
  static const llvm::Regex negative("-[0-9]+[[:space:]]*:[[:space:]]*index");
  return dim.match(text) && negative.match(text);
}

/// Whether `text` holds a `gpu.binary` without an offloading handler:
/// translation to LLVM IR crashes mlir-translate on
/// `"gpu.binary"() <{objects = [...], sym_name = "b"}> : () -> ()`.
static bool hasBinaryWithoutHandler(StringRef text) {
  return text.contains("gpu.binary") && !text.contains("offloadingHandler");
}

/// Whether `text` holds a `vector.contract` with less than two types before
/// `into`: the parser crashes mlir-opt on `vector.contract {...} %a, %b, %c :
/// vector<2x3xf32> into vector<2x2xf32>`, as it reads a second type.
static bool hasContractWithoutTypes(StringRef text) {
  static const llvm::Regex types("%[^,:]*:[^,]*[^a-z_]into[^a-z_]");
  constexpr StringLiteral name("vector.contract");
  for (size_t at = text.find(name); at != StringRef::npos;
       at = text.find(name, at + 1))
    if (types.match(text.slice(at, text.find(name, at + 1))))
      return true;
  return false;
}

bool attn::fuzz::mayHitDefectOfMLIR(StringRef text) {
  return hasUncheckedIteratorTypes(text) || hasArrayOfIndices(text) ||
         hasUncheckedDimensions(text) || hasHugeResultNumber(text) ||
         hasUnguardedRegion(text) || hasNegativeDimension(text) ||
         hasBinaryWithoutHandler(text) || hasContractWithoutTypes(text);
}

/// Whether `op` takes or writes a slice of fewer dimensions than it has sizes,
/// some of them values. Where a size proves constant, canonicalization drops
/// the first dimension of size one, even if the type has it and lacks another:
/// mlir-opt crashes on a cast of `tensor.extract_slice %t[0, 0, 0] [1, %c4, 1]
/// [1, 1, 1] : tensor<1x4x8xf32> to tensor<1x?xf32>`, where `%c4` is 4.
static bool isRankReducingSliceOfDynamicSize(Operation *op) {
  auto slice = dyn_cast<OffsetSizeAndStrideOpInterface>(op);
  if (!slice || slice.getSizes().empty())
    return false;
  auto hasLowerRank = [&](Type type) {
    auto shaped = dyn_cast<ShapedType>(type);
    return shaped && shaped.hasRank() &&
           shaped.getRank() < int64_t(slice.getStaticSizes().size());
  };
  return llvm::any_of(op->getOperandTypes(), hasLowerRank) ||
         llvm::any_of(op->getResultTypes(), hasLowerRank);
}

bool attn::fuzz::mayHitDefectOfMLIR(ModuleOp module) {
  return module
      .walk([](Operation *op) {
        return isRankReducingSliceOfDynamicSize(op) ? WalkResult::interrupt()
                                                    : WalkResult::advance();
      })
      .wasInterrupted();
}

/// libFuzzer clears these before each input, and looks afterwards which are
/// set.
LLVM_ATTRIBUTE_USED __attribute__((section(
    "__libfuzzer_extra_counters"))) static uint8_t featureCounters[1 << 16];

void attn::fuzz::noteFeature(StringRef feature) {
  featureCounters[llvm::xxh3_64bits(feature) % std::size(featureCounters)] = 1;
}

void attn::fuzz::noteOperations(Operation *op, StringRef prefix) {
  std::string feature = prefix.str();
  op->walk([&](Operation *nested) {
    feature.resize(prefix.size());
    feature += nested->getName().getStringRef();
    noteFeature(feature);
  });
}

/// Notes `diagnostic`, without what differs between inputs that fail alike:
/// digits, and what stands between quotation marks.
static void noteDiagnostic(const Diagnostic &diagnostic) {
  std::string feature;
  bool quoted = false;
  for (char c : diagnostic.str()) {
    if (c == '\'')
      quoted = !quoted;
    else if (!quoted && !llvm::isDigit(c))
      feature += c;
  }
  noteFeature(feature);
}

MLIRContext &ModuleParser::beginModule() {
  if (numModules++ % modulesPerContext == 0) {
    context = std::make_unique<MLIRContext>(registry,
                                            MLIRContext::Threading::DISABLED);
    context->getDiagEngine().registerHandler([](Diagnostic &diagnostic) {
      noteDiagnostic(diagnostic);
      return success();
    });
  }
  return *context;
}

OwningOpRef<ModuleOp> ModuleParser::parse(StringRef text, bool allowBytecode) {
  if (failed(checkSource(llvm::MemoryBufferRef(text, "input"), context.get(),
                         allowBytecode)))
    return nullptr;
  return parseSourceString<ModuleOp>(text, ParserConfig(context.get()));
}
