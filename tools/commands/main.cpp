// SPDX-License-Identifier: Apache-2.0
// The command line. Only main*.cpp know CLI11, which is slow to compile.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "tools/base/load_data.h"
#include "tools/commands/main_golden.h"
#include "tools/commands/main_inspect.h"
#include "tools/commands/main_kernels.h"
#include "tools/hunt/hunt_child.h"
#include "tools/judge/main_judge.h"
#include "tools/report/commands.h"

namespace {

using qkvet::tools::add_kernels;
using qkvet::tools::add_selection;

CLI::App& add_list(CLI::App& app, qkvet::tools::ListOptions& options) {
  CLI::App& command = *app.add_subcommand("list", "Show kernels, laws, faults");
  command
      .add_option("what", options.what,
                  "kernels, laws, faults, fuzz, golden or conventions")
      ->check(CLI::IsMember(
          {"kernels", "laws", "faults", "fuzz", "golden", "conventions"}));
  qkvet::tools::add_plugins(command, options.plugins);
  command.add_flag("--json", options.json, "JSON Lines");
  return command;
}

CLI::App& add_check(CLI::App& app, qkvet::tools::CheckOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "check", "Judge kernels; if none is named, the built-in ones");
  add_selection(command, options.selection);
  command.add_option("source", options.selection.sources,
                     "Kernels to compile and judge: .c, .cpp, .cc, .cxx, .rs");
  command
      .add_option("-l,--law", options.laws, "Law, or a glob; may be repeated")
      ->type_name("LAW")
      ->allow_extra_args(false);
  auto* cases =
      command
          .add_option("-n,--cases", options.cases,
                      "Cases per kernel, over all laws together [" +
                          std::to_string(qkvet::tools::kDefaultCases) +
                          "; where none is named " +
                          std::to_string(qkvet::tools::kShortCasesPerLaw) +
                          " a law]")
          ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000'000}));
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
                   "Believe a loose precision, --strict or not");
  command.add_flag(
      "--strict", options.strict,
      "Believe nothing that is assumed, all must be declared, and no "
      "precision that is looser than generic");
  command
      .add_option("--pin", options.pin,
                  "Extents that every case has, such as d=72,Tk=64")
      ->type_name("EXTENTS");
  command.add_option("--junit", options.junit, "JUnit XML")->type_name("FILE");
  command.add_option("--json", options.json, "JSON Lines")->type_name("FILE");
  command
      .add_option(
          "--known", options.known,
          "Failures that are accepted: KERNEL LAW HOW SINCE WHY, a line "
          "each")
      ->type_name("FILE");
  command.add_flag("--fail-fast", options.fail_fast,
                   "No further round of cases once something has failed");
  command.add_flag("-v,--verbose", options.verbose,
                   "A line for every law of every kernel");
  command
      .add_option("--diagnose", options.diagnose,
                  "Failing kernels whose cause is looked for, at most")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
  return command;
}

CLI::App& add_replay(CLI::App& app, qkvet::tools::ReplayOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "replay", "Run one case, those of a list, or a recorded story");
  command
      .add_option("case", options.target,
                  "A case as reports print it, @FILE with one per line, or a "
                  "recording X.story")
      ->required();
  add_selection(command, options.selection);
  command.add_option("source", options.selection.sources,
                     "Kernels to compile: .c, .cpp, .cc, .cxx, .rs");
  command.add_option("-l,--law", options.laws, "Law, or a glob")
      ->type_name("LAW")
      ->allow_extra_args(false);
  command
      .add_option("--data", options.data,
                  "File that the case takes its data from; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command
      .add_option("--digest", options.digest,
                  "Eight hex digits: the inputs must be these")
      ->type_name("HEX");
  command
      .add_option("--emit", options.emit,
                  "Write the failure as one C file, one Python file or a "
                  "folder of .npy files")
      ->check(CLI::IsMember({"c", "py", "npy"}));
  command
      .add_option("--out", options.out,
                  "Where --emit writes to, instead of qkvet-LAW")
      ->type_name("PATH");
  command.add_flag("--force", options.force, "--emit replaces what is there");
  return command;
}

CLI::App& add_explain(CLI::App& app, qkvet::tools::ExplainOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "explain",
      "Say what a law, a fault or an exit code means, by example, or how a "
      "known library spells a call");
  command
      .add_option("name", options.name,
                  "A law, a fault, a convention, or 0 .. 4")
      ->required();
  return command;
}

CLI::App& add_faults(CLI::App& app, qkvet::tools::FaultsOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "faults", "Hold every seeded fault against every law");
  add_kernels(command, options.selection);
  command.add_option("-l,--law", options.laws, "Law, or a glob")
      ->type_name("LAW")
      ->allow_extra_args(false);
  auto* cases =
      command
          .add_option("-n,--cases", options.cases, "Cases per fault and law")
          ->check(CLI::Range(int64_t{1}, int64_t{1000000000}));
  command
      .add_option("--budget", options.budget,
                  "Time for the whole run instead, the same for each fault")
      ->type_name("5m")
      ->excludes(cases);
  command.add_option("--seed", options.seed, "Number, or random")
      ->capture_default_str();
  command.add_option("-j,--jobs", options.jobs, "Threads; 0: one per core")
      ->check(CLI::Range(0, 1024));
  command.add_flag("--named", options.named,
                   "Only the laws that a fault names; all of them must kill");
  command.add_flag("--every-case", options.every_case,
                   "Go on after a kill: each failure must lie in the trigger");
  command.add_flag("--sabotage", options.sabotage,
                   "Also with oracles that share the fault: takes long");
  command.add_option("--json", options.json, "JSON Lines")->type_name("FILE");
  return command;
}

void add_hunt_inputs(CLI::App& command, qkvet::tools::FuzzOptions& options) {
  command
      .add_option("--corpus", options.corpus,
                  "Folder of inputs that the hunt begins with and adds to")
      ->type_name("DIR");
  command
      .add_option("--seeds", options.seeds,
                  "Folder of inputs that is only read; may be repeated")
      ->type_name("DIR")
      ->allow_extra_args(false);
  command
      .add_option("--merge", options.merge,
                  "Instead of a hunt: adds to the corpus what these folders "
                  "show beyond it")
      ->type_name("DIR");
  command
      .add_option("--replay", options.replay,
                  "Instead of a hunt: inputs, or folders of them, one by one")
      ->type_name("PATH");
  command
      .add_option("--regressions", options.regressions,
                  "File that gets a line for each finding, for qkvet replay "
                  "@FILE")
      ->type_name("FILE");
}

CLI::App& add_fuzz(CLI::App& app, qkvet::tools::FuzzOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "fuzz", "Hunt for cases that fail, climbing towards trouble");
  command
      .add_option("target", options.target, "What to hunt (qkvet list fuzz)")
      ->required();
  command.add_option("source", options.selection.sources,
                     "Kernels to compile: .c, .cpp, .cc, .cxx, .rs");
  add_selection(command, options.selection);
  command
      .add_option("-l,--law", options.laws,
                  "Of the target's laws only these; may be repeated")
      ->type_name("LAW")
      ->allow_extra_args(false);
  command
      .add_option("--time", options.time, "How long; 60s if nothing is said")
      ->type_name("60s");
  command.add_option("--runs", options.runs, "How many executions at most")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000000000}));
  command.add_option("--seed", options.seed, "Number, or random")
      ->capture_default_str();
  command.add_option("-j,--jobs", options.jobs, "Processes that hunt")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_flag("--fail-fast", options.fail_fast,
                   "End with the first failure");
  command
      .add_option("--pin", options.pin,
                  "Extents that every case has, such as d=72,Tk=64")
      ->type_name("EXTENTS");
  add_hunt_inputs(command, options);
  command.add_flag("--unguided", options.unguided,
                   "Without error, magnitudes and options as a signal");
  command.add_flag("--no-recipes", options.no_recipes,
                   "Data is N(0,1) and single values");
  command.add_flag("--keep", options.keep,
                   "Keep the folder of the hunt, with the engine's words");
  command
      .add_option("--diagnose", options.diagnose,
                  "Failing kernels whose cause is looked for, at most")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
  return command;
}

CLI::App& add_new(CLI::App& app, qkvet::tools::NewOptions& options) {
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

CLI::App& add_bench(CLI::App& app, qkvet::tools::BenchDecodeOptions& options) {
  CLI::App& bench = *app.add_subcommand("bench", "Measure; nothing is judged");
  bench.require_subcommand(1);
  CLI::App& command = *bench.add_subcommand(
      "decode",
      "The time of one more token with a KV cache, and with its prefix "
      "recomputed, over growing contexts");
  add_kernels(command, options.selection);
  // As the extents of a case.
  const auto extent = CLI::Range(int64_t{1}, int64_t{1} << 24);
  command.add_option("--contexts", options.contexts, "Tokens in the cache")
      ->type_name("N,N,...")
      ->capture_default_str();
  command.add_option("--heads", options.heads, "H")
      ->check(extent)
      ->capture_default_str();
  command.add_option("--kv-heads", options.kv_heads, "Hkv; absent: H")
      ->check(extent);
  command.add_option("--d", options.d, "Width of a head")
      ->check(extent)
      ->capture_default_str();
  command.add_option("--repeat", options.repeat, "Rounds over all contexts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--json", options.json, "JSON Lines")->type_name("FILE");
  return bench;
}

CLI::App& add_kv_memory(CLI::App& app, qkvet::tools::KvMemoryOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "kv-memory", "What the KV cache of a model takes, and is allocated");
  const struct {
    const char* name;
    int64_t* number;
    const char* what;
  } rows[] = {{"--layers", &options.layers, "Layers of the model"},
              {"--kv-heads", &options.kv_heads, "Key/value heads of a layer"},
              {"--d-head", &options.d, "Width of a head"},
              {"--context", &options.context, "Tokens of a sequence"},
              {"--batch", &options.batch, "Sequences"}};
  for (const auto& row : rows)
    command.add_option(row.name, *row.number, row.what)->required();
  command
      .add_option("--dtype", options.dtype, "f32, f16, bf16, fp8e4m3 or int8")
      ->required();
  return command;
}

// "" or what is wrong with the first words; CLI11 would only say that some
// subcommand is required.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
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

}  // namespace

// An exception that gets here is a defect: it ends the program with its text.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  // Words of the engine, which are none of ours.
  if (qkvet::tools::is_hunt_child(argc, argv))
    return qkvet::tools::run_hunt_child(argc, argv);
  CLI::App app(
      "QKVet vets attention kernels: law by law, or the smallest failing "
      "case.\nExit: 0 conforms, 1 a law failed, 2 wrong use, 3 nothing "
      "checked, 4 a kernel died.",
      "qkvet");
  app.set_version_flag("--version", QKVET_VERSION);
  app.require_subcommand(1);
  qkvet::tools::ListOptions list;
  qkvet::tools::CheckOptions check;
  qkvet::tools::ReplayOptions replay;
  qkvet::tools::ExplainOptions explain;
  qkvet::tools::FaultsOptions faults;
  qkvet::tools::FuzzOptions fuzz;
  qkvet::tools::NewOptions create;
  qkvet::tools::BenchDecodeOptions bench;
  qkvet::tools::KvMemoryOptions memory;
  CLI::App& list_command = add_list(app, list);
  CLI::App& check_command = add_check(app, check);
  const CLI::App& explain_command = add_explain(app, explain);
  const CLI::App& faults_command = add_faults(app, faults);
  const CLI::App& fuzz_command = add_fuzz(app, fuzz);
  const CLI::App& new_command = add_new(app, create);
  const CLI::App& bench_command = add_bench(app, bench);
  const CLI::App& memory_command = add_kv_memory(app, memory);
  qkvet::tools::GoldenCommands golden(app);
  const qkvet::tools::JudgeCommands judges(app);
  const qkvet::tools::InspectCommands shows(app);
  add_replay(app, replay);
  if (const std::string line = unknown_command(app, argc, argv); !line.empty())
    return qkvet::tools::wrong_use(line);
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
    return qkvet::tools::wrong_use(line + " (--help shows what is allowed)");
  }
  if (list_command.parsed())
    return !list.plugins.empty()   ? qkvet::tools::run_list_plugins(list)
           : list.what == "fuzz"   ? qkvet::tools::run_list_fuzz(list)
           : list.what == "golden" ? qkvet::tools::run_list_golden(list)
           : list.what == "conventions"
               ? qkvet::tools::run_list_conventions(list)
               : qkvet::tools::run_list(list);
  if (const auto code = judges.run()) return *code;
  if (const auto code = shows.run()) return *code;
  if (fuzz_command.parsed()) return qkvet::tools::run_fuzz(fuzz);
  if (golden.parsed()) return golden.run();
  if (check_command.parsed()) return qkvet::tools::run_check(check);
  if (explain_command.parsed()) return qkvet::tools::run_explain(explain);
  if (faults_command.parsed()) return qkvet::tools::run_faults(faults);
  if (new_command.parsed()) return qkvet::tools::run_new(create);
  if (bench_command.parsed()) return qkvet::tools::run_bench_decode(bench);
  if (memory_command.parsed()) return qkvet::tools::run_kv_memory(memory);
  if (const std::string line = qkvet::tools::load_data(replay.data);
      !line.empty())
    return qkvet::tools::wrong_use(line);
  return qkvet::tools::run_replay(replay);
}
