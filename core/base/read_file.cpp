// SPDX-License-Identifier: Apache-2.0
#include "core/base/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <set>
#include <utility>

namespace qkvet {
namespace {

// One file by all its names.
using FileId = std::pair<dev_t, ino_t>;

struct Inputs {
  std::mutex mutex;
  std::set<FileId> files;
};

Inputs& inputs() {
  static Inputs* const all = new Inputs;
  return *all;
}

// "" or why it is not read.
std::string wrong_kind(const struct stat& info) {
  if (S_ISDIR(info.st_mode)) return "is a directory";
  return S_ISREG(info.st_mode) ? "" : "is no regular file";
}

std::string too_large(uint64_t bytes, uint64_t most_bytes) {
  return std::to_string(bytes) + " bytes; at most " +
         std::to_string(most_bytes) + " are read";
}

// A signal that is handled may interrupt a read.
ssize_t read_some(int fd, void* to, size_t size) {
  ssize_t n = -1;
  do {
    n = read(fd, to, size);
  } while (n < 0 && errno == EINTR);
  return n;
}

// Reads to the end: files of /proc have no size, and a file may grow.
template <class Bytes>
std::string read_open_file(int fd, uint64_t size, uint64_t most_bytes,
                           Bytes* content) {
  constexpr uint64_t kLeastStep = 4096;
  if (size > most_bytes) return too_large(size, most_bytes);
  content->resize(size);
  for (size_t have = 0;;) {
    if (have == content->size()) {
      // The end shows only in a read of 0 bytes.
      std::byte next{};
      const ssize_t n = read_some(fd, &next, 1);
      if (n < 0) return "cannot be read";
      if (n == 0) return "";
      if (have == most_bytes) return too_large(most_bytes + 1, most_bytes);
      content->resize(
          std::min(most_bytes, have + std::max<uint64_t>(have, kLeastStep)));
      (*content)[have++] = static_cast<typename Bytes::value_type>(next);
      continue;
    }
    const ssize_t n =
        read_some(fd, content->data() + have, content->size() - have);
    if (n < 0) return "cannot be read";
    have += static_cast<size_t>(n);
    if (n > 0) continue;
    content->resize(have);
    return "";
  }
}

template <class Bytes>
std::string read_regular(const std::string& path, Bytes* content,
                         uint64_t most_bytes) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return "cannot be read";
  if (std::string wrong = wrong_kind(info); !wrong.empty()) return wrong;
  // It may have become a pipe since: no open waits for a writer.
  const int fd =
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return "cannot be read";
  std::string wrong = read_open_file(fd, static_cast<uint64_t>(info.st_size),
                                     most_bytes, content);
  close(fd);
  return wrong;
}

template <class Bytes>
std::string read_input(const std::string& path, Bytes* content,
                       uint64_t most_bytes) {
  const std::string wrong = read_regular(path, content, most_bytes);
  if (wrong.empty()) remember_input(path);
  return wrong.empty() ? "" : path + ": " + wrong;
}

}  // namespace

std::string read_file(const std::string& path, std::string* content,
                      uint64_t most_bytes) {
  return read_input(path, content, most_bytes);
}

std::string read_file(const std::string& path, std::vector<std::byte>* content,
                      uint64_t most_bytes) {
  return read_input(path, content, most_bytes);
}

bool read_system_file(const std::string& path, std::string* content) {
  return read_regular(path, content, kMostTextBytes).empty();
}

std::string not_readable_reason(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0)
    return errno == ENOENT ? "no such file" : "cannot be read";
  if (std::string wrong = wrong_kind(info); !wrong.empty()) return wrong;
  // The effective user opens it; the real one may be another (armour.cpp).
  return eaccess(path.c_str(), R_OK) == 0 ? "" : "cannot be read";
}

void remember_input(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return;
  const std::lock_guard lock(inputs().mutex);
  inputs().files.emplace(info.st_dev, info.st_ino);
}

bool is_input(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return false;
  const std::lock_guard lock(inputs().mutex);
  return inputs().files.contains({info.st_dev, info.st_ino});
}

}  // namespace qkvet
