// SPDX-License-Identifier: Apache-2.0
// The last products of a gradient, sums over keys or rows in any order
// (bounds.md, "Gradients").
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/gradient/gradient_impl.h"

namespace qkvet::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

double any_order(double added, double largest, double A, double n,
                 double per_term, double u) {
  const double growth = 1 - 2 * (n + 2) * u;
  if (!(growth >= 0.5)) return kInfinity;
  return (std::max(0.0, added - largest) + per_term * u * A) / growth;
}

GradientSums::GradientSums(int64_t rows, int64_t width)
    : rows_(rows),
      width_(width),
      spoilt_(rows),
      count_(rows),
      sizes_(rows),
      size_(rows * width),
      drift_(rows * width),
      exact_(rows * width),
      limit_(rows * width),
      added_(rows * width),
      largest_(rows * width) {}

void GradientSums::measure(int64_t row, double a, double b, double a_exact,
                           const double* x, const double* x_off) {
  double* __restrict size = size_.data() + row * width_;
  double* __restrict drift = drift_.data() + row * width_;
  double* __restrict exact = exact_.data() + row * width_;
  double largest = 0;
  for (int64_t c = 0; c < width_; ++c) {
    const double abs = std::fabs(x[c]);
    size[c] += a * abs;
    drift[c] += b * abs;
    exact[c] += a_exact * abs;
    largest = abs > largest ? abs : largest;
  }
  for (int64_t c = 0; x_off != nullptr && c < width_; ++c) {
    size[c] += a * x_off[c];
    drift[c] += (a_exact + b) * x_off[c];
  }
  count_[row] += 1;
  sizes_[row] += a + largest;
}

void GradientSums::limit(const double* truth, double c, double u) {
  for (int64_t e = 0; e < rows_ * width_; ++e) {
    const double sum = c > 0 ? std::fabs(truth[e]) / c : 0;
    limit_[e] = u * (size_[e] + sum + drift_[e]) / 2;
  }
}

void GradientSums::add(int64_t row, double a, const double* x,
                       const double* x_off) {
  const double* __restrict limit = limit_.data() + row * width_;
  double* __restrict added = added_.data() + row * width_;
  double* __restrict largest = largest_.data() + row * width_;
  for (int64_t c = 0; c < width_; ++c) {
    const double off = x_off != nullptr ? x_off[c] : 0;
    const double term = a * (std::fabs(x[c]) + off);
    const double leaf = term < limit[c] ? term : limit[c];
    added[c] += leaf;
    largest[c] = leaf > largest[c] ? leaf : largest[c];
  }
}

void GradientSums::finish(const double* truth, double c, double c_off,
                          double per_term, const GradientModel& m,
                          double* bound, double* reach) const {
  const double u = m.model.u;
  const double grown = std::max(1.0, c);
  for (int64_t e = 0; e < rows_ * width_; ++e) {
    const int64_t row = e / width_;
    reach[e] = c * exact_[e];
    bound[e] = spoilt_[row] != 0 ? kInfinity : 0;
    // No term at all: 0 for every kernel.
    if (spoilt_[row] != 0 || count_[row] == 0) continue;
    const double n = count_[row];
    const double A = size_[e];
    const double error =
        c * (drift_[e] + any_order(added_[e], largest_[e], A, n, per_term, u));
    const double floor =
        m.lambda * (grown * (4 * n + 4 + 3 * sizes_[row]) +
                    (c < m.model.range.least_normal() ? A : 0));
    const double evaluation = 1 + m.model.range.evaluation_u * (4 * n + 64);
    double total = error * second_order(u) * evaluation + floor;
    total += c_off * (std::fabs(truth[e]) + total);
    // Sums of tensor cores have no derivation here.
    const bool safe = grown * A <= m.model.range.largest_safe &&
                      std::fabs(truth[e]) + total < m.model.output_largest &&
                      m.model.block_u == 0;
    bound[e] = safe ? total : kInfinity;
  }
}

}  // namespace qkvet::reference
