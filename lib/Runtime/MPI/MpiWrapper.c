/*===-- MpiWrapper.c - The functions of MPI that the runtime uses ---------===*\
|*                                                                            *|
|* Licensed under the Apache License v2.0 with LLVM Exceptions.               *|
|* See LICENSE for license information.                                       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* For another MPI than the one of the build:                                 *|
|*   mpicc -shared -fPIC -O2 MpiWrapper.c -o libattn_mpi.so                   *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include "MpiWrapper.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Static_assert(sizeof(MPI_Request) <= sizeof(attn_mpi_request),
               "an MPI_Request must fit attn_mpi_request");

struct attn_mpi_comm {
  /* The one that was made before. */
  struct attn_mpi_comm *next;
  MPI_Comm duplicate;
  /* Of the duplication, null once it is complete. */
  MPI_Request duplication;
  int32_t numGroups;
};

/* The attribute of a communicator that has its attn_mpi_comm. */
static int keyval = MPI_KEYVAL_INVALID;

static struct attn_mpi_comm *comms;

/* How long an exit waits for other ranks; negative: as long as it takes. */
static int64_t exitLimitMs = -1;

static int64_t nowMs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Whether all ranks have come here, within the limit of the exit. */
static int meet(void) {
  MPI_Request barrier;
  int done = 0;
  int64_t start = nowMs();
  if (MPI_Ibarrier(MPI_COMM_WORLD, &barrier))
    return 0;
  while (!MPI_Test(&barrier, &done, MPI_STATUS_IGNORE) && !done) {
    struct timespec pause = {0, 1000000};
    if (exitLimitMs >= 0 && nowMs() - start > exitLimitMs)
      return 0;
    nanosleep(&pause, NULL);
  }
  return done;
}

/* Receives the small messages that nobody has received, such as that a rank was
   destroyed: some implementations complain about them. */
static void drain(const struct attn_mpi_comm *comm) {
  char text[1024];
  MPI_Status status;
  int found = 1, bytes = 0;
  if (comm->duplication != MPI_REQUEST_NULL)
    return;
  while (!MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm->duplicate, &found,
                     &status) &&
         found && !MPI_Get_count(&status, MPI_BYTE, &bytes) &&
         bytes <= (int)sizeof(text))
    if (MPI_Recv(text, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG,
                 comm->duplicate, MPI_STATUS_IGNORE))
      return;
}

static void finalize(void) {
  int finalized = 0;
  if (MPI_Finalized(&finalized) || finalized || !meet())
    return;
  for (const struct attn_mpi_comm *comm = comms; comm; comm = comm->next)
    drain(comm);
  MPI_Finalize();
}

static int32_t initialize(int32_t *problem) {
  int initialized = 0, finalized = 0, level = 0, isMain = 0;
  *problem = ATTN_MPI_OK;
  int code = MPI_Finalized(&finalized);
  if (code)
    return code;
  if (finalized) {
    *problem = ATTN_MPI_FINALIZED;
    return 0;
  }
  code = MPI_Initialized(&initialized);
  if (!code && !initialized) {
    code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    if (!code)
      atexit(finalize);
  }
  if (!code)
    code = MPI_Query_thread(&level);
  if (!code)
    code = MPI_Is_thread_main(&isMain);
  if (code)
    return code;
  if (level < MPI_THREAD_SERIALIZED && !isMain)
    *problem = ATTN_MPI_WRONG_THREAD;
  return 0;
}

static int deleteComm(MPI_Comm parent, int key, void *value, void *state) {
  (void)parent, (void)key, (void)value, (void)state;
  /* Groups may still use the duplicate. */
  return MPI_SUCCESS;
}

static int32_t openComm(const int32_t *handle, attn_mpi_comm **comm,
                        int32_t *problem) {
  int code = initialize(problem);
  if (code || *problem)
    return code;
  MPI_Comm parent = handle ? MPI_Comm_f2c((MPI_Fint)*handle) : MPI_COMM_WORLD;
  int isInter = 0;
  /* Open MPI has no object for a number that it did not give. */
  if (parent == MPI_COMM_NULL || parent == (MPI_Comm)0) {
    *problem = ATTN_MPI_NO_COMMUNICATOR;
    return 0;
  }
  code = MPI_Comm_test_inter(parent, &isInter);
  if (code)
    return code;
  if (isInter) {
    *problem = ATTN_MPI_NO_COMMUNICATOR;
    return 0;
  }
  if (keyval == MPI_KEYVAL_INVALID)
    code = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, deleteComm, &keyval,
                                  NULL);
  int found = 0;
  if (!code)
    code = MPI_Comm_get_attr(parent, keyval, (void *)comm, &found);
  if (code || found)
    return code;
  attn_mpi_comm *created = calloc(1, sizeof(*created));
  if (!created)
    return MPI_ERR_NO_MEM;
  code = MPI_Comm_idup(parent, &created->duplicate, &created->duplication);
  if (code) {
    free(created);
    return code;
  }
  created->next = comms;
  comms = created;
  *comm = created;
  return MPI_Comm_set_attr(parent, keyval, created);
}

static int32_t isReady(attn_mpi_comm *comm, int32_t *ready) {
  int done = 1, code = 0;
  if (comm->duplication != MPI_REQUEST_NULL) {
    code = MPI_Test(&comm->duplication, &done, MPI_STATUS_IGNORE);
    if (!code && done)
      code = MPI_Comm_set_errhandler(comm->duplicate, MPI_ERRORS_RETURN);
  }
  *ready = done;
  return code;
}

static int32_t join(attn_mpi_comm *comm, int32_t *rank, int32_t *size,
                    int32_t *group) {
  int ownRank = 0, numRanks = 0;
  int code = MPI_Comm_rank(comm->duplicate, &ownRank);
  if (!code)
    code = MPI_Comm_size(comm->duplicate, &numRanks);
  *rank = ownRank;
  *size = numRanks;
  *group = comm->numGroups++;
  return code;
}

/* Room for a request, and the request in it. */
union PackedRequest {
  MPI_Request request;
  attn_mpi_request packed;
};

static void store(MPI_Request request, attn_mpi_request *place) {
  union PackedRequest both = {.packed = 0};
  both.request = request;
  *place = both.packed;
}

static MPI_Request load(const attn_mpi_request *place) {
  union PackedRequest both = {.packed = *place};
  return both.request;
}

static int32_t startSend(attn_mpi_comm *comm, const void *data, int32_t bytes,
                         int32_t to, int32_t tag, attn_mpi_request *request) {
  MPI_Request started = MPI_REQUEST_NULL;
  int code =
      MPI_Isend(data, bytes, MPI_BYTE, to, tag, comm->duplicate, &started);
  store(started, request);
  return code;
}

static int32_t startReceive(attn_mpi_comm *comm, void *data, int32_t bytes,
                            int32_t from, int32_t tag,
                            attn_mpi_request *request) {
  MPI_Request started = MPI_REQUEST_NULL;
  int code =
      MPI_Irecv(data, bytes, MPI_BYTE, from, tag, comm->duplicate, &started);
  store(started, request);
  return code;
}

static int32_t testRequest(attn_mpi_request *request, int32_t *done) {
  MPI_Request tested = load(request);
  int isDone = 0;
  int code = MPI_Test(&tested, &isDone, MPI_STATUS_IGNORE);
  store(tested, request);
  *done = isDone;
  return code;
}

static int32_t cancelRequest(attn_mpi_request *request) {
  MPI_Request canceled = load(request);
  return MPI_Cancel(&canceled);
}

static int32_t forgetRequest(attn_mpi_request *request) {
  MPI_Request forgotten = load(request);
  int code = MPI_Request_free(&forgotten);
  store(forgotten, request);
  return code;
}

static int32_t pollMessage(attn_mpi_comm *comm, void *data, int32_t bytes,
                           int32_t tag, int32_t *from) {
  MPI_Status status;
  int found = 0;
  *from = -1;
  int code = MPI_Iprobe(MPI_ANY_SOURCE, tag, comm->duplicate, &found, &status);
  if (code || !found)
    return code;
  *from = status.MPI_SOURCE;
  return MPI_Recv(data, bytes, MPI_BYTE, status.MPI_SOURCE, tag,
                  comm->duplicate, MPI_STATUS_IGNORE);
}

static void describeError(int32_t code, char *text, int32_t size) {
  char whole[MPI_MAX_ERROR_STRING + 1] = "";
  int length = 0;
  if (MPI_Error_string(code, whole, &length))
    length = 0;
  whole[length] = 0;
  strncpy(text, whole, (size_t)size);
  text[size - 1] = 0;
}

static void limitExit(int64_t time_limit_ms) {
  if (time_limit_ms > exitLimitMs)
    exitLimitMs = time_limit_ms;
}

extern const attn_mpi_wrapper attn_mpi_wrapper_functions
    __attribute__((visibility("default")));
const attn_mpi_wrapper attn_mpi_wrapper_functions = {ATTN_MPI_WRAPPER_VERSION,
                                                     0,
                                                     openComm,
                                                     isReady,
                                                     join,
                                                     startSend,
                                                     startReceive,
                                                     testRequest,
                                                     cancelRequest,
                                                     forgetRequest,
                                                     pollMessage,
                                                     describeError,
                                                     limitExit};
