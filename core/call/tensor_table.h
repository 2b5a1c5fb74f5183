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

struct TensorRow {
  TensorName tensor;
  // "q", "k", ..., "weights"; stages of a layer are "q", "k", "v" again, and so
  // are k and v that a call appends to, "o" and "lse" where they are given. The
  // gradient of q is "dq" here, and d_q in the arguments of a kernel.
  const char* name;
  int rank;
  // Of inputs; none where more than the shape of the call says them.
  std::array<Extent, 4> extents;
  // Which of the sequences of random numbers it is drawn from: digests and
  // golden sets hang on it. Tensors that are never drawn for one call may
  // share one. A new one takes a number from 16 to 255. Outputs have none.
  uint32_t stream = 0;
};

inline constexpr TensorRow kTensors[] = {
    {TensorName::kQ,
     "q",
     4,
     {Extent::kB, Extent::kH, Extent::kTq, Extent::kWidth},
     0},
    {TensorName::kK,
     "k",
     4,
     {Extent::kB, Extent::kHkv, Extent::kTk, Extent::kWidth},
     1},
    {TensorName::kV,
     "v",
     4,
     {Extent::kB, Extent::kHkv, Extent::kTk, Extent::kValueWidth},
     2},
    {TensorName::kX, "x", 3, {Extent::kB, Extent::kTq, Extent::kModelWidth}, 3},
    {TensorName::kWq, "w_q", 2, {Extent::kModelWidth, Extent::kQColumns}, 4},
    {TensorName::kWk, "w_k", 2, {Extent::kModelWidth, Extent::kKColumns}, 5},
    {TensorName::kWv, "w_v", 2, {Extent::kModelWidth, Extent::kVColumns}, 6},
    {TensorName::kWo, "w_o", 2, {Extent::kMerged, Extent::kModelWidth}, 7},
    {TensorName::kBq, "b_q", 1, {Extent::kQColumns}, 8},
    {TensorName::kBk, "b_k", 1, {Extent::kKColumns}, 9},
    {TensorName::kBv, "b_v", 1, {Extent::kVColumns}, 10},
    {TensorName::kBo, "b_o", 1, {Extent::kModelWidth}, 11},
    {TensorName::kMask,
     "mask",
     4,
     {Extent::kB, Extent::kH, Extent::kTq, Extent::kTk},
     12},
    {TensorName::kBias,
     "bias",
     4,
     {Extent::kB, Extent::kH, Extent::kTq, Extent::kTk},
     13},
    {TensorName::kSink, "sink", 1, {Extent::kH}, 14},
    {TensorName::kSlopes, "slopes", 1, {Extent::kH}, 15},
    {TensorName::kQLen, "q_len", 1, {}, 0},
    {TensorName::kKvLen, "kv_len", 1, {}, 1},
    {TensorName::kCuQ, "cu_seqlens_q", 1, {}, 2},
    {TensorName::kCuK, "cu_seqlens_k", 1, {}, 3},
    {TensorName::kRopeCos, "rope_cos", 2, {}, 4},
    {TensorName::kRopeSin, "rope_sin", 2, {}, 5},
    {TensorName::kQPositions, "q_positions", 2, {}, 6},
    {TensorName::kKPositions, "k_positions", 2, {}, 7},
    {TensorName::kKScale, "k_scale", 2, {}, 8},
    {TensorName::kVScale, "v_scale", 2, {}, 9},
    {TensorName::kBlockTable, "block_table", 2, {}, 10},
    {TensorName::kKNew, "k_new", 4, {}, 11},
    {TensorName::kVNew, "v_new", 4, {}, 12},
    // x is never there beside it.
    {TensorName::kDO,
     "do",
     4,
     {Extent::kB, Extent::kH, Extent::kTq, Extent::kValueWidth},
     3},
    {TensorName::kGivenO,
     "o",
     4,
     {Extent::kB, Extent::kH, Extent::kTq, Extent::kValueWidth},
     14},
    {TensorName::kGivenLse,
     "lse",
     3,
     {Extent::kB, Extent::kH, Extent::kTq},
     15},
    // Nor is q beside the gradient of a layer.
    {TensorName::kDY,
     "dy",
     3,
     {Extent::kB, Extent::kTq, Extent::kModelWidth},
     0},
    {TensorName::kWqkv, "w_qkv", 2, {}, 1},
    {TensorName::kBqkv, "b_qkv", 1, {}, 2},
    {TensorName::kMaskBuffer, "mask_buffer", 2, {}, 3},
    // Outputs.
    {TensorName::kO, "o", 4, {}},
    {TensorName::kLse, "lse", 3, {}},
    {TensorName::kWeights, "weights", 4, {}},
    {TensorName::kY, "y", 3, {}},
    {TensorName::kStageQ, "q", 4, {}},
    {TensorName::kStageK, "k", 4, {}},
    {TensorName::kStageV, "v", 4, {}},
    {TensorName::kAttended, "attended", 4, {}},
    {TensorName::kKCache, "k", 4, {}},
    {TensorName::kVCache, "v", 4, {}},
    {TensorName::kDQ, "dq", 4, {}},
    {TensorName::kDK, "dk", 4, {}},
    {TensorName::kDV, "dv", 4, {}},
    {TensorName::kDBias, "dbias", 4, {}},
    {TensorName::kDSink, "dsink", 1, {}},
    {TensorName::kDX, "dx", 3, {}},
    {TensorName::kDWq, "dw_q", 2, {}},
    {TensorName::kDWk, "dw_k", 2, {}},
    {TensorName::kDWv, "dw_v", 2, {}},
    {TensorName::kDWo, "dw_o", 2, {}},
    {TensorName::kDBq, "db_q", 1, {}},
    {TensorName::kDBk, "db_k", 1, {}},
    {TensorName::kDBv, "db_v", 1, {}},
    {TensorName::kDBo, "db_o", 1, {}},
    {TensorName::kDropoutMask, "dropout_mask", 4, {}}};

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
