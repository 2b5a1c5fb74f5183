// SPDX-License-Identifier: Apache-2.0
// The job of the process that hunts for `qkvet fuzz`, in a file, because the
// engine starts further processes with the same words; and its results, a line
// per event.
#ifndef QKVET_CLI_HUNT_HUNT_JOB_H_
#define QKVET_CLI_HUNT_HUNT_JOB_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/kernels/kernels.h"
#include "fuzz/hunt/hunter.h"
#include "fuzz/input/input.h"
#include "fuzz/targets/target.h"

namespace qkvet::cli {

struct HuntJob {
  std::string target;
  KernelSelection selection;
  std::vector<std::string> laws;  // globs; empty: those of the target
  std::string pin;
  bool guided = true;
  bool recipes = true;
  std::string folder;  // of this hunt: progress, events, crashing inputs
  uint64_t began = 0;  // nanoseconds of the monotonic clock
  double seconds = 0;  // since then, until the process ends itself; 0: never

  void fields(auto& v) {
    KernelSelection& s = selection;
    v.must("target", target, "kernels", s.kernels, "plugins", s.plugins,
           "built_in", s.built_in, "sources", s.sources, "cflags", s.cflags,
           "dialect", s.dialect, "precision", s.precision, "in_process",
           s.in_process, "laws", laws, "pin", pin, "guided", guided, "recipes",
           recipes, "folder", folder, "began", began, "seconds", seconds);
  }
};

// The monotonic clock, which all processes of a machine share.
uint64_t monotonic_nanoseconds();
double seconds_since_began(const HuntJob& job);

std::string job_text(const HuntJob& job);
// On failure *error is one line.
std::optional<HuntJob> read_job(const std::string& path, std::string* error);

// The file that both sides have open.
std::string progress_path(const std::string& folder);
std::string events_path(const std::string& folder);

// An event that an engine's process reports.
struct HuntEvent {
  std::string what;  // found, closest, wrong (a check of bytes), stopped
  std::string kernel, law, text;  // text: the case, or the error
  int64_t execution = 0;
  double seconds = 0;        // since the hunt began
  double ratio = 0;          // of closest
  std::string died_at = {};  // the input that ended this process; not written

  void fields(auto& v) {
    v.must("what", what, "kernel", kernel, "law", law, "text", text,
           "execution", execution, "seconds", seconds, "ratio", ratio);
  }
};
void write_event(const std::string& folder, const HuntEvent& event);
std::vector<HuntEvent> read_events(const std::string& folder);

// A target with the kernels that it is about, ready to judge inputs.
struct Hunted {
  const FuzzTarget* target = nullptr;
  SelectedKernels selected;  // only those that declare the target's subject
  InputRules rules;
  std::string error;  // one line; if set, ignore the other fields
};
Hunted hunted(const HuntJob& job);

// The kernels and their hunter, which reports findings as events. "" or why the
// kernels cannot be opened.
std::string open_hunter(const Hunted& hunted, const HuntJob& job, Guide guide,
                        HuntProgress& progress,
                        std::vector<std::unique_ptr<Executor>>* executors,
                        std::unique_ptr<Hunter>* hunter);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_HUNT_HUNT_JOB_H_
