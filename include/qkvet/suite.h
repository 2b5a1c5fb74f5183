// SPDX-License-Identifier: Apache-2.0
// Runs the qkvet program from C++17 to check a plug-in against a law. Needs the
// C++ library, a POSIX system and the program only. A kernel that crashes or
// hangs ends a worker of that program, not the caller. <qkvet/gtest.h> makes
// tests of it; other frameworks call judge_law().
#ifndef QKVET_SUITE_H_
#define QKVET_SUITE_H_

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

extern char** environ;

namespace qkvet {

// The plug-in to judge. A path means a plug-in with the defaults:
//   Plugin("libmine.so").kernel("mine/fast").cases(500)
class Plugin {
 public:
  // As many cases as `qkvet check` gives a law about attention.
  static constexpr int64_t kDefaultCases = 2048;

  // The path is relative to the working directory of the test.
  Plugin(std::string file) : file_(std::move(file)) {}  // NOLINT: a path is one
  Plugin(const char* file) : file_(file) {}             // NOLINT

  // The `config` text of qkvet_open().
  Plugin& config(const std::string& text) {
    file_ += ":" + text;
    return *this;
  }
  // A kernel of the library, or a glob; may be repeated. Without: all.
  Plugin& kernel(const std::string& name) {
    return argument("--kernel").argument(name);
  }
  // Per law.
  Plugin& cases(int64_t count) {
    cases_ = count;
    return *this;
  }
  // A further argument of `qkvet check`.
  Plugin& argument(const std::string& text) {
    more_.push_back(text);
    return *this;
  }

  std::vector<std::string> check_arguments(const std::string& law) const {
    std::vector<std::string> all = {"check", file_,     "--law",
                                    law,     "--cases", std::to_string(cases_)};
    all.insert(all.end(), more_.begin(), more_.end());
    return all;
  }

 private:
  std::string file_;
  int64_t cases_ = kDefaultCases;
  std::vector<std::string> more_;
};

struct ProgramRun {
  int exit = -1;      // -1: it could not be started, or a signal ended it
  std::string out;    // stdout
  std::string error;  // stderr, or why there is no exit code
  std::string extra;  // what was written to kExtraFile
};

// A file of the child's that ProgramRun::extra shows.
inline constexpr const char* kExtraFile = "/dev/fd/3";

namespace suite_detail {

// A file without a name, which ends when it is closed. Files and not pipes: no
// reader is needed while the child runs.
class ScratchFile {
 public:
  bool good() const { return file_ != nullptr; }
  // Out of the way of the child's descriptors.
  int high_descriptor() const {
    constexpr int kFirst = 16;
    return fcntl(fileno(file_.get()), F_DUPFD_CLOEXEC, kFirst);
  }
  std::string text() const {
    std::string all;
    std::rewind(file_.get());
    char part[4096];
    for (size_t n; (n = std::fread(part, 1, sizeof part, file_.get())) > 0;)
      all.append(part, n);
    return all;
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_{std::tmpfile()};
};

// The child's stdout, stderr and kExtraFile are `files`. Returns 0 or errno.
inline int spawn(std::vector<std::string> words, const ScratchFile (&files)[3],
                 pid_t* child) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  int descriptors[3];
  for (int i = 0; i < 3; ++i) {
    descriptors[i] = files[i].high_descriptor();
    posix_spawn_file_actions_adddup2(&actions, descriptors[i], i + 1);
  }
  const int failed = posix_spawnp(child, arguments[0], &actions, nullptr,
                                  arguments.data(), environ);
  for (const int descriptor : descriptors) close(descriptor);
  posix_spawn_file_actions_destroy(&actions);
  return failed;
}

// The text of a field of one line of JSON, "" if it is missing. The fields that
// are read come before any text from a kernel.
inline std::string json_field(const std::string& line, const char* name) {
  const std::string start = std::string("\"") + name + "\":\"";
  size_t at = line.find(start);
  if (at == std::string::npos) return "";
  std::string value;
  for (at += start.size(); at < line.size() && line[at] != '"'; ++at) {
    if (line[at] != '\\') {
      value += line[at];
      continue;
    }
    if (++at == line.size()) break;
    // \u is used for control characters only: the rest is UTF-8.
    const bool blank = std::strchr("nrtbfu", line[at]) != nullptr;
    if (line[at] == 'u') at += 4;
    value += blank ? ' ' : line[at];
  }
  return value;
}

}  // namespace suite_detail

// Runs a program to its end.
inline ProgramRun run_program(const std::string& program,
                              const std::vector<std::string>& arguments) {
  const suite_detail::ScratchFile files[3];
  ProgramRun run;
  if (!files[0].good() || !files[1].good() || !files[2].good()) {
    run.error = "there is no room for temporary files";
    return run;
  }
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  pid_t child = -1;
  const int failed = suite_detail::spawn(std::move(words), files, &child);
  if (failed != 0) {
    run.error = "cannot run " + program + ": " + std::strerror(failed);
    return run;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  run.out = files[0].text();
  run.error = files[1].text();
  run.extra = files[2].text();
  if (WIFEXITED(status))
    run.exit = WEXITSTATUS(status);
  else
    run.error += program + " was ended by signal " +
                 std::to_string(WTERMSIG(status)) + "\n";
  return run;
}

// The laws of the program; none if it cannot be run.
inline std::vector<std::string> law_names(const std::string& program) {
  std::istringstream lines(
      run_program(program, {"explain", "laws", "--json"}).out);
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    const std::string name = suite_detail::json_field(line, "id");
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

enum class LawOutcome {
  kHolds,
  kFails,   // or cannot be trusted, or the program could not judge
  kSkipped  // this kernel or this machine has nothing to be judged
};

struct LawResult {
  LawOutcome outcome = LawOutcome::kFails;
  std::string text;  // the report of a failure, the reason of a skip
};

// One law on a plug-in's kernels.
inline LawResult judge_law(const std::string& program, const Plugin& plugin,
                           const std::string& law) {
  std::vector<std::string> arguments = plugin.check_arguments(law);
  arguments.insert(arguments.end(), {"--json", kExtraFile});
  const ProgramRun run = run_program(program, arguments);
  constexpr int kConforms = 0;
  constexpr int kNothingChecked = 3;
  if (run.exit == kConforms) return {LawOutcome::kHolds, ""};
  const LawResult failed = {LawOutcome::kFails, run.out + run.error};
  if (run.exit != kNothingChecked) return failed;

  // Several kernels: some may be skipped while others pass.
  bool passed = false;
  std::string reasons;
  std::istringstream lines(run.extra);
  for (std::string line; std::getline(lines, line);) {
    if (suite_detail::json_field(line, "type") != "result") continue;
    const std::string verdict = suite_detail::json_field(line, "verdict");
    passed |= verdict == "passed";
    if (verdict == "passed") continue;
    if (verdict != "unsupported" && verdict != "skipped") return failed;
    reasons += (reasons.empty() ? "" : "; ") +
               suite_detail::json_field(line, "kernel") + ": " + verdict +
               ": " + suite_detail::json_field(line, "reason");
  }
  if (passed) return {LawOutcome::kHolds, ""};
  return {LawOutcome::kSkipped,
          reasons.empty() ? "the law is about nothing that the kernel declares"
                          : reasons};
}

}  // namespace qkvet

#endif  // QKVET_SUITE_H_
