// SPDX-License-Identifier: Apache-2.0
// The weights that a layer returns on request, made once more of the stages
// that attention read: in double, rounded once.
#ifndef QKVET_IMPL_LAYER_WEIGHTS_H_
#define QKVET_IMPL_LAYER_WEIGHTS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "impl/forward_view.h"
#include "impl/layer_call.h"

namespace qkvet::impl {

// exp(score - largest score) as a share of the row's sum of them.
inline double share_of(double weight, double sum) { return weight / sum; }

// [B, H, T, T] of the call whose heads these are; hidden keys weigh 0.
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

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_LAYER_WEIGHTS_H_
