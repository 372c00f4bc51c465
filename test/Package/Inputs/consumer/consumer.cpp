// Prints the module in a file after running a pipeline of the package on it, on
// several threads at once, each with a context of its own.

#include "attn/Compiler/Pipelines.h"
#include "attn/InitAllDialects.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <array>
#include <thread>

/// The module after the pipeline, or nothing if that fails.
static std::string run(const char *path) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect>();
  mlir::attn::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(path, &context);
  mlir::PassManager pm(&context);
  mlir::attn::TargetPipelineOptions options;
  options.target = "sm_90a";
  mlir::attn::buildSchedulePipeline(pm, options);
  std::string text;
  llvm::raw_string_ostream os(text);
  if (module && succeeded(pm.run(*module)))
    module->print(os);
  return text;
}

int main(int argc, char **argv) {
  std::array<std::string, 4> texts;
  std::vector<std::thread> threads;
  for (std::string &text : texts)
    threads.emplace_back([&] { text = run(argv[argc - 1]); });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &text : texts)
    if (text.empty() || text != texts.front())
      return 1;
  llvm::outs() << texts.front();
  return 0;
}
