// SPDX-License-Identifier: Apache-2.0
// Memory between two stretches that nobody may touch.
#ifndef QKVET_CORE_DOOR_GUARDED_H_
#define QKVET_CORE_DOOR_GUARDED_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace qkvet {

int64_t page_bytes();

// Width of each guard. One page would do for the next element; more also names
// the tensor when a whole row is too much.
int64_t guard_bytes();

// What the machine, or the container around this process, can still give.
int64_t available_memory();

// "3.2 GiB"
std::string bytes_text(int64_t bytes);

class GuardedMapping {
 public:
  GuardedMapping() = default;
  GuardedMapping(GuardedMapping&& other) noexcept;
  GuardedMapping& operator=(GuardedMapping&& other) noexcept;
  ~GuardedMapping();

  // `bytes` is a multiple of the page size. Both return a mapping without data
  // if there is no room.
  static GuardedMapping of_file(int fd, int64_t offset, int64_t bytes,
                                bool writable);
  static GuardedMapping private_memory(int64_t bytes);

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  static std::byte* reserve(int64_t bytes);
  void release();

  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_GUARDED_H_
