// SPDX-License-Identifier: Apache-2.0
// How far a projection may be from x W + b (bounds.md, "A linear stage"). The
// loops over the columns of a row are written to be vectorised.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/power_of_two.h"
#include "reference/arithmetic/linear.h"
#include "reference/bound/bound_impl.h"

namespace qkvet::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Significant bits of a factor with unknown products.
constexpr int kUnknownBits = 1 << 10;

// Bits that a factor adds to the significant bits of a product: none if it is
// zero or a power of two.
int product_bits(double x, int lowest) {
  if (x == 0) return 0;
  if (!std::isfinite(x)) return kUnknownBits;
  const int bits = std::ilogb(x) - lowest + 1;
  return bits == 1 ? 0 : bits;
}

// Facts about the matrix that all rows share.
struct MatrixFacts {
  explicit MatrixFacts(const LinearProblem& problem)
      : grid(problem.in * problem.out),
        bits(problem.in * problem.out),
        column_sum(problem.out) {
    for (int64_t a = 0; a < problem.in * problem.out; ++a) {
      grid[a] = lowest_bit(problem.w[a]);
      bits[a] = product_bits(problem.w[a], grid[a]);
      column_sum[a % problem.out] += std::fabs(problem.w[a]);
    }
  }
  std::vector<int> grid;           // [in,out]
  std::vector<int> bits;           // [in,out]
  std::vector<double> column_sum;  // [out] sum_i |w_ij|
};

// Every vector that a row needs, per column.
struct RowFacts {
  explicit RowFacts(int64_t out)
      : reach(out),
        sum(out),
        inexact(out),
        drift(out),
        limit(out),
        added(out),
        largest(out),
        grid(out),
        lowest(out) {}
  double x_sum = 0;             // sum_i |x_i|, as read
  std::vector<double> reach;    // A of the problem itself
  std::vector<double> sum;      // A, as read
  std::vector<double> inexact;  // P
  std::vector<double> drift;    // sum_i dx_i |w_ij|
  std::vector<double> limit;    // u M
  std::vector<double> added;    // sum min(u M, t)
  std::vector<double> largest;  // max min(u M, t)
  std::vector<int> grid;        // lowest bit of all products and of the bias
  std::vector<int> lowest;      // and of their factors
};

class LinearRows {
 public:
  LinearRows(const LinearProblem& problem, const PrecisionModel& model,
             const double* x_error)
      : problem_(problem),
        model_(model),
        x_error_(x_error),
        matrix_(problem),
        row_(problem.out),
        fitting_bits_(static_cast<int>(std::floor(-std::log2(model.u)))) {}

  // Fills the bound and the reach of row `r`; `oracle` is that row.
  void run(int64_t r, const double* oracle, double* bound, double* reach);

 private:
  double x_size(int64_t r, int64_t i) const {
    return std::fabs(problem_.x[r * problem_.in + i]) + x_off(r, i);
  }
  double x_off(int64_t r, int64_t i) const {
    return x_error_ != nullptr ? x_error_[r * problem_.in + i] : 0;
  }
  void start_row();
  void add_magnitudes(int64_t r, int64_t i);
  void add_terms(int64_t r);
  double element(double oracle, int64_t j) const;

  const LinearProblem& problem_;
  const PrecisionModel& model_;
  const double* x_error_;
  MatrixFacts matrix_;
  RowFacts row_;
  int fitting_bits_;  // -log2 u
};

// The bias is a term like the products, but nothing rounds it.
void LinearRows::start_row() {
  row_.x_sum = 0;
  for (auto* zeroed : {&row_.inexact, &row_.drift}) {
    std::fill(zeroed->begin(), zeroed->end(), 0.0);
  }
  for (int64_t j = 0; j < problem_.out; ++j) {
    const double b = problem_.bias != nullptr ? problem_.bias[j] : 0;
    row_.reach[j] = row_.sum[j] = std::fabs(b);
    row_.grid[j] = row_.lowest[j] = lowest_bit(b);
  }
}

void LinearRows::add_magnitudes(int64_t r, int64_t i) {
  const double value = problem_.x[r * problem_.in + i];
  const double off = x_off(r, i);
  const double size = x_size(r, i);
  row_.x_sum += size;
  if (size == 0) return;
  const int x_grid = lowest_bit(value);
  const int x_bits = off == 0 ? product_bits(value, x_grid) : kUnknownBits;
  const double* __restrict w = problem_.w + i * problem_.out;
  const int* __restrict w_grid = matrix_.grid.data() + i * problem_.out;
  const int* __restrict w_bits = matrix_.bits.data() + i * problem_.out;
  double* __restrict reach = row_.reach.data();
  double* __restrict sum = row_.sum.data();
  double* __restrict inexact = row_.inexact.data();
  double* __restrict drift = row_.drift.data();
  int* __restrict grid = row_.grid.data();
  int* __restrict lowest = row_.lowest.data();
  for (int64_t j = 0; j < problem_.out; ++j) {
    const double w_size = std::fabs(w[j]);
    const double term = size * w_size;
    const int g = x_grid + w_grid[j];
    reach[j] += std::fabs(value) * w_size;
    sum[j] += term;
    drift[j] += off * w_size;
    inexact[j] += x_bits + w_bits[j] > fitting_bits_ ? term : 0;
    grid[j] = std::min(grid[j], g);
    lowest[j] = std::min({lowest[j], g, x_grid, w_grid[j]});
  }
}

// added = sum min(u M, t), largest = max min(u M, t).
void LinearRows::add_terms(int64_t r) {
  const double* __restrict limit = row_.limit.data();
  double* __restrict added = row_.added.data();
  double* __restrict largest = row_.largest.data();
  for (int64_t j = 0; j < problem_.out; ++j) {
    const double b = problem_.bias != nullptr ? std::fabs(problem_.bias[j]) : 0;
    added[j] = largest[j] = std::min(limit[j], b);
  }
  for (int64_t i = 0; i < problem_.in; ++i) {
    const double size = x_size(r, i);
    if (size == 0) continue;
    const double* __restrict w = problem_.w + i * problem_.out;
    for (int64_t j = 0; j < problem_.out; ++j) {
      const double term = size * std::fabs(w[j]);
      const double leaf = term < limit[j] ? term : limit[j];
      added[j] += leaf;
      largest[j] = leaf > largest[j] ? leaf : largest[j];
    }
  }
}

double LinearRows::element(double oracle, int64_t j) const {
  const double u = model_.u;
  const auto n = static_cast<double>(problem_.in);
  const double A = row_.sum[j];
  const double drift = row_.drift[j];
  const double blocks = block_cost(model_, problem_.in + 1, problem_.in + 1);
  const double growth = 1 - 2 * ((n + 1) * u + blocks);
  // Not <, so that a NaN is not judged.
  if (!(A <= model_.range.largest_safe) || !(growth >= 0.5)) return kInfinity;
  const int least = model_.range.lambda_exponent(model_.ftz);
  const bool exact =
      drift == 0 && row_.lowest[j] >= least &&
      (A == 0 || A * exact_u(model_) <= power_of_two(row_.grid[j]));
  double bound = 0;
  if (!exact) {
    const double lambda = model_.range.lambda(model_.ftz);
    const double additions = blocks > 0 ? blocks * (row_.limit[j] / u)
                                        : row_.added[j] - row_.largest[j];
    const double e = (u * row_.inexact[j] + additions) / growth +
                     lambda * (2 * n + 3 + row_.x_sum + matrix_.column_sum[j]);
    bound = drift + e * second_order(u) + (n + 2) * kOracleU * A;
  }
  return std::fabs(oracle) + bound < model_.output_largest ? bound : kInfinity;
}

void LinearRows::run(int64_t r, const double* oracle, double* bound,
                     double* reach) {
  start_row();
  for (int64_t i = 0; i < problem_.in; ++i) add_magnitudes(r, i);
  for (int64_t j = 0; j < problem_.out; ++j) {
    reach[j] = row_.reach[j];
    const double M = (row_.sum[j] + std::fabs(oracle[j]) + row_.drift[j]) / 2;
    row_.limit[j] = model_.u * M;
  }
  add_terms(r);
  for (int64_t j = 0; j < problem_.out; ++j) bound[j] = element(oracle[j], j);
}

}  // namespace

LinearBound linear_bound(const LinearProblem& problem,
                         const std::vector<double>& oracle,
                         const PrecisionModel& model, const double* x_error) {
  LinearBound result;
  result.bound.resize(problem.rows * problem.out);
  result.reach.resize(problem.rows * problem.out);
  LinearRows rows(problem, model, x_error);
  for (int64_t r = 0; r < problem.rows; ++r) {
    const int64_t first = r * problem.out;
    rows.run(r, oracle.data() + first, result.bound.data() + first,
             result.reach.data() + first);
  }
  return result;
}

}  // namespace qkvet::reference
