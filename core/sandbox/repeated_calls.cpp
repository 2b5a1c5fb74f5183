// SPDX-License-Identifier: Apache-2.0
#include "core/sandbox/repeated_calls.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <thread>
#include <vector>

namespace qkvet {
namespace {

// Every call of the first ones is followed by a look, then one in so many: a
// look takes as long as some calls.
constexpr int64_t kLookAtEach = 64;
constexpr int64_t kLookEvery = 16;
// A kernel that has leaked this much is not called again: descriptors and
// threads are limited, and a kernel that runs out of them behaves differently.
constexpr int64_t kMuchMemory = int64_t{256} << 20;
constexpr int64_t kManyHandles = 256;
constexpr double kMostSecondsOnTheClock = 2;

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         1e-9 * static_cast<double>(time.tv_nsec);
}

int64_t entries_of(const char* folder) {
  DIR* const open = opendir(folder);
  if (open == nullptr) return 0;
  int64_t entries = 0;
  while (readdir(open) != nullptr) ++entries;
  closedir(open);
  return entries;
}

// Mapped bytes of the whole process, which include those outside of any
// allocator.
int64_t mapped_bytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  long long pages = 0;
  const bool read = std::fscanf(file, "%lld", &pages) == 1;
  std::fclose(file);
  return read ? pages * sysconf(_SC_PAGESIZE) : 0;
}

// Resources of the process after some number of calls.
struct Held {
  int64_t calls = 0;
  int64_t live = 0, mapped = 0, descriptors = 0, threads = 0;
};

class Growth {
 public:
  explicit Growth(int64_t (*live_bytes)()) : live_bytes_(live_bytes) {}

  void look(int64_t calls) {
    Held held{calls, 0, 0, entries_of("/proc/self/fd"),
              entries_of("/proc/self/task")};
    if (live_bytes_ != nullptr) {
      held.live = live_bytes_();
      held.mapped = mapped_bytes();
    }
    looks_.push_back(held);
  }

  bool is_much() const {
    const Held& first = looks_.front();
    const Held& now = looks_.back();
    return now.live - first.live > kMuchMemory ||
           now.mapped - first.mapped > kMuchMemory ||
           now.descriptors - first.descriptors > kManyHandles ||
           now.threads - first.threads > kManyHandles;
  }

  void tell(RepeatedCall& repeated) const {
    constexpr int64_t kLeastCalls = 5;
    const int64_t calls = looks_.back().calls;
    if (calls < kLeastCalls) return;
    repeated.bytes = grown(&Held::live);
    if (repeated.bytes == 0) repeated.bytes = grown(&Held::mapped);
    repeated.descriptors = grown(&Held::descriptors);
    repeated.threads = grown(&Held::threads);
    repeated.grown_in = calls - after(calls / 2).calls;
  }

 private:
  // The last look after at most so many calls.
  const Held& after(int64_t calls) const {
    const auto next = std::upper_bound(
        looks_.begin(), looks_.end(), calls,
        [](int64_t n, const Held& held) { return n < held.calls; });
    return next == looks_.begin() ? *next : *std::prev(next);
  }

  // Growth in the later half of the calls, if each quarter of it holds more
  // than the one before: memory that is allocated once, or up to a bound, has
  // stopped growing by then.
  int64_t grown(int64_t Held::*what) const {
    const int64_t calls = looks_.back().calls;
    const int64_t from = calls / 2;
    const int64_t parts = std::min<int64_t>(4, calls - from);
    for (int64_t part = 0; part < parts; ++part)
      if (after(from + (calls - from) * (part + 1) / parts).*what <=
          after(from + (calls - from) * part / parts).*what)
        return 0;
    return looks_.back().*what - after(from).*what;
  }

  int64_t (*live_bytes_)();
  std::vector<Held> looks_;
};

}  // namespace

void repeat_calls(const KernelInfo& kernel, CallGroup group,
                  const std::function<void(size_t)>& make,
                  int64_t (*live_bytes)()) {
  const int64_t times = group.front().plan->repeats;
  const bool is_steady = !kernel.has_flag(QKVET_FLAG_NONDETERMINISTIC);
  RepeatedCall& repeated = group.front().reply->repeated;
  repeated = {};
  Growth growth(live_bytes);
  std::vector<std::byte> expected;
  const double cpu = cpu_seconds();
  const auto start = std::chrono::steady_clock::now();
  const auto is_time_up = [&] {
    const std::chrono::duration<double> clock =
        std::chrono::steady_clock::now() - start;
    return cpu_seconds() - cpu > kMostSecondsOfRepeats ||
           clock.count() > kMostSecondsOnTheClock;
  };
  for (int64_t n = 1; n <= times; ++n) {
    repeated.made = n;
    clear_outputs(group);
    for (size_t i = 0; i < group.size(); ++i) make(i);
    if (!went_well(group)) return;
    if (is_steady && n == 1) expected = written_by(group);
    if (is_steady && written_by(group) != expected) {
      repeated.first_other = n;
      return;
    }
    if (n > kLookAtEach && n % kLookEvery != 0) continue;
    growth.look(n);
    if (growth.is_much() || is_time_up()) break;
  }
  // Threads that have ended may not be gone yet.
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  growth.look(repeated.made);
  growth.tell(repeated);
}

}  // namespace qkvet
