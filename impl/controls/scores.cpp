// SPDX-License-Identifier: Apache-2.0
// The scores of the engine: dot products in every order, and the effects of
// options on them.
#include <cmath>
#include <cstdint>

#include "impl/controls/device.h"
#include "impl/controls/engine.h"
#include "impl/controls/poly_exp.h"
#include "impl/controls/shuffled.h"

namespace qkvet::impl {
namespace {

// Below these, a bias over the scale could overflow or lose digits, so the
// usual order is used.
constexpr float kLeastScale = 0x1p-20f;
constexpr float kLeastScaleInDouble = 0x1p-60f;
// Below it, the tanh of exponentials cancels. Relative error: 2.96 units of
// 2^-24 from here on, and 2.75 for tanhf of glibc, measured against double.
constexpr float kLeastByExp = 0.5f;

// Terms 0 .. n - 1, one after the other.
template <class Term>
float sum_of_terms(Order order, int64_t n, const Term& term) {
  Shuffled shuffled(n);
  float sum = 0;
  for (int64_t m = 0; m < n; ++m) {
    sum += term(order == Order::kDescending ? n - 1 - m
                : order == Order::kShuffled ? shuffled.next()
                                            : m);
  }
  return sum;
}

float dot_by_halves(const float* q, const float* k, int64_t step, int64_t n) {
  if (n == 1) {
    return q[0] * k[0];
  }
  const int64_t half = n / 2;
  return dot_by_halves(q, k, step, half) +
         dot_by_halves(q + half, k + half * step, step, n - half);
}

// Then pairs of lanes: (0+4, 1+5, 2+6, 3+7), (0+2, 1+3), the last two.
template <bool kFused>
float dot_in_lanes(const float* q, const float* k, int64_t step, int64_t n,
                   int lanes) {
  float lane[kMostLanes] = {};
  int at = 0;
  for (int64_t c = 0; c < n; ++c) {
    const float x = k[c * step];
    lane[at] = kFused ? std::fma(q[c], x, lane[at]) : lane[at] + q[c] * x;
    at = at + 1 == lanes ? 0 : at + 1;
  }
  for (int half = lanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) {
      lane[i] += lane[i + half];
    }
  }
  return lane[0];
}

}  // namespace

float RowEngine::dot_in_blocks(const float* k) const {
  const int64_t step = row_.k.step;
  float sum = 0;
  for (int64_t first = 0; first < row_.width; first += block_) {
    double products[kLargestBlock];
    int n = 0;
    for (; n < block_ && first + n < row_.width; ++n) {
      products[n] = double{row_.q[first + n]} * double{k[(first + n) * step]};
    }
    sum = block_sum(sum, products, n, extra_bits_, a_.cuts_down);
  }
  return sum;
}

// Products and partial sums in half.
float RowEngine::dot_kept(const float* k) const {
  constexpr Seeded kCut = Seeded::kTruncatedSums;
  const Storage type = a_.dot_sums;
  float sum = 0;
  for (int64_t c = 0; c < row_.width; ++c) {
    const float q = row_.q[c], x = k[c * row_.k.step];
    sum = in_half(
        type, a_.fma ? std::fma(q, x, sum) : sum + in_half(type, q * x, kCut),
        kCut);
  }
  return sum;
}

float RowEngine::dot(const float* k) const {
  const float* const q = row_.q;
  const int64_t step = row_.k.step, n = row_.width;
  if (block_ > 0) {
    return dot_in_blocks(k);
  }
  if (a_.operands != Storage::kF32) {
    return sum_of_terms(Order::kAscending, n, [&](int64_t c) {
      return round_to(a_.operands, q[c]) * round_to(a_.operands, k[c * step]);
    });
  }
  if (a_.dot_sums != Storage::kF32) {
    return dot_kept(k);
  }
  if (a_.root_scale) {
    return sum_of_terms(Order::kAscending, n, [&](int64_t c) {
      return q[c] * (k[c * step] * root_);
    });
  }
  if (a_.dot == Order::kHalves) {
    return dot_by_halves(q, k, step, n);
  }
  if (a_.fma && a_.dot == Order::kAscending) {
    return dot_in_lanes</*kFused=*/true>(q, k, step, n, a_.lanes);
  }
  return a_.lanes > 1 ? dot_in_lanes</*kFused=*/false>(q, k, step, n, a_.lanes)
                      : sum_of_terms(a_.dot, n, [&](int64_t c) {
                          return q[c] * k[c * step];
                        });
}

float RowEngine::hyperbolic_tangent(float x) const {
  const float size = std::fabs(x);
  if (a_.tanh == Tanh::kByExp) {
    return 1 - 2 / (std::exp(2 * x) + 1);
  }
  if (a_.tanh == Tanh::kByCoarseExp) {
    const float e = coarse_exp(-2 * size);
    const float t = (1 - e) / (1 + e);  // not 0 at 0, nor another one at -0
    return x < 0 ? -t : t;
  }
  if (a_.tanh == Tanh::kInF16) {
    return round_to(Storage::kF16, std::tanh(x));
  }
  return a_.tanh == Tanh::kByExpFromHalf && size >= kLeastByExp
             ? std::copysign(1 - 2 / (std::exp(2 * size) + 1), x)
             : std::tanh(x);
}

// The ALiBi term of the score of key number n.
float RowEngine::alibi(int64_t n) const {
  const float slope = row_.terms.slope;
  const int64_t at = row_.key(n), position = row_.position;
  const bool behind = at > position;
  switch (a_.alibi) {
    case Alibi::kDistance:
      break;
    case Alibi::kByPosition: {
      const double of_key = double{slope} * static_cast<double>(at);
      const double of_row = double{slope} * static_cast<double>(position);
      return static_cast<float>(behind ? of_row - of_key : of_key - of_row);
    }
    case Alibi::kShift:
      if (lse_shift_ != 0) {
        return slope * static_cast<float>(at);
      }
      break;
    case Alibi::kDifference: {
      const float of_key = slope * static_cast<float>(at);
      const float of_row = slope * static_cast<float>(position);
      return behind ? of_row - of_key : of_key - of_row;
    }
  }
  return -(slope * row_.distance(n));
}

float RowEngine::natural_score(float product, int64_t n) const {
  const ScoreTerms& terms = row_.terms;
  const bool biased = terms.bias != nullptr, sloped = terms.slope != 0;
  float s = product * scale_;
  if (cap_first_) {
    s = terms.softcap * hyperbolic_tangent(s / terms.softcap);
  }
  const bool divides = !cap_first_ && (biased || sloped);
  const float bias = biased ? terms.bias[n] : 0;
  if (a_.bias == Bias::kFirstInDouble && biased && terms.softcap == 0 &&
      scale_ >= kLeastScaleInDouble) {
    s = static_cast<float>(double{product} + double{bias} / double{scale_}) *
        scale_;
    s = sloped ? s + alibi(n) : s;
  } else if (a_.bias == Bias::kFirst && divides && scale_ > kLeastScale) {
    const float added = sloped ? bias + alibi(n) : bias;
    s = (product + added / scale_) * scale_;
  } else if (a_.bias == Bias::kTogether) {
    s = s + (sloped ? bias + alibi(n) : bias);
  } else {
    s = biased ? s + bias : s;
    s = sloped ? s + alibi(n) : s;
  }
  return terms.softcap > 0 && !cap_first_
             ? terms.softcap * hyperbolic_tangent(s / terms.softcap)
             : s;
}

// All terms of the exponent are in base 2.
float RowEngine::base2_score(float product, int64_t n) const {
  const ScoreTerms& terms = row_.terms;
  const bool sloped = terms.slope != 0;
  const bool prescaled = a_.exp == Exp::kPrescaled;
  float added = terms.bias != nullptr ? terms.bias[n] : 0;
  added = (sloped ? added + alibi(n) : added) * kLog2E;
  const float cap = terms.softcap * kLog2E;
  if (cap_first_) {
    const float x = prescaled ? product : product * (scale_ / terms.softcap);
    return cap * hyperbolic_tangent(x) + added;
  }
  const float s =
      prescaled ? product + added : std::fma(product, factor_, added);
  return cap > 0 ? cap * hyperbolic_tangent(s / cap) : s;
}

float RowEngine::option_score(float product, int64_t n) const {
  if (is_hidden(n) && a_.hidden != Hidden::kBiased) {
    return a_.hidden == Hidden::kReplaced ? -kInfinity : product * scale_;
  }
  return unit_ == Unit::kNatural ? natural_score(product, n)
                                 : base2_score(product, n);
}

void RowEngine::score() {
  if (a_.exp == Exp::kPrescaled) {
    const float by = cap_first_ ? scale_ / row_.terms.softcap : factor_;
    for (int64_t c = 0; c < row_.width; ++c) {
      row_.q[c] *= by;
    }
  }
  if (a_.scaled_q) {
    for (int64_t c = 0; c < row_.width; ++c) {
      row_.q[c] *= scale_;
    }
    scale_ = 1;
  }
  if (a_.root_scale) {
    root_ = std::sqrt(scale_);
    scale_ = 1;
    for (int64_t c = 0; c < row_.width; ++c) {
      row_.q[c] *= root_;
    }
  }
  const bool scaled = a_.exp != Exp::kFolded && a_.exp != Exp::kPrescaled;
  const float by = scaled                                            ? scale_
                   : a_.exp == Exp::kFolded && unit_ == Unit::kBase2 ? factor_
                                                                     : 1;
  for (int64_t n = 0; n < keys_; ++n) {
    const float raw = round_to(a_.scores, dot(row_.k.row(n)));
    // The sign of the scale goes to q, where it is exact.
    const float product = negative_ ? -raw : raw;
    const float score = options_ ? option_score(product, n) : product * by;
    // Without an operation in between, it is the same number.
    row_.scores[n] = round_to(a_.scores, score);
  }
}

}  // namespace qkvet::impl
