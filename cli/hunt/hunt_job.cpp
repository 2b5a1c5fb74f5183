// SPDX-License-Identifier: Apache-2.0
#include "cli/hunt/hunt_job.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "cli/terminal/select.h"
#include "core/base/read_file.h"
#include "fuzz/targets/rules.h"
#include "report/json_fields.h"

namespace qkvet::cli {
namespace {

// The laws of the target that the globs leave.
std::string choose_laws(const HuntJob& job, const FuzzTarget& target,
                        std::vector<const Law*>& laws) {
  laws = laws_of(target);
  if (job.laws.empty()) return "";
  std::string error;
  const std::vector<const Law*> named = select_laws(job.laws, &error);
  if (!error.empty()) return error;
  std::erase_if(laws, [&](const Law* law) {
    return std::find(named.begin(), named.end(), law) == named.end();
  });
  return laws.empty()
             ? "--law " + job.laws[0] + ": no law of the target " +
                   target.name + " (`qkvet explain fuzz --json` has them)"
             : "";
}

}  // namespace

uint64_t monotonic_nanoseconds() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

double seconds_since_began(const HuntJob& job) {
  return 1e-9 * static_cast<double>(monotonic_nanoseconds() - job.began);
}

std::string job_text(const HuntJob& job) {
  return json_text(with_fields(Json::object(), job));
}

std::optional<HuntJob> read_job(const std::string& path, std::string* error) {
  std::string text;
  *error = read_file(path, &text);
  if (!error->empty()) return std::nullopt;
  auto job = report::fields_in<HuntJob>(text);
  if (!job) *error = path + ": no hunt";
  return job;
}

std::string progress_path(const std::string& folder) {
  return folder + "/progress";
}
std::string events_path(const std::string& folder) {
  return folder + "/events.jsonl";
}

void write_event(const std::string& folder, const HuntEvent& event) {
  const std::string line = line_of(with_fields(Json::object(), event));
  // Several processes append to it: each line is written in one piece.
  const int fd = open(events_path(folder).c_str(),
                      O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t n = write(fd, line.data(), line.size());
  close(fd);
}

std::vector<HuntEvent> read_events(const std::string& folder) {
  std::vector<HuntEvent> events;
  std::ifstream file(events_path(folder));
  for (std::string line; std::getline(file, line);)
    if (auto event = report::fields_in<HuntEvent>(line))
      events.push_back(std::move(*event));
  return events;
}

Hunted hunted(const HuntJob& job) {
  Hunted hunted;
  hunted.target = find_fuzz_target(job.target);
  if (hunted.target == nullptr) {
    hunted.error = "no fuzz target is named \"" + job.target +
                   "\"; `qkvet explain fuzz` shows all";
    return hunted;
  }
  const FuzzTarget& target = *hunted.target;
  if (!target.about_kernels()) return hunted;
  std::vector<const Law*> laws;
  hunted.error = choose_laws(job, target, laws);
  if (!hunted.error.empty()) return hunted;
  hunted.selected = select_kernels(job.selection);
  hunted.error = hunted.selected.error;
  if (!hunted.error.empty()) return hunted;
  auto& kernels = hunted.selected.kernels;
  keep_subject(target, kernels);
  if (kernels.empty()) {
    hunted.error = "no selected kernel: " + missing_subject(target.subject);
    return hunted;
  }
  if (target.differential && kernels.size() != 2) {
    hunted.error = std::string(target.name) + ": wants two kernels, and got " +
                   std::to_string(kernels.size());
    return hunted;
  }
  hunted.rules = rules_for(target, std::move(laws), kernels,
                           parse_pins(job.pin, &hunted.error));
  hunted.rules.recipes = job.recipes;
  if (!hunted.error.empty()) hunted.error = "--pin " + hunted.error;
  if (hunted.rules.laws.empty())
    hunted.error = "no law of the target asks for what the kernels declare";
  return hunted;
}

std::string open_hunter(const Hunted& hunted, const HuntJob& job, Guide guide,
                        HuntProgress& progress,
                        std::vector<std::unique_ptr<Executor>>* executors,
                        std::unique_ptr<Hunter>* hunter) {
  std::string error =
      open_all(hunted.selected, job.selection.in_process, executors);
  std::vector<Executor*> all;
  for (const auto& executor : *executors) all.push_back(executor.get());
  const auto& kernels = hunted.selected.kernels;
  const auto tell = [&job, &kernels](const Found& found) {
    write_event(job.folder, {"found", kernels[found.kernel].judged.info.name,
                             found.input.law->id, to_string(found.input.value),
                             found.execution, seconds_since_began(job),
                             found.judgement->worst_ratio});
  };
  if (error.empty())
    *hunter = std::make_unique<Hunter>(*hunted.target, hunted.rules, kernels,
                                       all, guide, progress, tell);
  return error;
}

}  // namespace qkvet::cli
