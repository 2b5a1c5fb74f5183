// SPDX-License-Identifier: Apache-2.0
#include "core/host.h"

#include <algorithm>
#include <cstdio>
#include <system_error>
#include <thread>
#include <vector>

namespace qkvet {
namespace {

void log_line(void*, const char* line) {
  if (line != nullptr) std::fprintf(stderr, "%s\n", line);
}

}  // namespace

Host::Host() {
  table_.struct_size = sizeof table_;
  table_.abi_major = QKVET_ABI_MAJOR;
  table_.abi_minor = QKVET_ABI_MINOR;
  table_.self = this;
  table_.log = log_line;
  table_.parallel_for = parallel_for;
}

// Neighbouring indices stay in one thread. Threads that cannot be made are
// done without: an exception must not pass through the kernel.
void Host::parallel_for(void* self, int64_t count,
                        void (*body)(void* data, int64_t i), void* data) {
  const int64_t allowed = static_cast<Host*>(self)->threads_.load();
  const int64_t parts = std::min(allowed, count);
  if (parts <= 1) {
    for (int64_t i = 0; i < count; ++i) body(data, i);
    return;
  }
  const auto first_of = [=](int64_t part) {
    return count / parts * part + std::min(part, count % parts);
  };
  const auto run = [=](int64_t part) {
    for (int64_t i = first_of(part); i < first_of(part + 1); ++i) body(data, i);
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(parts) - 1);
  int64_t part = 1;
  try {
    for (; part < parts; ++part) threads.emplace_back(run, part);
  } catch (const std::system_error&) {
  }
  run(0);
  for (; part < parts; ++part) run(part);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace qkvet
