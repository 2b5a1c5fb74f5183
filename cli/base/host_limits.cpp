// SPDX-License-Identifier: Apache-2.0
#include "cli/base/host_limits.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <new>

#include "report/exit_code.h"

namespace qkvet::cli {
namespace {

constexpr rlim_t kUnlimited = RLIM_INFINITY;

struct Limit {
  __rlimit_resource_t resource;
  const char* name;
  const char* option;  // of ulimit
  rlim_t unit;         // bytes that ulimit counts in; 1: things
  rlim_t least;
};
constexpr Limit kLimits[] = {
    // The oracle of the largest calls, and windows between guard pages.
    {RLIMIT_AS, "address space", "-v", 1024, rlim_t{4} << 30},
    {RLIMIT_DATA, "data", "-d", 1024, rlim_t{4} << 30},
    // Less is too little for a kernel's frames, and the kernel would be blamed.
    {RLIMIT_STACK, "stack", "-s", 1024, rlim_t{2} << 20},
    // Shared memory is a file with windows that are far apart.
    {RLIMIT_FSIZE, "file size", "-f", 1024, kUnlimited},
    // Ten for each worker, numbered from 64 on.
    {RLIMIT_NOFILE, "open files", "-n", 1, 128},
};

std::string amount(rlim_t value, const Limit& limit) {
  if (value == kUnlimited) return "unlimited";
  return std::to_string(value / limit.unit) + (limit.unit == 1 ? "" : " KiB");
}

// Runs inside of a failed allocation: nothing here may allocate.
[[noreturn]] void end_without_memory() {
  rlimit limit{};
  std::array<char, 128> text{};
  int size = 0;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != kUnlimited)
    size =
        std::snprintf(text.data(), text.size(),
                      "qkvet: no memory is left; address space: %llu KiB "
                      "(ulimit -v)\n",
                      static_cast<unsigned long long>(limit.rlim_cur / 1024));
  else
    size =
        std::snprintf(text.data(), text.size(), "qkvet: no memory is left\n");
  [[maybe_unused]] const ssize_t n =
      write(STDERR_FILENO, text.data(), static_cast<size_t>(size));
  _exit(kWrongUse);
}

}  // namespace

void prepare_limits() {
  std::set_new_handler(end_without_memory);
  constexpr rlim_t kMostFiles = 65536;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= kMostFiles)
    return;
  files.rlim_cur = std::min(files.rlim_max, kMostFiles);
  setrlimit(RLIMIT_NOFILE, &files);
}

std::string host_obstacle() {
  for (const Limit& limit : kLimits) {
    rlimit now{};
    if (getrlimit(limit.resource, &now) != 0 || now.rlim_cur >= limit.least)
      continue;
    return fmt::format("{}: {} (ulimit {}); kernels are run with {}{}",
                       limit.name, amount(now.rlim_cur, limit), limit.option,
                       limit.least == kUnlimited ? "" : "at least ",
                       amount(limit.least, limit));
  }
  return "";
}

}  // namespace qkvet::cli
