// SPDX-License-Identifier: Apache-2.0
// From a Case to its tensors.
#include <cmath>
#include <cstring>

#include "core/base/half.h"
#include "core/case/case.h"
#include "core/case/file_data.h"
#include "core/case/key_lists.h"
#include "core/case/layer_storage.h"
#include "core/case/mask_fields.h"
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

void store_numbers(const std::vector<int64_t>& numbers,
                   std::vector<std::byte>& bytes) {
  bytes.resize(numbers.size() * sizeof(int64_t));
  if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
}

size_t layer_index(TensorName input) {
  return static_cast<size_t>(input) - static_cast<size_t>(TensorName::kX);
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

template <class Byte>
void hash_bytes(const std::vector<Byte>& bytes, uint32_t& hash) {
  constexpr uint32_t kPrime = 16777619;
  for (const Byte byte : bytes)
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

}  // namespace

std::vector<double>& Inputs::values(TensorName input) {
  switch (input) {
    case TensorName::kQ:
      return q;
    case TensorName::kK:
      return k;
    case TensorName::kV:
      return v;
    case TensorName::kBias:
      return bias;
    case TensorName::kSink:
      return sink;
    case TensorName::kSlopes:
      return slopes;
    case TensorName::kDO:
      return d_o;
    case TensorName::kGivenO:
      return given_o;
    case TensorName::kGivenLse:
      return given_lse;
    case TensorName::kDY:
      return d_y;
    case TensorName::kRopeCos:
      return rope_cos;
    case TensorName::kRopeSin:
      return rope_sin;
    default:
      return layer.at(layer_index(input));
  }
}

const std::vector<double>& Inputs::values(TensorName input) const {
  return const_cast<Inputs*>(this)->values(input);
}

const std::vector<std::byte>& Inputs::bytes(TensorName input) const {
  switch (input) {
    case TensorName::kQ:
      return q_bytes;
    case TensorName::kK:
      return k_bytes;
    case TensorName::kV:
      return v_bytes;
    case TensorName::kBias:
      return bias_bytes;
    case TensorName::kSink:
      return sink_bytes;
    case TensorName::kSlopes:
      return slopes_bytes;
    case TensorName::kDO:
      return d_o_bytes;
    case TensorName::kGivenO:
      return given_o_bytes;
    case TensorName::kGivenLse:
      return given_lse_bytes;
    case TensorName::kDY:
      return d_y_bytes;
    case TensorName::kQLen:
      return q_len_bytes;
    case TensorName::kKvLen:
      return kv_len_bytes;
    case TensorName::kCuQ:
      return cu_q_bytes;
    case TensorName::kCuK:
      return cu_k_bytes;
    case TensorName::kRopeCos:
      return rope_cos_bytes;
    case TensorName::kRopeSin:
      return rope_sin_bytes;
    case TensorName::kQPositions:
      return q_positions_bytes;
    case TensorName::kKPositions:
      return k_positions_bytes;
    case TensorName::kKScale:
      return k_scale_bytes;
    case TensorName::kVScale:
      return v_scale_bytes;
    case TensorName::kBlockTable:
      return block_table_bytes;
    case TensorName::kKNew:
      return k_new_bytes;
    case TensorName::kVNew:
      return v_new_bytes;
    case TensorName::kWqkv:
      return w_qkv_bytes;
    case TensorName::kBqkv:
      return b_qkv_bytes;
    case TensorName::kStates:
      return states_bytes;
    case TensorName::kStatesLse:
      return states_lse_bytes;
    case TensorName::kIndptr:
      return indptr_bytes;
    case TensorName::kPageIndptr:
      return page_indptr_bytes;
    case TensorName::kPageIndices:
      return page_indices_bytes;
    case TensorName::kLastPageLen:
      return last_page_len_bytes;
    case TensorName::kKeyIndices:
      return key_indices_bytes;
    case TensorName::kTopkLength:
      return topk_length_bytes;
    case TensorName::kSegmentsQ:
      return segments_q_bytes;
    case TensorName::kSegmentsK:
      return segments_k_bytes;
    case TensorName::kFullRanges:
      return full_ranges_bytes;
    default:
      return layer_bytes.at(layer_index(input));
  }
}

void store_lengths(const Case& c, const std::vector<int64_t>& lengths,
                   std::vector<std::byte>& bytes) {
  if (!c.int32_lengths) return store_numbers(lengths, bytes);
  const std::vector<int32_t> narrow(lengths.begin(), lengths.end());
  bytes.resize(narrow.size() * sizeof(int32_t));
  if (!bytes.empty()) std::memcpy(bytes.data(), narrow.data(), bytes.size());
}

std::vector<int64_t> lengths_in(const Case& c,
                                const std::vector<std::byte>& bytes) {
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

// The first `width` of each row of `all`.
template <class Value>
void copy_channels(const std::vector<Value>& from, int64_t all, int64_t width,
                   std::vector<Value>& to) {
  to.clear();
  for (auto row = from.begin(); all > 0 && row != from.end(); row += all)
    to.insert(to.end(), row, row + width);
}

void store_inputs(const Case& c, Inputs& inputs) {
  if (c.values_in_keys)
    copy_channels(inputs.k, c.shape.d, c.shape.dv, inputs.v);
  store_as(c.q_dtype, inputs.q, inputs.q_bytes);
  store_as(c.kv_dtype, inputs.k, inputs.k_bytes);
  store_as(c.kv_dtype, inputs.v, inputs.v_bytes);
  for (size_t i = 0; i < inputs.layer.size(); ++i)
    store_as(c.q_dtype, inputs.layer[i], inputs.layer_bytes[i]);
  store_layer(c, inputs);
  store_as(c.o_dtype, inputs.d_o, inputs.d_o_bytes);
  store_as(c.o_dtype, inputs.given_o, inputs.given_o_bytes);
  store_as(c.o_dtype, inputs.d_y, inputs.d_y_bytes);
  store_as(storage_type(c, TensorName::kGivenLse), inputs.given_lse,
           inputs.given_lse_bytes);
  store_as(c.q_dtype, inputs.bias, inputs.bias_bytes);
  const Dtype per_head = storage_type(c, TensorName::kSink);
  store_as(per_head, inputs.sink, inputs.sink_bytes);
  store_as(per_head, inputs.slopes, inputs.slopes_bytes);
  store_as(per_head, inputs.rope_cos, inputs.rope_cos_bytes);
  store_as(per_head, inputs.rope_sin, inputs.rope_sin_bytes);
  store_as(Dtype::kF32, inputs.k_scale, inputs.k_scale_bytes);
  store_as(Dtype::kF32, inputs.v_scale, inputs.v_scale_bytes);
  store_numbers(inputs.q_positions, inputs.q_positions_bytes);
  store_numbers(inputs.k_positions, inputs.k_positions_bytes);
  store_lengths(c, c.q_len, inputs.q_len_bytes);
  store_lengths(c, c.kv_len, inputs.kv_len_bytes);
  store_lengths(c, c.cu_q, inputs.cu_q_bytes);
  store_lengths(c, c.cu_k, inputs.cu_k_bytes);
  fill_served(c, inputs);
  if (c.values_in_keys && is_served(c))
    copy_channels(inputs.k_cache_bytes, c.shape.d * dtype_bytes(c.kv_dtype),
                  c.shape.dv * dtype_bytes(c.kv_dtype), inputs.v_cache_bytes);
  store_key_lists(inputs);
  store_mask_fields(c, inputs);
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
  hash_bytes(inputs.q_bytes, hash);
  hash_bytes(inputs.k_bytes, hash);
  hash_bytes(inputs.v_bytes, hash);
  hash_bytes(inputs.d_o_bytes, hash);
  hash_bytes(inputs.d_y_bytes, hash);
  for (const auto& bytes : inputs.layer_bytes) hash_bytes(bytes, hash);
  hash_bytes(inputs.w_qkv_bytes, hash);
  hash_bytes(inputs.b_qkv_bytes, hash);
  hash_bytes(inputs.mask_buffer, hash);
  hash_bytes(inputs.mask, hash);
  for (const TensorName option :
       {TensorName::kBias,        TensorName::kSink,
        TensorName::kSlopes,      TensorName::kQLen,
        TensorName::kKvLen,       TensorName::kCuQ,
        TensorName::kCuK,         TensorName::kRopeCos,
        TensorName::kRopeSin,     TensorName::kQPositions,
        TensorName::kKPositions,  TensorName::kKScale,
        TensorName::kVScale,      TensorName::kBlockTable,
        TensorName::kKNew,        TensorName::kVNew,
        TensorName::kPageIndptr,  TensorName::kPageIndices,
        TensorName::kLastPageLen, TensorName::kKeyIndices,
        TensorName::kTopkLength,  TensorName::kSegmentsQ,
        TensorName::kSegmentsK,   TensorName::kFullRanges})
    hash_bytes(inputs.bytes(option), hash);
  hash_bytes(inputs.tree_mask, hash);
  hash_bytes(inputs.k_cache_bytes, hash);
  hash_bytes(inputs.v_cache_bytes, hash);
  return hash;
}

}  // namespace qkvet
