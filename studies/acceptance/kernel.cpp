// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/half.h"
#include "studies/acceptance/acceptance.h"

namespace qkvet::studies {
namespace {

// In lanes, so that it is fast although the compiler may not reorder sums.
float dot(const float* a, const float* b, int64_t count) {
  constexpr int kLanes = 8;
  std::array<float, kLanes> lane{};
  int64_t c = 0;
  for (; c + kLanes <= count; c += kLanes)
    for (int l = 0; l < kLanes; ++l)
      lane[static_cast<size_t>(l)] += a[c + l] * b[c + l];
  float sum = 0;
  for (; c < count; ++c) sum += a[c] * b[c];
  for (const float x : lane) sum += x;
  return sum;
}

std::vector<float> all_products(const CallData& call, const float* k) {
  const Shape& s = call.shape();
  std::vector<float> out(static_cast<size_t>(s.weights_elements()));
  float* at = out.data();
  for (int64_t row = 0; row < s.B * s.Tq; ++row)
    for (int64_t j = 0; j < s.Tk; ++j, ++at)
      *at = dot(call.q().data() + row * s.d, k + (row / s.Tq * s.Tk + j) * s.d,
                s.d);
  return out;
}

float rounded(Dtype dtype, float x) {
  if (dtype == Dtype::kF32) return x;
  return static_cast<float>(round_to(dtype, static_cast<double>(x)));
}

// sums = weights times the values of one head.
void add_values(const float* weights, int64_t keys, const float* v,
                std::vector<float>& sums) {
  std::fill(sums.begin(), sums.end(), 0.0f);
  const size_t width = sums.size();
  for (int64_t j = 0; j < keys; ++j) {
    const float weight = weights[j];
    if (weight == 0) continue;
    const float* row = v + static_cast<size_t>(j) * width;
    for (size_t t = 0; t < width; ++t) sums[t] += weight * row[t];
  }
}

}  // namespace

Kernel::Kernel(const CallData& call)
    : call_(call), products_(all_products(call, call.k().data())) {}

void Kernel::run_row(const Hooks& hooks, int64_t row,
                     std::vector<float>& weights, std::vector<float>& sums,
                     Output& out) const {
  const Shape& s = call_.shape();
  const auto scale =
      static_cast<float>(default_scale(s.d) * (1 + hooks.scale_error));
  // A row keeps one key, whatever the defect.
  const int64_t keys = std::clamp<int64_t>(
      call_.visible(row % s.Tq) + hooks.diagonal_shift - hooks.lost_keys, 1,
      s.Tk);
  const float* product = products_.data() + row * s.Tk;
  const auto score = [&](int64_t j) {
    return hooks.ignores_scores ? 0.0f : product[j] * scale;
  };
  float top = 0;
  if (hooks.subtracts_max) {
    top = hooks.pad_keys > 0 ? 0 : -std::numeric_limits<float>::infinity();
    for (int64_t j = 0; j < keys; ++j) top = std::max(top, score(j));
  }
  // Tile by tile: one long sum of nearly equal weights would lose digits.
  constexpr int64_t kTile = 64;
  float total = 0, of_tile = 0;
  for (int64_t j = 0; j < keys; ++j) {
    if (j % kTile == 0) total += std::exchange(of_tile, 0.0f);
    const auto times = static_cast<float>(j == 0 ? hooks.first_key_counts : 1);
    const float weight = std::exp(score(j) - top);
    of_tile += times * weight;
    weights[static_cast<size_t>(j)] = times * rounded(call_.dtype(), weight);
  }
  total += of_tile;
  total += static_cast<float>(hooks.pad_keys) * std::exp(-top);
  add_values(weights.data(), keys, call_.v().data() + row / s.Tq * s.Tk * s.dv,
             sums);
  for (const float sum : sums)
    out.o.push_back(static_cast<double>(rounded(call_.dtype(), sum / total)));
  out.lse.push_back(static_cast<double>(top + std::log(total)));
}

Output Kernel::run(const Hooks& hooks) const {
  const Shape& s = call_.shape();
  Output out;
  out.o.reserve(static_cast<size_t>(s.o_elements()));
  std::vector<float> weights(static_cast<size_t>(s.Tk));
  std::vector<float> sums(static_cast<size_t>(s.dv));
  for (int64_t row = 0; row < s.B * s.Tq; ++row)
    run_row(hooks, row, weights, sums, out);
  return out;
}

std::vector<double> framework_run(const CallData& call) {
  const Shape& s = call.shape();
  const Dtype dtype = call.dtype();
  const auto scale = static_cast<float>(default_scale(s.d));
  std::vector<float> k = call.k();
  for (float& x : k) x = rounded(dtype, x * scale);
  std::vector<float> scores = all_products(call, k.data());
  std::vector<float> sums(static_cast<size_t>(s.dv));
  std::vector<double> out;
  out.reserve(static_cast<size_t>(s.o_elements()));
  for (int64_t row = 0; row < s.B * s.Tq; ++row) {
    const int64_t keys = call.visible(row % s.Tq);
    float* p = scores.data() + row * s.Tk;
    for (int64_t j = 0; j < keys; ++j) p[j] = rounded(dtype, p[j]);
    const float top = *std::max_element(p, p + keys);
    float total = 0;
    for (int64_t j = 0; j < keys; ++j) total += p[j] = std::exp(p[j] - top);
    for (int64_t j = 0; j < keys; ++j) p[j] = rounded(dtype, p[j] / total);
    add_values(p, keys, call.v().data() + row / s.Tq * s.Tk * s.dv, sums);
    for (const float sum : sums)
      out.push_back(static_cast<double>(rounded(dtype, sum)));
  }
  return out;
}

}  // namespace qkvet::studies
