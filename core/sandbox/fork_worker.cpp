// SPDX-License-Identifier: Apache-2.0
#include "core/sandbox/fork_worker.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "core/door/door.h"
#include "core/door/worker_protocol.h"
#include "core/sandbox/worker_spawn.h"

namespace qkvet {
namespace {

// In the order of WorkerDescriptors.
constexpr std::array kPlaces = {kControlFd, kTensorsFd,  kInfoFd, kGoFd,
                                kDoneFd,    kLifelineFd, 1};

using Given = std::array<Descriptor, kPlaces.size()>;

// A fork takes one thread along, and locks that the others held stay shut.
bool has_threads() {
  std::error_code failed;
  const std::filesystem::directory_iterator tasks("/proc/self/task", failed);
  return failed || std::distance(begin(tasks), end(tasks)) != 1;
}

// False where the program has ended.
bool receive(ForkRequest* request, Given* given) {
  iovec part{request, sizeof *request};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int) * kPlaces.size())] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  ssize_t size = -1;
  do {
    size = recvmsg(kForksFd, &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size != sizeof *request) return false;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return true;
  std::array<int, kPlaces.size()> numbers{};
  if (header->cmsg_len != CMSG_LEN(sizeof numbers)) return false;
  std::memcpy(numbers.data(), CMSG_DATA(header), sizeof numbers);
  // Moves descriptors away from numbers where others are to go.
  for (size_t n = 0; n < numbers.size(); ++n)
    (*given)[n] = high_descriptor(numbers[n]);
  return true;
}

void become_worker(const Given& given) {
  setpgid(0, 0);  // which the compilers that it may start are ended with
  for (size_t n = 0; n < kPlaces.size(); ++n) dup2(given[n].get(), kPlaces[n]);
  dup2(1, 2);
}

}  // namespace

bool forked_as_worker(const std::string& library) {
  if (!Door::load_ahead(library) || has_threads()) return false;
  for (ForkRequest request;;) {
    Given given;
    if (!receive(&request, &given)) return false;
    int32_t answer = 0;
    if (request.what == ForkRequest::kReap) {
      while (waitpid(request.worker, &answer, 0) < 0 && errno == EINTR) {
      }
    } else {
      // Flushes output of the library, which would otherwise appear in each
      // worker.
      std::fflush(nullptr);
      answer = fork();
      if (answer == 0) {
        become_worker(given);
        return true;
      }
      setpgid(answer, answer);
    }
    if (send(kForksFd, &answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer)
      return false;
  }
}

}  // namespace qkvet
