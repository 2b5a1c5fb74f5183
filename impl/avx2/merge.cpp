// SPDX-License-Identifier: Apache-2.0
// avx2/merge: the states of a row become one, by merge_rows.cpp. This file is
// baseline code: on a CPU without AVX2 and FMA, open() refuses and no
// instruction of the other file is ever executed.
//
// Rows of f32 with contiguous channels are read and written in place; all
// others are converted or gathered first, so the bits are the same in every
// layout.
//
// Contract: that of scalar/merge. Memory: for the row with the most states, 3
// numbers and a row of f32 for each of them, and one row more.
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>

#include "impl/avx2/flash.h"
#include "impl/avx2/merge_rows.h"
#include "impl/call/merge_call.h"
#include "impl/call/open_on_avx2.h"
#include "impl/skeletons/merge_skeleton.h"

namespace qkvet::impl {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// The memory for one row and head, cut out of one allocation.
struct MergeRoom {
  std::unique_ptr<float[]> numbers;
  std::unique_ptr<const float*[]> states;  // [most]
  float* lse = nullptr;                    // [most], padded
  float* weights = nullptr;                // the same
  float* converted = nullptr;              // [most, dv]
  float* o = nullptr;                      // [dv]

  static int64_t padded(int64_t count) {
    return (count + kMergeLanes - 1) / kMergeLanes * kMergeLanes;
  }
  // Returns false if there is no memory.
  bool make(int64_t most, int64_t width) {
    const int64_t all = 2 * padded(most) + (most + 1) * width;
    numbers.reset(new (std::nothrow) float[static_cast<size_t>(all)]);
    states.reset(new (std::nothrow) const float*[static_cast<size_t>(most)]);
    lse = numbers.get();
    weights = lse + padded(most);
    converted = weights + padded(most);
    o = converted + most * width;
    return numbers != nullptr && states != nullptr;
  }
};

// The address of the channels of a state as contiguous floats.
const float* floats_of(const Stored& from, int64_t index, int64_t step,
                       int64_t width, float* converted) {
  if (from.type == Storage::kF32 && step == 1) {
    return static_cast<const float*>(from.data) + index;
  }
  for (int64_t c = 0; c < width; ++c) {
    converted[c] = load(from.type, from.data, index + c * step);
  }
  return converted;
}

const float* state_of(const MergeCall& call, int64_t t, int64_t n, int64_t h,
                      float* converted) {
  if (call.in_place && n == 0) {
    return floats_of(call.o, call.o.index(t, h, 0, 0), call.o.step[2],
                     call.width, converted);
  }
  const int64_t own = n - (call.in_place ? 1 : 0);
  return call.ragged()
             ? floats_of(call.states,
                         call.states.index(call.begin(t) + n, h, 0, 0),
                         call.states.step[2], call.width, converted)
             : floats_of(call.states, call.states.index(own, t, h, 0),
                         call.states.step[3], call.width, converted);
}

void write_empty(const MergeCall& call, int64_t t, int64_t h) {
  for (int64_t c = 0; c < call.width; ++c) {
    call.o.set(t, h, c, 0, 0);
  }
  call.lse.set(t, h, 0, 0, kNone);
}

void merge_head(const MergeCall& call, int64_t t, int64_t h,
                const MergeRoom& room) {
  const int64_t count = call.count(t), padded = MergeRoom::padded(count);
  for (int64_t n = 0; n < padded; ++n) {
    room.lse[n] = n < count ? call.state_lse(t, n, h) : kNone;
  }
  const MergeWeights found = merge_weights(room.lse, padded, room.weights);
  if (found.max == kNone) {
    write_empty(call, t, h);
    return;
  }
  for (int64_t n = 0; n < count; ++n) {
    room.states[static_cast<size_t>(n)] =
        state_of(call, t, n, h, room.converted + n * call.width);
  }
  const bool direct = call.o.type == Storage::kF32 && call.o.step[2] == 1;
  float* const o =
      direct ? static_cast<float*>(call.o.data) + call.o.index(t, h, 0, 0)
             : room.o;
  merge_values(room.weights, room.states.get(), count, call.width, found.sum,
               o);
  for (int64_t c = 0; !direct && c < call.width; ++c) {
    call.o.set(t, h, c, 0, o[c]);
  }
  call.lse.set(t, h, 0, 0, found.max + std::log(found.sum));
}

qkvet_status merge(const qkvet_kernel* self, qkvet_context*,
                   const qkvet_merge_args* args, const qkvet_exec* exec,
                   qkvet_text* why) {
  return merge_rows_with<PlainMerge, MergeRoom>(self, args, exec, why,
                                                merge_head);
}

constexpr qkvet_merge_table kTable = [] {
  qkvet_merge_table table = kMergeTable<PlainMerge>;
  table.merge = merge;
  return table;
}();

constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = kMergePrecision;
  p.value_sum = QKVET_SUM_ANY;  // the weights are summed in lanes
  p.fma = 1;
  p.exp_error = kFlashExpError;
  p.exp_floor = kClampedExpFloor;
  return p;
}();

constexpr qkvet_kernel make() {
  qkvet_kernel kernel = merge_kernel(
      "avx2/merge", "states of attention become one, on AVX2 and FMA",
      {"impl/avx2/merge.cpp", __LINE__}, &kTable, &kPrecision);
  kernel.open = open_on_avx2;
  kernel.close = close_on_avx2;
  return kernel;
}

}  // namespace

extern constinit const qkvet_kernel avx2_merge = make();

}  // namespace qkvet::impl
