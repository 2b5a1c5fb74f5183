// SPDX-License-Identifier: Apache-2.0
#include "core/files/call_tensors.h"

#include <algorithm>
#include <charconv>

#include "core/call/tensor_table.h"

namespace qkvet {
namespace {

// Vectors depend on an address only within a cache line.
constexpr int64_t kAddressPeriod = 64;

// In the extents that its values have of their own.
CallTensor call_tensor(const CallPlan& plan, const TensorRow& row,
                       const TensorSpec& given) {
  const auto t = static_cast<size_t>(row.tensor);
  return {row.tensor,
          abi_name(plan.operation, row.tensor),
          {file_dtype(given.dtype),
           {given.shape.begin(), given.shape.begin() + given.ndim},
           {}},
          plan.tensors[t],
          plan.places[t].start % kAddressPeriod};
}

// As if the elements that a mistake has added had been given.
void fill_up(CallTensor& input) {
  const std::vector<std::byte> memory = memory_of(input);
  const TensorSpec& spec = input.spec;
  input.values.shape.assign(spec.shape.begin(), spec.shape.begin() + spec.ndim);
  input.values.data.resize(
      static_cast<size_t>(spec.elements() * dtype_bytes(spec.dtype)));
  gather(spec, memory.data(), input.values.data.data());
}

bool is_gradient(TensorName tensor) {
  return tensor == TensorName::kDO || tensor == TensorName::kDY ||
         (tensor >= TensorName::kDQ && tensor <= TensorName::kDBo);
}

// "q k v", each with the ending.
std::string joined_names(bool outputs, Recorded least, const char* ending) {
  std::string text;
  for (const TensorRow& row : kTensors)
    if (is_output(row.tensor) == outputs && row.recorded >= least)
      text += std::string(text.empty() ? "" : " ") + row.name + ending;
  return text;
}

}  // namespace

std::string abi_name(Operation operation, TensorName tensor) {
  if (is_layer(operation) && tensor == TensorName::kQPositions)
    return "positions";
  // "dq" is d_q there.
  if (is_gradient(tensor)) return std::string("d_") + (tensor_name(tensor) + 1);
  return tensor_name(tensor);
}

std::vector<CallTensor> call_inputs(const KernelCall& call,
                                    const CallPlan& plan) {
  std::vector<CallTensor> inputs;
  for (const TensorRow& row : kTensors) {
    const TensorSpec& spec = plan.tensors[static_cast<size_t>(row.tensor)];
    const std::byte* content = content_of(call, row.tensor);
    if (!spec.present() || content == nullptr) continue;
    const TensorSpec given = given_part(call, row.tensor, spec);
    CallTensor input = call_tensor(plan, row, given);
    input.values.data.assign(
        content, content + given.elements() * dtype_bytes(spec.dtype));
    if (call.mistake != Mistake::kNone) fill_up(input);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

std::vector<CallTensor> empty_inputs(const KernelCall& call,
                                     const CallPlan& plan) {
  std::vector<CallTensor> inputs;
  for (const TensorRow& row : kTensors) {
    const TensorSpec& spec = plan.tensors[static_cast<size_t>(row.tensor)];
    if (!is_output(row.tensor) && spec.present() && spec.elements() == 0 &&
        content_of(call, row.tensor) == nullptr)
      inputs.push_back(call_tensor(plan, row, spec));
  }
  return inputs;
}

std::vector<CallTensor> call_outputs(const CallPlan& plan) {
  std::vector<CallTensor> outputs;
  for (const TensorRow& row : kTensors) {
    const TensorSpec& spec = plan.tensors[static_cast<size_t>(row.tensor)];
    if (is_output(row.tensor) && spec.present())
      outputs.push_back(call_tensor(plan, row, spec));
  }
  return outputs;
}

std::vector<std::byte> memory_of(const CallTensor& tensor) {
  std::vector<std::byte> memory(static_cast<size_t>(tensor.spec.span_bytes()),
                                std::byte{0xff});
  TensorSpec given = tensor.spec;
  std::copy(tensor.values.shape.begin(), tensor.values.shape.end(),
            given.shape.begin());
  if (given.elements() > 0)
    scatter(given, tensor.values.data.data(), memory.data());
  return memory;
}

std::optional<TensorName> recorded_input(std::string_view name) {
  for (const TensorRow& row : kTensors)
    if (!is_output(row.tensor) && row.recorded != Recorded::kNo &&
        name == row.name)
      return row.tensor;
  return std::nullopt;
}

std::vector<TensorName> recorded_outputs(bool of_commands) {
  std::vector<TensorName> outputs;
  for (const TensorRow& row : kTensors)
    if (is_output(row.tensor) &&
        row.recorded >=
            (of_commands ? Recorded::kInStories : Recorded::kInCalls))
      outputs.push_back(row.tensor);
  return outputs;
}

std::string recorded_names() {
  return joined_names(/*outputs=*/false, Recorded::kInCalls, "") + "; " +
         joined_names(/*outputs=*/true, Recorded::kInCalls, "") + ", " +
         joined_names(/*outputs=*/true, Recorded::kInStories, ".N");
}

std::optional<OutputName> parse_output_name(std::string_view name) {
  const size_t dot = name.find('.');
  const auto outputs = recorded_outputs(/*of_commands=*/dot != name.npos);
  const auto found =
      std::ranges::find(outputs, name.substr(0, dot), tensor_name);
  if (found == outputs.end()) return std::nullopt;
  OutputName output{*found};
  if (dot == name.npos) return output;
  const std::string_view digits = name.substr(dot + 1);
  std::from_chars(digits.data(), digits.data() + digits.size(), output.command);
  // "o.03" and "o.3 " are no numbers of a command.
  if (output.command < 0 || output_text(output) != name) return std::nullopt;
  return output;
}

std::string output_text(const OutputName& name) {
  return tensor_name(name.tensor) +
         (name.command < 0 ? "" : "." + std::to_string(name.command));
}

}  // namespace qkvet
