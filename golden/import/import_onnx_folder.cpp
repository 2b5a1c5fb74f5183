// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "core/base/read_file.h"
#include "golden/format/manifest.h"
#include "golden/import/import_onnx.h"

namespace qkvet::golden {
namespace {

namespace fs = std::filesystem;

// NAME_0.pb, NAME_1.pb, ..., as many as there are. "" or what is wrong.
std::string read_numbered(const fs::path& folder, const std::string& name,
                          std::vector<OnnxTensor>& tensors) {
  while (true) {
    const std::string file =
        std::string(name) + "_" + std::to_string(tensors.size()) + ".pb";
    std::error_code code;
    if (!fs::exists(folder / file, code)) return "";
    std::vector<std::byte> bytes;
    std::string wrong = read_file((folder / file).string(), &bytes);
    if (!wrong.empty()) return wrong;
    auto tensor = parse_onnx_tensor(bytes, &wrong);
    if (!tensor) return std::string(file).append(": ").append(wrong);
    tensors.push_back(std::move(*tensor));
  }
}

}  // namespace

std::optional<ImportedOnnx> import_onnx_folder(const std::string& folder,
                                               std::string* error) {
  const fs::path path(folder);
  std::vector<std::byte> bytes;
  *error = read_file((path / "model.onnx").string(), &bytes);
  if (!error->empty()) return std::nullopt;
  const auto node = parse_onnx_node(bytes, error);
  if (!node) {
    *error = "model.onnx: " + *error;
    return std::nullopt;
  }
  const fs::path data = path / "test_data_set_0";
  std::vector<OnnxTensor> inputs, outputs;
  *error = read_numbered(data, "input", inputs);
  if (error->empty()) *error = read_numbered(data, "output", outputs);
  if (!error->empty()) return std::nullopt;
  return import_onnx(*node, inputs, outputs, error);
}

}  // namespace qkvet::golden
