// SPDX-License-Identifier: Apache-2.0
#include "core/sandbox/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>

#include "core/base/read_file.h"
#include "core/door/guarded.h"
#include "core/sandbox/orphans.h"
#include "core/sandbox/worker_spawn.h"

namespace qkvet {
namespace {

using Clock = std::chrono::steady_clock;

// How often a busy worker is looked at.
constexpr int kTickMilliseconds = 10;

// Less CPU time than this part of the time on the clock is no progress: a loop
// that sleeps does not count as work.
constexpr double kProgressShare = 1e-3;

// For a polite end; then it is killed.
constexpr int kGoodbyeMilliseconds = 500;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string system_error(const char* what) {
  return std::string(what) + ": " + std::strerror(errno);
}

}  // namespace

struct WorkerProcess::Watch {
  uint64_t step = 0;  // slot and phase
  double step_cpu = 0;
  double progress_cpu = 0;
  double last_cpu = -1;  // at the last look
  int stopped = 0;       // looks in a row
  Clock::time_point progress_time = Clock::now();
  Clock::time_point last_look = Clock::now();
};

WorkerProcess::WorkerProcess(const LibrarySpec& library,
                             const SandboxOptions& options)
    : library_(library), options_(options), forks_(fork_server_of(library)) {}

WorkerProcess::~WorkerProcess() {
  stop();
  if (control_ != nullptr) munmap(control_, sizeof(Control));
}

bool WorkerProcess::prepare(std::string* error) {
  control_fd_ = high_descriptor(memfd_create("qkvet-control", MFD_CLOEXEC));
  if (!control_fd_.valid() || ftruncate(control_fd_.get(), sizeof(Control))) {
    *error = system_error("no shared memory");
    return false;
  }
  void* memory = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE,
                      MAP_SHARED, control_fd_.get(), 0);
  if (memory == MAP_FAILED) {
    *error = system_error("no shared memory");
    return false;
  }
  // Fresh pages of the file are zero, and zero is a valid state of every field.
  control_ = static_cast<Control*>(memory);
  return true;
}

bool WorkerProcess::make_channels(int tensors_fd, std::string* error) {
  int lifeline[2] = {-1, -1};
  int output[2] = {-1, -1};
  const bool pipes =
      pipe2(lifeline, O_CLOEXEC) == 0 && pipe2(output, O_CLOEXEC) == 0;
  tensors_ = high_descriptor(fcntl(tensors_fd, F_DUPFD_CLOEXEC, 0));
  info_ = high_descriptor(memfd_create("qkvet-info", MFD_CLOEXEC));
  go_ = high_descriptor(eventfd(0, EFD_CLOEXEC));
  done_ = high_descriptor(eventfd(0, EFD_CLOEXEC));
  lifeline_end_ = high_descriptor(lifeline[0]);
  lifeline_ = high_descriptor(lifeline[1]);
  output_ = high_descriptor(output[0]);
  output_end_ = high_descriptor(output[1]);
  if (pipes && tensors_.valid() && info_.valid() && go_.valid() &&
      done_.valid() && output_end_.valid() &&
      fcntl(output_.get(), F_SETFL, O_NONBLOCK) == 0)
    return true;
  *error = system_error("no descriptors for a worker");
  return false;
}

bool WorkerProcess::start(int tensors_fd, std::string* error) {
  stop();
  if (!make_channels(tensors_fd, error)) return false;
  control_->layout = kControlLayout;
  control_->load_state = static_cast<uint32_t>(LoadState::kLoading);
  control_->current = -1;
  control_->crash.signal = 0;
  control_->crash.stack_overflow = 0;
  control_->crash.heap = {};
  control_->crash.forked = 0;
  wait_status_ = 0;
  tail_.clear();
  const WorkerDescriptors descriptors = {
      control_fd_.get(), tensors_.get(),      info_.get(),      go_.get(),
      done_.get(),       lifeline_end_.get(), output_end_.get()};
  // A case that ends one worker may end dozens. A library is loaded faster than
  // an interpreter starts: a server is not worth it for two workers.
  const int alone = library_.interpreter.empty() ? 2 : 0;
  const bool again = starts_++ >= alone;
  pid_ =
      again ? forks_->fork_worker(options_.worker, library_, descriptors) : -1;
  forked_ = pid_ > 0;
  if (!forked_)
    pid_ = spawn_worker(options_.worker, library_, descriptors, error);
  lifeline_end_.reset();
  output_end_.reset();
  if (pid_ <= 0) return false;
  pidfd_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  if (pidfd_.valid()) return true;
  *error = system_error("cannot watch a worker");
  kill_now();
  return false;
}

void WorkerProcess::go() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(go_.get(), &one, sizeof one);
}

double WorkerProcess::cpu_seconds() const {
  clockid_t clock;
  timespec time{};
  if (clock_getcpuclockid(pid_, &clock) != 0 ||
      clock_gettime(clock, &time) != 0)
    return 0;
  return static_cast<double>(time.tv_sec) +
         1e-9 * static_cast<double>(time.tv_nsec);
}

// By SIGSTOP, which it may have sent to itself. The state follows the name,
// which is in parentheses and may hold some.
bool WorkerProcess::stopped() const {
  std::string text;
  read_system_file("/proc/" + std::to_string(pid_) + "/stat", &text);
  const size_t end = text.rfind(')');
  return end != std::string::npos && end + 2 < text.size() &&
         text[end + 2] == 'T';
}

bool WorkerProcess::has_children() const {
  const std::string tasks = "/proc/" + std::to_string(pid_) + "/task";
  std::error_code code;
  std::string text;
  for (std::filesystem::directory_iterator task(tasks, code), end;
       !code && task != end; task.increment(code))
    if (read_system_file(task->path().string() + "/children", &text) &&
        !text.empty())
      return true;
  return false;
}

// Resident pages that are not shared: the tensors of the calls do not count.
int64_t WorkerProcess::private_memory() const {
  const std::string path = "/proc/" + std::to_string(pid_) + "/statm";
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[128] = {};
  if (!file.valid() || read(file.get(), text, sizeof text - 1) <= 0) return 0;
  long long size = 0;
  long long resident = 0;
  long long shared = 0;
  if (std::sscanf(text, "%lld %lld %lld", &size, &resident, &shared) != 3)
    return 0;
  return (resident - shared) * page_bytes();
}

bool WorkerProcess::over_limit(Watch* watch, const WaitLimits& limits,
                               WaitEnd* end) {
  watch->last_look = Clock::now();
  const double cpu = cpu_seconds();
  const int32_t slot = control_->current.load(std::memory_order_acquire);
  const bool inside = slot >= 0 && slot < kSlotCount;
  const uint32_t phase =
      inside ? control_->slots[static_cast<size_t>(slot)].reply.phase.load()
             : 0;
  const uint64_t step =
      static_cast<uint64_t>(static_cast<uint32_t>(slot)) << 32 | phase;
  if (step != watch->step) {
    watch->step = step;
    watch->step_cpu = watch->progress_cpu = cpu;
    watch->progress_time = watch->last_look;
  }
  if (cpu - watch->progress_cpu > kProgressShare * limits.stall_seconds) {
    watch->progress_cpu = cpu;
    watch->progress_time = watch->last_look;
  }
  // A single look may see a short stop caused by another process.
  constexpr int kStoppedLooks = 3;
  const bool idle = std::exchange(watch->last_cpu, cpu) == cpu;
  watch->stopped = idle && stopped() ? watch->stopped + 1 : 0;
  if (watch->stopped >= kStoppedLooks)
    *end = WaitEnd::kStopped;
  else if (cpu - watch->step_cpu > limits.cpu_seconds)
    *end = WaitEnd::kHang;
  else if (const double idle_seconds = seconds_since(watch->progress_time);
           idle_seconds > limits.stall_seconds &&
           (idle_seconds > limits.stall_with_children || !has_children()))
    *end = WaitEnd::kStalled;
  else if (private_memory() > options_.resident_limit)
    *end = WaitEnd::kTooLarge;
  else
    return false;
  return true;
}

// Does not spin before poll(): spinning would save the microseconds in which an
// idle processor wakes, and lose milliseconds where there are more jobs than
// processors.
WaitEnd WorkerProcess::wait(const std::function<WaitLimits()>& limits) {
  Watch watch;
  watch.step = ~uint64_t{0};
  watch.step_cpu = watch.progress_cpu = cpu_seconds();
  for (;;) {
    pollfd polled[] = {{done_.get(), POLLIN, 0},
                       {pidfd_.get(), POLLIN, 0},
                       {output_.get(), POLLIN, 0}};
    poll(polled, std::size(polled), kTickMilliseconds);
    if (polled[2].revents != 0 && !tail_.drain(output_.get())) output_.reset();
    if (polled[0].revents != 0) {
      uint64_t count = 0;
      if (read(done_.get(), &count, sizeof count) == sizeof count)
        return WaitEnd::kDone;
    }
    if (polled[1].revents != 0) {
      reap();
      return WaitEnd::kDied;
    }
    WaitEnd end{};
    if (seconds_since(watch.last_look) * 1000 < kTickMilliseconds ||
        !over_limit(&watch, limits(), &end))
      continue;
    kill_now();
    return end;
  }
}

// Also frees the descriptors of the process.
void WorkerProcess::reap() {
  ended_cpu_ += cpu_seconds();  // known until it is waited for
  // Until then its id, which is that of its group, is not given anew.
  kill(-pid_, SIGKILL);
  wait_status_ = forked_ ? forks_->reap(pid_) : 0;
  while (!forked_ && waitpid(pid_, &wait_status_, 0) < 0 && errno == EINTR) {
  }
  forked_ ? end_orphans(pid_) : forget_child(pid_);
  if (output_.valid()) tail_.drain(output_.get());
  pid_ = -1;
  for (Descriptor* ours : {&go_, &done_, &lifeline_, &output_, &pidfd_})
    ours->reset();
}

void WorkerProcess::kill_now() {
  kill(pid_, SIGKILL);
  reap();  // which ends its group: the compilers that it may have started
}

void WorkerProcess::stop() {
  if (!running()) return;
  control_->count = 0;
  go();
  const auto start = Clock::now();
  while (seconds_since(start) * 1000 < kGoodbyeMilliseconds) {
    pollfd polled[] = {{pidfd_.get(), POLLIN, 0}, {output_.get(), POLLIN, 0}};
    poll(polled, std::size(polled), kTickMilliseconds);
    if (polled[1].revents != 0 && !tail_.drain(output_.get())) output_.reset();
    if (polled[0].revents != 0) return reap();
  }
  kill_now();
}

std::string WorkerProcess::info() const {
  std::string text;
  char buffer[4096];
  for (off_t at = 0;;) {
    const ssize_t n = pread(info_.get(), buffer, sizeof buffer, at);
    if (n <= 0) return text;
    text.append(buffer, static_cast<size_t>(n));
    at += n;
  }
}

}  // namespace qkvet
