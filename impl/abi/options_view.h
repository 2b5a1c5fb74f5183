// SPDX-License-Identifier: Apache-2.0
// What a call may ask for beyond q, k, v, a causal rule and a scale, checked
// and typed. ForwardCall (forward_view.h) holds one of these.
//
// Lengths and packed batches are not the business of an arithmetic: members.h
// cuts such a call into members before anything is computed.
#ifndef QKVET_IMPL_ABI_OPTIONS_VIEW_H_
#define QKVET_IMPL_ABI_OPTIONS_VIEW_H_

#include <cstdint>

#include "impl/abi/dropout.h"
#include "impl/abi/rope.h"
#include "impl/abi/tensor_view.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

struct Options {
  // Keys beside the diagonal that stay visible, inclusive counts; -1: all.
  int64_t window_left = -1;
  int64_t window_right = -1;
  View<const uint8_t> mask;  // [B, H, Tq, Tk], no data if there is none
  Stored bias;               // [B, H, Tq, Tk], absent if there is none
  float softcap = 0;         // 0: none
  Stored sink;               // [H]
  Stored slopes;             // [H]
  View<const int64_t> q_len, kv_len;  // [B]
  View<const int64_t> cu_q, cu_k;     // [members + 1]
  int64_t members = 0;                // of a packed batch
  Rope rope;                          // the business of in_f32.h
  Dropout dropout;

  bool has_lengths() const {
    return q_len.data != nullptr || kv_len.data != nullptr ||
           cu_q.data != nullptr;
  }
  // Whether a pair may be hidden that the causal rule and the window allow.
  bool hides_pairs() const { return mask.data != nullptr || bias.present(); }
  // Whether a score is more than scale * q.k.
  bool changes_scores() const {
    return softcap > 0 || bias.present() || slopes.present();
  }
  bool any() const {
    return window_left >= 0 || window_right >= 0 || hides_pairs() ||
           changes_scores() || sink.present() || dropout.present();
  }
  // The mask; and a bias of -infinity hides its pair as a mask does, so that
  // no difference of infinities is ever taken.
  bool allows(int64_t b, int64_t h, int64_t i, int64_t j) const;
  // -infinity if there is none: it adds exp(-infinity) = 0.
  float sink_of(int64_t h) const;
  float slope_of(int64_t h) const {
    return slopes.present() ? slopes.get(h) : 0;
  }
  // These options as a call sees them that begins at member b, head h, row i
  // and key j of this one. Lengths stay behind.
  Options from(int64_t b, int64_t h, int64_t i, int64_t j) const;
};

// The name of a field that is set and that a kernel with these QKVET_OPTION_*
// does not take, or NULL.
const char* unknown_field(const qkvet_forward_args& args, uint64_t declared);

// Fills *options, or says why not: `args` is a call whose q, k, v and o have
// been checked, and none of whose fields is unknown.
qkvet_status read_options(const qkvet_forward_args& args, Options* options,
                          qkvet_text* why);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_ABI_OPTIONS_VIEW_H_
