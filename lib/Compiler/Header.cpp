//===- Header.cpp - C header of an artifact -------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes prototypes of C entry points, and one inline function each that takes
// the arguments by name.
//
//===----------------------------------------------------------------------===//

#include "Signature.h"
#include "attn/Compiler/Compiler.h"
#include "attn/Conversion/LaunchToRuntime/RuntimeCalls.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/TargetParser/Triple.h"

using namespace mlir;
using namespace mlir::attn;

/// Whether a function or parameter cannot have this name in C or C++, or a
/// function of the C library has it.
static bool isTaken(StringRef name) {
  static const llvm::StringSet<> keywords = {
      // Names of the generated code.
      "args", "stream",
      // C and C++.
      "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor",
      "bool", "break", "case", "catch", "char", "class", "co_await",
      "co_return", "co_yield", "compl", "concept", "const", "consteval",
      "constexpr", "constinit", "const_cast", "continue", "decltype", "default",
      "delete", "do", "double", "dynamic_cast", "else", "enum", "explicit",
      "export", "extern", "false", "float", "for", "friend", "goto", "if",
      "inline", "int", "long", "main", "mutable", "namespace", "new",
      "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq",
      "private", "protected", "public", "register", "reinterpret_cast",
      "requires", "restrict", "return", "short", "signed", "sizeof", "static",
      "static_assert", "static_cast", "struct", "switch", "template", "this",
      "thread_local", "throw", "true", "try", "typedef", "typeid", "typename",
      "typeof", "typeof_unqual", "union", "unsigned", "using", "virtual",
      "void", "volatile", "wchar_t", "while", "xor", "xor_eq"};
  static const llvm::TargetLibraryInfoImpl library{llvm::Triple()};
  llvm::LibFunc function;
  return keywords.contains(name) || name.starts_with("attn") ||
         library.getLibFunc(name, function);
}

/// `name` with all characters that C does not allow replaced.
static std::string getIdentifier(StringRef name) {
  std::string identifier;
  for (char c : name)
    identifier += llvm::isAlnum(c) ? c : '_';
  if (identifier.empty() || llvm::isDigit(identifier.front()))
    identifier.insert(0, "_");
  if (isTaken(identifier))
    identifier += '_';
  return identifier;
}

/// `name` for a comment, which it must not end.
static std::string getComment(StringRef name) {
  std::string text = name.str();
  for (char &c : text)
    if (!llvm::isAlnum(c) && !StringRef("_.-$").contains(c))
      c = '_';
  return text;
}

/// The declarator of the symbol `prefix` + `name`: the name in C, which differs
/// if the symbol is not an identifier, and the text after the parameters.
static std::pair<std::string, std::string> getSymbol(StringRef prefix,
                                                     StringRef name) {
  std::string symbol = (prefix + name).str();
  std::string identifier;
  for (char c : symbol)
    identifier += llvm::isAlnum(c) ? c : '_';
  if (identifier == symbol)
    return {identifier, ""};
  std::string label;
  llvm::raw_string_ostream os(label);
  os << " __asm__(\"";
  os.write_escaped(symbol);
  os << "\")";
  return {identifier, label};
}

/// Names of the parameters of the function that takes arguments by name.
static SmallVector<std::string> getParameters(func::FuncOp func) {
  SmallVector<std::string> parameters;
  llvm::StringSet<> used;
  for (unsigned i = 0, e = func.getNumArguments(); i < e; ++i) {
    std::string name =
        getIdentifier(func.getArgAttrOfType<StringAttr>(i, argNameAttrName));
    while (!used.insert(name).second)
      name += '_';
    parameters.push_back(name);
  }
  return parameters;
}

/// "[batch, 32, queries, 128] bf16" of argument `index`.
static std::string describeTensor(func::FuncOp func, unsigned index) {
  auto symbols = func->getAttrOfType<ArrayAttr>(symbolsAttrName);
  auto dims = func.getArgAttrOfType<DenseI64ArrayAttr>(index, argDimsAttrName);
  std::string text;
  llvm::raw_string_ostream os(text);
  os << '[';
  llvm::interleaveComma(dims.asArrayRef(), os, [&](int64_t dim) {
    if (dim >= 0)
      os << dim;
    else
      os << getComment(cast<StringAttr>(symbols[ATTN_DIM_SYMBOL(dim)]));
  });
  os << "] "
     << cast<MemRefType>(func.getArgumentTypes()[index]).getElementType();
  return text;
}

static StringRef describeAccess(func::FuncOp func, unsigned index) {
  switch (getAccess(func, index)) {
  case ATTN_ACCESS_SIZES:
    return "sizes";
  case ATTN_ACCESS_READ:
    return "in";
  case ATTN_ACCESS_WRITE:
    return "out";
  case ATTN_ACCESS_READ_WRITE:
    return "inout";
  }
  llvm_unreachable("unknown access");
}

static void writeFunction(func::FuncOp func, bool withReference,
                          raw_ostream &os) {
  StringRef name = func.getName();
  unsigned numArguments = func.getNumArguments();
  os << "/** Arguments of " << getComment(name) << ":\n";
  for (unsigned i = 0; i < numArguments; ++i) {
    os << "    " << i << "  " << llvm::left_justify(describeAccess(func, i), 5)
       << "  "
       << getComment(func.getArgAttrOfType<StringAttr>(i, argNameAttrName))
       << ": " << describeTensor(func, i) << ", alignment "
       << func.getArgAttrOfType<IntegerAttr>(i, argAlignmentAttrName).getInt()
       << '\n';
  }
  os << "    Names instead of numbers are sizes that are known at run time;\n"
        "    equal names must be equal sizes. Of 'sizes', the elements are "
        "not\n"
        "    accessed. Returns an attn_status. */\n";
  auto [call, callLabel] = getSymbol(abi::callPrefix, name);
  os << "int32_t " << call
     << "(const attn_tensor *const *args, int32_t num_args,\n"
        "    void *stream)"
     << callLabel << ";\n\n";
  std::string flops = (abi::flopsPrefix + name).str();
  if (func->getParentOfType<ModuleOp>().lookupSymbol(flops)) {
    auto [symbol, label] = getSymbol(abi::flopsPrefix, name);
    os << "/** Floating point operations of a call with arguments of these "
          "shapes. */\n"
       << "int64_t " << symbol << "(const attn_tensor *const *args)" << label
       << ";\n\n";
  }
  if (withReference && func->getParentOfType<ModuleOp>().lookupSymbol(
                           (name + abi::referenceSuffix).str())) {
    auto [symbol, label] = getSymbol(abi::referencePrefix, name);
    os << "/** The same in f64, on the host: outputs are f64 tensors of which "
          "the rows\n    0, row_step, 2 * row_step, ... are written. */\n"
       << "int32_t " << symbol
       << "(const attn_tensor *const *args, int32_t num_args,\n"
          "    int64_t row_step)"
       << label << ";\n\n";
  }

  // Arguments by name, so that a C compiler checks their number.
  std::string indent(4, ' ');
  SmallVector<std::string> parameters = getParameters(func);
  os << "/** Calls " << call << ". */\n"
     << "static inline int32_t " << getIdentifier(name) << "(";
  for (const std::string &parameter : parameters)
    os << "\n" << indent << "const attn_tensor *" << parameter << ',';
  os << "\n" << indent << "void *stream) {\n";
  os << "  const attn_tensor *args[" << std::max(numArguments, 1u) << "];\n";
  for (auto [i, parameter] : llvm::enumerate(parameters))
    os << "  args[" << i << "] = " << parameter << ";\n";
  os << "  return " << call << "(args, " << numArguments << ", stream);\n}\n\n";
}

void attn::writeHeader(ModuleOp module, StringRef target, bool withReference,
                       raw_ostream &os) {
  SmallVector<func::FuncOp> functions;
  for (auto func : module.getOps<func::FuncOp>())
    if (func.isPublic() && func->hasAttrOfType<ArrayAttr>(symbolsAttrName))
      functions.push_back(func);
  std::string guard = "ATTN_GENERATED";
  for (func::FuncOp func : functions)
    guard += "_" + StringRef(getIdentifier(func.getName())).upper();
  guard += "_H";
  os << "/* Generated by attn " ATTN_VERSION_STRING " for target " << target
     << ". Do not edit. */\n\n"
     << "#ifndef " << guard << "\n#define " << guard << "\n\n"
     << "#include \"attn-runtime/attn_runtime.h\"\n\n"
     << "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
     << "/** Describes all functions of this artifact. */\n"
     << "extern const struct attn_artifact " ATTN_ARTIFACT_SYMBOL ";\n\n";
  for (func::FuncOp func : functions)
    writeFunction(func, withReference, os);
  os << "#ifdef __cplusplus\n}\n#endif\n\n#endif /* " << guard << " */\n";
}
