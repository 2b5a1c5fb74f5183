// SPDX-License-Identifier: Apache-2.0
// From a Case to its tensors.
#include <cstring>

#include "core/case.h"
#include "core/half.h"

namespace qkvet {
namespace {

void fill(const Recipe& recipe, uint64_t seed, TensorName tensor, int64_t B,
          int64_t heads, int64_t rows, int64_t width,
          std::vector<double>& out) {
  out.resize(static_cast<size_t>(B * heads * rows * width));
  double* at = out.data();
  const auto n = static_cast<size_t>(width);
  for (int64_t b = 0; b < B; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t t = 0; t < rows; ++t, at += width)
        recipe_row(recipe, seed, tensor, b, h, t, {at, n});
}

// Rounds to the storage type (to nearest, ties to even) and stores.
template <class Storage, class Encode, class Decode>
void store(std::vector<double>& values, std::vector<std::byte>& bytes,
           Encode encode, Decode decode) {
  bytes.resize(values.size() * sizeof(Storage));
  std::byte* at = bytes.data();
  for (double& value : values) {
    const Storage stored = encode(value);
    value = decode(stored);
    std::memcpy(at, &stored, sizeof stored);
    at += sizeof stored;
  }
}

void store_as(Dtype dtype, std::vector<double>& values,
              std::vector<std::byte>& bytes) {
  switch (dtype) {
    case Dtype::kF16:
      return store<uint16_t>(values, bytes, f16_from_double, f16_to_double);
    case Dtype::kBf16:
      return store<uint16_t>(values, bytes, bf16_from_double, bf16_to_double);
    case Dtype::kF32:
      return store<float>(
          values, bytes, [](double x) { return static_cast<float>(x); },
          [](float x) { return static_cast<double>(x); });
    default:
      return store<double>(
          values, bytes, [](double x) { return x; },
          [](double x) { return x; });
  }
}

void hash_bytes(const std::vector<std::byte>& bytes, uint32_t& hash) {
  constexpr uint32_t kPrime = 16777619;
  for (const std::byte byte : bytes)
    hash = (hash ^ std::to_integer<uint32_t>(byte)) * kPrime;
}

}  // namespace

bool can_store(Dtype dtype) {
  return dtype == Dtype::kF64 || dtype == Dtype::kF32 || dtype == Dtype::kF16 ||
         dtype == Dtype::kBf16;
}

void store_inputs(const Case& c, Inputs& inputs) {
  store_as(c.q_dtype, inputs.q, inputs.q_bytes);
  store_as(c.kv_dtype, inputs.k, inputs.k_bytes);
  store_as(c.kv_dtype, inputs.v, inputs.v_bytes);
}

Inputs make_inputs(const Case& c) {
  const Shape& s = c.shape;
  Inputs inputs;
  fill(c.q, c.seed, TensorName::kQ, s.B, s.H, s.Tq, s.d, inputs.q);
  fill(c.k, c.seed, TensorName::kK, s.B, s.Hkv, s.Tk, s.d, inputs.k);
  fill(c.v, c.seed, TensorName::kV, s.B, s.Hkv, s.Tk, s.dv, inputs.v);
  for (const SetValue& set : c.set) {
    const bool is_q = set.tensor == TensorName::kQ;
    const int64_t width = set.tensor == TensorName::kV ? s.dv : s.d;
    const auto& i = set.index;
    const int64_t at =
        ((i[0] * (is_q ? s.H : s.Hkv) + i[1]) * (is_q ? s.Tq : s.Tk) + i[2]) *
            width +
        i[3];
    auto& values = is_q                           ? inputs.q
                   : set.tensor == TensorName::kK ? inputs.k
                                                  : inputs.v;
    values[static_cast<size_t>(at)] = set.value;
  }
  store_inputs(c, inputs);
  return inputs;
}

uint32_t input_digest(const Inputs& inputs) {
  constexpr uint32_t kOffsetBasis = 2166136261;
  uint32_t hash = kOffsetBasis;
  hash_bytes(inputs.q_bytes, hash);
  hash_bytes(inputs.k_bytes, hash);
  hash_bytes(inputs.v_bytes, hash);
  return hash;
}

}  // namespace qkvet
