//===- attn-pipeline-fuzzer.cpp - Fuzzer of the whole compiler ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Takes modules that verify through the compiler, up to LLVM IR, for one of the
// targets. Stages may fail, with a diagnostic, but not crash or hang.
//
// Modules change as IR: operands, operations and attributes are replaced,
// moved, repeated and removed, and sizes and element types change wherever they
// occur, so that many modules still verify. Verifiers do not run while they
// change: an input that crashes one is an input of the fuzzer.
//
//===----------------------------------------------------------------------===//

#include "FuzzSupport.h"
#include "attn/Compiler/Compiler.h"
#include "attn/Compiler/Pipelines.h"
#include "attn/InitAllDialects.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/xxhash.h"

#include <random>
#include <string>

using namespace mlir;

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

static DialectRegistry createRegistry() {
  DialectRegistry registry;
  attn::registerCompilerDialects(registry);
  return registry;
}

static attn::fuzz::ModuleParser &getParser() {
  static attn::fuzz::ModuleParser parser(createRegistry(),
                                         /*modulesPerContext=*/1000);
  return parser;
}

/// Compiles `module` to LLVM IR, for the host and for the device.
static LogicalResult compile(ModuleOp module,
                             const attn::CompilerOptions &options) {
  if (!options.isGPU())
    return attn::runStages(module, options, attn::Stage::Host);
  if (failed(attn::runStages(module, options, attn::Stage::Kernel)))
    return failure();
  // As the last stages do, but for LLVM's back end and the assembler.
  PassManager pm(module.getContext());
  attn::NVVMPipelineOptions nvvm;
  nvvm.target = options.target;
  nvvm.format = "llvm";
  attn::buildNVVMPipeline(pm, nvvm);
  attn::TargetPipelineOptions host;
  host.target = options.target;
  attn::buildHostPipeline(pm, host);
  return pm.run(module);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // The parser needs a terminated buffer.
  std::string text(reinterpret_cast<const char *>(data), size);
  if (attn::fuzz::mayHitDefectOfMLIR(text))
    return -1;
  getParser().beginModule();
  OwningOpRef<ModuleOp> module = getParser().parse(text);
  // What does not verify is no start for more.
  if (!module || attn::fuzz::mayHitDefectOfMLIR(*module))
    return -1;
  // The text itself says how it is compiled, so that it can be again.
  static constexpr StringLiteral targets[] = {"host", "sm_80", "sm_90a"};
  uint64_t choice = llvm::xxh3_64bits(text);
  attn::CompilerOptions options;
  options.target = targets[choice % std::size(targets)].str();
  options.withReference = choice / std::size(targets) % 4 == 0;
  options.verifyEach = true;
  attn::fuzz::noteOperations(*module, options.target);
  if (succeeded(compile(*module, options))) {
    attn::fuzz::noteOperations(*module, "llvm");
    llvm::LLVMContext context;
    (void)translateModuleToLLVMIR(*module, context);
  }
  return 0;
}

//===----------------------------------------------------------------------===//
// Mutations
//===----------------------------------------------------------------------===//

namespace {
/// Changes a module.
class Mutator {
public:
  Mutator(ModuleOp module, unsigned seed) : module(module), random(seed) {}

  /// Makes a few changes and returns the text of the module.
  std::string mutate();

private:
  size_t below(size_t bound) { return random() % bound; }

  template <typename Range>
  auto pick(Range &&range) {
    return *std::next(range.begin(), below(llvm::range_size(range)));
  }

  /// An operation below the module, null if there is none.
  Operation *pickOperation();

  /// A value from outside of `op` that it may use, of type `type` if that is
  /// given.
  Value pickValue(Operation *op, Type type);

  /// Makes one change, or none.
  void changeOnce();

  void replaceOperand();
  void removeOperation();
  void repeatOperation();
  void moveOperation();
  void changeOperation();
  void changeAttribute();

  /// `text` with a number or a word replaced.
  std::string mutateText(StringRef text);

  ModuleOp module;
  std::mt19937 random;
};
} // namespace

Operation *Mutator::pickOperation() {
  SmallVector<Operation *> operations;
  module->walk([&](Operation *op) {
    if (op != module)
      operations.push_back(op);
  });
  return operations.empty() ? nullptr : pick(operations);
}

Value Mutator::pickValue(Operation *op, Type type) {
  SmallVector<Value> values;
  DominanceInfo dominance(module);
  module->walk([&](Operation *other) {
    // Where control never comes, operations dominate themselves.
    if (op->isAncestor(other))
      return;
    auto add = [&](Value value) {
      if ((!type || value.getType() == type) &&
          dominance.properlyDominates(value, op))
        values.push_back(value);
    };
    llvm::for_each(other->getResults(), add);
    for (Region &region : other->getRegions())
      for (Block &block : region)
        llvm::for_each(block.getArguments(), add);
  });
  return values.empty() ? nullptr : pick(values);
}

void Mutator::replaceOperand() {
  Operation *op = pickOperation();
  if (!op || op->getNumOperands() == 0)
    return;
  OpOperand &operand = op->getOpOperand(below(op->getNumOperands()));
  Type type = below(8) ? operand.get().getType() : Type();
  if (Value value = pickValue(op, type))
    operand.set(value);
}

void Mutator::removeOperation() {
  Operation *op = pickOperation();
  if (!op || op->hasTrait<OpTrait::IsTerminator>())
    return;
  for (Value result : op->getResults()) {
    Value value = pickValue(op, result.getType());
    if (!value && !result.use_empty())
      return;
    if (value)
      result.replaceAllUsesWith(value);
  }
  op->erase();
}

void Mutator::repeatOperation() {
  Operation *op = pickOperation();
  if (!op || op->hasTrait<OpTrait::IsTerminator>())
    return;
  OpBuilder builder(op);
  builder.setInsertionPointAfter(op);
  builder.clone(*op);
}

void Mutator::moveOperation() {
  Operation *op = pickOperation(), *other = pickOperation();
  if (!op || op == other || op->isAncestor(other) ||
      op->hasTrait<OpTrait::IsTerminator>())
    return;
  // What leaves the region of a value that it uses would not verify, and would
  // use a value that is gone once that region is. So would what uses its
  // results and is not in the region that it enters.
  DominanceInfo dominance(module);
  bool leavesOperands = false;
  op->walk([&](Operation *user) {
    for (Value operand : user->getOperands())
      if (!op->isAncestor(operand.getParentRegion()->getParentOp()) &&
          !dominance.properlyDominates(operand, other))
        leavesOperands = true;
  });
  bool leavesUsers = llvm::any_of(op->getUsers(), [&](Operation *user) {
    return !other->getParentRegion()->isAncestor(user->getParentRegion());
  });
  if (!leavesOperands && !leavesUsers)
    op->moveBefore(other);
}

void Mutator::changeOperation() {
  static constexpr StringLiteral names[] = {
      "arith.addf",    "arith.mulf",      "arith.divf",   "arith.maximumf",
      "arith.remf",    "math.powf",       "math.atan2",   "math.copysign",
      "arith.addi",    "arith.muli",      "arith.divsi",  "arith.remui",
      "arith.shli",    "arith.minsi",     "arith.xori",   "arith.ceildivsi",
      "arith.negf",    "math.tanh",       "math.exp",     "math.log",
      "math.erf",      "math.sqrt",       "math.absf",    "math.sin",
      "math.floor",    "math.round",      "math.absi",    "math.ctpop",
      "arith.bitcast", "arith.extf",      "arith.truncf", "arith.fptosi",
      "arith.sitofp",  "arith.index_cast"};
  Operation *op = pickOperation();
  if (!op || op->getNumResults() != 1 || op->getNumRegions() != 0 ||
      op->getNumOperands() == 0)
    return;
  OperationState state(op->getLoc(), pick(ArrayRef(names)));
  state.addOperands(op->getOperands());
  state.addTypes(op->getResultTypes());
  OpBuilder builder(op);
  Operation *changed = builder.create(state);
  op->replaceAllUsesWith(changed);
  op->erase();
}

std::string Mutator::mutateText(StringRef text) {
  static constexpr StringLiteral numbers[] = {
      "0",          "1",
      "2",          "3",
      "7",          "8",
      "16",         "17",
      "40",         "48",
      "63",         "64",
      "72",         "96",
      "128",        "192",
      "248",        "256",
      "264",        "1024",
      "2147483648", "9223372036854775807",
      "-1"};
  static constexpr StringLiteral words[] = {
      "f16",    "bf16",       "f32",      "f64",         "i1",    "i8",
      "i32",    "i64",        "index",    "true",        "false", "grid",
      "paired", "persistent", "top_left", "bottom_right"};
  // Pieces of digits, of letters, and of other characters; the `x` between
  // sizes is one of the latter.
  SmallVector<StringRef> pieces;
  SmallVector<size_t> places;
  while (!text.empty()) {
    size_t length = 1;
    bool isNumber = llvm::isDigit(text.front());
    bool isWord =
        llvm::isAlpha(text.front()) &&
        !(text.front() == 'x' && !pieces.empty() &&
          (llvm::isDigit(pieces.back().back()) || pieces.back() == "?"));
    if (isNumber)
      length = text.take_while(llvm::isDigit).size();
    else if (isWord)
      length = text.take_while([](char c) { return llvm::isAlnum(c); }).size();
    if (isNumber || isWord)
      places.push_back(pieces.size());
    pieces.push_back(text.take_front(length));
    text = text.drop_front(length);
  }
  if (places.empty())
    return llvm::join(pieces, "");
  StringRef old = pieces[pick(places)];
  StringRef changed = llvm::isDigit(old.front()) ? pick(ArrayRef(numbers))
                                                 : pick(ArrayRef(words));
  // All places that are alike, most of the time.
  bool all = below(4);
  size_t one = pick(places);
  for (size_t place : places)
    if (pieces[place] == old && (all || place == one))
      pieces[place] = changed;
  return llvm::join(pieces, "");
}

void Mutator::changeAttribute() {
  Operation *op = pickOperation();
  if (!op || op->getAttrs().empty())
    return;
  NamedAttribute attribute = pick(op->getAttrs());
  if (below(8) == 0) {
    op->removeAttr(attribute.getName());
    return;
  }
  std::string text;
  llvm::raw_string_ostream(text) << attribute.getValue();
  text = mutateText(text);
  if (attn::fuzz::mayHitDefectOfMLIR(text))
    return;
  if (Attribute changed = parseAttribute(text, module->getContext()))
    op->setAttr(attribute.getName(), changed);
}

void Mutator::changeOnce() {
  switch (below(8)) {
  case 0:
  case 1:
    return replaceOperand();
  case 2:
    return removeOperation();
  case 3:
    return repeatOperation();
  case 4:
    return moveOperation();
  case 5:
    return changeOperation();
  default:
    return changeAttribute();
  }
}

std::string Mutator::mutate() {
  bool changeText = below(3) == 0;
  if (!changeText)
    for (unsigned i = 0, e = 1 + below(3); i != e; ++i)
      changeOnce();
  // Operations that do not verify can be printed in the generic form alone.
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().printGenericOpForm());
  return changeText ? mutateText(text) : text;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  std::string text(reinterpret_cast<const char *>(data), size);
  if (attn::fuzz::mayHitDefectOfMLIR(text))
    return 0;
  getParser().beginModule();
  OwningOpRef<ModuleOp> module = getParser().parse(text);
  // The first input has no operations to change.
  if (!module)
    return 0;
  Mutator mutator(*module, seed);
  std::string changed = mutator.mutate();
  if (changed.size() > maxSize)
    return size;
  return std::copy(changed.begin(), changed.end(), data) - data;
}
