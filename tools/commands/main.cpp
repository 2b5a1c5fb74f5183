// SPDX-License-Identifier: Apache-2.0
// The program: its commands, each a file of this folder that has its flags and
// its run, and what all of them share. Only this folder knows CLI11.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>

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

#define QKVET_DECLARED(name) void add_##name(CLI::App& app, Chosen& chosen);
QKVET_COMMANDS(QKVET_DECLARED)

namespace {

#define QKVET_ROW(name) add_##name,
constexpr void (*kCommands[])(CLI::App&, Chosen&) = {QKVET_COMMANDS(QKVET_ROW)};

// "" or what is wrong with the first words; CLI11 would only say that some
// subcommand is required.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  int i = 1;
  // The program's own options are flags, and stand in front.
  while (i < argc && argv[i][0] == '-') ++i;
  for (; i < argc && argv[i][0] != '-'; ++i) {
    const auto commands = at->get_subcommands({});
    if (commands.empty()) return "";
    const auto known = std::find_if(
        commands.begin(), commands.end(),
        [&](const CLI::App* one) { return one->get_name() == argv[i]; });
    if (known == commands.end()) {
      std::string names;
      for (const CLI::App* one : commands)
        names += (names.empty() ? "" : ", ") + one->get_name();
      return "unknown command \"" + std::string(argv[i]) +
             "\"; allowed: " + names;
    }
    at = *known;
  }
  return "";
}

int run_program(int argc, char** argv) {
  CLI::App app(
      "QKVet vets attention kernels: law by law, or the smallest failing "
      "case.\nExit: 0 conforms, 1 a law failed, 2 wrong use, 3 nothing "
      "checked, 4 a kernel died.",
      "qkvet");
  app.set_version_flag("--version", QKVET_VERSION);
  app.require_subcommand(1);
  bool parse_only = false;
  app.add_flag("--parse-only", parse_only,
               "Read the command line, and run nothing: 0 if it can be read");
  Chosen chosen;
  for (const auto add : kCommands) add(app, chosen);
  if (const std::string line = unknown_command(app, argc, argv); !line.empty())
    return wrong_use(line);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    std::string line = error.what();
    std::replace(line.begin(), line.end(), '\n', ' ');
    return wrong_use(line + " (--help shows what is allowed)");
  }
  return parse_only ? ExitCode::kConforms : chosen();
}

}  // namespace
}  // namespace qkvet::tools

// An exception that gets here is a defect: it ends the program with its text.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  // Words of the engine, which are none of ours.
  if (qkvet::tools::is_hunt_child(argc, argv))
    return qkvet::tools::run_hunt_child(argc, argv);
  return qkvet::tools::run_program(argc, argv);
}
