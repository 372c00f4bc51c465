//===- PassOptions.h - Options of passes ------------------------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Options of passes and pipelines, whose messages about unknown names list the
// known ones.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_SUPPORT_PASSOPTIONS_H
#define ATTN_SUPPORT_PASSOPTIONS_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"

namespace mlir::attn {

/// Reports by `emitError` why options were not parsed: `message`, of upstream,
/// or a better one if an option is unknown. `name` is the pass or pipeline.
LogicalResult
reportOptions(const Twine &message, StringRef name,
              mlir::detail::PassOptions &known,
              function_ref<LogicalResult(const Twine &)> emitError);

/// The options of a pass.
mlir::detail::PassOptions &getPassOptions(Pass &pass);

/// The base class of the project's passes, an `OperationPass`.
template <typename Base>
class PassWithKnownOptions : public Base {
protected:
  explicit PassWithKnownOptions(TypeID passID) : Base(passID) {}
  PassWithKnownOptions(const PassWithKnownOptions &other) = default;

public:
  LogicalResult initializeOptions(
      StringRef options,
      function_ref<LogicalResult(const Twine &)> emitError) override {
    return Base::initializeOptions(options, [&](const Twine &message) {
      return reportOptions(message, this->getArgument(), getPassOptions(*this),
                           emitError);
    });
  }
};

/// Registers a pipeline with options.
template <typename Options>
void registerPipeline(StringRef name, StringRef description,
                      void (*build)(OpPassManager &, const Options &)) {
  registerPassPipeline(
      name, description,
      [name = name.str(),
       build](OpPassManager &manager, StringRef text,
              function_ref<LogicalResult(const Twine &)> emitError) {
        Options options;
        std::string message;
        llvm::raw_string_ostream stream(message);
        if (failed(options.parseFromString(text, stream)))
          return reportOptions(message, name, options, emitError);
        build(manager, options);
        return success();
      },
      [](function_ref<void(const mlir::detail::PassOptions &)> handle) {
        handle(Options());
      });
}

} // namespace mlir::attn

#endif // ATTN_SUPPORT_PASSOPTIONS_H
