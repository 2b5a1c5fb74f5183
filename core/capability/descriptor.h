// SPDX-License-Identifier: Apache-2.0
// A file descriptor with an owner.
#ifndef QKVET_CORE_CAPABILITY_DESCRIPTOR_H_
#define QKVET_CORE_CAPABILITY_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace qkvet {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Descriptor() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

}  // namespace qkvet

#endif  // QKVET_CORE_CAPABILITY_DESCRIPTOR_H_
