//===- FakeNccl.c - A library of NCCL for tests ---------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Stands in for libnccl.so.2. Ranks are threads of one process that copy each
// other's memory. Calls never block: ncclCommGetAsyncError makes progress.
// FAKE_NCCL_ERROR is an error that it reports in the place of success once the
// rank has joined its group.
//
//===----------------------------------------------------------------------===//

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
  Success = 0,
  InvalidUsage = 5,
  InProgress = 7,
  MaxRanks = 8,
  MaxOps = 64
};

typedef struct {
  char bytes[128];
} unique_id;

struct message {
  const void *data;
  size_t bytes;
  int isCopied;
};

struct group {
  unique_id id;
  int numJoined;
  /* The queue of messages from one rank to another: [first, last) wait. */
  struct message messages[MaxRanks][MaxRanks][MaxOps];
  int first[MaxRanks][MaxRanks], last[MaxRanks][MaxRanks];
  struct group *next;
};

struct operation {
  void *data;
  size_t bytes;
  int peer;
  struct message *sent; /* of a send; null for a receive */
  int isDone;
};

struct ncclComm {
  struct group *group;
  int rank, size;
  struct operation operations[MaxOps];
  int numOperations;
  int hasJoined, isAborted;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct group *groups;
static int numIds;
static __thread struct ncclComm *current;

const char *ncclGetErrorString(int result) {
  return result == Success ? "no error" : "unhandled cuda error (fake)";
}

int ncclGetUniqueId(unique_id *id) {
  pthread_mutex_lock(&mutex);
  memset(id, 0, sizeof(*id));
  ++numIds;
  memcpy(id->bytes, &numIds, sizeof(numIds));
  pthread_mutex_unlock(&mutex);
  return Success;
}

int ncclCommInitRankConfig(struct ncclComm **comm, int size, unique_id id,
                           int rank, void *config) {
  (void)config;
  if (size > MaxRanks)
    return InvalidUsage;
  pthread_mutex_lock(&mutex);
  struct group *found = groups;
  while (found && memcmp(&found->id, &id, sizeof(id)) != 0)
    found = found->next;
  if (!found) {
    found = calloc(1, sizeof(*found));
    found->id = id;
    found->next = groups;
    groups = found;
  }
  ++found->numJoined;
  *comm = calloc(1, sizeof(**comm));
  (*comm)->group = found;
  (*comm)->rank = rank;
  (*comm)->size = size;
  pthread_mutex_unlock(&mutex);
  return InProgress;
}

static int is_done(struct ncclComm *comm, struct operation *operation) {
  if (operation->sent)
    return operation->sent->isCopied;
  struct group *group = comm->group;
  int *first = &group->first[operation->peer][comm->rank];
  if (*first == group->last[operation->peer][comm->rank])
    return 0;
  struct message *message =
      &group->messages[operation->peer][comm->rank][*first % MaxOps];
  if (message->bytes != operation->bytes)
    return 0;
  memcpy(operation->data, message->data, message->bytes);
  message->isCopied = 1;
  ++*first;
  return 1;
}

int ncclCommGetAsyncError(struct ncclComm *comm, int *result) {
  pthread_mutex_lock(&mutex);
  const char *error = getenv("FAKE_NCCL_ERROR");
  *result = Success;
  if (!comm->hasJoined) {
    comm->hasJoined = comm->group->numJoined == comm->size;
    *result = comm->hasJoined ? Success : InProgress;
  } else if (error && *error) {
    *result = atoi(error);
  }
  for (int i = 0; i < comm->numOperations; ++i) {
    struct operation *operation = &comm->operations[i];
    if (!operation->isDone)
      operation->isDone = is_done(comm, operation);
    if (!operation->isDone)
      *result = InProgress;
  }
  if (*result == Success)
    comm->numOperations = 0;
  pthread_mutex_unlock(&mutex);
  return Success;
}

static int add(struct ncclComm *comm, void *data, size_t bytes, int peer,
               int sends) {
  current = comm;
  pthread_mutex_lock(&mutex);
  struct operation *operation = &comm->operations[comm->numOperations++];
  memset(operation, 0, sizeof(*operation));
  operation->data = data;
  operation->bytes = bytes;
  operation->peer = peer;
  if (sends) {
    int number = comm->group->last[comm->rank][peer]++;
    operation->sent = &comm->group->messages[comm->rank][peer][number % MaxOps];
    operation->sent->data = data;
    operation->sent->bytes = bytes;
    operation->sent->isCopied = 0;
  }
  pthread_mutex_unlock(&mutex);
  return Success;
}

int ncclSend(void *data, size_t count, int type, int peer,
             struct ncclComm *comm, void *stream) {
  (void)type, (void)stream;
  return add(comm, data, count, peer, 1);
}

int ncclRecv(void *data, size_t count, int type, int peer,
             struct ncclComm *comm, void *stream) {
  (void)type, (void)stream;
  return add(comm, data, count, peer, 0);
}

int ncclAllGather(void *send, void *receive, size_t count, int type,
                  struct ncclComm *comm, void *stream) {
  for (int peer = 0; peer < comm->size; ++peer) {
    ncclSend(send, count, type, peer, comm, stream);
    ncclRecv((char *)receive + peer * count, count, type, peer, comm, stream);
  }
  return Success;
}

int ncclReduceScatter(void) { return InvalidUsage; }
int ncclGroupStart(void) { return Success; }
int ncclGroupEnd(void) { return current ? InProgress : Success; }
int ncclCommFinalize(struct ncclComm *comm) {
  (void)comm;
  return Success;
}

static int leave(struct ncclComm *comm) {
  current = NULL;
  free(comm);
  return Success;
}
int ncclCommDestroy(struct ncclComm *comm) { return leave(comm); }
int ncclCommAbort(struct ncclComm *comm) { return leave(comm); }
