// SPDX-License-Identifier: Apache-2.0
// The command line. The only file that knows CLI11, which is slow to compile.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "tools/commands.h"

namespace {

void add_selection(CLI::App& command, qkvet::KernelSelection& selection) {
  command
      .add_option("-k,--kernel", selection.kernels,
                  "Kernel family/variant, or a glob; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command
      .add_option("-p,--plugin", selection.plugins,
                  "Shared library that exports qkvet_open; may be repeated")
      ->type_name("FILE[:config]")
      ->allow_extra_args(false);
  command
      .add_option("--dialect", selection.dialect,
                  "File of dialect fields, instead of the kernel's own")
      ->type_name("FILE");
  command
      .add_option("--precision", selection.precision,
                  "File of precision fields, instead of the kernel's own")
      ->type_name("FILE");
  command
      .add_option("--cflags", selection.cflags,
                  "Further words for the compiler of SOURCE")
      ->type_name("FLAGS");
  command.add_flag("--in-process", selection.in_process,
                   "Run kernels in this process: for debuggers");
}

CLI::App& add_list(CLI::App& app, qkvet::ListOptions& options) {
  CLI::App& command = *app.add_subcommand("list", "Show kernels, laws, faults");
  command.add_option("what", options.what, "kernels, laws or faults")
      ->check(CLI::IsMember({"kernels", "laws", "faults"}));
  command.add_flag("--json", options.json, "JSON Lines");
  return command;
}

CLI::App& add_check(CLI::App& app, qkvet::CheckOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "check", "Judge kernels; if none is named, the built-in ones");
  add_selection(command, options.selection);
  command.add_option("source", options.selection.sources,
                     "Kernels to compile and judge: .c, .cpp, .cc, .cxx, .rs");
  command
      .add_option("-l,--law", options.laws, "Law, or a glob; may be repeated")
      ->type_name("LAW")
      ->allow_extra_args(false);
  // Twelve digits of cases are some years.
  auto* cases = command
                    .add_option("-n,--cases", options.cases,
                                "Cases per kernel, over all laws together")
                    ->check(CLI::Range(int64_t{1}, int64_t{1000000000000}))
                    ->capture_default_str();
  command
      .add_option("--budget", options.budget,
                  "Time instead of a number of cases, in whole rounds")
      ->type_name("60s")
      ->excludes(cases);
  command
      .add_flag("--exhaustive", options.exhaustive,
                "Every case with extents up to 3 and every pair of options, "
                "instead of random ones")
      ->excludes(cases);
  command.add_option("--seed", options.seed, "Number, or random")
      ->capture_default_str();
  command.add_option("-j,--jobs", options.jobs, "Threads; 0: one per core")
      ->check(CLI::Range(0, 1024));
  command
      .add_option("--sizes", options.sizes,
                  "Largest cases: small (T, d <= 24), medium (80), large (300)")
      ->check(CLI::IsMember({"small", "medium", "large"}))
      ->capture_default_str();
  command.add_flag("--allow-loose", options.allow_loose,
                   "Believe a declared precision that is looser than generic");
  command.add_flag("--strict", options.strict,
                   "Believe nothing that is assumed: all must be declared");
  command
      .add_option("--pin", options.pin,
                  "Extents that every case has, such as d=72,Tk=64")
      ->type_name("EXTENTS");
  command.add_option("--junit", options.junit, "JUnit XML")->type_name("FILE");
  command.add_option("--json", options.json, "JSON Lines")->type_name("FILE");
  return command;
}

CLI::App& add_replay(CLI::App& app, qkvet::ReplayOptions& options) {
  CLI::App& command =
      *app.add_subcommand("replay", "Run one case, or those of a list");
  command
      .add_option("case", options.target,
                  "A case as reports print it, or @FILE with one per line")
      ->required();
  add_selection(command, options.selection);
  command.add_option("source", options.selection.sources,
                     "Kernels to compile: .c, .cpp, .cc, .cxx, .rs");
  command.add_option("-l,--law", options.laws, "Law, or a glob")
      ->type_name("LAW")
      ->allow_extra_args(false);
  command
      .add_option("--digest", options.digest,
                  "Eight hex digits: the inputs must be these")
      ->type_name("HEX");
  return command;
}

CLI::App& add_new(CLI::App& app, qkvet::NewOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "new", "Write a kernel that compiles and conforms, to make it yours");
  command
      .add_option("file", options.file, "Ends in .cpp, .cc, .cxx, .c or .rs")
      ->required();
  command
      .add_option("-t,--template", options.kind,
                  "plain: a function over contiguous f32; abi: the whole ABI; "
                  "cache: a KV cache; rust")
      ->type_name("NAME");
  return command;
}

// CLI11 would only say that some subcommand is required.
bool unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return false;
  const auto commands = app.get_subcommands({});
  return std::none_of(
      commands.begin(), commands.end(),
      [&](const CLI::App* known) { return known->get_name() == argv[1]; });
}

}  // namespace

// An exception that gets here is a defect: it ends the program with its text.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  CLI::App app(
      "QKVet vets attention kernels: law by law, or the smallest failing "
      "case.\nExit: 0 conforms, 1 a law failed, 2 wrong use, 3 nothing "
      "checked, 4 a kernel died.",
      "qkvet");
  app.set_version_flag("--version", QKVET_VERSION);
  app.require_subcommand(1);
  qkvet::ListOptions list;
  qkvet::CheckOptions check;
  qkvet::ReplayOptions replay;
  qkvet::NewOptions create;
  CLI::App& list_command = add_list(app, list);
  CLI::App& check_command = add_check(app, check);
  const CLI::App& new_command = add_new(app, create);
  add_replay(app, replay);
  if (unknown_command(app, argc, argv))
    return qkvet::wrong_use("unknown command \"" + std::string(argv[1]) +
                            "\"; allowed: list, check, replay, new");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    std::string line = error.what();
    for (char& c : line)
      if (c == '\n') c = ' ';
    return qkvet::wrong_use(line + " (--help shows what is allowed)");
  }
  if (list_command.parsed()) return qkvet::run_list(list);
  if (check_command.parsed()) return qkvet::run_check(check);
  if (new_command.parsed()) return qkvet::run_new(create);
  return qkvet::run_replay(replay);
}
