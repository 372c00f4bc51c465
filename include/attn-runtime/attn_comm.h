/*===-- attn_comm.h - Communicators of the runtime ----------------*- C -*-===*\
|*                                                                            *|
|* Licensed under the Apache License v2.0 with LLVM Exceptions.               *|
|* See LICENSE for license information.                                       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* Communication between the ranks of a group, of which each computes a shard *|
|* of attention. A communicator is one rank's access to its group. It is a    *|
|* table of functions, so that programs can bring their own.                  *|
|*                                                                            *|
|* A rank is used by one thread at a time. All functions return an            *|
|* attn_status and leave a text for attnGetLastError, as attn_runtime.h says. *|
|* An error of one rank ends the call on all ranks, with the status and the   *|
|* text of that error; so does a rank that makes no matching call within the  *|
|* time limit of the group. All later calls of the group fail the same way:   *|
|* a group that has failed can only be destroyed.                             *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef ATTN_RUNTIME_ATTN_COMM_H
#define ATTN_RUNTIME_ATTN_COMM_H

#include "attn-runtime/attn_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The version of the structures below. */
#define ATTN_COMM_ABI_VERSION 2u

/** In place of a peer: nothing is sent, or nothing is received. */
#define ATTN_COMM_NO_PEER (-1)

/** The legacy default stream of CUDA (CU_STREAM_LEGACY) as `stream`. */
#define ATTN_COMM_LEGACY_STREAM 1

/** Memory that a communicator exchanges. */
typedef enum attn_comm_memory {
  ATTN_COMM_HOST = 1,
  ATTN_COMM_DEVICE = 2
} attn_comm_memory;

struct attn_comm_functions;

/** A communicator. Size 16; an implementation puts data of its own behind. */
typedef struct attn_comm {
  const struct attn_comm_functions *functions; /* 0 */
  int32_t rank;                                /* 8: below `size` */
  int32_t size;                                /* 12: the number of ranks */
} attn_comm;

/** The functions of a communicator; attn_comm_send_recv and the functions after
    it describe them. Arguments have been checked. Size 56. */
typedef struct attn_comm_functions {
  uint32_t abi_version; /* 0: ATTN_COMM_ABI_VERSION */
  uint32_t memory;      /* 4: bits of attn_comm_memory */
  int32_t (*send_recv)(attn_comm *comm, const void *send, int64_t send_bytes,
                       int32_t to, void *receive, int64_t receive_bytes,
                       int32_t from, void *stream);
  int32_t (*all_gather)(attn_comm *comm, const void *send, void *receive,
                        int64_t bytes, void *stream);
  int32_t (*all_to_all)(attn_comm *comm, const void *send, void *receive,
                        int64_t bytes, void *stream);
  int32_t (*reduce_scatter)(attn_comm *comm, const void *send, void *receive,
                            int64_t count, int32_t dtype, void *stream);
  int32_t (*abort)(attn_comm *comm, int32_t status, const char *text);
  void (*destroy)(attn_comm *comm);
} attn_comm_functions;

/*===----------------------------------------------------------------------===*/
/* Communication                                                              */
/*===----------------------------------------------------------------------===*/

/* `stream` is the stream of the current device that orders the call, null for
   memory of the host. A call for memory of the host returns when it is done.
   One for memory of a device returns when the stream holds it: the stream then
   waits for the other ranks. Memory that a communicator does not exchange is
   ATTN_UNSUPPORTED. Buffers of a call do not overlap, except that all_gather
   may find its part in place. An argument that is not valid is an error of the
   rank. */

/** Sends `send_bytes` bytes to rank `to`, and receives `receive_bytes` bytes
    from rank `from`, which must send as many. Either may be
    ATTN_COMM_NO_PEER, and both may be the rank itself. Calls between two ranks
    match in their order. */
ATTNRT_EXPORT int32_t attn_comm_send_recv(attn_comm *comm, const void *send,
                                          int64_t send_bytes, int32_t to,
                                          void *receive, int64_t receive_bytes,
                                          int32_t from, void *stream);

/** Part `r` of `receive`, of `bytes` bytes, is what rank `r` sends. */
ATTNRT_EXPORT int32_t attn_comm_all_gather(attn_comm *comm, const void *send,
                                           void *receive, int64_t bytes,
                                           void *stream);

/** Part `r` of `receive`, of `bytes` bytes, is the part for this rank of what
    rank `r` sends. */
ATTNRT_EXPORT int32_t attn_comm_all_to_all(attn_comm *comm, const void *send,
                                           void *receive, int64_t bytes,
                                           void *stream);

/** `receive` becomes the sum over all ranks of the part for this rank of what
    they send: `count` elements of f32 or f64, added up in the order of the
    ranks, so that the sum does not depend on the order in which they arrive.
    NCCL adds in an order of its own. */
ATTNRT_EXPORT int32_t attn_comm_reduce_scatter(attn_comm *comm,
                                               const void *send, void *receive,
                                               int64_t count, int32_t dtype,
                                               void *stream);

/** Ends the present or the next call on all ranks with `status`, which is not
    ATTN_OK, and a text that names this rank and has `text`. Returns
    `status`. */
ATTNRT_EXPORT int32_t attn_comm_abort(attn_comm *comm, int32_t status,
                                      const char *text);

/** Gives up the rank; null is ignored. For other ranks that wait for it, now or
    later, this is an error. */
ATTNRT_EXPORT void attn_comm_destroy(attn_comm *comm);

/*===----------------------------------------------------------------------===*/
/* Communicators                                                              */
/*===----------------------------------------------------------------------===*/

/** The most ranks that a local group can have. */
#define ATTN_COMM_MAX_LOCAL_RANKS 1024

/** Creates a group whose ranks are threads of this process, which copy each
    other's memory, on the host and on devices. `comms` gets a communicator for
    each of the `size` ranks. Ranks wait `time_limit_ms` milliseconds for each
    other at most: the host does so, too, in calls for memory of a device. There
    is no reduce_scatter of memory of a device. */
ATTNRT_EXPORT int32_t attn_comm_create_local(int32_t size,
                                             int64_t time_limit_ms,
                                             attn_comm **comms);

/** Names a group of NCCL. Size 128. */
typedef struct attn_comm_nccl_id {
  char bytes[128];
} attn_comm_nccl_id;

/** Makes the name of a new group, which one rank gives to the other ones. */
ATTNRT_EXPORT int32_t attn_comm_nccl_unique_id(attn_comm_nccl_id *id);

/** Joins the group `id` of `size` ranks as number `rank`, for memory of the
    current device. Each rank has a device of its own. The library
    libnccl.so.2, version 2.14 or later, is opened when it is first needed;
    ATTN_NCCL_LIBRARY names another one. `time_limit_ms` is how long this call
    waits for other ranks, and a call that a stream has reached: the group then
    fails, and so do the later calls of this rank. Other ranks learn of an error
    of this one by their own time limits. */
ATTNRT_EXPORT int32_t attn_comm_create_nccl(const attn_comm_nccl_id *id,
                                            int32_t rank, int32_t size,
                                            int64_t time_limit_ms,
                                            attn_comm **comm);

/** Joins the group of all processes of MPI_COMM_WORLD, for memory of the host.
    Each process is one rank, with the same number as in MPI, and all of them
    must call this. MPI is used by a wrapper library, which CMake builds as
    libattn_mpi.so where it finds MPI; ATTN_MPI_LIBRARY names another one.
    Without a wrapper this is ATTN_UNSUPPORTED.

    MPI is initialized unless it is, and then finalized when the process exits.
    The group uses a duplicate of the communicator, so that messages of the
    program do not meet messages of the group. Functions that may wait return no
    later than `time_limit_ms` milliseconds after the last message between this
    rank and another one. An error of one rank reaches the others in the present
    or the next call, unless the process has ended: its group then fails by the
    time limit. If several ranks fail at once, ranks may have different texts.
    A call that fails may leave its send buffer to MPI, if data was on its way:
    its memory must stay accessible until MPI is finalized. */
ATTNRT_EXPORT int32_t attn_comm_create_mpi(int64_t time_limit_ms,
                                           attn_comm **comm);

/** The same for all processes of another communicator of MPI, the Fortran
    handle of which is `handle` (MPI_Comm_c2f). It must be an intracommunicator;
    groups may outlive it. */
ATTNRT_EXPORT int32_t attn_comm_create_mpi_handle(int32_t handle,
                                                  int64_t time_limit_ms,
                                                  attn_comm **comm);

/** What a recording communicator does to the calls of its rank. Size 48. */
typedef struct attn_comm_faults {
  int64_t max_delay_us; /*  0: each call starts after a random delay of at most
                               this; delays also change the order in which ranks
                               arrive */
  uint64_t seed;        /*  8: of the delays of this rank */
  int64_t fail_at;      /* 16: the number of the call that fails, from 0 on;
                               negative: none does */
  int32_t fail_status;  /* 24: its status */
  int32_t reserved;     /* 28: 0 */
  int64_t stop_at;      /* 32: the number of the call that returns `fail_status`
                               without telling other ranks, as if the rank had
                               died; negative: none does */
  int64_t reserved2;    /* 40: 0 */
} attn_comm_faults;

/** The traffic of one rank by one function. Size 24. */
typedef struct attn_comm_traffic {
  int64_t calls;          /*  0 */
  int64_t bytes_sent;     /*  8: to other ranks */
  int64_t bytes_received; /* 16: from other ranks */
} attn_comm_traffic;

/** The functions of a communicator. */
typedef enum attn_comm_kind {
  ATTN_COMM_SEND_RECV = 0,
  ATTN_COMM_ALL_GATHER = 1,
  ATTN_COMM_ALL_TO_ALL = 2,
  ATTN_COMM_REDUCE_SCATTER = 3
} attn_comm_kind;

/** Creates a communicator that forwards calls to `inner`, counts them, and
    injects `faults` (null: none). It owns `inner`. */
ATTNRT_EXPORT int32_t attn_comm_create_recording(attn_comm *inner,
                                                 const attn_comm_faults *faults,
                                                 attn_comm **comm);

/** The traffic of a recording communicator by function `kind`, an
    attn_comm_kind: of calls that succeeded. */
ATTNRT_EXPORT int32_t attn_comm_get_traffic(const attn_comm *comm, int32_t kind,
                                            attn_comm_traffic *traffic);

/*===----------------------------------------------------------------------===*/
/* Compiled functions                                                         */
/*===----------------------------------------------------------------------===*/

/* A compiled function that communicates is called by a thread for each rank,
   and uses the communicator of the thread that calls it. If the function fails
   on one rank, for whatever reason, it fails on all ranks. */

/** Makes `comm` the communicator of the calling thread; null takes it away. A
    new thread has none. The thread does not own it: the communicator must live
    until the thread gets another one. */
ATTNRT_EXPORT void attn_comm_set_current(attn_comm *comm);

/** The communicator of the calling thread, null if it has none. */
ATTNRT_EXPORT attn_comm *attn_comm_get_current(void);

/* The functions below are for compiled code. They use the communicator of the
   calling thread, and fail if it has none. */

/** Sets `rank` to the rank of the thread in its group. The group must have
    `ranks` ranks. */
ATTNRT_EXPORT int32_t attnrtCommRank(int64_t ranks, int64_t *rank);

/** attn_comm_send_recv. */
ATTNRT_EXPORT int32_t attnrtCommSendRecv(const void *send, int64_t send_bytes,
                                         int64_t to, void *receive,
                                         int64_t receive_bytes, int64_t from,
                                         void *stream);

/** attn_comm_all_gather of `ranks` parts. The group must have as many ranks. */
ATTNRT_EXPORT int32_t attnrtCommAllGather(const void *send, void *receive,
                                          int64_t ranks, int64_t bytes,
                                          void *stream);

/** attn_comm_all_to_all of `ranks` parts. The group must have as many ranks. */
ATTNRT_EXPORT int32_t attnrtCommAllToAll(const void *send, void *receive,
                                         int64_t ranks, int64_t bytes,
                                         void *stream);

/** Ends the calls of all ranks (attn_comm_abort) if `status`, with which a
    function ends, is an error. Returns `status`, and keeps its text. */
ATTNRT_EXPORT int32_t attnrtCommFinish(int32_t status);

#ifdef __cplusplus
}
#endif

#endif /* ATTN_RUNTIME_ATTN_COMM_H */
