// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/python_text.h"

#include <fmt/core.h>

#include <cstring>

#include "tools/base/lines.h"

namespace qkvet::tools {
namespace {

constexpr size_t kWidth = 80;

std::string shape_py(const std::vector<int64_t>& shape) {
  return fmt::format("({}{})", joined(shape), shape.size() == 1 ? "," : "");
}

// The words in lines, as one string.
std::string text_py(const std::vector<std::string>& words) {
  std::string text = "\"\"\"";
  size_t column = kWidth;
  for (const std::string& word : words) {
    const bool fits = column + 1 + word.size() <= kWidth;
    text += fits ? " " + word : "\n            " + word;
    column = fits ? column + 1 + word.size() : 12 + word.size();
  }
  return text + "\"\"\"";
}

std::string numbers_py(const char* dtype, const std::vector<int64_t>& shape,
                       const std::vector<double>& values) {
  std::vector<std::string> words;
  words.reserve(values.size());
  for (const double value : values) words.push_back(hex_number(value));
  return fmt::format("numbers(\"{}\", {}, {})", dtype, shape_py(shape),
                     text_py(words));
}

template <class T>
std::string integers_py(const char* dtype, const NamedTensor& tensor) {
  const std::vector<std::byte>& packed = tensor.data;
  std::vector<std::string> words;
  for (size_t at = 0; at + sizeof(T) <= packed.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, packed.data() + at, sizeof value);
    words.push_back(std::to_string(value));
  }
  return fmt::format("integers(\"{}\", {}, {})", dtype, shape_py(tensor.shape),
                     text_py(words));
}

}  // namespace

std::string float_py(double value) {
  return fmt::format("float.fromhex(\"{}\")", hex_number(value));
}

std::string truth_py(bool is) { return is ? "True" : "False"; }

std::string string_py(const std::string& text) {
  if (text.empty()) return "None";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else if (byte < ' ' || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + "\"";
}

std::string quoted_py(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  out.resize(out.find_last_not_of('\n') + 1);
  return out;
}

std::string list_py(const std::vector<int64_t>& numbers) {
  return fmt::format("[{}]", joined(numbers));
}

std::string tensor_py(const NamedTensor& tensor) {
  switch (tensor.dtype) {
    case FileDtype::kInt64:
      return integers_py<int64_t>("int64", tensor);
    case FileDtype::kInt32:
      return integers_py<int32_t>("int32", tensor);
    case FileDtype::kUint8:
      return integers_py<uint8_t>("uint8", tensor);
    case FileDtype::kF64:
      return numbers_py("float64", tensor.shape, numbers_of(tensor));
    case FileDtype::kF16:
      return numbers_py("float16", tensor.shape, numbers_of(tensor));
    default:  // numpy has no bf16
      return numbers_py("float32", tensor.shape, numbers_of(tensor));
  }
}

std::string entry_py(const std::string& name, const std::string& value) {
  return fmt::format("    \"{}\": {},\n", name, value);
}

std::string wanted_py(const std::vector<int64_t>& shape,
                      const std::vector<Wanted>& wanted) {
  std::vector<double> parts[4];
  for (const Wanted& one : wanted) {
    parts[0].push_back(one.value);
    parts[1].push_back(one.bound);
    parts[2].push_back(one.low);
    parts[3].push_back(one.high);
  }
  std::string text = "[\n";
  for (const auto& part : parts)
    text += "        " + numbers_py("float64", shape, part) + ",\n";
  return text + "    ]";
}

std::string outputs_py(const WrittenCall& call) {
  std::string recorded = "{\n", wanted = "{\n", staged = "{\n";
  std::string storage = "{";
  for (const WrittenOutput& output : call.outputs) {
    const std::string& name = output.name;
    const std::vector<int64_t>& shape = output.values.shape;
    if (!call.refused)
      recorded += "    " + entry_py(name, tensor_py(output.values));
    wanted += "    " + entry_py(name, wanted_py(shape, output.wanted));
    if (!output.staged.empty())
      staged += "    " + entry_py(name, wanted_py(shape, output.staged));
    storage += fmt::format("{}\"{}\": \"{}\"", storage.size() > 1 ? ", " : "",
                           name, dtype_name(output.spec.dtype));
  }
  recorded += "    }";
  if (call.refused) recorded = "ValueError(" + string_py(call.said) + ")";
  std::string text = entry_py("storage", storage + "}") +
                     entry_py("recorded", recorded) +
                     entry_py("wanted", wanted + "    }");
  if (call.plan.operation == Operation::kLayer)
    text += entry_py("staged", staged + "    }");
  return text;
}

}  // namespace qkvet::tools
