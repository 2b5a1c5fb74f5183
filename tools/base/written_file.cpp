// SPDX-License-Identifier: Apache-2.0
#include "tools/base/written_file.h"

#include <cstdio>
#include <filesystem>

namespace qkvet::tools {

std::string not_writable_reason(const std::string& path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) return path + ": is a folder";
  const std::string temporary = path + ".part";
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) return path + ": cannot be written";
  std::fclose(file);
  std::remove(temporary.c_str());
  return "";
}

std::string write_file(const std::string& path, const std::string& content) {
  const std::string temporary = path + ".part";
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) return path + ": cannot be written";
  const bool written =
      std::fwrite(content.data(), 1, content.size(), file) == content.size();
  const bool closed = std::fclose(file) == 0;
  if (written && closed && std::rename(temporary.c_str(), path.c_str()) == 0)
    return "";
  std::remove(temporary.c_str());
  return path + ": cannot be written in full";
}

}  // namespace qkvet::tools
