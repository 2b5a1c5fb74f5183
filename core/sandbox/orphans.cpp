// SPDX-License-Identifier: Apache-2.0
#include "core/sandbox/orphans.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/base/read_file.h"

namespace qkvet {
namespace {

struct Children {
  std::mutex mutex;  // also held while one is started
  std::set<pid_t> known;
};

Children& children() {
  static Children* const all = new Children;
  return *all;
}

// The children of the main thread, to which orphans are added.
std::vector<pid_t> listed_children() {
  const std::string self = std::to_string(getpid());
  std::string text;
  std::vector<pid_t> pids;
  // No error: systems without this file have no orphans that can be found.
  if (!read_system_file("/proc/self/task/" + self + "/children", &text))
    return pids;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (end > at)
      pids.push_back(static_cast<pid_t>(std::stol(text.substr(at, end - at))));
    at = end + 1;
  }
  return pids;
}

// False of the compilers and programs that this process started otherwise.
bool comes_of_a_worker(pid_t pid) {
  std::string text;
  if (!read_system_file("/proc/" + std::to_string(pid) + "/environ", &text))
    return false;
  return (std::string(1, '\0') + text)
             .find(std::string(1, '\0') + kWorkerVariable + '\0') !=
         std::string::npos;
}

// With the lock held. False: there was none.
bool end_some(const std::set<pid_t>& known) {
  bool found = false;
  for (const pid_t pid : listed_children()) {
    if (known.contains(pid) || !comes_of_a_worker(pid)) continue;
    kill(pid, SIGKILL);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    found = true;
  }
  return found;
}

void end_all(pid_t group, const std::set<pid_t>& known) {
  while (waitpid(-group, nullptr, 0) > 0 || errno == EINTR) {
  }
  // The children of an orphan become ours when it ends.
  constexpr int kMostGenerations = 100;
  for (int n = 0; n < kMostGenerations && end_some(known); ++n) {
  }
}

}  // namespace

void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

pid_t start_child(const std::function<pid_t()>& spawn) {
  adopt_orphans();
  const std::lock_guard lock(children().mutex);
  const pid_t pid = spawn();
  if (pid > 0) children().known.insert(pid);
  return pid;
}

void forget_child(pid_t group) {
  const std::lock_guard lock(children().mutex);
  children().known.erase(group);
  end_all(group, children().known);
}

void end_orphans(pid_t group) {
  const std::lock_guard lock(children().mutex);
  end_all(group, children().known);
}

}  // namespace qkvet
