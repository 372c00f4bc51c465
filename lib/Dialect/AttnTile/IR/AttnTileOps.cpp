//===- AttnTileOps.cpp - Operations of attn_tile --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers and effects of the operations.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/Attn/IR/ClosedRegion.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

#include <numeric>

using namespace mlir;
using namespace mlir::attn_tile;

/// Parses `acc %x` types: the accumulator has the type of the pending value.
static ParseResult
parseAccType(OpAsmParser &parser,
             std::optional<OpAsmParser::UnresolvedOperand> acc, Type &accType,
             Type &resultType) {
  PendingType pending;
  if (parser.parseArrow() || parser.parseType(pending))
    return failure();
  resultType = pending;
  if (!acc)
    return success();
  bool isInFlight = succeeded(parser.parseOptionalKeyword("in_flight"));
  accType = isInFlight ? Type(pending) : Type(pending.getValueType());
  return success();
}

static void printAccType(OpAsmPrinter &printer, Operation *, Value,
                         Type accType, Type resultType) {
  printer << "-> " << resultType;
  if (isa_and_nonnull<PendingType>(accType))
    printer << " in_flight";
}

/// Sources and result of a map have one type, which is written once.
static ParseResult
parseMapTypes(OpAsmParser &parser,
              ArrayRef<OpAsmParser::UnresolvedOperand> sources,
              SmallVectorImpl<Type> &sourceTypes, Type &resultType) {
  if (parser.parseType(resultType))
    return failure();
  sourceTypes.assign(sources.size(), resultType);
  return success();
}

static void printMapTypes(OpAsmPrinter &printer, MapOp, OperandRange, TypeRange,
                          Type resultType) {
  printer << resultType;
}

// Generated code calls them.
// NOLINTBEGIN(misc-unused-using-decls)
using attn::parseClosedRegion;
using attn::printClosedRegion;
// NOLINTEND(misc-unused-using-decls)

#define GET_OP_CLASSES
#include "attn/Dialect/AttnTile/IR/AttnTileOps.cpp.inc"

//===----------------------------------------------------------------------===//
// KernelOp
//===----------------------------------------------------------------------===//

void KernelOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                     FunctionType type) {
  state.addAttribute(getSymNameAttrName(state.name),
                     builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  Region *body = state.addRegion();
  Block &entry = body->emplaceBlock();
  for (Type input : type.getInputs())
    entry.addArgument(input, state.location);
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildType = [](Builder &builder, ArrayRef<Type> inputs,
                      ArrayRef<Type> results,
                      function_interface_impl::VariadicFlag, std::string &) {
    return builder.getFunctionType(inputs, results);
  };
  SMLoc loc = parser.getCurrentLocation();
  if (function_interface_impl::parseFunctionOp(
          parser, result, /*allowVariadic=*/false,
          getFunctionTypeAttrName(result.name), buildType,
          getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name)))
    return failure();
  // Attributes of the wrong kind would be dropped silently.
  return verifyInherentAttrs(result.name, result.attributes, [&]() {
    return parser.emitError(loc) << "'" << result.name << "' op ";
  });
}

void KernelOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(
      printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
      getArgAttrsAttrName(), getResAttrsAttrName());
}

LogicalResult KernelOp::verify() {
  if (getBody().empty())
    return emitOpError("must have a body");
  if (getFunctionType().getNumResults() != 0)
    return emitOpError("must return nothing (returns ")
           << getFunctionType().getNumResults() << " values)";
  return success();
}

/// Checks that `taken` is given up by exactly one `GiveUpOp` in its block.
template <typename GiveUpOp>
static LogicalResult verifyGivenUp(Operation *taker, Value taken,
                                   StringRef giveUpName) {
  Operation *giveUp = nullptr;
  for (Operation *user : taken.getUsers()) {
    if (!isa<GiveUpOp>(user))
      continue;
    if (giveUp)
      return taker->emitOpError("buffer must have exactly one '")
                 .append(giveUpName, "' (has more)")
                 .attachNote(user->getLoc())
             << "see '" << giveUpName << "' here";
    giveUp = user;
  }
  if (!giveUp)
    return taker->emitOpError("buffer must have exactly one '")
        .append(giveUpName, "' (has none)");
  if (giveUp->getBlock() != taker->getBlock())
    return taker->emitOpError("buffer must have its '")
               .append(giveUpName, "' in the same block")
               .attachNote(giveUp->getLoc())
           << "see '" << giveUpName << "' here";
  for (Operation *user : taken.getUsers()) {
    Operation *ancestor = taker->getBlock()->findAncestorOpInBlock(*user);
    if (user != giveUp && (!ancestor || giveUp->isBeforeInBlock(ancestor)))
      return user->emitOpError("uses a buffer after its '")
                 .append(giveUpName, "'")
                 .attachNote(giveUp->getLoc())
             << "see '" << giveUpName << "' here";
  }
  return success();
}

/// Whether a loop hands `value` from step to step.
static bool isCarried(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return isa<LoopLikeOpInterface>(user) ||
           (isa<RegionBranchTerminatorOpInterface>(user) &&
            isa<LoopLikeOpInterface>(user->getParentOp()));
  });
}

/// Checks that the tiles of `pipe` belong to one CTA, or to a cluster of the
/// size that the kernel has.
static LogicalResult verifyClusterOf(CreatePipeOp pipe) {
  int64_t cluster = pipe.getPipe().getType().getCluster();
  auto kernel = pipe->getParentOfType<KernelOp>();
  if (cluster == 1 || cluster == kernel.getClusterSize())
    return success();
  return pipe.emitOpError("pipe must be of one CTA or of the clusters of the "
                          "kernel (expected ")
         << kernel.getClusterSize() << ", was " << cluster << ")";
}

/// Checks that the same warps fill all stages of a pipe: barriers count them.
static LogicalResult verifyConverter(ConvertOp convert) {
  for (Operation *user : convert.getPipe().getUsers()) {
    auto other = dyn_cast<ConvertOp>(user);
    if (!other || other.getFirstWarp() == convert.getFirstWarp())
      continue;
    auto diagnostic = convert.emitOpError(
        "must be run by the warps that fill other stages of the pipe");
    diagnostic.attachNote(other.getLoc()) << "see the other conversion here";
    return diagnostic;
  }
  return success();
}

LogicalResult KernelOp::verifyRegions() {
  // At most one `attn_tile.auxiliary_warps` may leave out its number of warps.
  AuxiliaryWarpsOp auxiliary;
  for (auto other : getBody().getOps<AuxiliaryWarpsOp>()) {
    if (other.getWarps())
      continue;
    if (auxiliary)
      return other.emitOpError("is a second one without 'warps' in the kernel")
                 .attachNote(auxiliary.getLoc())
             << "see the first one here";
    auxiliary = other;
  }
  WalkResult result = getBody().walk([](Operation *op) -> WalkResult {
    if (auto acquire = dyn_cast<AcquireOp>(op))
      return verifyGivenUp<CommitOp>(op, acquire.getBuffer(), "commit");
    // A loop may carry a full stage to the step that releases it.
    if (auto wait = dyn_cast<WaitOp>(op); wait && !isCarried(wait.getBuffer()))
      return verifyGivenUp<ReleaseOp>(op, wait.getBuffer(), "release");
    if (isa<PingpongWaitOp, PingpongArriveOp>(op) &&
        !op->getParentOfType<RoleOp>())
      return op->emitOpError("must be inside of a role");
    if (auto pipe = dyn_cast<CreatePipeOp>(op))
      return verifyClusterOf(pipe);
    if (auto convert = dyn_cast<ConvertOp>(op))
      return verifyConverter(convert);
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// LaunchOp
//===----------------------------------------------------------------------===//

LogicalResult LaunchOp::verify() {
  if (!getGrid().empty() && getGrid().size() != 3)
    return emitOpError("grid must have 0 or 3 dimensions (has ")
           << getGrid().size() << ")";
  if (getCtasPerSm() && getGrid().empty())
    return emitOpError("'ctas_per_sm' needs a grid");
  if (getEarly() && getTogether())
    return emitOpError("cannot be both 'early' and 'together'");
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  Operation *symbol =
      symbolTable.lookupNearestSymbolFrom(*this, getKernelAttr());
  if (!symbol) {
    // A serialized kernel is no symbol any more, but an entry of its binary.
    Operation *binary = symbolTable.lookupNearestSymbolFrom(
        *this, getKernelAttr().getRootReference());
    if (binary && !binary->hasTrait<OpTrait::SymbolTable>() &&
        !isa<FunctionOpInterface>(binary))
      return success();
    return emitOpError("kernel ") << getKernelAttr() << " does not exist";
  }
  auto kernel = dyn_cast<FunctionOpInterface>(symbol);
  if (!kernel)
    return emitOpError("kernel ") << getKernelAttr() << " is not a kernel";
  // Once the kernel has been lowered its arguments are the target's.
  if (!isa<KernelOp>(symbol))
    return success();
  if (TypeRange(kernel.getArgumentTypes()) != getKernelOperands().getTypes())
    return emitOpError("argument types do not match those of kernel ")
           << getKernelAttr() << " (expected " << kernel.getArgumentTypes()
           << ", found " << getKernelOperands().getTypes() << ")";
  return success();
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static constexpr char dimensionNames[] = "xyz";

void ProgramIdOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(),
          (Twine("program_") + Twine(dimensionNames[getDim()])).str());
}

void NumProgramsOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(),
          (Twine("programs_") + Twine(dimensionNames[getDim()])).str());
}

void ConsumerIdOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), "consumer");
}

LogicalResult ConsumerColumnsOp::verify() {
  VectorType tile = getTile().getType(), result = getResult().getType();
  if (tile.getElementType() == result.getElementType() &&
      tile.getDimSize(0) == result.getDimSize(0) &&
      tile.getDimSize(1) >= result.getDimSize(1))
    return success();
  return emitOpError("result must have the rows of the tile and a part of its "
                     "columns (tile ")
         << tile << ", result " << result << ")";
}

void ClusterIdOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), "cluster");
}

void NumClustersOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), "clusters");
}

void ClusterRankOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), "rank");
}

void KVTileIteratorOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getTiles(), "tiles");
  setName(getMasked(), "masked");
  setName(getCount(), "count");
}

void KVTileAtOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getTile(), "tile");
}

static void setPositionNames(ArrayRef<StringRef> names, Region &region,
                             OpAsmSetValueNameFn setName) {
  for (auto [argument, name] : llvm::zip(region.getArguments(), names))
    setName(argument, name);
}

void KVTileIteratorOp::getAsmBlockArgumentNames(Region &region,
                                                OpAsmSetValueNameFn setName) {
  setPositionNames({"b", "h", "i", "j"}, region, setName);
}

void MapOp::getAsmBlockArgumentNames(Region &region,
                                     OpAsmSetValueNameFn setName) {
  SmallVector<StringRef> names(getSources().size(), "x");
  names.append({"b", "h", "i", "j"});
  setPositionNames(names, region, setName);
}

void MaskOp::getAsmBlockArgumentNames(Region &region,
                                      OpAsmSetValueNameFn setName) {
  setPositionNames({"b", "h", "i", "j"}, region, setName);
}

void ScatterAddOp::getAsmBlockArgumentNames(Region &region,
                                            OpAsmSetValueNameFn setName) {
  setPositionNames({"b", "h", "i", "j"}, region, setName);
}

//===----------------------------------------------------------------------===//
// PackGQAOp
//===----------------------------------------------------------------------===//

SmallVector<int64_t> PackGQAOp::getPackedShape(ArrayRef<int64_t> shape,
                                               int64_t rows, int64_t groupSize,
                                               int64_t numQueries) {
  SmallVector<int64_t> packed(shape);
  packed[rows - 1] /= groupSize;
  if (rows == static_cast<int64_t>(packed.size()))
    packed.push_back(0);
  packed[rows] = ShapedType::isDynamic(numQueries) ? ShapedType::kDynamic
                                                   : numQueries * groupSize;
  return packed;
}

void PackGQAOp::build(OpBuilder &builder, OperationState &state, Value source,
                      int64_t rows, int64_t groupSize, int64_t numQueries) {
  auto type = cast<MemRefType>(source.getType());
  SmallVector<int64_t> shape =
      getPackedShape(type.getShape(), rows, groupSize, numQueries);
  auto layout = PackedGQALayoutAttr::get(builder.getContext(), shape.size(),
                                         rows, groupSize);
  build(builder, state,
        MemRefType::get(shape, type.getElementType(), layout,
                        type.getMemorySpace()),
        source);
}

LogicalResult PackGQAOp::verify() {
  auto packed = cast<MemRefType>(getPacked().getType());
  auto source = cast<MemRefType>(getSource().getType());
  auto layout = dyn_cast<PackedGQALayoutAttr>(packed.getLayout());
  if (!layout)
    return emitOpError("result must have a layout #attn_tile.packed_gqa (was ")
           << packed << ")";
  int64_t rows = layout.getRows(), groupSize = layout.getGroupSize();
  int64_t rank = packed.getRank();
  if (source.getRank() != rank && source.getRank() != rank - 1)
    return emitOpError("source must have rank ")
           << rank << ", or " << rank - 1 << " without queries (was "
           << source.getRank() << ")";
  if (source.getRank() == rank - 1 && rows != rank - 1)
    return emitOpError("source without queries needs rows as the last "
                       "dimension of the result (was dimension ")
           << rows << " of " << rank << ")";
  int64_t heads = source.getDimSize(rows - 1);
  if (ShapedType::isDynamic(heads) || heads % groupSize != 0)
    return emitOpError("source must have a static number of query heads that "
                       "is a multiple of 'group_size' (")
           << groupSize << ")";
  int64_t numRows = packed.getDimSize(rows);
  int64_t queries = ShapedType::isDynamic(numRows) ? ShapedType::kDynamic
                                                   : numRows / groupSize;
  auto describe = [](int64_t size) {
    return ShapedType::isDynamic(size) ? std::string("?")
                                       : std::to_string(size);
  };
  if (source.getRank() == rank && source.getDimSize(rows) != queries)
    return emitOpError("result has rows for ")
           << describe(queries) << " queries, the source has "
           << describe(source.getDimSize(rows));
  if (packed.getElementType() != source.getElementType() ||
      packed.getShape() !=
          ArrayRef(getPackedShape(source.getShape(), rows, groupSize, queries)))
    return emitOpError("result must view the elements of the source (expected "
                       "shape ")
           << getPackedShape(source.getShape(), rows, groupSize, queries)
           << " of " << source.getElementType() << ", was " << packed << ")";
  return success();
}

Value PackGQAOp::getViewSource() { return getSource(); }

//===----------------------------------------------------------------------===//
// LoadOp and StoreOp
//===----------------------------------------------------------------------===//

static LogicalResult verifyTileAccess(Operation *op, VectorType tile,
                                      MemRefType memref, unsigned numIndices) {
  if (memref.getRank() != numIndices)
    return op->emitOpError("needs one index per dimension of the memref "
                           "(expected ")
           << memref.getRank() << ", found " << numIndices << ")";
  if (tile.getRank() > memref.getRank())
    return op->emitOpError("tile must not have more dimensions than the "
                           "memref (has ")
           << tile.getRank() << ", memref has " << memref.getRank() << ")";
  if (tile.getElementType() != memref.getElementType())
    return op->emitOpError("tile and memref must have the same element type "
                           "(found ")
           << tile.getElementType() << " and " << memref.getElementType()
           << ")";
  return success();
}

/// Checks that the operands of pages, or of rows that are stored by an
/// addressing, come together and fit the source.
template <typename OpTy>
static LogicalResult verifyStoredRows(OpTy op, int64_t sourceRank,
                                      int64_t pageSize) {
  attn::KVAddressingAttrInterface addressing = op.getAddressingAttr();
  if (!addressing != !op.getFirstStored() || !addressing != !op.getNumStored())
    return op.emitOpError("needs all or none of addressing, first stored row "
                          "and number of stored rows");
  if (addressing && op.getPageTable())
    return op.emitOpError("must not have both pages and rows of ")
           << addressing;
  if (addressing && addressing.getPageSize() <= 0)
    return op.emitOpError("rows of ")
           << addressing << " must be stored in pages of at least one key (has "
           << "pages of " << addressing.getPageSize() << ")";
  SmallVector<Value> operands = {op.getPageTable(), op.getNumKeys(),
                                 op.getNumPages(), op.getFault()};
  if (!llvm::all_equal(llvm::map_range(
          operands, [](Value operand) { return bool(operand); })))
    return op.emitOpError("needs all or none of page table, number of keys, "
                          "number of pages and fault");
  if (!operands.front())
    return success();
  if (sourceRank != 4)
    return op.emitOpError("source must have four dimensions to be paged (has ")
           << sourceRank << ")";
  if (ShapedType::isDynamic(pageSize) ||
      !llvm::isPowerOf2_64(uint64_t(pageSize)))
    return op.emitOpError("page size must be a static power of two (was ")
           << (ShapedType::isDynamic(pageSize) ? "?" : Twine(pageSize).str())
           << ")";
  return success();
}

LogicalResult LoadOp::verify() {
  if (!getFirst() != !getExtent())
    return emitOpError("needs both first row and extent of a sequence");
  if (!getPosition() != !getLength())
    return emitOpError("needs both position and length of a stream");
  auto tile = cast<VectorType>(getResult().getType());
  if (getAnyOrder() && tile.getRank() != 2)
    return emitOpError("tile must have two dimensions for any order of the "
                       "elements of a row (has ")
           << tile.getRank() << ")";
  // Staged tiles, and tiles loaded by elements, have an order of their own.
  if (getAnyOrder() && (getPosition() || getUnaligned()))
    return emitOpError("of a stream or of unaligned rows must keep the order "
                       "of elements");
  auto source = cast<MemRefType>(getSource().getType());
  int64_t rank = source.getRank();
  if (failed(verifyStoredRows(*this, rank,
                              rank < 2 ? 0 : source.getDimSize(rank - 2))))
    return failure();
  if (getAnyOrder() &&
      (source.getRank() == 0 || source.isDynamicDim(source.getRank() - 1)))
    return emitOpError("source must have a static last dimension for any order "
                       "of the elements of a row (was ")
           << source << ")";
  return verifyTileAccess(*this, tile, cast<MemRefType>(getSource().getType()),
                          getIndices().size());
}

void LoadOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), &getSourceMutable(),
                       SideEffects::DefaultResource::get());
  // A fault is reported whenever a wrong page is read, in any order: that is no
  // effect that keeps loads from being moved or dropped.
  for (OpOperand &table : getPageTableMutable())
    effects.emplace_back(MemoryEffects::Read::get(), &table,
                         SideEffects::DefaultResource::get());
}

LogicalResult StoreOp::verify() {
  if (!getFirst() != !getExtent())
    return emitOpError("needs both first row and extent of a sequence");
  auto tile = cast<VectorType>(getValue().getType());
  if (getTransposed() && tile.getRank() != 2)
    return emitOpError("tile must have two dimensions to be transposed (has ")
           << tile.getRank() << ")";
  return verifyTileAccess(*this, cast<VectorType>(getValue().getType()),
                          cast<MemRefType>(getDest().getType()),
                          getIndices().size());
}

/// Checks that a tile in fragment order takes whole rows of contiguous f32
/// values.
static LogicalResult verifyFragmentAccess(Operation *op, VectorType tile,
                                          MemRefType memref,
                                          unsigned numIndices) {
  if (memref.getRank() != numIndices)
    return op->emitOpError("needs one index per dimension of the memref "
                           "(expected ")
           << memref.getRank() << ", found " << numIndices << ")";
  if (memref.getElementType() != tile.getElementType() ||
      !memref.getLayout().isIdentity())
    return op->emitOpError("memref must hold contiguous f32 values (was ")
           << memref << ")";
  int64_t columns = memref.getRank() ? memref.getShape().back() : 1;
  if (ShapedType::isDynamic(columns) || tile.getNumElements() % columns != 0)
    return op->emitOpError("tile must take whole rows of the memref (has ")
           << tile.getNumElements() << " elements, memref was " << memref
           << ")";
  return success();
}

LogicalResult StoreThroughOp::verify() {
  Type dest = getDest().getType();
  auto memref = dyn_cast<MemRefType>(dest);
  int64_t rank =
      memref ? memref.getRank() : cast<TensorMapType>(dest).getRank();
  Type element = memref ? memref.getElementType()
                        : cast<TensorMapType>(dest).getElementType();
  if (static_cast<int64_t>(getIndices().size()) != rank)
    return emitOpError("needs one index per dimension of the destination "
                       "(expected ")
           << rank << ", found " << getIndices().size() << ")";
  if (rank < 2)
    return emitOpError("destination must have at least two dimensions (has ")
           << rank << ")";
  VectorType tile = getTile().getType();
  PipeType pipe = getPipe().getType();
  for (Type other : {element, pipe.getElementType()})
    if (other != tile.getElementType())
      return emitOpError("pipe and destination must have the element type of "
                         "the tile (expected ")
             << tile.getElementType() << ", found " << other << ")";
  for (auto [size, block] : llvm::zip_equal(tile.getShape(), pipe.getShape()))
    if (size % block != 0)
      return emitOpError("tile must be made of whole stages of the pipe (")
             << tile << " is not, of " << pipe << ")";
  return success();
}

void StoreThroughOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  // Writes the stages and, if it is a memref, the destination.
  effects.emplace_back(MemoryEffects::Write::get(),
                       SideEffects::DefaultResource::get());
}

LogicalResult StageFragmentsOp::verify() {
  PipeType type = getPipe().getType();
  auto tile = cast<VectorType>(getTile().getType());
  auto expected = PipeType::get(getContext(), tile.getShape(),
                                tile.getElementType(), /*stages=*/1);
  if (type != expected)
    return emitOpError("pipe must have one stage of the size of the tile "
                       "(expected ")
           << expected << ", found " << type << ")";
  return success();
}

VectorType BulkReduceAddOp::getTileType() {
  if (auto buffer = dyn_cast<BufferType>(getValue().getType()))
    return VectorType::get(buffer.getShape(), buffer.getElementType());
  return cast<VectorType>(getValue().getType());
}

void StageFragmentsOp::build(OpBuilder &builder, OperationState &state,
                             Value tile, Value pipe, Value position) {
  build(builder, state, cast<PipeType>(pipe.getType()).getBufferType(), tile,
        pipe, position);
}

void BulkReduceAddOp::build(OpBuilder &builder, OperationState &state,
                            Value value, Value dest, ValueRange indices) {
  build(builder, state, value, dest, indices, /*ordinal=*/Value(),
        /*semaphores=*/Value(), /*semaphore_indices=*/ValueRange());
}

/// Checks that `semaphores` has as many indices as dimensions.
static LogicalResult verifySemaphores(Operation *op, Value semaphores,
                                      ValueRange indices) {
  int64_t rank = cast<MemRefType>(semaphores.getType()).getRank();
  if (rank == static_cast<int64_t>(indices.size()))
    return success();
  return op->emitOpError("semaphores have ")
         << rank << " dimensions, but " << indices.size() << " indices";
}

/// Checks that tiles in fragment order can go through `pipe`.
static LogicalResult verifyFragmentPipe(Operation *op, PipeType pipe) {
  if (pipe.getStages() == 1 && pipe.getElementType().isF32())
    return success();
  return op->emitOpError("pipe must have one stage of f32 values (was ")
         << pipe << ")";
}

LogicalResult CommitFragmentsOp::verify() {
  auto staged = getBuffer().getDefiningOp<StageFragmentsOp>();
  if (!staged || staged.getPipe() != getPipe() ||
      staged.getPosition() != getPosition() ||
      staged->getBlock() != (*this)->getBlock())
    return emitOpError(
        "buffer must be what 'attn_tile.stage_fragments' has put, in the "
        "same block, at the same position of the pipe");
  return success();
}

LogicalResult BulkReduceAddOp::verify() {
  if (bool(getOrdinal()) != bool(getSemaphores()))
    return emitOpError("needs 'ordinal' and 'semaphores' together");
  if (!getSemaphores() && !getSemaphoreIndices().empty())
    return emitOpError("has 'semaphore_indices', but no 'semaphores'");
  if (getSemaphores() &&
      failed(verifySemaphores(*this, getSemaphores(), getSemaphoreIndices())))
    return failure();
  return verifyFragmentAccess(*this, getTileType(),
                              cast<MemRefType>(getDest().getType()),
                              getIndices().size());
}

LogicalResult OrderedReduceAddOp::verify() {
  PipeType pipe = getPipe().getType();
  if (failed(verifySemaphores(*this, getSemaphores(), getSemaphoreIndices())))
    return failure();
  if (!(*this)->getParentOfType<AuxiliaryWarpsOp>())
    return emitOpError("must be inside of 'attn_tile.auxiliary_warps'");
  if (failed(verifyFragmentPipe(*this, pipe)))
    return failure();
  return verifyFragmentAccess(
      *this, VectorType::get(pipe.getShape(), pipe.getElementType()),
      cast<MemRefType>(getDest().getType()), getIndices().size());
}

using EffectInstances =
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

/// The effects of additions to elements of `dest`.
static void addAdditionEffects(OpOperand &dest, EffectInstances &effects) {
  for (MemoryEffects::Effect *effect :
       {static_cast<MemoryEffects::Effect *>(MemoryEffects::Read::get()),
        static_cast<MemoryEffects::Effect *>(MemoryEffects::Write::get())})
    effects.emplace_back(effect, &dest, SideEffects::DefaultResource::get());
}

void BulkReduceAddOp::getEffects(EffectInstances &effects) {
  addAdditionEffects(getDestMutable(), effects);
  if (getSemaphores())
    addAdditionEffects(getSemaphoresMutable()[0], effects);
}

void OrderedReduceAddOp::getEffects(EffectInstances &effects) {
  addAdditionEffects(getDestMutable(), effects);
  addAdditionEffects(getSemaphoresMutable(), effects);
}

void ScatterAddOp::getEffects(EffectInstances &effects) {
  addAdditionEffects(getDestMutable(), effects);
}

LogicalResult StoreFragmentsOp::verify() {
  return verifyFragmentAccess(*this, cast<VectorType>(getValue().getType()),
                              cast<MemRefType>(getDest().getType()),
                              getIndices().size());
}

void StoreFragmentsOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  effects.emplace_back(MemoryEffects::Write::get(), &getDestMutable(),
                       SideEffects::DefaultResource::get());
}

LogicalResult LoadFragmentsOp::verify() {
  return verifyFragmentAccess(*this, cast<VectorType>(getResult().getType()),
                              cast<MemRefType>(getSource().getType()),
                              getIndices().size());
}

void LoadFragmentsOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), &getSourceMutable(),
                       SideEffects::DefaultResource::get());
}

LogicalResult ConvertDqOp::verify() {
  if (failed(verifyFragmentAccess(*this, getTileType(),
                                  cast<MemRefType>(getSource().getType()),
                                  getIndices().size())))
    return failure();
  auto dest = cast<MemRefType>(getDest().getType());
  if (dest.getRank() < 2)
    return emitOpError("destination must have at least two dimensions (has ")
           << dest.getRank() << ")";
  if (static_cast<int64_t>(getDestIndices().size()) != dest.getRank())
    return emitOpError("needs one index per dimension of the destination "
                       "(expected ")
           << dest.getRank() << ", found " << getDestIndices().size() << ")";
  return success();
}

void ConvertDqOp::getEffects(EffectInstances &effects) {
  addAdditionEffects(getSourceMutable(), effects);
  effects.emplace_back(MemoryEffects::Write::get(), &getDestMutable(),
                       SideEffects::DefaultResource::get());
}

/// Checks that a semaphore has one index for each dimension.
static LogicalResult verifySemaphore(Operation *op, MemRefType semaphores,
                                     unsigned numIndices) {
  if (semaphores.getRank() == numIndices)
    return success();
  return op->emitOpError("needs one index per dimension of the semaphores "
                         "(expected ")
         << semaphores.getRank() << ", found " << numIndices << ")";
}

void SemaphoreAddOp::build(OpBuilder &builder, OperationState &state,
                           Value semaphores, ValueRange indices,
                           bool additions) {
  build(builder, state, semaphores, indices, /*pipe=*/Value(),
        /*position=*/Value(), additions);
}

LogicalResult SemaphoreAddOp::verify() {
  if (bool(getPipe()) != bool(getPosition()))
    return emitOpError("needs 'pipe' and 'position' together");
  if (getPipe() && !getAdditions())
    return emitOpError("'after' a pipe must be 'of additions'");
  if (getPipe() && failed(verifyFragmentPipe(*this, getPipe().getType())))
    return failure();
  return verifySemaphore(*this, getSemaphores().getType(), getIndices().size());
}

LogicalResult SemaphoreReleaseOp::verify() {
  auto role = (*this)->getParentOfType<RoleOp>();
  if (!role || role.getKind() != RoleKind::Consumer)
    return emitOpError("must be inside of the role of consumers");
  return verifyFragmentPipe(*this, getPipe().getType());
}

LogicalResult SemaphoreWaitOp::verify() {
  return verifySemaphore(*this, getSemaphores().getType(), getIndices().size());
}

LogicalResult InvertTriangularOp::verify() {
  constexpr int64_t smallest = 64;
  auto tile = cast<VectorType>(getTile().getType());
  int64_t rows = tile.getDimSize(0);
  if (tile.getDimSize(1) != rows || rows < smallest ||
      !llvm::isPowerOf2_64(uint64_t(rows)))
    return emitOpError("tile must be square, of a power of two of rows from ")
           << smallest << " on (was " << tile << ")";
  if (!getPipe())
    return success();
  PipeType pipe = getPipe().getType();
  if (pipe.getShape() != tile.getShape() ||
      pipe.getElementType() != tile.getElementType() || pipe.getStages() != 1)
    return emitOpError("pipe must have one stage that holds the tile, ")
           << tile << " (was " << pipe << ")";
  return success();
}

LogicalResult LocalStoreOp::verify() {
  auto tile = cast<VectorType>(getTile().getType());
  BufferType buffer = getBuffer().getType();
  int64_t end = getFirstColumn() + tile.getDimSize(1);
  if (tile.getDimSize(0) != buffer.getShape()[0] ||
      end > buffer.getShape()[1] ||
      tile.getElementType() != buffer.getElementType())
    return emitOpError("tile must be columns of what a stage of the pipe holds "
                       "(which is ")
           << VectorType::get(buffer.getShape(), buffer.getElementType())
           << ", found " << tile << " from column " << getFirstColumn() << ")";
  return success();
}

/// Checks a conversion of a tile of 8-bit elements.
static LogicalResult verifyConversion(Operation *op, BufferType source,
                                      BufferType result) {
  if (!attn::isFloat8(source.getElementType()))
    return op->emitOpError("buffer must have elements of f8E4M3FN or f8E5M2 "
                           "(was ")
           << source << ")";
  Type element = result.getElementType();
  if (source.getShape() != result.getShape() ||
      !isa<BFloat16Type, Float16Type>(element))
    return op->emitOpError("stages of the pipe must have elements of bf16 or "
                           "f16 and the shape of the buffer, ")
           << source << " (were " << result << ")";
  return success();
}

LogicalResult LocalConvertOp::verify() {
  return verifyConversion(*this, getBuffer().getType(), getResult().getType());
}

LogicalResult ConvertOp::verify() {
  return verifyConversion(*this, getBuffer().getType(),
                          getPipe().getType().getBufferType());
}

void StoreOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  effects.emplace_back(MemoryEffects::Write::get(), &getDestMutable(),
                       SideEffects::DefaultResource::get());
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

/// Checks the arguments and the yielded type of a scalar region.
static LogicalResult verifyScalarRegion(Operation *op, Region &region,
                                        TypeRange expectedArguments,
                                        TypeRange expectedResults) {
  Block &block = region.front();
  if (block.getArgumentTypes() != expectedArguments)
    return op->emitOpError("region must have arguments (")
           << expectedArguments << "), found (" << block.getArgumentTypes()
           << ")";
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield)
    return op->emitOpError("region must end with 'attn_tile.yield'");
  if (yield.getOperandTypes() != expectedResults)
    return op->emitOpError("region must yield ")
           << expectedResults << " (yields " << yield.getOperandTypes() << ")";
  return success();
}

/// Checks the mask_mod region, if any.
static LogicalResult verifyMaskMod(Operation *op, Region &region) {
  if (region.empty())
    return success();
  Type index = IndexType::get(op->getContext());
  return verifyScalarRegion(op, region, {index, index, index, index},
                            IntegerType::get(op->getContext(), 1));
}

LogicalResult KVTileIteratorOp::verify() {
  int64_t queryTile = getQueryTile(), keyTile = getKeyTile();
  if (queryTile <= 0 || keyTile <= 0)
    return emitOpError("tiles must be positive (were ")
           << queryTile << " and " << keyTile << ")";
  size_t indices = getRow().size(), expected = getList() ? 3 : 0;
  if (indices != expected)
    return emitOpError("needs three indices for a row of a list, and none "
                       "without a list (has ")
           << indices << ")";
  return success();
}

LogicalResult KVTileIteratorOp::verifyRegions() {
  return verifyMaskMod(*this, getMaskMod());
}

static LogicalResult verifyScoreTile(Operation *op, Type type) {
  auto vector = cast<VectorType>(type);
  if (vector.getRank() == 2)
    return success();
  return op->emitOpError("tile must have two dimensions (has ")
         << vector.getRank() << ")";
}

void MapOp::build(OpBuilder &builder, OperationState &state, ValueRange sources,
                  Value batch, Value head, Value firstQuery, Value firstKey,
                  Value queryLength, Value keyLength, bool transposed) {
  build(builder, state, sources.front().getType(), sources, batch, head,
        firstQuery, firstKey, queryLength, keyLength, /*others=*/ValueRange(),
        transposed);
}

LogicalResult MapOp::verify() {
  if (getSources().empty())
    return emitOpError("needs at least one source");
  for (Type type : getSources().getTypes())
    if (type != getResult().getType())
      return emitOpError("sources must have the type of the result (expected ")
             << getResult().getType() << ", found " << type << ")";
  if (failed(verifyScoreTile(*this, getResult().getType())))
    return failure();
  ArrayRef<int64_t> shape = cast<VectorType>(getResult().getType()).getShape();
  for (Type type : getOthers().getTypes()) {
    ArrayRef<int64_t> other = cast<VectorType>(type).getShape();
    if (other != shape && other != shape.drop_back())
      return emitOpError("other tiles must have the shape of the tile or be "
                         "vectors of its rows (found ")
             << type << " for a tile of " << getResult().getType() << ")";
  }
  return success();
}

LogicalResult MapOp::verifyRegions() {
  Type element = cast<VectorType>(getResult().getType()).getElementType();
  SmallVector<Type> arguments(getSources().size(), element);
  arguments.append(4, IndexType::get(getContext()));
  for (Type type : getOthers().getTypes())
    arguments.push_back(cast<VectorType>(type).getElementType());
  return verifyScalarRegion(*this, getBody(), arguments, element);
}

LogicalResult ScatterAddOp::verifyRegions() {
  Type index = IndexType::get(getContext());
  SmallVector<Type> arguments(4, index);
  SmallVector<Type> indices(cast<MemRefType>(getDest().getType()).getRank(),
                            index);
  return verifyScalarRegion(*this, getBody(), arguments, indices);
}

LogicalResult MaskOp::verifyRegions() {
  if (failed(verifyScoreTile(*this, getSource().getType())))
    return failure();
  Type element = cast<VectorType>(getSource().getType()).getElementType();
  if (!isa<FloatType>(element))
    return emitOpError("tile must hold floats (holds ") << element << ")";
  return verifyMaskMod(*this, getMaskMod());
}

void ReduceOp::build(OpBuilder &builder, OperationState &state, Value count,
                     ArrayRef<vector::CombiningKind> kinds) {
  SmallVector<Type> types(kinds.size(), builder.getIndexType());
  build(builder, state, types, count, kinds);
}

void ReduceOp::build(OpBuilder &builder, OperationState &state, TypeRange types,
                     Value count, ArrayRef<vector::CombiningKind> kinds) {
  auto attributes =
      llvm::map_to_vector(kinds, [&](vector::CombiningKind kind) -> Attribute {
        return vector::CombiningKindAttr::get(builder.getContext(), kind);
      });
  build(builder, state, types, count, builder.getArrayAttr(attributes));
}

Value ReduceOp::emitNeutral(OpBuilder &builder, Location loc,
                            vector::CombiningKind kind, Type type) {
  if (type.isF32())
    return arith::ConstantOp::create(
        builder, loc,
        builder.getF32FloatAttr(kind == vector::CombiningKind::MAXNUMF
                                    ? std::numeric_limits<float>::quiet_NaN()
                                    : 0));
  int64_t neutral = 0;
  if (kind == vector::CombiningKind::MINSI)
    neutral = std::numeric_limits<int32_t>::max();
  else if (kind == vector::CombiningKind::MAXSI)
    neutral = std::numeric_limits<int32_t>::min();
  return arith::ConstantIndexOp::create(builder, loc, neutral);
}

LogicalResult ReduceOp::verify() {
  if (getKinds().size() != getNumResults())
    return emitOpError("needs one kind for each result (expected ")
           << getNumResults() << ", found " << getKinds().size() << ")";
  for (unsigned i = 0; i < getNumResults(); ++i) {
    vector::CombiningKind kind = getKind(i);
    using vector::CombiningKind;
    bool isF32 = getResult(i).getType().isF32();
    if (isF32 &&
        !llvm::is_contained({CombiningKind::ADD, CombiningKind::MAXNUMF}, kind))
      return emitOpError("kind of an f32 must be 'add' or 'maxnumf' (found '")
             << vector::stringifyCombiningKind(kind) << "')";
    if (!isF32 && !llvm::is_contained({CombiningKind::ADD, CombiningKind::MINSI,
                                       CombiningKind::MAXSI},
                                      kind))
      return emitOpError("kind of an index must be 'add', 'minsi' or 'maxsi' "
                         "(found '")
             << vector::stringifyCombiningKind(kind) << "')";
  }
  return success();
}

LogicalResult ReduceOp::verifyRegions() {
  return verifyScalarRegion(*this, getBody(), IndexType::get(getContext()),
                            getResultTypes());
}

void ReduceOp::getAsmBlockArgumentNames(Region &region,
                                        OpAsmSetValueNameFn setName) {
  setPositionNames({"i"}, region, setName);
}

LogicalResult WarpCompactOp::verifyRegions() {
  Type index = IndexType::get(getContext());
  if (failed(verifyScalarRegion(*this, getCondition(), index,
                                IntegerType::get(getContext(), 1))))
    return failure();
  return verifyScalarRegion(*this, getBody(), {index, index}, {});
}

void WarpCompactOp::getAsmBlockArgumentNames(Region &region,
                                             OpAsmSetValueNameFn setName) {
  setPositionNames({"i", "rank"}, region, setName);
}

LogicalResult ThreadForOp::verifyRegions() {
  return verifyScalarRegion(*this, getBody(), IndexType::get(getContext()), {});
}

void ThreadForOp::getAsmBlockArgumentNames(Region &region,
                                           OpAsmSetValueNameFn setName) {
  setPositionNames({"i"}, region, setName);
}

LogicalResult GenerateKeepMaskOp::verify() {
  constexpr unsigned numWords = std::tuple_size_v<attn::RngBlock<Value>>;
  if (getStream().size() != numWords)
    return emitOpError("'stream' must have ")
           << numWords << " words (has " << getStream().size() << ")";
  return success();
}

void LoadKeepMaskOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), &getSourceMutable(),
                       SideEffects::DefaultResource::get());
}

LogicalResult DropoutOp::verify() {
  auto type = cast<VectorType>(getSource().getType());
  KeepMaskType keepMask = getKeepMask().getType();
  if (type.getShape() !=
      ArrayRef<int64_t>{keepMask.getRows(), keepMask.getColumns()})
    return emitOpError("keep mask must be that of a tile of ")
           << type.getDimSize(0) << "x" << type.getDimSize(1) << " (was "
           << keepMask << ")";
  return success();
}

void LoadMaskBitsOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), &getSourceMutable(),
                       SideEffects::DefaultResource::get());
}

LogicalResult LoadMaskBitsOp::verify() {
  int64_t words = getSource().getType().getShape().back();
  int64_t expected = getResult().getType().getNumWords();
  if (words != expected)
    return emitOpError("source must have the words of ")
           << getResult().getType() << " (expected " << expected << ", found "
           << (ShapedType::isDynamic(words) ? "?" : std::to_string(words))
           << ")";
  return success();
}

LogicalResult ApplyMaskBitsOp::verify() {
  auto type = cast<VectorType>(getSource().getType());
  MaskBitsType bits = getBits().getType();
  if (type.getShape() != ArrayRef<int64_t>{bits.getRows(), bits.getColumns()})
    return emitOpError("bits must be those of a tile of ")
           << type.getDimSize(0) << "x" << type.getDimSize(1) << " (was "
           << bits << ")";
  return success();
}

LogicalResult RescaleOp::verify() {
  int64_t rows = cast<VectorType>(getSource().getType()).getDimSize(0);
  int64_t factors = cast<VectorType>(getFactor().getType()).getDimSize(0);
  if (rows != factors)
    return emitOpError("needs one factor for each row (expected ")
           << rows << ", found " << factors << ")";
  return success();
}

LogicalResult SubtractRowsOp::verify() {
  int64_t rows = cast<VectorType>(getSource().getType()).getDimSize(0);
  int64_t given = cast<VectorType>(getSubtrahend().getType()).getDimSize(0);
  if (rows != given)
    return emitOpError("needs one subtrahend for each row (expected ")
           << rows << ", found " << given << ")";
  return success();
}

LogicalResult PartialSumOp::verify() {
  auto source = cast<VectorType>(getSource().getType());
  auto acc = cast<VectorType>(getAcc().getType());
  if (source.getDimSize(0) != acc.getDimSize(0))
    return emitOpError("source and accumulator must have the same rows (found ")
           << source.getDimSize(0) << " and " << acc.getDimSize(0) << ")";
  if (source.getDimSize(1) % acc.getDimSize(1) != 0)
    return emitOpError("columns of the accumulator must divide those of the "
                       "source (found ")
           << acc.getDimSize(1) << " and " << source.getDimSize(1) << ")";
  return success();
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

LogicalResult CopyOp::verify() {
  Type source = getSource().getType();
  auto memref = dyn_cast<MemRefType>(source);
  int64_t rank =
      memref ? memref.getRank() : cast<TensorMapType>(source).getRank();
  Type element = memref ? memref.getElementType()
                        : cast<TensorMapType>(source).getElementType();
  if (static_cast<int64_t>(getIndices().size()) != rank)
    return emitOpError("needs one index per dimension of the source (expected ")
           << rank << ", found " << getIndices().size() << ")";
  if (rank < 2)
    return emitOpError("source must have at least two dimensions (has ")
           << rank << ")";
  if (element != getBuffer().getType().getElementType())
    return emitOpError("source and buffer must have the same element type "
                       "(found ")
           << element << " and " << getBuffer().getType().getElementType()
           << ")";
  return verifyStoredRows(*this, rank, int64_t(getPageSize()));
}

int64_t CopyOp::getContiguousRows() {
  BufferType buffer = getBuffer().getType();
  int64_t rows = buffer.getShape()[0] / buffer.getCluster();
  // Tiles begin at multiples of their size.
  if (attn::KVAddressingAttrInterface addressing = getAddressingAttr())
    return std::gcd(rows, addressing.getPageSize());
  return getPageTable() ? std::gcd(rows, int64_t(getPageSize())) : rows;
}

LogicalResult ReadOp::verify() {
  BufferType buffer = getBuffer().getType();
  auto tile = cast<VectorType>(getTile().getType());
  if (tile.getShape() != buffer.getShape() ||
      tile.getElementType() != buffer.getElementType())
    return emitOpError("tile must be what the buffer holds (expected ")
           << VectorType::get(buffer.getShape(), buffer.getElementType())
           << ", found " << tile << ")";
  return success();
}

LogicalResult MakeTensorMapOp::verify() {
  auto source = cast<MemRefType>(getSource().getType());
  TensorMapType map = getMap().getType();
  if (source.getRank() != map.getRank())
    return emitOpError("memref and tensor map must have the same rank (found ")
           << source.getRank() << " and " << map.getRank() << ")";
  if (source.getElementType() != map.getElementType())
    return emitOpError("memref and tensor map must have the same element type "
                       "(found ")
           << source.getElementType() << " and " << map.getElementType() << ")";
  return success();
}

//===----------------------------------------------------------------------===//
// MmaStartOp
//===----------------------------------------------------------------------===//

/// Checks the rows of its left-hand side, of `rows`, that `op` takes, and sets
/// `rows` to their number.
static LogicalResult verifyRows(MmaStartOp op, int64_t &rows) {
  VectorType result = op.getResult().getType().getValueType();
  std::optional<int64_t> first = op.getFirstRow();
  if (!first)
    return success();
  if (!isa<BufferType>(op.getLhs().getType()))
    return op.emitOpError("lhs in registers has all of its rows multiplied");
  if (result.getRank() != 2 || *first + result.getDimSize(0) > rows)
    return op.emitOpError("rows must be among those of lhs (from ")
           << *first << " on, of " << rows << ", result was " << result << ")";
  rows = result.getDimSize(0);
  return success();
}

/// Checks the columns of its right-hand side, of `columns`, that `op` takes,
/// and sets `columns` to their number.
static LogicalResult verifyColumns(MmaStartOp op, int64_t &columns) {
  VectorType result = op.getResult().getType().getValueType();
  std::optional<int64_t> first = op.getFirstColumn();
  bool areOfConsumer = op.getConsumerColumns();
  if (!first && !areOfConsumer)
    return success();
  if (op.getTransposeRhs())
    return op.emitOpError("a transposed rhs has all of its columns multiplied");
  if (first && areOfConsumer)
    return op.emitOpError("columns are those from 'first_column' on, or those "
                          "of the consumer");
  if (areOfConsumer &&
      (result.getRank() != 2 || columns < result.getDimSize(1)))
    return op.emitOpError("columns of a consumer must be among those of rhs "
                          "(number ")
           << columns << ", result was " << result << ")";
  if (first &&
      (result.getRank() != 2 || *first + result.getDimSize(1) > columns))
    return op.emitOpError("columns must be among those of rhs (from ")
           << *first << " on, of " << columns << ", result was " << result
           << ")";
  columns = result.getDimSize(1);
  return success();
}

LogicalResult MmaStartOp::verify() {
  ArrayRef<int64_t> lhs, rhs = getRhs().getType().getShape();
  Type lhsElement;
  if (auto buffer = dyn_cast<BufferType>(getLhs().getType())) {
    lhs = buffer.getShape();
    lhsElement = buffer.getElementType();
  } else {
    auto vector = cast<VectorType>(getLhs().getType());
    lhs = vector.getShape();
    lhsElement = vector.getElementType();
  }
  if (lhs.size() != 2)
    return emitOpError("lhs must have two dimensions (has ")
           << lhs.size() << ")";
  if (getTransposeLhs() && !isa<BufferType>(getLhs().getType()))
    return emitOpError("lhs in registers cannot be transposed");
  Type rhsElement = getRhs().getType().getElementType();
  bool areFloat8 = attn::isFloat8(lhsElement) && attn::isFloat8(rhsElement);
  if (lhsElement != rhsElement && !areFloat8)
    return emitOpError("lhs and rhs must have the same element type, or 8 bits "
                       "(found ")
           << lhsElement << " and " << rhsElement << ")";
  if (MmaAttrInterface mma = getMmaAttr();
      mma && mma.getElementType() != lhsElement)
    return emitOpError("elements must be ")
           << mma.getElementType() << ", which '" << mma
           << "' multiplies (were " << lhsElement << ")";
  int64_t k = rhs[getTransposeRhs() ? 1 : 0];
  int64_t n = rhs[getTransposeRhs() ? 0 : 1];
  int64_t m = lhs[getTransposeLhs() ? 1 : 0];
  int64_t lhsDepth = lhs[getTransposeLhs() ? 0 : 1];
  if (lhsDepth != k)
    return emitOpError("lhs and rhs must agree in the contracted dimension "
                       "(found ")
           << lhsDepth << " and " << k << ")";
  VectorType result = getResult().getType().getValueType();
  if (failed(verifyRows(*this, m)) || failed(verifyColumns(*this, n)))
    return failure();
  VectorType expected = VectorType::get({m, n}, Float32Type::get(getContext()));
  if (result != expected)
    return emitOpError("result must be ")
           << expected << " (was " << result << ")";
  if (!getAcc())
    return success();
  Type acc = getAcc().getType();
  if (auto pending = dyn_cast<PendingType>(acc))
    acc = pending.getValueType();
  if (acc != expected)
    return emitOpError("accumulator must be ")
           << expected << " (was " << acc << ")";
  return success();
}

//===----------------------------------------------------------------------===//
// RoleOp
//===----------------------------------------------------------------------===//

LogicalResult RoleOp::verify() {
  int64_t registers = getRegisters();
  if (registers < 24 || registers > 256 || registers % 8 != 0)
    return emitOpError("'registers' must be a multiple of 8 in [24, 256] (was ")
           << registers << ")";
  if (getBody().getNumArguments() != 0)
    return emitOpError("body must have no arguments (has ")
           << getBody().getNumArguments() << ")";
  return success();
}

//===----------------------------------------------------------------------===//
// AuxiliaryWarpsOp
//===----------------------------------------------------------------------===//

LogicalResult AuxiliaryWarpsOp::verifyRegions() {
  if (getJoined() && getWarps())
    return emitOpError("that is 'joined' cannot have 'warps': it has all that "
                       "others leave, and those of the consumers");
  SmallVector<ThroughputHintOp> paces(getBody().getOps<ThroughputHintOp>());
  if (paces.size() > 1)
    return paces[1].emitOpError(
        "is a second one in 'attn_tile.auxiliary_warps'");
  if (!paces.empty() && !getJoined())
    return paces.front().emitOpError(
        "needs 'attn_tile.auxiliary_warps' to be 'joined'");
  WalkResult walk = getBody().walk([&](Operation *op) -> WalkResult {
    // Idle warps convert full stages.
    if (!isa<WaitOp>(op) &&
        llvm::any_of(
            op->getResultTypes(),
            llvm::IsaPred<VectorType, PendingType, PipeType, BufferType,
                          KVTileIteratorType, KeepMaskType, MaskBitsType>))
      return LogicalResult(emitOpError("must compute with scalars alone")
                               .attachNote(op->getLoc())
                           << "'" << op->getName() << "' does not");
    auto id = dyn_cast<ProgramIdOp>(op);
    auto count = dyn_cast<NumProgramsOp>(op);
    if ((id && id.getDim() != 0) || (count && count.getDim() != 0))
      return op->emitOpError(
          "in 'attn_tile.auxiliary_warps' must be of dimension 0, the only one "
          "that auxiliary warps have");
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// FetchWorkItemOp, IsActiveWarpOp
//===----------------------------------------------------------------------===//

/// Checks that `op` is in `attn_tile.auxiliary_warps` that is joined.
static LogicalResult verifyJoined(Operation *op) {
  auto auxiliary = op->getParentOfType<AuxiliaryWarpsOp>();
  if (!auxiliary || !auxiliary.getJoined())
    return op->emitOpError(
        "must be inside of 'attn_tile.auxiliary_warps' that is 'joined'");
  return success();
}

LogicalResult FetchWorkItemOp::verify() { return verifyJoined(*this); }

LogicalResult IsActiveWarpOp::verify() { return verifyJoined(*this); }
