// SPDX-License-Identifier: Apache-2.0
#include "fuzz/hunt/progress.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace qkvet::fuzz {
namespace {

void unmap(HuntProgress* progress) { munmap(progress, sizeof(HuntProgress)); }

}  // namespace

SharedProgress open_progress(const std::string& path, bool create,
                             std::string* error) {
  SharedProgress none(nullptr, unmap);
  const int flags = O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_TRUNC : 0);
  const int fd = open(path.c_str(), flags, 0600);
  if (fd < 0 || (create && ftruncate(fd, sizeof(HuntProgress)) != 0)) {
    *error = path + ": " + std::strerror(errno);
    if (fd >= 0) close(fd);
    return none;
  }
  void* memory = mmap(nullptr, sizeof(HuntProgress), PROT_READ | PROT_WRITE,
                      MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) {
    *error = path + ": " + std::strerror(errno);
    return none;
  }
  // A file of zeros is such a struct: its fields are lock-free numbers.
  static_assert(std::atomic<int64_t>::is_always_lock_free);
  auto* progress = static_cast<HuntProgress*>(memory);
  if (create) progress->kernel = -1;
  return {progress, unmap};
}

}  // namespace qkvet::fuzz
