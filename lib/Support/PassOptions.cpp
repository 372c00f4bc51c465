//===- PassOptions.cpp - Options of passes --------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Upstream says which option is unknown, but not which ones are known, and
// gives no access to the names of options.
//
//===----------------------------------------------------------------------===//

#include "attn/Support/PassOptions.h"
#include "attn/Support/KnownNames.h"

using namespace mlir;
using namespace mlir::attn;

namespace {
/// The options of a pass are a private member. An explicit instantiation may
/// name it, and defines the function that reads it.
template <mlir::detail::PassOptions Pass::*member>
struct PassOptionsMember {
  // NOLINTNEXTLINE(llvm-prefer-static-over-anonymous-namespace)
  friend mlir::detail::PassOptions &readPassOptions(Pass &pass) {
    return pass.*member;
  }
};
mlir::detail::PassOptions &readPassOptions(Pass &pass);
template struct PassOptionsMember<&Pass::passOptions>;

/// The table of options is a protected member.
struct OptionNames : mlir::detail::PassOptions {
  static SmallVector<StringRef> get(mlir::detail::PassOptions &options) {
    auto table = &OptionNames::OptionsMap;
    SmallVector<StringRef> names =
        llvm::to_vector(llvm::make_first_range(options.*table));
    llvm::sort(names);
    return names;
  }
};
} // namespace

mlir::detail::PassOptions &attn::getPassOptions(Pass &pass) {
  return readPassOptions(pass);
}

LogicalResult
attn::reportOptions(const Twine &message, StringRef name,
                    mlir::detail::PassOptions &known,
                    function_ref<LogicalResult(const Twine &)> emitError) {
  std::string text = message.str();
  // Upstream has reported values that it cannot parse.
  if (text.empty())
    return failure();
  StringRef option = StringRef(text).split("no such option ").second.trim();
  if (option.empty())
    return emitError(text);
  return emitError("unknown option '" + option + "' of '" + name + "'" +
                   suggestNames(option, OptionNames::get(known)));
}
