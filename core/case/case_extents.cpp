// SPDX-License-Identifier: Apache-2.0
// What the tensors of a Case look like: extents, types, rows that count.
#include <algorithm>

#include "core/call/tensor_table.h"
#include "core/case/case.h"
#include "core/case/key_lists.h"

namespace qkvet {
namespace {

int64_t extent_of(const Shape& s, Extent extent) {
  switch (extent) {
    case Extent::kNone:
      return 1;
    case Extent::kB:
      return s.B;
    case Extent::kH:
      return s.H;
    case Extent::kHkv:
      return s.Hkv;
    case Extent::kTq:
      return s.Tq;
    case Extent::kTk:
      return s.Tk;
    case Extent::kWidth:
      return s.d;
    case Extent::kValueWidth:
      return s.dv;
    case Extent::kModelWidth:
      return s.D;
    case Extent::kQColumns:
      return s.H * s.d;
    case Extent::kKColumns:
      return s.Hkv * s.d;
    case Extent::kVColumns:
      return s.Hkv * s.dv;
    case Extent::kMerged:
      return s.H * s.dv;
  }
  return 1;
}

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

int tensor_rank(TensorName input) { return tensor_row(input).rank; }

int given_rank(const Case& c, TensorName input) {
  return input == TensorName::kSlopes && !c.member_slopes ? 1
                                                          : tensor_rank(input);
}

int64_t member_count(const Case& c) {
  return c.cu_q.empty() ? c.shape.B : static_cast<int64_t>(c.cu_q.size()) - 1;
}

std::array<int64_t, 4> tensor_extents(const Shape& s, TensorName input) {
  const TensorRow& row = tensor_row(input);
  if (row.extents[0] == Extent::kNone) return {};
  std::array<int64_t, 4> extents;
  for (size_t n = 0; n < extents.size(); ++n)
    extents[n] = extent_of(s, row.extents[n]);
  return extents;
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
      extents[0] = c.member_slopes ? member_count(c) : 1;
      return c.slopes ? extents : std::array<int64_t, 4>{};
    case TensorName::kKeyIndices:
      return c.listed.entries > 0
                 ? std::array<int64_t, 4>{c.shape.B, list_heads(c), c.shape.Tq,
                                          c.listed.entries}
                 : std::array<int64_t, 4>{};
    case TensorName::kTopkLength:
      return c.listed.lengths
                 ? std::array<int64_t, 4>{c.shape.B, c.shape.Tq, 1, 1}
                 : std::array<int64_t, 4>{};
    case TensorName::kSegmentsQ:
    case TensorName::kSegmentsK:
      return c.fields.segments ? extents : std::array<int64_t, 4>{};
    case TensorName::kFullRanges:
      return c.fields.ranges > 0
                 ? std::array<int64_t, 4>{c.shape.B, c.fields.ranges, 2}
                 : std::array<int64_t, 4>{};
    case TensorName::kTreeMask:
      return c.fields.tree ? extents : std::array<int64_t, 4>{};
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
    case TensorName::kStates:
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
    case TensorName::kRowMask:
    case TensorName::kTreeMask:
      return Dtype::kUint8;
    case TensorName::kQLen:
    case TensorName::kKvLen:
    case TensorName::kCuQ:
    case TensorName::kCuK:
      return c.int32_lengths ? Dtype::kInt32 : Dtype::kInt64;
    case TensorName::kKeyIndices:
    case TensorName::kTopkLength:
      return Dtype::kInt32;
    case TensorName::kSegmentsQ:
    case TensorName::kSegmentsK:
      return c.fields.wide_segments ? Dtype::kInt64 : Dtype::kInt32;
    case TensorName::kFullRanges:
      return c.fields.wide_ranges ? Dtype::kInt64 : Dtype::kInt32;
    case TensorName::kQPositions:
    case TensorName::kKPositions:
    case TensorName::kIndptr:
      return Dtype::kInt64;
    default:
      return c.q_dtype;
  }
}

const char* set_name(TensorName input) {
  return input == TensorName::kSlopes ? "alibi" : tensor_name(input);
}

}  // namespace qkvet
