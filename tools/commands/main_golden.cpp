// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/main_golden.h"

#include "tools/commands/main_kernels.h"

namespace qkvet::tools {

GoldenCommands::GoldenCommands(CLI::App& app)
    : golden_(app.add_subcommand(
          "golden",
          "Sets of calls with known outputs: verify, record, show, "
          "import")) {
  golden_->require_subcommand(1);
  add_verify();
  add_record();
  add_show();
  add_import();
}

void GoldenCommands::add_verify() {
  GoldenVerifyOptions& options = to_verify_;
  verify_ = golden_->add_subcommand(
      "verify", "Hold kernels against sets: correct? unchanged?");
  verify_->add_option("sets", options.target,
                      "Folder of sets, or one file; absent: those that QKVet "
                      "brings");
  add_selection(*verify_, options.selection);
  verify_
      ->add_option("--compile", options.selection.sources,
                   "Kernel to compile: .c, .cpp, .cc, .cxx, .rs")
      ->type_name("FILE")
      ->allow_extra_args(false);
  verify_
      ->add_option("--set", options.sets,
                   "Only sets of this name, or glob; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  verify_->add_flag("--unchanged", options.unchanged,
                    "Any other bit than recorded is a failure, too");
  verify_
      ->add_option("--ulps", options.ulps,
                   "So many units in the last place may change, and no more")
      ->check(CLI::Range(0.0, 1e18));
  verify_->add_option("--junit", options.junit, "JUnit XML")->type_name("FILE");
  verify_->add_option("--json", options.json, "JSON Lines")->type_name("FILE");
  verify_
      ->add_option("--diagnose", options.diagnose,
                   "Failing kernels whose cause is looked for, at most")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
}

void GoldenCommands::add_record() {
  GoldenRecordOptions& options = to_record_;
  record_ = golden_->add_subcommand(
      "record", "Freeze what a kernel returns today as a folder of sets");
  record_->add_option("folder", options.folder, "Where the sets are kept")
      ->required();
  record_->add_option("cases", options.cases,
                      "CASE, NAME:CASE, or @FILE with one a line; absent: what "
                      "the folder holds, or a plan");
  add_selection(*record_, options.selection);
  record_
      ->add_option("--compile", options.selection.sources,
                   "Kernel to compile: .c, .cpp, .cc, .cxx, .rs")
      ->type_name("FILE")
      ->allow_extra_args(false);
  record_
      ->add_option("-n,--cases", options.planned,
                   "How many cases, where none is named")
      ->check(CLI::Range(1, 9999))
      ->capture_default_str();
  record_->add_option("--pins", options.pins, "What the sets hold fast");
  record_->add_option("--source", options.source, "Where they come from");
  record_->add_flag("--update", options.update,
                    "Replace recordings that differ; the difference is shown");
  record_->add_flag("--wrong", options.wrong,
                    "Record also what is not correct");
}

void GoldenCommands::add_show() {
  show_ = golden_->add_subcommand("show", "What is in a set");
  show_
      ->add_option("set", to_show_.target,
                   "A file, or the name of a set that QKVet brings")
      ->required();
  show_->add_option("--tensor", to_show_.tensor, "Which one is drawn")
      ->type_name("NAME");
}

void GoldenCommands::add_import() {
  GoldenImportOptions& options = to_import_;
  import_ = golden_->add_subcommand(
      "import", "Make a set of a call that somebody else recorded");
  import_
      ->add_option("file", options.file,
                   ".safetensors, .npz, or the folder of an ONNX node test")
      ->required();
  import_->add_option("folder", options.folder, "Where sets are kept")
      ->required();
  import_->add_option("--name", options.name, "Of the set")->required();
  import_->add_option("--pins", options.pins, "What the set holds fast")
      ->required();
  import_->add_option("--source", options.source, "Who made it, which version")
      ->required();
  import_
      ->add_option("--arithmetic", options.arithmetic,
                   "How far the numbers may be off: known exactly, computed "
                   "in f64, or in the storage type")
      ->check(CLI::IsMember({"exact", "f64", "storage"}))
      ->capture_default_str();
  import_
      ->add_option("--finding", options.finding,
                   "What is wrong with the source here")
      ->type_name("TEXT");
  import_
      ->add_option(
          "--dialect", options.dialect,
          "File of dialect fields, or a convention: what the source does")
      ->type_name("FILE|CONVENTION");
  import_
      ->add_option("--case", options.value,
                   "What tensors do not say: causal=br,scale=0.1")
      ->type_name("TOKENS");
  import_
      ->add_option("--map", options.words.map, "Names: q=query,o=attn_output")
      ->type_name("NAMES");
  import_->add_option("--layout", options.words.layout, "bhtd, bthd or thd")
      ->type_name("LAYOUT");
  import_
      ->add_option("--heads", options.words.heads,
                   "H or H,Hkv, where tensors are [B,T,H*d]")
      ->type_name("H,Hkv");
  import_->add_flag("--update", options.update, "Replace a set of this name");
}

ExitCode GoldenCommands::run() const {
  if (import_->parsed()) return run_golden_import(to_import_);
  if (verify_->parsed()) return run_golden_verify(to_verify_);
  if (record_->parsed()) return run_golden_record(to_record_);
  return run_golden_show(to_show_);
}

}  // namespace qkvet::tools
