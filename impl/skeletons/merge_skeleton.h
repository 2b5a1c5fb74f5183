// SPDX-License-Identifier: Apache-2.0
// Merging states, row by row and head by head, with hooks for faults and
// controls:
//
//   m    = the largest lse of the row
//   w_i  = exp(lse_i - m)
//   lse  = m + log sum_i w_i
//   o_c  = sum_i w_i o_ic / sum_i w_i
//
// A row with only empty states (m = -infinity), or without states, gives 0 and
// -infinity. Cost: 2 n dv flops, n exponentials and a logarithm for each row
// and head; [n] numbers of memory.
#ifndef QKVET_IMPL_SKELETONS_MERGE_SKELETON_H_
#define QKVET_IMPL_SKELETONS_MERGE_SKELETON_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>

#include "impl/call/declare.h"
#include "impl/call/merge_call.h"

namespace qkvet::impl {

struct PlainMerge {
  static constexpr float kNone = -std::numeric_limits<float>::infinity();

  // Whether the row is merged; else it is unchanged.
  static bool merges(const MergeCall& call, int64_t t) {
    return call.merges(t);
  }
  // How many states the row has.
  static int64_t count(const MergeCall& call, int64_t t) {
    return call.count(t);
  }
  static float state_lse(const MergeCall& call, int64_t t, int64_t n,
                         int64_t h) {
    return call.state_lse(t, n, h);
  }
  static float state(const MergeCall& call, int64_t t, int64_t n, int64_t h,
                     int64_t c) {
    return call.state(t, n, h, c);
  }
  static float maximum(const float* lse, int64_t count) {
    float max = kNone;
    for (int64_t n = 0; n < count; ++n) {
      max = std::fmax(max, lse[n]);
    }
    return max;
  }
  // Whether there is nothing to merge, and the output in this case.
  static bool is_empty(float max) { return max == kNone; }
  static float empty_o() { return 0; }
  static float empty_lse() { return kNone; }
  static float weight(float lse, float max) { return std::exp(lse - max); }
  // The weight of state n of `count`.
  static float weight_of(const float* weights, int64_t n, int64_t) {
    return weights[n];
  }
  static float merged_lse(float max, float sum, int64_t) {
    return max + std::log(sum);
  }
};

// One row and head; `numbers` [2 count].
template <class Hooks>
void merge_row(const MergeCall& call, int64_t t, int64_t h, float* numbers) {
  const int64_t count = Hooks::count(call, t);
  float* const lse = numbers;
  float* const weights = numbers + count;
  for (int64_t n = 0; n < count; ++n) {
    lse[n] = Hooks::state_lse(call, t, n, h);
  }
  const float max = Hooks::maximum(lse, count);
  if (Hooks::is_empty(max)) {
    for (int64_t c = 0; c < call.width; ++c) {
      call.o.set(t, h, c, 0, Hooks::empty_o());
    }
    call.lse.set(t, h, 0, 0, Hooks::empty_lse());
    return;
  }
  float sum = 0;
  for (int64_t n = 0; n < count; ++n) {
    sum += weights[n] = Hooks::weight(lse[n], max);
  }
  const float merged = Hooks::merged_lse(max, sum, count);
  for (int64_t c = 0; c < call.width; ++c) {
    float o = 0;
    for (int64_t n = 0; n < count; ++n) {
      o += Hooks::weight_of(weights, n, count) * Hooks::state(call, t, n, h, c);
    }
    call.o.set(t, h, c, 0, o / sum);
  }
  call.lse.set(t, h, 0, 0, merged);
}

// Reads a call and merges each row and head of it by one(call, t, h, room).
// Room has make(most states of a row, width), false where there is no memory.
template <class Hooks, class Room, class One>
qkvet_status merge_rows_with(const qkvet_kernel* self,
                             const qkvet_merge_args* args,
                             const qkvet_exec* exec, qkvet_text* why, One one) {
  MergeCall call;
  QKVET_TRY(check_exec(exec, why));
  QKVET_TRY(read_merge(self, args, &call, why));
  int64_t most = 0;
  for (int64_t t = 0; t < call.rows; ++t) {
    const int64_t count = Hooks::count(call, t);
    most = count > most ? count : most;
  }
  Room room;
  if (!room.make(most, call.width)) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the weights");
  }
  for (int64_t t = 0; t < call.rows; ++t) {
    for (int64_t h = 0; Hooks::merges(call, t) && h < call.heads; ++h) {
      one(call, t, h, room);
    }
  }
  return QKVET_OK;
}

// The lse and the weights of a row.
struct MergeNumbers {
  std::unique_ptr<float[]> all;

  bool make(int64_t most, int64_t) {
    all.reset(new (std::nothrow) float[static_cast<size_t>(2 * most)]);
    return all != nullptr;
  }
};

template <class Hooks>
qkvet_status merge_states(const qkvet_kernel* self, qkvet_context*,
                          const qkvet_merge_args* args, const qkvet_exec* exec,
                          qkvet_text* why) {
  return merge_rows_with<Hooks, MergeNumbers>(
      self, args, exec, why,
      [](const MergeCall& call, int64_t t, int64_t h, MergeNumbers& numbers) {
        merge_row<Hooks>(call, t, h, numbers.all.get());
      });
}

inline constexpr uint64_t kAllMergeOptions =
    QKVET_MERGE_RAGGED | QKVET_MERGE_IN_PLACE | QKVET_MERGE_ROW_MASK |
    QKVET_MERGE_LSE_HEADS_FIRST | QKVET_MERGE_ANY_STRIDES;

template <class Hooks, uint64_t kOptions = kAllMergeOptions>
inline constexpr qkvet_merge_table kMergeTable = {
    .struct_size = sizeof(qkvet_merge_table),
    .options = kOptions,
    .min_states = 0,
    .max_states = 0,
    .merge = merge_states<Hooks>};

// A row is computed alone and always in the same order, at any address.
inline constexpr qkvet_capabilities kMergeCapabilities = [] {
  qkvet_capabilities c = capabilities_with(0, {kF32, kF16, kBf16});
  c.flags |= QKVET_FLAG_ALIGNMENT_INVARIANT | QKVET_FLAG_LAYOUT_INVARIANT |
             QKVET_FLAG_BATCH_INVARIANT | QKVET_FLAG_ROW_INVARIANT |
             QKVET_FLAG_HEAD_ORDER_INVARIANT | QKVET_FLAG_THREADS_INVARIANT;
  return c;
}();

// Sums in order, o divided last.
inline constexpr qkvet_precision kMergePrecision = sequential_f32();

// A kernel that only merges.
constexpr qkvet_kernel merge_kernel(
    const char* name, const char* description, Place place,
    const qkvet_merge_table* table,
    const qkvet_precision* precision = &kMergePrecision,
    const qkvet_dialect* dialect = &kCommonDialect) {
  qkvet_kernel kernel = plain_kernel(name, description, place, precision,
                                     /*forward=*/nullptr, &kMergeCapabilities);
  kernel.supports = nullptr;
  kernel.dialect = dialect;
  kernel.merge = table;
  return kernel;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_MERGE_SKELETON_H_
