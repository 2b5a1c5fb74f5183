// SPDX-License-Identifier: Apache-2.0
#include "cli/base/load_data.h"

#include "golden/check/call_file.h"

namespace qkvet::cli {
namespace {

std::string load_one(const std::string& path) {
  NamedTensors inputs;
  std::string value, dialect;
  std::string error = read_file_tensors(path, &inputs, &value, &dialect);
  if (!error.empty()) return error;
  if (value.empty()) {
    auto imported = import_tensors(inputs, {}, &error);
    if (!imported) return path + ": " + error;
    inputs = std::move(imported->tensors);
  }
  std::erase_if(inputs, [](const auto& one) {
    return parse_output_name(one.first).has_value();
  });
  uint64_t fingerprint = 0;
  error = add_inputs(inputs, path, &fingerprint);
  if (error.empty() && fingerprint == 0) error = "holds no input of a call";
  return error.empty() ? "" : path + ": " + error;
}

}  // namespace

std::string load_data(const std::vector<std::string>& files) {
  for (const std::string& path : files)
    if (std::string wrong = load_one(path); !wrong.empty()) return wrong;
  return "";
}

}  // namespace qkvet::cli
