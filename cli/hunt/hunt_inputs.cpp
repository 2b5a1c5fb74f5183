// SPDX-License-Identifier: Apache-2.0
#include "cli/hunt/hunt_inputs.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "cli/terminal/report.h"
#include "core/base/read_file.h"
#include "properties/cases/generate.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

namespace fs = std::filesystem;

// Planned cases of each law that a hunt without inputs begins with.
constexpr int64_t kSeedsPerLaw = 4;

void add_list(const std::string& path, const std::string& text,
              std::vector<NamedInput>& inputs) {
  std::istringstream file(text);
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    inputs.push_back(
        {fmt::format("{}:{}", path, number), {line.begin(), line.end()}});
  }
}

std::string add_file(const std::string& path, std::vector<NamedInput>& inputs) {
  std::string text;
  if (std::string wrong = read_file(path, &text); !wrong.empty()) return wrong;
  if (path.ends_with(".txt"))
    add_list(path, text, inputs);
  else
    inputs.push_back({path, {text.begin(), text.end()}});
  return "";
}

std::string write_inputs(const std::string& folder,
                         const std::vector<NamedInput>& inputs) {
  std::error_code code;
  fs::create_directories(folder, code);
  int number = 0;
  for (const NamedInput& input : inputs) {
    std::string error = write_file(fmt::format("{}/{:05}", folder, ++number),
                                   {input.bytes.begin(), input.bytes.end()});
    if (!error.empty()) return error;
  }
  return "";
}

std::vector<NamedInput> planned_inputs(const Hunted& hunted, uint64_t seed) {
  std::vector<NamedInput> inputs;
  for (const Law* law : hunted.rules.laws)
    for (int64_t n = 1; n <= kSeedsPerLaw; ++n) {
      const Case value = nearest_legal(
          *law, planned_case(*law, seed, n, hunted.rules.scope), hunted.rules);
      const std::string text = encode_input({law, value});
      inputs.push_back({"planned", {text.begin(), text.end()}});
    }
  return inputs;
}

// Until the first that is wrong.
void replay_bytes(const FuzzTarget& target, const HuntJob& job,
                  const std::vector<NamedInput>& inputs, HuntEnd& end) {
  for (const NamedInput& input : inputs) {
    std::string said;
    ++end.executions;
    ++end.checked;
    const std::string wrong = target.check(input.bytes, &said);
    if (wrong.empty()) continue;
    write_event(job.folder, {"wrong", "", "", wrong, end.executions});
    end.crashes.push_back({input.name, "wrong"});
    return;
  }
}

std::string replay_cases(const Hunted& hunted, const HuntJob& job,
                         const std::vector<NamedInput>& inputs, HuntEnd& end) {
  std::string error;
  const SharedProgress progress =
      open_progress(progress_path(job.folder), /*create=*/true, &error);
  if (progress == nullptr) return error;
  std::vector<uint8_t> counters(kGuideCounters);
  std::vector<std::unique_ptr<Executor>> executors;
  std::unique_ptr<Hunter> hunter;
  error = open_hunter(hunted, job, Guide(counters, Guide::Sight::kNothing),
                      *progress, &executors, &hunter);
  if (!error.empty()) return error;
  for (const NamedInput& input : inputs) hunter->run(input.bytes);
  end.executions = progress->executions;
  end.checked = progress->checked;
  return "";
}

}  // namespace

std::vector<uint8_t> file_bytes(const std::string& path) {
  std::string text;
  if (!read_file(path, &text).empty()) return {};
  return {text.begin(), text.end()};
}

std::string read_inputs(const std::vector<std::string>& paths,
                        std::vector<NamedInput>& inputs) {
  for (const std::string& path : paths) {
    std::error_code code;
    if (fs::is_directory(path, code)) {
      std::vector<std::string> inside;
      for (const auto& entry : fs::directory_iterator(path, code))
        if (entry.is_regular_file()) inside.push_back(entry.path().string());
      std::sort(inside.begin(), inside.end());
      for (const std::string& file : inside)
        if (std::string wrong = add_file(file, inputs); !wrong.empty())
          return wrong;
    } else if (std::string wrong = add_file(path, inputs); !wrong.empty()) {
      return wrong;
    }
  }
  return inputs.empty() && !paths.empty() ? paths[0] + ": holds no input" : "";
}

std::string prepare_inputs(const Hunted& hunted, const std::string& own,
                           const std::string& corpus,
                           const std::vector<std::string>& seeds, uint64_t seed,
                           std::vector<std::string>& folders) {
  std::error_code code;
  folders = {corpus.empty() ? own + "/corpus" : corpus};
  fs::create_directories(folders[0], code);
  if (!fs::is_directory(folders[0], code))
    return "--corpus " + folders[0] + ": no folder, and none can be made";
  std::vector<NamedInput> begin_with;
  std::string error = read_inputs(seeds, begin_with);
  if (!error.empty()) return "--seeds " + error;
  if (begin_with.empty() && fs::is_empty(folders[0], code) &&
      hunted.target->about_kernels())
    begin_with = planned_inputs(hunted, seed);
  if (begin_with.empty()) return "";
  folders.push_back(own + "/seeds");
  return write_inputs(folders.back(), begin_with);
}

std::string replay_inputs(const Hunted& hunted, const HuntJob& job,
                          const std::vector<NamedInput>& inputs, HuntEnd& end) {
  std::string error;
  if (hunted.target->about_kernels())
    error = replay_cases(hunted, job, inputs, end);
  else
    replay_bytes(*hunted.target, job, inputs, end);
  end.seconds = seconds_since_began(job);
  return error;
}

}  // namespace qkvet::cli
