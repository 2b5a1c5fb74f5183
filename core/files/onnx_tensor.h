// SPDX-License-Identifier: Apache-2.0
// ONNX's tensors (TensorProto: the .pb files of its node tests) and models of
// one node, the part of onnx.proto that these need. Unknown fields are ignored,
// as protobuf requires; data in other files are refused.
#ifndef QKVET_CORE_FILES_ONNX_TENSOR_H_
#define QKVET_CORE_FILES_ONNX_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/files/file_tensor.h"

namespace qkvet {

struct OnnxTensor {
  std::string name;
  FileDtype dtype = FileDtype::kF32;
  std::vector<int64_t> shape;   // empty: one number
  std::vector<std::byte> data;  // contiguous, row-major, least byte first

  friend bool operator==(const OnnxTensor&, const OnnxTensor&) = default;
};

// Reads a whole file. On failure *error is one line, without the file's name.
std::optional<OnnxTensor> parse_onnx_tensor(std::span<const std::byte> file,
                                            std::string* error);

// The value of an attribute; monostate: another kind (a tensor, a graph, a list
// of numbers with fractions or of texts).
using OnnxAttribute = std::variant<std::monostate, float, int64_t, std::string,
                                   std::vector<int64_t>>;

// A model with one node.
struct OnnxNode {
  std::string op_type;
  std::string domain;  // "" is ONNX's own
  int64_t opset = 0;   // the version of that domain
  // By position; "" where an optional one is left out.
  std::vector<std::string> inputs, outputs;
  std::map<std::string, OnnxAttribute, std::less<>> attributes;
  // The names of the graph: a node test numbers its files in this order.
  std::vector<std::string> graph_inputs, graph_outputs;
  bool has_initializers = false;  // tensors in the model itself

  friend bool operator==(const OnnxNode&, const OnnxNode&) = default;
};

// Reads a whole file. On failure *error is one line, without the file's name.
std::optional<OnnxNode> parse_onnx_node(std::span<const std::byte> file,
                                        std::string* error);

}  // namespace qkvet

#endif  // QKVET_CORE_FILES_ONNX_TENSOR_H_
