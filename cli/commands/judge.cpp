// SPDX-License-Identifier: Apache-2.0
// qkvet judge: recorded answers, to a plan or one by one; with --ask the plan
// itself.
#include "cli/commands/judge.h"

#include <cstdio>
#include <filesystem>
#include <iterator>

#include "cli/commands/flags.h"
#include "cli/reproduce/plan_folder.h"
#include "cli/terminal/failure_tensors.h"
#include "cli/terminal/select.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

bool is_folder(const std::string& target) {
  std::error_code code;
  return std::filesystem::is_directory(target, code);
}

// The folder of an ONNX node test is a call.
bool is_onnx_test(const std::string& target) {
  std::error_code code;
  return std::filesystem::exists(std::filesystem::path(target) / "model.onnx",
                                 code);
}

ExitCode ask(const JudgeOptions& options) {
  AskOptions ask = options.ask;
  ask.dialect = options.dialect;
  ask.precision = options.precision;
  if (options.targets.size() > 1)
    return wrong_use(options.targets[1] +
                     ": --ask takes one plan, to write it in another format");
  if (!options.targets.empty()) ask.from = options.targets[0];
  if (!ask.from.empty() && (!ask.dialect.empty() || !ask.precision.empty()))
    return wrong_use(ask.from +
                     ": a plan with a declaration of its own; allowed beside "
                     "it: --ask, --format, --force");
  return judge_ask(ask);
}

ExitCode run(JudgeOptions options) {
  if (!options.ask.folder.empty()) return ask(options);
  std::vector<std::string>& targets = options.targets;
  if (targets.empty())
    return wrong_use(
        "judge: allowed is the folder of a plan, files of calls, or --ask DIR "
        "to write a plan");
  const bool plan = is_folder(targets[0]) && !is_onnx_test(targets[0]);
  if (!plan && !options.table.empty())
    return wrong_use(targets[0] +
                     ": no plan; --out is for the questions of one");
  if (!plan) return judge_calls(options);
  if (targets.size() > 2)
    return wrong_use(targets[2] +
                     ": allowed is a plan and a folder of answers, or files of "
                     "calls");
  if (targets.size() == 2) options.answers = targets[1];
  for (const std::string* text :
       {&options.value, &options.words.map, &options.words.layout})
    if (!text->empty())
      return wrong_use(
          targets[0] +
          ": a plan; --case, --map and --layout are for files of calls");
  return judge_plan(options);
}

}  // namespace

ExitCode report_answers(const JudgeOptions& options, const RunResult& result,
                        const RunOptions& run, const SelectedKernels& selected,
                        const Diagnoses& causes, Executor& answers,
                        const std::string& questions) {
  FailureTensors tensors;
  if (!options.json.empty() || options.files.any())
    tensors = collect_tensors(result, answers);
  ReportInput report{result,  run,    selected, /*in_process=*/false,
                     nullptr, &causes};
  report.tensors = &tensors;
  const RunRecord record = record_of(report);
  std::string error;
  if (!options.json.empty())
    error = write_file(options.json, start_text(record.start) + questions +
                                         result_lines(record));
  if (!error.empty()) return wrong_use(error);
  std::fputs(text_report(report, record, screen_style(options.verbose)).c_str(),
             stdout);
  std::fflush(stdout);
  error = write_reports(record, options.files);
  return error.empty() ? record.end.exit : wrong_use(error);
}

namespace {

// Files carry the calls and answers of a kernel that cannot be linked.
void add_ask(CLI::App& command, AskOptions& options) {
  CLI::Option* ask = command.add_option(
      "--ask", options.folder,
      "Write a plan for a kernel that cannot be linked to this folder");
  ask->type_name("DIR");
  add_laws(command, options.laws, "Law id, or a glob; may be repeated");
  command
      .add_option("-n,--cases", options.cases, "Number of cases, over all laws")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000}))
      ->capture_default_str();
  add_seed(command, options.seed);
  add_sizes(command, options.sizes);
  command
      .add_option(
          "--dtype", options.dtypes,
          "f64, f32, f16, bf16, or q/kv/o such as f32/f16/f32; may be repeated")
      ->type_name("TYPE")
      ->allow_extra_args(false);
  command
      .add_option("--options", options.options,
                  "Options that the kernel declares: all, or causal,gqa,...")
      ->type_name("WORDS");
  add_pin(command, options.pin);
  command
      .add_option("-k,--kernel", options.name, "Name of the kernel in reports")
      ->type_name("FAMILY/VARIANT")
      ->capture_default_str();
  command
      .add_option(
          "--format", options.format,
          "Files: npy (one per tensor), safetensors (one), recipe (none)")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kPlanFormats),
                                                     std::end(kPlanFormats))))
      ->capture_default_str();
  command.add_flag("--force", options.force,
                   "Overwrite a plan, and the answers in its folder");
  // A plan that is written in another format has the first ones already.
  std::vector<std::string> of_ask = {"--law",   "--cases", "--seed",
                                     "--sizes", "--dtype", "--options",
                                     "--pin",   "--kernel"};
  CLI::Option* what = command.get_option("what");
  for (const std::string& name : of_ask)
    what->excludes(command.get_option(name));
  for (const char* name : {"--format", "--force"}) of_ask.push_back(name);
  for (const std::string& name : of_ask) command.get_option(name)->needs(ask);
  for (const char* name : {"what", "--dialect", "--precision"})
    of_ask.push_back(name);
  takes_only(command, "--ask", of_ask);
}

void add_flags(CLI::App& command, JudgeOptions& options) {
  command.add_option(
      "what", options.targets,
      "Plan [ANSWERS], or recorded calls (.safetensors, .npz, ONNX tests)");
  add_recorded_call(command, options.value, options.words);
  command
      .add_option("--dialect", options.dialect,
                  "Convention, or file of dialect fields, to add to a plan")
      ->type_name("FILE|CONVENTION");
  command
      .add_option("--precision", options.precision,
                  "File of precision fields to add to a plan")
      ->type_name("FILE");
  add_whether_to_diagnose(command, options.diagnose);
  add_json(command, options.json);
  add_report_files(command, options.files);
  add_output(command, "-o,--out", options.table,
             "Tab-separated file with a row for each case of a plan");
  command.add_flag("-v,--verbose", options.verbose, "Print one line per law");
  add_ask(command, options.ask);
}

}  // namespace

void add_judge(CLI::App& app, Chosen& chosen) {
  add_command<JudgeOptions>(
      app, chosen, "judge",
      "Check recorded calls, or write a plan of calls to record", add_flags,
      [](const JudgeOptions& options) { return run(options); });
}

}  // namespace qkvet::cli
