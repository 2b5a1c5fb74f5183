// SPDX-License-Identifier: Apache-2.0
#include "core/door/guarded.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <utility>

namespace qkvet {
namespace {

constexpr int64_t kGuardPages = 16;

// A mapping of a file is used at once and completely. Up to this size its pages
// are made present with the mapping, which is cheaper than a fault for each
// page.
constexpr int64_t kMostPresent = int64_t{1} << 20;

// The number in a file that holds one; `otherwise` if it does not.
int64_t number_in(const char* path, int64_t otherwise) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : otherwise;
}

int64_t machine_available() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  std::string unit;
  while (file >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    std::getline(file, unit);
  }
  return std::numeric_limits<int64_t>::max();
}

}  // namespace

int64_t page_bytes() {
  static const int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

int64_t guard_bytes() { return kGuardPages * page_bytes(); }

int64_t available_memory() {
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  // In a container the root of the hierarchy is the container's own group.
  const int64_t limit = number_in("/sys/fs/cgroup/memory.max", kNoLimit);
  const int64_t used = number_in("/sys/fs/cgroup/memory.current", 0);
  return std::min(machine_available(),
                  limit == kNoLimit ? limit : limit - used);
}

std::string bytes_text(int64_t bytes) {
  char text[32];
  const auto value = static_cast<double>(bytes);
  if (bytes < 1 << 20)
    std::snprintf(text, sizeof text, "%.1f KiB", value / (1 << 10));
  else if (bytes < 1 << 30)
    std::snprintf(text, sizeof text, "%.1f MiB", value / (1 << 20));
  else
    std::snprintf(text, sizeof text, "%.1f GiB", value / (1 << 30));
  return text;
}

GuardedMapping::GuardedMapping(GuardedMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      guard_(std::exchange(other.guard_, 0)) {}

GuardedMapping& GuardedMapping::operator=(GuardedMapping&& other) noexcept {
  if (this != &other) {
    release();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    guard_ = std::exchange(other.guard_, 0);
  }
  return *this;
}

GuardedMapping::~GuardedMapping() { release(); }

void GuardedMapping::release() {
  if (data_ == nullptr) return;
  munmap(data_ - guard_, static_cast<size_t>(bytes_ + 2 * guard_));
  data_ = nullptr;
}

GuardedMapping GuardedMapping::reserve(int64_t bytes, int64_t guard) {
  GuardedMapping mapping;
  void* memory =
      mmap(nullptr, static_cast<size_t>(bytes + 2 * guard), PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return mapping;
  mapping.data_ = static_cast<std::byte*>(memory) + guard;
  mapping.bytes_ = bytes;
  mapping.guard_ = guard;
  return mapping;
}

GuardedMapping GuardedMapping::of_file(int fd, int64_t offset, int64_t bytes,
                                       bool writable) {
  return of_parts(fd, offset, bytes, 1, 0, guard_bytes(), writable);
}

GuardedMapping GuardedMapping::of_parts(int fd, int64_t offset, int64_t bytes,
                                        int64_t parts, int64_t apart,
                                        int64_t around, bool writable) {
  GuardedMapping mapping = reserve((parts - 1) * apart + bytes, around);
  const int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  const int kind = MAP_SHARED | MAP_FIXED |
                   (bytes * parts <= kMostPresent ? MAP_POPULATE : 0);
  for (int64_t n = 0; n < parts && mapping.data_ != nullptr; ++n)
    if (mmap(mapping.data_ + n * apart, static_cast<size_t>(bytes), access,
             kind, fd, offset + n * bytes) == MAP_FAILED)
      mapping.release();
  return mapping;
}

GuardedMapping GuardedMapping::private_memory(int64_t bytes) {
  GuardedMapping mapping = reserve(bytes, guard_bytes());
  if (mapping.data_ != nullptr &&
      mprotect(mapping.data_, static_cast<size_t>(bytes),
               PROT_READ | PROT_WRITE) != 0)
    mapping.release();
  return mapping;
}

}  // namespace qkvet
