// SPDX-License-Identifier: Apache-2.0
// The shape of a Case's tensors: extents, types, rows that count.
#include <algorithm>
#include <bit>

#include "core/call/tensor_table.h"
#include "core/case/case_options.h"
#include "core/case/key_lists.h"

namespace qkvet {
namespace {

std::array<int64_t, 4> own_extents(const Shape& s, uint8_t own) {
  return {(own & kOwnB) != 0 ? s.B : 1, (own & kOwnH) != 0 ? s.H : 1,
          (own & kOwnQ) != 0 ? s.Tq : 1, (own & kOwnK) != 0 ? s.Tk : 1};
}

// The option that alone brings an input of forward() with numbers from a case;
// 0: there is none.
constexpr auto kBringing = [] {
  std::array<uint64_t, kTensors.size()> options{};
  const auto bring = [&](TensorName tensor, uint64_t option) {
    const TensorData data = tensor_row(tensor).data;
    if (std::has_single_bit(option) && data != TensorData::kNone &&
        data != TensorData::kBytes)
      options[static_cast<size_t>(tensor)] = option;
  };
#define QKVET_FORWARD_SCALE(...)
#define QKVET_FORWARD_TABLE(...)
#define QKVET_FORWARD_TENSOR(field, name, options) \
  bring(TensorName::k##name, options);
#include "qkvet/tensors.def"
  return options;
}();

}  // namespace

bool can_store(Dtype dtype) {
  return dtype == Dtype::kF64 || dtype == Dtype::kF32 || dtype == Dtype::kF16 ||
         dtype == Dtype::kBf16;
}

int tensor_rank(TensorName input) { return tensor_row(input).rank(); }

int given_rank(const Case& c, TensorName input) {
  return input == TensorName::kSlopes && !c.member_slopes ? 1
                                                          : tensor_rank(input);
}

int64_t member_count(const Case& c) {
  return c.cu_q.empty() ? c.shape.B : static_cast<int64_t>(c.cu_q.size()) - 1;
}

bool has_tensor(const Case& c, TensorName input) {
  if (const uint64_t option = kBringing[static_cast<size_t>(input)])
    return std::ranges::any_of(case_options(), [&](const CaseOption& row) {
      return row.option == option && row.given(c);
    });
  switch (input) {
    case TensorName::kDO:
    case TensorName::kGivenO:
    case TensorName::kGivenLse:
      return c.subject() == Subject::kBackward;
    case TensorName::kDY:
      return c.subject() == Subject::kLayerBackward;
    case TensorName::kKScale:
    case TensorName::kVScale:
      return c.cache.per_channel();
    case TensorName::kQLen:
      return !c.q_len.empty();
    case TensorName::kKvLen:
      return !c.kv_len.empty();
    case TensorName::kCuQ:
      return !c.cu_q.empty();
    case TensorName::kCuK:
      return !c.cu_k.empty();
    default:
      // q, k, v and the inputs of layers; not tables and states.
      return tensor_row(input).recorded == Recorded::kInCalls;
  }
}

std::array<int64_t, 4> tensor_extents(const Shape& s, TensorName input) {
  std::array<int64_t, 4> extents;
  for (size_t n = 0; n < extents.size(); ++n) {
    const auto extent = extent_of(s, tensor_row(input).extents[n]);
    if (!extent) return {};
    extents[n] = *extent;
  }
  return extents;
}

std::array<int64_t, 4> tensor_extents(const Case& c, TensorName input) {
  if (!has_tensor(c, input)) return {};
  auto extents = tensor_extents(c.shape, input);
  switch (input) {
    case TensorName::kK:
    case TensorName::kV:
      if ((c.share & kShareB) != 0)
        extents[0] = std::min<int64_t>(extents[0], 1);
      if ((c.share & kShareH) != 0) extents[1] = 1;
      return extents;
    case TensorName::kMask:
      return own_extents(c.shape, c.mask.own);
    case TensorName::kBias:
      return own_extents(c.shape, c.score_bias_own);
    case TensorName::kSlopes:
      extents[0] = c.member_slopes ? member_count(c) : 1;
      return extents;
    case TensorName::kKeyIndices:
      return {c.shape.B, list_heads(c), c.shape.Tq, c.listed.entries};
    case TensorName::kFullRanges:
      return {c.shape.B, c.fields.ranges, 2, 1};
    case TensorName::kRopeCos:
    case TensorName::kRopeSin:
      return {rope_rows(c), rope_channels(c) / 2, 1, 1};
    case TensorName::kQLen:
      return {std::ssize(c.q_len)};
    case TensorName::kKvLen:
      return {std::ssize(c.kv_len)};
    case TensorName::kCuQ:
      return {std::ssize(c.cu_q)};
    case TensorName::kCuK:
      return {std::ssize(c.cu_k)};
    default:
      return extents;
  }
}

int64_t counted_queries(const Case& c, int64_t b) {
  if (!c.cu_q.empty()) return c.cu_q.back();
  return c.q_len.empty() ? c.shape.Tq : c.q_len[static_cast<size_t>(b)];
}

int64_t counted_keys(const Case& c, int64_t b) {
  if (!c.cu_k.empty()) return c.cu_k.back();
  return c.kv_len.empty() ? c.shape.Tk : c.kv_len[static_cast<size_t>(b)];
}

Dtype storage_type(const Case& c, TensorName input) {
  return stored_type(c, tensor_row(input).type);
}

const char* set_name(TensorName input) {
  return input == TensorName::kSlopes ? "alibi" : tensor_name(input);
}

}  // namespace qkvet
