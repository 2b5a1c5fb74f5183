// SPDX-License-Identifier: Apache-2.0
#include "cli/hunt/hunt_watch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/base/child.h"
#include "cli/base/interrupts.h"
#include "cli/hunt/hunt_child.h"
#include "cli/hunt/hunt_inputs.h"
#include "cli/terminal/report.h"
#include "cli/terminal/select.h"
#include "fuzz/hunt/progress.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// A process that does not end by itself this long after its time is killed.
constexpr double kGraceSeconds = 30;
// A kernel in the hunting process that ends it is found again and again.
constexpr int kMostCrashes = 4;
// Without a sandbox only the engine sees that a kernel hangs.
constexpr int kTimeoutInProcess = 10;
constexpr int kTimeoutOfEngine = 300;
constexpr auto kLook = std::chrono::milliseconds(20);
constexpr double kShowEvery = 0.25;

std::string log_path(const std::string& folder) { return folder + "/log"; }

// In a separate process group, so that processes that the engine forked end,
// too.
pid_t start(const std::vector<std::string>& words, const std::string& log,
            std::string* error) {
  const int output =
      open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  pid_t pid = -1;
  *error = start_child(words, output, /*own_group=*/true, &pid);
  close(output);
  return error->empty() ? pid : -1;
}

std::vector<std::string> engine_words(const HuntJob& job,
                                      const HuntLimits& limits,
                                      double seconds_left, int64_t runs_left,
                                      const std::vector<std::string>& inputs) {
  std::vector<std::string> words = {
      "/proc/self/exe",
      "-seed=" + std::to_string(limits.seed & 0x7FFFFFFF),
      "-max_len=" + std::to_string(kMostInputBytes),
      "-len_control=0",
      "-rss_limit_mb=0",
      "-detect_leaks=0",
      "-artifact_prefix=" + job.folder + "/",
      "-timeout=" + std::to_string(job.selection.in_process
                                       ? kTimeoutInProcess
                                       : kTimeoutOfEngine)};
  std::error_code code;
  words[0] = fs::read_symlink(words[0], code).string();
  if (limits.seconds > 0)
    words.push_back("-max_total_time=" +
                    std::to_string(std::llround(std::ceil(seconds_left)) + 1));
  if (limits.runs > 0) words.push_back("-runs=" + std::to_string(runs_left));
  if (limits.jobs > 1)
    for (const std::string& word :
         {"-fork=" + std::to_string(limits.jobs),
          std::string("-ignore_crashes=1"), std::string("-ignore_timeouts=1"),
          std::string("-ignore_ooms=1")})
      words.push_back(word);
  words.insert(words.end(), inputs.begin(), inputs.end());
  words.push_back("-ignore_remaining_args=1");
  words.push_back(kHuntWord + job.folder + "/job.json");
  return words;
}

// The last line of the engine that contains an error.
std::string last_words(const std::string& folder) {
  std::ifstream log(log_path(folder));
  std::string last;
  for (std::string line; std::getline(log, line);)
    if (line.find("ERROR") != std::string::npos ||
        line.find("qkvet") != std::string::npos)
      last = line;
  return last;
}

class Watch {
 public:
  Watch(const HuntJob& job, const HuntLimits& limits,
        const std::vector<std::string>& inputs)
      : job_(job), limits_(limits), inputs_(inputs) {}

  HuntEnd run();

 private:
  void run_once();
  int wait_for(pid_t pid, double until);
  bool over(double until) const;
  void show();
  void collect_crashes();
  bool keep_input();
  void judge_end(int status);
  double left() const { return limits_.seconds - seconds_since(start_); }

  const HuntJob& job_;
  const HuntLimits& limits_;
  const std::vector<std::string>& inputs_;
  SharedProgress progress_{nullptr, nullptr};
  const Clock::time_point start_ = Clock::now();
  const bool about_kernels_ = find_fuzz_target(job_.target)->about_kernels();
  double shown_ = 0;
  bool ended_by_us_ = false, done_ = false;
  HuntEnd end_;
};

bool Watch::over(double until) const {
  return Interrupts::seen() ||
         (limits_.seconds > 0 && seconds_since(start_) > until) ||
         (limits_.fail_fast && progress_->found > 0);
}

void Watch::show() {
  const double now = seconds_since(start_);
  if (!limits_.show || now - shown_ < kShowEvery) return;
  shown_ = now;
  const auto executions = static_cast<long long>(progress_->executions);
  std::fprintf(stderr, "\r\x1b[K%lld executions, %.0f a second, %lld findings",
               executions, static_cast<double>(executions) / now,
               static_cast<long long>(progress_->found.load()));
  std::fflush(stderr);
}

int Watch::wait_for(pid_t pid, double until) {
  int status = 0;
  for (;;) {
    const pid_t got = waitpid(pid, &status, WNOHANG);
    if (got == pid || (got < 0 && errno != EINTR)) break;
    if (over(until)) {
      ended_by_us_ = true;
      kill(-pid, SIGKILL);
      while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
      }
      break;
    }
    show();
    std::this_thread::sleep_for(kLook);
  }
  kill(-pid, SIGKILL);  // forked by the engine
  return status;
}

// Files of the engine: crash-SHA1, timeout-SHA1, oom-SHA1.
void Watch::collect_crashes() {
  std::vector<fs::path> files;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(job_.folder, code))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    const std::string name = file.filename().string();
    const std::string how = name.substr(0, name.find('-'));
    if (how != "crash" && how != "timeout" && how != "oom") continue;
    const auto known = [&](const HuntCrash& crash) {
      return crash.file == file.string();
    };
    if (std::any_of(end_.crashes.begin(), end_.crashes.end(), known)) continue;
    end_.crashes.push_back({file.string(), how, progress_->kernel});
  }
}

// Keeps the input at work; false if one with these bytes is kept already.
bool Watch::keep_input() {
  const std::string input(
      progress_->input.data(),
      std::min<size_t>(progress_->input_size, progress_->input.size()));
  for (const HuntCrash& crash : end_.crashes) {
    const std::vector<uint8_t> bytes = file_bytes(crash.file);
    if (std::string(bytes.begin(), bytes.end()) == input) return false;
  }
  const std::string file =
      job_.folder + "/ended-" + std::to_string(end_.crashes.size());
  if (write_file(file, input).empty())
    end_.crashes.push_back({file, "ended", progress_->kernel});
  return true;
}

void Watch::judge_end(int status) {
  const size_t before = end_.crashes.size();
  collect_crashes();
  if (ended_by_us_) return;
  if (end_.crashes.size() == before && progress_->kernel >= 0) {
    // Without a message: the kernel called exit(), or was killed. Or it died at
    // an input that is known already, which would repeat forever.
    done_ = !keep_input();
    if (done_) return;
  }
  if (end_.crashes.size() > before) {
    if (!about_kernels_ || job_.selection.in_process) return;
    // Kernels run in workers and cannot reach this process.
    end_.error = "the hunt itself died: a defect of QKVet";
    done_ = true;
    return;
  }
  done_ = true;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  for (const HuntEvent& event : read_events(job_.folder))
    if (event.what == "stopped") end_.error = event.text;
  if (end_.error.empty()) {
    const std::string why = last_words(job_.folder);
    end_.error = "the hunt ended by itself" + (why.empty() ? "" : ": " + why);
  }
}

void Watch::run_once() {
  progress_->kernel = -1;
  // Processes that the engine forked end one by one.
  const double until = limits_.seconds + (limits_.jobs > 1 ? 0 : kGraceSeconds);
  const int64_t runs_left = limits_.runs - progress_->executions;
  std::string error;
  const pid_t pid =
      start(engine_words(job_, limits_, left(), runs_left, inputs_),
            log_path(job_.folder), &error);
  if (pid < 0) {
    end_.error = error;
    done_ = true;
    return;
  }
  judge_end(wait_for(pid, until));
}

HuntEnd Watch::run() {
  std::string error;
  progress_ =
      open_progress(progress_path(job_.folder), /*create=*/true, &error);
  if (progress_ == nullptr) {
    end_.error = error;
    return end_;
  }
  const Interrupts interrupts;
  while (!done_ && !over(limits_.seconds) &&
         end_.crashes.size() < kMostCrashes &&
         (limits_.runs == 0 || progress_->executions < limits_.runs)) {
    run_once();
    // A check of bytes ends with its first finding.
    if ((limits_.fail_fast || !about_kernels_) && !end_.crashes.empty()) break;
  }
  if (limits_.show && shown_ > 0) std::fputs("\r\x1b[K", stderr);
  end_.executions = progress_->executions;
  end_.checked = progress_->checked;
  end_.seconds = seconds_since(start_);
  end_.interrupted = Interrupts::seen();
  return end_;
}

}  // namespace

std::string last_summary(const std::string& folder) {
  constexpr std::string_view kLead = "SUMMARY: ";
  std::ifstream log(log_path(folder));
  std::string last;
  for (std::string line; std::getline(log, line);)
    if (line.starts_with(kLead)) last = line.substr(kLead.size());
  return last;
}

HuntEnd watch_hunt(const HuntJob& job, const HuntLimits& limits,
                   const std::vector<std::string>& inputs) {
  HuntEnd end;
  end.error = write_file(job.folder + "/job.json", job_text(job));
  return end.error.empty() ? Watch(job, limits, inputs).run() : end;
}

std::string merge_inputs(const HuntJob& job, const std::string& into,
                         const std::vector<std::string>& from) {
  std::string error = write_file(job.folder + "/job.json", job_text(job));
  if (!error.empty()) return error;
  if (open_progress(progress_path(job.folder), /*create=*/true, &error) ==
      nullptr)
    return error;
  std::vector<std::string> folders = {into};
  folders.insert(folders.end(), from.begin(), from.end());
  std::vector<std::string> words =
      engine_words(job, HuntLimits{}, 0, 0, folders);
  words.insert(words.begin() + 1, "-merge=1");
  const pid_t pid = start(words, log_path(job.folder), &error);
  if (pid < 0) return error;
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  const std::string why = last_words(job.folder);
  return "the inputs could not be merged" + (why.empty() ? "" : ": " + why);
}

}  // namespace qkvet::cli
