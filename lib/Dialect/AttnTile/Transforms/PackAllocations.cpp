//===- PackAllocations.cpp - Reuse the memory of dead buffers -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Buffers of static size that are not live at the same time share the bytes of
// one allocation. Buffers of dynamic size share allocations with buffers of the
// same size. Offsets are found greedily: the largest buffer first, each at the
// lowest offset where it overlaps no buffer that is live at the same time
// (Pisarchyk and Lee 2020, "Efficient memory management for deep neural net
// inference", "greedy by size for offset calculation").
//
//===----------------------------------------------------------------------===//

#include "Allocations.h"
#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/DebugLog.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILEPACKALLOCATIONSPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

#define DEBUG_TYPE "attn-tile-pack-allocations"

using namespace mlir;
using namespace mlir::attn_tile;

namespace {
/// A buffer, and the range of operations of its block that use it.
struct Buffer {
  memref::AllocOp alloc;
  memref::DeallocOp dealloc;
  /// The size, if it is static.
  std::optional<int64_t> bytes;
  /// The numbers of the first and of the last operation.
  int64_t first = 0, last = 0;
  int64_t offset = 0;

  bool isNeededWith(const Buffer &other) const {
    return first <= other.last && other.first <= last;
  }
};

/// Finds the buffers of one block whose uses are known.
class BlockBuffers {
public:
  explicit BlockBuffers(Block &block) : block(block) {
    for (auto [number, op] : llvm::enumerate(block))
      numbers[&op] = static_cast<int64_t>(number);
  }

  SmallVector<Buffer> find();

private:
  std::optional<Buffer> find(memref::AllocOp alloc);
  LogicalResult addUse(Buffer &buffer, Value view, Operation *user);

  Block &block;
  DenseMap<Operation *, int64_t> numbers;
};
} // namespace

/// The size in bytes of a buffer of static size that can be a part of another
/// allocation.
static std::optional<int64_t> getBytes(memref::AllocOp alloc) {
  std::optional<int64_t> element = getPackedElementBytes(alloc);
  if (!element || !alloc.getType().hasStaticShape())
    return std::nullopt;
  return alloc.getType().getNumElements() * *element;
}

/// Whether a value of `type` can refer to a buffer.
static bool mayBeView(Type type) {
  return !type.isIntOrIndexOrFloat() && !isa<VectorType>(type);
}

/// Whether `op` passes an operand on in a way that the analysis does not
/// follow: to the end of a block, to the beginning of one, or as a number.
static bool isNotFollowed(Operation *op) {
  return op->hasTrait<OpTrait::IsTerminator>() ||
         isa<memref::ExtractAlignedPointerAsIndexOp>(op) ||
         llvm::any_of(op->getRegions(), [](Region &region) {
           return llvm::any_of(region.getArgumentTypes(), mayBeView);
         });
}

/// Notes a use of `view`, which may be a view of `buffer`. Fails if the use is
/// not followed.
LogicalResult BlockBuffers::addUse(Buffer &buffer, Value view,
                                   Operation *user) {
  if (auto dealloc = dyn_cast<memref::DeallocOp>(user)) {
    if (buffer.dealloc || view != buffer.alloc || user->getBlock() != &block)
      return failure();
    buffer.dealloc = dealloc;
    return success();
  }
  Operation *ancestor = block.findAncestorOpInBlock(*user);
  if (!ancestor || isNotFollowed(user))
    return failure();
  // Operations that only create views do not access the memory.
  if (isMemoryEffectFree(user))
    return success();
  int64_t number = numbers.lookup(ancestor);
  buffer.first = std::min(buffer.first, number);
  buffer.last = std::max(buffer.last, number);
  return success();
}

std::optional<Buffer> BlockBuffers::find(memref::AllocOp alloc) {
  Buffer buffer;
  buffer.alloc = alloc;
  if (std::optional<int64_t> bytes = getBytes(alloc))
    buffer.bytes = llvm::alignTo(*bytes, partAlignment);
  buffer.first = std::numeric_limits<int64_t>::max();
  buffer.last = -1;
  // The buffer, and all that may be views of it.
  llvm::SetVector<Value> views;
  views.insert(alloc);
  for (size_t i = 0; i < views.size(); ++i) {
    for (Operation *user : views[i].getUsers()) {
      if (failed(addUse(buffer, views[i], user)))
        return std::nullopt;
      for (Value result : user->getResults())
        if (mayBeView(result.getType()))
          views.insert(result);
    }
  }
  if (!buffer.dealloc || buffer.last < 0 ||
      numbers.lookup(buffer.dealloc) < buffer.last)
    return std::nullopt;
  return buffer;
}

SmallVector<Buffer> BlockBuffers::find() {
  SmallVector<Buffer> buffers;
  for (auto alloc : block.getOps<memref::AllocOp>())
    if (std::optional<Buffer> buffer = find(alloc))
      buffers.push_back(*buffer);
  return buffers;
}

/// Finds the offsets of `buffers`. Returns the bytes of the allocation that
/// holds all of them.
static int64_t findOffsets(MutableArrayRef<Buffer> buffers) {
  SmallVector<Buffer *> bySize =
      llvm::map_to_vector(buffers, [](Buffer &buffer) { return &buffer; });
  llvm::sort(bySize, [](const Buffer *lhs, const Buffer *rhs) {
    return std::make_pair(-*lhs->bytes, lhs) <
           std::make_pair(-*rhs->bytes, rhs);
  });
  SmallVector<Buffer *> byOffset;
  int64_t total = 0;
  for (Buffer *buffer : bySize) {
    int64_t offset = 0;
    for (const Buffer *other : byOffset) {
      if (!buffer->isNeededWith(*other))
        continue;
      if (other->offset - offset >= *buffer->bytes)
        break;
      offset = std::max(offset, other->offset + *other->bytes);
    }
    buffer->offset = offset;
    total = std::max(total, offset + *buffer->bytes);
    byOffset.insert(llvm::upper_bound(byOffset, buffer,
                                      [](const Buffer *lhs, const Buffer *rhs) {
                                        return lhs->offset < rhs->offset;
                                      }),
                    buffer);
  }
  return total;
}

/// The last operation that frees one of `buffers`.
static memref::DeallocOp getLastDealloc(ArrayRef<Buffer> buffers) {
  memref::DeallocOp last = buffers.front().dealloc;
  for (Buffer buffer : buffers.drop_front())
    if (last->isBeforeInBlock(buffer.dealloc))
      last = buffer.dealloc;
  return last;
}

/// Makes `buffers`, in the order of their allocations, parts of one allocation
/// of `bytes`.
static void pack(ArrayRef<Buffer> buffers, int64_t bytes) {
  memref::AllocOp first = Buffer(buffers.front()).alloc;
  memref::DeallocOp last = getLastDealloc(buffers);
  OpBuilder builder(first);
  auto type = MemRefType::get({bytes}, builder.getI8Type());
  auto all = memref::AllocOp::create(builder, first.getLoc(), type,
                                     builder.getI64IntegerAttr(partAlignment));
  builder.setInsertionPoint(last);
  memref::DeallocOp::create(builder, last.getLoc(), all);
  for (Buffer buffer : buffers) {
    builder.setInsertionPoint(buffer.alloc);
    Location loc = buffer.alloc.getLoc();
    Value offset = arith::ConstantIndexOp::create(builder, loc, buffer.offset);
    buffer.dealloc.erase();
    auto view = memref::ViewOp::create(builder, loc, buffer.alloc.getType(),
                                       all, offset, ValueRange());
    buffer.alloc.replaceAllUsesWith(view.getResult());
    buffer.alloc.erase();
  }
}

/// Whether the allocations are of the same type, size and alignment.
static bool areEqual(memref::AllocOp lhs, memref::AllocOp rhs) {
  return lhs.getType() == rhs.getType() &&
         lhs->getOperands() == rhs->getOperands() &&
         lhs->getAttrDictionary() == rhs->getAttrDictionary();
}

/// Replaces `buffers`, in the order of their allocations, by the first one.
static void merge(ArrayRef<Buffer> buffers) {
  memref::AllocOp first = Buffer(buffers.front()).alloc;
  memref::DeallocOp last = getLastDealloc(buffers);
  for (Buffer buffer : buffers) {
    if (buffer.dealloc != last)
      buffer.dealloc.erase();
    if (buffer.alloc == first)
      continue;
    buffer.alloc.replaceAllUsesWith(first.getResult());
    buffer.alloc.erase();
  }
}

/// Divides `buffers` of one size into as few groups as possible, where no two
/// buffers of a group are live at the same time.
static SmallVector<SmallVector<Buffer>>
groupBuffers(SmallVector<Buffer> buffers) {
  llvm::sort(buffers, [](const Buffer &lhs, const Buffer &rhs) {
    return std::make_pair(lhs.first, lhs.last) <
           std::make_pair(rhs.first, rhs.last);
  });
  SmallVector<SmallVector<Buffer>> groups;
  for (const Buffer &buffer : buffers) {
    auto isFree = [&](const SmallVector<Buffer> &group) {
      return !group.back().isNeededWith(buffer);
    };
    auto *group = llvm::find_if(groups, isFree);
    if (group == groups.end())
      groups.push_back({buffer});
    else
      group->push_back(buffer);
  }
  return groups;
}

namespace {
struct AttnTilePackAllocationsPass
    : public attn_tile::impl::AttnTilePackAllocationsPassBase<
          AttnTilePackAllocationsPass> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    // Forked streams run in an order of their own.
    if (func.walk([](ForkStreamOp) { return WalkResult::interrupt(); })
            .wasInterrupted()) {
      LDBG() << "buffers of forked streams stay apart in " << func.getName();
      return;
    }
    func.walk([&](Block *block) { packBlock(*block); });
  }

private:
  void packBlock(Block &block) {
    SmallVector<Buffer> known;
    SmallVector<SmallVector<Buffer>> classes;
    for (Buffer &buffer : BlockBuffers(block).find()) {
      if (buffer.bytes) {
        known.push_back(buffer);
        continue;
      }
      auto *equal = llvm::find_if(classes, [&](ArrayRef<Buffer> buffers) {
        return areEqual(buffers.front().alloc, buffer.alloc);
      });
      if (equal == classes.end())
        classes.push_back({buffer});
      else
        equal->push_back(buffer);
    }
    packKnown(known);
    for (const SmallVector<Buffer> &buffers : classes)
      mergeEqual(buffers);
  }

  void packKnown(MutableArrayRef<Buffer> buffers) {
    int64_t apart = 0;
    for (const Buffer &buffer : buffers)
      apart += *buffer.bytes;
    int64_t together = findOffsets(buffers);
    if (together == apart) {
      LDBG() << buffers.size() << " buffers are needed at the same time";
      return;
    }
    numPacked += buffers.size();
    report() << (Twine(buffers.size()) + " buffers take " + Twine(together) +
                 " bytes instead of " + Twine(apart))
                    .str();
    pack(buffers, together);
  }

  void mergeEqual(const SmallVector<Buffer> &buffers) {
    SmallVector<SmallVector<Buffer>> groups = groupBuffers(buffers);
    if (groups.size() == buffers.size())
      return;
    numPacked += buffers.size();
    report() << (Twine(buffers.size()) + " buffers of equal size take " +
                 Twine(groups.size()) + " allocations")
                    .str();
    for (SmallVector<Buffer> &group : groups) {
      llvm::sort(group, [](Buffer lhs, Buffer rhs) {
        return lhs.alloc->isBeforeInBlock(rhs.alloc);
      });
      merge(group);
    }
  }

  remark::detail::InFlightRemark report() {
    return remark::passed(getOperation().getLoc(),
                          remark::RemarkOpts::name("PackAllocations")
                              .category("attn-tile-pack-allocations")
                              .function(getOperation().getSymName()));
  }
};
} // namespace
