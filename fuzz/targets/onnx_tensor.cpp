// SPDX-License-Identifier: Apache-2.0
// onnx_tensor: tensors and models of ONNX, messages of protobuf. Bytes are
// refused with a reason as either, or are a tensor that its shape describes, or
// a node no larger than they.
#include "fuzz/targets/byte_checks.h"
#include "fuzz/targets/target.h"

namespace qkvet::fuzz {
std::string onnx_tensor_problem(std::span<const std::byte> file,
                                OnnxTensorParse parse, std::string* said) {
  std::string error;
  const auto tensor = parse(file, &error);
  *said = kind_of(error);
  if (!tensor)
    return is_one_line(error) ? ""
                              : "refused without one line: \"" + error + "\"";
  *said = file_dtype_name(tensor->dtype);
  *said += std::to_string(std::min<size_t>(tensor->shape.size(), 5));
  // A number of 8 bytes takes one at least.
  if (tensor->data.size() > 8 * file.size())
    return "more numbers than the file can hold";
  error = check_tensor({tensor->dtype, tensor->shape, tensor->data});
  return error.empty() ? "" : "the tensor is none: " + error;
}

std::string onnx_node_problem(std::span<const std::byte> file,
                              OnnxNodeParse parse, std::string* said) {
  std::string error;
  const auto node = parse(file, &error);
  *said = kind_of(error);
  if (!node)
    return is_one_line(error) ? ""
                              : "refused without one line: \"" + error + "\"";
  *said = "node" + std::to_string(std::min<size_t>(node->inputs.size(), 8)) +
          std::to_string(std::min<size_t>(node->outputs.size(), 5)) +
          std::to_string(std::min<size_t>(node->attributes.size(), 9));
  size_t texts = node->op_type.size() + node->domain.size();
  for (const auto* names : {&node->inputs, &node->outputs, &node->graph_inputs,
                            &node->graph_outputs})
    for (const std::string& name : *names) texts += name.size();
  for (const auto& [name, value] : node->attributes) texts += name.size();
  return texts > file.size() ? "more text than the file can hold" : "";
}

namespace {

std::string check(std::span<const uint8_t> bytes, std::string* said) {
  std::string as_node;
  std::string wrong =
      onnx_tensor_problem(std::as_bytes(bytes), parse_onnx_tensor, said);
  if (wrong.empty())
    wrong = onnx_node_problem(std::as_bytes(bytes), parse_onnx_node, &as_node);
  *said += as_node;
  return wrong;
}

}  // namespace

extern constinit const FuzzTarget fuzz_onnx_tensor = {
    .name = "onnx_tensor",
    .sentence =
        "A tensor or a model of ONNX is refused with a reason, or is what its "
        "bytes say.",
    .check = check};

}  // namespace qkvet::fuzz
