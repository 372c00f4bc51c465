//===- SerializeKernels.cpp - Compile kernels to PTX and cubin ------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Translates gpu.module operations to LLVM IR, runs LLVM's NVPTX back end on
// it, and ptxas on the PTX.
//
//===----------------------------------------------------------------------===//

#include "attn/Support/TemporaryFolder.h"
#include "attn/Target/CUDAToolkit.h"
#include "attn/Target/PTXVersion.h"
#include "attn/Target/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/Threading.h"
#include "mlir/Target/LLVM/NVVM/Utils.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/OptBisect.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"
#include "llvm/Transforms/IPO/GlobalDCE.h"
#include "llvm/Transforms/IPO/Internalize.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LoopDeletion.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LowerExpectIntrinsic.h"
#include "llvm/Transforms/Scalar/SROA.h"

namespace mlir::attn {
#define GEN_PASS_DEF_ATTNSERIALIZEKERNELSPASS
#include "attn/Target/Passes.h.inc"
} // namespace mlir::attn

using namespace mlir;

static constexpr StringLiteral libdevicePrefix = "__nv_";

namespace {
/// Keeps the back end from a pass that would take seconds.
///
/// Straight-line strength reduction compares each addition with 50 before it,
/// and asks of each pair whether it is poison, through six levels of all
/// operands. In rounds of random number generators, each of which has two
/// additions, an addition takes 3 ms. There is nothing to reduce in them.
class CompileTimeGate : public llvm::OptPassGate {
public:
  /// Before the back end runs on `module`, whose context keeps a reference.
  void enter(llvm::Module &module) {
    if (llvm::any_of(module, hasManyAdditions))
      module.getContext().setOptPassGate(*this);
  }

  bool isEnabled() const override { return true; }
  bool shouldRunPass(StringRef pass, StringRef) const override {
    return pass != "slsr";
  }

private:
  static bool hasManyAdditions(const llvm::Function &function) {
    constexpr int64_t many = 1200;
    auto isAddition = [](const llvm::Instruction &instruction) {
      return instruction.getOpcode() == llvm::Instruction::Add;
    };
    return llvm::count_if(llvm::instructions(function), isAddition) > many;
  }
};

/// Compiles one gpu.module to PTX, or to bitcode.
class KernelSerializer : public NVVM::SerializeGPUModuleBase {
public:
  KernelSerializer(gpu::GPUModuleOp module, NVVM::NVVMTargetAttr target,
                   StringRef toolkit, gpu::CompilationTarget kind)
      : SerializeGPUModuleBase(*module, target), toolkit(toolkit), kind(kind) {}

  /// Links the device library if, and only if, it is called.
  std::optional<SmallVector<std::unique_ptr<llvm::Module>>>
  loadBitcodeFiles(llvm::Module &llvmModule) override {
    SmallVector<std::unique_ptr<llvm::Module>> libraries;
    const llvm::Function *needed = nullptr;
    for (const llvm::Function &function : llvmModule)
      if (function.isDeclaration() &&
          function.getName().starts_with(libdevicePrefix))
        needed = &function;
    if (!needed)
      return libraries;
    std::string path = attn::findLibdevice(toolkit);
    if (path.empty()) {
      getOperation().emitError()
          << "needs '" << needed->getName().str()
          << "' of the CUDA toolkit's libdevice.10.bc, which was not found in "
          << attn::describeToolkits(toolkit)
          << "; set CUDA_HOME or install the package nvidia-cuda-nvcc";
      return std::nullopt;
    }
    std::unique_ptr<llvm::Module> library =
        loadBitcodeFile(llvmModule.getContext(), path);
    if (!library) {
      getOperation().emitError() << "could not read '" << path << "'";
      return std::nullopt;
    }
    libraries.push_back(std::move(library));
    return libraries;
  }

  LogicalResult optimizeModule(llvm::Module &llvmModule, int) override {
    FailureOr<llvm::TargetMachine *> machine = getOrCreateTargetMachine();
    if (failed(machine))
      return getOperation().emitError()
             << "LLVM has no back end for '" << target.getChip() << "'";
    (*machine)->setOptLevel(llvm::CodeGenOptLevel::Aggressive);

    llvm::LoopAnalysisManager loopAnalyses;
    llvm::FunctionAnalysisManager functionAnalyses;
    llvm::CGSCCAnalysisManager sccAnalyses;
    llvm::ModuleAnalysisManager moduleAnalyses;
    llvm::PassBuilder builder(*machine);
    builder.registerModuleAnalyses(moduleAnalyses);
    builder.registerCGSCCAnalyses(sccAnalyses);
    builder.registerFunctionAnalyses(functionAnalyses);
    builder.registerLoopAnalyses(loopAnalyses);
    builder.crossRegisterProxies(loopAnalyses, functionAnalyses, sccAnalyses,
                                 moduleAnalyses);
    llvm::ModulePassManager passes;
    // Only kernels are called from outside.
    passes.addPass(llvm::InternalizePass([](const llvm::GlobalValue &value) {
      auto *function = dyn_cast<llvm::Function>(&value);
      return !function ||
             function->getCallingConv() == llvm::CallingConv::PTX_Kernel;
    }));
    passes.addPass(llvm::AlwaysInlinerPass());
    passes.addPass(llvm::GlobalDCEPass());
    llvm::FunctionPassManager functionPasses;
    functionPasses.addPass(llvm::LowerExpectIntrinsicPass());
    functionPasses.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
    functionPasses.addPass(llvm::InstCombinePass());
    functionPasses.addPass(llvm::EarlyCSEPass());
    // Loops without a step: assemblers before CUDA 13.5 lose the accumulators
    // that MMAs in such loops share with MMAs behind them.
    functionPasses.addPass(
        llvm::createFunctionToLoopPassAdaptor(llvm::LoopDeletionPass()));
    passes.addPass(
        llvm::createModuleToFunctionPassAdaptor(std::move(functionPasses)));
    passes.run(llvmModule, moduleAnalyses);
    gate.enter(llvmModule);
    return success();
  }

  FailureOr<SmallVector<char, 0>>
  moduleToObject(llvm::Module &llvmModule) override {
    if (kind == gpu::CompilationTarget::Offload)
      return ModuleToObject::moduleToObject(llvmModule);
    FailureOr<llvm::TargetMachine *> machine = getOrCreateTargetMachine();
    if (failed(machine))
      return failure();
    FailureOr<SmallString<0>> ptx = translateModuleToISA(
        llvmModule, **machine, [&]() { return getOperation().emitError(); });
    if (failed(ptx))
      return failure();
    return SmallVector<char, 0>(ptx->begin(), ptx->end());
  }

private:
  StringRef toolkit;
  gpu::CompilationTarget kind;
  CompileTimeGate gate;
};

/// The assembler's report on a kernel.
struct KernelReport {
  int64_t registers = 0;
  int64_t spillBytes = 0;
  int64_t stackBytes = 0;
};

/// The object code of a module, and the messages of the assembler if it ran.
struct SerializedModule {
  SmallVector<char, 0> object;
  std::string log;
  /// Whether the assembler optimized less, as the code is very long.
  bool isVeryLong = false;
  /// Why the assembler failed, or empty.
  std::string error;
};
} // namespace

/// Runs the assembler `ptxas` on `ptx`.
static llvm::Expected<SerializedModule>
assemble(StringRef ptx, StringRef chip, StringRef ptxas, StringRef options) {
  SmallVector<std::string, 3> files;
  llvm::scope_exit removeFiles([&] {
    for (StringRef file : files)
      (void)llvm::sys::fs::remove(file);
  });
  for (StringRef suffix : {"ptx", "cubin", "log"}) {
    attn::TemporaryPath file = attn::createTemporaryFile(suffix.str());
    if (!file)
      return llvm::createStringError(file.error);
    files.push_back(file.path);
  }
  StringRef input = files[0], output = files[1], log = files[2];
  {
    std::error_code error;
    llvm::raw_fd_ostream stream(input, error);
    stream << ptx;
    stream.close();
    if (stream.has_error()) {
      error = stream.error();
      stream.clear_error();
      return llvm::createStringError(error, "could not write '" + input +
                                                "': " + error.message());
    }
  }
  SmallVector<StringRef> arguments{ptxas, "-arch", chip, "-v",
                                   "-o",  output,  input};
  options.split(arguments, ' ', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  std::optional<StringRef> redirects[] = {StringRef(), log, log};
  std::string message;
  int status = llvm::sys::ExecuteAndWait(ptxas, arguments, std::nullopt,
                                         redirects, /*SecondsToWait=*/0,
                                         /*MemoryLimit=*/0, &message);
  SerializedModule result;
  if (auto buffer = llvm::MemoryBuffer::getFile(log))
    result.log = (*buffer)->getBuffer().str();
  if (status != 0) {
    if (message.empty())
      message = StringRef(result.log).trim().str();
    return llvm::createStringError("'" + ptxas + "' failed: " + message);
  }
  auto buffer = llvm::MemoryBuffer::getFile(output);
  if (!buffer)
    return llvm::createStringError(buffer.getError(),
                                   "could not read '" + output +
                                       "': " + buffer.getError().message());
  llvm::append_range(result.object, (*buffer)->getBuffer());
  return result;
}

/// The bytes that all kernels spill, by the messages of `ptxas -v`.
static int64_t countSpillBytes(StringRef log) {
  int64_t bytes = 0;
  llvm::Regex spills("([0-9]+) bytes spill (stores|loads)");
  SmallVector<StringRef> matches;
  while (spills.match(log, &matches)) {
    int64_t number = 0;
    (void)matches[1].getAsInteger(10, number);
    bytes += number;
    log = log.substr(matches[0].end() - log.begin());
  }
  return bytes;
}

/// Whether the assembler says that it serialized MMAs. Each reason has a
/// code of its own, from C7510 on.
static bool isSerialization(StringRef text) {
  return text.contains("wgmma.mma_async instructions are serialized");
}

/// Lines of PTX above which the assembler optimizes less. The longest kernel of
/// test/Corpus, a gradient of f32 tensors, has 11,835.
static constexpr size_t kVeryLongPTX = 25000;

/// Bytes that kernels spill, beyond which another use of registers does not
/// help: a thread has at most 1020 bytes of them.
static constexpr int64_t kMostAvoidableSpills = 2048;

/// Runs the assembler on `ptx`. If registers spill, runs it once more at
/// register usage level 3: above, it keeps values in registers that it could
/// compute again for each work item. Code that spills very many values is
/// assembled once; so is very long code, with few optimizations.
static llvm::Expected<SerializedModule>
assembleWithoutSpills(StringRef ptx, StringRef chip, StringRef ptxas,
                      StringRef options) {
  constexpr StringRef option = "--register-usage-level";
  if (ptx.count('\n') > kVeryLongPTX && !options.contains("-O") &&
      !options.contains("--opt-level")) {
    llvm::Expected<SerializedModule> result =
        assemble(ptx, chip, ptxas, (options + " -O1").str());
    if (result)
      result->isVeryLong = true;
    return result;
  }
  llvm::Expected<SerializedModule> result = assemble(ptx, chip, ptxas, options);
  if (!result || options.contains(option))
    return result;
  int64_t spills = countSpillBytes(result->log);
  if (spills == 0 || spills > kMostAvoidableSpills)
    return result;
  llvm::Expected<SerializedModule> other =
      assemble(ptx, chip, ptxas, (options + " " + option + "=3").str());
  if (!other)
    return other;
  if (countSpillBytes(other->log) == 0 && !isSerialization(other->log))
    return other;
  return result;
}

/// Reads the report of kernel `name` from the messages of `ptxas -v`.
static KernelReport parseReport(StringRef log, StringRef name) {
  KernelReport report;
  auto getNumber = [](StringRef text, const char *pattern) -> int64_t {
    SmallVector<StringRef> matches;
    int64_t number = 0;
    if (llvm::Regex(pattern).match(text, &matches))
      (void)matches[1].getAsInteger(10, number);
    return number;
  };
  size_t begin = log.find(("Function properties for " + name + "\n").str());
  if (begin == StringRef::npos)
    return report;
  StringRef text = log.substr(begin);
  text = text.take_front(text.find("Compile time"));
  report.registers = getNumber(text, "Used ([0-9]+) registers");
  report.stackBytes = getNumber(text, "([0-9]+) bytes stack frame");
  report.spillBytes = getNumber(text, "([0-9]+) bytes spill stores") +
                      getNumber(text, "([0-9]+) bytes spill loads");
  return report;
}

/// The numbers of `modules`, from the largest one to the smallest one. In this
/// order, no thread starts a long compilation when the others have ended.
static SmallVector<size_t> sortBySize(ArrayRef<gpu::GPUModuleOp> modules) {
  SmallVector<std::pair<int64_t, size_t>> sizes;
  for (auto [number, module] : llvm::enumerate(modules)) {
    sizes.emplace_back(0, number);
    gpu::GPUModuleOp(module).walk([&](Operation *) { --sizes.back().first; });
  }
  llvm::sort(sizes);
  return llvm::map_to_vector(sizes, [](auto size) { return size.second; });
}

namespace {
struct AttnSerializeKernelsPass
    : public attn::impl::AttnSerializeKernelsPassBase<
          AttnSerializeKernelsPass> {
  using Base::Base;

  void runOnOperation() override {
    auto kind =
        llvm::StringSwitch<std::optional<gpu::CompilationTarget>>(format)
            .Case("ptx", gpu::CompilationTarget::Assembly)
            .Case("cubin", gpu::CompilationTarget::Binary)
            .Case("llvm", gpu::CompilationTarget::Offload)
            .Default(std::nullopt);
    if (!kind) {
      getOperation().emitError()
          << "unknown format '" << format << "' (expected ptx, cubin or llvm)";
      return signalPassFailure();
    }
    std::optional<int64_t> ptxVersion = getChosenPTXVersion();
    if (ptxVersion)
      if (std::optional<std::string> message =
              attn::checkPTXVersion(chip, *ptxVersion)) {
        getOperation().emitError() << *message;
        return signalPassFailure();
      }
    NVVM::SerializeGPUModuleBase::init();
    // Modules are compiled side by side, each in an LLVM context of its own,
    // and replaced one after the other.
    auto modules = llvm::to_vector(getOperation().getOps<gpu::GPUModuleOp>());
    std::string ptxas;
    if (*kind == gpu::CompilationTarget::Binary && !modules.empty()) {
      ptxas = attn::findPtxas(toolkit);
      if (ptxas.empty()) {
        modules.front().emitError("needs the assembler ptxas of the CUDA "
                                  "toolkit, which was not found in ")
            << attn::describeToolkits(toolkit)
            << "; set CUDA_HOME or install the package nvidia-cuda-nvcc";
        return signalPassFailure();
      }
    }
    SmallVector<NVVM::NVVMTargetAttr> targets;
    for (gpu::GPUModuleOp module : modules) {
      FailureOr<NVVM::NVVMTargetAttr> target = getTarget(module, ptxVersion);
      if (failed(target))
        return signalPassFailure();
      targets.push_back(*target);
    }
    SmallVector<SerializedModule> results(modules.size());
    SmallVector<size_t> order = sortBySize(modules);
    if (failed(failableParallelForEachN(
            &getContext(), 0, modules.size(), [&](size_t place) {
              size_t number = order[place];
              return compile(modules[number], targets[number], *kind, ptxas,
                             results[number]);
            })))
      return signalPassFailure();
    for (auto [module, target, result] :
         llvm::zip_equal(modules, targets, results))
      if (failed(replace(module, target, *kind, result)))
        return signalPassFailure();
  }

  /// The version of PTX, times 10, among the features.
  std::optional<int64_t> getChosenPTXVersion() const {
    std::optional<int64_t> chosen;
    for (StringRef feature : llvm::split(features, ','))
      if (int64_t version;
          feature.consume_front("+ptx") && !feature.getAsInteger(10, version))
        chosen = version;
    return chosen;
  }

  /// The target of `module`: in the oldest version of PTX that has its
  /// instructions, unless another one was chosen.
  FailureOr<NVVM::NVVMTargetAttr> getTarget(gpu::GPUModuleOp module,
                                            std::optional<int64_t> ptxVersion) {
    std::string all = features;
    if (!ptxVersion) {
      int64_t required = attn::getRequiredPTXVersion(module, chip);
      all += (Twine(all.empty() ? "" : ",") + "+ptx" + Twine(required)).str();
    } else if (attn::NewestInstruction newest =
                   attn::findNewestInstruction(module);
               newest.version > *ptxVersion) {
      return newest.op->emitError("instruction '")
             << newest.name << "' needs at least PTX " << newest.version / 10
             << "." << newest.version % 10 << " (was " << *ptxVersion / 10
             << "." << *ptxVersion % 10 << ")";
    }
    return NVVM::NVVMTargetAttr::get(&getContext(), /*optLevel=*/3,
                                     "nvptx64-nvidia-cuda", chip, all);
  }

  /// Compiles `module`, which stays as it is. Leaves it to the first module
  /// whose result has an error to report it: all may have the same.
  LogicalResult compile(gpu::GPUModuleOp module, NVVM::NVVMTargetAttr target,
                        gpu::CompilationTarget kind, StringRef ptxas,
                        SerializedModule &result) const {
    if (failed(target.verifyTarget(module)))
      return failure();
    std::optional<SmallVector<char, 0>> object =
        KernelSerializer(module, target, toolkit, kind).run();
    if (!object)
      return module.emitError("could not be compiled");
    if (kind != gpu::CompilationTarget::Binary) {
      result.object = std::move(*object);
      return success();
    }
    llvm::Expected<SerializedModule> assembled =
        assembleWithoutSpills(StringRef(object->data(), object->size()), chip,
                              ptxas, assemblerOptions);
    if (assembled)
      result = std::move(*assembled);
    else
      result.error = llvm::toString(assembled.takeError());
    return success();
  }

  /// Replaces `module` by the result of its compilation.
  LogicalResult replace(gpu::GPUModuleOp module, NVVM::NVVMTargetAttr target,
                        gpu::CompilationTarget kind,
                        const SerializedModule &result) {
    if (!result.error.empty())
      return module.emitError(result.error);
    if (result.isVeryLong)
      remark::missed(module.getLoc(),
                     remark::RemarkOpts::name("assembler-optimization")
                         .category(getArgument()))
          << "the kernel has more than " + std::to_string(kVeryLongPTX) +
                 " lines of PTX: it is assembled with -O1, since more would "
                 "take minutes (--ptxas-options=-O3 asks for it)";
    SmallVector<gpu::KernelMetadataAttr> kernels;
    OpBuilder builder(module);
    for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
      if (!function->hasAttr(NVVM::NVVMDialect::getKernelFuncAttrName()))
        continue;
      ++numKernels;
      NamedAttrList attributes;
      for (NamedAttribute attribute : function->getDiscardableAttrs())
        if (attribute.getName().getValue().starts_with("attn_tile."))
          attributes.append(attribute);
      if (kind == gpu::CompilationTarget::Binary &&
          failed(addReport(function, result.log, attributes)))
        return failure();
      kernels.push_back(gpu::KernelMetadataAttr::get(
          function.getNameAttr(), function.getFunctionType(), {},
          attributes.getDictionary(&getContext())));
    }
    auto attribute =
        gpu::ObjectAttr::get(&getContext(), target, kind,
                             builder.getStringAttr(StringRef(
                                 result.object.data(), result.object.size())),
                             /*properties=*/nullptr,
                             gpu::KernelTableAttr::get(&getContext(), kernels));
    gpu::BinaryOp::create(builder, module.getLoc(), module.getName(),
                          /*offloadingHandler=*/nullptr,
                          builder.getArrayAttr(attribute));
    module.erase();
    return success();
  }

  /// Adds the assembler's report on `function` to `attributes`.
  LogicalResult addReport(LLVM::LLVMFuncOp function, StringRef log,
                          NamedAttrList &attributes) {
    Builder builder(function.getContext());
    KernelReport kernel = parseReport(log, function.getName());
    attributes.append("attn_tile.registers",
                      builder.getI64IntegerAttr(kernel.registers));
    attributes.append("attn_tile.spill_bytes",
                      builder.getI64IntegerAttr(kernel.spillBytes));
    attributes.append("attn_tile.stack_bytes",
                      builder.getI64IntegerAttr(kernel.stackBytes));
    if (report)
      function.emitRemark("uses ")
          << kernel.registers << " registers, " << kernel.stackBytes
          << " bytes of stack, " << kernel.spillBytes << " bytes of spills";
    auto complain = [&](const Twine &message) {
      if (failOnSpills)
        return LogicalResult(function.emitError(message));
      function.emitWarning(message);
      return success();
    };
    if (kernel.spillBytes > 0 &&
        failed(complain("registers spill to memory: " +
                        Twine(kernel.spillBytes) + " bytes")))
      return failure();
    for (StringRef line : llvm::split(log, '\n'))
      if (isSerialization(line))
        return complain("ptxas serialized MMAs: " + line.trim());
    return success();
  }
};
} // namespace
