//===- StreamingOpInterface.td - Reductions over keys ------*- tablegen -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface of operations whose kernels stream tiles of keys and values.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_IR_STREAMINGOPINTERFACE_TD
#define ATTN_DIALECT_ATTNTILE_IR_STREAMINGOPINTERFACE_TD

include "attn/Dialect/Attn/IR/AttnInterfaces.td"
include "mlir/IR/OpBase.td"

def AttnTile_StreamingOpInterface
    : OpInterface<"StreamingOpInterface", [Attn_AttentionOpInterface]> {
  let cppNamespace = "::mlir::attn_tile";
  let description = [{
    An operation on (query, key) pairs that reduces the scores and values of all
    keys to a state of each query. `convert-attn-to-attn-tile` writes its kernel:
    the loops over work items and KV tiles, loads, scores, masks and KV addressing
    come from `AttentionOpInterface`, the code of the reduction from this interface:

    ```
    state = emitInitState
    for each KV tile that the mask keeps
      state = emitStep(scores, state)
    emitFinalize(state)
    ```

    With split-KV, several work items have some of the KV tiles each. They end with
    `emitFinalizeSplit`, which stores partial results, and a kernel that runs
    afterwards merges these by `emitCombine`:

    ```
    state = emitInitCombined
    for some splits at a time
      state = emitCombine(state)
    emitFinalizeCombined(state)
    ```

    The first destination is the output, `[B, Hq, Sq, Dv]`. The other ones have an
    f32 for each query: row results, numbered from 0 on.

    `attn.attention` implements the interface with the online softmax by an external
    model.
  }];
  let methods = [
    InterfaceMethod<[{
        Checks that kernels can have `schedule`, which fits the target; reports
        why not.
      }],
      "::llvm::LogicalResult", "verifyKernelSchedule",
      (ins "::mlir::attn::ScheduleAttrInterface":$schedule),
      /*methodBody=*/"", /*defaultImplementation=*/"return ::mlir::success();">,
    InterfaceMethod<[{
        Operands that the code of the reduction reads, in addition to the operands
        of `AttentionOpInterface`. They become arguments of the kernel
        (`StreamedTile::getArgument`).
      }],
      "::llvm::SmallVector<::mlir::Value>", "getReductionOperands", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        Values of a work item that do not depend on its keys, for
        `StreamedTile::prepared`.
      }],
      "::llvm::SmallVector<::mlir::Value>", "emitPrepared",
      (ins "::mlir::attn_tile::StreamedTile &":$tile), /*methodBody=*/"",
      /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        The largest factor of scores that the code of the reduction takes for each
        work item (`StreamedTile::factors`); `std::nullopt` if it takes none.
      }],
      "::std::optional<double>", "getMaxScoreFactor", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return ::std::nullopt;">,
    InterfaceMethod<[{
        Whether the results of a work item depend on keys, an `i1`; null if they
        always may.
      }],
      "::mlir::Value", "emitNeedsKeys",
      (ins "::mlir::attn_tile::StreamedTile &":$tile), /*methodBody=*/"",
      /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        The state before the first step, which queries without keys keep.
      }],
      "::llvm::SmallVector<::mlir::Value>", "emitInitState",
      (ins "::mlir::attn_tile::StreamedTile &":$tile)>,
    InterfaceMethod<[{
        Adds a KV tile to `state`. `scores` is a tile of f32; a score is its
        element times `StreamedTile::scoreFactor`, or times a factor of
        `StreamedTile::factors`. Pairs that are masked, and keys beyond the last
        one, have elements of -inf. A method of `tile` loads the values.
      }],
      "::llvm::SmallVector<::mlir::Value>", "emitStep",
      (ins "::mlir::attn_tile::StreamedTile &":$tile, "::mlir::Value":$scores,
           "::mlir::ValueRange":$state)>,
    InterfaceMethod<"Stores the output and the row results.",
      "void", "emitFinalize",
      (ins "::mlir::attn_tile::StreamedTile &":$tile,
           "::mlir::ValueRange":$state)>,

    // Split-KV.
    InterfaceMethod<[{
        Why results of KV splits cannot be combined; `std::nullopt` if they can.
      }],
      "::std::optional<::std::string>", "whyNotSplitKV", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return "it does not define how results of KV splits are combined";
      }]>,
    InterfaceMethod<[{
        The number of f32 values that a KV split stores for each query, in
        addition to its output.
      }],
      "int64_t", "getNumSplitStatistics", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return 0;">,
    InterfaceMethod<[{
        Stores the output of a KV split, in f32, and its statistics, which take
        the place of row results. A split without keys of its own has the state of
        another one (`StreamedTile::emitIsSplitEmpty`).
      }],
      "void", "emitFinalizeSplit",
      (ins "::mlir::attn_tile::StreamedTile &":$tile,
           "::mlir::ValueRange":$state), /*methodBody=*/"",
      /*defaultImplementation=*/"return;">,
    InterfaceMethod<[{
        Operands that the code that combines splits reads. They become arguments of
        its kernel (`CombinedElement::loadOperand`).
      }],
      "::llvm::SmallVector<::mlir::Value>", "getCombinedOperands", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        The state of one element of the output before any split is combined.
      }],
      "::llvm::SmallVector<::mlir::Value>", "emitInitCombined",
      (ins "::mlir::attn_tile::CombinedElement &":$element), /*methodBody=*/"",
      /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        Adds the results of the `numSplits` splits that `element` loads to
        `state`.
      }],
      "::llvm::SmallVector<::mlir::Value>", "emitCombine",
      (ins "::mlir::attn_tile::CombinedElement &":$element,
           "::mlir::ValueRange":$state,
           "int64_t":$numSplits),
      /*methodBody=*/"",
      /*defaultImplementation=*/"return ::llvm::to_vector(state);">,
    InterfaceMethod<"Stores the element of the output, and the row results.",
      "void", "emitFinalizeCombined",
      (ins "::mlir::attn_tile::CombinedElement &":$element,
           "::mlir::ValueRange":$state), /*methodBody=*/"",
      /*defaultImplementation=*/"return;">,

    // Clusters, fused operations and packed heads.
    InterfaceMethod<[{
        Why work items of neighbouring query tiles cannot iterate over keys
        together; `std::nullopt` if they can.
      }],
      "::std::optional<::std::string>", "whyNotCluster", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return "it has no form for clusters";
      }]>,
    InterfaceMethod<"The region that maps elements of queries, or null.",
      "::mlir::Region *", "getQueryMap", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return nullptr;">,
    InterfaceMethod<"The region that maps elements of the output, or null.",
      "::mlir::Region *", "getOutputMap", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return nullptr;">,
    InterfaceMethod<"The block mask, or null.",
      "::mlir::Value", "getTileLists", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        Why the query heads of a GQA group cannot be rows of one query tile;
        `std::nullopt` if they can.
      }],
      "::std::optional<::std::string>", "whyNotPackHeads", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return "it has no form with packed heads";
      }]>,
    InterfaceMethod<[{
        Replaces the operation by one whose query heads are rows; returns it.
      }],
      "::mlir::Operation *", "packHeads",
      (ins "::mlir::RewriterBase &":$rewriter), /*methodBody=*/"",
      /*defaultImplementation=*/"return $_op;">,
  ];
}

def AttnTile_StreamingGradOpInterface
    : OpInterface<"StreamingGradOpInterface", [Attn_AttentionOpInterface]> {
  let cppNamespace = "::mlir::attn_tile";
  let description = [{
    The gradient of a reduction over keys whose output is, for each query, the sum of
    the values times factors that depend on the scores. `convert-attn-to-attn-tile`
    writes its kernels: the loops over work items and tiles, loads, scores, masks,
    dropout, matmuls and the accumulation of dQ. The law of the reduction comes from
    this interface. First, for each query tile, two values of each row:

    ```
    emitRowValues
    ```

    Then, for each tile of scores, which may be transposed:

    ```
    F = emitFactors(scores)
    dV += drop(F)^T dO
    dF = dO V^T
    dS = emitScoreGrad(F, drop(F), dF)
    dK += dS^T Q
    dQ += dS K
    ```

    `attn.attention_grad` implements the interface with the gradient of the softmax by
    an external model.
  }];
  let methods = [
    InterfaceMethod<"The operands and destinations besides queries, keys and values.",
      "::mlir::attn_tile::GradOperands", "getGradOperands">,
    InterfaceMethod<[{
        The gradient of a score is the result of `emitScoreGrad` divided by this.
      }],
      "double", "getScoreGradFactor", (ins), /*methodBody=*/"",
      /*defaultImplementation=*/"return 1;">,
    InterfaceMethod<[{
        Stores values of each row that steps need. Rows that are no queries get
        values with which their factors and score gradients are zero.
      }],
      "void", "emitRowValues", (ins "::mlir::attn_tile::GradRows &":$rows)>,
    InterfaceMethod<[{
        The factors of the values, before dropout, a tile of f32. Masked scores are
        -inf. `row` has the stored value of each query.
      }],
      "::mlir::Value", "emitFactors",
      (ins "const ::mlir::attn_tile::GradTile &":$tile, "::mlir::Value":$scores,
           "::mlir::Value":$row)>,
    InterfaceMethod<[{
        The gradient of the scores, a tile of f32, times the factor. `kept` has the
        factors after dropout, which remain to be divided by the keep probability,
        and `factorGrad` is dO V^T.
      }],
      "::mlir::Value", "emitScoreGrad",
      (ins "const ::mlir::attn_tile::GradTile &":$tile, "::mlir::Value":$factors,
           "::mlir::Value":$kept, "::mlir::Value":$factorGrad,
           "::mlir::Value":$row)>,
    InterfaceMethod<[{
        Which scores have a gradient, a tile of `i1`. The gradients of the others
        are zero, whatever values a `score_mod_grad` region computes for them.
      }],
      "::mlir::Value", "emitHasScoreGrad",
      (ins "const ::mlir::attn_tile::GradTile &":$tile,
           "::mlir::Value":$factors)>,
  ];
}

#endif // ATTN_DIALECT_ATTNTILE_IR_STREAMINGOPINTERFACE_TD
