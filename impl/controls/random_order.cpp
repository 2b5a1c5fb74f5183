// SPDX-License-Identifier: Apache-2.0
// controls/random_order: every sum in an order that looks random, and is the
// same on every run. Catches a judge that believes in neighbours.
#include <bit>
#include <cmath>
#include <cstdint>

#include "impl/controls/arithmetic.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

// 0 .. n - 1, each once: a linear congruence of full period modulo the next
// power of two (Hull and Dobell: factor 1 mod 4, odd increment), mixed by a
// shift that loses nothing; what lies beyond n is skipped.
class Shuffled {
 public:
  explicit Shuffled(int64_t n)
      : n_(static_cast<uint64_t>(n)),
        mask_(std::bit_ceil(n_) - 1),
        shift_(static_cast<int>(std::bit_width(mask_) + 1) / 2) {}

  int64_t next() {
    constexpr uint64_t kFactor = 0x9E3779B97F4A7C15, kIncrement = 0x5851F42D;
    for (;;) {
      state_ = (state_ * kFactor + kIncrement) & mask_;
      const uint64_t mixed = state_ ^ state_ >> shift_;
      if (mixed < n_) {
        return static_cast<int64_t>(mixed);
      }
    }
  }

 private:
  uint64_t n_, mask_;
  int shift_;
  uint64_t state_ = 0;
};

float dot_shuffled(const float* q, const float* k, int64_t step, int64_t n) {
  Shuffled order(n);
  float sum = 0;
  for (int64_t m = 0; m < n; ++m) {
    const int64_t c = order.next();
    sum += q[c] * k[c * step];
  }
  return sum;
}

struct RandomOrder {
  static void row(const Row& row) {
    const float max = score_keys<dot_shuffled>(row, row.terms.sink);
    Shuffled order(row.keys);
    float sum = std::exp(row.terms.sink - max);
    fill(row.acc, row.value_width, 0);
    for (int64_t n = 0; n < row.keys; ++n) {
      const int64_t j = order.next();
      const float weight = std::exp(row.scores[j] - max);
      sum += weight;
      add_weighted(weight, row.v.row(j), row.v.step, row.acc, row.value_width);
    }
    write_quotient(row, row.acc, sum);
    row.write_lse(max + std::log(sum));
  }
};

constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.dot_sum = QKVET_SUM_ANY;
  p.dot_lanes = 0;
  p.value_sum = QKVET_SUM_ANY;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_random_order =
    plain_kernel("controls/random_order", "all sums in a pseudo-random order",
                 {"impl/controls/random_order.cpp", __LINE__}, &kPrecision,
                 kRowForward<RandomOrder>, &kAllCapabilities);

}  // namespace qkvet::impl
