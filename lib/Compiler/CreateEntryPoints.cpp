//===- CreateEntryPoints.cpp - The C interface of an artifact -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adds functions with the runtime's calling convention around functions of
// memrefs, and the tables that describe them. attn_runtime.h defines the
// layouts.
//
//===----------------------------------------------------------------------===//

#include "Signature.h"
#include "attn/Compiler/Passes.h"
#include "attn/Conversion/LaunchToRuntime/RuntimeCalls.h"
#include "attn/Interfaces/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/TargetParser/Triple.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNCREATEENTRYPOINTSPASS
#include "attn/Compiler/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

namespace {
/// Adds entry points to one module.
class EntryPointBuilder {
public:
  EntryPointBuilder(ModuleOp module, const Target &target)
      : module(module), target(target),
        builder(OpBuilder::atBlockEnd(module.getBody())), loc(module.getLoc()),
        i32(builder.getI32Type()), i64(builder.getI64Type()),
        pointer(LLVM::LLVMPointerType::get(module.getContext())) {}

  /// Adds the entries of `func` and remembers what its description needs.
  void addFunction(func::FuncOp func);

  /// Adds `attn_artifact`.
  void createArtifact();

private:
  Value emitAddressOf(OpBuilder &b, Location l, StringRef global) {
    return global.empty()
               ? LLVM::ZeroOp::create(b, l, pointer).getResult()
               : LLVM::AddressOfOp::create(b, l, pointer, global).getResult();
  }

  /// Emits the value stored `offset` bytes behind `base`.
  Value emitField(Type type, Value base, int32_t offset) {
    Value slot = LLVM::GEPOp::create(builder, loc, pointer, builder.getI8Type(),
                                     base, ArrayRef<LLVM::GEPArg>{offset});
    return LLVM::LoadOp::create(builder, loc, type, slot);
  }

  /// Adds the constant array of `elementType` with the elements that
  /// `emitElement` emits.
  void
  createTable(StringRef name, Type elementType, unsigned size,
              function_ref<Value(OpBuilder &, Location, unsigned)> emitElement);

  /// Adds the table of attn_tensor_spec for the arguments of `callee`, which
  /// are described by the attributes of `described`.
  void createSpecs(StringRef name, func::FuncOp described, func::FuncOp callee,
                   bool isReference);

  /// Adds the function `name` that checks its arguments against `specs`, and
  /// calls `callee` with memrefs and, if it takes one more argument, with its
  /// own last argument.
  void createCall(StringRef name, StringRef specs, func::FuncOp described,
                  func::FuncOp callee, bool isReference);

  /// Emits the memref of type `type` of an attn_tensor.
  Value emitMemRef(MemRefType type, Value tensor);

  /// Emits the call of `callee` with the memrefs of `numArguments` tensors and,
  /// if it takes one more argument, `last`. Returns the status.
  Value emitCallOfFunction(func::FuncOp callee, unsigned numArguments,
                           Value tensors, Value last);

  /// Emits the status of a call on the host: the fault that a kernel reported,
  /// if there is one, came before anything that failed afterwards.
  Value emitStatusOrFault(Value status);

  struct Entry {
    std::string name;
    unsigned numArguments;
    SmallVector<std::string> symbols;
    std::string flops;
    std::string reference;
  };

  ModuleOp module;
  const Target &target;
  OpBuilder builder;
  Location loc;
  Type i32, i64, pointer;
  SmallVector<Entry> entries;
};
} // namespace

// Functions have any names, also such that end in a number. So the name of a
// constant ends with the function's, and no prefix begins with another one.
static constexpr StringLiteral symbolTablePrefix = "attn_symbols_";
static constexpr StringLiteral specsPrefix = "attn_specs_";
static constexpr StringLiteral referenceSpecsPrefix = "attn_f64_specs_";
static constexpr StringLiteral namePrefix = "attn_name_";

/// The name of a constant that belongs to the table `table`.
static std::string getElementName(StringRef kind, unsigned index,
                                  StringRef table) {
  return ("attn_" + kind + Twine(index) + "_of_" + table).str();
}

/// Number of arguments of `func` without the stream.
static unsigned getNumDescribed(func::FuncOp func) {
  unsigned count = 0;
  while (count < func.getNumArguments() &&
         func.getArgAttr(count, argDimsAttrName))
    ++count;
  return count;
}

static LLVM::LLVMStructType getStruct(MLIRContext *context,
                                      ArrayRef<Type> fields) {
  return LLVM::LLVMStructType::getLiteral(context, fields);
}

void EntryPointBuilder::createTable(
    StringRef name, Type elementType, unsigned size,
    function_ref<Value(OpBuilder &, Location, unsigned)> emitElement) {
  auto type = LLVM::LLVMArrayType::get(elementType, size);
  auto global =
      LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/true,
                             LLVM::Linkage::Private, name, Attribute());
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&global.getInitializerRegion());
  Value table = LLVM::UndefOp::create(builder, loc, type);
  for (unsigned i = 0; i < size; ++i)
    table = LLVM::InsertValueOp::create(builder, loc, table,
                                        emitElement(builder, loc, i), i);
  LLVM::ReturnOp::create(builder, loc, table);
}

void EntryPointBuilder::createSpecs(StringRef name, func::FuncOp described,
                                    func::FuncOp callee, bool isReference) {
  unsigned numArguments = getNumDescribed(described);
  auto getDims = [&](unsigned i) {
    return described.getArgAttrOfType<DenseI64ArrayAttr>(i, argDimsAttrName);
  };
  for (unsigned i = 0; i < numArguments; ++i) {
    createStringConstant(
        builder, loc, getElementName("name", i, name),
        described.getArgAttrOfType<StringAttr>(i, argNameAttrName));
    ArrayRef<int64_t> dims = getDims(i);
    createTable(getElementName("dims", i, name), i64, dims.size(),
                [&](OpBuilder &b, Location l, unsigned d) {
                  return emitIntConstant(b, l, i64, dims[d]);
                });
  }
  LLVM::LLVMStructType type =
      getStruct(module.getContext(), {pointer, i32, i32, pointer, i32, i32});
  createTable(
      name, type, numArguments,
      [&](OpBuilder &b, Location l, unsigned i) -> Value {
        auto memref = cast<MemRefType>(callee.getArgumentTypes()[i]);
        int64_t alignment = 1;
        if (!isReference)
          if (auto attr = described.getArgAttrOfType<IntegerAttr>(
                  i, argAlignmentAttrName))
            alignment = attr.getInt();
        Value spec = LLVM::UndefOp::create(b, l, type);
        for (auto [index, field] : llvm::enumerate(SmallVector<Value>{
                 emitAddressOf(b, l, getElementName("name", i, name)),
                 emitIntConstant(b, l, i32,
                                 *getRuntimeDType(memref.getElementType())),
                 emitIntConstant(b, l, i32, memref.getRank()),
                 emitAddressOf(b, l, getElementName("dims", i, name)),
                 emitIntConstant(b, l, i32, alignment),
                 emitIntConstant(b, l, i32, getAccess(described, i))}))
          spec = LLVM::InsertValueOp::create(b, l, spec, field, index);
        return spec;
      });
}

Value EntryPointBuilder::emitMemRef(MemRefType type, Value tensor) {
  int64_t rank = type.getRank();
  SmallVector<Type> fields{pointer, pointer, i64};
  if (rank > 0)
    fields.append(2, LLVM::LLVMArrayType::get(i64, rank));
  Value descriptor = LLVM::PoisonOp::create(
      builder, loc, getStruct(module.getContext(), fields));
  auto insert = [&](Value value, ArrayRef<int64_t> position) {
    descriptor =
        LLVM::InsertValueOp::create(builder, loc, descriptor, value, position);
  };
  Value data = emitField(pointer, tensor, abi::tensorDataOffset);
  Value shape = emitField(pointer, tensor, abi::tensorShapeOffset);
  Value strides = emitField(pointer, tensor, abi::tensorStridesOffset);
  insert(data, 0);
  insert(data, 1);
  insert(emitIntConstant(builder, loc, i64, 0), 2);
  for (int64_t i = 0; i < rank; ++i) {
    int32_t offset = i * sizeof(int64_t);
    insert(emitField(i64, shape, offset), {3, i});
    insert(emitField(i64, strides, offset), {4, i});
  }
  return UnrealizedConversionCastOp::create(builder, loc, type, descriptor)
      .getResult(0);
}

/// Whether `func` communicates with other ranks, perhaps by functions that it
/// calls.
static bool communicates(func::FuncOp func, SymbolTable &symbols,
                         llvm::SmallPtrSetImpl<Operation *> &seen) {
  if (!seen.insert(func).second)
    return false;
  return func
      .walk([&](CallOpInterface call) {
        auto name = dyn_cast<SymbolRefAttr>(call.getCallableForCallee());
        if (!name)
          return WalkResult::advance();
        StringRef callee = name.getRootReference();
        auto called = symbols.lookup<func::FuncOp>(callee);
        bool found = called ? communicates(called, symbols, seen)
                            : callee.starts_with(commFunctionPrefix);
        return found ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

Value EntryPointBuilder::emitCallOfFunction(func::FuncOp callee,
                                            unsigned numArguments,
                                            Value tensors, Value last) {
  SmallVector<Value> operands;
  for (unsigned i = 0; i < numArguments; ++i) {
    Value tensor = emitField(pointer, tensors, i * sizeof(void *));
    operands.push_back(
        emitMemRef(cast<MemRefType>(callee.getArgumentTypes()[i]), tensor));
  }
  if (callee.getNumArguments() > numArguments) {
    Type type = callee.getArgumentTypes().back();
    if (type != last.getType())
      last = UnrealizedConversionCastOp::create(builder, loc, type, last)
                 .getResult(0);
    operands.push_back(last);
  }
  auto call = func::CallOp::create(builder, loc, callee, operands);
  return call.getNumResults() == 1 ? call.getResult(0)
                                   : emitIntConstant(builder, loc, i32, 0);
}

Value EntryPointBuilder::emitStatusOrFault(Value status) {
  Value fault =
      emitRuntimeCall(builder, loc, module, "attnrtTakeFault",
                      emitIntConstant(builder, loc, i32, ATTNRT_KIND_HOST));
  Value isOk =
      LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq, fault,
                           emitIntConstant(builder, loc, i32, 0));
  return LLVM::SelectOp::create(builder, loc, isOk, status, fault);
}

void EntryPointBuilder::createCall(StringRef name, StringRef specs,
                                   func::FuncOp described, func::FuncOp callee,
                                   bool isReference) {
  OpBuilder::InsertionGuard guard(builder);
  Type lastType = isReference ? i64 : pointer;
  auto entry = LLVM::LLVMFuncOp::create(
      builder, loc, name,
      LLVM::LLVMFunctionType::get(i32, {pointer, i32, lastType}));
  Block *check = entry.addEntryBlock(builder);
  Block *run = builder.createBlock(&entry.getBody());
  Block *leave = builder.createBlock(&entry.getBody(), {}, {i32}, {loc});
  Value arguments = entry.getArgument(0), last = entry.getArgument(2);
  unsigned numArguments = getNumDescribed(described);

  builder.setInsertionPointToStart(check);
  bool onHost = isReference || target.isHost();
  Value status = emitRuntimeCall(
      builder, loc, module, "attnrtCheckTensors",
      {emitAddressOf(builder, loc, specs),
       emitIntConstant(builder, loc, i32, numArguments), arguments,
       entry.getArgument(1),
       emitIntConstant(builder, loc, i32,
                       onHost ? ATTNRT_KIND_HOST : ATTNRT_KIND_CUDA),
       emitAddressOf(builder, loc, (namePrefix + described.getName()).str())});
  Value zero = emitIntConstant(builder, loc, i32, 0);
  auto leaveUnlessOk = [&](Value status, Block *next) {
    Value isOk = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq,
                                      status, zero);
    LLVM::CondBrOp::create(builder, loc, isOk, next, ValueRange(), leave,
                           ValueRange(status));
    builder.setInsertionPointToStart(next);
  };
  // Checks sizes that follow from others, as the attribute `name` of an
  // argument says. Each size has `numFields` numbers: its dimension, another
  // argument and its dimension, and further operands of the runtime's `check`.
  auto checkSizes = [&](unsigned argument, StringRef name, size_t numFields,
                        StringRef check) {
    auto sizes = described.getArgAttrOfType<DenseI64ArrayAttr>(argument, name);
    if (!sizes)
      return;
    for (ArrayRef<int64_t> rest = sizes; rest.size() >= numFields;
         rest = rest.drop_front(numFields)) {
      Block *next;
      {
        OpBuilder::InsertionGuard blockGuard(builder);
        next = builder.createBlock(run);
      }
      leaveUnlessOk(status, next);
      SmallVector<Value> operands = {
          emitAddressOf(builder, loc, specs), arguments,
          emitIntConstant(builder, loc, i32, argument)};
      for (auto [index, field] : llvm::enumerate(rest.take_front(numFields)))
        operands.push_back(
            emitIntConstant(builder, loc, index < 3 ? i32 : i64, field));
      operands.push_back(emitAddressOf(
          builder, loc, (namePrefix + described.getName()).str()));
      status = emitRuntimeCall(builder, loc, module, check, operands);
    }
  };
  for (unsigned i = 0; i < numArguments; ++i) {
    checkSizes(i, argTileCountsAttrName, tileCountFields,
               "attnrtCheckTileCount");
    checkSizes(i, argMultiplesAttrName, multipleFields, "attnrtCheckMultiple");
  }
  leaveUnlessOk(status, run);

  Value result = emitCallOfFunction(callee, numArguments, arguments, last);
  if (onHost && !isReference && module.lookupSymbol("attnrtGetErrorFlag"))
    result = emitStatusOrFault(result);
  LLVM::BrOp::create(builder, loc, ValueRange(result), leave);

  builder.setInsertionPointToStart(leave);
  Value left = leave->getArgument(0);
  SymbolTable symbols(module);
  llvm::SmallPtrSet<Operation *, 4> seen;
  if (communicates(callee, symbols, seen))
    left = emitRuntimeCall(builder, loc, module, "attnrtCommFinish", left);
  LLVM::ReturnOp::create(builder, loc, left);
}

void EntryPointBuilder::addFunction(func::FuncOp func) {
  StringRef name = func.getName();
  auto symbols = func->getAttrOfType<ArrayAttr>(symbolsAttrName);
  Entry entry;
  entry.name = name.str();
  entry.numArguments = getNumDescribed(func);
  for (auto symbol : symbols.getAsRange<StringAttr>())
    entry.symbols.push_back(symbol.str());

  createStringConstant(builder, loc, (namePrefix + name).str(), name);
  createSpecs((specsPrefix + name).str(), func, func, /*isReference=*/false);
  createCall((abi::callPrefix + name).str(), (specsPrefix + name).str(), func,
             func, /*isReference=*/false);
  std::string flops = (abi::flopsPrefix + name).str();
  if (module.lookupSymbol<LLVM::LLVMFuncOp>(flops))
    entry.flops = flops;
  auto reference =
      module.lookupSymbol<func::FuncOp>((name + abi::referenceSuffix).str());
  if (reference) {
    entry.reference = (abi::referencePrefix + name).str();
    std::string specs = (referenceSpecsPrefix + name).str();
    createSpecs(specs, func, reference, /*isReference=*/true);
    createCall(entry.reference, specs, func, reference, /*isReference=*/true);
    reference.setPrivate();
  }
  func.setPrivate();
  std::string table = (symbolTablePrefix + name).str();
  for (auto [index, symbol] : llvm::enumerate(entry.symbols))
    createStringConstant(builder, loc, getElementName("symbol", index, table),
                         symbol);
  createTable(table, pointer, entry.symbols.size(),
              [&](OpBuilder &b, Location l, unsigned i) {
                return emitAddressOf(b, l, getElementName("symbol", i, table));
              });
  entries.push_back(std::move(entry));
}

void EntryPointBuilder::createArtifact() {
  MLIRContext *context = module.getContext();
  LLVM::LLVMStructType functionType =
      getStruct(context, {pointer, i32, i32, pointer, pointer, pointer, pointer,
                          pointer});
  createTable(
      "attn_functions", functionType, entries.size(),
      [&](OpBuilder &b, Location l, unsigned i) {
        const Entry &entry = entries[i];
        Value function = LLVM::UndefOp::create(b, l, functionType);
        for (auto [index, field] : llvm::enumerate(SmallVector<Value>{
                 emitAddressOf(b, l, (namePrefix + entry.name).str()),
                 emitIntConstant(b, l, i32, entry.numArguments),
                 emitIntConstant(b, l, i32, entry.symbols.size()),
                 emitAddressOf(b, l, (specsPrefix + entry.name).str()),
                 emitAddressOf(b, l, (symbolTablePrefix + entry.name).str()),
                 emitAddressOf(b, l, (abi::callPrefix + entry.name).str()),
                 emitAddressOf(b, l, entry.flops),
                 emitAddressOf(b, l, entry.reference)}))
          function = LLVM::InsertValueOp::create(b, l, function, field, index);
        return function;
      });
  createStringConstant(builder, loc, "attn_target", target.getName());
  createStringConstant(builder, loc, "attn_producer",
                       "attn " ATTN_VERSION_STRING);
  // A program may link several object files, and call functions by their own
  // symbols.
  createStructGlobal(
      builder, loc, ATTN_ARTIFACT_SYMBOL,
      getStruct(context, {i32, i32, pointer, pointer, pointer, pointer}),
      /*isConstant=*/true, LLVM::Linkage::Weak, [&](OpBuilder &b, Location l) {
        return SmallVector<Value>{
            emitIntConstant(b, l, i32, ATTN_RUNTIME_ABI_VERSION),
            emitIntConstant(b, l, i32, entries.size()),
            emitAddressOf(b, l, "attn_target"),
            emitAddressOf(b, l, "attn_producer"),
            emitAddressOf(b, l, "attn_functions"),
            emitAddressOf(b, l, "")};
      });
}

/// Whether callers can pass an argument of type `type`.
static bool isPassable(Type type) {
  auto memref = dyn_cast<MemRefType>(type);
  return memref && getRuntimeDType(memref.getElementType());
}

/// Checks that every argument of `func` is described, but for a last one: the
/// stream.
static LogicalResult verifyDescription(func::FuncOp func) {
  unsigned numArguments = func.getNumArguments();
  for (unsigned i = 0; i < numArguments; ++i) {
    if (func.getArgAttrOfType<DenseI64ArrayAttr>(i, argDimsAttrName) &&
        func.getArgAttrOfType<StringAttr>(i, argNameAttrName) &&
        isPassable(func.getArgumentTypes()[i]))
      continue;
    if (i + 1 == numArguments &&
        isa<LLVM::LLVMPointerType>(func.getArgumentTypes()[i]))
      continue;
    return func.emitOpError("argument #")
           << i << " is not described by 'attn.name' and 'attn.dims'";
  }
  return success();
}

/// Checks that the function with the name of the reference of `func`, if there
/// is one, takes the same arguments.
static LogicalResult verifyReference(func::FuncOp func, ModuleOp module) {
  auto reference = module.lookupSymbol<func::FuncOp>(
      (func.getName() + abi::referenceSuffix).str());
  if (!reference)
    return success();
  unsigned numArguments = getNumDescribed(func);
  auto isSame = [&](unsigned i) {
    Type type = reference.getArgumentTypes()[i];
    return isPassable(type) &&
           cast<MemRefType>(type).getRank() ==
               cast<MemRefType>(func.getArgumentTypes()[i]).getRank();
  };
  // The last argument is the step between the rows that it computes.
  if (!reference.isExternal() &&
      reference.getNumArguments() == numArguments + 1 &&
      llvm::all_of(llvm::seq(numArguments), isSame))
    return success();
  return reference.emitOpError("has the name of the reference of '")
         << func.getName() << "', but not a body, or not the same arguments";
}

namespace {
struct AttnCreateEntryPointsPass
    : public attn::impl::AttnCreateEntryPointsPassBase<
          AttnCreateEntryPointsPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<const Target *> found = lookupTarget(getOperation(), target);
    if (failed(found))
      return signalPassFailure();
    SmallVector<func::FuncOp> functions;
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (func.isPublic() && func->hasAttrOfType<ArrayAttr>(symbolsAttrName))
        functions.push_back(func);
    EntryPointBuilder builder(getOperation(), **found);
    for (func::FuncOp func : functions) {
      if (failed(verifyDescription(func)) ||
          failed(verifyReference(func, getOperation())))
        return signalPassFailure();
      builder.addFunction(func);
    }
    builder.createArtifact();

    // Compiled code calls functions of the C library by their names.
    SymbolTable symbols(getOperation());
    llvm::TargetLibraryInfoImpl library{llvm::Triple()};
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      llvm::LibFunc function;
      if (!func.isExternal() && library.getLibFunc(func.getName(), function) &&
          failed(
              symbols.rename(func, ("attn_function_" + func.getName()).str())))
        return signalPassFailure();
    }

    // The entry points are all that an artifact exports.
    auto internal =
        LLVM::LinkageAttr::get(&getContext(), LLVM::Linkage::Internal);
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (!func.isExternal())
        func->setAttr("llvm.linkage", internal);
  }
};
} // namespace
