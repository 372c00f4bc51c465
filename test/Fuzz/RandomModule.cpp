//===- RandomModule.cpp - Small modules with attention --------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Regions grow value by value: each operation takes values that there are
// already. Arguments of the function are added where something reads them.
//
//===----------------------------------------------------------------------===//

#include "RandomModule.h"
#include "RandomParts.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

#include <optional>
#include <vector>

using namespace mlir::attn::fuzz;
using llvm::ArrayRef;
using llvm::StringRef;
using llvm::Twine;

/// A random element of a constant list of names.
#define PICK(random, ...) (random).pick<StringRef>({__VA_ARGS__})

namespace {
/// The sizes of an operation, as they stand in types.
struct Sizes {
  std::string batch, queryHeads, keyHeads, queries, keys, qkDim, vDim;
};

/// The body of a region.
class RegionWriter;

class ModuleWriter {
public:
  ModuleWriter(RandomChoices &random, const ModuleOptions &options)
      : random(random), options(options) {}

  std::string write();

  /// Adds an argument of a new name, which begins with `name`.
  std::string addArgument(const Twine &name, const Twine &type);
  /// The type that an argument was added with.
  StringRef getType(StringRef argument) const {
    return types.find(argument)->second;
  }

private:
  void chooseSizes();
  std::string chooseSize();
  int64_t chooseDim();
  void narrowInputs();
  std::string writeAttention();
  std::string writeAttentionOfParts();
  std::string writeAttentionOp(ArrayRef<std::string> ins,
                               ArrayRef<std::string> outs,
                               const Twine &sequences, StringRef layout);
  std::string writeGradient();
  std::string writeMatmul();
  std::string finish(const Twine &operation, ArrayRef<std::string> outs);
  std::string writeResults(const Twine &operation,
                           ArrayRef<std::string> outs) const;
  std::string joinTypes(ArrayRef<std::string> values) const;
  std::string finish(const Twine &code, ArrayRef<std::string> results,
                     ArrayRef<std::string> resultTypes);

  std::string getHeads(StringRef heads, StringRef rows, StringRef dim,
                       StringRef type) const;
  std::string writeOperand(StringRef keyword, StringRef name,
                           const Twine &type);
  std::string writeSequences(StringRef &layout);
  std::string writePairs(const Twine &sequences, StringRef layout,
                         bool hasIdentity, bool &hasDropout);
  std::string writePositions(bool isShard, StringRef dropout);
  std::string writeMasks(bool mayRead);
  std::string writeMask(unsigned depth, bool mayRead,
                        std::vector<std::string> &reads);
  std::string writeDataMask(std::vector<std::string> &reads);
  std::string writeBlockSparse(std::vector<std::string> &reads);
  std::string writeDropout(StringRef sequenceLayout);
  std::string writeScale();
  std::string writeAlignment(bool isFirst);
  std::string writeTiles(bool isForward, bool hasDropout, bool hasSequences);
  std::string writeRegions(bool isGradient);
  int64_t chooseConstant(int64_t least);

  RandomChoices &random;
  const ModuleOptions &options;
  Sizes sizes;
  /// The element type of tensors, and of queries, keys and values of attention.
  StringRef inputType, queryType, keyType;
  /// Whether slices around attention have sizes that arguments do not have.
  bool hasParts = false;
  std::vector<std::pair<std::string, std::string>> arguments;
  llvm::StringMap<std::string> types;
};

class RegionWriter {
public:
  RegionWriter(ModuleWriter &module, RandomChoices &random, const Sizes &sizes)
      : module(module), random(random), sizes(sizes) {}

  /// The code of a region and the scalar that it yields.
  std::string writeMaskMod();
  std::string writeScoreMod();
  std::string writeEpilogue();

private:
  std::string add(StringRef type, const Twine &code);
  std::string take(StringRef type);
  std::string addConstant(StringRef type);
  void addIntegers(unsigned count);
  void addInteger();
  void addCast();
  std::string addRead(bool isFloat);
  std::string addCondition();
  std::string addOtherFloat();
  std::string changeFloat(StringRef current);

  ModuleWriter &module;
  RandomChoices &random;
  const Sizes &sizes;
  /// The position that heads are read by: a matmul has none.
  StringRef head = "%h";
  std::string code;
  unsigned numValues = 0;
  llvm::StringMap<std::vector<std::string>> values;
};
} // namespace

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

std::string RegionWriter::add(StringRef type, const Twine &text) {
  std::string name = "%r" + std::to_string(numValues++);
  code += ("    " + name + " = " + text + "\n").str();
  values[type].push_back(name);
  return name;
}

std::string RegionWriter::addConstant(StringRef type) {
  StringRef value;
  if (type == "f32")
    value = PICK(random, "0.0", "0.5", "-1.0", "2.0", "1.25e-3", "-3.5",
                 "-1.0e+10", "1.0e+12", "-2.0e+30");
  else if (type == "index")
    value = PICK(random, "0", "1", "2", "3", "7", "8", "16", "17", "40", "-1",
                 "2147483647", "-2147483648");
  else if (type == "i32")
    value = PICK(random, "0", "1", "-1", "2", "3", "5", "8", "16", "31", "32",
                 "2147483647", "-2147483648");
  else
    value = PICK(random, "0", "1", "-1", "3", "8", "16", "63", "64",
                 "4294967296", "9223372036854775807", "-9223372036854775808");
  return add(type, "arith.constant " + value + " : " + type);
}

std::string RegionWriter::take(StringRef type) {
  std::vector<std::string> &pool = values[type];
  if (pool.empty() || random.onceIn(4))
    return addConstant(type);
  return random.pick(pool);
}

std::string RegionWriter::addRead(bool isFloat) {
  StringRef type = isFloat ? PICK(random, "f32", "f32", "bf16", "f16")
                           : PICK(random, "i32", "i32", "i64", "i8", "i1");
  std::string shape, index;
  auto addDim = [&](const Twine &size, const Twine &at) {
    shape += (size + "x").str();
    index += (index.empty() ? at : ", " + at).str();
  };
  switch (random.below(7)) {
  case 0:
    break;
  case 1:
    addDim(sizes.queryHeads, head);
    break;
  case 2:
    addDim(sizes.queryHeads, head);
    addDim(random.onceIn(2) ? sizes.keys : "?", "%j");
    break;
  case 3:
    addDim(random.onceIn(2) ? sizes.queries : "?", "%i");
    addDim(random.onceIn(2) ? sizes.keys : "?", "%j");
    break;
  case 4:
    addDim(sizes.batch, "%b");
    addDim("?", random.onceIn(2) ? "%i" : "%j");
    break;
  default:
    for (unsigned i = 0, e = random.between(1, 2); i < e; ++i)
      addDim(PICK(random, "1", "3", "5", "16", "?"),
             add("index", "arith.addi %i, " + take("index") + " : index"));
  }
  std::string tensorType = ("tensor<" + shape + type + ">").str();
  std::string tensor = module.addArgument("t", tensorType);
  std::string value =
      add(type, "tensor.extract " + tensor + "[" + index + "] : " + tensorType);
  if (type == "i8")
    return add("i32", "arith.extsi " + value + " : i8 to i32");
  if (isFloat && type != "f32")
    return add("f32", "arith.extf " + value + " : " + type + " to f32");
  return value;
}

void RegionWriter::addCast() {
  std::string index = take("index");
  switch (random.below(6)) {
  case 0:
    add("i32", "arith.index_cast " + Twine(index) + " : index to i32");
    return;
  case 1:
    add("i64", "arith.index_cast " + Twine(index) + " : index to i64");
    return;
  case 2:
    add("index", "arith.index_cast " + Twine(take("i32")) + " : i32 to index");
    return;
  case 3:
    add("i64", Twine(PICK(random, "arith.extsi ", "arith.extui ")) +
                   take("i32") + " : i32 to i64");
    return;
  case 4:
    add("i32", "arith.trunci " + Twine(take("i64")) + " : i64 to i32");
    return;
  default:
    add("i32", Twine(PICK(random, "arith.extsi ", "arith.extui ")) +
                   addCondition() + " : i1 to i32");
  }
}

void RegionWriter::addInteger() {
  if (random.onceIn(4))
    return addCast();
  if (random.onceIn(4)) {
    addRead(/*isFloat=*/false);
    return;
  }
  StringRef type = PICK(random, "index", "index", "i32", "i32", "i64");
  if (random.onceIn(8)) {
    std::string condition = addCondition();
    add(type, "arith.select " + Twine(condition) + ", " + take(type) + ", " +
                  take(type) + " : " + type);
    return;
  }
  StringRef name =
      PICK(random, "addi", "subi", "muli", "divsi", "divui", "remsi", "remui",
           "floordivsi", "ceildivsi", "ceildivui", "divsi", "remsi", "remui",
           "andi", "ori", "xori", "minsi", "maxsi", "minui", "maxui", "shli",
           "shrui", "shrsi");
  std::string a = take(type), b = take(type);
  add(type, "arith." + name + " " + a + ", " + b + " : " + type);
}

void RegionWriter::addIntegers(unsigned count) {
  for (unsigned i = 0; i < count; ++i)
    addInteger();
}

std::string RegionWriter::addCondition() {
  if (!values["i1"].empty() && random.onceIn(3)) {
    if (random.onceIn(2))
      return random.pick(values["i1"]);
    std::string a = random.pick(values["i1"]), b = random.pick(values["i1"]);
    return add("i1", "arith." + PICK(random, "andi", "ori", "xori") + " " + a +
                         ", " + b + " : i1");
  }
  StringRef type = PICK(random, "index", "index", "i32", "i64");
  StringRef predicate = PICK(random, "eq", "ne", "slt", "sle", "sgt", "sge",
                             "ult", "ule", "ugt", "uge");
  std::string a = take(type), b = take(type);
  return add("i1",
             "arith.cmpi " + predicate + ", " + a + ", " + b + " : " + type);
}

std::string RegionWriter::addOtherFloat() {
  switch (random.below(4)) {
  case 0:
    return addConstant("f32");
  case 1: {
    std::string integer = add(
        "i32", "arith.index_cast " + Twine(take("index")) + " : index to i32");
    if (random.onceIn(2))
      integer = take("i32");
    return add("f32", Twine(PICK(random, "arith.sitofp ", "arith.sitofp ",
                                 "arith.uitofp ")) +
                          integer + " : i32 to f32");
  }
  case 2:
    return take("f32");
  default:
    return addRead(/*isFloat=*/true);
  }
}

std::string RegionWriter::changeFloat(StringRef current) {
  switch (random.below(6)) {
  case 0: {
    StringRef name =
        PICK(random, "math.tanh", "math.tanh", "math.absf", "arith.negf",
             "math.sin", "math.cos", "math.exp2", "math.exp", "math.floor",
             "math.ceil", "math.sqrt", "math.log");
    return add("f32", name + " " + current + " : f32");
  }
  case 1: {
    std::string condition = addCondition();
    std::string other = random.onceIn(4)
                            ? add("f32", "arith.constant 0xFF800000 : f32")
                            : addOtherFloat();
    return add("f32", "arith.select " + Twine(condition) + ", " + current +
                          ", " + other + " : f32");
  }
  case 2: {
    std::string other = addOtherFloat();
    std::string condition =
        add("i1", "arith.cmpf " + PICK(random, "olt", "oge", "ueq", "une") +
                      ", " + other + ", " + addOtherFloat() + " : f32");
    return add("f32", "arith.select " + Twine(condition) + ", " + current +
                          ", " + other + " : f32");
  }
  default: {
    StringRef name = PICK(random, "addf", "addf", "subf", "mulf", "mulf",
                          "divf", "maximumf", "minimumf");
    std::string other = addOtherFloat();
    bool swap = random.onceIn(4);
    return add("f32", "arith." + name + " " +
                          (swap ? StringRef(other) : current) + ", " +
                          (swap ? current : StringRef(other)) + " : f32");
  }
  }
}

std::string RegionWriter::writeMaskMod() {
  values["index"] = {"%b", "%h", "%i", "%j", "%i", "%j"};
  addIntegers(random.between(1, 8));
  std::string kept = addCondition();
  return "mask_mod {\n  ^bb0(%b: index, %h: index, %i: index, %j: index):\n" +
         code + "    attn.yield " + kept + " : i1\n  }";
}

std::string RegionWriter::writeScoreMod() {
  values["index"] = {"%b", "%h", "%i", "%j", "%i", "%j"};
  addIntegers(random.between(0, 4));
  std::string score = "%s";
  for (unsigned i = 0, e = random.between(1, 4); i < e; ++i)
    score = changeFloat(score);
  return "score_mod {\n  ^bb0(%s: f32, %b: index, %h: index, %i: index, "
         "%j: index):\n" +
         code + "    attn.yield " + score + " : f32\n  }";
}

std::string RegionWriter::writeEpilogue() {
  head = "%b";
  values["index"] = {"%b", "%i", "%j", "%i", "%j"};
  addIntegers(random.between(0, 3));
  std::string element = "%s";
  for (unsigned i = 0, e = random.between(1, 3); i < e; ++i)
    element = changeFloat(element);
  return "epilogue {\n  ^bb0(%s: f32, %b: index, %i: index, %j: index):\n" +
         code + "    attn.yield " + element + " : f32\n  }";
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

int64_t ModuleWriter::chooseConstant(int64_t least) {
  if (!random.onceIn(4))
    return random.between(least, least + 24);
  // The largest constants that masks accept are less than 2^30.
  return random.pick<int64_t>({least, 63, 64, 65, 127, 1000, 32767, 65536,
                               536870912, 1073741822, 1073741823});
}

std::string ModuleWriter::writeAlignment(bool isFirst) {
  if (!random.onceIn(3))
    return "";
  return isFirst ? "<alignment = top_left>" : ", alignment = top_left";
}

std::string ModuleWriter::writeBlockSparse(std::vector<std::string> &reads) {
  std::string batch = random.onceIn(2) ? "1" : sizes.batch;
  std::string heads = random.onceIn(2) ? "1" : sizes.queryHeads;
  std::string type = "tensor<" + batch + "x" + heads + "x?xi32>";
  reads.push_back(addArgument("offsets", type));
  reads.push_back(addArgument("indices", type));
  return ("#attn.block_sparse<rows = " + PICK(random, "16", "32") +
          ", columns = " + PICK(random, "16", "32") +
          ", offsets = " + Twine(reads.size() - 2) +
          ", indices = " + Twine(reads.size() - 1) + ">")
      .str();
}

std::string ModuleWriter::writeDataMask(std::vector<std::string> &reads) {
  std::string batch = random.onceIn(2) ? "1" : sizes.batch;
  std::string first = std::to_string(reads.size());
  std::string second = std::to_string(reads.size() + 1);
  switch (random.below(4)) {
  case 0:
    reads.push_back(
        addArgument("ids", "tensor<" + batch + "x" + sizes.queries + "xi32>"));
    reads.push_back(
        addArgument("ids", "tensor<" + batch + "x" + sizes.keys + "xi32>"));
    return "#attn.documents<queries = " + first + ", keys = " + second + ">";
  case 1:
    reads.push_back(addArgument("bounds", "tensor<" + batch + "x?xi32>"));
    reads.push_back(addArgument("bounds", "tensor<" + batch + "x?xi32>"));
    return "#attn.packed_documents<queries = " + first + ", keys = " + second +
           ">";
  case 2:
    reads.push_back(addArgument("parents", "tensor<" + batch + "x" +
                                               sizes.queries + "xi32>"));
    return "#attn.tree<parents = " + first + ">";
  default:
    return writeBlockSparse(reads);
  }
}

std::string ModuleWriter::writeMask(unsigned depth, bool mayRead,
                                    std::vector<std::string> &reads) {
  auto number = [&](int64_t least) {
    return std::to_string(chooseConstant(least));
  };
  if (depth > 0 && random.onceIn(2)) {
    if (random.onceIn(3))
      return "#attn.not<" + writeMask(depth - 1, mayRead, reads) + ">";
    std::string text =
        random.onceIn(2) ? std::string("#attn.and<") : std::string("#attn.or<");
    text += writeMask(depth - 1, mayRead, reads);
    for (unsigned i = 0, e = random.between(1, 2); i < e; ++i)
      text += ", " + writeMask(depth - 1, mayRead, reads);
    return text + ">";
  }
  if (mayRead && random.onceIn(6))
    return writeDataMask(reads);
  switch (random.below(8)) {
  case 0:
    return "#attn.sliding_window<left = " + number(0) + writeAlignment(false) +
           ">";
  case 1:
    return "#attn.sliding_window<left = " + number(0) +
           ", right = " + number(0) + writeAlignment(false) + ">";
  case 2:
    return "#attn.prefix_lm<length = " + number(0) + writeAlignment(false) +
           ">";
  case 3:
    return "#attn.dilated_window<left = " + number(0) +
           ", right = " + number(0) + ", dilation = " + number(1) +
           writeAlignment(false) + ">";
  case 4:
    return "#attn.local_blocks<size = " + number(1) +
           ", before = " + number(0) + ", after = " + number(0) +
           writeAlignment(false) + ">";
  case 5:
    return "#attn.local_blocks<size = " + number(1) + ", after = " + number(0) +
           writeAlignment(false) + ">";
  case 6:
    return "#attn.global_tokens<count = " + number(0) + ">";
  default:
    return "#attn.causal" + writeAlignment(true);
  }
}

std::string ModuleWriter::writeMasks(bool mayRead) {
  if (random.onceIn(3))
    return "";
  std::vector<std::string> reads;
  std::string text =
      " mask(" + writeMask(random.below(4), mayRead, reads) + ")";
  if (reads.empty())
    return text;
  std::vector<std::string> readTypes;
  for (const std::string &read : reads)
    readTypes.push_back(getType(read).str());
  return text + " reads(" + llvm::join(reads, ", ") + " : " +
         llvm::join(readTypes, ", ") + ")";
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

std::string ModuleWriter::addArgument(const Twine &name, const Twine &type) {
  std::string argument = ("%" + name + Twine(arguments.size())).str();
  arguments.push_back({argument, type.str()});
  types[argument] = type.str();
  return argument;
}

std::string ModuleWriter::chooseSize() {
  if (random.onceIn(2))
    return "?";
  return std::to_string(random.onceIn(3)
                            ? random.pick<int64_t>({1, 7, 8, 9, 15, 16, 17, 32})
                            : random.between(1, options.largestLength));
}

/// A head dim.
int64_t ModuleWriter::chooseDim() {
  if (options.isForGPU)
    return random.pick<int64_t>({8, 8, 16, 16, 16, 24, 32, 32, 40, 64, 72});
  return random.pick<int64_t>(
      {1, 2, 3, 5, 8, 8, 8, 12, 16, 16, 17, 20, 24, 32, 40});
}

void ModuleWriter::chooseSizes() {
  int64_t keyHeads = random.between(1, 3), groups = random.between(1, 3);
  sizes.batch = random.onceIn(2) ? "?" : PICK(random, "1", "2");
  sizes.keyHeads = std::to_string(keyHeads);
  sizes.queryHeads = std::to_string(keyHeads * groups);
  sizes.queries = chooseSize();
  sizes.keys = chooseSize();
  sizes.qkDim = std::to_string(chooseDim());
  sizes.vDim = random.onceIn(3) ? std::to_string(chooseDim()) : sizes.qkDim;
  inputType = PICK(random, "f32", "f32", "bf16", "f16");
  queryType = keyType = inputType;
}

std::string ModuleWriter::getHeads(StringRef heads, StringRef rows,
                                   StringRef dim, StringRef type) const {
  return ("tensor<" + sizes.batch + "x" + heads + "x" + rows + "x" + dim + "x" +
          type + ">")
      .str();
}

std::string ModuleWriter::writeOperand(StringRef keyword, StringRef name,
                                       const Twine &type) {
  std::string argument = addArgument(name, type);
  return (" " + keyword + "(" + argument + " : " + type + ")").str();
}

std::string ModuleWriter::writeSequences(StringRef &layout) {
  if (!random.onceIn(6))
    return "";
  layout = PICK(random, "packed", "padded");
  std::string count = "?";
  if (layout == "packed")
    sizes.batch = "1";
  else
    count = sizes.batch;
  std::string type = "tensor<" + count + "xi32>";
  std::string q = addArgument("cuq", type), k = addArgument("cuk", type);
  return (" sequences " + layout + "(" + q + ", " + k + " : " + type + ", " +
          type + ")")
      .str();
}

/// The positions of a shard, or of the random numbers of `dropout` alone.
std::string ModuleWriter::writePositions(bool isShard, StringRef dropout) {
  bool isForDropout =
      StringRef(dropout).starts_with(" dropout(") && random.onceIn(3);
  if (!isShard && !isForDropout)
    return "";
  std::string text = writeOperand("positions", "positions", "tensor<6xi32>");
  return isForDropout ? text + " dropout_only" : text;
}

/// The clauses that decide which pairs attend, and with which scores.
std::string ModuleWriter::writePairs(const Twine &sequences, StringRef layout,
                                     bool hasIdentity, bool &hasDropout) {
  bool isShard = layout.empty() && !hasIdentity && random.onceIn(4);
  std::string scale = writeScale();
  std::string masks =
      writeMasks(/*mayRead=*/layout.empty() && !isShard && !hasParts);
  std::string dropout = writeDropout(layout);
  hasDropout = !dropout.empty();
  std::string positions =
      layout.empty() ? writePositions(isShard, dropout) : std::string();
  return sequences.str() + positions + scale + masks + dropout;
}

std::string ModuleWriter::writeDropout(StringRef sequenceLayout) {
  if (!random.onceIn(5))
    return "";
  if (!hasParts && random.onceIn(2)) {
    std::string batch = sequenceLayout == "packed" ? "?" : sizes.batch;
    std::string type = "tensor<" + batch + "x" + sizes.queryHeads + "x?x?xi32>";
    std::string words = addArgument("words", type);
    return (" dropout_mask " + PICK(random, "rows", "columns") + "(" + words +
            " : " + type + ") p(" + PICK(random, "0.125", "0.5", "0.0", "0.9") +
            ")")
        .str();
  }
  std::string seed = addArgument("seed", "tensor<i64>");
  std::string offset = addArgument("offset", "tensor<i64>");
  StringRef rng = PICK(random, "#attn.philox", "#attn.philox<rounds = 7>",
                       "#attn.arx", "#attn.arx<rounds = 5>", "#attn.threefry");
  StringRef parameters =
      PICK(random, "p = 0.125", "p = 0.5", "p = 0.1", "p = 0.75", "p = 0.3");
  return (" dropout(#attn.dropout<" + parameters + ", rng = " + rng + ">, " +
          seed + ", " + offset + " : tensor<i64>, tensor<i64>)")
      .str();
}

std::string ModuleWriter::writeScale() {
  if (!random.onceIn(4))
    return "";
  return (" scale(" +
          PICK(random, "1.0", "-0.25", "0.0", "3.0", "1.0e-3", "0.125") + ")")
      .str();
}

std::string ModuleWriter::writeRegions(bool isGradient) {
  std::string text;
  if (random.onceIn(2))
    text += " " + RegionWriter(*this, random, sizes).writeScoreMod();
  if (random.onceIn(3))
    text += " " + RegionWriter(*this, random, sizes).writeMaskMod();
  return text;
}

/// The function with `code`, which computes `results`.
std::string ModuleWriter::finish(const Twine &code,
                                 ArrayRef<std::string> results,
                                 ArrayRef<std::string> resultTypes) {
  std::vector<std::string> signature;
  for (const auto &[name, type] : arguments)
    signature.push_back(name + ": " + type);
  std::string list = llvm::join(resultTypes, ", ");
  return ("func.func @f(" + llvm::join(signature, ",\n    ") + ")\n    -> (" +
          list + ") {\n" + code + "  return " + llvm::join(results, ", ") +
          " : " + list + "\n}\n")
      .str();
}

/// `operation`, which has the destinations `outs`.
std::string ModuleWriter::writeResults(const Twine &operation,
                                       ArrayRef<std::string> outs) const {
  return ("  %z:" + Twine(outs.size()) + " = " + operation + " -> " +
          joinTypes(outs) + "\n")
      .str();
}

/// The function with `operation`, which is in destination style.
std::string ModuleWriter::finish(const Twine &operation,
                                 ArrayRef<std::string> outs) {
  std::vector<std::string> results, resultTypes;
  for (auto [number, out] : llvm::enumerate(outs)) {
    results.push_back("%z#" + std::to_string(number));
    resultTypes.push_back(getType(out).str());
  }
  return finish(writeResults(operation, outs), results, resultTypes);
}

/// A schedule with small tiles, so that short sequences have many of them.
std::string ModuleWriter::writeTiles(bool isForward, bool hasDropout,
                                     bool hasSequences) {
  // Keep masks are generated for blocks of 16 queries and keys.
  StringRef queryTile = hasDropout
                            ? PICK(random, "16", "16", "32")
                            : PICK(random, "1", "4", "8", "8", "16", "32");
  StringRef keyTile = hasDropout ? PICK(random, "16", "16", "32")
                                 : PICK(random, "8", "8", "16", "24", "32");
  std::string text = ("#attn_tile.sequential<query_tile = " + queryTile +
                      ", key_tile = " + keyTile)
                         .str();
  if (isForward && random.onceIn(6))
    text += ", split_kv_work_items = 4";
  if (isForward && sizes.queries == "1" && !hasSequences && random.onceIn(2))
    text += ", pack_gqa = true";
  return text + ">";
}

std::string ModuleWriter::writeAttention() {
  narrowInputs();
  if (!options.isForGPU && random.onceIn(3))
    return writeAttentionOfParts();
  StringRef layout;
  std::string sequences = writeSequences(layout);
  std::string k = getHeads(sizes.keyHeads, sizes.keys, sizes.qkDim, keyType);
  std::string v = getHeads(sizes.keyHeads, sizes.keys, sizes.vDim, keyType);
  std::vector<std::string> ins = {
      addArgument("q", getHeads(sizes.queryHeads, sizes.queries, sizes.qkDim,
                                queryType)),
      addArgument("k", k), addArgument("v", v)};
  StringRef outElement = random.onceIn(4) ? "f32" : inputType;
  std::vector<std::string> outs = {
      addArgument("out", getHeads(sizes.queryHeads, sizes.queries, sizes.vDim,
                                  outElement))};
  if (!random.onceIn(3))
    outs.push_back(addArgument("lse", "tensor<" + sizes.batch + "x" +
                                          sizes.queryHeads + "x" +
                                          sizes.queries + "xf32>"));
  return finish(writeAttentionOp(ins, outs, sequences, layout), outs);
}

/// Makes queries, keys and values, or keys and values alone, tensors of 8 bits.
void ModuleWriter::narrowInputs() {
  if (options.isForGPU || !random.onceIn(5))
    return;
  keyType = PICK(random, "f8E4M3FN", "f8E5M2");
  if (random.onceIn(2))
    queryType = keyType;
}

/// The types of `values`.
std::string ModuleWriter::joinTypes(ArrayRef<std::string> values) const {
  return llvm::join(
      llvm::map_range(values,
                      [&](const std::string &value) { return getType(value); }),
      ", ");
}

std::string ModuleWriter::writeAttentionOp(ArrayRef<std::string> ins,
                                           ArrayRef<std::string> outs,
                                           const Twine &sequences,
                                           StringRef layout) {
  std::string perHead = "tensor<" + sizes.queryHeads + "x";
  std::string text = "attn.attention ins(" + llvm::join(ins, ", ") + " : " +
                     joinTypes(ins) + ") outs(" + llvm::join(outs, ", ") +
                     " : " + joinTypes(outs) + ")";
  if (random.onceIn(6))
    text += writeOperand("sinks", "sinks", perHead + "f32>");
  if (random.onceIn(8))
    text += writeOperand("heads", "map", perHead + "i32>");
  bool hasIdentity = random.onceIn(8), hasDropout;
  if (hasIdentity)
    text += writeOperand("identity", "identity", perHead + "f32>");
  text += writePairs(sequences, layout, hasIdentity, hasDropout);
  if (!options.isForGPU && !random.onceIn(5))
    text += " schedule(" +
            writeTiles(!hasIdentity, hasDropout, !layout.empty()) + ")";
  return text + writeRegions(false);
}

namespace {
/// The sizes of an attention to parts of tensors.
struct AttentionParts {
  AttentionParts(PartWriter &parts, const Sizes &sizes)
      : batch(parts.makeSize("batch", sizes.batch)),
        queryHeads(parts.makeSize("", sizes.queryHeads)),
        keyHeads(parts.makeSize("", sizes.keyHeads)),
        queries(parts.makeSize("queries", sizes.queries)),
        keys(parts.makeSize("keys", sizes.keys)),
        qkDim(parts.makeSize("", sizes.qkDim)),
        vDim(parts.makeSize("", sizes.vDim)) {}

  std::vector<PartShape> getInputs(StringRef query, StringRef key) {
    return {{{{&batch}, {&queryHeads}, {&queries}, {&qkDim}}, query},
            {{{&batch}, {&keyHeads}, {&keys}, {&qkDim}}, key},
            {{{&batch}, {&keyHeads}, {&keys}, {&vDim}}, key}};
  }
  std::vector<PartShape> getOutputs(StringRef element, bool hasLse) {
    std::vector<PartShape> shapes = {
        {{{&batch}, {&queryHeads}, {&queries}, {&vDim}}, element}};
    if (hasLse)
      shapes.push_back({{{&batch}, {&queryHeads}, {&queries}}, "f32"});
    return shapes;
  }

  PartSize batch, queryHeads, keyHeads, queries, keys, qkDim, vDim;
};
} // namespace

/// Attention to parts of tensors, whose results are written over parts of
/// others.
std::string ModuleWriter::writeAttentionOfParts() {
  hasParts = true;
  PartWriter parts(random, [&](const Twine &name, const Twine &type) {
    return addArgument(name, type);
  });
  AttentionParts shapes(parts, sizes);
  std::vector<std::string> ins, outs, results, resultTypes;
  for (const PartShape &shape : shapes.getInputs(queryType, keyType)) {
    ins.push_back(parts.writeTensor(shape, random.below(4)));
    types[ins.back()] = shape.getType();
  }
  std::vector<PartShape> outShapes = shapes.getOutputs(
      random.onceIn(4) ? "f32" : inputType, /*hasLse=*/!random.onceIn(3));
  std::vector<PartDestination> destinations;
  for (const PartShape &shape : outShapes) {
    destinations.push_back(parts.writeDestination(shape));
    outs.push_back(destinations.back().value);
    types[outs.back()] = shape.getType();
  }
  std::string code = parts.takeCode();
  code += writeResults(writeAttentionOp(ins, outs, "", ""), outs);
  for (auto [number, shape] : llvm::enumerate(outShapes)) {
    auto [result, type] = parts.writeResult("%z#" + std::to_string(number),
                                            shape, destinations[number],
                                            number == 0 ? random.below(4) : 0);
    results.push_back(result);
    resultTypes.push_back(type);
  }
  code += parts.takeCode();
  std::string sizesCode =
      parts.writeSizes({&shapes.batch, &shapes.queries, &shapes.keys});
  return finish(sizesCode + code, results, resultTypes);
}

std::string ModuleWriter::writeGradient() {
  StringRef sequenceLayout;
  std::string extra = writeSequences(sequenceLayout);
  std::string qType =
      getHeads(sizes.queryHeads, sizes.queries, sizes.qkDim, inputType);
  std::string kType =
      getHeads(sizes.keyHeads, sizes.keys, sizes.qkDim, inputType);
  std::string vType =
      getHeads(sizes.keyHeads, sizes.keys, sizes.vDim, inputType);
  std::string outType =
      getHeads(sizes.queryHeads, sizes.queries, sizes.vDim, inputType);
  std::string lseType = "tensor<" + sizes.batch + "x" + sizes.queryHeads + "x" +
                        sizes.queries + "xf32>";
  std::vector<std::string> ins = {
      addArgument("q", qType),     addArgument("k", kType),
      addArgument("v", vType),     addArgument("out", outType),
      addArgument("lse", lseType), addArgument("dout", outType)};
  std::vector<std::string> inTypes = {qType,   kType,   vType,
                                      outType, lseType, outType};
  if (random.onceIn(3)) {
    ins.push_back(addArgument("dlse", lseType));
    inTypes.push_back(lseType);
  }
  StringRef element = random.onceIn(3) ? "f32" : inputType;
  std::vector<std::string> outs = {
      addArgument("dq", getHeads(sizes.queryHeads, sizes.queries, sizes.qkDim,
                                 element)),
      addArgument("dk",
                  getHeads(sizes.keyHeads, sizes.keys, sizes.qkDim, element)),
      addArgument("dv",
                  getHeads(sizes.keyHeads, sizes.keys, sizes.vDim, element))};
  std::string text = "attn.attention_grad ins(" + llvm::join(ins, ", ") +
                     " : " + llvm::join(inTypes, ", ") + ") outs(" +
                     llvm::join(outs, ", ") + " : " + getType(outs[0]).str() +
                     ", " + getType(outs[1]).str() + ", " +
                     getType(outs[2]).str() + ")";
  bool hasIdentity = random.onceIn(8), hasDropout;
  if (hasIdentity)
    text += writeOperand("identity", "identity",
                         "tensor<" + sizes.queryHeads + "xf32>");
  text += writePairs(extra, sequenceLayout, hasIdentity, hasDropout);
  if (!options.isForGPU && !random.onceIn(5)) {
    std::string tiles = writeTiles(false, hasDropout, !extra.empty());
    StringRef parts = PICK(random, "preprocess dkdv dq", "preprocess dkdv",
                           "preprocess dkdv dq dv");
    std::vector<std::string> schedules;
    for (StringRef part : llvm::split(parts, ' '))
      schedules.push_back((part + " = " + tiles).str());
    text +=
        " schedule(#attn_tile.gradient<" + llvm::join(schedules, ", ") + ">)";
  }
  if (random.onceIn(4))
    text += " deterministic";
  return finish(text + writeRegions(true), outs);
}

std::string ModuleWriter::writeMatmul() {
  std::string batch = random.onceIn(2) ? "" : sizes.batch + "x";
  std::string depth = chooseSize();
  bool transposeLhs = random.onceIn(3), transposeRhs = random.onceIn(2);
  auto getMatrix = [&](bool isBatched, std::string rows, std::string columns,
                       bool isTransposed, StringRef type) {
    if (isTransposed)
      std::swap(rows, columns);
    return ("tensor<" + (isBatched ? batch : "") + rows + "x" + columns + "x" +
            type + ">")
        .str();
  };
  bool shareRhs = random.onceIn(2);
  std::string lhsType =
      getMatrix(true, sizes.queries, depth, transposeLhs, inputType);
  std::string rhsType =
      getMatrix(!shareRhs, depth, sizes.keys, transposeRhs, inputType);
  StringRef element = random.onceIn(3) ? "f32" : inputType;
  std::string outType =
      getMatrix(true, sizes.queries, sizes.keys, false, element);
  std::string lhs = addArgument("lhs", lhsType),
              rhs = addArgument("rhs", rhsType),
              out = addArgument("out", outType);
  std::string text = "attn.matmul ins(" + lhs + ", " + rhs + " : " + lhsType +
                     ", " + rhsType + ") outs(" + out + " : " + outType + ")";
  text += transposeLhs ? " transpose_lhs" : "";
  text += transposeRhs ? " transpose_rhs" : "";
  if (!options.isForGPU && random.onceIn(2))
    text += (" schedule(#attn_tile.matmul_sequential<row_tile = " +
             PICK(random, "4", "8", "16") +
             ", column_tile = " + PICK(random, "8", "16") +
             ", depth_tile = " + PICK(random, "8", "16") + ">)")
                .str();
  if (random.onceIn(2))
    text += " " + RegionWriter(*this, random, sizes).writeEpilogue();
  return finish(text, {out});
}

std::string ModuleWriter::write() {
  chooseSizes();
  switch (random.below(10)) {
  case 0:
    return writeMatmul();
  case 1:
  case 2:
    return writeGradient();
  default:
    return writeAttention();
  }
}

std::string mlir::attn::fuzz::writeRandomModule(RandomChoices &random,
                                                const ModuleOptions &options) {
  return ModuleWriter(random, options).write();
}
