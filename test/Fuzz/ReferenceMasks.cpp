//===- ReferenceMasks.cpp - Masks by their definitions --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Named masks and dropout keep masks, pair by pair.
//
//===----------------------------------------------------------------------===//

#include "Reference.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/ErrorHandling.h"

#include <array>

using namespace mlir;
using namespace mlir::attn;
using namespace mlir::attn::fuzz;

/// Constants of masks may be close to 2^63.
using Wide = __int128;

//===----------------------------------------------------------------------===//
// Masks of positions
//===----------------------------------------------------------------------===//

/// The position of the query on the diagonal of the mask.
static Wide getDiagonal(MaskAlignment alignment, const MaskPair &pair) {
  Wide offset =
      alignment == MaskAlignment::TopLeft ? 0 : pair.numKeys - pair.numQueries;
  return pair.query + offset;
}

static bool isInWindow(std::optional<int64_t> left,
                       std::optional<int64_t> right, Wide diagonal,
                       int64_t key) {
  return (!left || key >= diagonal - *left) &&
         (!right || key <= diagonal + *right);
}

static Wide divideFloor(Wide a, Wide b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

//===----------------------------------------------------------------------===//
// Masks that read tensors
//===----------------------------------------------------------------------===//

/// An element of a row. The first dimension may be 1, for all batch entries.
static int64_t readRow(const DenseElements &elements, int64_t batch,
                       int64_t position) {
  int64_t row = elements.shape[0] == 1 ? 0 : batch;
  return elements.integers[row * elements.shape[1] + position];
}

/// The document of a position by sorted boundaries, -1 if it is in none.
static int64_t findDocument(const DenseElements &boundaries, int64_t batch,
                            int64_t position) {
  for (int64_t n = 0; n + 1 < boundaries.shape[1]; ++n)
    if (readRow(boundaries, batch, n) <= position &&
        position < readRow(boundaries, batch, n + 1))
      return n;
  return -1;
}

static bool isAncestor(const DenseElements &parents, const MaskPair &pair) {
  int64_t first = pair.numKeys - pair.numQueries;
  if (pair.key < first)
    return true;
  for (int64_t node = pair.query; node >= 0;
       node = readRow(parents, pair.batch, node))
    if (node == pair.key - first)
      return true;
  return false;
}

static bool isListed(BlockSparseAttr mask, const MaskPair &pair,
                     const DenseElements &offsets,
                     const DenseElements &indices) {
  int64_t row = pair.query / mask.getRows();
  auto readOffset = [&](int64_t at) {
    int64_t b = offsets.shape[0] == 1 ? 0 : pair.batch;
    int64_t h = offsets.shape[1] == 1 ? 0 : pair.head;
    return offsets.integers[offsets.getPosition({b, h, at})];
  };
  for (int64_t at = readOffset(row), end = readOffset(row + 1); at < end;
       ++at) {
    int64_t b = indices.shape[0] == 1 ? 0 : pair.batch;
    int64_t h = indices.shape[1] == 1 ? 0 : pair.head;
    if (indices.integers[indices.getPosition({b, h, at})] ==
        pair.key / mask.getColumns())
      return true;
  }
  return false;
}

bool mlir::attn::fuzz::isKeptByMask(Attribute mask, const MaskPair &pair,
                                    ArrayRef<const DenseElements *> reads) {
  int64_t key = pair.key;
  auto keeps = [&](Attribute part) { return isKeptByMask(part, pair, reads); };
  return llvm::TypeSwitch<Attribute, bool>(mask)
      .Case([&](NoneAttr) { return false; })
      .Case([&](CausalAttr causal) {
        return key <= getDiagonal(causal.getAlignment(), pair);
      })
      .Case([&](SlidingWindowAttr window) {
        return isInWindow(window.getLeft(), window.getRight(),
                          getDiagonal(window.getAlignment(), pair), key);
      })
      .Case([&](PrefixLMAttr prefix) {
        return key < prefix.getLength() ||
               key <= getDiagonal(prefix.getAlignment(), pair);
      })
      .Case([&](DilatedWindowAttr window) {
        Wide diagonal = getDiagonal(window.getAlignment(), pair);
        return isInWindow(window.getLeft(), window.getRight(), diagonal, key) &&
               (diagonal - key) % window.getDilation() == 0;
      })
      .Case([&](LocalBlocksAttr blocks) {
        Wide own = divideFloor(getDiagonal(blocks.getAlignment(), pair),
                               blocks.getSize());
        Wide block = key / blocks.getSize();
        return (!blocks.getBefore() || block >= own - *blocks.getBefore()) &&
               (!blocks.getAfter() || block <= own + *blocks.getAfter());
      })
      .Case([&](GlobalTokensAttr tokens) {
        return pair.query < tokens.getCount() || key < tokens.getCount();
      })
      .Case([&](AndAttr all) { return llvm::all_of(all.getMasks(), keeps); })
      .Case([&](OrAttr any) { return llvm::any_of(any.getMasks(), keeps); })
      .Case([&](NotAttr negation) { return !keeps(negation.getMask()); })
      .Case([&](DocumentsAttr documents) {
        return readRow(*reads[documents.getQueries()], pair.batch,
                       pair.query) ==
               readRow(*reads[documents.getKeys()], pair.batch, key);
      })
      .Case([&](PackedDocumentsAttr documents) {
        int64_t document = findDocument(*reads[documents.getQueries()],
                                        pair.batch, pair.query);
        return document >= 0 &&
               document ==
                   findDocument(*reads[documents.getKeys()], pair.batch, key);
      })
      .Case([&](TreeAttr tree) {
        return isAncestor(*reads[tree.getParents()], pair);
      })
      .Case([&](BlockSparseAttr blocks) {
        return isListed(blocks, pair, *reads[blocks.getOffsets()],
                        *reads[blocks.getIndices()]);
      })
      .Default([](Attribute) -> bool {
        llvm::report_fatal_error("the reference does not know a mask");
      });
}

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

using Words = std::array<uint32_t, 4>;

/// The place of a pair's bit among the words of a keep mask.
static void findBit(int64_t query, int64_t key, int64_t &queryWord,
                    int64_t &keyWord, unsigned &bit) {
  queryWord = query / 16 * 8 + query % 8;
  keyWord = key / 16;
  unsigned s = query / 8 % 2, h = key / 8 % 2, c = key / 2 % 4, e = key % 2;
  bit = 16 * e + 4 * c + 2 * h + s;
}

bool mlir::attn::fuzz::isKeptByWords(const DenseElements &words,
                                     MaskLayout layout, int64_t batch,
                                     int64_t head, int64_t query, int64_t key) {
  int64_t queryWord, keyWord;
  unsigned bit;
  findBit(query, key, queryWord, keyWord, bit);
  int64_t position = layout == MaskLayout::Rows
                         ? words.getPosition({batch, head, queryWord, keyWord})
                         : words.getPosition({batch, head, keyWord, queryWord});
  return uint32_t(words.integers[position]) >> bit & 1;
}

static Words generatePhilox(uint32_t k0, uint32_t k1, Words x, int64_t rounds) {
  for (int64_t n = 0; n < rounds; ++n) {
    uint64_t a = uint64_t(0xD2511F53) * x[0], b = uint64_t(0xCD9E8D57) * x[2];
    x = {uint32_t(b >> 32) ^ x[1] ^ k0, uint32_t(b),
         uint32_t(a >> 32) ^ x[3] ^ k1, uint32_t(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return x;
}

static Words generateThreefry(uint32_t k0, uint32_t k1, Words x,
                              int64_t rounds) {
  static constexpr int rotations[8][2] = {{10, 26}, {11, 21}, {13, 27},
                                          {23, 5},  {6, 20},  {17, 11},
                                          {25, 10}, {18, 20}};
  uint32_t keys[5] = {k0, k1, 0, 0, 0x1BD11BDA ^ k0 ^ k1};
  for (int i = 0; i < 4; ++i)
    x[i] += keys[i];
  for (int64_t n = 0; n < rounds; ++n) {
    int even = n % 2 ? 3 : 1, odd = n % 2 ? 1 : 3;
    x[0] += x[even];
    x[even] = llvm::rotl(x[even], rotations[n % 8][0]) ^ x[0];
    x[2] += x[odd];
    x[odd] = llvm::rotl(x[odd], rotations[n % 8][1]) ^ x[2];
    if (n % 4 != 3)
      continue;
    uint32_t group = (n + 1) / 4;
    for (int i = 0; i < 4; ++i)
      x[i] += keys[(group + i) % 5];
    x[3] += group;
  }
  return x;
}

static Words generateArx(uint32_t k0, uint32_t k1, Words x, int64_t rounds) {
  for (uint32_t n = 0; n < rounds; ++n) {
    x[0] += x[1] + k0 + n * 0x9E3779B9;
    x[1] = llvm::rotl(x[1], 5) ^ x[0];
    x[0] = llvm::rotl(x[0], 16);
    x[2] += x[3] + k1 + n * 0xBB67AE85;
    x[3] = llvm::rotl(x[3], 8) ^ x[2];
    x[0] += x[3];
    x[3] = llvm::rotl(x[3], 13) ^ x[0];
    x[2] += x[1];
    x[1] = llvm::rotl(x[1], 7) ^ x[2];
    x[2] = llvm::rotl(x[2], 16);
  }
  return x;
}

static Words generate(Attribute rng, uint32_t k0, uint32_t k1, Words counter) {
  if (auto philox = dyn_cast<PhiloxAttr>(rng))
    return generatePhilox(k0, k1, counter, philox.getRounds());
  if (auto threefry = dyn_cast<ThreefryAttr>(rng))
    return generateThreefry(k0, k1, counter, threefry.getRounds());
  return generateArx(k0, k1, counter, cast<ArxAttr>(rng).getRounds());
}

bool mlir::attn::fuzz::isKeptByDropout(DropoutAttr dropout, uint64_t seed,
                                       uint64_t offset, const MaskPair &pair) {
  Attribute rng = dropout.getRng();
  Words stream = generate(rng, seed, seed >> 32,
                          {uint32_t(offset), uint32_t(offset >> 32),
                           uint32_t(pair.batch), uint32_t(pair.head)});
  int64_t queryWord, keyWord;
  unsigned bit;
  findBit(pair.query, pair.key, queryWord, keyWord, bit);
  int64_t bits = dropout.getBits(), number = 0;
  for (int64_t m = 0; m < bits; ++m) {
    Words words = generate(rng, stream[0], stream[1],
                           {uint32_t(4 * keyWord + m / 4), uint32_t(queryWord),
                            stream[2], stream[3]});
    number = number * 2 + (words[m % 4] >> bit & 1);
  }
  double p = dropout.getP().convertToDouble();
  return number >= std::llround(std::ldexp(p, bits));
}
