//===- Options.cpp - Command line of attn-run -----------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parses the command line by hand: attn-run must not need LLVM's command line
// library.
//
//===----------------------------------------------------------------------===//

#include "Options.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>

using namespace attnrt;

static const char helpText[] =
    R"(usage: attn-run [options] MODULE
       attn-run --probe-device [--device=N] [--json]

Runs a function of a compiled artifact (a shared library) or of an MLIR module,
which is compiled first. Needs neither LLVM nor MLIR: a module is compiled by
running attn-compile, so that artifacts run on machines that have only the CUDA
driver.

  --probe-device          measure the ceilings of the device and print them as
                          #attn.device<...>, the attribute attn.device of a
                          module; takes a few seconds and nothing else running

MODULE                    a .mlir or .mlirbc file, or an artifact (.so)

What to run
  --list                  print the functions of the artifact and stop
  --function=NAME         the function; may be left out if there is only one
  --target=TARGET         what to compile a module for: a target of
                          attn-compile, or auto (the default: the target for the
                          device's compute capability, host without a device).
                          For an artifact, what it must have been compiled for
  --device=N              the CUDA device to run on (default 0)
  --compiler=PATH         attn-compile (default: next to attn-run, then in PATH)
  --compiler-option=OPT   passed on to attn-compile; may be repeated

Several ranks
  --ranks=N               distribute the attention of a module over N ranks, as
                          attn-shard-attention does, cut the inputs into the
                          parts of each rank, and join the outputs. All other
                          options do what they do for the whole. Functions run
                          on the host, and lengths must be static
  --shard-method=METHOD   ring (the default), zigzag, striped, lightseq,
                          allgather, ulysses or usp
  --ulysses-degree=N      the neighboring ranks that exchange heads for positions
                          with usp
  --transport=HOW         threads: ranks are threads of this process; mpi: they
                          are processes that mpirun has started, of which rank 0
                          compiles, reads, prints and writes; auto (the
                          default): mpi if a launcher of MPI has started it
  --rank-time-limit=S     the seconds that a rank waits for another one, also
                          while rank 0 compiles or checks (default 600)

Arguments
  --input=[ARG=]FILE      read an input from a .npy file. Without ARG=, files go
                          to the inputs not named, in order. Floating point
                          files are converted to the argument's dtype, rounding
                          to nearest even; other dtypes must match
  --shape=ARG=BxHxSxD     the shape of an argument
  --shape=SIZE=N          a dynamic size by its name (see --list). Sizes that
                          follow from others need not be given
  --fill=ARG=HOW          fill an input by normal[:SCALE], uniform:LOW:HIGH
                          (integers: HIGH excluded), zeros, ones, const:VALUE or
                          iota. Default: normal for floating point, fair coins
                          for i1, zeros for integers
  --seed=N                seed of random inputs (default 0)
  --layout=bhsd|bshd      memory order of rank-4 tensors: as their dimensions
                          are written (the default), or with the second and
                          third swapped
  --output=[ARG=]FILE     write an output to a .npy file (bf16 as '<V2')
  --output-f32            write outputs of 16 bits as f32

What to do with the results
  --check[=STEP]          compare with the f64 reference in the artifact, on
                          rows 0, STEP, 2 STEP, ... (default: a step that keeps
                          the reference to some seconds)
  --tolerance=[ARG=]X     allowed relative error, of all outputs or of one
  --bench[=N]             time N runs (default 20): CUDA events on a GPU, wall
                          clock on the host
  --warmup=N              runs before the timed ones (default 3)
  --json                  print one JSON object instead of tables
  --help, --version

Outputs are filled with NaN (0xa5 bytes if they are integers) before the run.

A check passes if for each output ||out - ref|| <= tol * ||ref||, no element is
off by more than 4 * tol * (|ref| + rms(ref)), and infinities and NaNs are the
same. The default tol goes by the least precise floating point dtype among the
function's arguments: 8 bits 5e-2, bf16 1e-2, f16 2e-3, f32 1e-5, f64 1e-10, a quarter of
it for an f32 or f64 output of a function on bf16 or f16. Integers must be equal.

Exit codes: 0 success, 1 check failed, 2 wrong usage or input, 3 the device or
the function failed.

Environment: ATTN_NUM_THREADS (threads of host artifacts), ATTN_CUDA_DRIVER (the
CUDA driver to load instead of libcuda.so.1), ATTN_MPI_LIBRARY (the wrapper of
MPI to load instead of libattn_mpi.so), TMPDIR.
)";

ExitCode attnrt::getExitCode(int32_t status) {
  switch (status) {
  case ATTN_OK:
    return ExitOk;
  case ATTN_INVALID_ARGUMENT:
  case ATTN_SHAPE_MISMATCH:
  case ATTN_DTYPE_MISMATCH:
  case ATTN_MISALIGNED:
  case ATTN_BAD_STRIDES:
  case ATTN_IO_ERROR:
  case ATTN_VERSION_MISMATCH:
    return ExitUsage;
  default:
    return ExitRuntime;
  }
}

namespace {

/// Handles the options one by one. Each handler returns an empty string or what
/// was expected.
class OptionParser {
public:
  explicit OptionParser(Options &options) : options(options) {}

  std::optional<ExitCode> parse(int argc, char **argv);

private:
  std::optional<ExitCode> parseInput(const std::string &text);
  std::optional<ExitCode> parseNamed(const std::string &text);
  /// Checks that there is a degree if the method needs it.
  std::optional<ExitCode> verifyDegree();
  std::string parseOption(const std::string &name, const std::string *value);
  std::string parseValue(const std::string &name, const std::string &value);
  std::string parseChoice(const std::string &name, const std::string &value);
  std::string parseNumber(const std::string &name, const std::string &value);
  std::string parseTolerance(const std::string &value);

  Options &options;
  /// The first option that needs --ranks.
  std::string optionOfRanks;
};

} // namespace

static NamedValue splitNamed(const std::string &text) {
  size_t equals = text.find('=');
  if (equals == std::string::npos)
    return {"", text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

template <typename T>
static bool parseInteger(const std::string &text, long long low, long long high,
                         T &result) {
  errno = 0;
  char *end;
  long long value = strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end || errno || value < low || value > high)
    return false;
  result = static_cast<T>(value);
  return true;
}

std::string OptionParser::parseNumber(const std::string &name,
                                      const std::string &value) {
  if (name == "seed" && !parseInteger(value, 0, INT64_MAX, options.seed))
    return "a number from 0";
  if (name == "device" && !parseInteger(value, 0, INT32_MAX, options.device))
    return "a number from 0";
  if (name == "check" && !parseInteger(value, 1, INT64_MAX, options.rowStep))
    return "a number from 1";
  if (name == "bench" && !parseInteger(value, 1, 100000, options.repeats))
    return "a number from 1 to 100000";
  if (name == "ranks" && !parseInteger(value, 1, 1024, options.ranks))
    return "a number from 1 to 1024";
  if (name == "ulysses-degree" &&
      !parseInteger(value, 1, 1024, options.ulyssesDegree))
    return "a number from 1 to 1024";
  if (name == "rank-time-limit" &&
      !parseInteger(value, 1, 86400, options.timeLimitS))
    return "a number from 1 to 86400";
  if (name == "warmup" && !parseInteger(value, 0, 100000, options.warmup))
    return "a number from 0 to 100000";
  return "";
}

std::string OptionParser::parseTolerance(const std::string &value) {
  NamedValue named = splitNamed(value);
  char *end;
  double tolerance = strtod(named.second.c_str(), &end);
  if (named.second.empty() || *end || !(tolerance >= 0))
    return "[ARG=]NUMBER, not negative";
  options.tolerances.emplace_back(named.first, tolerance);
  return "";
}

std::string OptionParser::parseChoice(const std::string &name,
                                      const std::string &value) {
  auto isOneOf = [&](std::initializer_list<const char *> choices) {
    for (const char *choice : choices)
      if (value == choice)
        return true;
    return false;
  };
  if (name == "layout") {
    options.layout = value == "bshd" ? Layout::BSHD : Layout::BHSD;
    return isOneOf({"bhsd", "bshd"}) ? "" : "bhsd or bshd";
  }
  if (name == "shard-method") {
    options.shardMethod = value;
    return isOneOf({"ring", "zigzag", "striped", "lightseq", "allgather",
                    "ulysses", "usp"})
               ? ""
               : "ring, zigzag, striped, lightseq, allgather, ulysses or usp";
  }
  options.transport = value;
  return isOneOf({"auto", "threads", "mpi"}) ? "" : "auto, threads or mpi";
}

std::string OptionParser::parseValue(const std::string &name,
                                     const std::string &value) {
  if (value.empty())
    return "a value";
  const std::pair<const char *, std::string *> texts[] = {
      {"function", &options.function},
      {"target", &options.target},
      {"compiler", &options.compiler}};
  for (auto [known, text] : texts)
    if (name == known)
      *text = value;
  if (name == "compiler-option")
    options.compilerOptions.push_back(value);
  if (name == "input")
    options.inputs.push_back(value);
  if (name == "output")
    options.outputs.push_back(splitNamed(value));
  if (name == "shape" || name == "fill") {
    NamedValue named = splitNamed(value);
    if (named.first.empty() || named.second.empty())
      return name == "shape" ? "ARG=SIZExSIZEx... or NAME=SIZE" : "ARG=HOW";
    (name == "shape" ? options.shapes : options.fills).push_back(named);
  }
  if (name == "tolerance")
    return parseTolerance(value);
  if (name == "layout" || name == "shard-method" || name == "transport")
    return parseChoice(name, value);
  return parseNumber(name, value);
}

std::string OptionParser::parseOption(const std::string &name,
                                      const std::string *value) {
  const struct {
    const char *name;
    bool *flag;
    bool takesValue;
  } flags[] = {{"list", &options.list, false},
               {"probe-device", &options.probeDevice, false},
               {"json", &options.json, false},
               {"output-f32", &options.outputF32, false},
               {"check", &options.check, true},
               {"bench", &options.bench, true}};
  for (const auto &entry : flags)
    if (name == entry.name) {
      *entry.flag = true;
      if (!value)
        return "";
      if (!entry.takesValue)
        return "no value";
    }
  if (!value)
    return "a value";
  return parseValue(name, *value);
}

static bool isOption(const std::string &name) {
  for (const char *known : {"list",
                            "probe-device",
                            "function",
                            "target",
                            "device",
                            "compiler",
                            "compiler-option",
                            "input",
                            "shape",
                            "fill",
                            "seed",
                            "layout",
                            "output",
                            "output-f32",
                            "check",
                            "tolerance",
                            "bench",
                            "warmup",
                            "json",
                            "ranks",
                            "shard-method",
                            "ulysses-degree",
                            "transport",
                            "rank-time-limit"})
    if (name == known)
      return true;
  return false;
}

static ExitCode usageError(const std::string &message) {
  fprintf(stderr, "attn-run: error: %s\n", message.c_str());
  fprintf(stderr, "attn-run: note: see attn-run --help\n");
  return ExitUsage;
}

std::optional<ExitCode> OptionParser::parseInput(const std::string &text) {
  if (!options.input.empty())
    return usageError("more than one module: '" + options.input + "' and '" +
                      text + "'");
  options.input = text;
  return std::nullopt;
}

/// Parses `--name`, `--name=value`, or the same with one hyphen.
std::optional<ExitCode> OptionParser::parseNamed(const std::string &text) {
  if (text == "--help" || text == "-h") {
    fputs(helpText, stdout);
    return ExitOk;
  }
  if (text == "--version") {
    printf("attn-run, runtime ABI version %u\n", attnrtAbiVersion());
    return ExitOk;
  }
  size_t begin = text[1] == '-' ? 2 : 1;
  size_t equals = text.find('=');
  bool hasValue = equals != std::string::npos;
  std::string name =
      text.substr(begin, hasValue ? equals - begin : std::string::npos);
  std::string value = hasValue ? text.substr(equals + 1) : "";
  if (!isOption(name))
    return usageError("unknown option '" + text + "'");
  bool needsRanks = name == "shard-method" || name == "ulysses-degree" ||
                    name == "transport" || name == "rank-time-limit";
  if (needsRanks && optionOfRanks.empty())
    optionOfRanks = text;
  std::string expected = parseOption(name, hasValue ? &value : nullptr);
  if (!expected.empty())
    return usageError("option '" + text + "': expected " + expected);
  return std::nullopt;
}

std::optional<ExitCode> OptionParser::verifyDegree() {
  bool isUsp = options.shardMethod == "usp";
  if (isUsp && options.ulyssesDegree == 0)
    return usageError("option '--shard-method=usp': needs --ulysses-degree");
  std::string text =
      "option '--ulysses-degree=" + std::to_string(options.ulyssesDegree) +
      "': ";
  if (!isUsp && options.ulyssesDegree > 0)
    return usageError(text + "needs --shard-method=usp");
  if (isUsp && options.ranks % options.ulyssesDegree != 0)
    return usageError(text + "expected a divisor of --ranks=" +
                      std::to_string(options.ranks));
  return std::nullopt;
}

std::optional<ExitCode> OptionParser::parse(int argc, char **argv) {
  bool onlyFiles = false;
  for (int i = 1; i < argc; ++i) {
    std::string text = argv[i];
    bool isFile = onlyFiles || text.size() < 2 || text[0] != '-';
    if (!isFile && text == "--") {
      onlyFiles = true;
      continue;
    }
    std::optional<ExitCode> code = isFile ? parseInput(text) : parseNamed(text);
    if (code)
      return code;
  }
  if (options.probeDevice && !options.input.empty())
    return usageError("option '--probe-device': takes no module (was '" +
                      options.input + "')");
  if (options.ranks == 0 && !optionOfRanks.empty())
    return usageError("option '" + optionOfRanks + "': needs --ranks");
  for (auto [name, isGiven] :
       {std::pair("--list", options.list),
        std::pair("--probe-device", options.probeDevice)})
    if (options.ranks > 0 && isGiven)
      return usageError("option '--ranks=" + std::to_string(options.ranks) +
                        "': not with " + name);
  if (options.input.empty() && !options.probeDevice)
    return usageError("no module given");
  return verifyDegree();
}

std::optional<ExitCode> attnrt::parseOptions(int argc, char **argv,
                                             Options &options) {
  return OptionParser(options).parse(argc, argv);
}
