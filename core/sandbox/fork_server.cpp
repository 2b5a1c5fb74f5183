// SPDX-License-Identifier: Apache-2.0
// The other ends are fork_worker.cpp and, of interpreters,
// python/qkvet/_forks.py.
#include "core/sandbox/fork_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <tuple>

#include "core/sandbox/orphans.h"

namespace qkvet {
namespace {

// For loading: CPU time, and time on the clock without any.
constexpr double kMostSeconds = 20;
constexpr int kMostIdleMilliseconds = 30'000;
constexpr int kTickMilliseconds = 100;

// A callable may end its server, which is then started again: in vain so often
// at most, once it has forked.
constexpr int kMostStarts = 8;

constexpr size_t kDescriptors = sizeof(WorkerDescriptors) / sizeof(int);

}  // namespace

ForkServer::~ForkServer() { stop(); }

void ForkServer::stop() {
  socket_.reset();
  if (pid_ <= 0) return;
  kill(-pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  forget_child(pid_);
  pid_ = -1;
}

// The first server of an interpreter may be another process's child, which has
// started before: $QKVET_FORK_SERVER is the end of its socket that this process
// inherits, and its id.
bool ForkServer::take_given() {
  static std::atomic_flag taken;
  const char* const given = std::getenv("QKVET_FORK_SERVER");
  int socket = -1;
  if (given == nullptr || taken.test_and_set() ||
      std::sscanf(given, "%d:%d", &socket, &pid_) != 2)
    return false;
  socket_ = high_descriptor(socket);
  return socket_.valid();
}

bool ForkServer::start(const std::string& program, const LibrarySpec& library) {
  if (!library.interpreter.empty() && take_given()) return true;
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return false;
  socket_ = high_descriptor(ends[0]);
  const Descriptor other = high_descriptor(ends[1]);
  if (!socket_.valid() || !other.valid()) return false;
  pid_ = spawn_fork_server(program, library, other.get());
  return pid_ > 0;
}

bool ForkServer::has_answered() const {
  clockid_t clock{};
  const bool is_timed = clock_getcpuclockid(pid_, &clock) == 0;
  const auto seconds = [&] {
    timespec time{};
    if (!is_timed || clock_gettime(clock, &time) != 0) return 0.0;
    return static_cast<double>(time.tv_sec) +
           1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double begun = seconds();
  double last = begun;
  for (int idle = 0; idle <= kMostIdleMilliseconds;) {
    pollfd polled{socket_.get(), POLLIN, 0};
    const int ready = poll(&polled, 1, kTickMilliseconds);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    const double now = seconds();
    if (now - begun > kMostSeconds) return false;
    idle = now > last ? 0 : idle + kTickMilliseconds;
    last = now;
  }
  return false;
}

bool ForkServer::ask(const ForkRequest& request, const WorkerDescriptors* from,
                     int32_t* answer) {
  ForkRequest sent = request;
  iovec part{&sent, sizeof sent};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int) * kDescriptors)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (from != nullptr) {
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * kDescriptors);
    std::memcpy(CMSG_DATA(header), from, sizeof(int) * kDescriptors);
  }
  if (sendmsg(socket_.get(), &message, MSG_NOSIGNAL) != sizeof sent)
    return false;
  return has_answered() &&
         recv(socket_.get(), answer, sizeof *answer, 0) == sizeof *answer;
}

bool ForkServer::forks(const std::string& program, const LibrarySpec& library,
                       const WorkerDescriptors& from, int32_t* worker) {
  return (pid_ > 0 || start(program, library)) &&
         ask({ForkRequest::kFork}, &from, worker) && *worker > 0;
}

pid_t ForkServer::fork_worker(const std::string& program,
                              const LibrarySpec& library,
                              const WorkerDescriptors& from) {
  const std::lock_guard lock(mutex_);
  while (worth_ > 0) {
    int32_t worker = -1;
    if (forks(program, library, from, &worker)) {
      worth_ = kMostStarts;
      return worker;
    }
    --worth_;
    stop();
  }
  return -1;
}

// The worker is a zombie until then, so that its id is not given to another
// process. If the server has ended, its workers are children of this process
// (orphans.h).
int ForkServer::reap(pid_t worker) {
  const std::lock_guard lock(mutex_);
  int32_t status = 0;
  if (pid_ > 0 && ask({ForkRequest::kReap, worker}, nullptr, &status))
    return status;
  while (waitpid(worker, &status, 0) < 0 && errno == EINTR) {
  }
  stop();
  return status;
}

std::shared_ptr<ForkServer> fork_server_of(const LibrarySpec& library) {
  if (library.interpreter.empty()) return std::make_shared<ForkServer>();
  static std::mutex mutex;
  static std::map<std::tuple<std::string, std::string, std::string>,
                  std::shared_ptr<ForkServer>>
      servers;
  const std::lock_guard lock(mutex);
  std::shared_ptr<ForkServer>& server =
      servers[{library.interpreter, library.path, library.config}];
  if (server == nullptr) server = std::make_shared<ForkServer>();
  return server;
}

}  // namespace qkvet
