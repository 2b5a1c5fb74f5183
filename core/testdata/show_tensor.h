// SPDX-License-Identifier: Apache-2.0
// For kernels of tests: a tensor of the ABI in words, and where its elements
// lie.
#ifndef QKVET_CORE_TESTDATA_SHOW_TENSOR_H_
#define QKVET_CORE_TESTDATA_SHOW_TENSOR_H_

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include "qkvet/kernel.h"

inline double value_at(const qkvet_tensor& t, int64_t at) {
  if (t.dtype.code == QKVET_DTYPE_UINT)
    return static_cast<const uint8_t*>(t.data)[at];
  if (t.dtype.code == QKVET_DTYPE_INT && t.dtype.bits == 32)
    return static_cast<const int32_t*>(t.data)[at];
  if (t.dtype.code == QKVET_DTYPE_INT)
    return static_cast<double>(static_cast<const int64_t*>(t.data)[at]);
  if (t.dtype.bits == 64) return static_cast<const double*>(t.data)[at];
  if (t.dtype.bits == 32) return static_cast<const float*>(t.data)[at];
  return static_cast<const uint16_t*>(t.data)[at];
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
  int64_t elements = 1;
  for (int i = 0; i < t.ndim; ++i) {
    text += (i > 0 ? "," : "") + std::to_string(t.shape[i]);
    elements *= t.shape[i];
  }
  for (int i = 0; i < t.ndim; ++i)
    text += (i > 0 ? "," : " / ") + stride_text(t, i);
  text += ":";
  for (int64_t n = 0; n < elements; ++n) {
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

#endif  // QKVET_CORE_TESTDATA_SHOW_TENSOR_H_
