//===- Compiler.cpp - C ABI of the compiler -------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements attn-c/Compiler.h over the C++ interface of the compiler.
//
//===----------------------------------------------------------------------===//

#include "attn-c/Compiler.h"
#include "attn/Compiler/Compiler.h"
#include "attn/InitAllDialects.h"
#include "attn/InitAllPasses.h"
#include "attn/Target/CUDAToolkit.h"
#include "attn/Target/TargetInfo.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"

#include <dlfcn.h>
#include <mutex>

using namespace mlir;

//===----------------------------------------------------------------------===//
// Handles
//===----------------------------------------------------------------------===//

namespace {
/// Passes remarks on to the listener, if there is one.
class RemarkListener : public remark::detail::MLIRRemarkStreamerBase {
public:
  using Function = std::function<void(const remark::detail::Remark &)>;

  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    if (listener)
      listener(remark);
  }

  Function listener;
};
} // namespace

struct attnc_buffer {
  SmallVector<char, 0> bytes;
};

struct attnc_options {
  attn::CompilerOptions options;
};

struct attnc_context {
  MLIRContext context;
  RemarkListener *remarks = nullptr;
  std::string error;
  attnc_diagnostic_fn handler = nullptr;
  void *userData = nullptr;
  bool allowBytecode = false;

  explicit attnc_context(const DialectRegistry &registry) : context(registry) {}

  /// Sets the error text and returns `status`.
  int32_t fail(int32_t status, const Twine &text) {
    error = text.str();
    return status;
  }

  /// Runs `work` and returns `status` if it failed, with its errors as text.
  template <typename Work>
  int32_t run(int32_t status, Work work) {
    std::string errors;
    ScopedDiagnosticHandler scope(&context, [&](Diagnostic &diagnostic) {
      report(diagnostic, errors);
      return success();
    });
    if (succeeded(work()))
      return ATTNC_OK;
    return fail(status, errors.empty() ? "failed without an error" : errors);
  }

private:
  /// Tells the handler, and appends errors to `errors`.
  void report(Diagnostic &diagnostic, std::string &errors);
};

struct attnc_module {
  attnc_context *context;
  OwningOpRef<ModuleOp> module;
};

static int32_t getSeverity(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Note:
    return ATTNC_NOTE;
  case DiagnosticSeverity::Remark:
    return ATTNC_REMARK;
  case DiagnosticSeverity::Warning:
    return ATTNC_WARNING;
  case DiagnosticSeverity::Error:
    return ATTNC_ERROR;
  }
  llvm_unreachable("unknown severity");
}

void attnc_context::report(Diagnostic &diagnostic, std::string &errors) {
  std::string message = diagnostic.str();
  auto loc = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>();
  std::string file = loc ? loc.getFilename().str() : "";
  bool isError = diagnostic.getSeverity() == DiagnosticSeverity::Error ||
                 diagnostic.getSeverity() == DiagnosticSeverity::Note;
  if (isError) {
    llvm::raw_string_ostream os(errors);
    if (!errors.empty())
      os << '\n';
    if (loc)
      os << file << ':' << loc.getLine() << ':' << loc.getColumn() << ": ";
    if (diagnostic.getSeverity() == DiagnosticSeverity::Note)
      os << "note: ";
    os << message;
  }
  if (handler) {
    attnc_diagnostic result = {
        getSeverity(diagnostic.getSeverity()), message.c_str(), file.c_str(),
        loc ? loc.getLine() : 0, loc ? loc.getColumn() : 0};
    handler(&result, userData);
  }
  // Notes of warnings and remarks are no errors.
  std::string ignored;
  for (Diagnostic &note : diagnostic.getNotes())
    report(note, isError ? errors : ignored);
}

/// Puts a zero behind the bytes, which does not count, and hands them over.
static void release(std::unique_ptr<attnc_buffer> buffer,
                    attnc_buffer **result) {
  buffer->bytes.push_back('\0');
  buffer->bytes.pop_back();
  *result = buffer.release();
}

//===----------------------------------------------------------------------===//
// Version and status
//===----------------------------------------------------------------------===//

uint32_t attncAbiVersion(void) { return ATTN_C_ABI_VERSION; }

const char *attncVersion(void) { return ATTN_VERSION_STRING; }

attnc_buffer *attncDescribe(void) {
  attn::registerAllTargets();
  auto buffer = std::make_unique<attnc_buffer>();
  llvm::raw_svector_ostream os(buffer->bytes);
  llvm::json::OStream json(os);
  std::string ptxas = attn::findPtxas();
  json.object([&] {
    json.attribute("version", ATTN_VERSION_STRING);
    json.attribute("llvm", LLVM_VERSION_STRING);
    json.attributeArray("targets", [&] {
      for (const attn::Target *target : attn::getTargets())
        json.value(target->getName());
    });
    json.attribute("ptxas", ptxas.empty() ? llvm::json::Value(nullptr)
                                          : llvm::json::Value(ptxas));
  });
  attnc_buffer *result;
  release(std::move(buffer), &result);
  return result;
}

const char *attncStatusName(int32_t status) {
  switch (status) {
  case ATTNC_OK:
    return "ok";
  case ATTNC_INVALID_ARGUMENT:
    return "invalid_argument";
  case ATTNC_VERSION_MISMATCH:
    return "version_mismatch";
  case ATTNC_PARSE_ERROR:
    return "parse_error";
  case ATTNC_COMPILE_ERROR:
    return "compile_error";
  default:
    return "unknown status";
  }
}

//===----------------------------------------------------------------------===//
// Contexts
//===----------------------------------------------------------------------===//

/// Fills LLVM's and MLIR's registries, which are global to the process.
static void registerOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    attn::registerAllPasses();
    registerCanonicalizerPass();
    registerCSEPass();
    registerSymbolDCEPass();
    registerSymbolPrivatizePass();
  });
}

int32_t attncContextCreate(uint32_t abi_version, attnc_context **context) {
  if (!context)
    return ATTNC_INVALID_ARGUMENT;
  if (abi_version != ATTN_C_ABI_VERSION)
    return ATTNC_VERSION_MISMATCH;
  registerOnce();
  DialectRegistry registry;
  attn::registerCompilerDialects(registry);
  auto result = std::make_unique<attnc_context>(registry);
  result->context.printOpOnDiagnostic(false);
  auto listener = std::make_unique<RemarkListener>();
  result->remarks = listener.get();
  if (failed(remark::enableOptimizationRemarks(
          result->context, std::move(listener),
          std::make_unique<remark::RemarkEmittingPolicyAll>(),
          remark::RemarkCategories{{}, ".*", ".*", ".*", ".*"})))
    return ATTNC_INVALID_ARGUMENT;
  *context = result.release();
  return ATTNC_OK;
}

void attncContextDestroy(attnc_context *context) { delete context; }

const char *attncContextGetError(const attnc_context *context) {
  return context ? context->error.c_str() : "";
}

void attncContextSetDiagnosticHandler(attnc_context *context,
                                      attnc_diagnostic_fn handler,
                                      void *user_data) {
  if (!context)
    return;
  context->handler = handler;
  context->userData = user_data;
}

void attncContextAllowBytecode(attnc_context *context, int32_t allow) {
  if (context)
    context->allowBytecode = allow != 0;
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

const char *attncBufferData(const attnc_buffer *buffer) {
  return buffer ? buffer->bytes.data() : nullptr;
}

size_t attncBufferSize(const attnc_buffer *buffer) {
  return buffer ? buffer->bytes.size() : 0;
}

void attncBufferDestroy(attnc_buffer *buffer) { delete buffer; }

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

int32_t attncModuleParse(attnc_context *context, const char *text, size_t size,
                         const char *name, attnc_module **module) {
  if (!context)
    return ATTNC_INVALID_ARGUMENT;
  if (!text || !name || !module)
    return context->fail(ATTNC_INVALID_ARGUMENT,
                         "text, name and module must not be null");
  OwningOpRef<ModuleOp> parsed;
  int32_t status = context->run(ATTNC_PARSE_ERROR, [&]() -> LogicalResult {
    llvm::SourceMgr sources;
    // The parser relies on the zero behind the text.
    sources.AddNewSourceBuffer(
        llvm::MemoryBuffer::getMemBufferCopy(StringRef(text, size), name),
        SMLoc());
    parsed =
        attn::parseModule(sources, context->context, context->allowBytecode);
    return success(static_cast<bool>(parsed));
  });
  if (status == ATTNC_OK)
    *module = new attnc_module{context, std::move(parsed)};
  return status;
}

void attncModuleDestroy(attnc_module *module) { delete module; }

int32_t attncModuleRunPasses(attnc_module *module, const char *pipeline) {
  if (!module)
    return ATTNC_INVALID_ARGUMENT;
  attnc_context &context = *module->context;
  if (!pipeline)
    return context.fail(ATTNC_INVALID_ARGUMENT, "pipeline must not be null");
  PassManager pm(&context.context, ModuleOp::getOperationName());
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (failed(parsePassPipeline(pipeline, pm, stream)))
    return context.fail(ATTNC_PARSE_ERROR, StringRef(message).trim());
  return context.run(ATTNC_COMPILE_ERROR,
                     [&] { return pm.run(*module->module); });
}

int32_t attncModulePrint(const attnc_module *module, attnc_buffer **text) {
  if (!module)
    return ATTNC_INVALID_ARGUMENT;
  if (!text)
    return module->context->fail(ATTNC_INVALID_ARGUMENT,
                                 "text must not be null");
  auto buffer = std::make_unique<attnc_buffer>();
  llvm::raw_svector_ostream os(buffer->bytes);
  ModuleOp op = *module->module;
  op.print(os);
  os << '\n';
  release(std::move(buffer), text);
  return ATTNC_OK;
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

/// The folder of this library, which holds the runtime, too.
static std::string getLibraryFolder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void *>(&attncAbiVersion), &info))
    return "";
  return llvm::sys::path::parent_path(info.dli_fname).str();
}

int32_t attncOptionsCreate(attnc_options **options) {
  if (!options)
    return ATTNC_INVALID_ARGUMENT;
  auto result = std::make_unique<attnc_options>();
  result->options.link.runtimeDir = getLibraryFolder();
  *options = result.release();
  return ATTNC_OK;
}

void attncOptionsDestroy(attnc_options *options) { delete options; }

int32_t attncOptionsSet(attnc_context *context, attnc_options *options,
                        const char *name, const char *value) {
  if (!context)
    return ATTNC_INVALID_ARGUMENT;
  if (!options || !name || !value)
    return context->fail(ATTNC_INVALID_ARGUMENT,
                         "options, name and value must not be null");
  // Options stay as they are if the value is none.
  attn::CompilerOptions changed = options->options;
  if (std::optional<std::string> error = attn::setOption(changed, name, value))
    return context->fail(ATTNC_INVALID_ARGUMENT, *error);
  options->options = changed;
  return ATTNC_OK;
}

/// Has `work` called with a copy of the module and complete options.
template <typename Work>
static int32_t runOnCopy(const attnc_module *module,
                         const attnc_options *options, attnc_buffer **result,
                         Work work) {
  if (!module)
    return ATTNC_INVALID_ARGUMENT;
  attnc_context &context = *module->context;
  if (!options || !result)
    return context.fail(ATTNC_INVALID_ARGUMENT,
                        "options and output must not be null");
  attn::CompilerOptions complete = options->options;
  if (std::optional<std::string> error = attn::completeOptions(complete))
    return context.fail(ATTNC_INVALID_ARGUMENT, *error);
  OwningOpRef<ModuleOp> copy = module->module.get().clone();
  auto buffer = std::make_unique<attnc_buffer>();
  int32_t status = context.run(ATTNC_COMPILE_ERROR, [&] {
    return work(context, *copy, complete, buffer->bytes);
  });
  if (status == ATTNC_OK)
    release(std::move(buffer), result);
  return status;
}

int32_t attncCompile(const attnc_module *module, const attnc_options *options,
                     attnc_buffer **output) {
  return runOnCopy(module, options, output,
                   [](attnc_context &, ModuleOp copy,
                      const attn::CompilerOptions &complete,
                      SmallVectorImpl<char> &bytes) {
                     return attn::compileToBuffer(copy, complete, bytes);
                   });
}

static void printRemark(const remark::detail::Remark &remark,
                        llvm::json::OStream &json) {
  json.object([&] {
    json.attribute("pass", remark.getCategoryName());
    json.attribute("name", remark.getRemarkName());
    json.attribute("kind", remark.getRemarkTypeString());
    if (auto loc = remark.getLocation()->findInstanceOf<FileLineColLoc>()) {
      json.attribute("file", loc.getFilename().getValue());
      json.attribute("line", loc.getLine());
      json.attribute("column", loc.getColumn());
    }
    std::string message;
    for (const remark::detail::Remark::Arg &arg : remark.getArgs())
      message += arg.val;
    json.attribute("message", message);
  });
}

int32_t attncExplain(const attnc_module *module, const attnc_options *options,
                     attnc_buffer **json) {
  return runOnCopy(
      module, options, json,
      [](attnc_context &context, ModuleOp copy,
         const attn::CompilerOptions &complete, SmallVectorImpl<char> &bytes) {
        llvm::raw_svector_ostream os(bytes);
        llvm::json::OStream stream(os);
        stream.arrayBegin();
        context.remarks->listener = [&](const remark::detail::Remark &remark) {
          printRemark(remark, stream);
        };
        // In the order of the passes, and one at a time.
        bool wasThreaded = context.context.isMultithreadingEnabled();
        context.context.disableMultithreading();
        LogicalResult result =
            attn::runStages(copy, complete, attn::Stage::Kernel);
        context.context.enableMultithreading(wasThreaded);
        context.remarks->listener = nullptr;
        stream.arrayEnd();
        return result;
      });
}
