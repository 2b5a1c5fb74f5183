// SPDX-License-Identifier: Apache-2.0
// The libraries of tests share this: a list of kernels by name, and tensors of
// the ABI in words.
#ifndef QKVET_CORE_TESTDATA_LIBRARY_H_
#define QKVET_CORE_TESTDATA_LIBRARY_H_

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "qkvet/kernel.h"

// The first element of a tensor.
template <class T>
T* data_of(const qkvet_tensor& t) {
  return reinterpret_cast<T*>(static_cast<char*>(t.data) + t.byte_offset);
}

// Kernels keep their addresses when a program opens the library again.
class Library {
 public:
  qkvet_kernel& add(const std::string& name, const qkvet_capabilities& can) {
    const auto [at, is_new] = kernels_.try_emplace(name);
    qkvet_kernel& kernel = at->second;
    if (is_new) list_.push_back(&kernel);
    kernel = {};
    kernel.struct_size = sizeof kernel;
    kernel.name = at->first.c_str();
    kernel.capabilities = &can;
    return kernel;
  }
  qkvet_status give(const char* name, qkvet_library* out) const {
    out->abi_major = QKVET_ABI_MAJOR;
    out->abi_minor = QKVET_ABI_MINOR;
    out->name = name;
    out->kernel_count = static_cast<int>(list_.size());
    out->kernels = list_.data();
    return QKVET_OK;
  }

 private:
  std::map<std::string, qkvet_kernel> kernels_;
  std::vector<const qkvet_kernel*> list_;
};

// Whether the kernel has this name in its family.
inline bool is(const qkvet_kernel* self, std::string_view name) {
  const std::string_view all = self->name;
  return all.substr(all.find('/') + 1) == name;
}

inline qkvet_status say(qkvet_text* why, qkvet_status status,
                        const std::string& text) {
  if (why != nullptr)
    std::snprintf(why->data, why->capacity, "%s", text.c_str());
  return status;
}

inline int64_t elements(const qkvet_tensor& t) {
  int64_t n = t.ndim > 0 ? 1 : 0;
  for (int i = 0; i < t.ndim; ++i) n *= t.shape[i];
  return n;
}

inline double value_at(const qkvet_tensor& t, int64_t at) {
  if (t.dtype.code == QKVET_DTYPE_UINT) return data_of<const uint8_t>(t)[at];
  if (t.dtype.code == QKVET_DTYPE_INT && t.dtype.bits == 32)
    return data_of<const int32_t>(t)[at];
  if (t.dtype.code == QKVET_DTYPE_INT)
    return static_cast<double>(data_of<const int64_t>(t)[at]);
  if (t.dtype.bits == 64) return data_of<const double>(t)[at];
  if (t.dtype.bits == 32) return data_of<const float>(t)[at];
  return data_of<const uint16_t>(t)[at];
}

// A stride that counts; "x" where none can.
inline std::string stride_text(const qkvet_tensor& t, int i) {
  const bool absurd = t.strides[i] > int64_t{1} << 40;
  return absurd ? "x" : std::to_string(t.strides[i]);
}

// "uint8 2,1,3 / 3,x,1: 1 0 1 1 1 0": type, extents, strides, values.
inline std::string description(const qkvet_tensor& t) {
  if (t.ndim == 0) return t.data == nullptr ? "absent" : "half absent";
  if (t.data == nullptr) return "no data";
  const char* const codes[] = {"int", "uint", "float", "?", "bfloat"};
  std::string text = codes[t.dtype.code] + std::to_string(t.dtype.bits) + " ";
  for (int i = 0; i < t.ndim; ++i)
    text += (i > 0 ? "," : "") + std::to_string(t.shape[i]);
  for (int i = 0; i < t.ndim; ++i)
    text += (i > 0 ? "," : " / ") + stride_text(t, i);
  text += ":";
  for (int64_t n = 0; n < elements(t); ++n) {
    int64_t rest = n;
    int64_t at = 0;
    for (int i = t.ndim - 1; i >= 0; --i) {
      at += rest % t.shape[i] * (t.shape[i] == 1 ? 0 : t.strides[i]);
      rest /= t.shape[i];
    }
    const double value = value_at(t, at);
    char number[32];
    std::snprintf(number, sizeof number, " %g", std::fabs(value));
    text += std::isnan(value) ? " nan" : number;
  }
  return text;
}

inline int64_t offset(const qkvet_tensor& t, int64_t b, int64_t h, int64_t i,
                      int64_t c) {
  const int64_t index[] = {b, h, i, c};
  int64_t at = 0;
  for (int n = 0; n < t.ndim; ++n)
    if (index[n] != 0) at += index[n] * t.strides[n];
  return at;
}

#endif  // QKVET_CORE_TESTDATA_LIBRARY_H_
