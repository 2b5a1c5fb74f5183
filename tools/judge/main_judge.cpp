// SPDX-License-Identifier: Apache-2.0
#include "tools/judge/main_judge.h"

#include <CLI/CLI.hpp>
#include <iterator>
#include <string>
#include <vector>

#include "tools/reproduce/plan_folder.h"

namespace qkvet::tools {
namespace {

CLI::App& add_emit(CLI::App& app, EmitPlanOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "emit", "Write questions for a kernel that cannot be linked, as files");
  command.add_option("folder", options.folder, "The folder to be made")
      ->required();
  command
      .add_option("-l,--law", options.laws, "Law, or a glob; may be repeated")
      ->type_name("LAW")
      ->allow_extra_args(false);
  command
      .add_option("-n,--cases", options.cases, "Cases over all laws together")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000}))
      ->capture_default_str();
  command.add_option("--seed", options.seed, "Number, or random")
      ->capture_default_str();
  command
      .add_option("--sizes", options.sizes,
                  "Largest cases: small (T, d <= 24), medium (80), large (300)")
      ->check(CLI::IsMember({"small", "medium", "large"}))
      ->capture_default_str();
  command
      .add_option("--dtype", options.dtypes,
                  "f32, f16, bf16 or f64, or three for q, for k and v, and for "
                  "o (f32/f16/f32); may be repeated")
      ->type_name("TYPE")
      ->allow_extra_args(false);
  command
      .add_option("--options", options.options,
                  "What the kernel can do: all, or words with commas, "
                  "attention,causal,gqa,cross_lengths if nothing is said")
      ->type_name("WORDS");
  command
      .add_option("--pin", options.pin,
                  "Extents that every case has, such as d=72,Tk=64")
      ->type_name("EXTENTS");
  command.add_option("--name", options.name, "What reports call the kernel")
      ->type_name("FAMILY/VARIANT")
      ->capture_default_str();
  command
      .add_option("--dialect", options.dialect,
                  "File of dialect fields, or a convention")
      ->type_name("FILE|CONVENTION");
  command
      .add_option("--precision", options.precision, "File of precision fields")
      ->type_name("FILE");
  command
      .add_option("--format", options.format,
                  "npy: a file for each tensor; safetensors: one for all; "
                  "recipe: none, they are made of plan.json by --from")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kPlanFormats),
                                                     std::end(kPlanFormats))))
      ->capture_default_str();
  CLI::Option& from = *command.add_option(
      "--from", options.from, "The questions of this plan, in another format");
  from.type_name("PLAN");
  for (const char* drawn :
       {"--law", "--cases", "--seed", "--sizes", "--dtype", "--options",
        "--pin", "--name", "--dialect", "--precision"})
    from.excludes(command.get_option(drawn));
  command.add_flag("--force", options.force,
                   "Replace a plan, and the answers in its folder");
  return command;
}

CLI::App& add_judge(CLI::App& app, JudgeOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "judge",
      "Judge what was recorded: answers to a plan of qkvet emit, or calls");
  command
      .add_option("what", options.targets,
                  "The folder of a plan; or files of one call each: "
                  ".safetensors, .npz, folders of ONNX node tests")
      ->required();
  command
      .add_option("--case", options.value,
                  "What the tensors of a call do not say: causal=br,scale=0.1")
      ->type_name("TOKENS");
  command
      .add_option("--map", options.words.map,
                  "Names in the file: q=query,o=attn_output")
      ->type_name("NAMES");
  command.add_option("--layout", options.words.layout, "bhtd, bthd or thd")
      ->type_name("LAYOUT");
  command
      .add_option("--heads", options.words.heads,
                  "H or H,Hkv, where tensors are [B,T,H*d]")
      ->type_name("H,Hkv");
  command
      .add_option("--answers", options.answers,
                  "Folder of the answers, if it is another one")
      ->type_name("DIR");
  command
      .add_option("--dialect", options.dialect,
                  "File of dialect fields, or a convention, beyond what the "
                  "plan declares")
      ->type_name("FILE|CONVENTION");
  command
      .add_option("--precision", options.precision,
                  "File of precision fields, beyond what the plan declares")
      ->type_name("FILE");
  command.add_flag(
      "--allow-loose", options.allow_loose,
      "Taken and without effect: declared precisions are believed");
  command
      .add_option("--diagnose", options.diagnose,
                  "0: look for no cause of what fails")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  command.add_option("--junit", options.junit, "JUnit XML")->type_name("FILE");
  command.add_option("--json", options.json, "JSON Lines")->type_name("FILE");
  command
      .add_option("--table", options.table,
                  "A row for each question of a plan, tab-separated")
      ->type_name("FILE");
  command.add_flag("-v,--verbose", options.verbose, "A line for every law");
  return command;
}

}  // namespace

JudgeCommands::JudgeCommands(CLI::App& app)
    : emit_command_(&add_emit(app, emit_)),
      judge_command_(&add_judge(app, judge_)) {}

std::optional<ExitCode> JudgeCommands::run() const {
  if (emit_command_->parsed()) return run_emit_plan(emit_);
  if (judge_command_->parsed()) return run_judge(judge_);
  return std::nullopt;
}

}  // namespace qkvet::tools
