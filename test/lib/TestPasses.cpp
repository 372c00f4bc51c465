//===- TestPasses.cpp - Passes that test interfaces -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes that check the contracts of interfaces: code that an attribute emits
// computes what the attribute says of constants. Others break a contract, so
// that its check reports them.
//
//===----------------------------------------------------------------------===//

#include "TestAttn.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "attn/Dialect/AttnTile/Transforms/KernelPhase.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/bit.h"

#include <array>
#include <set>

using namespace mlir;

namespace {
/// A block of constants, and of code that is folded.
class FoldedCode {
public:
  explicit FoldedCode(MLIRContext *context)
      : builder(context), loc(UnknownLoc::get(context)) {
    builder.setInsertionPointToEnd(&block);
  }

  Value createIndex(int64_t value) {
    return arith::ConstantIndexOp::create(builder, loc, value);
  }
  Value createWord(uint32_t value) {
    return arith::ConstantIntOp::create(builder, loc,
                                        llvm::bit_cast<int32_t>(value), 32);
  }

  /// Folds all operations, and returns the integer that `value` is, if it is a
  /// constant.
  std::optional<APInt> fold(Value value) {
    DenseMap<Value, Attribute> known;
    for (Operation &op : block) {
      SmallVector<Attribute> operands = llvm::map_to_vector(
          op.getOperands(), [&](Value operand) { return known[operand]; });
      SmallVector<OpFoldResult> results;
      if (failed(op.fold(operands, results)))
        continue;
      for (auto [result, folded] : llvm::zip(op.getResults(), results))
        if (auto attribute = dyn_cast<Attribute>(folded))
          known[result] = attribute;
        else
          known[result] = known[cast<Value>(folded)];
    }
    auto integer = dyn_cast_if_present<IntegerAttr>(known[value]);
    return integer ? std::optional(integer.getValue()) : std::nullopt;
  }

  Block block;
  OpBuilder builder;
  Location loc;
};

/// Checks that `emitPredicate` of a mask agrees with `isAttended`.
struct CheckMasksPass
    : public PassWrapper<CheckMasksPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CheckMasksPass)

  StringRef getArgument() const final { return "test-attn-check-masks"; }
  StringRef getDescription() const final {
    return "check that code of masks agrees with their constants";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect>();
  }

  void runOnOperation() override {
    getOperation().walk([&](attn::AttentionOp op) {
      if (attn::MaskAttrInterface mask = op.getMaskAttr())
        check(op, mask);
    });
  }

private:
  void check(attn::AttentionOp op, attn::MaskAttrInterface mask) {
    auto [queries, keys] = op.getStaticLengths();
    int64_t attended = 0;
    for (int64_t query = 0; query < queries; ++query)
      for (int64_t key = 0; key < keys; ++key) {
        bool expected = mask.isAttended(query, key, queries, keys);
        attended += expected;
        FoldedCode code(&getContext());
        attn::MaskPosition at;
        at.batch = at.head = code.createIndex(0);
        at.query = code.createIndex(query);
        at.key = code.createIndex(key);
        at.queryLength = code.createIndex(queries);
        at.keyLength = code.createIndex(keys);
        std::optional<APInt> folded =
            code.fold(mask.emitPredicate(code.builder, code.loc, at));
        if (!folded || folded->isOne() != expected) {
          op.emitError() << "code of mask '" << mask << "' differs at query "
                         << query << " and key " << key << " (expected "
                         << expected << ")";
          return signalPassFailure();
        }
      }
    op.emitRemark() << "mask '" << mask << "' keeps " << attended
                    << " pairs, in code and in constants";
  }
};

/// Checks that `emitBlock` of a random number generator agrees with
/// `computeBlock`, and that different counters give different blocks.
struct CheckRngPass
    : public PassWrapper<CheckRngPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CheckRngPass)

  StringRef getArgument() const final { return "test-attn-check-rng"; }
  StringRef getDescription() const final {
    return "check that code of random number generators agrees with their "
           "constants";
  }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<arith::ArithDialect>();
  }

  void runOnOperation() override {
    getOperation().walk([&](attn::AttentionOp op) {
      if (attn::DropoutAttr dropout = op.getDropoutAttr())
        check(op, dropout.getRng());
    });
  }

private:
  void check(attn::AttentionOp op, attn::RngAttrInterface rng) {
    attn::RngKey<uint32_t> key = {0x01234567u, 0x89abcdefu};
    std::set<std::array<uint32_t, 4>> blocks;
    for (uint32_t number = 0; number < 64; ++number) {
      attn::RngBlock<uint32_t> counter = {number, 0xffffffffu - number, 1u, 0u};
      attn::RngBlock<uint32_t> expected = rng.computeBlock(key, counter);
      FoldedCode code(&getContext());
      attn::RngKey<Value> emittedKey;
      for (auto [value, word] : llvm::zip_equal(emittedKey, key))
        value = code.createWord(word);
      attn::RngBlock<Value> emittedCounter;
      for (auto [value, word] : llvm::zip_equal(emittedCounter, counter))
        value = code.createWord(word);
      attn::RngBlock<Value> block =
          rng.emitBlock(code.builder, code.loc, emittedKey, emittedCounter);
      for (auto [value, word] : llvm::zip_equal(block, expected)) {
        std::optional<APInt> folded = code.fold(value);
        if (!folded || folded->getZExtValue() != word) {
          op.emitError() << "code of '" << rng << "' differs at counter "
                         << number << " (expected " << word << ")";
          return signalPassFailure();
        }
      }
      blocks.insert(expected);
    }
    op.emitRemark() << "'" << rng << "' gives " << blocks.size()
                    << " blocks, in code and in constants";
  }
};

template <typename Derived>
using KernelPassBase = PassWrapper<Derived, OperationPass<attn_tile::KernelOp>>;

/// Says that it leaves staged kernels, and leaves specialized ones.
struct SkipPhasePass
    : public attn_tile::KernelPass<SkipPhasePass, KernelPassBase> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SkipPhasePass)

  static constexpr attn_tile::PhaseContract phases{
      attn_tile::KernelPhase::Plain, attn_tile::KernelPhase::Plain,
      attn_tile::KernelPhase::Staged};

  StringRef getArgument() const final { return "test-attn-tile-skip-phase"; }
  StringRef getDescription() const final {
    return "give a kernel a layout, but say that it has pipes";
  }

  void runOnKernel() {
    getOperation().setLayoutAttr(
        attn_tile::RowBlockLayoutAttr::get(&getContext(), /*warps=*/4));
  }
};
} // namespace

void test_attn::registerTestPasses() {
  PassRegistration<CheckMasksPass>();
  PassRegistration<CheckRngPass>();
  PassRegistration<SkipPhasePass>();
}
