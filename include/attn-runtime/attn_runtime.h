/*===-- attn_runtime.h - C ABI of the runtime library -------------*- C -*-===*\
|*                                                                            *|
|* Licensed under the Apache License v2.0 with LLVM Exceptions.               *|
|* See LICENSE for license information.                                       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* The interface that a compiled artifact exports, and the functions that it  *|
|* calls. The library behind this header uses neither LLVM nor MLIR and needs *|
|* no CUDA header: it opens the CUDA driver with dlopen when a function that  *|
|* needs a device is first called. The environment variable ATTN_CUDA_DRIVER  *|
|* names the driver to open; the default is "libcuda.so.1".                   *|
|*                                                                            *|
|* Every function that can fail returns an attn_status as int32_t and leaves  *|
|* a text for the calling thread that attnGetLastError returns. No function   *|
|* aborts, exits or throws.                                                   *|
|*                                                                            *|
|* Layouts follow the LP64 C ABI. The offsets in the comments are part of the *|
|* contract: a compiler writes these structures as constant data. They change *|
|* only together with ATTN_RUNTIME_ABI_VERSION.                               *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef ATTN_RUNTIME_ATTN_RUNTIME_H
#define ATTN_RUNTIME_ATTN_RUNTIME_H

#include <stdint.h>

#if defined(__GNUC__)
#define ATTNRT_EXPORT __attribute__((visibility("default")))
#define ATTNRT_PRINTF(text, values)                                            \
  __attribute__((format(printf, text, values)))
#else
#define ATTNRT_EXPORT
#define ATTNRT_PRINTF(text, values)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*===----------------------------------------------------------------------===*/
/* Version, status and error text                                             */
/*===----------------------------------------------------------------------===*/

/** The version of every layout and signature below. */
#define ATTN_RUNTIME_ABI_VERSION 3u

/** The version that the library was built with. */
ATTNRT_EXPORT uint32_t attnrtAbiVersion(void);

/** The status that functions return; ATTN_OK is 0. */
typedef enum attn_status {
  ATTN_OK = 0,
  ATTN_INVALID_ARGUMENT = 1,
  ATTN_SHAPE_MISMATCH = 2,
  ATTN_DTYPE_MISMATCH = 3,
  ATTN_MISALIGNED = 4,
  ATTN_BAD_STRIDES = 5,
  ATTN_WRONG_DEVICE = 6,
  ATTN_NO_DEVICE = 7,
  ATTN_WRONG_ARCH = 8,
  ATTN_OUT_OF_MEMORY = 9,
  ATTN_DRIVER_ERROR = 10,
  ATTN_IO_ERROR = 11,
  ATTN_VERSION_MISMATCH = 12,
  ATTN_UNSUPPORTED = 13,
  ATTN_INTERNAL = 14
} attn_status;

/** "ok", "shape_mismatch", ...; "unknown status" for any other value. */
ATTNRT_EXPORT const char *attnStatusName(int32_t status);

/** The text of the last error of the calling thread, "" if there was none. The
    pointer is valid until the thread's next failing call. A call that succeeds
    leaves the text as it is. */
ATTNRT_EXPORT const char *attnGetLastError(void);

/** Sets the calling thread's error text and returns `status`, so that a caller
    can write `return attnrtSetError(...)`. */
ATTNRT_EXPORT int32_t attnrtSetError(int32_t status, const char *format, ...)
    ATTNRT_PRINTF(2, 3);

/*===----------------------------------------------------------------------===*/
/* Tensors                                                                    */
/*===----------------------------------------------------------------------===*/

/** Types of elements. */
typedef enum attn_dtype {
  ATTN_BF16 = 0,
  ATTN_F16 = 1,
  ATTN_F32 = 2,
  ATTN_F64 = 3,
  ATTN_I32 = 4,
  ATTN_I64 = 5,
  ATTN_I8 = 6,
  ATTN_I1 = 7,       /* one byte per element, 0 or 1 */
  ATTN_F8E4M3FN = 8, /* finite 8-bit floats with four bits of exponent */
  ATTN_F8E5M2 = 9
} attn_dtype;

/** "bf16", ..., "f8E5M2"; "unknown dtype" for any other value. */
ATTNRT_EXPORT const char *attnDTypeName(int32_t dtype);

/** Bytes per element, 0 for an unknown dtype. */
ATTNRT_EXPORT int32_t attnDTypeSize(int32_t dtype);

/** `device` of a tensor in host memory. */
#define ATTN_DEVICE_HOST (-1)

/** A strided view of memory owned by the caller. Size 40. */
typedef struct attn_tensor {
  void *data;             /*  0: may be null if a dimension is 0 */
  const int64_t *shape;   /*  8: rank sizes, outermost first */
  const int64_t *strides; /* 16: rank strides in elements, outermost first */
  int32_t rank;           /* 24 */
  int32_t dtype;          /* 28: an attn_dtype */
  int32_t device;         /* 32: ATTN_DEVICE_HOST or a CUDA ordinal >= 0 */
  int32_t reserved;       /* 36: 0 */
} attn_tensor;

/** How a function uses the elements of an argument: a set of bits. */
typedef enum attn_access {
  ATTN_ACCESS_SIZES = 0, /* it uses the sizes alone */
  ATTN_ACCESS_READ = 1,
  ATTN_ACCESS_WRITE = 2, /* the argument is an output */
  ATTN_ACCESS_READ_WRITE = 3
} attn_access;

/** The requirements of a compiled function on one argument. Size 32. */
typedef struct attn_tensor_spec {
  const char *name;    /*  0: used in messages and on command lines */
  int32_t dtype;       /*  8: an attn_dtype */
  int32_t rank;        /* 12 */
  const int64_t *dims; /* 16: rank values; d >= 0 is a static size, d < 0 is the
                              dynamic size numbered -(1 + d). Equal numbers must
                              be equal sizes over all arguments of a call. */
  int32_t alignment;   /* 24: bytes; a power of two that the data pointer and
                              every stride but the last are multiples of.
                              0 and 1: no requirement. */
  int32_t access;      /* 28: an attn_access */
} attn_tensor_spec;

/** The most dynamic sizes that a function may have. */
#define ATTN_MAX_SYMBOLS 64

/** Whether an attn_tensor_spec is of an output: 0 or 1. */
#define ATTN_IS_OUTPUT(spec) (((spec).access & ATTN_ACCESS_WRITE) != 0)

/** The symbol number of a negative entry of attn_tensor_spec::dims. */
#define ATTN_DIM_SYMBOL(dim) (-(dim) - 1)

/** The entry of attn_tensor_spec::dims of a symbol number. */
#define ATTN_SYMBOL_DIM(symbol) (-(int64_t)(symbol) - 1)

/*===----------------------------------------------------------------------===*/
/* Artifacts: exports of a compiled shared library                            */
/*===----------------------------------------------------------------------===*/

/** Runs the function and checks its arguments. An artifact for a GPU launches
    it on the caller's `stream` (a CUstream, null for the default stream) and
    does not wait; an artifact for the host runs it to the end. */
typedef int32_t (*attn_call_fn)(const attn_tensor *const *args,
                                int32_t num_args, void *stream);

/** Floating point operations of the matmuls of a call: two per multiply-add,
    without masked-out parts where the compiler knows them. Reads shapes
    only. */
typedef int64_t (*attn_flops_fn)(const attn_tensor *const *args);

/** The function computed directly in f64 on the host. All arguments are host
    tensors; inputs have their own dtype, floating point outputs are f64. Of
    each output only the rows 0, row_step, 2 * row_step, ... are written (rows
    of the query, or of the key for gradients of key and value); the others are
    left as they are. row_step >= 1. */
typedef int32_t (*attn_reference_fn)(const attn_tensor *const *args,
                                     int32_t num_args, int64_t row_step);

/** One callable function. Size 56. */
typedef struct attn_function {
  const char *name;             /*  0 */
  int32_t num_args;             /*  8 */
  int32_t num_symbols;          /* 12: dynamic sizes, numbered from 0 */
  const attn_tensor_spec *args; /* 16: num_args; inputs, then outputs */
  const char *const *symbols;   /* 24: num_symbols names for messages; the array
                                       or an entry may be null */
  attn_call_fn call;            /* 32 */
  attn_flops_fn flops;          /* 40: may be null */
  attn_reference_fn reference;  /* 48: may be null */
} attn_function;

/** The target of artifacts that run on the host. All others run on a GPU. */
#define ATTN_HOST_TARGET "host"

/** The contents of an artifact. Size 40. There is no typedef, because the
    symbol that a compiled library exports has the name of the structure. */
struct attn_artifact {
  uint32_t abi_version;           /*  0: ATTN_RUNTIME_ABI_VERSION */
  int32_t num_functions;          /*  4 */
  const char *target;             /*  8: ATTN_HOST_TARGET, "sm_90a", ... */
  const char *producer;           /* 16: name and version of the compiler */
  const attn_function *functions; /* 24: num_functions */
  const void *reserved;           /* 32: null */
};

/** The symbol that a compiled library exports:
    `const struct attn_artifact attn_artifact`. */
#define ATTN_ARTIFACT_SYMBOL "attn_artifact"

/*===----------------------------------------------------------------------===*/
/* Called by compiled host code                                               */
/*===----------------------------------------------------------------------===*/

/** The kind of device that a function runs on. */
typedef enum attnrt_device_kind {
  ATTNRT_KIND_HOST = 0,
  ATTNRT_KIND_CUDA = 1
} attnrt_device_kind;

/** Checks `args` against `specs`. Verifies count, null pointers, rank, dtype,
    static sizes, agreement of dynamic sizes, 0 <= size < 2^31, a last stride of
    1, non-negative strides, strides of outputs whose entries share no memory,
    outputs that share no memory with other arguments, alignment, reserved
    fields, and that all tensors are of the given kind and on one device. Only
    dimensions of size > 1 have a meaningful stride. Neither the strides nor the
    data pointer are checked of a tensor with a dimension of 0, or of
    ATTN_ACCESS_SIZES.

    Tensors that are interleaved, such as slices of one tensor, share no memory.
    To find out takes long for some strides that no tensor in practice has: such
    tensors pass.

    With ATTNRT_KIND_CUDA each data pointer must be device memory of the device
    that the tensor names, and that device must be the one of the thread's
    current context. A thread without a current context gets the primary context
    of the tensors' device as its current one. */
ATTNRT_EXPORT int32_t attnrtCheckTensors(const attn_tensor_spec *specs,
                                         int32_t num_specs,
                                         const attn_tensor *const *args,
                                         int32_t num_args, int32_t device_kind,
                                         const char *function);

/** Checks that dimension `dim` of argument `arg` is `factor` times the number
    of tiles of `tile` positions that cover dimension `length_dim` of argument
    `length_arg`, plus `extra`. Used for sizes of block masks and dropout keep
    masks. The arguments have passed attnrtCheckTensors. */
ATTNRT_EXPORT int32_t attnrtCheckTileCount(
    const attn_tensor_spec *specs, const attn_tensor *const *args, int32_t arg,
    int32_t dim, int32_t length_arg, int32_t length_dim, int64_t tile,
    int64_t factor, int64_t extra, const char *function);

/** Checks that dimension `dim` of argument `arg` is a multiple of `factor`, and
    0 only if dimension `length_dim` of argument `length_arg` is 0; with a
    `length_arg` of -1 it may always be 0. Used for sizes of dropout keep masks.
    The arguments have passed attnrtCheckTensors. */
ATTNRT_EXPORT int32_t attnrtCheckMultiple(const attn_tensor_spec *specs,
                                          const attn_tensor *const *args,
                                          int32_t arg, int32_t dim,
                                          int32_t length_arg,
                                          int32_t length_dim, int64_t factor,
                                          const char *function);

/** The number of SMs of the current context's device. */
ATTNRT_EXPORT int32_t attnrtGetSmCount(int32_t *count);

/** Writes a tiled tensor map (CUtensorMap: 128 bytes at `map`, 64-byte aligned)
    for a view of 1 to 5 dimensions. All arrays are outermost first; strides are
    in elements and the last must be 1. `box` is the tile that one copy moves.
    `swizzle_bytes` is 0, 32, 64 or 128; `l2_promotion_bytes` is 0, 64, 128 or
    256. Elements out of bounds read as zero. Strides of dimensions of size 1
    are ignored. All elements of a view with a size of 0 are out of bounds. */
ATTNRT_EXPORT int32_t attnrtEncodeTensorMap(
    void *map, const void *data, int32_t dtype, int32_t rank,
    const int64_t *sizes, const int64_t *strides, const int32_t *box,
    int32_t swizzle_bytes, int32_t l2_promotion_bytes);

/** A kernel inside an artifact: constant but for `cache`. Size 56. Must be in
    writable memory that lives as long as it is used. */
typedef struct attnrt_kernel {
  const void *image;     /*  0: cubin, fatbin or zero-terminated PTX */
  uint64_t image_size;   /*  8: bytes */
  const char *name;      /* 16: the kernel's symbol in the image */
  int32_t block_size;    /* 24: threads, all in x */
  int32_t shared_bytes;  /* 28: dynamic shared memory */
  int32_t arch_major;    /* 32: 9 of sm_90a */
  int32_t arch_minor;    /* 36: 0 of sm_90a */
  int32_t arch_specific; /* 40: 1 for sm_90a: runs on 9.0 alone; 0: also on
                            later minor versions and, unless the image is a
                            cubin, on later majors */
  int32_t cluster_size;  /* 44: blocks per cluster in x; 0 or 1: none */
  void *cache;           /* 48: owned by the runtime; 0 at first */
} attnrt_kernel;

/** Launches `kernel` on `stream` with `params` (one pointer per parameter, as
    cuLaunchKernel takes them). The module is loaded at the first launch in each
    context. With `ctas_per_sm` n > 0 the grid is persistent: gx is clamped to n
    times the number of SMs. A grid with a size of 0 launches nothing. Neither
    waits nor allocates once the module is loaded. */
ATTNRT_EXPORT int32_t attnrtLaunchKernel(attnrt_kernel *kernel, int64_t gx,
                                         int64_t gy, int64_t gz,
                                         int32_t ctas_per_sm, void **params,
                                         void *stream);

/** Like attnrtLaunchKernel, but on devices of compute capability 9.0 or later
    the kernel may begin while earlier work on `stream` still runs (programmatic
    dependent launch). The kernel must wait for this work itself
    (griddepcontrol.wait) before it does anything that depends on it. */
ATTNRT_EXPORT int32_t attnrtLaunchKernelEarly(attnrt_kernel *kernel, int64_t gx,
                                              int64_t gy, int64_t gz,
                                              int32_t ctas_per_sm,
                                              void **params, void *stream);

/** Like attnrtLaunchKernel, but no CTA begins before the device has room for
    all of them at once, so that they may wait for one another (cooperative
    launch). */
ATTNRT_EXPORT int32_t attnrtLaunchKernelTogether(attnrt_kernel *kernel,
                                                 int64_t gx, int64_t gy,
                                                 int64_t gz,
                                                 int32_t ctas_per_sm,
                                                 void **params, void *stream);

/** Forgets the modules loaded for `kernel`. To be called before the library
    that holds the kernel is unloaded; no launch of it may be in progress. */
ATTNRT_EXPORT int32_t attnrtUnloadKernel(attnrt_kernel *kernel);

/** The body of attnrtParallelFor, for the iterations [begin, end). */
typedef void (*attnrt_body_fn)(int64_t begin, int64_t end, void *context);

/** Calls `body` on disjoint ranges that cover [0, count), on several threads,
    and returns when all of them are done. Ranges are assigned dynamically. A
    call from inside a body runs serially. The number of threads is the
    environment variable ATTN_NUM_THREADS, or else the number of processors. */
ATTNRT_EXPORT int32_t attnrtParallelFor(int64_t count, attnrt_body_fn body,
                                        void *context);

/** The number of threads that attnrtParallelFor uses, including the caller. */
ATTNRT_EXPORT int32_t attnrtGetNumThreads(void);

/** Faults of data that a kernel reads. The kernel writes the code of a fault to
    the error flag. For faults of masks it first writes the value that it found
    to word 2 * code, and the bound of the value to word 2 * code + 1. */
typedef enum attnrt_fault {
  ATTNRT_FAULT_NONE = 0,
  /* Invalid lengths or boundaries of sequences; nothing is computed. */
  ATTNRT_FAULT_SEQUENCES = 1,
  ATTNRT_FAULT_HEADS = 2, /* invalid key head of a query head */
  /* Operands of masks: boundaries of documents */
  ATTNRT_FAULT_BOUNDARY = 3,       /* beyond the last position */
  ATTNRT_FAULT_BOUNDARY_ORDER = 4, /* less than the boundary before */
  /* Operands of masks: parents of nodes */
  ATTNRT_FAULT_PARENTS = 5, /* wrong number of parents */
  ATTNRT_FAULT_PARENT = 6,  /* invalid parent; the bound is the node */
  /* Operands of masks: lists of blocks */
  ATTNRT_FAULT_OFFSETS = 7,       /* wrong number of offsets */
  ATTNRT_FAULT_OFFSET = 8,        /* more than the number of listed columns */
  ATTNRT_FAULT_OFFSET_ORDER = 9,  /* less than the offset before */
  ATTNRT_FAULT_COLUMN = 10,       /* not less than the number of columns */
  ATTNRT_FAULT_COLUMN_TWICE = 11, /* column listed twice in one row */
  /* KV caches: a number of keys that is negative or has no room, and an entry
     of a page table that is no page */
  ATTNRT_FAULT_KEY_LENGTHS = 12,
  ATTNRT_FAULT_PAGES = 13,
  /* A position for which tables of a rotary embedding have no row */
  ATTNRT_FAULT_POSITIONS = 14,
  /* A log-decay of linear attention that is positive or no number */
  ATTNRT_FAULT_LOG_DECAYS = 15,
  /* Offsets of a shard with dropout that are not multiples of 16 */
  ATTNRT_FAULT_SHARD = 16
} attnrt_fault;

/** The number of 32-bit words, from the error flag on, that kernels may
    write. */
#define ATTNRT_ERROR_FLAG_WORDS 24

/** The error flag that kernels of the given kind write faults to: for
    ATTNRT_KIND_CUDA in host memory that the current context's device can write,
    for ATTNRT_KIND_HOST in memory of the calling thread. */
ATTNRT_EXPORT int32_t attnrtGetErrorFlag(int32_t device_kind, void **word);

/** The status of the fault that a kernel has reported, with its text, and
    ATTN_OK if there is none; clears the error flag. Does not wait: a launch
    that has not run yet cannot have reported anything. */
ATTNRT_EXPORT int32_t attnrtTakeFault(int32_t device_kind);

/** Allocates or frees scratch memory in stream order, from the device's memory
    pool. For kernels that need room for partial results. */
ATTNRT_EXPORT int32_t attnrtMallocAsync(void **pointer, int64_t bytes,
                                        void *stream);
ATTNRT_EXPORT int32_t attnrtFreeAsync(void *pointer, void *stream);

/** Acquires a side stream, `*side` (a CUstream). Its work starts after the
    current work of `stream`, and runs concurrently with later work of `stream`.
    attnrtJoinStream releases it and needs `*fork`. Streams and events are
    pooled: once the pool is as large as the most that are in use at a time,
    neither function creates anything or waits. Both work while `stream` is
    being captured into a graph, and on several threads. */
ATTNRT_EXPORT int32_t attnrtForkStream(void *stream, void **fork, void **side);

/** Makes later work of `stream` start after the work of the side stream of
    `fork`. The side stream must not be used afterwards. A null `fork` is
    ignored. */
ATTNRT_EXPORT int32_t attnrtJoinStream(void *fork, void *stream);

/** Sets `bytes` bytes of device memory to `value`, in stream order. */
ATTNRT_EXPORT int32_t attnrtMemsetAsync(void *pointer, int32_t value,
                                        int64_t bytes, void *stream);

/*===----------------------------------------------------------------------===*/
/* For tools: devices, memory, events                                         */
/*===----------------------------------------------------------------------===*/

/** The number of devices that the driver reports; 0 with ATTN_OK if there is no
    driver. */
ATTNRT_EXPORT int32_t attnrtDeviceCount(int32_t *count);

/** Writes the device's name, zero-terminated, cut to `size` bytes. */
ATTNRT_EXPORT int32_t attnrtDeviceName(int32_t device, char *name,
                                       int32_t size);

/** Compute capability, 9 and 0 for sm_90. */
ATTNRT_EXPORT int32_t attnrtDeviceArch(int32_t device, int32_t *major,
                                       int32_t *minor);

/** A capacity of a device. */
typedef enum attnrt_capacity {
  ATTNRT_CAPACITY_MEMORY = 0,   /* bytes of memory */
  ATTNRT_CAPACITY_L2 = 1,       /* bytes of the L2 cache */
  ATTNRT_CAPACITY_SHARED = 2,   /* bytes of shared memory for one CTA */
  ATTNRT_CAPACITY_REGISTERS = 3 /* of an SM, 32 bits each */
} attnrt_capacity;

/** A capacity of `device`. */
ATTNRT_EXPORT int32_t attnrtDeviceCapacity(int32_t device, int32_t capacity,
                                           int64_t *value);

/** Makes the primary context of `device` the thread's current context. */
ATTNRT_EXPORT int32_t attnrtSetDevice(int32_t device);

/** The device of the thread's current context (of device 0's primary context,
    which becomes current, if there was none). */
ATTNRT_EXPORT int32_t attnrtGetDevice(int32_t *device);

/** Device memory in the current context. 0 bytes give a null pointer. */
ATTNRT_EXPORT int32_t attnrtMalloc(void **pointer, int64_t bytes);
ATTNRT_EXPORT int32_t attnrtFree(void *pointer);

/** Copies, and sets bytes to `value`; return when done. */
ATTNRT_EXPORT int32_t attnrtCopyToDevice(void *destination, const void *source,
                                         int64_t bytes);
ATTNRT_EXPORT int32_t attnrtCopyFromDevice(void *destination,
                                           const void *source, int64_t bytes);
ATTNRT_EXPORT int32_t attnrtMemset(void *pointer, int32_t value, int64_t bytes);

/** Waits for all work of the current context. */
ATTNRT_EXPORT int32_t attnrtSynchronize(void);

/** Events that record time. attnrtEventElapsedMs waits for `end`. */
ATTNRT_EXPORT int32_t attnrtEventCreate(void **event);
ATTNRT_EXPORT int32_t attnrtEventDestroy(void *event);
ATTNRT_EXPORT int32_t attnrtEventRecord(void *event, void *stream);
ATTNRT_EXPORT int32_t attnrtEventElapsedMs(void *begin, void *end,
                                           double *milliseconds);

#ifdef __cplusplus
}
#endif

#endif /* ATTN_RUNTIME_ATTN_RUNTIME_H */
