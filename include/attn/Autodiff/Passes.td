//===- Passes.td - Differentiation ------------------------*- tablegen -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes that differentiate functions and regions.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_AUTODIFF_PASSES_TD
#define ATTN_AUTODIFF_PASSES_TD

include "attn/Support/PassBase.td"

def AttnDeriveScoreGradPass : Attn_Pass<"attn-derive-score-grad"> {
  let summary = "write out the gradient of each score_mod region";
  let description = [{
    Adds a `score_mod_grad` region to each `attn.attention_grad` that has a `score_mod`
    region but no `score_mod_grad`: the derivative, operation by operation, through
    `DifferentiableOpInterface`. An operation that cannot be differentiated is an
    error.

    ```mlir
    score_mod {
    ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index):
      %t = math.tanh %s : f32
      attn.yield %t : f32
    }
    ```

    gets

    ```mlir
    score_mod_grad {
    ^bb0(%s: f32, %ds: f32, %b: index, %h: index, %i: index, %j: index):
      %one = arith.constant 1.0 : f32
      %t = math.tanh %s : f32
      %t2 = arith.mulf %t, %t : f32
      %slope = arith.subf %one, %t2 : f32
      %dx = arith.mulf %ds, %slope : f32
      attn.yield %dx : f32
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::attn::AttnDialect",
    "::mlir::math::MathDialect", "::mlir::scf::SCFDialect"];
}

def AttnDifferentiatePass : Attn_Pass<"attn-differentiate", "::mlir::ModuleOp"> {
  let summary = "add functions that compute gradients";
  let description = [{
    For a function `@f` of one block on tensors, adds in mode `pair`

    ```mlir
    func.func @f_fwd(args...) -> (results..., saved...)
    func.func @f_bwd(args..., results..., saved..., dresults...) -> (dargs...)
    ```

    and in mode `combined`

    ```mlir
    func.func @f_grad(args..., dresults...) -> (results..., dargs...)
    ```

    `dresults` are the gradients of all results that are tensors of floats, `dargs`
    the gradients of the selected arguments. A gradient has the type of its value, or
    f32 where the value has 8 bits.
    `saved` are the values of the forward function that the backward function uses,
    such as the log-sum-exp of attention; sizes, constants and empty tensors are
    recomputed instead. A pair suits frameworks that keep tensors between the forward
    and the backward call: unused arguments of `@f_bwd` are marked `attn.unused` and
    need not be kept. The modes `forward` and `backward` add one function of the pair,
    so that two processes or threads can compile them at the same time. The combined
    function is for compilers and tests. `@f` is unchanged.

    Differentiation is in reverse mode, through `DifferentiableOpInterface`. Values
    that do not depend on the selected arguments have no gradient. An operation
    between them that does not implement the interface is an error, and so is a
    second derivative of attention.
  }];
  let options = [
    Option<"function", "function", "std::string", /*default=*/"\"\"",
           "Function to differentiate; all public ones if empty">,
    ListOption<"arguments", "arguments", "unsigned",
               "Numbers of the arguments to compute gradients of; all tensors "
               "of floats if empty">,
    Option<"mode", "mode", "std::string", /*default=*/"\"pair\"",
           "Functions to add: pair, forward, backward or combined">,
    Option<"deterministic", "deterministic", "bool", /*default=*/"false",
           "Demand gradients of attention that are bitwise equal each time">,
  ];
  let statistics = [Statistic<"numFunctions", "num-functions",
                              "Number of functions differentiated">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::attn::AttnDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def AttnPlanRecomputePass : Attn_Pass<"attn-plan-recompute", "::mlir::ModuleOp"> {
  let summary = "choose what to save for the backward pass";
  let description = [{
    Works on the pairs of functions that `attn-differentiate` adds. For each value that
    crosses from the forward to the backward function, it chooses whether to save the
    value, or to recompute it from other saved values, so that the total time is
    least. A saved value costs one more write and read. A recomputed operation costs
    its arithmetic or its memory traffic, whichever takes longer at the rates of the
    module's `attn.device` or of the target.

    With `budget`, at most that many bytes are saved in addition to arguments and
    results. Plans are optimal: a minimum cut, and with a budget a branch-and-bound
    search over minimum cuts. A search that takes too long, for example for many equal
    layers, ends with the best plan so far and reports by how much a better one could
    improve it. With `peak-budget`, plans that save less and less are tried until the
    peak memory of the resulting functions fits.

    Saving the output and the log-sum-exp of attention avoids running it again.
    Attention probabilities, and keep masks that attention generates itself, are not
    SSA values and are always recomputed. Probabilities or keep masks that the
    function computes as tensors are values like any other.

    Remarks report the choice, the reason, and the peak memory without arguments
    before and after. A pair whose functions would change their types is an error if
    anything else in the module uses them.

    ```mlir
    func.func @f_fwd(%x, %w) -> (%y, %h, %g)       // saves %h and %g
    func.func @f_bwd(%x, %w, %y, %h, %g, %dy) -> (%dx, %dw)
    ```

    becomes, if `%g` costs less to compute from `%h` than to move,

    ```mlir
    func.func @f_fwd(%x, %w) -> (%y, %h)
    func.func @f_bwd(%x, %w, %y, %h, %dy) -> (%dx, %dw)  // computes %g
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"sm_90a\"",
           "Registered target whose rates are used, such as sm_90a">,
    Option<"budget", "budget", "int64_t", /*default=*/"-1",
           "Bytes that may be saved; unlimited if -1">,
    Option<"peakBudget", "peak-budget", "int64_t", /*default=*/"-1",
           "Bytes of peak memory, without arguments; unlimited if -1">,
    Option<"dynamicSize", "dynamic-size", "int64_t", /*default=*/"4096",
           "Size that dynamic dimensions are taken to have">,
    Option<"dynamicBatch", "dynamic-batch", "int64_t", /*default=*/"1",
           "Size that the first dimension of tensors of three or more is taken "
           "to have if it is dynamic">,
  ];
  let dependentDialects = ["::mlir::attn::AttnDialect"];
  let statistics = [
    Statistic<"numSaved", "num-saved", "Number of values saved">,
    Statistic<"numRecomputed", "num-recomputed",
              "Number of operations that run again">,
  ];
}

#endif // ATTN_AUTODIFF_PASSES_TD
