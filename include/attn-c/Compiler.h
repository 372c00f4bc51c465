/*===-- attn-c/Compiler.h - C ABI of the compiler -----------------*- C -*-===*\
|*                                                                            *|
|* Licensed under the Apache License v2.0 with LLVM Exceptions.               *|
|* See LICENSE for license information.                                       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* The compiler as a shared library, libattn_c, for programs that do not use  *|
|* MLIR themselves: text in, bytes of an artifact out.                        *|
|*                                                                            *|
|*   attnc_context *context;                                                  *|
|*   attnc_module *module;                                                    *|
|*   attnc_options *options;                                                  *|
|*   attnc_buffer *artifact;                                                  *|
|*   attncContextCreate(ATTN_C_ABI_VERSION, &context);                        *|
|*   attncModuleParse(context, text, strlen(text), "in.mlir", &module);       *|
|*   attncOptionsCreate(&options);                                            *|
|*   attncOptionsSet(context, options, "target", "sm_90a");                   *|
|*   if (attncCompile(module, options, &artifact) != ATTNC_OK)                *|
|*     puts(attncContextGetError(context));                                   *|
|*                                                                            *|
|* Every function that can fail returns an attnc_status as int32_t and leaves *|
|* a text in the context. Output parameters are set only on success. The      *|
|* caller owns created objects and destroys them with the corresponding       *|
|* Destroy function, which accepts null. A context must outlive its modules.  *|
|* One thread at a time may use a context and the objects created with it;    *|
|* different contexts are independent.                                        *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef ATTN_C_COMPILER_H
#define ATTN_C_COMPILER_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ATTNC_EXPORT __attribute__((visibility("default")))
#else
#define ATTNC_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*===----------------------------------------------------------------------===*/
/* Version and status                                                         */
/*===----------------------------------------------------------------------===*/

/** The version of every signature and layout below. It grows when one of them
    changes; additions do not change it. */
#define ATTN_C_ABI_VERSION 1u

/** The version that the library was built with. */
ATTNC_EXPORT uint32_t attncAbiVersion(void);

/** The version of the compiler, "0.1.0". Artifacts of different versions may
    differ. */
ATTNC_EXPORT const char *attncVersion(void);

/** A buffer of bytes; see below. */
typedef struct attnc_buffer attnc_buffer;

/** Facts about the compiler, as a JSON object that the caller destroys.

      {"version": "0.1.0", "llvm": "22.1.0",
       "targets": ["host", "sm_80", "sm_90a"], "ptxas": "/usr/bin/ptxas"}

    `ptxas` is the assembler that compilations use, or null. */
ATTNC_EXPORT attnc_buffer *attncDescribe(void);

typedef enum attnc_status {
  ATTNC_OK = 0,
  ATTNC_INVALID_ARGUMENT = 1, /* a null pointer, an unknown option or value */
  ATTNC_VERSION_MISMATCH = 2, /* the caller was built for another version */
  ATTNC_PARSE_ERROR = 3,      /* the text is no valid module or pipeline */
  ATTNC_COMPILE_ERROR = 4     /* the module cannot be compiled as requested */
} attnc_status;

/** "ok", "invalid_argument", ...; "unknown status" for any other value. */
ATTNC_EXPORT const char *attncStatusName(int32_t status);

/*===----------------------------------------------------------------------===*/
/* Contexts and diagnostics                                                   */
/*===----------------------------------------------------------------------===*/

typedef struct attnc_context attnc_context;

/** Creates a context. `abi_version` is ATTN_C_ABI_VERSION as the caller sees
    it. */
ATTNC_EXPORT int32_t attncContextCreate(uint32_t abi_version,
                                        attnc_context **context);
ATTNC_EXPORT void attncContextDestroy(attnc_context *context);

/** The text of the last call that failed with this context: a reason, or the
    errors with their notes, one per line. "" if none has failed. Valid until
    the next call that uses the context. */
ATTNC_EXPORT const char *attncContextGetError(const attnc_context *context);

typedef enum attnc_severity {
  ATTNC_NOTE = 0, /* belongs to the diagnostic before */
  ATTNC_REMARK = 1,
  ATTNC_WARNING = 2,
  ATTNC_ERROR = 3
} attnc_severity;

typedef struct attnc_diagnostic {
  int32_t severity;    /* an attnc_severity */
  const char *message; /* without the location */
  const char *file;    /* "" if the location is not known */
  uint32_t line;       /* from 1; 0 if the location is not known */
  uint32_t column;
} attnc_diagnostic;

/** Called for each diagnostic, possibly on another thread but never on two at
    once. `diagnostic` and its strings are valid only during the call. Must not
    use the context. */
typedef void (*attnc_diagnostic_fn)(const attnc_diagnostic *diagnostic,
                                    void *user_data);

/** Sets the handler that is called for each diagnostic; null for no handler. */
ATTNC_EXPORT void attncContextSetDiagnosticHandler(attnc_context *context,
                                                   attnc_diagnostic_fn handler,
                                                   void *user_data);

/** Sets whether attncModuleParse accepts bytecode. A new context rejects it:
    damaged bytecode may end the process, so it must come from a trusted
    source. */
ATTNC_EXPORT void attncContextAllowBytecode(attnc_context *context,
                                            int32_t allow);

/*===----------------------------------------------------------------------===*/
/* Buffers                                                                    */
/*===----------------------------------------------------------------------===*/

/** The bytes that a function wrote, followed by a zero that the size does not
 * include. */
ATTNC_EXPORT const char *attncBufferData(const attnc_buffer *buffer);
ATTNC_EXPORT size_t attncBufferSize(const attnc_buffer *buffer);
ATTNC_EXPORT void attncBufferDestroy(attnc_buffer *buffer);

/*===----------------------------------------------------------------------===*/
/* Modules                                                                    */
/*===----------------------------------------------------------------------===*/

typedef struct attnc_module attnc_module;

/** Parses `size` bytes of MLIR text, or of bytecode if the context allows that.
    `name` is the file of locations in diagnostics. */
ATTNC_EXPORT int32_t attncModuleParse(attnc_context *context, const char *text,
                                      size_t size, const char *name,
                                      attnc_module **module);
ATTNC_EXPORT void attncModuleDestroy(attnc_module *module);

/** Runs passes of Attn, such as "attn-differentiate{function=f}", and of MLIR's
    canonicalize, cse, symbol-dce and symbol-privatize, on the module. If it
    fails, the module is in no defined state and can only be destroyed. */
ATTNC_EXPORT int32_t attncModuleRunPasses(attnc_module *module,
                                          const char *pipeline);

/** The module as text. */
ATTNC_EXPORT int32_t attncModulePrint(const attnc_module *module,
                                      attnc_buffer **text);

/*===----------------------------------------------------------------------===*/
/* Compiling                                                                  */
/*===----------------------------------------------------------------------===*/

typedef struct attnc_options attnc_options;

/** Options with their default values. */
ATTNC_EXPORT int32_t attncOptionsCreate(attnc_options **options);
ATTNC_EXPORT void attncOptionsDestroy(attnc_options *options);

/** Sets an option. Names and values are as on the command line of attn-compile:
    target, emit, raise, schedule, with-reference, verify-each, stop-after,
    embed-ptx, ptx-version, cuda-path, ptxas-options, fail-on-spills, host-cpu,
    host-opt-level, linker, runtime-dir and static-runtime. Boolean options take
    "true" and "false". emit defaults to so, runtime-dir to the folder of this
    library. Errors are left in `context`. */
ATTNC_EXPORT int32_t attncOptionsSet(attnc_context *context,
                                     attnc_options *options, const char *name,
                                     const char *value);

/** Compiles the module, without changing it, to the output that the option emit
    names: "so" (a shared library with `attn_artifact`, see attn_runtime.h),
    "obj", "ptx", "cubin", "header", "llvm" or "mlir". */
ATTNC_EXPORT int32_t attncCompile(const attnc_module *module,
                                  const attnc_options *options,
                                  attnc_buffer **output);

/** The choices of the compiler for the module, with reasons, as JSON: a list
    with an object for each remark, in the order of the passes.

      {"pass": "attn-choose-schedule", "name": "schedule", "kind": "Passed",
       "file": "in.mlir", "line": 3, "column": 8, "message": "chose ..."}
 */
ATTNC_EXPORT int32_t attncExplain(const attnc_module *module,
                                  const attnc_options *options,
                                  attnc_buffer **json);

#ifdef __cplusplus
}
#endif

#endif /* ATTN_C_COMPILER_H */
