// SPDX-License-Identifier: Apache-2.0
#include "report/written_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/base/read_file.h"

namespace qkvet::report {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNotInFull = ": cannot be written in full";

// The number of bytes that were written.
size_t write_all(int fd, std::string_view text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

int open_to_write(const std::string& path) {
  constexpr mode_t kReadable = 0666;  // without umask
  return open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY,
              kReadable);
}

// A device, a pipe, or an open file without a name (/dev/fd/3): it is written
// in place, because another file cannot replace it.
bool is_stream(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 &&
         (!S_ISREG(status.st_mode) || status.st_nlink == 0);
}

std::string forbidden(const std::string& path) {
  std::error_code code;
  if (fs::is_directory(path, code)) return path + ": is a folder";
  if (is_input(path))
    return path +
           ": is read by this command, which would replace it; name "
           "another file";
  return "";
}

// Next to the file that it becomes, which a link may lead to.
struct Temporary {
  std::string target, lead, path;

  explicit Temporary(const std::string& of) {
    std::error_code code;
    const fs::path real = fs::canonical(of, code);
    const fs::path place = code ? fs::path(of) : real;
    target = place.string();
    lead = "." + place.filename().string() + ".qkvet-";
    path = (place.parent_path() / (lead + std::to_string(getpid()))).string();
  }

  // A killed process leaves its file.
  void remove_leftovers() const {
    std::error_code code;
    const fs::path folder = fs::path(path).parent_path();
    for (const auto& entry :
         fs::directory_iterator(folder.empty() ? "." : folder, code)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with(lead)) continue;
      pid_t pid = 0;
      const char* const end = name.data() + name.size();
      const auto read = std::from_chars(name.data() + lead.size(), end, pid);
      if (read.ptr == end && pid > 0 && kill(pid, 0) != 0 && errno == ESRCH)
        unlink(entry.path().c_str());
    }
  }
};

}  // namespace

std::string not_writable_reason(const std::string& path) {
  if (std::string why = forbidden(path); !why.empty()) return why;
  if (is_stream(path))
    return access(path.c_str(), W_OK) == 0 ? "" : path + ": cannot be written";
  const Temporary temporary(path);
  temporary.remove_leftovers();
  const int fd = open_to_write(temporary.path);
  if (fd < 0) return path + ": cannot be written";
  close(fd);
  unlink(temporary.path.c_str());
  return "";
}

std::string write_file(const std::string& path, const std::string& content) {
  const bool in_place = is_stream(path);
  const Temporary temporary(path);
  const std::string& to = in_place ? path : temporary.path;
  const int fd = open_to_write(to);
  if (fd < 0) return path + ": cannot be written";
  const bool written = write_all(fd, content) == content.size();
  const bool closed = close(fd) == 0;
  const bool whole =
      written && closed &&
      (in_place || std::rename(to.c_str(), temporary.target.c_str()) == 0);
  if (!whole && !in_place) unlink(to.c_str());
  return whole ? "" : path + kNotInFull;
}

ScratchFolder::ScratchFolder(const std::string& lead) {
  const fs::path pattern = lead + "-XXXXXX";
  std::error_code code;
  for (const auto& entry :
       fs::directory_iterator(pattern.parent_path(), code)) {
    const std::string name = entry.path().filename().string();
    if (name.size() != pattern.filename().string().size() ||
        !name.starts_with(fs::path(lead).filename().string() + "-"))
      continue;
    // Its process holds a lock until it ends.
    const int fd = open(entry.path().c_str(),
                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) fs::remove_all(entry.path(), code);
    close(fd);
  }
  std::string name = pattern.string();
  if (mkdtemp(name.data()) == nullptr) return;
  path_ = name;
  const int held = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (held >= 0) flock(held, LOCK_EX | LOCK_NB);  // open until the process ends
}

ScratchFolder::~ScratchFolder() {
  std::error_code code;
  if (!path_.empty() && !kept_) fs::remove_all(path_, code);
}

GrowingFile::~GrowingFile() {
  if (fd_ >= 0) close(fd_);
}

std::string GrowingFile::open(const std::string& path) {
  if (std::string why = forbidden(path); !why.empty()) return why;
  path_ = path;
  fd_ = open_to_write(path);
  if (fd_ < 0) return path + ": cannot be written";
  if (is_stream(path)) return "";
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return path + ": another run writes this file";
  return ftruncate(fd_, 0) == 0 ? "" : path + ": cannot be written";
}

std::string GrowingFile::add(std::string_view lines) {
  if (fd_ < 0 || !error_.empty()) return error_;
  const size_t written = write_all(fd_, lines);
  const size_t end = lines.substr(0, written).rfind('\n');
  const size_t whole = end == std::string_view::npos ? 0 : end + 1;
  size_ += static_cast<int64_t>(whole);
  if (written == lines.size()) return "";
  // Half a line would corrupt the file; on a device there is nothing to cut.
  [[maybe_unused]] const int cut = ftruncate(fd_, size_);
  error_ = path_ + kNotInFull;
  return error_;
}

}  // namespace qkvet::report
