//===- Passes.td - Choice of schedules --------------------*- tablegen -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes that choose schedules, and the report on their costs.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SCHEDULING_PASSES_TD
#define ATTN_SCHEDULING_PASSES_TD

include "attn/Support/PassBase.td"

def AttnLoadCalibrationPass : Attn_Pass<"attn-load-calibration", "::mlir::ModuleOp"> {
  let summary = "read the measured terms of the performance model from a file";
  let description = [{
    Reads a calibration file, which `benchmarks/calibrate.py` writes, and attaches its
    terms to the module as `attn.calibration`. Passes that estimate times
    (`attn-fuse`, `attn-hoist-rng`, `attn-choose-schedule`, `attn-explain`) then have
    these terms instead of the ones that the library has for the device. The file must
    be for the device of the module: its `attn.device`, or the default device of
    `target`. docs/cost-model.md describes the format.

    Without a file, the library's terms stay. A warning says if it has none for the
    device, and whose terms are used instead.

    ```mlir
    module attributes {attn.calibration = {device = "h200", kind = "gpu",
        terms = {mma_cycle = 0.934 : f64, ...}}} {}
    ```
  }];
  let options = [
    Option<"file", "file", "std::string", /*default=*/"\"\"",
           "Calibration file; empty for the one of the library">,
    Option<"target", "target", "std::string", /*default=*/"\"host\"",
           "Target: host, sm_80 or sm_90a">,
  ];
}

def ChooseSchedulePass : Attn_Pass<"attn-choose-schedule", "::mlir::func::FuncOp"> {
  let summary = "attach a schedule to each attention";
  let description = [{
    Derives a schedule for the target from the shapes of each attention, and attaches
    it as its `schedule`. Of the schedules that fit the capacities of the device, it
    chooses the fastest by the model (`ScheduleAttrInterface::estimateKernels`) or,
    where there is no model, the one with the largest tiles. Unknown lengths may get
    several schedules (`#attn.by_query_length`). An attention that already has a schedule
    keeps it. A remark reports the choice. Gradients of attention, and the other
    operations that become kernels, get schedules as well.

    Times that `attn-tune` has measured, in a database, take precedence over models.
    They apply to attentions that differ in batch and lengths alone, on the device of
    the module (`attn.device`, or the default device of the target), and to lengths
    with the same nearest power of two as a measured length.

    A `dkdv` kernel that also computes dQ accumulates it in f32: in a dQ accumulator
    for all heads where that is faster, or in a dQ ring buffer for few heads.
    `dq-workspace-bytes` bounds the dQ accumulator, whose size must be known then.
    Where it does not fit and a dQ ring buffer is not possible, a separate `dq` kernel
    computes dQ.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"host\"",
           "Name of a registered target, such as sm_90a">,
    Option<"database", "database", "std::string", /*default=*/"\"\"",
           "File of measured times, written by attn-tune">,
    Option<"dqWorkspaceBytes", "dq-workspace-bytes", "int64_t", /*default=*/"-1",
           "Bytes that the dQ accumulator may take; "
           "unlimited if -1">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::attn::AttnDialect",
                           "::mlir::attn_tile::AttnTileDialect"];
}

def DispatchSchedulesPass
    : Attn_Pass<"attn-dispatch-schedules", "::mlir::func::FuncOp"> {
  let summary = "choose among schedules at run time";
  let description = [{
    Replaces each `attn.attention`, `attn.attention_grad` and `attn.create_block_mask`
    whose schedule is `#attn.by_query_length` by a conditional on the number of
    queries, with a copy for each of the schedules. If the number is static, only
    the copy that applies remains. For packed sequences it is the mean number, for
    padded ones the largest.

    For `#attn_tile.by_alignment`, which only `attn.attention` has, the condition is an alignment of 16 bytes, for the
    base addresses and row strides of the tensors that the `score_mod` region reads
    at the query and the key.

    For `#attn_tile.by_work_items`, which only `attn.linear_attention` and its gradient
    have, the condition is the number of work items before chunks are split: tiles of
    columns of the heads of all batch entries.

    An attention with a split-KV schedule and without sequences gets a copy without
    split-KV, for batches so large that there would be one split only. The kernel of the copy stores the output
    itself, and no kernel combines splits.

    ```mlir
    %n = memref.dim %q, %c2 : memref<?x32x?x64xbf16>
    %short = arith.cmpi ult, %n, %c3072 : index
    scf.if %short {
      attn.attention ... schedule(#a)
    } else {
      attn.attention ... schedule(#b)
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::tensor::TensorDialect"];
}

def AttnExplainPass : Attn_Pass<"attn-explain", "::mlir::ModuleOp"> {
  let summary = "print the work of each operation, and its bottleneck";
  let description = [{
    Prints a cost report. It lists, for each operation that takes time:

    - its floating point operations, the bytes that it moves to and from the device's
      memory, and their ratio;
    - its bottleneck, that is, the slowest unit or memory level of the device, and the
      time that it needs;
    - for attention with a schedule, the number of steps over tiles, and the L2
      traffic of each step.

    The device is the module's `attn.device`, or the default device of `target`.

    For attentions with dropout, a line gives the time of the function's matmuls and
    these attentions, as `attn-hoist-rng` predicts it, for keep masks that are
    generated in the attention kernels, by a kernel before them, or fused with
    matmuls.

    Counts come from `CostOpInterface`. Operations on tensors without it are counted
    by the tensors that they move.

    For attention, and for chains of operations from matmul to matmul, a derivation by
    `StreamableOpInterface` follows. It says which axes one kernel could distribute
    among CTAs and which it could stream, and gives the obstacle for the others. It
    also gives the fastest tiles that fit into registers and shared memory, the
    traffic of their steps, and their time. Chains end at operations without the
    interface, such as reshapes. If the attention has a schedule, the tiles of its
    kernel follow, which `attn-choose-schedule` also reports in its remark. Run that
    pass before this one: without a schedule, times are rooflines.

    Sizes that are not static are assumed, and the report states the assumptions. Of a
    choice of schedules by length, the report has the schedule for the assumed length.

    As JSON, there is one object:

    - top level: `device`, `calibration` (the device whose measured terms the model has),
      `ridge` (FLOP per byte), `bandwidth` (of memory, bytes per second), `functions`, and
      `dynamic_size` and `dynamic_batch` if sizes are assumed;
    - a function: `name`, `operations`, `total`, `dropout` and `derivations`;
    - an operation: `name`, `flops`, `units`, `bytes`, `intensity` (FLOP per byte, null if
      nothing is moved), `steps`, `seconds` and `bound`; `total` has the same counts;
    - `kernels` of an attention whose schedule has a model: the parts of each kernel's
      time, in cycles of the SM with the most work. `step` is the time of one step, in
      which `mma`, `chain` and `exponentials` overlap; `chain` is the MMAs of one of the
      `consumers` and then its softmax;
    - an entry of `dropout`: `attentions` and `matmuls` (their numbers), `mask_bytes`, and
      `in_kernel`, `sequential` and `fused` (seconds, or null);
    - a derivation: `operations`, `axes`, and the tiles of the `schedule` if there is one;
      except for the host also `fits`, `register_bytes`, `shared_bytes`, `limit`, and the
      counts and `bound` of an operation;
    - an axis: `name`, `size` (null if dynamic), `use` (`distribute`, `stream` or `whole`),
      `reason`, and `tile` except for the host.

    `roofline` and `flow` name files for pictures, as SVG: operations below the roofs of
    memory and matmuls, and bytes by level.

    ```
    attn-opt in.mlir --attn-explain=target=sm_90a
    attn-opt in.mlir --attn-explain="format=json output=report.json roofline=roofline.svg"
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"sm_90a\"",
           "Name of a registered target, such as sm_90a">,
    Option<"format", "format", "std::string", /*default=*/"\"table\"",
           "How to print: table or json">,
    Option<"output", "output", "std::string", /*default=*/"\"\"",
           "File for the report; standard error if empty, - for standard output">,
    Option<"roofline", "roofline", "std::string", /*default=*/"\"\"",
           "File for a picture of the roofline; none if empty">,
    Option<"flow", "flow", "std::string", /*default=*/"\"\"",
           "File for a picture of the bytes moved; none if empty">,
    Option<"dynamicSize", "dynamic-size", "int64_t", /*default=*/"4096",
           "Size that dynamic dimensions are taken to have">,
    Option<"dynamicBatch", "dynamic-batch", "int64_t", /*default=*/"1",
           "Size that the first dimension of tensors of three or more is taken "
           "to have if it is dynamic">,
  ];
  let dependentDialects = ["::mlir::attn::AttnDialect",
                           "::mlir::attn_tile::AttnTileDialect"];
}

#endif // ATTN_SCHEDULING_PASSES_TD
