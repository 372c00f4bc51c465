//===- MaskTilesTest.cpp - Tests of the tiles that masks need -------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits the tiles of thousands of random affine predicates, runs the emitted
// code for many lengths and compares with the predicate, pair by pair.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskTiles.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Compiler.h"
#include "llvm/Support/MathExtras.h"
#include "gtest/gtest.h"

#include <chrono>
#include <memory>
#include <random>

using namespace mlir;
using namespace mlir::attn;

namespace {
/// What expressions are of, by number.
enum Leaf { Batch, Head, Query, Key, QueryLength, KeyLength, Extra, NumLeaves };
using Point = std::array<int64_t, NumLeaves>;

/// An integer or logic expression that can be evaluated and written as code.
struct Expression {
  std::function<int64_t(const Point &)> evaluate;
  std::function<Value(OpBuilder &, Location, ArrayRef<Value>)> emit;
  std::string text;
};

/// Makes random expressions.
class Generator {
public:
  explicit Generator(unsigned seed) : random(seed) {}

  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  }

  Expression constant(int64_t value) {
    return {[=](const Point &) { return value; },
            [=](OpBuilder &b, Location loc, ArrayRef<Value>) -> Value {
              return arith::ConstantIndexOp::create(b, loc, value);
            },
            std::to_string(value)};
  }

  Expression leaf(Leaf leaf) {
    static const char *names[] = {"b", "h", "q", "k", "Sq", "Sk", "x"};
    return {[=](const Point &point) { return point[leaf]; },
            [=](OpBuilder &, Location, ArrayRef<Value> leaves) {
              return leaves[leaf];
            },
            names[leaf]};
  }

  /// `arguments` are what the operation has before its operands.
  template <typename OpTy, typename Fn, typename... Arguments>
  Expression binary(Expression lhs, Expression rhs, const char *symbol, Fn fn,
                    Arguments... arguments) {
    return {[=](const Point &point) -> int64_t {
              return fn(lhs.evaluate(point), rhs.evaluate(point));
            },
            [=](OpBuilder &b, Location loc, ArrayRef<Value> leaves) -> Value {
              Value left = lhs.emit(b, loc, leaves);
              Value right = rhs.emit(b, loc, leaves);
              return OpTy::create(b, loc, arguments..., left, right);
            },
            "(" + lhs.text + " " + symbol + " " + rhs.text + ")"};
  }

  Expression integer(int depth) {
    if (depth == 0) {
      switch (pick(0, 7)) {
      case 0:
      case 1:
        return leaf(Query);
      case 2:
      case 3:
        return leaf(Key);
      case 4:
        return leaf(Extra);
      case 5:
        return leaf(pick(0, 1) ? Head : QueryLength);
      case 6:
        return leaf(KeyLength);
      default:
        return constant(pick(-9, 20));
      }
    }
    Expression lhs = integer(depth - 1);
    int64_t divisor = std::array<int64_t, 5>{2, 3, 4, 8, 16}[pick(0, 4)];
    switch (pick(0, 7)) {
    case 0:
    case 1:
      return binary<arith::AddIOp>(lhs, integer(depth - 1), "+",
                                   std::plus<int64_t>());
    case 2:
    case 3:
      return binary<arith::SubIOp>(lhs, integer(depth - 1), "-",
                                   std::minus<int64_t>());
    case 4:
      return binary<arith::MulIOp>(lhs, constant(pick(-2, 3)), "*",
                                   std::multiplies<int64_t>());
    case 5:
      if (pick(0, 1))
        return binary<arith::FloorDivSIOp>(
            lhs, constant(divisor), "floordiv",
            [](int64_t a, int64_t b) { return llvm::divideFloorSigned(a, b); });
      return binary<arith::DivSIOp>(lhs, constant(divisor), "/",
                                    std::divides<int64_t>());
    case 6:
      return binary<arith::RemSIOp>(lhs, constant(divisor), "%",
                                    std::modulus<int64_t>());
    default:
      if (pick(0, 1))
        return binary<arith::MinSIOp>(
            lhs, integer(depth - 1), "min",
            [](int64_t a, int64_t b) { return std::min(a, b); });
      return binary<arith::MaxSIOp>(
          lhs, integer(depth - 1), "max",
          [](int64_t a, int64_t b) { return std::max(a, b); });
    }
  }

  Expression comparison() {
    Expression lhs = integer(pick(0, 2)), rhs = integer(pick(0, 1));
    using arith::CmpIPredicate;
    static const std::pair<CmpIPredicate, const char *> all[] = {
        {CmpIPredicate::sle, "<="}, {CmpIPredicate::slt, "<"},
        {CmpIPredicate::sge, ">="}, {CmpIPredicate::sgt, ">"},
        {CmpIPredicate::eq, "=="},  {CmpIPredicate::ne, "!="}};
    // Equality is rarely what keeps anything.
    auto [predicate, symbol] = all[pick(0, pick(0, 2) == 0 ? 5 : 3)];
    return {[=, predicate = predicate](const Point &point) -> int64_t {
              int64_t left = lhs.evaluate(point), right = rhs.evaluate(point);
              switch (predicate) {
              case CmpIPredicate::sle:
                return left <= right;
              case CmpIPredicate::slt:
                return left < right;
              case CmpIPredicate::sge:
                return left >= right;
              case CmpIPredicate::sgt:
                return left > right;
              case CmpIPredicate::eq:
                return left == right;
              default:
                return left != right;
              }
            },
            [=, predicate = predicate](OpBuilder &b, Location loc,
                                       ArrayRef<Value> leaves) -> Value {
              Value left = lhs.emit(b, loc, leaves);
              return arith::CmpIOp::create(b, loc, predicate, left,
                                           rhs.emit(b, loc, leaves));
            },
            lhs.text + " " + symbol + " " + rhs.text};
  }

  Expression logic(int depth) {
    if (depth == 0)
      return comparison();
    Expression lhs = logic(depth - 1), rhs = logic(pick(0, depth - 1));
    switch (pick(0, 4)) {
    case 0:
      return comparison();
    case 1:
    case 2:
      return binary<arith::AndIOp>(lhs, rhs, "and", std::bit_and<int64_t>());
    case 3:
      return binary<arith::OrIOp>(lhs, rhs, "or", std::bit_or<int64_t>());
    default:
      return binary<arith::XOrIOp>(lhs, rhs, "xor", std::bit_xor<int64_t>());
    }
  }

private:
  std::mt19937 random;
};

/// Runs a block of integer arithmetic.
class Interpreter {
public:
  void set(Value value, int64_t number) { numbers[value] = number; }
  int64_t get(Value value) { return numbers.lookup(value); }

  void run(Block &block) {
    for (Operation &op : block)
      numbers[op.getResult(0)] = evaluate(op);
  }

private:
  int64_t evaluate(Operation &op) {
    auto operand = [&](unsigned i) { return get(op.getOperand(i)); };
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      APInt value = cast<IntegerAttr>(constant.getValue()).getValue();
      return value.getBitWidth() == 1 ? value.getZExtValue()
                                      : value.getSExtValue();
    }
    if (isa<arith::AddIOp>(op))
      return operand(0) + operand(1);
    if (isa<arith::SubIOp>(op))
      return operand(0) - operand(1);
    if (isa<arith::MulIOp>(op))
      return operand(0) * operand(1);
    if (isa<arith::MinSIOp>(op))
      return std::min(operand(0), operand(1));
    if (isa<arith::MaxSIOp>(op))
      return std::max(operand(0), operand(1));
    if (isa<arith::DivUIOp>(op)) {
      EXPECT_GE(operand(0), 0) << "unsigned division";
      return operand(0) / operand(1);
    }
    if (isa<arith::FloorDivSIOp>(op))
      return llvm::divideFloorSigned(operand(0), operand(1));
    if (isa<arith::DivSIOp>(op))
      return operand(0) / operand(1);
    if (isa<arith::RemSIOp>(op))
      return operand(0) % operand(1);
    if (isa<arith::ShRSIOp>(op))
      return operand(0) >> operand(1);
    if (isa<arith::AndIOp>(op))
      return operand(0) & operand(1);
    if (isa<arith::OrIOp>(op))
      return operand(0) | operand(1);
    if (isa<arith::XOrIOp>(op))
      return operand(0) ^ operand(1);
    if (isa<arith::SelectOp>(op))
      return operand(0) ? operand(1) : operand(2);
    if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op))
      return operand(0);
    auto compare = cast<arith::CmpIOp>(op);
    return arith::applyCmpPredicate(compare.getPredicate(),
                                    APInt(64, operand(0), /*isSigned=*/true),
                                    APInt(64, operand(1), /*isSigned=*/true));
  }

  DenseMap<Value, int64_t> numbers;
};

class MaskTilesTest : public ::testing::Test {
protected:
  MaskTilesTest() { context.loadDialect<arith::ArithDialect, AttnDialect>(); }

  /// The code of a predicate: a block with the argument `first`, and the
  /// arguments of `Leaf` but for query and key.
  struct Emitted {
    Block block;
    Region maskMod;
    Value first;
    std::array<Value, NumLeaves> leaves;
  };

  std::unique_ptr<Emitted> start(const Expression &predicate) {
    auto emitted = std::make_unique<Emitted>();
    Type index = IndexType::get(&context);
    emitted->first = emitted->block.addArgument(index, loc);
    for (Value &leaf : emitted->leaves)
      leaf = emitted->block.addArgument(index, loc);
    Block &body = emitted->maskMod.emplaceBlock();
    std::array<Value, NumLeaves> leaves = emitted->leaves;
    for (Leaf leaf : {Batch, Head, Query, Key})
      leaves[leaf] = body.addArgument(index, loc);
    OpBuilder b(&context);
    b.setInsertionPointToStart(&body);
    Value kept = predicate.emit(b, loc, leaves);
    attn::YieldOp::create(b, loc, kept);
    return emitted;
  }

  ScoreMask getMask(Emitted &emitted) {
    return {MaskAttrInterface(),         &emitted.maskMod,
            emitted.leaves[Batch],       emitted.leaves[Head],
            emitted.leaves[QueryLength], emitted.leaves[KeyLength]};
  }

  struct Shape {
    int64_t query, key;
  };
  std::vector<Shape> shapes = {{1, 1}, {13, 13}, {17, 5}, {9, 31}};

  /// The number of masked steps, of all steps, and the tile of a step.
  struct EmittedIteration {
    Value masked, count, tile;
  };

  void checkTiles(const Expression &predicate, MaskDim dim, int64_t tileSize,
                  int64_t streamedTileSize);
  void checkRanges(const Expression &predicate, MaskDim dim);

  MLIRContext context;
  Location loc = UnknownLoc::get(&context);
  int64_t numFull = 0, numSkipped = 0, numExact = 0;
};

void MaskTilesTest::checkTiles(const Expression &predicate, MaskDim dim,
                               int64_t tileSize, int64_t streamedTileSize) {
  std::unique_ptr<Emitted> emitted = start(predicate);
  ImplicitLocOpBuilder b(loc, &context);
  b.setInsertionPointToStart(&emitted->block);
  TileRanges ranges =
      emitTileRanges(b, loc, getMask(*emitted), dim, emitted->first, tileSize,
                     streamedTileSize);
  Value step = emitted->block.addArgument(b.getIndexType(), loc);
  Value zero = arith::ConstantIndexOp::create(b, 0);
  std::array<EmittedIteration, 2> walks;
  for (auto [number, walk] : llvm::enumerate(walks)) {
    TileIteration order(/*isDescending=*/number == 0);
    walk.masked = order.add(b, ranges.masked, zero);
    walk.count = order.add(b, ranges.full, walk.masked);
    walk.tile = order.emitTile(b, step);
  }
  Leaf tiled = dim == MaskDim::Query ? Query : Key;
  Leaf streamed = dim == MaskDim::Query ? Key : Query;
  for (Shape shape : shapes) {
    for (int64_t extra : {0, 5}) {
      Point point = {0, 2, 0, 0, shape.query, shape.key, extra};
      int64_t length = tiled == Query ? shape.query : shape.key;
      int64_t streamedLength = tiled == Query ? shape.key : shape.query;
      int64_t numTiles = llvm::divideCeil(streamedLength, streamedTileSize);
      for (int64_t first = 0; first < length; first += tileSize) {
        Interpreter interpreter;
        interpreter.set(emitted->first, first);
        for (auto [leaf, value] : llvm::zip(emitted->leaves, point))
          interpreter.set(leaf, value);
        interpreter.run(emitted->block);
        // 1 for a tile that is visited masked, 2 for one that is full.
        std::vector<int> visits(numTiles, 0);
        auto visit = [&](ArrayRef<IndexRange> all, int kind) {
          for (IndexRange range : all) {
            int64_t begin = interpreter.get(range.begin);
            int64_t end = interpreter.get(range.end);
            ASSERT_LE(0, begin);
            ASSERT_LE(begin, end);
            ASSERT_LE(end, numTiles);
            for (int64_t tile = begin; tile < end; ++tile) {
              ASSERT_EQ(visits[tile], 0) << "tile " << tile << " twice";
              visits[tile] = kind;
            }
          }
        };
        visit(ranges.masked, 1);
        visit(ranges.full, 2);
        if (HasFatalFailure())
          return;
        // Walks visit the same tiles, the masked ones first.
        for (const EmittedIteration &walk : walks) {
          std::vector<int> steps(numTiles, 0);
          int64_t count = interpreter.get(walk.count);
          for (int64_t i = 0; i < count; ++i) {
            interpreter.set(step, i);
            interpreter.run(emitted->block);
            int64_t tile = interpreter.get(walk.tile);
            ASSERT_TRUE(0 <= tile && tile < numTiles) << "step " << i;
            ASSERT_EQ(steps[tile], 0) << "tile " << tile << " twice";
            steps[tile] = i < interpreter.get(walk.masked) ? 1 : 2;
          }
          ASSERT_EQ(steps, visits);
        }
        for (int64_t tile = 0; tile < numTiles; ++tile) {
          bool any = false, all = true;
          for (int64_t i = first; i < std::min(first + tileSize, length); ++i) {
            for (int64_t j = tile * streamedTileSize;
                 j < (tile + 1) * streamedTileSize; ++j) {
              // Queries that do not exist need no mask.
              if (j >= streamedLength && streamed == Query)
                continue;
              point[tiled] = i;
              point[streamed] = j;
              bool keep = j < streamedLength && predicate.evaluate(point);
              any |= keep;
              all &= keep;
            }
          }
          if (any)
            ASSERT_NE(visits[tile], 0)
                << "attended tile " << tile << " is not visited";
          if (!all)
            ASSERT_NE(visits[tile], 2)
                << "masked tile " << tile << " is taken for full";
          numFull += visits[tile] == 2;
          numSkipped += visits[tile] == 0;
        }
      }
    }
  }
}

void MaskTilesTest::checkRanges(const Expression &predicate, MaskDim dim) {
  std::unique_ptr<Emitted> emitted = start(predicate);
  OpBuilder b(&context);
  b.setInsertionPointToStart(&emitted->block);
  std::optional<SmallVector<IndexRange>> ranges = emitAttendedRanges(
      b, loc, getMask(*emitted), dim, emitted->first, /*maxRanges=*/3);
  if (!ranges)
    return;
  ++numExact;
  Leaf tiled = dim == MaskDim::Query ? Query : Key;
  Leaf streamed = dim == MaskDim::Query ? Key : Query;
  for (Shape shape : shapes) {
    Point point = {0, 2, 0, 0, shape.query, shape.key, 3};
    int64_t length = tiled == Query ? shape.query : shape.key;
    int64_t streamedLength = tiled == Query ? shape.key : shape.query;
    for (int64_t i = 0; i < length; ++i) {
      Interpreter interpreter;
      interpreter.set(emitted->first, i);
      for (auto [leaf, value] : llvm::zip(emitted->leaves, point))
        interpreter.set(leaf, value);
      interpreter.run(emitted->block);
      for (int64_t j = 0; j < streamedLength; ++j) {
        bool inRange = llvm::any_of(*ranges, [&](IndexRange range) {
          return (!range.begin || interpreter.get(range.begin) <= j) &&
                 j < interpreter.get(range.end);
        });
        point[tiled] = i;
        point[streamed] = j;
        ASSERT_EQ(inRange, predicate.evaluate(point) != 0)
            << "at " << i << ", " << j << " of " << shape.query << "x"
            << shape.key;
      }
    }
  }
}

/// A predicate of positions in two or three dimensions, as vision models state
/// them: quotients and remainders of quotients and remainders, clamped.
class NestedGenerator : public Generator {
public:
  using Generator::Generator;

  Expression floorDiv(Expression lhs, int64_t divisor) {
    return binary<arith::FloorDivSIOp>(
        std::move(lhs), constant(divisor), "//",
        [](int64_t a, int64_t b) { return llvm::divideFloorSigned(a, b); });
  }
  Expression remainder(const Expression &lhs, int64_t divisor) {
    return minus(lhs, times(floorDiv(lhs, divisor), divisor));
  }
  Expression times(Expression lhs, int64_t factor) {
    return binary<arith::MulIOp>(std::move(lhs), constant(factor), "*",
                                 std::multiplies<int64_t>());
  }
  Expression plus(Expression lhs, Expression rhs) {
    return binary<arith::AddIOp>(std::move(lhs), std::move(rhs), "+",
                                 std::plus<int64_t>());
  }
  Expression minus(Expression lhs, Expression rhs) {
    return binary<arith::SubIOp>(std::move(lhs), std::move(rhs), "-",
                                 std::minus<int64_t>());
  }
  Expression clamp(Expression lhs, int64_t low, int64_t high) {
    Expression atLeast = binary<arith::MaxSIOp>(
        std::move(lhs), constant(low), "max",
        [](int64_t a, int64_t b) { return std::max(a, b); });
    return binary<arith::MinSIOp>(
        std::move(atLeast), constant(high), "min",
        [](int64_t a, int64_t b) { return std::min(a, b); });
  }
  Expression atMost(Expression lhs, Expression rhs) {
    return binary<arith::CmpIOp>(std::move(lhs), std::move(rhs),
                                 "<=", std::less_equal<int64_t>(),
                                 arith::CmpIPredicate::sle);
  }
  Expression both(Expression lhs, Expression rhs) {
    return binary<arith::AndIOp>(std::move(lhs), std::move(rhs), "and",
                                 std::bit_and<int64_t>());
  }

  /// A coordinate of a position, of the same kind for all positions.
  using Coordinate = std::function<Expression(Expression)>;
  Coordinate coordinate(int depth) {
    if (depth == 0)
      return [](Expression position) { return position; };
    Coordinate inner = coordinate(depth - 1);
    int64_t divisor = std::array<int64_t, 6>{2, 3, 4, 5, 8, 16}[pick(0, 5)];
    switch (pick(0, 3)) {
    case 0:
      return [=](Expression position) {
        return floorDiv(inner(std::move(position)), divisor);
      };
    case 1:
      return [=](Expression position) {
        return remainder(inner(std::move(position)), divisor);
      };
    case 2: {
      Coordinate other = coordinate(depth - 1);
      int64_t factor = pick(1, 4);
      return [=](const Expression &position) {
        return plus(times(inner(position), factor), other(position));
      };
    }
    default: {
      int64_t low = pick(0, 3), size = pick(0, 8);
      return [=](Expression position) {
        return clamp(inner(std::move(position)), low, low + size);
      };
    }
    }
  }

  /// A window around the query in one to three coordinates.
  Expression window() {
    Expression result = constant(0);
    for (int64_t dim = 0, numDims = pick(1, 3); dim < numDims; ++dim) {
      int depth = pick(1, 3);
      Coordinate ofKey = coordinate(depth);
      Coordinate ofQuery = pick(0, 3) ? ofKey : coordinate(depth);
      Expression query = ofQuery(leaf(Query)), key = ofKey(leaf(Key));
      Expression inside = atMost(minus(query, constant(pick(0, 3))), key);
      if (pick(0, 1))
        inside = both(inside, atMost(key, plus(query, constant(pick(0, 3)))));
      result = dim == 0 ? inside : both(result, inside);
    }
    return result;
  }
};

/// Checks that the tiles of a named mask are not only right but the best: no
/// tile is visited in vain, and none that is full is masked.
class NamedMaskTest : public MaskTilesTest,
                      public ::testing::WithParamInterface<const char *> {};

TEST_P(NamedMaskTest, TilesAreExact) {
  auto mask = cast<MaskAttrInterface>(parseAttribute(GetParam(), &context));
  for (auto [dim, tileSize, streamedTileSize] :
       {std::tuple(MaskDim::Query, 4, 3), std::tuple(MaskDim::Query, 8, 8),
        std::tuple(MaskDim::Query, 1, 1), std::tuple(MaskDim::Key, 4, 2),
        std::tuple(MaskDim::Key, 8, 4), std::tuple(MaskDim::Key, 4, 4),
        std::tuple(MaskDim::Key, 1, 3)}) {
    Block block;
    Type index = IndexType::get(&context);
    Value first = block.addArgument(index, loc);
    Value zero = block.addArgument(index, loc);
    Value queryLength = block.addArgument(index, loc);
    Value keyLength = block.addArgument(index, loc);
    OpBuilder b(&context);
    b.setInsertionPointToStart(&block);
    TileRanges ranges = emitTileRanges(
        b, loc, {mask, nullptr, zero, zero, queryLength, keyLength}, dim, first,
        tileSize, streamedTileSize);
    for (Shape shape : {Shape{1, 1}, Shape{24, 24}, Shape{13, 29},
                        Shape{29, 13}, Shape{64, 64}}) {
      bool isQuery = dim == MaskDim::Query;
      int64_t length = isQuery ? shape.query : shape.key;
      int64_t streamedLength = isQuery ? shape.key : shape.query;
      for (int64_t tile = 0; tile < length; tile += tileSize) {
        Interpreter interpreter;
        interpreter.set(first, tile);
        interpreter.set(queryLength, shape.query);
        interpreter.set(keyLength, shape.key);
        interpreter.run(block);
        auto contains = [&](ArrayRef<IndexRange> all, int64_t number) {
          return llvm::count_if(all, [&](IndexRange range) {
            return interpreter.get(range.begin) <= number &&
                   number < interpreter.get(range.end);
          });
        };
        int64_t visited = 0, attended = 0;
        for (int64_t n = 0; n * streamedTileSize < streamedLength; ++n) {
          int64_t pairs = 0, kept = 0;
          for (int64_t i = tile; i < std::min(tile + tileSize, length); ++i) {
            for (int64_t j = n * streamedTileSize;
                 j < (n + 1) * streamedTileSize; ++j) {
              if (j >= streamedLength && !isQuery)
                continue;
              ++pairs;
              kept += j < streamedLength &&
                      mask.isAttended(isQuery ? i : j, isQuery ? j : i,
                                      shape.query, shape.key);
            }
          }
          EXPECT_EQ(contains(ranges.full, n), kept == pairs)
              << "tile " << n << " of that at " << tile << " of " << shape.query
              << "x" << shape.key;
          EXPECT_LE(kept > 0 && kept < pairs, contains(ranges.masked, n))
              << "tile " << n << " of that at " << tile << " of " << shape.query
              << "x" << shape.key;
          visited += contains(ranges.masked, n) + contains(ranges.full, n);
          attended += kept > 0;
        }
        // An iteration has one step even if there is nothing to attend.
        EXPECT_LE(attended, visited);
        EXPECT_LE(visited, std::max<int64_t>(attended, 1))
            << "tile at " << tile << " of " << shape.query << "x" << shape.key;
      }
    }
  }
}

TEST_F(MaskTilesTest, IndicesOutOfBoundsAreFound) {
  Generator generator(7);
  const int numRegions = 500;
  int64_t numFound = 0, numWithin = 0;
  for (int number = 0; number < numRegions; ++number) {
    Expression index = generator.integer(generator.pick(0, 2));
    Expression predicate = generator.logic(generator.pick(0, 1));
    int64_t size = generator.pick(1, 40);
    int64_t batches = 2, heads = 3;
    Shape shape = shapes[generator.pick(0, shapes.size() - 1)];

    Block block;
    OpBuilder b(&context);
    b.setInsertionPointToStart(&block);
    std::array<Value, NumLeaves> leaves;
    for (Leaf leaf : {Batch, Head, Query, Key})
      leaves[leaf] = block.addArgument(b.getIndexType(), loc);
    Point point = {0, 0, 0, 0, shape.query, shape.key, 5};
    for (Leaf leaf : {QueryLength, KeyLength, Extra})
      leaves[leaf] = arith::ConstantIndexOp::create(b, loc, point[leaf]);
    Value kept = predicate.emit(b, loc, leaves);
    Value value = index.emit(b, loc, leaves);
    MaskAnalysis analysis({leaves[Batch], leaves[Head], leaves[Query],
                           leaves[Key], leaves[QueryLength],
                           leaves[KeyLength]});
    analysis.restrict(kept);
    std::optional<MaskAnalysis::OutOfBounds> found =
        analysis.findOutOfBounds(value, size, batches, heads);
    auto isOutside = [&](const Point &at) {
      int64_t result = index.evaluate(at);
      return predicate.evaluate(at) && (result < 0 || result >= size);
    };
    if (found) {
      ++numFound;
      Point at = point;
      at[Batch] = found->batch;
      at[Head] = found->head;
      at[Query] = found->query;
      at[Key] = found->key;
      EXPECT_TRUE(isOutside(at)) << index.text << " if " << predicate.text;
      EXPECT_EQ(found->index, index.evaluate(at)) << index.text;
      EXPECT_TRUE(0 <= at[Batch] && at[Batch] < batches);
      EXPECT_TRUE(0 <= at[Head] && at[Head] < heads);
      EXPECT_TRUE(0 <= at[Query] && at[Query] < shape.query);
      EXPECT_TRUE(0 <= at[Key] && at[Key] < shape.key);
      continue;
    }
    if (!analysis.getNotAffine().empty())
      continue;
    ++numWithin;
    for (Point at = point; at[Batch] < batches; ++at[Batch])
      for (at[Head] = 0; at[Head] < heads; ++at[Head])
        for (at[Query] = 0; at[Query] < shape.query; ++at[Query])
          for (at[Key] = 0; at[Key] < shape.key; ++at[Key])
            ASSERT_FALSE(isOutside(at))
                << index.text << " of " << size << " if " << predicate.text;
  }
  // All are decided, with enough of both kinds.
  EXPECT_EQ(numFound + numWithin, numRegions);
  EXPECT_GT(numFound, 100);
  EXPECT_GT(numWithin, 50);
}

INSTANTIATE_TEST_SUITE_P(
    Masks, NamedMaskTest,
    ::testing::Values(
        "#attn.causal", "#attn.causal<alignment = top_left>",
        "#attn.sliding_window<left = 5, right = 0>",
        "#attn.sliding_window<left = 9, right = 2>",
        "#attn.sliding_window<left = 7, alignment = top_left>",
        "#attn.sliding_window<left = 0, right = 0>",
        "#attn.prefix_lm<length = 11>",
        "#attn.prefix_lm<length = 8, alignment = top_left>",
        "#attn.local_blocks<size = 8, before = 0, after = 0>",
        "#attn.local_blocks<size = 5, after = 0, alignment = top_left>",
        "#attn.local_blocks<size = 5, after = 0>",
        "#attn.local_blocks<size = 5, before = 1>", "#attn.none",
        "#attn.local_blocks<size = 4, before = 2, after = 1, alignment = "
        "top_left>",
        "#attn.global_tokens<count = 5>", "#attn.global_tokens<count = 8>",
        "#attn.dilated_window<left = 9, right = 0, dilation = 1>",
        "#attn.and<#attn.causal, #attn.local_blocks<size = 8, before = 0, "
        "after = 0>>",
        "#attn.or<#attn.global_tokens<count = 6>, #attn.sliding_window<left = "
        "10, right = 10>>",
        "#attn.not<#attn.causal>",
        "#attn.not<#attn.sliding_window<left = 3, right = 3>>"));

TEST_F(MaskTilesTest, NestedQuotientsTakeLittleWork) {
  const std::chrono::seconds limit(LLVM_ADDRESS_SANITIZER_BUILD ? 20 : 2);
  for (unsigned seed = 0; seed < 300; ++seed) {
    NestedGenerator generator(seed);
    Expression predicate = generator.window();
    MaskDim dim = generator.pick(0, 1) ? MaskDim::Query : MaskDim::Key;
    SCOPED_TRACE(::testing::Message()
                 << "seed " << seed << ": " << predicate.text);
    auto begin = std::chrono::steady_clock::now();
    checkTiles(predicate, dim, generator.pick(1, 6), generator.pick(1, 6));
    checkRanges(predicate, dim);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, limit);
    if (HasFailure())
      break;
  }
  EXPECT_GT(numFull, 500);
  EXPECT_GT(numSkipped, 3000);
}

/// Neighbours in an image of 16 columns, whose positions are stored in tiles of
/// 4 by 4: every pair that a mask keeps is in a tile that is visited.
TEST_F(MaskTilesTest, TiledNeighborhoods) {
  NestedGenerator g(0);
  auto y = [&](const Expression &i) {
    return g.plus(g.times(g.floorDiv(i, 64), 4),
                  g.floorDiv(g.remainder(i, 16), 4));
  };
  auto x = [&](const Expression &i) {
    return g.plus(g.times(g.remainder(g.floorDiv(i, 16), 4), 4),
                  g.remainder(g.remainder(i, 16), 4));
  };
  auto isNear = [&](const Expression &query, const Expression &key) {
    Expression radius = g.constant(2);
    return g.both(g.atMost(g.minus(query, radius), key),
                  g.atMost(key, g.plus(query, radius)));
  };
  Expression query = g.leaf(Query), key = g.leaf(Key);
  shapes = {{256, 256}};
  Expression open = g.both(g.atMost(g.minus(x(query), g.constant(2)), x(key)),
                           g.atMost(g.minus(y(query), g.constant(2)), y(key)));
  checkTiles(open, MaskDim::Query, 64, 64);
  Expression near = g.both(isNear(y(query), y(key)), isNear(x(query), x(key)));
  for (MaskDim dim : {MaskDim::Query, MaskDim::Key})
    checkTiles(near, dim, 64, 64);
  // Windows at the edges are as large as others.
  Expression clamped = g.both(isNear(g.clamp(y(query), 2, 13), y(key)),
                              isNear(g.clamp(x(query), 2, 13), x(key)));
  for (MaskDim dim : {MaskDim::Query, MaskDim::Key})
    checkTiles(clamped, dim, 64, 64);
}

TEST_F(MaskTilesTest, RandomPredicates) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    Generator generator(seed);
    Expression predicate = generator.logic(generator.pick(0, 2));
    MaskDim dim = generator.pick(0, 3) ? MaskDim::Query : MaskDim::Key;
    int64_t tileSize = generator.pick(1, 6),
            streamedTileSize = generator.pick(1, 6);
    SCOPED_TRACE(::testing::Message()
                 << "seed " << seed << ": " << predicate.text << ", tiles "
                 << tileSize << " and " << streamedTileSize << " of "
                 << (dim == MaskDim::Query ? "queries" : "keys"));
    checkTiles(predicate, dim, tileSize, streamedTileSize);
    if (seed % 2 == 0)
      checkRanges(predicate, dim);
    if (HasFailure())
      break;
  }
  // The answers are good for something.
  EXPECT_GT(numFull, 5000);
  EXPECT_GT(numSkipped, 10000);
  EXPECT_GT(numExact, 300);
}
} // namespace
