/* Uses all of attn-c/Compiler.h as a program in C does that has no MLIR. */

#include "attn-c/Compiler.h"
#include "attn-runtime/attn_runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);  \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

static const char source[] =
    "func.func @causal(%q: tensor<?x2x256x32xbf16>, %k: "
    "tensor<?x2x256x32xbf16>,\n"
    "    %v: tensor<?x2x256x32xbf16>, %out: tensor<?x2x256x32xbf16>)\n"
    "    -> tensor<?x2x256x32xbf16> {\n"
    "  %r = attn.attention\n"
    "      ins(%q, %k, %v : tensor<?x2x256x32xbf16>, tensor<?x2x256x32xbf16>,\n"
    "                       tensor<?x2x256x32xbf16>)\n"
    "      outs(%out : tensor<?x2x256x32xbf16>)\n"
    "      mask(#attn.causal) -> tensor<?x2x256x32xbf16>\n"
    "  return %r : tensor<?x2x256x32xbf16>\n"
    "}\n";

typedef struct diagnostics {
  int count[4];
  uint32_t line;
} diagnostics;

static void onDiagnostic(const attnc_diagnostic *diagnostic, void *user_data) {
  diagnostics *seen = user_data;
  CHECK(diagnostic->message[0] != 0);
  ++seen->count[diagnostic->severity];
  if (diagnostic->severity == ATTNC_ERROR)
    seen->line = diagnostic->line;
}

static attnc_module *parse(attnc_context *context) {
  attnc_module *module = NULL;
  CHECK(attncModuleParse(context, source, strlen(source), "causal.mlir",
                         &module) == ATTNC_OK);
  return module;
}

static attnc_options *createOptions(attnc_context *context, const char *target,
                                    const char *output) {
  attnc_options *options = NULL;
  CHECK(attncOptionsCreate(&options) == ATTNC_OK);
  CHECK(attncOptionsSet(context, options, "target", target) == ATTNC_OK);
  CHECK(attncOptionsSet(context, options, "emit", output) == ATTNC_OK);
  return options;
}

static attnc_buffer *compile(attnc_context *context, const char *target,
                             const char *output) {
  attnc_module *module = parse(context);
  attnc_options *options = createOptions(context, target, output);
  attnc_buffer *result = NULL;
  int32_t status = attncCompile(module, options, &result);
  if (status != ATTNC_OK)
    fprintf(stderr, "%s\n", attncContextGetError(context));
  CHECK(status == ATTNC_OK);
  CHECK(attncBufferSize(result) > 0);
  CHECK(attncBufferData(result)[attncBufferSize(result)] == 0);
  attncOptionsDestroy(options);
  attncModuleDestroy(module);
  return result;
}

static void testVersions(void) {
  attnc_context *context = NULL;
  attnc_buffer *facts = attncDescribe();
  printf("facts: %s\n", attncBufferData(facts));
  attncBufferDestroy(facts);
  CHECK(attncAbiVersion() == ATTN_C_ABI_VERSION);
  CHECK(strchr(attncVersion(), '.'));
  CHECK(attncContextCreate(ATTN_C_ABI_VERSION + 1, &context) ==
        ATTNC_VERSION_MISMATCH);
  CHECK(!context);
  CHECK(attncContextCreate(ATTN_C_ABI_VERSION, NULL) == ATTNC_INVALID_ARGUMENT);
  CHECK(!strcmp(attncStatusName(ATTNC_PARSE_ERROR), "parse_error"));
  CHECK(!strcmp(attncStatusName(99), "unknown status"));
}

static void testErrors(attnc_context *context) {
  diagnostics seen = {{0}, 0};
  attnc_module *module = NULL;
  attnc_buffer *buffer = NULL;
  attnc_options *options = createOptions(context, "host", "so");
  attncContextSetDiagnosticHandler(context, onDiagnostic, &seen);

  CHECK(attncModuleParse(context, "\nfunc.func @f( {", 16, "bad.mlir",
                         &module) == ATTNC_PARSE_ERROR);
  CHECK(!module && seen.count[ATTNC_ERROR] == 1 && seen.line == 2);
  printf("parse: %s\n", attncContextGetError(context));
  CHECK(attncModuleParse(context, NULL, 0, "bad.mlir", &module) ==
        ATTNC_INVALID_ARGUMENT);
  printf("null: %s\n", attncContextGetError(context));
  /* Bytecode is read only if the context allows it: this has no version. */
  CHECK(attncModuleParse(context, "ML\xefR", 4, "bad.mlirbc", &module) ==
        ATTNC_PARSE_ERROR);
  printf("bytecode: %s\n", attncContextGetError(context));
  attncContextAllowBytecode(context, 1);
  CHECK(attncModuleParse(context, "ML\xefR", 4, "bad.mlirbc", &module) ==
        ATTNC_PARSE_ERROR);
  printf("allowed bytecode: %s\n", attncContextGetError(context));
  attncContextAllowBytecode(context, 0);

  CHECK(attncOptionsSet(context, options, "target", "sm_70") ==
        ATTNC_INVALID_ARGUMENT);
  printf("value: %s\n", attncContextGetError(context));
  CHECK(attncOptionsSet(context, options, "colour", "red") ==
        ATTNC_INVALID_ARGUMENT);
  printf("option: %s\n", attncContextGetError(context));
  CHECK(attncOptionsSet(context, options, "host-opt-level", "4") ==
        ATTNC_INVALID_ARGUMENT);
  CHECK(attncOptionsSet(context, options, "embed-ptx", "maybe") ==
        ATTNC_INVALID_ARGUMENT);
  CHECK(attncOptionsSet(context, options, "ptx-version", "new") ==
        ATTNC_INVALID_ARGUMENT);

  module = parse(context);
  CHECK(attncOptionsSet(context, options, "emit", "ptx") == ATTNC_OK);
  CHECK(attncCompile(module, options, &buffer) == ATTNC_INVALID_ARGUMENT);
  printf("contradiction: %s\n", attncContextGetError(context));
  CHECK(attncOptionsSet(context, options, "emit", "so") == ATTNC_OK);
  CHECK(attncOptionsSet(context, options, "linker", "no-linker") == ATTNC_OK);
  CHECK(attncCompile(module, options, &buffer) == ATTNC_COMPILE_ERROR);
  CHECK(!buffer);
  printf("link: %s\n", attncContextGetError(context));
  CHECK(attncCompile(module, NULL, &buffer) == ATTNC_INVALID_ARGUMENT);
  CHECK(attncModuleRunPasses(module, "no-such-pass") == ATTNC_PARSE_ERROR);
  printf("pipeline: %s\n", attncContextGetError(context));
  CHECK(attncModuleRunPasses(module, "attn-differentiate{function=g}") ==
        ATTNC_COMPILE_ERROR);
  printf("pass: %s\n", attncContextGetError(context));
  attncContextSetDiagnosticHandler(context, NULL, NULL);
  attncModuleDestroy(module);
  attncOptionsDestroy(options);

  /* Destroying nothing is no error. */
  attncModuleDestroy(NULL);
  attncOptionsDestroy(NULL);
  attncBufferDestroy(NULL);
  attncContextDestroy(NULL);
}

static void testOutputs(attnc_context *context) {
  attnc_buffer *buffer = compile(context, "sm_80", "ptx");
  CHECK(strstr(attncBufferData(buffer), ".target sm_80"));
  attncBufferDestroy(buffer);
  buffer = compile(context, "host", "header");
  CHECK(strstr(attncBufferData(buffer), "causal("));
  attncBufferDestroy(buffer);
  buffer = compile(context, "host", "obj");
  CHECK(!memcmp(attncBufferData(buffer), "\177ELF", 4));
  attncBufferDestroy(buffer);
  buffer = compile(context, "host", "llvm");
  CHECK(strstr(attncBufferData(buffer), "@attn_artifact"));
  attncBufferDestroy(buffer);
}

static void testSharedLibrary(attnc_context *context, const char *path) {
  attnc_buffer *buffer = compile(context, "host", "so");
  FILE *file = fopen(path, "wb");
  void *library;
  const struct attn_artifact *artifact;
  CHECK(file);
  CHECK(fwrite(attncBufferData(buffer), 1, attncBufferSize(buffer), file) ==
        attncBufferSize(buffer));
  fclose(file);
  attncBufferDestroy(buffer);
  library = dlopen(path, RTLD_NOW);
  CHECK(library);
  artifact = dlsym(library, ATTN_ARTIFACT_SYMBOL);
  CHECK(artifact && artifact->abi_version == ATTN_RUNTIME_ABI_VERSION);
  printf("artifact: %s for %s\n", artifact->functions[0].name,
         artifact->target);
}

static void testModule(attnc_context *context) {
  attnc_module *module = parse(context);
  attnc_options *options = createOptions(context, "sm_90a", "so");
  attnc_buffer *buffer = NULL;
  CHECK(attncExplain(module, options, &buffer) == ATTNC_OK);
  printf("explain: %s\n", attncBufferData(buffer));
  attncBufferDestroy(buffer);
  CHECK(attncModuleRunPasses(
            module, "attn-differentiate{function=causal},canonicalize,cse") ==
        ATTNC_OK);
  CHECK(attncModulePrint(module, &buffer) == ATTNC_OK);
  CHECK(strstr(attncBufferData(buffer), "@causal_bwd"));
  attncBufferDestroy(buffer);
  attncOptionsDestroy(options);
  attncModuleDestroy(module);
}

static void *compileInThread(void *data) {
  attnc_context *context = NULL;
  attnc_module *module = NULL;
  attnc_buffer *buffer;
  (void)data;
  CHECK(attncContextCreate(ATTN_C_ABI_VERSION, &context) == ATTNC_OK);
  CHECK(attncModuleParse(context, "bad", 3, "bad.mlir", &module) ==
        ATTNC_PARSE_ERROR);
  buffer = compile(context, "sm_80", "obj");
  CHECK(strstr(attncContextGetError(context), "bad.mlir"));
  attncBufferDestroy(buffer);
  attncContextDestroy(context);
  return NULL;
}

int main(int argc, char **argv) {
  attnc_context *context = NULL;
  pthread_t threads[3];
  int i;
  CHECK(argc == 2);
  for (i = 0; i < 3; ++i)
    CHECK(!pthread_create(&threads[i], NULL, compileInThread, NULL));
  testVersions();
  CHECK(attncContextCreate(ATTN_C_ABI_VERSION, &context) == ATTNC_OK);
  CHECK(!strcmp(attncContextGetError(context), ""));
  testErrors(context);
  testOutputs(context);
  testSharedLibrary(context, argv[1]);
  testModule(context);
  attncContextDestroy(context);
  for (i = 0; i < 3; ++i)
    CHECK(!pthread_join(threads[i], NULL));
  puts("done");
  return 0;
}
