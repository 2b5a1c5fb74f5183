// SPDX-License-Identifier: Apache-2.0
// What the tensors of a Case look like: extents, types, rows that count.
#include <algorithm>

#include "core/case.h"

namespace qkvet {
namespace {

std::array<int64_t, 4> own_extents(const Shape& s, uint8_t own) {
  return {(own & kOwnB) != 0 ? s.B : 1, (own & kOwnH) != 0 ? s.H : 1,
          (own & kOwnQ) != 0 ? s.Tq : 1, (own & kOwnK) != 0 ? s.Tk : 1};
}

std::array<int64_t, 4> rope_extents(const Case& c, TensorName input) {
  const Shape& s = c.shape;
  if (c.rope.style == RopeStyle::kNone) return {};
  if (input == TensorName::kQPositions) return {s.B, s.Tq, 1, 1};
  if (input == TensorName::kKPositions) return {s.B, s.Tk, 1, 1};
  return {rope_rows(c), s.d / 2, 1, 1};
}

std::array<int64_t, 4> scale_extents(const Case& c, TensorName input) {
  const Shape& s = c.shape;
  if (!c.cache.per_channel()) return {};
  return {s.Hkv, input == TensorName::kKScale ? s.d : s.dv, 1, 1};
}

}  // namespace

bool can_store(Dtype dtype) {
  return dtype == Dtype::kF64 || dtype == Dtype::kF32 || dtype == Dtype::kF16 ||
         dtype == Dtype::kBf16;
}

int tensor_rank(TensorName input) {
  if (input <= TensorName::kV) return 4;
  if (input == TensorName::kDO || input == TensorName::kGivenO) return 4;
  if (input == TensorName::kGivenLse) return 3;
  if (input == TensorName::kX || input == TensorName::kDY) return 3;
  if (input == TensorName::kBqkv) return 1;
  if (input == TensorName::kMask || input == TensorName::kBias) return 4;
  if (input >= TensorName::kRopeCos) return 2;
  return input <= TensorName::kWo ? 2 : 1;
}

std::array<int64_t, 4> tensor_extents(const Shape& s, TensorName input) {
  switch (input) {
    case TensorName::kQ:
      return {s.B, s.H, s.Tq, s.d};
    case TensorName::kK:
      return {s.B, s.Hkv, s.Tk, s.d};
    case TensorName::kV:
      return {s.B, s.Hkv, s.Tk, s.dv};
    case TensorName::kDO:
    case TensorName::kGivenO:
      return {s.B, s.H, s.Tq, s.dv};
    case TensorName::kGivenLse:
      return {s.B, s.H, s.Tq, 1};
    case TensorName::kX:
    case TensorName::kDY:
      return {s.B, s.Tq, s.D, 1};
    case TensorName::kWq:
      return {s.D, s.H * s.d, 1, 1};
    case TensorName::kWk:
      return {s.D, s.Hkv * s.d, 1, 1};
    case TensorName::kWv:
      return {s.D, s.Hkv * s.dv, 1, 1};
    case TensorName::kWo:
      return {s.H * s.dv, s.D, 1, 1};
    case TensorName::kBq:
      return {s.H * s.d, 1, 1, 1};
    case TensorName::kBk:
      return {s.Hkv * s.d, 1, 1, 1};
    case TensorName::kBv:
      return {s.Hkv * s.dv, 1, 1, 1};
    case TensorName::kBo:
      return {s.D, 1, 1, 1};
    case TensorName::kMask:
    case TensorName::kBias:
      return {s.B, s.H, s.Tq, s.Tk};
    case TensorName::kSink:
    case TensorName::kSlopes:
      return {s.H, 1, 1, 1};
    default:
      return {};
  }
}

std::array<int64_t, 4> tensor_extents(const Case& c, TensorName input) {
  const auto count = [](const std::vector<int64_t>& numbers) {
    return std::array<int64_t, 4>{static_cast<int64_t>(numbers.size())};
  };
  auto extents = tensor_extents(c.shape, input);
  switch (input) {
    case TensorName::kK:
    case TensorName::kV:
      if ((c.share & kShareB) != 0)
        extents[0] = std::min<int64_t>(extents[0], 1);
      if ((c.share & kShareH) != 0) extents[1] = 1;
      return extents;
    case TensorName::kMask:
      return c.mask.kind != MaskKind::kNone ? own_extents(c.shape, c.mask.own)
                                            : std::array<int64_t, 4>{};
    case TensorName::kBias:
      return c.score_bias ? own_extents(c.shape, c.score_bias_own)
                          : std::array<int64_t, 4>{};
    case TensorName::kSink:
      return c.sink ? extents : std::array<int64_t, 4>{};
    case TensorName::kSlopes:
      return c.slopes ? extents : std::array<int64_t, 4>{};
    case TensorName::kDO:
    case TensorName::kGivenO:
    case TensorName::kGivenLse:
      return c.subject() == Subject::kBackward ? extents
                                               : std::array<int64_t, 4>{};
    case TensorName::kDY:
      return c.subject() == Subject::kLayerBackward ? extents
                                                    : std::array<int64_t, 4>{};
    case TensorName::kQLen:
      return count(c.q_len);
    case TensorName::kKvLen:
      return count(c.kv_len);
    case TensorName::kCuQ:
      return count(c.cu_q);
    case TensorName::kCuK:
      return count(c.cu_k);
    default:
      if (input >= TensorName::kBlockTable) return {};
      if (input >= TensorName::kKScale) return scale_extents(c, input);
      return input >= TensorName::kRopeCos ? rope_extents(c, input) : extents;
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
  switch (input) {
    case TensorName::kK:
    case TensorName::kV:
      return c.kv_dtype;
    case TensorName::kSink:
    case TensorName::kSlopes:
    case TensorName::kRopeCos:
    case TensorName::kRopeSin:
      return c.q_dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
    case TensorName::kDO:
    case TensorName::kGivenO:
      return c.o_dtype;
    case TensorName::kGivenLse:
      return c.o_dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
    case TensorName::kKScale:
    case TensorName::kVScale:
      return Dtype::kF32;
    case TensorName::kMask:
    case TensorName::kMaskBuffer:
      return Dtype::kUint8;
    case TensorName::kQLen:
    case TensorName::kKvLen:
    case TensorName::kCuQ:
    case TensorName::kCuK:
    case TensorName::kQPositions:
    case TensorName::kKPositions:
      return Dtype::kInt64;
    default:
      return c.q_dtype;
  }
}

const char* set_name(TensorName input) {
  return input == TensorName::kSlopes ? "alibi" : tensor_name(input);
}

}  // namespace qkvet
