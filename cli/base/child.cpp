// SPDX-License-Identifier: Apache-2.0
#include "cli/base/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

extern char** environ;

namespace qkvet::cli {
namespace {

std::string read_to_end(int fd) {
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n > 0)
      text.append(buffer.data(), static_cast<size_t>(n));
    else if (n == 0 || errno != EINTR)
      return text;
  }
}

}  // namespace

std::string start_child(const std::vector<std::string>& words, int output,
                        bool own_group, pid_t* pid) {
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  arguments.reserve(copies.size() + 1);
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  posix_spawn_file_actions_adddup2(&actions, output, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  if (own_group) posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  const int failed = posix_spawn(pid, arguments[0], &actions, &attributes,
                                 arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failed == 0
             ? ""
             : "cannot start " + words[0] + ": " + std::strerror(failed);
}

bool ChildResult::ended_well() const {
  return error.empty() && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string ChildResult::end() const {
  if (WIFSIGNALED(status))
    return "died of signal " + std::to_string(WTERMSIG(status));
  return "ended with " + std::to_string(WEXITSTATUS(status));
}

ChildResult run_child(const std::vector<std::string>& words) {
  ChildResult result;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    result.error = std::string("no pipe: ") + std::strerror(errno);
    return result;
  }
  pid_t pid = -1;
  result.error = start_child(words, ends[1], /*own_group=*/false, &pid);
  close(ends[1]);
  if (result.error.empty()) {
    result.output = read_to_end(ends[0]);
    while (waitpid(pid, &result.status, 0) < 0 && errno == EINTR) {
    }
  }
  close(ends[0]);
  return result;
}

}  // namespace qkvet::cli
