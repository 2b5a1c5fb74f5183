// SPDX-License-Identifier: Apache-2.0
// Memory between two inaccessible ranges.
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

// The memory that is still available on the machine, or in the container around
// this process.
int64_t available_memory();

// "3.2 GiB"
std::string bytes_text(int64_t bytes);

class GuardedMapping {
 public:
  GuardedMapping() = default;
  GuardedMapping(GuardedMapping&& other) noexcept;
  GuardedMapping& operator=(GuardedMapping&& other) noexcept;
  ~GuardedMapping();

  // `bytes` is a multiple of the page size. All return a mapping without data
  // if there is no room.
  static GuardedMapping of_file(int fd, int64_t offset, int64_t bytes,
                                bool writable);
  // `parts` of `bytes` each, adjacent in the file and `apart` bytes from one to
  // the next here. The memory between them, and `around` bytes on either side,
  // is inaccessible.
  static GuardedMapping of_parts(int fd, int64_t offset, int64_t bytes,
                                 int64_t parts, int64_t apart, int64_t around,
                                 bool writable);
  static GuardedMapping private_memory(int64_t bytes);

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  // Data that is still inaccessible.
  static GuardedMapping reserve(int64_t bytes, int64_t guard);
  void release();

  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t guard_ = 0;  // bytes on either side
};

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_GUARDED_H_
