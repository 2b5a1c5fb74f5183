// SPDX-License-Identifier: Apache-2.0
// qkvet golden import: turns a call of another program into a golden set.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "cli/commands/flags.h"
#include "cli/commands/groups.h"
#include "cli/golden/golden_folders.h"
#include "cli/terminal/select.h"
#include "core/base/read_file.h"
#include "core/base/sha256.h"
#include "golden/check/call_file.h"
#include "golden/check/verify.h"
#include "properties/conventions/conventions.h"

namespace qkvet::cli {
namespace {

struct GoldenImportOptions {
  std::string file;  // .safetensors, .npz, or the folder of an ONNX node test
  std::string set;   // FOLDER/NAME
  std::string pins, source;
  std::string arithmetic = "storage";  // exact, f64 or storage
  std::string finding;                 // "" for none
  std::string dialect;                 // a file; "": of the set, or none
  std::string value;  // tokens of the case, which do not follow from the
                      // tensors
  ImportWords words;
  bool force = false;

  std::string folder() const {
    return std::filesystem::path(set).parent_path().string();
  }
  std::string name() const {
    return std::filesystem::path(set).filename().string();
  }
};

namespace fs = std::filesystem;

// Doubts about the numbers, before they are compared with others.
std::string doubts(const GoldenSet& set) {
  TimeUse time;
  const Judgement judged = judge_source(set, time);
  const bool differs = judged.verdict == Verdict::kFailed;
  if (differs && set.finding.empty())
    return fmt::format(
        "{} is {}, the definition gives {} ({}); a --dialect may explain it, "
        "or "
        "--wrong TEXT records what is wrong with the source",
        judged.finding->where, judged.finding->actual, judged.finding->expected,
        judged.finding->allowed);
  if (!differs && judged.verdict == Verdict::kPassed && !set.finding.empty())
    return "agrees with the definition: there is no finding";
  return judged.verdict == Verdict::kGaveUp ? judged.reason : "";
}

// "" or one line.
std::string make_set(const GoldenImportOptions& options,
                     const std::string& dialect, NewSet* out) {
  ImportRules rules;
  CallFile file;
  std::string wrong = parse_import_words(options.words, rules);
  if (wrong.empty())
    wrong = read_call_file(options.file, rules, options.value, &file);
  if (!wrong.empty()) return wrong;
  for (const std::string& name : file.ignored)
    fmt::print("left out   {}\n", shown(name));
  const auto recording =
      make_recording(file.tensors, file.value, options.file, &wrong);
  if (!recording) return options.file + ": " + wrong;
  Case value = recording->value;
  value.file = 0;  // follows from the inputs
  file.value = to_string(value);
  out->row = {options.name(), file.value, options.pins, options.source, ""};
  const auto made =
      safetensors_bytes(file.tensors,
                        {{"qkvet", kGoldenFormat},
                         {"case", file.value},
                         {"pins", options.pins},
                         {"source", options.source},
                         {"generator", ""},
                         {"arithmetic", options.arithmetic},
                         {"dialect", dialect.empty() ? file.dialect : dialect},
                         {"finding", options.finding}},
                        &wrong);
  if (!made) return options.file + ": " + wrong;
  const auto set = read_golden_set(*made, options.name(), options.file, &wrong);
  if (set) wrong = doubts(*set);
  if (!wrong.empty()) return options.file + ": " + wrong;
  out->row.sha256 = sha256_hex(*made);
  out->bytes = *made;
  return "";
}

std::string misuse(const GoldenImportOptions& options) {
  if (options.folder().empty() || !is_set_name(options.name()))
    return options.set +
           ": allowed is FOLDER/NAME, with up to 64 of a-z, 0-9 and _ in NAME";
  if (options.pins.empty() || options.source.empty())
    return "--pins and --source: the purpose and the producer of the set; "
           "neither may be empty";
  return "";
}

ExitCode run(const GoldenImportOptions& options) {
  std::string dialect = convention_dialect(options.dialect);
  std::string wrong = misuse(options);
  if (wrong.empty() && dialect.empty() && !options.dialect.empty())
    wrong = read_file(options.dialect, &dialect);
  GoldenFolder old;
  bool there = false;
  if (wrong.empty()) wrong = look_at_folder(options.folder(), &old, &there);
  if (!wrong.empty()) return wrong_use(wrong);
  const bool replaces =
      std::any_of(old.rows.begin(), old.rows.end(),
                  [&](const auto& row) { return row.set == options.name(); });
  if (replaces && !options.force)
    return wrong_use(options.name() + ": is in " + options.folder() +
                     " already; --force replaces it");
  NewSet set;
  wrong = make_set(options, dialect, &set);
  if (!wrong.empty()) return wrong_use(wrong);
  FolderFiles files;
  wrong = folder_files(options.folder(), old, {set}, &files);
  if (wrong.empty()) wrong = write_folder(options.folder(), files, there);
  if (!wrong.empty()) return wrong_use(wrong);
  fmt::print("{}   {}\n           agrees with the definition{}\n",
             options.name(), set.row.value,
             options.finding.empty() ? "" : ", but for its finding");
  return kConforms;
}

void add_flags(CLI::App& command, GoldenImportOptions& options) {
  command
      .add_option("file", options.file,
                  ".safetensors, .npz, or the folder of an ONNX node test")
      ->required();
  command.add_option("set", options.set, "New set, as FOLDER/NAME")->required();
  command.add_option("--pins", options.pins, "Purpose of the set")->required();
  command.add_option("--source", options.source, "Producer and version")
      ->required();
  command
      .add_option(
          "--arithmetic", options.arithmetic,
          "How the numbers were computed: exact, f64 or the storage type")
      ->check(CLI::IsMember({"exact", "f64", "storage"}))
      ->capture_default_str();
  command.add_option("--wrong", options.finding, "Known defect of the source")
      ->type_name("TEXT");
  command
      .add_option(
          "--dialect", options.dialect,
          "File of dialect fields, or a convention: what the source does")
      ->type_name("FILE|CONVENTION");
  add_recorded_call(command, options.value, options.words);
  command.add_flag("--force", options.force, "Overwrite a set of this name");
}

}  // namespace

void add_golden_import(CLI::App& golden, Chosen& chosen) {
  add_command<GoldenImportOptions>(golden, chosen, "import",
                                   "Convert a recorded call to a golden set",
                                   add_flags, run);
}

}  // namespace qkvet::cli
