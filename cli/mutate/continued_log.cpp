// SPDX-License-Identifier: Apache-2.0
#include "cli/mutate/continued_log.h"

#include <filesystem>
#include <sstream>

#include "core/base/read_file.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

namespace fs = std::filesystem;

// The keys in which a run differs from the one that the file is of.
std::string other_keys(const ReadJson& old, const Json& head) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : head.items()) {
    const auto found = old.find(key);
    if (found == old.end() || json_text(ReadJson(*found)) != json_text(value))
      keys.push_back(key);
  }
  return joined(keys);
}

}  // namespace

ContinuedFile::~ContinuedFile() {
  if (file_ != nullptr) std::fclose(file_);
}

std::string ContinuedFile::open(
    const std::string& folder, const char* name, const Json& head,
    const std::function<bool(const std::string&)>& take) {
  if (folder.empty()) return "";
  std::error_code code;
  fs::create_directories(folder, code);
  if (!fs::is_directory(folder, code)) return folder + ": cannot be made";
  path_ = (fs::path(folder) / name).string();
  std::string kept, before;
  if (fs::exists(path_, code))
    if (std::string wrong = read_file(path_, &before); !wrong.empty())
      return wrong;
  std::istringstream old(before);
  for (std::string line; std::getline(old, line) && !old.eof();) {
    if (kept.empty()) {
      const ReadJson json = read_json(line);
      if (!json.is_object()) return path_ + ": is no list of mutants";
      if (const std::string keys = other_keys(json, head); !keys.empty())
        return path_ + ": is of another run (" + keys +
               "); allowed: the same source and words, or another folder";
    } else if (!take(line)) {
      continue;
    }
    kept += line + "\n";
  }
  // A line that was cut off would spoil the next one.
  if (kept.empty()) kept = json_text(head) + "\n";
  if (const std::string error = write_file(path_, kept); !error.empty())
    return error;
  file_ = std::fopen(path_.c_str(), "ab");
  return file_ == nullptr ? path_ + ": cannot be written" : "";
}

std::string ContinuedFile::add(const Json& line) {
  if (file_ == nullptr) return "";
  return std::fputs((json_text(line) + "\n").c_str(), file_) >= 0 &&
                 std::fflush(file_) == 0
             ? ""
             : path_ + ": cannot be written in full";
}

}  // namespace qkvet::cli
