// SPDX-License-Identifier: Apache-2.0
#include "golden/format/folder_swap.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace qkvet::golden {
namespace {

namespace fs = std::filesystem;

std::string problem(const std::string& path, const char* what) {
  return path + ": " + what + ": " +
         std::error_code(errno, std::generic_category()).message();
}

// Written, and on the disk before anybody can be led to it.
std::string write_one(const fs::path& path,
                      const std::vector<std::byte>& content) {
  const int file =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return problem(path.string(), "cannot be written");
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = write(file, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  const bool whole = done == content.size() && fsync(file) == 0;
  const std::string wrong =
      whole ? "" : problem(path.string(), "cannot be written in full");
  close(file);
  return wrong;
}

// Allows one writer at a time in a folder: the unfinished folder of another
// writer would look like a leftover. A write takes moments; a process that
// holds the folder for longer is no writer of ours.
class Turn {
 public:
  explicit Turn(const std::string& parent)
      : file_(open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    constexpr int kTries = 2000;
    constexpr useconds_t kPause = 10000;  // 20 s in all, where there are locks
    int tries = 0;
    while (file_ >= 0 && flock(file_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK || ++tries == kTries) break;
      usleep(kPause);
    }
    if (file_ < 0)
      error_ = problem(parent, "cannot be opened");
    else if (tries == kTries)
      error_ = parent + ": another process holds this folder";
  }
  ~Turn() {
    if (file_ >= 0) close(file_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  const std::string& error() const { return error_; }

 private:
  int file_;
  std::string error_;
};

// Removes folders of killed processes.
void remove_leftovers(const fs::path& parent, const std::string& prefix) {
  std::error_code code;
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(parent, code))
    if (entry.path().filename().string().starts_with(prefix))
      old.push_back(entry.path());
  for (const fs::path& path : old) fs::remove_all(path, code);
}

// Swaps the two folders in one step, so that nothing is lost. Linux has this
// for folders; on a file system without it, nothing is changed.
std::string exchange(const fs::path& fresh, const fs::path& target,
                     bool replace) {
  const unsigned how = replace ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  if (renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, target.c_str(), how) == 0)
    return "";
  return problem(target.string(), replace
                                      ? "cannot be replaced in one step here"
                                      : "cannot be made");
}

}  // namespace

std::string write_folder(const std::string& path, const FolderFiles& files,
                         bool replace) {
  fs::path target = fs::path(path).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();
  const fs::path parent =
      target.has_parent_path() ? target.parent_path() : fs::path(".");
  const std::string prefix = "." + target.filename().string() + ".qkvet-";
  const Turn turn(parent.string());
  if (!turn.error().empty()) return turn.error();
  remove_leftovers(parent, prefix);
  std::string fresh = (parent / (prefix + "XXXXXX")).string();
  if (mkdtemp(fresh.data()) == nullptr)
    return problem(parent.string(), "no folder can be made there");
  std::string wrong;
  for (const auto& [name, content] : files)
    if (wrong.empty()) wrong = write_one(fs::path(fresh) / name, content);
  std::error_code code;
  fs::permissions(fresh, fs::perms(0755), code);
  if (wrong.empty()) wrong = exchange(fresh, target, replace);
  // The new folder if something went wrong, else the old one.
  fs::remove_all(fresh, code);
  return wrong;
}

}  // namespace qkvet::golden
