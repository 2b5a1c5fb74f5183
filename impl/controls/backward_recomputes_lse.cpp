// SPDX-License-Identifier: Apache-2.0
// controls/backward_recomputes_lse: takes the softmax once more and does not
// look at the lse that is given; a sink joins its denominator.
#include "impl/controls/arithmetic.h"
#include "impl/controls/row_gradient.h"
#include "impl/declare.h"

namespace qkvet::impl {
namespace {

struct OwnLse : GivenDelta {
  static float lse(const GradientScores& row) {
    float max = row.sink();
    for (int64_t n = 0; n < row.count; ++n) {
      max = std::fmax(max, row.score[n]);
    }
    float sum = std::exp(row.sink() - max);
    for (int64_t n = 0; n < row.count; ++n) {
      sum += std::exp(row.score[n] - max);
    }
    return max + std::log(sum);
  }
};

constexpr qkvet_precision kPrecision = sequential_f32();

}  // namespace

extern constinit const qkvet_kernel controls_backward_recomputes_lse =
    with_backward(
        plain_kernel("controls/backward_recomputes_lse",
                     "gradient from a softmax of its own",
                     {"impl/controls/backward_recomputes_lse.cpp", __LINE__},
                     &kPrecision, kRowForward<TwoPass<dot_ascending, libm_exp>>,
                     &kAllCapabilities),
        &kBackwardTable<PlainBackward, gradient_by_rows<OwnLse>>);

}  // namespace qkvet::impl
