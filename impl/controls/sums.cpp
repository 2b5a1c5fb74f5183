// SPDX-License-Identifier: Apache-2.0
// The numbers of the engine: exponentials, quotients and logarithms, the
// rounding of P, and the sums over the keys of a tile in every order.
#include <cmath>
#include <cstdint>

#include "impl/controls/device.h"
#include "impl/controls/engine.h"
#include "impl/controls/poly_exp.h"
#include "impl/controls/shuffled.h"

namespace qkvet::impl {

float RowEngine::weight(float s, float max) const {
  if (a_.nan_weighs_nothing && std::isnan(s)) {
    return 0;
  }
  if (unit_ == Unit::kProduct) {
    const float x = std::fma(s, factor_, -(max * factor_));
    return a_.fast ? device_value(std::exp2(double{x}), 2) : std::exp2(x);
  }
  const float x = a_.exp == Exp::kBase2 ? (s - max) * kLog2E : s - max;
  if (a_.fast) {
    return device_value(
        unit_ == Unit::kBase2 ? std::exp2(double{x}) : std::exp(double{x}), 2);
  }
  switch (a_.exp) {
    case Exp::kNatural:
      return stored(std::exp(stored(x)));
    case Exp::kPolynomial:
      return poly_exp(x);
    case Exp::kCoarse:
      return coarse_exp(x);
    default:
      return std::exp2(x);
  }
}

float RowEngine::factor(float from, float to) const {
  if (from == to) {
    return 1;
  }
  if (unit_ != Unit::kProduct) {
    return weight(from, to);
  }
  const float x = (from - to) * factor_;
  return a_.fast ? device_value(std::exp2(double{x}), 2) : std::exp2(x);
}

float RowEngine::natural(float s) const {
  return unit_ == Unit::kProduct ? s * scale_
         : unit_ == Unit::kBase2 ? s * kLn2
                                 : s;
}

float RowEngine::log(float x) const {
  // Sums without a logarithm are treated as in a library.
  const bool normal = std::isnormal(x) && x > 0;
  if (a_.log == Log::kCoarse && normal) {
    return coarse_log(x);
  }
  return a_.fast ? device_log2(x) * kLn2 : stored(std::log(x));
}

float RowEngine::divided(float x, float sum) const {
  if (!a_.reciprocal) {
    return stored(x / sum);
  }
  return x * (a_.fast ? device_value(1 / double{sum}, 1) : 1 / sum);
}

float RowEngine::in_half(Storage type, float x, Seeded cuts) const {
  const float nearest = round_to(type, x);
  const bool cut = off_.has(cuts) && type != Storage::kF32 &&
                   std::fabs(nearest) > std::fabs(x);
  return cut ? from_half(type, static_cast<uint16_t>(to_half(type, x) - 1))
             : nearest;
}

float RowEngine::rounded_p(float p) const {
  return in_half(storage_, p, Seeded::kTruncatedP);
}

// Scores of a tile become weights in row.weights. A score that has overflowed
// to -infinity weighs nothing, even if no larger one was seen so far.
void RowEngine::weigh(const Group& tile, float max) const {
  float* const weights = row_.weights;
  for (int64_t m = tile.begin; m < tile.end; ++m) {
    const int64_t n = key(m);
    const bool nothing = max == -kInfinity && row_.scores[n] == max;
    const float w = nothing ? 0 : weight(row_.scores[n], max);
    weights[n] = p_ == P::kSummed ? rounded_p(w) : w;
  }
  if (a_.hidden == Hidden::kCleared) {
    for (int64_t m = tile.begin; m < tile.end; ++m) {
      const int64_t n = key(m);
      weights[n] = is_hidden(n) ? 0 : weights[n];
    }
  }
}

// Hidden keys have no number in their half, and add 0 there.
template <class Term>
float RowEngine::by_halves(const Group& terms, const Term& term) const {
  if (terms.count() == 1) {
    return term(key(terms.begin));
  }
  const int64_t middle = terms.first + (terms.last - terms.first) / 2;
  const int64_t m = visits_before(terms.begin, terms.end, middle);
  const Group low = {terms.begin, m, terms.first, middle};
  const Group high = {m, terms.end, middle, terms.last};
  if (low.count() == 0) {
    return by_halves(high, term);
  }
  return high.count() == 0 ? by_halves(low, term)
                           : by_halves(low, term) + by_halves(high, term);
}

// The denominator is a product with a column of ones.
float RowEngine::sum_in_blocks(const Group& tile, float start) const {
  int64_t m = tile.begin;
  for (int64_t first = tile.first; m < tile.end; first += block_) {
    const int64_t end = visits_before(m, tile.end, first + block_);
    double products[kLargestBlock];
    int n = 0;
    for (; m < end; ++m) {
      products[n++] = row_.weights[key(m)];
    }
    start = n > 0 ? block_sum(start, products, n, extra_bits_, a_.cuts_down)
                  : start;
  }
  return start;
}

// start + the weights of a tile.
float RowEngine::sum_of(const Group& tile, float start) const {
  const float* const weights = row_.weights;
  if (block_ > 0) {
    return sum_in_blocks(tile, start);
  }
  if (a_.value == Order::kHalves) {
    return start + by_halves(tile, [&](int64_t n) { return weights[n]; });
  }
  float sum = a_.tile_sum ? 0 : start;
  if (a_.value == Order::kShuffled) {
    Shuffled order(tile.count());
    for (int64_t m = 0; m < tile.count(); ++m) {
      sum += weights[order.next()];
    }
  } else {
    for (int64_t m = tile.begin; m < tile.end; ++m) {
      sum = round_to(a_.totals, sum + weights[key(m)]);
    }
  }
  return a_.tile_sum ? start + sum : sum;
}

// The same, kept in half.
void RowEngine::add_kept(float w, const float* v, float* acc) const {
  const int64_t step = row_.v.step;
  for (int64_t c = 0; c < row_.value_width; ++c) {
    const float x = v[c * step];
    acc[c] = kept(a_.fma ? std::fma(w, x, acc[c]) : acc[c] + kept(w * x));
  }
}

// acc[c] += w * v[c]
void RowEngine::add_value(int64_t n, float* acc) const {
  const float w =
      p_ == P::kStorage ? rounded_p(row_.weights[n]) : row_.weights[n];
  const float* const v = row_.v.row(n);
  const int64_t step = row_.v.step;
  if (a_.value_sums != Storage::kF32) {
    add_kept(w, v, acc);
  } else if (a_.operands != Storage::kF32) {
    for (int64_t c = 0; c < row_.value_width; ++c) {
      acc[c] += w * round_to(a_.operands, v[c * step]);
    }
  } else if (a_.fma) {
    for (int64_t c = 0; c < row_.value_width; ++c) {
      acc[c] = std::fma(w, v[c * step], acc[c]);
    }
  } else if (step == 1) {  // the same bits, and the compiler vectorises it
    for (int64_t c = 0; c < row_.value_width; ++c) {
      acc[c] += w * v[c];
    }
  } else {
    for (int64_t c = 0; c < row_.value_width; ++c) {
      acc[c] += w * v[c * step];
    }
  }
}

void RowEngine::add_blocks(const Group& tile, float* acc) const {
  int64_t m = tile.begin;
  for (int64_t first = tile.first; m < tile.end; first += block_) {
    const int64_t end = visits_before(m, tile.end, first + block_);
    float w[kLargestBlock];
    const float* v[kLargestBlock];
    int n = 0;
    for (; m < end; ++m, ++n) {
      const float weight = row_.weights[key(m)];
      w[n] = p_ == P::kStorage ? rounded_p(weight) : weight;
      v[n] = row_.v.row(key(m));
    }
    for (int64_t c = 0; n > 0 && c < row_.value_width; ++c) {
      double products[kLargestBlock];
      for (int i = 0; i < n; ++i) {
        products[i] = double{w[i]} * double{v[i][c * row_.v.step]};
      }
      acc[c] = block_sum(acc[c], products, n, extra_bits_, a_.cuts_down);
    }
  }
}

void RowEngine::add_values(const Group& tile, float* acc) const {
  if (block_ > 0) {
    add_blocks(tile, acc);
    return;
  }
  if (a_.value == Order::kHalves) {
    const bool rounds = p_ == P::kStorage;
    for (int64_t c = 0; c < row_.value_width; ++c) {
      acc[c] += by_halves(tile, [&](int64_t n) {
        const float w = row_.weights[n];
        return (rounds ? rounded_p(w) : w) * row_.v.row(n)[c * row_.v.step];
      });
    }
    return;
  }
  Shuffled order(tile.count());
  const bool shuffled = a_.value == Order::kShuffled;
  for (int64_t m = tile.begin; m < tile.end; ++m) {
    add_value(shuffled ? order.next() : key(m), acc);
  }
}

}  // namespace qkvet::impl
