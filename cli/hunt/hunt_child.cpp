// SPDX-License-Identifier: Apache-2.0
#include "cli/hunt/hunt_child.h"

#include <signal.h>
#include <sys/prctl.h>

#include <cstdlib>
#include <cstring>

#include "cli/hunt/hunt_job.h"
#include "fuzz/engines/engine.h"
#include "fuzz/hunt/hunter.h"

namespace qkvet::cli {
namespace {

// All state of a hunt. The engine ends the process, so it is never destroyed.
struct Hunt {
  HuntJob job;
  Hunted hunted;
  SharedProgress progress{nullptr, nullptr};
  std::vector<std::unique_ptr<Executor>> executors;
  std::unique_ptr<Hunter> hunter;
  double told = 0;  // the ratio that was called out last

  double seconds() const { return seconds_since_began(job); }
};

const std::string& kernel_name(const Hunt& hunt, size_t kernel) {
  return hunt.hunted.selected.kernels[kernel].judged.info.name;
}

// Only when it has grown by a tenth: a hunt climbs in thousands of steps.
void tell_closest(Hunt& hunt) {
  const Hunter::Closest& closest = hunt.hunter->closest();
  if (!(closest.ratio > 1.1 * hunt.told)) return;
  hunt.told = closest.ratio;
  write_event(hunt.job.folder,
              {"closest", kernel_name(hunt, closest.kernel),
               closest.input.law->id, to_string(closest.input.value),
               hunt.progress->executions, hunt.seconds(), closest.ratio});
}

Guide::Sight sight_of(const Hunt& hunt) {
  return hunt.job.guided ? sight_of(*hunt.hunted.target)
                         : Guide::Sight::kNothing;
}

// The engine counts whole seconds only. Nothing is lost: it writes at once
// whatever it keeps.
void end_in_time(const Hunt& hunt) {
  if (hunt.job.seconds > 0 && hunt.seconds() > hunt.job.seconds) std::_Exit(0);
}

void hook_kernels(Hunt& hunt) {
  EngineHooks& hooks = engine_hooks();
  hooks.rules = &hunt.hunter->rules();
  hooks.values_percent = hunt.hunted.target->values_percent;
  hooks.run = [&hunt](std::span<const uint8_t> bytes) {
    hunt.hunter->run(bytes);
    tell_closest(hunt);
    if (hunt.hunter->exhausted()) {
      write_event(hunt.job.folder, {"stopped", "", "", "every kernel hangs"});
      std::_Exit(0);
    }
    end_in_time(hunt);
  };
}

void hook_bytes(Hunt& hunt) {
  engine_hooks().run = [&hunt](std::span<const uint8_t> bytes) {
    ++hunt.progress->executions;
    std::string said;
    const std::string wrong = hunt.hunted.target->check(bytes, &said);
    Guide(engine_counters(), sight_of(hunt)).answered(said);
    ++hunt.progress->checked;
    if (wrong.empty()) return end_in_time(hunt);
    write_event(hunt.job.folder, {"wrong", "", "", wrong,
                                  hunt.progress->executions, hunt.seconds()});
    std::abort();  // so that the engine keeps the input
  };
}

std::string begin(Hunt& hunt, const std::string& path) {
  std::string error;
  const std::optional<HuntJob> job = read_job(path, &error);
  if (!job) return error;
  hunt.job = *job;
  hunt.hunted = hunted(hunt.job);
  if (!hunt.hunted.error.empty()) return hunt.hunted.error;
  hunt.progress =
      open_progress(progress_path(hunt.job.folder), /*create=*/false, &error);
  if (hunt.progress == nullptr) return error;
  if (!hunt.hunted.target->about_kernels()) {
    hook_bytes(hunt);
    return "";
  }
  error = open_hunter(hunt.hunted, hunt.job,
                      Guide(engine_counters(), sight_of(hunt)), *hunt.progress,
                      &hunt.executors, &hunt.hunter);
  if (error.empty()) hook_kernels(hunt);
  return error;
}

}  // namespace

bool is_hunt_child(int argc, char** argv) {
  return argc > 1 &&
         std::strncmp(argv[argc - 1], kHuntWord, sizeof(kHuntWord) - 1) == 0;
}

int run_hunt_child(int argc, char** argv) {
  // After the end of the parent program, findings have no reader.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  static Hunt hunt;
  const std::string path = argv[argc - 1] + sizeof(kHuntWord) - 1;
  if (const std::string error = begin(hunt, path); !error.empty()) {
    if (!hunt.job.folder.empty())
      write_event(hunt.job.folder, {"stopped", "", "", error});
    return kHuntNotBegun;
  }
  return run_engine(argc, argv);
}

}  // namespace qkvet::cli
