//===- DerivationTest.cpp - Axes that are grouped and streamed ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks which axes of chains can be cut, and compares tiles with published
// ones and with closed forms.
//
//===----------------------------------------------------------------------===//

#include "attn/PerfModel/Derivation.h"
#include "attn/Dialect/Attn/IR/AttnDialect.h"
#include "attn/PerfModel/CostOpInterfaceImpl.h"
#include "attn/PerfModel/StreamableOpInterfaceImpl.h"
#include "attn/Scheduling/ScheduleFamily.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <cmath>
#include <cstdlib>

using namespace mlir;
using namespace mlir::attn;

/// What two warpgroups of consumers have on Hopper.
static TileCapacities getHopperCapacities() {
  registerAllTargets();
  return *ScheduleFamily::get(*lookupTarget("sm_90a"))
              .getTileCapacities(*getKnownDevice("h200"));
}

namespace {
class DerivationTest : public ::testing::Test {
protected:
  DerivationTest() {
    DialectRegistry registry;
    registry.insert<AttnDialect, arith::ArithDialect, func::FuncDialect,
                    linalg::LinalgDialect, math::MathDialect,
                    tensor::TensorDialect>();
    registerCostOpInterfaceExternalModels(registry);
    registerStreamableOpInterfaceExternalModels(registry);
    context.appendDialectRegistry(registry);
  }

  /// The chains of the only function of `text`.
  std::vector<OpChain> parse(const Twine &text) {
    module = parseSourceString<ModuleOp>(text.str(), &context);
    EXPECT_TRUE(module);
    if (!module)
      return {};
    return findChains((*module->getOps<func::FuncOp>().begin()).getBody());
  }

  /// Two matmuls of 2048 rows, with `between` making `%p` of `%s`.
  std::vector<OpChain> parseChain(const Twine &between) {
    return parse(R"(
      #full = affine_map<(i, j) -> (i, j)>
      #row = affine_map<(i, j) -> (i)>
      func.func @f(%q: tensor<2048x128xbf16>, %k: tensor<128x4096xbf16>,
                   %v: tensor<4096x128xbf16>, %s0: tensor<2048x4096xbf16>,
                   %r0: tensor<2048xbf16>, %o0: tensor<2048x128xbf16>)
          -> tensor<2048x128xbf16> {
        %zero = arith.constant 0.0 : bf16
        %si = linalg.fill ins(%zero : bf16)
            outs(%s0 : tensor<2048x4096xbf16>) -> tensor<2048x4096xbf16>
        %oi = linalg.fill ins(%zero : bf16)
            outs(%o0 : tensor<2048x128xbf16>) -> tensor<2048x128xbf16>
        %s = linalg.matmul
            ins(%q, %k : tensor<2048x128xbf16>, tensor<128x4096xbf16>)
            outs(%si : tensor<2048x4096xbf16>) -> tensor<2048x4096xbf16>
)" + between + R"(
        %o = linalg.matmul
            ins(%p, %v : tensor<2048x4096xbf16>, tensor<4096x128xbf16>)
            outs(%oi : tensor<2048x128xbf16>) -> tensor<2048x128xbf16>
        return %o : tensor<2048x128xbf16>
      })");
  }

  std::vector<OpChain> parseAttention(int64_t headDim, int64_t length,
                                      const Twine &mask = "") {
    std::string heads = ("1x32x" + Twine(length) + "x" + Twine(headDim)).str();
    return parse("func.func @f(%q: tensor<" + heads + "xbf16>) -> tensor<" +
                 heads +
                 "xbf16> { %o = attn.attention ins(%q, %q, %q : tensor<" +
                 heads + "xbf16>, tensor<" + heads + "xbf16>, tensor<" + heads +
                 "xbf16>) outs(%q : tensor<" + heads + "xbf16>) " + mask +
                 " -> tensor<" + heads + "xbf16> return %o : tensor<" + heads +
                 "xbf16> }");
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

/// Axes of `parseChain`.
enum Axis : unsigned { Query, Key, HeadDim, VHeadDim };
} // namespace

static constexpr StringLiteral exponential = R"(
        %p = linalg.generic {indexing_maps = [#full, #full],
              iterator_types = ["parallel", "parallel"]}
            ins(%s : tensor<2048x4096xbf16>)
            outs(%s0 : tensor<2048x4096xbf16>) {
          ^bb0(%x: bf16, %init: bf16):
            %y = math.exp %x : bf16
            linalg.yield %y : bf16
        } -> tensor<2048x4096xbf16>)";

/// A reduction of the rows of `%s` to `%r` by `combiner`.
static std::string reduce(StringRef combiner) {
  return (R"(
        %r = linalg.generic {indexing_maps = [#full, #row],
              iterator_types = ["parallel", "reduction"]}
            ins(%s : tensor<2048x4096xbf16>) outs(%r0 : tensor<2048xbf16>) {
          ^bb0(%x: bf16, %acc: bf16):
            %y = )" +
          combiner + R"( %acc, %x : bf16
            linalg.yield %y : bf16
        } -> tensor<2048xbf16>)")
      .str();
}

/// `%p` of `%s` and `%r`.
static std::string combine(StringRef function) {
  return (R"(
        %p = linalg.generic {indexing_maps = [#full, #row, #full],
              iterator_types = ["parallel", "parallel"]}
            ins(%s, %r : tensor<2048x4096xbf16>, tensor<2048xbf16>)
            outs(%s0 : tensor<2048x4096xbf16>) {
          ^bb0(%x: bf16, %m: bf16, %init: bf16):
            %d = arith.subf %x, %m : bf16
            %y = )" +
          function + R"( %d : bf16
            linalg.yield %y : bf16
        } -> tensor<2048x4096xbf16>)")
      .str();
}

static std::string getText(const std::optional<AxisObstacle> &obstacle) {
  if (!obstacle)
    return "";
  return (obstacle->op->getName().getStringRef() + " " + obstacle->reason)
      .str();
}

namespace {
//===----------------------------------------------------------------------===//
// Legality
//===----------------------------------------------------------------------===//

// What is computed for each element passes by with the keys.
TEST_F(DerivationTest, ElementsAreStreamed) {
  std::vector<OpChain> chains = parseChain(exponential);
  ASSERT_EQ(chains.size(), 1u);
  const OpChain &chain = chains.front();
  ASSERT_EQ(chain.getOps().size(), 3u);
  ASSERT_EQ(chain.getAxes().size(), 4u);
  EXPECT_EQ(chain.getAxes()[Key].size, 4096);
  EXPECT_EQ(getText(chain.whyNotDistribute(Query)), "");
  EXPECT_EQ(getText(chain.whyNotStream(Query)),
            "linalg.matmul accumulates nothing along the axis");
  EXPECT_EQ(getText(chain.whyNotStream(Key)), "");
  EXPECT_EQ(chain.getMerge(Key), "arith.addf");
  EXPECT_EQ(getText(chain.whyNotDistribute(Key)),
            "linalg.matmul accumulates along the axis");
  // CTAs that share the columns of the result would repeat the scores.
  std::optional<AxisObstacle> obstacle = chain.whyNotDistribute(VHeadDim);
  EXPECT_EQ(getText(obstacle), "linalg.matmul would be repeated by each CTA");
  EXPECT_EQ(obstacle->op, chain.getOps().front());
}

// A softmax needs all of its row, unless it is in the online form.
TEST_F(DerivationTest, SoftmaxIsRefused) {
  std::vector<OpChain> chains = parseChain(
      "%p = linalg.softmax dimension(1) ins(%s : tensor<2048x4096xbf16>) "
      "outs(%s0 : tensor<2048x4096xbf16>) -> tensor<2048x4096xbf16>");
  ASSERT_EQ(chains.size(), 1u);
  const OpChain &chain = chains.front();
  EXPECT_EQ(getText(chain.whyNotStream(Key)),
            "linalg.softmax has no head, body and merge along it (missing "
            "lemma 'online softmax: merge of (max, sum, accumulator)')");
  EXPECT_EQ(chain.whyNotStream(Key)->op, chain.getOps()[1]);
  EXPECT_EQ(getText(chain.whyNotDistribute(Query)), "");
  // Along the other axis rows are independent.
  chains = parseChain(
      "%p = linalg.softmax dimension(0) ins(%s : tensor<2048x4096xbf16>) "
      "outs(%s0 : tensor<2048x4096xbf16>) -> tensor<2048x4096xbf16>");
  EXPECT_EQ(getText(chains.front().whyNotStream(Key)), "");
  EXPECT_TRUE(chains.front().whyNotDistribute(Query));

  chains = parseAttention(128, 4096);
  ASSERT_EQ(chains.size(), 1u);
  const OpChain &online = chains.front();
  for (auto [number, axis] : llvm::enumerate(online.getAxes())) {
    bool isDistributed =
        axis.name == "batch" || axis.name == "head" || axis.name == "query";
    EXPECT_EQ(!online.whyNotDistribute(number), isDistributed) << axis.name;
    EXPECT_EQ(!online.whyNotStream(number), axis.name == "key") << axis.name;
    if (axis.name == "key") {
      EXPECT_EQ(online.getMerge(number), onlineSoftmaxLemma);
    }
  }
}

// Values that are known after the last piece cannot be used with the first one.
TEST_F(DerivationTest, SecondPassesAreRefused) {
  std::vector<OpChain> chains =
      parseChain(reduce("arith.maximumf") + combine("math.exp"));
  ASSERT_EQ(chains.size(), 1u);
  const OpChain &softmax = chains.front();
  ASSERT_EQ(softmax.getOps().size(), 4u);
  std::optional<AxisObstacle> obstacle = softmax.whyNotStream(Key);
  ASSERT_TRUE(obstacle);
  EXPECT_EQ(obstacle->op, softmax.getOps()[2]);
  EXPECT_EQ(obstacle->reason,
            "reads, together with a piece, a result that is complete after the "
            "last one "
            "(missing lemma 'online softmax: merge of (max, sum, "
            "accumulator)')");
  // There is no such lemma for other functions.
  chains = parseChain(reduce("arith.addf") + combine("math.exp"));
  EXPECT_EQ(chains.front().whyNotStream(Key)->reason,
            "reads, together with a piece, a result that is complete after the "
            "last one");
  chains = parseChain(reduce("arith.maximumf") + combine("math.sqrt"));
  EXPECT_EQ(chains.front().whyNotStream(Key)->reason,
            "reads, together with a piece, a result that is complete after the "
            "last one");
}

// Partial results of other operations do not merge.
TEST_F(DerivationTest, CombinersMustBeAssociative) {
  std::vector<OpChain> chains =
      parseChain(reduce("arith.subf") + combine("math.exp"));
  std::optional<AxisObstacle> obstacle = chains.front().whyNotStream(Key);
  EXPECT_EQ(getText(obstacle),
            "linalg.generic does not accumulate by one associative operation");
  EXPECT_EQ(obstacle->op, chains.front().getOps()[1]);
}

// Each row of `x x^T` needs all rows.
TEST_F(DerivationTest, MatmulsOfATensorWithItselfPairPieces) {
  std::vector<OpChain> chains = parse(R"(
      func.func @f(%a: tensor<512x64xbf16>, %w: tensor<64x128xbf16>,
                   %x0: tensor<512x128xbf16>, %o: tensor<512x512xbf16>)
          -> tensor<512x512xbf16> {
        %x = linalg.matmul
            ins(%a, %w : tensor<512x64xbf16>, tensor<64x128xbf16>)
            outs(%x0 : tensor<512x128xbf16>) -> tensor<512x128xbf16>
        %p = linalg.matmul
            indexing_maps = [affine_map<(i, j, k) -> (i, k)>,
                             affine_map<(i, j, k) -> (j, k)>,
                             affine_map<(i, j, k) -> (i, j)>]
            ins(%x, %x : tensor<512x128xbf16>, tensor<512x128xbf16>)
            outs(%o : tensor<512x512xbf16>) -> tensor<512x512xbf16>
        return %p : tensor<512x512xbf16>
      })");
  ASSERT_EQ(chains.size(), 1u);
  std::optional<AxisObstacle> obstacle = chains.front().whyNotDistribute(0);
  EXPECT_EQ(getText(obstacle),
            "linalg.matmul pairs each piece with all others");
  EXPECT_EQ(obstacle->op, chains.front().getOps()[1]);
  EXPECT_TRUE(chains.front().whyNotStream(0));
}

// What reads neighbours along an axis has to wait for all of it.
TEST_F(DerivationTest, WindowsReadAllPieces) {
  std::vector<OpChain> chains = parse(R"(
      func.func @f(%a: tensor<512x64xbf16>, %b: tensor<64x514xbf16>,
                   %w: tensor<3xbf16>, %v: tensor<512x64xbf16>,
                   %s0: tensor<512x514xbf16>, %t: tensor<512x512xbf16>,
                   %o0: tensor<512x64xbf16>) -> tensor<512x64xbf16> {
        %s = linalg.matmul
            ins(%a, %b : tensor<512x64xbf16>, tensor<64x514xbf16>)
            outs(%s0 : tensor<512x514xbf16>) -> tensor<512x514xbf16>
        %u = linalg.generic {indexing_maps = [
                affine_map<(i, j, k) -> (i, j + k)>,
                affine_map<(i, j, k) -> (k)>, affine_map<(i, j, k) -> (i, j)>],
              iterator_types = ["parallel", "parallel", "reduction"]}
            ins(%s, %w : tensor<512x514xbf16>, tensor<3xbf16>)
            outs(%t : tensor<512x512xbf16>) {
          ^bb0(%x: bf16, %f: bf16, %acc: bf16):
            %y = arith.addf %acc, %x : bf16
            linalg.yield %y : bf16
        } -> tensor<512x512xbf16>
        %o = linalg.matmul
            ins(%u, %v : tensor<512x512xbf16>, tensor<512x64xbf16>)
            outs(%o0 : tensor<512x64xbf16>) -> tensor<512x64xbf16>
        return %o : tensor<512x64xbf16>
      })");
  ASSERT_EQ(chains.size(), 1u);
  const OpChain &chain = chains.front();
  // Rows, columns of the first matmul, its depth, columns of the window, the
  // window, and columns of the result.
  ASSERT_EQ(chain.getAxes().size(), 6u);
  EXPECT_EQ(getText(chain.whyNotDistribute(0)), "");
  EXPECT_EQ(getText(chain.whyNotDistribute(1)),
            "linalg.generic would be repeated by each CTA");
  EXPECT_EQ(getText(chain.whyNotStream(1)),
            "linalg.matmul accumulates nothing along the axis");
  // The columns of the window are known once it has been seen.
  EXPECT_EQ(getText(chain.whyNotStream(2)), "");
  EXPECT_EQ(getText(chain.whyNotStream(3)), "");
  EXPECT_EQ(getText(chain.whyNotStream(4)), "");
}

// What comes back to a chain by way of other operations is not its own.
TEST_F(DerivationTest, ChainsAreClosed) {
  constexpr StringLiteral spread = R"(
        %p = linalg.generic {indexing_maps = [#full,
                affine_map<(i, j) -> (i, 0)>, #full],
              iterator_types = ["parallel", "parallel"]}
            ins(%s, %c : tensor<2048x4096xbf16>, tensor<2048x1xbf16>)
            outs(%s0 : tensor<2048x4096xbf16>) {
          ^bb0(%x: bf16, %m: bf16, %init: bf16):
            %y = arith.subf %x, %m : bf16
            linalg.yield %y : bf16
        } -> tensor<2048x4096xbf16>)";
  // A column of the scores needs them, unless it is given.
  EXPECT_TRUE(parseChain(R"(
        %c = tensor.extract_slice %s[0, 0] [2048, 1] [1, 1]
            : tensor<2048x4096xbf16> to tensor<2048x1xbf16>)" +
                         spread)
                  .empty());
  EXPECT_EQ(parseChain(R"(
        %c = tensor.extract_slice %v[0, 0] [2048, 1] [1, 1]
            : tensor<4096x128xbf16> to tensor<2048x1xbf16>)" +
                       spread)
                .size(),
            1u);
  // As does what reads any of them.
  EXPECT_TRUE(parseChain(R"(
        %p = linalg.generic {indexing_maps = [#full, #full],
              iterator_types = ["parallel", "parallel"]}
            ins(%s : tensor<2048x4096xbf16>)
            outs(%s0 : tensor<2048x4096xbf16>) {
          ^bb0(%x: bf16, %init: bf16):
            %i = linalg.index 1 : index
            %j = linalg.index 0 : index
            %m = tensor.extract %s[%j, %j] : tensor<2048x4096xbf16>
            %y = arith.subf %x, %m : bf16
            linalg.yield %y : bf16
        } -> tensor<2048x4096xbf16>)")
                  .empty());
}

// One maximum of all scores is complete after the last of them.
TEST_F(DerivationTest, TotalsAreKnownAtTheEnd) {
  std::vector<OpChain> chains = parseChain(R"(
        %c = arith.constant dense<0.0> : tensor<bf16>
        %t = linalg.generic {indexing_maps = [#full, affine_map<(i, j) -> ()>],
              iterator_types = ["reduction", "reduction"]}
            ins(%s : tensor<2048x4096xbf16>) outs(%c : tensor<bf16>) {
          ^bb0(%x: bf16, %acc: bf16):
            %y = arith.maximumf %acc, %x : bf16
            linalg.yield %y : bf16
        } -> tensor<bf16>
        %p = linalg.generic {indexing_maps = [#full,
                affine_map<(i, j) -> ()>, #full],
              iterator_types = ["parallel", "parallel"]}
            ins(%s, %t : tensor<2048x4096xbf16>, tensor<bf16>)
            outs(%s0 : tensor<2048x4096xbf16>) {
          ^bb0(%x: bf16, %m: bf16, %init: bf16):
            %y = arith.subf %x, %m : bf16
            linalg.yield %y : bf16
        } -> tensor<2048x4096xbf16>)");
  ASSERT_EQ(chains.size(), 1u);
  const OpChain &chain = chains.front();
  EXPECT_EQ(getText(chain.whyNotDistribute(Query)),
            "linalg.generic accumulates along the axis");
  EXPECT_EQ(getText(chain.whyNotStream(Key)),
            "linalg.generic reads, together with a piece, a result that is "
            "complete after the last one");
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

// From capacities and rates alone come tiles that FlashAttention-3 publishes
// for Hopper, with the rows of queries that it has for them.
TEST_F(DerivationTest, DerivesPublishedTiles) {
  DeviceFigures device = *getKnownDevice("h200");
  struct Published {
    int64_t headDim, keyTile;
    StringRef limit;
  };
  for (auto [headDim, keyTile, limit] :
       {Published{128, 176, "registers"}, Published{192, 112, "shared memory"},
        Published{256, 80, "shared memory"}}) {
    std::vector<OpChain> chains = parseAttention(headDim, 8192);
    Derivation derivation =
        derive(chains.front(), {}, getHopperCapacities(), device);
    ASSERT_TRUE(derivation.fits && derivation.streamed) << headDim;
    // Batch entry, head, query and key.
    EXPECT_EQ(ArrayRef(derivation.tiles).take_front(4),
              ArrayRef<int64_t>({1, 1, 128, keyTile}))
        << headDim;
    EXPECT_EQ(derivation.limit, limit) << headDim;
    EXPECT_EQ(derivation.time.bound, "mma_16b");
  }
}

// A mask leaves out work and its memory traffic alike.
TEST_F(DerivationTest, MasksLeaveOutPieces) {
  constexpr int64_t length = 4096;
  DeviceFigures device = *getKnownDevice("h200");
  TileCapacities capacities = getHopperCapacities();
  Derivation full =
      derive(parseAttention(128, length).front(), {}, capacities, device);
  Derivation causal =
      derive(parseAttention(128, length, "mask(#attn.causal)").front(), {},
             capacities, device);
  EXPECT_EQ(causal.tiles, full.tiles);
  // Of many rows a part is counted, at equal distances.
  constexpr double part = 0.5, tolerance = 1e-3;
  EXPECT_NEAR(causal.cost.steps / full.cost.steps, part, tolerance);
  // Queries and results are moved as ever.
  double rows = 2.0 * 2 * 32 * length * 128;
  EXPECT_NEAR((causal.cost.bytes(MemoryLevel::L2) - rows) /
                  (full.cost.bytes(MemoryLevel::L2) - rows),
              part, tolerance);
}

// What kernels of two consumers hold is what the chain says, but for padding
// and the log-sum-exp, and so the tiles are theirs.
TEST_F(DerivationTest, AgreesWithTheBoundsOfKernels) {
  DeviceFigures device = *getKnownDevice("h200");
  for (int64_t headDim : {64, 128, 192, 256}) {
    std::vector<OpChain> chains = parseAttention(headDim, 8192);
    Derivation derivation =
        derive(chains.front(), {}, getHopperCapacities(), device);
    ASSERT_TRUE(derivation.fits) << headDim;
    KeyTileBounds bounds = getConsumerBounds(2, device);
    bounds.qkHeadDim = bounds.vHeadDim = headDim;
    bounds.elementBytes = 2;
    ASSERT_EQ(derivation.tiles[2], bounds.queryTile) << headDim;
    int64_t keyTile = derivation.tiles[3];
    EXPECT_EQ(getLargestKeyTile(bounds).size, keyTile) << headDim;
    EXPECT_EQ(getLargestKeyTile(bounds).limit, derivation.limit) << headDim;
    EXPECT_EQ(4 * bounds.getRegisters(keyTile) * double(bounds.threads),
              derivation.registerBytes)
        << headDim;
    EXPECT_EQ(double(bounds.getSharedBytes(keyTile)), derivation.sharedBytes)
        << headDim;
  }
}

// Tiles of elements of 8 bits, which attention does not have: one step of 16
// keys aside at most. The softmax is left out, which holds nothing of note.
TEST_F(DerivationTest, DerivesPublishedTilesOf8Bits) {
  DeviceFigures device = *getKnownDevice("h200");
  struct Published {
    int64_t headDim, keyTile, derived;
  };
  for (auto [headDim, keyTile, derived] :
       {Published{128, 224, 208}, Published{192, 160, 160},
        Published{256, 128, 112}}) {
    std::string heads = ("tensor<8192x" + Twine(headDim) + "xf8E4M3FN>").str();
    std::string keys = ("tensor<" + Twine(headDim) + "x8192xf8E4M3FN>").str();
    std::string scores = "tensor<8192x8192xf8E4M3FN>";
    std::vector<OpChain> chains =
        parse("func.func @f(%q: " + heads + ", %k: " + keys + ", %v: " + heads +
              ", %s0: " + scores + ") -> " + heads +
              " { %zero = arith.constant 0.0 : f8E4M3FN "
              "%si = linalg.fill ins(%zero : f8E4M3FN) outs(%s0 : " +
              scores + ") -> " + scores +
              " %oi = linalg.fill ins(%zero : f8E4M3FN) outs(%q : " + heads +
              ") -> " + heads + " %s = linalg.matmul ins(%q, %k : " + heads +
              ", " + keys + ") outs(%si : " + scores + ") -> " + scores +
              " %p = linalg.exp ins(%s : " + scores + ") outs(%s0 : " + scores +
              ") -> " + scores + " %o = linalg.matmul ins(%p, %v : " + scores +
              ", " + heads + ") outs(%oi : " + heads + ") -> " + heads +
              " return %o : " + heads + " }");
    ASSERT_EQ(chains.size(), 1u);
    Derivation derivation =
        derive(chains.front(), {}, getHopperCapacities(), device);
    ASSERT_TRUE(derivation.fits) << headDim;
    EXPECT_EQ(derivation.streamed, std::optional<unsigned>(Key));
    EXPECT_EQ(derivation.tiles[Query], 128) << headDim;
    EXPECT_EQ(derivation.tiles[Key], derived) << headDim;
    EXPECT_LE(std::abs(derived - keyTile), keyTileUnit) << headDim;
    EXPECT_EQ(derivation.time.bound, "mma_8b");
  }
}

// An unfused softmax keeps whole rows, for which there is no room.
TEST_F(DerivationTest, WholeRowsDoNotFit) {
  DeviceFigures device = *getKnownDevice("h200");
  TileCapacities capacities = getHopperCapacities();
  std::vector<OpChain> chains = parseChain(
      "%p = linalg.softmax dimension(1) ins(%s : tensor<2048x4096xbf16>) "
      "outs(%s0 : tensor<2048x4096xbf16>) -> tensor<2048x4096xbf16>");
  Derivation whole = derive(chains.front(), {}, capacities, device);
  EXPECT_FALSE(whole.fits);
  // Scores of 64 rows as f32, their probabilities, and the output.
  EXPECT_EQ(whole.registerBytes, 64 * (4096 * 6 + 128 * 4));

  Derivation streamed =
      derive(parseChain(exponential).front(), {}, capacities, device);
  EXPECT_TRUE(streamed.fits);
  EXPECT_EQ(streamed.streamed, std::optional<unsigned>(Key));
  EXPECT_EQ(streamed.tiles[Query], 128);
  EXPECT_EQ(streamed.tiles[Key], 176);
  EXPECT_EQ(streamed.registerBytes, 128 * (176 * 6 + 128 * 4));
  // A tile of queries, and two of keys and of values.
  EXPECT_EQ(streamed.sharedBytes, 2 * 128 * (128 + 2 * 2 * 176));
  EXPECT_EQ(streamed.cost.steps, (2048 / 128.0) * std::ceil(4096 / 176.0));
}

// A matmul moves `2 a b c / sqrt(M) + a c` elements at least, if `M` fit.
TEST_F(DerivationTest, MatmulsMoveTheLeast) {
  constexpr double size = 4096, side = 256;
  module = parseSourceString<ModuleOp>(R"(
      func.func @f(%a: tensor<4096x4096xbf16>, %b: tensor<4096x4096xbf16>)
          -> tensor<4096x4096xbf16> {
        %o = tensor.empty() : tensor<4096x4096xbf16>
        %0 = linalg.matmul
            ins(%a, %b : tensor<4096x4096xbf16>, tensor<4096x4096xbf16>)
            outs(%o : tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
        return %0 : tensor<4096x4096xbf16>
      })",
                                       &context);
  ASSERT_TRUE(module);
  linalg::MatmulOp product;
  module->walk([&](linalg::MatmulOp op) { product = op; });
  OpChain chain(product.getOperation());
  TileCapacities capacities = getHopperCapacities();
  capacities.registerBytes = int64_t(4 * side * side);
  // Only what passes through the L2 cache takes time.
  DeviceFigures device = *getKnownDevice("h200");
  device.l2BytesPerCycle = 1;
  Derivation derivation = derive(chain, {}, capacities, device);
  EXPECT_TRUE(derivation.fits);
  EXPECT_EQ(derivation.time.bound, "l2");
  EXPECT_EQ(ArrayRef(derivation.tiles).take_front(2),
            ArrayRef<int64_t>({int64_t(side), int64_t(side)}));
  EXPECT_DOUBLE_EQ(derivation.cost.bytes(MemoryLevel::L2),
                   2 * (2 * size * size * size / side + size * size));
}

// What attention moves is the least for the tile that it has room for.
TEST_F(DerivationTest, AttentionMovesTheLeast) {
  constexpr double heads = 32, length = 8192;
  DeviceFigures device = *getKnownDevice("h200");
  for (int64_t headDim : {64, 128}) {
    std::vector<OpChain> chains = parseAttention(headDim, int64_t(length));
    Derivation derivation =
        derive(chains.front(), {}, getHopperCapacities(), device);
    double capacity = 2 * double(derivation.tiles[2] * headDim);
    EXPECT_DOUBLE_EQ(
        derivation.cost.bytes(MemoryLevel::L2),
        2 * heads *
            getLeastTransfer(length, length, double(headDim), capacity));
    // A slow cache makes tiles of queries as large as registers allow.
    device.l2BytesPerCycle /= 64;
    Derivation larger =
        derive(chains.front(), {}, getHopperCapacities(), device);
    EXPECT_EQ(larger.time.bound, "l2");
    EXPECT_EQ(larger.tiles[2], 256);
    device = *getKnownDevice("h200");
  }
}
} // namespace
