// SPDX-License-Identifier: Apache-2.0
// The other ends are fork_worker.cpp and, of interpreters,
// python/qkvet/_forks.py.
#include "core/sandbox/fork_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/sandbox/orphans.h"

namespace qkvet {
namespace {

// For loading, on the clock of a machine that may be busy otherwise: the first
// worker has shown that it ends.
constexpr int kMostMilliseconds = 600'000;

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

bool ForkServer::start(const std::string& program, const LibrarySpec& library) {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return false;
  socket_ = high_descriptor(ends[0]);
  const Descriptor other = high_descriptor(ends[1]);
  if (!socket_.valid() || !other.valid()) return false;
  pid_ = spawn_fork_server(program, library, other.get());
  return pid_ > 0;
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
  pollfd polled{socket_.get(), POLLIN, 0};
  int ready = 0;
  do {
    ready = poll(&polled, 1, kMostMilliseconds);
  } while (ready < 0 && errno == EINTR);
  return ready > 0 &&
         recv(socket_.get(), answer, sizeof *answer, 0) == sizeof *answer;
}

pid_t ForkServer::fork_worker(const std::string& program,
                              const LibrarySpec& library,
                              const WorkerDescriptors& from) {
  if (useless_) return -1;
  int32_t worker = -1;
  if ((pid_ > 0 || start(program, library)) &&
      ask({ForkRequest::kFork}, &from, &worker) && worker > 0)
    return worker;
  useless_ = true;
  stop();
  return -1;
}

// Until then the process is a zombie, so that its id is nobody else's.
int ForkServer::reap(pid_t worker) {
  int32_t status = 0;
  if (pid_ <= 0 || !ask({ForkRequest::kReap, worker}, nullptr, &status)) {
    useless_ = true;
    stop();
    return 0;
  }
  return status;
}

}  // namespace qkvet
