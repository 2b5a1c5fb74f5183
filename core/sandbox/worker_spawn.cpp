// SPDX-License-Identifier: Apache-2.0
#include "core/sandbox/worker_spawn.h"

#include <fcntl.h>
#include <spawn.h>

#include <csignal>
#include <cstring>
#include <vector>

#include "core/door/worker_protocol.h"
#include "core/sandbox/orphans.h"

extern char** environ;

namespace qkvet {
namespace {

constexpr int kFirstHigh = 64;

class Actions {
 public:
  Actions() { posix_spawn_file_actions_init(&actions_); }
  ~Actions() { posix_spawn_file_actions_destroy(&actions_); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

// Default signals, and a group of its own: an interrupt from the terminal is
// for the program, which then ends its workers itself.
class Attributes {
 public:
  Attributes() {
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK |
                                               POSIX_SPAWN_SETSIGDEF |
                                               POSIX_SPAWN_SETPGROUP);
  }
  ~Attributes() { posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  posix_spawnattr_t* get() { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

// 0, or the number of the error. An interpreter is looked for in $PATH, as a
// shell does; the worker's name has a slash.
int spawned(std::vector<std::string> words, Actions& actions, pid_t* pid) {
  Attributes attributes;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::string mark = kWorkerVariable;
  std::vector<char*> variables = {mark.data()};
  for (char** one = environ; *one != nullptr; ++one) variables.push_back(*one);
  variables.push_back(nullptr);
  int failed = 0;
  *pid = start_child([&] {
    pid_t started = -1;
    failed = posix_spawnp(&started, words[0].c_str(), actions.get(),
                          attributes.get(), arguments.data(), variables.data());
    return failed == 0 ? started : -1;
  });
  return failed;
}

// The command of a worker; `mark` selects its mode.
std::vector<std::string> command_of(const std::string& worker,
                                    const LibrarySpec& library,
                                    const char* mark) {
  std::vector<std::string> words = {worker};
  if (!library.interpreter.empty())
    words = {library.interpreter, "-m", "qkvet.worker"};
  words.insert(words.end(), {mark, library.path, library.config});
  return words;
}

}  // namespace

Descriptor high_descriptor(int fd) {
  const Descriptor low(fd);
  return Descriptor(fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, kFirstHigh));
}

pid_t spawn_worker(const std::string& worker, const LibrarySpec& library,
                   const WorkerDescriptors& from, std::string* error) {
  Actions actions;
  posix_spawn_file_actions_addopen(actions.get(), 0, "/dev/null", O_RDONLY, 0);
  const struct {
    int source;
    int target;
  } moves[] = {{from.output, 1},           {from.output, 2},
               {from.control, kControlFd}, {from.tensors, kTensorsFd},
               {from.info, kInfoFd},       {from.go, kGoFd},
               {from.done, kDoneFd},       {from.lifeline, kLifelineFd}};
  for (const auto& move : moves)
    posix_spawn_file_actions_adddup2(actions.get(), move.source, move.target);
  const auto words = command_of(worker, library, kWorkerMark);
  pid_t pid = -1;
  const int failed = spawned(words, actions, &pid);
  if (failed == 0) return pid;
  *error = "cannot start the worker program " + words[0] + ": " +
           std::strerror(failed);
  return -1;
}

pid_t spawn_fork_server(const std::string& worker, const LibrarySpec& library,
                        int socket) {
  Actions actions;
  posix_spawn_file_actions_addopen(actions.get(), 0, "/dev/null", O_RDWR, 0);
  for (const int output : {1, 2})
    posix_spawn_file_actions_adddup2(actions.get(), 0, output);
  posix_spawn_file_actions_adddup2(actions.get(), socket, kForksFd);
  pid_t pid = -1;
  const int failed =
      spawned(command_of(worker, library, kForksMark), actions, &pid);
  return failed == 0 ? pid : -1;
}

}  // namespace qkvet
