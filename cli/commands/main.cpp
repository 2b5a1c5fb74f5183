// SPDX-License-Identifier: Apache-2.0
// The program: its commands, each a file of this folder with its flags and its
// run, and their common parts.
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <string>

#include "cli/base/host_limits.h"
#include "cli/commands/flags.h"
#include "cli/commands/groups.h"
#include "cli/hunt/hunt_child.h"
#include "cli/terminal/select.h"
#include "core/sandbox/worker.h"

// In the order of --help.
// clang-format off
#define QKVET_COMMANDS(COMMAND) \
  COMMAND(check) \
  COMMAND(replay) \
  COMMAND(explain) \
  COMMAND(new) \
  COMMAND(identify) \
  COMMAND(mutate) \
  COMMAND(fuzz) \
  COMMAND(golden) \
  COMMAND(judge) \
  COMMAND(verdict) \
  COMMAND(report) \
  COMMAND(bench) \
  COMMAND(demo) \
  COMMAND(completion) \
  COMMAND(man)
// clang-format on

namespace qkvet::cli {

using Add = void (*)(CLI::App&, Chosen&);

void add_group(CLI::App& app, Chosen& chosen, const char* name,
               const char* what, std::initializer_list<Add> commands) {
  CLI::App& group = *app.add_subcommand(name, what);
  group.require_subcommand(1);
  for (const Add add : commands) add(group, chosen);
}

void add_golden(CLI::App& app, Chosen& chosen) {
  add_group(app, chosen, "golden",
            "Calls with known outputs: verify, record, show, import",
            {add_golden_verify, add_golden_record, add_golden_show,
             add_golden_import});
}

void add_demo(CLI::App& app, Chosen& chosen) {
  add_group(app, chosen, "demo",
            "Demonstrate attention: inspect, trace, train, memory",
            {add_inspect, add_trace, add_train, add_memory});
}

#define QKVET_DECLARED(name) void add_##name(CLI::App& app, Chosen& chosen);
QKVET_COMMANDS(QKVET_DECLARED)

namespace {

#define QKVET_ROW(name) add_##name,
constexpr Add kCommands[] = {QKVET_COMMANDS(QKVET_ROW)};

int run_program(int argc, char** argv) {
  CLI::App program(
      "QKVet vets attention kernels: law by law, or the smallest failing "
      "case.\nExit: 0 conforms, 1 a law failed, 2 wrong use, 3 "
      "incomplete, 4 a kernel died.",
      "qkvet");
  program.set_version_flag("--version", QKVET_VERSION);
  program.require_subcommand(1);
  bool parse_only = false;
  program.add_flag("--parse-only", parse_only, "Parse the command line only")
      ->group("");
  Chosen chosen;
  for (const auto add : kCommands) add(program, chosen);
  std::string error;
  switch (read_command_line(program, argc, argv, &error)) {
    case CommandLine::kShown:
      return ExitCode::kConforms;
    case CommandLine::kWrong:
      return wrong_use(error);
    case CommandLine::kRun:
      break;
  }
  if (parse_only) return ExitCode::kConforms;
  if (error = bad_output(program); !error.empty()) return wrong_use(error);
  return chosen();
}

// A report that could not be written is no verdict.
int with_output(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  return wrong_use("stdout: cannot be written in full");
}

// The caller may pass the reading end of a pipe: the program ends with the last
// writer, in whichever way that one ends.
void end_with_caller() {
  constexpr const char* kVariable = "QKVET_LIFELINE";
  const char* text = std::getenv(kVariable);
  if (text == nullptr) return;
  const int pipe = std::atoi(text);
  unsetenv(kVariable);
  if (fcntl(pipe, F_SETFD, FD_CLOEXEC) == 0) end_with_writer(pipe, getpid());
}

int run_main(int argc, char** argv) {
  end_with_caller();
  prepare_limits();
  try {
    return with_output(run_program(argc, argv));
  } catch (const std::exception&) {
    // fmt throws if nothing more can be written.
    if (std::ferror(stdout) == 0) throw;
    return with_output(ExitCode::kConforms);
  }
}

}  // namespace
}  // namespace qkvet::cli

// An exception that gets here is a defect: it ends the program with its text.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
#ifdef M_TRIM_THRESHOLD
  // Memory of one case is kept for the next: the system clears each page that
  // it gives. Above 32 MiB glibc takes no threshold.
  constexpr int kKeptBytes = 1 << 28, kMappedBytes = 1 << 25;
  mallopt(M_TRIM_THRESHOLD, kKeptBytes);
  mallopt(M_MMAP_THRESHOLD, kMappedBytes);
#endif
  // Words of the fuzzing engine, not of the program.
  if (qkvet::cli::is_hunt_child(argc, argv))
    return qkvet::cli::run_hunt_child(argc, argv);
  return qkvet::cli::run_main(argc, argv);
}
