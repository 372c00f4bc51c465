//===- DescribeArguments.cpp - Requirements on arguments ------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attaches names, sizes, alignment and direction to the arguments of public
// functions while attention is still one operation, and adds the functions that
// count floating point operations.
//
//===----------------------------------------------------------------------===//

#include "Signature.h"
#include "Views.h"
#include "attn/Analysis/MaskTiles.h"
#include "attn/Compiler/Passes.h"
#include "attn/Conversion/LaunchToRuntime/RuntimeCalls.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Interfaces/Target.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNDESCRIBEARGUMENTSPASS
#include "attn/Compiler/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;
using namespace mlir::attn;

namespace {
/// One size of one argument.
using ArgumentDim = std::pair<unsigned, unsigned>;

/// Classes of equal sizes of a function's arguments, and their names.
struct SizeClasses {
  llvm::EquivalenceClasses<ArgumentDim> classes;
  std::map<ArgumentDim, std::string> names;

  void unite(ArrayRef<ArgumentDim> dims, StringRef name) {
    for (ArgumentDim dim : dims) {
      classes.unionSets(dims.front(), dim);
      if (!name.empty())
        names.try_emplace(dim, name.str());
    }
  }
};

/// A size of an argument that is `factor` times the number of tiles of
/// `length`, plus `extra`.
struct TileCount {
  ArgumentDim dim, length;
  int64_t tile, factor, extra;
};

/// A size of an argument that is a multiple of `factor`, and 0 only where
/// `length` is, if there is one.
struct Multiple {
  ArgumentDim dim;
  std::optional<ArgumentDim> length;
  int64_t factor;
};

/// The sizes of a function's arguments that follow from other sizes, or from
/// the layout of the elements. `SizeClasses` has the equal sizes.
class DerivedSizes {
public:
  /// Finds the sizes, and names them in `sizes` if they have no name.
  DerivedSizes(func::FuncOp func, SizeClasses &sizes);

  /// Attaches the sizes of argument number `index`.
  void attachTo(func::FuncOp func, unsigned index) const;

private:
  void addBlockMask(Value blockMask, Attribute schedule,
                    std::optional<ArgumentDim> queries,
                    std::optional<ArgumentDim> keys);
  void addKeepMask(AttentionOpInterface op);
  void addKeepMask(DropoutMaskOp op);
  void add(Value value, unsigned dim, std::optional<ArgumentDim> length,
           int64_t tile, int64_t factor, int64_t extra);
  void addMultiple(Value value, unsigned dim, std::optional<ArgumentDim> length,
                   int64_t factor);
  bool isDynamic(ArgumentDim dim) {
    return cast<MemRefType>(func.getArgument(dim.first).getType())
        .isDynamicDim(dim.second);
  }

  func::FuncOp func;
  SizeClasses &sizes;
  SmallVector<TileCount> counts;
  SmallVector<Multiple> multiples;
};
} // namespace

/// The argument of `func` that `value` is a view of, or is.
static BlockArgument getArgument(Value value, func::FuncOp func) {
  while (Value source = getViewedMemRef(value))
    value = source;
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument || argument.getOwner() != &func.getBody().front())
    return {};
  return argument;
}

/// The dimension of the memref that `value` is a view of that has the size of
/// its dimension `dim`.
static std::optional<std::pair<Value, int64_t>> getViewedDim(Value value,
                                                             int64_t dim) {
  // Of several dimensions, all but one must have a size of one.
  auto isOnly = [](MemRefType type, ArrayRef<int64_t> group, int64_t dim) {
    return llvm::all_of(group, [&](int64_t other) {
      return other == dim || type.getDimSize(other) == 1;
    });
  };
  Operation *op = value.getDefiningOp();
  if (auto cast = dyn_cast_if_present<memref::CastOp>(op))
    return std::pair(cast.getSource(), dim);
  if (auto transpose = dyn_cast_if_present<memref::TransposeOp>(op))
    return std::pair(transpose.getIn(),
                     transpose.getPermutation().getDimPosition(dim));
  if (auto expand = dyn_cast_if_present<memref::ExpandShapeOp>(op)) {
    for (auto [index, group] :
         llvm::enumerate(expand.getReassociationIndices()))
      if (llvm::is_contained(group, dim) &&
          isOnly(expand.getResultType(), group, dim))
        return std::pair(expand.getSrc(), index);
  }
  if (auto collapse = dyn_cast_if_present<memref::CollapseShapeOp>(op)) {
    ReassociationIndices group = collapse.getReassociationIndices()[dim];
    for (int64_t inner : group)
      if (isOnly(collapse.getSrcType(), group, inner))
        return std::pair(collapse.getSrc(), inner);
  }
  return std::nullopt;
}

/// The value that the program gives as the size of dimension `dim` of `value`,
/// if that is a new buffer or a slice with a dynamic size.
static Value getGivenSize(Value value, int64_t dim) {
  if (auto alloc = value.getDefiningOp<memref::AllocOp>())
    return alloc.getType().isDynamicDim(dim)
               ? alloc
                     .getDynamicSizes()[alloc.getType().getDynamicDimIndex(dim)]
               : Value();
  auto slice = value.getDefiningOp<memref::SubViewOp>();
  if (!slice)
    return {};
  llvm::SmallBitVector dropped = slice.getDroppedDims();
  for (auto [source, size] : llvm::enumerate(slice.getMixedSizes()))
    if (!dropped[source] && dim-- == 0)
      return dyn_cast<Value>(size);
  return {};
}

/// The argument's size that dimension `dim` of memref `value` equals.
static std::optional<ArgumentDim> resolveDim(Value value, int64_t dim,
                                             func::FuncOp func) {
  while (auto viewed = getViewedDim(value, dim))
    std::tie(value, dim) = *viewed;
  auto argument = dyn_cast<BlockArgument>(value);
  if (argument && argument.getOwner() == &func.getBody().front())
    return ArgumentDim(argument.getArgNumber(), dim);
  Value size = getGivenSize(value, dim);
  auto source = size ? size.getDefiningOp<memref::DimOp>() : memref::DimOp();
  if (!source || !isa<MemRefType>(source.getSource().getType()))
    return std::nullopt;
  // An index may lie outside of the type: that is undefined, not invalid.
  std::optional<int64_t> index = source.getConstantIndex();
  int64_t rank = cast<MemRefType>(source.getSource().getType()).getRank();
  if (!index || *index < 0 || *index >= rank)
    return std::nullopt;
  return resolveDim(source.getSource(), *index, func);
}

/// Unites the argument sizes that the given sizes of memrefs equal.
static void unite(ArrayRef<std::pair<Value, int64_t>> dims, StringRef name,
                  func::FuncOp func, SizeClasses &sizes) {
  SmallVector<ArgumentDim> resolved;
  for (auto [value, dim] : dims)
    if (std::optional<ArgumentDim> source = resolveDim(value, dim, func))
      resolved.push_back(*source);
  sizes.unite(resolved, name);
}

/// Unites the sizes that `op` needs to be equal.
static void uniteSizes(DescribableOpInterface op, func::FuncOp func,
                       SizeClasses &sizes) {
  for (const auto &[name, dims] : op.getEqualSizes())
    unite(dims, name, func, sizes);
}

/// The argument's size that equals `size`, if there is one.
static std::optional<ArgumentDim> resolveSize(Value size, func::FuncOp func) {
  auto source = size.getDefiningOp<memref::DimOp>();
  std::optional<int64_t> index =
      source ? source.getConstantIndex() : std::nullopt;
  if (!index)
    return std::nullopt;
  return resolveDim(source.getSource(), *index, func);
}

void DerivedSizes::add(Value value, unsigned dim,
                       std::optional<ArgumentDim> length, int64_t tile,
                       int64_t factor, int64_t extra) {
  std::optional<ArgumentDim> counted = resolveDim(value, dim, func);
  // Sizes that are static in both have been verified.
  if (!counted || !length || !(isDynamic(*counted) || isDynamic(*length)))
    return;
  counts.push_back({*counted, *length, tile, factor, extra});
  auto named = sizes.names.find(*length);
  std::string text = named == sizes.names.end() ? "length" : named->second;
  if (tile != 1)
    text = "ceil(" + text + " / " + std::to_string(tile) + ")";
  if (factor != 1)
    text = std::to_string(factor) + " * " + text;
  if (extra)
    text += (extra < 0 ? " - " : " + ") + std::to_string(std::abs(extra));
  sizes.names.try_emplace(*counted, text);
}

void DerivedSizes::addMultiple(Value value, unsigned dim,
                               std::optional<ArgumentDim> length,
                               int64_t factor) {
  std::optional<ArgumentDim> multiple = resolveDim(value, dim, func);
  if (multiple && isDynamic(*multiple))
    multiples.push_back({*multiple, length, factor});
}

void DerivedSizes::addBlockMask(Value blockMask, Attribute schedule,
                                std::optional<ArgumentDim> queries,
                                std::optional<ArgumentDim> keys) {
  auto [queryTile, keyTile] = CreateBlockMaskOp::getTiles(schedule);
  add(blockMask, 2, queries, queryTile, 1, 0);
  add(blockMask, 3, keys, keyTile, 1, CreateBlockMaskOp::extraEntries);
}

void DerivedSizes::addKeepMask(AttentionOpInterface op) {
  Value mask = op.getDropoutMask();
  if (!mask)
    return;
  bool isByRows = op.getMaskLayout() == MaskLayout::Rows;
  bool hasEntries = op.getAddressing().hasEntries();
  constexpr int64_t block = DropoutMaskOp::blockSize;
  auto addWords = [&](unsigned dim, Value of, int64_t words) {
    std::optional<ArgumentDim> length = resolveDim(of, 2, func);
    // Only the kernels know the lengths of packed sequences.
    if (!hasEntries)
      addMultiple(mask, dim, length, words);
    else
      add(mask, dim, length, block, words, 0);
  };
  addWords(isByRows ? 2 : 3, op.getQuery(),
           DropoutMaskOp::countQueryWords(block));
  addWords(isByRows ? 3 : 2, op.getKey(), DropoutMaskOp::countKeyWords(block));
  if (!hasEntries)
    add(mask, 0, resolveDim(op.getQuerySequences(), 0, func), 1, 1, -1);
}

void DerivedSizes::addKeepMask(DropoutMaskOp op) {
  bool isByRows = op.getLayout() == MaskLayout::Rows;
  constexpr int64_t block = DropoutMaskOp::blockSize;
  addMultiple(op.getOut(), isByRows ? 2 : 3, std::nullopt,
              DropoutMaskOp::countQueryWords(block));
  addMultiple(op.getOut(), isByRows ? 3 : 2, std::nullopt,
              DropoutMaskOp::countKeyWords(block));
}

DerivedSizes::DerivedSizes(func::FuncOp func, SizeClasses &sizes)
    : func(func), sizes(sizes) {
  func.walk([&](AttentionOp op) {
    if (op.getBlockMask() && op.getScheduleAttr())
      addBlockMask(op.getBlockMask(), op.getScheduleAttr(),
                   resolveDim(op.getQuery(), 2, func),
                   resolveDim(op.getKey(), 2, func));
  });
  func.walk([&](CreateBlockMaskOp op) {
    std::optional<ArgumentDim> batch = resolveSize(op.getBatch(), func);
    std::optional<ArgumentDim> queries = resolveSize(op.getQueries(), func);
    std::optional<ArgumentDim> keys = resolveSize(op.getKeys(), func);
    if (batch) {
      sizes.unite(*batch, "batch");
      if (std::optional<ArgumentDim> entries = resolveDim(op.getOut(), 0, func))
        sizes.unite({*batch, *entries}, "batch");
    }
    if (queries)
      sizes.unite(*queries, "queries");
    if (keys)
      sizes.unite(*keys, "keys");
    if (op.getScheduleAttr())
      addBlockMask(op.getOut(), op.getScheduleAttr(), queries, keys);
  });
  func.walk([&](AttentionOpInterface op) {
    if (op.hasPackedQueries())
      add(op.getQuerySequences(), 0, resolveDim(op.getKeySequences(), 0, func),
          1, 1, 1);
    addKeepMask(op);
  });
  func.walk([&](DropoutMaskOp op) { addKeepMask(op); });
}

void DerivedSizes::attachTo(func::FuncOp func, unsigned index) const {
  Builder builder(func.getContext());
  SmallVector<int64_t> ofTiles, ofMultiples;
  for (const TileCount &count : counts)
    if (count.dim.first == index)
      ofTiles.append({count.dim.second, count.length.first, count.length.second,
                      count.tile, count.factor, count.extra});
  for (const Multiple &multiple : multiples) {
    if (multiple.dim.first != index)
      continue;
    int64_t argument = -1, dim = 0;
    if (multiple.length)
      std::tie(argument, dim) = *multiple.length;
    ofMultiples.append({multiple.dim.second, argument, dim, multiple.factor});
  }
  if (!ofTiles.empty())
    func.setArgAttr(index, argTileCountsAttrName,
                    builder.getDenseI64ArrayAttr(ofTiles));
  if (!ofMultiples.empty())
    func.setArgAttr(index, argMultiplesAttrName,
                    builder.getDenseI64ArrayAttr(ofMultiples));
}

/// Unites the sizes that one loop of `op` runs over.
static void uniteSizes(linalg::LinalgOp op, func::FuncOp func,
                       SizeClasses &sizes) {
  SmallVector<SmallVector<std::pair<Value, int64_t>>> loops(op.getNumLoops());
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    AffineMap map = op.getMatchingIndexingMap(&operand);
    for (auto [dim, expr] : llvm::enumerate(map.getResults()))
      if (auto loop = dyn_cast<AffineDimExpr>(expr))
        loops[loop.getPosition()].push_back({operand.get(), dim});
  }
  for (ArrayRef<std::pair<Value, int64_t>> dims : loops)
    unite(dims, "", func, sizes);
}

/// Unites the sizes that removed operations needed to be equal, and removes the
/// notes about them.
static void uniteNotedSizes(func::FuncOp func, SizeClasses &sizes) {
  for (BlockArgument argument : func.getArguments()) {
    unsigned number = argument.getArgNumber();
    auto noted =
        func.getArgAttrOfType<DenseI64ArrayAttr>(number, equalSizesAttrName);
    if (!noted)
      continue;
    auto hasDim = [&](int64_t argument, int64_t dim) {
      return argument >= 0 && argument < func.getNumArguments() && dim >= 0 &&
             dim < cast<MemRefType>(func.getArgument(argument).getType())
                       .getRank();
    };
    for (ArrayRef<int64_t> rest = noted; rest.size() >= 3;
         rest = rest.drop_front(3))
      if (hasDim(number, rest[0]) && hasDim(rest[1], rest[2]))
        sizes.unite({{rest[1], rest[2]}, {number, rest[0]}}, "");
    func.removeArgAttr(number, equalSizesAttrName);
  }
}

/// Whether `memref` or a view of it may be written.
static bool mayBeWritten(Value memref) {
  for (Operation *user : memref.getUsers()) {
    if (user->getNumResults() == 1 &&
        getViewedMemRef(user->getResult(0)) == memref) {
      if (mayBeWritten(user->getResult(0)))
        return true;
      continue;
    }
    auto destinations = dyn_cast<DestinationStyleOpInterface>(user);
    if (destinations && llvm::is_contained(destinations.getDpsInits(), memref))
      return true;
    if (auto effects = dyn_cast<MemoryEffectOpInterface>(user))
      if (effects.getEffectOnValue<MemoryEffects::Write>(memref))
        return true;
  }
  return false;
}

/// Whether `memref` or a view of it may be read. Operations whose effects are
/// unknown may read it, and so may users of memrefs that may be `memref`.
static bool mayBeRead(Value memref) {
  return llvm::any_of(memref.getUsers(), [&](Operation *user) {
    for (Value result : user->getResults())
      if (isa<BaseMemRefType>(result.getType()) &&
          (getViewedMemRef(result) != memref || mayBeRead(result)))
        return true;
    auto effects = dyn_cast<MemoryEffectOpInterface>(user);
    return !effects || user->hasTrait<OpTrait::IsTerminator>() ||
           effects.getEffectOnValue<MemoryEffects::Read>(memref);
  });
}

attn_access attn::getAccess(func::FuncOp func, unsigned index) {
  return attn_access(
      (func.getArgAttr(index, argReadAttrName) ? ATTN_ACCESS_READ : 0) |
      (func.getArgAttr(index, argOutputAttrName) ? ATTN_ACCESS_WRITE : 0));
}

//===----------------------------------------------------------------------===//
// Floating point operations
//===----------------------------------------------------------------------===//

/// Emits the number of keys in `range` that attend, added to `sum`. `at.key` is
/// filled in.
static Value emitCountInRange(OpBuilder &builder, Location loc,
                              MaskAttrInterface mask, MaskPosition at,
                              const IndexRange &range, Value sum) {
  Value one = arith::ConstantIndexOp::create(builder, loc, 1);
  auto loop =
      scf::ForOp::create(builder, loc, range.begin, range.end, one, sum);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  at.key = loop.getInductionVar();
  Value attends = mask.emitPredicate(builder, loc, at);
  Value count = arith::IndexCastUIOp::create(builder, loc,
                                             builder.getIndexType(), attends);
  count = arith::AddIOp::create(builder, loc, loop.getRegionIterArg(0), count);
  scf::YieldOp::create(builder, loc, count);
  return loop.getResult(0);
}

/// Emits the number of (query, key) pairs per head that `mask` keeps; null
/// keeps all. In each row, ranges of keys that are attended are counted as a
/// whole; keys of ranges that may be masked are tested one by one.
static Value emitAttendedPairs(OpBuilder &builder, Location loc,
                               MaskAttrInterface mask, Value queryLength,
                               Value keyLength) {
  if (!mask)
    return arith::MulIOp::create(builder, loc, queryLength, keyLength);
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  Value one = arith::ConstantIndexOp::create(builder, loc, 1);
  auto loop = scf::ForOp::create(builder, loc, zero, queryLength, one, zero);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value row = loop.getInductionVar();
  ScoreMask scores = {mask, /*maskMod=*/nullptr, zero,
                      zero, queryLength,         keyLength};
  Value sum = loop.getRegionIterArg(0);
  // Tiles of one key.
  TileRanges ranges =
      emitTileRanges(builder, loc, scores, MaskDim::Query, row, 1, 1);
  for (auto [begin, end] : ranges.full) {
    Value keys = arith::SubIOp::create(builder, loc, end, begin);
    sum = arith::AddIOp::create(builder, loc, sum, keys);
  }
  MaskPosition at{zero, zero, row, /*key=*/nullptr, queryLength, keyLength};
  for (const IndexRange &range : ranges.masked)
    sum = emitCountInRange(builder, loc, mask, at, range, sum);
  scf::YieldOp::create(builder, loc, sum);
  return loop.getResult(0);
}

/// Emits `size` of an argument of a call, an `index`.
static Value emitSize(OpBuilder &builder, Location loc, Value arguments,
                      ArgumentDim size) {
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  auto at = [&](Type type, Value base, int32_t index) -> Value {
    return LLVM::GEPOp::create(builder, loc, pointer, type, base,
                               ArrayRef<LLVM::GEPArg>{index});
  };
  Value slot = at(pointer, arguments, size.first);
  Value tensor = LLVM::LoadOp::create(builder, loc, pointer, slot);
  Value shapeSlot = at(builder.getI8Type(), tensor, abi::tensorShapeOffset);
  Value shape = LLVM::LoadOp::create(builder, loc, pointer, shapeSlot);
  Value extentSlot = at(builder.getI64Type(), shape, size.second);
  Value extent =
      LLVM::LoadOp::create(builder, loc, builder.getI64Type(), extentSlot);
  return arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                    extent);
}

/// The sizes of a matmul: the depth, and the sizes of the output.
static SmallVector<std::pair<Value, int64_t>> getMatmulSizes(MatmulOp op) {
  SmallVector<std::pair<Value, int64_t>> sizes = {
      {op.getLhs(), op.getLhsDepthDim()}};
  int64_t rank = cast<MemRefType>(op.getOut().getType()).getRank();
  for (int64_t dim = 0; dim < rank; ++dim)
    sizes.emplace_back(op.getOut(), dim);
  return sizes;
}

namespace {
/// The operations of a function that have FLOPs to count.
struct CountedOps {
  SmallVector<AttentionOpInterface> attentions;
  SmallVector<MatmulOp> matmuls;
};

/// Emits FLOPs by the sizes of the arguments of a call.
class FlopEmitter {
public:
  FlopEmitter(OpBuilder &builder, func::FuncOp func, Value arguments)
      : builder(builder), loc(func.getLoc()), func(func), arguments(arguments) {
  }

  Value emitFlops(AttentionOpInterface op) {
    int64_t perPair = op.getNumQueryHeads() * op.getFlopsPerPair();
    Value pairs =
        emitAttendedPairs(builder, loc, op.getMaskAttr(),
                          emitDim(op.getQuery(), 2), emitDim(op.getKey(), 2));
    Value flops =
        arith::MulIOp::create(builder, loc, pairs, emitDim(op.getQuery(), 0));
    return arith::MulIOp::create(
        builder, loc, flops,
        arith::ConstantIndexOp::create(builder, loc, perPair));
  }
  Value emitFlops(MatmulOp op) {
    Value flops = arith::ConstantIndexOp::create(builder, loc, 2);
    for (auto [value, dim] : getMatmulSizes(op))
      flops = arith::MulIOp::create(builder, loc, flops, emitDim(value, dim));
    return flops;
  }

private:
  Value emitDim(Value value, int64_t dim) {
    auto type = cast<MemRefType>(value.getType());
    if (!type.isDynamicDim(dim))
      return arith::ConstantIndexOp::create(builder, loc, type.getDimSize(dim));
    return emitSize(builder, loc, arguments, *resolveDim(value, dim, func));
  }

  OpBuilder &builder;
  Location loc;
  func::FuncOp func;
  Value arguments;
};
} // namespace

/// Collects the operations to count. Fails if a size is unknown, or if one of
/// them may run any number of times.
static FailureOr<CountedOps> collectCountedOps(func::FuncOp func) {
  CountedOps ops;
  bool countable = func.getBody().hasOneBlock();
  auto isKnown = [&](Value value, int64_t dim) {
    return !cast<MemRefType>(value.getType()).isDynamicDim(dim) ||
           resolveDim(value, dim, func);
  };
  func.walk([&](AttentionOpInterface op) {
    ops.attentions.push_back(op);
    // Only the device knows the lengths of sequences and of caches.
    countable &= op->getParentOp() == func && !op.readsKeyLengths() &&
                 op.isBufferized() && isKnown(op.getQuery(), 0) &&
                 isKnown(op.getQuery(), 2) && isKnown(op.getKey(), 2);
  });
  func.walk([&](MatmulOp op) {
    ops.matmuls.push_back(op);
    countable &= op->getParentOp() == func && op.isBufferized() &&
                 llvm::all_of(getMatmulSizes(op), [&](auto size) {
                   return isKnown(size.first, size.second);
                 });
  });
  if (!countable)
    return failure();
  return ops;
}

/// Adds `attn_flops_<name>`, unless there is nothing that can be counted.
static void createFlopCount(func::FuncOp func) {
  FailureOr<CountedOps> ops = collectCountedOps(func);
  if (failed(ops) || (ops->attentions.empty() && ops->matmuls.empty()))
    return;

  Location loc = func.getLoc();
  OpBuilder builder(func.getContext());
  builder.setInsertionPointAfter(func);
  Type pointer = LLVM::LLVMPointerType::get(func.getContext());
  auto count = LLVM::LLVMFuncOp::create(
      builder, loc, (abi::flopsPrefix + func.getName()).str(),
      LLVM::LLVMFunctionType::get(builder.getI64Type(), {pointer}));
  builder.setInsertionPointToStart(count.addEntryBlock(builder));
  FlopEmitter emitter(builder, func, count.getArgument(0));
  Value total = arith::ConstantIndexOp::create(builder, loc, 0);
  for (AttentionOpInterface op : ops->attentions)
    total = arith::AddIOp::create(builder, loc, total, emitter.emitFlops(op));
  for (MatmulOp op : ops->matmuls)
    total = arith::AddIOp::create(builder, loc, total, emitter.emitFlops(op));
  Value result =
      arith::IndexCastOp::create(builder, loc, builder.getI64Type(), total);
  LLVM::ReturnOp::create(builder, loc, result);
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

namespace {
/// Names of the arguments of a function: given ones, or the attention operands
/// that the arguments are, or numbers.
class ArgumentNames {
public:
  ArgumentNames(func::FuncOp func, ArrayRef<DescribableOpInterface> operations)
      : func(func), operations(operations), names(func.getNumArguments()) {}

  SmallVector<std::string> find();

private:
  /// Names the argument that `value` is, if it is one without a name.
  void set(Value value, StringRef name);

  func::FuncOp func;
  ArrayRef<DescribableOpInterface> operations;
  SmallVector<std::string> names;
  llvm::StringSet<> used;
};
} // namespace

void ArgumentNames::set(Value value, StringRef name) {
  BlockArgument argument = value ? getArgument(value, func) : BlockArgument();
  if (!argument || !names[argument.getArgNumber()].empty())
    return;
  std::string unique = name.str();
  for (unsigned i = 1; !used.insert(unique).second; ++i)
    unique = (name + Twine(i)).str();
  names[argument.getArgNumber()] = unique;
}

SmallVector<std::string> ArgumentNames::find() {
  for (unsigned i = 0, e = names.size(); i < e; ++i)
    if (auto name = func.getArgAttrOfType<StringAttr>(i, argNameAttrName)) {
      names[i] = name.str();
      used.insert(name);
    }
  for (DescribableOpInterface op : operations)
    for (const auto &[value, name] : op.getNamedOperands())
      set(value, name);
  for (BlockArgument argument : func.getArguments())
    set(argument, ("arg" + Twine(argument.getArgNumber())).str());
  return names;
}

/// Checks that a call can have an argument of the static sizes of `argument`:
/// the runtime refuses larger dimensions, and kernels count bytes with 64 bits.
static LogicalResult verifySizes(func::FuncOp func, BlockArgument argument) {
  constexpr int64_t maxSize = std::numeric_limits<int32_t>::max();
  auto type = cast<MemRefType>(argument.getType());
  Location loc =
      isa<UnknownLoc>(argument.getLoc()) ? func.getLoc() : argument.getLoc();
  auto emitTooLarge = [&] {
    return emitError(loc) << "argument #" << argument.getArgNumber()
                          << " of function '" << func.getName() << "' ";
  };
  int64_t bytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  bool isTooLarge = false;
  for (auto [dim, size] : llvm::enumerate(type.getShape())) {
    if (ShapedType::isDynamic(size))
      continue;
    if (size > maxSize)
      return emitTooLarge()
             << "has a size that no call can have: dimension " << dim
             << " must be at most " << maxSize << " (was " << size << ")";
    isTooLarge |= llvm::MulOverflow(bytes, size, bytes);
  }
  if (isTooLarge && !llvm::is_contained(type.getShape(), 0))
    return emitTooLarge() << "has more bytes than an address space (was "
                          << RankedTensorType::get(type.getShape(),
                                                   type.getElementType())
                          << ")";
  return success();
}

/// Checks that all arguments are tensors that calls can have, and that there
/// are no results.
static LogicalResult verifySignature(func::FuncOp func) {
  for (BlockArgument argument : func.getArguments()) {
    auto type = dyn_cast<MemRefType>(argument.getType());
    if (!type || !getRuntimeDType(type.getElementType()))
      return func.emitOpError("argument #")
             << argument.getArgNumber()
             << " of a public function must be a ranked tensor or memref of "
                "bf16, f16, f32, f64, i64, i32, i8 or i1 values (was "
             << argument.getType() << ")";
    if (failed(verifySizes(func, argument)))
      return failure();
  }
  if (func.getNumResults() != 0)
    return func.emitOpError("is public and must not have results once its "
                            "tensors are memrefs");
  return success();
}

namespace {
/// Numbers the dynamic sizes of arguments in their order. A class with a static
/// size has that size everywhere.
class SizeNumbers {
public:
  SizeNumbers(func::FuncOp func, SizeClasses &sizes)
      : func(func), sizes(sizes), builder(func.getContext()) {}

  /// The static size of a dimension, or the negative number of its symbol.
  int64_t getSize(ArgumentDim dim);
  ArrayRef<Attribute> getSymbols() const { return symbols; }

private:
  int64_t getOwnSize(ArgumentDim dim) {
    return cast<MemRefType>(func.getArgument(dim.first).getType())
        .getDimSize(dim.second);
  }
  void addSymbol(ArgumentDim dim);

  func::FuncOp func;
  SizeClasses &sizes;
  Builder builder;
  std::map<ArgumentDim, int64_t> numbers;
  SmallVector<Attribute> symbols;
  llvm::StringSet<> usedSymbols;
};
} // namespace

/// The operations of `func` that say what their operands need, attention first:
/// arguments have its names if they are operands of several.
static SmallVector<DescribableOpInterface> getDescribable(func::FuncOp func) {
  SmallVector<DescribableOpInterface> operations, others;
  func.walk([&](DescribableOpInterface op) {
    bool isAttention = isa<AttentionOpInterface>(op.getOperation());
    (isAttention ? operations : others).push_back(op);
  });
  llvm::append_range(operations, others);
  return operations;
}

void SizeNumbers::addSymbol(ArgumentDim dim) {
  auto given = sizes.names.find(dim);
  std::string name = given == sizes.names.end() ? "" : given->second;
  if (name.empty())
    name = ("size" + Twine(symbols.size())).str();
  std::string unique = name;
  for (unsigned i = 1; !usedSymbols.insert(unique).second; ++i)
    unique = (name + Twine(i)).str();
  symbols.push_back(builder.getStringAttr(unique));
}

int64_t SizeNumbers::getSize(ArgumentDim dim) {
  if (int64_t size = getOwnSize(dim); !ShapedType::isDynamic(size))
    return size;
  sizes.classes.insert(dim);
  ArgumentDim leader = sizes.classes.getLeaderValue(dim);
  for (auto it = sizes.classes.findLeader(dim);
       it != sizes.classes.member_end(); ++it)
    if (int64_t size = getOwnSize(*it); !ShapedType::isDynamic(size))
      return size;
  auto [it, isNew] = numbers.try_emplace(leader, -1 - int64_t(symbols.size()));
  if (isNew)
    addSymbol(dim);
  return it->second;
}

static LogicalResult describe(func::FuncOp func, int64_t stagedAlignment) {
  Builder builder(func.getContext());
  if (failed(verifySignature(func)))
    return failure();
  SizeClasses sizes;
  SmallVector<DescribableOpInterface> operations = getDescribable(func);
  llvm::SmallDenseSet<Value> staged;
  for (DescribableOpInterface op : operations) {
    uniteSizes(op, func, sizes);
    for (Value operand : op.getStagedOperands())
      staged.insert(getArgument(operand, func));
  }
  func.walk([&](linalg::LinalgOp op) { uniteSizes(op, func, sizes); });
  uniteNotedSizes(func, sizes);
  DerivedSizes derived(func, sizes);
  SizeNumbers numbers(func, sizes);

  SmallVector<std::string> names = ArgumentNames(func, operations).find();
  for (BlockArgument argument : func.getArguments()) {
    unsigned index = argument.getArgNumber();
    auto type = cast<MemRefType>(argument.getType());
    SmallVector<int64_t> dims;
    for (unsigned i = 0, e = type.getRank(); i < e; ++i)
      dims.push_back(numbers.getSize({index, i}));
    int64_t alignment = std::max<int64_t>(1, type.getElementTypeBitWidth() / 8);
    if (staged.contains(argument))
      alignment = std::max(alignment, stagedAlignment);
    func.setArgAttr(index, argNameAttrName,
                    builder.getStringAttr(names[index]));
    func.setArgAttr(index, argDimsAttrName, builder.getDenseI64ArrayAttr(dims));
    func.setArgAttr(index, argAlignmentAttrName,
                    builder.getI32IntegerAttr(alignment));
    if (mayBeWritten(argument))
      func.setArgAttr(index, argOutputAttrName, builder.getUnitAttr());
    if (mayBeRead(argument))
      func.setArgAttr(index, argReadAttrName, builder.getUnitAttr());
    derived.attachTo(func, index);
  }
  ArrayRef<Attribute> symbols = numbers.getSymbols();
  if (symbols.size() > ATTN_MAX_SYMBOLS)
    return func.emitError("function '")
           << func.getName() << "' has " << symbols.size()
           << " dynamic sizes, more than the " << ATTN_MAX_SYMBOLS
           << " that calls can check; make some of them static or equal";
  func->setAttr(symbolsAttrName, builder.getArrayAttr(symbols));
  return success();
}

/// Checks that `func` does not have a name of compiled code or of the runtime.
static LogicalResult verifyName(func::FuncOp func) {
  for (StringRef prefix : {"attnrt", "attn_"})
    if (!func.isExternal() && func.getName().starts_with(prefix))
      return func.emitError("function '")
             << func.getName() << "' must not have a name that begins with '"
             << prefix << "', as those of the runtime do";
  return success();
}

namespace {
struct AttnDescribeArgumentsPass
    : public attn::impl::AttnDescribeArgumentsPassBase<
          AttnDescribeArgumentsPass> {
  using Base::Base;

  void runOnOperation() override {
    // The alignment of an unknown target would be a guess.
    if (!target.empty() && failed(lookupTarget(getOperation(), target)))
      return signalPassFailure();
    for (auto func :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (failed(verifyName(func)))
        return signalPassFailure();
      if (!func.isPublic() || func.isExternal())
        continue;
      if (failed(describe(func, stagedAlignment)))
        return signalPassFailure();
      createFlopCount(func);
    }
  }
};
} // namespace
