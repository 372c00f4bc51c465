// Prints the module in a file after running a pipeline of the package on it.

#include "attn/Compiler/Pipelines.h"
#include "attn/InitAllDialects.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect>();
  mlir::attn::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(argv[argc - 1], &context);
  mlir::PassManager pm(&context);
  mlir::attn::TargetPipelineOptions options;
  options.target = "sm_90a";
  mlir::attn::buildSchedulePipeline(pm, options);
  if (!module || failed(pm.run(*module)))
    return 1;
  module->print(llvm::outs());
  return 0;
}
