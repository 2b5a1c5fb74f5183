// SPDX-License-Identifier: Apache-2.0
#include "cli/hunt/hunt_job.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>

#include "cli/terminal/select.h"
#include "core/base/json.h"
#include "core/base/read_file.h"
#include "fuzz/targets/rules.h"

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

int64_t monotonic_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double seconds_since_began(const HuntJob& job) {
  return 1e-9 * static_cast<double>(monotonic_nanoseconds() - job.began);
}

std::string job_text(const HuntJob& job) {
  const KernelSelection& s = job.selection;
  return json_text(Json{{"target", job.target},
                        {"kernels", s.kernels},
                        {"plugins", s.plugins},
                        {"built_in", s.built_in},
                        {"sources", s.sources},
                        {"cflags", s.cflags},
                        {"dialect", s.dialect},
                        {"precision", s.precision},
                        {"in_process", s.in_process},
                        {"laws", job.laws},
                        {"pin", job.pin},
                        {"guided", job.guided},
                        {"recipes", job.recipes},
                        {"folder", job.folder},
                        {"began", job.began},
                        {"seconds", job.seconds}});
}

std::optional<HuntJob> read_job(const std::string& path, std::string* error) {
  std::string text;
  *error = read_file(path, &text);
  if (!error->empty()) return std::nullopt;
  const ReadJson json = read_json(text);
  *error = path + ": no hunt";
  if (!json.is_object()) return std::nullopt;
  HuntJob job;
  KernelSelection& s = job.selection;
  job.target = json.value("target", "");
  s.kernels = json.value("kernels", s.kernels);
  s.plugins = json.value("plugins", s.plugins);
  s.built_in = json.value("built_in", s.built_in);
  s.sources = json.value("sources", s.sources);
  s.cflags = json.value("cflags", s.cflags);
  s.dialect = json.value("dialect", s.dialect);
  s.precision = json.value("precision", s.precision);
  s.in_process = json.value("in_process", false);
  job.laws = json.value("laws", job.laws);
  job.pin = json.value("pin", "");
  job.guided = json.value("guided", true);
  job.recipes = json.value("recipes", true);
  job.folder = json.value("folder", "");
  job.began = json.value("began", int64_t{0});
  job.seconds = json.value("seconds", 0.0);
  error->clear();
  return job;
}

std::string progress_path(const std::string& folder) {
  return folder + "/progress";
}
std::string events_path(const std::string& folder) {
  return folder + "/events.jsonl";
}

void write_event(const std::string& folder, const HuntEvent& event) {
  const std::string line =
      json_text(Json{{"what", event.what},
                     {"kernel", event.kernel},
                     {"law", event.law},
                     {"text", event.text},
                     {"execution", event.execution},
                     {"seconds", event.seconds},
                     // JSON has no infinity.
                     {"ratio", std::min(event.ratio,
                                        std::numeric_limits<double>::max())}}) +
      "\n";
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
  for (std::string line; std::getline(file, line);) {
    const ReadJson json = read_json(line);
    if (!json.is_object()) continue;
    events.push_back({json.value("what", ""), json.value("kernel", ""),
                      json.value("law", ""), json.value("text", ""),
                      json.value("execution", int64_t{0}),
                      json.value("seconds", 0.0), json.value("ratio", 0.0)});
  }
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

}  // namespace qkvet::cli
