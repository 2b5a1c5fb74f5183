// SPDX-License-Identifier: Apache-2.0
// Rows of a call over pages in f32, whatever their storage and their place are.
#ifndef QKVET_IMPL_SERVING_ROWS_H_
#define QKVET_IMPL_SERVING_ROWS_H_

#include <cstdint>

#include "impl/call/serving_call.h"

namespace qkvet::impl {

inline void load_query(const ForwardCall& call, int64_t h, int64_t i,
                       float* to) {
  const bool f32 = call.storage == Storage::kF32;
  const void* const from = f32 ? static_cast<const void*>(call.q.at(0, h, i))
                               : call.half.q.at(0, h, i);
  const int64_t step = f32 ? call.q.step[3] : call.half.q.step[3];
  for (int64_t c = 0; c < call.width; ++c) {
    to[c] = load(call.storage, from, c * step);
  }
}

// o = acc / sum.
inline void store_output(const ForwardCall& call, int64_t h, int64_t i,
                         const float* acc, float sum) {
  const bool f32 = call.storage == Storage::kF32;
  void* const to =
      f32 ? static_cast<void*>(call.o.at(0, h, i)) : call.half.o.at(0, h, i);
  const int64_t step = f32 ? call.o.step[3] : call.half.o.step[3];
  for (int64_t c = 0; c < call.value_width; ++c) {
    store(call.storage, to, c * step, acc[c] / sum);
  }
}

// Tokens [first, first + count) of a head of member b, [count, d].
inline void load_keys(const ServingCall& s, int64_t b, int64_t head,
                      int64_t first, int64_t count, float* to) {
  for (int64_t j = first; j < first + count; ++j) {
    const Slot slot = s.slot(b, j);
    for (int64_t c = 0; c < s.call.width; ++c) {
      *to++ = load(s.k.type, s.k.data, s.key_at(head, slot, c));
    }
  }
}

// [count, dv]
inline void load_values(const ServingCall& s, int64_t b, int64_t head,
                        int64_t first, int64_t count, float* to) {
  for (int64_t j = first; j < first + count; ++j) {
    const Slot slot = s.slot(b, j);
    for (int64_t c = 0; c < s.call.value_width; ++c) {
      *to++ = s.v.get(slot.block, head, slot.row, c);
    }
  }
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SERVING_ROWS_H_
