//===- Pipelines.h - The compiler's pass pipelines -------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The stages of a compilation as functions that append passes, in the order in
// which they run. All of them are anchored on `builtin.module`.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_COMPILER_PIPELINES_H
#define ATTN_COMPILER_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir::attn {

/// Options of the stage that finds attention.
struct RaisingPipelineOptions
    : public PassPipelineOptions<RaisingPipelineOptions> {
  Option<bool> assumeKeptRows{
      *this, "assume-kept-rows",
      llvm::cl::desc("Take every row to keep a pair, so that large negative "
                     "numbers mask"),
      llvm::cl::init(false)};
  Option<bool> assumeDropoutMasks{
      *this, "assume-dropout-masks",
      llvm::cl::desc("Take tensors that attention probabilities are multiplied "
                     "by to hold 0 and 1 alone"),
      llvm::cl::init(false)};
  Option<std::string> target{
      *this, "target",
      llvm::cl::desc("Name of a registered target, such as sm_90a, for whose "
                     "kernels linear attention is found"),
      llvm::cl::init("host")};
};

/// Options of the stages that depend on the target.
struct TargetPipelineOptions
    : public PassPipelineOptions<TargetPipelineOptions> {
  Option<std::string> target{*this, "target",
                             llvm::cl::desc("Target: host, sm_80 or sm_90a"),
                             llvm::cl::init("host")};
  Option<std::string> calibration{
      *this, "calibration",
      llvm::cl::desc("Calibration file of the device, instead of the one of "
                     "the library")};
  Option<std::string> database{
      *this, "database", llvm::cl::desc("File of measured times of schedules"),
      llvm::cl::init("")};
  Option<std::string> dropout{
      *this, "dropout",
      llvm::cl::desc("Where the keep masks of dropout are made: best, "
                     "in-kernel, sequential, streams or fused"),
      llvm::cl::init("in-kernel")};
  Option<int64_t> maskBudget{
      *this, "mask-budget",
      llvm::cl::desc("Bytes that a dropout keep mask may take; if -1, an "
                     "eighth of the device's memory"),
      llvm::cl::init(-1)};
  Option<int64_t> dqWorkspaceBytes{
      *this, "dq-workspace-bytes",
      llvm::cl::desc("Bytes that the dQ accumulator may take; "
                     "if -1, as many as it takes"),
      llvm::cl::init(-1)};

  Option<bool> explicitBlockMasks{
      *this, "explicit-block-masks",
      llvm::cl::desc(
          "Let callers keep the block masks of masks that read tensors"),
      llvm::cl::init(false)};

  /// Whether kernels run on a GPU.
  bool isGPU() const;
};

/// Options of the stage that describes and bufferizes functions.
struct BufferizationPipelineOptions
    : public PassPipelineOptions<BufferizationPipelineOptions> {
  Option<std::string> target{*this, "target",
                             llvm::cl::desc("Target: host, sm_80 or sm_90a"),
                             llvm::cl::init("host")};
};

/// Options of the stage that compiles kernels for NVIDIA GPUs.
struct NVVMPipelineOptions : public PassPipelineOptions<NVVMPipelineOptions> {
  Option<std::string> target{*this, "target",
                             llvm::cl::desc("Target: sm_80 or sm_90a"),
                             llvm::cl::init("sm_90a")};
  Option<std::string> format{
      *this, "format",
      llvm::cl::desc("What to write: ptx, cubin, or llvm for LLVM's bitcode"),
      llvm::cl::init("cubin")};
  Option<int64_t> ptxVersion{
      *this, "ptx-version",
      llvm::cl::desc("PTX version times 10, as in 90 for 9.0 (0: the oldest "
                     "one that has a kernel's instructions)"),
      llvm::cl::init(0)};
  Option<std::string> toolkit{
      *this, "toolkit",
      llvm::cl::desc("Folder of the CUDA toolkit; found by itself if empty"),
      llvm::cl::init("")};
  Option<std::string> assemblerOptions{
      *this, "ptxas-options",
      llvm::cl::desc("More options for ptxas, separated by spaces"),
      llvm::cl::init("")};
  Option<bool> failOnSpills{
      *this, "fail-on-spills",
      llvm::cl::desc("Make spills and serialized MMAs errors"),
      llvm::cl::init(false)};
  Option<bool> report{*this, "report",
                      llvm::cl::desc("Remark on the registers of each kernel"),
                      llvm::cl::init(false)};
};

/// Inlines calls and finds attention in linalg on tensors.
void buildRaisingPipeline(OpPassManager &pm,
                          const RaisingPipelineOptions &options);

/// Inlines calls and chooses a schedule for each attention that has none.
void buildSchedulePipeline(OpPassManager &pm,
                           const TargetPipelineOptions &options);

/// Converts functions of tensors to described functions of memrefs, outputs
/// last, without copies of results.
void buildBufferizationPipeline(OpPassManager &pm,
                                const BufferizationPipelineOptions &options);

/// Lowers attention to plain tiled programs, and for GPUs also the remaining
/// linalg operations.
void buildTilingPipeline(OpPassManager &pm,
                         const TargetPipelineOptions &options);

/// Runs the passes of each kernel's schedule, and orders kernels that may run
/// at the same time.
void buildKernelPipeline(OpPassManager &pm,
                         const TargetPipelineOptions &options);

/// All of the above: from functions of tensors to finished kernels.
void buildAttnToKernelPipeline(OpPassManager &pm,
                               const TargetPipelineOptions &options);

/// Lowers kernels to NVVM and compiles them to objects in the module.
void buildNVVMPipeline(OpPassManager &pm, const NVVMPipelineOptions &options);

/// Lowers host code to the LLVM dialect and adds C entry points. For GPUs,
/// kernels must be compiled already.
void buildHostPipeline(OpPassManager &pm, const TargetPipelineOptions &options);

/// Makes the pipelines known to textual pipelines, as
/// `attn-<raising|schedule|bufferization|tiling|kernel|to-kernel|nvvm|host>-`
/// `pipeline`.
void registerPipelines();

} // namespace mlir::attn

#endif // ATTN_COMPILER_PIPELINES_H
