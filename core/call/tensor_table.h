// SPDX-License-Identifier: Apache-2.0
// The rows of core/call/tensors.def as a table. All other properties of single
// tensors (names, ranks, extents, types, random numbers) are read from it.
#ifndef QKVET_CORE_CALL_TENSOR_TABLE_H_
#define QKVET_CORE_CALL_TENSOR_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>

#include "core/call/call.h"

namespace qkvet {

// An extent by the extents of the call; kNone ends a list of them.
enum class Extent : uint8_t {
  kNone,
  // These follow from the shape.
  kB,
  kH,
  kHkv,
  kTq,
  kTk,
  kWidth,       // d
  kValueWidth,  // dv
  kModelWidth,  // D
  kQColumns,    // H d
  kKColumns,    // Hkv d
  kVColumns,    // Hkv dv
  kAllColumns,  // H d + Hkv d + Hkv dv
  kMerged,      // H dv
  kTwo,
  // These follow from more of the call.
  kMembers,       // of a packed batch; B of any other
  kStarts,        // of a packed batch: members + 1
  kPageStarts,    // kMembers + 1
  kTableColumns,  // of the block table
  kPageEntries,   // of page_indices
  kNewTokens,     // of every member
  kListHeads,     // Hkv or 1
  kListEntries,
  kRanges,
  kPositions,  // of the tables of a rotation
  kHalfWidth,  // half of the channels that a rotation turns
  kContext,    // C of a mask buffer
  kOther       // by the operation
};

// The storage type of a tensor, by those of the call.
enum class TensorType : uint8_t {
  kQ,  // the types of the call
  kKv,
  kO,
  kLse,      // f32, f64 where o is f64
  kPerHead,  // f32, f64 where q is f64: sinks, slopes, tables of rotations
  kF32,
  kByte,
  kInt32,
  kInt64,
  kLength,   // int64, or int32 where the call has those
  kSegment,  // the same of its segments
  kRange,    // and of its ranges
  kStage     // the type that a layer declares of its stages
};

// The numbers that Inputs holds of a tensor, beside its bytes.
enum class TensorData : uint8_t {
  kNone,          // an output
  kBytes,         // nothing
  kValues,        // double
  kNumbers,       // int64_t
  kShortNumbers,  // int32_t
  kMask           // uint8_t, which are its bytes
};

// Whether files of recorded calls may contain the tensor (golden/README.md,
// "The format"), and whether they may contain it for every command of a story.
// All other inputs of a call follow from its case.
enum class Recorded : uint8_t { kNo, kInCalls, kInStories };

struct TensorRow {
  TensorName tensor;
  const char* name;
  TensorType type;
  std::array<Extent, 4> extents;
  Recorded recorded;
  TensorData data = TensorData::kNone;
  uint32_t stream = 0;
  int digest = 0;

  constexpr int rank() const {
    int n = 0;
    while (n < 4 && extents[static_cast<size_t>(n)] != Extent::kNone) ++n;
    return n;
  }
};

inline constexpr auto kTensors = [] {
  using enum Extent;
#define QKVET_LIST(...) \
  { __VA_ARGS__ }
  return std::to_array<TensorRow>({
#define QKVET_INPUT(name, member, text, data, type, extents, stream, recorded, \
                    digest)                                                    \
  {TensorName::k##name,                                                        \
   text,                                                                       \
   TensorType::type,                                                           \
   {QKVET_LIST extents},                                                       \
   Recorded::recorded,                                                         \
   TensorData::data,                                                           \
   stream,                                                                     \
   digest},
#define QKVET_OUTPUT(name, member, text, type, extents, recorded) \
  {TensorName::k##name,                                           \
   text,                                                          \
   TensorType::type,                                              \
   {QKVET_LIST extents},                                          \
   Recorded::recorded},
#include "core/call/tensors.def"
  });
#undef QKVET_LIST
}();

constexpr const TensorRow& tensor_row(TensorName tensor) {
  return kTensors[static_cast<size_t>(tensor)];
}

// The storage type in a Case or a KernelCall. For stages it is that of q; the
// plan of a call has the exact type.
template <class Of>
Dtype stored_type(const Of& of, TensorType type) {
  const auto wide = [](bool is_wide) {
    return is_wide ? Dtype::kInt64 : Dtype::kInt32;
  };
  switch (type) {
    case TensorType::kQ:
    case TensorType::kStage:
      return of.q_dtype;
    case TensorType::kKv:
      return of.kv_dtype;
    case TensorType::kO:
      return of.o_dtype;
    case TensorType::kLse:
      return of.o_dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
    case TensorType::kPerHead:
      return of.q_dtype == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32;
    case TensorType::kF32:
      return Dtype::kF32;
    case TensorType::kByte:
      return Dtype::kUint8;
    case TensorType::kInt32:
      return Dtype::kInt32;
    case TensorType::kInt64:
      return Dtype::kInt64;
    case TensorType::kLength:
      return wide(!of.int32_lengths);
    case TensorType::kSegment:
      return wide(of.fields.wide_segments);
    case TensorType::kRange:
      return wide(of.fields.wide_ranges);
  }
  return of.q_dtype;
}

// Large enough for any memory; sums of products stay exact.
inline constexpr int64_t kMostElements = int64_t{1} << 40;

// A product above kMostElements is kMostElements + 1. No value: the extent does
// not follow from the shape.
std::optional<int64_t> extent_of(const Shape& shape, Extent extent);
int64_t extent_of(const KernelCall& call, Extent extent);

}  // namespace qkvet

#endif  // QKVET_CORE_CALL_TENSOR_TABLE_H_
