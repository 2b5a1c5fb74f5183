// SPDX-License-Identifier: Apache-2.0
#include "cli/golden/golden_folders.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>

#include "cli/kernels/kernels.h"
#include "cli/kernels/write_new.h"
#include "core/base/read_file.h"

namespace qkvet::cli {
namespace {

namespace fs = std::filesystem;

std::string keep_named(const std::vector<std::string>& globs,
                       GoldenFolder* folder) {
  std::vector<bool> used(globs.size());
  std::erase_if(folder->sets, [&](const GoldenSet& set) {
    bool wanted = globs.empty();
    for (size_t i = 0; i < globs.size(); ++i)
      if (fnmatch(globs[i].c_str(), set.name.c_str(), 0) == 0)
        wanted = used[i] = true;
    return !wanted;
  });
  for (size_t i = 0; i < globs.size(); ++i)
    if (!used[i])
      return globs[i] +
             ": no folder, and no set has this name; `qkvet explain golden` "
             "shows all";
  return "";
}

}  // namespace

std::string golden_folder() {
  return (fs::path(program_directory()).parent_path() / "share/qkvet/golden")
      .string();
}

std::string read_golden_target(const std::string& target,
                               const std::vector<std::string>& globs,
                               GoldenFolder* folder) {
  std::error_code code;
  std::string wrong;
  if (fs::is_directory(target, code)) {
    wrong = read_golden_folder(target, folder);
  } else {
    folder->sets.emplace_back();
    wrong = read_golden_file(target, &folder->sets.back());
  }
  return wrong.empty() ? keep_named(globs, folder) : wrong;
}

std::string look_at_folder(const std::string& path, GoldenFolder* old,
                           bool* there) {
  std::error_code code;
  *there = fs::exists(path, code);
  if (!*there) return not_new_reason(path);
  if (!fs::is_directory(path, code)) return path + ": is no folder";
  if (!fs::exists(fs::path(path) / kManifestName, code))
    return fs::is_empty(path, code) ? ""
                                    : path + ": holds files but no " +
                                          kManifestName + "; name a new folder";
  return read_golden_folder(path, old);
}

std::string folder_files(const std::string& path, const GoldenFolder& old,
                         const std::vector<NewSet>& sets, FolderFiles* files) {
  std::vector<ManifestRow> rows;
  for (const NewSet& set : sets) {
    rows.push_back(set.row);
    files->emplace_back(set.row.set + kSetEnding, set.bytes);
  }
  for (const ManifestRow& row : old.rows) {
    if (std::ranges::count(rows, row.set, &ManifestRow::set) > 0) continue;
    rows.push_back(row);
    files->emplace_back(row.set + kSetEnding, std::vector<std::byte>{});
    const std::string wrong = read_file(
        (fs::path(path) / files->back().first).string(), &files->back().second);
    if (!wrong.empty()) return wrong;
  }
  std::ranges::sort(rows, {}, &ManifestRow::set);
  const std::string text = manifest_text(rows);
  const auto bytes = std::as_bytes(std::span(text));
  files->emplace_back(kManifestName,
                      std::vector<std::byte>(bytes.begin(), bytes.end()));
  return "";
}

}  // namespace qkvet::cli
