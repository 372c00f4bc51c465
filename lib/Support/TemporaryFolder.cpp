//===- TemporaryFolder.cpp - Temporary files of a process -----------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A process locks a file in its temporary folder for as long as it runs. The
// kernel releases the lock however the process ends, so that later processes
// find out which folders nobody uses.
//
//===----------------------------------------------------------------------===//

#include "attn/Support/TemporaryFolder.h"

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace mlir;

static constexpr char folderPrefix[] = "attn-";
static constexpr size_t randomLength = 6;
static constexpr char lockName[] = "attn.lock";

//===----------------------------------------------------------------------===//
// Removing folders
//===----------------------------------------------------------------------===//

/// Removes the files of a folder, except for the lock. Async-signal-safe.
static void removeFiles(int folder) {
  // The layout of the kernel. `readdir` allocates memory.
  struct Entry {
    uint64_t inode;
    int64_t offset;
    unsigned short size;
    unsigned char type;
    char name[1];
  };
  alignas(Entry) char entries[4096];
  lseek(folder, 0, SEEK_SET);
  while (true) {
    long size = syscall(SYS_getdents64, folder, entries, sizeof(entries));
    if (size <= 0)
      return;
    for (long at = 0; at < size;) {
      auto *entry = reinterpret_cast<Entry *>(entries + at);
      at += entry->size;
      if (strcmp(entry->name, lockName) != 0)
        unlinkat(folder, entry->name, 0);
    }
  }
}

/// Whether `descriptor` is a file or folder of this user that is still there,
/// of kind `kind`, and nobody else can write to it.
static bool isOwn(int descriptor, mode_t kind) {
  struct stat status;
  return fstat(descriptor, &status) == 0 && (status.st_mode & S_IFMT) == kind &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
         status.st_uid == geteuid() && status.st_nlink > 0;
}

/// Removes folder `name` of `parent` if it is the temporary folder of a process
/// of this user that has ended. Links are not followed.
static void removeIfAbandoned(int parent, const char *name) {
  int folder =
      openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0)
    return;
  if (isOwn(folder, S_IFDIR)) {
    int lock =
        openat(folder, lockName, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (lock >= 0) {
      if (isOwn(lock, S_IFREG) && flock(lock, LOCK_EX | LOCK_NB) == 0) {
        removeFiles(folder);
        unlinkat(folder, lockName, 0);
        unlinkat(parent, name, AT_REMOVEDIR);
      }
      close(lock);
    }
  }
  close(folder);
}

/// Removes the temporary folders in `path` of processes that have ended.
static void removeAbandonedFolders(const char *path) {
  DIR *directory = opendir(path);
  if (!directory)
    return;
  while (struct dirent *entry = readdir(directory))
    if (strncmp(entry->d_name, folderPrefix, strlen(folderPrefix)) == 0 &&
        strlen(entry->d_name) == strlen(folderPrefix) + randomLength)
      removeIfAbandoned(dirfd(directory), entry->d_name);
  closedir(directory);
}

//===----------------------------------------------------------------------===//
// The folder of this process
//===----------------------------------------------------------------------===//

namespace {
/// The folder of this process. Signal handlers read it.
struct Folder {
  char path[PATH_MAX];
  int descriptor;
  int lock;
  unsigned numFiles;
};
} // namespace

static std::mutex mutex;
static Folder folder;
/// The process that `folder` belongs to, or 0. A forked child has none.
static std::atomic<pid_t> owner{0};

/// Removes the folder of this process. Async-signal-safe.
static void removeFolder() {
  pid_t self = getpid();
  if (!owner.compare_exchange_strong(self, 0))
    return;
  removeFiles(folder.descriptor);
  unlinkat(folder.descriptor, lockName, 0);
  rmdir(folder.path);
}

namespace {
struct RemoveAtExit {
  ~RemoveAtExit() { removeFolder(); }
};
} // namespace

/// Whether the open file `descriptor` still has a name.
static bool hasName(int descriptor) {
  struct stat status;
  return fstat(descriptor, &status) == 0 && status.st_nlink > 0;
}

/// Creates `folder` in `parent`, or returns the reason why it could not be.
static std::string createFolder(const std::string &parent) {
  auto fail = [&] {
    return "could not create a temporary folder in '" + parent +
           "': " + strerror(errno);
  };
  std::unique_ptr<char, decltype(&free)> resolved(
      realpath(parent.c_str(), nullptr), &free);
  if (!resolved)
    return fail();
  removeAbandonedFolders(resolved.get());
  while (true) {
    std::string path = std::string(resolved.get()) + "/" + folderPrefix +
                       std::string(randomLength, 'X');
    if (path.size() >= sizeof(folder.path)) {
      errno = ENAMETOOLONG;
      return fail();
    }
    if (!mkdtemp(&path[0]))
      return fail();
    folder.descriptor =
        open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    folder.lock = openat(folder.descriptor, lockName,
                         O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                         S_IRUSR | S_IWUSR);
    if (folder.descriptor < 0 || folder.lock < 0) {
      std::string message = fail();
      rmdir(path.c_str());
      return message;
    }
    // Where locks are not supported, nobody takes one and removes the folder.
    bool isTaken = flock(folder.lock, LOCK_EX | LOCK_NB) != 0 &&
                   (errno == EWOULDBLOCK || errno == EINTR);
    if (!isTaken && hasName(folder.lock)) {
      memcpy(folder.path, path.c_str(), path.size() + 1);
      return "";
    }
    // Another process has locked the file first, and removes the folder.
    close(folder.lock);
    close(folder.descriptor);
  }
}

/// Makes sure that there is a folder; the lock is held.
static std::string ensureFolder() {
  static RemoveAtExit removeAtExit;
  pid_t previous = owner;
  // Long-running processes may lose their folder to a cleaner of `TMPDIR`.
  if (previous == getpid() && hasName(folder.lock))
    return "";
  owner = 0;
  if (previous != 0) {
    // The parent still holds the lock if this process is a forked child.
    close(folder.lock);
    close(folder.descriptor);
  }
  const char *variable = getenv("TMPDIR");
  folder.numFiles = 0;
  std::string error = createFolder(variable && *variable ? variable : "/tmp");
  if (error.empty())
    owner = getpid();
  return error;
}

attn::TemporaryPath attn::getTemporaryFolder() {
  std::lock_guard<std::mutex> guard(mutex);
  std::string error = ensureFolder();
  if (!error.empty())
    return {"", error};
  return {folder.path, ""};
}

attn::TemporaryPath attn::createTemporaryFile(const std::string &extension) {
  std::lock_guard<std::mutex> guard(mutex);
  std::string error = ensureFolder();
  if (!error.empty())
    return {"", error};
  std::string name = std::to_string(folder.numFiles++) + "." + extension;
  std::string path = std::string(folder.path) + "/" + name;
  int file = openat(folder.descriptor, name.c_str(),
                    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0)
    return {"", "could not create the temporary file '" + path +
                    "': " + strerror(errno)};
  close(file);
  return {path, ""};
}

//===----------------------------------------------------------------------===//
// Signals
//===----------------------------------------------------------------------===//

static constexpr int signals[] = {SIGHUP,  SIGINT, SIGTERM, SIGQUIT, SIGABRT,
                                  SIGSEGV, SIGBUS, SIGFPE,  SIGILL};
static constexpr size_t numSignals = sizeof(signals) / sizeof(signals[0]);
static struct sigaction previousActions[numSignals];

/// Removes the folder, and leaves the rest to the previous handler.
static void handleSignal(int signal) {
  int error = errno;
  removeFolder();
  for (size_t i = 0; i < numSignals; ++i)
    if (signals[i] == signal)
      sigaction(signal, &previousActions[i], nullptr);
  raise(signal);
  errno = error;
}

void attn::removeTemporaryFolderOnSignals() {
  for (size_t i = 0; i < numSignals; ++i) {
    sigaction(signals[i], nullptr, &previousActions[i]);
    if (previousActions[i].sa_handler == SIG_IGN)
      continue;
    struct sigaction action = {};
    action.sa_handler = handleSignal;
    action.sa_flags = SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(signals[i], &action, nullptr);
  }
}
