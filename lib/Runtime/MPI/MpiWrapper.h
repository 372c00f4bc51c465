/*===-- MpiWrapper.h - The functions of MPI that the runtime uses -*- C -*-===*\
|*                                                                            *|
|* Licensed under the Apache License v2.0 with LLVM Exceptions.               *|
|* See LICENSE for license information.                                       *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* Implementations of MPI have different ABIs: handles are pointers in Open   *|
|* MPI and integers in MPICH. The wrapper is a library that is compiled       *|
|* against one mpi.h, and gives the runtime functions whose ABI is always the *|
|* same. The runtime opens it when a program creates a group of MPI.          *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef ATTN_LIB_RUNTIME_MPI_MPIWRAPPER_H
#define ATTN_LIB_RUNTIME_MPI_MPIWRAPPER_H

#include <stdint.h>

#define ATTN_MPI_WRAPPER_VERSION 1u

/** The name of the attn_mpi_wrapper that a wrapper exports. */
#define ATTN_MPI_WRAPPER_SYMBOL "attn_mpi_wrapper_functions"

/** What attn_mpi_wrapper::open can find to be wrong. */
typedef enum attn_mpi_problem {
  ATTN_MPI_OK = 0,
  ATTN_MPI_FINALIZED = 1,      /* MPI_Finalize has been called */
  ATTN_MPI_WRONG_THREAD = 2,   /* MPI allows calls of the main thread alone */
  ATTN_MPI_NO_COMMUNICATOR = 3 /* the handle is no intracommunicator */
} attn_mpi_problem;

/** A duplicate of a communicator of MPI, which all groups of the communicator
    share. Each group has tags of its own, so that messages of a group that has
    failed disturb no later one. */
typedef struct attn_mpi_comm attn_mpi_comm;

/** Room for an MPI_Request. */
typedef uint64_t attn_mpi_request;

/** Functions return 0 or an error code of MPI, unless they say otherwise. */
typedef struct attn_mpi_wrapper {
  uint32_t version; /* ATTN_MPI_WRAPPER_VERSION */
  uint32_t reserved;
  /** Finds the duplicate of MPI_COMM_WORLD, or of the communicator with the
      Fortran handle `handle` unless that is null. Initializes MPI if it is not,
      and then finalizes it when the process exits. */
  int32_t (*open)(const int32_t *handle, attn_mpi_comm **comm,
                  int32_t *problem);
  /** Whether all ranks have made the duplicate. */
  int32_t (*is_ready)(attn_mpi_comm *comm, int32_t *ready);
  /** The rank, the number of ranks, and the number of the next group. */
  int32_t (*join)(attn_mpi_comm *comm, int32_t *rank, int32_t *size,
                  int32_t *group);
  int32_t (*send)(attn_mpi_comm *comm, const void *data, int32_t bytes,
                  int32_t to, int32_t tag, attn_mpi_request *request);
  int32_t (*receive)(attn_mpi_comm *comm, void *data, int32_t bytes,
                     int32_t from, int32_t tag, attn_mpi_request *request);
  /** Whether a request is complete; if so, MPI has forgotten it. */
  int32_t (*test)(attn_mpi_request *request, int32_t *done);
  /** Asks for the end of a receive, which is complete afterwards. */
  int32_t (*cancel)(attn_mpi_request *request);
  /** Leaves a request to MPI. */
  int32_t (*forget)(attn_mpi_request *request);
  /** Receives a message of at most `bytes` bytes from any rank, `from`, if
      there is one; otherwise, `from` is -1. Waits for nothing. */
  int32_t (*poll)(attn_mpi_comm *comm, void *data, int32_t bytes, int32_t tag,
                  int32_t *from);
  void (*describe_error)(int32_t code, char *text, int32_t size);
  /** Lets the process exit without MPI_Finalize if other ranks do not exit
      within `time_limit_ms` milliseconds. A rank of a failed group may be gone,
      and MPI_Finalize would wait for it. */
  void (*limit_exit)(int64_t time_limit_ms);
} attn_mpi_wrapper;

#endif /* ATTN_LIB_RUNTIME_MPI_MPIWRAPPER_H */
