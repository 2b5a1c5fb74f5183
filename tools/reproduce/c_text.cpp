// SPDX-License-Identifier: Apache-2.0
#include "tools/reproduce/c_text.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>

#include "qkvet/kernel.h"
#include "tools/reproduce/reproducer.h"

namespace qkvet::tools {
namespace {

template <class T>
T stored_at(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

const char* code_c(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBf16:
      return "QKVET_DTYPE_BFLOAT";
    case Dtype::kInt64:
    case Dtype::kInt32:
      return "QKVET_DTYPE_INT";
    case Dtype::kUint8:
      return "QKVET_DTYPE_UINT";
    default:
      return "QKVET_DTYPE_FLOAT";
  }
}

}  // namespace

std::string number_c(double value) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value > 0 ? "INFINITY" : "-INFINITY";
  return hex_number(value);
}

std::string element_c(const std::byte* at, Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
      return number_c(stored_at<double>(at));
    case Dtype::kF32: {
      const std::string text = number_c(stored_at<float>(at));
      return text.find('x') == std::string::npos ? text : text + "f";
    }
    case Dtype::kF16:
    case Dtype::kBf16:
      return fmt::format("0x{:04x}", stored_at<uint16_t>(at));
    case Dtype::kInt64:
      return std::to_string(stored_at<int64_t>(at));
    case Dtype::kInt32:
      return std::to_string(stored_at<int32_t>(at));
    default:
      return std::to_string(stored_at<uint8_t>(at));
  }
}

const char* type_c(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
      return "double";
    case Dtype::kF32:
      return "float";
    case Dtype::kF16:
    case Dtype::kBf16:
      return "uint16_t";
    case Dtype::kInt64:
      return "int64_t";
    case Dtype::kInt32:
      return "int32_t";
    default:
      return "uint8_t";
  }
}

std::string dtype_c(Dtype dtype) {
  return fmt::format("{{{}, {}, 1}}", code_c(dtype), dtype_bytes(dtype) * 8);
}

std::string string_c(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else if (byte < ' ' || byte == 0x7f || c == '?')
      out += fmt::format("\\{:03o}", byte);
    else
      out += c;
  }
  return out + "\"";
}

std::string comment_c(const std::string& text) {
  std::string out = "/* ";
  for (const char c : text) {
    if (c == '/' && out.back() == '*') out += ' ';
    out += c;
    if (c == '\n') out += " * ";
  }
  out.resize(out.find_last_not_of(" *\n") + 1);
  return out + " */";
}

}  // namespace qkvet::tools
