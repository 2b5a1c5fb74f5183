// SPDX-License-Identifier: Apache-2.0
// The outputs that a layer returns on request: its stages, and the weights,
// recomputed from the stages that attention read, in double, rounded once.
#ifndef QKVET_IMPL_SKELETONS_LAYER_RETURNED_H_
#define QKVET_IMPL_SKELETONS_LAYER_RETURNED_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "impl/call/forward_view.h"
#include "impl/call/layer_call.h"

namespace qkvet::impl {

// exp(score - largest score) as a share of the row's sum of them.
inline double share_of(double weight, double sum) { return weight / sum; }

// [B, H, T, T] of the call with these heads; hidden keys weigh 0.
template <class Share>
void write_weights(const ForwardCall& heads, const Stored& to, Share share) {
  std::vector<int64_t> keys(static_cast<size_t>(heads.keys));
  std::vector<double> row(keys.size());
  for (int64_t n = 0; n < heads.batch * heads.heads * heads.queries; ++n) {
    const int64_t i = n % heads.queries;
    const int64_t h = n / heads.queries % heads.heads;
    const int64_t b = n / heads.queries / heads.heads;
    const auto seen =
        static_cast<size_t>(heads.list_keys(b, h, i, keys.data()));
    const float* const q = heads.q.at(b, h, i);
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (size_t m = 0; m < seen; ++m) {
      const float* const k = heads.k.at(b, h / heads.group(), keys[m]);
      double dot = 0;
      for (int64_t c = 0; c < heads.width; ++c) {
        dot += double(q[c * heads.q.step[3]]) * double(k[c * heads.k.step[3]]);
      }
      row[m] = dot * double(heads.scale);
      most = std::fmax(most, row[m]);
    }
    for (size_t m = 0; m < seen; ++m) {
      row[m] = std::exp(row[m] - most);
      sum += row[m];
    }
    for (int64_t j = 0; j < heads.keys; ++j) {
      to.set(b, h, i, j, 0);
    }
    for (size_t m = 0; m < seen; ++m) {
      to.set(b, h, i, keys[m], static_cast<float>(share(row[m], sum)));
    }
  }
}

// [B, heads, T, width].
inline void return_stage(const View<const float>& from, const LayerCall& call,
                         int64_t heads, int64_t width, const Stored& to) {
  for (int64_t b = 0; to.present() && b < call.batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t t = 0; t < call.tokens; ++t) {
        for (int64_t c = 0; c < width; ++c) {
          to.set(b, h, t, c, from.at(b, h, t)[c]);
        }
      }
    }
  }
}

// Writes the stages that `call` requests, from the inputs of attention and its
// result.
inline void return_stages(const LayerCall& call, const ForwardCall& heads,
                          const View<const float>& attended) {
  const int64_t d = call.width, dv = call.value_width;
  return_stage(heads.q, call, call.heads, d, call.q);
  return_stage(heads.k, call, call.kv_heads, d, call.k);
  return_stage(heads.v, call, call.kv_heads, dv, call.v);
  return_stage(attended, call, call.heads, dv, call.attended);
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_LAYER_RETURNED_H_
