// SPDX-License-Identifier: Apache-2.0
#include "cli/kernels/write_new.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace qkvet::cli {
namespace {

namespace fs = std::filesystem;

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

mode_t mode_without_mask(mode_t wanted) {
  const mode_t mask = umask(0);
  umask(mask);
  return wanted & ~mask;
}

constexpr const char* kThere = ": is there already and is not overwritten";

std::string cannot(const std::string& path, int error) {
  return path +
         (error == EEXIST || error == ENOTEMPTY
              ? std::string(kThere)
              : std::string(": cannot be written: ") + std::strerror(error));
}

bool write_plain(const fs::path& path, const std::string& text) {
  std::error_code code;
  fs::create_directories(path.parent_path(), code);
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  return out.good();
}

bool is_there(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0;
}

// Moves `part` to `folder`, and removes the old folder.
int move_folder(const std::string& part, const std::string& folder,
                bool replace) {
  std::error_code code;
  const std::string old = part + ".old";
  const bool moved = replace && std::rename(folder.c_str(), old.c_str()) == 0;
  const int failed = std::rename(part.c_str(), folder.c_str()) == 0 ? 0 : errno;
  if (failed != 0 && moved) std::rename(old.c_str(), folder.c_str());
  if (failed == 0 && moved) fs::remove_all(old, code);
  return failed;
}

}  // namespace

std::string not_new_reason(const std::string& path) {
  if (is_there(path)) return path + kThere;
  fs::path target = fs::path(path).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();
  const fs::path folder = target.parent_path();
  return access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0
             ? ""
             : cannot(path, errno);
}

std::string write_new(const std::string& file, const std::string& text,
                      bool force) {
  std::string part = file + ".XXXXXX";
  const int fd = mkstemp(part.data());
  if (fd < 0) return cannot(file, errno);
  constexpr mode_t kReadable = 0644;
  bool written =
      write_all(fd, text) && fchmod(fd, mode_without_mask(kReadable)) == 0;
  written &= close(fd) == 0;
  int failed = written ? 0 : errno;
  // link() refuses to replace a file.
  if (written && force && std::rename(part.c_str(), file.c_str()) != 0)
    failed = errno;
  if (written && !force && link(part.c_str(), file.c_str()) != 0)
    failed = errno;
  unlink(part.c_str());
  return failed == 0 ? "" : cannot(file, failed);
}

std::string write_new_folder(
    const std::string& folder,
    const std::vector<std::pair<std::string, std::string>>& files, bool force,
    const std::string& mark) {
  std::error_code code;
  const bool there = is_there(folder);
  if (there && !force) return folder + kThere;
  if (there && !fs::exists(fs::path(folder) / mark, code))
    return folder + ": is not replaced: it is no folder with a " + mark;
  std::string part = folder + ".XXXXXX";
  if (mkdtemp(part.data()) == nullptr) return cannot(folder, errno);
  constexpr mode_t kReadable = 0755;
  bool written = chmod(part.c_str(), mode_without_mask(kReadable)) == 0;
  for (const auto& [path, text] : files)
    written = written && write_plain(fs::path(part) / path, text);
  const int unwritten = errno != 0 ? errno : EIO;
  const int failed = written ? move_folder(part, folder, there) : unwritten;
  fs::remove_all(part, code);
  return failed == 0 ? "" : cannot(folder, failed);
}

}  // namespace qkvet::cli
