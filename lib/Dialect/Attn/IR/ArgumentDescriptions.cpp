//===- ArgumentDescriptions.cpp - Operands for callers --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The names, equal sizes and aligned rows of operands, for callers of compiled
// functions (DescribableOpInterface).
//
//===----------------------------------------------------------------------===//

#include "attn/Dialect/Attn/IR/AttnLinearOps.h"
#include "attn/Dialect/Attn/IR/AttnMergeOps.h"
#include "attn/Dialect/Attn/IR/AttnOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::attn;

using Names = SmallVector<DescribedOperand>;
using Sizes = SmallVector<SizeOfOperand>;
using EqualSizesList = SmallVector<EqualOperandSizes>;

/// Adds dimension `dim` of the operands that exist.
static void addSizes(Sizes &sizes, ArrayRef<Value> operands, int64_t dim) {
  for (Value operand : operands)
    if (operand)
      sizes.emplace_back(operand, dim);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

static Names getNamesOfAttention(AttentionOpInterface op, Value blockMask) {
  Names names;
  for (const AttentionOperand &operand : op.getShapedOperands())
    names.push_back({operand.value, operand.argumentName.str()});
  for (const HeadOperand &operand : op.getHeadOperands())
    names.push_back({operand.value, operand.argumentName.str()});
  if (op.hasSequences())
    names.append({{op.getQuerySequences(), "q_sequences"},
                  {op.getKeySequences(), "k_sequences"}});
  names.append(
      {{op.getKeyLengths(), "key_lengths"}, {op.getPageTable(), "page_table"}});
  names.push_back({op.getPositions(), "positions"});
  if (op.getDropoutAttr())
    names.append({{op.getSeed(), "seed"}, {op.getOffset(), "offset"}});
  names.append(
      {{op.getDropoutMask(), "dropout_mask"}, {blockMask, "block_mask"}});
  return names;
}

static EqualSizesList getSizesOfAttention(AttentionOpInterface op,
                                          Value blockMask) {
  Sizes batches, boundaries, pages, queries, keys, cached;
  Sizes &entries = op.hasPackedQueries() ? cached : batches;
  for (const AttentionOperand &operand : op.getShapedOperands()) {
    bool isPaged = op.getPageTable() && !operand.isQuerySide;
    Sizes &ofOperand = operand.isQuerySide ? batches : entries;
    (isPaged ? pages : ofOperand).emplace_back(operand.value, 0);
    (operand.isQuerySide ? queries : keys).emplace_back(operand.value, 2);
  }
  bool isPacked = op.getSequenceLayout() == SequenceLayout::Packed;
  // Packed queries have one more boundary than there are sequences.
  if (!op.hasPackedQueries())
    addSizes(isPacked ? boundaries : batches, op.getQuerySequences(), 0);
  addSizes(isPacked ? boundaries : entries, op.getKeySequences(), 0);
  addSizes(entries, {op.getKeyLengths(), op.getPageTable()}, 0);
  addSizes(batches, blockMask, 0);
  if (!isPacked)
    addSizes(batches, op.getDropoutMask(), 0);
  return {{"boundaries", boundaries}, {"batch", batches},
          {"sequences", cached},      {"pages", pages},
          {"queries", queries},       {"keys", keys}};
}

static SmallVector<Value> getStagedOfAttention(AttentionOpInterface op) {
  SmallVector<Value> staged;
  for (const AttentionOperand &operand : op.getShapedOperands())
    if (operand.headDim != HeadDimKind::None)
      staged.push_back(operand.value);
  return staged;
}

Names AttentionOp::getNamedOperands() {
  return getNamesOfAttention(*this, getBlockMask());
}

EqualSizesList AttentionOp::getEqualSizes() {
  return getSizesOfAttention(*this, getBlockMask());
}

SmallVector<Value> AttentionOp::getStagedOperands() {
  SmallVector<Value> staged = getStagedOfAttention(*this);
  // Threads of forward kernels read several words of a row at once.
  if (getMaskLayout() == MaskLayout::Rows)
    staged.push_back(getDropoutMask());
  return staged;
}

Names AttentionGradOp::getNamedOperands() {
  return getNamesOfAttention(*this, /*blockMask=*/nullptr);
}

EqualSizesList AttentionGradOp::getEqualSizes() {
  return getSizesOfAttention(*this, /*blockMask=*/nullptr);
}

SmallVector<Value> AttentionGradOp::getStagedOperands() {
  return getStagedOfAttention(*this);
}

//===----------------------------------------------------------------------===//
// MatmulOp
//===----------------------------------------------------------------------===//

Names MatmulOp::getNamedOperands() {
  return {{getLhs(), "lhs"}, {getRhs(), "rhs"}, {getOut(), "out"}};
}

EqualSizesList MatmulOp::getEqualSizes() {
  Value lhs = getLhs(), rhs = getRhs(), out = getOut();
  int64_t outRows = isBatched(out);
  Sizes batches;
  for (Value operand : {lhs, rhs, out})
    if (isBatched(operand))
      batches.emplace_back(operand, 0);
  return {{"rows", {{out, outRows}, {lhs, getLhsRowDim()}}},
          {"columns", {{out, outRows + 1}, {rhs, getRhsColumnDim()}}},
          {"depth", {{lhs, getLhsDepthDim()}, {rhs, getRhsDepthDim()}}},
          {"batch", batches}};
}

SmallVector<Value> MatmulOp::getStagedOperands() {
  SmallVector<Value> staged = {getLhs(), getRhs()};
  // Outputs in f32 are stored one by one.
  if (!getElementTypeOrSelf(getOut()).isF32())
    staged.push_back(getOut());
  return staged;
}

//===----------------------------------------------------------------------===//
// CacheAppendOp
//===----------------------------------------------------------------------===//

Names CacheAppendOp::getNamedOperands() {
  return {{getKey(), "k"},
          {getValue(), "v"},
          {getKeyLengths(), "key_lengths"},
          {getPageTable(), "page_table"},
          {getCos(), "cos"},
          {getSin(), "sin"},
          {getQuery(), "q"},
          {getKeyScale(), "k_scale"},
          {getValueScale(), "v_scale"},
          {getKeyCache(), "k_cache"},
          {getValueCache(), "v_cache"},
          {getRotatedQuery(), "rotated_q"},
          {getNewLengths(), "new_lengths"}};
}

EqualSizesList CacheAppendOp::getEqualSizes() {
  Sizes batches, pages, queries, keys, newKeys, positions;
  addSizes(batches, {getKey(), getValue(), getKeyLengths(), getPageTable()}, 0);
  addSizes(getPageTable() ? pages : batches, {getKeyCache(), getValueCache()},
           0);
  addSizes(batches, {getNewLengths(), getQuery(), getRotatedQuery()}, 0);
  addSizes(batches, {getKeyScale(), getValueScale()}, 0);
  addSizes(queries, {getQuery(), getRotatedQuery()}, 2);
  addSizes(keys, {getKeyCache(), getValueCache()}, 2);
  addSizes(newKeys, {getKey(), getValue()}, 2);
  addSizes(positions, {getCos(), getSin()}, 0);
  return {{"queries", queries},  {"batch", batches},
          {"pages", pages},      {"keys", keys},
          {"new_keys", newKeys}, {"positions", positions}};
}

SmallVector<Value> CacheAppendOp::getStagedOperands() {
  SmallVector<Value> staged = {getKey(), getValue(), getKeyCache(),
                               getValueCache()};
  if (getQuery())
    staged.append({getQuery(), getRotatedQuery()});
  if (hasAlignedTables())
    staged.append({getCos(), getSin()});
  return staged;
}

//===----------------------------------------------------------------------===//
// Linear attention
//===----------------------------------------------------------------------===//

/// Names the operands that linear attention and its gradient have.
template <typename OpTy>
static Names getSharedNames(OpTy op) {
  return {{op.getQuery(), "q"},
          {op.getKey(), "k"},
          {op.getValue(), "v"},
          {op.getLogDecay(), "log_decay"},
          {op.getBeta(), "beta"},
          {op.getInitialState(), "initial_state"},
          {op.getSequences(), "sequences"}};
}

/// The equal sizes of linear attention or its gradient, with operands `names`,
/// of which `states` have no tokens.
template <typename OpTy>
static EqualSizesList getSizesOfLinear(OpTy op, ArrayRef<Value> states) {
  Sizes batches, tokens, sequences;
  for (const DescribedOperand &operand : op.getNamedOperands()) {
    Value value = operand.value;
    int64_t rank = value ? cast<ShapedType>(value.getType()).getRank() : 0;
    bool isState = llvm::is_contained(states, value);
    // One log-decay a head belongs to no batch entry. Packed sequences have
    // states of their own.
    if (rank > 1)
      (isState && op.getSequences() ? sequences : batches)
          .emplace_back(value, 0);
    if (rank > 2 && !isState)
      tokens.emplace_back(value, 2);
  }
  return {{"batch", batches}, {"tokens", tokens}, {"states", sequences}};
}

Names LinearAttentionOp::getNamedOperands() {
  Names names = getSharedNames(*this);
  names.append({{getKeyLengths(), "key_lengths"},
                {getOut(), "out"},
                {getFinalState(), "final_state"}});
  return names;
}

EqualSizesList LinearAttentionOp::getEqualSizes() {
  EqualSizesList sizes =
      getSizesOfLinear(*this, {getInitialState(), getFinalState()});
  if (getKeyLengths())
    sizes.front().sizes.emplace_back(getKeyLengths(), 0);
  return sizes;
}

SmallVector<Value> LinearAttentionOp::getStagedOperands() {
  SmallVector<Value> staged = {getQuery(), getKey(), getValue(), getOut()};
  if (hasElementDecay())
    staged.push_back(getLogDecay());
  // The kernel for few tokens accesses neighbours of a state together.
  for (Value state : {getInitialState(), getFinalState()})
    if (state && mayHaveAlignedRows(state))
      staged.push_back(state);
  return staged;
}

Names LinearAttentionGradOp::getNamedOperands() {
  Names names = getSharedNames(*this);
  names.append({{getDout(), "dout"},
                {getDfinalState(), "dfinal_state"},
                {getDquery(), "dq"},
                {getDkey(), "dk"},
                {getDvalue(), "dv"},
                {getDlogDecay(), "dlog_decay"},
                {getDbeta(), "dbeta"},
                {getDinitialState(), "dinitial_state"}});
  return names;
}

EqualSizesList LinearAttentionGradOp::getEqualSizes() {
  return getSizesOfLinear(
      *this, {getInitialState(), getDfinalState(), getDinitialState()});
}

SmallVector<Value> LinearAttentionGradOp::getStagedOperands() {
  SmallVector<Value> staged = {getQuery(),  getKey(),  getValue(), getDout(),
                               getDquery(), getDkey(), getDvalue()};
  if (hasElementDecay())
    staged.push_back(getLogDecay());
  return staged;
}

//===----------------------------------------------------------------------===//
// Merges
//===----------------------------------------------------------------------===//

static void addNumbered(Names &names, StringRef name, ValueRange values) {
  for (auto [number, value] : llvm::enumerate(values))
    names.push_back({value, (name + Twine(number)).str()});
}

static EqualSizesList getSizesOfMerge(const Names &names) {
  Sizes batches, queries;
  for (const DescribedOperand &operand : names) {
    addSizes(batches, operand.value, 0);
    addSizes(queries, operand.value, 2);
  }
  return {{"batch", batches}, {"queries", queries}};
}

/// The outputs and their gradients, whose rows have a head dim.
static SmallVector<Value> getStagedOfMerge(Operation *op) {
  return llvm::filter_to_vector(op->getOperands(), [](Value operand) {
    return cast<ShapedType>(operand.getType()).getRank() == 4;
  });
}

Names MergeOp::getNamedOperands() {
  Names names;
  addNumbered(names, "out", getPartialOuts());
  addNumbered(names, "lse", getPartialLses());
  names.append({{getOut(), "out"}, {getLse(), "lse"}});
  return names;
}

EqualSizesList MergeOp::getEqualSizes() {
  return getSizesOfMerge(getNamedOperands());
}

SmallVector<Value> MergeOp::getStagedOperands() {
  return getStagedOfMerge(*this);
}

Names MergeGradOp::getNamedOperands() {
  Names names;
  addNumbered(names, "out", getPartialOuts());
  addNumbered(names, "lse", getPartialLses());
  names.append({{getDout(), "dout"}, {getDlse(), "dlse"}});
  addNumbered(names, "dout", getDpartialOuts());
  addNumbered(names, "dlse", getDpartialLses());
  return names;
}

EqualSizesList MergeGradOp::getEqualSizes() {
  return getSizesOfMerge(getNamedOperands());
}

SmallVector<Value> MergeGradOp::getStagedOperands() {
  return getStagedOfMerge(*this);
}
