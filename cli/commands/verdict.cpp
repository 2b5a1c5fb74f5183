// SPDX-License-Identifier: Apache-2.0
// qkvet verdict: the judge of the Python package (python/verdict.md), which
// takes the place of this process.
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/commands/flags.h"
#include "cli/commands/groups.h"
#include "cli/kernels/kernels.h"
#include "cli/terminal/select.h"

namespace qkvet::cli {
namespace {

struct VerdictOptions {
  std::string task;
  std::vector<std::string> candidates;
  std::string seed;
  int jobs = 0;
  std::vector<std::string> without;
};

// Without the package: one line, as every wrong use.
constexpr const char* kPython = R"(import sys
try:
    from qkvet.verdict.command import main
except ImportError as error:
    sys.exit(sys.stderr.write(f"qkvet: verdict: {sys.executable}: {error}; "
        "allowed: pip install qkvet, or $QKVET_PYTHON\n") and 2)
sys.exit(main(sys.argv[1:]))
)";

ExitCode run(const VerdictOptions& options) {
  const std::string python = python_interpreter();
  std::vector<std::string> words = {python, "-c", kPython, options.task};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {flag, value});
  };
  words.insert(words.end(), options.candidates.begin(),
               options.candidates.end());
  add("--seed", options.seed);
  add("--jobs", options.jobs > 0 ? std::to_string(options.jobs) : "");
  for (const std::string& part : options.without) add("--without", part);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  setenv("QKVET_PYTHON", python.c_str(), 0);
  setenv("QKVET_HOME", (program_directory() + "/..").c_str(), 0);
  execvp(python.c_str(), arguments.data());
  return wrong_use(python + ": " + std::strerror(errno) +
                   "; allowed: a Python 3 with the package qkvet, or its path "
                   "in $QKVET_PYTHON");
}

void add_flags(CLI::App& command, VerdictOptions& options) {
  command.add_option("task", options.task, "Task file, or a shipped task")
      ->required();
  command.add_option(
      "candidate", options.candidates,
      "FILE.py, FILE.cpp, FILE.so, MODULE:NAME or unix:PATH [standard input]");
  command.add_option("--seed", options.seed, "Seed [random]");
  add_jobs(command, options.jobs);
  command
      .add_option("--without", options.without,
                  "armour: do not confine candidates")
      ->check(CLI::IsMember({"armour"}));
  command.footer(
      "One line of JSON for each candidate (python/verdict.md). Requests are "
      "read from\nstandard input, or from the socket unix:PATH.\nExit: 0 all "
      "conform, 1 some do not, 2 wrong use, 3 the judge failed.");
}

}  // namespace

void add_verdict(CLI::App& app, Chosen& chosen) {
  add_command<VerdictOptions>(app, chosen, "verdict",
                              "Judge candidates of a task, for loops",
                              add_flags, run);
}

}  // namespace qkvet::cli
