//===- Ranks.cpp - Runs a function on several ranks -----------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rank 0 compiles the function of a rank and, under MPI, sends the library to
// the other processes, so that all ranks run the same code and need neither the
// compiler nor the files of the inputs. The other ranks wait for commands.
//
//===----------------------------------------------------------------------===//

#include "Ranks.h"
#include "Progress.h"
#include "Runner.h"

#include <cstdio>
#include <cstring>

using namespace attnrt;

namespace {
/// What rank 0 asks other ranks for.
enum Command : int64_t { CallCommand, SendOutputsCommand, EndCommand };
} // namespace

//===----------------------------------------------------------------------===//
// One rank
//===----------------------------------------------------------------------===//

int32_t Rank::open(attn_comm *given) {
  inner = comm = given;
  return attn_comm_create_recording(inner, /*faults=*/nullptr, &comm);
}

Rank::~Rank() {
  attn_comm_set_current(nullptr);
  attn_comm_destroy(comm);
}

int32_t Rank::send(int32_t to, const void *data, int64_t bytes) {
  return attn_comm_send_recv(inner, data, bytes, to, nullptr, 0,
                             ATTN_COMM_NO_PEER, /*stream=*/nullptr);
}

int32_t Rank::receive(int32_t from, void *data, int64_t bytes) {
  return attn_comm_send_recv(inner, nullptr, 0, ATTN_COMM_NO_PEER, data, bytes,
                             from, /*stream=*/nullptr);
}

int32_t Rank::abort(int32_t status) {
  std::string text = attnGetLastError();
  attn_comm_abort(inner, status, text.c_str());
  return attnrtSetError(status, "%s", text.c_str());
}

int32_t Rank::addArgument(const attn_function &function,
                          const std::vector<int64_t> &shape, Layout layout) {
  Argument argument;
  argument.spec = &function.args[arguments.size()];
  if (int32_t status = HostTensor::create(argument.spec->dtype, shape, layout,
                                          argument.tensor))
    return status;
  if (ATTN_IS_OUTPUT(*argument.spec))
    argument.tensor.poison();
  arguments.push_back(std::move(argument));
  return ATTN_OK;
}

int32_t Rank::call(const attn_function &function) {
  attn_comm_set_current(comm);
  ViewList views(arguments);
  return function.call(views.getPointers(), function.num_args,
                       /*stream=*/nullptr);
}

int32_t Rank::getBytesSent(int64_t &bytes) const {
  bytes = 0;
  for (int32_t kind = ATTN_COMM_SEND_RECV; kind <= ATTN_COMM_REDUCE_SCATTER;
       ++kind) {
    attn_comm_traffic traffic;
    if (int32_t status = attn_comm_get_traffic(comm, kind, &traffic))
      return status;
    bytes += traffic.bytes_sent;
  }
  return ATTN_OK;
}

int32_t Rank::receiveArguments(const attn_function &function, Layout layout) {
  for (int32_t arg = 0; arg < function.num_args; ++arg) {
    std::vector<int64_t> shape(function.args[arg].rank);
    auto bytes = static_cast<int64_t>(shape.size() * sizeof(int64_t));
    if (int32_t status = receive(0, shape.data(), bytes))
      return status;
    if (int32_t status = addArgument(function, shape, layout))
      return status;
    HostTensor &tensor = arguments.back().tensor;
    if (!ATTN_IS_OUTPUT(function.args[arg]))
      if (int32_t status = receive(0, tensor.getData(), tensor.getNumBytes()))
        return status;
  }
  return ATTN_OK;
}

int32_t Rank::sendOutputs() {
  for (const Argument &argument : arguments)
    if (ATTN_IS_OUTPUT(*argument.spec))
      if (int32_t status =
              send(0, argument.tensor.getData(), argument.tensor.getNumBytes()))
        return status;
  int64_t bytes = 0;
  if (int32_t status = getBytesSent(bytes))
    return status;
  return send(0, &bytes, sizeof(bytes));
}

int32_t Rank::serve(const attn_function &function, Layout layout) {
  if (int32_t status = receiveArguments(function, layout))
    return status;
  while (true) {
    int64_t command = EndCommand;
    if (int32_t status = receive(0, &command, sizeof(command)))
      return status;
    if (command == EndCommand)
      return ATTN_OK;
    int32_t status = command == CallCommand ? call(function) : sendOutputs();
    if (status == ATTN_OK && command == CallCommand)
      status = send(0, &command, sizeof(command));
    if (status)
      return status;
  }
}

//===----------------------------------------------------------------------===//
// All ranks
//===----------------------------------------------------------------------===//

int32_t RankedRunner::scatter() {
  if (int32_t status = findShardedDims(whole, ofRank, placement, dims))
    return status;
  for (size_t arg = 0; arg < arguments.size(); ++arg) {
    const HostTensor &tensor = arguments[arg].tensor;
    bool isInput = !ATTN_IS_OUTPUT(*arguments[arg].spec);
    std::vector<int64_t> shape =
        getShardShape(tensor.getShape(), dims[arg], placement);
    auto shapeBytes = static_cast<int64_t>(shape.size() * sizeof(int64_t));
    if (int32_t status = rank.addArgument(ofRank, shape, options.layout))
      return status;
    if (isInput)
      cutShard(tensor, dims[arg], placement, 0,
               rank.getArguments()[arg].tensor);
    for (int32_t r = 1; r < rank.getNumRanks(); ++r) {
      if (int32_t status = rank.send(r, shape.data(), shapeBytes))
        return status;
      if (!isInput)
        continue;
      HostTensor shard;
      if (int32_t status = HostTensor::create(tensor.getDType(), shape,
                                              options.layout, shard))
        return status;
      cutShard(tensor, dims[arg], placement, r, shard);
      if (int32_t status = rank.send(r, shard.getData(), shard.getNumBytes()))
        return status;
    }
  }
  return ATTN_OK;
}

int32_t RankedRunner::tellAll(int64_t command) {
  for (int32_t r = 1; r < rank.getNumRanks(); ++r)
    if (int32_t status = rank.send(r, &command, sizeof(command)))
      return status;
  return ATTN_OK;
}

int32_t RankedRunner::run() {
  if (int32_t status = tellAll(CallCommand))
    return status;
  if (int32_t status = rank.call(ofRank))
    return status;
  int64_t answer = 0;
  for (int32_t r = 1; r < rank.getNumRanks(); ++r)
    if (int32_t status = rank.receive(r, &answer, sizeof(answer)))
      return status;
  return ATTN_OK;
}

int32_t RankedRunner::joinOutput(size_t arg, int32_t from,
                                 const HostTensor &shard) {
  HostTensor &tensor = arguments[arg].tensor;
  if (dims[arg] || from == 0) {
    joinShard(shard, dims[arg], placement, from, tensor);
    return ATTN_OK;
  }
  // All ranks have the whole, with the same bits.
  if (memcmp(shard.getData(), tensor.getData(),
             static_cast<size_t>(tensor.getNumBytes())) == 0)
    return ATTN_OK;
  return attnrtSetError(ATTN_INTERNAL,
                        "output '%s' of rank %d is not the one of rank 0",
                        arguments[arg].spec->name, from);
}

int32_t RankedRunner::gather(std::vector<int64_t> &bytesSent) {
  if (int32_t status = tellAll(SendOutputsCommand))
    return status;
  bytesSent.assign(rank.getNumRanks(), 0);
  for (int32_t r = 0; r < rank.getNumRanks(); ++r) {
    for (size_t arg = 0; arg < arguments.size(); ++arg) {
      if (!ATTN_IS_OUTPUT(*arguments[arg].spec))
        continue;
      const HostTensor &own = rank.getArguments()[arg].tensor;
      HostTensor received;
      if (r > 0) {
        if (int32_t status = HostTensor::create(own.getDType(), own.getShape(),
                                                options.layout, received))
          return status;
        if (int32_t status =
                rank.receive(r, received.getData(), received.getNumBytes()))
          return status;
      }
      if (int32_t status = joinOutput(arg, r, r > 0 ? received : own))
        return status;
    }
    int32_t status = r > 0
                         ? rank.receive(r, &bytesSent[r], sizeof(bytesSent[r]))
                         : rank.getBytesSent(bytesSent[0]);
    if (status)
      return status;
  }
  return ATTN_OK;
}

int32_t RankedRunner::bench(BenchResult &result) {
  Progress progress("timing");
  for (int i = 0; i < options.warmup; ++i)
    if (int32_t status = run())
      return status;
  std::vector<double> times;
  if (int32_t status = timeCalls(options.repeats, [&] { return run(); }, times))
    return status;
  summarizeTimes(times, result);
  result.hostUs = result.medianMs * 1e3;
  if (whole.flops) {
    ViewList views(arguments);
    result.flops = whole.flops(views.getPointers());
  }
  return ATTN_OK;
}

int32_t RankedRunner::finish() { return tellAll(EndCommand); }

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

namespace {
/// What rank 0 has compiled.
struct Modules {
  Artifact whole;
  const attn_function *function = nullptr;
  std::vector<char> library;
};
} // namespace

static int32_t compileModules(const Options &options, Modules &modules) {
  if (int32_t status = Artifact::load(options, modules.whole))
    return status;
  if (int32_t status =
          modules.whole.getFunction(options.function, &modules.function))
    return status;
  return Artifact::compileForRanks(options, modules.library);
}

static int32_t lead(Rank &rank, const Modules &modules,
                    const attn_function &ofRank, const Options &options,
                    Report &report, std::vector<Argument> &arguments) {
  const attn_function &whole = *modules.function;
  startReport(modules.whole, whole, arguments, report);
  report.ranks = options.ranks;
  report.shardMethod = options.shardMethod;
  if (int32_t status = checkDeviceOption(modules.whole, whole, options))
    return status;
  if (int32_t status = makeArguments(whole, options, arguments))
    return status;
  RankedRunner runner(rank, whole, ofRank, options, arguments);
  if (int32_t status = runner.scatter())
    return status;
  {
    Progress progress("running");
    if (int32_t status = runner.run())
      return status;
  }
  if (int32_t status = runner.gather(report.bytesSent))
    return status;
  if (int32_t status = reportOutputs(options, arguments, report))
    return status;
  if (options.check) {
    report.check.emplace();
    if (int32_t status = checkOutputs(whole, options, arguments, *report.check))
      return status;
  }
  if (options.bench) {
    report.bench.emplace();
    if (int32_t status = runner.bench(*report.bench))
      return status;
  }
  return runner.finish();
}

/// Runs rank 0, and prints what all ranks have computed.
static ExitCode leadAndPrint(Rank &rank, const Modules &modules,
                             const attn_function &ofRank,
                             const Options &options, const char *transport) {
  Report report;
  report.transport = transport;
  std::vector<Argument> arguments;
  if (int32_t status = lead(rank, modules, ofRank, options, report, arguments))
    return printFailure(rank.abort(status));
  return printReport(options, report);
}

static ExitCode runThreads(const Options &options) {
  Modules modules;
  if (int32_t status = compileModules(options, modules))
    return printFailure(status);
  Artifact artifact;
  const attn_function *ofRank = nullptr;
  if (int32_t status =
          Artifact::loadLibrary(modules.library, options.input, artifact))
    return printFailure(status);
  if (int32_t status = artifact.getFunction(modules.function->name, &ofRank))
    return printFailure(status);
  std::vector<attn_comm *> comms(options.ranks);
  if (int32_t status = attn_comm_create_local(
          options.ranks, options.timeLimitS * 1000, comms.data()))
    return printFailure(status);
  std::vector<Rank> ranks(options.ranks);
  int32_t opened = ATTN_OK;
  for (int32_t r = 0; r < options.ranks; ++r)
    if (int32_t status = ranks[r].open(comms[r]))
      opened = status;
  if (opened)
    return printFailure(opened);
  std::vector<std::thread> threads;
  for (int32_t r = 1; r < options.ranks; ++r)
    threads.emplace_back([&, r] {
      if (int32_t status = ranks[r].serve(*ofRank, options.layout))
        ranks[r].abort(status);
      attn_comm_set_current(nullptr);
    });
  ExitCode code = leadAndPrint(ranks[0], modules, *ofRank, options, "threads");
  for (std::thread &thread : threads)
    thread.join();
  return code;
}

/// Sends the library and the name of its function to all ranks.
static int32_t sendLibrary(Rank &rank, const Modules &modules) {
  std::string name = modules.function->name;
  int64_t sizes[2] = {static_cast<int64_t>(name.size()),
                      static_cast<int64_t>(modules.library.size())};
  for (int32_t r = 1; r < rank.getNumRanks(); ++r) {
    if (int32_t status = rank.send(r, sizes, sizeof(sizes)))
      return status;
    if (int32_t status = rank.send(r, name.data(), sizes[0]))
      return status;
    if (int32_t status = rank.send(r, modules.library.data(), sizes[1]))
      return status;
  }
  return ATTN_OK;
}

/// What a process that is not rank 0 does.
static int32_t serveProcess(Rank &rank, const Options &options) {
  int64_t sizes[2] = {};
  if (int32_t status = rank.receive(0, sizes, sizeof(sizes)))
    return status;
  std::string name(sizes[0], 0);
  std::vector<char> library(sizes[1]);
  if (int32_t status = rank.receive(0, &name[0], sizes[0]))
    return status;
  if (int32_t status = rank.receive(0, library.data(), sizes[1]))
    return status;
  Artifact artifact;
  if (int32_t status = Artifact::loadLibrary(library, options.input, artifact))
    return status;
  const attn_function *function = nullptr;
  if (int32_t status = artifact.getFunction(name, &function))
    return status;
  return rank.serve(*function, options.layout);
}

static ExitCode leadProcesses(Rank &rank, const Options &options) {
  Modules modules;
  Artifact artifact;
  const attn_function *ofRank = nullptr;
  int32_t status = compileModules(options, modules);
  if (status == ATTN_OK)
    status = Artifact::loadLibrary(modules.library, options.input, artifact);
  if (status == ATTN_OK)
    status = artifact.getFunction(modules.function->name, &ofRank);
  if (status == ATTN_OK)
    status = sendLibrary(rank, modules);
  if (status)
    return printFailure(rank.abort(status));
  return leadAndPrint(rank, modules, *ofRank, options, "MPI");
}

static ExitCode runProcesses(const Options &options) {
  attn_comm *comm = nullptr;
  if (int32_t status = attn_comm_create_mpi(options.timeLimitS * 1000, &comm))
    return printFailure(status);
  Rank rank;
  int32_t status = rank.open(comm);
  if (status == ATTN_OK && rank.getNumRanks() != options.ranks)
    status = attnrtSetError(ATTN_INVALID_ARGUMENT,
                            "--ranks=%d: MPI has started %d process(es), "
                            "expected as many as ranks",
                            options.ranks, rank.getNumRanks());
  // All ranks have the same error.
  if (status)
    return rank.getNumber() == 0 ? printFailure(status) : getExitCode(status);
  if (rank.getNumber() == 0)
    return leadProcesses(rank, options);
  status = serveProcess(rank, options);
  if (status == ATTN_OK)
    return ExitOk;
  std::string prefix = "rank " + std::to_string(rank.getNumber()) + " waited ";
  bool isAlone =
      strncmp(attnGetLastError(), prefix.c_str(), prefix.size()) == 0;
  rank.abort(status);
  // Rank 0 prints the errors that it gets.
  return isAlone ? printFailure(status) : getExitCode(status);
}

/// Whether a launcher of MPI has started this process.
static bool isUnderMpi() {
  for (const char *name :
       {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"})
    if (getenv(name))
      return true;
  return false;
}

ExitCode attnrt::runRanks(const Options &options) {
  if (!isModule(options.input))
    return printFailure(attnrtSetError(
        ATTN_INVALID_ARGUMENT,
        "--ranks=%d: '%s' is not a module, expected a .mlir or .mlirbc file of "
        "functions of the whole tensors",
        options.ranks, options.input.c_str()));
  if (options.target != "auto" && options.target != ATTN_HOST_TARGET)
    return printFailure(attnrtSetError(
        ATTN_UNSUPPORTED,
        "--target=%s: with --ranks, functions run on the host, expected "
        "--target=" ATTN_HOST_TARGET,
        options.target.c_str()));
  bool usesMpi = options.transport == "mpi" ||
                 (options.transport == "auto" && isUnderMpi());
  return usesMpi ? runProcesses(options) : runThreads(options);
}
