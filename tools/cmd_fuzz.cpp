// SPDX-License-Identifier: Apache-2.0
// qkvet fuzz: hunts without end, or until the time is over, and reports what it
// found as `check` does.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/engine.h"
#include "fuzz/hunter.h"
#include "properties/generate.h"
#include "tools/arguments.h"
#include "tools/commands.h"
#include "tools/hunt_report.h"
#include "tools/lines.h"

namespace qkvet {
namespace {

namespace fs = std::filesystem;

// A minute where neither time nor runs are asked for.
constexpr const char* kDefaultTime = "60s";
// Planned cases of each law that a hunt without inputs begins with.
constexpr int64_t kSeedsPerLaw = 4;

// A folder that is gone at the end, unless it is wanted.
class Folder {
 public:
  Folder() {
    // The engine writes and deletes thousands of small files: in memory, if
    // there is such a place and nobody asked for another.
    std::error_code code;
    const fs::path memory = "/dev/shm";
    const bool in_memory = std::getenv("TMPDIR") == nullptr &&
                           access(memory.c_str(), W_OK | X_OK) == 0;
    std::string name = ((in_memory ? memory : fs::temp_directory_path(code)) /
                        "qkvet-fuzz-XXXXXX")
                           .string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~Folder() {
    std::error_code code;
    if (!path_.empty() && !kept_) fs::remove_all(path_, code);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  std::string path_;
  bool kept_ = false;
};

int64_t monotonic_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// "" or one line: what is wrong with the options.
std::string resolve(const FuzzOptions& options, HuntLimits& limits) {
  std::string error;
  const std::string time =
      options.time.empty() && options.runs == 0 ? kDefaultTime : options.time;
  if (!time.empty()) {
    const auto seconds = parse_budget(time, &error, "--time");
    if (!seconds) return error;
    limits.seconds = *seconds;
  }
  const auto seed = parse_seed(options.seed, &error);
  if (!seed) return error;
  limits.seed = *seed;
  limits.runs = options.runs;
  limits.jobs = options.jobs;
  limits.fail_fast = options.fail_fast;
  limits.show = isatty(STDERR_FILENO) != 0;
  return "";
}

// Inputs that a hunt begins with where it has none.
std::string write_seeds(const std::string& folder, const Hunted& hunted,
                        uint64_t seed) {
  for (const Law* law : hunted.rules.laws)
    for (int64_t n = 1; n <= kSeedsPerLaw; ++n) {
      const Case value = nearest_legal(
          *law, planned_case(*law, seed, n, hunted.rules.scope), hunted.rules);
      const std::string error =
          write_file(fmt::format("{}/seed-{}-{}", folder, law->id, n),
                     encode_input({law, value}));
      if (!error.empty()) return error;
    }
  return "";
}

// Files, and those of folders, in the order of their names.
std::string list_inputs(const std::vector<std::string>& paths,
                        std::vector<std::string>& files) {
  for (const std::string& path : paths) {
    std::error_code code;
    if (fs::is_directory(path, code)) {
      std::vector<std::string> inside;
      for (const auto& entry : fs::directory_iterator(path, code))
        if (entry.is_regular_file()) inside.push_back(entry.path().string());
      std::sort(inside.begin(), inside.end());
      files.insert(files.end(), inside.begin(), inside.end());
    } else if (fs::is_regular_file(path, code)) {
      files.push_back(path);
    } else {
      return path + ": no file or folder of inputs";
    }
  }
  return files.empty() ? paths[0] + ": holds no input" : "";
}

std::vector<uint8_t> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Inputs one by one, without the engine. Of bytes: the first that is wrong.
std::string replay_bytes(const FuzzTarget& target,
                         const std::vector<std::string>& files,
                         std::string* wrong_file) {
  for (const std::string& file : files) {
    std::string said;
    const std::string wrong = target.check(bytes_of(file), &said);
    if (wrong.empty()) continue;
    *wrong_file = file;
    return wrong;
  }
  return "";
}

std::string replay_kernels(const Hunted& hunted, const HuntJob& job,
                           const std::vector<std::string>& files,
                           HuntEnd& end) {
  std::string error;
  const SharedProgress progress =
      open_progress(progress_path(job.folder), /*create=*/true, &error);
  if (progress == nullptr) return error;
  const ExecutorFactory open =
      executor_factory(hunted.selected, job.selection.in_process);
  std::vector<std::unique_ptr<Executor>> opened;
  std::vector<Executor*> executors;
  for (size_t i = 0; i < hunted.selected.libraries.size(); ++i) {
    Opened one = open(i);
    if (one.executor == nullptr) return one.error;
    executors.push_back(one.executor.get());
    opened.push_back(std::move(one.executor));
  }
  std::vector<uint8_t> counters(kGuideCounters);
  const auto& kernels = hunted.selected.kernels;
  Hunter hunter(*hunted.target, hunted.rules, kernels, executors,
                Guide(counters, /*guided=*/false), *progress,
                [&](const Found& found) {
                  write_event(job.folder,
                              {"found", kernels[found.kernel].judged.info.name,
                               found.input.law->id,
                               to_string(found.input.value), found.execution});
                });
  for (const std::string& file : files) hunter.run(bytes_of(file));
  end.executions = progress->executions;
  end.checked = progress->checked;
  end.seconds = 1e-9 * static_cast<double>(monotonic_nanoseconds() - job.began);
  return "";
}

// The end of a hunt in bytes: what is wrong with an input, or that it was the
// end of the program.
ExitCode report_bytes(const Hunted& hunted, const HuntJob& job,
                      const HuntEnd& end, const std::string& kept_in) {
  const FuzzTarget& target = *hunted.target;
  std::string wrong;
  for (const HuntEvent& event : read_events(job.folder))
    if (event.what == "wrong") wrong = event.text;
  for (const HuntCrash& crash : end.crashes) {
    const std::string to =
        (fs::path(kept_in) / fs::path(crash.file).filename()).string();
    const std::string error = write_file(to, [&] {
      const auto bytes = bytes_of(crash.file);
      return std::string(bytes.begin(), bytes.end());
    }());
    fmt::print(
        "{} {}   execution {}, {:.1f} s\n{}{}{}{}\n",
        wrong.empty() ? "CRASH" : "FAIL ", target.name, end.executions,
        end.seconds, wrapped_field("law", target.sentence),
        wrapped_field("wrong",
                      wrong.empty() ? "the program died: " + crash.how : wrong),
        field("input", error.empty() ? to : error),
        field("again",
              fmt::format("qkvet fuzz {} --replay {}", target.name, to)));
  }
  fmt::print(
      "{}  {}: {} finding{} in {} executions, {:.1f} s, {:.0f} a second\n",
      end.crashes.empty() ? "CLEAN" : "FOUND", target.name, end.crashes.size(),
      end.crashes.size() == 1 ? "" : "s", end.executions, end.seconds,
      static_cast<double>(end.executions) / std::max(end.seconds, 1e-9));
  if (!end.crashes.empty()) return wrong.empty() ? kKernelDied : kLawFailed;
  return end.checked > 0 ? kConforms : kNothingChecked;
}

// Everything behind the hunt itself.
ExitCode report_kernels(const FuzzOptions& options, const Hunted& hunted,
                        const HuntJob& job, const HuntEnd& end, uint64_t seed) {
  const HuntFindings findings = look_into(hunted, job, end, options.diagnose);
  if (!findings.error.empty()) return wrong_use(findings.error);
  std::string regressions;
  if (!options.regressions.empty()) {
    std::string error;
    const int added = add_regressions(options.regressions, findings, &error);
    if (added < 0) return wrong_use(error);
    regressions = fmt::format("{}: {} line{} added", options.regressions, added,
                              added == 1 ? "" : "s");
  }
  const HuntSummary summary{hunted,         job,        end, findings, seed,
                            options.corpus, regressions};
  std::fputs(hunt_text(summary, colour_wanted()).c_str(), stdout);
  return hunt_exit(end, findings);
}

std::string misuse(const FuzzOptions& options, const Hunted& hunted) {
  if (!hunted.error.empty()) return hunted.error;
  const KernelSelection& s = options.selection;
  if (!hunted.target->about_kernels() &&
      (!s.kernels.empty() || !s.plugins.empty() || !s.sources.empty()))
    return std::string(hunted.target->name) + ": is about no kernel";
  if (!options.replay.empty() && !options.merge.empty())
    return "--replay beside --merge: one of the two";
  if (!options.merge.empty() && options.corpus.empty())
    return "--merge: --corpus says where to";
  if (options.replay.empty() && !has_engine()) return kNoEngine;
  return "";
}

// The folders that the engine reads, the first of which it writes to.
std::string prepare_inputs(const FuzzOptions& options, const Hunted& hunted,
                           const std::string& own, uint64_t seed,
                           std::vector<std::string>& inputs) {
  std::error_code code;
  inputs = {options.corpus.empty() ? own + "/corpus" : options.corpus};
  fs::create_directories(inputs[0], code);
  if (!fs::is_directory(inputs[0], code))
    return "--corpus " + inputs[0] + ": cannot be made";
  for (const std::string& folder : options.seeds) {
    if (!fs::is_directory(folder, code))
      return "--seeds " + folder + ": no folder";
    inputs.push_back(folder);
  }
  const bool none = fs::is_empty(inputs[0], code) && options.seeds.empty();
  if (!none || !hunted.target->about_kernels()) return "";
  inputs.push_back(own + "/seeds");
  fs::create_directories(inputs.back(), code);
  return write_seeds(inputs.back(), hunted, seed);
}

}  // namespace

ExitCode run_fuzz(const FuzzOptions& options) {
  HuntLimits limits;
  if (const std::string error = resolve(options, limits); !error.empty())
    return wrong_use(error);
  Folder folder;
  if (folder.path().empty()) return wrong_use("no folder for temporary files");
  HuntJob job;
  job.target = options.target;
  job.selection = options.selection;
  job.laws = options.laws;
  job.pin = options.pin;
  job.guided = !options.unguided;
  job.recipes = !options.no_recipes;
  job.folder = folder.path();
  job.began = monotonic_nanoseconds();
  job.seconds = limits.seconds;
  const Hunted hunt = hunted(job);
  if (const std::string error = misuse(options, hunt); !error.empty())
    return wrong_use(error);
  HuntEnd end;
  if (!options.replay.empty()) {
    std::vector<std::string> files;
    std::string error = list_inputs(options.replay, files);
    if (!error.empty()) return wrong_use(error);
    if (!hunt.target->about_kernels()) {
      std::string file;
      const std::string wrong = replay_bytes(*hunt.target, files, &file);
      fmt::print("{}  {}: {}\n", wrong.empty() ? "CLEAN" : "FAIL",
                 hunt.target->name,
                 wrong.empty() ? fmt::format("{} inputs", files.size())
                               : file + ": " + wrong);
      return wrong.empty() ? kConforms : kLawFailed;
    }
    error = replay_kernels(hunt, job, files, end);
    if (!error.empty()) return wrong_use(error);
    return report_kernels(options, hunt, job, end, limits.seed);
  }
  std::vector<std::string> inputs;
  std::string error =
      prepare_inputs(options, hunt, folder.path(), limits.seed, inputs);
  if (!error.empty()) return wrong_use(error);
  if (!options.merge.empty()) {
    error = merge_inputs(job, options.corpus, options.merge);
    if (!error.empty()) return wrong_use(error);
    fmt::print("merged into {}\n", options.corpus);
    return kConforms;
  }
  end = watch_hunt(job, limits, inputs);
  if (options.keep) {
    folder.keep();
    fmt::print("{}", field("kept", folder.path()));
  }
  if (!end.error.empty() && end.checked == 0) return wrong_use(end.error);
  if (!end.error.empty())
    std::fprintf(stderr, "qkvet: %s\n", end.error.c_str());
  if (!hunt.target->about_kernels())
    return report_bytes(hunt, job, end,
                        options.corpus.empty() ? "." : options.corpus);
  return report_kernels(options, hunt, job, end, limits.seed);
}

}  // namespace qkvet
