// SPDX-License-Identifier: Apache-2.0
// From a Case to its tensors.
#include <cmath>
#include <cstring>
#include <span>
#include <type_traits>

#include "core/base/stored_numbers.h"
#include "core/call/tensor_table.h"
#include "core/case/case.h"
#include "core/case/file_data.h"
#include "core/case/key_lists.h"
#include "core/case/layer_storage.h"
#include "core/case/merge.h"
#include "core/case/option_data.h"
#include "core/case/paging.h"
#include "core/case/rope.h"

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

template <class Stored, class Number>
void store_each(const std::vector<Number>& numbers,
                std::vector<std::byte>& bytes) {
  const std::vector<Stored> stored(numbers.begin(), numbers.end());
  const auto all = std::as_bytes(std::span(stored));
  bytes.assign(all.begin(), all.end());
}

// As int32 or int64.
template <class Number>
void store_integers(Dtype dtype, const std::vector<Number>& numbers,
                    std::vector<std::byte>& bytes) {
  if (dtype == Dtype::kInt32)
    store_each<int32_t>(numbers, bytes);
  else
    store_each<int64_t>(numbers, bytes);
}

// A row of a matrix is one input; a bias is one row.
void fill_layer(const Case& c, Inputs& inputs) {
  const auto fill_tensor = [&](const Recipe& recipe, TensorName tensor) {
    const auto e = tensor_extents(c.shape, tensor);
    std::vector<double>& out = inputs.values(tensor);
    if (tensor == TensorName::kX || tensor == TensorName::kDY)
      fill(recipe, c.seed, tensor, e[0], 1, e[1], e[2], out);
    else if (tensor_rank(tensor) == 2)
      fill(recipe, c.seed, tensor, 1, 1, e[0], e[1], out);
    else
      fill(recipe, c.seed, tensor, 1, 1, 1, e[0], out);
  };
  fill_tensor(c.x, TensorName::kX);
  for (const TensorName matrix :
       {TensorName::kWq, TensorName::kWk, TensorName::kWv, TensorName::kWo})
    fill_tensor(c.w, matrix);
  constexpr std::pair<uint8_t, TensorName> kBiases[] = {
      {kBiasQ, TensorName::kBq},
      {kBiasK, TensorName::kBk},
      {kBiasV, TensorName::kBv},
      {kBiasO, TensorName::kBo}};
  for (const auto& [bit, tensor] : kBiases)
    if ((c.biases & bit) != 0) fill_tensor(c.bias, tensor);
  if (c.backward) fill_tensor(c.d_o, TensorName::kDY);
}

void hash_bytes(std::span<const std::byte> bytes, uint32_t& hash) {
  constexpr uint32_t kPrime = 16777619;
  for (const std::byte byte : bytes)
    hash = (hash ^ static_cast<uint32_t>(byte)) * kPrime;
}

void set_value(const Case& c, const SetValue& set, Inputs& inputs) {
  const auto extents = given_extents(c, set.tensor);
  int64_t at = 0;
  for (size_t n = 0; n < static_cast<size_t>(tensor_rank(set.tensor)); ++n)
    at = at * extents[n] + set.index[n];
  // A bias that is not given has no values.
  std::vector<double>& values = inputs.values(set.tensor);
  if (static_cast<size_t>(at) < values.size())
    values[static_cast<size_t>(at)] = set.value;
}

// One scale for every channel of every head, over all tokens; 1 where all of
// them are 0.
void fill_scales(const Case& c, int64_t width,
                 const std::vector<double>& values,
                 std::vector<double>& scales) {
  const Shape& s = c.shape;
  scales.assign(static_cast<size_t>(s.Hkv * width), 0);
  for (size_t n = 0; n < values.size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    const int64_t head = at / width / s.Tk % s.Hkv;
    double& most = scales[static_cast<size_t>(head * width + at % width)];
    most = std::max(most, std::fabs(values[n]));
  }
  for (double& scale : scales)
    scale = scale > 0 ? scale / c.cache.largest_code() : 1;
}

// The first `width` of each row of `all`.
template <class Value>
void copy_channels(const std::vector<Value>& from, int64_t all, int64_t width,
                   std::vector<Value>& to) {
  to.clear();
  for (auto row = from.begin(); all > 0 && row != from.end(); row += all)
    to.insert(to.end(), row, row + width);
}

}  // namespace

std::vector<double>& Inputs::values(TensorName input) {
  std::vector<double>* found = nullptr;
  visit_values(*this, input, [&found](auto& values) {
    if constexpr (std::is_same_v<decltype(values), std::vector<double>&>)
      found = &values;
  });
  return *found;
}

const std::vector<double>& Inputs::values(TensorName input) const {
  return const_cast<Inputs*>(this)->values(input);
}

std::span<const std::byte> Inputs::bytes(TensorName input) const {
#define QKVET_BYTES_kBytes(member) member##_bytes
#define QKVET_BYTES_kValues QKVET_BYTES_kBytes
#define QKVET_BYTES_kNumbers QKVET_BYTES_kBytes
#define QKVET_BYTES_kShortNumbers QKVET_BYTES_kBytes
#define QKVET_BYTES_kMask(member) std::as_bytes(std::span(member))
  switch (input) {
#define QKVET_INPUT(name, member, text, data, ...) \
  case TensorName::k##name:                        \
    return QKVET_BYTES_##data(member);
#include "core/call/tensors.def"
    default:
      return {};
  }
}

void store_lengths(const Case& c, const std::vector<int64_t>& lengths,
                   std::vector<std::byte>& bytes) {
  store_integers(stored_type(c, TensorType::kLength), lengths, bytes);
}

std::vector<int64_t> lengths_in(const Case& c,
                                std::span<const std::byte> bytes) {
  const auto read = [&](auto numbers) {
    numbers.resize(bytes.size() / sizeof(numbers[0]));
    if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return std::vector<int64_t>(numbers.begin(), numbers.end());
  };
  return c.int32_lengths ? read(std::vector<int32_t>())
                         : read(std::vector<int64_t>());
}

bool gives_lengths(const Case& c) {
  const bool of_keys = !c.kv_len.empty() || is_served(c);
  return !c.q_len.empty() || !c.cu_q.empty() ||
         (of_keys && c.paging.table == PageTable::kBlocks);
}

void store_inputs(const Case& c, Inputs& inputs) {
  if (c.values_in_keys)
    copy_channels(inputs.k, c.shape.d, c.shape.dv, inputs.v);
#define QKVET_STORE_kBytes(member, type)
#define QKVET_STORE_kMask(member, type)
#define QKVET_STORE_kValues(member, type)                        \
  store_numbers(stored_type(c, TensorType::type), inputs.member, \
                inputs.member##_bytes);
#define QKVET_STORE_kNumbers(member, type)                        \
  store_integers(stored_type(c, TensorType::type), inputs.member, \
                 inputs.member##_bytes);
#define QKVET_STORE_kShortNumbers QKVET_STORE_kNumbers
#define QKVET_INPUT(name, member, text, data, type, ...) \
  QKVET_STORE_##data(member, type)
#include "core/call/tensors.def"
  store_layer(c, inputs);
  store_lengths(c, c.q_len, inputs.q_len_bytes);
  store_lengths(c, c.kv_len, inputs.kv_len_bytes);
  store_lengths(c, c.cu_q, inputs.cu_q_bytes);
  store_lengths(c, c.cu_k, inputs.cu_k_bytes);
  fill_served(c, inputs);
  if (c.values_in_keys && is_served(c))
    copy_channels(inputs.k_cache_bytes, c.shape.d * dtype_bytes(c.kv_dtype),
                  c.shape.dv * dtype_bytes(c.kv_dtype), inputs.v_cache_bytes);
  fill_merge(c, inputs);
}

Inputs make_inputs(const Case& c) {
  Inputs inputs;
  if (c.is_layer()) {
    fill_layer(c, inputs);
  } else {
    const Shape& s = c.shape;
    fill(c.q, c.seed, TensorName::kQ, s.B, s.H, s.Tq, s.d, inputs.q);
    fill(c.k, c.seed, TensorName::kK, s.B, s.Hkv, s.Tk, s.d, inputs.k);
    fill(c.v, c.seed, TensorName::kV, s.B, s.Hkv, s.Tk, s.dv, inputs.v);
    if (c.backward)
      fill(c.d_o, c.seed, TensorName::kDO, s.B, s.H, s.Tq, s.dv, inputs.d_o);
  }
  fill_option_data(c, inputs);
  fill_from_file(c, inputs);
  fill_rope(c, inputs);
  for (const SetValue& set : c.set) set_value(c, set, inputs);
  share_and_poison(c, inputs);
  store_inputs(c, inputs);
  if (!c.cache.per_channel()) return inputs;
  const Shape& s = c.shape;
  fill_scales(c, s.d, inputs.k, inputs.k_scale);
  fill_scales(c, s.dv, inputs.v, inputs.v_scale);
  store_inputs(c, inputs);
  return inputs;
}

uint32_t input_digest(const Inputs& inputs) {
  constexpr uint32_t kOffsetBasis = 2166136261;
  uint32_t hash = kOffsetBasis;
  constexpr int kPasses = 3;
  for (int pass = 1; pass <= kPasses; ++pass)
    for (const TensorRow& row : kTensors)
      if (row.digest == pass) hash_bytes(inputs.bytes(row.tensor), hash);
  hash_bytes(inputs.k_cache_bytes, hash);
  hash_bytes(inputs.v_cache_bytes, hash);
  return hash;
}

}  // namespace qkvet
