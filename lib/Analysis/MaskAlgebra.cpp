//===- MaskAlgebra.cpp - Simplification of masks --------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Masks are brought into a form in which only single masks are negated. Parts
// of conjunctions and disjunctions are merged where the interface knows a mask
// for both, and left out where the others make them redundant.
//
//===----------------------------------------------------------------------===//

#include "attn/Analysis/MaskAlgebra.h"
#include "attn/Dialect/Attn/IR/AttnAttrs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::attn;

/// Work of all questions about a mask, in operations on coefficients.
static constexpr int64_t maxSimplificationWork = 100'000'000;

/// Parts of masks, and formulas, that are compared with one another.
static constexpr size_t maxMergedParts = 64;
static constexpr unsigned maxRecognitionSteps = 1024;

//===----------------------------------------------------------------------===//
// MaskScope
//===----------------------------------------------------------------------===//

MaskScope::MaskScope(MLIRContext *context, int64_t queryLength,
                     int64_t keyLength)
    : builder(context), queryLength(queryLength), keyLength(keyLength),
      budget(maxSimplificationWork) {
  Block &block = region.emplaceBlock();
  Location loc = builder.getUnknownLoc();
  builder.setInsertionPointToEnd(&block);
  auto addArgument = [&]() -> Value {
    return block.addArgument(builder.getIndexType(), loc);
  };
  auto addLength = [&](int64_t length) -> Value {
    if (ShapedType::isDynamic(length))
      return addArgument();
    return arith::ConstantIndexOp::create(builder, loc, length);
  };
  positions.batch = addArgument();
  positions.head = addArgument();
  positions.query = addArgument();
  positions.key = addArgument();
  positions.queryLength = addLength(queryLength);
  positions.keyLength = addLength(keyLength);
}

Value MaskScope::getPredicate(MaskAttrInterface mask) {
  Value &predicate = predicates[mask];
  if (predicate)
    return predicate;
  return predicate = mask.emitPredicate(
             builder, builder.getUnknownLoc(),
             {positions.batch, positions.head, positions.query, positions.key,
              positions.queryLength, positions.keyLength});
}

void MaskScope::clone(Region &region, IRMapping &mapping) {
  mapping.map(region.getArguments().take_back(4),
              ArrayRef<Value>{positions.batch, positions.head, positions.query,
                              positions.key});
  for (Operation &op : region.front().without_terminator())
    builder.clone(op, mapping);
}

Value MaskScope::clonePredicate(Region &maskMod, IRMapping mapping) {
  clone(maskMod, mapping);
  return mapping.lookupOrDefault(
      maskMod.front().getTerminator()->getOperand(0));
}

bool MaskScope::isNever(ArrayRef<Literal> literals) {
  // Reading a predicate takes work, too.
  if (!budget.spend(int64_t(literals.size()) * 1000))
    return false;
  MaskAnalysis analysis(positions, &budget);
  for (const Literal &literal : literals)
    analysis.restrict(literal.predicate, literal.isNegated);
  return analysis.isNever();
}

//===----------------------------------------------------------------------===//
// Simplification
//===----------------------------------------------------------------------===//

namespace {
/// Simplifies masks. Null stands for the mask that keeps all pairs.
class Simplifier {
public:
  Simplifier(MaskScope &scope, MLIRContext *context)
      : scope(scope), context(context) {}

  /// `mask` or its negation.
  MaskAttrInterface rewrite(MaskAttrInterface mask, bool negated);

private:
  MaskAttrInterface simplifySingle(MaskAttrInterface mask, bool negated);
  MaskAttrInterface combine(ArrayRef<MaskAttrInterface> masks, bool isAnd,
                            bool negated);
  /// Replaces pairs of parts by one mask.
  void merge(SmallVectorImpl<MaskAttrInterface> &parts, bool isAnd);
  /// Drops parts that the others imply.
  void dropRedundant(SmallVectorImpl<MaskAttrInterface> &parts, bool isAnd);
  /// Whether the combination of `parts` is the one that absorbs all others.
  bool isAbsorbing(ArrayRef<MaskAttrInterface> parts, bool isAnd);

  MaskAttrInterface getNone() { return NoneAttr::get(context); }

  MaskScope &scope;
  MLIRContext *context;
};
} // namespace

MaskAttrInterface Simplifier::simplifySingle(MaskAttrInterface mask,
                                             bool negated) {
  int64_t queryLength = scope.getStaticQueryLength();
  int64_t keyLength = scope.getStaticKeyLength();
  mask = mask.simplify(queryLength, keyLength);
  std::optional<bool> constant;
  if (ShapedType::isStatic(queryLength) && ShapedType::isStatic(keyLength))
    constant = mask.getConstantValue(queryLength, keyLength);
  if (scope.isExhausted())
    return negated ? NotAttr::get(context, mask) : mask;
  Value predicate = scope.getPredicate(mask);
  if (constant == negated || scope.isNever({{predicate, negated}}))
    return getNone();
  if (constant == !negated || scope.isNever({{predicate, !negated}}))
    return nullptr;
  return negated ? NotAttr::get(context, mask) : mask;
}

bool Simplifier::isAbsorbing(ArrayRef<MaskAttrInterface> parts, bool isAnd) {
  if (scope.isExhausted())
    return false;
  SmallVector<MaskScope::Literal> literals;
  for (MaskAttrInterface part : parts)
    literals.push_back({scope.getPredicate(part), /*isNegated=*/!isAnd});
  return scope.isNever(literals);
}

void Simplifier::merge(SmallVectorImpl<MaskAttrInterface> &parts, bool isAnd) {
  auto mergeTwo = [&](MaskAttrInterface lhs, MaskAttrInterface rhs) {
    if (lhs == rhs)
      return lhs;
    if (MaskAttrInterface merged =
            isAnd ? lhs.getIntersection(rhs) : lhs.getUnion(rhs))
      return merged;
    return isAnd ? rhs.getIntersection(lhs) : rhs.getUnion(lhs);
  };
  // Each part is compared with the first ones that are kept, so that the work
  // grows with the number of parts.
  SmallVector<MaskAttrInterface> kept;
  for (MaskAttrInterface part : parts) {
    size_t place = kept.size();
    for (size_t i = 0; i < std::min(kept.size(), maxMergedParts);) {
      MaskAttrInterface merged = mergeTwo(kept[i], part);
      if (!merged) {
        ++i;
        continue;
      }
      // It may go with parts that were looked at before.
      part = merged;
      kept.erase(kept.begin() + i);
      place = std::min(place, i);
      i = 0;
    }
    kept.insert(kept.begin() + std::min(place, kept.size()), part);
  }
  parts.assign(kept.begin(), kept.end());
}

void Simplifier::dropRedundant(SmallVectorImpl<MaskAttrInterface> &parts,
                               bool isAnd) {
  // A part of a conjunction is redundant if no pair that the others keep is one
  // that it leaves out; of a disjunction, if it keeps none that they leave out.
  if (parts.size() > maxMergedParts)
    return;
  for (unsigned i = parts.size(); i-- > 0 && !scope.isExhausted();) {
    SmallVector<MaskScope::Literal> literals;
    for (auto [index, part] : llvm::enumerate(parts))
      literals.push_back(
          {scope.getPredicate(part), /*isNegated=*/isAnd == (index == i)});
    if (scope.isNever(literals))
      parts.erase(parts.begin() + i);
  }
}

MaskAttrInterface Simplifier::combine(ArrayRef<MaskAttrInterface> masks,
                                      bool isAnd, bool negated) {
  // De Morgan.
  isAnd ^= negated;
  SmallVector<MaskAttrInterface> parts;
  for (MaskAttrInterface mask : masks) {
    MaskAttrInterface part = rewrite(mask, negated);
    bool isNone = isa_and_nonnull<NoneAttr>(part);
    if (!part || isNone) {
      if (isAnd == isNone)
        return part;
      continue;
    }
    ArrayRef<MaskAttrInterface> nested = part;
    if (auto conjunction = dyn_cast<AndAttr>(part); conjunction && isAnd)
      nested = conjunction.getMasks();
    if (auto disjunction = dyn_cast<OrAttr>(part); disjunction && !isAnd)
      nested = disjunction.getMasks();
    llvm::append_range(parts, nested);
  }
  merge(parts, isAnd);
  if (isAbsorbing(parts, isAnd))
    return isAnd ? getNone() : nullptr;
  dropRedundant(parts, isAnd);
  if (parts.empty())
    return isAnd ? nullptr : getNone();
  if (parts.size() == 1)
    return parts.front();
  if (isAnd)
    return AndAttr::get(context, parts);
  return OrAttr::get(context, parts);
}

MaskAttrInterface Simplifier::rewrite(MaskAttrInterface mask, bool negated) {
  return TypeSwitch<Attribute, MaskAttrInterface>(mask)
      .Case([&](AndAttr composite) {
        return combine(composite.getMasks(), /*isAnd=*/true, negated);
      })
      .Case([&](OrAttr composite) {
        return combine(composite.getMasks(), /*isAnd=*/false, negated);
      })
      .Case([&](NotAttr composite) {
        return rewrite(composite.getMask(), !negated);
      })
      .Default([&](Attribute) { return simplifySingle(mask, negated); });
}

MaskAttrInterface attn::simplifyMask(MaskScope &scope, MaskAttrInterface mask) {
  Simplifier simplifier(scope, mask.getContext());
  MaskAttrInterface original = mask;
  while (true) {
    MaskAttrInterface next = simplifier.rewrite(mask, /*negated=*/false);
    // A mask that is not in its simplest form would be rewritten again.
    if (scope.isExhausted())
      return original;
    if (!next || next == mask)
      return next;
    mask = next;
  }
}

//===----------------------------------------------------------------------===//
// Recognition
//===----------------------------------------------------------------------===//

namespace {
/// Finds named masks for formulas.
class Recognizer {
public:
  Recognizer(MaskAnalysis &analysis, MLIRContext *context)
      : analysis(analysis), context(context),
        query(analysis.getPosition(MaskDim::Query)),
        key(analysis.getPosition(MaskDim::Key)),
        bottomRight(query + analysis.getLength(MaskDim::Key) -
                    analysis.getLength(MaskDim::Query)) {}

  /// Null if no mask is known.
  MaskAttrInterface recognize(const Formula &formula);

private:
  MaskAttrInterface recognizeRow(const LinearForm &row);
  MaskAttrInterface recognizeBand(const LinearForm &row, bool keyIsAbove,
                                  MaskAlignment alignment, bool mayBeNegative);
  MaskAttrInterface recognizeBlocks(const LinearForm &row);
  MaskAttrInterface recognizeParts(const Formula &formula);
  /// A disjunction of rows that are no masks by themselves.
  MaskAttrInterface recognizeUnion(ArrayRef<Formula> parts);

  const LinearForm &getDiagonal(MaskAlignment alignment) {
    return alignment == MaskAlignment::TopLeft ? query : bottomRight;
  }
  static constexpr MaskAlignment alignments[] = {MaskAlignment::BottomRight,
                                                 MaskAlignment::TopLeft};

  MaskAnalysis &analysis;
  MLIRContext *context;
  LinearForm query, key, bottomRight;
  /// Formulas that have been looked at: the parts of a conjunction and their
  /// negations count, too.
  unsigned numSteps = 0;
};
} // namespace

/// Constants out of the bounds of parameters are not worth recognising.
static bool isParameter(int64_t value) {
  return value >= 0 && value < int64_t(1) << 30;
}

/// `key <= diagonal + c`, or `key >= diagonal - c` if `keyIsAbove`.
MaskAttrInterface Recognizer::recognizeBand(const LinearForm &row,
                                            bool keyIsAbove,
                                            MaskAlignment alignment,
                                            bool mayBeNegative) {
  LinearForm distance = getDiagonal(alignment) - key;
  LinearForm rest = row - (keyIsAbove ? distance * -1 : distance);
  if (!rest.isConstant())
    return nullptr;
  auto getSide = [&](bool isLeft, int64_t side) -> MaskAttrInterface {
    std::optional<int64_t> none;
    return SlidingWindowAttr::get(context, isLeft ? side : none,
                                  isLeft ? none : side, alignment);
  };
  if (isParameter(rest.constant))
    return getSide(keyIsAbove, rest.constant);
  // Pairs on the far side of the diagonal are all pairs but a window's.
  int64_t other = -rest.constant - 1;
  if (!mayBeNegative || !isParameter(other))
    return nullptr;
  return NotAttr::get(context, getSide(!keyIsAbove, other));
}

/// The variables `a` and `b` of a row `a - b + constant`.
static std::optional<std::pair<unsigned, unsigned>>
getDifference(const LinearForm &row) {
  std::optional<unsigned> positive, negative;
  for (auto [variable, coefficient] : llvm::enumerate(row.coefficients)) {
    if (coefficient == 0)
      continue;
    std::optional<unsigned> &place = coefficient > 0 ? positive : negative;
    if (std::abs(coefficient) != 1 || place)
      return std::nullopt;
    place = variable;
  }
  if (!positive || !negative)
    return std::nullopt;
  return std::pair(*positive, *negative);
}

/// A comparison of the numbers of blocks of the key and the diagonal.
MaskAttrInterface Recognizer::recognizeBlocks(const LinearForm &row) {
  std::optional<std::pair<unsigned, unsigned>> difference = getDifference(row);
  if (!difference)
    return nullptr;
  const MaskAnalysis::Variable &lhs = analysis.getVariable(difference->first);
  const MaskAnalysis::Variable &rhs = analysis.getVariable(difference->second);
  if (lhs.kind != MaskAnalysis::VariableKind::Floor ||
      rhs.kind != MaskAnalysis::VariableKind::Floor)
    return nullptr;
  if (lhs.divisor != rhs.divisor || !isParameter(lhs.divisor))
    return nullptr;
  bool keyIsAbove = lhs.form == key;
  if (!keyIsAbove && !(rhs.form == key))
    return nullptr;
  const LinearForm &diagonal = keyIsAbove ? rhs.form : lhs.form;
  auto getSide = [&](bool isBefore, int64_t side,
                     MaskAlignment alignment) -> MaskAttrInterface {
    std::optional<int64_t> none;
    return LocalBlocksAttr::get(context, lhs.divisor, isBefore ? side : none,
                                isBefore ? none : side, alignment);
  };
  for (MaskAlignment alignment : alignments) {
    if (!(diagonal == getDiagonal(alignment)))
      continue;
    if (isParameter(row.constant))
      return getSide(keyIsAbove, row.constant, alignment);
    if (int64_t other = -row.constant - 1; isParameter(other))
      return NotAttr::get(context, getSide(!keyIsAbove, other, alignment));
  }
  return nullptr;
}

MaskAttrInterface Recognizer::recognizeRow(const LinearForm &row) {
  for (bool mayBeNegative : {false, true})
    for (MaskAlignment alignment : alignments)
      for (bool keyIsAbove : {false, true})
        if (MaskAttrInterface mask =
                recognizeBand(row, keyIsAbove, alignment, mayBeNegative))
          return mask;
  return recognizeBlocks(row);
}

static void flatten(const Formula &formula, Formula::Kind kind,
                    SmallVectorImpl<Formula> &parts) {
  if (formula.kind != kind) {
    parts.push_back(formula);
    return;
  }
  for (const Formula &part : formula.getParts())
    flatten(part, kind, parts);
}

MaskAttrInterface Recognizer::recognizeUnion(ArrayRef<Formula> parts) {
  SmallVector<MaskAttrInterface> masks;
  // Numbers of first queries and keys that are kept.
  std::optional<int64_t> numQueries, numKeys;
  for (const Formula &part : parts) {
    if (MaskAttrInterface mask = recognize(part)) {
      masks.push_back(mask);
      continue;
    }
    if (part.kind != Formula::Kind::AtLeastZero)
      return nullptr;
    LinearForm ofQuery = part.form + query, ofKey = part.form + key;
    std::optional<int64_t> &number =
        ofQuery.isConstant() ? numQueries : numKeys;
    const LinearForm &rest = ofQuery.isConstant() ? ofQuery : ofKey;
    if (!rest.isConstant() || number || !isParameter(rest.constant + 1))
      return nullptr;
    number = rest.constant + 1;
  }
  if (numQueries) {
    if (numQueries != numKeys)
      return nullptr;
    masks.push_back(GlobalTokensAttr::get(context, *numQueries));
  } else if (numKeys) {
    for (MaskAlignment alignment : alignments) {
      auto causal = SlidingWindowAttr::get(context, std::nullopt, 0, alignment);
      auto *place = llvm::find(masks, MaskAttrInterface(causal));
      if (place == masks.end())
        continue;
      *place = PrefixLMAttr::get(context, *numKeys, alignment);
      return OrAttr::get(context, masks);
    }
    return nullptr;
  }
  return OrAttr::get(context, masks);
}

MaskAttrInterface Recognizer::recognizeParts(const Formula &formula) {
  SmallVector<Formula> parts;
  flatten(formula, formula.kind, parts);
  if (formula.kind == Formula::Kind::Or)
    return recognizeUnion(parts);
  SmallVector<MaskAttrInterface> masks;
  for (const Formula &part : parts) {
    masks.push_back(recognize(part));
    if (!masks.back())
      break;
  }
  if (masks.back())
    return AndAttr::get(context, masks);
  // The negation of a union may have a name where its parts have none.
  Formula negated = negate(formula);
  if (negated.kind != Formula::Kind::Or)
    return nullptr;
  parts.clear();
  flatten(negated, Formula::Kind::Or, parts);
  MaskAttrInterface mask = recognizeUnion(parts);
  return mask ? MaskAttrInterface(NotAttr::get(context, mask)) : nullptr;
}

MaskAttrInterface Recognizer::recognize(const Formula &formula) {
  if (++numSteps > maxRecognitionSteps)
    return nullptr;
  switch (formula.kind) {
  case Formula::Kind::True:
  case Formula::Kind::Unknown:
    return nullptr;
  case Formula::Kind::False:
    return NoneAttr::get(context);
  case Formula::Kind::AtLeastZero:
    return recognizeRow(formula.form);
  case Formula::Kind::And:
  case Formula::Kind::Or:
    return recognizeParts(formula);
  }
  llvm_unreachable("unknown kind of formula");
}

MaskAttrInterface MaskScope::recognize(Value predicate) {
  MaskAnalysis analysis(positions);
  Formula formula = analysis.getFormula(predicate);
  return Recognizer(analysis, predicate.getContext()).recognize(formula);
}
