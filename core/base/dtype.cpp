// SPDX-License-Identifier: Apache-2.0
#include "core/base/dtype.h"

#include <array>

namespace qkvet {
namespace {

struct Row {
  std::string_view name;
  qkvet_dtype abi;
};

// In the order of Dtype.
constexpr std::array<Row, kDtypeCount> kRows = {{
    {"f64", {QKVET_DTYPE_FLOAT, 64, 1}},
    {"f32", {QKVET_DTYPE_FLOAT, 32, 1}},
    {"f16", {QKVET_DTYPE_FLOAT, 16, 1}},
    {"bf16", {QKVET_DTYPE_BFLOAT, 16, 1}},
    {"fp8e4m3", {QKVET_DTYPE_FLOAT8_E4M3FN, 8, 1}},
    {"fp8e5m2", {QKVET_DTYPE_FLOAT8_E5M2, 8, 1}},
    {"int8", {QKVET_DTYPE_INT, 8, 1}},
    {"uint8", {QKVET_DTYPE_UINT, 8, 1}},
    {"int64", {QKVET_DTYPE_INT, 64, 1}},
    {"int32", {QKVET_DTYPE_INT, 32, 1}},
}};

const Row& row(Dtype dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

std::string_view dtype_name(Dtype dtype) { return row(dtype).name; }

std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (int i = 0; i < kCaseDtypeCount; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    if (row(dtype).name == name) return dtype;
  }
  return std::nullopt;
}

int64_t dtype_bytes(Dtype dtype) { return row(dtype).abi.bits / 8; }

qkvet_dtype dtype_to_abi(Dtype dtype) { return row(dtype).abi; }

std::optional<Dtype> dtype_from_abi(qkvet_dtype dtype) {
  for (int i = 0; i < kDtypeCount; ++i)
    if (same_dtype(kRows[static_cast<size_t>(i)].abi, dtype))
      return static_cast<Dtype>(i);
  return std::nullopt;
}

bool same_dtype(qkvet_dtype a, qkvet_dtype b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

}  // namespace qkvet
