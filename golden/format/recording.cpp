// SPDX-License-Identifier: Apache-2.0
#include "golden/format/recording.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/base/half.h"
#include "core/base/sha256.h"
#include "core/case/file_data.h"
#include "properties/judging/compare.h"

namespace qkvet::golden {
namespace {

// The identity of a file of inputs: names, types, extents and bytes.
uint64_t fingerprint_of(const NamedTensors& inputs) {
  if (inputs.empty()) return 0;
  std::vector<std::byte> all;
  const auto add = [&](std::string_view text) {
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    all.insert(all.end(), bytes, bytes + text.size());
  };
  for (const auto& [name, tensor] : inputs) {
    add(name + " " + file_tensor_text(tensor.dtype, tensor.shape) + "\n");
    all.insert(all.end(), tensor.data.begin(), tensor.data.end());
  }
  const std::string digits = sha256_hex(all).substr(0, 16);
  uint64_t fingerprint = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), fingerprint,
                  /*base=*/16);
  return fingerprint;
}

std::string no_tensor(std::string_view name) {
  return shown(name) + ": no tensor of a call; allowed: " + recorded_names();
}

// Slopes of [H].
bool is_of_all_members(TensorName input, const NamedTensor& tensor) {
  return input == TensorName::kSlopes && tensor.shape.size() == 1;
}

// A tensor in a file that does not have the rank of its name is refused later.
FileData::Tensor data_of(TensorName input, const NamedTensor& tensor) {
  FileData::Tensor data;
  data.extents = {1, 1, 1, 1};
  const size_t from = is_of_all_members(input, tensor) ? 1 : 0;
  std::copy_n(tensor.shape.begin(),
              std::min<size_t>(tensor.shape.size(), data.extents.size() - from),
              data.extents.begin() + static_cast<ptrdiff_t>(from));
  data.values = numbers_of(tensor);
  return data;
}

std::string wrong_rank(const NamedTensors& inputs) {
  for (const auto& [name, tensor] : inputs) {
    const auto input = recorded_input(name);
    if (!input) return no_tensor(name);
    const auto rank = static_cast<size_t>(tensor_rank(*input));
    if (tensor.shape.size() != rank && !is_of_all_members(*input, tensor))
      return name + " is " + file_tensor_text(tensor.dtype, tensor.shape) +
             ": it has " + std::to_string(rank) + " extents";
  }
  return "";
}

bool is_storage(FileDtype stored, Dtype dtype, TensorName input) {
  if (input == TensorName::kMask)
    return stored == FileDtype::kBool || stored == FileDtype::kUint8;
  return stored == file_dtype(dtype);
}

std::string wrong_input(const Case& c, const std::string& name,
                        const NamedTensor& tensor) {
  const TensorName input = *recorded_input(name);
  const std::vector<TensorName> taken = file_tensors(c);
  if (std::find(taken.begin(), taken.end(), input) == taken.end())
    return name + " is in the file, but the case does not take it from there" +
           " (" + name + "=file)";
  const auto extents = given_extents(c, input);
  const auto* const end = extents.begin() + tensor_rank(input);
  const std::vector<int64_t> wanted(end - given_rank(c, input), end);
  const Dtype dtype = storage_type(c, input);
  if (tensor.shape == wanted && is_storage(tensor.dtype, dtype, input))
    return "";
  return name + " is " + file_tensor_text(tensor.dtype, tensor.shape) +
         "; the case makes it " + file_tensor_text(file_dtype(dtype), wanted);
}

std::string read_output(const Case& c, const std::string& name,
                        const NamedTensor& tensor, Recording& into) {
  const OutputName output = *parse_output_name(name);
  const bool is_story = c.subject() == Subject::kCache;
  if (is_story != (output.command >= 0))
    return name + (is_story ? ": answers of a story are o.N and lse.N, N the "
                              "command from 0"
                            : ": only a story has answers by number");
  if ((output.tensor == TensorName::kY) != (c.subject() == Subject::kLayer))
    return name + (output.tensor == TensorName::kY
                       ? ": only a layer has y"
                       : ": a layer has y and no other output here");
  if (is_story && (output.command >= std::ssize(c.story) ||
                   !attends(c.story[static_cast<size_t>(output.command)].verb)))
    return name + ": no command of the story with this number answers";
  const std::vector<int64_t> extents = output_extents(c, output);
  const Dtype dtype = output_dtype(c, output.tensor);
  const bool as_f64 = tensor.dtype == FileDtype::kF64;
  if (tensor.shape != extents || (!as_f64 && tensor.dtype != file_dtype(dtype)))
    return name + " is " + file_tensor_text(tensor.dtype, tensor.shape) +
           "; the case makes it " +
           file_tensor_text(file_dtype(dtype), extents) + " or f64";
  into.outputs[name] = {as_f64 ? Dtype::kF64 : dtype, tensor.data};
  return "";
}

std::string sort_tensors(const NamedTensors& tensors, NamedTensors& inputs,
                         NamedTensors& outputs) {
  for (const auto& [name, tensor] : tensors) {
    if (recorded_input(name))
      inputs[name] = tensor;
    else if (parse_output_name(name))
      outputs[name] = tensor;
    else
      return no_tensor(name);
  }
  return outputs.empty() ? "no output; the file has " + names_text(tensors)
                         : "";
}

}  // namespace

std::vector<std::byte> stored_as(Dtype dtype,
                                 const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() *
                               static_cast<size_t>(dtype_bytes(dtype)));
  std::byte* at = bytes.data();
  const auto put = [&](auto number) {
    std::memcpy(at, &number, sizeof number);
    at += sizeof number;
  };
  for (const double value : values) {
    if (dtype == Dtype::kF64) put(value);
    if (dtype == Dtype::kF32) put(static_cast<float>(value));
    if (dtype == Dtype::kF16) put(f16_from_double(value));
    if (dtype == Dtype::kBf16) put(bf16_from_double(value));
  }
  return bytes;
}

Dtype output_dtype(const Case& c, TensorName output) {
  return output == TensorName::kLse ? lse_dtype(c.o_dtype) : c.o_dtype;
}

std::vector<int64_t> output_extents(const Case& c, const OutputName& name) {
  Shape s = c.shape;
  if (name.command >= 0) {
    s.B = 1;
    s.Tq = c.story[static_cast<size_t>(name.command)].count;
  }
  const auto extents = tensor_extents(s, name.tensor);
  return {extents.begin(), extents.begin() + tensor_rank(name.tensor)};
}

std::string with_fingerprint(const std::string& text, uint64_t fingerprint) {
  return fingerprint == 0 ? text
                          : text + ",file=" + fingerprint_text(fingerprint);
}

std::string add_inputs(const NamedTensors& inputs, const std::string& path,
                       uint64_t* fingerprint) {
  if (std::string wrong = wrong_rank(inputs); !wrong.empty()) return wrong;
  *fingerprint = fingerprint_of(inputs);
  if (*fingerprint == 0) return "";
  auto data = std::make_shared<FileData>();
  data->path = path;
  for (const auto& [name, tensor] : inputs)
    data->tensors[*recorded_input(name)] =
        data_of(*recorded_input(name), tensor);
  add_file_data(*fingerprint, std::move(data));
  return "";
}

std::optional<Recording> make_recording(const NamedTensors& tensors,
                                        const std::string& text,
                                        const std::string& path,
                                        std::string* error) {
  NamedTensors inputs, outputs;
  *error = sort_tensors(tensors, inputs, outputs);
  uint64_t fingerprint = 0;
  if (error->empty()) *error = add_inputs(inputs, path, &fingerprint);
  if (!error->empty()) return std::nullopt;
  const ParsedCase parsed = parse_case(with_fingerprint(text, fingerprint));
  *error = parsed.error;
  if (parsed.value && parsed.value->backward)
    *error = "case: no gradients are recorded; allowed: cases without backward";
  if (!error->empty()) return std::nullopt;
  Recording recording;
  recording.value = *parsed.value;
  for (const auto& [name, tensor] : inputs)
    if (error->empty()) *error = wrong_input(recording.value, name, tensor);
  for (const auto& [name, tensor] : outputs)
    if (error->empty())
      *error = read_output(recording.value, name, tensor, recording);
  if (!error->empty()) return std::nullopt;
  recording.inputs = std::move(inputs);
  return recording;
}

}  // namespace qkvet::golden
