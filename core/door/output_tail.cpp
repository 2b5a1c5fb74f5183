// SPDX-License-Identifier: Apache-2.0
#include "core/door/output_tail.h"

#include <unistd.h>

#include <cerrno>

namespace qkvet {
namespace {

constexpr size_t kMostBytes = 2048;
constexpr int kMostLines = 10;

// One look takes at most this much, so that a kernel that prints without end
// cannot keep its watcher from looking at the clock.
constexpr int kMostReads = 64;

}  // namespace

bool OutputTail::drain(int fd) {
  char buffer[4096];
  for (int i = 0; i < kMostReads; ++i) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n > 0)
      append({buffer, static_cast<size_t>(n)});
    else
      return n < 0 && (errno == EAGAIN || errno == EINTR);
  }
  return true;
}

void OutputTail::append(std::string_view bytes) {
  kept_ += bytes;
  if (kept_.size() > 2 * kMostBytes) kept_.erase(0, kept_.size() - kMostBytes);
}

std::string OutputTail::text() const {
  std::string_view tail = kept_;
  while (!tail.empty() && tail.back() == '\n') tail.remove_suffix(1);
  if (tail.size() > kMostBytes) tail.remove_prefix(tail.size() - kMostBytes);
  size_t begin = tail.size();
  for (int line = 0; line < kMostLines && begin > 0; ++line) {
    const size_t mark = tail.rfind('\n', begin - 1);
    begin = mark == std::string_view::npos ? 0 : mark;
  }
  if (begin > 0) ++begin;
  std::string text(tail.substr(begin));
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < ' ' && c != '\n' && c != '\t') || byte == 0x7f) c = '?';
  }
  return text;
}

}  // namespace qkvet
