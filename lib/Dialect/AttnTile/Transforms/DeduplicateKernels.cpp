//===- DeduplicateKernels.cpp - One kernel for equal ones -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Removes kernels that are equal to an earlier one but for names and locations.
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/AttnTile/IR/AttnTileOps.h"
#include "attn/Dialect/AttnTile/Transforms/Passes.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/Support/DebugLog.h"

namespace mlir::attn_tile {
#define GEN_PASS_DEF_ATTNTILEDEDUPLICATEKERNELSPASS
#include "attn/Dialect/AttnTile/Transforms/Passes.h.inc"
} // namespace mlir::attn_tile

#define DEBUG_TYPE "attn-tile-deduplicate-kernels"

using namespace mlir;
using namespace mlir::attn_tile;

/// The attributes of `kernel` without its name.
static DictionaryAttr getUnnamedAttributes(KernelOp kernel) {
  NamedAttrList attributes(kernel->getAttrDictionary());
  attributes.erase(kernel.getSymNameAttrName());
  return attributes.getDictionary(kernel.getContext());
}

/// A hash of all that equal kernels have in common, without their operands.
static llvm::hash_code hashKernel(KernelOp kernel) {
  llvm::hash_code hash = hash_value(getUnnamedAttributes(kernel));
  kernel.getBody().walk([&](Operation *op) {
    hash =
        llvm::hash_combine(hash, OperationEquivalence::computeHash(
                                     op, OperationEquivalence::ignoreHashValue,
                                     OperationEquivalence::ignoreHashValue,
                                     OperationEquivalence::IgnoreLocations));
  });
  return hash;
}

static bool areEqual(KernelOp lhs, KernelOp rhs) {
  return getUnnamedAttributes(lhs) == getUnnamedAttributes(rhs) &&
         OperationEquivalence::isRegionEquivalentTo(
             &lhs.getBody(), &rhs.getBody(),
             OperationEquivalence::IgnoreLocations);
}

namespace {
struct AttnTileDeduplicateKernelsPass
    : public attn_tile::impl::AttnTileDeduplicateKernelsPassBase<
          AttnTileDeduplicateKernelsPass> {
  using Base::Base;

  void runOnOperation() override {
    SymbolTableCollection symbols;
    SymbolUserMap users(symbols, getOperation());
    llvm::DenseMap<size_t, SmallVector<KernelOp>> kept;
    for (auto kernel :
         llvm::make_early_inc_range(getOperation().getOps<KernelOp>())) {
      SmallVector<KernelOp> &sameHash = kept[hashKernel(kernel)];
      auto *original = llvm::find_if(
          sameHash, [&](KernelOp other) { return areEqual(kernel, other); });
      if (original == sameHash.end())
        sameHash.push_back(kernel);
      else if (llvm::all_of(users.getUsers(kernel), llvm::IsaPred<LaunchOp>))
        replace(kernel, *original, users);
    }
  }

private:
  void replace(KernelOp kernel, KernelOp original, SymbolUserMap &users) {
    LDBG() << kernel.getName() << " equals " << original.getName();
    users.replaceAllUsesWith(kernel, original.getSymNameAttr());
    kernel.erase();
    ++numDuplicates;
  }
};
} // namespace
