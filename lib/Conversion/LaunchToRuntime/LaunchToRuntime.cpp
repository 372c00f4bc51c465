//===- LaunchToRuntime.cpp - Launches become runtime calls ----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Converts the host side of kernels to calls of the runtime library. It works
// on functions of memrefs, before they are LLVM functions. It takes sizes,
// strides and addresses with memref operations, so that the result is valid at
// any later stage of the lowering to LLVM.
//
//===----------------------------------------------------------------------===//

#include "attn/Conversion/LaunchToRuntime/LaunchToRuntime.h"
#include "attn-runtime/attn_runtime.h"
#include "attn/Conversion/LaunchToRuntime/CommCalls.h"
#include "attn/Conversion/LaunchToRuntime/DeviceFunctions.h"
#include "attn/Conversion/LaunchToRuntime/RuntimeCalls.h"
#include "attn/Dialect/Attn/IR/AttnCommOps.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::attn {
#define GEN_PASS_DEF_CONVERTLAUNCHTORUNTIMEPASS
#include "attn/Conversion/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

/// Layout of a CUtensorMap.
static constexpr int64_t tensorMapBytes = 128;
static constexpr int64_t tensorMapAlignment = 64;

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// The digits and suffix of a chip: 9, 0, true of sm_90a.
static LogicalResult parseChip(StringRef chip, int32_t &major, int32_t &minor,
                               bool &isSpecific) {
  if (!chip.consume_front("sm_"))
    return failure();
  isSpecific = chip.consume_back("a");
  int32_t number;
  if (chip.getAsInteger(10, number) || number < 10)
    return failure();
  major = number / 10;
  minor = number % 10;
  return success();
}

/// Adds the globals of one kernel of `binary`; the mutable `attnrt_kernel` is
/// named `<kernel>_handle`.
static LogicalResult createKernelGlobals(gpu::BinaryOp binary,
                                         gpu::ObjectAttr object,
                                         gpu::KernelMetadataAttr kernel,
                                         StringRef imageName) {
  auto getInt = [&](StringRef name) -> std::optional<int64_t> {
    auto attr = kernel.getAttr<IntegerAttr>(name);
    return attr ? std::optional<int64_t>(attr.getInt()) : std::nullopt;
  };
  std::optional<int64_t> blockSize = getInt("attn_tile.block_size");
  std::optional<int64_t> sharedBytes = getInt("attn_tile.shared_bytes");
  if (!blockSize || !sharedBytes)
    return binary.emitOpError("kernel ")
           << kernel.getName()
           << " needs 'attn_tile.block_size' and 'attn_tile.shared_bytes'";
  int64_t clusterSize = getInt("attn_tile.cluster_size").value_or(0);
  auto target = dyn_cast<NVVM::NVVMTargetAttr>(object.getTarget());
  int32_t major, minor;
  bool isSpecific;
  if (!target || failed(parseChip(target.getChip(), major, minor, isSpecific)))
    return binary.emitOpError("expected an #nvvm.target with a chip such as "
                              "\"sm_90a\", got ")
           << object.getTarget();

  OpBuilder builder(binary);
  Location loc = binary.getLoc();
  std::string name = kernel.getName().getValue().str();
  auto nameGlobal = createStringConstant(builder, loc, name + "_name", name);
  Type i32 = builder.getI32Type(), i64 = builder.getI64Type();
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  auto type = LLVM::LLVMStructType::getLiteral(
      builder.getContext(),
      {pointer, i64, pointer, i32, i32, i32, i32, i32, i32, pointer});
  createStructGlobal(
      builder, loc, name + "_handle", type, /*isConstant=*/false,
      LLVM::Linkage::Internal, [&](OpBuilder &b, Location l) {
        auto constant = [&](Type type, int64_t value) {
          return emitIntConstant(b, l, type, value);
        };
        return SmallVector<Value>{
            LLVM::AddressOfOp::create(b, l, pointer, imageName),
            constant(i64, object.getObject().size()),
            LLVM::AddressOfOp::create(b, l, pointer, nameGlobal.getSymName()),
            constant(i32, *blockSize),
            constant(i32, *sharedBytes),
            constant(i32, major),
            constant(i32, minor),
            constant(i32, isSpecific),
            constant(i32, clusterSize),
            LLVM::ZeroOp::create(b, l, pointer)};
      });
  return success();
}

/// Turns `binary` into globals.
static LogicalResult convertBinary(gpu::BinaryOp binary) {
  if (binary.getObjects().size() != 1)
    return binary.emitOpError("expected one object, got ")
           << binary.getObjects().size();
  auto object = cast<gpu::ObjectAttr>(binary.getObjects()[0]);
  if (!object.getKernels())
    return binary.emitOpError("object has no kernel table");
  OpBuilder builder(binary);
  std::string imageName = (binary.getName() + "_image").str();
  std::string image = object.getObject().getValue().str();
  // A terminating zero makes PTX text a C string.
  image.push_back('\0');
  LLVM::GlobalOp::create(
      builder, binary.getLoc(),
      LLVM::LLVMArrayType::get(builder.getI8Type(), image.size()),
      /*isConstant=*/true, LLVM::Linkage::Private, imageName,
      builder.getStringAttr(image), /*alignment=*/64);
  for (gpu::KernelMetadataAttr kernel : object.getKernels())
    if (failed(createKernelGlobals(binary, object, kernel, imageName)))
      return failure();
  binary.erase();
  return success();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

namespace {
/// Converts one function that uses the device.
class FunctionConverter {
public:
  FunctionConverter(func::FuncOp func, ModuleOp module,
                    const llvm::SetVector<Operation *> &deviceFunctions)
      : func(func), module(module), deviceFunctions(deviceFunctions),
        builder(func.getContext()),
        pointerType(LLVM::LLVMPointerType::get(func.getContext())) {}

  LogicalResult convert();

private:
  /// Allocates room for `count` values of `type` at function entry.
  Value emitAlloca(Location loc, Type type, int64_t count = 1,
                   int64_t alignment = 0);

  /// Returns from the function if `status` is not 0. The builder continues
  /// after the check.
  void emitCheck(Location loc, Value status);

  /// Allocates room for a pointer, which is null at function entry.
  Value emitSlot(Location loc) {
    OpBuilder::InsertionGuard guard(builder);
    Value slot = emitAlloca(loc, pointerType);
    builder.setInsertionPointAfterValue(slot);
    emitClear(loc, slot);
    return slot;
  }

  /// Fills the block through which failed functions return: it joins the
  /// streams and frees the scratch memory.
  void emitLeave();

  /// Stores null at `slot`.
  void emitClear(Location loc, Value slot) {
    Value null = LLVM::ZeroOp::create(builder, loc, pointerType);
    LLVM::StoreOp::create(builder, loc, null, slot);
  }

  /// The address of the first element of a memref.
  Value emitAddress(Location loc, Value base, Value offset, Type elementType);

  /// An index as an `i64`.
  Value emitI64(Location loc, Value index) {
    return arith::IndexCastOp::create(builder, loc, builder.getI64Type(),
                                      index);
  }

  /// An array of `values`, all of type `type`.
  Value emitArray(Location loc, Type type, ValueRange values);

  FailureOr<SmallVector<Operation *>> findWork();
  LogicalResult convertSignature();
  LogicalResult convertOp(Operation *op);
  LogicalResult addParameters(attn_tile::LaunchOp op, Value operand,
                              SmallVectorImpl<Value> &parameters);
  LogicalResult convertLaunch(attn_tile::LaunchOp op);
  LogicalResult convertTensorMap(attn_tile::MakeTensorMapOp op);
  void convertErrorFlag(attn_tile::ErrorFlagOp op);
  void convertForkStream(attn_tile::ForkStreamOp op);
  void convertJoinStream(attn_tile::JoinStreamOp op);
  LogicalResult convertAlloc(memref::AllocOp op);
  LogicalResult convertDealloc(memref::DeallocOp op);
  LogicalResult convertCall(func::CallOp op);

  func::FuncOp func;
  ModuleOp module;
  const llvm::SetVector<Operation *> &deviceFunctions;
  OpBuilder builder;
  Type pointerType;
  Value stream;
  /// Memory of each tensor map.
  llvm::DenseMap<Value, Value> tensorMaps;
  /// The slot with the address of each allocation, null if there is none.
  llvm::MapVector<Value, Value> scratch;
  /// For each forked stream: the slot of its join handle, which is null after
  /// the join, and the stream itself.
  struct Fork {
    Value slot;
    Value stream;
  };
  llvm::MapVector<Value, Fork> forks;
  /// The block to which failed calls branch with their status.
  Block *leave = nullptr;
};
} // namespace

Value FunctionConverter::emitAlloca(Location loc, Type type, int64_t count,
                                    int64_t alignment) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&func.getBody().front());
  Value size = emitIntConstant(builder, loc, builder.getI32Type(), count);
  return LLVM::AllocaOp::create(builder, loc, pointerType, type, size,
                                alignment);
}

void FunctionConverter::emitCheck(Location loc, Value status) {
  Value zero = emitIntConstant(builder, loc, builder.getI32Type(), 0);
  Value isOk =
      LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq, status, zero);
  Block *current = builder.getInsertionBlock();
  Block *rest = current->splitBlock(builder.getInsertionPoint());
  if (!leave) {
    leave = builder.createBlock(&func.getBody());
    leave->addArgument(builder.getI32Type(), func.getLoc());
  }
  builder.setInsertionPointToEnd(current);
  cf::CondBranchOp::create(builder, loc, isOk, rest, ValueRange(), leave,
                           status);
  builder.setInsertionPointToStart(rest);
}

void FunctionConverter::emitLeave() {
  if (!leave)
    return;
  Location loc = func.getLoc();
  builder.setInsertionPointToEnd(leave);
  // The returned status is the first failure's, whether or not the rest works.
  for (const auto &[value, fork] : forks)
    emitRuntimeCall(
        builder, loc, module, "attnrtJoinStream",
        {LLVM::LoadOp::create(builder, loc, pointerType, fork.slot), stream});
  for (auto [allocation, slot] : scratch)
    emitRuntimeCall(
        builder, loc, module, "attnrtFreeAsync",
        {LLVM::LoadOp::create(builder, loc, pointerType, slot), stream});
  SmallVector<Value> results{leave->getArgument(0)};
  for (Type type : func.getResultTypes().drop_front())
    results.push_back(ub::PoisonOp::create(builder, loc, type));
  func::ReturnOp::create(builder, loc, results);
}

Value FunctionConverter::emitAddress(Location loc, Value base, Value offset,
                                     Type elementType) {
  Value address =
      memref::ExtractAlignedPointerAsIndexOp::create(builder, loc, base);
  address = LLVM::IntToPtrOp::create(builder, loc, pointerType,
                                     emitI64(loc, address));
  bool isByte = elementType.isInteger(1) || isFloat8(elementType);
  Type storageType = isByte ? builder.getI8Type() : elementType;
  return LLVM::GEPOp::create(builder, loc, pointerType, storageType, address,
                             ArrayRef<LLVM::GEPArg>{emitI64(loc, offset)});
}

Value FunctionConverter::emitArray(Location loc, Type type, ValueRange values) {
  Value array = emitAlloca(loc, type, std::max<int64_t>(values.size(), 1));
  for (auto [index, value] : llvm::enumerate(values)) {
    Value slot = LLVM::GEPOp::create(
        builder, loc, pointerType, type, array,
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
    LLVM::StoreOp::create(builder, loc, value, slot);
  }
  return array;
}

/// Emits the parameters of a kernel for an operand of its launch: pointers to
/// them are added to `parameters`.
LogicalResult
FunctionConverter::addParameters(attn_tile::LaunchOp op, Value operand,
                                 SmallVectorImpl<Value> &parameters) {
  Location loc = op.getLoc();
  auto add = [&](Value value) {
    Value slot = emitAlloca(loc, value.getType());
    LLVM::StoreOp::create(builder, loc, value, slot);
    parameters.push_back(slot);
  };
  Type type = operand.getType();
  if (isa<attn_tile::TensorMapType>(type)) {
    Value map = tensorMaps.lookup(operand);
    if (!map)
      return op.emitOpError("tensor map must be made by "
                            "'attn_tile.make_tensor_map' in this function");
    parameters.push_back(map);
    return success();
  }
  if (auto memrefType = dyn_cast<MemRefType>(type)) {
    auto metadata =
        memref::ExtractStridedMetadataOp::create(builder, loc, operand);
    add(emitAddress(loc, operand, metadata.getOffset(),
                    memrefType.getElementType()));
    for (Value size : metadata.getSizes())
      add(emitI64(loc, size));
    for (Value stride : metadata.getStrides())
      add(emitI64(loc, stride));
    return success();
  }
  if (!type.isIndex() && !type.isSignlessIntOrFloat())
    return op.emitOpError("cannot pass a kernel operand of type ") << type;
  add(type.isIndex() ? emitI64(loc, operand) : operand);
  return success();
}

LogicalResult FunctionConverter::convertLaunch(attn_tile::LaunchOp op) {
  Location loc = op.getLoc();
  SymbolRefAttr kernel = op.getKernel();
  std::string handle = (kernel.getLeafReference().getValue() + "_handle").str();
  if (!module.lookupSymbol<LLVM::GlobalOp>(handle))
    return op.emitOpError("kernel ")
           << kernel << " is not in a gpu.binary of the module";
  if (op.getGrid().empty())
    return op.emitOpError("needs a grid");

  builder.setInsertionPoint(op);
  SmallVector<Value> parameters;
  for (Value operand : op.getKernelOperands())
    if (failed(addParameters(op, operand, parameters)))
      return failure();

  Value params = emitArray(loc, pointerType, parameters);
  Type i32 = builder.getI32Type();
  SmallVector<Value> arguments{
      LLVM::AddressOfOp::create(builder, loc, pointerType, handle)};
  for (Value extent : op.getGrid())
    arguments.push_back(emitI64(loc, extent));
  arguments.push_back(emitIntConstant(
      builder, loc, i32, static_cast<int64_t>(op.getCtasPerSm().value_or(0))));
  Value on = op.getStream() ? forks.lookup(op.getStream()).stream : stream;
  if (!on)
    return op.emitOpError("stream must be given by 'attn_tile.fork_stream' in "
                          "this function");
  arguments.append({params, on});
  StringRef name = op.getEarly()      ? "attnrtLaunchKernelEarly"
                   : op.getTogether() ? "attnrtLaunchKernelTogether"
                                      : "attnrtLaunchKernel";
  emitCheck(loc, emitRuntimeCall(builder, loc, module, name, arguments));
  op.erase();
  return success();
}

LogicalResult
FunctionConverter::convertTensorMap(attn_tile::MakeTensorMapOp op) {
  Location loc = op.getLoc();
  auto type = cast<attn_tile::TensorMapType>(op.getMap().getType());
  std::optional<int32_t> dtype = getRuntimeDType(type.getElementType());
  if (!dtype)
    return op.emitOpError("cannot describe elements of type ")
           << type.getElementType();
  builder.setInsertionPoint(op);
  Value source = op.getSource();
  auto metadata =
      memref::ExtractStridedMetadataOp::create(builder, loc, source);
  Value map =
      emitAlloca(loc, builder.getI8Type(), tensorMapBytes, tensorMapAlignment);
  Type i32 = builder.getI32Type(), i64 = builder.getI64Type();
  SmallVector<Value> sizes, strides, box;
  for (Value size : metadata.getSizes())
    sizes.push_back(emitI64(loc, size));
  for (Value stride : metadata.getStrides())
    strides.push_back(emitI64(loc, stride));
  // The box covers the last dimensions, and one element of each leading one.
  int64_t leading = type.getRank() - type.getBox().size();
  for (int64_t i = 0; i < leading; ++i)
    box.push_back(emitIntConstant(builder, loc, i32, 1));
  for (int64_t extent : type.getBox())
    box.push_back(emitIntConstant(builder, loc, i32, extent));
  // Buffers keep each row of a column block in one swizzled line; single rows
  // are stored without swizzle.
  int64_t rowBytes =
      type.getBox().back() * type.getElementType().getIntOrFloatBitWidth() / 8;
  bool isSwizzled = type.getBox().front() > 1 &&
                    (rowBytes == 32 || rowBytes == 64 || rowBytes == 128);
  int64_t swizzle = isSwizzled ? rowBytes : 0;
  SmallVector<Value> arguments{
      map,
      emitAddress(loc, source, metadata.getOffset(), type.getElementType()),
      emitIntConstant(builder, loc, i32, *dtype),
      emitIntConstant(builder, loc, i32, type.getRank()),
      emitArray(loc, i64, sizes),
      emitArray(loc, i64, strides),
      emitArray(loc, i32, box),
      emitIntConstant(builder, loc, i32, swizzle),
      emitIntConstant(builder, loc, i32,
                      static_cast<int64_t>(op.getL2Promotion()))};
  emitCheck(loc, emitRuntimeCall(builder, loc, module, "attnrtEncodeTensorMap",
                                 arguments));
  tensorMaps[op.getMap()] = map;
  return success();
}

void FunctionConverter::convertErrorFlag(attn_tile::ErrorFlagOp op) {
  builder.setInsertionPoint(op);
  // The word is used after the status has been checked.
  auto [status, word] = emitErrorFlag(
      builder, op.getLoc(), module, cast<MemRefType>(op.getWord().getType()),
      ATTNRT_KIND_CUDA, &func.getBody().front());
  op.getWord().replaceAllUsesWith(word);
  emitCheck(op.getLoc(), status);
  op.erase();
}

/// Bytes of a memref with the identity layout and the given dynamic sizes.
static Value emitBytes(OpBuilder &builder, Location loc, MemRefType type,
                       ValueRange dynamicSizes) {
  int64_t bytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  for (int64_t size : type.getShape())
    if (!ShapedType::isDynamic(size))
      bytes *= size;
  Value total = arith::ConstantIndexOp::create(builder, loc, bytes);
  for (Value size : dynamicSizes)
    total = arith::MulIOp::create(builder, loc, total, size);
  return total;
}

void FunctionConverter::convertForkStream(attn_tile::ForkStreamOp op) {
  Location loc = op.getLoc();
  builder.setInsertionPoint(op);
  Value slot = emitSlot(loc);
  Value sideSlot = emitAlloca(loc, pointerType);
  emitCheck(loc, emitRuntimeCall(builder, loc, module, "attnrtForkStream",
                                 {stream, slot, sideSlot}));
  Value side = LLVM::LoadOp::create(builder, loc, pointerType, sideSlot);
  forks[op.getStream()] = {slot, side};
}

void FunctionConverter::convertJoinStream(attn_tile::JoinStreamOp op) {
  Location loc = op.getLoc();
  builder.setInsertionPoint(op);
  // Joined once, not again if something fails later.
  Value slot = forks.lookup(op.getStream()).slot;
  Value fork = LLVM::LoadOp::create(builder, loc, pointerType, slot);
  emitClear(loc, slot);
  emitCheck(loc, emitRuntimeCall(builder, loc, module, "attnrtJoinStream",
                                 {fork, stream}));
}

LogicalResult FunctionConverter::convertAlloc(memref::AllocOp op) {
  MemRefType type = op.getType();
  if (!type.getLayout().isIdentity() || !op.getSymbolOperands().empty())
    return op.emitOpError("on the device must have the identity layout");
  Location loc = op.getLoc();
  builder.setInsertionPoint(op);
  Value bytes =
      emitI64(loc, emitBytes(builder, loc, type, op.getDynamicSizes()));
  Value slot = emitSlot(loc);
  emitCheck(loc, emitRuntimeCall(builder, loc, module, "attnrtMallocAsync",
                                 {slot, bytes, stream}));
  Value data = LLVM::LoadOp::create(builder, loc, pointerType, slot);

  SmallVector<Value> sizes;
  auto dynamic = op.getDynamicSizes().begin();
  for (int64_t size : type.getShape())
    sizes.push_back(
        ShapedType::isDynamic(size)
            ? emitI64(loc, *dynamic++)
            : emitIntConstant(builder, loc, builder.getI64Type(), size));
  Value memref = emitMemRef(builder, loc, type, data, sizes);
  scratch[memref] = slot;
  op.replaceAllUsesWith(memref);
  op.erase();
  return success();
}

LogicalResult FunctionConverter::convertDealloc(memref::DeallocOp op) {
  Location loc = op.getLoc();
  builder.setInsertionPoint(op);
  Value memref = op.getMemref();
  if (!isa<MemRefType>(memref.getType()))
    return op.emitOpError("on the device must have a ranked operand");
  // The address of an allocation is the address of its first element.
  Value address =
      memref::ExtractAlignedPointerAsIndexOp::create(builder, loc, memref);
  Value data = LLVM::IntToPtrOp::create(builder, loc, pointerType,
                                        emitI64(loc, address));
  // Freed once, not again if something fails later.
  while (auto view = memref.getDefiningOp<ViewLikeOpInterface>())
    memref = view.getViewSource();
  if (Value slot = scratch.lookup(memref))
    emitClear(loc, slot);
  emitCheck(loc, emitRuntimeCall(builder, loc, module, "attnrtFreeAsync",
                                 {data, stream}));
  op.erase();
  return success();
}

LogicalResult FunctionConverter::convertCall(func::CallOp op) {
  Location loc = op.getLoc();
  builder.setInsertionPoint(op);
  SmallVector<Type> types{builder.getI32Type()};
  llvm::append_range(types, op.getResultTypes());
  SmallVector<Value> operands = llvm::to_vector(op.getOperands());
  operands.push_back(stream);
  auto call =
      func::CallOp::create(builder, loc, op.getCallee(), types, operands);
  emitCheck(loc, call.getResult(0));
  op.replaceAllUsesWith(call.getResults().drop_front());
  op.erase();
  return success();
}

/// Finds the operations that are converted; no other operation may touch memory
/// of the device.
FailureOr<SmallVector<Operation *>> FunctionConverter::findWork() {
  SmallVector<Operation *> work;
  WalkResult result = func.walk([&](Operation *op) {
    auto call = dyn_cast<func::CallOp>(op);
    bool converts =
        isa<attn_tile::LaunchOp, attn_tile::MakeTensorMapOp,
            attn_tile::ErrorFlagOp, attn_tile::ForkStreamOp,
            attn_tile::JoinStreamOp, memref::AllocOp, memref::DeallocOp>(op) ||
        op->hasTrait<Communicates>() ||
        (call &&
         deviceFunctions.contains(module.lookupSymbol(call.getCallee())));
    if (converts) {
      if (op->getParentOp() != func) {
        op->emitOpError("must not be nested in structured control flow here");
        return WalkResult::interrupt();
      }
      work.push_back(op);
      return WalkResult::advance();
    }
    auto effects = dyn_cast<MemoryEffectOpInterface>(op);
    if (effects &&
        (effects.hasEffect<MemoryEffects::Read>() ||
         effects.hasEffect<MemoryEffects::Write>()) &&
        llvm::any_of(op->getOperandTypes(), llvm::IsaPred<MemRefType>)) {
      op->emitOpError("would touch memory of the device on the host");
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  return work;
}

/// Changes the signature: the status is the first result, the stream the last
/// argument.
LogicalResult FunctionConverter::convertSignature() {
  unsigned position = func.getNumArguments();
  if (failed(func.insertArgument(position, pointerType, {}, func.getLoc())) ||
      failed(func.insertResult(0, builder.getI32Type(), {})))
    return failure();
  stream = func.getArgument(position);
  func.walk([&](func::ReturnOp op) {
    builder.setInsertionPoint(op);
    Value zero = emitIntConstant(builder, op.getLoc(), builder.getI32Type(), 0);
    op->insertOperands(0, zero);
  });
  return success();
}

LogicalResult FunctionConverter::convertOp(Operation *op) {
  if (op->hasTrait<Communicates>()) {
    Location loc = op->getLoc();
    emitCheck(loc, convertToCommCall(builder, module, op, stream));
    return success();
  }
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](attn_tile::LaunchOp op) { return convertLaunch(op); })
      .Case([&](attn_tile::MakeTensorMapOp op) { return convertTensorMap(op); })
      .Case([&](attn_tile::ErrorFlagOp op) {
        return convertErrorFlag(op), success();
      })
      .Case([&](attn_tile::ForkStreamOp op) {
        return convertForkStream(op), success();
      })
      .Case([&](attn_tile::JoinStreamOp op) {
        return convertJoinStream(op), success();
      })
      .Case([&](memref::AllocOp op) { return convertAlloc(op); })
      .Case([&](memref::DeallocOp op) { return convertDealloc(op); })
      .Case([&](func::CallOp op) { return convertCall(op); });
}

LogicalResult FunctionConverter::convert() {
  FailureOr<SmallVector<Operation *>> work = findWork();
  if (failed(work) || failed(convertSignature()))
    return failure();
  // Operations that others of the work use.
  SmallVector<Operation *> maps, streams;
  for (Operation *op : *work) {
    if (isa<attn_tile::MakeTensorMapOp>(op))
      maps.push_back(op);
    else if (isa<attn_tile::ForkStreamOp, attn_tile::JoinStreamOp>(op))
      streams.push_back(op);
    if (failed(convertOp(op)))
      return failure();
  }
  emitLeave();
  for (Operation *op : llvm::reverse(streams))
    op->erase();
  for (Operation *map : maps) {
    if (!map->use_empty())
      return map->emitOpError("may be used by launches only");
    map->erase();
  }
  return success();
}

namespace {
struct ConvertLaunchToRuntimePass
    : public attn::impl::ConvertLaunchToRuntimePassBase<
          ConvertLaunchToRuntimePass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto binary :
         llvm::make_early_inc_range(module.getOps<gpu::BinaryOp>()))
      if (failed(convertBinary(binary)))
        return signalPassFailure();
    llvm::SetVector<Operation *> functions = findDeviceFunctions(module);
    if (failed(verifyDeviceMemory(functions)))
      return signalPassFailure();
    for (Operation *op : functions)
      if (failed(FunctionConverter(cast<func::FuncOp>(op), module, functions)
                     .convert()))
        return signalPassFailure();
  }
};
} // namespace
