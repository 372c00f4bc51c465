//===- attn-tblgen.cpp - Names and texts of definitions -------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes what MLIR's own generators do not: the parameters of attributes that
// messages about unknown ones list, structs that build attributes with many
// parameters, and the names, summaries and custom forms that the language
// server offers. The build runs it; it is not installed.
//
//===----------------------------------------------------------------------===//

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TableGen/Main.h"
#include "llvm/TableGen/Record.h"
#include <string>
#include <vector>

using namespace llvm;

namespace {
enum class Action { StructParameters, ParameterStructs, Definitions };
} // namespace

static cl::opt<Action> action(
    cl::desc("What to write:"), cl::Required,
    cl::values(
        clEnumValN(Action::StructParameters, "gen-struct-parameters",
                   "the parameters of attributes with a struct in their form"),
        clEnumValN(Action::ParameterStructs, "gen-parameter-structs",
                   "structs with the parameters of such attributes"),
        clEnumValN(Action::Definitions, "gen-definitions",
                   "operations, attributes and types with their texts")));

static cl::opt<std::string>
    dialectName("dialect", cl::desc("The dialect to write"), cl::Required);

/// The string of a field, or an empty one if the field is absent or unset.
static StringRef getString(const Record &record, StringRef field) {
  const RecordVal *value = record.getValue(field);
  if (!value)
    return "";
  const auto *string = dyn_cast<StringInit>(value->getValue());
  return string ? string->getValue() : "";
}

/// The records of class `name` in the chosen dialect, in the order of the file.
static std::vector<const Record *> getRecords(const RecordKeeper &records,
                                              StringRef name,
                                              StringRef dialectField) {
  std::vector<const Record *> found;
  if (!records.getClass(name))
    return found;
  for (const Record *record : records.getAllDerivedDefinitions(name))
    if (record->getValueAsDef(dialectField)->getValueAsString("name") ==
        dialectName)
      found.push_back(record);
  llvm::sort(found, [](const Record *a, const Record *b) {
    return a->getID() < b->getID();
  });
  return found;
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

namespace {
/// A parameter that is written as `name = value`.
struct Parameter {
  std::string name;
  /// The kind of value and the default, or the summary of an enumeration.
  std::string summary;
  /// The keywords of an enumeration; empty for other types.
  std::vector<std::string> values;
};
} // namespace

/// The keywords of an enumeration.
static std::vector<std::string> getCases(const Record &enumeration) {
  std::vector<std::string> cases;
  for (const Record *each : enumeration.getValueAsListOfDefs("enumerants"))
    cases.push_back(each->getValueAsString("str").str());
  return cases;
}

/// The enumeration of a parameter; null if it has another type.
static const Record *getEnumeration(const Record &parameter) {
  // EnumParameter does not keep its enumeration; the C++ type names it.
  StringRef type = getString(parameter, "cppType");
  for (const Record *each :
       parameter.getRecords().getAllDerivedDefinitionsIfDefined("EnumInfo")) {
    StringRef name = getString(*each, "className");
    if (type == name ||
        type == (getString(*each, "cppNamespace") + "::" + name).str())
      return each;
  }
  return nullptr;
}

/// Words for the values of a C++ type.
static std::string describeType(StringRef type) {
  if (type.consume_front("std::optional<") && type.consume_back(">"))
    return describeType(type) + ", optional";
  if (type == "int64_t")
    return "integer";
  if (type == "bool")
    return "flag";
  type.consume_front("::mlir::attn::");
  if (type.consume_back("AttrInterface"))
    return "a " + type.lower();
  return type.str();
}

/// Words for the values of a parameter other than an enumeration, and its
/// default.
static std::string describeParameter(const Record &parameter) {
  StringRef summary = getString(parameter, "summary");
  std::string text = summary.empty()
                         ? describeType(getString(parameter, "cppType"))
                         : summary.str();
  StringRef value = getString(parameter, "defaultValue");
  if (!value.empty() && llvm::all_of(value, llvm::isAlnum))
    text += ", default " + value.str();
  return text;
}

/// The parameters that the custom form writes as `name = value`.
static std::vector<Parameter> getStructParameters(const Record &record) {
  std::vector<Parameter> parameters;
  StringRef format = getString(record, "assemblyFormat");
  size_t start = format.find("struct(");
  if (start == StringRef::npos)
    return parameters;
  StringRef inside =
      format.substr(start).drop_front(strlen("struct(")).split(')').first;
  SmallVector<StringRef> chosen;
  inside.split(chosen, ',');
  for (StringRef &each : chosen)
    each = each.trim().ltrim('$');
  bool isAll = inside.trim() == "params";

  const DagInit *all = record.getValueAsDag("parameters");
  for (unsigned i = 0, e = all->getNumArgs(); i < e; ++i) {
    StringRef name = all->getArgNameStr(i);
    if (!isAll && !llvm::is_contained(chosen, name))
      continue;
    Parameter parameter{name.str(), "", {}};
    if (const auto *type = dyn_cast<StringInit>(all->getArg(i))) {
      parameter.summary = describeType(type->getValue());
    } else {
      const Record *def = cast<DefInit>(all->getArg(i))->getDef();
      if (const Record *enumeration = getEnumeration(*def)) {
        parameter.summary = getString(*enumeration, "summary").str();
        parameter.values = getCases(*enumeration);
      } else {
        parameter.summary = describeParameter(*def);
        if (getString(*def, "cppType") == "bool")
          parameter.values = {"true", "false"};
      }
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

/// Writes a function from the mnemonic of an attribute to the parameters that
/// its custom form may have.
static void writeStructParameters(const RecordKeeper &records,
                                  raw_ostream &os) {
  os << "static llvm::SmallVector<llvm::StringRef>\n"
        "getStructParameters(llvm::StringRef mnemonic) {\n";
  for (const Record *attribute : getRecords(records, "AttrDef", "dialect")) {
    std::vector<Parameter> parameters = getStructParameters(*attribute);
    if (parameters.empty())
      continue;
    os << "  if (mnemonic == \"" << getString(*attribute, "mnemonic")
       << "\")\n    return {";
    llvm::interleaveComma(parameters, os, [&](const Parameter &parameter) {
      os << '"' << parameter.name << '"';
    });
    os << "};\n";
  }
  os << "  return {};\n}\n";
}

//===----------------------------------------------------------------------===//
// Structs of parameters
//===----------------------------------------------------------------------===//

namespace {
/// A parameter as a member of a struct.
struct Member {
  std::string name, type, value;

  std::string getName() const { return convertToCamelFromSnakeCase(name); }
  std::string getAccessor() const {
    return "get" + convertToCamelFromSnakeCase(name, /*capitalizeFirst=*/true);
  }
};
} // namespace

static std::vector<Member> getMembers(const Record &attribute) {
  std::vector<Member> members;
  const DagInit *all = attribute.getValueAsDag("parameters");
  for (unsigned i = 0, e = all->getNumArgs(); i < e; ++i) {
    Member member;
    member.name = all->getArgNameStr(i).str();
    if (const auto *type = dyn_cast<StringInit>(all->getArg(i))) {
      member.type = type->getValue().str();
    } else {
      const Record *def = cast<DefInit>(all->getArg(i))->getDef();
      member.type = getString(*def, "cppType").str();
      member.value = getString(*def, "defaultValue").str();
    }
    if (member.value.empty())
      member.value = member.type + "{}";
    members.push_back(std::move(member));
  }
  return members;
}

static constexpr StringRef verifyResult = "::llvm::LogicalResult ";
static constexpr StringRef verifyParameter =
    "::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError";

/// Writes the verifier of an attribute, which asks the struct of its
/// parameters.
static void writeVerifier(StringRef className, StringRef structName,
                          ArrayRef<Member> members, raw_ostream &os) {
  os << "inline " << verifyResult << className << "::verify("
     << verifyParameter;
  for (const Member &member : members)
    os << ", " << member.type << ' ' << member.getName();
  os << ") {\n  " << structName << " parameters;\n";
  for (const Member &member : members)
    os << "  parameters." << member.getName() << " = " << member.getName()
       << ";\n";
  os << "  return parameters.verify(emitError);\n}\n\n";
}

/// Writes, for each attribute with a struct in its form, a struct whose members
/// are the parameters, with their defaults. It is made from an attribute or
/// member by member, and makes and verifies an attribute.
static void writeParameterStructs(const RecordKeeper &records,
                                  raw_ostream &os) {
  for (const Record *attribute : getRecords(records, "AttrDef", "dialect")) {
    if (getStructParameters(*attribute).empty())
      continue;
    StringRef className = getString(*attribute, "cppClassName");
    std::string name = className.drop_back(strlen("Attr")).str() + "Parameters";
    std::vector<Member> members = getMembers(*attribute);
    os << "/// The parameters of `#" << dialectName << '.'
       << getString(*attribute, "mnemonic") << "`.\nstruct " << name << " {\n  "
       << name << "() = default;\n  explicit " << name << '(' << className
       << " attribute) {\n";
    for (const Member &member : members)
      os << "    " << member.getName() << " = attribute."
         << member.getAccessor() << "();\n";
    os << "  }\n\n  " << className
       << " get(::mlir::MLIRContext *context) const {\n    return " << className
       << "::get(context";
    for (const Member &member : members)
      os << ", " << member.getName();
    os << ");\n  }\n\n";
    bool isVerified = attribute->getValueAsBit("genVerifyDecl");
    if (isVerified)
      os << "  " << verifyResult << "verify(" << verifyParameter
         << ") const;\n\n";
    for (const Member &member : members)
      os << "  " << member.type << ' ' << member.getName() << " = "
         << member.value << ";\n";
    os << "};\n\n";
    if (isVerified)
      writeVerifier(className, name, members, os);
  }
}

//===----------------------------------------------------------------------===//
// Definitions
//===----------------------------------------------------------------------===//

/// Lines without the indentation that all of them share, and without blank
/// lines at both ends.
static std::string unindent(StringRef text) {
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  size_t indentation = StringRef::npos;
  for (StringRef line : lines)
    if (!line.trim().empty())
      indentation = std::min(indentation, line.find_first_not_of(' '));
  std::string result;
  for (StringRef line : lines)
    result +=
        line.drop_front(std::min(indentation, line.size())).rtrim().str() +
        "\n";
  return StringRef(result).trim('\n').str();
}

/// The first block of MLIR code in a description.
static std::string getExample(StringRef description) {
  StringRef rest = description.split("```mlir\n").second;
  return unindent(rest.split("```").first);
}

/// The assembly format of an operation in one line, as the reference has it.
static std::string getSyntax(const Record &op) {
  StringRef format = getString(op, "assemblyFormat");
  std::string syntax;
  raw_string_ostream os(syntax);
  SmallVector<StringRef> words;
  SplitString(format, words, " \n\t");
  llvm::interleave(words, os, " ");
  return syntax;
}

static void writeText(raw_ostream &os, StringRef text) {
  os << '"';
  os.write_escaped(text) << '"';
}

/// Writes an initializer of a `Definition` of the language server.
static void writeDefinition(raw_ostream &os, StringRef kind, StringRef mnemonic,
                            const Record &record, StringRef syntax,
                            ArrayRef<Parameter> parameters) {
  os << "{DefinitionKind::" << kind << ", ";
  writeText(os, dialectName);
  os << ", ";
  writeText(os, mnemonic);
  std::string example = getExample(getString(record, "description"));
  for (StringRef text :
       {getString(record, "summary"), syntax, StringRef(example)}) {
    os << ",\n  ";
    writeText(os, text);
  }
  os << ",\n  {";
  for (const Parameter &parameter : parameters) {
    os << '{';
    writeText(os, parameter.name);
    os << ", ";
    writeText(os, parameter.summary);
    os << ", {";
    llvm::interleaveComma(parameter.values, os, [&](const std::string &value) {
      writeText(os, value);
    });
    os << "}},\n   ";
  }
  os << "}},\n";
}

static void writeDefinitions(const RecordKeeper &records, raw_ostream &os) {
  for (const Record *op : getRecords(records, "Op", "opDialect"))
    writeDefinition(os, "Operation", getString(*op, "opName"), *op,
                    getSyntax(*op), {});
  for (const Record *attribute : getRecords(records, "AttrDef", "dialect")) {
    std::vector<Parameter> parameters = getStructParameters(*attribute);
    bool isKeyword = attribute->isSubClassOf("EnumAttr");
    if (isKeyword)
      parameters = {{"", getString(*attribute, "summary").str(),
                     getCases(*attribute->getValueAsDef("enum"))}};
    writeDefinition(os, isKeyword ? "KeywordAttribute" : "Attribute",
                    getString(*attribute, "mnemonic"), *attribute, "",
                    parameters);
  }
  for (const Record *type : getRecords(records, "TypeDef", "dialect"))
    writeDefinition(os, "Type", getString(*type, "mnemonic"), *type, "", {});
}

static bool run(raw_ostream &os, const RecordKeeper &records) {
  os << "// Autogenerated by attn-tblgen; don't edit.\n\n";
  switch (action) {
  case Action::StructParameters:
    writeStructParameters(records, os);
    break;
  case Action::ParameterStructs:
    writeParameterStructs(records, os);
    break;
  case Action::Definitions:
    writeDefinitions(records, os);
    break;
  }
  return false;
}

int main(int argc, char **argv) {
  InitLLVM initLLVM(argc, argv);
  cl::ParseCommandLineOptions(argc, argv);
  return TableGenMain(argv[0], run);
}
