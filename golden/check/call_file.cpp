// SPDX-License-Identifier: Apache-2.0
#include "golden/check/call_file.h"

#include <filesystem>

#include "core/base/read_file.h"
#include "golden/format/manifest.h"
#include "golden/format/set.h"
#include "golden/import/import_onnx.h"

namespace qkvet::golden {
namespace {

namespace fs = std::filesystem;

std::string read_onnx(const std::string& path, const std::string& options,
                      CallFile* file) {
  std::string error;
  auto read = import_onnx_folder(path, &error);
  if (!read) return error;
  file->tensors = std::move(read->tensors);
  std::string all = read->options;
  if (!options.empty()) all += (all.empty() ? "" : ",") + options;
  file->value = case_of_tensors(file->tensors, all, &error);
  return error.empty() ? "" : path + ": " + error;
}

}  // namespace

std::string read_file_tensors(const std::string& path, NamedTensors* tensors,
                              std::string* value, std::string* dialect) {
  std::vector<std::byte> bytes;
  if (std::string wrong = read_file(path, &bytes); !wrong.empty()) return wrong;
  std::string error;
  if (path.ends_with(".npz")) {
    const auto read = parse_npz(bytes, &error);
    if (!read) return path + ": " + error;
    *tensors = named_tensors(*read);
    return "";
  }
  const auto read = parse_safetensors(bytes, &error);
  if (!read) return path + ": " + error;
  *tensors = named_tensors(*read, bytes);
  *value = value_of(read->metadata, "case");
  *dialect = value_of(read->metadata, "dialect");
  return "";
}

std::string read_call_file(const std::string& path, const ImportRules& rules,
                           const std::string& options, CallFile* file) {
  std::error_code code;
  if (fs::is_directory(path, code)) return read_onnx(path, options, file);
  NamedTensors tensors;
  std::string wrong =
      read_file_tensors(path, &tensors, &file->value, &file->dialect);
  if (!wrong.empty()) return wrong;
  if (!file->value.empty() && !options.empty())
    return path + ": says its case itself (" + shown(file->value) +
           "); --case is for files that do not";
  // A file that contains its case also uses QKVet's names and layout.
  if (!file->value.empty()) {
    file->tensors = std::move(tensors);
    return "";
  }
  auto imported = import_tensors(tensors, rules, &wrong);
  if (!imported) return path + ": " + wrong;
  file->tensors = std::move(imported->tensors);
  file->ignored = std::move(imported->ignored);
  file->value = case_of_tensors(file->tensors, options, &wrong);
  return wrong.empty() ? "" : path + ": " + wrong;
}

}  // namespace qkvet::golden
