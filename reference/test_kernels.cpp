// SPDX-License-Identifier: Apache-2.0
// Contraction is off in the whole project, so that `a * b + c` rounds twice
// here; std::fma rounds once.
#include "reference/test_kernels.h"

namespace qkvet {
float TestRow::weight(float s, float m) const {
  switch (exp_) {
    case TestExp::kExp:
      return flush(exponential(s - m));
    case TestExp::kExp2:
      return flush(exponential2((s - m) * kTestLog2E));
    case TestExp::kFolded:
      return flush(exponential2(std::fma(s, scale_log2_, -(m * scale_log2_))));
    case TestExp::kPrescaled:
      return flush(exponential2(s - m));
  }
  return 0;
}

float TestRow::factor(float from, float to) const {
  if (from == to) return 1;
  if (exp_ != TestExp::kFolded) return weight(from, to);
  return flush(exponential2((from - to) * scale_log2_));
}

float TestRow::natural(float x) const {
  if (exp_ == TestExp::kFolded) return x * scale_;
  return exp_ == TestExp::kPrescaled ? x * kTestLn2 : x;
}

float TestRow::pairwise_sum(const float* x, int64_t stride, int64_t n) const {
  if (n == 1) return x[0];
  const int64_t half = n / 2;
  return flush(pairwise_sum(x, stride, half) +
               pairwise_sum(x + half * stride, stride, n - half));
}

float TestRow::rounded_p(float p) const {
  const double nearest = round_to(kernel_.p_type, p);
  if (kernel_.fault != TestFault::kTruncatedP || nearest <= p) {
    return static_cast<float>(nearest);
  }
  // One unit in the last place lower, whatever the binade.
  const double unit = 2 * unit_roundoff(kernel_.p_type);
  return static_cast<float>(
      round_to(kernel_.p_type, nearest * (1 - 0.6 * unit)));
}

std::vector<float> TestRow::rounded_p(const std::vector<float>& p) const {
  std::vector<float> rounded = p;
  for (float& x : rounded) x = rounded_p(x);
  return rounded;
}

void TestRow::add_values(TestPart& part, const float* summed, const float* w,
                         int64_t first, int64_t last) const {
  const int64_t count = last - first;
  if (kernel_.block > 0) {
    add_blocks(part, summed, w, first, last);
    return;
  }
  if (kernel_.value == SumOrder::kPairwise) {
    std::vector<float> products(count * dv_);
    for (int64_t a = 0; a < count * dv_; ++a) {
      products[a] = flush(w[a / dv_] * v_[first * dv_ + a]);
    }
    const float all = pairwise_sum(summed, 1, count);
    part.sum = flush(part.sum + all);
    part.keys = flush(part.keys + all);
    for (int64_t t = 0; t < dv_; ++t) {
      part.o[t] = flush(part.o[t] + pairwise_sum(&products[t], dv_, count));
    }
    return;
  }
  // The normaliser of a tile is summed on its own, as vector kernels do.
  float tile_sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t a = kernel_.value == SumOrder::kAny ? count - 1 - i : i;
    tile_sum = flush(tile_sum + summed[a]);
    for (int64_t t = 0; t < dv_; ++t) {
      const float x = v_[(first + a) * dv_ + t];
      part.o[t] = flush(kernel_.fma ? std::fma(w[a], x, part.o[t])
                                    : part.o[t] + flush(w[a] * x));
    }
  }
  part.sum = flush(part.sum + tile_sum);
  part.keys = flush(part.keys + tile_sum);
}

void TestRow::absorb_tile(TestPart& part, int64_t first, int64_t last) const {
  float m = part.m;
  for (int64_t j = first; j < last; ++j) m = std::max(m, s_[j]);
  if (!std::isfinite(m)) return;  // nothing to see so far
  if (std::isfinite(part.m)) {
    const float gap = natural(m) - natural(part.m);
    if (gap <= static_cast<float>(kernel_.lazy)) m = part.m;
    const float rescale = factor(part.m, m);
    rescale_part(part, rescale);
  }
  part.m = m;
  std::vector<float> w(last - first);
  for (int64_t j = first; j < last; ++j) w[j - first] = weight(s_[j], m);
  if (kernel_.stage == TestStage::kSummed) w = rounded_p(w);
  const std::vector<float> p =
      kernel_.stage == TestStage::kUnnormalised ? rounded_p(w) : w;
  add_values(part, w.data(), p.data(), first, last);
  spoil_tile(part);
}

void TestRow::rescale_part(TestPart& part, float by) const {
  part.sum = flush(part.sum * by);
  part.keys = flush(part.keys * by);
  for (float& x : part.o) x = flush(x * by);
}

void TestRow::spoil_tile(TestPart& part) const {
  if (kernel_.fault == TestFault::kRoundedTile) {
    for (float& x : part.o) x = stored(x);
  }
  if (kernel_.fault == TestFault::kRoundedTotal) part.sum = stored(part.sum);
}

TestPart TestRow::part(int64_t first, int64_t last) const {
  TestPart part;
  part.o.assign(dv_, 0.0f);
  if (sink_ && kernel_.sink == TestSink::kFirst && kernel_.splits == 1) {
    part.m = *sink_;
    part.sum = 1;
  }
  const int64_t tile = kernel_.tile > 0 ? kernel_.tile : last - first;
  for (int64_t j = first; j < last; j += tile) {
    absorb_tile(part, j, std::min(j + tile, last));
  }
  return part;
}

TestPart TestRow::merged(const std::vector<TestPart>& parts) const {
  TestPart all = parts[0];
  if (kernel_.merge == Merge::kMlo) {
    for (size_t i = 1; i < parts.size(); ++i) {
      const float m = std::max(all.m, parts[i].m);
      const float a = factor(all.m, m);
      const float b = factor(parts[i].m, m);
      all.m = m;
      all.sum = flush(flush(all.sum * a) + flush(parts[i].sum * b));
      all.keys = all.sum;
      for (int64_t t = 0; t < dv_; ++t) {
        all.o[t] = flush(flush(all.o[t] * a) + flush(parts[i].o[t] * b));
      }
    }
  }
  if (kernel_.merge == Merge::kLse) {
    std::vector<float> lse;
    lse.reserve(parts.size());
    for (const TestPart& p : parts) {
      lse.push_back(natural(p.m) + logarithm(p.sum));
    }
    if (sink_) lse.push_back(natural(*sink_));
    const float top = *std::max_element(lse.begin(), lse.end());
    float sum = 0;
    float keys = 0;
    for (size_t i = 0; i < lse.size(); ++i) {
      sum += std::exp(lse[i] - top);
      if (i < parts.size()) keys = sum;
    }
    const float total = top + logarithm(sum);
    std::fill(all.o.begin(), all.o.end(), 0.0f);
    for (size_t i = 0; i < parts.size(); ++i) {
      const float w = flush(std::exp(lse[i] - total));
      for (int64_t t = 0; t < dv_; ++t) {
        const float o = divided(parts[i].o[t], parts[i].sum);
        all.o[t] = flush(all.o[t] + flush(w * o));
      }
    }
    all.m = total;
    all.sum = 1;
    all.lse = with_sink_in_lse_ ? total : top + logarithm(keys);
  }
  return all;
}

// The sink as a part of its own, of value 0.
void TestRow::absorb_sink(TestPart& all) const {
  const float m = std::max(all.m, *sink_);
  // Beyond this, a weight against a maximum that is not its own overflows.
  constexpr float kFar = 60;
  const bool near = natural(m) - natural(all.m) < kFar;
  if (kernel_.sink == TestSink::kAdded && near && exp_ != TestExp::kFolded) {
    all.sum = flush(all.sum + weight(*sink_, all.m));
    return;
  }
  rescale_part(all, factor(all.m, m));
  all.sum = flush(all.sum + factor(*sink_, m));
  all.m = m;
}

void TestRow::run_normalised_first(TestOutput& out) {
  float m = s_[0];
  for (float s : s_) m = std::max(m, s);
  const float of_keys = m;
  if (sink_) m = std::max(m, *sink_);
  std::vector<float> w(n_);
  for (int64_t j = 0; j < n_; ++j) w[j] = weight(s_[j], m);
  TestPart sums;
  sums.o.assign(dv_, 0.0f);
  if (std::isfinite(of_keys)) add_values(sums, w.data(), w.data(), 0, n_);
  if (sink_) sums.sum = flush(sums.sum + weight(*sink_, m));
  for (float& x : w) x = divided(x, sums.sum);
  if (kernel_.stage == TestStage::kNormalised) w = rounded_p(w);
  TestPart result;
  result.o.assign(dv_, 0.0f);
  add_values(result, w.data(), w.data(), 0, n_);
  for (int64_t t = 0; t < dv_; ++t) out.o[row_ * dv_ + t] = result.o[t];
  for (int64_t j = 0; j < n_; ++j) {
    if (hidden_[j] == 0) out.weights[row_ * Tk_ + keys_[j]] = stored(w[j]);
  }
  const float sum = with_sink_in_lse_ ? sums.sum : sums.keys;
  out.lse[row_] = natural(m) + logarithm(sum) - lse_shift_;
}

void TestRow::run(TestOutput& out) {
  if (kernel_.norm_first) {
    run_normalised_first(out);
    return;
  }
  std::vector<TestPart> parts;
  const int64_t size = (n_ + kernel_.splits - 1) / kernel_.splits;
  for (int64_t j = 0; j < n_; j += size) {
    const TestPart one = part(j, std::min(j + size, n_));
    if (std::isfinite(one.m)) parts.push_back(one);
  }
  if (parts.empty()) return;
  TestPart all = merged(parts);
  const bool by_lse = kernel_.merge == Merge::kLse;
  const bool started = kernel_.sink == TestSink::kFirst && kernel_.splits == 1;
  if (sink_ && !by_lse && !started) absorb_sink(all);
  for (int64_t t = 0; t < dv_; ++t) {
    out.o[row_ * dv_ + t] = by_lse ? all.o[t] : divided(all.o[t], all.sum);
  }
  const float sum = with_sink_in_lse_ ? all.sum : all.keys;
  out.lse[row_] =
      (by_lse ? all.lse : natural(all.m) + logarithm(sum)) - lse_shift_;
  for (int64_t j = 0; j < n_; ++j) {
    if (hidden_[j] != 0) continue;
    const float w = by_lse ? std::exp(natural(s_[j]) - all.m)
                           : divided(rounded_p(weight(s_[j], all.m)), all.sum);
    out.weights[row_ * Tk_ + keys_[j]] = stored(flush(w));
  }
}

TestOutput run_test_kernel(const TestKernel& kernel, const Problem& problem) {
  const Shape& s = problem.shape;
  TestOutput out;
  out.o.assign(s.o_elements(), std::nan(""));
  out.lse.assign(s.lse_elements(), -HUGE_VAL);
  out.weights.assign(s.weights_elements(), 0.0);
  for (int64_t row = 0; row < s.lse_elements(); ++row) {
    const TestSeen seen = test_seen(problem, row);
    if (!seen.counted) out.lse[row] = std::nan("");
    if (seen.keys.empty()) continue;
    TestRow(kernel, problem, row, row / (s.group() * s.Tq), seen).run(out);
  }
  return out;
}

}  // namespace qkvet
