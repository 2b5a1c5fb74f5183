// SPDX-License-Identifier: Apache-2.0
// The storage types of tensors, and what the ABI calls them.
#ifndef QKVET_CORE_BASE_DTYPE_H_
#define QKVET_CORE_BASE_DTYPE_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "qkvet/kernel.h"

namespace qkvet {

enum class Dtype : uint8_t {
  kF64,
  kF32,
  kF16,
  kBf16,
  kFp8e4m3,
  kFp8e5m2,
  kInt8,
  // Types of masks, lengths and block tables: no Case names them.
  kUint8,
  kInt64,
  kInt32
};
inline constexpr int kDtypeCount = 10;
inline constexpr int kCaseDtypeCount = 7;

// "f64", "f32", "f16", "bf16", "fp8e4m3", "fp8e5m2", "int8"; "uint8", "int64",
// "int32".
std::string_view dtype_name(Dtype dtype);
// One of those that a Case can name.
std::optional<Dtype> dtype_from_name(std::string_view name);

// Size of one element in bytes.
int64_t dtype_bytes(Dtype dtype);

// DLPack's code, as the ABI passes it.
qkvet_dtype dtype_to_abi(Dtype dtype);
std::optional<Dtype> dtype_from_abi(qkvet_dtype dtype);
bool same_dtype(qkvet_dtype a, qkvet_dtype b);

}  // namespace qkvet

#endif  // QKVET_CORE_BASE_DTYPE_H_
