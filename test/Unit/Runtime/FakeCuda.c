//===- FakeCuda.c - A CUDA driver for tests -------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Stands in for libcuda.so.1 on machines without a GPU. Device memory is host
// memory that the driver keeps account of, modules are tables of host
// functions, and every call is counted. By default device 0 is an sm_90 with
// 132 SMs and device 1 an sm_80 with 108. FAKE_CUDA_DEVICES sets
// the number of devices, FAKE_CUDA_ARCH (as in 80) the architecture of device
// 0, FAKE_CUDA_MEMORY the bytes of memory of each.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MaxDevices = 2, MaxFunctions = 64 };

enum {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  InvalidDevice = 101,
  InvalidContext = 201,
  InvalidPtx = 218,
  NotFound = 500,
  CaptureIsolation = 905
};

struct CUctx_st {
  int device;
  unsigned long long id;
};
struct CUmod_st {
  const struct fake_image *image;
};
struct CUevent_st {
  double milliseconds;
  int graph; /* of the stream that recorded it */
};
/* A stream belongs to the graph that it is captured into, 0 if to none. */
struct CUstream_st {
  int graph;
};

struct allocation {
  char *data;
  size_t size;
  int device;
  struct allocation *next;
};

struct function_record {
  const char *name;
  int count;
  int failure;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct function_record records[MaxFunctions];
static struct allocation *allocations;
static size_t used;
static unsigned long long kept;
static struct CUctx_st primary[MaxDevices] = {{0, 1}, {1, 2}};
static struct fake_launch last_launch;
static struct fake_tensor_map last_tensor_map;
static int last_shared;
static int initialized;

static __thread struct CUctx_st *current;

static struct function_record *find_record(const char *name) {
  int i;
  for (i = 0; i < MaxFunctions && records[i].name; ++i)
    if (strcmp(records[i].name, name) == 0)
      return &records[i];
  if (i == MaxFunctions)
    abort();
  records[i].name = name;
  return &records[i];
}

/* Counts a call and says whether it is to fail. */
static int enter(const char *name) {
  pthread_mutex_lock(&mutex);
  struct function_record *record = find_record(name);
  ++record->count;
  int failure = record->failure;
  pthread_mutex_unlock(&mutex);
  return failure;
}

#define ENTER()                                                                \
  do {                                                                         \
    int failure = enter(__func__);                                             \
    if (failure)                                                               \
      return failure;                                                          \
  } while (0)

#define ENTER_WITH_CONTEXT()                                                   \
  do {                                                                         \
    ENTER();                                                                   \
    if (!current)                                                              \
      return InvalidContext;                                                   \
  } while (0)

void fakeCudaReset(void) {
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < MaxFunctions; ++i)
    records[i].count = records[i].failure = 0;
  memset(&last_launch, 0, sizeof(last_launch));
  memset(&last_tensor_map, 0, sizeof(last_tensor_map));
  last_shared = 0;
  pthread_mutex_unlock(&mutex);
}

int fakeCudaCount(const char *function) {
  pthread_mutex_lock(&mutex);
  int count = find_record(function)->count;
  pthread_mutex_unlock(&mutex);
  return count;
}

void fakeCudaFail(const char *function, int result) {
  pthread_mutex_lock(&mutex);
  find_record(function)->failure = result;
  pthread_mutex_unlock(&mutex);
}

struct fake_launch fakeCudaLastLaunch(void) { return last_launch; }
struct fake_tensor_map fakeCudaLastTensorMap(void) { return last_tensor_map; }
int fakeCudaLastShared(void) { return last_shared; }

static long read_number(const char *variable, long fallback) {
  const char *text = getenv(variable);
  return text && *text ? atol(text) : fallback;
}

static size_t total_memory(void) {
  return read_number("FAKE_CUDA_MEMORY", 1L << 30);
}

int cuInit(unsigned flags) {
  (void)flags;
  ENTER();
  initialized = 1;
  return Success;
}

int cuGetErrorName(int result, const char **name) {
  switch (result) {
  case InvalidValue:
    *name = "CUDA_ERROR_INVALID_VALUE";
    return Success;
  case OutOfMemory:
    *name = "CUDA_ERROR_OUT_OF_MEMORY";
    return Success;
  case InvalidPtx:
    *name = "CUDA_ERROR_INVALID_PTX";
    return Success;
  case NotFound:
    *name = "CUDA_ERROR_NOT_FOUND";
    return Success;
  case 700:
    *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
    return Success;
  }
  *name = NULL;
  return InvalidValue;
}

int cuGetErrorString(int result, const char **text) {
  switch (result) {
  case InvalidValue:
    *text = "invalid argument";
    return Success;
  case OutOfMemory:
    *text = "out of memory";
    return Success;
  case InvalidPtx:
    *text = "a PTX JIT compilation failed";
    return Success;
  case NotFound:
    *text = "named symbol not found";
    return Success;
  case 700:
    *text = "an illegal memory access was encountered";
    return Success;
  }
  *text = NULL;
  return InvalidValue;
}

int cuDeviceGetCount(int *count) {
  ENTER();
  if (!initialized)
    return NotInitialized;
  *count = (int)read_number("FAKE_CUDA_DEVICES", MaxDevices);
  return Success;
}

int cuDeviceGet(int *device, int ordinal) {
  ENTER();
  if (ordinal < 0 || ordinal >= MaxDevices)
    return InvalidDevice;
  *device = ordinal;
  return Success;
}

int cuDeviceGetName(char *name, int size, int device) {
  ENTER();
  snprintf(name, size, "Fake GPU %d", device);
  return Success;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  ENTER();
  int arch = device == 0 ? (int)read_number("FAKE_CUDA_ARCH", 90) : 80;
  switch (attribute) {
  case 16:
    *value = device == 0 ? 132 : 108;
    return Success;
  case 75:
    *value = arch / 10;
    return Success;
  case 76:
    *value = arch % 10;
    return Success;
  case 97:
    *value = arch == 90 ? 232448 : 166912;
    return Success;
  }
  return InvalidValue;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  (void)device;
  ENTER();
  *bytes = total_memory();
  return Success;
}

int cuDevicePrimaryCtxRetain(struct CUctx_st **context, int device) {
  ENTER();
  *context = &primary[device];
  return Success;
}

int cuCtxGetCurrent(struct CUctx_st **context) {
  ENTER();
  *context = current;
  return Success;
}

int cuCtxSetCurrent(struct CUctx_st *context) {
  ENTER();
  current = context;
  return Success;
}

int cuCtxGetDevice(int *device) {
  ENTER_WITH_CONTEXT();
  *device = current->device;
  return Success;
}

int cuCtxGetId(struct CUctx_st *context, unsigned long long *id) {
  ENTER();
  *id = context->id;
  return Success;
}

int cuCtxSynchronize(void) {
  ENTER_WITH_CONTEXT();
  return Success;
}

int cuModuleLoadDataEx(struct CUmod_st **module, const void *image,
                       unsigned num_options, int *options, void **values) {
  ENTER_WITH_CONTEXT();
  if (memcmp(image, "FAKECUDA", 8) != 0) {
    if (num_options > 0 && options[0] == 5)
      snprintf((char *)values[0], 64, "ptxas fatal: not an image");
    return InvalidPtx;
  }
  *module = malloc(sizeof(**module));
  (*module)->image = image;
  return Success;
}

int cuModuleUnload(struct CUmod_st *module) {
  ENTER_WITH_CONTEXT();
  free(module);
  return Success;
}

int cuModuleGetFunction(const struct fake_kernel **function,
                        struct CUmod_st *module, const char *name) {
  ENTER_WITH_CONTEXT();
  for (int i = 0; i < module->image->num_kernels; ++i)
    if (strcmp(module->image->kernels[i].name, name) == 0) {
      *function = &module->image->kernels[i];
      return Success;
    }
  return NotFound;
}

int cuFuncSetAttribute(const struct fake_kernel *function, int attribute,
                       int value) {
  (void)function;
  ENTER_WITH_CONTEXT();
  if (attribute == 8)
    last_shared = value;
  return Success;
}

static int launch(const struct fake_kernel *function,
                  const struct fake_launch *arguments, void **params) {
  pthread_mutex_lock(&mutex);
  last_launch = *arguments;
  pthread_mutex_unlock(&mutex);
  if (function->run)
    function->run(params, arguments->grid[0], arguments->grid[1],
                  arguments->grid[2]);
  return Success;
}

int cuLaunchKernel(const struct fake_kernel *function, unsigned gx, unsigned gy,
                   unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **params, void **extra) {
  (void)extra;
  ENTER_WITH_CONTEXT();
  if (by != 1 || bz != 1)
    return InvalidValue;
  struct fake_launch arguments = {{gx, gy, gz}, bx, shared, 0, 0, 0, stream};
  return launch(function, &arguments, params);
}

struct launch_attribute {
  int id;
  char pad[4];
  unsigned value[16];
};

struct launch_config {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared;
  void *stream;
  struct launch_attribute *attributes;
  unsigned num_attributes;
};

int cuLaunchKernelEx(const struct launch_config *config,
                     const struct fake_kernel *function, void **params,
                     void **extra) {
  (void)extra;
  ENTER_WITH_CONTEXT();
  struct fake_launch arguments = {
      {config->grid[0], config->grid[1], config->grid[2]},
      config->block[0],
      config->shared,
      0,
      0,
      0,
      config->stream};
  for (unsigned i = 0; i < config->num_attributes; ++i) {
    if (config->attributes[i].id == 4)
      arguments.cluster = config->attributes[i].value[0];
    if (config->attributes[i].id == 6)
      arguments.early = config->attributes[i].value[0];
    if (config->attributes[i].id == 2)
      arguments.together = config->attributes[i].value[0];
  }
  return launch(function, &arguments, params);
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
  ENTER_WITH_CONTEXT();
  *total_bytes = total_memory();
  *free_bytes = *total_bytes - used;
  return Success;
}

static int allocate(unsigned long long *address, size_t size) {
  pthread_mutex_lock(&mutex);
  int result = OutOfMemory;
  if (size <= total_memory() - used) {
    struct allocation *allocation = malloc(sizeof(*allocation));
    allocation->data = aligned_alloc(256, (size + 255) / 256 * 256);
    allocation->size = size;
    allocation->device = current->device;
    allocation->next = allocations;
    allocations = allocation;
    used += size;
    *address = (unsigned long long)allocation->data;
    result = Success;
  }
  pthread_mutex_unlock(&mutex);
  return result;
}

static int release(unsigned long long address) {
  int result = InvalidValue;
  pthread_mutex_lock(&mutex);
  for (struct allocation **link = &allocations; *link; link = &(*link)->next) {
    struct allocation *allocation = *link;
    if ((unsigned long long)allocation->data != address)
      continue;
    *link = allocation->next;
    used -= allocation->size;
    free(allocation->data);
    free(allocation);
    result = Success;
    break;
  }
  pthread_mutex_unlock(&mutex);
  return result;
}

/* Says what was not freed, for programs that have FAKE_CUDA_REPORT set. */
__attribute__((destructor)) static void report(void) {
  if (getenv("FAKE_CUDA_REPORT"))
    fprintf(stderr, "fake CUDA: %zu bytes not freed, after %d launches\n", used,
            fakeCudaCount("cuLaunchKernel"));
}

int cuMemAlloc_v2(unsigned long long *address, size_t size) {
  ENTER_WITH_CONTEXT();
  return allocate(address, size);
}

int cuMemFree_v2(unsigned long long address) {
  ENTER_WITH_CONTEXT();
  return release(address);
}

int cuMemAllocAsync(unsigned long long *address, size_t size, void *stream) {
  (void)stream;
  ENTER_WITH_CONTEXT();
  return allocate(address, size);
}

/* A pool is what it has been told to keep. */
int cuMemPoolCreate(unsigned long long **pool, const void *properties) {
  (void)properties;
  ENTER_WITH_CONTEXT();
  *pool = &kept;
  return Success;
}

int cuMemPoolSetAttribute(unsigned long long *pool, int attribute,
                          const void *value) {
  ENTER_WITH_CONTEXT();
  if (attribute != 4)
    return InvalidValue;
  memcpy(pool, value, sizeof(*pool));
  return Success;
}

int cuMemAllocFromPoolAsync(unsigned long long *address, size_t size,
                            unsigned long long *pool, void *stream) {
  (void)pool;
  (void)stream;
  ENTER_WITH_CONTEXT();
  return allocate(address, size);
}

unsigned long long fakeCudaKept(void) { return kept; }

int cuMemHostAlloc(void **address, size_t size, unsigned flags) {
  (void)flags;
  ENTER_WITH_CONTEXT();
  *address = malloc(size);
  return *address ? Success : OutOfMemory;
}

int cuMemFreeAsync(unsigned long long address, void *stream) {
  (void)stream;
  ENTER_WITH_CONTEXT();
  return release(address);
}

int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t size) {
  ENTER_WITH_CONTEXT();
  memcpy((void *)to, from, size);
  return Success;
}

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t size) {
  ENTER_WITH_CONTEXT();
  memcpy(to, (const void *)from, size);
  return Success;
}

int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t size,
                  void *stream) {
  (void)stream;
  ENTER_WITH_CONTEXT();
  memcpy((void *)to, (const void *)from, size);
  return Success;
}

int cuMemsetD8Async(unsigned long long address, unsigned char value,
                    size_t size, void *stream) {
  (void)stream;
  ENTER_WITH_CONTEXT();
  memset((void *)address, value, size);
  return Success;
}

int cuPointerGetAttributes(unsigned count, const int *attributes, void **values,
                           unsigned long long address) {
  ENTER_WITH_CONTEXT();
  pthread_mutex_lock(&mutex);
  const struct allocation *found = allocations;
  while (found && (address < (unsigned long long)found->data ||
                   address >= (unsigned long long)found->data + found->size))
    found = found->next;
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] == 2)
      *(unsigned *)values[i] = found ? 2 : 0;
    if (attributes[i] == 9)
      *(int *)values[i] = found ? found->device : -2;
  }
  pthread_mutex_unlock(&mutex);
  return Success;
}

int cuEventCreate(struct CUevent_st **event, unsigned flags) {
  (void)flags;
  ENTER_WITH_CONTEXT();
  *event = calloc(1, sizeof(**event));
  return Success;
}

int cuEventDestroy_v2(struct CUevent_st *event) {
  ENTER();
  free(event);
  return Success;
}

/* Whether a stream is neither of the default ones. */
static int is_real(const struct CUstream_st *stream) {
  return (size_t)stream > 2;
}

int cuEventRecord(struct CUevent_st *event, struct CUstream_st *stream) {
  ENTER();
  event->graph = is_real(stream) ? stream->graph : 0;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  event->milliseconds = now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
  return Success;
}

int cuEventQuery(const struct CUevent_st *event) {
  (void)event;
  ENTER();
  return Success;
}

int cuEventSynchronize(struct CUevent_st *event) {
  (void)event;
  ENTER();
  return Success;
}

int cuEventElapsedTime(float *milliseconds, const struct CUevent_st *begin,
                       const struct CUevent_st *end) {
  ENTER();
  *milliseconds = (float)(end->milliseconds - begin->milliseconds);
  return Success;
}

int cuStreamCreate(struct CUstream_st **stream, unsigned flags) {
  (void)flags;
  ENTER_WITH_CONTEXT();
  *stream = calloc(1, sizeof(**stream));
  return Success;
}

int cuStreamDestroy_v2(struct CUstream_st *stream) {
  ENTER();
  free(stream);
  return Success;
}

/* Waiting for an event of a graph makes a stream part of it. */
int cuStreamWaitEvent(struct CUstream_st *stream,
                      const struct CUevent_st *event, unsigned flags) {
  (void)flags;
  ENTER();
  if (!is_real(stream))
    return Success;
  if (stream->graph && stream->graph != event->graph)
    return CaptureIsolation;
  stream->graph = event->graph;
  return Success;
}

int cuStreamIsCapturing(const struct CUstream_st *stream, int *status) {
  ENTER();
  *status = is_real(stream) && stream->graph ? 1 : 0;
  return Success;
}

int cuThreadExchangeStreamCaptureMode(int *mode) {
  static __thread int current_mode;
  ENTER();
  int previous = current_mode;
  current_mode = *mode;
  *mode = previous;
  return Success;
}

void fakeCudaCapture(void *stream, int graph) {
  ((struct CUstream_st *)stream)->graph = graph;
}

int cuTensorMapEncodeTiled(void *map, int dtype, uint32_t rank, void *address,
                           const uint64_t *sizes, const uint64_t *strides,
                           const uint32_t *box, const uint32_t *element_strides,
                           int interleave, int swizzle, int l2_promotion,
                           int out_of_bounds_fill) {
  ENTER();
  struct fake_tensor_map *last = &last_tensor_map;
  pthread_mutex_lock(&mutex);
  memset(last, 0, sizeof(*last));
  last->dtype = dtype;
  last->rank = rank;
  last->address = address;
  memcpy(last->sizes, sizes, rank * sizeof(*sizes));
  memcpy(last->strides, strides, (rank - 1) * sizeof(*strides));
  memcpy(last->box, box, rank * sizeof(*box));
  memcpy(last->element_strides, element_strides,
         rank * sizeof(*element_strides));
  last->interleave = interleave;
  last->swizzle = swizzle;
  last->l2_promotion = l2_promotion;
  last->out_of_bounds_fill = out_of_bounds_fill;
  pthread_mutex_unlock(&mutex);
  memset(map, 0xab, 128);
  return Success;
}
