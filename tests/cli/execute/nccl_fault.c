// Goes between a worker and NCCL (LD_PRELOAD) and makes one call of one rank fail, to see how a run ends.
//
//   PENSTOCK_FAULT=CALL:N:HOW       the N-th call, from 1: connect, send, receive or all-reduce
//   PENSTOCK_FAULT_HOST=penstock-1  of the worker whose NCCL_HOSTID this is, as ranks that share a GPU have one each
//
// HOW: `error` returns ncclInternalError, `lost` returns ncclSystemError, which is what a closed socket gives, and
// `kill` ends the process by SIGKILL. Whichever it is, a line on stderr says so first.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// As in nccl.h, which need not be there.
typedef int Result;
typedef struct {
  char internal[128];
} UniqueId;
enum { kSystemError = 2, kInternalError = 3 };

// Calls so far. A worker's all come from one thread.
enum Call { kConnect, kSend, kReceive, kAllReduce };
static const char* const kNames[] = {"connect", "send", "receive", "all-reduce"};
static int counts[4];

/// 0, or what the call is to return in place of NCCL's own answer.
static Result fault(enum Call call) {
  ++counts[call];
  const char* wanted = getenv("PENSTOCK_FAULT");
  const char* host = getenv("PENSTOCK_FAULT_HOST");
  const char* self = getenv("NCCL_HOSTID");  // the worker sets it after it has started
  if (wanted == NULL || host == NULL || self == NULL || strcmp(host, self) != 0) return 0;
  char name[16], how[16];
  int number = 0;
  if (sscanf(wanted, "%15[^:]:%d:%15s", name, &number, how) != 3) return 0;
  if (strcmp(name, kNames[call]) != 0 || number != counts[call]) return 0;
  fprintf(stderr, "fault: %s of %s\n", wanted, self);
  fflush(stderr);
  if (strcmp(how, "kill") == 0) kill(getpid(), SIGKILL);
  return strcmp(how, "lost") == 0 ? kSystemError : kInternalError;
}

/// NCCL's own: the next in the order of loading, or that of the library, which is loaded by then.
static void* real(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found != NULL) return found;
  void* nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  found = nccl == NULL ? NULL : dlsym(nccl, name);
  if (found != NULL) return found;
  fprintf(stderr, "fault: there is no %s\n", name);
  abort();
}

Result ncclCommInitRankConfig(void** comm, int size, UniqueId id, int rank, void* config) {
  const Result failed = fault(kConnect);
  if (failed != 0) return failed;
  Result (*call)(void**, int, UniqueId, int, void*) = real("ncclCommInitRankConfig");
  return call(comm, size, id, rank, config);
}

Result ncclSend(const void* data, size_t count, int type, int peer, void* comm, void* stream) {
  const Result failed = fault(kSend);
  if (failed != 0) return failed;
  Result (*call)(const void*, size_t, int, int, void*, void*) = real("ncclSend");
  return call(data, count, type, peer, comm, stream);
}

Result ncclRecv(void* data, size_t count, int type, int peer, void* comm, void* stream) {
  const Result failed = fault(kReceive);
  if (failed != 0) return failed;
  Result (*call)(void*, size_t, int, int, void*, void*) = real("ncclRecv");
  return call(data, count, type, peer, comm, stream);
}

Result ncclAllReduce(const void* from, void* to, size_t count, int type, int operation, void* comm,
                     void* stream) {
  const Result failed = fault(kAllReduce);
  if (failed != 0) return failed;
  Result (*call)(const void*, void*, size_t, int, int, void*, void*) = real("ncclAllReduce");
  return call(from, to, count, type, operation, comm, stream);
}
