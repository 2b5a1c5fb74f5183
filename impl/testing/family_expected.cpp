// SPDX-License-Identifier: Apache-2.0
// Attention in double for calls without options, row by row.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "impl/testing/family_fixture.h"

namespace qkvet::impl {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void expect_row(const Call& call, int64_t b, int64_t h, int64_t i,
                Expected* out) {
  const Problem& p = call.problem;
  const int64_t kv = h / (p.heads / p.kv_heads), n = p.visible(i);
  std::vector<double> w(static_cast<size_t>(n));
  double max = -kInfinity, sum = 0;
  for (int64_t j = 0; j < n; ++j) {
    double dot = 0;
    for (int64_t c = 0; c < p.width; ++c) {
      dot += double(call.q.at(b, h, i, c)) * double(call.k.at(b, kv, j, c));
    }
    w[size_t(j)] = dot * double(p.effective_scale());
    max = std::max(max, w[size_t(j)]);
    out->largest_score = std::max(out->largest_score, std::fabs(w[size_t(j)]));
  }
  for (double& x : w) {
    sum += x = std::exp(x - max);
  }
  for (int64_t c = 0; c < p.value_width; ++c) {
    double o = 0;
    for (int64_t j = 0; j < n; ++j) {
      const double v = double(call.v.at(b, kv, j, c));
      o += w[size_t(j)] * v;
      out->largest_value = std::max(out->largest_value, std::fabs(v));
    }
    out->outputs.push_back(n > 0 ? o / sum : 0);
  }
  out->outputs.push_back(n > 0 ? max + std::log(sum) : -kInfinity);
}

}  // namespace

Expected expected_of(const Call& call) {
  Expected expected;
  const Problem& p = call.problem;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.heads; ++h) {
      for (int64_t i = 0; i < p.queries; ++i) {
        expect_row(call, b, h, i, &expected);
      }
    }
  }
  return expected;
}

}  // namespace qkvet::impl
