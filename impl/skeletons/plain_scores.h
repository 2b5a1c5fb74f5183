// SPDX-License-Identifier: Apache-2.0
// The correct scores of skeletons with hooks only after the scores.
#ifndef QKVET_IMPL_SKELETONS_PLAIN_SCORES_H_
#define QKVET_IMPL_SKELETONS_PLAIN_SCORES_H_

#include <cstdint>

#include "impl/skeletons/option_hooks.h"

namespace qkvet::impl {

template <class Hooks>
struct PlainScores : OptionRowBase<Hooks> {
  static float score(const ForwardCall& call, RowAt at, int64_t j) {
    const RowAt kv = Hooks::kv_head(call, at);
    const float* const q = call.q.at(at.b, at.h, at.i);
    const float* const k = call.k.at(kv.b, kv.h, j);
    float dot = 0;
    for (int64_t c = 0; c < call.width; ++c) {
      dot += q[c * call.q.step[3]] * k[c * call.k.step[3]];
    }
    return with_options(call, at.b, at.h, at.i, j, dot * call.scale);
  }
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_PLAIN_SCORES_H_
