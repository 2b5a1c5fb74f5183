// SPDX-License-Identifier: Apache-2.0
// The program: its commands, each a file of this folder that has its flags and
// its run, and what all of them share.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "core/sandbox/worker.h"
#include "tools/base/host_limits.h"
#include "tools/commands/flags.h"
#include "tools/hunt/hunt_child.h"
#include "tools/report/select.h"

// In the order of --help.
// clang-format off
#define QKVET_COMMANDS(COMMAND) \
  COMMAND(list) \
  COMMAND(check) \
  COMMAND(explain) \
  COMMAND(faults) \
  COMMAND(fuzz) \
  COMMAND(mutate) \
  COMMAND(repair) \
  COMMAND(identify) \
  COMMAND(new) \
  COMMAND(bench) \
  COMMAND(kv_memory) \
  COMMAND(golden) \
  COMMAND(emit) \
  COMMAND(judge) \
  COMMAND(inspect) \
  COMMAND(trace) \
  COMMAND(train_demo) \
  COMMAND(report) \
  COMMAND(diff) \
  COMMAND(merge) \
  COMMAND(replay) \
  COMMAND(completion) \
  COMMAND(man)
// clang-format on

namespace qkvet::tools {

#define QKVET_DECLARED(name) void add_##name(Command& app, Chosen& chosen);
QKVET_COMMANDS(QKVET_DECLARED)

namespace {

#define QKVET_ROW(name) add_##name,
constexpr void (*kCommands[])(Command&, Chosen&) = {QKVET_COMMANDS(QKVET_ROW)};

int run_program(int argc, char** argv) {
  const CommandLine line(
      "QKVet vets attention kernels: law by law, or the smallest failing "
      "case.\nExit: 0 conforms, 1 a law failed, 2 wrong use, 3 "
      "incomplete, 4 a kernel died.",
      "qkvet", QKVET_VERSION);
  Command program = line.program();
  program.needs_a_command();
  bool parse_only = false;
  program.add_flag(
      "--parse-only", parse_only,
      "Read the command line, and run nothing: 0 if it can be read");
  Chosen chosen;
  for (const auto add : kCommands) add(program, chosen);
  std::string error;
  switch (line.read(argc, argv, &error)) {
    case CommandLine::Read::kShown:
      return ExitCode::kConforms;
    case CommandLine::Read::kWrong:
      return wrong_use(error);
    case CommandLine::Read::kRun:
      break;
  }
  if (parse_only) return ExitCode::kConforms;
  if (error = line.bad_output(); !error.empty()) return wrong_use(error);
  return chosen();
}

// A report that did not arrive is no verdict.
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
    // fmt throws if nothing can be written any more.
    if (std::ferror(stdout) == 0) throw;
    return with_output(ExitCode::kConforms);
  }
}

}  // namespace
}  // namespace qkvet::tools

// An exception that gets here is a defect: it ends the program with its text.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  // Words of the engine, which are none of ours.
  if (qkvet::tools::is_hunt_child(argc, argv))
    return qkvet::tools::run_hunt_child(argc, argv);
  return qkvet::tools::run_main(argc, argv);
}
