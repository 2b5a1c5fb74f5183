// SPDX-License-Identifier: Apache-2.0
// The program in which kernels run.
#include <cstdio>
#include <cstring>

#include "core/door/worker_protocol.h"
#include "core/sandbox/armour.h"
#include "core/sandbox/fork_worker.h"
#include "core/sandbox/guarded_heap.h"
#include "core/sandbox/worker.h"

int main(int argc, char** argv) {
  qkvet::enter_armour_if_asked();
  const bool forks = argc == 4 && std::strcmp(argv[1], qkvet::kForksMark) == 0;
  if (forks && !qkvet::forked_as_worker(argv[2])) return 0;
  if (argc != 4 || !(forks || std::strcmp(argv[1], qkvet::kWorkerMark) == 0) ||
      !qkvet::has_worker_descriptors()) {
    std::fprintf(stderr,
                 "qkvet-worker: runs kernels for qkvet, which starts it "
                 "itself; there is nothing to do by hand\n");
    return qkvet::kUsageExit;
  }
  qkvet::begin_worker();
  return qkvet::serve_library({argv[2], argv[3]}, qkvet::kernel_heap());
}
