//===- Target.h - Targets and their registry -------------------*- C++ -*--===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What all layers may ask of a target, and the registry in which targets are
// found by name. Targets are registered once for the process, as LLVM's are
// (cf. llvm/MC/TargetRegistry.h); nothing else compares names of targets.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_INTERFACES_TARGET_H
#define ATTN_INTERFACES_TARGET_H

#include "mlir/IR/Attributes.h"
#include "mlir/IR/Types.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace mlir {
class Operation;
} // namespace mlir

namespace mlir::attn {

class TargetInfo;

/// How the threads of a kernel divide its work; the names are CUTLASS's (its
/// kernel schedules). A target runs kernels of one kind.
enum class KernelScheduleKind {
  /// One thread computes a work item, on the host.
  Sequential,
  /// All warps copy tiles to shared memory by asynchronous copies, several
  /// stages ahead, and compute on them.
  Multistage,
  /// A producer warp copies tiles to shared memory, consumer warpgroups
  /// compute on them.
  WarpSpecialized,
};

/// A target of the compiler: the host or a GPU architecture. Objects have no
/// state and outlive all contexts.
class Target {
public:
  virtual ~Target();

  /// Name on command lines, in pass options and in artifacts.
  virtual StringRef getName() const = 0;
  /// Name of the `#attn.device` that kernels are planned for where a module
  /// names none.
  virtual StringRef getDefaultDevice() const = 0;
  virtual KernelScheduleKind getKernelScheduleKind() const = 0;
  /// The same for kernels that multiply elements of `type`, which may need
  /// other instructions.
  virtual KernelScheduleKind getKernelScheduleKindFor(Type type) const {
    return getKernelScheduleKind();
  }

  /// The MMA instruction for elements of `type`, an attribute of attn_tile with
  /// `MmaAttrInterface`; null if there is none. `isHighest` demands MMAs as
  /// accurate as arithmetic in `type`.
  virtual Attribute getMma(Type type, bool isHighest) const { return {}; }

  /// Whether kernels are code of the host; else they are NVVM.
  bool isHost() const {
    return getKernelScheduleKind() == KernelScheduleKind::Sequential;
  }

  /// Whether kernels compute on tensors with elements of `type`.
  virtual bool supportsElementType(Type type) const = 0;
  /// These types as text, for diagnostics: "bf16 or f16".
  virtual StringRef describeElementTypes() const = 0;
  /// Head dims must be a multiple of this number.
  virtual int64_t getHeadDimUnit() const = 0;
  virtual int64_t getMaxHeadDim() const = 0;
  /// The largest head dim of functions of heads, of linear attention and of
  /// elements of 8 bits, whose kernels hold whole rows.
  virtual int64_t getMaxWholeHeadDim() const { return getMaxHeadDim(); }

  /// How kernels are written in instructions of a GPU architecture; null for
  /// hosts.
  virtual const TargetInfo *getTargetInfo() const { return nullptr; }

  bool supportsHeadDim(int64_t headDim) const {
    return headDim % getHeadDimUnit() == 0 && headDim <= getMaxHeadDim();
  }
};

/// The compute capability of a GPU, such as 9.0.
struct ComputeCapability {
  int major = 0, minor = 0;
};

/// The GPUs that run kernels of a target: of one compute capability and, with
/// `andLater`, of later ones.
struct TargetGPUs {
  ComputeCapability first;
  bool andLater = false;
};

/// Adds a target to the registry. A target of the same name that was registered
/// before stays; the new one is dropped then. `gpus` are the GPUs it is for, if
/// it is found by them (`findTarget`). Safe to call from all threads.
void registerTarget(std::unique_ptr<Target> target,
                    std::optional<TargetGPUs> gpus = std::nullopt);

/// The registered target of that name, or null.
const Target *lookupTarget(StringRef name);

/// The registered target of that name; otherwise reports an error on `op` that
/// names the registered targets.
FailureOr<const Target *> lookupTarget(Operation *op, StringRef name);

/// The target for GPUs of a compute capability: of the registered ones whose
/// kernels run there, the one for the latest GPUs. Null if there is none.
const Target *findTarget(ComputeCapability capability);

/// Whether a target of that name is registered whose kernels run on a GPU.
bool isGPUTarget(StringRef name);

/// All registered targets, sorted by name.
SmallVector<const Target *> getTargets();

/// Names of the registered targets as text: "host, sm_80 or sm_90a".
std::string describeTargets();
/// The same for targets that run kernels of `kind`, on elements of `type` if it
/// is given.
std::string describeTargets(KernelScheduleKind kind, Type type = {});
/// The same for all targets but hosts.
std::string describeGPUTargets();

} // namespace mlir::attn

#endif // ATTN_INTERFACES_TARGET_H
