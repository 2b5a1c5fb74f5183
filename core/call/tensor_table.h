// SPDX-License-Identifier: Apache-2.0
// One row a tensor. What else is said of tensors one by one (names, ranks,
// extents, random numbers) is read from here.
#ifndef QKVET_CORE_CALL_TENSOR_TABLE_H_
#define QKVET_CORE_CALL_TENSOR_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "core/call/call.h"

namespace qkvet {

// An extent by the extents of the call; kNone ends a list of them.
enum class Extent : uint8_t {
  kNone,
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
  kMerged       // H dv
};

// Whether files of recorded calls have it (golden/README.md, "The format"), and
// whether they may have it of every command of a story: all else that a call
// needs its case says.
enum class Recorded : uint8_t { kNo, kInCalls, kInStories };

struct TensorRow {
  TensorName tensor;
  // "q", "k", ..., "weights"; stages of a layer are "q", "k", "v" again, and so
  // are k and v that a call appends to, "o" and "lse" where they are given. The
  // gradient of q is "dq" here, and d_q in the arguments of a kernel.
  const char* name;
  int rank;
  // The extents of inputs, and of outputs that are recorded; none where more
  // than the shape of the call says them.
  std::array<Extent, 4> extents;
  // Which of the sequences of random numbers it is drawn from: digests and
  // golden sets hang on it. Tensors that are never drawn for one call may
  // share one. A new one takes a number from 16 to 255. Outputs have none.
  uint32_t stream = 0;
  Recorded recorded = Recorded::kNo;
};

inline constexpr auto kTensors = [] {
  using enum TensorName;
  using enum Extent;
  using enum Recorded;
  return std::to_array<TensorRow>(
      {{kQ, "q", 4, {kB, kH, kTq, kWidth}, 0, kInCalls},
       {kK, "k", 4, {kB, kHkv, kTk, kWidth}, 1, kInCalls},
       {kV, "v", 4, {kB, kHkv, kTk, kValueWidth}, 2, kInCalls},
       {kX, "x", 3, {kB, kTq, kModelWidth}, 3, kInCalls},
       {kWq, "w_q", 2, {kModelWidth, kQColumns}, 4, kInCalls},
       {kWk, "w_k", 2, {kModelWidth, kKColumns}, 5, kInCalls},
       {kWv, "w_v", 2, {kModelWidth, kVColumns}, 6, kInCalls},
       {kWo, "w_o", 2, {kMerged, kModelWidth}, 7, kInCalls},
       {kBq, "b_q", 1, {kQColumns}, 8, kInCalls},
       {kBk, "b_k", 1, {kKColumns}, 9, kInCalls},
       {kBv, "b_v", 1, {kVColumns}, 10, kInCalls},
       {kBo, "b_o", 1, {kModelWidth}, 11, kInCalls},
       {kMask, "mask", 4, {kB, kH, kTq, kTk}, 12, kInCalls},
       {kBias, "bias", 4, {kB, kH, kTq, kTk}, 13, kInCalls},
       {kSink, "sink", 1, {kH}, 14, kInCalls},
       // [H] to kernels and in files, where all members have the same.
       {kSlopes, "slopes", 2, {kB, kH}, 15, kInCalls},
       {kQLen, "q_len", 1, {}, 0},
       {kKvLen, "kv_len", 1, {}, 1},
       {kCuQ, "cu_seqlens_q", 1, {}, 2},
       {kCuK, "cu_seqlens_k", 1, {}, 3},
       {kRopeCos, "rope_cos", 2, {}, 4},
       {kRopeSin, "rope_sin", 2, {}, 5},
       {kQPositions, "q_positions", 2, {}, 6},
       {kKPositions, "k_positions", 2, {}, 7},
       {kKScale, "k_scale", 2, {}, 8},
       {kVScale, "v_scale", 2, {}, 9},
       {kBlockTable, "block_table", 2, {}, 10},
       {kKNew, "k_new", 4, {}, 11},
       {kVNew, "v_new", 4, {}, 12},
       // x is never there beside it.
       {kDO, "do", 4, {kB, kH, kTq, kValueWidth}, 3},
       {kGivenO, "o", 4, {kB, kH, kTq, kValueWidth}, 14},
       {kGivenLse, "lse", 3, {kB, kH, kTq}, 15},
       // Nor is q beside the gradient of a layer.
       {kDY, "dy", 3, {kB, kTq, kModelWidth}, 0},
       {kWqkv, "w_qkv", 2, {}, 1},
       {kBqkv, "b_qkv", 1, {}, 2},
       {kMaskBuffer, "mask_buffer", 2, {}, 3},
       // Made of v and of the bias.
       {kStates, "states", 4, {}, 0},
       {kStatesLse, "states_lse", 3, {}, 1},
       {kIndptr, "indptr", 1, {}, 2},
       {kRowMask, "row_mask", 1, {}, 16},
       // Numbers of the case, drawn from nothing.
       {kPageIndptr, "page_indptr", 1, {}, 17},
       {kPageIndices, "page_indices", 1, {}, 18},
       {kLastPageLen, "last_page_len", 1, {}, 19},
       {kKeyIndices, "key_indices", 4, {}, 20, kInCalls},
       {kTopkLength, "topk_length", 2, {}, 21, kInCalls},
       {kSegmentsQ, "segments_q", 2, {kB, kTq}, 22, kInCalls},
       {kSegmentsK, "segments_k", 2, {kB, kTk}, 23, kInCalls},
       {kFullRanges, "full_ranges", 3, {}, 24, kInCalls},
       {kTreeMask, "tree_mask", 3, {kB, kTq, kTq}, 25, kInCalls},
       // Outputs.
       {kO, "o", 4, {kB, kH, kTq, kValueWidth}, 0, kInStories},
       {kLse, "lse", 3, {kB, kH, kTq}, 0, kInStories},
       {kWeights, "weights", 4, {kB, kH, kTq, kTk}, 0, kInCalls},
       {kY, "y", 3, {kB, kTq, kModelWidth}, 0, kInCalls},
       {kStageQ, "q", 4, {}},
       {kStageK, "k", 4, {}},
       {kStageV, "v", 4, {}},
       {kAttended, "attended", 4, {}},
       {kKCache, "k", 4, {}},
       {kVCache, "v", 4, {}},
       {kDQ, "dq", 4, {}},
       {kDK, "dk", 4, {}},
       {kDV, "dv", 4, {}},
       {kDBias, "dbias", 4, {}},
       {kDSink, "dsink", 1, {}},
       {kDX, "dx", 3, {}},
       {kDWq, "dw_q", 2, {}},
       {kDWk, "dw_k", 2, {}},
       {kDWv, "dw_v", 2, {}},
       {kDWo, "dw_o", 2, {}},
       {kDBq, "db_q", 1, {}},
       {kDBk, "db_k", 1, {}},
       {kDBv, "db_v", 1, {}},
       {kDBo, "db_o", 1, {}},
       {kDropoutMask, "dropout_mask", 4, {}}});
}();

constexpr bool tensors_are_in_order() {
  for (size_t n = 0; n < std::size(kTensors); ++n)
    if (kTensors[n].tensor != static_cast<TensorName>(n)) return false;
  return std::size(kTensors) == kTensorCount;
}
static_assert(tensors_are_in_order(), "one row each, as TensorName has them");

constexpr const TensorRow& tensor_row(TensorName tensor) {
  return kTensors[static_cast<size_t>(tensor)];
}

}  // namespace qkvet

#endif  // QKVET_CORE_CALL_TENSOR_TABLE_H_
