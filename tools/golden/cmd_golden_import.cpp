// SPDX-License-Identifier: Apache-2.0
// qkvet golden import: a call of somebody else's becomes a golden set.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/sha256.h"
#include "golden/check/call_file.h"
#include "golden/check/verify.h"
#include "golden/format/folder_swap.h"
#include "properties/conventions/conventions.h"
#include "tools/golden/cmd_golden.h"
#include "tools/report/commands.h"

namespace qkvet::tools {
namespace {

namespace fs = std::filesystem;

std::string text_of_file(const std::string& path, std::string* text) {
  if (path.empty()) return "";
  std::ifstream file(path);
  if (!file) return path + ": cannot be read";
  std::ostringstream all;
  all << file.rdbuf();
  *text = all.str();
  return "";
}

// What the numbers are worth, before they are put beside others.
std::string doubts(const GoldenSet& set) {
  TimeUse time;
  const Judgement judged = judge_source(set, time);
  const bool differs = judged.verdict == Verdict::kFailed;
  if (differs && set.finding.empty())
    return fmt::format(
        "{} is {}, the definition gives {} ({}); a --dialect may explain it, "
        "or "
        "--finding TEXT says what is wrong with the source",
        judged.finding->where, judged.finding->actual, judged.finding->expected,
        judged.finding->allowed);
  if (!differs && judged.verdict == Verdict::kPassed && !set.finding.empty())
    return "agrees with the definition: there is no finding";
  return judged.verdict == Verdict::kGaveUp ? judged.reason : "";
}

// The set and its row. "" or one line.
std::string make_set(const GoldenImportOptions& options,
                     const std::string& dialect, std::vector<std::byte>* bytes,
                     ManifestRow* row) {
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
  *row = {options.name, file.value, options.pins, options.source, ""};
  const auto made =
      golden_file(file.tensors,
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
  const auto set = read_golden_set(*made, options.name, options.file, &wrong);
  if (set) wrong = doubts(*set);
  if (!wrong.empty()) return options.file + ": " + wrong;
  row->sha256 = sha256_hex(*made);
  *bytes = *made;
  return "";
}

std::string add_others(const GoldenImportOptions& options,
                       const GoldenFolder& old, std::vector<ManifestRow>& rows,
                       FolderFiles& files) {
  for (const ManifestRow& row : old.rows) {
    if (row.set == options.name) continue;
    rows.push_back(row);
    files.push_back({row.set + kSetEnding, {}});
    const std::string wrong =
        read_bytes((fs::path(options.folder) / files.back().first).string(),
                   &files.back().second);
    if (!wrong.empty()) return wrong;
  }
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.set < b.set; });
  const std::string text = manifest_text(rows);
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  files.push_back({kManifestName, {first, first + text.size()}});
  return "";
}

std::string misuse(const GoldenImportOptions& options) {
  if (!is_set_name(options.name))
    return "--name " + options.name + ": a name has up to 64 of a-z, 0-9 and _";
  if (options.pins.empty() || options.source.empty())
    return "--pins and --source say what the set holds fast and who made it: "
           "neither may be empty";
  return "";
}

}  // namespace

ExitCode run_golden_import(const GoldenImportOptions& options) {
  std::string dialect = convention_dialect(options.dialect);
  std::string wrong = misuse(options);
  if (wrong.empty() && dialect.empty())
    wrong = text_of_file(options.dialect, &dialect);
  GoldenFolder old;
  bool there = false;
  if (wrong.empty()) wrong = look_at_folder(options.folder, &old, &there);
  if (!wrong.empty()) return wrong_use(wrong);
  const bool replaces =
      std::any_of(old.rows.begin(), old.rows.end(),
                  [&](const auto& row) { return row.set == options.name; });
  if (replaces && !options.update)
    return wrong_use(options.name + ": is in " + options.folder +
                     " already; --update replaces it");
  std::vector<std::byte> bytes;
  ManifestRow row;
  wrong = make_set(options, dialect, &bytes, &row);
  if (!wrong.empty()) return wrong_use(wrong);
  std::vector<ManifestRow> rows = {row};
  FolderFiles files = {{options.name + kSetEnding, std::move(bytes)}};
  wrong = add_others(options, old, rows, files);
  if (wrong.empty()) wrong = write_folder(options.folder, files, there);
  if (!wrong.empty()) return wrong_use(wrong);
  fmt::print("{}   {}\n           agrees with the definition{}\n", options.name,
             row.value, options.finding.empty() ? "" : ", but for its finding");
  return kConforms;
}

}  // namespace qkvet::tools
